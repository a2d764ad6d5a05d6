/*
 * fold_long.inc.h: sums of rows that are one contiguous run, several side by side. Template; kernels.inc.h has the parameters.
 *
 * A tile is K_WIDTH vectors: neighbours are added pair by pair, two vectors to one, until one vector is left with a block's total in every
 * lane. So it goes on with the vectors of the rows that are walked together: what is left has the tile's total of a row in each lane, and one
 * counter serves all of them.
 */

/* Sums of neighbouring elements of two vectors on end, `early` being first in the sequence. */
SF_INLINE N(vec) N(halve)(const sf_op op, N(vec) early, N(vec) late, const bool reverse)
{
        if (reverse) {
                N(vec) even = (N(vec))K_CAT(V_EVENS, K_LANE_BYTES)(late, early), odd = (N(vec))K_CAT(V_ODDS, K_LANE_BYTES)(late, early);
                return N(combine)(op, odd, even);
        }
        N(vec) even = (N(vec))K_CAT(V_EVENS, K_LANE_BYTES)(early, late), odd = (N(vec))K_CAT(V_ODDS, K_LANE_BYTES)(early, late);
        return N(combine)(op, even, odd);
}

/* What changes no sum: adding +0.0 would make +0.0 of -0.0. */
SF_INLINE N(vec) N(nothing)(void)
{
        sf_value zero = {.u64 = 0};
        return -N(broadcast)(zero);
}

/* `count` vectors on end, a power of two of them, halved until there is one, v[0]. */
SF_INLINE void N(halve_all)(const sf_op op, N(vec) *v, const int count, const bool reverse)
{
        V_UNROLL
        for (int size = count / 2; size > 0; size /= 2) {
                V_UNROLL
                for (int i = 0; i < size; i++)
                        v[i] = N(halve)(op, v[2 * i], v[2 * i + 1], reverse);
        }
}

/* A vector of which `left` elements are there, if not all; beyond them, nothing. */
SF_INLINE N(vec) N(load_ragged)(const char *x, const uint8_t *m, N(vec) identity, const bool reverse, int64_t left)
{
        if (left >= K_WIDTH)
                return N(load_masked)(x, m, identity);
        if (left <= 0)
                return N(nothing)();
        int count = (int)left, first = reverse ? K_WIDTH - count : 0;
        N(vec) v = N(load_masked_part)(x + first * K_SIZE, m ? m + first : NULL, identity, first, count);
        v_mask low = v_mask_below(reverse ? first : count, K_LANE_BYTES);
        return reverse ? N(blend)(low, N(nothing)(), v) : N(blend)(low, v, N(nothing)());
}

/* Vectors read of a row before it is the next one's turn. Memory answers best where neighbouring requests are for different rows; but what a turn
 * leaves is stored until the tile is whole. With vectors of 64 bytes, sums of rows beside plain reads: four 0.94 to
 * 1.01, two 0.94 to 1.00, sixteen 0.91 to 0.93. */
enum { N(turn) = K_WIDTH < 4 ? K_WIDTH : 4 };

/* So many vectors from x on, of which `left` elements are there if not all, pair by pair to one. */
SF_INLINE N(vec) N(fold_turn)(const char *x, const uint8_t *m, N(vec) identity, const bool reverse, const bool whole, int64_t left, int64_t ahead)
{
        const int64_t step = reverse ? -K_WIDTH : K_WIDTH;
        N(vec) v[N(turn)];
        V_UNROLL
        for (int i = 0; i < N(turn); i++) {
                const char *at = x + i * step * K_SIZE;
                const uint8_t *mask = m ? m + i * step : NULL;
                __builtin_prefetch(at + ahead);
                v[i] = whole ? N(load_masked)(at, mask, identity) : N(load_ragged)(at, mask, identity, reverse, left - i * K_WIDTH);
        }
        N(halve_all)(SF_SUM, v, N(turn), reverse);
        return v[0];
}

/* K_WIDTH vectors of each of `many` rows, or as many as `left` elements fill, to one vector a row: the totals of K_WIDTH consecutive elements
 * each. */
