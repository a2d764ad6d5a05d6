/*
 * kernels.inc.h: the kernels of one operation on one storage type. Template, included by ops.inc.h
 * once for each operation, and so by type.inc.h once for each type. No kernel names an operation.
 * Its description in ops.inc.h does, in these parameters (undefined again at the end):
 *
 *   K_OP             the operation's name
 *   K_ABSENT         define it if this type uses another type's kernels for the operation, or does
 *                    not have it; nothing else is needed then
 *   K_COMBINE(a, b)  two vectors combined lane by lane, a on the left
 *   K_VALUES         instead: the file that defines a value of two components (values.inc.h)
 *   K_TWO            define it if an element has two parts; kernels are told where the second is
 *   K_PRODUCT        define it if values are products of reals, so that tiles may be multiplied
 *                    plainly
 *   K_ORDERED        define it if the grouping must be the tree's. Else any grouping gives the same
 *                    bits ("free"), and one running value represents all that is to the left
 *   K_COMMUTES       define it if a and b may be exchanged
 *   K_AGAIN          define it if combining with the same value again changes nothing (idempotent)
 *   K_TURN           bits in which elements differ from values. Kernels take them from their job,
 *                    so that other operations can use the same kernels with other bits:
 *   K_LIKE           the end of those kernels' names, as max_u32. Besides it only K_TURN is needed
 *   K_NEUTRAL        a vector that changes no value, not even the sign of a zero; define it if the
 *                    identity might
 *   K_WHOLE          define it if all instances are worth their size: rows four at a time whatever
 *                    is to their left, rows of a few vectors, four tiles of a narrow matrix, and a
 *                    shared axis that is read once
 *   K_TOTALS         define it if elements may be summed by N(total) before they are combined
 *   K_LEAN           define it if one instance for all cases is enough
 *   K_FOLDS          define it if there are no scans
 *   K_LIFTS          define it if folds may be told to lift elements (sf_prelude)
 *
 * type.inc.h lists the type's parameters.
 */
#define O(name) K_CAT(K_CAT(name, _), K_CAT(K_OP, K_CAT(_, K_NAME)))
#ifdef K_LIKE
#define L(name) K_CAT(K_CAT(name, _), K_LIKE)
#else
#define L(name) O(name)
#endif
#if defined(V_LEAN) && !defined(K_LEAN)
#define K_LEAN
#endif
#if defined(K_LEAN) || K_LANE_BYTES < 4
#undef K_WHOLE
#endif

/* Segments are read from memory, or from a panel, only where elements are lanes; packed rows only
 * where results are elements. Portable kernels have neither: segments are walked one by one, and
 * two or four elements side by side gain nothing. */
#if K_LANE_BYTES >= 4 && K_CONVERT == K_SAME && !defined(V_LEAN)
#define K_RAGGED
#endif
#if K_LANE_BYTES >= 4 && K_CONVERT < K_FROM_INTEGER && !defined(K_FOLDS) && !defined(V_LEAN)
#define K_PACKED
#endif

/* Lanes of 1 or 2 bytes are exchanged in groups that do not fit the tree. */
#if K_LANE_BYTES < 4 && defined(K_ORDERED)
#undef K_ABSENT
#define K_ABSENT
#endif

#if !defined(K_ABSENT) && !defined(K_LIKE)

#include "cpu/values.inc.h"

#if K_LANE_BYTES >= 4
/* One level of a vector's scan. */
SF_INLINE O(val) O(lane_level)(O(val) v, const N(tables) *t, int k)
{
        const O(val) sum = O(combine)(O(permute)(v, t->level[k]), v);
#ifdef K_AGAIN
        return sum; /* a lane with nothing to its left is combined with itself */
#else
        return O(blend)(t->level_on[k], sum, v);
#endif
}

/* The scan of a vector's lanes. levels 0: as many as the tables have, else a constant. */
SF_INLINE O(val) O(lane_scan)(O(val) v, const N(tables) *t, const int levels)
{
        if (!levels) {
                for (int k = 0; k < t->levels; k++)
                        v = O(lane_level)(v, t, k);
                return v;
        }
        V_UNROLL
        for (int k = 0; k < levels; k++)
                v = O(lane_level)(v, t, k);
        return v;
}

