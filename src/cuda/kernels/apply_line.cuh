/*
 * apply_line.cuh: a line of apply.cu: where its operands are, and how they get from memory to
 * registers, directly or through shared memory.
 */

/* The lane's first element in tile t. Its item i begins i * SPREAD elements further on. */
SF_DEVICE int sf_first_of(const sf_course &c, int t)
{
        return (t * SF_WARPS + c.warp) * LEAF + c.lane * SF_WIDTH;
}

/* Is all of item i inside the line, or its first element? The first element of the lane is `left`
 * elements before the line's end. */
SF_DEVICE bool sf_is_inside(int left, int i) { return ENTIRE || left >= i * SPREAD + SF_WIDTH; }
SF_DEVICE bool sf_begins_inside(int left, int i) { return ENTIRE || left > i * SPREAD; }

/* Loads item i of an operand. `at`: the lane's first element, which is `left` elements before the
 * end. Elements at the end or past it are not specified. */
template <int SIZE, bool VECTOR, int BYTES>
SF_DEVICE void sf_fetch(const char *at, sf_i64 stride, int i, int left, sf_raw<BYTES> &r)
{
        if (VECTOR && sf_is_inside(left, i)) {
                sf_load(at + i * SPREAD * SIZE, *(sf_raw<(VECTOR ? BYTES : SIZE)> *)&r);
                return;
        }
        for (int w = 0; w < (int)(sizeof r.w / 4); w++)
                r.w[w] = 0;
        if (VECTOR && !SF_RAGGED)
                return;
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                if (i * SPREAD + j < left) {
                        sf_raw<SIZE> one;
                        sf_load(at + (i * SPREAD + j) * stride, one);
                        sf_set_slot<SIZE>(r, j, sf_slot<SIZE>(one, 0));
                }
}

/* SF_KEEP 2 and up: where the vectors of operand K are in shared memory. They come after the
 * leaves' totals and the results, and after the operands before K. With SF_SHIFT_IN the vectors of
 * a warp are contiguous, because other lanes copy them than those that read them. */
#define OPERAND(k, dt, unit, made) + (k < K && KEPT >> k & 1 ? (int)sf_apply_operand(vectors, sizeof(sf_raw<SF_SIZE(dt) * SF_WIDTH>), SF_THREADS, SF_SHIFT_IN) : 0)
template <int K> SF_DEVICE int sf_room(int vectors)
{
        (void)vectors;
        return 0 SF_OPERAND_LIST(OPERAND);
}
#undef OPERAND
SF_DEVICE unsigned char *sf_results_of(const sf_course &c)
{
        return sf_shared() + (TEAM ? sf_apply_results(2, 1, 1, SF_WARPS + 1, SLOT) : sf_apply_results(SF_CLUSTER, TURNS * STEPS, LINES, SF_WARPS * c.tiles, SLOT));
}
template <int K, int SIZE> SF_DEVICE unsigned char *sf_place(const sf_course &c, int item)
{
        enum { BYTES = sizeof(sf_raw<SIZE * SF_WIDTH>), LEAF_VECTORS = SF_ITEMS * 32 + 1 };
        const int vector = SF_SHIFT_IN ? (c.team * SF_WARPS + c.warp) * LEAF_VECTORS + item * 32 + c.lane : item * SF_THREADS + sf_thread();
        return sf_results_of(c) + sf_room<K>(STAGED ? SF_ITEMS : c.kept * SF_ITEMS) + vector * BYTES;
}

/* Copies item i, as far as it is inside the line. */
template <int SIZE>
SF_DEVICE void sf_copy_vector(const char *at, int i, int left, unsigned char *place)
{
        if (sf_is_inside(left, i)) {
                sf_copy_async<SF_WIDTH * SIZE>(place, at + i * SPREAD * SIZE);
                return;
        }
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                if (SF_RAGGED && i * SPREAD + j < left)
                        sf_copy_async<SIZE>(place + j * SIZE, at + (i * SPREAD + j) * SIZE);
}

