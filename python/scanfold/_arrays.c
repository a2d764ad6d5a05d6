/* Arrays in and out: see _arrays.h. */
#include "_common.h"

#include <stdlib.h>
#include <string.h>

/* NumPy's functions and dtypes, for results. */
static struct {
        PyObject *ndarray, *empty, *empty_like, *ascontiguousarray;
        PyObject *dtype[DTYPES];
} numpy;

static int numpy_ready(void)
{
        if (numpy.empty)
                return 0;
        if (!(numpy.ndarray = imported("numpy", "ndarray")) || !(numpy.empty_like = imported("numpy", "empty_like")) ||
            !(numpy.ascontiguousarray = imported("numpy", "ascontiguousarray")))
                return -1;
        return (numpy.empty = imported("numpy", "empty")) ? 0 : -1;
}

/* NumPy's dtype, borrowed. NumPy knows bfloat16 once ml_dtypes has been imported. */
static PyObject *numpy_dtype(int index)
{
        if (!numpy.dtype[index]) {
                PyObject *make = imported("numpy", "dtype");
                if (!make)
                        return NULL;
                if (dtypes[index].code == 4)
                        Py_XDECREF(optional("ml_dtypes", "bfloat16"));
                numpy.dtype[index] = PyObject_CallFunction(make, "s", dtypes[index].name);
                Py_DECREF(make);
        }
        return numpy.dtype[index];
}

#define MEMORY_ALIGNMENT 64 /* what XLA needs on the CPU: memory at other addresses it would copy */

/* The types seen so far. A program has only a few; if the table is full, other types are examined
 * in every call. */
static known_type known[16];
static int known_count;

/* Whether a type is a class of NumPy's, or is derived from it. 1, 0, or -1 with an exception. */
static int is_numpys(PyObject *type, const char *module_name, const char *class_name)
{
        PyObject *module = loaded_module(module_name);
        PyObject *class = module ? PyObject_GetAttrString(module, class_name) : NULL;
        if (!class) { /* not imported, or no longer there */
                PyErr_Clear();
                return 0;
        }
        int yes = PyObject_IsSubclass(type, class);
        Py_DECREF(class);
        return yes;
}

/* Whether a class derived from ndarray overrides this method. */
static int has_its_own(PyObject *type, const char *method)
{
        PyObject *own = PyObject_GetAttrString(type, method);
        PyObject *inherited = PyObject_GetAttrString(numpy.ndarray, method);
        int differs = own && inherited ? own != inherited : -1;
        Py_XDECREF(own);
        Py_XDECREF(inherited);
        return differs;
}

/*
 * A class derived from ndarray: its __array_wrap__ makes the result an object of that class, as for
 * NumPy's own functions. Classes whose meaning would be lost are refused: a masked array would be
 * read as if nothing were masked; sums of a matrix keep two dimensions; a class that overrides what
 * NumPy's functions do, such as quantities with units, may give them any meaning.
 */
static int check_subclass(PyObject *type, const char *name, known_type *found)
{
        int refused = is_numpys(type, "numpy.ma", "MaskedArray");
        if (refused > 0)
                PyErr_Format(PyExc_TypeError, "%s is a masked array: give its data, and mask= with "
                             "True where elements count", name);
        if (refused == 0 && (refused = is_numpys(type, "numpy", "matrix")) > 0)
                PyErr_Format(PyExc_TypeError,
                             "%s is a numpy.matrix, whose sums keep two dimensions: "
                             "give numpy.asarray(%s)",
                             name, name);
        int overrides = refused ? 0 : has_its_own(type, "__array_function__");
        if (!refused && !overrides)
                overrides = has_its_own(type, "__array_ufunc__");
        if (overrides > 0)
                PyErr_Format(PyExc_TypeError,
                             "%s is %R, which gives NumPy's functions a meaning of "
                             "its own: give numpy.asarray(%s)",
                             name, type, name);
        found->wraps = 1;
        return refused || overrides ? -1 : 0;
}

