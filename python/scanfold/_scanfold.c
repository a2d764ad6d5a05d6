/*
 * scanfold._scanfold: sf_scan and sf_fold for Python's arrays. The functions take positional
 * arguments of fixed types; scanfold/__init__.py has the signatures for users.
 *
 * scan(x, op, axis, reverse, exclusive, mask, initial, dtype, out, trusted, skip_nan, offsets)
 * fold(x, op, axes, keepdims, reverse, mask, initial, dtype, out, trusted, skip_nan, offsets)
 *
 * The offsets may be left out.
 *
 * A torch tensor that is more than its memory (a transform, a mode, a subclass, ...) is passed to
 * the functions of scanfold.torch with the same names and arguments, which call torch's dispatcher.
 * If only its gradient is wanted, it is passed to scan_recorded and fold_recorded, which call an
 * autograd.Function: that takes a tenth of the dispatcher's time. With `trusted` the dispatcher
 * itself is the caller.
 */
#include "_common.h"
#include "_expressions.h"
#include "_jax.h"
#include "_shards.h"

#include <string.h>

/* With fewer elements, other threads could not do anything useful while we work. */
#define KEEP_GIL_ELEMENTS 2048
/* With fewer elements than this, of at most 16 bytes each with their results, a second thread is
 * never worth it. */
#define SHARED_ELEMENTS 65536

enum { ARGUMENTS = 12 };

static _Thread_local sf_context *context; /* NULL: the library's default one */

sf_context *chosen_context(void)
{
        return context;
}

/* ------------------------------------------------------------------------------------------------------------
 * Arguments
 * ---------------------------------------------------------------------------------------------------------- */

int integer_read(PyObject *object, const char *name, sf_scalar *scalar)
{
        int overflow;
        *scalar = sf_int(PyLong_AsLongLongAndOverflow(object, &overflow));
        if (overflow < 0)
                PyErr_Format(PyExc_ValueError, "%s is below -2**63", name);
        if (overflow > 0) {
                *scalar = sf_uint(PyLong_AsUnsignedLongLong(object));
                if (PyErr_Occurred()) {
                        PyErr_Clear();
                        PyErr_Format(PyExc_ValueError, "%s is above 2**64 - 1", name);
                }
        }
        return PyErr_Occurred() ? -1 : 0;
}

/* A number, or an array of one element. */
static int read_initial(PyObject *object, sf_scalar *scalar)
{
        memset(scalar, 0, sizeof *scalar);
        if (object == Py_None)
                return 0;
        if (PyLong_Check(object)) /* bool is an int */
                return integer_read(object, "initial", scalar);
        if (PyFloat_Check(object)) {
                *scalar = sf_real(PyFloat_AsDouble(object));
                return 0;
        }
        PyObject *item = PyObject_HasAttrString(object, "item") ? PyObject_CallMethod(object, "item", NULL) : NULL;
        int rc = -1;
        if (item && (PyLong_Check(item) || PyFloat_Check(item)))
                rc = read_initial(item, scalar);
        else if (item || !PyErr_Occurred())
                PyErr_Format(PyExc_TypeError, "initial is %R: a number is expected", (PyObject *)Py_TYPE(object));
        Py_XDECREF(item);
        return rc;
}

static int is_number(PyObject *object)
{
        return object == Py_None || PyLong_Check(object) || PyFloat_Check(object);
}

/*
 * Reads an initial value that is not a number; x is open. 0; -1 with an exception; or
 * ARRAY_DISPATCH if both are torch tensors, because the gradient of the initial value may be wanted
 * too.
 */
static int read_initial_array(const array *x, PyObject *object, sf_scalar *scalar)
{
        int is_torch = x->kind == ARRAY_TORCH ? array_is_torch(object) : 0;
        return is_torch < 0 ? -1 : is_torch ? ARRAY_DISPATCH : read_initial(object, scalar);
}

/* Reads a dtype of any library, which scanfold._dtypes turns into code * 256 + bits. For None,
 * *dtype is all zero. */
