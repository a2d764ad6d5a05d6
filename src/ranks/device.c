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

/* ------------------------------------------------------------------------------------------------
 * Entries: `count` of them, each with one item for each line, on the host and on the device
 * ---------------------------------------------------------------------------------------------- */
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

static sf_status no_memory(const sf_shard *s, size_t bytes)
{
        return sf_fail(s->ctx, SF_OUT_OF_MEMORY, "%zu bytes for the values of shards could not be had", bytes);
}

static sf_status entries_begin(sf_shard *s, size_t size, int32_t count, entries *n)
{
        *n = (entries){.size = size, .each = (size_t)s->kind.lines * size, .count = count};
        n->host = malloc((size_t)count * n->each + 1);
        if (!n->host)
                return no_memory(s, (size_t)count * n->each);
        return sf_backend_borrow(s->ctx, s->p.step.device, s->p.step.stream,
                                 (size_t)count * n->each + 1, &n->device);
}

static sf_status entries_move(sf_shard *s, entries *n, bool to_device)
{
        void *to = to_device ? n->device.data : n->host;
        const void *from = to_device ? n->host : n->device.data;
        return sf_backend_copy(s->ctx, s->p.step.device, s->p.step.stream, to, from,
                               (size_t)n->count * n->each);
}

static char *item(const entries *n, int32_t entry, int64_t line)
{
        return n->host + (size_t)entry * n->each + (size_t)line * n->size;
}

/* Entry `entry` as a tensor of the part's shape, broadcast along the axis. */
static sf_view entries_view(const sf_shard *s, const sf_part_step *t, const entries *n,
                            int32_t entry, sf_dt dt)
{
        sf_view v = {.data = (char *)n->device.data + (size_t)entry * n->each, .dt = dt,
                     .ndim = s->p.x.ndim, .shape = t->shape};
        int64_t stride = (int64_t)n->size;
        for (int32_t d = v.ndim - 1; d >= 0; d--) {
                v.strides[d] = d == s->axis ? 0 : stride;
                stride *= d == s->axis ? 1 : s->p.x.shape[d];
        }
        return v;
}

/* ------------------------------------------------------------------------------------------------
 * Chunks
 *
 * A launch takes a few microseconds, and a shard that begins anywhere has a block for each bit of
 * its length. So it is cut into chunks instead: aligned blocks whose length is a power of 2^RADIX,
 * so that many of one length follow one another. Such chunks are rows side by side for one step.
 * H200, a shard of 2^28 f32 that begins anywhere, share of the speed of an unsharded cumsum: with a
 * step for each block 0.39.
 * ---------------------------------------------------------------------------------------------- */
#define RADIX 7
/* At most so many values of chunks of one length, because the host combines them: the more lines,
 * the fewer chunks. */
#define MOST_VALUES 512

static int radix(const sf_shard *s)
{
        int r = RADIX;
        while (r > 1 && (s->kind.lines << r) > MOST_VALUES)
                r--;
        /* A scan to an index knows the first position of its step only, so it has one row. */
        const bool index = !s->p.step.fold && sf_op_is(s->kind.op, SF_INDEX);
        return s->p.x.ndim == SF_MAX_NDIM || index ? 1 : r;
}

static int64_t chunk_length(int64_t at, int64_t to, int r)
{
        const int level = sf_span_level(at, to);
        return (int64_t)1 << ((int64_t)1 << level == to - at ? level : level - level % r);
}

static sf_status cut_chunks(sf_shard *s)
{
        const int r = radix(s);
        const size_t value = (size_t)(s->kind.lines * sf_span_value_bytes(&s->kind));
        int32_t count = 0;
        for (int64_t at = s->from; at < s->to; at += chunk_length(at, s->to, r))
                count++;
        free(s->chunk);
        free(s->values);
        s->chunks = count;
        s->chunk = malloc(((size_t)count + 1) * sizeof *s->chunk);
        s->values = malloc((size_t)count * value + 1);
        if (!s->chunk || !s->values)
                return no_memory(s, (size_t)count * value);
        s->chunk[0] = s->from;
        for (int32_t i = 0; i < count; i++)
                s->chunk[i + 1] = s->chunk[i] + chunk_length(s->chunk[i], s->to, r);
        return SF_OK;
}

static int64_t length_of(const sf_shard *s, int32_t chunk)
{
        return s->chunk[chunk + 1] - s->chunk[chunk];
}

/* Chunks of one length, from `first` on, that one step computes. */
typedef struct run {
        int32_t first, count;
        int32_t entry; /* where its entries begin */
        int32_t lefts; /* of a scan: the most values to the left of a row */
} run;

