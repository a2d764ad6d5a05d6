/*
 * request.h: one scan or fold as a caller asks for it, and its checks, which make a step of it.
 * Used by api.c, and by src/ranks, whose steps are parts of such a scan or fold.
 */
#ifndef SF_REQUEST_H
#define SF_REQUEST_H

#include "core/step.h"

typedef struct sf_request {
        const sf_tensor *x, *out, *mask;
        const sf_tensor *offsets; /* NULL: no segments */
        const sf_tensor *a; /* of a recurrence, whose b is x; else NULL */
        sf_op op;
        uint64_t axes;
        bool fold, keepdim, reverse, exclusive, skip_nan;
        /* x is part of an axis: it may be empty, and only the caller knows the axis's length */
        bool part;
        sf_scalar initial;
        sf_dtype accumulator;
        void *stream;
} sf_request;

/* The step and what it points to. It must not be moved in memory. */
typedef struct sf_prepared {
        sf_view x, out, mask, a, offsets;
        sf_step step;
        sf_step_views views;
        sf_fuse fuse;
} sf_prepared;

/* Sets bit d for axis d. A 0-dimensional x counts as one line of one element. */
sf_status sf_read_axis(const sf_context *ctx, int32_t axis, int32_t ndim, uint64_t *axes);

/* x's shape after a fold: the folded axes are removed, or have length 1 (keepdim), or length
 * `segments` where they are cut into segments (else -1). Returns the number of dimensions. */
int32_t sf_folded_shape(int32_t ndim, const int64_t *x, uint64_t axes, bool keepdim, int64_t segments, int64_t *shape);

/* Checks everything; p->x has been made from r->x by the caller. If there are no results,
 * p->out.count is 0, and there is nothing to run. */
sf_status sf_request_prepare(sf_context *ctx, const sf_request *r, sf_prepared *p);

#endif
