/*
 * Shards in the memory of a CUDA device, on the host: what each rank computes of its shard by the kernels, against the reference's answer for the whole axis. Met
 * twice, as ../cuda_host/test_expr_host.c says.
 *
 *     test_ranks_host folder compiler jobs [--cases 0 --every N | --races 0 --every N | --nvrtc N]     every N-th sample; the compiler has -DSF_RACES, and
 *                                          accesses that nothing orders fail (model.h); NVRTC compiles every N-th kernel, and nothing runs
 */
#include "backend_host.h"
#include "kernels.h"
#include "scanfold.h"

#include <stdio.h>
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, MOST = 140000, BYTES = MOST * 8, APART = 64 };

/* The number of lines, along axis 1 - axis, and the number of elements of each. */
typedef struct form {
        int32_t axis;
        int64_t lines, n;
        /* Where shards begin: at many set bits, so that there are many blocks to the left; and an empty one. */
        int64_t begins[RANKS + 1];
        int64_t away; /* so much longer the first shard says it is, once its span is known (../test_ranks.c) */
        /* So many elements past a multiple of 64 bytes the device has position 0 of x, and of out. */
        int32_t late, out_late;
} form;

static const form rows = {1, 3, 300, {0, 64, 255, 255, 300}, 0, 0, 0}, columns = {0, 3, 300, {0, 64, 255, 255, 300}, 0, 0, 0}, strip = {0, 40, 300, {0, 1, 130, 131, 300}, 0, 0, 0},
                  line = {1, 1, 12000, {0, 64, 4095, 4095, 12000}, 0, 0, 0}, narrow = {0, 2, 3000, {0, 1023, 1024, 1026, 3000}, 0, 0, 0}, odd = {0, 6, 1500, {0, 500, 1001, 1001, 1500}, 0, 0, 0},
                  /* so long that the blocks of a shard are folded in turn */
                  far = {1, 1, 140000, {0, 3, 3, 139999, 140000}, 0, 0, 0}, pair = {1, 2, 70000, {0, 4999, 5000, 69000, 70000}, 0, 0, 0}, tall = {0, 5, 28000, {0, 21, 20011, 27999, 28000}, 0, 0, 0},
                  beyond = {1, 3, 2000, {0, 1029, 2000, 2000, 2000}, ((int64_t)1 << 40) - 1024, 0, 0}, below = {0, 5, 2000, {0, 1029, 2000, 2000, 2000}, ((int64_t)1 << 40) - 1024, 0, 0},
                  /* where the order's blocks begin inside vectors of memory, alike in x and in out or not */
                  late_1 = {1, 1, 140000, {0, 3, 3, 139999, 140000}, 0, 1, 1}, late_2 = {1, 1, 140000, {0, 3, 3, 139999, 140000}, 0, 2, 2},
                  late_3 = {1, 1, 140000, {0, 3, 70001, 139999, 140000}, 0, 3, 3}, late_4 = {1, 1, 140000, {0, 3, 3, 139999, 140000}, 0, 4, 4},
                  late_7 = {1, 1, 140000, {0, 3, 3, 139999, 140000}, 0, 7, 3}, late_in = {1, 1, 140000, {0, 3, 3, 139999, 140000}, 0, 3, 0},
                  late_out = {1, 1, 140000, {0, 3, 3, 139999, 140000}, 0, 0, 1},
                  /* lines that each begin at another place in a vector */
                  uneven = {1, 2, 69999, {0, 4999, 5000, 68999, 69999}, 0, 1, 3};

typedef struct sample {
        const char *name;
        sf_dtype in, out;
        sf_op op;
        const form *form;
        int32_t fold, reverse, exclusive, masked, skip_nan, initial;
} sample;

