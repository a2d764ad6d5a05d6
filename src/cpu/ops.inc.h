/*
 * ops.inc.h: the operations of core/ops.def as the CPU's kernels compute them, for one storage type. Template, included once a type by
 * type.inc.h. Each is a few parameters of kernels.inc.h, which says what they mean. Integers wrap, so every operation of theirs is free;
 * where the sign does not matter, signed types leave it to the unsigned ones.
 */

#define K_OP sum
#if K_SIGNED
#define K_ABSENT
#else
#define K_COMBINE(a, b) ((a) + (b))
#define K_COMMUTES
#ifndef V_LEAN
#define K_WHOLE
#endif
#if K_REAL
#define K_ORDERED
#define K_NEUTRAL (-N(broadcast)((sf_value){.u64 = 0})) /* adding +0.0 would make +0.0 of -0.0 */
#endif
#endif
#include "cpu/kernels.inc.h"

#define K_OP prod
#if K_SIGNED
#define K_ABSENT
#elif K_REAL
#define K_PRODUCT
#define K_ORDERED
#define K_COMMUTES
#else
#define K_COMBINE(a, b) ((a) * (b))
#define K_COMMUTES
#endif
#include "cpu/kernels.inc.h"

#define K_OP max
#if K_WIDENED
#define K_ABSENT
#else
#define K_COMBINE(a, b) K_CAT(v_extreme_, K_LANE)(true, a, b)
#define K_COMMUTES
#define K_AGAIN
#endif
#include "cpu/kernels.inc.h"

#define K_OP min
#if K_WIDENED
#define K_ABSENT
#else
#define K_COMBINE(a, b) K_CAT(v_extreme_, K_LANE)(false, a, b)
#define K_COMMUTES
#define K_AGAIN
#endif
#include "cpu/kernels.inc.h"
