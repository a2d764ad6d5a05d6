/*
 * scan_pairs.inc.h: the scan of rows where values have two components that vanish (vanish.inc.h).
 * Template, part of scan.inc.h.
 *
 * Such a value takes five instructions for each level of lanes, each of which waits for the one
 * before. So two tiles are scanned at a time, and all their vectors level by level: else a core
 * waits more than it computes. What is left at the end of a row, up to two tiles, is loaded and
 * stored with masks, so that short rows cost little more than long ones.
 */

/* Scans the lanes of two tiles, and their vectors. */
SF_INLINE void O(scan_pair)(const N(tables) *t, O(val) (*v)[V_SCAN_TILE])
{
        V_UNROLL
        for (int k = 0; k < K_LOG_WIDTH; k++) {
                V_UNROLL
                for (int i = 0; i < 2 * V_SCAN_TILE; i++)
                        v[i / V_SCAN_TILE][i % V_SCAN_TILE] = O(lane_level)(v[i / V_SCAN_TILE][i % V_SCAN_TILE], t, k);
        }
        V_UNROLL
        for (int size = 1; size < V_SCAN_TILE; size *= 2) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++) {
                        V_UNROLL
                        for (int h = 0; h < 2; h++)
                                if (i & size)
                                        v[h][i] = O(combine)(O(last)(v[h][(i & -size) - 1], t), v[h][i]);
                }
        }
}

/* Combines an entry on the left of two tiles: b, or a. */
SF_INLINE void O(pair_b)(O(val) l, O(val) (*v)[V_SCAN_TILE])
{
        V_UNROLL
        for (int i = 0; i < 2 * V_SCAN_TILE; i++)
                v[i / V_SCAN_TILE][i % V_SCAN_TILE].b = v[i / V_SCAN_TILE][i % V_SCAN_TILE].a * l.b + v[i / V_SCAN_TILE][i % V_SCAN_TILE].b;
}
SF_INLINE void O(pair_a)(O(val) l, O(val) (*v)[V_SCAN_TILE])
{
        V_UNROLL
        for (int i = 0; i < 2 * V_SCAN_TILE; i++)
                v[i / V_SCAN_TILE][i % V_SCAN_TILE].a = l.a * v[i / V_SCAN_TILE][i % V_SCAN_TILE].a;
}

/* Combines everything to the left of two tiles, of which the first has the even number `tile`, and
 * stores the total of the block that the second closes. */
SF_INLINE void O(pair_left)(const N(tables) *t, O(left) *left, uint64_t tile, const sf_carry *carry, O(val) (*v)[V_SCAN_TILE])
{
        const int64_t closed = sf_order_closed(tile + 1);
        const uint64_t small = left->small;
        char *close = left->counters + closed * K_ENTRY;
        const O(val) first = O(last)(v[0][V_SCAN_TILE - 1], t);
        bool stops = true;
        int64_t k = 1;
        O(put)(left->counters, first);
        if (O(may_vanish)(left->counters)) {
                O(take_vanishing)(t, left->counters, tile, carry, v[0]);
                O(take_vanishing)(t, left->counters, tile + 1, carry, v[1]);
                O(ask_entry)(left, closed, 1);
                return;
        }
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++)
                v[1][i] = O(combine)(first, v[1][i]);
        for (; k < closed && !(small >> k & 1); k++) {
                const O(val) l = O(get)(left->counters + k * K_ENTRY);
                O(pair_b)(l, v);
                O(pair_a)(l, v);
        }
        O(put)(close, O(last)(v[1][V_SCAN_TILE - 1], t));
        if (k < closed)
                O(close_block)(left->counters, k, closed);
        O(ask_entry)(left, closed, 1);
        for (uint64_t bits = tile >> k << k, rest; bits; bits = rest) {
                const int64_t level = __builtin_ctzll(bits);
                const O(val) l = O(get)(left->counters + level * K_ENTRY);
                rest = bits & (bits - 1);
                O(pair_b)(l, v);
                if (!rest && !carry)
                        return;
                if (stops && small >> level & 1 && O(is_decided)(l.a, 2 * V_SCAN_TILE, v[0])) {
                        const char *entry[2 * SF_ORDER_LEVELS];
                        if (O(are_harmless)(entry, 0, O(list_entries)(left->counters, rest, carry, entry)))
                                return;
                        stops = false;
                }
                O(pair_a)(l, v);
        }
        for (int e = 0; carry && e < carry->count; e++) {
                const O(val) l = O(get)(carry->entries + e * carry->entry_stride);
                O(pair_b)(l, v);
                O(pair_a)(l, v);
        }
}

/* What a row's results need besides their place. */
typedef struct O(results) {
        N(vec) before; /* exclusive: for N(shift) */
        N(writer) writer;
} O(results);

/* Vector i of a row's last two tiles, of which `left` elements are present. Lanes past the end are
 * to the right of all that is stored, and never a reason to compute more. */
SF_INLINE int O(end_count)(int i, int64_t left)
{
        const int64_t rest = left - i * K_WIDTH;
        return rest < 0 ? 0 : rest < K_WIDTH ? (int)rest : K_WIDTH;
}
SF_INLINE O(val) O(load_end)(const O(place) *p, const O(none) *none, int i, int64_t left)
{
        const bool reverse = p->step < 0;
        const int count = O(end_count)(i, left), first = reverse ? K_WIDTH - count : 0;
        const int64_t from = i * p->step + first;
        return O(decided_after)(O(load_part)(p->x + from * K_SIZE, p->m ? p->m + from : NULL, none, first, count), count, K_WIDTH, reverse);
}
SF_INLINE void O(store_end)(const O(place) *p, const N(vec) *result, int64_t left)
{
        V_UNROLL
        for (int i = 0; i < 2 * V_SCAN_TILE; i++) {
                const int count = O(end_count)(i, left), first = p->step < 0 ? K_WIDTH - count : 0;
                N(store_part)(p->y + (i * p->step + first) * K_OUT, result[i], first, count);
        }
}

