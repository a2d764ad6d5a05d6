/*
 * tree.cuh: the order (docs/order.md) inside a thread, a warp and a block. tree_take.cuh has what a
 * warp takes from those before it, tree_finish.cuh its results, tree_fold.cuh totals without a scan,
 * tree_totals.cuh the order between the tiles of a block and between blocks, tree_products.cuh what
 * products do otherwise.
 */

/* ------------------------------------------------------------------------------------------------
 * The order within a warp
 *
 * A thread holds SF_ITEMS vectors of SF_WIDTH neighbours. Element j of item i of lane l has the
 * index (i * LANES + l) * SF_WIDTH + j: neighbours are first in a vector, then in lanes, then in
 * items. At each level, every element whose index has that bit set is combined with the total of
 * the sibling block before it, which goes on the left. That total is the last element of the block.
 *
 * COLUMNS > 1 sequences may be interleaved, as the columns of a narrow matrix are. Then the lowest
 * bits of the index are the number of the column and belong to no level, and the totals of a block
 * are its last COLUMNS elements. A thread has SHARE of the columns, and all columns are spread over
 * SPAN lanes: the thread's s-th column is (lane % SPAN) * SHARE + s.
 * ---------------------------------------------------------------------------------------------- */
template <int COLUMNS> struct sf_columns {
        enum { SHARE = COLUMNS < SF_WIDTH ? COLUMNS : SF_WIDTH, SPAN = COLUMNS > SF_WIDTH ? COLUMNS / SF_WIDTH : 1 };
};

/* How many numbers may be multiplied before the product must be settled (value.cuh). Within a
 * vector of one sequence, numbers are lifted to mantissas above and below 1 in turn, so there it is
 * twice as many. */
#define SF_LOOSE (SF_PRODUCTS ? 64 : 1 << 20)
#define SF_LOOSE_VECTORS(columns) (SF_MEMBERS == 1 && (columns) == 1 && SF_WIDTH % 2 == 0 ? 2 * SF_LOOSE : SF_LOOSE)
static_assert(SF_WIDTH <= SF_LOOSE / 2, "a vector's numbers are multiplied unsettled");

/* The logarithm of N, rounded down. */
template <int N> struct sf_log {
        enum { DOWN = 1 + sf_log<N / 2>::DOWN };
};
template <> struct sf_log<1> {
        enum { DOWN = 0 };
};

/* Do exponents have 32 bits (sf_settled)? */
#define SF_LIMITS (SF_PRODUCTS && SF_VALUE_SIZE == 8)

template <int SHARE> SF_DEVICE void sf_settle_all(sf_acc (&v)[SHARE])
{
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                v[s] = sf_settled(v[s]);
}

/* The same for values that are to be combined with others like them, and not with all of a tree: of
 * products those that are far from 1 are settled, which is rare, and all of them then. Totals of
 * another launch may have limited exponents (sf_settled). */
template <int N> SF_DEVICE void sf_settle_far(sf_acc (&v)[N])
{
#if SF_PRODUCTS && SF_MEMBERS == 1 && !(SF_HELD_IN && SF_LIMITS)
        sf_u32 beyond = 0;
#pragma unroll
        for (int i = 0; i < N; i++)
                beyond |= sf_beyond_modest(v[i].mantissa);
        if (!(beyond & SF_BEYOND))
                return;
#endif
        sf_settle_all(v);
}

/*
 * The exponents of products are integers and added exactly, so their sums need no tree. An exponent
 * that all elements of a thread take is not added to each of them:
 *   in a vector, only the last SHARE elements have their full exponent. Every other element stores
 *     by how much its exponent is below that of the last element of its column;
 *   of what the thread takes from other warps and tiles, one sum per column is kept (sf_before).
 * tree_products.cuh gives every element its full exponent.
 */
#define SF_SPARES_EXPONENTS (SF_PRODUCTS && SF_MEMBERS == 1)
/* What a scan leaves for later steps. Only products have something to leave (tree_products.cuh). */
struct sf_parked {
#if SF_UNLIFTED && !SF_LIFTS
        decltype(sf_acc::exponent) exponent[SF_ITEMS][SF_WIDTH];
#if SF_ROLLS
        sf_number number[SF_ITEMS][SF_WIDTH];
#endif
#endif
};

