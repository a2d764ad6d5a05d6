/*
 * kernels.inc.h: the kernels of one operation on one storage type. Template, included by ops.inc.h once an operation, and so by types.inc.h once
 * a type. No kernel names an operation: what one is, its description in ops.inc.h says, in these parameters (undefined again at the foot):
 *
 *   K_OP             the operation's name
 *   K_ABSENT         define it where this type leaves the operation to another's kernels, or does not have it; nothing else is needed then
 *   K_COMBINE(a, b)  two vectors combined lane by lane, a to the left
 *   K_PRODUCT        instead: values are the two components of core/product.inc.h
 *   K_ORDERED        define it where the grouping is the tree's. Else any grouping gives the same bits ("free"), and one running value
 *                    stands for all that is to the left
 *   K_COMMUTES       define it where a and b may be exchanged
 *   K_AGAIN          define it where combining with what is in there already changes nothing
 *   K_NEUTRAL        a vector that changes no value, not even the sign of a zero, where the identity might
 *   K_WHOLE          define it where all instances are worth their size: rows four at a time whatever is to their left, rows of a few vectors,
 *                    four tiles of a narrow matrix, and a shared axis that is read once
 *
 * The type's parameters are in types.inc.h.
 */
#define O(name) K_CAT(K_CAT(name, _), K_CAT(K_OP, K_CAT(_, K_NAME)))

#ifndef K_ABSENT

/* ------------------------------------------------------------------------------------------------------------
 * Values: a vector of them, in registers and in scratch memory
 * ---------------------------------------------------------------------------------------------------------- */
#ifdef K_PRODUCT
#define K_PARTS 2
#define K_INTEGERS K_CAT(v_i, K_LANE_BITS)
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

SF_INLINE O(val) O(lift)(N(vec) v)
{
        return O(product_lift)(v);
}
SF_INLINE O(val) O(settle)(O(val) v)
{
        return O(product_settle)(v);
}
SF_INLINE N(vec) O(lower)(O(val) v)
{
        return O(product_lower)(v);
}
SF_INLINE O(val) O(combine)(O(val) a, O(val) b)
{
        return O(product_combine)(a, b);
}
SF_INLINE O(val) O(get)(const char *p)
{
        return (O(val)){N(get)(p), (K_INTEGERS)N(get)(p + V_BYTES)};
}
SF_INLINE void O(put)(char *p, O(val) v)
{
        N(put)(p, v.mantissa);
        N(put)(p + V_BYTES, (N(vec))v.exponent);
}
SF_INLINE O(val) O(permute)(O(val) v, v_raw index)
{
        return (O(val)){N(permute)(v.mantissa, index), (K_INTEGERS)N(permute)((N(vec))v.exponent, index)};
}
SF_INLINE O(val) O(blend)(v_mask m, O(val) yes, O(val) no)
{
        return (O(val)){N(blend)(m, yes.mantissa, no.mantissa), (K_INTEGERS)N(blend)(m, (N(vec))yes.exponent, (N(vec))no.exponent)};
}
SF_INLINE O(val) O(broadcast)(sf_value value)
{
        const K_INTEGERS none = {0};
        return O(product_of)(N(broadcast)(value), none + (K_LANE_INTEGER)value.exponent);
}
#else
#define K_PARTS 1
typedef N(vec) O(val);

SF_INLINE O(val) O(lift)(N(vec) v)
{
        return v;
}
SF_INLINE O(val) O(settle)(O(val) v)
{
        return v;
}
SF_INLINE N(vec) O(lower)(O(val) v)
{
        return v;
}
SF_INLINE O(val) O(combine)(O(val) a, O(val) b)
{
        return K_COMBINE(a, b);
}
SF_INLINE O(val) O(get)(const char *p)
{
        return N(get)(p);
}
SF_INLINE void O(put)(char *p, O(val) v)
{
        N(put)(p, v);
}
SF_INLINE O(val) O(permute)(O(val) v, v_raw index)
{
        return N(permute)(v, index);
}
SF_INLINE O(val) O(blend)(v_mask m, O(val) yes, O(val) no)
{
        return N(blend)(m, yes, no);
}
SF_INLINE O(val) O(broadcast)(sf_value value)
{
        return N(broadcast)(value);
}
#endif

/* Bytes that a vector of values, and the value of one lane, take in scratch memory. A vector's components follow one another there. */
#define K_ENTRY (K_PARTS * V_BYTES)
#define K_EACH (K_PARTS * K_LANE_BYTES)

/* Elements as values, with the mask applied; mask may be NULL. Of a part, the other lanes hold garbage. */
SF_INLINE O(val) O(load)(const char *x, const uint8_t *m, O(val) identity)
{
        O(val) v = O(lift)(N(load)(x));
        return m ? O(blend)(N(mask)(m), v, identity) : v;
}
SF_INLINE O(val) O(load_part)(const char *x, const uint8_t *m, O(val) identity, int first, int count)
{
        O(val) v = O(lift)(N(load_part)(x, first, count));
        return m ? O(blend)(N(mask_part)(m, first, count), v, identity) : v;
}
/* Likewise where all lanes may be there. */
SF_INLINE O(val) O(load_some)(const char *x, const uint8_t *m, O(val) identity, int first, int count)
{
        return count == K_WIDTH ? O(load)(x, m, identity) : O(load_part)(x, m, identity, first, count);
}