/* The last position of a scanned vector, in every position. */
SF_INLINE O(val) O(last)(O(val) v, const N(tables) *t)
{
        return O(permute)(v, t->last);
}
#else
/* The same in two steps: inside every 16 bytes, then across their totals. */
SF_INLINE O(val) O(lane_scan)(O(val) v, const N(tables) *t, const int levels)
{
        (void)levels;
        V_UNROLL
        for (int k = 0; 1 << k < 16 / K_LANE_BYTES; k++)
                v = O(blend)(t->level_on[k], O(combine)((N(vec))v_shuffle16((v_raw)v, t->level[k]), v), v);
#if V_BYTES > 16
        O(val) ends = (N(vec))v_shuffle16((v_raw)v, t->last);
        V_UNROLL
        for (int k = 0; k < V_PART_LEVELS; k++) {
                const O(val) sum = O(combine)((N(vec))v_permute8((v_raw)ends, t->part_level[k]), ends);
                ends = (N(vec))v_blend_u64(t->part_level_on[k], (v_u64)sum, (v_u64)ends);
        }
        const O(val) all = O(combine)((N(vec))v_permute8((v_raw)ends, t->part_before), v);
        v = (N(vec))v_blend_u64(t->part_before_on, (v_u64)all, (v_u64)v);
#endif
        return v;
}
SF_INLINE O(val) O(last)(O(val) v, const N(tables) *t)
{
        return (N(vec))v_permute8(v_shuffle16((v_raw)v, t->last), t->part_last);
}
#endif

/* Scans consecutive vectors whose lanes have been scanned: the last position of one is to the left
 * of the next ones. */
SF_INLINE void O(scan_vectors)(const N(tables) *t, const int count, O(val) *v)
{
        V_UNROLL
        for (int size = 1; size < count; size *= 2) {
                V_UNROLL
                for (int i = 0; i < count; i++)
                        if (i & size)
                                v[i] = O(combine)(O(last)(v[(i & -size) - 1], t), v[i]);
        }
}

/* Combines what is to the left of the whole piece. */
SF_INLINE void O(add_carry)(const sf_carry *carry, O(val) *v, const int count)
{
        for (int e = 0; e < carry->count; e++) {
                O(val) entry = O(get)(carry->entries + e * carry->entry_stride);
                V_UNROLL
                for (int i = 0; i < count; i++)
                        v[i] = O(combine)(entry, v[i]);
        }
}

#ifdef K_VANISHES
#include "cpu/vanish.inc.h"
#endif

/* levels 0: as many as the tables have. */
SF_INLINE void O(scan_all_lanes)(const N(tables) *t, const int levels, O(val) *v)
{
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++)
                v[i] = O(lane_scan)(v[i], t, levels);
}
/* Levels as a constant, where its instances are worth their size. */
#ifdef K_LEAN
enum { O(fixed_levels) = 0 };
#else
enum { O(fixed_levels) = K_LOG_WIDTH };
#endif
SF_INLINE void O(scan_tile)(const N(tables) *t, const int levels, O(val) *v)
{
        O(scan_all_lanes)(t, levels, v);
        O(scan_vectors)(t, V_SCAN_TILE, v);
}

/* ------------------------------------------------------------------------------------------------
 * Values in scratch memory, as the host fills, combines and reads them
 * ---------------------------------------------------------------------------------------------- */
SF_INLINE void O(fill_as)(void *values, int64_t count, sf_value value, uint64_t turn)
{
        const O(none) none = O(none_of)(value, turn, 0);
        const O(val) v = none.value;
        int64_t i = 0;
        for (; i + K_WIDTH <= count || (K_PARTS > 1 && i < count); i += K_WIDTH)
                O(put)((char *)values + i * K_EACH, v);
        /* Values of one component are an array, whose end need not be a whole vector. */
        if (i < count)
                memcpy((char *)values + i * K_EACH, &v, (size_t)((count - i) * K_EACH));
}

SF_INLINE void O(narrow_as)(void *elements, const void *values, int64_t count, uint64_t turn, bool late)
{
        const O(none) none = O(none_of)((sf_value){.u64 = 0, .index = -(int64_t)late}, turn, 0);
        for (int64_t i = 0; i < count; i += K_WIDTH) {
                const int part = count - i < K_WIDTH ? (int)(count - i) : K_WIDTH;
                const N(vec) v = O(lower)(O(get)((const char *)values + i * K_EACH), &none);
                N(store_part)((char *)elements + i * K_OUT, v, 0, part);
        }
}

