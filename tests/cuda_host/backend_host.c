/*
 * In place of src/backend.c: every context that is not the reference's plans its steps as the CUDA backend does and runs the
 * kernels on the host. First each case is met once with the reference's answer, to learn which kernels are wanted; then
 * they are compiled together; then the cases are met again.
 */
#include "backend_host.h"

#include "backend.h"
#include "cpu/cpu.h"
#include "cuda/cuda.h"
#include "cuda/emit_again.h"
#include "cuda/emit_apply.h"
#include "cuda/emit_draft.h"
#include "kernels.h"
#include "ref/ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool host_learning, host_unchecked, host_races;
static bool host_learning_again;
long host_launches, host_seed;
void (*host_between)(void *scratch, size_t bytes);
sf_cuda_chip host_chip;
long host_products[SF_CUDA_KERNEL_COUNT], host_kept[3];
long host_met[SF_CUDA_KERNEL_COUNT], host_staged, host_packs, host_early, host_whole_rows, host_interleaved, host_chunked, host_tiled, host_shared, host_totals, host_doubles, host_clusters, host_through, host_loops, host_shifts, host_short[6], host_teams;

sf_status sf_backend_check(const sf_context *ctx, const char *name, sf_device device)
{
        (void)ctx, (void)name, (void)device;
        return SF_OK;
}

/* There is no CPU backend here. */
sf_status sf_cpu_choose(const char *name, const sf_cpu_isa **isa)
{
        (void)name;
        *isa = NULL;
        return SF_OK;
}

const char *sf_cpu_isa_name(const sf_cpu_isa *isa)
{
        (void)isa;
        return "cuda on the host";
}

const char *sf_isa_name(int32_t index, int32_t *usable)
{
        (void)index, (void)usable;
        return NULL;
}

static sf_status run_launches(sf_context *ctx, sf_cuda_plan *given)
{
        sf_cuda_plan plan = *given;
        for (int32_t i = 0; i < plan.launches; i++)
                kernels_want(&plan.launch[i].spec);
        if (host_learning)
                return SF_OK;

        /* Scratch is as large as asked and holds garbage or, where blocks watch, what all launches before have left there. */
        static uint64_t left[1 << 21];
        unsigned char *scratch = NULL;
        if (plan.watched && plan.scratch > sizeof left)
                return sf_fail(ctx, SF_UNSUPPORTED, "%zu bytes to watch are too many here", plan.scratch);
        if (posix_memalign((void **)&scratch, 256, plan.scratch ? plan.scratch : 1))
                abort();
        if (plan.watched)
                memcpy(scratch, left, plan.scratch);
        else
                memset(scratch, 0xcd, plan.scratch);
        sf_status status = SF_OK;
        for (int32_t i = 0; i < plan.launches && status == SF_OK; i++) {
                sf_cuda_launch *l = &plan.launch[i];
                for (int32_t k = 0; k < l->scratch_fields; k++) {
                        uint64_t field;
                        memcpy(&field, l->params + 8 * k, 8);
                        field += (uint64_t)(uintptr_t)scratch;
                        memcpy(l->params + 8 * k, &field, 8);
                }
                if (i == 1 && host_between)
                        host_between(scratch, plan.scratch);
                exec_entry entry = kernels_find(&l->spec);
                if (!entry) {
                        kernels_compile();
                        entry = kernels_find(&l->spec);
                }
                host_met[l->spec.kernel]++;
                host_products[l->spec.kernel] += sf_cuda_is_product(l->spec.op, l->spec.acc);
                const int32_t kernel = l->spec.kernel, *extra = l->spec.extra;
                host_staged += (kernel == SF_CUDA_SCAN_ROWS && extra[SCAN_ROWS_STAGED]) ||
                               (kernel == SF_CUDA_SCAN_COLUMNS && extra[SCAN_COLUMNS_STAGED]) ||
                               (kernel == SF_CUDA_FOLD && !(l->spec.flags & SF_CUDA_DOWN) &&
                                extra[FOLD_STAGED]);
                host_packs += kernel == SF_CUDA_SCAN_COLUMNS && extra[SCAN_COLUMNS_PACKS] > 1;
                host_early += (l->spec.flags & SF_CUDA_EARLY) != 0;
                host_whole_rows += kernel == SF_CUDA_SCAN_BURST &&
                        extra[SCAN_BURST_COLUMNS] & (extra[SCAN_BURST_COLUMNS] - 1);
                host_interleaved += kernel == SF_CUDA_SCAN_CHAINED &&
                        extra[SCAN_CHAINED_COLUMNS] > 1;
                host_chunked += i > 0;
                host_tiled += kernel == SF_CUDA_SCAN_COLUMNS && extra[SCAN_COLUMNS_CHUNKED] == 2;
                host_launches++;
                host_clusters += kernel == SF_CUDA_APPLY && extra[APPLY_CLUSTER] > 1;
                host_through += kernel == SF_CUDA_APPLY && extra[APPLY_KEEP] == 3;
                host_loops += kernel == SF_CUDA_APPLY && extra[APPLY_KEEP] == 4;
                host_teams += (kernel == SF_CUDA_APPLY || (kernel == SF_CUDA_APPLY_COLUMNS && extra[APPLY_COLUMNS_CLUSTER] == 1)) && !(l->spec.flags & SF_CUDA_SINGLE);
                host_shifts += kernel == SF_CUDA_APPLY && l->spec.flags & SF_CUDA_SHIFT_IN;
                if (kernel == SF_CUDA_APPLY_SHORT) {
                        const int32_t place = extra[APPLY_SHORT_PLACE], lanes = extra[APPLY_SHORT_LANES];
                        host_short[place]++;
                        host_short[3] += lanes < 32;
                        host_short[4] += extra[APPLY_SHORT_WARPS] > 1;
                        host_short[5] += lanes < 32 && !extra[APPLY_SHORT_FLAT];
                }
                exec_launch launch = {.entry = entry, .params = l->params, .blocks = l->grid[0], .threads = (uint32_t)l->spec.threads,
                                      .shared = l->shared, .resident = 4, .cluster = kernel == SF_CUDA_APPLY || kernel == SF_CUDA_APPLY_GROUP ? (uint32_t)extra[APPLY_CLUSTER] : kernel == SF_CUDA_APPLY_COLUMNS ? (uint32_t)extra[APPLY_COLUMNS_CLUSTER] : 1, .seed = (uint64_t)host_seed++, .races = host_races};
                if (exec_run(&launch))
                        status = sf_fail(ctx, SF_DEVICE_ERROR, "the kernel did not run to its end");
        }
        if (plan.watched && status == SF_OK) {
                uint64_t before = left[0];
                memcpy(left, scratch, plan.scratch);
                if (left[0] != before + ((uint64_t)1 << 32))
                        status = sf_fail(ctx, SF_DEVICE_ERROR, "the tickets read %llx after the launch, %llx before", (unsigned long long)left[0], (unsigned long long)before);
        }
        free(scratch);
        return status;
}

