/*
 * slabs.h: a large job as boxes that are worked on one after the other.
 *
 * Lines along the scanned or folded axes do not depend on each other, so the other axes can be cut
 * anywhere without changing a bit. They are cut so that the runs of bytes in both files stay long,
 * the slowest axis first.
 */
#ifndef SCANFOLD_SLABS_H
#define SCANFOLD_SLABS_H

#include "cli.h"

struct grid {
        int32_t ndim;
        int64_t shape[SF_MAX_NDIM];
        unsigned char busy[SF_MAX_NDIM]; /* the scanned or folded axes, which are never cut */
        /* Strides in bytes. A folded axis without segments has stride 0 in out, a broadcast one has
         * stride 0 in mask. */
        int64_t x[SF_MAX_NDIM], out[SF_MAX_NDIM], mask[SF_MAX_NDIM];
        int64_t x_item, out_item;
        int64_t box[SF_MAX_NDIM];        /* set by grid_cut: the box's lengths, 1 or more */
};

/*
 * Sets box, to about `target` bytes of x and out together if possible. Axes with a stride in x
 * below `slowest` are not cut. Strides are >= 0, lengths > 0.
 */
void grid_cut(struct grid *grid, int64_t target, int64_t slowest);

/* The bytes of x and out in a box of these lengths. */
int64_t grid_bytes(const struct grid *grid, const int64_t *lengths);

/* at[] is all zeros at first. Sets len[] to the lengths of the box there, which are shorter at the
 * end of an axis. */
void grid_lengths(const struct grid *grid, const int64_t *at, int64_t *len);

/* Moves at[] to the next box; returns 0 after the last. */
int grid_next(const struct grid *grid, int64_t *at);

#endif /* SCANFOLD_SLABS_H */
