/*
 * apply_group.cu: a chain (apply.cu) of rows, and folds across the rows of what it reads and makes,
 * in one read: the gradients of a norm, of which those of weight and bias are such folds.
 *
 * A tile is SF_ITEMS neighbouring rows, a power of two. A thread has a vector of each of them, at
 * the same columns in all its tiles. So it folds its columns of a tile by itself, and all rows of a
 * tile wait for each other's totals together. A warp's part of a row is a leaf; SF_WARPS and
 * SF_CLUSTER as in apply.cu. Every warp folds the leaves of all rows: those of one row are shared
 * by the lanes that are ROWS apart. So lane l has the results of row l % ROWS, which the others ask
 * it for. In a cluster a block has a power of two of warps, one of which folds the block's leaves
 * and sends the total to all blocks.
 *
 * A block has several tiles, one after another, and copies the next one to shared memory while it
 * computes (SF_KEEP is 4). 2^number[1] neighbouring tiles are a group. What a group's rows come to,
 * in each column, is a node of the tree that the order prescribes (docs/order.md), and goes to
 * scratch; a launch of fold.cu folds those. Until a group is complete, the totals of its tiles are
 * in shared memory, one for each bit set in their number.
 *
 * SF_STEPS and SF_OPERAND_LIST as in apply_columns.cu, where columns and rows are these. `how` is 3
 * for a fold across the rows. SF_PARTIAL: some threads are past the end of the rows. n: columns.
 * units: rows. number[0]: tiles. number[2]: from one of a block's groups to its next.
 */
#define SF_MADES 1
#include "apply_steps.cuh"

template <int K> struct sf_downs_before {
        enum { COUNT = sf_downs_before<K - 1>::COUNT + (sf_recipe<K - 1>::KIND == KIND_ACROSS) };
};
template <> struct sf_downs_before<0> {
        enum { COUNT = 0 };
};

enum {
        ROWS = SF_ITEMS,
        SHARES = 32 / ROWS, /* lanes that fold the totals of one row */
        FOLDS = sf_folds_before<STEPS>::COUNT,
        DOWNS = sf_downs_before<STEPS>::COUNT,
        TURNS = 2, /* a warp, or a block, may be one tile ahead of another */
};

/* sf_group_share, as a constant. */
template <int COUNT, int LANES> struct sf_each {
        enum { NUMBER = COUNT <= LANES ? 1 : 2 * sf_each<(COUNT + 1) / 2, LANES>::NUMBER };
};
template <int LANES> struct sf_each<1, LANES> {
        enum { NUMBER = 1 };
};

#define OPERAND(k, dt, unit, made) + (COPIED >> k & 1 ? SF_SIZE(dt) * SF_WIDTH : 0)
enum { COPIED_BYTES = 0 SF_OPERAND_LIST(OPERAND), ROOMY = COPIED_BYTES * SF_ITEMS <= 128 };
#undef OPERAND

SF_DEVICE unsigned char *sf_copies()
{
        return sf_shared() + sf_group_copies(SF_CLUSTER, FOLDS, SF_WARPS, SHARES, SLOT);
}
#include "apply_copies.cuh"

/* ------------------------------------------------------------------------------------------------
 * Rows
 * ---------------------------------------------------------------------------------------------- */
/* How many steps from K on have elementwise programs that read one of the operands. */
template <int K, int OPERANDS> struct sf_readers {
        enum { SMALL = (int)sf_recipe<K>::KIND == KIND_SMALL };
        enum { READS = !SMALL && ((int)sf_recipe<K>::LOADS & OPERANDS) != 0 };
        enum { COUNT = (int)READS + (int)sf_readers<K + 1, OPERANDS>::COUNT };
};
template <int OPERANDS> struct sf_readers<STEPS, OPERANDS> {
        enum { COUNT = 0 };
};
#define OPERAND(k, dt, unit, made) | ((made) == K) << k
template <int K> struct sf_result {
        enum { OPERANDS = 0 SF_OPERAND_LIST(OPERAND) };
        enum { SEVERAL = ROOMY && sf_readers<K + 1, (int)OPERANDS>::COUNT > 1 };
};
#undef OPERAND

