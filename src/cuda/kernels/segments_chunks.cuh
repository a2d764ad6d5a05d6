/*
 * segments_chunks.cuh: longer segments of segments_apply.cu, chunk by chunk, by one warp or by all
 * warps of a block. A chunk has STRIPS strips of 32 elements, one for each lane.
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

/* Loads what step K reads of a chunk. NEAR: x, or the numbers kept in its place, are in cells. ALL:
 * the segment has every element of the chunk. */
template <int K, bool NEAR, bool ALL> SF_DEVICE void
sf_load_chunk_of(const sf_params &p, const sf_course &c, const sf_part &s, int first,
              sf_vectors (&v)[STRIPS / 4])
{
        enum { LOADS = sf_recipe<K>::LOADS };
#pragma unroll
        for (int i = 0; i < STRIPS / 4; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        const int at = first + (4 * i + j) * 32;
                        const bool there = ALL || at < s.count;
                        /* Cells past the end may be past the block's memory. */
                        const int cell = there ? at : 0;
                        (void)cell;
#define OPERAND(k, dt, unit, made)                                                                 \
        if ((k == 0 || k == NUMBERS) && LOADS >> k & 1) {                                          \
                sf_raw<SF_SIZE(dt)> one;                                                           \
                const char *from = k ? sf_result_at<LAST>(p, c, s.first + at)                      \
                                     : c.operand[0] + (s.first + at) * SIZE;                       \
                one.w[0] = 0;                                                                      \
                if (NEAR)                                                                          \
                        sf_shared_glance(s.cells + cell * SF_SIZE(dt), one, there);                \
                else if (ALL)                                                                      \
                        sf_load(from, one);                                                        \
                else                                                                               \
                        sf_load_below(at, s.count, from, one);                                     \
                sf_set_slot<SF_SIZE(dt)>(v[i].operand##k, j, sf_slot<SF_SIZE(dt)>(one, 0));        \
        }
                        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
                        sf_load_beside<BESIDE & LOADS>(p, c, s.first + at, there, j, v[i]);
                }
}

template <int K, bool ALL> SF_DEVICE void
sf_load_chunk(const sf_params &p, const sf_course &c, const sf_part &s, int first, bool near,
              sf_vectors (&v)[STRIPS / 4])
{
        if (near)
                sf_load_chunk_of<K, true, ALL>(p, c, s, first, v);
        else
                sf_load_chunk_of<K, false, ALL>(p, c, s, first, v);
}

/* Keeps the numbers of a fold where x was, or in the result. */
template <int K, bool ALL> SF_DEVICE void
sf_keep_chunk(const sf_params &p, const sf_course &c, const sf_part &s, int first, bool near,
              const sf_vectors (&v)[STRIPS / 4])
{
#pragma unroll
        for (int i = 0; i < STRIPS / 4; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        const int at = first + (4 * i + j) * 32;
                        char *const result = sf_result_at<LAST>(p, c, s.first + at);
                        (void)result;
#define OPERAND(k, dt, unit, made)                                                                 \
        if (k == NUMBERS && near)                                                                  \
                sf_put_cell<SF_SIZE(dt), ALL>(at, s.count, s.cells + at * SF_SIZE(dt),             \
                                              v[i].operand##k, j);                                 \
        else if (k == NUMBERS)                                                                     \
                sf_put_memory<SF_SIZE(dt), ALL>(at, s.count, result, v[i].operand##k, j);
                        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
                }
}

/* Step K, a fold, of the chunk whose element `first` is the lane's. ANY: any order gives the same
 * bits, so each lane goes on with a total of its own; of wide elements that would spill. */
template <int K> struct sf_fold_chunk {
        enum {
                MOST = sf_recipe<K>::OP == SF_OP_MAX || sf_recipe<K>::OP == SF_OP_MIN,
                ANY = MOST && SIZE <= 4
        };
        template <bool ALL>
        SF_DEVICE_MEMBER void run(const sf_params &p, sf_course &c, const sf_part &s,
                                  int first, bool near, sf_total<K> *to)
        {
                sf_vectors v[STRIPS / 4];
                sf_total<K> a[STRIPS];
                sf_load_chunk<K, ALL>(p, c, s, first, near, v);
#pragma unroll
                for (int i = 0; i < STRIPS / 4; i++) {
                        sf_u32 there = 0;
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                there |= (sf_u32)(first + (4 * i + j) * 32 < s.count) << j;
                        sf_fold_vector<K, true>(p, c, ALL ? 15 : there, v[i], a + 4 * i);
                }
                if (KEEPERS >> K & 1)
                        sf_keep_chunk<K, ALL>(p, c, s, first, near, v);
                if (ANY) {
                        *to = sf_joined<K>(*to, sf_fold_few<K>(a));
                } else {
                        const sf_total<K> total = sf_fold_lanes<K>(a, c.lane);
                        if (!c.lane)
                                *to = total;
                }
        }
};

/* Step K, a map. */
template <int K> struct sf_map_chunk {
        template <bool ALL>
        SF_DEVICE_MEMBER void run(const sf_params &p, sf_course &c, const sf_part &s,
                                  int first, bool near, void *)
        {
                enum { OWN = SF_SIZE(sf_recipe<K>::OUT) };
                sf_vectors v[STRIPS / 4];
                sf_load_chunk<K, ALL>(p, c, s, first, near, v);
#pragma unroll
                for (int i = 0; i < STRIPS / 4; i++) {
                        sf_raw<OWN * SF_WIDTH> r;
                        sf_map_either<K>(p, c, v[i], r);
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++) {
                                const int at = first + (4 * i + j) * 32;
                                sf_put_memory<OWN, ALL>(at, s.count,
                                                        sf_result_at<K>(p, c, s.first + at), r, j);
                        }
                }
        }
};

/* Runs a step of one chunk. Most chunks that a block takes have all their elements, in cells or, in
 * the further launches, in memory; these need no tests. A warp by itself has too few of them to
 * make up for a longer kernel: H200, softmax of uniform lengths around 1024, share of a copy 0.26
 * for 0.32. Of wide elements it would spill, too. */
template <class STEP, class T> SF_DEVICE void sf_run_chunk(const sf_params &p, sf_course &c,
                                                           const sf_part &s, int chunk, T *to)
{
        const int first = chunk * CHUNK + c.lane;
        const bool near = !SF_ONLY && chunk * CHUNK < s.kept;
        if (SIZE <= 4 && s.warps > 1 && near == !SF_ONLY && (chunk + 1) * CHUNK <= s.count)
                STEP::template run<true>(p, c, s, first, !SF_ONLY, to);
        else
                STEP::template run<false>(p, c, s, first, near, to);
}

/* Step K, a fold, or part of it. All threads get the total. */
template <int K> SF_DEVICE sf_total<K> sf_fold_part(const sf_params &p, sf_course &c,
                                                    const sf_part &s)
{
        const int turn = s.warps > 1 ? K % 2 : 0;
        sf_total<K> *const leaf = (sf_total<K> *)(s.total + turn * 32 * SF_PER * SLOT);
        enum { ANY = sf_fold_chunk<K>::ANY };
        sf_total<K> own = sf_lifted<K>(FIELD(K, neutral));
        if (s.warps == 1)
                sf_sync_warp();
#pragma unroll 1
        for (int chunk = s.warps > 1 ? c.warp : 0; chunk < s.chunks; chunk += s.warps)
                sf_run_chunk<sf_fold_chunk<K> >(p, c, s, chunk, ANY ? &own : leaf + chunk);
        if (ANY) {
#pragma unroll
                for (int b = 1; b < 32; b *= 2)
                        own = sf_meet<K>(own, c.lane, b);
                if (s.warps == 1)
                        return own;
                if (!c.lane)
                        leaf[c.warp] = own;
                sf_sync_part(s);
                return sf_fold_leaves<K>(p, c.lane, leaf, s.warps);
        }
        sf_sync_part(s);
        return sf_fold_leaves<K>(p, c.lane, leaf, s.chunks);
}

/* Step K, a map. */
template <int K> SF_DEVICE void sf_map_part(const sf_params &p, sf_course &c,
                                            const sf_part &s)
{
#pragma unroll 1
        for (int chunk = s.warps > 1 ? c.warp : 0; chunk < s.chunks; chunk += s.warps)
                sf_run_chunk<sf_map_chunk<K> >(p, c, s, chunk, (void *)0);
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
