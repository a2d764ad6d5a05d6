/* Moves flips towards the inputs, where they cost nothing: the load has a negative stride. */
#include "expr/rewrite.h"

/* flip(flip(x)) -> x, or one flip if the axes differ */
int32_t sf_rewrite_flip_flip(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *inner = sf_ir_argument(ir, n, 0);
        return inner->kind == SF_IR_FLIP ? sf_ir_flip(ir, sf_ir_arg(ir, inner, 0), n->axes ^ inner->axes) : 0;
}

/* Those of the axes of a result with `ndim` axes that an argument, which broadcasts to it, has. */
static uint64_t axes_of_argument(const sf_ir_node *argument, int32_t ndim, uint64_t axes)
{
        return argument->ndim ? axes >> (ndim - argument->ndim) : 0;
}

/* flip(f(a, b)) -> f(flip(a), flip(b)) */
int32_t sf_rewrite_flip_map(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *map = sf_ir_argument(ir, n, 0);
        int32_t arg[3] = {0};
        if (map->kind != SF_IR_MAP)
                return 0;
        for (int32_t i = 0; i < sf_ir_args(map); i++) {
                const sf_ir_node *a = sf_ir_argument(ir, map, i);
                arg[i] = sf_ir_flip(ir, sf_ir_arg(ir, map, i), axes_of_argument(a, map->ndim, n->axes));
        }
        return sf_ir_with(ir, map, arg, NULL);
}

/* flip(scan(x)) -> reverse scan(flip(x)); along axes other than the scan's, scan(flip(x)). Not for
 * indices along the scan's own axis: they would count from the other end. */
int32_t sf_rewrite_flip_scan(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *scan = sf_ir_argument(ir, n, 0);
        if (scan->kind != SF_IR_SCAN || (sf_op_is(scan->op, SF_INDEX) && n->axes & scan->axes))
                return 0;
        sf_ir_node model = *scan;
        model.reverse ^= (n->axes & scan->axes) != 0;
        int32_t mask = scan->arg[1] ? sf_ir_arg(ir, scan, 1) : 0;
        if (mask)
                mask = sf_ir_flip(ir, mask, axes_of_argument(sf_ir_at(ir, mask), scan->ndim, n->axes));
        return sf_ir_reduce(ir, &model, sf_ir_flip(ir, sf_ir_arg(ir, scan, 0), n->axes), mask);
}

/* flip(fold(x)) -> fold(flip(x)): the flipped axes are not folded, because folded ones have length
 * 1 */
int32_t sf_rewrite_flip_fold(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *fold = sf_ir_argument(ir, n, 0);
        if (fold->kind != SF_IR_FOLD)
                return 0;
        int32_t mask = fold->arg[1] ? sf_ir_arg(ir, fold, 1) : 0;
        if (mask)
                mask = sf_ir_flip(ir, mask, axes_of_argument(sf_ir_at(ir, mask), fold->ndim, n->axes));
        return sf_ir_reduce(ir, fold, sf_ir_flip(ir, sf_ir_arg(ir, fold, 0), n->axes), mask);
}

/* flip(view(x)) -> view(flip(x)) for permute, squeeze, unsqueeze and broadcast; a flipped slice is
 * a slice with the opposite step */
int32_t sf_rewrite_flip_view(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *view = sf_ir_argument(ir, n, 0);
        if (!view->arg[0])
                return 0;
        int32_t x = sf_ir_arg(ir, view, 0);
        uint64_t axes = 0;
        switch (view->kind) {
        case SF_IR_PERMUTE:
                for (int32_t d = 0; d < view->ndim; d++)
                        axes |= (n->axes >> d & 1) << view->list[d];
                return sf_ir_permute(ir, sf_ir_flip(ir, x, axes), view->list);
        case SF_IR_SQUEEZE: return sf_ir_squeeze(ir, sf_ir_flip(ir, x, sf_axes_with(n->axes, view->axes)), view->axes);
        case SF_IR_UNSQUEEZE: return sf_ir_unsqueeze(ir, sf_ir_flip(ir, x, sf_axes_without(n->axes, view->axes)), view->axes);
        case SF_IR_BROADCAST: return sf_ir_broadcast(ir, sf_ir_flip(ir, x, axes_of_argument(sf_ir_at(ir, x), view->ndim, n->axes)), view->ndim, view->shape);
        case SF_IR_SLICE: {
                uint64_t mine = (uint64_t)1 << view->index, others = n->axes & ~mine;
                int64_t length = view->shape[view->index];
                x = sf_ir_flip(ir, x, others);
                if (!(n->axes & mine))
                        return sf_ir_slice(ir, x, view->index, view->start, view->step, length);
                return sf_ir_slice(ir, x, view->index, view->start + (length - 1) * view->step, -view->step, length);
        }
        default: return 0;
        }
}

/* fold(flip(x)) -> fold(x) if that changes no bit, or if rounding may change; a fold in reverse if
 * the whole sequence is flipped */
int32_t sf_rewrite_fold_flip(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *flip = sf_ir_argument(ir, n, 0);
        if (flip->kind != SF_IR_FLIP || !(flip->axes & n->axes) || n->arg[1] || sf_op_is(n->op, SF_INDEX))
                return 0;
        sf_ir_node model = *n;
        uint64_t folded = 0; /* axes of length 1 have no direction */
        for (int32_t d = 0; d < flip->ndim; d++)
                folded |= flip->shape[d] > 1 ? n->axes & (uint64_t)1 << d : 0;
        if (!sf_regroups_exactly(n) && (flip->axes & n->axes) == folded)
                model.reverse = !n->reverse;
        else if (!sf_regroups_exactly(n) && !sf_ir_may_round(ir, n))
                return 0;
        return sf_ir_reduce(ir, &model, sf_ir_flip(ir, sf_ir_arg(ir, flip, 0), flip->axes & ~n->axes), 0);
}
