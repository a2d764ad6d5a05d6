/*
 * fold_halves.inc.h: folds of rows by halves. Template; kernels.inc.h has the parameters.
 *
 * Neighbours are combined pair by pair, two vectors to one, until one vector is left, in which each
 * lane is the total of a block. A tile is SF_CPU_TILE_VECTORS vectors of one row or, of short rows,
 * one vector of each of K_WIDTH rows.
 */

SF_INLINE O(val) O(paired)(O(val) early, O(val) late, const int level, const bool right)
{
#if K_PARTS > 1
        return (O(val)){N(paired)(early.K_FIRST, late.K_FIRST, level, right),
                        (K_SECOND_VEC)N(paired)((N(vec))early.K_SECOND, (N(vec))late.K_SECOND, level, right)};
#else
        return N(paired)(early, late, level, right);
#endif
}
SF_INLINE O(val) O(in_order)(O(val) v, const int levels)
{
#if K_PARTS > 1
        return (O(val)){N(in_order)(v.K_FIRST, levels), (K_SECOND_VEC)N(in_order)((N(vec))v.K_SECOND, levels)};
#else
        return N(in_order)(v, levels);
#endif
}

/* Combines neighbouring values of two consecutive vectors, which `level` levels have halved. */
SF_INLINE O(val) O(halve)(O(val) early, O(val) late, const int level)
{
        return O(combine)(O(paired)(early, late, level, false), O(paired)(early, late, level, true));
}

/* Halves `count` consecutive vectors, a power of two of them, until one is left, v[0]. */
SF_INLINE void O(halve_all)(O(val) *v, const int count, int level)
{
        V_UNROLL
        for (int size = count / 2; size > 0; size /= 2, level++) {
                V_UNROLL
                for (int i = 0; i < size; i++)
                        v[i] = O(halve)(v[2 * i], v[2 * i + 1], level);
        }
}

#ifdef K_SMALL
/* The same for `count` vectors of elements whose exponentials are plain numbers; else false. */
SF_INLINE bool O(halve_small)(const N(vec) *x, const int count, O(val) *total)
{
        N(vec) v[SF_CPU_TILE_VECTORS];
        if (!O(are_small)(x, count, v))
                return false;
        V_UNROLL
        for (int size = count / 2, level = 0; size > 0; size /= 2, level++) {
                V_UNROLL
                for (int i = 0; i < size; i++)
                        v[i] = N(paired)(v[2 * i], v[2 * i + 1], level, false) + N(paired)(v[2 * i], v[2 * i + 1], level, true);
        }
        *total = O(of_small)(v[0]);
        return true;
}
#endif

#ifdef K_BOTH
/* The same for the squares of `count` vectors, and for themselves. Neighbours are brought together
 * before they are squared, so that this is done only once. */
SF_INLINE void O(halve_both)(const N(vec) *v, const int count, N(vec) *total)
{
        N(vec) square[SF_CPU_TILE_VECTORS / 2], sum[SF_CPU_TILE_VECTORS / 2];
        V_UNROLL
        for (int i = 0; i < count / 2; i++) {
                const N(vec) even = N(paired)(v[2 * i], v[2 * i + 1], 0, false);
                const N(vec) odd = N(paired)(v[2 * i], v[2 * i + 1], 0, true);
                sum[i] = O(combine)(even, odd);
                square[i] = O(combine)(even * even, odd * odd);
        }
        O(halve_all)(square, count / 2, 1);
        O(halve_all)(sum, count / 2, 1);
        total[0] = square[0];
        total[1] = sum[0];
}
#endif

#ifdef K_SHORT_ROWS
/* ------------------------------------------------------------------------------------------------
 * Short rows, many at once
 * ---------------------------------------------------------------------------------------------- */

/* The totals of up to a vector of each of `many` rows; they have `left` more elements. both: of the
 * squares of lifted elements, and of these elements themselves. */
