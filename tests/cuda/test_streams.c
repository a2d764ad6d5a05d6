/*
 * Streams and their ends: results that are kept between runs on whatever streams, scratch of
 * streams that come and go, and devices that are reset. With a driver that notes which launch comes
 * after which.
 *
 *     test_streams FAKE_LIBCUDA FAKE_NVRTC [old]
 */
#include "check.h"
#include "fake.h"

#include "backend.h"
#include "context.h"
#include "scanfold.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

static fake_cuda *cuda;

#define EXPECT(call)                                                                               \
        do {                                                                                       \
                sf_status got_ = (call);                                                           \
                CHECK(got_ == SF_OK, "%s: %s", sf_status_name(got_), sf_last_error(NULL));         \
        } while (0)

static long calls(int member)
{
        return cuda->calls[member];
}

static void *at(uint64_t offset)
{
        return (void *)(uintptr_t)(FAKE_MEMORY(0) + offset);
}

/* A scan that needs scratch, words that blocks watch among it. */
static sf_status scan(void *stream)
{
        int64_t shape[] = {1, 1 << 22};
        sf_tensor x = {.data = at(0), .device = {SF_CUDA, 0}, .ndim = 2, .dtype = SF_F32,
                       .shape = shape}, y = x;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        y.data = at((uint64_t)1 << 36);
        o.stream = stream;
        return sf_scan(NULL, &x, &y, &o);
}

/* ------------------------------------------------------------------------------------------------
 * Kept results
 * ---------------------------------------------------------------------------------------------- */

/* sum(x @ w.T, 1) is x @ sum(w, 0), and that sum is kept: a run makes it first and then reads it,
 * or reads it alone. */
static sf_plan *plan;
static sf_tensor in[2], out;
static int64_t shapes[3][2] = {{64, 4096}, {4096, 4096}, {64, 1}};

static void plan_make(void)
{
        sf_graph *graph;
        for (int i = 0; i < 2; i++)
                in[i] = (sf_tensor){.data = at((uint64_t)(i + 1) << 38), .device = {SF_CUDA, 0},
                                    .ndim = 2, .dtype = SF_F32, .shape = shapes[i]};
        out = in[0];
        out.data = at((uint64_t)3 << 38);
        out.shape = shapes[2];
        EXPECT(sf_graph_parse(NULL, "sum(x @ w.T, axis=1, keepdim=True)", &graph));
        EXPECT(sf_plan_create(NULL, graph, 2, in, NULL, &plan));
        sf_graph_destroy(graph);
}

typedef struct run {
        void *stream;
        uint64_t version;
        long first, last; /* launches, since watching began */
        uint64_t after;   /* which launches its last one, which reads, comes after */
} run;

static long watching;

static void watch(void)
{
        cuda->watch(true);
        watching = cuda->launches;
}

static run plan_run(void *stream, uint64_t version)
{
        uint64_t versions[2] = {0, version};
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        o.stream = stream;
        o.versions = versions;
        run r = {.stream = stream, .version = version, .first = cuda->launches - watching};
        EXPECT(sf_plan_run(plan, in, &out, &o));
        r.last = cuda->launches - watching - 1;
        r.after = cuda->last[(watching + r.last) % FAKE_LAUNCHES].after;
        return r;
}

static void *thread_run(void *argument)
{
        run *r = argument;
        *r = plan_run(r->stream, r->version);
        return NULL;
}

/* The same on a thread of its own. */
static run plan_run_apart(void *stream, uint64_t version)
{
        run r = {.stream = stream, .version = version};
        pthread_t thread;
        pthread_create(&thread, NULL, thread_run, &r);
        pthread_join(thread, NULL);
        return r;
}

static long length(run r)
{
        return r.last - r.first + 1;
}

/* Launches that read what is kept: the pass, and the look at its results. */
enum { READING = 2 };

/* Does `reader` come after all that `maker` launched but for its last, which read too? */
static bool follows(run reader, run maker)
{
        uint64_t all = 0;
        for (long n = maker.first; n <= maker.last - READING; n++)
                all |= (uint64_t)1 << n;
        return (reader.after & all) == all;
}

