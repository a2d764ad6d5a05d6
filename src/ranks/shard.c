/*
 * What one rank computes of an axis that many ranks share: the values of its blocks, and then its
 * results, from the values of all ranks.
 *
 * A scan of a shard takes a few steps: one for each block of its span, until the remaining
 * positions begin at a multiple of a power of two that is not smaller than their number; and one
 * for all of those. Each step has the blocks of all positions before it as the values to its left.
 */
#include "backend.h"
#include "context.h"
#include "core/mode.h"
#include "core/order.h"
#include "core/value.h"
#include "core/walk.h"
#include "expr/plan.h"
#include "ranks/ranks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------
 * Shards
 * ---------------------------------------------------------------------------------------------------------- */
static sf_status no_memory(const sf_context *ctx, size_t bytes)
{
        return sf_fail(ctx, SF_OUT_OF_MEMORY, "%zu bytes for the values of shards could not be had", bytes);
}

/* Checks what concerns the whole axis. */
static sf_status check_whole(const sf_shard *s)
{
        const sf_step *step = &s->p.step;
        if (sf_op_is(step->op, SF_INDEX) && step->out == SF_DT_I32 && s->length > (int64_t)INT32_MAX + 1)
                return sf_fail(s->ctx, SF_UNSUPPORTED, "out is i32, but there are %" PRId64 " positions; their indices need i64", s->length);
        if (!s->length && step->fold && !sf_op_is(step->op, SF_EMPTY) && !step->has_initial)
                return sf_fail(s->ctx, SF_INVALID_ARGUMENT, "%s of no elements has no value%s", sf_op_name(step->op), sf_op_is(step->op, SF_INDEX) ? "" : "; give an initial one");
        return SF_OK;
}

static sf_status fill_shard(sf_shard *s, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options, const sf_shard_card *cards, sf_ranks_part *parts)
{
        sf_shard_options o;
        SF_TRY(sf_ranks_compare(s->ctx, s->ranks, cards));
        SF_TRY(sf_ranks_request(s->ctx, x, out, options, &o, &s->request, &s->p, &s->axis));
        s->kind = (sf_span_kind){s->p.step.op, s->p.step.acc, 1};
        for (int32_t d = 0; d < s->p.x.ndim; d++)
                s->kind.lines *= d == s->axis ? 1 : s->p.x.shape[d];
        SF_TRY(sf_ranks_place(s, cards, parts));
        const int32_t place = s->place[s->rank];
        s->from = s->begin[place];
        s->to = s->begin[place + 1];
        if (s->to - s->from != s->p.x.shape[s->axis])
                return sf_fail(s->ctx, SF_INVALID_ARGUMENT, "x has %" PRId64 " elements along its axis, but the card of rank %d says %" PRId64 "; it must be made of the same x",
                               s->p.x.shape[s->axis], (int)s->rank, s->to - s->from);
        return check_whole(s);
}

sf_status sf_shard_create(sf_context *given, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options, int32_t rank, int32_t ranks,
                          const sf_shard_card *cards, sf_shard **made)
{
        sf_context *ctx;
        SF_TRY(sf_context_resolve(given, &ctx));
        if (!cards || !made)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is NULL", cards ? "shard" : "cards");
        if (ranks < 1 || rank < 0 || rank >= ranks)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "rank is %d of %d; it must be 0 to one less than there are", (int)rank, (int)ranks);
        sf_shard *s = calloc(1, sizeof *s);
        sf_ranks_part *parts = malloc((size_t)ranks * sizeof *parts);
        sf_status status = SF_OK;
        if (s) {
                s->ctx = ctx;
                s->rank = rank;
                s->ranks = ranks;
                s->begin = malloc(((size_t)ranks + 1) * sizeof *s->begin);
                s->place = malloc((size_t)ranks * sizeof *s->place);
        }
        if (!s || !parts || !s->begin || !s->place)
                status = no_memory(ctx, (size_t)ranks * sizeof *parts);
        else
                status = fill_shard(s, x, out, options, cards, parts);
        free(parts);
        if (status == SF_OK)
                *made = s;
        else
                sf_shard_destroy(s);
        return status;
}

