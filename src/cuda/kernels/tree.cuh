/*
 * tree.cuh: the order (docs/order.md) inside a thread, a warp and a block. tree_totals.cuh has it
 * between the tiles of a block and between blocks, tree_products.cuh what products do otherwise.
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

template <int SHARE> SF_DEVICE void sf_settle_all(sf_acc (&v)[SHARE])
{
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                v[s] = sf_settled(v[s]);
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

/* The total of all that comes before a warp's first elements. It is combined from the totals that
 * the warp takes, the lowest level first; each further total goes on the left. */
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

/* Combines the last elements of a vector with what `before` keeps for them. */
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
/* sf_spread for the rows of a thread. */
template <int SHARE> SF_DEVICE void sf_spread_rows(sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_before<SHARE> &before)
{
        if (before.any)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                v[i][j] = sf_combine(before.e[j % SHARE], v[i][j]);
}

/* To be called after sf_scan_warp. The last elements of a lane are the total of all that comes
 * before the next lane's vector; those of the last lane, of all that comes before the next item. */
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
                        /* The first lane receives from the last lane. What it needs is the total of
                         * the item before. */
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
template <int SHARE> SF_DEVICE void sf_spread_rows(sf_acc (&)[SF_ITEMS][SF_WIDTH], const sf_before<SHARE> &) {}
template <int LANES, int COLUMNS>
SF_DEVICE void sf_spread(sf_acc (&)[SF_ITEMS][SF_WIDTH], const sf_before<sf_columns<COLUMNS>::SHARE> &, int, sf_acc) {}
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

template <bool LEVEL, int SHARE, int N> SF_DEVICE void sf_take_all_of(const sf_acc (&left)[SHARE], sf_acc (&v)[N][SF_WIDTH])
{
        (void)left, (void)v;
#if !SF_OWES
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        sf_take_one<LEVEL>(left[j % SHARE], v[i][j]);
#endif
}

/* Combines all elements of the thread with `left`. */
template <int SHARE, int N>
SF_DEVICE void sf_take_all(const sf_acc (&left)[SHARE], sf_acc (&v)[N][SF_WIDTH], sf_before<SHARE> &before)
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

/* Combines all elements of the thread with the entries of a list: as many as bits are set, `pitch`
 * apart. Those of a product are pairs: each is loaded before the one before it is used. */
template <int SHARE>
SF_DEVICE void sf_take_list(const sf_acc *list, int pitch, sf_u32 bits,
                            sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_before<SHARE> &before)
{
        sf_acc left[SHARE], next[SHARE];
        for (; bits && (!SF_PRODUCTS || SHARE > 1); bits &= bits - 1, list += pitch) {
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        left[s] = list[s];
                sf_take_all(left, v, before);
        }
        if (bits)
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        next[s] = list[s];
        while (bits) {
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        left[s] = next[s];
                bits &= bits - 1;
                list += pitch;
                if (bits)
#pragma unroll
                        for (int s = 0; s < SHARE; s++)
                                next[s] = list[s];
                sf_take_all(left, v, before);
        }
}

/* Combines all elements of the thread with the totals of the blocks to the left of their sequences
 * (SF_LEFTS). `column`: the thread's first column, of `columns`. */
template <int SHARE>
SF_DEVICE void sf_take_lefts(const sf_params &p, const sf_line &line, sf_i64 column, sf_i64 columns, sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_before<SHARE> &before)
{
        (void)p, (void)line, (void)column, (void)columns, (void)v, (void)before;
#if SF_LEFTS
        const char *at = line.left + column * p.il;
        const int there = columns - column < SHARE ? (int)(columns - column) : SHARE;
        for (int e = *(const int *)at; e > 0; e--) {
                sf_acc left[SHARE];
                at += p.left_entry;
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        left[s] = *(const sf_acc *)(at + (s < there ? s : 0) * p.il);
                sf_take_all(left, v, before);
        }
#endif
}

/* The element or, of products, the result of another lane; and a choice of two. */
SF_DEVICE sf_acc sf_taken_from(sf_acc v, int lane) { return sf_shuffle(v, lane); }
SF_DEVICE sf_acc sf_pick_of(bool first, sf_acc a, sf_acc b) { return sf_choose(first, a, b); }
#if SF_UNLIFTED
SF_DEVICE sf_number sf_taken_from(sf_number v, int lane) { return ::sf_shuffle(v, lane); }
SF_DEVICE sf_number sf_pick_of(bool first, sf_number a, sf_number b) { return first ? a : b; }
#endif

/* Exclusive: every element becomes the one before it in its sequence, the first one head or, if
 * there is none, the identity. */
