/*
 * torch's tensors: whether one can be used as it is, its memory as an sf_tensor, and results. By
 * DLPack's C functions if this torch has them (2.10), else by its methods.
 */
#include "_common.h"

#include <stdlib.h>
#include <string.h>

/* The functions of torch that are called on every call. NULL if this torch does not have one: then
 * there is nothing to ask. */
static struct {
        int ready;
        PyObject *tensor, *parameter;
        PyObject *grad_enabled, *is_neg, *modes, *tracing, *autocast, *transforms, *forward_ad, *mapped;
        PyObject *threads;
        PyObject *empty, *empty_like, *empty_permuted, *new_empty, *stream, *capturing;
        PyObject *written;
        int written_many; /* it takes a sequence of tensors, not a single one */
        PyObject *dtype[DTYPES];
} torch;

static int torch_ready(void)
{
        if (torch.ready)
                return 0;
        if (!(torch.tensor = imported("torch", "Tensor")) || !(torch.parameter = imported("torch", "nn.Parameter")) ||
            !(torch.grad_enabled = imported("torch", "is_grad_enabled")) || !(torch.empty = imported("torch", "empty")) ||
            !(torch.empty_like = imported("torch", "empty_like")) || !(torch.new_empty = imported("torch", "Tensor.new_empty")) ||
            !(torch.is_neg = imported("torch", "Tensor.is_neg")))
                return -1;
        torch.threads = optional("torch", "get_num_threads");
        /* since 2.1; not needed before */
        torch.empty_permuted = optional("torch", "empty_permuted");
        torch.modes = optional("torch._C", "_len_torch_dispatch_stack");
        torch.tracing = optional("torch._C", "_is_tracing");
        torch.autocast = optional("torch._C", "_is_any_autocast_enabled");
        if (!torch.autocast) /* before 2.3: that of CUDA */
                torch.autocast = optional("torch", "is_autocast_enabled");
        torch.transforms = optional("torch._C", "_are_functorch_transforms_active");
        torch.forward_ad = optional("torch.autograd", "forward_ad");
        torch.mapped = optional("torch._C", "_functorch.is_legacy_batchedtensor");
        torch.stream = optional("torch._C", "_cuda_getCurrentRawStream");
        torch.capturing = optional("torch._C", "_cuda_isCurrentStreamCapturing");
        torch.written = optional("torch._C", "_increment_version");
        PyObject *nothing = PyTuple_New(0), *none = torch.written && nothing ? PyObject_CallFunctionObjArgs(torch.written, nothing, NULL) : NULL;
        torch.written_many = none != NULL;
        if (!none) { /* before 2.6 it takes one tensor, and has another name */
                PyErr_Clear();
                Py_XDECREF(torch.written);
                torch.written = optional("torch.autograd.graph", "increment_version");
        }
        Py_XDECREF(nothing);
        Py_XDECREF(none);
        for (int i = 0; i < DTYPES; i++)
                torch.dtype[i] = optional("torch", dtypes[i].name);
        torch.ready = 1;
        return 0;
}

int torch_knows(PyObject *type, known_type *found)
{
        if (!loaded_module("torch"))
                return 0;
        if (torch_ready() < 0)
                return -1;
        int is_torch = PyObject_IsSubclass(type, torch.tensor);
        /* An object that acts as a tensor, such as a Proxy of torch.fx, decides itself what a call
         * becomes. */
        if (!is_torch)
                is_torch = PyObject_HasAttrString(type, "__torch_function__");
        if (is_torch <= 0)
                return is_torch;
        found->kind = ARRAY_TORCH;
        found->plain = type == torch.tensor || type == torch.parameter;
        found->exchange = exchange_of(type);
        /* registers its operators, before anything can trace them */
        Py_XDECREF(imported("scanfold.torch", ""));
        return PyErr_Occurred() ? -1 : 1;
}

/* Calls a function: 1 if it returns true, 0 if it returns false or is NULL, -1 with an exception.
 * `object` is the argument, or NULL for none. */
static int ask(PyObject *function, PyObject *object)
{
        if (!function)
                return 0;
        PyObject *answer = object ? PyObject_CallFunctionObjArgs(function, object, NULL) : PyObject_CallObject(function, NULL);
        int yes = answer == Py_True ? 1 : answer == Py_False ? 0 : answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        return yes;
}

int32_t torch_threads(void)
{
        PyObject *answer = torch.threads ? PyObject_CallObject(torch.threads, NULL) : NULL;
        long number = answer ? PyLong_AsLong(answer) : 0;
        Py_XDECREF(answer);
        PyErr_Clear(); /* if torch cannot be asked, there is no limit */
        return number > 0 && number < INT32_MAX ? (int32_t)number : 0;
}

