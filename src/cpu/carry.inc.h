/*
 * carry.inc.h: the second half of a scan along a shared axis. Template; kernels.inc.h has the
 * parameters, scan.inc.h the first half. For values of one component only, because scratch memory
 * holds lanes.
 *
 * A scan has left whole vectors of lanes in scratch (`raw`). These kernels add the carries, the
 * values to their left, and write the results.
 */
#ifdef K_WHOLE
/*
 * A core has the same few buffers for cache lines that it waits for and for those that it streams
 * out. It keeps all of them busy only if it issues both kinds all the time. So the carries of one
 * part of a sequence and the scan of another are interleaved: between the rows of a tile that is
 * scanned, a row of another tile is streamed. In scratch, the scan's results replace lanes to which
 * the carries have just been added, in a cache line that is still in the first-level cache.
 */
#undef CARRY_AHEAD
#undef CARRY_ROWS
#define CARRY_AHEAD 2 /* tiles; scratch is fetched from the second-level cache */
/* rows at a time, which load common entries once. More would not fit in registers beside the
 * scanned tile */
#define CARRY_ROWS 2
typedef struct O(carrier) {
        const char *x;
        char *y;
        O(row) row[SF_CPU_GROUP];
} O(carrier);

SF_INLINE O(carrier) O(carrier_of)(const sf_rows *j, const int many, int64_t at, const O(none) *none)
{
        const int64_t offset = j->lanes->reverse ? -(int64_t)(K_WIDTH - j->lanes->inner) : 0;
        O(carrier) c = {.x = j->x + at * j->x_row + offset * K_LANE_BYTES, .y = j->y + at * j->y_row + offset * K_SIZE};
        for (int r = 0; r < many; r++) {
                c.row[r].before = O(get_fill)(j->carry[(at + r) * j->carry_row].fill, none);
                N(writer_start)(&c.row[r].writer, c.y + r * j->y_row, j->stream, j->lanes->reverse);
        }
        return c;
}

SF_INLINE void O(write_carried)(const sf_rows *j, const N(tables) *t, char *y, N(vec) *v, O(row) *row)
{
        if (j->exclusive) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = N(shift)(t, &row->before, v[i]);
        }
        N(write_now)(&row->writer, y, v, V_SCAN_TILE);
}

/* Adds carries to one tile of CARRY_ROWS rows, from row `first` on. Rows are leaves of an aligned
 * block: each has one entry of its own for every bit set in its number. */
SF_INLINE void O(carry_few)(const int first, const char *x, int64_t x_row, const sf_carry *own, const sf_carry *common, const int64_t step,
                            O(val) (*w)[V_SCAN_TILE])
{
        V_UNROLL
        for (int r = 0; r < CARRY_ROWS; r++, x += x_row) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++) {
                        __builtin_prefetch(x + (CARRY_AHEAD * V_SCAN_TILE + i) * step * K_LANE_BYTES);
                        w[r][i] = O(get)(x + i * step * K_LANE_BYTES);
                }
                V_UNROLL
                for (int e = 0; e < __builtin_popcount((unsigned)(first + r)); e++) {
                        O(val) entry = O(get)(own[first + r].entries + e * K_ENTRY);
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                w[r][i] = O(combine)(entry, w[r][i]);
                }
        }
        for (int e = 0; e < common->count; e++) {
                O(val) entry = O(get)(common->entries + e * K_ENTRY);
                V_UNROLL
                for (int r = 0; r < CARRY_ROWS; r++) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                w[r][i] = O(combine)(entry, w[r][i]);
                }
        }
}

SF_INLINE void O(carrier_end)(const sf_rows *j, const N(tables) *t, const int many, O(carrier) *c, int64_t at,
                              const O(none) *none)
{
        for (int r = 0; r < many; r++) {
                N(write_end)(&c->row[r].writer, c->y + r * j->y_row);
                if (j->exclusive)
                        O(put_fill)(j->carry[(at + r) * j->carry_row].fill, N(before_of)(t, c->row[r].before), none);
        }
}

SF_INLINE void O(carry_one)(const sf_rows *job, int64_t at)
{
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const int64_t step = j.lanes->reverse ? -K_WIDTH : K_WIDTH;
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        O(carrier) c = O(carrier_of)(&j, 1, at, &none);
        for (int64_t left = j.n * j.lanes->inner / (V_SCAN_TILE * K_WIDTH); left > 0; left--) {
                O(val) v[V_SCAN_TILE];
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = O(get)(c.x + i * step * K_LANE_BYTES);
                O(add_carry)(j.carry + at * j.carry_row, v, V_SCAN_TILE);
                O(add_carry)(j.common, v, V_SCAN_TILE);
                O(write_carried)(&j, &t, c.y, v, &c.row[0]);
                c.x += V_SCAN_TILE * step * K_LANE_BYTES;
                c.y += V_SCAN_TILE * step * K_SIZE;
        }
        O(carrier_end)(&j, &t, 1, &c, at, &none);
}

/*
 * Carries are the same along a row, or repeat every `inner` elements, so vectors need not begin
 * where those of the scan did. If results do not begin at an aligned address, vectors begin at the
 * next one. Returns how many elements that is: 0 to K_WIDTH - 1 up, or as many down in reverse.
 */
