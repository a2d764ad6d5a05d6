/*
 * order.h: the arithmetic of the order (docs/order.md): levels, counters, subtree indices.
 *
 * A sequence cut into aligned tiles, each a power of two long, is a sequence of tiles to which the
 * same rule applies one level up. Code that visits tiles t = 0, 1, 2, ... keeps a binary counter of
 * the totals of finished blocks. Entry k is the total of the latest finished block of 2^k tiles. It
 * is valid while bit k of t is set.
 *
 *     The elements of tile t combine, on their left, the entries of t's set bits, lowest first.
 *     While bit k of t is set, tile t is the last of a block of 2^(k+1) tiles: entry k combined
 *     with the total so far is that block's total.
 *     The largest block that tile t finishes becomes entry sf_order_closed(t).
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

/* The level of the largest block that tile t finishes: the number of trailing ones of t. */
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
