/* Expressions through the public functions: the notation and its carets, sentences, types, plans
 * and what they refuse, kept results, threads. */
#include "expr_tools.h"
#include "harness.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static long checks;

/* ------------------------------------------------------------------------------------------------------------
 * Notation
 * ---------------------------------------------------------------------------------------------------------- */

/* Each line says the same as the one beside it, as the library shows it. */
static const struct {
        const char *written, *shown, *shapes;
} readings[] = {
        {"torch.sum(x, dim=1, keepdim=True)", "sum(x, 1, keepdim=True)", "x=2,3"},
        {"x.sum(1)", "sum(x, 1)", "x=2,3"},
        {"np.sum(x, axis=(0, 1))", "sum(x)", "x=2,3"},
        {"x.sum((0, -1), keepdims=True)", "sum(x, keepdim=True)", "x=2,3"},
        {"x.sum(None)", "sum(x)", "x=2,3"},
        {"amax(x, 0)", "max(x, 0)", "x=2,3"},
        {"torch.cumsum(x * mask, dim=1)", "cumsum(x * mask.astype(f32), 1)", "x=2,3 mask=2,3:bool"},
        {"x.cumsum(-1, reverse=True, exclusive=True)", "cumsum(x, 1, reverse=True, exclusive=True)", "x=2,3"},
        {"cumsum(x)", "cumsum(x, 1)", "x=2,3"},
        {"x.flip(0, 1)", "flip(x, (0, 1))", "x=2,3"},
        {"x[:, ::-1]", "flip(x, 1)", "x=2,3"},
        {"x[..., 1:]", "x[:, 1:]", "x=2,3"},
        {"x[1]", "squeeze(x[1:], 0)", "x=2,3"},
        {"x[:, None, :2]", "unsqueeze(x, 1)[:, :, :2]", "x=2,3"},
        {"x[..., None]", "unsqueeze(x, 2)", "x=2,3"},
        {"x[-1, ..., 0]", "squeeze(squeeze(x[:, :, :1], 2)[1:], 0)", "x=2,3,4"},
        {"x.T @ w", "x.T @ w", "x=2,3 w=2,4"},
        {"x.transpose(0, 1)", "x.T", "x=2,3"},
        {"permute(x, (0, 2, 1))", "permute(x, (0, 2, 1))", "x=2,3,4"},
        {"-x ** 2", "-square(x)", "x=2"},
        {"2 - -x", "2 - -x", "x=2"},
        {"x - (y - x) - y", "x - (y - x) - y", "x=2 y=2"},
        {"x / (y * 2)", "x / (y * 2)", "x=2 y=2"},
        {"x * 2 / 3 * (1 + 2)", "x * 2 / 3 * 3", "x=2"},
        {"x + 2 * 3 - 1 / 4", "x + 6 - 0.25", "x=2"},
        {"(x > 0) * y", "(x > 0).astype(f32) * y", "x=2 y=2"},
        {"F.relu(x).clamp(min=0.5)", "maximum(relu(x), 0.5)", "x=2"},
        {"x.clamp(0, 1)", "minimum(maximum(x, 0), 1)", "x=2"},
        {"torch.where(x > 0, x, 0)", "where(x > 0, x, 0)", "x=2"},
        {"x.masked_fill(x < 0, -inf)", "where(x < 0, -inf, x)", "x=2"},
        {"x.astype(np.float64) + x.to(torch.float16).float()", "x.astype(f64) + x.astype(f16).astype(f32).astype(f64)", "x=2"},
        {"torch.nn.functional.linear(x, w, b)", "x @ w.T + b", "x=2,3 w=4,3 b=4"},
        {"mean(x, 1, dtype=float64)", "mean(x, 1, dtype=f64)", "x=2,3"},
        {"x.narrow(1, 1, 2)", "x[:, 1:]", "x=2,3"},
        {"x.narrow(1, -3, 2)", "x[:, :2]", "x=2,3"},
        {"x.narrow(0, 2, 0)", "x[0:0]", "x=2,3"},
        {"expand_dims(x, (-1, -2))", "unsqueeze(x, (2, 3))", "x=2,3"}, /* numbered as in the result */
        {"x.unsqueeze((2, -4))", "unsqueeze(x, (1, 2))", "x=2,3,4"},
        {"x.squeeze((-1, -3))", "squeeze(x, (0, 2))", "x=1,3,1"},
        {"squeeze(x)", "squeeze(x, (0, 2))", "x=1,3,1"}, /* every axis of length 1, as in NumPy */
        {"x.squeeze(None)", "squeeze(x, (0, 1))", "x=1,1"},
        {"squeeze(x) + squeeze(s)", "x + s", "x=2,3 s="},
        {"sum(x, ())", "sum(x, ())", "x=2,3"},
        {"cat([x, y], dim=1)", "concat([x, y], 1)", "x=2,3 y=2,1"},
        {"sum(x, 1, mask=m, initial=-2)", "sum(x, 1, mask=m, initial=-2)", "x=2,3 m=3:u8"},
        {"x, sum(x),", "x; sum(x)", "x=2,3"},
        {"(sum(x), max(x))", "sum(x); max(x)", "x=2,3"},
        {"1_000 * x + 1e3", "1000 * x + 1000", "x=2"},
        {"max(x, axis=0, keepdim=False)", "max(x, 0)", "x=2,3"},
        {"x*i", "x * i.astype(f32)", "x=2 i=2:i64"},
        {"s * x", "s.astype(f32) * x", "x=2 s=:f64"},      /* rank 0 counts less */
        {"i * 2", "i * 2", "i=2:i8"},
        {"i * 2.5", "i.astype(f32) * 2.5", "i=2:i8"},
        {"i / 2", "i.astype(f32) / 2", "i=2:i8"},
        {"i + u", "i.astype(i16) + u.astype(i16)", "i=2:i8 u=2:u8"},
        /* Whole numbers keep their value. A bound beyond all values of the type has no effect. */
        {"u.clamp(-5, 300)", "u", "u=2:u8"},
        {"u.clamp(-5, 7)", "minimum(u, 7)", "u=2:u8"},
        {"maximum(-129, i)", "i", "i=2:i8"},
        {"i == -9223372036854775808", "i == -9223372036854775808", "i=2:i64"},
        {"full_like(i, -9223372036854775808)", "broadcast_to(-9223372036854775808, (2,))",
         "i=2:i64"},
        {"q + 18446744073709551615", "q + 18446744073709551615", "q=2:u64"},
        {"q + (9223372036854775807 + 1)", "q + 9223372036854775808", "q=2:u64"},
        {"i + (18446744073709551615 - 18446744073709551614)", "i + 1", "i=2:i8"},
        {"x + 16777217", "x + 16777216", "x=2"}, /* a real has it rounded */
        {"h + b", "h.astype(f32) + b.astype(f32)", "h=2:f16 b=2:bf16"},
        {"x.argmax(1, keepdim=True) + 1", "argmax(x, 1, keepdim=True) + 1", "x=2,3"},
        {"np.argmin(x)", "argmin(x)", "x=2,3"},
        {"argmax_last(x, 0, dtype=i32), argmin_last(x, 0)", "argmax_last(x, 0, dtype=i32); argmin_last(x, 0)", "x=2,3:u8"},
        {"cumargmax(x), cumargmin(x, 0), cumargmax_first(x), cumargmin_first(x)", "cumargmax(x, 1); cumargmin(x, 0); cumargmax_first(x, 1); cumargmin_first(x, 1)", "x=2,3"},
        {"torch.logsumexp(x, 1), logcumsumexp(i, 0, dtype=f64)", "logsumexp(x, 1); logcumsumexp(i, 0, dtype=f64)", "x=2,3 i=2:i64"},
        {"linear_recurrence(0.9, x, 0)", "linear_recurrence(0.9, x, 0)", "x=2,3:f16"},
        {"linear_recurrence(a, x, reverse=True, exclusive=True, initial=0.5, dtype=f64)", "linear_recurrence(a, x, 1, reverse=True, exclusive=True, initial=0.5, dtype=f64)", "a=3 x=2,3"},
        {"linear_recurrence(x, 1)", "linear_recurrence(x, broadcast_to(1, (2, 3)), 1)", "x=2,3"},
};

