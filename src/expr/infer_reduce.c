/* Shapes and dtypes of scans, folds, recurrences and matrix products. See infer.h. */
#include "core/choose.h"
#include "core/value.h"
#include "expr/derive.h"
#include "expr/infer.h"

#include <inttypes.h>
#include <string.h>

/* The mask of elements that count, or 0 if all do: the caller's mask, those that are not NaN, or
 * both. */
static sf_status infer_mask(sf_inference *in, const sf_node *n, bool skip_nan, int32_t x, int32_t *mask)
{
        sf_ir *ir = in->ir;
        const sf_ir_node *node = sf_ir_at(ir, x);
        *mask = 0;
        if (n->arg[1]) {
                int64_t shape[SF_MAX_NDIM];
                char a[128], b[128];
                *mask = sf_infer_as_node(in, n->arg[1]);
                const sf_ir_node *m = sf_ir_at(ir, *mask);
                if (m->dt != SF_DT_BOOL && m->dt != SF_DT_U8)
                        return sf_fail(ir->ctx, SF_UNSUPPORTED, "the mask %s is %s; it must be bool or u8", sf_infer_show(ir, *mask).text, sf_dtypes[m->dt].name);
                int32_t rank = sf_ir_broadcast_shape(node->ndim, node->shape, m->ndim, m->shape, shape);
                if (rank != node->ndim || (rank && memcmp(shape, node->shape, (size_t)rank * sizeof *shape)))
                        return FAIL("the mask %s has shape %s, which does not broadcast to %s, of shape %s", sf_infer_show(ir, *mask).text,
                                    sf_infer_shape(ir, *mask, a), sf_infer_show(ir, x).text, sf_infer_shape(ir, x, b));
        }
        if (!skip_nan || !sf_ir_is_real(ir, x))
                return SF_OK;
        int32_t numbers = sf_ir_map(ir, SF_CODE_EQ, node->dt, x, x, 0);
        *mask = *mask ? sf_ir_map(ir, SF_CODE_MUL, SF_DT_BOOL, numbers, sf_ir_cast(ir, *mask, SF_DT_BOOL), 0) : numbers;
        return SF_OK;
}

/* A weight or bias, made to broadcast to x: it has the lengths of the axes, or as many axes as
 * x. */
static sf_status infer_beside(sf_inference *in, const char *name, int32_t given, int32_t x, uint64_t axes, int32_t *node)
{
        sf_ir *ir = in->ir;
        *node = given ? sf_infer_as_node(in, given) : 0;
        if (!*node || !sf_ir_at(ir, *node)->ndim)
                return SF_OK;
        const sf_ir_node *n = sf_ir_at(ir, *node), *like = sf_ir_at(ir, x);
        int64_t along[SF_MAX_NDIM], shape[SF_MAX_NDIM];
        int32_t count = 0;
        uint64_t others = 0;
        for (int32_t d = 0; d < like->ndim; d++) {
                if (axes >> d & 1)
                        along[count++] = like->shape[d];
                else
                        others |= (uint64_t)1 << d;
        }
        /* cppcheck-suppress uninitvar ; along is set below count */
        if (n->ndim == count && !memcmp(n->shape, along, (size_t)count * sizeof *along)) {
                *node = sf_ir_unsqueeze(ir, *node, others);
                return SF_OK;
        }
        char a[128], b[128], c[128];
        if (n->ndim != like->ndim || sf_ir_broadcast_shape(like->ndim, like->shape, n->ndim, n->shape, shape) != like->ndim ||
            memcmp(shape, like->shape, (size_t)like->ndim * sizeof *shape))
                return FAIL("the %s %s has shape %s; it must be of shape %s, the lengths along the axes, or of %s's rank and broadcast to %s", name,
                            sf_infer_show(ir, *node).text, sf_infer_shape(ir, *node, a), sf_shape_text(count, along, b), sf_infer_show(ir, x).text, sf_infer_shape(ir, x, c));
        return SF_OK;
}

/* The offsets that cut x's one axis into segments: *offsets is one more than the number of their
 * input, or 0, and *count is the number of segments. */
