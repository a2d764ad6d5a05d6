/* A matmul that is summed need not be computed; any other becomes a sum of products. */
#include "expr/rewrite.h"

/* The type a matmul accumulates in. */
static sf_dt accumulates_in(sf_dt dt)
{
        return dt == SF_DT_F16 || dt == SF_DT_BF16 ? SF_DT_F32 : dt;
}

/* Swaps the last two axes: (..., M, K) -> (..., K, M). */
static int32_t swapped(sf_ir *ir, int32_t x)
{
        int32_t order[SF_MAX_NDIM], ndim = sf_ir_at(ir, x)->ndim;
        for (int32_t d = 0; d < ndim; d++)
                order[d] = d < ndim - 2 ? d : 2 * ndim - 3 - d;
        return sf_ir_permute(ir, x, order);
}

static int32_t sum_over(sf_ir *ir, int32_t x, int32_t axis, sf_dt acc, sf_dt dt)
{
        sf_ir_node model = {.kind = SF_IR_FOLD, .op = SF_SUM, .acc = acc, .dt = dt, .axes = (uint64_t)1 << axis};
        return sf_ir_reduce(ir, &model, x, 0);
}

bool sf_ir_sums_matmul(const sf_ir *ir, int32_t id)
{
        double c;
        const sf_ir_node *n = sf_ir_at(ir, id);
        if (n->uses != 1)
                return false;
        if (n->kind != SF_IR_MAP)
                return n->kind == SF_IR_MATMUL;
        switch (n->code) {
        case SF_CODE_NEG: return sf_ir_sums_matmul(ir, sf_ir_arg(ir, n, 0));
        case SF_CODE_MUL:
        case SF_CODE_DIV:
                return sf_ir_is_number(ir, sf_ir_arg(ir, n, 1), &c) &&
                       sf_ir_sums_matmul(ir, sf_ir_arg(ir, n, 0));
        case SF_CODE_ADD:
        case SF_CODE_SUB:
                return sf_ir_sums_matmul(ir, sf_ir_arg(ir, n, 0)) ||
                       sf_ir_sums_matmul(ir, sf_ir_arg(ir, n, 1));
        default: return false;
        }
}

/* fold(a @ b + c) -> fold(a @ b) + fold(c): separates the bias of a linear layer, so that the next
 * rewrite applies */
int32_t sf_rewrite_matmul_bias(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *sum = sf_ir_argument(ir, n, 0);
        if (n->op != SF_SUM || n->has_initial || n->arg[1] || sum->kind != SF_IR_MAP || (sum->code != SF_CODE_ADD && sum->code != SF_CODE_SUB))
                return 0;
        int32_t a = sf_ir_arg(ir, sum, 0), b = sf_ir_arg(ir, sum, 1);
        int32_t last = sum->ndim - 1;
        if ((!sf_ir_sums_matmul(ir, a) && !sf_ir_sums_matmul(ir, b)) || last < 1 ||
            !(n->axes >> (last - 1) & 3))
                return 0;
        bool real = sf_dtypes[sum->dt].kind == SF_KIND_REAL;
        if (real ? sf_dtypes[n->dt].kind != SF_KIND_REAL || !sf_ir_may_round(ir, n)
                 : sum->dt != n->dt)
                return 0;
        sf_ir_node model = *n;
        model.dt = n->dt == SF_DT_F64 ? SF_DT_F64 : n->acc;
        a = sf_ir_reduce(ir, &model, sf_ir_broadcast(ir, a, sum->ndim, sum->shape), 0);
        b = sf_ir_reduce(ir, &model, sf_ir_broadcast(ir, b, sum->ndim, sum->shape), 0);
        return sf_ir_cast(ir, sf_ir_map(ir, sum->code, model.dt, a, b, 0), n->dt);
}

/*
 * sum over the columns of a @ b -> sum(a * sum(b, columns)): a matrix-vector product
 * sum over the rows    of a @ b -> sum(sum(a, rows) * b)
 * sum over both                 -> sum(sum(a, rows) * sum(b, columns))
 */
int32_t sf_rewrite_matmul_fold(sf_ir *ir, const sf_ir_node *n)
{
        const sf_ir_node *product = sf_ir_argument(ir, n, 0);
        if (n->op != SF_SUM || n->has_initial || n->arg[1] || product->kind != SF_IR_MATMUL || product->uses != 1)
                return 0;
        int32_t rows = product->ndim - 2, columns = rows + 1;
        bool over_rows = n->axes >> rows & 1, over_columns = n->axes >> columns & 1, real = sf_dtypes[product->dt].kind == SF_KIND_REAL;
        if (!over_rows && !over_columns)
                return 0;
        if (real ? sf_dtypes[n->dt].kind != SF_KIND_REAL || !sf_ir_may_round(ir, n)
                 : product->dt != n->dt)
                return 0; /* integers: the matmul wraps before it is widened */
        sf_dt acc = n->acc == SF_DT_F64 ? SF_DT_F64 : accumulates_in(product->dt), dt = n->dt == SF_DT_F64 || !real ? n->dt : acc;
        int32_t a = sf_ir_cast(ir, sf_ir_arg(ir, product, 0), acc), b = sf_ir_cast(ir, sf_ir_arg(ir, product, 1), acc);
        int32_t a_rank = sf_ir_at(ir, a)->ndim, b_rank = sf_ir_at(ir, b)->ndim, result;
        double count = (double)((over_rows ? product->shape[rows] : 1) * (over_columns ? product->shape[columns] : 1));
        if (over_rows)
                a = sum_over(ir, a, a_rank - 2, acc, acc);
        if (over_columns) {
                b = sum_over(ir, b, b_rank - 1, acc, acc);
                result = sum_over(ir, sf_ir_map(ir, SF_CODE_MUL, acc, a, swapped(ir, b), 0), columns, acc, dt);
        } else {
                result = sum_over(ir, sf_ir_map(ir, SF_CODE_MUL, acc, swapped(ir, a), b, 0), rows, acc, dt);
        }
        sf_ir_node model = *n;
        model.axes &= ~((uint64_t)3 << rows);
        model.dt = dt;
        if (n->mean)
                result = sf_ir_map(ir, SF_CODE_DIV, dt, result, sf_ir_number(ir, dt, count), 0);
        if (model.axes)
                result = sf_ir_reduce(ir, &model, result, 0);
        return sf_ir_cast(ir, result, n->dt);
}

/* a @ b -> sum of products: each product is rounded in the accumulator's type, then folded in the
 * order */
int32_t sf_rewrite_matmul_products(sf_ir *ir, const sf_ir_node *n)
{
        sf_dt acc = accumulates_in(n->dt);
        int32_t a = sf_ir_cast(ir, sf_ir_arg(ir, n, 0), acc), b = swapped(ir, sf_ir_cast(ir, sf_ir_arg(ir, n, 1), acc));
        int32_t a_rank = sf_ir_at(ir, a)->ndim, b_rank = sf_ir_at(ir, b)->ndim;
        a = sf_ir_unsqueeze(ir, a, (uint64_t)1 << (a_rank - 1)); /* (..., M, 1, K) */
        b = sf_ir_unsqueeze(ir, b, (uint64_t)1 << (b_rank - 2)); /* (..., 1, N, K) */
        int32_t sum = sum_over(ir, sf_ir_map(ir, SF_CODE_MUL, acc, a, b, 0), n->ndim, acc, n->dt);
        return sf_ir_squeeze(ir, sum, (uint64_t)1 << n->ndim);
}
