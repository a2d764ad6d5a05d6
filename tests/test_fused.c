/*
 * Fused steps: programs on the way in and on the way out. Single instructions against a table written by hand, f32's exp and its like against
 * their bound, an association that must show, and then random steps (fused_case.h).
 */
#include "fused_case.h"

#include "backend.h"
#include "core/elementary.h"
#include "core/value.h"

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
        check_integer(SF_CODE_GE, SF_DT_I64, -1, -1, 1);
        check_cast(SF_DT_F32, SF_DT_I8, 300.7, 127);
        check_cast(SF_DT_F32, SF_DT_I8, -300.7, -128);
        check_cast(SF_DT_F64, SF_DT_I32, -1.9, -1);
        check_cast(SF_DT_F64, SF_DT_U8, -1.9, 0);
        check_cast(SF_DT_F32, SF_DT_U64, 0x1p64, -1); /* all bits */
        check_cast(SF_DT_F32, SF_DT_I64, -INFINITY, -0x1p63);
        check_cast(SF_DT_F64, SF_DT_I32, nan, 0);
        check_cast(SF_DT_F64, SF_DT_BOOL, nan, 1);
        check_cast(SF_DT_F32, SF_DT_BOOL, -0.0, 0);
        check_cast(SF_DT_I16, SF_DT_U8, -1, 255);
        check_cast(SF_DT_I32, SF_DT_BOOL, 256, 1);
        check_cast(SF_DT_I32, SF_DT_F32, 16777217, 16777216);
        check_cast(SF_DT_I32, SF_DT_F16, 2049, 2048);
        check_cast(SF_DT_F64, SF_DT_F16, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-10); /* once: by way of f32 it would be a tie */
        check_cast(SF_DT_BF16, SF_DT_F16, 0x1p17, INFINITY);
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

/* elementary.h's bound, against the C library's f64 (whose own error is nothing beside it): every 9973rd f32 there is. */
static void check_elementary(void)
{
        for (uint64_t i = 0; i < (uint64_t)1 << 32; i += 9973) {
                float x = sf_f32_from_bits((uint32_t)i);
                fused_checks++;
                CHECK(places(sf_exp_f32(x), exp((double)x)) < 0.504, "exp(%a) is %a", x, sf_exp_f32(x));
                CHECK(places(sf_log_f32(x), log((double)x)) < 0.504, "log(%a) is %a", x, sf_log_f32(x));
                CHECK(places(sf_tanh_f32(x), tanh((double)x)) < 0.504, "tanh(%a) is %a", x, sf_tanh_f32(x));
        }
        CHECK(signbit(sf_tanh_f32(-0.0f)), "tanh(-0.0) is not -0.0");
        CHECK(sf_log_f32(1) == 0 && !signbit(sf_log_f32(1)), "log(1) is not 0.0");
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

int main(int argc, char **argv)
{
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
        check_elementary();
        check_association();
        for (long i = 0; i < cases; i++)
                fused_check(first + (uint64_t)i, false);
        for (long i = 0; i < large; i++)
                fused_check(first + (uint64_t)i, true);
        engines_close();
        return finish("test_fused", fused_checks);
}
