/* Expressions: see _expressions.h. */
#include "_expressions.h"

#include "_common.h"
#include "_programs.h"

#include <string.h>

#define EXPRESSION_NAME "scanfold.expression"

enum {
        /* plans that an expression keeps, one for each set of shapes; the oldest is replaced */
        KEPT_PLANS = 32,
        /* tensors that are described on the stack; for more, memory is allocated */
        FEW = 4,
        SHORT_KEY = 64,  /* the same for the numbers of a key: 4 tensors of 13 dimensions */
        /* with fewer elements, other threads could not do anything useful while we work (as in
         * _scanfold.c) */
        KEEP_GIL_ELEMENTS = 2048,
};

typedef struct kept_plan {
        sf_plan *plan;
        int running;   /* calls that use it now: it must not be freed meanwhile */
        int64_t *key;  /* for each input: number of dimensions, dtype, device, lengths */
        size_t length;
} kept_plan;

typedef struct expression {
        /* the capsule that owns the context; NULL for the library's default context */
        PyObject *owner;
        sf_context *context; /* where its plans are made and run */
        sf_graph *graph;
        int exact;
        int32_t ninputs;
        memory_order *order[MAX_OUTPUTS]; /* NULL: row-major */
        int kept, next;
        int latest; /* the plan used last, which is usually wanted next */
        kept_plan plan[KEPT_PLANS];
} expression;

/* ------------------------------------------------------------------------------------------------------------
 * Made from a program, or from a line of text
 * ---------------------------------------------------------------------------------------------------------- */
static void release(expression *e)
{
        for (int i = 0; i < e->kept; i++) {
                sf_plan_destroy(e->plan[i].plan);
                PyMem_Free(e->plan[i].key);
        }
        for (int i = 0; i < MAX_OUTPUTS; i++)
                PyMem_Free(e->order[i]);
        sf_graph_destroy(e->graph);
        Py_XDECREF(e->owner); /* after everything that was made in it */
        PyMem_Free(e);
}

static void release_capsule(PyObject *capsule)
{
        release(PyCapsule_GetPointer(capsule, EXPRESSION_NAME));
}

static expression *new_expression(int exact)
{
        expression *e = PyMem_Malloc(sizeof *e);
        if (!e) {
                PyErr_NoMemory();
                return NULL;
        }
        memset(e, 0, sizeof *e);
        e->exact = exact;
        return e;
}

/* Takes ownership of e. Returns the capsule, or NULL with an exception. */
static PyObject *in_capsule(expression *e, int made)
{
        PyObject *capsule = made ? PyCapsule_New(e, EXPRESSION_NAME, release_capsule) : NULL;
        if (!capsule)
                release(e);
        return capsule;
}

/* In the default context, because the expression outlives a `using` block. */
PyObject *expression_create(PyObject *self, PyObject *args)
{
        (void)self;
        PyObject *program;
        int exact;
        if (!PyArg_ParseTuple(args, "Oi", &program, &exact))
                return NULL;
        expression *e = new_expression(exact);
        if (!e)
                return NULL;
        sf_status status = sf_graph_create(NULL, &e->graph);
        if (status != SF_OK) {
                raise_status(NULL, status);
                return in_capsule(e, 0);
        }
        int rc = program_build(program, e->graph, e->order);
        e->ninputs = sf_graph_inputs(e->graph);
        return in_capsule(e, rc == 0);
}

/* Makes the graph of a line of text, in the expression's context. */
static int parse(expression *e, PyObject *text)
{
        PyObject *bytes = PyUnicode_AsUTF8String(text);
        char *line = NULL;
        if (!bytes || PyBytes_AsStringAndSize(bytes, &line, NULL) < 0) {
                Py_XDECREF(bytes);
                return -1;
        }
        sf_status status = sf_graph_parse(e->context, line, &e->graph);
        Py_DECREF(bytes);
        if (status != SF_OK) {
                raise_status(e->context, status);
                return -1;
        }
        e->ninputs = sf_graph_inputs(e->graph);
        int32_t noutputs = sf_graph_outputs(e->graph);
        if (e->ninputs > MAX_INPUTS)
                PyErr_Format(PyExc_ValueError, "the expression has %d inputs: at most %d are taken",
                             (int)e->ninputs, (int)MAX_INPUTS);
        else if (noutputs > MAX_OUTPUTS)
                PyErr_Format(PyExc_ValueError, "the expression has %d results: at most %d are "
                             "taken", (int)noutputs, (int)MAX_OUTPUTS);
        else if (!e->ninputs)
                PyErr_SetString(PyExc_ValueError, "the expression has no inputs: name at least one "
                                "array, whose kind the result has");
        return PyErr_Occurred() ? -1 : 0;
}

