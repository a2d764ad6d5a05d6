/*
 * types.inc.h: every storage type's kernels, and how they are found. An instruction set's file includes this once, after
 * vector.h, with these set:
 *   V_SCAN_TILE, V_SCAN_TILE_LOG   vectors in a row scan's tile
 *   V_SCAN_ROWS                    positions in a column scan's tile
 *   V_FOLD_ROWS, V_FOLD_ROWS_LOG   positions in a column fold's tile
 *   V_LEAN                         define it where instances that only make sums quicker are not worth their size
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
#define K_REAL 1
#define K_SIGNED 0
#define K_WIDENED 0
#define K_PRODUCTS
#include "cpu/type.inc.h"

#define K_NAME f16
#define K_STORAGE uint16_t
#define K_STORAGE_BYTES 2
#define K_CONVERT K_HALF
#define K_LANE f32
#define K_LANE_C float
#define K_LANE_BYTES 4
#define K_VALUE f32
#define K_REAL 1
#define K_SIGNED 0
#define K_WIDENED 0
#include "cpu/type.inc.h"

#define K_NAME bf16
#define K_STORAGE uint16_t
#define K_STORAGE_BYTES 2
#define K_CONVERT K_BRAIN
#define K_LANE f32
#define K_LANE_C float
#define K_LANE_BYTES 4
#define K_VALUE f32
#define K_REAL 1
#define K_SIGNED 0
#define K_WIDENED 0
#include "cpu/type.inc.h"

#define K_NAME f64
#define K_STORAGE double
#define K_STORAGE_BYTES 8
#define K_CONVERT K_SAME
#define K_LANE f64
#define K_LANE_C double
#define K_LANE_BYTES 8
#define K_VALUE f64
#define K_REAL 1
#define K_SIGNED 0
#define K_WIDENED 0
#define K_PRODUCTS
#include "cpu/type.inc.h"

#define K_NAME f32_f64
#define K_STORAGE float
#define K_STORAGE_BYTES 4
#define K_CONVERT K_WIDE
#define K_LANE f64
#define K_LANE_C double
#define K_LANE_BYTES 8
#define K_VALUE f64
#define K_REAL 1
#define K_SIGNED 0
#define K_WIDENED 1
#include "cpu/type.inc.h"

#define K_NAME u32
#define K_STORAGE uint32_t
#define K_STORAGE_BYTES 4
#define K_CONVERT K_SAME
#define K_LANE u32
#define K_LANE_C uint32_t
#define K_LANE_BYTES 4
#define K_VALUE u64
#define K_REAL 0
#define K_SIGNED 0
#define K_WIDENED 0
#include "cpu/type.inc.h"

#define K_NAME u64
#define K_STORAGE uint64_t
#define K_STORAGE_BYTES 8
#define K_CONVERT K_SAME
#define K_LANE u64
#define K_LANE_C uint64_t
#define K_LANE_BYTES 8
#define K_VALUE u64
#define K_REAL 0
#define K_SIGNED 0
#define K_WIDENED 0
#include "cpu/type.inc.h"

#define K_NAME i32
#define K_STORAGE int32_t
#define K_STORAGE_BYTES 4
#define K_CONVERT K_SAME
#define K_LANE i32
#define K_LANE_C int32_t
#define K_LANE_BYTES 4
#define K_VALUE u64
#define K_REAL 0
#define K_SIGNED 1
#define K_WIDENED 0
#include "cpu/type.inc.h"

#define K_NAME i64
#define K_STORAGE int64_t
#define K_STORAGE_BYTES 8
#define K_CONVERT K_SAME
#define K_LANE i64
#define K_LANE_C int64_t
#define K_LANE_BYTES 8
#define K_VALUE u64
#define K_REAL 0
#define K_SIGNED 1
#define K_WIDENED 0
#include "cpu/type.inc.h"

#undef K_SAME
#undef K_WIDE
#undef K_HALF
#undef K_BRAIN

/* Elements of the lanes' own type are their own accumulator; f16 and bf16 have f32; f32 may have f64. Nothing else is rounded as it must be. */
static const sf_cpu_kernels *find(sf_dt storage, sf_dt acc, sf_op op)
{
        const sf_cpu_kernels *const *of = NULL, *const *other = NULL;
        switch (storage) {
        case SF_DT_F32: of = acc == SF_DT_F32 ? kernels_f32 : acc == SF_DT_F64 ? kernels_f32_f64 : NULL; break;
        case SF_DT_F16: of = acc == SF_DT_F32 ? kernels_f16 : NULL; break;
        case SF_DT_BF16: of = acc == SF_DT_F32 ? kernels_bf16 : NULL; break;
        case SF_DT_F64: of = acc == storage ? kernels_f64 : NULL; break;
        case SF_DT_U32: of = acc == storage ? kernels_u32 : NULL; break;
        case SF_DT_U64: of = acc == storage ? kernels_u64 : NULL; break;
        case SF_DT_I32: of = acc == storage ? kernels_i32 : NULL, other = kernels_u32; break;
        case SF_DT_I64: of = acc == storage ? kernels_i64 : NULL, other = kernels_u64; break;
        default: break; /* narrow integers and bool are converted to 32 bits and back */
        }
        const sf_cpu_kernels *found = of ? of[op] : NULL;
        if (found && !found->width && other)
                found = other[op];
        return found && found->width ? found : NULL;
}
