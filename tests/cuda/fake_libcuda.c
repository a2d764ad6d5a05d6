/* A libcuda of our own making: fake.h says what for. */
#include "fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The prototypes of what we are to export, from the very list it is called by. */
#define DRIVER(member, symbol, arguments) __attribute__((visibility("default"))) cu_result symbol arguments;
#ifdef FAKE_OLD /* a driver from before CUDA 12.0 */
#define OPTIONAL(member, symbol, arguments)
#else
#define OPTIONAL DRIVER
#endif
#include "cuda/driver.def"

static void destroy_graphs(void);
static void watch(bool on);
static void renew(void *stream);
static void reset(int device);
static void set_current(int device);
static int current(void);

__attribute__((visibility("default"))) fake_cuda fake_cuda_state = {.version = 13000,
                                                                   .devices = 2,
                                                                   .capability = 90,
                                                                   .pools = 1,
                                                                   .destroy_graphs = destroy_graphs,
                                                                   .watch = watch,
                                                                   .renew = renew,
                                                                   .reset = reset,
                                                                   .set_current = set_current,
                                                                   .current = current};
#define fake fake_cuda_state

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define CALLED(member)                                                                                             \
        do {                                                                                                       \
                fake.calls[FAKE_##member]++;                                                                       \
                if (fake.result[FAKE_##member])                                                                    \
                        return fake.result[FAKE_##member];                                                         \
                if (fake.fails && fake.fails(#member))                                                             \
                        return 1;                                                                                  \
        } while (0)

/* Contexts are device numbers plus one, on a stack for each thread. A reset leaves the handle and
 * takes the rest. Threads allocate at the same time, as they may with a driver. */
#define DEVICES 2
static struct {
        atomic_bool inactive;
        atomic_int generation;
        atomic_long live;
        atomic_ullong first; /* what was allocated before is gone */
} contexts[DEVICES];
static atomic_ullong next_address = 1 << 20;
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

static void reset(int device)
{
        contexts[device].inactive = true;
        contexts[device].generation++;
        contexts[device].first = next_address;
        fake.live -= contexts[device].live;
        contexts[device].live = 0;
}

/* What was made in a context exists as long as the context. */
static bool gone(int device, int generation)
{
        if (contexts[device].generation == generation && !contexts[device].inactive)
                return false;
        fake.stale++;
        return true;
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
        contexts[device].inactive = false;
        *context = (cu_context)(uintptr_t)(device + 1);
        return CU_OK;
}
#ifndef FAKE_OLD
cu_result cuCtxGetId(cu_context context, uint64_t *id)
{
        CALLED(context_id);
        int device = context ? (int)(uintptr_t)context - 1 : current();
        if (device < 0)
                return CU_INVALID_CONTEXT;
        *id = (uint64_t)(device + DEVICES * contexts[device].generation);
        return contexts[device].inactive ? CU_CONTEXT_DESTROYED : CU_OK;
}
#endif
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
struct cu_module_handle {
        int device, generation;
        char image[];
};
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
        size_t size = strlen(image) + 1;
        *module = malloc(sizeof **module + size);
        (*module)->device = current();
        (*module)->generation = contexts[current()].generation;
        memcpy((*module)->image, image, size);
        return contexts[current()].inactive ? CU_CONTEXT_DESTROYED : CU_OK;
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
        return strstr(module->image, defined) ? CU_OK : 500;
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
/* What comes after what: of every stream, which launches its next one follows. */
#define STREAMS 256
static struct {
        uint64_t id, before;
} streams[STREAMS];
static long watched = -1; /* the launch that watching began with */
static struct {
        cu_stream stream;
        uint64_t id;
} renewed[16];
static uint64_t last_id = 1 << 30;

static uint64_t true_id(cu_stream stream)
{
        static _Thread_local uint64_t own;
        if (stream == (cu_stream)2)
                return own ? own : (own = ++last_id);
        for (size_t i = 0; i < sizeof renewed / sizeof *renewed; i++)
                if (renewed[i].stream == stream && stream)
                        return renewed[i].id;
        return stream == (cu_stream)1 ? 0 : (uint64_t)(uintptr_t)stream;
}

static uint64_t *before_of(cu_stream stream)
{
        uint64_t id = true_id(stream);
        size_t i = 0;
        while (i < STREAMS && streams[i].id != id + 1 && streams[i].id)
                i++;
        if (i == STREAMS)
                abort();
        streams[i].id = id + 1;
        return &streams[i].before;
}

static uint64_t note_launch(cu_stream stream, long number)
{
        uint64_t after = 0;
        pthread_mutex_lock(&lock);
        if (watched >= 0) {
                uint64_t *before = before_of(stream);
                after = *before;
                *before |= number - watched < 64 ? (uint64_t)1 << (number - watched) : 0;
        }
        pthread_mutex_unlock(&lock);
        return after;
}

static void watch(bool on)
{
        memset(streams, 0, sizeof streams);
        watched = on ? fake.launches : -1;
}

static void renew(void *stream)
{
        size_t i = 0;
        while (renewed[i].stream && renewed[i].stream != stream)
                i++;
        renewed[i].stream = stream;
        renewed[i].id = ++last_id;
}

/* Those of a destroyed context stay here: they must not be destroyed, and callers that still
 * have one may query it. */
struct cu_event_handle {
        int device, generation;
        uint64_t before;
        struct cu_event_handle *next;
};
static cu_event all_events;
cu_result cuEventCreate(cu_event *event, unsigned flags)
{
        CALLED(event_create);
        *event = calloc(1, sizeof **event);
        (*event)->device = current();
        (*event)->generation = contexts[current()].generation;
        pthread_mutex_lock(&lock);
        (*event)->next = all_events;
        all_events = *event;
        pthread_mutex_unlock(&lock);
        fake.events++;
        return flags == CU_EVENT_NO_TIMING ? CU_OK : 1;
}
cu_result cuEventDestroy_v2(cu_event event)
{
        CALLED(event_destroy);
        if (gone(event->device, event->generation))
                return CU_CONTEXT_DESTROYED;
        pthread_mutex_lock(&lock);
        cu_event *at = &all_events;
        while (*at != event)
                at = &(*at)->next;
        *at = event->next;
        pthread_mutex_unlock(&lock);
        free(event);
        fake.events--;
        return CU_OK;
}
cu_result cuEventRecord(cu_event event, cu_stream stream)
{
        CALLED(event_record);
        if (gone(event->device, event->generation))
                return CU_CONTEXT_DESTROYED;
        if (fake.capturing && stream == fake.capturing)
                return CU_OK; /* it belongs to the graph now */
        pthread_mutex_lock(&lock);
        event->before = watched >= 0 ? *before_of(stream) : 0;
        pthread_mutex_unlock(&lock);
        return CU_OK;
}
cu_result cuEventQuery(cu_event event)
{
        CALLED(event_query);
        if (gone(event->device, event->generation))
                return CU_CONTEXT_DESTROYED;
        return fake.busy ? 600 : CU_OK;
}
cu_result cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags)
{
        CALLED(stream_wait_event);
        if (gone(event->device, event->generation))
                return CU_CONTEXT_DESTROYED;
        if (fake.capturing && stream == fake.capturing)
                return 1;
        pthread_mutex_lock(&lock);
        if (watched >= 0)
                *before_of(stream) |= event->before;
        pthread_mutex_unlock(&lock);
        return flags ? 1 : CU_OK;
}

cu_result cuLaunchKernelEx(const cu_launch *launch, cu_function function, void **params, void **extra)
{
        CALLED(launch);
        if (extra || current() < 0)
                return 1;
        cu_module module = (cu_module)function;
        if (gone(module->device, module->generation))
                return CU_CONTEXT_DESTROYED;
        static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* who is told of at a time */
        pthread_mutex_lock(&one);
        long number = fake.launches++;
        fake_launch *l = &fake.last[number % FAKE_LAUNCHES];
        l->image = module->image;
        l->after = note_launch(launch->stream, number);
        memcpy(l->grid, launch->grid, sizeof l->grid);
        memcpy(l->block, launch->block, sizeof l->block);
        l->shared = launch->shared;
        l->stream = launch->stream;
        l->overlaps = launch->count == 1 && launch->attributes->id == CU_LAUNCH_OVERLAP && launch->attributes->value == 1;
        l->context = current();
        memcpy(l->params, params[0], sizeof l->params);
        pthread_mutex_unlock(&one);
        return CU_OK;
}
static char shared[1 << 20]; /* what the host and the device see */
cu_result cuPointerGetAttributes(unsigned count, int *attributes, void **values, cu_address address)
{
        CALLED(pointer_attributes);
        bool ours = address >= FAKE_MEMORY(0) && address < FAKE_MEMORY(fake.devices);
        bool pinned = address == (cu_address)(uintptr_t)shared;
        for (unsigned i = 0; i < count; i++)
                if (attributes[i] == CU_POINTER_MANAGED)
                        *(unsigned *)values[i] = (unsigned)fake.managed;
                else if (attributes[i] == CU_POINTER_MEMORY_TYPE)
                        *(unsigned *)values[i] = ours ? CU_MEMORY_DEVICE : pinned;
                else
                        *(int *)values[i] = ours ? (int)((address - FAKE_MEMORY(0)) >> 44) : -2;
        return CU_OK;
}

static cu_result allocate(cu_address *address, size_t size)
{
        if (contexts[current()].inactive)
                return CU_CONTEXT_DESTROYED;
        *address = FAKE_MEMORY(current()) + ((uint64_t)1 << 43);
        *address += atomic_fetch_add(&next_address, (size + 511) & ~(size_t)511);
        if ((long)size > fake.biggest)
                fake.biggest = (long)size;
        fake.live++;
        contexts[current()].live++;
        return CU_OK;
}

static cu_result release(cu_address address)
{
        uint64_t offset = address - FAKE_MEMORY(current()) - ((uint64_t)1 << 43);
        if (offset < contexts[current()].first) {
                fake.stale++;
                return CU_CONTEXT_DESTROYED;
        }
        fake.live--;
        contexts[current()].live--;
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
        return release(address);
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
        (void)stream;
        return release(address);
}
cu_result cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
        CALLED(host_allocate);
        (void)flags;
        *memory = shared;
        return size <= sizeof shared ? CU_OK : 2;
}
cu_result cuMemcpyAsync(cu_address to, cu_address from, size_t size, cu_stream stream)
{
        CALLED(copy_async);
        (void)to, (void)from, (void)size, (void)stream;
        return CU_OK;
}
#ifndef FAKE_OLD
cu_result cuStreamWriteValue32_v2(cu_stream stream, cu_address address, uint32_t value, unsigned flags)
{
        CALLED(write_4);
        (void)stream, (void)address;
        fake.written = value;
        return flags ? 1 : CU_OK;
}
cu_result cuStreamWriteValue64_v2(cu_stream stream, cu_address address, uint64_t value, unsigned flags)
{
        CALLED(write_8);
        (void)stream, (void)address;
        fake.written = value;
        return flags ? 1 : CU_OK;
}
#endif
cu_result cuMemsetD8Async(cu_address address, unsigned char value, size_t size, cu_stream stream)
{
        CALLED(clear_async);
        (void)address, (void)size, (void)stream;
        return value ? 1 : CU_OK;
}
#ifndef FAKE_OLD
cu_result cuStreamGetId(cu_stream stream, uint64_t *id)
{
        CALLED(stream_id);
        /* The per-thread stream's on whatever thread: nobody promises another. */
        *id = stream == (cu_stream)2 ? 2 : true_id(stream);
        return CU_OK;
}
#endif
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
        if (graph)
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
