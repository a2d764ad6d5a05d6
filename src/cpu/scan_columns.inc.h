/*
 * scan_columns.inc.h: the scan of columns. Template; kernels.inc.h has the parameters.
 *
 * Tiles of V_SCAN_ROWS positions; every column has a lane of its own. The entries of the counter
 * are as wide as the strip. Ordered: an entry for each level. Free: the entry that the last tile
 * closed has all that is to the left, including the carry.
 */
typedef struct O(strip) {
        const char *x;
        char *y;
        const uint8_t *m;
        int rows;         /* positions of this tile; fewer than V_SCAN_ROWS only at the end */
        int stored;       /* results to store; with `late`, the very last one is not stored */
        int closed;       /* how many of the first entries complete the block */
        int entries;
        /* what is combined on the left, in turn: the counter's, then the carry's */
        const char *const *entry;
        char *close;      /* where the block's total goes */
        /* exclusive: the results before this tile; NULL if results are stored a row late */
        char *fill;
} O(strip);

/* How a strip's rows are written. */
enum O(mode) { O(mode_store), O(mode_stream), O(mode_turn) };

/* Turns inclusive results into exclusive ones. */
SF_INLINE void O(shift_cells)(const O(strip) *s, const int rows, int64_t c, const O(none) *none, N(vec) *result)
{
        N(vec) before = O(get_fill)(s->fill + c * K_EACH, none);
        O(put_fill)(s->fill + c * K_EACH, result[rows - 1], none);
        V_UNROLL
        for (int i = V_SCAN_ROWS - 1; i > 0; i--)
                result[i] = result[i - 1];
        result[0] = before;
}

/* Scans the positions of a tile. */
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

/* Scans one vector of columns, from elements to results. Rows of scratch are padded to whole
 * vectors. */
SF_INLINE void O(scan_cells)(const O(strip) *s, const int rows, int64_t c, const O(none) *none, O(val) *v,
                             N(vec) *result)
{
#ifdef K_VANISHES
        O(scan_positions)(v);
        /* The total is computed apart, because of the tile's values only results are needed. */
        O(val) total = v[V_SCAN_ROWS - 1];
        for (int e = 0; e < s->closed; e++)
                total = O(join_entry)(s->entry[e] + c * K_EACH, total);
        O(take_entries)(s->entry, c * K_EACH, s->entries, false, V_SCAN_ROWS, v);
        O(put)(s->close + c * K_EACH, total);
#elif defined(K_ORDERED)
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
                result[i] = O(lower)(v[i], none);
        if (s->fill)
                O(shift_cells)(s, rows, c, none, result);
}

