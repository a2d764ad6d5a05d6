/*
 * What the cases of test_cuda_host cannot describe: folds of views whose elements overlap or are
 * far apart, and products of so many numbers that exponents of 32 bits are limited.
 */
#include "beyond_cases.h"

#include "case.h"

#include <math.h>
#include <string.h>

/* Folds of views whose elements overlap, or whose rows are far apart. All that is accessed lies
 * before a page that may not be. */
void meet_views(void)
{
        static const struct {
                const sf_cuda_chip *chip;
                sf_dtype in;
                int64_t shape[3], strides[3], first; /* in elements; all but axis 1 is folded */
                int64_t mask[3], mask_first;         /* the same of the mask; 0: there is none */
        } views[] = {
                /* windows, each an element further: rows of columns that are side by side begin at
                 * any address */
                {&small_chip, SF_F32_INIT, {64, 1, 100}, {1, 0, 1}, 0, {0}, 0},
                {&small_chip, SF_F32_INIT, {64, 3, 100}, {1, 200, 5}, 0, {0}, 0},
                /* as many elements as there are from one sequence to the next, but not the same
                 * ones */
                {&small_chip, SF_F32_INIT, {3, 30, 5}, {7, 15, 4}, 0, {0}, 0},
                {&real_chip, SF_F32_INIT, {3, 30, 5}, {7, 15, 4}, 0, {0}, 0},
                /* masks in reverse, and ones that are far apart, over runs that end inside
                 * vectors */
                {&real_chip, SF_BF16_INIT, {6, 3, 101}, {303, 101, 1}, 1, {303, 101, -1}, 100},
                {&real_chip, SF_BF16_INIT, {6, 3, 101}, {303, 101, 1}, 1, {3, 1, 18}, 0},
                {&real_chip, SF_BF16_INIT, {6, 3, 101}, {303, 101, 1}, 1, {303, 101, 1}, 0},
                {&real_chip, SF_BF16_INIT, {6, 3, 101}, {303, 101, 1}, 1, {3, 1, 0}, 0},
                /* warps without elements, whose place is behind the last row */
                {&real_chip, SF_BF16_INIT, {10, 1, 127}, {5003, 0, 1}, 1, {0}, 0},
                {&real_chip, SF_BF16_INIT, {12, 1, 128}, {5001, 0, 1}, 5, {0}, 0},
        };
        static region memory, masks;
        for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
                if (!is_turn())
                        continue;
                int64_t shape[3], strides[3], apart[3];
                int64_t count = views[i].first + 1, kept = views[i].mask_first + 1;
                float y[2][32];
                for (int d = 0; d < 3; d++) {
                        shape[d] = views[i].shape[d];
                        strides[d] = views[i].strides[d];
                        count += (shape[d] - 1) * strides[d];
                        apart[d] = views[i].mask[d];
                        kept += apart[d] > 0 ? (shape[d] - 1) * apart[d] : 0;
                }
                const int size = views[i].in.bits / 8;
                char *x = region_place(&memory, (size_t)(count * size), GUARD_AFTER,
                                       (size_t)(-count * size & 15));
                for (int64_t k = 0; k < count; k++) {
                        const float v = (float)((double)(hash((uint64_t)k) >> 40) * 0x1p-23);
                        memcpy(x + k * size, (const char *)&v + 4 - size, (size_t)size);
                }
                char *m = region_place(&masks, (size_t)kept, GUARD_AFTER, 0);
                for (int64_t k = 0; k < kept; k++)
                        m[k] = hash((uint64_t)k) >> 33 & 1;
                for (int k = 0; k < 2; k++) {
                        const sf_tensor tm = {.data = m + views[i].mask_first, .ndim = 3,
                                              .shape = shape, .strides = apart,
                                              .dtype = SF_BOOL, .device = {SF_CPU, 0}};
                        const sf_tensor tx = {.data = x + views[i].first * size, .ndim = 3,
                                              .shape = shape, .strides = strides,
                                              .dtype = views[i].in, .device = {SF_CPU, 0}};
                        const sf_tensor ty = {.data = y[k], .device = {SF_CPU, 0}, .ndim = 1,
                                              .dtype = SF_F32, .shape = shape + 1};
                        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
                        o.axes = (const int32_t[]){0, 2};
                        o.naxes = 2;
                        o.mask = views[i].mask[0] ? &tm : NULL;
                        host_chip = *views[i].chip;
                        host_seed = turn;
                        CHECK(sf_fold(engines[k].ctx, &tx, &ty, &o) == SF_OK, "view %d: %s", (int)i,
                              sf_last_error(engines[k].ctx));
                }
                cases_checked++;
                CHECK(host_learning || !memcmp(y[0], y[1], (size_t)shape[1] * sizeof(float)),
                      "view %d: not the same bits", (int)i);
        }
        region_free(&memory);
        region_free(&masks);
}

