/*
 * fold_columns.inc.h: the fold of columns, in tiles of V_FOLD_ROWS positions. Template, part of
 * fold.inc.h.
 */

/* Loads position `at` of a vector of columns. */
SF_INLINE O(val) O(load_position)(const sf_columns *j, const char *x, const uint8_t *m, const O(none) *none, int count, int64_t at)
{
#ifdef K_NUMBERS
        const K_INTEGERS zero = {0};
        return O(load_numbered)(x, m, none, 0, count, zero + (K_LANE_INTEGER)(j->numbers.at + at * j->numbers.step));
#else
        (void)j, (void)at;
        return O(load_some)(x, m, none, 0, count);
#endif
}

/* Folds V_FOLD_ROWS positions of a vector of columns, `count` of them, to their total; `at` is the
 * first position. */
SF_INLINE O(val) O(fold_positions)(const sf_columns *j, const char *x, const uint8_t *m, const O(none) *none, int count, int64_t at)
{
        O(val) v[V_FOLD_ROWS];
#ifdef K_NUMBERS
        /* Positions are taken in the order in which the first of equal elements wins, and are
         * numbered in it. */
        if (count == K_WIDTH && !m) {
                const bool backwards = (j->numbers.step < 0) != (j->identity.index < 0);
                const int64_t along = backwards ? -j->x_step : j->x_step, last = backwards ? V_FOLD_ROWS - 1 : 0;
                const K_INTEGERS zero = {0};
                x += last * j->x_step;
                V_UNROLL
                for (int i = 0; i < V_FOLD_ROWS; i++, x += along) {
                        __builtin_prefetch(x + j->ahead);
                        v[i] = (O(val)){(N(vec))((K_BITS)N(load)(x) ^ none->turn), zero + i};
                }
                V_UNROLL
                for (int size = 1; size < V_FOLD_ROWS; size *= 2) {
                        V_UNROLL
                        for (int i = 0; i < V_FOLD_ROWS; i += 2 * size)
                                v[i] = O(prefer)(v[i], v[i + size]);
                }
                const K_INTEGERS number = zero + (K_LANE_INTEGER)(j->numbers.at + (at + last) * j->numbers.step);
                v[0].at = (j->identity.index < 0 ? number - v[0].at : number + v[0].at) ^ none->late;
                return v[0];
        }
#endif
#ifdef K_SMALL
        if (count == K_WIDTH && !m) {
                N(vec) element[V_FOLD_ROWS];
                V_UNROLL
                for (int i = 0; i < V_FOLD_ROWS; i++) {
                        __builtin_prefetch(x + i * j->x_step + j->ahead);
                        element[i] = N(load)(x + i * j->x_step);
                }
                if (O(are_small)(element, V_FOLD_ROWS, element)) {
                        V_UNROLL
                        for (int size = 1; size < V_FOLD_ROWS; size *= 2) {
                                V_UNROLL
                                for (int i = 0; i < V_FOLD_ROWS; i += 2 * size)
                                        element[i] += element[i + size];
                        }
                        return O(of_small)(element[0]);
                }
        }
#endif
        if (count == K_WIDTH && !m) {
                K_LIFT_LOOP
                for (int i = 0; i < V_FOLD_ROWS; i++, x += j->x_step) {
                        if (K_WIDTH * K_SIZE >= 16) /* else most would be in the same cache line */
                                __builtin_prefetch(x + j->ahead);
                        v[i] = O(load)(x, NULL, none);
                }
        } else {
                for (int i = 0; i < V_FOLD_ROWS; i++, x += j->x_step, m = m ? m + j->m_step : NULL)
                        v[i] = O(load_position)(j, x, m, none, count, at + i);
        }
        V_UNROLL
        for (int size = 1; size < V_FOLD_ROWS; size *= 2) {
                V_UNROLL
                for (int i = 0; i < V_FOLD_ROWS; i += 2 * size)
                        v[i] = O(combine)(v[i], v[i + size]);
        }
        return v[0];
}

