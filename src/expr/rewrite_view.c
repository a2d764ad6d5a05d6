/* Moves views out of scans and folds, and towards the inputs of maps, so that the operators they
 * separated become adjacent. */
#include "expr/rewrite.h"

/* permute(permute(x)) -> permute(x), or x */
int32_t sf_rewrite_permute_permute(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *inner = sf_ir_argument(ir, n, 0);
        int32_t order[SF_MAX_NDIM];
        if (inner->kind != SF_IR_PERMUTE)
                return 0;
        for (int32_t d = 0; d < n->ndim; d++)
                order[d] = inner->list[n->list[d]];
        return sf_ir_permute(ir, sf_ir_arg(ir, inner, 0), order);
}

/* Those of the axes of a result with `ndim` axes that an argument, which broadcasts to it, has. */
static uint64_t axes_of_argument(const sf_ir_node *argument, int32_t ndim, uint64_t axes)
{
        return argument->ndim ? axes >> (ndim - argument->ndim) : 0;
}

/* squeeze(squeeze(x)) -> squeeze(x); squeeze(unsqueeze(x)) -> x; squeeze(permute(x)) ->
 * permute(squeeze(x)), and the same for a broadcast. Not for flips, scans and folds: other rewrites
 * move views past those in the opposite direction. */
int32_t sf_rewrite_squeeze_view(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *view = sf_ir_argument(ir, n, 0);
        int32_t x = view->arg[0] ? sf_ir_arg(ir, view, 0) : 0;
        uint64_t both = n->axes & view->axes, gone = 0;
        switch (view->kind) {
        case SF_IR_SQUEEZE: return sf_ir_squeeze(ir, x, view->axes | sf_axes_with(n->axes, view->axes));
        case SF_IR_UNSQUEEZE:
                x = sf_ir_squeeze(ir, x, sf_axes_without(n->axes & ~both, view->axes));
                return sf_ir_unsqueeze(ir, x, sf_axes_without(view->axes & ~both, n->axes));
        case SF_IR_BROADCAST: return sf_ir_broadcast(ir, sf_ir_squeeze(ir, x, axes_of_argument(sf_ir_at(ir, x), view->ndim, n->axes)), n->ndim, n->shape);
        case SF_IR_PERMUTE: {
                int32_t order[SF_MAX_NDIM], number[SF_MAX_NDIM], ndim = 0;
                for (int32_t d = 0; d < view->ndim; d++)
                        gone |= (n->axes >> d & 1) << view->list[d];
                /* the number of each axis of x without the removed ones */
                for (int32_t d = 0, at = 0; d < view->ndim; d++)
                        number[d] = gone >> d & 1 ? -1 : at++;
                for (int32_t d = 0; d < view->ndim; d++)
                        if (!(n->axes >> d & 1))
                                order[ndim++] = number[view->list[d]];
                return sf_ir_permute(ir, sf_ir_squeeze(ir, x, gone), order);
        }
        default: return 0;
        }
}

/* squeeze(f(a, b)) -> f(squeeze(a), squeeze(b)) */
int32_t sf_rewrite_squeeze_map(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *map = sf_ir_argument(ir, n, 0);
        int32_t arg[3] = {0};
        if (map->kind != SF_IR_MAP)
                return 0;
        for (int32_t i = 0; i < sf_ir_args(map); i++)
                arg[i] = sf_ir_squeeze(ir, sf_ir_arg(ir, map, i), axes_of_argument(sf_ir_argument(ir, map, i), map->ndim, n->axes));
        return sf_ir_with(ir, map, arg, NULL);
}

/* f(a, broadcast(b)) -> f(a, b), if the result has the same shape without the broadcast */
int32_t sf_rewrite_map_broadcast(sf_ir *ir, const sf_ir_node *n)
{
        for (int32_t i = 0; i < sf_ir_args(n); i++) {
                if (sf_ir_argument(ir, n, i)->kind != SF_IR_BROADCAST)
                        continue;
                int32_t arg[3] = {0};
                for (int32_t k = 0; k < sf_ir_args(n); k++)
                        arg[k] = sf_ir_arg(ir, n, k);
                arg[i] = sf_ir_arg(ir, sf_ir_argument(ir, n, i), 0);
                int32_t without = sf_ir_with(ir, n, arg, NULL);
                if (sf_ir_same_shape(n, sf_ir_at(ir, without)))
                        return without;
        }
        return 0;
}

/* fold(squeeze(x)) -> squeeze(fold(x)), and the same for unsqueeze, and for a scan. Not with a
 * mask, which would have to change its shape too. */
int32_t sf_rewrite_reduce_squeeze(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *view = sf_ir_argument(ir, n, 0);
        sf_ir_node model = *n;
        if ((view->kind != SF_IR_SQUEEZE && view->kind != SF_IR_UNSQUEEZE) || n->arg[1])
                return 0;
        bool squeeze = view->kind == SF_IR_SQUEEZE;
        model.axes = squeeze ? sf_axes_with(n->axes, view->axes) : sf_axes_without(n->axes, view->axes);
        /* only along the new axis, of length 1: another rewrite handles that */
        if (!model.axes && n->axes)
                return 0;
        int32_t inside = sf_ir_reduce(ir, &model, sf_ir_arg(ir, view, 0), 0);
        return squeeze ? sf_ir_squeeze(ir, inside, view->axes) : sf_ir_unsqueeze(ir, inside, view->axes);
}

/* fold(permute(x)) -> permute(fold(x)), and the same for a scan. If several axes are folded in
 * another order, the sequence is another one. */
int32_t sf_rewrite_reduce_permute(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *view = sf_ir_argument(ir, n, 0);
        sf_ir_node model = *n;
        int32_t last = -1;
        bool in_order = true;
        if (view->kind != SF_IR_PERMUTE || n->arg[1])
                return 0;
        model.axes = 0;
        for (int32_t d = 0; d < view->ndim; d++) {
                if (!(n->axes >> d & 1))
                        continue;
                model.axes |= (uint64_t)1 << view->list[d];
                if (view->shape[d] == 1)
                        continue;
                in_order = in_order && view->list[d] > last;
                last = view->list[d];
        }
        if (!in_order && sf_op_is(n->op, SF_INDEX))
                return 0; /* an index counts along that sequence */
        if (!in_order && !sf_regroups_exactly(n) && !sf_ir_may_round(ir, n))
                return 0;
        return sf_ir_permute(ir, sf_ir_reduce(ir, &model, sf_ir_arg(ir, view, 0), 0), view->list);
}
