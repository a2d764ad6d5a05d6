/*
 * What the extension's files share: exceptions, dtypes by name, attributes and modules by name,
 * calls that make arrays.
 */
#ifndef SCANFOLD_PYTHON_COMMON_H
#define SCANFOLD_PYTHON_COMMON_H

#include "_arrays.h"

/* The exception for a call that failed, with the sentence of its context. Returns NULL. */
PyObject *raise_status(sf_context *context, sf_status status);

/* _scanfold.c: the calling thread's; NULL is the library's default one. */
sf_context *chosen_context(void);

#define CONTEXT_NAME "scanfold.context" /* of the capsules that own one */

PyObject *new_reference(PyObject *object);

/* _scanfold.c: a Python int as a number of 64 bits, signed where it fits; exceptions call it
 * `name`. 0, or -1 with an exception. */
int integer_read(PyObject *object, const char *name, sf_scalar *scalar);

/* The library's dtypes. */
enum { DTYPES = 13 };
typedef struct dtype_name {
        const char *name;
        uint8_t code;
        uint8_t bits;
} dtype_name;
extern const dtype_name dtypes[DTYPES];

/* Which of them, or -1. */
int dtype_index(sf_dtype dtype);

/* object.name; the interned name is kept in *slot, so that a second lookup makes no string. */
PyObject *get(PyObject *object, PyObject **slot, const char *name);

/* A module that is already imported, borrowed; NULL without an exception where it is not. */
PyObject *loaded_module(const char *name);

/* module.attribute[.attribute] or the module itself, or NULL with an exception; `optional`: without one. */
PyObject *imported(const char *module, const char *path);
PyObject *optional(const char *module, const char *path);

PyObject *shape_tuple(int32_t ndim, const int64_t *shape);

/* function(first[, second], dtype=dtype[, device=device]) */
PyObject *call_empty(PyObject *function, PyObject *first, PyObject *second, PyObject *dtype, PyObject *device);

int same_dtype(sf_dtype a, sf_dtype b);

/* A type that was met. */
typedef struct known_type {
        PyObject *type;
        array_kind kind;
        int plain; /* torch.Tensor, nn.Parameter or numpy.ndarray themselves */
        int wraps; /* derived from numpy.ndarray */
        const dl_exchange *exchange;
} known_type;

/* The table of DLPack's C functions of a type, or NULL. */
const dl_exchange *exchange_of(PyObject *type);

/* ------------------------------------------------------------------------------------------------------------
 * _torch.c
 * ---------------------------------------------------------------------------------------------------------- */

/* Fills in what is known of a type, if it is a torch tensor's. 1, 0, or -1 with an exception. */
int torch_knows(PyObject *type, known_type *found);

/* As array_open. */
int torch_open(PyObject *object, const char *name, array_use use, const known_type *type, array *a);

/* By DLPack's C functions: an object of any type that has them. */
int exchange_open(PyObject *object, array *a);
PyObject *exchange_make(const array *x, const array_form *form);

/* A new tensor, opened as `out` where that costs nothing: out->view.data is NULL where it still has to be. */
PyObject *torch_make(const array *x, const array_form *form, array *out);

/* torch.get_num_threads(), or 0. */
int32_t torch_threads(void);

/* Tells torch that a tensor was written, so that autograd notices if it had saved it. */
int torch_was_written(PyObject *tensor);

#endif
