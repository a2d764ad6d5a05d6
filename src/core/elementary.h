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

static inline float sf_f32_from_bits(uint32_t bits)
{
        float f;
        memcpy(&f, &bits, 4);
        return f;
}

static inline uint32_t sf_f32_bits(float v)
{
        uint32_t bits;
        memcpy(&bits, &v, 4);
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

/* a * b + c, rounded once. Where the processor has no such instruction: the product is exact in f64, and the sum is rounded there to the odd one of
 * two neighbours, whose rounding to f32 is that of the sum itself. */
static inline float sf_fma_f32(float a, float b, float c)
{
#ifdef __FP_FAST_FMAF
        return __builtin_fmaf(a, b, c);
#else
        const double product = (double)a * b, sum = product + c, more = sum - product;
        const double rest = (product - (sum - more)) + (c - more);
        const uint64_t bits = sf_f64_bits(sum), away = (rest > 0) == (sum > 0) ? 1 : (uint64_t)-1;
        return (float)sf_f64_from_bits(bits + (rest != 0 && rest == rest && !(bits & 1) ? away : 0));
#endif
}

/* exp and log of an f64, and those for sums of exponentials. */
#define E_INLINE static inline
#define E_U32 uint32_t
#define E_U64 uint64_t
#define E_F32_BITS(v) sf_f32_bits(v)
#define E_F32_OF(u) sf_f32_from_bits(u)
#define E_F64_BITS(v) sf_f64_bits(v)
#define E_F64_OF(u) sf_f64_from_bits(u)
#define E_FMA(a, b, c) sf_fma_f32(a, b, c)
#include "core/exponentials.inc.h"

#endif
