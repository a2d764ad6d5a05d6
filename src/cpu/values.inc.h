/*
 * values.inc.h: a vector of an operation's values, in registers and in scratch memory. Template,
 * part of kernels.inc.h. The file that the description names, K_VALUES, or else value_plain.inc.h,
 * defines a value. It has
 *
 *   O(val)        a vector of values: a vector, or a struct of two with lanes of one size, whose
 *                 members it calls K_FIRST and K_SECOND, the second's type K_SECOND_VEC
 *   O(combine)    combines two values, the left one first
 *   O(settle)     applied to totals, which become left operands
 *   O(lift)       makes values of elements; O(lift_two), if K_TWO is defined, of both their parts
 *   O(lower)      makes results of values
 *   O(raise)      makes values of results, such that O(lower) gives the results: an exclusive scan
 *                 keeps one
 *   O(broadcast)  a number in all lanes
 *   K_NUMBERS     defined if the second part of an element is its number, which folds need not read
 */
#ifdef K_VALUES
#define K_PARTS 2
#define K_INTEGERS K_CAT(v_i, K_LANE_BITS)
#include K_VALUES

SF_INLINE O(val) O(get)(const char *p)
{
        return (O(val)){N(get)(p), (K_SECOND_VEC)N(get)(p + V_BYTES)};
}
SF_INLINE void O(put)(char *p, O(val) v)
{
        N(put)(p, v.K_FIRST);
        N(put)(p + V_BYTES, (N(vec))v.K_SECOND);
}
SF_INLINE O(val) O(permute)(O(val) v, v_raw index)
{
        return (O(val)){N(permute)(v.K_FIRST, index), (K_SECOND_VEC)N(permute)((N(vec))v.K_SECOND, index)};
}
SF_INLINE O(val) O(blend)(v_mask m, O(val) yes, O(val) no)
{
        return (O(val)){N(blend)(m, yes.K_FIRST, no.K_FIRST), (K_SECOND_VEC)N(blend)(m, (N(vec))yes.K_SECOND, (N(vec))no.K_SECOND)};
}
SF_INLINE O(val) O(spread)(O(val) v, int from, int inner)
{
        return (O(val)){N(spread)(v.K_FIRST, from, inner), (K_SECOND_VEC)N(spread)((N(vec))v.K_SECOND, from, inner)};
}
#else
#define K_PARTS 1
#include "cpu/value_plain.inc.h"

SF_INLINE O(val) O(get)(const char *p)
{
        return N(get)(p);
}
SF_INLINE void O(put)(char *p, O(val) v)
{
        N(put)(p, v);
}
#if K_LANE_BYTES >= 4
SF_INLINE O(val) O(permute)(O(val) v, v_raw index)
{
        return N(permute)(v, index);
}
#endif
SF_INLINE O(val) O(blend)(v_mask m, O(val) yes, O(val) no)
{
        return N(blend)(m, yes, no);
}
/* Every position of every column gets the `inner` lanes from lane `from` on. */
SF_INLINE O(val) O(spread)(O(val) v, int from, int inner)
{
        return N(spread)(v, from, inner);
}
#endif

/* One element in every lane. */
SF_INLINE N(vec) O(factor)(const char *p)
{
#if K_CONVERT == K_SAME
        sf_value one;
        memcpy(&one.K_VALUE, p, K_SIZE);
        return N(broadcast)(one);
#elif K_CONVERT == K_WIDE
        sf_value one;
        memcpy(&one.f32, p, K_SIZE);
        one.f64 = one.f32;
        return N(broadcast)(one);
#else
        /* repeated first and converted then: a part of a vector would go by way of memory */
        typedef K_CAT(K_CAT(uint, K_CAT(K_BITS_OF_, K_SIZE)), _t) one;
        one bits, all[K_WIDTH];
        memcpy(&bits, p, K_SIZE);
        for (int i = 0; i < K_WIDTH; i++)
                all[i] = bits;
        return N(load)((const char *)all);
#endif
}

/* `beside` and identity.index matter only for values of two components. */
SF_INLINE O(none) O(none_with)(sf_value identity, uint64_t turn, int64_t beside, const sf_prelude *lift)
{
        const K_BITS zero = {0};
        O(none) none;
#ifdef K_LIFTS
        none.lifts = lift && lift->on;
        none.skips = lift && lift->skips;
        none.square = lift && lift->square;
        none.keep = zero + (K_LANE_UNSIGNED)(lift && lift->magnitude ? K_SIGN - 1 : ~(K_LANE_UNSIGNED)0);
        none.centre = (N(vec))zero;
#else
        (void)lift;
#endif
        none.turn = zero + (K_LANE_UNSIGNED)turn;
        none.element = N(broadcast)(identity);
#if K_PARTS > 1
        none.beside = beside;
        none.late = (K_INTEGERS)(zero - (identity.index < 0));
#else
        (void)beside;
#endif
        none.value = O(broadcast)(identity, &none);
        return none;
}
SF_INLINE O(none) O(none_of)(sf_value identity, uint64_t turn, int64_t beside)
{
        return O(none_with)(identity, turn, beside, NULL);
}

/* The centres of `many` rows from `row` on; and elements from here on are lifted by one of them, or
 * by those of `count` columns. */
