/*
 * driver.h: libcuda, found and loaded at run time; nothing is linked, and no CUDA header is
 * included.
 *
 * Where a library is looked for (driver_find.c); the first that works is used:
 *   1. the file that SCANFOLD_LIBCUDA or SCANFOLD_NVRTC names; then no other is tried;
 *   2. one that is already loaded, as in a process that has imported torch;
 *   3. the loader's own search, by soname: libcuda.so.1; libnvrtc.so.13, .12, .11.2, first those of
 *      the driver's own major version and below;
 * and then, NVRTC only:
 *   4. lib64, lib and targets/x/lib under CUDA_HOME, CUDA_PATH, and /usr/local/cuda;
 *   5. nvidia/x/lib and torch/lib in the site-packages of the running Python: those that files
 *      mapped into the process come from, those beside the running interpreter, and those of
 *      VIRTUAL_ENV and CONDA_PREFIX.
 * libcuda is looked for in the folders of WSL and of containers instead.
 */
#ifndef SF_CUDA_DRIVER_H
#define SF_CUDA_DRIVER_H

#include "core/core.h"

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_address; /* of device memory */
typedef struct cu_context_handle *cu_context;
typedef struct cu_module_handle *cu_module;
typedef struct cu_function_handle *cu_function;
typedef struct cu_stream_handle *cu_stream;
typedef struct cu_event_handle *cu_event;
typedef struct cu_graph_handle *cu_graph;
typedef struct cu_object_handle *cu_object;

/* How a kernel is launched, as the driver lays it out. */
typedef struct cu_launch_attribute {
        int id, unused;
        int value, rest[15];
} cu_launch_attribute;

typedef struct cu_launch {
        unsigned grid[3], block[3], shared;
        cu_stream stream;
        const cu_launch_attribute *attributes;
        unsigned count;
} cu_launch;

/* Result codes that we handle; driver.c maps every code to a status. */
enum {
        CU_OK = 0,
        CU_OUT_OF_MEMORY = 2,
        CU_NOT_INITIALIZED = 3,
        CU_DEINITIALIZED = 4,
        CU_INVALID_IMAGE = 200,
        CU_INVALID_CONTEXT = 201,
        CU_NO_BINARY = 209,
        CU_INVALID_PTX = 218,
        CU_UNSUPPORTED_PTX = 222,
        CU_INVALID_HANDLE = 400,
        CU_CONTEXT_DESTROYED = 709,
        CU_CAPTURE_IMPLICIT = 906
};

/* Attributes of devices, functions and pointers, and some of their values. */
enum {
        CU_DEVICE_MULTIPROCESSORS = 16,
        CU_DEVICE_L2 = 38,
        CU_DEVICE_THREADS_PER_MULTIPROCESSOR = 39,
        CU_DEVICE_MAJOR = 75,
        CU_DEVICE_MINOR = 76,
        CU_DEVICE_SHARED_PER_MULTIPROCESSOR = 81,
        CU_DEVICE_READS_HOST_MEMORY = 88, /* pageable memory, without registration */
        CU_DEVICE_SHARED_PER_BLOCK = 97,  /* the opt-in limit */
        CU_DEVICE_HAS_POOLS = 115,
        CU_FUNCTION_STATIC_SHARED = 1,
        CU_FUNCTION_DYNAMIC_SHARED = 8,
        CU_FUNCTION_WIDE_CLUSTERS = 14,
        CU_POINTER_MEMORY_TYPE = 2,
        CU_POINTER_MANAGED = 8,
        CU_POINTER_DEVICE = 9,
        CU_MEMORY_HOST = 1,
        CU_MEMORY_DEVICE = 2,
        CU_MODULE_ERROR_LOG = 5,
        CU_MODULE_ERROR_LOG_SIZE = 6,
        CU_CAPTURE_ACTIVE = 1,
        CU_CAPTURE_RELAXED = 2,
        CU_LAUNCH_OVERLAP = 6, /* "programmatic stream serialization" */
        CU_OBJECT_NO_SYNC = 1,
        CU_STREAM_NON_BLOCKING = 1,
        CU_EVENT_NO_TIMING = 2,
        CU_HOST_PORTABLE_MAPPED = 3,
        CU_GRAPH_MOVE = 1
};

typedef struct sf_driver {
#define DRIVER(member, symbol, arguments) cu_result(*member) arguments;
#define OPTIONAL DRIVER
#include "cuda/driver.def"
        int version; /* of CUDA, 13000 for 13.0 */
        int devices;
        char path[256]; /* the file it came from */
} sf_driver;

/*
 * The driver, loaded and initialised on first use. After a failure, the next call tries again,
 * because a library may have been installed. Cheap once loaded. In the child of a process that had
 * initialised it, this always fails.
 */
sf_status sf_driver_get(const sf_context *ctx, const sf_driver **driver);

/* Sets the status for `code`, and a sentence: what was being done, on which device (-1: none), and
 * what the driver says. */
sf_status sf_driver_fail(const sf_context *ctx, const sf_driver *driver, cu_result code, int device, const char *doing) SF_COLD;

/* After such an error, the context cannot be used any more in this process. */
bool sf_driver_sticky(cu_result code);

/* True in a child that was forked after its parent had initialised the driver: CUDA does not work
 * there. */
bool sf_driver_forked(void);

/* Runs `reset` in the child of a fork, for locks that another thread may have held. At most 4 such
 * functions. */
void sf_driver_at_fork(void (*reset)(void));

/* ------------------------------------------------------------------------------------------------
 * driver_find.c
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_library {
        const char *stem;           /* "libnvrtc.so" */
        /* the endings after the stem, in the order to try: ".13", ".12", ..., NULL */
        const char *const *sonames;
        const char *variable;       /* the environment variable that overrides */
        const char *probe;          /* a symbol it must have */
        bool toolkit;               /* look in CUDA toolkits and site-packages too */
} sf_library;

/* Returns a handle for dlsym, or NULL. `tried` gets what was tried or, if the variable is set, the
 * loader's message. */
void *sf_library_find(const sf_library *library, char *tried, size_t size);

#endif
