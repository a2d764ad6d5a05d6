/*
 * tree_products.cuh: scans of products. tree.cuh includes it.
 *
 * Elements come as numbers with the exponent 0, not yet lifted (SF_UNLIFTED). If a warp's products
 * are likely to stay in the range, it scans the numbers as they are: a register for each, as a sum
 * has. If all results are whole (value.cuh), they have the bits of lifted products. Otherwise the
 * warp reads its numbers again. Numbers whose products leave the range are lifted, a slice at a
 * time, and scanned as pairs. Their mantissas stay where the numbers were. The exponents are parked
 * until the results are lowered, as far as possible in registers, else in local memory. SF_ROLLS:
 * all of them in local memory, slice by slice in a loop; for kernels that would spill otherwise.
 * SF_LIFTS: rows for whose pairs there are registers. tree_lifted.cuh has another way for them.
 *
 * Why whole results are right. Every product on the way is a factor of some result. One of f32 that is
 * subnormal counts as zero (sf_multiply_flushed), so whatever is not a normal number shows: that result
 * is zero, infinite or NaN. Products of f64 are those of the elements from some i to some j: a result
 * itself, or the quotient of results j and i - 1, but for a few roundings. Whole ones are in [2^-860,
 * 2^160), so it is a normal number, rounded as that of the mantissas is. Conversely, the first product
 * that is no normal number shows in a result. If it is subnormal, result j is less than 2^160 times
 * 2^-1022, and what later roundings of subnormal numbers add is far below 2^-860: it is not whole.
 *
 * Whatever comes from other warps and tiles is a pair, settled. Its mantissa is multiplied with the
 * numbers or mantissas; of the exponents one sum for each column is kept (sf_before). After a scan,
 * an element of a thread has the exponent 0, except for the last elements of the last item: they
 * have theirs, since they are the warp's total.
 *
 * The rows of a thread are scanned in the same way, by that thread alone. If it has few, there are
 * registers for pairs (SF_KEEPS_ROWS): nothing is read again, and exponents are not parked.
 */

/* Bytes of values: of a slice, and of rows that are kept. On the host tiles are small, but shall
 * have several slices. */
#ifdef SF_HOST
#define SF_SLICE 16
#define SF_KEPT 32
#else
#define SF_SLICE (SF_ROLLS ? 64 : 128)
#define SF_KEPT 128
#endif
/* Exponents of 32 bits are held in pairs, two in one register. 16 bits are enough: the exponent of a
 * product of 128 numbers is less than 2^15. */
#define SF_PACKED (SF_LIFTS && SF_VALUE_SIZE == 8)
#define SF_KEEPS_ROWS (SF_ITEMS * SF_WIDTH * SF_VALUE_SIZE <= SF_KEPT)

/* A slice has as many vectors of a thread as there are registers for, if they are lifted: eight
 * elements of f32, or one vector. N: vectors in all. A slice is a block of the order. */
template <int N, int M = 1,
          bool FITS = (N % (2 * M) == 0 && 2 * M * SF_WIDTH * SF_VALUE_SIZE <= SF_SLICE)>
struct sf_slice {
        enum { ITEMS = M };
};
template <int N, int M> struct sf_slice<N, M, true> {
        enum { ITEMS = sf_slice<N, 2 * M>::ITEMS };
};

SF_DEVICE void sf_copy_elements(const sf_acc (&from)[SF_ITEMS][SF_WIDTH],
                                sf_acc (&to)[SF_ITEMS][SF_WIDTH])
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        to[i][j] = from[i][j];
}

/* Scans the numbers of a vector in the order, as COLUMNS interleaved sequences. */
template <int COLUMNS> SF_DEVICE void sf_multiply_vector(sf_acc (&v)[SF_WIDTH])
{
#pragma unroll
        for (int b = COLUMNS; b < SF_WIDTH; b *= 2)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (j & b) {
                                const int from = j / b * b - COLUMNS + j % COLUMNS;
                                v[j].mantissa = sf_multiply_flushed(
                                        v[from & (SF_WIDTH - 1)].mantissa, v[j].mantissa);
                        }
}

/* Scans one vector of lifted elements. Exponents are stored as described at SF_SPARES_EXPONENTS. */
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
        if (SF_PACKED)
#pragma unroll
                for (int j = 0; j + 2 < SF_WIDTH; j += 2)
                        v[j].exponent = sf_pair((int)v[j].exponent, (int)v[j + 1].exponent);
        sf_multiply_vector<COLUMNS>(v);
}

