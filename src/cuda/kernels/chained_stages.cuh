/*
 * chained_stages.cuh: how the workers of scan_chained.cu stage a tile's elements in shared memory,
 * take them out again, store results, and keep what they have scanned. scan_chained.cu includes it.
 */

/* Where a thread stages the part of a vector that begins at AT and has BYTES bytes. Each part of
 * all vectors of a stage is contiguous, after those before it, of which BEFORE are pieces. */
template <int AT, int BYTES, int BEFORE> SF_DEVICE unsigned char *sf_stage_slot(int stage, int item, int thread)
{
        return sf_shared() + stage * STAGE + SF_ITEMS * WORKERS * AT + BEFORE * WARPS * SF_CHAINED_END + (item * WORKERS + thread) * BYTES;
}

/* Where a warp stages its piece of such a part. */
template <int AT, int BYTES, int BEFORE> SF_DEVICE unsigned char *sf_stage_area(int stage, int thread)
{
        return sf_stage_slot<AT, BYTES, BEFORE>(stage, 0, 0) + thread / 32 * (SF_ITEMS * 32 * BYTES + SF_CHAINED_END);
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

/* How far behind a multiple of 16 bytes the piece of memory begins in which a warp has its vectors, the first
 * one of this lane at `at`. */
template <int UNIT, int SIZE> SF_DEVICE const char *sf_piece_from(const char *line, sf_i64 at, int *past)
{
        const sf_i64 first = at - (sf_thread() & 31) * SF_WIDTH;
        const char *low = line + (UNIT < 0 ? 1 - first - SF_ITEMS * SPREAD : first) * SIZE;
        *past = (int)((sf_u64)low & 15);
        return low - *past;
}

/* Stages the vectors of a warp, which may be at any address and narrower than 16 bytes, as the chunks in
 * which they are: its lanes copy one after another. Chunks without an element before `stop` are not staged. */
template <bool WHOLE, int UNIT, int SIZE> SF_DEVICE void sf_stage_piece(const char *line, sf_i64 at, sf_i64 stop, unsigned char *area, const char *from, const char *to)
{
        enum { BYTES = SF_ITEMS * SPREAD * SIZE };
        const int lane = sf_thread() & 31;
        int past;
        const char *chunks = sf_piece_from<UNIT, SIZE>(line, at, &past);
        /* The chunks that are needed: from the first, or to the last. */
        const sf_i64 begin = WHOLE || UNIT > 0 ? 0 : line + (1 - stop) * SIZE - chunks - 15, end = WHOLE || UNIT < 0 ? BYTES + past : line + stop * SIZE - chunks;
        sf_sync_warp(); /* nobody reads what has been here before */
#pragma unroll
        for (int at = 0; at < BYTES; at += 512)
                if ((BYTES >= 512 || at + lane * 16 < BYTES) && (WHOLE || (at + lane * 16 >= begin && at + lane * 16 < end)))
                        sf_copy_chunk<16>(area + at + lane * 16, chunks + at + lane * 16, from, to);
        if (lane == 31 && past && (WHOLE || (BYTES >= begin && BYTES < end)))
                sf_copy_chunk<16>(area + BYTES, chunks + BYTES, from, to);
}

/* From word PAST on of each of two vectors. */
template <int PAST, int SIZE, int BYTES> SF_DEVICE void sf_cut_each(sf_raw<BYTES> (&v)[SF_ITEMS], const sf_raw<BYTES> (&next)[SF_ITEMS], int from)
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                v[i] = sf_cut_at<PAST, SIZE>(v[i], next[i], from);
}

/* Takes a lane's vectors out of the warp's piece. LOOSE: they may be at any address. */
template <bool LOOSE, int UNIT, int SIZE, int BYTES> SF_DEVICE void sf_unstage_piece(const char *line, sf_i64 at, const unsigned char *area, sf_raw<BYTES> (&v)[SF_ITEMS])
{
        enum { NEXT = (UNIT < 0 ? -32 : 32) * BYTES };
        const int lane = sf_thread() & 31;
        int past;
        sf_piece_from<UNIT, SIZE>(line, at, &past);
        sf_sync_warp(); /* other lanes have copied what this one reads */
        const unsigned char *own = area + (UNIT < 0 ? SF_ITEMS * 32 - 1 - lane : lane) * BYTES;
        if constexpr (BYTES < 4) {
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        sf_clear(v[i]);
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++) {
                                sf_raw<SIZE> one;
                                sf_shared_load(own + past + i * NEXT + j * SIZE, one);
                                sf_set_slot<SIZE>(v[i], j, one.w[0]);
                        }
                }
        } else {
                const int from = past & (BYTES - 1);
                sf_raw<BYTES> next[SF_ITEMS];
                own += past - from;
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_shared_load(own + i * NEXT, v[i]);
                if (!LOOSE || !from)
                        return;
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_shared_load(own + i * NEXT + BYTES, next[i]);
                if constexpr (sf_is_place<3, SIZE, BYTES>())
                        if (from >= 12)
                                return sf_cut_each<3, SIZE>(v, next, from);
                if constexpr (sf_is_place<2, SIZE, BYTES>())
                        if (from >= 8)
                                return sf_cut_each<2, SIZE>(v, next, from);
                if constexpr (sf_is_place<1, SIZE, BYTES>())
                        if (from >= 4)
                                return sf_cut_each<1, SIZE>(v, next, from);
                if constexpr (sf_is_place<0, SIZE, BYTES>())
                        sf_cut_each<0, SIZE>(v, next, from);
        }
}

