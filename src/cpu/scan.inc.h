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
        const sf_carry *carry;
        N(vec) before; /* exclusive: the value to the left of the next vector, in every lane */
        N(writer) writer;
} N(row);

/* Adds an entry of every row's counter to the left of all its vectors. */
SF_INLINE void N(add_entry)(const sf_op op, const char *counters, const int many, N(vec) (*v)[V_SCAN_TILE], int level)
{
        V_UNROLL
        for (int r = 0; r < many; r++) {
                N(vec) entry = N(get)(counters + (r * SF_ORDER_LEVELS + level) * V_BYTES);
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

/* Where a group of rows stands. */
typedef struct N(place) {
        const char *x;
        char *y;
        const uint8_t *m;
        char *counters;
        uint64_t tile;
} N(place);

/* Fewer vectors than a tile, `left` elements: the same tree, a vector at a time, with a counter inside the tile. */
SF_INLINE void N(scan_over)(const sf_rows *j, const sf_op op, const N(tables) *t, const int levels, N(row) *row, N(place) p, int64_t left,
                            N(vec) identity)
{
        const bool reverse = j->lanes->reverse;
        const int unit = levels ? K_WIDTH : j->lanes->unit;
        const int64_t step = reverse ? -unit : unit;
        N(vec) inside[V_SCAN_TILE_LOG + 1];
        for (int i = 0; left > 0; i++, left -= unit) {
                int count = left < unit ? (int)left : unit, first = reverse ? unit - count : 0;
                N(vec) v = count == K_WIDTH ? N(load_masked)(p.x, p.m, identity)
                                            : N(load_masked_part)(p.x + first * K_SIZE, p.m ? p.m + first : NULL, identity, first, count);
                v = N(lane_scan)(op, v, t, levels ? levels : t->levels);
                int closed = sf_order_closed((uint64_t)i);
                for (int k = 0; k < closed; k++)
                        v = N(combine)(op, inside[k], v);
                inside[closed] = N(permute)(v, t->last);
                for (int k = closed; k < V_SCAN_TILE_LOG; k++)
                        if (i >> k & 1)
                                v = N(combine)(op, inside[k], v);
                for (uint64_t bits = p.tile; bits; bits &= bits - 1)
                        v = N(combine)(op, N(get)(p.counters + __builtin_ctzll(bits) * V_BYTES), v);
                if (row->carry)
                        N(add_carry)(op, row->carry, &v, 1);
                if (j->exclusive)
                        v = N(shift)(t, row, v);
                if (count == K_WIDTH)
                        N(store)(p.y, v);
                else
                        N(store_part)(p.y + first * K_SIZE, v, first, count);
                p.x += step * K_SIZE;
                p.y += step * K_SIZE;
                p.m = p.m ? p.m + step : NULL;
        }
}

/* The scan of a tile of one row: lanes, then vectors. */
SF_INLINE void N(scan_tile)(const sf_op op, const N(tables) *t, int levels, N(vec) *v)
{
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++)
                v[i] = N(lane_scan)(op, v[i], t, levels);
        V_UNROLL
        for (int size = 1; size < V_SCAN_TILE; size *= 2) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        if (i & size)
                                v[i] = N(combine)(op, N(permute)(v[(i & -size) - 1], t->last), v[i]);
        }
}

/* Everything to the left of tile number `tile` is added, lowest level first, and the block that it closes is counted. */
SF_INLINE void N(count_tile)(const sf_op op, const N(tables) *t, char *counters, uint64_t tile, const int many, N(vec) (*v)[V_SCAN_TILE])
{
        int closed = sf_order_closed(tile);
        for (int k = 0; k < closed; k++)
                N(add_entry)(op, counters, many, v, k);
        V_UNROLL
        for (int r = 0; r < many; r++)
                N(put)(counters + (r * SF_ORDER_LEVELS + closed) * V_BYTES, N(permute)(v[r][V_SCAN_TILE - 1], t->last));
        for (uint64_t bits = tile >> closed << closed; bits; bits &= bits - 1)
                N(add_entry)(op, counters, many, v, __builtin_ctzll(bits));
}

SF_INLINE N(place) N(place_of)(const sf_rows *j, int unit, int64_t at)
{
        const int inner = j->lanes->inner;
        /* A vector's address is that of its lowest lane, which in reverse is its last position. */
        const int64_t offset = j->lanes->reverse ? -(int64_t)(unit - inner) : 0;
        return (N(place)){.x = j->x + at * j->x_row + offset * K_SIZE,
                          .y = j->y + at * j->y_row + offset * (j->raw ? K_LANE_BYTES : K_SIZE),
                          .m = j->m ? j->m + at * j->m_row + offset : NULL,
                          /* A call that resumes or will be resumed has few rows, each with a counter of its own. */
                          .counters = j->counters + (j->resume || j->start ? at * SF_ORDER_LEVELS * V_BYTES : 0),
                          .tile = j->start ? (uint64_t)(j->start * inner / (V_SCAN_TILE * unit)) : 0};
}

