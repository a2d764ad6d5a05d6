/*
 * exponentials.inc.h: exp, log, sigmoid and tanh. Each is a sequence of operations that are rounded
 * once, so the results have the same bits on every CPU and GPU. This is both C and CUDA C++: the
 * kernels of src/cuda include it too. Errors are in units in the last place (ulp).
 *
 *   sf_exp_*, sf_log_*, sf_sigmoid_*, sf_tanh_*   for any number. The errors are below 0.90, 0.83,
 *                                                 0.80 and 0.84 ulp in f32, and 1, 1, 2.5 and
 *                                                 2.5 ulp in f64
 *
 * A sum of exponentials is stored as times * 4^power, where power is an integer in a real's type.
 * So it can be as large and as small as e^x is for any x, and two such sums are added by one
 * addition, because scaling by a power of two is exact.
 *
 *   sf_exp_power_*, sf_exp_times_*   e^x in this form. times is between 1/3 and 3, with an error
 *                                    below 1.6 ulp. For -inf: -inf and 0. For +inf and NaN:
 *                                    SF_MOST_F*, which no other number has, and x
 *   sf_exp_small_*                   the same as one number, for |x| below SF_EXP_SMALL_F*
 *   sf_exp_scale_*                   4^-d, for a difference d of powers; 0 from SF_EXP_FAR_* on,
 *                                    where the scaled number is too small to matter
 *   sf_exp_log_*                     log(times * 4^power), with an error below two ulp. It depends
 *                                    on the product only, not on how it is split into the two
 *
 * Constants are decimal, with enough digits to be exact, because C++14 has no hexadecimal ones.
 *
 * Parameters (undefined again at the end): E_INLINE, E_U32 and E_U64; E_F32_BITS, E_F32_OF,
 * E_F64_BITS and E_F64_OF, which convert a real to its bits and back; and, for f32, E_FMA(a, b, c),
 * which is a * b + c, rounded once, and E_RECIPROCAL(d), which is 1 / d for d in [1, 2].
 */

/* ------------------------------------------------------------------------------------------------
 * f32
 * ---------------------------------------------------------------------------------------------- */
#define SF_MOST_F32 3.40282347e+38f
#define SF_EXP_FAR_F32 64.0f
#define SF_EXP_SMALL_F32 40.0f
/* 2 ln 2 in two parts. */
#define SF_LN4_F32 1.38629436f
#define SF_LN4_REST_F32 -3.80930865e-09f

/* Adding 1.5 * 2^23 and subtracting it again rounds to an integer. */
E_INLINE float sf_exp_power_f32(float x)
{
        const float h = E_FMA(x, 0.721347511f, 12582912.0f) - 12582912.0f;
        return h <= SF_MOST_F32 ? h : SF_MOST_F32;
}

/* e^r = 1 + r (1 + r q(r)), where q is the minimax polynomial of degree 5: its largest error is
 * 1.5e-8 of e^r. */
E_INLINE float sf_exp_series_f32(float r)
{
        float q = E_FMA(0.000196115972f, r, 0.00141044753f);
        q = E_FMA(q, r, 0.00833610352f);
        q = E_FMA(q, r, 0.04166127f);
        q = E_FMA(q, r, 0.166666135f);
        q = E_FMA(q, r, 0.500000358f);
        return E_FMA(E_FMA(q, r, 1.0f), r, 1.0f);
}

/* x = h 2 ln 2 + r. If x is so large that one ulp of it exceeds 2 ln 2, r is meaningless: it is
 * clamped to [-1, 1]. */
E_INLINE float sf_exp_times_f32(float x, float h)
{
        float r = E_FMA(-h, SF_LN4_REST_F32, E_FMA(-h, SF_LN4_F32, x)), q;
        r = r > 1 ? 1 : r;
        r = r < -1 ? -1 : r;
        q = sf_exp_series_f32(r);
        q = h < -SF_MOST_F32 ? 0 : q;
        return h < SF_MOST_F32 ? q : x;
}

