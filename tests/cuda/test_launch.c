/*
 * The way from sf_scan to the driver, with a driver that only counts and records: what is launched, in which context, with which
 * memory; what a warm call does not do; and what becomes of every error.
 *
 * A process has one driver, so each way of lacking one is a run of its own: the scenario is the first argument.
 */
#include "check.h"
#include "fake.h"
#include "fused_step.h"

#include "backend.h"
#include "context.h"
#include "core/value.h"
#include "cuda/cuda.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_warm.h"
#include "cuda/emit.h"
#include "scanfold.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static fake_cuda *cuda;
static fake_nvrtc *nvrtc;

static void *at(int device, uint64_t offset)
{
        return (void *)(uintptr_t)(FAKE_MEMORY(device) + offset);
}

static sf_status scan(int device, void *x, void *y, int64_t rows, int64_t n, int axis, void *stream)
{
        int64_t shape[] = {rows, n};
        sf_tensor tx = {.data = x, .device = {SF_CUDA, device}, .ndim = 2, .dtype = SF_F32, .shape = shape}, ty = tx;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        ty.data = y;
        o.axis = axis;
        o.stream = stream;
        return sf_scan(NULL, &tx, &ty, &o);
}

static sf_status usual(int device, void *stream)
{
        return scan(device, at(device, 0), at(device, 1 << 30), 1024, 1024, 1, stream);
}

/* One that needs scratch: few lines, each far longer than a block can walk alone. */
static sf_status lengthy(int device, void *stream, int64_t n)
{
        return scan(device, at(device, 0), at(device, (uint64_t)1 << 36), 1, n, 1, stream);
}

#define EXPECT(call, status, words)                                                                                \
        do {                                                                                                       \
                sf_status got_ = (call);                                                                           \
                CHECK(got_ == (status), "%s: %s", sf_status_name(got_), sf_last_error(NULL));                      \
                CHECK((status) == SF_OK || strstr(sf_last_error(NULL), (words)), "the sentence is: %s", sf_last_error(NULL)); \
        } while (0)

/* Whatever failed on the device, calls on the CPU still work. */
static void cpu_works(void)
{
        float x[3] = {1, 2, 3}, y[3];
        int64_t shape[] = {3};
        sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 1, .dtype = SF_F32, .shape = shape}, ty = tx;
        ty.data = y;
        EXPECT(sf_scan(NULL, &tx, &ty, NULL), SF_OK, "");
        CHECK(y[2] == 6, "%g", y[2]);
}

static long calls(int member)
{
        return cuda->calls[member];
}

/* ------------------------------------------------------------------------------------------------------------
 * A driver that works
 * ---------------------------------------------------------------------------------------------------------- */

static const sf_cuda_chip h200 = {.capability = 90, .multiprocessors = 132, .threads_per_multiprocessor = 2048,
                                  .shared_per_block = 232448, .shared_per_multiprocessor = 233472, .l2 = 60 << 20};

/* What the plan says is what is launched. */
static void test_plans(void)
{
        sf_step step;
        char what[96];
        for (int32_t i = 0; sf_cuda_usual_step(i, &step, what); i += 7) {
                sf_cuda_plan plan;
                size_t size = 1;
                step.x = at(1, 0);
                step.y = at(1, (uint64_t)1 << 40);
                step.m = step.m ? at(1, (uint64_t)1 << 41) : NULL;
                step.device.device_id = 1;
                step.stream = (void *)0x50;
                CHECK(sf_cuda_plan_step(NULL, &step, &h200, &plan) == SF_OK, "%s: %s", what, sf_last_error(NULL));
                CHECK(sf_cuda_workspace(NULL, &step, &size) == SF_OK && size == plan.scratch, "%s: %zu", what, size);
                long first = cuda->launches, cleared = calls(FAKE_clear_async);
                EXPECT(sf_cuda_run_in(NULL, &step, at(1, (uint64_t)1 << 42), size), SF_OK, "");
                CHECK(cuda->launches - first == plan.launches, "%s: %ld launches", what, cuda->launches - first);
                CHECK(calls(FAKE_clear_async) - cleared == plan.watched, "%s", what); /* the contents of a workspace are unknown */
                for (int32_t k = 0; k < plan.launches; k++) {
                        const fake_launch *got = &cuda->last[(first + k) % FAKE_LAUNCHES];
                        sf_cuda_launch *l = &plan.launch[k];
                        for (int32_t f = 0; f < l->scratch_fields; f++)
                                ((uint64_t *)l->params)[f] += FAKE_MEMORY(1) + ((uint64_t)1 << 42);
                        CHECK(!memcmp(got->grid, l->grid, sizeof l->grid) && got->block[0] == (uint32_t)l->spec.threads && got->block[1] == 1,
                              "%s: grid %u %u %u, block %u", what, got->grid[0], got->grid[1], got->grid[2], got->block[0]);
                        CHECK(got->shared == l->shared && got->stream == (cu_stream)0x50 && got->context == 1 && got->overlaps == l->overlaps, "%s", what);
                        /* Dimensions that the kernel does not read may hold garbage. */
                        CHECK(!memcmp(got->params, l->params, offsetof(sf_params, dims)), "%s: parameters differ", what);
                        char prelude[65536];
                        size_t length = sf_cuda_prelude(&l->spec, prelude, sizeof prelude);
                        CHECK(length && !strncmp(got->image + strlen("fake cubin "), prelude, length), "%s: another kernel", what);
                }
        }
        sf_cuda_usual_step(2, &step, what);
        step.x = at(0, 0);
        step.y = at(0, (uint64_t)1 << 40);
        size_t size = 0;
        CHECK(sf_cuda_workspace(NULL, &step, &size) == SF_OK && size, "%s needs no scratch", what);
        EXPECT(sf_cuda_run_in(NULL, &step, at(0, (uint64_t)1 << 42), size - 1), SF_INVALID_ARGUMENT, "workspace is");
        EXPECT(sf_cuda_run_in(NULL, &step, at(0, ((uint64_t)1 << 42) + 8), size), SF_INVALID_ARGUMENT, "aligned");
}

/* Every kernel file that asks for a tile gets one, whatever it is asked with; those that never
 * ask are refused. */