#define I8_INIT {0, 8, 1}
static const sample samples[] = {
        {"cumsum", SF_F32_INIT, SF_F32_INIT, SF_SUM, &rows, 0, 0, 0, 0, 0, 0},
        {"cumsum, exclusive", SF_F32_INIT, SF_F32_INIT, SF_SUM, &rows, 0, 0, 1, 0, 0, 0},
        {"cumsum, in columns, reverse", SF_F32_INIT, SF_F16_INIT, SF_SUM, &columns, 0, 1, 0, 0, 0, 1},
        {"cumsum of one line", SF_F32_INIT, SF_F32_INIT, SF_SUM, &line, 0, 0, 1, 0, 0, 1},
        {"cumsum of two columns", SF_F32_INIT, SF_F32_INIT, SF_SUM, &narrow, 0, 1, 0, 0, 0, 0},
        {"cumsum of six columns", SF_F32_INIT, SF_F32_INIT, SF_SUM, &odd, 0, 0, 0, 0, 0, 0},
        {"cumsum of many columns", SF_F32_INIT, SF_F32_INIT, SF_SUM, &strip, 0, 0, 1, 0, 0, 0},
        {"cummax, masked", SF_F64_INIT, SF_F64_INIT, SF_MAX, &rows, 0, 1, 1, 1, 0, 0},
        {"cummin of bytes", I8_INIT, I8_INIT, SF_MIN, &line, 0, 0, 0, 0, 0, 0},
        {"sum of bytes", I8_INIT, I8_INIT, SF_SUM, &rows, 1, 0, 0, 0, 0, 0},
        {"cumprod of integers", SF_I32_INIT, SF_I64_INIT, SF_PROD, &columns, 0, 0, 0, 0, 0, 0},
        {"cumsum without NaN", SF_F32_INIT, SF_F32_INIT, SF_SUM, &rows, 0, 0, 0, 0, 1, 0},
        {"sum", SF_F32_INIT, SF_F32_INIT, SF_SUM, &rows, 1, 1, 0, 0, 0, 1},
        {"min, masked", SF_I32_INIT, SF_I32_INIT, SF_MIN, &columns, 1, 0, 0, 1, 0, 0},
        {"argmax, masked", SF_F32_INIT, SF_I64_INIT, SF_ARGMAX, &rows, 1, 0, 0, 1, 0, 0},
        {"last_argmin, reverse", SF_I32_INIT, SF_I32_INIT, SF_LAST_ARGMIN, &columns, 1, 1, 0, 0, 0, 0},
        {"argmin so far", SF_F32_INIT, SF_I32_INIT, SF_ARGMIN, &line, 0, 1, 0, 0, 0, 0},
        {"last_argmax so far, masked", SF_F32_INIT, SF_I64_INIT, SF_LAST_ARGMAX, &columns, 0, 0, 1, 1, 0, 0},
        {"last_argmax so far", SF_F64_INIT, SF_I64_INIT, SF_LAST_ARGMAX, &rows, 0, 0, 0, 0, 0, 0},
        {"prod", SF_F32_INIT, SF_F32_INIT, SF_PROD, &rows, 1, 0, 0, 0, 0, 1},
        {"prod in columns", SF_F64_INIT, SF_F64_INIT, SF_PROD, &strip, 1, 1, 0, 1, 0, 0},
        {"cumprod", SF_F32_INIT, SF_F32_INIT, SF_PROD, &line, 0, 0, 1, 0, 0, 1},
        {"cumprod in columns", SF_F32_INIT, SF_F32_INIT, SF_PROD, &strip, 0, 1, 0, 0, 0, 0},
        {"cumprod of rows", SF_F64_INIT, SF_F64_INIT, SF_PROD, &rows, 0, 0, 0, 1, 0, 0},
        {"cumprod of two columns", SF_F32_INIT, SF_F32_INIT, SF_PROD, &narrow, 0, 0, 0, 0, 0, 0},
        {"logsumexp", SF_F32_INIT, SF_F32_INIT, SF_LOGSUMEXP, &line, 1, 0, 0, 0, 0, 0},
        {"logsumexp in columns", SF_F64_INIT, SF_F64_INIT, SF_LOGSUMEXP, &strip, 1, 0, 0, 1, 0, 0},
        {"logcumsumexp", SF_F32_INIT, SF_F32_INIT, SF_LOGSUMEXP, &line, 0, 1, 0, 0, 0, 0},
        {"logcumsumexp in columns", SF_F32_INIT, SF_F32_INIT, SF_LOGSUMEXP, &columns, 0, 0, 1, 1, 0, 0},
        {"recurrence", SF_F32_INIT, SF_F32_INIT, SF_RECURRENCE, &line, 0, 0, 0, 0, 0, 1},
        {"sum of a long line", SF_F32_INIT, SF_F32_INIT, SF_SUM, &far, 1, 0, 0, 0, 0, 0},
        {"sum of a long line, reverse, masked", SF_F64_INIT, SF_F64_INIT, SF_SUM, &far, 1, 1, 0, 1, 0, 0},
        {"max of two long lines", I8_INIT, I8_INIT, SF_MAX, &pair, 1, 0, 0, 0, 0, 0},
        {"min of two long lines, in half the bits", SF_BF16_INIT, SF_BF16_INIT, SF_MIN, &pair, 1, 1, 0, 0, 0, 0},
        {"sum of two long lines", SF_BF16_INIT, SF_F32_INIT, SF_SUM, &pair, 1, 0, 0, 0, 0, 0},
        {"argmax of two long lines", SF_F32_INIT, SF_I64_INIT, SF_ARGMAX, &pair, 1, 0, 0, 0, 0, 0},
        {"last_argmin of a long line, reverse", SF_I32_INIT, SF_I64_INIT, SF_LAST_ARGMIN, &far, 1, 1, 0, 0, 0, 0},
        {"prod of a long line", SF_F32_INIT, SF_F32_INIT, SF_PROD, &far, 1, 0, 0, 0, 0, 0},
        {"logsumexp of two long lines", SF_F32_INIT, SF_F32_INIT, SF_LOGSUMEXP, &pair, 1, 0, 0, 0, 0, 0},
        {"sum of long columns", SF_F32_INIT, SF_F32_INIT, SF_SUM, &tall, 1, 0, 0, 0, 0, 0},
        {"argmin of long columns", SF_F32_INIT, SF_I64_INIT, SF_ARGMIN, &tall, 1, 0, 0, 1, 0, 0},
        {"min of long columns, reverse", SF_I32_INIT, SF_I32_INIT, SF_MIN, &tall, 1, 1, 0, 0, 0, 0},
        {"prod of long columns", SF_F64_INIT, SF_F64_INIT, SF_PROD, &tall, 1, 0, 0, 0, 0, 0},
        {"logsumexp of long columns", SF_F32_INIT, SF_F32_INIT, SF_LOGSUMEXP, &tall, 1, 0, 0, 1, 0, 0},
        {"cumsum of two long lines, from odd addresses", SF_BF16_INIT, SF_F32_INIT, SF_SUM, &pair, 0, 0, 0, 0, 0, 0},
        {"cumsum of a long line, reverse, exclusive, masked", SF_F64_INIT, SF_F64_INIT, SF_SUM, &far, 0, 1, 1, 1, 0, 1},
        {"cumprod of two long lines", SF_F32_INIT, SF_F32_INIT, SF_PROD, &pair, 0, 0, 0, 0, 0, 0},
        {"logcumsumexp of a long line", SF_F32_INIT, SF_F32_INIT, SF_LOGSUMEXP, &far, 0, 0, 0, 0, 0, 0},
        {"cummax of bytes, a long line", I8_INIT, I8_INIT, SF_MAX, &far, 0, 1, 0, 0, 0, 0},
        {"cumprod from 2^40 on", SF_F32_INIT, SF_F32_INIT, SF_PROD, &beyond, 0, 0, 0, 0, 0, 0},
        {"prod from 2^40 on", SF_F64_INIT, SF_F64_INIT, SF_PROD, &beyond, 1, 0, 0, 0, 0, 0},
        {"cumsum from 2^40 on", SF_F32_INIT, SF_F32_INIT, SF_SUM, &beyond, 0, 0, 1, 1, 0, 0},
        {"argmax from 2^40 on", SF_F32_INIT, SF_I64_INIT, SF_ARGMAX, &beyond, 1, 0, 0, 0, 0, 0},
        {"last_argmin from 2^40 on", SF_F32_INIT, SF_I64_INIT, SF_LAST_ARGMIN, &below, 0, 0, 0, 0, 0, 0},
        {"prod of columns from 2^40 on", SF_F32_INIT, SF_F32_INIT, SF_PROD, &below, 1, 0, 0, 0, 0, 0},
        {"logcumsumexp of columns from 2^40 on", SF_F32_INIT, SF_F32_INIT, SF_LOGSUMEXP, &below, 0, 0, 0, 0, 0, 0},
        {"recurrence from 2^40 on", SF_F32_INIT, SF_F32_INIT, SF_RECURRENCE, &beyond, 0, 0, 0, 0, 0, 1},
        {"recurrence of a long line", SF_F32_INIT, SF_F32_INIT, SF_RECURRENCE, &far, 0, 0, 0, 0, 0, 0},
        {"recurrence in columns", SF_F32_INIT, SF_F32_INIT, SF_RECURRENCE, &strip, 0, 1, 1, 0, 0, 0},
        {"recurrence of rows", SF_F64_INIT, SF_F64_INIT, SF_RECURRENCE, &rows, 0, 0, 1, 0, 0, 0},
        {"cumsum, one element late", SF_F32_INIT, SF_F32_INIT, SF_SUM, &late_1, 0, 0, 0, 0, 0, 0},
        {"cumsum, two elements late", SF_F32_INIT, SF_F32_INIT, SF_SUM, &late_2, 0, 0, 1, 0, 0, 0},
        {"cumsum, three elements late, reverse", SF_F32_INIT, SF_F32_INIT, SF_SUM, &late_3, 0, 1, 0, 0, 0, 1},
        {"cumsum, x alone late, masked", SF_F32_INIT, SF_F32_INIT, SF_SUM, &late_in, 0, 0, 0, 1, 0, 0},
        {"cumsum, out alone late, reverse", SF_F32_INIT, SF_F32_INIT, SF_SUM, &late_out, 0, 1, 0, 0, 0, 0},
        {"cumsum of f64, one element late", SF_F64_INIT, SF_F64_INIT, SF_SUM, &late_1, 0, 0, 0, 0, 0, 0},
        {"cumsum of bf16, one element late", SF_BF16_INIT, SF_BF16_INIT, SF_SUM, &late_1, 0, 0, 0, 0, 0, 0},
        {"cumsum of bf16, four elements late", SF_BF16_INIT, SF_BF16_INIT, SF_SUM, &late_4, 0, 1, 0, 0, 0, 0},
        {"cumsum of bf16, seven elements late", SF_BF16_INIT, SF_BF16_INIT, SF_SUM, &late_7, 0, 0, 0, 0, 0, 0},
        {"cumsum of bf16 into f32, late", SF_BF16_INIT, SF_F32_INIT, SF_SUM, &late_7, 0, 0, 0, 0, 0, 0},
        {"cumprod, three elements late", SF_F32_INIT, SF_F32_INIT, SF_PROD, &late_3, 0, 0, 0, 0, 0, 0},
        {"logcumsumexp, two elements late", SF_F32_INIT, SF_F32_INIT, SF_LOGSUMEXP, &late_2, 0, 1, 0, 0, 0, 0},
        {"recurrence, one element late", SF_F32_INIT, SF_F32_INIT, SF_RECURRENCE, &late_1, 0, 0, 0, 0, 0, 0},
        {"recurrence, three elements late, reverse", SF_F32_INIT, SF_F32_INIT, SF_RECURRENCE, &late_3, 0, 1, 1, 0, 0, 0},
        {"recurrence, out alone late", SF_F32_INIT, SF_F32_INIT, SF_RECURRENCE, &late_out, 0, 0, 0, 0, 0, 1},
        {"recurrence of bf16, late", SF_BF16_INIT, SF_BF16_INIT, SF_RECURRENCE, &late_7, 0, 0, 0, 0, 0, 0},
        {"sum, one element late", SF_F32_INIT, SF_F32_INIT, SF_SUM, &late_1, 1, 0, 0, 0, 0, 0},
        {"sum, two elements late, reverse", SF_F32_INIT, SF_F32_INIT, SF_SUM, &late_2, 1, 1, 0, 0, 0, 0},
        {"sum, three elements late", SF_F32_INIT, SF_F32_INIT, SF_SUM, &late_3, 1, 0, 0, 0, 0, 0},
        {"sum of f64, one element late", SF_F64_INIT, SF_F64_INIT, SF_SUM, &late_1, 1, 0, 0, 0, 0, 0},
        {"sum of bf16, one element late", SF_BF16_INIT, SF_F32_INIT, SF_SUM, &late_1, 1, 0, 0, 0, 0, 0},
        {"sum of bf16, four elements late, reverse", SF_BF16_INIT, SF_F32_INIT, SF_SUM, &late_4, 1, 1, 0, 0, 0, 0},
        {"sum of bf16, seven elements late", SF_BF16_INIT, SF_F32_INIT, SF_SUM, &late_7, 1, 0, 0, 0, 0, 0},
        {"prod, three elements late", SF_F32_INIT, SF_F32_INIT, SF_PROD, &late_3, 1, 0, 0, 0, 0, 0},
        {"prod, one element late, reverse", SF_F32_INIT, SF_F32_INIT, SF_PROD, &late_1, 1, 1, 0, 0, 0, 0},
        {"logsumexp, three elements late", SF_F32_INIT, SF_F32_INIT, SF_LOGSUMEXP, &late_3, 1, 0, 0, 0, 0, 0},
        {"cumsum, three elements late, exclusive, reverse", SF_F32_INIT, SF_F32_INIT, SF_SUM, &late_3, 0, 1, 1, 0, 0, 0},
        {"cumsum of uneven lines", SF_F32_INIT, SF_F32_INIT, SF_SUM, &uneven, 0, 0, 0, 0, 0, 0},
        {"cumsum of f64, out alone late, exclusive", SF_F64_INIT, SF_F64_INIT, SF_SUM, &late_out, 0, 0, 1, 0, 0, 1},
        {"cumsum of bf16, x alone late, exclusive, reverse", SF_BF16_INIT, SF_BF16_INIT, SF_SUM, &late_in, 0, 1, 1, 0, 0, 0},
        {"cumsum of f16, late, masked", SF_F16_INIT, SF_F16_INIT, SF_SUM, &late_7, 0, 0, 0, 1, 0, 0},
        {"cumsum of bf16, uneven lines", SF_BF16_INIT, SF_BF16_INIT, SF_SUM, &uneven, 0, 0, 0, 0, 0, 0},
        {"cumprod of f64, one element late, reverse", SF_F64_INIT, SF_F64_INIT, SF_PROD, &late_1, 0, 1, 0, 0, 0, 0},
        {"cumprod of bf16, late", SF_BF16_INIT, SF_BF16_INIT, SF_PROD, &late_7, 0, 0, 1, 0, 0, 0},
        {"logcumsumexp of f64, one element late", SF_F64_INIT, SF_F64_INIT, SF_LOGSUMEXP, &late_1, 0, 0, 1, 0, 0, 0},
        {"cummin of bytes, late", I8_INIT, I8_INIT, SF_MIN, &late_7, 0, 1, 0, 0, 0, 0},
        {"recurrence of f64, one element late, reverse", SF_F64_INIT, SF_F64_INIT, SF_RECURRENCE, &late_1, 0, 1, 0, 0, 0, 0},
        {"recurrence of uneven lines", SF_F32_INIT, SF_F32_INIT, SF_RECURRENCE, &uneven, 0, 0, 1, 0, 0, 0},
        {"sum, three elements late, masked", SF_F32_INIT, SF_F32_INIT, SF_SUM, &late_3, 1, 0, 0, 1, 0, 1},
        {"sum of uneven lines, reverse", SF_F32_INIT, SF_F32_INIT, SF_SUM, &uneven, 1, 1, 0, 0, 0, 0},
        {"sum of bf16, uneven lines", SF_BF16_INIT, SF_F32_INIT, SF_SUM, &uneven, 1, 0, 0, 0, 0, 0},
        {"sum of bf16, late, masked", SF_BF16_INIT, SF_BF16_INIT, SF_SUM, &late_7, 1, 0, 0, 1, 0, 0},
        {"sum of f16, three elements late, without NaN", SF_F16_INIT, SF_F32_INIT, SF_SUM, &late_3, 1, 1, 0, 0, 1, 0},
        {"sum of bytes, late", I8_INIT, SF_I32_INIT, SF_SUM, &late_7, 1, 0, 0, 0, 0, 0},
        {"prod of f64, one element late, reverse", SF_F64_INIT, SF_F64_INIT, SF_PROD, &late_1, 1, 1, 0, 0, 0, 0},
        {"prod of bf16, late", SF_BF16_INIT, SF_F32_INIT, SF_PROD, &late_7, 1, 0, 0, 0, 0, 0},
        {"logsumexp of bf16, four elements late", SF_BF16_INIT, SF_F32_INIT, SF_LOGSUMEXP, &late_4, 1, 1, 0, 0, 0, 0},
        {"max, three elements late", SF_F32_INIT, SF_F32_INIT, SF_MAX, &late_3, 1, 0, 0, 0, 0, 0},
        {"argmax, three elements late, reverse", SF_F32_INIT, SF_I64_INIT, SF_ARGMAX, &late_3, 1, 1, 0, 0, 0, 0},
};

