/*
 * A rewrite never turns a finite result into an infinite one or NaN. Results of a plan that rounds
 * differently are compared with two others: those of the expression it was rewritten to, computed
 * as that is written, and those of the expression as it was written. Where the first is finite the
 * plan has its bits; elsewhere it has the second's.
 */
#include "expr_tools.h"
#include "naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static long checks;

/* How an input is filled: n small, h so large that two of them overflow, l so small that this is
 * made up for, r large in every third row, a large and of both signs, z like l but with rows of
 * zeros, i like r but here and there infinite or NaN, p large or small, for products. */
typedef struct listed {
        const char *expression, *shapes, *fills;
        /* what is not finite does not show in the result: all that is asked is that it is close to
         * what is right */
        bool hidden;
} listed;

static const listed list[] = {
        /* Factors. */
        {"sum(x / 1e30, 1) * 1e30", "x=40,33", "a", false},
        {"sum(x / 1e30, 1) * 1e28", "x=40,33", "r", false},
        {"sum(x * 1e-30, 1)", "x=40,33", "i", false},
        {"sum(x / 1e30, 0)", "x=33,40", "h", false},
        {"sum(x / 1e30, 1)", "x=30,129:bf16", "r", false},
        {"mean(x * 1e-30, (1, 2))", "x=7,9,11:f64", "r", false},
        {"sum(x / 1e30)", "x=40,33", "r", false},
        {"sum(abs(x) / 1e30, 1) * 2, max(x, 1)", "x=12,33", "r", false},
        {"sum(x / 1e30, 1, mask=m)", "x=12,33 m=12,33:bool", "rn", false},
        {"sum((x - y) / 1e30, 1) + y[0, 0]", "x=5000,64 y=5000,64", "rn", false}, /* many */
        /* Matmuls. */
        {"sum(x @ w.T, 1)", "x=17,30 w=40,30", "lh", false},
        {"sum(x @ w.T, 1)", "x=17,30 w=40,30", "zh", false},
        {"sum((x @ w.T) / 2, axis=1, keepdim=True) * 1.5", "x=17,30 w=40,30", "zh", false},
        {"sum(x @ w, 0)", "x=17,30 w=30,20", "hl", false},
        {"sum(x @ w)", "x=17,30 w=30,20", "hl", false},
        {"mean(linear(x, w, b), 1)", "x=17,30 w=40,30 b=40", "lhn", false},
        {"sum(linear(x, w, b) / 2 - b, 1) * 3", "x=17,30 w=40,30 b=40", "lhn", false},
        {"sum(a @ b, (0, 2))", "a=3,4,6 b=3,6,8", "lh", false},
        {"sum(x @ w.T, 1)", "x=17,30:f64 w=40,30:f64", "zh", false},
        {"sum(sum(x @ w.T, 1) / 3, 0)", "x=17,30 w=40,30", "lh", false},
        {"sum(x @ w.T, 1)", "x=300,3 w=5,3", "zh", false},
        /* Another order. */
        {"sum(sum(x, 2), 1)", "x=90,7,15", "a", false},
        {"sum(flip(x, 1), (1, 2))", "x=90,7,15", "a", false},
        {"sum(permute(x, (0, 2, 1)), (1, 2))", "x=90,7,15", "a", false},
        {"prod(prod(x, 2), 1)", "x=60,3,5", "p", false},
        {"prod(prod(x, 2), 1)", "x=60,3,5:f64", "p", false},
        {"mean(sum(x, 2), 1)", "x=90,7,15", "a", false},
        {"sum(broadcast_to(x, (6, 50)) / 1e30, 0)", "x=50", "h", false},
        {"flip(sum(x / 1e30, 2), 0).T", "x=90,7,15", "r", false},
        /* Results that others read. */
        {"x[:, :1] - sum(x / 1e30, 1, keepdim=True)", "x=40,33", "r", false},
        {"cumsum(sum(x / 1e30, 1), 0)", "x=40,33", "h", true},
        {"exp(-sum(x / 1e37, 1))", "x=40,3", "r", true},
        {"sigmoid(sum(x @ w.T, 1) / 1e33)", "x=17,30 w=40,30", "lh", true},
        {"squeeze(exp(-sum(x / 1e37, 1, keepdim=True)) * y, 1)", "x=40,3 y=40,1", "rn", true},
        {"1 / (1 + sum(x / 1e37, 1))", "x=40,33", "r", true},
        {"sum(x / 1e37, 1) < 1e6", "x=40,33", "r", true},
        {"concat([sum(x / 1e37, 1), y], 0)", "x=40,33 y=5", "rn", true},
        {"y / sum(x / 1e37, 1, keepdim=True)", "x=40,33 y=40,50", "rn", true},
        {"sum(x / 1e37, 1), sum(x / 1e37, 1) * 2", "x=40,33", "r", true},
};

