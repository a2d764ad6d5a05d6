/* See _common.h. */
#include "_common.h"

#include <string.h>

PyObject *raise_status(sf_context *context, sf_status status)
{
        PyObject *kind = status == SF_INVALID_ARGUMENT ? PyExc_ValueError
                         : status == SF_UNSUPPORTED    ? PyExc_TypeError
                         : status == SF_OUT_OF_MEMORY  ? PyExc_MemoryError
                                                       : PyExc_RuntimeError;
        PyErr_SetString(kind, sf_last_error(context));
        return NULL;
}

PyObject *new_reference(PyObject *object)
{
        Py_INCREF(object);
        return object;
}

/* ------------------------------------------------------------------------------------------------------------
 * dtypes
 * ---------------------------------------------------------------------------------------------------------- */
const dtype_name dtypes[DTYPES] = {
        {"float32", 2, 32}, {"float64", 2, 64}, {"float16", 2, 16}, {"bfloat16", 4, 16}, {"int64", 0, 64}, {"int32", 0, 32}, {"int16", 0, 16},
        {"int8", 0, 8},     {"uint8", 1, 8},    {"uint16", 1, 16},  {"uint32", 1, 32},   {"uint64", 1, 64}, {"bool", 6, 8},
};

int dtype_index(sf_dtype dtype)
{
        for (int i = 0; i < DTYPES; i++)
                if (dtypes[i].code == dtype.code && dtypes[i].bits == dtype.bits && dtype.lanes == 1)
                        return i;
        return -1;
}

const char *array_dtype_name(sf_dtype dtype)
{
        int i = dtype_index(dtype);
        return i < 0 ? NULL : dtypes[i].name;
}

int64_t array_elements(const sf_tensor *view)
{
        int64_t count = 1;
        for (int32_t i = 0; i < view->ndim; i++) {
                if (view->shape[i] == 0)
                        return 0;
                if (count > INT64_MAX / 2 / view->shape[i])
                        return -1;
                count *= view->shape[i];
        }
        return count;
}

/* ------------------------------------------------------------------------------------------------------------
 * Names and types: looked up on first use, and kept until the process ends
 * ---------------------------------------------------------------------------------------------------------- */

/* The interned string of a name, so that an attribute lookup makes no new string. */
static PyObject *interned(PyObject **slot, const char *name)
{
        if (!*slot)
                *slot = PyUnicode_InternFromString(name);
        return *slot;
}

PyObject *get(PyObject *object, PyObject **slot, const char *name)
{
        PyObject *string = interned(slot, name);
        return string ? PyObject_GetAttr(object, string) : NULL;
}

PyObject *loaded_module(const char *name)
{
        PyObject *modules = PyImport_GetModuleDict();
        return modules ? PyDict_GetItemString(modules, name) : NULL;
}

PyObject *imported(const char *module, const char *path)
{
        PyObject *object = PyImport_ImportModule(module);
        char part[64];
        while (object && *path) {
                size_t n = strcspn(path, ".");
                memcpy(part, path, n);
                part[n] = 0;
                PyObject *next = PyObject_GetAttrString(object, part);
                Py_DECREF(object);
                object = next;
                path += path[n] ? n + 1 : n;
        }
        return object;
}

PyObject *optional(const char *module, const char *path)
{
        PyObject *object = imported(module, path);
        if (!object)
                PyErr_Clear();
        return object;
}

PyObject *shape_tuple(int32_t ndim, const int64_t *shape)
{
        PyObject *tuple = PyTuple_New(ndim);
        for (int32_t i = 0; tuple && i < ndim; i++) {
                PyObject *length = PyLong_FromLongLong(shape[i]);
                if (!length || PyTuple_SetItem(tuple, i, length) < 0)
                        Py_CLEAR(tuple);
        }
        return tuple;
}

PyObject *call_empty(PyObject *function, PyObject *first, PyObject *second, PyObject *dtype, PyObject *device)
{
        PyObject *arguments = PyTuple_New(second ? 2 : 1), *keywords = PyDict_New(), *made = NULL;
        if (arguments && keywords) {
                Py_INCREF(first);
                PyTuple_SetItem(arguments, 0, first);
                Py_XINCREF(second);
                if (second)
                        PyTuple_SetItem(arguments, 1, second);
                if (PyDict_SetItemString(keywords, "dtype", dtype) == 0 &&
                    (!device || PyDict_SetItemString(keywords, "device", device) == 0))
                        made = PyObject_Call(function, arguments, keywords);
        }
        Py_XDECREF(arguments);
        Py_XDECREF(keywords);
        return made;
}

int same_dtype(sf_dtype a, sf_dtype b)
{
        return a.code == b.code && a.bits == b.bits;
}

const dl_exchange *exchange_of(PyObject *type)
{
        PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
        const dl_exchange *exchange = NULL;
        if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
                exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
        PyErr_Clear();
        Py_XDECREF(capsule); /* DLPack requires the table to exist until the process ends */
        while (exchange && exchange->version.major != DL_MAJOR)
                exchange = exchange->older;
        return exchange;
}