template <int LANES, int COLUMNS, class T>
SF_DEVICE void sf_shift(T (&v)[SF_ITEMS][SF_WIDTH], int lane, bool any, const T (&head)[sf_columns<COLUMNS>::SHARE], T identity)
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN, FIRST = SF_WIDTH - SHARE };
        const bool leads = (lane & (LANES - 1)) < SPAN;
        int last = (lane & -LANES) + LANES - SPAN + (lane & (SPAN - 1));
#pragma unroll
        for (int i = SF_ITEMS - 1; i >= 0; i--) {
                T first[SHARE];
#pragma unroll
                for (int s = 0; s < SHARE; s++) {
                        T here = sf_taken_from(v[i][FIRST + s], (lane - SPAN) & 31);
                        T wrap = identity;
                        if (i)
                                wrap = sf_taken_from(v[i ? i - 1 : 0][FIRST + s], last);
                        else if (any)
                                wrap = head[s];
                        first[s] = sf_pick_of(leads, wrap, here);
                }
#pragma unroll
                for (int j = SF_WIDTH - 1; j >= 0; j--)
                        v[i][j] = j >= SHARE ? v[i][(j - SHARE) & (SF_WIDTH - 1)] : first[j % SHARE];
        }
}

template <class T> SF_DEVICE void sf_shift_rows(T (&v)[SF_ITEMS][SF_WIDTH], bool any, const T (&head)[SF_WIDTH], T identity)
{
#pragma unroll
        for (int i = SF_ITEMS - 1; i >= 0; i--)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (i)
                                v[i][j] = v[i ? i - 1 : 0][j];
                        else if (any)
                                v[i][j] = head[j];
                        else
                                v[i][j] = identity;
}

#if SF_MEMBERS == 1
/* Puts the initial value before the elements of a thread, and lowers them. */
SF_DEVICE void sf_begin_and_lower(const sf_params &p, sf_acc (&v)[SF_ITEMS][SF_WIDTH],
                                  sf_answer (&result)[SF_ITEMS][SF_WIDTH])
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j] = sf_begin(p, v[i][j]);
        sf_lower_all(p, v, result);
}

/* sf_finish below, for values that are complete: combined with all that comes before them. */
template <int LANES, int COLUMNS, int SPREAD>
SF_DEVICE void sf_answers(const sf_params &p, const sf_line &line, sf_i64 at, sf_i64 end,
                          bool closes, sf_acc (&v)[SF_ITEMS][SF_WIDTH],
                          const sf_before<sf_columns<COLUMNS>::SHARE> &before, int lane,
                          sf_answer (&result)[SF_ITEMS][SF_WIDTH])
{
        (void)line, (void)at, (void)end, (void)closes, (void)before, (void)lane;
#if SF_TOTAL
        if (closes)
                sf_store_totals<COLUMNS, SPREAD>(p, line, at, end, v);
#endif
#if SF_EXCLUSIVE
        sf_shift<LANES, COLUMNS>(v, lane, before.any, before.e, sf_identity(p));
#endif
        sf_begin_and_lower(p, v, result);
}
#endif

#if SF_UNLIFTED
#include "tree_products.cuh"
#elif SF_MEMBERS == 1
/*
 * Converts what a warp has scanned, and combined with all that comes before it, to the results that
 * are stored. `at`, `end`: the thread's first element, and the end of the line. `closes`: this is
 * the line's last tile, so the total is stored if it is asked for.
 */
template <int LANES, int COLUMNS, int SPREAD>
SF_DEVICE void sf_finish(const sf_params &p, const sf_line &line, sf_i64 at, sf_i64 end, bool closes, sf_acc (&v)[SF_ITEMS][SF_WIDTH],
                         const sf_before<sf_columns<COLUMNS>::SHARE> &before, bool, const sf_parked &, int lane, sf_answer (&result)[SF_ITEMS][SF_WIDTH])
{
        sf_spread<LANES, COLUMNS>(v, before, lane, sf_acc_of(p.neutral));
        sf_answers<LANES, COLUMNS, SPREAD>(p, line, at, end, closes, v, before, lane, result);
}

/* The same for the rows of a thread, without their total. */
SF_DEVICE void sf_finish_rows(const sf_params &p, sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_before<SF_WIDTH> &before, bool, const sf_parked &,
                              sf_answer (&result)[SF_ITEMS][SF_WIDTH])
{
#if SF_EXCLUSIVE
        sf_shift_rows(v, before.any, before.e, sf_identity(p));
#else
        (void)before;
#endif
        sf_begin_and_lower(p, v, result);
}

/* An element, as a value. */
template <int SHARE> SF_DEVICE sf_acc sf_value_of(const sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_before<SHARE> &, bool, const sf_parked &, int i, int j)
{
        return v[i][j];
}
#endif

