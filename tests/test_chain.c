/*
 * Folds whose results go back to their elements: softmax, norms and what else is a chain of passes over the same lines. Every engine has the
 * reference's bits, on lines in boxes and alone, in rows and in columns; what the functions are made of, written out, has the same
 * bits; and laws hold that do not know how they are computed.
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

/* Reals around 0, bools that are mostly true. Lines of a mask are sometimes all false; s has NaN and infinities now and then. */
static double fill_value(const char *name, int dt, int64_t line, int64_t i)
{
        const uint64_t drawn = hash((uint64_t)(line * 104729 + i + name[0] * 31));
        if (dt == DT_BOOL)
                return line % 5 != 1 && drawn % 4 != 0;
        if (dts[dt].kind != 'r')
                return (double)(drawn % 7);
        if (name[0] == 's' && line % 3 == 1 && drawn % 64 == 0)
                return drawn % 3 ? -INFINITY : drawn % 2 ? NAN : INFINITY;
        if (name[0] == 's' && line % 7 == 2)
                return -INFINITY;
        return ((double)(drawn % 65536) / 65536 - 0.5) * 8;
}

static void fill_tensor(const char *name, sf_tensor *t)
{
        const int dt = tool_dt(t->dtype);
        const int64_t count = tool_count(t), n = t->ndim ? t->shape[t->ndim - 1] : 1;
        t->data = calloc((size_t)count + 1, (size_t)dts[dt].size);
        for (int64_t i = 0; i < count; i++)
                array_set(&(array){.dt = dt, .data = t->data}, i, fill_value(name, dt, n ? i / n : 0, n ? i % n : 0));
}

static void fill_all(const char *line, tool_shapes *shapes)
{
        tool_read_shapes(line, shapes);
        for (int k = 0; k < shapes->count; k++)
                fill_tensor(shapes->name[k], &shapes->tensor[k]);
}

static void free_all(tool_shapes *shapes)
{
        for (int k = 0; k < shapes->count; k++)
                free(shapes->tensor[k].data);
}

enum { OUTPUTS = 5, PAD = 3 };

typedef struct outputs {
        int32_t count;
        sf_tensor tensor[OUTPUTS];
        int64_t shape[OUTPUTS][SF_MAX_NDIM], strides[OUTPUTS][SF_MAX_NDIM];
} outputs;

static double value_at(const sf_tensor *t, int64_t i)
{
        return array_get(&(array){.dt = tool_dt(t->dtype), .data = t->data}, i);
}

/* With `apart`, the last axis of every output has a few elements between its lines, in which nothing may be written. */
static void make_output(sf_plan *plan, int32_t k, bool apart, outputs *out)
{
        if (k >= OUTPUTS)
                abort();
        sf_tensor *t = &out->tensor[k];
        *t = (sf_tensor){.device = {SF_CPU, 0}, .shape = out->shape[k]};
        sf_plan_output(plan, k, &t->ndim, out->shape[k], &t->dtype);
        int64_t step = 1;
        for (int32_t d = t->ndim - 1; d >= 0 && d < SF_MAX_NDIM; d--) {
                out->strides[k][d] = step;
                step *= t->shape[d];
                step += apart && d == t->ndim - 1 ? PAD : 0;
        }
        t->strides = apart ? out->strides[k] : NULL;
        t->data = calloc((size_t)step + 1, t->dtype.bits / 8u);
}

/* What was written apart, back to back. */
static void close_up(sf_tensor *t)
{
        const int64_t n = t->ndim ? t->shape[t->ndim - 1] : 1, lines = n ? tool_count(t) / n : 0;
        const size_t size = t->dtype.bits / 8u;
        char *data = t->data;
        for (int64_t l = 0; t->strides && l < lines; l++) {
                for (size_t i = 0; l + 1 < lines && i < PAD * size; i++)
                        CHECK(!data[(size_t)(l * (n + PAD) + n) * size + i], "something was written beside line %lld", (long long)l);
                memmove(data + (size_t)(l * n) * size, data + (size_t)(l * (n + PAD)) * size, (size_t)n * size);
        }
        t->strides = NULL;
}