static void test_tiles(void)
{
        static const int flags[] = {0, SF_CUDA_MASK, SF_CUDA_DOWN, SF_CUDA_DOWN | SF_CUDA_MASK};
        for (int kernel = 0; kernel < SF_CUDA_KERNEL_COUNT; kernel++)
                for (int k = 0; k < 4 * 5 * 4 * 4 * 3; k++) {
                        static const int capabilities[] = {70, 90, 130};
                        int in = 1 << k / 20 % 4, size = 4 << k / 80 % 4 / 2;
                        sf_cuda_chip chip = {.capability = capabilities[k / 320],
                                             .multiprocessors = 100};
                        sf_cuda_spec spec = {.kernel = kernel, .flags = flags[k % 4],
                                             .width = 1 << k / 4 % 5};
                        sf_cuda_tile tile = {0};
                        sf_status status = sf_cuda_tile_for(NULL, &chip, &spec, in,
                                                            size > in ? size : in, &tile);
                        if (kernel == SF_CUDA_SCAN_TOTALS || kernel == SF_CUDA_AGAIN ||
                            kernel == SF_CUDA_SEGMENTS_TABLE)
                                CHECK(status == SF_UNSUPPORTED &&
                                      strstr(sf_last_error(NULL), "has no tile"),
                                      "%s", sf_last_error(NULL));
                        else
                                CHECK(status == SF_OK && tile.threads >= 32 && tile.elements &&
                                      tile.resident, "%s", sf_last_error(NULL));
                }
}

/* Blocks that share narrow columns wait for each other, so their tiles must be worth the wait: whatever the number of
 * columns and the types, thousands of elements, and a block no longer than the chip allows. */
static void test_shared_tiles(void)
{
        static const sf_dt types[][3] = {{SF_DT_I8, SF_DT_I64, SF_DT_I64}, {SF_DT_U8, SF_DT_U8, SF_DT_U8}, {SF_DT_F16, SF_DT_F32, SF_DT_F16},
                                         {SF_DT_F16, SF_DT_F32, SF_DT_F32}, {SF_DT_F32, SF_DT_F32, SF_DT_F32}, {SF_DT_I32, SF_DT_I64, SF_DT_I64},
                                         {SF_DT_F64, SF_DT_F64, SF_DT_F64}};
        for (int64_t columns = 2; columns <= 200; columns++)
                for (size_t t = 0; t < sizeof types / sizeof *types; t++)
                        for (int odd = 0; odd < 2; odd++) {
                                const int64_t in = sf_dtypes[types[t][0]].size, out = sf_dtypes[types[t][2]].size, rows = 1 << 22;
                                sf_step step = {.op = SF_SUM, .in = types[t][0], .acc = types[t][1], .out = types[t][2], .n = rows, .batch = columns,
                                                .nbatch = 1, .nseq = 1, .x = (char *)at(0, 0) + odd * in, .y = at(0, (uint64_t)1 << 40)};
                                sf_cuda_plan plan;
                                step.dims[0] = (sf_dim){.len = columns, .x = in, .y = out};
                                step.dims[1] = (sf_dim){.len = rows, .x = columns * in, .y = columns * out};
                                step.identity = sf_identity(step.op, step.acc);
                                CHECK(sf_cuda_plan_step(NULL, &step, &h200, &plan) == SF_OK, "%s", sf_last_error(NULL));
                                const sf_cuda_spec *spec = &plan.launch[plan.launches - 1].spec;
                                const int64_t tile = (int64_t)spec->threads * spec->items * spec->width;
                                CHECK(spec->threads >= 96 && spec->threads <= 1024 && tile >= 2048, "%d columns of %s into %s: %d threads, %d elements",
                                      (int)columns, sf_dtypes[types[t][0]].name, sf_dtypes[types[t][2]].name, (int)spec->threads, (int)tile);
                        }
}

static void test_contexts(void)
{
        for (int before = -1; before < 2; before++)
                for (int device = 0; device < 2; device++) {
                        cuda->set_current(before);
                        EXPECT(usual(device, NULL), SF_OK, "");
                        CHECK(cuda->current() == before, "found %d, left %d", before, cuda->current());
                        CHECK(cuda->last[(cuda->launches - 1) % FAKE_LAUNCHES].context == device, "launched elsewhere");
                        cuda->result[FAKE_launch] = 1;
                        EXPECT(usual(device, NULL), SF_DEVICE_ERROR, "launching a kernel");
                        cuda->result[FAKE_launch] = 0;
                        CHECK(cuda->current() == before, "after an error: found %d, left %d", before, cuda->current());
                }
        CHECK(cuda->pushed == 0, "%ld contexts left on the stack", (long)cuda->pushed);
        cuda->set_current(0);
}

static void test_pointers(void)
{
        float host[16];
        EXPECT(scan(0, host, at(0, 1 << 20), 4, 4, 1, NULL), SF_INVALID_ARGUMENT, "host memory");
        EXPECT(scan(0, at(0, 0), host, 4, 4, 1, NULL), SF_INVALID_ARGUMENT, "out is said to be on CUDA device 0");
        EXPECT(scan(0, at(1, 0), at(0, 1 << 20), 4, 4, 1, NULL), SF_INVALID_ARGUMENT, "memory of device 1");
        EXPECT(scan(7, at(0, 0), at(0, 1 << 20), 4, 4, 1, NULL), SF_NO_DEVICE, "no CUDA device 7; this process sees 2");
        EXPECT(scan(-1, at(0, 0), at(0, 1 << 20), 4, 4, 1, NULL), SF_NO_DEVICE, "-1");
        EXPECT(scan(1000, at(0, 0), at(0, 1 << 20), 4, 4, 1, NULL), SF_NO_DEVICE, "1000");
}

/* A warm call calls these few functions and no other; it compiles nothing. */
static void test_warm(void)
{
        static const int allowed[] = {FAKE_context_id, FAKE_launch, FAKE_capture_info,
                                      FAKE_stream_id};
        void *streams[] = {NULL, (void *)1, (void *)2, (void *)0x1000};
        long before[FAKE_COUNT];
        for (int turn = 0; turn < 2; turn++) {
                long compiles = nvrtc->compiles;
                for (int i = 0; i < FAKE_COUNT; i++)
                        before[i] = calls(i);
                for (int s = 0; s < 4; s++)
                        for (int i = 0; i < 10; i++) {
                                EXPECT(usual(0, streams[s]), SF_OK, "");
                                EXPECT(scan(0, at(0, 0), at(0, 1 << 30), 1024, 1024, 0, streams[s]), SF_OK, "");
                                EXPECT(lengthy(0, streams[s], 1 << 26), SF_OK, "");
                                EXPECT(lengthy(0, streams[s], 1 << 24), SF_OK, "");
                        }
                if (!turn)
                        continue;
                CHECK(nvrtc->compiles == compiles, "%ld compilations", nvrtc->compiles - compiles);
                for (int i = 0; i < FAKE_COUNT; i++) {
                        bool may = false;
                        for (size_t k = 0; k < sizeof allowed / sizeof *allowed; k++)
                                may = may || allowed[k] == i;
                        CHECK(may || calls(i) == before[i], "a warm call called function %d of driver.def", i);
                }
        }
}

