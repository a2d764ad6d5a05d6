/*
 * Fused steps on the device, bit by bit against the reference: random programs over random operands. With --time it measures instead: the fused steps that have a speed to keep, and the two passes that
 * sum(x @ W.T / 2, 1) * 1.5 comes to, by graph replay.
 *
 *     gpu_fused [CASES]        SCANFOLD_GPU_SHARD=k/n takes every n-th
 *     gpu_fused --time
 */
#include "check.h"
#include "fused_step.h"
#include "gpu.h"

#include "core/value.h"
#include "cuda/cuda.h"
#include "ref/ref.h"

#define MARGIN 512
#define POISON 0xa5

/* ------------------------------------------------------------------------------------------------------------
 * Bits
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct mirror {
        gpu_address base;
        size_t size;
} mirror;

/* The tensor's bytes on the device, at the same alignment; returns how far away that is. */
static intptr_t copy_in(mirror *m, const fused_tensor *t)
{
        if (!t->base)
                return 0;
        if (t->bytes + 4 * MARGIN > m->size) {
                if (m->base)
                        GPU(gpu.release(m->base));
                m->size = 2 * (t->bytes + 4 * MARGIN);
                GPU(gpu.allocate(&m->base, m->size));
        }
        GPU(gpu.set(m->base, POISON, t->bytes + 2 * MARGIN));
        GPU(gpu.put(m->base + MARGIN, t->base, t->bytes));
        return (intptr_t)(m->base + MARGIN) - (intptr_t)t->base;
}

static void copy_out(const mirror *m, const fused_tensor *t, const char *what)
{
        unsigned char margins[2 * MARGIN];
        bool clean = true;
        GPU(gpu.get(t->base, m->base + MARGIN, t->bytes));
        GPU(gpu.get(margins, m->base, MARGIN));
        GPU(gpu.get(margins + MARGIN, m->base + MARGIN + t->bytes, MARGIN));
        for (int i = 0; i < 2 * MARGIN; i++)
                clean = clean && margins[i] == POISON;
        CHECK(clean, "%s: the device wrote beside its output", what);
}

static void run_case(uint64_t seed)
{
        static mirror operands[FUSED_OPERANDS], mask, outs[FUSED_STEPS];
        fused_case c;
        char what[64];
        bool between = false;
        intptr_t far[FUSED_OPERANDS];
        fused_make(&c, seed, 0);
        snprintf(what, sizeof what, "fused case %llu", (unsigned long long)seed);
        size_t size = fused_results_size(&c);
        unsigned char *right = malloc(size), *got = malloc(size);
        sf_status status = sf_ref_run(NULL, &c.step[0]);
        fused_results(&c, right);
        fused_reset(&c);
        for (int32_t k = 0; k < c.operands; k++)
                far[k] = copy_in(&operands[k], &c.operand[k]);
        intptr_t far_mask = copy_in(&mask, &c.mask);
        for (int i = 0; i < c.steps; i++) {
                sf_step *s = &c.step[i];
                s->device = (sf_device){SF_CUDA, 0};
                s->stream = (void *)(uintptr_t)(seed % 3);
                s->y += copy_in(&outs[i], &c.out[i]);
                s->x += far[0];
                s->m = s->m ? s->m + far_mask : NULL;
                for (int32_t k = 0; k < c.operands; k++)
                        c.fuse[i].operand[k].data += far[k];
        }
        GPU(gpu.synchronize());
        if (status == SF_OK)
                status = sf_cuda_run(NULL, &c.step[0]);
        GPU(gpu.synchronize());
        for (int i = 0; i < c.steps; i++)
                copy_out(&outs[i], &c.out[i], what);
        fused_results(&c, got);
        long differ = status == SF_OK ? fused_differences(&c, right, got, &between) : 0;
        CHECK(status == SF_OK && !differ && !between, "%s: %s, %ld elements differ%s", what, status == SF_OK ? "ran" : sf_last_error(NULL), differ,
              between ? ", and bytes between" : "");
        if (status != SF_OK || differ || between)
                fused_print(&c, stderr);
        free(right);
        free(got);
        fused_free(&c);
}

/* ------------------------------------------------------------------------------------------------------------
 * Times
 * ---------------------------------------------------------------------------------------------------------- */