static bool run(sf_context *ctx, const char *expression, const tool_shapes *shapes, bool apart, outputs *out)
{
        sf_graph *graph;
        sf_plan *plan = NULL;
        sf_tensor in[TOOL_INPUTS];
        out->count = 0;
        if (sf_graph_parse(ctx, expression, &graph) == SF_OK) {
                tool_order(graph, shapes, in);
                sf_plan_create(ctx, graph, sf_graph_inputs(graph), in, NULL, &plan);
                sf_graph_destroy(graph);
        }
        CHECK(plan, "%s: %s", expression, sf_last_error(ctx));
        if (!plan)
                return false;
        out->count = sf_plan_outputs(plan);
        for (int32_t k = 0; k < out->count; k++)
                make_output(plan, k, apart, out);
        CHECK(sf_plan_run(plan, in, out->tensor, NULL) == SF_OK, "%s: %s", expression, sf_last_error(ctx));
        for (int32_t k = 0; k < out->count; k++)
                close_up(&out->tensor[k]);
        sf_plan_destroy(plan);
        return true;
}

static void release(outputs *out)
{
        for (int32_t k = 0; k < out->count; k++)
                free(out->tensor[k].data);
}

static void compare(const char *what, const char *on, const outputs *mine, const outputs *right)
{
        CHECK(mine->count == right->count, "%s on %s: %d outputs, not %d", what, on, (int)mine->count, (int)right->count);
        for (int32_t k = 0; k < mine->count; k++) {
                const sf_tensor *a = &mine->tensor[k], *b = &right->tensor[k];
                const int dt = tool_dt(a->dtype);
                const size_t size = (size_t)dts[dt].size;
                int64_t at = 0;
                while (at < tool_count(a) && same_bits(dt, (char *)a->data + (size_t)at * size, (char *)b->data + (size_t)at * size))
                        at++;
                CHECK(at == tool_count(b), "%s on %s, output %d: element %lld is %.9g, not %.9g", what, on, (int)k, (long long)at, value_at(a, at),
                      value_at(b, at));
        }
        checks++;
}

/* ------------------------------------------------------------------------------------------------
 * The reference's bits
 * ---------------------------------------------------------------------------------------------- */
#define BY "(1 / max(abs(x), 1, keepdim=True))"
#define GRADIENT(v, d, shift) BY " * (" v shift " - " d " * " BY " * mean(" v " * (" d " * " BY "), 1, keepdim=True)), sum(g * (" d " * " BY "), 0), sum(g, 0)"

