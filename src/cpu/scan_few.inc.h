/*
 * scan_few.inc.h: rows of a few vectors, and matrices of a few columns. Template, part of
 * scan.inc.h, for operations whose instances are all worth their size.
 */
/* Rows of `count` vectors, of which the last may not be full: no counter, and no tile that is
 * mostly empty. */
SF_INLINE void O(scan_short_as)(const sf_rows *job, const int count)
{
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        const int part = (int)(j.n - (count - 1) * K_WIDTH), first = j.lanes->reverse ? K_WIDTH - part : 0;
        const int64_t step = j.lanes->reverse ? -K_WIDTH : K_WIDTH, last = (count - 1) * step + first;
        O(place) p = O(place_of)(&j, K_WIDTH, 0);
        for (int64_t r = 0; r < j.rows; r++, p.x += j.x_row, p.y += j.y_row, p.m = p.m ? p.m + j.m_row : NULL) {
                O(val) v[V_SCAN_TILE];
                __builtin_prefetch(p.x + j.ahead);
                V_UNROLL
                for (int i = 0; i < count - 1; i++)
                        v[i] = O(load)(p.x + i * step * K_SIZE, p.m ? p.m + i * step : NULL, &none);
                v[count - 1] = O(load_some)(p.x + last * K_SIZE, p.m ? p.m + last : NULL, &none, first, part);
                V_UNROLL
                for (int i = 0; i < count; i++)
                        v[i] = O(lane_scan)(v[i], &t, K_LOG_WIDTH);
                O(scan_vectors)(&t, count, v);
                V_UNROLL
                for (int i = 0; i < count - 1; i++)
                        N(store)(p.y + i * step * K_OUT, O(lower)(v[i], &none));
                if (part == K_WIDTH)
                        N(store)(p.y + last * K_OUT, O(lower)(v[count - 1], &none));
                else
                        N(store_part)(p.y + last * K_OUT, O(lower)(v[count - 1], &none), first, part);
        }
}
static V_APART void O(scan_short)(const sf_rows *j, int64_t vectors)
{
        if (vectors == 1)
                O(scan_short_as)(j, 1);
        else if (vectors == 2)
                O(scan_short_as)(j, 2);
#if V_SCAN_TILE > 2
        else if (vectors == 3)
                O(scan_short_as)(j, 3);
        else
                O(scan_short_as)(j, 4);
#endif
}

#ifdef K_ORDERED
/*
 * Narrow matrices whose vectors are not full, four tiles at a time, because each has little work
 * and the counter is then used once for all. At most two levels; if a table has fewer, its unused
 * levels do nothing. Returns how many positions of each row were scanned; the general instance does
 * the rest.
 */
static V_APART int64_t O(narrow_blocks)(const sf_rows *job)
{
        enum { BLOCK = 4 * V_SCAN_TILE, LEVELS = 2 };
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        const int unit = j.lanes->unit;
        const int64_t blocks = j.n / (BLOCK * j.lanes->rows);
        for (int64_t at = 0; at < j.rows; at++) {
                O(place) p = O(place_of)(&j, unit, at);
                const sf_carry *carry = j.carry ? j.carry + at * j.carry_row : NULL;
                N(vec) before = j.exclusive ? O(get_fill)(carry->fill, &none) : none.element;
                uint64_t block = p.tile / 4;
                for (int64_t left = blocks; left > 0; left--, block++) {
                        O(val) v[BLOCK];
                        V_UNROLL
                        for (int i = 0; i < BLOCK; i++) {
                                __builtin_prefetch(p.x + j.ahead);
                                v[i] = O(lane_scan)(O(load_part)(p.x, p.m, &none, 0, unit), &t, LEVELS);
                                p.x += p.step * K_SIZE;
                                p.m = p.m ? p.m + p.step : NULL;
                        }
                        O(scan_vectors)(&t, BLOCK, v);
                        const int closed = sf_order_closed(block);
                        for (uint64_t bits = block, k = 0; bits || k == (uint64_t)closed; k++) {
                                if (k == (uint64_t)closed)
                                        O(put)(p.counters + (closed + 2) * K_ENTRY, O(last)(v[BLOCK - 1], &t));
                                if (!bits)
                                        break;
                                O(val) entry = O(get)(p.counters + (__builtin_ctzll(bits) + 2) * K_ENTRY);
                                V_UNROLL
                                for (int i = 0; i < BLOCK; i++)
                                        v[i] = O(combine)(entry, v[i]);
                                bits &= bits - 1;
                        }
                        if (carry)
                                O(add_carry)(carry, v, BLOCK);
                        V_UNROLL
                        for (int i = 0; i < BLOCK; i++, p.y += p.step * K_OUT) {
                                N(vec) result = O(lower)(v[i], &none);
                                if (j.exclusive)
                                        result = N(shift)(&t, &before, result);
                                N(store_part)(p.y, result, 0, unit);
                        }
                }
                if (j.exclusive) /* the rest is shifted with it */
                        O(put_fill)(carry->fill, N(before_of)(&t, before), &none);
        }
        return blocks * BLOCK * j.lanes->rows;
}

/* What is left of j after that; all of j if narrow_blocks cannot be used. */
SF_INLINE sf_rows O(after_narrow)(const sf_rows *j)
{
        const int64_t tile = V_SCAN_TILE * j->lanes->unit;
        sf_rows rest = *j;
        if (j->lanes->levels > 2 || j->start * j->lanes->inner / tile % 4 || (j->rows > 1 && !j->resume))
                return rest;
        const int64_t done = O(narrow_blocks)(j), on = (j->lanes->reverse ? -done : done) * j->lanes->inner;
        rest.x += on * K_SIZE;
        rest.y += on * K_OUT;
        rest.m = j->m ? j->m + on : NULL;
        rest.n -= done;
        rest.start += done;
        return rest;
}
#endif
