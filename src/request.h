/*
 * request.h: what a caller asks for in one scan or fold, checked, and the step it comes to. For api.c, and for ranks.c, whose steps are parts of it.
 */
#ifndef SF_REQUEST_H
#define SF_REQUEST_H

#include "core/step.h"

typedef struct sf_request {
        const sf_tensor *x, *out, *mask;
        const sf_tensor *offsets; /* NULL: no segments */
        const sf_tensor *a; /* a recurrence's, whose b is x; else NULL */
        sf_op op;
        uint64_t axes;
        bool fold, keepdim, reverse, exclusive, skip_nan;
        bool part; /* x is part of an axis: that it is empty says nothing, and how long the axis is somebody else knows */
        sf_scalar initial;
        sf_dtype accumulator;
        void *stream;
} sf_request;

/* The step and what it points to: not to be moved. */
typedef struct sf_prepared {
        sf_view x, out, mask, a, offsets;
        sf_step step;
        sf_step_views views;
        sf_fuse fuse;
} sf_prepared;

/* Bit d: axis d. A rank-0 x has one line of one element. */
sf_status sf_read_axis(const sf_context *ctx, int32_t axis, int32_t ndim, uint64_t *axes);

/* x's shape with the folded axes removed, or of length 1; or, where they are cut into segments, `segments` of them, else -1. Returns the rank. */
int32_t sf_folded_shape(int32_t ndim, const int64_t *x, uint64_t axes, bool keepdim, int64_t segments, int64_t *shape);

/* Checks all that can be wrong; p->x has been made of r->x. Of no results p->out.count is 0, and there is nothing to run. */
sf_status sf_request_prepare(sf_context *ctx, const sf_request *r, sf_prepared *p);

#endif