SF_INLINE int64_t O(carry_shift)(const char *y, const bool down)
{
        const int64_t phase = (int64_t)((uintptr_t)y % (K_WIDTH * K_STORAGE_BYTES) / K_STORAGE_BYTES);
        return down ? -phase : phase ? K_WIDTH - phase : 0;
}

/* The parts of a row that the shift leaves out: its first elements, and the last tile, which is
 * that much shorter. */
static V_APART void O(carry_edges)(const sf_rows *j, const O(carrier) *c, const int64_t shift, const int64_t step)
{
        const int count = (int)(shift < 0 ? -shift : shift), rest = K_WIDTH - count;
        const int64_t last = (j->n * j->lanes->inner / (V_SCAN_TILE * K_WIDTH) - 1) * V_SCAN_TILE * step + shift;
        for (int r = 0; r < SF_CPU_GROUP; r++) {
                const char *x = c->x + r * j->x_row;
                char *y = c->y + r * j->y_row;
                O(val) v[V_SCAN_TILE + 1];
                v[V_SCAN_TILE] = O(get)(x);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = O(get)(x + (last + i * step) * K_LANE_BYTES);
                O(add_carry)(j->carry + r, v, V_SCAN_TILE + 1);
                O(add_carry)(j->common, v, V_SCAN_TILE + 1);
                N(store_part)(y + (step < 0 ? rest : 0) * K_SIZE, v[V_SCAN_TILE], step < 0 ? rest : 0, count);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE - 1; i++)
                        N(stream)(y + (last + i * step) * K_SIZE, v[i]);
                N(store_part)(y + (last + (V_SCAN_TILE - 1) * step + (step < 0 ? count : 0)) * K_SIZE, v[V_SCAN_TILE - 1], step < 0 ? count : 0, rest);
        }
}

/* Scans the last tile of every row, which the loop leaves out if there is a shift. carry_edges has
 * already read what was at its place in scratch. */
static V_APART void O(scan_last)(const sf_rows *j, const int64_t step)
{
        const int64_t tiles = j->n * j->lanes->inner / (V_SCAN_TILE * K_WIDTH) - 1, on = tiles * V_SCAN_TILE * step;
        sf_rows last = *j;
        last.start += tiles * V_SCAN_TILE * K_WIDTH / j->lanes->inner;
        last.n -= last.start - j->start;
        last.x += on * K_SIZE;
        last.y += on * K_LANE_BYTES;
        O(simple_four)(&last, 0, 1);
}

/* Plain calls have a constant step, so that all addresses of a row are at constant distances from
 * one. Their rows need no state besides their carries. */
SF_INLINE void O(carry_and_scan)(const sf_rows *now, const sf_rows *next, const bool plain, const int64_t step)
{
        const sf_rows j = *next, n = *now;
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        const sf_carry *own = n.carry, common = *n.common;
        O(carrier) c = O(carrier_of)(&n, plain ? 0 : SF_CPU_GROUP, 0, &none);
        O(place) p = O(place_of)(&j, K_WIDTH, 0);
        O(left) left = O(left_of)(&j, &p, SF_CPU_GROUP, 0, &none);
        const int64_t shift = plain ? O(carry_shift)(c.y, step < 0) : 0;
        const uint64_t end = p.tile + (uint64_t)(j.n * j.lanes->inner / (V_SCAN_TILE * K_WIDTH)) - (shift != 0);
        if (shift) {
                O(carry_edges)(now, &c, shift, step);
                c.x += shift * K_LANE_BYTES;
                c.y += shift * K_SIZE;
        }
        const N(tables) t = N(tables_of)(j.lanes);
        for (; p.tile < end; p.tile++) {
                O(val) v[SF_CPU_GROUP][V_SCAN_TILE], w[CARRY_ROWS][V_SCAN_TILE];
                V_UNROLL
                for (int r = 0; r < SF_CPU_GROUP; r++) {
                        O(load_tile)(p.x + r * j.x_row, !plain && p.m ? p.m + r * j.m_row : NULL, step, j.ahead, true, K_WIDTH, &none, v[r]);
                        O(scan_tile)(&t, K_LOG_WIDTH, v[r]);
                        if (r % CARRY_ROWS == 0)
                                O(carry_few)(r, c.x + r * n.x_row, n.x_row, own, &common, step, w);
                        if (plain)
                                N(stream_run)(c.y + r * n.y_row, w[r % CARRY_ROWS], V_SCAN_TILE, step < 0);
                        else
                                O(write_carried)(&n, &t, c.y + r * n.y_row, w[r % CARRY_ROWS], &c.row[r]);
                }
                O(take_left)(&t, &left, p.tile, NULL, 0, SF_CPU_GROUP, v);
                V_UNROLL
                for (int r = 0; r < SF_CPU_GROUP; r++) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                O(put)(p.y + r * j.y_row + i * step * K_LANE_BYTES, v[r][i]);
                }
                c.x += V_SCAN_TILE * step * K_LANE_BYTES;
                c.y += V_SCAN_TILE * step * K_SIZE;
                p.x += V_SCAN_TILE * step * K_SIZE;
                p.y += V_SCAN_TILE * step * K_LANE_BYTES;
                p.m = p.m ? p.m + V_SCAN_TILE * step : NULL;
        }
        O(left_put)(&left, p.counters, p.tile, SF_CPU_GROUP);
        if (!plain)
                O(carrier_end)(&n, &t, SF_CPU_GROUP, &c, 0, &none);
        if (shift)
                O(scan_last)(next, step);
}
static V_APART void O(carry_up)(const sf_rows *now, const sf_rows *next)
{
        O(carry_and_scan)(now, next, true, K_WIDTH);
}
static V_APART void O(carry_down)(const sf_rows *now, const sf_rows *next)
{
        O(carry_and_scan)(now, next, true, -K_WIDTH);
}
static V_APART void O(carry_any)(const sf_rows *now, const sf_rows *next)
{
        O(carry_and_scan)(now, next, false, now->lanes->reverse ? -K_WIDTH : K_WIDTH);
}