/* Gives every element its full exponent. */
template <int SHARE, int N>
SF_DEVICE void sf_complete(sf_acc (&v)[N][SF_WIDTH], const sf_before<SHARE> &before)
{
#pragma unroll
        for (int i = 0; i < N; i++) {
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        v[i][SF_WIDTH - SHARE + s].exponent += before.owed[s];
                if (SF_PACKED)
#pragma unroll
                        for (int j = 0; j + 2 < SF_WIDTH; j += 2) {
                                v[i][j + 1].exponent = v[i][j].exponent >> 16;
                                v[i][j].exponent = (short)v[i][j].exponent;
                        }
#pragma unroll
                for (int j = 0; j < SF_WIDTH - SHARE; j++)
                        v[i][j].exponent = v[i][SF_WIDTH - SHARE + j % SHARE].exponent -
                                           v[i][j].exponent;
        }
}

/* Whether all that a thread has scanned is whole. */
SF_DEVICE bool sf_is_whole(const sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        sf_u32 most = 0;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        const sf_u32 own = sf_from_whole(v[i][j].mantissa);
                        most = own > most ? own : most;
                }
        return most < sf_wholes(v[0][0].mantissa);
}

/*
 * Whether the products of a warp are likely to be whole: half of its lanes must have products near
 * 1 in a vector, or in some rows of a column. So warps whose products leave the range anyway, as those
 * of most random numbers do, keep their numbers.
 */
template <int LANES, int COLUMNS>
SF_DEVICE bool sf_may_be_whole(const sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN };
        enum { SOME = SF_WIDTH > SHARE ? 1 : 8, EVERY = SF_ITEMS > SOME ? SF_ITEMS / SOME : 1 };
        enum { ASKED = (SF_ITEMS + EVERY - 1) / EVERY };
        sf_number all = 1;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i += EVERY)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j += SHARE)
                        all = i + j ? sf_multiply(all, v[i][j].mantissa) : v[0][0].mantissa;
        const int sum = sf_log2_about(all);
        /* so many lanes have a column */
        enum { SHARING = LANES / SPAN };
        const int off = sf_log2_near(sf_number());
        const int small = sf_log2_small(sf_number()) / SHARING * ASKED / SF_ITEMS + off;
        const int large = sf_log2_large(sf_number()) / SHARING * ASKED / SF_ITEMS + off;
        return sf_count_bits(sf_ballot(sum > large || sum < -small)) < 16;
}

/* Scans the numbers of a warp as they are. Returns whether all is whole; if not, the numbers are
 * still there, or there again: again(v) reads them. */
template <int LANES, int COLUMNS, bool CHOOSE, class AGAIN>
SF_DEVICE bool sf_multiply_warp(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc neutral,
                                AGAIN again, bool ask = true)
{
        /* With SF_ROLLS to ask gains nothing: rows of 35, near 1, 0.87, without 0.95. */
        if (!SF_ROLLS && ask && !sf_may_be_whole<LANES, COLUMNS>(v))
                return false;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_multiply_vector<COLUMNS>(v[i]);
        sf_scan_lanes<LANES, COLUMNS, CHOOSE, true>(v, lane, neutral);
        const bool whole = !sf_ballot(!sf_is_whole(v));
        if (!whole)
                again(v);
        return whole;
}

/* Converts numbers that are whole to results: one power of two for each column. In a long sequence most
 * are so small that results are zeros, unless what comes before is infinite or NaN: so that is asked. */
template <int SHARE>
SF_DEVICE void sf_lower_whole(sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_before<SHARE> &before,
                              sf_answer (&result)[SF_ITEMS][SF_WIDTH])
{
        decltype(sf_from_near(v[0][0])) most = 0;
        bool vanish = SHARE > 1 || SF_VALUE_SIZE > 8; /* else it gains nothing */
#pragma unroll
        for (int s = 0; s < SHARE; s++) {
                most = sf_holds::most_of(most, sf_holds::made(0, (sf_u64)before.owed[s]));
                vanish &= before.owed[s] <= sf_vanishing(sf_number()) &&
                          sf_magnitude(v[0][s].mantissa) < sf_infinity(sf_number());
        }
        if (vanish) {
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                result[i][j] = sf_multiply(v[i][j].mantissa, 0);
                return;
        }
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j].exponent = before.owed[j % SHARE];
        sf_holds::template lower_checked<SF_ITEMS * SF_WIDTH>(&v[0][0], most, &result[0][0]);
}

#if SF_LIFTS
#include "tree_lifted.cuh"
#else
/*
 * Lifts and scans numbers, a slice at a time: scan(slice) lifts and scans one, and total(slice,
 * before, totals) finds its totals. Slices are combined by a binary counter, as tiles are.
 */
