/*
 * fold_lanes.inc.h: the fold of rows if any grouping and any order give the same bits. Template,
 * part of fold.inc.h. Vectors are combined lane by lane, and lanes with each other at the end.
 * Widening sums add elements before they become lanes; values that have a number are numbered as
 * they are loaded.
 */

/* This many running values for neighbouring vectors of one row, so that none waits for the one
 * before. */
#define K_APART 4

#ifdef K_NUMBERS
/* The numbers of a vector's lanes, relative to its first position. */
typedef K_INTEGERS O(ramp);
SF_INLINE O(ramp) O(lane_numbers)(const sf_rows *j)
{
        const int64_t step = j->lanes->reverse ? -j->numbers.step : j->numbers.step;
        K_LANE_INTEGER number[K_WIDTH];
        K_INTEGERS v;
        int64_t at = j->lanes->reverse ? j->numbers.step * (j->lanes->unit / j->lanes->inner - 1) : 0;
        for (int l = 0, column = 0; l < K_WIDTH; l++) {
                number[l] = (K_LANE_INTEGER)at;
                column = column + 1 < j->lanes->inner ? column + 1 : 0;
                at += column ? 0 : step;
        }
        memcpy(&v, number, sizeof v);
        return v;
}
SF_INLINE K_INTEGERS O(each_number)(int64_t number)
{
        const K_INTEGERS zero = {0};
        return zero + (K_LANE_INTEGER)number;
}

/*
 * Folds `vectors` vectors of each row from x on, `step` elements apart; the numbers of row r begin
 * with number + r * numbers.row. Vectors are taken from the end from which the first of equal
 * elements wins. So an element replaces another only if it is better, and positions are not
 * compared. A few neighbours are compared first, because a vector of their numbers is a constant.
 */
SF_INLINE void O(fold_lanes_of)(const sf_rows *j, const int rows, const bool whole, const char *x, int64_t step, int64_t vectors, int64_t number,
                                O(ramp) lanes, O(val) *total)
{
        const O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const int unit = whole ? K_WIDTH : j->lanes->unit;
        const bool backwards = (j->numbers.step < 0) != (j->identity.index < 0);
        int64_t each = j->numbers.step * (unit / j->lanes->inner), ahead = sf_rows_ahead(j, vectors * unit * K_SIZE, rows), first = 0, i = 0;
        if (backwards) {
                first = (vectors - 1) * each;
                x += (vectors - 1) * step * K_SIZE;
                step = -step;
                each = -each;
                /* short rows: prefetch the next ones */
                ahead = vectors * unit * K_SIZE > j->ahead ? -ahead : ahead;
        }
        K_INTEGERS near[K_APART], base = O(each_number)(first);
        O(val) v[SF_CPU_GROUP];
        for (int a = 0; a < K_APART; a++)
                near[a] = lanes + (K_LANE_INTEGER)(a * each);
        V_UNROLL
        for (int r = 0; r < rows; r++) /* loaded again below, which changes nothing */
                v[r] = (O(val)){(N(vec))((K_BITS)N(load_unit)(x + r * j->x_row, unit) ^ none.turn), lanes + base};
        for (; i + K_APART <= vectors; i += K_APART, x += K_APART * step * K_SIZE, base += (K_LANE_INTEGER)(K_APART * each)) {
                V_UNROLL
                for (int r = 0; r < rows; r++) {
                        O(val) some[K_APART];
                        V_UNROLL
                        for (int a = 0; a < K_APART; a++) {
                                const char *at = x + r * j->x_row + a * step * K_SIZE;
                                __builtin_prefetch(at + ahead);
                                some[a] = (O(val)){(N(vec))((K_BITS)N(load_unit)(at, unit) ^ none.turn), near[a]};
                        }
                        V_UNROLL
                        for (int size = 1; size < K_APART; size *= 2) {
                                V_UNROLL
                                for (int a = 0; a < K_APART; a += 2 * size)
                                        some[a] = O(prefer)(some[a], some[a + size]);
                        }
                        some[0].at += base;
                        v[r] = O(prefer)(v[r], some[0]);
                }
        }
        for (; i < vectors; i++, x += step * K_SIZE, base += (K_LANE_INTEGER)each) {
                V_UNROLL
                for (int r = 0; r < rows; r++) {
                        const N(vec) more = N(load_unit)(x + r * j->x_row, unit);
                        v[r] = O(prefer)(v[r], (O(val)){(N(vec))((K_BITS)more ^ none.turn), lanes + base});
                }
        }
        V_UNROLL
        for (int r = 0; r < rows; r++)
                total[r] = (O(val)){v[r].element, (v[r].at + (K_LANE_INTEGER)(number + r * j->numbers.row)) ^ none.late};
}
#ifndef V_LEAN
static V_APART void O(lanes_of_four)(const sf_rows *j, const char *x, int64_t step, int64_t vectors, int64_t number, const O(ramp) *lanes,
                                    O(val) *total)
{
        O(fold_lanes_of)(j, SF_CPU_GROUP, true, x, step, vectors, number, *lanes, total);
}
#endif
static V_APART void O(lanes_of_one)(const sf_rows *j, const char *x, int64_t step, int64_t vectors, int64_t number, const O(ramp) *lanes,
                                    O(val) *total)
{
        O(fold_lanes_of)(j, 1, false, x, step, vectors, number, *lanes, total);
}

