/*
 * apply_short.cu: a chain (apply.cu) of short lines, which may begin at any address, in one launch.
 *
 * A line belongs to SF_LANES lanes of a warp, so that the warp has several, or to all SF_WARPS warps
 * of a block. Threads that have shared memory in common are a team: a warp, or, if a line has several
 * warps, the block. What folds read (SF_COPIES) is copied to shared memory as it lies: the aligned
 * vectors of 16 bytes that cover it, and their bytes that belong to neighbours are ignored. With
 * SF_FLAT a team's lines are contiguous, and copied as one run. Results take the opposite way: they
 * replace in shared memory what has been read, at the result's own address modulo 16. What they have
 * of whole vectors is stored as such, the rest one by one.
 *
 * A line is cut into rows of SF_LANES vectors of SF_WIDTH elements; a lane has one vector of each of
 * SF_ITEMS rows. Neighbours are first in a vector, then in lanes, rows and warps. So a row is an
 * aligned part of the line, and its total is a node of the tree that the order prescribes
 * (docs/order.md). A line need not have a power of two of rows: those that are missing count as
 * neutral. If a line has several warps, their rows' totals meet in shared memory, and every warp
 * folds them all.
 *
 * Elements of a vector are read and written one by one, since a line begins anywhere. So that lanes
 * do not meet in the banks of shared memory, a lane takes number j ^ swap where others take number
 * j. All operations commute here, bit for bit: neighbours remain neighbours in this order, and pairs
 * of pairs, too. With SF_VECTORS all lines begin with aligned vectors, which are read and written as
 * such; there, lanes of different lines take their rows in different order, for the same reason.
 *
 * SF_STEPS and SF_OPERAND_LIST are as in apply.cu. No fold comes after a map. SF_RAGGED: lines are
 * not whole rows. units: lines. number[0]: bytes of a team's copies.
 */
#define SF_VECTORS (SF_PLACE == 2)
#define SF_SWAPS (SF_PLACE == 1)
#define SF_KEEP 3
#define SF_SURES 1
/* Totals that a lane has of a line's rows. */
#define SF_PER (SF_WARPS * SF_ITEMS > 128 ? 8 : SF_WARPS * SF_ITEMS > 64 ? 4 : SF_WARPS * SF_ITEMS > 32 ? 2 : 1)
#include "apply_steps.cuh"
#include "apply_rows.cuh"

enum {
        TEAM = 32 * SF_WARPS,
        TEAMS = SF_THREADS / TEAM,
        LINES = 32 / SF_LANES, /* of a team */
        SPREAD = SF_LANES * SF_WIDTH, /* from one of a lane's vectors to the next */
        ENTIRE = !SF_RAGGED,
        /* Elements in a word of a bank, and in all of them. */
        WORD = SF_SIZE(SF_IN) < 4 ? 4 / SF_SIZE(SF_IN) : 1,
        BANKS = 128 / SF_SIZE(SF_IN),
        SWAPS = SF_SWAPS && SF_WIDTH > (int)WORD ? SF_WIDTH - (int)WORD : 0,
        TURNS = SF_VECTORS && ENTIRE && LINES > 1 && !(SF_ITEMS & (SF_ITEMS - 1)) ? SF_ITEMS - 1 : 0,
};
static_assert(SF_WARPS == 1 || (SF_LANES == 32 && TEAMS == 1), "a block has one line of several warps");
static_assert(SF_WARPS * SF_ITEMS <= 32 * SF_PER, "a warp folds the totals of a line's rows");

#include "apply_short_cells.cuh"

/* ------------------------------------------------------------------------------------------------
 * Folds
 * ---------------------------------------------------------------------------------------------- */

/* The largest or the smallest number needs no order: a thread folds all its own first. What is past
 * the end of a line is one of its elements, and does no harm. */
template <int K> struct sf_is_extreme {
        enum { OP = sf_recipe<K>::OP, YES = (int)OP == SF_OP_MAX || (int)OP == SF_OP_MIN };
};

