/*
 * elementary.h: exp, log, sigmoid and tanh (exponentials.inc.h) for the host. A compiler can
 * vectorise a loop that calls them.
 */
#ifndef SF_ELEMENTARY_H
#define SF_ELEMENTARY_H

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

/* a * b + c, rounded once. Without an fma instruction: the product is exact in f64, and the sum is
 * rounded to odd there, so that rounding it again to f32 gives the same as one rounding. */
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

#define E_INLINE static inline
#define E_U32 uint32_t
#define E_U64 uint64_t
#define E_F32_BITS(v) sf_f32_bits(v)
#define E_F32_OF(u) sf_f32_from_bits(u)
#define E_F64_BITS(v) sf_f64_bits(v)
#define E_F64_OF(u) sf_f64_from_bits(u)
#define E_FMA(a, b, c) sf_fma_f32(a, b, c)
#define E_RECIPROCAL(d) (1.0f / (d))
#include "core/exponentials.inc.h"

#endif
