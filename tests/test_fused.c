/*
 * Fused steps: programs on the way in and on the way out. Single instructions against a table written by hand, f32's exp and its like against
 * their bound, an association that must show, and then random steps (fused_case.h).
 */
#include "fused_case.h"

#include "backend.h"
#include "core/elementary.h"
#include "core/value.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------
 * Single instructions, by hand
 * ---------------------------------------------------------------------------------------------------------- */
static sf_value real(sf_dt dt, double v)
{
        return dt == SF_DT_F64 ? (sf_value){.f64 = v} : (sf_value){.f32 = (float)v};
}

static bool same_value(sf_dt dt, sf_value a, sf_value b)
{
        if (dt == SF_DT_F64)
                return (a.f64 != a.f64 && b.f64 != b.f64) || a.u64 == b.u64;
        if (sf_dtypes[dt].kind == SF_KIND_REAL)
                return (a.f32 != a.f32 && b.f32 != b.f32) || !memcmp(&a.f32, &b.f32, 4);
        return a.u64 == b.u64;
}

static sf_value eval(sf_code code, sf_dt dt, const sf_value *values)
{
        const uint8_t t = (uint8_t)dt;
        sf_program p = {.count = 3, .code = {{SF_CODE_CONSTANT, t, 0, {0}}, {SF_CODE_CONSTANT, t, 1, {0}}, {(uint8_t)code, t, 0, {0, 1, 1}}}};
        return sf_code_eval(&p.code[2], &p, values);
}

static void check_real(sf_code code, sf_dt dt, double a, double b, double expected)
{
        sf_value values[2] = {real(dt, a), real(dt, b)};
        sf_value got = eval(code, dt, values);
        fused_checks++;
        CHECK(same_value(dt, got, real(dt, expected)), "code %d of %s: %a, %a gave %a, not %a", (int)code, sf_dtypes[dt].name, a, b,
              dt == SF_DT_F64 ? got.f64 : (double)got.f32, expected);
}

static void check_integer(sf_code code, sf_dt dt, int64_t a, int64_t b, int64_t expected)
{
        sf_value values[2] = {{.u64 = (uint64_t)a}, {.u64 = (uint64_t)b}};
        fused_checks++;
        uint64_t got = eval(code, dt, values).u64;
        CHECK(got == (uint64_t)expected, "code %d of %s: %lld, %lld gave %lld, not %lld", (int)code, sf_dtypes[dt].name, (long long)a, (long long)b,
              (long long)got, (long long)expected);
}

static void check_cast(sf_dt from, sf_dt to, double a, double expected)
{
        bool real_from = sf_dtypes[from].kind == SF_KIND_REAL, real_to = sf_dtypes[to].kind == SF_KIND_REAL;
        sf_value v = real_from ? real(from, a) : (sf_value){.u64 = a < 0 ? (uint64_t)(int64_t)a : (uint64_t)a};
        sf_value w = real_to ? real(to, expected) : (sf_value){.u64 = expected < 0 ? (uint64_t)(int64_t)expected : (uint64_t)expected};
        fused_checks++;
        CHECK(same_value(to, sf_cast(from, to, v), w), "cast of %a from %s to %s is not %a", a, sf_dtypes[from].name, sf_dtypes[to].name, expected);
}

