/*
 * scan.inc.h: the scan of rows and of packed short rows. Template; kernels.inc.h has the
 * parameters. The order is that of docs/order.md; order.h says how it is kept with a counter.
 */

/* ------------------------------------------------------------------------------------------------
 * A tile: V_SCAN_TILE vectors of a row. First lanes are scanned, then vectors.
 * ---------------------------------------------------------------------------------------------- */

/* Loads a tile of one row, vectors `step` elements apart. `full`: a constant that is true if they
 * are full. */
SF_INLINE void O(load_tile)(const char *x, const uint8_t *m, int64_t step, int64_t ahead, const bool full, int unit,
                            const O(none) *none, O(val) *v)
{
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++)
                __builtin_prefetch(x + i * step * K_SIZE + ahead);
#ifdef K_TWO
        if (!full) {
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = O(load_some)(x + i * step * K_SIZE, m ? m + i * step : NULL, none, 0, unit);
                return;
        }
#else
        if (!full) {
                N(vec) element[V_SCAN_TILE];
                const N(vec) masked = none->element;
                N(load_tile)(x, m, step, unit, &masked, element);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = O(lift)(element[i], none);
                return;
        }
#endif
        if (m) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = O(load)(x + i * step * K_SIZE, m + i * step, none);
        } else {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = O(load)(x + i * step * K_SIZE, NULL, none);
        }
}

#include "cpu/scan_left.inc.h"

/* ------------------------------------------------------------------------------------------------
 * Results
 * ---------------------------------------------------------------------------------------------- */

/* What a row of a general call needs besides its place. */
typedef struct O(row) {
        N(vec) before; /* exclusive: for N(shift) */
        N(writer) writer;
} O(row);

/* The result before the first element, or before the next one when a walk is resumed. It is stored
 * as a value, although it is lowered already. */
SF_INLINE N(vec) O(get_fill)(const char *fill, const O(none) *none)
{
        return O(lower)(O(get)(fill), none);
}
SF_INLINE void O(put_fill)(char *fill, N(vec) v, const O(none) *none)
{
        O(put)(fill, O(raise)(v, none));
}

#ifndef K_LEAN
/* Nearly every call is of this kind: nothing to the left but the counter, inclusive, and results
 * that are stored, or streamed to aligned addresses. It is separate because what the general kernel
 * must keep in registers would cost a third of this one's speed. */
SF_INLINE void O(simple_group)(const sf_rows *job, const int many, int64_t at, int64_t groups)
{
        const sf_rows j = *job; /* a copy that no store can change */
        const N(tables) t = N(tables_of)(j.lanes);
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        const int64_t elements = j.n * j.lanes->inner, tiles = elements / (V_SCAN_TILE * K_WIDTH);
        const bool raw = K_CONVERT != K_SAME && j.raw, hold = N(holds) && j.stream;
        /* Near the end of a long row, prefetch the beginning of the next group's rows. */
        const int64_t turn = (j.ahead < 0 ? -j.ahead : j.ahead) / (V_SCAN_TILE * K_WIDTH * K_SIZE);
        const bool turns = turn < tiles && !j.resume;
        const int64_t row = (j.lanes->reverse ? -elements : elements) * K_SIZE;
        const int64_t beyond = turns ? j.ahead + many * j.x_row - row : sf_rows_ahead(&j, elements * K_SIZE, many);
        N(held) held = {.y = NULL};
        for (; groups > 0; groups--, at += many) {
                O(place) p = O(place_of)(&j, K_WIDTH, at);
                O(left) left = O(left_of)(&j, &p, many, at, &none);
                const int64_t y_step = p.step * (raw ? K_LANE_BYTES : K_OUT);
                for (int64_t todo = tiles; todo > 0; todo--, p.tile++) {
                        O(val) v[SF_CPU_GROUP][V_SCAN_TILE];
                        V_UNROLL
                        for (int r = 0; r < many; r++) {
                                O(load_tile)(p.x + r * j.x_row, p.m ? p.m + r * j.m_row : NULL, p.step,
                                             turns && todo > turn ? j.ahead : beyond, true, K_WIDTH, &none, v[r]);
                                O(scan_tile)(&t, K_LOG_WIDTH, v[r]);
                                if (N(holds) && held.y)
                                        N(stream_run)(held.y + r * j.y_row, held.v[r], V_SCAN_TILE, p.step < 0);
                        }
                        O(take_left)(&t, &left, p.tile, NULL, 0, many, v);
                        V_UNROLL
                        for (int r = 0; r < many; r++) {
                                char *y = p.y + r * j.y_row;
                                N(vec) result[V_SCAN_TILE];
                                O(lower_all)(v[r], &none, V_SCAN_TILE, result);
                                if (raw) {
                                        V_UNROLL
                                        for (int i = 0; i < V_SCAN_TILE; i++)
                                                N(put)(y + i * y_step, result[i]);
                                } else if (hold) {
                                        V_UNROLL
                                        for (int i = 0; i < V_SCAN_TILE; i++)
                                                held.v[r][i] = result[i];
                                } else if (j.stream) {
                                        N(stream_run)(y, result, V_SCAN_TILE, p.step < 0);
                                } else {
                                        N(store_tile)(y, p.step, K_WIDTH, result);
                                }
                        }
                        held.y = hold ? p.y : NULL;
                        p.x += V_SCAN_TILE * p.step * K_SIZE;
                        p.y += V_SCAN_TILE * y_step;
                        p.m = p.m ? p.m + V_SCAN_TILE * p.step : NULL;
                }
                O(left_put)(&left, p.counters, p.tile, many);
        }
        for (int r = 0; held.y && r < many; r++)
                N(stream_run)(held.y + r * j.y_row, held.v[r], V_SCAN_TILE, j.lanes->reverse);
}
/* Separate functions, each with all registers for itself. */
static V_APART void O(simple_one)(const sf_rows *j, int64_t at, int64_t groups)
{
        O(simple_group)(j, 1, at, groups);
}
static V_APART void O(simple_four)(const sf_rows *j, int64_t at, int64_t groups)
{
        O(simple_group)(j, SF_CPU_GROUP, at, groups);
}
#endif

