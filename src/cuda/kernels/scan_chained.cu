/*
 * scan_chained.cu: scans of sequences so long, or so few, that one is shared by many blocks.
 *
 * A sequence is cut into tiles of an aligned power of two. Blocks claim tiles one by one, in order. A tile publishes its
 * total; the tile that closes a group of 32 publishes the group's, the one that closes 32 groups theirs, and so on, waiting
 * only for the totals of that group. A tile then needs one published total for each bit set in its number, and finds them
 * by reading at most 31 words of every level, all levels at once, and rebuilding the tree from them by shuffles.
 *
 * Between its load and its turn a tile waits some microseconds for others, so many bytes must be under way: a block keeps
 * SF_STAGES tiles in shared memory, every thread in slots only it reads, which therefore need no barrier. Tile i + SF_AHEAD
 * is folded, and its total published, while tile i is scanned and stored. SF_WATCHERS warps do nothing but publish and
 * look back. One barrier a tile hands over: tile numbers and totals of warps one way, what stands before a tile the other.
 *
 * SF_COLUMNS > 1: that many sequences lie interleaved, as the columns of a narrow matrix (or of a strip of a wide one);
 * every total is then that many. A tile is still so many elements. SF_FLAT: the elements of all columns lie in one line.
 *
 * scratch: a ticket (256 bytes), then for every line, level and group of 32: COLUMNS x WORDS x 32 words, flag and payload.
 * number[0]: tiles a line; number[1]: strips a batch position; number[2]: tiles in all; number[3]: groups a line.
 * units: lines, that is batch positions times strips.
 */
enum {
        SHARE = sf_columns<SF_COLUMNS>::SHARE,
        SPAN = sf_columns<SF_COLUMNS>::SPAN,
        WARPS = SF_THREADS / 32 - SF_WATCHERS,
        WORKERS = WARPS * 32,
        SPREAD = 32 * SF_WIDTH,
        TILE = WORKERS * SF_ITEMS * SF_WIDTH,
        X_BYTES = SF_WIDTH * SF_IN_SIZE,
        STAGE = SF_ITEMS * WORKERS * (X_BYTES + SF_MASK * SF_WIDTH),
        WORDS = sizeof(sf_acc) / 4,
        BITS = 5 * SF_DEPTH, /* of a tile's number */
        RING = 16,           /* tile numbers remembered: more than SF_STAGES + 2 */
};

/* Where a vector of a tile is: element `at` of the line, counting all columns. */
struct sf_place {
        sf_line line;
        sf_i64 index, end;
};

SF_DEVICE sf_place sf_place_of(const sf_params &p, const sf_line &line, sf_i64 column, sf_i64 at)
{
#if SF_FLAT
        (void)column;
        return sf_place{line, at, p.n * SF_COLUMNS};
#else
        sf_i64 row = at / SF_COLUMNS;
        column += at % SF_COLUMNS;
        if (row >= p.n)
                return sf_place{line, 0, 0};
        return sf_place{{line.x + row * p.sx, line.y + row * p.sy, line.m + row * p.sm}, column, p.inner};
#endif
}

#if SF_FLAT
#define STEP_X p.sx
#define STEP_Y p.sy
#define STEP_M p.sm
#else
#define STEP_X p.ix
#define STEP_Y p.iy
#define STEP_M p.im
#endif

/* The line a tile belongs to, its first column there, and its number in it. */
struct sf_tile {
        sf_line line;
        sf_i64 column, number, unit;
};

SF_DEVICE sf_tile sf_tile_of(const sf_params &p, sf_i64 id)
{
        sf_tile t;
        t.unit = id < p.number[0] ? 0 : sf_divide(id, p.number[0]);
        t.number = id - t.unit * p.number[0];
        sf_i64 batch = p.number[1] > 1 ? sf_divide(t.unit, p.number[1]) : t.unit;
        t.column = (t.unit - batch * p.number[1]) * SF_COLUMNS;
        t.line = sf_batch_line(p, batch);
        return t;
}

/* ------------------------------------------------------------------------------------------------------------
 * Workers
 * ---------------------------------------------------------------------------------------------------------- */
SF_DEVICE unsigned char *sf_x_slot(int stage, int item, int thread)
{
        return sf_shared() + stage * STAGE + (item * WORKERS + thread) * X_BYTES;
}
SF_DEVICE unsigned char *sf_m_slot(int stage, int item, int thread)
{
        return sf_shared() + stage * STAGE + SF_ITEMS * WORKERS * X_BYTES + (item * WORKERS + thread) * SF_WIDTH;
}

