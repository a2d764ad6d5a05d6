/*
 * segments_chunks.cuh: longer segments of segments_apply.cu, chunk by chunk, by one warp or by all
 * warps of a block. A chunk has SF_ROW strips of 32 elements, one for each lane.
 */
enum { LAST = STEPS - 1 };

/* A segment, and where it is. */
struct sf_part {
        sf_i64 first;         /* the line's index of its first element */
        int count, chunks;
        int kept;             /* so many elements are in cells, whole chunks or all */
        unsigned char *cells; /* of the first element */
        unsigned char *total; /* of chunks, for each of two steps in turn */
        int warps;            /* so many have it */
        sf_i64 segment;
};
SF_DEVICE void sf_sync_part(const sf_part &s)
{
        if (s.warps > 1)
                sf_sync_block();
        else
                sf_sync_warp();
}

/* Loads what step K reads of a chunk. NEAR: x, or the numbers kept in its place, are in cells. */
template <int K, bool NEAR> SF_DEVICE void
sf_load_chunk_of(const sf_params &p, const sf_course &c, const sf_part &s, int chunk,
                 sf_vectors (&v)[SF_ROW / 4])
{
        enum { LOADS = sf_recipe<K>::LOADS };
        const int first = chunk * CHUNK + c.lane;
#pragma unroll
        for (int i = 0; i < SF_ROW / 4; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        const int at = first + (4 * i + j) * 32;
                        /* Cells past the end may be past the block's memory. */
                        const int cell = at < s.count ? at : 0;
                        (void)cell;
#define OPERAND(k, dt, unit, made)                                                                 \
        if ((k == 0 || k == NUMBERS) && LOADS >> k & 1) {                                          \
                sf_raw<SF_SIZE(dt)> one;                                                           \
                const char *from = k ? sf_result_at<LAST>(p, c, s.first + at)                      \
                                     : c.operand[0] + (s.first + at) * SIZE;                       \
                one.w[0] = 0;                                                                      \
                if (NEAR)                                                                          \
                        sf_shared_glance(s.cells + cell * SF_SIZE(dt), one, at < s.count);         \
                else                                                                               \
                        sf_load_below(at, s.count, from, one);                                     \
                sf_set_slot<SF_SIZE(dt)>(v[i].operand##k, j, sf_slot<SF_SIZE(dt)>(one, 0));        \
        }
                        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
                        sf_load_beside<BESIDE & LOADS>(p, c, s.first + at, at < s.count, j, v[i]);
                }
}
template <int K> SF_DEVICE void sf_load_chunk_anywhere(const sf_params &p, const sf_course &c,
                                                       const sf_part &s, int chunk,
                                                       sf_vectors (&v)[SF_ROW / 4])
{
        if (chunk * CHUNK < s.kept)
                sf_load_chunk_of<K, true>(p, c, s, chunk, v);
        else
                sf_load_chunk_of<K, false>(p, c, s, chunk, v);
}

/* Keeps the numbers of a fold where x was, or in the result. */
template <int K> SF_DEVICE void sf_keep_chunk(const sf_params &p, const sf_course &c,
                                                const sf_part &s, int chunk,
                                                const sf_vectors (&v)[SF_ROW / 4])
{
        const int first = chunk * CHUNK + c.lane;
        const bool near = first - c.lane < s.kept;
#pragma unroll
        for (int i = 0; i < SF_ROW / 4; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        const int at = first + (4 * i + j) * 32;
                        char *const result = sf_result_at<LAST>(p, c, s.first + at);
                        (void)result;
#define OPERAND(k, dt, unit, made)                                                                 \
        if (k == NUMBERS && near)                                                                  \
                sf_put_cell<SF_SIZE(dt)>(at, s.count, s.cells + at * SF_SIZE(dt), v[i].operand##k, \
                                         j);                                                       \
        else if (k == NUMBERS)                                                                     \
                sf_put_memory<SF_SIZE(dt)>(at, s.count, result, v[i].operand##k, j);
                        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
                }
}

/* Step K, a fold, or part of it. All threads get the total. */
template <int K> SF_DEVICE sf_total<K> sf_fold_part(const sf_params &p, const sf_course &c,
                                                    const sf_part &s)
{
        const int turn = s.warps > 1 ? K % 2 : 0;
        sf_total<K> *const leaf = (sf_total<K> *)(s.total + turn * 32 * SF_PER * SLOT);
        if (s.warps == 1)
                sf_sync_warp();
#pragma unroll 1
        for (int chunk = s.warps > 1 ? c.warp : 0; chunk < s.chunks; chunk += s.warps) {
                sf_vectors v[SF_ROW / 4];
                sf_total<K> a[SF_ROW];
                const int first = chunk * CHUNK + c.lane;
                sf_load_chunk_anywhere<K>(p, c, s, chunk, v);
#pragma unroll
                for (int i = 0; i < SF_ROW / 4; i++) {
                        sf_u32 there = 0;
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                there |= (sf_u32)(first + (4 * i + j) * 32 < s.count) << j;
                        sf_fold_vector<K, true>(p, c, there, v[i], a + 4 * i);
                }
                if (KEEPERS >> K & 1)
                        sf_keep_chunk<K>(p, c, s, chunk, v);
                const sf_total<K> total = sf_fold_lanes<K>(a, c.lane);
                if (!c.lane)
                        leaf[chunk] = total;
        }
        sf_sync_part(s);
        return sf_fold_leaves<K>(p, c.lane, leaf, s.chunks);
}

/* Step K, a map. */
template <int K> SF_DEVICE void sf_map_part(const sf_params &p, const sf_course &c,
                                            const sf_part &s)
{
        enum { OWN = SF_SIZE(sf_recipe<K>::OUT) };
#pragma unroll 1
        for (int chunk = s.warps > 1 ? c.warp : 0; chunk < s.chunks; chunk += s.warps) {
                sf_vectors v[SF_ROW / 4];
                sf_load_chunk_anywhere<K>(p, c, s, chunk, v);
#pragma unroll
                for (int i = 0; i < SF_ROW / 4; i++) {
                        sf_raw<OWN * SF_WIDTH> r;
                        sf_map_either<K>(p, c, v[i], r);
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++) {
                                const int at = chunk * CHUNK + c.lane + (4 * i + j) * 32;
                                sf_put_memory<OWN>(at, s.count,
                                                   sf_result_at<K>(p, c, s.first + at), r, j);
                        }
                }
        }
}

template <int K> struct sf_part_steps {
        SF_DEVICE_MEMBER void run(const sf_params &p, sf_course &c, const sf_part &s)
        {
                if (sf_recipe<K>::KIND == KIND_FOLD)
                        sf_made<K>(p, c, sf_fold_part<K>(p, c, s), s.segment,
                                   !c.lane && (s.warps == 1 || !c.warp));
                else
                        sf_map_part<K>(p, c, s);
                sf_part_steps<K + 1>::run(p, c, s);
        }
};
template <> struct sf_part_steps<STEPS> {
        SF_DEVICE_MEMBER void run(const sf_params &, sf_course &, const sf_part &) {}
};
