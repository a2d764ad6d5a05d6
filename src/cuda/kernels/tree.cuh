/*
 * tree.cuh: the order (docs/order.md) inside a thread, a warp and a block.
 */

/* ------------------------------------------------------------------------------------------------------------
 * The order within a warp
 *
 * A thread holds SF_ITEMS vectors of SF_WIDTH neighbours. Element j of item i of lane l has the index
 * (i * LANES + l) * SF_WIDTH + j: neighbours in a vector, then lanes, then items. At each level every element whose
 * index has that bit set takes, on its left, the total of the sibling block before it, which is the last element there.
 *
 * COLUMNS > 1 sequences may lie interleaved, as the columns of a narrow matrix do: then the lowest bits of the index
 * number the column and are no levels, and a block's total is its last COLUMNS elements. A thread meets SHARE of the
 * columns, and they are spread over SPAN lanes; column (lane % SPAN) * SHARE + s is its s-th.
 * ---------------------------------------------------------------------------------------------------------- */
template <int COLUMNS> struct sf_columns {
        enum { SHARE = COLUMNS < SF_WIDTH ? COLUMNS : SF_WIDTH, SPAN = COLUMNS > SF_WIDTH ? COLUMNS / SF_WIDTH : 1 };
};

/* So many numbers may be multiplied before the product is settled; of vectors of one sequence, lifted in turn, twice as many (value.cuh). */
#define SF_LOOSE (SF_PRODUCTS ? 64 : 1 << 20)
#define SF_LOOSE_VECTORS(columns) (SF_MEMBERS == 1 && (columns) == 1 && SF_WIDTH % 2 == 0 ? 2 * SF_LOOSE : SF_LOOSE)
static_assert(SF_WIDTH <= SF_LOOSE / 2, "a vector's numbers are multiplied unsettled");

template <int SHARE> SF_DEVICE void sf_settle_all(sf_acc (&v)[SHARE])
{
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                v[s] = sf_settled(v[s]);
}

/*
 * The exponents of products are exact, so their sums need no tree, and what all elements of a
 * thread take need not be added to each:
 *   of a vector, the last SHARE elements have their own, the others say by how much they are below
 *   the last one's of their column;
 *   of what the thread takes from other warps and tiles, one sum a column is owed to all (sf_before).
 * sf_spread gives every element its own.
 */
#define SF_SPARES_EXPONENTS (SF_PRODUCTS && SF_MEMBERS == 1)
/* Exponents of 32 bits are held, and sent to other lanes, two and two: that of a product of 128
 * numbers is less than 2^15. */
#define SF_PAIRS(columns) (SF_SPARES_EXPONENTS && (columns) == 1 && SF_VALUE_SIZE == 8)

/*
 * Where any grouping gives the same bits (integers, max, min) there need be no tree, and nothing is combined with every element at
 * every level:
 *   of a vector, elements are scanned one after another, by themselves, but for the last SHARE, which stand for all before them in the warp;
 *   of what the thread takes from other warps and tiles, one value a column is kept (sf_before);
 *   sf_spread gives every element what stands before it, at once.
 */
#define SF_OWES (SF_FREE && SF_MEMBERS == 1)

/*
 * Sums of exponentials that have one power, as most have (value.cuh), are combined by adding them. That is asked once for all that a thread has:
 * LEVEL says that they are such.
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
template <bool LEVEL> SF_DEVICE sf_acc sf_sent(sf_acc v, int lane) { return sf_shuffle(v, lane); }
template <bool LEVEL> SF_DEVICE sf_acc sf_chosen(bool first, sf_acc a, sf_acc b) { return sf_choose(first, a, b); }
#endif

/* `left` onto N values, one each. */
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

/* `left` onto v, but for exponents. */
template <bool LEVEL> SF_DEVICE void sf_take_one(sf_acc left, sf_acc &v)
{
#if SF_SPARES_EXPONENTS
        v.mantissa = sf_multiply(left.mantissa, v.mantissa);
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
                if (j >= SF_WIDTH - SHARE)
                        v[j].exponent += left[j % SHARE].exponent;
#endif
        }
}

