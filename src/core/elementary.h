/*
 * elementary.h: exp, log, sigmoid and tanh of an f32, and exp and log of an f64, in additions, multiplications and divisions of f64 alone. So they
 * have the same bits on every CPU, whatever its mathematical library, and a compiler can vectorise a loop of them.
 *
 * Those of f32 are computed in f64 with a relative error below 2^-32, then rounded once to f32. An f32 has 24 bits, so the result is the correctly
 * rounded one unless the true value lies within 2^-8 of a last place of a tie: the error is below 0.504 of a last place. Those of f64 are within
 * one last place of the true value.
 */
#ifndef SF_ELEMENTARY_H
#define SF_ELEMENTARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double sf_f64_from_bits(uint64_t bits)
{
        double v;
        memcpy(&v, &bits, sizeof v);
        return v;
}

static inline uint64_t sf_f64_bits(double v)
{
        uint64_t bits;
        memcpy(&bits, &v, sizeof bits);
        return bits;
}

/*
 * e^v - 1 as (power - 1) + power * *rest, with v = k ln 2 + r, |r| <= ln(2) / 2 and power = 2^k. The series of e^r - 1 ends with
 * r^10 / 10!: what is left out is below 3.5e-13 of it. |v| must be below 700. A NaN comes out as one, in *rest.
 */
static inline double sf_exp_parts(double v, double *rest)
{
        const double magic = 0x1.8p52; /* added, it leaves the nearest integer in the last bits */
        double n = v * 0x1.71547652b82fep0 + magic;
        uint64_t k = sf_f64_bits(n);
        n -= magic;
        double r = v - n * 0x1.62e42fefa39efp-1;
        double p = 1.0 / 3628800;
        p = p * r + 1.0 / 362880;
        p = p * r + 1.0 / 40320;
        p = p * r + 1.0 / 5040;
        p = p * r + 1.0 / 720;
        p = p * r + 1.0 / 120;
        p = p * r + 1.0 / 24;
        p = p * r + 1.0 / 6;
        p = p * r + 0.5;
        p = p * r + 1;
        *rest = p * r;
        return sf_f64_from_bits((k + 1023) << 52);
}

/* Beyond these an f32's result no longer changes: 0, or infinity. NaN stays. */
static inline double sf_exp_range(double v)
{
        v = v < -110 ? -110 : v;
        return v > 90 ? 90 : v;
}

static inline float sf_exp_f32(float x)
{
        double rest, power = sf_exp_parts(sf_exp_range(x), &rest);
        return (float)(power + power * rest);
}

/* As its three operations: the exponential and the sum are rounded to f32 too. */
static inline float sf_sigmoid_f32(float x)
{
        return 1.0f / (1.0f + sf_exp_f32(-x));
}

static inline float sf_tanh_f32(float x)
{
        /* (e^2x - 1) / (e^2x + 1); from 10 on it rounds to 1. */
        double v = x, rest;
        v = v < -10 ? -10 : v;
        v = v > 10 ? 10 : v;
        double power = sf_exp_parts(2 * v, &rest), less_one = (power - 1) + power * rest;
        float y = (float)(less_one / (less_one + 2));
        return y != y ? y : copysignf(y, x);
}

static inline float sf_log_f32(float x)
{
        /* x = 2^e m with m in [sqrt(1/2), sqrt(2)); an f32 is never subnormal as an f64. log m = 2 artanh s, s = (m - 1) / (m + 1),
         * |s| < 0.172; the series ends with s^17 / 17: what is left out is below 2e-16 of it. */
        uint64_t bits = sf_f64_bits((double)x), from = bits - 0x3fe6a09e667f3bcdu; /* the bits of sqrt(1/2) */
        double e = sf_f64_from_bits(0x4330000000000000u + (from >> 52)) - 0x1p52; /* an integer put in the last bits of 2^52 */
        e = e >= 2048 ? e - 4096 : e; /* it has 12 bits and a sign */
        double m = sf_f64_from_bits(bits - (from >> 52 << 52));
        double s = (m - 1) / (m + 1), s2 = s * s;
        double p = 1.0 / 17;
        p = p * s2 + 1.0 / 15;
        p = p * s2 + 1.0 / 13;
        p = p * s2 + 1.0 / 11;
        p = p * s2 + 1.0 / 9;
        p = p * s2 + 1.0 / 7;
        p = p * s2 + 1.0 / 5;
        p = p * s2 + 1.0 / 3;
        p = p * s2 + 1;
        float y = (float)(e * 0x1.62e42fefa39efp-1 + 2 * (s * p));
        y = x == 0 ? -INFINITY : y;
        y = x == INFINITY ? INFINITY : y;
        return x < 0 || x != x ? NAN : y;
}

