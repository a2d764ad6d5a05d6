/*
 * scan_rows.cu: scans along an axis whose neighbours lie next to each other, or at any one stride.
 *
 * SF_TEAM threads (a power of two: lanes of a warp, or several warps) walk one sequence tile by tile, the next tile on its
 * way in registers while this one is added up; a tile's total goes into a binary counter every warp keeps for itself.
 * Teams no larger than a warp never meet a barrier, and hold SF_ROWS sequences at once to keep enough bytes under way.
 * Long bursts of reads, then of writes, are what the memory likes: a tile is as large as the registers allow.
 *
 * SF_STAGED: short rows lie one after the other but not so that vectors of 16 bytes begin with them. A block's rows are then one
 * piece of memory, moved as such through shared memory and scanned there in place; SF_WIDTH is 1.
 *
 * number[0]: tiles a sequence has.
 */
enum {
        LANES = SF_TEAM < 32 ? SF_TEAM : 32,
        WARPS = SF_TEAM < 32 ? 1 : SF_TEAM / 32,
        TEAMS = SF_THREADS / SF_TEAM,
        TILE = SF_TEAM * SF_ITEMS * SF_WIDTH,
        SPREAD = LANES * SF_WIDTH, /* elements from a thread's item to its next */
        /* Products leave no room for a question before every load: one is asked for the tile. */
        ASKS_ONCE = SF_PRODUCTS,
};

#if SF_STAGED
/* As sf_load_vector and sf_store_vector, of one element, in shared memory. */
SF_DEVICE sf_vector sf_load_staged(const sf_line &line, sf_i64 index, sf_i64 end)
{
        sf_vector v = sf_no_vector();
        if (index < end)
                sf_shared_load((const unsigned char *)line.x + SF_X_UNIT * (int)index * SF_IN_SIZE, v.x);
        return v;
}
SF_DEVICE void sf_store_staged(const sf_line &line, sf_i64 index, sf_i64 end, const sf_acc (&v)[SF_WIDTH])
{
        sf_raw<SF_OUT_SIZE> r;
        r.w[0] = 0;
        sf_set_slot<SF_OUT_SIZE>(r, 0, sf_narrow(sf_holds::lower(v[0])));
        if (index < end)
                sf_shared_store((unsigned char *)line.y + SF_X_UNIT * (int)index * SF_OUT_SIZE, r);
}
#define LOAD(line, index, end, by) sf_load_staged(line, index, end)
#define STORE(p, line, index, end, by, v, with) sf_store_staged(line, index, end, v)
#else
#define LOAD sf_load_vector
#define STORE sf_store_vector
#endif

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        int thread = sf_thread(), lane = thread & 31, member = thread & (SF_TEAM - 1), warp = member / 32, team = thread / SF_TEAM;
        sf_acc identity = sf_acc_of(p.identity);
        sf_acc *totals = (sf_acc *)sf_shared() + team * WARPS; /* two turns of SF_THREADS / 32 */

        /* A team without a sequence of its own walks along with nothing to load or store. */
        sf_line line[SF_ROWS];
        sf_i64 end[SF_ROWS];
#pragma unroll
        for (int q = 0; q < SF_ROWS; q++) {
                sf_i64 row = (sf_block() * SF_ROWS + q) * TEAMS + team;
                end[q] = row < p.units ? p.n : 0;
                line[q] = sf_batch_line(p, row < p.units ? row : 0);
        }

#if SF_STAGED
        sf_i64 top = sf_block() * (SF_ROWS * TEAMS); /* the block's first row; where rows run backwards they end where they begin */
        int length = (int)((p.units - top < SF_ROWS * TEAMS ? p.units - top : SF_ROWS * TEAMS) * p.n);
        sf_i64 piece = (top * p.n - (SF_X_UNIT < 0 ? p.n - 1 : 0)) * SF_IN_SIZE;
        sf_fetch_piece<SF_IN_SIZE>(p.x + piece, length, sf_shared());
        sf_copy_commit();
        sf_copy_wait<0>();
        sf_sync_block();
#pragma unroll
        for (int q = 0; q < SF_ROWS; q++) {
                unsigned char *own = sf_shared() + ((q * TEAMS + team) * p.n + (SF_X_UNIT < 0 ? p.n - 1 : 0)) * SF_IN_SIZE;
                line[q].x = (const char *)own;
                line[q].y = (char *)own;
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
                for (int q = 0; q < SF_ROWS; q++)
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                sf_elements(p, next[q][i], v[q][i]);
                sf_results with[SF_ROWS][SF_ITEMS];
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++)
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                with[q][i] = sf_load_results(line[q], at + i * SPREAD, end[q], sf_along(p));
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
                        sf_before<1> before = {{identity}, false};
                        sf_scan_warp<LANES, 1, SF_PRODUCTS>(v[q], lane, sf_acc_of(p.neutral));
                        sf_acc total;
                        if (WARPS > 1) {
                                sf_acc *turn = totals + (t & 1) * (SF_THREADS / 32);
                                if (lane == 31)
                                        turn[warp] = sf_settled(v[q][SF_ITEMS - 1][SF_WIDTH - 1]);
                                sf_sync_block();
                                total = sf_scan_warps<WARPS>(v[q], turn, warp, lane, before);
                        } else {
                                total = sf_shuffle(v[q][SF_ITEMS - 1][SF_WIDTH - 1], (lane & -LANES) + LANES - 1);
                        }
                        if (!SF_SINGLE) {
                                for (int k = 0; t >> k; k++) {
                                        sf_acc left[1] = {sf_shuffle(counter[q].entry, k)};
                                        if (t >> k & 1)
                                                sf_take_all(left, v[q], before);
                                }
                                sf_count(counter[q], t, total, lane);
                        }
                        sf_spread<1>(v[q]);
#if SF_TOTAL
                        if (t + 1 == tiles && end[q])
                                sf_store_totals<1, SPREAD>(p, line[q], at, end[q], v[q]);
#endif
                        sf_shift<LANES, 1>(v[q], lane, before, identity);
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++) {
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        v[q][i][j] = sf_begin(p, v[q][i][j]);
                                STORE(p, line[q], at + i * SPREAD, end[q], sf_along(p), v[q][i], with[q][i]);
                        }
                }
        }
#if SF_STAGED
        sf_sync_block();
        sf_store_piece<SF_OUT_SIZE>(p.y + piece, length, sf_shared());
#endif
}
