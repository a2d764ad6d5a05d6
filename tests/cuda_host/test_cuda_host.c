/*
 * The CUDA kernels, run on the host, against the reference: the shapes of cases.def at small sizes, planned for a chip with
 * tiny tiles (so that a short sequence has many) and for a real one, bit by bit; and what cases
 * cannot describe (beyond_cases.c).
 *
 *   test_cuda_host folder compiler jobs [--cases N] [--every N] [--seed N] [--only text]
 */
#include "beyond_cases.h"
#include "case.h"
#include "kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A chip with room for few threads and tiny tiles, and an H200. */
const sf_cuda_chip small_chip = {.capability = 90, .cluster = 8, .multiprocessors = 3,
                                 .threads_per_multiprocessor = 2048, .shared_per_block = 65536,
                                 .shared_per_multiprocessor = 65536, .l2 = 8192, .small_tiles = 1};
const sf_cuda_chip real_chip = {.capability = 90, .cluster = 8, .multiprocessors = 132,
                                .threads_per_multiprocessor = 2048, .shared_per_block = 232448,
                                .shared_per_multiprocessor = 233472, .l2 = 52428800};

/* With this many drawn cases every kernel file must have run; fewer are for a quick look. */
enum { ENOUGH = 300 };

static long wanted = 400, first_seed = 1, every = 1;
static const char *only;

static long cost(const test_case *c)
{
        long n = 1;
        for (int32_t d = 0; d < c->ndim; d++)
                n *= (long)c->shape[d];
        return n;
}

/* One case in `every`, drawn so that it does not follow the lists' own rhythm; the same ones when they are met again. */
long turn;
bool is_turn(void)
{
        return hash((uint64_t)++turn) % (uint64_t)every == 0;
}

static void meet(test_case *c)
{
        if (!is_turn())
                return;
        if (only) {
                char text[1024];
                FILE *to = fmemopen(text, sizeof text, "w");
                if (!to)
                        abort();
                case_print(c, to);
                fclose(to);
                if (!strstr(text, only))
                        return;
                if (!host_learning)
                        fputs(text, stderr);
        }
        host_seed = turn;
        case_check(c);
}

/* One in so many of the listed shapes, plain and varied. */
static void meet_shape(bool fold, int32_t axis, int32_t ndim, const int64_t *shape, uint64_t seed)
{
        test_case c = case_plain(fold, axis, ndim, shape);
        c.seed = seed;
        if (cost(&c) > 40000 || !cost(&c))
                return;
        meet(&c);
        c.reverse = true;
        meet(&c);
}

static const int64_t *set(int64_t *to, int32_t ndim, const int64_t *from, int32_t vary, int64_t value)
{
        for (int32_t d = 0; d < ndim; d++)
                to[d] = d == vary ? value : from[d];
        return to;
}

static void meet_shapes(bool fold, long one_in)
{
        int64_t shape[8];
        uint64_t number = 0;
#define TURN (hash((uint64_t)first_seed * 1000 + number++) % (uint64_t)one_in == 0)
#define SWEEP(axis, vary, first, last, step, ...)                                                                  \
        {                                                                                                          \
                static const int64_t s[] = {__VA_ARGS__};                                                          \
                const int32_t rank = sizeof s / sizeof *s;                                                         \
                for (int64_t v = first; v <= last; v += step)                                                      \
                        if (TURN)                                                                                  \
                                meet_shape(fold, axis, rank, set(shape, rank, s, vary, v), number);                \
        }
#define SHAPE(axis, ...)                                                                                           \
        {                                                                                                          \
                static const int64_t s[] = {__VA_ARGS__};                                                          \
                if (TURN)                                                                                          \
                        meet_shape(fold, axis, sizeof s / sizeof *s, s, number);                                   \
        }
#include "cases.def"
#undef TURN
}

/* The samples crossed with everything else, drawn. */
static void meet_varied(long cases)
{
        static const struct {
                int32_t axis, ndim;
                int64_t shape[6];
        } samples[] = {
#define RANK(...) (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define SAMPLE(axis, ...) {axis, RANK(__VA_ARGS__), {__VA_ARGS__}},
#include "cases.def"
                {0, 1, {2053}}, {1, 2, {3, 1030}}, {0, 2, {517, 3}}, {0, 2, {130, 32}}, {0, 2, {300, 2}}, {1, 3, {3, 130, 33}},
                {1, 2, {70, 64}}, {1, 3, {3, 64, 5}}, {1, 3, {2, 36, 7}}, {1, 3, {5, 600, 3}}, {1, 2, {2, 4099}}, {0, 2, {2050, 8}}, {0, 2, {1500, 4}}, {1, 2, {300, 4}}, {0, 2, {9, 300}}, {1, 3, {2, 40, 128}},
                {0, 2, {1100, 1}}, {0, 2, {900, 2}}, {0, 2, {400, 4}}, {0, 2, {700, 16}}, {0, 2, {520, 32}}, {0, 2, {600, 5}}, {0, 2, {900, 40}}, {1, 3, {2, 700, 8}}, {1, 3, {3, 500, 6}},
        };
        for (long i = 0; i < cases; i++) {
                uint64_t seed = hash((uint64_t)(first_seed * 100000 + i));
                int which = (int)(seed % (sizeof samples / sizeof *samples));
                test_case c = case_plain(seed >> 20 & 1, samples[which].axis, samples[which].ndim, samples[which].shape);
                if (c.fold && seed >> 21 & 1) {
                        c.all_axes = seed >> 22 & 1;
                        c.naxes = 0;
                        for (int32_t d = 0; d < c.ndim; d++)
                                if (seed >> (23 + d) & 1)
                                        c.axes[c.naxes++] = d;
                }
                /* Half of them keep the plain layout, which is the one with vectors. */
                unsigned parts = VARY_DTYPES | VARY_OPTIONS | VARY_FILL | VARY_PLACE;
                parts |= seed >> 40 & 1 ? VARY_MASK : 0;
                parts |= seed >> 41 & 1 ? VARY_LAYOUTS : 0;
                if (!(seed >> 42 & 3))
                        parts &= ~(unsigned)VARY_DTYPES;
                case_vary(&c, seed, parts);
                /* And half of those begin where a page does. */
                if (!(parts & VARY_LAYOUTS) && seed >> 44 & 1) {
                        c.skew_x = c.skew_out = c.skew_mask = 0;
                        c.guard = GUARD_BEFORE;
                }
                /* A device reads whole elements: they are aligned to their size, whatever else is not. */
                c.skew_x -= c.skew_x % dts[c.in].size;
                c.skew_out -= c.skew_out % dts[c.out].size;
                meet(&c);
        }
}

