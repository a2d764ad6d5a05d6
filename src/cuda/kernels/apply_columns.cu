/*
 * apply_columns.cu: a chain (apply.cu) down columns, in one launch.
 *
 * A strip is STRIP neighbouring columns: SF_ACROSS lanes of a warp are beside each other, with a
 * vector of columns each, the others below them. A thread has SF_ITEMS neighbouring rows of its
 * columns, in registers. So a thread, a warp and SF_WARPS warps each have an aligned part of every
 * column, whose total is a node of the tree that the order prescribes (docs/order.md). A block has
 * LINES strips at once.
 *
 * If SF_SINGLE is 0, a strip has more rows than a block can hold, and number[0] blocks share it: a
 * cluster of SF_CLUSTER blocks, which send each other the totals of their rows, or
 * a team (apply_teams.cuh).
 *
 * SF_KEEP is 1, 3 or 4, as in apply.cu: with 3 and 4 what the first step reads is copied to shared
 * memory, and with 4 that of the block's next strip while this one is computed.
 *
 * SF_STEPS and SF_OPERAND_LIST as in apply.cu, but of units: 1 a vector of columns at each row, 0 an
 * element for each row, which all columns share, 2 one element for everything, 3 a vector of
 * columns, which all rows share. `how` has 8 if columns of results are contiguous.
 *
 * units: strips of all matrices. number[0]: blocks of a team. number[1]: strips of a matrix.
 * number[2]: from one of a block's strips to its next. number[3]: tickets. inner: columns. scratch:
 * tickets, then for each strip, fold and column SLOT / 4 times the words of the team.
 */
#define SF_SURES 1
#include "apply_steps.cuh"
#include "apply_teams.cuh"

enum {
        LINES = SF_THREADS / 32 / SF_WARPS,
        STRIP = SF_ACROSS * SF_WIDTH,
        LEAF = 32 / SF_ACROSS * SF_ITEMS, /* rows of a warp */
        ALONE = SF_WARPS == 1 && SF_SINGLE, /* a column is one leaf */
        PITCH = SF_WARPS + 1,
        TOTAL = 16, /* bytes of a column's total, or of what has been made of it */
        AT_ONCE = 32 / SF_WARPS, /* columns that a warp has the totals of in its lanes, */
        PASSES = (STRIP + 31) / 32, /* so many times */
};

/* ------------------------------------------------------------------------------------------------
 * From memory to registers
 * ---------------------------------------------------------------------------------------------- */
SF_DEVICE unsigned char *sf_copies()
{
        return sf_shared() + sf_down_kept(ALONE, LINES, STRIP, SF_WARPS, SLOT, SF_CLUSTER, sf_folds_before<STEPS>::COUNT);
}
#include "apply_copies.cuh"

template <bool LOADS, int BYTES> SF_DEVICE void sf_fetch(bool there, const char *p, sf_raw<BYTES> &r)
{
        if (there)
                sf_load(p, *(sf_raw<(LOADS ? BYTES : 4)> *)&r);
        else
                for (int w = 0; w < (int)(sizeof r.w / 4); w++)
                        r.w[w] = 0;
}

/* Loads item i of the operands in WHICH. */
template <int WHICH> SF_DEVICE void sf_fetch_item(const sf_params &p, const sf_course &c, int i, sf_vectors &v)
{
        const bool there = i < c.rows;
        (void)there, (void)p, (void)v;
#define OPERAND(k, dt, unit, made) \
        if (WHICH >> k & 1)        \
                sf_fetch<(WHICH >> k & 1) != 0>(there, c.operand[k] + i * p.along[k], v.operand##k);
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
}

/* Loads what step K reads, except what is in registers already and what is loaded late. */
template <int K> SF_DEVICE void sf_fetch_all(const sf_params &p, const sf_course &c, sf_vectors (&v)[SF_ITEMS])
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_fetch_item<sf_reads<K>::FRESH & ~sf_reads<K>::LATE>(p, c, i, v[i]);
}

/* ------------------------------------------------------------------------------------------------
 * Folds
 * ---------------------------------------------------------------------------------------------- */

