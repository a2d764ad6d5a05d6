/*
 * scanfold.h: scans and folds along any axis of a tensor, with the same bits everywhere.
 *
 * A scan is a cumulative sum or a relative of it; a fold is a reduction. Both combine the elements
 * along an axis in one fixed order (docs/order.md), so the result depends on the values along the
 * axis and on nothing else: not on the device, the instruction set, the number of threads, the
 * strides, or the run.
 *
 *     float x[2][3] = {{1, 2, 3}, {4, 5, 6}}, y[2][3];
 *     int64_t shape[2] = {2, 3};
 *     sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 2, .dtype = SF_F32,
 *                     .shape = shape};
 *     sf_tensor ty = tx;
 *     ty.data = y;
 *     if (sf_scan(NULL, &tx, &ty, NULL) != SF_OK)
 *             puts(sf_last_error(NULL));
 *     // y is {{1, 3, 6}, {4, 9, 15}}
 *
 * Ownership. The library borrows every pointer for the length of a call and keeps none of them.
 *
 * Threads. Every function may be called from any thread, on one shared context or on several,
 * unless its comment says otherwise. Each comment ends with it: "Threads: any", or the object that
 * only one thread at a time may use. Two calls that write overlapping memory at the same time are a
 * data race of the caller's.
 *
 * Failure. A function that can fail returns an sf_status. Arguments are checked before anything is
 * written: after SF_INVALID_ARGUMENT or SF_UNSUPPORTED the output is untouched. sf_last_error
 * returns a sentence that names the argument, what was given, and what would be right. Nothing
 * aborts.
 *
 * Not promised: the sign and payload of a NaN. Which results are NaN is promised.
 */
#ifndef SCANFOLD_H
#define SCANFOLD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SF_VERSION_MAJOR 0
#define SF_VERSION_MINOR 1
#define SF_VERSION_PATCH 0
/* One number that grows with every release: 0.1.0 is 100, 1.2.3 is 10203. */
#define SF_VERSION (SF_VERSION_MAJOR * 10000 + SF_VERSION_MINOR * 100 + SF_VERSION_PATCH)

#if defined(_WIN32) && defined(SF_SHARED)
#  ifdef SF_BUILDING
#    define SF_API __declspec(dllexport)
#  else
#    define SF_API __declspec(dllimport)
#  endif
#elif defined(__GNUC__)
#  define SF_API __attribute__((visibility("default")))
#else
#  define SF_API
#endif

/* -------------------------------------------------------------------------------------------------
 * Tensors
 *
 * sf_tensor has the layout of DLPack's DLTensor, field for field. If <dlpack/dlpack.h> is included
 * before this header, sf_tensor *is* DLTensor and a `DLTensor *` passes straight in; otherwise a
 * cast does.
 *
 *   data         the allocation; the first element is at (char *)data + byte_offset. May be NULL if
 *                the tensor has no elements.
 *   device       where data lives. SF_CPU memory is read and written by the calling process.
 *   ndim         0 to SF_MAX_NDIM. Rank 0 is one element.
 *   dtype        one of the SF_F32-like constants below. lanes must be 1.
 *   shape        ndim lengths, each >= 0. May be NULL when ndim is 0.
 *   strides      ndim strides in *elements*, or NULL for compact row-major. Inputs may have any
 *                strides, negative and zero included. Two elements of an output must not
 *                share memory.
 *   byte_offset  added to data.
 * ---------------------------------------------------------------------------------------------- */
#define SF_MAX_NDIM 64

#ifdef DLPACK_DLPACK_H_
typedef DLDevice sf_device;
typedef DLDataType sf_dtype;
typedef DLTensor sf_tensor;
#  define SF_DEVICE_TYPE(number) ((DLDeviceType)(number))
#else
typedef struct sf_device {
        int32_t device_type;
        int32_t device_id;
} sf_device;

typedef struct sf_dtype {
        uint8_t code;
        uint8_t bits;
        uint16_t lanes;
} sf_dtype;

typedef struct sf_tensor {
        void *data;
        sf_device device;
        int32_t ndim;
        sf_dtype dtype;
        int64_t *shape;
        int64_t *strides;
        uint64_t byte_offset;
} sf_tensor;
#  define SF_DEVICE_TYPE(number) (number)
#endif

/* Device types, numbered as DLPack numbers them. */
#define SF_CPU SF_DEVICE_TYPE(1)
#define SF_CUDA SF_DEVICE_TYPE(2)
#define SF_CUDA_HOST SF_DEVICE_TYPE(3) /* pinned host memory: SF_CPU by another name */

/*
 * dtypes, with DLPack's codes: SF_F32 and so on are values, in C and C++11 alike. ISO C does not
 * take such a value as the initialiser of a static object. SF_F32_INIT and so on are plain
 * initialisers, for use there.
 *
 *     static const sf_dtype kinds[] = {SF_F32_INIT, SF_F64_INIT};
 */
#if defined(__cplusplus)
#  define SF_DTYPE_VALUE(...) (sf_dtype __VA_ARGS__)
#else
#  define SF_DTYPE_VALUE(...) ((sf_dtype)__VA_ARGS__)
#endif
#define SF_F16_INIT {2, 16, 1}
#define SF_BF16_INIT {4, 16, 1}
#define SF_F32_INIT {2, 32, 1}
#define SF_F64_INIT {2, 64, 1}
#define SF_I8_INIT {0, 8, 1}
#define SF_I16_INIT {0, 16, 1}
#define SF_I32_INIT {0, 32, 1}
#define SF_I64_INIT {0, 64, 1}
#define SF_U8_INIT {1, 8, 1}
#define SF_U16_INIT {1, 16, 1}
#define SF_U32_INIT {1, 32, 1}
#define SF_U64_INIT {1, 64, 1}
#define SF_BOOL_INIT {6, 8, 1}
#define SF_F16 SF_DTYPE_VALUE(SF_F16_INIT)
#define SF_BF16 SF_DTYPE_VALUE(SF_BF16_INIT)
#define SF_F32 SF_DTYPE_VALUE(SF_F32_INIT)
#define SF_F64 SF_DTYPE_VALUE(SF_F64_INIT)
#define SF_I8 SF_DTYPE_VALUE(SF_I8_INIT)
#define SF_I16 SF_DTYPE_VALUE(SF_I16_INIT)
#define SF_I32 SF_DTYPE_VALUE(SF_I32_INIT)
#define SF_I64 SF_DTYPE_VALUE(SF_I64_INIT)
#define SF_U8 SF_DTYPE_VALUE(SF_U8_INIT)
#define SF_U16 SF_DTYPE_VALUE(SF_U16_INIT)
#define SF_U32 SF_DTYPE_VALUE(SF_U32_INIT)
#define SF_U64 SF_DTYPE_VALUE(SF_U64_INIT)
#define SF_BOOL SF_DTYPE_VALUE(SF_BOOL_INIT)

/* -------------------------------------------------------------------------------------------------
 * Status
 * ---------------------------------------------------------------------------------------------- */
typedef enum sf_status {
        SF_OK = 0,
        SF_INVALID_ARGUMENT = 1, /* the call can never work: a wrong shape, axis, overlap, ... */
        SF_UNSUPPORTED = 2,      /* well-formed, but this build cannot do it: a dtype pair, a
                                    device */
        SF_OUT_OF_MEMORY = 3,    /* host or device memory for scratch could not be had */
        SF_NO_DEVICE = 4,        /* the device, its driver or its compiler is not there */
        SF_DEVICE_ERROR = 5,     /* the device reported an error */
        SF_STATUS_MAX = 0x7fffffff
} sf_status;

/*
 * Returns the name of a status, such as "SF_OK"; "unknown status" for a number that is no status.
 * Never NULL; the text is static. Threads: any.
 */
SF_API const char *sf_status_name(sf_status status);

/*
 * Returns SF_VERSION of the library that is running, and the same number as the text "0.1.0".
 * Threads: any.
 */
SF_API int32_t sf_version(void);
SF_API const char *sf_version_string(void);