/* How many chunks of one length there are from `first` on, before `end`. */
static int32_t count_alike(const sf_shard *s, int32_t first, int32_t end)
{
        int32_t next = first + 1;
        while (next < end && length_of(s, next) == length_of(s, first) && s->p.x.ndim < SF_MAX_NDIM)
                next++;
        return next - first;
}

static int64_t run_length(const sf_shard *s, const run *r)
{
        return s->chunk[r->first + r->count] - s->chunk[r->first];
}

/* The tensors of a run's step: rows side by side if it has several chunks. */
static void make_part(sf_shard *s, const run *r, sf_part_step *t)
{
        sf_part_make(s, s->chunk[r->first], s->chunk[r->first + r->count], t);
        if (r->count > 1)
                sf_part_fan(s, r->count, t);
}

/* The run's first entries, one for each row. */
static void see_rows(const sf_shard *s, const run *r, const entries *n, sf_dt dt, sf_part_step *t)
{
        t->values = entries_view(s, t, n, r->entry, dt);
        if (r->count > 1)
                t->values.strides[t->values.ndim++] = (int64_t)n->each;
}

/* ------------------------------------------------------------------------------------------------
 * Values of blocks
 * ---------------------------------------------------------------------------------------------- */

/* How the values of chunks are held, if a step goes over `length` positions. */
static sf_held held_in(const sf_shard *s, int64_t length)
{
        sf_step step = s->p.step;
        step.before = 0;
        step.n = length;
        return (sf_held){s->kind.op, s->kind.acc, sf_cuda_held_acc(&step), 0};
}

static int32_t make_folds(const sf_shard *s, run *runs)
{
        int32_t count = 0;
        for (int32_t at = 0; at < s->chunks; at += runs[count++].count)
                runs[count] = (run){.first = at, .count = count_alike(s, at, s->chunks), .entry = at};
        return count;
}

