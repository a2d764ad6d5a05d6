/*
 * More than 2^32 elements. The folds read one repeated byte, so they need no memory; the scan needs 8.6 GB and runs
 * with SCANFOLD_TEST_HUGE=1 only. And products of f32 that are far out of the range: their exponents must not wrap.
 */
#include "harness.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static long checks;

static void sum_is(sf_context *ctx, sf_tensor *x, int64_t right)
{
        int64_t total = -1;
        int64_t ones[SF_MAX_NDIM];
        for (int d = 0; d < SF_MAX_NDIM; d++)
                ones[d] = 1;
        sf_tensor out = tensor(&total, SF_I64, x->ndim, ones);
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.keepdim = 1;
        CHECK(sf_fold(ctx, x, &out, &o) == SF_OK, "%s", sf_last_error(ctx));
        CHECK(total == right, "the fold is %" PRId64 " instead of %" PRId64, total, right);
        checks++;
}

static void folds(sf_context *ctx)
{
        uint8_t three = 3;
        int64_t n = ((int64_t)1 << 32) + 5, none[2] = {0, 0}, half[2] = {65537, 65599};
        sf_tensor x = tensor(&three, SF_U8, 1, &n);
        x.strides = none;
        sum_is(ctx, &x, 3 * n);
        x = tensor(&three, SF_U8, 2, half); /* neither axis is long, the two are */
        x.strides = none;
        sum_is(ctx, &x, 3 * half[0] * half[1]);

        /* A masked fold: the mask is repeated too. */
        uint8_t no = 0;
        int64_t total = -1;
        sf_tensor out = tensor(&total, SF_I64, 0, NULL), mask = tensor(&no, SF_BOOL, 0, NULL);
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.mask = &mask;
        x = tensor(&three, SF_U8, 1, &n);
        x.strides = none;
        CHECK(sf_fold(ctx, &x, &out, &o) == SF_OK && total == 0, "the masked fold is %" PRId64, total);
        checks++;
}

/* The product of n numbers v, which all have the sign of v. */
static void product_is(sf_context *ctx, float v, int64_t n, float right)
{
        const int64_t none = 0;
        float total = 1;
        sf_tensor x = tensor(&v, SF_F32, 1, &n), out = tensor(&total, SF_F32, 0, NULL);
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.op = SF_PROD;
        x.strides = (int64_t *)&none;
        CHECK(sf_fold(ctx, &x, &out, &o) == SF_OK, "%s", sf_last_error(ctx));
        CHECK(!memcmp(&total, &right, sizeof total), "the product of %" PRId64 " times %g is %g", n, (double)v, (double)total);
        checks++;
}

/* Exponents of 32 bits would be used up by 17 million numbers of 3e38. */
static void products(sf_context *ctx)
{
        product_is(ctx, 3e38f, 3 << 23, INFINITY);
        product_is(ctx, -3e38f, (1 << 25) + 12345, -INFINITY);
        product_is(ctx, 3e-39f, 3 << 23, 0.0f);

        int64_t n = (1 << 25) + 12345, none = 0, wrong = 0;
        float large[2] = {-3e38f, 1e-38f}, *y = malloc((size_t)n * sizeof *y);
        for (int k = 0; k < 2 && y; k++) {
                sf_tensor tx = tensor(&large[k], SF_F32, 1, &n), ty = tensor(y, SF_F32, 1, &n);
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.op = SF_PROD;
                tx.strides = &none;
                CHECK(sf_scan(ctx, &tx, &ty, &o) == SF_OK, "%s", sf_last_error(ctx));
                for (int64_t i = 1; i < n; i++)
                        wrong += k ? y[i] != 0 : y[i] != (i % 2 ? INFINITY : -INFINITY);
                CHECK(!wrong, "%" PRId64 " results of cumprod of %g are wrong", wrong, (double)large[k]);
                checks++;
        }
        free(y);
}

static uint8_t *big(size_t bytes)
{
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) {
                perror("memory for the huge scan");
                exit(1);
        }
        return p;
}

/* u8 to u8 wraps, so y[i] = 7 (i + 1) mod 256 for a repeated 7, along either direction. */
static void scan(sf_context *ctx)
{
        int64_t n = ((int64_t)1 << 32) + 1029;
        uint8_t *x = big((size_t)n), *y = big((size_t)n);
        memset(x, 7, (size_t)n);
        sf_tensor tx = tensor(x, SF_U8, 1, &n), ty = tensor(y, SF_U8, 1, &n);
        for (int reverse = 0; reverse < 2; reverse++) {
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.reverse = reverse;
                CHECK(sf_scan(ctx, &tx, &ty, &o) == SF_OK, "%s", sf_last_error(ctx));
                for (int64_t i = 0; i < n; i++)
                        if (y[i] != (uint8_t)(7 * ((reverse ? n - 1 - i : i) + 1))) {
                                FAIL("element %" PRId64 " of a huge scan is %d", i, y[i]);
                                break;
                        }
                checks++;
        }
        munmap(x, (size_t)n);
        munmap(y, (size_t)n);
}

int main(void)
{
        const char *wanted = getenv("SCANFOLD_TEST_HUGE");
        sf_context *ctx;
        if (sf_context_create(&ctx, NULL) != SF_OK) {
                FAIL("no context: %s", sf_last_error(NULL));
                return finish("test_huge", checks);
        }
        folds(ctx);
        products(ctx);
        if (wanted && !strcmp(wanted, "1"))
                scan(ctx);
        sf_context_destroy(ctx);
        return finish("test_huge", checks);
}