/* Folds the thread's rows, for each of its columns. */
template <int K, class ASK> SF_DEVICE void sf_fold_items(const sf_params &p, const sf_course &c, sf_vectors (&v)[SF_ITEMS], sf_total<K> (&total)[SF_WIDTH], ASK &ask)
{
        const sf_total<K> neutral = sf_lifted<K>(FIELD(K, neutral));
        enum { LEVELS = 8 };
        sf_total<K> left[LEVELS][SF_WIDTH]; /* of 2^l rows, for the bits l of the rows done */
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_number_of_step<K> one[SF_WIDTH];
                sf_take_numbers<K>(p, c, v[i], one, ask);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        sf_total<K> sum = sf_held<K>::choose(i < c.rows, sf_held<K>::settle(sf_held<K>::lift(one[j])), neutral);
                        int level = 0;
#pragma unroll
                        for (; (i >> level & 1) && level < LEVELS - 1; level++)
                                sum = sf_joined<K>(left[level][j], sum);
                        left[level][j] = sum;
                        total[j] = sum;
                }
        }
}

/* In the quick way (sf_hasty), and again with care if that does not do. Then what has made way for
 * numbers that are kept is loaded from memory. */
template <int K> SF_DEVICE void sf_fold_rows(const sf_params &p, sf_course &c, sf_vectors (&v)[SF_ITEMS], sf_total<K> (&total)[SF_WIDTH])
{
        enum { KEEPS = KEEPERS >> K & 1 };
        sf_hasty hasty = {false};
        sf_fold_items<K>(p, c, v, total, hasty);
        if (KEEPS)
                c.sure = !hasty.fails;
        if (!hasty.fails)
                return;
        if (KEEPS)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_fetch_item<sf_reads<K>::ALL>(p, c, i, v[i]);
        sf_careful careful;
        sf_fold_items<K>(p, c, v, total, careful);
}

/* What is made of a column's total: the step's result. */
template <int K> SF_DEVICE sf_u64 sf_finished(const sf_params &p, const sf_course &c, sf_total<K> total, int j)
{
        if (sf_recipe<K>::BEGINS)
                total = sf_joined<K>(sf_lifted<K>(FIELD(K, initial)), total);
        return sf_programs<K>::store(p, c, c.still, sf_held<K>::lower(total), j);
}

/* The number of a column's total, of this strip and fold. */
template <int K> SF_DEVICE sf_i64 sf_entry_of(const sf_course &c, int column)
{
        return (c.unit * sf_folds_before<STEPS>::COUNT + sf_folds_before<K>::COUNT) * STRIP + column;
}

/* A cluster: the totals that its blocks have for a column. They are sent to each other's shared
 * memory, in turn to two places, since a block may be one strip ahead of another. */
template <int K> SF_DEVICE sf_total<K> *sf_cluster_totals(const sf_course &c, int column)
{
        enum { FOLDS = sf_folds_before<STEPS>::COUNT };
        const int turn = (c.round % 2 * FOLDS + sf_folds_before<K>::COUNT) * STRIP + column;
        return (sf_total<K> *)(sf_shared() + sf_down_sent(ALONE, LINES, STRIP, SF_WARPS, SLOT) + turn * SF_CLUSTER * SLOT);
}
template <int K> SF_DEVICE sf_u64 *sf_cluster_desk(const sf_course &c)
{
        return (sf_u64 *)(sf_shared() + SF_DOWN_TICKET) + (c.round % 2) * STEPS + K;
}
template <int K> SF_DEVICE void sf_tell_cluster(const sf_course &c, int column, sf_total<K> total)
{
        sf_in_words<sf_total<K> > own;
        own.value = total;
        if (c.lane < SF_CLUSTER)
#pragma unroll
                for (int w = 0; w < (int)(sizeof own.value / 4); w++)
                        sf_desk_send(sf_cluster_desk<K>(c), (sf_u32 *)(sf_cluster_totals<K>(c, column) + c.rank) + w, c.lane, own.word[w]);
}
template <int K> SF_DEVICE sf_total<K> sf_ask_cluster(const sf_params &p, const sf_course &c, int column)
{
        enum { LANES = SF_CLUSTER <= 2 ? 2 : SF_CLUSTER <= 4 ? 4 : SF_CLUSTER <= 8 ? 8 : 16 };
        const int rank = c.lane % LANES;
        sf_total<K> total = sf_cluster_totals<K>(c, column)[rank < SF_CLUSTER ? rank : 0];
        total = sf_held<K>::choose(rank < SF_CLUSTER, total, sf_lifted<K>(FIELD(K, neutral)));
#pragma unroll
        for (int b = 1; b < LANES; b *= 2)
                total = sf_meet<K>(total, c.lane, b);
        return total;
}

