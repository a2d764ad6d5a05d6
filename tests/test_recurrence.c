/* Linear recurrences: every engine against the reference, bit by bit; laws; a plain loop; what is refused. */
#include "harness.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static long checks;

typedef struct form {
        int64_t shape[3];
        int32_t axis;
        int a_axes; /* bit d: a has axis d; else it is stretched along it */
        int dt_a, dt_b, dt_out;
        bool reverse, exclusive, initial, mask, in_place, turned; /* turned: b's last two axes are swapped in memory */
} form;

static sf_scan_options options_of(const form *f, const sf_tensor *mask)
{
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        o.axis = f->axis;
        o.reverse = f->reverse;
        o.exclusive = f->exclusive;
        o.initial = f->initial ? sf_real(0.75) : (sf_scalar){0};
        o.mask = f->mask ? mask : NULL;
        return o;
}

/* Numbers whose products neither underflow nor overflow. */
static void fill_gates(int dt, int64_t count, uint64_t seed, void *to)
{
        for (int64_t i = 0; i < count; i++) {
                const double v = 0.25 + (double)(hash(seed + (uint64_t)i) % 1000) / 1250;
                const float f = (float)v;
                if (dt == DT_F64)
                        memcpy((char *)to + i * 8, &v, 8);
                else
                        memcpy((char *)to + i * 4, &f, 4);
        }
}

static void check_form(const form *f, uint64_t seed)
{
        static region memory[5];
        const int64_t *n = f->shape, all = n[0] * n[1] * n[2];
        int64_t a_shape[3], turned[3] = {n[1] * n[2], 1, n[1]};
        for (int d = 0; d < 3; d++)
                a_shape[d] = f->a_axes >> d & 1 ? n[d] : 1;
        const int64_t gates = a_shape[0] * a_shape[1] * a_shape[2];
        const int guard = f->reverse ? GUARD_BEFORE : GUARD_AFTER; /* where lines end */
        char *a = region_place(&memory[0], (size_t)(gates * dts[f->dt_a].size), guard, 0), *b = region_place(&memory[1], (size_t)(all * dts[f->dt_b].size), guard, 0);
        char *right = region_place(&memory[2], (size_t)(all * dts[f->dt_out].size), guard, 0), *y = region_place(&memory[3], (size_t)(all * dts[f->dt_out].size), guard, 0);
        uint8_t *m = (uint8_t *)region_place(&memory[4], (size_t)all, guard, 0);
        fill_gates(f->dt_a, gates, seed, a);
        fill(f->dt_b, FILL_finite, false, seed + 1, all, b);
        for (int64_t i = 0; i < all; i++)
                m[i] = hash(seed + 2 + (uint64_t)i) % 4 != 0;
        sf_tensor ta = tensor(a, dts[f->dt_a].dtype, 3, a_shape), tb = tensor(b, dts[f->dt_b].dtype, 3, (int64_t *)n);
        sf_tensor tm = tensor(m, SF_BOOL, 3, (int64_t *)n), tr = tensor(right, dts[f->dt_out].dtype, 3, (int64_t *)n);
        tb.strides = f->turned ? turned : NULL;
        const sf_scan_options o = options_of(f, &tm);
        CHECK(sf_recurrence(engines[0].ctx, &ta, &tb, &tr, &o) == SF_OK, "the reference says %s", sf_last_error(engines[0].ctx));
        for (int e = 1; e < engine_count; e++) {
                sf_tensor ty = tensor(y, dts[f->dt_out].dtype, 3, (int64_t *)n);
                if (f->in_place) {
                        memcpy(y, b, (size_t)(all * dts[f->dt_b].size));
                        tb.data = y;
                        ty.strides = tb.strides;
                }
                sf_status s = sf_recurrence(engines[e].ctx, &ta, &tb, &ty, &o);
                tb.data = b;
                CHECK(s == SF_OK, "%s: %s", engines[e].name, sf_last_error(engines[e].ctx));
                checks++;
                for (int64_t i = 0; i < all; i++) {
                        const int64_t at = f->in_place && f->turned ? i / (n[1] * n[2]) * n[1] * n[2] + i / n[2] % n[1] + i % n[2] * n[1] : i;
                        const int size = dts[f->dt_out].size;
                        if (same_bits(f->dt_out, right + i * size, y + at * size))
                                continue;
                        FAIL("%s: (%" PRId64 ", %" PRId64 ", %" PRId64 ") along %d, a %d, %s %s -> %s%s%s%s%s%s%s: element %" PRId64 " is %" PRIx64 ", not %" PRIx64,
                             engines[e].name, n[0], n[1], n[2], (int)f->axis, f->a_axes, dts[f->dt_a].name, dts[f->dt_b].name, dts[f->dt_out].name,
                             f->reverse ? " reverse" : "", f->exclusive ? " exclusive" : "", f->initial ? " initial" : "", f->mask ? " mask" : "",
                             f->in_place ? " in place" : "", f->turned ? " turned" : "", i, bits_of(f->dt_out, y + at * size), bits_of(f->dt_out, right + i * size));
                        break;
                }
        }
}

