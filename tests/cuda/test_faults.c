/*
 * Calls of the world outside that fail: memory, threads, files, the driver, NVRTC. For each operation of fault_operations.c, which has every public function, the first such call
 * fails, then the second, and so on until there are no more; each time in a process of its own, in which nothing has been done before. Either
 * the operation does without, and its results are right, or a status comes back with a sentence and every result is whole or has not been touched; nothing is left
 * on a context's stack, no file is half written; and the next call works. Under LeakSanitizer nothing leaks, either.
 *
 *     test_faults libcuda nvrtc [operation]
 */
#include "check.h"
#include "fake.h"
#include "fault_operations.h"

#include "cuda/cache.h"
#include "scanfold.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------------------
 * What fails
 * ---------------------------------------------------------------------------------------------------------- */
static atomic_long until_failure = -1; /* this many more calls succeed; negative: all of them */
static atomic_bool failed;
static const char *what_failed = "";

static bool fails(const char *what)
{
        if (until_failure < 0 || atomic_fetch_sub(&until_failure, 1) > 0)
                return false;
        until_failure = -1;
        failed = true;
        what_failed = what;
        errno = !strcmp(what, "pthread_create") ? EAGAIN : !strcmp(what, "write") || !strcmp(what, "close") ? ENOSPC : ENOMEM;
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
WRAP(struct dirent *, readdir, (DIR * all), (all), NULL)
WRAP(int, stat, (const char *path, struct stat *about), (path, about), -1)
WRAP(int, fstatat, (int in, const char *path, struct stat *about, int flags), (in, path, about, flags), -1)
WRAP(int, utimensat, (int in, const char *path, const struct timespec times[2], int flags), (in, path, times, flags), -1)
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL)
WRAP(char *, fgets, (char *to, int size, FILE *file), (to, size, file), NULL)
WRAP(size_t, fread, (void *to, size_t size, size_t count, FILE *file), (to, size, count, file), 0)
WRAP(ssize_t, getline, (char **to, size_t *size, FILE *file), (to, size, file), -1)
WRAP(ssize_t, readlink, (const char *path, char *to, size_t size), (path, to, size), -1)
WRAP(int, access, (const char *path, int mode), (path, mode), -1)
WRAP(void *, dlopen, (const char *path, int flags), (path, flags), NULL)
WRAP(void *, dlsym, (void *in, const char *name), (in, name), NULL)
WRAP(long, sysconf, (int name), (name), -1)
WRAP(int, sched_getaffinity, (pid_t of, size_t size, cpu_set_t *cpus), (of, size, cpus), -1)
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

/* As of a disk that is full when the last of it is written: the file is closed all the same. */
int __real_close(int file);
int __wrap_close(int file);
int __wrap_close(int file)
{
        const int closed = __real_close(file);
        return fails("close") ? -1 : closed;
}

/* ------------------------------------------------------------------------------------------------------------
 * One failure
 * ---------------------------------------------------------------------------------------------------------- */
static char folder[] = "/tmp/scanfold-faults-XXXXXX";
static fake_cuda *cuda;

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
                /* A later part of the operation may have failed: then what came before is whole. */
                bool whole = is_untouched(y, sizeof y) || operations[o].is_right();
                if (!whole && operations[o].is_whole)
                        whole = operations[o].is_whole();
                CHECK(whole, "%s, call %ld (%s) fails: results are neither untouched nor right", operations[o].name, at, what_failed);
        }
        /* A context whose pop failed cannot be removed. */
        CHECK(!cuda->pushed || !strcmp(what_failed, "context_pop"), "%s, call %ld (%s) fails: %ld contexts are left", operations[o].name, at, what_failed, (long)cuda->pushed);
        status = operations[o].run();
        CHECK(status == SF_OK && operations[o].is_right(), "%s, after call %ld (%s) failed: %s: %s", operations[o].name, at, what_failed,
              sf_status_name(status), sf_last_error(NULL));
        check_files();
        return failures ? WRONG : failed ? RIGHT : NO_MORE;
}

int main(int argc, char **argv)
{
        if (argc < 4 || !mkdtemp(folder)) {
                fprintf(stderr, "usage: test_faults libcuda nvrtc many [operation]\n");
                return 2;
        }
        const long many = atol(argv[3]); /* so many calls fail each, and some of the others */
        setenv("SCANFOLD_LIBCUDA", argv[1], 1);
        setenv("SCANFOLD_NVRTC", argv[2], 1);
        setenv("SCANFOLD_CACHE_DIR", folder, 1);
        setenv("SCANFOLD_NUM_THREADS", "3", 1);
        cuda = dlsym(dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL), "fake_cuda_state");
        fake_nvrtc *nvrtc = dlsym(dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL), "fake_nvrtc_state");
        cuda->fails = nvrtc->fails = fails;
        operations_prepare(cuda);
        for (size_t o = 0; operations[o].name; o++) {
                int result = RIGHT;
                long at = 0;
                /* One that does the same many times has its first calls fail, and some of the others. */
                for (; result == RIGHT && at < 20000 && (argc < 5 || !strcmp(argv[4], operations[o].name)); at += at < many ? 1 : at / 3) {
                        fflush(NULL); /* or the child would say it again */
                        const pid_t child = fork();
                        if (!child)
                                exit(with_failure((int)o, at));
                        int status;
                        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "%s, call %ld: the process died", operations[o].name, at);
                        result = WIFEXITED(status) ? WEXITSTATUS(status) : WRONG;
                        CHECK(result == RIGHT || result == NO_MORE, "%s, call %ld: %d", operations[o].name, at, result);
                }
                CHECK(argc > 4 || result != NO_MORE || at > operations[o].least, "%s makes only %ld calls that can fail", operations[o].name, at - 1);
                printf("%s: %s%ld calls, each %sfailing in turn\n", operations[o].name, at > many ? "more than " : "", at > many ? many : at - 1, at > many ? "of the first and some of the others " : "");
        }
        rmdir(folder);
        return finish("test_faults");
}
