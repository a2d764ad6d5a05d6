/*
 * Whole plans on the device. Random graphs are ../test_expr_random.c, its main under another name, run by gpu_engine.c's plans: bit by bit
 * under `exact`. Then what the reference cannot show: results kept by version numbers, runs that overlap on two streams and from two
 * threads, capture in a graph. With --time it measures instead, everything beside a device copy of as many bytes in the same rounds.
 *
 *     gpu_expr [CASES]        SCANFOLD_GPU_SHARD=k/n takes every n-th plan
 *     gpu_expr --time [gemm|scans|siblings]
 */
#include "gpu.h"
#include "harness.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int expr_main(int argc, char **argv);

static long checks;

/* ------------------------------------------------------------------------------------------------------------
 * An expression with its tensors, here and on the device
 * ---------------------------------------------------------------------------------------------------------- */
#define TENSORS 6

typedef struct side {
        sf_tensor tensor[TENSORS]; /* inputs, then outputs */
        sf_plan *plan;
} side;

typedef struct work {
        const char *text;
        int32_t inputs, outputs;
        int64_t shape[TENSORS][SF_MAX_NDIM];
        size_t bytes[TENSORS];
        side host, device;
        sf_context *ctx; /* the device's */
} work;

static void must(sf_status status, const work *w)
{
        if (status == SF_OK)
                return;
        fprintf(stderr, "%s: %s\n", w->text, sf_last_error(w->ctx));
        exit(3);
}

static size_t bytes_of(const sf_tensor *t)
{
        size_t bytes = t->dtype.bits / 8u;
        for (int32_t d = 0; d < t->ndim; d++)
                bytes *= (size_t)t->shape[d];
        return bytes;
}

/* Compact tensors of these shapes; `here`: on the host as well, with a plan by the reference. */
static void work_make(work *w, const char *text, int32_t inputs, const int64_t (*shapes)[4], const sf_dtype *dtypes, bool here)
{
        sf_graph *graph;
        memset(w, 0, sizeof *w);
        w->text = text;
        w->inputs = inputs;
        w->ctx = engines[1].ctx;
        must(sf_graph_parse(w->ctx, text, &graph), w);
        for (int32_t i = 0; i < inputs; i++) {
                memcpy(w->shape[i], shapes[i] + 1, 3 * sizeof(int64_t));
                w->device.tensor[i] = (sf_tensor){.device = {SF_CUDA, 0}, .ndim = (int32_t)shapes[i][0], .dtype = dtypes[i], .shape = w->shape[i]};
                w->host.tensor[i] = w->device.tensor[i];
                w->host.tensor[i].device = (sf_device){SF_CPU, 0};
        }
        must(sf_plan_create(w->ctx, graph, inputs, w->device.tensor, NULL, &w->device.plan), w);
        if (here)
                must(sf_plan_create(REF, graph, inputs, w->host.tensor, NULL, &w->host.plan), w);
        w->outputs = sf_plan_outputs(w->device.plan);
        for (int32_t i = 0; i < inputs + w->outputs; i++) {
                sf_tensor *t = &w->device.tensor[i];
                gpu_address memory;
                if (i >= inputs) {
                        *t = (sf_tensor){.device = {SF_CUDA, 0}, .shape = w->shape[i]};
                        must(sf_plan_output(w->device.plan, i - inputs, &t->ndim, w->shape[i], &t->dtype), w);
                }
                w->bytes[i] = bytes_of(t);
                GPU(gpu.allocate(&memory, w->bytes[i]));
                GPU(gpu.set(memory, 0, w->bytes[i]));
                t->data = (void *)(uintptr_t)memory;
                w->host.tensor[i] = *t;
                w->host.tensor[i].device = (sf_device){SF_CPU, 0};
                w->host.tensor[i].data = here ? calloc(1, w->bytes[i]) : NULL;
        }
        sf_graph_destroy(graph);
}

static void work_free(work *w)
{
        for (int32_t i = 0; i < w->inputs + w->outputs; i++) {
                GPU(gpu.release((gpu_address)(uintptr_t)w->device.tensor[i].data));
                free(w->host.tensor[i].data);
        }
        sf_plan_destroy(w->host.plan);
        sf_plan_destroy(w->device.plan);
}