/*
 * If any grouping gives the same bits (integers, max, min), no tree is needed, and totals are not
 * combined with every element at every level:
 *   in a vector, elements are scanned one after another. Only the last SHARE of them include all
 *     that comes before them in the warp; the others include only their own vector;
 *   of what the thread takes from other warps and tiles, one value per column is kept (sf_before);
 *   sf_spread then combines every element once with all that comes before it.
 */
#define SF_OWES (SF_FREE && SF_MEMBERS == 1)

/*
 * Sums of exponentials with the same power, as most have (value.cuh), are combined by adding. This
 * is checked once for all values of a thread. LEVEL: all of them have the same power.
 */
#define SF_LEVELS (SF_EXPONENTIALS && SF_MEMBERS == 1)
#if SF_LEVELS
SF_DEVICE bool sf_is_level(const sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_acc with)
{
        bool level = true;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        level &= v[i][j].first == with.first;
        return level;
}
template <bool LEVEL> SF_DEVICE sf_acc sf_joined(sf_acc a, sf_acc b) { return LEVEL ? sf_holds::combine_level(a, b) : sf_combine(a, b); }
template <bool LEVEL> SF_DEVICE sf_acc sf_sent(sf_acc v, int lane)
{
        if (!LEVEL)
                return sf_shuffle(v, lane);
        v.second = ::sf_shuffle(v.second, lane);
        return v;
}
template <bool LEVEL> SF_DEVICE sf_acc sf_chosen(bool first, sf_acc a, sf_acc b)
{
        if (!LEVEL)
                return sf_choose(first, a, b);
        a.second = first ? a.second : b.second;
        return a;
}
#else
template <bool LEVEL> SF_DEVICE sf_acc sf_joined(sf_acc a, sf_acc b) { return sf_combine(a, b); }
#if SF_PRODUCTS && SF_MEMBERS == 1
/* LEVEL: all exponents are 0. */
template <bool LEVEL> SF_DEVICE sf_acc sf_sent(sf_acc v, int lane)
{
        if (!LEVEL)
                return sf_shuffle(v, lane);
        v.mantissa = ::sf_shuffle(v.mantissa, lane);
        return v;
}
#else
template <bool LEVEL> SF_DEVICE sf_acc sf_sent(sf_acc v, int lane) { return sf_shuffle(v, lane); }
#endif
template <bool LEVEL> SF_DEVICE sf_acc sf_chosen(bool first, sf_acc a, sf_acc b) { return sf_choose(first, a, b); }
#endif

/* Combines each of N values with its own `left`. */
template <int N> SF_DEVICE void sf_join_all(const sf_acc (&left)[N], sf_acc (&v)[N])
{
#if SF_LEVELS
        bool level = true;
#pragma unroll
        for (int i = 0; i < N; i++)
                level &= left[i].first == v[i].first;
        if (level) {
#pragma unroll
                for (int i = 0; i < N; i++)
                        v[i] = sf_joined<true>(left[i], v[i]);
                return;
        }
#endif
#pragma unroll
        for (int i = 0; i < N; i++)
                v[i] = sf_combine(left[i], v[i]);
}

/* Combines v with `left`, but leaves out exponents that are summed separately. */
template <bool LEVEL> SF_DEVICE void sf_take_one(sf_acc left, sf_acc &v)
{
#if SF_SPARES_EXPONENTS
        v.mantissa = sf_multiply_flushed(left.mantissa, v.mantissa);
#else
        v = sf_joined<LEVEL>(left, v);
#endif
}

template <bool LEVEL, int SHARE> SF_DEVICE void sf_take_left(const sf_acc (&left)[SHARE], sf_acc (&v)[SF_WIDTH])
{
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++) {
                sf_take_one<LEVEL>(left[j % SHARE], v[j]);
#if SF_SPARES_EXPONENTS
                if (!LEVEL && j >= SF_WIDTH - SHARE)
                        v[j].exponent += left[j % SHARE].exponent;
#endif
        }
}

/* The value of another of LANES lanes. If LANES is 1 there is no other, and it is v itself. */
template <int LANES, bool LEVEL = false> SF_DEVICE sf_acc sf_of_lane(sf_acc v, int lane) { return LANES > 1 ? sf_sent<LEVEL>(v, lane) : v; }

