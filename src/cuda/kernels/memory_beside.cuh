/*
 * memory_beside.cuh: vectors at any address, which the lanes of a warp put together of what they
 * have. memory.cuh includes it.
 *
 * A device loads and stores a vector only at a multiple of its size. Of vectors that follow each
 * other in memory, each of the aligned ones has the end of one vector and the beginning of the next.
 * Neighbouring lanes have neighbouring vectors, so what a lane lacks the lane beside it has: only
 * those words are exchanged, at most half of a vector, and the compiler knows which they are.
 */

/*
 * Item i of lane l is number 32 * i + l of a run of vectors that follow each other in memory (UNIT <
 * 0: backwards). Of each two neighbours in memory, the bytes from `from` on, which are a vector too,
 * are wanted. FROM is the word of that. In the first half of a vector, each lane has the lower
 * neighbour, lacks the beginning of the upper one, and gets the result. Otherwise it has the upper
 * one, and lacks the end of the lower. What is lacking at the end of the run is in `beyond`.
 */
SF_DEVICE constexpr bool sf_joins_upward(int from, int bytes) { return from / 4 < bytes / 8; }

template <int FROM, int UNIT, int SIZE, int BYTES, int N>
SF_DEVICE void sf_join_at(sf_raw<BYTES> (&v)[N], const sf_raw<BYTES> &beyond, int from, int lane)
{
        enum {
                UP = sf_joins_upward(4 * FROM, BYTES),
                TAKE = (UNIT < 0) == UP ? -1 : 1, /* whose: the lane above or below */
                FIRST = UP ? 0 : FROM, END = UP ? FROM + (SIZE < 4) : BYTES / 4, /* words */
                EDGE = TAKE > 0 ? 31 : 0, /* takes from another item */
        };
        const bool edge = lane == EDGE, gives = lane == 31 - EDGE;
#pragma unroll
        for (int k = 0; k < N; k++) {
                const int i = TAKE > 0 ? k : N - 1 - k, after = k + 1 < N ? i + TAKE : i;
                sf_raw<BYTES> lacking;
                sf_clear(lacking);
#pragma unroll
                for (int w = FIRST; w < END; w++) {
                        lacking.w[w] = ::sf_shuffle(gives ? v[after].w[w] : v[i].w[w], (lane + TAKE) & 31);
                        if (k + 1 == N && edge)
                                lacking.w[w] = beyond.w[w];
                }
                v[i] = UP ? sf_cut_at<FROM, SIZE>(v[i], lacking, from) : sf_cut_at<FROM, SIZE>(lacking, v[i], from);
        }
}

/* Can elements of SIZE bytes begin in word FROM of a vector, but at its beginning? */
template <int FROM, int SIZE, int BYTES> SF_DEVICE constexpr bool sf_is_place()
{
        return FROM < BYTES / 4 && (SIZE < 4 || (FROM && FROM % (SIZE < 4 ? 1 : SIZE / 4) == 0));
}

/* The same, wherever that is. All lanes of the warp are here together. */
template <int UNIT, int SIZE, int BYTES, int N>
SF_DEVICE void sf_join(sf_raw<BYTES> (&v)[N], const sf_raw<BYTES> &beyond, int from, int lane)
{
        if constexpr (sf_is_place<3, SIZE, BYTES>())
                if (from >= 12)
                        return sf_join_at<3, UNIT, SIZE>(v, beyond, from, lane);
        if constexpr (sf_is_place<2, SIZE, BYTES>())
                if (from >= 8)
                        return sf_join_at<2, UNIT, SIZE>(v, beyond, from, lane);
        if constexpr (sf_is_place<1, SIZE, BYTES>())
                if (from >= 4)
                        return sf_join_at<1, UNIT, SIZE>(v, beyond, from, lane);
        if constexpr (sf_is_place<0, SIZE, BYTES>())
                if (from)
                        sf_join_at<0, UNIT, SIZE>(v, beyond, from, lane);
}