static int read_dtype(PyObject *object, sf_dtype *dtype)
{
        static PyObject *module;
        memset(dtype, 0, sizeof *dtype);
        if (object == Py_None)
                return 0;
        if (!module && !(module = PyImport_ImportModule("scanfold._dtypes")))
                return -1;
        PyObject *code = PyObject_CallMethod(module, "code", "O", object);
        long number = code ? PyLong_AsLong(code) : -1;
        Py_XDECREF(code);
        if (number == -1 && PyErr_Occurred())
                return -1;
        *dtype = (sf_dtype){(uint8_t)(number >> 8), (uint8_t)number, 1};
        return 0;
}

static int read_axis(PyObject *object, int32_t *axis)
{
        PyObject *index = PyNumber_Index(object);
        if (!index) {
                if (PyErr_ExceptionMatches(PyExc_TypeError))
                        PyErr_Format(PyExc_TypeError, "axis is %R: a whole number is expected", object);
                return -1;
        }
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(index, &overflow);
        if (overflow || number > INT32_MAX || number < INT32_MIN)
                PyErr_Format(PyExc_ValueError, "axis is %R; x can have at most %d dimensions", index, SF_MAX_NDIM);
        *axis = (int32_t)number;
        Py_DECREF(index);
        return PyErr_Occurred() ? -1 : 0;
}

/* The arrays of one call, in the order in which they are opened. */
typedef struct call {
        array x, mask, offsets, out;
        int opened; /* how many of the four */
        int has_mask, has_offsets;
        PyObject *result;
} call;

static void close_call(call *c)
{
        if (c->opened > 3)
                array_close(&c->out);
        if (c->opened > 2 && c->has_offsets)
                array_close(&c->offsets);
        if (c->opened > 1 && c->has_mask)
                array_close(&c->mask);
        if (c->opened > 0)
                array_close(&c->x);
}

static PyObject *give_up(call *c)
{
        close_call(c);
        Py_CLEAR(c->result);
        return NULL;
}

/* The functions of scanfold.torch, by what array_open returned. */
typedef struct elsewhere_functions {
        const char *name[ARRAY_RECORD + 1];
        PyObject *function[ARRAY_RECORD + 1];
} elsewhere_functions;
static elsewhere_functions scans = {.name = {[ARRAY_DISPATCH] = "scan", [ARRAY_RECORD] = "scan_recorded"}};
static elsewhere_functions folds = {.name = {[ARRAY_DISPATCH] = "fold", [ARRAY_RECORD] = "fold_recorded"}};

/* Opening an array returned rc: returns NULL if that is an exception, otherwise makes the same call
 * through torch. */
static PyObject *elsewhere(call *c, int rc, elsewhere_functions *to, PyObject *const *item, Py_ssize_t count)
{
        give_up(c);
        if (rc < 0)
                return NULL;
        if (c->opened && c->x.kind != ARRAY_TORCH) {
                PyErr_Format(PyExc_TypeError,
                             "x is %R, but %s is a torch tensor that is more than its memory (its device, a gradient, a subclass): "
                             "give x as a tensor too", (PyObject *)Py_TYPE(c->x.object), c->opened == 1 ? "mask" : c->opened == 2 ? "offsets" : "out");
                return NULL;
        }
        if (!to->function[rc]) {
                PyObject *module = PyImport_ImportModule("scanfold.torch");
                to->function[rc] = module ? PyObject_GetAttrString(module, to->name[rc]) : NULL;
                Py_XDECREF(module);
        }
        PyObject *args = to->function[rc] ? PyTuple_New(count) : NULL;
        for (Py_ssize_t i = 0; args && i < count; i++) {
                Py_INCREF(item[i]);
                PyTuple_SetItem(args, i, item[i]);
        }
        PyObject *result = args ? PyObject_CallObject(to->function[rc], args) : NULL;
        Py_XDECREF(args);
        return result;
}