static sf_context *ref, *device;
static int failures, checks;
static char x[BYTES], factor[BYTES], mask[MOST], whole[BYTES], spans[1 << 20];
/* What the device writes. It begins at a multiple of 64 bytes, and has room for an array that begins later. */
static _Alignas(64) char own_part[BYTES + APART];

static void check(bool passed, const char *name, const char *what, sf_context *ctx)
{
        checks += !host_learning;
        if (passed || host_learning) /* who learns has garbage to the left of scans (backend_host.c) */
                return;
        failures++;
        fprintf(stderr, "%s: %s: %s\n", name, what, sf_last_error(ctx));
}

/* Element i of an array of this type. */
static void put(char *to, sf_dtype dtype, int i, double v)
{
        const float single = (float)v;
        const int32_t integer = (int32_t)v;
        const int8_t byte = (int8_t)integer;
        const void *from = dtype.code == 0 && dtype.bits == 8 ? (const void *)&byte : dtype.code == 0 ? (const void *)&integer : dtype.bits == 64 ? (const void *)&v : &single;
        const int above = dtype.bits == 16 ? 2 : 0; /* bf16 is the upper half of an f32 */
        memcpy(to + dtype.bits / 8 * i, (const char *)from + above, dtype.bits / 8);
}

static void fill(const sample *s)
{
        const int count = (int)(s->form->lines * s->form->n);
        srand(7);
        for (int i = 0; i < count; i++) {
                double v = (rand() % 2000001 - 1000000) / 333.0;
                if (s->skip_nan && i % 5 == 2)
                        v = __builtin_nan("");
                else if (s->op == SF_PROD)
                        v = s->in.code ? v / 700 : (int32_t)v | 1; /* leaves the range of f32 now and then */
                else if (s->op == SF_LOGSUMEXP)
                        v /= 100;
                else if (s->exclusive && s->in.bits == 32 && i < 280)
                        v = -0.0; /* kept for all cases that do not set it */
                else if (s->op >= SF_ARGMAX && s->op <= SF_LAST_ARGMIN)
                        v = (int32_t)v / 1000; /* many are equal */
                put(x, s->in, i, v);
                put(factor, s->in, i, (rand() % 2001 - 1000) / 900.0);
                mask[i] = rand() % 3 > 0;
        }
}