static void check_instructions(void)
{
        const double nan = NAN;
        for (int i = 0; i < 2; i++) {
                sf_dt dt = i ? SF_DT_F64 : SF_DT_F32;
                check_real(SF_CODE_MAXIMUM, dt, -0.0, 0.0, 0.0);
                check_real(SF_CODE_MAXIMUM, dt, 0.0, -0.0, 0.0);
                check_real(SF_CODE_MINIMUM, dt, 0.0, -0.0, -0.0);
                check_real(SF_CODE_MAXIMUM, dt, nan, 1.0, nan);
                check_real(SF_CODE_MINIMUM, dt, 1.0, nan, nan);
                check_real(SF_CODE_RELU, dt, -0.0, 0, 0.0);
                check_real(SF_CODE_RELU, dt, -2.0, 0, 0.0);
                check_real(SF_CODE_RELU, dt, nan, 0, nan);
                check_real(SF_CODE_NEG, dt, 0.0, 0, -0.0);
                check_real(SF_CODE_ABS, dt, -INFINITY, 0, INFINITY);
                check_real(SF_CODE_SUB, dt, 1.5, 0.25, 1.25);
                check_real(SF_CODE_DIV, dt, 1.0, -0.0, -INFINITY);
                check_real(SF_CODE_SQRT, dt, 2.25, 0, 1.5);
                check_real(SF_CODE_SQUARE, dt, -3.0, 0, 9.0);
                check_real(SF_CODE_EXP, dt, 0.0, 0, 1.0);
                check_real(SF_CODE_LOG, dt, 0.0, 0, -INFINITY);
                check_real(SF_CODE_SIGMOID, dt, 0.0, 0, 0.5);
                check_real(SF_CODE_TANH, dt, -INFINITY, 0, -1.0);
        }
        /* Halves round after every operation: 2048 + 1 is a tie, and 2049 does not exist. */
        check_real(SF_CODE_ADD, SF_DT_F16, 2048, 1, 2048);
        check_real(SF_CODE_ADD, SF_DT_F16, 2050, 1, 2052);
        check_real(SF_CODE_MUL, SF_DT_F16, 256, 256, INFINITY);
        check_real(SF_CODE_ADD, SF_DT_BF16, 256, 1, 256);
        check_real(SF_CODE_DIV, SF_DT_BF16, 1, 3, 0x1.56p-2);
        check_integer(SF_CODE_ADD, SF_DT_I8, 127, 1, -128);
        check_integer(SF_CODE_SUB, SF_DT_U8, 0, 1, 255);
        check_integer(SF_CODE_MUL, SF_DT_I16, 300, 300, 24464);
        check_integer(SF_CODE_NEG, SF_DT_I32, INT32_MIN, 0, INT32_MIN);
        check_integer(SF_CODE_ABS, SF_DT_I64, INT64_MIN, 0, INT64_MIN);
        check_integer(SF_CODE_ABS, SF_DT_U8, 200, 0, 200);
        check_integer(SF_CODE_MAXIMUM, SF_DT_I8, -1, 1, 1);
        check_integer(SF_CODE_MAXIMUM, SF_DT_U64, -1, 1, -1);
        check_integer(SF_CODE_RELU, SF_DT_I16, -5, 0, 0);
        check_integer(SF_CODE_RELU, SF_DT_U64, -5, 0, -5);
        check_integer(SF_CODE_SQUARE, SF_DT_U8, 16, 0, 0);
        check_integer(SF_CODE_ADD, SF_DT_BOOL, 1, 1, 1);
        check_integer(SF_CODE_SUB, SF_DT_BOOL, 1, 1, 0);
        check_integer(SF_CODE_NEG, SF_DT_BOOL, 1, 0, 1);
        check_integer(SF_CODE_LT, SF_DT_I8, -1, 0, 1);
        check_integer(SF_CODE_LT, SF_DT_U8, 255, 0, 0);
        check_integer(SF_CODE_LE, SF_DT_U16, 7, 7, 1);
        check_integer(SF_CODE_GT, SF_DT_I32, 7, 7, 0);
        check_integer(SF_CODE_GE, SF_DT_I64, -1, -1, 1);
        check_cast(SF_DT_F64, SF_DT_BOOL, nan, 1);
        check_cast(SF_DT_F32, SF_DT_BOOL, -0.0, 0);
        check_cast(SF_DT_I16, SF_DT_U8, -1, 255);
        check_cast(SF_DT_I32, SF_DT_BOOL, 256, 1);
        check_cast(SF_DT_I32, SF_DT_F32, 16777217, 16777216);
        check_cast(SF_DT_I32, SF_DT_F16, 2049, 2048);
        check_cast(SF_DT_F64, SF_DT_F16, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-10); /* once: by way of f32 it would be a tie */
        check_cast(SF_DT_BF16, SF_DT_F16, 0x1p17, INFINITY);
}

static void run_cast(sf_context *ctx, sf_dt from, sf_dt to, const void *x, int64_t n, void *y)
{
        sf_graph *graph = NULL;
        sf_plan *plan = NULL;
        const sf_dtype dtype = {sf_dtypes[to].code, sf_dtypes[to].bits, 1};
        sf_tensor in = tensor((void *)(uintptr_t)x, from == SF_DT_F64 ? SF_F64 : SF_F32, 1, &n),
                  out = tensor(y, dtype, 1, &n);
        CHECK(sf_graph_create(ctx, &graph) == SF_OK &&
                      sf_expr_output(graph,
                                     sf_expr_cast(graph, sf_expr_input(graph, "x"), dtype)) == 0 &&
                      sf_plan_create(ctx, graph, 1, &in, NULL, &plan) == SF_OK &&
                      sf_plan_run(plan, &in, &out, NULL) == SF_OK,
              "%s", sf_last_error(ctx));
        sf_plan_destroy(plan);
        sf_graph_destroy(graph);
}