/* The level is a number in the module's dictionary; reading it there is faster than an attribute
 * lookup. */
static int in_forward_ad(void)
{
        static PyObject *current_level;
        if (!torch.forward_ad)
                return 0;
        if (!current_level && !(current_level = PyUnicode_InternFromString("_current_level")))
                return -1;
        PyObject *level = PyDict_GetItemWithError(PyModule_GetDict(torch.forward_ad), current_level);
        long number = level ? PyLong_AsLong(level) : -1;
        PyErr_Clear();
        return number >= 0;
}

/*
 * Returns 0 if the tensor is nothing but its memory: no gradient to record (else ARRAY_RECORD), no
 * transform, no mode, no trace, no lazy sign (else ARRAY_DISPATCH). Autocast is checked later, when
 * the dtype is known.
 */
static int torch_state(PyObject *object, const known_type *type, array_use use)
{
        static PyObject *requires_grad;
        if (!type->plain)
                return ARRAY_DISPATCH;
        PyObject *answer = get(object, &requires_grad, "requires_grad");
        int recorded = answer == Py_False ? 0 : answer ? ask(torch.grad_enabled, NULL) : -1;
        Py_XDECREF(answer);
        int special = recorded < 0 ? -1 : use == OPEN_OUT ? recorded : ask(torch.is_neg, object);
        /* DLPack cannot describe a tensor under a transform, so with DLPack's functions that need
         * not be asked here. But a tensor with a gradient must be asked about in any case: an
         * autograd.Function does not work inside a transform, even if this tensor is not part of
         * it. */
        if (!special && (recorded || (use == OPEN_FIRST && !type->exchange)))
                special = ask(torch.transforms, NULL);
        /* torch.jit.trace records what goes through the dispatcher, and takes everything else for
         * constants. */
        if (!special && use == OPEN_FIRST && !(special = ask(torch.modes, NULL)) && !(special = in_forward_ad()))
                special = ask(torch.tracing, NULL);
        return special < 0 ? -1 : special ? ARRAY_DISPATCH : recorded ? ARRAY_RECORD : 0;
}

/* Whether a torch.func transform is active. An exception that is set stays set. */
static int transformed(void)
{
        PyObject *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        int yes = ask(torch.transforms, NULL);
        PyErr_Restore(kind, value, trace);
        return yes == 1;
}

/*
 * Whether a tensor is on a device other than CPU and CUDA, or is nested, or is a batch of gradients
 * (torch.autograd.grad with is_grads_batched). An exception that is set stays set.
 */
static int elsewhere(PyObject *object)
{
        static PyObject *device_name, *type_name, *nested_name;
        PyObject *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        PyObject *device = get(object, &device_name, "device"), *type = device ? get(device, &type_name, "type") : NULL;
        PyObject *nested = get(object, &nested_name, "is_nested");
        int yes = type && PyUnicode_CompareWithASCIIString(type, "cpu") != 0 &&
                  PyUnicode_CompareWithASCIIString(type, "cuda") != 0;
        if (nested == Py_True || ask(torch.mapped, object) == 1)
                yes = 1;
        Py_XDECREF(nested);
        Py_XDECREF(type);
        Py_XDECREF(device);
        PyErr_Restore(kind, value, trace);
        return yes;
}

/* Autocast only affects 16-bit reals. */
static int torch_casts(const array *a, array_use use)
{
        return use == OPEN_FIRST && a->view.dtype.bits == 16 && a->view.dtype.code > 1 ? ask(torch.autocast, NULL) : 0;
}

static int read_int64s(PyObject *tuple, int64_t *out, const char *name)
{
        Py_ssize_t n = PySequence_Size(tuple);
        if (n < 0)
                return -1;
        if (n > SF_MAX_NDIM) {
                PyErr_Format(PyExc_ValueError, "%s has %zd dimensions: at most %d are taken", name, n, SF_MAX_NDIM);
                return -1;
        }
        for (Py_ssize_t i = 0; i < n; i++) {
                PyObject *item = PySequence_GetItem(tuple, i);
                out[i] = item ? PyLong_AsLongLong(item) : -1;
                Py_XDECREF(item);
                if (PyErr_Occurred())
                        return -1;
        }
        return (int)n;
}

