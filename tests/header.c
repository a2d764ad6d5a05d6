/*
 * scanfold.h by itself. check_header.sh compiles this as C11, C17 and C++17, alone and after dlpack.h (then with
 * WITH_DLPACK defined), with warnings as errors; it is valid C and C++.
 */
#ifdef WITH_DLPACK
#include "dlpack_shim.h"
#endif
#include "scanfold.h"

#include <stdio.h>

#ifndef __cplusplus
#include <assert.h> /* static_assert */
#endif

/* DLTensor on a 64-bit machine, byte by byte. */
static_assert(sizeof(sf_tensor) == 48, "sf_tensor has DLTensor's size");
static_assert(offsetof(sf_tensor, data) == 0, "data");
static_assert(offsetof(sf_tensor, device) == 8, "device");
static_assert(offsetof(sf_tensor, ndim) == 16, "ndim");
static_assert(offsetof(sf_tensor, dtype) == 20, "dtype");
static_assert(offsetof(sf_tensor, shape) == 24, "shape");
static_assert(offsetof(sf_tensor, strides) == 32, "strides");
static_assert(offsetof(sf_tensor, byte_offset) == 40, "byte_offset");
static_assert(sizeof(sf_device) == 8 && offsetof(sf_device, device_id) == 4, "DLDevice");
static_assert(sizeof(sf_dtype) == 4 && offsetof(sf_dtype, bits) == 1 && offsetof(sf_dtype, lanes) == 2, "DLDataType");
#ifdef WITH_DLPACK
static_assert(offsetof(sf_tensor, dtype) == offsetof(DLTensor, dtype), "the same type");
#endif

/* Options have no padding, because callers would not set padding to zero: unused bytes are
 * reserved fields. */
#define M(type, field) sizeof(((type *)0)->field)
#define S(field) M(sf_scan_options, field)
static_assert(S(size) + S(op) + S(axis) + S(reverse) + S(exclusive) + S(mask) + S(initial) + S(accumulator) + S(reserved0) + S(stream) + S(workspace) +
                      S(workspace_size) + S(skip_nan) + S(reserved1) + S(offsets) == sizeof(sf_scan_options), "sf_scan_options has padding");
#define F(field) M(sf_fold_options, field)
static_assert(F(size) + F(op) + F(naxes) + F(axes) + F(keepdim) + F(reverse) + F(mask) + F(initial) + F(accumulator) + F(reserved0) + F(stream) + F(workspace) +
                      F(workspace_size) + F(skip_nan) + F(reserved1) + F(offsets) == sizeof(sf_fold_options), "sf_fold_options has padding");
#define R(field) M(sf_shard_options, field)
static_assert(R(size) + R(op) + R(axis) + R(fold) + R(keepdim) + R(reverse) + R(exclusive) + R(mask) + R(a) + R(initial) + R(accumulator) + R(skip_nan) +
                      R(placed) + R(reserved0) + R(first) + R(stream) == sizeof(sf_shard_options), "sf_shard_options has padding");
#define E(field) M(sf_expr_options, field)
static_assert(E(size) + E(op) + E(naxes) + E(axes) + E(keepdim) + E(reverse) + E(exclusive) + E(mask) + E(initial) + E(dtype) + E(accumulator) + E(skip_nan) +
                      E(reserved0) + E(correction) + E(order) + E(weight) + E(bias) + E(eps) + E(offsets) + E(reserved1) == sizeof(sf_expr_options),
              "sf_expr_options has padding");
static_assert(sizeof(size_t) + 8 == sizeof(sf_plan_options) && sizeof(size_t) + 8 + sizeof(char *) == sizeof(sf_context_options) &&
                      sizeof(size_t) * 2 + 3 * sizeof(void *) == sizeof(sf_run_options), "the others have padding");

/* Constants, where C requires them. */
static const sf_dtype kinds[] = {SF_F16_INIT, SF_BF16_INIT, SF_F32_INIT, SF_F64_INIT, SF_I8_INIT,  SF_I16_INIT, SF_I32_INIT,
                                 SF_I64_INIT, SF_U8_INIT,   SF_U16_INIT, SF_U32_INIT, SF_U64_INIT, SF_BOOL_INIT};

int main(void)
{
        const sf_dtype values[] = {SF_F16, SF_BF16, SF_F32, SF_F64, SF_I8, SF_I16, SF_I32, SF_I64, SF_U8, SF_U16, SF_U32, SF_U64, SF_BOOL};
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
                if (values[i].code != kinds[i].code || values[i].bits != kinds[i].bits || values[i].lanes != kinds[i].lanes)
                        return 1;
        float x[2][3] = {{1, 2, 3}, {4, 5, 6}}, y[2][3], total = 0;
        int64_t shape[2] = {2, 3};
        sf_tensor tx, ty, tt;
        tx.data = x;
        tx.device.device_type = SF_CPU;
        tx.device.device_id = 0;
        tx.ndim = 2;
        tx.dtype = SF_F32;
        tx.shape = shape;
        tx.strides = NULL;
        tx.byte_offset = 0;
        ty = tx;
        ty.data = y;
        tt = tx;
        tt.data = &total;
        tt.ndim = 0;
        sf_scan_options scan = SF_SCAN_OPTIONS_INIT;
        sf_fold_options fold = SF_FOLD_OPTIONS_INIT;
        sf_context_options options = SF_CONTEXT_OPTIONS_INIT;
        sf_context *ctx;
        scan.initial = sf_int(0);
        fold.initial = sf_real(1);
        options.threads = 1;
        if (sf_context_create(&ctx, &options) != SF_OK || sf_scan(ctx, &tx, &ty, &scan) != SF_OK ||
            sf_fold(NULL, &tx, &tt, &fold) != SF_OK) {
                puts(sf_last_error(NULL));
                return 1;
        }
        sf_context_destroy(ctx);
#ifdef WITH_DLPACK
        DLTensor dl = tx; /* no cast */
        if (sf_scan(NULL, &dl, &ty, NULL) != SF_OK)
                return 1;
#endif
        return y[1][2] == 15 && total == 22 && sf_version() == SF_VERSION ? 0 : 1;
}