/*
 * Reals to integers, in range and out of it: by the table of program.h, worked out by hand. The
 * last five are no f32. Every engine computes the same, in vectors and one by one.
 */
static void check_real_casts(void)
{
        enum { TYPES = 8, LONG = 150 };
        static const sf_dt to[TYPES] = {SF_DT_I8,  SF_DT_U8,  SF_DT_I16, SF_DT_U16,
                                        SF_DT_I32, SF_DT_U32, SF_DT_I64, SF_DT_U64};
        static const uint64_t low32 = (uint64_t)INT32_MIN, low64 = (uint64_t)1 << 63;
        const struct {
                double v;
                uint64_t is[TYPES]; /* signed types extended */
        } rows[] = {
                {-0.9, {0, 0, 0, 0, 0, 0, 0, 0}},
                {-1.9, {-1ull, 255, -1ull, 65535, -1ull, UINT32_MAX, -1ull, -1ull}},
                {127.9, {127, 127, 127, 127, 127, 127, 127, 127}},
                {200.7, {-56ull, 200, 200, 200, 200, 200, 200, 200}},
                {-300.5, {-44ull, 212, -300ull, 65236, -300ull, 4294966996, -300ull, -300ull}},
                {70000, {112, 112, 4464, 4464, 70000, 70000, 70000, 70000}},
                {-0x1p31, {0, 0, 0, 0, low32, 0x80000000, low32, low32}},
                {0x1p31, {0, 0, 0, 0, low32, 0x80000000, 0x80000000, 0x80000000}},
                {3e9, {0, 0, 0, 0, low32, 3000000000, 3000000000, 3000000000}},
                {-5e9, {0, 0, 0, 0, low32, 3589934592, -5000000000ull, -5000000000ull}},
                {-0x1p63, {0, 0, 0, 0, low32, 0, low64, low64}},
                {0x1p63, {0, 0, 0, 0, low32, 0, low64, low64}},
                {0x1.8p63, {0, 0, 0, 0, low32, 0, low64, 0xc000000000000000}},
                {0x1p64, {0, 0, 0, 0, low32, 0, low64, 0}},
                {INFINITY, {0, 0, 0, 0, low32, 0, low64, 0}},
                {-0x1.8p63, {0, 0, 0, 0, low32, 0, low64, low64}},
                {-INFINITY, {0, 0, 0, 0, low32, 0, low64, low64}},
                {NAN, {0, 0, 0, 0, low32, 0, low64, low64}},
                {-2147483648.5, {0, 0, 0, 0, low32, 0x80000000, low32, low32}},
                {2147483653.5, {0, 5, 0, 0, low32, 2147483653, 2147483653, 2147483653}},
                {-1099511627853,
                 {0, 179, 0, 0, low32, 4294967219, -1099511627853ull, -1099511627853ull}},
                {0x1p52 + 3, {0, 3, 0, 0, low32, 3, 0x10000000000003, 0x10000000000003}},
                {0x1.fffffffffffffp63, {0, 0, 0, 0, low32, 0, low64, 0xfffffffffffff800}},
        };
        enum { ROWS = sizeof rows / sizeof rows[0] };
        static float x32[LONG];
        static double x64[LONG];
        static uint64_t out[LONG]; /* room for any type */
        for (int f64 = 0; f64 < 2; f64++) {
                sf_dt from = f64 ? SF_DT_F64 : SF_DT_F32;
                const int many = f64 ? ROWS : ROWS - 5;
                for (int i = 0; i < LONG; i++) {
                        x64[i] = rows[i % many].v;
                        x32[i] = (float)x64[i];
                }
                for (int t = 0; t < TYPES; t++)
                        for (int i = 0; i < many; i++) {
                                uint64_t got = sf_cast(from, to[t], real(from, rows[i].v)).u64;
                                fused_checks++;
                                CHECK(got == rows[i].is[t], "%a as %s is %llx, not %llx", rows[i].v,
                                      sf_dtypes[to[t]].name, (unsigned long long)got,
                                      (unsigned long long)rows[i].is[t]);
                        }
                /* All of them at once, then the last ones by themselves. */
                for (int e = 0; e < engine_count; e++)
                        for (int t = 0; t < TYPES; t++)
                                for (int64_t n = LONG; n > 0; n = n > 40 ? 40 : n - 1) {
                                        const int64_t at = LONG - n;
                                        const void *x = f64 ? (const void *)(x64 + at)
                                                            : (const void *)(x32 + at);
                                        run_cast(engines[e].ctx, from, to[t], x, n, out);
                                        for (int64_t i = 0; i < n; i++) {
                                                uint64_t got =
                                                        sf_element_load(
                                                                to[t],
                                                                (char *)out +
                                                                        i * sf_dtypes[to[t]].size)
                                                                .u64;
                                                uint64_t right = rows[(at + i) % many].is[t];
                                                fused_checks++;
                                                CHECK(got == right,
                                                      "%s: %a as %s, one of %lld, is %llx, not "
                                                      "%llx",
                                                      engines[e].name, rows[(at + i) % many].v,
                                                      sf_dtypes[to[t]].name, (long long)n,
                                                      (unsigned long long)got,
                                                      (unsigned long long)right);
                                        }
                                }
        }
}