template <int SHARE, class SCAN, class TOTAL>
SF_DEVICE void sf_scan_slices(sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_parked &parked, SCAN scan,
                              TOTAL total)
{
        enum { ITEMS = sf_slice<SF_ITEMS>::ITEMS, SLICES = SF_ITEMS / ITEMS };
        enum { LEVELS = SLICES > 32 ? 6 : SLICES > 16 ? 5 : SLICES > 8 ? 4 : SLICES > 4 ? 3 : SLICES > 2 ? 2 : 1 };
        static_assert(SLICES <= 64, "a counter of six entries");
        sf_acc entry[LEVELS][SHARE];
        enum { UNROLLED = SF_ROLLS ? 1 : SLICES };
        const int zero = sf_anew(0);
#if SF_ROLLS
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        parked.number[i][j] = v[i][j].mantissa;
#pragma unroll
        for (int k = 0; k < LEVELS; k++)
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        entry[k][s] = sf_acc();
#endif
#pragma unroll UNROLLED
        for (int h = 0; h < SLICES; h++) {
                sf_acc slice[ITEMS][SF_WIDTH];
                sf_before<SHARE> before = sf_none_before<SHARE>();
                /* sf_anew: else the compiler unrolls the loop, or keeps in registers whatever it can
                 * at the cost of what is needed more. */
                const int first = SF_ROLLS ? sf_anew(h * ITEMS) : h * ITEMS;
                const int place = SF_ROLLS ? first : zero + first;
#pragma unroll
                for (int i = 0; i < ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
#if SF_ROLLS
                                slice[i][j] = sf_holds::made(parked.number[first + i][j], 0);
#else
                                slice[i][j] = v[first + i][j];
#endif
                scan(slice);
                bool carries = true;
#pragma unroll
                for (int k = 0; k < LEVELS; k++)
                        if (h >> k & 1) {
                                sf_take_all(entry[k], slice, before);
                        } else {
                                if (carries)
                                        total(slice, before, entry[k]);
                                carries = false;
                        }
                sf_complete(slice, before);
#pragma unroll
                for (int i = 0; i < ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++) {
                                parked.exponent[place + i][j] = slice[i][j].exponent;
#if SF_ROLLS
                                parked.number[first + i][j] = slice[i][j].mantissa;
#else
                                v[first + i][j] = sf_holds::made(slice[i][j].mantissa, 0);
#endif
                        }
        }
#if SF_ROLLS
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j] = sf_holds::made(parked.number[i][j], 0);
#endif
#pragma unroll
        for (int j = SF_WIDTH - SHARE; j < SF_WIDTH; j++)
                v[SF_ITEMS - 1][j].exponent = parked.exponent[SF_ITEMS - 1][j];
}

/* The last elements of a slice, with what they owe. */
template <int SHARE, int N>
SF_DEVICE void sf_slice_total(const sf_acc (&v)[N][SF_WIDTH], const sf_before<SHARE> &before,
                              sf_acc (&total)[SHARE])
{
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                total[s] = v[N - 1][SF_WIDTH - SHARE + s];
        sf_pay(before, total);
        sf_settle_all(total);
}

/* Scans what the threads of a warp hold, lifted. */
template <int LANES, int COLUMNS, bool CHOOSE>
SF_DEVICE void sf_scan_warp_lifted(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc neutral,
                                   sf_parked &parked)
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN };
        enum { ITEMS = sf_slice<SF_ITEMS>::ITEMS };
        const int last = (lane & -LANES) + LANES - SPAN + (lane & (SPAN - 1));
        sf_scan_slices<SHARE>(
                v, parked,
                [&](sf_acc(&slice)[ITEMS][SF_WIDTH]) {
                        sf_lift_late(slice);
#pragma unroll
                        for (int i = 0; i < ITEMS; i++)
                                sf_join_vector<COLUMNS>(slice[i]);
                        sf_scan_lanes<LANES, COLUMNS, CHOOSE, false>(slice, lane, neutral);
                },
                [&](const sf_acc(&slice)[ITEMS][SF_WIDTH], const sf_before<SHARE> &before,
                    sf_acc(&total)[SHARE]) {
                        sf_slice_total(slice, before, total);
#pragma unroll
                        for (int s = 0; s < SHARE; s++)
                                total[s] = sf_of_lane<LANES>(total[s], last);
                });
}

/* Scans what the threads of a warp hold. Returns whether all is whole. */
template <int LANES, int COLUMNS, bool CHOOSE, class AGAIN>
SF_DEVICE bool sf_scan_warp(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc neutral,
                            sf_parked &parked, AGAIN again, bool ask = true)
{
        const bool whole = sf_multiply_warp<LANES, COLUMNS, CHOOSE>(v, lane, neutral, again, ask);
        if (!whole)
                sf_scan_warp_lifted<LANES, COLUMNS, CHOOSE>(v, lane, neutral, parked);
        return whole;
}

/* Lifts and scans rows of a thread. */
template <int N> SF_DEVICE void sf_lift_rows(sf_acc (&v)[N][SF_WIDTH])
{
        sf_lift_late(v);
#pragma unroll
        for (int i = 1; i < N; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j].exponent += v[i - 1][j].exponent;
        sf_scan_rows_of<false>(v);
}

