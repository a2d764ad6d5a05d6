/* Rewrites of folds of folds and of broadcast elements; merges factors, and moves them out of
 * sums. */
#include "core/value.h"
#include "expr/rewrite.h"

#include <math.h>

/* fold over axes of length 1 -> x; such axes among others are not folded */
int32_t sf_rewrite_fold_one(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *x = sf_ir_argument(ir, n, 0);
        sf_ir_node model = *n;
        for (int32_t d = 0; d < x->ndim; d++)
                if (x->shape[d] == 1)
                        model.axes &= ~((uint64_t)1 << d);
        if (!model.axes && sf_op_is(n->op, SF_PAIR))
                return 0; /* an index or a logsumexp is not the element itself */
        if (!model.axes && !n->has_initial && !n->arg[1])
                return sf_ir_cast(ir, sf_ir_arg(ir, n, 0), n->dt);
        return model.axes == n->axes ? 0 : sf_ir_reduce(ir, &model, sf_ir_arg(ir, n, 0), n->arg[1] ? sf_ir_arg(ir, n, 1) : 0);
}

/* fold(fold(x)) -> fold(x): one sequence instead of two. If only one of the two is a mean, a
 * division remains. Not for indices and logsumexp (SF_PAIR), whose results cannot be combined
 * again. */
int32_t sf_rewrite_fold_fold(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *inner = sf_ir_argument(ir, n, 0);
        if (inner->kind != SF_IR_FOLD || inner->op != n->op || sf_op_is(n->op, SF_PAIR) || inner->uses != 1 || inner->has_initial || n->arg[1] || n->has_initial)
                return 0;
        bool real = sf_dtypes[inner->dt].kind == SF_KIND_REAL;
        if (!real && (inner->dt != n->dt || sf_dtypes[n->acc].kind == SF_KIND_REAL))
                /* the inner fold wraps, and is then widened: one fold would give another result */
                return 0;
        if (!sf_regroups_exactly(n) && !sf_ir_may_round(ir, n))
                return 0;
        sf_ir_node model = *n;
        double count = n->mean == inner->mean ? 1 : (double)(n->mean ? sf_ir_length(inner, n->axes) : sf_ir_length(sf_ir_argument(ir, inner, 0), inner->axes));
        model.axes |= inner->axes;
        model.mean = n->mean && inner->mean;
        model.reverse = n->reverse && inner->reverse;
        model.acc = n->acc == SF_DT_F64 || inner->acc == SF_DT_F64 ? SF_DT_F64 : n->acc;
        if (count != 1)
                model.dt = model.acc;
        int32_t all = sf_ir_reduce(ir, &model, sf_ir_arg(ir, inner, 0), inner->arg[1] ? sf_ir_arg(ir, inner, 1) : 0);
        if (count == 1)
                return all;
        return sf_ir_cast(ir, sf_ir_map(ir, SF_CODE_DIV, model.dt, all, sf_ir_number(ir, model.dt, count), 0), n->dt);
}

/* fold(broadcast(x)) -> broadcast(fold(x)) * count: broadcast elements are read once. For max and
 * min there is no count. */
int32_t sf_rewrite_fold_broadcast(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *view = sf_ir_argument(ir, n, 0);
        if (view->kind != SF_IR_BROADCAST || n->arg[1] || n->has_initial || n->dt == SF_DT_BOOL)
                return 0;
        const sf_ir_node *x = sf_ir_argument(ir, view, 0);
        int64_t shape[SF_MAX_NDIM];
        double count = 1;
        bool repeats = false;
        for (int32_t d = 0; d < view->ndim; d++) {
                int32_t from = d - (view->ndim - x->ndim);
                bool repeated = view->shape[d] > 1 && (from < 0 || x->shape[from] == 1);
                shape[d] = repeated ? 1 : view->shape[d];
                count *= repeated && n->axes >> d & 1 ? (double)view->shape[d] : 1;
                repeats |= repeated;
        }
        if (!repeats || (count != 1 && (n->op == SF_PROD || sf_op_is(n->op, SF_PAIR) ||
                                        (!sf_regroups_exactly(n) && !sf_ir_may_round(ir, n)))))
                return 0;
        sf_ir_node model = *n;
        bool times = count != 1 && n->op == SF_SUM && !n->mean;
        if (times && sf_dtypes[n->dt].kind == SF_KIND_REAL)
                model.dt = n->acc;
        int32_t once = sf_ir_reduce(ir, &model, sf_ir_broadcast(ir, sf_ir_arg(ir, view, 0), view->ndim, shape), 0);
        if (times)
                once = sf_ir_map(ir, SF_CODE_MUL, model.dt, once, sf_ir_number(ir, model.dt, count), 0);
        return sf_ir_broadcast(ir, sf_ir_cast(ir, once, n->dt), n->ndim, n->shape);
}

/* ------------------------------------------------------------------------------------------------------------
 * Factors
 * ---------------------------------------------------------------------------------------------------------- */

/* x * times / over; one of the two numbers is 1. */
typedef struct factor {
        int32_t x;
        double times, over;
} factor;

/* Is this node another node times a number? Both must have the same shape: a number that is
 * broadcast to a larger shape is more than a factor. */
