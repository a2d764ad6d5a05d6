/*
 * scan_columns.inc.h: the scan of columns. Template; kernels.inc.h has the parameters.
 *
 * Tiles of V_SCAN_ROWS positions, every column a lane of its own. The counter's entries are as wide as the strip. Ordered: an entry a level. Free:
 * what the last tile closed is all there is to the left, the carry too.
 */
typedef struct O(strip) {
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
} O(strip);

/* How a strip's rows are written. */
enum O(mode) { O(mode_store), O(mode_stream), O(mode_turn) };

/* Inclusive results become exclusive ones. */
SF_INLINE void O(shift_cells)(const O(strip) *s, const int rows, int64_t c, N(vec) *result)
{
        N(vec) before = O(get_fill)(s->fill + c * K_EACH);
        O(put_fill)(s->fill + c * K_EACH, result[rows - 1]);
        V_UNROLL
        for (int i = V_SCAN_ROWS - 1; i > 0; i--)
                result[i] = result[i - 1];
        result[0] = before;
}

/* The scan of a tile's positions. */
SF_INLINE void O(scan_positions)(O(val) *v)
{
        V_UNROLL
        for (int size = 1; size < V_SCAN_ROWS; size *= 2) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        if (i & size)
                                v[i] = O(combine)(v[(i & -size) - 1], v[i]);
        }
}

/* The scan of one vector of columns, from elements to results. Scratch rows are padded to whole vectors. */
SF_INLINE void O(scan_cells)(const O(strip) *s, const int rows, int64_t c, O(val) *v, N(vec) *result)
{
#ifdef K_ORDERED
        O(scan_positions)(v);
        for (int e = 0; e < s->closed; e++) {
                O(val) entry = O(get)(s->entry[e] + c * K_EACH);
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        v[i] = O(combine)(entry, v[i]);
        }
        O(put)(s->close + c * K_EACH, O(settle)(v[V_SCAN_ROWS - 1]));
        for (int e = s->closed; e < s->entries; e++) {
                O(val) entry = O(get)(s->entry[e] + c * K_EACH);
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        v[i] = O(combine)(entry, v[i]);
        }
#else
        for (int e = 0; e < s->entries; e++)
                v[0] = O(combine)(O(get)(s->entry[e] + c * K_EACH), v[0]);
        V_UNROLL
        for (int i = 1; i < V_SCAN_ROWS; i++)
                v[i] = O(combine)(v[i - 1], v[i]);
        O(put)(s->close + c * K_EACH, O(settle)(v[V_SCAN_ROWS - 1]));
#endif
        V_UNROLL
        for (int i = 0; i < V_SCAN_ROWS; i++)
                result[i] = O(lower)(v[i]);
        if (s->fill)
                O(shift_cells)(s, rows, c, result);
}

/* `many` vectors side by side, from column c on. */
SF_INLINE void O(scan_beside)(const sf_columns *j, const O(strip) *s, O(val) identity, const bool masked, const int mode, const int many, int64_t c,
                              N(writer) *writer, N(vec) *half)
{
        const int64_t x_step = j->x_step, y_step = j->y_step, m_step = j->m_step, wide = K_WIDTH * K_STORAGE_BYTES;
        const char *x = s->x + c * K_SIZE;
        const uint8_t *m = masked ? s->m + c : NULL;
        char *y = s->y + c * K_SIZE;
        O(val) v[2][V_SCAN_ROWS];
        N(vec) result[2][V_SCAN_ROWS] = {{{0}}}; /* gcc cannot see that those in use are set */
        V_UNROLL
        for (int i = 0; i < V_SCAN_ROWS; i++, x += x_step) {
                V_UNROLL
                for (int k = 0; k < many; k++)
                        v[k][i] = O(load)(x + k * wide, masked ? m + k * K_WIDTH : NULL, identity);
                if (masked)
                        m += m_step;
        }
        V_UNROLL
        for (int k = 0; k < many; k++)
                O(scan_cells)(s, V_SCAN_ROWS, c + k * K_WIDTH, v[k], result[k]);
        V_UNROLL
        for (int i = 0; i < V_SCAN_ROWS; i++, y += y_step) {
                V_UNROLL
                for (int k = 0; k < many; k++) {
                        if (mode == O(mode_turn)) {
                                N(write_one_turned)(&writer[i], y + k * wide, result[k][i]);
                        } else if (mode == O(mode_stream) && wide == 64) {
                                N(stream)(y + k * wide, result[k][i]);
                        } else if (mode == O(mode_stream)) {
                                /* A cache line is written whole or not at all: two results at a time. */
                                if (c % (2 * K_WIDTH)) {
                                        N(stream)(y - wide, half[i]);
                                        N(stream)(y, result[k][i]);
                                } else if (c + 2 * K_WIDTH <= j->cols) { /* there is another */
                                        half[i] = result[k][i];
                                } else {
                                        N(store)(y, result[k][i]);
                                }
                        } else {
                                N(store)(y + k * wide, result[k][i]);
                        }
                }
        }
}