static const struct {
        const char *expression, *shapes;
} chains[] = {
        /* Rows: that fit many to a box, few, one; a last box that is smaller; not of whole vectors. */
        {"softmax(x, 1)", "x=700,300"},
        {"softmax(x, 1)", "x=37,8000"},
        {"softmax(x, 1)", "x=3,100003"},
        {"softmax(x, 1)", "x=40001,7"},
        {"log_softmax(x, -1)", "x=513,515"},
        {"softmax(s, 1), log_softmax(s, 1)", "s=600,401"},
        {"layer_norm(x, 1, w, b)", "x=700,300 w=300 b=300"},
        {"layer_norm(x, 1, w, b, 0.25)", "x=33,9001 w=1,9001 b=33,1"},
        {"rms_norm(x, 1, w)", "x=700,300 w=300"},
        {"normalize(x)", "x=900,301"},
        {"normalize(x, 1, 1)", "x=901,300"},
        {"normalize(x, 3, 1)", "x=301,700"},
        {"normalize(x, inf, 1)", "x=301,700"},
        {"standardize(x, 1)", "x=301,700"},
        {"standardize(x, 1, correction=0)", "x=301,700"},
        /* Columns, and both. */
        {"softmax(x, 0)", "x=300,700"},
        {"softmax(x, 0)", "x=5000,67"},
        {"softmax(x, 0)", "x=2000,900"},
        {"layer_norm(x, 1, w, b)", "x=3,1000,300 w=1000 b=1000"},
        {"softmax(x, 0)", "x=100000,3"},
        {"layer_norm(x, 0, w, b)", "x=301,1003 w=301 b=301"},
        {"rms_norm(x, 1, w)", "x=5,64,700 w=64"},
        {"softmax(x, 1)", "x=5,64,700"},
        {"softmax(x, (0, 2))", "x=17,31,499"},
        {"layer_norm(x, (1, 2), w, b)", "x=9,170,180 w=170,180 b=1,170,1"},
        {"layer_norm(x, (0, 1))", "x=30,50,180"},
        {"normalize(x.T, 2, 0)", "x=700,400"},
        {"softmax(x[::-1, ::2], 1)", "x=500,1200"},
        {"softmax(x, 1, reverse=True)", "x=500,600"},
        {"layer_norm(flip(x, 1), 1, w)", "x=500,600 w=600"},
        /* Masks. */
        {"softmax(x, 1, mask=m)", "x=400,700 m=400,700:bool"},
        {"softmax(x, 1, mask=m)", "x=400,700 m=700:bool"},
        {"log_softmax(x, 0, mask=m)", "x=400,700 m=400,700:bool"},
        {"layer_norm(x, 1, w, b, mask=m)", "x=400,700 m=400,700:bool w=700 b=700"},
        {"rms_norm(x, 1, w, mask=m)", "x=400,700 m=400,700:bool w=700"},
        {"normalize(x, 2, 1, mask=m), standardize(x, 1, mask=m)", "x=400,700 m=400,700:bool"},
        {"softmax(s, 1, skip_nan=True)", "s=400,700"},
        /* Types. */
        {"softmax(x, 1), layer_norm(x, 1, w)", "x=500,600:f16 w=600:f16"},
        {"softmax(x, 1), rms_norm(x, 1, w)", "x=500,600:bf16 w=600:f32"},
        {"softmax(x, 1), log_softmax(x, 1), normalize(x)", "x=250,600:f64"},
        {"softmax(x, 1, dtype=f32)", "x=500,600:i32"},
        {"layer_norm(x, 1, acc=f64)", "x=500,600"},
        /* As people write them: several outputs, small results that are wanted too, scans at the end, steps on the way. */
        {"exp(x - max(x, 1, keepdim=True)), sum(exp(x - max(x, 1, keepdim=True)), 1)", "x=500,600"},
        {"x - mean(x, 1, keepdim=True), mean(x, 1), x / max(abs(x), 1, keepdim=True)", "x=500,600"},
        {"(x - mean(x, 1, keepdim=True)) / sqrt(var(x, 1, keepdim=True) + 1e-5)", "x=500,600"},
        {"(x - mean(x, 0, keepdim=True)) / (std(x, 0, keepdim=True) + 1)", "x=500,600"},
        {"cumsum(x / sum(abs(x), 1, keepdim=True), 1)", "x=500,600"},
        {"cumsum(exp(x - max(x, 0, keepdim=True)), 0)", "x=500,600"},
        {"y * (g - sum(g * y, 1, keepdim=True))", "y=500,600 g=500,600"},
        {"where(m, x - max(x, 1, keepdim=True, mask=m), 0)", "x=500,600 m=500,600:bool"},
        {"x * w / sum(w, 1, keepdim=True)", "x=500,600 w=500,600"},
        {"x / sum(x, 1, keepdim=True) + y / sum(y, 1, keepdim=True)", "x=500,600 y=500,600"},
        {"x == max(x, 1, keepdim=True), argmax(x, 1)", "x=500,600"},
        /* One loop (sf_affine), or nearly: centres, scales, weights and biases in every order, and not where they are expected. */
        {"layer_norm(x, 1, w, b), rms_norm(x, 1, w)", "x=250,601:f64 w=601:f64 b=601:f64"},
        {"b + w * ((x - mean(x, 1, keepdim=True)) * max(x, 1, keepdim=True))", "x=300,601 w=300,601 b=601"},
        {"x * (1 / max(abs(x), 1, keepdim=True)) + b", "x=300,601 b=300,601"},
        {"(1 / max(abs(x), 1, keepdim=True)) * x * w", "x=300,601 w=601"},
        {"x - max(x, 1, keepdim=True) - min(x, 1, keepdim=True), min(x, 1, keepdim=True) - x", "x=300,601"},
        {"(x - mean(x, 1, keepdim=True)) / max(x, 1, keepdim=True), max(x, 1, keepdim=True) / x", "x=300,601"},
        {"(x - mean(x, 1, keepdim=True)) * w + b", "x=300,601 w=300,1 b=300,1"},
        {"(x - y) * max(x, 1, keepdim=True) * w + b", "x=300,601 y=300,601 w=601 b=601"},
        {"(x - mean(x, 1, keepdim=True)) * max(x, 1, keepdim=True) * w - b", "x=300,601 w=601 b=601"},
        /* Gradients of norms, or nearly. */
        {GRADIENT("(g * w)", "(x - mean(x, 1, keepdim=True))", "- mean(g * w, 1, keepdim=True)"), "x=300,601 g=300,601 w=601"},
        {GRADIENT("(g * w)", "(x - mean(x, 1, keepdim=True))", "- mean(g * w, 1, keepdim=True)"), "x=250,601:f64 g=250,601:f64 w=1,601:f64"},
        {GRADIENT("(g * w)", "(x - mean(x, 1, keepdim=True))", "- mean(g * w, 1, keepdim=True)"), "x=300,601:bf16 g=300,601:bf16 w=601:bf16"},
        {GRADIENT("(g * w)", "(x - mean(x, 1, keepdim=True))", "- mean(g * w, 1, keepdim=True)"), "x=300,601 g=300,601 w=300,1"},
        {GRADIENT("g", "(x - mean(x, 1, keepdim=True))", "- mean(g, 1, keepdim=True)"), "x=3000,101 g=3000,101"},
        {GRADIENT("(g * w)", "x", ""), "x=50,9001 g=50,9001 w=9001"},
        {GRADIENT("g", "x", ""), "x=250,601:f64 g=250,601:f64"},
        {GRADIENT("(g * w)", "(x - mean(x, 1, keepdim=True))", ""), "x=300,601 g=300,601 w=601"},
        {GRADIENT("(g * w)", "x", "- mean(g * w, 1, keepdim=True)"), "x=300,601 g=300,601 w=601"},
        /* Folds across the lines: boxes of a few lines and of many, and lines that are one dimension or two, in either direction. */
        {"x - mean(x, 1, keepdim=True), sum(x, 0), sum(abs(x), 0) / 3 + 1", "x=1025,700"},
        {"x - mean(x, 1, keepdim=True), max(x, 0), min(x * mean(x, 1, keepdim=True), 0)", "x=4100,300"},
        {"x - mean(x, 1, keepdim=True), sum(x, 0, initial=2).astype(bf16)", "x=37,20001:bf16"},
        {"x / sum(x, 1, keepdim=True), sum(x, 0), prod(x, 0)", "x=70,5001"},
        {"x / sum(x, 1, keepdim=True), prod(exp(x * 20), 0)", "x=70,5001"}, /* parts of a product leave the range */
        {"x - mean(x, 2, keepdim=True), sum(x * 2, (0, 1)), sum(x, 1)", "x=30,50,180"},
        {"x - mean(x, 2, keepdim=True), sum(x * mean(x, 2, keepdim=True), (0, 1))", "x=30,50,180"},
        {"x[::-1] - mean(x[::-1], 1, keepdim=True), sum(x[::-1], 0), sum(x, 0)", "x=1025,700"},
        {"x - mean(x, 1, keepdim=True), sum(x, 0, reverse=True)", "x=1025,700"},
        {"x - mean(x, 1, keepdim=True), sum(x, 0), sum(x, 0, mask=m)", "x=1025,700 m=1025,700:bool"},
        {"x - mean(x, 1, keepdim=True), sum(x, 0)", "x=100000,7"},
        {"x - max(x, 1, keepdim=True), sum(x, 0)", "x=1025,700:i32"},
        {"x - mean(x, 0, keepdim=True), sum(x, 1)", "x=700,1025"},
};

