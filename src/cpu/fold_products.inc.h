/*
 * fold_products.inc.h: folds of products. Whole tiles of x times w, in rows and columns, as
 * fold.inc.h folds x alone; and of squares of x minus a centre, together with these differences.
 * Template; kernels.inc.h has the parameters. Included if K_PRODUCTS is defined: for reals, and an
 * operation that is folded by halves.
 *
 * Products do not go through memory before they are folded, so the fold is as fast as reading. Each
 * product and each difference is rounded before it is combined. The totals are left in the
 * counters, as by a fold that will be resumed. fold_rows and fold_columns finish it, with the
 * elements that do not fill a tile, or with none.
 */

/* Folds a turn of a row to one vector; fold_turn says why rows take turns. For differences, the
 * second total is their sum. */
SF_INLINE void O(product_turn)(const bool centred, const char *x, const char *w, N(vec) centre, int64_t x_ahead, int64_t w_ahead, N(vec) *total)
{
        enum { BYTES = K_WIDTH * K_SIZE };
        N(vec) v[O(turn)];
        V_UNROLL
        for (int i = 0; i < O(turn); i++) {
                if (i * BYTES % 64 == 0 || BYTES > 64)
                        __builtin_prefetch(x + i * BYTES + x_ahead);
                if (!centred)
                        __builtin_prefetch(w + i * BYTES + w_ahead);
                v[i] = centred ? N(load)(x + i * BYTES) - centre : N(load)(x + i * BYTES) * N(load)(w + i * BYTES);
        }
        if (!centred) {
                O(halve_all)(v, O(turn), 0);
                total[0] = v[0];
                return;
        }
        O(halve_both)(v, O(turn), total);
}

/* The counter of total i: of a row's products or, after those of all rows, of its differences. */
SF_INLINE char *O(product_counter)(const sf_products *j, int64_t i)
{
        return i < j->many ? j->counters + i * SF_ORDER_LEVELS * V_BYTES : j->sums + (i - j->many) * SF_ORDER_LEVELS * V_BYTES;
}

/* Counters are held as in fold_by_halves: total i has lane i of a few vectors. */
SF_INLINE void O(fold_rows_products_as)(const sf_products *j, const bool centred)
{
        enum { SIZE = SF_CPU_TILE_VECTORS * K_WIDTH, TURN = O(turn) * K_WIDTH * K_SIZE, TOTALS = 2 * SF_CPU_GROUP };
        _Static_assert(TOTALS <= SF_CPU_FOLD_GROUP, "an entry has a lane for each");
        const char *x = j->x, *w = j->w;
        const int totals = (int)j->many * (1 + centred), vectors = O(vectors_of)(totals);
        const uint64_t first = (uint64_t)(j->start / SIZE), last = first + (uint64_t)(j->n / SIZE);
        /* others do not change */
        const uint64_t moved = first == last ? 0 : (2ull << sf_order_log2(first ^ last)) - 1;
        N(vec) centre[SF_CPU_GROUP], entry[SF_ORDER_LEVELS][O(group_vectors)];
        for (int64_t r = 0; r < j->many; r++)
                centre[r] = O(factor)(w + r * j->w_step);
        for (uint64_t bits = first & moved; bits; bits &= bits - 1) {
                const int k = __builtin_ctzll(bits);
                K_LANE_C lane[O(group_vectors)][K_WIDTH];
                memset(lane, 0, sizeof lane);
                for (int i = 0; i < totals; i++)
                        memcpy(&lane[i / K_WIDTH][i % K_WIDTH], O(product_counter)(j, i) + k * V_BYTES, K_LANE_BYTES);
                for (int i = 0; i < vectors; i++)
                        entry[k][i] = N(get)(lane[i]);
        }
        /* With its last tile a group of long rows prefetches the beginning of the next group. */
        const int64_t on = j->x_ahead < j->x_step ? (j->many * j->x_step - (j->n - SIZE) * K_SIZE) : j->x_ahead;
        for (uint64_t tile = first; tile < last; tile++) {
                const int closed = sf_order_closed(tile);
                const int64_t ahead = tile + 1 < last ? j->x_ahead : on;
                N(vec) part[TOTALS][O(turns)], v[TOTALS];
                for (int i = 0; i < O(turns); i++, x += TURN, w += centred ? 0 : TURN)
                        for (int64_t r = 0; r < j->many; r++) {
                                N(vec) turn[2];
                                O(product_turn)(centred, x + r * j->x_step, w + r * j->w_step, centre[r], ahead, j->w_ahead, turn);
                                part[r][i] = turn[0];
                                if (centred)
                                        part[j->many + r][i] = turn[1];
                        }
                O(halve_rows)(part, totals, v);
                for (int i = 0; i < vectors; i++) {
                        for (int k = 0; k < closed; k++)
                                v[i] = O(combine)(entry[k][i], v[i]);
                        entry[closed][i] = v[i];
                }
        }
        for (uint64_t bits = last & moved; bits; bits &= bits - 1)
                for (int i = 0; i < totals; i++)
                        N(put)(O(product_counter)(j, i) + __builtin_ctzll(bits) * V_BYTES, O(row_total)(entry[__builtin_ctzll(bits)], i));
}