void sf_shard_destroy(sf_shard *s)
{
        if (!s)
                return;
        free(s->begin);
        free(s->place);
        free(s->span);
        free(s->chunk);
        free(s->values);
        free(s);
}

int64_t sf_shard_length(const sf_shard *s)
{
        return s->length;
}

int64_t sf_shard_first(const sf_shard *s)
{
        return s->request.reverse ? s->length - s->to : s->from;
}

int32_t sf_shard_place(const sf_shard *s, int32_t rank)
{
        return rank >= 0 && rank < s->ranks ? s->place[rank] : -1;
}

size_t sf_shard_span_bytes(const sf_shard *s, int32_t from, int32_t to)
{
        if (from < 0 || to > s->ranks || from >= to)
                return 0;
        return (size_t)(sf_span_blocks(&s->kind, s->begin[from], s->begin[to]) * s->kind.lines * sf_span_value_bytes(&s->kind));
}

size_t sf_shard_bytes(const sf_shard *s, int32_t rank)
{
        const int32_t place = sf_shard_place(s, rank);
        return sf_shard_span_bytes(s, place, place + 1);
}

/* ------------------------------------------------------------------------------------------------------------
 * Steps over part of the shard
 * ---------------------------------------------------------------------------------------------------------- */

static void see_part(const sf_shard *s, const sf_view *from, int64_t offset, sf_part_step *t, sf_view *to)
{
        *to = *from;
        to->shape = t->shape;
        to->data = to->data ? to->data + offset * to->strides[s->axis] : NULL;
}

/* The view of an array of values, one for each line. */
static void see_values(const sf_shard *s, char *values, sf_part_step *t)
{
        int64_t stride = sizeof(sf_value);
        t->values = (sf_view){.data = values, .ndim = s->p.x.ndim, .shape = t->shape};
        for (int32_t d = s->p.x.ndim - 1; d >= 0; d--) {
                t->values.strides[d] = d == s->axis ? 0 : stride;
                stride *= d == s->axis ? 1 : s->p.x.shape[d];
        }
}

void sf_part_make(sf_shard *s, int64_t from, int64_t to, sf_part_step *t)
{
        sf_prepared *p = &s->p;
        const int64_t offset = s->request.reverse ? s->to - to : from - s->from;
        memcpy(t->shape, p->x.shape, (size_t)p->x.ndim * sizeof *t->shape);
        t->shape[s->axis] = to - from;
        see_part(s, &p->x, offset, t, &t->x);
        t->step = p->step;
        t->views = p->views;
        t->views.x = &t->x;
        t->views.keepdim = true;
        t->views.before = from;
        t->views.after = s->length - to;
        if (p->views.m) {
                see_part(s, &p->mask, offset, t, &t->mask);
                t->views.m = &t->mask;
        }
        if (p->views.operands)
                t->views.operand[0] = &t->x;
        if (p->views.operands > 1) {
                see_part(s, &p->a, offset, t, &t->a);
                t->views.operand[1] = &t->a;
        }
        if (!p->step.fold) {
                see_part(s, &p->out, offset, t, &t->out);
                t->views.y = &t->out;
        }
}

/*
 * A large block of few lines is folded as FAN blocks side by side, each a line of its own: several
 * streams of memory accesses are faster than one, and threads can share the work. FAN is a power of
 * two, so these are subtrees of the block, and are combined as such.
 */
#define FAN 8
#define LEAST_TO_FAN 65536

static bool fans(const sf_shard *s, int64_t from, int64_t to)
{
        /* Not for an index: positions count from the beginning of a step. */
        return to - from >= LEAST_TO_FAN && s->kind.lines < FAN && s->p.x.ndim < SF_MAX_NDIM && !sf_op_is(s->p.step.op, SF_INDEX);
}

