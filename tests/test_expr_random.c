/*
 * Random graphs over small shapes: evaluated operator by operator (naive.c), and as a plan on every
 * engine. Under `exact` every bit must be the same; without it, reals must lie within the bound
 * that follows from the roundings (naive.h). So must, on a device whose exp, log, sigmoid and tanh
 * are its own, what they are in; they are then kept out of graphs that compare and cast. Of values
 * as large as there are, what is finite operator by operator must be finite, and where a result is
 * not, every bit of it must be the same.
 */
#include "expr_tools.h"
#include "naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NODES 24

typedef struct graph {
        uint64_t seed;
        sf_graph *g;
        bool linear;   /* only what the bound holds for */
        bool huge;     /* linear, and its values near the largest there are */
        int count;
        int32_t node[NODES];
        array *value[NODES];
        int inputs;
        array *input[4];
} graph;

static uint64_t pick(graph *r, uint64_t below)
{
        return hash(r->seed++) % below;
}

static bool is_real(int dt)
{
        return dts[dt].kind == 'r';
}

static void add(graph *r, int32_t node, array *value)
{
        CHECK(node > 0, "seed: %s", sf_last_error(NULL));
        r->node[r->count] = node;
        r->value[r->count++] = value;
}

static array *any(graph *r, int32_t *node)
{
        int i = (int)pick(r, (uint64_t)r->count);
        *node = r->node[i];
        return r->value[i];
}

/* ------------------------------------------------------------------------------------------------------------
 * Operators at random
 * ---------------------------------------------------------------------------------------------------------- */
/* Of one sign or the other, two of them perhaps too large for a sum; some small ones. */
static double huge_value(graph *r, double v, int dt)
{
        return pick(r, 3) ? (v < 0 ? -1 : 1) * (0.1 + (double)pick(r, 900) / 1000) *
                                    (dt == DT_F64 ? 1.7e308 : 3.3e38)
                          : v * 1e-10;
}

static void add_input(graph *r)
{
        static const int exact[] = {DT_F32, DT_F32, DT_F64, DT_F16, DT_BF16, DT_I32, DT_I64, DT_U8, DT_I8, DT_BOOL};
        static const int linear[] = {DT_F32, DT_F32, DT_F64};
        static const char *const names[] = {"a", "b", "c", "d"};
        int64_t shape[3] = {0};
        int32_t ndim = (int32_t)pick(r, 4);
        for (int32_t d = 0; d < ndim; d++)
                shape[d] = pick(r, 12) ? 1 + (int64_t)pick(r, 4) : 0;
        if (pick(r, 3)) /* mostly shapes that meet */
                for (int32_t d = 0; d < ndim; d++)
                        shape[d] = d == ndim - 1 ? 4 : d == ndim - 2 ? 3 : 2;
        array *a = array_new(r->linear ? linear[pick(r, 3)] : exact[pick(r, 10)], ndim, shape);
        for (int64_t i = 0; i < a->count; i++) {
                double v = (double)(int64_t)pick(r, 9) - 4;
                if (is_real(a->dt))
                        v = r->huge                    ? huge_value(r, v, a->dt)
                            : pick(r, 20) || r->linear ? v + (double)pick(r, 1000) / 999
                            : pick(r, 3)               ? INFINITY
                            : pick(r, 2)               ? NAN
                                                       : -0.0;
                array_set(a, i, a->dt == DT_BOOL ? v > 0 : dts[a->dt].kind == 'u' ? fabs(v) : v);
                a->mag[i] = fabs(array_get(a, i));
        }
        r->input[r->inputs] = a;
        add(r, sf_expr_input(r->g, names[r->inputs++]), a);
}

