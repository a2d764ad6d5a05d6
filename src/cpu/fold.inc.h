/*
 * fold.inc.h: the fold of rows, of packed short rows, and of columns. Template; kernels.inc.h has the parameters.
 */

/* ------------------------------------------------------------------------------------------------------------
 * Rows
 *
 * Of narrow matrices, and of products: the total of a vector is the last lanes of its scan, and so is that of a tile of
 * several. What is over goes a vector at a time. fold_long.inc.h has sums of contiguous runs, extreme.inc.h max and min.
 * ---------------------------------------------------------------------------------------------------------- */

/* `count` vectors of a narrow matrix from x on, `step` elements apart, to one with their total in the last position's lanes. */
SF_INLINE N(vec) N(fold_narrow)(const sf_op op, const N(tables) *t, int levels, const char *x, const uint8_t *m, N(vec) identity, int unit, int64_t step,
                                const int count)
{
        N(vec) half[SF_CPU_NARROW_TILE];
        V_UNROLL
        for (int i = 0; i < count; i++) {
                half[i] = N(load_unit)(x + i * step * K_SIZE, m ? m + i * step : NULL, identity, unit);
                half[i] = N(lane_scan)(op, half[i], t, levels);
        }
        V_UNROLL
        for (int size = 1; size < count; size *= 2) {
                V_UNROLL
                for (int i = 0; i < count; i += 2 * size)
                        half[i] = N(combine)(op, half[i], half[i + size]);
        }
        return half[0];
}

typedef struct N(fold_row) {
        const char *x;
        const uint8_t *m;
        char *counter;
} N(fold_row);

/* Returns with the counters filled; what does not fill a tile is in *over, with *is_over set. */
SF_INLINE void N(fold_group)(const sf_rows *j, const sf_op op, int many, const bool reverse, N(fold_row) *row, N(vec) *over, bool *is_over)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const N(vec) identity = N(broadcast)(j->identity);
        const int unit = j->lanes->unit, level_count = j->lanes->levels, tile_vectors = SF_CPU_NARROW_TILE;
        const int64_t elements = j->n * j->lanes->inner, tiles = elements / (tile_vectors * unit);
        const int64_t step = reverse ? -unit : unit, offset = reverse ? -(int64_t)(unit - j->lanes->inner) : 0;
        uint64_t tile = (uint64_t)(j->start * j->lanes->inner / (tile_vectors * unit));
        for (int r = 0; r < many; r++) {
                row[r].x += offset * K_SIZE;
                row[r].m = row[r].m ? row[r].m + offset : NULL;
        }
        for (int64_t done = 0; done < tiles; done++, tile++) {
                N(vec) v[SF_CPU_FOLD_GROUP];
                for (int r = 0; r < many; r++) {
                        if (level_count <= 2) /* a constant: the tables stay in registers */
                                v[r] = N(fold_narrow)(op, &t, 2, row[r].x, row[r].m, identity, unit, step, tile_vectors);
                        else
                                v[r] = N(fold_narrow)(op, &t, level_count, row[r].x, row[r].m, identity, unit, step, tile_vectors);
                        row[r].x += tile_vectors * step * K_SIZE;
                        row[r].m = row[r].m ? row[r].m + tile_vectors * step : NULL;
                }
                /* Row by row this would be one long wait after another. */
                const int closed = sf_order_closed(tile);
                for (int r = 0; r < many; r++) {
                        N(vec) total = N(permute)(v[r], t.last);
                        for (int k = 0; k < closed; k++)
                                total = N(combine)(op, N(get)(row[r].counter + k * V_BYTES), total);
                        N(put)(row[r].counter + closed * V_BYTES, total);
                }
        }
        for (int r = 0; r < many; r++) {
                enum { LEVELS = 4 }; /* what is over is fewer vectors than a tile has */
                N(vec) inside[LEVELS], v = identity;
                int64_t left = elements - tiles * tile_vectors * unit;
                is_over[r] = left > 0;
                for (int i = 0; left > 0; i++, left -= unit) {
                        int count = left < unit ? (int)left : unit, first = reverse ? unit - count : 0;
                        const char *x = row[r].x + (i * step + first) * K_SIZE;
                        const uint8_t *m = row[r].m ? row[r].m + i * step + first : NULL;
                        v = count == K_WIDTH ? N(load_masked)(x, m, identity) : N(load_masked_part)(x, m, identity, first, count);
                        v = N(lane_scan)(op, v, &t, level_count);
                        /* The last position there is: where the vector is not full, not the last lanes. */
                        if (count == unit) {
                                v = N(permute)(v, t.last);
                        } else {
                                K_LANE_C lane[K_WIDTH];
                                int inner = j->lanes->inner, from = reverse ? first : count - inner;
                                memcpy(lane, &v, sizeof lane);
                                for (int l = 0; l < K_WIDTH; l++)
                                        v[l] = lane[from + l % inner];
                        }
                        int closed = sf_order_closed((uint64_t)i);
                        for (int k = 0; k < closed; k++)
                                v = N(combine)(op, inside[k], v);
                        inside[closed] = v;
                        for (int k = closed; k < LEVELS; k++)
                                if (i >> k & 1)
                                        v = N(combine)(op, inside[k], v);
                }
                over[r] = v;
        }
}

