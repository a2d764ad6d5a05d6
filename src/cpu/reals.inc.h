/*
 * reals.inc.h: the kernels of every storage type of reals. An instruction set's file
 * includes this once, after vector.h, with K_REALS defined, which names the table of them.
 */
#include "cpu/types.inc.h"

#define K_NAME f32
#define K_PRODUCTS
#include "cpu/type.inc.h"
#define K_NAME f64
#define K_PRODUCTS
#include "cpu/type.inc.h"
#define K_NAME f32_f64
#define K_PRODUCTS
#define K_STORAGE_BYTES 4
#define K_CONVERT K_WIDE
#define K_LANE f64
#include "cpu/type.inc.h"
#ifndef V_LEAN /* there halves go through a panel, as f32 */
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
/* Folds only: f64 is not rounded to halves in one step here. */
#define K_NAME f16_f64
#define K_PRODUCTS
#define K_STORAGE_BYTES 2
#define K_CONVERT K_FROM_HALF
#define K_LANE f64
#include "cpu/type.inc.h"
#define K_NAME bf16_f64
#define K_PRODUCTS
#define K_STORAGE_BYTES 2
#define K_CONVERT K_FROM_BRAIN
#define K_LANE f64
#include "cpu/type.inc.h"
#endif

/* By storage and accumulator. With any other pair, results would not be rounded as they must. */
const sf_cpu_type K_REALS[] = {
        {SF_DT_F32, SF_DT_F32, kernels_f32},
        {SF_DT_F64, SF_DT_F64, kernels_f64},
        {SF_DT_F32, SF_DT_F64, kernels_f32_f64},
#ifndef V_LEAN
        {SF_DT_F16, SF_DT_F32, kernels_f16},
        {SF_DT_BF16, SF_DT_F32, kernels_bf16},
        {SF_DT_F16, SF_DT_F64, kernels_f16_f64},
        {SF_DT_BF16, SF_DT_F64, kernels_bf16_f64},
#endif
        {0, 0, NULL},
};