/* A fused step like any other: the same program over other numbers and tensors is the same kernel, another program is not. */
static void place_named(fused_named *c)
{
        c->step.x = at(0, 0);
        c->fuse.operand[0].data = at(0, 0);
        c->fuse.operand[1].data = at(0, (uint64_t)1 << 40);
        c->fuse.operand[2].data = at(0, (uint64_t)5 << 40);
        c->step.y = at(0, (uint64_t)1 << 41);
        c->beside.x = c->step.x;
        c->beside.y = at(0, (uint64_t)3 << 40);
        memcpy(c->squares.operand, c->fuse.operand, sizeof c->fuse.operand);
}

static void test_fused(void)
{
        static const int allowed[] = {FAKE_context_id, FAKE_launch, FAKE_capture_info,
                                      FAKE_stream_id, FAKE_pointer_attributes};
        fused_named c;
        for (int i = 0; fused_name(&c, i); i++) {
                place_named(&c);
                EXPECT(sf_cuda_run(NULL, &c.step), SF_OK, "");
        }
        long compiles = nvrtc->compiles, before[FAKE_COUNT];
        for (int k = 0; k < FAKE_COUNT; k++)
                before[k] = calls(k);
        for (int i = 0; fused_name(&c, i); i++) {
                place_named(&c);
                c.fuse.operand[1].data += 4096;
                c.squares.operand[1].data += 4096;
                c.fuse.store.constant[0].f32 = 17;
                EXPECT(sf_cuda_run(NULL, &c.step), SF_OK, "");
        }
        CHECK(nvrtc->compiles == compiles, "%ld compilations", nvrtc->compiles - compiles);
        for (int k = 0; k < FAKE_COUNT; k++) {
                bool may = false;
                for (size_t a = 0; a < sizeof allowed / sizeof *allowed; a++)
                        may = may || allowed[a] == k;
                CHECK(may || calls(k) == before[k], "a warm call called function %d of driver.def", k);
        }
        fused_name(&c, 0);
        place_named(&c);
        c.fuse.load.code[3].code = SF_CODE_ADD;
        EXPECT(sf_cuda_run(NULL, &c.step), SF_OK, "");
        CHECK(nvrtc->compiles == compiles + 1, "%ld compilations", nvrtc->compiles - compiles);
        /* A sibling that shares the read shares the launch. */
        fused_named other;
        fused_name(&other, 0);
        place_named(&other);
        c.step.sibling = &other.step;
        long launches = cuda->launches;
        EXPECT(sf_cuda_run(NULL, &c.step), SF_OK, "");
        CHECK(cuda->launches == launches + 1 && nvrtc->compiles == compiles + 2, "%ld launches", cuda->launches - launches);
        /* One that walks something else, though as far, is launched too. */
        other.fuse.operand[1].data += 4096;
        EXPECT(sf_cuda_run(NULL, &c.step), SF_OK, "");
        CHECK(cuda->launches == launches + 3 && nvrtc->compiles == compiles + 2, "%ld launches", cuda->launches - launches);

        float host[4];
        c.fuse.operand[1].data = (const char *)host;
        EXPECT(sf_cuda_run(NULL, &c.step), SF_INVALID_ARGUMENT, "an operand is said to be on CUDA device 0");
        c.fuse.operand[1].data = at(0, 2);
        EXPECT(sf_cuda_run(NULL, &c.step), SF_UNSUPPORTED, "aligned to their size");
}

/* Several results of one tensor: which share a launch, and what the explanation says of those that do not. */
static void test_siblings(void)
{
        static const struct {
                const char *text;
                int launches, same; /* lines that say "same read" */
                const char *words;  /* NULL: nothing is said not to be fused */
        } listed[] = {{"sum(x, 1), max(x, 1)", 1, 1, NULL},
                      {"mean(x, 1), max(x, 1), sum(x * x, 1), min(x, 1) + 1", 1, 3, NULL},
                      {"mean(x, 0), max(x, 0)", 3, 1, NULL}, /* in chunks, whose totals each member folds for itself */
                      {"cumsum(x, 1), sum(x, 1)", 1, 1, NULL},
                      {"sum(x, 1) * 2, cumsum(x, 1, exclusive=True)", 1, 1, NULL},
                      {"cumsum(x * x, 0), sum(x * x, 0)", 1, 1, NULL},
                      {"cumsum(x, 1), max(x, 1)", 2, 0, "reads again what another pass reads: on CUDA a scan shares its read with its own total alone"},
                      {"cumsum(x, 1), sum(x, 1), max(x, 1), min(x, 1)", 2, 2, "a scan shares its read with its own total alone"},
                      {"cumsum(x, 1), cummax(x, 1)", 2, 0, "a scan shares its read with its own total alone"},
                      {"cumsum(x, 1), cumsum(x, 1) * x + 1", 1, 1, NULL},
                      {"cumsum(x, 0), cumsum(x, 0) * concat([x[1:], zeros_like(x[:1])], 0)", 1, 1, NULL}, /* shifted by one position, in place */
                      {"cumsum(x, 1), cumsum(x, 1) * concat([zeros_like(x[:, :1]), x[:, :-1]], 1)", 4, 0, "a pass writes one result"}, /* to the other side */
                      {"cumsum(x, 1), cumsum(x, 1)[::-1] * x", 2, 0, "not fused"},
                      {"cumsum(x, 1), cumsum(x, 1) * 2, sum(x, 1)", 2, 1, "its own total alone"},
                      {"cumsum(x, 1), sum(x, 1, reverse=True)", 2, 0, "another direction"},
                      {"sum(x, 1), max(x, 1), min(x, 1), sum(x * x, 1), prod(x, 1)", 2, 3, "four results share one at most"},
                      {"x * 2, x + 1", 2, 0, "an elementwise pass has one result"},
                      {"sum(x, 0), sum(x, 1)", 3, 0, "other axes"},
                      /* What python/scanfold/_regions.py counts as one read. */
                      {"max(x, 1), argmax(x, 1)", 1, 1, NULL},
                      {"cummax(x, 1), cumargmax(x, 1)", 1, 1, NULL},
                      {"var(x, 1), mean(x, 1)", 2, 2, "it is made in one read with another fold"},
                      {"sum(x / 3, 1)", 2, 0, NULL}, /* rounded differently: one launch more looks at the results */
                      {"sum(x / 3, 1), max(x, 1)", 2, 1, NULL},
                      {"exp(sum(x / 3, 1))", 4, 0, "computed again where it is not finite"}};
        int64_t shape[] = {4096, 4096};
        sf_tensor x = {.data = at(0, 0), .device = {SF_CUDA, 0}, .ndim = 2, .dtype = SF_F32, .shape = shape};
        for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
                sf_graph *graph;
                sf_plan *plan;
                sf_tensor out[5];
                int64_t shapes[5][SF_MAX_NDIM];
                char text[8192];
                int same = 0;
                EXPECT(sf_graph_parse(NULL, listed[i].text, &graph), SF_OK, "");
                EXPECT(sf_plan_create(NULL, graph, 1, &x, NULL, &plan), SF_OK, "");
                for (int32_t k = 0; k < sf_plan_outputs(plan); k++) {
                        out[k] = x;
                        out[k].data = at(0, (uint64_t)(k + 1) << 40);
                        out[k].shape = shapes[k];
                        EXPECT(sf_plan_output(plan, k, &out[k].ndim, shapes[k], &out[k].dtype), SF_OK, "");
                }
                long launches = cuda->launches;
                EXPECT(sf_plan_run(plan, &x, out, NULL), SF_OK, "");
                CHECK(cuda->launches - launches == listed[i].launches, "%s: %ld launches", listed[i].text, cuda->launches - launches);
                long memory = calls(FAKE_allocate) + calls(FAKE_allocate_async), waits = calls(FAKE_stream_wait);
                EXPECT(sf_plan_run(plan, &x, out, NULL), SF_OK, "");
                CHECK(calls(FAKE_allocate) + calls(FAKE_allocate_async) == memory && calls(FAKE_stream_wait) == waits, "%s: a warm run allocates or waits", listed[i].text);
                EXPECT(sf_plan_explain(plan, SF_EXPLAIN_TEXT, text, sizeof text, NULL), SF_OK, "");
                for (const char *line = text; (line = strstr(line, "same read")); line++)
                        same++;
                CHECK(same == listed[i].same, "%s: %d of the same read\n%s", listed[i].text, same, text);
                CHECK(listed[i].words ? strstr(text, listed[i].words) != NULL : !strstr(text, "not fused"), "%s is explained as\n%s", listed[i].text, text);
                sf_plan_destroy(plan);
                sf_graph_destroy(graph);
        }
}