/* Positions [from, to) of the axis of an array of the whole shape; a fold's result has one. */
static sf_tensor part_of(const sample *s, void *data, sf_dtype dtype, int64_t from, int64_t to, int type, int64_t *room)
{
        const form *f = s->form;
        const int64_t shape[2] = {f->axis ? f->lines : f->n, f->axis ? f->n : f->lines};
        const int64_t strides[2] = {shape[1], 1};
        for (int d = 0; d < 2; d++) {
                room[d] = d == f->axis ? to - from : shape[d];
                room[2 + d] = strides[d];
        }
        return (sf_tensor){.data = (char *)data + from * strides[f->axis] * (dtype.bits / 8), .device = {type, 0}, .ndim = 2, .dtype = dtype, .shape = room,
                           .strides = room + 2};
}

static sf_tensor result_of(const sample *s, void *data, int64_t from, int64_t to, int type, int64_t *room)
{
        return part_of(s, data, s->out, s->fold ? 0 : from, s->fold ? 1 : to, type, room);
}

static sf_scalar initial_of(const sample *s)
{
        return s->initial ? sf_real(0.5) : (sf_scalar){0};
}

static void run_whole(const sample *s)
{
        int64_t rx[4], ry[4], rm[4], ra[4], n = s->form->n;
        sf_tensor tx = part_of(s, x, s->in, 0, n, SF_CPU, rx), ty = result_of(s, whole, 0, n, SF_CPU, ry), tm = part_of(s, mask, SF_U8, 0, n, SF_CPU, rm);
        sf_tensor ta = part_of(s, factor, s->in, 0, n, SF_CPU, ra);
        memset(whole, 0, sizeof whole);
        if (s->fold) {
                sf_fold_options o = SF_FOLD_OPTIONS_INIT;
                o.op = s->op, o.axes = &s->form->axis, o.naxes = 1, o.keepdim = 1, o.reverse = s->reverse, o.mask = s->masked ? &tm : NULL, o.skip_nan = s->skip_nan;
                o.initial = initial_of(s);
                check(sf_fold(ref, &tx, &ty, &o) == SF_OK, s->name, "the whole", ref);
        } else {
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.op = s->op, o.axis = s->form->axis, o.reverse = s->reverse, o.exclusive = s->exclusive, o.mask = s->masked ? &tm : NULL, o.skip_nan = s->skip_nan;
                o.initial = initial_of(s);
                check((s->op == SF_RECURRENCE ? sf_recurrence(ref, &ta, &tx, &ty, &o) : sf_scan(ref, &tx, &ty, &o)) == SF_OK, s->name, "the whole", ref);
        }
}

