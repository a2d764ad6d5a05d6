/* Rewrites of scans: masks, last elements, leading parts, and the three ways to write an exclusive
 * scan. */
#include "core/value.h"
#include "expr/rewrite.h"

/* scan over an axis of length 1 -> x */
int32_t sf_rewrite_scan_one(sf_ir *ir, const sf_ir_node *n)
{
        if (sf_ir_length(n, n->axes) != 1 || sf_op_is(n->op, SF_PAIR) || n->exclusive || n->has_initial || n->arg[1])
                return 0;
        return sf_ir_cast(ir, sf_ir_arg(ir, n, 0), n->dt);
}

/* Is this node a constant that equals the identity of the scan or fold? */
static bool is_identity(const sf_ir *ir, int32_t node, const sf_ir_node *reduce)
{
        const sf_ir_node *c = sf_ir_at(ir, node);
        while (c->kind == SF_IR_BROADCAST)
                c = sf_ir_argument(ir, c, 0);
        if (c->kind != SF_IR_CONSTANT || reduce->dt == SF_DT_BOOL)
                return false;
        sf_value mine = sf_cast(c->dt, reduce->acc, c->value), right = sf_identity(reduce->op, reduce->acc);
        if (reduce->acc == SF_DT_F32)
                return mine.f32 == right.f32 && !signbit(mine.f32) == !signbit(right.f32);
        if (reduce->acc == SF_DT_F64)
                return mine.f64 == right.f64 && !signbit(mine.f64) == !signbit(right.f64);
        return mine.u64 == right.u64;
}

/* scan(where(m, x, identity)) -> scan(x, mask=m), and the same for a fold: a masked-out element
 * counts as the identity. Not for indices: an element of -inf has an index, a masked-out one has
 * none. */
int32_t sf_rewrite_masked(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *where = sf_ir_argument(ir, n, 0);
        if (n->arg[1] || sf_op_is(n->op, SF_INDEX) || where->kind != SF_IR_MAP || where->code != SF_CODE_WHERE || !is_identity(ir, sf_ir_arg(ir, where, 2), n))
                return 0;
        int32_t mask = sf_ir_arg(ir, where, 0);
        if (sf_ir_is_map(ir, mask, SF_CODE_CAST) && sf_ir_argument(ir, sf_ir_at(ir, mask), 0)->dt == SF_DT_U8)
                mask = sf_ir_arg(ir, sf_ir_at(ir, mask), 0);
        return sf_ir_reduce(ir, n, sf_ir_broadcast(ir, sf_ir_arg(ir, where, 1), where->ndim, where->shape), mask);
}

/* last element of scan(x) -> fold(x): the same bits, by the rule of the order. Not if the scan has
 * other uses. */
int32_t sf_rewrite_scan_last(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *scan = sf_ir_argument(ir, n, 0);
        if (scan->kind != SF_IR_SCAN || sf_op_is(scan->op, SF_TWO) || scan->exclusive || scan->uses != 1 ||
            scan->axes != (uint64_t)1 << n->index || n->shape[n->index] != 1)
                return 0;
        if (n->start != (scan->reverse ? 0 : scan->shape[n->index] - 1))
                return 0;
        sf_ir_node model = *scan;
        model.kind = SF_IR_FOLD;
        return sf_ir_reduce(ir, &model, sf_ir_arg(ir, scan, 0), scan->arg[1] ? sf_ir_arg(ir, scan, 1) : 0);
}

/* scan(x)[:k] -> scan(x[:k]): a result does not depend on later elements; along other axes, any
 * slice. Not if the scan has other uses, nor if indices would count from another element. */
int32_t sf_rewrite_scan_head(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *scan = sf_ir_argument(ir, n, 0);
        int64_t length = n->shape[n->index];
        if (scan->kind != SF_IR_SCAN || scan->uses != 1 || !length)
                return 0;
        if (scan->axes == (uint64_t)1 << n->index && scan->reverse && sf_op_is(scan->op, SF_INDEX))
                return 0;
        if (scan->axes == (uint64_t)1 << n->index &&
            (n->step != 1 || (scan->reverse ? n->start + length != scan->shape[n->index] : n->start != 0)))
                return 0;
        int32_t mask = scan->arg[1] ? sf_ir_arg(ir, scan, 1) : 0;
        if (mask) {
                int32_t axis = n->index - (scan->ndim - sf_ir_at(ir, mask)->ndim);
                if (axis >= 0 && sf_ir_at(ir, mask)->shape[axis] != 1)
                        mask = sf_ir_slice(ir, mask, axis, n->start, n->step, length);
        }
        return sf_ir_reduce(ir, scan, sf_ir_slice(ir, sf_ir_arg(ir, scan, 0), n->index, n->start, n->step, length), mask);
}

/* identity ++ scan(x[:-1]) -> exclusive scan(x), and in reverse: reverse scan(x[1:]) ++ identity.
 * scan(x)[:-1] has become scan(x[:-1]) before. */
int32_t sf_rewrite_scan_shifted(sf_ir *ir, const sf_ir_node *n)
{
        if (n->nlist != 2)
                return 0;
        for (int32_t at = 0; at < 2; at++) {
                const sf_ir_node *scan = sf_ir_at(ir, sf_ir_arg(ir, n, at));
                int32_t filler = sf_ir_arg(ir, n, 1 - at);
                if (scan->kind != SF_IR_SCAN || scan->axes != (uint64_t)1 << n->index || scan->exclusive || scan->has_initial || scan->arg[1] ||
                    scan->reverse != (at == 0) || sf_op_is(scan->op, SF_INDEX) || !is_identity(ir, filler, scan) || sf_ir_at(ir, filler)->shape[n->index] != 1)
                        continue;
                const sf_ir_node *slice = sf_ir_argument(ir, scan, 0);
                if (slice->kind != SF_IR_SLICE || slice->index != n->index || slice->step != 1 || slice->start != (scan->reverse ? 1 : 0) ||
                    sf_ir_argument(ir, slice, 0)->shape[n->index] != n->shape[n->index])
                        continue;
                sf_ir_node model = *scan;
                model.exclusive = true;
                return sf_ir_reduce(ir, &model, sf_ir_arg(ir, slice, 0), 0);
        }
        return 0;
}

/* scan(x) - x -> exclusive scan(x), for integers. For reals the two round differently, and one may
 * overflow where the other does not; there are too many results to check all of them. */
int32_t sf_rewrite_scan_minus(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *scan = sf_ir_argument(ir, n, 0);
        if (n->code != SF_CODE_SUB || scan->kind != SF_IR_SCAN || scan->op != SF_SUM || scan->exclusive || scan->has_initial || scan->arg[1] ||
            scan->uses != 1 || sf_ir_cast(ir, sf_ir_arg(ir, scan, 0), scan->dt) != sf_ir_arg(ir, n, 1))
                return 0;
        if (sf_dtypes[scan->dt].kind == SF_KIND_REAL)
                return 0;
        sf_ir_node model = *scan;
        model.exclusive = true;
        return sf_ir_reduce(ir, &model, sf_ir_arg(ir, scan, 0), 0);
}
