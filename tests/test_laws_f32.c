/*
 * Laws of the order (docs/order.md) in which the test adds or multiplies by itself, in f32, for every engine. test_laws.c has the others.
 *
 *     test_laws_f32 [N]     with N of more than 1, no sequence of more than 2^14 elements
 */
#include "harness.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST (1 << 18)

static long checks;
static int64_t longest = LONGEST;
static const engine *now;
static float *x, *y, *z, *t;

static const int64_t lengths[] = {1, 2, 3, 7, 16, 31, 64, 100, 257, 1000, 4097, 70000, 262144};
#define EACH_LENGTH(n)                                                                                             \
        for (size_t each = 0; each < sizeof lengths / sizeof *lengths; each++)                                     \
                for (int64_t n = lengths[each], once = n <= longest; once; once = 0)

static void need(sf_status status)
{
        CHECK(status == SF_OK, "%s: %s: %s", now->name, sf_status_name(status), sf_last_error(now->ctx));
}

static void scan1(const float *in, float *out, int64_t n)
{
        const sf_tensor ti = tensor((float *)in, SF_F32, 1, &n), to = tensor(out, SF_F32, 1, &n);
        need(sf_scan(now->ctx, &ti, &to, NULL));
}

static float fold1(const float *in, int64_t n)
{
        float total = -1;
        const sf_tensor ti = tensor((float *)in, SF_F32, 1, &n), to = tensor(&total, SF_F32, 0, NULL);
        need(sf_fold(now->ctx, &ti, &to, NULL));
        return total;
}

static void equal(const char *law, int64_t n, const float *a, const float *b, int64_t count)
{
        checks++;
        for (int64_t i = 0; i < count; i++)
                if (!same_bits(DT_F32, &a[i], &b[i])) {
                        FAIL("%s: %s, n = %" PRId64 ": element %" PRId64 " is %08" PRIx64 " and %08" PRIx64, now->name,
                             law, n, i,
                             bits_of(DT_F32, &a[i]), bits_of(DT_F32, &b[i]));
                        return;
                }
}

static void never_decreases(void)
{
        fill(DT_F32, FILL_positive, false, 5, LONGEST, t);
        EACH_LENGTH(n)
        {
                scan1(t, y, n);
                for (int64_t i = 1; i < n; i++)
                        if (!(y[i] >= y[i - 1])) {
                                FAIL("%s: a scan of non-negative numbers falls at %" PRId64 " of %" PRId64, now->name,
                                     i, n);
                                break;
                        }
                checks++;
        }
}

/* scan(a ++ b) = scan(a) ++ (fold(a) + scan(b)), len(a) a power of two, len(b) <= len(a). */
static void concatenation(void)
{
        for (int64_t a = 1; a <= longest / 2; a *= 2)
                for (int part = 0; part < 4; part++) {
                        int64_t b = part == 0 ? 1 : part == 1 ? a / 2 : part == 2 ? a / 3 : a;
                        if (!b)
                                continue;
                        scan1(x, y, a + b);
                        scan1(x, z, a);
                        scan1(x + a, z + a, b);
                        volatile float total = fold1(x, a);
                        for (int64_t i = a; i < a + b; i++) {
                                volatile float sum = total + z[i];
                                z[i] = sum;
                        }
                        equal("scan of a concatenation", a + b, y, z, a + b);
                }
}

/* An initial value is the last addition; a mask selects: elements that are masked out have no
 * influence, not even NaN. */
static void initial_and_mask(void)
{
        EACH_LENGTH(n)
        {
                uint8_t *mask = malloc((size_t)n);
                if (!mask)
                        abort();
                sf_tensor tx = tensor(x, SF_F32, 1, &n), tz = tensor(z, SF_F32, 1, &n),
                        tm = tensor(mask, SF_BOOL, 1, &n);
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.initial = sf_real(0.1);
                scan1(x, y, n);
                for (int64_t i = 0; i < n; i++) {
                        volatile float sum = 0.1f + y[i];
                        y[i] = sum;
                }
                need(sf_scan(now->ctx, &tx, &tz, &o));
                equal("initial + scan", n, z, y, n);

                for (int64_t i = 0; i < n; i++) {
                        mask[i] = hash((uint64_t)i) % 3 != 0;
                        t[i] = mask[i] ? x[i] : 0.0f;
                }
                scan1(t, y, n);
                for (int64_t i = 0; i < n; i++)
                        t[i] = mask[i] ? x[i] : NAN;
                tx.data = t;
                o = (sf_scan_options)SF_SCAN_OPTIONS_INIT;
                o.mask = &tm;
                need(sf_scan(now->ctx, &tx, &tz, &o));
                equal("a mask is a selection of zeros", n, z, y, n);
                free(mask);
        }
}

