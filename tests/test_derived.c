/*
 * Means, variances, norms, any and all: what they are made of is in src/expr/derive.c. On every engine they have the reference's bits;
 * against plain formulas in long double they are as close as the header says; and two ways to write the same thing have the same bits. And exp and
 * its like have the same bits everywhere.
 */
#include "expr_tools.h"
#include "naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static long checks;

/* ------------------------------------------------------------------------------------------------
 * Inputs and plans
 * ---------------------------------------------------------------------------------------------- */
/* n around 0, with zeros among them; o around 1e6 (of halves 100); s with NaN, infinities and zeros of both signs, whole lines of NaN;
 * p in [0.5, 1.5]. */
static double fill_value(char how, int dt, int64_t line, int64_t i)
{
        const uint64_t seed = (uint64_t)(line * 7919 + i);
        const double u = (double)(hash(seed) % 4096) / 4096 - 0.5, far = dt == DT_F16 || dt == DT_BF16 ? 100 : 1e6;
        static const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1};
        if (dt == DT_BOOL)
                return hash(seed) % 4 != 0;
        if (how == 'd') /* goes down: what comes first is the best for long */
                return (double)(100 - (i >> 12));
        if (dts[dt].kind != 'r')
                return (double)(hash(seed) % 7);
        if (how == 's' && line % 3)
                return line % 3 == 1 ? (hash(seed) % 4 ? u : NAN) : special[hash(seed) % 6];
        if (how == 's' && line % 2)
                return NAN;
        return how == 'o' ? far + u * 4 : how == 'p' ? u + 1 : hash(seed) % 5 ? u * 8 : 0;
}

static void fill_tensor(sf_tensor *t, char how)
{
        int dt = tool_dt(t->dtype);
        int64_t count = tool_count(t), n = t->ndim ? t->shape[t->ndim - 1] : 1;
        t->data = calloc((size_t)count + 1, (size_t)dts[dt].size);
        for (int64_t i = 0; i < count; i++)
                array_set(&(array){.dt = dt, .data = t->data}, i, fill_value(how, dt, n ? i / n : 0, n ? i % n : 0));
}

static double value_at(const sf_tensor *t, int64_t i)
{
        return array_get(&(array){.dt = tool_dt(t->dtype), .data = t->data}, i);
}

typedef struct outputs {
        int32_t count;
        sf_tensor tensor[4];
        int64_t shape[4][SF_MAX_NDIM];
} outputs;

static bool run(sf_context *ctx, const char *expression, const tool_shapes *shapes, bool exact, outputs *out)
{
        sf_graph *graph;
        sf_plan *plan = NULL;
        sf_plan_options o = SF_PLAN_OPTIONS_INIT;
        sf_tensor in[TOOL_INPUTS];
        o.exact = exact;
        if (sf_graph_parse(ctx, expression, &graph) == SF_OK) {
                tool_order(graph, shapes, in);
                sf_plan_create(ctx, graph, sf_graph_inputs(graph), in, &o, &plan);
                sf_graph_destroy(graph);
        }
        CHECK(plan, "%s: %s", expression, sf_last_error(ctx));
        out->count = plan ? sf_plan_outputs(plan) : 0;
        for (int32_t k = 0; k < out->count; k++) {
                sf_tensor *t = &out->tensor[k];
                *t = (sf_tensor){.device = {SF_CPU, 0}, .shape = out->shape[k]};
                sf_plan_output(plan, k, &t->ndim, out->shape[k], &t->dtype);
                t->data = calloc((size_t)tool_count(t) + 1, t->dtype.bits / 8u);
        }
        if (plan)
                CHECK(sf_plan_run(plan, in, out->tensor, NULL) == SF_OK, "%s: %s", expression, sf_last_error(ctx));
        sf_plan_destroy(plan);
        return plan;
}

static void release(outputs *out)
{
        for (int32_t k = 0; k < out->count; k++)
                free(out->tensor[k].data);
}

/* Where the first difference is, or -1. */
static int64_t differs(const sf_tensor *a, const sf_tensor *b)
{
        int dt = tool_dt(a->dtype);
        size_t size = (size_t)dts[dt].size;
        if (dt != tool_dt(b->dtype) || tool_count(a) != tool_count(b))
                return 0;
        for (int64_t i = 0; i < tool_count(a); i++)
                if (!same_bits(dt, (char *)a->data + (size_t)i * size, (char *)b->data + (size_t)i * size))
                        return i;
        return -1;
}

/* The reference's results; all other engines have the same bits. */
static bool run_everywhere(const char *expression, const tool_shapes *shapes, const char *line, outputs *right)
{
        if (!run(REF, expression, shapes, true, right))
                return false;
        for (int e = 1; e < engine_count; e++, checks++) {
                outputs mine;
                if (!run(engines[e].ctx, expression, shapes, e % 2, &mine))
                        return false;
                for (int32_t k = 0; k < mine.count; k++) {
                        int64_t at = differs(&mine.tensor[k], &right->tensor[k]);
                        CHECK(at < 0, "%s of %s on %s, output %d: element %lld is %.9g, not %.9g", expression, line, engines[e].name, (int)k,
                              (long long)at, value_at(&mine.tensor[k], at), value_at(&right->tensor[k], at));
                }
                release(&mine);
        }
        return true;
}

/* ------------------------------------------------------------------------------------------------
 * Plain formulas, of a line of n values
 * ---------------------------------------------------------------------------------------------- */
typedef long double (*formula)(const long double *x, int64_t n, double parameter);

static long double mean_of(const long double *x, int64_t n, double parameter)
{
        (void)parameter;
        long double s = 0;
        for (int64_t i = 0; i < n; i++)
                s += x[i];
        return s / (long double)n;
}

static long double var_of(const long double *x, int64_t n, double correction)
{
        long double mean = mean_of(x, n, 0), s = 0, freedom = (long double)n - correction;
        for (int64_t i = 0; i < n; i++)
                s += (x[i] - mean) * (x[i] - mean);
        return s / (freedom > 0 ? freedom : 0);
}

