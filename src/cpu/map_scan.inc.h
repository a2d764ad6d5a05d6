/*
 * map_scan.inc.h: scans of narrow integers in lanes of their own size. Template, included once a size by map_types.inc.h.
 *
 * Parameters (undefined again at the foot):
 *   S_NAME   u8 or u16, S_C its C type and S_SIZE its bytes
 *
 * Integers wrap: whatever the order, the bits are the same. Inside the 8-byte parts of a vector elements move by shifts, and between parts as
 * lanes do. Shifts bring zeros in, which add nothing to a sum; for max and min, elements become unsigned numbers of which the largest is
 * wanted (own_way).
 */
#define S_CAT_(a, b) a##_##b
#define S_CAT(a, b) S_CAT_(a, b)
#define N(name) S_CAT(name, S_NAME)
#define S_WIDTH (V_BYTES / S_SIZE)
#define S_BITS (8 * S_SIZE)

typedef S_C N(own) __attribute__((vector_size(V_BYTES)));
typedef S_C N(own_at) __attribute__((vector_size(V_BYTES), aligned(1), may_alias));
typedef uint8_t N(own_marks) __attribute__((vector_size(S_WIDTH), aligned(1), may_alias));

SF_INLINE N(own) N(own_join)(const bool sum, N(own) a, N(own) b)
{
        return sum ? a + b : (N(own))S_CAT(v_max, S_NAME)((v_raw)a, (v_raw)b);
}

/* Elements first .. first + count - 1 of the vector at p; the others come out as zero, and their memory is not touched. */
SF_INLINE N(own) N(own_load)(const char *p, int first, int count)
{
        if (count == S_WIDTH)
                return *(const N(own_at) *)p;
#ifdef V_MASK_BITS
        return (N(own))v_bytes_load(p, first * S_SIZE, count * S_SIZE);
#else
        char whole[V_BYTES] = {0};
        memcpy(whole + first * S_SIZE, p + first * S_SIZE, (size_t)(count * S_SIZE));
        return *(const N(own_at) *)whole;
#endif
}
SF_INLINE void N(own_store)(char *p, N(own) v, int first, int count)
{
        if (count == S_WIDTH) {
                *(N(own_at) *)p = v;
                return;
        }
#ifdef V_MASK_BITS
        v_bytes_store(p, (v_raw)v, first * S_SIZE, count * S_SIZE);
#else
        memcpy(p + first * S_SIZE, (const char *)&v + first * S_SIZE, (size_t)(count * S_SIZE));
#endif
}

/* As it is computed with: sums as they are. */
SF_INLINE N(own) N(own_turn)(const bool sum, const own_way *way, N(own) v)
{
        return sum ? v : N(own_join)(false, v ^ (S_C)way->turn, (N(own)){0} + (S_C)way->least) ^ (S_C)way->again;
}
SF_INLINE N(own) N(own_in)(const bool sum, const own_way *way, const char *x, const uint8_t *m, int first, int count)
{
        N(own) v = N(own_turn)(sum, way, N(own_load)(x, first, count));
        if (!sum && count != S_WIDTH)
                v = (N(own))v_bytes_keep((v_raw)v, first * S_SIZE, count * S_SIZE);
        if (!m)
                return v;
        uint8_t part[S_WIDTH] = {0};
        if (count != S_WIDTH)
                m = (uint8_t *)memcpy(part + first, m + first, (size_t)count) - first;
        return v & (N(own))(__builtin_convertvector(*(const N(own_marks) *)m, N(own)) != 0);
}

/* A part's last element, in all of it. */
SF_INLINE N(own) N(own_spread)(const bool down, N(own) v)
{
#ifdef V_SHUFFLE
        static const uint8_t from[2][16] = {
#define PART8(i, f) (i) + (f), (i) + (f) + 1 % S_SIZE, (i) + (f), (i) + (f) + 1 % S_SIZE, (i) + (f), (i) + (f) + 1 % S_SIZE, (i) + (f), (i) + (f) + 1 % S_SIZE
                {PART8(0, 8 - S_SIZE), PART8(8, 8 - S_SIZE)}, {PART8(0, 0), PART8(8, 0)}
#undef PART8
        };
        return (N(own))v_shuffle16((v_raw)v, from[down]);
#endif
        const v_u64 last = down ? (v_u64)v & ((1u << S_BITS) - 1) : (v_u64)v >> (64 - S_BITS);
        const v_u64 half = (v_u64)((v_u32)last * (S_SIZE == 1 ? 0x01010101u : 0x00010001u));
        return (N(own))(half | half << 32);
}

SF_INLINE N(own) N(own_shift)(const bool down, N(own) v, int bits)
{
        return (N(own))(down ? (v_u64)v >> bits : (v_u64)v << bits);
}