/* Scans the N rows of a thread, each of SF_WIDTH columns. */
template <bool LEVEL, int N> SF_DEVICE void sf_scan_rows_of(sf_acc (&v)[N][SF_WIDTH])
{
#if SF_OWES
#pragma unroll
        for (int i = 1; i < N; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j] = sf_combine(v[i - 1][j], v[i][j]);
        return;
#endif
#pragma unroll
        for (int b = 1; b < N; b *= 2)
#pragma unroll
                for (int i = 0; i < N; i++)
                        if (i & b)
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        sf_take_one<LEVEL>(v[i < b ? 0 : i / b * b - 1][j], v[i][j]);
}

#if SF_SPARES_EXPONENTS && SF_VALUE_SIZE == 8
/* Adds to the exponents of the vectors' last elements those of the lanes before. Two exponents of
 * 16 bits are added at a time, in one word. */
template <int LANES, int SPAN, int SHARE, int N>
SF_DEVICE void sf_sum_exponents(sf_acc (&v)[N][SF_WIDTH])
{
        enum { FIRST = SF_WIDTH - SHARE, COUNT = N * SHARE };
#pragma unroll
        for (int k = 0; k < COUNT; k += 2) {
                sf_acc none, &low = v[k / SHARE][FIRST + k % SHARE];
                none.exponent = 0;
                sf_acc &next = v[(k + 1) / SHARE % N][FIRST + (k + 1) % SHARE];
                sf_acc &high = k + 1 < COUNT ? next : none;
                int sum = low.exponent + high.exponent * 65536;
#pragma unroll
                for (int b = SPAN; b < LANES; b *= 2)
                        sum = sf_sum_up<LANES>(sum, b);
                low.exponent = (short)sum;
                high.exponent = (sum - low.exponent) >> 16;
        }
}
#endif

#if SF_OWES
template <int LANES, int COLUMNS, bool CHOOSE, class AGAIN> SF_DEVICE bool sf_scan_warp(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc, sf_parked &, AGAIN)
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN, FIRST = SF_WIDTH - SHARE };
        const int last = (lane & -LANES) + LANES - SPAN + (lane & (SPAN - 1));
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = COLUMNS; j < SF_WIDTH; j++)
                        v[i][j] = sf_combine(v[i][(j - COLUMNS) & (SF_WIDTH - 1)], v[i][j]);
#pragma unroll
        for (int b = SPAN; b < LANES; b *= 2) {
                const int from = (lane & -b) - SPAN + (lane & (SPAN - 1));
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                        for (int s = 0; s < SHARE; s++) {
                                const sf_acc left = sf_shuffle(v[i][FIRST + s], from & 31);
                                if (lane & b)
                                        v[i][FIRST + s] = sf_combine(left, v[i][FIRST + s]);
                        }
        }
        /* Between items: all shuffles are issued before any result is used, so that none has to
         * wait for another. */
        sf_acc left[SF_ITEMS][SHARE];
#pragma unroll
        for (int i = 1; i < SF_ITEMS; i++)
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        left[i][s] = sf_of_lane<LANES>(v[i - 1][FIRST + s], last);
#pragma unroll
        for (int i = 1; i < SF_ITEMS; i++)
#pragma unroll
                for (int s = 0; s < SHARE; s++) {
                        if (i > 1)
                                left[i][s] = sf_combine(left[i > 1 ? i - 1 : 1][s], left[i][s]);
                        v[i][FIRST + s] = sf_combine(left[i][s], v[i][FIRST + s]);
                }
        return true;
}
#else
/* CHOOSE: at each level between lanes, a lane that takes nothing is combined with the neutral
 * value. This saves one instruction per element and level, but needs more registers than skipping
 * the combine. It is right only if the neutral value is neutral on the left too. */
template <int LANES, int COLUMNS, bool CHOOSE, bool LEVEL, int N> SF_DEVICE void sf_scan_lanes(sf_acc (&v)[N][SF_WIDTH], int lane, sf_acc neutral)
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN, FIRST = SF_WIDTH - SHARE };
        enum { EXACT = SF_PRODUCTS && LEVEL }; /* nothing is lifted, so nothing is settled */
        sf_acc left[SHARE];
        /* How many numbers an element is the product of (value.cuh). */
        int loose = SF_WIDTH > COLUMNS ? SF_WIDTH / COLUMNS : 1;
        /* If no left total has to be settled between lanes, the exponents are plain sums, in any
         * order. */
        enum { LOOSE = (SF_WIDTH > COLUMNS ? SF_WIDTH / COLUMNS : 1) * LANES / SPAN };
        enum {
                SUMS = SF_SPARES_EXPONENTS && SF_VALUE_SIZE == 8 &&
                       (int)LOOSE <= SF_LOOSE_VECTORS(COLUMNS)
        };