/*
 * What nearly every call is: whole vectors, inclusive, nothing to the left but the counter, results that are stored as they are or
 * streamed to aligned addresses. Apart from the general group below because what that has to keep in registers costs this one a
 * third of its speed.
 */
SF_INLINE void N(plain_tile)(const sf_rows *j, const sf_op op, const N(tables) *t, const int many, const bool masked, N(place) *p,
                             N(vec) identity)
{
        const bool raw = K_CONVERT != K_SAME && j->raw;
        const int64_t step = j->lanes->reverse ? -K_WIDTH : K_WIDTH, x_step = step * K_SIZE, y_step = step * (raw ? K_LANE_BYTES : K_SIZE);
        N(vec) v[SF_CPU_GROUP][V_SCAN_TILE];
        V_UNROLL
        for (int r = 0; r < many; r++) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++) {
                        const char *x = p->x + r * j->x_row + i * x_step;
                        __builtin_prefetch(x + j->ahead);
                        v[r][i] = N(load_masked)(x, masked ? p->m + r * j->m_row + i * step : NULL, identity);
                }
                N(scan_tile)(op, t, K_LOG_WIDTH, v[r]);
        }
        N(count_tile)(op, t, p->counters, p->tile, many, v);
        V_UNROLL
        for (int r = 0; r < many; r++) {
                char *y = p->y + r * j->y_row;
                if (raw) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                N(put)(y + i * y_step, v[r][i]);
                } else if (j->stream) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                N(stream)(y + i * y_step, v[r][i]);
                } else {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                N(store)(y + i * y_step, v[r][i]);
                }
        }
        p->tile++;
        p->x += V_SCAN_TILE * x_step;
        p->y += V_SCAN_TILE * y_step;
        p->m = masked ? p->m + V_SCAN_TILE * step : NULL;
}

/* Returns with the place moved past the whole tiles. */
SF_INLINE void N(scan_plain)(const sf_rows *job, const sf_op op, const int many, const bool masked, N(place) *place)
{
        const sf_rows j = *job; /* a copy that no store can change */
        const N(tables) t = N(tables_of)(j.lanes);
        const N(vec) identity = N(broadcast)(j.identity);
        N(place) p = *place;
        for (int64_t left = j.n * j.lanes->inner / (V_SCAN_TILE * K_WIDTH); left > 0; left--)
                N(plain_tile)(&j, op, &t, many, masked, &p, identity);
        *place = p;
}

/* Sums are what nearly everyone asks for; only they have these instances, each a function with all registers to itself. */
static V_APART void N(sum_plain)(const sf_rows *j, N(place) *p)
{
        N(scan_plain)(j, SF_SUM, SF_CPU_GROUP, false, p);
}
static V_APART void N(sum_plain_masked)(const sf_rows *j, N(place) *p)
{
        N(scan_plain)(j, SF_SUM, SF_CPU_GROUP, true, p);
}
static V_APART void N(sum_plain_one)(const sf_rows *j, N(place) *p)
{
        if (p->m)
                N(scan_plain)(j, SF_SUM, 1, true, p);
        else
                N(scan_plain)(j, SF_SUM, 1, false, p);
}