/* -------------------------------------------------------------------------------------------------
 * Contexts
 *
 * A context holds a thread count, the chosen instruction set, and reusable scratch memory, so that
 * a warm call allocates nothing. It may be shared by any number of threads. Wherever a function
 * takes a context, NULL means the process's default context, which is made on first use and never
 * destroyed.
 *
 * Environment, read when a context is created:
 *   SCANFOLD_NUM_THREADS  threads a call may use; else OMP_NUM_THREADS (of a list, the first); else
 *                         as many as the process has CPUs, or fewer if its control groups allow it
 *                         less CPU time
 *   SCANFOLD_ISA          portable, avx2, avx512 or neon: force that instruction set (an error if
 *                         it cannot run)
 *   SCANFOLD_BACKEND      ref: compute with the reference instead (slow; the bits are the same)
 *   SCANFOLD_CHECK        1: also look at offsets in a device's memory before they are used, and
 *                         refuse bad ones with a sentence; the call waits for the device. Otherwise
 *                         bad ones there give results of no use, and no access out of bounds
 * and, for CUDA, when it is first used:
 *   SCANFOLD_LIBCUDA      the driver's library, instead of looking for it
 *   SCANFOLD_NVRTC        CUDA's run-time compiler, instead of looking for it
 *   SCANFOLD_CACHE_DIR    where compiled kernels are kept; if it is set to nothing, nowhere
 *   SCANFOLD_CACHE_MB     how many megabytes of them are kept; 256 unless set
 * A field of sf_context_options that is set wins over the environment. However many threads are
 * asked for, a context has no more than 4 for each CPU, or 16 where that is more.
 *
 * Threads: the library has one pool for the process, started on first use. Small work runs on the
 * calling thread. Larger work uses some of the pool's threads: no more than the context allows, and
 * only those that are free. If a thread cannot be started, the call uses fewer. The threads take no
 * signals, and may run on all CPUs of the process even if the caller is
 * bound to one. They stay until the process ends, so dlclose leaves the library in place; a plugin
 * that contains the static library must be linked with -z nodelete, as CMake and pkg-config do.
 *
 * Fork: a child of fork() may go on using the library and its contexts, even if the parent had
 * threads running.
 *
 * Floating point: every call rounds to nearest and keeps denormal numbers, whatever mode the caller
 * has set (fesetround, flush-to-zero, traps). After the call that mode and the exception flags are
 * what they were.
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_context sf_context;

typedef enum sf_backend {
        SF_BACKEND_AUTO = 0, /* by the tensors' device */
        SF_BACKEND_REF = 1,  /* the order, written as two recursive functions; CPU memory only */
        SF_BACKEND_MAX = 0x7fffffff
} sf_backend;

typedef struct sf_context_options {
        size_t size;        /* sizeof(sf_context_options) */
        int32_t threads;    /* 0: from the environment; large numbers are capped, as above */
        sf_backend backend; /* SF_BACKEND_AUTO: from the environment, else by device */
        const char *isa;    /* NULL: from the environment, else the best this CPU has */
} sf_context_options;

#define SF_CONTEXT_OPTIONS_INIT { sizeof(sf_context_options), 0, SF_BACKEND_AUTO, NULL }

/*
 * Makes a context. options may be NULL: everything from the environment. *ctx is set on SF_OK only;
 * after a failure sf_last_error(NULL) has the sentence. The caller destroys the context. Returns
 * SF_OK or a status. Threads: any.
 *
 *     sf_context *ctx;
 *     if (sf_context_create(&ctx, NULL) != SF_OK) puts(sf_last_error(NULL));
 */
SF_API sf_status sf_context_create(sf_context **ctx, const sf_context_options *options);

/*
 * Destroys ctx. No call may be running on it, and no graph, plan or shard of it may be left. NULL
 * is ignored. Threads: any, once no other uses it.
 */
SF_API void sf_context_destroy(sf_context *ctx);

/*
 * Returns the sentence for the calling thread's latest failed call on ctx, or "" if there was none.
 * Never NULL. The text stays valid until this thread's next failing call on any context; other
 * threads have sentences of their own. Threads: any.
 */
SF_API const char *sf_last_error(const sf_context *ctx);

/*
 * Return what ctx decided: how many threads a large call may use, and the name of its instruction
 * set, such as "avx512" ("ref" for the reference). The text is static. Threads: any.
 */
SF_API int32_t sf_context_threads(const sf_context *ctx);
SF_API const char *sf_context_isa(const sf_context *ctx);

/*
 * Limits the number of threads used by calls that the calling thread makes from now on, on any
 * context. 0 is no limit but the context's own, which is how every thread begins. Returns the
 * previous limit. Programs that divide the CPUs among threads of their own need this. Threads: any.
 *
 *     int32_t before = sf_set_thread_limit(1);
 *     // ... calls on one thread ...
 *     sf_set_thread_limit(before);
 */
SF_API int32_t sf_set_thread_limit(int32_t limit);

/*
 * Lists the instruction sets of this build, the best one last. Returns the name of number `index`,
 * counted from 0, or NULL past the end. *usable, if not NULL, is set to 1 if this CPU can run it,
 * else to 0. Threads: any.
 */
SF_API const char *sf_isa_name(int32_t index, int32_t *usable);

/* -------------------------------------------------------------------------------------------------
 * Operations and dtypes
 *
 *   SF_SUM   a + b. On bool to bool: or.        SF_MAX   the larger; NaN wins; -0.0 is below +0.0.
 *   SF_PROD  a * b. On bool to bool: and.       SF_MIN   the smaller; NaN wins; -0.0 is below +0.0.
 *   SF_ARGMAX, SF_ARGMIN            the index of the largest or smallest element; of equal ones the
 *                                   first, as NumPy's argmax.
 *   SF_LAST_ARGMAX, SF_LAST_ARGMIN  the same; of equal ones the last, as the indices of torch's
 *                                   cummax. "Last" is in the direction of the walk: with `reverse`,
 *                                   the one with the lowest index.
 *                                   NaN wins; zeros of either sign are equal. An index counts from
 *                                   the beginning of the axis, of several folded axes in row-major
 *                                   order. It is -1 if every element is masked out.
 *   SF_LOGSUMEXP  log(exp(a) + exp(b)) without overflow. An element of -inf adds nothing; with +inf
 *                 the result is +inf, with NaN it is NaN.
 *   SF_RECURRENCE h = a h + b: see sf_recurrence.
 *
 * docs/order.md says what each computes, to the bit.
 *
 * A product of reals keeps its exponent apart until it is stored, so no partial product overflows
 * or underflows. A product with a zero factor is zero, unless another factor is infinite or NaN. A
 * partial sum may overflow: {-3e38, 0, 3e38, 3e38} in f32 ends in inf, because the last two are
 * added first, where a loop from the left would end in 3e38. An f64 accumulator has the room.
 *
 * The output's dtype decides the accumulator, the type in which every combination is rounded:
 *
 *   x                   out                          accumulator     each element of x is
 *   f16 bf16 f32        f16 bf16 f32                 f32             widened to f32; rounded once
 *                                                                    to out
 *   f16 bf16 f32 f64    f64                          f64             widened to f64
 *   f64                 f16 bf16 f32                 f64             as it is; rounded once to out
 *   any integer, bool   any integer                  out's own       cast to out, modulo 2^bits
 *                                                    (sum, prod); max and min need an out that
 *                                                    holds every value of x
 *   bool                bool                         bool
 *   any integer, bool   f32 f64                      out's own       rounded to out
 *
 * Indices are i32 or i64 for every x, which is compared as it is: `accumulator` and `initial` are
 * refused. Results of SF_LOGSUMEXP are real.
 *
 * So a sum of f32 into an f32 out is rounded to f32 at each addition, and into an f64 out to f64.
 * f16 elements are added in f32, and the result is rounded to f16 once, at the end. i8 elements are
 * summed into an i64 out without wrapping at 127.
 *
 * `accumulator` in the options asks for another one: f64 where the table says f32, or an integer
 * type no narrower than out's for integers. (For integers, and for max and min, it changes no bit.)
 * Every other pair is refused with SF_UNSUPPORTED.
 * ---------------------------------------------------------------------------------------------- */
