/*
 * extreme.inc.h: max and min of rows, narrow matrices too. Template; kernels.inc.h has the parameters.
 *
 * In whatever order they are taken, and however often, the largest of some values is the same: so vectors are combined lane by lane, and
 * lanes with each other only at the end. For the same reason a counter needs no blocks: where the row will go on, every entry that
 * is in use by then is the extreme of all there was.
 */
SF_INLINE void N(fold_rows_extreme)(const sf_rows *j, const sf_op op, const bool reverse, const int unit)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const N(vec) identity = N(broadcast)(j->identity);
        const int inner = j->lanes->inner;
        const int64_t step = reverse ? -unit : unit, vectors = j->n * inner / unit, begin = reverse ? -(unit - inner) : 0;
        const int over = (int)(j->n * inner % unit), first = reverse ? unit - over : 0;
        const uint64_t before = (uint64_t)(j->start * inner / unit), after = before + (uint64_t)vectors;
        for (int64_t done = 0; done < j->rows; done += SF_CPU_GROUP) {
                const int many = j->rows - done < SF_CPU_GROUP ? (int)(j->rows - done) : SF_CPU_GROUP;
                const char *x = j->x + done * j->x_row + begin * K_SIZE;
                const uint8_t *m = j->m ? j->m + done * j->m_row + begin : NULL;
                N(vec) most[SF_CPU_GROUP];
                V_UNROLL
                for (int r = 0; r < SF_CPU_GROUP; r++)
                        most[r] = identity;
                for (int64_t i = 0; i < vectors; i++, x += step * K_SIZE, m = m ? m + step : NULL) {
                        V_UNROLL
                        for (int r = 0; r < SF_CPU_GROUP; r++)
                                if (r < many) {
                                        __builtin_prefetch(x + r * j->x_row + j->ahead);
                                        const uint8_t *mask = m ? m + r * j->m_row : NULL;
                                        most[r] = N(combine)(op, most[r], N(load_unit)(x + r * j->x_row, mask, identity, unit));
                                }
                }
                for (int r = 0; r < many; r++) {
                        const int64_t at = done + r;
                        char *counter = j->counters + (j->resume || j->start ? at : r) * SF_ORDER_LEVELS * V_BYTES;
                        N(vec) total = most[r];
                        if (over) {
                                const v_mask low = v_mask_below(reverse ? first : over, K_LANE_BYTES);
                                N(vec) v = N(load_masked_part)(x + r * j->x_row + first * K_SIZE, m ? m + r * j->m_row + first : NULL, identity, first, over);
                                total = N(combine)(op, total, reverse ? N(blend)(low, identity, v) : N(blend)(low, v, identity));
                        }
                        total = N(permute)(N(lane_scan)(op, total, &t, t.levels), t.last);
                        for (uint64_t bits = before; bits; bits &= bits - 1)
                                total = N(combine)(op, N(get)(counter + __builtin_ctzll(bits) * V_BYTES), total);
                        for (uint64_t bits = j->resume ? after : 0; bits; bits &= bits - 1)
                                N(put)(counter + __builtin_ctzll(bits) * V_BYTES, total);
                        if (j->resume)
                                continue;
                        if (j->carry)
                                N(add_carry)(op, j->carry + at * j->carry_row, &total, 1);
                        N(store_part)(j->y + at * j->y_row, total, 0, inner);
                }
        }
}