static void add_apply(graph *r)
{
        static const sf_function bent[] = {SF_EXP, SF_LOG, SF_SIGMOID, SF_TANH};
        static const sf_function exact[] = {SF_ADD, SF_SUB, SF_MUL, SF_DIV, SF_MAXIMUM, SF_MINIMUM, SF_NEG, SF_ABS, SF_SQRT, SF_SQUARE, SF_RELU,
                                            SF_EQ, SF_NE, SF_LT, SF_LE, SF_GT, SF_GE, SF_WHERE};
        static const sf_function linear[] = {SF_ADD, SF_SUB, SF_MUL, SF_DIV, SF_NEG, SF_ABS, SF_RELU};
        sf_function f = pick(r, 6) == 0 ? bent[pick(r, 4)] : r->linear ? linear[pick(r, 7)] : exact[pick(r, 18)];
        int takes = f == SF_WHERE ? 3 : f == SF_NEG || f == SF_ABS || f == SF_SQRT || f == SF_SQUARE || f == SF_RELU || naive_bent(f) ? 1 : 2;
        int32_t node[3] = {0};
        array *value[3] = {0}, *made[3] = {0};
        bool real[3] = {0};
        double number[3] = {0};
        for (int i = 0; i < takes; i++) {
                value[i] = any(r, &node[i]);
                if (f == SF_WHERE && i == 0 && value[i]->dt != DT_BOOL && value[i]->dt != DT_U8)
                        return;
                bool constant = i == takes - 1 && takes > 1 && (pick(r, 2) || (r->linear && f == SF_DIV));
                if (constant) {
                        real[i] = pick(r, 2);
                        number[i] = real[i] ? 0.75 * (double)(1 + pick(r, 3)) : (double)(1 + pick(r, 4));
                        value[i] = NULL;
                        node[i] = sf_expr_constant(r->g, real[i] ? sf_real(number[i]) : sf_int((int64_t)number[i]));
                }
        }
        for (int i = 0; i < takes; i++)
                for (int k = 0; k < i; k++)
                        if (value[i] && value[k] && !naive_broadcasts(value[i], value[k]))
                                return;
        int dt = naive_type(f, takes, value, real);
        if (dt == DT_NONE)
                return;
        if (r->linear && naive_bent(f) && !naive_tame(f, value[0]))
                return;
        for (int i = 0; i < takes; i++)
                made[i] = !value[i] ? naive_number(dt, number[i]) : naive_cast(value[i], f == SF_WHERE && i == 0 ? DT_BOOL : dt);
        for (int i = 0; i < takes; i++)
                if (made[i] && value[i])
                        made[i]->k = value[i]->k;
        add(r, sf_expr_apply(r->g, f, node[0], node[1], node[2]), naive_apply(f, dt, made[0], made[1], made[2]));
        for (int i = 0; i < 3; i++)
                array_free(made[i]);
}

static void add_cast(graph *r)
{
        static const int to[] = {DT_F32, DT_F64, DT_F16, DT_I32, DT_BOOL, DT_I64};
        int32_t node;
        array *a = any(r, &node);
        int dt = r->linear ? DT_F64 : to[pick(r, 6)];
        if (is_real(a->dt) && !is_real(dt) && dt != DT_BOOL) /* values out of an integer's range are another test's */
                for (int64_t i = 0; i < a->count; i++)
                        if (!(fabs(array_get(a, i)) < 1e9))
                                return;
        add(r, sf_expr_cast(r->g, node, dts[dt].dtype), naive_cast(a, dt));
}

static void add_view(graph *r)
{
        int32_t node, axes[NAIVE_NDIM];
        array *a = any(r, &node);
        int32_t axis = a->ndim ? (int32_t)pick(r, (uint64_t)a->ndim) : 0;
        int64_t shape[NAIVE_NDIM];
        switch (pick(r, 6)) {
        case 0:
        case 1:
                if (a->ndim)
                        add(r, sf_expr_flip(r->g, node, 1, &axis), naive_flip(a, (uint64_t)1 << axis));
                return;
        case 2:
                for (int32_t d = 0; d < a->ndim; d++)
                        axes[d] = (d + axis) % a->ndim;
                if (a->ndim)
                        add(r, sf_expr_permute(r->g, node, a->ndim, axes), naive_permute(a, axes));
                return;
        case 3:
                axis = (int32_t)pick(r, (uint64_t)a->ndim + 1);
                if (a->ndim < 4)
                        add(r, sf_expr_unsqueeze(r->g, node, axis), naive_unsqueeze(a, axis));
                return;
        case 4:
                if (a->ndim > 3)
                        return;
                shape[0] = 1 + (int64_t)pick(r, 3);
                for (int32_t d = 0; d < a->ndim; d++)
                        shape[d + 1] = a->shape[d] == 1 ? 1 + (int64_t)pick(r, 3) : a->shape[d];
                add(r, sf_expr_broadcast(r->g, node, a->ndim + 1, shape), naive_broadcast(a, a->ndim + 1, shape));
                return;
        default: {
                if (!a->ndim || !a->shape[axis])
                        return;
                int64_t n = a->shape[axis], start = (int64_t)pick(r, (uint64_t)n), step = pick(r, 3) ? 1 : 2, length = (n - start + step - 1) / step;
                if (pick(r, 4) == 0) { /* backwards, down to the first */
                        add(r, sf_expr_slice(r->g, node, axis, start, SF_SLICE_END, -1), naive_slice(a, axis, start, -1, start + 1));
                        return;
                }
                if (pick(r, 2)) { /* or all but the last */
                        start = 0;
                        step = 1;
                        length = n - 1;
                }
                add(r, sf_expr_slice(r->g, node, axis, start, start + length * step, step), naive_slice(a, axis, start, step, length));
        }
        }
}