/* New numbers in input i, here and there: floats of a few bits more than sums can keep, or bools. */
static void work_fill(work *w, int32_t i, uint64_t seed)
{
        sf_tensor *t = &w->host.tensor[i];
        for (size_t k = 0; k < w->bytes[i] / (t->dtype.bits / 8u); k++) {
                uint64_t h = hash(seed * 0x9e3779b9u + k);
                if (t->dtype.bits == 8)
                        ((uint8_t *)t->data)[k] = h & 1;
                else
                        ((float *)t->data)[k] = (float)(h % 2000003) / 999983 - 1;
        }
        GPU(gpu.put((gpu_address)(uintptr_t)w->device.tensor[i].data, t->data, w->bytes[i]));
        GPU(gpu.synchronize());
}

static void work_run(work *w, gpu_handle stream, const uint64_t *versions)
{
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        o.stream = stream;
        o.versions = versions;
        must(sf_plan_run(w->device.plan, w->device.tensor, w->device.tensor + w->inputs, &o), w);
}

/* What the reference makes of the host's inputs must be what the device's outputs hold; then they hold something else. */
static void work_check(work *w, const char *when)
{
        must(sf_plan_run(w->host.plan, w->host.tensor, w->host.tensor + w->inputs, NULL), w);
        for (int32_t i = w->inputs; i < w->inputs + w->outputs; i++) {
                const sf_tensor *t = &w->host.tensor[i];
                size_t size = t->dtype.bits / 8u, wrong = 0;
                int dt = DT_F32;
                char *got = malloc(w->bytes[i]);
                for (int d = 0; d < DT_COUNT; d++)
                        dt = dts[d].dtype.code == t->dtype.code && dts[d].dtype.bits == t->dtype.bits ? d : dt;
                GPU(gpu.get(got, (gpu_address)(uintptr_t)w->device.tensor[i].data, w->bytes[i]));
                for (size_t k = 0; k < w->bytes[i] / size; k++)
                        wrong += !same_bits(dt, got + k * size, (char *)t->data + k * size);
                CHECK(!wrong, "%s, %s: %zu of %zu elements of output %d differ", w->text, when, wrong, w->bytes[i] / size, (int)(i - w->inputs));
                GPU(gpu.set((gpu_address)(uintptr_t)w->device.tensor[i].data, 0xee, w->bytes[i]));
                GPU(gpu.synchronize());
                free(got);
                checks++;
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * What only a device can show
 * ---------------------------------------------------------------------------------------------------------- */
#define GEMM "sum((x @ w.T) / 2, axis=1, keepdim=True) * 1.5"

static void test_kept(void)
{
        static const int64_t shapes[][4] = {{2, 60, 700}, {2, 900, 700}};
        static const sf_dtype dtypes[] = {SF_F32_INIT, SF_F32_INIT};
        work w;
        gpu_handle stream[2];
        uint64_t versions[2] = {0, 7};
        GPU(gpu.stream_create(&stream[0], 1));
        GPU(gpu.stream_create(&stream[1], 1));
        work_make(&w, GEMM, 2, shapes, dtypes, true);
        work_fill(&w, 0, 1);
        work_fill(&w, 1, 2);
        for (int turn = 0; turn < 2; turn++) {
                work_run(&w, stream[0], versions);
                GPU(gpu.synchronize());
                work_check(&w, turn ? "the kept sums" : "sums that will be kept");
        }
        /* On another stream they are waited for. */
        work_run(&w, stream[1], versions);
        GPU(gpu.synchronize());
        work_check(&w, "kept on another stream");
        /* W changes behind an unchanged version: it is not looked at, as the caller said it need not be. x is. */
        gpu_address weights = (gpu_address)(uintptr_t)w.device.tensor[1].data;
        GPU(gpu.set(weights, 0, w.bytes[1]));
        work_fill(&w, 0, 3);
        work_run(&w, stream[0], versions);
        GPU(gpu.synchronize());
        work_check(&w, "an unchanged version");
        work_fill(&w, 1, 4);
        versions[1] = 8;
        work_run(&w, stream[0], versions);
        GPU(gpu.synchronize());
        work_check(&w, "a changed version");
        work_fill(&w, 1, 5);
        versions[1] = 0;
        work_run(&w, stream[0], versions);
        GPU(gpu.synchronize());
        work_check(&w, "an unknown version");
        work_run(&w, stream[0], NULL);
        GPU(gpu.synchronize());
        work_check(&w, "no versions");
        work_free(&w);
        GPU(gpu.stream_destroy(stream[0]));
        GPU(gpu.stream_destroy(stream[1]));
}

/* Expressions of several passes, with scratch between them, with chunks, with siblings. */
#define WORKS 5
static work works[WORKS];

static void make_works(void)
{
        static const sf_dtype dtypes[] = {SF_F32_INIT, SF_BOOL_INIT};
        work_make(&works[0], "sum(square(x - mean(x, 1, keepdim=True)), 1)", 1, (const int64_t[][4]){{2, 300, 1111}}, dtypes, true);
        work_make(&works[1], "sum(x, 0), max(x, 0), mean(x * x, 0)", 1, (const int64_t[][4]){{2, 20000, 64}}, dtypes, true);
        work_make(&works[2], "cumsum(x * m, 1), sum(x * m, 1)", 2, (const int64_t[][4]){{2, 3, 200003}, {2, 3, 200003}}, dtypes, true);
        work_make(&works[3], "flip(cumsum(flip(x, 0), 0), 0) / max(x)", 1, (const int64_t[][4]){{2, 700, 513}}, dtypes, true);
        work_make(&works[4], "sum(x), min(x), prod(x * 0.001 + 1)", 1, (const int64_t[][4]){{2, 1500, 1001}}, dtypes, true);
        for (int k = 0; k < WORKS; k++)
                for (int32_t i = 0; i < works[k].inputs; i++)
                        work_fill(&works[k], i, (uint64_t)(10 * k + i + 1));
}

/* All of them under way at once, on two streams in turn, several times over: scratch that two runs shared would show. */
static void test_streams(void)
{
        gpu_handle stream[2];
        GPU(gpu.stream_create(&stream[0], 1));
        GPU(gpu.stream_create(&stream[1], 1));
        for (int turn = 0; turn < 6; turn++) {
                for (int k = 0; k < WORKS; k++)
                        work_run(&works[k], stream[(k + turn) & 1], NULL);
                if (turn == 2)
                        GPU(gpu.synchronize());
        }
        GPU(gpu.synchronize());
        for (int k = 0; k < WORKS; k++)
                work_check(&works[k], "two streams");
        GPU(gpu.stream_destroy(stream[0]));
        GPU(gpu.stream_destroy(stream[1]));
}

/* One plan of two threads, each with a stream and tensors of its own. */
static void *run_many(void *user)
{
        work *w = user;
        gpu_handle stream, context;
        int device;
        GPU(gpu.device_get(&device, 0));
        GPU(gpu.retain(&context, device));
        GPU(gpu.set_current(context));
        GPU(gpu.stream_create(&stream, 1));
        for (int k = 0; k < 50; k++)
                work_run(w, stream, NULL);
        GPU(gpu.stream_synchronize(stream));
        GPU(gpu.stream_destroy(stream));
        return NULL;
}

static void test_threads(void)
{
        static const int64_t shapes[][4] = {{2, 20000, 64}};
        static const sf_dtype dtypes[] = {SF_F32_INIT};
        work twin;
        pthread_t thread[2];
        work_make(&twin, works[1].text, 1, shapes, dtypes, true);
        work_fill(&twin, 0, 77);
        sf_plan *own = twin.device.plan;
        twin.device.plan = works[1].device.plan;
        work *of[2] = {&works[1], &twin};
        for (int i = 0; i < 2; i++)
                if (pthread_create(&thread[i], NULL, run_many, of[i]))
                        exit(3);
        for (int i = 0; i < 2; i++)
                pthread_join(thread[i], NULL);
        GPU(gpu.synchronize());
        work_check(&works[1], "two threads");
        work_check(&twin, "two threads");
        twin.device.plan = own;
        work_free(&twin);
}

/* Captured once, cold or warm, and replayed over inputs that have changed since; the same plan beside it on the stream disturbs nothing. */
static void test_capture(void)
{
        for (int k = 0; k < WORKS; k++) {
                gpu_handle stream, graph, exec;
                work *w = &works[k];
                GPU(gpu.stream_create(&stream, 1));
                GPU(gpu.capture_begin(stream, 2));
                work_run(w, stream, NULL);
                GPU(gpu.capture_end(stream, &graph));
                GPU(gpu.instantiate(&exec, graph, 0));
                for (int turn = 0; turn < 2; turn++) {
                        for (int32_t i = 0; i < w->inputs; i++)
                                work_fill(w, i, (uint64_t)(100 + 10 * k + 2 * turn + i));
                        GPU(gpu.graph_launch(exec, stream));
                        GPU(gpu.stream_synchronize(stream));
                        work_check(w, "a captured run");
                        work_run(w, stream, NULL);
                        GPU(gpu.stream_synchronize(stream));
                        work_check(w, "a run beside a captured one");
                }
                GPU(gpu.exec_destroy(exec));
                GPU(gpu.graph_destroy(graph));
                GPU(gpu.stream_destroy(stream));
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Times
 * ---------------------------------------------------------------------------------------------------------- */
static void run_plan(void *user, gpu_handle stream)
{
        work_run(user, stream, NULL);
}

/* With W unchanged. The caches of a device hold one x of the size that is timed: several take turns. */
#define TURNS 4
typedef struct kept_run {
        work *w;
        void *x[TURNS];
        int turn;
} kept_run;

static void run_kept(void *user, gpu_handle stream)
{
        static const uint64_t versions[2] = {0, 1};
        kept_run *k = user;
        k->w->device.tensor[0].data = k->x[k->turn++ % TURNS];
        work_run(k->w, stream, versions);
}

/* The calls that a user would write by hand. */
typedef struct direct {
        const work *w;
        int32_t axis;
        bool reverse, masked;
} direct;

static void run_direct(void *user, gpu_handle stream)
{
        const direct *d = user;
        const sf_tensor *t = d->w->device.tensor;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        o.axis = d->axis;
        o.reverse = d->reverse;
        o.mask = d->masked ? &t[1] : NULL;
        o.stream = stream;
        must(sf_scan(d->w->ctx, &t[0], &t[d->w->inputs], &o), d->w);
}

static gpu_copy copy_of(size_t bytes)
{
        static gpu_address memory[2];
        static size_t room;
        if (bytes / 2 > room) {
                for (int i = 0; i < 2; i++) {
                        if (memory[i])
                                GPU(gpu.release(memory[i]));
                        GPU(gpu.allocate(&memory[i], bytes / 2));
                        GPU(gpu.set(memory[i], 0, bytes / 2));
                }
                room = bytes / 2;
        }
        return (gpu_copy){memory[0], memory[1], bytes};
}

/* `bar`, in milliseconds, if there is one. */
static void report(const char *name, double took, double copied, double bar)
{
        printf("%-58s %9.4f ms", name, took * 1e3);
        if (copied > 0)
                printf(", %5.3f of a copy's speed", copied / took);
        if (bar > 0)
                printf(", bar %.3f: %s", bar, took * 1e3 <= bar ? "met" : "missed");
        printf("\n");
}

static void time_gemm(void)
{
        static const int64_t shapes[][4] = {{2, 1024, 8192}, {2, 8192, 8192}};
        static const sf_dtype dtypes[] = {SF_F32_INIT, SF_F32_INIT};
        work w;
        double took[2];
        work_make(&w, GEMM, 2, shapes, dtypes, false);
        gpu_copy copy = copy_of(w.bytes[0] + w.bytes[1] + w.bytes[2]);
        gpu_time(1, (gpu_work *[]){run_plan}, (void *[]){&w}, 20, took);
        report("gemm, divide, sum, scale, replayed", took[0], 0, 0.082);
        gpu_time_calls(2, (gpu_work *[]){run_plan, gpu_copy_work}, (void *[]){&w, &copy}, 50, took);
        report("gemm, divide, sum, scale, called", took[0], took[1], 0.082);
        kept_run kept = {.w = &w, .x = {w.device.tensor[0].data}};
        for (int i = 1; i < TURNS; i++) {
                gpu_address memory;
                GPU(gpu.allocate(&memory, w.bytes[0]));
                GPU(gpu.set(memory, 0, w.bytes[0]));
                kept.x[i] = (void *)(uintptr_t)memory;
        }
        copy = copy_of(w.bytes[0] + w.bytes[2]);
        gpu_time_calls(2, (gpu_work *[]){run_kept, gpu_copy_work}, (void *[]){&kept, &copy}, 200, took);
        report("the same, W's column sums kept, called", took[0], took[1], 0.014);
        w.device.tensor[0].data = kept.x[0];
        for (int i = 1; i < TURNS; i++)
                GPU(gpu.release((gpu_address)(uintptr_t)kept.x[i]));
        work_free(&w);
}

static void time_scans(void)
{
        static const struct {
                const char *text;
                int32_t inputs, axis;
                bool reverse, masked;
        } listed[] = {{"cumsum(x * m, 1)", 2, 1, false, true},
                      {"cumsum(x * m, 0)", 2, 0, false, true},
                      {"flip(cumsum(flip(x, 1), 1), 1)", 1, 1, true, false},
                      {"flip(cumsum(flip(x, 0), 0), 0)", 1, 0, true, false}};
        static const int64_t shapes[][4] = {{2, 32768, 32768}, {2, 32768, 32768}};
        static const sf_dtype dtypes[] = {SF_F32_INIT, SF_BOOL_INIT};
        for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
                work w;
                double took[3];
                char name[96];
                work_make(&w, listed[i].text, listed[i].inputs, shapes, dtypes, false);
                size_t bytes = w.bytes[0] + w.bytes[1] + (listed[i].inputs > 1 ? w.bytes[2] : 0);
                direct d = {&w, listed[i].axis, listed[i].reverse, listed[i].masked};
                gpu_copy copy = copy_of(bytes);
                gpu_time_calls(3, (gpu_work *[]){run_plan, run_direct, gpu_copy_work}, (void *[]){&w, &d, &copy}, 2, took);
                report(listed[i].text, took[0], took[2], 0);
                snprintf(name, sizeof name, "  the direct call; the operators take %.4f of it", took[0] / took[1]);
                report(name, took[1], took[2], 0);
                work_free(&w);
        }
}

static void time_siblings(void)
{
        static const char *const texts[] = {"sum(x, 1)", "max(x, 1)", "sum(x, 1), max(x, 1)", "sum(x, 1), max(x, 1), min(x, 1), sum(x * x, 1)"};
        static const int64_t shapes[][4] = {{3, 128, 4096, 4095}};
        static const sf_dtype dtypes[] = {SF_F32_INIT};
        enum { TEXTS = sizeof texts / sizeof *texts };
        work w[TEXTS];
        gpu_work *run[TEXTS + 1];
        void *user[TEXTS + 1];
        double took[TEXTS + 1];
        for (int i = 0; i < TEXTS; i++) {
                /* One x for all of them: four would fill a smaller device. */
                work_make(&w[i], texts[i], 1, shapes, dtypes, false);
                if (i) {
                        GPU(gpu.release((gpu_address)(uintptr_t)w[i].device.tensor[0].data));
                        w[i].device.tensor[0].data = w[0].device.tensor[0].data;
                }
                run[i] = run_plan;
                user[i] = &w[i];
        }
        gpu_copy copy = copy_of(w[0].bytes[0] + w[0].bytes[1]);
        run[TEXTS] = gpu_copy_work;
        user[TEXTS] = &copy;
        gpu_time_calls(TEXTS + 1, run, user, 2, took);
        for (int i = 0; i < TEXTS; i++) {
                char name[96];
                snprintf(name, sizeof name, "%s, %.3f of one sum", texts[i], took[i] / took[0]);
                report(name, took[i], took[TEXTS], 0);
        }
        for (int i = 0; i < TEXTS; i++) {
                gpu_address own;
                GPU(gpu.allocate(&own, 256)); /* to be freed in place of what the first has freed */
                work_free(&w[i]);
                if (i + 1 < TEXTS)
                        w[i + 1].device.tensor[0].data = (void *)(uintptr_t)own;
                else
                        GPU(gpu.release(own));
        }
}

int main(int argc, char **argv)
{
        char *arguments[] = {argv[0], argc > 1 ? argv[1] : "100", NULL};
        const char *shard = getenv("SCANFOLD_GPU_SHARD");
        if (argc > 1 && !strcmp(argv[1], "--time")) {
                const char *which = argc > 2 ? argv[2] : "";
                engines_open();
                if (!*which || !strcmp(which, "gemm"))
                        time_gemm();
                if (!*which || !strcmp(which, "scans"))
                        time_scans();
                if (!*which || !strcmp(which, "siblings"))
                        time_siblings();
                engines_close();
                return 0;
        }
        int failed = expr_main(2, arguments);
        /* Only one process does the rest. */
        if (shard && atol(shard))
                return failed;
        engines_open();
        test_kept();
        make_works();
        test_capture(); /* first, so that some kernels are compiled during a capture */
        test_streams();
        test_threads();
        for (int k = 0; k < WORKS; k++)
                work_free(&works[k]);
        engines_close();
        return failed | finish("gpu_expr", checks);
}