/* Columns in chunks whose vectors are narrower than the layout's: all launches have their threads. */
static void test_narrow_chunks(void)
{
        int64_t shape[] = {3000, 48};
        sf_tensor x = {.data = at(0, 0), .device = {SF_CUDA, 0}, .ndim = 2, .dtype = SF_F32, .shape = shape}, y = x;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        y.data = at(0, (uint64_t)1 << 40);
        o.op = SF_LOGSUMEXP;
        o.axis = 0;
        long launches = cuda->launches;
        EXPECT(sf_scan(NULL, &x, &y, &o), SF_OK, "");
        CHECK(cuda->launches - launches == 3, "%ld launches", cuda->launches - launches);
}

/* A workspace is measured for compact tensors; what others take beyond it is the library's own. */
static void test_workspace(void)
{
        int64_t shape[] = {2048, 8192}, turned[] = {1, 2048}, folded[] = {2048};
        sf_tensor x = {.data = at(0, 0), .device = {SF_CUDA, 0}, .ndim = 2, .dtype = SF_F32, .shape = shape};
        sf_tensor y = {.data = at(0, (uint64_t)1 << 40), .device = {SF_CUDA, 0}, .ndim = 1, .dtype = SF_F32, .shape = folded};
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        sf_graph *graph;
        sf_plan *plan;
        size_t size = 1;
        o.workspace = at(0, (uint64_t)1 << 42);
        o.workspace_size = 512;
        EXPECT(sf_graph_parse(NULL, "sum(x, 1)", &graph), SF_OK, "");
        EXPECT(sf_plan_create(NULL, graph, 1, &x, NULL, &plan), SF_OK, "");
        EXPECT(sf_plan_workspace(plan, &size), SF_OK, "");
        long launches = cuda->launches;
        CHECK(!size, "%zu bytes for rows", size);
        x.strides = turned;
        EXPECT(sf_plan_run(plan, &x, &y, &o), SF_OK, "");
        CHECK(cuda->launches == launches + 2, "%ld launches: columns in chunks are two", cuda->launches - launches);
        sf_plan_destroy(plan);
        sf_graph_destroy(graph);
}

/* Of compact tensors, that many bytes are enough: a fold across the lines of a chain, which reads three tensors, has its totals there. */
static void test_workspace_of_group(void)
{
        int64_t shape[] = {3000, 256}, folded[] = {256};
        sf_tensor in[3], out[2];
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        sf_graph *graph;
        sf_plan *plan;
        uint64_t scratch = 0;
        for (int i = 0; i < 3; i++)
                in[i] = (sf_tensor){.data = at(0, (uint64_t)i << 40), .device = {SF_CUDA, 0}, .ndim = 2, .dtype = SF_F32, .shape = shape};
        out[0] = in[0];
        out[0].data = at(0, (uint64_t)3 << 40);
        out[1] = (sf_tensor){.data = at(0, (uint64_t)4 << 40), .device = {SF_CUDA, 0}, .ndim = 1, .dtype = SF_F32, .shape = folded};
        o.workspace = at(0, (uint64_t)5 << 40);
        EXPECT(sf_graph_parse(NULL, "x - mean(x * y + z, 1, keepdim=True), sum(y * z, 0)", &graph), SF_OK, "");
        EXPECT(sf_plan_create(NULL, graph, 3, in, NULL, &plan), SF_OK, "");
        EXPECT(sf_plan_workspace(plan, &o.workspace_size), SF_OK, "");
        const long launches = cuda->launches;
        EXPECT(sf_plan_run(plan, in, out, &o), SF_OK, "");
        CHECK(cuda->launches == launches + 2, "%ld launches", cuda->launches - launches);
        memcpy(&scratch, cuda->last[launches % FAKE_LAUNCHES].params, sizeof scratch);
        CHECK(scratch - (uint64_t)(uintptr_t)o.workspace < o.workspace_size, "%zu bytes were not enough: totals went to %llx", o.workspace_size, (unsigned long long)scratch);
        sf_plan_destroy(plan);
        sf_graph_destroy(graph);
}