static void add_concat(graph *r)
{
        int32_t node, other;
        array *a = any(r, &node), *b = any(r, &other), *like = NULL;
        int32_t axis = a->ndim ? (int32_t)pick(r, (uint64_t)a->ndim) : 0;
        if (!a->ndim)
                return;
        if (pick(r, 2) && a->shape[axis]) { /* a line of zeros before it: half of an exclusive scan */
                int32_t line = sf_expr_slice(r->g, node, axis, 0, 1, 1), parts[2];
                b = naive_slice(a, axis, 0, 1, 1);
                like = b;
                for (int64_t i = 0; i < b->count; i++)
                        array_set(b, i, b->mag[i] = 0);
                parts[0] = sf_expr_like(r->g, line, sf_int(0));
                parts[1] = node;
                add(r, sf_expr_concat(r->g, axis, 2, parts), naive_concat(b, a, axis));
                array_free(like);
                return;
        }
        bool fits = a->ndim == b->ndim && a->dt == b->dt;
        for (int32_t d = 0; fits && d < a->ndim; d++)
                fits = d == axis || a->shape[d] == b->shape[d];
        if (fits)
                add(r, sf_expr_concat(r->g, axis, 2, (int32_t[]){node, other}), naive_concat(a, b, axis));
}

static bool needs_elements(sf_op op)
{
        return op >= SF_MAX && op <= SF_LAST_ARGMIN;
}

static void add_recurrence(graph *r)
{
        int32_t a_node, b_node, axis;
        array *a = any(r, &a_node), *b = any(r, &b_node);
        sf_expr_options o = SF_EXPR_OPTIONS_INIT;
        bool fits = !r->linear && b->ndim && a->ndim <= b->ndim;
        for (int32_t d = 1; fits && d <= a->ndim; d++)
                fits = a->shape[a->ndim - d] == 1 || a->shape[a->ndim - d] == b->shape[b->ndim - d];
        /* integers into f16 and bf16 are refused */
        for (int i = 0; i < 2 && fits; i++)
                fits = !((i ? a : b)->dt == DT_F16 || (i ? a : b)->dt == DT_BF16) || is_real((i ? b : a)->dt);
        if (!fits)
                return;
        axis = (int32_t)pick(r, (uint64_t)b->ndim);
        o.axes = &axis;
        o.naxes = 1;
        o.reverse = pick(r, 4) == 0;
        o.exclusive = pick(r, 4) == 0;
        o.initial = pick(r, 4) ? (sf_scalar){0} : sf_real(0.75);
        add(r, sf_expr_recurrence(r->g, a_node, b_node, &o), naive_recurrence(a, b, &o));
}

