/*
 * Floating-point modes: a caller's rounding, flushing of denormal numbers and traps change no bit
 * of a result, and are as they were afterwards, as are its exception flags. Every mode has a
 * process of its own, so that the pool's threads are started in it.
 */
#include "harness.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* -------------------------------------------------------------------------------------------------
 * Modes
 * ---------------------------------------------------------------------------------------------- */
static void flush(void)
{
#if defined __x86_64__
        __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined __aarch64__
        uint64_t control;
        __asm__ volatile("mrs %0, fpcr" : "=r"(control));
        __asm__ volatile("msr fpcr, %0" ::"r"(control | 1 << 24));
#endif
}

static void up(void)
{
        fesetround(FE_UPWARD);
}

static void down(void)
{
        fesetround(FE_DOWNWARD);
}

static void to_zero(void)
{
        fesetround(FE_TOWARDZERO);
}

static void up_and_flush(void)
{
        up();
        flush();
}

static void trap(void)
{
        feenableexcept(FE_ALL_EXCEPT);
}

static void nothing(void)
{
}

static const struct {
        const char *name;
        void (*set)(void);
} modes[] = {{"the default", nothing}, {"flush to zero", flush},
             {"upward", up},           {"downward", down},
             {"toward zero", to_zero}, {"upward, flush to zero", up_and_flush},
             {"traps", trap}};

/* The complete mode, and the exception flags. */
static uint64_t state(void)
{
#if defined __x86_64__
        uint16_t x87;
        __asm__ volatile("fnstcw %0" : "=m"(x87));
        return (uint64_t)x87 << 32 | __builtin_ia32_stmxcsr();
#elif defined __aarch64__
        uint64_t control, flags;
        __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(flags));
        return control << 32 | flags;
#else
        return (uint64_t)fegetround() << 32 | (uint64_t)fetestexcept(FE_ALL_EXCEPT);
#endif
}

/* -------------------------------------------------------------------------------------------------
 * Work: each fills `out`, and returns its bytes
 * ---------------------------------------------------------------------------------------------- */
/* with its results, just enough for several threads */
enum { ROWS = 300, COLUMNS = 512, N = ROWS * COLUMNS };
static float x[N];
static double wide[N];

static size_t scan(sf_context *ctx, void *out, int32_t ndim, int32_t axis, double initial)
{
        int64_t shape[2] = {ROWS, COLUMNS}, line = N;
        sf_tensor tx = tensor(x, SF_F32, ndim, ndim == 1 ? &line : shape),
                  ty = tensor(out, SF_F32, ndim, ndim == 1 ? &line : shape);
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        o.axis = axis;
        o.initial = initial != 0 ? sf_real(initial) : o.initial;
        CHECK(sf_scan(ctx, &tx, &ty, &o) == SF_OK, "%s", sf_last_error(ctx));
        return N * 4;
}

static size_t scan_rows(sf_context *ctx, void *out)
{
        return scan(ctx, out, 2, 1, 0);
}

/* 0.1 is no f32: it is rounded. */
static size_t scan_columns(sf_context *ctx, void *out)
{
        return scan(ctx, out, 2, 0, 0.1);
}

static size_t scan_line(sf_context *ctx, void *out)
{
        return scan(ctx, out, 1, 0, 0);
}

static size_t fold(sf_context *ctx, void *out)
{
        int64_t shape[2] = {ROWS, COLUMNS}, kept = ROWS;
        int32_t axis = 1;
        sf_tensor tx = tensor(wide, SF_F64, 2, shape), ty = tensor(out, SF_F64, 1, &kept),
                  tz = tensor((char *)out + ROWS * 8, SF_F32, 0, NULL);
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.axes = &axis;
        o.naxes = 1;
        CHECK(sf_fold(ctx, &tx, &ty, &o) == SF_OK, "%s", sf_last_error(ctx));
        /* every element, and rounded to a narrower type */
        CHECK(sf_fold(ctx, &tx, &tz, NULL) == SF_OK, "%s", sf_last_error(ctx));
        return ROWS * 8 + 4;
}

/* Programs on the way in and out, constants that are rounded as they are read, another that the
 * plan computes; a small call as well, which stays on this thread. */