PyObject *expression_parse(PyObject *self, PyObject *args)
{
        (void)self;
        PyObject *text, *owner;
        int exact;
        if (!PyArg_ParseTuple(args, "UiO", &text, &exact, &owner))
                return NULL;
        expression *e = new_expression(exact);
        if (!e)
                return NULL;
        if (owner != Py_None) {
                Py_INCREF(owner);
                e->owner = owner;
                e->context = PyCapsule_GetPointer(owner, CONTEXT_NAME);
        }
        int made = !PyErr_Occurred() && parse(e, text) == 0;
        int32_t ninputs = e->ninputs;
        PyObject *capsule = in_capsule(e, made), *names = capsule ? PyTuple_New(ninputs) : NULL;
        for (int32_t i = 0; names && i < ninputs; i++) {
                PyObject *name = PyUnicode_FromString(sf_graph_input_name(e->graph, i));
                if (!name || PyTuple_SetItem(names, i, name) < 0)
                        Py_CLEAR(names);
        }
        if (names)
                return Py_BuildValue("(NN)", capsule, names);
        Py_XDECREF(capsule);
        return NULL;
}

/* ------------------------------------------------------------------------------------------------------------
 * Running
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct inputs {
        array *array;
        sf_tensor *view;
        int32_t opened;
        int32_t special; /* the first input that is more than its memory, or -1 */
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

/* Opens the first input as `first`, the others as `more`. Returns what array_open returns; unless
 * that is 0, all are closed again. */