static void add_reduce(graph *r)
{
        int32_t node, mask_node, axes[2];
        array *a = any(r, &node), *mask = any(r, &mask_node);
        bool scan = pick(r, 2), mean = !scan && is_real(a->dt) && !pick(r, 4);
        sf_expr_options o = SF_EXPR_OPTIONS_INIT;
        o.op = mean ? SF_SUM : r->linear ? (pick(r, 4) ? SF_SUM : SF_MAX) : (sf_op)pick(r, 9);
        o.reverse = pick(r, 4) == 0;
        o.exclusive = scan && pick(r, 4) == 0;
        o.keepdim = !scan && pick(r, 2);
        /* An exclusive extreme begins with an infinity, which no bound survives. */
        if (r->linear && o.exclusive)
                o.op = SF_SUM;
        if (a->ndim) {
                axes[0] = (int32_t)pick(r, (uint64_t)a->ndim);
                axes[1] = (axes[0] + 1) % a->ndim;
                o.axes = pick(r, 5) || scan ? axes : NULL;
                o.naxes = scan || a->ndim < 2 || pick(r, 2) ? 1 : 2;
        }
        if (needs_elements(o.op) && !a->count)
                return;
        bool fits = (mask->dt == DT_BOOL || mask->dt == DT_U8) && mask->ndim <= a->ndim && pick(r, 2) && !(r->linear && o.op != SF_SUM);
        for (int32_t d = 1; fits && d <= mask->ndim; d++)
                fits = mask->shape[mask->ndim - d] == 1 || mask->shape[mask->ndim - d] == a->shape[a->ndim - d];
        o.mask = fits ? mask_node : 0;
        int32_t made = scan ? sf_expr_scan(r->g, node, &o) : mean ? sf_expr_mean(r->g, node, &o) : sf_expr_fold(r->g, node, &o);
        add(r, made, naive_reduce(scan, mean, a, fits ? mask : NULL, &o));
        /* Another fold of the same, or the scan's total: of one read, perhaps. */
        if (!scan)
                o.op = o.mask && r->linear ? SF_SUM : r->linear ? (o.op == SF_SUM ? SF_MAX : SF_SUM) : (sf_op)pick(r, 9);
        o.exclusive = false;
        if (pick(r, 3) || (needs_elements(o.op) && !a->count))
                return;
        add(r, sf_expr_fold(r->g, node, &o), naive_reduce(false, false, a, fits ? mask : NULL, &o));
}

/* A function of two that are there. */
static void add_of_two(graph *r, sf_function f, int left, int right)
{
        array *pair[2] = {r->value[left], r->value[right]};
        const int dt = naive_type(f, 2, pair, (const bool[]){false, false});
        if (dt == DT_NONE || r->count == NODES)
                return;
        array *a = naive_cast(pair[0], dt), *b = naive_cast(pair[1], dt);
        a->k = pair[0]->k;
        b->k = pair[1]->k;
        add(r, sf_expr_apply(r->g, f, r->node[left], r->node[right], 0), naive_apply(f, dt, a, b, NULL));
        array_free(a);
        array_free(b);
}

/* A fold that goes back to its elements, once or twice: x - max(x), and that over its sum. */
static void add_stretched(graph *r)
{
        static const sf_function between[] = {SF_SUB, SF_MUL, SF_ADD, SF_SUB};
        int x = (int)pick(r, (uint64_t)r->count);
        int32_t axes[2];
        sf_expr_options o = SF_EXPR_OPTIONS_INIT;
        const array *a = r->value[x];
        if (!a->ndim || !a->count)
                return;
        axes[0] = (int32_t)pick(r, (uint64_t)a->ndim);
        axes[1] = (axes[0] + 1) % a->ndim;
        o.axes = axes;
        o.naxes = a->ndim < 2 || pick(r, 3) ? 1 : 2;
        o.keepdim = 1;
        o.reverse = pick(r, 4) == 0;
        const int original = x;
        for (int turns = 1 + (int)pick(r, 2); turns && r->count + 2 <= NODES; turns--) {
                const bool mean = is_real(r->value[x]->dt) && !pick(r, 3);
                const int before = r->count;
                o.op = mean || pick(r, 2) ? SF_SUM : SF_MAX;
                add(r, mean ? sf_expr_mean(r->g, r->node[x], &o) : sf_expr_fold(r->g, r->node[x], &o), naive_reduce(false, mean, r->value[x], NULL, &o));
                add_of_two(r, between[pick(r, 4)], pick(r, 2) ? x : original, before);
                if (r->count == before + 1)
                        return;
                x = r->count - 1;
        }
}

static void add_matmul(graph *r)
{
        int32_t a_node, b_node;
        array *a = any(r, &a_node), *b = any(r, &b_node), *pair[2] = {a, b};
        bool no[2] = {false, false};
        if (a->ndim != 2 || b->ndim != 2)
                return;
        array *turned = naive_permute(b, (int32_t[]){1, 0});
        bool turn = a->shape[1] == b->shape[1];
        int dt = naive_type(SF_MUL, 2, pair, no);
        if (dt != DT_NONE && dt != DT_BOOL && (turn || a->shape[1] == b->shape[0]))
                add(r, sf_expr_matmul(r->g, a_node, turn ? sf_expr_permute(r->g, b_node, 0, NULL) : b_node), naive_matmul(a, turn ? turned : b, dt));
        array_free(turned);
}