SF_INLINE void O(fold_across)(const sf_rows *j, const bool both, const char *x, const uint8_t *m,
                              const N(vec) *centre, int many, int64_t left, O(none) *none,
                              int64_t ahead, O(val) *total)
{
        const O(val) beyond = O(neutral)(none);
        const v_mask on = v_mask_below(left < K_WIDTH ? (int)left : K_WIDTH, K_LANE_BYTES);
        O(val) v[K_WIDTH];
        if (many == K_WIDTH && left >= K_WIDTH && !m) {
                N(vec) element[K_WIDTH];
                V_UNROLL
                for (int r = 0; r < K_WIDTH; r++) {
                        __builtin_prefetch(x + r * j->x_row + ahead);
                        element[r] = N(load)(x + r * j->x_row);
                }
                if (both) { /* with nothing to ask */
                        V_UNROLL
                        for (int r = 0; r < K_WIDTH; r++)
                                element[r] -= centre[r];
                } else {
                        O(lift_all)(element, K_WIDTH, centre, none);
                }
#ifdef K_SMALL
                if (O(halve_small)(element, K_WIDTH, total))
                        return;
#endif
                K_LIFT_LOOP
                for (int r = 0; r < K_WIDTH; r++)
                        v[r] = O(lift)(element[r], none);
        } else {
                for (int r = 0; r < K_WIDTH; r++, x += j->x_row, m = m ? m + j->m_row : NULL) {
                        v[r] = beyond;
                        if (r >= many)
                                continue;
                        __builtin_prefetch(x + ahead);
                        O(centre_row)(none, &j->lift, centre + r);
                        if (left >= K_WIDTH)
                                v[r] = O(load)(x, m, none);
                        else
                                v[r] = O(blend)(on, O(load_part)(x, m, none, 0, (int)left), beyond);
                }
        }
#ifdef K_BOTH
        if (both) {
                O(halve_both)(v, K_WIDTH, total);
                return;
        }
#endif
        (void)both;
        O(halve_all)(v, K_WIDTH, 0);
        total[0] = v[0];
}

#ifdef K_TOTALS
/* Rows back to back that are `lanes` lanes each, a power of two, once elements have been summed.
 * Combined pair by pair, they become totals side by side. */
SF_INLINE void O(fold_dense)(const sf_rows *j, const int lanes)
{
        const O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const char *x = j->x;
        for (int64_t at = 0; at < j->rows; at += K_WIDTH) {
                N(vec) v[K_WIDTH];
                const int many = j->rows - at < K_WIDTH ? (int)(j->rows - at) : K_WIDTH;
                V_UNROLL
                for (int i = 0; i < lanes; i++, x += V_BYTES) {
                        const int64_t there = many * j->x_row - i * V_BYTES;
                        __builtin_prefetch(x + j->ahead);
                        v[i] = N(total)(there >= V_BYTES ? (v_u64)v_raw_load(x) : N(first_bytes)(x, there > 0 ? (int)there : 0), none.turn);
                }
                O(halve_all)(v, lanes, 0);
                N(vec) total = O(combine)(none.value, O(in_order)(v[0], sf_order_log2((uint64_t)lanes)));
                if (j->carry)
                        O(add_carry)(j->carry, &total, 1);
                N(store_unit)(j->y + at * K_OUT, O(lower)(total, &none), many);
        }
}

/* How many lanes such rows have; 0: these are not such rows. */
SF_INLINE int64_t O(dense_lanes)(const sf_rows *j)
{
        const int64_t bytes = j->n * K_SIZE;
        return !j->m && j->x_row == bytes && bytes % K_OUT == 0 && !(bytes & (bytes - 1)) && bytes <= K_WIDTH * K_OUT ? bytes / K_OUT : 0;
}
#endif

/* Short rows have fewer than 2^short_levels vectors: those of a tile. */
enum { O(short_levels) = 4 };
_Static_assert(1 << O(short_levels) == SF_CPU_TILE_VECTORS, "rows of whole tiles are not short");

SF_INLINE void O(fold_short_as)(const sf_rows *j, const bool both)
{
        const int totals = both ? 2 : 1;
        O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const int64_t ahead = sf_rows_ahead(j, j->n * K_SIZE, K_WIDTH);
#ifdef K_BOTH
        none.square = none.square && !both; /* that comes after the first level */
#endif
        for (int64_t at = 0; at < j->rows; at += K_WIDTH) {
                const int many = j->rows - at < K_WIDTH ? (int)(j->rows - at) : K_WIDTH;
                const char *x = j->x + at * j->x_row;
                const uint8_t *m = j->m ? j->m + at * j->m_row : NULL;
                O(val) inside[SF_CPU_BOTH_LEVELS + 1][2], total[2] = {none.value, none.value};
                N(vec) centre[K_WIDTH];
                O(centres_of)(&j->lift, at, many, centre);
                uint64_t vectors = 0;
                for (int64_t i = 0; i < j->n; i += K_WIDTH, vectors++) {
                        const int closed = sf_order_closed(vectors);
                        O(fold_across)(j, both, x + i * K_SIZE, m ? m + i : NULL, centre, many,
                                       j->n - i, &none, ahead, total);
                        V_UNROLL
                        for (int t = 0; t < totals; t++) {
                                for (int k = 0; k < closed; k++)
                                        total[t] = O(combine)(inside[k][t], total[t]);
                                inside[closed][t] = total[t];
                        }
                }
                V_UNROLL
                for (int t = 0; t < totals; t++) {
                        for (uint64_t bits = vectors & (vectors - 1); bits; bits &= bits - 1)
                                total[t] = O(combine)(inside[__builtin_ctzll(bits)][t], total[t]);
                        if (j->carry)
                                O(add_carry)(j->carry, &total[t], 1);
                        char *y = (t ? j->sums : j->y) + at * N(result_bytes)(j->wide);
                        N(store_results)(y, O(lower)(total[t], &none), many, j->wide);
                }
        }
}