/* times * 4^power as one number, which fits where |x| is below SF_EXP_SMALL_F32. It is a normal
 * number, so twice the power is added to the exponent of times; the shift removes other bits. */
E_INLINE float sf_exp_small_f32(float x)
{
        const float n = E_FMA(x, 0.721347511f, 12582912.0f), h = n - 12582912.0f;
        const float r = E_FMA(-h, SF_LN4_REST_F32, E_FMA(-h, SF_LN4_F32, x));
        return E_F32_OF((E_F32_BITS(n) << 24) + E_F32_BITS(sf_exp_series_f32(r)));
}

/* 12583039 is 1.5 * 2^23 + 127, so the low bits of the difference are 127 - 2 d, the exponent field
 * of 4^-d. The shift removes the other bits. */
E_INLINE float sf_exp_scale_f32(float d)
{
        return d < SF_EXP_FAR_F32 ? E_F32_OF(E_F32_BITS((12583039.0f - d) - d) << 23) : 0;
}

/* log m = f + f^2 (f p(f) - 1/2) for m = 1 + f in [sqrt(1/2), sqrt(2)), where p is the minimax
 * polynomial of degree 7: its largest error is 6e-9 of log m. This returns f p(f) - 1/2. */
E_INLINE float sf_log_rest_f32(float f)
{
        float p = E_FMA(-0.0763442963f, f, 0.127615497f);
        p = E_FMA(p, f, -0.131601945f);
        p = E_FMA(p, f, 0.142017618f);
        p = E_FMA(p, f, -0.166233569f);
        p = E_FMA(p, f, 0.200012267f);
        p = E_FMA(p, f, -0.250008225f);
        p = E_FMA(p, f, 0.333333313f);
        return E_FMA(p, f, -0.5f);
}

/* times = 2^e m with m in [sqrt(1/2), sqrt(2)); f = m - 1 is exact. */
E_INLINE float sf_exp_log_f32(float power, float times)
{
        const E_U32 bits = E_F32_BITS(times), from = bits - 0x3f3504f3u + (128u << 23); /* the bits of sqrt(1/2) */
        const float e = E_F32_OF(0x4b000000u + (from >> 23)) - 8388736.0f;
        const float f = E_F32_OF(bits - (from >> 23 << 23) + (128u << 23)) - 1, u = E_FMA(0.5f, e, power);
        float p = E_FMA(f * f, sf_log_rest_f32(f), f);
        p = E_FMA(u, SF_LN4_F32, E_FMA(u, SF_LN4_REST_F32, p));
        p = times == 0 ? E_F32_OF(0xff800000u) : p;
        return times <= SF_MOST_F32 ? p : times;
}

#define SF_LN2_F32 0.693147182f
#define SF_LN2_REST_F32 -1.90465421e-09f

/* x = h ln 2 + *r with h = n - 12582912. The inner difference is exact. */
E_INLINE float sf_exp_parts_f32(float x, float *r)
{
        const float n = E_FMA(x, 1.44269502f, 12582912.0f), h = n - 12582912.0f;
        *r = E_FMA(-h, SF_LN2_REST_F32, E_FMA(-h, SF_LN2_F32, x));
        return n;
}

/* q of e^r = 1 + r (1 + r q(r)), |r| <= ln(2) / 2: the minimax polynomial of degree 4, whose
 * largest error is 3e-9 of e^r. */
E_INLINE float sf_exp_rest_f32(float r)
{
        float q = E_FMA(0.00138146f, r, 0.008368717f);
        q = E_FMA(q, r, 0.04166839f);
        q = E_FMA(q, r, 0.16666521f);
        return E_FMA(q, r, 0.49999994f);
}

/* e^r, |r| <= ln(2) / 2 */
E_INLINE float sf_exp_near_f32(float r)
{
        return E_FMA(E_FMA(sf_exp_rest_f32(r), r, 1.0f), r, 1.0f);
}

/* v 2^h, h = n - 12582912 between -150 and 128, rounded once: the first of the two multiplications
 * is exact. The shifts remove the bits of n that do not belong to h. */
