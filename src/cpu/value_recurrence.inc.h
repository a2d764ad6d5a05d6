/*
 * value_recurrence.inc.h: several steps h -> a h + b, combined into one such step. Template;
 * values.inc.h says what such a file has.
 */
typedef struct O(val) {
        N(vec) b;
        N(vec) a;
} O(val);
#define K_FIRST b
#define K_SECOND a
#define K_SECOND_VEC N(vec)
#include "cpu/value_none.inc.h"

SF_INLINE O(val) O(settle)(O(val) v)
{
        return v;
}
SF_INLINE O(val) O(combine)(O(val) l, O(val) r)
{
        return (O(val)){r.a * l.b + r.b, l.a * r.a};
}
#define K_VANISHES
SF_INLINE O(val) O(lift_two)(N(vec) b, N(vec) a, const O(none) *none)
{
        (void)none;
        return (O(val)){b, a};
}
SF_INLINE N(vec) O(lower)(O(val) v, const O(none) *none)
{
        (void)none;
        return v.b;
}
SF_INLINE O(val) O(raise)(N(vec) result, const O(none) *none)
{
        const N(vec) zero = {0};
        (void)none;
        return (O(val)){result, zero + 1};
}
SF_INLINE O(val) O(broadcast)(sf_value value, const O(none) *none)
{
        const N(vec) zero = {0};
        (void)none;
        return (O(val)){N(broadcast)(value), zero + value.K_CAT(also, K_LANE_BITS)};
}
