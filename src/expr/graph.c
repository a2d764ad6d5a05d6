/* The nodes that the sf_expr_ functions make. Shapes are not known here, so only what is wrong for
 * every shape is refused. */
#include "expr/graph.h"

#include "context.h"
#include "core/choose.h"
#include "expr/derive.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
        const char *name;
        int32_t arguments;
} functions[] = {
        [SF_ADD] = {"+", 2}, [SF_SUB] = {"-", 2}, [SF_MUL] = {"*", 2}, [SF_DIV] = {"/", 2}, [SF_MAXIMUM] = {"maximum", 2},
        [SF_MINIMUM] = {"minimum", 2}, [SF_NEG] = {"-", 1}, [SF_ABS] = {"abs", 1}, [SF_EXP] = {"exp", 1}, [SF_LOG] = {"log", 1},
        [SF_SQRT] = {"sqrt", 1}, [SF_SQUARE] = {"square", 1}, [SF_RELU] = {"relu", 1}, [SF_SIGMOID] = {"sigmoid", 1}, [SF_TANH] = {"tanh", 1},
        [SF_EQ] = {"==", 2}, [SF_NE] = {"!=", 2}, [SF_LT] = {"<", 2}, [SF_LE] = {"<=", 2}, [SF_GT] = {">", 2}, [SF_GE] = {">=", 2},
        [SF_WHERE] = {"where", 3},
};
#define FUNCTIONS ((int)(sizeof functions / sizeof functions[0]))

int32_t sf_function_arguments(sf_function f)
{
        return (int)f >= 0 && (int)f < FUNCTIONS ? functions[f].arguments : 0;
}

const char *sf_function_name(sf_function f)
{
        return (int)f >= 0 && (int)f < FUNCTIONS ? functions[f].name : NULL;
}

sf_status sf_graph_create(sf_context *given, sf_graph **out)
{
        sf_context *ctx;
        SF_TRY(sf_context_resolve(given, &ctx));
        if (!out)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "graph is NULL; it must point to where the graph is to go");
        sf_graph *graph = calloc(1, sizeof *graph);
        if (!graph)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory for a graph");
        graph->ctx = ctx;
        *out = graph;
        return SF_OK;
}

void sf_graph_destroy(sf_graph *graph)
{
        if (!graph)
                return;
        for (int32_t i = 0; i < graph->inputs; i++)
                free(graph->name[i]);
        free(graph->name);
        free(graph->input_node);
        free(graph->output);
        free(graph->node);
        free(graph->number);
        free(graph->line);
        free(graph);
}

int32_t sf_graph_inputs(const sf_graph *graph)
{
        return graph ? graph->inputs : 0;
}

int32_t sf_graph_outputs(const sf_graph *graph)
{
        return graph ? graph->outputs : 0;
}

const char *sf_graph_input_name(const sf_graph *graph, int32_t index)
{
        return graph && index >= 0 && index < graph->inputs ? graph->name[index] : "";
}

/* ------------------------------------------------------------------------------------------------------------
 * Adding a node
 * ---------------------------------------------------------------------------------------------------------- */
static int32_t refuse(const sf_graph *graph, const char *sentence)
{
        sf_fail(graph ? graph->ctx : NULL, SF_INVALID_ARGUMENT, "%s", sentence);
        return -1;
}

/* Does this graph have the node? A negative number is a failure that has been reported already. */
static bool is_node(const sf_graph *graph, const char *name, int32_t node)
{
        if (!graph)
                return refuse(NULL, "graph is NULL; it must be a graph"), false;
        if (node > 0 && node <= graph->nodes)
                return true;
        if (node >= 0)
                sf_fail(graph->ctx, SF_INVALID_ARGUMENT, "%s is node %d; this graph has nodes 1 to %d", name, (int)node, (int)graph->nodes);
        return false;
}

/* Makes room for `more` elements of `size` bytes. */
static bool grow(const sf_graph *graph, void *array, int32_t count, int32_t more, int32_t *room, size_t size)
{
        int32_t wanted = *room ? *room : 16;
        void *held;
        memcpy(&held, array, sizeof held);
        while (wanted < count + more)
                wanted *= 2;
        if (wanted == *room)
                return true;
        void *grown = realloc(held, (size_t)wanted * size);
        if (!grown)
                return sf_fail(graph->ctx, SF_OUT_OF_MEMORY, "no memory for a graph of %d nodes", (int)count), false;
        memcpy(array, &grown, sizeof grown);
        *room = wanted;
        return true;
}

