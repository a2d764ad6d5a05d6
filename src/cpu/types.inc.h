/*
 * types.inc.h: the kernels of every storage type, and how they are found. An instruction set's file
 * includes this once, after vector.h, with these defined:
 *   V_SCAN_TILE, V_SCAN_TILE_LOG   vectors in a row scan's tile
 *   V_SCAN_ROWS                    positions in a column scan's tile
 *   V_FOLD_ROWS, V_FOLD_ROWS_LOG   positions in a column fold's tile
 *   V_LEAN                         define it if one instance of a kernel for all cases is enough
 */
#include "core/elementary.h"
#include "cpu/kernels.h"

#include <math.h>

/* How elements become lanes. */
#define K_SAME 0          /* they are lanes */
#define K_WIDE 1          /* f32, in f64 lanes */
#define K_HALF 2          /* f16 */
#define K_BRAIN 3         /* bf16 */
#define K_TRUTH 4         /* bool: any value but zero is 1 */
#define K_FROM_UNSIGNED 5 /* integers, with lanes and results of u64 */
#define K_FROM_SIGNED 6
#define K_FROM_TRUTH 7
/* anything: 1 if a bit that the job asks for is set, else 0; in u64 lanes */
#define K_NONZERO 8

/* The properties of a lane type: its C type and size, the member of sf_value that holds it, whether
 * it is real. */
#define K_C_f32 float
#define K_C_f64 double
#define K_C_u8 uint8_t
#define K_C_u16 uint16_t
#define K_C_u32 uint32_t
#define K_C_u64 uint64_t
#define K_BYTES_f32 4
#define K_BYTES_f64 8
#define K_BYTES_u8 1
#define K_BYTES_u16 2
#define K_BYTES_u32 4
#define K_BYTES_u64 8
#define K_VALUE_f32 f32
#define K_VALUE_f64 f64
#define K_VALUE_u8 u64
#define K_VALUE_u16 u64
#define K_VALUE_u32 u64
#define K_VALUE_u64 u64
#define K_REAL_f32 1
#define K_REAL_f64 1
#define K_REAL_u8 0
#define K_REAL_u16 0
#define K_REAL_u32 0
#define K_REAL_u64 0

/* Reals. */
#define K_NAME f32
#define K_PRODUCTS
#include "cpu/type.inc.h"
#define K_NAME f64
#define K_PRODUCTS
#include "cpu/type.inc.h"
#define K_NAME f16
#define K_STORAGE_BYTES 2
#define K_CONVERT K_HALF
#define K_LANE f32
#include "cpu/type.inc.h"
#define K_NAME bf16
#define K_STORAGE_BYTES 2
#define K_CONVERT K_BRAIN
#define K_LANE f32
#include "cpu/type.inc.h"
#define K_NAME f32_f64
#define K_PRODUCTS
#define K_STORAGE_BYTES 4
#define K_CONVERT K_WIDE
#define K_LANE f64
#include "cpu/type.inc.h"

/* Integers, which wrap in lanes of their own size. */
#define K_NAME u8
#include "cpu/type.inc.h"
#define K_NAME i8
#define K_SIGNED 1
#define K_LANE u8
#include "cpu/type.inc.h"
#define K_NAME u16
#include "cpu/type.inc.h"
#define K_NAME i16
#define K_SIGNED 1
#define K_LANE u16
#include "cpu/type.inc.h"
#define K_NAME u32
#include "cpu/type.inc.h"
#define K_NAME i32
#define K_SIGNED 1
#define K_LANE u32
#include "cpu/type.inc.h"
#define K_NAME u64
#include "cpu/type.inc.h"
#define K_NAME i64
#define K_SIGNED 1
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME truth
#define K_CONVERT K_TRUTH
#define K_LANE u8
#include "cpu/type.inc.h"

/* Integers in 64-bit lanes. */
#define K_NAME u8_u64
#define K_STORAGE_BYTES 1
#define K_CONVERT K_FROM_UNSIGNED
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME i8_u64
#define K_STORAGE_BYTES 1
#define K_CONVERT K_FROM_SIGNED
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME truth_u64
#define K_STORAGE_BYTES 1
#define K_CONVERT K_FROM_TRUTH
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME u16_u64
#define K_STORAGE_BYTES 2
#define K_CONVERT K_FROM_UNSIGNED
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME i16_u64
#define K_STORAGE_BYTES 2
#define K_CONVERT K_FROM_SIGNED
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME u32_u64
#define K_STORAGE_BYTES 4
#define K_CONVERT K_FROM_UNSIGNED
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME i32_u64
#define K_STORAGE_BYTES 4
#define K_CONVERT K_FROM_SIGNED
#define K_LANE u64
#include "cpu/type.inc.h"

