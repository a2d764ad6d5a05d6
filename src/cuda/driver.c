/* libcuda: loaded once, with its functions in a table, and its result codes turned into statuses
 * and sentences. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The oldest driver whose functions and behaviour we rely on: CUDA 11.8's. */
#define OLDEST_VERSION 11080

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sf_driver table;
static _Atomic(const sf_driver *) ready;
/* cuInit was called in this process or in its parent before the fork */
static atomic_bool initialised;
static atomic_bool forked;

/* ------------------------------------------------------------------------------------------------
 * fork: the child has one thread, so a lock that another thread held is never released; and CUDA's
 * own state cannot be used there.
 * ---------------------------------------------------------------------------------------------- */
static void (*resets[4])(void);
static int nresets;

static void in_child(void)
{
        pthread_mutex_init(&lock, NULL);
        if (initialised)
                forked = true;
        for (int i = 0; i < nresets; i++)
                resets[i]();
}

static void start(void)
{
        pthread_atfork(NULL, NULL, in_child);
}

void sf_driver_at_fork(void (*reset)(void))
{
        pthread_mutex_lock(&lock);
        bool known = nresets == sizeof resets / sizeof *resets;
        for (int i = 0; i < nresets; i++)
                known |= resets[i] == reset;
        if (!known)
                resets[nresets++] = reset;
        pthread_mutex_unlock(&lock);
}

bool sf_driver_forked(void)
{
        return forked;
}

/* ------------------------------------------------------------------------------------------------
 * Result codes
 * ---------------------------------------------------------------------------------------------- */
bool sf_driver_sticky(cu_result code)
{
        switch (code) {
        case 214: /* ECC_UNCORRECTABLE */
        case 220: /* NVLINK_UNCORRECTABLE */
        case 226: /* CONTAINED */
        case 700: /* ILLEGAL_ADDRESS */
        case 702: /* LAUNCH_TIMEOUT */
        case 710: /* ASSERT */
        case 714: /* HARDWARE_STACK_ERROR */
        case 715: /* ILLEGAL_INSTRUCTION */
        case 716: /* MISALIGNED_ADDRESS */
        case 717: /* INVALID_ADDRESS_SPACE */
        case 718: /* INVALID_PC */
        case 719: /* LAUNCH_FAILED */
                return true;
        default: return false;
        }
}

static sf_status status_of(cu_result code)
{
        switch (code) {
        case CU_OUT_OF_MEMORY: return SF_OUT_OF_MEMORY;
        case CU_NOT_INITIALIZED:
        case CU_DEINITIALIZED:
        case 34:  /* STUB_LIBRARY */
        case 36:  /* CALL_REQUIRES_NEWER_DRIVER */
        case 46:  /* DEVICE_UNAVAILABLE */
        case 100: /* NO_DEVICE */
        case 101: /* INVALID_DEVICE */
        case 802: /* SYSTEM_NOT_READY */
        case 803: /* SYSTEM_DRIVER_MISMATCH */
        case 804: /* COMPAT_NOT_SUPPORTED_ON_DEVICE */
                return SF_NO_DEVICE;
        default: return SF_DEVICE_ERROR;
        }
}

/* What the user can do about it; "" if there is nothing to add. */
static const char *advice(cu_result code)
{
        if (sf_driver_sticky(code))
                return "; it comes from work launched earlier, and this process cannot use the device any more: CPU "
                       "tensors still work, the "
                       "device needs a new process";
        switch (code) {
        case CU_OUT_OF_MEMORY: return "; free some of the device's memory, or give a workspace";
        case CU_NOT_INITIALIZED: return "; a process forked from one that used CUDA cannot use it: start it by "
                                        "spawning";
        case CU_INVALID_HANDLE:
                return "; the stream must be a live one of this device's primary context, or NULL";
        case CU_INVALID_CONTEXT:
        case CU_CONTEXT_DESTROYED: return "; the device was reset: the next call starts on it anew";
        case CU_INVALID_IMAGE:
        case CU_NO_BINARY:
        case CU_INVALID_PTX:
        case CU_UNSUPPORTED_PTX:
                return "; the compiler may be newer than the driver: SCANFOLD_NVRTC can name an NVRTC of the "
                       "driver's own CUDA version";
        case CU_CAPTURE_IMPLICIT: return "; another stream is being captured, and the default stream would join it: "
                                         "give the stream being captured";
        default: return "";
        }
}

