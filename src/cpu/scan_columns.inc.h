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
        int stored;       /* results that are: with `late`, the last one of all has no place */
        int closed;       /* entries before this one complete a block */
        int entries;
        const char *const *entry; /* what is added on the left, in turn: the counter's, then the carry's */
        char *close;      /* the entry that the block becomes */
        char *fill;       /* exclusive: the row before this one, unless results are stored a row late */
} N(strip);

/* How a strip's rows are written. */
enum N(mode) { N(mode_store), N(mode_stream), N(mode_turn) };

/* Inclusive results become exclusive ones. */
SF_INLINE void N(shift_cells)(const N(strip) *s, const int rows, int64_t c, N(vec) *v)
{
        N(vec) before = N(get)(s->fill + c * K_LANE_BYTES);
        N(put)(s->fill + c * K_LANE_BYTES, v[rows - 1]);
        V_UNROLL
        for (int i = V_SCAN_ROWS - 1; i > 0; i--)
                v[i] = v[i - 1];
        v[0] = before;
}

/* The scan of a tile's positions. */
SF_INLINE void N(scan_positions)(const sf_op op, N(vec) *v)
{
        V_UNROLL
        for (int size = 1; size < V_SCAN_ROWS; size *= 2) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        if (i & size)
                                v[i] = N(combine)(op, v[(i & -size) - 1], v[i]);
        }
}

/* Max and min need no tree (scan.inc.h): all that is to the left, then one position after the other. */
SF_INLINE void N(extreme_cells)(const sf_op op, const N(strip) *s, int64_t c, N(vec) *v)
{
        for (int e = 0; e < s->entries; e++)
                v[0] = N(combine)(op, N(get)(s->entry[e] + c * K_LANE_BYTES), v[0]);
        V_UNROLL
        for (int i = 1; i < V_SCAN_ROWS; i++)
                v[i] = N(combine)(op, v[i - 1], v[i]);
        N(put)(s->close + c * K_LANE_BYTES, v[V_SCAN_ROWS - 1]);
}

/* The scan of one vector of columns, from elements to results. */
SF_INLINE void N(scan_cells)(const sf_op op, const N(strip) *s, const int rows, int64_t c, N(vec) *v)
{
        if (op == SF_MAX || op == SF_MIN) {
                N(extreme_cells)(op, s, c, v);
                if (s->fill)
                        N(shift_cells)(s, rows, c, v);
                return;
        }
        N(scan_positions)(op, v);
        /* Scratch rows are padded to whole vectors. */
        for (int e = 0; e < s->closed; e++) {
                N(vec) entry = N(get)(s->entry[e] + c * K_LANE_BYTES);
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        v[i] = N(combine)(op, entry, v[i]);
        }
        N(put)(s->close + c * K_LANE_BYTES, v[V_SCAN_ROWS - 1]);
        for (int e = s->closed; e < s->entries; e++) {
                N(vec) entry = N(get)(s->entry[e] + c * K_LANE_BYTES);
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        v[i] = N(combine)(op, entry, v[i]);
        }
        if (s->fill)
                N(shift_cells)(s, rows, c, v);
}

/* `many` vectors side by side, from column c on. */
SF_INLINE void N(scan_beside)(const sf_columns *j, const sf_op op, const N(strip) *s, N(vec) identity, const bool masked, const int mode, const int many,
                              int64_t c, N(writer) *writer, N(vec) *half)
{
        const int64_t x_step = j->x_step, y_step = j->y_step, m_step = j->m_step, wide = K_WIDTH * K_STORAGE_BYTES;
        const char *x = s->x + c * K_SIZE;
        const uint8_t *m = masked ? s->m + c : NULL;
        char *y = s->y + c * K_SIZE;
        N(vec) v[2][V_SCAN_ROWS];
        V_UNROLL
        for (int i = 0; i < V_SCAN_ROWS; i++, x += x_step) {
                V_UNROLL
                for (int k = 0; k < many; k++)
                        v[k][i] = N(load_masked)(x + k * wide, masked ? m + k * K_WIDTH : NULL, identity);
                if (masked)
                        m += m_step;
        }
        V_UNROLL
        for (int k = 0; k < many; k++)
                N(scan_cells)(op, s, V_SCAN_ROWS, c + k * K_WIDTH, v[k]);
        V_UNROLL
        for (int i = 0; i < V_SCAN_ROWS; i++, y += y_step) {
                V_UNROLL
                for (int k = 0; k < many; k++) {
                        if (mode == N(mode_turn)) {
                                N(write_one_turned)(&writer[i], y + k * wide, v[k][i]);
                        } else if (mode == N(mode_stream) && wide == 64) {
                                N(stream)(y + k * wide, v[k][i]);
                        } else if (mode == N(mode_stream)) {
                                /* A cache line is written whole or not at all: two results at a time. */
                                if (c % (2 * K_WIDTH)) {
                                        N(stream)(y - wide, half[i]);
                                        N(stream)(y, v[k][i]);
                                } else if (c + 2 * K_WIDTH <= j->cols) { /* there is another */
                                        half[i] = v[k][i];
                                } else {
                                        N(store)(y, v[k][i]);
                                }
                        } else {
                                N(store)(y + k * wide, v[k][i]);
                        }
                }
        }
}

