/* laws_some.c: laws that some operations have, for every pair of dtypes that they take. */
#include "laws.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool is_extreme(sf_op op)
{
        return op == SF_MAX || op == SF_MIN;
}

/* Any grouping gives the same bits. */
static bool is_free(void)
{
        return !is_real(k.out) || is_extreme(k.op);
}

static sf_scalar scalar_at(int dt, const char *p)
{
        float f;
        double d;
        if (dt == DT_F32)
                return memcpy(&f, p, sizeof f), sf_real(f);
        if (dt == DT_F64)
                return memcpy(&d, p, sizeof d), sf_real(d);
        return dts[dt].kind == 'u' ? sf_uint(bits_of(dt, p)) : sf_int(integer_at(dt, p));
}

/* scan(a ++ b) = scan(a) ++ (fold(a) + scan(b)), where len(a) is a power of two and len(b) <= len(a); wherever it is cut, if the operation is free. */
static void concatenation(void)
{
        char total[SIZE];
        if (is_index(k.op) || k.op == SF_LOGSUMEXP || k.out != k.acc)
                return; /* whose totals are more than the result that is stored */
        for (int64_t a = 1; a <= 4096; a *= 4)
                for (int part = 0; part < 3 + is_free(); part++) {
                        const int64_t b = part == 0 ? 1 : part == 1 ? (a + 2) / 3 : part == 2 ? a : 3 * a + 5;
                        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                        scan(x, y, a + b, 0);
                        fold(x, total, 1, &a, NULL, 0);
                        o.initial = scalar_at(k.out, total);
                        scan_with(o, k.in, k.out, in_at(x, a), z, b, 0);
                        equal("scan of a concatenation", a + b, out_at(y, a), z, b);
                }
}

/* A mask selects: elements that are masked out have no influence, not even NaN. */
static void masks(void)
{
        static uint8_t mask[SHORT];
        const int64_t n = SHORT;
        const bool identity_is_an_element = k.op == SF_SUM || k.op == SF_PROD || (is_real(k.in) && !is_index(k.op)) || (is_extreme(k.op) && k.in == k.out);
        char identity[SIZE];
        const sf_tensor tm = tensor(mask, SF_BOOL, 1, (int64_t *)&n);
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        put_identity(k.out, identity);
        o.mask = &tm;
        memset(mask, 0, (size_t)n);
        scan_with(o, k.in, k.out, x, y, n, 0);
        for (int64_t i = 0; i < n; i++)
                memcpy(out_at(z, i), identity, (size_t)dts[k.out].size);
        equal("nothing selected is the identity", n, y, z, n);
        for (int64_t i = 0; i < n; i++)
                mask[i] = hash((uint64_t)i) % 3 != 0;
        memcpy(t, x, (size_t)(n * dts[k.in].size));
        for (int64_t i = 0; i < n; i++)
                if (!mask[i])
                        memset(in_at(t, i), dts[k.in].kind == 'b' ? 1 : 0x7f, (size_t)dts[k.in].size); /* of reals a NaN, or very large */
        scan_with(o, k.in, k.out, x, y, n, 0);
        scan_with(o, k.in, k.out, t, z, n, 0);
        equal("what a mask hides is not seen", n, y, z, n);
        if (!identity_is_an_element)
                return;
        put_identity(k.in, identity);
        for (int64_t i = 0; i < n; i++)
                if (!mask[i])
                        memcpy(in_at(t, i), identity, (size_t)dts[k.in].size);
        scan(t, z, n, 0);
        equal("a mask is a selection of identities", n, y, z, n);
}

/* Integers wrap: a plain loop, whatever the order. */
static void integers(void)
{
        if (is_real(k.out) || (k.op != SF_SUM && k.op != SF_PROD))
                return;
        uint64_t total = k.op == SF_PROD;
        for (int64_t i = 0; i < SHORT; i++) {
                uint64_t v = (uint64_t)integer_at(k.in, in_at(x, i));
                v = dts[k.in].kind == 'b' ? v != 0 : v;
                total = k.op == SF_PROD ? total * v : total + v;
                if (dts[k.out].kind == 'b')
                        total = total != 0;
                memcpy(out_at(z, i), &total, (size_t)dts[k.out].size);
        }
        scan(x, y, SHORT, 0);
        equal("integers wrap", SHORT, y, z, SHORT);
}

/* Reverses the order of elements: negates reals, and inverts the bits of integers, because
 * -lowest does not exist. */
static void turn(int dt, char *from, char *to, int64_t n)
{
        const int size = dts[dt].size;
        memcpy(to, from, (size_t)(n * size));
        for (int64_t i = 0; i < n; i++)
                for (int b = 0; b < size; b++)
                        if (!is_real(dt))
                                to[i * size + b] = (char)(dts[dt].kind == 'b' ? !to[i * size + b] : ~to[i * size + b]);
                        else if (b == size - 1)
                                to[i * size + b] = (char)(to[i * size + b] ^ 0x80);
}