/* Few sequences side by side, short enough for the chip's cache and not: in two passes, in bursts, in chains. */
static void meet_long(void)
{
        for (int i = 0; i < 6 * 2 * 3; i++) {
                int64_t columns = (int64_t)1 << i % 6, shape[2] = {(i / 6 % 2 ? 6000 : 1300) / columns + i, columns};
                uint64_t seed = hash((uint64_t)(first_seed * 1000 + i));
                test_case c = case_plain(false, 0, 2, shape);
                case_vary(&c, seed, (i < 12 ? 0 : VARY_DTYPES) | (i % 5 ? VARY_OPTIONS : 0) | VARY_FILL | (i % 3 ? 0 : VARY_MASK));
                meet(&c);
        }
}

/* The same where a thread has whole rows of columns that are no power of two: it takes memory that begins where 16 bytes do. */
static void meet_odd_columns(void)
{
        static const int64_t columns[] = {3, 5, 6, 7, 9, 12, 17, 24, 14};
        static const int types[] = {DT_F32, DT_F32, DT_I32, DT_F64, DT_U64};
        for (int i = 0; i < 9 * 4; i++) {
                int64_t n = columns[i % 9], rows = (i / 9 % 2 ? 6000 : 1300) / n / 4 * 4 + (i % 4 == 3 ? i : 0), shape[3] = {1 + i % 3 % 2, rows, n};
                test_case c = case_plain(false, 1, 3, shape);
                c.in = c.out = types[i % 5];
                c.seed = hash((uint64_t)(first_seed * 1000 + i));
                c.reverse = i % 4 == 1 || i % 7 == 2;
                c.exclusive = i % 4 == 2;
                c.guard = GUARD_BEFORE;
                if (i % 3 == 1) {
                        uint64_t seed = c.seed;
                        case_vary(&c, seed, VARY_OPTIONS | VARY_FILL);
                }
                meet(&c);
        }
}

/* Columns that many blocks share: a tile for each block, or, masked or of narrow elements, a chunk; at any address, in packs and in vectors. */
static void meet_chunks(void)
{
        static const int types[][2] = {{DT_F16, DT_F16}, {DT_BF16, DT_BF16}, {DT_F32, DT_F32}, {DT_U8, DT_U8}, {DT_F64, DT_F64}, {DT_I8, DT_I64}, {DT_BF16, DT_F32}};
        static const int64_t columns[] = {44, 35, 40, 53};
        for (int i = 0; i < 4 * 7; i++) {
                test_case c = case_plain(false, 1, 3, (const int64_t[]){1 + i % 3 / 2, 1001, columns[i % 4]});
                c.in = types[i % 7][0];
                c.out = types[i % 7][1];
                c.op = i % 7 < 2 && i & 1 ? SF_MAX : SF_SUM;
                c.seed = (uint64_t)i;
                c.reverse = i % 3 == 1;
                c.exclusive = i % 5 == 1;
                c.skew_x = i % 4 * dts[c.in].size;
                c.skew_out = i % 5 / 4 * dts[c.out].size;
                if (i % 9 == 8)
                        case_vary(&c, (uint64_t)i, VARY_MASK | VARY_FILL);
                meet(&c);
        }
}

/* Long rows, held whole by a block: rows enough for a chip with two multiprocessors. */
static void meet_whole_rows(void)
{
        static const int64_t shapes[][2] = {{2, 24580}, {2, 32768}, {3, 28000}};
        for (int i = 0; i < 3 * 4; i++) {
                test_case c = case_plain(false, 1, 2, shapes[i / 4]);
                c.seed = (uint64_t)i;
                c.reverse = i & 1;
                c.exclusive = i >> 1 & 1;
                if (i % 4 == 3)
                        case_vary(&c, (uint64_t)i, VARY_MASK | VARY_FILL);
                meet(&c);
        }
}

/*
 * Products of reals, in every kernel: of numbers that leave the range on the way, down to subnormal ones, and of special ones. The
 * order matters less here than where a total is settled. Shapes as in test_sides_host.c.
 */
