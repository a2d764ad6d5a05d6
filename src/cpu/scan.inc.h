/*
 * scan.inc.h: the scan of rows, of packed short rows, and of columns, once for all instruction sets and types. Template;
 * kernels.inc.h has the parameters. The order is docs/order.md's; order.h says how a walker keeps it with a counter.
 */

/* ------------------------------------------------------------------------------------------------------------
 * Rows
 *
 * `many` rows side by side, tiles of V_SCAN_TILE vectors. Inside a tile: lanes, then vectors. Between tiles: the counter, an
 * entry a level, each entry a vector with the block's total in every lane, so that adding it is one instruction.
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct N(row) {
        const char *x;
        char *y;
        const uint8_t *m;
        char *counter;
        const sf_carry *carry;
        N(vec) before; /* exclusive: the value to the left of the next vector, in every lane */
        N(writer) writer;
} N(row);

/* Adds entry `at` of every row's counter to the left of all its vectors. */
SF_INLINE void N(add_entry)(const sf_op op, N(row) *row, const int many, N(vec) (*v)[V_SCAN_TILE], int at)
{
        V_UNROLL
        for (int r = 0; r < many; r++) {
                N(vec) entry = N(get)(row[r].counter + at * V_BYTES);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[r][i] = N(combine)(op, entry, v[r][i]);
        }
}

/* What stands to the left of the whole piece. */
SF_INLINE void N(add_carry)(const sf_op op, const sf_carry *carry, N(vec) *v, const int count)
{
        for (int e = 0; e < carry->count; e++) {
                N(vec) entry = N(get)(carry->entries + e * carry->entry_stride);
                V_UNROLL
                for (int i = 0; i < count; i++)
                        v[i] = N(combine)(op, entry, v[i]);
        }
}

/* An inclusive result becomes the exclusive one: each lane takes its left neighbour's. */
SF_INLINE N(vec) N(shift)(const N(tables) *t, N(row) *row, N(vec) v)
{
        N(vec) shifted = N(blend)(t->before_on, N(permute)(v, t->before), row->before);
        row->before = N(permute)(v, t->last);
        return shifted;
}

