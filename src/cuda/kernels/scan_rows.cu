/*
 * scan_rows.cu: scans along an axis whose elements are contiguous, or at any one stride.
 *
 * A team of SF_TEAM threads (a power of two: lanes of a warp, or several warps) goes through one
 * sequence, tile by tile. The next tile is loaded into registers while this one is computed. The
 * total of a tile goes into a binary counter (core/order.h), of which every warp has its own copy.
 * A team no larger than a warp needs no barrier, and has SF_ROWS sequences at once, so that enough
 * loads are under way. Memory is fastest with many reads in a row, then many writes, so a tile is
 * as large as the registers allow.
 *
 * SF_STAGED: the tensor is contiguous, but its sequences are short, or are the columns of small
 * matrices, so that vectors of 16 bytes do not begin where sequences do. Then what a block has is
 * moved as one piece of memory to shared memory, scanned there, and moved back; SF_WIDTH is 1. A
 * unit is a sequence or a small matrix. number[1]: units of a block. number[3]: sequences of each.
 * SF_STAGED > 1: these may be more than the block holds at once.
 *
 * SF_CUTS: a unit is one of the blocks of a sequence (sf_rising), all of them in one tile.
 *
 * number[0]: tiles of a sequence. units: sequences in all.
 */
enum {
        LANES = SF_TEAM < 32 ? SF_TEAM : 32,
        WARPS = SF_TEAM < 32 ? 1 : SF_TEAM / 32,
        TEAMS = SF_THREADS / SF_TEAM,
        TILE = SF_TEAM * SF_ITEMS * SF_WIDTH,
        SPREAD = LANES * SF_WIDTH, /* elements from one item of a thread to its next item */
        /* For products, a condition before every load costs too much: there is one for the tile. */
        ASKS_ONCE = SF_PRODUCTS,
};

#if SF_STAGED
/* As sf_load_vector, for one element in shared memory. `step`: elements from one to the next. All
 * items but the last exist, or no sequence does, and then they are those of another. An index past
 * the end loads the first element, and nobody uses it: a condition before the load would be a
 * branch, and the next load would have to wait for it. */
SF_DEVICE sf_vector sf_load_staged(const sf_line &line, int item, int index, int end, int step)
{
        sf_vector v;
        const bool there = item + 1 < SF_ITEMS || index < end;
        sf_shared_glance((const unsigned char *)line.x + (there ? index : 0) * step * SF_IN_SIZE, v.x, there && end > 0);
#if SF_PRODUCTS
#pragma unroll
        for (int w = 0; w < (int)(sizeof v.x.w / 4); w++)
                v.x.w[w] = there ? v.x.w[w] : sf_blank(w);
#endif
        return v;
}
SF_DEVICE void sf_store_staged(const sf_line &line, int item, int index, int end, int step, const sf_answer (&v)[SF_WIDTH])
{
        if (item + 1 < SF_ITEMS ? end > 0 : index < end)
                sf_shared_store((unsigned char *)line.y + index * step * SF_OUT_SIZE,
                                sf_one_slot<SF_OUT_SIZE>(sf_narrow(v[0])));
}
#define LOAD(line, index, end, by) sf_load_staged(line, i, (int)(index), (int)(end), step)
#else
#define LOAD sf_load_vector
#endif

#if SF_UNLIFTED
/* Uses what has just been read, so that nothing after a branch has to wait for it: it would wait for
 * the loads of the next tile too. H200, cumprod of (16384, 16384) bf16, share of plain
 * multiplication: 0.91, without 0.89. */
SF_DEVICE void sf_use_now(sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        sf_number one = 1;
        one = sf_anew(one);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j].mantissa = sf_multiply(v[i][j].mantissa, one);
}
#else
template <class V> SF_DEVICE void sf_use_now(V &) {}
#endif

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        int thread = sf_thread(), lane = thread & 31, member = thread & (SF_TEAM - 1), warp = member / 32, team = thread / SF_TEAM;
        sf_acc identity = sf_acc_of(p.identity);
        /* SF_THREADS / 32 totals for tiles with even numbers, and as many for odd ones. */
        sf_acc *totals = (sf_acc *)sf_shared() + team * WARPS;

        /* A team without a sequence runs the same code with a sequence of no elements. */
        sf_line line[SF_ROWS];
        sf_i64 end[SF_ROWS];
        int early[SF_ROWS] = {};