static int32_t add(sf_graph *graph, const sf_node *node)
{
        if (!graph)
                return refuse(NULL, "graph is NULL; it must be a graph");
        if (graph->nodes == SF_GRAPH_MAX) {
                sf_fail(graph->ctx, SF_UNSUPPORTED, "the graph has %d nodes, which is as many as one may have", SF_GRAPH_MAX);
                return -1;
        }
        if (!grow(graph, &graph->node, graph->nodes + 1, 1, &graph->room, sizeof *graph->node))
                return -1;
        graph->node[++graph->nodes] = *node;
        return graph->nodes;
}

static int32_t add_list(sf_graph *graph, sf_node node, int32_t count, const int64_t *numbers)
{
        if (!grow(graph, &graph->number, graph->numbers, count, &graph->numbers_room, sizeof *graph->number))
                return -1;
        node.count = count;
        node.list = graph->numbers;
        if (count)
                memcpy(graph->number + graph->numbers, numbers, (size_t)count * sizeof *numbers);
        graph->numbers += count;
        return add(graph, &node);
}

/* A node with a list of axes, or without one. */
static int32_t add_axes(sf_graph *graph, sf_node node, int32_t naxes, const int32_t *axes)
{
        int64_t numbers[SF_MAX_NDIM] = {0};
        node.all = !axes;
        if (!axes)
                naxes = 0;
        if (naxes < 0 || naxes > SF_MAX_NDIM) {
                sf_fail(graph->ctx, SF_INVALID_ARGUMENT, "naxes is %d; it must be the number of axes given, at most %d", (int)naxes, SF_MAX_NDIM);
                return -1;
        }
        for (int32_t i = 0; i < naxes; i++)
                numbers[i] = axes[i];
        return add_list(graph, node, naxes, numbers);
}

/* ------------------------------------------------------------------------------------------------------------
 * Leaves and elementwise work
 * ---------------------------------------------------------------------------------------------------------- */
int32_t sf_expr_input(sf_graph *graph, const char *name)
{
        if (!graph || !name || !*name)
                return refuse(graph, !graph ? "graph is NULL; it must be a graph" : "name is empty; an input needs a name");
        for (int32_t i = 0; i < graph->inputs; i++)
                if (!strcmp(graph->name[i], name))
                        return graph->input_node[i];
        /* There are few inputs, so their arrays grow by one. */
        size_t count = (size_t)graph->inputs + 1;
        char **names = realloc(graph->name, count * sizeof *names);
        graph->name = names ? names : graph->name;
        int32_t *nodes = names ? realloc(graph->input_node, count * sizeof *nodes) : NULL;
        graph->input_node = nodes ? nodes : graph->input_node;
        char *copy = nodes ? strdup(name) : NULL;
        if (!copy) {
                sf_fail(graph->ctx, SF_OUT_OF_MEMORY, "no memory for one more input");
                return -1;
        }
        int32_t node = add(graph, &(sf_node){.kind = SF_NODE_INPUT, .index = graph->inputs});
        if (node < 0) {
                free(copy);
                return node;
        }
        graph->name[graph->inputs] = copy;
        graph->input_node[graph->inputs++] = node;
        return node;
}

static bool is_number(const sf_graph *graph, sf_scalar value)
{
        if (value.kind == SF_SCALAR_INT || value.kind == SF_SCALAR_UINT || value.kind == SF_SCALAR_REAL)
                return true;
        return refuse(graph, "value is not a number; make it with sf_int, sf_uint or sf_real"), false;
}

int32_t sf_expr_constant(sf_graph *graph, sf_scalar value)
{
        return is_number(graph, value) ? add(graph, &(sf_node){.kind = SF_NODE_CONSTANT, .value = value}) : -1;
}

int32_t sf_expr_like(sf_graph *graph, int32_t x, sf_scalar value)
{
        if (!is_node(graph, "x", x) || !is_number(graph, value))
                return -1;
        return add(graph, &(sf_node){.kind = SF_NODE_LIKE, .arg = {x}, .value = value});
}

int32_t sf_expr_apply(sf_graph *graph, sf_function function, int32_t a, int32_t b, int32_t c)
{
        int32_t takes = sf_function_arguments(function);
        const int32_t given[3] = {a, b, c};
        static const char *const names[3] = {"a", "b", "c"};
        if (!takes) {
                sf_fail(graph ? graph->ctx : NULL, SF_INVALID_ARGUMENT, "function is %d; it must be SF_ADD or another of sf_function", (int)function);
                return -1;
        }
        for (int32_t i = 0; i < 3; i++) {
                if (i < takes ? !is_node(graph, names[i], given[i]) : given[i] < 0)
                        return -1;
                if (i >= takes && given[i]) {
                        sf_fail(graph->ctx, SF_INVALID_ARGUMENT, "%s is node %d, but %s takes %d argument%s; the others must be 0", names[i],
                                (int)given[i], functions[function].name, (int)takes, takes == 1 ? "" : "s");
                        return -1;
                }
        }
        return add(graph, &(sf_node){.kind = SF_NODE_APPLY, .function = function, .arg = {a, b, c}});
}

