/*
 * work.c: makes one library call for each box.
 *
 * If the lines of a fold are themselves too long for a slab, it is done in two steps: blocks of a
 * power of two elements are folded one by one, then the folds of the blocks are folded. By the rule
 * of the order (docs/order.md: any tiling by aligned powers of two computes the same tree) the
 * result has the same bits, provided that the folds of the blocks have the accumulator's type. A
 * long scan is one call: the library reads and writes the mappings in order, and the kernel keeps
 * as much of them in memory as fits.
 */
#include "work.h"
#include "files.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

static const sf_device cpu = { SF_CPU, 0 };

/* A view with strides in bytes, as a tensor for the library; `room` has its shape and strides. */
struct room {
        int64_t shape[SF_MAX_NDIM], strides[SF_MAX_NDIM];
};

static sf_tensor make_tensor(struct room *room, void *data, const struct dtype_info *dtype, int32_t ndim,
                             const int64_t *shape, const int64_t *byte_strides)
{
        for (int32_t i = 0; i < ndim; i++) {
                room->shape[i] = shape[i];
                room->strides[i] = byte_strides[i] / dtype->size;
        }
        sf_tensor tensor = { .data = data, .device = cpu, .ndim = ndim, .dtype = dtype->dtype, .shape = room->shape,
                             .strides = room->strides };
        return tensor;
}

static int64_t offset_of(const int64_t *strides, int32_t ndim, const int64_t *at)
{
        int64_t offset = 0;
        for (int32_t i = 0; i < ndim; i++)
                offset += strides[i] * at[i];
        return offset;
}

/* The bytes from the first element of a box to the end of its last. */
static int64_t extent_of(const int64_t *strides, int32_t ndim, const int64_t *len, int64_t item)
{
        int64_t extent = item;
        for (int32_t i = 0; i < ndim; i++)
                extent += strides[i] * (len[i] - 1);
        return extent;
}

static int passed_on(const struct work *work, sf_status status)
{
        if (status == SF_OK)
                return CLI_DONE;
        const char *sentence = sf_last_error(work->ctx);
        return complain("%s", *sentence ? sentence : sf_status_name(status));
}

/* Moves a pointer by bytes; NULL stays NULL, because a tensor without elements has no data. */
static void *moved(unsigned char *data, int64_t offset)
{
        return data ? data + offset : NULL;
}

int64_t folded_length(const struct work *work)
{
        return work->offsets_dtype ? work->segments : 1;
}

int do_box(const struct work *work, const int64_t *at, const int64_t *len)
{
        const struct job *job = work->job;
        const struct grid *g = &work->grid;
        struct room x_room, out_room, mask_room, offsets_room;
        void *x_start = moved(work->x, offset_of(g->x, g->ndim, at));
        void *out_start = moved(work->out, offset_of(g->out, g->ndim, at));
        sf_tensor x = make_tensor(&x_room, x_start, work->x_dtype, g->ndim, len, g->x);
        sf_tensor out = make_tensor(&out_room, out_start, work->out_dtype, g->ndim, len, g->out);
        sf_tensor mask;
        if (work->mask_dtype)
                mask = make_tensor(&mask_room, moved(work->mask, offset_of(g->mask, g->ndim, at)), work->mask_dtype,
                                   g->ndim, len, g->mask);
        sf_tensor offsets;
        if (work->offsets_dtype) {
                const int64_t count = work->segments + 1, stride = work->offsets_dtype->size;
                offsets = make_tensor(&offsets_room, work->offsets, work->offsets_dtype, 1, &count, &stride);
        }

        if (job->is_scan) {
                sf_scan_options options = SF_SCAN_OPTIONS_INIT;
                options.op = job->op;
                options.axis = job->axes[0];
                options.reverse = job->reverse;
                options.exclusive = job->exclusive;
                options.mask = work->mask_dtype ? &mask : NULL;
                options.offsets = work->offsets_dtype ? &offsets : NULL;
                options.skip_nan = job->skip_nan;
                options.initial = job->initial;
                if (job->acc)
                        options.accumulator = job->acc->dtype;
                return passed_on(work, sf_scan(work->ctx, &x, &out, &options));
        }
        for (int32_t i = 0; i < g->ndim; i++)
                if (g->busy[i])
                        out_room.shape[i] = folded_length(work);
        sf_fold_options options = SF_FOLD_OPTIONS_INIT;
        options.op = job->op;
        options.naxes = job->naxes;
        options.axes = job->naxes < 0 ? NULL : job->axes;
        options.keepdim = 1; /* the bytes are the same, and the axes keep their numbers */
        options.reverse = job->reverse;
        options.mask = work->mask_dtype ? &mask : NULL;
        options.offsets = work->offsets_dtype ? &offsets : NULL;
        options.skip_nan = job->skip_nan;
        options.initial = job->initial;
        if (job->acc)
                options.accumulator = job->acc->dtype;
        return passed_on(work, sf_fold(work->ctx, &x, &out, &options));
}