static const int64_t product_shapes[][3] = {{9, 63, 1},  {5, 1031, 1}, {1, 9000, 1}, {1, 700, 1},  {1, 4000, 2}, {1, 150, 4},  {1, 900, 8},
                                            {1, 700, 3}, {1, 600, 7},  {3, 130, 33}, {1, 900, 40}, {2, 50, 128}, {9, 20, 300}, {70, 1, 30}};
#define PRODUCT_SHAPES (int)(sizeof product_shapes / sizeof *product_shapes)

/* Values of two components, every way that kernels take them; one shape in `one_in`. */
static void meet_pairs(sf_op op, int one_in)
{
        static const int fills[] = {FILL_finite, FILL_special, FILL_positive, FILL_mixed};
        static const int types[][3] = {{DT_F32, DT_F32, DT_NONE}, {DT_F32, DT_F32, DT_NONE}, {DT_F64, DT_F64, DT_NONE}, {DT_BF16, DT_BF16, DT_NONE},
                                       {DT_F16, DT_F16, DT_NONE}, {DT_F32, DT_F16, DT_F64},  {DT_I64, DT_F32, DT_NONE}};
        for (int i = 0; i < 2 * PRODUCT_SHAPES; i += one_in) {
                const int64_t *shape = product_shapes[i / 2];
                for (int fold = 0; fold < 2; fold++) {
                        test_case c = case_plain(fold, 1, 3, shape);
                        const int *type = types[i % 2 ? hash((uint64_t)(2 * i + fold)) % 7 : 0];
                        c.op = op;
                        c.in = type[0];
                        c.out = type[1];
                        c.acc = type[2];
                        c.guard = GUARD_BEFORE;
                        if (i % 2) {
                                c.reverse = hash((uint64_t)i) & 1;
                                c.exclusive = !fold && hash((uint64_t)i) & 2;
                                c.initial = (int)(hash((uint64_t)i + 100) % INITIALS);
                        }
                        /* One specialisation has them all. */
                        for (int k = 0; k < 4; k++) {
                                c.fill = fills[k];
                                c.seed = hash((uint64_t)(first_seed * 1000 + 10 * i + k));
                                meet(&c);
                        }
                }
        }
}

enum { MOST_AT_EDGE = 54000 };

/* Number i of those of which every aligned group of 2, 4, 8 or 16 has two halves, one whose product is about
 * 2^+-edge, at the end of the range or just beyond it, and one that brings it back. */
static double at_the_edge(int i, int edge)
{
        const uint64_t h = hash((uint64_t)(first_seed * 1000 + i / 16)), own = hash((uint64_t)(first_seed * 1000 + i + MOST_AT_EDGE));
        const int half = 1 << h % 4, in = i % half, e = (h >> 8 & 1 ? -edge : edge) + (int)(h >> 9) % 3 - 1;
        const int mine = half == 1 ? (e > edge ? edge : e < -edge ? -edge : e) : in == 0 ? e / 2 : in == half - 1 ? e - e / 2 : 0;
        /* Products of two such mantissas are just below 2: they may round up to it. */
        const double step = ldexp(1, edge > 127 ? -52 : -23), low = 1 + (double)(h >> 32 & 1023) * step;
        const double part = half > 1 && in == half - 1 ? 2 / low - (double)(own & 3) * step : half > 1 && in ? 1 : low;
        const int back = half > 1 && in == half - 1 ? -mine - 2 : -mine; /* to about 1 */
        return ldexp(own & 16 ? -part : part, i / half % 2 ? back : mine);
}

/* Mantissas as large as they get, exponents that go up and come back: a total that is not settled in time overflows. And products on
 * the way that are just in the range, or just beyond it. */
static void meet_large_mantissas(void)
{
        static _Alignas(64) float x[MOST_AT_EDGE];
        static _Alignas(64) double wide[MOST_AT_EDGE], y[2][MOST_AT_EDGE];
        for (int i = 0; i < 6 * PRODUCT_SHAPES; i++) {
                if (!is_turn())
                        continue;
                const int64_t *shape = product_shapes[i / 6], folded[2] = {shape[0], shape[2]};
                const bool fold = i % 2, doubles = i / 2 % 3 == 2;
                int64_t n = shape[0] * shape[2] * (fold ? 1 : shape[1]);
                int32_t axis = 1;
                for (int k = 0; k < MOST_AT_EDGE; k++) {
                        wide[k] = i / 2 % 3 ? at_the_edge(k, doubles ? 1023 : 127) : ldexp(0x1.fffffep0, k / 100 % 2 ? -3 : 2);
                        x[k] = (float)wide[k];
                }
                for (int k = 0; k < 2; k++) {
                        sf_tensor tx = {.data = doubles ? (void *)wide : x, .device = {SF_CPU, 0}, .ndim = 3, .dtype = doubles ? SF_F64 : SF_F32, .shape = (int64_t *)shape}, ty = tx;
                        sf_scan_options scan = SF_SCAN_OPTIONS_INIT;
                        sf_fold_options all = SF_FOLD_OPTIONS_INIT;
                        ty.data = y[k];
                        scan.op = all.op = SF_PROD;
                        scan.axis = axis;
                        all.axes = &axis;
                        all.naxes = 1;
                        if (fold) {
                                ty.ndim = 2;
                                ty.shape = (int64_t *)folded;
                        }
                        host_seed = turn;
                        CHECK((fold ? sf_fold(engines[k].ctx, &tx, &ty, &all) : sf_scan(engines[k].ctx, &tx, &ty, &scan)) == SF_OK, "%s",
                              sf_last_error(engines[k].ctx));
                }
                cases_checked++;
                CHECK(host_learning || !memcmp(y[0], y[1], (size_t)n * (doubles ? sizeof(double) : sizeof(float))), "%s: %s of (%d, %d, %d)",
                      i / 2 % 3 ? "products at the ends of the range" : "large mantissas", fold ? "fold" : "scan", (int)shape[0], (int)shape[1], (int)shape[2]);
        }
}

