/* Expressions: see _expressions.h. */
#include "_expressions.h"

#include <stdlib.h>
#include <string.h>

#define EXPRESSION_NAME "scanfold.expression"

enum {
        MAX_INPUTS = 32,
        MAX_OUTPUTS = 32,
        NAME_LENGTH = 16, /* of an input, with its end */
        KEPT_PLANS = 32, /* shapes a program keeps plans for; the one that was made first goes */
        FEW = 4,         /* tensors that are described on the stack; more take memory from Python */
        SHORT_KEY = 64,  /* likewise the numbers of a key: 4 tensors of 13 dimensions */
        KEEP_GIL_ELEMENTS = 2048, /* below this other threads could not do anything useful while we work, as in _scanfold.c */
};

typedef struct kept_plan {
        sf_plan *plan;
        int running;   /* calls that use it just now: it must not go meanwhile */
        int64_t *key;  /* for each input: rank, dtype, device, lengths */
        size_t length;
} kept_plan;

/* An output's axes as they lie in memory, outermost first. */
typedef struct memory_order {
        int32_t count;
        int32_t axis[];
} memory_order;

typedef struct expression {
        sf_graph *graph;
        int exact;
        int32_t ninputs;
        char name[MAX_INPUTS][NAME_LENGTH]; /* of the inputs */
        memory_order *order[MAX_OUTPUTS]; /* NULL: row-major */
        int kept, next;
        int latest; /* the plan used last, which is the one wanted next as a rule */
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
        int32_t inputs, outputs;
        char (*name)[NAME_LENGTH]; /* of the inputs */
        memory_order **order;  /* of the outputs */
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
        sf_scalar value = sf_int(0);
        if (item && PyFloat_Check(item))
                return sf_real(PyFloat_AsDouble(item));
        b->failed |= !item || integer_read(item, "a number", &value) < 0;
        return value;
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

/* The order an output instruction names; NULL with an exception where it is not one of axes from 0 on. */
static memory_order *read_order(builder *b)
{
        int32_t list[SF_MAX_NDIM], count;
        uint64_t named = 0;
        axes(b, 2, list, &count);
        for (int32_t i = 0; i < count; i++)
                named |= list[i] >= 0 && list[i] < count ? (uint64_t)1 << list[i] : 0;
        if (b->failed || count < 1 || named != ~(uint64_t)0 >> (64 - count)) {
                if (!PyErr_Occurred())
                        PyErr_Format(PyExc_ValueError, "instruction %zd names no order of axes", b->count);
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

/* Outputs are numbered from 0, instructions' nodes from 1. */
static int32_t build_output(builder *b)
{
        if (b->outputs == MAX_OUTPUTS) {
                PyErr_Format(PyExc_ValueError, "the program has more than %d outputs", (int)MAX_OUTPUTS);
                return -1;
        }
        if (PyTuple_Size(b->instruction) > 2 && !(b->order[b->outputs] = read_order(b)))
                return -1;
        b->outputs++;
        int32_t x = node(b, 1);
        return b->failed ? -1 : sf_expr_output(b->graph, x) + 1;
}

/* An input has the name its instruction gives it, for errors to use, or x and its number. */
static int32_t build_input(builder *b)
{
        if (b->inputs == MAX_INPUTS) {
                PyErr_Format(PyExc_ValueError, "the program has more than %d inputs", (int)MAX_INPUTS);
                return -1;
        }
        char *name = b->name[b->inputs];
        snprintf(name, NAME_LENGTH, "x%d", (int)b->inputs++);
        if (PyTuple_Size(b->instruction) > 1) {
                PyObject *given = PyUnicode_AsASCIIString(PyTuple_GetItem(b->instruction, 1));
                if (!given)
                        return -1;
                snprintf(name, NAME_LENGTH, "%s", PyBytes_AsString(given));
                Py_DECREF(given);
        }
        return sf_expr_input(b->graph, name);
}

/* The instruction's node; 0 where its name is unknown. */
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
        for (int i = 0; i < MAX_OUTPUTS; i++)
                PyMem_Free(e->order[i]);
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
        builder b = {.graph = e->graph, .name = e->name, .order = e->order};
        int rc = build(&b, program);
        PyMem_Free(b.node);
        e->exact = exact;
        e->ninputs = b.inputs;
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
        array few_arrays[FEW];
        sf_tensor few_views[FEW];
} inputs;

static void close_inputs(inputs *in)
{
        while (in->opened > 0)
                array_close(&in->array[--in->opened]);
        if (in->array != in->few_arrays) {
                PyMem_Free(in->array);
                PyMem_Free(in->view);
        }
}

/* The first one opened as `first`, the others as `more`. As array_open; closed again unless the answer is 0. */
static int open_inputs(const expression *e, PyObject *sequence, array_use first, array_use more, inputs *in)
{
        Py_ssize_t n = PySequence_Size(sequence);
        in->array = in->few_arrays;
        in->view = in->few_views;
        in->opened = 0;
        if (n != e->ninputs || n < 1) {
                if (!PyErr_Occurred())
                        PyErr_Format(PyExc_ValueError, "%zd inputs are given, the expression has %d", n, (int)e->ninputs);
                return -1;
        }
        if (n > FEW) {
                in->array = PyMem_Malloc((size_t)n * sizeof *in->array);
                in->view = PyMem_Malloc((size_t)n * sizeof *in->view);
                if (!in->array || !in->view) {
                        PyErr_NoMemory();
                        close_inputs(in);
                        return -1;
                }
        }
        int recorded = 0;
        for (Py_ssize_t i = 0; i < n; i++) {
                PyObject *item = PySequence_GetItem(sequence, i);
                int rc = item ? array_open(item, e->name[i], i ? more : first, &in->array[i]) : -1;
                Py_XDECREF(item); /* the sequence holds it */
                if (rc == ARRAY_RECORD) { /* that is the answer unless a later one needs more */
                        recorded = 1;
                        rc = array_open(item, e->name[i], OPEN_TRUSTED, &in->array[i]);
                }
                if (rc) {
                        close_inputs(in);
                        return rc;
                }
                in->opened++;
                in->view[i] = in->array[i].view;
        }
        if (recorded)
                close_inputs(in);
        return recorded ? ARRAY_RECORD : 0;
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

static int is_for(const kept_plan *kept, const int64_t *key, size_t length)
{
        return kept->length == length && memcmp(kept->key, key, length * sizeof *key) == 0;
}

/* A place for one more plan: the next that nobody runs. NULL with an exception where all are run just now. */
static kept_plan *place_for_plan(expression *e)
{
        if (e->kept < KEPT_PLANS)
                return &e->plan[e->kept++];
        for (int tries = 0; tries < KEPT_PLANS; tries++) {
                kept_plan *slot = &e->plan[e->next];
                e->next = (e->next + 1) % KEPT_PLANS;
                if (!slot->running) {
                        sf_plan_destroy(slot->plan);
                        PyMem_Free(slot->key);
                        return slot;
                }
        }
        PyErr_SetString(PyExc_RuntimeError, "too many shapes of one expression are being computed at once");
        return NULL;
}

/* The plan for these inputs, made if there is none. With the GIL held, so that the list is one thread's at a time. */
static kept_plan *plan_for(expression *e, const inputs *in)
{
        int64_t short_key[SHORT_KEY], *key = short_key;
        size_t length = key_length(in);
        if (length > SHORT_KEY && !(key = PyMem_Malloc(length * sizeof *key))) {
                PyErr_NoMemory();
                return NULL;
        }
        key_fill(in, key);
        kept_plan *found = e->kept && is_for(&e->plan[e->latest], key, length) ? &e->plan[e->latest] : NULL;
        for (int i = 0; i < e->kept && !found; i++)
                if (is_for(&e->plan[i], key, length))
                        found = &e->plan[i];
        if (!found) {
                sf_plan_options o = SF_PLAN_OPTIONS_INIT;
                o.exact = e->exact;
                sf_plan *plan = NULL;
                int64_t *own_key = PyMem_Malloc((length + 1) * sizeof *key);
                sf_status status = sf_plan_create(NULL, e->graph, in->opened, in->view, &o, &plan);
                if (!own_key)
                        PyErr_NoMemory();
                else if (status != SF_OK)
                        raise_status(status);
                else if ((found = place_for_plan(e)))
                        *found = (kept_plan){.plan = plan, .key = memcpy(own_key, key, length * sizeof *key), .length = length};
                if (!found) {
                        sf_plan_destroy(plan);
                        PyMem_Free(own_key);
                }
        }
        if (found)
                e->latest = (int)(found - e->plan);
        if (key != short_key)
                PyMem_Free(key);
        return found;
}

static int small(const inputs *in)
{
        int64_t count = 0;
        for (int32_t i = 0; i < in->opened; i++) {
                int64_t more = array_elements(&in->view[i]);
                if (more < 0 || in->view[i].device.device_type == SF_CUDA)
                        return 0;
                count += more < KEEP_GIL_ELEMENTS ? more : KEEP_GIL_ELEMENTS;
        }
        return count < KEEP_GIL_ELEMENTS;
}

/* Makes the results, opened and as objects; how many were. Fewer than there are: an exception is set. */
static int32_t make_outputs(const expression *e, const sf_plan *plan, const inputs *in, int32_t n, array *out, sf_tensor *view, PyObject **result)
{
        for (int32_t i = 0; i < n; i++) {
                int64_t shape[SF_MAX_NDIM];
                array_form form = {.shape = shape, .order = e->order[i] ? e->order[i]->axis : NULL};
                sf_status status = sf_plan_output(plan, i, &form.ndim, shape, &form.dtype);
                if (status != SF_OK)
                        raise_status(status);
                else if (form.order && e->order[i]->count != form.ndim)
                        PyErr_Format(PyExc_ValueError, "output %d has %d dimensions, its order in memory %d", (int)i, (int)form.ndim,
                                     (int)e->order[i]->count);
                if (PyErr_Occurred() || array_make(&in->array[0], &form, &out[i], &result[i]) < 0)
                        return i;
                view[i] = out[i].view;
        }
        return n;
}

static int run_into(sf_plan *plan, const inputs *in, const sf_tensor *out, const uint64_t *versions)
{
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        sf_status status;
        o.stream = in->array[0].stream;
        o.versions = versions;
        if (small(in)) {
                status = sf_plan_run(plan, in->view, out, &o);
        } else {
                int32_t limit = array_thread_limit(&in->array[0]);
                Py_BEGIN_ALLOW_THREADS
                sf_set_thread_limit(limit);
                status = sf_plan_run(plan, in->view, out, &o);
                sf_set_thread_limit(0);
                Py_END_ALLOW_THREADS
        }
        if (status != SF_OK)
                raise_status(status);
        return status == SF_OK ? 0 : -1;
}

/* The one result, or a list of them. Steals the references. */
static PyObject *packed(int32_t n, PyObject **result)
{
        if (n == 1)
                return result[0];
        PyObject *list = PyList_New(n);
        for (int32_t i = 0; i < n; i++) {
                if (list)
                        PyList_SetItem(list, i, result[i]);
                else
                        Py_DECREF(result[i]);
        }
        return list;
}

static PyObject *run_plan(const expression *e, sf_plan *plan, const inputs *in, const uint64_t *versions)
{
        array few_arrays[FEW], *out = few_arrays;
        sf_tensor few_views[FEW], *view = few_views;
        PyObject *few_results[FEW], **result = few_results, *results = NULL;
        int32_t n = sf_plan_outputs(plan), made = 0;
        if (n > FEW) {
                out = PyMem_Malloc((size_t)n * sizeof *out);
                view = PyMem_Malloc((size_t)n * sizeof *view);
                result = PyMem_Malloc((size_t)n * sizeof *result);
        }
        if (!out || !view || !result)
                PyErr_NoMemory();
        else
                made = make_outputs(e, plan, in, n, out, view, result);
        int done = made == n && !PyErr_Occurred() && run_into(plan, in, view, versions) == 0;
        for (int32_t i = 0; i < made; i++) {
                array_close(&out[i]);
                if (!done)
                        Py_DECREF(result[i]);
        }
        if (done)
                results = packed(n, result);
        if (n > FEW) {
                PyMem_Free(out);
                PyMem_Free(view);
                PyMem_Free(result);
        }
        return results;
}

/* The versions of what may be kept from: see expression_run. 1 where there is one, 0, or -1 with an exception. */
static int read_versions(const inputs *in, long keep, uint64_t *versions)
{
        int any = 0, captured = keep ? array_is_captured(&in->array[0]) : 1;
        if (captured) /* the header's word: none while it is being captured */
                return captured < 0 ? -1 : 0;
        for (int32_t i = 0; i < in->opened; i++) {
                int wanted = keep < 0 ? array_is_parameter(&in->array[i]) : (int)(keep >> i & 1);
                versions[i] = wanted ? array_version(&in->array[i]) : 0;
                any |= versions[i] != 0;
        }
        return any;
}

static PyObject *run(PyObject *const *item, Py_ssize_t count, array_use first, array_use more)
{
        if (count != 3) {
                PyErr_Format(PyExc_TypeError, "3 arguments are expected, not %zd", count);
                return NULL;
        }
        expression *e = PyCapsule_GetPointer(item[0], EXPRESSION_NAME);
        long keep = PyLong_AsLong(item[2]);
        inputs in;
        if (!e || PyErr_Occurred())
                return NULL;
        int rc = open_inputs(e, item[1], first, more, &in);
        if (rc)
                return rc < 0 ? NULL : PyLong_FromLong(rc);
        PyObject *results = NULL;
        if (in.array[0].kind == ARRAY_OTHER) {
                PyErr_SetString(PyExc_TypeError, "an expression's first input is a NumPy array or a torch tensor");
        } else {
                kept_plan *kept = plan_for(e, &in);
                uint64_t versions[MAX_INPUTS];
                int any = kept ? read_versions(&in, keep, versions) : -1;
                if (any >= 0) {
                        kept->running++; /* results are made by Python code, which may let other threads in */
                        results = run_plan(e, kept->plan, &in, any ? versions : NULL);
                        kept->running--;
                }
        }
        close_inputs(&in);
        return results;
}

PyObject *expression_run(PyObject *self, PyObject *const *item, Py_ssize_t count)
{
        (void)self;
        return run(item, count, OPEN_COMPILED, OPEN_COMPILED);
}

PyObject *expression_try(PyObject *self, PyObject *const *item, Py_ssize_t count)
{
        (void)self;
        return run(item, count, OPEN_FIRST, OPEN_MORE);
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
        if (!e || open_inputs(e, sequence, OPEN_COMPILED, OPEN_COMPILED, &in) < 0)
                return NULL;
        kept_plan *kept = plan_for(e, &in);
        size_t needed = 0;
        sf_status status = kept ? sf_plan_explain(kept->plan, (sf_explain_format)format, NULL, 0, &needed) : SF_OK;
        char *buffer = kept && status == SF_OK ? PyMem_Malloc(needed + 1) : NULL;
        if (kept && status == SF_OK && !buffer)
                PyErr_NoMemory();
        if (buffer && (status = sf_plan_explain(kept->plan, (sf_explain_format)format, buffer, needed + 1, NULL)) == SF_OK)
                text = PyUnicode_FromString(buffer);
        PyMem_Free(buffer);
        if (status != SF_OK)
                raise_status(status);
        close_inputs(&in);
        return text;
}