#if SF_SPARES_EXPONENTS && SF_VALUE_SIZE == 8
        if (SUMS && !LEVEL)
                sf_sum_exponents<LANES, SPAN, SHARE>(v);
#endif
#pragma unroll
        for (int b = SPAN; b < LANES; b *= 2) {
                int from = (lane & -b) - SPAN + (lane & (SPAN - 1));
#pragma unroll
                for (int i = 0; i < N; i++) {
#pragma unroll
                        for (int s = 0; s < SHARE; s++) {
#if SF_SPARES_EXPONENTS
                                if (SUMS || LEVEL) {
                                        left[s].mantissa = ::sf_shuffle(v[i][FIRST + s].mantissa,
                                                                        from & 31);
                                        left[s].exponent = 0;
                                        continue;
                                }
#endif
                                left[s] = sf_sent<LEVEL>(v[i][FIRST + s], from & 31);
                        }
                        if (!EXACT && 2 * loose > SF_LOOSE_VECTORS(COLUMNS))
                                sf_settle_all(left);
                        if (CHOOSE)
#pragma unroll
                                for (int s = 0; s < SHARE; s++)
                                        left[s] = sf_choose(lane & b, left[s], neutral);
                        if (CHOOSE || lane & b)
                                sf_take_left<LEVEL>(left, v[i]);
                }
                loose = 2 * loose > SF_LOOSE_VECTORS(COLUMNS) ? loose + 1 : 2 * loose;
        }
        int last = (lane & -LANES) + LANES - SPAN + (lane & (SPAN - 1));
#pragma unroll
        for (int b = 1; b < N; b *= 2)
#pragma unroll
                for (int i = 0; i < N; i++)
                        if (i & b) {
                                if (!(i & (b - 1))) {
#pragma unroll
                                        for (int s = 0; s < SHARE; s++)
                                                left[s] = sf_of_lane<LANES, LEVEL>(v[i ? i - 1 : 0][FIRST + s], last);
                                        if (!EXACT)
                                                sf_settle_all(left);
                                }
                                sf_take_left<LEVEL>(left, v[i]);
                        }
}
#if !SF_UNLIFTED
template <int LANES, int COLUMNS, bool CHOOSE, bool LEVEL> SF_DEVICE void sf_scan_warp_of(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc neutral)
{
#pragma unroll
        for (int b = COLUMNS; b < SF_WIDTH; b *= 2)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                if (j & b)
                                        v[i][j] = sf_joined<LEVEL>(v[i][(j / b * b - COLUMNS + j % COLUMNS) & (SF_WIDTH - 1)], v[i][j]);
        sf_scan_lanes<LANES, COLUMNS, CHOOSE, LEVEL>(v, lane, neutral);
}
/* Scans what the threads of a warp hold. (Of products, tree_products.cuh says what is parked, read
 * again and returned.) */
template <int LANES, int COLUMNS, bool CHOOSE, class AGAIN> SF_DEVICE bool sf_scan_warp(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc neutral, sf_parked &, AGAIN)
{
#if SF_LEVELS
        if (!sf_ballot(!sf_is_level(v, sf_shuffle(v[0][0], 0)))) {
                sf_scan_warp_of<LANES, COLUMNS, CHOOSE, true>(v, lane, neutral);
                return true;
        }
#endif
        sf_scan_warp_of<LANES, COLUMNS, CHOOSE, false>(v, lane, neutral);
        return true;
}
#endif
#endif

#if !SF_UNLIFTED
/* The same for the rows of a thread. */
template <class AGAIN> SF_DEVICE bool sf_scan_rows(sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_parked &, AGAIN)
{
#if SF_LEVELS
        if (sf_is_level(v, v[0][0])) {
                sf_scan_rows_of<true>(v);
                return true;
        }
#endif
        sf_scan_rows_of<false>(v);
        return true;
}
#endif

#include "tree_take.cuh"
#include "tree_finish.cuh"

