/*
 * Python arrays in and out: any object with a tensor becomes an sf_tensor, and results are made by
 * the library that the input came from.
 *
 * Four kinds of array, distinguished by their type (the kind of a type is remembered):
 *   NUMPY     anything with __array_struct__, NumPy's C view of an array; read-only arrays and any
 *             strides too
 *   TORCH     torch.Tensor, by DLPack's C functions if this torch has them (2.10), else by its
 *             methods
 *   EXCHANGE  another type that has DLPack's C functions
 *   OTHER     anything else with __dlpack__: JAX, CuPy, ...
 */
#ifndef SCANFOLD_PYTHON_ARRAYS_H
#define SCANFOLD_PYTHON_ARRAYS_H

#define Py_LIMITED_API 0x03090000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dlpack.h"

typedef enum array_kind { ARRAY_NUMPY = 1, ARRAY_TORCH, ARRAY_EXCHANGE, ARRAY_OTHER } array_kind;

typedef struct array {
        sf_tensor view;
        array_kind kind;
        PyObject *object;            /* borrowed: the caller's object */
        int plain;                   /* NumPy's or torch's own array type, not a subclass */
        int wraps;                   /* a subclass of NumPy's: results get __array_wrap__ */
        /* owns what view points to, if that is not the object itself */
        PyObject *keep;
        const dl_exchange *exchange; /* for TORCH and EXCHANGE; NULL for an older torch */
        int read_only;
        /* OTHER on a device: the producer does not know our stream, so we wait for our work to
         * end */
        int waits;
        void *stream;                /* on which work on this array is launched */
        /* used if the producer's own shape and strides cannot be pointed to */
        int64_t shape[SF_MAX_NDIM];
        int64_t strides[SF_MAX_NDIM];
} array;

/*
 * What array_open returns besides 0 and -1. RECORD: an ordinary tensor, but its gradient is wanted,
 * so an autograd.Function must be called. DISPATCH: it needs torch's dispatcher (a transform, a
 * mode, a subclass, another device).
 */
enum { ARRAY_DISPATCH = 1, ARRAY_RECORD = 2 };

/*
 * Opens `object`, which exceptions call `name`. Returns 0, ARRAY_DISPATCH, ARRAY_RECORD, or -1 with
 * an exception. After 0, call array_close. OPEN_FIRST checks the state that torch is in, and the
 * object; OPEN_MORE only the object; OPEN_OUT also that it can be written as it is. OPEN_TRUSTED
 * checks nothing: the caller is torch's dispatcher, which has checked. OPEN_COMPILED is for a
 * compiled graph. It checks nothing either, but a tensor there may be negated lazily (is_neg); then
 * a copy with the sign applied is opened.
 */
typedef enum array_use { OPEN_FIRST, OPEN_MORE, OPEN_OUT, OPEN_TRUSTED, OPEN_COMPILED } array_use;
int array_open(PyObject *object, const char *name, array_use use, array *a);
void array_close(array *a);

/* Whether an object is a torch tensor, or acts as one: 1, 0, or -1 with an exception. */
int array_is_torch(PyObject *object);

/* The array to make: its shape and dtype, and, if torch makes it, the order of its axes in memory,
 * outermost first. */
typedef struct array_form {
        int32_t ndim;
        const int64_t *shape;
        sf_dtype dtype;
        int like;             /* nonzero: x's shape, and x's order in memory */
        const int32_t *order; /* otherwise this order; NULL: row-major */
} array_form;

/*
 * Makes an array of x's kind, on x's device, and opens it as `out`. *result is a new reference;
 * array_result makes the caller's object from it when the work is done.
 */
int array_make(const array *x, const array_form *form, array *out, PyObject **result);

/* memory(shape, dtype) -> a DLPack capsule with new memory on the CPU, row-major. dtype: see
 * _dtypes.py. */
PyObject *array_memory(PyObject *self, PyObject *args);

/* Whether a caller's array may be written: 1, 0, or -1 with an exception. */
int array_can_be_written(const array *out);

/* Tells torch that a caller's tensor was written, so that autograd notices if it had saved the
 * tensor. */
int array_was_written(const array *out);

/*
 * A number for the values that a torch tensor holds now. It changes when autograd's version
 * counter, the memory or the tensor itself changes, and is never used for other values. 0 if torch
 * does not count (inference tensors, other arrays). A write that autograd does not see is not
 * noticed: callers promise that there is none.
 */
uint64_t array_version(const array *a);

/* Whether this is an nn.Parameter; whether its stream is being captured (-1 with an exception). */
int array_is_parameter(const array *a);
int array_is_captured(const array *a);

/*
 * Work is launched on x's stream, whatever other arrays it uses. array_wait_before: waits, before
 * the launch, for the work on a's stream, if that is another one. array_wants_a_wait: whether the
 * caller has to wait for the work to end, because a's library does not know of it. array_wait:
 * waits for all work on a's stream. They return 0, or -1 with an exception. On the CPU there is
 * nothing to wait for.
 */
int array_wait_before(const array *x, const array *a);
int array_wants_a_wait(const array *x, const array *a);
int array_wait(const array *a);

/*
 * The number of threads that work on x may use: for a torch tensor on the CPU, as many as torch
 * would use. 0: no limit. Asking torch takes about 50 ns, so a call that needs only one thread does
 * not ask.
 */
int32_t array_thread_limit(const array *x);

/* Returns the finished result, and takes over the reference `result`. NULL with an exception on
 * failure. */
PyObject *array_result(const array *x, PyObject *result);

/* The default dtype of a sum or product of x: integers are widened as in the array's own library.
 * 0, or -1 with an exception. */
int array_sum_dtype(const array *x, sf_dtype *dtype);

/* The dtype of indices in x; and the dtype of results that are always real: for integers, float64
 * as in NumPy, or float32 as in torch. */
int array_index_dtype(const array *x, sf_dtype *dtype);
int array_real_dtype(const array *x, sf_dtype *dtype);

/* A dtype's name, which is the same in NumPy and torch ("float32"); NULL for a dtype that the
 * library does not support. */
const char *array_dtype_name(sf_dtype dtype);

/* The number of elements, or -1 if it exceeds 2^62. */
int64_t array_elements(const sf_tensor *view);

#endif