/* -1 with an exception if the type is not that of an array. */
static int kind_of(PyObject *object, const char *name, known_type *found)
{
        PyObject *type = (PyObject *)Py_TYPE(object);
        for (int i = 0; i < known_count; i++)
                if (known[i].type == type) {
                        *found = known[i];
                        return 0;
                }
        memset(found, 0, sizeof *found);
        found->type = type;
        int is_torch = torch_knows(type, found);
        if (is_torch < 0)
                return -1;
        if (is_torch) {
                found->type = type;
        } else if (PyObject_HasAttrString(type, "__array_struct__")) {
                if (numpy_ready() < 0)
                        return -1;
                found->kind = ARRAY_NUMPY;
                found->plain = type == numpy.ndarray;
                int derived = found->plain ? 0 : PyObject_IsSubclass(type, numpy.ndarray);
                if (derived < 0 || (derived && check_subclass(type, name, found) < 0))
                        return -1;
        } else if ((found->exchange = exchange_of(type)) && found->exchange->view_from_object) {
                found->kind = ARRAY_EXCHANGE;
        } else if (PyObject_HasAttrString(type, "__dlpack__")) {
                found->kind = ARRAY_OTHER;
        } else {
                PyErr_Format(PyExc_TypeError, "%s is %R: give a NumPy array, a torch tensor, or another array with __dlpack__", name, type);
                return -1;
        }
        if (known_count < (int)(sizeof known / sizeof known[0])) {
                Py_INCREF(type);
                known[known_count++] = *found;
        }
        return 0;
}

int array_is_torch(PyObject *object)
{
        known_type found = {0};
        for (int i = 0; i < known_count; i++)
                if (known[i].type == (PyObject *)Py_TYPE(object))
                        return known[i].kind == ARRAY_TORCH;
        return torch_knows((PyObject *)Py_TYPE(object), &found);
}

/* ------------------------------------------------------------------------------------------------------------
 * NumPy
 * ---------------------------------------------------------------------------------------------------------- */

/* What an __array_struct__ capsule points to: version 3 of NumPy's array interface. */
struct numpy_interface {
        int two;
        int nd;
        char typekind;
        int itemsize;
        int flags;
        Py_ssize_t *shape;
        Py_ssize_t *strides; /* bytes */
        void *data;
        PyObject *descr;
};
enum { NUMPY_NATIVE = 0x200, NUMPY_WRITEABLE = 0x400 };

static int numpy_dtype_read(PyObject *object, const char *name, const struct numpy_interface *v, sf_dtype *dtype)
{
        const char *kinds = "iufb", *at = v->typekind ? strchr(kinds, v->typekind) : NULL;
        static const uint8_t codes[] = {0, 1, 2, 6};
        *dtype = (sf_dtype){at ? codes[at - kinds] : 255, (uint8_t)(v->itemsize * 8), 1};
        if (v->typekind == 'V' && v->itemsize == 2) { /* ml_dtypes' bfloat16 has no kind of its own */
                PyObject *described = PyObject_GetAttrString(object, "dtype"), *text = described ? PyObject_Str(described) : NULL;
                if (text && PyUnicode_CompareWithASCIIString(text, "bfloat16") == 0)
                        *dtype = SF_BF16;
                Py_XDECREF(text);
                Py_XDECREF(described);
                if (PyErr_Occurred())
                        return -1;
        }
        if (v->itemsize > 8 || dtype_index(*dtype) < 0 || (!(v->flags & NUMPY_NATIVE) && v->itemsize > 1)) {
                PyObject *described = PyObject_GetAttrString(object, "dtype");
                if (described)
                        PyErr_Format(PyExc_TypeError,
                                     "%s has dtype %R: float16, bfloat16, float32, float64, integers and bool in native byte order are taken",
                                     name, described);
                Py_XDECREF(described);
                return -1;
        }
        return 0;
}

/* A field of a structured array may have strides that are no multiple of the element size. Then an
 * input is copied, and an output is refused. */
