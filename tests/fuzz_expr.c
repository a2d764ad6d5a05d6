/*
 * The parser on lines made of its own words in any order, and on mutations of good ones; then, where a graph came out, planning it for
 * random shapes. Nothing may crash or hang; what is refused has a sentence, and a line's sentence has a caret under it. And sf_expr_ functions
 * called with any numbers at all.
 */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed;

static uint64_t pick(uint64_t below)
{
        return hash(seed++) % below;
}

static const char *const words[] = {
        "x", "y", "w", "(", ")", "[", "]", ",", ":", "...", "+", "-", "*", "/", "@", "**", "2", "0.5", "1e9", "sum", "cumsum", "mean", "max", "flip", "where", "exp",
        "axis=", "dim=", "keepdim=", "reverse=", "mask=", "dtype=", "f32", "bool", "True", "None", ".T", ".sum(", "concat([", "zeros_like(", "-1", "1", "0", "<", "==",
        "torch.", "np.", "(0, 1)", " ", "permute", "unsqueeze", "[:, 1:]", "[::-1]", "[..., None]", "\t", "\xc3\xa9", "~", "9223372036854775807", "masked_fill",
        "clamp", "linear", "1_000", ".", "=", "inf", "squeeze", "broadcast_to", "narrow", "var", "var_mean", "norm", "any", "cummean", "cumvar", "nanmax", "correction=", "skip_nan=",
        "offsets=", "spread",
};

static const char *const lines[] = {
        "sum((x @ w.T) / 2, axis=1, keepdim=True) * 1.5", "torch.cumsum(x * y, dim=1)", "flip(cumsum(flip(x, 1), 1), 1)", "x[..., 1:] - x[..., :-1]",
        "concat([zeros_like(x[:, :1]), cumsum(x, 1)[:, :-1]], 1)", "where(x > 0, x, 0).sum(1), max(x)", "mean(square(x - mean(x, 1, keepdim=True)), 1)",
        "masked_fill(x, y == 0, -inf).cummax(-1, reverse=True)", "linear(x, w, y).relu().sum((0, 1)).astype(f64)", "clamp(exp(x), 0, 1) / sum(exp(x), -1, keepdim=True)",
        "x - spread(mean(x, 0, offsets=y), 0, 5, offsets=y)",
};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static void make_line(char *line, size_t size)
{
        line[0] = 0;
        size_t at = 0;
        if (pick(2)) {
                for (uint64_t n = 1 + pick(20); n && at + 32 < size; n--) {
                        const char *word = words[pick(COUNT(words))];
                        memcpy(line + at, word, strlen(word) + 1);
                        at += strlen(word);
                }
                return;
        }
        snprintf(line, size, "%s", lines[pick(COUNT(lines))]);
        for (uint64_t n = pick(4); n; n--) {
                size_t length = strlen(line), place = (size_t)pick(length + 1);
                const char *word = words[pick(COUNT(words))];
                size_t more = strlen(word);
                if (pick(2) && place < length) /* a letter less */
                        memmove(line + place, line + place + 1, length - place);
                else if (length + more + 1 < size) {
                        memmove(line + place + more, line + place, length - place + 1);
                        memcpy(line + place, word, more);
                }
        }
}

static void plan_it(sf_context *ctx, const sf_graph *graph)
{
        static const sf_dtype dtypes[] = {{2, 32, 1}, {2, 64, 1}, {2, 16, 1}, {0, 32, 1}, {6, 8, 1}, {1, 8, 1}};
        sf_tensor inputs[16];
        int64_t shapes[16][4];
        int32_t count = sf_graph_inputs(graph);
        sf_plan *plan;
        sf_plan_options o = SF_PLAN_OPTIONS_INIT;
        if (count > 16)
                return;
        uint64_t square = pick(2);
        for (int32_t i = 0; i < count; i++) {
                inputs[i] = (sf_tensor){.device = {SF_CPU, 0}, .ndim = square ? 2 : (int32_t)pick(4), .dtype = dtypes[square ? 0 : pick(6)], .shape = shapes[i]};
                for (int32_t d = 0; d < 4; d++)
                        shapes[i][d] = square ? 5 : (int64_t)pick(6);
        }
        o.exact = (int32_t)pick(2);
        if (sf_plan_create(ctx, graph, count, inputs, &o, &plan) != SF_OK) {
                CHECK(*sf_last_error(ctx), "a plan was refused without a sentence");
                return;
        }
        char text[512];
        size_t size;
        CHECK(sf_plan_workspace(plan, &size) == SF_OK, "a plan has no workspace");
        CHECK(sf_plan_explain(plan, (sf_explain_format)pick(4), text, sizeof text, &size) == SF_OK && strlen(text) < sizeof text, "a plan has no explanation");
        /* And it runs. */
        char *memory[32] = {0};
        sf_tensor outputs[16];
        int64_t out_shape[16][SF_MAX_NDIM];
        int32_t outs = sf_plan_outputs(plan);
        for (int32_t i = 0; i < count; i++)
                inputs[i].data = memory[i] = calloc(1, 8 * 6 * 6 * 6 * 6 + 8);
        bool small = outs <= 16;
        for (int32_t i = 0; small && i < outs; i++) {
                int64_t elements = 1;
                outputs[i] = (sf_tensor){.device = {SF_CPU, 0}, .shape = out_shape[i]};
                sf_plan_output(plan, i, &outputs[i].ndim, out_shape[i], &outputs[i].dtype);
                for (int32_t d = 0; d < outputs[i].ndim && elements < 100000; d++)
                        elements *= out_shape[i][d];
                small = elements < 100000;
                outputs[i].data = memory[16 + i] = small ? calloc(1, 8 * (size_t)elements + 8) : NULL;
        }
        if (small)
                CHECK(sf_plan_run(plan, inputs, outputs, NULL) == SF_OK, "a plan does not run: %s", sf_last_error(ctx));
        for (int i = 0; i < 32; i++)
                free(memory[i]);
        sf_plan_destroy(plan);
}