/* A whole tile's whole vectors. What is not whole is somebody else's: it would take the registers of this loop. */
SF_INLINE void N(scan_strip)(const sf_columns *job, const sf_op op, const N(strip) *strip, N(vec) identity, const bool masked, const int mode)
{
        const sf_columns j = *job; /* copies that no store can change */
        const N(strip) s = *strip;
        const int64_t cols = j.cols / K_WIDTH * K_WIDTH;
        /* Memory likes two lines of a row better than one each of two rows. */
        const int many = op == SF_SUM && V_BYTES == 64 && K_CONVERT == K_SAME && mode == N(mode_stream) ? 2 : 1;
        N(writer) writer[V_SCAN_ROWS];
        N(vec) half[V_SCAN_ROWS];
        for (int i = 0; i < V_SCAN_ROWS; i++)
                half[i] = identity;
        if (mode == N(mode_turn)) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        writer[i] = N(writer_start)(s.y + i * j.y_step, true, false);
        }
        int64_t c = 0;
        for (; c <= cols - many * K_WIDTH; c += many * K_WIDTH)
                N(scan_beside)(&j, op, &s, identity, masked, mode, many, c, writer, half);
        if (c < cols)
                N(scan_beside)(&j, op, &s, identity, masked, mode, 1, c, writer, half);
        if (mode == N(mode_turn)) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        N(write_end)(&writer[i], s.y + i * j.y_step + cols * K_SIZE);
        }
}

/* What that leaves: the columns from c on, and a last tile that is not full. */
SF_INLINE void N(scan_rest)(const sf_columns *j, const sf_op op, const N(strip) *s, N(vec) identity, const bool whole, int64_t c)
{
        const int rows = whole ? V_SCAN_ROWS : s->rows, stored = whole ? V_SCAN_ROWS : s->stored;
        for (; c < j->cols; c += K_WIDTH) {
                const int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                N(vec) v[V_SCAN_ROWS];
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++) {
                        v[i] = identity; /* beyond the end: to the right of all that is stored */
                        if (i < rows)
                                v[i] = N(load_masked_part)(s->x + i * j->x_step + c * K_SIZE, s->m ? s->m + i * j->m_step + c : NULL, identity, 0, count);
                }
                N(scan_cells)(op, s, rows, c, v);
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        if (i < stored)
                                N(store_part)(s->y + i * j->y_step + c * K_SIZE, v[i], 0, count);
        }
}

/*
 * Four whole tiles of columns so few that what has to be found out for a tile takes longer than the tile: the counter is asked once, above the
 * two levels between them. s->closed and s->entries are the block's. No mask.
 */
SF_INLINE void N(sum_four)(const sf_columns *j, const N(strip) *s, const bool stream)
{
        for (int64_t c = 0; c < j->cols; c += K_WIDTH) {
                const int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                const char *x = s->x + c * K_SIZE;
                char *y = s->y + c * K_SIZE;
                N(vec) one = {0}, two = {0}; /* the last tile's total where it is a left one, and that of the first two */
                for (int k = 0; k < 4; k++) {
                        N(vec) v[V_SCAN_ROWS];
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_ROWS; i++, x += j->x_step)
                                v[i] = count == K_WIDTH ? N(load)(x) : N(load_part)(x, 0, count);
                        N(scan_positions)(SF_SUM, v);
                        if (k & 1) {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_ROWS; i++)
                                        v[i] = N(combine)(SF_SUM, one, v[i]);
                        }
                        one = v[V_SCAN_ROWS - 1];
                        if (k & 2) {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_ROWS; i++)
                                        v[i] = N(combine)(SF_SUM, two, v[i]);
                        }
                        if (k == 1)
                                two = one;
                        for (int e = 0; e < s->entries; e++) {
                                if (k == 3 && e == s->closed)
                                        N(put)(s->close + c * K_LANE_BYTES, v[V_SCAN_ROWS - 1]);
                                N(vec) entry = N(get)(s->entry[e] + c * K_LANE_BYTES);
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_ROWS; i++)
                                        v[i] = N(combine)(SF_SUM, entry, v[i]);
                        }
                        if (k == 3 && s->closed == s->entries)
                                N(put)(s->close + c * K_LANE_BYTES, v[V_SCAN_ROWS - 1]);
                        if (s->fill)
                                N(shift_cells)(s, V_SCAN_ROWS, c, v);
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_ROWS; i++, y += j->y_step) {
                                if (stream)
                                        N(stream)(y, v[i]);
                                else if (count == K_WIDTH)
                                        N(store)(y, v[i]);
                                else
                                        N(store_part)(y, v[i], 0, count);
                        }
                }
        }
}
static V_APART void N(sum_four_stored)(const sf_columns *j, const N(strip) *s)
{
        N(sum_four)(j, s, false);
}
static V_APART void N(sum_four_streamed)(const sf_columns *j, const N(strip) *s)
{
        N(sum_four)(j, s, true);
}