/* A whole tile's whole vectors. The caller handles what is not whole: it would take the registers of this loop. */
SF_INLINE void O(scan_strip)(const sf_columns *job, const O(strip) *strip, O(val) identity, const bool masked, const int mode)
{
        const sf_columns j = *job; /* copies that no store can change */
        const O(strip) s = *strip;
        const int64_t cols = j.cols / K_WIDTH * K_WIDTH;
        /* Memory likes two lines of a row better than one each of two rows. */
#ifdef K_WHOLE
        const int many = V_BYTES == 64 && K_CONVERT == K_SAME && mode == O(mode_stream) ? 2 : 1;
#else
        const int many = 1;
#endif
        N(writer) writer[V_SCAN_ROWS];
        N(vec) half[V_SCAN_ROWS];
        for (int i = 0; i < V_SCAN_ROWS; i++)
                half[i] = O(lower)(identity);
        if (mode == O(mode_turn)) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        writer[i] = N(writer_start)(s.y + i * j.y_step, true, false);
        }
        int64_t c = 0;
        for (; c <= cols - many * K_WIDTH; c += many * K_WIDTH)
                O(scan_beside)(&j, &s, identity, masked, mode, many, c, writer, half);
        if (c < cols)
                O(scan_beside)(&j, &s, identity, masked, mode, 1, c, writer, half);
        if (mode == O(mode_turn)) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        N(write_end)(&writer[i], s.y + i * j.y_step + cols * K_SIZE);
        }
}

/* What that leaves: the columns from c on, and a last tile that is not full. */
SF_INLINE void O(scan_rest)(const sf_columns *j, const O(strip) *s, O(val) identity, const bool whole, int64_t c)
{
        const int rows = whole ? V_SCAN_ROWS : s->rows, stored = whole ? V_SCAN_ROWS : s->stored;
        for (; c < j->cols; c += K_WIDTH) {
                const int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                O(val) v[V_SCAN_ROWS];
                N(vec) result[V_SCAN_ROWS];
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++) {
                        v[i] = identity; /* beyond the end: to the right of all that is stored */
                        if (i < rows)
                                v[i] = O(load_part)(s->x + i * j->x_step + c * K_SIZE, s->m ? s->m + i * j->m_step + c : NULL, identity, 0, count);
                }
                O(scan_cells)(s, rows, c, v, result);
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        if (i < stored)
                                N(store_part)(s->y + i * j->y_step + c * K_SIZE, result[i], 0, count);
        }
}

#if defined(K_WHOLE) && defined(K_ORDERED)
/*
 * Four whole tiles of columns so few that what has to be found out for a tile takes longer than the tile: the counter is asked once, above the
 * two levels between them. s->closed and s->entries are the block's. No mask.
 */
SF_INLINE void O(scan_four)(const sf_columns *j, const O(strip) *s, const bool stream)
{
        const O(val) identity = O(broadcast)(j->identity);
        for (int64_t c = 0; c < j->cols; c += K_WIDTH) {
                const int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                const char *x = s->x + c * K_SIZE;
                char *y = s->y + c * K_SIZE;
                O(val) one = identity, two = identity; /* the last tile's total where it is a left one, and that of the first two */
                for (int k = 0; k < 4; k++) {
                        O(val) v[V_SCAN_ROWS];
                        N(vec) result[V_SCAN_ROWS];
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_ROWS; i++, x += j->x_step)
                                v[i] = O(load_some)(x, NULL, identity, 0, count);
                        O(scan_positions)(v);
                        if (k & 1) {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_ROWS; i++)
                                        v[i] = O(combine)(one, v[i]);
                        }
                        one = v[V_SCAN_ROWS - 1];
                        if (k & 2) {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_ROWS; i++)
                                        v[i] = O(combine)(two, v[i]);
                        }
                        if (k == 1)
                                two = one;
                        for (int e = 0; e < s->entries; e++) {
                                if (k == 3 && e == s->closed)
                                        O(put)(s->close + c * K_EACH, v[V_SCAN_ROWS - 1]);
                                O(val) entry = O(get)(s->entry[e] + c * K_EACH);
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_ROWS; i++)
                                        v[i] = O(combine)(entry, v[i]);
                        }
                        if (k == 3 && s->closed == s->entries)
                                O(put)(s->close + c * K_EACH, v[V_SCAN_ROWS - 1]);
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_ROWS; i++)
                                result[i] = O(lower)(v[i]);
                        if (s->fill)
                                O(shift_cells)(s, V_SCAN_ROWS, c, result);
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_ROWS; i++, y += j->y_step) {
                                if (stream)
                                        N(stream)(y, result[i]);
                                else
                                        N(store_unit)(y, result[i], count);
                        }
                }
        }
}
static V_APART void O(four_stored)(const sf_columns *j, const O(strip) *s)
{
        O(scan_four)(j, s, false);
}
static V_APART void O(four_streamed)(const sf_columns *j, const O(strip) *s)
{
        O(scan_four)(j, s, true);
}

