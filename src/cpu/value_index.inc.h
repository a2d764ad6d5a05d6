/*
 * value_index.inc.h: an element and its position, of which the better element wins. Template; values.inc.h says what such a file has.
 *
 * Elements are turned so that the larger is the better, positions so that of equal ones the smaller is. A position that nothing stands at is the
 * largest there is.
 */
typedef struct O(val) {
        N(vec) element;
        K_INTEGERS at;
} O(val);
#define K_FIRST element
#define K_SECOND at
#define K_SECOND_VEC K_INTEGERS
#include "cpu/value_none.inc.h"

SF_INLINE K_INTEGERS O(nowhere)(void)
{
        const K_INTEGERS zero = {0};
        return zero + (K_LANE_INTEGER)(K_SIGN - 1);
}
SF_INLINE O(val) O(settle)(O(val) v)
{
        return v;
}
SF_INLINE O(val) O(combine)(O(val) a, O(val) b)
{
#if K_REAL /* NaN before all else */
        const K_INTEGERS na = (K_INTEGERS)(a.element != a.element), nb = (K_INTEGERS)(b.element != b.element);
        const K_INTEGERS above = (K_INTEGERS)(b.element > a.element) | (nb & ~na), same = (K_INTEGERS)(b.element == a.element) | (na & nb);
#else
        const K_INTEGERS above = (K_INTEGERS)(b.element > a.element), same = (K_INTEGERS)(b.element == a.element);
#endif
        const K_INTEGERS right = above | (same & (K_INTEGERS)(b.at < a.at));
        return (O(val)){(N(vec))(((K_INTEGERS)b.element & right) | ((K_INTEGERS)a.element & ~right)), (b.at & right) | (a.at & ~right)};
}
SF_INLINE O(val) O(lift_two)(N(vec) v, N(vec) position, const O(none) *none)
{
        return (O(val)){(N(vec))((K_BITS)v ^ none->turn), (K_INTEGERS)position ^ none->late};
}
SF_INLINE N(vec) O(lower)(O(val) v, const O(none) *none)
{
        return (N(vec))((v.at ^ none->late) | (K_INTEGERS)(v.at == O(nowhere)()));
}
/* A result is not a value: but one that would be lowered to it. That of nothing, -1, is lowered to itself. */
SF_INLINE O(val) O(raise)(N(vec) result, const O(none) *none)
{
        const K_INTEGERS at = (K_INTEGERS)result, none_at = (K_INTEGERS)(at < 0);
        return (O(val)){none->element, ((at ^ none->late) & ~none_at) | (O(nowhere)() & none_at)};
}
/* Only the identity has a value before there are elements. */
SF_INLINE O(val) O(broadcast)(sf_value value, const O(none) *none)
{
        return (O(val)){(N(vec))((K_BITS)N(broadcast)(value) ^ none->turn), O(nowhere)()};
}