/* Elements first .. first + count - 1 of one vector. */
SF_INLINE N(own) N(own_step)(const sf_own_scan *j, const own_way *way, const bool sum, const bool down, const own_tables *t, const char *x,
                             const uint8_t *m, int first, int count, N(own) *carry)
{
        N(own) v = N(own_in)(sum, way, x, m, first, count);
        V_UNROLL
        for (int bits = S_BITS; bits < 64; bits *= 2)
                v = N(own_join)(sum, v, N(own_shift)(down, v, bits));
        N(own) parts = N(own_spread)(down, v);
        V_UNROLL
        for (int k = 0; k < OWN_LEVELS; k++) {
                parts = N(own_join)(sum, (N(own))v_blend_u64(t->level_on[k], v_permute8((v_raw)parts, t->level[k]), (v_u64){0}), parts);
        }
        if (j->exclusive)
                v = N(own_shift)(down, v, S_BITS);
        v = N(own_join)(sum, v, (N(own))v_blend_u64(t->before_on, v_permute8((v_raw)parts, t->before), (v_u64){0}));
        v = N(own_join)(sum, v, *carry);
        *carry = N(own_join)(sum, *carry, (N(own))v_permute8((v_raw)parts, t->last));
        return sum ? v : v ^ (S_C)way->out;
}

SF_INLINE void N(own_rows)(const sf_own_scan *job, const own_way *way, const bool sum, const bool down)
{
        const sf_own_scan j = *job;
        const int64_t step = down ? -S_WIDTH : S_WIDTH;
        const own_tables t = own_tables_of(j.lanes);
        for (int64_t r = 0; r < j.many; r++) {
                S_C *left = (S_C *)j.carries + r;
                N(own) carry = N(own_turn)(sum, way, (N(own)){0} + *left);
                /* A vector's address is its lowest element's. */
                const int64_t low = down ? 1 - S_WIDTH : 0;
                const char *x = j.x + r * j.x_step + low * S_SIZE;
                char *y = j.y + r * j.y_step + low * S_SIZE;
                const uint8_t *m = j.m ? j.m + r * j.m_step + low : NULL;
                int64_t rest = j.n;
                /* What is streamed must be whole aligned vectors: to the first, fewer elements. */
                const int past = (int)((uintptr_t)y % V_BYTES / S_SIZE);
                for (int count = !j.stream || !past ? S_WIDTH : down ? past : S_WIDTH - past; rest > 0; count = S_WIDTH) {
                        if (count == S_WIDTH && rest >= S_WIDTH && j.stream) {
                                for (; rest >= S_WIDTH; rest -= S_WIDTH, x += step * S_SIZE, y += step * S_SIZE, m = m ? m + step : NULL) {
                                        __builtin_prefetch(x + (down ? -OWN_AHEAD : OWN_AHEAD));
                                        const N(own) v = N(own_step)(&j, way, sum, down, &t, x, m, 0, S_WIDTH, &carry);
                                        v_stream(y, &v, V_BYTES);
                                }
                                continue;
                        }
                        count = rest < count ? (int)rest : count;
                        const int first = down ? S_WIDTH - count : 0;
                        N(own_store)(y, N(own_step)(&j, way, sum, down, &t, x, m, first, count, &carry), first, count);
                        const int64_t on = down ? -count : count;
                        rest -= count;
                        x += on * S_SIZE;
                        y += on * S_SIZE;
                        m = m ? m + on : NULL;
                }
                *left = (S_C)(sum ? carry[0] : carry[0] ^ way->out);
        }
}

/* Rows of which only the totals are wanted. */
SF_INLINE void N(own_totals)(const sf_own_scan *job, const own_way *way, const bool sum)
{
        const sf_own_scan j = *job;
        const bool down = j.lanes->reverse;
        for (int64_t r = 0; r < j.many; r++) {
                const int64_t low = down ? 1 - j.n : 0;
                const char *x = j.x + r * j.x_step + low * S_SIZE;
                const uint8_t *m = j.m ? j.m + r * j.m_step + low : NULL;
                S_C *left = (S_C *)j.carries + r;
                N(own) total = N(own_turn)(sum, way, N(own_load)((char *)left, 0, 1)), other = {0};
                if (!sum)
                        total = (N(own))v_bytes_keep((v_raw)total, 0, S_SIZE);
                int64_t at = 0;
                for (; at + 2 * S_WIDTH <= j.n; at += 2 * S_WIDTH) {
                        total = N(own_join)(sum, total, N(own_in)(sum, way, x + at * S_SIZE, m ? m + at : NULL, 0, S_WIDTH));
                        other = N(own_join)(sum, other, N(own_in)(sum, way, x + (at + S_WIDTH) * S_SIZE, m ? m + at + S_WIDTH : NULL, 0, S_WIDTH));
                        __builtin_prefetch(x + at * S_SIZE + OWN_AHEAD);
                        __builtin_prefetch(x + at * S_SIZE + OWN_AHEAD + V_BYTES);
                }
                for (; at < j.n; at += S_WIDTH) {
                        const int count = j.n - at < S_WIDTH ? (int)(j.n - at) : S_WIDTH;
                        other = N(own_join)(sum, other, N(own_in)(sum, way, x + at * S_SIZE, m ? m + at : NULL, 0, count));
                }
                total = N(own_join)(sum, total, other);
                S_C all = total[0];
                for (int i = 1; i < S_WIDTH; i++)
                        all = sum ? (S_C)(all + total[i]) : all > total[i] ? all : total[i];
                *left = (S_C)(sum ? all : all ^ way->out);
        }
}

