#include "cuda/jit.h"
#include "kernels.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOGETHER 6 /* specialisations a file */
/* One file in so many has the sanitizers that the compiler was asked for: with them it takes more than twice as long. Which one it is changes with the
 * kernels' text. Plain cases lie between guard pages besides. */
#ifndef SANITIZED
#define SANITIZED 5
#endif
/* The others are clang's where UNSANITIZED_CXX names it: it takes two thirds of g++'s time, and is a second reading of the kernels' text. What they call,
 * this program is linked with: looking through the C++ library for it would take a tenth of that time. */
#define UNSANITIZED " -fno-sanitize=address,undefined -fno-exceptions -g0 -nodefaultlibs -lgcc"
#ifndef UNSANITIZED_CXX
#define UNSANITIZED_CXX ""
#endif

typedef struct known {
        sf_cuda_spec spec;
        exec_entry entry;
} known;

static known *list;
static int count, room, compiled;
static const char *folder, *compiler;
static int jobs;

void kernels_open(const char *where, const char *how, int at_once)
{
        folder = where;
        compiler = how;
        jobs = at_once;
        if (mkdir(folder, 0777) && errno != EEXIST) {
                perror(folder);
                exit(2);
        }
}

int kernels_count(void)
{
        return count;
}

const sf_cuda_spec *kernels_spec(int number)
{
        return &list[number].spec;
}

exec_entry kernels_find(const sf_cuda_spec *spec)
{
        for (int i = 0; i < count; i++)
                if (sf_cuda_spec_same(&list[i].spec, spec))
                        return list[i].entry;
        return NULL;
}

void kernels_want(const sf_cuda_spec *spec)
{
        for (int i = 0; i < count; i++)
                if (sf_cuda_spec_same(&list[i].spec, spec))
                        return;
        if (count == room) {
                room = room ? 2 * room : 64;
                list = realloc(list, (size_t)room * sizeof *list);
                if (!list)
                        abort();
        }
        list[count++] = (known){*spec, NULL};
}

/* ------------------------------------------------------------------------------------------------------------
 * Text
 * ---------------------------------------------------------------------------------------------------------- */
char *kernels_text(const sf_cuda_spec *spec)
{
        char *text;
        if (sf_cuda_source(NULL, spec, &text) != SF_OK) {
                fprintf(stderr, "%s\n", sf_last_error(NULL));
                exit(2);
        }
        return text;
}

/* Several specialisations share a file, each in a namespace, each undefining what it defined. */
static void write_text(FILE *to, const char *text, int number)
{
        fprintf(to, "namespace spec_%d {\n%s\nstatic void __attribute__((no_sanitize(\"thread\"))) run(const void *p) { sf_params q; memcpy(&q, p, sizeof q); SF_ENTRY(q); }\n}\n",
                number, text);
        for (const char *at = text; (at = strstr(at, "#define ")); at++) {
                int length = (int)strcspn(at + 8, " (\n");
                /* What a test may have put there stays. */
                if (strncmp(at + 8, "SF_DEVICE", 9) && strncmp(at + 8, "SF_KERNEL", 9) &&
                    strncmp(at + 8, "SF_COMMUTES", 11) &&
                    strncmp(at + 8, "SF_JOIN", 7))
                        fprintf(to, "#undef %.*s\n", length, at + 8);
        }
}

static uint64_t hash_text(const char *text, uint64_t h)
{
        for (; *text; text++)
                h = (h ^ (unsigned char)*text) * 0x100000001b3u;
        return h;
}

/* ------------------------------------------------------------------------------------------------------------
 * Compiling
 * ---------------------------------------------------------------------------------------------------------- */
static void reap(int *running)
{
        int status;
        if (wait(&status) < 0)
                abort();
        (*running)--;
        if (status) {
                fprintf(stderr, "a kernel does not compile for the host\n");
                exit(1);
        }
}