static int torch_dtype_read(PyObject *object, const char *name, sf_dtype *dtype)
{
        static PyObject *attribute;
        PyObject *described = get(object, &attribute, "dtype");
        if (!described)
                return -1;
        for (int i = 0; i < DTYPES; i++)
                if (torch.dtype[i] == described) {
                        *dtype = (sf_dtype){dtypes[i].code, dtypes[i].bits, 1};
                        Py_DECREF(described);
                        return 0;
                }
        PyErr_Format(PyExc_TypeError, "%s has dtype %S: float16, bfloat16, float32, float64, integers and bool are taken", name, described);
        Py_DECREF(described);
        return -1;
}

/* Sparse tensors and those of oneDNN have no strides. */
static int torch_layout_check(PyObject *object, const char *name)
{
        PyObject *layout = PyObject_GetAttrString(object, "layout"), *text = layout ? PyObject_Str(layout) : NULL;
        if (text && PyUnicode_CompareWithASCIIString(text, "torch.strided") != 0)
                PyErr_Format(PyExc_TypeError, "%s has layout %U: strided tensors are taken, as %s.to_dense() makes one", name, text, name);
        Py_XDECREF(text);
        Py_XDECREF(layout);
        return PyErr_Occurred() ? -1 : 0;
}

static int torch_stream(array *a)
{
        if (a->view.device.device_type != SF_CUDA)
                return 0;
        if (a->exchange)
                return a->exchange->current_stream(a->view.device.device_type, a->view.device.device_id, &a->stream);
        PyObject *number = torch.stream ? PyObject_CallFunction(torch.stream, "i", (int)a->view.device.device_id) : NULL;
        a->stream = number ? PyLong_AsVoidPtr(number) : NULL;
        Py_XDECREF(number);
        return PyErr_Occurred() ? -1 : 0;
}

/* By its methods, which every version of torch has. */
static int torch_open_by_methods(PyObject *object, const char *name, array *a)
{
        static PyObject *shape_name, *stride_name, *data_name, *device_name, *type_name, *index_name;
        if (torch_dtype_read(object, name, &a->view.dtype) < 0)
                return -1;
        PyObject *shape = get(object, &shape_name, "shape");
        int ndim = shape ? read_int64s(shape, a->shape, name) : -1;
        Py_XDECREF(shape);
        PyObject *method = ndim < 0 ? NULL : get(object, &stride_name, "stride");
        PyObject *stride = method ? PyObject_CallObject(method, NULL) : NULL;
        Py_XDECREF(method);
        if (!stride || read_int64s(stride, a->strides, name) < 0) {
                Py_XDECREF(stride);
                return -1;
        }
        Py_DECREF(stride);
        method = get(object, &data_name, "data_ptr");
        PyObject *data = method ? PyObject_CallObject(method, NULL) : NULL;
        Py_XDECREF(method);
        a->view.data = data ? PyLong_AsVoidPtr(data) : NULL;
        Py_XDECREF(data);
        PyObject *device = PyErr_Occurred() ? NULL : get(object, &device_name, "device");
        PyObject *type = device ? get(device, &type_name, "type") : NULL;
        PyObject *index = type ? get(device, &index_name, "index") : NULL;
        if (index) {
                int cuda = PyUnicode_CompareWithASCIIString(type, "cuda") == 0;
                a->view.device.device_type = cuda ? SF_CUDA : SF_CPU;
                a->view.device.device_id = cuda && index != Py_None ? (int32_t)PyLong_AsLong(index) : 0;
        }
        Py_XDECREF(index);
        Py_XDECREF(type);
        Py_XDECREF(device);
        a->view.ndim = ndim;
        a->view.shape = a->shape;
        a->view.strides = a->strides;
        return PyErr_Occurred() ? -1 : torch_stream(a);
}

int exchange_open(PyObject *object, array *a)
{
        if (a->exchange->view_from_object(object, &a->view) < 0)
                return -1;
        return torch_stream(a);
}

/* Applies a lazy sign, such as that of a view of a conjugated tensor. Returns 1, and a->keep is the
 * tensor with the sign applied. */
static int torch_resolve(PyObject *object, array *a)
{
        int negated = ask(torch.is_neg, object);
        if (negated > 0)
                a->keep = PyObject_CallMethod(object, "resolve_neg", NULL);
        return negated > 0 && !a->keep ? -1 : negated;
}

