/*
 * kernels.h: the arguments of kernels, which panel.c and carried.c fill in, and the table of
 * kernels of an instruction set.
 *
 * Two shapes of work cover every tensor:
 *
 *   rows     the sequence is contiguous in memory, possibly with `inner` interleaved columns (a
 *            narrow matrix). A vector holds several consecutive positions; lanes exchange totals by
 *            the tables of lanes.h. Packed, many short sequences side by side, is the same without
 *            an exchange between vectors.
 *   columns  `cols` neighbouring sequences, one lane each; a vector never exchanges lanes.
 *
 * A kernel sees pointers, strides and counts. Storage is the element type in memory. A lane is the
 * type that is computed with: f32 for f16, bf16 and f32; f64 for f64 and for f32 with an f64
 * accumulator; 32- or 64-bit integers for integers, which wrap when they are stored.
 */
#ifndef SF_CPU_KERNELS_H
#define SF_CPU_KERNELS_H

#include "core/order.h"
#include "core/step.h"
#include "cpu/cpu.h"
#include "cpu/lanes.h"
#include "cpu/map.h"

/* If this many bytes or more are moved, results are written around the cache, because they would
 * evict each other before anyone reads them. Lines shorter than SF_CPU_STREAM_LINE, unless they are
 * whole cache lines, would leave too many cache lines half written. */
#define SF_CPU_STREAM_BYTES (8 << 20)
#define SF_CPU_STREAM_LINE 1024

/* How many rows a row kernel walks side by side: memory serves several streams faster than one. */
#define SF_CPU_GROUP 4
/* The same for a fold, which writes nothing, if there are counters for that many rows. */
#define SF_CPU_FOLD_GROUP 8

/* Rows of fewer than 2^this vectors may have two sums folded together (sf_rows.sums). */
#define SF_CPU_BOTH_LEVELS 6

/* The tile of every row kernel, in vectors, divides this. So a kernel can resume after this many
 * vectors times a power of two. It is the largest fold tile: 16 vectors of 16 lanes. */
#define SF_CPU_TILE_VECTORS 16

/* What is to the left of a piece of a sequence. Entries are whole vectors (rows) or arrays of
 * `cols` lanes (columns). They are combined on the left in turn, after the counter's own entries:
 * totals of earlier blocks, lowest first, then the initial value. */
typedef struct sf_carry {
        int32_t count;
        const char *entries;
        int64_t entry_stride; /* bytes from one entry to the next */
        /* exclusive scans: the value before the first element. After a call with resume, it is the
         * value before the next element; after other calls it is undefined. */
        char *fill;
} sf_carry;

/* The number of the first element, the difference to the next row's, and the difference (1 or -1)
 * from one position to the next. Used by folds that are not packed; in packed folds and in scans,
 * numbers are stored beside the elements. */
typedef struct sf_numbers {
        int64_t at, row, step;
} sf_numbers;

/* What a fold makes of each element before it combines it. In this order: subtracts the centre of
 * its line, replaces NaN by the identity, takes the magnitude, squares. Each is rounded. */
typedef struct sf_prelude {
        bool on; /* else nothing */
        const char *centre; /* an element for each line; NULL: none. Columns': contiguous */
        int64_t centre_row; /* bytes from one row's to the next */
        bool skips, magnitude, square;
} sf_prelude;

typedef struct sf_rows {
        const char *x; /* the sequence's first element, of the first row */
        char *y;
        const uint8_t *m;             /* NULL: no mask. Laid out as x, one byte for each element */
        int64_t x_row, y_row, m_row;  /* bytes from row to row */
        int64_t rows;
        /* positions of the sequence in this call; each has lanes->inner elements. With segments: no
         * segment has more */
        int64_t n;
        int64_t start; /* first position: 0, or a multiple of SF_CPU_TILE_VECTORS vectors */
        /* counters and fills stay with the caller; rows <= SF_CPU_GROUP, folds SF_CPU_FOLD_GROUP */
        bool resume;
        bool exclusive;
        bool stream; /* write around the cache */
        /* y is scratch. scan_rows writes lanes there, not rounded to storage; only full vectors of
         * values of one component. fold_rows writes a vector of values for each row, its total in
         * every position */
        bool raw;
        bool wide; /* folds: results are written as lanes, not rounded to storage */
        sf_prelude lift; /* only of kernels that say so */
        /* NULL, or where the sums of the elements go that are lifted but not squared, as y is laid
         * out: only if `lift` squares, of kernels that have `products`, and of rows of fewer than
         * 2^SF_CPU_BOTH_LEVELS vectors */
        char *sums;
        sf_value identity;
        uint64_t turn; /* as in sf_cpu_kernels */
        int64_t beside; /* if elements have two parts: bytes from x to the second one */
        sf_numbers numbers;
        /* prefetch this many bytes further on; only a hint. More than SF_CPU_FAR: other memory */
        int64_t ahead;
        const sf_lanes *lanes;
        const sf_carry *carry; /* the first row's; NULL: nothing to the left */
        int64_t carry_row;     /* 0: the same for all rows, 1: one each */
        const sf_carry *common; /* carry_rows: entries that all rows combine after their own */
        char *counters;        /* SF_ORDER_LEVELS vectors for SF_CPU_GROUP rows, or all if resume */
        /* folds: how many rows have counters, at most SF_CPU_FOLD_GROUP; 0: SF_CPU_GROUP */
        int32_t slots;
} sf_rows;

