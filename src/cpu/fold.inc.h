/*
 * fold.inc.h: the fold of rows, of packed short rows, and of columns. Template; kernels.inc.h has
 * the parameters.
 *
 * Rows: an ordered operation that commutes folds contiguous rows by halves (fold_halves.inc.h). A
 * free one that commutes needs no tree: vectors are combined lane by lane, and lanes with each
 * other at the end. All other operations, and narrow matrices, take the total of a vector from the
 * last lanes of its scan, and combine the totals of a tile's vectors.
 */
#if defined(K_COMMUTES) && !defined(K_ORDERED)
#define K_BY_LANES
#endif
#if defined(K_ORDERED) && defined(K_COMMUTES) && defined(K_NEUTRAL)
#define K_BY_HALVES
#endif

/* Stores the total of row `at`, which is in every position of a vector. */
static V_APART void O(fold_end)(const sf_rows *j, int64_t at, O(val) total)
{
        const O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        char *y = j->y + at * j->y_row;
        if (j->carry)
                O(add_carry)(j->carry + at * j->carry_row, &total, 1);
        if (j->raw)
                O(put)(y, O(settle)(total));
        else
                N(store_results)(y, O(lower)(total, &none), j->lanes->inner, j->wide);
}

#if defined(K_BY_HALVES) || (!defined(K_LEAN) && K_LANE_BYTES >= 4)
#define K_SHORT_ROWS
#endif
#if defined(K_BY_HALVES) && defined(K_PRODUCTS) && defined(K_WHOLE) && defined(K_LIFTS)
#define K_BOTH /* elements and their squares may be folded together */
#endif
#include "cpu/fold_halves.inc.h"

/* Vectors in a tile of a row fold. Entry k of the counter is the total of 2^k tiles; for a free
 * operation that commutes, the highest entry in use is the total of all. */
static int32_t O(fold_tile_vectors)(const sf_lanes *lanes)
{
#ifdef K_BY_LANES
        (void)lanes;
        return 1;
#endif
#ifdef K_BY_HALVES
        if (lanes->inner == 1 && lanes->unit == K_WIDTH)
                return SF_CPU_TILE_VECTORS;
#endif
        (void)lanes;
        return SF_CPU_NARROW_TILE;
}

/* ------------------------------------------------------------------------------------------------
 * Rows by vectors
 * ---------------------------------------------------------------------------------------------- */

/* Folds a tile from x on, of vectors `step` elements apart, to a vector with its total in the lanes
 * of the last position. levels: as in lane_scan. */
SF_INLINE O(val) O(fold_vectors)(const N(tables) *t, const int levels, const char *x, const uint8_t *m, const O(none) *none,
                                 int unit, int64_t step, int64_t ahead)
{
        O(val) half[SF_CPU_NARROW_TILE];
        V_UNROLL
        for (int i = 0; i < SF_CPU_NARROW_TILE; i++)
                __builtin_prefetch(x + i * step * K_SIZE + ahead);
        if (levels && !m) {
                V_UNROLL
                for (int i = 0; i < SF_CPU_NARROW_TILE; i++)
                        half[i] = O(settle)(O(lane_scan)(O(load_some)(x + i * step * K_SIZE, NULL, none, 0, unit), t, levels));
        } else {
                V_ROLLED
                for (int i = 0; i < SF_CPU_NARROW_TILE; i++) {
                        half[i] = O(load_some)(x + i * step * K_SIZE, m ? m + i * step : NULL, none, 0, unit);
                        half[i] = O(settle)(O(lane_scan)(half[i], t, levels));
                }
        }
        V_UNROLL
        for (int size = 1; size < SF_CPU_NARROW_TILE; size *= 2) {
                V_UNROLL
                for (int i = 0; i < SF_CPU_NARROW_TILE; i += 2 * size)
                        half[i] = O(combine)(half[i], half[i + size]);
        }
        return O(settle)(half[0]);
}

