/*
 * The order of docs/order.md as two recursive functions, word for word. Every other backend is right when not one bit
 * differs from this one.
 */
#include "ref/ref.h"

#include "core/order.h"
#include "core/value.h"
#include "core/walk.h"

#include <inttypes.h>
#include <stdlib.h>

static sf_value fold(sf_op op, sf_dt acc, const sf_value *a, int64_t n)
{
        if (n == 1)
                return a[0];
        int64_t left = sf_order_left(n);
        return sf_combine(op, acc, fold(op, acc, a, left), fold(op, acc, a + left, n - left));
}

/* In place. The last element of the scanned left part is fold(left): the law that every test leans on. */
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

sf_status sf_ref_run(const sf_context *ctx, const sf_step *s)
{
        size_t bytes;
        sf_value *a = NULL;
        if (!__builtin_mul_overflow((size_t)(s->n ? s->n : 1), sizeof *a, &bytes))
                a = malloc(bytes);
        if (!a)
                return sf_fail(ctx, SF_OUT_OF_MEMORY,
                               "the reference backend needs %" PRId64 " x %zu bytes for one sequence, which could not be had", s->n,
                               sizeof *a);
        const sf_dim *seq = s->dims + s->nbatch;
        sf_walk batch, item;
        sf_walk_start(&batch, s->dims, s->nbatch, 0);
        for (int64_t b = 0; b < s->batch; b++, sf_walk_next(&batch)) {
                if (s->n)
                        sf_walk_start(&item, seq, s->nseq, 0);
                for (int64_t i = 0; i < s->n; i++, sf_walk_next(&item))
                        a[i] = s->m && !s->m[batch.m + item.m] ? s->identity
                                                               : sf_value_load(s->in, s->acc, s->x + batch.x + item.x);
                if (s->fold) {
                        sf_value total = s->n ? fold(s->op, s->acc, a, s->n) : s->identity;
                        if (s->has_initial)
                                total = sf_combine(s->op, s->acc, s->initial, total);
                        sf_value_store(s->acc, s->out, total, s->y + batch.y);
                        continue;
                }
                scan(s->op, s->acc, a, s->n);
                for (int64_t i = 0; i < s->n; i++) {
                        sf_value v = !s->exclusive ? a[i] : i ? a[i - 1] : s->identity;
                        if (s->has_initial)
                                v = sf_combine(s->op, s->acc, s->initial, v);
                        sf_value_store(s->acc, s->out, v, s->y + batch.y + i * seq->y);
                }
        }
        free(a);
        return SF_OK;
}
