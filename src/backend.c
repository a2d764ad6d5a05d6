#include "backend.h"

#include "core/arena.h"
#include "core/mode.h"
#include "cpu/cpu.h"
#include "cuda/cuda.h"
#include "ref/ref.h"

#include <stdlib.h>
#include <string.h>

sf_status sf_backend_check(const sf_context *ctx, const char *name, sf_device device)
{
        if (sf_on_host(device))
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
        if (!sf_on_host(step->device))
                return workspace ? sf_cuda_run_in(ctx, step, workspace, workspace_size) : sf_cuda_run(ctx, step);
        const sf_mode mode = sf_mode_enter();
        sf_status status =
                ctx->backend == SF_BACKEND_REF ? sf_ref_run(ctx, step) : sf_cpu_run(ctx, step);
        sf_mode_leave(mode);
        return status;
}

const char *sf_backend_apart(sf_device device, int32_t count, const sf_step *const *steps, const sf_step *other)
{
        return sf_on_host(device) ? NULL : sf_cuda_apart(count, steps, other);
}

bool sf_backend_doubles(sf_device device)
{
        return !sf_on_host(device);
}

const char *sf_backend_follows(sf_device device, const sf_step *chain)
{
        return sf_on_host(device) ? sf_cpu_follows(chain) : sf_cuda_follows(chain);
}

int32_t sf_backend_crosses(sf_device device)
{
        return sf_on_host(device) ? SF_CHAIN_STEPS : SF_CUDA_CROSSES;
}

sf_status sf_backend_workspace(sf_context *ctx, const sf_step *step, size_t *size)
{
        *size = 0;
        return sf_on_host(step->device) ? SF_OK : sf_cuda_workspace(ctx, step, size);
}

bool sf_backend_all_finite(sf_context *ctx, const sf_again *again)
{
        return sf_on_host(again->device) && sf_again_all_finite(ctx, again);
}

sf_status sf_backend_again(sf_context *ctx, const sf_again *again)
{
        return sf_on_host(again->device) ? sf_again_run(ctx, again) : sf_cuda_again(ctx, again);
}

/* ------------------------------------------------------------------------------------------------------------
 * Memory. Arenas are page-aligned; CUDA's allocations are aligned to 256 bytes or more.
 * ---------------------------------------------------------------------------------------------------------- */
sf_status sf_backend_borrow(sf_context *ctx, sf_device device, void *stream, size_t size, sf_memory *memory)
{
        if (!sf_on_host(device))
                return sf_cuda_borrow(ctx, device, stream, size ? size : 1, &memory->data, &memory->owner);
        sf_arena *arena = sf_arena_borrow(ctx, size ? size : 1);
        if (!arena)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory for %zu bytes of scratch", size);
        *memory = (sf_memory){arena->base, arena};
        return SF_OK;
}

void sf_backend_return(sf_context *ctx, sf_device device, void *stream, sf_memory *memory)
{
        if (!sf_on_host(device))
                sf_cuda_return(ctx, device, stream, memory->owner);
        else if (memory->owner)
                sf_arena_return(ctx, memory->owner);
        *memory = (sf_memory){NULL, NULL};
}

sf_status sf_backend_copy(sf_context *ctx, sf_device device, void *stream, void *to, const void *from, size_t size)
{
        if (!sf_on_host(device))
                return sf_cuda_copy(ctx, device, stream, to, from, size);
        memcpy(to, from, size);
        return SF_OK;
}

void sf_backend_share(sf_context *ctx, sf_device device, size_t size, sf_memory *memory)
{
        sf_cuda_share(ctx, device, size, &memory->data, &memory->owner);
}

sf_status sf_backend_send(sf_context *ctx, sf_device device, void *stream, void *to, const sf_memory *memory, size_t size)
{
        return sf_cuda_send(ctx, device, stream, to, memory->data, size);
}

bool sf_backend_write(sf_context *ctx, sf_device device, void *stream, void *to, uint64_t bits, size_t size)
{
        return sf_cuda_write(ctx, device, stream, to, bits, size);
}

void sf_backend_unshare(sf_memory *memory)
{
        sf_cuda_unshare(memory->owner);
        *memory = (sf_memory){NULL, NULL};
}

sf_status sf_backend_wait(sf_context *ctx, sf_device device, void *stream)
{
        return sf_cuda_wait(ctx, device, stream);
}

sf_status sf_backend_check_segments(sf_context *ctx, sf_device device, void *stream, const sf_segments *s, int64_t n)
{
        if (sf_on_host(device))
                return sf_segments_check(ctx, s, n, sf_cpu_rise(ctx, s));
        if (!sf_context_checks(ctx))
                return SF_OK;
        /* bytes by which the last offset precedes the first */
        const int64_t back = s->stride < 0 ? -s->count * s->stride : 0;
        const size_t size = (size_t)(s->count * (s->stride < 0 ? -s->stride : s->stride)) + (s->wide ? 8 : 4);
        char *copy = malloc(size);
        if (!copy)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory for %zu bytes of offsets to be checked", size);
        sf_segments there = *s;
        there.offsets = copy + back;
        sf_status status = sf_cuda_copy(ctx, device, stream, copy, s->offsets - back, size);
        if (status == SF_OK)
                status = sf_segments_check(ctx, &there, n, sf_segments_rise(&there, 0, there.count));
        free(copy);
        return status;
}

sf_status sf_backend_keep(sf_context *ctx, sf_device device, size_t size, sf_memory *memory)
{
        *memory = (sf_memory){NULL, NULL};
        if (!sf_on_host(device))
                return sf_cuda_keep(ctx, device, size ? size : 1, &memory->data, &memory->owner);
        memory->data = size <= SIZE_MAX - 256 ? aligned_alloc(256, size / 256 * 256 + 256) : NULL;
        if (!memory->data)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory for the %zu bytes that are kept", size);
        return SF_OK;
}

void sf_backend_free(sf_context *ctx, sf_device device, sf_memory *memory)
{
        if (!sf_on_host(device))
                sf_cuda_free(ctx, device, memory->owner);
        else
                free(memory->data);
        *memory = (sf_memory){NULL, NULL};
}

int32_t sf_backend_begin(sf_context *ctx, sf_device device, void *stream, const sf_memory *memory,
                         bool writes)
{
        if (sf_on_host(device))
                return 0;
        int32_t place = sf_cuda_begin(ctx, device, stream, memory->owner, writes);
        return place == SF_CUDA_LOST ? SF_MEMORY_LOST : place;
}

void sf_backend_end(sf_context *ctx, sf_device device, void *stream, const sf_memory *memory,
                    int32_t place, bool wrote)
{
        if (!sf_on_host(device))
                sf_cuda_end(ctx, device, stream, memory->owner, place, wrote);
}