typedef enum sf_op {
        SF_SUM = 0,
        SF_PROD = 1,
        SF_MAX = 2,
        SF_MIN = 3,
        SF_ARGMAX = 4,
        SF_ARGMIN = 5,
        SF_LAST_ARGMAX = 6,
        SF_LAST_ARGMIN = 7,
        SF_LOGSUMEXP = 8,
        SF_RECURRENCE = 9,
        SF_OP_MAX = 0x7fffffff
} sf_op;

/*
 * Returns the name of `op`, such as "sum"; NULL for a number that is no operation. The text is
 * static. Threads: any.
 */
SF_API const char *sf_op_name(sf_op op);

/* A number passed by value; sf_int, sf_uint and sf_real make one. All zero bytes mean "none". */
typedef struct sf_scalar {
        int32_t kind; /* SF_SCALAR_NONE, ... */
        union {
                int64_t i;
                uint64_t u;
                double f;
        } value;
} sf_scalar;

enum { SF_SCALAR_NONE = 0, SF_SCALAR_INT = 1, SF_SCALAR_UINT = 2, SF_SCALAR_REAL = 3 };

static inline sf_scalar sf_int(int64_t i)
{
        sf_scalar s;
        s.kind = SF_SCALAR_INT;
        s.value.i = i;
        return s;
}
static inline sf_scalar sf_uint(uint64_t u)
{
        sf_scalar s;
        s.kind = SF_SCALAR_UINT;
        s.value.u = u;
        return s;
}
static inline sf_scalar sf_real(double f)
{
        sf_scalar s;
        s.kind = SF_SCALAR_REAL;
        s.value.f = f;
        return s;
}

/* -------------------------------------------------------------------------------------------------
 * Scan
 *
 * For every line of x along `axis` (n elements, taken from the end when `reverse` is set), with `+`
 * the operation:
 *
 *     a[i]  =  mask && !mask[i] || skip_nan && x[i] is NaN ? identity : (accumulator)x[i]
 *     s[i]  =  a[0] + a[1] + ... + a[i]                      in the order of docs/order.md
 *     s[i]  =  exclusive ? (i ? s[i-1] : identity) : s[i]
 *     y[i]  =  (out's dtype)(initial ? initial + s[i] : s[i])
 *
 * identity is +0.0 for sum, 1 for prod, the lowest value (-inf) for max, the highest (+inf) for
 * min, -inf for logsumexp, and an index of -1.
 *
 * out has x's shape. It may be the very same view as x (same data, offset, shape and strides, and a
 * dtype of the same size), and the scan is then done in place; any other overlap with x or mask is
 * refused.
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_scan_options {
        size_t size;           /* sizeof(sf_scan_options) */
        sf_op op;              /* SF_SUM */
        int32_t axis;          /* -ndim to ndim-1; negative counts from the end. Of a rank-0 x, 0
                                  or -1 */
        int32_t reverse;       /* nonzero: from the last element to the first */
        int32_t exclusive;     /* nonzero: each result leaves its own element out */
        const sf_tensor *mask; /* NULL, or bool or uint8, broadcastable to x, on x's device; nonzero
                                  keeps the element */
        sf_scalar initial;     /* combined on the left of every result. Rounded to a real
                                  accumulator; for an integer accumulator it must be an integer
                                  in its range */
        sf_dtype accumulator;  /* all zero: as the table says */
        int32_t reserved0;     /* 0, like every field of that name: for later headers */
        void *stream;          /* a CUstream of the device's primary context, 0x1 (legacy) or 0x2
                                  (per-thread); NULL is the legacy default one. A call on a
                                  stream that is being captured is captured. Its scratch then
                                  belongs to the graph: two instances of one graph must not run
                                  at once. Ignored on the CPU */
        void *workspace;       /* NULL, or device memory for scratch, 256-byte aligned, used
                                  instead of the library's own */
        size_t workspace_size; /* at least what sf_scan_workspace said for the same arguments */
        int32_t skip_nan;      /* nonzero: elements that are NaN are left out, as if masked.
                                  Indices and recurrences do not have it */
        int32_t reserved1;
        const sf_tensor *offsets; /* NULL, or i32 or i64, of one dimension, on x's device: where
                                     segments begin, and the last one ends; below */
} sf_scan_options;

#ifdef __cplusplus
#  define SF_SCAN_OPTIONS_INIT \
        { sizeof(sf_scan_options), SF_SUM, -1, 0, 0, NULL, {}, {}, 0, NULL, NULL, 0, 0, 0, NULL }
#else
#  define SF_SCAN_OPTIONS_INIT { .size = sizeof(sf_scan_options), .axis = -1 }
#endif

/*
 * Computes the scan of x into out. ctx may be NULL (the default context), and so may options: an
 * inclusive sum along the last axis. Returns SF_OK or a status; see "Failure" above. On CUDA the
 * work is launched on options->stream and not waited for. Threads: any.
 *
 *     sf_scan_options options = SF_SCAN_OPTIONS_INIT;
 *     options.reverse = 1;
 *     sf_status status = sf_scan(NULL, &x, &y, &options);
 */
SF_API sf_status sf_scan(sf_context *ctx, const sf_tensor *x, const sf_tensor *out,
                         const sf_scan_options *options);

/* -------------------------------------------------------------------------------------------------
 * Fold
 *
 * For every position of the axes that stay, with a[0..n) the elements along the folded axes as one
 * sequence, in row-major order of those axes as they stand in x:
 *
 *     y  =  (out's dtype)(initial ? initial + (a[0] + ... + a[n-1]) : (a[0] + ... + a[n-1]))
 *
 * which is the last element of the scan, bit for bit. With n = 0 the sum in brackets is the
 * identity. Max, min and indices over an axis of length 0 are refused, even if out has no elements,
 * unless there is an initial value.
 *
 * out has x's shape with the folded axes removed, or, with keepdim, of length 1. It must not
 * overlap x or mask.
 *
 * Segments. With `offsets`, o[0 .. k], in the options of a scan, a fold over one axis, or a
 * recurrence, that axis is k sequences, back to back: the elements o[i] to o[i+1] - 1 are segment
 * i. o[0] is 0, offsets never decrease (two that are equal make an empty segment), and o[k] is at
 * most the axis's length. Each segment has the results that it would have alone, to the bit:
 * reverse, exclusive, initial and the mask apply to each segment, and an index counts from the
 * beginning of its segment. A scan's out has x's shape. A fold's has x's shape with k in the place
 * of the axis's length, whether keepdim is set or not. The fold of an empty segment is the
 * identity, for max and min too, and an index of -1. Elements after o[k] are scanned as one more
 * segment; a fold has no entry for them. Offsets must not overlap out. On the CPU they are checked
 * before anything is written.
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_fold_options {
        size_t size;           /* sizeof(sf_fold_options) */
        sf_op op;              /* SF_SUM */
        int32_t naxes;         /* how many axes; ignored when axes is NULL */
        const int32_t *axes;   /* which, in any order, none twice; negative counts from the end.
                                  NULL: all */
        int32_t keepdim;       /* nonzero: out keeps the folded axes with length 1 */
        int32_t reverse;       /* nonzero: the sequence is taken from its end */
        const sf_tensor *mask; /* the rest as for the scan */
        sf_scalar initial;
        sf_dtype accumulator;
        int32_t reserved0;
        void *stream;
        void *workspace;
        size_t workspace_size;
        int32_t skip_nan;
        int32_t reserved1;
        const sf_tensor *offsets;
} sf_fold_options;

#ifdef __cplusplus
#  define SF_FOLD_OPTIONS_INIT \
        { sizeof(sf_fold_options), SF_SUM, 0, NULL, 0, 0, NULL, {}, {}, 0, NULL, NULL, 0, 0, 0, \
          NULL }
#else
#  define SF_FOLD_OPTIONS_INIT { .size = sizeof(sf_fold_options) }
#endif

