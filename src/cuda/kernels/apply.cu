/*
 * apply.cu: a chain (core/step.h): folds of a line whose results go back to the line's elements, as
 * in a softmax or a norm, all in one launch.
 *
 * A line is cut into tiles, a tile into one leaf for each warp, a leaf into SF_ITEMS vectors for
 * each lane. Neighbours are first in a vector, then in lanes, vectors, warps and tiles. So a leaf
 * is an aligned part of the line, and its total is a node of the tree that the order prescribes
 * (docs/order.md). SF_WARPS warps work on a line. A block has SF_THREADS / 32 / SF_WARPS lines at
 * once; or SF_CLUSTER blocks share a line, and each has every SF_CLUSTER-th tile; or, if SF_SINGLE is
 * 0, a team of as many blocks as there are tiles (apply_teams.cuh), whose tiles are powers of two.
 *
 * Each warp folds its leaves. The leaves' totals go to the shared memory of every block of the
 * line, and every warp folds them all, SF_PER a lane. So all threads have the result after one
 * barrier. Elements past the end of the line count as the operation's neutral value.
 *
 * What several steps read from memory is loaded once. SF_KEEP says where it stays:
 *   1  a block has one tile of the line, in registers
 *   2  the block's first number[1] tiles are in shared memory, where each thread reads what it
 *      wrote itself. The others are read again, hopefully from the second-level cache
 *   3  as 1, but each thread copies what folds read (SF_COPIES) to shared memory first. All copies
 *      are in flight at once; the compiler would interleave loads and arithmetic
 *   4  as 3, and a block has several lines, one after another. The copy of the next line begins as
 *      soon as this one is in registers, so memory is busy while the block computes
 *
 * SF_SHIFT_IN: lines may begin at any address. Lanes copy neighbouring elements to shared memory,
 * where they are read as vectors; results take the opposite way. Elements smaller than a word
 * cannot be copied asynchronously one by one. They are copied as aligned vectors, and each vector
 * is cut out of two of those.
 *
 * SF_STEPS(F) lists the steps: F(number, op, accumulator, dtype of the result, whether there is an
 * initial value, how, operands that the load reads, operands that the store reads). `how` is the
 * kind (0 a fold, 1 a map, 2 a map of one element), plus 4 if no other launch reads the result, 8
 * if results are stored as vectors, and 16 times the mask's operand, counted from 1.
 *
 * SF_OPERAND_LIST(F) lists what they read: F(number, dtype, unit, the step that made it or -1).
 * Unit 1: vectors, 0: any stride, 2: one element for the whole line. If a step made it, unit 1
 * means the numbers that the step folded, which a later step takes from registers instead of
 * computing them again.
 *
 * SF_PARTIAL: some leaves are not whole, or are past the end of a line or of the lines.
 *
 * units: lines. number[0]: tiles of a line. number[2]: from one of a block's lines to its next.
 */
#define SF_SURES 1
#include "apply_steps.cuh"
#include "apply_rows.cuh"

enum {
        LINES = SF_THREADS / 32 / SF_WARPS,
        SPREAD = 32 * SF_WIDTH,    /* from one of a lane's vectors to the next */
        LEAF = SPREAD * SF_ITEMS,
        ONE_TILE = SF_KEEP != 2,
        TEAM = !SF_SINGLE,
        SHARED = SF_CLUSTER > 1 || TEAM, /* by several blocks, with a tile each */
        /* Lines whose leaves' totals are in shared memory: a warp may be one line ahead of
         * another. */
        TURNS = LOOPS ? 2 : 1,
        ALONE = SF_WARPS == 1 && ONE_TILE && !SHARED, /* a line is one leaf */
        /* How many items before it is needed an item is loaded of what only a map reads. */
        AHEAD = LOOPS || STEPS == 2,
        /* Every line ends with a leaf, and every block has lines. */
        ENTIRE = !SF_PARTIAL && !SF_RAGGED,
};

#include "apply_line.cuh"
#include "apply_folds.cuh"
#include "apply_teams.cuh"

/* ------------------------------------------------------------------------------------------------
 * Steps
 * ---------------------------------------------------------------------------------------------- */

/* The first line of the block, in its first round. */
SF_DEVICE sf_i64 sf_first_line(const sf_course &c)
{
        return TEAM ? (sf_u32) * (const sf_u64 *)sf_shared() / (sf_u32)c.tiles : sf_block() / SF_CLUSTER * LINES;
}

/* sf_line_of: the line that the thread's warps work on in a round. It is computed again wherever it
 * is needed, for the same reason. sf_goes_on: does the block have another line? */