/* Columns c .. c + count - 1 of `rows` positions. */
SF_INLINE void N(own_strip)(const sf_own_scan *j, const own_way *way, const bool sum, const char *x, char *y, const uint8_t *m, char *left,
                            const bool exclusive, const int rows, const int count)
{
        N(own) carry = N(own_turn)(sum, way, N(own_load)(left, 0, count));
        V_UNROLL
        for (int i = 0; i < rows; i++, x += j->x_step) {
                const N(own) v = N(own_join)(sum, carry, N(own_in)(sum, way, x, m, 0, count)), to = exclusive ? carry : v;
                carry = v;
                m = m ? m + j->m_step : NULL;
                if (!y)
                        continue;
                N(own_store)(y, sum ? to : to ^ (S_C)way->out, 0, count);
                y += j->y_step;
        }
        N(own_store)(left, sum ? carry : carry ^ (S_C)way->out, 0, count);
}

/* A few positions at a time: the carries come and go less often. */
SF_INLINE void N(own_columns)(const sf_own_scan *job, const own_way *way, const bool sum)
{
        enum { DOWN = 8 };
        const sf_own_scan j = *job;
        for (int64_t at = 0; at < j.n; at += DOWN) {
                const int rows = j.n - at < DOWN ? (int)(j.n - at) : DOWN;
                const char *x = j.x + at * j.x_step;
                char *y = j.y ? j.y + at * j.y_step : NULL, *left = j.carries;
                int64_t c = 0;
                if (rows == DOWN && y && !j.m && !j.exclusive)
                        for (; c + S_WIDTH <= j.many; c += S_WIDTH)
                                N(own_strip)(&j, way, sum, x + c * S_SIZE, y + c * S_SIZE, NULL, left + c * S_SIZE, false, DOWN, S_WIDTH);
                for (; c < j.many; c += S_WIDTH) {
                        const int count = j.many - c < S_WIDTH ? (int)(j.many - c) : S_WIDTH;
                        N(own_strip)(&j, way, sum, x + c * S_SIZE, y ? y + c * S_SIZE : NULL, j.m ? j.m + at * j.m_step + c : NULL, left + c * S_SIZE,
                                     j.exclusive, rows, count);
                }
        }
}

/* Each a function with all registers to itself. */
static V_APART void N(own_sums_up)(const sf_own_scan *j, const own_way *way)
{
        N(own_rows)(j, way, true, false);
}
static V_APART void N(own_sums_down)(const sf_own_scan *j, const own_way *way)
{
        N(own_rows)(j, way, true, true);
}
static V_APART void N(own_most_up)(const sf_own_scan *j, const own_way *way)
{
        N(own_rows)(j, way, false, false);
}
static V_APART void N(own_most_down)(const sf_own_scan *j, const own_way *way)
{
        N(own_rows)(j, way, false, true);
}
static V_APART void N(own_sums)(const sf_own_scan *j, const own_way *way)
{
        N(own_columns)(j, way, true);
}
static V_APART void N(own_most)(const sf_own_scan *j, const own_way *way)
{
        N(own_columns)(j, way, false);
}
static V_APART void N(own_totals_of)(const sf_own_scan *j, const own_way *way)
{
        if (j->op == SF_SUM)
                N(own_totals)(j, way, true);
        else
                N(own_totals)(j, way, false);
}
static void N(own_scan)(const sf_own_scan *j, const own_way *way)
{
        if (!j->lanes)
                (j->op == SF_SUM ? N(own_sums) : N(own_most))(j, way);
        else if (!j->y)
                N(own_totals_of)(j, way);
        else if (j->lanes->reverse)
                (j->op == SF_SUM ? N(own_sums_down) : N(own_most_down))(j, way);
        else
                (j->op == SF_SUM ? N(own_sums_up) : N(own_most_up))(j, way);
}

#undef S_BITS
#undef S_WIDTH
#undef N
#undef S_CAT
#undef S_CAT_
#undef S_NAME
#undef S_C
#undef S_SIZE