typedef struct rank {
        int64_t rx[4], ry[4], rm[4], ra[4];
        sf_tensor x, y, m, a;
        sf_shard_options options;
        sf_shard *shard;
        void *memory[3]; /* what x, a and m are in */
} rank;

/* The card of a first shard that is longer than memory is, at addresses that have none. */
static void go_away(const sample *s, rank gone, sf_shard_card *card)
{
        sf_tensor *const tensors[] = {&gone.x, &gone.y, &gone.m, &gone.a};
        int64_t *const rooms[] = {gone.rx, gone.ry, gone.rm, gone.ra};
        for (int i = 0; i < 4; i++) {
                tensors[i]->shape = rooms[i];
                tensors[i]->strides = rooms[i] + 2;
                if (i == 1 && s->fold)
                        continue;
                rooms[i][s->form->axis] += s->form->away;
                rooms[i][2] = rooms[i][1];
                tensors[i]->data = (void *)((uintptr_t)(i + 1) << 50);
        }
        gone.options.a = gone.options.a ? &gone.a : NULL;
        gone.options.mask = gone.options.mask ? &gone.m : NULL;
        sf_shard_card_make(device, &gone.x, &gone.y, &gone.options, card);
}

/* Positions in the later shards are as gone away as these are. */
static void move_positions(const sample *s)
{
        int64_t at;
        for (size_t i = 0; s->op >= SF_ARGMAX && s->op <= SF_LAST_ARGMIN && i < sizeof whole / sizeof at; i++) {
                memcpy(&at, whole + i * sizeof at, sizeof at);
                at += at >= s->form->begins[1] ? s->form->away : 0;
                memcpy(whole + i * sizeof at, &at, sizeof at);
        }
}

