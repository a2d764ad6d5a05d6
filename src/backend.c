#include "backend.h"

#include "cpu/cpu.h"
#include "cuda/cuda.h"
#include "ref/ref.h"

static bool on_host(sf_device device)
{
        return device.device_type == SF_CPU || device.device_type == SF_CUDA_HOST;
}

sf_status sf_backend_check(const sf_context *ctx, const char *name, sf_device device)
{
        if (on_host(device))
                return SF_OK;
        if (device.device_type != SF_CUDA)
                return sf_fail(ctx, SF_NO_DEVICE, "%s is on device type %d, number %d; this library works on CPU (1) and CUDA (2) memory", name,
                               (int)device.device_type, (int)device.device_id);
        if (ctx->backend == SF_BACKEND_REF)
                return sf_fail(ctx, SF_UNSUPPORTED, "%s is on a CUDA device, but the context asks for the reference, which works on CPU memory", name);
        return sf_cuda_check(ctx, name, device);
}

sf_status sf_backend_run(sf_context *ctx, const sf_step *step, void *workspace, size_t workspace_size)
{
        if (!on_host(step->device))
                return workspace ? sf_cuda_run_in(ctx, step, workspace, workspace_size) : sf_cuda_run(ctx, step);
        return ctx->backend == SF_BACKEND_REF ? sf_ref_run(ctx, step) : sf_cpu_run(ctx, step);
}

sf_status sf_backend_workspace(sf_context *ctx, const sf_step *step, size_t *size)
{
        *size = 0;
        return on_host(step->device) ? SF_OK : sf_cuda_workspace(ctx, step, size);
}
