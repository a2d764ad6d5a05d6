#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

gpu_table gpu;

void gpu_must(int code, const char *what, const char *file, int line)
{
        if (!code)
                return;
        fprintf(stderr, "%s:%d: %s gave CUDA error %d\n", file, line, what, code);
        exit(3);
}

bool gpu_open(void)
{
        static const struct {
                size_t offset;
                const char *symbol;
        } wanted[] = {
#define AT(member, symbol) {offsetof(gpu_table, member), symbol}
                AT(init, "cuInit"),
                AT(device_get, "cuDeviceGet"),
                AT(device_count, "cuDeviceGetCount"),
                AT(retain, "cuDevicePrimaryCtxRetain"),
                AT(reset, "cuDevicePrimaryCtxReset_v2"),
                AT(set_current, "cuCtxSetCurrent"),
                AT(get_current, "cuCtxGetCurrent"),
                AT(context_create, "cuCtxCreate_v2"),
                AT(context_destroy, "cuCtxDestroy_v2"),
                AT(allocate, "cuMemAlloc_v2"),
                AT(release, "cuMemFree_v2"),
                AT(memory_info, "cuMemGetInfo_v2"),
                AT(put, "cuMemcpyHtoD_v2"),
                AT(get, "cuMemcpyDtoH_v2"),
                AT(set, "cuMemsetD8_v2"),
                AT(copy_async, "cuMemcpyDtoDAsync_v2"),
                AT(synchronize, "cuCtxSynchronize"),
                AT(stream_create, "cuStreamCreate"),
                AT(stream_destroy, "cuStreamDestroy_v2"),
                AT(stream_synchronize, "cuStreamSynchronize"),
                AT(capture_begin, "cuStreamBeginCapture_v2"),
                AT(capture_end, "cuStreamEndCapture"),
                AT(instantiate, "cuGraphInstantiateWithFlags"),
                AT(graph_launch, "cuGraphLaunch"),
                AT(exec_destroy, "cuGraphExecDestroy"),
                AT(graph_destroy, "cuGraphDestroy"),
                AT(module_load, "cuModuleLoadData"),
                AT(module_function, "cuModuleGetFunction"),
                AT(launch, "cuLaunchKernel"),
#undef AT
        };
        const char *named = getenv("SCANFOLD_LIBCUDA");
        void *handle = dlopen(named && *named ? named : "libcuda.so.1", RTLD_NOW);
        if (!handle) {
                fprintf(stderr, "there is no CUDA driver: %s\n", dlerror());
                return false;
        }
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
                if (!(*(void **)((char *)&gpu + wanted[i].offset) = dlsym(handle, wanted[i].symbol))) {
                        fprintf(stderr, "the CUDA driver has no %s\n", wanted[i].symbol);
                        return false;
                }
        int device, code = gpu.init(0);
        gpu_handle context;
        if (code || (code = gpu.device_get(&device, 0))) {
                fprintf(stderr, "there is no CUDA device: error %d\n", code);
                return false;
        }
        GPU(gpu.retain(&context, device));
        GPU(gpu.set_current(context));
        return true;
}

/* ------------------------------------------------------------------------------------------------------------
 * Times
 * ---------------------------------------------------------------------------------------------------------- */
enum { WARM = 3, ROUNDS = 15 };

static double seconds(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;
        return (x > y) - (x < y);
}

void gpu_copy_work(void *user, gpu_handle stream)
{
        const gpu_copy *c = user;
        GPU(gpu.copy_async(c->to, c->from, c->bytes / 2, stream));
}

/* As gpu_time says; replay: what is timed is the launch of a graph of `times` runs. */
static void time_work(int count, gpu_work *const *work, void *const *user, int times, bool replay, double *took)
{
        static double rounds[GPU_TIMED_MAX][ROUNDS];
        gpu_handle stream, graph[GPU_TIMED_MAX], exec[GPU_TIMED_MAX];
        GPU(gpu.stream_create(&stream, 1));
        for (int i = 0; i < count; i++) { /* what a first run compiles and allocates is not timed */
                work[i](user[i], stream);
                GPU(gpu.stream_synchronize(stream));
                if (!replay)
                        continue;
                GPU(gpu.capture_begin(stream, 2));
                for (int t = 0; t < times; t++)
                        work[i](user[i], stream);
                GPU(gpu.capture_end(stream, &graph[i]));
                GPU(gpu.instantiate(&exec[i], graph[i], 0));
        }
        for (int k = -WARM; k < ROUNDS; k++)
                for (int i = 0; i < count; i++) {
                        double start = seconds();
                        if (replay)
                                GPU(gpu.graph_launch(exec[i], stream));
                        else
                                for (int t = 0; t < times; t++)
                                        work[i](user[i], stream);
                        GPU(gpu.stream_synchronize(stream));
                        if (k >= 0)
                                rounds[i][k] = (seconds() - start) / times;
                }
        for (int i = 0; i < count; i++) {
                qsort(rounds[i], ROUNDS, sizeof rounds[i][0], by_size);
                took[i] = rounds[i][ROUNDS / 2];
                if (replay) {
                        GPU(gpu.exec_destroy(exec[i]));
                        GPU(gpu.graph_destroy(graph[i]));
                }
        }
        GPU(gpu.stream_destroy(stream));
}

void gpu_time(int count, gpu_work *const *work, void *const *user, int times, double *took)
{
        time_work(count, work, user, times, true, took);
}

void gpu_time_calls(int count, gpu_work *const *work, void *const *user, int times, double *took)
{
        time_work(count, work, user, times, false, took);
}
