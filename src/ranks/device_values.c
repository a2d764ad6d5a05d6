/* What device.c has on the host and on the device, and the result of a fold (ranks.h). */
#include "backend.h"
#include "core/value.h"
#include "expr/plan.h"
#include "ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

/* The device may store so many bytes in the host's memory, one by one; more are copied. */
#define FEW 16384

void sf_entries_end(sf_shard *s, sf_entries *n)
{
        if (n->same && !n->waited) /* something failed, but work may be under way */
                sf_backend_wait(s->ctx, s->p.step.device, s->p.step.stream);
        if (n->shared.data)
                sf_backend_unshare(&n->shared);
        else
                free(n->host);
        if (n->device.data && !n->same)
                sf_backend_return(s->ctx, s->p.step.device, s->p.step.stream, &n->device);
}

sf_status sf_entries_none(const sf_shard *s, size_t bytes)
{
        return sf_fail(s->ctx, SF_OUT_OF_MEMORY, "%zu bytes for the values of shards could not be had", bytes);
}

sf_status sf_entries_begin(sf_shard *s, size_t size, int32_t count, bool made, sf_entries *n)
{
        *n = (sf_entries){.size = size, .each = (size_t)s->kind.lines * size, .count = count};
        const size_t bytes = (size_t)count * n->each + 1;
        sf_backend_share(s->ctx, s->p.step.device, bytes, &n->shared);
        n->host = n->shared.data ? n->shared.data : malloc(bytes);
        n->same = made && n->shared.data && bytes <= FEW;
        if (n->same)
                n->device.data = n->host;
        if (!n->host)
                return sf_entries_none(s, bytes);
        return n->same ? SF_OK : sf_backend_borrow(s->ctx, s->p.step.device, s->p.step.stream, bytes, &n->device);
}

sf_status sf_entries_move(sf_shard *s, sf_entries *n, bool to_device)
{
        void *to = to_device ? n->device.data : n->host;
        const void *from = to_device ? n->host : n->device.data;
        n->waited = true;
        if (n->same)
                return sf_backend_wait(s->ctx, s->p.step.device, s->p.step.stream);
        if (to_device && n->shared.data)
                return sf_backend_send(s->ctx, s->p.step.device, s->p.step.stream, to, &n->shared,
                                       (size_t)n->count * n->each);
        return sf_backend_copy(s->ctx, s->p.step.device, s->p.step.stream, to, from,
                               (size_t)n->count * n->each);
}

char *sf_entries_item(const sf_entries *n, int32_t entry, int64_t line)
{
        return n->host + (size_t)entry * n->each + (size_t)line * n->size;
}

sf_view sf_entries_view(const sf_shard *s, const sf_part_step *t, const sf_entries *n,
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

/* One result is written by the stream, or is a launch's parameter: a copy from the host would be waited
 * for. */
static sf_status put_result(sf_shard *s, sf_dt dt, sf_value v)
{
        sf_part_step t;
        sf_fuse fuse = {.operands = 1};
        uint64_t bits = 0;
        sf_value_store(dt, s->p.step.out, v, &bits);
        if (sf_backend_write(s->ctx, s->p.step.device, s->p.step.stream, s->p.out.data, bits, sf_dtypes[s->p.step.out].size))
                return SF_OK;
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

static sf_status put_results(sf_shard *s, sf_entries *n)
{
        sf_part_step t;
        if (is_contiguous(s))
                return n->shared.data ? sf_backend_send(s->ctx, s->p.step.device, s->p.step.stream,
                                                        s->p.out.data, &n->shared, n->each)
                                      : sf_backend_copy(s->ctx, s->p.step.device, s->p.step.stream,
                                                        s->p.out.data, n->host, n->each);
        SF_TRY(sf_entries_move(s, n, true));
        make_copy(s, s->p.step.out, &t);
        t.x = sf_entries_view(s, &t, n, 0, s->p.step.out);
        return sf_run_steps(s->ctx, 1, &t.step, &t.views, NULL, 0, NULL);
}

static sf_value result_of(const sf_shard *s, const sf_step *step, const sf_pile *pile, int64_t line)
{
        sf_value v = s->length ? sf_pile_value(pile, 0, line) : step->identity;
        if (step->has_initial)
                v = sf_combine(step->op, step->acc, step->initial, v);
        return sf_step_lower(step, v);
}

/* Are results the values of the pile, byte for byte? */
static bool are_results(const sf_shard *s)
{
        const sf_step *step = &s->p.step;
        return s->length && !step->has_initial && step->out == step->acc && !sf_op_is(s->kind.op, SF_PAIR) &&
               sf_dtypes[step->acc].kind == SF_KIND_REAL && s->kind.op != SF_PROD;
}

sf_status sf_device_result(sf_shard *s, sf_pile *pile)
{
        sf_entries n;
        sf_step step = s->p.step;
        const sf_dt dt = sf_op_result(step.op, step.acc);
        step.n = s->length;
        step.before = step.after = 0;
        step.reverse = s->request.reverse;
        sf_pile_fold(pile);
        if (s->kind.lines == 1 && step.out != SF_DT_BOOL)
                return put_result(s, dt, result_of(s, &step, pile, 0));
        sf_status status = sf_entries_begin(s, (size_t)sf_dtypes[step.out].size, 1, false, &n);
        if (status == SF_OK && are_results(s))
                memcpy(n.host, sf_pile_block(pile, 0), n.each);
        else
                for (int64_t i = 0; status == SF_OK && i < s->kind.lines; i++)
                        sf_value_store(dt, step.out, result_of(s, &step, pile, i), sf_entries_item(&n, 0, i));
        if (status == SF_OK)
                status = put_results(s, &n);
        sf_entries_end(s, &n);
        return status;
}