/*
 * Computes the fold of x into out. ctx may be NULL (the default context), and so may options: the
 * sum of all elements into an out of rank 0. Returns SF_OK or a status. On CUDA the work is
 * launched on options->stream and not waited for. Threads: any.
 *
 *     sf_fold_options options = SF_FOLD_OPTIONS_INIT;
 *     options.axes = (int32_t[]){1}, options.naxes = 1;
 *     sf_status status = sf_fold(NULL, &x, &sums, &options);
 */
SF_API sf_status sf_fold(sf_context *ctx, const sf_tensor *x, const sf_tensor *out,
                         const sf_fold_options *options);

/*
 * Tells the shape that an out for this fold of x must have: *ndim and shape[0..*ndim) are set on
 * SF_OK. shape has room for x->ndim lengths. Of options, which may be NULL, only naxes, axes and
 * keepdim are used, and the number of offsets; x's data is not read. Returns SF_OK or a status.
 * Threads: any.
 *
 *     int32_t ndim;
 *     int64_t shape[SF_MAX_NDIM];
 *     sf_status status = sf_fold_shape(NULL, &x, &options, &ndim, shape);
 */
SF_API sf_status sf_fold_shape(sf_context *ctx, const sf_tensor *x, const sf_fold_options *options,
                               int32_t *ndim, int64_t *shape);

/* -------------------------------------------------------------------------------------------------
 * Linear recurrence
 *
 * For every line along options->axis, with h before the first element 0, or options->initial:
 *
 *     h[i]  =  a[i] * h[i-1] + b[i]
 *
 * in the order of docs/order.md: an element is a pair (a, b) that stands for the function
 * h -> a h + b, and neighbouring functions are composed two by two. So a = 1 gives the cumulative
 * sum of b, bit for bit, and a = 0 gives b.
 *
 * a broadcasts to b's shape: one number for all, one gate for each channel, or one for each
 * element. out is real; a and b are real or integers, as in the table above. out has b's shape and
 * may be b itself. options are those of sf_scan; op is ignored. A masked-out element leaves h as it
 * is. With exclusive set, out[i] is h[i-1]. Returns SF_OK or a status. Threads: any.
 * ---------------------------------------------------------------------------------------------- */
SF_API sf_status sf_recurrence(sf_context *ctx, const sf_tensor *a, const sf_tensor *b,
                               const sf_tensor *out, const sf_scan_options *options);

/*
 * Tell how much scratch memory sf_scan or sf_fold needs on its device for this x, out and options,
 * for a caller who passes a workspace. *size is set on SF_OK. It is 0 for most calls, and always on
 * the CPU. The tensors' data is not read. Returns SF_OK or a status. Threads: any.
 */
SF_API sf_status sf_scan_workspace(sf_context *ctx, const sf_tensor *x, const sf_tensor *out,
                                   const sf_scan_options *options, size_t *size);
SF_API sf_status sf_fold_workspace(sf_context *ctx, const sf_tensor *x, const sf_tensor *out,
                                   const sf_fold_options *options, size_t *size);

/* -------------------------------------------------------------------------------------------------
 * Ranks: one axis over many processes
 *
 * Each rank (process) has a shard: a part of the axis, of any length, 0 included. A scan or a fold
 * over all shards has the bits that one process would compute, however many ranks there are and
 * wherever shards begin.
 *
 * That is because the order (docs/order.md) is a tree over positions: a block of 2^k elements at a
 * multiple of 2^k is a subtree, whoever computes it. A shard is at most 2 log2(length) such blocks;
 * one, if any grouping gives the same bits, as of max, of indices and of sums of integers. Other
 * ranks need one value for each block of every line: these values are the shard's span. The library
 * sends nothing itself: it computes what is to be sent, and takes what has arrived.
 *
 *     sf_shard_card mine, cards[RANKS];
 *     sf_shard_card_make(ctx, &x, &out, &options, &mine); // never fails: a mistake is in the card
 *     gather(&mine, sizeof mine, cards);                    // every rank's, by your transport
 *     sf_shard_create(ctx, &x, &out, &options, rank, RANKS, cards, &shard);
 *     sf_shard_values(shard, span);                         // sf_shard_bytes(shard, rank) bytes
 *     gatherv(span, ..., spans);                            // every rank's, in the order of ranks
 *     sf_shard_finish(shard, spans);                        // writes out; a scan reads x again
 *     sf_shard_destroy(shard);
 *
 * With many ranks or many lines, all spans together may be too much to send to every rank. Spans
 * can then be joined on the way (docs/ranks.md): two neighbouring spans make one, again of at most
 * 2 log2(length) values for each line, so ranks may be joined along any tree.
 *
 * Faults: sf_shard_create compares the cards. If one rank has failed, or asks for something else
 * than rank 0 does, or shards overlap or leave a hole, it fails on every rank, with the same status
 * and the same sentence. Bytes are sent as they are: all ranks must run on machines of one byte
 * order, with this version of the library.
 *
 * Tensors are on the CPU or on a CUDA device, the same one for all tensors of a rank; ranks may
 * have different kinds of devices. Spans are in CPU memory:
 * sf_shard_values and sf_shard_finish wait for options->stream where they move values of a span,
 * and what sf_shard_finish writes is there in that stream's order. x, out, mask and a, with their
 * shapes and strides, must stay until sf_shard_finish has returned.
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_shard_options {
        size_t size;           /* sizeof(sf_shard_options) */
        sf_op op;              /* SF_SUM; SF_RECURRENCE with `a` */
        int32_t axis;          /* the one that is sharded */
        int32_t fold;          /* nonzero: a fold, whose result every rank gets; zero: a scan */
        int32_t keepdim;       /* the rest as for sf_scan and sf_fold */
        int32_t reverse;
        int32_t exclusive;
        const sf_tensor *mask; /* of the shard */
        const sf_tensor *a;    /* SF_RECURRENCE: as for sf_recurrence, whose b is x; else NULL */
        sf_scalar initial;
        sf_dtype accumulator;
        int32_t skip_nan;
        int32_t placed;        /* zero: the shards follow one another in the order of ranks */
        int32_t reserved0;
        int64_t first;         /* if `placed` is nonzero, which it then is on every rank: the
                                  index of x's first element along the whole axis */
        void *stream;          /* of CUDA tensors; as for sf_scan */
} sf_shard_options;

#ifdef __cplusplus
#  define SF_SHARD_OPTIONS_INIT \
        { sizeof(sf_shard_options), SF_SUM, -1, 0, 0, 0, 0, NULL, NULL, {}, {}, 0, 0, 0, 0, NULL }
#else
#  define SF_SHARD_OPTIONS_INIT { .size = sizeof(sf_shard_options), .axis = -1 }
#endif

/* What a rank asks for, as bytes. */
typedef struct sf_shard_card {
        uint64_t word[32];
} sf_shard_card;

typedef struct sf_shard sf_shard;

/*
 * Fills a rank's card for a scan or fold of x, its shard, into out. options may be NULL: an
 * inclusive sum along the last axis. It never fails: what is wrong is written into the card, and
 * sf_shard_create then fails on every rank. Threads: any.
 */
SF_API void sf_shard_card_make(sf_context *ctx, const sf_tensor *x, const sf_tensor *out,
                               const sf_shard_options *options, sf_shard_card *card);

/*
 * Fills the card of a rank that failed before it could ask, with the reason: a status, which must
 * not be SF_OK, and a sentence. So the other ranks do not wait for it. Threads: any.
 */
SF_API void sf_shard_card_fail(sf_status status, const char *sentence, sf_shard_card *card);

/*
 * Makes a shard from the arguments of sf_shard_card_make (x, out, options), this process's rank,
 * and the cards of all ranks in their order. *shard is set on SF_OK only; the caller destroys it,
 * and sf_shard_destroy ignores NULL. A shard is used by one thread at a time. Returns SF_OK or a
 * status. Threads: any.
 */