/*
 * Lines whose product becomes a zero or an infinity, and a NaN later, or leaves the range for good: what follows is told by the signs
 * alone (sf_is_spent), of numbers near 1 and of others.
 */
static void meet_spent_lines(void)
{
        enum { N = 70000 };
        static const float first[] = {-0.0f, -INFINITY, 1.5f}, later[] = {INFINITY, 0, 0};
        static _Alignas(64) float x[N], y[2][N];
        static _Alignas(64) uint16_t narrow[N], z[2][N];
        int64_t n = N;
        for (int i = 0; i < 12; i++) {
                if (!is_turn())
                        continue;
                const int what = i / 2 % 3;
                for (int k = 0; k < N; k++) {
                        const uint64_t h = hash((uint64_t)(first_seed * 1000 + N * i + k));
                        const float size = 1 + (float)(h >> 40) * 0x1p-30f;
                        x[k] = ldexpf(h & 1 ? -size : size, i % 2 ? (int)(h >> 1 & 31) - 16 : what == 2 ? -(int)(k % 8 == 0) : 0);
                }
                x[N / 4] = first[what];
                x[N - N / 4] = later[what];
                for (int k = 0; k < N; k++) {
                        uint32_t bits;
                        memcpy(&bits, &x[k], 4);
                        narrow[k] = (uint16_t)(bits >> 16);
                }
                for (int k = 0; k < 2; k++) {
                        sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 1, .dtype = SF_F32, .shape = &n}, ty = tx;
                        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                        ty.data = y[k];
                        if (i >= 6) {
                                tx.data = narrow;
                                ty.data = z[k];
                                tx.dtype = ty.dtype = SF_BF16;
                        }
                        o.op = SF_PROD;
                        host_seed = turn;
                        CHECK(sf_scan(engines[k].ctx, &tx, &ty, &o) == SF_OK, "%s", sf_last_error(engines[k].ctx));
                }
                cases_checked++;
                int wrong = 0;
                for (int k = 0; k < N && !host_learning; k++)
                        if (i < 6)
                                wrong += memcmp(&y[0][k], &y[1][k], 4) && !(isnan(y[0][k]) && isnan(y[1][k]));
                        else
                                wrong += z[0][k] != z[1][k] && !((z[0][k] & 0x7fff) > 0x7f80 && (z[1][k] & 0x7fff) > 0x7f80);
                CHECK(!wrong, "line %d: %d results of a spent product", i, wrong);
        }
}

/* An axis that a thread holds whole, whatever its length: of small matrices, of wide ones, of narrow elements at odd addresses. */
static void meet_short_axes(void)
{
        static const int64_t shapes[][3] = {{2, 6, 1216}, {2, 3, 1300}, {40, 5, 7}, {9, 7, 33}, {3, 2, 2051}};
        static const int types[][2] = {{DT_F32, DT_F32}, {DT_U8, DT_I64}, {DT_F16, DT_F16}, {DT_U8, DT_U8}, {DT_I64, DT_I64}};
        static const sf_op ops[] = {SF_SUM, SF_MIN, SF_PROD};
        for (int i = 0; i < 20; i++) {
                test_case c = case_plain(i & 1, 1, 3, shapes[i / 2 % 5]);
                c.in = types[i / 4 % 5][0];
                c.out = types[i / 4 % 5][1];
                c.op = ops[i % 3];
                c.seed = (uint64_t)i;
                c.reverse = i % 4 == 2;
                c.skew_x = c.skew_out = i % 3 ? dts[c.out].size : 0;
                meet(&c);
        }
}

/* Short rows and small matrices of narrow elements, so many that a block has several pieces of them, one after
 * another, on a chip with one multiprocessor; and longer rows at any address. */
static void meet_many_pieces(void)
{
        static const int64_t shapes[][3] = {{2000, 65, 1}, {700, 157, 1}, {2100, 35, 1}, {130, 653, 1}, {60, 2049, 1}, {90, 300, 4}, {40, 700, 5}, {9, 4101, 1}};
        static const int types[][2] = {{DT_F16, DT_F16}, {DT_U8, DT_U8}, {DT_BF16, DT_F32}, {DT_I8, DT_I64}, {DT_BF16, DT_BF16}};
        static const sf_op ops[] = {SF_SUM, SF_MAX, SF_PROD, SF_MIN, SF_SUM};
        for (int i = 0; i < 40; i++) {
                const uint64_t draw = hash((uint64_t)(first_seed * 1000 + i));
                test_case c = case_plain(false, 1, shapes[i % 8][2] > 1 ? 3 : 2, shapes[i % 8]);
                c.in = types[i / 8][0];
                c.out = types[i / 8][1];
                c.op = ops[draw % (c.in == c.out ? 5 : 1)];
                c.seed = draw;
                c.reverse = draw >> 8 & 1;
                c.exclusive = !(draw >> 9 & 3);
                c.skew_x = (int)(draw >> 12 & 7) * dts[c.in].size;
                c.skew_out = (int)(draw >> 16 & 7) * dts[c.out].size;
                meet(&c);
        }
}

