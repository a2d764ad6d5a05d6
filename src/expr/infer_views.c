/* Shapes of views, and the axes that nodes name. See infer.h. */
#include "expr/derive.h"
#include "expr/infer.h"

#include <inttypes.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------
 * Axes
 * ---------------------------------------------------------------------------------------------------------- */
sf_status sf_infer_axis(sf_inference *in, int32_t node, int32_t rank, int64_t axis, int32_t *found)
{
        int32_t lines = rank ? rank : 1; /* a 0-dimensional tensor has one line of one element */
        if (axis < -lines || axis >= lines)
                return FAIL("%s has no axis %" PRId64 ": its rank is %d, so an axis is %d to %d", sf_infer_show(in->ir, node).text, axis, (int)rank, (int)-lines,
                            (int)lines - 1);
        *found = (int32_t)(axis < 0 ? axis + lines : axis);
        return SF_OK;
}

sf_status sf_infer_named_axes(sf_inference *in, const sf_node *n, int32_t node, int32_t rank, uint64_t *axes)
{
        *axes = 0;
        for (int32_t i = 0; i < n->count; i++) {
                int32_t axis = 0;
                SF_TRY(sf_infer_axis(in, node, rank, in->graph->number[n->list + i], &axis));
                if (*axes >> axis & 1)
                        return FAIL("axis %" PRId64 " of %s is named twice", in->graph->number[n->list + i], sf_infer_show(in->ir, node).text);
                *axes |= (uint64_t)1 << axis;
        }
        return SF_OK;
}

sf_status sf_infer_axes(sf_inference *in, const sf_node *n, int32_t node, uint64_t *axes)
{
        int32_t rank = sf_ir_at(in->ir, node)->ndim;
        SF_TRY(sf_infer_named_axes(in, n, node, rank, axes));
        const bool scan = n->kind == SF_NODE_SCAN || n->kind == SF_NODE_RECURRENCE || (n->kind == SF_NODE_DERIVED && (sf_derived_scans(n->derived) || sf_derived_applies(n->derived)));
        if (n->all)
                *axes = scan ? (uint64_t)1 << (rank ? rank - 1 : 0) : rank == 64 ? UINT64_MAX : ((uint64_t)1 << rank) - 1;
        /* A 0-dimensional tensor has one line, but no axis. */
        *axes &= rank == 64 ? UINT64_MAX : ((uint64_t)1 << rank) - 1;
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * Views
 * ---------------------------------------------------------------------------------------------------------- */
sf_status sf_infer_permute(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result)
{
        int32_t rank = sf_ir_at(in->ir, x)->ndim, order[SF_MAX_NDIM];
        uint64_t seen = 0;
        for (int32_t d = 0; d < rank; d++)
                order[d] = n->all ? rank - 1 - d : d;
        if (n->kind == SF_NODE_TRANSPOSE) {
                int32_t a = 0, b = 0;
                SF_TRY(sf_infer_axis(in, x, rank, in->graph->number[n->list], &a));
                SF_TRY(sf_infer_axis(in, x, rank, in->graph->number[n->list + 1], &b));
                if (rank) {
                        order[a] = b;
                        order[b] = a;
                }
        } else if (!n->all) {
                if (n->count != rank)
                        return FAIL("permute names %d axes of %s, which has %d; it must name each once", (int)n->count, sf_infer_show(in->ir, x).text, (int)rank);
                for (int32_t d = 0; d < rank; d++) {
                        SF_TRY(sf_infer_axis(in, x, rank, in->graph->number[n->list + d], &order[d]));
                        seen |= (uint64_t)1 << order[d];
                }
                for (int32_t d = 0; d < rank; d++)
                        if (!(seen >> d & 1))
                                return FAIL("permute of %s does not name axis %d; it must name each once", sf_infer_show(in->ir, x).text, (int)d);
        }
        result->node = sf_ir_permute(in->ir, x, order);
        return SF_OK;
}

sf_status sf_infer_squeeze(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result)
{
        const sf_ir_node *node = sf_ir_at(in->ir, x);
        const bool adds = n->kind == SF_NODE_UNSQUEEZE;
        const int32_t rank = node->ndim + (adds ? n->count : 0);
        uint64_t axes = 0;
        if (rank > SF_MAX_NDIM)
                return FAIL("%s has %d axes; with %d more it would have more than %d", sf_infer_show(in->ir, x).text, (int)node->ndim, (int)n->count, SF_MAX_NDIM);
        SF_TRY(sf_infer_named_axes(in, n, x, rank, &axes));
        for (int32_t d = 0; d < node->ndim && n->all; d++)
                axes |= (uint64_t)(node->shape[d] == 1) << d;
        for (int32_t d = 0; d < node->ndim && !adds; d++)
                if (axes >> d & 1 && node->shape[d] != 1)
                        return FAIL("axis %d of %s has length %" PRId64 "; only an axis of length 1 can be squeezed away", (int)d, sf_infer_show(in->ir, x).text,
                                    node->shape[d]);
        result->node = adds ? sf_ir_unsqueeze(in->ir, x, axes) : node->ndim ? sf_ir_squeeze(in->ir, x, axes) : x;
        return SF_OK;
}

sf_status sf_infer_broadcast(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result)
{
        const sf_ir_node *node = sf_ir_at(in->ir, x);
        int64_t shape[SF_MAX_NDIM];
        int32_t lead = n->count - node->ndim;
        bool fits = lead >= 0;
        int64_t count = 1;
        for (int32_t d = 0; d < n->count && fits; d++) {
                shape[d] = in->graph->number[n->list + d];
                if (shape[d] == -1 && d >= lead)
                        shape[d] = node->shape[d - lead];
                /* cppcheck-suppress arrayIndexThenCheck ; d is below n->count, and lead is not the limit of shape */
                fits = shape[d] >= 0 && (d < lead || node->shape[d - lead] == shape[d] || node->shape[d - lead] == 1);
                /* Strides are computed from the shape, so the size in bytes must not overflow even
                 * if there are no elements. */
                fits = fits && !__builtin_mul_overflow(count, shape[d] ? shape[d] : 1, &count) && count < INT64_MAX / 256;
        }
        char a[128], b[128];
        if (!fits)
                return FAIL("%s, of shape %s, does not broadcast to %s", sf_infer_show(in->ir, x).text, sf_infer_shape(in->ir, x, a),
                            sf_shape_text(n->count, in->graph->number + n->list, b));
        result->node = sf_ir_broadcast(in->ir, x, n->count, shape);
        return SF_OK;
}

/* start:stop:step as Python reads it. Returns the length. */
static int64_t slice_bounds(int64_t length, int64_t step, int64_t *start, int64_t stop)
{
        int64_t low = step < 0 ? -1 : 0, high = step < 0 ? length - 1 : length;
        int64_t from = *start == SF_SLICE_END ? (step < 0 ? high : low) : *start < 0 ? *start + length : *start;
        int64_t to = stop == SF_SLICE_END ? (step < 0 ? low : high) : stop < 0 ? stop + length : stop;
        from = from < low ? low : from > high ? high : from;
        to = to < low ? low : to > high ? high : to;
        *start = from;
        if (step > 0)
                return to > from ? (to - from - 1) / step + 1 : 0;
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): sf_expr_slice refuses a step of 0 */
        return to < from ? (step == INT64_MIN ? 1 : (from - to - 1) / -step + 1) : 0;
}