static long double std_of(const long double *x, int64_t n, double correction)
{
        return sqrtl(var_of(x, n, correction));
}

static long double norm_of(const long double *x, int64_t n, double p)
{
        long double s = p == -INFINITY ? INFINITY : 0;
        for (int64_t i = 0; i < n; i++) {
                long double v = fabsl(x[i]);
                if (isinf(p))
                        s = isnan(v) || isnan(s) ? NAN : p > 0 ? fmaxl(s, v) : fminl(s, v);
                else
                        s += p == 0 ? v != 0 : powl(v, p);
        }
        return isinf(p) || p == 0 ? s : powl(s, 1 / (long double)p);
}

static long double sumsq_of(const long double *x, int64_t n, double parameter)
{
        (void)parameter;
        long double s = 0;
        for (int64_t i = 0; i < n; i++)
                s += x[i] * x[i];
        return s;
}

static long double any_of(const long double *x, int64_t n, double parameter)
{
        (void)parameter;
        bool any = false;
        for (int64_t i = 0; i < n; i++)
                any |= x[i] != 0;
        return any;
}

static long double all_of(const long double *x, int64_t n, double parameter)
{
        (void)parameter;
        bool all = true;
        for (int64_t i = 0; i < n; i++)
                all &= x[i] != 0;
        return all;
}

/* The function's call, with %s for more arguments; `wide`: its error is that of f64, rounded once. */
static const struct {
        const char *call;
        formula formula;
        double parameter;
        const char *fills;
        bool wide;
} formulas[] = {
        {"mean(x, 1%s)", mean_of, 0, "nos", false},
        {"var(x, 1%s)", var_of, 1, "nos", true},
        {"var(x, 1, correction=0%s)", var_of, 0, "nos", true},
        {"var(x, 1, ddof=0.5%s)", var_of, 0.5, "no", true},
        {"std(x, 1%s)", std_of, 1, "nos", true},
        {"sumsq(x, 1%s)", sumsq_of, 0, "ns", false},
        {"norm(x, axis=1%s)", norm_of, 2, "ns", false},
        {"norm(x, 1, 1%s)", norm_of, 1, "ns", false},
        {"norm(x, inf, 1%s)", norm_of, INFINITY, "ns", false},
        {"norm(x, -inf, 1%s)", norm_of, -INFINITY, "ns", false},
        {"norm(x, 0, 1%s)", norm_of, 0, "ns", false},
        {"norm(x, 3, 1%s)", norm_of, 3, "np", false},
        {"norm(x, 4, 1%s)", norm_of, 4, "np", false},
        {"norm(x, 0.5, 1%s)", norm_of, 0.5, "np", false},
        {"norm(x, 2.5, 1%s)", norm_of, 2.5, "np", false},
        {"norm(x, 1.7, 1%s)", norm_of, 1.7, "np", false},
        {"norm(x, -1.5, 1%s)", norm_of, -1.5, "p", false},
        {"any(x, 1%s)", any_of, 0, "ns", true},
        {"count_nonzero(x, 1%s)", norm_of, 0, "ns", true},
        {"all(x, 1%s)", all_of, 0, "nps", true},
};

static double unit_of(int dt)
{
        return dt == DT_F16 ? 0x1p-11 : dt == DT_BF16 ? 0x1p-8 : dt == DT_F32 ? 0x1p-24 : 0x1p-53;
}

static bool is_close(double given, long double right, double tolerance, double least)
{
        if (isnan(given) || isnan(right))
                return isnan(given) && isnan(right);
        if (isinf(given) || isinf(right))
                return (long double)given == right;
        return fabsl((long double)given - right) <= tolerance * fabsl(right) + least;
}

static void check_formula(size_t f, char how, const char *dtype, int64_t n, bool masked, bool skips)
{
        char shapes_line[64], expression[128], more[64] = "";
        const bool fixed = formulas[f].formula == any_of || formulas[f].formula == all_of || !strncmp(formulas[f].call, "count", 5);
        const bool real = dtype[0] == 'f' || (dtype[0] == 'b' && dtype[1] == 'f');
        tool_shapes shapes;
        outputs out;
        enum { ROWS = 9, MOST = 5000 }; /* more than a vector has lanes of f64, and not a multiple */
        static long double line[MOST];
        if (formulas[f].parameter > (double)n && !masked && !skips && (formulas[f].formula == var_of || formulas[f].formula == std_of))
                return; /* refused */
        snprintf(shapes_line, sizeof shapes_line, "x=%d,%d:%s m=%d,%d:bool", ROWS, (int)n, dtype, ROWS, (int)n);
        snprintf(more, sizeof more, "%s%s%s", masked ? ", mask=m" : "", skips ? ", skip_nan=True" : "", real || fixed ? "" : ", dtype=f64");
        snprintf(expression, sizeof expression, formulas[f].call, more);
        tool_read_shapes(shapes_line, &shapes);
        for (int i = 0; i < shapes.count; i++)
                fill_tensor(&shapes.tensor[i], i ? 'n' : how);
        if (run_everywhere(expression, &shapes, shapes_line, &out)) {
                const sf_tensor *x = &shapes.tensor[0];
                for (int64_t r = 0; r < ROWS; r++) {
                        int64_t kept = 0;
                        long double size = 0;
                        for (int64_t i = 0; i < n; i++) {
                                double v = value_at(x, r * n + i);
                                if ((masked && !value_at(&shapes.tensor[1], r * n + i)) || (skips && isnan(v)))
                                        continue;
                                line[kept++] = v;
                                size += fabsl((long double)v);
                        }
                        int dt = tool_dt(out.tensor[0].dtype), acc = dt == DT_F64 ? DT_F64 : DT_F32;
                        double given = value_at(&out.tensor[0], r);
                        long double right = formulas[f].formula(line, kept, formulas[f].parameter);
                        const bool varies = formulas[f].formula == var_of || formulas[f].formula == std_of;
                        if (varies && skips && real && formulas[f].parameter >= (double)kept)
                                right = NAN;
                        if (formulas[f].formula == norm_of && !kept && formulas[f].parameter == INFINITY)
                                right = 0;
                        if (dt == DT_F16 && fabsl(right) >= 65520)
                                right = copysignl(INFINITY, right);
                        /* A mean of both signs is as good as its terms are large. */
                        double least = formulas[f].formula == mean_of && kept ? 16 * unit_of(acc) * (double)size / (double)kept : 1e-30;
                        double tolerance = unit_of(dt) + (formulas[f].wide ? 1e-9 : 40 * unit_of(acc));
                        checks++;
                        CHECK(is_close(given, right, fixed ? 0 : tolerance, isnan(least) || isinf(least) ? 0 : least),
                              "%s of %s, filled with %c: row %lld is %.9g, not %.9Lg", expression, shapes_line, how, (long long)r, given, right);
                }
                release(&out);
        }
        for (int i = 0; i < shapes.count; i++)
                free(shapes.tensor[i].data);
}