/* ------------------------------------------------------------------------------------------------------------
 * Several axes as one
 * ---------------------------------------------------------------------------------------------------------- */

/* The scanned or folded axes of a box as one axis, number 0, followed by the other axes. */
struct merged {
        int32_t ndim;
        int64_t len[SF_MAX_NDIM + 1], x[SF_MAX_NDIM + 1], out[SF_MAX_NDIM + 1], mask[SF_MAX_NDIM + 1];
};

/* Returns 0 if the folded axes cannot be merged into one: they are in another order in the file, or
 * others are between them. */
static int merge_axes(const struct grid *g, const int64_t *len, struct merged *m)
{
        m->ndim = 1;
        m->len[0] = 1;
        m->x[0] = m->out[0] = m->mask[0] = 0;
        for (int32_t i = g->ndim - 1; i >= 0; i--) {
                if (!g->busy[i] || len[i] == 1)
                        continue;
                if (m->len[0] == 1) {
                        m->x[0] = g->x[i];
                        m->out[0] = g->out[i];
                        m->mask[0] = g->mask[i];
                } else if (g->x[i] != m->x[0] * m->len[0] || g->mask[i] != m->mask[0] * m->len[0]) {
                        return 0;
                }
                m->len[0] *= len[i];
        }
        for (int32_t i = 0; i < g->ndim; i++) {
                if (g->busy[i])
                        continue;
                m->len[m->ndim] = len[i];
                m->x[m->ndim] = g->x[i];
                m->out[m->ndim] = g->out[i];
                m->mask[m->ndim] = g->mask[i];
                m->ndim++;
        }
        return m->ndim <= SF_MAX_NDIM;
}

static int64_t count_elements(const struct grid *g)
{
        int64_t elements = 1;
        for (int32_t i = 0; i < g->ndim && elements; i++)
                elements = g->shape[i] ? elements : 0;
        return elements;
}

int do_shard(const struct work *work, int rank, int ranks, shard_call call)
{
        const struct job *job = work->job;
        const int64_t at[SF_MAX_NDIM] = { 0 };
        struct merged m;
        if (!count_elements(&work->grid)) /* nothing to share: each rank does all of it */
                return do_box(work, at, work->grid.shape);
        if (!merge_axes(&work->grid, work->grid.shape, &m))
                return complain("--mpi shares one axis among the ranks, or several that are contiguous in the file as one; the axes of "
                                "this fold are not: fold them one after another");
        int64_t each = m.len[0] / ranks, more = m.len[0] % ranks;
        int64_t first = each * rank + (rank < more ? rank : more);
        m.len[0] = each + (rank < more);

        struct room x_room, out_room, mask_room;
        sf_tensor x = make_tensor(&x_room, work->x + first * m.x[0], work->x_dtype, m.ndim, m.len, m.x);
        sf_tensor out = make_tensor(&out_room, work->out + first * m.out[0], work->out_dtype, m.ndim, m.len, m.out);
        sf_tensor mask;
        sf_shard_options options = SF_SHARD_OPTIONS_INIT;
        options.op = job->op;
        options.axis = 0;
        options.fold = !job->is_scan;
        options.keepdim = options.fold;
        options.reverse = job->reverse;
        options.exclusive = job->exclusive;
        options.skip_nan = job->skip_nan;
        options.initial = job->initial;
        if (job->acc)
                options.accumulator = job->acc->dtype;
        if (options.fold)
                out_room.shape[0] = 1;
        if (work->mask_dtype) {
                mask = make_tensor(&mask_room, work->mask + first * m.mask[0], work->mask_dtype, m.ndim, m.len, m.mask);
                options.mask = &mask;
        }
        return passed_on(work, call(work->ctx, &x, &out, &options));
}

/* ------------------------------------------------------------------------------------------------------------
 * Folds of long lines
 * ---------------------------------------------------------------------------------------------------------- */