static int open_inputs(const expression *e, PyObject *sequence, array_use first, array_use more, inputs *in)
{
        Py_ssize_t n = PySequence_Size(sequence);
        in->array = in->few_arrays;
        in->view = in->few_views;
        in->opened = 0;
        in->special = -1;
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
                const char *name = sf_graph_input_name(e->graph, (int32_t)i);
                if (item && (PyFloat_Check(item) || PyLong_Check(item)))
                        PyErr_Format(PyExc_TypeError, "%s is the number %R: write it into the "
                                     "expression, or give an array", name, item);
                int rc = -1;
                if (!PyErr_Occurred())
                        rc = array_open(item, name, i ? more : first, &in->array[i]);
                Py_XDECREF(item); /* the sequence has a reference */
                if (rc > 0 && in->special < 0)
                        in->special = (int32_t)i;
                /* the result, unless a later input needs the dispatcher */
                if (rc == ARRAY_RECORD) {
                        recorded = 1;
                        rc = array_open(item, name, OPEN_TRUSTED, &in->array[i]);
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

/* What a plan is made for, as numbers: 3 for each input and 1 for each dimension. */
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

/* A place for one more plan: a free one, or the next whose plan is not running. NULL with an
 * exception if all are running. */
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

/* The plan for these inputs; it is made if there is none. The GIL is held, so that only one thread
 * at a time uses the list. */
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
                sf_status status = sf_plan_create(e->context, e->graph, in->opened, in->view, &o,
                                                  &plan);
                if (!own_key)
                        PyErr_NoMemory();
                else if (status != SF_OK)
                        raise_status(e->context, status);
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

/* The results of one run: as opened arrays, as C tensors, and as Python objects. */
typedef struct outputs {
        array *array;
        sf_tensor *view;
        PyObject **result;
        int32_t count, opened;
        array few_arrays[FEW];
        sf_tensor few_views[FEW];
        PyObject *few_results[FEW];
} outputs;

static int begin_outputs(int32_t count, outputs *out)
{
        out->array = out->few_arrays;
        out->view = out->few_views;
        out->result = out->few_results;
        out->count = count;
        out->opened = 0;
        if (count > FEW) {
                out->array = PyMem_Malloc((size_t)count * sizeof *out->array);
                out->view = PyMem_Malloc((size_t)count * sizeof *out->view);
                out->result = PyMem_Malloc((size_t)count * sizeof *out->result);
        }
        if (out->array && out->view && out->result)
                return 0;
        PyErr_NoMemory();
        return -1;
}

/* A result survives if somebody else has a reference. */
static void end_outputs(outputs *out)
{
        for (int32_t i = 0; i < out->opened; i++) {
                array_close(&out->array[i]);
                Py_XDECREF(out->result[i]);
        }
        if (out->array != out->few_arrays) {
                PyMem_Free(out->array);
                PyMem_Free(out->view);
                PyMem_Free(out->result);
        }
}

static int make_outputs(const expression *e, const sf_plan *plan, const inputs *in, outputs *out)
{
        for (int32_t i = 0; i < out->count; i++, out->opened++) {
                int64_t shape[SF_MAX_NDIM];
                array_form form = {.shape = shape, .order = e->order[i] ? e->order[i]->axis : NULL};
                sf_status status = sf_plan_output(plan, i, &form.ndim, shape, &form.dtype);
                if (status != SF_OK)
                        raise_status(e->context, status);
                else if (form.order && e->order[i]->count != form.ndim)
                        PyErr_Format(PyExc_ValueError, "output %d has %d dimensions, its order in memory %d", (int)i, (int)form.ndim,
                                     (int)e->order[i]->count);
                if (PyErr_Occurred() ||
                    array_make(&in->array[0], &form, &out->array[i], &out->result[i]) < 0)
                        return -1;
                out->view[i] = out->array[i].view;
        }
        return 0;
}

/* Opens the caller's outputs: one array, or a tuple or list with one for each result. */
static int open_outputs(PyObject *given, outputs *out)
{
        int several = PyTuple_Check(given) || PyList_Check(given);
        Py_ssize_t n = several ? PySequence_Size(given) : 1;
        if (n != out->count) {
                PyErr_Format(PyExc_ValueError, "out is %zd array%s, the expression has %d result%s",
                             n, n == 1 ? "" : "s", (int)out->count, out->count == 1 ? "" : "s");
                return -1;
        }
        for (int32_t i = 0; i < out->count; i++, out->opened++) {
                char name[32] = "out"; /* the name in the library's messages */
                if (out->count > 1)
                        snprintf(name, sizeof name, "output %d", (int)i);
                PyObject *item = several ? PySequence_GetItem(given, i) : new_reference(given);
                if (!item)
                        return -1;
                out->result[i] = item;
                int rc = array_open(item, name, OPEN_OUT, &out->array[i]);
                if (rc == 0) {
                        out->view[i] = out->array[i].view;
                        int writable = array_can_be_written(&out->array[i]);
                        if (writable > 0)
                                continue;
                        if (writable == 0)
                                PyErr_Format(PyExc_ValueError, "%s is %R, and read-only: give "
                                             "an array that can be written", name,
                                             (PyObject *)Py_TYPE(item));
                        array_close(&out->array[i]);
                } else if (rc > 0) {
                        PyErr_Format(
                                PyExc_TypeError,
                                "%s is a torch tensor that is more than its "
                                "memory (its device, a gradient, a subclass): give one that is "
                                "not",
                                name);
                }
                Py_DECREF(item);
                return -1;
        }
        return 0;
}

/* Work is launched on the first input's stream: see array_wait_before. */
static int wait_for_others(const inputs *in, const outputs *out)
{
        for (int32_t i = 1; i < in->opened; i++)
                if (array_wait_before(&in->array[0], &in->array[i]) < 0)
                        return -1;
        for (int32_t i = 0; i < out->opened; i++)
                if (array_wait_before(&in->array[0], &out->array[i]) < 0)
                        return -1;
        return 0;
}

static int wait_for_work(const inputs *in, const outputs *out)
{
        int unknown = 0;
        for (int32_t i = 0; i < in->opened; i++)
                unknown |= array_wants_a_wait(&in->array[0], &in->array[i]);
        for (int32_t i = 0; i < out->opened; i++)
                unknown |= array_wants_a_wait(&in->array[0], &out->array[i]);
        return unknown ? array_wait(&in->array[0]) : 0;
}

static int small(const sf_tensor *view, int32_t n)
{
        int64_t count = 0;
        for (int32_t i = 0; i < n; i++) {
                int64_t more = array_elements(&view[i]);
                if (more < 0 || view[i].device.device_type == SF_CUDA)
                        return 0;
                count += more < KEEP_GIL_ELEMENTS ? more : KEEP_GIL_ELEMENTS;
        }
        return count < KEEP_GIL_ELEMENTS;
}

/* Small tensors can be much work, as in an outer product. So torch is asked how many threads may be
 * used, whatever their size. */
static int run_into(const expression *e, sf_plan *plan, const inputs *in, const outputs *out,
                    const uint64_t *versions)
{
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        sf_status status;
        o.stream = in->array[0].stream;
        o.versions = versions;
        int32_t limit = array_thread_limit(&in->array[0]);
        PyThreadState *released = NULL;
        if (!small(in->view, in->opened) || !small(out->view, out->opened))
                released = PyEval_SaveThread();
        sf_set_thread_limit(limit);
        status = sf_plan_run(plan, in->view, out->view, &o);
        sf_set_thread_limit(0);
        if (released)
                PyEval_RestoreThread(released);
        if (status != SF_OK)
                raise_status(e->context, status);
        return status == SF_OK ? 0 : -1;
}

/* The result, or a list if there are several. */
static PyObject *packed(const outputs *out)
{
        if (out->count == 1)
                return new_reference(out->result[0]);
        PyObject *list = PyList_New(out->count);
        for (int32_t i = 0; list && i < out->count; i++)
                PyList_SetItem(list, i, new_reference(out->result[i]));
        return list;
}

/* `given` is the caller's out, or None. */
static PyObject *run_plan(const expression *e, sf_plan *plan, const inputs *in, PyObject *given,
                          const uint64_t *versions)
{
        outputs out;
        PyObject *results = NULL;
        int made = given == Py_None;
        int rc = begin_outputs(sf_plan_outputs(plan), &out);
        if (rc == 0)
                rc = made ? make_outputs(e, plan, in, &out) : open_outputs(given, &out);
        if (rc == 0 && wait_for_others(in, &out) == 0 &&
            run_into(e, plan, in, &out, versions) == 0 && wait_for_work(in, &out) == 0) {
                for (int32_t i = 0; i < out.count && rc == 0; i++) {
                        if (made) {
                                out.result[i] = array_result(&in->array[0], out.result[i]);
                                rc = out.result[i] ? 0 : -1;
                        } else {
                                rc = array_was_written(&out.array[i]);
                        }
                }
                results = rc == 0 ? packed(&out) : NULL;
        }
        end_outputs(&out);
        return results;
}

/* The versions of the inputs whose results may be kept: see expression_run. 1 if there is one, 0,
 * or -1 with an exception. */
static int read_versions(const inputs *in, long keep, uint64_t *versions)
{
        int any = 0, captured = keep ? array_is_captured(&in->array[0]) : 1;
        /* no versions for a captured run: it computes everything each time the graph runs */
        if (captured)
                return captured < 0 ? -1 : 0;
        for (int32_t i = 0; i < in->opened; i++) {
                int wanted = keep < 0 ? array_is_parameter(&in->array[i]) : (int)(keep >> i & 1);
                versions[i] = wanted ? array_version(&in->array[i]) : 0;
                any |= versions[i] != 0;
        }
        return any;
}

/* Computes the results of the opened inputs, and closes the inputs. */
static PyObject *run_opened(expression *e, inputs *in, PyObject *out, long keep)
{
        PyObject *results = NULL;
        kept_plan *kept = plan_for(e, in);
        uint64_t versions[MAX_INPUTS];
        int any = kept ? read_versions(in, keep, versions) : -1;
        if (any >= 0) {
                /* making the results runs Python code, which may let other threads run */
                kept->running++;
                results = run_plan(e, kept->plan, in, out, any ? versions : NULL);
                kept->running--;
        }
        close_inputs(in);
        return results;
}

static int expect_3(Py_ssize_t count)
{
        if (count != 3)
                PyErr_Format(PyExc_TypeError, "3 arguments are expected, not %zd", count);
        return count == 3 ? 0 : -1;
}

static PyObject *run(PyObject *const *item, Py_ssize_t count, array_use first, array_use more)
{
        if (expect_3(count) < 0)
                return NULL;
        expression *e = PyCapsule_GetPointer(item[0], EXPRESSION_NAME);
        long keep = PyLong_AsLong(item[2]);
        inputs in;
        if (!e || PyErr_Occurred())
                return NULL;
        int rc = open_inputs(e, item[1], first, more, &in);
        if (rc)
                return rc < 0 ? NULL : PyLong_FromLong(rc);
        return run_opened(e, &in, Py_None, keep);
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

/* An expression cannot take a tensor that is more than its memory. */
static PyObject *refuse_special(const expression *e, const inputs *in, int rc)
{
        const char *name = sf_graph_input_name(e->graph, in->special);
        if (rc == ARRAY_RECORD)
                PyErr_Format(PyExc_TypeError,
                             "%s requires a gradient, which an expression has not: "
                             "call scanfold's functions, such as scanfold.cumsum, or "
                             "torch.compile(model, backend=\"scanfold\"); or give %s.detach()",
                             name, name);
        else
                PyErr_Format(PyExc_TypeError,
                             "%s is a torch tensor that is more than its memory (a "
                             "subclass, a transform such as vmap, a mode, autocast, a trace, its "
                             "device): call scanfold's functions, such as scanfold.cumsum, or "
                             "torch.compile(model, backend=\"scanfold\")",
                             name);
        return NULL;
}

PyObject *expression_call(PyObject *self, PyObject *const *item, Py_ssize_t count)
{
        (void)self;
        if (expect_3(count) < 0)
                return NULL;
        expression *e = PyCapsule_GetPointer(item[0], EXPRESSION_NAME);
        inputs in;
        int rc = e ? open_inputs(e, item[1], OPEN_FIRST, OPEN_FIRST, &in) : -1;
        if (rc)
                return rc < 0 ? NULL : refuse_special(e, &in, rc);
        PyObject *results = run_opened(e, &in, item[2], 0);
        if (!results || !PyList_Check(results))
                return results;
        PyObject *tuple = PyList_AsTuple(results);
        Py_DECREF(results);
        return tuple;
}

PyObject *expression_plans(PyObject *self, PyObject *capsule)
{
        (void)self;
        const expression *e = PyCapsule_GetPointer(capsule, EXPRESSION_NAME);
        return e ? PyLong_FromLong(e->kept) : NULL;
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
                int32_t ndim = program_numbers(lengths, shape[i]);
                view[i] = (sf_tensor){.device = {SF_CPU, 0}, .ndim = ndim, .dtype = {(uint8_t)(code >> 8), (uint8_t)code, 1}, .shape = shape[i]};
        }
        sf_plan *plan = NULL;
        PyObject *made = NULL;
        if (!PyErr_Occurred()) {
                sf_plan_options o = SF_PLAN_OPTIONS_INIT;
                o.exact = e->exact;
                sf_status status = sf_plan_create(e->context, e->graph, (int32_t)n, view, &o,
                                                  &plan);
                made = status == SF_OK ? describe_outputs(plan) : raise_status(e->context, status);
                sf_plan_destroy(plan);
        }
        PyMem_Free(shape);
        return made;
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
        int rc = e ? open_inputs(e, sequence, OPEN_COMPILED, OPEN_COMPILED, &in) : -1;
        if (rc)
                return rc < 0 ? NULL : refuse_special(e, &in, rc);
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
                raise_status(e->context, status);
        close_inputs(&in);
        return text;
}
