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
 * Values of blocks
 * ---------------------------------------------------------------------------------------------- */

/* How the values of the shard's chunks are held. */
static sf_held held_in(const sf_shard *s)
{
        sf_step step = s->p.step;
        step.before = 0;
        step.n = s->to - s->from;
        return (sf_held){s->kind.op, s->kind.acc, sf_cuda_held_acc(&step), s->from};
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
        /* Of two bytes a tile has twice as many, and a warp should have four tiles (sf_cuda_fold_rows). */
        const int row_log = sf_dtypes[s->p.step.in].size > 2 ? 14 : 15;
        sf_cuts c = {.from = s->from, .log = down ? 12 : row_log};
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
        return sf_span_blocks(&s->kind, s->from, s->to) == 1;
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

/* The blocks of the shard, and the larger ones that those of 2^log positions make. */
typedef struct cut {
        sf_blocks all, whole;
} cut;
static cut cut_of(const sf_shard *s, const sf_cuts *c)
{
        const sf_blocks b = sf_blocks_of(s->from, s->to - s->from, c->log);
        return (cut){b, sf_blocks_of((s->from + b.head) >> b.log, b.whole, c->then)};
}

/* How many values the step has of the shard. */
static int32_t count_cuts(const sf_shard *s, const sf_cuts *c)
{
        const cut blocks = cut_of(s, c);
        return is_one_block(s) ? 1 : (int32_t)(sf_ones(blocks.all.head) + sf_blocks_count(blocks.whole) + sf_ones(blocks.all.tail));
}

/* Makes the shard's chunks, `count` of them. */
static sf_status cut_blocks(sf_shard *s, const sf_cuts *c, int32_t count)
{
        const cut blocks = cut_of(s, c);
        const sf_blocks b = blocks.all, then = blocks.whole;
        const int32_t first = (int32_t)sf_ones(b.head), middle = (int32_t)sf_blocks_count(then);
        SF_TRY(make_room(s, count));
        s->chunk[0] = s->from;
        for (int32_t i = 0; i < count && !is_one_block(s); i++) {
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
        const bool pair = sf_cuda_is_pair((int32_t)form->op, (int32_t)form->acc);
        sf_part_make(s, s->from, s->to, &t);
        t.step.fold = true;
        t.step.exclusive = t.step.has_initial = t.step.in_place = false;
        t.step.out = pair ? t.step.in : sf_held_number(form); /* nothing is rounded */
        t.step.acc = pair ? t.step.acc : t.step.out; /* totals and values are alike */
        t.views.lefts = sf_cuda_cuts_levels(c);
        t.views.left_entry = is_one_block(s) ? 0 : (int64_t)n->each;
        t.values = sf_entries_view(s, &t, n, 0, t.step.out);
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

/* Puts the chunks' values, which are on the host, into the shard's list of them and into its span. */
static sf_status take_values(sf_shard *s, const sf_held *form, const sf_entries *n)
{
        const size_t each = (size_t)sf_span_value_bytes(&s->kind);
        char *to = s->values;
        for (int32_t c = 0; c < s->chunks; c++) {
                if (is_alike(s, form)) {
                        memcpy(to, sf_entries_item(n, c, 0), n->each);
                        to += n->each;
                        continue;
                }
                for (int64_t i = 0; i < s->kind.lines; i++, to += each)
                        sf_span_put(&s->kind, to, sf_held_get(form, sf_entries_item(n, c, i)));
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

sf_status sf_device_fold(sf_shard *s)
{
        sf_entries n = {.host = NULL};
        const sf_cuts cuts = choose_cuts(s);
        const sf_held form = held_in(s);
        const int32_t count = count_cuts(s, &cuts);
        sf_status status = sf_entries_begin(s, sf_held_size(&form), count, true, &n);
        if (status == SF_OK)
                status = fold_cuts(s, &cuts, &form, &n);
        if (status == SF_OK) /* while the device computes */
                status = cut_blocks(s, &cuts, count);
        if (status == SF_OK)
                status = sf_entries_move(s, &n, false);
        if (status == SF_OK)
                status = take_values(s, &form, &n);
        sf_entries_end(s, &n);
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

/* A part of a shard that one step scans: positions [from, to), cut into `count` blocks, each of which
 * has what is before it on its left. */
typedef struct part {
        int64_t from, to;
        int32_t count;
        int32_t entry; /* where its entries begin */
        int32_t lefts; /* the most values to the left of a block */
} part;

/* How many entries there are up to the part's last. */
static int32_t entries_to(const part *p)
{
        return p->entry + (p->lefts ? (1 + p->lefts) * p->count : 0);
}

/* Is a scan of the shard one of lines that are cut into blocks? */
static bool scans_lines(const sf_shard *s)
{
        const int64_t stride = s->p.x.strides[s->axis];
        return (stride < 0 ? -stride : stride) == (int64_t)sf_dtypes[s->p.step.in].size &&
               !sf_op_free(s->kind.op, s->kind.acc);
}

/* Where the part ends that begins at `at`. Of lines there are two: short blocks up to the first
 * multiple of SF_SHORT_BLOCKS, and what follows. Columns have a part for each block, the last of
 * which is all after the most aligned position. */
static int64_t part_end(const sf_shard *s, int64_t at)
{
        const int64_t first = (at + SF_SHORT_BLOCKS - 1) / SF_SHORT_BLOCKS * SF_SHORT_BLOCKS;
        if (scans_lines(s))
                return first > at && first < s->to ? first : s->to;
        return sf_part_end(s, at);
}

/* Writes the entries of block `row` of a part: how many values the pile has, and these, the lowest
 * block first. `held` has the pile's blocks as they are held, the first `known` of them already. */
static void put_lefts(const sf_shard *s, const sf_pile *pile, char *held, int32_t known,
                      const sf_held *form, const part *r, int32_t row, const sf_entries *n)
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

static int32_t make_parts(const sf_shard *s, part *parts)
{
        int32_t count = 0, entry = 0;
        for (int64_t at = s->from; at < s->to; at = parts[count++].to) { /* cppcheck-suppress uninitvar ; the loop sets each part before it goes on */
                const int64_t to = part_end(s, at), rising = scans_lines(s) ? sf_rising(at, to - at) : 0;
                part *r = &parts[count];
                *r = (part){at, to, (int32_t)sf_rising_count(rising, to - at), entry, 0};
                for (int64_t p = at, bits = rising;; p += bits & -bits, bits &= bits - 1) {
                        const int32_t lefts = p < to ? sf_span_blocks(&s->kind, 0, p) : 0;
                        r->lefts = lefts > r->lefts ? lefts : r->lefts;
                        if (!bits)
                                break;
                }
                entry = entries_to(r);
        }
        return count;
}

/* Writes the entries of all blocks of a part. The pile has all positions before it; at the end, all
 * before the next. *chunk: the shard's first chunk that the pile does not have. */
static bool put_part_lefts(sf_shard *s, sf_pile *pile, char *held, const part *r, int32_t *chunk, const sf_entries *n)
{
        const size_t each = (size_t)(s->kind.lines * sf_span_value_bytes(&s->kind));
        const sf_held form = held_before(s, r->from, r->to);
        int64_t end = r->from, rising = r->count > 1 ? sf_rising(r->from, r->to - r->from) : 0;
        int32_t known = 0;
        for (int32_t row = 0; row < r->count; row++, rising &= rising - 1) {
                if (r->lefts)
                        put_lefts(s, pile, held, known, &form, r, row, n);
                known = pile->count;
                end = rising ? end + (rising & -rising) : r->to;
                for (; *chunk < s->chunks && s->chunk[*chunk] < end; ++*chunk) {
                        if (!sf_pile_add(pile, s->chunk[*chunk + 1], s->values + (size_t)*chunk * each))
                                return false;
                        known = pile->count - 1 < known ? pile->count - 1 : known;
                }
        }
        return true;
}

static sf_status scan_part(sf_shard *s, const part *r, const sf_entries *n)
{
        sf_part_step t;
        sf_part_make(s, r->from, r->to, &t);
        if (r->lefts) {
                t.values = sf_entries_view(s, &t, n, r->entry, SF_DT_U8);
                t.views.left = &t.values;
                t.views.lefts = r->lefts;
                t.views.left_entry = (int64_t)n->each * r->count;
                t.views.values = r->count > 1;
        }
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

sf_status sf_device_scan(sf_shard *s, sf_pile *pile)
{
        sf_entries n = {.host = NULL};
        part parts[SF_SPAN_BLOCKS];
        int32_t chunk = 0;
        const sf_held widest = held_before(s, 0, s->to);
        const int32_t count = make_parts(s, parts), all = count ? entries_to(&parts[count - 1]) : 0;
        sf_status status = sf_entries_begin(s, sf_held_size(&widest), all, false, &n);
        char *held = malloc(SF_SPAN_BLOCKS * n.each + 1);
        bool added = held != NULL;
        for (int32_t k = 0; status == SF_OK && added && k < count; k++)
                added = put_part_lefts(s, pile, held, &parts[k], &chunk, &n);
        if (status == SF_OK && !added)
                status = sf_entries_none(s, SF_SPAN_BLOCKS * n.each);
        if (status == SF_OK && all)
                status = sf_entries_move(s, &n, true);
        for (int32_t k = count - 1; status == SF_OK && k >= 0; k--) /* the long one first */
                status = scan_part(s, &parts[k], &n);
        free(held);
        sf_entries_end(s, &n);
        return status;
}