/* The same for one row with a mask. */
static V_APART O(val) O(lanes_of_masked)(const sf_rows *j, const char *x, const uint8_t *m, int64_t step, int64_t vectors, int64_t number,
                                         const O(ramp) *lanes)
{
        const O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const int unit = j->lanes->unit;
        const int64_t each = j->numbers.step * (unit / j->lanes->inner);
        K_INTEGERS at = *lanes + (K_LANE_INTEGER)number;
        O(val) total = none.value;
        for (int64_t i = 0; i < vectors; i++, x += step * K_SIZE, m += step, at += (K_LANE_INTEGER)each)
                total = O(combine)(total, O(load_numbered)(x, m, &none, 0, unit, at));
        return total;
}

/* Folds as many rows from `at` on as there is an instance for; returns how many. */
SF_INLINE int O(fold_lanes)(const sf_rows *j, int64_t at, const char *x, const uint8_t *m, int64_t step, int64_t vectors, const O(ramp) *lanes,
                            O(val) *totals)
{
        const int64_t number = j->numbers.at + at * j->numbers.row;
        if (!vectors)
                totals[0] = O(none_with)(j->identity, j->turn, j->beside, &j->lift).value;
        else if (m)
                totals[0] = O(lanes_of_masked)(j, x, m, step, vectors, number, lanes);
#ifndef V_LEAN
        else if (j->lanes->unit == K_WIDTH && j->rows - at >= SF_CPU_GROUP) {
                O(lanes_of_four)(j, x, step, vectors, number, lanes, totals);
                return SF_CPU_GROUP;
        }
#endif
        else
                O(lanes_of_one)(j, x, step, vectors, number, lanes, totals);
        return 1;
}

/* Loads the rest after `vectors` vectors, less than a vector. */
SF_INLINE O(val) O(load_rest)(const sf_rows *j, int64_t at, int64_t vectors, const O(ramp) *lanes, const char *x, const uint8_t *m, const O(none) *none,
                              int first, int count)
{
        const int64_t number = j->numbers.at + at * j->numbers.row + vectors * j->numbers.step * (j->lanes->unit / j->lanes->inner);
        return O(load_numbered)(x, m, none, first, count, *lanes + (K_LANE_INTEGER)number);
}
#else
typedef char O(ramp); /* no numbers */
SF_INLINE O(ramp) O(lane_numbers)(const sf_rows *j)
{
        (void)j;
        return 0;
}
SF_INLINE O(val) O(load_rest)(const sf_rows *j, int64_t at, int64_t vectors, const O(ramp) *lanes, const char *x, const uint8_t *m, const O(none) *none,
                              int first, int count)
{
        (void)j, (void)at, (void)vectors, (void)lanes;
        return O(load_part)(x, m, none, first, count);
}