#if SF_SPARES_EXPONENTS
/* The order in a vector, and its exponents as said. */
template <int COLUMNS> SF_DEVICE void sf_join_vector(sf_acc (&v)[SF_WIDTH])
{
#pragma unroll
        for (int s = 0; s < COLUMNS && COLUMNS < SF_WIDTH; s++) {
                decltype(v[0].exponent) after = 0;
#pragma unroll
                for (int j = SF_WIDTH - COLUMNS + s; j >= 0; j -= COLUMNS) {
                        auto own = v[j].exponent;
                        v[j].exponent = after;
                        after += own;
                }
                v[SF_WIDTH - COLUMNS + s].exponent = after;
        }
        if (SF_PAIRS(COLUMNS))
#pragma unroll
                for (int j = 0; j + 2 < SF_WIDTH; j += 2)
                        v[j].exponent = sf_pair((int)v[j].exponent, (int)v[j + 1].exponent);
#pragma unroll
        for (int b = COLUMNS; b < SF_WIDTH; b *= 2)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (j & b)
                                v[j].mantissa = sf_multiply(v[(j / b * b - COLUMNS + j % COLUMNS) & (SF_WIDTH - 1)].mantissa, v[j].mantissa);
}
#endif

/* What another of LANES lanes has; of one there is no other. */
template <int LANES, bool LEVEL = false> SF_DEVICE sf_acc sf_of_lane(sf_acc v, int lane) { return LANES > 1 ? sf_sent<LEVEL>(v, lane) : v; }

/* The rows of a thread, each of SF_WIDTH columns. */
template <bool LEVEL> SF_DEVICE void sf_scan_rows_of(sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
#if SF_OWES
#pragma unroll
        for (int i = 1; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j] = sf_combine(v[i - 1][j], v[i][j]);
        return;
#endif
#if SF_SPARES_EXPONENTS
#pragma unroll
        for (int i = 1; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j].exponent += v[i - 1][j].exponent;
#endif
#pragma unroll
        for (int b = 1; b < SF_ITEMS; b *= 2)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        if (i & b)
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        sf_take_one<LEVEL>(v[i < b ? 0 : i / b * b - 1][j], v[i][j]);
}
SF_DEVICE void sf_scan_rows(sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
#if SF_LEVELS
        if (sf_is_level(v, v[0][0]))
                return sf_scan_rows_of<true>(v);
#endif
        sf_scan_rows_of<false>(v);
}

#if SF_SPARES_EXPONENTS && SF_VALUE_SIZE == 8
/* The exponents of vectors' last elements: each becomes the sum of its own and those of the lanes
 * before. */
template <int LANES, int SPAN, int SHARE>
SF_DEVICE void sf_sum_exponents(sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        enum { FIRST = SF_WIDTH - SHARE, COUNT = SF_ITEMS * SHARE };
#pragma unroll
        for (int k = 0; k < COUNT; k += 2) {
                sf_acc none, &low = v[k / SHARE][FIRST + k % SHARE];
                none.exponent = 0;
                sf_acc &next = v[(k + 1) / SHARE % SF_ITEMS][FIRST + (k + 1) % SHARE];
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
template <int LANES, int COLUMNS, bool CHOOSE> SF_DEVICE void sf_scan_warp(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc)
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
        /* Items: all are asked for at once, so that no answer waits for another. */
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
}
#else
/* CHOOSE: between lanes, what is taken is chosen, the neutral value where there is nothing: fewer instructions, by one an element and
 * level, but more registers than leaving the sums undone. Only where the neutral value is neutral on the left too. */
template <int LANES, int COLUMNS, bool CHOOSE, bool LEVEL> SF_DEVICE void sf_scan_warp_of(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc neutral)
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN, FIRST = SF_WIDTH - SHARE };
        sf_acc left[SHARE];
        int loose = SF_WIDTH > COLUMNS ? SF_WIDTH / COLUMNS : 1; /* numbers in an element (value.cuh) */
        /* Where no left total is settled between lanes, the exponents are sums, in whatever order. */
        enum { LOOSE = (SF_WIDTH > COLUMNS ? SF_WIDTH / COLUMNS : 1) * LANES / SPAN };
        enum {
                SUMS = SF_SPARES_EXPONENTS && SF_VALUE_SIZE == 8 &&
                       (int)LOOSE <= SF_LOOSE_VECTORS(COLUMNS)
        };
#if SF_SPARES_EXPONENTS
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_join_vector<COLUMNS>(v[i]);
#if SF_VALUE_SIZE == 8
        if (SUMS)
                sf_sum_exponents<LANES, SPAN, SHARE>(v);