/* What is free is shifted by scan_peeled; then only exclusive scans need it. */
#if !defined(K_LEAN) && (defined(K_ORDERED) || defined(K_WHOLE))
#define K_GENERAL_FOUR
#endif
#ifndef K_LEAN
#define K_GENERAL_ONE
#endif
#ifdef K_GENERAL_FOUR
enum { O(writes_now) = true };
#else
enum { O(writes_now) = false };
#endif
/* Inline where that is worth its size, because registers do not survive a function call in a
 * loop. */
SF_INLINE void O(write_tile)(N(writer) *writer, char *y, const N(vec) *v, const bool now)
{
        if (now)
                N(write_now)(writer, y, v, V_SCAN_TILE);
        else
                N(write)(writer, y, v, V_SCAN_TILE);
}

/* Scans a tile by plain multiplication. False: the operation has none, or a product was out of
 * range. */
SF_INLINE bool O(is_plain)(const sf_rows *j, const char *x, const uint8_t *m, int64_t step, O(val) *v)
{
#ifdef K_PRODUCT
        return j->lanes->inner == 1 && j->lanes->unit == K_WIDTH && O(scan_plainly)(j, x, m, step, v);
#else
        (void)j, (void)x, (void)m, (void)step, (void)v;
        return false;
#endif
}

/* Scans the whole tiles of one group of rows, in every case. levels 0: as many as the tables have,
 * and vectors need not be full. */
