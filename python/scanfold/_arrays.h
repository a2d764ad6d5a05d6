/*
 * Python arrays in and out: any object that holds a tensor becomes an sf_tensor, and results are made by the library the input came from.
 *
 * Four kinds of array, told apart by type once (kinds are remembered):
 *   NUMPY     anything with __array_struct__: NumPy's own C view of an array, read-only ones and any strides included
 *   TORCH     torch.Tensor, by DLPack's C functions where this torch has them (2.10), else by its methods
 *   EXCHANGE  another type that offers DLPack's C functions
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
        PyObject *object;            /* borrowed: what the caller gave */
        int plain;                   /* NumPy's or torch's own array type, not derived from it */
        int wraps;                   /* derived from NumPy's: __array_wrap__ is for results */
        PyObject *keep;              /* owns what view points to, where that is not the object itself */
        const dl_exchange *exchange; /* for TORCH and EXCHANGE; NULL for an older torch */
        int read_only;
        int waits;                   /* OTHER on a device: the producer does not know our stream, so we wait for our work */
        void *stream;                /* where work on this array belongs */
        int64_t shape[SF_MAX_NDIM];  /* used where the producer's own cannot be pointed to */
        int64_t strides[SF_MAX_NDIM];
} array;

/*
 * What array_open answers beside 0 and -1. RECORD: the tensor is as plain as others, but its gradient is wanted, so an autograd.Function has
 * to be asked; DISPATCH: it needs torch's dispatcher (a transform, a mode, a subclass, another device).
 */
enum { ARRAY_DISPATCH = 1, ARRAY_RECORD = 2 };

/*
 * Opens `object`, which the exceptions call `name`. 0; ARRAY_DISPATCH or ARRAY_RECORD; or -1 with an exception. After 0, array_close it.
 * OPEN_FIRST asks everything about the state torch is in, OPEN_MORE only about this object, OPEN_OUT also that it can be written as it is.
 * OPEN_TRUSTED asks nothing: the caller is torch's dispatcher, which has. OPEN_COMPILED is for a compiled graph, which has no state either,
 * but may hold a tensor whose sign is only written down: a copy with the sign in it is opened then.
 */
typedef enum array_use { OPEN_FIRST, OPEN_MORE, OPEN_OUT, OPEN_TRUSTED, OPEN_COMPILED } array_use;
int array_open(PyObject *object, const char *name, array_use use, array *a);
void array_close(array *a);

/* Whether an object is a torch tensor, or stands in for one: 1, 0, or -1 with an exception. */
int array_is_torch(PyObject *object);

/* What is made: of this shape and dtype, and where torch makes it, with its axes in memory in this order, outermost first. */
typedef struct array_form {
        int32_t ndim;
        const int64_t *shape;
        sf_dtype dtype;
        int like;             /* nonzero: of x's shape, with x's order in memory */
        const int32_t *order; /* else this one; NULL: row-major */
} array_form;

/*
 * Makes an array of x's kind, on x's device, and opens it as `out`. *result is a new reference to what array_result turns into the caller's
 * object once the work is done.
 */
int array_make(const array *x, const array_form *form, array *out, PyObject **result);

/* memory(shape, dtype) -> a DLPack capsule: new, row-major, on the CPU. dtype: see _dtypes.py. */
PyObject *array_memory(PyObject *self, PyObject *args);

/* Whether a caller's array may be written: 1, 0, or -1 with an exception. */
int array_can_be_written(const array *out);

/* Tells torch that a caller's tensor was written, so that autograd notices if it had saved it. */
int array_was_written(const array *out);

/*
 * A number for the values a torch tensor holds now: another one once autograd's version counter, its memory or the tensor itself is
 * another, never used again for others. 0 where torch does not count (inference tensors, other arrays). What writes behind autograd's back
 * is not noticed: callers promise that nobody does.
 */
uint64_t array_version(const array *a);

/* Whether this is an nn.Parameter; whether work on its stream is being captured rather than run (-1 with an exception). */
int array_is_parameter(const array *a);
int array_is_captured(const array *a);

/*
 * Work goes to x's stream, whatever other arrays it takes. array_wait_before: before it, for what
 * is under way on a's stream, where that is another. array_wants_a_wait: whether it is to be waited
 * for itself, since a's library does not know of it. array_wait: for all work on a's stream.
 * 0, or -1 with an exception. Nothing is waited for on the CPU.
 */
int array_wait_before(const array *x, const array *a);
int array_wants_a_wait(const array *x, const array *a);
int array_wait(const array *a);

/*
 * How many threads work on x's memory may take: as many as torch would for its own tensors on the
 * CPU. 0: as many as there are. Asking torch takes some 50 ns: a call that is known to need one
 * thread only is spared it.
 */
int32_t array_thread_limit(const array *x);

/* The finished result: steals `result`. NULL with an exception on failure. */
PyObject *array_result(const array *x, PyObject *result);

/* The dtype a sum or product of x has where none is asked for: as the array's own library widens integers. 0, or -1 with an exception. */
int array_sum_dtype(const array *x, sf_dtype *dtype);

/* The dtype of positions in x; and that of results that are real whatever x is: of integers, float64 as NumPy has it, float32 as torch has. */
int array_index_dtype(const array *x, sf_dtype *dtype);
int array_real_dtype(const array *x, sf_dtype *dtype);

/* A dtype's name in NumPy and torch alike ("float32"), or NULL for one the library has not. */
const char *array_dtype_name(sf_dtype dtype);

/* How many elements, or -1 past 2^62. */
int64_t array_elements(const sf_tensor *view);

#endif