/* levels 0: as many as the tables say, and vectors that may not be full. */
SF_INLINE void N(scan_general)(const sf_rows *j, const sf_op op, const N(tables) *tables, const int many, const int levels, N(place) *place,
                               N(row) *row, N(vec) identity)
{
        const N(tables) t = *tables;
        const int unit = levels ? K_WIDTH : j->lanes->unit;
        const int64_t tiles = j->n * j->lanes->inner / (V_SCAN_TILE * unit), step = j->lanes->reverse ? -unit : unit;
        const int64_t x_row = j->x_row, y_row = j->y_row, m_row = j->m_row;
        const bool exclusive = j->exclusive, stream = j->stream && unit == K_WIDTH;
        N(place) p = *place;
        for (int64_t done = 0; done < tiles; done++, p.tile++) {
                N(vec) v[SF_CPU_GROUP][V_SCAN_TILE];
                V_UNROLL
                for (int r = 0; r < many; r++) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++) {
                                __builtin_prefetch(p.x + r * x_row + i * step * K_SIZE + j->ahead);
                                v[r][i] = N(load_unit)(p.x + r * x_row + i * step * K_SIZE, p.m ? p.m + r * m_row + i * step : NULL, identity,
                                                       unit);
                        }
                        N(scan_tile)(op, &t, levels ? levels : t.levels, v[r]);
                }
                N(count_tile)(op, &t, p.counters, p.tile, many, v);
                V_UNROLL
                for (int r = 0; r < many; r++) {
                        char *y = p.y + r * y_row;
                        if (row[r].carry)
                                N(add_carry)(op, row[r].carry, v[r], V_SCAN_TILE);
                        if (exclusive) {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_TILE; i++)
                                        v[r][i] = N(shift)(&t, &row[r], v[r][i]);
                        }
                        if (stream) {
                                N(write)(&row[r].writer, y, v[r], V_SCAN_TILE);
                        } else {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_TILE; i++)
                                        N(store_unit)(y + i * step * K_SIZE, v[r][i], unit);
                        }
                }
                p.x += V_SCAN_TILE * step * K_SIZE;
                p.y += V_SCAN_TILE * step * K_SIZE;
                p.m = p.m ? p.m + V_SCAN_TILE * step : NULL;
        }
        *place = p;
}

SF_INLINE void N(scan_group)(const sf_rows *j, const sf_op op, const N(tables) *t, const int many, const int levels, int64_t at,
                             N(vec) identity)
{
        const int unit = levels ? K_WIDTH : j->lanes->unit;
        const int64_t left = j->n * j->lanes->inner % (V_SCAN_TILE * unit);
        const bool stream = j->stream && unit == K_WIDTH;
        N(row) row[SF_CPU_GROUP];
        N(place) p = N(place_of)(j, unit, at);
        bool plain = levels && !j->carry && !j->exclusive;
        for (int r = 0; r < many; r++) {
                row[r].carry = j->carry ? j->carry + (at + r) * j->carry_row : NULL;
                row[r].before = j->exclusive ? N(get)(row[r].carry->fill) : identity;
                row[r].writer = N(writer_start)(p.y + r * j->y_row, stream, j->lanes->reverse);
                plain = plain && row[r].writer.stream == stream && (!stream || !row[r].writer.phase);
        }
        if (plain && many == 1)
                N(sum_plain_one)(j, &p);
        else if (plain && p.m)
                N(sum_plain_masked)(j, &p);
        else if (plain)
                N(sum_plain)(j, &p);
        else
                N(scan_general)(j, op, t, many, levels, &p, row, identity);
        for (int r = 0; r < many; r++) {
                if (stream && !plain)
                        N(write_end)(&row[r].writer, p.y);
                if (left)
                        N(scan_over)(j, op, t, levels, &row[r], p, left, identity);
                if (j->resume && j->exclusive)
                        N(put)(row[r].carry->fill, row[r].before);
                p.x += j->x_row;
                p.y += j->y_row;
                p.m = p.m ? p.m + j->m_row : NULL;
                p.counters += SF_ORDER_LEVELS * V_BYTES;
        }
}

/* levels 0: as many as the tables say; such rows go one at a time. */
SF_INLINE void N(scan_rows_as)(const sf_rows *j, const sf_op op, const int levels)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const N(vec) identity = N(broadcast)(j->identity);
        int64_t at = 0;
        if (levels)
                for (; j->rows - at >= SF_CPU_GROUP; at += SF_CPU_GROUP)
                        N(scan_group)(j, op, &t, SF_CPU_GROUP, levels, at, identity);
        for (; at < j->rows; at++)
                N(scan_group)(j, op, &t, 1, levels, at, identity);
        if (j->stream && !j->resume) /* a resumed walk waits for its stores once, at its end */
                v_fence();
}