static void fan_out(const sf_shard *s, const sf_part_step *t, sf_view *v)
{
        const int64_t move = t->shape[s->axis] * v->strides[s->axis];
        v->strides[v->ndim] = s->request.reverse ? -move : move;
        v->data = v->data && s->request.reverse ? v->data + (t->shape[t->x.ndim] - 1) * move : v->data;
}

void sf_part_fan(const sf_shard *s, int64_t rows, sf_part_step *t)
{
        t->shape[s->axis] /= rows;
        t->shape[t->x.ndim] = rows;
        fan_out(s, t, &t->x);
        if (t->views.m)
                fan_out(s, t, &t->mask);
        if (t->views.operands > 1)
                fan_out(s, t, &t->a);
        if (!t->step.fold)
                fan_out(s, t, &t->out);
        t->mask.ndim = t->a.ndim = t->out.ndim = ++t->x.ndim;
}

/* Computes the values of one block, for every line, and writes them to the span. */
static sf_status fold_block(sf_shard *s, int64_t from, int64_t to, char *values, char *span)
{
        sf_part_step t;
        const int fan = fans(s, from, to) ? FAN : 1;
        sf_part_make(s, from, to, &t);
        see_values(s, values, &t);
        t.step.fold = true;
        if (fan > 1) {
                for (int32_t d = 0; d < t.values.ndim; d++)
                        t.values.strides[d] *= FAN;
                t.values.strides[t.values.ndim++] = sizeof(sf_value);
                sf_part_fan(s, FAN, &t);
        }
        t.step.exclusive = t.step.has_initial = t.step.in_place = false;
        t.step.out = t.step.in; /* nothing is rounded */
        t.views.values = true;
        t.views.y = &t.values;
        SF_TRY(sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL));
        const int64_t each = sf_span_value_bytes(&s->kind);
        for (int64_t i = 0; i < s->kind.lines; i++) {
                sf_value v[FAN];
                memcpy(v, values + i * fan * (int64_t)sizeof *v, (size_t)fan * sizeof *v);
                for (int half = fan / 2; half; half /= 2)
                        for (int k = 0; k < half; k++)
                                v[k] = sf_combine(s->kind.op, s->kind.acc, v[2 * k], v[2 * k + 1]);
                sf_span_put(&s->kind, span + i * each, v[0]);
        }
        return SF_OK;
}

/* Where the block ends that begins at `at`. Where any grouping will do, it is all that can be fanned
 * out, and then the rest. */
static int64_t block_end(const sf_shard *s, int64_t at)
{
        if (!sf_op_free(s->kind.op, s->kind.acc))
                return at + ((int64_t)1 << sf_span_level(at, s->to));
        return s->to - (fans(s, at, s->to) ? (s->to - at) % FAN : 0);
}

static sf_status fold_blocks(sf_shard *s)
{
        sf_pile pile;
        sf_memory values = {NULL, NULL};
        const size_t each = (size_t)(s->kind.lines * sf_span_value_bytes(&s->kind));
        char *span = malloc(each + 1);
        if (!span)
                return no_memory(s->ctx, each);
        sf_status status = sf_backend_borrow(s->ctx, s->p.step.device, NULL, (size_t)s->kind.lines * FAN * sizeof(sf_value), &values);
        sf_pile_start(&pile, &s->kind, s->from);
        for (int64_t at = s->from, end; status == SF_OK && at < s->to; at = end) {
                end = block_end(s, at);
                status = fold_block(s, at, end, values.data, span);
                if (status == SF_OK && !sf_pile_add(&pile, end, span))
                        status = no_memory(s->ctx, each);
        }
        if (status == SF_OK)
                memcpy(s->span, pile.data, sf_shard_bytes(s, s->rank));
        sf_pile_end(&pile);
        free(span);
        sf_backend_return(s->ctx, s->p.step.device, NULL, &values);
        return status;
}

