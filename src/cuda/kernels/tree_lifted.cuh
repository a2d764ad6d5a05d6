/*
 * tree_lifted.cuh: scans of products of one sequence, of which a thread has registers for all pairs
 * (SF_LIFTS). tree_products.cuh includes it.
 *
 * Numbers are multiplied as they are within vectors, if these products are modest (value.cuh) in
 * all of a warp: then products within a vector are quotients of two of them, so normal numbers. Only
 * the last elements of the vectors are lifted. All others of a vector have one exponent, that of the
 * last element less the vector's own, and need one power of two. Otherwise all are lifted.
 */

/* Scans the numbers of the vectors of a thread, if that is modest in all of its warp. */
SF_DEVICE bool sf_multiply_vectors(sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        sf_acc plain[SF_ITEMS][SF_WIDTH];
        sf_u32 beyond = 0;
        sf_copy_elements(v, plain);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_multiply_vector<1>(plain[i]);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        beyond |= sf_beyond_modest(plain[i][j].mantissa);
        }
        if (sf_ballot(beyond & SF_BEYOND))
                return false;
        sf_copy_elements(plain, v);
        return true;
}

/* If nothing else is done to elements before they are lowered. */
#define SF_LOWERS_PLAIN (!SF_EXCLUSIVE && !SF_TOTAL && !SF_INITIAL)

/* Lifts the last elements of the vectors, which were multiplied as they are. Their mantissas are
 * above 1 in one lane and below 1 in the next, so that their product does not grow. */
SF_DEVICE void sf_lift_last(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane)
{
        enum { LAST = SF_WIDTH - 1 };
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                v[i][LAST] = sf_lift_normal(v[i][LAST].mantissa, lane & 1);
                const int own = (int)v[i][LAST].exponent;
#pragma unroll
                for (int j = LAST - 1; j >= 0; j--)
                        if (!SF_LOWERS_PLAIN && SF_PACKED && j % 2 == 0 && j + 2 < SF_WIDTH)
                                v[i][j].exponent = sf_pair(own, own);
                        else if (!SF_LOWERS_PLAIN || j == 0)
                                v[i][j].exponent = v[i][LAST].exponent;
        }
}

/* Scans what the threads of a warp hold. Returns whether vectors were multiplied as they are. (What
 * sf_multiply_warp has scanned is finished like these: all its exponents are 0.) */
template <int LANES, int COLUMNS, bool CHOOSE, class AGAIN>
SF_DEVICE bool sf_scan_warp(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, sf_acc neutral, sf_parked &,
                            AGAIN)
{
        static_assert(COLUMNS == 1 && SF_WIDTH > 1, "vectors of one sequence");
        const bool plain = sf_multiply_vectors(v);
        if (plain) {
                sf_lift_last(v, lane);
        } else {
                sf_lift_late(v);
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_join_vector<COLUMNS>(v[i]);
        }
        sf_scan_lanes<LANES, COLUMNS, CHOOSE, false>(v, lane, neutral);
        return plain;
}

/* As tree.cuh describes it. */
template <int LANES, int COLUMNS, int SPREAD>
SF_DEVICE void sf_finish(const sf_params &p, const sf_line &line, sf_i64 at, sf_i64 end,
                         bool closes, sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_before<1> &before,
                         bool plain, const sf_parked &, int lane,
                         sf_answer (&result)[SF_ITEMS][SF_WIDTH])
{
#if SF_LOWERS_PLAIN
        if (plain) {
                /* Elements with one exponent are checked once. */
                decltype(sf_from_near(v[0][0])) most = 0;
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        sf_acc &last = v[i][SF_WIDTH - 1];
                        last.exponent += before.owed[0];
                        const decltype(last.exponent) others = last.exponent - v[i][0].exponent;
#pragma unroll
                        for (int j = 0; j < SF_WIDTH - 1; j++)
                                v[i][j].exponent = others;
                        most = sf_holds::most_of(sf_holds::most_of(most, last), v[i][0]);
                }
                sf_holds::template lower_checked<SF_ITEMS * SF_WIDTH>(&v[0][0], most,
                                                                      &result[0][0]);
                return;
        }
#endif
        sf_complete(v, before);
        sf_answers<LANES, COLUMNS, SPREAD>(p, line, at, end, closes, v, before, lane, result);
}
