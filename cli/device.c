#include "device.h"

#include "cli.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* What is used of the driver. The names are those that it exports. */
static struct {
        int (*cuInit)(unsigned);
        int (*cuDeviceGet)(int *, int);
        int (*cuDevicePrimaryCtxRetain)(void **, int);
        int (*cuCtxSetCurrent)(void *);
        int (*cuMemAlloc_v2)(uintptr_t *, size_t);
        int (*cuMemFree_v2)(uintptr_t);
        int (*cuMemcpyHtoD_v2)(uintptr_t, const void *, size_t);
        int (*cuMemcpyDtoH_v2)(void *, uintptr_t, size_t);
} driver;

int device_by_name(const char *name, sf_device *device)
{
        int64_t number = 0;
        if (!strcmp(name, "cpu"))
                *device = (sf_device){ SF_CPU, 0 };
        else if (!strcmp(name, "cuda") || (!strncmp(name, "cuda:", 5) && !parse_int(name + 5, 0, 1023, &number)))
                *device = (sf_device){ SF_CUDA, (int32_t)number };
        else
                return -1;
        return 0;
}

static int find(void *library, const char *name, void *function)
{
        void *found = dlsym(library, name);
        memcpy(function, &found, sizeof(found));
        return found ? CLI_DONE : complain("the CUDA driver has no %s", name);
}

static int succeeded(const char *what, int code)
{
        return code ? complain("%s gave the CUDA driver's error %d", what, code) : CLI_DONE;
}

int device_open(sf_context *ctx, sf_device device)
{
        /* The library says best what is missing: a driver, a compiler, the device. */
        sf_device_info info = SF_DEVICE_INFO_INIT;
        if (sf_device_describe(ctx, device, &info))
                return complain("%s", sf_last_error(ctx));
        const char *named = getenv("SCANFOLD_LIBCUDA");
        void *library = dlopen(named && *named ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library)
                return complain("the CUDA driver could not be loaded: %s", dlerror());
#define FIND(name)                                                                                 \
        if (find(library, #name, &driver.name))                                                    \
                return CLI_FAILED;
        FIND(cuInit)
        FIND(cuDeviceGet)
        FIND(cuDevicePrimaryCtxRetain)
        FIND(cuCtxSetCurrent)
        FIND(cuMemAlloc_v2)
        FIND(cuMemFree_v2)
        FIND(cuMemcpyHtoD_v2)
        FIND(cuMemcpyDtoH_v2)
#undef FIND
        int number, code = driver.cuInit(0);
        void *context;
        if (!code)
                code = driver.cuDeviceGet(&number, device.device_id);
        if (!code)
                code = driver.cuDevicePrimaryCtxRetain(&context, number);
        if (!code)
                code = driver.cuCtxSetCurrent(context);
        return succeeded("opening the device", code);
}

int device_allocate(size_t size, void **data)
{
        uintptr_t address = 0;
        const int code = driver.cuMemAlloc_v2(&address, size);
        *data = (void *)address;
        return succeeded("allocating memory", code);
}

void device_free(void *data)
{
        if (data)
                driver.cuMemFree_v2((uintptr_t)data);
}

int device_put(void *there, const void *here, size_t size)
{
        return succeeded("copying to the device", driver.cuMemcpyHtoD_v2((uintptr_t)there, here, size));
}

int device_get(void *here, const void *there, size_t size)
{
        return succeeded("copying from the device", driver.cuMemcpyDtoH_v2(here, (uintptr_t)there, size));
}