/* ------------------------------------------------------------------------------------------------
 * Inputs
 * ---------------------------------------------------------------------------------------------- */
static double largest(int dt)
{
        return dt == DT_F64 ? 1.7e308 : 3.3e38;
}

static double fill_value(char how, int dt, int64_t row, uint64_t seed)
{
        double u = 0.5 + (double)(hash(seed) % 1000) / 2002, sign = hash(seed + 77) % 2 ? 1 : -1;
        bool large = row % 3 == 1;
        switch (how) {
        case 'h': return u * largest(dt);
        case 'l': return u * 1e-8;
        case 'z': return row % 3 == 2 ? 0 : sign * u * 1e-8;
        case 'r': return large ? u * largest(dt) : u - 0.7;
        case 'p': return sign * u * pow(dt == DT_F64 ? 1e200 : 1e25, hash(seed + 5) % 2 ? 1 : -1);
        case 'a': return sign * u * largest(dt) / 4;
        case 'i':
                if (row % 3 == 2 && hash(seed) % 17 == 0)
                        return sign > 0 ? INFINITY : NAN;
                return large ? u * largest(dt) : u - 0.7;
        default: return u - 0.7;
        }
}

static void fill_tensor(sf_tensor *t, char how, uint64_t seed)
{
        int dt = tool_dt(t->dtype);
        int64_t count = tool_count(t), rows = t->ndim ? t->shape[0] : 1;
        t->data = calloc((size_t)count + 1, (size_t)dts[dt].size);
        for (int64_t i = 0; i < count; i++) {
                double v = fill_value(how, dt, i / (count / rows), seed * 1000003 + (uint64_t)i);
                v = dt == DT_BOOL ? hash((uint64_t)i) % 4 != 0 : v;
                array_set(&(array){.dt = dt, .data = t->data}, i, v);
        }
}

/* ------------------------------------------------------------------------------------------------
 * Plans
 * ---------------------------------------------------------------------------------------------- */
typedef struct outputs {
        int32_t count;
        sf_tensor tensor[3];
        int64_t shape[3][SF_MAX_NDIM];
} outputs;

static sf_plan *make(sf_context *ctx, const char *expression, const tool_shapes *shapes, bool exact,
                     sf_tensor *in)
{
        sf_graph *graph;
        sf_plan *plan = NULL;
        sf_plan_options o = SF_PLAN_OPTIONS_INIT;
        o.exact = exact;
        if (sf_graph_parse(ctx, expression, &graph) == SF_OK) {
                tool_order(graph, shapes, in);
                sf_plan_create(ctx, graph, sf_graph_inputs(graph), in, &o, &plan);
                sf_graph_destroy(graph);
        }
        CHECK(plan, "%s: %s", expression, sf_last_error(ctx));
        return plan;
}

static void run(sf_context *ctx, sf_plan *plan, const sf_tensor *in, outputs *out)
{
        out->count = sf_plan_outputs(plan);
        for (int32_t k = 0; k < out->count; k++) {
                sf_tensor *t = &out->tensor[k];
                *t = (sf_tensor){.device = {SF_CPU, 0}, .shape = out->shape[k]};
                sf_plan_output(plan, k, &t->ndim, out->shape[k], &t->dtype);
                t->data = calloc((size_t)tool_count(t) + 1, t->dtype.bits / 8u);
        }
        CHECK(sf_plan_run(plan, in, out->tensor, NULL) == SF_OK, "%s", sf_last_error(ctx));
}

