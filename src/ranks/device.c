/*
 * Shards in CUDA memory, computed by the steps that the CUDA backend has. There a step has no
 * values to its left, and a fold gives results, not values. That is enough for operations whose
 * value is one number of the accumulator's type: sum, max, min, and products of integers. Their
 * blocks are folded to numbers of that type, and the values to the left of a scan are combined by
 * its store program, with one operand for each block. The value of a fold to an index is two such
 * numbers, the index and the element there. Other operations whose values have two components are
 * not supported here, nor are scans to an index.
 *
 * The values are few. Spans are in host memory, and are joined there.
 */
#include "backend.h"
#include "core/value.h"
#include "expr/plan.h"
#include "ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

/* The instruction that combines two values of this operation, or -1. */
static int code_of(sf_op op, sf_dt acc)
{
        switch (op) {
        case SF_SUM: return SF_CODE_ADD;
        /* a product of reals is a mantissa and an exponent */
        case SF_PROD: return sf_dtypes[acc].kind == SF_KIND_REAL ? -1 : SF_CODE_MUL;
        case SF_MAX: return SF_CODE_MAXIMUM;
        case SF_MIN: return SF_CODE_MINIMUM;
        default: return -1;
        }
}

bool sf_device_has(const sf_step *step)
{
        return code_of(step->op, step->acc) >= 0 || (step->fold && sf_op_is(step->op, SF_INDEX));
}

/* ------------------------------------------------------------------------------------------------------------
 * Numbers of one type: `count` for each line
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct numbers {
        char *host;
        sf_memory device;
        sf_dt dt;
        size_t bytes; /* of one number for each line */
        int32_t count;
} numbers;

static void numbers_end(sf_shard *s, numbers *n)
{
        free(n->host);
        if (n->device.data)
                sf_backend_return(s->ctx, s->p.step.device, s->p.step.stream, &n->device);
}

static sf_status numbers_begin(sf_shard *s, sf_dt dt, int32_t count, numbers *n)
{
        *n = (numbers){.dt = dt, .bytes = (size_t)s->kind.lines * sf_dtypes[dt].size, .count = count};
        n->host = malloc((size_t)count * n->bytes + 1);
        if (!n->host)
                return sf_fail(s->ctx, SF_OUT_OF_MEMORY, "%zu bytes for the values of shards could not be had", (size_t)count * n->bytes);
        return sf_backend_borrow(s->ctx, s->p.step.device, s->p.step.stream, (size_t)count * n->bytes + 1, &n->device);
}

static sf_status numbers_move(sf_shard *s, numbers *n, bool to_device)
{
        return sf_backend_copy(s->ctx, s->p.step.device, s->p.step.stream, to_device ? n->device.data : n->host, to_device ? n->host : n->device.data,
                               (size_t)n->count * n->bytes);
}

static sf_value number_get(const numbers *n, int32_t entry, int64_t line)
{
        return sf_value_load(n->dt, n->dt, n->host + (size_t)entry * n->bytes + (size_t)line * sf_dtypes[n->dt].size);
}

static void number_set(const numbers *n, int32_t entry, int64_t line, sf_value v)
{
        sf_value_store(n->dt, n->dt, v, n->host + (size_t)entry * n->bytes + (size_t)line * sf_dtypes[n->dt].size);
}

/* Entry `entry` as a tensor of the part's shape, broadcast along the axis. */
static sf_view numbers_view(const sf_shard *s, const sf_part_step *t, const numbers *n, int32_t entry)
{
        sf_view v = {.data = (char *)n->device.data + (size_t)entry * n->bytes, .dt = n->dt, .ndim = s->p.x.ndim, .shape = t->shape};
        int64_t stride = (int64_t)sf_dtypes[n->dt].size;
        for (int32_t d = v.ndim - 1; d >= 0; d--) {
                v.strides[d] = d == s->axis ? 0 : stride;
                stride *= d == s->axis ? 1 : s->p.x.shape[d];
        }
        return v;
}

/* ------------------------------------------------------------------------------------------------------------
 * Values of blocks
 * ---------------------------------------------------------------------------------------------------------- */
