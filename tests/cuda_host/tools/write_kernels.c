/*
 * write_kernels folder [bars|all]: every specialisation the listed steps need, as whole .cu files, and a line for each step:
 * which kernels it runs, how large, and how much of the chip it asks for. "bars" are the ones with a promised speed.
 */
#include "cuda/emit.h"
#include "cuda/emit_apply.h"
#include "fused_step.h"
#include "kernels.h"

#include "core/choose.h"
#include "core/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct listed {
        const char *name;
        bool fold;
        sf_op op;
        sf_dt in, out;
        int32_t ndim;
        int64_t shape[3];
        unsigned axes;
        bool reverse, masked, exclusive, bar;
        int32_t beside; /* of a fold: so many more, of other operations; of a scan: its total; of an index: the element */
        int64_t segments; /* the axis is cut into so many; 0: it is not */
} listed;

#define P20 ((int64_t)1 << 20)
static const listed steps[] = {
        {"rows_f32", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 2, 0, 0, 0, 1, 0, 0},
        {"rows_f32_reverse", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 2, 1, 0, 0, 1, 0, 0},
        {"rows_f32_masked", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 2, 0, 1, 0, 1, 0, 0},
        {"rows_f32_exclusive", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 2, 0, 0, 1, 0, 0, 0},
        {"columns_f32", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 1, 0, 0, 0, 1, 0, 0},
        {"columns_f32_masked", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 1, 0, 1, 0, 1, 0, 0},
        {"sum_middle", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 2, 0, 0, 0, 1, 0, 0},
        {"sum_weights", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {8192, 8192}, 1, 0, 0, 0, 1, 0, 0},
        {"sum_first", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 1, 0, 0, 0, 1, 0, 0},
        {"sum_last", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 4, 0, 0, 0, 1, 0, 0},
        {"sum_all", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 7, 0, 0, 0, 1, 0, 0},
        {"long_2e30", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 1, {1024 * P20}, 1, 0, 0, 0, 1, 0, 0},
        {"long_2e28", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 1, {256 * P20}, 1, 0, 0, 0, 1, 0, 0},
        {"long_2e20", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 1, {P20}, 1, 0, 0, 0, 1, 0, 0},
        {"long_8_rows", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {8, 16 * P20}, 2, 0, 0, 0, 1, 0, 0},
        {"long_64_rows", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {64, 100003}, 2, 0, 0, 0, 1, 0, 0},
        {"narrow_2", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {P20, 2}, 1, 0, 0, 0, 1, 0, 0},
        {"narrow_8", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {P20, 8}, 1, 0, 0, 0, 1, 0, 0},
        {"narrow_32", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {P20, 32}, 1, 0, 0, 0, 1, 0, 0},
        {"narrow_3", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 3}, 1, 0, 0, 0, 1, 0, 0},
        {"narrow_6", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 6}, 1, 0, 0, 0, 1, 0, 0},
        {"narrow_7", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 7}, 1, 0, 0, 0, 1, 0, 0},
        {"narrow_12", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 12}, 1, 0, 0, 0, 1, 0, 0},
        {"narrow_17", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 17}, 1, 0, 0, 0, 1, 0, 0},
        {"narrow_31", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 31}, 1, 0, 0, 0, 1, 0, 0},
        {"narrow_3_reverse_exclusive", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 3}, 1, 1, 0, 1, 0, 0, 0},
        {"narrow_7_f64", 0, SF_SUM, SF_DT_F64, SF_DT_F64, 2, {4 * P20, 7}, 1, 0, 0, 0, 0, 0, 0},
        {"narrow_11_i64", 0, SF_SUM, SF_DT_I64, SF_DT_I64, 2, {4 * P20, 11}, 1, 0, 0, 1, 0, 0, 0},
        {"columns_300", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {65536, 300}, 1, 0, 0, 0, 1, 0, 0},
        {"columns_300_exclusive", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {65536, 300}, 1, 0, 0, 1, 0, 0, 0},
        {"short_4", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {16 * P20, 4}, 2, 0, 0, 0, 1, 0, 0},
        {"short_64", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 64}, 2, 0, 0, 0, 1, 0, 0},
        {"middle_33", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {4096, 1000, 33}, 2, 0, 0, 0, 1, 0, 0},
        {"sum_short_4", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {16 * P20, 4}, 2, 0, 0, 0, 1, 0, 0},
        {"sum_short_64", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 64}, 2, 0, 0, 0, 1, 0, 0},
        {"rows_bf16", 0, SF_SUM, SF_DT_BF16, SF_DT_BF16, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"rows_f16", 0, SF_SUM, SF_DT_F16, SF_DT_F16, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"rows_f64", 0, SF_SUM, SF_DT_F64, SF_DT_F64, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"rows_i32", 0, SF_SUM, SF_DT_I32, SF_DT_I32, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"rows_i64", 0, SF_SUM, SF_DT_I64, SF_DT_I64, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"small_rows", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {1024, 1024}, 2, 0, 0, 0, 1, 0, 0},
        {"small_columns", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {1024, 1024}, 1, 0, 0, 0, 1, 0, 0},
        {"sum_max_middle", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 2, 0, 0, 0, 1, 1, 0},
        {"sum_max_first", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 1, 0, 0, 0, 1, 1, 0},
        {"sum_max_last", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 4, 0, 0, 0, 1, 1, 0},
        {"sum_max_all", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 7, 0, 0, 0, 1, 1, 0},
        {"sum_max_rows", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {8192, 8192}, 2, 0, 0, 0, 1, 1, 0},
        {"four_middle", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 2, 0, 0, 0, 1, 3, 0},
        {"four_first", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 1, 0, 0, 0, 1, 3, 0},
        {"four_rows", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {8192, 8192}, 2, 0, 0, 0, 1, 3, 0},
        {"four_f64_rows", 1, SF_SUM, SF_DT_F64, SF_DT_F64, 2, {8192, 8192}, 2, 0, 0, 0, 0, 3, 0},
        {"four_f64_columns", 1, SF_SUM, SF_DT_F64, SF_DT_F64, 2, {8192, 8192}, 1, 0, 0, 0, 0, 3, 0},
        {"rows_total", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 2, 0, 0, 0, 1, 1, 0},
        {"columns_total", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 1, 0, 0, 0, 1, 1, 0},
        {"long_total", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 1, {256 * P20}, 1, 0, 0, 0, 1, 1, 0},
        {"odd_rows_f16", 0, SF_SUM, SF_DT_F16, SF_DT_F16, 2, {120770, 16385}, 2, 0, 0, 0, 1, 0, 0},
        {"odd_rows_u8", 0, SF_SUM, SF_DT_U8, SF_DT_U8, 2, {131072, 8193}, 2, 1, 0, 0, 1, 0, 0},
        {"odd_columns_f32", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {32768, 30003}, 1, 0, 0, 0, 1, 0, 0},
        {"odd_columns_f16", 0, SF_SUM, SF_DT_F16, SF_DT_F16, 2, {32768, 30003}, 1, 0, 0, 0, 1, 0, 0},
        {"short_columns_f16", 0, SF_SUM, SF_DT_F16, SF_DT_F16, 2, {17, 81366003}, 1, 0, 0, 0, 1, 0, 0},
        {"short_columns_f32", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {4, 23, 9175481}, 2, 0, 0, 0, 1, 0, 0},
        {"two_rows_f32", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {2, 171966464}, 1, 1, 0, 0, 1, 0, 0},
        {"pieces_f32", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {4 * P20, 3, 2}, 2, 0, 0, 0, 1, 0, 0},
        {"sum_odd_rows_u8", 1, SF_MIN, SF_DT_U8, SF_DT_U8, 2, {4, 1203511813}, 2, 0, 0, 0, 1, 0, 0},
        {"sum_odd_columns_bf16", 1, SF_SUM, SF_DT_BF16, SF_DT_BF16, 2, {5369290, 270}, 1, 0, 0, 0, 1, 0, 0},
        {"sum_columns_u8", 1, SF_SUM, SF_DT_U8, SF_DT_I64, 2, {54235, 4111}, 1, 0, 0, 0, 0, 0, 0},
        {"prod_rows", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_rows_exclusive", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 2, 0, 0, 1, 0, 0, 0},
        {"prod_rows_masked", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 2, 0, 1, 0, 1, 0, 0},
        {"prod_rows_bf16", 0, SF_PROD, SF_DT_BF16, SF_DT_BF16, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_rows_f64", 0, SF_PROD, SF_DT_F64, SF_DT_F64, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_rows_64", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 64}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_columns", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_columns_f64", 0, SF_PROD, SF_DT_F64, SF_DT_F64, 2, {16384, 16384}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_columns_300", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {65536, 300}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_long_2e28", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 1, {256 * P20}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_long_2e20", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 1, {P20}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_long_f64", 0, SF_PROD, SF_DT_F64, SF_DT_F64, 1, {256 * P20}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_narrow_2", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {P20, 2}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_narrow_3", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 3}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_narrow_8", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {P20, 8}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_narrow_32", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {P20, 32}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_rows_1000", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {262144, 1000}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_rows_3000", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {65536, 3000}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_rows_35", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 35}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_rows_50257", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {4096, 50257}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_rows_50257_f16", 0, SF_PROD, SF_DT_F16, SF_DT_F16, 2, {4096, 50257}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_rows_1000_f16", 0, SF_PROD, SF_DT_F16, SF_DT_F16, 2, {262144, 1000}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_rows_1000_f64", 0, SF_PROD, SF_DT_F64, SF_DT_F64, 2, {131072, 1000}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_columns_f16", 0, SF_PROD, SF_DT_F16, SF_DT_F16, 2, {16384, 16384}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_odd_columns", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {8192, 30003}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_middle_33", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 3, {4096, 1000, 33}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_long_bf16", 0, SF_PROD, SF_DT_BF16, SF_DT_BF16, 1, {256 * P20}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_long_8_rows", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {8, 16 * P20}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_long_64_rows", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {64, 100003}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_narrow_8_long", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 8}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_columns_total", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 1, 0, 0, 0, 1, 1, 0},
        {"prod_columns_exclusive", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 1, 0, 0, 1, 0, 0, 0},
        {"prod_short_columns", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 3, {4, 23, 9175481}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_middle", 1, SF_PROD, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 2, 0, 0, 0, 1, 0, 0},
        {"prod_first", 1, SF_PROD, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_last", 1, SF_PROD, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 4, 0, 0, 0, 1, 0, 0},
        {"prod_all", 1, SF_PROD, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 7, 0, 0, 0, 1, 0, 0},
        {"prod_all_f64", 1, SF_PROD, SF_DT_F64, SF_DT_F64, 3, {128, 4096, 4095}, 7, 0, 0, 0, 1, 0, 0},
        {"prod_columns_masked", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 1, 0, 1, 0, 1, 0, 0},
        {"prod_long_2e20_f64", 0, SF_PROD, SF_DT_F64, SF_DT_F64, 1, {P20}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_narrow_8_f64", 0, SF_PROD, SF_DT_F64, SF_DT_F64, 2, {P20, 8}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_narrow_8_bf16", 0, SF_PROD, SF_DT_BF16, SF_DT_BF16, 2, {4 * P20, 8}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_narrow_7", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 7}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_first_f64", 1, SF_PROD, SF_DT_F64, SF_DT_F64, 3, {128, 4096, 4095}, 1, 0, 0, 0, 1, 0, 0},
        {"prod_rows_total", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {32768, 32768}, 2, 0, 0, 0, 1, 1, 0},
        {"prod_max_middle", 1, SF_PROD, SF_DT_F32, SF_DT_F32, 3, {128, 4096, 4095}, 2, 0, 0, 0, 1, 1, 0},
        {"prod_max_rows", 1, SF_PROD, SF_DT_F32, SF_DT_F32, 2, {8192, 8192}, 2, 0, 0, 0, 1, 1, 0},
        {"argmax_rows", 1, SF_ARGMAX, SF_DT_F32, SF_DT_I64, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"argmax_columns", 1, SF_ARGMAX, SF_DT_F32, SF_DT_I64, 2, {16384, 16384}, 1, 0, 0, 0, 1, 0, 0},
        {"argmax_columns_with", 1, SF_ARGMAX, SF_DT_F32, SF_DT_I64, 2, {16384, 16384}, 1, 0, 0, 0, 1, 1, 0},
        {"cummax_rows_with", 0, SF_LAST_ARGMAX, SF_DT_F32, SF_DT_I64, 2, {16384, 16384}, 2, 0, 0, 0, 1, 1, 0},
        {"cummax_columns_with", 0, SF_LAST_ARGMAX, SF_DT_F32, SF_DT_I64, 2, {16384, 16384}, 1, 0, 0, 0, 1, 1, 0},
        {"argmin_rows_f16", 1, SF_ARGMIN, SF_DT_F16, SF_DT_I64, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"argmax_rows_f64", 1, SF_ARGMAX, SF_DT_F64, SF_DT_I64, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"logsumexp_rows", 1, SF_LOGSUMEXP, SF_DT_F32, SF_DT_F32, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"logsumexp_columns", 1, SF_LOGSUMEXP, SF_DT_F32, SF_DT_F32, 2, {16384, 16384}, 1, 0, 0, 0, 1, 0, 0},
        {"logcumsumexp_rows", 0, SF_LOGSUMEXP, SF_DT_F32, SF_DT_F32, 2, {16384, 16384}, 2, 0, 0, 0, 1, 0, 0},
        {"logcumsumexp_columns", 0, SF_LOGSUMEXP, SF_DT_F32, SF_DT_F32, 2, {16384, 16384}, 1, 0, 0, 0, 1, 0, 0},
        {"segments", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 1, {64 * P20}, 1, 0, 0, 0, 1, 0, P20},
        {"segments_middle_sum", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 1, {64 * P20}, 1, 0, 0, 0, 1, 0, P20 / 16},
        {"segments_middle_argmax", 1, SF_ARGMAX, SF_DT_F32, SF_DT_I64, 1, {64 * P20}, 1, 1, 0, 0, 0, 0, P20 / 16},
        {"segments_long", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 1, {64 * P20}, 1, 0, 0, 0, 1, 0, 64},
        {"segments_long_sum", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 1, {64 * P20}, 1, 0, 0, 0, 1, 0, 64},
        {"segments_long_f64", 0, SF_SUM, SF_DT_F64, SF_DT_F64, 1, {64 * P20}, 1, 1, 0, 1, 0, 0, 64},
        {"segments_long_f16", 0, SF_SUM, SF_DT_F16, SF_DT_F16, 1, {64 * P20}, 1, 0, 0, 0, 0, 0, 64},
        {"segments_long_prod", 0, SF_PROD, SF_DT_F32, SF_DT_F32, 1, {64 * P20}, 1, 0, 0, 0, 0, 0, 64},
        {"segments_long_prods", 1, SF_PROD, SF_DT_F64, SF_DT_F64, 1, {64 * P20}, 1, 0, 0, 0, 0, 0, 64},
        {"segments_long_sum_f16", 1, SF_SUM, SF_DT_F16, SF_DT_F16, 1, {64 * P20}, 1, 1, 1, 0, 0, 0, 64},
        {"segments_long_argmax", 1, SF_ARGMAX, SF_DT_F32, SF_DT_I64, 1, {64 * P20}, 1, 1, 0, 0, 0, 0, 64},
        {"segments_f64", 0, SF_SUM, SF_DT_F64, SF_DT_F64, 1, {64 * P20}, 1, 0, 0, 0, 1, 0, P20},
        {"segments_sum", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 1, {64 * P20}, 1, 0, 0, 0, 1, 0, P20},
        {"segments_sum_f16", 1, SF_SUM, SF_DT_F16, SF_DT_F16, 1, {64 * P20}, 1, 0, 0, 0, 1, 0, P20},
        {"segments_tiny", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 1, {64 * P20}, 1, 0, 0, 0, 1, 0, 64 * P20},
        {"segments_tiny_sum", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 1, {64 * P20}, 1, 0, 0, 0, 1, 0, 64 * P20},
        {"segments_columns_short_sum", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {P20, 64}, 1, 0, 0, 0, 1, 0, P20 / 8},
        {"segments_columns", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {P20, 64}, 1, 0, 0, 0, 1, 0, 2048},
        {"segments_columns_sum", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {P20, 64}, 1, 0, 0, 0, 1, 0, 2048},
        {"rows_4095", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {65536, 4095}, 2, 0, 0, 0, 0, 0, 0},
        {"rows_1000", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {65536, 1000}, 2, 0, 0, 0, 0, 0, 0},
        {"short_33", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {4 * P20, 33}, 2, 0, 0, 0, 0, 0, 0},
        {"rows_i8", 0, SF_SUM, SF_DT_I8, SF_DT_I8, 2, {16384, 16384}, 2, 0, 0, 0, 0, 0, 0},
        {"rows_bool_i64", 0, SF_SUM, SF_DT_BOOL, SF_DT_I64, 2, {16384, 16384}, 2, 0, 0, 0, 0, 0, 0},
        {"rows_max_f16", 0, SF_MAX, SF_DT_F16, SF_DT_F16, 2, {16384, 16384}, 2, 0, 0, 0, 0, 0, 0},
        {"rows_min_f64", 0, SF_MIN, SF_DT_F64, SF_DT_F64, 2, {16384, 16384}, 2, 0, 0, 0, 0, 0, 0},
        {"rows_f64_bf16", 0, SF_PROD, SF_DT_F64, SF_DT_BF16, 2, {16384, 16384}, 2, 1, 1, 1, 0, 0, 0},
        {"columns_bf16", 0, SF_SUM, SF_DT_BF16, SF_DT_BF16, 2, {16384, 16384}, 1, 0, 0, 0, 0, 0, 0},
        {"columns_f64", 0, SF_SUM, SF_DT_F64, SF_DT_F64, 2, {16384, 16384}, 1, 0, 0, 1, 0, 0, 0},
        {"columns_odd", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {32768, 4095}, 1, 0, 0, 0, 0, 0, 0},
        {"narrow_33", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {P20, 33}, 1, 0, 0, 0, 0, 0, 0},
        {"narrow_128", 0, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {P20, 128}, 1, 0, 0, 0, 0, 0, 0},
        {"long_f64_masked", 0, SF_SUM, SF_DT_F64, SF_DT_F64, 1, {256 * P20}, 1, 1, 1, 1, 0, 0, 0},
        {"long_bf16", 0, SF_SUM, SF_DT_BF16, SF_DT_BF16, 1, {256 * P20}, 1, 0, 0, 0, 0, 0, 0},
        {"long_i8", 0, SF_SUM, SF_DT_I8, SF_DT_I8, 1, {256 * P20 + 3}, 1, 0, 0, 0, 0, 0, 0},
        {"sum_bf16_all", 1, SF_SUM, SF_DT_BF16, SF_DT_BF16, 2, {16384, 16384}, 3, 0, 0, 0, 0, 0, 0},
        {"sum_outer_axes", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 3, {64, 1000, 513}, 5, 0, 1, 0, 0, 0, 0},
        {"sum_narrow_33", 1, SF_SUM, SF_DT_F32, SF_DT_F32, 2, {P20, 33}, 1, 0, 0, 0, 0, 0, 0},
        {"max_rows_i16", 1, SF_MAX, SF_DT_I16, SF_DT_I64, 2, {4096, 16384}, 2, 0, 0, 0, 0, 0, 0},
};

static sf_view view_of(sf_dt dt, int32_t ndim, const int64_t *shape, uint64_t address)
{
        sf_view v;
        sf_dtype_row row = sf_dtypes[dt];
        sf_tensor t = {.data = (void *)(uintptr_t)address, .ndim = ndim, .dtype = {row.code, row.bits, 1}, .shape = (int64_t *)(uintptr_t)shape};
        if (sf_view_init(NULL, "x", &t, &v) != SF_OK)
                abort();
        return v;
}

static sf_step step_of(const listed *c, bool fold, sf_op op, sf_dt out)
{
        int64_t kept[3];
        int32_t rank = 0;
        for (int32_t d = 0; d < c->ndim; d++)
                if (!fold || !(c->axes >> d & 1) || c->segments)
                        kept[rank++] = fold && c->axes >> d & 1 ? c->segments : c->shape[d];
        sf_view x = view_of(c->in, c->ndim, c->shape, (uint64_t)1 << 40), y = view_of(out, rank, kept, (uint64_t)2 << 40);
        sf_view m = view_of(SF_DT_BOOL, c->ndim, c->shape, (uint64_t)3 << 40), offsets = view_of(SF_DT_I32, 1, &(int64_t){c->segments + 1}, (uint64_t)4 << 40);
        sf_step s = {.fold = fold, .exclusive = c->exclusive};
        if (!sf_step_pair(&s, op, c->in, out))
                abort();
        s.identity = sf_identity(s.op, s.acc);
        sf_step_geometry(&s, &(sf_step_views){.x = &x, .y = &y, .m = c->masked ? &m : NULL, .offsets = c->segments ? &offsets : NULL, .axes = c->axes, .reverse = c->reverse});
        return s;
}

static const sf_cuda_chip chip = {.capability = 90, .cluster = 8, .widest_cluster = 16, .multiprocessors = 132, .threads_per_multiprocessor = 2048, .shared_per_block = 232448,
                                  .shared_per_multiprocessor = 233472, .l2 = 52428800};

/* A plan's launches, written and listed. */
static bool write_plan(const char *folder, const char *name, const sf_cuda_plan *plan)
{
        static const char *const stems[] = {
#define KERNEL(name, NAME) #name,
#include "cuda/kernels.def"
#undef KERNEL
        };
        for (int32_t k = 0; k < plan->launches; k++) {
                const sf_cuda_launch *l = &plan->launch[k];
                char path[512];
                snprintf(path, sizeof path, "%s/%s_%d.cu", folder, name, (int)k);
                char *text = kernels_text(&l->spec);
                FILE *to = fopen(path, "w");
                if (!to || fputs(text, to) < 0 || fclose(to)) {
                        perror(path);
                        return false;
                }
                free(text);
                printf("%-24s %-13s grid %-8u threads %-4d x %d, width %d, items %-2d, shared %-6u own %d %d %d %d\n", name, stems[l->spec.kernel],
                       l->grid[0], (int)l->spec.threads, (int)l->spec.extra[SF_CUDA_RESIDENT], (int)l->spec.width, (int)l->spec.items, l->shared,
                       (int)l->spec.extra[3], (int)l->spec.extra[4], (int)l->spec.extra[5], (int)l->spec.extra[6]);
        }
        return true;
}

/* What a step comes to. */
static bool write_step(const char *folder, const char *name, const sf_step *s)
{
        sf_cuda_plan plan;
        if (sf_cuda_plan_step(NULL, s, &chip, &plan) != SF_OK) {
                fprintf(stderr, "%s: %s\n", name, sf_last_error(NULL));
                return false;
        }
        return write_plan(folder, name, &plan);
}

/* ------------------------------------------------------------------------------------------------------------
 * Chains: a softmax, its logarithm, a layer norm and an L2 normalise, of rows
 * ---------------------------------------------------------------------------------------------------------- */
static const struct {
        const char *name;
        int kind; /* 0 softmax, 1 layer norm, 2 normalise, 3 log_softmax */
        sf_dt dt;
        int64_t rows, n;
} chains[] = {
        {"softmax_1000", 0, SF_DT_F32, 65536, 1000},     {"softmax_4096", 0, SF_DT_F32, 65536, 4096},          {"softmax_16384", 0, SF_DT_F32, 16384, 16384},
        {"softmax_32768", 0, SF_DT_F32, 8192, 32768},    {"softmax_50257", 0, SF_DT_F32, 8192, 50257},         {"softmax_16384_bf16", 0, SF_DT_BF16, 16384, 16384},
        {"layer_norm_1000", 1, SF_DT_F32, 65536, 1000},  {"layer_norm_16384", 1, SF_DT_F32, 16384, 16384},     {"layer_norm_32768", 1, SF_DT_F32, 8192, 32768},
        {"layer_norm_16384_bf16", 1, SF_DT_BF16, 16384, 16384}, {"normalize_16384", 2, SF_DT_F32, 16384, 16384}, {"normalize_65535", 2, SF_DT_F32, 32768, 65535},
        {"softmax_16384_f64", 0, SF_DT_F64, 8192, 16384}, {"log_softmax_50257", 3, SF_DT_F32, 8192, 50257}, {"log_softmax_16384", 3, SF_DT_F32, 16384, 16384},    {"layer_norm_50257", 1, SF_DT_F32, 8192, 50257},
        {"log_softmax_50257_bf16", 3, SF_DT_BF16, 8192, 50257}, {"softmax_131072", 0, SF_DT_F32, 2048, 131072}, {"log_softmax_131072", 3, SF_DT_F32, 2048, 131072},
        {"softmax_393216", 0, SF_DT_F32, 1024, 393216}, {"layer_norm_4194304", 1, SF_DT_F32, 16, 4194304}, {"log_softmax_393216", 3, SF_DT_F32, 1024, 393216},
        {"softmax_down_16384", 0, SF_DT_F32, 16384, 16384}, {"layer_norm_down_16384", 1, SF_DT_F32, 16384, 16384}, {"normalize_down_16384", 2, SF_DT_F32, 16384, 16384},
        {"log_softmax_down_16384", 3, SF_DT_F32, 16384, 16384}, {"normalize_down_64", 2, SF_DT_F32, 262144, 64}, {"softmax_down_16384_bf16", 0, SF_DT_BF16, 16384, 16384},
        {"softmax_down_16383", 0, SF_DT_F32, 16383, 16384}, {"softmax_down_16384_f64", 0, SF_DT_F64, 16384, 16384},
        {"softmax_35", 0, SF_DT_F32, 4 * P20, 35}, {"softmax_64", 0, SF_DT_F32, 4 * P20, 64}, {"softmax_333", 0, SF_DT_F32, 262144, 333}, {"softmax_1001", 0, SF_DT_F32, 65536, 1001},
        {"softmax_1537", 0, SF_DT_F32, 65536, 1537}, {"softmax_4097", 0, SF_DT_F32, 16384, 4097}, {"layer_norm_4097", 1, SF_DT_F32, 16384, 4097}, {"layer_norm_35", 1, SF_DT_F32, 4 * P20, 35},
        {"normalize_2049", 2, SF_DT_F32, 32768, 2049}, {"softmax_513_bf16", 0, SF_DT_BF16, 131072, 513}, {"layer_norm_1001_bf16", 1, SF_DT_BF16, 65536, 1001}, {"softmax_35_bf16", 0, SF_DT_BF16, 4 * P20, 35},
        {"softmax_2049_bf16", 0, SF_DT_BF16, 32768, 2049}, {"softmax_129_f64", 0, SF_DT_F64, 524288, 129}, {"log_softmax_333", 3, SF_DT_F32, 262144, 333},
        {"softmax_segments", 0, SF_DT_F32, 1, 64 * P20}, {"layer_norm_segments", 1, SF_DT_F32, 1, 64 * P20}, {"log_softmax_segments", 3, SF_DT_F32, 1, 64 * P20},
        {"softmax_segments_bf16", 0, SF_DT_BF16, 1, 64 * P20}, {"softmax_segments_f64", 0, SF_DT_F64, 1, 64 * P20},
};

static void say(sf_program *p, sf_code code, sf_dt dt, int slot, int a, int b)
{
        p->code[p->count++] = (sf_instruction){(uint8_t)code, (uint8_t)dt, (uint8_t)slot, {(uint8_t)a, (uint8_t)b, 0}};
}

/* The program of step k of such a chain; operand 0 is x, then the results before it, then weight and bias. */
static void chain_program(int kind, int k, sf_dt acc, sf_program *p)
{
        const bool norm = kind == 1;
        say(p, SF_CODE_LOAD, acc, 0, 0, 0);
        if (kind == 2) {
                say(p, k ? SF_CODE_LOAD : SF_CODE_SQUARE, acc, k, 0, 0);
                if (k)
                        say(p, SF_CODE_DIV, acc, 0, 0, 1);
                return;
        }
        if (!k)
                return;
        say(p, SF_CODE_LOAD, acc, 1, 0, 0);
        say(p, SF_CODE_SUB, acc, 0, 0, 1);
        if (k == 1 || !kind)
                say(p, norm ? SF_CODE_SQUARE : SF_CODE_EXP, acc, 0, 2, 0);
        if (k == 1)
                return;
        const int last = p->count - 1;
        say(p, SF_CODE_LOAD, acc, 2, 0, 0);
        say(p, norm ? SF_CODE_MUL : kind ? SF_CODE_SUB : SF_CODE_DIV, acc, 0, last, last + 1);
        if (!norm)
                return;
        say(p, SF_CODE_LOAD, acc, 3, 0, 0);
        say(p, SF_CODE_MUL, acc, 0, p->count - 2, p->count - 1);
        say(p, SF_CODE_LOAD, acc, 4, 0, 0);
        say(p, SF_CODE_ADD, acc, 0, p->count - 2, p->count - 1);
}

static bool write_chain(const char *folder, size_t i)
{
        const int kind = chains[i].kind, count = kind == 2 ? 2 : 3;
        const sf_dt dt = chains[i].dt, acc = dt == SF_DT_F64 ? SF_DT_F64 : SF_DT_F32;
        const bool down = strstr(chains[i].name, "_down_"); /* `rows` columns */
        const int64_t shape[2] = {down ? chains[i].n : chains[i].rows, down ? chains[i].rows : chains[i].n}, kept[2] = {down ? 1 : chains[i].rows, down ? chains[i].rows : 1};
        const int64_t line[2] = {chains[i].n, 1};
        const int32_t made[SF_OPERANDS_MAX] = {0, 1, 2};
        sf_step step[3];
        static sf_fuse fuse[3];
        sf_step_views views[3];
        sf_view operand[5] = {view_of(dt, 2, shape, (uint64_t)1 << 40), view_of(acc, 2, kept, (uint64_t)2 << 40), view_of(acc, 2, kept, (uint64_t)3 << 40),
                              view_of(dt, down ? 2 : 1, line, (uint64_t)4 << 40), view_of(dt, down ? 2 : 1, line, (uint64_t)5 << 40)};
        const sf_view y = view_of(dt, 2, shape, (uint64_t)6 << 40), result[2] = {operand[1], operand[2]};
        sf_cuda_plan plan;
        bool fits;
        for (int k = 1; k < 5; k++)
                if (sf_view_broadcast(NULL, "x", &operand[k], "x", &operand[0]) != SF_OK)
                        abort();
        for (int k = 0; k < count; k++) {
                const bool map = k == count - 1;
                step[k] = (sf_step){.fold = !map, .map = map, .within = !map, .op = kind % 3 == 0 && !k ? SF_MAX : SF_SUM, .in = dt, .acc = acc, .out = map ? dt : acc};
                step[k].identity = sf_identity(step[k].op, acc);
                fuse[k] = (sf_fuse){.operands = 0};
                chain_program(kind, k, acc, &fuse[k].load);
                views[k] = (sf_step_views){.x = &operand[0], .y = map ? &y : &result[k], .axes = down ? 1 : 2, .keepdim = true, .operands = map && kind == 1 ? 5 : 1 + k,
                                           .operand = {&operand[0], &operand[1], &operand[2], &operand[3], &operand[4]}, .made = made, .fuse = &fuse[k], .follows = k > 0};
        }
        sf_chain_geometry(count, step, views);
        for (int k = 0; k < count && strstr(chains[i].name, "_segments"); k++)
                step[k].segments = (sf_segments){.offsets = (const char *)((uintptr_t)7 << 40), .wide = true, .stride = 8, .count = P20};
        if (sf_cuda_plan_chain(NULL, step, &chip, &plan, &fits) != SF_OK || !fits) {
                printf("%-24s one stage after another\n", chains[i].name);
                return true;
        }
        return write_plan(folder, chains[i].name, &plan);
}

/* The same step as a shard's (src/ranks/device.c): a scan has totals to the left of its lines, or of their blocks; a fold stores values of blocks. */
static bool write_shard(const char *folder, const listed *c, sf_step s)
{
        char name[64];
        const sf_cuts cuts = {.log = 14, .then = 13};
        const bool line = s.dims[s.nbatch].x == (int64_t)sf_dtypes[s.in].size;
        snprintf(name, sizeof name, "shard_%s", c->name);
        s.values = s.fold || (line && !sf_op_is(s.op, SF_INDEX));
        s.left = s.fold ? NULL : (const char *)((uintptr_t)5 << 40);
        s.lefts = s.fold ? sf_cuda_cuts_levels(&cuts) : 3;
        s.before = s.fold ? 12344 : 12800;
        s.left_entry = s.batch * 16;
        for (int32_t d = 0; d < s.nbatch; d++)
                s.dims[d].left = d ? 16 : 16 * s.dims[1].len;
        const bool fine = write_step(folder, name, &s);
        if (!fine || s.fold || strncmp(c->name, "long_", 5))
                return fine;
        s.x += sf_dtypes[s.in].size; /* from an odd index */
        s.y += sf_dtypes[s.out].size;
        snprintf(name, sizeof name, "shard_odd_%s", c->name);
        return write_step(folder, name, &s);
}

/* Is a shard of this step among the kernels with a promised speed? */
static bool is_sharded(const char *name)
{
        static const char *const names[] = {"long_2e28", "prod_long_2e28", "prod_all", "rows_f32", "columns_f32", "argmax_rows", "argmax_columns",
                                            "logsumexp_rows", "logcumsumexp_rows", "logcumsumexp_columns", "long_bf16", "narrow_8", "narrow_3", "long_2e20", "prod_long_2e20"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (!strcmp(names[i], name))
                        return true;
        return false;
}

int main(int argc, char **argv)
{
        if (argc < 2)
                return 2;
        bool bars = argc > 2 && !strcmp(argv[2], "bars"), fine = true;
        for (size_t i = 0; fine && i < sizeof steps / sizeof *steps; i++) {
                const listed *c = &steps[i];
                sf_step s = step_of(c, c->fold, c->op, c->out), beside[3];
                for (int32_t k = 0; k < c->beside; k++) {
                        beside[k] = sf_op_is(c->op, SF_INDEX) ? step_of(c, c->fold, SF_MAX, c->in) : step_of(c, true, c->fold ? (sf_op)(SF_MAX - k) : c->op, c->out);
                        *(k ? &beside[k - 1].sibling : &s.sibling) = &beside[k];
                }
                if (!bars || steps[i].bar)
                        fine = write_step(argv[1], steps[i].name, &s);
                if (fine && is_sharded(c->name))
                        fine = write_shard(argv[1], c, s);
        }
        for (size_t i = 0; fine && i < sizeof chains / sizeof *chains; i++)
                fine = write_chain(argv[1], i);
        fused_named named;
        for (int i = 0; fine && fused_name(&named, i); i++)
                fine = write_step(argv[1], named.name, &named.step);
        return !fine;
}