int torch_open(PyObject *object, const char *name, array_use use, const known_type *type, array *a)
{
        int state = use >= OPEN_TRUSTED ? 0 : torch_state(object, type, use);
        if (state < 0 || state == ARRAY_DISPATCH)
                return state;
        if (use == OPEN_COMPILED) {
                int resolved = torch_resolve(object, a);
                if (resolved < 0)
                        return -1;
                if (resolved)
                        object = a->keep;
        }
        int rc = a->exchange && a->exchange->view_from_object ? exchange_open(object, a)
                 : elsewhere(object)                          ? ARRAY_DISPATCH
                                                              : torch_open_by_methods(object, name, a);
        /* Under torch.func.functionalize, DLPack describes a tensor without memory. */
        if (!rc && !a->view.data && use < OPEN_TRUSTED && transformed())
                return ARRAY_DISPATCH;
        if (rc >= 0)
                return rc || (rc = torch_casts(a, use)) ? rc : state;
        /* NotImplementedError is a RuntimeError */
        if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_RuntimeError))
                return -1;
        if (transformed() || elsewhere(object)) {
                PyErr_Clear();
                return ARRAY_DISPATCH;
        }
        /* Explains why its memory cannot be used: with our message if it is the dtype or the
         * layout, else with torch's. */
        PyObject *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        if (torch_dtype_read(object, name, &a->view.dtype) == 0 && torch_layout_check(object, name) == 0)
                PyErr_SetObject(PyExc_TypeError, value ? value : Py_None);
        Py_XDECREF(kind);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        return -1;
}

static void complain(void *user, const char *kind, const char *why)
{
        (void)user;
        PyErr_Format(strcmp(kind, "MemoryError") == 0 ? PyExc_MemoryError : PyExc_RuntimeError, "%s", why);
}

PyObject *exchange_make(const array *x, const array_form *form)
{
        sf_tensor prototype = {.device = x->view.device, .ndim = form->ndim, .dtype = form->dtype, .shape = (int64_t *)form->shape};
        dl_versioned *managed = NULL;
        void *object = NULL;
        if (x->exchange->allocate(&prototype, &managed, NULL, complain) < 0 || x->exchange->object_from_managed(managed, &object) < 0)
                return NULL;
        return object;
}

/*
 * A small result on the CPU: one block of ours with the description and the elements, whose
 * ownership goes to torch. Otherwise a small call would spend most of its time on allocating
 * memory.
 */
#define SMALL_BYTES 16384
#define DATA_ALIGNMENT 64 /* the alignment that torch uses */

static void release_small(dl_versioned *self)
{
        free(self);
}