/* Every position of every column becomes what stands in the lanes from `from` on, `inner` of them. */
SF_INLINE O(val) O(spread)(O(val) v, int from, int inner)
{
#ifdef K_PRODUCT
        v.exponent = (K_INTEGERS)N(spread)((N(vec))v.exponent, from, inner);
        v.mantissa = N(spread)(v.mantissa, from, inner);
        return v;
#else
        return N(spread)(v, from, inner);
#endif
}

/* A value that changes none. */
SF_INLINE O(val) O(neutral)(O(val) identity)
{
#ifdef K_NEUTRAL
        (void)identity;
        return K_NEUTRAL;
#else
        return identity;
#endif
}

/* The scan of a vector's lanes. `levels` is a constant where the whole vector is one run. */
SF_INLINE O(val) O(lane_scan)(O(val) v, const N(tables) *t, int levels)
{
        V_UNROLL
        for (int k = 0; k < levels; k++) {
                const O(val) sum = O(combine)(O(permute)(v, t->level[k]), v);
#ifdef K_AGAIN
                v = sum; /* a lane with nothing to its left meets itself */
#else
                v = O(blend)(t->level_on[k], sum, v);
#endif
        }
        return v;
}

/* What stands to the left of the whole piece. */
SF_INLINE void O(add_carry)(const sf_carry *carry, O(val) *v, const int count)
{
        for (int e = 0; e < carry->count; e++) {
                O(val) entry = O(get)(carry->entries + e * carry->entry_stride);
                V_UNROLL
                for (int i = 0; i < count; i++)
                        v[i] = O(combine)(entry, v[i]);
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Values in scratch memory, as the host moves them about
 * ---------------------------------------------------------------------------------------------------------- */
static void O(fill)(void *values, int64_t count, sf_value value)
{
        const O(val) v = O(broadcast)(value);
        int64_t i = 0;
        for (; i + K_WIDTH <= count || (K_PARTS > 1 && i < count); i += K_WIDTH)
                O(put)((char *)values + i * K_EACH, v);
        /* Values of one component are an array, which may end anywhere. */
        if (i < count)
                memcpy((char *)values + i * K_EACH, &v, (size_t)((count - i) * K_EACH));
}

static void O(join)(void *a, const void *b, int64_t count)
{
        for (int64_t i = 0; i < count; i += K_WIDTH) {
                char *at = (char *)a + i * K_EACH;
                O(put)(at, O(settle)(O(combine)(O(get)(at), O(get)((const char *)b + i * K_EACH))));
        }
}

static void O(narrow)(void *elements, const void *values, int64_t count)
{
        for (int64_t i = 0; i < count; i += K_WIDTH) {
                int part = count - i < K_WIDTH ? (int)(count - i) : K_WIDTH;
                N(store_part)((char *)elements + i * K_SIZE, O(lower)(O(get)((const char *)values + i * K_EACH)), 0, part);
        }
}

#include "cpu/scan.inc.h"

#include "cpu/scan_columns.inc.h"

#if K_PARTS == 1
#include "cpu/carry.inc.h"
#endif

#include "cpu/fold.inc.h"

#if defined(K_PRODUCTS) && defined(K_WHOLE) && defined(K_ORDERED)
static const sf_cpu_products O(products) = {O(fold_rows_products), O(fold_columns_products)};
#endif

static const sf_cpu_kernels O(kernels) = {
        .lane_bytes = K_LANE_BYTES,
        .width = K_WIDTH,
        .parts = K_PARTS,
#ifndef K_ORDERED
        .free = true,
#endif
        .fold_tile = O(fold_tile_vectors),
        .scan_rows = O(scan_rows),
#ifdef K_WHOLE
        .carry_rows = O(carry_rows),
#endif
#if K_CONVERT == K_SAME && K_PARTS == 1
        .carry_run = O(carry_run),
#endif
        .scan_packed = O(scan_packed),
        .scan_columns = O(scan_columns),
        .fold_rows = O(fold_rows),
        .fold_packed = O(fold_packed),
        .fold_columns = O(fold_columns),
#if defined(K_PRODUCTS) && defined(K_WHOLE) && defined(K_ORDERED)
        .products = &O(products),
#endif
        .fill = O(fill),
        .combine = O(join),
        .narrow = O(narrow),
};

#else
static const sf_cpu_kernels O(kernels) = {0};
#endif

#undef O
#undef K_OP
#undef K_ABSENT
#undef K_COMBINE
#undef K_PRODUCT
#undef K_ORDERED
#undef K_COMMUTES
#undef K_AGAIN
#undef K_NEUTRAL
#undef K_WHOLE
#undef K_PARTS
#undef K_INTEGERS
#undef K_ENTRY
#undef K_EACH
