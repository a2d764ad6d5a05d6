/*
 * apply_short_cells.cuh: the lines of apply_short.cu on their way from memory through shared memory
 * to registers, and back.
 */

/* ------------------------------------------------------------------------------------------------
 * Places
 * ---------------------------------------------------------------------------------------------- */
SF_DEVICE void sf_sync_team()
{
        if (SF_WARPS > 1)
                sf_sync_block();
        else
                sf_sync_warp();
}

/* Bytes of shared memory for all lines of a team, with SIZE bytes for each element. */
SF_DEVICE int sf_room_of_line(const sf_course &c, int size)
{
        return SF_FLAT ? c.n * size : (int)sf_rows_staged(c.n * size);
}
SF_DEVICE int sf_room(const sf_course &c, int size)
{
        const int lines = LINES * sf_room_of_line(c, size);
        return SF_FLAT ? (int)sf_rows_staged(lines) : lines;
}

/* Where operand K is in the team's shared memory. */
#define OPERAND(k, dt, unit, made) + (k < K && COPIED >> k & 1 ? sf_room(c, SF_SIZE(dt)) : 0)
template <int K> SF_DEVICE unsigned char *sf_copies(const sf_params &p, const sf_course &c)
{
        return sf_shared() + (TEAMS > 1 ? c.warp * (int)p.number[0] : 0) SF_OPERAND_LIST(OPERAND);
}
#undef OPERAND

/* SF_FLAT: the address of the team's first line, if `own` is that of the lane's line. */
template <class T> SF_DEVICE T *sf_first_of(const sf_course &c, T *own, int size)
{
        return LINES > 1 ? own - c.rank * c.n * size : own;
}

/* Where the lane's line is, in the place of an operand or a result that begins at `first`. */
SF_DEVICE unsigned char *sf_cells(const sf_course &c, unsigned char *place, const char *own,
                                  const char *first, int size)
{
        return place + ((sf_u64)(SF_FLAT ? first : own) & 15) + c.team * sf_room_of_line(c, size);
}

/* Which element of its line is number j of the lane's item i, counted from the lane's first. */
SF_DEVICE int sf_index(const sf_course &c, int i, int j)
{
        return (TURNS ? i ^ c.turn : i) * SPREAD + (SWAPS ? j ^ c.swap : j);
}

/* The compiler is not told that a step has the indices of the one before: it would keep all of them
 * meanwhile, and have no registers for them (nvcc 13, sm_90). */
SF_DEVICE void sf_renew(sf_course &c)
{
        c.first = sf_anew(c.first);
        c.swap = sf_anew(c.swap);
        c.turn = sf_anew(c.turn);
        c.n = sf_anew(c.n);
}

/* Is item i inside the line, whatever the lane? */
template <bool WHOLE> SF_DEVICE bool sf_is_whole(int i)
{
        return WHOLE || (SF_WARPS == 1 && i + 1 < SF_ITEMS);
}

/* A run is what is contiguous of a team's lines, with SIZE bytes for each element: how many aligned
 * vectors of 16 bytes a thread has at most of those that it contains, and of those that cover it.
 * They are copied and stored without loops: in a softmax of bf16 rows of 513 these were some 100 of a
 * thread's 800 instructions (nvcc 13, sm_90). */
template <int SIZE> struct sf_run {
        enum { BYTES = (SF_FLAT ? (int)LINES : 1) * SF_LANES * SF_WIDTH * SF_ITEMS * SF_WARPS * SIZE };
        enum { CONTAINS = (BYTES / 16 + TEAM - 1) / TEAM, COVERS = ((BYTES + 30) / 16 + TEAM - 1) / TEAM };
};

/* ------------------------------------------------------------------------------------------------
 * From memory to registers
 * ---------------------------------------------------------------------------------------------- */

/* Copies what is contiguous, by the aligned vectors that cover it, of which a thread has at most
 * MOST. */
