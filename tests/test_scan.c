/* Scans: every engine against the reference, over shapes, dtypes, layouts and options. */
#include "case.h"

#include <string.h>

typedef struct sweep {
        int32_t vary;
        int64_t first, last, step;
        case_shape shape;
} sweep;

static const sweep shapes[] = {
        {-1, 0, 0, 1, {0, 0, {0}}},
        {-1, 0, 0, 1, {-1, 0, {0}}},
#define SWEEP(axis, vary, first, last, step, ...) {vary, first, last, step, {axis, CASE_LENGTHS(__VA_ARGS__)}},
#define SHAPE(axis, ...) {-1, 0, 0, 1, {axis, CASE_LENGTHS(__VA_ARGS__)}},
#include "cases.def"
};

static uint64_t seed;

static test_case sample(size_t i)
{
        return case_of_shape(false, &case_samples[i]);
}

static void check(const test_case *c, unsigned parts)
{
        test_case given = *c;
        if (!case_next())
                return;
        case_vary(&given, ++seed, parts);
        case_check(&given);
}

/* Reverse, exclusive, initial, mask: the bits of a number. */
static void set_options(test_case *c, unsigned bits)
{
        c->reverse = bits & 1;
        c->exclusive = bits >> 1 & 1;
        c->initial = bits >> 2 & 1;
        c->mask = bits >> 3 & 1 ? MASK_full : MASK_none;
}

/* Every shape with every combination of options, as f32 and as another dtype. */
static void check_shapes(void)
{
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                for (int64_t n = shapes[i].first; n <= shapes[i].last; n += shapes[i].step) {
                        test_case c = case_of_shape(false, &shapes[i].shape);
                        if (shapes[i].vary >= 0)
                                c.shape[shapes[i].vary] = n;
                        for (unsigned bits = 0; bits < 16; bits++) {
                                set_options(&c, bits);
                                check(&c, VARY_PLACE);
                                check(&c, VARY_PLACE | VARY_DTYPES | VARY_FILL);
                        }
                }
}

static void check_big(void)
{
        for (size_t i = 0; i < CASE_BIG; i++) {
                test_case c = case_of_shape(false, &case_big[i]);
                check(&c, VARY_PLACE);
                for (unsigned bits = 0; bits < 16; bits += 5) {
                        set_options(&c, bits);
                        check(&c, VARY_PLACE | VARY_DTYPES);
                }
                c.in = c.out = DT_F64;
                check(&c, VARY_PLACE | VARY_OPTIONS | VARY_MASK | VARY_FILL);
                c.in = c.out = DT_F32;
                check(&c, VARY_PLACE | VARY_OPTIONS | VARY_MASK | VARY_LAYOUTS);
        }
}

/* Columns that are streamed, wherever in a cache line their rows begin: all alike, or each elsewhere. */
static void check_lines(void)
{
        static const int64_t wide[][2] = {{700, 1536}, {140, 8000}, {90001, 16}, {701, 1531}};
        static const int skews[] = {4, 16, 60};
        for (int i = 0; i < 4 * 3; i++) {
                test_case c = case_plain(false, 0, 2, wide[i / 3]);
                set_options(&c, (unsigned)i * 5 % 16);
                c.in = c.out = i % 5 ? DT_F32 : DT_I32;
                c.guard = GUARD_BEFORE;
                c.skew_x = skews[(i + i / 3) % 3];
                c.skew_out = skews[i % 3];
                check(&c, 0);
        }
}

/* Lines too short to be streamed by themselves, in results that are worth it: narrow matrices down, short rows along. */
static void check_short_lines(void)
{
        static const int64_t lines[][2] = {{400001, 3}, {240007, 5}, {120001, 9}, {65537, 17}, {30011, 35}, {90001, 13}, {40001, 27}, {16001, 65}};
        static const int dtypes[] = {DT_F32, DT_F64, DT_F16, DT_I32};
        for (int i = 0; i < 8 * 4; i++) {
                test_case c = case_plain(false, i / 4 < 5 ? 0 : 1, 2, lines[i / 4]);
                set_options(&c, (unsigned)(i * 5 + i / 4) % 16);
                c.in = c.out = dtypes[i % 4];
                c.guard = i % 2 ? GUARD_BEFORE : GUARD_AFTER;
                c.skew_out = 4 * (i % 7);
                check(&c, 0);
        }
}