sf_status sf_driver_fail(const sf_context *ctx, const sf_driver *driver, cu_result code, int device, const char *doing)
{
        const char *name = NULL, *text = NULL;
        char where[32] = "";
        driver->error_name(code, &name);
        driver->error_text(code, &text);
        if (device >= 0)
                snprintf(where, sizeof where, " on CUDA device %d", device);
        return sf_fail(ctx, status_of(code), "%s%s failed: CUDA error %d, %s (%s)%s", doing, where, code, name ? name : "unknown",
                       text ? text : "no description", advice(code));
}

/* ------------------------------------------------------------------------------------------------
 * Loading
 * ---------------------------------------------------------------------------------------------- */
static sf_status load(const sf_context *ctx)
{
        static const char *const sonames[] = {".1", "", NULL};
        static const sf_library libcuda = {"libcuda.so", sonames, "SCANFOLD_LIBCUDA", "cuInit", false};
        static void *handle; /* kept if a later part failed, so that it is not searched for again */
        char tried[1024];
        cu_result code;
        const char *missing = NULL;

        if (!handle)
                handle = sf_library_find(&libcuda, tried, sizeof tried);
        if (!handle)
                return sf_fail(ctx, SF_NO_DEVICE, "the CUDA driver's library was not found (%s); install the NVIDIA "
                                                  "driver, or name its libcuda.so.1 in "
                                                  "SCANFOLD_LIBCUDA", tried);
#define DRIVER(member, symbol, arguments)                                                                                \
        if (!(*(void **)&table.member = dlsym(handle, #symbol)) && !missing)                                             \
                missing = #symbol;
#define OPTIONAL(member, symbol, arguments) *(void **)&table.member = dlsym(handle, #symbol);
#include "cuda/driver.def"
        Dl_info info;
        if (dladdr(*(void **)&table.init, &info) && info.dli_fname)
                snprintf(table.path, sizeof table.path, "%s", info.dli_fname);
        if (table.driver_version && table.driver_version(&table.version) == CU_OK && table.version < OLDEST_VERSION)
                return sf_fail(ctx, SF_NO_DEVICE, "the CUDA driver (%s) is for CUDA %d.%d; it must be for 11.8 or "
                                                  "newer", table.path,
                               table.version / 1000, table.version % 1000 / 10);
        if (missing)
                return sf_fail(ctx, SF_NO_DEVICE, "%s has no function %s; a CUDA driver for 11.8 or newer has", table.path, missing);
        initialised = true; /* set before the call, so that a fork during it counts */
        code = table.init(0);
        initialised = code == CU_OK;
        if (code != CU_OK || (code = table.device_count(&table.devices)) != CU_OK)
                return sf_driver_fail(ctx, &table, code, -1, "initialising the CUDA driver");
        atomic_store_explicit(&ready, &table, memory_order_release);
        return SF_OK;
}

sf_status sf_driver_get(const sf_context *ctx, const sf_driver **driver)
{
        if (forked)
                return sf_fail(ctx, SF_NO_DEVICE, "this process was forked from one that had used CUDA, which does "
                                                  "not survive a fork; start processes "
                                                  "that use a GPU by spawning them, or fork before the first use of "
                                                  "it");
        if (!(*driver = atomic_load_explicit(&ready, memory_order_acquire))) {
                pthread_once(&once, start);
                pthread_mutex_lock(&lock);
                sf_status status = ready ? SF_OK : load(ctx);
                pthread_mutex_unlock(&lock);
                SF_TRY(status);
                *driver = ready;
        }
        return SF_OK;
}
