/*
 * Shards in the memory of a CUDA device, on the host: what each rank computes of its shard by the kernels, against the reference's answer for the whole axis. Met
 * twice, as ../cuda_host/test_expr_host.c says.
 *
 *     test_ranks_host folder compiler jobs
 */
#include "backend_host.h"
#include "kernels.h"
#include "scanfold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 3, N = 300, RANKS = 4, BYTES = LINES * N * 8 };

/* Where shards begin: at many set bits, so that there is more to the left than one step takes; and an empty one. */
static const int64_t begins[RANKS + 1] = {0, 64, 255, 255, N};

typedef struct sample {
        const char *name;
        sf_dtype in, out;
        sf_op op;
        int32_t axis, fold, reverse, exclusive, masked, skip_nan, initial;
} sample;

static const sample samples[] = {
        {"cumsum", SF_F32_INIT, SF_F32_INIT, SF_SUM, 1, 0, 0, 0, 0, 0, 0},
        {"cumsum, exclusive", SF_F32_INIT, SF_F32_INIT, SF_SUM, 1, 0, 0, 1, 0, 0, 0},
        {"cumsum, in columns, reverse", SF_F32_INIT, SF_F16_INIT, SF_SUM, 0, 0, 1, 0, 0, 0, 1},
        {"cummax, masked", SF_F64_INIT, SF_F64_INIT, SF_MAX, 1, 0, 1, 1, 1, 0, 0},
        {"cumprod of integers", SF_I32_INIT, SF_I64_INIT, SF_PROD, 0, 0, 0, 0, 0, 0, 0},
        {"cumsum without NaN", SF_F32_INIT, SF_F32_INIT, SF_SUM, 1, 0, 0, 0, 0, 1, 0},
        {"sum", SF_F32_INIT, SF_F32_INIT, SF_SUM, 1, 1, 1, 0, 0, 0, 1},
        {"min, masked", SF_I32_INIT, SF_I32_INIT, SF_MIN, 0, 1, 0, 0, 1, 0, 0},
        {"argmax, masked", SF_F32_INIT, SF_I64_INIT, SF_ARGMAX, 1, 1, 0, 0, 1, 0, 0},
        {"last_argmin, reverse", SF_I32_INIT, SF_I32_INIT, SF_LAST_ARGMIN, 0, 1, 1, 0, 0, 0, 0},
};

static sf_context *ref, *device;
static int failures, checks;
static char x[BYTES], mask[LINES * N], whole[BYTES], part[BYTES], spans[1 << 20];

static void check(bool passed, const char *name, const char *what, sf_context *ctx)
{
        checks++;
        if (passed)
                return;
        failures++;
        fprintf(stderr, "%s: %s: %s\n", name, what, sf_last_error(ctx));
}

static void fill(const sample *s)
{
        srand(7);
        for (int i = 0; i < LINES * N; i++) {
                const double v = (rand() % 2000001 - 1000000) / 333.0;
                const float narrow = s->skip_nan && i % 5 == 2 ? (float)__builtin_nan("") : s->exclusive && i < 280 ? -0.0f : (float)v; /* -0.0 stays, whoever has none of his own */
                const int32_t integer = s->op == SF_LAST_ARGMIN ? (int32_t)v / 1000 : (int32_t)v | 1;
                if (s->in.code == 0)
                        memcpy(x + 4 * i, &integer, 4);
                else if (s->in.bits == 64)
                        memcpy(x + 8 * i, &v, 8);
                else
                        memcpy(x + 4 * i, &narrow, 4);
                mask[i] = rand() % 3 > 0;
        }
}

/* Positions [from, to) of the axis of an array of the whole shape; a fold's result has one. */
static sf_tensor part_of(const sample *s, void *data, sf_dtype dtype, int64_t from, int64_t to, int type, int64_t *room)
{
        const int64_t shape[2] = {s->axis ? LINES : N, s->axis ? N : LINES};
        const int64_t strides[2] = {shape[1], 1};
        for (int d = 0; d < 2; d++) {
                room[d] = d == s->axis ? to - from : shape[d];
                room[2 + d] = strides[d];
        }
        return (sf_tensor){.data = (char *)data + from * strides[s->axis] * (dtype.bits / 8), .device = {type, 0}, .ndim = 2, .dtype = dtype, .shape = room,
                           .strides = room + 2};
}

static sf_tensor result_of(const sample *s, void *data, int64_t from, int64_t to, int type, int64_t *room)
{
        return part_of(s, data, s->out, s->fold ? 0 : from, s->fold ? 1 : to, type, room);
}

static void run_whole(const sample *s)
{
        int64_t rx[4], ry[4], rm[4];
        sf_tensor tx = part_of(s, x, s->in, 0, N, SF_CPU, rx), ty = result_of(s, whole, 0, N, SF_CPU, ry), tm = part_of(s, mask, SF_U8, 0, N, SF_CPU, rm);
        const sf_scalar initial = s->initial ? sf_real(0.5) : (sf_scalar){0};
        memset(whole, 0, sizeof whole);
        if (s->fold) {
                sf_fold_options o = SF_FOLD_OPTIONS_INIT;
                o.op = s->op, o.axes = &s->axis, o.naxes = 1, o.keepdim = 1, o.reverse = s->reverse, o.mask = s->masked ? &tm : NULL, o.skip_nan = s->skip_nan;
                o.initial = initial;
                check(sf_fold(ref, &tx, &ty, &o) == SF_OK, s->name, "the whole", ref);
        } else {
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.op = s->op, o.axis = s->axis, o.reverse = s->reverse, o.exclusive = s->exclusive, o.mask = s->masked ? &tm : NULL, o.skip_nan = s->skip_nan;
                o.initial = initial;
                check(sf_scan(ref, &tx, &ty, &o) == SF_OK, s->name, "the whole", ref);
        }
}

