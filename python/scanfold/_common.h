/*
 * What the extension's files share: exceptions, dtypes by name, attributes and modules by name,
 * calls that make arrays.
 */
#ifndef SCANFOLD_PYTHON_COMMON_H
#define SCANFOLD_PYTHON_COMMON_H

#include "_arrays.h"

/* Raises the exception for a call that failed, with the error message of its context. Returns
 * NULL. */
PyObject *raise_status(sf_context *context, sf_status status);

/* _scanfold.c: the calling thread's context; NULL is the library's default context. */
sf_context *chosen_context(void);

#define CONTEXT_NAME "scanfold.context" /* of the capsules that own a context */

PyObject *new_reference(PyObject *object);

/* _scanfold.c: reads a Python int as a 64-bit number, signed if it fits; exceptions call it `name`.
 * 0, or -1 with an exception. */
int integer_read(PyObject *object, const char *name, sf_scalar *scalar);

/* The library's dtypes. */
enum { DTYPES = 13 };
typedef struct dtype_name {
        const char *name;
        uint8_t code;
        uint8_t bits;
} dtype_name;
extern const dtype_name dtypes[DTYPES];

/* The index of a dtype in that table, or -1. */
int dtype_index(sf_dtype dtype);

/* object.name; the interned name is kept in *slot, so that the next lookup makes no string. */
PyObject *get(PyObject *object, PyObject **slot, const char *name);

/* A module that has been imported already, borrowed; NULL without an exception if it has not. */
PyObject *loaded_module(const char *name);

/* module.attribute[.attribute], or the module itself; NULL with an exception, `optional` without
 * one. */
PyObject *imported(const char *module, const char *path);
PyObject *optional(const char *module, const char *path);

PyObject *shape_tuple(int32_t ndim, const int64_t *shape);

/* function(first[, second], dtype=dtype[, device=device]) */
PyObject *call_empty(PyObject *function, PyObject *first, PyObject *second, PyObject *dtype, PyObject *device);

int same_dtype(sf_dtype a, sf_dtype b);

/* A type that has been seen. */
typedef struct known_type {
        PyObject *type;
        array_kind kind;
        int plain; /* exactly torch.Tensor, nn.Parameter or numpy.ndarray */
        int wraps; /* derived from numpy.ndarray */
        const dl_exchange *exchange;
} known_type;

/* A type's table of DLPack C functions, or NULL. */
const dl_exchange *exchange_of(PyObject *type);

/* ------------------------------------------------------------------------------------------------------------
 * _torch.c
 * ---------------------------------------------------------------------------------------------------------- */

/* Sets the fields for a type, if it is that of a torch tensor. 1, 0, or -1 with an exception. */
int torch_knows(PyObject *type, known_type *found);

/* As array_open. */
int torch_open(PyObject *object, const char *name, array_use use, const known_type *type, array *a);

/* By DLPack's C functions, for objects of any type that has them. */
int exchange_open(PyObject *object, array *a);
PyObject *exchange_make(const array *x, const array_form *form);

/* A new tensor. It is also opened as `out` if that costs nothing; otherwise out->view.data is
 * NULL. */
PyObject *torch_make(const array *x, const array_form *form, array *out);

/* torch.get_num_threads(), or 0. */
int32_t torch_threads(void);

/* Tells torch that a tensor was written, so that autograd notices if it had saved the tensor. */
int torch_was_written(PyObject *tensor);

#endif
