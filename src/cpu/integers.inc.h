/*
 * integers.inc.h: the kernels of every storage type of integers, and of bool. An instruction set's
 * file includes this once, after vector.h.
 */
#include "cpu/types.inc.h"

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
#define K_CONVERT K_FROM_INTEGER
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME i8_u64
#define K_SIGNED 1
#define K_STORAGE_BYTES 1
#define K_CONVERT K_FROM_INTEGER
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME truth_u64
#define K_STORAGE_BYTES 1
#define K_CONVERT K_FROM_TRUTH
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME u16_u64
#define K_STORAGE_BYTES 2
#define K_CONVERT K_FROM_INTEGER
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME i16_u64
#define K_SIGNED 1
#define K_STORAGE_BYTES 2
#define K_CONVERT K_FROM_INTEGER
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME u32_u64
#define K_STORAGE_BYTES 4
#define K_CONVERT K_FROM_INTEGER
#define K_LANE u64
#include "cpu/type.inc.h"
#define K_NAME i32_u64
#define K_SIGNED 1
#define K_STORAGE_BYTES 4
#define K_CONVERT K_FROM_INTEGER
#define K_LANE u64
#include "cpu/type.inc.h"

/* Counts elements that are not zero, of any type, by the size of elements. Only folds read them
 * from memory. Of one byte, whose every bit counts, they are sums of bool. */
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

/* By storage and accumulator. With any other pair, results would not be wrapped as they must. */
static const sf_cpu_type integers[] = {
        {SF_DT_U8, SF_DT_U8, kernels_u8},          {SF_DT_U16, SF_DT_U16, kernels_u16},
        {SF_DT_U32, SF_DT_U32, kernels_u32},       {SF_DT_U64, SF_DT_U64, kernels_u64},
        {SF_DT_I8, SF_DT_I8, kernels_i8},          {SF_DT_I16, SF_DT_I16, kernels_i16},
        {SF_DT_I32, SF_DT_I32, kernels_i32},       {SF_DT_I64, SF_DT_I64, kernels_i64},
        {SF_DT_BOOL, SF_DT_U8, kernels_truth},     {SF_DT_BOOL, SF_DT_U64, kernels_truth_u64},
        {SF_DT_U8, SF_DT_U64, kernels_u8_u64},     {SF_DT_I8, SF_DT_U64, kernels_i8_u64},
        {SF_DT_U16, SF_DT_U64, kernels_u16_u64},   {SF_DT_I16, SF_DT_U64, kernels_i16_u64},
        {SF_DT_U32, SF_DT_U64, kernels_u32_u64},   {SF_DT_I32, SF_DT_U64, kernels_i32_u64},
        {0, 0, NULL},
};

static const sf_cpu_kernels *const *const counts[] = {kernels_truth_u64, kernels_nonzero_2,
                                                      kernels_nonzero_4, kernels_nonzero_8};