SF_INLINE void O(general_group)(const sf_rows *job, const int many, const int levels, int64_t at, O(row) *rows)
{
        const sf_rows j = *job;
        const bool now = levels && O(writes_now);
        const N(tables) t = N(tables_of)(j.lanes);
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        const int unit = levels ? K_WIDTH : j.lanes->unit;
        const int64_t tiles = j.n * j.lanes->inner / (V_SCAN_TILE * unit);
        const bool stream = j.stream && unit == K_WIDTH;
        O(place) p = O(place_of)(&j, unit, at);
        O(left) left = O(left_of)(&j, &p, many, at, &none);
        N(held) held = {.y = NULL};
        O(row) row[SF_CPU_GROUP]; /* a copy of the caller's that no store can change */
        V_UNROLL
        for (int r = 0; r < many; r++) {
                row[r].before = none.element;
                if (j.exclusive)
                        row[r].before = O(get_fill)(j.carry[(at + r) * j.carry_row].fill, &none);
                N(writer_start)(&row[r].writer, p.y + r * j.y_row, stream, p.step < 0);
        }
        for (int64_t todo = tiles; todo > 0; todo--, p.tile++) {
                O(val) v[SF_CPU_GROUP][V_SCAN_TILE];
                V_UNROLL
                for (int r = 0; r < many; r++) {
                        const char *x = p.x + r * j.x_row;
                        const uint8_t *m = p.m ? p.m + r * j.m_row : NULL;
                        if (!O(is_plain)(&j, x, m, p.step, v[r])) {
                                O(load_tile)(x, m, p.step, j.ahead, levels, unit, &none, v[r]);
                                O(scan_all_lanes)(&t, levels, v[r]);
                                O(scan_vectors)(&t, V_SCAN_TILE, v[r]);
                        }
                        if (N(holds) && held.y)
                                O(write_tile)(&row[r].writer, held.y + r * j.y_row, held.v[r], now);
                }
                O(take_left)(&t, &left, p.tile, j.carry ? j.carry + at * j.carry_row : NULL, j.carry_row, many, v);
                V_UNROLL
                for (int r = 0; r < many; r++) {
                        N(vec) *result = held.v[r];
#if defined(K_ORDERED) && !defined(K_VANISHES)
                        if (j.carry)
                                O(add_carry)(j.carry + (at + r) * j.carry_row, v[r], V_SCAN_TILE);
#endif
                        O(lower_all)(v[r], &none, V_SCAN_TILE, result);
                        if (j.exclusive) {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_TILE; i++)
                                        result[i] = N(shift)(&t, &row[r].before, result[i]);
                        }
                        if (!stream)
                                N(store_tile)(p.y + r * j.y_row, p.step, unit, result);
                        else if (!N(holds))
                                O(write_tile)(&row[r].writer, p.y + r * j.y_row, result, now);
                }
                held.y = N(holds) && stream ? p.y : NULL;
                p.x += V_SCAN_TILE * p.step * K_SIZE;
                p.y += V_SCAN_TILE * p.step * K_OUT;
                p.m = p.m ? p.m + V_SCAN_TILE * p.step : NULL;
        }
        O(left_put)(&left, p.counters, p.tile, many);
        for (int r = 0; r < many; r++) {
                if (held.y)
                        N(write)(&row[r].writer, held.y + r * j.y_row, held.v[r], V_SCAN_TILE);
                if (stream)
                        N(write_end)(&row[r].writer, p.y + r * j.y_row);
                if (j.exclusive && j.resume)
                        O(put_fill)(j.carry[(at + r) * j.carry_row].fill, N(before_of)(&t, row[r].before), &none);
                rows[r].before = row[r].before;
        }
}
static V_APART void O(general_part)(const sf_rows *j, int64_t at, O(row) *row)
{
        O(general_group)(j, 1, 0, at, row);
}
#ifdef K_GENERAL_FOUR
static V_APART void O(general_four)(const sf_rows *j, int64_t at, O(row) *row)
{
        O(general_group)(j, SF_CPU_GROUP, K_LOG_WIDTH, at, row);
}
#endif
#ifdef K_GENERAL_ONE
static V_APART void O(general_one)(const sf_rows *j, int64_t at, O(row) *row)
{
        O(general_group)(j, 1, K_LOG_WIDTH, at, row);
}
#endif

/* Scans the end of a row, `left` elements, fewer than a tile has. Lanes past the end hold garbage,
 * but they are to the right of all that is stored. */
static V_APART void O(scan_end)(const sf_rows *j, int64_t at, const O(place) *p, O(row) *row, int64_t left)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const O(none) none = O(none_of)(j->identity, j->turn, j->beside);
        const bool reverse = p->step < 0;
        const int unit = j->lanes->unit;
        O(val) v[V_SCAN_TILE];
        for (int i = 0; i < V_SCAN_TILE; i++) {
                const int64_t rest = left - i * unit;
                const int count = rest < unit ? (int)rest : unit, first = reverse ? unit - count : 0;
                const int64_t from = i * p->step + first;
                v[i] = none.value;
                if (count > 0)
                        v[i] = O(load_some)(p->x + from * K_SIZE, p->m ? p->m + from : NULL, &none, first, count);
#ifdef K_VANISHES
                v[i] = O(decided_after)(v[i], count < 0 ? 0 : count, unit, reverse);
#endif
        }
        O(scan_all_lanes)(&t, 0, v);
        O(take_last)(j, p->counters, p->tile, at, &none, &t, v);
        for (int i = 0; i < V_SCAN_TILE; i++) {
                const int64_t rest = left - i * unit;
                const int count = rest < unit ? (int)rest : unit, first = reverse ? unit - count : 0;
                char *y = p->y + (i * p->step + first) * K_OUT;
                N(vec) result = O(lower)(v[i], &none);
                if (j->exclusive)
                        result = N(shift)(&t, &row->before, result);
                if (count == K_WIDTH)
                        N(store)(y, result);
                else if (count > 0)
                        N(store_part)(y, result, first, count);
        }
}

