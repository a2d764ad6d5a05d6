/*
 * fold.inc.h: the fold of rows, of packed short rows, and of columns. Template; kernels.inc.h has the parameters.
 *
 * Rows: an ordered operation that commutes folds contiguous rows by halves (fold_halves.inc.h). A free one that commutes needs no tree: vectors
 * are combined lane by lane, and lanes with each other at the end. All else, and narrow matrices, take the total of a vector from the last lanes
 * of its scan, and that of a tile from those of its vectors.
 */
#if defined(K_COMMUTES) && !defined(K_ORDERED)
#define K_BY_LANES
#endif
#if defined(K_ORDERED) && defined(K_COMMUTES) && defined(K_NEUTRAL)
#define K_BY_HALVES
#endif

/* Row `at` has its total, in every position of a vector. */
static V_APART void O(fold_end)(const sf_rows *j, int64_t at, O(val) total)
{
        const O(none) none = O(none_of)(j->identity, j->turn);
        char *y = j->y + at * j->y_row;
        if (j->carry)
                O(add_carry)(j->carry + at * j->carry_row, &total, 1);
        if (j->raw)
                O(put)(y, O(settle)(total));
        else
                N(store_part)(y, O(lower)(total, &none), 0, j->lanes->inner);
}

#if defined(K_BY_HALVES) || (!defined(K_LEAN) && K_LANE_BYTES >= 4)
#define K_SHORT_ROWS
#include "cpu/fold_halves.inc.h"
#endif

/* Vectors in a tile of a row fold: the counter's entry k is the total of 2^k tiles, or of a free operation that commutes, the highest one in use that of all. */
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

/* ------------------------------------------------------------------------------------------------------------
 * Rows by vectors
 * ---------------------------------------------------------------------------------------------------------- */

/* A tile from x on, vectors `step` elements apart, to a vector with its total in the last position's lanes. levels: as in
 * lane_scan. */
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

