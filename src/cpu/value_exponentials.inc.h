/*
 * value_exponentials.inc.h: a sum of exponentials, a multiple of e to some power. Template; values.inc.h says what such a file has.
 */
typedef struct O(val) {
        N(vec) power;
        N(vec) times;
} O(val);
#define K_FIRST power
#define K_SECOND times
#define K_SECOND_VEC N(vec)
#include "cpu/value_none.inc.h"

/* One call for many places: it is long. The compiler turns the loop into vectors. */
static V_APART N(vec) O(exp)(N(vec) v)
{
        K_LANE_C a[K_WIDTH];
        memcpy(a, &v, sizeof a);
        for (int i = 0; i < K_WIDTH; i++)
                a[i] = K_CAT(sf_exp_below_, K_LANE)(a[i]);
        return N(get)(a);
}
static V_APART N(vec) O(log)(N(vec) v)
{
        K_LANE_C a[K_WIDTH];
        memcpy(a, &v, sizeof a);
        for (int i = 0; i < K_WIDTH; i++)
                a[i] = K_CAT(sf_log_above_, K_LANE)(a[i]);
        return N(get)(a);
}

SF_INLINE N(vec) O(either)(K_INTEGERS first, N(vec) a, N(vec) b)
{
        return (N(vec))(((K_INTEGERS)a & first) | ((K_INTEGERS)b & ~first));
}
SF_INLINE O(val) O(settle)(O(val) v)
{
        return v;
}
SF_INLINE O(val) O(combine)(O(val) a, O(val) b)
{
        /* a's power stays where it is the larger, or NaN. Of equal powers, infinite ones too, the difference is 0. */
        const K_INTEGERS left = (K_INTEGERS)(a.power != a.power) | (K_INTEGERS)(a.power >= b.power), same = (K_INTEGERS)(a.power == b.power);
        const N(vec) large = O(either)(left, a.power, b.power), small = O(either)(left, b.power, a.power);
        const N(vec) most = O(either)(left, a.times, b.times), more = O(either)(left, b.times, a.times);
        const N(vec) below = (N(vec))((K_INTEGERS)(small - large) & ~same);
        return (O(val)){large, most + more * O(exp)(below)};
}
SF_INLINE O(val) O(lift)(N(vec) v, const O(none) *none)
{
        /* e^-inf is nothing, once. */
        const N(vec) zero = {0}, one = zero + 1;
        (void)none;
        return (O(val)){v, (N(vec))((K_INTEGERS)one & (K_INTEGERS)(v != zero - (K_LANE_C)INFINITY))};
}
SF_INLINE N(vec) O(lower)(O(val) v, const O(none) *none)
{
        (void)none;
        return v.power + O(log)(v.times);
}
SF_INLINE O(val) O(raise)(N(vec) result, const O(none) *none)
{
        return O(lift)(result, none);
}
SF_INLINE O(val) O(broadcast)(sf_value value, const O(none) *none)
{
        const N(vec) zero = {0};
        (void)none;
        return (O(val)){N(broadcast)(value), zero + value.K_CAT(also, K_LANE_BITS)};
}
