/*
 * map_fold.inc.h: folds of narrow integers where they lie, widened on the way. Template, included once a pair of types by
 * map_types.inc.h.
 *
 * Parameters (undefined again at the foot):
 *   F_FROM       the elements' type: i8, ... truth, which is bool
 *   F_TO         the totals' class: i32, u32 or u64, and F_BITS_C the unsigned type of its size
 *   F_EXTREMES   define it where there are max and min too
 *
 * Integers wrap: whatever the order, the bits are the same. So down columns elements are added in as narrow a type as holds the sum of a
 * few (part_i8, ...), in plain C that the compiler vectorises; map_fold_rows.inc.h has rows. The largest of some truths is the truth of the
 * largest: only what comes out of such a loop is asked what it stands for (value_i8, ...).
 */
#define F_CAT_(a, b, c) a##_##b##_##c
#define F_CAT(a, b, c) F_CAT_(a, b, c)
#define N(name) F_CAT(name, F_FROM, F_TO)
#define F_PASTE_(a, b) a##_##b
#define F_PASTE(a, b) F_PASTE_(a, b)
#define F_C F_PASTE(at, F_TO)
#define F_AT F_PASTE(at, F_FROM)
#define F_PART F_PASTE(part, F_FROM)
#define F_DT ((sf_dt)F_PASTE(dt, F_FROM))
#define F_VALUE F_PASTE(value, F_FROM)

SF_INLINE F_C N(join)(const sf_op op, F_C a, F_C b)
{
        if (op == SF_SUM)
                return (F_C)((F_BITS_C)a + (F_BITS_C)b);
        return (op == SF_MAX ? a > b : a < b) ? a : b;
}

/* `part` positions of column c, `step` bytes apart. */
SF_INLINE F_PART N(stripe)(const sf_op op, const char *x, int64_t step, int64_t c, const int part)
{
        F_PART v = op == SF_SUM ? F_VALUE(((const F_AT *)x)[c]) : ((const F_AT *)x)[c];
        V_UNROLL
        for (int i = 1; i < part; i++) {
                F_PART next = op == SF_SUM ? F_VALUE(((const F_AT *)(x + i * step))[c]) : ((const F_AT *)(x + i * step))[c];
                v = op == SF_SUM ? (F_PART)(v + next) : (op == SF_MAX ? v > next : v < next) ? v : next;
        }
        return v;
}

static inline void N(rows)(const sf_op op, F_C *totals, const char *x, int64_t row, int64_t rows, int64_t count)
{
        /* What is added is elements turned as for max, and `out` more than they are. */
        const own_way way = own_way_of(F_DT, op == SF_SUM ? SF_MAX : op);
        const uint64_t added = (uint64_t)count * way.out;
        for (int64_t r = 0; r < rows; r += FOLD_MANY, totals += FOLD_MANY) {
                uint64_t results[FOLD_MANY];
                const int many = rows - r < FOLD_MANY ? (int)(rows - r) : FOLD_MANY;
                (op == SF_SUM ? F_PASTE(sum_rows, F_FROM) : F_PASTE(most_rows, F_FROM))(&way, results, x + r * row, row, many, count);
                M_INDEPENDENT
                for (int i = 0; i < many; i++) {
                        if (op == SF_SUM)
                                totals[i] = N(join)(op, totals[i], (F_C)(results[i] - added));
                        else
                                totals[i] = N(join)(op, totals[i], (F_C)(F_AT)(results[i] ^ way.out));
                }
        }
}

/* `part` positions at a time: what they join comes and goes less often. */
SF_INLINE void N(stripes)(const sf_op op, F_C *y, const char *x, int64_t step, int64_t columns, const int part)
{
        M_INDEPENDENT
        for (int64_t c = 0; c < columns; c++) {
                F_PART v = N(stripe)(op, x, step, c, part);
                y[c] = N(join)(op, y[c], op == SF_SUM ? (F_C)v : (F_C)F_VALUE((F_AT)v));
        }
}
SF_INLINE void N(part_stripes)(F_PART *y, const char *x, int64_t step, int64_t columns, const int part)
{
        M_INDEPENDENT
        for (int64_t c = 0; c < columns; c++)
                y[c] = (F_PART)(y[c] + N(stripe)(SF_SUM, x, step, c, part));
}

