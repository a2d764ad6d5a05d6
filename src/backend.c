#include "backend.h"

#include "cpu/cpu.h"
#include "ref/ref.h"

static bool on_host(sf_device device)
{
        return device.device_type == SF_CPU || device.device_type == SF_CUDA_HOST;
}

sf_status sf_backend_check(const sf_context *ctx, const char *name, sf_device device)
{
        if (on_host(device))
                return SF_OK;
        return sf_fail(ctx, SF_NO_DEVICE, "%s is on device type %d, number %d; this build works on CPU memory (device type 1)", name,
                       (int)device.device_type, (int)device.device_id);
}

sf_status sf_backend_run(sf_context *ctx, const sf_step *step)
{
        return ctx->backend == SF_BACKEND_REF ? sf_ref_run(ctx, step) : sf_cpu_run(ctx, step);
}