static V_APART void O(fold_short)(const sf_rows *j)
{
#ifdef K_TOTALS
        switch (O(dense_lanes)(j)) {
        case 1: O(fold_dense)(j, 1); return;
        case 2: O(fold_dense)(j, 2); return;
#if K_WIDTH >= 4
        case 4: O(fold_dense)(j, 4); return;
#endif
#if K_WIDTH >= 8
        case 8: O(fold_dense)(j, 8); return;
#endif
        default: break;
        }
#endif
        O(fold_short_as)(j, false);
}
#ifdef K_BOTH
static V_APART void O(fold_short_both)(const sf_rows *j)
{
        O(fold_short_as)(j, true);
}
#endif

/* Are rows whole and short, are there enough, and are their totals
 * contiguous? */
SF_INLINE bool O(is_short)(const sf_rows *j)
{
        return j->n < (int64_t)K_WIDTH << (j->sums ? SF_CPU_BOTH_LEVELS : O(short_levels)) &&
               2 * j->rows >= K_WIDTH && j->lanes->inner == 1 && j->lanes->unit == K_WIDTH &&
               !j->lanes->reverse && !j->start && !j->resume && !(j->carry && j->carry_row) &&
               !j->raw && j->y_row == N(result_bytes)(j->wide);
}

#endif

/* ------------------------------------------------------------------------------------------------
 * Long rows, several side by side
 *
 * The last vectors of a tile of each row are halved together with those of the other rows: lane r
 * of a few vectors gets the tile's total of row r, and one counter is enough for all rows. In
 * reverse a tile's tree is the same, because the operation commutes; only the tiles follow one
 * another down in memory.
 * ---------------------------------------------------------------------------------------------- */
#ifdef K_BY_HALVES
enum { O(tile) = SF_CPU_TILE_VECTORS * K_WIDTH }; /* elements */

/* How many vectors of a row are read before the next row's turn. Memory is fastest if neighbouring
 * requests are for different rows; but the result of each turn is stored until the tile is
 * complete. With vectors of 64 bytes, sums of rows beside plain reads: four 0.94 to 1.01, two 0.94
 * to 1.00, sixteen 0.91 to 0.93. Of exponentials in f64, eight are computed at once. */
#if defined(K_SMALL) && K_LANE_BITS == 64
enum { O(turn_levels) = 3 };
#else
enum { O(turn_levels) = 2 };
#endif
enum { O(turn) = 1 << O(turn_levels), O(turns) = SF_CPU_TILE_VECTORS / O(turn) };

/* Folds the vectors of one turn, from x on, pair by pair to one. */
SF_INLINE O(val) O(fold_turn)(const char *x, const uint8_t *m, const O(none) *none, int64_t ahead, const bool plain)
{
        N(vec) element[O(turn)];
        O(val) v[O(turn)];
        V_UNROLL
        for (int i = 0; i < O(turn); i++) {
                __builtin_prefetch(x + i * K_WIDTH * K_SIZE + ahead);
                element[i] = N(load)(x + i * K_WIDTH * K_SIZE);
        }
        if (!plain)
                O(lift_all)(element, O(turn), NULL, none);
        if (!plain && m) {
                V_UNROLL
                for (int i = 0; i < O(turn); i++)
                        element[i] = N(masked)(N(mask)(m + i * K_WIDTH), element[i], none->element);
        }
#ifdef K_SMALL
        if (O(halve_small)(element, O(turn), v))
                return v[0];
#endif
        K_LIFT_LOOP
        for (int i = 0; i < O(turn); i++)
                v[i] = O(lift)(element[i], none);
        O(halve_all)(v, O(turn), 0);
        return v[0];
}

