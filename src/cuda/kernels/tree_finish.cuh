/*
 * tree_finish.cuh: from the values of a scan to its results. tree.cuh includes it.
 */

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