SF_INLINE void N(fold_rows_narrow)(const sf_rows *j, const sf_op op, const bool reverse)
{
        const int unit = j->lanes->unit, tile_vectors = SF_CPU_NARROW_TILE;
        const uint64_t tiles = (uint64_t)((j->start + j->n) * j->lanes->inner / (tile_vectors * unit));
        const int group = j->slots ? j->slots : SF_CPU_GROUP;
        for (int64_t done = 0; done < j->rows;) {
                N(fold_row) row[SF_CPU_FOLD_GROUP];
                N(vec) total[SF_CPU_FOLD_GROUP];
                bool any[SF_CPU_FOLD_GROUP];
                int many = j->rows - done < group ? (int)(j->rows - done) : group;
                for (int r = 0; r < many; r++) {
                        int64_t at = done + r;
                        int slot = j->resume ? (int)at : r;
                        row[r] = (N(fold_row)){j->x + at * j->x_row, j->m ? j->m + at * j->m_row : NULL,
                                               j->counters + slot * SF_ORDER_LEVELS * V_BYTES};
                }
                N(fold_group)(j, op, many, reverse, row, total, any);
                for (int r = 0; r < many && !j->resume; r++) {
                        int64_t at = done + r;
                        for (uint64_t bits = tiles; bits; bits &= bits - 1) {
                                N(vec) entry = N(get)(row[r].counter + __builtin_ctzll(bits) * V_BYTES);
                                total[r] = any[r] ? N(combine)(op, entry, total[r]) : entry;
                                any[r] = true;
                        }
                        if (j->carry)
                                N(add_carry)(op, j->carry + at * j->carry_row, &total[r], 1);
                        N(store_part)(j->y + at * j->y_row, total[r], 0, j->lanes->inner);
                }
                done += many;
        }
}

SF_INLINE void N(fold_rows)(const sf_rows *j, const sf_op op)
{
        if ((op == SF_MAX || op == SF_MIN) && j->lanes->unit == K_WIDTH)
                N(fold_rows_extreme)(j, op, j->lanes->reverse, K_WIDTH);
        else if (op == SF_MAX || op == SF_MIN)
                N(fold_rows_extreme)(j, op, j->lanes->reverse, j->lanes->unit);
        else if (op != SF_SUM || j->lanes->inner > 1 || j->lanes->unit != K_WIDTH)
                N(fold_rows_narrow)(j, op, j->lanes->reverse);
        else if (j->lanes->reverse)
                N(fold_rows_long)(j, true);
        else
                N(fold_rows_long)(j, false);
}

/* ------------------------------------------------------------------------------------------------------------
 * Packed short rows; y is a run too.
 * ---------------------------------------------------------------------------------------------------------- */
