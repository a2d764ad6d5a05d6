/*
 * Shards in CUDA memory, computed by the steps that the CUDA backend has: folds that store values,
 * and scans with values to the left of their sequences, both in the form that kernels hold them in
 * (cuda/held.h).
 *
 * The values are few. Spans are in host memory, and are joined there.
 */
#include "backend.h"
#include "core/value.h"
#include "core/walk.h"
#include "cuda/held.h"
#include "expr/plan.h"
#include "ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------
 * Entries: `count` of them, each with one item for each line, on the host and on the device
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct entries {
        char *host;
        sf_memory device;
        size_t size, each; /* bytes of an item, and of an entry */
        int32_t count;
} entries;

static void entries_end(sf_shard *s, entries *n)
{
        free(n->host);
        if (n->device.data)
                sf_backend_return(s->ctx, s->p.step.device, s->p.step.stream, &n->device);
}

static sf_status entries_begin(sf_shard *s, size_t size, int32_t count, entries *n)
{
        *n = (entries){.size = size, .each = (size_t)s->kind.lines * size, .count = count};
        n->host = malloc((size_t)count * n->each + 1);
        if (!n->host)
                return sf_fail(s->ctx, SF_OUT_OF_MEMORY, "%zu bytes for the values of shards could not be had", (size_t)count * n->each);
        return sf_backend_borrow(s->ctx, s->p.step.device, s->p.step.stream, (size_t)count * n->each + 1, &n->device);
}

static sf_status entries_move(sf_shard *s, entries *n, bool to_device)
{
        return sf_backend_copy(s->ctx, s->p.step.device, s->p.step.stream, to_device ? n->device.data : n->host, to_device ? n->host : n->device.data,
                               (size_t)n->count * n->each);
}

static char *item(const entries *n, int32_t entry, int64_t line)
{
        return n->host + (size_t)entry * n->each + (size_t)line * n->size;
}

/* Entry `entry` as a tensor of the part's shape, broadcast along the axis. */
static sf_view entries_view(const sf_shard *s, const sf_part_step *t, const entries *n, int32_t entry, sf_dt dt)
{
        sf_view v = {.data = (char *)n->device.data + (size_t)entry * n->each, .dt = dt, .ndim = s->p.x.ndim, .shape = t->shape};
        int64_t stride = (int64_t)n->size;
        for (int32_t d = v.ndim - 1; d >= 0; d--) {
                v.strides[d] = d == s->axis ? 0 : stride;
                stride *= d == s->axis ? 1 : s->p.x.shape[d];
        }
        return v;
}

/* ------------------------------------------------------------------------------------------------------------
 * Values of blocks
 * ---------------------------------------------------------------------------------------------------------- */

/* How the values of the blocks are held, of which the longest has `length` positions. */
static sf_held held_in(const sf_shard *s, int64_t length)
{
        sf_step step = s->p.step;
        step.before = 0;
        step.n = length;
        return (sf_held){s->kind.op, s->kind.acc, sf_cuda_held_acc(&step), 0};
}

/*
 * A launch takes a few microseconds, and a shard that begins anywhere has a block for each bit of
 * its length, most of them small. So neighbouring blocks that are small are folded together, as
 * segments of a line (core/segments.h).
 */
#define SMALL_ELEMENTS ((int64_t)1 << 21)

/* Neighbouring blocks that one step folds; `first` is the number of the first one. */
typedef struct run {
        int64_t from, to;
        int32_t first, count;
} run;

static int32_t make_runs(const sf_shard *s, run runs[SF_SPAN_BLOCKS])
{
        int32_t count = 0, entry = 0;
        bool joins = false; /* the last run is of small blocks */
        for (int64_t at = s->from; at < s->to; entry++) {
                const int64_t end = at + ((int64_t)1 << sf_span_level(at, s->to));
                const bool small = (end - at) * s->kind.lines <= SMALL_ELEMENTS;
                if (small && joins) {
                        runs[count - 1].to = end;
                        runs[count - 1].count++;
                } else {
                        runs[count++] = (run){at, end, entry, 1};
                }
                joins = small;
                at = end;
        }
        return count;
}

/* Offsets of a run's blocks, in the order of the axis. */
static void put_offsets(const sf_shard *s, const run *r, int64_t *to)
{
        int64_t at = r->from;
        const int64_t length = r->to - r->from;
        for (int32_t i = 0; i <= r->count; i++) {
                to[s->request.reverse ? r->count - i : i] = s->request.reverse ? length - (at - r->from) : at - r->from;
                at += at < r->to ? (int64_t)1 << sf_span_level(at, s->to) : 0;
        }
}

