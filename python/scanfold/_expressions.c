/* Expressions: see _expressions.h. */
#include "_expressions.h"

#include <stdlib.h>
#include <string.h>

#define EXPRESSION_NAME "scanfold.expression"

enum {
        MAX_INPUTS = 32,
        KEPT_PLANS = 32, /* shapes a program keeps plans for; the one that was made first goes */
};

typedef struct kept_plan {
        sf_plan *plan;
        int running;   /* calls that use it just now: it must not go meanwhile */
        int64_t *key;  /* for each input: rank, dtype, device, lengths */
        size_t length;
} kept_plan;

typedef struct expression {
        sf_graph *graph;
        int exact;
        int32_t ninputs;
        int kept, next;
        kept_plan plan[KEPT_PLANS];
} expression;

/* The default context: an expression outlives a `using` block. */
static PyObject *raise_status(sf_status status)
{
        PyObject *kind = status == SF_INVALID_ARGUMENT ? PyExc_ValueError
                         : status == SF_UNSUPPORTED    ? PyExc_TypeError
                         : status == SF_OUT_OF_MEMORY  ? PyExc_MemoryError
                                                       : PyExc_RuntimeError;
        PyErr_SetString(kind, sf_last_error(NULL));
        return NULL;
}

/* ------------------------------------------------------------------------------------------------------------
 * Building
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct builder {
        sf_graph *graph;
        PyObject *instruction; /* borrowed */
        int32_t *node;         /* of the instructions so far */
        Py_ssize_t count;
        int32_t inputs;
        int failed;            /* an argument was not what it must be; an exception is set */
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
                PyErr_Format(PyExc_ValueError, "instruction %zd refers to %lld, which is none before it", b->count, (long long)index);
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
        if (item && PyFloat_Check(item))
                return sf_real(PyFloat_AsDouble(item));
        return sf_int(number(b, at));
}

/* A sequence of numbers; None: *count is -1. */
static void numbers(builder *b, Py_ssize_t at, int64_t *out, int32_t *count)
{
        PyObject *item = PyTuple_GetItem(b->instruction, at);
        Py_ssize_t n = item && item != Py_None ? PySequence_Size(item) : -1;
        *count = -1;
        if (item == Py_None)
                return;
        if (n > SF_MAX_NDIM)
                PyErr_Format(PyExc_ValueError, "instruction %zd names more than %d axes", b->count, SF_MAX_NDIM);
        for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
                PyObject *value = PySequence_GetItem(item, i);
                out[i] = value ? PyLong_AsLongLong(value) : 0;
                Py_XDECREF(value);
        }
        b->failed |= PyErr_Occurred() != NULL;
        *count = b->failed ? 0 : (int32_t)n;
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