/* A tile. In `made` a lane has what steps have made of its own row. What several steps read, `each`
 * has of every row, if there are registers for it, so that the compiler sees where they compute the
 * same. H200, forward and backward, so and asked for in every step: layer norm of rows of 4096 bf16
 * 0.77, 0.69 of the floor; but of f32, which spills, 0.80, 0.85. */
struct sf_tile : sf_course {
        sf_u64 each[STEPS][ROWS];
};
template <int SIZE> SF_DEVICE sf_u64 sf_ask(sf_u64 bits, int lane)
{
        return SIZE > 4 ? ::sf_shuffle(bits, lane) : (sf_u64)::sf_shuffle((sf_u32)bits, lane);
}

/* Row i, with what the operands in READS are, if steps from K on have made them. */
template <int READS, int K> struct sf_rows {
        SF_DEVICE_MEMBER void put(const sf_tile &c, int i, sf_course &row)
        {
                if (sf_result<K>::SEVERAL)
                        row.made[K][0] = c.each[K][i];
                else if (READS & sf_result<K>::OPERANDS)
                        row.made[K][0] = sf_ask<SF_SIZE(sf_recipe<K>::OUT)>(c.made[K][0], i);
                sf_rows<READS, K + 1>::put(c, i, row);
        }
};
template <int READS> struct sf_rows<READS, STEPS> {
        SF_DEVICE_MEMBER void put(const sf_tile &, int, sf_course &) {}
};
template <int K> SF_DEVICE sf_course sf_row_of(const sf_tile &c, int i)
{
        sf_course row = c;
        sf_rows<sf_recipe<K>::LOADS, 0>::put(c, i, row);
        return row;
}

/* The numbers of step K of row i. */
template <int K>
SF_DEVICE void sf_row_numbers(const sf_params &p, const sf_tile &c, int i, sf_vectors &v,
        sf_number_of_step<K> (&one)[SF_WIDTH])
{
        const sf_course row = sf_row_of<K>(c, i);
        sf_hasty hasty = {false};
        if (CROWDED)
                sf_take_in_turn(v);
        sf_load_numbers<K>(p, row, v, one, hasty);
        if (hasty.fails) {
                sf_careful careful;
                sf_load_numbers<K>(p, row, v, one, careful);
        }
}

/* A result of which a row has one; the lane has that of its own row. */
template <int K> SF_DEVICE void sf_made(const sf_params &p, sf_tile &c, sf_u64 bits)
{
        enum { SIZE = SF_SIZE(sf_recipe<K>::OUT) };
        c.made[K][0] = bits;
#pragma unroll
        for (int i = 0; sf_result<K>::SEVERAL && i < ROWS; i++)
                c.each[K][i] = sf_ask<SIZE>(bits, i);
        if (!sf_recipe<K>::WITHIN && c.mine)
                sf_store(FIELD(K, y) + (c.unit * ROWS + c.lane) * FIELD(K, sy),
                        sf_one_slot<SIZE>(bits));
}