static void test_formulas(size_t every)
{
        static const char *const dtypes[] = {"f32", "f64", "f16", "bf16", "i32", "u8", "bool"};
        static const int64_t lengths[] = {1, 2, 3, 7, 64, 200, 1000, 4097};
        size_t number = 0;
        for (size_t f = 0; f < sizeof formulas / sizeof *formulas; f++)
                for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
                        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
                                for (const char *how = formulas[f].fills; *how; how++)
                                        for (int option = 0; option < 4; option++)
                                                if (number++ % every == 0)
                                                        check_formula(f, *how, dtypes[d], lengths[l], option & 1, option & 2);
}

/* ------------------------------------------------------------------------------------------------
 * The same bits, written in two ways
 * ---------------------------------------------------------------------------------------------- */
static const char *const laws[][3] = {
        /* Rows of less than a word an element, at addresses that allow no vectors. The first law is one
         * that every list has, however thin. */
        {"log_softmax(flip(x, 0), 1), layer_norm(flip(x, 0), 1)", "flip(log_softmax(x, 1), 0), flip(layer_norm(x, 1), 0)", "x=17,203:f16"},
        {"var(x, 0)", "var(x.T, 1)", "x=33,40"},
        {"var(x, 1, reverse=True)", "var(flip(x, 1), 1)", "x=33,40:f64"},
        {"var(x, (0, 2))", "var(permute(x, (1, 0, 2)), (1, 2))", "x=5,3,9"},
        {"std(x, 1, dtype=f64)", "sqrt(var(x, 1, dtype=f64))", "x=33,40"},
        {"mean(x, 1)", "sum(x, 1) / 40", "x=33,40"},
        {"mean(x, 1, mask=m)", "sum(x, 1, mask=m) / sum(m, 1).astype(f32)", "x=33,40 m=33,40:bool"},
        {"nanmean(x, 1)", "mean(x, 1, mask=x == x)", "x=33,40"},
        {"nanvar(x, 1)", "var(x, 1, mask=x == x)", "x=33,40"},
        {"nanvar(nans, 1, ddof=39)", "where(sum(nans == nans, 1) > 39, var(nans, 1, mask=nans == nans, ddof=39), nan)", "nans=33,40"},
        {"nanstd(nans, 1, ddof=30, mask=m)", "where(sum(nans == nans, 1, mask=m) > 30, std(nans, 1, mask=(nans == nans) * m, ddof=30), nan)",
         "nans=33,40:f64 m=33,40:bool"},
        {"var(i, 1, ddof=40, skip_nan=True, dtype=f32)", "var(i, 1, ddof=40, mask=m == m, dtype=f32)", "i=33,40:i32 m=33,40:bool"},
        {"nanstd(x, 1, ddof=0)", "std(x, 1, skip_nan=True, correction=0)", "x=33,40"},
        {"nansum(x, 1)", "sum(where(x == x, x, 0), 1)", "x=33,40"},
        {"nanprod(x, 1)", "prod(x, 1, mask=x == x)", "x=33,40:f64"},
        {"nancumsum(x, 1)", "cumsum(x, 1, skip_nan=True)", "x=33,40"},
        {"nancumprod(x, 1)", "cumprod(where(x == x, x, 1), 1)", "x=33,40:f16"},
        {"nansum(x, 1, mask=m)", "sum(where(m, x, 0), 1, skip_nan=True)", "x=33,40 m=33,40:bool"},
        {"nanmax(x, 1)", "where(any(x == x, 1), max(x, 1, skip_nan=True), nan)", "x=33,40"},
        {"nanmax(x, 1, mask=m)", "where(any(x == x, 1, mask=m), max(x, 1, skip_nan=True, mask=m), nan)", "x=33,40 m=33,40:bool"},
        {"nanmax(i, 1)", "max(i, 1)", "i=33,40:i64"},
        {"nanmin(i, 1, mask=m)", "min(i, 1, mask=m)", "i=33,40:u8 m=33,40:bool"},
        {"nanmin(x, 1, initial=3)", "min(x, 1, skip_nan=True, initial=3)", "x=33,40"},
        {"sum(i, 1, skip_nan=True)", "sum(i, 1)", "i=33,40:i32"},
        {"norm(x, 2, 1)", "sqrt(sumsq(x, 1))", "x=33,40"},
        {"norm(x, axis=1)", "sqrt(sum(x * x, 1))", "x=33,40"},
        {"norm(x, ord=1, dim=1)", "sum(abs(x), 1)", "x=33,40"},
        {"torch.linalg.vector_norm(x, inf, 1)", "max(abs(x), 1)", "x=33,40"},
        {"any(x, 1)", "max(x != 0, 1)", "x=33,40"},
        {"all(x, 1)", "min(x != 0, 1)", "x=33,40"},
        {"all(b, 0), any(b, 0)", "min(b, 0), max(b, 0)", "b=33,40:bool"},
        {"count_nonzero(x, 1)", "sum(x != 0, 1)", "x=33,40"},
        {"count_nonzero(b, 0)", "sum(b, 0)", "b=33,40:bool"},
        /* Straight from memory and by way of panels, with zeros of both signs and NaN; longer than a byte's or a word's lanes count to. */
        {"count_nonzero(nans, 0), any(nans, 0), all(nans, 0)", "sum(where(nans != 0, 1, 0), 0), max(nans != 0, 0), min(nans != 0, 0)", "nans=2100,131:f32"},
        {"count_nonzero(nans, 1), any(nans, 1), all(nans, 1)", "sum(where(nans != 0, 1, 0), 1), max(nans != 0, 1), min(nans != 0, 1)", "nans=9,2100:f32"},
        {"count_nonzero(nans, 0), any(nans, 0), all(nans, 0)", "sum(where(nans != 0, 1, 0), 0), max(nans != 0, 0), min(nans != 0, 0)", "nans=2100,131:f64"},
        {"count_nonzero(nans, 1), any(nans, 1), all(nans, 1)", "sum(where(nans != 0, 1, 0), 1), max(nans != 0, 1), min(nans != 0, 1)", "nans=9,2100:f64"},
        {"count_nonzero(nans, 0), any(nans, 0), all(nans, 0)", "sum(where(nans != 0, 1, 0), 0), max(nans != 0, 0), min(nans != 0, 0)", "nans=2100,131:f16"},
        {"count_nonzero(nans, 1), any(nans, 1), all(nans, 1)", "sum(where(nans != 0, 1, 0), 1), max(nans != 0, 1), min(nans != 0, 1)", "nans=9,2100:f16"},
        {"count_nonzero(nans, 0), any(nans, 0), all(nans, 0)", "sum(where(nans != 0, 1, 0), 0), max(nans != 0, 0), min(nans != 0, 0)", "nans=2100,131:bf16"},
        {"count_nonzero(nans, 1), any(nans, 1), all(nans, 1)", "sum(where(nans != 0, 1, 0), 1), max(nans != 0, 1), min(nans != 0, 1)", "nans=9,2100:bf16"},
        {"count_nonzero(nans, 0), any(nans, 0), all(nans, 0)", "sum(where(nans != 0, 1, 0), 0), max(nans != 0, 0), min(nans != 0, 0)", "nans=2100,131:i8"},
        {"count_nonzero(nans, 1), any(nans, 1), all(nans, 1)", "sum(where(nans != 0, 1, 0), 1), max(nans != 0, 1), min(nans != 0, 1)", "nans=9,2100:i8"},
        {"count_nonzero(nans, 0), any(nans, 0), all(nans, 0)", "sum(where(nans != 0, 1, 0), 0), max(nans != 0, 0), min(nans != 0, 0)", "nans=2100,131:u16"},
        {"count_nonzero(nans, 1), any(nans, 1), all(nans, 1)", "sum(where(nans != 0, 1, 0), 1), max(nans != 0, 1), min(nans != 0, 1)", "nans=9,2100:u16"},
        {"count_nonzero(nans, 0), any(nans, 0), all(nans, 0)", "sum(where(nans != 0, 1, 0), 0), max(nans != 0, 0), min(nans != 0, 0)", "nans=2100,131:i32"},
        {"count_nonzero(nans, 1), any(nans, 1), all(nans, 1)", "sum(where(nans != 0, 1, 0), 1), max(nans != 0, 1), min(nans != 0, 1)", "nans=9,2100:i32"},
        {"count_nonzero(nans, 0), any(nans, 0), all(nans, 0)", "sum(where(nans != 0, 1, 0), 0), max(nans != 0, 0), min(nans != 0, 0)", "nans=2100,131:u64"},
        {"count_nonzero(nans, 1), any(nans, 1), all(nans, 1)", "sum(where(nans != 0, 1, 0), 1), max(nans != 0, 1), min(nans != 0, 1)", "nans=9,2100:u64"},
        {"count_nonzero(nans, (0, 2)), any(nans, 1, mask=m)", "sum(where(nans != 0, 1, 0), (0, 2)), max(nans != 0, 1, mask=m)", "nans=19,70,5:f32 m=19,70,5:bool"},
        {"count_nonzero(nans[:, ::2], 1), all(nans.T, 0), any(flip(nans, 1), 1)", "sum(where(nans[:, ::2] != 0, 1, 0), 1), min(nans != 0, 1), max(nans != 0, 1)", "nans=37,300:f32"},
        {"count_nonzero(nans, (0, 2)), any(nans, 1, mask=m)", "sum(where(nans != 0, 1, 0), (0, 2)), max(nans != 0, 1, mask=m)", "nans=19,70,5:u8 m=19,70,5:bool"},
        {"count_nonzero(nans[:, ::2], 1), all(nans.T, 0), any(flip(nans, 1), 1)", "sum(where(nans[:, ::2] != 0, 1, 0), 1), min(nans != 0, 1), max(nans != 0, 1)", "nans=37,300:u8"},
        {"count_nonzero(nans)", "sum(where(nans != 0, 1, 0))", "nans=70000:bf16"},
        {"sumsq(i, 1)", "sum(square(i.astype(i64)), 1)", "i=33,40:i32"},
        /* A fold is the last of its scan. */
        {"cummean(x, 1)[:, -1]", "mean(x, 1)", "x=33,40"},
        {"cummean(x, 0, reverse=True)[0]", "mean(x, 0, reverse=True)", "x=33,40"},
        {"cummean(x, 1, mask=m)[:, -1]", "mean(x, 1, mask=m)", "x=33,40 m=40:bool"},
        {"cumvar(x, 1)[:, -1]", "var(x, 1)", "x=33,40"},
        {"cumvar(x, 1, correction=0)[:, 16]", "var(x[:, :17], 1, correction=0)", "x=33,40"},
        {"cumvar(x, 0, reverse=True)[0]", "var(x, 0, reverse=True)", "x=33,40:f64"},
        {"cumvar(x, 1, mask=m)[:, 16]", "cumvar(x[:, :17], 1, mask=m[:17])[:, -1]", "x=33,40 m=40:bool"},
        {"cumvar(x, 1, mask=x == x)", "cumvar(x, 1)", "x=33,40"},
        {"cumvar(x, 1, mask=x == x, reverse=True)", "flip(cumvar(flip(x, 1), 1), 1)", "x=33,40:f64"},
        {"cumvar(nans, 1, skip_nan=True, ddof=0)", "cumvar(nans, 1, mask=nans == nans, ddof=0)", "nans=33,40"},
        {"cumvar(nans, 1, skip_nan=True, ddof=3)", "where(cumsum(nans == nans, 1) > 3, cumvar(nans, 1, mask=nans == nans, ddof=3), nan)", "nans=33,40:f16"},
        {"cumvar(x, 1, exclusive=True)[:, 1:]", "cumvar(x, 1)[:, :-1]", "x=33,40"},
        {"cummean(x, 1, exclusive=True, mask=m)[:, 1:]", "cummean(x, 1, mask=m)[:, :-1]", "x=33,40 m=40:bool"},
        {"cumvar(x, 1, exclusive=True, reverse=True, mask=m)[:, :-1]", "cumvar(x, 1, reverse=True, mask=m)[:, 1:]", "x=33,40 m=33,40:bool"},
        {"cummean(x, 1)[:, 30]", "mean(x[:, :31], 1)", "x=33,40:bf16"},
        {"var_mean(x, 1)", "var(x, 1), (x[:, 0].astype(f64) + sum(x.astype(f64) - x[:, :1].astype(f64), 1) / 40).astype(f32)", "x=33,40"},
        {"std_mean(x, 1)", "std(x, 1), (x[:, 0].astype(f64) + sum(x.astype(f64) - x[:, :1].astype(f64), 1) / 40).astype(f32)", "x=33,40"},
        /* Rows whose addresses allow no vectors, with masks. */
        {"softmax(flip(x, 0), 1, mask=flip(m, 0))", "flip(softmax(x, 1, mask=m), 0)", "x=13,203:bf16 m=13,203:bool"},
        {"softmax(flip(x, 0), 1, mask=flip(m, 0))", "flip(softmax(x, 1, mask=m), 0)", "x=14,301:f64 m=14,301:bool"},
        {"var(x[:, :1], 1, correction=0)", "zeros_like(x[:, 0])", "x=33,40"},
        /* A fold of distances from a centre, which is itself a fold: subtraction is monotonic. */
        {"max(x - min(x, 1, keepdim=True), 1)", "max(x, 1) - min(x, 1)", "x=33,40"},
        {"max(x - sum(x, 1, keepdim=True), 1)", "max(x, 1) - sum(x, 1)", "x=5,4:f64"},
        {"min(x - sum(x, 0, keepdim=True), 0)", "min(x, 0) - sum(x, 0)", "x=40,33"},
};

