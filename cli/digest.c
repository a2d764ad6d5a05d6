/*
 * digest.c: `scanfold digest` prints one number for each operation and dtype: a hash of the bits of
 * all results for a fixed list of inputs. If two machines, or two builds, print the same lines,
 * they give the same bits. Inputs are made from integers by shifts and exact products, so they are
 * the same everywhere. With --device cuda, the results are computed there.
 */
#include "cli.h"
#include "device.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Long enough that every instruction set has complete tiles and a remainder, and that threads share
 * an axis; few, so that it takes only seconds. */
static const struct shape {
        int64_t length[3];
        int32_t axis;
} shapes[] = { { { 1, 2, 1 }, 1 }, { { 3, 1021, 1 }, 1 }, { { 2, 67, 129 }, 1 }, { { 41, 5, 3 }, 1 }, { { 1, 300007, 1 }, 1 }, { { 1, 40009, 3 }, 1 } };
enum { NSHAPES = sizeof(shapes) / sizeof(shapes[0]), MOST = 300007 };

/* Work that takes several steps, in the notation. */
static const char *const expressions[] = {
        "softmax(x, 1)", "layer_norm(x, 1)", "rms_norm(x, 1)", "var(x, 1)", "norm(x, 3, 1)", "logsumexp(x, 1)", "cumsum(exp(x), 1)", "tanh(sigmoid(x))",
};
enum { NEXPRESSIONS = sizeof(expressions) / sizeof(expressions[0]) };

static uint64_t mix(uint64_t n)
{
        n += 0x9e3779b97f4a7c15u;
        n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
        n = (n ^ n >> 27) * 0x94d049bb133111ebu;
        return n ^ n >> 31;
}

/* FNV-1a on words of 8 bytes instead of bytes, so that hashing takes less time than computing. The
 * last word is padded with zeros. */
static uint64_t add_bytes(uint64_t digest, const unsigned char *bytes, size_t size)
{
        for (size_t i = 0; i < size; i += 8) {
                uint64_t word = 0;
                memcpy(&word, bytes + i, size - i < 8 ? size - i : 8);
                digest = (digest ^ word) * 0x100000001b3u;
                /* otherwise the upper bits would never affect the lower ones */
                digest ^= digest >> 32;
        }
        return digest;
}

/* A real is an odd integer of 7 bits and a sign, times 2^-5 to 2^2: every real dtype represents it
 * exactly, and sums of many of them are rounded. */
static void fill(unsigned char *x, const struct dtype_info *dtype, int64_t count)
{
        for (int64_t i = 0; i < count; i++) {
                const uint64_t r = mix((uint64_t)i);
                unsigned char *to = x + i * dtype->size;
                if (!dtype_is_float(dtype)) {
                        const uint64_t whole = !strcmp(dtype->name, "bool") ? r & 1 : r;
                        memcpy(to, &whole, (size_t)dtype->size);
                        continue;
                }
                const double value = ldexp((double)(r >> 8 & 127) - 63.5, (int)(r & 7) - 4);
                const float single = (float)value;
                uint32_t bits;
                memcpy(&bits, &single, sizeof(bits));
                const uint16_t brain = (uint16_t)(bits >> 16);
                /* exact and normal in f16: the exponent's bias changes, and only zeros of the
                 * fraction are dropped */
                const uint16_t half = (uint16_t)((bits >> 16 & 0x8000) | ((bits & 0x7fffffff) - (112u << 23)) >> 13);
                if (dtype->size == 8)
                        memcpy(to, &value, sizeof(value));
                else if (dtype->size == 4)
                        memcpy(to, &single, sizeof(single));
                else
                        memcpy(to, !strcmp(dtype->name, "f16") ? &half : &brain, sizeof(half));
        }
}

/* Where results are computed, and the memory of inputs and results: on the host (x, y) and on the
 * device (x_there, y_there). For the CPU these are the same. */
struct place {
        sf_context *ctx;
        sf_device device;
        unsigned char *x, *y;
        void *x_there, *y_there;
        const char *only; /* lines that have this text */
};