static sf_status fold_run(sf_shard *s, const run *r, const entries *n)
{
        sf_part_step t;
        const sf_held form = held_in(s, length_of(s, r->first));
        const bool pair = sf_cuda_is_pair((int32_t)form.op, (int32_t)form.acc);
        make_part(s, r, &t);
        t.step.fold = true;
        t.step.exclusive = t.step.has_initial = t.step.in_place = false;
        t.step.out = pair ? t.step.in : sf_held_number(&form); /* nothing is rounded */
        see_rows(s, r, n, t.step.out, &t);
        t.views.values = pair;
        t.views.y = &t.values;
        t.views.before = t.views.after = 0; /* positions count from the beginning of a chunk */
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

/* The run that has most elements of those not done yet: the host launches the others meanwhile. */
static int32_t next_run(const sf_shard *s, int32_t count, const run *runs, bool *done)
{
        int32_t next = -1;
        for (int32_t i = 0; i < count; i++)
                if (!done[i] && (next < 0 || run_length(s, &runs[i]) > run_length(s, &runs[next])))
                        next = i;
        done[next] = true;
        return next;
}

/* Puts the chunks' values, which are on the host, into the shard's list of them and into its span. */
static sf_status take_values(sf_shard *s, int32_t count, const run *runs, const entries *n)
{
        const size_t each = (size_t)sf_span_value_bytes(&s->kind);
        char *to = s->values;
        for (int32_t k = 0; k < count; k++) {
                sf_held form = held_in(s, length_of(s, runs[k].first));
                for (int32_t c = runs[k].first; c < runs[k].first + runs[k].count; c++) {
                        form.from = s->chunk[c];
                        for (int64_t i = 0; i < s->kind.lines; i++, to += each)
                                sf_span_put(&s->kind, to, sf_held_get(&form, item(n, c, i)));
                }
        }
        sf_pile pile;
        sf_pile_start(&pile, &s->kind, s->from);
        bool added = true;
        for (int32_t c = 0; added && c < s->chunks; c++)
                added = sf_pile_add(&pile, s->chunk[c + 1], s->values + (size_t)c * (size_t)s->kind.lines * each);
        if (added)
                memcpy(s->span, pile.data, sf_shard_bytes(s, s->rank));
        sf_pile_end(&pile);
        return added ? SF_OK : no_memory(s, sf_shard_bytes(s, s->rank));
}

sf_status sf_device_fold(sf_shard *s)
{
        entries n = {.host = NULL};
        SF_TRY(cut_chunks(s));
        const sf_held widest = held_in(s, s->to - s->from);
        run *runs = malloc((size_t)s->chunks * (sizeof *runs + sizeof(bool)));
        if (!runs)
                return no_memory(s, (size_t)s->chunks * sizeof *runs);
        const int32_t count = make_folds(s, runs);
        bool *done = (bool *)(runs + s->chunks);
        memset(done, 0, (size_t)count);
        sf_status status = entries_begin(s, sf_held_size(&widest), s->chunks, &n);
        if (status == SF_OK)
                for (int32_t k = 0; status == SF_OK && k < count; k++)
                        status = fold_run(s, &runs[next_run(s, count, runs, done)], &n);
        if (status == SF_OK)
                status = entries_move(s, &n, false);
        if (status == SF_OK)
                status = take_values(s, count, runs, &n);
        entries_end(s, &n);
        free(runs);
        return status;
}

/* ------------------------------------------------------------------------------------------------
 * Results of a scan
 * ---------------------------------------------------------------------------------------------- */

/* How the values to the left of [from, to) are held. */
static sf_held held_before(const sf_shard *s, int64_t from, int64_t to)
{
        sf_step step = s->p.step;
        step.before = from;
        step.n = to - from;
        return (sf_held){s->kind.op, s->kind.acc, sf_cuda_held_acc(&step), from};
}

/* Chunks of one length are rows of a step, until the rest of the shard can be one line. The chunks
 * of that line are cut no more: they become one. Returns how many runs there are. */
static int32_t make_scans(sf_shard *s, run *runs)
{
        int32_t count = 0, entry = 0;
        for (int32_t at = 0; at < s->chunks; count++) {
                run *r = &runs[count];
                int32_t end = at;
                while (end < s->chunks && sf_part_end(s, s->chunk[end]) < s->to)
                        end++;
                if (end == at) {
                        s->chunks = at + 1;
                        s->chunk[at + 1] = s->to;
                }
                *r = (run){.first = at, .count = end == at ? 1 : count_alike(s, at, end), .entry = entry};
                for (int32_t c = at; c < at + r->count; c++) {
                        const int32_t lefts = sf_span_blocks(0, s->chunk[c]);
                        r->lefts = lefts > r->lefts ? lefts : r->lefts;
                }
                entry += r->lefts ? (1 + r->lefts) * r->count : 0;
                at += r->count;
        }
        return count;
}

/* Writes the entries of row `row` of a run: how many values the pile has, and these, the lowest
 * block first. `held` has the pile's blocks as they are held; the last one is new. */
static void put_lefts(const sf_shard *s, const sf_pile *pile, char *held, const run *r,
                      int32_t row, const entries *n)
{
        const int32_t c = r->first + row, entry = r->entry + row;
        const sf_held form = held_before(s, s->chunk[c], s->chunk[c + 1]);
        /* Only values of indices depend on the row, and those have runs of one row. */
        const int32_t first = c && !sf_op_is(s->kind.op, SF_INDEX) ? pile->count - 1 : 0;
        for (int32_t b = first; b < pile->count; b++)
                for (int64_t i = 0; i < s->kind.lines; i++)
                        sf_held_put(&form, sf_pile_value(pile, b, i),
                                    held + (size_t)b * n->each + (size_t)i * n->size);
        for (int64_t i = 0; i < s->kind.lines; i++)
                memcpy(item(n, entry, i), &pile->count, sizeof pile->count);
        for (int32_t e = 0; e < pile->count; e++)
                memcpy(item(n, entry + (1 + e) * r->count, 0),
                       held + (size_t)(pile->count - 1 - e) * n->each, n->each);
}

/* The entries of all runs. The pile has all positions before the shard. */
static sf_status put_all_lefts(sf_shard *s, sf_pile *pile, int32_t count, const run *runs,
                               const entries *n)
{
        const size_t each = (size_t)(s->kind.lines * sf_span_value_bytes(&s->kind));
        char *held = malloc(SF_SPAN_BLOCKS * n->each + 1);
        bool added = held != NULL;
        for (int32_t k = 0; added && k < count; k++)
                for (int32_t row = 0; added && row < runs[k].count; row++) {
                        const int32_t c = runs[k].first + row;
                        if (runs[k].lefts)
                                put_lefts(s, pile, held, &runs[k], row, n);
                        added = c + 1 == s->chunks ||
                                sf_pile_add(pile, s->chunk[c + 1], s->values + (size_t)c * each);
                }
        free(held);
        return added ? SF_OK : no_memory(s, SF_SPAN_BLOCKS * n->each);
}

static sf_status scan_run(sf_shard *s, const run *r, const entries *n)
{
        sf_part_step t;
        make_part(s, r, &t);
        if (r->lefts) {
                see_rows(s, r, n, SF_DT_U8, &t);
                t.views.left = &t.values;
                t.views.lefts = r->lefts;
                t.views.left_entry = (int64_t)n->each * r->count;
        }
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

sf_status sf_device_scan(sf_shard *s, sf_pile *pile)
{
        entries n = {.host = NULL};
        const sf_held widest = held_before(s, 0, s->to);
        run *runs = malloc((size_t)s->chunks * (sizeof *runs + sizeof(bool)));
        if (!runs)
                return no_memory(s, (size_t)s->chunks * sizeof *runs);
        const int32_t count = make_scans(s, runs);
        const run *last = &runs[count - 1];
        const int32_t all = last->entry + (last->lefts ? (1 + last->lefts) * last->count : 0);
        bool *done = (bool *)(runs + count);
        memset(done, 0, (size_t)count);
        sf_status status = entries_begin(s, sf_held_size(&widest), all, &n);
        if (status == SF_OK)
                status = put_all_lefts(s, pile, count, runs, &n);
        if (status == SF_OK && all)
                status = entries_move(s, &n, true);
        for (int32_t k = 0; status == SF_OK && k < count; k++)
                status = scan_run(s, &runs[next_run(s, count, runs, done)], &n);
        entries_end(s, &n);
        free(runs);
        return status;
}

/* ------------------------------------------------------------------------------------------------
 * The result of a fold
 * ---------------------------------------------------------------------------------------------- */

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

/* Makes a step over sequences of one element: numbers of type dt, one for each line, to out. */
static void make_copy(sf_shard *s, sf_dt dt, sf_part_step *t)
{
        const bool real = sf_dtypes[dt].kind == SF_KIND_REAL;
        sf_part_make(s, s->from, s->from, t);
        t->shape[s->axis] = 1;
        t->out = s->p.out;
        t->out.ndim = s->p.x.ndim;
        t->out.shape = t->shape;
        for (int32_t d = 0, yd = 0; d < s->p.x.ndim; d++) {
                t->out.strides[d] = d == s->axis ? 0 : s->p.out.strides[yd];
                yd += d != s->axis || s->request.keepdim;
        }
        t->step = (sf_step){.op = SF_MAX, .in = dt, .acc = dt == SF_DT_BOOL ? SF_DT_U8 : real && sf_dtypes[dt].size < 4 ? SF_DT_F32 : dt, .out = s->p.step.out,
                            .device = s->p.step.device, .stream = s->p.step.stream};
        t->step.identity = sf_identity(SF_MAX, t->step.acc);
        t->views = (sf_step_views){.x = &t->x, .y = &t->out, .keepdim = true};
}

/* One result is a launch's parameter: a copy from the host would be waited for. */
static sf_status put_result(sf_shard *s, sf_dt dt, sf_value v)
{
        sf_part_step t;
        sf_fuse fuse = {.operands = 1};
        make_copy(s, dt, &t);
        /* nobody reads it */
        t.x = (sf_view){.data = s->p.out.data, .dt = dt, .ndim = s->p.x.ndim, .shape = t.shape};
        fuse.load.code[fuse.load.count++] =
                (sf_instruction){.code = SF_CODE_CONSTANT, .dt = (uint8_t)dt};
        fuse.load.constant[fuse.load.constants++] = v;
        t.views.fuse = &fuse;
        t.views.operands = 1;
        t.views.operand[0] = &t.x;
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

static sf_status put_results(sf_shard *s, const entries *n)
{
        sf_part_step t;
        if (is_contiguous(s))
                return sf_backend_copy(s->ctx, s->p.step.device, s->p.step.stream, s->p.out.data,
                                       n->host, n->each);
        SF_TRY(sf_backend_copy(s->ctx, s->p.step.device, s->p.step.stream, n->device.data, n->host,
                               n->each));
        make_copy(s, s->p.step.out, &t);
        t.x = entries_view(s, &t, n, 0, s->p.step.out);
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

static sf_value result_of(const sf_shard *s, const sf_step *step, const sf_pile *pile, int64_t line)
{
        sf_value v = s->length ? sf_pile_fold(pile, line) : step->identity;
        if (step->has_initial)
                v = sf_combine(step->op, step->acc, step->initial, v);
        return sf_step_lower(step, v);
}

sf_status sf_device_result(sf_shard *s, const sf_pile *pile)
{
        entries n;
        sf_step step = s->p.step;
        const sf_dt dt = sf_op_result(step.op, step.acc);
        step.n = s->length;
        step.before = step.after = 0;
        step.reverse = s->request.reverse;
        if (s->kind.lines == 1 && step.out != SF_DT_BOOL)
                return put_result(s, dt, result_of(s, &step, pile, 0));
        sf_status status = entries_begin(s, (size_t)sf_dtypes[step.out].size, 1, &n);
        for (int64_t i = 0; status == SF_OK && i < s->kind.lines; i++)
                sf_value_store(dt, step.out, result_of(s, &step, pile, i), item(&n, 0, i));
        if (status == SF_OK)
                status = put_results(s, &n);
        entries_end(s, &n);
        return status;
}
