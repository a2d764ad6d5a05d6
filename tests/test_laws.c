/*
 * What follows from the order (docs/order.md), for every engine, operation and pair of dtypes: laws that need no reference.
 *
 *     test_laws [--every N]    of each engine one pair of dtypes in N, other ones for the next engine; f32 sums always
 *
 * Laws in which a test has to add or multiply by itself are in test_laws_f32.c.
 */
#include "laws.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 23, COLUMNS = 100 };

long checks;
const engine *now;
kind k;
char *x, *y, *z, *t, *wide;

static const int64_t lengths[] = {1, 2, 3, 7, 16, 31, 64, 100, 257, SHORT, 4097, LONGEST / 2 + 1, LONGEST};
static int length_count; /* the first so many */
#define EACH_LENGTH(n)                                                                             \
        for (int each = 0; each < length_count; each++)                                            \
                for (int64_t n = lengths[each], once = 1; once; once = 0)

bool is_real(int dt)
{
        return dts[dt].kind == 'r';
}

char *in_at(char *base, int64_t i)
{
        return base + i * dts[k.in].size;
}

char *out_at(char *base, int64_t i)
{
        return base + i * dts[k.out].size;
}

void need(sf_status status)
{
        CHECK(status == SF_OK, "%s: %s of %s into %s: %s: %s", now->name, sf_op_name(k.op), dts[k.in].name, dts[k.out].name, sf_status_name(status),
              sf_last_error(now->ctx));
}

void equal(const char *law, int64_t n, const char *a, const char *b, int64_t count)
{
        const int dt = k.out, size = dts[dt].size;
        checks++;
        for (int64_t i = 0; i < count; i++)
                if (!same_bits(dt, a + i * size, b + i * size)) {
                        FAIL("%s: %s of %s into %s: %s, n = %" PRId64 ": element %" PRId64 " is %" PRIx64 " and %" PRIx64, now->name, sf_op_name(k.op),
                             dts[k.in].name, dts[k.out].name, law, n, i, bits_of(dt, a + i * size), bits_of(dt, b + i * size));
                        return;
                }
}

void scan_with(sf_scan_options o, int in, int out, char *from, char *to, int64_t n, int how)
{
        int64_t one = 1, back = -1;
        sf_tensor ti = tensor(how & FLIP_IN ? from + (n - 1) * dts[in].size : from, dts[in].dtype, 1, &n);
        sf_tensor ty = tensor(how & FLIP_OUT ? to + (n - 1) * dts[out].size : to, dts[out].dtype, 1, &n);
        ti.strides = how & FLIP_IN ? &back : &one;
        ty.strides = how & FLIP_OUT ? &back : &one;
        o.op = k.op;
        o.reverse = (how & REVERSE) != 0;
        o.exclusive = (how & EXCLUSIVE) != 0;
        need(sf_scan(now->ctx, &ti, &ty, &o));
}

void scan(char *from, char *to, int64_t n, int how)
{
        scan_with((sf_scan_options)SF_SCAN_OPTIONS_INIT, k.in, k.out, from, to, n, how);
}

void fold(char *from, char *to, int32_t ndim, const int64_t *shape, const int64_t *strides, int how)
{
        sf_tensor ti = tensor(from, dts[k.in].dtype, ndim, (int64_t *)shape), one = tensor(to, dts[k.out].dtype, 0, NULL);
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        ti.strides = (int64_t *)strides;
        o.op = k.op;
        o.reverse = (how & REVERSE) != 0;
        need(sf_fold(now->ctx, &ti, &one, &o));
}

void convert(int in, int out, char *from, char *to, int64_t n)
{
        int64_t shape[2] = {n, 1};
        sf_tensor ti = tensor(from, dts[in].dtype, 2, shape), ty = tensor(to, dts[out].dtype, 2, shape);
        need(sf_scan(now->ctx, &ti, &ty, NULL));
}

static void flip(const char *from, char *to, int64_t n, int size)
{
        for (int64_t i = 0; i < n; i++)
                memcpy(to + i * size, from + (n - 1 - i) * size, (size_t)size);
}

