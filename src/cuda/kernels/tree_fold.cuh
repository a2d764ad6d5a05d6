/*
 * tree_fold.cuh: totals only, without a scan. tree.cuh includes it.
 */

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

/* The same for all elements of a thread. Products are lifted a few at a time (sf_slice); those of one
 * sequence that are `likely` to stay near 1 are tried as numbers. */
template <int COLUMNS, int N> SF_DEVICE void sf_fold_warp(sf_acc (&v)[N][SF_WIDTH], int lane, sf_acc (&total)[sf_columns<COLUMNS>::SHARE], bool likely = false)
{
        (void)likely;
#if SF_UNLIFTED && !SF_LIFTS
        if (COLUMNS == 1 && N == SF_ITEMS && N <= 32 && SF_WIDTH > 1 && SF_COMMUTES && likely &&
            sf_fold_numbers_of_one(v, lane, total[0]))
                return;
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
