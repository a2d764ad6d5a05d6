/*
 * scan_totals.cu: runs between the two launches of a scan in chunks. It replaces the total of each
 * chunk by the total of the largest aligned block of chunks that ends with it. All chunks before a
 * chunk together are then one total for each bit set in its number.
 *
 * A warp has SF_ITEMS chunks of 32 columns, a column for each lane; a block has all their chunks.
 *
 * scratch: for each batch position, chunk by chunk, a total for each column. inner: columns.
 * number[0]: chunks.
 */
enum { WARPS = SF_THREADS / 32 };
static_assert(SF_ITEMS <= SF_LOOSE, "a thread's totals are multiplied unsettled");

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        int lane = sf_thread() & 31, warp = sf_thread() / 32, first = warp * SF_ITEMS;
        sf_i64 strips = (p.inner + 31) / 32, batch = sf_divide(sf_block(), strips), column = (sf_block() - batch * strips) * 32 + lane;
        sf_acc *totals = (sf_acc *)p.scratch + batch * p.number[0] * p.inner + column, *shared = (sf_acc *)sf_shared() + lane;
        int count = column < p.inner ? (int)p.number[0] - first : 0;
        sf_acc v[SF_ITEMS];
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                v[i] = sf_acc_of(p.neutral);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                if (i < count)
                        v[i] = totals[(first + i) * p.inner];
#pragma unroll
        for (int b = 1; b < SF_ITEMS; b *= 2)
#pragma unroll
                for (int i = 2 * b - 1; i < SF_ITEMS; i += 2 * b) {
                        v[i] = sf_combine(v[i - b], v[i]);
                        if (SF_LIMITS && b == 4) /* exponents may be limited (sf_settled) */
                                v[i] = sf_settled(v[i]);
                }
        shared[warp * 32] = sf_settled(v[SF_ITEMS - 1]);
        sf_sync_block();
#pragma unroll
        for (int b = 1; b < WARPS; b *= 2) {
                if (!(~warp & (2 * b - 1)))
                        shared[warp * 32] = sf_settled(sf_combine(shared[(warp - b) * 32], shared[warp * 32]));
                sf_sync_block();
        }
        v[SF_ITEMS - 1] = shared[warp * 32];
#pragma unroll
        for (int i = 1; i < SF_ITEMS; i += 2)
                if (i < count)
                        totals[(first + i) * p.inner] = sf_settled(v[i]);
}
