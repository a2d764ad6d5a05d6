/* What follows from the order (docs/order.md), for every engine: laws that need no reference. */
#include "harness.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST (1 << 18)

static long checks;
static const engine *now;
static float *x, *y, *z, *t;

static const int64_t lengths[] = {1, 2, 3, 7, 16, 31, 64, 100, 257, 1000, 4097, 70000, 262144};
#define EACH_LENGTH(n)                                                                                             \
        for (size_t each = 0; each < sizeof lengths / sizeof *lengths; each++)                                     \
                for (int64_t n = lengths[each], once = 1; once; once = 0)

static void need(sf_status status)
{
        CHECK(status == SF_OK, "%s: %s: %s", now->name, sf_status_name(status), sf_last_error(now->ctx));
}

/* Scans n floats; negative strides stand for a flip. */
static void scan1(const float *in, float *out, int64_t n, int reverse, int exclusive, bool flip_in, bool flip_out)
{
        int64_t one = 1, back = -1;
        sf_tensor ti = tensor((float *)(flip_in ? in + n - 1 : in), SF_F32, 1, &n);
        sf_tensor to = tensor(flip_out ? out + n - 1 : out, SF_F32, 1, &n);
        ti.strides = flip_in ? &back : &one;
        to.strides = flip_out ? &back : &one;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        o.reverse = reverse;
        o.exclusive = exclusive;
        need(sf_scan(now->ctx, &ti, &to, &o));
}

