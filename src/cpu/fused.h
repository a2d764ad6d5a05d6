/*
 * fused.h: programs on the CPU. A program of core/program.h becomes a list of loops over blocks
 * (map.h), run tile by tile over a box of elements. Operands are used in place where memory has
 * them in the form that the loops need; otherwise they are first brought into a block. Results stay
 * in a few blocks in the first-level cache.
 */
#ifndef SF_CPU_FUSED_H
#define SF_CPU_FUSED_H

#include "core/step.h"
#include "cpu/map.h"

/* Values in a block: 4 or 8 KiB, so that the few blocks a program uses at once fit in a first-level
 * cache. */
#define SF_FUSED_BLOCK 1024

/* Numbers of what loops read and write: blocks of scratch, operands, the result of a scan or fold,
 * constants. */
#define SF_FUSED_SLOTS (SF_PROGRAM_MAX + 8)
/* the block that only the last loop writes; it may be the destination itself */
#define SF_FUSED_LAST SF_FUSED_SLOTS
#define SF_FUSED_OPERAND (SF_FUSED_LAST + 1)
#define SF_FUSED_SOURCES (SF_OPERANDS_MAX + 1) /* operands, then the result */
#define SF_FUSED_RESULT SF_OPERANDS_MAX
#define SF_FUSED_CONSTANT (SF_FUSED_OPERAND + SF_FUSED_SOURCES)
#define SF_FUSED_VALUES (SF_FUSED_CONSTANT + SF_PROGRAM_MAX)

typedef struct sf_fused_op {
        sf_loop *loop;
        uint8_t y, a, b, c;
} sf_fused_op;

typedef struct sf_fused_code {
        int32_t ops, slots;
        sf_fused_op op[3 * SF_PROGRAM_MAX + 4];
        sf_busy_loop *busy; /* the same as loop `busy_at`, and prefetches; NULL: none does */
        int32_t busy_at;
        uint8_t last;       /* the number of the program's value */
        bool direct;        /* the last loop writes it in the destination's own type */
        uint32_t reads;     /* bit k: source k is read */
        sf_dt source_dt[SF_FUSED_SOURCES];
        sf_class source_class[SF_FUSED_SOURCES]; /* the class it is converted to */
        sf_move *in[SF_FUSED_SOURCES];           /* the conversion */
        bool as_is[SF_FUSED_SOURCES];            /* whether it has that class's type in memory */
        sf_class last_class;
        sf_move *out;       /* from the last value's class to the destination's type */
        /* if there are no loops: moves source `copied` to the destination; else NULL */
        sf_move *copy;
        int32_t copied;
        int64_t out_size;   /* bytes of a destination's element */
        const sf_program *program;
        /* The program may be an sf_affine of these operands, or a gradient if `given` is one of them,
         * if they are laid out so; -1: none. The scale is -1 if it is neither. */
        int8_t x, centre, scale, weight, bias, given, shift, slope;
        sf_code then;
} sf_fused_code;

/*
 * Makes the loops that compute `p`, one of the fuse's programs, cast to `to` and stored as `dest`.
 * `dest` is `to` or, for an integer that goes into a kernel's panel, its class. `result` is the
 * accumulator's type, and `held` the type that its results have in memory. An empty load program
 * gives operand 0, an empty store program the result.
 */
void sf_fused_compile(const sf_cpu_map *map, const sf_fuse *fuse, const sf_program *p, sf_dt result, sf_dt held, sf_dt to, sf_dt dest,
                      sf_fused_code *code);

/* rows x cols elements, of every source and of the destination. */
typedef struct sf_fused_box {
        int64_t rows, cols;
        struct sf_fused_side {
                const char *at;
                int64_t row, col; /* strides in bytes */
        } in[SF_FUSED_SOURCES];
        /* as many elements that are used soon; at is NULL: prefetch nothing */
        struct sf_fused_side soon;
        int64_t next; /* not 0: of other operands too, so many bytes from their elements */
        char *y;
        int64_t y_row, y_col;
        bool stream; /* y is too large to be worth caching */
} sf_fused_box;

/* The blocks of one worker. */
typedef struct sf_fused_machine {
        const sf_cpu_map *map;
        /* of the running code; constants are set for each code */
        void *value[SF_FUSED_VALUES];
        char *buffer[SF_FUSED_SOURCES];     /* for sources that are not used in place */
        struct {
                const char *at;
                int64_t rows, cols, row, col;
                sf_dt dt;
                sf_class class;
        } kept[SF_FUSED_SOURCES];           /* a repeated source that is still in its buffer */
} sf_fused_machine;

/* The memory that a machine with this many slots needs, and the machine in it. */
size_t sf_fused_machine_bytes(int32_t slots);
void sf_fused_machine_make(sf_fused_machine *m, const sf_cpu_map *map, char *memory, int32_t slots);

/* Blocks of the program's constants, made once for each call and shared: sf_fused_constants_bytes
 * of memory at `to`. */
size_t sf_fused_constants_bytes(const sf_fused_code *code);
void sf_fused_constants_fill(const sf_cpu_map *map, const sf_fused_code *code, char *to);

/* Runs the code over the box, with the `constants` of sf_fused_constants_fill. */
void sf_fused_eval(sf_fused_machine *m, const sf_fused_code *code, char *constants, const sf_fused_box *box);

/*
 * Are large results of programs better written around the cache? A program computes a block, and
 * then all of it is stored. Intel's cores before Ice Lake have few buffers for stores around the
 * cache, and so they wait for those; ordinary stores, though they first read what they replace, take
 * less time there. f32 rows of 4096, 2 threads, shares of a copy, around the cache and not: Cascade
 * Lake softmax 0.34, 0.47, normalize 0.54, 0.69, layer_norm 0.33, 0.45; Sapphire Rapids softmax
 * 0.73, 0.57, normalize 1.05, 0.76. (Before chain.c prefetched anything.)
 */
bool sf_cpu_streams_programs(void);

/* Copies the element at src + i * from_row + j * from_col to dst + i * to_row + j * to_col. */
void sf_fused_move(sf_move *move, const char *src, int64_t from_row, int64_t from_col, char *dst, int64_t to_row, int64_t to_col, int64_t rows,
                   int64_t cols);

#endif