/* ------------------------------------------------------------------------------------------------------------
 * Comparing
 * ---------------------------------------------------------------------------------------------------------- */
static bool close_enough(const array *right, const array *given, int64_t i)
{
        double a = array_get(right, i), b = array_get(given, i);
        if (!is_real(right->dt) || (isnan(a) && isnan(b))) /* the mean of nothing */
                return a == b || isnan(b);
        /* Even an f64 may have been an f32 before: 2^-24 is half an f32's last place. */
        return fabs(a - b) <= 2 * right->k * 0x1p-24 * right->mag[i] * 1.01 + 1e-30;
}

/* A view of an array in memory of its own: compact, or with room between and the other way round. */
static sf_tensor lay_out(const array *a, bool odd, char **memory, int64_t *strides)
{
        int64_t stride = odd ? 2 : 1, low = 0;
        for (int32_t d = 0; d < a->ndim; d++) { /* the first axis fastest, where it is odd */
                int32_t axis = odd ? d : a->ndim - 1 - d;
                strides[axis] = odd && d % 2 ? -stride : stride;
                low += strides[axis] < 0 && a->shape[axis] ? (a->shape[axis] - 1) * stride : 0;
                stride *= a->shape[axis] ? a->shape[axis] : 1;
        }
        *memory = calloc((size_t)stride + 2, 8);
        return (sf_tensor){.data = *memory, .device = {SF_CPU, 0}, .ndim = a->ndim, .dtype = dts[a->dt].dtype, .shape = (int64_t *)a->shape, .strides = strides,
                           .byte_offset = (uint64_t)(low * dts[a->dt].size)};
}

static void copy(const array *a, const sf_tensor *t, bool out)
{
        for (int64_t i = 0; i < a->count; i++) {
                int64_t at = 0, rest = i;
                for (int32_t d = a->ndim - 1; d >= 0; d--) {
                        at += rest % a->shape[d] * t->strides[d];
                        rest /= a->shape[d];
                }
                char *p = (char *)t->data + t->byte_offset + at * dts[a->dt].size, *q = a->data + i * dts[a->dt].size;
                memcpy(out ? q : p, out ? p : q, (size_t)dts[a->dt].size);
        }
}

/* More than one pass for one result has a reason, and the explanation gives it. */
static void check_reasons(sf_plan *plan, uint64_t seed)
{
        char passes[32], *json = tool_json(plan);
        tool_field(strstr(json, "\"after\": {\"passes\""), "passes", passes, sizeof passes);
        CHECK(atoi(passes) < 2 || !strstr(json, "\"not_fused\": []"), "seed %llu: %s passes, and nothing says why\n%s", (unsigned long long)seed, passes, json);
        free(json);
}

