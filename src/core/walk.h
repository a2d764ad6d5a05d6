/* walk.h: visits every position of a list of dimensions, with its byte offsets in x, y, the mask
 * and the values to the left. */
#ifndef SF_WALK_H
#define SF_WALK_H

#include "core/step.h"

typedef struct sf_walk {
        const sf_dim *dims;
        int32_t ndim;
        int64_t x, y, m, left; /* byte offsets of the current position */
        int64_t at[SF_MAX_NDIM];
} sf_walk;

/* Starts at position number `index`, counted with the last dimension fastest. */
static inline void sf_walk_start(sf_walk *w, const sf_dim *dims, int32_t ndim, int64_t index)
{
        w->dims = dims;
        w->ndim = ndim;
        w->x = w->y = w->m = w->left = 0;
        for (int32_t d = ndim - 1; d >= 0; d--) {
                w->at[d] = index ? index % dims[d].len : 0;
                index = index ? index / dims[d].len : 0;
                w->x += w->at[d] * dims[d].x;
                w->y += w->at[d] * dims[d].y;
                w->m += w->at[d] * dims[d].m;
                w->left += w->at[d] * dims[d].left;
        }
}

/* Moves to the next position; after the last one comes the first. */
static inline void sf_walk_next(sf_walk *w)
{
        for (int32_t d = w->ndim - 1; d >= 0; d--) {
                const sf_dim *dim = &w->dims[d];
                w->x += dim->x;
                w->y += dim->y;
                w->m += dim->m;
                w->left += dim->left;
                if (++w->at[d] < dim->len)
                        return;
                w->at[d] = 0;
                w->x -= dim->len * dim->x;
                w->y -= dim->len * dim->y;
                w->m -= dim->len * dim->m;
                w->left -= dim->len * dim->left;
        }
}

#endif