static int32_t build_view(builder *b, const char *name)
{
        int32_t list[SF_MAX_NDIM], count, x = strcmp(name, "concat") == 0 ? 0 : node(b, 1);
        int64_t wide[SF_MAX_NDIM];
        if (strcmp(name, "flip") == 0 || strcmp(name, "permute") == 0) {
                axes(b, 2, list, &count);
                if (b->failed)
                        return -1;
                return *name == 'f' ? sf_expr_flip(b->graph, x, count, list) : sf_expr_permute(b->graph, x, count, list);
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

/* The instruction's node; 0 where its name is unknown. */
static int32_t build_one(builder *b, const char *name)
{
        if (strcmp(name, "input") == 0) {
                char text[16];
                snprintf(text, sizeof text, "x%d", (int)b->inputs++);
                return sf_expr_input(b->graph, text);
        }
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
                return sf_expr_output(b->graph, node(b, 1)) + 1; /* outputs are numbered from 0 */
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
                        PyErr_Format(PyExc_ValueError, "instruction %zd is %s, which is none", b->count, name);
                Py_XDECREF(bytes);
                if (PyErr_Occurred())
                        return -1;
                b->node[b->count] = made;
        }
        return 0;
}

static void release(expression *e)
{
        for (int i = 0; i < e->kept; i++) {
                sf_plan_destroy(e->plan[i].plan);
                PyMem_Free(e->plan[i].key);
        }
        sf_graph_destroy(e->graph);
        PyMem_Free(e);
}

static void release_capsule(PyObject *capsule)
{
        release(PyCapsule_GetPointer(capsule, EXPRESSION_NAME));
}

PyObject *expression_create(PyObject *self, PyObject *args)
{
        (void)self;
        PyObject *program;
        int exact;
        if (!PyArg_ParseTuple(args, "Oi", &program, &exact))
                return NULL;
        expression *e = PyMem_Malloc(sizeof *e);
        if (!e)
                return PyErr_NoMemory();
        memset(e, 0, sizeof *e);
        sf_status status = sf_graph_create(NULL, &e->graph);
        if (status != SF_OK) {
                PyMem_Free(e);
                return raise_status(status);
        }
        builder b = {.graph = e->graph};
        int rc = build(&b, program);
        PyMem_Free(b.node);
        e->exact = exact;
        e->ninputs = b.inputs;
        if (rc == 0 && b.inputs > MAX_INPUTS) {
                PyErr_Format(PyExc_ValueError, "the program has %d inputs: at most %d are taken", (int)b.inputs, (int)MAX_INPUTS);
                rc = -1;
        }
        PyObject *capsule = rc < 0 ? NULL : PyCapsule_New(e, EXPRESSION_NAME, release_capsule);
        if (!capsule)
                release(e);
        return capsule;
}

/* ------------------------------------------------------------------------------------------------------------
 * Running
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct inputs {
        array *array;
        sf_tensor *view;
        int32_t opened;
} inputs;

static void close_inputs(inputs *in)
{
        while (in->opened > 0)
                array_close(&in->array[--in->opened]);
        PyMem_Free(in->array);
        PyMem_Free(in->view);
}

static int open_inputs(const expression *e, PyObject *sequence, inputs *in)
{
        Py_ssize_t n = PySequence_Size(sequence);
        *in = (inputs){NULL, NULL, 0};
        if (n != e->ninputs || n < 1) {
                if (!PyErr_Occurred())
                        PyErr_Format(PyExc_ValueError, "%zd inputs are given, the expression has %d", n, (int)e->ninputs);
                return -1;
        }
        in->array = PyMem_Malloc((size_t)n * sizeof *in->array);
        in->view = PyMem_Malloc((size_t)n * sizeof *in->view);
        if (!in->array || !in->view) {
                PyErr_NoMemory();
                close_inputs(in);
                return -1;
        }
        for (Py_ssize_t i = 0; i < n; i++) {
                PyObject *item = PySequence_GetItem(sequence, i);
                int rc = item ? array_open(item, "an input", OPEN_TRUSTED, &in->array[i]) : -1;
                Py_XDECREF(item); /* the sequence holds it */
                if (rc) {
                        close_inputs(in);
                        return -1;
                }
                in->opened++;
                in->view[i] = in->array[i].view;
        }
        return 0;
}

/* What a plan is made for, as numbers: 3 an input and 1 a dimension. */
static size_t key_length(const inputs *in)
{
        size_t length = 0;
        for (int32_t i = 0; i < in->opened; i++)
                length += 3 + (size_t)in->view[i].ndim;
        return length;
}

static void key_fill(const inputs *in, int64_t *key)
{
        for (int32_t i = 0; i < in->opened; i++) {
                const sf_tensor *v = &in->view[i];
                *key++ = v->ndim;
                *key++ = v->dtype.code * 256 + v->dtype.bits;
                *key++ = (int64_t)v->device.device_type * 65536 + v->device.device_id;
                for (int32_t d = 0; d < v->ndim; d++)
                        *key++ = v->shape[d];
        }
}

