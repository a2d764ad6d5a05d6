/*
 * Calls of the world outside that fail: memory, threads, files, the driver, NVRTC. For each public operation below, the first such call
 * fails, then the second, and so on until there are no more; each time in a process of its own, in which nothing has been done before. Either
 * the operation does without, and its results are right, or a status comes back with a sentence and no result has been touched; nothing is left
 * on a context's stack, no file is half written; and the next call works. Under LeakSanitizer nothing leaks, either.
 *
 *     test_faults libcuda nvrtc [operation]
 */
#include "check.h"
#include "fake.h"

#include "cuda/cache.h"
#include "scanfold.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------------------
 * What fails
 * ---------------------------------------------------------------------------------------------------------- */
static atomic_long until_failure = -1; /* so many more succeed; negative: all */
static atomic_bool failed;
static const char *what_failed = "";

static bool fails(const char *what)
{
        if (until_failure < 0 || atomic_fetch_sub(&until_failure, 1) > 0)
                return false;
        until_failure = -1;
        failed = true;
        what_failed = what;
        errno = !strcmp(what, "pthread_create") ? EAGAIN : !strcmp(what, "write") ? ENOSPC : ENOMEM;
        return true;
}

/* The linker puts these before the C library's. */
#define WRAP(type, name, arguments, names, wrong)                                                                  \
        type __real_##name arguments;                                                                              \
        type __wrap_##name arguments;                                                                              \
        type __wrap_##name arguments                                                                               \
        {                                                                                                          \
                return fails(#name) ? (wrong) : __real_##name names;                                               \
        }
WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(void *, realloc, (void *block, size_t size), (block, size), NULL)
WRAP(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size), NULL)
WRAP(char *, strdup, (const char *text), (text), NULL)
WRAP(int, pthread_create, (pthread_t * thread, const pthread_attr_t *with, void *(*run)(void *), void *of), (thread, with, run, of), EAGAIN)
WRAP(int, mkostemp, (char *path, int flags), (path, flags), -1)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), -1)
WRAP(int, fstat, (int file, struct stat *about), (file, about), -1)
WRAP(ssize_t, read, (int file, void *to, size_t size), (file, to, size), -1)
WRAP(ssize_t, write, (int file, const void *from, size_t size), (file, from, size), -1)
WRAP(DIR *, opendir, (const char *path), (path), NULL)
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
        va_list list;
        va_start(list, flags);
        const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
        va_end(list);
        return fails("open") ? -1 : __real_open(path, flags, mode);
}

/* ------------------------------------------------------------------------------------------------------------
 * Operations, each with its results and what they should be
 * ---------------------------------------------------------------------------------------------------------- */
enum { ROWS = 3, N = 400001, UNTOUCHED = 0x5a };
static fake_cuda *cuda;
static float x[ROWS][N], y[ROWS][N];
static int64_t shape[] = {ROWS, N}, one[] = {ROWS}, few[] = {4, 4};

static sf_tensor on_cpu(void *data, int32_t ndim, int64_t *lengths)
{
        return (sf_tensor){.data = data, .device = {SF_CPU, 0}, .ndim = ndim, .dtype = SF_F32, .shape = lengths};
}

/* Sums of 1, 2, 1, 2, ...: exact in any order. */
static float total(int64_t n)
{
        return (float)(n / 2 * 3 + n % 2);
}

static bool scan_is_right(void)
{
        for (int r = 0; r < ROWS; r++)
                for (int64_t i = 0; i < N; i += i < N - 1000 ? 997 : 1)
                        if (y[r][i] != total(i + 1))
                                return false;
        return true;
}
static bool fold_is_right(void)
{
        return y[0][0] == total(N) && y[0][1] == total(N) && y[0][2] == total(N);
}
static bool always(void)
{
        return true;
}