#endif
#else
#pragma unroll
        for (int b = COLUMNS; b < SF_WIDTH; b *= 2)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                if (j & b)
                                        v[i][j] = sf_joined<LEVEL>(v[i][(j / b * b - COLUMNS + j % COLUMNS) & (SF_WIDTH - 1)], v[i][j]);
#endif
#pragma unroll
        for (int b = SPAN; b < LANES; b *= 2) {
                int from = (lane & -b) - SPAN + (lane & (SPAN - 1));
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
#pragma unroll
                        for (int s = 0; s < SHARE; s++) {
#if SF_SPARES_EXPONENTS
                                if (SUMS) {
                                        left[s].mantissa = ::sf_shuffle(v[i][FIRST + s].mantissa,
                                                                        from & 31);
                                        left[s].exponent = 0;
                                        continue;
                                }
#endif
                                left[s] = sf_sent<LEVEL>(v[i][FIRST + s], from & 31);
                        }
                        if (2 * loose > SF_LOOSE_VECTORS(COLUMNS))
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
        for (int b = 1; b < SF_ITEMS; b *= 2)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        if (i & b) {
                                if (!(i & (b - 1))) {
#pragma unroll
                                        for (int s = 0; s < SHARE; s++)
                                                left[s] = sf_of_lane<LANES, LEVEL>(v[i ? i - 1 : 0][FIRST + s], last);
                                        sf_settle_all(left);
                                }
                                sf_take_left<LEVEL>(left, v[i]);
                        }
}
template <int LANES, int COLUMNS, bool CHOOSE> SF_DEVICE void sf_scan_warp(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc neutral)
{
#if SF_LEVELS
        if (!sf_ballot(!sf_is_level(v, sf_shuffle(v[0][0], 0))))
                return sf_scan_warp_of<LANES, COLUMNS, CHOOSE, true>(v, lane, neutral);
#endif
        sf_scan_warp_of<LANES, COLUMNS, CHOOSE, false>(v, lane, neutral);
}
#endif

/* What stands before a warp's first elements: the totals it took, lowest level first, each on the left of those before. */
template <int SHARE> struct sf_before {
        sf_acc e[SHARE];
        bool any;
#if SF_SPARES_EXPONENTS
        decltype(sf_acc::exponent) owed[SHARE];
#endif
};

template <int SHARE> SF_DEVICE sf_before<SHARE> sf_none_before()
{
        sf_before<SHARE> before;
        before.any = false;
#if SF_SPARES_EXPONENTS
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                before.owed[s] = 0;
#endif
        return before;
}

/* The last elements of a vector get what they are owed. */
template <int SHARE> SF_DEVICE void sf_pay(const sf_before<SHARE> &before, sf_acc (&last)[SHARE])
{
#if SF_SPARES_EXPONENTS
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                last[s].exponent += before.owed[s];
#elif SF_OWES
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                if (before.any)
                        last[s] = sf_combine(before.e[s], last[s]);
#else
        (void)before, (void)last;
#endif
}

#if SF_OWES
/* Of the rows of a thread. */
template <int SHARE> SF_DEVICE void sf_spread_rows(sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_before<SHARE> &before)
{
        if (before.any)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                v[i][j] = sf_combine(before.e[j % SHARE], v[i][j]);
}

/* After sf_scan_warp. The last elements of a lane are what stands before those of the next; of the last lane, before the next item's. */
template <int LANES, int COLUMNS>
SF_DEVICE void sf_spread(sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_before<sf_columns<COLUMNS>::SHARE> &before, int lane, sf_acc neutral)
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, FIRST = SF_WIDTH - SHARE };
        if (SHARE == SF_WIDTH) /* all are last elements */
                return sf_spread_rows(v, before);
        const int place = lane & (LANES - 1);
        sf_acc owed[SHARE];
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                owed[s] = before.any ? before.e[s] : neutral;
#pragma unroll
        for (int i = SF_ITEMS - 1; i >= 0; i--)
