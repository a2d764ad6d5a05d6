/*
 * ops.inc.h: the operations of core/ops.def as the CPU's kernels compute them, for one storage
 * type. Template, included once for each type by type.inc.h. Each is a few parameters of
 * kernels.inc.h, which defines them. Integers wrap, so all their operations are free. Where the
 * sign does not matter, signed types use the kernels of unsigned ones.
 */

#define K_OP sum
#if K_CONVERT == K_TRUTH || (K_SIGNED && K_CONVERT == K_SAME)
#define K_ABSENT
#else
#if K_CONVERT == K_FROM_INTEGER
/* The sign bits of all elements in 8 bytes. */
#define K_TURN (K_SIGNED ? ~(uint64_t)0 / (((uint64_t)1 << (8 * K_STORAGE_BYTES)) - 1) << (8 * K_STORAGE_BYTES - 1) : 0)
#if K_SIGNED
#define K_LIKE K_CAT(sum_, K_CAT(K_UNSIGNED_NAME_, K_STORAGE_BYTES))
#endif
#endif
#define K_COMBINE(a, b) ((a) + (b))
#define K_COMMUTES
#if K_CONVERT >= K_NONZERO || defined(K_RARE)
#define K_FOLDS
#endif
#if K_OUT > K_STORAGE_BYTES && !K_REAL
#define K_TOTALS
#else
#define K_WHOLE
#endif
#if K_REAL
#define K_LIFTS
#define K_ORDERED
#define K_NEUTRAL (-N(broadcast)((sf_value){.u64 = 0})) /* adding +0.0 would turn -0.0 into +0.0 */
#endif
#endif
#include "cpu/kernels.inc.h"

/* Types that are converted have no products of their own: those go through a panel. So do integers of 1 and 2 bytes, in lanes of 4. */
#define K_OP prod
#define K_LEAN
#if K_SIGNED || K_CONVERT != K_SAME || K_LANE_BYTES < 4
#define K_ABSENT
#elif K_REAL
#define K_VALUES "cpu/value_product.inc.h"
#define K_PRODUCT
#define K_ORDERED
#define K_COMMUTES
#else
#define K_COMBINE(a, b) ((a) * (b))
#define K_COMMUTES
#endif
#include "cpu/kernels.inc.h"

/* Max is defined for reals and unsigned integers. With the sign bit inverted it is the max of
 * signed integers, and with K_AROUND's bits inverted it is min. */
#define K_AROUND (K_REAL ? K_SIGN : K_SIGNED ? K_SIGN - 1 : (K_SIGN - 1) * 2 + 1)
#define K_OP max
#if K_CONVERT == K_WIDE || K_CONVERT >= K_FROM_INTEGER
#define K_ABSENT
#elif K_SIGNED
#define K_TURN K_SIGN
#define K_LIKE K_CAT(max_, K_LANE)
#else
#define K_TURN 0
#define K_COMBINE(a, b) K_CAT(v_larger_, K_LANE)(a, b)
#define K_COMMUTES
#define K_AGAIN
#if K_REAL
#define K_LIFTS
#endif
#endif
#ifdef K_RARE
#define K_FOLDS
#endif
#include "cpu/kernels.inc.h"

#define K_OP min
#if K_CONVERT == K_WIDE || K_CONVERT >= K_FROM_INTEGER
#define K_ABSENT
#else
#define K_TURN K_AROUND
#if K_SIGNED
#define K_LIKE K_CAT(max_, K_LANE)
#else
#define K_LIKE K_CAT(max_, K_NAME)
#endif
#if K_REAL
#define K_LIFTS
#endif
#ifdef K_RARE
#define K_FOLDS
#endif
#endif
#include "cpu/kernels.inc.h"

#define K_OP argmax
#define K_TURN (K_SIGNED ? K_SIGN : 0)
#define K_OWN
#include "cpu/ops_index.inc.h"

#define K_OP argmin
#define K_TURN K_AROUND
#include "cpu/ops_index.inc.h"

#define K_OP last_argmax
#define K_TURN (K_SIGNED ? K_SIGN : 0)
#include "cpu/ops_index.inc.h"

#define K_OP last_argmin
#define K_TURN K_AROUND
#include "cpu/ops_index.inc.h"
#undef K_AROUND

#define K_OP logsumexp
#define K_LEAN
#if !K_REAL || K_CONVERT == K_WIDE || K_CONVERT >= K_FROM_INTEGER
#define K_ABSENT
#else
#if K_CONVERT != K_SAME
#define K_FOLDS
#endif
#define K_VALUES "cpu/value_exponentials.inc.h"
#define K_ORDERED
#define K_COMMUTES
#define K_NEUTRAL (none->value)
#endif
#include "cpu/kernels.inc.h"

#define K_OP recurrence
#define K_LEAN
#define K_TWO
#if !K_REAL || K_CONVERT != K_SAME
#define K_ABSENT
#else
#define K_VALUES "cpu/value_recurrence.inc.h"
#define K_ORDERED
#endif
#include "cpu/kernels.inc.h"