sf_status sf_shard_values(sf_shard *s, void *span)
{
        const size_t bytes = sf_shard_bytes(s, s->rank);
        if (!bytes)
                return SF_OK;
        if (!span)
                return sf_fail(s->ctx, SF_INVALID_ARGUMENT, "span is NULL; it must have room for %zu bytes", bytes);
        if (!s->span)
                s->span = malloc(bytes);
        if (!s->span)
                return no_memory(s->ctx, bytes);
        const sf_mode mode = sf_mode_enter();
        sf_status status = sf_on_host(s->p.step.device) ? fold_blocks(s) : sf_device_fold(s);
        sf_mode_leave(mode);
        if (status == SF_OK)
                memcpy(span, s->span, bytes);
        return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * Results
 * ---------------------------------------------------------------------------------------------------------- */

/* Scans [from, to); the pile has all positions before it, as the values to the left. */
static sf_status scan_part(sf_shard *s, int64_t from, int64_t to, const sf_pile *pile)
{
        sf_part_step t;
        sf_memory left = {NULL, NULL};
        const size_t each = (size_t)s->kind.lines * sizeof(sf_value);
        sf_part_make(s, from, to, &t);
        if (pile->count) {
                SF_TRY(sf_backend_borrow(s->ctx, s->p.step.device, NULL, (size_t)pile->count * each, &left));
                for (int32_t e = 0; e < pile->count; e++) /* lowest first */
                        for (int64_t i = 0; i < s->kind.lines; i++) {
                                const sf_value v = sf_pile_value(pile, pile->count - 1 - e, i);
                                memcpy((char *)left.data + (size_t)e * each + (size_t)i * sizeof v, &v, sizeof v);
                        }
                see_values(s, left.data, &t);
                t.views.left = &t.values;
                t.views.lefts = pile->count;
                t.views.left_entry = (int64_t)each;
        }
        sf_status status = sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
        if (pile->count)
                sf_backend_return(s->ctx, s->p.step.device, NULL, &left);
        return status;
}

/* The smallest power of two that is at least n. */
static int64_t power_above(int64_t n)
{
        return n < 2 ? 1 : 2 * sf_order_left(n);
}

int64_t sf_part_end(const sf_shard *s, int64_t at)
{
        if (sf_op_free(s->kind.op, s->kind.acc))
                return s->to;
        return at & (power_above(s->to - at) - 1) ? at + ((int64_t)1 << sf_span_level(at, s->to)) : s->to;
}

static sf_status finish_scan(sf_shard *s, sf_pile *pile)
{
        const size_t each = (size_t)(s->kind.lines * sf_span_value_bytes(&s->kind));
        const char *span = s->span;
        for (int64_t at = s->from; at < s->to; span += each) {
                const int64_t end = sf_part_end(s, at);
                SF_TRY(scan_part(s, at, end, pile));
                if (end < s->to && !sf_pile_add(pile, end, span))
                        return no_memory(s->ctx, each);
                at = end;
        }
        return SF_OK;
}

static void finish_fold(sf_shard *s, sf_pile *pile)
{
        sf_step step = s->p.step;
        sf_dim dims[SF_MAX_NDIM];
        int32_t ndim = 0, yd = 0;
        sf_walk walk;
        for (int32_t d = 0; d < s->p.x.ndim; d++) {
                if (d != s->axis)
                        dims[ndim++] = (sf_dim){.len = s->p.x.shape[d], .y = s->p.out.strides[yd]};
                yd += d != s->axis || s->request.keepdim;
        }
        step.n = s->length;
        step.before = step.after = 0;
        step.reverse = s->request.reverse;
        sf_walk_start(&walk, dims, ndim, 0);
        sf_pile_fold(pile);
        for (int64_t i = 0; i < s->kind.lines; i++, sf_walk_next(&walk)) {
                sf_value v = s->length ? sf_pile_value(pile, 0, i) : step.identity;
                if (step.has_initial)
                        v = sf_combine(step.op, step.acc, step.initial, v);
                sf_value_store(sf_op_result(step.op, step.acc), step.out, sf_step_lower(&step, v), s->p.out.data + walk.y);
        }
}

/* Computes the results. The pile has the positions before this shard; for a fold, all positions. */
static sf_status finish(sf_shard *s, sf_pile *pile)
{
        if (!s->p.out.count)
                return SF_OK;
        if (!sf_on_host(s->p.step.device))
                return s->p.step.fold ? sf_device_result(s, pile) : sf_device_scan(s, pile);
        if (!s->p.step.fold)
                return finish_scan(s, pile);
        finish_fold(s, pile);
        return SF_OK;
}

/* Checks that the values have been computed, if there are any. */
static sf_status check_ready(const sf_shard *s, const char *name, const void *spans, size_t bytes)
{
        if (!s->span && sf_shard_bytes(s, s->rank))
                return sf_fail(s->ctx, SF_INVALID_ARGUMENT, "sf_shard_values has not been called; it comes before the end");
        if (!spans && bytes)
                return sf_fail(s->ctx, SF_INVALID_ARGUMENT, "%s is NULL; it must point to %zu bytes", name, bytes);
        return SF_OK;
}

static sf_status finish_spans(sf_shard *s, const char *spans)
{
        sf_pile pile;
        const int32_t end = s->p.step.fold ? s->ranks : s->place[s->rank];
        const char **span = malloc((size_t)s->ranks * sizeof *span);
        sf_status status = SF_OK;
        if (!span)
                return no_memory(s->ctx, (size_t)s->ranks * sizeof *span);
        sf_pile_start(&pile, &s->kind, 0);
        for (int32_t i = 0; status == SF_OK && i < s->ranks; i++) {
                span[s->place[i]] = spans;
                spans += sf_shard_bytes(s, i);
        }
        for (int32_t i = 0; status == SF_OK && i < end; i++)
                /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): every rank has a place of its own, so every span has been set */
                if (!sf_pile_add(&pile, s->begin[i + 1], span[i]))
                        status = no_memory(s->ctx, sf_shard_span_bytes(s, 0, i + 1));
        if (status == SF_OK)
                status = finish(s, &pile);
        sf_pile_end(&pile);
        free(span);
        return status;
}