/* `offsets`, on the device, are the run's if it has several blocks. */
static sf_status fold_run(sf_shard *s, const run *r, const entries *n, const int64_t *offsets)
{
        sf_part_step t;
        const sf_held form = held_in(s, r->to - r->from);
        const bool pair = sf_cuda_is_pair((int32_t)form.op, (int32_t)form.acc), reverse = s->request.reverse;
        int64_t shape[SF_MAX_NDIM], ends = r->count + 1;
        const sf_view cuts = {.data = (char *)(uintptr_t)offsets, .dt = SF_DT_I64, .ndim = 1, .shape = &ends, .strides = {sizeof *offsets}, .count = ends};
        sf_part_make(s, r->from, r->to, &t);
        t.step.fold = true;
        t.step.exclusive = t.step.has_initial = t.step.in_place = false;
        t.step.out = pair ? t.step.in : sf_held_number(&form); /* nothing is rounded */
        t.values = entries_view(s, &t, n, r->first + (reverse ? r->count - 1 : 0), t.step.out);
        t.views.values = pair;
        t.views.y = &t.values;
        t.views.before = t.views.after = 0; /* positions count from the beginning of a block */
        if (r->count > 1) {
                memcpy(shape, t.shape, (size_t)s->p.x.ndim * sizeof *shape);
                shape[s->axis] = r->count;
                t.values.shape = shape;
                t.values.strides[s->axis] = (reverse ? -1 : 1) * (int64_t)n->each;
                t.views.offsets = &cuts;
        }
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

/* All runs; the longest first, so that the host launches the others meanwhile. */
static sf_status fold_runs(sf_shard *s, int32_t count, const run *runs, const entries *n)
{
        int64_t offsets[2 * SF_SPAN_BLOCKS];
        int32_t cuts = 0, at[SF_SPAN_BLOCKS];
        bool done[SF_SPAN_BLOCKS] = {false};
        sf_memory memory = {NULL, NULL};
        sf_status status = SF_OK;
        for (int32_t i = 0; i < count; i++) {
                at[i] = cuts;
                if (runs[i].count < 2)
                        continue;
                put_offsets(s, &runs[i], offsets + cuts);
                cuts += runs[i].count + 1;
        }
        if (cuts)
                status = sf_backend_borrow(s->ctx, s->p.step.device, s->p.step.stream, (size_t)cuts * sizeof *offsets, &memory);
        if (cuts && status == SF_OK)
                status = sf_backend_copy(s->ctx, s->p.step.device, s->p.step.stream, memory.data, offsets, (size_t)cuts * sizeof *offsets);
        for (int32_t k = 0; status == SF_OK && k < count; k++) {
                int32_t next = -1;
                for (int32_t i = 0; i < count; i++)
                        if (!done[i] && (next < 0 || runs[i].to - runs[i].from > runs[next].to - runs[next].from))
                                next = i;
                done[next] = true;
                status = fold_run(s, &runs[next], n, (int64_t *)memory.data + at[next]);
        }
        if (memory.data)
                sf_backend_return(s->ctx, s->p.step.device, s->p.step.stream, &memory);
        return status;
}

sf_status sf_device_fold(sf_shard *s)
{
        entries n;
        run runs[SF_SPAN_BLOCKS];
        const sf_held widest = held_in(s, s->to - s->from);
        const int32_t count = make_runs(s, runs);
        sf_status status = entries_begin(s, sf_held_size(&widest), sf_span_blocks(s->from, s->to), &n);
        if (status == SF_OK)
                status = fold_runs(s, count, runs, &n);
        if (status == SF_OK)
                status = entries_move(s, &n, false);
        char *to = s->span;
        for (int32_t k = 0; status == SF_OK && k < count; k++) {
                sf_held form = held_in(s, runs[k].to - runs[k].from);
                form.from = runs[k].from;
                for (int32_t entry = runs[k].first; entry < runs[k].first + runs[k].count; entry++) {
                        for (int64_t i = 0; i < s->kind.lines; i++, to += sf_span_value_bytes(&s->kind))
                                sf_span_put(&s->kind, to, sf_held_get(&form, item(&n, entry, i)));
                        form.from += (int64_t)1 << sf_span_level(form.from, s->to);
                }
        }
        entries_end(s, &n);
        return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * Results of a scan
 * ---------------------------------------------------------------------------------------------------------- */

/* How the values to the left of [from, to) are held. */
static sf_held held_before(const sf_shard *s, int64_t from, int64_t to)
{
        sf_step step = s->p.step;
        step.before = from;
        step.n = to - from;
        return (sf_held){s->kind.op, s->kind.acc, sf_cuda_held_acc(&step), from};
}

/* Writes the pile, which is what comes before [from, to), into entries from `first` on; the lowest
 * block comes first. */
static void put_lefts(const sf_shard *s, const sf_pile *pile, int64_t from, int64_t to, const entries *n, int32_t first)
{
        const sf_held form = held_before(s, from, to);
        for (int32_t e = 0; e < pile->count; e++)
                for (int64_t i = 0; i < s->kind.lines; i++)
                        sf_held_put(&form, sf_pile_value(pile, pile->count - 1 - e, i), item(n, first + e, i));
}

static sf_status scan_part(sf_shard *s, int64_t from, int64_t to, const entries *n, int32_t first, int32_t count)
{
        sf_part_step t;
        sf_part_make(s, from, to, &t);
        if (count) {
                t.values = entries_view(s, &t, n, first, SF_DT_U8);
                t.views.left = &t.values;
                t.views.lefts = count;
                t.views.left_entry = (int64_t)n->each;
        }
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

sf_status sf_device_scan(sf_shard *s, sf_pile *pile)
{
        int64_t begin[SF_SPAN_BLOCKS];
        int32_t first[SF_SPAN_BLOCKS], parts = 0, lefts = 0;
        const size_t each = (size_t)(s->kind.lines * sf_span_value_bytes(&s->kind));
        const sf_held widest = held_before(s, 0, s->to);
        const char *span = s->span;
        entries n;
        for (int64_t at = s->from; at < s->to; at = sf_part_end(s, at)) {
                begin[parts] = at;
                first[parts++] = lefts;
                lefts += sf_span_blocks(0, at);
        }
        begin[parts] = s->to;
        first[parts] = lefts;
        sf_status status = entries_begin(s, sf_held_size(&widest), lefts, &n);
        for (int32_t i = 0; status == SF_OK && i < parts; i++, span += each) {
                put_lefts(s, pile, begin[i], begin[i + 1], &n, first[i]);
                if (i + 1 < parts && !sf_pile_add(pile, begin[i + 1], span))
                        status = sf_fail(s->ctx, SF_OUT_OF_MEMORY, "%zu bytes for the values of shards could not be had", each);
        }
        if (status == SF_OK && lefts)
                status = entries_move(s, &n, true);
        /* the largest first, as above */
        for (int32_t i = parts - 1; status == SF_OK && i >= 0; i--)
                status = scan_part(s, begin[i], begin[i + 1], &n, first[i], first[i + 1] - first[i]);
        entries_end(s, &n);
        return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * The result of a fold
 * ---------------------------------------------------------------------------------------------------------- */

/* Is out, with one result for each line, contiguous in the order of lines? */
static bool is_contiguous(const sf_shard *s)
{
        int64_t stride = (int64_t)sf_dtypes[s->p.step.out].size;
        for (int32_t d = s->p.out.ndim - 1; d >= 0; d--) {
                if (s->p.out.shape[d] != 1 && s->p.out.strides[d] != stride)
                        return false;
                stride *= s->p.out.shape[d];
        }
        return true;
}

/* Copies the results, which are on the device, to where out has them: a step over sequences of one
 * element. */
static sf_status spread_results(sf_shard *s, const entries *n, sf_dt dt)
{
        sf_part_step t;
        sf_part_make(s, s->from, s->from, &t);
        t.shape[s->axis] = 1;
        t.x = entries_view(s, &t, n, 0, dt);
        t.out = s->p.out;
        t.out.ndim = t.x.ndim;
        t.out.shape = t.shape;
        for (int32_t d = 0, yd = 0; d < t.x.ndim; d++) {
                t.out.strides[d] = d == s->axis ? 0 : s->p.out.strides[yd];
                yd += d != s->axis || s->request.keepdim;
        }
        t.step = (sf_step){.op = SF_MAX, .in = dt, .acc = dt == SF_DT_BOOL ? SF_DT_U8 : dt, .out = dt, .device = s->p.step.device, .stream = s->p.step.stream};
        t.step.acc = sf_dtypes[dt].kind == SF_KIND_REAL && sf_dtypes[dt].size < 4 ? SF_DT_F32 : t.step.acc;
        t.step.identity = sf_identity(SF_MAX, t.step.acc);
        t.views = (sf_step_views){.x = &t.x, .y = &t.out, .keepdim = true};
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

sf_status sf_device_result(sf_shard *s, const sf_pile *pile)
{
        entries n;
        sf_step step = s->p.step;
        step.n = s->length;
        step.before = step.after = 0;
        step.reverse = s->request.reverse;
        sf_status status = entries_begin(s, (size_t)sf_dtypes[step.out].size, 1, &n);
        for (int64_t i = 0; status == SF_OK && i < s->kind.lines; i++) {
                sf_value v = s->length ? sf_pile_fold(pile, i) : step.identity;
                if (step.has_initial)
                        v = sf_combine(step.op, step.acc, step.initial, v);
                sf_value_store(sf_op_result(step.op, step.acc), step.out, sf_step_lower(&step, v), item(&n, 0, i));
        }
        if (status == SF_OK && is_contiguous(s))
                status = sf_backend_copy(s->ctx, step.device, step.stream, s->p.out.data, n.host, n.each);
        else if (status == SF_OK) {
                status = entries_move(s, &n, true);
                if (status == SF_OK)
                        status = spread_results(s, &n, step.out);
        }
        entries_end(s, &n);
        return status;
}