static void check_on(const engine *e, const graph *r, uint64_t seed, bool exact, int outputs, const int *output, bool odd)
{
        sf_tensor in[4], out[3];
        int64_t strides[8][NAIVE_NDIM];
        char *memory[8] = {0};
        sf_plan *plan;
        sf_plan_options o = SF_PLAN_OPTIONS_INIT;
        o.exact = exact;
        for (int i = 0; i < r->inputs; i++) {
                in[i] = lay_out(r->input[i], odd, &memory[i], strides[i]);
                copy(r->input[i], &in[i], false);
        }
        sf_status status = sf_plan_create(e->ctx, r->g, r->inputs, in, &o, &plan);
        CHECK(status == SF_OK, "seed %llu: %s", (unsigned long long)seed, sf_last_error(e->ctx));
        if (status != SF_OK)
                return;
        for (int i = 0; i < outputs; i++) {
                const array *v = r->value[output[i]];
                int32_t ndim;
                int64_t shape[SF_MAX_NDIM];
                sf_dtype dtype;
                sf_plan_output(plan, i, &ndim, shape, &dtype);
                bool same = ndim == v->ndim && dtype.code == dts[v->dt].dtype.code && dtype.bits == dts[v->dt].dtype.bits;
                for (int32_t d = 0; same && d < ndim; d++)
                        same = shape[d] == v->shape[d];
                CHECK(same, "seed %llu: output %d has another shape or dtype: code %d, %d bits, rank %d; wanted %s, rank %d", (unsigned long long)seed, i, dtype.code,
                      dtype.bits, (int)ndim, dts[v->dt].name, (int)v->ndim);
                if (!same) {
                        sf_plan_destroy(plan);
                        return;
                }
                out[i] = lay_out(v, odd, &memory[4 + i], strides[4 + i]);
        }
        if (e == &engines[0] && outputs == 1)
                check_reasons(plan, seed);
        status = sf_plan_run(plan, in, out, NULL);
        CHECK(status == SF_OK, "seed %llu on %s: %s", (unsigned long long)seed, e->name, sf_last_error(e->ctx));
        for (int i = 0; i < outputs && status == SF_OK; i++) {
                const array *v = r->value[output[i]];
                array *given = array_new(v->dt, v->ndim, v->shape);
                copy(given, &out[i], true);
                for (int64_t k = 0; k < v->count; k++) {
                        char *a = v->data + k * dts[v->dt].size, *b = given->data + k * dts[v->dt].size;
                        bool same = same_bits(v->dt, a, b),
                             finite = !is_real(v->dt) || isfinite(array_get(given, k));
                        bool good = exact     ? same
                                    : r->huge ? finite || same
                                              : close_enough(v, given, k);
                        if (!good) {
                                char text[4000];
                                sf_plan_explain(plan, SF_EXPLAIN_TEXT, text, sizeof text, NULL);
                                FAIL("seed %llu on %s%s%s: output %d, element %lld is %.17g; operator by operator %.17g (k %g, mag %g)\n%s", (unsigned long long)seed, e->name,
                                     exact ? ", exact" : "", odd ? ", odd strides" : "", i, (long long)k, array_get(given, k), array_get(v, k), v->k, v->mag[k], text);
                                break;
                        }
                }
                array_free(given);
        }
        sf_plan_destroy(plan);
        for (int i = 0; i < 8; i++)
                free(memory[i]);
}

static void check_graph(uint64_t seed, bool linear, bool huge)
{
        graph r = {.seed = hash(seed) ^ (huge     ? 0x3333
                                         : linear ? 0x5555
                                                  : 0),
                   .linear = linear,
                   .huge = huge};
        CHECK(sf_graph_create(REF, &r.g) == SF_OK, "%s", sf_last_error(REF));
        int inputs = 1 + (int)pick(&r, 3), ops = 2 + (int)pick(&r, 10);
        for (int i = 0; i < inputs; i++)
                add_input(&r);
        for (int i = 0; i < 4 * ops && r.count < inputs + ops && r.count < NODES - 3; i++) {
                switch (pick(&r, 14)) {
                case 0:
                case 1:
                case 2:
                case 3: add_apply(&r); break;
                case 4:
                case 5: add_view(&r); break;
                case 6: add_cast(&r); break;
                case 7: add_concat(&r); break;
                case 8: add_matmul(&r); break;
                case 9: add_recurrence(&r); break;
                case 10:
                case 11: add_stretched(&r); break;
                default: add_reduce(&r); break;
                }
        }
        int outputs = 1 + (int)pick(&r, 3), output[3];
        for (int i = 0; i < outputs; i++) {
                output[i] = !i ? r.count - 1 : i == 1 && r.count > 1 && pick(&r, 2) ? r.count - 2 : (int)pick(&r, (uint64_t)r.count);
                sf_expr_output(r.g, r.node[output[i]]);
        }
        int first = (int)(seed % (uint64_t)engine_count);
        if (!huge) {
                check_on(&engines[0], &r, seed, true, outputs, output, false);
                check_on(&engines[first], &r, seed, true, outputs, output, pick(&r, 2));
        }
        if (linear) {
                check_on(&engines[0], &r, seed, false, outputs, output, true);
                check_on(&engines[first], &r, seed, false, outputs, output, false);
        }
        for (int i = 0; i < r.count; i++)
                array_free(r.value[i]);
        sf_graph_destroy(r.g);
}

int main(int argc, char **argv)
{
        long count = argc > 1 ? atol(argv[1]) : 2000, first = argc > 2 ? atol(argv[2]) : 0;
        engines_open();
        for (long i = first; i < first + count; i++) {
                check_graph((uint64_t)i, false, false);
                check_graph((uint64_t)i, true, false);
                check_graph((uint64_t)i, true, true);
        }
        engines_close();
        return finish("test_expr_random", 3 * count);
}