static void test_readings(void)
{
        for (size_t i = 0; i < sizeof readings / sizeof readings[0]; i++, checks++) {
                char shown[512];
                sf_plan *plan = tool_plan(NULL, readings[i].written, readings[i].shapes, true);
                CHECK(plan, "%s: %s", readings[i].written, sf_last_error(NULL));
                if (!plan)
                        continue;
                char *json = tool_json(plan);
                tool_field(json, "expression", shown, sizeof shown);
                CHECK(!strcmp(shown, readings[i].shown), "%s reads as %s, not %s", readings[i].written, shown, readings[i].shown);
                free(json);
                sf_plan_destroy(plan);
        }
}

/* A bad line, where its caret stands, and a part of its sentence. */
static const struct {
        const char *line;
        int column;
        const char *says;
} mistakes[] = {
        {"", 0, "ends where an expression"}, {"x +", 3, "ends where"}, {"x + * y", 4, "was expected"}, {"sum(x, 1", 8, "expected"}, {"(x", 2, "close the bracket"},
        {"x y", 2, "an operator"}, {"x)", 1, "closes nothing"}, {"foo(x)", 0, "no function foo"}, {"x + foo(x)", 4, "no function foo"},
        {"sum(x, axes=1, depth=2)", 15, "no argument depth"}, {"sum(x, 1, axis=1)", 15, "given twice"}, {"sum()", 0, "needs 1 argument"},
        {"sum(x, y)", 7, "whole number"}, {"sum(x, keepdim=2)", 15, "True or False"}, {"x.foo", 2, "no attribute"}, {"x.", 2, "method's name"},
        {"x // 2", 2, "/ is division"}, {"x % 2", 2, "there is no %"}, {"x ** 3", 2, "only ** 2"}, {"x[y]", 2, "whole number"}, {"x[..., ...]", 7, "second ..."},
        {"cumvar(x, keepdim=True)", 10, "no argument keepdim"}, {"var(x, correction=y)", 18, "a number was expected"}, {"nansum(x, skip_nan=True)", 10, "no argument skip_nan"},
        {"norm(x, y)", 8, "a number was expected"}, {"var_mean(x) + 1", 0, "no value to compute with"}, {"mean(x, exclusive=True)", 8, "no argument exclusive"},
        {"x[]", 2, "subscript"}, {"x[1", 3, "close the subscript"}, {"x[0:4:0]", 0, "step is 0"}, {"1.2.3 * x", 0, "not a number"}, {"y = x", 2, "= is no operator"},
        {"x < y < z", 6, "chained"}, {"concat(x, 1)", 7, "in brackets"}, {"x.astype(3)", 9, "a dtype"}, {"f32 + x", 0, "no value"}, {"sum(None)", 0, "node 0"},
        {"x.narrow(None, 1, 2)", 9, "one axis"}, {"x.narrow((0, 1), 1, 2)", 9, "one axis"}, {"x.narrow(0, None, 2)", 12, "whole number"},
        {"x.narrow(0, 1, (1, 2))", 15, "whole number"}, {"x.select(0, (1, 2))", 12, "whole number"}, {"x.select((0, 1), 0)", 9, "one axis"},
        {"concat([x, x], (0, 1))", 15, "one axis"}, {"concat([x, x], None)", 15, "one axis"}, {"x.unsqueeze(None)", 12, "an axis"},
        {"exp(x, y)", 7, "at most 1"}, {"sum(x, 99)", 7, "axis 99"}, {"x $ y", 2, "an operator"}, {"\"x\"", 0, "was expected"},
        {"x < 18446744073709551616", 4, "64 bits"},
        {"spread(x, 0, 4)", 0, "needs 4 arguments"}, {"spread(x, (0, 1), 4, offsets=o)", 10, "one axis"}, {"spread(x, 0, 4, offsets=o + 1)", 0, "must be an input"},
        {"full_like(x, -9223372036854775809)", 13, "64 bits"},
        {"((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((x))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))", 64, "within each other"},
};

static void test_mistakes(void)
{
        for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++, checks++) {
                sf_graph *graph;
                sf_status status = sf_graph_parse(NULL, mistakes[i].line, &graph);
                CHECK(status == SF_INVALID_ARGUMENT, "%s is accepted", mistakes[i].line);
                if (status == SF_OK) {
                        sf_graph_destroy(graph);
                        continue;
                }
                const char *sentence = sf_last_error(NULL), *last = strrchr(sentence, '\n');
                CHECK(strstr(sentence, mistakes[i].says), "%s: says \"%s\", not \"%s\"", mistakes[i].line, sentence, mistakes[i].says);
                CHECK(last && (int)strlen(last) - 4 == mistakes[i].column, "%s: the caret is at %d, not %d: %s", mistakes[i].line,
                      last ? (int)strlen(last) - 4 : -1, mistakes[i].column, sentence);
        }
}

