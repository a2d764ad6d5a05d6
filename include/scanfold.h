/*
 * scanfold.h: scans and folds along any axis of a tensor, with the same bits everywhere.
 *
 * A scan is a cumulative sum or a relative of it; a fold is a reduction. Both combine the elements along an
 * axis in one fixed order (docs/order.md), so the result depends on the values along the axis and on nothing
 * else: not on the device, the instruction set, the number of threads, the strides, or the run.
 *
 *     float x[2][3] = {{1, 2, 3}, {4, 5, 6}}, y[2][3];
 *     int64_t shape[2] = {2, 3};
 *     sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 2, .dtype = SF_F32, .shape = shape};
 *     sf_tensor ty = tx;
 *     ty.data = y;
 *     if (sf_scan(NULL, &tx, &ty, NULL) != SF_OK)
 *             puts(sf_last_error(NULL));
 *     // y is {{1, 3, 6}, {4, 9, 15}}
 *
 * Ownership: the library borrows every pointer for the length of a call and keeps none of them.
 * Threads:   every function may be called from any thread, on one shared context or on several. Calls that
 *            write overlapping memory at the same time are the caller's race, as anywhere.
 * Failure:   a function that can fail returns an sf_status. Arguments are checked before anything is written:
 *            after SF_INVALID_ARGUMENT or SF_UNSUPPORTED the output is untouched. sf_last_error gives a
 *            sentence that names the argument, what was given, and what would be right. Nothing aborts.
 * Not promised: the sign and payload of a NaN. Where a NaN stands is promised, its bits are the hardware's.
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

/* ------------------------------------------------------------------------------------------------------------
 * Tensors
 *
 * sf_tensor has the layout of DLPack's DLTensor, field for field. If <dlpack/dlpack.h> is included before this
 * header, sf_tensor *is* DLTensor and a `DLTensor *` passes straight in; otherwise a cast does.
 *
 *   data         the allocation; the first element is at (char *)data + byte_offset. May be NULL when the tensor
 *                has no elements.
 *   device       where data lives. SF_CPU memory is read and written by the calling process.
 *   ndim         0 to SF_MAX_NDIM. Rank 0 is one element.
 *   dtype        one of the SF_F32-like constants below. lanes must be 1.
 *   shape        ndim lengths, each >= 0. May be NULL when ndim is 0.
 *   strides      ndim strides in *elements*, or NULL for compact row-major. Inputs may have any strides, negative
 *                and zero included. An output may have any strides that do not make two of its elements share memory.
 *   byte_offset  added to data.
 * ---------------------------------------------------------------------------------------------------------- */
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
#define SF_CUDA_HOST SF_DEVICE_TYPE(3) /* pinned host memory: treated as SF_CPU */

/* dtypes, as initialisers and (in C and C++11 alike) as values. Codes are DLPack's. */
#if defined(__cplusplus)
#  define SF_DTYPE(code, bits) (sf_dtype{code, bits, 1})
#else
#  define SF_DTYPE(code, bits) ((sf_dtype){code, bits, 1})
#endif
#define SF_F16 SF_DTYPE(2, 16)
#define SF_BF16 SF_DTYPE(4, 16)
#define SF_F32 SF_DTYPE(2, 32)
#define SF_F64 SF_DTYPE(2, 64)
#define SF_I8 SF_DTYPE(0, 8)
#define SF_I16 SF_DTYPE(0, 16)
#define SF_I32 SF_DTYPE(0, 32)
#define SF_I64 SF_DTYPE(0, 64)
#define SF_U8 SF_DTYPE(1, 8)
#define SF_U16 SF_DTYPE(1, 16)
#define SF_U32 SF_DTYPE(1, 32)
#define SF_U64 SF_DTYPE(1, 64)
#define SF_BOOL SF_DTYPE(6, 8)

/* ------------------------------------------------------------------------------------------------------------
 * Status
 * ---------------------------------------------------------------------------------------------------------- */
typedef enum sf_status {
        SF_OK = 0,
        SF_INVALID_ARGUMENT = 1, /* the call can never work: a wrong shape, axis, stride, overlap, ... */
        SF_UNSUPPORTED = 2,      /* well-formed, but not something this build does: a dtype pair, a device */
        SF_OUT_OF_MEMORY = 3,    /* host or device memory for scratch could not be had */
        SF_NO_DEVICE = 4,        /* the device, its driver or its compiler is not there */
        SF_DEVICE_ERROR = 5,     /* the device reported an error */
        SF_STATUS_MAX = 0x7fffffff
} sf_status;