/* Folds the totals of the warps, and of the blocks of a team, for all columns of the strip, and
 * leaves the results in `totals`: of step K, if its program reads nothing else (LOWERS). */
template <int K> struct sf_lowers {
        enum { HERE = sf_recipe<K>::STORES == 0 };
};
template <int K> SF_DEVICE void sf_fold_strip(const sf_params &p, const sf_course &c, const sf_total<K> *parts, unsigned char *totals)
{
        const sf_u32 mark = SF_SINGLE || SF_CLUSTER > 1 ? 0 : sf_mark(*(const sf_u64 *)sf_shared());
        const int team = (int)p.number[0];
        if (SF_CLUSTER > 1 && sf_thread() == 0)
                sf_desk_expect(sf_cluster_desk<K>(c), SF_CLUSTER * STRIP * (int)sizeof(sf_total<K>));
        sf_total<K> total[PASSES];
#pragma unroll
        for (int q = 0; q < PASSES; q++) {
                const int column = q * 32 + c.warp * AT_ONCE + c.lane / SF_WARPS;
                total[q] = parts[(column < STRIP ? column : 0) * PITCH + c.lane % SF_WARPS];
#pragma unroll
                for (int b = 1; b < SF_WARPS; b *= 2)
                        total[q] = sf_meet<K>(total[q], c.lane, b);
                if (SF_CLUSTER > 1)
#pragma unroll
                        for (int g = 0; g < AT_ONCE; g++) {
                                const int other = q * 32 + c.warp * AT_ONCE + g;
                                const sf_total<K> one = sf_held<K>::shuffle(total[q], g * SF_WARPS);
                                if (other < STRIP)
                                        sf_tell_cluster<K>(c, other, one);
                        }
                else if (!SF_SINGLE && column < STRIP && c.lane % SF_WARPS == 0)
                        sf_tell_team(sf_team_words(p, sf_entry_of<K>(c, column), team), team, c.rank, total[q], mark);
        }
        if (SF_CLUSTER > 1)
                sf_desk_wait(sf_cluster_desk<K>(c), c.round / 2);
#pragma unroll
        for (int q = 0; q < PASSES; q++) {
                const int first = q * 32 + c.warp * AT_ONCE, column = first + c.lane / SF_WARPS;
                if (!SF_SINGLE)
#pragma unroll
                        for (int g = 0; g < AT_ONCE; g++)
                                if (first + g < STRIP) {
                                        const sf_total<K> all = SF_CLUSTER > 1 ? sf_ask_cluster<K>(p, c, first + g) : sf_ask_team<K>(p, sf_team_words(p, sf_entry_of<K>(c, first + g), team), team, c.lane, mark);
                                        total[q] = sf_held<K>::choose(c.lane / SF_WARPS == g, all, total[q]);
                                }
                if (column < STRIP && c.lane % SF_WARPS == 0) {
                        if (sf_lowers<K>::HERE)
                                *(sf_u64 *)(totals + column * TOTAL) = sf_finished<K>(p, c, total[q], 0);
                        else
                                *(sf_total<K> *)(totals + column * TOTAL) = total[q];
                }
        }
}

/* ------------------------------------------------------------------------------------------------
 * Steps
 * ---------------------------------------------------------------------------------------------- */

/* A result of which a column has one: keeps it for the steps that follow, and stores it. */
template <int K> SF_DEVICE void sf_made(const sf_params &p, sf_course &c, int j, sf_u64 bits)
{
        enum { SIZE = SF_SIZE(sf_recipe<K>::OUT) };
        c.made[K][j % MADES] = bits;
        if (!sf_recipe<K>::WITHIN && c.mine)
                sf_store(c.y[K] + j * FIELD(K, iy), sf_one_slot<SIZE>(bits));
}

