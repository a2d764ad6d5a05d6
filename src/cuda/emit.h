/*
 * emit.h: what emit.c and tuning.c share, and the tests look at: the flags of a specialisation, its
 * fields, and the tiles. The parameters every kernel takes are in kernels/shared.h.
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
        SF_CUDA_RAGGED = 1 << 3,  /* the length is no multiple of the width */
        SF_CUDA_SINGLE = 1 << 4,  /* a sequence fits in one tile */
        SF_CUDA_PARTIAL = 1 << 5, /* a fold whose totals go to scratch */
        SF_CUDA_RESUME = 1 << 6,  /* a fold of such totals */
        SF_CUDA_DOWN = 1 << 7,    /* a fold of columns */
        SF_CUDA_X_UNIT = 1 << 9,
        SF_CUDA_Y_UNIT = 1 << 11,
        SF_CUDA_M_UNIT = 1 << 13,
        SF_CUDA_SHIFT_IN = 1 << 15, /* vectors of x and of the mask lie at any address */
        SF_CUDA_SHIFT_OUT = 1 << 16, /* y's do */
        SF_CUDA_EARLY = 1 << 17 /* lines begin early, so that those of y, or of a fold's x, do not (memory.cuh) */
};

/* sf_cuda_spec.extra, by name; from SF_CUDA_OWN on, the fields of each kernel file. */
enum { SF_CUDA_NBATCH, SF_CUDA_NSEQ, SF_CUDA_RESIDENT, SF_CUDA_OWN, SF_CUDA_OWNS = 7 };
enum {
#define FIELD(kernel, place, NAME) kernel##_##NAME = SF_CUDA_OWN + (place),
#include "cuda/fields.def"
#undef FIELD
};

/* Bit k: the step reads operand k; operand 0 is x, also of a plain step. */
uint32_t sf_cuda_reads(const sf_step *step);

/* Is its value held as a mantissa and an exponent (kernels/value.cuh)? */
static inline bool sf_cuda_is_product(int32_t op, int32_t acc)
{
        return op == SF_PROD && (acc == SF_DT_F32 || acc == SF_DT_F64);
}

/* Has it two components? */
static inline bool sf_cuda_is_pair(int32_t op, int32_t acc)
{
        return sf_cuda_is_product(op, acc) || sf_op_is((sf_op)op, SF_PAIR);
}

/* The bytes of a value as a kernel holds it. Narrow integers are carried in 32 bits. */
static inline int sf_cuda_value_size(int32_t op, int32_t acc)
{
        const int size = sf_dtypes[acc].size < 4 ? 4 : sf_dtypes[acc].size;
        return sf_cuda_is_pair(op, acc) ? 2 * size : size;
}

/* How many dims a specialisation's parameters have. */
int32_t sf_cuda_dims(const sf_cuda_spec *spec);

/* Where parts of a fused launch's parameters begin, in bytes; for any launch, where they end. */
typedef struct sf_cuda_parts {
#define PART(type, name, shape, words) size_t name;
        SF_FUSED_PARTS(PART, , , )
#undef PART
        size_t also, also_size; /* the first of the results beside; the size of each */
        size_t end;
} sf_cuda_parts;
sf_cuda_parts sf_cuda_params_parts(const sf_cuda_spec *spec);

/* ------------------------------------------------------------------------------------------------------------
 * tuning.c
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct sf_cuda_tile {
        int32_t threads;  /* a block */
        int32_t elements; /* a thread holds, of the accumulator */
        int32_t resident; /* blocks a multiprocessor should hold: bounds the registers */
        int32_t more;     /* columns: vectors of a row a warp or group covers at most; chained: stages */
        int32_t beside;   /* folds of columns: neighbouring ones that a thread has at least, where there are so many; else 0 */
} sf_cuda_tile;

/* The tile for a kernel whose elements take `size` bytes (the largest of x, y and the accumulator).
 * A kernel that the table has no row for, as scan_totals.cu, which takes what it is given, is
 * refused. */
sf_status sf_cuda_tile_for(const sf_context *ctx, const sf_cuda_chip *chip,
                           const sf_cuda_spec *spec, int in, int size, sf_cuda_tile *tile);

/* The same tile where `members` folds share the read. */
sf_cuda_tile sf_cuda_tile_shared(const sf_cuda_chip *chip, sf_cuda_tile tile, int in, int size, int members);

#endif
