/* Expressions for XLA: see _jax.h. */
#include "_jax.h"

#include "_programs.h"
#include "_xla.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Plans are kept until the process ends. XLA also keeps a compiled program for every set of shapes,
 * which is far larger, and nothing tells us when a device has finished a plan's last run.
 */
typedef struct kept_plan {
        struct kept_plan *next;
        sf_plan *plan;
        size_t length;
        unsigned char key[];
} kept_plan;

enum { BUCKETS = 1024 };

static kept_plan *kept[BUCKETS];
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------------------------------------
 * Errors
 * ---------------------------------------------------------------------------------------------- */
static void *fail(const xla_call *call, int code, const char *sentence)
{
        xla_error_args args = {sizeof args, NULL, sentence, code};
        /* cppcheck-suppress returnDanglingLifetime ; XLA copies the message into its own error */
        return call->api->error_create(&args);
}

static void *fail_by(const xla_call *call, sf_status status)
{
        int code = status == SF_INVALID_ARGUMENT ? XLA_INVALID_ARGUMENT
                   : status == SF_UNSUPPORTED    ? XLA_UNIMPLEMENTED
                   : status == SF_OUT_OF_MEMORY  ? XLA_RESOURCE_EXHAUSTED
                                                 : XLA_INTERNAL;
        const char *sentence = sf_last_error(NULL);
        return fail(call, code, *sentence ? sentence : sf_status_name(status));
}

/* ------------------------------------------------------------------------------------------------
 * Reading the arguments of a call
 * ---------------------------------------------------------------------------------------------- */
/* XLA's dtypes by number; those that the library does not have get 0 bits. */
static sf_dtype dtype_of(int number)
{
        static const sf_dtype known[] = {
                [1] = {6, 8, 1},  [2] = {0, 8, 1},   [3] = {0, 16, 1},  [4] = {0, 32, 1},
                [5] = {0, 64, 1}, [6] = {1, 8, 1},   [7] = {1, 16, 1},  [8] = {1, 32, 1},
                [9] = {1, 64, 1}, [10] = {2, 16, 1}, [11] = {2, 32, 1}, [12] = {2, 64, 1},
                [16] = {4, 16, 1},
        };
        int count = sizeof known / sizeof *known;
        return number >= 0 && number < count ? known[number] : (sf_dtype){0, 0, 0};
}

/* Makes tensors from a list of buffers. Returns their number, or -1. */
static int32_t views_of(const xla_list *list, sf_device device, int32_t room, sf_tensor *view)
{
        if (list->count > room)
                return -1;
        for (int64_t i = 0; i < list->count; i++) {
                const xla_buffer *b = list->item[i];
                if (list->type[i] != XLA_BUFFER || b->rank > SF_MAX_NDIM)
                        return -1;
                view[i] = (sf_tensor){.data = b->data, .device = device, .ndim = (int32_t)b->rank,
                                      .dtype = dtype_of(b->dtype), .shape = b->shape};
        }
        return (int32_t)list->count;
}

static const xla_bytes *text_of(const xla_call *call)
{
        const xla_attributes *a = &call->attributes;
        for (int64_t i = 0; i < a->count; i++)
                if (a->type[i] == XLA_STRING && a->name[i]->length == 4 && memcmp(a->name[i]->data, "text", 4) == 0)
                        return a->item[i];
        return NULL;
}

/* ------------------------------------------------------------------------------------------------
 * Plans
 * ---------------------------------------------------------------------------------------------- */
/* Copies the bytes to the key, unless it is NULL. Returns where the next ones go. */
static size_t add(unsigned char *key, size_t at, const void *from, size_t bytes)
{
        if (key && bytes)
                memcpy(key + at, from, bytes);
        return at + bytes;
}

/* The devices, numbers of dimensions, dtypes and shapes, and then the text, as bytes. Returns their
 * number. key may be NULL. */
static size_t key_of(const xla_bytes *text, int32_t count, const sf_tensor *view, unsigned char *key)
{
        size_t length = 0;
        for (int32_t i = 0; i < count; i++) {
                const sf_tensor *v = &view[i];
                int32_t head[4] = {(int32_t)v->device.device_type, v->device.device_id, v->ndim,
                                   v->dtype.code * 256 + v->dtype.bits};
                length = add(key, length, head, sizeof head);
                length = add(key, length, v->shape, (size_t)v->ndim * sizeof *v->shape);
        }
        return add(key, length, text->data, text->length);
}

static sf_status make_plan(const xla_bytes *text, int32_t count, const sf_tensor *view, sf_plan **plan)
{
        char *line = malloc(text->length + 1);
        if (!line)
                return SF_OUT_OF_MEMORY;
        memcpy(line, text->data, text->length);
        line[text->length] = 0;
        sf_graph *graph = NULL;
        sf_plan_options o = SF_PLAN_OPTIONS_INIT;
        o.exact = 1;
        sf_status status = sf_graph_parse(NULL, line, &graph);
        if (status == SF_OK)
                status = sf_plan_create(NULL, graph, count, view, &o, plan);
        sf_graph_destroy(graph);
        free(line);
        return status;
}