SF_INLINE void N(scan_group)(const sf_rows *j, const sf_op op, const int many, const int levels, N(row) *row)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const N(vec) identity = N(broadcast)(j->identity);
        const int unit = levels == K_LOG_WIDTH ? K_WIDTH : j->lanes->unit;
        const int level_count = levels == K_LOG_WIDTH ? K_LOG_WIDTH : j->lanes->levels;
        const bool reverse = j->lanes->reverse;
        const int64_t elements = j->n * j->lanes->inner;
        const int64_t tiles = elements / (V_SCAN_TILE * unit);
        /* A vector's address is that of its lowest lane, which in reverse is its last position. */
        const int64_t step = reverse ? -unit : unit, offset = reverse ? -(int64_t)(unit - j->lanes->inner) : 0;
        const bool carried = row[0].carry != NULL;
        uint64_t tile = (uint64_t)(j->start * j->lanes->inner / (V_SCAN_TILE * unit));

        for (int r = 0; r < many; r++) {
                row[r].x += offset * K_SIZE;
                row[r].y += offset * K_SIZE;
                row[r].m = row[r].m ? row[r].m + offset : NULL;
                row[r].before = j->exclusive ? N(get)(row[r].carry->fill) : identity;
                row[r].writer = N(writer_start)(row[r].y, j->stream && unit == K_WIDTH, reverse);
        }
        for (int64_t done = 0; done < tiles; done++, tile++) {
                N(vec) v[SF_CPU_GROUP][V_SCAN_TILE];
                V_UNROLL
                for (int r = 0; r < many; r++) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++) {
                                v[r][i] = N(load_unit)(row[r].x + i * step * K_SIZE, row[r].m ? row[r].m + i * step : NULL, identity, unit);
                                v[r][i] = N(lane_scan)(op, v[r][i], &t, level_count);
                        }
                        V_UNROLL
                        for (int size = 1; size < V_SCAN_TILE; size *= 2) {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_TILE; i++)
                                        if (i & size)
                                                v[r][i] = N(combine)(op, N(permute)(v[r][(i & -size) - 1], t.last), v[r][i]);
                        }
                        row[r].x += V_SCAN_TILE * step * K_SIZE;
                        row[r].m = row[r].m ? row[r].m + V_SCAN_TILE * step : NULL;
                }
                int closed = sf_order_closed(tile);
                for (int k = 0; k < closed; k++)
                        N(add_entry)(op, row, many, v, k);
                V_UNROLL
                for (int r = 0; r < many; r++)
                        N(put)(row[r].counter + closed * V_BYTES, N(permute)(v[r][V_SCAN_TILE - 1], t.last));
                for (uint64_t bits = tile >> closed << closed; bits; bits &= bits - 1)
                        N(add_entry)(op, row, many, v, __builtin_ctzll(bits));
                V_UNROLL
                for (int r = 0; r < many; r++) {
                        if (carried)
                                N(add_carry)(op, row[r].carry, v[r], V_SCAN_TILE);
                        if (j->exclusive) {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_TILE; i++)
                                        v[r][i] = N(shift)(&t, &row[r], v[r][i]);
                        }
                        if (unit == K_WIDTH) {
                                N(write)(&row[r].writer, row[r].y, v[r], V_SCAN_TILE);
                        } else {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_TILE; i++)
                                        N(store_part)(row[r].y + i * step * K_SIZE, v[r][i], 0, unit);
                        }
                        row[r].y += V_SCAN_TILE * step * K_SIZE;
                }
        }
        /* Fewer vectors than a tile: the same tree, a vector at a time, with a counter inside the tile. */
        for (int r = 0; r < many; r++) {
                N(vec) inside[V_SCAN_TILE_LOG + 1];
                N(write_end)(&row[r].writer, row[r].y);
                int64_t left = elements - tiles * V_SCAN_TILE * unit;
                for (int i = 0; left > 0; i++, left -= unit) {
                        int count = left < unit ? (int)left : unit, first = reverse ? unit - count : 0;
                        const char *x = row[r].x + (i * step + first) * K_SIZE;
                        char *y = row[r].y + (i * step + first) * K_SIZE;
                        const uint8_t *m = row[r].m ? row[r].m + i * step + first : NULL;
                        N(vec) v = N(load_masked_part)(x, m, identity, first, count);
                        v = N(lane_scan)(op, v, &t, level_count);
                        int closed = sf_order_closed((uint64_t)i);
                        for (int k = 0; k < closed; k++)
                                v = N(combine)(op, inside[k], v);
                        inside[closed] = N(permute)(v, t.last);
                        for (int k = closed; k < V_SCAN_TILE_LOG; k++)
                                if (i >> k & 1)
                                        v = N(combine)(op, inside[k], v);
                        for (uint64_t bits = tile; bits; bits &= bits - 1)
                                v = N(combine)(op, N(get)(row[r].counter + __builtin_ctzll(bits) * V_BYTES), v);
                        if (carried)
                                N(add_carry)(op, row[r].carry, &v, 1);
                        if (j->exclusive)
                                v = N(shift)(&t, &row[r], v);
                        N(store_part)(y, v, first, count);
                }
                if (j->resume && j->exclusive)
                        N(put)(row[r].carry->fill, row[r].before);
        }
}

/* levels 0: as many as the tables say; such rows, narrow matrices, go one at a time. */
SF_INLINE void N(scan_rows_as)(const sf_rows *j, const sf_op op, const int levels)
{
        int64_t done = 0;
        while (done < j->rows) {
                N(row) row[SF_CPU_GROUP];
                int many = levels && j->rows - done >= SF_CPU_GROUP ? SF_CPU_GROUP : 1;
                for (int r = 0; r < many; r++) {
                        int64_t at = done + r;
                        /* A resumed call has few rows, each with a counter of its own. */
                        int slot = j->resume ? (int)at : r;
                        row[r].x = j->x + at * j->x_row;
                        row[r].y = j->y + at * j->y_row;
                        row[r].m = j->m ? j->m + at * j->m_row : NULL;
                        row[r].counter = j->counters + slot * SF_ORDER_LEVELS * V_BYTES;
                        row[r].carry = j->carry ? j->carry + at * j->carry_row : NULL;
                }
                if (levels && many == SF_CPU_GROUP)
                        N(scan_group)(j, op, SF_CPU_GROUP, levels, row);
                else
                        N(scan_group)(j, op, 1, levels, row);
                done += many;
        }
        if (j->stream)
                v_fence();
}