/*
 * Gives the device a copy of what a tensor of at least one element has, in memory of its own: as far past a multiple of APART as it would be in
 * an array whose first byte is `late` past one. So AddressSanitizer sees what is read beyond a shard. The caller frees *memory.
 */
static void *lend(const char *array, const sf_tensor *t, int64_t late, void **memory)
{
        const size_t size = t->dtype.bits / 8, at = (size_t)((const char *)t->data - array + late) % APART;
        const size_t bytes = (size_t)((t->shape[0] - 1) * t->strides[0] + (t->shape[1] - 1) * t->strides[1] + 1) * size;
        char *begin;
        *memory = NULL;
        if (posix_memalign(memory, APART, at + bytes))
                exit(2);
        begin = (char *)*memory + at;
        memcpy(begin, t->data, bytes);
        ASAN_POISON_MEMORY_REGION(*memory, at);
        return begin;
}

static void run_ranks(const sample *s)
{
        static rank ranks[RANKS];
        sf_shard_card cards[RANKS];
        size_t at = 0;
        char *const part = own_part + s->form->out_late * (s->out.bits / 8);
        if (s->form->away)
                move_positions(s);
        memset(own_part, 0, sizeof own_part);
        for (int i = 0; i < RANKS; i++) {
                rank *r = &ranks[i];
                const sf_shard_options usual = SF_SHARD_OPTIONS_INIT;
                const int64_t *begins = s->form->begins;
                r->x = part_of(s, x, s->in, begins[i], begins[i + 1], SF_CUDA, r->rx);
                r->y = result_of(s, part, begins[i], begins[i + 1], SF_CUDA, r->ry);
                r->m = part_of(s, mask, SF_U8, begins[i], begins[i + 1], SF_CUDA, r->rm);
                r->a = part_of(s, factor, s->in, begins[i], begins[i + 1], SF_CUDA, r->ra);
                if (begins[i] < begins[i + 1]) {
                        r->x.data = lend(x, &r->x, s->form->late * (s->in.bits / 8), &r->memory[0]);
                        r->a.data = lend(factor, &r->a, s->form->late * (s->in.bits / 8), &r->memory[1]);
                        r->m.data = lend(mask, &r->m, 0, &r->memory[2]);
                }
                r->options = usual;
                r->options.a = s->op == SF_RECURRENCE ? &r->a : NULL;
                r->options.op = s->op, r->options.axis = s->form->axis, r->options.fold = s->fold, r->options.keepdim = s->fold, r->options.reverse = s->reverse;
                r->options.exclusive = s->exclusive, r->options.mask = s->masked ? &r->m : NULL, r->options.skip_nan = s->skip_nan;
                r->options.initial = initial_of(s);
                sf_shard_card_make(device, &r->x, &r->y, &r->options, &cards[i]);
        }
        for (int i = 0; i < RANKS; i++) {
                rank *r = &ranks[i];
                r->shard = NULL;
                if (i == 1 && s->form->away)
                        go_away(s, ranks[0], &cards[0]);
                check(sf_shard_create(device, &r->x, &r->y, &r->options, i, RANKS, cards, &r->shard) == SF_OK, s->name, "sf_shard_create", device);
                if (!r->shard)
                        return;
                check(sf_shard_values(r->shard, spans + at) == SF_OK, s->name, "sf_shard_values", device);
                at += sf_shard_bytes(r->shard, i);
        }
        for (int i = 0; i < RANKS; i++) {
                if (s->fold)
                        memset(own_part, 0, sizeof own_part);
                check(sf_shard_finish(ranks[i].shard, spans) == SF_OK, s->name, "sf_shard_finish", device);
                if (s->fold)
                        check((!i && s->form->away) || !memcmp(part, whole, sizeof whole), s->name, "the bits of a fold", device);
                sf_shard_destroy(ranks[i].shard);
        }
        check(!memcmp(part, whole, sizeof whole), s->name, "the bits", device);
        for (int i = 0; i < RANKS; i++)
                for (int k = 0; k < 3; k++) {
                        free(ranks[i].memory[k]);
                        ranks[i].memory[k] = NULL;
                }
}

