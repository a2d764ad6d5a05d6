/*
 * The quick ways of core/product.inc.h, which the CUDA kernels take, against the general ones, and
 * those against ldexp: lifting of every f32, lowering of mantissas as far from settled as kernels
 * leave them, with every exponent that matters.
 *
 *     test_product [step]      every step-th f32 is lifted; 1: all of them
 */
#include "harness.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SF_INLINE static inline

static uint32_t f32_bits(float v)
{
        uint32_t bits;
        memcpy(&bits, &v, 4);
        return bits;
}

static float f32_of(uint32_t bits)
{
        float v;
        memcpy(&v, &bits, 4);
        return v;
}

static uint64_t f64_bits(double v)
{
        uint64_t bits;
        memcpy(&bits, &v, 8);
        return bits;
}

static double f64_of(uint64_t bits)
{
        double v;
        memcpy(&v, &bits, 8);
        return v;
}

#define P(name) name##_f32
#define P_REAL float
#define P_INT int32_t
#define P_UINT uint32_t
#define P_BITS(v) f32_bits(v)
#define P_OF(i) f32_of(i)
#define P_CHOOSE(c, y, n) ((c) ? (y) : (n))
#define P_MANTISSA 23
#define P_BIAS 127
#include "../src/core/product.inc.h"

#define P(name) name##_f64
#define P_REAL double
#define P_INT int64_t
#define P_UINT uint64_t
#define P_BITS(v) f64_bits(v)
#define P_OF(i) f64_of(i)
#define P_CHOOSE(c, y, n) ((c) ? (y) : (n))
#define P_MANTISSA 52
#define P_BIAS 1023
#include "../src/core/product.inc.h"

static long checks;

/* The same bits; one NaN is as good as another. */
static bool same_f32(float a, float b)
{
        return f32_bits(a) == f32_bits(b) || (a != a && b != b);
}

static bool same_f64(double a, double b)
{
        return f64_bits(a) == f64_bits(b) || (a != a && b != b);
}

static void lifts(uint64_t step)
{
        long wrong = 0;
        uint32_t which = 0;
        for (uint64_t i = 0; i < (uint64_t)1 << 32; i += step) {
                const float v = f32_of((uint32_t)i);
                const product_f32 p = product_lift_f32(v), low = product_halve_f32(p);
                bool fine =
                        same_f32(product_lower_f32(p), v) && same_f32(product_lower_f32(low), v);
                if (isnormal(v) && fabsf(v) < 0x1p127f) {
                        const product_f32 quick = product_lift_normal_f32(v, 0),
                                          half = product_lift_normal_f32(v, 1);
                        fine = fine && f32_bits(quick.mantissa) == f32_bits(p.mantissa) &&
                               quick.exponent == p.exponent &&
                               f32_bits(half.mantissa) == f32_bits(low.mantissa) &&
                               half.exponent == low.exponent;
                        fine = fine && fabsf(p.mantissa) >= 1 && fabsf(p.mantissa) < 2;
                }
                checks++;
                if (!fine) {
                        wrong++;
                        which = (uint32_t)i;
                }
        }
        CHECK(!wrong, "%ld numbers are lifted wrong, one of bits %08x", wrong, which);
        for (uint64_t i = 0; i < 2000000; i++) {
                const double v = f64_of(hash(i));
                const product_f64 p = product_lift_f64(v), low = product_halve_f64(p);
                bool fine =
                        same_f64(product_lower_f64(p), v) && same_f64(product_lower_f64(low), v);
                if (isnormal(v) && fabs(v) < 0x1p1023) {
                        const product_f64 quick = product_lift_normal_f64(v, 0),
                                          half = product_lift_normal_f64(v, 1);
                        fine = fine && f64_bits(quick.mantissa) == f64_bits(p.mantissa) &&
                               quick.exponent == p.exponent &&
                               f64_bits(half.mantissa) == f64_bits(low.mantissa) &&
                               half.exponent == low.exponent;
                }
                checks++;
                CHECK(fine, "%a is lifted wrong", v);
        }
}