int32_t sf_expr_cast(sf_graph *graph, int32_t x, sf_dtype dtype)
{
        char text[48];
        if (!is_node(graph, "x", x))
                return -1;
        if (sf_dt_find(dtype) == SF_DT_COUNT) {
                sf_fail(graph->ctx, SF_UNSUPPORTED, "dtype %s is not supported; supported are f16, bf16, f32, f64, i8 to i64, u8 to u64 and bool",
                        sf_dtype_text(dtype, text));
                return -1;
        }
        return add(graph, &(sf_node){.kind = SF_NODE_CAST, .arg = {x}, .dtype = dtype});
}

/* ------------------------------------------------------------------------------------------------------------
 * Views
 * ---------------------------------------------------------------------------------------------------------- */
int32_t sf_expr_flip(sf_graph *graph, int32_t x, int32_t naxes, const int32_t *axes)
{
        return is_node(graph, "x", x) ? add_axes(graph, (sf_node){.kind = SF_NODE_FLIP, .arg = {x}}, naxes, axes) : -1;
}

int32_t sf_expr_permute(sf_graph *graph, int32_t x, int32_t naxes, const int32_t *axes)
{
        return is_node(graph, "x", x) ? add_axes(graph, (sf_node){.kind = SF_NODE_PERMUTE, .arg = {x}}, naxes, axes) : -1;
}

int32_t sf_expr_transpose(sf_graph *graph, int32_t x, int32_t axis_a, int32_t axis_b)
{
        const int64_t axes[2] = {axis_a, axis_b};
        return is_node(graph, "x", x) ? add_list(graph, (sf_node){.kind = SF_NODE_TRANSPOSE, .arg = {x}}, 2, axes) : -1;
}

int32_t sf_graph_squeeze(sf_graph *graph, int32_t x, int32_t naxes, const int32_t *axes)
{
        return is_node(graph, "x", x) ? add_axes(graph, (sf_node){.kind = SF_NODE_SQUEEZE, .arg = {x}}, naxes, axes) : -1;
}

int32_t sf_graph_unsqueeze(sf_graph *graph, int32_t x, int32_t naxes, const int32_t *axes)
{
        return is_node(graph, "x", x) ? add_axes(graph, (sf_node){.kind = SF_NODE_UNSQUEEZE, .arg = {x}}, naxes, axes) : -1;
}

int32_t sf_expr_squeeze(sf_graph *graph, int32_t x, int32_t axis)
{
        return sf_graph_squeeze(graph, x, 1, &axis);
}

int32_t sf_expr_unsqueeze(sf_graph *graph, int32_t x, int32_t axis)
{
        return sf_graph_unsqueeze(graph, x, 1, &axis);
}

int32_t sf_expr_broadcast(sf_graph *graph, int32_t x, int32_t ndim, const int64_t *shape)
{
        if (!is_node(graph, "x", x))
                return -1;
        if (ndim < 0 || ndim > SF_MAX_NDIM || (ndim && !shape)) {
                sf_fail(graph->ctx, SF_INVALID_ARGUMENT, "ndim is %d%s; it must be 0 to %d, with as many lengths", (int)ndim,
                        shape ? "" : " and shape is NULL", SF_MAX_NDIM);
                return -1;
        }
        return add_list(graph, (sf_node){.kind = SF_NODE_BROADCAST, .arg = {x}}, ndim, shape);
}

int32_t sf_expr_slice(sf_graph *graph, int32_t x, int32_t axis, int64_t start, int64_t stop, int64_t step)
{
        const int64_t list[4] = {axis, start, stop, step == SF_SLICE_END ? 1 : step};
        if (!is_node(graph, "x", x))
                return -1;
        if (!step)
                return refuse(graph, "step is 0; it must be 1 or more, or negative to go backwards");
        return add_list(graph, (sf_node){.kind = SF_NODE_SLICE, .arg = {x}}, 4, list);
}

