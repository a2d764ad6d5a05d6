/*
 * map_fold_rows.inc.h: folds of rows of narrow integers where they lie. Included once by map_types.inc.h.
 *
 * Integers wrap: whatever the order, the bits are the same. For a sum, elements become unsigned numbers, of which neighbours are added in lanes twice
 * as wide, until those are 8 bytes; what turning them added is taken off the total. For max and min they become unsigned numbers of which the
 * largest is wanted, in lanes of their own size (own_way).
 */
enum { FOLD_ROWS = 8, FOLD_VECTORS = 4 }; /* rows walked side by side, and vectors of each in turn */
enum { FOLD_MANY = 256 };                 /* rows a call takes, at most */
/* What is read soon: so far on in long rows; of shorter ones the next, but at least so far on, if they lie on end. */
#define FOLD_AHEAD 1024
#define FOLD_AHEAD_OF_ONE 4096
/* Rows of fewer bytes are taken a word at a time. */
#ifdef V_MASK_BITS
#define FOLD_WORDS 17
#else
#define FOLD_WORDS V_BYTES
#endif

static const uint64_t fold_low[] = {[1] = 0x00ff00ff00ff00ffu, [2] = 0x0000ffff0000ffffu, [4] = 0x00000000ffffffffu};

/* In every element of 8 bytes. */
SF_INLINE uint64_t fold_each(const int size, uint32_t v)
{
        return size == 1 ? (v & 0xff) * 0x0101010101010101u : size == 2 ? (v & 0xffff) * 0x0001000100010001u : v * 0x0000000100000001u;
}

SF_INLINE v_u64 fold_most(const int size, v_u64 a, v_u64 b)
{
        return size == 1 ? v_max_u8(a, b) : v_max_u16(a, b);
}

/* Elements as they are computed with. `plain`: there is no least. */
SF_INLINE v_u64 fold_turn(const int size, const bool plain, const own_way *way, v_u64 v)
{
        v ^= fold_each(size, way->turn);
        return plain ? v : fold_most(size, v, (v_u64){0} + fold_each(size, way->least)) ^ fold_each(size, way->again);
}

/* Neighbours of `size` bytes, added. */
SF_INLINE v_u64 fold_pairs(const int size, v_u64 v)
{
        return (v & fold_low[size]) + (v >> (8 * size) & fold_low[size]);
}

/* Of elements, what is joined with others: sums in lanes of 8 bytes, or halfway there, which holds those of a few. */
SF_INLINE v_u64 fold_half(const bool sum, const int size, v_u64 v)
{
        if (!sum)
                return v;
#ifdef V_SUM_BYTES
        if (size == 1)
                return v_sum_bytes(v);
#endif
        return fold_pairs(size, v);
}
SF_INLINE v_u64 fold_whole(const bool sum, const int size, v_u64 v)
{
        if (!sum)
                return v;
#ifdef V_SUM_BYTES
        if (size == 1)
                return v;
#endif
        V_UNROLL
        for (int s = 2 * size; s < 8; s *= 2)
                v = fold_pairs(s, v);
        return v;
}
SF_INLINE v_u64 fold_join(const bool sum, const int size, v_u64 a, v_u64 b)
{
        return sum ? a + b : fold_most(size, a, b);
}

/* `count` vectors, few enough for their pairs. */
SF_INLINE v_u64 fold_vectors(const bool sum, const int size, const bool plain, const own_way *way, const char *x, const int count)
{
        v_u64 all = fold_half(sum, size, fold_turn(size, plain, way, v_raw_load(x)));
        V_UNROLL
        for (int i = 1; i < count; i++)
                all = fold_join(sum, size, all, fold_half(sum, size, fold_turn(size, plain, way, v_raw_load(x + i * V_BYTES))));
        return fold_whole(sum, size, all);
}