/* Opens x, mask and offsets. Returns what array_open returns. */
static int open_inputs(call *c, PyObject *x, PyObject *mask, PyObject *offsets, PyObject *trusted)
{
        int trust = trusted == Py_True;
        c->opened = 0;
        c->result = NULL;
        int rc = array_open(x, "x", trust ? OPEN_TRUSTED : OPEN_FIRST, &c->x);
        if (rc)
                return rc;
        c->opened = 1;
        c->has_mask = mask != Py_None;
        if (c->has_mask && (rc = array_open(mask, "mask", trust ? OPEN_TRUSTED : OPEN_MORE, &c->mask)) != 0)
                return rc;
        c->opened = 2;
        c->has_offsets = offsets != Py_None;
        if (c->has_offsets && (rc = array_open(offsets, "offsets", trust ? OPEN_TRUSTED : OPEN_MORE, &c->offsets)) != 0)
                return rc;
        c->opened = 3;
        return 0;
}

/* Opens the caller's out, or makes one. */
static int open_out(call *c, PyObject *out, const array_form *form)
{
        sf_dtype dtype = form->dtype;
        if (out == Py_None) {
                if (array_make(&c->x, form, &c->out, &c->result) < 0)
                        return -1;
                c->opened = 4;
                return 0;
        }
        int rc = array_open(out, "out", OPEN_OUT, &c->out);
        if (rc)
                return rc;
        c->opened = 4;
        int writable = array_can_be_written(&c->out);
        if (writable <= 0) {
                if (!writable)
                        PyErr_Format(PyExc_ValueError, "out is %R, and read-only: give an array that can be written", (PyObject *)Py_TYPE(out));
                return -1;
        }
        if (dtype.bits && (dtype.code != c->out.view.dtype.code || dtype.bits != c->out.view.dtype.bits)) {
                PyErr_Format(PyExc_ValueError, "dtype is %s, but out has %s: give one of them, or the same", array_dtype_name(dtype),
                             array_dtype_name(c->out.view.dtype));
                return -1;
        }
        Py_INCREF(out);
        c->result = out;
        return 0;
}

static int wait_for_others(const call *c)
{
        if (c->has_mask && array_wait_before(&c->x, &c->mask) < 0)
                return -1;
        if (c->has_offsets && array_wait_before(&c->x, &c->offsets) < 0)
                return -1;
        return array_wait_before(&c->x, &c->out);
}

static int small(const call *c)
{
        int64_t count = array_elements(&c->x.view);
        return count >= 0 && count < KEEP_GIL_ELEMENTS && c->x.view.device.device_type != SF_CUDA;
}

static int32_t thread_limit(const call *c)
{
        int64_t count = array_elements(&c->x.view);
        return count >= 0 && count < SHARED_ELEMENTS ? 0 : array_thread_limit(&c->x);
}

/* Waits for the work if the arrays' library does not know its stream. Returns the result. */
static PyObject *finish(call *c, sf_status status, int made)
{
        if (status != SF_OK) {
                raise_status(context, status);
                return give_up(c);
        }
        int unknown = array_wants_a_wait(&c->x, &c->x) || array_wants_a_wait(&c->x, &c->out) ||
                      (c->has_mask && array_wants_a_wait(&c->x, &c->mask)) ||
                      (c->has_offsets && array_wants_a_wait(&c->x, &c->offsets));
        if (unknown && array_wait(&c->x) < 0)
                return give_up(c);
        if (!made && array_was_written(&c->out) < 0)
                return give_up(c);
        PyObject *result = c->result;
        close_call(c);
        return made ? array_result(&c->x, result) : result;
}

/* Chooses the default dtype for the operation, unless the caller has given a dtype or an out. */
static int choose_dtype(const call *c, long op, PyObject *out, sf_dtype *dtype)
{
        if (dtype->bits || out != Py_None)
                return 0;
        if (op == SF_SUM || op == SF_PROD)
                return array_sum_dtype(&c->x, dtype);
        if (op >= SF_ARGMAX && op <= SF_LAST_ARGMIN)
                return array_index_dtype(&c->x, dtype);
        if (op == SF_LOGSUMEXP)
                return array_real_dtype(&c->x, dtype);
        *dtype = c->x.view.dtype;
        return 0;
}