static void O(join)(void *a, const void *b, int64_t count)
{
        for (int64_t i = 0; i < count; i += K_WIDTH) {
                char *at = (char *)a + i * K_EACH;
                O(put)(at, O(settle)(O(combine)(O(get)(at), O(get)((const char *)b + i * K_EACH))));
        }
}

#ifdef K_PRODUCT
#include "cpu/product_plain.inc.h"
#else
SF_INLINE void O(lower_all)(const O(val) *v, const O(none) *none, const int count, N(vec) *result)
{
        V_UNROLL
        for (int i = 0; i < count; i++)
                result[i] = O(lower)(v[i], none);
}
#endif

#ifndef K_FOLDS
#include "cpu/scan.inc.h"

#include "cpu/scan_columns.inc.h"

#if !defined(K_LEAN) && K_LANE_BYTES >= 4
#include "cpu/carry.inc.h"
#endif
#endif

#include "cpu/fold.inc.h"

#ifdef K_RAGGED
#include "cpu/ragged.inc.h"
#endif

#if defined(K_PRODUCTS) && defined(K_WHOLE) && defined(K_ORDERED)
static const sf_cpu_products O(products) = {O(fold_rows_products), O(fold_columns_products)};
#endif
#endif

#ifndef K_ABSENT
#ifndef K_TURN
#define K_TURN 0
#endif
static void O(fill)(void *values, int64_t count, sf_value value)
{
        L(fill_as)(values, count, value, K_TURN);
}
static void O(narrow)(void *elements, const void *values, int64_t count, bool late)
{
        L(narrow_as)(elements, values, count, K_TURN, late);
}

static const sf_cpu_kernels O(kernels) = {
        .lane_bytes = K_LANE_BYTES,
        .width = K_WIDTH,
        .result_bytes = K_OUT,
#if K_CONVERT == K_FROM_INTEGER
        .signs = K_TURN,
#else
        .turn = K_TURN,
#endif
#ifdef K_VALUES
        .parts = 2,
#else
        .parts = 1,
#endif
#ifndef K_ORDERED
        .free = true,
#endif
#ifdef K_TWO
        .two = true,
#endif
#ifdef K_LIFTS
        .lifts = true,
#endif
        .fold_tile = L(fold_tile_vectors),
#ifndef K_FOLDS
        .scan_rows = L(scan_rows),
        .scan_columns = L(scan_columns),
#ifdef K_WHOLE
        .carry_rows = L(carry_rows),
#endif
#if K_CONVERT == K_SAME && K_LANE_BYTES >= 4 && !defined(K_LEAN)
        .carry_run = L(carry_run),
#endif
#ifdef K_PACKED
        .scan_packed = L(scan_packed),
        .fold_packed = L(fold_packed),
#endif
#ifdef K_RAGGED
        .scan_segments = L(scan_segments),
#endif
#endif
#ifdef K_RAGGED
        .fold_segments = L(fold_segments),
#ifdef K_BY_HALVES
        .fold_long = SF_CPU_RAGGED_BLOCK,
#else
        .fold_long = SF_CPU_RAGGED_LONG,
#endif
#endif
        .fold_rows = L(fold_rows),
        .fold_columns = L(fold_columns),
#if defined(K_PRODUCTS) && defined(K_WHOLE) && defined(K_ORDERED)
        .products = &O(products),
#endif
        .fill = O(fill),
        .combine = L(join),
        .narrow = O(narrow),
};
#else
static const sf_cpu_kernels O(kernels) = {0};
#endif

#undef O
#undef L
#undef K_OP
#undef K_ABSENT
#undef K_COMBINE
#undef K_VALUES
#undef K_TWO
#undef K_FIRST
#undef K_SECOND
#undef K_SECOND_VEC
#undef K_NUMBERS
#undef K_PRODUCT
#undef K_ORDERED
#undef K_COMMUTES
#undef K_AGAIN
#undef K_TURN
#undef K_LIKE
#undef K_NEUTRAL
#undef K_WHOLE
#undef K_TOTALS
#undef K_LEAN
#undef K_VANISHES
#undef K_FOLDS
#undef K_RAGGED
#undef K_PACKED
#undef K_LIFTS
#undef K_SMALL
#undef K_LIFT_LOOP
#undef K_SHORT_ROWS
#undef K_BY_HALVES
#undef K_PARTS
#undef K_INTEGERS
#undef K_ENTRY
#undef K_EACH
