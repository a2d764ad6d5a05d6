/*
 * carry.inc.h: the second half of a shared axis's scan. Template; kernels.inc.h has the parameters, scan.inc.h the first half.
 *
 * Lanes that a scan has left in scratch (`raw`), whole vectors of them, get what stands to their left, and are written.
 *
 * A core has the same few buffers for lines it waits for and lines it streams out, and keeps all of them busy only if both kinds are
 * asked for all the time: so the carries of one part of a sequence and the scan of another go together, and between the rows of a tile that is
 * scanned a row of another is streamed. What the scan leaves in scratch takes the place of what the carries have just been added to, a line
 * that is still in the first cache.
 */
#undef CARRY_AHEAD
#undef CARRY_ROWS
#define CARRY_AHEAD 2 /* tiles: what is in scratch has to come from the second cache */
#define CARRY_ROWS 2  /* at a time: what they share is loaded once. More would not fit the registers beside a tile that is scanned */
typedef struct N(carrier) {
        const char *x;
        char *y;
        N(row) row[SF_CPU_GROUP];
} N(carrier);

SF_INLINE N(carrier) N(carrier_of)(const sf_rows *j, const int many, int64_t at)
{
        const int64_t offset = j->lanes->reverse ? -(int64_t)(K_WIDTH - j->lanes->inner) : 0;
        N(carrier) c = {.x = j->x + at * j->x_row + offset * K_LANE_BYTES, .y = j->y + at * j->y_row + offset * K_SIZE};
        for (int r = 0; r < many; r++) {
                c.row[r].carry = j->carry + (at + r) * j->carry_row;
                c.row[r].before = N(get)(c.row[r].carry->fill);
                c.row[r].writer = N(writer_start)(c.y + r * j->y_row, j->stream, j->lanes->reverse);
        }
        return c;
}

SF_INLINE void N(write_carried)(const sf_rows *j, const N(tables) *t, char *y, N(vec) *v, N(row) *row)
{
        if (j->exclusive) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = N(shift)(t, row, v[i]);
        }
        N(write)(&row->writer, y, v, V_SCAN_TILE);
}

/* A tile of CARRY_ROWS rows from `first` on. Rows are leaves of an aligned block: each has an entry of its own for every bit of its number. */
SF_INLINE void N(carry_few)(const sf_op op, const int first, const char *x, int64_t x_row, const sf_carry *own, const sf_carry *common, const int64_t step,
                            N(vec) (*w)[V_SCAN_TILE])
{
        V_UNROLL
        for (int r = 0; r < CARRY_ROWS; r++, x += x_row) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++) {
                        __builtin_prefetch(x + (CARRY_AHEAD * V_SCAN_TILE + i) * step * K_LANE_BYTES);
                        w[r][i] = N(get)(x + i * step * K_LANE_BYTES);
                }
                V_UNROLL
                for (int e = 0; e < __builtin_popcount((unsigned)(first + r)); e++) {
                        N(vec) entry = N(get)(own[first + r].entries + e * V_BYTES);
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                w[r][i] = N(combine)(op, entry, w[r][i]);
                }
        }
        for (int e = 0; e < common->count; e++) {
                N(vec) entry = N(get)(common->entries + e * V_BYTES);
                V_UNROLL
                for (int r = 0; r < CARRY_ROWS; r++) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                w[r][i] = N(combine)(op, entry, w[r][i]);
                }
        }
}

SF_INLINE void N(carrier_end)(const sf_rows *j, const N(tables) *t, const int many, N(carrier) *c)
{
        for (int r = 0; r < many; r++) {
                N(write_end)(&c->row[r].writer, c->y + r * j->y_row);
                if (j->exclusive)
                        N(put)(c->row[r].carry->fill, N(permute)(c->row[r].before, t->last));
        }
}

SF_INLINE void N(carry_one)(const sf_rows *job, const sf_op op, int64_t at)
{
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const int64_t step = j.lanes->reverse ? -K_WIDTH : K_WIDTH;
        N(carrier) c = N(carrier_of)(&j, 1, at);
        for (int64_t left = j.n * j.lanes->inner / (V_SCAN_TILE * K_WIDTH); left > 0; left--) {
                N(vec) v[V_SCAN_TILE];
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = N(get)(c.x + i * step * K_LANE_BYTES);
                N(add_carry)(op, c.row[0].carry, v, V_SCAN_TILE);
                N(add_carry)(op, j.common, v, V_SCAN_TILE);
                N(write_carried)(&j, &t, c.y, v, &c.row[0]);
                c.x += V_SCAN_TILE * step * K_LANE_BYTES;
                c.y += V_SCAN_TILE * step * K_SIZE;
        }
        N(carrier_end)(&j, &t, 1, &c);
}

/*
 * Carries are the same for all of a row, or every `inner` elements, so they need not be added by the vectors that were scanned: where results
 * do not begin at an aligned address, those that go to one are, up to a vector further on. How many elements: 0 to K_WIDTH - 1, down in reverse.
 */