static PyObject *exchange_make_small(const array *x, const array_form *form, size_t bytes, array *out)
{
        int32_t ndim = form->ndim;
        size_t head = sizeof(dl_versioned) + 2 * (size_t)ndim * sizeof(int64_t);
        /* not posix_memalign, which does not use malloc's fast bins */
        dl_versioned *m = malloc(head + DATA_ALIGNMENT + bytes);
        if (!m)
                return PyErr_NoMemory();
        uintptr_t data = ((uintptr_t)m + head + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
        int64_t *lengths = (int64_t *)(m + 1), *strides = lengths + ndim, step = 1;
        for (int32_t i = ndim; i-- > 0;) {
                int32_t d = form->order && !form->like ? form->order[i] : i;
                lengths[d] = form->shape[d];
                strides[d] = step;
                step *= form->shape[d] ? form->shape[d] : 1;
        }
        *m = (dl_versioned){.version = {DL_MAJOR, 0}, .deleter = release_small,
                            .tensor = {.data = (void *)data, .device = {SF_CPU, 0}, .ndim = ndim, .dtype = form->dtype,
                                       .shape = lengths, .strides = strides}};
        sf_tensor view = m->tensor;
        void *object = NULL;
        if (x->exchange->object_from_managed(m, &object) < 0)
                return NULL;
        out->view = view; /* the memory belongs to the tensor from now on */
        return object;
}

static int row_major(const sf_tensor *view)
{
        int64_t step = 1;
        for (int32_t i = view->ndim; view->strides && i-- > 0;) {
                if (view->shape[i] != 1 && view->strides[i] != step)
                        return 0;
                step *= view->shape[i];
        }
        return 1;
}

/* x.new_empty if that is enough, which is fastest; else torch.empty, or torch.empty_permuted. */
static PyObject *make_in_order(const array *x, const array_form *form, PyObject *dtype)
{
        static PyObject *device_name;
        PyObject *lengths = shape_tuple(form->ndim, form->shape);
        if (lengths && !form->order && same_dtype(x->view.dtype, form->dtype)) {
                PyObject *same = PyObject_CallFunctionObjArgs(torch.new_empty, x->object, lengths, NULL);
                Py_DECREF(lengths);
                return same;
        }
        PyObject *device = lengths ? get(x->object, &device_name, "device") : NULL;
        PyObject *made = NULL, *order = form->order ? PyTuple_New(form->ndim) : NULL;
        for (int32_t i = 0; order && i < form->ndim; i++)
                PyTuple_SetItem(order, i, PyLong_FromLong(form->order[i]));
        if (device && !PyErr_Occurred())
                made = call_empty(order ? torch.empty_permuted : torch.empty, lengths, order, dtype, device);
        Py_XDECREF(order);
        Py_XDECREF(device);
        Py_XDECREF(lengths);
        return made;
}

/*
 * torch's CUDA allocator has to own the memory (for record_stream and graphs), so torch makes the
 * tensor there, not DLPack.
 */
PyObject *torch_make(const array *x, const array_form *form, array *out)
{
        int index = dtype_index(form->dtype);
        if (index < 0 || !torch.dtype[index]) {
                PyErr_Format(PyExc_TypeError, "dtype %s is not one this torch has", index < 0 ? "asked for" : dtypes[index].name);
                return NULL;
        }
        if (x->exchange && x->view.device.device_type == SF_CPU && (!form->like || row_major(&x->view))) {
                sf_tensor made = {.ndim = form->ndim, .shape = (int64_t *)form->shape};
                int64_t count = array_elements(&made);
                if (count >= 0 && count <= SMALL_BYTES / 8)
                        return exchange_make_small(x, form, (size_t)(count * form->dtype.bits / 8), out);
        }
        if (!form->like)
                return make_in_order(x, form, torch.dtype[index]);
        return same_dtype(x->view.dtype, form->dtype) ? PyObject_CallFunctionObjArgs(torch.empty_like, x->object, NULL)
                                                      : call_empty(torch.empty_like, x->object, NULL, torch.dtype[index], NULL);
}

int torch_was_written(PyObject *tensor)
{
        if (!torch.written)
                return 0;
        PyObject *argument = torch.written_many ? PyTuple_New(1) : tensor;
        if (!argument)
                return -1;
        Py_INCREF(tensor);
        if (torch.written_many)
                PyTuple_SetItem(argument, 0, tensor);
        PyObject *none = PyObject_CallFunctionObjArgs(torch.written, argument, NULL);
        Py_DECREF(argument);
        Py_XDECREF(none);
        return none ? 0 : -1;
}

/* ------------------------------------------------------------------------------------------------------------
 * Versions
 * ---------------------------------------------------------------------------------------------------------- */

/*
 * The tensors that were asked about last. An address alone is not enough, because another tensor
 * may get the same address: the weak reference says whether it is still the same one. A tensor
 * whose entry was taken by another gets a new number, and what was kept for it is computed again.
 */
enum { NUMBERED = 256 };
static struct {
        PyObject *reference;
        const void *data;
        long long counter;
        uint64_t number;
} numbered[NUMBERED];

uint64_t array_version(const array *a)
{
        static PyObject *version_name;
        static uint64_t latest;
        PyObject *version = a->kind == ARRAY_TORCH ? get(a->object, &version_name, "_version") : NULL;
        long long counter = version ? PyLong_AsLongLong(version) : -1;
        Py_XDECREF(version);
        if (counter < 0) { /* an inference tensor has no version counter */
                PyErr_Clear();
                return 0;
        }
        /* a multiplicative hash: addresses that differ by regular steps are spread */
        size_t place = (size_t)(((uint64_t)(uintptr_t)a->object >> 4) * 0x9E3779B97F4A7C15u >> 56);
        PyObject *known = numbered[place].reference ? PyWeakref_GetObject(numbered[place].reference) : NULL;
        if (known == a->object && numbered[place].data == a->view.data && numbered[place].counter == counter)
                return numbered[place].number;
        if (known != a->object) {
                PyObject *reference = PyWeakref_NewRef(a->object, NULL);
                if (!reference) {
                        PyErr_Clear();
                        return 0;
                }
                Py_XDECREF(numbered[place].reference);
                numbered[place].reference = reference;
        }
        numbered[place].data = a->view.data;
        numbered[place].counter = counter;
        return numbered[place].number = ++latest;
}

int array_is_parameter(const array *a)
{
        return a->kind == ARRAY_TORCH && (PyObject *)Py_TYPE(a->object) == torch.parameter;
}

int array_is_captured(const array *a)
{
        return a->kind == ARRAY_TORCH && a->view.device.device_type == SF_CUDA ? ask(torch.capturing, NULL) : 0;
}