/* Lines and columns of narrow elements that begin anywhere, x and the result alike or not: lines that begin early, columns in packs. */
static void meet_odd_places(void)
{
        static const int64_t shapes[][3] = {{3, 301, 1}, {2, 1031, 1}, {1, 5003, 1}, {2, 60, 131}, {1, 300, 77}, {3, 9, 515}};
        static const int types[][2] = {{DT_U8, DT_U8}, {DT_I8, DT_I64}, {DT_F16, DT_F16}, {DT_I8, DT_I8}, {DT_BF16, DT_F32}, {DT_I32, DT_I32}};
        static const sf_op ops[] = {SF_SUM, SF_MAX, SF_PROD, SF_MIN};
        for (int i = 0; i < 36; i++) {
                const uint64_t draw = hash((uint64_t)(first_seed * 1000 + i));
                test_case c = case_plain(i % 3 == 2, 1, 3, shapes[i % 6]);
                c.op = ops[draw % 4];
                const int *type = types[c.op == SF_MAX || c.op == SF_MIN ? (int)(draw >> 4 & 2) : i / 6];
                c.in = type[0];
                c.out = type[1];
                c.seed = draw;
                c.reverse = draw >> 8 & 1;
                c.exclusive = !c.fold && !(draw >> 9 & 3);
                c.skew_x = (int)(draw >> 12 & 7) * dts[c.in].size;
                c.skew_out = draw >> 16 & 1 ? c.skew_x / dts[c.in].size * dts[c.out].size : (int)(draw >> 20 & 7) * dts[c.out].size;
                meet(&c);
        }
        /* One of the two aligned, and not the other: free operations begin early, for the result's sake. */
        for (int i = 0; i < 4; i++) {
                test_case c = case_plain(false, 1, 2, (const int64_t[]){1 + (i & 1), 304});
                c.op = i & 1 ? SF_MIN : SF_SUM;
                c.in = DT_I8;
                c.out = i & 1 ? DT_I8 : DT_I64;
                c.reverse = i & 1;
                *(i & 2 ? &c.skew_x : &c.skew_out) = dts[i & 2 ? c.in : c.out].size;
                meet(&c);
        }
}

/* Ways that only large tensors take, met by small ones on a chip with one multiprocessor and hardly
 * any cache: folds of small matrices numbered through, of leaves that groups take in turn, of
 * contiguous narrow rows; columns and rows that a thread holds whole; chained scans from any
 * address; narrow rows in pieces. */