/* Folds each of the lane's vectors. */
template <int K, bool WHOLE, class ASK>
SF_DEVICE void sf_fold_vectors(const sf_params &p, const sf_course &c, sf_vectors (&v)[SF_ITEMS],
                               sf_total<K> (&a)[SF_ITEMS], ASK &ask)
{
        typedef sf_dtype<sf_recipe<K>::ACC> number;
        enum { HARMLESS = sf_is_extreme<K>::YES && !SF_VECTORS };
        const int left = c.n - c.first;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                const bool cut = !sf_is_whole<WHOLE>(i) && !HARMLESS;
                sf_few<sf_recipe<K>::OP, K> few;
                sf_number_of_step<K> one[SF_WIDTH];
                sf_take_numbers<K>(p, c, v[i], one, ask);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        if (cut)
                                one[j] = sf_index(c, i, j) < left ? one[j] : number::constant(FIELD(K, neutral));
                        few.set(j, one[j]);
                }
                a[i] = few.fold();
                if (cut)
                        a[i] = sf_held<K>::choose(i * SPREAD < left, a[i], sf_lifted<K>(FIELD(K, neutral)));
        }
}

/*
 * Folds each of COUNT rows over the line's lanes, from bit B of their numbers on. A lane with several
 * totals sends one of each two to its partner and keeps the other (sf_fold_lanes); a row that is
 * missing is neutral. Then each lane has LEFT totals. Their rows differ in the lowest bits of the
 * lane's number, as many as MET is lanes.
 */
template <int K, int COUNT, int B, bool GOES_ON = (B < SF_LANES)> struct sf_fold_rows {
        enum { HALF = (COUNT + 1) / 2 };
        typedef sf_fold_rows<K, HALF, 2 * B> next;
        enum { LEFT = next::LEFT, MET = COUNT > 1 ? 2 * (int)next::MET : (int)next::MET };
        template <int N> SF_DEVICE_MEMBER void run(sf_total<K> (&a)[N], sf_total<K> neutral, int lane)
        {
                if (COUNT == 1)
                        a[0] = sf_meet<K>(a[0], lane, B);
#pragma unroll
                for (int i = 0; COUNT > 1 && i < HALF; i++) {
                        const sf_total<K> even = a[2 * i % N];
                        const sf_total<K> odd = 2 * i + 1 < COUNT ? a[(2 * i + 1) % N] : neutral;
                        const sf_total<K> given = sf_one_of<K>(lane & B, even, odd);
                        const sf_total<K> own = sf_one_of<K>(lane & B, odd, even);
                        a[i] = sf_met<K>(own, sf_held<K>::shuffle(given, lane ^ B), lane, B);
                }
                next::run(a, neutral, lane);
        }
};
template <int K, int COUNT, int B> struct sf_fold_rows<K, COUNT, B, false> {
        enum { LEFT = COUNT, MET = 1 };
        template <int N> SF_DEVICE_MEMBER void run(sf_total<K> (&)[N], sf_total<K>, int) {}
};

/* Folds a line of one warp or less. */
template <int K> SF_DEVICE sf_total<K> sf_fold_in_warp(const sf_params &p, const sf_course &c, sf_total<K> (&a)[SF_ITEMS])
{
        typedef sf_fold_rows<K, SF_ITEMS, 1> rows;
        sf_total<K> total;
        if (sf_is_extreme<K>::YES) {
                total = sf_fold_few<K>(a);
#pragma unroll
                for (int b = 1; b < SF_LANES; b *= 2)
                        total = sf_meet<K>(total, c.lane, b);
                return total;
        }
        rows::run(a, sf_lifted<K>(FIELD(K, neutral)), c.lane);
        sf_total<K> rest[rows::LEFT];
#pragma unroll
        for (int i = 0; i < rows::LEFT; i++) {
                rest[i] = a[i];
#pragma unroll
                for (int b = 1; b < rows::MET; b *= 2)
                        rest[i] = sf_meet<K>(rest[i], c.lane, b);
        }
        return sf_fold_few<K>(rest);
}