/* The step and those of its siblings that share its read; *next becomes the first that does not. */
static sf_status run_shared(sf_context *ctx, const sf_step **next)
{
        sf_cuda_plan plan;
        SF_TRY(sf_cuda_plan_step(ctx, *next, &host_chip, &plan));
        host_shared += plan.steps > 1;
        host_totals += plan.steps > 1 && !(*next)->fold;
        host_doubles += plan.launch[plan.launches - 1].spec.fused.beside && plan.launch[plan.launches - 1].spec.fused.also[0].doubles;
        for (int32_t i = 0; i < plan.steps; i++)
                *next = (*next)->sibling;
        return run_launches(ctx, &plan);
}

/* A device does not tell the host: its kernel looks for itself. */
bool sf_backend_all_finite(sf_context *ctx, const sf_again *again)
{
        return ctx->backend == SF_BACKEND_REF && sf_again_all_finite(ctx, again);
}

/* The steps that sf_again_run hands out are the reference's while kernels are learnt. */
sf_status sf_backend_again(sf_context *ctx, const sf_again *again)
{
        sf_cuda_plan plan;
        if (ctx->backend == SF_BACKEND_REF)
                return sf_again_run(ctx, again);
        SF_TRY(sf_cuda_plan_again(ctx, again, &host_chip, &plan));
        SF_TRY(run_launches(ctx, &plan));
        if (!host_learning)
                return SF_OK;
        host_learning_again = true;
        sf_status status = sf_again_run(ctx, again);
        host_learning_again = false;
        return status;
}

/* Nor is there a device to describe. */
sf_status sf_device_describe(sf_context *ctx, sf_device device, sf_device_info *info)
{
        (void)device, (void)info;
        return sf_fail(ctx, SF_NO_DEVICE, "the kernels run on the host here");
}

static sf_status run_stage(void *with, const sf_step *step)
{
        sf_status status = SF_OK;
        for (const sf_step *next = step; next && status == SF_OK;)
                status = run_shared(with, &next);
        return status;
}

/* A chain in one launch, or one stage after another. */
static sf_status run_chain(sf_context *ctx, const sf_step *first)
{
        sf_cuda_plan plan;
        bool fits;
        SF_TRY(sf_cuda_plan_chain(ctx, first, &host_chip, &plan, &fits));
        if (!fits)
                SF_TRY(sf_chain_apart(first, run_stage, ctx));
        if (!fits)
                return first->across ? run_stage(ctx, first->across) : SF_OK;
        sf_params p;
        memcpy(&p, plan.launch[0].params, offsetof(sf_params, dims));
        if (plan.launch[0].spec.kernel == SF_CUDA_APPLY)
                host_kept[plan.launch[0].spec.extra[APPLY_KEEP] != 2 ? 0 : p.number[0] <= p.number[1] * plan.launch[0].spec.extra[APPLY_CLUSTER] ? 1 : 2]++;
        SF_TRY(run_launches(ctx, &plan));
        return first->across && !plan.across ? run_stage(ctx, first->across) : SF_OK;
}