SF_INLINE void N(scan_rows)(const sf_rows *j, const sf_op op)
{
        /* Sums are what nearly everyone asks for; the others make do with the general instance, and the library stays small. */
        if (op == SF_SUM && j->lanes->levels == K_LOG_WIDTH && j->lanes->unit == K_WIDTH)
                N(scan_rows_as)(j, op, K_LOG_WIDTH);
        else
                N(scan_rows_as)(j, op, 0);
}

/* ------------------------------------------------------------------------------------------------------------
 * Packed short rows: the whole of `rows` x n x inner elements is one run of memory, whole sequences to a vector.
 * ---------------------------------------------------------------------------------------------------------- */
SF_INLINE void N(scan_packed)(const sf_rows *j, const sf_op op)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const N(vec) identity = N(broadcast)(j->identity);
        const N(vec) fill = j->exclusive ? N(get)(j->carry->fill) : identity;
        const int unit = j->lanes->unit;
        const int64_t elements = j->rows * j->n * j->lanes->inner;
        /* Rows in reverse still lie in memory one after another: the run starts where the first row's last element is. */
        const int64_t offset = j->lanes->reverse ? -(j->n - 1) * j->lanes->inner : 0;
        const char *x = j->x + offset * K_SIZE;
        char *y = j->y + offset * K_SIZE;
        const uint8_t *m = j->m ? j->m + offset : NULL;
        N(writer) writer = N(writer_start)(y, j->stream && unit == K_WIDTH, false);
        int64_t at = 0;
        for (; at < elements; at += unit) {
                bool whole = elements - at >= K_WIDTH;
                int count = elements - at < unit ? (int)(elements - at) : unit;
                N(vec) v = whole ? N(load_masked)(x + at * K_SIZE, m ? m + at : NULL, identity)
                                 : N(load_masked_part)(x + at * K_SIZE, m ? m + at : NULL, identity, 0, count);
                v = N(lane_scan)(op, v, &t, t.levels);
                if (j->carry)
                        N(add_carry)(op, j->carry, &v, 1);
                if (j->exclusive)
                        v = N(blend)(t.before_on, N(permute)(v, t.before), fill);
                if (count == K_WIDTH) {
                        N(write)(&writer, y + at * K_SIZE, &v, 1);
                } else {
                        N(write_end)(&writer, y + at * K_SIZE);
                        writer.first = true;
                        N(store_part)(y + at * K_SIZE, v, 0, count);
                }
        }
        N(write_end)(&writer, y + at * K_SIZE);
        if (j->stream)
                v_fence();
}

/* ------------------------------------------------------------------------------------------------------------
 * Columns: tiles of V_SCAN_ROWS positions, every column a lane of its own. The counter's entries are as wide as the strip.
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct N(strip) {
        const char *x;
        char *y;
        const uint8_t *m;
        int rows;         /* positions here; fewer than V_SCAN_ROWS only at the end */
        int closed;       /* entries before this one complete a block */
        int entries;
        const char *entry[2 * SF_ORDER_LEVELS]; /* what is added on the left, in turn: the counter's, then the carry's */
} N(strip);