/* How many of a counter's entries a tile is combined with, before it becomes the next entry. Free:
 * the first entry has all. */
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
#ifndef K_ORDERED
        closed = 0;
#endif
        return closed;
}
/* Bits: which entries are in use after this many tiles. */
SF_INLINE uint64_t O(in_use)(uint64_t tiles)
{
#ifdef K_ORDERED
        return tiles;
#else
        return tiles > 0;
#endif
}

#ifdef K_TOTALS
/* Adds a vector of elements to sums: elements at even and at odd places separately, in lanes twice
 * as wide. Counts need only lanes of their own width. */
enum { O(sums) = K_CONVERT == K_NONZERO || K_CONVERT == K_FROM_TRUTH ? 1 : 2 };
#if K_CONVERT == K_NONZERO || K_CONVERT == K_FROM_TRUTH
typedef K_CAT(K_CAT(uint, K_CAT(K_BITS_OF_, K_SIZE)), _t) O(wide);
#else
typedef K_TWICE O(wide);
#endif
SF_INLINE void O(add_wide)(v_u64 v, v_u64 asked, v_u64 *sum)
{
#if K_CONVERT == K_NONZERO || K_CONVERT == K_FROM_TRUTH
        typedef K_CAT(K_UNSIGNED_, K_SIZE) lanes;
        const lanes some = (lanes)(K_CONVERT == K_NONZERO ? v & asked : v);
        sum[0] = (v_u64)((lanes)sum[0] - (lanes)(some != 0));
#else
        const uint64_t low = ~(uint64_t)0 / (((uint64_t)1 << 8 * K_SIZE) + 1);
        v = N(unsigned)(v, asked);
        sum[0] += v & low;
        sum[1] += v >> 8 * K_SIZE & low;
#endif
}

/* Widening sums, in lanes that can hold the sums of `most` tiles. They are kept where the counter
 * would have its second entry. Returns how many columns were summed. */
static V_APART int64_t O(fold_wide_tiles)(const sf_columns *j, const O(none) *none, int64_t tiles)
{
        enum { BITS = 8 * K_SIZE, LANES = V_BYTES / K_SIZE };
        const int64_t most = (((int64_t)1 << BITS) - 1) / V_FOLD_ROWS, cols = j->cols / LANES * LANES;
        const uint64_t sign = K_CONVERT == K_FROM_INTEGER ? N(sign)(none->turn)[0] : 0;
        const char *x = j->x;
        K_LANE_C *totals = (K_LANE_C *)j->counters;
        char *sums = j->counters + j->counter_stride;
        for (int64_t c = 0; c < cols && !j->start; c += K_WIDTH)
                O(put)((char *)(totals + c), none->value);
        for (int64_t left = tiles, now; left > 0; left -= now) {
                now = left < most ? left : most;
                memset(sums, 0, (size_t)(O(sums) * cols * K_SIZE));
                for (int64_t tile = 0; tile < now; tile++, x += V_FOLD_ROWS * j->x_step)
                        for (int64_t c = 0; c < cols; c += LANES) {
                                char *sum = sums + O(sums) * c * K_SIZE;
                                const char *at = x + c * K_SIZE;
                                v_u64 v[2] = {N(get)(sum)};
                                if (O(sums) > 1)
                                        v[1] = N(get)(sum + V_BYTES);
                                V_UNROLL
                                for (int i = 0; i < V_FOLD_ROWS; i++, at += j->x_step) {
                                        __builtin_prefetch(at + j->ahead);
                                        O(add_wide)((v_u64)v_raw_load(at), none->turn, v);
                                }
                                N(put)(sum, v[0]);
                                if (O(sums) > 1)
                                        N(put)(sum + V_BYTES, v[1]);
                        }
                for (int64_t c = 0; c < cols; c += LANES) {
                        O(wide) sum[LANES];
                        memcpy(sum, sums + O(sums) * c * K_SIZE, sizeof sum);
                        for (int l = 0; l < LANES; l++)
                                totals[c + l] += sum[l / O(sums) + l % O(sums) * (LANES / O(sums))] - (uint64_t)(now * V_FOLD_ROWS) * sign;
                }
        }
        return cols;
}
#endif