#define REGIONS 6
static gpu_address regions[REGIONS];

/* Where a far address really is. That of a reversed tensor is its last element's. */
static char *placed(const void *far)
{
        const uintptr_t address = (uintptr_t)far;
        return (char *)(uintptr_t)regions[(address >> 40) - 1] + (address & (((uintptr_t)1 << 40) - 1));
}

static sf_step *place(sf_step *s, sf_fuse *f)
{
        s->x = placed(s->x);
        s->y = placed(s->y);
        for (int32_t k = 0; f && k < f->operands; k++)
                f->operand[k].data = placed(f->operand[k].data);
        return s;
}

typedef struct some_steps {
        sf_step *const *step;
        int count;
} some_steps;

static void run_steps(void *user, gpu_handle stream)
{
        const some_steps *s = user;
        for (int i = 0; i < s->count; i++) {
                s->step[i]->stream = stream;
                CHECK(sf_cuda_run(NULL, s->step[i]) == SF_OK, "%s", sf_last_error(NULL));
        }
}

static double time_steps(sf_step *const *steps, int count, int times)
{
        double took;
        some_steps some = {steps, count};
        gpu_time(1, (gpu_work *[]){run_steps}, (void *[]){&some}, times, &took);
        return took;
}

static void report(const char *name, double time, double bytes)
{
        printf("%-28s %9.2f us %8.2f GB/s\n", name, time * 1e6, bytes / time * 1e-9);
}

static void time_all(void)
{
        size_t size = ((size_t)1 << 32) + 4096;
        static fused_named c, dot;
        static int64_t weights[2] = {8192, 8192}, sums[2] = {1, 8192};
        for (int i = 0; i < REGIONS; i++) {
                GPU(gpu.allocate(&regions[i], size));
                GPU(gpu.set(regions[i], 0, size));
        }
        for (int i = 0; fused_name(&c, i); i++) {
                sf_step *one = place(&c.step, &c.fuse);
                double count = (double)c.shape[0] * (double)c.shape[1];
                double other = (double)sf_dtypes[c.other.dt].size * (c.other.strides[0] && c.other.strides[1] ? count : (double)c.shape[1]);
                if (one->sibling)
                        place(&c.beside, &c.squares);
                report(c.name, time_steps(&one, 1, count < 1e8 ? 20 : 3), 4 * count + other + 4 * (double)c.out.count);
        }
        /* W's column sums (region 3 to region 1), then x times them (region 0 and 1 to region 2). */
        sf_view w = {.data = (char *)((uintptr_t)4 << 40), .dt = SF_DT_F32, .ndim = 2, .count = 1 << 26, .shape = weights, .strides = {32768, 4}};
        sf_view v = {.data = (char *)((uintptr_t)2 << 40), .dt = SF_DT_F32, .ndim = 2, .count = 8192, .shape = sums, .strides = {32768, 4}};
        sf_step fold = {.fold = true, .op = SF_SUM, .in = SF_DT_F32, .acc = SF_DT_F32, .out = SF_DT_F32, .device = {SF_CUDA, 0}};
        fold.identity = sf_identity(SF_SUM, SF_DT_F32);
        sf_step_geometry(&fold, &(sf_step_views){.x = &w, .y = &v, .axes = 1, .keepdim = true});
        fused_name(&dot, 0);
        sf_step *both[2] = {place(&fold, NULL), place(&dot.step, &dot.fuse)};
        report("sum_weights", time_steps(both, 1, 20), 4.0 * (1 << 26));
        report("sum_weights, then dot_scaled", time_steps(both, 2, 20), 4.0 * (1 << 26) + 4.0 * (1 << 23));
}

int main(int argc, char **argv)
{
        long cases = argc > 1 ? atol(argv[1]) : 300, shard = 0, shards = 1;
        const char *text = getenv("SCANFOLD_GPU_SHARD");
        if (!gpu_open())
                return SKIPPED;
        if (argc > 1 && !strcmp(argv[1], "--time")) {
                time_all();
                return failures != 0;
        }
        if (text && sscanf(text, "%ld/%ld", &shard, &shards) != 2)
                return 2;
        for (long i = shard; i < cases && failures < 5; i += shards)
                run_case((uint64_t)i);
        return finish("gpu_fused");
}