/* The last `bytes` of a row, fewer than a vector; x is where they begin. Without masks, the row has more. */
SF_INLINE v_u64 fold_last(const bool sum, const int size, const bool plain, const own_way *way, const char *x, int bytes)
{
#ifdef V_MASK_BITS
        const v_u64 v = v_bytes_keep(fold_turn(size, plain, way, v_bytes_load(x, 0, bytes)), 0, bytes);
#else
        const v_u64 v = v_bytes_keep(fold_turn(size, plain, way, v_raw_load(x + bytes - V_BYTES)), V_BYTES - bytes, bytes);
#endif
        return fold_whole(sum, size, fold_half(sum, size, v));
}

/* Every 8 bytes to what they come to. */
SF_INLINE v_u64 fold_inside(const bool sum, const int size, v_u64 v)
{
        if (sum)
                return v;
        V_UNROLL
        for (int bits = 32; bits >= 8 * size; bits /= 2)
                v = fold_most(size, v, v >> bits);
        return v & (((uint64_t)1 << (8 * size)) - 1);
}

/* FOLD_ROWS rows, or `many` of them, the last of which is then taken for the others too. */
SF_INLINE void fold_group(const bool sum, const int size, const bool plain, const own_way *way, uint64_t *results, const char *x, int64_t row, int many,
                          int64_t bytes)
{
        v_u64 all[FOLD_ROWS] = {{0}};
        const char *from[FOLD_ROWS];
        for (int r = 0; r < FOLD_ROWS; r++)
                from[r] = x + (r < many ? r : many - 1) * row;
        const int64_t ahead = bytes >= FOLD_AHEAD_OF_ONE ? FOLD_AHEAD : FOLD_ROWS * row > FOLD_AHEAD_OF_ONE ? FOLD_ROWS * row : FOLD_AHEAD_OF_ONE;
        int64_t at = 0;
        for (; at + FOLD_VECTORS * V_BYTES <= bytes; at += FOLD_VECTORS * V_BYTES) {
                V_UNROLL
                for (int r = 0; r < FOLD_ROWS; r++) {
                        for (int line = 0; line < FOLD_VECTORS * V_BYTES; line += 64)
                                __builtin_prefetch(from[r] + at + line + ahead);
                        all[r] = fold_join(sum, size, all[r], fold_vectors(sum, size, plain, way, from[r] + at, FOLD_VECTORS));
                }
        }
        for (; at + V_BYTES <= bytes; at += V_BYTES) {
                V_UNROLL
                for (int r = 0; r < FOLD_ROWS; r++) {
                        __builtin_prefetch(from[r] + at + ahead);
                        all[r] = fold_join(sum, size, all[r], fold_vectors(sum, size, plain, way, from[r] + at, 1));
                }
        }
        if (at < bytes) {
                V_UNROLL
                for (int r = 0; r < FOLD_ROWS; r++) {
                        __builtin_prefetch(from[r] + at + ahead);
                        all[r] = fold_join(sum, size, all[r], fold_last(sum, size, plain, way, from[r] + at, (int)(bytes - at)));
                }
        }
        /* As many vectors as a vector has lanes become one, with a row's result in every lane. */
        V_UNROLL
        for (int lanes = V_LANES8, some = FOLD_ROWS; lanes > 1; lanes /= 2, some /= 2) {
                V_UNROLL
                for (int r = 0; r < some / 2; r++)
                        all[r] = fold_join(sum, size, V_EVENS8(all[2 * r], all[2 * r + 1]), V_ODDS8(all[2 * r], all[2 * r + 1]));
        }
        for (int r = 0; r < FOLD_ROWS / V_LANES8; r++)
                *(v_raw_unaligned *)(results + r * V_LANES8) = fold_inside(sum, size, all[r]);
}

