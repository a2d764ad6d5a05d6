/* Compiles prelude and kernel file with NVRTC. */
#include "cuda/jit.h"

#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NVRTC's functions, as in driver.def: each returns a result code, 0 for success. CUDA 11.2 and
 * newer have them. */
typedef struct nvrtc_program_handle *nvrtc_program;

#define NVRTC_FUNCTIONS(F)                                                                                               \
        F(version, nvrtcVersion, (int *major, int *minor))                                                               \
        F(arch_count, nvrtcGetNumSupportedArchs, (int *count))                                                           \
        F(arches, nvrtcGetSupportedArchs, (int *arches))                                                                 \
        F(create, nvrtcCreateProgram,                                                                                    \
          (nvrtc_program * program, const char *source, const char *name, int headers, const char *const *texts, const char *const *names)) \
        F(destroy, nvrtcDestroyProgram, (nvrtc_program * program))                                                       \
        F(compile, nvrtcCompileProgram, (nvrtc_program program, int count, const char *const *options))                  \
        F(cubin_size, nvrtcGetCUBINSize, (nvrtc_program program, size_t *size))                                          \
        F(cubin, nvrtcGetCUBIN, (nvrtc_program program, char *cubin))                                                    \
        F(ptx_size, nvrtcGetPTXSize, (nvrtc_program program, size_t *size))                                              \
        F(ptx, nvrtcGetPTX, (nvrtc_program program, char *ptx))                                                          \
        F(log_size, nvrtcGetProgramLogSize, (nvrtc_program program, size_t *size))                                       \
        F(log, nvrtcGetProgramLog, (nvrtc_program program, char *log))

static struct {
#define MEMBER(member, symbol, arguments) int(*member) arguments;
        NVRTC_FUNCTIONS(MEMBER)
#undef MEMBER
        const char *(*error_text)(int code);
} nvrtc;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sf_compiler found;
static _Atomic(const sf_compiler *) ready;

/* The options of every kernel. The order consists of single rounded operations: no fused
 * multiply-add, no flush to zero. */
static const char *const options[] = {"--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--device-as-default-execution-space"};
#define OPTIONS (sizeof options / sizeof *options)

static void reset_lock(void)
{
        pthread_mutex_init(&lock, NULL);
}

/* ------------------------------------------------------------------------------------------------
 * Finding the compiler
 * ---------------------------------------------------------------------------------------------- */
static int by_value(const void *a, const void *b)
{
        return *(const int *)a - *(const int *)b;
}

/*
 * When it first compiles, NVRTC opens a second library by its bare name; that of a wheel is not in
 * the loader's search path. If it is opened here by its full name first, NVRTC finds it. If it is
 * found anyway, or is missing, this does no harm.
 */