int32_t sf_graph_narrow(sf_graph *graph, int32_t x, int32_t axis, int64_t start, int64_t length)
{
        const int64_t list[3] = {axis, start, length};
        return is_node(graph, "x", x) ? add_list(graph, (sf_node){.kind = SF_NODE_NARROW, .arg = {x}}, 3, list) : -1;
}

int32_t sf_expr_select(sf_graph *graph, int32_t x, int32_t axis, int64_t index)
{
        const int64_t list[2] = {axis, index};
        return is_node(graph, "x", x) ? add_list(graph, (sf_node){.kind = SF_NODE_SELECT, .arg = {x}}, 2, list) : -1;
}

int32_t sf_expr_concat(sf_graph *graph, int32_t axis, int32_t count, const int32_t *parts)
{
        int64_t list[SF_MAX_NDIM + 1];
        if (!graph)
                return refuse(NULL, "graph is NULL; it must be a graph");
        if (count < 1 || count > SF_MAX_NDIM || !parts) {
                sf_fail(graph->ctx, SF_INVALID_ARGUMENT, "count is %d%s; it must be 1 to %d, with as many parts", (int)count,
                        parts ? "" : " and parts is NULL", SF_MAX_NDIM);
                return -1;
        }
        list[0] = axis;
        for (int32_t i = 0; i < count; i++) {
                if (!is_node(graph, "a part", parts[i]))
                        return -1;
                list[i + 1] = parts[i];
        }
        return add_list(graph, (sf_node){.kind = SF_NODE_CONCAT}, count + 1, list);
}

/* ------------------------------------------------------------------------------------------------------------
 * Scans, folds, products
 * ---------------------------------------------------------------------------------------------------------- */
static bool is_unset(sf_dtype d)
{
        return !d.code && !d.bits && !d.lanes;
}

static double order_of(sf_scalar order)
{
        switch (order.kind) {
        case SF_SCALAR_NONE: return 2;
        case SF_SCALAR_INT: return (double)order.value.i;
        case SF_SCALAR_UINT: return (double)order.value.u;
        default: return order.value.f;
        }
}

/* Offsets must be an input, because they are read before anything is computed. */
static bool is_input(const sf_graph *graph, const char *name, int32_t node)
{
        if (!is_node(graph, name, node))
                return false;
        return graph->node[node].kind == SF_NODE_INPUT || (refuse(graph, "offsets are computed by the expression; they must be an input, as they are"), false);
}

int32_t sf_expr_spread(sf_graph *graph, int32_t x, int32_t axis, int64_t length, int32_t offsets)
{
        const int64_t list[2] = {axis, length};
        if (!is_node(graph, "x", x) || !is_input(graph, "offsets", offsets))
                return -1;
        return add_list(graph, (sf_node){.kind = SF_NODE_SPREAD, .arg = {x}, .offsets = offsets}, 2, list);
}

/* `what` is only used for SF_NODE_DERIVED. */
static int32_t add_reduction(sf_graph *graph, sf_node_kind kind, sf_derived what, int32_t x, const sf_expr_options *given)
{
        char text[48];
        const bool derived = kind == SF_NODE_DERIVED, scan = derived ? sf_derived_scans(what) : kind == SF_NODE_SCAN;
        const bool keeps = scan || (derived && sf_derived_applies(what));
        sf_expr_options o = SF_EXPR_OPTIONS_INIT;
        if (!is_node(graph, "x", x))
                return -1;
        if (given && sf_options_read(graph->ctx, "sf_expr_options", given, &o, sizeof o, SF_RESERVED_EXPR) != SF_OK)
                return -1;
        sf_node node = {.kind = kind, .arg = {x, o.mask}, .op = derived ? SF_SUM : o.op, .derived = what, .keepdim = o.keepdim != 0,
                        .reverse = o.reverse != 0, .exclusive = o.exclusive != 0, .skip_nan = o.skip_nan != 0, .value = o.initial,
                        .dtype = o.dtype, .accumulator = o.accumulator, .correction = o.correction, .order = order_of(o.order),
                        .weight = o.weight, .bias = o.bias, .eps = o.eps, .offsets = o.offsets};
        const char *wrong = !sf_op_name(node.op)                              ? "op is none of sf_op"
                            : scan && o.keepdim                               ? "keepdim is set; a scan keeps every axis as it is"
                            : keeps && o.keepdim                              ? "keepdim is set; the result has x's axes as they are"
                            : !scan && o.exclusive                            ? "exclusive is set; it is for scans"
                            : scan && o.axes && o.naxes != 1                  ? "naxes is not 1; a scan goes along one axis"
                            : derived && o.initial.kind                       ? "initial is set; what is made of other scans and folds has none"
                            : o.weight && (!derived || !sf_derived_takes(what, SF_TAKES_WEIGHT)) ? "weight is set; it is for SF_LAYER_NORM and SF_RMS_NORM"
                            : o.bias && (!derived || !sf_derived_takes(what, SF_TAKES_BIAS))     ? "bias is set; it is for SF_LAYER_NORM"
                            : o.eps.kind && (!derived || !sf_derived_takes(what, SF_TAKES_EPS))
                                    ? "eps is set; it is for SF_LAYER_NORM, SF_RMS_NORM and SF_NORMALIZE"
                                    : NULL;
        if (wrong)
                return refuse(graph, wrong);
        if ((o.weight && !is_node(graph, "weight", o.weight)) || (o.bias && !is_node(graph, "bias", o.bias)))
                return -1;
        if (o.mask && !is_node(graph, "mask", o.mask))
                return -1;
        if (o.offsets && !is_input(graph, "offsets", o.offsets))
                return -1;
        if (!is_unset(o.dtype) && sf_dt_find(o.dtype) == SF_DT_COUNT) {
                sf_fail(graph->ctx, SF_UNSUPPORTED, "dtype %s is not supported", sf_dtype_text(o.dtype, text));
                return -1;
        }
        return add_axes(graph, node, o.naxes, o.axes);
}