/* Operations other than sum, in results that are streamed: rows, columns, narrow matrices of every kind, one axis for all. */
static void check_operations(void)
{
        static const struct {
                int32_t axis;
                int64_t shape[2];
        } work[] = {{1, {310, 4099}}, {1, {1024, 1024}}, {0, {1025, 1024}}, {0, {311, 4001}}, {1, {1, 1100003}}, {0, {530001, 2}},
                    {0, {400001, 3}}, {0, {270001, 4}}, {0, {120001, 9}},    {0, {70001, 16}},  {0, {65537, 17}},    {0, {40001, 27}},
                    {1, {30011, 37}}};
        static const int dtypes[] = {DT_F32, DT_I32, DT_F64, DT_F32, DT_BF16, DT_U32, DT_F32, DT_I64};
        static const int fills[] = {FILL_mixed, FILL_finite, FILL_special};
        for (int i = 0; i < 13 * 5; i++) {
                test_case c = case_plain(false, work[i / 5].axis, 2, work[i / 5].shape);
                set_options(&c, (unsigned)(i * 7 + i / 5) % 16);
                c.in = c.out = dtypes[(i + i / 5) % 8];
                c.op = (i + i / 5) % 3 == 0 ? SF_MAX : (i + i / 5) % 3 == 1 ? SF_PROD : SF_MIN;
                c.fill = fills[(i / 2 + i / 5) % 3];
                c.guard = i % 2 ? GUARD_BEFORE : GUARD_AFTER;
                c.skew_out = 4 * (i % 5);
                check(&c, 0);
        }
}

/* The largest of halves, in results that are streamed from wherever they begin: in rows, a line of the cache is two vectors. */
static void check_halves(void)
{
        static const struct {
                int32_t axis;
                int64_t shape[2];
        } work[] = {{1, {530, 4099}}, {1, {1030, 2112}}, {1, {1, 2200003}}, {0, {1025, 2112}}};
        for (int i = 0; i < 4 * 6; i++) {
                test_case c = case_plain(false, work[i / 6].axis, 2, work[i / 6].shape);
                set_options(&c, (unsigned)(i % 4 ? i * 7 + i / 6 : i / 4) % 16);
                c.in = c.out = i % 2 ? DT_F16 : DT_BF16;
                c.op = i % 3 ? SF_MAX : SF_MIN;
                c.guard = i % 2 ? GUARD_BEFORE : GUARD_AFTER;
                c.skew_out = 2 * (i * 7 % 33);
                check(&c, 0);
        }
}

/* Integers that are scanned in lanes of their own size, in results that are streamed: rows, whole or put together, columns, one axis for all. */
static void check_narrow_integers(void)
{
        static const struct {
                int32_t axis;
                int64_t shape[2];
        } work[] = {{1, {700, 6203}}, {1, {40001, 109}}, {0, {600, 7303}}, {0, {20011, 211}}, {1, {1, 4300013}}, {0, {500, 8448}}};
        static const int dtypes[] = {DT_I8, DT_U16, DT_BOOL, DT_I16, DT_U8};
        for (int i = 0; i < 6 * 5; i++) {
                test_case c = case_plain(false, work[i / 5].axis, 2, work[i / 5].shape);
                set_options(&c, (unsigned)(i * 5 + i / 5) % 16);
                c.in = c.out = dtypes[i % 5];
                c.op = i % 3 ? SF_SUM : i % 2 ? SF_MAX : SF_MIN;
                c.guard = i % 2 ? GUARD_BEFORE : GUARD_AFTER;
                c.skew_out = 2 * (i % 7);
                check(&c, 0);
        }
}

/* Integers scanned into wider ones, in results that are streamed: rows back to back that are
 * staged first, long rows, and columns at any address. */
static void check_widened(void)
{
        static const struct {
                int32_t axis;
                int64_t shape[2];
        } work[] = {{1, {11003, 100}}, {1, {70001, 16}}, {1, {340001, 3}}, {1, {230, 4501}}, {0, {801, 1331}}, {1, {9001, 128}},
                    {0, {801, 1344}}, {0, {33003, 33}}, {1, {1, 1100009}}};
        static const int dtypes[] = {DT_BOOL, DT_I32, DT_I8, DT_U16, DT_U8, DT_I16, DT_U32}, skews[] = {0, 8, 40, 4};
        for (int i = 0; i < 9 * 7; i++) {
                test_case c = case_plain(false, work[i / 7].axis, 2, work[i / 7].shape);
                set_options(&c, (unsigned)(i * 5 + i / 4) % 16);
                c.mask = i % 7 > 3 ? c.mask : MASK_none; /* masked ones use other kernels */
                c.in = dtypes[i % 7];
                c.out = (c.in == DT_U8 || c.in == DT_U16 || c.in == DT_U32) && i % 2 ? DT_U64 : DT_I64;
                c.guard = i % 2 ? GUARD_BEFORE : GUARD_AFTER;
                c.skew_out = skews[(i + i / 4) % 4];
                check(&c, 0);
        }
}

/* Exclusive results that are streamed a row late: with last tiles of every size there is no row after the last one. */
static void check_late(void)
{
        for (int i = 0; i < 9; i++) {
                const int64_t shape[] = {1400 + i, (i % 4 == 3 ? 1536 : 768) + i % 2};
                test_case c = case_plain(false, 0, 2, shape);
                set_options(&c, 2 | (unsigned)(i * 5 % 16));
                c.in = c.out = i % 4 == 3 ? DT_F16 : DT_F32;
                c.guard = c.reverse ? GUARD_BEFORE : GUARD_AFTER;
                check(&c, 0);
        }
}

