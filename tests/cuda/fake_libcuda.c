/* A libcuda of our own making: fake.h says what for. */
#include "fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The prototypes of what we are to export, from the very list it is called by. */
#define DRIVER(member, symbol, arguments) __attribute__((visibility("default"))) cu_result symbol arguments;
#define OPTIONAL DRIVER
#include "cuda/driver.def"

static void destroy_graphs(void);
static void set_current(int device);
static int current(void);

__attribute__((visibility("default"))) fake_cuda fake_cuda_state = {.version = 13000,
                                                                   .devices = 2,
                                                                   .capability = 90,
                                                                   .pools = 1,
                                                                   .destroy_graphs = destroy_graphs,
                                                                   .set_current = set_current,
                                                                   .current = current};
#define fake fake_cuda_state

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define CALLED(member)                                                                                             \
        do {                                                                                                       \
                fake.calls[FAKE_##member]++;                                                                       \
                if (fake.result[FAKE_##member])                                                                    \
                        return fake.result[FAKE_##member];                                                         \
        } while (0)

/* Contexts are device numbers plus one, on a stack for each thread. */
static _Thread_local int stack[16];
static _Thread_local int depth;

static int current(void)
{
        return depth ? stack[depth - 1] - 1 : -1;
}

static void set_current(int device)
{
        depth = device >= 0;
        stack[0] = device + 1;
}

cu_result cuInit(unsigned flags)
{
        CALLED(init);
        return flags ? 1 : CU_OK;
}
cu_result cuDriverGetVersion(int *version)
{
        CALLED(driver_version);
        *version = fake.version;
        return CU_OK;
}
cu_result cuGetErrorName(cu_result code, const char **name)
{
        CALLED(error_name);
        *name = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == CU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_SOME_OTHER";
        return CU_OK;
}
cu_result cuGetErrorString(cu_result code, const char **text)
{
        CALLED(error_text);
        *text = code == CU_OK ? "no error" : "as the test told it to";
        return CU_OK;
}
cu_result cuDeviceGetCount(int *count)
{
        CALLED(device_count);
        *count = fake.devices;
        return CU_OK;
}
cu_result cuDeviceGet(cu_device *device, int ordinal)
{
        CALLED(device_get);
        *device = ordinal;
        return ordinal < fake.devices ? CU_OK : 101;
}
cu_result cuDeviceGetName(char *name, int size, cu_device device)
{
        CALLED(device_name);
        (void)device;
        strncpy(name, "a GPU of the tests", (size_t)size);
        return CU_OK;
}
cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device device)
{
        CALLED(device_memory);
        (void)device;
        *bytes = (size_t)1 << 34;
        return CU_OK;
}
cu_result cuDeviceGetAttribute(int *value, int attribute, cu_device device)
{
        CALLED(device_attribute);
        (void)device;
        switch (attribute) {
        case CU_DEVICE_MAJOR: *value = fake.capability / 10; break;
        case CU_DEVICE_MINOR: *value = fake.capability % 10; break;
        case CU_DEVICE_MULTIPROCESSORS: *value = 132; break;
        case CU_DEVICE_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
        case CU_DEVICE_SHARED_PER_BLOCK: *value = 232448; break;
        case CU_DEVICE_SHARED_PER_MULTIPROCESSOR: *value = 233472; break;
        case CU_DEVICE_L2: *value = 60 << 20; break;
        case CU_DEVICE_HAS_POOLS: *value = fake.pools; break;
        default: *value = 0;
        }
        return CU_OK;
}
cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device)
{
        CALLED(primary_retain);
        *context = (cu_context)(uintptr_t)(device + 1);
        return CU_OK;
}
cu_result cuCtxGetCurrent(cu_context *context)
{
        CALLED(context_current);
        *context = (cu_context)(uintptr_t)(current() + 1);
        return CU_OK;
}
cu_result cuCtxPushCurrent_v2(cu_context context)
{
        CALLED(context_push);
        stack[depth++] = (int)(uintptr_t)context;
        fake.pushed++;
        return CU_OK;
}
cu_result cuCtxPopCurrent_v2(cu_context *context)
{
        CALLED(context_pop);
        *context = (cu_context)(uintptr_t)stack[--depth];
        fake.pushed--;
        return CU_OK;
}

/* A module is a copy of its image, a function the same. */
cu_result cuModuleLoadDataEx(cu_module *module, const void *image, unsigned options, int *names, void **values)
{
        CALLED(module_load);
        if (current() < 0)
                return CU_INVALID_CONTEXT;
        for (unsigned i = 0; i < options; i++)
                if (names[i] == CU_MODULE_ERROR_LOG)
                        strcpy(values[i], "");
        if (strncmp(image, "fake ", 5))
                return CU_INVALID_IMAGE;
        *module = (cu_module)strdup(image);
        return CU_OK;
}
cu_result cuModuleUnload(cu_module module)
{
        CALLED(module_unload);
        free(module);
        return CU_OK;
}
cu_result cuModuleGetFunction(cu_function *function, cu_module module, const char *name)
{
        CALLED(module_function);
        char defined[128];
        snprintf(defined, sizeof defined, "#define SF_ENTRY %s\n", name);
        *function = (cu_function)module;
        return strstr((const char *)module, defined) ? CU_OK : 500;
}
cu_result cuFuncGetAttribute(int *value, int attribute, cu_function function)
{
        CALLED(function_attribute);
        (void)attribute, (void)function;
        *value = 1024;
        return CU_OK;
}
cu_result cuFuncSetAttribute(cu_function function, int attribute, int value)
{
        CALLED(function_set);
        (void)function;
        return attribute == CU_FUNCTION_DYNAMIC_SHARED && value > 232448 - 1024 ? 1 : CU_OK;
}
cu_result cuLaunchKernelEx(const cu_launch *launch, cu_function function, void **params, void **extra)
{
        CALLED(launch);
        if (extra || current() < 0)
                return 1;
        fake_launch *l = &fake.last[fake.launches++ % FAKE_LAUNCHES];
        l->image = (const char *)function;
        memcpy(l->grid, launch->grid, sizeof l->grid);
        memcpy(l->block, launch->block, sizeof l->block);
        l->shared = launch->shared;
        l->stream = launch->stream;
        l->overlaps = launch->count == 1 && launch->attributes->id == CU_LAUNCH_OVERLAP && launch->attributes->value == 1;
        l->context = current();
        memcpy(l->params, params[0], sizeof l->params);
        return CU_OK;
}
cu_result cuPointerGetAttributes(unsigned count, int *attributes, void **values, cu_address address)
{
        CALLED(pointer_attributes);
        bool ours = address >= FAKE_MEMORY(0) && address < FAKE_MEMORY(fake.devices);
        for (unsigned i = 0; i < count; i++)
                if (attributes[i] == CU_POINTER_MEMORY_TYPE)
                        *(unsigned *)values[i] = ours ? CU_MEMORY_DEVICE : 0;
                else
                        *(int *)values[i] = ours ? (int)((address - FAKE_MEMORY(0)) >> 44) : -2;
        return CU_OK;
}

static cu_result allocate(cu_address *address, size_t size)
{
        static atomic_ullong next = 1 << 20;
        *address = FAKE_MEMORY(current()) + ((uint64_t)1 << 43) + atomic_fetch_add(&next, (size + 511) & ~(size_t)511);
        if ((long)size > fake.biggest)
                fake.biggest = (long)size;
        fake.live++;
        return CU_OK;
}
cu_result cuMemAlloc_v2(cu_address *address, size_t size)
{
        CALLED(allocate);
        return allocate(address, size);
}
cu_result cuMemFree_v2(cu_address address)
{
        CALLED(release);
        (void)address;
        fake.live--;
        return CU_OK;
}
cu_result cuMemAllocAsync(cu_address *address, size_t size, cu_stream stream)
{
        CALLED(allocate_async);
        (void)stream;
        return allocate(address, size);
}
cu_result cuMemFreeAsync(cu_address address, cu_stream stream)
{
        CALLED(release_async);
        (void)address, (void)stream;
        fake.live--;
        return CU_OK;
}
cu_result cuMemsetD8Async(cu_address address, unsigned char value, size_t size, cu_stream stream)
{
        CALLED(clear_async);
        (void)address, (void)size, (void)stream;
        return value ? 1 : CU_OK;
}
cu_result cuStreamGetId(cu_stream stream, uint64_t *id)
{
        CALLED(stream_id);
        *id = (uint64_t)(uintptr_t)stream;
        return CU_OK;
}
cu_result cuStreamGetFlags(cu_stream stream, unsigned *flags)
{
        CALLED(stream_flags);
        (void)stream;
        *flags = 0;
        return CU_OK;
}
cu_result cuStreamCreate(cu_stream *stream, unsigned flags)
{
        CALLED(stream_create);
        *stream = (cu_stream)0x6660;
        return flags == CU_STREAM_NON_BLOCKING ? CU_OK : 1;
}
cu_result cuStreamSynchronize(cu_stream stream)
{
        CALLED(stream_wait);
        return stream == (cu_stream)0x6660 ? CU_OK : 1;
}
cu_result cuStreamDestroy_v2(cu_stream stream)
{
        CALLED(stream_destroy);
        return stream == (cu_stream)0x6660 ? CU_OK : 1;
}
cu_result cuThreadExchangeStreamCaptureMode(int *mode)
{
        static _Thread_local int mine;
        CALLED(capture_mode);
        int given = *mode;
        *mode = mine;
        mine = given;
        return CU_OK;
}
cu_result cuStreamGetCaptureInfo_v2(cu_stream stream, int *status, uint64_t *id, cu_graph *graph, const void **nodes, size_t *count)
{
        CALLED(capture_info);
        (void)id, (void)nodes, (void)count;
        *status = fake.capturing && stream == fake.capturing;
        *graph = (cu_graph)&fake;
        return CU_OK;
}

struct cu_object_handle {
        struct cu_object_handle *next;
        void *data;
        void (*destroy)(void *);
};
static cu_object held;

cu_result cuUserObjectCreate(cu_object *object, void *data, void (*destroy)(void *), unsigned references, unsigned flags)
{
        CALLED(user_object);
        if (references != 1 || flags != CU_OBJECT_NO_SYNC)
                return 1;
        *object = malloc(sizeof **object);
        **object = (struct cu_object_handle){NULL, data, destroy};
        return CU_OK;
}
cu_result cuGraphRetainUserObject(cu_graph graph, cu_object object, unsigned count, unsigned flags)
{
        CALLED(graph_retain);
        if (graph != (cu_graph)&fake || count != 1 || flags != CU_GRAPH_MOVE)
                return 1;
        pthread_mutex_lock(&lock);
        object->next = held;
        held = object;
        fake.objects++;
        pthread_mutex_unlock(&lock);
        return CU_OK;
}
cu_result cuUserObjectRelease(cu_object object, unsigned count)
{
        CALLED(object_release);
        (void)count;
        object->destroy(object->data);
        free(object);
        return CU_OK;
}

static void destroy_graphs(void)
{
        while (held) {
                cu_object object = held;
                held = object->next;
                object->destroy(object->data);
                free(object);
                fake.objects--;
        }
}
