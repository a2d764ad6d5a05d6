/* Folds: every engine against the reference, over shapes, sets of axes, dtypes, layouts and options. */
#include "case.h"

#include <string.h>

static const case_shape fold_shapes[] = {
        {0, 0, {0}},
#define FOLD_SHAPE(...) {0, CASE_LENGTHS(__VA_ARGS__)},
#include "cases.def"
};

static uint64_t seed = 1000000;

static void check(const test_case *c, unsigned parts)
{
        test_case given = *c;
        if (!case_next())
                return;
        case_vary(&given, ++seed, parts);
        case_check(&given);

        /* The library and the test agree about the shape of the result, or the case above would have been refused;
         * sf_fold_shape must agree with both. */
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.naxes = given.naxes;
        o.axes = given.all_axes ? NULL : given.axes;
        o.keepdim = given.keepdim;
        sf_tensor x = tensor(NULL, SF_F32, given.ndim, given.shape);
        int64_t shape[SF_MAX_NDIM];
        int32_t ndim = -1, right = given.all_axes ? 0 : given.ndim - (given.ndim ? given.naxes : 0);
        CHECK(sf_fold_shape(NULL, &x, &o, &ndim, shape) == SF_OK, "sf_fold_shape: %s", sf_last_error(NULL));
        CHECK(ndim == (given.keepdim ? given.ndim : right), "sf_fold_shape has rank %d", (int)ndim);
}

/* The axes of a bit set, some of them named from the end, in an order the seed chooses. */
static void set_axes(test_case *c, unsigned set, uint64_t mix)
{
        c->naxes = 0;
        for (int32_t d = 0; d < c->ndim; d++)
                if (set >> d & 1)
                        c->axes[c->naxes++] = mix >> d & 1 ? d - c->ndim : d;
        for (int32_t i = 0; c->naxes > 1 && i < c->naxes; i++) {
                int32_t other = (int32_t)((mix >> 16) % (uint64_t)c->naxes), was = c->axes[i];
                c->axes[i] = c->axes[other];
                c->axes[other] = was;
        }
}

/* Rows of every length that many of which are folded at once. */
static void check_short(void)
{
        static const int dtypes[] = {DT_F32, DT_F64, DT_BF16, DT_I32, DT_U64};
        for (int64_t n = 1; n < 270; n++) {
                int64_t shape[2] = {5 + n * 7 % 40, n};
                test_case c = case_plain(true, 1, 2, shape);
                c.in = c.out = dtypes[n % 5];
                c.op = n % 7 ? SF_SUM : (sf_op)(n / 7 % 4);
                c.initial = n % 3 == 0;
                c.mask = n % 4 ? MASK_none : MASK_full;
                c.guard = n % 2 ? GUARD_BEFORE : GUARD_AFTER;
                check(&c, 0);
        }
}

/* Narrow integers, in several layouts: along rows, down columns, one long row that threads
 * share, into every type there is. */
static void check_narrow(void)
{
        static const int narrow[] = {DT_I8, DT_U8, DT_BOOL, DT_I16, DT_U16, DT_I32, DT_U32};
        static const int64_t narrow_shapes[][2] = {{3, 9001}, {7, 4096}, {9001, 40}, {37, 2100}, {1, 1200007}};
        for (int i = 0; i < 7 * DT_COUNT * 3; i++) {
                const int in = narrow[i % 7], out = i / 7 % DT_COUNT, shape = i % 5;
                const sf_op op = (sf_op[]){SF_SUM, SF_MAX, SF_MIN}[i / 7 / DT_COUNT];
                test_case c = case_plain(true, shape == 2 || shape == 3 ? 0 : 1, 2, narrow_shapes[shape]);
                if (!pair_allowed(op, in, out))
                        continue;
                c.op = op;
                c.in = in;
                c.out = out;
                c.initial = i % 11 == 0;
                c.x_layout = i % 3 ? LAYOUT_compact : LAYOUT_flipped;
                c.guard = i % 2 ? GUARD_BEFORE : GUARD_AFTER;
                check(&c, VARY_FILL);
        }
}

/* Rows of narrow integers of every length that has a way of its own, more of them than are taken
 * at once, back to back, with gaps, and backwards. */
