/*
 * apply.cu: a chain (core/step.h): folds of a line whose results go back to its elements, as in a softmax or a norm, all in one launch.
 *
 * SF_WARPS warps have a line, and a block SF_THREADS / 32 / SF_WARPS lines; or SF_CLUSTER blocks have one, each every SF_CLUSTER-th of its tiles. A line is tiles, a tile one leaf a warp, a leaf SF_ITEMS vectors a lane: neighbours
 * in a vector, then lanes, then vectors, then warps, then tiles, so a leaf is an aligned part of the line, and its total a node of the order's tree
 * (docs/order.md). Each warp folds its leaves; where there are several, they meet in shared memory, that of every block of the cluster, and every warp folds
 * them all, SF_PER to a lane. So all threads have the result, and one barrier is all that a fold takes. What is absent is the operation's neutral value.
 *
 * What several steps read of memory is loaded once. SF_KEEP 1: a block has one tile, which stays in registers; 2: its first number[1] tiles stay in shared
 * memory, where each thread reads what it has put there itself, and the others are read again, with luck from the second-level cache. 3: as 1, by way of shared memory, to
 * which each thread copies for itself what the first step reads: all of that is under way at once, where the compiler would mix loads with the arithmetic. 4: as 3, and a block has several
 * lines, one after another: as soon as one has moved on to registers, the copy of the next begins, so that the memory is busy while the block computes.
 * SF_SHIFT_IN: lines may begin at any address. They are copied to shared memory element by element, neighbouring lanes neighbours, and read from there as vectors; results
 * go the other way. Elements of less than a word, which are not copied singly in the background, are copied in aligned vectors, and a vector is cut out of two of those.
 *
 * SF_STEPS(F) lists the steps, F(number, op, accumulator, dtype of the result, whether there is an initial value, how, which operands the load reads,
 * which the store). how: its kind (0 a fold, 1 a map, 2 a map of one element), 4 if nobody else reads the result, 8 if results are vectors, and 16 times
 * the mask's operand, from 1 on. SF_OPERAND_LIST(F) lists what they read, F(number, dtype, unit, the step whose result it is or -1), unit 1: vectors,
 * 0: any stride, 2: one for the whole line. A step's vectors are what the fold has made of its elements before it folded them: a later step has them from registers.
 *   units: lines. number[0]: tiles of a line; number[1]: said above; number[2]: from one of a block's lines to its next.
 */
enum { KIND_FOLD, KIND_MAP, KIND_SMALL };

template <int K> struct sf_recipe;
template <int K> struct sf_programs;
#define STEP(k, op, acc, out, begins, how, loads, stores)                                                                                    \
        template <> struct sf_recipe<k> {                                                                                                    \
                enum { OP = op, ACC = acc, OUT = out, BEGINS = begins, KIND = (how) & 3, WITHIN = (how) >> 2 & 1 };   \
                enum { UNIT = (how) >> 3 & 1, MASK = ((how) >> 4) - 1, LOADS = loads, STORES = stores };                                     \
        };
SF_STEPS(STEP)
#undef STEP

enum {
        STEPS = 1 + SF_ALSO,
        LINES = SF_THREADS / 32 / SF_WARPS,
        SPREAD = 32 * SF_WIDTH,    /* from one of a lane's vectors to the next */
        LEAF = SPREAD * SF_ITEMS,
        LATE_ITEMS = SF_WIDTH < 8 ? 8 / SF_WIDTH / 2 : 1, /* vectors of what a map alone reads that are loaded at a time */
        ONE_TILE = SF_KEEP != 2,
        STAGED = SF_KEEP >= 3,
        LOOPS = SF_KEEP == 4,
        TURNS = LOOPS ? 2 : 1, /* lines whose leaves are in shared memory: a warp may be one line ahead of another */
        ALONE = SF_WARPS == 1 && ONE_TILE && SF_CLUSTER == 1, /* a line is one leaf */
};

template <int K> using sf_number_of_step = sf_of<sf_recipe<K>::ACC>;
template <int K> using sf_held = sf_value<sf_recipe<K>::OP, sf_number_of_step<K> >;
template <int K> using sf_total = typename sf_held<K>::type;

/* Of the steps' totals the largest, which is a power of two. */
template <int K> struct sf_slot_of_step {
        enum { OWN = (int)sizeof(sf_total<K>), NEXT = sf_slot_of_step<K + 1>::BYTES, BYTES = (int)OWN > (int)NEXT ? (int)OWN : (int)NEXT };
};
template <> struct sf_slot_of_step<STEPS> {
        enum { BYTES = 4 };
};
enum { SLOT = sf_slot_of_step<0>::BYTES };

#if SF_ALSO
#define FIELD(k, name) ((k) ? p.also[(k) ? (k) - 1 : 0].name : p.name)
#else
#define FIELD(k, name) p.name
#endif

/* ------------------------------------------------------------------------------------------------------------
 * Operands
 * ---------------------------------------------------------------------------------------------------------- */

