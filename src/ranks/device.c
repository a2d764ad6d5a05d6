/*
 * Shards in the memory of a CUDA device, by the steps that the backend has: there a step is not told of what stands to its left, and a fold gives results,
 * not values. Where an operation's value is a number of its accumulator's type that is no loss: blocks are folded to numbers of that type, and
 * what stands to the left of a scan is combined by its store program, an operand for each block. Sums, products of integers, max and min are such
 * operations. The value of a fold to a position is two such numbers, the position and the element there. Other operations, whose values have two components,
 * are not to be had here, nor are scans of positions.
 *
 * The values themselves are few, and the host's: spans are in its memory, and joined there.
 */
#include "backend.h"
#include "core/value.h"
#include "expr/plan.h"
#include "ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

/* How an elementwise program combines, or -1. */
static int code_of(sf_op op, sf_dt acc)
{
        switch (op) {
        case SF_SUM: return SF_CODE_ADD;
        case SF_PROD: return sf_dtypes[acc].kind == SF_KIND_REAL ? -1 : SF_CODE_MUL; /* a real one is a mantissa and an exponent */
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
 * Numbers: one a line, or several, of one type
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct numbers {
        char *host;
        sf_memory device;
        sf_dt dt;
        size_t bytes; /* of one for each line */
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

/* Entry `entry` as a tensor of the part's shape, the same all along the axis. */
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
        t.step.out = n->dt; /* the accumulator's: nothing is rounded */
        t.views.y = &t.values;
        t.views.before = t.views.after = 0; /* positions are counted from the block's beginning */
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

/* The value of a block of `length` from `from` on: its number and, of a position, where that was found. */
static sf_value block_value(const sf_shard *s, int64_t from, int64_t length, sf_value number, const numbers *found, int32_t entry, int64_t line)
{
        if (!found->count)
                return number;
        const int64_t at = (int64_t)number_get(found, entry, line).u64;
        if (at < 0)
                return s->p.step.identity;
        number.index = from + (s->request.reverse ? length - 1 - at : at); /* as the sequence is walked */
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

/* Operands beside x that one step has room for. */
#define ENTRIES (SF_OPERANDS_MAX - 1)

static void say(sf_program *p, int code, sf_dt dt, int32_t slot, int32_t left, int32_t right)
{
        p->code[p->count++] = (sf_instruction){(uint8_t)code, (uint8_t)dt, (uint8_t)slot, {(uint8_t)left, (uint8_t)right, 0}};
}

/* The part's step, with `count` entries from `first` on combined on the left of its results, in turn, and then the initial value if `initial`; to y, of type out. */
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

/* From here on the part is elementwise: x, of the accumulator's type, element by element. */
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

/* The part's step with all entries from `first` on: as many as a step has room for, and the rest to what that has left in scratch. */
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
                /* The first result has nothing of its own: the identity of a sum, +0.0, would not leave a -0.0 as it is. */
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