#define SF_CPU_FAR (64 << 10)

/* How far ahead to prefetch rows, read `many` at a time: if they are short, the next group. */
static inline int64_t sf_rows_ahead(const sf_rows *j, int64_t bytes, int many)
{
        const int64_t past = many * j->x_row;
        return bytes <= j->ahead && past > j->ahead ? past : j->ahead;
}

typedef struct sf_columns {
        const char *x;
        char *y; /* folds: the totals, `cols` elements; NULL with resume */
        const uint8_t *m;
        int64_t x_step, y_step, m_step; /* bytes from one position of the sequence to the next */
        int64_t cols;
        int64_t n;
        int64_t start; /* the number of the first position: 0, or a multiple of SF_CPU_TILE_ROWS */
        bool resume;
        bool exclusive, stream;
        bool raw; /* folds: y is scratch and gets values, in whole vectors, not rounded */
        bool wide;
        sf_prelude lift;
        sf_value identity;
        uint64_t turn;
        int64_t beside;
        sf_numbers numbers;
        int64_t ahead;
        const sf_carry *carry; /* NULL: nothing to the left */
        char *counters;        /* entry k: `cols` lanes at counters + k * counter_stride */
        int64_t counter_stride;
} sf_columns;

/*
 * Whole tiles of a sum of products of x and w, along rows or columns that are contiguous in both,
 * except with `spread`. If `sums` is not NULL, w is one centre for each line instead: the squares
 * of x - w are summed, and the differences x - w in `sums`.
 */
typedef struct sf_products {
        const char *x, *w;
        int64_t x_step, w_step; /* bytes to the next row; columns: to the next position */
        int64_t many;  /* rows, at most SF_CPU_GROUP; or columns */
        int64_t n;     /* a multiple of SF_CPU_TILE_VECTORS vectors; columns: of SF_CPU_TILE_ROWS */
        int64_t start; /* the number of the first position, also such a multiple */
        bool spread;   /* columns: w has one element for each position, the same for all columns */
        int64_t x_ahead, w_ahead; /* bytes to prefetch ahead; columns use x_ahead only */
        const sf_lanes *lanes;
        char *counters; /* as fold_rows and fold_columns use them with resume */
        char *sums;     /* counters of the same kind, or NULL */
        int64_t counter_stride;
} sf_products;

/* Rows of a narrow matrix, back to back, as one run of memory. The carries of its columns are
 * repeated until they fill a whole number of vectors. */
typedef struct sf_run {
        const char *x; /* elements that a scan without carries wrote */
        char *y;
        uint64_t turn;
        int64_t count;    /* elements */
        int32_t entries;  /* combined on the left in turn */
        int64_t period;   /* vectors (at least 4) after which entries repeat; 4 more follow them */
        const char *table; /* of `entries` times period + 4 vectors */
        const char *base; /* an address where a period would begin; y's vectors are aligned to it */
        bool stream;
        const char *next; /* prefetched, because it is read soon */
} sf_run;

/* scan_segments and fold_segments get at most SF_CPU_RAGGED_CUTS segments and the elements of
 * SF_CPU_RAGGED_BLOCK vectors in a call, and may read SF_CPU_RAGGED_ROOM bounds beyond the last. */
#define SF_CPU_RAGGED_CUTS 1024
#define SF_CPU_RAGGED_BLOCK 512
#define SF_CPU_RAGGED_VECTORS (SF_CPU_RAGGED_CUTS + SF_CPU_RAGGED_BLOCK)
#define SF_CPU_RAGGED_ROOM 64
/* The most vectors of a segment, except in folds by halves. For longer ones a call of its own costs
 * little. */
#define SF_CPU_RAGGED_LONG 32

/* The positions of a column kernel's tile divide this. */
#define SF_CPU_TILE_ROWS 8

/* Vectors in the tile of a row fold where rows are not contiguous or a larger tile gains nothing.
 * For a narrow matrix, it is large enough that the counter is seldom used. */
#define SF_CPU_NARROW_TILE 8

/* The totals stay in the counters. fold_rows or fold_columns then finishes the fold. */
typedef struct sf_cpu_products {
        void (*rows)(const sf_products *);
        void (*columns)(const sf_products *);
} sf_cpu_products;