/* Folds `left` elements, fewer vectors than a tile has, to their total in every position. */
static V_APART O(val) O(fold_rest)(const sf_rows *j, const char *x, const uint8_t *m, int64_t left)
{
        enum { LEVELS = 4 }; /* log2(SF_CPU_NARROW_TILE) + 1 */
        const N(tables) tables = N(tables_of)(j->lanes), *t = &tables;
        const O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const bool reverse = j->lanes->reverse;
        const int unit = j->lanes->unit;
        const int64_t step = reverse ? -unit : unit;
        O(val) inside[LEVELS], v = none.value;
        for (int i = 0; left > 0; i++, left -= unit) {
                const int count = left < unit ? (int)left : unit, first = reverse ? unit - count : 0;
                const int64_t at = i * step + first;
                v = O(load_some)(x + at * K_SIZE, m ? m + at : NULL, &none, first, count);
                v = O(settle)(O(lane_scan)(v, t, 0));
                /* The last position present; if the vector is not full, that is not in the last
                 * lanes. */
                if (count == unit)
                        v = O(last)(v, t);
                else
                        v = O(spread)(v, reverse ? first : count - j->lanes->inner, j->lanes->inner);
                const int closed = sf_order_closed((uint64_t)i);
                for (int k = 0; k < closed; k++)
                        v = O(settle)(O(combine)(inside[k], v));
                inside[closed] = v;
                for (int k = closed; k < LEVELS; k++)
                        if (i >> k & 1)
                                v = O(settle)(O(combine)(inside[k], v));
        }
        return v;
}

/* Folds a tile of `many` rows by plain multiplication. False: the operation has none, or a product
 * was out of range. */
SF_INLINE bool O(tiles_are_plain)(const sf_rows *j, const char *x, const uint8_t *m, int many, int64_t step, const O(none) *none, O(val) *v)
{
#ifdef K_PRODUCT
        K_BITS worst = {0};
        if (j->lanes->inner > 1 || j->lanes->unit != K_WIDTH)
                return false;
        for (int r = 0; r < many; r++)
                v[r] = O(fold_plainly)(x + r * j->x_row, m ? m + r * j->m_row : NULL, none, step, j->ahead, &worst);
        return !O(strays)(worst, O(total_most));
#else
        (void)j, (void)x, (void)m, (void)many, (void)step, (void)none, (void)v;
        return false;
#endif
}

SF_INLINE void O(fold_by_vectors)(const sf_rows *j)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const bool reverse = j->lanes->reverse;
        const int inner = j->lanes->inner, unit = j->lanes->unit, group = j->slots ? j->slots : SF_CPU_GROUP;
        const int64_t size = SF_CPU_NARROW_TILE * unit, step = reverse ? -unit : unit, offset = reverse ? -(int64_t)(unit - inner) : 0;
        const int64_t elements = j->n * inner, over = elements % size;
        const uint64_t first = (uint64_t)(j->start * inner / size), last = first + (uint64_t)(elements / size);
        for (int64_t done = 0; done < j->rows;) {
                const int many = j->rows - done < group ? (int)(j->rows - done) : group;
                const char *x = j->x + done * j->x_row + offset * K_SIZE;
                const uint8_t *m = j->m ? j->m + done * j->m_row + offset : NULL;
                char *counters = j->counters + (j->resume ? done * SF_ORDER_LEVELS * K_ENTRY : 0);
                for (uint64_t tile = first; tile < last; tile++) {
                        O(val) v[SF_CPU_FOLD_GROUP];
                        const bool plain = O(tiles_are_plain)(j, x, m, many, step, &none, v);
                        for (int r = 0; r < many && !plain; r++) {
                                const char *from = x + r * j->x_row;
                                const uint8_t *mask = m ? m + r * j->m_row : NULL;
#ifndef K_LEAN
                                /* a constant, so that the tables stay in registers */
                                if (t.levels <= 2)
                                        v[r] = O(fold_vectors)(&t, 2, from, mask, &none, unit, step, j->ahead);
                                else
#endif
                                        v[r] = O(fold_vectors)(&t, 0, from, mask, &none, unit, step, j->ahead);
                        }
                        /* In a loop of its own: row by row, each step would wait for the one
                         * before. */
                        const int closed = sf_order_closed(tile);
                        for (int r = 0; r < many; r++) {
                                char *counter = counters + r * SF_ORDER_LEVELS * K_ENTRY;
                                O(val) total = O(last)(v[r], &t);
                                for (int k = 0; k < closed; k++)
                                        total = O(settle)(O(combine)(O(get)(counter + k * K_ENTRY), total));
                                O(put)(counter + closed * K_ENTRY, total);
                        }
                        x += SF_CPU_NARROW_TILE * step * K_SIZE;
                        m = m ? m + SF_CPU_NARROW_TILE * step : NULL;
                }
                for (int r = 0; r < many && !j->resume; r++) {
                        const char *counter = counters + r * SF_ORDER_LEVELS * K_ENTRY;
                        O(val) total = O(fold_rest)(j, x + r * j->x_row, m ? m + r * j->m_row : NULL, over);
                        bool any = over > 0;
                        for (uint64_t bits = last; bits; bits &= bits - 1, any = true) {
                                const O(val) entry = O(get)(counter + __builtin_ctzll(bits) * K_ENTRY);
                                total = any ? O(settle)(O(combine)(entry, total)) : entry;
                        }
                        O(fold_end)(j, done + r, total);
                }
                done += many;
        }
}