static void check_law(const char *const law[3])
{
        tool_shapes shapes;
        outputs one = {.count = 0}, two = {.count = 0};
        tool_read_shapes(law[2], &shapes);
        for (int i = 0; i < shapes.count; i++)
                fill_tensor(&shapes.tensor[i], strstr(law[0], "nan") ? 's' : 'n');
        if (run_everywhere(law[0], &shapes, law[2], &one) && run_everywhere(law[1], &shapes, law[2], &two))
                for (int32_t k = 0; k < one.count; k++, checks++) {
                        int64_t at = differs(&one.tensor[k], &two.tensor[k]);
                        CHECK(at < 0, "%s of %s: element %lld is %.9g; %s is %.9g", law[0], law[2], (long long)at, value_at(&one.tensor[k], at),
                              law[1], value_at(&two.tensor[k], at));
                }
        release(&one);
        release(&two);
        for (int i = 0; i < shapes.count; i++)
                free(shapes.tensor[i].data);
}

/* var of a concatenation: from the parts' means and variances; and the accuracy that is promised, with a mean of 1e6 and a spread of 1. */
static void test_variance(void)
{
        tool_shapes shapes;
        outputs out;
        enum { N = 100000, CUT = 33333 };
        tool_read_shapes("x=1,100000", &shapes);
        float *x = malloc(N * sizeof *x);
        static long double line[N];
        for (int64_t i = 0; i < N; i++) {
                double sum = -6;
                for (uint64_t k = 0; k < 12; k++) /* nearly normal, with a spread of 1 */
                        sum += (double)(hash((uint64_t)i * 12 + k) % 65536) / 65536;
                x[i] = (float)(1e6 + sum);
                line[i] = x[i];
        }
        shapes.tensor[0].data = x;
        if (run_everywhere("var(x, 1), var(x[:, :33333], 1, ddof=0), var(x[:, 33333:], 1, ddof=0), mean(x, 1, dtype=f64)", &shapes, "x=1,100000", &out)) {
                double all = value_at(&out.tensor[0], 0), a = value_at(&out.tensor[1], 0), b = value_at(&out.tensor[2], 0);
                long double right = var_of(line, N, 1), between = mean_of(line, CUT, 0) - mean_of(line + CUT, N - CUT, 0);
                long double joined = ((long double)CUT * a + (long double)(N - CUT) * b + between * between * CUT * (N - CUT) / N) / (N - 1);
                CHECK(is_close(all, right, 1e-7, 0), "var of a mean of 1e6 is %.9g, not %.9Lg", all, right);
                CHECK(is_close(all, joined, 1e-6, 0), "var is %.9g, of the parts %.9Lg", all, joined);
                CHECK(is_close(value_at(&out.tensor[3], 0), mean_of(line, N, 0), 1e-12, 0), "mean is %.12g", value_at(&out.tensor[3], 0));
                checks += 3;
        }
        release(&out);
        free(x);
}