/* Folds `vectors` vectors of each row from x on, `step` elements apart. */
SF_INLINE void O(fold_lanes_of)(const sf_rows *j, const int rows, const int apart, const int unit, const char *x, const uint8_t *m,
                                int64_t step, int64_t vectors, O(val) *total)
{
        const O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const int64_t ahead = sf_rows_ahead(j, vectors * unit * K_SIZE, rows);
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

/* Folds as many rows from `at` on as there is an instance for; returns how many. */
SF_INLINE int O(fold_lanes)(const sf_rows *j, int64_t at, const char *x, const uint8_t *m, int64_t step, int64_t vectors, const O(ramp) *lanes,
                            O(val) *totals)
{
        (void)lanes;
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
#endif

#ifdef K_TOTALS
/* Folds rows of `bytes` bytes of elements, upwards in memory, in whole vectors. */
SF_INLINE void O(fold_totals_of)(const sf_rows *j, const int rows, const char *x, int64_t bytes, O(val) *total)
{
        const O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const int64_t ahead = sf_rows_ahead(j, bytes, rows);
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
                                v[r] = O(combine)(v[r], N(total)((v_u64)v_raw_load(from), none.turn));
                        }
                }
        }
        for (; at < bytes; at += V_BYTES) {
                const int left = bytes - at < V_BYTES ? (int)(bytes - at) : V_BYTES;
                V_UNROLL
                for (int r = 0; r < rows; r++)
                        v[r] = O(combine)(v[r], N(total)(N(first_bytes)(x + r * j->x_row + at, left), none.turn));
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
#endif

/*
 * Columns that do not divide a vector: after `period` vectors, lanes belong to the same columns
 * again. So that many running vectors take every element in whole vectors. Their total is laid out
 * like a vector of `unit` lanes.
 */
static V_APART O(val) O(fold_period)(const sf_rows *j, const char *x, const uint8_t *m)
{
        const O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const int inner = j->lanes->inner, unit = j->lanes->unit, together = inner & -inner;
        const int period = inner / together; /* K_WIDTH is a power of two and larger than inner */
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

/* Are the results of rows contiguous, and nothing but them is wanted? Then the lanes of several
 * rows are combined by halves, until each row has one lane or 4 bytes, and stored at once. */
enum { O(ends) = K_LANE_BYTES < 4 ? V_LANES4 : K_WIDTH };
SF_INLINE bool O(ends_together)(const sf_rows *j)
{
        return j->lanes->inner == 1 && j->lanes->unit == K_WIDTH && !j->start && !j->resume && !j->raw && !j->carry &&
               j->y_row == N(result_bytes)(j->wide);
}
static V_APART void O(end_rows)(const sf_rows *j, O(val) *total, int64_t first, int many, const O(none) *none)
{
        char *y = j->y + first * N(result_bytes)(j->wide);
        for (int r = many; r < O(ends); r++)
                total[r] = none->value;
        O(halve_all)(total, O(ends), 0);
#if K_LANE_BYTES < 4
        K_LANE_C result[V_LANES4];
        V_UNROLL
        for (int bits = 16; bits >= 8 * K_LANE_BYTES; bits /= 2)
                total[0] = O(combine)(total[0], (N(vec))((v_u32)total[0] >> bits));
        const v_u32 words = (v_u32)O(lower)(total[0], none);
        for (int r = 0; r < V_LANES4; r++)
                result[r] = (K_LANE_C)words[r];
        memcpy(y, result, (size_t)many * sizeof *result);
#else
        N(store_results)(y, O(lower)(total[0], none), many, j->wide);
#endif
}

SF_INLINE void O(fold_by_lanes)(const sf_rows *j)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const O(none) none = O(none_with)(j->identity, j->turn, j->beside, &j->lift);
        const O(ramp) lanes = O(lane_numbers)(j);
        const bool reverse = j->lanes->reverse;
        const int inner = j->lanes->inner, unit = j->lanes->unit;
        const int64_t step = reverse ? -unit : unit, vectors = j->n * inner / unit, begin = reverse ? -(unit - inner) : 0;
#ifdef K_TOTALS
        const bool adds = !j->m && inner == 1; /* lanes of different columns must not be summed */
#else
        const bool adds = false;
#endif
        const bool periodic = K_LANE_BYTES >= 4 && K_PARTS == 1 && unit < K_WIDTH && vectors >= 4 * inner;
        const int over = periodic || adds ? 0 : (int)(j->n * inner % unit), first = reverse ? unit - over : 0;
        const int64_t lowest = reverse ? -(j->n - 1) * inner : 0;
        const uint64_t before = (uint64_t)(j->start * inner / unit), after = before + (uint64_t)vectors;
        const bool together = O(ends_together)(j);
        O(val) ends[O(ends)];
        int kept = 0;
        for (int64_t done = 0; done < j->rows;) {
                const char *x = j->x + done * j->x_row + begin * K_SIZE;
                const uint8_t *m = j->m ? j->m + done * j->m_row + begin : NULL;
                O(val) totals[SF_CPU_GROUP];
                const char *bottom = j->x + done * j->x_row + lowest * K_SIZE;
                int many = 1;
#ifdef K_TOTALS
                if (adds)
                        many = O(fold_totals)(j, done, bottom, totals);
                else
#endif
                if (periodic)
                        totals[0] = O(fold_period)(j, bottom, j->m ? j->m + done * j->m_row + lowest : NULL);
                else
                        many = O(fold_lanes)(j, done, x, m, step, vectors, &lanes, totals);
                x += vectors * step * K_SIZE;
                m = m ? m + vectors * step : NULL;
                for (int r = 0; r < many; r++) {
                        const int64_t at = done + r;
                        char *counter = j->counters + (j->resume || j->start ? at : r) * SF_ORDER_LEVELS * K_ENTRY;
                        O(val) total = totals[r];
                        if (over) {
                                const v_mask low = v_mask_below(reverse ? first : over, K_LANE_BYTES);
                                const uint8_t *mask = m ? m + r * j->m_row + first : NULL;
                                O(val) v = O(load_rest)(j, at, vectors, &lanes, x + r * j->x_row + first * K_SIZE, mask, &none, first, over);
                                v = reverse ? O(blend)(low, none.value, v) : O(blend)(low, v, none.value);
                                total = O(combine)(total, v);
                        }
                        if (together) {
                                ends[kept++] = total;
                                if (kept == O(ends) || at + 1 == j->rows) {
                                        O(end_rows)(j, ends, at + 1 - kept, kept, &none);
                                        kept = 0;
                                }
                                continue;
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