#ifdef K_BY_LANES
#include "cpu/fold_lanes.inc.h"
#endif

static V_APART void O(fold_rows_once)(const sf_rows *j)
{
#ifdef K_SHORT_ROWS
        if (O(is_short)(j)) {
                O(fold_short)(j);
                return;
        }
#endif
#ifdef K_BY_LANES
        O(fold_by_lanes)(j);
#else
#ifdef K_BY_HALVES
        if (j->lanes->inner == 1 && j->lanes->unit == K_WIDTH) {
                O(fold_by_halves)(j);
                return;
        }
#endif
        O(fold_by_vectors)(j);
#endif
}

static void O(fold_rows)(const sf_rows *j)
{
#ifdef K_BOTH
        if (j->sums && O(is_short)(j)) {
                O(fold_short_both)(j);
                return;
        }
        if (j->sums) { /* few rows, or in reverse */
                sf_rows sums = *j;
                sums.y = j->sums;
                sums.lift.square = false;
                sums.sums = NULL;
                O(fold_rows_once)(&sums);
        }
#endif
        O(fold_rows_once)(j);
}

#ifdef K_PACKED
/* ------------------------------------------------------------------------------------------------
 * Packed short rows; results are contiguous too.
 * ---------------------------------------------------------------------------------------------- */
static void O(fold_packed)(const sf_rows *j)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const v_raw take = v_raw_load(j->lanes->take.bytes);
        const O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const int unit = j->lanes->unit, taken = j->lanes->groups * j->lanes->inner;
        const int64_t elements = j->rows * j->n * j->lanes->inner;
        const int64_t offset = j->lanes->reverse ? -(j->n - 1) * j->lanes->inner : 0;
        const char *x = j->x + offset * K_SIZE;
        const uint8_t *m = j->m ? j->m + offset : NULL;
        char *y = j->y;
        for (int64_t at = 0; at < elements; at += unit, y += taken * K_OUT) {
                __builtin_prefetch(x + at * K_SIZE + j->ahead);
                const int count = elements - at < unit ? (int)(elements - at) : unit;
                const int here = elements - at >= K_WIDTH ? K_WIDTH : count;
                O(val) v = O(load_some)(x + at * K_SIZE, m ? m + at : NULL, &none, 0, here);
                v = O(permute)(O(lane_scan)(v, &t, 0), take);
                if (j->carry)
                        O(add_carry)(j->carry, &v, 1);
                N(store_part)(y, O(lower)(v, &none), 0, count / (int)j->n);
        }
}
#endif

#include "cpu/fold_columns.inc.h"

#undef K_BY_LANES
#undef K_BOTH
