/*
 * One more engine for the CPU's tests: the same programs, built a second time with their calls of sf_scan and sf_fold, or of
 * sf_plan_create and sf_plan_run, and their engines replaced by these, run every case on the GPU. Each tensor is copied to the device with its bytes in between, at the same
 * alignment (to its element's size at least, which the device asks for), the call is made there, and what it left is copied back, so
 * that the test sees whatever was written, right or wrong. Bytes just outside are checked here.
 *
 * SCANFOLD_GPU_SHARD=k/n runs every n-th call only, from the k-th: several processes then share the work.
 */
#include "gpu.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#undef sf_scan
#undef sf_fold
#undef sf_plan_create
#undef sf_plan_run
sf_status sf_scan(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_scan_options *options);
sf_status sf_fold(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_fold_options *options);
sf_status gpu_scan(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_scan_options *options);
sf_status gpu_fold(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_fold_options *options);
sf_status sf_plan_create(sf_context *ctx, const sf_graph *graph, int32_t ninputs, const sf_tensor *inputs, const sf_plan_options *options, sf_plan **plan);
sf_status sf_plan_run(sf_plan *plan, const sf_tensor *inputs, const sf_tensor *outputs, const sf_run_options *options);
sf_status gpu_plan_create(sf_context *ctx, const sf_graph *graph, int32_t ninputs, const sf_tensor *inputs, const sf_plan_options *options,
                          sf_plan **plan);
sf_status gpu_plan_run(sf_plan *plan, const sf_tensor *inputs, const sf_tensor *outputs, const sf_run_options *options);

#define MARGIN 512
#define POISON 0xa5

static long calls, shard, shards = 1;
static gpu_handle streams[4]; /* default, legacy, per-thread, our own */

/* Replaces the harness's: the reference, and the device. */
void engines_open(void)
{
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        const char *text = getenv("SCANFOLD_GPU_SHARD");
        if (!gpu_open())
                exit(2);
        if (text && sscanf(text, "%ld/%ld", &shard, &shards) != 2)
                exit(2);
        streams[1] = (gpu_handle)1;
        streams[2] = (gpu_handle)2;
        GPU(gpu.stream_create(&streams[3], 1));
        for (int i = 0; i < 2; i++) {
                engine *e = &engines[i];
                o.backend = i ? SF_BACKEND_AUTO : SF_BACKEND_REF;
                o.threads = 1;
                if (sf_context_create(&e->ctx, &o) != SF_OK)
                        exit(2);
                strcpy(e->name, i ? "cuda" : "ref");
                e->threads = 1;
        }
        engine_count = 2;
}

/* A tensor's memory on the device. */
typedef struct mirror {
        gpu_address base; /* room for `size` bytes */
        size_t size;
        char *low; /* the lowest byte the tensor has on the host */
        size_t bytes;
        gpu_address at; /* where that byte is on the device */
} mirror;

#define INPUTS 4
#define OUTPUTS 3
static mirror mirrors[INPUTS + OUTPUTS];

static void copy_in(mirror *m, const sf_tensor *t, sf_tensor *device)
{
        int64_t low = 0, high = 0;
        size_t element = t->dtype.bits / 8u;
        bool empty = false;
        int64_t stride = 1;
        for (int32_t d = t->ndim - 1; d >= 0; d--) {
                int64_t reach = (t->shape[d] - 1) * (t->strides ? t->strides[d] : stride);
                empty = empty || t->shape[d] == 0;
                low += reach < 0 ? reach : 0;
                high += reach > 0 ? reach : 0;
                stride *= t->shape[d];
        }
        *device = *t;
        device->device = (sf_device){SF_CUDA, 0};
        m->bytes = 0;
        if (empty || !t->data) {
                device->data = NULL;
                device->byte_offset = 0;
                return;
        }
        char *first = (char *)((uintptr_t)t->data + t->byte_offset);
        m->low = first + low * (int64_t)element;
        m->bytes = (size_t)(high - low + 1) * element;
        if (m->bytes + 4 * MARGIN > m->size) {
                if (m->base)
                        GPU(gpu.release(m->base));
                m->size = 2 * (m->bytes + 4 * MARGIN);
                GPU(gpu.allocate(&m->base, m->size));
        }
        m->at = m->base + MARGIN + (uintptr_t)m->low % 256 / element * element;
        GPU(gpu.set(m->at - MARGIN, POISON, m->bytes + 2 * MARGIN));
        GPU(gpu.put(m->at, m->low, m->bytes));
        /* byte_offset is tested as well; data need not be aligned for that. */
        device->data = (void *)(uintptr_t)(m->at + (gpu_address)(first - m->low) - t->byte_offset);
}

static void check_margins(gpu_address at, size_t bytes, const char *what)
{
        unsigned char margins[2 * MARGIN];
        GPU(gpu.get(margins, at - MARGIN, MARGIN));
        GPU(gpu.get(margins + MARGIN, at + bytes, MARGIN));
        for (int i = 0; i < 2 * MARGIN; i++)
                if (margins[i] != POISON) {
                        FAIL("the device wrote %s %s", i < MARGIN ? "before" : "after", what);
                        break;
                }
}