static size_t plan_of(sf_context *ctx, void *out, int64_t rows)
{
        int64_t shape[2] = {rows, COLUMNS};
        sf_tensor tx = tensor(x, SF_F32, 2, shape), ty = tensor(out, SF_F32, 2, shape);
        sf_graph *graph = NULL;
        sf_plan *plan = NULL;
        CHECK(sf_graph_parse(ctx, "cumsum(exp(x * 0.1) * (1.1 * 1.3) + x, 1) / 3", &graph) == SF_OK,
              "%s", sf_last_error(ctx));
        CHECK(sf_plan_create(ctx, graph, 1, &tx, NULL, &plan) == SF_OK, "%s", sf_last_error(ctx));
        CHECK(sf_plan_run(plan, &tx, &ty, NULL) == SF_OK, "%s", sf_last_error(ctx));
        sf_plan_destroy(plan);
        sf_graph_destroy(graph);
        return (size_t)(rows * COLUMNS) * 4;
}

/* How the last bit of a number is rounded when it is read. */
static size_t reading(sf_context *ctx, void *out)
{
        int64_t one = 1;
        sf_tensor tx = tensor(wide, SF_F64, 1, &one), ty = tensor(out, SF_F64, 1, &one);
        sf_graph *graph = NULL;
        sf_plan *plan = NULL;
        CHECK(sf_graph_parse(ctx, "x * 0 + 0.1", &graph) == SF_OK &&
                      sf_plan_create(ctx, graph, 1, &tx, NULL, &plan) == SF_OK &&
                      sf_plan_run(plan, &tx, &ty, NULL) == SF_OK,
              "%s", sf_last_error(ctx));
        sf_plan_destroy(plan);
        sf_graph_destroy(graph);
        return 8;
}

static size_t fused(sf_context *ctx, void *out)
{
        return plan_of(ctx, out, ROWS);
}

static size_t fused_small(sf_context *ctx, void *out)
{
        return plan_of(ctx, out, 3);
}

static const struct {
        const char *name;
        size_t (*run)(sf_context *, void *);
} works[] = {{"scan of rows", scan_rows},
             {"scan of columns", scan_columns},
             {"scan of one line", scan_line},
             {"fold", fold},
             {"fused", fused},
             {"fused, small", fused_small},
             {"a number", reading}};
enum { WORKS = sizeof works / sizeof *works, MODES = sizeof modes / sizeof *modes };

static char *right[WORKS];
static size_t bytes[WORKS];

/* In the child: one in `every` of the calls, other ones in each mode. */
static void check_mode(int m, int every)
{
        char *got = malloc(N * 8);
        if (!got)
                abort();
        /* Of a thin selection, none by the reference, which is slow. */
        for (int e = every > 1; e < engine_count; e++)
                /* one thread, and several */
                for (int w = (m + e) % every; w < WORKS && engines[e].threads % 2; w += every) {
                        memset(got, 0, N * 8);
                        feclearexcept(FE_ALL_EXCEPT);
                        if (e % 2 && modes[m].set != trap)
                                feraiseexcept(FE_DIVBYZERO);
                        modes[m].set();
                        const uint64_t before = state();
                        works[w].run(engines[e].ctx, got);
                        const uint64_t after = state();
                        fesetenv(FE_DFL_ENV);
                        CHECK(before == after,
                              "%s, %s on %s: the mode or the flags were %llx and are %llx",
                              modes[m].name, works[w].name, engines[e].name,
                              (unsigned long long)before, (unsigned long long)after);
                        CHECK(!memcmp(got, right[w], bytes[w]), "%s, %s on %s: other bits",
                              modes[m].name, works[w].name, engines[e].name);
                }
        free(got);
}

int main(int argc, char **argv)
{
        const int every = argc > 1 ? atoi(argv[1]) : 1;
        long checks = 0;
        engines_open();
        for (int i = 0; i < N; i++) { /* a third of them denormal */
                x[i] = (float)(hash((uint64_t)i) % 1000003) * (i % 3 ? 1e-6f : 0x1p-149f);
                wide[i] = (double)x[i] / 7;
        }
        for (int w = 0; w < WORKS; w++) {
                right[w] = calloc(N, 8);
                if (!right[w])
                        abort();
                bytes[w] = works[w].run(REF, right[w]);
        }
        for (int m = 0; m < MODES; m++) {
                fflush(NULL);
                pid_t pid = fork();
                if (!pid) {
                        failures = 0;
                        check_mode(m, every);
                        _exit(failures ? 1 : 0);
                }
                int status = 0;
                CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status,
                      "%s: the process ended with status %x", modes[m].name, (unsigned)status);
                checks += 2 * engine_count * WORKS / every;
        }
        for (int w = 0; w < WORKS; w++)
                free(right[w]);
        engines_close();
        return finish("test_modes", checks);
}
