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
/* How many bytes into a word the vector at `index` of a line begins: if vectors are whole words,
 * they all do alike. */
SF_DEVICE int sf_past_of(const sf_line &line, sf_i64 index)
{
        if (SF_WIDTH * SF_IN_SIZE % 4 == 0)
                index = 0;
        return (int)((sf_u64)line.x + sf_vector_offset<SF_X_UNIT, SF_IN_SIZE>(index, 0)) & 3;
}

/* As sf_stage_part, for the vector of x at any address. Elements past the end are not staged. */
template <bool WHOLE> SF_DEVICE void sf_stage_any(unsigned char *slot, const sf_line &line,
                                                  sf_i64 index, sf_i64 n)
{
        const char *from = line.x + sf_vector_offset<SF_X_UNIT, SF_IN_SIZE>(index, 0);
        if (SF_STAGED_MORE) {
                const int past = sf_past_of(line, index);
                const char *low = SF_X_UNIT < 0 ? line.x - (n - 1) * SF_IN_SIZE : line.x;
#pragma unroll
                for (int k = 0; k < SF_STAGED_WORDS; k++) {
                        const char *word = from - past + 4 * k;
                        const bool there = WHOLE ? 4 * k < past + SF_WIDTH * SF_IN_SIZE
                                : word < low + n * SF_IN_SIZE && word + 4 > low;
                        if (there)
                                sf_copy_async<4>(slot + 4 * k, word);
                }
        } else {
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        const int at = sf_slot_of<SF_X_UNIT>(j) * SF_IN_SIZE;
                        if (WHOLE || index + j < n)
                                sf_copy_async<SF_IN_SIZE>(slot + at, from + at);
                }
        }
}
#endif

/* WHOLE: the tile is full, as all tiles of a line are except perhaps the last. */
template <bool WHOLE> SF_DEVICE void sf_stage(const sf_params &p, const sf_tile &tile, sf_i64 at, int stage, int thread)
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_i64 index = at + i * SPREAD;
#if SF_SHIFT_IN
                if (WHOLE || index < tile.n)
                        sf_stage_any<WHOLE>(X_SLOT(stage, i, thread), tile.line, index, tile.n);
                continue;
#endif
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
#if SF_RAGGED && !SF_SHIFT_IN
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
        const sf_line line = sf_tile_of(p, claim).line;
#endif
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
#if SF_SHIFT_IN
                const unsigned char *slot = X_SLOT(stage, i, thread);
                const int past = SF_STAGED_MORE ? sf_past_of(line, at + i * SPREAD) : 0;
                raw[i].x_past = past;
                raw[i].x_next.w[0] = 0;
                if (SF_WIDTH * SF_IN_SIZE == 2) { /* less than a word: put together here */
                        sf_raw<8> two;
                        sf_shared_load(slot, two);
                        raw[i].x.w[0] = sf_funnel(two.w[0], two.w[1], past * 8) & 0xffff;
                        raw[i].x_past = 0;
                        continue;
                }
#pragma unroll
                for (int k = 0; k < SF_WIDTH * SF_IN_SIZE / 4; k++) {
                        sf_raw<4> one;
                        sf_shared_load(slot + 4 * k, one);
                        raw[i].x.w[k] = one.w[0];
                        raw[i].x_next.w[k] = 0;
                }
                if (SF_STAGED_MORE) {
                        sf_raw<4> one;
                        sf_shared_load(slot + SF_WIDTH * SF_IN_SIZE, one);
                        raw[i].x_next.w[0] = one.w[0];
                } else {
                        sf_shared_load(slot, raw[i].x);
                }
                continue;
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