SF_INLINE void N(scan_tile_rows)(const sf_columns *j, const sf_op op, const N(strip) *s, N(vec) identity, const int mode)
{
        if (s->m)
                N(scan_strip)(j, op, s, identity, true, mode);
        else
                N(scan_strip)(j, op, s, identity, false, mode);
}

SF_INLINE void N(scan_columns)(const sf_columns *j, const sf_op op)
{
        const N(vec) identity = N(broadcast)(j->identity);
        /* Results that are not written where elements are yet to be read may be stored a row late, and an exclusive scan needs no other shift. A last
         * tile is not streamed then: there should be many. */
        const bool late = j->exclusive && j->stream && !j->resume && j->n >= 8 * V_SCAN_ROWS;
        const char *entry[2 * SF_ORDER_LEVELS];
        N(strip) s = {.x = j->x, .y = late ? j->y + j->y_step : j->y, .m = j->m, .entry = entry,
                      .fill = j->exclusive && !late ? j->carry->fill : NULL};
        uint64_t tile = (uint64_t)(j->start / V_SCAN_ROWS);
        /* Streaming needs rows of whole cache lines, or, for sums, whole elements. */
        const bool aligned = !((uintptr_t)j->y % 64) && !(j->y_step % 64) && (K_WIDTH * K_STORAGE_BYTES == 64 || K_WIDTH * K_STORAGE_BYTES == 32);
        const bool turnable = K_CONVERT == K_SAME && !((uintptr_t)j->y % K_STORAGE_BYTES) && !(j->y_step % K_STORAGE_BYTES);
        const bool extreme = op == SF_MAX || op == SF_MIN;
        const bool few = op == SF_SUM && j->cols <= 4 * K_WIDTH && !j->m &&
                         (!j->stream || (!late && aligned && j->cols % K_WIDTH == 0 && K_WIDTH * K_STORAGE_BYTES == 64));
        if (late)
                N(narrow)(j->y, j->carry->fill, j->cols);
        for (int64_t done = 0; done < j->n; done += V_SCAN_ROWS, tile++) {
                const int64_t left = j->n - done;
                const bool four = few && left >= 4 * V_SCAN_ROWS && tile % 4 == 0;
                s.rows = left < V_SCAN_ROWS ? (int)left : V_SCAN_ROWS;
                s.stored = late && left <= V_SCAN_ROWS ? s.rows - 1 : s.rows;
                s.closed = sf_order_closed(four ? tile / 4 : tile);
                s.close = j->counters + (s.closed + (four ? 2 : 0)) * j->counter_stride;
                s.entries = 0;
                /* Of max and min, what the last tile closed is all there was before this one, with the carry. */
                for (uint64_t bits = extreme ? tile & -tile : tile; bits; bits &= bits - 1)
                        entry[s.entries++] = j->counters + __builtin_ctzll(bits) * j->counter_stride;
                for (int e = 0; j->carry && e < j->carry->count && !(extreme && done); e++)
                        entry[s.entries++] = j->carry->entries + e * j->carry->entry_stride;
                if (four) {
                        (j->stream ? N(sum_four_streamed) : N(sum_four_stored))(j, &s);
                        s.x += 3 * V_SCAN_ROWS * j->x_step; /* the fourth below */
                        s.y += 3 * V_SCAN_ROWS * j->y_step;
                        done += 3 * V_SCAN_ROWS;
                        tile += 3;
                } else if (s.stored < V_SCAN_ROWS) {
                        N(scan_rest)(j, op, &s, identity, false, 0);
                } else {
                        if (j->stream && aligned)
                                N(scan_tile_rows)(j, op, &s, identity, N(mode_stream));
                        else if (j->stream && turnable && op == SF_SUM)
                                N(scan_tile_rows)(j, op, &s, identity, N(mode_turn));
                        else
                                N(scan_tile_rows)(j, op, &s, identity, N(mode_store));
                        N(scan_rest)(j, op, &s, identity, true, j->cols / K_WIDTH * K_WIDTH);
                }
                s.x += V_SCAN_ROWS * j->x_step;
                s.y += V_SCAN_ROWS * j->y_step;
                s.m = s.m ? s.m + V_SCAN_ROWS * j->m_step : NULL;
        }
        if (j->stream && !j->resume) /* a resumed walk waits for its stores once, at its end */
                v_fence();
}
