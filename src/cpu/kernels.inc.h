/*
 * kernels.inc.h: the kernels of one storage type, all operations. Template, included once a type by types.inc.h.
 *
 * Parameters (undefined again at the foot):
 *   K_NAME           the storage type's name; with another accumulator, both: f32_f64
 *   K_STORAGE        its C type, and K_STORAGE_BYTES its size
 *   K_CONVERT        how elements become lanes: K_SAME, K_WIDE, K_HALF, K_BRAIN
 *   K_LANE           the lane type: f32, f64, u32, i32, u64 or i64, and K_LANE_C its C type, K_LANE_BYTES its size
 *   K_VALUE          the member of sf_value that holds one
 *   K_EXTREMES_ONLY  define it where sum and prod are served by the unsigned type's kernels
 *   K_NO_EXTREMES    define it where max and min are served by another type's
 *   K_PRODUCTS       define it where there are sums of products
 */
#define K_CAT_(a, b) a##b
#define K_CAT(a, b) K_CAT_(a, b)
#define N(name) K_CAT(K_CAT(name, _), K_NAME)
#define K_VECTOR K_CAT(v_, K_LANE)
#if K_LANE_BYTES == 4
#define K_WIDTH V_LANES4
#define K_BITS v_u32
#define K_LANE_BITS 32
#else
#define K_WIDTH V_LANES8
#define K_BITS v_u64
#define K_LANE_BITS 64
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

#include "cpu/scan.inc.h"

static void N(narrow)(void *elements, const void *lanes, int64_t count)
{
        for (int64_t i = 0; i < count; i += K_WIDTH) {
                int part = count - i < K_WIDTH ? (int)(count - i) : K_WIDTH;
                N(store_part)((char *)elements + i * K_SIZE, N(get)((const char *)lanes + i * K_LANE_BYTES), 0, part);
        }
}

#include "cpu/scan_columns.inc.h"

#include "cpu/carry.inc.h"

#include "cpu/extreme.inc.h"

#include "cpu/fold_long.inc.h"

#include "cpu/fold.inc.h"

#include "cpu/fold_short.inc.h"

#ifdef K_PRODUCTS
#include "cpu/product.inc.h"
#endif

static void N(fill)(void *lanes, int64_t count, sf_value value)
{
        K_LANE_C lane = (K_LANE_C)value.K_VALUE;
        for (int64_t i = 0; i < count; i++)
                memcpy((char *)lanes + i * K_LANE_BYTES, &lane, sizeof lane);
}

#if K_CONVERT == K_SAME
#define K_RUN(op, OP) static void N(carry_run_##op)(const sf_run *j) { N(carry_run)(j, OP); }
#define K_RUN_OF(op) N(carry_run_##op)
#else
#define K_RUN(op, OP)
#define K_RUN_OF(op) NULL
#endif

/* An instance names an operation; everything else is in the functions above. */
#define K_INSTANCE(op, OP)                                                                                               \
        static void N(scan_rows_##op)(const sf_rows *j) { N(scan_rows)(j, OP); }                                         \
        K_RUN(op, OP)                                                                                                    \
        static void N(scan_packed_##op)(const sf_rows *j) { N(scan_packed)(j, OP); }                                     \
        static void N(scan_columns_##op)(const sf_columns *j) { N(scan_columns)(j, OP); }                                \
        static void N(fold_rows_##op)(const sf_rows *j)                                                                 \
        {                                                                                                                \
                if (N(is_short)(j))                                                                                      \
                        N(fold_short)(j, OP);                                                                            \
                else                                                                                                     \
                        N(fold_rows)(j, OP);                                                                             \
        }                                                                                                                \
        static void N(fold_packed_##op)(const sf_rows *j) { N(fold_packed)(j, OP); }                                     \
        static void N(fold_columns_##op)(const sf_columns *j) { N(fold_columns)(j, OP); }                                \
        static void N(combine_##op)(void *a, const void *b, int64_t count)                                               \
        {                                                                                                                \
                for (int64_t i = 0; i < count; i += K_WIDTH)                                                             \
                        N(put)((char *)a + i * K_LANE_BYTES, N(combine)(OP, N(get)((char *)a + i * K_LANE_BYTES),        \
                                                                        N(get)((const char *)b + i * K_LANE_BYTES)));    \
        }
#define K_ROW(op, carry)                                                                                                 \
        {K_LANE_BYTES,       K_WIDTH,           N(scan_rows_##op), carry, K_RUN_OF(op), N(scan_packed_##op), N(scan_columns_##op),  \
         N(fold_rows_##op), N(fold_packed_##op), N(fold_columns_##op), N(fill), N(combine_##op), N(narrow)},

#ifndef K_EXTREMES_ONLY
K_INSTANCE(sum, SF_SUM)
K_INSTANCE(prod, SF_PROD)
static void N(carry_rows_sum)(const sf_rows *now, const sf_rows *next) { N(carry_rows)(now, next, SF_SUM); }
static void N(carry_rows_prod)(const sf_rows *now, const sf_rows *next) { N(carry_rows)(now, next, SF_PROD); }
#endif
#ifndef K_NO_EXTREMES
K_INSTANCE(max, SF_MAX)
K_INSTANCE(min, SF_MIN)
#endif

/* By sf_op. */
static const sf_cpu_kernels N(kernels)[] = {
#ifndef K_EXTREMES_ONLY
        K_ROW(sum, N(carry_rows_sum)) K_ROW(prod, N(carry_rows_prod))
#else
        {0}, {0},
#endif
#ifndef K_NO_EXTREMES
        K_ROW(max, NULL) K_ROW(min, NULL)
#else
        {0}, {0},
#endif
};

#undef K_INSTANCE
#undef K_ROW
#undef K_RUN
#undef K_RUN_OF
#undef K_SIZE
#undef K_CAT_
#undef K_CAT
#undef N
#undef K_VECTOR
#undef K_WIDTH
#undef K_BITS
#undef K_LANE_BITS
#undef K_LOG_WIDTH
#undef K_NAME
#undef K_STORAGE
#undef K_STORAGE_BYTES
#undef K_CONVERT
#undef K_LANE
#undef K_LANE_C
#undef K_LANE_BYTES
#undef K_VALUE
#undef K_EXTREMES_ONLY
#undef K_NO_EXTREMES
#undef K_PRODUCTS