static void extremes(void)
{
        const int64_t n = SHORT;
        if (!is_extreme(k.op) || k.in != k.out)
                return;
        fill(k.in, FILL_special, false, 3, n, t);
        scan(t, y, n, 0);
        scan(y, z, n, 0);
        equal("a running extreme is its own", n, y, z, n);
        turn(k.in, t, wide, n);
        k.op = k.op == SF_MAX ? SF_MIN : SF_MAX;
        scan(wide, z, n, 0);
        turn(k.in, z, z, n);
        equal("max is min, turned", n, y, z, n);
        k.op = k.op == SF_MAX ? SF_MIN : SF_MAX;
}

static void indices(void)
{
        if (!is_index(k.op))
                return;
        const kind index = k;
        const int64_t n = SHORT;
        fill(k.in, FILL_small, false, 3, n, t); /* many equal ones */
        scan(t, y, n, 0);
        turn(k.in, t, wide, n);
        k.op = (sf_op)(k.op ^ 1); /* argmax and argmin are neighbours */
        scan(wide, z, n, 0);
        equal("argmax is argmin, turned", n, y, z, n);
        /* the element at the index is the extreme; zeros of either sign are equal to an index, so to both */
        k = index;
        k.op = k.op == SF_ARGMAX || k.op == SF_LAST_ARGMAX ? SF_MAX : SF_MIN;
        k.out = k.in;
        scan(t, z, n, 0);
        for (int64_t i = 0; i < n; i++) {
                const char *there = in_at(t, integer_at(index.out, y + i * dts[index.out].size));
                const uint64_t a = bits_of(k.in, there), b = bits_of(k.in, in_at(z, i)), sign = is_real(k.in) ? (uint64_t)1 << (8 * dts[k.in].size - 1) : 0;
                if (a != b && ((a | b) & ~sign)) {
                        FAIL("%s: %s of %s: at its index %" PRId64 " there is %" PRIx64 ", and the extreme is %" PRIx64, now->name, sf_op_name(index.op),
                             dts[k.in].name, i, a, b);
                        break;
                }
        }
        checks++;
        k = index;
}

static double real_at(int dt, const char *p)
{
        float f;
        double d;
        if (dt == DT_F32)
                return memcpy(&f, p, sizeof f), f;
        return memcpy(&d, p, sizeof d), d;
}

/* Within the bound of docs/order.md of what long double makes of it. */
static void logsumexps(void)
{
        if (k.op != SF_LOGSUMEXP || k.out != k.acc)
                return;
        const int64_t n = SHORT;
        const double u = k.out == DT_F32 ? 0x1p-24 : 0x1p-53;
        fill(k.in, FILL_small, false, 3, n, t);
        convert(k.in, DT_F64, t, wide, n);
        scan(t, y, n, 0);
        long double sum = 0;
        for (int64_t i = 0; i < n; i++) {
                sum += expl((long double)real_at(DT_F64, wide + i * 8));
                const double right = (double)logl(sum), is = real_at(k.out, out_at(y, i)), bound = (15 + 5) * u + 2 * u * fabs(right);
                if (!(fabs(is - right) <= bound)) {
                        FAIL("%s: logsumexp of %s into %s: element %" PRId64 " is %.17g, and not %.17g", now->name, dts[k.in].name, dts[k.out].name, i, is, right);
                        break;
                }
        }
        checks++;
}

/* h = a h + b: with a = 1 the cumulative sum of b, with a = 0 b itself; of every dtype that b may have. */
static void recurrences(void)
{
        if (k.op != SF_SUM || !is_real(k.out))
                return;
        int64_t n = SHORT, one = 1;
        float a32 = 1;
        double a64 = 1;
        const sf_tensor ta = tensor(k.acc == DT_F32 ? (void *)&a32 : &a64, dts[k.acc].dtype, 1, &one);
        const sf_tensor tb = tensor(x, dts[k.in].dtype, 1, &n), th = tensor(z, dts[k.out].dtype, 1, &n);
        scan(x, y, n, 0);
        need(sf_recurrence(now->ctx, &ta, &tb, &th, NULL));
        equal("a recurrence with a = 1 is the sum", n, y, z, n);
        a32 = 0;
        a64 = 0;
        convert(k.in, k.out, x, y, n);
        need(sf_recurrence(now->ctx, &ta, &tb, &th, NULL));
        for (int64_t i = 0; i < n; i++) /* 0 * h + b is +0.0 where b is -0.0 */
                if (bits_of(k.out, out_at(y, i)) << (64 - 8 * dts[k.out].size) << 1 == 0)
                        memset(out_at(y, i), 0, (size_t)dts[k.out].size), memset(out_at(z, i), 0, (size_t)dts[k.out].size);
        equal("a recurrence with a = 0 is b", n, y, z, n);
}

void laws_of_some(void)
{
        concatenation();
        masks();
        integers();
        extremes();
        indices();
        logsumexps();
        recurrences();
}