#pragma unroll
                for (int s = 0; s < SHARE; s++) {
                        /* The last lane is sent round to the first: there it has what stands in the item before. */
                        sf_acc send = v[i][FIRST + s], left;
                        if (i)
                                send = sf_choose(place == LANES - 1, v[i ? i - 1 : 0][FIRST + s], send);
                        left = sf_combine(owed[s], sf_of_lane<LANES>(send, (lane & -LANES) | ((lane - 1) & (LANES - 1))));
                        left = sf_choose(i == 0 && place == 0, owed[s], left);
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                if (j % SHARE == s)
                                        v[i][j] = sf_combine(j < FIRST ? left : owed[s], v[i][j]);
                }
}
#else
template <int SHARE> SF_DEVICE void sf_spread_rows(sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_before<SHARE> &before)
{
#if SF_SPARES_EXPONENTS
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        v[i][SF_WIDTH - SHARE + s].exponent += before.owed[s];
                if (SF_PAIRS(SHARE))
#pragma unroll
                        for (int j = 0; j + 2 < SF_WIDTH; j += 2) {
                                v[i][j + 1].exponent = v[i][j].exponent >> 16;
                                v[i][j].exponent = (short)v[i][j].exponent;
                        }
#pragma unroll
                for (int j = 0; j < SF_WIDTH - SHARE; j++)
                        v[i][j].exponent = v[i][SF_WIDTH - SHARE + j % SHARE].exponent - v[i][j].exponent;
        }
#else
        (void)v, (void)before;
#endif
}
template <int LANES, int COLUMNS>
SF_DEVICE void sf_spread(sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_before<sf_columns<COLUMNS>::SHARE> &before, int, sf_acc)
{
        sf_spread_rows(v, before);
}
#endif

template <int SHARE> SF_DEVICE void sf_take_before(const sf_acc (&left)[SHARE], sf_before<SHARE> &before)
{
#if SF_EXCLUSIVE || SF_OWES
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                if (before.any)
                        before.e[s] = sf_combine(left[s], before.e[s]);
                else
                        before.e[s] = left[s];
        before.any = true;
#else
        (void)left;
        (void)before;
#endif
}

template <bool LEVEL, int SHARE> SF_DEVICE void sf_take_all_of(const sf_acc (&left)[SHARE], sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        (void)left, (void)v;
#if !SF_OWES
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        sf_take_one<LEVEL>(left[j % SHARE], v[i][j]);
#endif
}

/* `left` onto all elements of the thread. */
template <int SHARE>
SF_DEVICE void sf_take_all(const sf_acc (&left)[SHARE], sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_before<SHARE> &before)
{
#if SF_LEVELS
        bool level = sf_is_level(v, left[0]);
#pragma unroll
        for (int s = 1; s < SHARE; s++)
                level &= left[s].first == left[0].first;
        if (level)
                sf_take_all_of<true>(left, v);
        else
#endif
                sf_take_all_of<false>(left, v);
#if SF_SPARES_EXPONENTS
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                before.owed[s] += left[s].exponent;
#endif
        (void)v;
        sf_take_before(left, before);
}

/* Exclusive: every element becomes the one before it in its sequence. */
template <int LANES, int COLUMNS>
SF_DEVICE void sf_shift(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, const sf_before<sf_columns<COLUMNS>::SHARE> &before, sf_acc identity)
{
#if SF_EXCLUSIVE
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN, FIRST = SF_WIDTH - SHARE };
        bool head = (lane & (LANES - 1)) < SPAN;
        int last = (lane & -LANES) + LANES - SPAN + (lane & (SPAN - 1));
#pragma unroll
        for (int i = SF_ITEMS - 1; i >= 0; i--) {
                sf_acc first[SHARE];
#pragma unroll
                for (int s = 0; s < SHARE; s++) {
                        sf_acc here = sf_shuffle(v[i][FIRST + s], (lane - SPAN) & 31);
                        sf_acc wrap = identity;
                        if (i)
                                wrap = sf_shuffle(v[i ? i - 1 : 0][FIRST + s], last);
                        else if (before.any)
                                wrap = before.e[s];
                        first[s] = sf_choose(head, wrap, here);
                }
#pragma unroll
                for (int j = SF_WIDTH - 1; j >= 0; j--)
                        v[i][j] = j >= SHARE ? v[i][(j - SHARE) & (SF_WIDTH - 1)] : first[j % SHARE];
        }
#else
        (void)v, (void)lane, (void)before, (void)identity;
#endif
}

/* ------------------------------------------------------------------------------------------------------------
 * The order between warps, and between tiles
 * ---------------------------------------------------------------------------------------------------------- */

