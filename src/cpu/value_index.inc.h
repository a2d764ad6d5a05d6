/*
 * value_index.inc.h: an element and its position; the better element wins. Template; values.inc.h
 * says what such a file has.
 *
 * Bits of elements are inverted so that the larger is the better, and bits of positions so that of
 * equal elements the smaller position wins. "No position" is the largest number.
 *
 * Folds of rows and columns number elements themselves (K_NUMBERS): O(prefer) combines values that
 * come in order. All other kernels find positions stored beside the elements.
 */
typedef struct O(val) {
        N(vec) element;
        K_INTEGERS at;
} O(val);
#define K_FIRST element
#define K_SECOND at
#define K_SECOND_VEC K_INTEGERS
#include "cpu/value_none.inc.h"
#define K_NUMBERS

SF_INLINE K_INTEGERS O(nowhere)(void)
{
        const K_INTEGERS zero = {0};
        return zero + (K_LANE_INTEGER)(K_SIGN - 1);
}
SF_INLINE O(val) O(settle)(O(val) v)
{
        return v;
}
/* b where the mask is on, else a. */
SF_INLINE O(val) O(choose)(v_mask m, O(val) a, O(val) b)
{
        return (O(val)){N(blend)(m, b.element, a.element), (K_INTEGERS)N(blend)(m, (N(vec))b.at, (N(vec))a.at)};
}
SF_INLINE O(val) O(combine)(O(val) a, O(val) b)
{
        const v_mask above = K_CAT(v_above_, K_LANE)(b.element, a.element), below = K_CAT(v_above_, K_LANE)(a.element, b.element);
        return O(choose)(above | (~below & K_CAT(v_above_i, K_LANE_BITS)(a.at, b.at)), a, b);
}
/* The same if a's position is known to win for equal elements. */
SF_INLINE O(val) O(prefer)(O(val) a, O(val) b)
{
        return O(choose)(K_CAT(v_above_, K_LANE)(b.element, a.element), a, b);
}
SF_INLINE O(val) O(lift_two)(N(vec) v, N(vec) position, const O(none) *none)
{
        return (O(val)){(N(vec))((K_BITS)v ^ none->turn), (K_INTEGERS)position ^ none->late};
}
SF_INLINE N(vec) O(lower)(O(val) v, const O(none) *none)
{
        return (N(vec))((v.at ^ none->late) | (K_INTEGERS)(v.at == O(nowhere)()));
}
/* A value that is lowered to this result. The result -1, "no position", is lowered to itself. */
SF_INLINE O(val) O(raise)(N(vec) result, const O(none) *none)
{
        const K_INTEGERS at = (K_INTEGERS)result, none_at = (K_INTEGERS)(at < 0);
        return (O(val)){none->element, ((at ^ none->late) & ~none_at) | (O(nowhere)() & none_at)};
}
/* Only the identity is a value without an element. */
SF_INLINE O(val) O(broadcast)(sf_value value, const O(none) *none)
{
        return (O(val)){(N(vec))((K_BITS)N(broadcast)(value) ^ none->turn), O(nowhere)()};
}
