/* work.h: a scan or a fold over mapped files, box by box. */
#ifndef SCANFOLD_WORK_H
#define SCANFOLD_WORK_H

#include "slabs.h"

struct work {
        sf_context *ctx;
        const struct job *job;
        const struct dtype_info *x_dtype, *out_dtype;
        const struct dtype_info *mask_dtype; /* NULL: no mask */
        const struct dtype_info *offsets_dtype; /* NULL: the axis is not cut into segments */
        /* first elements; all but out are in mapped files (files.h) */
        unsigned char *x, *out, *mask, *offsets;
        int64_t segments;                    /* one fewer than the offsets */
        int out_is_mapped;                   /* out is in a mapped file: its pages may be dropped */
        struct grid grid;
};

/* Does all of it. Complains. Pages that are no longer needed are given back to the kernel, and
 * progress_add is called. */
int do_work(struct work *work);

/*
 * Does this rank's part, if `ranks` ranks share the axis: the elements along it are divided in
 * order, and the ranks' numbers of elements differ by at most one. Every rank writes its part of a
 * scan, or all of a fold. call is the library function that exchanges what ranks must know of each
 * other. Complains.
 */
typedef sf_status (*shard_call)(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options);
int do_shard(const struct work *work, int rank, int ranks, shard_call call);

/* The length of a folded axis in the result. */
int64_t folded_length(const struct work *work);

/* One library call, for the box of these lengths at this position. Prints the library's error
 * message if it fails. */
int do_box(const struct work *work, const int64_t *at, const int64_t *len);

#endif /* SCANFOLD_WORK_H */