/* Products of so many large numbers that the sum of their exponents does not fit 32 bits: they are
 * infinite nevertheless. On a chip with one multiprocessor there are few totals, and large ones.
 * This takes seconds. */
void meet_endless_products(void)
{
        enum { N = 18 << 20 };
        static const int64_t shapes[][2] = {{N, 1}, {N, 2}};
        static region memory;
        char *x = region_place(&memory, 2 * N * sizeof(uint16_t), GUARD_AFTER, 0);
        for (int64_t i = 0; i < 2 * N; i++)
                memcpy(x + 2 * i, &(const uint16_t){0x7f61}, 2); /* 3e38 */
        for (int i = 0; i < 2; i++) {
                int64_t shape[2] = {shapes[i][0], shapes[i][1]};
                float y[2] = {0, 0};
                const sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 2,
                                      .dtype = SF_BF16, .shape = shape};
                const sf_tensor ty = {.data = y, .device = {SF_CPU, 0}, .ndim = 1,
                                      .dtype = SF_F32, .shape = shape + 1};
                sf_fold_options o = SF_FOLD_OPTIONS_INIT;
                o.axes = (const int32_t[]){0};
                o.naxes = 1;
                o.op = SF_PROD;
                CHECK(sf_fold(engines[1].ctx, &tx, &ty, &o) == SF_OK, "%s",
                      sf_last_error(engines[1].ctx));
                cases_checked++;
                for (int64_t k = 0; k < shape[1]; k++)
                        CHECK(isinf(y[k]), "an endless product is %g", (double)y[k]);
        }
        region_free(&memory);
}

/* As if every total of a chunk were of so many large numbers that its exponent is limited. */
static void limit_totals(void *scratch, size_t bytes)
{
        for (char *at = scratch; at < (char *)scratch + bytes; at += 8)
                memcpy(at + 4, &(const int32_t){1 << 27}, 4);
}

/* Scans in chunks, of which 16 have exponents whose sum does not fit 32 bits: all chunks but the
 * first are infinite. In the narrow matrices every block combines totals for itself, a thread one
 * of them or 16 of them; in the other one a launch does. */
void meet_limited_totals(void)
{
        static const struct {
                int64_t shape[2], chunk; /* rows of a chunk */
                int skew;
                sf_cuda_kernel kernel;
        } scans[] = {{{40 * 4096, 2}, 4096, 0, SF_CUDA_SCAN_NARROW},
                     {{70 * 256, 32}, 256, 1, SF_CUDA_SCAN_NARROW},
                     {{65 * 64, 100}, 64, 0, SF_CUDA_SCAN_TOTALS}};
        static _Alignas(64) float x[70 * 256 * 32 + 1], y[70 * 256 * 32 + 1];
        for (size_t i = 0; i < sizeof x / sizeof *x; i++)
                x[i] = 1;
        host_between = limit_totals;
        for (size_t i = 0; i < sizeof scans / sizeof *scans; i++) {
                if (!is_turn())
                        continue;
                int64_t shape[2] = {scans[i].shape[0], scans[i].shape[1]};
                const float *results = y + scans[i].skew;
                const sf_tensor tx = {.data = x + scans[i].skew, .device = {SF_CPU, 0}, .ndim = 2,
                                      .dtype = SF_F32, .shape = shape};
                sf_tensor ty = tx;
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                ty.data = y + scans[i].skew;
                o.op = SF_PROD;
                o.axis = 0;
                const long met = host_met[scans[i].kernel];
                CHECK(sf_scan(engines[1].ctx, &tx, &ty, &o) == SF_OK, "%s",
                      sf_last_error(engines[1].ctx));
                cases_checked++;
                CHECK(host_learning || host_met[scans[i].kernel] > met,
                      "scan %d of limited totals has another plan", (int)i);
                long wrong = 0;
                for (int64_t k = 0; k < shape[0] * shape[1]; k++)
                        wrong += k < scans[i].chunk * shape[1] ? results[k] != 1
                                                               : !isinf(results[k]);
                CHECK(host_learning || !wrong, "scan %d of limited totals: %ld results are wrong",
                      (int)i, wrong);
        }
        host_between = NULL;
}