/*
 * Arguments are passed as a C array, so that no tuple is made. The flag is part of the limited API
 * since 3.10; in 3.9 it has the same value and meaning, but its name is hidden.
 */
#ifndef METH_FASTCALL
#  define METH_FASTCALL 0x0080
#endif
typedef PyObject *(*fast_function)(PyObject *self, PyObject *const *item, Py_ssize_t count);

/* All arguments, or all but the offsets. */
static int expect(Py_ssize_t count)
{
        const int right = count == ARGUMENTS || count == ARGUMENTS - 1;
        if (!right)
                PyErr_Format(PyExc_TypeError, "%d arguments are expected, not %zd", ARGUMENTS, count);
        return right ? 0 : -1;
}

/* ------------------------------------------------------------------------------------------------------------
 * Scan and fold
 * ---------------------------------------------------------------------------------------------------------- */
static PyObject *scan(PyObject *self, PyObject *const *item, Py_ssize_t count)
{
        (void)self;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        sf_dtype asked;
        if (expect(count) < 0)
                return NULL;
        PyObject *x = item[0], *mask = item[5], *out = item[8], *offsets = count == ARGUMENTS ? item[11] : Py_None;
        long op = PyLong_AsLong(item[1]);
        o.op = (sf_op)op;
        o.reverse = PyObject_IsTrue(item[3]);
        o.exclusive = PyObject_IsTrue(item[4]);
        o.skip_nan = PyObject_IsTrue(item[10]);
        int number = is_number(item[6]);
        if (PyErr_Occurred() || (number && read_initial(item[6], &o.initial) < 0) ||
            read_dtype(item[7], &asked) < 0)
                return NULL;
        call c;
        int rc = open_inputs(&c, x, mask, offsets, item[9]);
        o.offsets = c.opened > 2 && c.has_offsets ? &c.offsets.view : NULL;
        if (!rc && !number)
                rc = read_initial_array(&c.x, item[6], &o.initial);
        if (rc)
                return elsewhere(&c, rc, &scans, item, count);
        if (item[2] == Py_None) {
                if (c.x.view.ndim > 1) {
                        PyErr_Format(PyExc_ValueError, "axis is needed: x has %d dimensions", (int)c.x.view.ndim);
                        return give_up(&c);
                }
        } else if (read_axis(item[2], &o.axis) < 0) {
                return give_up(&c);
        }
        rc = choose_dtype(&c, op, out, &asked);
        if (rc == 0)
                rc = open_out(&c, out, &(array_form){.ndim = c.x.view.ndim, .shape = c.x.view.shape, .dtype = asked, .like = 1});
        if (rc)
                return elsewhere(&c, rc, &scans, item, count);
        if (wait_for_others(&c) < 0)
                return give_up(&c);
        o.mask = c.has_mask ? &c.mask.view : NULL;
        o.stream = c.x.stream;
        sf_status status;
        if (small(&c)) {
                status = sf_scan(context, &c.x.view, &c.out.view, &o);
        } else {
                sf_context *mine = context;
                int32_t limit = thread_limit(&c);
                Py_BEGIN_ALLOW_THREADS
                sf_set_thread_limit(limit);
                status = sf_scan(mine, &c.x.view, &c.out.view, &o);
                sf_set_thread_limit(0);
                Py_END_ALLOW_THREADS
        }
        return finish(&c, status, out == Py_None);
}

/* None, one axis, or a sequence of axes. *count is -1 for None. */
static int read_axes(PyObject *object, int32_t *axes, int32_t *count)
{
        *count = -1;
        if (object == Py_None)
                return 0;
        if (PyLong_Check(object) || !PySequence_Check(object)) {
                *count = 1;
                return read_axis(object, axes);
        }
        Py_ssize_t n = PySequence_Size(object);
        if (n < 0)
                return -1;
        if (n > SF_MAX_NDIM) {
                PyErr_Format(PyExc_ValueError, "axis names %zd axes: x can have at most %d", n, SF_MAX_NDIM);
                return -1;
        }
        for (Py_ssize_t i = 0; i < n; i++) {
                PyObject *axis = PySequence_GetItem(object, i);
                int rc = axis ? read_axis(axis, &axes[i]) : -1;
                Py_XDECREF(axis);
                if (rc < 0)
                        return -1;
        }
        *count = (int32_t)n;
        return 0;
}

