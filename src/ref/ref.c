/*
 * The order of docs/order.md as two recursive functions, word for word. Every other backend must
 * give the same bits as this one.
 */
#include "ref/ref.h"

#include "core/order.h"
#include "core/value.h"
#include "core/walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static sf_value fold(sf_op op, sf_dt acc, const sf_value *a, int64_t n)
{
        if (n == 1)
                return a[0];
        int64_t left = sf_order_left(n);
        return sf_combine(op, acc, fold(op, acc, a, left), fold(op, acc, a + left, n - left));
}

/* In place. The last element of the scanned left part is fold(left); the tests rely on this. */
static void scan(sf_op op, sf_dt acc, sf_value *a, int64_t n)
{
        if (n == 1)
                return;
        int64_t left = sf_order_left(n);
        scan(op, acc, a, left);
        scan(op, acc, a + left, n - left);
        for (int64_t i = left; i < n; i++)
                a[i] = sf_combine(op, acc, a[left - 1], a[i]);
}

/* Where the elements of a sequence are read: with the mask, and with the load of a fused step. */
typedef struct source {
        const sf_step *step;
        sf_walk batch, item;
        /* the address of each operand's current element, for a fused step */
        const char *at[SF_OPERANDS_MAX];
} source;

static void stand(source *s)
{
        static const uint64_t nothing; /* what stands for an element that an operand lacks */
        const sf_fuse *f = s->step->fuse;
        for (int32_t k = 0; f && k < f->operands; k++) {
                s->at[k] = f->operand[k].data;
                for (int32_t d = 0; s->at[k] && d < s->step->nbatch; d++)
                        s->at[k] += s->batch.at[d] * f->operand[k].stride[d];
                for (int32_t d = 0; s->at[k] && d < s->step->nseq; d++)
                        s->at[k] += s->item.at[d] * f->operand[k].stride[s->step->nbatch + d];
                if (f->operand[k].lacks_last && s->item.at[0] == s->step->n - 1)
                        s->at[k] = (const char *)&nothing;
        }
}

static sf_value element(source *from, int64_t position)
{
        const sf_step *s = from->step;
        sf_value v, beside = {.u64 = 0};
        if (s->m && !s->m[from->batch.m + from->item.m])
                return s->identity;
        if (s->fuse) {
                stand(from);
                v = sf_load_eval(s->fuse, from->at, s->acc);
                if (sf_op_is(s->op, SF_TWO))
                        beside = sf_beside_eval(s->fuse, from->at, s->acc);
        } else {
                v = sf_value_load(s->in, s->acc, s->x + from->batch.x + from->item.x);
        }
        return sf_lift(s->op, s->acc, v, beside, position);
}

/* Combines the values to the left of the sequence with v, on v's left. If `none`, there is no v. */
static sf_value with_left(const source *from, sf_value v, bool none)
{
        const sf_step *s = from->step;
        for (int32_t e = 0; e < s->lefts; e++) {
                sf_value entry;
                memcpy(&entry, s->left + from->batch.left + e * s->left_entry, sizeof entry);
                v = none && !e ? entry : sf_combine(s->op, s->acc, entry, v);
        }
        return v;
}

static void store(source *from, sf_value v, char *y)
{
        const sf_step *s = from->step;
        if (s->values) {
                memcpy(y, &v, sizeof v);
                return;
        }
        if (s->has_initial)
                v = sf_combine(s->op, s->acc, s->initial, v);
        v = sf_step_lower(s, v);
        if (!s->fuse) {
                sf_value_store(sf_op_result(s->op, s->acc), s->out, v, y);
                return;
        }
        stand(from);
        sf_element_store(s->out, sf_store_eval(s->fuse, from->at, v, sf_op_result(s->op, s->acc), s->out), y);
}

/* One position of a map: it loads and stores, without an operation. */
static void apply(source *from, char *y)
{
        const sf_step *s = from->step;
        if (!s->fuse) {
                sf_value_store(s->acc, s->out, sf_value_load(s->in, s->acc, s->x + from->batch.x + from->item.x), y);
                return;
        }
        stand(from);
        sf_element_store(s->out, sf_cast(s->acc, s->out, sf_load_eval(s->fuse, from->at, s->acc)), y);
}

static void run_sequence(source *from, sf_value *a)
{
        const sf_step *s = from->step;
        const sf_dim *seq = s->dims + s->nbatch;
        sf_walk_start(&from->item, seq, s->nseq, 0);
        if (s->map) {
                for (int64_t i = 0; i < s->n; i++, sf_walk_next(&from->item))
                        apply(from, s->y + from->batch.y + from->item.y);
                return;
        }
        for (int64_t i = 0; i < s->n; i++, sf_walk_next(&from->item))
                a[i] = element(from, s->before + i);
        if (s->fold) {
                store(from, s->n ? fold(s->op, s->acc, a, s->n) : s->identity, s->y + from->batch.y);
                return;
        }
        scan(s->op, s->acc, a, s->n);
        for (int64_t i = 0; i < s->n; i++, sf_walk_next(&from->item))
                store(from, with_left(from, !s->exclusive ? a[i] : i ? a[i - 1] : s->identity, s->exclusive && !i), s->y + from->batch.y + i * seq->y);
}

static void run_lines(const sf_step *s, sf_value *a)
{
        source from = {.step = s};
        sf_walk_start(&from.batch, s->dims, s->nbatch, 0);
        for (int64_t b = 0; b < s->batch; b++, sf_walk_next(&from.batch))
                run_sequence(&from, a);
}

static void run_step(const sf_step *s, sf_value *a)
{
        sf_step segment;
        sf_fuse fuse;
        if (!s->segments.offsets) {
                run_lines(s, a);
                return;
        }
        for (int64_t k = 0; k < sf_segments_walked(s); k++) {
                sf_segments_step(s, k, &segment, &fuse);
                if (segment.n || s->fold)
                        run_lines(&segment, a);
        }
}

sf_status sf_ref_run(const sf_context *ctx, const sf_step *s)
{
        size_t bytes;
        sf_value *a = NULL;
        int64_t n = 1;
        for (const sf_step *stage = s; stage; stage = stage->then)
                n = stage->n > n ? stage->n : n;
        if (!__builtin_mul_overflow((size_t)n, sizeof *a, &bytes))
                a = malloc(bytes);
        if (!a)
                return sf_fail(ctx, SF_OUT_OF_MEMORY,
                               "the reference backend needs %" PRId64 " x %zu bytes for one sequence, which could not be had", n,
                               sizeof *a);
        for (const sf_step *stage = s; stage; stage = stage->then)
                for (const sf_step *sibling = stage; sibling; sibling = sibling->sibling)
                        run_step(sibling, a);
        free(a);
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there is a step */
        return s->then && s->across ? sf_ref_run(ctx, s->across) : SF_OK;
}