static void test_bits(size_t every)
{
        for (size_t c = 0; c < sizeof chains / sizeof chains[0]; c += every) {
                tool_shapes shapes;
                outputs right, mine;
                fill_all(chains[c].shapes, &shapes);
                if (run(REF, chains[c].expression, &shapes, false, &right)) {
                        for (int e = 1; e < engine_count; e++) {
                                char what[256];
                                snprintf(what, sizeof what, "%s of %s", chains[c].expression, chains[c].shapes);
                                if (!run(engines[e].ctx, chains[c].expression, &shapes, e % 2, &mine))
                                        continue;
                                compare(what, engines[e].name, &mine, &right);
                                release(&mine);
                        }
                        release(&right);
                }
                free_all(&shapes);
        }
}

/* ------------------------------------------------------------------------------------------------
 * The functions written out
 * ---------------------------------------------------------------------------------------------- */
static const struct {
        const char *expression, *written, *shapes;
} same[] = {
        {"softmax(x, 1)", "exp(x - max(x, 1, keepdim=True)) / sum(exp(x - max(x, 1, keepdim=True)), 1, keepdim=True)", "x=60,800"},
        {"log_softmax(x, 0)", "(x - max(x, 0, keepdim=True)) - log(sum(exp(x - max(x, 0, keepdim=True)), 0, keepdim=True))", "x=60,800"},
        {"layer_norm(x, 1, w, b, 0.5)",
         "(x - mean(x, 1, keepdim=True)) * (1 / sqrt(mean(square(x - mean(x, 1, keepdim=True)), 1, keepdim=True) + 0.5)) * w + b", "x=60,800 w=800 b=800"},
        {"rms_norm(x, 1, w, 0.5)", "x * (1 / sqrt(mean(square(x), 1, keepdim=True) + 0.5)) * w", "x=60,800 w=800"},
        {"normalize(x, 2, 1, 0.5)", "x / maximum(norm(x, 2, 1, keepdim=True), 0.5)", "x=60,800"},
        {"normalize(x, 3, 1)", "x / maximum(norm(x, 3, 1, keepdim=True), 1e-12)", "x=60,800"},
        {"standardize(x, 1, correction=2)", "(x - mean(x, 1, keepdim=True)) / sqrt(sum(square(x - mean(x, 1, keepdim=True)), 1, keepdim=True) / 798)",
         "x=60,800"},
        {"softmax(x, 1, mask=m)",
         "where(m, exp(x - max(x, 1, keepdim=True, mask=m)) / sum(exp(x - max(x, 1, keepdim=True, mask=m)), 1, keepdim=True, mask=m), 0)",
         "x=60,800 m=60,800:bool"},
        {"softmax(x, 1)",
         "(exp(float(x) - max(float(x), 1, keepdim=True)) / sum(exp(float(x) - max(float(x), 1, keepdim=True)), 1, keepdim=True)).astype(f16)",
         "x=60,800:f16"},
};