static PyObject *fold(PyObject *self, PyObject *const *item, Py_ssize_t count)
{
        (void)self;
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        sf_dtype asked;
        int32_t axes[SF_MAX_NDIM], naxes, ndim;
        int64_t shape[SF_MAX_NDIM];
        if (expect(count) < 0)
                return NULL;
        PyObject *x = item[0], *mask = item[5], *out = item[8], *offsets = count == ARGUMENTS ? item[11] : Py_None;
        long op = PyLong_AsLong(item[1]);
        o.op = (sf_op)op;
        o.keepdim = PyObject_IsTrue(item[3]); /* None means no */
        o.reverse = PyObject_IsTrue(item[4]);
        o.skip_nan = PyObject_IsTrue(item[10]);
        int number = is_number(item[6]);
        if (PyErr_Occurred() || read_axes(item[2], axes, &naxes) < 0 ||
            (number && read_initial(item[6], &o.initial) < 0) || read_dtype(item[7], &asked) < 0)
                return NULL;
        o.axes = naxes < 0 ? NULL : axes;
        o.naxes = naxes < 0 ? 0 : naxes;
        call c;
        int rc = open_inputs(&c, x, mask, offsets, item[9]);
        o.offsets = c.opened > 2 && c.has_offsets ? &c.offsets.view : NULL;
        if (!rc && !number)
                rc = read_initial_array(&c.x, item[6], &o.initial);
        if (rc)
                return elsewhere(&c, rc, &folds, item, count);
        sf_status status = sf_fold_shape(context, &c.x.view, &o, &ndim, shape);
        if (status != SF_OK) {
                raise_status(context, status);
                return give_up(&c);
        }
        rc = choose_dtype(&c, op, out, &asked);
        if (rc == 0)
                rc = open_out(&c, out, &(array_form){.ndim = ndim, .shape = shape, .dtype = asked});
        if (rc)
                return elsewhere(&c, rc, &folds, item, count);
        if (wait_for_others(&c) < 0)
                return give_up(&c);
        o.mask = c.has_mask ? &c.mask.view : NULL;
        o.stream = c.x.stream;
        if (small(&c)) {
                status = sf_fold(context, &c.x.view, &c.out.view, &o);
        } else {
                sf_context *mine = context;
                int32_t limit = thread_limit(&c);
                Py_BEGIN_ALLOW_THREADS
                sf_set_thread_limit(limit);
                status = sf_fold(mine, &c.x.view, &c.out.view, &o);
                sf_set_thread_limit(0);
                Py_END_ALLOW_THREADS
        }
        return finish(&c, status, out == Py_None);
}

/* ------------------------------------------------------------------------------------------------------------
 * Contexts
 * ---------------------------------------------------------------------------------------------------------- */
static void destroy_context(PyObject *capsule)
{
        sf_context_destroy(PyCapsule_GetPointer(capsule, CONTEXT_NAME));
}

/* context_create(threads, reference, isa) -> capsule */
static PyObject *context_create(PyObject *self, PyObject *args)
{
        (void)self;
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        int threads, reference;
        const char *isa;
        if (!PyArg_ParseTuple(args, "iiz", &threads, &reference, &isa))
                return NULL;
        o.threads = threads;
        o.backend = reference ? SF_BACKEND_REF : SF_BACKEND_AUTO;
        o.isa = isa;
        sf_context *created = NULL;
        sf_status status = sf_context_create(&created, &o);
        if (status != SF_OK)
                return raise_status(NULL, status); /* the message belongs to the default context */
        PyObject *capsule = PyCapsule_New(created, CONTEXT_NAME, destroy_context);
        if (!capsule)
                sf_context_destroy(created);
        return capsule;
}