SF_INLINE void O(centres_of)(const sf_prelude *lift, int64_t row, int many, N(vec) *centre)
{
#ifdef K_LIFTS
        const N(vec) zero = {0};
        for (int r = 0; r < many; r++)
                centre[r] = lift->centre ? O(factor)(lift->centre + (row + r) * lift->centre_row) : zero;
#else
        (void)lift, (void)row, (void)many, (void)centre;
#endif
}
SF_INLINE void O(centre_row)(O(none) *none, const sf_prelude *lift, const N(vec) *centre)
{
#ifdef K_LIFTS
        if (lift->centre)
                none->centre = *centre;
#else
        (void)none, (void)lift, (void)centre;
#endif
}
SF_INLINE void O(centre_columns)(O(none) *none, const sf_prelude *lift, int64_t column, int count)
{
#ifdef K_LIFTS
        if (lift->centre)
                none->centre = N(load_unit)(lift->centre + column * K_SIZE, count);
#else
        (void)none, (void)lift, (void)column, (void)count;
#endif
}
/* Lifts `count` vectors, by a centre for each or, if that is NULL, by the same. Each question is
 * asked once for all of them. */
SF_INLINE void O(lift_all)(N(vec) *v, const int count, const N(vec) *centre, const O(none) *none)
{
#ifdef K_LIFTS
        if (!none->lifts)
                return;
        V_UNROLL
        for (int i = 0; i < count; i++)
                v[i] -= centre ? centre[i] : none->centre;
        if (none->skips) {
                V_UNROLL
                for (int i = 0; i < count; i++) {
                        const K_BITS number = (K_BITS)(v[i] == v[i]);
                        v[i] = (N(vec))(((K_BITS)v[i] & number) | ((K_BITS)none->element & ~number));
                }
        }
        if (none->square) {
                V_UNROLL
                for (int i = 0; i < count; i++)
                        v[i] *= v[i];
                return;
        }
        V_UNROLL
        for (int i = 0; i < count; i++)
                v[i] = (N(vec))((K_BITS)v[i] & none->keep);
#else
        (void)v, (void)count, (void)centre, (void)none;
#endif
}
SF_INLINE N(vec) O(lifted)(N(vec) v, const O(none) *none)
{
        O(lift_all)(&v, 1, NULL, none);
        return v;
}

/* Before a loop that lifts a few vectors: it is unrolled, unless that would be long code which is
 * seldom run. */
#ifdef K_SMALL
#define K_LIFT_LOOP V_ROLLED
#else
#define K_LIFT_LOOP V_UNROLL
#endif

/* Bytes of a vector of values, and of the value of one lane, in scratch memory. A vector's
 * components are stored one after the other. */
#define K_ENTRY (K_PARTS * V_BYTES)
#define K_EACH (K_PARTS * K_LANE_BYTES)

/* Elements as values, with the mask applied; the mask may be NULL. In a part, other lanes hold
 * garbage. */
SF_INLINE N(vec) O(element)(const char *x, const uint8_t *m, const O(none) *none)
{
        const N(vec) v = O(lifted)(N(load)(x), none);
        return m ? N(masked)(N(mask)(m), v, none->element) : v;
}
#ifdef K_TWO
SF_INLINE O(val) O(load)(const char *x, const uint8_t *m, const O(none) *none)
{
        const O(val) v = O(lift_two)(N(load)(x), N(load)(x + none->beside), none);
        return m ? O(blend)(N(mask)(m), v, none->value) : v;
}
SF_INLINE O(val) O(load_part)(const char *x, const uint8_t *m, const O(none) *none, int first, int count)
{
        const O(val) v = O(lift_two)(N(load_part)(x, first, count), N(load_part)(x + none->beside, first, count), none);
        return m ? O(blend)(N(mask_part)(m, first, count), v, none->value) : v;
}
#else
SF_INLINE O(val) O(load)(const char *x, const uint8_t *m, const O(none) *none)
{
        return O(lift)(O(element)(x, m, none), none);
}
SF_INLINE O(val) O(load_part)(const char *x, const uint8_t *m, const O(none) *none, int first, int count)
{
        const N(vec) v = O(lifted)(N(load_part)(x, first, count), none);
        return O(lift)(m ? N(masked)(N(mask_part)(m, first, count), v, none->element) : v, none);
}
#endif
#ifdef K_NUMBERS
/* Elements with given numbers, which are not read from memory. */
SF_INLINE O(val) O(load_numbered)(const char *x, const uint8_t *m, const O(none) *none, int first, int count, K_INTEGERS number)
{
        const O(val) v = O(lift_two)(count == K_WIDTH ? N(load)(x) : N(load_part)(x, first, count), (N(vec))number, none);
        return m ? O(blend)(N(mask_part)(m, first, count), v, none->value) : v;
}
#endif
/* The same if all lanes may be present. */
SF_INLINE O(val) O(load_some)(const char *x, const uint8_t *m, const O(none) *none, int first, int count)
{
        return count == K_WIDTH ? O(load)(x, m, none) : O(load_part)(x, m, none, first, count);
}

/* A value that changes no other. */
SF_INLINE O(val) O(neutral)(const O(none) *none)
{
#ifdef K_NEUTRAL
        (void)none;
        return K_NEUTRAL;
#else
        return none->value;
#endif
}