static sf_status infer_offsets(sf_inference *in, const sf_node *n, int32_t x, uint64_t axes, int32_t *offsets, int64_t *count)
{
        *offsets = 0;
        *count = 0;
        if (!n->offsets)
                return SF_OK;
        const sf_ir_node *o = sf_ir_at(in->ir, sf_infer_as_node(in, n->offsets));
        char text[128];
        if (o->dt != SF_DT_I32 && o->dt != SF_DT_I64)
                return FAIL("the offsets %s are %s; they must be i32 or i64", in->ir->name[o->index], sf_dtypes[o->dt].name);
        if (o->ndim != 1 || !o->count)
                return FAIL("the offsets %s have shape %s; they must have one dimension, and one element more than there are segments", in->ir->name[o->index],
                            sf_shape_text(o->ndim, o->shape, text));
        if (__builtin_popcountll(axes) != 1)
                return FAIL("offsets cut one axis into segments, but %d are named of those of %s; name one", __builtin_popcountll(axes), sf_infer_show(in->ir, x).text);
        *offsets = o->index + 1;
        *count = o->shape[0] - 1;
        /* results with segments are never computed again, so none may round differently */
        in->ir->exact = true;
        return SF_OK;
}

sf_status sf_infer_spread(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result)
{
        const sf_ir_node *node = sf_ir_at(in->ir, x);
        const int64_t *list = in->graph->number + n->list;
        int32_t axis = 0, offsets;
        int64_t segments;
        if (!node->ndim)
                return FAIL("%s has rank 0; spread needs an axis with one element a segment", sf_infer_show(in->ir, x).text);
        SF_TRY(sf_infer_axis(in, x, node->ndim, list[0], &axis));
        SF_TRY(infer_offsets(in, n, x, (uint64_t)1 << axis, &offsets, &segments));
        if (node->shape[axis] != segments)
                return FAIL("spread of %s, which has %" PRId64 " elements along axis %d; the offsets are of %" PRId64 " segments, and each must have one",
                            sf_infer_show(in->ir, x).text, node->shape[axis], (int)axis, segments);
        if (list[1] < 0)
                return FAIL("spread of %s to length %" PRId64 "; it must be 0 or more", sf_infer_show(in->ir, x).text, list[1]);
        result->node = sf_ir_spread(in->ir, x, axis, list[1], offsets, true);
        return SF_OK;
}

sf_status sf_infer_derived(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result)
{
        sf_derivation d = {.what = n->derived, .x = x, .reverse = n->reverse, .exclusive = n->exclusive, .correction = n->correction, .order = n->order, .eps = n->eps};
        SF_TRY(sf_derived_dtypes(in->ir->ctx, &d, sf_ir_at(in->ir, x)->dt, sf_dt_find(n->dtype), n->accumulator));
        d.skips_nan = (n->skip_nan || sf_derived_takes(n->derived, SF_SKIPS_NAN)) && sf_ir_is_real(in->ir, x);
        SF_TRY(infer_mask(in, n, d.skips_nan, x, &d.mask));
        SF_TRY(sf_infer_axes(in, n, x, &d.axes));
        SF_TRY(infer_offsets(in, n, x, d.axes, &d.offsets, &d.segments));
        SF_TRY(infer_beside(in, "weight", n->weight, x, d.axes, &d.weight));
        SF_TRY(infer_beside(in, "bias", n->bias, x, d.axes, &d.bias));
        SF_TRY(sf_derive(in->ir, &d, &result->node));
        if (!n->keepdim && !d.offsets && !sf_derived_scans(n->derived) && !sf_derived_applies(n->derived))
                result->node = sf_ir_squeeze(in->ir, result->node, d.axes);
        return SF_OK;
}

sf_status sf_infer_reduce(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result)
{
        sf_ir *ir = in->ir;
        const sf_ir_node *node = sf_ir_at(ir, x);
        sf_ir_node model = {.kind = n->kind == SF_NODE_SCAN ? SF_IR_SCAN : SF_IR_FOLD, .reverse = n->reverse, .exclusive = n->exclusive};
        sf_step step;
        int32_t mask;
        sf_dt out = sf_dt_find(n->dtype);
        if (out == SF_DT_COUNT)
                out = sf_usual_result(n->op, node->dt);
        SF_TRY(sf_step_dtypes(ir->ctx, &step, n->op, node->dt, out, n->accumulator));
        SF_TRY(sf_step_initial(ir->ctx, &step, n->value));
        model.op = n->op;
        model.acc = step.acc;
        model.dt = out;
        model.has_initial = step.has_initial;
        model.value.u64 = 0;
        if (step.has_initial)
                memcpy(&model.value, &step.initial, step.acc == SF_DT_F32 ? 4 : 8);
        SF_TRY(infer_mask(in, n, n->skip_nan, x, &mask));
        SF_TRY(sf_infer_axes(in, n, x, &model.axes));
        SF_TRY(infer_offsets(in, n, x, model.axes, &model.index, &model.start));
        int64_t length = sf_ir_length(node, model.axes);
        bool none = model.kind == SF_IR_FOLD && !length && !model.index;
        if (sf_op_is(n->op, SF_INDEX) && out == SF_DT_I32 && length > (int64_t)INT32_MAX + 1)
                return sf_fail(ir->ctx, SF_UNSUPPORTED, "%s of %s: there are %" PRId64 " positions, and their indices need i64", sf_op_name(n->op), sf_infer_show(ir, x).text, length);
        if (none && !sf_op_is(n->op, SF_EMPTY) && !model.has_initial)
                return FAIL("%s of no elements of %s has no value; %sfold axes that are not empty", sf_op_name(n->op), sf_infer_show(ir, x).text,
                            sf_op_is(n->op, SF_INDEX) ? "" : "give an initial one, or ");
        result->node = sf_ir_reduce(ir, &model, x, mask);
        if (model.kind == SF_IR_FOLD && !n->keepdim && !model.index)
                result->node = sf_ir_squeeze(ir, result->node, model.axes);
        return SF_OK;
}

