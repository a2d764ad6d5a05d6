/*
 * chained_stages.cuh: how the workers of scan_chained.cu stage a tile's elements in shared memory,
 * take them out again, store results, and keep what they have scanned. scan_chained.cu includes it.
 */

/* Where a thread stages the part of a vector that begins at AT and has BYTES bytes. Each part of
 * all vectors of a stage is contiguous. */
template <int AT, int BYTES> SF_DEVICE unsigned char *sf_stage_slot(int stage, int item, int thread)
{
        return sf_shared() + stage * STAGE + SF_ITEMS * WORKERS * AT + (item * WORKERS + thread) * BYTES;
}

/* Copies one part of a whole vector to its slot; UNIT as in element.cuh. */
template <int UNIT, int SIZE> SF_DEVICE void sf_stage_part(unsigned char *slot, const char *line, sf_i64 index, sf_i64 stride)
{
        if (UNIT == 2)
                sf_copy_async<SIZE>(slot, line);
        else if (UNIT)
                sf_copy_async<(UNIT == 1 || UNIT == -1 ? SF_WIDTH : 1) * SIZE>(slot, line + sf_vector_offset<UNIT, SIZE>(index, stride));
        else
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        sf_copy_async<SIZE>(slot + j * SIZE, line + (index + j) * stride);
}

#if SF_SHIFT_IN
/* Stages a thread's vectors of x at any address, as their first chunks. Elements past the end are
 * not staged. */
template <bool WHOLE> SF_DEVICE void sf_stage_chunks(const sf_params &p, const sf_tile &tile, sf_i64 at,
                                                     int stage, int thread)
{
        const sf_chunk own = sf_chunk_of(tile.line, at);
        const bool end = (thread & 31) == END_LANE;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                const sf_i64 index = at + i * SPREAD;
                const char *chunk = own.at + TOWARD * i * SPREAD * SF_IN_SIZE;
                if (WHOLE || sf_needs_first(index, tile.n, own.past))
                        sf_copy_chunk<CHUNK>(X_SLOT(stage, i, thread), chunk, p.x_begin, p.x_end);
                if (i == sf_end_item(SF_ITEMS) && end && sf_needs_second(index, tile.n, own.past))
                        sf_copy_chunk<CHUNK>(END_SLOT(stage, thread), chunk + CHUNK, p.x_begin, p.x_end);
        }
}
#endif

/* WHOLE: the tile is full, as all tiles of a line are except perhaps the last. */
template <bool WHOLE> SF_DEVICE void sf_stage(const sf_params &p, const sf_tile &tile, sf_i64 at, int stage, int thread)
{
#if SF_SHIFT_IN
        sf_stage_chunks<WHOLE>(p, tile, at, stage, thread);
        return;
#endif
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_i64 index = at + i * SPREAD;
                if (WHOLE || index + SF_WIDTH <= tile.n) {
#if SF_LOAD_FUSED
#define OPERAND(k, dt, unit) sf_stage_part<unit, SF_SIZE(dt)>(OPERAND_SLOT(k)(stage, i, thread), tile.line.operand[k], index, sf_along(p).operand[k]);
                        SF_LOADS(OPERAND)
#undef OPERAND
#else
                        sf_stage_part<SF_X_UNIT, SF_IN_SIZE>(X_SLOT(stage, i, thread), tile.line.x, index, p.sx);
#endif
#if SF_MASK
                        sf_stage_part<SF_M_UNIT, 1>(M_SLOT(stage, i, thread), tile.line.m, index, p.sm);
#endif
                }
#if SF_RAGGED
                else if (index < tile.n) {
                        sf_vector v = sf_load_vector(tile.line, index, tile.n, sf_along(p));
#if SF_LOAD_FUSED
#define OPERAND(k, dt, unit) sf_shared_store(OPERAND_SLOT(k)(stage, i, thread), v.operand##k.raw);
                        SF_LOADS(OPERAND)
#undef OPERAND
#else
                        sf_shared_store(X_SLOT(stage, i, thread), v.x);
#endif
#if SF_MASK
                        sf_shared_store(M_SLOT(stage, i, thread), v.m);
#endif
                }
#endif
        }
}

SF_DEVICE void sf_stage_tile(const sf_params &p, const sf_claim &claim, sf_i64 mine, int stage, int thread)
{
        if (claim.there) {
                sf_tile tile = sf_tile_of(p, claim);
                if (claim.there == 2)
                        sf_stage<true>(p, tile, tile.number * TILE + mine, stage, thread);
                else
                        sf_stage<false>(p, tile, tile.number * TILE + mine, stage, thread);
        }
        sf_copy_commit();
}

