/*
 * map.cu: steps whose sequences have one element: elementwise operations, casts, copies. An element
 * is combined with nothing but the initial value, if there is one, and with totals to its left
 * (SF_LEFTS). SF_VALUES: its value is stored, as in fold.cu.
 *
 * A line is here the last of the batch dimensions, so its elements are independent. A thread has
 * SF_ITEMS vectors, SF_THREADS vectors apart. All of them are loaded before the first is stored.
 *
 * number[0]: vectors of a line. units: vectors in all.
 */
SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        sf_acc identity = sf_acc_of(p.identity);
        sf_line line[SF_ITEMS];
        sf_i64 at[SF_ITEMS], end[SF_ITEMS];
        sf_vector in[SF_ITEMS];
        sf_results with[SF_ITEMS];
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_i64 unit = (sf_block() * SF_ITEMS + i) * SF_THREADS + sf_thread();
                sf_i64 batch = SF_NBATCH ? sf_divide(unit, p.number[0]) : 0;
                at[i] = (unit - batch * p.number[0]) * SF_WIDTH;
                end[i] = unit < p.units ? p.n : 0;
                line[i] = sf_batch_line(p, unit < p.units ? batch : 0);
                in[i] = sf_load_vector(line[i], at[i], end[i], sf_along(p));
                with[i] = sf_fresh_results(line[i], at[i], end[i], end[i], sf_along(p));
        }
        sf_acc v[SF_ITEMS][SF_WIDTH];
        sf_answer result[SF_ITEMS][SF_WIDTH];
        sf_elements<1>(p, in, 0, 0, 0, v);
        sf_lift_late(v);
#if SF_VALUES
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (at[i] + j < end[i])
                                *(sf_acc *)(line[i].y + (at[i] + j) * p.sy) = sf_settled(v[i][j]);
#else
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_keep_results(in[i], with[i]);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
#if SF_LEFTS
                        /* Each element is a sequence, with totals of its own to its left. */
                        const bool there = at[i] + j < end[i];
                        const char *left = line[i].left + (there ? at[i] + j : 0) * p.il;
                        const int lefts = there ? *(const int *)left : 0;
                        if (SF_EXCLUSIVE && !lefts)
                                v[i][j] = identity;
                        for (int e = 0; e < lefts; e++) {
                                left += p.left_entry;
                                v[i][j] = SF_EXCLUSIVE && !e ? *(const sf_acc *)left : sf_combine(*(const sf_acc *)left, v[i][j]);
                        }
#endif
                        v[i][j] = sf_begin(p, sf_choose(SF_EXCLUSIVE && !SF_LEFTS, identity, v[i][j]));
                }
        sf_lower_all(p, v, result);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_store_vector(p, line[i], at[i], end[i], sf_along(p), result[i], with[i]);
#endif
}