/* WHOLE: the tile has all its elements, as every one but a line's last has. */
template <bool WHOLE> SF_DEVICE void sf_stage(const sf_params &p, const sf_tile &tile, sf_i64 at, int stage, int thread)
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_place o = sf_place_of(p, tile.line, tile.column, at + i * SPREAD);
                if (WHOLE || o.index + SF_WIDTH <= o.end) {
                        sf_copy_async<X_BYTES>(sf_x_slot(stage, i, thread), o.line.x + sf_vector_offset<SF_X_UNIT, SF_IN_SIZE>(o.index, STEP_X));
#if SF_MASK && SF_M_UNIT
                        sf_copy_async<SF_WIDTH>(sf_m_slot(stage, i, thread), o.line.m + sf_vector_offset<SF_M_UNIT, 1>(o.index, STEP_M));
#elif SF_MASK
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                sf_copy_async<1>(sf_m_slot(stage, i, thread) + j, o.line.m + (o.index + j) * STEP_M);
#endif
                }
#if SF_RAGGED
                else if (o.index < o.end) {
                        sf_vector v = sf_load_vector(o.line, o.index, o.end, STEP_X, STEP_M);
                        sf_shared_store(sf_x_slot(stage, i, thread), v.x);
#if SF_MASK
                        sf_shared_store(sf_m_slot(stage, i, thread), v.m);
#endif
                }
#endif
        }
}

SF_DEVICE bool sf_is_whole(const sf_params &p, const sf_tile &tile)
{
        return (tile.number + 1) * (TILE / SF_COLUMNS) <= p.n && (SF_FLAT || tile.column + SF_COLUMNS <= p.inner);
}

SF_DEVICE void sf_stage_tile(const sf_params &p, sf_i64 id, sf_i64 mine, int stage, int thread)
{
        if (id < p.number[2]) {
                sf_tile tile = sf_tile_of(p, id);
                if (sf_is_whole(p, tile))
                        sf_stage<true>(p, tile, tile.number * TILE + mine, stage, thread);
                else
                        sf_stage<false>(p, tile, tile.number * TILE + mine, stage, thread);
        }
        sf_copy_commit();
}

template <bool WHOLE>
SF_DEVICE void sf_store_tile(const sf_params &p, const sf_tile &tile, sf_i64 mine, const sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_place o = sf_place_of(p, tile.line, tile.column, tile.number * TILE + mine + i * SPREAD);
                sf_store_vector(o.line, o.index, WHOLE ? o.index + SF_WIDTH : o.end, STEP_Y, v[i]);
        }
}

SF_DEVICE void sf_unstage(int stage, int thread, sf_acc identity, sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_vector raw;
                sf_shared_load(sf_x_slot(stage, i, thread), raw.x);
#if SF_MASK
                sf_shared_load(sf_m_slot(stage, i, thread), raw.m);
#endif
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j] = sf_element(raw, j, identity);
        }
}