/* What shapes and dtypes get wrong, and what is said about it. */
static const struct {
        const char *expression, *shapes, *says;
} refusals[] = {
        {"x + y", "x=2,3 y=4", "(2, 3)"}, {"x @ y", "x=2,3 y=4,5", "do not fit"}, {"x @ s", "x=2,3 s=", "rank 0"}, {"sum(x, 2)", "x=2,3", "-2 to 1"},
        {"sum(x, (0, -2))", "x=2,3", "twice"}, {"mean(x)", "x=2:i32", "dtype=f32"}, {"max(x)", "x=0", "no elements"}, {"x - x", "x=2:bool", "bools"},
        {"min(x, 1)", "x=0,0", "no elements"},
        {"where(x, x, 0)", "x=2", "bool or u8"}, {"sum(x, mask=x)", "x=2", "bool or u8"}, {"sum(x, mask=m)", "x=2,3 m=2:bool", "does not broadcast"},
        {"squeeze(x, 0)", "x=2,3", "length 2"}, {"x[5]", "x=2,3", "index 5"}, {"permute(x, (0, 0))", "x=2,3", "axis 1"}, {"permute(x, (0, 1, 2))", "x=2,3", "has 2"},
        {"broadcast_to(x, (2, 4))", "x=2,3", "(2, 4)"}, {"concat([x, y], 0)", "x=2,3 y=2,2", "equal"}, {"x + u", "x=2:i64 u=2:u64", "no integer type"},
        {"broadcast_to(x, (3000000000, 3000000000))", "x=1", "broadcast"}, {"sum(x, dtype=bool)", "x=2", "into bool"}, {"x @ x", "x=2,2:bool", "bool"},
        {"var(x, 1, correction=4)", "x=2,3", "correction is 4, and there are 3 elements"}, {"std(x, 1)", "x=2,0", "at most their number"},
        {"var(x, correction=nan)", "x=3", "correction is nan"}, {"cumvar(x, ddof=9)", "x=3", "correction is 9"},
        {"var(i)", "i=3:i32", "var(x, dtype=f32)"}, {"norm(i)", "i=3:u8", "norm(x, dtype=f32)"}, {"cummean(b)", "b=3:bool", "cummean(x, dtype=f32)"},
        {"mean(x, dtype=i32)", "x=3", "mean into i32 is not supported; its result can be f16, bf16, f32 or f64"}, {"mean(x)", "x=3:i32", "mean of i32 is of no real dtype"}, {"any(x, dtype=f32)", "x=3", "any is bool, whatever it is of"},
        {"var(x, acc=f32)", "x=3", "always summed up in that"}, {"norm(x, inf)", "x=0", "norm of order inf of no elements"}, {"norm(x, nan)", "x=3", "order is NaN"},
        {"mean(x, mask=y)", "x=3 y=3", "must be bool or u8"}, {"all(x, mask=m)", "x=2,3 m=2:bool", "does not broadcast"},
        {"concat([s, s], 0)", "s=", "rank 0"}, {"s[0]", "s=", "nothing to slice"}, {"sum(i, initial=1.5)", "i=2:i32", "initial"},
        /* Whole numbers that a result's type does not hold. */
        {"u + 300", "u=2:u8", "300 is out of range for u8, which holds 0 to 255; cast u"},
        {"-1 * u", "u=2:u8", "-1 is out of range for u8"},
        {"full_like(u, 300)", "u=2:u8", "300 is out of range for u8"},
        {"full_like(i, 128.5)", "i=2:i8", "128.5 is out of range for i8"},
        {"full_like(i, nan)", "i=2:i32", "out of range for i32"},
        {"full_like(i, 9223372036854775808.)", "i=2:i64", "out of range for i64"},
        {"u.clamp(256, 300)", "u=2:u8", "256 is out of range for u8"},
        {"u.clamp(-5, -1)", "u=2:u8", "-1 is out of range for u8"},
        {"where(u > 0, u, 300)", "u=2:u8", "300 is out of range for u8"},
        {"u.masked_fill(u > 3, -1)", "u=2:u8", "-1 is out of range for u8"},
        {"i - 9223372036854775808", "i=2:i64",
         "is out of range for i64, which holds -9223372036854775808 to 9223372036854775807"},
        {"q + -1", "q=2:u64", "-1 is out of range for u64, which holds 0 to 18446744073709551615"},
        {"x + 18446744073709551615 * 2", "x=2", "does not fit 64 bits"},
        {"argmax(x)", "x=0", "no elements"}, {"argmin(x, 1)", "x=3,0", "no elements"}, {"argmax(x, 1, dtype=f32)", "x=2,3", "i32 or i64"},
        {"argmax(x, 1, initial=1)", "x=2,3", "a position"}, {"argmax(x, 1, acc=f64)", "x=2,3", "left unset"},
        {"logsumexp(x, 1, dtype=i64)", "x=2,3:i64", "f32 or f64"}, {"linear_recurrence(a, b)", "a=2 b=2,3", "(2,) and (2, 3) do not broadcast"},
        {"linear_recurrence(a, b, 2)", "a=3 b=2,3", "no axis 2"}, {"linear_recurrence(a, b, dtype=i64)", "a=3 b=2,3", "into i64"},
        {"linear_recurrence(a, b, mask=a)", "a=3 b=2,3", "bool or u8"}, {"linear_recurrence(a, b, mask=m)", "a=3 b=2,3 m=2:bool", "does not broadcast"},
        {"argmax(x, dtype=i32)", "x=65536,65536:u8", "need i64"},
};

static void test_refusals(void)
{
        for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++, checks++) {
                sf_plan *plan = tool_plan(NULL, refusals[i].expression, refusals[i].shapes, false);
                CHECK(!plan, "%s of %s is accepted", refusals[i].expression, refusals[i].shapes);
                CHECK(plan || strstr(sf_last_error(NULL), refusals[i].says), "%s: says \"%s\", not \"%s\"", refusals[i].expression, sf_last_error(NULL), refusals[i].says);
                sf_plan_destroy(plan);
        }
}

