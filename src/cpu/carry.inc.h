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