SF_INLINE void N(fold_tile)(const sf_rows *j, const char *x, const uint8_t *m, int many, N(vec) identity, const bool reverse, int64_t left,
                            int64_t ahead, N(vec) *v)
{
        enum { TURNS = K_WIDTH / N(turn), SIZE = N(turn) * K_WIDTH };
        N(vec) part[SF_CPU_FOLD_GROUP][TURNS];
        for (int i = 0; i < TURNS; i++, left -= SIZE) {
                const int64_t from = reverse ? -i * SIZE : i * SIZE;
                for (int r = 0; r < many; r++) {
                        const char *at = x + r * j->x_row + from * K_SIZE;
                        const uint8_t *mask = m ? m + r * j->m_row + from : NULL;
                        if (left < SIZE)
                                part[r][i] = N(fold_turn)(at, mask, identity, reverse, false, left, ahead);
                        else if (m)
                                part[r][i] = N(fold_turn)(at, mask, identity, reverse, true, 0, ahead);
                        else
                                part[r][i] = N(fold_turn)(at, NULL, identity, reverse, true, 0, ahead);
                }
        }
        for (int r = 0; r < many; r++) {
                N(halve_all)(SF_SUM, part[r], TURNS, reverse);
                v[r] = part[r][0];
        }
}

/* Vectors that have a lane for each row of a group. */
enum { N(group_vectors) = SF_CPU_FOLD_GROUP > K_WIDTH ? SF_CPU_FOLD_GROUP / K_WIDTH : 1 };

/* Where the totals of a group's rows are: row r's in lane[r] of the vectors on end. */
typedef struct N(places) {
        int many;
        int levels; /* of lane_scan: those that there are not enough rows for */
        int vectors;
        int lane[SF_CPU_FOLD_GROUP];
} N(places);

SF_INLINE N(places) N(places_of)(int many, const bool reverse)
{
        N(places) p = {.many = many, .levels = K_LOG_WIDTH, .vectors = many};
        for (; p.levels && p.vectors > 1; p.levels--)
                p.vectors = (p.vectors + 1) / 2;
        for (int r = 0; r < many; r++) {
                const int last = ((r + 1) << p.levels) - 1;
                p.lane[r] = reverse ? last / K_WIDTH * K_WIDTH + K_WIDTH - 1 - last % K_WIDTH : last;
        }
        return p;
}

/* A tile's vector of each row to vectors of their totals. */
SF_INLINE void N(fold_rows_together)(N(vec) *v, const N(tables) *t, const N(places) *p, const bool reverse)
{
        int left = p->many;
        for (int k = K_LOG_WIDTH; k > p->levels; k--, left = (left + 1) / 2) {
                for (int i = 0; i < left / 2; i++)
                        v[i] = N(halve)(SF_SUM, v[2 * i], v[2 * i + 1], reverse);
                if (left & 1)
                        v[left / 2] = N(halve)(SF_SUM, v[left - 1], v[left - 1], reverse);
        }
        for (int i = 0; i < left; i++)
                v[i] = N(lane_scan)(SF_SUM, v[i], t, p->levels);
}

/* What is fewer elements than a tile, of each row. Returns false if that is none. */
SF_INLINE bool N(fold_over)(const sf_rows *j, const char *x, const uint8_t *m, N(vec) identity, const N(tables) *t, const N(places) *p,
                            const bool reverse, int64_t left, int64_t ahead, N(vec) *v)
{
        if (left > K_WIDTH) {
                N(fold_tile)(j, x, m, p->many, identity, reverse, left, ahead, v);
                N(fold_rows_together)(v, t, p, reverse);
        } else if (left) {
                /* An element by itself is added to nothing at all, so here nothing is put in the place of what is missing. */
                const int count = (int)left, first = reverse ? K_WIDTH - count : 0;
                K_LANE_C total[N(group_vectors) * K_WIDTH] = {0}, lane[K_WIDTH];
                for (int r = 0; r < p->many; r++) {
                        const uint8_t *mask = m ? m + r * j->m_row + first : NULL;
                        N(vec) one = N(load_masked_part)(x + r * j->x_row + first * K_SIZE, mask, identity, first, count);
                        N(put)(lane, N(lane_scan)(SF_SUM, one, t, K_LOG_WIDTH));
                        total[p->lane[r]] = lane[reverse ? first : count - 1];
                }
                for (int i = 0; i < p->vectors; i++)
                        v[i] = N(get)(total + i * K_WIDTH);
        }
        return left > 0;
}