/* Bit k: operand k moves along the line; and is in memory. */
#define OPERAND(k, dt, unit, made) | ((made) < 0 ? (unit) != 2 : (unit) == 1) << k
enum { MOVING = 0 SF_OPERAND_LIST(OPERAND) };
#undef OPERAND

#define OPERAND(k, dt, unit, made) | ((made) < 0 && (unit) != 2) << k
enum { FETCHED = 0 SF_OPERAND_LIST(OPERAND) };
#undef OPERAND

#define OPERAND(k, dt, unit, made) | ((made) < 0 && (unit) == 1) << k
enum { UNITS = 0 SF_OPERAND_LIST(OPERAND) };
#undef OPERAND

/* Of the steps before K, and from K on: those that some of them load. */
template <int K> struct sf_before_step {
        enum { LOADS = sf_before_step<K - 1>::LOADS | sf_recipe<K - 1>::LOADS };
};
template <> struct sf_before_step<0> {
        enum { LOADS = 0 };
};
template <int K> struct sf_from_step {
        enum { LOADS = sf_recipe<K>::LOADS | sf_from_step<K + 1>::LOADS };
};
template <> struct sf_from_step<STEPS> {
        enum { LOADS = 0 };
};

/* Those that several steps load. */
template <int K> struct sf_kept_from {
        enum { LOADS = (sf_recipe<K>::LOADS & sf_from_step<K + 1>::LOADS) | sf_kept_from<K + 1>::LOADS };
};
template <> struct sf_kept_from<STEPS> {
        enum { LOADS = 0 };
};
enum { COPIED = STAGED ? sf_recipe<0>::LOADS & UNITS : 0, KEPT = STAGED ? (int)COPIED : (int)sf_kept_from<0>::LOADS & (int)FETCHED };

/* What is loaded of every operand: a vector, or one element. */
struct sf_vectors {
#define OPERAND(k, dt, unit, made) sf_raw<SF_SIZE(dt) * (MOVING >> k & 1 ? SF_WIDTH : 1)> operand##k;
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
};

/* A line, and what is known of it. */
struct sf_course {
        const char *operand[SF_OPERANDS];
        char *y[STEPS];
        sf_vectors still;
        sf_u64 made[STEPS];
        int n, tiles, kept, lane, warp, team, rank, round;
        bool mine; /* to store what there is one of */
};

/* One of DT: a result of the chain, what stands still, or number j of a vector. */
template <int DT, int MADE, bool MOVES> struct sf_argument {
        template <int A, int B> SF_DEVICE_MEMBER sf_of<DT> of(const sf_course &, const sf_raw<A> &v, const sf_raw<B> &, int j)
        {
                return sf_dtype<DT>::from(sf_slot<SF_SIZE(DT)>(v, j));
        }
};
template <int DT> struct sf_argument<DT, -1, false> {
        template <int A, int B> SF_DEVICE_MEMBER sf_of<DT> of(const sf_course &, const sf_raw<A> &, const sf_raw<B> &still, int)
        {
                return sf_dtype<DT>::from(sf_slot<SF_SIZE(DT)>(still, 0));
        }
};
template <int DT, int MADE> struct sf_argument<DT, MADE, false> {
        template <int A, int B> SF_DEVICE_MEMBER sf_of<DT> of(const sf_course &c, const sf_raw<A> &, const sf_raw<B> &, int)
        {
                return sf_dtype<DT>::from(c.made[MADE]);
        }
};

#define OPERAND(k, dt, unit, made) , sf_argument<dt, made, (MOVING >> k & 1) != 0>::of(c, v.operand##k, c.still.operand##k, j)
#define STEP(k, op, acc, out, begins, how, loads, stores)                                                                          \
        template <> struct sf_programs<k> {                                                                                        \
                template <class ASK = sf_careful>                                                                                  \
                SF_DEVICE_MEMBER sf_of<acc> load(const sf_params &p, const sf_course &c, const sf_vectors &v, int j, ASK &&ask = ASK()) \
                {                                                                                                                  \
                        return sf_load_program##k(p SF_OPERAND_LIST(OPERAND), ask);                                                \
                }                                                                                                                  \
                template <class T> SF_DEVICE_MEMBER sf_u64 store(const sf_params &p, const sf_course &c, const sf_vectors &v, T s) \
                {                                                                                                                  \
                        const int j = 0;                                                                                           \
                        return (void)j, sf_store_program##k(p, s SF_OPERAND_LIST(OPERAND));                                        \
                }                                                                                                                  \
        };
SF_STEPS(STEP)
#undef STEP
#undef OPERAND

