/*
 * What only a device can show: streams, host threads, captured graphs, tensors of more than 2^32 elements, the caller's context,
 * bad pointers, a device that is reset. The bits over all of cases.def are gpu_test_scan's and gpu_test_fold's. With --time it measures instead what a warm call costs
 * the host.
 *
 *     test_gpu
 *     test_gpu --time
 */
#include "gpu.h"
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long checks;
static sf_context *ref;
#define OK(...)                                                                                                    \
        do {                                                                                                       \
                checks++;                                                                                          \
                sf_status ok_ = (__VA_ARGS__);                                                                     \
                CHECK(ok_ == SF_OK, "%s: %s", sf_status_name(ok_), sf_last_error(NULL));                           \
        } while (0)

static double seconds(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A cumulative sum of f32 with its input, its right answer, and its place on the device. */
typedef struct work {
        int64_t shape[2];
        int32_t axis;
        size_t bytes;
        float *x, *right, *got;
        gpu_address dx, dy;
} work;

static void work_make(work *w, int64_t rows, int64_t n, int32_t axis, uint64_t seed)
{
        w->shape[0] = rows;
        w->shape[1] = n;
        w->axis = axis;
        w->bytes = (size_t)(rows * n) * sizeof(float);
        w->x = malloc(w->bytes);
        w->right = malloc(w->bytes);
        w->got = malloc(w->bytes);
        for (int64_t i = 0; i < rows * n; i++)
                w->x[i] = (float)mixed(seed + (uint64_t)i);
        sf_tensor x = tensor(w->x, SF_F32, 2, w->shape), y = tensor(w->right, SF_F32, 2, w->shape);
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        o.axis = axis;
        OK(sf_scan(ref, &x, &y, &o));
        GPU(gpu.allocate(&w->dx, w->bytes));
        GPU(gpu.allocate(&w->dy, w->bytes));
        GPU(gpu.put(w->dx, w->x, w->bytes));
}

static sf_status work_run(const work *w, gpu_handle stream)
{
        sf_tensor x = tensor((void *)(uintptr_t)w->dx, SF_F32, 2, (int64_t *)w->shape), y;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        x.device = (sf_device){SF_CUDA, 0};
        y = x;
        y.data = (void *)(uintptr_t)w->dy;
        o.axis = w->axis;
        o.stream = stream;
        return sf_scan(NULL, &x, &y, &o);
}

static void work_check(work *w, const char *when)
{
        int64_t wrong = 0;
        GPU(gpu.get(w->got, w->dy, w->bytes));
        for (int64_t i = 0; i < w->shape[0] * w->shape[1]; i++)
                wrong += !same_bits(DT_F32, &w->got[i], &w->right[i]);
        checks++;
        CHECK(!wrong, "%s: %ld of %ld elements of (%ld, %ld) along %d differ", when, (long)wrong, (long)(w->shape[0] * w->shape[1]), (long)w->shape[0],
              (long)w->shape[1], (int)w->axis);
        GPU(gpu.set(w->dy, 0xee, w->bytes));
        GPU(gpu.synchronize());
}

#define WORKS 5
static work works[WORKS];

static void make_works(void)
{
        work_make(&works[0], 1, 3000001, 1, 1);
        work_make(&works[1], 700, 1000, 1, 2);
        work_make(&works[2], 700, 1000, 0, 3);
        work_make(&works[3], 200003, 5, 0, 4);
        work_make(&works[4], 7, 300007, 1, 5);
}

/* ------------------------------------------------------------------------------------------------------------
 * Streams and threads
 * ---------------------------------------------------------------------------------------------------------- */
static void test_streams(void)
{
        gpu_handle streams[8] = {NULL, (gpu_handle)1, (gpu_handle)2};
        for (int s = 3; s < 8; s++)
                GPU(gpu.stream_create(&streams[s], s % 2));
        for (int turn = 0; turn < 20; turn++) {
                for (int i = 0; i < WORKS; i++)
                        for (int again = 0; again < 3; again++)
                                OK(work_run(&works[i], streams[(turn + i) % 8]));
                GPU(gpu.synchronize());
                for (int i = 0; i < WORKS; i++)
                        work_check(&works[i], "on several streams");
        }
        for (int s = 3; s < 8; s++)
                GPU(gpu.stream_destroy(streams[s]));
        /* Streams come and go; their numbers do not come again, and memory does not run away. */
        size_t before, after, total;
        GPU(gpu.memory_info(&before, &total));
        for (int i = 0; i < 300; i++) {
                gpu_handle stream;
                GPU(gpu.stream_create(&stream, 1));
                OK(work_run(&works[0], stream));
                GPU(gpu.stream_destroy(stream));
        }
        GPU(gpu.synchronize());
        work_check(&works[0], "on streams destroyed at once");
        GPU(gpu.memory_info(&after, &total));
        CHECK(before - after < ((size_t)1 << 30) || after > before, "%zu bytes are gone", before - after);
}

typedef struct runner {
        work w;
        int number;
        sf_status status;
} runner;

static void *runner_main(void *argument)
{
        runner *r = argument;
        gpu_handle stream = (gpu_handle)(uintptr_t)(r->number % 3); /* no context is current here: none is needed */
        for (int i = 0; i < 200 && r->status == SF_OK; i++)
                r->status = work_run(&r->w, stream);
        return NULL;
}

static void test_threads(void)
{
        static runner runners[12];
        pthread_t threads[12];
        for (int i = 0; i < 12; i++) {
                runners[i].number = i;
                work_make(&runners[i].w, 1 + i % 3, 1000003 >> i % 3, 1, (uint64_t)(100 + i));
        }
        for (int i = 0; i < 12; i++)
                pthread_create(&threads[i], NULL, runner_main, &runners[i]);
        for (int i = 0; i < 12; i++) {
                pthread_join(threads[i], NULL);
                CHECK(runners[i].status == SF_OK, "thread %d: %s", i, sf_status_name(runners[i].status));
        }
        GPU(gpu.synchronize());
        for (int i = 0; i < 12; i++)
                work_check(&runners[i].w, "by several threads");
}

/* ------------------------------------------------------------------------------------------------------------
 * Graphs
 * ---------------------------------------------------------------------------------------------------------- */
static void test_graphs(void)
{
        gpu_handle stream, other, graph, exec;
        GPU(gpu.stream_create(&stream, 1));
        GPU(gpu.stream_create(&other, 1));
        for (int mode = 0; mode < 3; mode++) { /* global, thread-local, relaxed */
                static work cold[3];
                GPU(gpu.capture_begin(stream, mode));
                for (int i = 0; i < WORKS; i++)
                        OK(work_run(&works[i], stream));
                GPU(gpu.capture_end(stream, &graph));
                GPU(gpu.instantiate(&exec, graph, 0));
                /* The graph's scratch is its own: the same work beside it, on the stream it was captured on, disturbs nothing. */
                for (int turn = 0; turn < 20; turn++) {
                        GPU(gpu.graph_launch(exec, other));
                        OK(work_run(&works[0], stream));
                        OK(work_run(&works[4], stream));
                }
                GPU(gpu.synchronize());
                for (int i = 0; i < WORKS; i++)
                        work_check(&works[i], "by a graph");
                GPU(gpu.exec_destroy(exec));
                GPU(gpu.graph_destroy(graph));

                /* A kernel not yet compiled, asked for during a capture. */
                if (!cold[mode].x)
                        work_make(&cold[mode], 3 + mode, 50000 + 7 * mode, 1, (uint64_t)(50 + mode));
                GPU(gpu.capture_begin(stream, mode));
                OK(work_run(&cold[mode], stream));
                GPU(gpu.capture_end(stream, &graph));
                GPU(gpu.instantiate(&exec, graph, 0));
                GPU(gpu.graph_launch(exec, stream));
                GPU(gpu.synchronize());
                work_check(&cold[mode], "captured cold");
                GPU(gpu.exec_destroy(exec));
                GPU(gpu.graph_destroy(graph));
        }
        GPU(gpu.stream_destroy(stream));
        GPU(gpu.stream_destroy(other));
}

/* ------------------------------------------------------------------------------------------------------------
 * More than 2^32 elements: zeros, but for a few rows whose sums are known
 * ---------------------------------------------------------------------------------------------------------- */
static void test_many(void)
{
        int64_t shape[2] = {70000, 61441}, rows[3] = {0, 35000, 69999}, flat = shape[0] * shape[1];
        size_t row = (size_t)shape[1] * 4, bytes = (size_t)flat * 4, free_bytes, total;
        gpu_address dx, dy;
        float *x = malloc(3 * row), *right = malloc(3 * row), *got = malloc(row), sum;
        GPU(gpu.memory_info(&free_bytes, &total));
        if (free_bytes < 2 * bytes + ((size_t)4 << 30)) {
                printf("skipped: 2^32 elements need %zu bytes of device memory, %zu are free\n", 2 * bytes, free_bytes);
                return;
        }
        GPU(gpu.allocate(&dx, bytes));
        GPU(gpu.allocate(&dy, bytes));
        GPU(gpu.set(dx, 0, bytes));
        for (int64_t i = 0; i < 3 * shape[1]; i++)
                x[i] = (float)mixed((uint64_t)i + 77);
        for (int k = 0; k < 3; k++)
                GPU(gpu.put(dx + (size_t)rows[k] * row, x + k * shape[1], row));
        sf_tensor tx = tensor((void *)(uintptr_t)dx, SF_F32, 2, shape), ty;
        tx.device = (sf_device){SF_CUDA, 0};
        ty = tx;
        ty.data = (void *)(uintptr_t)dy;

        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        int64_t three[2] = {3, shape[1]};
        sf_tensor hx = tensor(x, SF_F32, 2, three), hy = tensor(right, SF_F32, 2, three);
        OK(sf_scan(NULL, &tx, &ty, &o));
        OK(sf_scan(ref, &hx, &hy, &o));
        for (int k = 0; k < 3; k++) {
                GPU(gpu.get(got, dy + (size_t)rows[k] * row, row));
                CHECK(!memcmp(got, right + k * shape[1], row), "rows: row %ld differs", (long)rows[k]);
        }
        /* Down the columns: 70000 splits at 65536, so the three meet as (a + b) + c, and zeros change nothing. */
        o.axis = 0;
        OK(sf_scan(NULL, &tx, &ty, &o));
        for (int k = 0; k < 3; k++) {
                int64_t wrong = 0;
                GPU(gpu.get(got, dy + (size_t)rows[k] * row, row));
                for (int64_t j = 0; j < shape[1]; j++) {
                        float a = x[j], ab = a + x[shape[1] + j], abc = ab + x[2 * shape[1] + j], want = k == 0 ? a : k == 1 ? ab : abc;
                        wrong += memcmp(&want, &got[j], 4) != 0;
                }
                CHECK(!wrong, "columns: %ld of row %ld differ", (long)wrong, (long)rows[k]);
        }
        /* One line of them all, forwards and backwards: past the first row, the reference on what is not zero. */
        for (int reverse = 0; reverse < 2; reverse++) {
                tx.ndim = ty.ndim = 1;
                tx.shape = ty.shape = &flat;
                o.axis = 0;
                o.reverse = reverse;
                OK(sf_scan(NULL, &tx, &ty, &o));
                sf_fold_options f = SF_FOLD_OPTIONS_INIT;
                sf_tensor ts = tensor((void *)(uintptr_t)dx, SF_F32, 0, NULL);
                gpu_address d;
                float last;
                GPU(gpu.allocate(&d, 256));
                ts.device = tx.device;
                ts.data = (void *)(uintptr_t)d;
                f.reverse = reverse;
                OK(sf_fold(NULL, &tx, &ts, &f));
                GPU(gpu.get(&sum, d, 4));
                GPU(gpu.get(&last, reverse ? dy : dy + bytes - 4, 4));
                CHECK(!memcmp(&sum, &last, 4), "the last of %ld elements is %a, their sum %a", (long)flat, (double)last, (double)sum);
                /* The first line's own prefix does not depend on what follows. */
                hx = tensor(reverse ? x + 2 * shape[1] : x, SF_F32, 1, &shape[1]);
                hy = tensor(right, SF_F32, 1, &shape[1]);
                OK(sf_scan(ref, &hx, &hy, &o));
                GPU(gpu.get(got, reverse ? dy + bytes - row : dy, row));
                CHECK(!memcmp(got, right, row), "one line, %s: its beginning differs", reverse ? "backwards" : "forwards");
                GPU(gpu.release(d));
        }
        GPU(gpu.release(dx));
        GPU(gpu.release(dy));
        free(x);
        free(right);
        free(got);
}

/* ------------------------------------------------------------------------------------------------------------
 * Contexts, bad input, cost
 * ---------------------------------------------------------------------------------------------------------- */
static void test_context(void)
{
        gpu_handle before, after, own;
        int device;
        GPU(gpu.get_current(&before));
        GPU(gpu.set_current(NULL));
        OK(work_run(&works[0], NULL));
        GPU(gpu.get_current(&after));
        CHECK(after == NULL, "a context was left current");
        GPU(gpu.device_get(&device, 0));
        GPU(gpu.context_create(&own, 0, device));
        OK(work_run(&works[1], NULL));
        GPU(gpu.get_current(&after));
        CHECK(after == own, "the caller's context is not current any more");
        GPU(gpu.context_destroy(own));
        GPU(gpu.set_current(before));
        GPU(gpu.synchronize());
        work_check(&works[0], "with no context current");
        work_check(&works[1], "with another context current");
}

static void test_bad_input(void)
{
        float *host = malloc(works[1].bytes);
        work bad = works[1];
        bad.dx = (gpu_address)(uintptr_t)host;
        sf_status status = work_run(&bad, NULL);
        CHECK(status == SF_INVALID_ARGUMENT && strstr(sf_last_error(NULL), "host memory"), "%s: %s", sf_status_name(status), sf_last_error(NULL));
        bad = works[1];
        bad.dy = (gpu_address)(uintptr_t)host;
        status = work_run(&bad, NULL);
        CHECK(status == SF_INVALID_ARGUMENT && strstr(sf_last_error(NULL), "out is said"), "%s", sf_last_error(NULL));
        sf_tensor x = tensor((void *)(uintptr_t)works[1].dx, SF_F32, 2, works[1].shape), y = x;
        x.device = y.device = (sf_device){SF_CUDA, 99};
        status = sf_scan(NULL, &x, &y, NULL);
        CHECK(status == SF_NO_DEVICE && strstr(sf_last_error(NULL), "99"), "%s", sf_last_error(NULL));
        checks += 3;
        OK(work_run(&works[1], NULL));
        work_check(&works[1], "after bad input");
        free(host);
}

/* What the driver takes for a launch that does nothing, with as many bytes of parameters as a row scan has. */
static double bare_launch(void)
{
        static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                                   ".visible .entry nothing(.param .align 8 .b8 p[192])\n{\n        ret;\n}\n";
        gpu_handle module, function;
        unsigned char params[192] = {0};
        void *arguments[] = {params};
        double best = 1;
        GPU(gpu.module_load(&module, text));
        GPU(gpu.module_function(&function, module, "nothing"));
        for (int batch = 0; batch < 200; batch++) {
                double start = seconds();
                for (int i = 0; i < 100; i++)
                        gpu.launch(function, 1, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL);
                double each = (seconds() - start) / 100;
                best = each < best ? each : best;
                GPU(gpu.synchronize());
        }
        return best;
}

/* Before the launch returns: the best of many batches. bench/gpu.py reads these lines. */
static void time_calls(void)
{
        static work small[2];
        printf("an empty launch, all of it the driver's: %.2f us\n", bare_launch() * 1e6);
        work_make(&small[0], 32, 32, 1, 9);
        work_make(&small[1], 1, 3000001, 1, 9);
        for (int kind = 0; kind < 2; kind++) {
                double best = 1;
                for (int batch = 0; batch < 200; batch++) {
                        double start = seconds();
                        for (int i = 0; i < 100; i++)
                                work_run(&small[kind], NULL);
                        double each = (seconds() - start) / 100;
                        best = each < best ? each : best;
                        GPU(gpu.synchronize());
                }
                printf("a warm call, %s: %.2f us, bar 3: %s\n", kind ? "with scratch" : "without scratch", best * 1e6, best < 3e-6 ? "met" : "not met");
        }
}

/* ------------------------------------------------------------------------------------------------
 * Streams that come and go, and a device that is reset
 * ---------------------------------------------------------------------------------------------- */
static void test_short_lived(void)
{
        for (int i = 0; i < 300; i++) {
                gpu_handle stream;
                GPU(gpu.stream_create(&stream, 1));
                OK(work_run(&works[i % WORKS], stream));
                if (i % 3)
                        GPU(gpu.stream_synchronize(stream));
                GPU(gpu.stream_destroy(stream)); /* its work goes on */
                if (i % 50 == 49) {
                        GPU(gpu.synchronize());
                        for (int k = 0; k < WORKS; k++)
                                work_check(&works[k], "a stream that is gone");
                }
        }
}

static int stop_at_once(void *user, const char *what, int32_t done, int32_t of)
{
        (void)user, (void)what, (void)done, (void)of;
        return 1;
}

/* As cudaDeviceReset does: what the library had there is gone, and so is the tests' memory. Twice,
 * with and without a context that the caller has made anew. */
static void test_reset(void)
{
        int device;
        gpu_handle context;
        work w;
        GPU(gpu.device_get(&device, 0));
        for (int turn = 0; turn < 2; turn++) {
                GPU(gpu.reset(device));
                if (turn) /* the library is the first to meet it */
                        OK(sf_cache_warm(NULL, (sf_device){SF_CUDA, 0}, stop_at_once, NULL));
                GPU(gpu.retain(&context, device));
                GPU(gpu.set_current(context));
                work_make(&w, 1, 3000001, 1, 11);
                OK(work_run(&w, NULL));
                GPU(gpu.synchronize());
                work_check(&w, "after a reset");
        }
}

int main(int argc, char **argv)
{
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        if (!gpu_open())
                return 77;
        o.backend = SF_BACKEND_REF;
        if (sf_context_create(&ref, &o) != SF_OK)
                return 2;
        if (argc > 1 && !strcmp(argv[1], "--time")) {
                time_calls();
                return 0;
        }
        make_works();
        test_streams();
        test_threads();
        test_graphs();
        test_context();
        test_bad_input();
        test_many();
        test_short_lived();
        test_reset();
        sf_context_destroy(ref);
        return finish("test_gpu", checks);
}