static sf_status fold_to(sf_shard *s, sf_op op, int64_t from, int64_t to, const numbers *n, int32_t entry)
{
        sf_part_step t;
        sf_part_make(s, from, to, &t);
        t.values = numbers_view(s, &t, n, entry);
        t.step.fold = true;
        t.step.exclusive = t.step.has_initial = t.step.in_place = false;
        t.step.op = op;
        t.step.identity = op == s->kind.op ? t.step.identity : sf_identity(op, s->kind.acc);
        t.step.out = n->dt; /* the accumulator's type: nothing is rounded */
        t.views.y = &t.values;
        t.views.before = t.views.after = 0; /* positions count from the block's beginning */
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

/* The value of a block of `length` positions from `from` on: a number, and for an index also where
 * it was found. */
static sf_value block_value(const sf_shard *s, int64_t from, int64_t length, sf_value number, const numbers *found, int32_t entry, int64_t line)
{
        if (!found->count)
                return number;
        const int64_t at = (int64_t)number_get(found, entry, line).u64;
        if (at < 0)
                return s->p.step.identity;
        /* counted in the direction of the sequence */
        number.index = from + (s->request.reverse ? length - 1 - at : at);
        return number;
}

sf_status sf_device_fold(sf_shard *s)
{
        numbers n = {0}, found = {0};
        const sf_op op = s->kind.op;
        const bool index = sf_op_is(op, SF_INDEX);
        const sf_op number = !index ? op : op == SF_ARGMAX || op == SF_LAST_ARGMAX ? SF_MAX : SF_MIN;
        const int32_t blocks = sf_span_blocks(s->from, s->to);
        sf_status status = numbers_begin(s, s->kind.acc, blocks, &n);
        if (status == SF_OK && index)
                status = numbers_begin(s, SF_DT_I64, blocks, &found);
        int32_t entry = 0;
        for (int64_t at = s->from; status == SF_OK && at < s->to; entry++) {
                const int64_t end = at + ((int64_t)1 << sf_span_level(at, s->to));
                status = fold_to(s, number, at, end, &n, entry);
                if (status == SF_OK && index)
                        status = fold_to(s, op, at, end, &found, entry);
                at = end;
        }
        if (status == SF_OK)
                status = numbers_move(s, &n, false);
        if (status == SF_OK && index)
                status = numbers_move(s, &found, false);
        char *to = s->span;
        entry = 0;
        for (int64_t at = s->from; status == SF_OK && at < s->to; entry++) {
                const int64_t length = (int64_t)1 << sf_span_level(at, s->to);
                for (int64_t i = 0; i < s->kind.lines; i++, to += sf_span_value_bytes(&s->kind))
                        sf_span_put(&s->kind, to, block_value(s, at, length, number_get(&n, entry, i), &found, entry, i));
                at += length;
        }
        numbers_end(s, &n);
        numbers_end(s, &found);
        return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * Results
 * ---------------------------------------------------------------------------------------------------------- */

/* The operands that one step can have besides x. */
#define ENTRIES (SF_OPERANDS_MAX - 1)

static void say(sf_program *p, int code, sf_dt dt, int32_t slot, int32_t left, int32_t right)
{
        p->code[p->count++] = (sf_instruction){(uint8_t)code, (uint8_t)dt, (uint8_t)slot, {(uint8_t)left, (uint8_t)right, 0}};
}

/* Runs the part's step. `count` entries from `first` on are combined on the left of its results in
 * turn, then the initial value if `initial`. The results go to y, which decides their type. */
static sf_status run_with(sf_shard *s, const sf_part_step *t, const numbers *lefts, int32_t first, int32_t count, bool initial, const sf_view *y)
{
        const int code = code_of(t->step.op, t->step.acc);
        const sf_dt acc = t->step.acc;
        sf_view entry[ENTRIES];
        sf_fuse fuse = {.operands = 1, .load_reads = 1};
        sf_step step = t->step;
        sf_step_views views = t->views;
        if (views.fuse)
                fuse = *views.fuse;
        views.operands = 1;
        views.operand[0] = &t->x;
        sf_program *p = &fuse.store;
        say(p, SF_CODE_RESULT, acc, 0, 0, 0);
        for (int32_t e = 0; e < count; e++) {
                const int32_t slot = views.operands++;
                entry[e] = numbers_view(s, t, lefts, first + e);
                views.operand[slot] = &entry[e];
                fuse.store_reads |= 1u << slot;
                say(p, SF_CODE_LOAD, acc, slot, 0, 0);
                say(p, code, acc, 0, p->count - 1, p->count - 2);
        }
        if (initial) {
                p->constant[p->constants] = t->step.initial;
                say(p, SF_CODE_CONSTANT, acc, p->constants++, 0, 0);
                say(p, code, acc, 0, p->count - 1, p->count - 2);
        }
        fuse.operands = views.operands;
        step.has_initial = false;
        step.out = y->dt;
        views.y = y;
        views.fuse = &fuse;
        return sf_run_steps(s->ctx, 1, &step, &views, NULL, 0, NULL);
}

/* Makes the part an elementwise step over x, which has the accumulator's type. */
static void make_elementwise(sf_part_step *t, const sf_view *x)
{
        t->x = *x;
        t->step.in = x->dt;
        t->step.fold = t->step.exclusive = t->step.in_place = false;
        t->views.x = &t->x;
        t->views.m = NULL;
        t->views.axes = 0;
        t->views.fuse = NULL;
}

/* Runs the part's step with all entries from `first` on. One step takes as many as it has operands
 * for; its results go to scratch, and further steps combine the remaining entries. */
static sf_status run_with_all(sf_shard *s, sf_part_step *t, const numbers *lefts, int32_t first)
{
        const sf_view out = t->out;
        const bool initial = t->step.has_initial;
        int32_t rest = lefts->count - first, now = rest < ENTRIES ? rest : ENTRIES;
        if (now == rest)
                return run_with(s, t, lefts, first, now, initial, &out);
        sf_memory memory;
        sf_view kept = {.dt = s->kind.acc, .ndim = t->x.ndim, .shape = t->shape};
        int64_t bytes = (int64_t)sf_dtypes[s->kind.acc].size;
        for (int32_t d = t->x.ndim - 1; d >= 0; d--) {
                kept.strides[d] = bytes;
                bytes *= t->shape[d];
        }
        SF_TRY(sf_backend_borrow(s->ctx, s->p.step.device, s->p.step.stream, (size_t)bytes, &memory));
        kept.data = memory.data;
        t->step.in_place = false;
        sf_status status = run_with(s, t, lefts, first, now, false, &kept);
        while (status == SF_OK && rest > now) {
                first += now;
                rest -= now;
                now = rest < ENTRIES ? rest : ENTRIES;
                make_elementwise(t, &kept);
                t->step.in_place = now < rest;
                status = run_with(s, t, lefts, first, now, now == rest && initial, now < rest ? &kept : &out);
        }
        sf_backend_return(s->ctx, s->p.step.device, s->p.step.stream, &memory);
        return status;
}

sf_status sf_device_scan(sf_shard *s, int64_t from, int64_t to, const sf_pile *pile)
{
        sf_part_step t;
        numbers lefts;
        sf_part_make(s, from, to, &t);
        if (!pile->count)
                return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
        sf_status status = numbers_begin(s, s->kind.acc, pile->count, &lefts);
        for (int32_t e = 0; status == SF_OK && e < pile->count; e++) /* lowest first */
                for (int64_t i = 0; i < s->kind.lines; i++)
                        number_set(&lefts, e, i, sf_pile_value(pile, pile->count - 1 - e, i));
        if (status == SF_OK)
                status = numbers_move(s, &lefts, true);
        if (status == SF_OK)
                status = run_with_all(s, &t, &lefts, 0);
        if (status == SF_OK && s->request.exclusive) {
                /* The first result of an exclusive scan has no element of its own. The identity of
                 * a sum, +0.0, would change a -0.0, so that result is computed from the values to
                 * the left alone. */
                sf_part_make(s, from, from + 1, &t);
                const sf_view lowest = numbers_view(s, &t, &lefts, 0);
                make_elementwise(&t, &lowest);
                status = run_with_all(s, &t, &lefts, 1);
        }
        numbers_end(s, &lefts);
        return status;
}

sf_status sf_device_result(sf_shard *s, const sf_pile *pile)
{
        sf_part_step t;
        numbers n;
        sf_step step = s->p.step;
        const sf_dt dt = sf_op_result(step.op, step.acc);
        step.n = s->length;
        step.before = step.after = 0;
        step.reverse = s->request.reverse;
        sf_status status = numbers_begin(s, dt, 1, &n);
        for (int64_t i = 0; status == SF_OK && i < s->kind.lines; i++) {
                sf_value v = s->length ? sf_pile_fold(pile, i) : step.identity;
                if (step.has_initial)
                        v = sf_combine(step.op, step.acc, step.initial, v);
                number_set(&n, 0, i, sf_step_lower(&step, v));
        }
        if (status == SF_OK)
                status = numbers_move(s, &n, true);
        if (status == SF_OK) {
                sf_part_make(s, s->from, s->from, &t);
                t.shape[s->axis] = 1;
                const sf_view folded = numbers_view(s, &t, &n, 0);
                make_elementwise(&t, &folded);
                t.step.has_initial = false;
                t.step.op = SF_SUM; /* of one element */
                t.step.acc = dt;
                t.out = s->p.out;
                t.out.ndim = t.x.ndim;
                t.out.shape = t.shape;
                for (int32_t d = 0, yd = 0; d < t.x.ndim; d++) {
                        t.out.strides[d] = d == s->axis ? 0 : s->p.out.strides[yd];
                        yd += d != s->axis || s->request.keepdim;
                }
                n.count = 0;
                status = run_with_all(s, &t, &n, 0);
        }
        numbers_end(s, &n);
        return status;
}
