#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

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