#if SF_STAGED
        const int n = (int)p.n, inner = (int)p.number[3], step = SF_X_UNIT ? SF_X_UNIT : p.sx < 0 ? -inner : inner;
        /* top: the block's first unit. back: how many elements a reversed sequence's first element
         * is above its lowest address. */
        const sf_i64 top = sf_block() * p.number[1];
        const int most = (int)p.number[1] * inner, back = p.sx < 0 ? (n - 1) * inner : 0;
        const int sequences = p.units - top * inner < most ? (int)(p.units - top * inner) : most;
        const sf_i64 first = top * n * inner - back;
        unsigned char *in = sf_shared() + ((sf_u64)(p.x + first * SF_IN_SIZE) & 15), *out = in;
        if (SF_IN_SIZE != SF_OUT_SIZE)
                out = sf_shared() + sf_rows_staged(most * n * SF_IN_SIZE) + ((sf_u64)(p.y + first * SF_OUT_SIZE) & 15);
        sf_fetch_piece<SF_IN_SIZE>(p.x + first * SF_IN_SIZE, sequences * n, in);
        sf_copy_commit();
        sf_copy_wait<0>();
        sf_sync_block();
#else
        enum { sequences = 1 };
#endif
        for (int base = 0; base < (SF_STAGED > 1 ? (int)sequences : 1); base += SF_ROWS * TEAMS) {
#if SF_STAGED
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
                        const int own = base + q * TEAMS + team, sequence = own < sequences ? own : 0;
                        const int at = sf_unit_of(p, sequence, inner) * (n - 1) * inner + sequence + back;
                        end[q] = own < sequences ? n : 0;
                        line[q].x = (const char *)in + at * SF_IN_SIZE;
                        line[q].y = (char *)out + at * SF_OUT_SIZE;
                }
#else
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
                        sf_i64 row = (sf_block() * SF_ROWS + q) * TEAMS + team;
                        end[q] = row < p.units ? p.n : 0;
#if SF_CUTS
                        sf_i64 begin, length, batch = sf_divide(row < p.units ? row : 0, p.iy);
                        sf_i64 block = row < p.units ? row - batch * p.iy : 0, number = block;
                        sf_rising_at(p.inner, p.n, 62, &number, &begin, &length); /* a tile for each */
                        end[q] = row < p.units ? length : 0;
                        line[q] = sf_moved(sf_batch_line(p, batch), begin, sf_along(p));
                        line[q].left += block * p.ix;
#else
                        line[q] = sf_batch_line(p, row < p.units ? row : 0);
#endif
#if SF_EARLY
                        early[q] = sf_begin_early(line[q]);
                        end[q] += row < p.units ? early[q] : 0;
#endif
                }