/* The error in last places of an f32 result, given the true value. Past the largest f32 infinity is as good. */
static double places(float y, double truth)
{
        int e;
        if (truth != truth)
                return y != y ? 0 : INFINITY;
        if (isinf(y))
                return fabs(truth) >= 0x1.ffffffp127 && y * truth > 0 ? 0 : INFINITY;
        frexp(truth, &e);
        return fabs(y - truth) / ldexp(1, e - 24 < -149 ? -149 : e - 24);
}

/* The same of an f64. */
static double places_f64(double y, long double truth)
{
        int e;
        if (truth != truth)
                return y != y ? 0 : INFINITY;
        if (isinf(y))
                return fabsl(truth) >= 0x1.fffffffffffffp1023L && y * truth > 0 ? 0 : INFINITY;
        frexpl(truth, &e);
        return (double)(fabsl(y - truth) / ldexpl(1, e - 53 < -1074 ? -1074 : e - 53));
}

static long double sigmoid(long double x)
{
        return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}

/* exponentials.inc.h's bounds, against the C library in a wider type (whose own error is nothing beside them): every 9973rd f32 there is, and as
 * many f64, of all magnitudes. A long double that is no wider than an f64 says less. Where few cases are asked for, one in eight of them: an emulated long
 * double takes its time. */
static void check_elementary(bool few)
{
        const double slack = LDBL_MANT_DIG > 60 ? 0 : 1;
        for (uint64_t i = 0; i < (uint64_t)1 << 32; i += few ? 8 * 9973 : 9973) {
                float x = sf_f32_from_bits((uint32_t)i);
                double d = sf_f64_from_bits(hash(i));
                d = i & 1 ? d : (double)(int64_t)hash(i) * (i & 2 ? 0x1p-54 : 0x1p-60); /* to 512, and to 8 */
                fused_checks += 8;
                CHECK(places(sf_exp_f32(x), exp((double)x)) < 0.9, "exp(%a) is %a", x, sf_exp_f32(x));
                if (fabsf(x) <= SF_EXP_PLAIN_F32)
                        CHECK(sf_exp_plain_f32(x) == sf_exp_f32(x), "exp(%a) is %a, in few steps %a", x, sf_exp_f32(x), sf_exp_plain_f32(x));
                CHECK(places(sf_log_f32(x), log((double)x)) < 0.83, "log(%a) is %a", x, sf_log_f32(x));
                CHECK(places(sf_sigmoid_f32(x), (double)sigmoid(x)) < 0.8, "sigmoid(%a) is %a", x, sf_sigmoid_f32(x));
                CHECK(places(sf_tanh_f32(x), tanh((double)x)) < 0.84, "tanh(%a) is %a", x, sf_tanh_f32(x));
                CHECK(places_f64(sf_exp_f64(d), expl(d)) < 1 + slack, "exp(%a) is %a", d, sf_exp_f64(d));
                CHECK(places_f64(sf_log_f64(d), logl(d)) < 1 + slack, "log(%a) is %a", d, sf_log_f64(d));
                CHECK(places_f64(sf_sigmoid_f64(d), sigmoid(d)) < 2.5 + slack, "sigmoid(%a) is %a", d, sf_sigmoid_f64(d));
                CHECK(places_f64(sf_tanh_f64(d), tanhl(d)) < 2.5 + slack, "tanh(%a) is %a", d, sf_tanh_f64(d));
        }
        CHECK(signbit(sf_tanh_f32(-0.0f)) && signbit(sf_tanh_f64(-0.0)) && !signbit(sf_tanh_f32(0.0f)) && !signbit(sf_tanh_f64(0.0)), "tanh(-0.0) is not -0.0");
        CHECK(sf_log_f32(1) == 0 && !signbit(sf_log_f32(1)) && sf_log_f64(1) == 0 && !signbit(sf_log_f64(1)), "log(1) is not 0.0");
        CHECK(sf_exp_f32(-0.0f) == 1 && sf_exp_f64(-0.0) == 1 && sf_sigmoid_f32(0) == 0.5f && sf_sigmoid_f64(-0.0) == 0.5, "of 0");
        CHECK(sf_exp_f32(-INFINITY) == 0 && sf_exp_f32(INFINITY) == INFINITY && sf_log_f32(-0.0f) == -INFINITY && isnan(sf_log_f32(-1e-45f)), "of the ends");
        CHECK(sf_sigmoid_f32(-INFINITY) == 0 && sf_sigmoid_f32(INFINITY) == 1 && sf_tanh_f32(-INFINITY) == -1 && sf_tanh_f64(INFINITY) == 1, "of infinity");
}