/* The plan for these inputs, made if there is none. With the GIL held, so that the list is one thread's at a time. */
static kept_plan *plan_for(expression *e, const inputs *in)
{
        size_t length = key_length(in);
        int64_t *key = PyMem_Malloc((length + 1) * sizeof *key);
        if (!key) {
                PyErr_NoMemory();
                return NULL;
        }
        key_fill(in, key);
        for (int i = 0; i < e->kept; i++)
                if (e->plan[i].length == length && memcmp(e->plan[i].key, key, length * sizeof *key) == 0) {
                        PyMem_Free(key);
                        return &e->plan[i];
                }
        sf_plan_options o = SF_PLAN_OPTIONS_INIT;
        o.exact = e->exact;
        sf_plan *plan = NULL;
        sf_status status = sf_plan_create(NULL, e->graph, in->opened, in->view, &o, &plan);
        if (status != SF_OK) {
                PyMem_Free(key);
                raise_status(status);
                return NULL;
        }
        kept_plan *slot = NULL;
        if (e->kept < KEPT_PLANS) {
                slot = &e->plan[e->kept++];
        } else {
                for (int tries = 0; !slot && tries < KEPT_PLANS; tries++, e->next = (e->next + 1) % KEPT_PLANS)
                        if (!e->plan[e->next].running)
                                slot = &e->plan[e->next];
                if (!slot) {
                        sf_plan_destroy(plan);
                        PyMem_Free(key);
                        PyErr_SetString(PyExc_RuntimeError, "too many shapes of one expression are being computed at once");
                        return NULL;
                }
                sf_plan_destroy(slot->plan);
                PyMem_Free(slot->key);
        }
        *slot = (kept_plan){.plan = plan, .key = key, .length = length};
        return slot;
}

static PyObject *run_plan(kept_plan *kept, const inputs *in)
{
        int32_t n = sf_plan_outputs(kept->plan), made = 0;
        array *out = PyMem_Malloc((size_t)(n + 1) * sizeof *out);
        sf_tensor *view = PyMem_Malloc((size_t)(n + 1) * sizeof *view);
        PyObject *results = out && view ? PyList_New(0) : PyErr_NoMemory();
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        sf_status status = SF_OK;
        for (; results && made < n; made++) {
                int32_t ndim;
                int64_t shape[SF_MAX_NDIM];
                sf_dtype type;
                PyObject *result;
                if ((status = sf_plan_output(kept->plan, made, &ndim, shape, &type)) != SF_OK ||
                    array_make(&in->array[0], ndim, shape, type, &out[made], &result) < 0) {
                        Py_CLEAR(results);
                        break;
                }
                view[made] = out[made].view;
                int rc = PyList_Append(results, result);
                Py_DECREF(result);
                if (rc < 0) {
                        array_close(&out[made]);
                        Py_CLEAR(results);
                        break;
                }
        }
        if (results) {
                o.stream = in->array[0].stream;
                Py_BEGIN_ALLOW_THREADS
                status = sf_plan_run(kept->plan, in->view, view, &o);
                Py_END_ALLOW_THREADS
                if (status != SF_OK)
                        Py_CLEAR(results);
        }
        while (made > 0)
                array_close(&out[--made]);
        PyMem_Free(out);
        PyMem_Free(view);
        if (status != SF_OK)
                raise_status(status);
        return results;
}

PyObject *expression_run(PyObject *self, PyObject *args)
{
        (void)self;
        PyObject *capsule, *sequence;
        if (!PyArg_ParseTuple(args, "OO", &capsule, &sequence))
                return NULL;
        expression *e = PyCapsule_GetPointer(capsule, EXPRESSION_NAME);
        inputs in;
        if (!e || open_inputs(e, sequence, &in) < 0)
                return NULL;
        PyObject *results = NULL;
        if (in.array[0].kind == ARRAY_OTHER) {
                PyErr_SetString(PyExc_TypeError, "an expression's first input is a NumPy array or a torch tensor");
        } else {
                kept_plan *kept = plan_for(e, &in);
                if (kept) {
                        kept->running++; /* results are made by Python code, which may let other threads in */
                        results = run_plan(kept, &in);
                        kept->running--;
                }
        }
        close_inputs(&in);
        return results;
}