sf_status sf_backend_run(sf_context *ctx, const sf_step *step, void *workspace, size_t workspace_size)
{
        (void)workspace;
        (void)workspace_size;
        sf_status status;
        if (ctx->backend == SF_BACKEND_REF || host_learning_again) {
                status = sf_ref_run(ctx, step);
                return status == SF_OK && step->then && step->across ? sf_ref_run(ctx, step->across) : status;
        }
        status = step->then ? run_chain(ctx, step) : run_stage(ctx, step);
        /* The reference has values of another form than a device (cuda/held.h): whoever learns with those has garbage. */
        if (status != SF_OK || !host_learning || step->values || step->left)
                return status;
        status = sf_ref_run(ctx, step);
        return status == SF_OK && step->then && step->across ? sf_ref_run(ctx, step->across) : status;
}

const char *sf_backend_apart(sf_device device, int32_t count, const sf_step *const *steps, const sf_step *other)
{
        (void)device;
        return sf_cuda_apart(count, steps, other);
}

bool sf_backend_doubles(sf_device device)
{
        (void)device;
        return true;
}

int32_t sf_backend_crosses(sf_device device)
{
        (void)device;
        return SF_CUDA_CROSSES;
}

const char *sf_backend_follows(sf_device device, const sf_step *chain)
{
        (void)device;
        return sf_cuda_follows(chain);
}

/* Exactly as large as asked: a step that reaches beyond is seen. */
sf_status sf_backend_borrow(sf_context *ctx, sf_device device, void *stream, size_t size, sf_memory *memory)
{
        (void)stream;
        return sf_backend_keep(ctx, device, size, memory);
}

void sf_backend_return(sf_context *ctx, sf_device device, void *stream, sf_memory *memory)
{
        (void)stream;
        sf_backend_free(ctx, device, memory);
}

sf_status sf_backend_copy(sf_context *ctx, sf_device device, void *stream, void *to, const void *from, size_t size)
{
        (void)ctx, (void)device, (void)stream;
        memcpy(to, from, size);
        return SF_OK;
}

/* Every other time somebody else has it. */
void sf_backend_share(sf_context *ctx, sf_device device, size_t size, sf_memory *memory)
{
        static bool taken;
        *memory = (sf_memory){NULL, NULL};
        taken = !taken;
        if (!taken)
                sf_backend_keep(ctx, device, size, memory);
}

sf_status sf_backend_send(sf_context *ctx, sf_device device, void *stream, void *to, const sf_memory *memory, size_t size)
{
        return sf_backend_copy(ctx, device, stream, to, memory->data, size);
}

/* Numbers of 8 bytes; all others are a launch's parameter. */
bool sf_backend_write(sf_context *ctx, sf_device device, void *stream, void *to, uint64_t bits, size_t size)
{
        (void)ctx, (void)device, (void)stream;
        if (size == sizeof bits)
                memcpy(to, &bits, size);
        return size == sizeof bits;
}

void sf_backend_unshare(sf_memory *memory)
{
        sf_backend_free(NULL, (sf_device){SF_CPU, 0}, memory);
}

sf_status sf_backend_wait(sf_context *ctx, sf_device device, void *stream)
{
        (void)ctx, (void)device, (void)stream;
        return SF_OK;
}

sf_status sf_backend_check_segments(sf_context *ctx, sf_device device, void *stream, const sf_segments *segments, int64_t n)
{
        (void)device, (void)stream;
        if (host_unchecked)
                return SF_OK;
        return sf_segments_check(ctx, segments, n, sf_segments_rise(segments, 0, segments->count));
}

sf_status sf_backend_keep(sf_context *ctx, sf_device device, size_t size, sf_memory *memory)
{
        (void)ctx, (void)device;
        memory->owner = NULL;
        if (posix_memalign(&memory->data, 256, size ? size : 1))
                abort();
        memset(memory->data, 0xcd, size);
        return SF_OK;
}

void sf_backend_free(sf_context *ctx, sf_device device, sf_memory *memory)
{
        (void)ctx, (void)device;
        free(memory->data);
        *memory = (sf_memory){NULL, NULL};
}

int32_t sf_backend_begin(sf_context *ctx, sf_device device, void *stream, const sf_memory *memory,
                         bool writes)
{
        (void)ctx, (void)device, (void)stream, (void)memory, (void)writes;
        return 0;
}

void sf_backend_end(sf_context *ctx, sf_device device, void *stream, const sf_memory *memory,
                    int32_t place, bool wrote)
{
        (void)ctx, (void)device, (void)stream, (void)memory, (void)place, (void)wrote;
}

sf_status sf_backend_workspace(sf_context *ctx, const sf_step *step, size_t *size)
{
        (void)ctx;
        (void)step;
        *size = 0;
        return SF_OK;
}
