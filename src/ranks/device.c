/*
 * Shards in CUDA memory, computed by the steps that the CUDA backend has: folds that store values,
 * and scans with values to the left of their sequences, both in the form that kernels hold them in
 * (cuda/held.h).
 *
 * The values are few. Spans are in host memory, and are joined there.
 */
#include "backend.h"
#include "core/order.h"
#include "core/value.h"
#include "core/walk.h"
#include "cuda/held.h"
#include "expr/plan.h"
#include "ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

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

static sf_status make_room(sf_shard *s, int32_t count)
{
        const size_t value = (size_t)(s->kind.lines * sf_span_value_bytes(&s->kind));
        free(s->chunk);
        free(s->values);
        s->chunks = count;
        s->chunk = malloc(((size_t)count + 1) * sizeof *s->chunk);
        s->values = malloc((size_t)count * value + 1);
        return s->chunk && s->values ? SF_OK : sf_entries_none(s, (size_t)count * value);
}

static sf_status cut_chunks(sf_shard *s)
{
        const int r = radix(s);
        int32_t count = 0;
        for (int64_t at = s->from; at < s->to; at += chunk_length(at, s->to, r))
                count++;
        SF_TRY(make_room(s, count));
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
static void see_rows(const sf_shard *s, const run *r, const sf_entries *n, sf_dt dt, sf_part_step *t)
{
        t->values = sf_entries_view(s, t, n, r->entry, dt);
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

/*
 * A fold needs few values, and takes its whole shard in one step (sf_cuts). Blocks of 2^log
 * positions are as long as chunks of an unsharded fold are.
 */
static sf_cuts choose_cuts(const sf_shard *s)
{
        const int64_t n = s->to - s->from, stride = s->p.x.strides[s->axis];
        const bool down = s->kind.lines > 1 && (stride < 0 ? -stride : stride) != (int64_t)sf_dtypes[s->p.step.in].size;
        const int64_t strips = down ? (s->kind.lines + 127) / 128 : s->kind.lines;
        const int fits = sf_order_log2((uint64_t)n) - 1;
        sf_cuts c = {.from = s->from, .log = down ? 12 : 14};
        while (c.log > (down ? 6 : 12) && strips * (n >> c.log) < 2048)
                c.log--;
        c.log = fits < c.log ? (fits > 0 ? fits : 0) : c.log;
        const sf_blocks b = sf_blocks_of(s->from, n, c.log);
        const int32_t most = down ? 10 : 13;
        if (b.whole > 8) {
                c.then = sf_order_log2((uint64_t)b.whole) - 1;
                c.then = c.then < most ? c.then : most;
        }
        return c;
}

/* A shard that is a block by itself is folded as any line is. */
static bool is_one_block(const sf_shard *s)
{
        return sf_span_blocks(s->from, s->to) == 1;
}

/* Makes the blocks that the step has values of the shard's chunks. */
static sf_status cut_blocks(sf_shard *s, const sf_cuts *c)
{
        const sf_blocks b = sf_blocks_of(s->from, s->to - s->from, c->log);
        const sf_blocks then = sf_blocks_of((s->from + b.head) >> b.log, b.whole, c->then);
        const int32_t first = (int32_t)sf_ones(b.head), middle = (int32_t)sf_blocks_count(then);
        const bool one = is_one_block(s);
        const int32_t count = one ? 1 : first + middle + (int32_t)sf_ones(b.tail);
        SF_TRY(make_room(s, count));
        s->chunk[0] = s->from;
        for (int32_t i = 0; i < count && !one; i++) {
                const bool inner = i >= first && i < first + middle;
                const int32_t index = i < first ? i : (int32_t)(i - first - middle + first + b.whole);
                int64_t length;
                int64_t at = inner ? b.head + (sf_block_at(then, i - first, &length) << b.log)
                                   : sf_block_at(b, index, &length);
                s->chunk[i] = s->from + at;
        }
        s->chunk[count] = s->to;
        return SF_OK;
}

static sf_status fold_cuts(sf_shard *s, const sf_cuts *c, const sf_held *form, const sf_entries *n)
{
        sf_part_step t;
        const run all = {.count = 1};
        const bool pair = sf_cuda_is_pair((int32_t)form->op, (int32_t)form->acc);
        sf_part_make(s, s->from, s->to, &t);
        t.step.fold = true;
        t.step.exclusive = t.step.has_initial = t.step.in_place = false;
        t.step.out = pair ? t.step.in : sf_held_number(form); /* nothing is rounded */
        t.step.acc = pair ? t.step.acc : t.step.out; /* totals and values are alike */
        t.views.lefts = sf_cuda_cuts_levels(c);
        t.views.left_entry = is_one_block(s) ? 0 : (int64_t)n->each;
        see_rows(s, &all, n, t.step.out, &t);
        t.views.values = pair;
        t.views.y = &t.values;
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

/* Are values in a span as kernels hold them? */
static bool is_alike(const sf_shard *s, const sf_held *form)
{
        return form->acc == form->held && sf_dtypes[form->acc].kind == SF_KIND_REAL &&
               s->kind.op != SF_PROD && !sf_op_is(s->kind.op, SF_INDEX);
}

static int32_t make_folds(const sf_shard *s, run *runs)
{
        int32_t count = 0;
        for (int32_t at = 0; at < s->chunks; at += runs[count++].count)
                runs[count] = (run){.first = at, .count = count_alike(s, at, s->chunks), .entry = at};
        return count;
}

static sf_status fold_run(sf_shard *s, const run *r, const sf_entries *n)
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
static sf_status take_values(sf_shard *s, const sf_held *whole, const sf_entries *n)
{
        const size_t each = (size_t)sf_span_value_bytes(&s->kind);
        char *to = s->values;
        for (int32_t c = 0; c < s->chunks; c++) {
                sf_held form = whole ? *whole : held_in(s, length_of(s, c));
                form.from = whole ? s->from : s->chunk[c];
                if (is_alike(s, &form)) {
                        memcpy(to, sf_entries_item(n, c, 0), n->each);
                        to += n->each;
                        continue;
                }
                for (int64_t i = 0; i < s->kind.lines; i++, to += each)
                        sf_span_put(&s->kind, to, sf_held_get(&form, sf_entries_item(n, c, i)));
        }
        sf_pile pile;
        sf_pile_start(&pile, &s->kind, s->from);
        bool added = true;
        for (int32_t c = 0; added && c < s->chunks; c++)
                added = sf_pile_add(&pile, s->chunk[c + 1], s->values + (size_t)c * (size_t)s->kind.lines * each);
        if (added)
                memcpy(s->span, pile.data, sf_shard_bytes(s, s->rank));
        sf_pile_end(&pile);
        return added ? SF_OK : sf_entries_none(s, sf_shard_bytes(s, s->rank));
}

/* Is a scan of the shard one of lines that begin anywhere? A scan to an index knows only the first
 * position of its step. */
static bool scans_blocks(const sf_shard *s)
{
        const int64_t stride = s->p.x.strides[s->axis];
        return (stride < 0 ? -stride : stride) == (int64_t)sf_dtypes[s->p.step.in].size &&
               !sf_op_is(s->kind.op, SF_INDEX);
}

static sf_status fold_at_once(sf_shard *s)
{
        sf_entries n = {.host = NULL};
        const sf_cuts cuts = choose_cuts(s);
        const sf_held form = held_in(s, s->to - s->from);
        SF_TRY(cut_blocks(s, &cuts));
        sf_status status = sf_entries_begin(s, sf_held_size(&form), s->chunks, &n);
        if (status == SF_OK)
                status = fold_cuts(s, &cuts, &form, &n);
        if (status == SF_OK)
                status = sf_entries_move(s, &n, false);
        if (status == SF_OK)
                status = take_values(s, &form, &n);
        sf_entries_end(s, &n);
        return status;
}

sf_status sf_device_fold(sf_shard *s)
{
        sf_entries n = {.host = NULL};
        if (s->p.step.fold || scans_blocks(s))
                return fold_at_once(s);
        SF_TRY(cut_chunks(s));
        const sf_held widest = held_in(s, s->to - s->from);
        run *runs = malloc((size_t)s->chunks * (sizeof *runs + sizeof(bool)));
        if (!runs)
                return sf_entries_none(s, (size_t)s->chunks * sizeof *runs);
        const int32_t count = make_folds(s, runs);
        bool *done = (bool *)(runs + s->chunks);
        memset(done, 0, (size_t)count);
        sf_status status = sf_entries_begin(s, sf_held_size(&widest), s->chunks, &n);
        if (status == SF_OK)
                for (int32_t k = 0; status == SF_OK && k < count; k++)
                        status = fold_run(s, &runs[next_run(s, count, runs, done)], &n);
        if (status == SF_OK)
                status = sf_entries_move(s, &n, false);
        if (status == SF_OK)
                status = take_values(s, NULL, &n);
        sf_entries_end(s, &n);
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
 * block first. `held` has the pile's blocks as they are held, the first `known` of them already. */
static void put_lefts(const sf_shard *s, const sf_pile *pile, char *held, int32_t known,
                      const sf_held *form, const run *r, int32_t row, const sf_entries *n)
{
        const int32_t entry = r->entry + row;
        for (int32_t b = known; b < pile->count; b++)
                if (is_alike(s, form))
                        memcpy(held + (size_t)b * n->each, sf_pile_block(pile, b), n->each);
                else
                        for (int64_t i = 0; i < s->kind.lines; i++)
                                sf_held_put(form, sf_pile_value(pile, b, i),
                                            held + (size_t)b * n->each + (size_t)i * n->size);
        for (int64_t i = 0; i < s->kind.lines; i++)
                memcpy(sf_entries_item(n, entry, i), &pile->count, sizeof pile->count);
        for (int32_t e = 0; e < pile->count; e++)
                memcpy(sf_entries_item(n, entry + (1 + e) * r->count, 0),
                       held + (size_t)(pile->count - 1 - e) * n->each, n->each);
}

/* The entries of all runs. The pile has all positions before the shard. */
static sf_status put_all_lefts(sf_shard *s, sf_pile *pile, int32_t count, const run *runs,
                               const sf_entries *n)
{
        const size_t each = (size_t)(s->kind.lines * sf_span_value_bytes(&s->kind));
        char *held = malloc(SF_SPAN_BLOCKS * n->each + 1);
        bool added = held != NULL;
        for (int32_t k = 0; added && k < count; k++)
                for (int32_t row = 0; added && row < runs[k].count; row++) {
                        const int32_t c = runs[k].first + row;
                        const sf_held form = held_before(s, s->chunk[c], s->chunk[c + 1]);
                        /* Only values of indices depend on the row, and those have one row. */
                        const bool index = sf_op_is(s->kind.op, SF_INDEX);
                        if (runs[k].lefts)
                                put_lefts(s, pile, held, c && !index ? pile->count - 1 : 0, &form,
                                          &runs[k], row, n);
                        added = c + 1 == s->chunks ||
                                sf_pile_add(pile, s->chunk[c + 1], s->values + (size_t)c * each);
                }
        free(held);
        return added ? SF_OK : sf_entries_none(s, SF_SPAN_BLOCKS * n->each);
}

static sf_status scan_run(sf_shard *s, const run *r, const sf_entries *n)
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

/*
 * Lines are scanned in two steps: short blocks up to the first multiple of SF_SHORT_BLOCKS, and what
 * follows. Each block has the values before it on its left.
 */
static int32_t make_parts(const sf_shard *s, int64_t *at, run *runs)
{
        const int64_t first = (s->from + SF_SHORT_BLOCKS - 1) / SF_SHORT_BLOCKS * SF_SHORT_BLOCKS;
        const int64_t bounds[3] = {s->from, first < s->to ? first : s->to, s->to};
        int32_t count = 0, entry = 0;
        for (int k = 0; k < 2; k++) {
                const int64_t n = bounds[k + 1] - bounds[k], rising = sf_rising(bounds[k], n);
                if (!n)
                        continue;
                run *r = &runs[count];
                *r = (run){.count = (int32_t)sf_rising_count(rising, n), .entry = entry};
                at[count++] = bounds[k];
                at[count] = bounds[k + 1];
                for (int64_t p = bounds[k], bits = rising;; p += bits & -bits, bits &= bits - 1) {
                        const int32_t lefts = p < bounds[k + 1] ? sf_span_blocks(0, p) : 0;
                        r->lefts = lefts > r->lefts ? lefts : r->lefts;
                        if (!bits)
                                break;
                }
                entry += r->lefts ? (1 + r->lefts) * r->count : 0;
        }
        return count;
}

/* Writes the entries of all blocks of a part. The pile has all positions before it; at the end, all
 * before the next. *chunk: the shard's first chunk that the pile does not have. */
static bool put_part_lefts(sf_shard *s, sf_pile *pile, char *held, int64_t from, int64_t to,
                           const run *r, int32_t *chunk, const sf_entries *n)
{
        const size_t each = (size_t)(s->kind.lines * sf_span_value_bytes(&s->kind));
        const sf_held form = held_before(s, from, to);
        int64_t end = from, rising = sf_rising(from, to - from);
        int32_t known = 0;
        for (int32_t row = 0; row < r->count; row++, rising &= rising - 1) {
                if (r->lefts)
                        put_lefts(s, pile, held, known, &form, r, row, n);
                known = pile->count;
                end = rising ? end + (rising & -rising) : to;
                for (; *chunk < s->chunks && s->chunk[*chunk] < end; ++*chunk) {
                        if (!sf_pile_add(pile, s->chunk[*chunk + 1], s->values + (size_t)*chunk * each))
                                return false;
                        known = pile->count - 1 < known ? pile->count - 1 : known;
                }
        }
        return true;
}

static sf_status scan_part(sf_shard *s, int64_t from, int64_t to, const run *r, const sf_entries *n)
{
        sf_part_step t;
        const run line = {.count = 1, .entry = r->entry};
        sf_part_make(s, from, to, &t);
        if (r->lefts) {
                see_rows(s, &line, n, SF_DT_U8, &t);
                t.views.left = &t.values;
                t.views.lefts = r->lefts;
                t.views.left_entry = (int64_t)n->each * r->count;
                t.views.values = r->count > 1;
        }
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

static sf_status scan_parts(sf_shard *s, sf_pile *pile)
{
        sf_entries n = {.host = NULL};
        run runs[2];
        int64_t at[3];
        int32_t chunk = 0;
        const sf_held widest = held_before(s, 0, s->to);
        const int32_t count = make_parts(s, at, runs);
        const run *last = &runs[count - 1];
        const int32_t all = last->entry + (last->lefts ? (1 + last->lefts) * last->count : 0);
        sf_status status = sf_entries_begin(s, sf_held_size(&widest), all, &n);
        char *held = malloc(SF_SPAN_BLOCKS * n.each + 1);
        bool added = held != NULL;
        for (int32_t k = 0; status == SF_OK && added && k < count; k++)
                added = put_part_lefts(s, pile, held, at[k], at[k + 1], &runs[k], &chunk, &n);
        if (status == SF_OK && !added)
                status = sf_entries_none(s, SF_SPAN_BLOCKS * n.each);
        if (status == SF_OK && all)
                status = sf_entries_move(s, &n, true);
        for (int32_t k = count - 1; status == SF_OK && k >= 0; k--) /* the long one first */
                status = scan_part(s, at[k], at[k + 1], &runs[k], &n);
        free(held);
        sf_entries_end(s, &n);
        return status;
}

sf_status sf_device_scan(sf_shard *s, sf_pile *pile)
{
        sf_entries n = {.host = NULL};
        if (scans_blocks(s))
                return scan_parts(s, pile);
        const sf_held widest = held_before(s, 0, s->to);
        run *runs = malloc((size_t)s->chunks * (sizeof *runs + sizeof(bool)));
        if (!runs)
                return sf_entries_none(s, (size_t)s->chunks * sizeof *runs);
        const int32_t count = make_scans(s, runs);
        const run *last = &runs[count - 1];
        const int32_t all = last->entry + (last->lefts ? (1 + last->lefts) * last->count : 0);
        bool *done = (bool *)(runs + count);
        memset(done, 0, (size_t)count);
        sf_status status = sf_entries_begin(s, sf_held_size(&widest), all, &n);
        if (status == SF_OK)
                status = put_all_lefts(s, pile, count, runs, &n);
        if (status == SF_OK && all)
                status = sf_entries_move(s, &n, true);
        for (int32_t k = 0; status == SF_OK && k < count; k++)
                status = scan_run(s, &runs[next_run(s, count, runs, done)], &n);
        sf_entries_end(s, &n);
        free(runs);
        return status;
}
