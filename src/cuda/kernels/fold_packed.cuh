/*
 * fold_packed.cuh: folds of bytes in any order, four of a word at a time. fold.cu includes it.
 *
 * Converted one by one, bytes take about twelve instructions each, and memory brings them faster
 * than that. Sums of columns are kept in halves of a word, two columns in each: the even bytes and
 * the odd ones. For the largest and the smallest, the bytes are the upper bytes of such halves;
 * what is below them decides only between equal bytes.
 */
#if SF_FREE && SF_COMMUTES && SF_MEMBERS == 1 && SF_SIZE(SF_IN) == 1 && SF_WIDTH > 1 &&            \
        !SF_MASK && !SF_FUSED && !SF_LIFTED && !SF_STAGED && SF_OP <= SF_OP_MIN &&                 \
        SF_OP != SF_OP_PROD
#define SF_PACKED 1
enum { SUMS = SF_OP == SF_OP_SUM, BELOW_ZERO = SF_IN == SF_DT_I8 };
enum { WORDS = (SF_WIDTH + 3) / 4, FILLED = SF_WIDTH < 4 ? SF_WIDTH : 4 };

/* Four elements. A bool is any byte; true counts as 1. */
SF_DEVICE sf_u32 sf_four(sf_u32 word)
{
        if (SF_IN != SF_DT_BOOL)
                return word;
        return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) >> 7 & 0x01010101u;
}

SF_DEVICE sf_u32 sf_better_halves(sf_u32 a, sf_u32 b)
{
        return sf_extreme_halves<SF_OP == SF_OP_MAX, BELOW_ZERO>(a, b);
}

/* The byte in bits 8 to 15, or 24 to 31 (`high`), as a number. */
SF_DEVICE sf_acc sf_upper_byte(sf_u32 v, bool high)
{
        const sf_u32 top = high ? v : v << 16;
        return BELOW_ZERO ? (sf_acc)((int)top >> 24) : (sf_acc)(top >> 24);
}

/* `low` and `high` bound the bytes of a vector that count: others become neutral. */
SF_DEVICE sf_u32 sf_bounded(sf_u32 word, int low, int high)
{
        const sf_u32 first = SF_OP == SF_OP_MIN ? 0xffffffffu : 0;
        const sf_u32 neutral = SUMS || !BELOW_ZERO ? first : first ^ 0x80808080u;
        const sf_u32 below = high >= 4 ? 0xffffffffu : high <= 0 ? 0 : (1u << 8 * high) - 1;
        const sf_u32 above = low >= 4 ? 0 : low <= 0 ? 0xffffffffu : 0xffffffffu << 8 * low;
        return (word & below & above) | (neutral & ~(below & above));
}

/* The fold of a vector, of which the bytes from `low` to before `high` count. */
SF_DEVICE sf_acc sf_fold_packed(const sf_vector &v, int low, int high)
{
        const bool all = low <= 0 && high >= SF_WIDTH;
        sf_u32 even = 0, odd = 0;
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
                sf_u32 x = sf_four(v.x.w[w]);
                if (!all || SF_WIDTH < 4)
                        x = sf_bounded(x, low - 4 * w, (high < SF_WIDTH ? high : SF_WIDTH) - 4 * w);
                if (SUMS) {
                        even = sf_sum_bytes<BELOW_ZERO>(x, even);
                } else {
                        even = w ? sf_better_halves(even, x << 8) : x << 8;
                        odd = w ? sf_better_halves(odd, x) : x;
                }
        }
        if (SUMS)
                return BELOW_ZERO ? (sf_acc)(int)even : (sf_acc)even;
        even = sf_better_halves(even, odd);
        return sf_upper_byte(sf_better_halves(even, even >> 16), false);
}

/* The folds of each of a vector's columns, over N rows. Rows that do not exist are 0. */
template <int N, int ROWS>
SF_DEVICE void sf_fold_packed(const sf_vector (&v)[N][ROWS], int q, sf_acc *to)
{
        static_assert(N <= 256, "a half of a word holds the sum of so many bytes");
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
                sf_u32 even = 0, odd = 0;
#pragma unroll
                for (int i = 0; i < N; i++) {
                        sf_u32 x = sf_four(v[i][q].x.w[w]);
                        if (SUMS) {
                                x ^= BELOW_ZERO ? 0x80808080u : 0; /* 128 more */
                                even += x & 0xff00ffu;
                                odd += x >> 8 & 0xff00ffu;
                        } else {
                                even = i ? sf_better_halves(even, x << 8) : x << 8;
                                odd = i ? sf_better_halves(odd, x) : x;
                        }
                }
#pragma unroll
                for (int j = 0; j < FILLED; j++) {
                        const sf_u32 own = j & 1 ? odd : even;
                        if (!SUMS)
                                to[4 * w + j] = sf_upper_byte(own, j & 2);
                        else
                                to[4 * w + j] = (sf_acc)((int)(j & 2 ? own >> 16 : own & 0xffff) -
                                                         (BELOW_ZERO ? 128 * N : 0));
                }
        }
}
#else
#define SF_PACKED 0
#endif
