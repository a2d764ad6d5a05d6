/*
 * ops_index.inc.h: an operation that finds a position. Template, part of ops.inc.h, which says its K_OP and K_TURN. Elements are compared as they
 * are, or turned around, in lanes that hold a position too. The kernels of one of them, of unsigned integers and reals, serve them all:
 * K_OWN says whose they are.
 */
#define K_LEAN
#define K_TWO
#if K_CONVERT != K_SAME || K_LANE_BYTES < 4
#define K_ABSENT
#else
#define K_VALUES "cpu/value_index.inc.h"
#if defined(K_OWN) && !K_SIGNED
#define K_COMMUTES
#define K_AGAIN
#else
#define K_LIKE K_CAT(argmax_, K_LANE)
#endif
#endif
#undef K_OWN
#include "cpu/kernels.inc.h"
