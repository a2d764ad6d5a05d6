/*
 * derive.h: scans and folds that are composed of the library's operations and elementwise work:
 * mean, var, norm, any and so on. Shapes and dtypes are known here, so each becomes a few nodes of
 * the ir, which are rewritten, fused and explained like any others.
 */
#ifndef SF_DERIVE_H
#define SF_DERIVE_H

#include "expr/ir.h"

/* What is derived, and from what. The axes have been checked to be x's, and the mask to broadcast
 * to x. */
typedef struct sf_derivation {
        sf_derived what;
        int32_t x, mask; /* mask 0: all elements */
        /* 0, or one more than the number of the input that cuts the one axis into segments */
        int32_t offsets;
        int64_t segments;
        uint64_t axes;
        bool reverse, exclusive; /* exclusive: of scans only */
        bool skips_nan; /* of reals: the mask has those that are not NaN */
        sf_dt dt, acc; /* of the result; of the accumulator */
        double correction, order;
        int32_t weight, bias; /* 0: none; they broadcast to x */
        sf_scalar eps;        /* may be unset */
} sf_derivation;

/* "var"; NULL if the number is not one of sf_derived. */
const char *sf_derived_name(sf_derived what);
bool sf_derived_scans(sf_derived what);
/* Does it combine the fold's result with the elements, so that the result has x's shape? */
bool sf_derived_applies(sf_derived what);
/* Options besides those that all of them take; SF_SKIPS_NAN: skip_nan is set, whatever the caller
 * said. */
enum { SF_TAKES_WEIGHT = 1, SF_TAKES_BIAS = 2, SF_TAKES_EPS = 4, SF_SKIPS_NAN = 8 };
bool sf_derived_takes(sf_derived what, int option);

/* Sets the dtype of the result, which is `asked`, or the default if that is SF_DT_COUNT; and the
 * accumulator. Fails with an error message. */
sf_status sf_derived_dtypes(const sf_context *ctx, sf_derivation *d, sf_dt x, sf_dt asked, sf_dtype accumulator);

/* Makes the nodes. A fold keeps its axes, with length 1. */
sf_status sf_derive(sf_ir *ir, const sf_derivation *d, int32_t *node);

#endif