/* Counts elements that are not zero, of any type, by the size of elements. Only folds read them
 * from memory. */
#define K_NAME nonzero_1
#define K_STORAGE_BYTES 1
#define K_CONVERT K_NONZERO
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME nonzero_2
#define K_STORAGE_BYTES 2
#define K_CONVERT K_NONZERO
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME nonzero_4
#define K_STORAGE_BYTES 4
#define K_CONVERT K_NONZERO
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME nonzero_8
#define K_CONVERT K_NONZERO
#define K_LANE u64
#include "cpu/type.inc.h"

#undef K_SAME
#undef K_WIDE
#undef K_HALF
#undef K_BRAIN
#undef K_TRUTH
#undef K_FROM_UNSIGNED
#undef K_FROM_SIGNED
#undef K_FROM_TRUTH
#undef K_NONZERO

/* By storage and accumulator. With any other pair, results would not be rounded or wrapped as they
 * must. */
static const struct {
        sf_dt storage, acc;
        const sf_cpu_kernels *const *of;
} all_kernels[] = {
        {SF_DT_F32, SF_DT_F32, kernels_f32},       {SF_DT_F32, SF_DT_F64, kernels_f32_f64},
        {SF_DT_F16, SF_DT_F32, kernels_f16},       {SF_DT_BF16, SF_DT_F32, kernels_bf16},
        {SF_DT_F64, SF_DT_F64, kernels_f64},       {SF_DT_U8, SF_DT_U8, kernels_u8},
        {SF_DT_U16, SF_DT_U16, kernels_u16},       {SF_DT_U32, SF_DT_U32, kernels_u32},
        {SF_DT_U64, SF_DT_U64, kernels_u64},       {SF_DT_I8, SF_DT_I8, kernels_i8},
        {SF_DT_I16, SF_DT_I16, kernels_i16},       {SF_DT_I32, SF_DT_I32, kernels_i32},
        {SF_DT_I64, SF_DT_I64, kernels_i64},       {SF_DT_BOOL, SF_DT_U8, kernels_truth},
        {SF_DT_U8, SF_DT_U64, kernels_u8_u64},     {SF_DT_I8, SF_DT_U64, kernels_i8_u64},
        {SF_DT_U16, SF_DT_U64, kernels_u16_u64},   {SF_DT_I16, SF_DT_U64, kernels_i16_u64},
        {SF_DT_U32, SF_DT_U64, kernels_u32_u64},   {SF_DT_I32, SF_DT_U64, kernels_i32_u64},
        {SF_DT_BOOL, SF_DT_U64, kernels_truth_u64},
};

static const sf_cpu_kernels *look_up(sf_dt storage, sf_dt acc, sf_op op)
{
        for (size_t i = 0; i < sizeof all_kernels / sizeof *all_kernels; i++)
                if (all_kernels[i].storage == storage && all_kernels[i].acc == acc && all_kernels[i].of[op]->width)
                        return all_kernels[i].of[op];
        return NULL;
}

/* Where the sign does not matter, signed integers use the kernels of unsigned ones. */
static const sf_cpu_kernels *find(sf_dt storage, sf_dt acc, sf_op op)
{
        static const sf_dt unsigned_of[SF_DT_COUNT] = {
                [SF_DT_I8] = SF_DT_U8, [SF_DT_I16] = SF_DT_U16, [SF_DT_I32] = SF_DT_U32, [SF_DT_I64] = SF_DT_U64};
        const sf_cpu_kernels *found = look_up(storage, acc, op);
        const bool widens = sf_dtypes[storage].bits < sf_dtypes[acc].bits;
        if (found || sf_dtypes[acc].kind != SF_KIND_SIGNED || (storage != acc && !widens))
                return found;
        return look_up(storage == acc ? unsigned_of[storage] : storage, unsigned_of[acc], op);
}

static const sf_cpu_kernels *count(int64_t size)
{
        switch (size) {
        case 1: return kernels_nonzero_1[SF_SUM];
        case 2: return kernels_nonzero_2[SF_SUM];
        case 4: return kernels_nonzero_4[SF_SUM];
        default: return kernels_nonzero_8[SF_SUM];
        }
}
