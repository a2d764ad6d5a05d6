/* Runs steps as launches on the caller's stream. */
#include "cuda/cuda.h"

#include "cuda/cuda_device.h"
#include "cuda/emit.h"
#include "cuda/emit_again.h"
#include "cuda/emit_apply.h"

#include <string.h>

sf_status sf_cuda_check(const sf_context *ctx, const char *name, sf_device device)
{
        sf_cuda_device *d;
        const sf_driver *driver;
        (void)name;
        if (device.device_id >= 0 && device.device_id < SF_CUDA_MAX_DEVICES)
                return sf_cuda_device_get(ctx, device.device_id, &d);
        SF_TRY(sf_driver_get(ctx, &driver));
        return sf_fail(ctx, SF_NO_DEVICE, "%s is on CUDA device %d; this process sees %d of them, numbered from 0", name, (int)device.device_id,
                       driver->devices);
}

/* ------------------------------------------------------------------------------------------------
 * Pointers
 * ---------------------------------------------------------------------------------------------- */

/*
 * Pointers that were recently found to be the device's, for each thread: asking the driver costs as
 * much as the rest of a warm call. If an entry is stale, this check only misses that the memory has
 * been freed since.
 */
#define SEEN_BITS 6
static _Thread_local struct {
        const sf_cuda_device *device;
        const void *pointer;
} seen[1 << SEEN_BITS];

static sf_status check_pointer(const sf_context *ctx, sf_cuda_device *d, const char *name,
                               const void *pointer)
{
        size_t slot = (uint64_t)(uintptr_t)pointer * 0x9e3779b97f4a7c15u >> (64 - SEEN_BITS);
        int attributes[] = {CU_POINTER_MEMORY_TYPE, CU_POINTER_DEVICE};
        unsigned type = 0;
        int device = -1;
        void *values[] = {&type, &device};
        if (d->reads_host || (seen[slot].pointer == pointer && seen[slot].device == d))
                return SF_OK;
        cu_result code = d->driver->pointer_attributes(2, attributes, values, (cu_address)(uintptr_t)pointer);
        if (code != CU_OK)
                return sf_cuda_device_fail(ctx, d, code, "looking at a pointer");
        if (type == 0)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is said to be on CUDA device %d, but %p is host "
                                                         "memory; pass device memory, or device type %d",
                               name, d->ordinal, pointer, (int)SF_CPU);
        if (type == CU_MEMORY_DEVICE && device != d->ordinal)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is said to be on CUDA device %d, but %p is memory of "
                                                         "device %d; pass its own device number",
                               name, d->ordinal, pointer, device);
        seen[slot].pointer = pointer;
        seen[slot].device = d;
        return SF_OK;
}

static sf_status check_pointers(const sf_context *ctx, sf_cuda_device *d, const sf_step *step)
{
        uint32_t reads = step->fuse ? sf_cuda_reads(step) : 1;
        if (step->n) {
                if (reads & 1)
                        SF_TRY(check_pointer(ctx, d, "x", step->x));
                if (step->m)
                        SF_TRY(check_pointer(ctx, d, "mask", step->m));
        }
        if (step->segments.offsets)
                SF_TRY(check_pointer(ctx, d, "offsets", step->segments.offsets));
        for (int32_t k = 1; reads >> k; k++)
                /* a fold of nothing may have no data */
                if (reads >> k & 1 && step->fuse->operand[k].data)
                        SF_TRY(check_pointer(ctx, d, "an operand", step->fuse->operand[k].data));
        return step->in_place ? SF_OK : check_pointer(ctx, d, "out", step->y);
}

/* ------------------------------------------------------------------------------------------------
 * Launching
 * ---------------------------------------------------------------------------------------------- */

/* A failed launch: if our handles became invalid because the context was reset, the next call
 * starts again. */
static sf_status launch_failed(const sf_context *ctx, sf_cuda_device *d, cu_stream stream, cu_result code)
{
        unsigned flags;
        bool ours = code == CU_INVALID_CONTEXT || code == CU_CONTEXT_DESTROYED ||
                    (code == CU_INVALID_HANDLE && d->driver->stream_flags(stream, &flags) == CU_OK);
        if (ours)
                code = CU_CONTEXT_DESTROYED;
        return sf_cuda_device_fail(ctx, d, code, "launching a kernel");
}