/* Folds a line of several warps: each tells the others the totals of its rows, or its own. */
template <int K> SF_DEVICE sf_total<K> sf_fold_in_block(const sf_params &p, const sf_course &c, sf_total<K> (&a)[SF_ITEMS])
{
        enum { ONE = sf_is_extreme<K>::YES, TOLD = ONE ? 1 : SF_ITEMS, ALL = SF_WARPS * SF_ITEMS };
        sf_total<K> *const totals = (sf_total<K> *)(sf_shared() + p.number[0] + sf_folds_before<K>::COUNT * ALL * SLOT);
        sf_total<K> total = a[0];
        if (ONE)
                total = sf_fold_in_warp<K>(p, c, a);
        else {
                sf_fold_rows<K, SF_ITEMS, 1>::run(a, sf_lifted<K>(FIELD(K, neutral)), c.lane);
                total = a[0];
        }
        if (c.lane < TOLD)
                totals[c.warp * TOLD + c.lane] = total;
        sf_sync_block();
        return sf_fold_leaves<K>(p, c.lane, totals, SF_WARPS * TOLD);
}

/* Is all that the warp has inside the line? Only the last warps' code looks at each element. */
SF_DEVICE bool sf_has_whole_rows(const sf_course &c)
{
        return !ENTIRE && SF_WARPS > 1 && (c.warp + 1) * SF_ITEMS * SPREAD <= c.n;
}

template <> struct sf_do<KIND_FOLD> {
        template <int K> SF_DEVICE_MEMBER void step(const sf_params &p, sf_course &c, sf_vectors (&v)[SF_ITEMS])
        {
                enum { KEEPS = KEEPERS >> K & 1 };
                sf_total<K> a[SF_ITEMS];
                sf_hasty hasty = {false};
                sf_renew(c);
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_fetch_item<sf_reads<K>::FRESH>(p, c, i, v[i]);
                if (sf_has_whole_rows(c))
                        sf_fold_vectors<K, true>(p, c, v, a, hasty);
                else
                        sf_fold_vectors<K, ENTIRE>(p, c, v, a, hasty);
                if (KEEPS)
                        c.sure = !hasty.fails;
                if (hasty.fails) {
                        /* What the step reads may have made way for numbers that are kept. */
                        if (KEEPS)
                                sf_take_items<ENTIRE>(p, c, v);
#pragma unroll
                        for (int i = 0; KEEPS && i < SF_ITEMS; i++)
                                sf_fetch_item<(sf_reads<K>::ALL & ~COPIED)>(p, c, i, v[i]);
                        sf_careful careful;
                        sf_fold_vectors<K, ENTIRE>(p, c, v, a, careful);
                }
                sf_made_of<K>(p, c, SF_WARPS > 1 ? sf_fold_in_block<K>(p, c, a) : sf_fold_in_warp<K>(p, c, a));
        }
};

/* ------------------------------------------------------------------------------------------------
 * Maps
 * ---------------------------------------------------------------------------------------------- */
