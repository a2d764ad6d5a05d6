/*
 * type.inc.h: the kernels of one storage type, all operations. Template, included once a type by types.inc.h.
 *
 * Parameters (undefined again at the foot):
 *   K_NAME       the storage type's name; with another accumulator, both: f32_f64
 *   K_STORAGE    its C type, and K_STORAGE_BYTES its size
 *   K_CONVERT    how elements become lanes: K_SAME, K_WIDE, K_HALF, K_BRAIN
 *   K_LANE       the lane type: f32, f64, u32, i32, u64 or i64, and K_LANE_C its C type, K_LANE_BYTES its size
 *   K_VALUE      the member of sf_value that holds one
 *   K_REAL       1 for real numbers, else 0; K_SIGNED likewise for signed integers; K_WIDENED for an accumulator that max and min never have
 *   K_PRODUCTS   define it where there are folds of products
 */
#define K_CAT_(a, b) a##b
#define K_CAT(a, b) K_CAT_(a, b)
#define N(name) K_CAT(K_CAT(name, _), K_NAME)
#define K_VECTOR K_CAT(v_, K_LANE)
#if K_LANE_BYTES == 4
#define K_WIDTH V_LANES4
#define K_BITS v_u32
#define K_LANE_BITS 32
#define K_LANE_INTEGER int32_t
#define K_LANE_UNSIGNED uint32_t
#else
#define K_WIDTH V_LANES8
#define K_BITS v_u64
#define K_LANE_BITS 64
#define K_LANE_INTEGER int64_t
#define K_LANE_UNSIGNED uint64_t
#endif
#if K_WIDTH == 16
#define K_LOG_WIDTH 4
#elif K_WIDTH == 8
#define K_LOG_WIDTH 3
#elif K_WIDTH == 4
#define K_LOG_WIDTH 2
#else
#define K_LOG_WIDTH 1
#endif

#include "cpu/element.inc.h"

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
#undef K_LOG_WIDTH
#undef K_NAME
#undef K_STORAGE
#undef K_STORAGE_BYTES
#undef K_CONVERT
#undef K_LANE
#undef K_LANE_C
#undef K_LANE_BYTES
#undef K_VALUE
#undef K_REAL
#undef K_SIGNED
#undef K_WIDENED
#undef K_PRODUCTS
