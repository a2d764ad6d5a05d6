/*
 * apply_steps.cuh: what apply.cu, apply_short.cu, apply_columns.cu, apply_group.cu and segments_apply.cu share: the steps of a
 * chain, what they read, and their programs. A file that includes it has defined SF_STEPS and SF_OPERAND_LIST (apply.cu).
 */
/* 1: folds set sf_course.sure. */
#ifndef SF_SURES
#define SF_SURES 0
#endif
#ifndef SF_MADES
#define SF_MADES (SF_DOWN ? SF_WIDTH : 1)
#endif
enum { KIND_FOLD, KIND_MAP, KIND_SMALL, KIND_ACROSS };

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
        STAGED = SF_KEEP >= 3,
        LOOPS = SF_KEEP == 4,
        /* Results of an earlier step that a thread has: one for each of its columns. */
        MADES = SF_MADES,
        CROWDED = SF_ITEMS * SF_WIDTH > 32, /* a thread has more elements than registers for them */
        /* How many vectors are loaded at a time of operands that only a map reads. */
        LATE_ITEMS = SF_WIDTH < 8 ? 8 / SF_WIDTH / 2 : 1,
};

template <int K> using sf_number_of_step = sf_of<sf_recipe<K>::ACC>;
template <int K> using sf_held = sf_value<sf_recipe<K>::OP, sf_number_of_step<K> >;
template <int K> using sf_total = typename sf_held<K>::type;

/* The size of the largest of the steps' totals. It is a power of two. */
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

/* Bit k of MOVING: operand k varies along the line. Of FETCHED: it also is in memory. Of UNITS: it
 * also is loaded as vectors. */
#define OPERAND(k, dt, unit, made) | ((made) < 0 ? (unit) < 2 : (unit) == 1) << k
enum { MOVING = 0 SF_OPERAND_LIST(OPERAND) };
#undef OPERAND

#define OPERAND(k, dt, unit, made) | ((made) < 0 && (unit) < 2) << k
enum { FETCHED = 0 SF_OPERAND_LIST(OPERAND) };
#undef OPERAND

#define OPERAND(k, dt, unit, made) | ((made) < 0 && (unit) == 1) << k
enum { UNITS = 0 SF_OPERAND_LIST(OPERAND) };
#undef OPERAND

/* The operands that have been loaded when step K begins (the first step also loads what other folds
 * read, so that all of it is on its way at once), and those that some step from K on loads. */
