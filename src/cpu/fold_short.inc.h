/*
 * fold_short.inc.h: the fold of short rows, many at once. Template; kernels.inc.h has the parameters.
 *
 * Vectors of K_WIDTH rows are added pair by pair, neighbours to neighbours, until one vector is left with a row's total in every lane.
 * fold.inc.h does that with K_WIDTH vectors of one row; a row that has fewer would leave most of such a tile empty.
 */

/* Elements that change no result, beyond the end of a row: adding +0.0 would make +0.0 of -0.0. */
SF_INLINE N(vec) N(beyond)(const sf_op op, N(vec) identity)
{
        return op == SF_SUM ? N(nothing)() : identity;
}

/* The totals of `left` elements, but no more than a vector, of each of `many` rows. */
SF_INLINE N(vec) N(fold_across)(const sf_rows *j, const sf_op op, const char *x, const uint8_t *m, int many, int64_t left, N(vec) identity, int64_t ahead)
{
        const N(vec) beyond = N(beyond)(op, identity);
        const v_mask on = v_mask_below(left < K_WIDTH ? (int)left : K_WIDTH, K_LANE_BYTES);
        N(vec) v[K_WIDTH];
        for (int r = 0; r < K_WIDTH; r++, x += j->x_row, m = m ? m + j->m_row : NULL) {
                v[r] = beyond;
                if (r >= many)
                        continue;
                __builtin_prefetch(x + ahead);
                if (left >= K_WIDTH)
                        v[r] = N(load_masked)(x, m, identity);
                else
                        v[r] = N(blend)(on, N(load_masked_part)(x, m, identity, 0, (int)left), beyond);
        }
        N(halve_all)(op, v, K_WIDTH, false);
        return v[0];
}

SF_INLINE void N(fold_short)(const sf_rows *j, const sf_op op)
{
        const N(vec) identity = N(broadcast)(j->identity);
        const int64_t ahead = K_WIDTH * j->x_row > j->ahead ? K_WIDTH * j->x_row : j->ahead; /* within these rows everything is on its way */
        for (int64_t at = 0; at < j->rows; at += K_WIDTH) {
                const int many = j->rows - at < K_WIDTH ? (int)(j->rows - at) : K_WIDTH;
                N(vec) inside[K_LOG_WIDTH + 1], total = identity;
                uint64_t vectors = 0;
                for (int64_t i = 0; i < j->n; i += K_WIDTH, vectors++) {
                        const int closed = sf_order_closed(vectors);
                        total = N(fold_across)(j, op, j->x + at * j->x_row + i * K_SIZE, j->m ? j->m + at * j->m_row + i : NULL, many, j->n - i, identity, ahead);
                        for (int k = 0; k < closed; k++)
                                total = N(combine)(op, inside[k], total);
                        inside[closed] = total;
                }
                for (uint64_t bits = vectors & (vectors - 1); bits; bits &= bits - 1)
                        total = N(combine)(op, inside[__builtin_ctzll(bits)], total);
                if (j->carry)
                        N(add_carry)(op, j->carry, &total, 1);
                N(store_unit)(j->y + at * K_SIZE, total, many);
        }
}

/* Rows shorter than fold.inc.h's tile, enough of them, whole, with their totals side by side. */
SF_INLINE bool N(is_short)(const sf_rows *j)
{
        return j->n < K_WIDTH * K_WIDTH && 2 * j->rows >= K_WIDTH && j->lanes->inner == 1 && j->lanes->unit == K_WIDTH && !j->lanes->reverse && !j->start &&
               !j->resume && !(j->carry && j->carry_row) && j->y_row == K_SIZE;
}