/* Copies the lane's vectors of a leaf that is inside the line. */
template <int SIZE> SF_DEVICE void sf_copy_whole(const char *at, unsigned char *place)
{
        at = sf_anew(at);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_copy_async<SF_WIDTH * SIZE>(place + i * SF_THREADS * (int)sizeof(sf_raw<SIZE * SF_WIDTH>), at + i * SPREAD * SIZE);
}

/* Copies the aligned vector that begins with element `first`, as far as it is in the line. */
template <int SIZE> SF_DEVICE void sf_copy_inside(const char *line, int first, int n, unsigned char *place)
{
        if (first >= 0 && first + SF_WIDTH <= n) {
                sf_copy_async<SF_WIDTH * SIZE>(place, line + (sf_i64)first * SIZE);
                return;
        }
#pragma unroll 1
        for (int j = 0; j < SF_WIDTH; j++)
                if (first + j >= 0 && first + j < n)
                        sf_copy_async<SIZE>(place + j * SIZE, line + (sf_i64)(first + j) * SIZE);
}

/* SF_SHIFT_IN: copies the aligned vectors that a leaf of one operand overlaps, one more than it has.
 * The lane's first is copied to `place`. */
template <int SIZE> SF_DEVICE void sf_copy_leaf(const sf_course &c, const char *line, int leaf, unsigned char *place)
{
        enum { BYTES = SIZE * SF_WIDTH, APART = 32 * sizeof(sf_raw<BYTES>) };
        const int past = (int)((sf_u64)line & (BYTES - 1)) / SIZE, first = leaf + c.lane * SF_WIDTH - past;
        const bool inside = leaf >= past && leaf + LEAF + SF_WIDTH <= c.n + past;
        if (inside) {
                const char *from = line + (sf_i64)first * SIZE;
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_copy_async<BYTES>(place + i * APART, from + i * SPREAD * SIZE);
                if (c.lane == 0)
                        sf_copy_async<BYTES>(place + SF_ITEMS * APART, from + SF_ITEMS * SPREAD * SIZE);
                return;
        }
#pragma unroll 1
        for (int i = 0; i < SF_ITEMS + 1; i++)
                if (i < SF_ITEMS || c.lane == 0)
                        sf_copy_inside<SIZE>(line, first + i * SPREAD, c.n, place + i * APART);
}

/* Where the lane's elements of tile t begin in every operand. The compiler is not told how these
 * addresses were computed: it would keep one for each item. */
struct sf_places {
        const char *operand[SF_OPERANDS];
        int left;
};
template <int WHICH>
SF_DEVICE void sf_find_places(const sf_params &p, const sf_course &c, int t, sf_places &from)
{
        const int first = sf_first_of(c, t);
        from.left = c.n - first;
#define OPERAND(k, dt, unit, made) \
        if (WHICH >> k & 1)        \
                from.operand[k] = sf_anew(c.operand[k] + first * (UNITS >> k & 1 ? (sf_i64)SF_SIZE(dt) : p.along[k]));
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
}