static sf_status launch(const sf_context *ctx, sf_cuda_device *d, cu_stream stream, sf_cuda_plan *plan, const cu_function *functions,
                        const sf_cuda_scratch *scratch)
{
        static const cu_launch_attribute overlap = {.id = CU_LAUNCH_OVERLAP, .value = 1};
        cu_result code = plan->watched && scratch->fresh ? d->driver->clear_async(scratch->base, 0, scratch->fresh, stream) : CU_OK;
        if (code != CU_OK)
                return launch_failed(ctx, d, stream, code);
        for (int32_t i = 0; i < plan->launches; i++) {
                sf_cuda_launch *l = &plan->launch[i];
                void *arguments[] = {l->params};
                for (int32_t k = 0; k < l->scratch_fields; k++) {
                        cu_address field;
                        memcpy(&field, l->params + 8 * k, 8);
                        field += scratch->base;
                        memcpy(l->params + 8 * k, &field, 8);
                }
                cu_launch how = {.grid = {l->grid[0], l->grid[1], l->grid[2]}, .block = {(unsigned)l->spec.threads, 1, 1}, .shared = l->shared,
                                 .stream = stream, .attributes = &overlap, .count = d->overlaps && l->overlaps};
                code = d->driver->launch(&how, functions[i], arguments, NULL);
                if (code != CU_OK)
                        return launch_failed(ctx, d, stream, code);
        }
        return SF_OK;
}

/* The plan's scratch memory: from the caller's workspace, if there is one. */
static sf_status take_scratch(const sf_context *ctx, sf_cuda_device *d, cu_stream stream, const sf_cuda_plan *plan, void *workspace, size_t size,
                              sf_cuda_scratch *scratch)
{
        if (!plan->scratch)
                return SF_OK;
        if (!workspace)
                return sf_cuda_scratch_take(ctx, d, stream, plan->scratch, plan->watched, scratch);
        if (size < plan->scratch || (uintptr_t)workspace % 256)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "workspace is %zu bytes at %p; it must be at least "
                                                         "%zu, 256-byte aligned", size, workspace,
                               plan->scratch);
        SF_TRY(check_pointer(ctx, d, "workspace", workspace));
        scratch->base = (cu_address)(uintptr_t)workspace;
        scratch->fresh = plan->scratch;
        return SF_OK;
}

/* Runs the step and those of its siblings that share its read; *next becomes the first that does
 * not. */
static sf_status run_entered(const sf_context *ctx, sf_cuda_device *d, const sf_step **next, void *workspace, size_t size)
{
        sf_cuda_plan plan;
        cu_function functions[SF_CUDA_MAX_LAUNCHES];
        cu_stream stream = (*next)->stream;
        sf_cuda_scratch scratch = {0};

        SF_TRY(sf_cuda_plan_step(ctx, *next, &d->chip, &plan));
        for (int32_t i = 0; i < plan.steps; i++, *next = (*next)->sibling)
                SF_TRY(check_pointers(ctx, d, *next));
        for (int32_t i = 0; i < plan.launches; i++)
                SF_TRY(sf_cuda_device_kernel(ctx, d, &plan.launch[i].spec, &functions[i]));
        SF_TRY(take_scratch(ctx, d, stream, &plan, workspace, size, &scratch));
        sf_status status = launch(ctx, d, stream, &plan, functions, &scratch);
        sf_cuda_scratch_give(d, stream, &scratch, status == SF_OK);
        return status;
}

/* What it takes to run a stage by itself, on a device that has been entered. */
typedef struct stage_of {
        const sf_context *ctx;
        sf_cuda_device *device;
        void *workspace;
        size_t size;
} stage_of;

static sf_status run_stage(void *with, const sf_step *step)
{
        const stage_of *s = with;
        sf_status status = SF_OK;
        while (step && status == SF_OK)
                status = run_entered(s->ctx, s->device, &step, s->workspace, s->size);
        return status;
}

/* Are its tensors on the device, except what only the chain itself uses? */
static sf_status check_chain(const sf_context *ctx, sf_cuda_device *d, const sf_step *stage)
{
        for (; stage; stage = stage->then)
                for (const sf_step *s = stage; s; s = s->sibling) {
                        const uint32_t reads = s->fuse ? sf_cuda_reads(s) : 1;
                        for (int32_t k = 0; reads >> k; k++)
                                if (reads >> k & 1 && !(s->fuse && s->fuse->operand[k].made))
                                        SF_TRY(check_pointer(ctx, d, k ? "an operand" : "x", s->fuse ? s->fuse->operand[k].data : s->x));
                        if (s->m)
                                SF_TRY(check_pointer(ctx, d, "mask", s->m));
                        if (!s->within)
                                SF_TRY(check_pointer(ctx, d, "out", s->y));
                }
        return SF_OK;
}