template <int MOST>
SF_DEVICE void sf_copy_run(const char *from, int bytes, unsigned char *place, int thread)
{
        const int past = (int)((sf_u64)from & 15), left = past + bytes - 16 * thread;
        /* otherwise the compiler would compute both of these again for every copy */
        const char *const own = sf_anew(from - past + 16 * thread);
        unsigned char *const cell = sf_anew(place + 16 * thread);
#pragma unroll
        for (int k = 0; k < MOST; k++)
                if (k * 16 * TEAM < left)
                        sf_copy_chunk<16>(cell + k * 16 * TEAM, own + k * 16 * TEAM, from, from + bytes);
}
template <int SIZE>
SF_DEVICE void sf_copy_lines(const sf_course &c, const char *own, unsigned char *place)
{
        const int thread = SF_WARPS > 1 ? sf_thread() : c.lane;
        if (SF_FLAT || LINES == 1) {
                sf_copy_run<sf_run<SIZE>::COVERS>(sf_first_of(c, own, SIZE), c.tiles * c.n * SIZE, place, thread);
                return;
        }
#pragma unroll 1
        for (int line = 0; line < c.tiles; line++) {
                const char *from = (const char *)::sf_shuffle((sf_u64)own, line * SF_LANES);
                sf_copy_run<sf_run<SIZE>::COVERS>(from, c.n * SIZE, place + line * sf_room_of_line(c, SIZE), thread);
        }
}

/* Loads item i of an operand from the cells of its line. WHOLE: all of it is there for all lanes;
 * otherwise what is past the end is the line's last element again, or, of vectors, garbage. */