/* Scans `many` vectors side by side, from column c on. */
SF_INLINE void O(scan_beside)(const sf_columns *j, const O(strip) *s, const O(none) *none, const bool masked, const int mode,
                              const int many, int64_t c, N(writer) *writer, N(vec) *half)
{
        const int64_t x_step = j->x_step, y_step = j->y_step, m_step = j->m_step, wide = K_WIDTH * K_OUT;
        const char *x = s->x + c * K_SIZE;
        const uint8_t *m = masked && s->m ? s->m + c : NULL;
        char *y = s->y + c * K_OUT;
        O(val) v[2][V_SCAN_ROWS];
        /* gcc cannot see that the elements in use are set */
        N(vec) result[2][V_SCAN_ROWS] = {{{0}}};
        V_UNROLL
        for (int i = 0; i < V_SCAN_ROWS; i++, x += x_step) {
#ifdef K_TWO
                /* the next tile: so many streams at once are not recognised as such */
                __builtin_prefetch(x + V_SCAN_ROWS * x_step);
                __builtin_prefetch(x + V_SCAN_ROWS * x_step + j->beside);
#endif
                V_UNROLL
                for (int k = 0; k < many; k++)
                        v[k][i] = O(load)(x + k * K_WIDTH * K_SIZE, masked && m ? m + k * K_WIDTH : NULL, none);
                if (masked)
                        m = m ? m + m_step : NULL;
        }
        V_UNROLL
        for (int k = 0; k < many; k++)
                O(scan_cells)(s, V_SCAN_ROWS, c + k * K_WIDTH, none, v[k], result[k]);
        V_UNROLL
        for (int i = 0; i < V_SCAN_ROWS; i++, y += y_step) {
                V_UNROLL
                for (int k = 0; k < many; k++) {
                        if (mode == O(mode_turn)) {
                                N(write_one_turned)(&writer[i], y + k * wide, result[k][i]);
                        } else if (mode == O(mode_stream) && wide == 64) {
                                N(stream)(y + k * wide, result[k][i]);
                        } else if (mode == O(mode_stream)) {
                                /* A cache line must be streamed whole, so two results are written
                                 * at a time. */
                                if (c % (2 * K_WIDTH)) {
                                        N(stream)(y - wide, half[i]);
                                        N(stream)(y, result[k][i]);
                                } else if (c + 2 * K_WIDTH <= j->cols) {
                                        /* its second half follows */
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

/* Scans the whole vectors of a whole tile. The caller handles the rest, which would take registers
 * from this loop. `masked`: there may be a mask. */
SF_INLINE void O(scan_strip)(const sf_columns *job, const O(strip) *strip, const bool masked, const int mode, const int many)
{
        const sf_columns j = *job; /* copies that no store can change */
        const O(strip) s = *strip;
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        const int64_t cols = j.cols / K_WIDTH * K_WIDTH;
        N(writer) writer[V_SCAN_ROWS];
        N(vec) half[V_SCAN_ROWS];
        for (int i = 0; i < V_SCAN_ROWS; i++)
                half[i] = none.element;
        if (mode == O(mode_turn)) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_ROWS; i++)
                        N(writer_start)(&writer[i], s.y + i * j.y_step, true, false);
        }
        int64_t c = 0;
        for (; c <= cols - many * K_WIDTH; c += many * K_WIDTH)
                O(scan_beside)(&j, &s, &none, masked, mode, many, c, writer, half);
        if (many > 1 && c < cols)
                O(scan_beside)(&j, &s, &none, masked, mode, 1, c, writer, half);
        for (int i = 0; mode == O(mode_turn) && i < V_SCAN_ROWS; i++)
                N(write_end)(&writer[i], s.y + i * j.y_step + cols * K_OUT);
}

/* Streams rows of whole elements to any address. */
#if (defined(K_WHOLE) || (K_LANE_BYTES < 4 && !defined(K_LEAN))) && K_OUT == K_LANE_BYTES
#define K_TURNABLE
#endif
/* Separate functions, each with all registers for itself. strip_any handles masks, and all modes
 * but rotation. */
static V_APART void O(strip_any)(const sf_columns *j, const O(strip) *s, int mode)
{
        O(scan_strip)(j, s, true, mode == O(mode_stream) ? O(mode_stream) : O(mode_store), 1);
}
#ifndef K_LEAN
static V_APART void O(strip_stored)(const sf_columns *j, const O(strip) *s)
{
        O(scan_strip)(j, s, false, O(mode_store), 1);
}
static V_APART void O(strip_streamed)(const sf_columns *j, const O(strip) *s)
{
#ifdef K_WHOLE
        /* Two cache lines of one row are faster for memory than one line of each of two rows. */
        O(scan_strip)(j, s, false, O(mode_stream), V_BYTES == 64 && K_CONVERT == K_SAME ? 2 : 1);
#else
        O(scan_strip)(j, s, false, O(mode_stream), 1);
#endif
}
#endif
#ifdef K_TURNABLE
static V_APART void O(strip_turned)(const sf_columns *j, const O(strip) *s)
{
        O(scan_strip)(j, s, true, O(mode_turn), 1);
}
#endif

/* The rest: the columns from c on, or a last tile that is not full. */
static V_APART void O(scan_rest)(const sf_columns *j, const O(strip) *s, int64_t c)
{
        const O(none) none = O(none_of)(j->identity, j->turn, j->beside);
        for (; c < j->cols; c += K_WIDTH) {
                const int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                O(val) v[V_SCAN_ROWS];
                N(vec) result[V_SCAN_ROWS];
                for (int i = 0; i < V_SCAN_ROWS; i++) {
                        const uint8_t *m = s->m ? s->m + i * j->m_step + c : NULL;
                        v[i] = none.value; /* past the end: to the right of all that is stored */
                        if (i < s->rows)
                                v[i] = O(load_part)(s->x + i * j->x_step + c * K_SIZE, m, &none, 0, count);
                }
                O(scan_cells)(s, s->rows, c, &none, v, result);
                for (int i = 0; i < s->stored; i++)
                        N(store_part)(s->y + i * j->y_step + c * K_OUT, result[i], 0, count);
        }
}

#if defined(K_WHOLE) && defined(K_ORDERED)
/*
 * Scans four whole tiles of a few columns. Preparing one such tile would take longer than scanning
 * it, so the counter is used once, above the two levels inside the four. s->closed and s->entries
 * are for the block of four. No mask.
 */
SF_INLINE void O(scan_four)(const sf_columns *j, const O(strip) *s, const bool stream)
{
        const O(none) none = O(none_of)(j->identity, j->turn, j->beside);
        for (int64_t c = 0; c < j->cols; c += K_WIDTH) {
                const int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                const char *x = s->x + c * K_SIZE;
                char *y = s->y + c * K_OUT;
                /* the total of the tile before, if it is the left one of a pair; and of the first
                 * two tiles */
                O(val) one = none.value, two = none.value;
                for (int k = 0; k < 4; k++) {
                        O(val) v[V_SCAN_ROWS];
                        N(vec) result[V_SCAN_ROWS];
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_ROWS; i++, x += j->x_step)
                                v[i] = O(load_some)(x, NULL, &none, 0, count);
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
                                result[i] = O(lower)(v[i], &none);
                        if (s->fill)
                                O(shift_cells)(s, V_SCAN_ROWS, c, &none, result);
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
        return j->cols <= 4 * K_WIDTH && !j->m && (!j->stream || (!late && aligned && j->cols % K_WIDTH == 0 && K_WIDTH * K_OUT == 64));
}
#endif

/* Scans a whole tile. */
SF_INLINE void O(scan_whole)(const sf_columns *j, const O(strip) *s, bool aligned)
{
        const bool stream = j->stream && aligned;
#ifdef K_LEAN
        O(strip_any)(j, s, stream ? O(mode_stream) : O(mode_store));
#else
#ifdef K_TURNABLE
        if (j->stream && !aligned && !((uintptr_t)j->y % K_OUT) && !(j->y_step % K_OUT))
                O(strip_turned)(j, s);
        else
#endif
        if (s->m)
                O(strip_any)(j, s, stream ? O(mode_stream) : O(mode_store));
        else
                (stream ? O(strip_streamed) : O(strip_stored))(j, s);
#endif
        O(scan_rest)(j, s, j->cols / K_WIDTH * K_WIDTH);
}

static void O(scan_columns)(const sf_columns *j)
{
        /* If no result overwrites elements that are still to be read, results can be stored one row
         * late, and an exclusive scan needs no other shift. The last tile is then not streamed, so
         * there should be many tiles. */
        const bool late = j->exclusive && j->stream && !j->resume && j->n >= 8 * V_SCAN_ROWS;
        const char *entry[2 * SF_ORDER_LEVELS];
        O(strip) s = {.x = j->x, .y = late ? j->y + j->y_step : j->y, .m = j->m, .entry = entry,
                      .fill = j->exclusive && !late ? j->carry->fill : NULL};
        uint64_t tile = (uint64_t)(j->start / V_SCAN_ROWS);
        /* Streaming needs rows of whole cache lines; where there is an instance that rotates, whole
         * elements. */
        const bool aligned = !((uintptr_t)j->y % 64) && !(j->y_step % 64) && (K_WIDTH * K_OUT == 64 || K_WIDTH * K_OUT == 32);
        if (late)
                O(narrow_as)(j->y, j->carry->fill, j->cols, j->turn, j->identity.index < 0);
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
                        s.x += 3 * V_SCAN_ROWS * j->x_step; /* the fourth tile is added below */
                        s.y += 3 * V_SCAN_ROWS * j->y_step;
                        done += 3 * V_SCAN_ROWS;
                        tile += 3;
                } else if (s.stored < V_SCAN_ROWS) {
                        O(scan_rest)(j, &s, 0);
                } else {
                        O(scan_whole)(j, &s, aligned);
                }
                s.x += V_SCAN_ROWS * j->x_step;
                s.y += V_SCAN_ROWS * j->y_step;
                s.m = s.m ? s.m + V_SCAN_ROWS * j->m_step : NULL;
        }
        if (j->stream && !j->resume) /* a walk that is resumed waits only once, at its end */
                v_fence();
}
#undef K_TURNABLE