sf_status sf_shard_finish(sf_shard *s, const void *spans)
{
        size_t bytes = 0;
        for (int32_t i = 0; i < s->ranks; i++)
                bytes += sf_shard_bytes(s, i);
        SF_TRY(check_ready(s, "spans", spans, bytes));
        const sf_mode mode = sf_mode_enter();
        sf_status status = finish_spans(s, spans);
        sf_mode_leave(mode);
        return status;
}

sf_status sf_shard_finish_from(sf_shard *s, const void *before_it)
{
        const int32_t end = s->p.step.fold ? s->ranks : s->place[s->rank];
        sf_pile pile;
        SF_TRY(check_ready(s, "before", before_it, sf_shard_span_bytes(s, 0, end)));
        const sf_mode mode = sf_mode_enter();
        sf_pile_start(&pile, &s->kind, 0);
        sf_status status = sf_pile_add(&pile, s->begin[end], before_it) ? finish(s, &pile) : no_memory(s->ctx, sf_shard_span_bytes(s, 0, end));
        sf_pile_end(&pile);
        sf_mode_leave(mode);
        return status;
}

sf_status sf_shard_join(const sf_shard *s, int32_t from, int32_t middle, int32_t to, const void *left, const void *right, void *joined)
{
        sf_pile pile;
        if (from < 0 || from > middle || middle > to || to > s->ranks)
                return sf_fail(s->ctx, SF_INVALID_ARGUMENT, "places %d, %d and %d are not one after another; they must be from 0 to %d", (int)from, (int)middle,
                               (int)to, (int)s->ranks);
        const sf_mode mode = sf_mode_enter();
        sf_pile_start(&pile, &s->kind, s->begin[from]);
        const bool added = sf_pile_add(&pile, s->begin[middle], left) && sf_pile_add(&pile, s->begin[to], right);
        if (added && pile.count)
                memcpy(joined, pile.data, sf_shard_span_bytes(s, from, to));
        sf_pile_end(&pile);
        sf_mode_leave(mode);
        return added ? SF_OK : no_memory(s->ctx, sf_shard_span_bytes(s, from, to));
}