E_INLINE float sf_exp_raise_f32(float v, float n)
{
        const E_U32 h = E_F32_BITS(n), half = h >> 1;
        return v * E_F32_OF((half << 23) + 0x3f800000u) * E_F32_OF(((h - half) << 23) + 0x3f800000u);
}

/* Beyond these the result no longer changes: 0, or infinity. NaN stays. */
#define SF_EXP_LEAST_F32 -104.0f
#define SF_EXP_LARGEST_F32 89.0f
E_INLINE float sf_exp_f32(float x)
{
        float v = x < SF_EXP_LEAST_F32 ? SF_EXP_LEAST_F32 : x, r;
        v = v > SF_EXP_LARGEST_F32 ? SF_EXP_LARGEST_F32 : v;
        const float n = sf_exp_parts_f32(v, &r);
        return sf_exp_raise_f32(sf_exp_near_f32(r), n);
}

/* The same for |x| up to SF_EXP_PLAIN_F32, where e^x is a normal number: its exponent is counted up. */
#define SF_EXP_PLAIN_F32 86.0f
E_INLINE float sf_exp_plain_f32(float x)
{
        float r;
        const float n = sf_exp_parts_f32(x, &r), v = sf_exp_near_f32(r);
        return E_F32_OF((E_F32_BITS(n) << 23) + E_F32_BITS(v));
}

/* e^r - 1 as the sum of the result and *rest, which is below half an ulp of the result. */
E_INLINE float sf_exp_less_one_f32(float r, float *rest)
{
        const float q = sf_exp_rest_f32(r), r2 = r * r, t = E_FMA(q, r2, r);
        *rest = E_FMA(q, r2, r - t);
        return t;
}

/* (a + a_rest) / (d + d_rest), d in [1, 2]: a first quotient, and a correction of it from the
 * remainder that it leaves. */
E_INLINE float sf_quotient_f32(float a, float a_rest, float d, float d_rest)
{
        const float one = E_RECIPROCAL(d), y = a * one;
        return E_FMA(E_FMA(-y, d, a) + E_FMA(-y, d_rest, a_rest), one, y);
}

/* 1 / (1 + e) with e = e^-|x|; for negative x, e / (1 + e). */
E_INLINE float sf_sigmoid_f32(float x)
{
        float v = x > 0 ? -x : x, r, rest;
        v = v < -104 ? -104 : v;
        const float n = sf_exp_parts_f32(v, &r), t = sf_exp_less_one_f32(r, &rest), p = 1 + t;
        const float e = sf_exp_raise_f32(p, n), e_rest = sf_exp_raise_f32((t - (p - 1)) + rest, n);
        const float d = 1 + e, d_rest = (e - (d - 1)) + e_rest;
        return sf_quotient_f32(x < 0 ? e : 1, x < 0 ? e_rest : 0, d, d_rest);
}

/* -u / (2 + u) with u = e^-2|x| - 1, and the sign of x. For |x| from 10 on it rounds to 1. */
E_INLINE float sf_tanh_f32(float x)
{
        float v = x > 0 ? -2 * x : 2 * x, r, t_rest;
        v = v < -20 ? -20 : v;
        const float n = sf_exp_parts_f32(v, &r), t = sf_exp_less_one_f32(r, &t_rest);
        const float power = E_F32_OF((E_F32_BITS(n) << 23) + 0x3f800000u), less = power - 1;
        const float u = E_FMA(power, t, less), less_rest = power - (less + 1);
        const float rest = E_FMA(power, t_rest, E_FMA(power, t, less - u) + less_rest);
        const float d = 2 + u, d_rest = (u - (d - 2)) + rest, y = sf_quotient_f32(-u, -rest, d, d_rest);
        return E_F32_OF((E_F32_BITS(y) & 0x7fffffffu) | (E_F32_BITS(x) & 0x80000000u));
}

/* x = 2^e m as in sf_exp_log_f32, but x may be subnormal. `off` is the rounding error of e ln 2 +
 * f; it is added to the small terms. */