/* context_use(capsule or None): for the calling thread, from now on. The caller must keep the
 * capsule alive meanwhile. */
static PyObject *context_use(PyObject *self, PyObject *capsule)
{
        (void)self;
        sf_context *chosen = NULL;
        if (capsule != Py_None && !(chosen = PyCapsule_GetPointer(capsule, CONTEXT_NAME)))
                return NULL;
        context = chosen;
        Py_RETURN_NONE;
}

/* context_describe() -> (threads, isa) of the calling thread's context */
static PyObject *context_describe(PyObject *self, PyObject *none)
{
        (void)self;
        (void)none;
        return Py_BuildValue("(is)", (int)sf_context_threads(context), sf_context_isa(context));
}

/* isas() -> [(name, usable), ...], best last */
static PyObject *isas(PyObject *self, PyObject *none)
{
        (void)self;
        (void)none;
        PyObject *list = PyList_New(0);
        int32_t usable;
        const char *name;
        for (int32_t i = 0; list && (name = sf_isa_name(i, &usable)); i++) {
                PyObject *pair = Py_BuildValue("(sO)", name, usable ? Py_True : Py_False);
                if (!pair || PyList_Append(list, pair) < 0)
                        Py_CLEAR(list);
                Py_XDECREF(pair);
        }
        return list;
}

static PyMethodDef methods[] = {
        {"scan", (PyCFunction)(void (*)(void))(fast_function)scan, METH_FASTCALL, "scan(x, op, axis, reverse, exclusive, mask, initial, dtype, out, trusted, skip_nan[, offsets])"},
        {"fold", (PyCFunction)(void (*)(void))(fast_function)fold, METH_FASTCALL, "fold(x, op, axes, keepdims, reverse, mask, initial, dtype, out, trusted, skip_nan[, offsets])"},
        {"context_create", context_create, METH_VARARGS, "context_create(threads, reference, isa)"},
        {"context_use", context_use, METH_O, "context_use(context)"},
        {"context_describe", context_describe, METH_NOARGS, "context_describe() -> (threads, isa)"},
        {"isas", isas, METH_NOARGS, "isas() -> [(name, usable), ...]"},
        {"memory", array_memory, METH_VARARGS, "memory(shape, dtype) -> a DLPack capsule"},
        {"expression_create", expression_create, METH_VARARGS, "expression_create(program, exact) -> expression"},
        {"expression_run", (PyCFunction)(void (*)(void))(fast_function)expression_run, METH_FASTCALL, "expression_run(expression, inputs, keep) -> result(s)"},
        {"expression_try", (PyCFunction)(void (*)(void))(fast_function)expression_try, METH_FASTCALL, "expression_try(expression, inputs, keep) -> result(s), or 1 or 2"},
        {"expression_parse", expression_parse, METH_VARARGS,
         "expression_parse(text, exact, context) -> (expression, names)"},
        {"expression_call", (PyCFunction)(void (*)(void))(fast_function)expression_call,
         METH_FASTCALL, "expression_call(expression, inputs, out) -> result(s)"},
        {"expression_plans", expression_plans, METH_O,
         "expression_plans(expression) -> how many it has kept"},
        {"expression_shapes", expression_shapes, METH_VARARGS, "expression_shapes(expression, [(shape, dtype), ...]) -> the same of outputs"},
        {"expression_explain", expression_explain, METH_VARARGS, "expression_explain(expression, inputs, format) -> str"},
        {"xla_handler", xla_handler, METH_VARARGS, "xla_handler(platform) -> a capsule for jax.ffi.register_ffi_target"},
        {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
        PyModuleDef_HEAD_INIT, "scanfold._scanfold", "sf_scan and sf_fold for Python's arrays.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__scanfold(void);
PyMODINIT_FUNC PyInit__scanfold(void)
{
        PyObject *m = PyModule_Create(&module);
        if (m && (PyModule_AddFunctions(m, shard_methods) < 0 || PyModule_AddStringConstant(m, "version", sf_version_string()) < 0))
                Py_CLEAR(m);
        return m;
}