static sf_tensor tensor_of(const struct place *p, void *data, const struct dtype_info *dtype, int32_t ndim, const int64_t *shape)
{
        return (sf_tensor){ .data = data, .device = p->device, .ndim = ndim, .dtype = dtype->dtype, .shape = (int64_t *)shape };
}

static int make_inputs(const struct place *p, const struct dtype_info *dtype)
{
        fill(p->x, dtype, MOST);
        return p->x == p->x_there ? CLI_DONE : device_put(p->x_there, p->x, (size_t)MOST * dtype->size);
}

static int add_results(const struct place *p, size_t size, uint64_t *digest)
{
        const int status = p->y == p->y_there ? CLI_DONE : device_get(p->y, p->y_there, size);
        if (!status)
                *digest = add_bytes(*digest, p->y, size);
        return status;
}

/* Scans forwards, in reverse and exclusive, and folds in both directions, for all shapes. Sets *has
 * to 0 if there is no such operation of this dtype. */
static int digest_op(const struct place *p, sf_op op, const struct dtype_info *dtype, const struct dtype_info *out, int *has, uint64_t *digest)
{
        *has = 1;
        for (int i = 0; i < NSHAPES; i++) {
                const struct shape *s = &shapes[i];
                const int64_t folded[] = { s->length[0], s->length[2] }, kept = folded[0] * folded[1], count = kept * s->length[1];
                sf_tensor tx = tensor_of(p, p->x_there, dtype, 3, s->length);
                for (int way = 0; way < 5; way++) {
                        sf_status status;
                        const int64_t results = way < 3 ? count : kept;
                        sf_tensor ty = tensor_of(p, p->y_there, out, way < 3 ? 3 : 2, way < 3 ? s->length : folded);
                        if (way < 3) {
                                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                                o.op = op;
                                o.axis = s->axis;
                                o.reverse = way == 1;
                                o.exclusive = way == 2;
                                status = sf_scan(p->ctx, &tx, &ty, &o);
                        } else {
                                sf_fold_options o = SF_FOLD_OPTIONS_INIT;
                                o.op = op;
                                o.axes = &s->axis;
                                o.naxes = 1;
                                o.reverse = way == 4;
                                status = sf_fold(p->ctx, &tx, &ty, &o);
                        }
                        *has = status != SF_UNSUPPORTED && status != SF_INVALID_ARGUMENT;
                        if (!*has)
                                return CLI_DONE;
                        if (status)
                                return complain("%s of %s: %s", sf_op_name(op), dtype->name, sf_last_error(p->ctx));
                        if (add_results(p, (size_t)(results * out->size), digest))
                                return CLI_FAILED;
                }
        }
        return 0;
}

static int digest_expression(const struct place *p, const char *text, const struct dtype_info *dtype, uint64_t *digest)
{
        sf_graph *graph = NULL;
        int status = sf_graph_parse(p->ctx, text, &graph), copied = CLI_DONE;
        for (int i = 0; i < NSHAPES && !status && !copied; i++) {
                sf_plan *plan = NULL;
                int64_t shape[SF_MAX_NDIM], count = 1;
                sf_tensor tx = tensor_of(p, p->x_there, dtype, 3, shapes[i].length), ty = tensor_of(p, p->y_there, dtype, 0, shape);
                status = sf_plan_create(p->ctx, graph, 1, &tx, NULL, &plan);
                if (!status)
                        status = sf_plan_output(plan, 0, &ty.ndim, shape, &ty.dtype);
                if (!status)
                        status = sf_plan_run(plan, &tx, &ty, NULL);
                for (int32_t d = 0; !status && d < ty.ndim; d++)
                        count *= shape[d];
                if (!status)
                        copied = add_results(p, (size_t)count * ty.dtype.bits / 8, digest);
                sf_plan_destroy(plan);
        }
        sf_graph_destroy(graph);
        return status ? complain("%s: %s", text, sf_last_error(p->ctx)) : copied;
}