/* totals[w] is warp w's, of WARPS, settled. Gives the elements what they take from the warps before; returns the total of all. */
template <int WARPS>
SF_DEVICE sf_acc sf_scan_warps(sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_acc *totals, int warp, int lane, sf_before<1> &before)
{
        sf_acc t = totals[lane & (WARPS - 1)]; /* lane w works for warp w */
#pragma unroll
        for (int b = 1; b < WARPS; b *= 2) {
                sf_acc left = sf_shuffle(t, ((lane & -b) - 1) & 31);
                if (warp & b) {
                        sf_acc mine[1] = {sf_shuffle(left, warp)};
                        sf_take_all(mine, v, before);
                }
                if (lane & b)
                        t = sf_settled(sf_combine(left, t));
        }
        return sf_shuffle(t, WARPS - 1);
}

/* A binary counter of finished block totals (order.h), entry k kept by lane k. */
struct sf_counter {
        sf_acc entry;
};

/* Tile t closes blocks: its total is carried up. */
SF_DEVICE void sf_count(sf_counter &c, sf_i64 t, sf_acc total, int lane)
{
        int k = 0;
        for (; t >> k & 1; k++)
                total = sf_combine(sf_shuffle(c.entry, k), total);
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

/* Folds the totals of COUNT groups, SHARE neighbouring sequences each, `pitch` elements apart. They are settled, their product is not. */
template <int COUNT, int SHARE> struct sf_groups {
        SF_DEVICE_MEMBER void fold(const sf_acc *totals, int pitch, sf_acc (&sum)[SHARE])
        {
                sf_acc left[SHARE];
                sf_groups<COUNT / 2, SHARE>::fold(totals, pitch, left);
                sf_groups<COUNT / 2, SHARE>::fold(totals + COUNT / 2 * pitch, pitch, sum);
                sf_join_all(left, sum);
        }
};
template <int SHARE> struct sf_groups<1, SHARE> {
        SF_DEVICE_MEMBER void fold(const sf_acc *totals, int pitch, sf_acc (&sum)[SHARE])
        {
                (void)pitch;
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        sum[s] = totals[s];
        }
};

/* Group g takes from the groups before it: for every bit set in g, lowest first, a block of that many. */
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

/* ------------------------------------------------------------------------------------------------------------
 * Totals alone
 * ---------------------------------------------------------------------------------------------------------- */

/* What a lane has with what the lane that differs from it in `bit` has: the one without the bit is
 * to the left. */
template <bool LEVEL> SF_DEVICE sf_acc sf_combine_met(sf_acc mine, sf_acc other, int lane, int bit)
{
        if (SF_COMMUTES)
                return sf_joined<LEVEL>(mine, other);
        return sf_combine(sf_choose(lane & bit, other, mine), sf_choose(lane & bit, mine, other));
}

/* Two lanes that differ in `bit` combine what they have; both get the result. */
template <bool LEVEL = false> SF_DEVICE sf_acc sf_meet(sf_acc mine, int lane, int bit)
{
        return sf_combine_met<LEVEL>(mine, sf_sent<LEVEL>(mine, lane ^ bit), lane, bit);
}

/* The exponents of a fold of LANES lanes: taken out of what is combined, for a sum of their own,
 * and put back. */
template <int LANES> struct sf_apart {
#if SF_SPARES_EXPONENTS
        decltype(sf_acc::exponent) sum;
        SF_DEVICE_METHOD void take_out(sf_acc (&a)[SF_ITEMS])
        {
                sum = 0;
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        sum += a[i].exponent;
                        a[i].exponent = 0;
                }
        }
        SF_DEVICE_METHOD sf_acc put_back(sf_acc total, int lane)
        {
#pragma unroll
                for (int b = 1; b < LANES; b *= 2)
                        sum += ::sf_shuffle(sum, lane ^ b);
                total.exponent += sum;
                return total;
        }
        /* As long as none is settled, those taken out are zero. */
        template <bool LEVEL> SF_DEVICE_METHOD sf_acc shuffle(sf_acc v, int lane, bool settled)
        {
                if (settled)
                        return sf_shuffle(v, lane);
                v.mantissa = ::sf_shuffle(v.mantissa, lane);
                return v;
        }
#else
        SF_DEVICE_METHOD void take_out(sf_acc (&)[SF_ITEMS]) {}
        SF_DEVICE_METHOD sf_acc put_back(sf_acc total, int) { return total; }
        template <bool LEVEL> SF_DEVICE_METHOD sf_acc shuffle(sf_acc v, int lane, bool) { return sf_sent<LEVEL>(v, lane); }
#endif
};

