/*
 * value_plain.inc.h: a value that is a number, combined by K_COMBINE. Template; values.inc.h says
 * what such a file has.
 */
typedef N(vec) O(val);
#include "cpu/value_none.inc.h"

SF_INLINE O(val) O(settle)(O(val) v)
{
        return v;
}
SF_INLINE O(val) O(combine)(O(val) a, O(val) b)
{
        return K_COMBINE(a, b);
}
SF_INLINE O(val) O(lift)(N(vec) v, const O(none) *none)
{
        (void)none;
#if K_CONVERT == K_NONZERO
        return (N(vec))((v & none->turn) != 0) & 1;
#elif K_CONVERT == K_FROM_INTEGER
        return (v ^ N(sign)(none->turn)) - N(sign)(none->turn);
#elif defined(K_TURN)
        return (N(vec))((K_BITS)v ^ none->turn);
#else
        return v;
#endif
}
#if K_CONVERT == K_NONZERO || K_CONVERT == K_FROM_INTEGER
SF_INLINE N(vec) O(lower)(O(val) v, const O(none) *none)
{
        (void)none;
        return v;
}
#else
SF_INLINE N(vec) O(lower)(O(val) v, const O(none) *none)
{
        return O(lift)(v, none);
}
#endif
SF_INLINE O(val) O(raise)(N(vec) result, const O(none) *none)
{
        return O(lower)(result, none);
}
SF_INLINE O(val) O(broadcast)(sf_value value, const O(none) *none)
{
        return O(lower)(N(broadcast)(value), none);
}