static sf_status run_context(void)
{
        sf_context *ctx = NULL;
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        o.threads = 2;
        sf_status status = sf_context_create(&ctx, &o);
        sf_context_destroy(ctx);
        return status;
}
static sf_status run_scan(void)
{
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        sf_tensor tx = on_cpu(x, 2, shape), ty = on_cpu(y, 2, shape);
        o.axis = 1;
        return sf_scan(NULL, &tx, &ty, &o);
}
static sf_status run_fold(void)
{
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        const int32_t axis = 1;
        sf_tensor tx = on_cpu(x, 2, shape), ty = on_cpu(y, 1, one);
        o.axes = &axis;
        o.naxes = 1;
        return sf_fold(NULL, &tx, &ty, &o);
}
static sf_status run_recurrence(void)
{
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        sf_tensor ta = on_cpu(x, 2, few), ty = on_cpu(y, 2, few);
        o.axis = 1;
        return sf_recurrence(NULL, &ta, &ta, &ty, &o);
}
static bool recurrence_is_right(void) /* of 1, 2, 1, 2: h = a h + a */
{
        return y[0][0] == 1 && y[0][1] == 4 && y[0][2] == 5 && y[0][3] == 12;
}
static sf_status run_plan(void)
{
        sf_graph *graph = NULL;
        sf_plan *plan = NULL;
        sf_tensor tx = on_cpu(x, 2, few), ty = on_cpu(y, 2, few);
        sf_status status = sf_graph_parse(NULL, "cumsum(flip(a - mean(a, 0, keepdim=True) + 3, 1), 1) * 2", &graph);
        if (status == SF_OK)
                status = sf_plan_create(NULL, graph, 1, &tx, NULL, &plan);
        if (status == SF_OK)
                status = sf_plan_run(plan, &tx, &ty, NULL);
        sf_plan_destroy(plan);
        sf_graph_destroy(graph);
        return status;
}
static bool plan_is_right(void) /* all rows are 1, 2, 1, 2: nothing but the 3 is left of them */
{
        return y[0][0] == 6 && y[0][1] == 12 && y[0][2] == 18 && y[0][3] == 24;
}
static sf_status run_shard(void)
{
        sf_shard *shard = NULL;
        sf_shard_card card;
        sf_shard_options o = SF_SHARD_OPTIONS_INIT;
        sf_tensor tx = on_cpu(x, 1, (int64_t[]){16}), ty = on_cpu(y, 1, (int64_t[]){16});
        sf_shard_card_make(NULL, &tx, &ty, &o, &card);
        sf_status status = sf_shard_create(NULL, &tx, &ty, &o, 0, 1, &card, &shard);
        char span[4096];
        if (status == SF_OK)
                status = sf_shard_values(shard, span);
        if (status == SF_OK)
                status = sf_shard_finish(shard, span);
        sf_shard_destroy(shard);
        return status;
}
static bool shard_is_right(void)
{
        return y[0][15] == total(16);
}
static sf_status run_cuda(void)
{
        sf_tensor tx = on_cpu((void *)(uintptr_t)FAKE_MEMORY(0), 2, (int64_t[]){1, 1 << 24}), ty = tx;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        tx.device = ty.device = (sf_device){SF_CUDA, 0};
        ty.data = (void *)(uintptr_t)(FAKE_MEMORY(0) + (1u << 30));
        o.axis = 1;
        return sf_scan(NULL, &tx, &ty, &o);
}
static bool cuda_is_right(void)
{
        return cuda->launches > 0;
}
static sf_status run_cache(void)
{
        int64_t removed;
        char path[1024];
        sf_status status = sf_cache_path(NULL, path, sizeof path);
        return status == SF_OK ? sf_cache_clear(NULL, &removed) : status;
}

static const struct {
        const char *name;
        sf_status (*run)(void);
        bool (*is_right)(void);
        long least; /* calls that can fail */
} operations[] = {{"context", run_context, always, 1}, {"scan", run_scan, scan_is_right, 3}, {"fold", run_fold, fold_is_right, 2}, {"recurrence", run_recurrence, recurrence_is_right, 1},
                  {"plan", run_plan, plan_is_right, 15},      {"shard", run_shard, shard_is_right, 2}, {"cuda", run_cuda, cuda_is_right, 25},
                  {"cache", run_cache, always, 1}};

/* ------------------------------------------------------------------------------------------------------------
 * One failure
 * ---------------------------------------------------------------------------------------------------------- */