SF_DEVICE sf_i64 sf_line_of(const sf_params &p, const sf_course &c, int round)
{
        return sf_first_line(c) + c.team + (LOOPS ? sf_anew(round) * p.number[2] : 0);
}
SF_DEVICE bool sf_goes_on(const sf_params &p, const sf_course &c)
{
        return LOOPS && sf_first_line(c) + sf_anew(c.round + 1) * p.number[2] < p.units;
}

/* Folds the totals of all leaves of a line that a team of blocks shares; `total` is that of the warp's
 * own leaf. The first warp of each block tells the others what the block has. */
template <int K> SF_DEVICE sf_total<K> sf_fold_by_team(const sf_params &p, const sf_course &c, sf_total<K> total)
{
        sf_total<K> *leaf = (sf_total<K> *)(sf_shared() + sf_apply_leaves(2)), *result = leaf + SF_WARPS;
        if (c.lane == 0)
                leaf[c.warp] = total;
        sf_sync_block();
        if (c.warp == 0) {
                const sf_u32 mark = sf_mark(*(const sf_u64 *)sf_shared());
                sf_u64 *words = sf_team_words(p, sf_line_of(p, c, c.round) * sf_folds_before<STEPS>::COUNT + sf_folds_before<K>::COUNT, c.tiles);
                total = leaf[c.lane % SF_WARPS];
#pragma unroll
                for (int b = 1; b < SF_WARPS; b *= 2)
                        total = sf_meet<K>(total, c.lane, b);
                if (c.lane == 0)
                        sf_tell_team(words, c.tiles, c.rank, total, mark);
                total = sf_ask_team<K>(p, words, c.tiles, c.lane, mark);
                if (c.lane == 0)
                        *result = total;
        }
        sf_sync_block();
        return *result;
}

/* Where the totals of a line's leaves of step K are in shared memory; in a cluster, the desk that
 * says when they are there. */
template <int K> SF_DEVICE sf_total<K> *sf_leaves_of(const sf_course &c)
{
        const int turn = c.round % TURNS * STEPS + K;
        const int at = (turn * LINES + c.team) * SF_WARPS * c.tiles * SLOT;
        return (sf_total<K> *)(sf_shared() + sf_apply_leaves(SF_CLUSTER) + at);
}
template <int K> SF_DEVICE sf_u64 *sf_desk_of(const sf_course &c)
{
        return (sf_u64 *)sf_shared() + c.round % TURNS * STEPS + K;
}

/* A fold in two halves, before and after the block waits. If the next step is a fold, too, and does
 * not need this one's result, its first half comes before: both wait once. */
template <> struct sf_do<KIND_FOLD> {
        template <int K> struct together {
                enum {
                        NEXT = K + 1 < STEPS ? K + 1 : K,
                        FOLDS = (int)sf_recipe<K>::KIND == KIND_FOLD &&
                                (int)sf_recipe<NEXT>::KIND == KIND_FOLD,
                        YES = NEXT > K && FOLDS && !ALONE && !TEAM && !sf_follows<NEXT>::YES
                };
        };

        template <int K>
        SF_DEVICE_MEMBER void begin(const sf_params &p, sf_course &c, sf_vectors (&kept)[SF_ITEMS])
        {
                enum { SIZE = sizeof(sf_total<K>) };
                if (SF_CLUSTER > 1 && sf_thread() == 0)
                        sf_desk_expect(sf_desk_of<K>(c), SF_WARPS * c.tiles * SIZE);
                int t = sf_tiles_begin(c);
                do {
                        sf_fetch_all<K>(p, c, t, kept);
                        sf_total<K> *leaf = sf_leaves_of<K>(c) + t * SF_WARPS + c.warp;
                        sf_hand_out(c, sf_desk_of<K>(c), leaf, sf_fold_leaf<K>(p, c, t, kept));
                } while (sf_next_tile(c, t));
        }

        template <int K> SF_DEVICE_MEMBER void step(const sf_params &p, sf_course &c, sf_vectors (&kept)[SF_ITEMS])
        {
                sf_total<K> total;
                if (ALONE) {
                        sf_fetch_all<K>(p, c, 0, kept);
                        total = sf_fold_leaf<K>(p, c, 0, kept);
                } else if (TEAM) {
                        sf_fetch_all<K>(p, c, c.rank, kept);
                        total = sf_fold_by_team<K>(p, c, sf_fold_leaf<K>(p, c, c.rank, kept));
                } else {
                        const bool begun = K && together<(K ? K - 1 : 0)>::YES;
                        if (!begun)
                                begin<K>(p, c, kept);
                        if (together<K>::YES)
                                begin<together<K>::NEXT>(p, c, kept);
                        if (SF_CLUSTER > 1)
                                sf_desk_wait(sf_desk_of<K>(c), c.round / TURNS);
                        else if (!begun || together<K>::YES)
                                sf_sync_block();
                        total = sf_fold_leaves<K>(p, c.lane, sf_leaves_of<K>(c),
                                SF_WARPS * c.tiles);
                }
                sf_made_of<K>(p, c, total);
        }
};