SF_API sf_status sf_shard_create(sf_context *ctx, const sf_tensor *x, const sf_tensor *out,
                                 const sf_shard_options *options, int32_t rank, int32_t ranks,
                                 const sf_shard_card *cards, sf_shard **shard);
SF_API void sf_shard_destroy(sf_shard *shard);

/*
 * Return the length of the whole axis, and the index of this shard's first element in it. Threads:
 * one at a time for each shard.
 */
SF_API int64_t sf_shard_length(const sf_shard *shard);
SF_API int64_t sf_shard_first(const sf_shard *shard);

/*
 * Returns how many bytes the span of a rank of this shard has: its blocks, times the lines, times 4
 * to 16 bytes. Threads: one at a time for each shard.
 */
SF_API size_t sf_shard_bytes(const sf_shard *shard, int32_t rank);

/*
 * Computes this rank's span, of sf_shard_bytes(shard, rank) bytes. Reads x once. Returns SF_OK or a
 * status. Threads: one at a time for each shard.
 */
SF_API sf_status sf_shard_values(sf_shard *shard, void *span);

/*
 * Computes a shard's results from the spans of all ranks, back to back in the order of ranks, and
 * writes them to out. Call it after sf_shard_values. A scan reads x a second time. Returns SF_OK or
 * a status. Threads: one at a time for each shard.
 */
SF_API sf_status sf_shard_finish(sf_shard *shard, const void *spans);

/*
 * The same for one shard, with spans that are joined on the way. Each rank has a place, 0 to
 * ranks - 1, in the order in which the shards are walked; with `reverse` that is backwards.
 *
 *   sf_shard_place        returns a rank's place
 *   sf_shard_span_bytes   returns the bytes of the span of places `from` to `to` - 1
 *   sf_shard_join         makes `joined`, the span [from, to), from `left`, which is the span
 *                         [from, middle), and `right`, which is [middle, to)
 *   sf_shard_finish_from  computes the results. A scan takes the span of all places before this
 *                         rank's, a fold that of all places. It may be NULL if it has no bytes
 *
 * The last two return SF_OK or a status. Threads: one at a time for each shard.
 */
SF_API int32_t sf_shard_place(const sf_shard *shard, int32_t rank);
SF_API size_t sf_shard_span_bytes(const sf_shard *shard, int32_t from, int32_t to);
SF_API sf_status sf_shard_join(const sf_shard *shard, int32_t from, int32_t middle, int32_t to,
                               const void *left, const void *right, void *joined);
SF_API sf_status sf_shard_finish_from(sf_shard *shard, const void *before);

/* -------------------------------------------------------------------------------------------------
 * Expressions
 *
 * Several operators, computed in as few passes over memory as possible. A graph says what is to be
 * computed. A plan is that graph, rewritten and fused, for given shapes, dtypes and a device. A
 * plan can be run any number of times, each time with other tensors.
 *
 *     sf_graph *graph;
 *     sf_graph_parse(NULL, "sum((x @ w.T) / 2, axis=1, keepdim=True) * 1.5", &graph);
 *     sf_tensor inputs[2] = {x, w}, out = ...;
 *     sf_plan *plan;
 *     sf_plan_create(NULL, graph, 2, inputs, NULL, &plan);
 *     sf_graph_destroy(graph);
 *     sf_plan_run(plan, inputs, &out, NULL);
 *     sf_plan_destroy(plan);
 *
 * Nodes. A node is a number from 1 up, good in its own graph; 0 is "none". A function that fails
 * returns a negative number, with the sentence in sf_last_error of the graph's context. A negative
 * number passed as a node makes that call fail too and keeps the sentence, so a whole expression
 * can be built and checked once. A graph holds no shapes: what shapes and dtypes can get wrong is
 * found, and said, by sf_plan_create. Axes are int32_t, negative counting from the end.
 *
 * Shapes broadcast as in NumPy: aligned at the last axis, lengths equal or 1.
 *
 * Types promote as in torch: bool, then integers, then reals; the wider wins within a kind, f16
 * with bf16 gives f32, a signed with an unsigned integer the narrowest signed type that holds both
 * (u64 with a signed one is refused). A tensor of rank 0 counts only if its kind is above that of
 * all others, a constant only if its kind is above all tensors': x * 1.5 of a real x has x's dtype.
 * An integer where a real is needed (/, exp, log, sqrt, sigmoid, tanh, or beside a real constant)
 * becomes f32. A comparison gives bool. On bools + is or and * is and; - is refused.
 *
 * Values: every operator rounds its result to its own type; f16 and bf16 are computed in f32 and
 * then rounded. Scans and folds are those above, and so are their dtypes, except for the default
 * result: sum and prod of integers are 64 bits wide (i64, u64 for unsigned; bool counts as signed),
 * indices i64, logsumexp of integers f32, everything else keeps its type. A matmul widens both
 * sides to the accumulator's type (f32, f64, or the integers' own), rounds each product in it,
 * folds the products by the rule and rounds once to the promoted type. exp, log, sigmoid and tanh
 * are the library's own and have the same bits on every CPU and on CUDA: within 0.9 last places in
 * f32, in f64 exp and log within one and sigmoid and tanh within 2.5.
 *
 * Rewrites. A plan computes what the graph says by other operators where that is less work. Most of
 * them change no bit. Those that round differently (a sum over a matmul's rows, merged factors) are
 * marked as such by sf_plan_explain, and are not done under `exact`. They may also overflow where
 * the graph as written does not. So results of such a plan that come out infinite or NaN are
 * computed again as written, each for itself: those have the bits they have under `exact`, the
 * others keep theirs. On CUDA this is a launch that does nothing where all results are finite, and
 * nobody waits for it.
 *
 * Threads: a graph is built by one thread at a time. A plan may be run by any number of threads at
 * once. Graph and plan belong to the context they were made with, which must outlive them; a plan
 * needs its graph no longer once it is made.
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_graph sf_graph;
typedef struct sf_plan sf_plan;

/*
 * Make an empty graph, and destroy one. *graph is set on SF_OK only; the caller destroys it. A
 * graph is built by one thread at a time. NULL is ignored by sf_graph_destroy. Returns SF_OK or a
 * status. Threads: any.
 */
SF_API sf_status sf_graph_create(sf_context *ctx, sf_graph **graph);
SF_API void sf_graph_destroy(sf_graph *graph);

/*
 * Makes a graph from a line of text in Python's notation: names (inputs, numbered as they first
 * appear), numbers, + - * / @ ** 2, comparisons, parentheses, .T, slices such as x[:, 1:] and
 * x[..., ::-1], None for a new axis; then, as functions (torch. and np. may stand before them) or
 * as methods:
 *
 *     sum prod max min (x, axis=1 or (0, 1) or None, keepdim=True, mask=m, skip_nan=True,
 *         dtype=f64)
 *         also amax, amin; dim= is axis=, keepdims= is keepdim=
 *     cumsum cumprod cummax cummin (x, axis=-1, reverse=True, exclusive=True, mask=m,
 *         skip_nan=True, dtype=f64)
 *     mean sumsq any all; var std var_mean std_mean (correction=1; ddof=);
 *         norm(x, order=2; ord=, p=); cummean cumvar; nansum and so on
 *     softmax log_softmax (x, axis=-1, mask=m); layer_norm(x, axis=-1, weight=w, bias=b, eps=1e-5,
 *         mask=m); rms_norm(x, axis, weight, eps); normalize(x, order=2, axis=-1, eps=1e-12);
 *         standardize(x, axis=-1, correction=1)
 *     argmax argmin (the first of equal elements), argmax_last argmin_last, logsumexp: as sum
 *     cumargmax cumargmin (the latest of equal elements, as torch's cummax), cumargmax_first
 *         cumargmin_first, logcumsumexp: as cumsum
 *     linear_recurrence(a, b, axis=-1, reverse=True, exclusive=True, mask=m, initial=1.0,
 *         dtype=f64)
 *     any of these with offsets=o, an input: the one axis cut into segments; spread(v, axis,
 *         length, offsets=o): v's element of each segment, for each of the segment's elements
 *     exp log sqrt square abs relu sigmoid tanh minimum maximum clamp where masked_fill
 *     flip transpose permute unsqueeze squeeze broadcast_to expand
 *     concat cat concatenate zeros_like ones_like full_like
 *     matmul linear; astype to, with f32 or float32 and so on; x.float() and x.double()
 *
 * Several expressions with commas between them are several outputs. A sentence about a bad
 * expression ends with the line and a caret under the column; so does one of sf_plan_create's about
 * shapes or dtypes that do not fit it. docs/expressions.md has it all. Returns SF_OK or a status.
 * Threads: any.
 */
