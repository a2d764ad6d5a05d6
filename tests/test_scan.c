/* Scans: every engine against the reference, over shapes, dtypes, layouts and options. */
#include "case.h"

typedef struct shape_row {
        int32_t axis, vary;
        int64_t first, last, step;
        int32_t ndim;
        int64_t shape[8];
} shape_row;

#define LENGTHS(...) (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}

static const shape_row shapes[] = {
        {0, -1, 0, 0, 1, 0, {0}},
        {-1, -1, 0, 0, 1, 0, {0}},
#define SWEEP(axis, vary, first, last, step, ...) {axis, vary, first, last, step, LENGTHS(__VA_ARGS__)},
#define SHAPE(axis, ...) {axis, -1, 0, 0, 1, LENGTHS(__VA_ARGS__)},
#include "cases.def"
};
static const shape_row big[] = {
#define BIG(axis, ...) {axis, -1, 0, 0, 1, LENGTHS(__VA_ARGS__)},
#include "cases.def"
};
static const shape_row samples[] = {
#define SAMPLE(axis, ...) {axis, -1, 0, 0, 1, LENGTHS(__VA_ARGS__)},
#include "cases.def"
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t seed;

static test_case sample(size_t i)
{
        return case_plain(false, samples[i].axis, samples[i].ndim, samples[i].shape);
}

static void check(test_case *c, unsigned parts)
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
        for (size_t i = 0; i < COUNT(shapes); i++)
                for (int64_t n = shapes[i].first; n <= shapes[i].last; n += shapes[i].step) {
                        test_case c = case_plain(false, shapes[i].axis, shapes[i].ndim, shapes[i].shape);
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
        for (size_t i = 0; i < COUNT(big); i++) {
                test_case c = case_plain(false, big[i].axis, big[i].ndim, big[i].shape);
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

/* Every operation on every pair of dtypes with every accumulator. */
static void check_dtypes(void)
{
        for (int op = 0; op < 4; op++)
                for (int in = 0; in < DT_COUNT; in++)
                        for (int out = 0; out < DT_COUNT; out++)
                                for (int acc = DT_NONE; acc < DT_COUNT; acc++) {
                                        if (!accumulator_allowed((sf_op)op, in, out, acc))
                                                continue;
                                        for (size_t i = 0; i < COUNT(samples); i++) {
                                                test_case c = sample(i);
                                                c.op = (sf_op)op;
                                                c.in = in;
                                                c.out = out;
                                                c.acc = acc;
                                                check(&c, VARY_PLACE);
                                                check(&c, VARY_PLACE | VARY_OPTIONS | VARY_MASK | VARY_FILL);
                                        }
                                }
}

/* Every layout of x with every layout of out, then of the mask. */
static void check_layouts(void)
{
        for (size_t i = 0; i < COUNT(samples); i++)
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

static void check_in_place(void)
{
        for (size_t i = 0; i < COUNT(samples); i++)
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
        for (size_t i = 0; i < COUNT(big); i++) {
                test_case c = case_plain(false, big[i].axis, big[i].ndim, big[i].shape);
                set_options(&c, (unsigned)i % 16);
                c.in_place = true;
                check(&c, VARY_PLACE);
        }
        /* One size, two dtypes. */
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

int main(int argc, char **argv)
{
        case_arguments(argc, argv);
        engines_open();
        check_shapes();
        check_dtypes();
        check_layouts();
        check_in_place();
        check_rank_64();
        check_big();
        engines_close();
        return finish("test_scan", cases_checked);
}
