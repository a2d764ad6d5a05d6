/*
 * scan_narrow.cu: scans down the columns of a narrow, contiguous matrix: a few interleaved
 * sequences. There are SF_COLUMNS columns, a power of two.
 *
 * Vectors are loaded without regard to the columns; tree.cuh says how a warp scans them. A block
 * goes through one chunk of the matrix, tile by tile, and loads the next tile into registers while
 * it computes. Its warps exchange totals through shared memory. The counter is there too.
 *
 * SF_PARTIAL: the launch before, which only stores the totals of chunks in scratch. SF_RUN: the RUN
 * of sf_preload, or 0 if scan_totals.cu has prepared the totals.
 *
 * number[0]: tiles. A chunk has 2^number[1] of them. number[2]: levels of the counter. n: elements,
 * of all columns. scratch: for each batch position, chunk by chunk, a total for each column.
 */
enum {
        SHARE = sf_columns<SF_COLUMNS>::SHARE,
        SPAN = sf_columns<SF_COLUMNS>::SPAN,
        WARPS = SF_THREADS / 32,
        SPREAD = 32 * SF_WIDTH, /* elements from one item of a thread to its next item */
        TILE = SF_THREADS * SF_ITEMS * SF_WIDTH,
        ON = SF_PARTIAL ? -1 : 1, /* step to the next tile */
};

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        int thread = sf_thread(), lane = thread & 31, warp = thread / 32, own = thread & (SPAN - 1);
        sf_acc identity = sf_acc_of(p.identity);
        /* A row for each warp, for tiles with even numbers; and as many for odd ones. */
        sf_acc *turns = (sf_acc *)sf_shared() + own * SHARE;
        sf_acc *counter = turns + sf_narrow_counter(SF_THREADS,
                                                    SF_COLUMNS); /* a row for each level */

        sf_i64 folded = (p.number[0] - 1) >> p.number[1], chunks = folded + !SF_PARTIAL, batch = sf_divide(sf_block(), chunks);
        int chunk = (int)(sf_block() - batch * chunks);
        sf_i64 first = (sf_i64)chunk << p.number[1], tiles = chunk < folded ? 1ll << p.number[1] : p.number[0] - first;
        if (SF_PARTIAL)
                first += tiles - 1;
        sf_acc *totals = (sf_acc *)p.scratch + batch * folded * SF_COLUMNS + own * SHARE;
        sf_line line = sf_batch_line(p, batch);
        sf_i64 at = first * TILE + warp * (SPREAD * SF_ITEMS) + lane * SF_WIDTH;

        sf_vector next[SF_ITEMS];
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                next[i] = sf_load_vector(line, at + i * SPREAD, p.n, sf_along(p));
#if SF_RUN && !SF_PARTIAL
        sf_acc *room = turns + sf_narrow_room(SF_THREADS, SF_COLUMNS, (int)p.number[2]);
        sf_preload<SF_RUN, SF_THREADS / SPAN, SHARE>(totals, SF_COLUMNS, chunk, (int)p.number[1], thread / SPAN, room, counter, SF_COLUMNS);
#elif !SF_PARTIAL
        sf_look_up<SF_THREADS / SPAN, SHARE>(totals, SF_COLUMNS, chunk, (int)p.number[1], thread / SPAN, counter, SF_COLUMNS);
#endif

        for (sf_i64 done = 0; done < tiles; done++, at += ON * TILE) {
                sf_i64 t = first + ON * done;
                sf_acc v[SF_ITEMS][SF_WIDTH], total[SHARE], *turn = turns + (t & 1) * (WARPS * SF_COLUMNS);
                sf_elements<SF_COLUMNS>(p, next, at, SPREAD, 1, v);
#if !SF_PARTIAL
                sf_results with[SF_ITEMS];
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        with[i] = sf_fresh_results(line, at + i * SPREAD, p.n, p.n - 1, sf_along(p));
                        sf_keep_results(next[i], with[i]);
                }
#endif
                if (done + 1 < tiles)
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                next[i] = sf_load_vector(line, at + ON * TILE + i * SPREAD, p.n, sf_along(p));
#if SF_PARTIAL
                sf_fold_warp<SF_COLUMNS>(v, lane, total);
                if (lane < SPAN)
                        sf_enter(turn + warp * SF_COLUMNS, total);
                sf_sync_block();
                if (thread < SPAN) {
                        sf_groups<WARPS, SHARE>::fold(turn, SF_COLUMNS, total);
                        sf_count_back(counter, SF_COLUMNS, done, total);
                        if (done == tiles - 1)
                                sf_enter(totals + (sf_i64)chunk * SF_COLUMNS, total);
                }
#else
                sf_parked parked;
                const bool whole = sf_scan_warp<32, SF_COLUMNS, false>(v, lane, identity, parked, [=, &p](sf_acc(&again)[SF_ITEMS][SF_WIDTH]) {
                        sf_vector raw[SF_ITEMS];
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                raw[i] = sf_load_vector(line, at + i * SPREAD, p.n, sf_along(p));
                        sf_elements<SF_COLUMNS>(p, raw, at, SPREAD, 1, again);
                });
                sf_before<SHARE> before = sf_none_before<SHARE>();
                sf_last<SF_COLUMNS>(v, total);
                if (lane >= 32 - SPAN)
                        sf_enter(turn + warp * SF_COLUMNS, total);
                sf_sync_block();
                sf_levels<WARPS / 2, SHARE>::take(turn, SF_COLUMNS, warp, v, before);
                sf_take_tiles<false>(counter, SF_COLUMNS, t, warp == WARPS - 1 && lane >= 32 - SPAN, v,
                              before);
                sf_take_lefts(p, line, own * SHARE, SF_COLUMNS, v, before);
                sf_answer result[SF_ITEMS][SF_WIDTH];
                sf_finish<32, SF_COLUMNS, SPREAD>(p, line, at, p.n, t + 1 == p.number[0], v, before, whole, parked, lane, result);
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_store_vector(p, line, at + i * SPREAD, p.n, sf_along(p), result[i],
                                        with[i]);
#endif
        }
}