/* Folds whose results go back to the elements they came from, of lines of many lengths: in registers, in shared memory and read again on a GPU. */
static void check_chains(size_t every)
{
        static const char *const expressions[] = {
                "exp(x - max(x, 1, keepdim=True)) / sum(exp(x - max(x, 1, keepdim=True)), 1, keepdim=True)",
                "(x - mean(x, 1, keepdim=True)) / sqrt(mean(square(x - mean(x, 1, keepdim=True)), 1, keepdim=True) + 0.5) * w + b",
                "x / sqrt(sum(square(x), 1, keepdim=True))",
                "where(m, exp(x - max(x, 1, keepdim=True, mask=m)), 0) / sum(exp(x - max(x, 1, keepdim=True, mask=m)), 1, keepdim=True, mask=m)",
                "x - logsumexp(x, 1, keepdim=True)",
                "y * (x - sum(x * y, 1, keepdim=True)), sum(x * y, 1)",
                "x * (prod(x, 1, keepdim=True) + r), min(x, 1)",
                "(x - max(x, 1, keepdim=True)) * sum(y, 1, keepdim=True)",
                /* the gradients of a layer norm, but for a factor: four folds and a map; two folds that share a read */
                "y * w - mean(y * w, 1, keepdim=True) - (x - mean(x, 1, keepdim=True)) / (mean(square(x - mean(x, 1, keepdim=True)), 1, keepdim=True) + 0.5)"
                " * mean(y * w * (x - mean(x, 1, keepdim=True)) / (mean(square(x - mean(x, 1, keepdim=True)), 1, keepdim=True) + 0.5), 1, keepdim=True),"
                " sum(y * (x - mean(x, 1, keepdim=True)), 0), sum(y, 0)",
                /* folds across lines that read what is wider than all that their chain reads */
                "x - mean(x, 1, keepdim=True), sum(x * z, 0), max(x * v, 0)",
                "x - logsumexp(x, 1, keepdim=True), sum(x, 0)",
                "x * sum(x, 1, keepdim=True) * prod(x, 1, keepdim=True), max(x, 0)", /* totals of one word and of two */
        };
        static const struct {
                int64_t rows, n;
                const char *dtype;
        } sizes[] = {{7, 1, ""}, {9, 5, ""}, {5, 64, ""}, {3, 100, ":f16"}, {4, 257, ""}, {5, 256, ":bf16"}, {3, 1000, ""}, {2, 1001, ":f64"}, {6, 512, ":f64"},
                     {3, 4099, ""}, {2, 5000, ":f16"}, {2, 9216, ""}, {11, 96, ":i32"}, {37, 256, ""}, {19, 512, ""}, {22, 200, ":bf16"}, {25, 48, ":f64"}};
        for (size_t e = 0; e < sizeof expressions / sizeof *expressions; e++)
                for (size_t k = e % every; k < sizeof sizes / sizeof *sizes; k += every) {
                        char line[240];
                        const int r = (int)sizes[k].rows, n = (int)sizes[k].n;
                        const char *t = sizes[k].dtype;
                        if (strstr(t, "i32") && strstr(expressions[e], "mean"))
                                continue; /* refused */
                        tool_shapes shapes;
                        outputs out;
                        snprintf(line, sizeof line, "x=%d,%d%s y=%d,%d%s m=%d,%d:bool w=%d%s b=%d%s r=%d,1%s z=%d,%d:f64 v=%d:f64", r, n, t, r, n, t, r, n, n, t, n, t, r, t, r, n,
                                 n);
                        tool_read_shapes(line, &shapes);
                        for (int i = 0; i < shapes.count; i++)
                                fill_tensor(&shapes.tensor[i], e == 6 ? 'p' : 'n');
                        if (run_everywhere(expressions[e], &shapes, line, &out))
                                release(&out);
                        for (int i = 0; i < shapes.count; i++)
                                free(shapes.tensor[i].data);
                }
}