/* Is number j of the vector left in? */
template <int MASK> struct sf_keeps {
#define OPERAND(k, dt, unit, made) \
        if (MASK == k)              \
                kept = sf_argument<SF_DT_BOOL, made, (MOVING >> k & 1) != 0>::of(c, v.operand##k, c.still.operand##k, j) != 0;
        SF_DEVICE_MEMBER bool at(const sf_course &c, const sf_vectors &v, int j)
        {
                bool kept = true;
                SF_OPERAND_LIST(OPERAND)
                return kept;
        }
#undef OPERAND
};
template <> struct sf_keeps<-1> {
        SF_DEVICE_MEMBER bool at(const sf_course &, const sf_vectors &, int) { return true; }
};

/* The vector at `index` of an operand; what is at n or past it reads as anything. */
template <int SIZE, bool VECTOR, int BYTES> SF_DEVICE void sf_fetch(const char *line, sf_i64 stride, int index, int n, sf_raw<BYTES> &r)
{
        if (VECTOR && index + SF_WIDTH <= n) {
                sf_load(line + (sf_i64)index * SIZE, *(sf_raw<(VECTOR ? BYTES : SIZE)> *)&r);
                return;
        }
        for (int w = 0; w < (int)(sizeof r.w / 4); w++)
                r.w[w] = 0;
        if (VECTOR && !SF_RAGGED)
                return;
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                if (index + j < n) {
                        sf_raw<SIZE> one;
                        sf_load(line + (sf_i64)(index + j) * stride, one);
                        sf_set_slot<SIZE>(r, j, sf_slot<SIZE>(one, 0));
                }
}

/* SF_KEEP 2 and up: where in shared memory operand k has its vectors, behind the leaves: those of the operands before it come first. A warp's vectors are side by side where others than
 * their own lanes have copied them. */
#define OPERAND(k, dt, unit, made) + (k < K && KEPT >> k & 1 ? (int)sf_apply_operand(vectors, sizeof(sf_raw<SF_SIZE(dt) * SF_WIDTH>), SF_SIZE(dt), SF_THREADS, SF_SHIFT_IN) : 0)
template <int K> SF_DEVICE int sf_room(int vectors)
{
        (void)vectors;
        return 0 SF_OPERAND_LIST(OPERAND);
}
#undef OPERAND
SF_DEVICE unsigned char *sf_results_of(const sf_course &c) { return sf_shared() + sf_apply_results(SF_CLUSTER, TURNS * STEPS, LINES, SF_WARPS * c.tiles, SLOT); }
template <int K, int SIZE> SF_DEVICE unsigned char *sf_place(const sf_course &c, int item)
{
        enum { BYTES = sizeof(sf_raw<SIZE * SF_WIDTH>), LEAF_VECTORS = SF_ITEMS * 32 + (SIZE < 4) };
        const int vector = SF_SHIFT_IN ? (c.team * SF_WARPS + c.warp) * LEAF_VECTORS + item * 32 + c.lane : item * SF_THREADS + sf_thread();
        return sf_results_of(c) + sf_apply_kept(0, SF_THREADS, SF_SHIFT_IN) + sf_room<K>(STAGED ? SF_ITEMS : c.kept * SF_ITEMS) + vector * BYTES;
}

template <int SIZE> SF_DEVICE void sf_copy_vector(const char *line, int index, int n, unsigned char *place)
{
        if (index + SF_WIDTH <= n) {
                sf_copy_async<SF_WIDTH * SIZE>(place, line + (sf_i64)index * SIZE);
                return;
        }
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                if (SF_RAGGED && index + j < n)
                        sf_copy_async<SIZE>(place + j * SIZE, line + (sf_i64)(index + j) * SIZE);
}

/* The aligned vector that begins with element `first`: as far as it is in the line. */
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

/* SF_SHIFT_IN: a leaf of one operand, to `place`, where the lane's first vector will be. */
template <bool WHOLE, int SIZE> SF_DEVICE void sf_copy_leaf(const sf_course &c, const char *line, int leaf, unsigned char *place)
{
        enum { BYTES = SIZE * SF_WIDTH };
        if (SIZE < 4) {
                const int first = leaf + c.lane * SF_WIDTH - (int)((sf_u64)line & (BYTES - 1)) / SIZE;
#pragma unroll
                for (int i = 0; i < SF_ITEMS + 1; i++)
                        if (i < SF_ITEMS || c.lane == 0)
                                sf_copy_inside<SIZE>(line, first + i * SPREAD, c.n, place + i * 32 * (int)sizeof(sf_raw<BYTES>));
                return;
        }
        const char *from = line + (sf_i64)(leaf + c.lane) * SIZE;
        place -= c.lane * (SF_WIDTH - 1) * SIZE;
#pragma unroll
        for (int i = 0; i < SF_ITEMS * SF_WIDTH; i++)
                if (WHOLE || leaf + c.lane + i * 32 < c.n)
                        sf_copy_async<SIZE>(place + i * 32 * SIZE, from + i * 32 * SIZE);
}

/* What step K reads: what none before it has; and of that, in a map, what nobody reads later, as weights: it is loaded item by item. Of more at a time, by
 * what nvcc 13 says for sm_90, a layer norm has no room in the registers that two blocks leave each other. */
template <int K> struct sf_reads {
        enum {
                ALL = sf_recipe<K>::LOADS & FETCHED,
                FRESH = ALL & ~sf_before_step<K>::LOADS & ~COPIED,
                LATE = K && sf_recipe<K>::KIND == KIND_MAP ? FRESH & ~sf_from_step<K + 1>::LOADS : 0
        };
};

/* Of the operands in WHICH, item i of tile t from memory. */
template <int WHICH> SF_DEVICE void sf_fetch_item(const sf_params &p, const sf_course &c, int t, int i, sf_vectors &v)
{
        const int index = (t * SF_WARPS + c.warp) * LEAF + c.lane * SF_WIDTH + i * SPREAD;
#define OPERAND(k, dt, unit, made) \
        if (WHICH >> k & 1)        \
                sf_fetch<SF_SIZE(dt), (UNITS >> k & 1) != 0>(c.operand[k], p.along[k], index, c.n, v.operand##k);
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
}

/* The same from shared memory, or into it; tile t of those the block has. */
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

/* What step K reads at tile t, as far as it is not in registers already, nor better loaded late. */
template <int K> SF_DEVICE void sf_fetch_all(const sf_params &p, const sf_course &c, int t, sf_vectors (&v)[SF_ITEMS])
{
        enum {
                FRESH = sf_reads<K>::FRESH & ~sf_reads<K>::LATE,
                OLD = SF_KEEP == 2 ? (int)sf_reads<K>::ALL & ~(int)sf_reads<K>::FRESH : 0,
                LATER = SF_KEEP == 2 ? FRESH & sf_from_step<K + 1>::LOADS : 0
        };
        const bool near = SF_KEEP == 2 && t / SF_CLUSTER < c.kept;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_fetch_item<FRESH>(p, c, t, i, v[i]);
        if (OLD && !near)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_fetch_item<OLD>(p, c, t, i, v[i]);
        if (OLD && near)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_keep_item<OLD, false>(c, t / SF_CLUSTER, i, v[i]);
        if (LATER && near)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_keep_item<LATER, true>(c, t / SF_CLUSTER, i, v[i]);
}

/* The block's first tile, and where they end; in registers there is but one. */
SF_DEVICE int sf_tiles_begin(const sf_course &c) { return SF_CLUSTER == 1 ? 0 : c.rank; }
SF_DEVICE int sf_tiles_end(const sf_course &c) { return ONE_TILE ? sf_tiles_begin(c) + 1 : c.tiles; }

/* What the first step reads begins its way to shared memory. */
SF_DEVICE void sf_stage(const sf_course &c)
{
        const int leaf = (sf_tiles_begin(c) * SF_WARPS + c.warp) * LEAF;
        (void)leaf;
#define PLACE(k, dt, i) sf_place<k, SF_SIZE(dt)>(c, i)
#define COPIED_SIZE(k, dt) (COPIED >> k & 1 ? SF_SIZE(dt) : 1)
#if SF_SHIFT_IN
#define OPERAND(k, dt, unit, made)                                                                            \
        if (COPIED >> k & 1 && leaf + LEAF <= c.n)                                                            \
                sf_copy_leaf<true, COPIED_SIZE(k, dt)>(c, c.operand[k], leaf, PLACE(k, dt, 0));             \
        else if (COPIED >> k & 1)                                                                             \
                sf_copy_leaf<false, COPIED_SIZE(k, dt)>(c, c.operand[k], leaf, PLACE(k, dt, 0));
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
#else
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
#define OPERAND(k, dt, unit, made) \
        if (COPIED >> k & 1)       \
                sf_copy_vector<COPIED_SIZE(k, dt)>(c.operand[k], leaf + c.lane * SF_WIDTH + i * SPREAD, c.n, PLACE(k, dt, i));
                SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        }
#endif
#undef PLACE
#undef COPIED_SIZE
        sf_copy_commit();
}

/* A vector that begins in r, the aligned one at `place`, and ends in the next. */
template <int SIZE, int BYTES> SF_DEVICE void sf_cut_out(const char *line, const unsigned char *place, sf_raw<BYTES> &r)
{
        sf_raw<BYTES> next;
        sf_shared_load(place + sizeof r, next);
        r = sf_cut(r, next, (int)((sf_u64)line & (BYTES - 1)));
}

/* It is there, and goes on to registers. */
SF_DEVICE void sf_unstage(const sf_course &c, sf_vectors (&v)[SF_ITEMS])
{
        sf_copy_wait<0>();
        if (SF_SHIFT_IN)
                sf_sync_warp(); /* other lanes have copied it */
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_keep_item<COPIED, false>(c, 0, i, v[i]);
#define OPERAND(k, dt, unit, made)                         \
        if (SF_SHIFT_IN && COPIED >> k & 1 && SF_SIZE(dt) < 4) \
                sf_cut_out<SF_SIZE(dt)>(c.operand[k], sf_place<k, SF_SIZE(dt)>(c, i), v[i].operand##k);
                SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        }
        if (SF_SHIFT_IN && LOOPS)
                sf_sync_warp();
}

/* ------------------------------------------------------------------------------------------------------------
 * Folds
 * ---------------------------------------------------------------------------------------------------------- */
template <int K> SF_DEVICE sf_total<K> sf_joined(sf_total<K> a, sf_total<K> b) { return sf_held<K>::settle(SF_JOIN(sf_recipe<K>::OP, a, b)); }
template <int K> SF_DEVICE sf_total<K> sf_lifted(sf_u64 bits) { return sf_held<K>::settle(sf_held<K>::lift(sf_dtype<sf_recipe<K>::ACC>::constant(bits))); }

/* v of this lane and that of the lane whose number has the other bit b, the lower lane's on the left. */
template <int K> SF_DEVICE sf_total<K> sf_met(sf_total<K> v, sf_total<K> other, int lane, int b)
{
        if (SF_COMMUTES)
                return sf_joined<K>(v, other);
        return sf_joined<K>(sf_held<K>::choose(lane & b, other, v), sf_held<K>::choose(lane & b, v, other));
}
template <int K> SF_DEVICE sf_total<K> sf_meet(sf_total<K> v, int lane, int b) { return sf_met<K>(v, sf_held<K>::shuffle(v, lane ^ b), lane, b); }

/* N values, each folded with those of the other lanes, and then the results: as long as there are two, a lane hands one of them to its partner and
 * goes on with the other, so that lanes whose numbers differ by bit 0 have those of even and odd numbers, and so on. */
template <int K, int N> SF_DEVICE sf_total<K> sf_fold_lanes(sf_total<K> (&a)[N], int lane)
{
        enum { MET = N < 32 ? N : 32 };
#pragma unroll
        for (int b = 1; b < 32; b *= 2) {
                if (N / b > 1) {
#pragma unroll
                        for (int i = 0; i < N / 2; i++)
                                if (i < N / b / 2) {
                                        const sf_total<K> even = a[2 * i % N], odd = a[(2 * i + 1) % N];
                                        const sf_total<K> other = sf_held<K>::shuffle(sf_held<K>::choose(lane & b, even, odd), lane ^ b);
                                        a[i] = sf_met<K>(sf_held<K>::choose(lane & b, odd, even), other, lane, b);
                                }
                } else {
                        a[0] = sf_meet<K>(a[0], lane, b);
                }
        }
#pragma unroll
        for (int i = 0; i < N / MET; i++)
#pragma unroll
                for (int b = 1; b < MET; b *= 2)
                        a[i] = sf_meet<K>(a[i], lane, b);
#pragma unroll
        for (int b = 1; b < N / MET; b *= 2)
#pragma unroll
                for (int i = 0; i + b < N / MET; i += 2 * b)
                        a[i] = sf_joined<K>(a[i], a[(i + b) % N]);
        return a[0];
}

/* N neighbours. */
template <int K, int N> SF_DEVICE sf_total<K> sf_fold_few(sf_total<K> (&e)[N])
{
#pragma unroll
        for (int b = 1; b < N; b *= 2)
#pragma unroll
                for (int i = 0; i + b < N; i += 2 * b)
                        e[i] = sf_joined<K>(e[i], e[(i + b) % N]);
        return e[0];
}

/* A vector of numbers to fold, by the operation: they are lifted as they come, or all at once. */
template <int OP, int K> struct sf_few {
        sf_total<K> e[SF_WIDTH];
        SF_DEVICE_METHOD void set(int j, sf_number_of_step<K> v) { e[j] = sf_held<K>::settle(sf_held<K>::lift(v)); }
        SF_DEVICE_METHOD sf_total<K> fold() { return sf_fold_few<K>(e); }
};
#if SF_EXPONENTIALS
template <int K> struct sf_few<SF_OP_LOGSUMEXP, K> {
        sf_number_of_step<K> e[1][SF_WIDTH];
        SF_DEVICE_METHOD void set(int j, sf_number_of_step<K> v) { e[0][j] = v; }
        SF_DEVICE_METHOD sf_total<K> fold()
        {
                sf_total<K> total[1];
                sf_held<K>::fold_each(e, total);
                return total[0];
        }
};
#endif

/* What a step makes of the elements of a vector. */
template <int K, class ASK> SF_DEVICE void sf_load_numbers(const sf_params &p, const sf_course &c, const sf_vectors &v, sf_number_of_step<K> (&one)[SF_WIDTH], ASK &ask)
{
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                one[j] = sf_programs<K>::load(p, c, v, j, ask);
}

/* Of the step whose they are, the numbers are kept as a vector. */
template <bool KEPT, int DT> struct sf_keeper {
        template <int BYTES, class T> SF_DEVICE_MEMBER void put(sf_raw<BYTES> &, const T (&)[SF_WIDTH]) {}
};
template <int DT> struct sf_keeper<true, DT> {
        template <int BYTES, class T> SF_DEVICE_MEMBER void put(sf_raw<BYTES> &r, const T (&one)[SF_WIDTH])
        {
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        sf_set_slot<SF_SIZE(DT)>(r, j, sf_dtype<DT>::bits(one[j]));
        }
};

/* Bit k: the numbers of step k are kept. */
#define OPERAND(k, dt, unit, made) | ((made) >= 0 && (unit) == 1 ? 1 << ((made) >= 0 ? (made) : 0) : 0)
enum { KEEPERS = 0 SF_OPERAND_LIST(OPERAND) };
#undef OPERAND

/* The lane's vectors of a leaf, each folded; `first`: the first element. WHOLE: the line has all of the leaf. */
template <int K, bool WHOLE> SF_DEVICE void sf_fold_vectors(const sf_params &p, const sf_course &c, int first, sf_vectors (&v)[SF_ITEMS], sf_total<K> (&a)[SF_ITEMS])
{
        enum { QUICK = !(KEEPERS >> K & 1) || (!SF_RAGGED && SF_CLUSTER == 1) }; /* by what nvcc 13 says for sm_90, it spills otherwise */
        typedef sf_dtype<sf_recipe<K>::ACC> number;
        const sf_total<K> neutral = sf_lifted<K>(FIELD(K, neutral));
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_few<sf_recipe<K>::OP, K> few;
                sf_number_of_step<K> one[SF_WIDTH];
                sf_hasty ask = {!QUICK};
                if (QUICK)
                        sf_load_numbers<K>(p, c, v[i], one, ask);
                if (ask.fails) {
                        sf_careful careful;
                        sf_load_numbers<K>(p, c, v[i], one, careful);
                }
#define OPERAND(k, dt, unit, made) sf_keeper<(made) == K && (unit) == 1, dt>::put(v[i].operand##k, one);
                SF_OPERAND_LIST(OPERAND)
#undef OPERAND
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        if (sf_recipe<K>::MASK >= 0)
                                one[j] = sf_keeps<sf_recipe<K>::MASK>::at(c, v[i], j) ? one[j] : number::constant(FIELD(K, identity));
                        if (SF_RAGGED && !WHOLE)
                                one[j] = first + i * SPREAD + j < c.n ? one[j] : number::constant(FIELD(K, neutral));
                        few.set(j, one[j]);
                }
                a[i] = few.fold();
                if (!WHOLE)
                        a[i] = sf_held<K>::choose(first + i * SPREAD < c.n, a[i], neutral);
        }
}