#if SF_LOOSE_OPERANDS
/* Both of these for an operand, if it is one whose elements are not aligned. Chunks that have an
 * element of the line are read, whatever else they have. */
template <bool LOOSE, bool WHOLE, int UNIT, int SIZE>
SF_DEVICE void sf_stage_operand(const char *line, sf_i64 at, sf_i64 n, unsigned char *area)
{
        if constexpr (LOOSE)
                sf_stage_piece<WHOLE, UNIT, SIZE>(line, at, n, area, UNIT < 0 ? line - (n - 1) * SIZE : line, line + (UNIT < 0 ? 1 : n) * SIZE);
}
template <bool LOOSE, int UNIT, int SIZE, class R>
SF_DEVICE void sf_unstage_operand(const char *line, sf_i64 at, const unsigned char *area, R raw_of)
{
        if constexpr (LOOSE) {
                sf_raw<SF_WIDTH * SIZE> v[SF_ITEMS];
                sf_unstage_piece<true, UNIT, SIZE>(line, at, area, v);
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        raw_of(i) = v[i];
        }
}
#endif

/* WHOLE: the tile is full, as all tiles of a line are except perhaps the last. */
template <bool WHOLE> SF_DEVICE void sf_stage(const sf_params &p, const sf_tile &tile, sf_i64 at, int stage, int thread)
{
#if X_PIECE
        sf_stage_piece<WHOLE, SF_X_UNIT, SF_IN_SIZE>(tile.line.x, at, tile.n, X_AREA(stage, thread), p.x_begin, p.x_end);
        return;
#elif SF_LOOSE_OPERANDS
#define OPERAND(k, dt, unit) \
        sf_stage_operand<IS_LOOSE(k), WHOLE, unit, SF_SIZE(dt)>(tile.line.operand[k], at, tile.n, OPERAND_AREA(k)(stage, thread));
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
#define OPERAND(k, dt, unit) \
                if (!IS_LOOSE(k)) \
                        sf_shared_load(OPERAND_SLOT(k)(stage, i, thread), raw[i].operand##k.raw);
                SF_LOADS(OPERAND)
#undef OPERAND
#elif !X_PIECE
                sf_shared_load(X_SLOT(stage, i, thread), raw[i].x);
#endif
#if SF_MASK
                sf_shared_load(M_SLOT(stage, i, thread), raw[i].m);
#endif
        }
#if X_PIECE
        sf_raw<SF_WIDTH * SF_IN_SIZE> x[SF_ITEMS];
        sf_unstage_piece<SF_SHIFT_IN, SF_X_UNIT, SF_IN_SIZE>(sf_tile_of(p, claim).line.x, at, X_AREA(stage, thread), x);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                raw[i].x = x[i];
#if SF_SHIFT_IN
                raw[i].x_past = 0; /* nothing is left to be cut */
#endif
        }
#elif SF_LOOSE_OPERANDS
        const sf_line line = sf_tile_of(p, claim).line;
#define OPERAND(k, dt, unit) \
        sf_unstage_operand<IS_LOOSE(k), unit, SF_SIZE(dt)>(line.operand[k], at, OPERAND_AREA(k)(stage, thread), [&](int i) -> decltype(raw[i].operand##k.raw) & { return raw[i].operand##k.raw; });
        SF_LOADS(OPERAND)
#undef OPERAND
#endif
        sf_elements<SF_COLUMNS>(p, raw, at, SPREAD, 1, v);
}

/* A vector of a thread after its warp's scan, stored where its elements were staged. */
struct alignas(SF_WIDTH * sizeof(sf_scanned)) sf_held {
        sf_scanned e[SF_WIDTH];
};

SF_DEVICE sf_held *sf_held_at(int stage, int item, int thread)
{
#if X_PIECE
        return (sf_held *)X_AREA(stage, thread) + item * 32 + (thread & 31);
#else
        return (sf_held *)sf_stage_slot<0, sizeof(sf_held), 0>(stage, item, thread);
#endif
}

SF_DEVICE void sf_hold(int stage, int thread, const sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        if (X_PIECE)
                sf_sync_warp(); /* all lanes have taken their vectors */
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_held h;
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        h.e[j] = sf_scanned_of(v[i][j]);
                *sf_held_at(stage, i, thread) = h;
        }
}

SF_DEVICE void sf_unhold(int stage, int thread, sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                const sf_held h = *sf_held_at(stage, i, thread);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j] = sf_of_scanned(h.e[j]);
        }
}
