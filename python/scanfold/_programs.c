/* Makes graphs from programs: see _programs.h. */
#include "_programs.h"

#include "_common.h"

#include <string.h>

typedef struct builder {
        sf_graph *graph;
        PyObject *instruction; /* borrowed */
        int32_t *node;         /* by instruction */
        Py_ssize_t count;
        int32_t inputs, outputs;
        memory_order **order;  /* of the outputs */
        int failed;            /* an argument was wrong; an exception is set */
} builder;

static int64_t number(builder *b, Py_ssize_t at)
{
        PyObject *item = PyTuple_GetItem(b->instruction, at);
        int64_t value = item ? PyLong_AsLongLong(item) : -1;
        b->failed |= PyErr_Occurred() != NULL;
        return value;
}

/* The node of an earlier instruction; 0 for -1. */
static int32_t node(builder *b, Py_ssize_t at)
{
        int64_t index = number(b, at);
        if (!b->failed && (index < -1 || index >= b->count)) {
                PyErr_Format(PyExc_ValueError,
                             "instruction %zd refers to %lld, which is none before it", b->count,
                             (long long)index);
                b->failed = 1;
        }
        return b->failed || index < 0 ? 0 : b->node[index];
}

static sf_dtype dtype(builder *b, Py_ssize_t at)
{
        int64_t code = number(b, at);
        return (sf_dtype){(uint8_t)(code >> 8), (uint8_t)code, code ? 1 : 0};
}

static sf_scalar scalar(builder *b, Py_ssize_t at)
{
        PyObject *item = PyTuple_GetItem(b->instruction, at);
        sf_scalar value = sf_int(0);
        if (item && PyFloat_Check(item))
                return sf_real(PyFloat_AsDouble(item));
        b->failed |= !item || integer_read(item, "a number", &value) < 0;
        return value;
}

int32_t program_numbers(PyObject *sequence, int64_t *out)
{
        Py_ssize_t n = PySequence_Size(sequence);
        if (n > SF_MAX_NDIM)
                PyErr_Format(PyExc_ValueError, "%zd numbers are given where at most %d can be", n,
                             SF_MAX_NDIM);
        for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
                PyObject *value = PySequence_GetItem(sequence, i);
                out[i] = value ? PyLong_AsLongLong(value) : 0;
                Py_XDECREF(value);
        }
        return PyErr_Occurred() ? -1 : (int32_t)n;
}

/* A sequence of numbers. For None, *count is -1. */
static void numbers(builder *b, Py_ssize_t at, int64_t *out, int32_t *count)
{
        PyObject *item = PyTuple_GetItem(b->instruction, at);
        *count = -1;
        if (item == Py_None)
                return;
        *count = item ? program_numbers(item, out) : 0;
        b->failed |= PyErr_Occurred() != NULL;
        *count = b->failed ? 0 : *count;
}

static void axes(builder *b, Py_ssize_t at, int32_t *out, int32_t *count)
{
        int64_t wide[SF_MAX_NDIM];
        numbers(b, at, wide, count);
        for (int32_t i = 0; i < *count; i++)
                out[i] = (int32_t)wide[i];
}

static int32_t build_reduction(builder *b, const char *name)
{
        sf_expr_options o = SF_EXPR_OPTIONS_INIT;
        int32_t list[SF_MAX_NDIM], x = node(b, 1);
        if (strcmp(name, "scan") == 0) {
                o.op = (sf_op)number(b, 2);
                list[0] = (int32_t)number(b, 3);
                o.naxes = 1;
                o.axes = list;
                o.reverse = number(b, 4) != 0;
                o.exclusive = number(b, 5) != 0;
                o.mask = node(b, 6);
                o.dtype = dtype(b, 7);
                return b->failed ? -1 : sf_expr_scan(b->graph, x, &o);
        }
        int mean = strcmp(name, "mean") == 0, at = mean ? 2 : 3;
        if (!mean)
                o.op = (sf_op)number(b, 2);
        axes(b, at, list, &o.naxes);
        o.axes = o.naxes < 0 ? NULL : list;
        o.keepdim = number(b, at + 1) != 0;
        o.dtype = dtype(b, at + 2);
        if (b->failed)
                return -1;
        return mean ? sf_expr_mean(b->graph, x, &o) : sf_expr_fold(b->graph, x, &o);
}