/* The warp's leaf of tile t. Only a line's last leaf is not whole. Where vectors are not either, to look at each takes registers that the other leaves need, unless these take more
 * for numbers that are kept. */
template <int K> SF_DEVICE sf_total<K> sf_fold_leaf(const sf_params &p, const sf_course &c, int t, sf_vectors (&v)[SF_ITEMS])
{
        const int leaf = (t * SF_WARPS + c.warp) * LEAF;
        sf_total<K> a[SF_ITEMS];
        if (SF_RAGGED && !ALONE && !(KEEPERS >> K & 1) && leaf + LEAF <= c.n)
                sf_fold_vectors<K, true>(p, c, leaf + c.lane * SF_WIDTH, v, a);
        else
                sf_fold_vectors<K, false>(p, c, leaf + c.lane * SF_WIDTH, v, a);
        return sf_fold_lanes<K>(a, c.lane);
}

/* The leaves of a line, of all its warps and tiles. */
template <int K> SF_DEVICE sf_total<K> sf_fold_leaves(const sf_params &p, const sf_course &c, const sf_total<K> *leaf)
{
        sf_total<K> few[SF_PER];
        const int leaves = SF_WARPS * c.tiles;
#pragma unroll
        for (int q = 0; q < SF_PER; q++) {
                const int number = c.lane * SF_PER + q;
                few[q] = leaf[number < leaves ? number : 0];
                few[q] = sf_held<K>::choose(number < leaves, few[q], sf_lifted<K>(FIELD(K, neutral)));
        }
        sf_total<K> total = sf_fold_few<K>(few);
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                total = sf_meet<K>(total, c.lane, b);
        return total;
}