/* Is it made, and then read; or is it there? `whole` is the number of launches that make and read
 * it. */
static void check_run(run r, long launches, int line)
{
        CHECK(length(r) == launches, "line %d: %ld launches, not %ld", line, length(r), launches);
}
#define MAKES(r) check_run(r, whole, __LINE__)
#define READS(r) check_run(r, READING, __LINE__)

static void test_kept(void)
{
        void *one = (void *)0x1000, *two = (void *)0x3000;
        plan_make();
        watch();
        run maker = plan_run(one, 1);
        const long whole = length(maker);
        CHECK(whole > READING, "%ld launches: nothing is kept", whole);

        /* Whatever stream reads it waits for the one that made it, once; never on the host. */
        long waits = calls(FAKE_stream_wait_event), synced = calls(FAKE_stream_wait);
        cuda->busy = 1;
        run reader = plan_run(one, 1);
        READS(reader);
        CHECK(calls(FAKE_stream_wait_event) == waits, "a stream waited for itself");
        for (int turn = 0; turn < 3; turn++) {
                reader = plan_run(two, 1);
                READS(reader);
                CHECK(follows(reader, maker), "it reads what may not have been made: after %llx",
                      (unsigned long long)reader.after);
        }
        CHECK(calls(FAKE_stream_wait_event) == waits + 1, "%ld waits",
              calls(FAKE_stream_wait_event) - waits);

        /* While others read it, it is not made anew: the run computes it for itself and does not
         * wait. */
        run apart = plan_run(two, 2);
        MAKES(apart);
        READS(plan_run(one, 1));
        cuda->busy = 0;
        MAKES(plan_run(two, 2));
        READS(plan_run(two, 2));
        CHECK(calls(FAKE_stream_wait) == synced, "something was waited for");

        /* A stream destroyed, and another with its handle: not the one whose order the result is
         * in. */
        watch();
        cuda->busy = 1;
        cuda->renew(two);
        maker = plan_run(two, 2);
        READS(maker);
        CHECK(calls(FAKE_stream_wait_event) == waits + 2,
              "a new stream with an old handle did not wait");
        cuda->busy = 0;
        watch();
        maker = plan_run(two, 3);
        MAKES(maker);
        cuda->busy = 1;
        cuda->renew(two);
        reader = plan_run(two, 3);
        READS(reader);
        CHECK(follows(reader, maker), "it comes after %llx", (unsigned long long)reader.after);

        /* The per-thread stream: one handle, a stream for each thread. */
        cuda->busy = 0;
        watch();
        maker = plan_run((void *)0x2, 4);
        MAKES(maker);
        cuda->busy = 1;
        READS(plan_run((void *)0x2, 4));
        reader = plan_run_apart((void *)0x2, 4);
        READS(reader);
        CHECK(follows(reader, maker), "another thread's stream comes after %llx",
              (unsigned long long)reader.after);
        MAKES(plan_run_apart((void *)0x2, 5));

        /* The legacy stream: two handles, one stream. */
        cuda->busy = 0;
        watch();
        maker = plan_run(NULL, 6);
        cuda->busy = 1;
        waits = calls(FAKE_stream_wait_event);
        reader = plan_run((void *)0x1, 6);
        READS(reader);
        CHECK(follows(reader, maker) && calls(FAKE_stream_wait_event) == waits, "%ld waits",
              calls(FAKE_stream_wait_event) - waits);
        cuda->busy = 0;

        /* More streams at once than are remembered: some compute it for themselves; all is right
         * when they are done. */
        watch();
        maker = plan_run(one, 7);
        cuda->busy = 1;
        int read = 0;
        for (uintptr_t s = 0; s < 20; s++) {
                reader = plan_run((void *)(0x5000 + 16 * s), 7);
                read += length(reader) == READING;
                CHECK(length(reader) == whole || follows(reader, maker), "stream %d", (int)s);
        }
        CHECK(read >= 4 && read < 20, "%d of 20 streams read it", read);
        cuda->busy = 0;
        READS(plan_run((void *)0x9000, 7));

        /* A graph reads nothing that is kept, and keeps nothing: it runs later, and again. */
        watch();
        cuda->capturing = two;
        MAKES(plan_run(two, 7));
        cuda->capturing = one;
        MAKES(plan_run(one, 7));
        MAKES(plan_run(one, 8));
        cuda->capturing = NULL;
        READS(plan_run(one, 7));
        MAKES(plan_run(one, 8));
        cuda->destroy_graphs();

        /* Where it cannot be told when work is over, nothing is read that may not be there. */
        watch();
        cuda->result[FAKE_event_record] = 1;
        MAKES(plan_run(one, 9));
        cuda->result[FAKE_event_record] = 0;
        MAKES(plan_run(two, 9));
        READS(plan_run(one, 9));
        READS(plan_run(two, 9));

        long events = cuda->events, live = cuda->live;
        sf_plan_destroy(plan);
        CHECK(cuda->events < events && cuda->live == live - 1, "%ld events, %ld blocks",
              (long)cuda->events, (long)cuda->live);
}