static void test_written_out(int first)
{
        for (size_t c = 0; c < sizeof same / sizeof same[0]; c++) {
                tool_shapes shapes;
                fill_all(same[c].shapes, &shapes);
                for (int e = first; e < engine_count; e++) {
                        outputs a, b;
                        bool good = run(engines[e].ctx, same[c].expression, &shapes, false, &a);
                        good = run(engines[e].ctx, same[c].written, &shapes, false, &b) && good;
                        if (good)
                                compare(same[c].expression, engines[e].name, &a, &b);
                        release(&a);
                        release(&b);
                }
                free_all(&shapes);
        }
}

/* ------------------------------------------------------------------------------------------------
 * Laws
 * ---------------------------------------------------------------------------------------------- */

/*
 * The sum of n positive terms in the order is within log2(n) roundings, rounded up, of its value, and every quotient is rounded once: so a
 * line of softmax adds up to 1 within (log2(n) + 1) 2^-24, and a little for terms of second order. Values that are multiples of 1/64
 * stay exact when 1024 is added, and differences to the largest do not change by it: nor does one bit of the result.
 */
static void test_softmax_laws(int first)
{
        static const char *const lines[] = {"x=60,1000", "x=2,70000", "x=9000,5"};
        for (size_t c = 0; c < sizeof lines / sizeof lines[0]; c++) {
                tool_shapes shapes;
                fill_all(lines[c], &shapes);
                const int64_t n = shapes.shape[0][1], count = tool_count(&shapes.tensor[0]);
                float *x = shapes.tensor[0].data;
                for (int64_t i = 0; i < count; i++)
                        x[i] = roundf(x[i] * 64) / 64;
                for (int e = first; e < engine_count; e++) {
                        outputs plain, shifted;
                        if (!run(engines[e].ctx, "softmax(x, 1)", &shapes, false, &plain))
                                continue;
                        const float *y = plain.tensor[0].data;
                        for (int64_t l = 0; l < count / n; l++) {
                                double sum = 0;
                                for (int64_t i = 0; i < n; i++)
                                        sum += y[l * n + i];
                                CHECK(fabs(sum - 1) <= (ceil(log2((double)n)) + 1) * 0x1.01p-24, "%s on %s: line %lld adds up to %.9g", lines[c],
                                      engines[e].name, (long long)l, sum);
                        }
                        if (run(engines[e].ctx, "softmax(x + 1024, 1)", &shapes, false, &shifted))
                                compare("softmax(x + 1024)", engines[e].name, &shifted, &plain);
                        release(&plain);
                        release(&shifted);
                }
                free_all(&shapes);
        }
}