static int32_t build_derived(builder *b)
{
        sf_expr_options o = SF_EXPR_OPTIONS_INIT;
        int32_t list[SF_MAX_NDIM], x = node(b, 1);
        sf_derived what = (sf_derived)number(b, 2);
        axes(b, 3, list, &o.naxes);
        o.axes = o.naxes < 0 ? NULL : list;
        o.keepdim = number(b, 4) != 0;
        o.dtype = dtype(b, 5);
        PyObject *parameter = PyTuple_GetItem(b->instruction, 6);
        o.correction = parameter ? PyFloat_AsDouble(parameter) : 0;
        o.order = sf_real(o.correction);
        b->failed |= PyErr_Occurred() != NULL;
        return b->failed ? -1 : sf_expr_derived(b->graph, x, what, &o);
}

static int32_t build_view(builder *b, const char *name)
{
        int32_t list[SF_MAX_NDIM], count, x = strcmp(name, "concat") == 0 ? 0 : node(b, 1);
        int64_t wide[SF_MAX_NDIM];
        if (strcmp(name, "flip") == 0 || strcmp(name, "permute") == 0) {
                axes(b, 2, list, &count);
                if (b->failed)
                        return -1;
                return *name == 'f' ? sf_expr_flip(b->graph, x, count, list)
                                    : sf_expr_permute(b->graph, x, count, list);
        }
        if (strcmp(name, "broadcast") == 0) {
                numbers(b, 2, wide, &count);
                return b->failed ? -1 : sf_expr_broadcast(b->graph, x, count, wide);
        }
        if (strcmp(name, "concat") == 0) {
                axes(b, 2, list, &count);
                for (int32_t i = 0; i < count && !b->failed; i++) {
                        b->failed |= list[i] < 0 || list[i] >= b->count;
                        list[i] = b->failed ? 0 : b->node[list[i]];
                }
                int32_t axis = (int32_t)number(b, 1);
                return b->failed ? -1 : sf_expr_concat(b->graph, axis, count, list);
        }
        int32_t axis = (int32_t)number(b, 2);
        if (strcmp(name, "squeeze") == 0)
                return sf_expr_squeeze(b->graph, x, axis);
        if (strcmp(name, "unsqueeze") == 0)
                return sf_expr_unsqueeze(b->graph, x, axis);
        if (strcmp(name, "select") == 0)
                return sf_expr_select(b->graph, x, axis, number(b, 3));
        if (strcmp(name, "slice") == 0) {
                int64_t start = number(b, 3), stop = number(b, 4), step = number(b, 5);
                return sf_expr_slice(b->graph, x, axis, start, stop, step);
        }
        return 0;
}

/* The order that an output instruction names. NULL with an exception if it is not a permutation of
 * the axes from 0 on. */
static memory_order *read_order(builder *b)
{
        int32_t list[SF_MAX_NDIM], count;
        uint64_t named = 0;
        axes(b, 2, list, &count);
        for (int32_t i = 0; i < count; i++)
                named |= list[i] >= 0 && list[i] < count ? (uint64_t)1 << list[i] : 0;
        if (b->failed || count < 1 || named != ~(uint64_t)0 >> (64 - count)) {
                if (!PyErr_Occurred())
                        PyErr_Format(PyExc_ValueError, "instruction %zd names no order of axes",
                                     b->count);
                return NULL;
        }
        memory_order *order = PyMem_Malloc(sizeof *order + (size_t)count * sizeof order->axis[0]);
        if (!order) {
                PyErr_NoMemory();
                return NULL;
        }
        order->count = count;
        memcpy(order->axis, list, (size_t)count * sizeof order->axis[0]);
        return order;
}