/* ln 2 in two parts: the first ends so early that it can be multiplied by any exponent without rounding. */
#define SF_LN2_HIGH 0x1.62e42feep-1
#define SF_LN2_LOW 0x1.a39ef35793c76p-33

static inline double sf_exp_f64(double x)
{
        /* Beyond these the result no longer changes: 0, or infinity. NaN stays. */
        double v = x < -746 ? -746 : x;
        v = v > 710 ? 710 : v;
        const double magic = 0x1.8p52;
        double n = v * 0x1.71547652b82fep0 + magic, half;
        uint64_t k = sf_f64_bits(n), first;
        n -= magic;
        half = n * 0.5 + magic;
        first = sf_f64_bits(half);
        double r = (v - n * SF_LN2_HIGH) - n * SF_LN2_LOW;
        /* |r| <= ln(2) / 2; the series ends with r^13 / 13!: what is left out is below 5e-18. */
        double p = 1.0 / 6227020800;
        p = p * r + 1.0 / 479001600;
        p = p * r + 1.0 / 39916800;
        p = p * r + 1.0 / 3628800;
        p = p * r + 1.0 / 362880;
        p = p * r + 1.0 / 40320;
        p = p * r + 1.0 / 5040;
        p = p * r + 1.0 / 720;
        p = p * r + 1.0 / 120;
        p = p * r + 1.0 / 24;
        p = p * r + 1.0 / 6;
        p = p * r + 0.5;
        p = 1 + (r + (r * r) * p);
        /* By 2^k in two steps, of which the first is exact: k goes beyond the exponents there are. The integers' other bits are shifted out. */
        return p * sf_f64_from_bits((first + 1023) << 52) * sf_f64_from_bits((k - first + 1023) << 52);
}

static inline double sf_log_f64(double x)
{
        /* As for an f32, but that x may be subnormal. f = m - 1 is exact, log m = f - (f^2 / 2 - s (f^2 / 2 + rest)), and the series of
         * `rest` ends with s^22 / 23: what is left out is below 2e-20. */
        const double scaled = x < 0x1p-1022 ? x * 0x1p54 : x;
        const uint64_t bits = sf_f64_bits(scaled), from = bits - 0x3fe6a09e667f3bcdu;
        double e = sf_f64_from_bits(0x4330000000000000u + (from >> 52)) - 0x1p52;
        e = e >= 2048 ? e - 4096 : e;
        e = x < 0x1p-1022 ? e - 54 : e;
        const double m = sf_f64_from_bits(bits - (from >> 52 << 52));
        const double f = m - 1, s = f / (2 + f), s2 = s * s, half = 0.5 * f * f;
        double p = 2.0 / 23;
        p = p * s2 + 2.0 / 21;
        p = p * s2 + 2.0 / 19;
        p = p * s2 + 2.0 / 17;
        p = p * s2 + 2.0 / 15;
        p = p * s2 + 2.0 / 13;
        p = p * s2 + 2.0 / 11;
        p = p * s2 + 2.0 / 9;
        p = p * s2 + 2.0 / 7;
        p = p * s2 + 2.0 / 5;
        p = p * s2 + 2.0 / 3;
        double y = e * SF_LN2_HIGH - ((half - (s * (half + p * s2) + e * SF_LN2_LOW)) - f);
        y = x == 0 ? -INFINITY : y;
        y = x == INFINITY ? INFINITY : y;
        return x < 0 || x != x ? NAN : y;
}

#endif