/* ------------------------------------------------------------------------------------------------------------
 * Blocks of a line
 * ---------------------------------------------------------------------------------------------------------- */

/* A leaf's total, which all lanes have, for every block of the line. */
template <class V> SF_DEVICE void sf_hand_out(const sf_course &c, sf_u64 *desk, V *leaf, V total)
{
        if (SF_CLUSTER == 1) {
                if (c.lane == 0)
                        *leaf = total;
        } else if (c.lane < SF_CLUSTER) {
                union {
                        V value;
                        sf_u32 word[sizeof(V) / 4];
                } parts;
                parts.value = total;
#pragma unroll
                for (int w = 0; w < (int)(sizeof(V) / 4); w++)
                        sf_desk_send(desk, (sf_u32 *)leaf + w, c.lane, parts.word[w]);
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Steps
 * ---------------------------------------------------------------------------------------------------------- */

/* What there is one of a line: kept for the steps that follow, and stored. */
template <int K> SF_DEVICE void sf_made(sf_course &c, sf_u64 bits)
{
        enum { SIZE = SF_SIZE(sf_recipe<K>::OUT) };
        c.made[K] = bits;
        if (!sf_recipe<K>::WITHIN && c.mine) {
                sf_raw<SIZE> r;
                r.w[0] = 0;
                sf_set_slot<SIZE>(r, 0, bits);
                sf_store(c.y[K], r);
        }
}

template <int KIND> struct sf_do;

template <> struct sf_do<KIND_FOLD> {
        template <int K> SF_DEVICE_MEMBER void step(const sf_params &p, sf_course &c, sf_vectors (&kept)[SF_ITEMS])
        {
                sf_total<K> total;
                if (ALONE) {
                        sf_fetch_all<K>(p, c, 0, kept);
                        total = sf_fold_leaf<K>(p, c, 0, kept);
                } else {
                        const int turn = c.round % TURNS * STEPS + K;
                        sf_total<K> *leaf = (sf_total<K> *)(sf_shared() + sf_apply_leaves(SF_CLUSTER) + (turn * LINES + c.team) * SF_WARPS * c.tiles * SLOT);
                        sf_u64 *desk = (sf_u64 *)sf_shared() + turn;
                        if (SF_CLUSTER > 1 && sf_thread() == 0)
                                sf_desk_expect(desk, SF_WARPS * c.tiles * (int)sizeof total);
                        for (int t = sf_tiles_begin(c); t < sf_tiles_end(c); t += SF_CLUSTER) {
                                sf_fetch_all<K>(p, c, t, kept);
                                total = sf_fold_leaf<K>(p, c, t, kept);
                                sf_hand_out(c, desk, leaf + t * SF_WARPS + c.warp, total);
                        }
                        if (SF_CLUSTER > 1)
                                sf_desk_wait(desk, c.round / TURNS);
                        else
                                sf_sync_block();
                        total = sf_fold_leaves<K>(p, c, leaf);
                }
                if (sf_recipe<K>::BEGINS)
                        total = sf_joined<K>(sf_lifted<K>(FIELD(K, initial)), total);
                sf_made<K>(c, sf_programs<K>::store(p, c, c.still, sf_held<K>::lower(total)));
        }
};

/* The results of a vector. */
template <int K, int BYTES, class ASK> SF_DEVICE void sf_map_vector(const sf_params &p, const sf_course &c, const sf_vectors &v, sf_raw<BYTES> &r, ASK &ask)
{
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                sf_set_slot<SF_SIZE(sf_recipe<K>::OUT)>(r, j, sf_programs<K>::store(p, c, c.still, sf_programs<K>::load(p, c, v, j, ask)));
}

/* SF_SHIFT_IN: the warp's vectors r, the first of them element `first` of the line, by way of shared memory. */
template <bool WHOLE, int SIZE, int BYTES> SF_DEVICE void sf_store_elements(const sf_course &c, char *y, int first, const sf_raw<BYTES> &r)
{
        unsigned char *results = sf_results_of(c) + (c.team * SF_WARPS + c.warp) * (32 * 16);
        sf_sync_warp();
        sf_shared_store(results + c.lane * BYTES, r);
        sf_sync_warp();
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++) {
                sf_raw<SIZE> one;
                sf_shared_load(results + (j * 32 + c.lane) * SIZE, one);
                if (WHOLE || first + j * 32 + c.lane < c.n)
                        sf_store(y + (sf_i64)(first + j * 32 + c.lane) * SIZE, one);
        }
}

template <> struct sf_do<KIND_MAP> {
        template <int K> SF_DEVICE_MEMBER void step(const sf_params &p, sf_course &c, sf_vectors (&kept)[SF_ITEMS])
        {
                enum { SIZE = SF_SIZE(sf_recipe<K>::OUT), BYTES = SIZE * SF_WIDTH };
                const sf_i64 stride = FIELD(K, sy);
                for (int t = sf_tiles_begin(c); t < sf_tiles_end(c); t += SF_CLUSTER) {
                        const int leaf = (t * SF_WARPS + c.warp) * LEAF, first = leaf + c.lane * SF_WIDTH;
                        const bool whole = leaf + LEAF <= c.n;
                        sf_fetch_all<K>(p, c, t, kept);
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++) {
                                const int index = first + i * SPREAD;
                                if (i % LATE_ITEMS == 0)
#pragma unroll
                                        for (int q = i; q < SF_ITEMS && q < i + LATE_ITEMS; q++)
                                                sf_fetch_item<sf_reads<K>::LATE>(p, c, t, q, kept[q % SF_ITEMS]);
                                sf_raw<BYTES> r;
                                for (int w = 0; w < (int)(sizeof r.w / 4); w++)
                                        r.w[w] = 0;
                                sf_hasty ask = {false};
                                sf_map_vector<K>(p, c, kept[i], r, ask);
                                if (ask.fails) {
                                        sf_careful careful;
                                        sf_map_vector<K>(p, c, kept[i], r, careful);
                                }
                                if (sf_recipe<K>::UNIT && SF_SHIFT_IN) {
                                        if (whole)
                                                sf_store_elements<true, SIZE>(c, c.y[K], leaf + i * SPREAD, r);
                                        else
                                                sf_store_elements<false, SIZE>(c, c.y[K], leaf + i * SPREAD, r);
                                        continue;
                                }
                                if (sf_recipe<K>::UNIT && index + SF_WIDTH <= c.n) {
                                        sf_store(c.y[K] + (sf_i64)index * SIZE, r);
                                        continue;
                                }
                                if (sf_recipe<K>::UNIT && !SF_RAGGED)
                                        continue;
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        if (index + j < c.n) {
                                                sf_raw<SIZE> one;
                                                one.w[0] = 0;
                                                sf_set_slot<SIZE>(one, 0, sf_slot<SIZE>(r, j));
                                                sf_store(c.y[K] + (sf_i64)(index + j) * stride, one);
                                        }
                        }
                }
        }
};

