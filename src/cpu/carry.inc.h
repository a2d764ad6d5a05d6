/*
 * carry.inc.h: the second half of a shared axis's scan. Template; kernels.inc.h has the parameters, scan.inc.h the first half.
 *
 * Lanes that a scan has left in scratch (`raw`), whole vectors of them, get what stands to their left, and are written.
 *
 * A core has the same few buffers for lines it waits for and lines it streams out, and keeps all of them busy only if both kinds are
 * asked for at once: so the carries of one part of a sequence and the scan of another go together, tile by tile.
 */
typedef struct N(carrier) {
        const char *x;
        char *y;
        bool aligned; /* whole vectors are streamed */
        N(row) row[SF_CPU_GROUP];
} N(carrier);

SF_INLINE N(carrier) N(carrier_of)(const sf_rows *j, const int many, int64_t at)
{
        const int64_t offset = j->lanes->reverse ? -(int64_t)(K_WIDTH - j->lanes->inner) : 0;
        N(carrier) c = {.x = j->x + at * j->x_row + offset * K_LANE_BYTES, .y = j->y + at * j->y_row + offset * K_SIZE, .aligned = true};
        for (int r = 0; r < many; r++) {
                c.row[r].carry = j->carry + (at + r) * j->carry_row;
                c.row[r].before = N(get)(c.row[r].carry->fill);
                c.row[r].writer = N(writer_start)(c.y + r * j->y_row, j->stream, j->lanes->reverse);
                c.aligned = c.aligned && c.row[r].writer.stream && !c.row[r].writer.phase;
        }
        return c;
}

SF_INLINE void N(carry_tile)(const sf_rows *j, const sf_op op, const N(tables) *t, const int many, N(carrier) *c)
{
        const int64_t step = j->lanes->reverse ? -K_WIDTH : K_WIDTH;
        N(vec) v[SF_CPU_GROUP][V_SCAN_TILE];
        V_UNROLL
        for (int r = 0; r < many; r++) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[r][i] = N(get)(c->x + r * j->x_row + i * step * K_LANE_BYTES);
                N(add_carry)(op, c->row[r].carry, v[r], V_SCAN_TILE);
        }
        for (int e = 0; e < j->common->count; e++) {
                N(vec) entry = N(get)(j->common->entries + e * V_BYTES);
                V_UNROLL
                for (int r = 0; r < many; r++) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                v[r][i] = N(combine)(op, entry, v[r][i]);
                }
        }
        V_UNROLL
        for (int r = 0; r < many; r++) {
                if (j->exclusive) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                v[r][i] = N(shift)(t, &c->row[r], v[r][i]);
                }
                if (c->aligned) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                N(stream)(c->y + r * j->y_row + i * step * K_SIZE, v[r][i]);
                } else {
                        N(write)(&c->row[r].writer, c->y + r * j->y_row, v[r], V_SCAN_TILE);
                }
        }
        c->x += V_SCAN_TILE * step * K_LANE_BYTES;
        c->y += V_SCAN_TILE * step * K_SIZE;
}

SF_INLINE void N(carrier_end)(const sf_rows *j, const N(tables) *t, const int many, N(carrier) *c)
{
        for (int r = 0; r < many; r++) {
                if (!c->aligned)
                        N(write_end)(&c->row[r].writer, c->y + r * j->y_row);
                if (j->exclusive)
                        N(put)(c->row[r].carry->fill, N(permute)(c->row[r].before, t->last));
        }
}

SF_INLINE void N(carry_group)(const sf_rows *job, const sf_op op, const int many, int64_t at)
{
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        N(carrier) c = N(carrier_of)(&j, many, at);
        for (int64_t left = j.n * j.lanes->inner / (V_SCAN_TILE * K_WIDTH); left > 0; left--)
                N(carry_tile)(&j, op, &t, many, &c);
        N(carrier_end)(&j, &t, many, &c);
}

SF_INLINE void N(carry_and_scan)(const sf_rows *now, const sf_rows *next, const sf_op op)
{
        const sf_rows c = *now, j = *next;
        const N(tables) t = N(tables_of)(j.lanes);
        const N(vec) identity = N(broadcast)(j.identity);
        N(carrier) carrier = N(carrier_of)(&c, SF_CPU_GROUP, 0);
        N(place) p = N(place_of)(&j, K_WIDTH, 0);
        for (int64_t left = j.n * j.lanes->inner / (V_SCAN_TILE * K_WIDTH); left > 0; left--) {
                N(plain_tile)(&j, op, &t, SF_CPU_GROUP, &p, identity, j.ahead);
                N(carry_tile)(&c, op, &t, SF_CPU_GROUP, &carrier);
        }
        N(carrier_end)(&c, &t, SF_CPU_GROUP, &carrier);
}

static V_APART void N(carry_and_sum)(const sf_rows *now, const sf_rows *next)
{
        N(carry_and_scan)(now, next, SF_SUM);
}
static V_APART void N(carry_and_prod)(const sf_rows *now, const sf_rows *next)
{
        N(carry_and_scan)(now, next, SF_PROD);
}

SF_INLINE void N(carry_rows)(const sf_rows *now, const sf_rows *next, const sf_op op)
{
        if (next && now->rows == SF_CPU_GROUP && next->rows == SF_CPU_GROUP && now->n == next->n) {
                (op == SF_SUM ? N(carry_and_sum) : N(carry_and_prod))(now, next);
        } else {
                for (int64_t at = 0; at < now->rows; at++)
                        N(carry_group)(now, op, 1, at);
                if (next) /* into scratch */
                        N(plain_rows)(next, op);
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