/* What a kernel's mantissa may be: normal and below 2^102 for f32, 2^400 for f64, or special. */
static float mantissa_of(uint64_t n)
{
        static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN};
        static const int powers[] = {0, 0, 0, 1, -1, 30, -30, 63, -126, 101};
        if (n % 16 == 15)
                return special[n / 16 % 5];
        uint32_t fraction = (uint32_t)hash(n) & 0x807fffff;
        if (n % 16 < 3) /* the ends */
                fraction = n % 16 == 0 ? 0 : n % 16 == 1 ? 0x007fffff : 0x80000001;
        return ldexpf(f32_of(fraction | 0x3f800000), powers[n / 16 % 10]);
}

static void lowers(void)
{
        static const int64_t far[] = {INT_MIN, INT_MIN + 1, -1000000,
                                      1000000, INT_MAX - 1, INT_MAX};
        static const int more[] = {0, 300, -896}; /* of an f64's mantissa */
        for (uint64_t n = 0; n < 3200; n++) {
                const float m = mantissa_of(n);
                for (int64_t k = -600; k <= 600 + (int64_t)(sizeof far / sizeof *far); k++) {
                        const int64_t e = k > 600 ? far[k - 601] : k;
                        const product_f32 p = {m, (int32_t)e};
                        const double wide = ldexp(m, more[n % 3]);
                        const product_f64 q = {wide, k > 600 ? e : k * 8 + (int64_t)(n % 8)};
                        const float is = product_lower_f32(p);
                        const double is64 = product_lower_f64(q);
                        /* An exponent that wraps when the mantissa is settled is no number's. */
                        if (k <= 600) {
                                CHECK(same_f32(is, (float)ldexp(m, (int)e)),
                                      "%a times 2^%d is lowered to %a", (double)m, (int)e,
                                      (double)is);
                                CHECK(same_f64(is64, ldexp(wide, (int)q.exponent)),
                                      "%a times 2^%d is lowered to %a", wide, (int)q.exponent, is64);
                        }
                        if (e >= -126 && e <= 127)
                                CHECK(same_f32(is, product_lower_near_f32(p)),
                                      "near: %a times 2^%d", (double)m, (int)e);
                        if (k <= 600)
                                CHECK(same_f32(is, product_lower_loose_f32(p)),
                                      "loose: %a times 2^%d", (double)m, (int)e);
                        if (q.exponent >= -1022 && q.exponent <= 1023)
                                CHECK(same_f64(is64, product_lower_near_f64(q)),
                                      "near: %a times 2^%d", wide, (int)q.exponent);
                        if (k <= 600)
                                CHECK(same_f64(is64, product_lower_loose_f64(q)),
                                      "loose: %a times 2^%d", wide, (int)q.exponent);
                        checks++;
                }
        }
}

/* Totals of ever larger blocks, and what a scan makes of all of them: no exponent wraps. */
static void limits(void)
{
        static const float number[] = {3e38f, -3e38f, 0x1p-149f, 0.5f, 1.5f};
        for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
                product_f32 block = product_lift_f32(number[i]), all = block;
                for (int level = 0; level < 34; level++) {
                        const float is = product_lower_f32(all), total = product_lower_f32(block);
                        const double right = ldexp(log2(fabs((double)number[i])), level);
                        if (fabs(right) > 200) {
                                const float far = right < 0 ? 0.0f : INFINITY;
                                CHECK(fabsf(total) == far && fabsf(is) == far,
                                      "2^%d numbers of %g multiply to %g, and all so far to %g",
                                      level, (double)number[i], (double)total, (double)is);
                        }
                        all = product_combine_f32(product_settle_f32(block), all);
                        block = product_settle_f32(
                                product_combine_f32(product_settle_f32(block), block));
                        checks++;
                }
        }
}

int main(int argc, char **argv)
{
        uint64_t step = argc > 1 ? (uint64_t)strtoull(argv[1], NULL, 10) : 0;
        lifts(step ? step : 257);
        lowers();
        limits();
        return finish("test_product", checks);
}