static void check_narrow_rows(void)
{
        static const int dtypes[] = {DT_I8, DT_BOOL, DT_U16, DT_U8, DT_I32, DT_I16, DT_U32}, wide[] = {DT_I64, DT_I64, DT_U64, DT_U64, DT_I64, DT_I64, DT_U64};
        static const int layouts[] = {LAYOUT_compact, LAYOUT_padded, LAYOUT_flipped, LAYOUT_compact};
        for (int i = 0; i < 7 * 150; i++) {
                const int64_t n = i / 7 + 1, shape[2] = {n % 9 ? 3 + n * 5 % 32 : 2100, n};
                const int type = i % 7;
                test_case c = case_plain(true, 1, 2, shape);
                c.in = dtypes[type];
                c.op = n % 3 ? SF_SUM : n % 2 ? SF_MAX : SF_MIN;
                c.out = c.op == SF_SUM && n % 4 ? wide[type] : dtypes[type];
                c.x_layout = layouts[(i + n) % 4];
                c.guard = i % 2 ? GUARD_BEFORE : GUARD_AFTER;
                check(&c, VARY_FILL);
        }
}

/* And down so few columns that several positions are taken for one, with some over; and down more than are taken at once. */
static void check_narrow_columns(void)
{
        static const int dtypes[] = {DT_BOOL, DT_I8, DT_I16, DT_U8, DT_U32, DT_U16, DT_I32}, wide[] = {DT_I64, DT_I64, DT_I64, DT_U64, DT_U64, DT_U64, DT_I64};
        for (int i = 0; i < 7 * 24; i++) {
                const int64_t few = i / 7 + 1, shape[2] = {few % 8 ? 40000 / few + i : 260 + i, few % 8 ? few : 509 * few + i};
                const int type = i % 7;
                test_case c = case_plain(true, 0, 2, shape);
                c.in = dtypes[type];
                c.op = few % 3 ? SF_SUM : few % 2 ? SF_MAX : SF_MIN;
                c.out = c.op == SF_SUM && i % 4 ? wide[type] : dtypes[type];
                c.reverse = i % 5 == 0;
                c.x_layout = i % 9 ? LAYOUT_compact : LAYOUT_padded;
                c.guard = i % 2 ? GUARD_BEFORE : GUARD_AFTER;
                check(&c, VARY_FILL);
        }
}

/* Positions: ties from one end of a long row to the other, and in both directions; NaN anywhere; a best element that changes all the time; lines of which
 * nothing is left. Memory goes up and down, as rows, columns, a few columns, and one row that threads share. */
static void check_indices(void)
{
        static const sf_op ops[] = {SF_ARGMAX, SF_ARGMIN, SF_LAST_ARGMAX, SF_LAST_ARGMIN};
        static const int dtypes[] = {DT_F32, DT_F64, DT_I32, DT_U64, DT_F16, DT_U8, DT_U32}, fills[] = {FILL_small, FILL_special, FILL_rising, FILL_mixed};
        static const int layouts[] = {LAYOUT_compact, LAYOUT_flipped, LAYOUT_padded}, masks[] = {MASK_none, MASK_none, MASK_full, MASK_column, MASK_row};
        static const int64_t index_shapes[][2] = {{9, 8193}, {3, 20011}, {1030, 77}, {9001, 3}, {1, 300007}, {70, 135}, {5, 31}};
        for (int i = 0; i < 7 * 4 * 9; i++) {
                const int shape = i % 7;
                test_case c = case_plain(true, shape == 2 || shape == 3 ? 0 : 1, 2, index_shapes[shape]);
                c.op = ops[i / 7 % 4];
                c.in = dtypes[i / 5 % 7];
                c.out = DT_I64;
                c.fill = fills[i / 3 % 4];
                c.x_layout = layouts[i % 3];
                c.mask = masks[i / 2 % 5];
                c.reverse = i / 11 % 2;
                c.guard = i % 2 ? GUARD_BEFORE : GUARD_AFTER;
                check(&c, 0);
        }
}

static void check_axes(void)
{
        for (size_t i = 0; i < sizeof fold_shapes / sizeof *fold_shapes; i++)
                for (unsigned set = 0; set < 1u << fold_shapes[i].ndim; set++)
                        for (unsigned bits = 0; bits < 16; bits++) {
                                test_case c = case_of_shape(true, &fold_shapes[i]);
                                set_axes(&c, set, hash(seed));
                                c.all_axes = set + 1 == 1u << c.ndim && bits % 3 == 0;
                                c.keepdim = bits & 1;
                                c.reverse = bits >> 1 & 1;
                                c.initial = bits >> 2 & 1;
                                c.mask = bits >> 3 & 1 ? MASK_full : MASK_none;
                                check(&c, VARY_PLACE);
                                check(&c, VARY_PLACE | VARY_DTYPES | VARY_FILL | VARY_LAYOUTS | VARY_MASK);
                        }
}

