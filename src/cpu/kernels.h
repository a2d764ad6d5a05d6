/*
 * kernels.h: what the driver (panel.c, carried.c) hands to a kernel, and the table of kernels of an instruction set.
 *
 * Two shapes of work cover every tensor:
 *
 *   rows     the sequence runs along contiguous memory, possibly with `inner` interleaved columns (a narrow matrix walked
 *            down its long axis). A vector holds several consecutive positions of it; lanes exchange totals by the tables of
 *            lanes.h. Many short sequences side by side ("packed") are the same with no exchange between vectors.
 *   columns  `cols` neighbouring sequences, one lane each; a vector never exchanges lanes.
 *
 * A kernel sees pointers, strides and counts. Storage is the element type in memory; a lane is what is computed with: f32
 * for f16, bf16 and f32; f64 for f64 and for f32 with an f64 accumulator; 32- or 64-bit integers for integers, which wrap on
 * the way out.
 */
#ifndef SF_CPU_KERNELS_H
#define SF_CPU_KERNELS_H

#include "core/order.h"
#include "core/step.h"
#include "cpu/cpu.h"
#include "cpu/lanes.h"
#include "cpu/map.h"

/* Past this much memory moved, results are written around the cache: they would evict each other before anyone reads them. Lines shorter than
 * SF_CPU_STREAM_LINE, unless they are whole cache lines, leave too many of those half written. */
#define SF_CPU_STREAM_BYTES (8 << 20)
#define SF_CPU_STREAM_LINE 1024

/* Rows that a row kernel walks side by side: memory answers several streams faster than one. */
#define SF_CPU_GROUP 4
/* And a fold, which writes nothing, where there are counters for as many. */
#define SF_CPU_FOLD_GROUP 8

/* Every row kernel's tile, in vectors, divides this; so a piece of a sequence that is this many vectors times a power of two
 * can be resumed at. It is the largest fold tile: 16 vectors of 16 lanes. */
#define SF_CPU_TILE_VECTORS 16

/* What lies to the left of a sequence's piece. Entries are whole vectors (rows) or arrays of `cols` lanes (columns), added
 * on the left in turn after the counter's own: totals of earlier blocks, lowest first, then the initial value. */
typedef struct sf_carry {
        int32_t count;
        const char *entries;
        int64_t entry_stride; /* bytes from one entry to the next */
        char *fill;           /* exclusive scans: the value before the first element; after a call with resume, before the next, else anything */
} sf_carry;

/* The number of the first element, how much further on that of the next row is, and 1 or -1 from position to position. Of folds alone, but
 * for packed ones: there, and in scans, numbers stand beside the elements. */
typedef struct sf_numbers {
        int64_t at, row, step;
} sf_numbers;

typedef struct sf_rows {
        const char *x; /* the sequence's first element, of the first row */
        char *y;
        const uint8_t *m;             /* NULL: no mask. Laid out as x is, a byte an element */
        int64_t x_row, y_row, m_row;  /* bytes from row to row */
        int64_t rows;
        int64_t n;     /* positions of the sequence in this call; each has lanes->inner elements */
        int64_t start; /* which position is the first: 0, or a multiple of SF_CPU_TILE_VECTORS vectors */
        bool resume;   /* counters and fills live on in the caller's memory; rows <= SF_CPU_GROUP, of folds SF_CPU_FOLD_GROUP */
        bool exclusive;
        bool stream; /* write around the cache */
        bool raw;    /* y is scratch. scan_rows: it gets lanes, not rounded to storage; full vectors of values of one component only. fold_rows: every
                        row gets a vector of values, its total in every position */
        sf_value identity;
        uint64_t turn; /* the kernels' */
        int64_t beside; /* where elements come in twos: bytes from x to the other one */
        sf_numbers numbers;
        int64_t ahead; /* what is read soon lies this many bytes on: prefetched, never relied upon */
        const sf_lanes *lanes;
        const sf_carry *carry; /* of the first row; NULL: nothing to the left */
        int64_t carry_row;     /* 0: the same for all rows, 1: one each */
        const sf_carry *common; /* carry_rows: entries that all rows add after their own */
        char *counters;        /* SF_CPU_GROUP x SF_ORDER_LEVELS vectors, or as many rows' as there are with resume */
        int32_t slots;         /* folds: there are counters for so many rows instead, at most SF_CPU_FOLD_GROUP; 0: for SF_CPU_GROUP */
} sf_rows;

/* How far on rows of so many bytes that are read `many` at a time are fetched: past each other, where they are shorter than that. */
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
        int64_t start; /* which position is the first: 0, or a multiple of SF_CPU_TILE_ROWS */
        bool resume;
        bool exclusive, stream;
        bool raw; /* folds: y is scratch, and gets values, not rounded to storage: whole vectors of them */
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
 * Whole tiles of a sum of products, x times w, along rows or columns contiguous in both, but for `spread`. Where there is room for `sums`, w is
 * a centre for each line instead: the squares of x - w are summed up, and beside them those distances, in `sums`.
 */