SF_API sf_status sf_graph_parse(sf_context *ctx, const char *text, sf_graph **graph);

/*
 * Return how many inputs and outputs a graph has, and the name of the input with this index ("" if
 * there is none). The text is the graph's. Threads: one at a time for each graph.
 */
SF_API int32_t sf_graph_inputs(const sf_graph *graph);
SF_API int32_t sf_graph_outputs(const sf_graph *graph);
SF_API const char *sf_graph_input_name(const sf_graph *graph, int32_t index);

/*
 * Returns the node of an input. Inputs are numbered from 0 in the order they are first named; a
 * name is one node. Threads: one at a time for each graph.
 */
SF_API int32_t sf_expr_input(sf_graph *graph, const char *name);

/*
 * Returns the node of a number, which takes the type of what it meets. Beside integers a whole
 * number keeps its value, as in NumPy 2: comparisons are by value, a bound of maximum and minimum
 * beyond all values of the type does not bind, and where the result's type would have to hold a
 * number that it does not, sf_plan_create refuses. Threads: one at a time for each graph.
 */
SF_API int32_t sf_expr_constant(sf_graph *graph, sf_scalar value);

/*
 * Returns a tensor of x's shape and dtype, filled with `value`. An integer dtype must be able to
 * hold it; its fraction is dropped. x's values are not read. Threads: one at a time for each graph.
 */
SF_API int32_t sf_expr_like(sf_graph *graph, int32_t x, sf_scalar value);

typedef enum sf_function {
        SF_ADD = 0, SF_SUB = 1, SF_MUL = 2, SF_DIV = 3, /* / is true division: of integers, f32 */
        SF_MAXIMUM = 4, SF_MINIMUM = 5,                 /* NaN wins; -0.0 is below +0.0 */
        SF_NEG = 6, SF_ABS = 7, SF_EXP = 8, SF_LOG = 9, SF_SQRT = 10, SF_SQUARE = 11,
        SF_RELU = 12,    /* maximum(x, 0), NaN staying NaN */
        SF_SIGMOID = 13, /* 1 / (1 + exp(-x)) */
        SF_TANH = 14,
        SF_EQ = 15, SF_NE = 16, SF_LT = 17, SF_LE = 18, SF_GT = 19, SF_GE = 20,
        SF_WHERE = 21, /* a ? b : c, with a bool or u8 */
        SF_FUNCTION_MAX = 0x7fffffff
} sf_function;

/*
 * Returns a node that applies a function to each element of a, of a and b, or of a, b and c. Pass 0
 * for arguments that the function does not take. Threads: one at a time for each graph.
 *
 *     int32_t product = sf_expr_apply(graph, SF_MUL, sf_expr_input(graph, "x"), b, 0);
 */
SF_API int32_t sf_expr_apply(sf_graph *graph, sf_function function, int32_t a, int32_t b,
                             int32_t c);

/*
 * Returns x as another dtype: a real to a narrower one rounded once, an integer to another one
 * wrapped, anything to bool whether it is not zero. A real to an integer loses its fraction and
 * wraps, by way of an integer of 32 bits (to i8, i16, i32, u16) or 64 (to u8, u32, i64, u64); what
 * that one does not hold, and NaN, becomes its lowest value first. (To u64 from 2^63 on, 2^63 is
 * set aside on the way.) So do NumPy and torch on x86 wherever they agree; here every device does.
 * docs/expressions.md has a table. Threads: one at a time for each graph.
 */
SF_API int32_t sf_expr_cast(sf_graph *graph, int32_t x, sf_dtype dtype);

/*
 * Return views of x; no element is moved.
 *
 *   flip       reverses naxes axes; NULL means all of them
 *   permute    axis d of the result is axis axes[d] of x; NULL reverses their order (.T)
 *   transpose  exchanges axis_a and axis_b
 *   squeeze    removes an axis of length 1
 *   unsqueeze  inserts an axis of length 1, at position `axis` of the result
 *
 * Threads: one at a time for each graph.
 */
SF_API int32_t sf_expr_flip(sf_graph *graph, int32_t x, int32_t naxes, const int32_t *axes);
SF_API int32_t sf_expr_permute(sf_graph *graph, int32_t x, int32_t naxes, const int32_t *axes);
SF_API int32_t sf_expr_transpose(sf_graph *graph, int32_t x, int32_t axis_a, int32_t axis_b);
SF_API int32_t sf_expr_squeeze(sf_graph *graph, int32_t x, int32_t axis);
SF_API int32_t sf_expr_unsqueeze(sf_graph *graph, int32_t x, int32_t axis);
/*
 * Returns x broadcast to this shape of ndim lengths; -1 keeps x's own length. Threads: one at a
 * time for each graph.
 */
SF_API int32_t sf_expr_broadcast(sf_graph *graph, int32_t x, int32_t ndim, const int64_t *shape);
/*
 * Returns x[start:stop:step] along an axis, as in Python; SF_SLICE_END stands for a part that is
 * left out. Threads: one at a time for each graph.
 */
#define SF_SLICE_END INT64_MIN
SF_API int32_t sf_expr_slice(sf_graph *graph, int32_t x, int32_t axis, int64_t start, int64_t stop,
                             int64_t step);
/* Returns x[index] along an axis; the axis is removed. Threads: one at a time for each graph. */
SF_API int32_t sf_expr_select(sf_graph *graph, int32_t x, int32_t axis, int64_t index);

/*
 * Returns `count` parts, nodes of one dtype, concatenated along an axis. Threads: one at a time for
 * each graph.
 */
SF_API int32_t sf_expr_concat(sf_graph *graph, int32_t axis, int32_t count, const int32_t *parts);

/*
 * Returns x, which has one element for each segment along the axis, with each element repeated for
 * all elements of its segment; the axis then has this length. After the last offset it is 0.
 * offsets is an input, as in sf_expr_options. Threads: one at a time for each graph.
 *
 *     int32_t means = sf_expr_spread(graph, sf_expr_mean(graph, a, &by_o), 0, n, o);
 */
SF_API int32_t sf_expr_spread(sf_graph *graph, int32_t x, int32_t axis, int64_t length,
                              int32_t offsets);

typedef struct sf_expr_options {
        size_t size;          /* sizeof(sf_expr_options) */
        sf_op op;             /* SF_SUM; sf_expr_derived ignores it */
        int32_t naxes;        /* how many axes; ignored when axes is NULL */
        const int32_t *axes;  /* of a fold, NULL: all; of a scan one axis, NULL: the last */
        int32_t keepdim;      /* folds: the axes stay, with length 1 */
        int32_t reverse;
        int32_t exclusive;    /* scans */
        int32_t mask;         /* 0, or a node of bool or u8 */
        sf_scalar initial;    /* sf_expr_derived refuses it */
        sf_dtype dtype;       /* the result's; all zero: the default, above */
        sf_dtype accumulator; /* all zero: as the table says */
        int32_t skip_nan;     /* nonzero: NaN elements are masked out */
        int32_t reserved0;
        double correction;    /* SF_VAR, SF_STD, SF_CUMVAR, SF_STANDARDIZE: subtracted from the
                                 count. 0: the variance of the whole population; 1: of a sample */
        sf_scalar order;      /* SF_NORM, SF_NORMALIZE: which; unset: 2 */
        int32_t weight, bias; /* SF_LAYER_NORM, and without a bias SF_RMS_NORM: 0, or a node */
        sf_scalar eps;        /* SF_LAYER_NORM, SF_RMS_NORM, SF_NORMALIZE: 0 or more; unset:
                                 below */
        int32_t offsets;      /* 0, or an input, i32 or i64 of one dimension: the one axis is cut
                                 into segments, as under "Fold". A fold's result has one entry
                                 for each segment; SF_SOFTMAX and its like work within each
                                 segment */
        int32_t reserved1;
} sf_expr_options;