/* [(shape, dtype), ...] of a plan's outputs. */
static PyObject *describe_outputs(const sf_plan *plan)
{
        PyObject *list = PyList_New(0);
        for (int32_t i = 0; list && i < sf_plan_outputs(plan); i++) {
                int32_t ndim = 0;
                int64_t shape[SF_MAX_NDIM];
                sf_dtype type = {0, 0, 0};
                sf_plan_output(plan, i, &ndim, shape, &type);
                PyObject *lengths = PyList_New(0), *pair = NULL;
                for (int32_t d = 0; lengths && d < ndim; d++) {
                        PyObject *length = PyLong_FromLongLong(shape[d]);
                        if (!length || PyList_Append(lengths, length) < 0)
                                Py_CLEAR(lengths);
                        Py_XDECREF(length);
                }
                pair = lengths ? Py_BuildValue("(Ni)", lengths, type.code * 256 + type.bits) : NULL;
                if (!pair || PyList_Append(list, pair) < 0)
                        Py_CLEAR(list);
                Py_XDECREF(pair);
        }
        return list;
}

PyObject *expression_shapes(PyObject *self, PyObject *args)
{
        (void)self;
        PyObject *capsule, *described;
        if (!PyArg_ParseTuple(args, "OO", &capsule, &described))
                return NULL;
        expression *e = PyCapsule_GetPointer(capsule, EXPRESSION_NAME);
        Py_ssize_t n = e ? PyList_Size(described) : -1;
        if (n < 0)
                return NULL;
        if (n > MAX_INPUTS) {
                PyErr_Format(PyExc_ValueError, "%zd inputs are given: at most %d are taken", n, (int)MAX_INPUTS);
                return NULL;
        }
        sf_tensor view[MAX_INPUTS];
        int64_t (*shape)[SF_MAX_NDIM] = PyMem_Malloc((size_t)(n + 1) * sizeof *shape);
        if (!shape)
                return PyErr_NoMemory();
        for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
                PyObject *lengths;
                int code;
                if (!PyArg_ParseTuple(PyList_GetItem(described, i), "Oi", &lengths, &code))
                        break;
                builder b = {.instruction = PyList_GetItem(described, i)};
                int32_t ndim;
                numbers(&b, 0, shape[i], &ndim);
                view[i] = (sf_tensor){.device = {SF_CPU, 0}, .ndim = ndim, .dtype = {(uint8_t)(code >> 8), (uint8_t)code, 1}, .shape = shape[i]};
        }
        sf_plan *plan = NULL;
        PyObject *outputs = NULL;
        if (!PyErr_Occurred()) {
                sf_plan_options o = SF_PLAN_OPTIONS_INIT;
                o.exact = e->exact;
                sf_status status = sf_plan_create(NULL, e->graph, (int32_t)n, view, &o, &plan);
                outputs = status == SF_OK ? describe_outputs(plan) : raise_status(status);
                sf_plan_destroy(plan);
        }
        PyMem_Free(shape);
        return outputs;
}

PyObject *expression_explain(PyObject *self, PyObject *args)
{
        (void)self;
        PyObject *capsule, *sequence, *text = NULL;
        int format;
        if (!PyArg_ParseTuple(args, "OOi", &capsule, &sequence, &format))
                return NULL;
        expression *e = PyCapsule_GetPointer(capsule, EXPRESSION_NAME);
        inputs in;
        if (!e || open_inputs(e, sequence, &in) < 0)
                return NULL;
        kept_plan *kept = plan_for(e, &in);
        size_t needed = 0;
        sf_status status = kept ? sf_plan_explain(kept->plan, (sf_explain_format)format, NULL, 0, &needed) : SF_OK;
        char *buffer = kept && status == SF_OK ? PyMem_Malloc(needed + 1) : NULL;
        if (buffer && (status = sf_plan_explain(kept->plan, (sf_explain_format)format, buffer, needed + 1, NULL)) == SF_OK)
                text = PyUnicode_FromString(buffer);
        PyMem_Free(buffer);
        if (status != SF_OK)
                raise_status(status);
        close_inputs(&in);
        return text;
}