/* Outputs are numbered from 0, but 0 would mean an unknown instruction: so 1 is added. */
static int32_t build_output(builder *b)
{
        if (b->outputs == MAX_OUTPUTS) {
                PyErr_Format(PyExc_ValueError, "the program has more than %d outputs",
                             (int)MAX_OUTPUTS);
                return -1;
        }
        if (PyTuple_Size(b->instruction) > 2 && !(b->order[b->outputs] = read_order(b)))
                return -1;
        b->outputs++;
        int32_t x = node(b, 1);
        return b->failed ? -1 : sf_expr_output(b->graph, x) + 1;
}

/* An input has the name that its instruction gives, which error messages use, or else x and its
 * number. */
static int32_t build_input(builder *b)
{
        if (b->inputs == MAX_INPUTS) {
                PyErr_Format(PyExc_ValueError, "the program has more than %d inputs",
                             (int)MAX_INPUTS);
                return -1;
        }
        char numbered[16];
        snprintf(numbered, sizeof numbered, "x%d", (int)b->inputs++);
        if (PyTuple_Size(b->instruction) < 2)
                return sf_expr_input(b->graph, numbered);
        PyObject *given = PyUnicode_AsASCIIString(PyTuple_GetItem(b->instruction, 1));
        int32_t made = given ? sf_expr_input(b->graph, PyBytes_AsString(given)) : -1;
        Py_XDECREF(given);
        return made;
}

/* The instruction's node; 0 if its name is unknown. */
static int32_t build_one(builder *b, const char *name)
{
        if (strcmp(name, "input") == 0)
                return build_input(b);
        if (strcmp(name, "constant") == 0)
                return sf_expr_constant(b->graph, scalar(b, 1));
        if (strcmp(name, "like") == 0)
                return sf_expr_like(b->graph, node(b, 1), scalar(b, 2));
        if (strcmp(name, "apply") == 0) {
                int32_t a = node(b, 2), second = node(b, 3), third = node(b, 4);
                return sf_expr_apply(b->graph, (sf_function)number(b, 1), a, second, third);
        }
        if (strcmp(name, "cast") == 0)
                return sf_expr_cast(b->graph, node(b, 1), dtype(b, 2));
        if (strcmp(name, "matmul") == 0)
                return sf_expr_matmul(b->graph, node(b, 1), node(b, 2));
        if (strcmp(name, "linear") == 0)
                return sf_expr_linear(b->graph, node(b, 1), node(b, 2), node(b, 3));
        if (strcmp(name, "output") == 0)
                return build_output(b);
        if (strcmp(name, "derived") == 0)
                return build_derived(b);
        if (strcmp(name, "scan") == 0 || strcmp(name, "fold") == 0 || strcmp(name, "mean") == 0)
                return build_reduction(b, name);
        return build_view(b, name);
}

static int build(builder *b, PyObject *program)
{
        Py_ssize_t n = PyList_Size(program);
        if (n < 0 || !(b->node = PyMem_Malloc((size_t)(n + 1) * sizeof *b->node)))
                return -1;
        for (; b->count < n; b->count++) {
                b->instruction = PyList_GetItem(program, b->count);
                PyObject *first = b->instruction ? PyTuple_GetItem(b->instruction, 0) : NULL;
                PyObject *bytes = first ? PyUnicode_AsASCIIString(first) : NULL;
                const char *name = bytes ? PyBytes_AsString(bytes) : NULL;
                int32_t made = name ? build_one(b, name) : 0;
                if (name && !PyErr_Occurred() && made < 0)
                        PyErr_SetString(PyExc_ValueError, sf_last_error(NULL));
                if (name && !PyErr_Occurred() && made == 0)
                        PyErr_Format(PyExc_ValueError, "instruction %zd is %s, which is none",
                                     b->count, name);
                Py_XDECREF(bytes);
                if (PyErr_Occurred())
                        return -1;
                b->node[b->count] = made;
        }
        return 0;
}

int program_build(PyObject *program, sf_graph *graph, memory_order **order)
{
        builder b = {.graph = graph, .order = order};
        int rc = build(&b, program);
        PyMem_Free(b.node);
        return rc;
}