SF_INLINE int64_t N(carry_shift)(const char *y, const bool down)
{
        const int64_t phase = (int64_t)((uintptr_t)y % (K_WIDTH * K_STORAGE_BYTES) / K_STORAGE_BYTES);
        return down ? -phase : phase ? K_WIDTH - phase : 0;
}

/* What that leaves of a row: its first elements, and the last tile, which is as much shorter. */
static V_APART void N(carry_edges)(const sf_rows *j, const N(carrier) *c, const int64_t shift, const int64_t step)
{
        const int count = (int)(shift < 0 ? -shift : shift), rest = K_WIDTH - count;
        const int64_t last = (j->n * j->lanes->inner / (V_SCAN_TILE * K_WIDTH) - 1) * V_SCAN_TILE * step + shift;
        for (int r = 0; r < SF_CPU_GROUP; r++) {
                const char *x = c->x + r * j->x_row;
                char *y = c->y + r * j->y_row;
                N(vec) v[V_SCAN_TILE + 1];
                v[V_SCAN_TILE] = N(get)(x);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = N(get)(x + (last + i * step) * K_LANE_BYTES);
                N(add_carry)(SF_SUM, j->carry + r, v, V_SCAN_TILE + 1);
                N(add_carry)(SF_SUM, j->common, v, V_SCAN_TILE + 1);
                N(store_part)(y + (step < 0 ? rest : 0) * K_SIZE, v[V_SCAN_TILE], step < 0 ? rest : 0, count);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE - 1; i++)
                        N(stream)(y + (last + i * step) * K_SIZE, v[i]);
                N(store_part)(y + (last + (V_SCAN_TILE - 1) * step + (step < 0 ? count : 0)) * K_SIZE, v[V_SCAN_TILE - 1], step < 0 ? count : 0, rest);
        }
}

/* The last tile of every row, whose place in scratch was carried away with the edges. */
static V_APART void N(scan_last)(const sf_rows *j, const int64_t step)
{
        const int64_t tiles = j->n * j->lanes->inner / (V_SCAN_TILE * K_WIDTH) - 1, on = tiles * V_SCAN_TILE * step;
        sf_rows last = *j;
        last.start += tiles * V_SCAN_TILE * K_WIDTH / j->lanes->inner;
        last.n -= last.start - j->start;
        last.x += on * K_SIZE;
        last.y += on * K_LANE_BYTES;
        N(sum_plain)(&last, 0, 1);
}

/* Plain calls know their step, so that all addresses of a row are constants away from one, and no row needs more than its carries. */
SF_INLINE void N(carry_and_scan)(const sf_rows *now, const sf_rows *next, const sf_op op, const bool plain, const int64_t step)
{
        const sf_rows j = *next, n = *now;
        const N(vec) identity = N(broadcast)(j.identity);
        const sf_carry *own = n.carry, common = *n.common;
        N(carrier) c = N(carrier_of)(&n, plain ? 0 : SF_CPU_GROUP, 0);
        N(place) p = N(place_of)(&j, K_WIDTH, 0);
        const int64_t shift = plain ? N(carry_shift)(c.y, step < 0) : 0;
        const uint64_t end = p.tile + (uint64_t)(j.n * j.lanes->inner / (V_SCAN_TILE * K_WIDTH)) - (shift != 0);
        if (shift) {
                N(carry_edges)(now, &c, shift, step);
                c.x += shift * K_LANE_BYTES;
                c.y += shift * K_SIZE;
        }
        const N(tables) t = N(tables_of)(j.lanes);
        for (; p.tile < end; p.tile++) {
                N(vec) v[SF_CPU_GROUP][V_SCAN_TILE], w[CARRY_ROWS][V_SCAN_TILE];
                V_UNROLL
                for (int r = 0; r < SF_CPU_GROUP; r++) {
                        N(load_tile)(p.x + r * j.x_row, !plain && p.m ? p.m + r * j.m_row : NULL, step, j.ahead, K_WIDTH, identity, v[r]);
                        N(scan_tile)(op, &t, K_LOG_WIDTH, v[r]);
                        if (r % CARRY_ROWS == 0)
                                N(carry_few)(op, r, c.x + r * n.x_row, n.x_row, own, &common, step, w);
                        if (plain)
                                N(stream_run)(c.y + r * n.y_row, w[r % CARRY_ROWS], V_SCAN_TILE, step < 0);
                        else
                                N(write_carried)(&n, &t, c.y + r * n.y_row, w[r % CARRY_ROWS], &c.row[r]);
                }
                N(count_tile)(op, &t, p.counters, p.tile, SF_CPU_GROUP, v);
                V_UNROLL
                for (int r = 0; r < SF_CPU_GROUP; r++) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                N(put)(p.y + r * j.y_row + i * step * K_LANE_BYTES, v[r][i]);
                }
                c.x += V_SCAN_TILE * step * K_LANE_BYTES;
                c.y += V_SCAN_TILE * step * K_SIZE;
                p.x += V_SCAN_TILE * step * K_SIZE;
                p.y += V_SCAN_TILE * step * K_LANE_BYTES;
                p.m = p.m ? p.m + V_SCAN_TILE * step : NULL;
        }
        if (!plain)
                N(carrier_end)(&n, &t, SF_CPU_GROUP, &c);
        if (shift)
                N(scan_last)(next, step);
}
static V_APART void N(carry_and_sum_up)(const sf_rows *now, const sf_rows *next)
{
        N(carry_and_scan)(now, next, SF_SUM, true, K_WIDTH);
}
static V_APART void N(carry_and_sum_down)(const sf_rows *now, const sf_rows *next)
{
        N(carry_and_scan)(now, next, SF_SUM, true, -K_WIDTH);
}
static V_APART void N(carry_and_sum)(const sf_rows *now, const sf_rows *next)
{
        N(carry_and_scan)(now, next, SF_SUM, false, now->lanes->reverse ? -K_WIDTH : K_WIDTH);
}
static V_APART void N(carry_and_prod)(const sf_rows *now, const sf_rows *next)
{
        N(carry_and_scan)(now, next, SF_PROD, false, now->lanes->reverse ? -K_WIDTH : K_WIDTH);
}