/* Against the formulas in double: of n values with a variance around 5, what f32 loses is some units of the largest. */
static void test_norm_values(void)
{
        tool_shapes shapes;
        outputs out;
        fill_all("x=10,3000", &shapes);
        const float *x = shapes.tensor[0].data;
        const int64_t n = shapes.shape[0][1], lines = shapes.shape[0][0];
        if (run(engines[1].ctx, "layer_norm(x), rms_norm(x), normalize(x), standardize(x), log_softmax(x)", &shapes, false, &out))
                for (int64_t l = 0; l < lines; l++) {
                        double sum = 0, squares = 0, around = 0, e = 0;
                        for (int64_t i = 0; i < n; i++) {
                                sum += x[l * n + i];
                                squares += (double)x[l * n + i] * x[l * n + i];
                                e += exp(x[l * n + i]);
                        }
                        for (int64_t i = 0; i < n; i++)
                                around += pow(x[l * n + i] - sum / (double)n, 2);
                        for (int64_t i = 0; i < n; i++, checks++) {
                                const double v = x[l * n + i], d = v - sum / (double)n;
                                const double right[5] = {d / sqrt(around / (double)n + 1e-5), v / sqrt(squares / (double)n + 0x1p-23), v / sqrt(squares),
                                                         d / sqrt(around / (double)(n - 1)), v - log(e)};
                                for (int k = 0; k < 5; k++)
                                        CHECK(fabs(value_at(&out.tensor[k], l * n + i) - right[k]) < 4e-6, "output %d of line %lld: %.9g, not %.9g", k,
                                              (long long)l, value_at(&out.tensor[k], l * n + i), right[k]);
                        }
                }
        release(&out);
        free_all(&shapes);
}

/* ------------------------------------------------------------------------------------------------
 * Unusual lines
 * ---------------------------------------------------------------------------------------------- */
static void check_line(const char *expression, const char *line, const float *x, const char *mask, const float *right)
{
        for (int e = 0; e < engine_count; e++, checks++) {
                tool_shapes shapes;
                outputs out;
                tool_read_shapes(line, &shapes);
                const int64_t n = tool_count(&shapes.tensor[0]);
                for (int k = 0; k < shapes.count; k++)
                        shapes.tensor[k].data = k ? (void *)(uintptr_t)mask : (void *)(uintptr_t)x;
                if (!run(engines[e].ctx, expression, &shapes, false, &out))
                        continue;
                for (int64_t i = 0; i < n; i++) {
                        const double v = value_at(&out.tensor[0], i);
                        CHECK(isnan(right[i]) ? isnan(v) : v == right[i], "%s on %s: element %lld is %g, not %g", expression, engines[e].name, (long long)i,
                              v, (double)right[i]);
                }
                CHECK(tool_count(&out.tensor[0]) == n, "%s on %s: %lld elements", expression, engines[e].name, (long long)tool_count(&out.tensor[0]));
                release(&out);
        }
}