/* Runs a chain in one launch if there is a kernel for it; else one stage after another. *across: the
 * folds across its lines have been done too. */
static sf_status run_chain(const sf_context *ctx, sf_cuda_device *d, const sf_step *first, void *workspace, size_t size, bool *across)
{
        sf_cuda_plan plan;
        cu_function functions[SF_CUDA_MAX_LAUNCHES];
        sf_cuda_scratch scratch = {0};
        bool fits;
        SF_TRY(sf_cuda_plan_chain(ctx, first, &d->chip, &plan, &fits));
        if (!fits)
                return sf_chain_apart(first, run_stage, &(stage_of){ctx, d, workspace, size});
        SF_TRY(check_chain(ctx, d, first));
        *across = plan.across;
        for (const sf_step *s = plan.across ? first->across : NULL; s; s = s->sibling)
                SF_TRY(check_pointers(ctx, d, s));
        for (int32_t i = 0; i < plan.launches; i++)
                SF_TRY(sf_cuda_device_kernel(ctx, d, &plan.launch[i].spec, &functions[i]));
        SF_TRY(take_scratch(ctx, d, first->stream, &plan, workspace, size, &scratch));
        sf_status status = launch(ctx, d, first->stream, &plan, functions, &scratch);
        sf_cuda_scratch_give(d, first->stream, &scratch, status == SF_OK);
        /* Part of a chip may have no room for clusters that large. */
        if (status != SF_OK && sf_cuda_is_wide(&plan.launch[0].spec, &d->chip))
                return sf_chain_apart(first, run_stage, &(stage_of){ctx, d, workspace, size});
        return status;
}

sf_status sf_cuda_run_in(sf_context *ctx, const sf_step *step, void *workspace, size_t size)
{
        sf_cuda_device *d;
        bool entered;
        SF_TRY(sf_cuda_device_enter(ctx, step->device.device_id, &d, &entered));
        const sf_step *rest = step->then ? step->across : step;
        sf_status status = SF_OK;
        bool across = false;
        if (step->then)
                status = run_chain(ctx, d, step, workspace, size, &across);
        if (status == SF_OK && rest && !across)
                status = run_stage(&(stage_of){ctx, d, workspace, size}, rest);
        sf_cuda_device_leave(d, entered);
        return status;
}

sf_status sf_cuda_run(sf_context *ctx, const sf_step *step)
{
        return sf_cuda_run_in(ctx, step, NULL, 0);
}

sf_status sf_cuda_copy(sf_context *ctx, sf_device device, void *stream, void *to, const void *from, size_t size)
{
        sf_cuda_device *d;
        bool entered;
        SF_TRY(sf_cuda_device_enter(ctx, device.device_id, &d, &entered));
        cu_result code = d->driver->copy_async((cu_address)(uintptr_t)to, (cu_address)(uintptr_t)from, size, stream);
        if (code == CU_OK)
                code = d->driver->stream_wait(stream);
        sf_status status = code == CU_OK ? SF_OK : sf_cuda_device_fail(ctx, d, code, "copying between the host and the device");
        sf_cuda_device_leave(d, entered);
        return status;
}

sf_status sf_cuda_wait(sf_context *ctx, sf_device device, void *stream)
{
        sf_cuda_device *d;
        bool entered;
        SF_TRY(sf_cuda_device_enter(ctx, device.device_id, &d, &entered));
        const cu_result code = d->driver->stream_wait(stream);
        sf_status status = code == CU_OK ? SF_OK : sf_cuda_device_fail(ctx, d, code, "waiting for results");
        sf_cuda_device_leave(d, entered);
        return status;
}

void sf_cuda_share(const sf_context *ctx, sf_device device, size_t size, void **data, void **owner)
{
        sf_cuda_device *d;
        bool entered;
        *data = *owner = NULL;
        if (size > SF_CUDA_SHARED || sf_cuda_device_enter(ctx, device.device_id, &d, &entered) != SF_OK)
                return;
        if (!atomic_exchange(&d->sharing, true)) {
                if (!d->shared && d->driver->host_allocate(&d->shared, SF_CUDA_SHARED, CU_HOST_PORTABLE_MAPPED) != CU_OK)
                        d->shared = NULL;
                d->sent = d->sent && !sf_cuda_use_over(d, &d->sending);
                if (d->shared && !d->sent) {
                        *data = d->shared;
                        *owner = d;
                } else {
                        atomic_store(&d->sharing, false);
                }
        }
        sf_cuda_device_leave(d, entered);
}