SF_INLINE void N(carry_rows)(const sf_rows *now, const sf_rows *next, const sf_op op)
{
        /* Half a line that is not followed by the other half at once gains nothing. */
        const bool shifts = K_CONVERT == K_SAME && V_BYTES == 64 && (uintptr_t)now->y % K_STORAGE_BYTES == 0 && now->y_row % V_BYTES == 0 &&
                            N(carry_shift)(now->y, now->lanes->reverse) % now->lanes->inner == 0;
        const bool plain = now->stream && (shifts || N(aligned)(now)) && !now->exclusive && !now->m;
        if (!next || now->rows < SF_CPU_GROUP || next->rows < SF_CPU_GROUP || now->n != next->n) {
                for (int64_t at = 0; at < now->rows; at++)
                        N(carry_one)(now, op, at);
                if (next) /* into scratch */
                        N(plain_rows)(next, op);
        } else if (op == SF_SUM && plain) {
                (now->lanes->reverse ? N(carry_and_sum_down) : N(carry_and_sum_up))(now, next);
        } else {
                (op == SF_SUM ? N(carry_and_sum) : N(carry_and_prod))(now, next);
        }
}

/* Narrow matrices: vectors hold whatever rows and columns they come to. */
SF_INLINE void N(carry_vectors)(const sf_run *j, const sf_op op, int64_t at, const int many, N(vec) *v)
{
        const char *entry = j->table + at * K_LANE_BYTES;
        for (int e = 0; e < j->entries; e++, entry += (j->period + 4) * V_BYTES) {
                V_UNROLL
                for (int i = 0; i < many; i++)
                        v[i] = N(combine)(op, N(get)(entry + i * V_BYTES), v[i]);
        }
}

SF_INLINE void N(carry_run)(const sf_run *job, const sf_op op)
{
        const sf_run j = *job;
        const int64_t off = j.y - j.base, before = -off & (V_BYTES - 1);
        int64_t left = j.count, head = before / K_SIZE < left ? before / K_SIZE : left, place = (off + before) / V_BYTES % j.period;
        const char *x = j.x, *next = j.next;
        char *y = j.y;
        place = place < 0 ? place + j.period : place;
        if (head) {
                N(vec) v = N(load_part)(x, 0, (int)head);
                N(carry_vectors)(&j, op, (place ? place : j.period) * K_WIDTH - before / K_SIZE, 1, &v);
                N(store_part)(y, v, 0, (int)head);
                x += head * K_SIZE;
                y += head * K_SIZE;
                left -= head;
        }
        for (; left >= 4 * K_WIDTH; left -= 4 * K_WIDTH) {
                N(vec) v[4];
                V_UNROLL
                for (int i = 0; i < 4; i++, x += V_BYTES) {
                        v[i] = N(get)(x);
                        __builtin_prefetch(next + i * V_BYTES);
                }
                N(carry_vectors)(&j, op, place * K_WIDTH, 4, v);
                V_UNROLL
                for (int i = 0; i < 4; i++, y += V_BYTES) {
                        if (j.stream)
                                v_stream(y, &v[i], V_BYTES);
                        else
                                N(put)(y, v[i]);
                }
                next += 4 * V_BYTES;
                place += 4;
                place -= place >= j.period ? j.period : 0;
        }
        for (; left > 0; left -= K_WIDTH) {
                const int count = left < K_WIDTH ? (int)left : K_WIDTH;
                N(vec) v = N(load_part)(x, 0, count);
                N(carry_vectors)(&j, op, place * K_WIDTH, 1, &v);
                N(store_part)(y, v, 0, count);
                x += V_BYTES;
                y += V_BYTES;
                place = place + 1 == j.period ? 0 : place + 1;
        }
}