/* Loads item i from memory, of the operands in WHICH. */
template <int WHICH>
SF_DEVICE void sf_fetch_item(const sf_params &p, const sf_places &from, int i, sf_vectors &v)
{
#define OPERAND(k, dt, unit, made) \
        if (WHICH >> k & 1)        \
                sf_fetch<SF_SIZE(dt), (UNITS >> k & 1) != 0>(from.operand[k], p.along[k], i, from.left, v.operand##k);
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
}

/* Loads the operands in WHICH again, all items of tile t. Lines at any address are loaded one by
 * one. */
template <int WHICH>
SF_DEVICE void sf_fetch_again(const sf_params &p, const sf_course &c, int t,
        sf_vectors (&v)[SF_ITEMS])
{
        enum { ALIGNED = SF_SHIFT_IN ? UNITS & ~COPIED : (int)UNITS };
        sf_places from;
        sf_find_places<WHICH>(p, c, t, from);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
#define OPERAND(k, dt, unit, made) \
        if (WHICH >> k & 1)        \
                sf_fetch<SF_SIZE(dt), (ALIGNED >> k & 1) != 0>(from.operand[k], p.along[k], i, from.left, v[i].operand##k);
                SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        }
}

/* The same from shared memory, or into it if PUT. t counts the tiles of this block. */
template <int WHICH, bool PUT> SF_DEVICE void sf_keep_item(const sf_course &c, int t, int i, sf_vectors &v)
{
#define OPERAND(k, dt, unit, made)                                                                                               \
        if (PUT && WHICH >> k & 1)                                                                                               \
                sf_shared_store(sf_place<k, SF_SIZE(dt)>(c, t * SF_ITEMS + i), v.operand##k);      \
        if (!PUT && WHICH >> k & 1)                                                                                              \
                sf_shared_load(sf_place<k, SF_SIZE(dt)>(c, t * SF_ITEMS + i), v.operand##k);
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
}

/* Loads what step K reads of tile t, except what is in registers already and what is loaded
 * late. */
template <int K> SF_DEVICE void sf_fetch_all(const sf_params &p, sf_course &c, int t, sf_vectors (&v)[SF_ITEMS])
{
        enum {
                FRESH = sf_reads<K>::FRESH & ~sf_reads<K>::LATE,
                OLD = SF_KEEP == 2 ? (int)sf_reads<K>::ALL & ~(int)sf_reads<K>::FRESH : 0,
                LATER = SF_KEEP == 2 ? FRESH & sf_from_step<K + 1>::LOADS : 0
        };
        const bool near = SF_KEEP == 2 && t / SF_CLUSTER < c.kept;
        sf_places from;
        sf_find_places<FRESH | OLD>(p, c, t, from);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_fetch_item<FRESH>(p, from, i, v[i]);
        if (OLD && !near)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_fetch_item<OLD>(p, from, i, v[i]);
        if (OLD && near)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_keep_item<OLD, false>(c, t / SF_CLUSTER, i, v[i]);
        if (LATER && near)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_keep_item<LATER, true>(c, t / SF_CLUSTER, i, v[i]);
}

/* The block's first tile; and t becomes the next, if there is one. If tiles are kept in registers,
 * there is only one: the compiler must see that it need not keep anything for another. */
SF_DEVICE int sf_tiles_begin(const sf_course &c) { return SHARED ? c.rank : 0; }
SF_DEVICE bool sf_next_tile(const sf_course &c, int &t)
{
        return !ONE_TILE && (t += SF_CLUSTER) < c.tiles;
}

/* Starts to copy what the first step reads to shared memory. */
SF_DEVICE void sf_stage(const sf_course &c)
{
        const int leaf = (sf_tiles_begin(c) * SF_WARPS + c.warp) * LEAF,
                first = leaf + c.lane * SF_WIDTH;
        (void)leaf, (void)first;
#define PLACE(k, dt, i) sf_place<k, SF_SIZE(dt)>(c, i)
#define COPIED_SIZE(k, dt) (COPIED >> k & 1 ? SF_SIZE(dt) : 1)
#if SF_SHIFT_IN
#define OPERAND(k, dt, unit, made)                                                                            \
        if (COPIED >> k & 1)                                                                                  \
                sf_copy_leaf<COPIED_SIZE(k, dt)>(c, c.operand[k], leaf, PLACE(k, dt, 0));
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
#else
        if (!ENTIRE && leaf + LEAF <= c.n) {
#define OPERAND(k, dt, unit, made) \
        if (COPIED >> k & 1)       \
                sf_copy_whole<COPIED_SIZE(k, dt)>(c.operand[k] + (sf_i64)first * COPIED_SIZE(k, dt), PLACE(k, dt, 0));
                SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        } else
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
#define OPERAND(k, dt, unit, made) \
        if (COPIED >> k & 1)       \
                sf_copy_vector<COPIED_SIZE(k, dt)>(c.operand[k] + (sf_i64)first * COPIED_SIZE(k, dt), i, c.n - first, PLACE(k, dt, i));
                SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        }
#endif
#undef PLACE
#undef COPIED_SIZE
        sf_copy_commit();
}

/* Loads the lane's vectors of an operand; each is cut out of two aligned ones. */
template <int PAST, int SIZE, int BYTES> SF_DEVICE void sf_cut_vectors(const unsigned char *place, int past, sf_vectors (&v)[SF_ITEMS], sf_raw<BYTES> sf_vectors::*operand)
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_raw<BYTES> a, b;
                sf_shared_load(place + i * 32 * (int)sizeof a, a);
                if (PAST || SIZE < 4)
                        sf_shared_load(place + (i * 32 + 1) * (int)sizeof a, b);
                else
                        b = a;
                v[i].*operand = sf_cut_at<PAST, SIZE>(a, b, past);
        }
}
template <int SIZE, int BYTES> SF_DEVICE void sf_cut_out(const char *line, const unsigned char *place, sf_vectors (&v)[SF_ITEMS], sf_raw<BYTES> sf_vectors::*operand)
{
        const int past = (int)((sf_u64)line & (BYTES - 1)), word = BYTES < 8 ? 0 : past / 4;
        if (word == 0)
                sf_cut_vectors<0, SIZE>(place, past, v, operand);
        else if (SIZE < 8 && word == 1)
                sf_cut_vectors<1, SIZE>(place, past, v, operand);
        else if (BYTES > 8 && word == 2)
                sf_cut_vectors<2, SIZE>(place, past, v, operand);
        else if (SIZE < 8 && BYTES > 8)
                sf_cut_vectors<3, SIZE>(place, past, v, operand);
}