static void check_lengths(void)
{
        for (int64_t n = 0; n <= 260; n++) {
                const int64_t rows[] = {37, n}, columns[] = {n, 37}, narrow[] = {700, n % 41};
                for (int reverse = 0; reverse < 2; reverse++) {
                        test_case c = case_plain(true, 1, 2, rows);
                        c.reverse = reverse;
                        check(&c, VARY_PLACE);
                        check(&c, VARY_PLACE | VARY_DTYPES | VARY_MASK);
                        c.axes[0] = 0;
                        memcpy(c.shape, columns, sizeof columns);
                        check(&c, VARY_PLACE);
                        check(&c, VARY_PLACE | VARY_DTYPES | VARY_MASK);
                        memcpy(c.shape, narrow, sizeof narrow);
                        check(&c, VARY_PLACE | VARY_DTYPES | VARY_MASK);
                }
        }
}

static void check_layouts(void)
{
        for (size_t i = 0; i < CASE_SAMPLES; i++)
                for (int x = 0; x < LAYOUT_COUNT; x++)
                        for (int other = 0; other < LAYOUT_COUNT; other++)
                                for (int kind = 0; kind < MASK_COUNT; kind++) {
                                        test_case c = case_of_shape(true, &case_samples[i]);
                                        c.x_layout = x;
                                        c.out_layout = layout_for_output[other] ? other : LAYOUT_compact;
                                        c.mask = kind;
                                        c.mask_layout = other;
                                        check(&c, VARY_PLACE);
                                        set_axes(&c, (unsigned)hash(seed) % (1u << c.ndim), hash(seed + 1));
                                        check(&c, VARY_PLACE | VARY_OPTIONS | VARY_DTYPES);
                                }
}

static void check_big(void)
{
        for (size_t i = 0; i < CASE_BIG; i++) {
                test_case c = case_of_shape(true, &case_big[i]);
                check(&c, VARY_PLACE);
                check(&c, VARY_PLACE | VARY_OPTIONS | VARY_MASK | VARY_DTYPES);
                check(&c, VARY_PLACE | VARY_OPTIONS | VARY_MASK | VARY_LAYOUTS);
                c.all_axes = true;
                check(&c, VARY_PLACE);
                check(&c, VARY_PLACE | VARY_OPTIONS | VARY_DTYPES);
                c.all_axes = false;
                set_axes(&c, (1u << (c.ndim - 1)) - 1, 0); /* all but the last: columns of several axes */
                check(&c, VARY_PLACE);
        }
}

/* Results that are streamed, wherever in a cache line they begin. */
static void check_streamed(void)
{
        static const struct {
                int64_t shape[2];
                int dtype;
        } wide[] = {{{3, (1 << 21) + 13}, DT_F32}, {{9, (1 << 20) + 5}, DT_F64}, {{2, (1 << 22) + 35}, DT_BF16}};
        static const int skews[] = {0, 8, 56};
        for (int i = 0; i < 3 * 3; i++) {
                test_case c = case_plain(true, 0, 2, wide[i / 3].shape);
                c.in = c.out = wide[i / 3].dtype;
                c.guard = GUARD_BEFORE;
                c.skew_x = 8;
                c.skew_out = skews[i % 3];
                check(&c, 0);
        }
        /* The same with very short rows, so that there are as many results. */
        static const int64_t short_rows[2] = {2800007, 3};
        test_case c = case_plain(true, 1, 2, short_rows);
        c.in = DT_BOOL;
        c.out = DT_I64;
        c.skew_out = 24;
        check(&c, 0);
}

static void check_rank_64(void)
{
        test_case c = case_plain(true, 0, 0, NULL);
        c.ndim = SF_MAX_NDIM;
        for (int32_t d = 0; d < SF_MAX_NDIM; d++)
                c.shape[d] = d % 6 == 4 ? 2 : 1;
        for (uint64_t i = 0; i < 64; i++) {
                c.naxes = 0;
                for (int32_t d = 0; d < SF_MAX_NDIM; d++)
                        if (hash(i) >> d & 1)
                                c.axes[c.naxes++] = d;
                c.all_axes = i == 0;
                check(&c, VARY_PLACE);
                check(&c, VARY_ALL & ~VARY_FILL);
        }
}

int main(int argc, char **argv)
{
        case_arguments(argc, argv);
        engines_open();
        check_axes();
        check_short();
        check_narrow();
        check_narrow_rows();
        check_narrow_columns();
        check_indices();
        check_lengths();
        case_each_dtype(true, check);
        check_layouts();
        check_rank_64();
        check_big();
        check_streamed();
        engines_close();
        return finish("test_fold", cases_checked);
}