template <> struct sf_do<KIND_FOLD> {
        template <int K> SF_DEVICE_MEMBER void step(const sf_params &p, sf_course &c, sf_vectors (&kept)[SF_ITEMS])
        {
                sf_total<K> total[SF_WIDTH];
                sf_fetch_all<K>(p, c, kept);
                sf_fold_rows<K>(p, c, kept, total);
#pragma unroll
                for (int b = SF_ACROSS; b < 32; b *= 2)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                total[j] = sf_meet<K>(total[j], c.lane, b);
                if (ALONE) {
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                sf_made<K>(p, c, j, sf_finished<K>(p, c, total[j], j));
                        return;
                }
                sf_total<K> *parts = (sf_total<K> *)(sf_shared() + sf_down_parts(LINES, STRIP)) + c.team * STRIP * PITCH;
                unsigned char *totals = sf_shared() + SF_DOWN_TOTALS + c.team * STRIP * TOTAL;
                if (c.lane < SF_ACROSS)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                parts[(c.lane * SF_WIDTH + j) * PITCH + c.warp] = total[j];
                sf_sync_block();
                sf_fold_strip<K>(p, c, parts, totals);
                sf_sync_block();
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        const unsigned char *at = totals + (c.lane % SF_ACROSS * SF_WIDTH + j) * TOTAL;
                        if (sf_lowers<K>::HERE)
                                sf_made<K>(p, c, j, *(const sf_u64 *)at);
                        else
                                sf_made<K>(p, c, j, sf_finished<K>(p, c, *(const sf_total<K> *)at, j));
                }
        }
};

template <> struct sf_do<KIND_MAP> {
        /* Stores all results. Returns whether some of them must be computed with care. */
        template <int K, bool QUICK> SF_DEVICE_MEMBER bool items(const sf_params &p, const sf_course &c, sf_vectors (&kept)[SF_ITEMS])
        {
                enum { SIZE = SF_SIZE(sf_recipe<K>::OUT), BYTES = SIZE * SF_WIDTH };
                bool fails = false;
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        if (i % LATE_ITEMS == 0)
#pragma unroll
                                for (int q = i; q < SF_ITEMS && q < i + LATE_ITEMS; q++)
                                        sf_fetch_item<sf_reads<K>::LATE>(p, c, q, kept[q % SF_ITEMS]);
                        sf_raw<BYTES> r;
                        if (QUICK)
                                fails |= sf_map_fails<K>(p, c, kept[i], r);
                        else
                                sf_map_with_care<K>(p, c, kept[i], r);
                        if (i >= c.rows)
                                continue;
                        char *at = c.y[K] + i * FIELD(K, sy);
                        if (sf_recipe<K>::UNIT) {
                                sf_store(at, r);
                                continue;
                        }
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                sf_store(at + j * FIELD(K, iy),
                                         sf_one_slot<SIZE>(sf_slot<SIZE>(r, j)));
                }
                return fails;
        }
        template <int K> SF_DEVICE_MEMBER void step(const sf_params &p, sf_course &c, sf_vectors (&kept)[SF_ITEMS])
        {
                sf_fetch_all<K>(p, c, kept);
                if ((SURE && !c.sure) || items<K, true>(p, c, kept))
                        items<K, false>(p, c, kept);
        }
};

template <> struct sf_do<KIND_SMALL> {
        template <int K> SF_DEVICE_MEMBER void step(const sf_params &p, sf_course &c, sf_vectors (&)[SF_ITEMS])
        {
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        sf_made<K>(p, c, j, sf_programs<K>::store(p, c, c.still, sf_programs<K>::load(p, c, c.still, j), j));
        }
};

/* ------------------------------------------------------------------------------------------------
 * Strips
 * ---------------------------------------------------------------------------------------------- */

