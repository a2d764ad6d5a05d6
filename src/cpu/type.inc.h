/*
 * type.inc.h: the kernels of one storage type, for all operations. Template, included once for each
 * type by reals.inc.h or integers.inc.h.
 *
 * Parameters (undefined again at the end):
 *   K_NAME            the storage type's name; with another accumulator, both: f32_f64
 *   K_LANE            the lane type: f32, f64, u8, u16, u32 or u64. Default: K_NAME
 *   K_CONVERT         how elements become lanes. Default: K_SAME
 *   K_STORAGE_BYTES   bytes of an element. Default: those of a lane
 *   K_SIGNED          1 for signed integers, which use the kernels of unsigned lanes. Default: 0
 *   K_PRODUCTS        define it if there are folds of products
 */
#define K_CAT_(a, b) a##b
#define K_CAT(a, b) K_CAT_(a, b)
#define N(name) K_CAT(K_CAT(name, _), K_NAME)
#ifndef K_LANE
#define K_LANE K_NAME
#endif
#ifndef K_CONVERT
#define K_CONVERT K_SAME
#endif
#ifndef K_STORAGE_BYTES
#define K_STORAGE_BYTES K_LANE_BYTES
#endif
#define K_VECTOR K_CAT(v_, K_LANE)
#define K_LANE_C K_CAT(K_C_, K_LANE)
#define K_LANE_BYTES K_CAT(K_BYTES_, K_LANE)
#define K_VALUE K_CAT(K_VALUE_, K_LANE)
#define K_REAL K_CAT(K_REAL_, K_LANE)
#define K_WIDTH (V_BYTES / K_LANE_BYTES)
#define K_LANE_BITS K_CAT(K_BITS_OF_, K_LANE_BYTES)
#define K_BITS K_CAT(v_u, K_LANE_BITS)
#define K_LANE_INTEGER K_CAT(K_CAT(int, K_LANE_BITS), _t)
#define K_LANE_UNSIGNED K_CAT(K_CAT(uint, K_LANE_BITS), _t)
#define K_TWICE K_CAT(K_TWICE_OF_, K_STORAGE_BYTES)
#define K_TWICE_OF_1 uint16_t
#define K_TWICE_OF_2 uint32_t
#define K_TWICE_OF_4 uint64_t
#define K_UNSIGNED_1 v_u8
#define K_UNSIGNED_2 v_u16
#define K_UNSIGNED_4 v_u32
#define K_UNSIGNED_8 v_u64
#define K_UNSIGNED_NAME_1 u8_u64
#define K_UNSIGNED_NAME_2 u16_u64
#define K_UNSIGNED_NAME_4 u32_u64
#define K_BITS_OF_1 8
#define K_BITS_OF_2 16
#define K_BITS_OF_4 32
#define K_BITS_OF_8 64
#if K_WIDTH == 64
#define K_LOG_WIDTH 6
#elif K_WIDTH == 32
#define K_LOG_WIDTH 5
#elif K_WIDTH == 16
#define K_LOG_WIDTH 4
#elif K_WIDTH == 8
#define K_LOG_WIDTH 3
#elif K_WIDTH == 4
#define K_LOG_WIDTH 2
#else
#define K_LOG_WIDTH 1
#endif
#ifndef K_SIGNED
#define K_SIGNED 0
#endif
/* Bytes of a result. */
#if K_CONVERT >= K_FROM_INTEGER
#define K_OUT K_LANE_BYTES
#else
#define K_OUT K_STORAGE_BYTES
#endif
#define K_SIGN ((uint64_t)1 << (K_LANE_BITS - 1))

/* Scans of bool, and of 16 bits to 16 bits, are rare: they go through a panel. */
#if K_CONVERT == K_TRUTH || (K_LANE_BYTES == 2 && K_CONVERT == K_SAME)
#define K_RARE
#endif

#if !K_SIGNED
#include "cpu/element.inc.h"
#endif

#include "cpu/ops.inc.h"

static const sf_cpu_kernels *const N(kernels)[] = {
#define OP(name, NAME, ...) [SF_##NAME] = &K_CAT(K_CAT(kernels_, name), K_CAT(_, K_NAME)),
#include "core/ops.def"
#undef OP
};

#undef K_SIZE
#undef K_CAT_
#undef K_CAT
#undef N
#undef K_VECTOR
#undef K_WIDTH
#undef K_BITS
#undef K_LANE_BITS
#undef K_LANE_INTEGER
#undef K_LANE_UNSIGNED
#undef K_TWICE
#undef K_TWICE_OF_1
#undef K_TWICE_OF_2
#undef K_TWICE_OF_4
#undef K_UNSIGNED_1
#undef K_UNSIGNED_2
#undef K_UNSIGNED_4
#undef K_UNSIGNED_8
#undef K_UNSIGNED_NAME_1
#undef K_UNSIGNED_NAME_2
#undef K_UNSIGNED_NAME_4
#undef K_BITS_OF_1
#undef K_BITS_OF_2
#undef K_BITS_OF_4
#undef K_BITS_OF_8
#undef K_OUT
#undef K_LOG_WIDTH
#undef K_NAME
#undef K_STORAGE_BYTES
#undef K_CONVERT
#undef K_LANE
#undef K_LANE_C
#undef K_LANE_BYTES
#undef K_VALUE
#undef K_REAL
#undef K_SIGNED
#undef K_SIGN
#undef K_PRODUCTS
#undef K_RARE