static void load_builtins(void)
{
        char path[sizeof found.path + 64];
        const char *slash = strrchr(found.path, '/');
        int folder = slash ? (int)(slash - found.path) + 1 : 0;
        snprintf(path, sizeof path, "%.*slibnvrtc-builtins.so.%d.%d", folder, found.path, (int)found.major, (int)found.minor);
        dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static sf_status load(const sf_context *ctx, int32_t driver_major)
{
        /* The soname's number is the major version, except 11.2 for all of CUDA 11.2 to 11.8. */
        static const char *const known[] = {".13", ".12", ".11.2"};
        const char *sonames[sizeof known / sizeof *known + 2];
        size_t count = 0;
        char tried[1024];
        const char *missing = NULL;
        int arches[256], narches = 0;

        for (int newer = 0; newer < 2; newer++)
                for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                        /* NOLINTNEXTLINE(cert-err34-c): each of `known` is a dot and a number */
                        if (newer == (driver_major && atoi(known[i] + 1) > driver_major))
                                sonames[count++] = known[i];
        sonames[count++] = ""; /* a newer one, if a toolkit's development link names it */
        sonames[count] = NULL;
        sf_library library = {"libnvrtc.so", sonames, "SCANFOLD_NVRTC", "nvrtcVersion", true};
        void *handle = sf_library_find(&library, tried, sizeof tried);
        if (!handle)
                return sf_fail(ctx, SF_NO_DEVICE, "CUDA's run-time compiler NVRTC was not found (%s); install it "
                                                  "(pip install nvidia-cuda-nvrtc), or name "
                                                  "its libnvrtc.so in SCANFOLD_NVRTC", tried);
#define LOAD(member, symbol, arguments)                                                                                  \
        if (!(*(void **)&nvrtc.member = dlsym(handle, #symbol)) && !missing)                                             \
                missing = #symbol;
        NVRTC_FUNCTIONS(LOAD)
#undef LOAD
        *(void **)&nvrtc.error_text = dlsym(handle, "nvrtcGetErrorString");
        Dl_info info;
        bool has_path = dladdr(*(void **)&nvrtc.version, &info) && info.dli_fname;
        snprintf(found.path, sizeof found.path, "%s", has_path ? info.dli_fname : "NVRTC");
        if (missing || !nvrtc.error_text)
                return sf_fail(ctx, SF_NO_DEVICE, "%s has no function %s; an NVRTC of CUDA 11.2 or newer has", found.path,
                               missing ? missing : "nvrtcGetErrorString");
        if (nvrtc.version(&found.major, &found.minor) || nvrtc.arch_count(&narches) || narches < 1 ||
            narches > (int)(sizeof arches / sizeof *arches) || nvrtc.arches(arches))
                return sf_fail(ctx, SF_NO_DEVICE, "%s does not tell its version and the chips it compiles for; "
                                                  "SCANFOLD_NVRTC can name another",
                               found.path);
        load_builtins();
        qsort(arches, (size_t)narches, sizeof *arches, by_value);
        int skip = narches > 64 ? narches - 64 : 0;
        found.narches = narches - skip;
        memcpy(found.arches, arches + skip, (size_t)found.narches * sizeof *arches);
        return SF_OK;
}

sf_status sf_jit_compiler(const sf_context *ctx, int32_t driver_major, const sf_compiler **compiler)
{
        sf_status status = SF_OK;
        *compiler = atomic_load_explicit(&ready, memory_order_acquire);
        if (*compiler)
                return SF_OK;
        sf_driver_at_fork(reset_lock);
        pthread_mutex_lock(&lock);
        if (!ready) {
                status = load(ctx, driver_major);
                if (status == SF_OK)
                        atomic_store_explicit(&ready, &found, memory_order_release);
        }
        pthread_mutex_unlock(&lock);
        *compiler = ready;
        return status;
}

sf_status sf_jit_arch(const sf_context *ctx, const sf_compiler *compiler, int32_t capability, char arch[16])
{
        int32_t best = 0;
        for (int32_t i = 0; i < compiler->narches; i++)
                if (compiler->arches[i] <= capability)
                        best = compiler->arches[i];
        if (!best)
                return sf_fail(ctx, SF_NO_DEVICE, "the device has compute capability %d.%d, but NVRTC %d.%d (%s) "
                                                  "compiles for %d.%d and newer; name an "
                                                  "older NVRTC in SCANFOLD_NVRTC",
                               (int)capability / 10, (int)capability % 10, (int)compiler->major, (int)compiler->minor, compiler->path,
                               (int)compiler->arches[0] / 10, (int)compiler->arches[0] % 10);
        snprintf(arch, 16, best == capability ? "sm_%d" : "compute_%d", (int)best);
        return SF_OK;
}

const char *sf_jit_option(int32_t index)
{
        return index >= 0 && (size_t)index < OPTIONS ? options[index] : NULL;
}

/* ------------------------------------------------------------------------------------------------
 * Compiling
 * ---------------------------------------------------------------------------------------------- */
static char *read_log(nvrtc_program program)
{
        size_t size = 0;
        char *log = NULL;
        if (!nvrtc.log_size(program, &size) && size && (log = malloc(size + 1))) {
                log[0] = log[size] = '\0';
                nvrtc.log(program, log);
        }
        return log;
}

static sf_status read_binary(const sf_context *ctx, nvrtc_program program, const char *name, sf_binary *binary)
{
        int code = binary->ptx ? nvrtc.ptx_size(program, &binary->size) : nvrtc.cubin_size(program, &binary->size);
        if (!code && !(binary->image = calloc(1, binary->size + 1)))
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory for the %zu bytes of the compiled kernel %s", binary->size, name);
        if (!code)
                code = binary->ptx ? nvrtc.ptx(program, binary->image) : nvrtc.cubin(program, binary->image);
        if (!code && binary->size)
                return SF_OK;
        free(binary->image);
        binary->image = NULL;
        return sf_fail(ctx, SF_DEVICE_ERROR, "NVRTC compiled kernel %s but gave no binary: %s", name, nvrtc.error_text(code));
}

sf_status sf_jit_compile(const sf_context *ctx, const sf_compiler *compiler, const char *name, const char *source, const char *arch,
                         sf_binary *binary, char **log)
{
        const char *all[OPTIONS + 2];
        char arch_option[48];
        int count = 0, code;
        nvrtc_program program = NULL;
        sf_status status;

        *binary = (sf_binary){.ptx = !strncmp(arch, "compute_", 8)};
        if (log)
                *log = NULL;
        for (size_t i = 0; i < OPTIONS; i++)
                all[count++] = options[i];
        snprintf(arch_option, sizeof arch_option, "--gpu-architecture=%s", arch);
        all[count++] = arch_option;
        if (log)
                all[count++] = "--ptxas-options=-v";
        if ((code = nvrtc.create(&program, source, name, 0, NULL, NULL)))
                return sf_fail(ctx, SF_DEVICE_ERROR, "NVRTC %d.%d did not take kernel %s: %s", (int)compiler->major, (int)compiler->minor, name,
                               nvrtc.error_text(code));
        code = nvrtc.compile(program, count, all);
        if (code) {
                char *words = read_log(program);
                status = sf_fail(ctx, SF_DEVICE_ERROR, "NVRTC %d.%d could not compile kernel %s for %s: %s. Its "
                                                       "log:\n%s", (int)compiler->major,
                                 (int)compiler->minor, name, arch, nvrtc.error_text(code), words ? words : "(none)");
                free(words);
        } else {
                status = read_binary(ctx, program, name, binary);
                if (log)
                        *log = read_log(program);
        }
        nvrtc.destroy(&program);
        return status;
}