/* The same if the turn has only elements low .. high - 1; the others are replaced by a value that
 * changes nothing. */
static V_APART O(val) O(fold_ragged)(const char *x, const uint8_t *m, const O(none) *none, int64_t low, int64_t high)
{
        const O(val) beyond = O(neutral)(none);
        O(val) v[O(turn)];
        for (int i = 0; i < O(turn); i++, low -= K_WIDTH, high -= K_WIDTH) {
                const int first = low > 0 ? (int)low : 0, end = high < K_WIDTH ? (int)high : K_WIDTH;
                v[i] = beyond;
                if (first >= end)
                        continue;
                const int64_t at = i * K_WIDTH + first;
                v[i] = O(load_some)(x + at * K_SIZE, m ? m + at : NULL, none, first, end - first);
                v[i] = O(blend)(v_mask_below(end, K_LANE_BYTES), v[i], beyond);
                v[i] = O(blend)(v_mask_below(first, K_LANE_BYTES), beyond, v[i]);
        }
        O(halve_all)(v, O(turn), 0);
        return v[0];
}

/* How many vectors have a lane for each row of a group. */
enum { O(group_vectors) = SF_CPU_FOLD_GROUP > K_WIDTH ? SF_CPU_FOLD_GROUP / K_WIDTH : 1 };
SF_INLINE int O(vectors_of)(int many)
{
        return (many + K_WIDTH - 1) / K_WIDTH;
}

/* Halves the vectors of a tile of each row, one for each turn, until the tile has one lane. A
 * row's vector without a partner is halved with itself. */
SF_INLINE void O(halve_rows)(O(val) part[][O(turns)], int many, O(val) *v)
{
        enum { FIRST = O(short_levels) }; /* those of a tile */
        for (int r = 0; r < many; r++) {
                O(halve_all)(part[r], O(turns), O(turn_levels));
                v[r] = part[r][0];
        }
        V_UNROLL
        for (int level = FIRST; level < FIRST + K_LOG_WIDTH; level++, many = (many + 1) / 2) {
                for (int i = 0; i < many / 2; i++)
                        v[i] = O(halve)(v[2 * i], v[2 * i + 1], level);
                if (many & 1)
                        v[many / 2] = O(halve)(v[many - 1], v[many - 1], level);
        }
        for (int i = 0; i < many; i++)
                v[i] = O(in_order)(v[i], FIRST + K_LOG_WIDTH);
}

/* Folds a tile of each of `many` rows, from row `row` on, whose lowest address is x, to vectors of
 * their totals. Only elements low .. high - 1 exist. `plain`: there is no mask, and nothing is
 * lifted. */
SF_INLINE void O(fold_tile_as)(const sf_rows *j, const char *x, const uint8_t *m, int64_t row, int many, int64_t low, int64_t high,
                               int64_t ahead, O(val) *v, const bool plain)
{
        enum { SIZE = O(turn) * K_WIDTH };
        O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        O(val) part[SF_CPU_FOLD_GROUP][O(turns)];
        N(vec) centre[SF_CPU_FOLD_GROUP];
        if (!plain)
                O(centres_of)(&j->lift, row, many, centre);
        for (int i = 0; i < O(turns); i++) {
                const int64_t from = i * SIZE, begin = low > from ? low - from : 0, end = high < from + SIZE ? high - from : SIZE;
                for (int r = 0; r < many; r++) {
                        const char *at = x + r * j->x_row + from * K_SIZE;
                        const uint8_t *mask = m ? m + r * j->m_row + from : NULL;
                        if (!plain)
                                O(centre_row)(&none, &j->lift, centre + r);
                        if (begin || end < SIZE)
                                part[r][i] = O(fold_ragged)(at, mask, &none, begin, end);
                        else
                                part[r][i] = O(fold_turn)(at, mask, &none, ahead, plain);
                }
        }
        O(halve_rows)(part, many, v);
}
/* Two instances, where elements may be lifted: to ask at every turn costs plain sums of rows 3 to
 * 14%. Masks have the other one. */
static V_APART void O(fold_tile)(const sf_rows *j, const char *x, const uint8_t *m, int64_t row, int many, int64_t low, int64_t high,
                                 int64_t ahead, O(val) *v)
{
#ifdef K_LIFTS
        if (!m && !j->lift.on) {
                O(fold_tile_as)(j, x, NULL, row, many, low, high, ahead, v, true);
                return;
        }
#endif
        O(fold_tile_as)(j, x, m, row, many, low, high, ahead, v, false);
}

