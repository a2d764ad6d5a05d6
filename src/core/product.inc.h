/*
 * product.inc.h: a product of reals as a mantissa and an exponent, for numbers or for vectors of
 * them. A template.
 *
 * A product's value is mantissa * 2^exponent. The exponent is an integer with a much larger range
 * than a real's exponent, so no partial product overflows or underflows. Each combine rounds the
 * mantissa once, as one multiplication does where nothing overflows or underflows. Only the result
 * is brought back into the range. So the product of a zero and of numbers that would overflow is
 * zero, and the product of 1e-200 twice and 1e200 twice is 1.
 *
 *   lift     an element: its mantissa is in [1, 2), or the element is a zero, an infinity or a NaN
 *   combine  one rounded multiplication; the exponents are added. The left operand must be settled.
 *            The right one need not be: its mantissa may be as large as 2^100 for f32, which is
 *            more than a tile and the totals of all levels to its left can reach
 *   settle   brings a mantissa back to [1, 2), and limits an exponent of 32 bits: done to totals,
 *            which become left operands
 *   lower    the result: mantissa * 2^exponent, rounded once more where it is subnormal
 *
 * Parameters (undefined again at the end):
 *   P(name)              the name of an instance
 *   P_REAL               float or double, or a vector of them
 *   P_INT, P_UINT        integers of the same size, signed and unsigned
 *   P_BITS(v), P_OF(i)   a real's bits as P_UINT, and back
 *   P_CHOOSE(c, y, n)    P_INT: y where the comparison c of P_INTs holds, else n
 *   P_MANTISSA, P_BIAS   stored bits of a mantissa, and the bias of the exponent
 *   P_TIMES(a, b)        one rounded multiplication of P_REALs. If it is not defined, *
 *   P_ALIGN              how the struct is aligned. If it is not defined, as its members are
 *
 * This is both C and CUDA C++: the kernels of src/cuda include it too.
 */
#ifndef P_TIMES
#define P_TIMES(a, b) ((a) * (b))
#endif
#ifndef P_ALIGN
#define P_ALIGN
#endif
#define P_FIELD (2 * P_BIAS + 1) /* the exponent field of an infinity or a NaN */

typedef struct P_ALIGN P(product) {
        P_REAL mantissa;
        P_INT exponent;
} P(product);

/* e, limited to what is between the two. */
SF_INLINE P_INT P(product_between)(P_INT e, P_INT lowest, P_INT highest)
{
        const P_INT least = P_CHOOSE(e < lowest, lowest, e);
        return P_CHOOSE(least > highest, highest, least);
}

/* The same value, with a mantissa in [1, 2). */
SF_INLINE P(product) P(product_split)(P(product) v)
{
        const P_UINT bits = P_BITS(v.mantissa);
        const P_INT field = (P_INT)(bits >> P_MANTISSA & P_FIELD);
        const P_INT exponent = (P_INT)((P_UINT)v.exponent + (P_UINT)(field - P_BIAS));
        const P_UINT none = {0};
        const P_INT one = (P_INT)((bits & ~((none + P_FIELD) << P_MANTISSA)) |
                                  (none + P_BIAS) << P_MANTISSA);
        /* Zeros, infinities and NaN stay as they are; their exponent is ignored. */
        const P_INT own = P_CHOOSE(field == P_FIELD, (P_INT)bits, one);
        v.exponent = exponent;
        v.mantissa = P_OF((P_UINT)P_CHOOSE(field == 0, (P_INT)bits, own));
        return v;
}

/*
 * An exponent of 32 bits is limited to 2^27, so that it does not wrap: the sum of a sequence's
 * totals, one for each level, fits for 2^34 of the largest numbers, or 2^41 random ones. A product
 * that is too large is then infinite however long its sequence is. What is beyond the limit cannot
 * be brought back; that would take a million of the smallest numbers after a million of the
 * largest. No sequence fills 64 bits.
 */
SF_INLINE P(product) P(product_settle)(P(product) v)
{
        v = P(product_split)(v);
        if (P_MANTISSA == 23) {
                const P_INT none = {0}, most = none + (1 << 27);
                v.exponent = P(product_between)(v.exponent, none - most, most);
        }
        return v;
}