int32_t sf_expr_scan(sf_graph *graph, int32_t x, const sf_expr_options *options)
{
        return add_reduction(graph, SF_NODE_SCAN, SF_MEAN, x, options);
}

int32_t sf_expr_fold(sf_graph *graph, int32_t x, const sf_expr_options *options)
{
        return add_reduction(graph, SF_NODE_FOLD, SF_MEAN, x, options);
}

int32_t sf_expr_derived(sf_graph *graph, int32_t x, sf_derived what, const sf_expr_options *options)
{
        if (!sf_derived_name(what)) {
                sf_fail(graph ? graph->ctx : NULL, SF_INVALID_ARGUMENT, "what is %d; it must be SF_MEAN or another of sf_derived", (int)what);
                return -1;
        }
        return add_reduction(graph, SF_NODE_DERIVED, what, x, options);
}

int32_t sf_expr_mean(sf_graph *graph, int32_t x, const sf_expr_options *options)
{
        return sf_expr_derived(graph, x, SF_MEAN, options);
}

int32_t sf_expr_recurrence(sf_graph *graph, int32_t a, int32_t b, const sf_expr_options *given)
{
        sf_expr_options o = SF_EXPR_OPTIONS_INIT;
        if (!is_node(graph, "a", a) || !is_node(graph, "b", b))
                return -1;
        if (given && sf_options_read(graph->ctx, "sf_expr_options", given, &o, sizeof o, SF_RESERVED_EXPR) != SF_OK)
                return -1;
        o.op = SF_RECURRENCE;
        const int32_t node = add_reduction(graph, SF_NODE_SCAN, SF_MEAN, b, &o);
        if (node > 0) {
                graph->node[node].kind = SF_NODE_RECURRENCE;
                graph->node[node].arg[0] = a;
                graph->node[node].arg[1] = b;
                graph->node[node].arg[2] = o.mask;
        }
        return node;
}

int32_t sf_expr_matmul(sf_graph *graph, int32_t a, int32_t b)
{
        if (!is_node(graph, "a", a) || !is_node(graph, "b", b))
                return -1;
        return add(graph, &(sf_node){.kind = SF_NODE_MATMUL, .arg = {a, b}});
}

int32_t sf_expr_linear(sf_graph *graph, int32_t x, int32_t w, int32_t bias)
{
        if (!is_node(graph, "x", x) || !is_node(graph, "w", w) || (bias && !is_node(graph, "bias", bias)))
                return -1;
        int32_t product = sf_expr_matmul(graph, x, sf_expr_permute(graph, w, 0, NULL));
        return bias ? sf_expr_apply(graph, SF_ADD, product, bias, 0) : product;
}

int32_t sf_expr_output(sf_graph *graph, int32_t node)
{
        if (!is_node(graph, "node", node))
                return -1;
        if (graph->outputs == SF_GRAPH_MAX)
                return refuse(graph, "the graph has as many outputs as one may have");
        int32_t *outputs = realloc(graph->output, ((size_t)graph->outputs + 1) * sizeof *outputs);
        if (!outputs) {
                sf_fail(graph->ctx, SF_OUT_OF_MEMORY, "no memory for one more output");
                return -1;
        }
        graph->output = outputs;
        graph->output[graph->outputs] = node;
        return graph->outputs++;
}