static bool is_factor(const sf_ir *ir, const sf_ir_node *n, factor *f)
{
        double c;
        if (n->kind != SF_IR_MAP)
                return false;
        f->times = f->over = 1;
        f->x = sf_ir_arg(ir, n, 0);
        if (n->code == SF_CODE_NEG) {
                f->times = -1;
        } else if (n->code == SF_CODE_MUL && sf_ir_is_number(ir, sf_ir_arg(ir, n, 1), &c)) {
                f->times = c;
        } else if (n->code == SF_CODE_MUL && sf_ir_is_number(ir, sf_ir_arg(ir, n, 0), &c)) {
                f->times = c;
                f->x = sf_ir_arg(ir, n, 1);
        } else if (n->code == SF_CODE_DIV && sf_ir_is_number(ir, sf_ir_arg(ir, n, 1), &c)) {
                f->over = c;
        } else {
                return false;
        }
        return sf_ir_same_shape(n, sf_ir_at(ir, f->x));
}

/* x * times / over as one operation of type dt. */
static int32_t apply_factor(sf_ir *ir, sf_dt dt, int32_t x, double times, double over)
{
        if (over == 1 && times == 1)
                return x;
        if (over == 1 && times == -1)
                return sf_ir_map(ir, SF_CODE_NEG, dt, x, 0, 0);
        if (times == 1)
                return sf_ir_map(ir, SF_CODE_DIV, dt, x, sf_ir_number(ir, dt, over), 0);
        return sf_ir_map(ir, SF_CODE_MUL, dt, x, sf_ir_number(ir, dt, times / over), 0);
}

/* x * 1, x / 1, x - 0 -> x */
int32_t sf_rewrite_times_one(sf_ir *ir, const sf_ir_node *n)
{
        factor f;
        double zero;
        if (is_factor(ir, n, &f) && f.times == 1 && f.over == 1)
                return f.x;
        if (n->code != SF_CODE_SUB || !sf_ir_is_number(ir, sf_ir_arg(ir, n, 1), &zero) || zero != 0 || signbit(zero))
                return 0;
        return sf_ir_same_shape(n, sf_ir_argument(ir, n, 0)) ? sf_ir_arg(ir, n, 0) : 0;
}

/* Can this type represent f with full precision? Not if f overflows, underflows or is subnormal. */
static bool holds(sf_dt dt, double f)
{
        sf_value v = sf_cast(SF_DT_F64, dt, (sf_value){.f64 = f});
        if (sf_dtypes[dt].kind != SF_KIND_REAL)
                return fabs(f) < 0x1p53;
        return dt == SF_DT_F64 ? isnormal(v.f64) : dt == SF_DT_F16 ? fabs(f) >= 0x1p-14 && !isinf(v.f32) : isnormal(v.f32);
}

/* Is it a fold's result, or one times numbers? There are few of those, whereas x itself may be the
 * largest tensor. */
static bool is_folded(const sf_ir *ir, int32_t id)
{
        factor f;
        const sf_ir_node *n = sf_ir_at(ir, id);
        while (is_factor(ir, n, &f) || n->kind == SF_IR_SQUEEZE || n->kind == SF_IR_UNSQUEEZE ||
               n->kind == SF_IR_PERMUTE || n->kind == SF_IR_FLIP)
                n = n->kind == SF_IR_MAP ? sf_ir_at(ir, f.x) : sf_ir_argument(ir, n, 0);
        return n->kind == SF_IR_FOLD;
}

/* x * a / b * -c -> x * d: two operations become one; for reals, only if x is a fold's result. A
 * sign joins a factor or a divisor without changing a bit. */
int32_t sf_rewrite_merge_factors(sf_ir *ir, const sf_ir_node *n)
{
        factor outer, inner;
        if (!is_factor(ir, n, &outer) || !is_factor(ir, sf_ir_at(ir, outer.x), &inner) || sf_ir_at(ir, outer.x)->dt != n->dt)
                return 0;
        double times = outer.times * inner.times, over = outer.over * inner.over;
        bool sign = (fabs(outer.times) == 1 && outer.over == 1) || (fabs(inner.times) == 1 && inner.over == 1);
        if (sign && over != 1) { /* -(x / c) -> x / -c */
                over *= times;
                times = 1;
        }
        if (!holds(n->dt, times / over))
                return 0;
        if (!sign && sf_ir_is_real(ir, outer.x) &&
            (!is_folded(ir, inner.x) || !sf_ir_may_round(ir, n)))
                return 0;
        return apply_factor(ir, n->dt, inner.x, times, over);
}

/* fold(x * c) -> fold(x) * c for sums, which are linear, and for integers also scan(x * c). For f16
 * and bf16 the multiplication comes before the result is rounded to them. */
int32_t sf_rewrite_hoist_factor(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *x = sf_ir_argument(ir, n, 0);
        factor f;
        if (n->op != SF_SUM || n->has_initial || !is_factor(ir, x, &f))
                return 0;
        bool real = sf_dtypes[x->dt].kind == SF_KIND_REAL;
        if (real != (sf_dtypes[n->dt].kind == SF_KIND_REAL) || (!real && x->dt != n->dt) || !holds(n->acc, f.times / f.over))
                return 0; /* integers: the product wraps before it is widened */
        if (real && (n->kind == SF_IR_SCAN || !sf_ir_may_round(ir, n)))
                return 0;
        sf_ir_node model = *n;
        model.dt = n->dt == SF_DT_F64 ? SF_DT_F64 : n->acc;
        int32_t sum = sf_ir_reduce(ir, &model, f.x, n->arg[1] ? sf_ir_arg(ir, n, 1) : 0);
        return sf_ir_cast(ir, apply_factor(ir, model.dt, sum, f.times, f.over), n->dt);
}
