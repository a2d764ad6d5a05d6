/*
 * fold_halves.inc.h: folds of rows by halves. Template; kernels.inc.h has the parameters. Values of one component.
 *
 * Neighbours are combined pair by pair, two vectors to one, until one vector is left with a block's total in every lane. A tile is
 * SF_CPU_TILE_VECTORS vectors of one row, or, of short rows, a vector of each of K_WIDTH rows.
 */

/* Neighbouring elements of two vectors that follow one another, combined; `early` is first in the sequence. */
SF_INLINE N(vec) O(halve)(N(vec) early, N(vec) late, const bool reverse)
{
        if (reverse) {
                N(vec) even = (N(vec))K_CAT(V_EVENS, K_LANE_BYTES)(late, early), odd = (N(vec))K_CAT(V_ODDS, K_LANE_BYTES)(late, early);
                return O(combine)(odd, even);
        }
        N(vec) even = (N(vec))K_CAT(V_EVENS, K_LANE_BYTES)(early, late), odd = (N(vec))K_CAT(V_ODDS, K_LANE_BYTES)(early, late);
        return O(combine)(even, odd);
}

/* `count` vectors that follow one another, a power of two of them, halved until there is one, v[0]. */
SF_INLINE void O(halve_all)(N(vec) *v, const int count, const bool reverse)
{
        V_UNROLL
        for (int size = count / 2; size > 0; size /= 2) {
                V_UNROLL
                for (int i = 0; i < size; i++)
                        v[i] = O(halve)(v[2 * i], v[2 * i + 1], reverse);
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Short rows, many at once
 * ---------------------------------------------------------------------------------------------------------- */

/* The totals of `left` elements, but no more than a vector, of each of `many` rows. */
SF_INLINE N(vec) O(fold_across)(const sf_rows *j, const char *x, const uint8_t *m, int many, int64_t left, N(vec) identity, int64_t ahead)
{
        const N(vec) beyond = O(neutral)(identity);
        const v_mask on = v_mask_below(left < K_WIDTH ? (int)left : K_WIDTH, K_LANE_BYTES);
        N(vec) v[K_WIDTH];
        for (int r = 0; r < K_WIDTH; r++, x += j->x_row, m = m ? m + j->m_row : NULL) {
                v[r] = beyond;
                if (r >= many)
                        continue;
                __builtin_prefetch(x + ahead);
                if (left >= K_WIDTH)
                        v[r] = O(load)(x, m, identity);
                else
                        v[r] = O(blend)(on, O(load_part)(x, m, identity, 0, (int)left), beyond);
        }
        O(halve_all)(v, K_WIDTH, false);
        return v[0];
}

SF_INLINE void O(fold_short)(const sf_rows *j)
{
        const N(vec) identity = O(broadcast)(j->identity);
        const int64_t ahead = K_WIDTH * j->x_row > j->ahead ? K_WIDTH * j->x_row : j->ahead; /* within these rows everything is on its way */
        for (int64_t at = 0; at < j->rows; at += K_WIDTH) {
                const int many = j->rows - at < K_WIDTH ? (int)(j->rows - at) : K_WIDTH;
                N(vec) inside[K_LOG_WIDTH + 1], total = identity;
                uint64_t vectors = 0;
                for (int64_t i = 0; i < j->n; i += K_WIDTH, vectors++) {
                        const int closed = sf_order_closed(vectors);
                        total = O(fold_across)(j, j->x + at * j->x_row + i * K_SIZE, j->m ? j->m + at * j->m_row + i : NULL, many, j->n - i, identity, ahead);
                        for (int k = 0; k < closed; k++)
                                total = O(combine)(inside[k], total);
                        inside[closed] = total;
                }
                for (uint64_t bits = vectors & (vectors - 1); bits; bits &= bits - 1)
                        total = O(combine)(inside[__builtin_ctzll(bits)], total);
                if (j->carry)
                        O(add_carry)(j->carry, &total, 1);
                N(store_unit)(j->y + at * K_SIZE, total, many);
        }
}

/* Rows of fewer than K_WIDTH vectors, enough of them, whole, with their totals side by side. */
SF_INLINE bool O(is_short)(const sf_rows *j)
{
        return j->n < K_WIDTH * K_WIDTH && 2 * j->rows >= K_WIDTH && j->lanes->inner == 1 && j->lanes->unit == K_WIDTH && !j->lanes->reverse && !j->start &&
               !j->resume && !(j->carry && j->carry_row) && !j->raw && j->y_row == K_SIZE;
}

/* ------------------------------------------------------------------------------------------------------------
 * Long rows, several side by side
 *
 * What is left of a tile of each row goes on by halves with that of the other rows: one vector has the tile's total of a row in each lane, and one
 * counter serves all of them.
 * ---------------------------------------------------------------------------------------------------------- */
#ifdef K_BY_HALVES

/* A vector of which `left` elements are there, if not all; beyond them, what changes no value. */
SF_INLINE N(vec) O(load_ragged)(const char *x, const uint8_t *m, N(vec) identity, const bool reverse, int64_t left)
{
        const N(vec) beyond = O(neutral)(identity);
        if (left >= K_WIDTH)
                return O(load)(x, m, identity);
        if (left <= 0)
                return beyond;
        const int count = (int)left, first = reverse ? K_WIDTH - count : 0;
        N(vec) v = O(load_part)(x + first * K_SIZE, m ? m + first : NULL, identity, first, count);
        v_mask low = v_mask_below(reverse ? first : count, K_LANE_BYTES);
        return reverse ? O(blend)(low, beyond, v) : O(blend)(low, v, beyond);
}

/* Vectors read of a row before it is the next one's turn. Memory answers best where neighbouring requests are for different rows; but what a turn
 * leaves is stored until the tile is whole. With vectors of 64 bytes, sums of rows beside plain reads: four 0.94 to
 * 1.01, two 0.94 to 1.00, sixteen 0.91 to 0.93. */
enum { O(turn) = 4, O(turns) = SF_CPU_TILE_VECTORS / O(turn) };

/* So many vectors from x on, of which `left` elements are there if not all, pair by pair to one. */
SF_INLINE N(vec) O(fold_turn)(const char *x, const uint8_t *m, N(vec) identity, const bool reverse, const bool whole, int64_t left, int64_t ahead)
{
        const int64_t step = reverse ? -K_WIDTH : K_WIDTH;
        N(vec) v[O(turn)];
        V_UNROLL
        for (int i = 0; i < O(turn); i++) {
                const char *at = x + i * step * K_SIZE;
                const uint8_t *mask = m ? m + i * step : NULL;
                __builtin_prefetch(at + ahead);
                v[i] = whole ? O(load)(at, mask, identity) : O(load_ragged)(at, mask, identity, reverse, left - i * K_WIDTH);
        }
        O(halve_all)(v, O(turn), reverse);
        return v[0];
}

/* A tile of each of `many` rows, or as much of it as `left` elements fill, to one vector a row: the totals of SF_CPU_TILE_VECTORS consecutive elements
 * in each lane. */
SF_INLINE void O(fold_tile)(const sf_rows *j, const char *x, const uint8_t *m, int many, N(vec) identity, const bool reverse, int64_t left,
                            int64_t ahead, N(vec) *v)
{
        enum { SIZE = O(turn) * K_WIDTH };
        N(vec) part[SF_CPU_FOLD_GROUP][O(turns)];
        for (int i = 0; i < O(turns); i++, left -= SIZE) {
                const int64_t from = reverse ? -i * SIZE : i * SIZE;
                for (int r = 0; r < many; r++) {
                        const char *at = x + r * j->x_row + from * K_SIZE;
                        const uint8_t *mask = m ? m + r * j->m_row + from : NULL;
                        if (left < SIZE)
                                part[r][i] = O(fold_turn)(at, mask, identity, reverse, false, left, ahead);
                        else if (m)
                                part[r][i] = O(fold_turn)(at, mask, identity, reverse, true, 0, ahead);
                        else
                                part[r][i] = O(fold_turn)(at, NULL, identity, reverse, true, 0, ahead);
                }
        }
        for (int r = 0; r < many; r++) {
                O(halve_all)(part[r], O(turns), reverse);
                v[r] = part[r][0];
        }
}

/* Vectors that have a lane for each row of a group. */
enum { O(group_vectors) = SF_CPU_FOLD_GROUP > K_WIDTH ? SF_CPU_FOLD_GROUP / K_WIDTH : 1 };

/* Where the totals of a group's rows are: row r's in lane[r] of the vectors. */
typedef struct O(places) {
        int many;
        int levels; /* of lane_scan: those that there are not enough rows for */
        int vectors;
        int lane[SF_CPU_FOLD_GROUP];
} O(places);

SF_INLINE O(places) O(places_of)(int many, const bool reverse)
{
        O(places) p = {.many = many, .levels = K_LOG_WIDTH, .vectors = many};
        for (; p.levels && p.vectors > 1; p.levels--)
                p.vectors = (p.vectors + 1) / 2;
        for (int r = 0; r < many; r++) {
                const int last = ((r + 1) << p.levels) - 1;
                p.lane[r] = reverse ? last / K_WIDTH * K_WIDTH + K_WIDTH - 1 - last % K_WIDTH : last;
        }
        return p;
}

/* A tile's vector of each row to vectors of their totals. */
SF_INLINE void O(fold_rows_together)(N(vec) *v, const N(tables) *t, const O(places) *p, const bool reverse)
{
        int left = p->many;
        for (int k = K_LOG_WIDTH; k > p->levels; k--, left = (left + 1) / 2) {
                for (int i = 0; i < left / 2; i++)
                        v[i] = O(halve)(v[2 * i], v[2 * i + 1], reverse);
                if (left & 1)
                        v[left / 2] = O(halve)(v[left - 1], v[left - 1], reverse);
        }
        for (int i = 0; i < left; i++)
                v[i] = O(lane_scan)(v[i], t, p->levels);
}

/* What is fewer elements than a tile, of each row. Returns false if that is none. */
SF_INLINE bool O(fold_over)(const sf_rows *j, const char *x, const uint8_t *m, N(vec) identity, const N(tables) *t, const O(places) *p,
                            const bool reverse, int64_t left, int64_t ahead, N(vec) *v)
{
        if (left > K_WIDTH) {
                O(fold_tile)(j, x, m, p->many, identity, reverse, left, ahead, v);
                O(fold_rows_together)(v, t, p, reverse);
        } else if (left) {
                /* An element by itself is combined with nothing at all, so here nothing is put in the place of what is missing. */
                const int count = (int)left, first = reverse ? K_WIDTH - count : 0;
                K_LANE_C total[O(group_vectors) * K_WIDTH] = {0}, lane[K_WIDTH];
                for (int r = 0; r < p->many; r++) {
                        const uint8_t *mask = m ? m + r * j->m_row + first : NULL;
                        N(vec) one = O(load_part)(x + r * j->x_row + first * K_SIZE, mask, identity, first, count);
                        N(put)(lane, O(lane_scan)(one, t, K_LOG_WIDTH));
                        total[p->lane[r]] = lane[reverse ? first : count - 1];
                }
                for (int i = 0; i < p->vectors; i++)
                        v[i] = N(get)(total + i * K_WIDTH);
        }
        return left > 0;
}

/* The rows' counters in the caller's memory have an entry's total in every lane of a vector. */
SF_INLINE void O(get_entry)(const char *counters, int k, const O(places) *p, N(vec) *v)
{
        K_LANE_C total[O(group_vectors) * K_WIDTH] = {0};
        for (int r = 0; r < p->many; r++)
                memcpy(&total[p->lane[r]], counters + (r * SF_ORDER_LEVELS + k) * V_BYTES, sizeof total[0]);
        for (int i = 0; i < p->vectors; i++)
                v[i] = N(get)(total + i * K_WIDTH);
}
SF_INLINE N(vec) O(row_total)(const N(vec) *v, const O(places) *p, int r)
{
        sf_value one = {.u64 = 0};
        memcpy(&one.K_VALUE, (const char *)v + p->lane[r] * K_LANE_BYTES, K_LANE_BYTES);
        return N(broadcast)(one);
}

SF_INLINE void O(fold_by_halves)(const sf_rows *j, const bool reverse)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const N(vec) identity = O(broadcast)(j->identity);
        const int64_t size = SF_CPU_TILE_VECTORS * K_WIDTH, step = reverse ? -size : size, offset = reverse ? 1 - K_WIDTH : 0;
        const int64_t tiles = j->n / size, all = (j->n + size - 1) / size;
        const uint64_t first = (uint64_t)(j->start / size), last = first + (uint64_t)tiles;
        /* Entries that stay what they are need not be moved, where the sequence goes on. */
        const uint64_t moved = !j->resume ? ~0ull : first == last ? 0 : (2ull << sf_order_log2(first ^ last)) - 1;
        for (int64_t done = 0; done < j->rows;) {
                const int many = j->rows - done < SF_CPU_FOLD_GROUP ? (int)(j->rows - done) : SF_CPU_FOLD_GROUP;
                const O(places) p = O(places_of)(many, reverse);
                const char *x = j->x + done * j->x_row + offset * K_SIZE;
                const uint8_t *m = j->m ? j->m + done * j->m_row + offset : NULL;
                N(vec) entry[SF_ORDER_LEVELS][O(group_vectors)], v[SF_CPU_FOLD_GROUP];
                for (uint64_t bits = first & moved; bits; bits &= bits - 1)
                        O(get_entry)(j->counters, __builtin_ctzll(bits), &p, entry[__builtin_ctzll(bits)]);
                /* With its last tile a group fetches the beginning of the next one, or of what it will be resumed with. */
                const int64_t on = j->resume ? j->ahead : many * j->x_row - (all - 1) * step * K_SIZE;
                for (uint64_t tile = first; tile < last; tile++) {
                        const int64_t ahead = tile + 1 < first + (uint64_t)all ? j->ahead : on;
                        O(fold_tile)(j, x, m, many, identity, reverse, size, ahead, v);
                        O(fold_rows_together)(v, &t, &p, reverse);
                        const int closed = sf_order_closed(tile);
                        for (int i = 0; i < p.vectors; i++) {
                                for (int k = 0; k < closed; k++)
                                        v[i] = O(combine)(entry[k][i], v[i]);
                                entry[closed][i] = v[i];
                        }
                        x += step * K_SIZE;
                        m = m ? m + step : NULL;
                }
                if (j->resume) {
                        for (uint64_t bits = last & moved; bits; bits &= bits - 1)
                                for (int r = 0; r < many; r++)
                                        N(put)(j->counters + (r * SF_ORDER_LEVELS + __builtin_ctzll(bits)) * V_BYTES,
                                               O(row_total)(entry[__builtin_ctzll(bits)], &p, r));
                        done += many;
                        continue;
                }
                bool any = O(fold_over)(j, x, m, identity, &t, &p, reverse, j->n - tiles * size, on, v);
                for (uint64_t bits = last; bits; bits &= bits - 1, any = true)
                        for (int i = 0; i < p.vectors; i++)
                                v[i] = any ? O(combine)(entry[__builtin_ctzll(bits)][i], v[i]) : entry[__builtin_ctzll(bits)][i];
                for (int r = 0; r < many; r++, done++)
                        O(fold_end)(j, done, O(row_total)(v, &p, r));
        }
}

#ifdef K_PRODUCTS
#include "cpu/fold_products.inc.h"
#endif
#endif