typedef struct rank {
        int64_t rx[4], ry[4], rm[4];
        sf_tensor x, y, m;
        sf_shard_options options;
        sf_shard *shard;
} rank;

static void run_ranks(const sample *s)
{
        static rank ranks[RANKS];
        sf_shard_card cards[RANKS];
        size_t at = 0;
        memset(part, 0, sizeof part);
        for (int i = 0; i < RANKS; i++) {
                rank *r = &ranks[i];
                const sf_shard_options usual = SF_SHARD_OPTIONS_INIT;
                r->x = part_of(s, x, s->in, begins[i], begins[i + 1], SF_CUDA, r->rx);
                r->y = result_of(s, part, begins[i], begins[i + 1], SF_CUDA, r->ry);
                r->m = part_of(s, mask, SF_U8, begins[i], begins[i + 1], SF_CUDA, r->rm);
                r->options = usual;
                r->options.op = s->op, r->options.axis = s->axis, r->options.fold = s->fold, r->options.keepdim = s->fold, r->options.reverse = s->reverse;
                r->options.exclusive = s->exclusive, r->options.mask = s->masked ? &r->m : NULL, r->options.skip_nan = s->skip_nan;
                r->options.initial = s->initial ? sf_real(0.5) : (sf_scalar){0};
                sf_shard_card_make(device, &r->x, &r->y, &r->options, &cards[i]);
        }
        for (int i = 0; i < RANKS; i++) {
                rank *r = &ranks[i];
                r->shard = NULL;
                check(sf_shard_create(device, &r->x, &r->y, &r->options, i, RANKS, cards, &r->shard) == SF_OK, s->name, "sf_shard_create", device);
                if (!r->shard)
                        return;
                check(sf_shard_values(r->shard, spans + at) == SF_OK, s->name, "sf_shard_values", device);
                at += sf_shard_bytes(r->shard, i);
        }
        for (int i = 0; i < RANKS; i++) {
                if (s->fold)
                        memset(part, 0, sizeof part);
                check(sf_shard_finish(ranks[i].shard, spans) == SF_OK, s->name, "sf_shard_finish", device);
                if (s->fold)
                        check(!memcmp(part, whole, sizeof part), s->name, "the bits of a fold", device);
                sf_shard_destroy(ranks[i].shard);
        }
        check(!memcmp(part, whole, sizeof part), s->name, "the bits", device);
}

/* What a device does not have is refused, with a sentence. */
static void check_refused(void)
{
        const sample s = {"logsumexp", SF_F32_INIT, SF_F32_INIT, SF_LOGSUMEXP, 1, 0, 0, 0, 0, 0, 0};
        int64_t rx[4], ry[4];
        sf_tensor tx = part_of(&s, x, s.in, 0, N, SF_CUDA, rx), ty = part_of(&s, part, s.out, 0, N, SF_CUDA, ry);
        sf_shard_options o = SF_SHARD_OPTIONS_INIT;
        sf_shard_card card;
        sf_shard *shard = NULL;
        o.op = s.op;
        sf_shard_card_make(device, &tx, &ty, &o, &card);
        check(sf_shard_create(device, &tx, &ty, &o, 0, 1, &card, &shard) == SF_UNSUPPORTED && strstr(sf_last_error(device), "not this logsumexp; move it to CPU memory"),
              s.name, "refused", device);
}

static void run_all(void)
{
        for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
                fill(&samples[i]);
                run_whole(&samples[i]);
                run_ranks(&samples[i]);
        }
        check_refused();
}

int main(int argc, char **argv)
{
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        if (argc < 4) {
                fprintf(stderr, "usage: test_ranks_host folder compiler jobs\n");
                return 2;
        }
        o.threads = 1;
        o.backend = SF_BACKEND_REF;
        if (sf_context_create(&ref, &o) != SF_OK)
                return 2;
        o.backend = SF_BACKEND_AUTO;
        if (sf_context_create(&device, &o) != SF_OK)
                return 2;
        host_chip = (sf_cuda_chip){.capability = 90, .multiprocessors = 3, .threads_per_multiprocessor = 2048, .shared_per_block = 65536,
                                   .shared_per_multiprocessor = 65536, .l2 = 8192, .cluster = 2, .small_tiles = 1};
        kernels_open(argv[1], argv[2], atoi(argv[3]));
        host_learning = true;
        run_all();
        kernels_compile();
        host_learning = false;
        run_all();
        fprintf(stderr, "%d checks, %d failures; %d specialisations, %ld launches\n", checks, failures, kernels_count(), host_launches);
        return failures != 0 || !host_launches;
}
