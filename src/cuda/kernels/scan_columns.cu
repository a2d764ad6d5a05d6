/*
 * scan_columns.cu: scans down an axis while the neighbours in memory belong to the next columns.
 *
 * A block walks a strip of columns tile by tile. A row of the strip is SLOTS vectors wide; SF_GROUPS groups of SLOTS
 * threads each hold SF_ITEMS consecutive rows of the tile, one vector a row, so a thread adds up rows in registers, and
 * groups exchange totals through shared memory. The next tile is on its way meanwhile. Block totals wait in a binary
 * counter in shared memory, one for each column; the last group keeps it.
 *
 * SF_STAGED > 0: the rows of a narrow matrix lie one after the other, so a tile is one piece of memory. It is then moved in
 * vectors of 16 bytes, whatever the rows' length, through as many buffers in shared memory, and scanned there in place.
 *
 * SF_SLOTS: vectors a row, or 0: number[2] says (a narrow matrix, whatever its width).
 * number[0]: tiles a sequence has; number[1]: strips a row has; number[2]: vectors a row of the strip.
 * units: batch positions times strips. inner: columns in all.
 */
enum { ROWS = SF_ITEMS * SF_GROUPS };

#if SF_SLOTS
#define SLOTS SF_SLOTS
#else
#define SLOTS ((int)p.number[2])
#endif

#if SF_STAGED
/* Elements of tile t. */
SF_DEVICE int sf_length(const sf_params &p, sf_i64 t, int pitch)
{
        sf_i64 rows = p.n - t * ROWS;
        return (int)(rows < ROWS ? rows : ROWS) * pitch;
}

SF_DEVICE void sf_stage_tile(const sf_params &p, const char *x, sf_i64 t, int pitch, unsigned char *buffer)
{
        if (t < p.number[0])
                sf_fetch_piece<SF_IN_SIZE>(x + t * ROWS * pitch * SF_IN_SIZE, sf_length(p, t, pitch), buffer);
        sf_copy_commit();
}
#endif

SF_KERNEL scanfold_kernel(const __grid_constant__ sf_params p)
{
        int thread = sf_thread(), group = thread / SLOTS, slot = thread - group * SLOTS, pitch = SLOTS * SF_WIDTH;
        sf_acc identity = sf_acc_of(p.identity);
        unsigned char *buffers = sf_shared(); /* SF_STAGED tiles */
        sf_acc *totals = (sf_acc *)(buffers + SF_STAGED * ROWS * pitch * SF_IN_SIZE) + slot * SF_WIDTH; /* two turns of SF_GROUPS rows */
        sf_acc *counter = totals + 2 * SF_GROUPS * pitch;          /* a row for each level */

        sf_i64 batch = sf_divide(sf_block(), p.number[1]);
        sf_i64 column = (sf_block() - batch * p.number[1]) * pitch + slot * SF_WIDTH;
        bool works = group < SF_GROUPS && column < p.inner;
        sf_line line = sf_batch_line(p, batch);
        sf_i64 row = (sf_i64)group * SF_ITEMS;
        sf_i64 end = works ? p.n : 0;

#if SF_STAGED
        for (int k = 0; k < SF_STAGED - 1; k++)
                sf_stage_tile(p, line.x, k, pitch, buffers + k * (ROWS * pitch * SF_IN_SIZE));
        int turn_in = 0;
#else
        sf_vector next[SF_ITEMS];
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                next[i] = sf_no_vector();
                if (row + i < end)
                        next[i] = sf_load_vector(sf_moved(line, row + i, sf_along(p)), column, p.inner, sf_across(p));
        }