/* Rows too short for vectors: the same word of many, side by side. */
SF_INLINE void fold_short(const bool sum, const int size, const bool plain, const own_way *way, uint64_t *results, const char *x, int64_t row, int rows,
                          int bytes)
{
        v_u64 all[FOLD_MANY / V_LANES8], words[FOLD_MANY / V_LANES8];
        at_u64 *word = (at_u64 *)words;
        const int vectors = (rows + V_LANES8 - 1) / V_LANES8;
        if (bytes < 1) /* never; gcc asks */
                return;
        words[vectors - 1] = (v_u64){0};
        for (int at = 0; at < bytes; at += 8) {
                const int here = bytes - at < 8 ? bytes - at : 8;
                const uint64_t on = ~(uint64_t)0 >> (64 - 8 * here);
                const char *from = x;
                int r = 0;
                if (here == 8)
                        for (; r < rows; r++, from += row)
                                word[r] = *(const at_u64 *)(from + at);
                else if (at)
                        for (; r < rows; r++, from += row)
                                word[r] = *(const at_u64 *)(from + bytes - 8) >> (64 - 8 * here);
                else if (row >= bytes && row <= 8) /* there is a row soon enough that 8 bytes may be read */
                        for (; r * row + 8 <= (rows - 1) * row + bytes; r++, from += row)
                                word[r] = *(const at_u64 *)from;
                for (; r < rows; r++, from += row)
                        word[r] = v_bytes_part((const uint8_t *)from + at, here);
                for (int i = 0; i < vectors; i++) {
                        const v_u64 v = fold_whole(sum, size, fold_half(sum, size, fold_turn(size, plain, way, words[i]) & on));
                        all[i] = at ? fold_join(sum, size, all[i], v) : v;
                }
        }
        for (int i = 0; i < vectors; i++)
                *(v_raw_unaligned *)(results + i * V_LANES8) = fold_inside(sum, size, all[i]);
}

/* Any number of rows, at most FOLD_MANY. */
SF_INLINE void fold_some(const bool sum, const int size, const bool plain, const own_way *way, uint64_t *results, const char *x, int64_t row, int rows,
                         int64_t count)
{
        if (count * size < FOLD_WORDS)
                fold_short(sum, size, plain, way, results, x, row, rows, (int)count * size);
        else
                for (int r = 0; r < rows; r += FOLD_ROWS)
                        fold_group(sum, size, plain, way, results + r, x + r * row, row, rows - r < FOLD_ROWS ? rows - r : FOLD_ROWS, count * size);
}

/* What `rows` rows, at most FOLD_MANY, of `count` elements come to, turned as they are; there is room for whole vectors of results. A few long rows
 * are each cut into FOLD_ROWS, since a group of fewer would take one of them several times. */
SF_INLINE void fold_rows(const bool sum, const int size, const bool plain, const own_way *given, uint64_t *results, const char *x, int64_t row, int rows,
                         int64_t count)
{
        const own_way way = *given;
        const int64_t vector = V_BYTES / size, part = count / FOLD_ROWS / vector * vector, rest = count - FOLD_ROWS * part;
        if (rows >= FOLD_ROWS || part < FOLD_VECTORS * vector) {
                fold_some(sum, size, plain, &way, results, x, row, rows, count);
                return;
        }
        for (int r = 0; r < rows; r++, x += row) {
                uint64_t of[2 * FOLD_ROWS] = {0};
                fold_some(sum, size, plain, &way, of, x, part * size, FOLD_ROWS, part);
                if (rest)
                        fold_some(sum, size, plain, &way, of + FOLD_ROWS, x + FOLD_ROWS * part * size, 0, 1, rest);
                results[r] = of[0];
                for (int i = 1; i < FOLD_ROWS + (rest > 0); i++)
                        results[r] = sum ? results[r] + of[i] : results[r] > of[i] ? results[r] : of[i];
        }
}
typedef void fold_rows_of(const own_way *way, uint64_t *results, const char *x, int64_t row, int rows, int64_t count);
#define FOLD_INSTANCE(name, sum, size, plain)                                                                            \
        static V_APART void name(const own_way *way, uint64_t *results, const char *x, int64_t row, int rows, int64_t count) \
        {                                                                                                                \
                fold_rows(sum, size, plain, way, results, x, row, rows, count);                                          \
        }
FOLD_INSTANCE(rows_sum_truth, true, 1, false)
FOLD_INSTANCE(rows_sum_1, true, 1, true)
FOLD_INSTANCE(rows_sum_2, true, 2, true)
FOLD_INSTANCE(rows_sum_4, true, 4, true)
FOLD_INSTANCE(rows_most_1, false, 1, false)
FOLD_INSTANCE(rows_most_2, false, 2, false)
#undef FOLD_INSTANCE