int64_t integer_at(int dt, const char *p)
{
        const uint64_t bits = bits_of(dt, p);
        const int unused = 64 - 8 * dts[dt].size;
        return dts[dt].kind == 's' ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

/* An index that counts from the other end; -1 is none. */
static void count_from_the_end(char *to, int64_t n, int64_t count)
{
        for (int64_t i = 0; is_index(k.op) && i < count; i++) {
                const int64_t v = integer_at(k.out, out_at(to, i)), turned = v < 0 ? v : n - 1 - v;
                memcpy(out_at(to, i), &turned, (size_t)dts[k.out].size); /* little-endian, as the dtypes are */
        }
}

void put_identity(int dt, char *to)
{
        const int bits = 8 * dts[dt].size;
        const bool is_signed = dts[dt].kind == 's', largest = k.op == SF_MIN || k.op == SF_PROD;
        uint64_t v;
        double real = k.op == SF_SUM ? 0 : k.op == SF_PROD ? 1 : k.op == SF_MIN ? INFINITY : -INFINITY;
        if (is_real(dt)) {
                int64_t one = 1;
                const sf_tensor from = tensor(&real, SF_F64, 1, &one), ty = tensor(to, dts[dt].dtype, 1, &one);
                need(sf_scan(now->ctx, &from, &ty, NULL));
                return;
        }
        if (is_index(k.op))
                v = UINT64_MAX;
        else if (dts[dt].kind == 'b')
                v = largest;
        else if (k.op == SF_SUM || k.op == SF_PROD)
                v = k.op == SF_PROD;
        else
                v = (is_signed ? (uint64_t)1 << (bits - 1) : 0) ^ (largest ? UINT64_MAX : 0);
        memcpy(to, &v, (size_t)dts[dt].size);
}

/* ------------------------------------------------------------------------------------------------------------
 * Laws of every operation
 * ---------------------------------------------------------------------------------------------------------- */
static void scans_and_folds(void)
{
        char total[SIZE];
        EACH_LENGTH(n)
        {
                scan(x, y, n, 0);
                fold(x, total, 1, &n, NULL, 0);
                equal("the last of the scan is the fold", n, out_at(y, n - 1), total, 1);
                scan(x, z, n - n / 3, 0);
                equal("the scan of a beginning is the beginning of the scan", n, y, z, n - n / 3);
                scan(x, z, n, 0);
                equal("twice the same", n, y, z, n);
                scan(x, y, n, REVERSE);
                fold(x, total, 1, &n, NULL, REVERSE);
                equal("the first of the reverse scan is the reverse fold", n, y, total, 1);
        }
}

static void flips(void)
{
        char forward[SIZE], backward[SIZE];
        EACH_LENGTH(n)
        {
                scan(x, y, n, 0);
                flip(x, t, n, dts[k.in].size);
                scan(t, z, n, FLIP_IN);
                equal("flip twice", n, y, z, n);
                scan(x, z, n, REVERSE | FLIP_IN | FLIP_OUT);
                count_from_the_end(z, n, n);
                equal("reverse of a flip, flipped", n, y, z, n);
                scan(x, y, n, REVERSE);
                scan(x, z, n, FLIP_IN | FLIP_OUT);
                count_from_the_end(z, n, n);
                equal("reverse is flip, scan, flip", n, y, z, n);
                fold(x, backward, 1, &n, NULL, REVERSE);
                fold(t, forward, 1, &n, NULL, 0);
                count_from_the_end(forward, n, 1);
                equal("a reverse fold is the fold of the flip", n, backward, forward, 1);
        }
}

static void exclusive(void)
{
        char identity[SIZE];
        put_identity(k.out, identity);
        EACH_LENGTH(n)
        {
                scan(x, y, n, 0);
                scan(x, z, n, EXCLUSIVE);
                equal("an exclusive scan begins with the identity", n, z, identity, 1);
                equal("exclusive is inclusive, one later", n, out_at(z, 1), y, n - 1);
                scan(x, y, n, REVERSE);
                scan(x, z, n, REVERSE | EXCLUSIVE);
                equal("a reverse exclusive scan ends with the identity", n, out_at(z, n - 1), identity, 1);
                equal("reverse exclusive is reverse, one earlier", n, z, out_at(y, 1), n - 1);
        }
}

/* Several axes fold as one sequence, whatever the strides. */
static void several_axes(void)
{
        const int64_t shape[3] = {13, 17, 9}, transposed[3] = {1, 13, 13 * 17}, n = 13 * 17 * 9;
        char flat[SIZE], total[SIZE];
        fold(x, flat, 1, &n, NULL, 0);
        fold(x, total, 3, shape, NULL, 0);
        equal("fold(x) is fold(x.reshape(-1))", n, total, flat, 1);
        for (int64_t i = 0; i < n; i++)
                memcpy(in_at(t, i / 9 / 17 + i / 9 % 17 * 13 + i % 9 * 13 * 17), in_at(x, i), (size_t)dts[k.in].size);
        fold(t, total, 3, shape, transposed, 0);
        equal("fold(x) does not see the strides", n, total, flat, 1);
        /* Axes 0 and 2, given in the wrong order, against each sequence laid out by hand. */
        const int32_t axes[2] = {2, 0};
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.op = k.op;
        o.axes = axes;
        o.naxes = 2;
        const sf_tensor tx = tensor(x, dts[k.in].dtype, 3, (int64_t *)shape), ty = tensor(y, dts[k.out].dtype, 1, (int64_t *)&shape[1]);
        need(sf_fold(now->ctx, &tx, &ty, &o));
        for (int64_t j = 0, both = 13 * 9; j < 17; j++) {
                for (int64_t i = 0; i < both; i++)
                        memcpy(in_at(t, i), in_at(x, (i / 9 * 17 + j) * 9 + i % 9), (size_t)dts[k.in].size);
                fold(t, total, 1, &both, NULL, 0);
                equal("two axes that are not neighbours are one sequence", both, out_at(y, j), total, 1);
        }
}

/* A line's result depends on that line alone: not on how many there are, nor where it lies. */
static void batch_does_not_matter(void)
{
        const int64_t shape[2] = {ROWS, COLUMNS};
        const sf_tensor tx = tensor(x, dts[k.in].dtype, 2, (int64_t *)shape), ty = tensor(y, dts[k.out].dtype, 2, (int64_t *)shape);
        for (int32_t axis = 0; axis < 2; axis++) {
                const int64_t n = shape[axis], lines = shape[1 - axis], step = axis ? 1 : COLUMNS, apart = axis ? COLUMNS : 1;
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.op = k.op;
                o.axis = axis;
                need(sf_scan(now->ctx, &tx, &ty, &o));
                for (int64_t line = 0; line < lines; line += 9) {
                        for (int64_t i = 0; i < n; i++) {
                                memcpy(in_at(t, i), in_at(x, line * apart + i * step), (size_t)dts[k.in].size);
                                memcpy(out_at(wide, i), out_at(y, line * apart + i * step), (size_t)dts[k.out].size);
                        }
                        scan(t, z, n, 0);
                        equal(axis ? "one row by itself" : "one column by itself", n, z, wide, n);
                }
        }
}

/* Elements are converted to the accumulator's type, combined there, and rounded once on the way out. Indices compare elements as they are. */
static void conversions(void)
{
        const int acc = is_index(k.op) ? (is_real(k.in) ? DT_F64 : dts[k.in].kind == 's' ? DT_I64 : DT_U64) : k.acc;
        const int64_t n = SHORT;
        const sf_scan_options plain = SF_SCAN_OPTIONS_INIT;
        scan(x, y, n, 0);
        if (pair_allowed(k.op, acc, k.out) && accumulator_of(acc, k.out, DT_NONE) == (is_index(k.op) ? k.out : acc)) {
                convert(k.in, acc, x, wide, n);
                scan_with(plain, acc, k.out, wide, z, n, 0);
                equal("elements are converted first", n, y, z, n);
        }
        if (is_index(k.op) || !pair_allowed(k.op, k.in, acc))
                return;
        scan_with(plain, k.in, acc, x, wide, n, 0);
        convert(acc, k.out, wide, z, n);
        equal("results are rounded once, at the end", n, y, z, n);
}

static void all_laws(void)
{
        static void (*const laws[])(void) = {scans_and_folds, flips, exclusive, several_axes, batch_does_not_matter, conversions,
                                             laws_of_some};
        k.acc = accumulator_of(k.in, k.out, DT_NONE);
        fill(k.in, FILL_mixed, k.op == SF_PROD, 0, LONGEST, x);
        for (size_t i = 0; i < sizeof laws / sizeof *laws; i++)
                laws[i]();
}

int main(int argc, char **argv)
{
        const long every = argc > 2 && !strcmp(argv[1], "--every") ? atol(argv[2]) : 1;
        const int all = sizeof lengths / sizeof *lengths;
        long number = 0;
        if (every < 1 || argc == 2)
                return fprintf(stderr, "usage: test_laws [--every N]\n"), 2;
        engines_open();
        char **buffers[] = {&x, &y, &z, &t, &wide};
        for (int i = 0; i < 5; i++)
                if (!(*buffers[i] = malloc((LONGEST + 1) * SIZE)))
                        abort();
        for (int e = 0; e < engine_count; e++) {
                now = &engines[e];
                for (int op = 0; op < op_count(); op++)
                        for (k.in = 0; k.in < DT_COUNT; k.in++)
                                for (k.out = 0; k.out < DT_COUNT; k.out++) {
                                        k.op = (sf_op)op;
                                        const bool sum = k.op == SF_SUM && k.in == DT_F32 && k.out == DT_F32;
                                        if (!pair_allowed(k.op, k.in, k.out) || (!sum && number++ % every))
                                                continue;
                                        /* One kind in some is also scanned along lines that threads share. */
                                        length_count = sum || number % 16 == 0 ? all : all - 2;
                                        all_laws();
                                }
        }
        for (int i = 0; i < 5; i++)
                free(*buffers[i]);
        engines_close();
        return finish("test_laws", checks);
}
