/*
 * scan_packed.inc.h: packed short rows. Template, part of scan.inc.h. All `rows` x n x inner
 * elements are one run of memory; a vector has whole sequences.
 */

/* With a constant number of levels: those above the tables' levels do nothing. */
SF_INLINE O(val) O(packed_scan)(O(val) v, const N(tables) *t)
{
#ifdef K_LEAN
        return O(lane_scan)(v, t, 0);
#else
        return t->levels <= 2 ? O(lane_scan)(v, t, K_LOG_WIDTH < 2 ? K_LOG_WIDTH : 2) : O(lane_scan)(v, t, K_LOG_WIDTH);
#endif
}

static void O(scan_packed)(const sf_rows *j)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const O(none) none = O(none_of)(j->identity, j->turn, j->beside);
        const N(vec) fill = j->exclusive ? O(get_fill)(j->carry->fill, &none) : none.element;
        const int unit = j->lanes->unit;
        const int64_t elements = j->rows * j->n * j->lanes->inner;
        /* Reversed rows are still one after another in memory: the run starts at the first row's
         * last element. */
        const int64_t offset = j->lanes->reverse ? -(j->n - 1) * j->lanes->inner : 0;
        const char *x = j->x + offset * K_SIZE;
        char *y = j->y + offset * K_OUT;
        const uint8_t *m = j->m ? j->m + offset : NULL;
        N(writer) writer;
        N(writer_start)(&writer, y, j->stream && unit == K_WIDTH, false);
        int64_t at = 0;
#ifndef K_LEAN
        for (; unit == K_WIDTH && !m && at + V_SCAN_TILE * K_WIDTH <= elements; at += V_SCAN_TILE * K_WIDTH) {
                O(val) v[V_SCAN_TILE];
                N(vec) result[V_SCAN_TILE];
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++) {
                        const char *from = x + (at + i * K_WIDTH) * K_SIZE;
                        __builtin_prefetch(from + j->ahead);
                        v[i] = O(packed_scan)(O(load)(from, NULL, &none), &t);
                }
                if (j->carry)
                        O(add_carry)(j->carry, v, V_SCAN_TILE);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++) {
                        N(vec) before = fill;
                        result[i] = O(lower)(v[i], &none);
                        if (j->exclusive)
                                result[i] = N(shift)(&t, &before, result[i]);
                }
                N(write_now)(&writer, y + at * K_OUT, result, V_SCAN_TILE);
        }
#endif
        for (; at < elements; at += unit) {
                const int count = elements - at < unit ? (int)(elements - at) : unit;
                __builtin_prefetch(x + at * K_SIZE + j->ahead);
                O(val) v = O(load_some)(x + at * K_SIZE, m ? m + at : NULL, &none, 0, elements - at >= K_WIDTH ? K_WIDTH : count);
                v = O(packed_scan)(v, &t);
                if (j->carry)
                        O(add_carry)(j->carry, &v, 1);
                N(vec) result = O(lower)(v, &none), before = fill;
                if (j->exclusive)
                        result = N(shift)(&t, &before, result);
                if (count == K_WIDTH) {
                        N(write)(&writer, y + at * K_OUT, &result, 1);
                } else {
                        N(write_end)(&writer, y + at * K_OUT);
                        writer.first = true;
                        N(store_part)(y + at * K_OUT, result, 0, count);
                }
        }
        N(write_end)(&writer, y + at * K_OUT);
        if (j->stream && !j->resume) /* a walk that is resumed waits only once, at its end */
                v_fence();
}