template <> struct sf_do<KIND_FOLD> {
        template <int K> struct together {
                enum {
                        NEXT = K + 1 < STEPS ? K + 1 : K,
                        FOLDS = (int)sf_recipe<K>::KIND == KIND_FOLD &&
                                (int)sf_recipe<NEXT>::KIND == KIND_FOLD,
                        YES = NEXT > K && FOLDS && !sf_follows<NEXT>::YES
                };
        };

        /* The totals of the block's leaves, or, if SENT, of the cluster's blocks. */
        template <int K, bool SENT> struct totals {
                enum { COUNT = SENT ? SF_CLUSTER : SF_WARPS };
                enum { EACH = sf_each<(int)COUNT, SHARES>::NUMBER };

                /* Where number `at` of the lane's row is. */
                SF_DEVICE_MEMBER sf_total<K> *place(const sf_tile &c, int at)
                {
                        const int turn = c.round % TURNS * FOLDS + sf_folds_before<K>::COUNT;
                        const int base = turn * sf_group_totals(COUNT, SHARES) * SLOT + (SENT ?
                                sf_group_sent(SF_CLUSTER, FOLDS, SF_WARPS, SHARES, SLOT) :
                                sf_group_leaves(SF_CLUSTER));
                        const int lane = c.lane % ROWS * SHARES + at / EACH;
                        return (sf_total<K> *)(sf_shared() + base) + lane * (EACH | 1) + at % EACH;
                }

                /* All lanes of a row get their total. */
                SF_DEVICE_MEMBER sf_total<K> fold(const sf_params &p, const sf_tile &c)
                {
                        const int first = c.lane / ROWS * EACH;
                        const sf_total<K> *own = place(c, first);
                        sf_total<K> few[EACH];
#pragma unroll
                        for (int q = 0; q < EACH; q++) {
                                const bool there = COUNT >= SHARES * EACH || first + q < COUNT;
                                few[q] = sf_lifted<K>(FIELD(K, neutral));
                                if (there)
                                        few[q] = own[q];
                        }
                        sf_total<K> total = sf_fold_few<K>(few);
#pragma unroll
                        for (int b = ROWS; b < 32; b *= 2)
                                total = sf_meet<K>(total, c.lane, b);
                        return total;
                }
        };
        template <int K> SF_DEVICE_MEMBER sf_u64 *desk(const sf_tile &c)
        {
                return (sf_u64 *)sf_shared() + c.round % TURNS * FOLDS + sf_folds_before<K>::COUNT;
        }

        /* Folds each row's part of this warp. The lane gets that of row lane % ROWS. While a lane
         * has several values, it sends one of each two to its partner and keeps the other. */
        template <int K> SF_DEVICE_MEMBER sf_total<K> meet(sf_total<K> (&a)[ROWS], int lane)
        {
#pragma unroll
                for (int b = 1; b < ROWS; b *= 2)
#pragma unroll
                        for (int i = 0; i < ROWS / 2; i++)
                                if (i < ROWS / b / 2) {
                                        const sf_total<K> even = a[2 * i], odd = a[2 * i + 1];
                                        const sf_total<K> given = sf_one_of<K>(lane & b, even, odd);
                                        const sf_total<K> own = sf_one_of<K>(lane & b, odd, even);
                                        const sf_total<K> other =
                                                sf_held<K>::shuffle(given, lane ^ b);
                                        a[i] = sf_met<K>(own, other, lane, b);
                                }
#pragma unroll
                for (int b = ROWS; b < 32; b *= 2)
                        a[0] = sf_meet<K>(a[0], lane, b);
                return a[0];
        }

        /* A fold in two halves, as in apply.cu. */
        template <int K>
        SF_DEVICE_MEMBER void begin(const sf_params &p, sf_tile &c, sf_vectors (&v)[SF_ITEMS])
        {
                sf_total<K> a[ROWS];
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                        sf_few<sf_recipe<K>::OP, K> few;
                        sf_number_of_step<K> one[SF_WIDTH];
                        sf_row_numbers<K>(p, c, i, v[i], one);
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                few.set(j, one[j]);
                        a[i] = sf_held<K>::choose(!SF_PARTIAL || c.n > 0, few.fold(),
                                sf_lifted<K>(FIELD(K, neutral)));
                }
                const sf_total<K> total = meet<K>(a, c.lane);
                if (c.lane < ROWS)
                        *totals<K, false>::place(c, c.warp) = total;
        }

        /* One warp sends the block's totals to all blocks of the cluster. */
        template <int K> SF_DEVICE_MEMBER void send(const sf_params &p, const sf_tile &c)
        {
                enum { SIZE = sizeof(sf_total<K>) };
                if (c.warp != sf_folds_before<K>::COUNT % SF_WARPS)
                        return;
                if (c.lane == 0)
                        sf_desk_expect(desk<K>(c), SF_CLUSTER * ROWS * SIZE);
                union {
                        sf_total<K> value;
                        sf_u32 word[SIZE / 4];
                } total;
                total.value = totals<K, false>::fold(p, c);
                sf_u32 *place = (sf_u32 *)totals<K, true>::place(c, c.rank);
#pragma unroll
                for (int first = 0; first < SF_CLUSTER; first += SHARES)
                        if (first + c.lane / ROWS < SF_CLUSTER)
#pragma unroll
                                for (int w = 0; w < SIZE / 4; w++)
                                        sf_desk_send(desk<K>(c), place + w, first + c.lane / ROWS,
                                                total.word[w]);
        }

        template <int K>
        SF_DEVICE_MEMBER void step(const sf_params &p, sf_tile &c, sf_vectors (&v)[SF_ITEMS])
        {
                enum { BEGUN = K && together<(K ? K - 1 : 0)>::YES, NEXT = together<K>::NEXT };
                if (!BEGUN)
                        begin<K>(p, c, v);
                if (together<K>::YES)
                        begin<NEXT>(p, c, v);
                if (!BEGUN || together<K>::YES)
                        sf_sync_block();
                if (SF_CLUSTER > 1 && !BEGUN)
                        send<K>(p, c);
                if (SF_CLUSTER > 1 && together<K>::YES)
                        send<NEXT>(p, c);
                if (SF_CLUSTER > 1)
                        sf_desk_wait(desk<K>(c), c.round / TURNS);
                sf_total<K> total = totals<K, (SF_CLUSTER > 1)>::fold(p, c);
                if (sf_recipe<K>::BEGINS)
                        total = sf_joined<K>(sf_lifted<K>(FIELD(K, initial)), total);
                sf_made<K>(p, c, sf_programs<K>::store(p, c, c.still, sf_held<K>::lower(total)));
        }
};