#ifdef __cplusplus
#  define SF_EXPR_OPTIONS_INIT \
        { sizeof(sf_expr_options), SF_SUM, 0, NULL, 0, 0, 0, 0, {}, {}, {}, 0, 0, 0, {}, 0, 0, {}, \
          0, 0 }
#else
#  define SF_EXPR_OPTIONS_INIT { .size = sizeof(sf_expr_options) }
#endif

/*
 * Return the node of a scan, or of a fold, of x. options may be NULL: a sum, of a scan along the
 * last axis, of a fold over all axes. Threads: one at a time for each graph.
 */
SF_API int32_t sf_expr_scan(sf_graph *graph, int32_t x, const sf_expr_options *options);
SF_API int32_t sf_expr_fold(sf_graph *graph, int32_t x, const sf_expr_options *options);

/*
 * Returns the scan or fold of x that `what` names. These are composed of those above and of
 * elementwise work. A plan fuses the parts as if they had been written out: each reads x once, and
 * several of them over the same axes share that read.
 *
 * n is the number of elements that count: those that mask and skip_nan leave, and in a scan those
 * up to the current position.
 *
 *   SF_MEAN      sum / n, divided in the accumulator's type. Of nothing: NaN
 *   SF_VAR       (sum(d * d) - sum(d)^2 / n) / (n - correction), not below 0, with d = x - the
 *                line's first element; all in f64. So the digits that all elements have in common
 *                are gone before anything is squared. With a mask or skip_nan that element may be
 *                none of them: d is then x - mean and the middle term is gone, which takes a second
 *                read of x. Of nothing: NaN
 *   SF_STD       its root, taken in f64
 *   SF_VAR_MEAN  the mean of the same read as SF_VAR's: the first element + sum(d) / n, in f64
 *   SF_CUMMEAN   scans: the same of all elements so far; NaN before the first that counts. With a
 *   SF_CUMVAR    mask or skip_nan SF_CUMVAR's d is x - the first element that counts
 *   SF_SUMSQ     sum(x * x); integers are widened first
 *   SF_NORM      sum(|x|^order)^(1 / order). Order 1: sum(|x|); 2: the root of the sum of squares;
 *                inf and -inf: the largest and the smallest |x|; 0: how many are not 0. In the
 *                accumulator's type. A power is made of multiplications and square roots where the
 *                order is a multiple of 1/2 (to 64), else with exp and log. Of nothing: 0; of order
 *                inf and -inf, refused
 *   SF_ANY       whether any element is not 0; NaN counts as not 0. Of nothing: false
 *   SF_ALL       whether all elements are not 0. Of nothing: true
 *   SF_COUNT_NONZERO  how many are not 0, as an i64
 *   SF_NANMAX    the largest, the smallest of those that are not NaN, which are skipped whatever
 *   SF_NANMIN    skip_nan says. Of reals, NaN if all are NaN or masked out; of integers as SF_MAX
 *                and SF_MIN. Of nothing: refused
 *
 * Those that go back to the elements have x's shape. Along the axes (NULL: the last), of every
 * line, with n and sums of those elements that count; all in the accumulator's type, to which x,
 * weight and bias are converted first, each operator rounding once:
 *
 *   SF_SOFTMAX      e / sum(e), with e = exp(x - max(x))
 *   SF_LOG_SOFTMAX  (x - max(x)) - log(sum(exp(x - max(x))))
 *   SF_LAYER_NORM   d * (1 / sqrt(sum(d * d) / n + eps)) * weight + bias, with d = x - sum(x) / n;
 *                   eps: 1e-5
 *   SF_RMS_NORM     x * (1 / sqrt(sum(x * x) / n + eps)) * weight; eps: the distance from 1 to the
 *                   next larger number of the result's dtype
 *   SF_NORMALIZE    x / maximum(norm(x), eps), with SF_NORM's norm of the order given; eps: 1e-12
 *   SF_STANDARDIZE  d / sqrt(sum(d * d) / (n - correction)), with d as above
 *
 * A plan computes each in one pass over its lines, while the line is in cache. Elements that are
 * masked out give 0, so a line without elements that count is all 0. A line with a NaN among those
 * that count is NaN there; softmax of a line of -inf, or with inf, is NaN, as 0 / 0 is. A weight
 * or bias is of the lengths along the axes, in order, or of x's rank and broadcasts to it.
 *
 * The result has x's dtype, which must be real, or the one in the options; SF_SUMSQ's is that of a
 * sum, SF_NANMAX's and SF_NANMIN's that of a max, SF_ANY's and SF_ALL's bool, SF_COUNT_NONZERO's
 * i64. A correction above the number of elements is refused. Where a mask leaves no more elements
 * than the correction the result is NaN or infinite; with skip_nan, of reals, it is NaN.
 *
 * Error: the first element is one of the values, so sum(d * d) is at most n + 1 times the sum of
 * squares around the mean, and of n elements SF_VAR is within (n + 1) * (log2(n) + 4) * 2^-53 of
 * the true variance, relatively, whatever the mean is: 2e-10 for 100,000 elements. Threads: one at
 * a time for each graph.
 */
typedef enum sf_derived {
        SF_MEAN = 0, SF_VAR = 1, SF_STD = 2, SF_VAR_MEAN = 3, SF_CUMMEAN = 4, SF_CUMVAR = 5,
        SF_SUMSQ = 6, SF_NORM = 7, SF_ANY = 8, SF_ALL = 9, SF_COUNT_NONZERO = 10,
        SF_SOFTMAX = 11, SF_LOG_SOFTMAX = 12, SF_LAYER_NORM = 13, SF_RMS_NORM = 14,
        SF_NORMALIZE = 15, SF_STANDARDIZE = 16, SF_NANMAX = 17, SF_NANMIN = 18,
        SF_DERIVED_MAX = 0x7fffffff
} sf_derived;

SF_API int32_t sf_expr_derived(sf_graph *graph, int32_t x, sf_derived what,
                               const sf_expr_options *options);
/*
 * Returns the mean of x: sf_expr_derived with SF_MEAN and the same options. Threads: one at a time
 * for each graph.
 */
SF_API int32_t sf_expr_mean(sf_graph *graph, int32_t x, const sf_expr_options *options);

/*
 * Returns the linear recurrence h = a h + b along one axis, as sf_recurrence has it; options as for
 * a scan, op ignored. a and b broadcast to one shape, and each may be a number. The result is real:
 * where neither is, f32. Threads: one at a time for each graph.
 */
SF_API int32_t sf_expr_recurrence(sf_graph *graph, int32_t a, int32_t b,
                                  const sf_expr_options *options);

/*
 * Return a @ b as in NumPy and torch: (..., M, K) with (..., K, N), vectors, batches that
 * broadcast; and x @ w.T + bias, where bias is a node or 0. Threads: one at a time for each graph.
 */
SF_API int32_t sf_expr_matmul(sf_graph *graph, int32_t a, int32_t b);
SF_API int32_t sf_expr_linear(sf_graph *graph, int32_t x, int32_t w, int32_t bias);

/*
 * Makes a node an output. Returns the output's number, counted from 0, or a negative number after a
 * failure. Threads: one at a time for each graph.
 */
SF_API int32_t sf_expr_output(sf_graph *graph, int32_t node);

typedef struct sf_plan_options {
        size_t size;   /* sizeof(sf_plan_options) */
        int32_t exact; /* nonzero: every operator keeps its own rounding, so the bits are those
                          of one pass for each operator. Zero: results may be rounded
                          differently; those that are then not finite are computed again as
                          written */
        int32_t reserved0;
} sf_plan_options;

#define SF_PLAN_OPTIONS_INIT { sizeof(sf_plan_options), 0, 0 }