/* The same of short lines that begin at odd addresses, one after another or apart, with several in a warp of a GPU and with several warps for each; of every
 * size of elements, with results as large or not. */
static void check_short_chains(size_t every)
{
        static const struct {
                const char *expression, *shapes;
        } lines[] = {
#define SOFTMAX(x) "exp(" x " - max(" x ", 2, keepdim=True)) / sum(exp(" x " - max(" x ", 2, keepdim=True)), 2, keepdim=True)"
#define NORM(x) "(" x " - mean(" x ", 2, keepdim=True)) / sqrt(mean(square(" x " - mean(" x ", 2, keepdim=True)), 2, keepdim=True) + 0.5)"
                {SOFTMAX("x[1:]"), "x=3,7,35"}, {SOFTMAX("x[1:]"), "x=3,5,35:bf16"}, {SOFTMAX("x[1:]"), "x=3,7,33:f64"}, {SOFTMAX("x[:, :, 1:]"), "x=2,5,36"},
                {SOFTMAX("x[1:]"), "x=2,11,7"}, {SOFTMAX("x[1:]"), "x=2,40,3:f16"}, {SOFTMAX("x[1:]"), "x=2,5,333"}, {SOFTMAX("x[1:]"), "x=3,2,1001"}, {SOFTMAX("x[:, :, 3:]"), "x=2,2,700"},
                {SOFTMAX("x[1:]"), "x=3,5,513:bf16"}, {SOFTMAX("x[1:]"), "x=2,7,130"}, {SOFTMAX("x[1:]"), "x=3,5,64"}, {SOFTMAX("x[:, :, 4:]"), "x=1,5,70"}, {SOFTMAX("x[1:]"), "x=3,5,128:f16"},
                {SOFTMAX("x[1:]"), "x=2,7,1"}, {SOFTMAX("x[1:]"), "x=2,9,2"}, {SOFTMAX("x[1:]"), "x=2,5,31:bf16"}, {SOFTMAX("x[1:]"), "x=2,5,100:f16"}, {SOFTMAX("x[1:]"), "x=2,2,4097"},
                {NORM("x[1:]") " * w + b", "x=3,7,65 w=65 b=65"}, {NORM("x[1:]") " * w + b", "x=2,2,777 w=777 b=777"}, {NORM("x[:, 1:, 2:]") " * w", "x=2,5,203:bf16 w=201:bf16"},
                {NORM("x[1:]") " * w + b", "x=2,8,64 w=64 b=64"}, {NORM("x[1:]") " * w", "x=3,5,100:f16 w=100:f16"}, {NORM("x[1:]") " * w + b", "x=3,7,37:f64 w=37:f64 b=37:f64"},
                {"where(m[1:], exp(x[1:] - max(x[1:], 2, keepdim=True, mask=m[1:])), 0) / sum(exp(x[1:] - max(x[1:], 2, keepdim=True, mask=m[1:])), 2, keepdim=True, mask=m[1:])",
                 "x=3,7,51 m=3,7,51:bool"},
                {"where(m[1:], exp(x[1:] - max(x[1:], 2, keepdim=True, mask=m[1:])), 0) / sum(exp(x[1:] - max(x[1:], 2, keepdim=True, mask=m[1:])), 2, keepdim=True, mask=m[1:])",
                 "x=3,2,601:bf16 m=3,2,601:bool"},
                {"y[1:] * (x[1:] - sum(x[1:] * y[1:], 2, keepdim=True)), sum(x[1:] * y[1:], 2)", "x=3,5,99 y=3,5,99"},
                {"y[1:] * (x[1:] - sum(x[1:] * y[1:], 2, keepdim=True)), sum(x[1:] * y[1:], 2)", "x=3,2,301:f16 y=3,2,301:f16"},
                {"x[1:] - logsumexp(x[1:], 2, keepdim=True)", "x=3,7,77"}, {"x[1:] - logsumexp(x[1:], 2, keepdim=True)", "x=2,2,901"}, {"x[1:] * prod(x[1:], 2, keepdim=True), min(x[1:], 2)", "x=2,7,21"},
                {"x[1:] * sum(x[1:], 2, keepdim=True)", "x=3,7,61:i8"}, {"(x[1:] - max(x[1:], 2, keepdim=True)) * sum(x[1:], 2, keepdim=True)", "x=3,2,411:i64"},
                {"x[1:] * sum(x[1:], 2, keepdim=True)", "x=2,2,999:u8"}, {"cast(x[1:] - mean(x[1:], 2, keepdim=True), f64)", "x=3,7,45"}, {"cast(x[1:] - mean(x[1:], 2, keepdim=True), f16)", "x=3,2,401:f64"},
        };
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k += every) {
                char line[240];
                tool_shapes shapes;
                outputs out;
                snprintf(line, sizeof line, "%s", lines[k].shapes);
                tool_read_shapes(line, &shapes);
                for (int i = 0; i < shapes.count; i++)
                        fill_tensor(&shapes.tensor[i], k % 7 == 3 ? 's' : 'n');
                if (run_everywhere(lines[k].expression, &shapes, line, &out))
                        release(&out);
                for (int i = 0; i < shapes.count; i++)
                        free(shapes.tensor[i].data);
        }
}