/* Each line is printed as soon as it is known: a device compiles its kernels first, for minutes. */
static void print_digest(uint64_t digest, const char *name)
{
        printf("%016" PRIx64 "  %s\n", digest, name);
        fflush(stdout);
}

static int print_digests(const struct place *p)
{
        static const char *const names[] = { "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool" };
        static const char *const wide[] = { "f32", "f64", "f32", "f32", "i64", "i64", "i64", "i64", "u64", "u64", "u64", "u64", "i64" };
        enum { DTYPES = sizeof(names) / sizeof(names[0]) };
        for (int d = 0; d < DTYPES; d++) {
                const struct dtype_info *dtype = dtype_by_name(names[d]), *wider = dtype_by_name(wide[d]), *index = dtype_by_name("i64");
                if (make_inputs(p, dtype))
                        return CLI_FAILED;
                for (int op = 0; sf_op_name((sf_op)op); op++) {
                        const struct dtype_info *outs[] = { dtype, wider, index };
                        for (int k = 0; k < 3; k++) {
                                uint64_t digest = 0xcbf29ce484222325u;
                                const int seen = (k > 0 && outs[k] == outs[0]) || (k > 1 && outs[k] == outs[1]);
                                int has = 0;
                                char name[64];
                                snprintf(name, sizeof(name), "%s of %s into %s", sf_op_name((sf_op)op), dtype->name, outs[k]->name);
                                if (!seen && strstr(name, p->only) && digest_op(p, (sf_op)op, dtype, outs[k], &has, &digest))
                                        return CLI_FAILED;
                                if (has)
                                        print_digest(digest, name);
                        }
                }
        }
        for (int d = 0; d < 2; d++) {
                const struct dtype_info *dtype = dtype_by_name(names[d]);
                if (make_inputs(p, dtype))
                        return CLI_FAILED;
                for (int i = 0; i < NEXPRESSIONS; i++) {
                        uint64_t digest = 0xcbf29ce484222325u;
                        char name[64];
                        snprintf(name, sizeof(name), "%s of %s", expressions[i], dtype->name);
                        if (!strstr(name, p->only))
                                continue;
                        const int status = digest_expression(p, expressions[i], dtype, &digest);
                        if (status)
                                return status;
                        print_digest(digest, name);
                }
        }
        return finish_stdout();
}

static int take_memory(struct place *p)
{
        const size_t size = 8 * MOST;
        p->x = malloc(size);
        p->y = malloc(size);
        if (!p->x || !p->y)
                return complain("digest needs %zu bytes of memory, and could not have them", 2 * size);
        if (p->device.device_type == SF_CPU) {
                p->x_there = p->x;
                p->y_there = p->y;
                return CLI_DONE;
        }
        int status = device_open(p->ctx, p->device);
        if (!status)
                status = device_allocate(size, &p->x_there);
        return status ? status : device_allocate(size, &p->y_there);
}

int command_digest(int argc, char **argv)
{
        static const struct option options[] = {
                { "device", required_argument, NULL, 'd' },
                { "only", required_argument, NULL, 'o' },
                { "help", no_argument, NULL, 'h' },
                { NULL, 0, NULL, 0 },
        };
        struct place place = { .device = { SF_CPU, 0 }, .only = "" };
        int option;
        while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
                if (option == 'h')
                        return print_help("digest"), finish_stdout();
                if (option == 'o')
                        place.only = optarg;
                else if (option != 'd')
                        return complain_option("digest", option, argv);
                else if (device_by_name(optarg, &place.device))
                        return complain_usage("digest", "--device %s is none; it is cpu, cuda or cuda:1", optarg);
        }
        if (optind < argc)
                return complain_usage("digest", "digest takes no argument, and was given %s", argv[optind]);
        int status = make_context(0, &place.ctx);
        if (status)
                return status;
        status = take_memory(&place);
        if (!status)
                status = print_digests(&place);
        if (place.device.device_type != SF_CPU) {
                device_free(place.x_there);
                device_free(place.y_there);
        }
        free(place.x);
        free(place.y);
        sf_context_destroy(place.ctx);
        return status;
}