template <> struct sf_do<KIND_SMALL> {
        template <int K>
        SF_DEVICE_MEMBER void step(const sf_params &p, sf_tile &c, sf_vectors (&)[SF_ITEMS])
        {
                sf_made<K>(p, c, sf_programs<K>::store(p, c, c.still,
                        sf_programs<K>::load(p, c, c.still, 0)));
        }
};

template <> struct sf_do<KIND_MAP> {
        template <int K>
        SF_DEVICE_MEMBER void step(const sf_params &p, sf_tile &c, sf_vectors (&v)[SF_ITEMS])
        {
                enum { SIZE = SF_SIZE(sf_recipe<K>::OUT), BYTES = SIZE * SF_WIDTH };
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                        sf_raw<BYTES> r;
                        const sf_course row = sf_row_of<K>(c, i);
                        if (CROWDED)
                                sf_take_in_turn(v[i]);
                        sf_map_either<K>(p, row, v[i], r);
                        if (i < c.rows)
                                sf_store(c.y[K] + i * FIELD(K, sy), r);
                }
        }
};

template <> struct sf_do<KIND_ACROSS> {
        /* The thread's totals of 2^level tiles, for column j. */
        template <int K> SF_DEVICE_MEMBER sf_total<K> *pending(int level, int j)
        {
                enum { AT = COPIED_BYTES * SF_ITEMS * SF_THREADS };
                const int number = (level * DOWNS + sf_downs_before<K>::COUNT) * SF_WIDTH + j;
                const int at = AT + (number * SF_THREADS + sf_thread()) * SLOT;
                return (sf_total<K> *)(sf_copies() + at);
        }

        /* Folds the thread's columns of the tile. WHOLE: all its rows are there. */
        template <int K, bool WHOLE>
        SF_DEVICE_MEMBER void fold(const sf_params &p, const sf_tile &c,
                sf_vectors (&v)[SF_ITEMS], sf_total<K> (&total)[SF_WIDTH])
        {
                enum { LEVELS = 6 };
                /* of 2^l rows, for the bits l of the rows done */
                sf_total<K> left[LEVELS][SF_WIDTH];
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                        sf_number_of_step<K> one[SF_WIDTH];
                        sf_row_numbers<K>(p, c, i, v[i], one);
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++) {
                                sf_total<K> sum = sf_held<K>::choose(WHOLE || i < c.rows,
                                        sf_held<K>::settle(sf_held<K>::lift(one[j])),
                                        sf_lifted<K>(FIELD(K, neutral)));
                                int level = 0;
#pragma unroll
                                for (; (i >> level & 1) && level < LEVELS - 1; level++)
                                        sum = sf_joined<K>(left[level][j], sum);
                                left[level][j] = sum;
                                total[j] = sum;
                        }
                }
        }

        template <int K>
        SF_DEVICE_MEMBER void step(const sf_params &p, sf_tile &c, sf_vectors (&v)[SF_ITEMS])
        {
                enum { SIZE = SF_SIZE(sf_recipe<K>::OUT) };
                const int levels = (int)p.number[1], tile = (int)(c.unit & ((1 << levels) - 1));
                const bool last = c.unit + 1 == p.number[0];
                sf_total<K> total[SF_WIDTH];
                if ((c.unit + 1) * ROWS <= p.units) /* for all lanes */
                        fold<K, true>(p, c, v, total);
                else
                        fold<K, false>(p, c, v, total);
                int level = 0;
                /* The last tile may leave nodes without a right part: they are their left child. */
                for (; level < levels && (last || tile >> level & 1); level++)
                        if (tile >> level & 1)
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        total[j] = sf_joined<K>(*pending<K>(level, j), total[j]);
                if (level < levels) {
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                *pending<K>(level, j) = total[j];
                        return;
                }
                const sf_i64 column = p.n - c.n;
                char *at = (char *)p.scratch + (sf_u64)FIELD(K, y) + column * SIZE +
                        (c.unit >> levels) * FIELD(K, sy);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (c.n > 0)
                                sf_store(at + j * SIZE, sf_one_slot<SIZE>(sf_programs<K>::store(p,
                                        c, c.still, sf_held<K>::lower(total[j]))));
        }
};