/* Many threads on few streams, versions that change: whoever reads comes after the latest that made
 * it. */
static void *thread_often(void *argument)
{
        uintptr_t stream = *(uintptr_t *)argument;
        uint64_t versions[2] = {0, 1};
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        o.stream = (void *)stream;
        o.versions = versions;
        for (int i = 0; i < 500; i++) {
                versions[1] = 1 + (uint64_t)i / 10;
                if (sf_plan_run(plan, in, &out, &o) != SF_OK)
                        return strdup(sf_last_error(NULL));
        }
        return NULL;
}

static void test_threads(void)
{
        uintptr_t streams[] = {0, 0x2, 0x2, 0x1000, 0x1000, 0x3000};
        enum { THREADS = sizeof streams / sizeof *streams };
        pthread_t threads[THREADS];
        plan_make();
        for (int i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, thread_often, &streams[i]);
        for (int i = 0; i < THREADS; i++) {
                void *sentence;
                pthread_join(threads[i], &sentence);
                CHECK(!sentence, "thread %d: %s", i, (char *)sentence);
                free(sentence);
        }
        sf_plan_destroy(plan);
        CHECK(!cuda->stale && cuda->pushed == 0, "%ld contexts left", (long)cuda->pushed);
}

/* A warm run that reads what is kept: nothing is allocated, made or waited for. */
static void test_warm(void)
{
        static const int allowed[] = {FAKE_context_id, FAKE_context_current, FAKE_launch,
                                      FAKE_capture_info, FAKE_stream_id, FAKE_event_record};
        void *streams[] = {NULL, (void *)0x2, (void *)0x3000};
        long before[FAKE_COUNT];
        plan_make();
        for (int turn = 0; turn < 2; turn++) {
                for (int i = 0; i < FAKE_COUNT; i++)
                        before[i] = calls(i);
                for (int i = 0; i < 12; i++)
                        plan_run(streams[i % 3], 1);
        }
        for (int i = 0; i < FAKE_COUNT; i++) {
                bool may = false;
                for (size_t k = 0; k < sizeof allowed / sizeof *allowed; k++)
                        may = may || allowed[k] == i;
                CHECK(may || calls(i) == before[i], "a warm run called function %d of driver.def",
                      i);
        }
        sf_plan_destroy(plan);
}

/* ------------------------------------------------------------------------------------------------
 * Streams that come and go
 * ---------------------------------------------------------------------------------------------- */