/* Values of `loose` numbers each are to be combined, two and two: must they be settled first? */
SF_DEVICE bool sf_too_loose(int &loose, int limit)
{
        const bool settle = 2 * loose > limit;
        loose = settle ? 2 : 2 * loose;
        return settle;
}

/*
 * Folds SF_ITEMS values of each of LANES lanes, lanes below items; every lane gets the total, settled. Each value is of SF_WIDTH numbers. While there are several
 * items, two lanes that meet share the work: each keeps one item and sends the other, which halves the items held, and
 * item i ends with the lanes whose low bits are i. SF_ITEMS is a power of two.
 */
template <int LANES, bool LEVEL> SF_DEVICE sf_acc sf_fold_lanes_of(sf_acc (&a)[SF_ITEMS], int lane)
{
        enum { MET = SF_ITEMS < LANES ? SF_ITEMS : LANES };
        int loose = SF_WIDTH;
        bool settled = false;
        sf_apart<LANES> apart;
        apart.take_out(a);
#pragma unroll
        for (int b = 1; b < LANES; b *= 2) {
                if (sf_too_loose(loose, SF_LOOSE_VECTORS(1))) {
                        sf_settle_all(a);
                        settled = true;
                }
                if (SF_ITEMS / b > 1) {
#pragma unroll
                        for (int i = 0; i < SF_ITEMS / 2; i++)
                                if (i < SF_ITEMS / b / 2) {
                                        sf_acc even = a[2 * i % SF_ITEMS], odd = a[(2 * i + 1) % SF_ITEMS];
                                        sf_acc keep = sf_chosen<LEVEL>(lane & b, odd, even);
                                        sf_acc other = sf_chosen<LEVEL>(lane & b, even, odd);
                                        other = apart.template shuffle<LEVEL>(other, lane ^ b, settled);
                                        a[i] = sf_combine_met<LEVEL>(keep, other, lane, b);
                                }
                } else {
                        a[0] = sf_combine_met<LEVEL>(a[0], apart.template shuffle<LEVEL>(a[0], lane ^ b, settled), lane, b);
                }
        }
        sf_settle_all(a);
#pragma unroll
        for (int i = 0; i < SF_ITEMS / MET; i++)
#pragma unroll
                for (int b = 1; b < MET; b *= 2)
                        a[i] = sf_meet<LEVEL>(a[i], lane, b);
        sf_settle_all(a);
#pragma unroll
        for (int b = 1; b < SF_ITEMS / MET; b *= 2)
#pragma unroll
                for (int i = 0; i < SF_ITEMS / MET; i++)
                        if (i % (2 * b) == 0 && i + b < SF_ITEMS / MET)
                                a[i] = sf_joined<LEVEL>(a[i], a[(i + b) % SF_ITEMS]);
        return apart.put_back(sf_settled(a[0]), lane);
}
template <int LANES> SF_DEVICE sf_acc sf_fold_lanes(sf_acc (&a)[SF_ITEMS], int lane)
{
#if SF_LEVELS
        const auto with = ::sf_shuffle(a[0].first, 0);
        bool level = true;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                level &= a[i].first == with;
        if (!sf_ballot(!level))
                return sf_fold_lanes_of<LANES, true>(a, lane);
#endif
        return sf_fold_lanes_of<LANES, false>(a, lane);
}

/* The warp's total of what its threads hold; the lane's own columns, as above. */
template <int COLUMNS> SF_DEVICE void sf_fold_warp(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc (&total)[sf_columns<COLUMNS>::SHARE])
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN };
#pragma unroll
        for (int b = COLUMNS; b < SF_WIDTH; b *= 2)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                if (j % (2 * b) < COLUMNS)
                                        v[i][j] = sf_combine(v[i][j], v[i][(j + b) % SF_WIDTH]);