#endif

                sf_i64 at = warp * (SPREAD * SF_ITEMS) + (member & (LANES - 1)) * SF_WIDTH;
                sf_vector next[SF_ROWS][SF_ITEMS];
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++)
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                next[q][i] = LOAD(line[q], at + i * SPREAD, end[q], sf_along(p));

                sf_counter counter[SF_ROWS];
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++)
                        counter[q].entry = identity;

                sf_i64 tiles = SF_SINGLE ? 1 : p.number[0];
                for (sf_i64 t = 0; t < tiles; t++, at += TILE) {
                        sf_acc v[SF_ROWS][SF_ITEMS][SF_WIDTH];
#pragma unroll
                        for (int q = 0; q < SF_ROWS; q++) {
                                sf_elements<1>(p, next[q], at - early[q], SPREAD, 1, v[q]);
#if SF_EARLY
                                sf_clear_early(v[q], at, SPREAD, early[q], sf_neutral(p));
#endif
                        }
                        sf_results with[SF_ROWS][SF_ITEMS];
#pragma unroll
                        for (int q = 0; q < SF_ROWS; q++)
#pragma unroll
                                for (int i = 0; i < SF_ITEMS; i++) {
                                        with[q][i] = sf_fresh_results(line[q], at + i * SPREAD, end[q], end[q] - 1, sf_along(p));
                                        sf_keep_results(next[q][i], with[q][i]);
                                }
                        if (!SF_SINGLE && t + 1 < tiles)
#pragma unroll
                                for (int q = 0; q < SF_ROWS; q++)
                                        if (ASKS_ONCE && at + TILE + (SF_ITEMS - 1) * SPREAD + SF_WIDTH <= end[q])
#pragma unroll
                                                for (int i = 0; i < SF_ITEMS; i++)
                                                        next[q][i] = sf_load_vector(line[q], at + TILE + i * SPREAD, at + TILE + i * SPREAD + SF_WIDTH, sf_along(p));
                                        else
#pragma unroll
                                                for (int i = 0; i < SF_ITEMS; i++)
                                                        next[q][i] = sf_load_vector(line[q], at + TILE + i * SPREAD, end[q], sf_along(p));
#pragma unroll
                        for (int q = 0; q < SF_ROWS; q++) {
                                sf_before<1> before = sf_none_before<1>();
                                sf_parked parked;
                                const bool whole = sf_scan_warp<LANES, 1, SF_PRODUCTS>(v[q], lane, sf_acc_of(p.neutral), parked, [=, &p](sf_acc(&again)[SF_ITEMS][SF_WIDTH]) {
                                        sf_vector raw[SF_ITEMS];
#pragma unroll
                                        for (int i = 0; i < SF_ITEMS; i++)
                                                raw[i] = LOAD(line[q], at + i * SPREAD, end[q], sf_along(p));
                                        sf_elements<1>(p, raw, at, SPREAD, 1, again);
                                        sf_use_now(again);
                                });
                                sf_acc total;
                                if (WARPS > 1) {
                                        sf_acc *turn = totals + (t & 1) * (SF_THREADS / 32);
                                        if (lane == 31)
                                                turn[warp] = sf_settled(v[q][SF_ITEMS - 1][SF_WIDTH - 1]);
                                        sf_sync_block();
                                        total = sf_scan_warps<WARPS>(v[q], turn, warp, lane, before);
                                } else {
                                        total = sf_of_lane<LANES>(v[q][SF_ITEMS - 1][SF_WIDTH - 1], (lane & -LANES) + LANES - 1);
                                }
                                if (!SF_SINGLE && SF_OWES) {
                                        /* Any grouping gives the same bits: one total of all tiles so far
                                         * is enough. */
                                        sf_acc left[1] = {counter[q].entry};
                                        if (t)
                                                sf_take_all(left, v[q], before);
                                        counter[q].entry = t ? sf_combine(left[0], total) : total;
                                } else if (!SF_SINGLE) {
                                        for (int k = 0; t >> k; k++) {
                                                sf_acc left[1] = {sf_shuffle(counter[q].entry, k)};
                                                if (t >> k & 1)
                                                        sf_take_all(left, v[q], before);
                                        }
                                        sf_count(counter[q], t, total, lane);
                                }
                                sf_take_lefts(p, line[q], 0, 1, v[q], before);
                                sf_answer result[SF_ITEMS][SF_WIDTH];
                                sf_finish<LANES, 1, SPREAD>(p, line[q], at, end[q], t + 1 == tiles && end[q], v[q], before, whole, parked, lane, result);
#if SF_STAGED
#pragma unroll
                                for (int i = 0; i < SF_ITEMS; i++)
                                        sf_store_staged(line[q], i, (int)at + i * SPREAD, (int)end[q], step, result[i]);
#else
                                sf_store_vectors<LANES, SPREAD>(p, line[q], at, end[q], result, with[q], lane, early[q]);
#endif
                        }
                }
        }
#if SF_STAGED
        sf_sync_block();
        sf_store_piece<SF_OUT_SIZE>(p.y + first * SF_OUT_SIZE, sequences * n, out);
#endif
}