template <int K> struct sf_before_step {
        enum { LOADS = sf_before_step<K - 1>::LOADS | sf_recipe<K - 1>::LOADS };
};
template <> struct sf_before_step<1> {
        enum { LOADS = sf_recipe<0>::LOADS | (SF_KEEP != 2 ? SF_COPIES & UNITS : 0) };
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

/* Does step K read the result of step K - 1? */
#define OPERAND(k, dt, unit, made) | ((made) == K - 1) << k
template <int K> struct sf_follows {
        enum { READS = sf_recipe<K>::LOADS | sf_recipe<K>::STORES, MADE = 0 SF_OPERAND_LIST(OPERAND) };
        enum { YES = ((int)READS & (int)MADE) != 0 };
};
#undef OPERAND

/* Folds before step K. */
template <int K> struct sf_folds_before {
        enum { COUNT = sf_folds_before<K - 1>::COUNT + (sf_recipe<K - 1>::KIND == KIND_FOLD) };
};
template <> struct sf_folds_before<0> {
        enum { COUNT = 0 };
};

/* The operands that several of the steps from K on load. */
template <int K> struct sf_kept_from {
        enum { LOADS = (sf_recipe<K>::LOADS & sf_from_step<K + 1>::LOADS) | sf_kept_from<K + 1>::LOADS };
};
template <> struct sf_kept_from<STEPS> {
        enum { LOADS = 0 };
};
enum { COPIED = STAGED ? SF_COPIES & UNITS : 0, KEPT = STAGED ? (int)COPIED : (int)sf_kept_from<0>::LOADS & (int)FETCHED };

/* What step K reads from memory. FRESH: what no step before it has read and sf_stage does not copy.
 * LATE: of that, in a map, what no later step reads, such as weights. It is loaded when it is
 * needed, or a little before (AHEAD in apply.cu, LATE_ITEMS in apply_columns.cu): with more, as nvcc
 * 13 reports for sm_90, a layer norm does not fit in the registers that two blocks leave each
 * other. */
template <int K> struct sf_reads {
        enum {
                ALL = (K ? (int)sf_recipe<K>::LOADS : (int)sf_before_step<1>::LOADS) & FETCHED,
                FRESH = ALL & ~sf_before_step<K>::LOADS & ~COPIED,
                LATE = K && sf_recipe<K>::KIND == KIND_MAP ? FRESH & ~sf_from_step<K + 1>::LOADS : 0
        };
};

/* What is loaded of every operand: a vector, or one element. */
struct sf_vectors {
#define OPERAND(k, dt, unit, made) sf_raw<SF_SIZE(dt) * ((SF_DOWN ? (unit) % 2 : MOVING >> k & 1) ? SF_WIDTH : 1)> operand##k;
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
};

/* Nothing is computed from these vectors before what comes earlier (sf_in_turn). Where CROWDED, that
 * also keeps narrow elements from being held as words. */
SF_DEVICE void sf_take_in_turn(sf_vectors &v)
{
        (void)v;
#define OPERAND(k, dt, unit, made) \
        if (MOVING >> k & 1)        \
                sf_in_turn(v.operand##k);
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
}

/* A line or a strip, and the place of this thread in it. */
struct sf_course {
        const char *operand[SF_OPERANDS];
        char *y[STEPS];
        sf_vectors still;
        sf_u64 made[STEPS][MADES];
        int n, tiles, kept, lane, warp, team, rank, round;
        bool sure; /* all numbers that the thread keeps were made in the quick way */
        bool mine; /* this thread stores results of which a line has one */
        /* apply_short.cu: the thread's first element; in which order it takes those of a vector, and
         * its vectors. There, `team` is the line's number among those of the team, `tiles` how many
         * these are. */
        int first, swap, turn;
        /* apply_columns.cu: the strip, and how many rows there are from the thread's first on. */
        sf_i64 unit;
        int rows;
};

/* An argument of a program, of dtype DT: number j of a vector, the one element that there is instead,
 * or the result of an earlier step. */
template <int DT, int MADE, bool MOVES> struct sf_argument {
        template <int A, int B> SF_DEVICE_MEMBER sf_of<DT> of(const sf_course &, const sf_raw<A> &v, const sf_raw<B> &, int j)
        {
                return sf_dtype<DT>::from(sf_slot<SF_SIZE(DT)>(v, A > SF_SIZE(DT) ? j : 0));
        }
};
template <int DT> struct sf_argument<DT, -1, false> {
        template <int A, int B> SF_DEVICE_MEMBER sf_of<DT> of(const sf_course &, const sf_raw<A> &, const sf_raw<B> &still, int j)
        {
                return sf_dtype<DT>::from(sf_slot<SF_SIZE(DT)>(still, B > SF_SIZE(DT) ? j : 0));
        }
};
template <int DT, int MADE> struct sf_argument<DT, MADE, false> {
        template <int A, int B> SF_DEVICE_MEMBER sf_of<DT> of(const sf_course &c, const sf_raw<A> &, const sf_raw<B> &, int j)
        {
                return sf_dtype<DT>::from(c.made[MADE][j % MADES]);
        }
};

#define OPERAND(k, dt, unit, made) , sf_argument<dt, made, (MOVING >> k & 1) != 0>::of(c, v.operand##k, c.still.operand##k, j)
#define STEP(k, op, acc, out, begins, how, loads, stores)                                                                          \
        template <> struct sf_programs<k> {                                                                                        \
                enum { ROUNDS = sf_store_rounds##k, QUOTIENT = sf_load_ends_in_quotient##k };                                      \
                template <class ASK = sf_careful>                                                                                  \
                SF_DEVICE_MEMBER sf_of<acc> load(const sf_params &p, const sf_course &c, const sf_vectors &v, int j, ASK &&ask = ASK()) \
                {                                                                                                                  \
                        return sf_load_program##k(p SF_OPERAND_LIST(OPERAND), ask);                                                \
                }                                                                                                                  \
                template <class T> SF_DEVICE_MEMBER sf_u64 store(const sf_params &p, const sf_course &c, const sf_vectors &v, T s, int j = 0) \
                {                                                                                                                  \
                        return (void)j, sf_store_program##k(p, s SF_OPERAND_LIST(OPERAND));                                        \
                }                                                                                                                  \
        };
SF_STEPS(STEP)
#undef STEP
#undef OPERAND

/* Does the mask keep element j of the vector? */
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

template <int K> SF_DEVICE sf_total<K> sf_joined(sf_total<K> a, sf_total<K> b) { return sf_held<K>::settle(SF_JOIN(sf_recipe<K>::OP, a, b)); }
template <int K> SF_DEVICE sf_total<K> sf_lifted(sf_u64 bits) { return sf_held<K>::settle(sf_held<K>::lift(sf_dtype<sf_recipe<K>::ACC>::constant(bits))); }

/* Combines v of this lane with `other` of the lane whose number differs in bit b. The value of the
 * lower lane goes on the left. */
template <int K> SF_DEVICE sf_total<K> sf_met(sf_total<K> v, sf_total<K> other, int lane, int b)
{
        if (SF_COMMUTES)
                return sf_joined<K>(v, other);
        return sf_joined<K>(sf_held<K>::choose(lane & b, other, v), sf_held<K>::choose(lane & b, v, other));
}
template <int K> SF_DEVICE sf_total<K> sf_meet(sf_total<K> v, int lane, int b) { return sf_met<K>(v, sf_held<K>::shuffle(v, lane ^ b), lane, b); }

/* Folds N neighbours. */
template <int K, int N> SF_DEVICE sf_total<K> sf_fold_few(sf_total<K> (&e)[N])
{
#pragma unroll
        for (int b = 1; b < N; b *= 2)
#pragma unroll
                for (int i = 0; i + b < N; i += 2 * b)
                        e[i] = sf_joined<K>(e[i], e[(i + b) % N]);
        return e[0];
}

template <int K, class V>
SF_DEVICE V sf_one_of(int on, V a, V b) { return sf_held<K>::choose(on, a, b); }
template <int K> SF_DEVICE float sf_one_of(int on, float a, float b) { return sf_select(on, a, b); }

/* Folds each of N values with those of the other lanes, and then the N results. While a lane has
 * several values, it sends one of each two to its partner and keeps the other. So of two lanes
 * whose numbers differ in bit 0, one has the values with even numbers and the other those with odd
 * numbers, and so on for the next bits. */
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
                                        const sf_total<K> given = sf_one_of<K>(lane & b, even, odd);
                                        const sf_total<K> own = sf_one_of<K>(lane & b, odd, even);
                                        a[i] = sf_met<K>(own, sf_held<K>::shuffle(given, lane ^ b), lane, b);
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

/* Folds the totals of a line's leaves, of which there are at most 32 * SF_PER. */
template <int K>
SF_DEVICE sf_total<K> sf_fold_leaves(const sf_params &p, int lane, const sf_total<K> *leaf, int leaves)
{
        sf_total<K> few[SF_PER];
#pragma unroll
        for (int q = 0; q < SF_PER; q++) {
                const int number = lane * SF_PER + q;
                few[q] = leaf[number < leaves ? number : 0];
                few[q] = sf_held<K>::choose(number < leaves, few[q], sf_lifted<K>(FIELD(K, neutral)));
        }
        sf_total<K> total = sf_fold_few<K>(few);
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                total = sf_meet<K>(total, lane, b);
        return total;
}

/* A vector of numbers to fold. The operation decides whether they are lifted one by one or all at
 * once. */
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

/* The numbers that the load program of step K computes from the elements of a vector. */
template <int K, class ASK> SF_DEVICE void sf_load_numbers(const sf_params &p, const sf_course &c, const sf_vectors &v, sf_number_of_step<K> (&one)[SF_WIDTH], ASK &ask)
{
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                one[j] = sf_programs<K>::load(p, c, v, j, ask);
}

/* Keeps a step's numbers as a vector. KEPT: the operand is made of the numbers of this step. */
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

/* Keeps the numbers of step K that a later step takes. */
template <int K>
SF_DEVICE void sf_keep_numbers(sf_vectors &v, const sf_number_of_step<K> (&one)[SF_WIDTH])
{
#define OPERAND(k, dt, unit, made) sf_keeper<(made) == K && (unit) == 1, dt>::put(v.operand##k, one);
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
}

/* What a mask leaves out becomes the identity. */
template <int K>
SF_DEVICE void sf_mask_numbers(const sf_params &p, const sf_course &c, const sf_vectors &v, sf_number_of_step<K> (&one)[SF_WIDTH])
{
        typedef sf_dtype<sf_recipe<K>::ACC> number;
        if (sf_recipe<K>::MASK >= 0)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        one[j] = sf_keeps<sf_recipe<K>::MASK>::at(c, v, j) ? one[j] : number::constant(FIELD(K, identity));
}

/* What step K folds of a vector; what a later step takes of it is kept. */
template <int K, class ASK>
SF_DEVICE void sf_take_numbers(const sf_params &p, const sf_course &c, sf_vectors &v, sf_number_of_step<K> (&one)[SF_WIDTH], ASK &ask)
{
        sf_load_numbers<K>(p, c, v, one, ask);
        sf_keep_numbers<K>(v, one);
        sf_mask_numbers<K>(p, c, v, one);
}

/* Bit k: the numbers of step k are kept for a later step. */
#define OPERAND(k, dt, unit, made) | ((made) >= 0 && (unit) == 1 ? 1 << ((made) >= 0 ? (made) : 0) : 0)
enum { KEEPERS = 0 SF_OPERAND_LIST(OPERAND) };
#undef OPERAND

/* Are all kept numbers exponentials? */
#define STEP(k, op, acc, out, begins, how, loads, stores) | (KEEPERS >> k & sf_load_ends_in_exp##k) << k
enum { EXPONENTIALS = 0 SF_STEPS(STEP), SURE = KEEPERS != 0 && (int)EXPONENTIALS == (int)KEEPERS && SF_SURES };
#undef STEP

/* Computes the results of a vector. PAIRS: they are rounded to 16 bits, two by one instruction. */
template <bool PAIRS> struct sf_map_all {
        template <int K, int BYTES, class ASK>
        SF_DEVICE_MEMBER void run(const sf_params &p, const sf_course &c, const sf_vectors &v,
                sf_raw<BYTES> &r, ASK &ask)
        {
                for (int w = 0; w < (int)(sizeof r.w / 4); w++)
                        r.w[w] = 0;
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        sf_set_slot<SF_SIZE(sf_recipe<K>::OUT)>(r, j, sf_programs<K>::store(p, c,
                                c.still, sf_programs<K>::load(p, c, v, j, ask), j));
        }
};
template <> struct sf_map_all<true> {
        template <int K, int BYTES, class ASK>
        SF_DEVICE_MEMBER void run(const sf_params &p, const sf_course &c, const sf_vectors &v,
                sf_raw<BYTES> &r, ASK &ask)
        {
#pragma unroll
                for (int j = 0; j + 1 < SF_WIDTH; j += 2)
                        r.w[j / 2] = sf_dtype<sf_recipe<K>::OUT>::pair(
                                sf_programs<K>::load(p, c, v, j, ask),
                                sf_programs<K>::load(p, c, v, j + 1, ask));
        }
};
template <int K, int BYTES, class ASK> SF_DEVICE void sf_map_vector(const sf_params &p, const sf_course &c, const sf_vectors &v, sf_raw<BYTES> &r, ASK &ask)
{
        sf_map_all<(sf_programs<K>::ROUNDS && SF_WIDTH > 1)>::template run<K>(p, c, v, r, ask);
}

/* The same in the quick way, and with care if that does not do for all of them (sf_hasty). */
template <bool BETWEEN> struct sf_map_quickly {
        template <int K, int BYTES>
        SF_DEVICE_MEMBER bool fails(const sf_params &p, const sf_course &c, const sf_vectors &v,
                sf_raw<BYTES> &r)
        {
                if (SURE) {
                        sf_sure sure;
                        sf_map_vector<K>(p, c, v, r, sure);
                        return sure.fails;
                }
                sf_hasty ask = {false};
                sf_map_vector<K>(p, c, v, r, ask);
                return ask.fails;
        }
};
/* Quotients that are rounded to 16 bits: a smaller and a larger number mostly are rounded to the
 * same (sf_beyond), which takes two multiplications. */
template <> struct sf_map_quickly<true> {
        template <int K, int BYTES>
        SF_DEVICE_MEMBER bool fails(const sf_params &p, const sf_course &c, const sf_vectors &v,
                sf_raw<BYTES> &r)
        {
                sf_beyond<true> far;
                sf_beyond<false> near;
                sf_raw<BYTES> other;
                sf_u32 different = 0;
                sf_map_vector<K>(p, c, v, r, far);
                sf_map_vector<K>(p, c, v, other, near);
#pragma unroll
                for (int w = 0; w < (int)(sizeof r.w / 4); w++)
                        different |= r.w[w] ^ other.w[w];
                return different;
        }
};
template <int K, int BYTES> SF_DEVICE bool sf_map_fails(const sf_params &p, const sf_course &c, const sf_vectors &v, sf_raw<BYTES> &r)
{
        enum { BETWEEN = sf_programs<K>::ROUNDS && sf_programs<K>::QUOTIENT };
        return sf_map_quickly<BETWEEN>::template fails<K>(p, c, v, r);
}
template <int K, int BYTES> SF_DEVICE void sf_map_with_care(const sf_params &p, const sf_course &c, const sf_vectors &v, sf_raw<BYTES> &r)
{
        sf_careful careful;
        sf_map_vector<K>(p, c, v, r, careful);
}
template <int K, int BYTES> SF_DEVICE void sf_map_either(const sf_params &p, const sf_course &c, const sf_vectors &v, sf_raw<BYTES> &r)
{
        if ((SURE && !c.sure) || sf_map_fails<K>(p, c, v, r))
                sf_map_with_care<K>(p, c, v, r);
}

/* Moves the course to line `line` of the batch. */
SF_DEVICE void sf_walk_batch(const sf_params &p, sf_i64 line, sf_course &c)
{
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

/* What a step of a kind does: the file that includes this one says it. */
template <int KIND> struct sf_do;

/* Steps one after another. COURSE: the thread's place in the tensors. */
template <int K> struct sf_steps {
        template <class COURSE> SF_DEVICE_MEMBER void run(const sf_params &p, COURSE &c, sf_vectors (&kept)[SF_ITEMS])
        {
                sf_do<sf_recipe<K>::KIND>::template step<K>(p, c, kept);
                sf_steps<K + 1>::run(p, c, kept);
        }
};
template <> struct sf_steps<STEPS> {
        template <class COURSE> SF_DEVICE_MEMBER void run(const sf_params &, COURSE &, sf_vectors (&)[SF_ITEMS]) {}
};