static void test_unusual_lines(void)
{
        const float n = NAN, i = INFINITY;
        check_line("softmax(x, 1)", "x=3,2", (float[]){-i, -i, 0, -i, n, 1}, NULL, (float[]){n, n, 1, 0, n, n});
        check_line("softmax(x, 1)", "x=1,2", (float[]){i, 1}, NULL, (float[]){n, n});
        check_line("log_softmax(x, 1)", "x=2,2", (float[]){-i, -i, 0, -i}, NULL, (float[]){n, n, 0, -i});
        check_line("softmax(x, 1, mask=m)", "x=2,2 m=2,2:bool", (float[]){n, i, 3, n}, (char[]){0, 0, 1, 0}, (float[]){0, 0, 1, 0});
        check_line("layer_norm(x, 1, mask=m)", "x=2,2 m=2,2:bool", (float[]){n, i, 3, n}, (char[]){0, 0, 1, 0}, (float[]){0, 0, 0, 0});
        check_line("normalize(x, 2, 1, mask=m)", "x=2,2 m=2,2:bool", (float[]){n, i, 3, n}, (char[]){0, 0, 1, 0}, (float[]){0, 0, 1, 0});
        check_line("normalize(x)", "x=2,2", (float[]){0, 0, 0, -4}, NULL, (float[]){0, 0, 0, -1});
        check_line("layer_norm(x)", "x=2,1", (float[]){5, n}, NULL, (float[]){0, n});
        check_line("standardize(x)", "x=1,2", (float[]){5, 5}, NULL, (float[]){n, n});
        check_line("softmax(x, 1)", "x=3,0", (float[]){0}, NULL, NULL);
        check_line("layer_norm(x, 0)", "x=0,3", (float[]){0}, NULL, NULL);
        check_line("softmax(x, 0)", "x=1", (float[]){7}, NULL, (float[]){1});
}

/* ------------------------------------------------------------------------------------------------
 * Refusals and their sentences
 * ---------------------------------------------------------------------------------------------- */
static void test_refusals(void)
{
        static const struct {
                const char *expression, *shapes, *says;
        } bad[] = {
                {"layer_norm(x, 1, w)", "x=4,5 w=4", "the weight w has shape (4,); it must be of shape (5,), the lengths along the axes, or of x's rank"},
                {"layer_norm(x, 1, w, b)", "x=4,5 w=5 b=4,6", "the bias b has shape (4, 6)"},
                {"layer_norm(x, (1, 2), w)", "x=4,5,6 w=6,5", "the weight w has shape (6, 5); it must be of shape (5, 6)"},
                {"layer_norm(x, 1, eps=-1)", "x=4,5", "eps is -1; it must be 0 or more"},
                {"normalize(x, eps=-0.5)", "x=4,5", "eps is -0.5"},
                {"rms_norm(x, 1, w, eps=0, bias=w)", "x=4,5 w=5", "rms_norm has no argument bias"},
                {"softmax(x, 1)", "x=4,5:i32", "softmax of i32 is of no real dtype; say what it should be, such as softmax(x, dtype=f32)"},
                {"softmax(x, 2)", "x=4,5", "axis 2"},
                {"softmax(x, 1, keepdim=True)", "x=4,5", "softmax has no argument keepdim"},
                {"softmax(x, 1, eps=1)", "x=4,5", "softmax has no argument eps"},
                {"standardize(x, 1, correction=6)", "x=4,5", "correction is 6, and there are 5 elements"},
                {"softmax(x, 1, mask=m)", "x=4,5 m=4:bool", "the mask m has shape (4,), which does not broadcast"},
        };
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++, checks++) {
                sf_plan *plan = tool_plan(REF, bad[i].expression, bad[i].shapes, false);
                CHECK(!plan && strstr(sf_last_error(REF), bad[i].says), "%s of %s: %s", bad[i].expression, bad[i].shapes, plan ? "taken" : sf_last_error(REF));
                sf_plan_destroy(plan);
        }
        sf_graph *graph;
        CHECK(sf_graph_create(REF, &graph) == SF_OK, "no graph");
        const int32_t x = sf_expr_input(graph, "x");
        sf_expr_options o = SF_EXPR_OPTIONS_INIT;
        o.weight = x;
        CHECK(sf_expr_derived(graph, x, SF_SOFTMAX, &o) < 0 && strstr(sf_last_error(REF), "weight is set; it is for SF_LAYER_NORM"), "%s", sf_last_error(REF));
        CHECK(sf_expr_fold(graph, x, &o) < 0 && strstr(sf_last_error(REF), "weight is set"), "%s", sf_last_error(REF));
        CHECK(sf_expr_derived(graph, x, SF_RMS_NORM, &o) > 0, "%s", sf_last_error(REF));
        o.bias = x;
        CHECK(sf_expr_derived(graph, x, SF_RMS_NORM, &o) < 0 && strstr(sf_last_error(REF), "bias is set; it is for SF_LAYER_NORM"), "%s", sf_last_error(REF));
        o.weight = 99;
        CHECK(sf_expr_derived(graph, x, SF_LAYER_NORM, &o) < 0 && strstr(sf_last_error(REF), "weight is node 99"), "%s", sf_last_error(REF));
        o = (sf_expr_options)SF_EXPR_OPTIONS_INIT;
        o.keepdim = 1;
        CHECK(sf_expr_derived(graph, x, SF_SOFTMAX, &o) < 0 && strstr(sf_last_error(REF), "the result has x's axes"), "%s", sf_last_error(REF));
        checks += 6;
        sf_graph_destroy(graph);
}