SF_INLINE void N(fold_packed)(const sf_rows *j, const sf_op op)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const v_raw take = v_raw_load(j->lanes->take.bytes);
        const N(vec) identity = N(broadcast)(j->identity);
        const int unit = j->lanes->unit, taken = j->lanes->groups * j->lanes->inner;
        const int64_t elements = j->rows * j->n * j->lanes->inner;
        const int64_t offset = j->lanes->reverse ? -(j->n - 1) * j->lanes->inner : 0;
        const char *x = j->x + offset * K_SIZE;
        const uint8_t *m = j->m ? j->m + offset : NULL;
        char *y = j->y;
        for (int64_t at = 0; at < elements; at += unit, y += taken * K_SIZE) {
                bool whole = elements - at >= K_WIDTH;
                __builtin_prefetch(x + at * K_SIZE + j->ahead);
                int count = elements - at < unit ? (int)(elements - at) : unit;
                N(vec) v = whole ? N(load_masked)(x + at * K_SIZE, m ? m + at : NULL, identity)
                                 : N(load_masked_part)(x + at * K_SIZE, m ? m + at : NULL, identity, 0, count);
                v = N(permute)(N(lane_scan)(op, v, &t, t.levels), take);
                if (j->carry)
                        N(add_carry)(op, j->carry, &v, 1);
                N(store_part)(y, v, 0, count / (int)j->n);
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Columns: tiles of V_FOLD_ROWS positions
 * ---------------------------------------------------------------------------------------------------------- */
SF_INLINE void N(fold_columns)(const sf_columns *j, const sf_op op)
{
        const N(vec) identity = N(broadcast)(j->identity);
        const int64_t tiles = j->n / V_FOLD_ROWS, over = j->n % V_FOLD_ROWS;
        const uint64_t first = (uint64_t)(j->start / V_FOLD_ROWS);
        const char *x = j->x;
        const uint8_t *m = j->m;
        for (int64_t done = 0; done < tiles; done++) {
                int closed = sf_order_closed(first + (uint64_t)done);
                for (int64_t c = 0; c < j->cols; c += K_WIDTH) {
                        N(vec) v[V_FOLD_ROWS];
                        V_UNROLL
                        for (int i = 0; i < V_FOLD_ROWS; i++) {
                                const char *at = x + i * j->x_step + c * K_SIZE;
                                const uint8_t *mask = m ? m + i * j->m_step + c : NULL;
                                __builtin_prefetch(at + j->ahead);
                                if (j->cols - c >= K_WIDTH)
                                        v[i] = N(load_masked)(at, mask, identity);
                                else
                                        v[i] = N(load_masked_part)(at, mask, identity, 0, (int)(j->cols - c));
                        }
                        V_UNROLL
                        for (int size = 1; size < V_FOLD_ROWS; size *= 2) {
                                V_UNROLL
                                for (int i = 0; i < V_FOLD_ROWS; i += 2 * size)
                                        v[i] = N(combine)(op, v[i], v[i + size]);
                        }
                        for (int k = 0; k < closed; k++)
                                v[0] = N(combine)(op, N(get)(j->counters + k * j->counter_stride + c * K_LANE_BYTES), v[0]);
                        N(put)(j->counters + closed * j->counter_stride + c * K_LANE_BYTES, v[0]);
                }
                x += V_FOLD_ROWS * j->x_step;
                m = m ? m + V_FOLD_ROWS * j->m_step : NULL;
        }
        if (j->resume)
                return;
        N(writer) writer = N(writer_start)(j->y, j->stream, false);
        int64_t c = 0;
        for (; c < j->cols; c += K_WIDTH) {
                int count = j->cols - c < K_WIDTH ? (int)(j->cols - c) : K_WIDTH;
                N(vec) inside[V_FOLD_ROWS_LOG + 1], total = identity;
                bool any = over > 0;
                for (int i = 0; i < over; i++) {
                        total = N(load_masked_part)(x + i * j->x_step + c * K_SIZE, m ? m + i * j->m_step + c : NULL, identity, 0, count);
                        int closed = sf_order_closed((uint64_t)i);
                        for (int k = 0; k < closed; k++)
                                total = N(combine)(op, inside[k], total);
                        inside[closed] = total;
                        for (int k = closed; k < V_FOLD_ROWS_LOG; k++)
                                if (i >> k & 1)
                                        total = N(combine)(op, inside[k], total);
                }
                for (uint64_t bits = first + (uint64_t)tiles; bits; bits &= bits - 1) {
                        N(vec) entry = N(get)(j->counters + __builtin_ctzll(bits) * j->counter_stride + c * K_LANE_BYTES);
                        total = any ? N(combine)(op, entry, total) : entry;
                        any = true;
                }
                for (int e = 0; j->carry && e < j->carry->count; e++)
                        total = N(combine)(op, N(get)(j->carry->entries + e * j->carry->entry_stride + c * K_LANE_BYTES), total);
                if (count == K_WIDTH) {
                        N(write)(&writer, j->y + c * K_SIZE, &total, 1);
                } else {
                        N(write_end)(&writer, j->y + c * K_SIZE);
                        writer.first = true;
                        N(store_part)(j->y + c * K_SIZE, total, 0, count);
                }
        }
        N(write_end)(&writer, j->y + c * K_SIZE);
        if (j->stream)
                v_fence();
}