E_INLINE float sf_log_f32(float x)
{
        const int small = x < 1.17549435e-38f;
        const E_U32 bits = E_F32_BITS(small ? x * 8388608.0f : x), from = bits - 0x3f3504f3u + (128u << 23);
        const float e = E_F32_OF(0x4b000000u + (from >> 23)) - (small ? 8388759.0f : 8388736.0f);
        const float f = E_F32_OF(bits - (from >> 23 << 23) + (128u << 23)) - 1;
        const float y = E_FMA(e, SF_LN2_F32, f), off = f - E_FMA(-e, SF_LN2_F32, y);
        const float z = y + E_FMA(f * f, sf_log_rest_f32(f), E_FMA(e, SF_LN2_REST_F32, off));
        const float none = x == 0 ? E_F32_OF(0xff800000u) : x < 0 ? E_F32_OF(0x7fc00000u) : x;
        return x > 0 && x <= SF_MOST_F32 ? z : none;
}

/* ------------------------------------------------------------------------------------------------
 * f64
 * ---------------------------------------------------------------------------------------------- */
/* ln 2 in two parts: the first has so few bits that its product with any exponent is exact. */
#define SF_LN2_HIGH 0.69314718036912382
#define SF_LN2_LOW 1.9082149292705877e-10

/* e^r - 1 for |r| <= ln(2) / 2. The series ends with r^13 / 13!; the error of that is below
 * 5e-18. Its coefficients are a list, because vector kernels (cpu/value_exponentials.inc.h) have
 * other work between one and the next. */
#define SF_EXP_LAST_F64 (1.0 / 6227020800)
#define SF_EXP_TERMS_F64(TERM) \
        TERM(1.0 / 479001600) TERM(1.0 / 39916800) TERM(1.0 / 3628800) TERM(1.0 / 362880) \
        TERM(1.0 / 40320) TERM(1.0 / 5040) TERM(1.0 / 720) TERM(1.0 / 120) TERM(1.0 / 24) \
        TERM(1.0 / 6) TERM(0.5)

E_INLINE double sf_exp_less_one_f64(double r)
{
        double p = SF_EXP_LAST_F64;
#define E_TERM(c) p = p * r + (c);
        SF_EXP_TERMS_F64(E_TERM)
#undef E_TERM
        return r + (r * r) * p;
}

E_INLINE double sf_exp_series_f64(double r)
{
        return 1 + sf_exp_less_one_f64(r);
}

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
        const double p = sf_exp_series_f64(r);
        /* Multiplies by 2^k in two steps, because k can exceed the range of exponents. The first
         * step is exact. The shifts remove the bits of `magic`. */
        return p * E_F64_OF((first + 1023) << 52) * E_F64_OF((k - first + 1023) << 52);
}

/* log(m) + u 2 ln 2, m in [sqrt(1/2), sqrt(2)). f = m - 1 is exact, and log m = f - (f^2 / 2 - s
 * (f^2 / 2 + rest)) with s = f / (2 + f). The series of `rest` ends with 2 s^22 / 23; the error of
 * that is below 2e-20. */
E_INLINE double sf_log_series_f64(double m, double u)
{
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
        return u * (2 * SF_LN2_HIGH) - ((half - (s * (half + p * s2) + u * (2 * SF_LN2_LOW))) - f);
}

E_INLINE double sf_log_f64(double x)
{
        /* As in sf_exp_log_f64, but x may be subnormal: it is then multiplied by 2^54 first. */
        const double inf = E_F64_OF(0x7ff0000000000000u);
        const double scaled = x < 2.2250738585072014e-308 ? x * 18014398509481984.0 : x;
        const E_U64 bits = E_F64_BITS(scaled), from = bits - 0x3fe6a09e667f3bcdu;
        double e = E_F64_OF(0x4330000000000000u + (from >> 52)) - 4503599627370496.0;
        e = e >= 2048 ? e - 4096 : e;
        e = x < 2.2250738585072014e-308 ? e - 54 : e;
        double y = sf_log_series_f64(E_F64_OF(bits - (from >> 52 << 52)), 0.5 * e);
        y = x == 0 ? -inf : y;
        y = x == inf ? inf : y;
        return x < 0 || x != x ? E_F64_OF(0x7ff8000000000000u) : y;
}

