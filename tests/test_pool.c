/*
 * What the pool promises: a call does not wait for a thread that cannot be started or has not begun; no more
 * threads than the work is worth; a child of fork() has threads of its own; helpers run on all
 * CPUs. Every part has a process of its own, whose pool is new.
 *
 * The library's threads are started here by __wrap_pthread_create, which may refuse or hold them
 * (linked with --wrap).
 */
#include "harness.h"

#include "cpu/cpus.h"
#include "cpu/pool.h"

#include <dirent.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long checks;

/* -------------------------------------------------------------------------------------------------
 * Starting threads
 * ---------------------------------------------------------------------------------------------- */
static enum { START, REFUSE, HOLD } starts;
static atomic_int asked;
static atomic_bool released;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*routine)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*routine)(void *), void *arg);

static void nap(void)
{
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *(*held_routine)(void *);

static void *hold(void *arg)
{
        while (!atomic_load(&released))
                nap();
        return held_routine(arg);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*routine)(void *), void *arg)
{
        atomic_fetch_add(&asked, 1);
        if (starts == REFUSE)
                return EAGAIN;
        held_routine = routine;
        return __real_pthread_create(thread, attributes, starts == HOLD ? hold : routine, arg);
}

static int threads_now(void)
{
        DIR *tasks = opendir("/proc/self/task");
        int count = 0;
        for (struct dirent *entry; tasks && (entry = readdir(tasks));)
                count += entry->d_name[0] != '.';
        if (tasks)
                closedir(tasks);
        return count;
}

/* -------------------------------------------------------------------------------------------------
 * Work
 * ---------------------------------------------------------------------------------------------- */

/* Counts to a hundred, shared by all workers that join. */
typedef struct count {
        atomic_int next, done, helpers, cpus, rounding; /* the last two as a helper has them */
        atomic_bool stay; /* worker 0 does not end before a helper has come */
} count;

static void count_up(void *arg, int worker)
{
        count *c = arg;
        if (worker) {
                cpu_set_t mine;
                sched_getaffinity(0, sizeof mine, &mine);
                atomic_store(&c->cpus, CPU_COUNT(&mine));
                atomic_store(&c->rounding, fegetround());
                atomic_fetch_add(&c->helpers, 1);
        }
        while (atomic_fetch_add(&c->next, 1) < 100)
                atomic_fetch_add(&c->done, 1);
        for (int i = 0; !worker && c->stay && !c->helpers && i < 200000; i++)
                nap();
}

static int run_counting(int workers, count *c)
{
        memset(c, 0, sizeof *c);
        sf_pool_run(workers, count_up, c);
        return c->done;
}

/* A helper joins sooner or later. */
static void expect_help(const char *what, count *c)
{
        memset(c, 0, sizeof *c);
        atomic_store(&c->stay, true);
        sf_pool_run(3, count_up, c);
        CHECK(c->helpers > 0 && c->done == 100, "%s: nobody helped", what);
        checks++;
}

/* A scan of this many f32, bit by bit as the reference has it. */
static void check_scan(const char *what, sf_context *ctx, int64_t n)
{
        float *x = malloc((size_t)n * 4), *y = malloc((size_t)n * 4),
              *right = malloc((size_t)n * 4);
        if (!x || !y || !right)
                abort();
        fill(DT_F32, FILL_mixed, false, 3, n, x);
        sf_tensor tx = tensor(x, SF_F32, 1, &n), ty = tensor(y, SF_F32, 1, &n),
                  tr = tensor(right, SF_F32, 1, &n);
        CHECK(sf_scan(REF, &tx, &tr, NULL) == SF_OK && sf_scan(ctx, &tx, &ty, NULL) == SF_OK,
              "%s: %s", what, sf_last_error(ctx));
        CHECK(!memcmp(y, right, (size_t)n * 4), "%s: other bits", what);
        checks++;
        free(x);
        free(y);
        free(right);
}

static sf_context *context_of(int32_t threads)
{
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        sf_context *ctx = NULL;
        o.threads = threads;
        CHECK(sf_context_create(&ctx, &o) == SF_OK, "%s", sf_last_error(NULL));
        return ctx;
}

/* -------------------------------------------------------------------------------------------------
 * The parts
 * ---------------------------------------------------------------------------------------------- */
static void refused(void)
{
        count c;
        starts = REFUSE;
        sf_context *ctx = context_of(5);
        check_scan("no thread can be started", ctx, 1 << 20);
        for (int i = 0; i < 300; i++)
                CHECK(run_counting(5, &c) == 100 && !c.helpers,
                      "no thread can be started, and work is left undone");
        CHECK(asked < 4, "%d threads were asked for, one after another, where none can be had",
              asked);
        starts = START;
        for (int i = 0; i < 1500; i++)
                CHECK(run_counting(5, &c) == 100, "work is left undone");
        CHECK(asked > 3, "threads that could not be started once are not tried again");
        expect_help("threads can be had again", &c);
        sf_context_destroy(ctx);
}