/* Long lines, one and three of them: threads share a line, and totals of its parts are combined. A
 * last step, of every fold, rounds to the type of the results: halves have means in a wider one. */
static void check_long(size_t every)
{
        static const int64_t lengths[] = {1000, 4096, 65536, 65537, 131072, 196608, 400003};
        static const char *const expressions[] = {
                "var(x, 1)",
                "mean(x, 1)",
                "std(x, 1), norm(x, axis=1), norm(x, inf, 1), logsumexp(x, 1)",
                "argmax(x, 1), nansum(x, 1), nanmean(x, 1), norm(x, 1, 1)",
        };
        static const char *const dtypes[] = {"f32", "f64", "f16", "bf16"};
        enum { LENGTHS = sizeof lengths / sizeof *lengths };
        for (size_t k = 0; k < 4 * 4 * 2 * LENGTHS; k += every) {
                char line[64];
                tool_shapes shapes;
                outputs out;
                snprintf(line, sizeof line, "x=%d,%lld:%s", k / LENGTHS % 2 ? 3 : 1,
                         (long long)lengths[k % LENGTHS], dtypes[k / LENGTHS / 2 % 4]);
                tool_read_shapes(line, &shapes);
                fill_tensor(&shapes.tensor[0], k / LENGTHS / 8 == 3 ? 's' : 'n');
                if (run_everywhere(expressions[k / LENGTHS / 8], &shapes, line, &out))
                        release(&out);
                free(shapes.tensor[0].data);
        }
}

/* Extremes with their positions, of which each is found by way of the other: long and short lines,
 * shared ones, columns, few columns. */
