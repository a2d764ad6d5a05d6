/*
 * Devices and the cache, as scanfold.h is to declare them. Kept here until it does; the text below is written to be moved there.
 */
#ifndef SF_CUDA_PUBLIC_H
#define SF_CUDA_PUBLIC_H

#include "scanfold.h"

#ifndef SF_DEVICE_INFO_INIT
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

#define SF_DEVICE_INFO_INIT { .size = sizeof(sf_device_info) }

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
#endif

#endif
