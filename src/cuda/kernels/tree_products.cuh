/*
 * tree_products.cuh: scans of numbers by multiplication, before they are lifted to products
 * (value.cuh). tree.cuh includes it and says what SF_UNLIFTED, SF_SPARES_EXPONENTS and SF_IS_PLAIN
 * mean.
 */

/* Lifts the elements of a thread, where that has been left for later. */
template <int N> SF_DEVICE void sf_lift_late(sf_acc (&v)[N][SF_WIDTH])
{
        (void)v;
#if SF_UNLIFTED
        sf_number numbers[N][SF_WIDTH];
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        numbers[i][j] = v[i][j].mantissa;
        sf_holds::template lift_all<N * SF_WIDTH>(&numbers[0][0], &v[0][0]);
#endif
}

#if SF_SPARES_EXPONENTS
/* Scans the numbers of a vector in the order, as COLUMNS interleaved sequences. */
template <int COLUMNS> SF_DEVICE void sf_multiply_vector(sf_acc (&v)[SF_WIDTH])
{
#pragma unroll
        for (int b = COLUMNS; b < SF_WIDTH; b *= 2)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (j & b)
                                v[j].mantissa = sf_multiply(v[(j / b * b - COLUMNS + j % COLUMNS) & (SF_WIDTH - 1)].mantissa, v[j].mantissa);
}

/* Scans one vector in the order. Exponents are stored as described at SF_SPARES_EXPONENTS. */
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
        sf_multiply_vector<COLUMNS>(v);
}

#if SF_UNLIFTED
SF_DEVICE void sf_copy_all(const sf_acc (&from)[SF_ITEMS][SF_WIDTH], sf_acc (&to)[SF_ITEMS][SF_WIDTH])
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        to[i][j] = from[i][j];
}

/* Scans the numbers of the vectors of a thread, if that is modest in all of its warp. */
template <int COLUMNS> SF_DEVICE bool sf_multiply_vectors(sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        sf_acc plain[SF_ITEMS][SF_WIDTH];
        sf_u32 beyond = 0;
        sf_copy_all(v, plain);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_multiply_vector<COLUMNS>(plain[i]);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        beyond |= sf_beyond_modest(plain[i][j].mantissa);
        }
        if (sf_ballot(beyond & SF_BEYOND))
                return false;
        sf_copy_all(plain, v);
        return true;
}

/* Lifts the last elements of the vectors, which were multiplied as they are. Their mantissas are
 * above 1 in one lane and below 1 in the next, so that their product does not grow. */
template <int COLUMNS> SF_DEVICE void sf_lift_last(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane)
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, FIRST = SF_WIDTH - SHARE };
        const int half = lane / sf_columns<COLUMNS>::SPAN & 1;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = SF_WIDTH - 1; j >= 0; j--)
                        if (j >= FIRST)
                                v[i][j] = sf_lift_normal(v[i][j].mantissa, half);
                        else if (!SF_LOWERS_PLAIN && SF_PAIRS(COLUMNS) && j % 2 == 0 && j + 2 < SF_WIDTH)
                                v[i][j].exponent = sf_pair((int)v[i][FIRST].exponent, (int)v[i][FIRST].exponent);
                        else if (!SF_LOWERS_PLAIN || j < SHARE)
                                v[i][j].exponent = v[i][FIRST + j % SHARE].exponent;
}

/* Whether the products of a warp may stay in the range: half of its lanes must have products near
 * 1. So warps whose products leave it anyway, as those of most random numbers do, need not try. */
template <int COLUMNS> SF_DEVICE bool sf_may_be_whole(const sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, FIRST = SF_WIDTH - SHARE };
        int sum = 0;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        sum += sf_log2_about(v[i][FIRST + s].mantissa);
        sum /= SHARE;
        const int most = sf_log2_near(v[0][0].mantissa);
        return sf_count_bits(sf_ballot(sum > most || sum < -most)) < 16;
}

/* Whether the products that a thread has scanned are in a range in which they, and so the
 * quotients of any two, are exact products of numbers. */
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
#endif
#endif