static double seconds(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_many_streams(void)
{
        enum { MANY = 1000 };
        void *stream = (void *)0xa000;
        sf_context *ctx;
        sf_device device = {SF_CUDA, 0};
        sf_memory memory;
        EXPECT(sf_context_resolve(NULL, &ctx));
        double took[2];
        for (int turn = 0; turn < 2; turn++) {
                double start = seconds();
                long allocations = calls(FAKE_allocate_async) + calls(FAKE_allocate);
                long live = cuda->live, events = cuda->events;
                for (int i = 0; i < MANY; i++) {
                        cuda->renew(stream);
                        EXPECT(scan(stream));
                        EXPECT(scan(stream));
                        EXPECT(sf_backend_borrow(ctx, device, stream, 1 << 20, &memory));
                        sf_backend_return(ctx, device, stream, &memory);
                }
                took[turn] = seconds() - start;
                allocations = calls(FAKE_allocate_async) + calls(FAKE_allocate) - allocations;
                CHECK(cuda->live - live <= (turn ? 0 : 2 * 64), "turn %d: %ld blocks more", turn,
                      cuda->live - live);
                CHECK(cuda->events - events <= (turn ? 0 : 2 * 64), "turn %d: %ld events more",
                      turn, cuda->events - events);
                CHECK(allocations <= (turn ? 0 : 2 * 64),
                      "turn %d: %ld allocations for streams that have come and gone", turn,
                      allocations);
        }
        CHECK(took[1] < 10 * took[0] + 0.5, "%g s, then %g s", took[0], took[1]);

        /* While the work of those before goes on, theirs is not touched. */
        cuda->busy = 1;
        long live = cuda->live, allocations = calls(FAKE_allocate_async);
        for (int i = 0; i < 100; i++) {
                cuda->renew(stream);
                EXPECT(scan(stream));
        }
        CHECK(calls(FAKE_allocate_async) == allocations + 100 && cuda->live == live,
              "%ld allocations", calls(FAKE_allocate_async) - allocations);
        cuda->busy = 0;
        cuda->renew(stream);
        EXPECT(scan(stream));
        CHECK(calls(FAKE_allocate_async) == allocations + 100 && cuda->live == live,
              "%ld allocations", calls(FAKE_allocate_async) - allocations);
}

/* ------------------------------------------------------------------------------------------------
 * A driver from before CUDA 12.0, which numbers neither streams nor contexts
 * ---------------------------------------------------------------------------------------------- */
static void test_old(void)
{
        void *one = (void *)0x1000;
        plan_make();
        watch();
        run maker = plan_run(one, 1);
        const long whole = length(maker);
        cuda->busy = 1;
        /* The same handle, perhaps another stream: it waits, while there is room to note so. */
        int read = 0;
        for (int i = 0; i < 10; i++) {
                run reader = plan_run(one, 1);
                read += length(reader) == READING;
        }
        CHECK(read >= 4 && read < 10, "%d of 10 runs read it", read);
        CHECK(calls(FAKE_stream_wait_event) == read, "%ld waits", calls(FAKE_stream_wait_event));
        MAKES(plan_run(one, 2));
        cuda->busy = 0;
        MAKES(plan_run(one, 2));
        READS(plan_run(one, 2));
        /* The default streams are known by themselves. */
        MAKES(maker = plan_run((void *)0x2, 3));
        cuda->busy = 1;
        long waits = calls(FAKE_stream_wait_event);
        for (int i = 0; i < 20; i++)
                READS(plan_run((void *)0x2, 3));
        CHECK(calls(FAKE_stream_wait_event) == waits, "a stream waited for itself");
        run reader = plan_run_apart((void *)0x2, 3);
        READS(reader);
        CHECK(follows(reader, maker), "another thread's stream comes after %llx",
              (unsigned long long)reader.after);
        cuda->busy = 0;
        cuda->watch(false);

        EXPECT(scan(one));
        long live = cuda->live;
        for (int i = 0; i < 200; i++)
                EXPECT(scan((void *)(uintptr_t)(0xa000 + 16 * i)));
        CHECK(cuda->live == live, "%ld blocks more", cuda->live - live);

        /* A reset is told by the call that fails for it; the next one works. */
        cuda->reset(0);
        CHECK(scan(one) == SF_DEVICE_ERROR && strstr(sf_last_error(NULL), "anew"), "%s",
              sf_last_error(NULL));
        EXPECT(scan(one));
        MAKES(plan_run((void *)0x2, 3));
        READS(plan_run((void *)0x2, 3));
        sf_plan_destroy(plan);
}

/* ------------------------------------------------------------------------------------------------
 * Devices that are reset
 * ---------------------------------------------------------------------------------------------- */
static void test_reset(void)
{
        sf_context *ctx;
        sf_device device = {SF_CUDA, 0};
        sf_memory memory;
        void *stream = (void *)0xb000;
        EXPECT(sf_context_resolve(NULL, &ctx));
        plan_make();
        /* The caller's context: none, the one that was reset, or one made anew with the same
         * handle; in the last turn another device's. */
        for (int turn = 0; turn < 4; turn++) {
                const uint64_t version = (uint64_t)turn + 1;
                watch();
                run maker = plan_run(stream, version);
                const long whole = length(maker);
                READS(plan_run(stream, version));
                EXPECT(scan(stream));
                EXPECT(sf_backend_borrow(ctx, device, stream, 1000, &memory));
                long loads = calls(FAKE_module_load), other = cuda->live;
                cuda->reset(0);
                cuda->set_current(turn == 3 ? 1 : turn ? 0 : -1);
                if (turn == 2) { /* as the program's own next call does */
                        void *handle = dlopen(getenv("SCANFOLD_LIBCUDA"), RTLD_NOW);
                        cu_result (*retain)(cu_context *, cu_device) = NULL;
                        *(void **)&retain = dlsym(handle, "cuDevicePrimaryCtxRetain");
                        cu_context context;
                        retain(&context, 0);
                }
                other -= cuda->live;
                sf_backend_return(ctx, device, stream, &memory);
                EXPECT(scan(stream));
                CHECK(calls(FAKE_module_load) == loads + 1, "%ld modules loaded",
                      calls(FAKE_module_load) - loads);
                MAKES(plan_run(stream, version));
                READS(plan_run(stream, version));
                CHECK(cuda->stale == 0, "turn %d: %ld uses of what went with the context", turn,
                      (long)cuda->stale);
                CHECK(other > 0 && cuda->live > 0, "%ld", other);
        }
        cuda->watch(false);
        cuda->reset(0);
        sf_plan_destroy(plan);
        CHECK(cuda->stale == 0 && cuda->pushed == 0, "%ld uses of what went with the context",
              (long)cuda->stale);
        cuda->set_current(0);
}

/* Memory that the host and the device share: a copy from it is not waited for, and until it has been made nobody gets the memory. */
static void test_sending(void)
{
        const sf_device device = {SF_CUDA, 0};
        void *stream = (void *)0x6660, *to = (void *)(uintptr_t)FAKE_MEMORY(0); /* the one that can be waited for */
        sf_memory memory, other;
        sf_context *ctx;
        CHECK(sf_context_resolve(NULL, &ctx) == SF_OK, "%s", sf_last_error(NULL));
        sf_backend_share(ctx, device, 1000, &memory);
        CHECK(memory.data, "there is none");
        const long waits = calls(FAKE_stream_wait);
        CHECK(sf_backend_send(ctx, device, stream, to, &memory, 1000) == SF_OK, "%s", sf_last_error(NULL));
        CHECK(calls(FAKE_stream_wait) == waits, "a copy was waited for");
        sf_backend_unshare(&memory);
        cuda->busy = 1;
        sf_backend_share(ctx, device, 1000, &memory);
        CHECK(!memory.data, "it was given while it is copied");
        cuda->busy = 0;
        sf_backend_share(ctx, device, 1000, &memory);
        CHECK(memory.data, "it was not given after it had been copied");
        sf_backend_share(ctx, device, 1000, &other);
        CHECK(!other.data, "it was given twice");

        /* A graph would copy what is there when it runs; and without an event nobody knows when the copy has been made. */
        cuda->capturing = stream;
        CHECK(sf_backend_send(ctx, device, stream, to, &memory, 1000) == SF_OK, "%s", sf_last_error(NULL));
        CHECK(calls(FAKE_stream_wait) == waits + 1, "a captured copy was not waited for");
        cuda->capturing = NULL;
        cuda->result[FAKE_event_record] = 1;
        CHECK(sf_backend_send(ctx, device, stream, to, &memory, 1000) == SF_OK, "%s", sf_last_error(NULL));
        CHECK(calls(FAKE_stream_wait) == waits + 2, "a copy without an event was not waited for");
        cuda->result[FAKE_event_record] = 0;
        sf_backend_unshare(&memory);
        cuda->busy = 1;
        sf_backend_share(ctx, device, 1000, &memory);
        CHECK(memory.data, "it was not given after a copy that was waited for");
        sf_backend_unshare(&memory);
        cuda->busy = 0;
}

/* A number that the stream writes. Where it cannot, nothing is done. */
static void test_writing(void)
{
        const sf_device device = {SF_CUDA, 0};
        void *stream = (void *)0x6660;
        char *to = (char *)(uintptr_t)FAKE_MEMORY(0);
        sf_context *ctx;
        const uint64_t bits = 0x123456789abcdef0;
        CHECK(sf_context_resolve(NULL, &ctx) == SF_OK, "%s", sf_last_error(NULL));
        CHECK(sf_backend_write(ctx, device, stream, to + 4, bits, 4) && cuda->written == (uint32_t)bits, "4 bytes: %lx", (long)cuda->written);
        CHECK(sf_backend_write(ctx, device, stream, to + 8, bits, 8) && cuda->written == bits, "8 bytes: %lx", (long)cuda->written);
        const long four = calls(FAKE_write_4), eight = calls(FAKE_write_8);
        CHECK(!sf_backend_write(ctx, device, stream, to, bits, 2), "2 bytes");
        CHECK(!sf_backend_write(ctx, device, stream, to + 4, bits, 8), "8 bytes that are not aligned");
        cuda->capturing = stream;
        CHECK(!sf_backend_write(ctx, device, stream, to, bits, 8), "into a graph");
        cuda->capturing = NULL;
        cuda->managed = 1;
        CHECK(!sf_backend_write(ctx, device, stream, to, bits, 8), "memory that moves");
        cuda->managed = 0;
        CHECK(!sf_backend_write(ctx, device, stream, &ctx, bits, 8), "memory of the host");
        CHECK(calls(FAKE_write_4) == four && calls(FAKE_write_8) == eight, "something was written");
        cuda->result[FAKE_write_8] = 801;
        CHECK(!sf_backend_write(ctx, device, stream, to, bits, 8), "a driver that cannot");
        cuda->result[FAKE_write_8] = 0;
}

int main(int argc, char **argv)
{
        char folder[] = "/tmp/scanfold-test-XXXXXX", command[128];
        if (argc < 3) {
                fprintf(stderr, "usage: test_streams FAKE_LIBCUDA FAKE_NVRTC [old]\n");
                return 2;
        }
        setenv("SCANFOLD_LIBCUDA", argv[1], 1);
        setenv("SCANFOLD_NVRTC", argv[2], 1);
        setenv("SCANFOLD_CACHE_DIR", mkdtemp(folder), 1);
        void *a = dlopen(argv[1], RTLD_NOW);
        cuda = a ? dlsym(a, "fake_cuda_state") : NULL;
        if (!cuda) {
                fprintf(stderr, "no fake driver: %s\n", dlerror());
                return 2;
        }
        cuda->set_current(0);
        if (argc > 3) {
                test_old();
        } else {
                test_kept();
                test_threads();
                cuda->watch(false);
                test_warm();
                test_many_streams();
                test_sending();
                test_writing();
                test_reset();
        }
        snprintf(command, sizeof command, "rm -rf %s", folder);
        if (system(command))
                fprintf(stderr, "%s was not removed\n", folder);
        return finish("test_streams");
}