/* Scratch of a run of several steps, and memory that is kept. */
static void test_memory(void)
{
        sf_context *ctx;
        sf_device device = {SF_CUDA, 0};
        sf_memory a, b, c;
        void *stream = (void *)0x5000, *other = (void *)0x6000;
        EXPECT(sf_context_resolve(NULL, &ctx), SF_OK, "");
        EXPECT(sf_backend_borrow(ctx, device, stream, 1000, &a), SF_OK, "");
        EXPECT(sf_backend_borrow(ctx, device, stream, 1000, &b), SF_OK, "");
        EXPECT(lengthy(0, stream, 1 << 26), SF_OK, ""); /* a step in between has scratch of its own */
        CHECK(a.data && b.data && a.data != b.data, "%p is lent twice", a.data);
        void *was = a.data;
        sf_backend_return(ctx, device, stream, &a);
        CHECK(!a.data && !a.owner, "%p is still held", a.data);
        long allocations = calls(FAKE_allocate_async), live = cuda->live;
        EXPECT(sf_backend_borrow(ctx, device, stream, 900, &a), SF_OK, "");
        CHECK(a.data == was && calls(FAKE_allocate_async) == allocations, "a warm call allocates");
        EXPECT(sf_backend_borrow(ctx, device, other, 900, &c), SF_OK, "");
        CHECK(c.data != a.data && c.data != b.data, "another stream got %p", c.data);
        sf_backend_return(ctx, device, stream, &a);
        sf_backend_return(ctx, device, stream, &b);
        EXPECT(sf_backend_borrow(ctx, device, stream, 1 << 20, &a), SF_OK, ""); /* grows: the small one goes, in stream order */
        CHECK(cuda->live == live + 1, "%ld blocks, then %ld", live, (long)cuda->live);
        sf_backend_return(ctx, device, stream, &a);
        sf_backend_return(ctx, device, other, &c);
        for (uintptr_t s = 0; s < 200; s++) {
                EXPECT(sf_backend_borrow(ctx, device, (void *)(0x20000 + 16 * s), 64, &a), SF_OK, "");
                sf_backend_return(ctx, device, (void *)(0x20000 + 16 * s), &a);
        }
        CHECK(cuda->live < live + 70, "%ld blocks live", (long)cuda->live);

        cuda->capturing = (cu_stream)0x7000;
        long objects = cuda->objects, async = calls(FAKE_allocate_async);
        EXPECT(sf_backend_borrow(ctx, device, cuda->capturing, 1000, &a), SF_OK, "");
        CHECK(cuda->objects == objects + 1 && calls(FAKE_allocate_async) == async && a.data, "the graph has no block");
        sf_backend_return(ctx, device, cuda->capturing, &a);
        CHECK(cuda->objects == objects + 1, "the graph's block was taken from it");
        cuda->destroy_graphs();
        cuda->capturing = NULL;

        cuda->result[FAKE_allocate_async] = CU_OUT_OF_MEMORY;
        EXPECT(sf_backend_borrow(ctx, device, (void *)0x8000, 1 << 20, &a), SF_OUT_OF_MEMORY, "allocating scratch");
        cuda->result[FAKE_allocate_async] = 0;
        live = cuda->live;
        EXPECT(sf_backend_keep(ctx, device, 1 << 20, &a), SF_OK, "");
        CHECK(a.data && cuda->live == live + 1, "%ld", (long)cuda->live);
        sf_backend_free(ctx, device, &a);
        CHECK(!a.data && cuda->live == live, "%ld", (long)cuda->live);
        device.device_type = SF_CPU;
        EXPECT(sf_backend_keep(ctx, device, 1000, &a), SF_OK, "");
        EXPECT(sf_backend_borrow(ctx, device, NULL, 1000, &b), SF_OK, "");
        CHECK((uintptr_t)a.data % 256 == 0 && (uintptr_t)b.data % 256 == 0, "%p, %p", a.data, b.data);
        memset(a.data, 1, 1000);
        memset(b.data, 1, 1000);
        sf_backend_free(ctx, device, &a);
        sf_backend_return(ctx, device, NULL, &b);
        CHECK(cuda->pushed == 0, "%ld contexts left", (long)cuda->pushed);
}

