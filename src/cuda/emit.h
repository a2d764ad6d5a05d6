/*
 * emit.h: what emit.c and tuning.c share, and tests use: the flags of a specialisation, its fields,
 * and the tiles. The parameters that every kernel takes are in kernels/shared.h.
 */
#ifndef SF_CUDA_EMIT_H
#define SF_CUDA_EMIT_H

#include "cuda/kernels/shared.h"
#include "cuda/launch.h"

/* sf_cuda_spec.flags. A unit is two bits: 0 any stride, 1 forwards, 2 backwards. */
enum {
        SF_CUDA_MASK = 1 << 0,
        SF_CUDA_EXCLUSIVE = 1 << 1,
        SF_CUDA_INITIAL = 1 << 2,
        SF_CUDA_RAGGED = 1 << 3,  /* the length is not a multiple of the width */
        SF_CUDA_SINGLE = 1 << 4,  /* a sequence fits in one tile */
        SF_CUDA_PARTIAL = 1 << 5, /* a fold whose totals go to scratch */
        SF_CUDA_RESUME = 1 << 6,  /* a fold of those totals */
        SF_CUDA_DOWN = 1 << 7,    /* a fold of columns */
        SF_CUDA_X_UNIT = 1 << 9,
        SF_CUDA_Y_UNIT = 1 << 11,
        SF_CUDA_M_UNIT = 1 << 13,
        SF_CUDA_SHIFT_IN = 1 << 15, /* vectors of x and of the mask may be at any address */
        SF_CUDA_SHIFT_OUT = 1 << 16, /* vectors of y may be */
        /* lines begin early, so that vectors of y, or of a fold's x, are aligned (memory.cuh) */
        SF_CUDA_EARLY = 1 << 17,
        SF_CUDA_LEFTS = 1 << 18, /* of a scan: there are totals to the left of its sequences */
        SF_CUDA_VALUES = 1 << 19, /* of a fold: values of two components are stored as they are held */
        /* How a scan holds products that leave the range (tree_products.cuh). */
        SF_CUDA_LIFTS = 1 << 20, /* all products are pairs, in registers */
        SF_CUDA_ROLLS = 1 << 21, /* only these are pairs, in local memory */
        SF_CUDA_CUTS = 1 << 22, /* of a fold: values of blocks (sf_cuts); of a scan: blocks */
};

/* sf_cuda_spec.extra, by name. From SF_CUDA_OWN on, each kernel file has fields of its own. */
enum {
        SF_CUDA_NBATCH,
        SF_CUDA_NSEQ,
        SF_CUDA_RESIDENT,
        SF_CUDA_OWN,
        SF_CUDA_OWNS = 11,
        SF_CUDA_TWIN = 14 /* 1 + the dtype of which two make an element (element.cuh), or 0 */
};
enum {
#define FIELD(kernel, place, NAME) kernel##_##NAME = SF_CUDA_OWN + (place),
#include "cuda/fields.def"
#undef FIELD
};

/*
 * A fold that has a value for each aligned block of its sequence. First come ever larger blocks of
 * less than 2^log positions, then those of 2^log positions, then ever smaller ones. If `then` is not
 * 0, those in the middle are themselves a sequence, cut in the same way, with 2^then of them in its
 * largest blocks: fewer values for others to combine. The sequence has at least 2^(log + 1)
 * positions, or log is 0.
 */
typedef struct sf_cuts {
        int64_t from;  /* the position that the sequence begins at */
        int64_t apart; /* bytes from one value to the next; 0: the step has one result, as others */
        int32_t log, then;
} sf_cuts;

/* A fold has no values to its left. These fields of its step are its cuts. */
static inline int32_t sf_cuda_cuts_levels(const sf_cuts *c) { return c->log | c->then << 8; }
static inline sf_cuts sf_cuda_cuts(const sf_step *s)
{
        sf_cuts c = {s->before, s->fold ? s->left_entry : 0, s->lefts & 255, s->lefts >> 8};
        return c;
}

/* Bit k: the step reads operand k. Operand 0 is x, also in a plain step. */
uint32_t sf_cuda_reads(const sf_step *step);

/* Is the value held as a mantissa and an exponent (kernels/value.cuh)? */
static inline bool sf_cuda_is_product(int32_t op, int32_t acc)
{
        return op == SF_PROD && (acc == SF_DT_F32 || acc == SF_DT_F64);
}

/* Does the value have two components? */
static inline bool sf_cuda_is_pair(int32_t op, int32_t acc)
{
        return sf_cuda_is_product(op, acc) || sf_op_is((sf_op)op, SF_PAIR);
}

/* Bytes of a value as a kernel holds it. Narrow integers are held in 32 bits. */
static inline int sf_cuda_value_size(int32_t op, int32_t acc)
{
        const int size = sf_dtypes[acc].size < 4 ? 4 : sf_dtypes[acc].size;
        return sf_cuda_is_pair(op, acc) ? 2 * size : size;
}

/* Where the steps of a chain begin in sf_cuda_spec.extra. */
static inline int sf_cuda_how_of(int32_t kernel)
{
        return kernel == SF_CUDA_APPLY_COLUMNS ? APPLY_COLUMNS_HOW : APPLY_HOW;
}

/* Has the launch clusters of more blocks than every chip with clusters supports? */
static inline bool sf_cuda_is_wide(const sf_cuda_spec *spec, const sf_cuda_chip *chip)
{
        return spec->kernel == SF_CUDA_APPLY_COLUMNS && spec->extra[APPLY_COLUMNS_CLUSTER] > chip->cluster;
}

/* How many dims a specialisation's parameters have. */
int32_t sf_cuda_dims(const sf_cuda_spec *spec);

/* The offsets of the parts of a fused launch's parameters, in bytes; `end`, for any launch, is
 * their size. */
typedef struct sf_cuda_parts {
#define PART(type, name, shape, words) size_t name;
        SF_FUSED_PARTS(PART, , , )
#undef PART
        size_t also, also_size; /* the first result of another step; the size of each */
        size_t end;
} sf_cuda_parts;
sf_cuda_parts sf_cuda_params_parts(const sf_cuda_spec *spec);

/* ------------------------------------------------------------------------------------------------
 * tuning.c
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_cuda_tile {
        int32_t threads;  /* in a block */
        int32_t elements; /* of the accumulator, in a thread */
        int32_t resident; /* blocks on a multiprocessor: limits the registers */
        /* columns: the most vectors of a row for a warp or group; chained: stages; apply: warps of
         * a block */
        int32_t more;
        /* folds of columns: the least number of neighbouring columns of a thread, if there are as
         * many; apply_short: the least number of aligned lines of a warp; else 0 */
        int32_t beside;
} sf_cuda_tile;

/* The tile for a kernel whose elements take `size` bytes (the largest of x, y and the accumulator).
 * Fails for a kernel without a row in the table, such as scan_totals.cu, which has no tile of its
 * own. */
sf_status sf_cuda_tile_for(const sf_context *ctx, const sf_cuda_chip *chip,
                           const sf_cuda_spec *spec, int in, int size, sf_cuda_tile *tile);

/* The tile, whose elements share registers with all operands, of a scan with two results. */
sf_cuda_tile sf_cuda_tile_doubled(const sf_cuda_chip *chip, const sf_cuda_spec *spec, int size,
                                  sf_cuda_tile tile);

/* The same tile if `members` folds share the read. */
sf_cuda_tile sf_cuda_tile_shared(const sf_cuda_chip *chip, sf_cuda_tile tile, int in, int size, int members);

#endif