/* Folds the tiles into the counters. */
SF_INLINE void O(fold_columns_tiles)(const sf_columns *j, O(none) *none, int64_t tiles)
{
        const char *x = j->x;
        const uint8_t *m = j->m;
        int64_t done = 0, at = 0;
#ifdef K_TOTALS
        if (!m && tiles >= 4)
                done = O(fold_wide_tiles)(j, none, tiles);
#endif
        if (done == j->cols)
                return;
        for (uint64_t tile = (uint64_t)(j->start / V_FOLD_ROWS); tiles > 0; tiles--, tile++, at += V_FOLD_ROWS) {
                const int closed = O(closed_by)(tile), place = O(in_place)(closed);
                for (int64_t c = done; c < j->cols; c += K_WIDTH) {
                        const int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                        O(centre_columns)(none, &j->lift, c, count);
                        O(val) v = O(fold_positions)(j, x + c * K_SIZE, m ? m + c : NULL, none, count, at);
                        for (int k = 0; k < closed; k++)
                                v = O(combine)(O(get)(j->counters + k * j->counter_stride + c * K_EACH), v);
                        O(put)(j->counters + place * j->counter_stride + c * K_EACH, O(settle)(v));
                }
                x += V_FOLD_ROWS * j->x_step;
                m = m ? m + V_FOLD_ROWS * j->m_step : NULL;
        }
}

/* The total of one vector of columns: the call's last `over` positions, from x on, with the counter
 * of `tiles` tiles to their left. */
SF_INLINE O(val) O(fold_columns_end)(const sf_columns *j, const char *x, const uint8_t *m, const O(none) *none, int64_t over,
                                     uint64_t tiles, int64_t c, int count)
{
        O(val) inside[V_FOLD_ROWS_LOG + 1], total = none->value;
        bool any = over > 0;
        for (int i = 0; i < over; i++) {
                const uint8_t *mask = m ? m + i * j->m_step + c : NULL;
                total = O(load_position)(j, x + i * j->x_step + c * K_SIZE, mask, none, count, j->n - over + i);
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
        O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const int64_t tiles = j->n / V_FOLD_ROWS, over = j->n % V_FOLD_ROWS;
        O(fold_columns_tiles)(j, &none, tiles);
        if (j->resume)
                return;
        const char *x = j->x + tiles * V_FOLD_ROWS * j->x_step;
        const uint8_t *m = j->m ? j->m + tiles * V_FOLD_ROWS * j->m_step : NULL;
        const uint64_t before = (uint64_t)(j->start / V_FOLD_ROWS + tiles);
        N(writer) writer;
        N(writer_start)(&writer, j->y, j->stream && !j->wide, false);
        int64_t c = 0;
        for (; c < j->cols; c += K_WIDTH) {
                const int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                O(centre_columns)(&none, &j->lift, c, count);
                const O(val) total = O(fold_columns_end)(j, x, m, &none, over, before, c, count);
                const N(vec) result = O(lower)(total, &none);
                if (j->raw) {
                        O(put)(j->y + c * K_EACH, O(settle)(total));
                } else if (j->wide) {
                        N(store_results)(j->y + c * K_LANE_BYTES, result, count, true);
                } else if (count == K_WIDTH) {
                        N(write)(&writer, j->y + c * K_OUT, &result, 1);
                } else {
                        N(write_end)(&writer, j->y + c * K_OUT);
                        writer.first = true;
                        N(store_part)(j->y + c * K_OUT, result, 0, count);
                }
        }
        if (j->raw || j->wide)
                return;
        N(write_end)(&writer, j->y + c * K_OUT);
        if (j->stream)
                v_fence();
}
