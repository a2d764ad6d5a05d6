/*
 * digest.c: `scanfold digest` prints one number for each operation and dtype: a hash of the bits of
 * all results for a fixed list of inputs. If two machines, or two builds, print the same lines,
 * they give the same bits. Inputs are made from integers by shifts and exact products, so they are
 * the same everywhere.
 */
#include "cli.h"

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

static sf_tensor tensor_of(void *data, const struct dtype_info *dtype, int32_t ndim, const int64_t *shape)
{
        return (sf_tensor){ .data = data, .device = { SF_CPU, 0 }, .ndim = ndim, .dtype = dtype->dtype, .shape = (int64_t *)shape };
}

/* Scans forwards, in reverse and exclusive, and folds in both directions, for all shapes. Nonzero
 * if the operation does not support this dtype. */
static int digest_op(sf_context *ctx, sf_op op, const struct dtype_info *dtype, const struct dtype_info *out, unsigned char *x, unsigned char *y, uint64_t *digest)
{
        for (int i = 0; i < NSHAPES; i++) {
                const struct shape *s = &shapes[i];
                const int64_t folded[] = { s->length[0], s->length[2] }, kept = folded[0] * folded[1], count = kept * s->length[1];
                sf_tensor tx = tensor_of(x, dtype, 3, s->length);
                for (int way = 0; way < 5; way++) {
                        sf_status status;
                        const int64_t results = way < 3 ? count : kept;
                        sf_tensor ty = tensor_of(y, out, way < 3 ? 3 : 2, way < 3 ? s->length : folded);
                        if (way < 3) {
                                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                                o.op = op;
                                o.axis = s->axis;
                                o.reverse = way == 1;
                                o.exclusive = way == 2;
                                status = sf_scan(ctx, &tx, &ty, &o);
                        } else {
                                sf_fold_options o = SF_FOLD_OPTIONS_INIT;
                                o.op = op;
                                o.axes = &s->axis;
                                o.naxes = 1;
                                o.reverse = way == 4;
                                status = sf_fold(ctx, &tx, &ty, &o);
                        }
                        if (status)
                                return -1;
                        *digest = add_bytes(*digest, y, (size_t)(results * out->size));
                }
        }
        return 0;
}

static int digest_expression(sf_context *ctx, const char *text, const struct dtype_info *dtype, unsigned char *x, unsigned char *y, uint64_t *digest)
{
        sf_graph *graph = NULL;
        int status = sf_graph_parse(ctx, text, &graph);
        for (int i = 0; i < NSHAPES && !status; i++) {
                sf_plan *plan = NULL;
                int64_t shape[SF_MAX_NDIM], count = 1;
                sf_tensor tx = tensor_of(x, dtype, 3, shapes[i].length), ty = tensor_of(y, dtype, 0, shape);
                status = sf_plan_create(ctx, graph, 1, &tx, NULL, &plan);
                if (!status)
                        status = sf_plan_output(plan, 0, &ty.ndim, shape, &ty.dtype);
                if (!status)
                        status = sf_plan_run(plan, &tx, &ty, NULL);
                sf_plan_destroy(plan);
                for (int32_t d = 0; !status && d < ty.ndim; d++)
                        count *= shape[d];
                if (!status)
                        *digest = add_bytes(*digest, y, (size_t)count * ty.dtype.bits / 8);
        }
        sf_graph_destroy(graph);
        return status ? complain("%s: %s", text, sf_last_error(ctx)) : CLI_DONE;
}

static int print_digests(sf_context *ctx, unsigned char *x, unsigned char *y)
{
        static const char *const names[] = { "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool" };
        static const char *const wide[] = { "f32", "f64", "f32", "f32", "i64", "i64", "i64", "i64", "u64", "u64", "u64", "u64", "i64" };
        enum { DTYPES = sizeof(names) / sizeof(names[0]) };
        for (int d = 0; d < DTYPES; d++) {
                const struct dtype_info *dtype = dtype_by_name(names[d]), *wider = dtype_by_name(wide[d]), *index = dtype_by_name("i64");
                fill(x, dtype, MOST);
                for (int op = 0; sf_op_name((sf_op)op); op++) {
                        const struct dtype_info *outs[] = { dtype, wider, index };
                        for (int k = 0; k < 3; k++) {
                                uint64_t digest = 0xcbf29ce484222325u;
                                const int seen = (k > 0 && outs[k] == outs[0]) || (k > 1 && outs[k] == outs[1]);
                                if (!seen && !digest_op(ctx, (sf_op)op, dtype, outs[k], x, y, &digest))
                                        printf("%016" PRIx64 "  %s of %s into %s\n", digest, sf_op_name((sf_op)op), dtype->name, outs[k]->name);
                        }
                }
        }
        for (int d = 0; d < 2; d++) {
                const struct dtype_info *dtype = dtype_by_name(names[d]);
                fill(x, dtype, MOST);
                for (int i = 0; i < NEXPRESSIONS; i++) {
                        uint64_t digest = 0xcbf29ce484222325u;
                        const int status = digest_expression(ctx, expressions[i], dtype, x, y, &digest);
                        if (status)
                                return status;
                        printf("%016" PRIx64 "  %s of %s\n", digest, expressions[i], dtype->name);
                }
        }
        return finish_stdout();
}

int command_digest(int argc, char **argv)
{
        if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
                return print_help("digest"), finish_stdout();
        if (argc > 1)
                return complain_usage("digest", "digest takes no argument, and was given %s", argv[1]);
        sf_context *ctx;
        int status = make_context(0, &ctx);
        if (status)
                return status;
        unsigned char *x = malloc(8 * MOST), *y = malloc(8 * MOST);
        status = x && y ? print_digests(ctx, x, y) : complain("digest needs %d bytes of memory, and could not have them", 16 * MOST);
        free(x);
        free(y);
        sf_context_destroy(ctx);
        return status;
}