static void against_the_reference(long every)
{
        static const int64_t shapes[][3] = {{1, 1, 1}, {1, 1, 5}, {2, 3, 17}, {3, 64, 4}, {1, 1000, 1}, {5, 4, 300}, {2, 33, 65}, {1, 7, 5000},
                                            {40, 3, 100}, {1, 300, 40}, {1, 1, 300000}, {1, 70000, 3}, {2, 5000, 70}};
        static const int types[][3] = {{DT_F32, DT_F32, DT_F32}, {DT_F64, DT_F64, DT_F64}, {DT_F32, DT_F32, DT_F64}, {DT_F32, DT_F16, DT_F16},
                                       {DT_F64, DT_F32, DT_F32}, {DT_F32, DT_BF16, DT_F32}, {DT_F32, DT_I16, DT_F32}};
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                for (int32_t axis = 0; axis < 3; axis++)
                        for (int k = 0; k < (shapes[i][0] * shapes[i][1] * shapes[i][2] < 20000 ? 12 : 2); k++) {
                                const uint64_t r = hash(i * 1000 + (uint64_t)axis * 100 + (uint64_t)k);
                                form f = {.axis = axis - (k % 2 ? 3 : 0), .a_axes = k % 3 ? (int)(r % 8) : 7, .reverse = r >> 8 & 1, .exclusive = r >> 9 & 1,
                                          .initial = r >> 10 & 1, .mask = r >> 11 & 1, .turned = r >> 12 & 1};
                                const int *t = types[k % 2 ? r >> 16 & 1 : (r >> 16) % 7];
                                if ((r >> 40) % (uint64_t)every)
                                        continue;
                                memcpy(f.shape, shapes[i], sizeof f.shape);
                                f.dt_a = t[0], f.dt_b = t[1], f.dt_out = t[2];
                                f.in_place = t[1] == t[2] && (r >> 13 & 1);
                                check_form(&f, r);
                        }
}

/* Lines along which products of gates vanish (src/cpu/vanish.inc.h), and what then must not be left
 * out: numbers that are zero, very small or very large, gates above 1, zeros, and numbers that are
 * not finite. */
static float vanishing_gate(int kind, int64_t line, uint64_t r)
{
        static const float constant[] = {0.25f, 0.21f, 0.1f, 0.05f, 0.01f, 0.001f, 1e-6f, 0.3f};
        const float usual = 0.8f + (float)(r % 1000) / 5000, half = 0.5f + (float)(r % 500) / 1000;
        switch (kind) {
        case 0: return usual;
        case 1: return r >> 20 & 1 ? -half : half;
        case 2: return r >> 20 & 63 ? half : 3e4f;
        case 3: return r >> 20 & 255 ? usual : r >> 30 & 1 ? 0.0f : -0.0f;
        case 4: return r >> 20 & 31 ? usual : 1e-30f;
        case 5: return r >> 20 & 1023 ? usual : 1e30f;
        case 6: return r >> 20 & 1 ? half - 0.5f : 0.5f - half;
        case 7: return r >> 40 & 127 ? constant[line & 7] : usual;
        default: return r >> 20 & 255 ? half - 0.5f : r >> 30 & 3 ? 1000.0f : r >> 40 & 1 ? INFINITY : NAN;
        }
}

