/*
 * rewrite.h: a rewrite is one function, with a comment that shows what it turns into what. It gets
 * a node and returns the node that replaces it, or 0 if it does not apply. A rewrite that may round
 * results differently asks sf_ir_may_round last, before it makes any node. The answer is no if the
 * plan is `exact`, or if checking the results afterwards would cost too much.
 */
#ifndef SF_REWRITE_H
#define SF_REWRITE_H

#include "expr/ir.h"

typedef struct sf_rewrite {
        const char *name;
        const char *sentence;
        sf_ir_kind kind;
        int32_t (*try)(sf_ir *ir, const sf_ir_node *n);
} sf_rewrite;

/* One prototype for each function, although the list may name it for several kinds. */
#define REWRITE_PROTOTYPE(name) int32_t sf_rewrite_##name(sf_ir *ir, const sf_ir_node *n)
REWRITE_PROTOTYPE(flip_flip);
REWRITE_PROTOTYPE(flip_map);
REWRITE_PROTOTYPE(flip_scan);
REWRITE_PROTOTYPE(flip_fold);
REWRITE_PROTOTYPE(flip_view);
REWRITE_PROTOTYPE(fold_flip);
REWRITE_PROTOTYPE(permute_permute);
REWRITE_PROTOTYPE(squeeze_view);
REWRITE_PROTOTYPE(squeeze_map);
REWRITE_PROTOTYPE(map_broadcast);
REWRITE_PROTOTYPE(reduce_squeeze);
REWRITE_PROTOTYPE(reduce_permute);
REWRITE_PROTOTYPE(scan_one);
REWRITE_PROTOTYPE(masked);
REWRITE_PROTOTYPE(scan_last);
REWRITE_PROTOTYPE(scan_head);
REWRITE_PROTOTYPE(scan_shifted);
REWRITE_PROTOTYPE(scan_minus);
REWRITE_PROTOTYPE(fold_one);
REWRITE_PROTOTYPE(fold_fold);
REWRITE_PROTOTYPE(fold_broadcast);
REWRITE_PROTOTYPE(times_one);
REWRITE_PROTOTYPE(merge_factors);
REWRITE_PROTOTYPE(hoist_factor);
REWRITE_PROTOTYPE(matmul_bias);
REWRITE_PROTOTYPE(matmul_fold);
REWRITE_PROTOTYPE(matmul_products);
#undef REWRITE_PROTOTYPE

/*
 * May a rewrite of `n` change rounding? Notes that it does. Results that are not finite are
 * computed again as written (as_written.c), so all of them are checked afterwards. Therefore the
 * answer is yes if the results are few compared with what is read. Removing a matmul is worth it
 * however many results there are.
 */
static inline bool sf_ir_may_round(sf_ir *ir, const sf_ir_node *n)
{
        ir->rounds = !ir->exact &&
                     (sf_ir_is_small(ir, n) ||
                      (n->kind == SF_IR_FOLD && sf_ir_sums_matmul(ir, sf_ir_now(ir, n->arg[0]))));
        return ir->rounds;
}

/* Does regrouping the elements of this scan or fold leave all bits the same? It does for integers,
 * which wrap, and for max and min. */
static inline bool sf_regroups_exactly(const sf_ir_node *n)
{
        return sf_op_free(n->op, n->acc);
}

/* The current replacement of an argument. */
static inline const sf_ir_node *sf_ir_argument(const sf_ir *ir, const sf_ir_node *n, int32_t i)
{
        return n->arg[i] ? sf_ir_at(ir, sf_ir_now(ir, n->arg[i])) : NULL;
}

/* The axes in `axes`, renumbered as if those in `gone` did not exist. */
static inline uint64_t sf_axes_without(uint64_t axes, uint64_t gone)
{
        uint64_t left = 0;
        for (int d = 0, to = 0; d < 64; d++)
                if (!(gone >> d & 1))
                        left |= (axes >> d & 1) << to++;
        return left;
}

/* The inverse: `axes`, numbered without those in `new`, renumbered with them. */
static inline uint64_t sf_axes_with(uint64_t axes, uint64_t new)
{
        uint64_t with = 0;
        for (int d = 0, from = 0; d < 64; d++)
                if (!(new >> d & 1))
                        with |= (axes >> from++ & 1) << d;
        return with;
}

#endif