/* Where a parsed line is wrong about its shapes: the column of the operator, the function or the subscript. */
static const struct {
        const char *expression, *shapes;
        int column;
} places[] = {
        {"1 + x.narrow(1, 2, 2)", "x=2,3", 6}, {"1 + x.narrow(1, 2, -1)", "x=2,3", 6}, {"x.narrow(1, -4, 1)", "x=2,3", 2}, {"x.narrow(0, 3, 0)", "x=2,3", 2},
        {"1 + x[:2, ..., 1:]", "x=5", 15}, {"x[0, ..., 1]", "x=5", 10}, {"x[0, 1, 2]", "x=2,3", 2}, {"x.unsqueeze((0, 0))", "x=2,3", 2}, {"x.squeeze((0, -2))", "x=1,3", 2}, {"1 + sum(x, axis=5)", "x=2,3", 4}, {"x + y", "x=2,3 y=4", 2}, {"exp(x) * (x - y)", "x=2,3 y=4", 12}, {"x @ y", "x=2,3 y=4,5", 2},
        {"-where(x, x, 0)", "x=2", 1}, {"x[0, 99]", "x=2,3", 5}, {"x[..., 1:, 99]", "x=2,3", 11}, {"x.T.permute((0, 0))", "x=2,3", 4},
        {"x - x", "x=2:bool", 2}, {"x, concat([x, y], 0)", "x=2,3 y=2,2", 3}, {"max(x)", "x=0", 0}, {"x * masked_fill(x, x, 1)", "x=2", 4},
};

static void test_places(void)
{
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++, checks++) {
                sf_plan *plan = tool_plan(NULL, places[i].expression, places[i].shapes, false);
                const char *sentence = sf_last_error(NULL), *last = strrchr(sentence, '\n');
                CHECK(!plan && last && last[strlen(last) - 1] == '^' && (int)strlen(last) - 4 == places[i].column, "%s: the caret is at %d, not %d: %s",
                      places[i].expression, last ? (int)strlen(last) - 4 : -1, places[i].column, sentence);
                sf_plan_destroy(plan);
        }
        /* A graph built node by node has no line to show. */
        sf_graph *graph;
        sf_plan *plan;
        int64_t shape[1] = {2};
        sf_tensor x = {.device = {SF_CPU, 0}, .ndim = 1, .dtype = SF_F32, .shape = shape};
        CHECK(sf_graph_create(NULL, &graph) == SF_OK, "%s", sf_last_error(NULL));
        sf_expr_output(graph, sf_expr_select(graph, sf_expr_input(graph, "x"), 0, 5));
        CHECK(sf_plan_create(NULL, graph, 1, &x, NULL, &plan) == SF_INVALID_ARGUMENT && !strchr(sf_last_error(NULL), '\n'), "%s", sf_last_error(NULL));
        sf_graph_destroy(graph);
}

/* ------------------------------------------------------------------------------------------------------------
 * The five operators, as passes
 * ---------------------------------------------------------------------------------------------------------- */
static const struct {
        const char *expression, *shapes;
        int passes;
} plans[] = {
        {"torch.cumsum(x * mask, dim=1)", "x=8,9 mask=8,9:bool", 1},
        {"torch.cumsum(x.flip(1), dim=1).flip(1)", "x=8,9", 1},
        {"x.flip(0)", "x=8,9", 1},
        {"torch.sum(x, dim=1, keepdim=True)", "x=3,8,9", 1},
        {"torch.sum(torch.matmul(x, w.T) / 2, dim=1, keepdim=True) * 1.5", "x=8,9 w=10,9", 2},
        {"sum(x, 1), max(x, 1)", "x=8,9", 1},
        {"cumsum(x, 1), sum(x, 1)", "x=8,9", 1},
        {"sum(x * y, 1)", "x=8,9 y=8,9", 1},
        {"sum(square(x), 1), sum(x, 1)", "x=8,9", 1},
        {"exp(x) / sum(exp(x), 1, keepdim=True)", "x=8,9", 1},
        {"mean(square(x - mean(x, 1, keepdim=True)), 1)", "x=8,9", 1},
        {"x - max(x)", "x=4000,5000", 2}, /* one line, longer than a cache */
        {"relu(cumsum(x, 1) * 2 + y) > 1", "x=8,9 y=9", 1},
        {"sum(x, 1) * sum(y, 1)", "x=8,9 y=8,9", 2},
        {"sum(x * x, 1) - square(sum(x, 1)) / 9 + max(x, 1)", "x=8,9", 2}, /* one read, and the few results */
        {"sum(x * y, 1) + sum(x * z, 1)", "x=8,9 y=8,9 z=8,9", 1}, /* two reads, and the second one adds */
        {"cumsum(cumsum(x, 0), 1)", "x=8,9", 2},
        {"(x + 1) * (x - 1), x", "x=8,9", 1},
        {"concat([x, y], 0)", "x=8,9 y=2,9", 2},
        {"x + a + b + c + d + e + f + g", "x=8 a=8 b=8 c=8 d=8 e=8 f=8 g=8", 1},
        {"sum(x, 1)", "x=0,9", 0},
        {"sum(cumsum(x, 0)) * sum(x, 0) - cumsum(x, 0)", "x=0,3,2", 0}, /* sums for nothing */
        {"concat([sum(x, 1)[:0], sum(y, 1)], 0)", "x=8,9 y=8,9", 1},
        {"sum(x, 1), x - sum(x, 1)[:, None]", "x=8,9", 1},
        {"sum(x, 1) * 2, x - (sum(x, 1) * 2)[:, None]", "x=8,9", 1},
        {"cumsum((sum(x, 1) * 2).astype(f64), 0), (sum(x, 1) * 2).astype(f64)", "x=8,9", 3}, /* the sum, its scan, and the small rest */
        {"concat([cumsum(x, 1) + 1, x], 0), cumsum(x, 1) + 1", "x=8,9", 3},
        {"x.T", "x=8,9", 1},
        {"exp(x).T", "x=8,9", 1},
        {"cumsum(x, 1).T", "x=8,9", 1},
};