static void copy_out(const mirror *m)
{
        if (!m->bytes)
                return;
        GPU(gpu.get(m->low, m->at, m->bytes));
        check_margins(m->at, m->bytes, "its output");
}

static bool on_host(sf_context *ctx)
{
        return ctx != engines[1].ctx || calls++ % shards != shard;
}

typedef struct trip {
        sf_tensor x, out, mask;
        mirror *written;
        gpu_handle stream;
} trip;

static void go(trip *t, const sf_tensor *x, const sf_tensor *out, const sf_tensor *mask)
{
        bool in_place = x->data == out->data && x->byte_offset == out->byte_offset && x->data;
        copy_in(&mirrors[0], x, &t->x);
        if (mask)
                copy_in(&mirrors[2], mask, &t->mask);
        t->written = &mirrors[in_place ? 0 : 1];
        if (in_place) {
                t->out = *out;
                t->out.data = t->x.data;
                t->out.device = t->x.device;
        } else {
                copy_in(&mirrors[1], out, &t->out);
        }
        t->stream = streams[(calls / shards) % 4];
        GPU(gpu.synchronize());
}

static sf_status come_back(const trip *t, sf_status status)
{
        GPU(gpu.stream_synchronize(t->stream));
        if (status == SF_OK)
                copy_out(t->written);
        return status;
}

/* These decide on their own where to run; the harness's reference always runs on the host. */
sf_status gpu_scan(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_scan_options *options)
{
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        trip t;
        if (on_host(ctx))
                return sf_scan(ctx, x, out, options);
        if (options)
                o = *options;
        go(&t, x, out, o.mask);
        o.mask = o.mask ? &t.mask : NULL;
        o.stream = t.stream;
        return come_back(&t, sf_scan(ctx, &t.x, &t.out, &o));
}

sf_status gpu_fold(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_fold_options *options)
{
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        trip t;
        if (on_host(ctx))
                return sf_fold(ctx, x, out, options);
        if (options)
                o = *options;
        go(&t, x, out, o.mask);
        o.mask = o.mask ? &t.mask : NULL;
        o.stream = t.stream;
        return come_back(&t, sf_fold(ctx, &t.x, &t.out, &o));
}

/* ------------------------------------------------------------------------------------------------------------
 * Plans
 * ---------------------------------------------------------------------------------------------------------- */

/* The one that was last made for the device, with its number of inputs; a test makes one at a time. */
static sf_plan *device_plan;
static int32_t device_inputs;

sf_status gpu_plan_create(sf_context *ctx, const sf_graph *graph, int32_t ninputs, const sf_tensor *inputs, const sf_plan_options *options,
                          sf_plan **plan)
{
        sf_tensor moved[INPUTS];
        device_plan = NULL;
        if (on_host(ctx) || ninputs > INPUTS)
                return sf_plan_create(ctx, graph, ninputs, inputs, options, plan);
        for (int32_t i = 0; i < ninputs; i++) {
                moved[i] = inputs[i];
                moved[i].device = (sf_device){SF_CUDA, 0};
        }
        sf_status status = sf_plan_create(ctx, graph, ninputs, moved, options, plan);
        device_plan = status == SF_OK ? *plan : NULL;
        device_inputs = ninputs;
        return status;
}

/* Every other one in a workspace of exactly the size that was asked for. */
sf_status gpu_plan_run(sf_plan *plan, const sf_tensor *inputs, const sf_tensor *outputs, const sf_run_options *options)
{
        static mirror workspace;
        sf_tensor in[INPUTS], out[OUTPUTS];
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        int32_t count = sf_plan_outputs(plan);
        if (plan != device_plan || count > OUTPUTS)
                return sf_plan_run(plan, inputs, outputs, options);
        if (options)
                o = *options;
        for (int32_t i = 0; i < device_inputs; i++)
                copy_in(&mirrors[i], &inputs[i], &in[i]);
        for (int32_t i = 0; i < count; i++)
                copy_in(&mirrors[INPUTS + i], &outputs[i], &out[i]);
        o.stream = streams[(calls / shards) % 4];
        size_t size = 0;
        if (calls / shards % 8 < 4 && sf_plan_workspace(plan, &size) == SF_OK && size) {
                if (size + 2 * MARGIN > workspace.size) {
                        if (workspace.base)
                                GPU(gpu.release(workspace.base));
                        workspace.size = 2 * (size + 2 * MARGIN);
                        GPU(gpu.allocate(&workspace.base, workspace.size));
                }
                GPU(gpu.set(workspace.base, POISON, size + 2 * MARGIN));
                o.workspace = (void *)(uintptr_t)(workspace.base + MARGIN);
                o.workspace_size = size;
        }
        GPU(gpu.synchronize());
        sf_status status = sf_plan_run(plan, in, out, &o);
        GPU(gpu.stream_synchronize(o.stream));
        for (int32_t i = 0; i < count && status == SF_OK; i++)
                copy_out(&mirrors[INPUTS + i]);
        if (o.workspace)
                check_margins(workspace.base + MARGIN, size, "its workspace");
        return status;
}