/* "SF_OK" and so on; "unknown status" for a number that is none. Never NULL. */
SF_API const char *sf_status_name(sf_status status);

/* SF_VERSION of the library that is running, and the same as "0.1.0". */
SF_API int32_t sf_version(void);
SF_API const char *sf_version_string(void);

/* ------------------------------------------------------------------------------------------------------------
 * Contexts
 *
 * A context holds a thread count, the chosen instruction set, and reusable scratch memory, so that a warm call
 * allocates nothing. It may be shared by any number of threads. Wherever a function takes a context, NULL means
 * the process's default context, which is made on first use and never destroyed.
 *
 * Environment, read when a context is created:
 *   SCANFOLD_NUM_THREADS  threads a call may use; else OMP_NUM_THREADS; else the CPUs this process may run on
 *   SCANFOLD_ISA          portable, avx2, avx512 or neon: force that instruction set (an error if it cannot run)
 *   SCANFOLD_BACKEND      ref: compute with the reference instead (slow; the bits are the same)
 * and, for CUDA, when it is first used:
 *   SCANFOLD_LIBCUDA, SCANFOLD_NVRTC   the driver's library and CUDA's run-time compiler, instead of looking for them
 *   SCANFOLD_CACHE_DIR                 where compiled kernels are kept; set to nothing: nowhere
 *   SCANFOLD_CACHE_MB                  how much of them, 256
 * A field of sf_context_options that is set wins over the environment.
 *
 * Threads and fork: parallel work runs on OpenMP's threads; small work runs on the caller and wakes nobody. A child
 * of fork() may go on using the library, and its contexts, even if the parent had threads running.
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct sf_context sf_context;

typedef enum sf_backend {
        SF_BACKEND_AUTO = 0, /* by the tensors' device */
        SF_BACKEND_REF = 1,  /* the order, written as two recursive functions; CPU memory only */
        SF_BACKEND_MAX = 0x7fffffff
} sf_backend;

typedef struct sf_context_options {
        size_t size;        /* sizeof(sf_context_options) */
        int32_t threads;    /* 0: from the environment */
        sf_backend backend; /* SF_BACKEND_AUTO: from the environment, else by device */
        const char *isa;    /* NULL: from the environment, else the best this CPU has */
} sf_context_options;

#define SF_CONTEXT_OPTIONS_INIT { sizeof(sf_context_options), 0, SF_BACKEND_AUTO, NULL }

/* *ctx is set on SF_OK only. options may be NULL. After a failure sf_last_error(NULL) has the sentence. */
SF_API sf_status sf_context_create(sf_context **ctx, const sf_context_options *options);

/* No call may be running on ctx. NULL is ignored. */
SF_API void sf_context_destroy(sf_context *ctx);

/*
 * The sentence for the calling thread's latest failed call on ctx, or "" if there was none. It stays valid until
 * this thread's next failing call on any context. Never NULL.
 */
SF_API const char *sf_last_error(const sf_context *ctx);

/* What ctx decided: how many threads a large call uses, and the name of its instruction set ("ref" for the reference). */
SF_API int32_t sf_context_threads(const sf_context *ctx);
SF_API const char *sf_context_isa(const sf_context *ctx);

/*
 * The instruction sets this build has, best last: the name of number `index`, or NULL past the end. *usable, if not
 * NULL, is set to 1 where this CPU can run it, else 0.
 */
SF_API const char *sf_isa_name(int32_t index, int32_t *usable);

/* ------------------------------------------------------------------------------------------------------------
 * Operations and dtypes
 *
 *   SF_SUM   a + b. On bool to bool: or.        SF_MAX   the larger; NaN wins; -0.0 is below +0.0.
 *   SF_PROD  a * b. On bool to bool: and.       SF_MIN   the smaller; NaN wins; -0.0 is below +0.0.
 *
 * The output's dtype decides the accumulator, the type in which every combination is rounded:
 *
 *   x                   out                          accumulator     each element of x is
 *   f16 bf16 f32        f16 bf16 f32                 f32             widened to f32; results rounded once to out
 *   f16 bf16 f32 f64    f64                          f64             widened to f64
 *   f64                 f16 bf16 f32                 f64             as it is; results rounded once to out
 *   any integer, bool   any integer                  out's own       cast to out, modulo 2^bits (sum and prod);
 *                                                                    max and min need an out that holds every value of x
 *   bool                bool                         bool
 *   any integer, bool   f32 f64                      out's own       rounded to out
 *
 * `accumulator` in the options asks for another one: f64 where the table says f32, or an integer type no narrower than
 * out's for integers. (For integers, and for max and min, it changes no bit.) Every other pair is refused with SF_UNSUPPORTED.
 * ---------------------------------------------------------------------------------------------------------- */
