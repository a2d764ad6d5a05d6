/* The public functions about devices and the cache of compiled kernels. */
#include "scanfold.h"

#include "context.h"
#include "core/choose.h"
#include "cuda/cache.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_warm.h"

#include <stdio.h>
#include <string.h>

sf_status sf_device_count(sf_context *given, int32_t device_type, int32_t *count)
{
        sf_context *ctx;
        const sf_driver *driver;
        SF_TRY(sf_context_resolve(given, &ctx));
        if (!count)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "count is NULL; it must point to where the number is to go");
        *count = device_type == SF_CPU;
        if (device_type == SF_CPU)
                return SF_OK;
        if (device_type != SF_CUDA)
                return sf_fail(ctx, SF_UNSUPPORTED, "device_type is %d; it must be SF_CPU (%d) or SF_CUDA (%d)", (int)device_type, (int)SF_CPU,
                               (int)SF_CUDA);
        SF_TRY(sf_driver_get(ctx, &driver));
        *count = driver->devices;
        return SF_OK;
}

static sf_status check_cuda(const sf_context *ctx, sf_device device)
{
        if (device.device_type != SF_CUDA)
                return sf_fail(ctx, SF_UNSUPPORTED, "device has type %d; it must be SF_CUDA (%d)", (int)device.device_type, (int)SF_CUDA);
        return SF_OK;
}

/* As with options, a struct from an older header is shorter, and one from a newer header longer. */
static sf_status describe(sf_context *ctx, sf_device device, sf_device_info *info)
{
        const sf_driver *driver;
        const sf_compiler *compiler;
        cu_device number;
        size_t memory = 0;
        int major = 0, minor = 0;
        cu_result code;
        SF_TRY(check_cuda(ctx, device));
        SF_TRY(sf_driver_get(ctx, &driver));
        if (device.device_id < 0 || device.device_id >= driver->devices)
                return sf_fail(ctx, SF_NO_DEVICE, "there is no CUDA device %d; this process sees %d, numbered from 0", (int)device.device_id,
                               driver->devices);
        /* This asks the driver itself, not sf_cuda_device_get, because listing devices must not
         * open a context. */
        if ((code = driver->device_get(&number, device.device_id)) != CU_OK ||
            (code = driver->device_name(info->name, sizeof info->name, number)) != CU_OK ||
            (code = driver->device_memory(&memory, number)) != CU_OK ||
            (code = driver->device_attribute(&major, CU_DEVICE_MAJOR, number)) != CU_OK ||
            (code = driver->device_attribute(&minor, CU_DEVICE_MINOR, number)) != CU_OK ||
            (code = driver->device_attribute(&info->multiprocessors, CU_DEVICE_MULTIPROCESSORS, number)) != CU_OK)
                return sf_driver_fail(ctx, driver, code, device.device_id, "asking what it is");
        info->capability = major * 10 + minor;
        info->memory = (int64_t)memory;
        info->driver = driver->version;
        snprintf(info->driver_path, sizeof info->driver_path, "%s", driver->path);
        if (sf_jit_compiler(ctx, driver->version / 1000, &compiler) == SF_OK) {
                info->compiler = compiler->major * 1000 + compiler->minor * 10;
                snprintf(info->compiler_path, sizeof info->compiler_path, "%s", compiler->path);
        } else {
                snprintf(info->compiler_path, sizeof info->compiler_path, "%s", sf_last_error(ctx));
        }
        return SF_OK;
}

sf_status sf_device_describe(sf_context *given, sf_device device, sf_device_info *info)
{
        sf_context *ctx;
        sf_device_info found = {.size = 0};
        SF_TRY(sf_context_resolve(given, &ctx));
        if (!info || info->size < sizeof info->size || info->size > SF_MOST_OPTIONS)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "info is %s; it must be initialised with SF_DEVICE_INFO_INIT", info ? "of another size" : "NULL");
        SF_TRY(describe(ctx, device, &found));
        found.size = info->size;
        memset(info, 0, info->size);
        memcpy(info, &found, found.size < sizeof found ? found.size : sizeof found);
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------
 * The cache
 * ---------------------------------------------------------------------------------------------- */
sf_status sf_cache_path(sf_context *given, char *path, size_t size)
{
        sf_context *ctx;
        char folder[SF_CACHE_PATH];
        SF_TRY(sf_context_resolve(given, &ctx));
        if (!path || !size)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "path is NULL or has no room; it must have room for the "
                                                         "folder's name");
        sf_cache_folder(folder, false);
        snprintf(path, size, "%s", folder);
        return SF_OK;
}

sf_status sf_cache_warm(sf_context *given, sf_device device, int (*progress)(void *user, const char *what, int32_t done, int32_t of), void *user)
{
        sf_context *ctx;
        sf_cuda_device *d;
        sf_step step;
        char what[96];
        int32_t of = 0;
        bool entered;
        sf_status status = SF_OK;
        SF_TRY(sf_context_resolve(given, &ctx));
        SF_TRY(check_cuda(ctx, device));
        while (sf_cuda_usual_step(of, &step, what))
                of++;
        SF_TRY(sf_cuda_device_enter(ctx, device.device_id, &d, &entered));
        for (int32_t i = 0; i < of && status == SF_OK && sf_cuda_usual_step(i, &step, what); i++) {
                sf_cuda_plan plan;
                cu_function function;
                status = sf_cuda_plan_step(ctx, &step, &d->chip, &plan);
                for (int32_t k = 0; status == SF_OK && k < plan.launches; k++)
                        status = sf_cuda_device_kernel(ctx, d, &plan.launch[k].spec, &function);
                if (status == SF_OK && progress && progress(user, what, i + 1, of))
                        break;
        }
        sf_cuda_device_leave(d, entered);
        return status;
}

sf_status sf_cache_list(sf_context *given, void (*visit)(void *user, const char *name, const char *about, int64_t bytes, int64_t used),
                        void *user)
{
        sf_context *ctx;
        SF_TRY(sf_context_resolve(given, &ctx));
        sf_cache_each(visit, user);
        return SF_OK;
}

sf_status sf_cache_clear(sf_context *given, int64_t *removed)
{
        sf_context *ctx;
        char folder[SF_CACHE_PATH];
        SF_TRY(sf_context_resolve(given, &ctx));
        int64_t count = sf_cache_clear_files();
        sf_cache_folder(folder, false);
        if (count < 0)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "some of the compiled kernels in %s could not be removed; "
                                                         "its owner can", folder);
        if (removed)
                *removed = count;
        return SF_OK;
}