#endif

        sf_i64 tiles = SF_SINGLE ? 1 : p.number[0];
        for (sf_i64 t = 0; t < tiles; t++, row += ROWS) {
                sf_acc v[SF_ITEMS][SF_WIDTH];
#if SF_STAGED
                /* What this barrier also says: all have stored the tile before, so its buffer may be filled again. */
                sf_copy_wait<SF_STAGED - 2>();
                sf_sync_block();
                unsigned char *buffer = buffers + turn_in * (ROWS * pitch * SF_IN_SIZE);
                sf_stage_tile(p, line.x, t + SF_STAGED - 1, pitch, buffers + (turn_in ? turn_in - 1 : SF_STAGED - 1) * (ROWS * pitch * SF_IN_SIZE));
                turn_in = turn_in + 1 == SF_STAGED ? 0 : turn_in + 1;
                unsigned char *own = buffer + (group * SF_ITEMS * pitch + slot * SF_WIDTH) * SF_IN_SIZE;
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        sf_vector raw = sf_no_vector();
                        if (row + i < end)
                                sf_shared_load(own + i * pitch * SF_IN_SIZE, raw.x);
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                v[i][j] = sf_element(p, raw, j, identity);
                }
#else
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                v[i][j] = sf_element(p, next[i], j, identity);
                sf_results with[SF_ITEMS];
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        if (row + i < end)
                                with[i] = sf_load_results(sf_moved(line, row + i, sf_along(p)), column, p.inner, sf_across(p));
                if (!SF_SINGLE && t + 1 < tiles)
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                if (row + ROWS + i < end)
                                        next[i] = sf_load_vector(sf_moved(line, row + ROWS + i, sf_along(p)), column, p.inner, sf_across(p));
#endif

                /* Rows of a thread. */
#pragma unroll
                for (int b = 1; b < SF_ITEMS; b *= 2)
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                if (i & b)
                                        sf_take_left(v[(i & -b) - 1 < 0 ? 0 : (i & -b) - 1], v[i]);

                /* Groups of the tile. */
                sf_before<SF_WIDTH> before;
                before.any = false;
                if (SF_GROUPS > 1) {
                        sf_acc *turn = totals + (t & 1) * (SF_GROUPS * pitch);
                        if (works)
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        turn[group * pitch + j] = v[SF_ITEMS - 1][j];
                        sf_sync_block();
                        if (works)
                                sf_levels<SF_GROUPS / 2, SF_WIDTH>::take(turn, pitch, group, v, before);
                }

                /* Tiles of the sequence. Entry k of the counter is rewritten only after a barrier that follows its last use. */
                if (!SF_SINGLE && works) {
                        sf_acc total[SF_WIDTH];
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                total[j] = v[SF_ITEMS - 1][j];
                        bool carries = true;
                        int k = 0;
                        for (; t >> k; k++) {
                                if (!(t >> k & 1)) {
                                        if (carries && group == SF_GROUPS - 1)
#pragma unroll
                                                for (int j = 0; j < SF_WIDTH; j++)
                                                        counter[k * pitch + j] = total[j];
                                        carries = false;
                                        continue;
                                }
                                sf_acc left[SF_WIDTH];
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        left[j] = counter[k * pitch + j];
                                sf_take_all(left, v, before);
                                if (carries)
                                        sf_take_left(left, total);
                        }
                        if (carries && group == SF_GROUPS - 1)
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        counter[k * pitch + j] = total[j];
                }

#if SF_EXCLUSIVE
#pragma unroll
                for (int i = SF_ITEMS - 1; i >= 0; i--)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                v[i][j] = i ? v[i ? i - 1 : 0][j] : before.any ? before.e[j] : identity;
#endif
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        if (row + i < end) {
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        v[i][j] = sf_begin(p, v[i][j]);
#if SF_STAGED
                                sf_raw<SF_WIDTH * SF_OUT_SIZE> r;
                                r.w[0] = 0;
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        sf_set_slot<SF_OUT_SIZE>(r, j, sf_narrow(v[i][j]));
                                sf_shared_store(own + i * pitch * SF_IN_SIZE, r);
#else
                                sf_store_vector(p, sf_moved(line, row + i, sf_along(p)), column, p.inner, sf_across(p), v[i], with[i]);
#endif
                        }
#if SF_STAGED
                sf_sync_block();
                sf_store_piece<SF_OUT_SIZE>(line.y + t * ROWS * pitch * SF_OUT_SIZE, sf_length(p, t, pitch), buffer);
#endif
        }
}