/* As in f32, but without the rest terms that make that one more exact. */
E_INLINE double sf_sigmoid_f64(double x)
{
        const double e = sf_exp_f64(x > 0 ? -x : x);
        return (x < 0 ? e : 1) / (1 + e);
}

/* As in f32; but from |x| = 0.55 on, 1 - 2 e / (1 + e) with e = 1 + u, which is more exact there.
 * For |x| from 22 on it rounds to 1. */
E_INLINE double sf_tanh_f64(double x)
{
        double v = x > 0 ? -2 * x : 2 * x;
        v = v < -44 ? -44 : v;
        const double n = v * 1.4426950408889634 + 6755399441055744.0, h = n - 6755399441055744.0;
        const double t = sf_exp_less_one_f64((v - h * SF_LN2_HIGH) - h * SF_LN2_LOW);
        const double power = E_F64_OF((E_F64_BITS(n) + 1023) << 52), u = power * t + (power - 1), e = power + power * t;
        const double z = (v > -1.1 ? -u : 2 * e) / (v > -1.1 ? 2 + u : 1 + e), y = v > -1.1 ? z : 1 - z;
        return E_F64_OF((E_F64_BITS(y) & 0x7fffffffffffffffu) | (E_F64_BITS(x) & 0x8000000000000000u));
}

#define SF_MOST_F64 1.7976931348623157e+308
#define SF_EXP_FAR_F64 512.0
#define SF_EXP_SMALL_F64 300.0

E_INLINE double sf_exp_power_f64(double x)
{
        const double h = (x * 0.72134752044448169 + 6755399441055744.0) - 6755399441055744.0;
        return h <= SF_MOST_F64 ? h : SF_MOST_F64;
}

/* The series is for half the range of r: it is evaluated at r / 2, and the result is squared. */
E_INLINE double sf_exp_times_f64(double x, double h)
{
        double r = (x - h * (2 * SF_LN2_HIGH)) - h * (2 * SF_LN2_LOW), q;
        r = r > 1 ? 1 : r;
        r = r < -1 ? -1 : r;
        q = sf_exp_series_f64(0.5 * r);
        q = h < -SF_MOST_F64 ? 0 : q * q;
        return h < SF_MOST_F64 ? q : x;
}

E_INLINE double sf_exp_small_f64(double x)
{
        const double n = x * 0.72134752044448169 + 6755399441055744.0, h = n - 6755399441055744.0;
        const double q = sf_exp_series_f64(0.5 * ((x - h * (2 * SF_LN2_HIGH)) - h * (2 * SF_LN2_LOW)));
        return E_F64_OF((E_F64_BITS(n) << 53) + E_F64_BITS(q * q));
}

E_INLINE double sf_exp_scale_f64(double d)
{
        return d < SF_EXP_FAR_F64 ? E_F64_OF(E_F64_BITS((6755399441056767.0 - d) - d) << 52) : 0;
}

E_INLINE double sf_exp_log_f64(double power, double times)
{
        const E_U64 bits = E_F64_BITS(times), bias = (E_U64)1024 << 52, from = bits - 0x3fe6a09e667f3bcdu + bias;
        const double e = E_F64_OF(0x4330000000000000u + (from >> 52)) - 4503599627371520.0;
        double y = sf_log_series_f64(E_F64_OF(bits - (from >> 52 << 52) + bias), power + 0.5 * e);
        y = times == 0 ? E_F64_OF(0xfff0000000000000u) : y;
        return times <= SF_MOST_F64 ? y : times;
}

#undef SF_LN4_F32
#undef SF_LN4_REST_F32
#undef SF_LN2_F32
#undef SF_LN2_REST_F32
#undef E_INLINE
#undef E_U32
#undef E_U64
#undef E_F32_BITS
#undef E_F32_OF
#undef E_F64_BITS
#undef E_F64_OF
#undef E_FMA
#undef E_RECIPROCAL