/* Every layout of x with every layout of out, then of the mask. */
static void check_layouts(void)
{
        for (size_t i = 0; i < CASE_SAMPLES; i++)
                for (int x = 0; x < LAYOUT_COUNT; x++) {
                        test_case c = sample(i);
                        c.x_layout = x;
                        for (int out = 0; out < LAYOUT_COUNT; out++) {
                                c.out_layout = out;
                                if (!layout_for_output[out])
                                        continue;
                                check(&c, VARY_PLACE);
                                check(&c, VARY_PLACE | VARY_OPTIONS | VARY_DTYPES | VARY_FILL);
                        }
                        for (int kind = MASK_full; kind < MASK_COUNT; kind++)
                                for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
                                        c.out_layout = LAYOUT_compact;
                                        c.mask = kind;
                                        c.mask_layout = layout;
                                        c.mask_u8 = (kind + layout) % 2;
                                        check(&c, VARY_PLACE);
                                        check(&c, VARY_PLACE | VARY_OPTIONS | VARY_DTYPES);
                                }
                }
}

/* Sums of an axis that all threads share, streamed to wherever the results begin: carries are added by the vectors that go to aligned places. */
static void check_shifted(void)
{
        static const int dtypes[] = {DT_F32, DT_F64, DT_U32, DT_F32, DT_I64, DT_BF16};
        for (int i = 0; i < 50; i++) {
                /* The last two are long enough for two threads to take the largest chunks. */
                const int64_t columns = (int64_t)1 << i / 12 % 4, n = i < 48 ? i % 3 ? 1200007 + i : 5 << 18 : 4400007, shape[] = {n / columns, columns};
                test_case c = case_plain(false, 0, 2, shape);
                c.in = c.out = dtypes[i % 6];
                c.reverse = i / 6 % 2;
                c.guard = c.reverse ? GUARD_BEFORE : GUARD_AFTER;
                c.skew_out = 8 * (i + i / 12 + 1) % 64 + (i % 6 == 3 ? 4 : 0);
                check(&c, 0);
        }
}

static void check_in_place(void)
{
        for (size_t i = 0; i < CASE_SAMPLES; i++)
                for (int layout = 0; layout < LAYOUT_COUNT; layout++)
                        for (unsigned bits = 0; bits < 16; bits++)
                                for (int in = 0; in < DT_COUNT; in++) {
                                        test_case c = sample(i);
                                        c.x_layout = layout;
                                        c.in = in;
                                        c.out = in;
                                        if (!layout_for_output[layout])
                                                continue;
                                        set_options(&c, bits);
                                        c.in_place = true;
                                        check(&c, VARY_PLACE);
                                }
        for (size_t i = 0; i < CASE_BIG; i++) {
                test_case c = case_of_shape(false, &case_big[i]);
                set_options(&c, (unsigned)i % 16);
                c.in_place = true;
                check(&c, VARY_PLACE);
        }
        /* Two dtypes of one size, in place. */
        test_case c = sample(3);
        c.in_place = true;
        c.in = DT_I32;
        c.out = DT_F32;
        check(&c, VARY_PLACE);
        c.in = DT_F16;
        c.out = DT_BF16;
        check(&c, VARY_PLACE);
}

/* All of DLPack's ranks: 64 axes, most of length 1. */
static void check_rank_64(void)
{
        test_case c = case_plain(false, 0, 0, NULL);
        c.ndim = SF_MAX_NDIM;
        for (int32_t d = 0; d < SF_MAX_NDIM; d++)
                c.shape[d] = d % 9 == 4 ? 2 : 1;
        c.shape[31] = 19;
        for (int32_t axis = -SF_MAX_NDIM; axis < SF_MAX_NDIM; axis++) {
                c.axes[0] = axis;
                check(&c, VARY_PLACE);
                check(&c, VARY_ALL & ~VARY_FILL);
        }
}

static void check_dtypes(void)
{
        case_each_dtype(false, check);
}

static const struct {
        const char *name;
        void (*check)(void);
} lists[] = {{"shapes", check_shapes}, {"dtypes", check_dtypes}, {"layouts", check_layouts}, {"in place", check_in_place}, {"rank 64", check_rank_64},
             {"big", check_big}, {"lines", check_lines}, {"short lines", check_short_lines}, {"late", check_late}, {"operations", check_operations},
             {"halves", check_halves}, {"narrow integers", check_narrow_integers}, {"widened", check_widened},
             {"shifted", check_shifted}};

/* --only NAME: one of the lists. */
int main(int argc, char **argv)
{
        const char *only = argc == 3 && !strcmp(argv[1], "--only") ? argv[2] : NULL;
        case_arguments(argc, argv);
        engines_open();
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
                if (!only || !strcmp(only, lists[i].name))
                        lists[i].check();
        engines_close();
        return finish("test_scan", cases_checked);
}
