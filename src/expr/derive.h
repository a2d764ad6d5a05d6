/*
 * derive.h: scans and folds that are made of the library's operations and of elementwise work: mean, var, norm, any and their like.
 * Shapes and dtypes are known by then, so each is a few nodes of the ir, which are rewritten, fused and explained as any others are.
 */
#ifndef SF_DERIVE_H
#define SF_DERIVE_H

#include "expr/ir.h"

/* What is derived, from what. It has been checked that the axes are x's, and that the mask broadcasts to it. */
typedef struct sf_derivation {
        sf_derived what;
        int32_t x, mask; /* mask 0: all elements */
        int32_t offsets; /* 0, or one more than the input that cuts the one axis into segments */
        int64_t segments;
        uint64_t axes;
        bool reverse;
        sf_dt dt, acc; /* of the result; in which it is summed up */
        double correction, order;
        int32_t weight, bias; /* 0: none; they broadcast to x */
        sf_scalar eps;        /* may be unset */
} sf_derivation;

/* "var"; NULL for a number that is none of sf_derived. */
const char *sf_derived_name(sf_derived what);
bool sf_derived_scans(sf_derived what);
/* Does it go back to the elements, and have x's shape? */
bool sf_derived_applies(sf_derived what);
enum { SF_TAKES_WEIGHT = 1, SF_TAKES_BIAS = 2, SF_TAKES_EPS = 4 };
bool sf_derived_takes(sf_derived what, int option);

/* The dtype of the result: `asked`, or with SF_DT_COUNT the default. And the accumulator. Or a sentence. */
sf_status sf_derived_dtypes(const sf_context *ctx, sf_derivation *d, sf_dt x, sf_dt asked, sf_dtype accumulator);

/* The nodes. A fold keeps its axes, with length 1. */
sf_status sf_derive(sf_ir *ir, const sf_derivation *d, int32_t *node);

#endif