template <> struct sf_do<KIND_SMALL> {
        template <int K> SF_DEVICE_MEMBER void step(const sf_params &p, sf_course &c, sf_vectors (&)[SF_ITEMS])
        {
                sf_made<K>(c, sf_programs<K>::store(p, c, c.still, sf_programs<K>::load(p, c, c.still, 0)));
        }
};

template <int K> struct sf_steps {
        SF_DEVICE_MEMBER void run(const sf_params &p, sf_course &c, sf_vectors (&kept)[SF_ITEMS])
        {
                sf_do<sf_recipe<K>::KIND>::template step<K>(p, c, kept);
                sf_steps<K + 1>::run(p, c, kept);
        }
};
template <> struct sf_steps<STEPS> {
        SF_DEVICE_MEMBER void run(const sf_params &, sf_course &, sf_vectors (&)[SF_ITEMS]) {}
};

/* Where line number `line` begins in every operand and result. One that is past the last has no elements. */
SF_DEVICE void sf_locate(const sf_params &p, sf_i64 line, sf_course &c)
{
        const bool works = (LOOPS && LINES == 1) || line < p.units;
        c.n = works ? (int)p.n : 0;
        c.mine = works && c.lane == 0 && c.warp == 0 && c.rank == 0;
        line = works ? line : 0;
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                c.operand[k] = p.operand[k];
#pragma unroll
        for (int k = 0; k < STEPS; k++)
                c.y[k] = FIELD(k, y);
#pragma unroll
        for (int d = SF_NBATCH - 1; d >= 0; d--) {
                const sf_i64 next = d ? sf_divide(line, p.dims[d].len) : 0, index = line - next * p.dims[d].len;
#pragma unroll
                for (int k = 0; k < SF_OPERANDS; k++)
                        c.operand[k] += index * p.step[d][k];
                c.y[0] += index * p.dims[d].y;
#if SF_ALSO
#pragma unroll
                for (int k = 1; k < STEPS; k++)
                        c.y[k] += index * p.also[k - 1].step[d];
#endif
                line = next;
        }
}