/*
 * Makes a plan of a graph, for ninputs inputs of these shapes and dtypes on this device. Their data
 * is not read, and strides may differ from run to run. Without an input the plan is for the CPU.
 * options may be NULL. *plan is set on SF_OK only; the caller destroys it, and needs the graph no
 * longer. Mistakes in shapes and dtypes are found here. Returns SF_OK or a status. Threads: any.
 */
SF_API sf_status sf_plan_create(sf_context *ctx, const sf_graph *graph, int32_t ninputs,
                                const sf_tensor *inputs, const sf_plan_options *options,
                                sf_plan **plan);

/*
 * Destroys a plan. No run of it may be in progress, on the host or on the device. NULL is ignored.
 * Threads: any, once no other uses it.
 */
SF_API void sf_plan_destroy(sf_plan *plan);

/*
 * Return how many outputs a plan has, and set the shape and dtype of the one with this index, from
 * 0. Each of ndim, shape (with room for SF_MAX_NDIM lengths) and dtype may be NULL. The second
 * returns SF_OK or a status. Threads: any.
 */
SF_API int32_t sf_plan_outputs(const sf_plan *plan);
SF_API sf_status sf_plan_output(const sf_plan *plan, int32_t index, int32_t *ndim, int64_t *shape,
                                sf_dtype *dtype);

/*
 * Tells how much scratch memory a run of this plan needs on its device, for a caller who passes a
 * workspace. *size is set on SF_OK. Inputs with unusual strides may need more; that comes from the
 * library's own memory. Returns SF_OK or a status. Threads: any.
 */
SF_API sf_status sf_plan_workspace(const sf_plan *plan, size_t *size);

typedef struct sf_run_options {
        size_t size;              /* sizeof(sf_run_options) */
        void *stream;             /* as for the scan */
        void *workspace;          /* NULL, or scratch on the plan's device, 256-byte aligned */
        size_t workspace_size;
        const uint64_t *versions; /* NULL, or one number for each input, which changes whenever
                                     the values of that input change; 0 means unknown. What
                                     depends on unchanged inputs only (a weight's column sums) is
                                     kept from run to run, on CUDA across streams. A run that is
                                     captured computes it each time the graph runs */
} sf_run_options;

#define SF_RUN_OPTIONS_INIT { sizeof(sf_run_options), NULL, NULL, 0, NULL }

/*
 * Runs a plan. `inputs` are those the plan was made for: as many, in the same order, with the same
 * shapes, dtypes and device. `outputs` have the plan's shapes and dtypes. Both may have any
 * strides; two elements of an output must not share memory, and an output must not overlap an input
 * or another output. options may be NULL. Any number of threads may run one plan at the same time.
 * Returns SF_OK or a status. Threads: any.
 */
SF_API sf_status sf_plan_run(sf_plan *plan, const sf_tensor *inputs, const sf_tensor *outputs,
                             const sf_run_options *options);

typedef enum sf_explain_format {
        SF_EXPLAIN_TEXT = 0,
        SF_EXPLAIN_JSON = 1,
        SF_EXPLAIN_DOT = 2,
        SF_EXPLAIN_SVG = 3,
        SF_EXPLAIN_MAX = 0x7fffffff
} sf_explain_format;

/*
 * Describes a plan: its passes, the bytes read and written before (with one pass for each operator)
 * and after, which rewrites were applied, what was not fused and why, and the expected time at the
 * device's bandwidth. On the CPU that bandwidth is measured by the first call. `format` is one of
 * those above. At most size - 1 bytes and a closing 0 are written to `text`; *needed, if not NULL,
 * is set to the size that holds all of it. Returns SF_OK or a status. Threads: any.
 *
 *     size_t needed;
 *     sf_plan_explain(plan, SF_EXPLAIN_TEXT, NULL, 0, &needed);
 */
SF_API sf_status sf_plan_explain(sf_plan *plan, sf_explain_format format, char *text, size_t size,
                                 size_t *needed);

/* -------------------------------------------------------------------------------------------------
 * Devices
 *
 * CUDA's driver and its run-time compiler NVRTC are found and loaded when the first tensor on an
 * SF_CUDA device is met; the library itself links neither. SCANFOLD_LIBCUDA and SCANFOLD_NVRTC name
 * the files to load instead of looking for them. Work is launched in the device's primary context,
 * on the stream of the options, and not waited for. The calling thread's current CUDA context is
 * left as it was.
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_device_info {
        size_t size;             /* sizeof(sf_device_info) */
        char name[128];          /* "NVIDIA H200" */
        int32_t capability;      /* 90 for 9.0 */
        int32_t multiprocessors;
        int64_t memory;          /* bytes */
        int32_t driver;          /* the CUDA version of its driver: 13000 for 13.0 */
        int32_t compiler;        /* the CUDA version of NVRTC; 0 if there is none, and then
                                    compiler_path holds the reason */
        char driver_path[256];   /* the file loaded */
        char compiler_path[256];
} sf_device_info;

#ifdef __cplusplus
#  define SF_DEVICE_INFO_INIT { sizeof(sf_device_info), {}, 0, 0, 0, 0, 0, {}, {} }
#else
#  define SF_DEVICE_INFO_INIT { .size = sizeof(sf_device_info) }
#endif

/*
 * Tell how many devices of device_type (SF_CUDA) there are, and describe one device. Without a
 * driver they return SF_NO_DEVICE, and *count is 0. info->size must be set (SF_DEVICE_INFO_INIT).
 * Returns SF_OK or a status. Threads: any.
 *
 *     sf_device_info info = SF_DEVICE_INFO_INIT;
 *     sf_status status = sf_device_describe(NULL, (sf_device){SF_CUDA, 0}, &info);
 */
SF_API sf_status sf_device_count(sf_context *ctx, int32_t device_type, int32_t *count);
SF_API sf_status sf_device_describe(sf_context *ctx, sf_device device, sf_device_info *info);

/* -------------------------------------------------------------------------------------------------
 * The cache of compiled kernels
 *
 * Kernels are compiled for the device at hand when they are first needed, and kept on disk: in
 * SCANFOLD_CACHE_DIR, else in scanfold under XDG_CACHE_HOME, else in .cache/scanfold under HOME; at
 * most SCANFOLD_CACHE_MB of them (256), the least recently used going first. An entry that is
 * damaged, or was made from another source or by another compiler, is compiled again. With no
 * folder that can be written (or SCANFOLD_CACHE_DIR set to nothing) each process compiles for
 * itself.
 * ---------------------------------------------------------------------------------------------- */

/*
 * Writes the cache's folder to `path`, cut to `size` bytes; "" if there is none. Returns SF_OK or a
 * status. Threads: any.
 */
SF_API sf_status sf_cache_path(sf_context *ctx, char *path, size_t size);

/*
 * Compiles the kernels that common calls need on `device`: sums forward and backward, sums and
 * maxima over an axis, for the usual dtypes and shapes. `progress`, if not NULL, is called after
 * each kernel, on the calling thread, with `user`, its name, and how many of how many are done; if
 * it returns nonzero, compiling stops. Returns SF_OK or a status. Threads: any.
 */
SF_API sf_status sf_cache_warm(sf_context *ctx, sf_device device,
                               int (*progress)(void *user, const char *what, int32_t done,
                                               int32_t of),
                               void *user);

/*
 * Calls `visit` for every entry, the least recently used first, on the calling thread, with `user`,
 * the name of its file, what it is, its size in bytes, and when it was last used (a time_t).
 * Returns SF_OK or a status. Threads: any.
 */
SF_API sf_status sf_cache_list(sf_context *ctx,
                               void (*visit)(void *user, const char *name, const char *about,
                                             int64_t bytes, int64_t used),
                               void *user);

/*
 * Removes every entry. *removed, if not NULL, is set to how many there were. Returns SF_OK or a
 * status. Threads: any.
 */
SF_API sf_status sf_cache_clear(sf_context *ctx, int64_t *removed);

#ifdef __cplusplus
}
#endif

#endif /* SCANFOLD_H */