typedef enum sf_op { SF_SUM = 0, SF_PROD = 1, SF_MAX = 2, SF_MIN = 3, SF_OP_MAX = 0x7fffffff } sf_op;

/* "sum" and so on, or NULL for a number that is no operation. */
SF_API const char *sf_op_name(sf_op op);

/* A number passed by value. All zero bytes is "none". */
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

/* ------------------------------------------------------------------------------------------------------------
 * Scan
 *
 * For every line of x along `axis` (n elements, taken from the end when `reverse` is set), with `+` the operation:
 *
 *     a[i]  =  mask && !mask[i] ? identity : (accumulator)x[i]
 *     s[i]  =  a[0] + a[1] + ... + a[i]                      in the order of docs/order.md
 *     s[i]  =  exclusive ? (i ? s[i-1] : identity) : s[i]
 *     y[i]  =  (out's dtype)(initial ? initial + s[i] : s[i])
 *
 * identity is +0.0 for sum, 1 for prod, the lowest value (-inf) for max, the highest (+inf) for min.
 *
 * out has x's shape. It may be the very same view as x (same data, offset, shape and strides, and a dtype of the
 * same size), and the scan is then done in place; any other overlap with x or mask is refused.
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct sf_scan_options {
        size_t size;           /* sizeof(sf_scan_options) */
        sf_op op;              /* SF_SUM */
        int32_t axis;          /* -ndim to ndim-1, negative counting from the end; 0 and -1 name the one line of a rank-0 x */
        int32_t reverse;       /* nonzero: from the last element to the first */
        int32_t exclusive;     /* nonzero: each result leaves its own element out */
        const sf_tensor *mask; /* NULL, or bool or uint8, broadcastable to x, on x's device; nonzero keeps the element */
        sf_scalar initial;     /* combined on the left of every result. Rounded to a real accumulator; for an integer
                                  accumulator it must be an integer in its range */
        sf_dtype accumulator;  /* all zero: as the table says */
        void *stream;          /* a CUstream of the device's primary context, 0x1 (legacy) or 0x2 (per-thread); NULL is the legacy
                                  default one. A call on a stream being captured is captured, and its scratch belongs to the graph:
                                  two instances of one graph must not run at once. Ignored on the CPU */
        void *workspace;       /* NULL, or device memory for scratch, 256-byte aligned, used instead of the library's own */
        size_t workspace_size; /* at least what sf_scan_workspace said for the same arguments */
} sf_scan_options;

#ifdef __cplusplus
#  define SF_SCAN_OPTIONS_INIT { sizeof(sf_scan_options), SF_SUM, -1, 0, 0, NULL, {}, {}, NULL, NULL, 0 }
#else
#  define SF_SCAN_OPTIONS_INIT { .size = sizeof(sf_scan_options), .axis = -1 }
#endif

/* options may be NULL: an inclusive sum along the last axis. */
SF_API sf_status sf_scan(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_scan_options *options);

/* ------------------------------------------------------------------------------------------------------------
 * Fold
 *
 * For every position of the axes that stay, with a[0..n) the elements along the folded axes as one sequence, in
 * row-major order of those axes as they stand in x:
 *
 *     y  =  (out's dtype)(initial ? initial + (a[0] + ... + a[n-1]) : (a[0] + ... + a[n-1]))
 *
 * which is the last element of the scan, bit for bit. With n = 0 the sum in brackets is the identity; max and min of
 * nothing are refused unless there is an initial value.
 *
 * out has x's shape with the folded axes removed, or, with keepdim, of length 1. It must not overlap x or mask.
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct sf_fold_options {
        size_t size;           /* sizeof(sf_fold_options) */
        sf_op op;              /* SF_SUM */
        int32_t naxes;         /* how many axes; ignored when axes is NULL */
        const int32_t *axes;   /* which, in any order, negative counting from the end, none twice; NULL folds all */
        int32_t keepdim;       /* nonzero: out keeps the folded axes with length 1 */
        int32_t reverse;       /* nonzero: the sequence is taken from its end */
        const sf_tensor *mask; /* the rest as for the scan */
        sf_scalar initial;
        sf_dtype accumulator;
        void *stream;
        void *workspace;
        size_t workspace_size;
} sf_fold_options;