#pragma unroll
        for (int s = 0; s < SHARE; s++) {
                sf_acc a[SF_ITEMS];
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        a[i] = v[i][s];
                if (COLUMNS == 1) {
                        total[s] = sf_fold_lanes<32>(a, lane);
                        continue;
                }
                int loose = SF_WIDTH;
#pragma unroll
                for (int b = SPAN; b < 32; b *= 2) {
                        if (sf_too_loose(loose, SF_LOOSE)) /* of single columns */
                                sf_settle_all(a);
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                a[i] = sf_meet(a[i], lane, b);
                }
#pragma unroll
                for (int b = 1; b < SF_ITEMS; b *= 2) {
                        if (sf_too_loose(loose, SF_LOOSE)) /* of single columns */
                                sf_settle_all(a);
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                if (i % (2 * b) == 0 && i + b < SF_ITEMS)
                                        a[i] = sf_combine(a[i], a[(i + b) % SF_ITEMS]);
                }
                total[s] = sf_settled(a[0]);
        }
}

/* The same after a scan, not settled: what stands last, in the warp's last lanes. */
template <int COLUMNS> SF_DEVICE void sf_last(const sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_acc (&total)[sf_columns<COLUMNS>::SHARE])
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE };
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                total[s] = v[SF_ITEMS - 1][SF_WIDTH - SHARE + s];
}

/* ------------------------------------------------------------------------------------------------------------
 * Totals that blocks publish for each other: of tiles, of groups of 32 of them, and so on up, level by level
 * ---------------------------------------------------------------------------------------------------------- */

/* The first group of a level of a line; number[0]: tiles a line has, number[1]: groups of all levels. */
SF_DEVICE sf_i64 sf_first_group(const sf_params &p, sf_i64 unit, int level)
{
        return unit * p.number[1] + sf_groups_below(p.number[0], level);
}

/*
 * The first word of scratch has tickets below, drawn one by one, and above how many launches there have been before, which makes this launch's
 * mark. What is published bears the mark, so what earlier launches have published here is never taken for this one's, and nothing need be
 * cleared between launches. Every ticket drawn is handed in: with the last of number[3] the word is made ready for the next launch.
 */
SF_DEVICE sf_u64 sf_draw(const sf_params &p) { return sf_ticket((sf_u64 *)p.scratch); }
SF_DEVICE sf_u32 sf_mark(sf_u64 drawn) { return (sf_u32)(drawn >> 32) + 1; }
SF_DEVICE void sf_hand_in(const sf_params &p, sf_u64 drawn)
{
        if ((sf_i64)(sf_u32)drawn + 1 == p.number[3])
                sf_post((sf_u64 *)p.scratch, (sf_u64)sf_mark(drawn) << 32);
}

#if SF_MEMBERS == 1
/* A total, settled, its words of 32 bits APART from each other: mark and payload travel in one. */
template <int APART> SF_DEVICE void sf_publish(sf_u64 *entry, sf_acc v, sf_u32 mark)
{
        const sf_words words = sf_words_of(v);
#pragma unroll
        for (int w = 0; w < (int)(sizeof v / 4); w++)
                sf_post(entry + w * APART, (sf_u64)mark << 32 | words.w[w]);
}
#endif

/* ------------------------------------------------------------------------------------------------------------
 * A block that walks tiles of several sequences, its counter in shared memory
 *
 * Entry k, the total of 2^k tiles, is SHARE neighbours at counter[k * pitch]. A long sequence is dealt out in chunks, each an aligned
 * power of two of tiles but for the last. A launch of its own folds them, but for the last, and leaves their totals in scratch; then
 * either every block makes of them what stands before its chunk (sf_preload), or scan_totals.cu does so for all (sf_look_up).
 * ---------------------------------------------------------------------------------------------------------- */

/* Whatever is kept is settled. */
template <int SHARE> SF_DEVICE void sf_enter(sf_acc *entry, const sf_acc (&total)[SHARE])
{
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                entry[s] = sf_settled(total[s]);
}

/* Tile t takes from those before it. Once it has those that carry, the keeper's last elements are
 * the total of the block that the tile closes. A barrier lies between one tile's call and the
 * next's: an entry is rewritten only by a tile that does not read it, and read from the tile after
 * on. WHOLE: the block has the sequence from its beginning on; where any grouping will do, two
 * entries in turn then hold all that stands before. */