static void meet_large_ways(void)
{
        static const struct {
                bool fold;
                int in, out;
                sf_op op;
                int64_t shape[3];
                int skew;
        } ways[] = {
                {true, DT_F32, DT_F32, SF_SUM, {300, 8, 81}, 0},
                {true, DT_I64, DT_I64, SF_MAX, {90, 9, 70}, 1},
                {true, DT_F16, DT_F16, SF_PROD, {150, 5, 33}, 1},
                {true, DT_BF16, DT_BF16, SF_SUM, {12, 131, 111}, 1},
                {true, DT_F32, DT_F32, SF_SUM, {9, 131, 111}, 0},
                {true, DT_F32, DT_F32, SF_PROD, {8, 1000, 45}, 0},
                {true, DT_F16, DT_F16, SF_PROD, {14, 27, 218}, 0},
                {true, DT_BF16, DT_BF16, SF_SUM, {2, 3002, 2}, 0},
                {true, DT_F32, DT_F32, SF_SUM, {1, 20001, 2}, 0},
                {true, DT_F32, DT_F32, SF_MIN, {1, 18, 5001}, 1},
                {true, DT_F32, DT_F32, SF_SUM, {1, 21, 4001}, 1},
                {true, DT_BOOL, DT_I64, SF_SUM, {1, 2, 9001}, 0},
                {true, DT_F64, DT_F64, SF_SUM, {40, 131, 1}, 1},
                {true, DT_BF16, DT_BF16, SF_SUM, {90, 37, 1}, 0},
                {true, DT_F16, DT_F16, SF_MAX, {70, 82, 1}, 0},
                {false, DT_F16, DT_F16, SF_SUM, {1, 17, 9000}, 0},
                {false, DT_F64, DT_F64, SF_MAX, {1, 21, 3000}, 0},
                {false, DT_U8, DT_U8, SF_SUM, {1, 10, 17000}, 1},
                {false, DT_F16, DT_F16, SF_SUM, {1, 70001, 1}, 1},
                {false, DT_U8, DT_U8, SF_SUM, {1, 150001, 1}, 1},
                {false, DT_F32, DT_F32, SF_SUM, {2, 50003, 1}, 1},
                {false, DT_BF16, DT_F32, SF_SUM, {1, 60001, 1}, 1},
                {false, DT_I32, DT_I64, SF_SUM, {2, 40001, 1}, 1},
                {false, DT_I64, DT_I64, SF_SUM, {3, 5951, 1}, 1},
                /* chained products; those of f32 leave the range for good (sf_is_spent) */
                {false, DT_F32, DT_F32, SF_PROD, {2, 50003, 1}, 0},
                {false, DT_F64, DT_F64, SF_PROD, {1, 60001, 1}, 0},
                {false, DT_F64, DT_F64, SF_MIN, {2, 16384, 1}, 0},
                {false, DT_F16, DT_F16, SF_SUM, {60, 101, 1}, 0},
                {false, DT_F16, DT_F32, SF_PROD, {60, 65, 1}, 0},
                {false, DT_U8, DT_U8, SF_MAX, {40, 301, 1}, 1},
                {false, DT_F16, DT_F16, SF_MAX, {30, 316, 1}, 0},
                {false, DT_F32, DT_F32, SF_MAX, {20, 1101, 1}, 0},
                {false, DT_F32, DT_F32, SF_SUM, {20, 1201, 1}, 0},
                /* bytes, four at a time; and sums whose blocks need 32 bits */
                {true, DT_U8, DT_I64, SF_SUM, {2, 300, 64}, 0},
                {true, DT_I8, DT_I64, SF_SUM, {1, 700, 36}, 0},
                {true, DT_I8, DT_I8, SF_MAX, {2, 300, 64}, 0},
                {true, DT_U8, DT_U8, SF_MIN, {1, 600, 42}, 0},
                {true, DT_BOOL, DT_I64, SF_SUM, {1, 500, 68}, 0},
                {true, DT_I8, DT_I64, SF_SUM, {3, 9001, 1}, 1},
                {true, DT_U8, DT_U8, SF_MAX, {2, 19001, 1}, 1},
                {true, DT_I8, DT_I8, SF_MIN, {2, 19008, 1}, 0},
                {true, DT_BOOL, DT_I64, SF_SUM, {1, 40000, 1}, 1},
                {true, DT_I16, DT_I64, SF_SUM, {1, 90000, 1}, 0},
                {true, DT_I16, DT_I64, SF_SUM, {1, 40000, 6}, 0},
                {true, DT_I8, DT_I8, SF_MAX, {9, 514, 1}, 1},
                {true, DT_U8, DT_I64, SF_SUM, {9, 621, 1}, 1},
                /* two columns as one */
                {false, DT_U8, DT_U8, SF_MAX, {2, 300, 64}, 0},
                {false, DT_I8, DT_I8, SF_SUM, {3, 500, 36}, 0},
                {false, DT_F16, DT_F16, SF_MIN, {2, 300, 64}, 0},
                {false, DT_BF16, DT_BF16, SF_MAX, {1, 900, 42}, 0},
                {false, DT_I8, DT_I8, SF_MIN, {4, 9, 600}, 0},
                {true, DT_F16, DT_F16, SF_MAX, {2, 300, 64}, 0},
                {true, DT_BF16, DT_BF16, SF_MIN, {1, 700, 36}, 0},
                {false, DT_F16, DT_F16, SF_MAX, {3, 1025, 5}, 0},
                {false, DT_BF16, DT_F32, SF_SUM, {3, 717, 5}, 0},
                /* columns that begin early */
                {true, DT_BOOL, DT_I64, SF_SUM, {9, 256, 68}, 1},
                {true, DT_F32, DT_F32, SF_SUM, {2, 3000, 32}, 1},
                {true, DT_F32, DT_F32, SF_SUM, {1, 65, 512}, 1},
                {true, DT_U8, DT_U8, SF_MAX, {3, 4, 2048}, 1},
                {true, DT_I8, DT_I8, SF_MIN, {1, 512, 4004}, 3},
                {true, DT_BF16, DT_BF16, SF_PROD, {60, 8, 24}, 1},
                {true, DT_BF16, DT_F32, SF_SUM, {1, 9000, 40}, 5},
                {true, DT_U8, DT_I64, SF_SUM, {2, 4096, 4}, 1},
                /* narrow matrices, and lines that begin anywhere */
                {false, DT_F16, DT_F16, SF_SUM, {2, 40007, 3}, 1},
                {false, DT_F32, DT_F32, SF_SUM, {1, 40007, 3}, 1},
                {false, DT_F16, DT_F16, SF_SUM, {1, 20007, 48}, 0},
                {false, DT_BOOL, DT_I64, SF_SUM, {1, 70007, 1}, 1},
                {false, DT_F64, DT_F64, SF_SUM, {1, 30001, 1}, 1},
                /* columns that many blocks share */
                {false, DT_F16, DT_F16, SF_SUM, {2, 3001, 75}, 1},
                {false, DT_F16, DT_F16, SF_MAX, {1, 3001, 150}, 1},
                {false, DT_U8, DT_U8, SF_SUM, {1, 3001, 160}, 1},
                {false, DT_BOOL, DT_I64, SF_SUM, {1, 3001, 166}, 0},
                {false, DT_BF16, DT_F32, SF_SUM, {1, 3001, 51}, 0},
                {false, DT_F64, DT_F64, SF_SUM, {1, 3001, 45}, 1},
                {false, DT_F32, DT_F32, SF_SUM, {2, 3001, 68}, 0},
                {false, DT_F32, DT_F32, SF_PROD, {1, 3001, 40}, 1},
                /* short rows of narrow elements: several of a row for each thread; more rows for a
                 * block than it holds at once */
                {false, DT_U8, DT_U8, SF_SUM, {700, 85, 1}, 1},
                {true, DT_BF16, DT_BF16, SF_MAX, {9000, 2, 2}, 1},
                {true, DT_F16, DT_F16, SF_PROD, {20000, 2, 1}, 0},
                {false, DT_I8, DT_I8, SF_SUM, {9000, 3, 1}, 1},
                {false, DT_U8, DT_U8, SF_MIN, {1, 40007, 17}, 1},
                {false, DT_I8, DT_I8, SF_SUM, {2, 30007, 5}, 0},
                /* staged sequences whose last item is there only in part, and backwards */
                {false, DT_BF16, DT_BF16, SF_SUM, {300, 162, 1}, 1},
                {true, DT_F32, DT_F32, SF_SUM, {400, 109, 1}, 0},
                /* rows of vectors that are folded whole or not at all */
                {true, DT_BF16, DT_BF16, SF_SUM, {60, 1000, 1}, 0},
                /* short narrow lines, and an axis just past a power of two */
                {false, DT_F32, DT_F32, SF_SUM, {40, 2165, 2}, 0},
                {true, DT_F16, DT_F16, SF_SUM, {1, 65, 9000}, 0},
                /* products of numbers as they are */
                {true, DT_F64, DT_F64, SF_PROD, {8, 1025, 1}, 0},
                {true, DT_BF16, DT_BF16, SF_PROD, {3, 3763, 1}, 1},
                {true, DT_F32, DT_F32, SF_PROD, {30, 505, 1}, 0},
                {true, DT_BF16, DT_F32, SF_PROD, {30, 2, 288}, 0},
                /* results wider than elements */
                {false, DT_I8, DT_I64, SF_SUM, {1, 60000, 1}, 0},
                {false, DT_U8, DT_I64, SF_SUM, {1, 9001, 1}, 0},
                {false, DT_BF16, DT_F32, SF_SUM, {30, 304, 1}, 0},
                {false, DT_I32, DT_I64, SF_PROD, {3, 4520, 1}, 0},
        };
        for (size_t i = 0; i < 2 * sizeof ways / sizeof *ways; i++) {
                test_case c = case_plain(ways[i / 2].fold, 1, 3, ways[i / 2].shape);
                c.in = ways[i / 2].in;
                c.out = ways[i / 2].out;
                c.op = ways[i / 2].op;
                c.seed = (uint64_t)(first_seed * 1000) + i;
                c.reverse = i & 1;
                c.skew_x = ways[i / 2].skew * dts[c.in].size;
                meet(&c);
        }
}

