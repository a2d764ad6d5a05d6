/*
 * value_product.inc.h: a product of reals as a mantissa and an exponent (core/product.inc.h).
 * Template; values.inc.h says what such a file has.
 */
#define P(name) O(name)
#define P_REAL N(vec)
#define P_INT K_INTEGERS
#define P_UINT K_BITS
#define P_BITS(v) ((K_BITS)(v))
#define P_OF(i) ((N(vec))(i))
#define P_CHOOSE(c, y, n) ((K_INTEGERS)(((c) & (y)) | (~(c) & (n))))
#define P_MANTISSA (K_LANE_BITS == 32 ? 23 : 52)
#define P_BIAS (K_LANE_BITS == 32 ? 127 : 1023)
#include "core/product.inc.h"
typedef O(product) O(val);
#define K_FIRST mantissa
#define K_SECOND exponent
#define K_SECOND_VEC K_INTEGERS
#include "cpu/value_none.inc.h"

SF_INLINE O(val) O(settle)(O(val) v)
{
        return O(product_settle)(v);
}
SF_INLINE O(val) O(combine)(O(val) a, O(val) b)
{
        return O(product_combine)(a, b);
}
SF_INLINE O(val) O(lift)(N(vec) v, const O(none) *none)
{
        (void)none;
        return O(product_lift)(v);
}
SF_INLINE N(vec) O(lower)(O(val) v, const O(none) *none)
{
        (void)none;
        return O(product_lower)(v);
}
SF_INLINE O(val) O(raise)(N(vec) result, const O(none) *none)
{
        return O(lift)(result, none);
}
SF_INLINE O(val) O(broadcast)(sf_value value, const O(none) *none)
{
        const K_INTEGERS zero = {0};
        (void)none;
        return O(product_of)(N(broadcast)(value), zero + (K_LANE_INTEGER)value.exponent);
}