/* A real times 2^exponent; it may be subnormal. */
SF_INLINE P(product) P(product_of)(P_REAL v, P_INT exponent)
{
        /* Multiplying by 2^(mantissa bits + 1) makes the smallest subnormal normal, and is
         * exact. */
        const P_UINT zero = {0};
        const P_INT none = {0}, less = none + (P_MANTISSA + 1);
        const P_REAL scale = P_OF((zero + (P_BIAS + P_MANTISSA + 1)) << P_MANTISSA);
        const P_INT small = (P_INT)(P_BITS(v) >> P_MANTISSA & P_FIELD);
        const P_INT scaled = (P_INT)P_BITS(P_TIMES(v, scale));
        P(product) p;
        p.mantissa = P_OF((P_UINT)P_CHOOSE(small == 0, scaled, (P_INT)P_BITS(v)));
        p.exponent = (P_INT)((P_UINT)exponent - (P_UINT)P_CHOOSE(small == 0, less, none));
        return P(product_split)(p);
}

SF_INLINE P(product) P(product_lift)(P_REAL v)
{
        const P_INT none = {0};
        return P(product_of)(v, none);
}

/*
 * product_lift of a number that is not subnormal, a zero, an infinity or a NaN, and is below
 * 2^P_BIAS. The mantissa is in [1, 2) for half = 0, and in [0.5, 1) for half = 1: if a caller uses
 * the two in turn, the mantissa of a product does not grow.
 */
SF_INLINE P(product) P(product_lift_normal)(P_REAL v, P_INT half)
{
        const P_UINT none = {0}, bits = P_BITS(v), bias = none + P_BIAS - (P_UINT)half;
        P(product) p;
        p.mantissa = P_OF((bits & ~((none + P_FIELD) << P_MANTISSA)) | bias << P_MANTISSA);
        p.exponent = (P_INT)(bits + bits - (bias << (P_MANTISSA + 1))) >> (P_MANTISSA + 1);
        return p;
}

/* The same value, with its mantissa halved. */
SF_INLINE P(product) P(product_halve)(P(product) v)
{
        const P_UINT none = {0}, one = none + 1;
        v.mantissa = P_TIMES(v.mantissa, P_OF((none + (P_BIAS - 1)) << P_MANTISSA));
        v.exponent = (P_INT)((P_UINT)v.exponent + one);
        return v;
}

SF_INLINE P(product) P(product_combine)(P(product) left, P(product) right)
{
        left.mantissa = P_TIMES(left.mantissa, right.mantissa);
        left.exponent = (P_INT)((P_UINT)left.exponent + (P_UINT)right.exponent);
        return left;
}

/* e, limited to the exponents of normal numbers. */
SF_INLINE P_INT P(product_limit)(P_INT e)
{
        const P_INT none = {0};
        return P(product_between)(e, none - (P_BIAS - 1), none + P_BIAS);
}

SF_INLINE P_REAL P(product_power)(P_INT e)
{
        return P_OF((P_UINT)(e + P_BIAS) << P_MANTISSA);
}

SF_INLINE P_REAL P(product_lower)(P(product) v)
{
        v = P(product_split)(v);
        /* Multiplies in two steps. The first is exact. The second overflows, rounds to a subnormal
         * or zero, or multiplies by one. */
        const P_INT first = P(product_limit)(v.exponent);
        const P_INT second = P(product_limit)((P_INT)((P_UINT)v.exponent - (P_UINT)first));
        return P_TIMES(P_TIMES(v.mantissa, P(product_power)(first)), P(product_power)(second));
}

/*
 * product_lower where 2^exponent is a normal number: the exponent is from 1 - P_BIAS to P_BIAS. The
 * one multiplication is exact, overflows, or rounds to a subnormal number.
 */
SF_INLINE P_REAL P(product_lower_near)(P(product) v)
{
        return P_TIMES(v.mantissa, P(product_power)(v.exponent));
}

/*
 * product_lower of a mantissa that is a normal number below 2^102 for f32, below 2^400 for f64, or a
 * zero, an infinity or a NaN. The exponent is split into two powers of two, of which the last is as
 * large or as small as it can be, unless the first is 1. Where the first product is subnormal, the
 * second one is zero, so there is only one rounding. At the limits the result is infinite or zero.
 */
SF_INLINE P_REAL P(product_lower_loose)(P(product) v)
{
        const P_INT none = {0}, lowest = none - 2 * (P_BIAS - 1), highest = none + 2 * P_BIAS;
        const P_INT e = P(product_between)(v.exponent, lowest, highest), last = P(product_limit)(e);
        return P_TIMES(P_TIMES(v.mantissa, P(product_power)(e - last)), P(product_power)(last));
}

#undef P_FIELD
#undef P
#undef P_REAL
#undef P_INT
#undef P_UINT
#undef P_BITS
#undef P_OF
#undef P_CHOOSE
#undef P_MANTISSA
#undef P_BIAS
#undef P_TIMES
#undef P_ALIGN