SF_INLINE void O(scan_ends)(const sf_rows *j, const int many, const int unit, int64_t at, O(row) *row)
{
        const int64_t elements = j->n * j->lanes->inner, over = elements % (V_SCAN_TILE * unit);
        O(place) p = O(place_on)(j, O(place_of)(j, unit, at), elements - over);
        p.tile += (uint64_t)(elements / (V_SCAN_TILE * unit));
        for (int r = 0; over && r < many; r++) {
                O(scan_end)(j, at + r, &p, row ? &row[r] : NULL, over);
                p.x += j->x_row;
                p.y += j->y_row;
                p.m = p.m ? p.m + j->m_row : NULL;
                p.counters += SF_ORDER_LEVELS * K_ENTRY;
        }
}

#ifdef K_WHOLE
#include "cpu/scan_few.inc.h"
#endif

/* ------------------------------------------------------------------------------------------------
 * Choosing between them
 * ---------------------------------------------------------------------------------------------- */

/* Scans the whole tiles of as many rows from `at` on as there is an instance for; returns how
 * many. */
SF_INLINE int O(general_rows)(const sf_rows *j, int64_t at, O(row) *row)
{
#ifdef K_GENERAL_FOUR
        if (j->lanes->unit == K_WIDTH && j->rows - at >= SF_CPU_GROUP) {
                O(general_four)(j, at, row);
                return SF_CPU_GROUP;
        }
#endif
#ifdef K_GENERAL_ONE
        if (j->lanes->unit == K_WIDTH) {
                O(general_one)(j, at, row);
                return 1;
        }
#endif
        O(general_part)(j, at, row);
        return 1;
}

static V_APART void O(scan_any)(const sf_rows *j)
{
        for (int64_t at = 0; at < j->rows;) {
                O(row) row[SF_CPU_GROUP];
                const int many = O(general_rows)(j, at, row);
                O(scan_ends)(j, many, j->lanes->unit, at, row);
                at += many;
        }
}

#ifdef K_VANISHES
#include "cpu/scan_pairs.inc.h"
#endif

#ifdef K_LEAN
SF_INLINE void O(scan_rows_of)(const sf_rows *j)
{
#ifdef K_VANISHES
        if (j->lanes->unit == K_WIDTH) {
                (j->m || j->carry || j->exclusive ? O(scan_pairs) : O(scan_pairs_plain))(j);
                return;
        }
#endif
        O(scan_any)(j);
}
#else
/* Is there nothing to the left but the counter or a register, and are results written unshifted? */
SF_INLINE bool O(is_simple)(const sf_rows *j)
{
#ifdef K_ORDERED
        if (j->carry)
                return false;
#endif
        return !j->exclusive && (!j->stream || N(aligned)(j));
}

static V_APART void O(scan_simple)(const sf_rows *j)
{
        const bool over = j->n * j->lanes->inner % (V_SCAN_TILE * K_WIDTH);
        for (int64_t at = 0; at < j->rows;) {
                const int many = j->rows - at < SF_CPU_GROUP ? 1 : SF_CPU_GROUP;
                /* The ends use the counters, which the next group uses too. */
                const int64_t groups = over ? 1 : (j->rows - at) / many;
                (many == 1 ? O(simple_one) : O(simple_four))(j, at, groups);
                O(scan_ends)(j, many, K_WIDTH, at, NULL);
                at += groups * many;
        }
}

#ifndef K_ORDERED
/* How many positions of a long row come before the first aligned address of its results; -1: no
 * position is at one. */
SF_INLINE int64_t O(before_aligned)(const sf_rows *j)
{
        const uintptr_t align = N(stream_align), y = (uintptr_t)j->y;
        const int64_t bytes = (int64_t)((j->lanes->reverse ? y + (uintptr_t)(j->lanes->inner * K_OUT) : align - y % align) % align);
        const int64_t position = j->lanes->inner * K_OUT;
        if (bytes % position)
                return -1;
        /* Add aligned vectors until whole tiles are left, except for part of a vector. */
        const int64_t first = bytes / position, line = (int64_t)align / position, all = (j->n - first) / line;
        return first + all % (V_SCAN_TILE * K_WIDTH * K_OUT / (int64_t)align) * line;
}