/* ------------------------------------------------------------------------------------------------
 * Tiles
 * ---------------------------------------------------------------------------------------------- */
SF_DEVICE sf_i64 sf_tile_of(const sf_params &p, int round)
{
        const int levels = (int)p.number[1];
        const sf_i64 group = sf_block() / SF_CLUSTER + (round >> levels) * p.number[2];
        return (group << levels) + (round & ((1 << levels) - 1));
}
SF_DEVICE bool sf_goes_on(const sf_params &p, int round)
{
        return sf_tile_of(p, sf_anew(round + 1)) < p.number[0];
}

/* Where the thread's columns are, in the first row of a round's tile. All is computed again for
 * every tile, so that it takes no registers meanwhile. */
SF_DEVICE void sf_locate(const sf_params &p, int round, sf_course &c)
{
        const int thread = sf_anew(sf_thread());
        c.lane = thread & 31;
        c.warp = thread / 32;
        c.rank = (int)(sf_block() % SF_CLUSTER);
        c.unit = sf_tile_of(p, round);
        const int column = ((c.rank * SF_WARPS + c.warp) * 32 + c.lane) * SF_WIDTH;
        const sf_i64 row = c.unit * ROWS, left = p.units - row;
        c.n = (int)p.n - column;
        c.rows = !SF_PARTIAL || c.n > 0 ? left < ROWS ? (int)left : ROWS : -1;
        c.mine = c.rank == 0 && c.warp == 0 && c.lane < ROWS && c.lane < left;
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                c.operand[k] = p.operand[k] + column * p.across[k] + row * p.along[k];
#pragma unroll
        for (int k = 0; k < STEPS; k++)
                c.y[k] = FIELD(k, y) + column * FIELD(k, iy) + row * FIELD(k, sy);
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        sf_tile c;
        sf_vectors v[SF_ITEMS];
        if (SF_CLUSTER > 1) {
                if (sf_thread() < TURNS * FOLDS)
                        sf_desk_open((sf_u64 *)sf_shared() + sf_thread());
                sf_cluster_arrive(); /* others may write to this block's shared memory after this */
        }
        sf_locate(p, 0, c);
        sf_stage(p, c);
        if (SF_CLUSTER > 1)
                sf_cluster_wait();
#define OPERAND(k, dt, unit, made)                                              \
        if (!(MOVING >> k & 1) && (made) < 0 && ((unit) == 2 || c.rows > 0))    \
                sf_load_steady(c.operand[k], *(sf_raw<SF_SIZE(dt) * ((made) < 0 && (unit) == 3 ? SF_WIDTH : 1)> *)&c.still.operand##k);
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        for (c.round = 0;; c.round++) {
#pragma unroll
                for (int k = 0; k < STEPS; k++) {
                        c.made[k][0] = 0;
#pragma unroll
                        for (int i = 0; i < ROWS; i++)
                                c.each[k][i] = 0;
                }
                sf_unstage(v);
                if (sf_goes_on(p, c.round)) {
                        sf_course next;
                        sf_locate(p, c.round + 1, next);
                        sf_stage(p, next);
                }
                sf_steps<0>::run(p, c, v);
                if (!sf_goes_on(p, c.round))
                        return;
                sf_locate(p, c.round + 1, c);
        }
}
#undef FIELD