sf_status sf_infer_slice(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result)
{
        const sf_ir_node *node = sf_ir_at(in->ir, x);
        const int64_t *list = in->graph->number + n->list;
        int32_t axis = 0;
        if (!node->ndim)
                return FAIL("%s has rank 0; there is nothing to slice", sf_infer_show(in->ir, x).text);
        SF_TRY(sf_infer_axis(in, x, node->ndim, list[0], &axis));
        if (n->kind == SF_NODE_SELECT) {
                int64_t length = node->shape[axis], at = list[1] < 0 ? list[1] + length : list[1];
                if (at < 0 || at >= length)
                        return FAIL("index %" PRId64 " along axis %d of %s, which has length %" PRId64, list[1], (int)axis, sf_infer_show(in->ir, x).text, length);
                result->node = sf_ir_squeeze(in->ir, sf_ir_slice(in->ir, x, axis, at, 1, 1), (uint64_t)1 << axis);
                return SF_OK;
        }
        if (n->kind == SF_NODE_NARROW) {
                int64_t length = node->shape[axis], at = list[1] < 0 ? list[1] + length : list[1];
                if (at < 0 || at > length || list[2] < 0 || list[2] > length - at)
                        return FAIL("narrow takes %" PRId64 " from %" PRId64 " on along axis %d of %s, which has length %" PRId64, list[2], list[1], (int)axis,
                                    sf_infer_show(in->ir, x).text, length);
                result->node = sf_ir_slice(in->ir, x, axis, list[2] ? at : 0, 1, list[2]);
                return SF_OK;
        }
        int64_t start = list[1], length = slice_bounds(node->shape[axis], list[3], &start, list[2]);
        if (list[3] == -1 && length == node->shape[axis])
                result->node = sf_ir_flip(in->ir, x, (uint64_t)1 << axis);
        else
                result->node = sf_ir_slice(in->ir, x, axis, length ? start : 0, list[3], length);
        return SF_OK;
}

sf_status sf_infer_concat(sf_inference *in, const sf_node *n, sf_meaning *result)
{
        const int64_t *list = in->graph->number + n->list;
        int32_t parts[SF_MAX_NDIM], count = n->count - 1, axis = 0;
        sf_dt dt = SF_DT_COUNT;
        for (int32_t i = 0; i < count; i++) {
                parts[i] = sf_infer_as_node(in, (int32_t)list[i + 1]);
                sf_dt mine = sf_ir_at(in->ir, parts[i])->dt;
                dt = dt == SF_DT_COUNT ? mine : sf_infer_promote(dt, mine);
                if (dt == SF_DT_COUNT)
                        return sf_fail(in->ir->ctx, SF_UNSUPPORTED, "concat of %s and %s: no integer type holds both", sf_infer_show(in->ir, parts[0]).text,
                                       sf_infer_show(in->ir, parts[i]).text);
        }
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): sf_expr_concat refuses to have no parts */
        const sf_ir_node *first = sf_ir_at(in->ir, parts[0]);
        if (!first->ndim)
                return FAIL("concat of %s, which has rank 0; parts need an axis to be put along", sf_infer_show(in->ir, parts[0]).text);
        SF_TRY(sf_infer_axis(in, parts[0], first->ndim, list[0], &axis));
        for (int32_t i = 0; i < count; i++) {
                const sf_ir_node *part = sf_ir_at(in->ir, parts[i]);
                bool fits = part->ndim == first->ndim;
                for (int32_t d = 0; fits && d < part->ndim; d++)
                        fits = d == axis || part->shape[d] == first->shape[d];
                char a[128], b[128];
                if (!fits)
                        return FAIL("concat along axis %d of shapes %s and %s; all other lengths must be equal", (int)axis, sf_infer_shape(in->ir, parts[0], a),
                                    sf_infer_shape(in->ir, parts[i], b));
                parts[i] = sf_ir_cast(in->ir, parts[i], dt);
        }
        result->node = sf_ir_concat(in->ir, axis, count, parts);
        return SF_OK;
}