/* On the CPU each is one pass, which reads x once; what cannot follow has a pass of its own. */
static void test_explained(void)
{
        static const struct {
                const char *expression, *shapes;
                int passes, lines; /* that the plan says it is; passes that follow others */
                double read, written;
        } plans[] = {
                {"softmax(x, 1)", "x=100,200", 1, 2, 80000, 80000},
                {"log_softmax(x, 0)", "x=100,200", 1, 2, 80000, 80000},
                {"layer_norm(x, 1, w, b)", "x=100,200 w=200 b=200", 1, 2, 81600, 80000},
                {"rms_norm(x, 1, w)", "x=100,200 w=200", 1, 1, 80800, 80000},
                {"x / (std(x, 1, keepdim=True) + 1)", "x=400,400", 1, 2, 640000 + 1600, 640000},
                {"x - mean(x, 1, keepdim=True), mean(x, 1, keepdim=True)", "x=100,200", 1, 1, 80000, 80400},
                {"x / sum(y, 1, keepdim=True)", "x=100,200 y=100,200", 2, 0, 160400, 80400}, /* nothing is read again */
                {"softmax(x, 1), softmax(x, 0)", "x=100,200", 2, 4, 160800, 160800}, /* the largest of columns, in the first read */
                {"cumsum(softmax(x, 1), 1)", "x=100,200", 1, 2, 80000, 80000},
                {"x - max(x[:, 1:], 1, keepdim=True)", "x=100,200", 2, 0, 159600 + 400, 80400}, /* other lines */
        };
        for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++, checks++) {
                sf_plan *plan = tool_plan(engines[1].ctx, plans[i].expression, plans[i].shapes, true);
                CHECK(plan, "%s: %s", plans[i].expression, sf_last_error(engines[1].ctx));
                if (!plan)
                        continue;
                char *json = tool_json(plan);
                const char *after = strstr(json, "\"after\":");
                int lines = 0, passes = 0;
                double read = 0, written = 0;
                for (const char *at = json; (at = strstr(at, "\"same_lines\": true")); at++)
                        lines++;
                CHECK(after && sscanf(after, "\"after\": {\"passes\": %d, \"bytes_read\": %lf, \"bytes_written\": %lf", &passes, &read, &written) == 3, "%s",
                      json);
                CHECK(passes == plans[i].passes && lines == plans[i].lines && read == plans[i].read && written == plans[i].written,
                      "%s: %d passes, %d follow, %.0f bytes read, %.0f written", plans[i].expression, passes, lines, read, written);
                free(json);
                sf_plan_destroy(plan);
        }
}

/* test_chain [--every N]: one in so many of the listed chains. */
int main(int argc, char **argv)
{
        const long every = argc > 2 && !strcmp(argv[1], "--every") ? atol(argv[2]) : 1;
        const bool thin = every > 100; /* then without the reference, which is slow */
        engines_open();
        test_bits(every < 1 ? 1 : (size_t)every);
        test_written_out(thin);
        test_softmax_laws(thin);
        test_norm_values();
        test_unusual_lines();
        test_refusals();
        test_explained();
        engines_close();
        return finish("test_chain", checks);
}
