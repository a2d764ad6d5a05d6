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

/* In a fold over LANES lanes, SPAN apart, exponents are taken out of the values, summed separately, and
 * put back. ALIKE lanes, not counting those, have the same values. */
template <int LANES, int SPAN, int ALIKE> struct sf_apart {
#if SF_SPARES_EXPONENTS
#if SF_LIFTED /* up to 512 totals, whose exponents may be limited (sf_settled) */
        sf_i64 sum;
#else
        int sum;
#endif
        template <int N> SF_DEVICE_METHOD void take_out(sf_acc (&a)[N])
        {
                sum = 0;
#pragma unroll
                for (int i = 0; i < N; i++) {
                        sum += (decltype(sum))a[i].exponent;
                        a[i].exponent = 0;
                }
        }
        SF_DEVICE_METHOD sf_acc put_back(sf_acc total, int lane)
        {
                if (LANES == 32)
                        sum = sf_sum_lanes(sum);
                else
#pragma unroll
                        for (int b = 1; b < LANES; b *= 2)
                                sum += ::sf_shuffle(sum, lane ^ (b * SPAN));
#if SF_LIFTED && SF_VALUE_SIZE == 8
                const sf_i64 most = 1 << 27; /* as product_settle has it */
                sum = sum < -most ? -most : sum > most ? most : sum;
#endif
                total.exponent += sum / ALIKE;
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

/* Before values that are the products of `loose` numbers are combined in pairs: settles them if they
 * must be. Updates `loose`. */
template <int N> SF_DEVICE bool sf_tighten(sf_acc (&a)[N], int &loose)
{
        const bool settle = 2 * loose > SF_LOOSE;
        if (settle)
                sf_settle_all(a);
        loose = settle ? 2 : 2 * loose;
        return settle;
}

/*
 * Folds the N values of each of LANES lanes, which are SPAN apart, first over lanes, then over items.
 * Every lane gets the settled total. Each value is like the product of `loose` numbers. While a lane
 * has several items, the two lanes that exchange values share the work: each keeps one item of two
 * and sends the other. This halves the items that a lane holds, and item i ends in the lanes whose
 * low bits are i. N is a power of two. FROM: so many neighbouring lanes have already been folded, and
 * have shared their ALL items.
 */
template <int LANES, int SPAN, bool LEVEL, int FROM, int ALL, int N>
SF_DEVICE sf_acc sf_fold_lanes_of(sf_acc (&a)[N], int lane, int loose)
{
        enum { MET = ALL < LANES ? ALL : LANES };
        bool settled = false;
        sf_apart<LANES, SPAN, (FROM > ALL ? FROM / ALL : 1)> apart;
        apart.take_out(a);
#pragma unroll
        for (int b = FROM; b < LANES; b *= 2) {
                const int bit = b * SPAN;
                settled |= sf_tighten(a, loose);
                if (ALL / b > 1) {
#pragma unroll
                        for (int i = 0; i < N / 2; i++)
                                if (i < ALL / b / 2) {
                                        sf_acc even = a[2 * i % N], odd = a[(2 * i + 1) % N];
                                        sf_acc keep = sf_chosen<LEVEL>(lane & bit, odd, even);
                                        sf_acc other = sf_chosen<LEVEL>(lane & bit, even, odd);
                                        other = apart.template shuffle<LEVEL>(other, lane ^ bit, settled);
                                        a[i] = sf_combine_met<LEVEL>(keep, other, lane, bit);
                                }
                } else {
                        a[0] = sf_combine_met<LEVEL>(a[0], apart.template shuffle<LEVEL>(a[0], lane ^ bit, settled), lane, bit);
                }
        }
#pragma unroll
        for (int b = 1; b < MET; b *= 2) {
                settled |= sf_tighten(a, loose);
#pragma unroll
                for (int i = 0; i < ALL / MET; i++)
                        a[i] = sf_combine_met<LEVEL>(a[i], apart.template shuffle<LEVEL>(a[i], lane ^ (b * SPAN), settled), lane, b * SPAN);
        }
#pragma unroll
        for (int b = 1; b < ALL / MET; b *= 2) {
                settled |= sf_tighten(a, loose);
#pragma unroll
                for (int i = 0; i < ALL / MET; i++)
                        if (i % (2 * b) == 0 && i + b < ALL / MET)
                                a[i] = sf_joined<LEVEL>(a[i], a[(i + b) % N]);
        }
        return apart.put_back(sf_settled(a[0]), lane);
}
template <int LANES, int SPAN = 1, int N> SF_DEVICE sf_acc sf_fold_lanes(sf_acc (&a)[N], int lane, int loose = SF_WIDTH)
{
#if SF_LEVELS
        const auto with = ::sf_shuffle(a[0].first, 0);
        bool level = true;
#pragma unroll
        for (int i = 0; i < N; i++)
                level &= a[i].first == with;
        if (!sf_ballot(!level))
                return sf_fold_lanes_of<LANES, SPAN, true, 1, N>(a, lane, loose);
#endif
        return sf_fold_lanes_of<LANES, SPAN, false, 1, N>(a, lane, loose);
}

/* Products of single numbers, which are lifted late, if at all. */
#define SF_NUMBERS (SF_PRODUCTS && SF_MEMBERS == 1 && SF_COMMUTES && !SF_LIFTED)
#if SF_NUMBERS
/*
 * The same for products as numbers, each of which is the product of EACH elements. They are multiplied
 * as they are while they are products of at most 64 elements, which numbers near 1 and most random ones
 * allow. After that they are lifted, unless that is all. Returns false if some product is not normal;
 * `most` tells which are (sf_multiply_on).
 */
template <int LANES, int SPAN, int EACH, int N>
SF_DEVICE bool sf_fold_numbers(sf_number (&a)[N], sf_u32 most, int lane, sf_acc &total)
{
        enum { FROM = 64 / EACH < LANES ? 64 / EACH : LANES, LEFT = N / FROM > 0 ? N / FROM : 1 };
        enum { END = N * LANES * EACH <= 64, MET = N < LANES ? N : LANES };
#pragma unroll
        for (int b = 1; b < FROM; b *= 2) {
                const int bit = b * SPAN;
                if (N / b <= 1)
                        a[0] = sf_multiply_on(a[0], ::sf_shuffle(a[0], lane ^ bit), most);
#pragma unroll
                for (int i = 0; i < N / 2; i++)
                        if (i < N / b / 2) {
                                const sf_number even = a[2 * i % N], odd = a[(2 * i + 1) % N];
                                const sf_number sent = lane & bit ? even : odd;
                                a[i] = sf_multiply_on(lane & bit ? odd : even, ::sf_shuffle(sent, lane ^ bit), most);
                        }
        }
        if (END) {
#pragma unroll
                for (int b = 1; b < MET; b *= 2)
#pragma unroll
                        for (int i = 0; i < LEFT; i++)
                                a[i] = sf_multiply_on(a[i], ::sf_shuffle(a[i], lane ^ (b * SPAN)), most);
#pragma unroll
                for (int b = 1; b < LEFT; b *= 2)
#pragma unroll
                        for (int i = 0; i + b < LEFT; i += 2 * b)
                                a[i] = sf_multiply_on(a[i], a[(i + b) % N], most);
        }
#pragma unroll
        for (int i = 0; i < (END ? 1 : LEFT); i++)
                most = sf_most(most, sf_from_normal(a[i]));
        if (sf_ballot(most >= sf_normals(sf_number())))
                return false;
        sf_acc v[LEFT];
#pragma unroll
        for (int i = 0; i < LEFT; i++)
                v[i] = END ? sf_holds::made(a[i], 0) : sf_lift_normal(a[i], 0);
        total = END ? v[0] : sf_fold_lanes_of<LANES, SPAN, false, FROM, N>(v, lane, 1);
        return true;
}
#endif

/* The total of what the threads of a warp hold, for the columns of this lane (sf_columns). Products
 * that must be lifted are lifted a few at a time (sf_slice). */
template <int COLUMNS, int N> SF_DEVICE void sf_fold_warp_of(sf_acc (&v)[N][SF_WIDTH], int lane, sf_acc (&total)[sf_columns<COLUMNS>::SHARE])
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN };
#if SF_UNLIFTED && !SF_LIFTS
        enum { HALF = N / 2 ? N / 2 : 1 };
        if (N > sf_slice<N>::ITEMS) {
                sf_acc left[SHARE];
                sf_fold_warp_of<COLUMNS>(*(sf_acc(*)[HALF][SF_WIDTH]) & v[0], lane, left);
                sf_fold_warp_of<COLUMNS>(*(sf_acc(*)[HALF][SF_WIDTH]) & v[HALF % N], lane, total);
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        total[s] = sf_settled(sf_combine(left[s], total[s]));
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
                total[s] = sf_fold_lanes<32 / SPAN, SPAN>(a, lane);
        }
}

/* The same; products are tried as numbers. Returns whether that worked: then all numbers are normal. */
template <int COLUMNS, int N> SF_DEVICE bool sf_fold_warp(sf_acc (&v)[N][SF_WIDTH], int lane, sf_acc (&total)[sf_columns<COLUMNS>::SHARE])
{
#if SF_NUMBERS
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN };
        bool fine = true;
#pragma unroll
        for (int s = 0; s < SHARE; s++) {
                sf_number a[N];
                sf_u32 most = 0;
#pragma unroll
                for (int i = 0; i < N; i++) {
                        sf_number product[SF_WIDTH];
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                product[j] = v[i][j].mantissa;
#pragma unroll
                        for (int b = SHARE; b < SF_WIDTH; b *= 2)
#pragma unroll
                                for (int j = s; j + b < SF_WIDTH; j += 2 * b)
                                        product[j] = sf_multiply_on(product[j], product[(j + b) % SF_WIDTH], most);
                        a[i] = product[s];
                }
                fine = fine && sf_fold_numbers<32 / SPAN, SPAN, SF_WIDTH / SHARE>(a, most, lane, total[s]);
        }
        if (fine)
                return true;
#endif
        sf_fold_warp_of<COLUMNS>(v, lane, total);
        return false;
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