#if SF_RUNS
/*
 * Stores an item's results of a whole warp, which are contiguous: from lane to lane as vectors to
 * shared memory, and from there word by word, so that neighbouring lanes store neighbouring words
 * wherever the line begins. index: of the warp's first element.
 */
SF_DEVICE void sf_store_run(const sf_line &line, sf_i64 index, sf_i64 end, const sf_stored &own,
                            unsigned char *run, int lane)
{
        enum { SIZE = SF_OUT_SIZE, COUNT = 32 * SF_WIDTH };
        sf_sync_warp(); /* the run before has been stored */
        sf_shared_store(run + (SF_Y_UNIT < 0 ? 31 - lane : lane) * (SF_WIDTH * SIZE), own);
        sf_sync_warp();
        const sf_i64 left = end - index;
        const int have = left >= COUNT ? COUNT : left > 0 ? (int)left : 0;
        const int first = SF_Y_UNIT < 0 ? (COUNT - have) * SIZE : 0, last = first + have * SIZE;
        char *low = line.y + (SF_Y_UNIT < 0 ? -(index + COUNT - 1) : index) * SIZE;
#pragma unroll
        for (int k = 0; k < RUN / 128; k++) {
                const int at = (k * 32 + lane) * 4;
                sf_raw<4> word;
                sf_shared_load(run + at, word);
                if (at >= first && at < last)
                        sf_store(low + at, word);
        }
}
#endif

template <bool WHOLE>
SF_DEVICE void sf_store_tile(const sf_params &p, const sf_tile &tile, sf_i64 mine, const sf_answer (&v)[SF_ITEMS][SF_WIDTH])
{
#if SF_RUNS
        const int lane = sf_thread() & 31;
        unsigned char *run = sf_shared() + SF_STAGES * STAGE + sf_thread() / 32 * RUN;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_store_run(tile.line, tile.number * TILE + mine - lane * SF_WIDTH + i * SPREAD, tile.n,
                             sf_pack(p, v[i], sf_results()), run, lane);
        return;
#elif SF_SHIFT_OUT
        const sf_results with[SF_ITEMS] = {};
        sf_store_vectors<32, SPREAD>(p, tile.line, tile.number * TILE + mine, tile.n, v, with,
                                     sf_thread() & 31, 0);
        return;
#endif
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_i64 index = tile.number * TILE + mine + i * SPREAD, end = WHOLE ? index + SF_WIDTH : tile.n;
                sf_store_vector(p, tile.line, index, end, sf_along(p), v[i], sf_load_results(tile.line, index, end, tile.n - 1, sf_along(p)));
        }
}

SF_DEVICE void sf_unstage(const sf_params &p, const sf_claim &claim, sf_i64 mine, int stage,
                          int thread, sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        const sf_i64 at = claim.number * TILE + mine;
        sf_vector raw[SF_ITEMS];
#if SF_SHIFT_IN
        const int past = sf_chunk_of(sf_tile_of(p, claim).line, at).past, lane = thread & 31;
#endif
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
#if SF_SHIFT_IN
                raw[i].x_past = past;
                sf_clear(raw[i].x_next);
                if (i == sf_end_item(SF_ITEMS) && lane == END_LANE)
                        sf_shared_load(END_SLOT(stage, thread), raw[i].x_next);
#endif
#if SF_LOAD_FUSED
#define OPERAND(k, dt, unit) sf_shared_load(OPERAND_SLOT(k)(stage, i, thread), raw[i].operand##k.raw);
                SF_LOADS(OPERAND)
#undef OPERAND
#else
                sf_shared_load(X_SLOT(stage, i, thread), raw[i].x);
#endif
#if SF_MASK
                sf_shared_load(M_SLOT(stage, i, thread), raw[i].m);
#endif
        }
#if SF_SHIFT_IN
        sf_meet_chunks(raw, lane);
#endif
        sf_elements<SF_COLUMNS>(p, raw, at, SPREAD, 1, v);
}

/* A vector of a thread after its warp's scan, stored where its elements were staged. */
struct alignas(SF_WIDTH * sizeof(sf_scanned)) sf_held {
        sf_scanned e[SF_WIDTH];
};

SF_DEVICE void sf_hold(int stage, int thread, const sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_held h;
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        h.e[j] = sf_scanned_of(v[i][j]);
                *(sf_held *)sf_stage_slot<0, sizeof(sf_held)>(stage, i, thread) = h;
        }
}

SF_DEVICE void sf_unhold(int stage, int thread, sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_held h = *(const sf_held *)sf_stage_slot<0, sizeof(sf_held)>(stage, i, thread);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j] = sf_of_scanned(h.e[j]);
        }
}