static float vanishing_number(int kind, uint64_t r)
{
        const float usual = (float)(int64_t)(r % 2001) / 500 - 2;
        switch (kind) {
        case 0: return usual;
        case 1: return ldexpf(usual, -24);
        case 2: return r >> 20 & 15 ? 0.0f : ldexpf(usual, -40);
        case 3: return r >> 20 & 255 ? usual : ldexpf(usual, 40);
        case 4: return r >> 20 & 4095 ? usual : INFINITY;
        case 5: return ldexpf(usual, r >> 20 & 63 ? -70 : 40);
        default: return r >> 20 & 1 ? -0.0f : ldexpf(usual, -130);
        }
}

/* Thinned, one in seven, which goes round shapes, gates and numbers. */
static void vanishing(long every)
{
        enum { N = 24000, KINDS = 7, GATES = 9 };
        static float a[N], b[N], right[N], y[N];
        static double wide[4][N];
        static const int64_t shapes[][2] = {{1, N}, {8, N / 8}, {N / 40, 40}};
        for (int k = 0; k < GATES * KINDS * 3; k += every < 100 ? 1 : 7) {
                const int64_t *shape = shapes[k % 3];
                int64_t n[2] = {shape[0], shape[1]};
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.axis = k % 3 == 2 ? 0 : 1;
                o.reverse = k / 3 % 2;
                o.exclusive = k / 6 % 2;
                for (int64_t i = 0; i < N; i++) {
                        a[i] = vanishing_gate(k / 3 / KINDS, i / 1000, hash((uint64_t)(k * N + i)));
                        b[i] = vanishing_number(k / 3 % KINDS, hash((uint64_t)(k * N + i) + 77));
                        wide[0][i] = a[i], wide[1][i] = b[i];
                }
                sf_tensor ta = tensor(a, SF_F32, 2, n), tb = tensor(b, SF_F32, 2, n), tr = tensor(right, SF_F32, 2, n), ty = tensor(y, SF_F32, 2, n);
                sf_tensor wa = tensor(wide[0], SF_F64, 2, n), wb = tensor(wide[1], SF_F64, 2, n), wr = tensor(wide[2], SF_F64, 2, n), wy = tensor(wide[3], SF_F64, 2, n);
                for (int e = 0; e < engine_count; e++) {
                        sf_context *ctx = engines[e].ctx;
                        CHECK(sf_recurrence(ctx, &ta, &tb, e ? &ty : &tr, &o) == SF_OK && sf_recurrence(ctx, &wa, &wb, e ? &wy : &wr, &o) == SF_OK, "%s", sf_last_error(ctx));
                        for (int64_t i = 0; e && i < N; i++)
                                if (!same_bits(DT_F32, &right[i], &y[i]) || !same_bits(DT_F64, &wide[2][i], &wide[3][i]))
                                        FAIL("%s: case %d, element %" PRId64 " is %a or %a, not %a or %a", engines[e].name, k, i, (double)y[i], wide[3][i], (double)right[i],
                                             wide[2][i]);
                        checks += 2;
                }
        }
}

/*
 * The limits of src/cpu/vanish.inc.h, each met from both sides: h is 2^number at first, then is
 * multiplied by 2^growth and by 2^-decay, and last a number of 2^-least with an odd last place is
 * added. Each of the four is in another block of the tree, whatever an instruction set's tile is, and all
 * lanes of a vector are alike. A limit that is six places too generous (f64: 13) gives a wrong bit.
 */