static void O(fold_rows_products)(const sf_products *j)
{
        if (j->sums)
                O(fold_rows_products_as)(j, true);
        else
                O(fold_rows_products_as)(j, false);
}

/* Folds the rows of a tile, and adds their totals to a counter. */
SF_INLINE void O(count_rows)(N(vec) *v, char *counter, int64_t stride, int closed)
{
        V_UNROLL
        for (int size = 1; size < V_FOLD_ROWS; size *= 2) {
                V_UNROLL
                for (int i = 0; i < V_FOLD_ROWS; i += 2 * size)
                        v[i] = O(combine)(v[i], v[i + size]);
        }
        for (int k = 0; k < closed; k++)
                v[0] = O(combine)(N(get)(counter + k * stride), v[0]);
        N(put)(counter + closed * stride, v[0]);
}

/* Folds a tile of a vector of columns, of which `count` exist. `spread`: w has one element for each
 * position; `centred`: one for all positions. (Two arrays: one of both, indexed by a loop, would be
 * kept in memory.) */
SF_INLINE void O(product_positions)(const sf_products *j, const bool spread, const bool centred, const char *x, const char *w, int64_t c,
                                    const int count, int closed)
{
        N(vec) product[V_FOLD_ROWS], own[V_FOLD_ROWS], beside;
        if (centred)
                beside = N(load_unit)(w + c * K_SIZE, count);
        V_UNROLL
        for (int i = 0; i < V_FOLD_ROWS; i++) {
                const char *at = x + i * j->x_step + c * K_SIZE;
                if (!centred)
                        beside = spread ? O(factor)(w + i * j->w_step) : N(load_unit)(w + i * j->w_step + c * K_SIZE, count);
                own[i] = N(load_unit)(at, count);
                own[i] = centred ? own[i] - beside : own[i];
                product[i] = own[i] * (centred ? own[i] : beside);
        }
        O(count_rows)(product, j->counters + c * K_LANE_BYTES, j->counter_stride, closed);
        if (centred)
                O(count_rows)(own, j->sums + c * K_LANE_BYTES, j->counter_stride, closed);
}

/* Folds a tile of the vectors of one cache line, or of what there is of it, from column c on. */
SF_INLINE void O(product_line)(const sf_products *j, const bool spread, const bool centred, const char *x, const char *w, int64_t c,
                               const int vectors, int closed)
{
        /* Past the end of a strip, which is not wide, the next tile begins. In a loop of its own:
         * with branches between them, rows would be kept in memory. */
        const int64_t next = c * K_SIZE + j->x_ahead, wide = j->many * K_SIZE;
        const char *at = x + (next < wide ? next : next - wide + V_FOLD_ROWS * j->x_step);
        V_UNROLL
        for (int i = 0; i < V_FOLD_ROWS; i++)
                __builtin_prefetch(at + i * j->x_step);
        V_ROLLED
        for (int k = 0; k < vectors; k++)
                O(product_positions)(j, spread, centred, x, w, c + k * K_WIDTH, K_WIDTH, closed);
}

SF_INLINE void O(fold_columns_products_as)(const sf_products *job, const bool spread, const bool centred)
{
        enum { VECTORS = K_WIDTH * K_SIZE < 64 ? 64 / (K_WIDTH * K_SIZE) : 1 };
        const sf_products copy = *job, *j = &copy; /* which no store can change */
        const char *x = j->x, *w = j->w;
        uint64_t tile = (uint64_t)(j->start / V_FOLD_ROWS);
        for (int64_t done = 0; done < j->n; done += V_FOLD_ROWS, tile++, x += V_FOLD_ROWS * j->x_step, w += V_FOLD_ROWS * j->w_step) {
                const int closed = sf_order_closed(tile);
                int64_t c = 0;
                for (int64_t left; (left = (j->many - c) / K_WIDTH) > 0; c += (left < VECTORS ? left : VECTORS) * K_WIDTH)
                        O(product_line)(j, spread, centred, x, w, c, (int)(left < VECTORS ? left : VECTORS), closed);
                if (c < j->many)
                        O(product_positions)(j, spread, centred, x, w, c, (int)(j->many - c), closed);
        }
}

static void O(fold_columns_products)(const sf_products *j)
{
        if (j->sums)
                O(fold_columns_products_as)(j, false, true);
        else if (j->spread)
                O(fold_columns_products_as)(j, true, false);
        else
                O(fold_columns_products_as)(j, false, false);
}