/*
 * The dtype for the folds of blocks: the accumulator's, by the table in scanfold.h. For integers
 * the accumulator's width changes no bit, so the output's type is used; a max or min fits into it,
 * too.
 */
static const struct dtype_info *kept_dtype(const struct work *work)
{
        const struct dtype_info *x = work->x_dtype, *out = work->out_dtype, *acc = work->job->acc;
        if (!dtype_is_float(out))
                return out;
        if (acc && dtype_is_float(acc))
                return acc;
        return dtype_by_name((dtype_is_float(x) && x->size == 8) || out->size == 8 ? "f64" : "f32");
}

static int fold_in_blocks(const struct work *work, const int64_t *at, const struct merged *m, int64_t block)
{
        const struct job *job = work->job;
        const struct grid *g = &work->grid;
        const struct dtype_info *kept = kept_dtype(work);
        int64_t n = m->len[0], nblocks = (n + block - 1) / block;

        /* kept_strides are those of a compact array of shape (nblocks, the other axes). */
        int64_t kept_len[SF_MAX_NDIM + 1], kept_strides[SF_MAX_NDIM + 1], kept_bytes = kept->size;
        for (int32_t i = m->ndim - 1; i >= 0; i--) {
                kept_len[i] = i ? m->len[i] : nblocks;
                kept_strides[i] = kept_bytes;
                kept_bytes *= kept_len[i];
        }
        unsigned char *partial = malloc((size_t)kept_bytes);
        if (!partial)
                return complain("not enough memory for %lld bytes of partial results", (long long)kept_bytes);

        static const int32_t axis_0[1] = { 0 };
        sf_fold_options options = SF_FOLD_OPTIONS_INIT;
        options.op = job->op;
        options.naxes = 1;
        options.axes = axis_0;
        options.reverse = job->reverse;
        options.skip_nan = job->skip_nan;
        unsigned char *x_start = work->x + offset_of(g->x, g->ndim, at);
        unsigned char *mask_start = work->mask_dtype ? work->mask + offset_of(g->mask, g->ndim, at) : NULL;
        struct room x_room, out_room, mask_room;
        int64_t len[SF_MAX_NDIM + 1];
        memcpy(len, m->len, sizeof(len));
        sf_status status = SF_OK;
        for (int64_t b = 0; b < nblocks && status == SF_OK; b++) {
                /* Blocks are counted from where the fold begins; in reverse that is the end. */
                len[0] = n - b * block < block ? n - b * block : block;
                int64_t first = job->reverse ? n - b * block - len[0] : b * block;
                unsigned char *from = x_start + first * m->x[0];
                sf_tensor x = make_tensor(&x_room, from, work->x_dtype, m->ndim, len, m->x);
                sf_tensor out = make_tensor(&out_room, partial + b * kept_strides[0], kept, m->ndim - 1, m->len + 1,
                                            kept_strides + 1);
                sf_tensor mask;
                if (mask_start) {
                        unsigned char *mask_from = mask_start + first * m->mask[0];
                        mask = make_tensor(&mask_room, mask_from, work->mask_dtype, m->ndim, len, m->mask);
                        options.mask = &mask;
                }
                status = sf_fold(work->ctx, &x, &out, &options);
                int64_t extent = extent_of(m->x, m->ndim, len, g->x_item);
                drop_pages(from, (uint64_t)extent);
                if (mask_start)
                        drop_pages(mask_start + first * m->mask[0],
                                   (uint64_t)extent_of(m->mask, m->ndim, len, work->mask_dtype->size));
                int64_t done = g->x_item;
                for (int32_t i = 0; i < m->ndim; i++)
                        done *= len[i];
                progress_add((uint64_t)done);
        }
        if (status == SF_OK) {
                options.reverse = 0;
                options.mask = NULL;
                /* a block whose fold is NaN, such as inf - inf, must not be skipped */
                options.skip_nan = 0;
                options.initial = job->initial;
                if (job->acc)
                        options.accumulator = job->acc->dtype;
                sf_tensor x = make_tensor(&x_room, partial, kept, m->ndim, kept_len, kept_strides);
                sf_tensor out = make_tensor(&out_room, work->out + offset_of(g->out, g->ndim, at), work->out_dtype,
                                            m->ndim - 1, m->len + 1, m->out + 1);
                status = sf_fold(work->ctx, &x, &out, &options);
        }
        free(partial);
        return passed_on(work, status);
}