void sf_cuda_unshare(void *owner)
{
        sf_cuda_device *d = owner;
        atomic_store(&d->sharing, false);
}

/* A graph that is being captured would copy later what is in the memory then: waiting fails, and says so.
 * Not every driver can put a write of a stream into a graph. */
static bool is_captured(const sf_cuda_device *d, cu_stream stream)
{
        int capture = 0;
        return d->driver->capture_info(stream, &capture, NULL, NULL, NULL, NULL) != CU_OK || capture == CU_CAPTURE_ACTIVE;
}

sf_status sf_cuda_send(const sf_context *ctx, sf_device device, void *stream, void *to, const void *from, size_t size)
{
        sf_cuda_device *d;
        bool entered;
        SF_TRY(sf_cuda_device_enter(ctx, device.device_id, &d, &entered));
        cu_result code = d->driver->copy_async((cu_address)(uintptr_t)to, (cu_address)(uintptr_t)from, size, stream);
        if (code == CU_OK) {
                sf_cuda_use_end(d, &d->sending, stream);
                d->sent = d->sending.told && !is_captured(d, stream);
                if (!d->sent)
                        code = d->driver->stream_wait(stream);
        }
        sf_status status = code == CU_OK ? SF_OK : sf_cuda_device_fail(ctx, d, code, "copying from the host to the device");
        sf_cuda_device_leave(d, entered);
        return status;
}

/* Is this memory of a device, which never moves to the host? */
static bool stays(const sf_cuda_device *d, const void *pointer)
{
        int attributes[] = {CU_POINTER_MEMORY_TYPE, CU_POINTER_MANAGED};
        unsigned type = 0, managed = 1;
        void *values[] = {&type, &managed};
        return d->driver->pointer_attributes(2, attributes, values, (cu_address)(uintptr_t)pointer) == CU_OK && type == CU_MEMORY_DEVICE && !managed;
}

bool sf_cuda_write(const sf_context *ctx, sf_device device, void *stream, void *to, uint64_t bits, size_t size)
{
        const cu_address address = (cu_address)(uintptr_t)to;
        sf_cuda_device *d;
        bool entered, written = false;
        if ((size != 4 && size != 8) || address % size || sf_cuda_device_enter(ctx, device.device_id, &d, &entered) != SF_OK)
                return false;
        const sf_driver *driver = d->driver;
        if ((size == 4 ? driver->write_4 != NULL : driver->write_8 != NULL) && !is_captured(d, stream) && stays(d, to))
                written = (size == 4 ? driver->write_4(stream, address, (uint32_t)bits, 0) : driver->write_8(stream, address, bits, 0)) == CU_OK;
        sf_cuda_device_leave(d, entered);
        return written;
}

static sf_status measure_stage(void *with, const sf_step *step)
{
        stage_of *s = with;
        sf_cuda_plan plan;
        /* Siblings that do not share a read run one after another, so they can use the same
         * scratch. */
        while (step) {
                SF_TRY(sf_cuda_plan_step(s->ctx, step, &s->device->chip, &plan));
                s->size = plan.scratch > s->size ? plan.scratch : s->size;
                for (int32_t i = 0; i < plan.steps; i++)
                        step = step->sibling;
        }
        return SF_OK;
}

sf_status sf_cuda_workspace(sf_context *ctx, const sf_step *step, size_t *size)
{
        stage_of all = {.ctx = ctx};
        sf_cuda_plan plan;
        bool fits = false;
        SF_TRY(sf_cuda_device_get(ctx, step->device.device_id, &all.device));
        if (step->then)
                SF_TRY(sf_cuda_plan_chain(ctx, step, &all.device->chip, &plan, &fits));
        if (!fits || sf_cuda_is_wide(&plan.launch[0].spec, &all.device->chip))
                SF_TRY(step->then ? sf_chain_apart(step, measure_stage, &all) : measure_stage(&all, step));
        if (fits && !sf_cuda_is_wide(&plan.launch[0].spec, &all.device->chip))
                all.size = plan.scratch; /* cppcheck-suppress uninitStructMember ; a plan that fits is whole */
        if (step->then && step->across && !(fits && plan.across))
                SF_TRY(measure_stage(&all, step->across));
        *size = all.size;
        return SF_OK;
}