/* Dimensions that memory has in another order: leaves begin at other rows in every column, and end in the next one, which may be
 * elsewhere. Some are folded first where they are a power of two, or where any order will do. And runs that end in the middle of
 * a vector, a tile or neither; and rows of bytes at any address. */
static void meet_across(void)
{
        static const struct {
                sf_op op;
                int in, out, layout;
                int64_t shape[3];
                int32_t axes[3], naxes;
                int64_t skew;
        } folds[] = {
                {SF_SUM, DT_F32, DT_F32, LAYOUT_transposed, {70, 41, 1}, {0, 1}, 2, 0},
                {SF_SUM, DT_BF16, DT_BF16, LAYOUT_transposed, {81, 4, 37}, {0, 1, 2}, 3, 0},
                {SF_SUM, DT_F64, DT_F64, LAYOUT_transposed, {16, 33, 3}, {0, 1, 2}, 3, 0},
                {SF_SUM, DT_F16, DT_F32, LAYOUT_transposed, {64, 3, 35}, {0, 1, 2}, 3, 1},
                {SF_SUM, DT_F32, DT_F32, LAYOUT_transposed, {8, 40, 50}, {1, 2}, 2, 0},
                {SF_SUM, DT_BF16, DT_F32, LAYOUT_transposed, {9, 130, 20}, {1, 2}, 2, 1},
                {SF_SUM, DT_F32, DT_F32, LAYOUT_transposed, {300, 64, 2}, {0, 1, 2}, 3, 0},
                {SF_SUM, DT_U8, DT_I64, LAYOUT_compact, {300, 4, 10}, {0, 2}, 2, 0},
                {SF_SUM, DT_I8, DT_I8, LAYOUT_compact, {100, 7, 3}, {0, 2}, 2, 1},
                {SF_MAX, DT_F32, DT_F32, LAYOUT_compact, {70, 90, 2}, {0, 2}, 2, 1},
                {SF_MIN, DT_I64, DT_I64, LAYOUT_compact, {90, 12, 8}, {0, 2}, 2, 0},
                {SF_MAX, DT_F16, DT_F16, LAYOUT_compact, {8, 300, 31}, {0, 2}, 2, 1},
                {SF_SUM, DT_F32, DT_F32, LAYOUT_transposed, {2, 45, 37}, {0, 1, 2}, 3, 0},
                {SF_SUM, DT_F32, DT_F32, LAYOUT_transposed, {11, 30, 3}, {0, 1, 2}, 3, 0},
                {SF_SUM, DT_F16, DT_F16, LAYOUT_transposed, {17, 45, 3}, {0, 1}, 2, 1},
                {SF_SUM, DT_F32, DT_F32, LAYOUT_transposed, {37, 3, 16}, {0, 1, 2}, 3, 0},
                {SF_SUM, DT_BF16, DT_F32, LAYOUT_transposed, {300, 5, 32}, {0, 2}, 2, 1},
                {SF_SUM, DT_F32, DT_F32, LAYOUT_compact, {5, 7, 45}, {0, 2}, 2, 1},
                {SF_SUM, DT_F32, DT_F32, LAYOUT_compact, {3, 2, 1777}, {0, 2}, 2, 1},
                {SF_SUM, DT_F16, DT_F32, LAYOUT_compact, {4, 5, 329}, {0, 2}, 2, 0},
                {SF_SUM, DT_F64, DT_F64, LAYOUT_compact, {3, 2, 1059}, {0, 2}, 2, 1},
                {SF_MAX, DT_I32, DT_I32, LAYOUT_compact, {3, 2, 1777}, {0, 2}, 2, 1},
                {SF_SUM, DT_F32, DT_F32, LAYOUT_compact, {3, 50, 5}, {0, 2}, 2, 1},
                {SF_SUM, DT_F16, DT_F16, LAYOUT_compact, {4, 33, 7}, {0, 2}, 2, 0},
                {SF_SUM, DT_F32, DT_F32, LAYOUT_transposed, {9, 100, 3}, {0, 2}, 2, 1},
                {SF_SUM, DT_U8, DT_I64, LAYOUT_compact, {3, 200, 37}, {1}, 1, 1},
                {SF_MAX, DT_I8, DT_I8, LAYOUT_compact, {2, 300, 121}, {1}, 1, 1},
        };
        for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
                test_case c = case_plain(true, 0, folds[i].shape[2] > 1 ? 3 : 2, folds[i].shape);
                c.in = folds[i].in;
                c.out = folds[i].out;
                c.op = folds[i].op;
                c.naxes = folds[i].naxes;
                memcpy(c.axes, folds[i].axes, sizeof folds[i].axes);
                c.x_layout = folds[i].layout;
                c.seed = (uint64_t)(first_seed * 1000) + i;
                c.skew_x = folds[i].skew * dts[c.in].size;
                meet(&c);
        }
}