static void limits(void)
{
        enum { N = 512, ALIKE = 16, CASES = 6 + 6, LINES = CASES * ALIKE, ALL = N * LINES };
        static const int decays[2][6] = {{50, 54, 58, 59, 62, 65}, {80, 84, 87, 88, 95, 101}};
        for (int kind = 0; kind < 4; kind++) {
                const bool wide = kind & 1, rows = kind & 2;
                const size_t size = wide ? 8 : 4;
                const int64_t shape[2] = {rows ? LINES : N, rows ? N : LINES};
                char *memory = calloc(4 * ALL, size), *a = memory, *b = a + ALL * size, *right = b + ALL * size, *y = right + ALL * size;
                CHECK(memory, "memory");
                for (int64_t i = 0; i < ALL; i++) {
                        const int64_t at = rows ? i % N : i / LINES;
                        const int k = (int)((rows ? i / N : i % LINES) / ALIKE), decay = decays[wide][k < 6 ? k : 5];
                        const int more = k < 6 ? 0 : (wide ? 13 : 6) * (1 + k % 2); /* than its limit has one of */
                        const int growth = k / 2 == 3 ? more : 0, number = 15 + (k / 2 == 4 ? more : 0), least = 20 + (k / 2 == 5 ? more : 0);
                        const double gate = at == 300 ? ldexp(1, growth) : at == 400 ? ldexp(1, -decay) : 1;
                        const double odd = 1 + (wide ? DBL_EPSILON : (double)FLT_EPSILON);
                        const double h = at == 100 ? ldexp(k & 1 ? -1 : 1, number) : at == 448 ? ldexp(odd, -least) : 0;
                        const float gate4 = (float)gate, h4 = (float)h;
                        memcpy(a + i * (int64_t)size, wide ? (const void *)&gate : &gate4, size);
                        memcpy(b + i * (int64_t)size, wide ? (const void *)&h : &h4, size);
                }
                const sf_dtype dt = wide ? SF_F64 : SF_F32;
                sf_tensor ta = tensor(a, dt, 2, (int64_t *)shape), tb = tensor(b, dt, 2, (int64_t *)shape), tr = tensor(right, dt, 2, (int64_t *)shape),
                          ty = tensor(y, dt, 2, (int64_t *)shape);
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.axis = rows;
                for (int e = 0; e < engine_count; e++) {
                        CHECK(sf_recurrence(engines[e].ctx, &ta, &tb, e ? &ty : &tr, &o) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                        for (int64_t i = 0; e && i < ALL; i++)
                                if (memcmp(right + i * (int64_t)size, y + i * (int64_t)size, size))
                                        FAIL("%s: %s of %zu bytes, element %" PRId64 " differs", engines[e].name, rows ? "rows" : "columns", size, i);
                        checks++;
                }
                free(memory);
        }
}

/*
 * Gates so small that products of a few are not normal numbers, large numbers among small ones, and
 * now and then a large gate: where src/cpu/scan_flushed.inc.h takes such products for 0, what they
 * would have added is far below half of a last place, or must be noticed.
 */
static void flushed(bool thin)
{
        enum { N = 520, LINES = 8 * 80, ALL = N * LINES };
        static float a[ALL], b[ALL], right[ALL], y[ALL];
        const int64_t shape[2] = {LINES, N};
        for (int kind = 0; kind < 3; kind += thin ? 2 : 1) {
                for (int64_t i = 0; i < ALL; i++) {
                        const int64_t line = i / N, at = i % N;
                        const uint64_t r = hash((uint64_t)(kind * ALL + i));
                        const float odd = 1 + FLT_EPSILON * (float)(1 + 2 * (r % 1000)), sign = r >> 20 & 1 ? -1 : 1;
                        a[i] = sign * ldexpf(odd, kind == 2 && at % 128 == 124 ? 100 : -(int)(3 + line / 80));
                        b[i] = at % 64 == kind ? ldexpf(odd, 29) : ldexpf(r >> 21 & 1 ? odd : -odd, -30 - (int)(line % 80));
                }
                sf_tensor ta = tensor(a, SF_F32, 2, (int64_t *)shape), tb = tensor(b, SF_F32, 2, (int64_t *)shape), tr = tensor(right, SF_F32, 2, (int64_t *)shape),
                          ty = tensor(y, SF_F32, 2, (int64_t *)shape);
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.axis = 1;
                o.reverse = kind == 1;
                for (int e = 0; e < engine_count; e++) {
                        CHECK(sf_recurrence(engines[e].ctx, &ta, &tb, e ? &ty : &tr, &o) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                        for (int64_t i = 0; e && i < ALL; i++)
                                if (!same_bits(DT_F32, &right[i], &y[i]))
                                        FAIL("%s: kind %d, line %" PRId64 ", element %" PRId64 " is %a, not %a", engines[e].name, kind, i / N, i % N, (double)y[i], (double)right[i]);
                        checks++;
                }
        }
}

/*
 * The limits of src/cpu/scan_flushed.inc.h, each of them the only one that a line is beyond: without it
 * a product of 2^-127 would be taken for 0, or what is left of one of 2^-117 be left out, and a result
 * would tell. In each line gates make it look worth a try.
 */
typedef enum limit { LARGE_GATE, LARGE_NUMBER, LARGE_INITIAL, LARGE_GATE_BEFORE, LARGE_TOTAL, LIMITS } limit;

static void beyond(limit kind, int64_t n, float *a, float *b)
{
        const int64_t small = kind == LARGE_NUMBER ? 2 : kind == LARGE_GATE_BEFORE ? 128 : 0; /* where gates of 2^-64 and 2^-63 are */
        for (int64_t i = 0; i < n; i++) {
                a[i] = i < small + 3 ? 1 : 0x1p-10f;
                b[i] = i < small + 3 ? 0x1p-20f : 1;
        }
        a[small] = 0x1p-64f;
        a[small + 1] = 0x1p-63f;
        if (kind == LARGE_GATE) {
                b[0] = 0x1p-44f;
                b[1] = 0x1p-44f + 0x1p-67f;
                a[2] = 0x1p74f;
                b[2] = -0x1p30f;
        } else if (kind == LARGE_NUMBER) {
                a[0] = 0x1p-20f;
                b[1] = 0x1p100f;
        } else if (kind == LARGE_GATE_BEFORE) {
                for (int64_t i = 0; i < small + 3; i++)
                        b[i] = 0x1p-40f;
                a[0] = 0x1p-40f;
                a[small - 1] = 0x1p70f;
        }
}

/* Numbers of 2^30 to a total of 2^50, then 64 positions with gates of 2^-60 and nearly 2^-56. A sixteenth of
 * the line is far enough from its end for the last gate that is looked at. */
static void beyond_total(int64_t n, float *a, float *b)
{
        const int64_t block = n * 7 / 8 / 128 * 128;
        for (int64_t i = 0; i < n; i++) {
                a[i] = 1;
                b[i] = i < block ? 0x1p30f : i < block + 66 ? 0x1p-44f : 1;
        }
        a[0] = a[n / 16 * 15] = 0x1p-126f;
        a[block] = 0x1p-60f;
        a[block + 63] = 0x1.fp-57f;
}

static void beyond_limits(bool thin)
{
        enum { N = 520, LONG = 1600000 };
        float *memory = malloc(4 * LONG * sizeof *memory), *a = memory, *b = a + LONG, *right = b + LONG, *y = right + LONG;
        CHECK(memory, "memory");
        for (limit kind = 0; kind < (thin ? LARGE_TOTAL : LIMITS); kind++) {
                int64_t n = kind == LARGE_TOTAL ? LONG : N;
                sf_tensor ta = tensor(a, SF_F32, 1, &n), tb = tensor(b, SF_F32, 1, &n), tr = tensor(right, SF_F32, 1, &n), ty = tensor(y, SF_F32, 1, &n);
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.initial = sf_real(kind == LARGE_INITIAL ? 0x1p100 : kind == LARGE_GATE || kind == LARGE_GATE_BEFORE ? 0x1p44 : 0);
                if (kind == LARGE_TOTAL)
                        beyond_total(n, a, b);
                else
                        beyond(kind, n, a, b);
                for (int e = 0; e < engine_count; e++) {
                        CHECK(sf_recurrence(engines[e].ctx, &ta, &tb, e ? &ty : &tr, &o) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                        for (int64_t i = 0; e && i < n; i++)
                                if (memcmp(&right[i], &y[i], sizeof y[i])) {
                                        FAIL("%s: limit %d, element %" PRId64 " is %a, not %a", engines[e].name, (int)kind, i, (double)y[i], (double)right[i]);
                                        break;
                                }
                        checks++;
                }
        }
        free(memory);
}

/*
 * The same of a total whose first gates alone are so small: 256 positions, of which all gates but
 * the first 32 are 1, then a gate of 2^120 and a number that takes away all but the initial value.
 */
static void found_initial(void)
{
        enum { N = 320, R = 256, SMALL = 32, LINES = 64, ALL = N * LINES };
        static float a[ALL], b[ALL], right[ALL], y[ALL];
        const int64_t shape[2] = {LINES, N};
        sf_tensor ta = tensor(a, SF_F32, 2, (int64_t *)shape), tb = tensor(b, SF_F32, 2, (int64_t *)shape), tr = tensor(right, SF_F32, 2, (int64_t *)shape),
                  ty = tensor(y, SF_F32, 2, (int64_t *)shape);
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        int64_t found = 0;
        o.axis = 1;
        for (int64_t i = 0; i < ALL; i++) {
                const int64_t at = i % N;
                a[i] = at < SMALL ? 0.05f + (float)(i / N) / 3000 : at == R ? 0x1p120f : 1;
                b[i] = at < R ? 0x1p-10f + (float)(hash((uint64_t)i) % 1024) / 0x1p20f : 0;
        }
        CHECK(sf_recurrence(engines[0].ctx, &ta, &tb, &tr, &o) == SF_OK, "%s", sf_last_error(engines[0].ctx));
        for (int64_t line = 0; line < LINES; line++)
                b[line * N + R] = -0x1p120f * right[line * N + R - 1];
        o.initial = sf_real(1);
        for (int e = 0; e < engine_count; e++) {
                CHECK(sf_recurrence(engines[e].ctx, &ta, &tb, e ? &ty : &tr, &o) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                for (int64_t i = 0; e && i < ALL; i++)
                        if (memcmp(&right[i], &y[i], sizeof y[i]))
                                FAIL("%s: element %" PRId64 " is %a, not %a", engines[e].name, i, (double)y[i], (double)right[i]);
                checks++;
        }
        for (int64_t line = 0; line < LINES; line++)
                found += right[line * N + N - 1] > 0 && right[line * N + N - 1] < 0x1p-4f;
        CHECK(found > LINES / 4 && found < LINES, "%" PRId64 " of the products are not normal numbers", found);
}

/*
 * Totals whose gates multiply to about the least normal number, 2^-126, above it and below, along rows
 * and columns; a large initial value, or a large gate later, shows what they are.
 */
static void around_the_least(bool thin)
{
        enum { N = 300, LINES = 6 * 64, ALL = N * LINES, GATE = 270 };
        static float a[ALL], b[ALL], right[ALL], y[ALL];
        int64_t shape[2];
        for (int kind = 0; kind < 8; kind += thin ? 3 : 1) {
                const bool columns = kind & 1;
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.axis = !columns;
                o.reverse = kind & 2;
                o.initial = sf_real(kind & 4 ? 3e30 : 1);
                shape[columns] = LINES;
                shape[!columns] = N;
                for (int64_t line = 0; line < LINES; line++)
                        for (int64_t i = 0; i < N; i++) {
                                const int64_t at = columns ? i * LINES + line : line * N + i, from = o.reverse ? N - 1 - i : i;
                                /* `length` of them are 2^-128 to 2^-122 */
                                const double length = 8 << line / 64;
                                a[at] = !(kind & 4) && from == GATE ? 0x1p100f : (float)exp2((-128 + (double)(line % 64) / 64 * 6) / length);
                                b[at] = kind & 4 ? 1e-14f + 1e-15f * (float)(hash((uint64_t)at) % 64) : 1 + (float)(hash((uint64_t)at) % 64) / 64;
                        }
                sf_tensor ta = tensor(a, SF_F32, 2, shape), tb = tensor(b, SF_F32, 2, shape), tr = tensor(right, SF_F32, 2, shape), ty = tensor(y, SF_F32, 2, shape);
                for (int e = 0; e < engine_count; e++) {
                        CHECK(sf_recurrence(engines[e].ctx, &ta, &tb, e ? &ty : &tr, &o) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                        for (int64_t i = 0; e && i < ALL; i++)
                                if (!same_bits(DT_F32, &right[i], &y[i]))
                                        FAIL("%s: kind %d, element %" PRId64 " is %a, not %a", engines[e].name, kind, i, (double)y[i], (double)right[i]);
                        checks++;
                }
        }
}

/*
 * Products of gates that are not normal numbers, or are rounded to zero, and are multiplied by 2^120
 * later, in f32. Gates of about 1/4 make such a product of block A, 64 positions from 128 on, behind
 * which is block R, as long: its first gate is 2^120, and its first number takes away all but what
 * came before A. So the last result is A's product, but for a power of two and what is to its left.
 */
static void found_again(void)
{
        enum { N = 256, A = 128, R = 192, LINES = 96, ALL = N * LINES };
        static float a[ALL], b[ALL], right[ALL], y[ALL], part[64];
        for (int kind = 0; kind < 4; kind++) {
                const bool rows = kind & 1;
                const int64_t shape[2] = {rows ? LINES : N, rows ? N : LINES}, step = rows ? 1 : LINES;
                for (int64_t line = 0; line < LINES; line++)
                        for (int64_t i = 0; i < N; i++) {
                                const uint64_t r = hash((uint64_t)(kind * ALL + line * N + i));
                                const int64_t at = rows ? line * N + i : i * LINES + line, from = rows ? line * N + A : A * LINES + line;
                                const float gate = (0.19f + (float)line / 1200) * (1 + (float)(r % 1000) / 10000) * (r >> 40 & 1 ? -1 : 1);
                                a[at] = i < R ? gate : i > R ? 1 : 0x1p120f;
                                b[at] = i < R ? 1 + (float)(r >> 20 & 1023) / 1024 : 0;
                                if (i != R)
                                        continue;
                                int64_t length = 64, stride = step;
                                sf_tensor ta = tensor(a + from, SF_F32, 1, &length), tb = tensor(b + from, SF_F32, 1, &length), tp = tensor(part, SF_F32, 1, &length);
                                ta.strides = tb.strides = &stride;
                                CHECK(sf_recurrence(engines[0].ctx, &ta, &tb, &tp, NULL) == SF_OK, "%s", sf_last_error(engines[0].ctx));
                                b[at] = -0x1p120f * part[63];
                        }
                sf_tensor ta = tensor(a, SF_F32, 2, (int64_t *)shape), tb = tensor(b, SF_F32, 2, (int64_t *)shape), tr = tensor(right, SF_F32, 2, (int64_t *)shape),
                          ty = tensor(y, SF_F32, 2, (int64_t *)shape);
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.axis = rows;
                int64_t found = 0;
                for (int e = 0; e < engine_count; e++) {
                        CHECK(sf_recurrence(engines[e].ctx, &ta, &tb, e ? &ty : &tr, &o) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                        for (int64_t i = 0; e && i < ALL; i++)
                                if (memcmp(&right[i], &y[i], sizeof y[i]))
                                        FAIL("%s: %s, element %" PRId64 " is %a, not %a", engines[e].name, rows ? "rows" : "columns", i, (double)y[i], (double)right[i]);
                        checks++;
                }
                for (int64_t line = 0; line < LINES; line++) {
                        const float h = fabsf(right[rows ? line * N + N - 1 : (N - 1) * LINES + line]);
                        found += h > 0 && h < 0x1p-4f;
                }
                CHECK(found > LINES / 4 && found < LINES, "%" PRId64 " of the products are not normal numbers", found);
        }
}

/* a = 1 is the cumulative sum, a = 0 is b, and the order is near a plain loop. */
static void laws(void)
{
        enum { N = 3000 };
        static float a[N], b[N], y[N], z[N];
        int64_t n = N, one = 1;
        float gate = 1;
        fill(DT_F32, FILL_finite, false, 3, N, b);
        for (int64_t i = 0; i < N; i++)
                b[i] = ldexpf(frexpf(b[i], &(int){0}), 2);
        fill_gates(DT_F32, N, 4, a);
        for (int e = 0; e < engine_count; e++) {
                sf_tensor ta = tensor(&gate, SF_F32, 1, &one), tb = tensor(b, SF_F32, 1, &n), ty = tensor(y, SF_F32, 1, &n), tz = tensor(z, SF_F32, 1, &n);
                gate = 1;
                CHECK(sf_recurrence(engines[e].ctx, &ta, &tb, &ty, NULL) == SF_OK && sf_scan(engines[e].ctx, &tb, &tz, NULL) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                CHECK(!memcmp(y, z, sizeof y), "%s: with a = 1 it is not the cumulative sum", engines[e].name);
                gate = 0;
                CHECK(sf_recurrence(engines[e].ctx, &ta, &tb, &ty, NULL) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                for (int64_t i = 0; i < N; i++)
                        CHECK(y[i] == b[i], "%s: with a = 0 element %" PRId64 " is not b's", engines[e].name, i);
                ta = tensor(a, SF_F32, 1, &n);
                CHECK(sf_recurrence(engines[e].ctx, &ta, &tb, &ty, NULL) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                double h = 0, most = 0;
                for (int64_t i = 0; i < N; i++) {
                        h = a[i] * h + b[i];
                        most = fmax(most, fabs(h - y[i]));
                }
                CHECK(most < 1e-4, "%s: %g from a plain loop", engines[e].name, most);
                checks += 3;
        }
}

static void refusals(void)
{
        float a[12] = {0}, b[12] = {0}, y[12];
        int32_t whole[12];
        int64_t shape[2] = {3, 4}, other[2] = {3, 3}, longer[3] = {2, 3, 4};
        sf_tensor ta = tensor(a, SF_F32, 2, shape), tb = tensor(b, SF_F32, 2, shape), ty = tensor(y, SF_F32, 2, shape), tw = tensor(whole, SF_I32, 2, shape);
        memset(y, 0x5a, sizeof y);
        memset(whole, 0x5a, sizeof whole);
        CHECK(sf_recurrence(NULL, NULL, &tb, &ty, NULL) == SF_INVALID_ARGUMENT && strstr(sf_last_error(NULL), "a is NULL"), "a NULL: %s", sf_last_error(NULL));
        ta.shape = other;
        CHECK(sf_recurrence(NULL, &ta, &tb, &ty, NULL) == SF_INVALID_ARGUMENT && strstr(sf_last_error(NULL), "(3, 3)"), "shapes: %s", sf_last_error(NULL));
        ta = tensor(a, SF_F32, 3, longer);
        CHECK(sf_recurrence(NULL, &ta, &tb, &ty, NULL) == SF_INVALID_ARGUMENT, "ranks: %s", sf_last_error(NULL));
        ta = tensor(a, SF_F32, 2, shape);
        CHECK(sf_recurrence(NULL, &ta, &tb, &tw, NULL) == SF_UNSUPPORTED && strstr(sf_last_error(NULL), "i32"), "dtype: %s", sf_last_error(NULL));
        ty.data = a;
        CHECK(sf_recurrence(NULL, &ta, &tb, &ty, NULL) == SF_INVALID_ARGUMENT && strstr(sf_last_error(NULL), "overlaps a"), "overlap: %s", sf_last_error(NULL));
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        o.op = SF_RECURRENCE;
        ty.data = y;
        CHECK(sf_scan(NULL, &tb, &ty, &o) == SF_UNSUPPORTED && strstr(sf_last_error(NULL), "sf_recurrence"), "as a scan: %s", sf_last_error(NULL));
        for (int i = 0; i < 12; i++)
                CHECK(((unsigned char *)y)[4 * i] == 0x5a && ((unsigned char *)whole)[4 * i] == 0x5a, "a refused call has written");
        checks += 6;
}

int main(int argc, char **argv)
{
        long every = argc > 2 && !strcmp(argv[1], "--every") ? atol(argv[2]) : 1;
        const bool thin = every >= 1000; /* in an emulator: what is left out takes half of the time, and runs with every other instruction set */
        engines_open();
        against_the_reference(every < 1 ? 1 : every);
        vanishing(every);
        limits();
        flushed(thin);
        beyond_limits(thin);
        found_initial();
        around_the_least(thin);
        found_again();
        laws();
        refusals();
        engines_close();
        return finish("test_recurrence", checks);
}