static void test_passes(void)
{
        for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++, checks++) {
                char passes[32];
                sf_plan *plan = tool_plan(NULL, plans[i].expression, plans[i].shapes, false);
                CHECK(plan, "%s: %s", plans[i].expression, sf_last_error(NULL));
                if (!plan)
                        continue;
                char *json = tool_json(plan), *after = strstr(json, "\"after\": {\"passes\"");
                tool_field(after, "passes", passes, sizeof passes);
                CHECK(atoi(passes) == plans[i].passes, "%s takes %s passes, not %d", plans[i].expression, passes, plans[i].passes);
                CHECK(plans[i].passes < 2 || !strstr(json, "\"not_fused\": []"), "%s takes %s passes, and nothing says why", plans[i].expression, passes);
                free(json);
                sf_plan_destroy(plan);
        }
}

/* Why there is another pass: of which node, and in which words; NULL: nothing is said. */
static const struct {
        const char *expression, *node, *says;
} reasons[] = {
        {"y - max(x, 1, keepdim=True)", "max(x, 1, keepdim=True)", "needed for many elements"},
        {"x - max(x, 1, keepdim=True)", NULL, NULL},
        {"exp(x - max(x, 1, keepdim=True)) / sum(exp(x - max(x, 1, keepdim=True)), 1, keepdim=True)", NULL, NULL},
        {"cumsum(x, 1) / sum(y)", "sum(y, keepdim=True)", "needed for many elements"},
        {"cumsum(cumsum(x, 1), 0)", "cumsum(x, 1)", "along other axes"},
        {"cumsum(cumsum(x, 1), 1)", "cumsum(x, 1)", "scanned or folded again"},
        {"sum(x, 1, mask=cummax(y, 1) > 2)", "cummax(y, 1)", "scanned or folded again"},
        {"sum(x, 1) * sum(y, 1)", "sum(y, 1, keepdim=True)", "meets that of another scan or fold"},
        {"sum(x * x, 1) / 9 - square(mean(x, 1))", "mean(x, 1, keepdim=True)", "made in one read with another fold"},
        {"sum(x * y, 1) / 9 - square(mean(x, 1))", NULL, NULL}, /* the one follows the other */
        {"sum(x * y), sum(x * x)", NULL, NULL},
        {"sum(x, 1), sum(x * y, 1), max(y, 1)", NULL, NULL}, /* the first waits for the second */
        {"sum(x * y), sum(x * flip(y, 1))", "sum(x * flip(y, 1))", "among another fold's"},
        {"cumsum(x * y, 1), cumsum(x, 1)", "cumsum(x, 1)", "all tensors are the same"},
        {"cumsum(x, 1), cumsum(x, 1) * 2", "cumsum(x, 1)", "needed more than once"},
        {"cumsum(x, 1)[:, 3:]", "cumsum(x, 1)", "at other positions"},
        {"sum(x, 1), sum(x[:3], 1)", "sum(x[:3], 1)", "reads again what another pass reads: that one takes its elements at other positions"},
        {"sum(x, 0), sum(x, 1)", "sum(x, 1)", "reads again what another pass reads: that one goes along other axes"},
        {"sum(x, 1), x * 2", "x * 2", "one of the two is elementwise"},
        {"sum(x, 1), max(x, 1), min(x, 1), prod(x, 1), sum(x * x, 1)", "sum(x * x, 1)", "four results share one at most"},
        {"concat([x, y], 0)", "concat([x, y], 0)", "each part is a pass of its own"},
        {"cumsum(x, 1), cumsum(x, 1)", "cumsum(x, 1)", "a pass copies it"},
        {"x @ y.T", "sum(unsqueeze(x, 1) * unsqueeze(y, 0), 2)", "every product of a matmul"},
        {"sum(x), sum(y)", NULL, NULL},
        {"sum(x, 1), max(x, 1)", NULL, NULL},
};

static void test_reasons(void)
{
        for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++, checks++) {
                char node[128];
                sf_plan *plan = tool_plan(NULL, reasons[i].expression, strstr(reasons[i].expression, "y") ? "x=8,9 y=8,9" : "x=8,9", false);
                CHECK(plan, "%s: %s", reasons[i].expression, sf_last_error(NULL));
                if (!plan)
                        continue;
                char *json = tool_json(plan), *said = strstr(json, "\"not_fused\"");
                snprintf(node, sizeof node, "{\"node\": \"%s\", \"why\"", reasons[i].node ? reasons[i].node : "");
                const char *why = reasons[i].node ? strstr(said, node) : NULL, *end = why ? strchr(why, '}') : NULL, *words = why ? strstr(why, reasons[i].says) : NULL;
                CHECK(reasons[i].node ? words && words < end : !strncmp(said, "\"not_fused\": []", 15), "%s: of %s is not said that \"%s\":\n%s",
                      reasons[i].expression, reasons[i].node ? reasons[i].node : "nothing", reasons[i].says ? reasons[i].says : "", said);
                free(json);
                sf_plan_destroy(plan);
        }
}

