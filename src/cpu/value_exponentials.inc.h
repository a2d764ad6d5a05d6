/*
 * value_exponentials.inc.h: a sum of exponentials, as a multiple of a power of four
 * (core/exponentials.inc.h). Template; values.inc.h says what such a file has. A power that is NaN,
 * which no sum has, marks a `times` that is already a result.
 */
typedef struct O(val) {
        N(vec) power;
        N(vec) times;
} O(val);
#define K_FIRST power
#define K_SECOND times
#define K_SECOND_VEC N(vec)
#include "cpu/value_none.inc.h"

/* The compiler vectorises these loops. They are long, and for elements and totals of usual size not
 * needed: calls. */
static V_APART O(val) O(lift_far)(N(vec) v)
{
        K_LANE_C x[K_WIDTH], power[K_WIDTH];
        memcpy(x, &v, sizeof x);
        for (int i = 0; i < K_WIDTH; i++) {
                power[i] = K_CAT(sf_exp_power_, K_LANE)(x[i]);
                x[i] = K_CAT(sf_exp_times_, K_LANE)(x[i], power[i]);
        }
        return (O(val)){N(get)(power), N(get)(x)};
}
SF_INLINE O(val) O(lift)(N(vec) v, const O(none) *none)
{
        (void)none;
        return O(lift_far)(v);
}
static V_APART N(vec) O(log_of)(N(vec) powers, N(vec) multiples)
{
        K_LANE_C power[K_WIDTH], times[K_WIDTH];
        memcpy(power, &powers, sizeof power);
        memcpy(times, &multiples, sizeof times);
        for (int i = 0; i < K_WIDTH; i++)
                times[i] = power[i] == power[i] ? K_CAT(sf_exp_log_, K_LANE)(power[i], times[i]) : times[i];
        return N(get)(times);
}
SF_INLINE N(vec) O(lower)(O(val) v, const O(none) *none)
{
        (void)none;
        return O(log_of)(v.power, v.times);
}

SF_INLINE N(vec) O(either)(K_INTEGERS first, N(vec) a, N(vec) b)
{
        return (N(vec))(((K_INTEGERS)a & first) | ((K_INTEGERS)b & ~first));
}
SF_INLINE O(val) O(settle)(O(val) v)
{
        return v;
}
V_LONG O(val) O(combine)(O(val) a, O(val) b)
{
        const K_INTEGERS right = (K_INTEGERS)(b.power > a.power);
        const N(vec) large = O(either)(right, b.power, a.power), small = O(either)(right, a.power, b.power);
        const N(vec) most = O(either)(right, b.times, a.times), more = O(either)(right, a.times, b.times);
        /* sf_exp_scale for a vector. */
        const N(vec) zero = {0}, d = large - small, n = ((zero + (K_LANE_C)(K_LANE_BITS == 32 ? 12583039.0 : 6755399441056767.0)) - d) - d;
        const K_INTEGERS near = (K_INTEGERS)(d < zero + (K_LANE_C)(K_LANE_BITS == 32 ? SF_EXP_FAR_F32 : SF_EXP_FAR_F64));
        return (O(val)){large, most + more * (N(vec))((K_INTEGERS)((K_BITS)n << (K_LANE_BITS == 32 ? 23 : 52)) & near)};
}

#if K_CONVERT == K_SAME /* for f16 and bf16 too, which come later */
#if K_LANE_BITS == 64
/* sf_exp_small of up to EXPS vectors. Each operation waits for the one before it, 35 in turn, and a
 * core does not look far enough ahead to begin with the next vector meanwhile. So all vectors take
 * one step before any takes the next. */
enum { EXPS = 8 };
#define STEP(v, made)                     \
        V_UNROLL                          \
        for (int i = 0; i < count; i++) { \
                (v)[i] = (made);          \
                V_KEEP((v)[i]);           \
        }
#define TERM(c) STEP(p, p[i] * r[i] + (c))
SF_INLINE void exps_at_once(v_f64 *x, const int count)
{
        const double magic = 6755399441055744.0;
        const v_f64 zero = {0};
        v_f64 n[EXPS], r[EXPS], p[EXPS];
        STEP(n, x[i] * 0.72134752044448169 + magic)
        STEP(p, n[i] - magic)
        STEP(r, 0.5 * ((x[i] - p[i] * (2 * SF_LN2_HIGH)) - p[i] * (2 * SF_LN2_LOW)))
        V_UNROLL
        for (int i = 0; i < count; i++)
                p[i] = zero + SF_EXP_LAST_F64;
        SF_EXP_TERMS_F64(TERM)
        STEP(p, 1 + (r[i] + (r[i] * r[i]) * p[i]))
        STEP(x, (v_f64)(((v_u64)n[i] << 53) + (v_u64)(p[i] * p[i])))
}
#undef TERM
#undef STEP
static V_APART void exps_of_eight(v_f64 *x)
{
        exps_at_once(x, EXPS);
}
SF_INLINE void exps_f64(v_f64 *x, const int count)
{
        int i = 0;
        for (; i + EXPS <= count; i += EXPS)
                exps_of_eight(x + i);
        exps_at_once(x + i, count % EXPS);
}
#else
/* The compiler vectorises the inner loop. These chains are short enough to overlap, and a call
 * would cost a sixth where vectors are long. */
V_LONG void exps_f32(v_f32 *x, const int count)
{
        V_UNROLL
        for (int i = 0; i < count; i++) {
                float lane[V_LANES4];
                memcpy(lane, &x[i], sizeof lane);
                for (int l = 0; l < V_LANES4; l++)
                        lane[l] = sf_exp_small_f32(lane[l]);
                memcpy(&x[i], lane, sizeof lane);
        }
}
#endif
#endif

/*
 * e^x of `count` vectors as numbers, which are sums of exponentials with a power of 0. False: some
 * element is too large or too small for that, or not a number. Sums of such numbers have the bits
 * of sums of powers and multiples: scaling by a power of four changes no rounding in their range.
 */
#define K_SMALL
SF_INLINE bool O(are_small)(const N(vec) *x, const int count, N(vec) *e)
{
        const K_LANE_C limit = K_LANE_BITS == 32 ? SF_EXP_SMALL_F32 : SF_EXP_SMALL_F64;
        const K_BITS zero = {0};
        K_BITS worst = zero;
        K_LANE_UNSIGNED bits;
        memcpy(&bits, &limit, sizeof bits);
        V_UNROLL
        for (int i = 0; i < count; i++)
                worst = K_CAT(v_larger_u, K_LANE_BITS)(worst, (K_BITS)x[i] & (K_LANE_UNSIGNED)(K_SIGN - 1));
        if (v_any(K_CAT(v_above_u, K_LANE_BITS)(worst, zero + (bits - 1))))
                return false;
        memcpy(e, x, (size_t)count * sizeof *e);
        K_CAT(exps_, K_LANE)(e, count);
        return true;
}
SF_INLINE O(val) O(of_small)(N(vec) sum)
{
        const N(vec) zero = {0};
        return (O(val)){zero, sum};
}
SF_INLINE O(val) O(raise)(N(vec) result, const O(none) *none)
{
        const N(vec) zero = {0};
        (void)none;
        return (O(val)){zero + (K_LANE_C)NAN, result};
}
SF_INLINE O(val) O(broadcast)(sf_value value, const O(none) *none)
{
        const N(vec) zero = {0};
        (void)none;
        return (O(val)){N(broadcast)(value), zero + value.K_CAT(also, K_LANE_BITS)};
}