#ifdef __cplusplus
#  define SF_FOLD_OPTIONS_INIT { sizeof(sf_fold_options), SF_SUM, 0, NULL, 0, 0, NULL, {}, {}, NULL, NULL, 0 }
#else
#  define SF_FOLD_OPTIONS_INIT { .size = sizeof(sf_fold_options) }
#endif

/* options may be NULL: the sum of all elements into a rank-0 out. */
SF_API sf_status sf_fold(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_fold_options *options);

/*
 * The shape an out for this fold must have: *ndim and shape[0..*ndim) are set on SF_OK. shape has room for x->ndim
 * lengths. Looks at naxes, axes and keepdim only.
 */
SF_API sf_status sf_fold_shape(sf_context *ctx, const sf_tensor *x, const sf_fold_options *options, int32_t *ndim,
                               int64_t *shape);

/*
 * The scratch a call with these arguments needs on its device, for a caller who gives a workspace: *size is set on SF_OK; 0 for most
 * calls, and always on the CPU. The tensors' data is not looked at.
 */
SF_API sf_status sf_scan_workspace(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_scan_options *options, size_t *size);
SF_API sf_status sf_fold_workspace(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_fold_options *options, size_t *size);

/* ------------------------------------------------------------------------------------------------------------
 * Devices
 *
 * CUDA's driver and its run-time compiler NVRTC are found and loaded when the first tensor on an SF_CUDA device is met; the library
 * itself links neither. SCANFOLD_LIBCUDA and SCANFOLD_NVRTC name the files to load instead of looking for them. Work is launched in
 * the device's primary context, on the stream of the options, and not waited for. The calling thread's current CUDA context
 * is left as it was.
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct sf_device_info {
        size_t size;             /* sizeof(sf_device_info) */
        char name[128];          /* "NVIDIA H200" */
        int32_t capability;      /* 90 for 9.0 */
        int32_t multiprocessors;
        int64_t memory;          /* bytes */
        int32_t driver;          /* the CUDA version of its driver: 13000 for 13.0 */
        int32_t compiler;        /* the CUDA version of NVRTC; 0 where there is none, and compiler_path has the sentence */
        char driver_path[256];   /* the file loaded */
        char compiler_path[256];
} sf_device_info;

#ifdef __cplusplus
#  define SF_DEVICE_INFO_INIT { sizeof(sf_device_info), {}, 0, 0, 0, 0, 0, {}, {} }
#else
#  define SF_DEVICE_INFO_INIT { .size = sizeof(sf_device_info) }
#endif

/* How many devices of a type there are. SF_NO_DEVICE, and a sentence, where the driver is not there; *count is then 0. */
SF_API sf_status sf_device_count(sf_context *ctx, int32_t device_type, int32_t *count);
SF_API sf_status sf_device_describe(sf_context *ctx, sf_device device, sf_device_info *info);

/* ------------------------------------------------------------------------------------------------------------
 * The cache of compiled kernels
 *
 * Kernels are compiled for the device at hand when they are first needed, and kept on disk: in SCANFOLD_CACHE_DIR, else in scanfold
 * under XDG_CACHE_HOME, else in .cache/scanfold under HOME; at most SCANFOLD_CACHE_MB of them (256), the least recently used going
 * first. An entry that is damaged, or was made from another source or by another compiler, is compiled again. With no folder that
 * can be written (or SCANFOLD_CACHE_DIR set to nothing) each process compiles for itself.
 * ---------------------------------------------------------------------------------------------------------- */

/* The folder, or "" if there is none; cut to size. */
SF_API sf_status sf_cache_path(sf_context *ctx, char *path, size_t size);

/*
 * Compiles what common calls need on `device`: sums forward and backward, sums and maxima over an axis, for the usual dtypes and
 * shapes. `progress`, if not NULL, is called after each with what it was and how many of how many are done; nonzero stops it.
 */
SF_API sf_status sf_cache_warm(sf_context *ctx, sf_device device, int (*progress)(void *user, const char *what, int32_t done, int32_t of),
                               void *user);

/* Calls `visit` for every entry, the least recently used first: its file's name, what it is, its size, when it was last used (time_t). */
SF_API sf_status sf_cache_list(sf_context *ctx, void (*visit)(void *user, const char *name, const char *about, int64_t bytes, int64_t used),
                               void *user);

/* Removes every entry. *removed, if not NULL, is set to how many there were. */
SF_API sf_status sf_cache_clear(sf_context *ctx, int64_t *removed);

#ifdef __cplusplus
}
#endif

#endif /* SCANFOLD_H */
