/*
 * scan_rows.cu: scans along an axis whose neighbours lie next to each other, or at any one stride.
 *
 * SF_TEAM threads (a power of two: lanes of a warp, or several warps) walk one sequence tile by tile, the next tile on its
 * way in registers while this one is added up; a tile's total goes into a binary counter every warp keeps for itself.
 * Teams no larger than a warp never meet a barrier, and hold SF_ROWS sequences at once to keep enough bytes under way.
 * Long bursts of reads, then of writes, are what the memory likes: a tile is as large as the registers allow.
 *
 * number[0]: tiles a sequence has.
 */
enum {
        LANES = SF_TEAM < 32 ? SF_TEAM : 32,
        WARPS = SF_TEAM < 32 ? 1 : SF_TEAM / 32,
        TEAMS = SF_THREADS / SF_TEAM,
        TILE = SF_TEAM * SF_ITEMS * SF_WIDTH,
        SPREAD = LANES * SF_WIDTH, /* elements from a thread's item to its next */
};

SF_KERNEL scanfold_kernel(const __grid_constant__ sf_params p)
{
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

        sf_i64 at = warp * (SPREAD * SF_ITEMS) + (member & (LANES - 1)) * SF_WIDTH;
        sf_vector next[SF_ROWS][SF_ITEMS];
#pragma unroll
        for (int q = 0; q < SF_ROWS; q++)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        next[q][i] = sf_load_vector(line[q], at + i * SPREAD, end[q], p.sx, p.sm);

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
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        v[q][i][j] = sf_element(next[q][i], j, identity);
                if (!SF_SINGLE && t + 1 < tiles)
#pragma unroll
                        for (int q = 0; q < SF_ROWS; q++)
#pragma unroll
                                for (int i = 0; i < SF_ITEMS; i++)
                                        next[q][i] = sf_load_vector(line[q], at + TILE + i * SPREAD, end[q], p.sx, p.sm);
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
                        sf_before<1> before = {{identity}, false};
                        sf_scan_warp<LANES, 1>(v[q], lane);
                        sf_acc total;
                        if (WARPS > 1) {
                                sf_acc *turn = totals + (t & 1) * (SF_THREADS / 32);
                                if (lane == 31)
                                        turn[warp] = v[q][SF_ITEMS - 1][SF_WIDTH - 1];
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
                        sf_shift<LANES, 1>(v[q], lane, before, identity);
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++) {
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        v[q][i][j] = sf_begin(p, v[q][i][j]);
                                sf_store_vector(line[q], at + i * SPREAD, end[q], p.sy, v[q][i]);
                        }
                }
        }
}