/* ------------------------------------------------------------------------------------------------
 * The order between warps, and between tiles
 * ---------------------------------------------------------------------------------------------- */

/* totals[w] is the settled total of warp w, one of WARPS. Combines the elements with the totals of
 * the warps before. Returns the total of all warps. */
template <int WARPS>
SF_DEVICE sf_acc sf_scan_warps(sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_acc *totals, int warp, int lane, sf_before<1> &before)
{
        sf_acc t = totals[lane & (WARPS - 1)]; /* lane w computes for warp w */
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
 * The totals are settled; the result is not. */
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

/* ------------------------------------------------------------------------------------------------
 * Totals only, without a scan
 * ---------------------------------------------------------------------------------------------- */

/* Combines the values of two lanes whose numbers differ in `bit`. The value of the lane without the
 * bit goes on the left. */
template <bool LEVEL> SF_DEVICE sf_acc sf_combine_met(sf_acc mine, sf_acc other, int lane, int bit)
{
        if (SF_COMMUTES)
                return sf_joined<LEVEL>(mine, other);
        return sf_combine(sf_choose(lane & bit, other, mine), sf_choose(lane & bit, mine, other));
}

/* Two lanes whose numbers differ in `bit` combine their values; both get the result. */
template <bool LEVEL = false> SF_DEVICE sf_acc sf_meet(sf_acc mine, int lane, int bit)
{
        return sf_combine_met<LEVEL>(mine, sf_sent<LEVEL>(mine, lane ^ bit), lane, bit);
}

/* In a fold over LANES lanes, exponents are taken out of the values, summed separately, and put
 * back. */
template <int LANES> struct sf_apart {
#if SF_SPARES_EXPONENTS
        decltype(sf_acc::exponent) sum;
        template <int N> SF_DEVICE_METHOD void take_out(sf_acc (&a)[N])
        {
                sum = 0;
#pragma unroll
                for (int i = 0; i < N; i++) {
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
        /* Until a value is settled its exponent is zero, so it need not be sent. */
        template <bool LEVEL> SF_DEVICE_METHOD sf_acc shuffle(sf_acc v, int lane, bool settled)
        {
                if (settled)
                        return sf_shuffle(v, lane);
                v.mantissa = ::sf_shuffle(v.mantissa, lane);
                return v;
        }
#else
        template <int N> SF_DEVICE_METHOD void take_out(sf_acc (&)[N]) {}
        SF_DEVICE_METHOD sf_acc put_back(sf_acc total, int) { return total; }
        template <bool LEVEL> SF_DEVICE_METHOD sf_acc shuffle(sf_acc v, int lane, bool) { return sf_sent<LEVEL>(v, lane); }
#endif
};

/* Pairs of values, each the product of `loose` numbers, are about to be combined. Must they be
 * settled first? Updates `loose`. */
SF_DEVICE bool sf_too_loose(int &loose, int limit)
{
        const bool settle = 2 * loose > limit;
        loose = settle ? 2 : 2 * loose;
        return settle;
}

/*
 * Folds the N values of each of LANES lanes, first over lanes, then over items. Every lane gets
 * the settled total. Each value stands for SF_WIDTH numbers. While a lane has several items, the
 * two lanes that exchange values share the work: each keeps one item of two and sends the other.
 * This halves the items that a lane holds, and item i ends in the lanes whose low bits are i.
 * N is a power of two. FROM: so many neighbouring lanes have already shared their items, and each
 * has N left, which are settled.
 */
template <int LANES, bool LEVEL, int FROM = 1, int N>
SF_DEVICE sf_acc sf_fold_lanes_of(sf_acc (&a)[N], int lane)
{
        enum { ALL = N * FROM, MET = ALL < LANES ? ALL : LANES };
        int loose = FROM > 1 ? 1 : SF_WIDTH;
        bool settled = false;
        sf_apart<LANES> apart;
        apart.take_out(a);
#pragma unroll
        for (int b = FROM; b < LANES; b *= 2) {
                if (sf_too_loose(loose, SF_LOOSE_VECTORS(1))) {
                        sf_settle_all(a);
                        settled = true;
                }
                if (ALL / b > 1) {
#pragma unroll
                        for (int i = 0; i < N / 2; i++)
                                if (i < ALL / b / 2) {
                                        sf_acc even = a[2 * i % N], odd = a[(2 * i + 1) % N];
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
        for (int i = 0; i < ALL / MET; i++)
#pragma unroll
                for (int b = 1; b < MET; b *= 2)
                        a[i] = sf_meet<LEVEL>(a[i], lane, b);
        sf_settle_all(a);
#pragma unroll
        for (int b = 1; b < ALL / MET; b *= 2)
#pragma unroll
                for (int i = 0; i < ALL / MET; i++)
                        if (i % (2 * b) == 0 && i + b < ALL / MET)
                                a[i] = sf_joined<LEVEL>(a[i], a[(i + b) % N]);
        return apart.put_back(sf_settled(a[0]), lane);
}
template <int LANES, int N> SF_DEVICE sf_acc sf_fold_lanes(sf_acc (&a)[N], int lane)
{
#if SF_LEVELS
        const auto with = ::sf_shuffle(a[0].first, 0);
        bool level = true;
#pragma unroll
        for (int i = 0; i < N; i++)
                level &= a[i].first == with;
        if (!sf_ballot(!level))
                return sf_fold_lanes_of<LANES, true>(a, lane);
#endif
        return sf_fold_lanes_of<LANES, false>(a, lane);
}

/* The total of what the threads of a warp hold, for the columns of this lane (sf_columns). */
template <int COLUMNS, int N> SF_DEVICE void sf_fold_warp_of(sf_acc (&v)[N][SF_WIDTH], int lane, sf_acc (&total)[sf_columns<COLUMNS>::SHARE])
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN };
#if SF_UNLIFTED && SF_COMMUTES
        if (COLUMNS == 1) {
                sf_number numbers[N][SF_WIDTH];
                sf_acc a[N];
#pragma unroll
                for (int i = 0; i < N; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                numbers[i][j] = v[i][j].mantissa;
                sf_holds::template fold_each<false, false>(numbers, a);
                total[0] = sf_fold_lanes<32>(a, lane);
                return;
        }
#endif
        sf_lift_late(v);
#pragma unroll
        for (int b = COLUMNS; b < SF_WIDTH; b *= 2)
#pragma unroll
                for (int i = 0; i < N; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                if (j % (2 * b) < COLUMNS)
                                        v[i][j] = sf_combine(v[i][j], v[i][(j + b) % SF_WIDTH]);
#pragma unroll
        for (int s = 0; s < SHARE; s++) {
                sf_acc a[N];
#pragma unroll
                for (int i = 0; i < N; i++)
                        a[i] = v[i][s];
                if (COLUMNS == 1) {
                        total[s] = sf_fold_lanes<32>(a, lane);
                        continue;
                }
                int loose = SF_WIDTH;
#pragma unroll
                for (int b = SPAN; b < 32; b *= 2) {
                        if (sf_too_loose(loose, SF_LOOSE)) /* each column by itself */
                                sf_settle_all(a);
#pragma unroll
                        for (int i = 0; i < N; i++)
                                a[i] = sf_meet(a[i], lane, b);
                }
#pragma unroll
                for (int b = 1; b < N; b *= 2) {
                        if (sf_too_loose(loose, SF_LOOSE)) /* each column by itself */
                                sf_settle_all(a);
#pragma unroll
                        for (int i = 0; i < N; i++)
                                if (i % (2 * b) == 0 && i + b < N)
                                        a[i] = sf_combine(a[i], a[(i + b) % N]);
                }
                total[s] = sf_settled(a[0]);
        }
}

/* The same for all elements of a thread. Products are lifted a few at a time (sf_slice). */
template <int COLUMNS, int N> SF_DEVICE void sf_fold_warp(sf_acc (&v)[N][SF_WIDTH], int lane, sf_acc (&total)[sf_columns<COLUMNS>::SHARE])
{
#if SF_UNLIFTED && !SF_LIFTS
        enum { HALF = N / 2 ? N / 2 : 1, SHARE = sf_columns<COLUMNS>::SHARE };
        if (COLUMNS > 1 && N == SF_ITEMS && SF_COMMUTES && sf_fold_numbers<COLUMNS>(v, lane, total))
                return;
        if (N > sf_slice<N>::ITEMS) {
                sf_acc left[SHARE];
                sf_fold_warp<COLUMNS>(*(sf_acc(*)[HALF][SF_WIDTH]) & v[0], lane, left);
                sf_fold_warp<COLUMNS>(*(sf_acc(*)[HALF][SF_WIDTH]) & v[HALF % N], lane, total);
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        total[s] = sf_settled(sf_combine(left[s], total[s]));
                return;
        }
#endif
        sf_fold_warp_of<COLUMNS>(v, lane, total);
}

/* The same total after a scan, not settled: the last elements. Only the warp's last lanes have
 * it. */
template <int COLUMNS> SF_DEVICE void sf_last(const sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_acc (&total)[sf_columns<COLUMNS>::SHARE])
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE };
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                total[s] = v[SF_ITEMS - 1][SF_WIDTH - SHARE + s];
}

#include "tree_totals.cuh"