/* The kernels of one storage type and operation. */
typedef struct sf_cpu_kernels {
        int32_t lane_bytes;
        int32_t width; /* lanes in a vector; 0: there are no kernels */
        int32_t result_bytes; /* bytes of a stored result */
        int32_t parts; /* components of a value, each as wide as a lane */
        uint64_t turn; /* bits to invert between elements and values: makes min a max */
        uint64_t signs; /* the sign bits of narrow elements in 8 bytes, if those are widened */
        bool free;     /* any grouping gives the same bits: carries may be combined into one */
        bool two;      /* elements have two parts */
        bool lifts;    /* folds may be given a lift */
        int32_t (*fold_tile)(const sf_lanes *); /* vectors in fold_rows' tile */
        void (*scan_rows)(const sf_rows *);
        /* x of `now` is what a raw scan_rows wrote: adds the carries and writes y. Meanwhile scans
         * `next`, unless it is NULL, into scratch that may be the same: a tile there is overwritten
         * after it has been read. Rows are leaves of an aligned block of SF_CPU_GROUP: row r has
         * one entry of its own for each bit set in r, one after another. NULL where it does not
         * pay: then a chunk is folded first. */
        void (*carry_rows)(const sf_rows *now, const sf_rows *next);
        void (*carry_run)(const sf_run *); /* NULL if elements are converted to lanes */
        /* NULL if lanes are too narrow for anything but whole rows and columns, and in portable
         * kernels */
        void (*scan_packed)(const sf_rows *);
        void (*scan_columns)(const sf_columns *);
        void (*fold_rows)(const sf_rows *);
        void (*fold_packed)(const sf_rows *);
        /* `count` whole segments, each of at most SF_CPU_RAGGED_LONG vectors (folds: fold_long):
         * positions bound[i] to bound[i + 1] - 1 of the only row. A fold writes their results to y
         * back to back, those of empty segments too. NULL where elements are converted to lanes,
         * and in portable kernels. */
        void (*scan_segments)(const sf_rows *, const int32_t *bound, int64_t count);
        void (*fold_segments)(const sf_rows *, const int32_t *bound, int64_t count);
        void (*fold_columns)(const sf_columns *);
        const sf_cpu_products *products; /* folds of products, or NULL */
        /* values[0 .. count) = value. A value in scratch memory takes `parts` lanes. Of each
         * vector, all first components come before all second ones. */
        void (*fill)(void *values, int64_t count, sf_value value);
        /* a[i] = a[i] combined with b[i], which is on the right */
        void (*combine)(void *a, const void *b, int64_t count);
        /* elements[0 .. count) = the values, rounded to storage. `late`: of equal elements, the
         * position of the last one was kept (as the identity says) */
        void (*narrow)(void *elements, const void *values, int64_t count, bool late);
        int32_t fold_long; /* the most vectors of a segment in fold_segments */
} sf_cpu_kernels;

/* The kernels of a storage type with an accumulator, one entry for each operation. */
typedef struct sf_cpu_type {
        sf_dt storage, acc;
        const sf_cpu_kernels *const *of;
} sf_cpu_type;

/* Bytes of a value in scratch memory. */
static inline int64_t sf_value_bytes(const sf_cpu_kernels *k)
{
        return k->lane_bytes * k->parts;
}

struct sf_cpu_isa {
        const char *name;
        bool (*usable)(void);
        sf_lanes *whole; /* sf_lanes_whole, made by sf_cpu_choose */
        int32_t vector_bytes;
        int32_t permute_bytes; /* granularity of a permute index: lanes.h */
        int32_t scan_tile;     /* vectors in a row scan's tile */
        int32_t fold_rows;     /* positions in a column fold's tile */
        int32_t scan_rows;     /* and in a column scan's */
        const sf_cpu_type *reals, *integers; /* each ends with an entry that has no kernels */
        /* Folds that count the elements, of 1, 2, 4 or 8 bytes each, in which a bit of the job's
         * `turn` is set. */
        const sf_cpu_kernels *const *const *counts;
        /* Waits for streamed stores, after calls with `resume`. */
        void (*fence)(void);
        const sf_cpu_map *map; /* elementwise work */
};

/* The kernels for a storage type, accumulator and operation. NULL: there are none, and the caller
 * must convert elements. */
const sf_cpu_kernels *sf_cpu_find(const sf_cpu_isa *isa, sf_dt storage, sf_dt acc, sf_op op);
/* The folds that count elements of `size` bytes. */
const sf_cpu_kernels *sf_cpu_counts(const sf_cpu_isa *isa, int64_t size);

/* Those that the library was built with: detect.c. */
extern const sf_cpu_isa sf_isa_portable, sf_isa_neon, sf_isa_avx2, sf_isa_avx512;
extern const sf_cpu_type sf_reals_portable[], sf_reals_neon[], sf_reals_avx2[], sf_reals_avx512[];

#endif
