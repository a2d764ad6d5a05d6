/*
 * types.inc.h: every storage type's kernels, and how they are found. An instruction set's file includes this once, after
 * vector.h, with these set:
 *   V_SCAN_TILE, V_SCAN_TILE_LOG   vectors in a row scan's tile
 *   V_SCAN_ROWS                    positions in a column scan's tile
 *   V_FOLD_ROWS, V_FOLD_ROWS_LOG   positions in a column fold's tile
 */
#include "cpu/kernels.h"

/* How elements become lanes. */
#define K_SAME 0  /* they are lanes */
#define K_WIDE 1  /* f32, in f64 lanes */
#define K_HALF 2  /* f16 */
#define K_BRAIN 3 /* bf16 */

#define K_NAME f32
#define K_STORAGE float
#define K_STORAGE_BYTES 4
#define K_CONVERT K_SAME
#define K_LANE f32
#define K_LANE_C float
#define K_LANE_BYTES 4
#define K_VALUE f32
#define K_PRODUCTS
#include "cpu/kernels.inc.h"

#define K_NAME f16
#define K_STORAGE uint16_t
#define K_STORAGE_BYTES 2
#define K_CONVERT K_HALF
#define K_LANE f32
#define K_LANE_C float
#define K_LANE_BYTES 4
#define K_VALUE f32
#include "cpu/kernels.inc.h"

#define K_NAME bf16
#define K_STORAGE uint16_t
#define K_STORAGE_BYTES 2
#define K_CONVERT K_BRAIN
#define K_LANE f32
#define K_LANE_C float
#define K_LANE_BYTES 4
#define K_VALUE f32
#include "cpu/kernels.inc.h"

#define K_NAME f64
#define K_STORAGE double
#define K_STORAGE_BYTES 8
#define K_CONVERT K_SAME
#define K_LANE f64
#define K_LANE_C double
#define K_LANE_BYTES 8
#define K_VALUE f64
#define K_PRODUCTS
#include "cpu/kernels.inc.h"

#define K_NAME f32_f64
#define K_STORAGE float
#define K_STORAGE_BYTES 4
#define K_CONVERT K_WIDE
#define K_LANE f64
#define K_LANE_C double
#define K_LANE_BYTES 8
#define K_VALUE f64
#define K_NO_EXTREMES
#include "cpu/kernels.inc.h"

#define K_NAME u32
#define K_STORAGE uint32_t
#define K_STORAGE_BYTES 4
#define K_CONVERT K_SAME
#define K_LANE u32
#define K_LANE_C uint32_t
#define K_LANE_BYTES 4
#define K_VALUE u64
#include "cpu/kernels.inc.h"

#define K_NAME u64
#define K_STORAGE uint64_t
#define K_STORAGE_BYTES 8
#define K_CONVERT K_SAME
#define K_LANE u64
#define K_LANE_C uint64_t
#define K_LANE_BYTES 8
#define K_VALUE u64
#include "cpu/kernels.inc.h"

#define K_NAME i32
#define K_STORAGE int32_t
#define K_STORAGE_BYTES 4
#define K_CONVERT K_SAME
#define K_LANE i32
#define K_LANE_C int32_t
#define K_LANE_BYTES 4
#define K_VALUE u64
#define K_EXTREMES_ONLY
#include "cpu/kernels.inc.h"

#define K_NAME i64
#define K_STORAGE int64_t
#define K_STORAGE_BYTES 8
#define K_CONVERT K_SAME
#define K_LANE i64
#define K_LANE_C int64_t
#define K_LANE_BYTES 8
#define K_VALUE u64
#define K_EXTREMES_ONLY
#include "cpu/kernels.inc.h"

#undef K_SAME
#undef K_WIDE
#undef K_HALF
#undef K_BRAIN

static const sf_cpu_products products[2] = {{fold_rows_products_f32, fold_columns_products_f32}, {fold_rows_products_f64, fold_columns_products_f64}};

static const sf_cpu_kernels *find(sf_dt storage, sf_dt acc, sf_op op)
{
        /* Wrapped sums and products have the same bits signed or not. */
        bool extreme = op == SF_MAX || op == SF_MIN;
        if (acc == SF_DT_F64 && storage == SF_DT_F32)
                return extreme ? NULL : &kernels_f32_f64[op]; /* api.c gives max and min of f32 an f32 accumulator */
        if (acc == SF_DT_F64 && storage != SF_DT_F64)
                return NULL;
        switch (storage) {
        case SF_DT_F32: return &kernels_f32[op];
        case SF_DT_F16: return &kernels_f16[op];
        case SF_DT_BF16: return &kernels_bf16[op];
        case SF_DT_F64: return &kernels_f64[op];
        case SF_DT_U32: return &kernels_u32[op];
        case SF_DT_U64: return &kernels_u64[op];
        case SF_DT_I32: return extreme ? &kernels_i32[op] : &kernels_u32[op];
        case SF_DT_I64: return extreme ? &kernels_i64[op] : &kernels_u64[op];
        default: return NULL; /* narrow integers and bool are converted to 32 bits and back */
        }
}
