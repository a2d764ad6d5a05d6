/* gpu.h: the driver's functions the GPU tests use themselves: memory, streams, graphs. Loaded like the library loads it: no CUDA to build. */
#ifndef SF_TEST_GPU_H
#define SF_TEST_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t gpu_address;
typedef void *gpu_handle;

typedef struct gpu_table {
        int (*init)(unsigned);
        int (*device_get)(int *, int);
        int (*device_count)(int *);
        int (*retain)(gpu_handle *, int);
        int (*reset)(int);
        int (*set_current)(gpu_handle);
        int (*get_current)(gpu_handle *);
        int (*context_create)(gpu_handle *, unsigned, int);
        int (*context_destroy)(gpu_handle);
        int (*allocate)(gpu_address *, size_t);
        int (*release)(gpu_address);
        int (*memory_info)(size_t *, size_t *);
        int (*put)(gpu_address, const void *, size_t);
        int (*get)(void *, gpu_address, size_t);
        int (*set)(gpu_address, unsigned char, size_t);
        int (*copy_async)(gpu_address, gpu_address, size_t, gpu_handle);
        int (*synchronize)(void);
        int (*stream_create)(gpu_handle *, unsigned);
        int (*stream_destroy)(gpu_handle);
        int (*stream_synchronize)(gpu_handle);
        int (*capture_begin)(gpu_handle, int);
        int (*capture_end)(gpu_handle, gpu_handle *);
        int (*instantiate)(gpu_handle *, gpu_handle, unsigned long long);
        int (*graph_launch)(gpu_handle, gpu_handle);
        int (*exec_destroy)(gpu_handle);
        int (*graph_destroy)(gpu_handle);
        int (*module_load)(gpu_handle *, const void *);
        int (*module_function)(gpu_handle *, gpu_handle, const char *);
        int (*launch)(gpu_handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, gpu_handle, void **, void **);
} gpu_table;

extern gpu_table gpu;

/* Loads the driver and makes device 0's primary context current; false, with words on stderr, if there is none. */
bool gpu_open(void);

/* Calls of the driver that a test cannot go on without. */
#define GPU(call) gpu_must((call), #call, __FILE__, __LINE__)
void gpu_must(int code, const char *what, const char *file, int line);

/* ------------------------------------------------------------------------------------------------------------
 * Times
 * ---------------------------------------------------------------------------------------------------------- */

/* Work put on a stream. */
typedef void gpu_work(void *user, gpu_handle stream);

/* A device copy of `bytes` in all, read and written, between two pieces of memory; a gpu_work. */
typedef struct gpu_copy {
        gpu_address to, from;
        size_t bytes;
} gpu_copy;
gpu_work gpu_copy_work;

/*
 * Seconds that each of `count` pieces of work takes, the median of rounds in which all have a turn, so that what the machine does meanwhile
 * meets all alike. Each turn is `times` runs: captured, and replayed as one graph; or called, where the work may not be captured.
 */
#define GPU_TIMED_MAX 8
void gpu_time(int count, gpu_work *const *work, void *const *user, int times, double *took);
void gpu_time_calls(int count, gpu_work *const *work, void *const *user, int times, double *took);

#endif