static void release(outputs *out)
{
        for (int32_t k = 0; k < out->count; k++)
                free(out->tensor[k].data);
}

static double value_at(const sf_tensor *t, int64_t i)
{
        return array_get(&(array){.dt = tool_dt(t->dtype), .data = t->data}, i);
}

/* What the plan has where the other order is not finite, and where it is. */
static void compare(const listed *l, const engine *e, const outputs *given, const outputs *other,
                    const outputs *written, long *again)
{
        for (int32_t k = 0; k < given->count; k++) {
                int dt = tool_dt(given->tensor[k].dtype);
                for (int64_t i = 0; i < tool_count(&given->tensor[k]); i++) {
                        double v = value_at(&given->tensor[k], i);
                        double o = value_at(&other->tensor[k], i);
                        double w = value_at(&written->tensor[k], i);
                        const outputs *right = isfinite(o) ? other : written;
                        size_t at = (size_t)i * (size_t)dts[dt].size;
                        bool good = l->hidden ? isfinite(w) == isfinite(v) &&
                                    (!isfinite(w) || fabs(v - w) <= 1e-4 * fabs(w))
                                              : same_bits(dt, (char *)given->tensor[k].data + at,
                                                          (char *)right->tensor[k].data + at);
                        const char *one = (char *)other->tensor[k].data + at;
                        const char *two = (char *)written->tensor[k].data + at;
                        *again += l->hidden ? isfinite(w) && !(fabs(o - w) <= 1e-3 * fabs(w))
                                            : !isfinite(o) && !same_bits(dt, one, two);
                        CHECK(good,
                              "%s of %s on %s, output %d, element %lld is %.9g; in another "
                              "order %.9g, as written %.9g", l->expression, l->shapes,
                              e->name, (int)k, (long long)i, v, o, w);
                        if (!good)
                                return;
                }
        }
}

static void check(const listed *l, uint64_t seed)
{
        tool_shapes shapes;
        sf_tensor in[TOOL_INPUTS], same[TOOL_INPUTS];
        char rewritten[2048];
        outputs given, other, written;
        long again = 0;
        tool_read_shapes(l->shapes, &shapes);
        for (int i = 0; i < shapes.count; i++)
                fill_tensor(&shapes.tensor[i], l->fills[i], seed + (uint64_t)i);
        sf_plan *plan = make(REF, l->expression, &shapes, false, in), *exact =
                        make(REF, l->expression, &shapes, true, in);
        char *json = tool_json(plan);
        tool_field(json, "rewritten", rewritten, sizeof rewritten);
        CHECK(strstr(json, "\"rounds\": true") && strstr(json, "\"again\": true"),
              "%s is %s: not rewritten, or not computed again", l->expression, rewritten);
        for (char *p = rewritten; (p = strchr(p, ';')); p++)
                *p = ',';
        sf_plan *otherwise = make(REF, rewritten, &shapes, true, same);
        run(REF, otherwise, same, &other);
        run(REF, exact, in, &written);
        for (int e = 0; e < engine_count; e++, checks++) {
                sf_plan *mine = make(engines[e].ctx, l->expression, &shapes, false, in);
                again = 0;
                for (int turn = 0; turn < 2; turn++) {
                        run(engines[e].ctx, mine, in, &given);
                        compare(l, &engines[e], &given, &other, &written, &again);
                        release(&given);
                }
                sf_plan_destroy(mine);
        }
        CHECK(again > 0, "%s of %s: nothing is computed again", l->expression, l->shapes);
        free(json);
        release(&other);
        release(&written);
        sf_plan_destroy(plan);
        sf_plan_destroy(exact);
        sf_plan_destroy(otherwise);
        for (int i = 0; i < shapes.count; i++)
                free(shapes.tensor[i].data);
}

/* With a number, one in so many of the list. */
int main(int argc, char **argv)
{
        size_t every = argc > 1 ? (size_t)atol(argv[1]) : 1;
        engines_open();
        for (size_t i = 0; i < sizeof list / sizeof *list; i += every)
                check(&list[i], i);
        engines_close();
        return finish("test_expr_finite", checks);
}