/* The same for the rows of a thread. */
template <class AGAIN>
SF_DEVICE bool sf_scan_rows(sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_parked &parked, AGAIN again)
{
        enum { ITEMS = sf_slice<SF_ITEMS>::ITEMS };
#if SF_KEEPS_ROWS
        sf_acc lifted[SF_ITEMS][SF_WIDTH];
        sf_copy_elements(v, lifted);
        sf_scan_rows_of<true>(v);
        if (sf_is_whole(v))
                return true;
        sf_lift_rows(lifted);
        sf_copy_elements(lifted, v);
        return false;
#endif
        sf_scan_rows_of<true>(v);
        if (sf_is_whole(v))
                return true;
        again(v);
        sf_scan_slices<SF_WIDTH>(
                v, parked,
                [&](sf_acc(&slice)[ITEMS][SF_WIDTH]) { sf_lift_rows(slice); },
                [&](const sf_acc(&slice)[ITEMS][SF_WIDTH], const sf_before<SF_WIDTH> &before,
                    sf_acc(&total)[SF_WIDTH]) { sf_slice_total(slice, before, total); });
        return false;
}

/* An element with its full exponent. */
template <bool ROWS = true, int SHARE>
SF_DEVICE sf_acc sf_value_of(const sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_before<SHARE> &before,
                             bool whole, const sf_parked &parked, int i, int j)
{
        auto exponent = before.owed[j % SHARE];
        if (!whole)
                exponent += ROWS && SF_KEEPS_ROWS ? v[i][j].exponent : parked.exponent[i][j];
        return sf_holds::made(v[i][j].mantissa, (sf_u64)exponent);
}

/* Combines elements with the initial value, if there is one, and converts them to results. */
template <bool ROWS, int SHARE>
SF_DEVICE void sf_lower_products(const sf_params &p, sf_acc (&v)[SF_ITEMS][SF_WIDTH],
                                 sf_before<SHARE> before, bool whole, const sf_parked &parked,
                                 sf_answer (&result)[SF_ITEMS][SF_WIDTH])
{
        (void)p;
#if SF_INITIAL
        sf_acc initial[SHARE];
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                initial[s] = sf_acc_of(p.initial);
        sf_take_all(initial, v, before);
#endif
        if (whole) {
                sf_lower_whole(v, before, result);
        } else {
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                v[i][j] = sf_value_of<ROWS>(v, before, false, parked, i, j);
                        sf_holds::template lower_all<SF_WIDTH>(v[i], result[i]);
                }
        }
}

#if SF_EXCLUSIVE
/* What the first results become, if anything comes before them. */
template <int SHARE>
SF_DEVICE void sf_head_results(const sf_params &p, const sf_before<SHARE> &before,
                               sf_answer (&head)[SHARE])
{
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                head[s] = sf_holds::lower(
                        sf_begin(p, sf_choose(before.any, before.e[s], sf_identity(p))));
}
#endif

/* As tree.cuh describes it. Results are shifted, not products: they have no exponents. */
template <int LANES, int COLUMNS, int SPREAD>
SF_DEVICE void sf_finish(const sf_params &p, const sf_line &line, sf_i64 at, sf_i64 end,
                         bool closes, sf_acc (&v)[SF_ITEMS][SF_WIDTH],
                         const sf_before<sf_columns<COLUMNS>::SHARE> &before, bool whole,
                         const sf_parked &parked, int lane,
                         sf_answer (&result)[SF_ITEMS][SF_WIDTH])
{
        (void)line, (void)at, (void)end, (void)closes, (void)lane;
#if SF_TOTAL
        if (closes) {
                sf_acc full[SF_ITEMS][SF_WIDTH];
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                full[i][j] = sf_value_of<false>(v, before, whole, parked, i, j);
                sf_store_totals<COLUMNS, SPREAD>(p, line, at, end, full);
        }
#endif
        sf_lower_products<false>(p, v, before, whole, parked, result);
#if SF_EXCLUSIVE
        sf_answer head[sf_columns<COLUMNS>::SHARE];
        sf_head_results(p, before, head);
        sf_shift<LANES, COLUMNS>(result, lane, true, head, head[0]);
#endif
}

SF_DEVICE void sf_finish_rows(const sf_params &p, sf_acc (&v)[SF_ITEMS][SF_WIDTH],
                              const sf_before<SF_WIDTH> &before, bool whole,
                              const sf_parked &parked, sf_answer (&result)[SF_ITEMS][SF_WIDTH])
{
        sf_lower_products<true>(p, v, before, whole, parked, result);
#if SF_EXCLUSIVE
        sf_answer head[SF_WIDTH];
        sf_head_results(p, before, head);
        sf_shift_rows(result, true, head, head[0]);
#endif
}
#endif