static void run_all(int every)
{
        for (size_t i = 0; i < sizeof samples / sizeof *samples; i += (size_t)every) {
                fill(&samples[i]);
                run_whole(&samples[i]);
                run_ranks(&samples[i]);
        }
}

int main(int argc, char **argv)
{
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        if (argc < 4) {
                fprintf(stderr, "usage: test_ranks_host folder compiler jobs [--every N]\n");
                return 2;
        }
        const int every = argc > 7 && !strcmp(argv[6], "--every") && atoi(argv[7]) > 0 ? atoi(argv[7]) : 1;
        o.threads = 1;
        o.backend = SF_BACKEND_REF;
        if (sf_context_create(&ref, &o) != SF_OK)
                return 2;
        o.backend = SF_BACKEND_AUTO;
        if (sf_context_create(&device, &o) != SF_OK)
                return 2;
        host_chip = (sf_cuda_chip){.capability = 90, .multiprocessors = 3, .threads_per_multiprocessor = 2048, .shared_per_block = 65536,
                                   .shared_per_multiprocessor = 65536, .l2 = 8192, .cluster = 2, .small_tiles = 1};
        kernels_open(argv[1], argv[2], atoi(argv[3]));
        host_races = argc > 4 && !strcmp(argv[4], "--races");
        host_learning = true;
        run_all(every);
        if (argc > 5 && !strcmp(argv[4], "--nvrtc"))
                return kernels_nvrtc("", atol(argv[5]));
        kernels_compile();
        host_learning = false;
        run_all(every);
        fprintf(stderr, "%d checks, %d failures; %d specialisations, %ld launches\n", checks, failures, kernels_count(), host_launches);
        return failures != 0 || !host_launches;
}