template <bool WHOLE, int SHARE>
SF_DEVICE void sf_take_tiles(sf_acc *counter, int pitch, sf_i64 t, bool keeper,
                             sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_before<SHARE> &before)
{
        if (SF_OWES && WHOLE) {
                sf_acc last[SHARE];
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        last[s] = counter[(t & 1) * pitch + s];
                if (t)
                        sf_take_all(last, v, before);
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        last[s] = v[SF_ITEMS - 1][SF_WIDTH - SHARE + s];
                sf_pay(before, last);
                if (keeper)
                        sf_enter(counter + ((t & 1) ^ 1) * pitch, last);
                return;
        }
        bool carries = true;
        for (int k = 0; carries || t >> k; k++) {
                sf_acc last[SHARE];
                if (t >> k & 1) {
#pragma unroll
                        for (int s = 0; s < SHARE; s++)
                                last[s] = counter[k * pitch + s];
                        sf_take_all(last, v, before);
                        continue;
                }
                if (carries && keeper) {
#pragma unroll
                        for (int s = 0; s < SHARE; s++)
                                last[s] = v[SF_ITEMS - 1][SF_WIDTH - SHARE + s];
                        sf_pay(before, last);
                        sf_enter(counter + k * pitch, last);
                }
                carries = false;
        }
}

/* The fold of a chunk's tiles, from the last to the first, so that the scan that follows finds the first ones in the cache. By one thread
 * a column: `total` is that of the tile that follows `done` others, and becomes that of the largest block it closes. */
template <int SHARE> SF_DEVICE void sf_count_back(sf_acc *counter, int pitch, sf_i64 done, sf_acc (&total)[SHARE])
{
        int k = 0;
        for (; done >> k & 1; k++)
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        total[s] = sf_combine(total[s], counter[k * pitch + s]);
        sf_enter(counter + k * pitch, total);
}

/*
 * What the chunks before a chunk leave in its counter, entries from `low` on. COUNT threads have the same columns; this is number `own`
 * (or, from COUNT on, none of them). `totals` are chunk 0's, the next chunk's `stride` elements on; RUN * COUNT is at least as many
 * chunks as there are. `room`: COUNT rows of `pitch` for this alone, until the block's next barrier.
 */
template <int RUN, int COUNT, int SHARE>
SF_DEVICE void sf_preload(const sf_acc *totals, sf_i64 stride, int chunk, int low, int own, sf_acc *room, sf_acc *counter, int pitch)
{
        sf_acc u[RUN][SHARE];
        int at = own * RUN, last = own < COUNT ? chunk : 0;
#pragma unroll
        for (int i = 0; i < RUN; i++)
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        u[i][s] = at + i < last ? totals[(at + i) * stride + s] : sf_acc();
        counter += low * pitch;
#pragma unroll
        for (int b = 1; b < RUN; b *= 2, counter += pitch)
#pragma unroll
                for (int i = 0; i < RUN; i += b) {
                        if ((last & b) && at + i == (last & -b) - b)
                                sf_enter(counter, u[i]);
                        if (i & b)
#pragma unroll
                                for (int s = 0; s < SHARE; s++)
                                        u[i - b][s] = sf_combine(u[i - b][s], u[i][s]);
                }
#pragma unroll
        for (int w = 1; w < COUNT; w *= 2, counter += pitch) {
                int blocks = last / (RUN * w);
                if ((blocks & 1) && own == (blocks - 1) * w)
                        sf_enter(counter, u[0]);
                if (own < COUNT && (own & (2 * w - 1)) == w)
                        sf_enter(room + own * pitch, u[0]);
                sf_sync_block();
                if (own < COUNT && !(own & (2 * w - 1)))
#pragma unroll
                        for (int s = 0; s < SHARE; s++)
                                u[0][s] = sf_combine(u[0][s], room[(own + w) * pitch + s]);
        }
}

/* The same where scan_totals.cu has been: chunk c's total is that of the largest block it closes. */
template <int COUNT, int SHARE>
SF_DEVICE void sf_look_up(const sf_acc *totals, sf_i64 stride, int chunk, int low, int own, sf_acc *counter, int pitch)
{
        for (int k = own; k < 31 && chunk >> k; k += COUNT)
                if (chunk >> k & 1)
#pragma unroll
                        for (int s = 0; s < SHARE; s++)
                                counter[(low + k) * pitch + s] = totals[((chunk >> k << k) - 1) * stride + s];
}