static void meet_all(void)
{
        turn = 0;
        host_chip = small_chip;
        meet_shapes(false, 12);
        meet_shapes(true, 12);
        meet_varied(wanted);
        meet_long();
        meet_odd_columns();
        meet_chunks();
        meet_pairs(SF_PROD, 1);
        meet_pairs(SF_LOGSUMEXP, 3);
        meet_large_mantissas();
        meet_odd_places();
        meet_across();
        host_chip = real_chip;
        meet_limited_totals();
        meet_across();
        meet_short_axes();
        meet_odd_places();
        meet_shapes(false, 40);
        meet_shapes(true, 40);
        host_chip.multiprocessors = 2;
        meet_whole_rows();
        host_chip.multiprocessors = 1;
        host_chip.l2 = 8192;
        meet_large_ways();
        meet_many_pieces();
        meet_spent_lines();
        if (every == 1 && !only)
                meet_endless_products();
        meet_views();
}

int main(int argc, char **argv)
{
        if (argc < 4) {
                fprintf(stderr, "usage: test_cuda_host folder compiler jobs [--cases N] [--every N] [--seed N] [--only text]\n");
                return 2;
        }
        for (int i = 4; i + 1 < argc; i += 2)
                if (!strcmp(argv[i], "--cases"))
                        wanted = atol(argv[i + 1]);
                else if (!strcmp(argv[i], "--every"))
                        every = atol(argv[i + 1]) > 0 ? atol(argv[i + 1]) : 1;
                else if (!strcmp(argv[i], "--seed"))
                        first_seed = atol(argv[i + 1]);
                else if (!strcmp(argv[i], "--only"))
                        only = argv[i + 1];
        kernels_open(argv[1], argv[2], atoi(argv[3]));
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        o.threads = 1;
        static const char *const names[] = {"reference", "cuda on the host"};
        for (engine_count = 0; engine_count < 2; engine_count++) {
                engine *e = &engines[engine_count];
                o.backend = engine_count ? SF_BACKEND_AUTO : SF_BACKEND_REF;
                e->threads = 1;
                snprintf(e->name, sizeof e->name, "%s", names[engine_count]);
                if (sf_context_create(&e->ctx, &o) != SF_OK)
                        return 2;
        }
        clock_t start = clock();
        host_learning = true;
        meet_all();
        cases_checked = 0;
        time_t before = time(NULL);
        kernels_compile();
        fprintf(stderr, "%d specialisations compiled in %ld s\n", kernels_count(), (long)(time(NULL) - before));
        host_learning = false;
        meet_all();
        fprintf(stderr, "%ld launches in %ld s:", host_launches, (long)((clock() - start) / CLOCKS_PER_SEC));
#define KERNEL(name, NAME) fprintf(stderr, " " #name " %ld", host_met[SF_CUDA_##NAME]);
#include "cuda/kernels.def"
#undef KERNEL
        fprintf(stderr, "; staged %ld, packs %ld, early %ld, whole rows %ld, interleaved %ld, chunked %ld\n", host_staged, host_packs, host_early,
                host_whole_rows, host_interleaved, host_chunked);
        const bool all = !only && wanted >= ENOUGH && every == 1 && first_seed == 1;
#define KERNEL(name, NAME) CHECK(!all || host_met[SF_CUDA_##NAME] || SF_CUDA_##NAME >= SF_CUDA_AGAIN, "no case has run kernels/" #name ".cu: it is not tested, or not chosen any more");
#include "cuda/kernels.def"
#undef KERNEL
#define KERNEL(name, NAME) CHECK(!all || host_products[SF_CUDA_##NAME] || SF_CUDA_##NAME >= SF_CUDA_AGAIN, "no case has run kernels/" #name ".cu with a product of reals");
#include "cuda/kernels.def"
#undef KERNEL
        CHECK(!all || (host_staged && host_packs && host_early && host_whole_rows > 20 && host_interleaved && host_chunked && host_tiled),
              "no case was staged, in packs, early, of whole rows, interleaved or chunked");
        return finish("test_cuda_host", cases_checked);
}