/* The first strip of the block's first round, and the place of the block in its team. */
SF_DEVICE sf_i64 sf_first_strip(const sf_params &p, int &rank)
{
        rank = 0;
        if (SF_SINGLE)
                return sf_block() * LINES;
        if (SF_CLUSTER > 1) {
                rank = (int)(sf_block() % SF_CLUSTER);
                return sf_block() / SF_CLUSTER;
        }
        const sf_u32 ticket = (sf_u32) * (const sf_u64 *)sf_shared(), team = ticket / (sf_u32)p.number[0];
        rank = (int)(ticket - team * (sf_u32)p.number[0]);
        return team;
}

SF_DEVICE bool sf_goes_on(const sf_params &p, int round)
{
        int rank;
        return LOOPS && sf_first_strip(p, rank) + sf_anew(round + 1) * p.number[2] < p.units;
}

/* Where the thread's first row and column of a round's strip are in every operand and result. All is
 * computed again for every strip, so that it takes no registers meanwhile. */
SF_DEVICE void sf_locate(const sf_params &p, int round, sf_course &c)
{
        const int thread = LOOPS ? sf_anew(sf_thread()) : sf_thread();
        c.lane = thread & 31;
        c.warp = SF_WARPS == 1 ? 0 : LINES == 1 ? thread / 32 : thread / 32 % SF_WARPS;
        c.team = LINES == 1 ? 0 : thread / 32 / SF_WARPS;
        c.unit = sf_first_strip(p, c.rank) + c.team + (LOOPS ? sf_anew(round) * p.number[2] : 0);
        const bool works = c.unit < p.units;
        c.unit = works ? c.unit : 0;
        sf_i64 matrix = p.number[1] > 1 ? sf_divide(c.unit, p.number[1]) : c.unit;
        const sf_i64 column = (c.unit - matrix * p.number[1]) * STRIP + c.lane % SF_ACROSS * SF_WIDTH;
        const int row = (c.rank * SF_WARPS + c.warp) * LEAF + c.lane / SF_ACROSS * SF_ITEMS;
        c.rows = works && column < p.inner ? (int)p.n - row : -1;
        c.mine = c.rows > 0 && c.rank == 0 && c.warp == 0 && c.lane < SF_ACROSS;
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                c.operand[k] = p.operand[k] + column * p.across[k] + row * p.along[k];
#pragma unroll
        for (int k = 0; k < STEPS; k++)
                c.y[k] = FIELD(k, y) + column * FIELD(k, iy) + row * FIELD(k, sy);
        sf_walk_batch(p, matrix, c);
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        sf_course c;
        sf_vectors kept[SF_ITEMS];
        if (!SF_SINGLE && SF_CLUSTER == 1)
                sf_join_team(p, (sf_u64 *)sf_shared());
        if (SF_CLUSTER > 1) {
                if (sf_thread() < 2 * STEPS)
                        sf_desk_open((sf_u64 *)(sf_shared() + SF_DOWN_TICKET) + sf_thread());
                sf_cluster_arrive(); /* others may write to this block's shared memory after this */
        }
        sf_locate(p, 0, c);
        if (STAGED)
                sf_stage(p, c);
        if (SF_CLUSTER > 1)
                sf_cluster_wait();
        for (c.round = 0;; c.round++) {
#pragma unroll
                for (int k = 0; k < STEPS; k++)
#pragma unroll
                        for (int j = 0; j < MADES; j++)
                                c.made[k][j] = 0;
#define OPERAND(k, dt, unit, made)                               \
        if (!(MOVING >> k & 1) && (made) < 0 && ((unit) == 2 || c.rows > 0)) \
                sf_load_steady(c.operand[k], *(sf_raw<SF_SIZE(dt) * ((made) < 0 && (unit) == 3 ? SF_WIDTH : 1)> *)&c.still.operand##k);
                SF_OPERAND_LIST(OPERAND)
#undef OPERAND
                if (STAGED)
                        sf_unstage(kept);
                if (sf_goes_on(p, c.round)) {
                        sf_course next;
                        sf_locate(p, c.round + 1, next);
                        sf_stage(p, next);
                }
                sf_steps<0>::run(p, c, kept);
                if (!sf_goes_on(p, c.round))
                        return;
                sf_locate(p, c.round + 1, c);
        }
}
#undef FIELD