/*
 * A wrong association shows: the sum of products from left to right has other bits than the rule's, on this very data, so a backend that
 * added in that order would be caught by the comparison above.
 */
static void check_association(void)
{
        enum { N = 5000 };
        static float x[N], y[N];
        static sf_value products[N];
        float total, running = 0;
        int64_t shape[1] = {N};
        for (int i = 0; i < N; i++) {
                x[i] = (float)mixed((uint64_t)i);
                y[i] = (float)mixed((uint64_t)i + 17);
                products[i].f32 = x[i] * y[i];
                running += products[i].f32;
        }
        sf_tensor tensors[3] = {tensor(x, SF_F32, 1, shape), tensor(y, SF_F32, 1, shape), tensor(&total, SF_F32, 0, NULL)};
        sf_view views[3];
        sf_fuse fuse = {.load_reads = 3};
        fuse.load.code[0] = (sf_instruction){SF_CODE_LOAD, SF_DT_F32, 0, {0}};
        fuse.load.code[1] = (sf_instruction){SF_CODE_LOAD, SF_DT_F32, 1, {0}};
        fuse.load.code[2] = (sf_instruction){SF_CODE_MUL, SF_DT_F32, 0, {0, 1, 0}};
        fuse.load.count = 3;
        sf_step s = {.fold = true, .op = SF_SUM, .in = SF_DT_F32, .acc = SF_DT_F32, .out = SF_DT_F32, .device = {SF_CPU, 0}};
        for (int k = 0; k < 3; k++)
                CHECK(sf_view_init(REF, "x", &tensors[k], &views[k]) == SF_OK, "%s", sf_last_error(REF));
        sf_step_geometry(&s, &(sf_step_views){.x = &views[0], .y = &views[2], .axes = 1, .operands = 2, .operand = {&views[0], &views[1]},
                                              .fuse = &fuse});
        float expected = fold_in_pairs(&s, products, N).f32;
        CHECK(memcmp(&expected, &running, 4), "the data cannot tell one association from another");
        for (int e = 0; e < engine_count; e++) {
                total = 0;
                CHECK(sf_backend_run(engines[e].ctx, &s, NULL, 0) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                CHECK(!memcmp(&total, &expected, 4), "%s: the sum of products is %a, not %a", engines[e].name, total, expected);
                fused_checks++;
        }
}

static sf_dtype dtype_of(sf_dt dt)
{
        return (sf_dtype){sf_dtypes[dt].code, sf_dtypes[dt].bits, 1};
}

/*
 * Steps that do nothing to their elements but have an accumulator that loses some of their values,
 * or reads their bits as another type: a kernel of the elements' own type would keep what the
 * accumulator drops. Rows, columns, and all axes together.
 */
static void check_accumulators(void)
{
        static const struct {
                sf_dt in, acc, out;
        } kinds[] = {{SF_DT_F64, SF_DT_F32, SF_DT_F64},  {SF_DT_F16, SF_DT_U64, SF_DT_U16},
                     {SF_DT_BF16, SF_DT_I32, SF_DT_I16}, {SF_DT_I16, SF_DT_I8, SF_DT_I16},
                     {SF_DT_I32, SF_DT_I8, SF_DT_I32},   {SF_DT_I64, SF_DT_I32, SF_DT_I64},
                     {SF_DT_U8, SF_DT_I8, SF_DT_U8},     {SF_DT_I8, SF_DT_U32, SF_DT_I8},
                     {SF_DT_U16, SF_DT_U8, SF_DT_U16}};
        enum { ROWS = 9, COLUMNS = 300, N = ROWS * COLUMNS };
        static union {
                double f64[N];
                uint64_t bits[N];
        } x;
        static char expected[N * 8], got[N * 8];
        int64_t shape[2] = {ROWS, COLUMNS};
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
                for (int form = 0; form < 6 * 4; form++) {
                        const int axes = form % 3 + 1, fold = form / 3 % 2 || axes == 3;
                        sf_step s = {.fold = fold,
                                     .op = (sf_op)(form / 6),
                                     .in = kinds[k].in,
                                     .acc = kinds[k].acc,
                                     .out = kinds[k].out,
                                     .device = {SF_CPU, 0}};
                        s.identity = sf_identity(s.op, s.acc);
                        for (int i = 0; i < N; i++)
                                if (s.in == SF_DT_F64)
                                        x.f64[i] = mixed((uint64_t)i);
                                else
                                        x.bits[i] = hash((uint64_t)i);
                        int64_t kept[2] = {axes & 1 ? 1 : ROWS, axes & 2 ? 1 : COLUMNS};
                        sf_tensor tx = tensor(&x, dtype_of(s.in), 2, shape),
                                  ty = tensor(got, dtype_of(s.out), 2, fold ? kept : shape);
                        sf_view views[2];
                        sf_fuse fuse = {.load_reads = 1};
                        CHECK(sf_view_init(REF, "x", &tx, &views[0]) == SF_OK &&
                                      sf_view_init(REF, "y", &ty, &views[1]) == SF_OK,
                              "%s", sf_last_error(REF));
                        sf_step_geometry(&s, &(sf_step_views){.x = &views[0], .y = &views[1],
                                                              .axes = (uint64_t)axes,
                                                              .keepdim = true, .operands = 1,
                                                              .operand = {&views[0]},
                                                              .fuse = &fuse});
                        /* A plain step converts as scanfold.h's do: no real into an integer. */
                        const bool plain = sf_dtypes[s.in].kind != SF_KIND_REAL ||
                                           sf_dtypes[s.acc].kind == SF_KIND_REAL;
                        for (int e = 0; e < engine_count; e++)
                                for (int as_plain = 0; as_plain <= plain; as_plain++) {
                                        sf_step step = s;
                                        step.fuse = as_plain ? NULL : s.fuse;
                                        memset(got, 0, sizeof got);
                                        CHECK(sf_backend_run(engines[e].ctx, &step, NULL, 0) ==
                                                      SF_OK,
                                              "%s", sf_last_error(engines[e].ctx));
                                        if (!e && !as_plain)
                                                memcpy(expected, got, sizeof got);
                                        CHECK(!memcmp(expected, got, sizeof got),
                                              "%s: %s %s of %s by way of %s into %s, axes %d",
                                              engines[e].name, fold ? "fold" : "scan",
                                              sf_op_name(s.op), sf_dtypes[s.in].name,
                                              sf_dtypes[s.acc].name, sf_dtypes[s.out].name, axes);
                                        fused_checks++;
                                }
                }
}

int main(int argc, char **argv)
{
        /* Seeds that once found something: an accumulator narrower than the elements, and reals
         * scanned as the integers of their bits. */
        static const uint64_t found[] = {2481, 12255, 30794};
        long cases = 3000, large = 60;
        uint64_t first = 1;
        for (int i = 1; i + 1 < argc; i++) {
                if (!strcmp(argv[i], "--cases"))
                        cases = atol(argv[i + 1]);
                if (!strcmp(argv[i], "--large"))
                        large = atol(argv[i + 1]);
                if (!strcmp(argv[i], "--seed"))
                        first = (uint64_t)atoll(argv[i + 1]);
        }
        engines_open();
        check_instructions();
        check_real_casts();
        check_elementary(cases < 20);
        check_association();
        check_accumulators();
        for (size_t i = 0; i < sizeof found / sizeof *found; i++)
                fused_check(found[i], false);
        for (long i = 0; i < cases; i++)
                fused_check(first + (uint64_t)i, false);
        for (long i = 0; i < large; i++)
                fused_check(first + (uint64_t)i, true);
        engines_close();
        return finish("test_fused", fused_checks);
}