/* How long the blocks of a box's fold should be; 0 if it should be one call. */
static int64_t block_length(const struct work *work, const struct merged *m)
{
        /* line: the bytes of one entry of the folded axis */
        int64_t item = work->x_dtype->size, line = item;
        /* A product of reals has a separate exponent, which the fold of a block would lose. */
        if (work->job->op == SF_PROD && dtype_is_float(work->out_dtype))
                return 0;
        /* Segments are not aligned blocks, and have any length. */
        if (work->offsets_dtype)
                return 0;
        /* An index refers to the whole line, and a logsumexp has a second component: the fold of a
         * block has neither. */
        if (work->job->op >= SF_ARGMAX)
                return 0;
        for (int32_t i = 1; i < m->ndim; i++)
                line *= m->len[i];
        int64_t block = 1;
        while (block < m->len[0] && block * 2 <= work->job->slab / line)
                block *= 2;
        if (block >= m->len[0])
                return 0;
        /* The folds of short blocks would take nearly as much memory as the blocks. */
        int64_t kept = kept_dtype(work)->size;
        /* NOLINTNEXTLINE(bugprone-integer-division): a number of blocks, and one of elements: both are whole */
        double kept_bytes = (double)(m->len[0] / block + 1) * (double)(line / item) * (double)kept;
        return block * item >= 16 * kept && kept_bytes <= 4 * (double)work->job->slab ? block : 0;
}

/*
 * Chooses the boxes. A fold over a slow axis could be cut along the faster axes that are not
 * folded, but then every box is scattered over the whole file. Blocks of the folded axis are
 * contiguous, so they are tried first.
 */
static void decide_boxes(struct work *work)
{
        struct grid *g = &work->grid;
        const int64_t start[SF_MAX_NDIM] = { 0 };
        int64_t len[SF_MAX_NDIM];
        struct merged m;
        if (!work->job->is_scan && !work->offsets_dtype && merge_axes(g, g->shape, &m)) {
                grid_cut(g, work->job->slab, m.x[0]);
                grid_lengths(g, start, len);
                if (grid_bytes(g, g->box) <= work->job->slab || (merge_axes(g, len, &m) && block_length(work, &m)))
                        return;
        }
        grid_cut(g, work->job->slab, 0);
}

/* Drops the pages of a box that is done. */
static void drop_box(const struct work *work, const int64_t *at, const int64_t *len)
{
        const struct grid *g = &work->grid;
        int64_t out_len[SF_MAX_NDIM];
        for (int32_t i = 0; i < g->ndim; i++)
                out_len[i] = !work->job->is_scan && g->busy[i] ? folded_length(work) : len[i];
        drop_pages(work->x + offset_of(g->x, g->ndim, at), (uint64_t)extent_of(g->x, g->ndim, len, g->x_item));
        if (work->out_is_mapped)
                drop_pages(work->out + offset_of(g->out, g->ndim, at), (uint64_t)extent_of(g->out, g->ndim, out_len, g->out_item));
        if (work->mask_dtype)
                drop_pages(work->mask + offset_of(g->mask, g->ndim, at),
                           (uint64_t)extent_of(g->mask, g->ndim, len, work->mask_dtype->size));
}

int do_work(struct work *work)
{
        const struct job *job = work->job;
        struct grid *g = &work->grid;
        int64_t at[SF_MAX_NDIM] = { 0 }, len[SF_MAX_NDIM] = { 0 };

        if (!count_elements(g))
                return do_box(work, at, g->shape);

        int64_t whole = grid_bytes(g, g->shape);
        decide_boxes(work);
        int64_t box = grid_bytes(g, g->box);
        progress_start(job->command, (uint64_t)whole, 1);
        int status;
        do {
                grid_lengths(g, at, len);
                struct merged m;
                int64_t block = 0;
                if (!job->is_scan && box > job->slab && merge_axes(g, len, &m))
                        block = block_length(work, &m);
                if (block) {
                        status = fold_in_blocks(work, at, &m, block);
                        continue;
                }
                if (box == whole && job->is_scan && work->out_is_mapped)
                        progress_watch(work->out, (uint64_t)extent_of(g->out, g->ndim, len, g->out_item));
                status = do_box(work, at, len);
                if (box < whole)
                        drop_box(work, at, len);
                progress_add((uint64_t)grid_bytes(g, len));
        } while (!status && grid_next(g, at));
        progress_stop();
        return status;
}