static void check_positions(size_t every)
{
        static const char *const shapes_of[] = {"3,1000", "1,400003", "5,20000", "2,70001", "400,64", "3000,5", "600,200", "9000,8", "4,30,70"};
        static const char *const dtypes[] = {"f32", "u8", "i8", "bf16", "bool", "i16", "f64", "i32", "u64", "f16"};
        static const char *const expressions[] = {
                "argmax(x, %d), argmin(x, %d)",
                "argmin(flip(x, %d), %d)",
                "max(x, %d), argmax(x, %d)",
                "min(flip(x, %d), %d), argmin(flip(x, %d), %d)",
                "cummax(x, %d), cumargmax(x, %d)",
                "cummin(x, %d), cumargmin(x, %d)",
                "cummax(x, %d, reverse=True), cumargmax(x, %d, reverse=True)",
                "cummin(flip(x, %d), %d), cumargmin(flip(x, %d), %d)",
                "cummax(x, %d), cummin(x, %d), cumargmax(x, %d), cumargmin(x, %d)", /* two scans of numbers in one walk */
        };
        enum { SHAPES = sizeof shapes_of / sizeof *shapes_of, DTYPES = sizeof dtypes / sizeof *dtypes, EXPRESSIONS = sizeof expressions / sizeof *expressions };
        for (size_t k = 0; k < SHAPES * DTYPES * EXPRESSIONS; k += every) {
                char line[64], text[128];
                tool_shapes shapes;
                outputs out;
                const int axis = k / SHAPES / DTYPES % 2 ? 1 : k % SHAPES >= SHAPES - 3 ? 0 : 1;
                snprintf(line, sizeof line, "x=%s:%s", shapes_of[k % SHAPES], dtypes[k / SHAPES % DTYPES]);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                snprintf(text, sizeof text, expressions[k / SHAPES / DTYPES], axis, axis, axis, axis);
#pragma GCC diagnostic pop
                tool_read_shapes(line, &shapes);
                fill_tensor(&shapes.tensor[0], "nsd"[k % 3]);
                if (run_everywhere(text, &shapes, line, &out))
                        release(&out);
                free(shapes.tensor[0].data);
        }
}

/* exp and its like of every half there is, and of as many f32 and f64 of all magnitudes: the same bits everywhere. */
static void check_functions(void)
{
        static const char *const lines[] = {"x=65536:f16", "x=65536:bf16", "x=65536", "x=65536:f64"};
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
                tool_shapes shapes;
                outputs out;
                tool_read_shapes(lines[k], &shapes);
                sf_tensor *x = &shapes.tensor[0];
                const size_t size = x->dtype.bits / 8u;
                x->data = malloc((size_t)65536 * size);
                for (uint64_t i = 0; i < 65536; i++) {
                        /* Odd ones from the range in which most happens, to 32 and to 1024. */
                        const uint64_t single = i % 2 ? (hash(i) & 0x87ffffff) + 0x3a000000 : i << 16 | (hash(i) & 0xffff);
                        const uint64_t wide = i % 2 ? (hash(i) & 0x80ffffffffffffff) + 0x3f90000000000000 : i << 48 | hash(i) >> 16;
                        const uint64_t bits = size == 2 ? i : size == 4 ? single : wide;
                        memcpy((char *)x->data + i * size, &bits, size);
                }
                if (run_everywhere("exp(x), log(x), sigmoid(x), tanh(x)", &shapes, lines[k], &out))
                        release(&out);
                free(x->data);
        }
}

/* f64 rounded to halves once, not by way of f32: on, just above and just below what is halfway between two of them, subnormal ones too. */
static void check_halves(void)
{
        tool_shapes shapes;
        outputs out;
        tool_read_shapes("x=65536:f64", &shapes);
        uint64_t *x = shapes.tensor[0].data = malloc(65536 * sizeof *x);
        for (uint64_t i = 0; i < 65536; i++) {
                const uint64_t r = hash(i), range = i % 2 ? 45 : 300, exponent = 1023 - range + r % (2 * range);
                x[i] = (r >> 63 << 63 | exponent << 52 | (r >> 20 & 0xfff) << 40) + r / 1000 % 3 - 1;
        }
        if (run_everywhere("(x * 1).astype(f16), (x * 1).astype(bf16)", &shapes, "x=65536:f64", &out))
                release(&out);
        free(x);
}

/* How many reads of a large x each of them takes, at most: where a pass follows another line by line, its read is none. */
static void test_reads(void)
{
        static const struct {
                const char *expression;
                double reads;
        } list[] = {
                {"mean(x, 1)", 1}, {"var(x, 1)", 1}, {"std(x, 0)", 1}, {"var_mean(x, 1)", 1}, {"std_mean(x)", 1}, {"norm(x, axis=1)", 1},
                {"norm(x, 3)", 1}, {"any(x, 1), all(x, 1)", 1}, {"nansum(x, 1)", 1}, {"nanmax(x, 1)", 1}, {"nanmean(x, 1)", 1}, {"count_nonzero(x, 1), any(x, 1)", 1},
                {"nanvar(x, 1)", 2}, {"var(x, 1, mask=x > 0)", 2}, {"cummean(x, 1)", 1},
        };
        for (size_t i = 0; i < sizeof list / sizeof *list; i++, checks++) {
                char bytes[32];
                sf_plan *plan = tool_plan(NULL, list[i].expression, "x=1000,2000", false);
                CHECK(plan, "%s: %s", list[i].expression, sf_last_error(NULL));
                if (!plan)
                        continue;
                char *json = tool_json(plan);
                tool_field(strstr(json, "\"after\": {"), "bytes_read", bytes, sizeof bytes);
                double reads = atof(bytes) / 8e6;
                CHECK(reads > 0.95 && reads < list[i].reads + 0.05, "%s reads x %.2f times, not %g", list[i].expression, reads, list[i].reads);
                free(json);
                sf_plan_destroy(plan);
        }
}

/* With a number, one in so many of the formulas; with a second one, of the laws, and of the rest the functions alone; with a third one, of the chains. */
int main(int argc, char **argv)
{
        size_t every = argc > 1 ? (size_t)atol(argv[1]) : 1, laws_every = argc > 2 ? (size_t)atol(argv[2]) : 1;
        engines_open();
        test_formulas(every);
        check_functions();
        check_halves();
        const size_t chains_every = argc > 3 ? (size_t)atol(argv[3]) : 1;
        check_chains(chains_every);
        check_short_chains(argc > 4 ? (size_t)atol(argv[4]) : chains_every);
        check_long(5 * laws_every);
        check_positions(7 * laws_every);
        for (size_t i = 0; i < sizeof laws / sizeof *laws; i += laws_every)
                check_law(laws[i]);
        if (laws_every == 1) {
                test_variance();
                test_reads();
        }
        engines_close();
        return finish("test_derived", checks);
}