static float fold1(const float *in, int64_t n, int reverse)
{
        float total = -1;
        sf_tensor ti = tensor((float *)in, SF_F32, 1, &n), to = tensor(&total, SF_F32, 0, NULL);
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.reverse = reverse;
        need(sf_fold(now->ctx, &ti, &to, &o));
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

static void last_of_scan_is_fold(void)
{
        EACH_LENGTH(n)
        {
                scan1(x, y, n, 0, 0, false, false);
                float total = fold1(x, n, 0);
                equal("the last of the scan is the fold", n, &y[n - 1], &total, 1);
                scan1(x, y, n, 1, 0, false, false);
                total = fold1(x, n, 1);
                equal("the first of the reverse scan is the reverse fold", n, &y[0], &total, 1);
        }
}

static void never_decreases(void)
{
        fill(DT_F32, FILL_positive, false, 5, LONGEST, t);
        EACH_LENGTH(n)
        {
                scan1(t, y, n, 0, 0, false, false);
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
        for (int64_t a = 1; a <= LONGEST / 2; a *= 2)
                for (int part = 0; part < 4; part++) {
                        int64_t b = part == 0 ? 1 : part == 1 ? a / 2 : part == 2 ? a / 3 : a;
                        if (!b)
                                continue;
                        scan1(x, y, a + b, 0, 0, false, false);
                        scan1(x, z, a, 0, 0, false, false);
                        scan1(x + a, z + a, b, 0, 0, false, false);
                        volatile float total = fold1(x, a, 0);
                        for (int64_t i = a; i < a + b; i++) {
                                volatile float sum = total + z[i];
                                z[i] = sum;
                        }
                        equal("scan of a concatenation", a + b, y, z, a + b);
                }
}

static void flips(void)
{
        EACH_LENGTH(n)
        {
                scan1(x, y, n, 0, 0, false, false);
                for (int64_t i = 0; i < n; i++)
                        t[i] = x[n - 1 - i];
                scan1(t, z, n, 0, 0, true, false);
                equal("flip twice", n, y, z, n);
                scan1(x, y, n, 1, 0, false, false);
                scan1(x, z, n, 0, 0, true, true);
                equal("reverse is flip, scan, flip", n, y, z, n);
                scan1(x, z, n, 1, 0, true, true);
                scan1(x, y, n, 0, 0, false, false);
                equal("reverse of a flip, flipped", n, y, z, n);
                float forward = fold1(x, n, 1), backward = 0;
                for (int64_t i = 0; i < n; i++)
                        t[i] = x[n - 1 - i];
                backward = fold1(t, n, 0);
                equal("a reverse fold is the fold of the flip", n, &forward, &backward, 1);
        }
}

static void exclusive(void)
{
        const float zero = 0;
        EACH_LENGTH(n)
        {
                scan1(x, y, n, 0, 0, false, false);
                scan1(x, z, n, 0, 1, false, false);
                equal("an exclusive scan begins with the identity", n, z, &zero, 1);
                equal("exclusive is inclusive, one later", n, z + 1, y, n - 1);
                scan1(x, y, n, 1, 0, false, false);
                scan1(x, z, n, 1, 1, false, false);
                equal("a reverse exclusive scan ends with the identity", n, z + n - 1, &zero, 1);
                equal("reverse exclusive is reverse, one earlier", n, z, y + 1, n - 1);
        }
}

/* Several axes fold as one sequence, whatever lies where. */
static void several_axes(void)
{
        int64_t shape[3] = {13, 17, 9}, transposed[3] = {1, 13, 13 * 17};
        int64_t n = shape[0] * shape[1] * shape[2];
        float total = 0, flat = fold1(x, n, 0), by_transpose = 0;
        sf_tensor tx = tensor(x, SF_F32, 3, shape), to = tensor(&total, SF_F32, 0, NULL);
        need(sf_fold(now->ctx, &tx, &to, NULL));
        equal("sum(x) is sum(x.reshape(-1))", n, &total, &flat, 1);

        for (int64_t i = 0; i < shape[0]; i++)
                for (int64_t j = 0; j < shape[1]; j++)
                        for (int64_t k = 0; k < shape[2]; k++)
                                t[i + j * 13 + k * 13 * 17] = x[(i * shape[1] + j) * shape[2] + k];
        tx = tensor(t, SF_F32, 3, shape);
        tx.strides = transposed;
        to = tensor(&by_transpose, SF_F32, 0, NULL);
        need(sf_fold(now->ctx, &tx, &to, NULL));
        equal("sum(x) does not see the strides", n, &by_transpose, &flat, 1);

        /* Axes 0 and 2, given in the wrong order, against each sequence laid out by hand. */
        int32_t axes[2] = {2, 0};
        float sums[17], by_hand[17];
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.axes = axes;
        o.naxes = 2;
        tx = tensor(x, SF_F32, 3, shape);
        to = tensor(sums, SF_F32, 1, &shape[1]);
        need(sf_fold(now->ctx, &tx, &to, &o));
        for (int64_t j = 0; j < shape[1]; j++) {
                for (int64_t i = 0; i < shape[0]; i++)
                        for (int64_t k = 0; k < shape[2]; k++)
                                t[i * shape[2] + k] = x[(i * shape[1] + j) * shape[2] + k];
                by_hand[j] = fold1(t, shape[0] * shape[2], 0);
        }
        equal("two axes that are not neighbours are one sequence", 17, sums, by_hand, 17);
}

/* A line's result depends on that line alone: not on how many there are, nor where it lies. */
static void batch_does_not_matter(void)
{
        int64_t rows[2] = {700, 300}, columns[2] = {300, 700};
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        sf_tensor tx = tensor(x, SF_F32, 2, rows), ty = tensor(y, SF_F32, 2, rows);
        need(sf_scan(now->ctx, &tx, &ty, &o));
        for (int64_t r = 0; r < 700; r += 99) {
                scan1(x + r * 300, z, 300, 0, 0, false, false);
                equal("one row by itself", 300, z, y + r * 300, 300);
        }
        o.axis = 0;
        tx = tensor(x, SF_F32, 2, columns);
        ty = tensor(y, SF_F32, 2, columns);
        need(sf_scan(now->ctx, &tx, &ty, &o));
        for (int64_t c = 0; c < 700; c += 99) {
                for (int64_t i = 0; i < 300; i++) {
                        t[i] = x[i * 700 + c];
                        t[300 + i] = y[i * 700 + c];
                }
                scan1(t, z, 300, 0, 0, false, false);
                equal("one column by itself", 300, z, t + 300, 300);
        }
}

/* An initial value is the last addition; a mask selects, and what it hides is not seen, NaN least of all. */
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
                scan1(x, y, n, 0, 0, false, false);
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
                scan1(t, y, n, 0, 0, false, false);
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

int main(void)
{
        engines_open();
        float **buffers[] = {&x, &y, &z, &t};
        for (int i = 0; i < 4; i++)
                if (!(*buffers[i] = malloc((LONGEST + 1) * sizeof(float))))
                        abort();
        for (int i = 0; i < engine_count; i++) {
                now = &engines[i];
                fill(DT_F32, FILL_mixed, false, 0, LONGEST, x);
                last_of_scan_is_fold();
                never_decreases();
                concatenation();
                flips();
                exclusive();
                several_axes();
                batch_does_not_matter();
                initial_and_mask();
                products_keep_their_exponents();
        }
        for (int i = 0; i < 4; i++)
                free(*buffers[i]);
        engines_close();
        return finish("test_laws", checks);
}