static void parse_line(sf_context *ctx, const char *line)
{
        sf_graph *graph;
        if (sf_graph_parse(ctx, line, &graph) != SF_OK) {
                const char *sentence = sf_last_error(ctx), *caret = strrchr(sentence, '\n');
                CHECK(*sentence && caret && caret[strlen(caret) - 1] == '^', "no caret for %s: %s", line, sentence);
                return;
        }
        plan_it(ctx, graph);
        sf_graph_destroy(graph);
}

/* Any numbers: nodes and axes that do not exist, lists that are too long. */
static void build_one(sf_context *ctx)
{
        sf_graph *graph;
        CHECK(sf_graph_create(ctx, &graph) == SF_OK, "no graph");
        int32_t last = sf_expr_input(graph, "x");
        for (uint64_t n = pick(12); n; n--) {
                int32_t a = pick(8) ? (int32_t)pick(1 + (uint64_t)last) : (int32_t)pick(5) - 3, b = (int32_t)pick(1 + (uint64_t)last), made = -1;
                int32_t axes[4] = {(int32_t)pick(4) - 2, (int32_t)pick(4) - 2, (int32_t)pick(4) - 2, (int32_t)pick(400) - 200};
                int64_t shape[4] = {(int64_t)pick(4) - 1, 5, (int64_t)pick(6), -1};
                sf_expr_options o = SF_EXPR_OPTIONS_INIT;
                o.op = (sf_op)pick(11);
                o.naxes = (int32_t)pick(4);
                o.axes = pick(3) ? axes : NULL;
                o.mask = pick(3) ? 0 : b;
                o.exclusive = !pick(4);
                o.keepdim = !pick(3);
                o.skip_nan = !pick(3);
                o.offsets = pick(8) ? 0 : b;
                o.correction = pick(3) ? 1 : NAN;
                o.weight = pick(6) ? 0 : b;
                o.bias = pick(8) ? 0 : b;
                o.eps = pick(4) ? (sf_scalar){0} : sf_real((double)pick(3) - 1);
                o.order = pick(2) ? (sf_scalar){0} : sf_real((double)pick(7) / 2 - 1);
                switch (pick(13)) {
                case 0: made = sf_expr_constant(graph, pick(8) ? sf_real(1.5) : (sf_scalar){.kind = (int32_t)pick(6)}); break;
                case 1: made = sf_expr_apply(graph, (sf_function)pick(24), a, pick(2) ? b : 0, pick(3) ? 0 : b); break;
                case 2: made = sf_expr_cast(graph, a, (sf_dtype){(uint8_t)pick(7), (uint8_t)(8u << pick(4)), 1}); break;
                case 3: made = sf_expr_flip(graph, a, (int32_t)pick(3), pick(4) ? axes : NULL); break;
                case 4: made = sf_expr_permute(graph, a, (int32_t)pick(5), pick(4) ? axes : NULL); break;
                case 5: made = pick(2) ? sf_expr_squeeze(graph, a, axes[0]) : sf_expr_unsqueeze(graph, a, axes[pick(4)]); break;
                case 6: made = sf_expr_broadcast(graph, a, (int32_t)pick(5), shape); break;
                case 7: made = sf_expr_slice(graph, a, axes[0], (int64_t)pick(9) - 4, pick(2) ? SF_SLICE_END : (int64_t)hash(seed), (int64_t)pick(5) - 2); break;
                case 8:
                        made = pick(2) ? sf_expr_select(graph, a, axes[0], (int64_t)pick(9) - 4) : sf_expr_spread(graph, a, axes[0], (int64_t)pick(9) - 4, b);
                        break;
                case 9: made = sf_expr_concat(graph, axes[0], (int32_t)pick(4), (int32_t[]){a, b, a, b}); break;
                case 10:
                        made = pick(3) == 0   ? sf_expr_recurrence(graph, a, b, &o)
                               : pick(2) == 0 ? sf_expr_scan(graph, a, &o)
                                              : sf_expr_derived(graph, a, (sf_derived)pick(20), &o);
                        break;
                case 11: made = sf_expr_fold(graph, a, &o); break;
                default: made = pick(2) ? sf_expr_matmul(graph, a, b) : sf_expr_linear(graph, a, b, 0); break;
                }
                last = made > 0 ? made : last;
        }
        sf_expr_output(graph, last);
        plan_it(ctx, graph);
        sf_graph_destroy(graph);
}

#ifdef SF_LIBFUZZER
/* SF_LIBFUZZER is 1: the bytes are a line. 2: they decide which words a line has, and about the nodes of a graph. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char line[1024];
        if (!engine_count)
                engines_open();
        seed = 1;
        draw_from(data, SF_LIBFUZZER == 1 ? 0 : size);
        if (SF_LIBFUZZER == 2) {
                make_line(line, sizeof line);
                parse_line(REF, line);
                build_one(REF);
        } else if (size < sizeof line) {
                memcpy(line, data, size);
                line[size] = 0;
                parse_line(REF, line);
        }
        if (failures)
                abort();
        return 0;
}
#else
int main(int argc, char **argv)
{
        char line[1024];
        long count = argc > 1 ? atol(argv[1]) : 20000, first = argc > 2 ? atol(argv[2]) : 0;
        engines_open();
        for (long i = first; i < first + count; i++) {
                seed = hash((uint64_t)i);
                make_line(line, sizeof line);
                parse_line(REF, line);
                build_one(REF);
        }
        engines_close();
        return finish("fuzz_expr", 2 * count);
}
#endif