/* The warp's total of what its threads hold; column (lane % SPAN) * SHARE + s is the lane's s-th. */
SF_DEVICE void sf_fold_warp(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc (&total)[SHARE])
{
#pragma unroll
        for (int b = SF_COLUMNS; b < SF_WIDTH; b *= 2)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                if (j % (2 * b) < SF_COLUMNS)
                                        v[i][j] = sf_combine(v[i][j], v[i][(j + b) % SF_WIDTH]);
#pragma unroll
        for (int s = 0; s < SHARE; s++) {
                sf_acc a[SF_ITEMS];
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        a[i] = v[i][s];
#if SF_COLUMNS == 1
                total[s] = sf_fold_lanes<32>(a, lane);
#else
#pragma unroll
                for (int b = SPAN; b < 32; b *= 2)
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                a[i] = sf_meet(a[i], lane, b);
#pragma unroll
                for (int b = 1; b < SF_ITEMS; b *= 2)
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                if (i % (2 * b) == 0 && i + b < SF_ITEMS)
                                        a[i] = sf_combine(a[i], a[(i + b) % SF_ITEMS]);
                total[s] = a[0];
#endif
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Watchers
 * ---------------------------------------------------------------------------------------------------------- */

/* The first word of the group that entry `index` of a level belongs to, in one column of one line. */
SF_DEVICE sf_u64 *sf_group_of(const sf_params &p, sf_i64 unit, int level, sf_i64 index, int column)
{
        sf_i64 group = unit * p.number[3], count = p.number[0];
        for (int l = 0; l < level; l++) {
                count = (count + 31) >> 5;
                group += count;
        }
        return (sf_u64 *)p.scratch + 32 + ((group + (index >> 5)) * SF_COLUMNS + column) * (WORDS * 32);
}

SF_DEVICE void sf_publish(sf_u64 *group, int entry, sf_acc v)
{
        sf_u64 bits = sf_bits_of_acc(v);
#pragma unroll
        for (int w = 0; w < WORDS; w++)
                sf_post(group + w * 32 + entry, 1ull << 32 | (sf_u32)(bits >> (32 * w)));
}

/* Entry `lane` of a group if it is there: flag and payload travel together, in every word. */
SF_DEVICE bool sf_look(const sf_u64 *group, int lane, sf_acc &v)
{
        sf_u64 bits = 0;
        bool there = true;
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
                sf_u64 word = sf_watch(group + w * 32 + lane);
                there = there && word >> 32;
                bits |= (word & 0xffffffffull) << (32 * w);
        }
        v = sf_acc_of(bits);
        return there;
}

/* Publishes a tile's total, and the totals of all groups the tile closes. */
SF_DEVICE void sf_announce(const sf_params &p, const sf_tile &tile, int column, sf_acc total, int lane)
{
        sf_i64 index = tile.number;
        if (index + 1 == p.number[0])
                return; /* nobody comes after it */
        for (int level = 0; level < SF_DEPTH; level++, index >>= 5) {
                sf_u64 *group = sf_group_of(p, tile.unit, level, index, column);
                if (lane == 0)
                        sf_publish(group, (int)(index & 31), total);
                if ((index & 31) != 31)
                        return;
                sf_acc v = total;
                bool there = lane == 31;
                while (sf_ballot(!there))
                        if (!there)
                                there = sf_look(group, lane, v);
#pragma unroll
                for (int b = 1; b < 32; b *= 2)
                        v = sf_meet(v, lane, b);
                total = v;
        }
}

/* before[k * SF_COLUMNS]: the total that the tile takes for bit k of its number. */
SF_DEVICE void sf_look_back(const sf_params &p, const sf_tile &tile, int column, sf_acc *before, int lane)
{
        sf_acc v[SF_DEPTH];
        bool there[SF_DEPTH];
#pragma unroll
        for (int l = 0; l < SF_DEPTH; l++) {
                v[l] = sf_acc_of(p.identity);
                there[l] = lane >= (int)(tile.number >> (5 * l) & 31);
        }
        for (bool all = false; !all;) {
                all = true;
#pragma unroll
                for (int l = 0; l < SF_DEPTH; l++)
                        if (!there[l]) {
                                there[l] = sf_look(sf_group_of(p, tile.unit, l, tile.number >> (5 * l), column), lane, v[l]);
                                all = all && there[l];
                        }
                all = !sf_ballot(!all);
        }
#pragma unroll
        for (int l = 0; l < SF_DEPTH; l++) {
                int mine = (int)(tile.number >> (5 * l) & 31);
#pragma unroll
                for (int k = 0; k < 5; k++) {
                        sf_acc left = sf_shuffle(v[l], ((lane & -(1 << k)) - 1) & 31);
                        if (lane == mine && (mine >> k & 1))
                                before[(5 * l + k) * SF_COLUMNS] = left;
                        if (lane >> k & 1)
                                v[l] = sf_combine(left, v[l]);
                }
        }
}

SF_KERNEL scanfold_kernel(const __grid_constant__ sf_params p)
{
        int thread = sf_thread(), lane = thread & 31, warp = thread / 32, watcher = warp - WARPS;
        sf_acc identity = sf_acc_of(p.identity);
        sf_i64 *ids = (sf_i64 *)(sf_shared() + SF_STAGES * STAGE);
        sf_acc *totals = (sf_acc *)(ids + RING);                               /* SF_AHEAD + 1 turns of WARPS x SF_COLUMNS */
        sf_acc *before = totals + (SF_AHEAD + 1) * WARPS * SF_COLUMNS;         /* two turns of BITS x SF_COLUMNS */
        sf_i64 mine = (sf_i64)(warp * SF_ITEMS * 32 + lane) * SF_WIDTH;        /* a worker's first element of a tile */
        int first = (lane & (SPAN - 1)) * SHARE;                               /* its first column */

        /* The first claims, a moment apart, so that the tiles of blocks that start together interleave. */
        if (thread == SF_THREADS - 32) {
                sf_i64 claimed[SF_STAGES + 1];
#pragma unroll
                for (int k = 0; k <= SF_STAGES; k++) {
                        claimed[k] = (sf_i64)sf_ticket((sf_u64 *)p.scratch);
                        sf_pause();
                }
#pragma unroll
                for (int k = 0; k <= SF_STAGES; k++)
                        ids[k] = claimed[k];
        }
        sf_sync_block();
        if (watcher < 0)
                for (int k = 0; k < SF_STAGES; k++)
                        sf_stage_tile(p, ids[k], mine, k, thread);

        int stage = 0, ahead = 0; /* of tile i, and of tile i + SF_AHEAD */
        for (sf_i64 i = -SF_AHEAD; i < 0 || ids[i % RING] < p.number[2]; i++) {
                if (watcher < 0) {
                        sf_copy_wait<SF_STAGES - 1 - SF_AHEAD>();
                        if (ids[(i + SF_AHEAD) % RING] < p.number[2]) {
                                sf_acc v[SF_ITEMS][SF_WIDTH], total[SHARE];
                                sf_acc *turn = totals + ((i + SF_AHEAD) % (SF_AHEAD + 1) * WARPS + warp) * SF_COLUMNS;
                                sf_unstage(ahead, thread, identity, v);
                                sf_fold_warp(v, lane, total);
                                if (lane < SPAN)
#pragma unroll
                                        for (int s = 0; s < SHARE; s++)
                                                turn[first + s] = total[s];
                        }
                        ahead = ahead + 1 == SF_STAGES ? 0 : ahead + 1;
                        if (i >= 0) {
                                sf_acc v[SF_ITEMS][SF_WIDTH];
                                sf_before<SHARE> past;
                                past.any = false;
                                sf_tile tile = sf_tile_of(p, ids[i % RING]);
                                const sf_acc *turn = totals + i % (SF_AHEAD + 1) * WARPS * SF_COLUMNS;
                                sf_unstage(stage, thread, identity, v);
                                sf_stage_tile(p, ids[(i + SF_STAGES) % RING], mine, stage, thread);
                                stage = stage + 1 == SF_STAGES ? 0 : stage + 1;
                                sf_scan_warp<32, SF_COLUMNS>(v, lane);
#if SF_COLUMNS == 1
                                sf_scan_warps<WARPS>(v, turn, warp, lane, past);
#else
                                sf_levels<WARPS / 2, SHARE>::take(turn + first, SF_COLUMNS, warp, v, past);
#endif
                                const sf_acc *here = before + (i & 1) * (BITS * SF_COLUMNS) + first;
                                for (sf_u32 bits = (sf_u32)tile.number; bits; bits &= bits - 1) {
                                        int k = sf_lowest(bits);
                                        sf_acc left[SHARE];
#pragma unroll
                                        for (int s = 0; s < SHARE; s++)
                                                left[s] = here[k * SF_COLUMNS + s];
                                        sf_take_all(left, v, past);
                                }
                                sf_shift<32, SF_COLUMNS>(v, lane, past, identity);
#pragma unroll
                                for (int k = 0; k < SF_ITEMS; k++)
#pragma unroll
                                        for (int j = 0; j < SF_WIDTH; j++)
                                                v[k][j] = sf_begin(p, v[k][j]);
                                if (sf_is_whole(p, tile))
                                        sf_store_tile<true>(p, tile, mine, v);
                                else
                                        sf_store_tile<false>(p, tile, mine, v);
                        }
                } else {
                        sf_i64 done = i + SF_AHEAD - 1, soon = i + 1;
                        sf_i64 claimed = 0; /* it is on its way while the rest is done */
                        if (thread == SF_THREADS - 32 && i >= 0)
                                claimed = (sf_i64)sf_ticket((sf_u64 *)p.scratch);
                        if (done >= 0 && ids[done % RING] < p.number[2]) {
                                sf_tile tile = sf_tile_of(p, ids[done % RING]);
                                const sf_acc *turn = totals + done % (SF_AHEAD + 1) * WARPS * SF_COLUMNS;
                                for (int c = watcher; c < SF_COLUMNS; c += SF_WATCHERS) {
                                        sf_acc total = turn[(lane & (WARPS - 1)) * SF_COLUMNS + c];
#pragma unroll
                                        for (int b = 1; b < WARPS; b *= 2)
                                                total = sf_meet(total, lane, b);
                                        sf_announce(p, tile, c, total, lane);
                                }
                        }
                        if (soon >= 0 && ids[soon % RING] < p.number[2]) {
                                sf_tile tile = sf_tile_of(p, ids[soon % RING]);
                                for (int c = watcher; c < SF_COLUMNS; c += SF_WATCHERS)
                                        sf_look_back(p, tile, c, before + (soon & 1) * (BITS * SF_COLUMNS) + c, lane);
                        }
                        if (thread == SF_THREADS - 32 && i >= 0)
                                ids[(i + SF_STAGES + 1) % RING] = claimed;
                }
                sf_sync_block();
        }
}