static void held(void)
{
        count c;
        starts = HOLD;
        for (int i = 0; i < 10; i++)
                CHECK(run_counting(3, &c) == 100 && !c.helpers,
                      "work is left undone where threads have not begun");
        sf_context *ctx = context_of(3);
        check_scan("threads that have not begun", ctx, 1 << 20);
        CHECK(asked == 2, "%d threads were started for two helpers", asked);
        atomic_store(&released, true);
        expect_help("threads that begin late", &c);
        sf_context_destroy(ctx);
}

static void many(void)
{
        sf_context *ctx = context_of(100000);
        const int before = threads_now(), cap = sf_context_threads(ctx),
                  cpus = (int)sysconf(_SC_NPROCESSORS_CONF);
        CHECK(cap >= 16 && cap <= (cpus > 4 ? 4 * cpus : 16),
              "100000 threads were asked for, and there are %d for %d CPUs", cap, cpus);
        /* 1 MiB with its results: four workers */
        check_scan("many threads and little work", ctx, 1 << 17);
        CHECK(threads_now() - before <= 3, "%d helpers for one MiB", threads_now() - before);
        check_scan("many threads", ctx, 1 << 20);
        CHECK(threads_now() - before < cap, "%d helpers where %d threads are the most",
              threads_now() - before, cap);
        checks += 3;
        sf_context_destroy(ctx);
}

static void limited(void)
{
        sf_context *ctx = context_of(4);
        const int before = threads_now();
        CHECK(sf_set_thread_limit(1) == 0, "a thread begins with a limit");
        check_scan("a limit of 1", ctx, 1 << 19);
        CHECK(threads_now() == before, "a limit of 1 thread, and a helper was started");
        CHECK(sf_set_thread_limit(2) == 1, "the limit was not kept");
        check_scan("a limit of 2", ctx, 1 << 19);
        CHECK(threads_now() <= before + 1, "a limit of 2 threads, and %d helpers",
              threads_now() - before);
        CHECK(sf_set_thread_limit(-7) == 2 && sf_set_thread_limit(0) == 0,
              "a negative limit is none");
        check_scan("no limit", ctx, 1 << 19);
        CHECK(threads_now() == before + 3, "%d helpers where three are right",
              threads_now() - before);
        checks += 6;
        sf_context_destroy(ctx);
}

/* As OpenMP binds a thread to one CPU under OMP_PROC_BIND: helpers have all that the process had,
 * in a child of fork() too. */
static void bound(void)
{
        cpu_set_t all, one;
        count c;
        CPU_ZERO(&one);
        CHECK(!sched_getaffinity(0, sizeof all, &all), "no affinity");
        for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
                if (CPU_ISSET(i, &all))
                        CPU_SET(i, &one);
        setenv("OMP_PROC_BIND", "true", 1);
        unsetenv("OMP_NUM_THREADS");
        unsetenv("SCANFOLD_NUM_THREADS");
        CHECK(!sched_setaffinity(0, sizeof one, &one), "no affinity");
        sf_context *ctx = context_of(0);
        const int quota = sf_cpu_quota(""), most = CPU_COUNT(&all);
        const int cpus = quota && quota < most ? quota : most;
        CHECK(sf_context_threads(ctx) == cpus, "a bound caller: %d threads of %d",
              sf_context_threads(ctx), cpus);
        expect_help("a bound caller", &c);
        CHECK(c.cpus == CPU_COUNT(&all), "a bound caller: a helper has %d CPUs of %d", c.cpus,
              CPU_COUNT(&all));
        unsetenv("OMP_PROC_BIND");
        sf_context_destroy(ctx);
        ctx = context_of(0);
        CHECK(sf_context_threads(ctx) == 1, "a process that may run on one CPU has %d threads",
              sf_context_threads(ctx));
        sf_context_destroy(ctx);
        checks += 3;
}

/* A thread begins with the floating-point mode of the one that starts it; a helper has its own. */
static void rounded(void)
{
        count c;
        fesetround(FE_UPWARD);
        expect_help("a caller that rounds upward", &c);
        CHECK(c.rounding == FE_TONEAREST, "a helper rounds as the caller that started it does");
        checks++;
}

static void in_child(const char *name, void (*part)(void))
{
        fflush(NULL);
        pid_t pid = fork();
        if (!pid) {
                alarm(600);
                failures = 0;
                part();
                _exit(failures ? 1 : 0);
        }
        int status = 0;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status,
              "%s: the process ended with status %x", name, (unsigned)status);
        checks++;
}

static void forked(void)
{
        count c;
        expect_help("before a fork", &c);
        in_child("bound, in a child", bound);
        expect_help("after a fork", &c);
}

int main(void)
{
        engines_open();
        in_child("refused", refused);
        in_child("held", held);
        in_child("many", many);
        in_child("limited", limited);
        in_child("bound", bound);
        in_child("rounded", rounded);
        in_child("forked", forked);
        engines_close();
        return finish("test_pool", checks);
}