typedef struct sf_products {
        const char *x, *w;
        int64_t x_step, w_step; /* bytes from row to row; columns: from one position of the sequence to the next */
        int64_t many;  /* rows, at most SF_CPU_GROUP; or columns */
        int64_t n;     /* positions: of rows a multiple of SF_CPU_TILE_VECTORS vectors, of columns one of SF_CPU_TILE_ROWS */
        int64_t start; /* which position is the first: such a multiple too */
        bool spread;   /* columns: w has one element a position, for all columns */
        int64_t x_ahead, w_ahead; /* rows; of columns x's alone */
        const sf_lanes *lanes;
        char *counters; /* as fold_rows and fold_columns have them where they are resumed */
        char *sums;     /* such counters too, or NULL */
        int64_t counter_stride;
} sf_products;

/* Rows of a narrow matrix on end, as one run of memory: what stands to their left is repeated until it has the run's vectors' width. */
typedef struct sf_run {
        const char *x; /* elements that a scan without carries wrote */
        char *y;
        uint64_t turn;
        int64_t count;    /* elements */
        int32_t entries;  /* added on the left in turn */
        int64_t period;   /* vectors after which entries repeat; a multiple of that, at least 4. There are 4 more behind each */
        const char *table; /* of `entries` times period + 4 vectors */
        const char *base; /* an address at which a period would begin; y's whole vectors lie as it does */
        bool stream;
        const char *next; /* what is read soon: prefetched */
} sf_run;

/* So many elements of segments at most, at once, and so many bounds beyond the last that may be read. */
#define SF_CPU_RAGGED_MOST 1024
#define SF_CPU_RAGGED_ROOM 64
/* And each may have so many vectors: of longer ones, what it costs to call a kernel for each is little. */
#define SF_CPU_RAGGED_LONG 32

/* Positions in a column kernel's tile divide this. */
#define SF_CPU_TILE_ROWS 8

/* Vectors in a tile of a row fold where rows are not contiguous or not worth more. Those of a narrow matrix have little to do each: so many
 * that the counter is seldom asked. */
#define SF_CPU_NARROW_TILE 8

/* The totals stay in the counters: fold_rows or fold_columns ends what this begins. */
typedef struct sf_cpu_products {
        void (*rows)(const sf_products *);
        void (*columns)(const sf_products *);
} sf_cpu_products;

/* The kernels of one storage type and operation. */
typedef struct sf_cpu_kernels {
        int32_t lane_bytes;
        int32_t width; /* lanes in a vector; 0: there are no kernels */
        int32_t result_bytes; /* a stored result's */
        int32_t parts; /* components of a value, each as wide as a lane */
        uint64_t turn; /* bits in which elements differ from values: min is max of elements whose bits are turned */
        bool free;     /* any grouping gives the same bits: a single carry stands for several */
        bool two;      /* elements come in twos */
        int32_t (*fold_tile)(const sf_lanes *); /* vectors in fold_rows' tile */
        void (*scan_rows)(const sf_rows *);
        /* x of `now` is what a raw scan_rows wrote: adds the carries and writes y. Meanwhile scans `next`, if not NULL, into
         * scratch that may be the same: a tile is written there after it has been read. Rows are leaves of an aligned block of SF_CPU_GROUP: row r
         * has as many entries of its own as r has bits set, one after another. NULL where it is not worth it: a chunk is folded first. */
        void (*carry_rows)(const sf_rows *now, const sf_rows *next);
        void (*carry_run)(const sf_run *); /* NULL where elements are no lanes */
        void (*scan_packed)(const sf_rows *); /* NULL where lanes are too narrow for anything but whole rows and columns */
        void (*scan_columns)(const sf_columns *);
        void (*fold_rows)(const sf_rows *);
        void (*fold_packed)(const sf_rows *);
        /* `count` segments, each no longer than SF_CPU_RAGGED_LONG vectors, and all here: positions bound[i] to bound[i + 1] - 1 of the one row there is. y of a fold gets
         * their results back to back, those of empty ones too. NULL where scan_packed is. */
        void (*scan_segments)(const sf_rows *, const int32_t *bound, int64_t count);
        void (*fold_segments)(const sf_rows *, const int32_t *bound, int64_t count);
        void (*fold_columns)(const sf_columns *);
        const sf_cpu_products *products; /* folds of products; NULL: there are none */
        /* values[0 .. count) = value. Values in scratch memory take `parts` lanes each, and a vector's components follow one another */
        void (*fill)(void *values, int64_t count, sf_value value);
        /* values a = a combined with b on its right, elementwise */
        void (*combine)(void *a, const void *b, int64_t count);
        /* elements[0 .. count) = the values, rounded to storage. `late`: as the identity says, of equal elements the last one's position */
        void (*narrow)(void *elements, const void *values, int64_t count, bool late);
} sf_cpu_kernels;

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
        /* Storage and accumulator to kernels; NULL where there is none and the driver must convert. */
        const sf_cpu_kernels *(*find)(sf_dt storage, sf_dt acc, sf_op op);
        /* Sums, folds alone, of 1 for every element of so many bytes of which a bit is set that their job's `turn` has. */
        const sf_cpu_kernels *(*count)(int64_t size);
        /* Waits for streamed stores, after calls with `resume`. */
        void (*fence)(void);
        const sf_cpu_map *map; /* elementwise work */
};

extern const sf_cpu_isa sf_isa_portable;
#ifdef SF_HAVE_AVX2
extern const sf_cpu_isa sf_isa_avx2;
#endif
#ifdef SF_HAVE_AVX512
extern const sf_cpu_isa sf_isa_avx512;
#endif
#ifdef SF_HAVE_NEON
extern const sf_cpu_isa sf_isa_neon;
#endif

#endif