/* Who this thread is: found out anew for every line, or what follows from it would be computed once for all and take registers from the line. */
SF_DEVICE void sf_find_place(const sf_params &p, sf_course &c)
{
        const int thread = LOOPS ? sf_anew(sf_thread()) : sf_thread();
        c.lane = thread & 31;
        c.warp = SF_WARPS == 1 ? 0 : LINES == 1 ? thread / 32 : thread / 32 % SF_WARPS;
        c.team = LINES == 1 && LOOPS ? 0 : thread / 32 / SF_WARPS; /* of LOOPS alone the compiler does not see it */
        c.tiles = (int)p.number[0];
        c.kept = (int)p.number[1];
        c.rank = (int)(sf_block() % SF_CLUSTER);
}

/* The line that the thread's warps have in a round; computed anew wherever it is needed, as above. Has the block another? */
SF_DEVICE sf_i64 sf_line_of(const sf_params &p, const sf_course &c, int round)
{
        return sf_block() / SF_CLUSTER * LINES + c.team + (LOOPS ? sf_anew(round) * p.number[2] : 0);
}
SF_DEVICE bool sf_goes_on(const sf_params &p, const sf_course &c)
{
        return LOOPS && sf_block() / SF_CLUSTER * LINES + sf_anew(c.round + 1) * p.number[2] < p.units;
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        sf_course c;
        sf_vectors kept[SF_ITEMS];
        sf_find_place(p, c);
        if (SF_CLUSTER > 1) {
                if (sf_thread() < TURNS * STEPS)
                        sf_desk_open((sf_u64 *)sf_shared() + sf_thread());
                sf_cluster_arrive(); /* before others may write here; waited for before the first does */
        }
        sf_locate(p, sf_line_of(p, c, 0), c);
        if (STAGED)
                sf_stage(c);
        if (SF_CLUSTER > 1)
                sf_cluster_wait();
        for (c.round = 0;; c.round++) {
#pragma unroll
                for (int k = 0; k < STEPS; k++)
                        c.made[k] = 0;
#define OPERAND(k, dt, unit, made)          \
        if (!(MOVING >> k & 1) && (made) < 0) \
                sf_load_steady(c.operand[k], *(sf_raw<SF_SIZE(dt)> *)&c.still.operand##k);
                SF_OPERAND_LIST(OPERAND)
#undef OPERAND
                if (STAGED)
                        sf_unstage(c, kept);
                if (sf_goes_on(p, c)) {
                        sf_course next = c;
                        sf_locate(p, sf_line_of(p, c, c.round + 1), next);
                        sf_stage(next);
                }
                sf_steps<0>::run(p, c, kept);
                if (!sf_goes_on(p, c))
                        return;
                sf_find_place(p, c);
                sf_locate(p, sf_line_of(p, c, c.round + 1), c);
        }
}
#undef FIELD