/* In the caller's memory, an entry of a row's counter has its total in every lane of a vector. Here
 * row r has lane r of a few vectors. */
SF_INLINE void O(get_entry)(const char *counters, int k, int many, O(val) *v)
{
        K_LANE_C total[O(group_vectors)][K_PARTS][K_WIDTH];
        memset(total, 0, sizeof total);
        for (int r = 0; r < many; r++)
                for (int c = 0; c < K_PARTS; c++)
                        memcpy(&total[r / K_WIDTH][c][r % K_WIDTH], counters + (r * SF_ORDER_LEVELS + k) * K_ENTRY + c * V_BYTES, K_LANE_BYTES);
        for (int i = 0; i < O(vectors_of)(many); i++)
                v[i] = O(get)((const char *)total[i]);
}
SF_INLINE O(val) O(row_total)(const O(val) *v, int r)
{
        return O(spread)(v[r / K_WIDTH], r % K_WIDTH, 1);
}

static V_APART void O(fold_by_halves)(const sf_rows *j)
{
        const bool reverse = j->lanes->reverse;
        const int64_t size = O(tile), step = reverse ? -size : size;
        const int64_t tiles = j->n / size, all = (j->n + size - 1) / size, left = j->n - tiles * size;
        const uint64_t first = (uint64_t)(j->start / size), last = first + (uint64_t)tiles;
        /* If the fold is resumed later, entries that do not change need not be moved. */
        const uint64_t moved = !j->resume ? ~0ull : first == last ? 0 : (2ull << sf_order_log2(first ^ last)) - 1;
        for (int64_t done = 0; done < j->rows;) {
                const int many = j->rows - done < SF_CPU_FOLD_GROUP ? (int)(j->rows - done) : SF_CPU_FOLD_GROUP;
                const int vectors = O(vectors_of)(many);
                const char *x = j->x + done * j->x_row + (reverse ? 1 - size : 0) * K_SIZE;
                const uint8_t *m = j->m ? j->m + done * j->m_row + (reverse ? 1 - size : 0) : NULL;
                O(val) entry[SF_ORDER_LEVELS][O(group_vectors)], v[SF_CPU_FOLD_GROUP];
                for (uint64_t bits = first & moved; bits; bits &= bits - 1)
                        O(get_entry)(j->counters, __builtin_ctzll(bits), many, entry[__builtin_ctzll(bits)]);
                /* With its last tile a group prefetches the beginning of the next group, or of
                 * where it is resumed; unless other memory is prefetched. */
                const bool away = j->ahead < -SF_CPU_FAR || j->ahead > SF_CPU_FAR;
                const int64_t on = j->resume || away ? j->ahead : many * j->x_row - (all - 1) * step * K_SIZE;
                for (uint64_t tile = first; tile < last; tile++, x += step * K_SIZE, m = m ? m + step : NULL) {
                        O(fold_tile)(j, x, m, done, many, 0, size, tile + 1 < first + (uint64_t)all ? j->ahead : on, v);
                        const int closed = sf_order_closed(tile);
                        for (int i = 0; i < vectors; i++) {
                                for (int k = 0; k < closed; k++)
                                        v[i] = O(combine)(entry[k][i], v[i]);
                                entry[closed][i] = v[i];
                        }
                }
                if (j->resume) {
                        for (uint64_t bits = last & moved; bits; bits &= bits - 1)
                                for (int r = 0; r < many; r++)
                                        O(put)(j->counters + (r * SF_ORDER_LEVELS + __builtin_ctzll(bits)) * K_ENTRY,
                                               O(row_total)(entry[__builtin_ctzll(bits)], r));
                        done += many;
                        continue;
                }
                bool any = left > 0;
                if (left)
                        O(fold_tile)(j, x, m, done, many, reverse ? size - left : 0, reverse ? size : left, on, v);
                for (uint64_t bits = last; bits; bits &= bits - 1, any = true)
                        for (int i = 0; i < vectors; i++) {
                                const O(val) more = entry[__builtin_ctzll(bits)][i];
                                v[i] = any ? O(combine)(more, v[i]) : more;
                        }
                for (int r = 0; r < many; r++, done++)
                        O(fold_end)(j, done, O(row_total)(v, r));
        }
}

#if defined(K_PRODUCTS) && defined(K_WHOLE)
#include "cpu/fold_products.inc.h"
#endif
#endif