template <> struct sf_do<KIND_MAP> {
        /* WHOLE: all of item i is inside the line. */
        template <int K, bool WHOLE, bool QUICK>
        SF_DEVICE_MEMBER bool item(const sf_params &p, const sf_course &c, unsigned char *line, int i, sf_vectors &v)
        {
                sf_raw<SF_SIZE(sf_recipe<K>::OUT) * SF_WIDTH> r;
                bool fails = false;
                sf_fetch_item<sf_reads<K>::LATE, WHOLE>(p, c, i, v);
                if (QUICK)
                        fails = sf_map_fails<K>(p, c, v, r);
                else
                        sf_map_with_care<K>(p, c, v, r);
                sf_put<K, WHOLE>(p, c, line, i, r);
                return fails;
        }
        template <int K, bool WHOLE, bool QUICK>
        SF_DEVICE_MEMBER bool items(const sf_params &p, const sf_course &c, unsigned char *line, sf_vectors (&v)[SF_ITEMS])
        {
                bool fails = false;
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        if (sf_is_whole<WHOLE>(i))
                                fails |= item<K, true, QUICK>(p, c, line, i, v[i]);
                        else
                                fails |= item<K, false, QUICK>(p, c, line, i, v[i]);
                return fails;
        }

        template <int K> SF_DEVICE_MEMBER void step(const sf_params &p, sf_course &c, sf_vectors (&v)[SF_ITEMS])
        {
                enum { FRESH = sf_reads<K>::FRESH & ~sf_reads<K>::LATE };
                sf_renew(c);
                unsigned char *const place = sf_copies<0>(p, c);
                char *const first = sf_first_of(c, c.y[K], SF_SIZE(sf_recipe<K>::OUT));
                unsigned char *const line = sf_cells(c, place, c.y[K], first, SF_SIZE(sf_recipe<K>::OUT));
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_fetch_item<FRESH>(p, c, i, v[i]);
                /* The whole team has read what was there, or stored it. */
                sf_sync_team();
                bool fails = SURE && !c.sure;
                /* With weights, nvcc 13 for sm_90 has no registers for code of both kinds. */
                if (!fails && !sf_reads<K>::LATE && sf_has_whole_rows(c))
                        fails = items<K, true, true>(p, c, line, v);
                else if (!fails)
                        fails = items<K, ENTIRE, true>(p, c, line, v);
                if (fails)
                        items<K, ENTIRE, false>(p, c, line, v);
                sf_sync_team();
                if (sf_recipe<K>::UNIT)
                        sf_store_lines<K>(c, first, place);
        }
};

/* ------------------------------------------------------------------------------------------------
 * The kernel
 * ---------------------------------------------------------------------------------------------- */

/* Finds the thread's line and its place in it. False: the team has none. */
SF_DEVICE bool sf_find_line(const sf_params &p, sf_course &c)
{
        const int thread = sf_thread();
        c.lane = thread & 31;
        c.warp = thread / 32;
        c.team = c.lane / SF_LANES;
        const sf_i64 team = sf_block() * TEAMS + (TEAMS > 1 ? c.warp : 0);
        const sf_i64 first = team * LINES, left = p.units - first;
        const int lane = c.lane % SF_LANES;
        c.n = (int)p.n;
        c.tiles = left < LINES ? (int)left : (int)LINES;
        c.first = ((SF_WARPS > 1 ? c.warp * SF_ITEMS * SF_LANES : 0) + lane) * SF_WIDTH;
        c.swap = c.lane * SF_WIDTH / BANKS * WORD & SWAPS;
        c.turn = c.team & TURNS;
        c.mine = c.team < c.tiles && lane == 0 && (SF_WARPS == 1 || c.warp == 0);
        /* A lane without a line has the first one's addresses, and cells of its own. */
        c.rank = c.team < c.tiles ? c.team : 0;
        sf_locate_line(p, first + c.rank, c);
        return left > 0;
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        sf_course c;
        sf_vectors kept[SF_ITEMS];
        if (!sf_find_line(p, c))
                return;
#define OPERAND(k, dt, unit, made) \
        if (COPIED >> k & 1)       \
                sf_copy_lines<SF_SIZE(dt)>(c, c.operand[k], sf_copies<k>(p, c));
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        sf_copy_commit();
        sf_load_still(c);
        sf_copy_wait<0>();
        sf_sync_team();
        if (sf_has_whole_rows(c))
                sf_take_items<true>(p, c, kept);
        else
                sf_take_items<ENTIRE>(p, c, kept);
        sf_steps<0>::run(p, c, kept);
}
#undef FIELD
