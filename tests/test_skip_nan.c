/* skip_nan in sf_scan and sf_fold: the bits of a call with a mask that leaves NaN out, on every engine, for every operation and dtype. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static long checks;

enum { ROWS = 6, MOST = 70000 };

static char x[ROWS * MOST * 8], given[ROWS * MOST * 8], right[ROWS * MOST * 8];
static uint8_t mask[ROWS * MOST], kept[ROWS * MOST];

static void fill_x(int dt, int64_t count)
{
        for (int64_t i = 0; i < count; i++) {
                const uint64_t h = hash((uint64_t)i + 99);
                const double v = h % 7 == 0 || i / (count / ROWS) == 2 ? NAN : h % 31 == 0 ? INFINITY : 0.75 + (double)(h % 1000) / 2000;
                mask[i] = h % 5 != 0;
                kept[i] = dts[dt].kind != 'r' || v == v;
                switch (dt) {
                case DT_F64: ((double *)x)[i] = v; break;
                case DT_F32: ((float *)x)[i] = (float)v; break;
                case DT_F16: ((uint16_t *)x)[i] = kept[i] ? (uint16_t)(0x3a00 + h % 512) : 0x7e01; break;
                case DT_BF16: ((uint16_t *)x)[i] = kept[i] ? (uint16_t)(0x3f40 + h % 64) : 0x7fc1; break;
                default: ((int32_t *)x)[i] = (int32_t)(h % 100) - 50; break;
                }
        }
}

typedef struct how {
        int dt;
        int64_t n;
        sf_op op;
        bool scan, columns, masked, reverse, exclusive, in_place;
} how;

static sf_status call(sf_context *ctx, const how *h, void *from, void *to, uint8_t *with, bool skip)
{
        int64_t shape[2] = {h->columns ? h->n : ROWS, h->columns ? ROWS : h->n}, fewer[1] = {ROWS};
        int32_t axis = h->columns ? 0 : 1;
        sf_tensor tx = {.data = from, .device = {SF_CPU, 0}, .ndim = 2, .dtype = dts[h->dt].dtype, .shape = shape}, ty = tx, tm = tx;
        ty.data = to;
        tm.data = with;
        tm.dtype = SF_BOOL;
        if (h->scan) {
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.op = h->op;
                o.axis = axis;
                o.reverse = h->reverse;
                o.exclusive = h->exclusive;
                o.mask = with ? &tm : NULL;
                o.skip_nan = skip;
                return sf_scan(ctx, &tx, &ty, &o);
        }
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.op = h->op;
        o.naxes = 1;
        o.axes = &axis;
        o.reverse = h->reverse;
        o.mask = with ? &tm : NULL;
        o.skip_nan = skip;
        ty.ndim = 1;
        ty.shape = fewer;
        return sf_fold(ctx, &tx, &ty, &o);
}

static void check(const how *h)
{
        static uint8_t both[ROWS * MOST];
        const int64_t count = ROWS * h->n, results = h->scan ? count : ROWS;
        const size_t size = (size_t)dts[h->dt].size;
        fill_x(h->dt, count);
        for (int64_t i = 0; i < count; i++)
                both[i] = kept[i] && (!h->masked || mask[i]);
        CHECK(call(REF, h, x, right, both, false) == SF_OK, "%s", sf_last_error(REF));
        for (int e = 0; e < engine_count; e++, checks++) {
                void *to = h->in_place ? (void *)x : given;
                fill_x(h->dt, count);
                CHECK(call(engines[e].ctx, h, x, to, h->masked ? mask : NULL, true) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                for (int64_t i = 0; i < results; i++) {
                        bool same = same_bits(h->dt, (char *)to + (size_t)i * size, right + (size_t)i * size);
                        CHECK(same, "%s of %s, %s of %lld%s%s%s%s on %s: element %lld differs", sf_op_name(h->op), dts[h->dt].name,
                              h->columns ? "columns" : "rows", (long long)h->n, h->masked ? ", masked" : "", h->reverse ? ", in reverse" : "",
                              h->exclusive ? ", exclusive" : "", h->in_place ? ", in place" : "", engines[e].name, (long long)i);
                        if (!same)
                                break;
                }
        }
}

/* Where an element that is masked out is more than an identity, it is said, and nothing is written. */
static void test_refusals(void)
{
        float v[4] = {1, NAN, 3, 2}, h[4] = {9, 9, 9, 9};
        int64_t shape[1] = {4}, index = 9;
        sf_tensor tx = {.data = v, .device = {SF_CPU, 0}, .ndim = 1, .dtype = SF_F32, .shape = shape}, ti = tx, th = tx;
        sf_fold_options fold = SF_FOLD_OPTIONS_INIT;
        sf_scan_options scan = SF_SCAN_OPTIONS_INIT;
        ti.data = &index;
        ti.ndim = 0;
        ti.dtype = SF_I64;
        th.data = h;
        fold.op = SF_ARGMAX;
        fold.skip_nan = scan.skip_nan = 1;
        CHECK(sf_fold(NULL, &tx, &ti, &fold) == SF_UNSUPPORTED && strstr(sf_last_error(NULL), "which argmax does not have here; give a mask") && index == 9,
              "%s", sf_last_error(NULL));
        CHECK(sf_recurrence(NULL, &tx, &tx, &th, &scan) == SF_UNSUPPORTED && strstr(sf_last_error(NULL), "give a mask") && h[0] == 9, "%s",
              sf_last_error(NULL));
        checks += 2;
}

int main(int argc, char **argv)
{
        static const int dtypes[] = {DT_F32, DT_F64, DT_F16, DT_BF16, DT_I32};
        static const int64_t lengths[] = {1, 3, 100, 2049, MOST};
        size_t every = argc > 1 ? (size_t)atol(argv[1]) : 1, number = 0;
        engines_open();
        test_refusals();
        for (size_t d = 0; d < 5; d++)
                for (size_t l = 0; l < 5; l++)
                        for (int op = SF_SUM; op <= SF_MIN; op++)
                                for (unsigned bits = 0; bits < 64; bits++) {
                                        how h = {.dt = dtypes[d], .n = lengths[l], .op = (sf_op)op, .scan = bits & 1, .columns = bits & 2,
                                                 .masked = bits & 4, .reverse = bits & 8, .exclusive = bits & 16, .in_place = bits & 32};
                                        if (!h.scan && (h.exclusive || h.in_place))
                                                continue;
                                        if (h.dt == DT_I32 && op < SF_MAX)
                                                continue; /* into 32 bits: nothing new */
                                        if (number++ % (l == 4 ? 10 * every : every) == 0) /* few of those that threads share */
                                                check(&h);
                                }
        engines_close();
        return finish("test_skip_nan", checks);
}