/*
 * a and b broadcast to one shape. Where an element is masked out, the state does not change: there
 * a is 1 and b is 0. The pass converts both to the accumulator's type, so they keep their types
 * here.
 */
sf_status sf_infer_recurrence(sf_inference *in, const sf_node *n, sf_meaning *result)
{
        sf_ir *ir = in->ir;
        int32_t arg[2];
        sf_ir_node model = {.kind = SF_IR_SCAN, .op = SF_RECURRENCE, .reverse = n->reverse, .exclusive = n->exclusive};
        sf_dt out = sf_dt_find(n->dtype);
        sf_step of_a, step;
        char ta[128], tb[128];
        int64_t shape[SF_MAX_NDIM], all[SF_MAX_NDIM];
        bool real = false, doubles = out == SF_DT_F64 || sf_dt_find(n->accumulator) == SF_DT_F64;
        for (int i = 0; i < 2; i++) {
                const sf_meaning *m = &in->of[n->arg[i]];
                const sf_dt dt = m->node ? sf_ir_at(ir, m->node)->dt : sf_infer_number_dt(m->number);
                real = real || sf_dtypes[dt].kind == SF_KIND_REAL;
                doubles = doubles || dt == SF_DT_F64;
        }
        if (out == SF_DT_COUNT) {
                out = SF_DT_F32;
                if (real)
                        SF_TRY(sf_infer_common_dt(in, n, 0, 2, &out));
        }
        /* A number has no type of its own: it gets that of the accumulator. */
        for (int i = 0; i < 2; i++)
                arg[i] = in->of[n->arg[i]].node ? in->of[n->arg[i]].node : sf_infer_number(in, in->of[n->arg[i]].number, doubles ? SF_DT_F64 : SF_DT_F32);
        const int32_t rank = sf_ir_broadcast_shape(sf_ir_at(ir, arg[0])->ndim, sf_ir_at(ir, arg[0])->shape, sf_ir_at(ir, arg[1])->ndim,
                                                   sf_ir_at(ir, arg[1])->shape, shape);
        if (rank < 0)
                return FAIL("linear_recurrence of %s and %s: shapes %s and %s do not broadcast", sf_infer_show(ir, arg[0]).text, sf_infer_show(ir, arg[1]).text,
                            sf_infer_shape(ir, arg[0], ta), sf_infer_shape(ir, arg[1], tb));
        if (sf_dtypes[out].kind != SF_KIND_REAL)
                return sf_fail(ir->ctx, SF_UNSUPPORTED, "linear_recurrence into %s is not supported; its result can be f16, bf16, f32 or f64",
                               sf_dtypes[out].name);
        /* No pass computes halves of integers: those are converted first. */
        for (int i = 0; i < 2; i++)
                if ((out == SF_DT_F16 || out == SF_DT_BF16) && sf_dtypes[sf_ir_at(ir, arg[i])->dt].kind != SF_KIND_REAL)
                        arg[i] = sf_ir_cast(ir, arg[i], doubles ? SF_DT_F64 : SF_DT_F32);
        SF_TRY(sf_step_dtypes(ir->ctx, &of_a, SF_SUM, sf_ir_at(ir, arg[0])->dt, out, n->accumulator));
        SF_TRY(sf_step_dtypes(ir->ctx, &step, SF_SUM, sf_ir_at(ir, arg[1])->dt, out, n->accumulator));
        step.op = SF_RECURRENCE;
        step.acc = of_a.acc == SF_DT_F64 ? SF_DT_F64 : step.acc;
        SF_TRY(sf_step_initial(ir->ctx, &step, n->value));
        model.acc = step.acc;
        model.dt = out;
        model.has_initial = step.has_initial;
        if (step.has_initial)
                memcpy(&model.value, &step.initial, step.acc == SF_DT_F32 ? 4 : 8);
        if (n->arg[2]) {
                const int32_t mask = sf_infer_as_node(in, n->arg[2]);
                const sf_ir_node *m = sf_ir_at(ir, mask);
                if (m->dt != SF_DT_BOOL && m->dt != SF_DT_U8)
                        return sf_fail(ir->ctx, SF_UNSUPPORTED, "the mask %s is %s; it must be bool or u8", sf_infer_show(ir, mask).text, sf_dtypes[m->dt].name);
                if (sf_ir_broadcast_shape(rank, shape, m->ndim, m->shape, all) != rank || (rank && memcmp(all, shape, (size_t)rank * sizeof *shape)))
                        return FAIL("the mask %s has shape %s, which does not broadcast to that of the recurrence, %s", sf_infer_show(ir, mask).text,
                                    sf_infer_shape(ir, mask, ta), sf_shape_text(rank, shape, tb));
                for (int i = 0; i < 2; i++) {
                        const sf_dt dt = sf_ir_at(ir, arg[i])->dt;
                        arg[i] = sf_ir_map(ir, SF_CODE_WHERE, dt, sf_ir_cast(ir, mask, SF_DT_BOOL), arg[i], sf_ir_number(ir, dt, i == 0));
                }
        }
        const sf_ir_node *b = sf_ir_at(ir, arg[1]);
        if (b->ndim != rank || (rank && memcmp(b->shape, shape, (size_t)rank * sizeof *shape)))
                arg[1] = sf_ir_broadcast(ir, arg[1], rank, shape);
        SF_TRY(sf_infer_axes(in, n, arg[1], &model.axes));
        SF_TRY(infer_offsets(in, n, arg[1], model.axes, &model.index, &model.start));
        result->node = sf_ir_reduce(ir, &model, arg[1], arg[0]);
        return SF_OK;
}