/*
 * Streamed results of a free operation, at any address. The positions before the first aligned
 * address are a scan by themselves; the rest needs only its last result. So no results have to be
 * rotated into place.
 */
static V_APART void O(scan_peeled)(const sf_rows *job)
{
        const O(none) none = O(none_of)(job->identity, job->turn, job->beside);
        const int inner = job->lanes->inner, step = job->lanes->reverse ? -inner : inner;
        const int group = job->rows == 1 || job->y_row % N(stream_align) == 0 ? SF_CPU_GROUP : 1;
        const uint64_t after = (uint64_t)((job->start + job->n) * inner / (V_SCAN_TILE * K_WIDTH));
        for (int64_t at = 0; at < job->rows; at += group) {
                char values[SF_CPU_GROUP][K_ENTRY];
                sf_carry carry[SF_CPU_GROUP];
                sf_rows head = *job, body;
                head.x += at * job->x_row;
                head.y += at * job->y_row;
                head.m = job->m ? job->m + at * job->m_row : NULL;
                head.carry = job->carry ? job->carry + at * job->carry_row : NULL;
                head.counters += job->resume || job->start ? at * SF_ORDER_LEVELS * K_ENTRY : 0;
                head.rows = job->rows - at < group ? job->rows - at : group;
                body = head;
                head.n = O(before_aligned)(&head);
                head.stream = false;
                if (head.n < 0) {
                        O(scan_any)(&body);
                        continue;
                }
                O(scan_any)(&head);
                body.x += head.n * step * K_SIZE;
                body.y += head.n * step * K_OUT;
                body.m = body.m ? body.m + head.n * step : NULL;
                body.n -= head.n;
                body.start = 0;
                body.resume = false;
                body.carry = carry;
                body.carry_row = 1;
                for (int r = 0; r < head.rows; r++) {
                        const char *last = body.y + r * job->y_row - step * K_OUT;
                        O(val) all;
                        if (head.n)
                                all = O(raise)(N(results)(last, inner), &none);
                        else
                                all = O(left_all)(&head, head.counters + r * SF_ORDER_LEVELS * K_ENTRY, O(place_of)(&head, K_WIDTH, 0).tile, r, &none);
                        O(put)(values[r], all);
                        carry[r] = (sf_carry){1, values[r], 0, NULL};
                }
                O(scan_simple)(&body);
                for (int r = 0; job->resume && after && r < head.rows; r++) {
                        const char *last = body.y + r * job->y_row + (body.n - 1) * step * K_OUT;
                        O(put)(head.counters + (r * SF_ORDER_LEVELS + sf_order_log2(after)) * K_ENTRY,
                               O(raise)(N(results)(last, inner), &none));
                }
        }
}
#endif

SF_INLINE void O(scan_rows_of)(const sf_rows *j)
{
        if (j->lanes->unit != K_WIDTH) {
#if defined(K_WHOLE) && defined(K_ORDERED)
                const sf_rows rest = O(after_narrow)(j);
                if (rest.n)
                        O(scan_any)(&rest);
#else
                O(scan_any)(j);
#endif
        } else if (O(is_simple)(j)) {
#ifdef K_WHOLE
                const bool whole = !j->start && !j->resume && !j->stream && !j->raw && !j->carry;
                if (whole && j->n < V_SCAN_TILE * K_WIDTH && j->lanes->inner == 1)
                        O(scan_short)(j, (j->n + K_WIDTH - 1) / K_WIDTH);
                else
#endif
                        O(scan_simple)(j);
#ifndef K_ORDERED
        } else if (j->stream && !j->exclusive && j->n * j->lanes->inner >= 4 * V_SCAN_TILE * K_WIDTH && (uintptr_t)j->y % K_OUT == 0) {
                O(scan_peeled)(j);
#endif
        } else {
                O(scan_any)(j);
        }
}
#endif

static void O(scan_rows)(const sf_rows *j)
{
        O(scan_rows_of)(j);
        if (j->stream && !j->resume) /* a walk that is resumed waits only once, at its end */
                v_fence();
}

#ifdef K_PACKED
#include "cpu/scan_packed.inc.h"
#endif
#undef K_GENERAL_FOUR
#undef K_GENERAL_ONE