/* -------------------------------------------------------------------------------------------------
 * Products: whatever leaves the range on the way, a result is the tree's with no bound on
 * exponents, brought into the range at the end
 * ---------------------------------------------------------------------------------------------- */
typedef struct scaled {
        float part; /* in [0.5, 1), or 0 */
        long exponent;
} scaled;

static scaled scaled_of(float v)
{
        int e;
        scaled s = {.part = frexpf(v, &e)};
        s.exponent = e;
        return s;
}

static scaled times(scaled a, scaled b)
{
        scaled r = scaled_of(a.part * b.part);
        r.exponent += a.exponent + b.exponent;
        return r;
}

static float value_of(scaled s)
{
        return ldexpf(s.part, s.exponent > 1000    ? 1000
                              : s.exponent < -1000 ? -1000
                                                   : (int)s.exponent);
}

static void scan_scaled(scaled *v, int64_t n)
{
        int64_t left = 1;
        if (n == 1)
                return;
        while (2 * left < n)
                left *= 2;
        scan_scaled(v, left);
        scan_scaled(v + left, n - left);
        for (int64_t i = left; i < n; i++)
                v[i] = times(v[left - 1], v[i]);
}

static void products_keep_their_exponents(void)
{
        scaled *v = malloc(LONGEST * sizeof *v);
        sf_scan_options scan = SF_SCAN_OPTIONS_INIT;
        sf_fold_options fold = SF_FOLD_OPTIONS_INIT;
        scan.op = fold.op = SF_PROD;
        if (!v)
                abort();
        EACH_LENGTH(n) {
                for (int zero = 0; zero < 2; zero++) {
                        for (int64_t i = 0; i < n; i++) {
                                /* Exponents wander far out of the range and come back, down to
                                 * subnormal elements. */
                                int e = (int)(hash((uint64_t)(i / 5)) % 274) - 147;
                                t[i] = ldexpf(1 + (float)(hash((uint64_t)i + 99) % 8388608) *
                                                              0x1p-23f,
                                              e) *
                                       (hash((uint64_t)i) % 2 ? 1 : -1);
                        }
                        if (zero)
                                t[0] = 0;
                        for (int64_t i = 0; i < n; i++)
                                v[i] = scaled_of(t[i]);
                        scan_scaled(v, n);
                        for (int64_t i = 0; i < n; i++)
                                z[i] = value_of(v[i]);
                        float total;
                        sf_tensor in = tensor(t, SF_F32, 1, &n), out = tensor(y, SF_F32, 1, &n),
                                  one = tensor(&total, SF_F32, 0, NULL);
                        need(sf_scan(now->ctx, &in, &out, &scan));
                        equal("scan of products", n, y, z, n);
                        need(sf_fold(now->ctx, &in, &one, &fold));
                        equal("fold of products", n, &total, &z[n - 1], 1);
                }
        }
        free(v);
        double far[] = {1e-200, 1e-200, 1e200, 1e200}, back;
        int64_t four = 4;
        sf_tensor in = tensor(far, SF_F64, 1, &four), one = tensor(&back, SF_F64, 0, NULL);
        need(sf_fold(now->ctx, &in, &one, &fold));
        checks++;
        CHECK(fabs(back - 1) < 1e-15, "%s: 1e-200 twice and 1e200 twice make %g", now->name, back);
}

int main(int argc, char **argv)
{
        if (argc > 1 && atoi(argv[1]) > 1)
                longest = 1 << 14;
        engines_open();
        float **buffers[] = {&x, &y, &z, &t};
        for (int i = 0; i < 4; i++)
                if (!(*buffers[i] = malloc((LONGEST + 1) * sizeof(float))))
                        abort();
        for (int i = 0; i < engine_count; i++) {
                now = &engines[i];
                fill(DT_F32, FILL_mixed, false, 0, LONGEST, x);
                never_decreases();
                concatenation();
                initial_and_mask();
                products_keep_their_exponents();
        }
        for (int i = 0; i < 4; i++)
                free(*buffers[i]);
        engines_close();
        return finish("test_laws_f32", checks);
}