/* A vector gets an axis of length 1, which is removed from the result: it is a row on the left, and
 * a column on the right. */
sf_status sf_infer_matmul(sf_inference *in, const sf_node *n, sf_meaning *result)
{
        sf_ir *ir = in->ir;
        int32_t arg[2] = {sf_infer_as_node(in, n->arg[0]), sf_infer_as_node(in, n->arg[1])}, goes = 0;
        sf_dt dt = sf_infer_promote(sf_ir_at(ir, arg[0])->dt, sf_ir_at(ir, arg[1])->dt);
        char ta[128], tb[128];
        int64_t shape[SF_MAX_NDIM];
        sf_infer_shape(ir, arg[0], ta);
        sf_infer_shape(ir, arg[1], tb);
        if (dt == SF_DT_COUNT || dt == SF_DT_BOOL)
                return sf_fail(ir->ctx, SF_UNSUPPORTED, "%s @ %s: a matmul of %s and %s is not supported; cast them", sf_infer_show(ir, arg[0]).text,
                               sf_infer_show(ir, arg[1]).text, sf_dtypes[sf_ir_at(ir, arg[0])->dt].name, sf_dtypes[sf_ir_at(ir, arg[1])->dt].name);
        for (int i = 0; i < 2; i++) {
                int32_t ndim = sf_ir_at(ir, arg[i])->ndim;
                if (!ndim)
                        return FAIL("%s @ %s: %s has rank 0; a matmul needs vectors or matrices", sf_infer_show(ir, arg[0]).text, sf_infer_show(ir, arg[1]).text,
                                    sf_infer_show(ir, arg[i]).text);
                if (ndim == 1) {
                        arg[i] = sf_ir_unsqueeze(ir, arg[i], i ? 2 : 1);
                        goes |= 1 << i;
                }
        }
        const sf_ir_node *a = sf_ir_at(ir, arg[0]), *b = sf_ir_at(ir, arg[1]);
        if (a->shape[a->ndim - 1] != b->shape[b->ndim - 2])
                return FAIL("%s @ %s: shapes %s and %s do not fit; the last length of the first must be the second to last of the second",
                            sf_infer_show(ir, arg[0]).text, sf_infer_show(ir, arg[1]).text, ta, tb);
        int32_t batch = sf_ir_broadcast_shape(a->ndim - 2, a->shape, b->ndim - 2, b->shape, shape);
        if (batch < 0 || batch + 3 > SF_MAX_NDIM)
                return FAIL("%s @ %s: shapes %s and %s do not broadcast before their last two axes", sf_infer_show(ir, arg[0]).text, sf_infer_show(ir, arg[1]).text, ta, tb);
        int32_t product = sf_ir_matmul(ir, dt, arg[0], arg[1]);
        result->node = sf_ir_squeeze(ir, product, (uint64_t)(goes & 1) << batch | (uint64_t)(goes >> 1) << (batch + 1));
        return SF_OK;
}