template <bool WHOLE, int SIZE, int BYTES>
SF_DEVICE void sf_take(const sf_course &c, const unsigned char *line, int i, sf_raw<BYTES> &r)
{
        const int left = c.n - c.first;
        line += c.first * SIZE;
        if (SF_VECTORS) {
                const int last = (c.n - 1) / SF_WIDTH * SF_WIDTH - c.first, own = sf_index(c, i, 0);
                const int at = WHOLE || own < last ? own : last;
                sf_shared_load(line + at * SIZE, *(sf_raw<SIZE * SF_WIDTH> *)&r);
                return;
        }
        for (int w = 0; w < (int)(sizeof r.w / 4); w++)
                r.w[w] = 0;
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++) {
                const int own = sf_index(c, i, j), at = WHOLE || own < left ? own : left - 1;
                sf_raw<SIZE> one;
                sf_shared_load(line + at * SIZE, one);
                sf_set_slot<SIZE>(r, j, sf_slot<SIZE>(one, 0));
        }
}
template <bool WHOLE, int SIZE, int BYTES>
SF_DEVICE void sf_take_operand(const sf_course &c, unsigned char *place, const char *own,
                               sf_vectors (&v)[SF_ITEMS], sf_raw<BYTES> sf_vectors::*operand)
{
        const unsigned char *line = sf_cells(c, place, own, sf_first_of(c, own, SIZE), SIZE);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                if (sf_is_whole<WHOLE>(i))
                        sf_take<true, SIZE>(c, line, i, v[i].*operand);
                else
                        sf_take<false, SIZE>(c, line, i, v[i].*operand);
}
template <bool WHOLE>
SF_DEVICE void sf_take_items(const sf_params &p, const sf_course &c, sf_vectors (&v)[SF_ITEMS])
{
#define OPERAND(k, dt, unit, made)                                                                 \
        if (COPIED >> k & 1)                                                                       \
                sf_take_operand<WHOLE, SF_SIZE(dt)>(c, sf_copies<k>(p, c), c.operand[k], v, &sf_vectors::operand##k);
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
}

/* Numbers as a vector has them become numbers as the lane takes them (sf_index). */
template <int SIZE, int BYTES> SF_DEVICE void sf_swap_slots(int swap, sf_raw<BYTES> &r)
{
#pragma unroll
        for (int b = 1; b < SF_WIDTH; b *= 2) {
                const sf_raw<BYTES> from = r;
                for (int j = 0; SWAPS & b && j < SF_WIDTH; j++) {
                        const sf_u64 own = sf_slot<SIZE>(from, j), other = sf_slot<SIZE>(from, j ^ b);
                        sf_set_slot<SIZE>(r, j, swap & b ? other : own);
                }
        }
}

/* Loads item i of an operand that is not copied. WHOLE: as in sf_take. */
template <bool WHOLE, int SIZE, bool UNIT, int BYTES>
SF_DEVICE void sf_fetch(const sf_course &c, const char *line, sf_i64 stride, int i, sf_raw<BYTES> &r)
{
        if (UNIT) {
                const int last = (c.n - 1) / SF_WIDTH * SF_WIDTH;
                const int own = c.first + (TURNS ? i ^ c.turn : i) * SPREAD;
                const int at = WHOLE || own < last ? own : last;
                sf_load_chunk(line + at * SIZE, line, line + (sf_i64)c.n * SIZE,
                              *(sf_raw<(UNIT ? BYTES : SIZE)> *)&r);
                sf_swap_slots<SIZE>(c.swap, r);
                return;
        }
        for (int w = 0; w < (int)(sizeof r.w / 4); w++)
                r.w[w] = 0;
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++) {
                const int own = c.first + sf_index(c, i, j), at = WHOLE || own < c.n ? own : c.n - 1;
                sf_raw<SIZE> one;
                sf_load(line + at * stride, one);
                sf_set_slot<SIZE>(r, j, sf_slot<SIZE>(one, 0));
        }
}
template <int WHICH, bool WHOLE = false>
SF_DEVICE void sf_fetch_item(const sf_params &p, const sf_course &c, int i, sf_vectors &v)
{
#define OPERAND(k, dt, unit, made)                                                                 \
        if (WHICH >> k & 1)                                                                        \
                sf_fetch<WHOLE, SF_SIZE(dt), (UNITS >> k & 1) != 0>(c, c.operand[k], p.along[k], i, v.operand##k);
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
}

/* ------------------------------------------------------------------------------------------------
 * From registers to memory
 * ---------------------------------------------------------------------------------------------- */

/* Stores what is contiguous, `bytes` bytes, from cells with the same address modulo 16: what there
 * is of whole vectors, and then, one by one, what comes before and after these. */
template <int SIZE>
SF_DEVICE void sf_store_run(char *to, int bytes, const unsigned char *cells, int thread)
{
        const int past = (int)(-(sf_u64)to & 15), head = past < bytes ? past : bytes;
        const int whole = (bytes - head) & ~15, left = whole - 16 * thread;
        const int first = head + 16 * thread, one = SIZE * thread;
#pragma unroll
        for (int k = 0; k < sf_run<SIZE>::CONTAINS; k++)
                if (k * 16 * TEAM < left) {
                        sf_raw<16> r;
                        sf_shared_load(cells + first + k * 16 * TEAM, r);
                        sf_store(to + first + k * 16 * TEAM, r);
                }
        const int at = one < 16 ? one : whole + head + one - 16;
        if (at < (one < 16 ? head : bytes)) {
                sf_raw<SIZE> r;
                sf_shared_load(cells + at, r);
                sf_store(to + at, r);
        }
}
template <int K> SF_DEVICE void sf_store_lines(const sf_course &c, char *first, unsigned char *place)
{
        enum { SIZE = SF_SIZE(sf_recipe<K>::OUT) };
        const int thread = SF_WARPS > 1 ? sf_thread() : c.lane;
        if (SF_FLAT || LINES == 1) {
                sf_store_run<SIZE>(first, c.tiles * c.n * SIZE, place + ((sf_u64)first & 15), thread);
                return;
        }
#pragma unroll 1
        for (int line = 0; line < c.tiles; line++) {
                char *to = (char *)::sf_shuffle((sf_u64)c.y[K], line * SF_LANES);
                sf_store_run<SIZE>(to, c.n * SIZE, place + line * sf_room_of_line(c, SIZE) + ((sf_u64)to & 15), thread);
        }
}

/* Puts the results of item i into the line's cells, or, if they are not contiguous, into memory. */
template <int K, bool WHOLE, int BYTES>
SF_DEVICE void sf_put(const sf_params &p, const sf_course &c, unsigned char *line, int i, const sf_raw<BYTES> &r)
{
        enum { SIZE = SF_SIZE(sf_recipe<K>::OUT) };
        const int left = c.n - c.first;
        if (SF_VECTORS && sf_recipe<K>::UNIT) {
                const int at = sf_index(c, i, 0);
                if (WHOLE || at < left)
                        sf_shared_store(line + (c.first + at) * SIZE, *(const sf_raw<SIZE * SF_WIDTH> *)&r);
                return;
        }
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++) {
                const sf_raw<SIZE> one = sf_one_slot<SIZE>(sf_slot<SIZE>(r, j));
                const int at = sf_index(c, i, j);
                if (!sf_recipe<K>::UNIT)
                        sf_store_below(at, c.team < c.tiles ? left : 0, c.y[K] + (c.first + at) * FIELD(K, sy), one);
                else if (WHOLE)
                        sf_shared_store(line + (c.first + at) * SIZE, one);
                else
                        sf_shared_store_below(at, left, line + (c.first + at) * SIZE, one);
        }
}