static sf_status again_entered(const sf_context *ctx, sf_cuda_device *d, const sf_again *a)
{
        sf_cuda_plan plan;
        cu_function function;
        const sf_cuda_scratch none = {0};
        SF_TRY(sf_cuda_plan_again(ctx, a, &d->chip, &plan));
        for (int32_t k = 0; k < a->steps; k++) {
                const sf_again_step *s = &a->step[k];
                uint32_t reads = sf_cuda_reads(&s->step);
                for (int32_t o = 0; reads >> o; o++)
                        if (reads >> o & 1 && s->made[o] < 0 && s->fuse.operand[o].data)
                                SF_TRY(check_pointer(ctx, d, "an operand", s->fuse.operand[o].data));
        }
        SF_TRY(sf_cuda_device_kernel(ctx, d, &plan.launch[0].spec, &function));
        return launch(ctx, d, a->stream, &plan, &function, &none);
}

sf_status sf_cuda_again(sf_context *ctx, const sf_again *a)
{
        sf_cuda_device *d;
        bool entered;
        SF_TRY(sf_cuda_device_enter(ctx, a->device.device_id, &d, &entered));
        sf_status status = again_entered(ctx, d, a);
        sf_cuda_device_leave(d, entered);
        return status;
}

/* ------------------------------------------------------------------------------------------------
 * Memory for other layers
 * ---------------------------------------------------------------------------------------------- */
sf_status sf_cuda_borrow(const sf_context *ctx, sf_device device, void *stream, size_t size, void **data, void **owner)
{
        sf_cuda_device *d;
        sf_cuda_block *block = NULL;
        cu_address base = 0;
        bool entered;
        SF_TRY(sf_cuda_device_enter(ctx, device.device_id, &d, &entered));
        sf_status status = sf_cuda_scratch_borrow(ctx, d, stream, size, &base, &block);
        sf_cuda_device_leave(d, entered);
        *data = (void *)(uintptr_t)base;
        *owner = block;
        return status;
}

void sf_cuda_return(const sf_context *ctx, sf_device device, void *stream, void *owner)
{
        sf_cuda_device *d;
        bool entered;
        if (!owner || sf_cuda_device_enter(ctx, device.device_id, &d, &entered) != SF_OK)
                return;
        sf_cuda_scratch_return(d, stream, owner);
        sf_cuda_device_leave(d, entered);
}

sf_status sf_cuda_keep(const sf_context *ctx, sf_device device, size_t size, void **data,
                       void **owner)
{
        sf_cuda_device *d;
        sf_cuda_kept *kept = NULL;
        cu_address base = 0;
        bool entered;
        SF_TRY(sf_cuda_device_enter(ctx, device.device_id, &d, &entered));
        sf_status status = sf_cuda_kept_create(ctx, d, size, &kept, &base);
        sf_cuda_device_leave(d, entered);
        *data = (void *)(uintptr_t)base;
        *owner = kept;
        return status;
}

void sf_cuda_free(const sf_context *ctx, sf_device device, void *owner)
{
        sf_cuda_device *d;
        bool entered;
        if (!owner || sf_cuda_device_enter(ctx, device.device_id, &d, &entered) != SF_OK)
                return;
        sf_cuda_kept_destroy(d, owner);
        sf_cuda_device_leave(d, entered);
}

int32_t sf_cuda_begin(const sf_context *ctx, sf_device device, void *stream, void *owner,
                      bool writes)
{
        sf_cuda_device *d;
        bool entered;
        if (sf_cuda_device_enter(ctx, device.device_id, &d, &entered) != SF_OK)
                return -1;
        int32_t place = sf_cuda_kept_begin(d, owner, stream, writes);
        sf_cuda_device_leave(d, entered);
        return place;
}

void sf_cuda_end(const sf_context *ctx, sf_device device, void *stream, void *owner, int32_t place,
                 bool wrote)
{
        sf_cuda_device *d;
        bool entered;
        if (sf_cuda_device_enter(ctx, device.device_id, &d, &entered) != SF_OK)
                return;
        sf_cuda_kept_end(d, owner, stream, place, wrote);
        sf_cuda_device_leave(d, entered);
}
