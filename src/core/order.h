/*
 * order.h: the order's arithmetic (docs/order.md): levels, counters, subtree indices.
 *
 * A sequence cut into aligned tiles of a power of two is a sequence of tiles; the rule is the same one level up. A
 * walker that meets tiles t = 0, 1, 2, ... keeps a counter of finished block totals: entry k is the total of the 2^k
 * tiles that end where bit k of t was last completed, live while bit k of t is set.
 *
 *     the elements of tile t add, on their left, the entries of the set bits of t, lowest first;
 *     while bit k of t is set, tile t is the last of a block of 2^(k+1): entry k + (what it has so far) closes it;
 *     the block that is not absorbed further becomes entry sf_order_closed(t).
 */
#ifndef SF_ORDER_H
#define SF_ORDER_H

#include <stdint.h>

/* Entries a counter needs for any sequence of int64_t length. */
#define SF_ORDER_LEVELS 64

/* floor(log2(v)), v > 0. */
static inline int sf_order_log2(uint64_t v)
{
        return 63 - __builtin_clzll(v);
}

/* The level of the largest block that tile t closes: its trailing ones. */
static inline int sf_order_closed(uint64_t t)
{
        return __builtin_ctzll(~t);
}

/* The left part of a sequence of n > 1: the largest power of two below n. */
static inline int64_t sf_order_left(int64_t n)
{
        return (int64_t)1 << sf_order_log2((uint64_t)n - 1);
}

#endif
