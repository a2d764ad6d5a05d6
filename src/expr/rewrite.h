/*
 * rewrite.h: rewrites are sentences. One function each, headed by what it turns into what. It is
 * shown a node and returns the node that is to stand for it, or 0 where it has nothing to say. A
 * rewrite after which results may be rounded differently asks sf_ir_may_round, last before it makes
 * anything; under `exact` the answer is no, and so it is where looking at the results again would
 * cost too much.
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

/* Each once, though the list may name it for several kinds. */
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
 * May a rewrite of `n` change rounding? Notes that it does. Results that come out not finite are
 * computed again as written (as_written.c), so all of them are looked at once more: of results
 * that are few beside what is read. A matmul that vanishes is worth it whatever it leaves.
 */
static inline bool sf_ir_may_round(sf_ir *ir, const sf_ir_node *n)
{
        ir->rounds = !ir->exact &&
                     (sf_ir_is_small(ir, n) ||
                      (n->kind == SF_IR_FOLD && sf_ir_sums_matmul(ir, sf_ir_now(ir, n->arg[0]))));
        return ir->rounds;
}

/* Does regrouping the elements of this scan or fold leave every bit as it is? Integers wrap; the largest is the largest. */
static inline bool sf_regroups_exactly(const sf_ir_node *n)
{
        return sf_op_free(n->op, n->acc);
}

/* An argument as it is now. */
static inline const sf_ir_node *sf_ir_argument(const sf_ir *ir, const sf_ir_node *n, int32_t i)
{
        return n->arg[i] ? sf_ir_at(ir, sf_ir_now(ir, n->arg[i])) : NULL;
}

/* The bits of `axes` that are left when those of `gone` are taken out of the numbering. */
static inline uint64_t sf_axes_without(uint64_t axes, uint64_t gone)
{
        uint64_t left = 0;
        for (int d = 0, to = 0; d < 64; d++)
                if (!(gone >> d & 1))
                        left |= (axes >> d & 1) << to++;
        return left;
}

/* The other way: `axes` numbered without those of `new`, numbered with them. */
static inline uint64_t sf_axes_with(uint64_t axes, uint64_t new)
{
        uint64_t with = 0;
        for (int d = 0, from = 0; d < 64; d++)
                if (!(new >> d & 1))
                        with |= (axes >> from++ & 1) << d;
        return with;
}

#endif