SF_INLINE void N(scan_strip)(const sf_columns *j, const sf_op op, const N(strip) *s, N(vec) identity, const int whole)
{
        const int rows = whole ? V_SCAN_ROWS : s->rows;
        N(writer) writer[V_SCAN_ROWS];
        char *fill = j->exclusive ? j->carry->fill : NULL;
        V_UNROLL
        for (int i = 0; i < V_SCAN_ROWS; i++)
                writer[i] = N(writer_start)(s->y + i * j->y_step, j->stream, false);
        char *close = j->counters + s->closed * j->counter_stride;
        int64_t c = 0;
        for (; c < j->cols; c += K_WIDTH) {
                int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                N(vec) v[V_SCAN_ROWS];
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++) {
                        const char *x = s->x + i * j->x_step + c * K_SIZE;
                        const uint8_t *m = s->m ? s->m + i * j->m_step + c : NULL;
                        if (i >= rows)
                                v[i] = identity; /* beyond the end: to the right of all that is stored */
                        else if (count == K_WIDTH)
                                v[i] = N(load_masked)(x, m, identity);
                        else
                                v[i] = N(load_masked_part)(x, m, identity, 0, count);
                }
                V_UNROLL
                for (int size = 1; size < V_SCAN_ROWS; size *= 2) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_ROWS; i++)
                                if (i & size)
                                        v[i] = N(combine)(op, v[(i & -size) - 1], v[i]);
                }
                /* Scratch rows are padded to whole vectors. */
                for (int e = 0; e < s->closed; e++) {
                        N(vec) entry = N(get)(s->entry[e] + c * K_LANE_BYTES);
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_ROWS; i++)
                                v[i] = N(combine)(op, entry, v[i]);
                }
                N(put)(close + c * K_LANE_BYTES, v[V_SCAN_ROWS - 1]);
                for (int e = s->closed; e < s->entries; e++) {
                        N(vec) entry = N(get)(s->entry[e] + c * K_LANE_BYTES);
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_ROWS; i++)
                                v[i] = N(combine)(op, entry, v[i]);
                }
                if (fill) {
                        N(vec) before = N(get)(fill + c * K_LANE_BYTES);
                        N(put)(fill + c * K_LANE_BYTES, v[rows - 1]);
                        V_UNROLL
                        for (int i = V_SCAN_ROWS - 1; i > 0; i--)
                                v[i] = v[i - 1];
                        v[0] = before;
                }
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++) {
                        char *y = s->y + i * j->y_step + c * K_SIZE;
                        if (i >= rows)
                                continue;
                        if (count == K_WIDTH) {
                                N(write)(&writer[i], y, &v[i], 1);
                        } else {
                                N(write_end)(&writer[i], y);
                                writer[i].first = true;
                                N(store_part)(y, v[i], 0, count);
                        }
                }
        }
        V_UNROLL
        for (int i = 0; i < V_SCAN_ROWS; i++)
                if (i < rows)
                        N(write_end)(&writer[i], s->y + i * j->y_step + c * K_SIZE);
}

SF_INLINE void N(scan_columns)(const sf_columns *j, const sf_op op)
{
        const N(vec) identity = N(broadcast)(j->identity);
        N(strip) s = {.x = j->x, .y = j->y, .m = j->m};
        uint64_t tile = (uint64_t)(j->start / V_SCAN_ROWS);
        for (int64_t done = 0; done < j->n; done += V_SCAN_ROWS, tile++) {
                s.rows = j->n - done < V_SCAN_ROWS ? (int)(j->n - done) : V_SCAN_ROWS;
                s.closed = sf_order_closed(tile);
                s.entries = 0;
                for (uint64_t bits = tile; bits; bits &= bits - 1)
                        s.entry[s.entries++] = j->counters + __builtin_ctzll(bits) * j->counter_stride;
                for (int e = 0; j->carry && e < j->carry->count; e++)
                        s.entry[s.entries++] = j->carry->entries + e * j->carry->entry_stride;
                if (s.rows == V_SCAN_ROWS)
                        N(scan_strip)(j, op, &s, identity, 1);
                else
                        N(scan_strip)(j, op, &s, identity, 0);
                s.x += V_SCAN_ROWS * j->x_step;
                s.y += V_SCAN_ROWS * j->y_step;
                s.m = s.m ? s.m + V_SCAN_ROWS * j->m_step : NULL;
        }
        if (j->stream)
                v_fence();
}