/* ------------------------------------------------------------------------------------------------
 * The order between warps, and between tiles
 * ---------------------------------------------------------------------------------------------- */

/* Of COUNT neighbouring lanes, number w has the settled total of group w. Returns the total of the
 * largest block of groups that w completes. What group g takes from those before it are, for every
 * bit set in g, the lowest first, the blocks that end before g without the bits below. */
template <int COUNT> SF_DEVICE sf_acc sf_largest(sf_acc total, int w, int lane)
{
#pragma unroll
        for (int b = 1; b < COUNT; b *= 2) {
                const sf_acc left = sf_shuffle(total, (lane - b) & 31);
                if ((w & (2 * b - 1)) == 2 * b - 1)
                        total = sf_settled(sf_combine(left, total));
        }
        return total;
}

/* A binary counter of finished block totals (order.h). Lane k keeps entry k. */
struct sf_counter {
        sf_acc entry;
};

/* Adds the total of tile t to the counter: it is combined with the entries of all blocks that tile
 * t completes, as a binary counter carries. */
SF_DEVICE void sf_count(sf_counter &c, sf_i64 t, sf_acc total, int lane)
{
        int k = 0;
        for (; t >> k & 1; k++) {
#if SF_LEVELS
                const sf_acc left = sf_shuffle(c.entry, k);
                total = left.first == total.first ? sf_joined<true>(left, total) : sf_combine(left, total);
#else
                total = sf_combine(sf_shuffle(c.entry, k), total);
#endif
        }
        if (lane == k)
                c.entry = sf_settled(total);
}

/* The fold of the first `tiles` tiles, tiles > 0. */
SF_DEVICE sf_acc sf_counted(const sf_counter &c, sf_i64 tiles)
{
        int k = 0;
        while (!(tiles >> k & 1))
                k++;
        sf_acc total = sf_shuffle(c.entry, k);
        for (k++; tiles >> k; k++) {
                sf_acc left = sf_shuffle(c.entry, k & 31);
                if (tiles >> k & 1)
                        total = sf_combine(left, total);
        }
        return total;
}

/* Folds the totals of COUNT groups, `pitch` elements apart, of SHARE neighbouring sequences each.
 * The totals are settled; the result is not. FAR: their exponents may be limited (sf_settled). */
template <int COUNT, int SHARE, bool FAR = false> struct sf_groups {
        SF_DEVICE_MEMBER void fold(const sf_acc *totals, int pitch, sf_acc (&sum)[SHARE])
        {
                sf_acc left[SHARE];
                static_assert(COUNT <= 64, "eight products of eight settled totals fit");
                sf_groups<COUNT / 2, SHARE, FAR>::fold(totals, pitch, left);
                sf_groups<COUNT / 2, SHARE, FAR>::fold(totals + COUNT / 2 * pitch, pitch, sum);
                sf_join_all(left, sum);
                if (SF_LIMITS && FAR && COUNT == 8)
                        sf_settle_all(sum);
        }
};
template <int SHARE, bool FAR> struct sf_groups<1, SHARE, FAR> {
        SF_DEVICE_MEMBER void fold(const sf_acc *totals, int pitch, sf_acc (&sum)[SHARE])
        {
                (void)pitch;
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        sum[s] = totals[s];
        }
};

/* Combines the elements of group g with the totals of the groups before it: for every bit set in g,
 * the lowest first, the total of a block of that many groups. */
template <int BIT, int SHARE> struct sf_levels {
        SF_DEVICE_MEMBER void take(const sf_acc *totals, int pitch, int group, sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_before<SHARE> &before)
        {
                sf_levels<BIT / 2, SHARE>::take(totals, pitch, group, v, before);
                if (group & BIT) {
                        sf_acc left[SHARE];
                        sf_groups<BIT, SHARE>::fold(totals + ((group & -BIT) - BIT) * pitch, pitch, left);
                        if (BIT > 4)
                                sf_settle_all(left);
                        sf_take_all(left, v, before);
                }
        }
};
template <int SHARE> struct sf_levels<0, SHARE> {
        SF_DEVICE_MEMBER void take(const sf_acc *, int, int, sf_acc (&)[SF_ITEMS][SF_WIDTH], sf_before<SHARE> &) {}
};

#include "tree_fold.cuh"
#include "tree_totals.cuh"
