/*
 * exponentials.inc.h: exp and log, in additions, multiplications and divisions alone, so that they have the same bits on every CPU and GPU. This is C
 * and CUDA C++ at once: the kernels of src/cuda have it from here too.
 *
 *   sf_exp_below_f32, sf_exp_below_f64   e^d of a d that is not above 0. For sums of exponentials, of which one is 1: what is below e^-87
 *                                        counts as 0 in f32. Within two last places
 *   sf_log_above_f32, sf_log_above_f64   log of what is 0, 1 or more, infinite or NaN. Likewise
 *   sf_exp_f64, sf_log_f64               of any number, within one last place
 *
 * Numbers are decimal, with digits enough to be exact: C++14 has no others.
 *
 * Parameters (undefined again at the foot): E_INLINE, E_U32 and E_U64, and E_F32_BITS, E_F32_OF, E_F64_BITS, E_F64_OF, a real's bits and back.
 */

/* d = k ln 2 + r, ln 2 in two parts of which the first times k is exact; the series ends with r^7 / 7!. */
E_INLINE float sf_exp_below_f32(float d)
{
        const float magic = 12582912.0f, v = d < -87.0f ? -87.0f : d;
        float n = v * 1.44269502f + magic;
        const E_U32 k = E_F32_BITS(n);
        n -= magic;
        const float r = (v - n * 0.693145752f) - n * 1.42860677e-06f;
        float p = 1.0f / 5040;
        p = p * r + 1.0f / 720;
        p = p * r + 1.0f / 120;
        p = p * r + 1.0f / 24;
        p = p * r + 1.0f / 6;
        p = p * r + 0.5f;
        p = 1 + (r + (r * r) * p);
        /* The integer's other bits are shifted out. */
        return d < -87.0f ? 0 : p * E_F32_OF((k + 127) << 23);
}

/* v = 2^e m with m in [sqrt(1/2), sqrt(2)); f = m - 1 is exact, log m = f - (f^2 / 2 - s (f^2 / 2 + rest)), s = f / (2 + f), and the series of `rest`
 * ends with s^8 / 9. */
E_INLINE float sf_log_above_f32(float v)
{
        const E_U32 bits = E_F32_BITS(v), from = bits - 0x3f3504f3u; /* the bits of sqrt(1/2) */
        const float e = E_F32_OF(0x4b000000u + (from >> 23)) - 8388608.0f; /* an integer put in the last bits of 2^23 */
        const float m = E_F32_OF(bits - (from >> 23 << 23));
        const float f = m - 1, s = f / (2 + f), s2 = s * s, half = 0.5f * f * f;
        float p = 2.0f / 9;
        p = p * s2 + 2.0f / 7;
        p = p * s2 + 2.0f / 5;
        p = p * s2 + 2.0f / 3;
        float y = e * 0.693145752f - ((half - (s * (half + p * s2) + e * 1.42860677e-06f)) - f);
        y = v == 0 ? E_F32_OF(0xff800000u) : y;
        return v < E_F32_OF(0x7f800000u) ? y : v;
}

/* ln 2 in two parts: the first ends so early that it can be multiplied by any exponent without rounding. */
#define SF_LN2_HIGH 0.69314718036912382
#define SF_LN2_LOW 1.9082149292705877e-10

E_INLINE double sf_exp_f64(double x)
{
        /* Beyond these the result no longer changes: 0, or infinity. NaN stays. */
        double v = x < -746 ? -746 : x;
        v = v > 710 ? 710 : v;
        const double magic = 6755399441055744.0;
        double n = v * 1.4426950408889634 + magic, half;
        E_U64 k = E_F64_BITS(n), first;
        n -= magic;
        half = n * 0.5 + magic;
        first = E_F64_BITS(half);
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
        return p * E_F64_OF((first + 1023) << 52) * E_F64_OF((k - first + 1023) << 52);
}

E_INLINE double sf_exp_below_f64(double d)
{
        return sf_exp_f64(d);
}

E_INLINE double sf_log_f64(double x)
{
        /* As for an f32, but that x may be subnormal. f = m - 1 is exact, log m = f - (f^2 / 2 - s (f^2 / 2 + rest)), and the series of
         * `rest` ends with s^22 / 23: what is left out is below 2e-20. */
        const double inf = E_F64_OF(0x7ff0000000000000u);
        const double scaled = x < 2.2250738585072014e-308 ? x * 18014398509481984.0 : x;
        const E_U64 bits = E_F64_BITS(scaled), from = bits - 0x3fe6a09e667f3bcdu;
        double e = E_F64_OF(0x4330000000000000u + (from >> 52)) - 4503599627370496.0;
        e = e >= 2048 ? e - 4096 : e;
        e = x < 2.2250738585072014e-308 ? e - 54 : e;
        const double m = E_F64_OF(bits - (from >> 52 << 52));
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
        y = x == 0 ? -inf : y;
        y = x == inf ? inf : y;
        return x < 0 || x != x ? E_F64_OF(0x7ff8000000000000u) : y;
}

E_INLINE double sf_log_above_f64(double v)
{
        return sf_log_f64(v);
}

#undef SF_LN2_HIGH
#undef SF_LN2_LOW
#undef E_INLINE
#undef E_U32
#undef E_U64
#undef E_F32_BITS
#undef E_F32_OF
#undef E_F64_BITS
#undef E_F64_OF