SF_INLINE void N(scan_rows)(const sf_rows *j, const sf_op op)
{
        /* The others make do with the general instance, and the library stays small. Where there are fewer levels than a vector has
         * (narrow matrices), no lane is on in those above. */
        if (op == SF_SUM && j->lanes->unit == K_WIDTH)
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
                __builtin_prefetch(x + at * K_SIZE + j->ahead);
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
        if (j->stream && !j->resume) /* a resumed walk waits for its stores once, at its end */
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

/* How a strip's rows are written. */
enum N(mode) { N(mode_store), N(mode_stream), N(mode_turn) };

SF_INLINE void N(scan_strip)(const sf_columns *j, const sf_op op, const N(strip) *s, N(vec) identity, const bool whole, const int mode)
{
        const int rows = whole ? V_SCAN_ROWS : s->rows;
        const int64_t cols = j->cols, x_step = j->x_step, y_step = j->y_step, m_step = j->m_step;
        char *fill = j->exclusive ? j->carry->fill : NULL;
        char *close = j->counters + s->closed * j->counter_stride;
        const int64_t wide = K_WIDTH * K_STORAGE_BYTES, whole_cols = cols / K_WIDTH * K_WIDTH;
        N(writer) writer[V_SCAN_ROWS];
        N(vec) half[V_SCAN_ROWS];
        for (int i = 0; i < V_SCAN_ROWS; i++)
                half[i] = identity;
        if (mode == N(mode_turn)) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        writer[i] = N(writer_start)(s->y + i * y_step, true, false);
        }
        int64_t c = 0;
        for (; c < cols; c += K_WIDTH) {
                int count = cols - c < K_WIDTH ? (int)(cols - c) : K_WIDTH;
                N(vec) v[V_SCAN_ROWS];
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++) {
                        const char *x = s->x + i * x_step + c * K_SIZE;
                        const uint8_t *m = s->m ? s->m + i * m_step + c : NULL;
                        if (whole) /* the next tile's, into the second cache */
                                __builtin_prefetch(x + V_SCAN_ROWS * x_step, 0, 2);
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
                        char *y = s->y + i * y_step + c * K_SIZE;
                        if (i >= rows)
                                continue;
                        if (count < K_WIDTH) {
                                if (mode == N(mode_turn))
                                        N(write_end)(&writer[i], y);
                                N(store_part)(y, v[i], 0, count);
                        } else if (mode == N(mode_turn)) {
                                N(write_one_turned)(&writer[i], y, v[i]);
                        } else if (mode == N(mode_stream) && wide == 64) {
                                N(stream)(y, v[i]);
                        } else if (mode == N(mode_stream)) {
                                /* A cache line is written whole or not at all: two results at a time. */
                                if (c % (2 * K_WIDTH)) {
                                        N(stream)(y - wide, half[i]);
                                        N(stream)(y, v[i]);
                                } else if (c + K_WIDTH < whole_cols) {
                                        half[i] = v[i];
                                } else {
                                        N(store)(y, v[i]);
                                }
                        } else {
                                N(store)(y, v[i]);
                        }
                }
        }
        if (mode == N(mode_turn) && cols % K_WIDTH == 0) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        if (i < rows)
                                N(write_end)(&writer[i], s->y + i * y_step + c * K_SIZE);
        }
}

SF_INLINE void N(scan_columns)(const sf_columns *j, const sf_op op)
{
        const N(vec) identity = N(broadcast)(j->identity);
        N(strip) s = {.x = j->x, .y = j->y, .m = j->m};
        uint64_t tile = (uint64_t)(j->start / V_SCAN_ROWS);
        /* Streaming needs rows of whole cache lines, or, for sums, whole elements. */
        const bool aligned = !((uintptr_t)j->y % 64) && !(j->y_step % 64) && (K_WIDTH * K_STORAGE_BYTES == 64 || K_WIDTH * K_STORAGE_BYTES == 32);
        const bool turnable = K_CONVERT == K_SAME && !((uintptr_t)j->y % K_STORAGE_BYTES) && !(j->y_step % K_STORAGE_BYTES);
        for (int64_t done = 0; done < j->n; done += V_SCAN_ROWS, tile++) {
                s.rows = j->n - done < V_SCAN_ROWS ? (int)(j->n - done) : V_SCAN_ROWS;
                s.closed = sf_order_closed(tile);
                s.entries = 0;
                for (uint64_t bits = tile; bits; bits &= bits - 1)
                        s.entry[s.entries++] = j->counters + __builtin_ctzll(bits) * j->counter_stride;
                for (int e = 0; j->carry && e < j->carry->count; e++)
                        s.entry[s.entries++] = j->carry->entries + e * j->carry->entry_stride;
                if (s.rows < V_SCAN_ROWS)
                        N(scan_strip)(j, op, &s, identity, false, N(mode_store));
                else if (j->stream && aligned)
                        N(scan_strip)(j, op, &s, identity, true, N(mode_stream));
                else if (j->stream && turnable && op == SF_SUM)
                        N(scan_strip)(j, op, &s, identity, true, N(mode_turn));
                else
                        N(scan_strip)(j, op, &s, identity, true, N(mode_store));
                s.x += V_SCAN_ROWS * j->x_step;
                s.y += V_SCAN_ROWS * j->y_step;
                s.m = s.m ? s.m + V_SCAN_ROWS * j->m_step : NULL;
        }
        if (j->stream && !j->resume) /* a resumed walk waits for its stores once, at its end */
                v_fence();
}
