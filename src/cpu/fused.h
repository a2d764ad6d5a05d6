/*
 * fused.h: programs on the CPU. A program of core/program.h becomes a list of loops over blocks (map.h), run tile by tile over a box of
 * elements: what it reads is in place where memory has it as the loops want it, else brought into a block first; what it computes stays
 * in a few blocks that live in the first-level cache.
 */
#ifndef SF_CPU_FUSED_H
#define SF_CPU_FUSED_H

#include "core/step.h"
#include "cpu/map.h"

/* Values in a block: 4 or 8 KiB, so that the handful a program has live at once stays in a first-level cache. */
#define SF_FUSED_BLOCK 1024

/* What a loop reads and writes, by number: blocks of scratch, operands, the scan's or fold's result, constants. */
#define SF_FUSED_SLOTS (SF_PROGRAM_MAX + 8)
#define SF_FUSED_LAST SF_FUSED_SLOTS /* the block the last loop writes, and no other: it may be the destination itself */
#define SF_FUSED_OPERAND (SF_FUSED_LAST + 1)
#define SF_FUSED_SOURCES (SF_OPERANDS_MAX + 1) /* operands, and the result behind them */
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
        uint8_t last;       /* the value that is the program's */
        bool direct;        /* the last loop makes it, in the destination's own type */
        uint32_t reads;     /* bit k: source k */
        sf_dt source_dt[SF_FUSED_SOURCES];
        sf_class source_class[SF_FUSED_SOURCES]; /* what it is brought in as, */
        sf_move *in[SF_FUSED_SOURCES];           /* how, */
        bool as_is[SF_FUSED_SOURCES];            /* and whether it is that in memory already */
        sf_class last_class;
        sf_move *out;       /* from the last value's class to the destination's type */
        sf_move *copy;      /* no loops at all: the source `copied` straight to the destination; else NULL */
        int32_t copied;
        int64_t out_size;   /* bytes of a destination's element */
        const sf_program *program;
} sf_fused_code;

/*
 * The loops that compute `p`, one of the fuse's programs, cast to `to` and stored as `dest`: `to` itself or, for an integer that goes into a kernel's panel, its class.
 * `result` and `held` are the accumulator's type and the type its results lie in memory as. An empty load is operand 0, an empty
 * store the result.
 */
void sf_fused_compile(const sf_cpu_map *map, const sf_fuse *fuse, const sf_program *p, sf_dt result, sf_dt held, sf_dt to, sf_dt dest,
                      sf_fused_code *code);

/* rows x cols elements, of every source and of the destination. */
typedef struct sf_fused_box {
        int64_t rows, cols;
        struct sf_fused_side {
                const char *at;
                int64_t row, col; /* strides in bytes */
                int64_t ahead;    /* what will be read from it after this box lies so many bytes on; 0: nobody knows */
                bool all;         /* and nobody but this box will fetch it: all of it, not its beginning */
        } in[SF_FUSED_SOURCES];
        char *y;
        int64_t y_row, y_col;
        bool stream; /* y is too large to be worth caching */
} sf_fused_box;

/* A worker's blocks. */
typedef struct sf_fused_machine {
        const sf_cpu_map *map;
        void *value[SF_FUSED_VALUES];       /* of the code that runs; constants are set for each */
        char *buffer[SF_FUSED_SOURCES];     /* where sources that are not in place are brought */
        struct {
                const char *at;
                int64_t rows, cols, row, col;
                sf_dt dt;
                sf_class class;
        } kept[SF_FUSED_SOURCES];           /* a repeated source that its buffer still has */
} sf_fused_machine;

/* The memory a machine of so many slots needs, and the machine in it. */
size_t sf_fused_machine_bytes(int32_t slots);
void sf_fused_machine_make(sf_fused_machine *m, const sf_cpu_map *map, char *memory, int32_t slots);

/* Blocks of the program's constants, to be made once a call and shared: sf_fused_constants_bytes of memory at `to`. */
size_t sf_fused_constants_bytes(const sf_fused_code *code);
void sf_fused_constants_fill(const sf_cpu_map *map, const sf_fused_code *code, char *to);

/* Runs the code over the box. `constants` is what sf_fused_constants_fill filled. */
void sf_fused_eval(sf_fused_machine *m, const sf_fused_code *code, char *constants, const sf_fused_box *box);

/* The element at dst + i * to_row + j * to_col becomes the one at src + i * from_row + j * from_col. */
void sf_fused_move(sf_move *move, const char *src, int64_t from_row, int64_t from_col, char *dst, int64_t to_row, int64_t to_col, int64_t rows,
                   int64_t cols);

#endif