static char folder[] = "/tmp/scanfold-faults-XXXXXX";

/* The cache has whole entries and nothing else; it is emptied. */
static void check_files(void)
{
        struct dirent *entry;
        DIR *all = opendir(folder);
        CHECK(all, "no %s", folder);
        while (all && (entry = readdir(all))) {
                char path[600];
                sf_cache_header header;
                snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
                if (entry->d_name[0] != '.')
                        CHECK(sf_cache_load(path, &header, NULL), "%s is left, and is no entry", entry->d_name);
                if (entry->d_name[0] != '.')
                        unlink(path);
        }
        if (all)
                closedir(all);
}

static bool is_untouched(void)
{
        for (size_t i = 0; i < sizeof y; i++)
                if (((unsigned char *)y)[i] != UNTOUCHED)
                        return false;
        return true;
}

enum { RIGHT = 0, WRONG = 1, NO_MORE = 2 };

static int with_failure(int o, long at)
{
        failures = 0; /* those of its own */
        memset(y, UNTOUCHED, sizeof y);
        failed = false;
        until_failure = at;
        sf_status status = operations[o].run();
        until_failure = -1;
        if (status == SF_OK)
                CHECK(operations[o].is_right(), "%s, call %ld (%s) fails: the results are wrong", operations[o].name, at, what_failed);
        else {
                CHECK(failed, "%s: %s", sf_status_name(status), sf_last_error(NULL));
                CHECK(*sf_last_error(NULL), "%s, call %ld (%s): no sentence", operations[o].name, at, what_failed);
                CHECK(is_untouched(), "%s, call %ld (%s) fails: results are touched", operations[o].name, at, what_failed);
        }
        /* What a failing pop leaves, nobody can take away. */
        CHECK(!cuda->pushed || !strcmp(what_failed, "context_pop"), "%s, call %ld (%s) fails: %ld contexts are left", operations[o].name, at, what_failed, (long)cuda->pushed);
        status = operations[o].run();
        CHECK(status == SF_OK && operations[o].is_right(), "%s, after call %ld (%s) failed: %s: %s", operations[o].name, at, what_failed,
              sf_status_name(status), sf_last_error(NULL));
        check_files();
        return failures ? WRONG : failed ? RIGHT : NO_MORE;
}

int main(int argc, char **argv)
{
        if (argc < 3 || !mkdtemp(folder)) {
                fprintf(stderr, "usage: test_faults libcuda nvrtc [operation]\n");
                return 2;
        }
        setenv("SCANFOLD_LIBCUDA", argv[1], 1);
        setenv("SCANFOLD_NVRTC", argv[2], 1);
        setenv("SCANFOLD_CACHE_DIR", folder, 1);
        setenv("SCANFOLD_NUM_THREADS", "3", 1);
        cuda = dlsym(dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL), "fake_cuda_state");
        fake_nvrtc *nvrtc = dlsym(dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL), "fake_nvrtc_state");
        cuda->fails = nvrtc->fails = fails;
        for (int r = 0; r < ROWS; r++)
                for (int64_t i = 0; i < N; i++)
                        x[r][i] = (float)(1 + i % 2);
        for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
                int result = RIGHT;
                long at = 0;
                for (; result == RIGHT && at < 2000 && (argc < 4 || !strcmp(argv[3], operations[o].name)); at++) {
                        fflush(NULL); /* or the child would say it again */
                        const pid_t child = fork();
                        if (!child)
                                exit(with_failure((int)o, at));
                        int status;
                        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "%s, call %ld: the process died", operations[o].name, at);
                        result = WIFEXITED(status) ? WEXITSTATUS(status) : WRONG;
                        CHECK(result == RIGHT || result == NO_MORE, "%s, call %ld: %d", operations[o].name, at, result);
                }
                CHECK(argc > 3 || result != NO_MORE || at > operations[o].least, "%s makes only %ld calls that can fail", operations[o].name, at - 1);
                printf("%s: %ld calls, each failing in turn\n", operations[o].name, at - 1);
        }
        rmdir(folder);
        return finish("test_faults");
}
