/* slabs.c: where a large job is cut. */
#include "slabs.h"

/* A disk is slow for runs of bytes that are shorter than this: rather make the slab larger. */
enum { SHORTEST_RUN = 64 << 10 };

int64_t grid_bytes(const struct grid *grid, const int64_t *lengths)
{
        int64_t x = grid->x_item, out = grid->out_item;
        for (int32_t i = 0; i < grid->ndim; i++) {
                x *= lengths[i];
                if (grid->out[i])
                        out *= lengths[i];
        }
        return x + out;
}

/* The fewest entries of `axis` that keep runs long in a file with these strides, with the other
 * lengths of the box as they are. */
static int64_t fewest(const struct grid *grid, const int64_t *strides, int32_t axis, int64_t run)
{
        if (!strides[axis])
                return 1;
        for (int32_t i = 0; i < grid->ndim; i++)
                if (i != axis && grid->box[i] > 1 && strides[i] > strides[axis])
                        return (run + strides[axis] - 1) / strides[axis];
        return 1; /* no slower axis is in the box: it is one run anyway */
}

void grid_cut(struct grid *grid, int64_t target, int64_t slowest)
{
        int64_t run = target < SHORTEST_RUN ? target : SHORTEST_RUN;
        for (int32_t i = 0; i < grid->ndim; i++)
                grid->box[i] = grid->shape[i];
        unsigned char tried[SF_MAX_NDIM] = { 0 };
        while (grid_bytes(grid, grid->box) > target) {
                int32_t axis = -1;
                for (int32_t i = 0; i < grid->ndim; i++)
                        if (!grid->busy[i] && !tried[i] && grid->x[i] >= slowest &&
                            (axis < 0 || grid->x[i] > grid->x[axis]))
                                axis = i;
                if (axis < 0)
                        break;
                tried[axis] = 1;
                int64_t length = grid->box[axis];
                grid->box[axis] = 1;
                int64_t entries = target / grid_bytes(grid, grid->box);
                grid->box[axis] = length;
                int64_t from_x = fewest(grid, grid->x, axis, run), from_out = fewest(grid, grid->out, axis, run);
                if (entries < from_x)
                        entries = from_x;
                if (entries < from_out)
                        entries = from_out;
                if (entries < length)
                        grid->box[axis] = entries;
        }
}

void grid_lengths(const struct grid *grid, const int64_t *at, int64_t *len)
{
        for (int32_t i = 0; i < grid->ndim; i++) {
                int64_t left = grid->shape[i] - at[i];
                len[i] = left < grid->box[i] ? left : grid->box[i];
        }
}

int grid_next(const struct grid *grid, int64_t *at)
{
        for (int32_t i = grid->ndim - 1; i >= 0; i--) {
                at[i] += grid->box[i];
                if (at[i] < grid->shape[i])
                        return 1;
                at[i] = 0;
        }
        return 0;
}
