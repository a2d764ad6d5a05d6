/*
 * In place of src/backend.c: every context that is not the reference's plans its steps as the CUDA backend does and runs the
 * kernels on the host. First each case is met once with the reference's answer, to learn which kernels are wanted; then
 * they are compiled together; then the cases are met again.
 */
#include "backend_host.h"

#include "backend.h"
#include "cpu/cpu.h"
#include "cuda/emit_draft.h"
#include "kernels.h"
#include "ref/ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool host_learning;
long host_launches, host_seed;
sf_cuda_chip host_chip;
long host_met[SF_CUDA_KERNEL_COUNT], host_staged, host_interleaved, host_chunked;

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

int32_t sf_cpu_count(void)
{
        return 1;
}

const char *sf_isa_name(int32_t index, int32_t *usable)
{
        (void)index, (void)usable;
        return NULL;
}

sf_status sf_backend_run(sf_context *ctx, const sf_step *step, void *workspace, size_t workspace_size)
{
        (void)workspace;
        (void)workspace_size;
        sf_cuda_plan plan;
        if (ctx->backend == SF_BACKEND_REF)
                return sf_ref_run(ctx, step);
        SF_TRY(sf_cuda_plan_step(ctx, step, &host_chip, &plan));
        for (int32_t i = 0; i < plan.launches; i++)
                kernels_want(&plan.launch[i].spec);
        if (host_learning)
                return sf_ref_run(ctx, step);

        /* Scratch is as large as asked and holds garbage but for what is to be cleared. */
        unsigned char *scratch = NULL;
        if (posix_memalign((void **)&scratch, 256, plan.scratch ? plan.scratch : 1))
                abort();
        memset(scratch, 0xcd, plan.scratch);
        memset(scratch, 0, plan.scratch_clear);
        sf_status status = SF_OK;
        for (int32_t i = 0; i < plan.launches && status == SF_OK; i++) {
                sf_cuda_launch *l = &plan.launch[i];
                for (int32_t k = 0; k < l->scratch_fields; k++) {
                        uint64_t field;
                        memcpy(&field, l->params + 8 * k, 8);
                        field += (uint64_t)(uintptr_t)scratch;
                        memcpy(l->params + 8 * k, &field, 8);
                }
                exec_entry entry = kernels_find(&l->spec);
                if (!entry) {
                        kernels_compile();
                        entry = kernels_find(&l->spec);
                }
                host_met[l->spec.kernel]++;
                host_staged += l->spec.kernel != SF_CUDA_SCAN_CHAINED && !(l->spec.flags & SF_CUDA_DOWN) && l->spec.extra[STAGED];
                host_interleaved += l->spec.kernel == SF_CUDA_SCAN_CHAINED && l->spec.extra[SF_CUDA_OWN] > 1;
                host_chunked += i > 0;
                host_launches++;
                exec_launch launch = {.entry = entry, .params = l->params, .blocks = l->grid[0], .threads = (uint32_t)l->spec.threads,
                                      .shared = l->shared, .resident = 4, .seed = (uint64_t)host_seed++};
                if (exec_run(&launch))
                        status = sf_fail(ctx, SF_DEVICE_ERROR, "the kernel did not run to its end");
        }
        free(scratch);
        return status;
}

sf_status sf_backend_workspace(sf_context *ctx, const sf_step *step, size_t *size)
{
        (void)ctx;
        (void)step;
        *size = 0;
        return SF_OK;
}
