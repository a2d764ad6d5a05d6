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
        unsigned char *x, *out, *mask, *offsets; /* first elements; all but out are in files mapped by files.h */
        int64_t segments;                    /* how many: one fewer than the offsets */
        int out_is_mapped;                   /* and so is out: pages of it may be dropped */
        struct grid grid;
};

/* The whole of it. Complains. Pages that are done with are given back to the kernel, and progress_add is told. */
int do_work(struct work *work);

/*
 * This rank's part of it, where `ranks` share the axis: the elements along it are dealt out in order, as many to each as to any other or one more.
 * Every rank writes its part of a scan, and all of a fold. call is the library's, which exchanges what ranks must know of each other. Complains.
 */
typedef sf_status (*shard_call)(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options);
int do_shard(const struct work *work, int rank, int ranks, shard_call call);

/* What is left of a folded axis. */
int64_t folded_length(const struct work *work);

/* One call, for the box of these lengths there; the library's refusal, if any, is passed on. */
int do_box(const struct work *work, const int64_t *at, const int64_t *len);

#endif /* SCANFOLD_WORK_H */