/* What is fewer vectors than a tile has, `left` elements: their total in every position. */
static V_APART O(val) O(fold_rest)(const sf_rows *j, const char *x, const uint8_t *m, int64_t left)
{
        enum { LEVELS = 4 }; /* log2(SF_CPU_NARROW_TILE), and one */
        const N(tables) tables = N(tables_of)(j->lanes), *t = &tables;
        const O(none) none = O(none_of)(j->identity, j->turn);
        const bool reverse = j->lanes->reverse;
        const int unit = j->lanes->unit;
        const int64_t step = reverse ? -unit : unit;
        O(val) inside[LEVELS], v = none.value;
        for (int i = 0; left > 0; i++, left -= unit) {
                const int count = left < unit ? (int)left : unit, first = reverse ? unit - count : 0;
                const int64_t at = i * step + first;
                v = O(load_some)(x + at * K_SIZE, m ? m + at : NULL, &none, first, count);
                v = O(settle)(O(lane_scan)(v, t, 0));
                /* The last position there is: where the vector is not full, not the last lanes. */
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

SF_INLINE void O(fold_by_vectors)(const sf_rows *j)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const O(none) none = O(none_of)(j->identity, j->turn);
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
                        for (int r = 0; r < many; r++) {
                                const char *from = x + r * j->x_row;
                                const uint8_t *mask = m ? m + r * j->m_row : NULL;
#ifndef K_LEAN
                                if (t.levels <= 2) /* a constant: the tables stay in registers */
                                        v[r] = O(fold_vectors)(&t, 2, from, mask, &none, unit, step, j->ahead);
                                else
#endif
                                        v[r] = O(fold_vectors)(&t, 0, from, mask, &none, unit, step, j->ahead);
                        }
                        /* Row by row this would be one long wait after another. */
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

/* ------------------------------------------------------------------------------------------------------------
 * Rows by lanes
 * ---------------------------------------------------------------------------------------------------------- */
#ifdef K_BY_LANES
/* Neighbouring vectors of one row are combined apart, so that none waits for the one before. */
#define K_APART 4

/* `vectors` of each row from x on, `step` elements apart. */
SF_INLINE void O(fold_lanes_of)(const sf_rows *j, const int rows, const int apart, const int unit, const char *x, const uint8_t *m,
                                int64_t step, int64_t vectors, O(val) *total)
{
        const O(none) none = O(none_of)(j->identity, j->turn);
        const int64_t ahead = ahead_of_rows(j, vectors * unit * K_SIZE, rows);
        O(val) v[SF_CPU_GROUP][K_APART];
        V_UNROLL
        for (int r = 0; r < rows; r++) {
                V_UNROLL
                for (int a = 0; a < apart; a++)
                        v[r][a] = none.value;
        }
        int64_t i = 0;
        for (; i + apart <= vectors && !m; i += apart) {
                V_UNROLL
                for (int a = 0; a < apart; a++, x += step * K_SIZE) {
                        V_UNROLL
                        for (int r = 0; r < rows; r++) {
                                const char *at = x + r * j->x_row;
                                __builtin_prefetch(at + ahead);
                                v[r][a] = O(combine)(v[r][a], O(load_some)(at, NULL, &none, 0, unit));
                        }
                }
        }
        for (; i < vectors; i++, x += step * K_SIZE, m = m ? m + step : NULL) {
                V_UNROLL
                for (int r = 0; r < rows; r++) {
                        const uint8_t *mask = m ? m + r * j->m_row : NULL;
                        v[r][0] = O(combine)(v[r][0], O(load_some)(x + r * j->x_row, mask, &none, 0, unit));
                }
        }
        V_UNROLL
        for (int r = 0; r < rows; r++) {
                V_UNROLL
                for (int a = 1; a < apart; a++)
                        v[r][0] = O(combine)(v[r][0], v[r][a]);
                total[r] = v[r][0];
        }
}

static V_APART void O(lanes_of_part)(const sf_rows *j, const char *x, const uint8_t *m, int64_t step, int64_t vectors,
                                     O(val) *total)
{
        O(fold_lanes_of)(j, 1, 1, j->lanes->unit, x, m, step, vectors, total);
}
#ifndef K_LEAN
static V_APART void O(lanes_of_four)(const sf_rows *j, const char *x, const uint8_t *m, int64_t step, int64_t vectors,
                                     O(val) *total)
{
        O(fold_lanes_of)(j, SF_CPU_GROUP, 1, K_WIDTH, x, m, step, vectors, total);
}
static V_APART void O(lanes_of_one)(const sf_rows *j, const char *x, const uint8_t *m, int64_t step, int64_t vectors,
                                    O(val) *total)
{
        O(fold_lanes_of)(j, 1, K_APART, K_WIDTH, x, m, step, vectors, total);
}
#endif

#ifdef K_TOTALS
enum { O(adds_up) = 1 };
/* Rows of `bytes` bytes of elements, up in memory, whole vectors of them at a time. */
SF_INLINE void O(fold_totals_of)(const sf_rows *j, const int rows, const char *x, int64_t bytes, O(val) *total)
{
        const O(none) none = O(none_of)(j->identity, j->turn);
        const int64_t ahead = ahead_of_rows(j, bytes, rows);
        O(val) v[SF_CPU_GROUP];
        V_UNROLL
        for (int r = 0; r < rows; r++)
                v[r] = none.value;
        int64_t at = 0;
        for (; at + K_APART * V_BYTES <= bytes; at += K_APART * V_BYTES) {
                V_UNROLL
                for (int r = 0; r < rows; r++) {
                        V_UNROLL
                        for (int a = 0; a < K_APART; a++) {
                                const char *from = x + r * j->x_row + at + a * V_BYTES;
                                __builtin_prefetch(from + ahead);
                                v[r] = O(combine)(v[r], N(total)((v_u64)v_raw_load(from)));
                        }
                }
        }
        for (; at < bytes; at += V_BYTES) {
                const int left = bytes - at < V_BYTES ? (int)(bytes - at) : V_BYTES;
                V_UNROLL
                for (int r = 0; r < rows; r++)
                        v[r] = O(combine)(v[r], N(total)(N(first_bytes)(x + r * j->x_row + at, left)));
        }
        V_UNROLL
        for (int r = 0; r < rows; r++)
                total[r] = v[r];
}
static V_APART int O(fold_totals)(const sf_rows *j, int64_t at, const char *x, O(val) *total)
{
        const bool four = j->rows - at >= SF_CPU_GROUP;
        if (four)
                O(fold_totals_of)(j, SF_CPU_GROUP, x, j->n * K_SIZE, total);
        else
                O(fold_totals_of)(j, 1, x, j->n * K_SIZE, total);
        return four ? SF_CPU_GROUP : 1;
}
#else
enum { O(adds_up) = 0 };
SF_INLINE int O(fold_totals)(const sf_rows *j, int64_t at, const char *x, O(val) *total)
{
        (void)j, (void)at, (void)x, (void)total;
        return 1;
}
#endif

/*
 * Columns that do not divide a vector: after K_WIDTH positions lanes are of the same columns again, so as many running vectors as that takes
 * meet every element in whole vectors. What they come to is laid out as a vector of `unit` lanes is.
 */
static V_APART O(val) O(fold_period)(const sf_rows *j, const char *x, const uint8_t *m)
{
        const O(none) none = O(none_of)(j->identity, j->turn);
        const int inner = j->lanes->inner, unit = j->lanes->unit, together = inner & -inner;
        const int period = inner / together; /* a vector's width is a power of two, and wider than inner */
        const int64_t elements = j->n * inner, size = (int64_t)period * K_WIDTH;
        O(val) v[K_WIDTH + 1];
        for (int p = 0; p <= period; p++)
                v[p] = none.value;
        int64_t i = 0;
        for (; i + 2 * size <= elements && !m; i += 2 * size)
                for (int p = 0; p < period; p++) {
                        const char *at = x + (i + p * K_WIDTH) * K_SIZE;
                        __builtin_prefetch(at + j->ahead);
                        v[p] = O(combine)(v[p], O(combine)(O(load)(at, NULL, &none), O(load)(at + size * K_SIZE, NULL, &none)));
                }
        for (int p = 0; i < elements; i += K_WIDTH, p = p + 1 < period ? p + 1 : 0) {
                const int count = elements - i < K_WIDTH ? (int)(elements - i) : K_WIDTH;
                O(val) more = O(load_some)(x + i * K_SIZE, m ? m + i : NULL, &none, 0, count);
                if (count < K_WIDTH)
                        more = O(blend)(v_mask_below(count, K_LANE_BYTES), more, none.value);
                v[p] = O(combine)(v[p], more);
        }
        O(val) total = none.value;
        for (int from = 0; from < size; from += unit) {
                const O(val) more = O(get)((const char *)v + from * K_LANE_BYTES);
                total = O(combine)(total, O(blend)(v_mask_below(size - from < unit ? (int)size - from : unit, K_LANE_BYTES), more, none.value));
        }
        return total;
}

/* As many rows from `at` on as there is an instance for, which is returned. */
SF_INLINE int O(fold_lanes)(const sf_rows *j, int64_t at, const char *x, const uint8_t *m, int64_t step, int64_t vectors,
                            O(val) *totals)
{
#ifndef K_LEAN
        if (j->lanes->unit == K_WIDTH) {
                const bool four = j->rows - at >= SF_CPU_GROUP;
                (four ? O(lanes_of_four) : O(lanes_of_one))(j, x, m, step, vectors, totals);
                return four ? SF_CPU_GROUP : 1;
        }
#endif
        (void)at;
        O(lanes_of_part)(j, x, m, step, vectors, totals);
        return 1;
}

SF_INLINE void O(fold_by_lanes)(const sf_rows *j)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const O(none) none = O(none_of)(j->identity, j->turn);
        const bool reverse = j->lanes->reverse;
        const int inner = j->lanes->inner, unit = j->lanes->unit;
        const int64_t step = reverse ? -unit : unit, vectors = j->n * inner / unit, begin = reverse ? -(unit - inner) : 0;
        /* Lanes of other columns may not be added up. */
        const bool adds = O(adds_up) && !j->m && inner == 1;
        const bool periodic = K_LANE_BYTES >= 4 && unit < K_WIDTH && vectors >= 4 * inner;
        const int over = periodic || adds ? 0 : (int)(j->n * inner % unit), first = reverse ? unit - over : 0;
        const int64_t lowest = reverse ? -(j->n - 1) * inner : 0;
        const uint64_t before = (uint64_t)(j->start * inner / unit), after = before + (uint64_t)vectors;
        for (int64_t done = 0; done < j->rows;) {
                const char *x = j->x + done * j->x_row + begin * K_SIZE;
                const uint8_t *m = j->m ? j->m + done * j->m_row + begin : NULL;
                O(val) totals[SF_CPU_GROUP];
                const char *bottom = j->x + done * j->x_row + lowest * K_SIZE;
                int many = 1;
                if (adds)
                        many = O(fold_totals)(j, done, bottom, totals);
                else if (periodic)
                        totals[0] = O(fold_period)(j, bottom, j->m ? j->m + done * j->m_row + lowest : NULL);
                else
                        many = O(fold_lanes)(j, done, x, m, step, vectors, totals);
                x += vectors * step * K_SIZE;
                m = m ? m + vectors * step : NULL;
                for (int r = 0; r < many; r++) {
                        const int64_t at = done + r;
                        char *counter = j->counters + (j->resume || j->start ? at : r) * SF_ORDER_LEVELS * K_ENTRY;
                        O(val) total = totals[r];
                        if (over) {
                                const v_mask low = v_mask_below(reverse ? first : over, K_LANE_BYTES);
                                const uint8_t *mask = m ? m + r * j->m_row + first : NULL;
                                O(val) v = O(load_part)(x + r * j->x_row + first * K_SIZE, mask, &none, first, over);
                                v = reverse ? O(blend)(low, none.value, v) : O(blend)(low, v, none.value);
                                total = O(combine)(total, v);
                        }
                        total = O(last)(O(lane_scan)(total, &t, 0), &t);
                        if (before)
                                total = O(combine)(O(get)(counter + sf_order_log2(before) * K_ENTRY), total);
                        if (!j->resume)
                                O(fold_end)(j, at, total);
                        else if (after)
                                O(put)(counter + sf_order_log2(after) * K_ENTRY, total);
                }
                done += many;
        }
}
#undef K_APART
#endif

static void O(fold_rows)(const sf_rows *j)
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

#if K_LANE_BYTES >= 4
/* ------------------------------------------------------------------------------------------------------------
 * Packed short rows; y is a run too.
 * ---------------------------------------------------------------------------------------------------------- */
static void O(fold_packed)(const sf_rows *j)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const v_raw take = v_raw_load(j->lanes->take.bytes);
        const O(none) none = O(none_of)(j->identity, j->turn);
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

/* ------------------------------------------------------------------------------------------------------------
 * Columns: tiles of V_FOLD_ROWS positions
 * ---------------------------------------------------------------------------------------------------------- */

/* V_FOLD_ROWS positions of a vector of columns, `count` of them, to their total. */
SF_INLINE O(val) O(fold_positions)(const sf_columns *j, const char *x, const uint8_t *m, const O(none) *none, int count)
{
        O(val) v[V_FOLD_ROWS];
        if (count == K_WIDTH && !m) {
                V_UNROLL
                for (int i = 0; i < V_FOLD_ROWS; i++, x += j->x_step) {
                        if (K_WIDTH * K_SIZE >= 16) /* else most would be of the same line */
                                __builtin_prefetch(x + j->ahead);
                        v[i] = O(load)(x, NULL, none);
                }
        } else {
                for (int i = 0; i < V_FOLD_ROWS; i++, x += j->x_step, m = m ? m + j->m_step : NULL)
                        v[i] = O(load_some)(x, m, none, 0, count);
        }
        V_UNROLL
        for (int size = 1; size < V_FOLD_ROWS; size *= 2) {
                V_UNROLL
                for (int i = 0; i < V_FOLD_ROWS; i += 2 * size)
                        v[i] = O(combine)(v[i], v[i + size]);
        }
        return v[0];
}

/* How many of a counter's entries a tile is combined with before it takes the place of the next one. Free: what there is is in the first. */
SF_INLINE int O(closed_by)(uint64_t tile)
{
#ifdef K_ORDERED
        return sf_order_closed(tile);
#else
        return tile > 0;
#endif
}
SF_INLINE int O(in_place)(int closed)
{
#ifdef K_ORDERED
        return closed;
#else
        return 0 * closed;
#endif
}
/* Bits: the entries in use after so many tiles. */
SF_INLINE uint64_t O(in_use)(uint64_t tiles)
{
#ifdef K_ORDERED
        return tiles;
#else
        return tiles > 0;
#endif
}

#ifdef K_TOTALS
/*
 * Sums that widen: of every vector of elements, those at even and at odd places are added up apart, in lanes twice as wide, which hold the sums of
 * so many tiles; they are kept where the counter would have its second entry. Returns how many columns that was.
 */
static V_APART int64_t O(fold_wide_tiles)(const sf_columns *j, const O(none) *none, int64_t tiles)
{
        enum { BITS = 8 * K_SIZE, LANES = V_BYTES / K_SIZE };
        const int64_t most = BITS == 32 ? INT64_MAX : (1 << (BITS & 31)) / V_FOLD_ROWS, cols = j->cols / LANES * LANES;
        const uint64_t low = ~(uint64_t)0 / (((uint64_t)1 << BITS) + 1), sign = K_CONVERT == K_FROM_SIGNED ? (uint64_t)1 << (BITS - 1) : 0;
        const char *x = j->x;
        K_LANE_C *totals = (K_LANE_C *)j->counters;
        char *sums = j->counters + j->counter_stride;
        for (int64_t c = 0; c < cols && !j->start; c += K_WIDTH)
                O(put)((char *)(totals + c), none->value);
        for (int64_t left = tiles, now; left > 0; left -= now) {
                now = left < most ? left : most;
                memset(sums, 0, (size_t)(2 * cols * K_SIZE));
                for (int64_t tile = 0; tile < now; tile++, x += V_FOLD_ROWS * j->x_step)
                        for (int64_t c = 0; c < cols; c += LANES) {
                                char *sum = sums + 2 * c * K_SIZE;
                                const char *at = x + c * K_SIZE;
                                N(vec) even = N(get)(sum), odd = N(get)(sum + V_BYTES);
                                V_UNROLL
                                for (int i = 0; i < V_FOLD_ROWS; i++, at += j->x_step) {
                                        __builtin_prefetch(at + j->ahead);
                                        const v_u64 v = N(unsigned)((v_u64)v_raw_load(at));
                                        even += v & low;
                                        odd += v >> BITS & low;
                                }
                                N(put)(sum, even);
                                N(put)(sum + V_BYTES, odd);
                        }
                for (int64_t c = 0; c < cols; c += LANES) {
                        K_TWICE sum[LANES];
                        memcpy(sum, sums + 2 * c * K_SIZE, sizeof sum);
                        for (int l = 0; l < LANES / 2; l++) {
                                totals[c + 2 * l] += sum[l] - (uint64_t)(now * V_FOLD_ROWS) * sign;
                                totals[c + 2 * l + 1] += sum[LANES / 2 + l] - (uint64_t)(now * V_FOLD_ROWS) * sign;
                        }
                }
        }
        return cols;
}
#endif

/* The tiles, into the counters. */
SF_INLINE void O(fold_columns_tiles)(const sf_columns *j, const O(none) *none, int64_t tiles)
{
        const char *x = j->x;
        const uint8_t *m = j->m;
        int64_t done = 0;
#ifdef K_TOTALS
        if (!m && tiles >= 4)
                done = O(fold_wide_tiles)(j, none, tiles);
#endif
        if (done == j->cols)
                return;
        for (uint64_t tile = (uint64_t)(j->start / V_FOLD_ROWS); tiles > 0; tiles--, tile++) {
                const int closed = O(closed_by)(tile), place = O(in_place)(closed);
                for (int64_t c = done; c < j->cols; c += K_WIDTH) {
                        const int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                        O(val) v = O(fold_positions)(j, x + c * K_SIZE, m ? m + c : NULL, none, count);
                        for (int k = 0; k < closed; k++)
                                v = O(combine)(O(get)(j->counters + k * j->counter_stride + c * K_EACH), v);
                        O(put)(j->counters + place * j->counter_stride + c * K_EACH, O(settle)(v));
                }
                x += V_FOLD_ROWS * j->x_step;
                m = m ? m + V_FOLD_ROWS * j->m_step : NULL;
        }
}

/* The total of one vector of columns: `over` positions from x on, with the counter of `tiles` tiles to their left. */
SF_INLINE O(val) O(fold_columns_end)(const sf_columns *j, const char *x, const uint8_t *m, const O(none) *none, int64_t over,
                                     uint64_t tiles, int64_t c, int count)
{
        O(val) inside[V_FOLD_ROWS_LOG + 1], total = none->value;
        bool any = over > 0;
        for (int i = 0; i < over; i++) {
                const uint8_t *mask = m ? m + i * j->m_step + c : NULL;
                total = O(load_part)(x + i * j->x_step + c * K_SIZE, mask, none, 0, count);
                const int closed = sf_order_closed((uint64_t)i);
                for (int k = 0; k < closed; k++)
                        total = O(combine)(inside[k], total);
                inside[closed] = total;
                for (int k = closed; k < V_FOLD_ROWS_LOG; k++)
                        if (i >> k & 1)
                                total = O(combine)(inside[k], total);
        }
        for (uint64_t bits = O(in_use)(tiles); bits; bits &= bits - 1, any = true) {
                const O(val) entry = O(get)(j->counters + __builtin_ctzll(bits) * j->counter_stride + c * K_EACH);
                total = any ? O(combine)(entry, total) : entry;
        }
        for (int e = 0; j->carry && e < j->carry->count; e++)
                total = O(combine)(O(get)(j->carry->entries + e * j->carry->entry_stride + c * K_EACH), total);
        return total;
}

static void O(fold_columns)(const sf_columns *j)
{
        const O(none) none = O(none_of)(j->identity, j->turn);
        const int64_t tiles = j->n / V_FOLD_ROWS, over = j->n % V_FOLD_ROWS;
        O(fold_columns_tiles)(j, &none, tiles);
        if (j->resume)
                return;
        const char *x = j->x + tiles * V_FOLD_ROWS * j->x_step;
        const uint8_t *m = j->m ? j->m + tiles * V_FOLD_ROWS * j->m_step : NULL;
        const uint64_t before = (uint64_t)(j->start / V_FOLD_ROWS + tiles);
        N(writer) writer;
        N(writer_start)(&writer, j->y, j->stream, false);
        int64_t c = 0;
        for (; c < j->cols; c += K_WIDTH) {
                const int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                const O(val) total = O(fold_columns_end)(j, x, m, &none, over, before, c, count);
                const N(vec) result = O(lower)(total, &none);
                if (j->raw) {
                        O(put)(j->y + c * K_EACH, O(settle)(total));
                } else if (count == K_WIDTH) {
                        N(write)(&writer, j->y + c * K_OUT, &result, 1);
                } else {
                        N(write_end)(&writer, j->y + c * K_OUT);
                        writer.first = true;
                        N(store_part)(j->y + c * K_OUT, result, 0, count);
                }
        }
        if (j->raw)
                return;
        N(write_end)(&writer, j->y + c * K_OUT);
        if (j->stream)
                v_fence();
}

#undef K_BY_LANES
#undef K_SHORT_ROWS
#undef K_BY_HALVES