/* How the file whose name is h is compiled. */
static void write_command(char *to, size_t size, const char *path, uint64_t h)
{
        const bool plain = h % SANITIZED, other = plain && *UNSANITIZED_CXX && strstr(compiler, "-fsanitize=address");
        snprintf(to, size, "%s%s -shared -fPIC -o %s/%016" PRIx64 ".tmp %s%s && mv %s/%016" PRIx64 ".tmp %s/%016" PRIx64 ".so", other ? UNSANITIZED_CXX : "",
                 other ? strchr(compiler, ' ') : compiler, folder, h, path, plain ? UNSANITIZED : "", folder, h, folder, h);
}

void kernels_compile(void)
{
        char path[512], command[2048];
        int running = 0;
        uint64_t *names = calloc((size_t)(count - compiled) / TOGETHER + 1, sizeof *names);
        if (!names)
                abort();
        for (int first = compiled, file = 0; first < count; first += TOGETHER, file++) {
                char *texts[TOGETHER] = {NULL};
                uint64_t h = hash_text(compiler, 0xcbf29ce484222325u);
                for (int i = 0; i < TOGETHER && first + i < count; i++)
                        h = hash_text(texts[i] = kernels_text(&list[first + i].spec), h);
                names[file] = h;
                snprintf(path, sizeof path, "%s/%016" PRIx64 ".so", folder, h);
                if (access(path, R_OK)) {
                        snprintf(path, sizeof path, "%s/%016" PRIx64 ".cpp", folder, h);
                        FILE *to = fopen(path, "w");
                        if (!to) {
                                perror(path);
                                exit(2);
                        }
                        fprintf(to, "#include \"device.hpp\"\n");
                        int used = 0;
                        for (; used < TOGETHER && texts[used]; used++)
                                write_text(to, texts[used], used);
                        fprintf(to, "extern \"C\" { exec_entry kernels[] = {");
                        for (int i = 0; i < used; i++)
                                fprintf(to, "spec_%d::run, ", i);
                        fprintf(to, "}; }\n");
                        fclose(to);
                        write_command(command, sizeof command, path, h);
                        if (running == jobs)
                                reap(&running);
                        running++;
                        pid_t child = fork();
                        if (child < 0)
                                abort();
                        if (!child) {
                                execl("/bin/sh", "sh", "-c", command, (char *)NULL);
                                _exit(127);
                        }
                }
                for (int i = 0; i < TOGETHER; i++)
                        free(texts[i]);
        }
        while (running)
                reap(&running);
        for (int first = compiled, file = 0; first < count; first += TOGETHER, file++) {
                snprintf(path, sizeof path, "%s/%016" PRIx64 ".so", folder, names[file]);
                void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
                exec_entry *entries = library ? (exec_entry *)dlsym(library, "kernels") : NULL;
                if (!entries) {
                        fprintf(stderr, "%s\n", dlerror());
                        exit(2);
                }
                for (int i = 0; i < TOGETHER && first + i < count; i++)
                        list[first + i].entry = entries[i];
        }
        compiled = count;
        free(names);
}

int kernels_nvrtc(const char *prefix, long every)
{
        const sf_compiler *nvrtc;
        long met = 0, done = 0, failed = 0;
        if (sf_jit_compiler(NULL, 0, &nvrtc) != SF_OK) {
                printf("SKIPPED: %s\n", sf_last_error(NULL));
                return 77;
        }
        for (int i = 0; i < kernels_count(); i++) {
                const sf_cuda_spec *spec = kernels_spec(i);
                const char *name = sf_cuda_kernel_name(spec->kernel);
                if (strncmp(name, prefix, strlen(prefix)) || met++ % every)
                        continue;
                sf_binary binary = {NULL, 0, false};
                char file[64], *source = kernels_text(spec);
                snprintf(file, sizeof file, "%s.cu", name);
                done++;
                if (sf_jit_compile(NULL, nvrtc, file, source, "sm_90", &binary, NULL) != SF_OK) {
                        fprintf(stderr, "%s\n", sf_last_error(NULL));
                        failed++;
                }
                free(binary.image);
                free(source);
        }
        printf("%ld of %ld kernels compiled for sm_90, %ld failed\n", done, met, failed);
        return !done || failed;
}