/* The plan for such a call; the first call makes it. */
static sf_status plan_for(const xla_bytes *text, int32_t count, const sf_tensor *view, sf_plan **plan)
{
        size_t length = key_of(text, count, view, NULL);
        kept_plan *made = malloc(sizeof *made + length);
        if (!made)
                return SF_OUT_OF_MEMORY;
        key_of(text, count, view, made->key);
        uint32_t hash = 2166136261u; /* FNV-1a */
        for (size_t i = 0; i < length; i++)
                hash = (hash ^ made->key[i]) * 16777619u;
        sf_status status = SF_OK;
        pthread_mutex_lock(&kept_lock);
        kept_plan **slot = &kept[hash % BUCKETS], *found = *slot;
        while (found && (found->length != length || memcmp(found->key, made->key, length) != 0))
                found = found->next;
        if (!found && (status = make_plan(text, count, view, &made->plan)) == SF_OK) {
                made->length = length;
                made->next = *slot;
                found = *slot = made;
        }
        pthread_mutex_unlock(&kept_lock);
        if (found != made)
                free(made);
        if (status == SF_OK)
                *plan = found->plan;
        return status;
}

/* ------------------------------------------------------------------------------------------------
 * The handler
 * ---------------------------------------------------------------------------------------------- */
/* The device that a CUDA call is for, and its stream. */
static void *find_device(const xla_call *call, sf_device *device, void **stream)
{
        xla_stream_args where = {sizeof where, NULL, call->context, NULL};
        void *error = call->api->stream_get(&where);
        if (error)
                /* cppcheck-suppress returnDanglingLifetime ; the error is XLA's own, as below */
                return error;
        *stream = where.stream;
        int32_t count = 0;
        if (call->api->size >= sizeof *call->api) {
                xla_ordinal_args which = {sizeof which, NULL, call->context, 0};
                error = call->api->ordinal_get(&which);
                device->device_id = which.ordinal;
        } else if (sf_device_count(NULL, SF_CUDA, &count) == SF_OK && count > 1) {
                error = fail(call, XLA_UNIMPLEMENTED,
                             "this jaxlib does not tell a function which of several GPUs it is called for: "
                             "take a newer one, or show the process one GPU by CUDA_VISIBLE_DEVICES");
        }
        return error; /* cppcheck-suppress returnDanglingLifetime */
}

static void *execute(const xla_call *call, sf_device device)
{
        sf_tensor in[MAX_INPUTS], out[MAX_OUTPUTS];
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        void *error = device.device_type == SF_CUDA ? find_device(call, &device, &o.stream) : NULL;
        if (error)
                return error;
        int32_t inputs = views_of(&call->arguments, device, MAX_INPUTS, in);
        int32_t outputs = views_of(&call->results, device, MAX_OUTPUTS, out);
        const xla_bytes *text = text_of(call);
        if (!text || inputs < 0 || outputs < 0)
                return fail(call, XLA_INVALID_ARGUMENT,
                            "a call of scanfold's needs an attribute `text`, and up to 32 arrays in and out "
                            "of up to 64 dimensions");
        sf_plan *plan = NULL;
        sf_status status = plan_for(text, inputs, in, &plan);
        if (status != SF_OK)
                return fail_by(call, status);
        if (sf_plan_outputs(plan) != outputs)
                return fail(call, XLA_INVALID_ARGUMENT, "a call of scanfold's has not as many results as its text");
        status = sf_plan_run(plan, in, out, &o);
        return status == SF_OK ? NULL : fail_by(call, status);
}

/*
 * XLA asks once which version a handler was made for. What we read is in every version with this
 * major number, so the answer is the version of the caller; if that is not known, the first one.
 */
static void describe(const xla_call *call, xla_metadata *asked)
{
        asked->version.major_version = XLA_MAJOR;
        asked->version.minor_version = call->api ? call->api->version.minor_version : XLA_FIRST_MINOR;
        asked->traits = 0;
}

static void *handle(const xla_call *call, sf_device device)
{
        for (xla_extension *e = call->extension; e; e = e->next)
                if (e->type == XLA_METADATA) {
                        describe(call, ((xla_metadata_extension *)e)->metadata);
                        return NULL;
                }
        if (call->api->version.major_version != XLA_MAJOR)
                return fail(call, XLA_UNIMPLEMENTED,
                            "this jaxlib has another version of XLA's foreign function interface than scanfold "
                            "knows, which is 0: take a newer scanfold");
        return call->stage == XLA_EXECUTE ? execute(call, device) : NULL;
}

static void *handle_cpu(xla_call *call)
{
        return handle(call, (sf_device){SF_CPU, 0});
}

static void *handle_cuda(xla_call *call)
{
        return handle(call, (sf_device){SF_CUDA, 0});
}

PyObject *xla_handler(PyObject *self, PyObject *args)
{
        (void)self;
        const char *platform;
        if (!PyArg_ParseTuple(args, "s", &platform))
                return NULL;
        void *(*handler)(xla_call *) = strcmp(platform, "CUDA") == 0 ? handle_cuda : handle_cpu;
        void *address;
        /* C has no cast from a function pointer to an object pointer */
        memcpy(&address, &handler, sizeof address);
        return PyCapsule_New(address, NULL, NULL);
}