/* The rows' counters in the caller's memory have an entry's total in every lane of a vector. */
SF_INLINE void N(get_entry)(const char *counters, int k, const N(places) *p, N(vec) *v)
{
        K_LANE_C total[N(group_vectors) * K_WIDTH] = {0};
        for (int r = 0; r < p->many; r++)
                memcpy(&total[p->lane[r]], counters + (r * SF_ORDER_LEVELS + k) * V_BYTES, sizeof total[0]);
        for (int i = 0; i < p->vectors; i++)
                v[i] = N(get)(total + i * K_WIDTH);
}
SF_INLINE N(vec) N(row_total)(const N(vec) *v, const N(places) *p, int r)
{
        sf_value one = {.u64 = 0};
        memcpy(&one.K_VALUE, (const char *)v + p->lane[r] * K_LANE_BYTES, K_LANE_BYTES);
        return N(broadcast)(one);
}

SF_INLINE void N(fold_rows_long)(const sf_rows *j, const bool reverse)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const N(vec) identity = N(broadcast)(j->identity);
        const int64_t size = K_WIDTH * K_WIDTH, step = reverse ? -size : size, offset = reverse ? 1 - K_WIDTH : 0;
        const int64_t tiles = j->n / size, all = (j->n + size - 1) / size;
        const uint64_t first = (uint64_t)(j->start / size), last = first + (uint64_t)tiles;
        /* Entries that stay what they are need not be moved, where the sequence goes on. */
        const uint64_t moved = !j->resume ? ~0ull : first == last ? 0 : (2ull << sf_order_log2(first ^ last)) - 1;
        for (int64_t done = 0; done < j->rows;) {
                const int many = j->rows - done < SF_CPU_FOLD_GROUP ? (int)(j->rows - done) : SF_CPU_FOLD_GROUP;
                const N(places) p = N(places_of)(many, reverse);
                const char *x = j->x + done * j->x_row + offset * K_SIZE;
                const uint8_t *m = j->m ? j->m + done * j->m_row + offset : NULL;
                N(vec) entry[SF_ORDER_LEVELS][N(group_vectors)], v[SF_CPU_FOLD_GROUP];
                for (uint64_t bits = first & moved; bits; bits &= bits - 1)
                        N(get_entry)(j->counters, __builtin_ctzll(bits), &p, entry[__builtin_ctzll(bits)]);
                /* With its last tile a group fetches the beginning of the next one, or of what it will be resumed with. */
                const int64_t on = j->resume ? j->ahead : many * j->x_row - (all - 1) * step * K_SIZE;
                for (uint64_t tile = first; tile < last; tile++) {
                        const int64_t ahead = tile + 1 < first + (uint64_t)all ? j->ahead : on;
                        N(fold_tile)(j, x, m, many, identity, reverse, size, ahead, v);
                        N(fold_rows_together)(v, &t, &p, reverse);
                        const int closed = sf_order_closed(tile);
                        for (int i = 0; i < p.vectors; i++) {
                                for (int k = 0; k < closed; k++)
                                        v[i] = N(combine)(SF_SUM, entry[k][i], v[i]);
                                entry[closed][i] = v[i];
                        }
                        x += step * K_SIZE;
                        m = m ? m + step : NULL;
                }
                if (j->resume) {
                        for (uint64_t bits = last & moved; bits; bits &= bits - 1)
                                for (int r = 0; r < many; r++)
                                        N(put)(j->counters + (r * SF_ORDER_LEVELS + __builtin_ctzll(bits)) * V_BYTES,
                                               N(row_total)(entry[__builtin_ctzll(bits)], &p, r));
                        done += many;
                        continue;
                }
                bool any = N(fold_over)(j, x, m, identity, &t, &p, reverse, j->n - tiles * size, on, v);
                for (uint64_t bits = last; bits; bits &= bits - 1, any = true)
                        for (int i = 0; i < p.vectors; i++)
                                v[i] = any ? N(combine)(SF_SUM, entry[__builtin_ctzll(bits)][i], v[i]) : entry[__builtin_ctzll(bits)][i];
                for (int r = 0; r < many; r++, done++) {
                        N(vec) total = N(row_total)(v, &p, r);
                        if (j->carry)
                                N(add_carry)(SF_SUM, j->carry + done * j->carry_row, &total, 1);
                        N(store_part)(j->y + done * j->y_row, total, 0, 1);
                }
        }
}