static void O(carry_rows)(const sf_rows *now, const sf_rows *next)
{
        /* Shifting pays only if a vector is a whole cache line: half a line that is not followed at
         * once by the other half gains nothing. */
        const bool shifts = K_CONVERT == K_SAME && V_BYTES == 64 && (uintptr_t)now->y % K_STORAGE_BYTES == 0 && now->y_row % V_BYTES == 0 &&
                            O(carry_shift)(now->y, now->lanes->reverse) % now->lanes->inner == 0;
        const bool plain = now->stream && (shifts || N(aligned)(now)) && !now->exclusive && !now->m;
        if (!next || now->rows < SF_CPU_GROUP || next->rows < SF_CPU_GROUP || now->n != next->n) {
                for (int64_t at = 0; at < now->rows; at++)
                        O(carry_one)(now, at);
                if (next) /* into scratch */
                        O(scan_simple)(next);
        } else if (plain) {
                (now->lanes->reverse ? O(carry_down) : O(carry_up))(now, next);
        } else {
                O(carry_any)(now, next);
        }
}
#endif

#if K_CONVERT == K_SAME
/* Narrow matrices: a vector holds parts of any rows and columns. */
SF_INLINE void O(carry_vectors)(const sf_run *j, int64_t at, const int many, O(val) *v)
{
        const char *entry = j->table + at * K_LANE_BYTES;
        for (int e = 0; e < j->entries; e++, entry += (j->period + 4) * V_BYTES) {
                V_UNROLL
                for (int i = 0; i < many; i++)
                        v[i] = O(combine)(O(get)(entry + i * V_BYTES), v[i]);
        }
}

/* Up to a vector of elements, `count` of them, with the carries from lane `at` of the table on. */
static V_APART void O(carry_part)(const sf_run *j, const char *x, char *y, int64_t at, int count)
{
        const O(none) none = O(none_of)((sf_value){.u64 = 0}, j->turn, 0);
        O(val) v = O(load_part)(x, NULL, &none, 0, count);
        O(carry_vectors)(j, at, 1, &v);
        N(store_part)(y, O(lower)(v, &none), 0, count);
}

static void O(carry_run)(const sf_run *job)
{
        const sf_run j = *job;
        const O(none) none = O(none_of)((sf_value){.u64 = 0}, j.turn, 0);
        const int64_t off = j.y - j.base, before = -off & (V_BYTES - 1);
        const int64_t head = before / K_SIZE < j.count ? before / K_SIZE : j.count;
        int64_t left = j.count, place = (off + before) / V_BYTES % j.period;
        const char *x = j.x, *next = j.next;
        char *y = j.y;
        place = place < 0 ? place + j.period : place;
        if (head) {
                O(carry_part)(&j, x, y, (place ? place : j.period) * K_WIDTH - before / K_SIZE, (int)head);
                x += head * K_SIZE;
                y += head * K_SIZE;
                left -= head;
        }
        for (; left >= 4 * K_WIDTH; left -= 4 * K_WIDTH) {
                O(val) v[4];
                V_UNROLL
                for (int i = 0; i < 4; i++, x += V_BYTES) {
                        v[i] = O(load)(x, NULL, &none);
                        __builtin_prefetch(next + i * V_BYTES);
                }
                O(carry_vectors)(&j, place * K_WIDTH, 4, v);
                V_UNROLL
                for (int i = 0; i < 4; i++, y += V_BYTES) {
                        const N(vec) result = O(lower)(v[i], &none);
                        if (j.stream)
                                v_stream(y, &result, V_BYTES);
                        else
                                N(put)(y, result);
                }
                next += 4 * V_BYTES;
                place += 4;
                place -= place >= j.period ? j.period : 0;
        }
        for (; left > 0; left -= K_WIDTH) {
                O(carry_part)(&j, x, y, place * K_WIDTH, left < K_WIDTH ? (int)left : K_WIDTH);
                x += V_BYTES;
                y += V_BYTES;
                place = place + 1 == j.period ? 0 : place + 1;
        }
}
#endif
