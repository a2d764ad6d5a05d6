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

/* Stages a thread's vectors of x, or of an operand, at any address, as the chunks that it has of them:
 * item i in slot(i), and that which no lane has in `end`. Elements past the end are not staged. */
template <bool WHOLE, int UNIT, int SIZE, class S>
SF_DEVICE void sf_stage_chunks(const char *line, sf_i64 at, sf_i64 stop, S slot, unsigned char *end, const char *from, const char *to)
{
        enum { BYTES = SF_WIDTH * SIZE };
        const sf_chunk<UNIT, SIZE> own = sf_chunk_of<UNIT, SIZE>(line, at);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                if (WHOLE || sf_needs_chunk(own, at + i * SPREAD, stop))
                        sf_copy_chunk<BYTES>(slot(i), sf_chunk_at<SPREAD>(own, i), from, to);
        const char *beyond = sf_chunk_beyond<SF_ITEMS, SPREAD>(own, at, stop, sf_thread() & 31);
        if (beyond)
                sf_copy_chunk<BYTES>(end, beyond, from, to);
}

/* Makes vectors of chunks that have been taken from a stage. */
template <int UNIT, int SIZE, int BYTES>
SF_DEVICE void sf_unstage_chunks(const char *line, sf_i64 at, const unsigned char *end, sf_raw<BYTES> (&v)[SF_ITEMS])
{
        const sf_chunk<UNIT, SIZE> own = sf_chunk_of<UNIT, SIZE>(line, at);
        const int lane = sf_thread() & 31;
        sf_raw<BYTES> beyond;
        sf_clear(beyond);
        /* Also where it was not staged because nobody needs it. */
        if (sf_chunk_beyond<SF_ITEMS, SPREAD>(own, 0, TILE, lane))
                sf_shared_load(end, beyond);
        sf_join<UNIT, SIZE>(v, beyond, own.past, lane);
}

#if SF_LOOSE_OPERANDS
/* Both of these for an operand, if it is one whose elements are not aligned. Chunks that have an
 * element of the line are read, whatever else they have. */
template <bool LOOSE, bool WHOLE, int UNIT, int SIZE, class S>
SF_DEVICE void sf_stage_operand(const char *line, sf_i64 at, sf_i64 n, S slot, unsigned char *end)
{
        if constexpr (LOOSE)
                sf_stage_chunks<WHOLE, UNIT, SIZE>(line, at, n, slot, end, UNIT < 0 ? line - (n - 1) * SIZE : line, line + (UNIT < 0 ? 1 : n) * SIZE);
}
template <bool LOOSE, int UNIT, int SIZE, class R>
SF_DEVICE void sf_unstage_operand(const char *line, sf_i64 at, const unsigned char *end, R raw_of)
{
        if constexpr (LOOSE) {
                sf_raw<SF_WIDTH * SIZE> v[SF_ITEMS];
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        v[i] = raw_of(i);
                sf_unstage_chunks<UNIT, SIZE>(line, at, end, v);
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        raw_of(i) = v[i];
        }
}
#endif

/* WHOLE: the tile is full, as all tiles of a line are except perhaps the last. */
template <bool WHOLE> SF_DEVICE void sf_stage(const sf_params &p, const sf_tile &tile, sf_i64 at, int stage, int thread)
{
#if SF_SHIFT_IN
        sf_stage_chunks<WHOLE, SF_X_UNIT, SF_IN_SIZE>(tile.line.x, at, tile.n, [=](int i) { return X_SLOT(stage, i, thread); }, END_SLOT(stage, thread, 0), p.x_begin, p.x_end);
        return;
#elif SF_LOOSE_OPERANDS
#define OPERAND(k, dt, unit) \
        sf_stage_operand<IS_LOOSE(k), WHOLE, unit, SF_SIZE(dt)>(tile.line.operand[k], at, tile.n, [=](int i) { return OPERAND_SLOT(k)(stage, i, thread); }, \
                                                                END_SLOT(stage, thread, k));
        SF_LOADS(OPERAND)
#undef OPERAND
#endif
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_i64 index = at + i * SPREAD;
                if (WHOLE || index + SF_WIDTH <= tile.n) {
#if SF_LOAD_FUSED
#define OPERAND(k, dt, unit) \
                        if (!IS_LOOSE(k)) \
                                sf_stage_part<unit, SF_SIZE(dt)>(OPERAND_SLOT(k)(stage, i, thread), tile.line.operand[k], index, sf_along(p).operand[k]);
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
#define OPERAND(k, dt, unit) \
                        if (!IS_LOOSE(k)) \
                                sf_shared_store(OPERAND_SLOT(k)(stage, i, thread), v.operand##k.raw);
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

template <bool WHOLE>
SF_DEVICE void sf_store_tile(const sf_params &p, const sf_tile &tile, sf_i64 mine, const sf_answer (&v)[SF_ITEMS][SF_WIDTH])
{
#if SF_SHIFT_OUT
        const sf_results with[SF_ITEMS] = {};
        const sf_i64 at = tile.number * TILE + mine;
        const int lane = sf_thread() & 31;
        if constexpr (WHOLE && SF_WIDTH * SF_OUT_SIZE >= 4) {
                sf_stored r[SF_ITEMS];
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        r[i] = sf_pack(p, v[i], with[i]);
                sf_store_joined<SPREAD>(tile.line, at, r, lane);
        } else {
                sf_store_vectors<32, SPREAD>(p, tile.line, at, tile.n, v, with, lane, 0);
        }
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
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
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
        sf_raw<SF_WIDTH * SF_IN_SIZE> x[SF_ITEMS];
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                x[i] = raw[i].x;
        sf_unstage_chunks<SF_X_UNIT, SF_IN_SIZE>(sf_tile_of(p, claim).line.x, at, END_SLOT(stage, thread, 0), x);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                raw[i].x = x[i];
                raw[i].x_past = 0; /* nothing is left to be cut */
        }
#elif SF_LOOSE_OPERANDS
        const sf_line line = sf_tile_of(p, claim).line;
#define OPERAND(k, dt, unit) \
        sf_unstage_operand<IS_LOOSE(k), unit, SF_SIZE(dt)>(line.operand[k], at, END_SLOT(stage, thread, k), [&](int i) -> decltype(raw[i].operand##k.raw) & { return raw[i].operand##k.raw; });
        SF_LOADS(OPERAND)
#undef OPERAND
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
