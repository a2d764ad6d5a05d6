/*
 * scan_columns.inc.h: the scan of columns, once for all instruction sets and types. Template; kernels.inc.h has the parameters.
 *
 * Tiles of V_SCAN_ROWS positions, every column a lane of its own. The counter's entries are as wide as the strip.
 */
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