/* Stores the elements of r that are at `from` or past it and before `to`, one by one. r begins with
 * element `first`. */
template <int SIZE, int BYTES> SF_DEVICE void sf_store_some(char *y, sf_i64 stride, int first, int from, int to, const sf_raw<BYTES> &r)
{
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                if (first + j >= from && first + j < to)
                        sf_store(y + (sf_i64)(first + j) * stride,
                                 sf_one_slot<SIZE>(sf_slot<SIZE>(r, j)));
}

/* SF_SHIFT_IN: stores the warp's vectors r as aligned ones. Each has the end of one vector and the
 * beginning of the next (sf_move_up). The next is r, item i. The aligned one of item 0 goes to `at`.
 * The leaf begins with element `leaf`; inner: all of these vectors are inside it and the line. */
template <int SIZE, int BYTES>
SF_DEVICE void sf_store_shifted(const sf_course &c, char *y, char *at, int leaf, int i,
        bool inner, const sf_raw<BYTES> &last, const sf_raw<BYTES> &r)
{
        const int past = (int)((sf_u64)y & (BYTES - 1)),
                index = leaf + c.lane * SF_WIDTH + i * SPREAD, first = index - past / SIZE;
        const sf_raw<BYTES> mixed = sf_moved_up<SIZE>(c, last, r, past);
        if (inner)
                sf_store(at + i * SPREAD * SIZE, mixed);
        else if (first >= leaf && first + SF_WIDTH <= c.n && index < leaf + LEAF)
                sf_store(at + i * SPREAD * SIZE, mixed);
        else if (c.lane == 0 || first + SF_WIDTH > c.n)
                sf_store_some<SIZE>(y, SIZE, first, leaf, c.n < leaf + LEAF ? c.n : leaf + LEAF, mixed);
}