/* The last `past` bytes of the vector before r, then the first of r. The one before is r of the lane
 * before; for the first lane, it is `last` of the last lane, the vector before its r. PAST: the whole
 * words among `past`, which all lanes agree on. */
template <int PAST, int SIZE, int BYTES>
SF_DEVICE sf_raw<BYTES> sf_move_up(const sf_course &c, const sf_raw<BYTES> &last,
        const sf_raw<BYTES> &r, int past)
{
        enum { WORDS = (BYTES + 3) / 4, CUTS = SIZE < 4 };
        sf_raw<BYTES> before, moved;
#pragma unroll
        for (int k = 0; k < WORDS; k++)
                before.w[k] = k < WORDS - PAST - CUTS ? 0 :
                        ::sf_shuffle(c.lane == 31 ? last.w[k] : r.w[k], (c.lane - 1) & 31);
        if (BYTES < 4)
                return past ? sf_cut(before, r, BYTES - past) : r;
#pragma unroll
        for (int k = 0; k < WORDS; k++) {
                const sf_u32 high = sf_word_of_two(before, r, WORDS + k - PAST);
                const sf_u32 low = sf_word_of_two(before, r, WORDS + k - PAST - CUTS);
                moved.w[k] = CUTS ? sf_funnel_left(low, high, (past & 3) * 8) : high;
        }
        return moved;
}
template <int SIZE, int BYTES>
SF_DEVICE sf_raw<BYTES> sf_moved_up(const sf_course &c, const sf_raw<BYTES> &last,
        const sf_raw<BYTES> &r, int past)
{
        if (SIZE < 8 && BYTES > 8 && past >= 12)
                return sf_move_up<(BYTES > 8 ? 3 : 0), SIZE>(c, last, r, past);
        if (BYTES > 8 && past >= 8)
                return sf_move_up<(BYTES > 8 ? 2 : 0), SIZE>(c, last, r, past);
        if (SIZE < 8 && BYTES > 4 && past >= 4)
                return sf_move_up<(BYTES > 4 ? 1 : 0), SIZE>(c, last, r, past);
        if (SIZE >= 4 && past == 0)
                return r;
        return sf_move_up<0, SIZE>(c, last, r, past);
}

/* Waits for the copies of sf_stage and loads them into registers. */
SF_DEVICE void sf_unstage(sf_course &c, sf_vectors (&v)[SF_ITEMS])
{
        sf_copy_wait<0>();
#if SF_SHIFT_IN
        sf_sync_warp(); /* other lanes have copied it */
#define OPERAND(k, dt, unit, made) \
        if (COPIED >> k & 1)       \
                sf_cut_out<SF_SIZE(dt)>(c.operand[k], sf_place<k, SF_SIZE(dt)>(c, 0), v, &sf_vectors::operand##k);
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        if (LOOPS)
                sf_sync_warp();
#else
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_keep_item<COPIED, false>(c, 0, i, v[i]);
#endif
}