/* DEEP positions join the totals by way of their sums in a narrower type. */
SF_INLINE void N(deep)(F_C *y, const char *x, int64_t step, int64_t columns)
{
        F_PART parts[DEEP_COLUMNS];
        for (int64_t at = 0; at < columns; at += DEEP_COLUMNS) {
                const int64_t some = columns - at < DEEP_COLUMNS ? columns - at : DEEP_COLUMNS;
                memset(parts, 0, (size_t)some * sizeof *parts);
                for (int i = 0; i < DEEP; i += PART)
                        N(part_stripes)(parts, x + i * step + at * (int64_t)sizeof(F_AT), step, some, PART);
                M_INDEPENDENT
                for (int64_t c = 0; c < some; c++)
                        y[at + c] = N(join)(SF_SUM, y[at + c], (F_C)parts[c]);
        }
}

SF_INLINE void N(down)(const sf_op op, F_C *y, const char *x, int64_t step, int64_t columns, int64_t count)
{
        for (; count >= DEEP && op == SF_SUM && sizeof(F_PART) < sizeof(F_C); count -= DEEP, x += DEEP * step)
                N(deep)(y, x, step, columns);
        for (; count >= PART; count -= PART, x += PART * step)
                N(stripes)(op, y, x, step, columns, PART);
        for (; count > 0; count--, x += step)
                N(stripes)(op, y, x, step, columns, 1);
}
typedef void N(down_of)(F_C *y, const char *x, int64_t step, int64_t columns, int64_t count);
SF_INLINE void N(columns)(const sf_op op, N(down_of) *down, F_C *totals, const char *x, int64_t step, int64_t columns, int64_t count)
{
        int64_t many = WIDE / columns < count / PART ? WIDE / columns : count / PART;
        if (step == columns * (int64_t)sizeof(F_AT) && many > 1) {
                /* Few columns that lie on end: several positions are taken for one of as many columns more. */
                F_C wide[WIDE];
                for (int64_t c = 0; c < many * columns; c++)
                        wide[c] = op == SF_SUM ? 0 : totals[c % columns];
                down(wide, x, many * step, many * columns, count / many);
                for (int64_t c = 0; c < many * columns; c++)
                        totals[c % columns] = N(join)(op, totals[c % columns], wide[c]);
                x += count / many * many * step;
                count %= many;
        }
        down(totals, x, step, columns, count);
}

#define F_INSTANCE(op, OP)                                                                                               \
        static void N(op##_rows)(void *y, const char *x, int64_t row, int64_t rows, int64_t count)                       \
        {                                                                                                                \
                N(rows)(OP, y, x, row, rows, count);                                                                     \
        }                                                                                                                \
        static V_APART void N(op##_down)(F_C *y, const char *x, int64_t step, int64_t columns, int64_t count)            \
        {                                                                                                                \
                N(down)(OP, y, x, step, columns, count);                                                                 \
        }                                                                                                                \
        static void N(op##_columns)(void *y, const char *x, int64_t step, int64_t columns, int64_t count)                \
        {                                                                                                                \
                N(columns)(OP, N(op##_down), y, x, step, columns, count);                                                \
        }
F_INSTANCE(sum, SF_SUM)
#ifdef F_EXTREMES
F_INSTANCE(max, SF_MAX)
F_INSTANCE(min, SF_MIN)
#endif

/* By sf_op. */
static const sf_direct_fold N(folds)[] = {
        [SF_SUM] = {N(sum_rows), N(sum_columns)},
#ifdef F_EXTREMES
        [SF_MAX] = {N(max_rows), N(max_columns)},
        [SF_MIN] = {N(min_rows), N(min_columns)},
#else
        [SF_MIN] = {0},
#endif
};

#undef F_INSTANCE
#undef F_VALUE
#undef F_DT
#undef F_PART
#undef F_AT
#undef F_C
#undef F_PASTE
#undef F_PASTE_
#undef N
#undef F_CAT
#undef F_CAT_
#undef F_FROM
#undef F_TO
#undef F_BITS_C
#undef F_EXTREMES