static double seconds(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ours alone: the fake driver's part is next to nothing. The best of many batches, since this machine may be busy. */
static void test_cost(void)
{
        double best[2] = {1, 1};
        for (int batch = 0; batch < 50; batch++)
                for (int kind = 0; kind < 2; kind++) {
                        double start = seconds();
                        for (int i = 0; i < 1000; i++)
                                kind ? lengthy(0, NULL, 1 << 26) : usual(0, NULL);
                        double each = (seconds() - start) / 1000;
                        if (each < best[kind])
                                best[kind] = each;
                }
        printf("host cost of a warm call, the driver's own part left out: %.2f us plain, %.2f us with scratch\n", best[0] * 1e6, best[1] * 1e6);
}

static void test_scratch(void)
{
        void *stream = (void *)0x2000;
        EXPECT(lengthy(0, stream, 1 << 22), SF_OK, "");
        long live = cuda->live;
        EXPECT(lengthy(0, stream, (int64_t)1 << 32), SF_OK, ""); /* grows: the old block goes, in stream order */
        CHECK(cuda->live == live, "%ld blocks, then %ld", live, (long)cuda->live);
        /* More streams than are remembered: each call then takes and gives back. */
        for (uintptr_t s = 0; s < 200; s++)
                EXPECT(lengthy(0, (void *)(0x10000 + 16 * s), 1 << 22), SF_OK, "");
        CHECK(cuda->live < 2 * 64 + 8, "%ld blocks live", (long)cuda->live);

        cuda->result[FAKE_allocate_async] = CU_OUT_OF_MEMORY;
        EXPECT(lengthy(0, (void *)0x99990, (int64_t)1 << 34), SF_OUT_OF_MEMORY,
               "CUDA_ERROR_OUT_OF_MEMORY");
        cuda->result[FAKE_allocate_async] = 0;
        EXPECT(lengthy(0, (void *)0x99990, 1 << 26), SF_OK, "");
}

/* Words that blocks watch: cleared when they are new, again while that has not been followed by a launch, and before marks come round. */
static void test_watched(void)
{
        void *stream = (void *)0x2500;
        sf_cuda_device *d;
        CHECK(sf_cuda_device_get(NULL, 1, &d) == SF_OK, "%s", sf_last_error(NULL));
#define CLEARED(call, status, times)                                                                        \
        do {                                                                                                \
                long before = calls(FAKE_clear_async);                                                      \
                EXPECT(call, status, "");                                                                   \
                CHECK(calls(FAKE_clear_async) - before == (times), "%ld", calls(FAKE_clear_async) - before); \
        } while (0)
        cuda->result[FAKE_launch] = 1;
        CLEARED(lengthy(1, stream, 1 << 22), SF_DEVICE_ERROR, 1);
        cuda->result[FAKE_launch] = 0;
        cuda->result[FAKE_clear_async] = 1;
        CLEARED(lengthy(1, stream, 1 << 22), SF_DEVICE_ERROR, 1);
        cuda->result[FAKE_clear_async] = 0;
        CLEARED(lengthy(1, stream, 1 << 22), SF_OK, 1);
        CLEARED(lengthy(1, stream, 1 << 22), SF_OK, 0);
        cuda->result[FAKE_launch] = 1;
        CLEARED(lengthy(1, stream, 1 << 22), SF_DEVICE_ERROR, 0);
        cuda->result[FAKE_launch] = 0;
        CLEARED(lengthy(1, stream, (int64_t)1 << 32), SF_OK, 1); /* a larger block */
        CLEARED(lengthy(1, stream, (int64_t)1 << 32), SF_OK, 0);
        CLEARED(lengthy(1, stream, 1 << 22), SF_OK, 0);
        sf_cuda_lane *lane = NULL;
        for (int32_t i = 0; i < d->nlanes; i++)
                if (d->lanes[i].marks == 3)
                        lane = &d->lanes[i];
        CHECK(lane, "%s", "no lane has made three launches");
        lane->marks = SF_MOST_MARKS - 1;
        CLEARED(lengthy(1, stream, 1 << 22), SF_OK, 0);
        CLEARED(lengthy(1, stream, 1 << 22), SF_OK, 1);
        CHECK(lane->marks == 1, "%u", lane->marks);
#undef CLEARED
}

static void test_capture(void)
{
        cuda->capturing = (cu_stream)0x3000;
        long cleared = calls(FAKE_clear_async), waited = calls(FAKE_stream_wait), gone = calls(FAKE_stream_destroy);
        EXPECT(lengthy(0, cuda->capturing, 1 << 26), SF_OK, "");
        CHECK(calls(FAKE_clear_async) == cleared + 1 && calls(FAKE_stream_wait) == waited + 1 && calls(FAKE_stream_destroy) == gone + 1,
              "%s", "a graph's words are not cleared once, when it is captured");
        long live = cuda->live, allocations = calls(FAKE_allocate), async = calls(FAKE_allocate_async);
        CHECK(cuda->objects == 1, "%ld blocks held by the graph", (long)cuda->objects);
        const fake_launch *a = &cuda->last[(cuda->launches - 1) % FAKE_LAUNCHES];
        EXPECT(lengthy(0, cuda->capturing, 1 << 26), SF_OK, "");
        const fake_launch *b = &cuda->last[(cuda->launches - 1) % FAKE_LAUNCHES];
        CHECK(memcmp(a->params, b->params, sizeof a->params), "two captured calls share scratch, which may run side "
                                                              "by side");
        CHECK(cuda->objects == 2 && calls(FAKE_allocate) == allocations + 1, "%ld", (long)cuda->objects);
        CHECK(calls(FAKE_allocate_async) == async, "an allocation was captured");
        cuda->destroy_graphs();
        EXPECT(lengthy(0, cuda->capturing, 1 << 26), SF_OK, "");
        CHECK(cuda->live == live + 1 && calls(FAKE_allocate) == allocations + 1, "blocks of a graph that is gone "
                                                                                 "are not used again");
        cuda->result[FAKE_graph_retain] = 1;
        EXPECT(lengthy(0, cuda->capturing, 1 << 26), SF_DEVICE_ERROR, "graph");
        cuda->result[FAKE_graph_retain] = 0;
        static const int fail[] = {FAKE_stream_create, FAKE_clear_async, FAKE_stream_wait};
        for (size_t i = 0; i < sizeof fail / sizeof *fail; i++) {
                cuda->result[fail[i]] = 1;
                EXPECT(lengthy(0, cuda->capturing, 1 << 26), SF_DEVICE_ERROR, "clearing scratch memory");
                cuda->result[fail[i]] = 0;
        }
        cuda->destroy_graphs();
        CHECK(cuda->live == live + 1, "%ld blocks, then %ld: one was lost", live + 1, (long)cuda->live);
        cuda->capturing = NULL;
        EXPECT(usual(0, NULL), SF_OK, ""); /* no lock is still held */
        EXPECT(lengthy(0, NULL, 1 << 26), SF_OK, "");
}

static void test_errors(void)
{
        cuda->result[FAKE_launch] = 700;
        EXPECT(usual(0, NULL), SF_DEVICE_ERROR, "cannot use the device any more");
        EXPECT(lengthy(0, NULL, 1 << 26), SF_DEVICE_ERROR, "CUDA_ERROR_ILLEGAL_ADDRESS");
        cpu_works();
        cuda->result[FAKE_launch] = CU_OUT_OF_MEMORY;
        EXPECT(usual(0, NULL), SF_OUT_OF_MEMORY, "launching");
        cuda->result[FAKE_launch] = 0;
        cuda->result[FAKE_capture_info] = 700;
        EXPECT(lengthy(0, NULL, 1 << 26), SF_DEVICE_ERROR, "CUDA_ERROR_ILLEGAL_ADDRESS");
        cuda->result[FAKE_capture_info] = 0;
        cuda->result[FAKE_context_push] = CU_INVALID_CONTEXT;
        cuda->set_current(1);
        EXPECT(usual(0, NULL), SF_DEVICE_ERROR, "entering");
        cuda->set_current(0);
        cuda->result[FAKE_context_push] = 0;
        EXPECT(usual(0, NULL), SF_OK, "");

        /* An invalid stream is reported, and no state is lost. */
        long loads = calls(FAKE_module_load);
        cuda->result[FAKE_launch] = cuda->result[FAKE_stream_flags] = CU_INVALID_HANDLE;
        EXPECT(usual(0, (void *)0x4000), SF_DEVICE_ERROR, "the stream must be a live one");
        cuda->result[FAKE_launch] = cuda->result[FAKE_stream_flags] = 0;
        EXPECT(usual(0, NULL), SF_OK, "");
        CHECK(calls(FAKE_module_load) == loads, "modules were loaded again");
        /* The context was reset: the next call starts anew, from the disk. */
        long compiles = nvrtc->compiles;
        cuda->result[FAKE_launch] = CU_CONTEXT_DESTROYED;
        EXPECT(usual(0, NULL), SF_DEVICE_ERROR, "anew");
        cuda->result[FAKE_launch] = 0;
        EXPECT(usual(0, NULL), SF_OK, "");
        CHECK(calls(FAKE_module_load) == loads + 1 && nvrtc->compiles == compiles, "%ld loads", calls(FAKE_module_load) - loads);

        /* A cached binary the driver refuses is compiled again; so is one it refuses when fresh, but only said so. */
        cuda->result[FAKE_launch] = CU_CONTEXT_DESTROYED;
        usual(0, NULL);
        cuda->result[FAKE_launch] = 0;
        cuda->result[FAKE_module_load] = CU_NO_BINARY;
        EXPECT(usual(0, NULL), SF_DEVICE_ERROR, "newer than the driver");
        CHECK(nvrtc->compiles == compiles + 1, "%ld", nvrtc->compiles - compiles);
        cuda->result[FAKE_module_load] = 0;
        EXPECT(usual(0, NULL), SF_OK, "");
}

static void test_compile_error(void)
{
        nvrtc->fail = 1;
        int64_t shape[] = {64, 1000};
        sf_tensor x = {.data = at(0, 0), .device = {SF_CUDA, 0}, .ndim = 2, .dtype = SF_I16, .shape = shape}, y = x;
        y.data = at(0, 1 << 30);
        EXPECT(sf_scan(NULL, &x, &y, NULL), SF_DEVICE_ERROR, "error: the test told it so");
        nvrtc->fail = 0;
        EXPECT(sf_scan(NULL, &x, &y, NULL), SF_OK, "");
        CHECK(strstr(nvrtc->options, "--gpu-architecture=sm_90") && strstr(nvrtc->options, "--fmad=false"), "%s", nvrtc->options);
}

/* Many threads need the same kernels that are not compiled yet: each is compiled once. */
static void *thread_main(void *argument)
{
        int number = *(int *)argument;
        int64_t shape[] = {1, 1 << 26};
        sf_dtype dtypes[] = {SF_U32, SF_U64, SF_I8};
        for (int i = 0; i < 300; i++) {
                sf_tensor x = {.data = at(1, 0), .device = {SF_CUDA, 1}, .ndim = 2, .dtype = dtypes[i % 3], .shape = shape}, y = x;
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                y.data = at(1, (uint64_t)1 << 36);
                o.stream = (void *)(uintptr_t)(number % 2 ? 0 : 0x100 * number);
                sf_status status = sf_scan(NULL, &x, &y, &o);
                if (status != SF_OK)
                        return strdup(sf_last_error(NULL));
        }
        return NULL;
}

static void test_threads(void)
{
        pthread_t threads[8];
        int numbers[8];
        long compiles = nvrtc->compiles, loads = calls(FAKE_module_load);
        for (int i = 0; i < 8; i++) {
                numbers[i] = i;
                pthread_create(&threads[i], NULL, thread_main, &numbers[i]);
        }
        for (int i = 0; i < 8; i++) {
                void *sentence;
                pthread_join(threads[i], &sentence);
                CHECK(!sentence, "thread %d: %s", i, (char *)sentence);
                free(sentence);
        }
        CHECK(nvrtc->compiles - compiles == calls(FAKE_module_load) - loads, "%ld compiled", nvrtc->compiles - compiles);
        CHECK(nvrtc->compiles - compiles <= 3 * SF_CUDA_MAX_LAUNCHES, "%ld compiled", nvrtc->compiles - compiles);
        CHECK(cuda->pushed == 0, "%ld contexts left", (long)cuda->pushed);
}

static int stop_early(void *user, const char *what, int32_t done, int32_t of)
{
        CHECK(what[0] && done >= 1 && done <= of, "%d of %d", done, of);
        return ++*(int *)user == 5;
}

static void count_entry(void *user, const char *name, const char *about, int64_t bytes, int64_t used)
{
        CHECK(strlen(name) > 64 && strstr(about, "NVRTC 13.0") && bytes > 0 && used > 0, "%s: %s", name, about);
        ++*(int *)user;
}

static void test_listing(void)
{
        int32_t count = -1;
        int turns = 0, entries = 0;
        int64_t removed = 0;
        char path[256];
        sf_device device = {SF_CUDA, 1};
        sf_device_info info = SF_DEVICE_INFO_INIT;
        EXPECT(sf_device_count(NULL, SF_CUDA, &count), SF_OK, "");
        CHECK(count == 2, "%d devices", count);
        EXPECT(sf_device_describe(NULL, device, &info), SF_OK, "");
        CHECK(info.capability == 90 && info.driver == 13000 && info.compiler == 13000 && strstr(info.compiler_path, "fake"), "%s, %s", info.name,
              info.compiler_path);
        /* From an older header: what it has, and no byte more. From none: refused. */
        info.size = offsetof(sf_device_info, multiprocessors);
        info.capability = 0;
        info.multiprocessors = -5;
        EXPECT(sf_device_describe(NULL, device, &info), SF_OK, "");
        CHECK(info.size == offsetof(sf_device_info, multiprocessors) && info.capability == 90 && info.multiprocessors == -5, "a shorter struct: %d", info.multiprocessors);
        info.size = 0;
        EXPECT(sf_device_describe(NULL, device, &info), SF_INVALID_ARGUMENT, "of another size");
        info.size = (size_t)1 << 40;
        EXPECT(sf_device_describe(NULL, device, &info), SF_INVALID_ARGUMENT, "of another size");
        info.size = sizeof info;
        device.device_id = 2;
        EXPECT(sf_device_describe(NULL, device, &info), SF_NO_DEVICE, "no CUDA device 2");
        device.device_id = 1;
        EXPECT(sf_cache_warm(NULL, device, stop_early, &turns), SF_OK, "");
        CHECK(turns == 5, "%d", turns);
        EXPECT(sf_cache_path(NULL, path, sizeof path), SF_OK, "");
        CHECK(!strcmp(path, getenv("SCANFOLD_CACHE_DIR")), "%s", path);
        EXPECT(sf_cache_list(NULL, count_entry, &entries), SF_OK, "");
        EXPECT(sf_cache_clear(NULL, &removed), SF_OK, "");
        CHECK(entries > 5 && removed == entries, "%d listed, %d removed", entries, (int)removed);
}

/* A child of fork cannot use a driver that its parent used, but it can use the CPU. Nothing
 * hangs, whatever locks other threads held. */
static void check_child(sf_status expected, const char *words)
{
        fflush(NULL);
        pid_t child = fork();
        if (!child) {
                alarm(20);
                failures = 0;
                EXPECT(usual(0, NULL), expected, words);
                cpu_works();
                fflush(NULL);
                _exit(failures != 0);
        }
        int status;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d", status);
}

static void run_all(void)
{
        check_child(SF_OK, ""); /* before anything was loaded */
        EXPECT(usual(0, NULL), SF_OK, "");
        EXPECT(usual(1, NULL), SF_OK, "");
        test_plans();
        test_tiles();
        test_shared_tiles();
        test_contexts();
        test_pointers();
        test_warm();
        test_fused();
        test_siblings();
        test_narrow_chunks();
        test_workspace();
        test_workspace_of_group();
        test_cost();
        test_scratch();
        test_watched();
        test_capture();
        test_memory();
        test_errors();
        test_compile_error();
        test_threads();
        test_listing();
        check_child(SF_NO_DEVICE, "forked");
        EXPECT(usual(0, NULL), SF_OK, "");
}

/* ------------------------------------------------------------------------------------------------------------
 * Drivers and compilers that do not
 * ---------------------------------------------------------------------------------------------------------- */
static void run_scenario(const char *scenario)
{
        int32_t count = -1;
        if (!strcmp(scenario, "no-driver")) {
                setenv("SCANFOLD_LIBCUDA", "/nowhere/libcuda.so.1", 1);
                EXPECT(usual(0, NULL), SF_NO_DEVICE, "/nowhere/libcuda.so.1");
                check_child(SF_NO_DEVICE, "/nowhere/libcuda.so.1");
                EXPECT(sf_device_count(NULL, SF_CUDA, &count), SF_NO_DEVICE, "driver");
                CHECK(count == 0, "%d", count);
        } else if (!strcmp(scenario, "not-a-driver")) {
                setenv("SCANFOLD_LIBCUDA", getenv("SCANFOLD_NVRTC"), 1);
                EXPECT(usual(0, NULL), SF_NO_DEVICE, "some other library");
        } else if (!strcmp(scenario, "no-gpu")) {
                cuda->result[FAKE_init] = 100;
                EXPECT(usual(0, NULL), SF_NO_DEVICE, "initialising the CUDA driver");
                cuda->result[FAKE_init] = 0; /* one has been plugged in */
                EXPECT(usual(0, NULL), SF_OK, "");
        } else if (!strcmp(scenario, "old-driver")) {
                cuda->version = 11040;
                EXPECT(usual(0, NULL), SF_NO_DEVICE, "is for CUDA 11.4; it must be for 11.8 or newer");
        } else if (!strcmp(scenario, "old-gpu")) {
                cuda->capability = 61;
                EXPECT(usual(0, NULL), SF_UNSUPPORTED, "compute capability 6.1");
        } else if (!strcmp(scenario, "no-overlap")) { /* neither a chip before 9.0 nor a driver before 12.3 is asked for it */
                cuda->capability = 86;
                EXPECT(scan(0, at(0, 0), at(0, 1 << 30), 16384, 1024, 1, NULL), SF_OK, "");
                cuda->capability = 90;
                EXPECT(scan(1, at(1, 0), at(1, 1 << 30), 16384, 1024, 1, NULL), SF_OK, "");
                CHECK(cuda->launches == 2 && !cuda->last[0].overlaps && cuda->last[1].overlaps, "%ld launches", (long)cuda->launches);
                EXPECT(scan(1, at(1, 0), at(1, (uint64_t)1 << 40), 32768, 32768, 0, NULL), SF_OK, ""); /* 256 strips, and long ones */
                CHECK(cuda->launches == 3 && !cuda->last[2].overlaps, "%ld launches", (long)cuda->launches);
        } else if (!strcmp(scenario, "no-overlap-driver")) {
                cuda->version = 12020;
                EXPECT(scan(0, at(0, 0), at(0, 1 << 30), 16384, 1024, 1, NULL), SF_OK, "");
                CHECK(cuda->launches == 1 && !cuda->last[0].overlaps, "%ld launches", (long)cuda->launches);
        } else if (!strcmp(scenario, "forgotten-gpu")) {
                cuda->capability = 70; /* which NVRTC 13 knows no more */
                EXPECT(usual(0, NULL), SF_NO_DEVICE, "compiles for 7.5 and newer");
        } else if (!strcmp(scenario, "new-gpu")) {
                cuda->capability = 130;
                EXPECT(usual(0, NULL), SF_OK, "");
                CHECK(strstr(nvrtc->options, "--gpu-architecture=compute_121"), "%s", nvrtc->options);
                CHECK(!strncmp(cuda->last[0].image, "fake ptx ", 9), "not PTX");
        } else if (!strcmp(scenario, "no-compiler")) {
                char *right = strdup(getenv("SCANFOLD_NVRTC"));
                setenv("SCANFOLD_NVRTC", "/nowhere/libnvrtc.so", 1);
                EXPECT(usual(0, NULL), SF_NO_DEVICE, "/nowhere/libnvrtc.so");
                setenv("SCANFOLD_NVRTC", right, 1); /* installed meanwhile */
                EXPECT(usual(0, NULL), SF_OK, "");
                free(right);
        } else if (!strcmp(scenario, "no-memory")) {
                cuda->result[FAKE_primary_retain] = CU_OUT_OF_MEMORY;
                EXPECT(usual(0, NULL), SF_OUT_OF_MEMORY, "opening the primary context");
                cuda->result[FAKE_primary_retain] = 0;
                EXPECT(usual(0, NULL), SF_OK, "");
        } else if (!strcmp(scenario, "no-pools")) {
                cuda->pools = 0;
                for (int64_t n = 1 << 20; n < (int64_t)1 << 33; n *= 4)
                        EXPECT(lengthy(0, NULL, n), SF_OK, "");
                CHECK(calls(FAKE_allocate_async) == 0 && calls(FAKE_allocate) > 1 && cuda->live == 1, "%ld blocks", (long)cuda->live);
        } else {
                CHECK(0, "there is no scenario %s", scenario);
        }
        cpu_works();
}

int main(int argc, char **argv)
{
        char folder[] = "/tmp/scanfold-test-XXXXXX", command[128];
        if (argc < 4) {
                fprintf(stderr, "usage: test_launch SCENARIO FAKE_LIBCUDA FAKE_NVRTC\n");
                return 2;
        }
        setenv("SCANFOLD_LIBCUDA", argv[2], 1);
        setenv("SCANFOLD_NVRTC", argv[3], 1);
        setenv("SCANFOLD_CACHE_DIR", mkdtemp(folder), 1);
        void *a = dlopen(argv[2], RTLD_NOW), *b = dlopen(argv[3], RTLD_NOW);
        cuda = a ? dlsym(a, "fake_cuda_state") : NULL;
        nvrtc = b ? dlsym(b, "fake_nvrtc_state") : NULL;
        if (!cuda || !nvrtc) {
                fprintf(stderr, "no fake driver: %s\n", dlerror());
                return 2;
        }
        if (strcmp(argv[1], "all"))
                run_scenario(argv[1]);
        else
                run_all();
        snprintf(command, sizeof command, "rm -rf %s", folder);
        if (system(command))
                fprintf(stderr, "%s was not removed\n", folder);
        return finish(argv[1]);
}