/* A chain longer than a program: several passes, each with a remark, and the right numbers. */
static void test_long_chain(void)
{
        char line[4096] = "x", shapes[64] = "x=5";
        float x[5] = {1, 2, 3, 4, 5}, y[5];
        int64_t five[1] = {5};
        for (int i = 0; i < 100; i++)
                snprintf(line + strlen(line), sizeof line - strlen(line), " + %d", i);
        for (int e = 0; e < engine_count; e += 3, checks++) {
                sf_plan *plan = tool_plan(engines[e].ctx, line, shapes, true);
                sf_tensor in = tensor(x, SF_F32, 1, five), out = tensor(y, SF_F32, 1, five);
                CHECK(plan && sf_plan_run(plan, &in, &out, NULL) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                CHECK(y[0] == 4951 && y[4] == 4955, "100 additions give %g and %g", y[0], y[4]);
                char *json = tool_json(plan);
                CHECK(strstr(json, "longer than one pass takes"), "no remark on a long chain");
                free(json);
                sf_plan_destroy(plan);
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Running
 * ---------------------------------------------------------------------------------------------------------- */
static size_t bytes_of(const sf_tensor *t)
{
        size_t bytes = t->dtype.bits / 8u;
        for (int32_t d = 0; d < t->ndim; d++)
                bytes *= (size_t)t->shape[d];
        return bytes;
}

/* Long enough for the kernels of their own that sums of products have, on every engine, bit by bit. */
static void test_products(void)
{
        static const struct {
                const char *text, *shapes;
        } listed[] = {{"sum(x * v, 1)", "x=5,3001 v=3001"},
                      {"sum(x * v, 1)", "x=9,4096 v=9,4096"}, /* nothing is over */
                      {"sum(x * v, 1)", "x=6,2313:f64 v=1,2313:f64"},
                      {"sum(x * v, 1, initial=2)", "x=3,1281 v=1281"},
                      {"sum(square(x), 1) / 3", "x=4,5000"},
                      {"sum(x * v, 1)", "x=1,600001 v=600001"}, /* one axis shared by threads */
                      {"sum(x * v, 0)", "x=1500,70 v=1500,1"},
                      {"sum(x * v, 0)", "x=1031,130 v=130"},
                      {"sum(x * v, 0)", "x=2000,49 v=2000,49"},
                      {"sum(x * v, 0)", "x=513,200:f64 v=513,1:f64"},
                      {"sum(v * x, 0)", "x=1024,96 v=1024,1"},
                      {"sum(x * v, 0)", "x=50000,20 v=50000,1"},
                      {"sum(x * v, 1)", "x=3,1100,40 v=1,1100,1"},
                      {"sum(x * v, 1), max(x * v, 1), sum(x, 1)", "x=5,3001 v=3001"},
                      {"x @ v.T", "x=7,1500 v=11,1500"}};
        for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
                tool_shapes shapes;
                sf_graph *graph;
                sf_tensor in[TOOL_INPUTS], out[3];
                int64_t shape[3][SF_MAX_NDIM];
                char *right[3] = {NULL};
                int32_t outputs = 0;
                tool_read_shapes(listed[i].shapes, &shapes);
                CHECK(sf_graph_parse(REF, listed[i].text, &graph) == SF_OK, "%s", sf_last_error(REF));
                tool_order(graph, &shapes, in);
                int inputs = strchr(listed[i].text, 'v') ? 2 : 1;
                for (int k = 0; k < inputs; k++) {
                        size_t size = in[k].dtype.bits / 8u, count = bytes_of(&in[k]) / size;
                        in[k].data = malloc(count * size);
                        in[k].device = (sf_device){SF_CPU, 0};
                        for (size_t n = 0; n < count; n++) {
                                double v = (double)(hash(1000 * i + 100000000 * (size_t)k + n) % 2000003) / 1000001 - 1;
                                if (size == 8)
                                        ((double *)in[k].data)[n] = v;
                                else
                                        ((float *)in[k].data)[n] = n % 501 ? (float)v : -0.0f;
                        }
                }
                for (int e = 0; e < engine_count; e++, checks++) {
                        sf_plan *plan;
                        CHECK(sf_plan_create(engines[e].ctx, graph, inputs, in, NULL, &plan) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                        outputs = sf_plan_outputs(plan);
                        for (int32_t k = 0; k < outputs; k++) {
                                out[k] = (sf_tensor){.device = {SF_CPU, 0}, .shape = shape[k]};
                                sf_plan_output(plan, k, &out[k].ndim, shape[k], &out[k].dtype);
                                out[k].data = calloc(1, bytes_of(&out[k]));
                        }
                        CHECK(sf_plan_run(plan, in, out, NULL) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                        for (int32_t k = 0; k < outputs; k++) {
                                if (!e)
                                        right[k] = out[k].data;
                                CHECK(!memcmp(right[k], out[k].data, bytes_of(&out[k])), "%s of %s, output %d: %s has other bits", listed[i].text,
                                      listed[i].shapes, (int)k, engines[e].name);
                                if (e)
                                        free(out[k].data);
                        }
                        sf_plan_destroy(plan);
                }
                for (int32_t k = 0; k < outputs; k++)
                        free(right[k]);
                for (int k = 0; k < inputs; k++)
                        free(in[k].data);
                sf_graph_destroy(graph);
        }
}

enum { M = 6, N = 40, K = 30 };

typedef struct gemm {
        float x[M][K], w[N][K], out[M];
        int64_t x_shape[2], w_shape[2], out_shape[2];
        sf_tensor in[2], result;
} gemm;

static void gemm_fill(gemm *g, int with)
{
        for (int i = 0; i < M * K; i++)
                g->x[i / K][i % K] = (float)(i % 7) - 3;
        for (int i = 0; i < N * K; i++)
                g->w[i / K][i % K] = (float)((i * with) % 5) - 2;
        memcpy(g->x_shape, (int64_t[]){M, K}, sizeof g->x_shape);
        memcpy(g->w_shape, (int64_t[]){N, K}, sizeof g->w_shape);
        memcpy(g->out_shape, (int64_t[]){M, 1}, sizeof g->out_shape);
        g->in[0] = tensor(g->x, SF_F32, 2, g->x_shape);
        g->in[1] = tensor(g->w, SF_F32, 2, g->w_shape);
        g->result = tensor(g->out, SF_F32, 2, g->out_shape);
}

/* Small whole numbers: every way to sum them is exact. */
static bool gemm_right(const gemm *g, int with)
{
        for (int m = 0; m < M; m++) {
                double sum = 0;
                for (int n = 0; n < N; n++)
                        for (int k = 0; k < K; k++)
                                sum += g->x[m][k] * (float)(((n * K + k) * with) % 5 - 2);
                if (g->out[m] != (float)(sum / 2 * 1.5))
                        return false;
        }
        return true;
}

#define GEMM "sum((x @ w.T) / 2, axis=1, keepdim=True) * 1.5"
#define GEMM_SHAPES "x=6,30 w=40,30"

static void test_kept(void)
{
        for (int e = 0; e < engine_count; e += 3, checks++) {
                gemm g;
                uint64_t versions[2] = {0, 7};
                sf_run_options o = SF_RUN_OPTIONS_INIT;
                sf_plan *plan = tool_plan(engines[e].ctx, GEMM, GEMM_SHAPES, false);
                o.versions = versions;
                gemm_fill(&g, 3);
                CHECK(plan && sf_plan_run(plan, g.in, &g.result, &o) == SF_OK && gemm_right(&g, 3), "the first run: %s", sf_last_error(engines[e].ctx));
                /* The same version: what W's rows sum up to is not looked at again, as the caller said it need not be. */
                gemm_fill(&g, 2);
                CHECK(sf_plan_run(plan, g.in, &g.result, &o) == SF_OK && gemm_right(&g, 3), "a result was not kept");
                versions[1] = 8;
                CHECK(sf_plan_run(plan, g.in, &g.result, &o) == SF_OK && gemm_right(&g, 2), "a kept result outlived its version");
                versions[1] = 0;
                gemm_fill(&g, 4);
                CHECK(sf_plan_run(plan, g.in, &g.result, &o) == SF_OK && gemm_right(&g, 4), "an unknown version was taken for a known one");
                gemm_fill(&g, 1);
                CHECK(sf_plan_run(plan, g.in, &g.result, NULL) == SF_OK && gemm_right(&g, 1), "no versions at all");
                sf_plan_destroy(plan);
        }
}

typedef struct runner {
        sf_plan *plan;
        int with;
        bool right;
} runner;

static void *run_often(void *arg)
{
        runner *r = arg;
        gemm g;
        uint64_t versions[2] = {1, (uint64_t)r->with};
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        o.versions = versions;
        gemm_fill(&g, r->with);
        r->right = true;
        for (int i = 0; i < 300; i++) {
                memset(g.out, 0, sizeof g.out);
                r->right = r->right && sf_plan_run(r->plan, g.in, &g.result, &o) == SF_OK && gemm_right(&g, r->with);
        }
        return NULL;
}

/* One plan, four threads, two weights that take turns as the kept one. */
static void test_threads(void)
{
        enum { THREADS = 4 };
        pthread_t thread[THREADS];
        runner r[THREADS];
        sf_plan *plan = tool_plan(engines[engine_count - 1].ctx, GEMM, GEMM_SHAPES, false);
        for (int i = 0; i < THREADS; i++) {
                r[i] = (runner){plan, 2 + i % 2, false};
                CHECK(!pthread_create(&thread[i], NULL, run_often, &r[i]), "no thread");
        }
        for (int i = 0; i < THREADS; i++, checks++) {
                pthread_join(thread[i], NULL);
                CHECK(r[i].right, "a run beside others gave a wrong result");
        }
        sf_plan_destroy(plan);
}

static void refused(sf_plan *plan, const sf_tensor *in, const sf_tensor *out, const sf_run_options *o, const char *says)
{
        checks++;
        CHECK(sf_plan_run(plan, in, out, o) == SF_INVALID_ARGUMENT && strstr(sf_last_error(NULL), says), "not \"%s\": %s", says, sf_last_error(NULL));
}

static void test_run_refusals(void)
{
        gemm g;
        gemm_fill(&g, 1);
        sf_plan *plan = tool_plan(NULL, GEMM, GEMM_SHAPES, false);
        sf_tensor in[2] = {g.in[0], g.in[1]}, out = g.result;
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        int64_t other[2] = {M, K + 1};
        double wide[M];
        _Alignas(256) char workspace[4096];
        size_t size;
        in[0].shape = other;
        refused(plan, in, &out, NULL, "x has shape (6, 31); the plan is for (6, 30)");
        in[0] = g.in[0];
        in[1].dtype = SF_I32;
        refused(plan, in, &out, NULL, "w is i32");
        in[1] = g.in[1];
        out.data = g.x;
        refused(plan, in, &out, NULL, "out overlaps x");
        out = tensor(wide, SF_F64, 2, g.out_shape);
        refused(plan, in, &out, NULL, "out is f64");
        refused(plan, in, NULL, NULL, "outputs is NULL");
        refused(plan, NULL, &g.result, NULL, "inputs is NULL");
        CHECK(sf_plan_workspace(plan, &size) == SF_OK && size >= K * sizeof(float) && size <= sizeof workspace, "the workspace is %zu", size);
        o.workspace = workspace;
        o.workspace_size = size - 1;
        refused(plan, in, &g.result, &o, "workspace is");
        o.workspace_size = size;
        CHECK(sf_plan_run(plan, in, &g.result, &o) == SF_OK && gemm_right(&g, 1), "with a workspace: %s", sf_last_error(NULL));
        o.size = 3;
        refused(plan, in, &g.result, &o, "options->size");
        sf_plan_destroy(plan);
}

static void test_create_refusals(void)
{
        sf_graph *graph;
        sf_plan *plan;
        tool_shapes s;
        tool_read_shapes("x=2", &s);
        CHECK(sf_graph_create(NULL, &graph) == SF_OK, "no graph");
        int32_t x = sf_expr_input(graph, "x");
        CHECK(sf_plan_create(NULL, graph, 1, s.tensor, NULL, &plan) == SF_INVALID_ARGUMENT && strstr(sf_last_error(NULL), "no output"), "a graph without output");
        CHECK(sf_expr_apply(graph, SF_ADD, x, 9, 0) < 0 && strstr(sf_last_error(NULL), "b is node 9"), "%s", sf_last_error(NULL));
        /* A failed node makes later calls fail, and keeps the sentence. */
        CHECK(sf_expr_scan(graph, sf_expr_apply(graph, SF_EXP, x, x, 0), NULL) < 0 && strstr(sf_last_error(NULL), "takes 1 argument"), "%s", sf_last_error(NULL));
        CHECK(sf_expr_derived(graph, x, (sf_derived)99, NULL) < 0 && strstr(sf_last_error(NULL), "what is 99; it must be SF_MEAN"), "%s", sf_last_error(NULL));
        sf_expr_options o = SF_EXPR_OPTIONS_INIT;
        o.initial = sf_int(1);
        CHECK(sf_expr_derived(graph, x, SF_VAR, &o) < 0 && strstr(sf_last_error(NULL), "initial is set"), "%s", sf_last_error(NULL));
        o.initial = (sf_scalar){0};
        o.exclusive = 1;
        CHECK(sf_expr_derived(graph, x, SF_MEAN, &o) < 0 && strstr(sf_last_error(NULL), "exclusive is set; it is for scans"), "%s", sf_last_error(NULL));
        o.exclusive = 0;
        o.keepdim = 1;
        CHECK(sf_expr_derived(graph, x, SF_CUMVAR, &o) < 0 && strstr(sf_last_error(NULL), "keepdim is set"), "%s", sf_last_error(NULL));
        /* Options from a header that had neither skip_nan nor what follows it. */
        o = (sf_expr_options){.size = offsetof(sf_expr_options, skip_nan), .skip_nan = 1, .correction = NAN};
        CHECK(sf_expr_derived(graph, x, SF_VAR, &o) > 0, "%s", sf_last_error(NULL));
        CHECK(sf_expr_input(graph, "x") == x && sf_graph_inputs(graph) == 1, "the same name is another input");
        CHECK(sf_expr_output(graph, x) == 0 && sf_expr_output(graph, x) == 1, "outputs are not numbered");
        CHECK(sf_plan_create(NULL, graph, 2, s.tensor, NULL, &plan) == SF_INVALID_ARGUMENT && strstr(sf_last_error(NULL), "ninputs is 2"), "%s", sf_last_error(NULL));
        s.tensor[0].device.device_type = 99;
        CHECK(sf_plan_create(NULL, graph, 1, s.tensor, NULL, &plan) == SF_NO_DEVICE, "a device that is none");
        sf_graph_destroy(graph);
        CHECK(sf_graph_parse(NULL, NULL, &graph) == SF_INVALID_ARGUMENT && sf_plan_run(NULL, NULL, NULL, NULL) == SF_INVALID_ARGUMENT, "NULL is accepted");
        sf_graph_destroy(NULL);
        sf_plan_destroy(NULL);
        checks += 10;
}

/* Comparisons with a whole number are by value, whether the type holds it or not. */
static void test_whole_numbers(void)
{
        static const char *const tests[] = {"==", "!=", "<", "<=", ">", ">="};
        static const struct {
                const char *dtype, *number;
                int sign; /* of the number, seen from every value of the type */
        } listed[] = {
                {"u8", "256", 1},
                {"u8", "-1", -1},
                {"u8", "18446744073709551615", 1},
                {"i8", "128", 1},
                {"i8", "-129", -1},
                {"u16", "65536", 1},
                {"i16", "-32769", -1},
                {"u32", "4294967296", 1},
                {"i32", "2147483648", 1},
                {"u64", "-1", -1},
                {"i64", "9223372036854775808", 1},
        };
        char text[128], shapes[32];
        uint64_t zeros[3] = {0};
        uint8_t y[3];
        int64_t three[1] = {3};
        for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++)
                for (int k = 0; k < 12; k++, checks++) {
                        const int test = k % 6;
                        /* Is the left side? */
                        const bool less = k < 6 ? listed[i].sign > 0 : listed[i].sign < 0;
                        const uint8_t right = test == 1 || (test > 1 && less == (test < 4));
                        snprintf(text, sizeof text, "%s %s %s", k < 6 ? "x" : listed[i].number,
                                 tests[test], k < 6 ? listed[i].number : "x");
                        snprintf(shapes, sizeof shapes, "x=3:%s", listed[i].dtype);
                        tool_shapes s;
                        tool_read_shapes(shapes, &s);
                        sf_plan *plan = tool_plan(NULL, text, shapes, false);
                        sf_tensor in = tensor(zeros, s.tensor[0].dtype, 1, three),
                                  out = tensor(y, SF_BOOL, 1, three);
                        memset(y, 7, sizeof y);
                        CHECK(plan && sf_plan_run(plan, &in, &out, NULL) == SF_OK, "%s: %s", text,
                              sf_last_error(NULL));
                        CHECK(y[0] == right && y[1] == right && y[2] == right,
                              "%s of %s is %d %d %d", text, listed[i].dtype, y[0], y[1], y[2]);
                        sf_plan_destroy(plan);
                }
}

/* A product with a mask and a selection by it differ: NaN * 0 is NaN. */
static void test_mask_meanings(void)
{
        float x[3] = {1, NAN, 2}, y[3], z[3];
        uint8_t m[3] = {1, 0, 1};
        int64_t three[1] = {3};
        for (int e = 0; e < engine_count; e += 3, checks++) {
                sf_plan *plan = tool_plan(engines[e].ctx, "cumsum(x * m, 0), cumsum(where(m, x, 0), 0)", "x=3 m=3:bool", false);
                sf_tensor in[2] = {tensor(x, SF_F32, 1, three), tensor(m, SF_BOOL, 1, three)}, out[2] = {tensor(y, SF_F32, 1, three), tensor(z, SF_F32, 1, three)};
                CHECK(plan && sf_plan_run(plan, in, out, NULL) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                CHECK(y[0] == 1 && isnan(y[1]) && isnan(y[2]), "x * m: %g %g %g", y[0], y[1], y[2]);
                CHECK(z[0] == 1 && z[1] == 1 && z[2] == 3, "where(m, x, 0): %g %g %g", z[0], z[1], z[2]);
                sf_plan_destroy(plan);
        }
}

static void test_explanations(void)
{
        static const char *const begins[] = {"sum(x @ w.T / 2, 1, keepdim=True) * 1.5\n", "{\n", "digraph", "<svg"};
        static const char *const contains[] = {"[rounds differently]", "\"rounds\": true", "pass 2", "</svg>"};
        sf_plan *plan = tool_plan(NULL, GEMM, GEMM_SHAPES, false);
        for (int f = SF_EXPLAIN_TEXT; f <= SF_EXPLAIN_SVG; f++, checks++) {
                size_t needed, again;
                char small[16];
                CHECK(sf_plan_explain(plan, (sf_explain_format)f, NULL, 0, &needed) == SF_OK && needed > 100, "format %d", f);
                char *text = malloc(needed);
                CHECK(sf_plan_explain(plan, (sf_explain_format)f, text, needed, &again) == SF_OK && again == needed && strlen(text) == needed - 1, "format %d", f);
                CHECK(!strncmp(text, begins[f], strlen(begins[f])) && strstr(text, contains[f]), "format %d:\n%s", f, text);
                CHECK(sf_plan_explain(plan, (sf_explain_format)f, small, sizeof small, NULL) == SF_OK && !strncmp(small, text, 15) && !small[15], "cut short");
                free(text);
        }
        CHECK(sf_plan_explain(plan, (sf_explain_format)9, NULL, 0, NULL) == SF_INVALID_ARGUMENT, "a format that is none");
        sf_plan_destroy(plan);
}

int main(void)
{
        engines_open();
        test_readings();
        test_mistakes();
        test_refusals();
        test_places();
        test_passes();
        test_reasons();
        test_long_chain();
        test_products();
        test_kept();
        test_threads();
        test_run_refusals();
        test_create_refusals();
        test_whole_numbers();
        test_mask_meanings();
        test_explanations();
        engines_close();
        return finish("test_expr", checks);
}