/* Scans the end of a row, fewer elements than two tiles have. */
static V_APART void O(pair_end)(const sf_rows *j, int64_t at, const O(place) *p, O(results) *to, int64_t left)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const O(none) none = O(none_of)(j->identity, j->turn, j->beside);
        O(val) v[2][V_SCAN_TILE];
        N(vec) result[2 * V_SCAN_TILE];
        V_UNROLL
        for (int i = 0; i < 2 * V_SCAN_TILE; i++)
                v[i / V_SCAN_TILE][i % V_SCAN_TILE] = O(load_end)(p, &none, i, left);
        O(scan_pair)(&t, v);
        O(put)(p->counters, O(last)(v[0][V_SCAN_TILE - 1], &t));
        for (int h = 0; h < 2; h++) {
                const char *entry[2 * SF_ORDER_LEVELS];
                const int entries = O(list_entries)(p->counters, p->tile + (unsigned)h, j->carry ? j->carry + at * j->carry_row : NULL, entry);
                O(take_entries)(entry, 0, entries, false, V_SCAN_TILE, v[h]);
        }
        V_UNROLL
        for (int i = 0; i < 2 * V_SCAN_TILE; i++) {
                result[i] = O(lower)(v[i / V_SCAN_TILE][i % V_SCAN_TILE], &none);
                if (j->exclusive)
                        result[i] = N(shift)(&t, &to->before, result[i]);
        }
        O(store_end)(p, result, left);
}

#ifdef V_FLUSH
#include "cpu/scan_flushed.inc.h"
#endif

/* Scans all rows. `plain`: there is no mask, nothing to the left, and results are not shifted. */
SF_INLINE void O(scan_pairs_of)(const sf_rows *job, const bool plain)
{
        sf_rows j = *job;
        if (plain) { /* to tell the compiler */
                j.m = NULL;
                j.carry = NULL;
                j.exclusive = false;
        }
        const N(tables) t = N(tables_of)(j.lanes);
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        enum { PAIR = 2 * V_SCAN_TILE, TRIES = 3 };
        bool fades = false;
        for (int64_t at = 0; at < j.rows; at++) {
                const sf_carry *carry = j.carry ? j.carry + at * j.carry_row : NULL;
                O(place) p = O(place_of)(&j, K_WIDTH, at);
                O(results) to;
                N(vec) result[PAIR];
                char *held = NULL; /* as in N(held) */
                int64_t todo = j.n * j.lanes->inner;
                to.before = j.exclusive ? O(get_fill)(carry->fill, &none) : none.element;
                N(writer_start)(&to.writer, p.y, j.stream, p.step < 0);
                O(left) left = O(left_of)(&j, &p, 1, at, &none);
                int tries = 0;
#ifdef V_FLUSH
                /* to ask takes as long as a part of a short row */
                if (!at || todo >= PAIR * K_WIDTH)
                        fades = O(fades)(&j, at);
                tries = fades ? TRIES : 0;
#endif
                for (;; todo -= PAIR * K_WIDTH, p.tile += 2) {
#ifdef V_FLUSH
                        if (tries && todo) {
                                const int64_t done = O(scan_flushed)(job, at, &p, todo, &to);
                                p = O(place_on)(&j, p, done);
                                p.tile += (uint64_t)(done / (V_SCAN_TILE * K_WIDTH));
                                todo -= done;
                                tries = done ? TRIES : tries - 1;
                                left = O(left_of)(&j, &p, 1, at, &none);
                        }
#endif
                        if (todo < PAIR * K_WIDTH)
                                break;
                        O(val) v[2][V_SCAN_TILE];
                        V_UNROLL
                        for (int i = 0; i < PAIR; i++) {
                                __builtin_prefetch(p.x + i * p.step * K_SIZE + j.ahead);
                                v[i / V_SCAN_TILE][i % V_SCAN_TILE] = O(load)(p.x + i * p.step * K_SIZE, !plain && p.m ? p.m + i * p.step : NULL, &none);
                        }
                        O(scan_pair)(&t, v);
                        if (held)
                                N(write_now)(&to.writer, held, result, PAIR);
                        O(pair_left)(&t, &left, p.tile, carry, v);
                        V_UNROLL
                        for (int i = 0; i < PAIR; i++) {
                                result[i] = O(lower)(v[i / V_SCAN_TILE][i % V_SCAN_TILE], &none);
                                if (j.exclusive)
                                        result[i] = N(shift)(&t, &to.before, result[i]);
                        }
                        held = N(holds) && j.stream && !tries ? p.y : NULL;
                        if (!held)
                                N(write_now)(&to.writer, p.y, result, PAIR);
                        p.x += PAIR * p.step * K_SIZE;
                        p.y += PAIR * p.step * K_OUT;
                        p.m = p.m ? p.m + PAIR * p.step : NULL;
                }
                if (held)
                        N(write)(&to.writer, held, result, PAIR);
                N(write_end)(&to.writer, p.y);
                if (todo)
                        O(pair_end)(&j, at, &p, &to, todo);
                if (j.exclusive && j.resume)
                        O(put_fill)(carry->fill, N(before_of)(&t, to.before), &none);
        }
}
static V_APART void O(scan_pairs_plain)(const sf_rows *j)
{
        O(scan_pairs_of)(j, true);
}
static V_APART void O(scan_pairs)(const sf_rows *j)
{
        O(scan_pairs_of)(j, false);
}