template <> struct sf_do<KIND_MAP> {
        /* The results of item i of tile t. Returns whether they must be computed with care. */
        template <int K, bool QUICK, int BYTES>
        SF_DEVICE_MEMBER bool item(const sf_params &p, const sf_course &c, const sf_places &late,
                int i, sf_vectors (&kept)[SF_ITEMS], sf_raw<BYTES> &r)
        {
#pragma unroll
                for (int q = i ? i + AHEAD : 0; q < SF_ITEMS && q <= i + AHEAD; q++)
                        sf_fetch_item<sf_reads<K>::LATE>(p, late, q, kept[q % SF_ITEMS]);
                /* elsewhere it saves no registers, as nvcc 13 reports for sm_90 */
                if (CROWDED || (SF_SHIFT_IN && STEPS == 2))
                        sf_take_in_turn(kept[i]);
                if (QUICK)
                        return sf_map_fails<K>(p, c, kept[i], r);
                sf_map_with_care<K>(p, c, kept[i], r);
                return false;
        }
        template <int K, int BYTES>
        SF_DEVICE_MEMBER void item(const sf_params &p, const sf_course &c, const sf_places &late,
                int i, sf_vectors (&kept)[SF_ITEMS], sf_raw<BYTES> &r)
        {
                if ((SURE && !c.sure) || item<K, true>(p, c, late, i, kept, r))
                        sf_map_with_care<K>(p, c, kept[i], r);
        }

        /* Stores all results of tile t. Returns whether some of them must be computed with care. */
        template <int K, bool QUICK>
        SF_DEVICE_MEMBER bool items(const sf_params &p, const sf_course &c, const sf_places &late, int t, sf_vectors (&kept)[SF_ITEMS])
        {
                enum { SIZE = SF_SIZE(sf_recipe<K>::OUT), BYTES = SIZE * SF_WIDTH };
                const sf_i64 along = sf_recipe<K>::UNIT ? SIZE : FIELD(K, sy);
                const int first = sf_first_of(c, t), left = c.n - first;
                char *at = sf_anew(c.y[K] + first * along);
                bool fails = false;
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        sf_raw<BYTES> r;
                        fails |= item<K, QUICK>(p, c, late, i, kept, r);
                        if (sf_recipe<K>::UNIT && sf_is_inside(left, i))
                                sf_store(at + i * SPREAD * SIZE, r);
                        else if (!sf_recipe<K>::UNIT || SF_RAGGED)
                                sf_store_some<SIZE>(at, along, i * SPREAD, 0, left, r);
                }
                return fails;
        }

        template <int K>
        SF_DEVICE_MEMBER void shifted(const sf_params &p, const sf_course &c,
                const sf_places &late, int t, sf_vectors (&kept)[SF_ITEMS])
        {
                enum { SIZE = SF_SIZE(sf_recipe<K>::OUT), BYTES = SIZE * SF_WIDTH };
                const int leaf = (t * SF_WARPS + c.warp) * LEAF;
                char *at = c.y[K] + (sf_i64)(leaf + c.lane * SF_WIDTH) * SIZE;
                at = sf_anew((char *)((sf_u64)at & ~(sf_u64)(BYTES - 1)));
                sf_raw<BYTES> r, last;
                for (int w = 0; w < (int)(sizeof r.w / 4); w++)
                        last.w[w] = 0;
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        item<K>(p, c, late, i, kept, r);
                        sf_in_turn(r);
                        sf_store_shifted<SIZE>(c, c.y[K], at, leaf, i, i && leaf + LEAF <= c.n,
                                last, r);
                        last = r;
                }
                /* the end of the leaf */
                sf_store_shifted<SIZE>(c, c.y[K], at, leaf, SF_ITEMS, false, last, r);
        }

        template <int K> SF_DEVICE_MEMBER void step(const sf_params &p, sf_course &c, sf_vectors (&kept)[SF_ITEMS])
        {
                int t = sf_tiles_begin(c);
                do {
                        sf_places late;
                        sf_find_places<sf_reads<K>::LATE>(p, c, t, late);
                        sf_fetch_all<K>(p, c, t, kept);
                        if (sf_recipe<K>::UNIT && SF_SHIFT_IN) {
                                shifted<K>(p, c, late, t, kept);
                                continue;
                        }
                        if ((SURE && !c.sure) || items<K, true>(p, c, late, t, kept))
                                items<K, false>(p, c, late, t, kept);
                } while (sf_next_tile(c, t));
        }
};

/* Computes where line number `line` begins in every operand and result. A line past the last has no
 * elements. */
SF_DEVICE void sf_locate(const sf_params &p, sf_i64 line, sf_course &c)
{
        const bool works = (LOOPS && LINES == 1) || line < p.units;
        c.n = works ? (int)p.n : 0;
        c.mine = works && c.lane == 0 && c.warp == 0 && c.rank == 0;
        sf_locate_line(p, works ? line : 0, c);
}

/* Computes the lane, the warp and the line of this thread. This is done again for every line:
 * otherwise the compiler would compute what depends on it once and keep it in registers that the
 * line needs. */
SF_DEVICE void sf_find_place(const sf_params &p, sf_course &c)
{
        const int thread = LOOPS ? sf_anew(sf_thread()) : sf_thread();
        c.lane = thread & 31;
        c.warp = SF_WARPS == 1 ? 0 : LINES == 1 ? thread / 32 : thread / 32 % SF_WARPS;
        /* If LINES is 1 the quotient is 0, but with LOOPS the compiler cannot see that. */
        c.team = LINES == 1 && LOOPS ? 0 : thread / 32 / SF_WARPS;
        c.tiles = (int)p.number[0];
        c.kept = (int)p.number[1];
        c.rank = TEAM ? (int)((sf_u32) * (const sf_u64 *)sf_shared() % (sf_u32)c.tiles) : (int)(sf_block() % SF_CLUSTER);
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        sf_course c;
        sf_vectors kept[SF_ITEMS];
        if (TEAM)
                sf_join_team(p, (sf_u64 *)sf_shared());
        sf_find_place(p, c);
        if (SF_CLUSTER > 1) {
                if (sf_thread() < TURNS * STEPS)
                        sf_desk_open((sf_u64 *)sf_shared() + sf_thread());
                /* Other blocks may write to this block's shared memory only after this; see
                 * sf_cluster_wait below. */
                sf_cluster_arrive();
        }
        sf_locate(p, sf_line_of(p, c, 0), c);
        if (STAGED)
                sf_stage(c);
        if (SF_CLUSTER > 1)
                sf_cluster_wait();
        for (c.round = 0;; c.round++) {
                sf_load_still(c);
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