static int numpy_open(PyObject *object, const char *name, array *a, int may_copy)
{
        static PyObject *attribute;
        PyObject *capsule = get(object, &attribute, "__array_struct__");
        if (!capsule)
                return -1;
        const struct numpy_interface *v = PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
        if (!v || v->two != 2 || v->nd > SF_MAX_NDIM) {
                if (!PyErr_Occurred())
                        PyErr_Format(PyExc_TypeError, "%s has no array interface we can read", name);
                Py_DECREF(capsule);
                return -1;
        }
        sf_dtype dtype;
        if (numpy_dtype_read(object, name, v, &dtype) < 0) {
                Py_DECREF(capsule);
                return -1;
        }
        int whole = 1;
        for (int i = 0; i < v->nd; i++) {
                a->shape[i] = v->shape[i];
                a->strides[i] = v->strides[i] / v->itemsize;
                whole &= v->shape[i] < 2 || v->strides[i] % v->itemsize == 0;
        }
        whole &= (uintptr_t)v->data % (uintptr_t)v->itemsize == 0;
        if (!whole) {
                Py_DECREF(capsule);
                if (!may_copy) {
                        PyErr_Format(PyExc_ValueError, "%s is not aligned to its elements: give an aligned array", name);
                        return -1;
                }
                if (numpy_ready() < 0)
                        return -1;
                PyObject *copied = PyObject_CallFunctionObjArgs(numpy.ascontiguousarray, object, NULL);
                if (!copied)
                        return -1;
                int rc = numpy_open(copied, name, a, 0);
                Py_DECREF(copied); /* the capsule in a->keep owns it */
                return rc;
        }
        a->view = (sf_tensor){.data = v->data, .device = {SF_CPU, 0}, .ndim = v->nd, .dtype = dtype, .shape = a->shape, .strides = a->strides};
        a->read_only = !(v->flags & NUMPY_WRITEABLE);
        a->keep = capsule;
        return 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * DLPack capsules: all other libraries
 * ---------------------------------------------------------------------------------------------------------- */

/* A function of scanfold._others, borrowed. */
static PyObject *other(PyObject **slot, const char *name)
{
        if (!*slot)
                *slot = imported("scanfold._others", name);
        return *slot;
}

/* For a capsule that we have consumed, and so have to release. */
static void release_managed(PyObject *holder)
{
        dl_managed *m = PyCapsule_GetPointer(holder, "scanfold.dl_managed");
        if (m && m->deleter)
                m->deleter(m);
}

static void release_versioned(PyObject *holder)
{
        dl_versioned *m = PyCapsule_GetPointer(holder, "scanfold.dl_versioned");
        if (m && m->deleter)
                m->deleter(m);
}

/* For a capsule that nobody has consumed. */
static void release_unused(PyObject *capsule)
{
        if (!PyCapsule_IsValid(capsule, "dltensor"))
                return;
        dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->deleter(m);
}

static void free_memory(dl_managed *self)
{
        free(self);
}

/*
 * One block has the description and the elements. Its deleter does not need the GIL, so any thread
 * of another library may call it at any time.
 */
PyObject *array_memory(PyObject *self, PyObject *args)
{
        (void)self;
        PyObject *lengths;
        int code;
        if (!PyArg_ParseTuple(args, "Oi", &lengths, &code))
                return NULL;
        Py_ssize_t ndim = PySequence_Size(lengths);
        if (ndim > SF_MAX_NDIM)
                PyErr_Format(PyExc_ValueError, "%zd dimensions are over %d", ndim, SF_MAX_NDIM);
        int64_t shape[SF_MAX_NDIM];
        for (Py_ssize_t i = 0; i < ndim && !PyErr_Occurred(); i++) {
                PyObject *length = PySequence_GetItem(lengths, i);
                shape[i] = length ? PyLong_AsLongLong(length) : -1;
                Py_XDECREF(length);
        }
        if (PyErr_Occurred())
                return NULL;
        sf_tensor t = {.device = {SF_CPU, 0}, .ndim = (int32_t)ndim, .shape = shape,
                       .dtype = {(uint8_t)(code >> 8), (uint8_t)code, 1}};
        int64_t count = array_elements(&t), step = 1;
        size_t head = sizeof(dl_managed) + 2 * (size_t)ndim * sizeof(int64_t) + MEMORY_ALIGNMENT;
        dl_managed *m = NULL;
        if (count >= 0 && count <= PTRDIFF_MAX / 16)
                m = malloc(head + (size_t)count * t.dtype.bits / 8);
        if (!m)
                return PyErr_NoMemory();
        *m = (dl_managed){.tensor = t, .deleter = free_memory};
        m->tensor.data = (void *)(((uintptr_t)m + head) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT);
        m->tensor.shape = (int64_t *)(m + 1);
        m->tensor.strides = m->tensor.shape + ndim;
        for (Py_ssize_t i = ndim; i-- > 0;) {
                m->tensor.shape[i] = shape[i];
                m->tensor.strides[i] = step;
                step *= shape[i] ? shape[i] : 1;
        }
        PyObject *capsule = PyCapsule_New(m, "dltensor", release_unused);
        if (!capsule)
                free(m);
        return capsule;
}

/* Opens such memory without consuming the capsule. */
static int memory_open(PyObject *capsule, array *out)
{
        dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        memset(out, 0, offsetof(array, shape));
        if (!m)
                return -1;
        out->kind = ARRAY_OTHER;
        out->view = m->tensor;
        return 0;
}

static int other_open(PyObject *object, const char *name, array *a)
{
        static PyObject *export_function;
        PyObject *function = other(&export_function, "export");
        PyObject *pair = function ? PyObject_CallFunction(function, "Os", object, name) : NULL;
        PyObject *capsule = NULL;
        Py_ssize_t stream = 0;
        if (!pair)
                return -1;
        int parsed = PyArg_ParseTuple(pair, "Oni", &capsule, &stream, &a->waits);
        Py_XINCREF(capsule);
        Py_DECREF(pair);
        if (!parsed)
                return -1;
        a->stream = (void *)(uintptr_t)stream;
        if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
                dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
                if (m->version.major != DL_MAJOR)
                        PyErr_Format(PyExc_TypeError, "%s speaks DLPack %u.%u: version %u is understood", name, m->version.major,
                                     m->version.minor, DL_MAJOR);
                else if ((a->keep = PyCapsule_New(m, "scanfold.dl_versioned", release_versioned)))
                        PyCapsule_SetName(capsule, "used_dltensor_versioned");
                a->view = m->tensor;
                a->read_only = (m->flags & DL_READ_ONLY) != 0;
        } else if (PyCapsule_IsValid(capsule, "dltensor")) {
                dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
                if ((a->keep = PyCapsule_New(m, "scanfold.dl_managed", release_managed)))
                        PyCapsule_SetName(capsule, "used_dltensor");
                a->view = m->tensor;
        } else if (PyObject_HasAttrString((PyObject *)Py_TYPE(capsule), "__array_struct__")) {
                numpy_open(capsule, name, a, 0); /* a view, which keeps its base alive */
        } else {
                PyErr_Format(PyExc_TypeError, "%s.__dlpack__() gave %R: a DLPack capsule was expected", name, capsule);
        }
        Py_DECREF(capsule);
        return PyErr_Occurred() ? -1 : 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * Arrays of any kind
 * ---------------------------------------------------------------------------------------------------------- */
static int refuse_dtype(PyObject *object, const char *name, sf_dtype dtype)
{
        PyObject *described = PyObject_GetAttrString(object, "dtype");
        if (!described) {
                PyErr_Clear();
                described = PyUnicode_FromFormat("number %d of DLPack's, %d bits wide,", (int)dtype.code, (int)dtype.bits);
        }
        if (described)
                PyErr_Format(PyExc_TypeError, "%s has dtype %S: float16, bfloat16, float32, float64, integers and bool are taken", name,
                             described);
        Py_XDECREF(described);
        return -1;
}

/*
 * CuPy divides strides in bytes as unsigned numbers: a stride of -1 float becomes 2**62 - 1.
 * Multiplying by the element size wraps at 2**64 and gives the right number of bytes; read as a
 * signed number and divided, that is the intended stride.
 */
static void mend_strides(array *a)
{
        const int64_t size = a->view.dtype.bits / 8;
        if (!a->view.strides || size < 1 || a->view.ndim > SF_MAX_NDIM)
                return;
        for (int32_t d = 0; d < a->view.ndim; d++)
                a->strides[d] = (int64_t)((uint64_t)a->view.strides[d] * (uint64_t)size) / size;
        a->view.strides = a->strides;
}

int array_open(PyObject *object, const char *name, array_use use, array *a)
{
        known_type type;
        memset(a, 0, offsetof(array, shape));
        if (kind_of(object, name, &type) < 0)
                return -1;
        a->object = object;
        a->kind = type.kind;
        a->plain = type.plain;
        a->wraps = type.wraps;
        a->exchange = type.exchange;
        int rc;
        switch (type.kind) {
        case ARRAY_NUMPY:
                rc = numpy_open(object, name, a, use < OPEN_OUT);
                break;
        case ARRAY_TORCH:
                rc = torch_open(object, name, use, &type, a);
                break;
        case ARRAY_EXCHANGE:
                rc = exchange_open(object, a);
                break;
        default:
                rc = other_open(object, name, a);
                break;
        }
        if (!rc && type.kind >= ARRAY_EXCHANGE)
                mend_strides(a);
        if (!rc && a->view.device.device_type == SF_CUDA_HOST)
                a->view.device =
                        (sf_device){SF_CPU, 0}; /* pinned memory counts as host memory */
        if (!rc && dtype_index(a->view.dtype) < 0)
                rc = refuse_dtype(object, name, a->view.dtype);
        if (rc)
                array_close(a);
        return rc;
}

void array_close(array *a)
{
        Py_CLEAR(a->keep);
}

/* Whether x's library has 64-bit types: 1, 0, or -1 with an exception. */
static int has_64_bits(const array *x)
{
        static PyObject *slot;
        if (x->kind != ARRAY_OTHER)
                return 1;
        PyObject *function = other(&slot, "has_64_bits");
        PyObject *answer = function ? PyObject_CallFunctionObjArgs(function, x->object, NULL) : NULL;
        int wide = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        return wide;
}

int array_index_dtype(const array *x, sf_dtype *dtype)
{
        const int wide = has_64_bits(x);
        *dtype = wide ? SF_I64 : SF_I32;
        return wide < 0 ? -1 : 0;
}

int array_real_dtype(const array *x, sf_dtype *dtype)
{
        *dtype = x->view.dtype;
        if (dtype->code > 1 && dtype->code != 6)
                return 0;
        const int wide = x->kind == ARRAY_TORCH ? 0 : has_64_bits(x);
        *dtype = wide ? SF_F64 : SF_F32;
        return wide < 0 ? -1 : 0;
}

int array_sum_dtype(const array *x, sf_dtype *dtype)
{
        *dtype = x->view.dtype;
        if (dtype->code > 1 && dtype->code != 6)
                return 0;
        /* torch sums unsigned integers as int64, NumPy and the array API as uint64. */
        *dtype = dtype->code == 1 && x->kind != ARRAY_TORCH ? SF_U64 : SF_I64;
        const int wide = has_64_bits(x);
        if (!wide)
                dtype->bits = 32;
        return wide < 0 ? -1 : 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * Results
 * ---------------------------------------------------------------------------------------------------------- */
static PyObject *numpy_make(const array *x, const array_form *form)
{
        PyObject *described = numpy_ready() < 0 ? NULL : numpy_dtype(dtype_index(form->dtype));
        if (!described)
                return NULL;
        if (form->like && same_dtype(x->view.dtype, form->dtype) && x->plain)
                return PyObject_CallFunctionObjArgs(numpy.empty_like, x->object, NULL);
        if (form->like) /* in x's memory order, but not as a subclass: array_result makes it one */
                return PyObject_CallFunction(numpy.empty_like, "OOsO", x->object, described, "K",
                                             Py_False);
        PyObject *tuple = shape_tuple(form->ndim, form->shape), *made = NULL;
        if (tuple)
                made = PyObject_CallFunctionObjArgs(numpy.empty, tuple, described, NULL);
        Py_XDECREF(tuple);
        return made;
}

int array_make(const array *x, const array_form *form, array *out, PyObject **result)
{
        static PyObject *make_function;
        if (dtype_index(form->dtype) < 0) {
                PyErr_SetString(PyExc_TypeError, "dtype is none of float16, bfloat16, float32, float64, the integers and bool");
                return -1;
        }
        PyObject *made = NULL, *target;
        if (x->kind == ARRAY_NUMPY) {
                made = numpy_make(x, form);
        } else if (x->kind == ARRAY_TORCH) {
                memset(out, 0, offsetof(array, shape));
                out->kind = x->kind;
                made = torch_make(x, form, out);
                if (made && out->view.data) {
                        out->object = *result = made;
                        return 0;
                }
        } else if (x->kind == ARRAY_EXCHANGE) {
                made = exchange_make(x, form);
        } else {
                PyObject *tuple = shape_tuple(form->ndim, form->shape), *function = other(&make_function, "make");
                if (tuple && function)
                        made = PyObject_CallFunction(function, "OOsi", x->object, tuple, array_dtype_name(form->dtype),
                                                     (int)x->view.device.device_type);
                Py_XDECREF(tuple);
        }
        target = made;
        if (made && x->kind == ARRAY_OTHER)
                /* (memory to write, a function that makes the caller's array from it) */
                target = PyTuple_GetItem(made, 0);
        int rc = -1;
        if (target)
                rc = PyCapsule_IsValid(target, "dltensor")
                             ? memory_open(target, out)
                             : array_open(target, "out", OPEN_TRUSTED, out);
        if (rc) {
                if (!PyErr_Occurred())
                        PyErr_SetString(PyExc_RuntimeError, "the result's memory cannot be written");
                Py_XDECREF(made);
                return -1;
        }
        *result = made;
        return 0;
}

int array_can_be_written(const array *out)
{
        static PyObject *can_be_written;
        if (out->read_only || out->kind == ARRAY_NUMPY || out->kind == ARRAY_TORCH)
                return !out->read_only;
        PyObject *function = other(&can_be_written, "can_be_written");
        PyObject *answer = function ? PyObject_CallFunctionObjArgs(function, out->object, NULL) : NULL;
        int yes = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        return yes;
}

int32_t array_thread_limit(const array *x)
{
        return x->kind == ARRAY_TORCH && x->view.device.device_type != SF_CUDA ? torch_threads()
                                                                               : 0;
}

int array_was_written(const array *out)
{
        return out->kind == ARRAY_TORCH ? torch_was_written(out->object) : 0;
}

/* 0 and 1 both mean the legacy default stream. */
static int on_streams_of_their_own(const array *x, const array *a)
{
        uintptr_t one = (uintptr_t)x->stream, other = (uintptr_t)a->stream;
        return x->view.device.device_type == SF_CUDA && a->view.device.device_type == SF_CUDA &&
               one != other && (one > 1 || other > 1);
}

int array_wait(const array *a)
{
        static PyObject *wait;
        if (a->view.device.device_type != SF_CUDA)
                return 0;
        PyObject *function = other(&wait, "wait");
        PyObject *waited = NULL;
        if (function)
                waited = PyObject_CallFunction(function, "in", (int)a->view.device.device_id,
                                               (Py_ssize_t)(uintptr_t)a->stream);
        Py_XDECREF(waited);
        return waited ? 0 : -1;
}

int array_wait_before(const array *x, const array *a)
{
        return on_streams_of_their_own(x, a) ? array_wait(a) : 0;
}

int array_wants_a_wait(const array *x, const array *a)
{
        return a->waits || on_streams_of_their_own(x, a);
}

PyObject *array_result(const array *x, PyObject *result)
{
        if (x->wraps) {
                PyObject *wrapped = PyObject_CallMethod(x->object, "__array_wrap__", "O", result);
                Py_DECREF(result);
                return wrapped;
        }
        if (x->kind != ARRAY_OTHER)
                return result;
        PyObject *finish = PyTuple_GetItem(result, 1);
        PyObject *finished = finish ? PyObject_CallObject(finish, NULL) : NULL;
        Py_DECREF(result);
        return finished;
}
