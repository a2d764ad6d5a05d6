/*
 * ops_index.inc.h: an operation that finds a position. Template, part of ops.inc.h, which defines
 * K_OP and K_TURN. Elements are compared as they are, or with bits inverted, in lanes that can hold
 * a position too. The kernels of one operation, on unsigned integers and reals, are used for all:
 * K_OWN is defined for that one.
 */
#define K_LEAN
#define K_TWO
#if (K_CONVERT != K_SAME && K_CONVERT != K_HALF && K_CONVERT != K_BRAIN) || K_LANE_BYTES < 4
#define K_ABSENT
#else
#if K_CONVERT != K_SAME
#define K_FOLDS
#endif
#define K_VALUES "cpu/value_index.inc.h"
#if defined(K_OWN) && !K_SIGNED
#define K_COMMUTES
#define K_AGAIN
#else
#if K_SIGNED
#define K_LIKE K_CAT(argmax_, K_LANE)
#else
#define K_LIKE K_CAT(argmax_, K_NAME)
#endif
#endif
#endif
#undef K_OWN
#include "cpu/kernels.inc.h"