/* Is a block of four tiles worth it? */
SF_INLINE bool O(few)(const sf_columns *j, bool late, bool aligned)
{
        return j->cols <= 4 * K_WIDTH && !j->m && (!j->stream || (!late && aligned && j->cols % K_WIDTH == 0 && K_WIDTH * K_STORAGE_BYTES == 64));
}
#endif

SF_INLINE void O(scan_tile_rows)(const sf_columns *j, const O(strip) *s, O(val) identity, const int mode)
{
        if (s->m)
                O(scan_strip)(j, s, identity, true, mode);
        else
                O(scan_strip)(j, s, identity, false, mode);
}

static void O(scan_columns)(const sf_columns *j)
{
        const O(val) identity = O(broadcast)(j->identity);
        /* Results that are not written where elements are yet to be read may be stored a row late, and an exclusive scan needs no other shift. A last
         * tile is not streamed then: there should be many. */
        const bool late = j->exclusive && j->stream && !j->resume && j->n >= 8 * V_SCAN_ROWS;
        const char *entry[2 * SF_ORDER_LEVELS];
        O(strip) s = {.x = j->x, .y = late ? j->y + j->y_step : j->y, .m = j->m, .entry = entry,
                      .fill = j->exclusive && !late ? j->carry->fill : NULL};
        uint64_t tile = (uint64_t)(j->start / V_SCAN_ROWS);
        /* Streaming needs rows of whole cache lines, or, where all instances are worth it, whole elements. */
        const bool aligned = !((uintptr_t)j->y % 64) && !(j->y_step % 64) && (K_WIDTH * K_STORAGE_BYTES == 64 || K_WIDTH * K_STORAGE_BYTES == 32);
        if (late)
                O(narrow)(j->y, j->carry->fill, j->cols);
        for (int64_t done = 0; done < j->n; done += V_SCAN_ROWS, tile++) {
                const int64_t left = j->n - done;
                bool four = false;
#ifdef K_ORDERED
                uint64_t bits = tile;
                const bool carries = j->carry;
#ifdef K_WHOLE
                four = O(few)(j, late, aligned) && left >= 4 * V_SCAN_ROWS && tile % 4 == 0;
#endif
#else
                uint64_t bits = tile & -tile;
                const bool carries = j->carry && !tile;
#endif
                s.rows = left < V_SCAN_ROWS ? (int)left : V_SCAN_ROWS;
                s.stored = late && left <= V_SCAN_ROWS ? s.rows - 1 : s.rows;
                s.closed = sf_order_closed(four ? tile / 4 : tile);
                s.close = j->counters + (s.closed + (four ? 2 : 0)) * j->counter_stride;
                s.entries = 0;
                for (; bits; bits &= bits - 1)
                        entry[s.entries++] = j->counters + __builtin_ctzll(bits) * j->counter_stride;
                for (int e = 0; carries && e < j->carry->count; e++)
                        entry[s.entries++] = j->carry->entries + e * j->carry->entry_stride;
                if (four) {
#if defined(K_WHOLE) && defined(K_ORDERED)
                        (j->stream ? O(four_streamed) : O(four_stored))(j, &s);
#endif
                        s.x += 3 * V_SCAN_ROWS * j->x_step; /* the fourth below */
                        s.y += 3 * V_SCAN_ROWS * j->y_step;
                        done += 3 * V_SCAN_ROWS;
                        tile += 3;
                } else if (s.stored < V_SCAN_ROWS) {
                        O(scan_rest)(j, &s, identity, false, 0);
                } else {
#ifdef K_WHOLE
                        const bool turnable = K_CONVERT == K_SAME && !((uintptr_t)j->y % K_STORAGE_BYTES) && !(j->y_step % K_STORAGE_BYTES);
#else
                        const bool turnable = false;
#endif
                        if (j->stream && aligned)
                                O(scan_tile_rows)(j, &s, identity, O(mode_stream));
                        else if (j->stream && turnable)
                                O(scan_tile_rows)(j, &s, identity, O(mode_turn));
                        else
                                O(scan_tile_rows)(j, &s, identity, O(mode_store));
                        O(scan_rest)(j, &s, identity, true, j->cols / K_WIDTH * K_WIDTH);
                }
                s.x += V_SCAN_ROWS * j->x_step;
                s.y += V_SCAN_ROWS * j->y_step;
                s.m = s.m ? s.m + V_SCAN_ROWS * j->m_step : NULL;
        }
        if (j->stream && !j->resume) /* a resumed walk waits for its stores once, at its end */
                v_fence();
}
