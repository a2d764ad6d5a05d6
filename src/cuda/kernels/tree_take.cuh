/*
 * tree_take.cuh: how a warp takes the totals of all that comes before it. tree.cuh includes it.
 */

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

/* Combines all elements of the thread with `left`, but for what `before` keeps: sf_take_rest. */
template <int SHARE, int N>
SF_DEVICE void sf_take_most(const sf_acc (&left)[SHARE], sf_acc (&v)[N][SF_WIDTH])
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
}

template <int SHARE>
SF_DEVICE void sf_take_rest(const sf_acc (&left)[SHARE], sf_before<SHARE> &before)
{
#if SF_SPARES_EXPONENTS
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                before.owed[s] += left[s].exponent;
#endif
        sf_take_before(left, before);
}

template <int SHARE, int N>
SF_DEVICE void sf_take_all(const sf_acc (&left)[SHARE], sf_acc (&v)[N][SF_WIDTH], sf_before<SHARE> &before)
{
        sf_take_most(left, v);
        sf_take_rest(left, before);
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

/* Of settled totals, of which lane w has that of warp w: the exponents, which need no tree. `before`: of
 * the warps before. */
struct sf_exponents {
#if SF_SPARES_EXPONENTS
        int before, all;
        SF_DEVICE_METHOD void take_out(sf_acc &t, int lane, int warp, int warps)
        {
                before = sf_sum_lanes(lane < warp ? (int)t.exponent : 0);
                all = sf_sum_lanes(lane < warps ? (int)t.exponent : 0);
                t.exponent = 0;
        }
        SF_DEVICE_METHOD sf_acc put_back(sf_acc total, sf_before<1> &to)
        {
                to.owed[0] += before;
                if (SF_EXCLUSIVE && to.any)
                        to.e[0].exponent += before;
                total.exponent = all;
                return total;
        }
#else
        SF_DEVICE_METHOD void take_out(sf_acc &, int, int, int) {}
        SF_DEVICE_METHOD sf_acc put_back(sf_acc total, sf_before<1> &) { return total; }
#endif
};

/* totals[w] is the settled total of warp w, one of WARPS. Combines the elements with the totals of
 * the warps before; `before` has had none yet. Returns the total of all warps. */
template <int WARPS>
SF_DEVICE sf_acc sf_scan_warps(sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_acc *totals, int warp, int lane, sf_before<1> &before)
{
        sf_acc t = totals[lane & (WARPS - 1)]; /* lane w computes for warp w */
        sf_exponents exponents;
        exponents.take_out(t, lane, warp, WARPS);
#pragma unroll
        for (int b = 1; b < WARPS; b *= 2) {
                const sf_acc left = sf_sent<SF_SPARES_EXPONENTS>(t, ((lane & -b) - 1) & 31);
                if (warp & b) {
                        sf_acc mine[1] = {sf_sent<SF_SPARES_EXPONENTS>(left, warp)};
                        if (b > 2) /* elements have room for one bit more (value.cuh) */
                                sf_settle_all(mine);
                        sf_take_all(mine, v, before);
                }
                if (lane & b)
                        t = sf_combine(left, t);
        }
        return sf_settled(exponents.put_back(sf_sent<SF_SPARES_EXPONENTS>(t, WARPS - 1), before));
}
