/*
 * Which operand is left and which is right, in every kernel: an operation that does not commute
 * (not_commuting.hpp) in the place of the product, against a plain loop. That it is associative
 * makes the loop right whatever the tree; the tree itself is test_cuda_host's.
 *
 *     test_sides_host folder compiler jobs [--only LENGTH]     all shapes; or those whose axis 1 is so long
 */
#include "backend_host.h"
#include "check.h"
#include "kernels.h"
#include "scanfold.h"

static const sf_cuda_chip chips[] = {
        {.capability = 90, .cluster = 8, .multiprocessors = 3, .threads_per_multiprocessor = 2048,
         .shared_per_block = 65536, .shared_per_multiprocessor = 65536,
         .l2 = 8192, .small_tiles = 1},
        {.capability = 90, .cluster = 8, .multiprocessors = 132, .threads_per_multiprocessor = 2048,
         .shared_per_block = 232448, .shared_per_multiprocessor = 233472,
         .l2 = 52428800},
        {.capability = 90, .cluster = 8, .multiprocessors = 3, .threads_per_multiprocessor = 2048,
         .shared_per_block = 65536, .shared_per_multiprocessor = 65536,
         .l2 = 52428800, .small_tiles = 1},
        {.capability = 90, .cluster = 8, .multiprocessors = 132, .threads_per_multiprocessor = 2048,
         .shared_per_block = 65536, .shared_per_multiprocessor = 65536,
         .l2 = 52428800, .small_tiles = 1}};

#define MOST 54000
static uint64_t x[MOST], y[2][MOST], right[2][MOST];
static unsigned char mask[MOST];
static sf_context *ctx;
static int64_t only; /* the length of axis 1; 0: all shapes */

static uint64_t compose(uint64_t a, uint64_t b)
{
        uint32_t low = (uint32_t)a * (uint32_t)b;
        uint32_t high = (uint32_t)(a >> 32) * (uint32_t)b + (uint32_t)(b >> 32);
        return (uint64_t)high << 32 | low;
}

static uint64_t element(int64_t i)
{
        uint64_t v = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
        return (v ^ v >> 29) | 1; /* an odd factor loses nothing */
}

typedef struct options {
        bool fold, reverse, exclusive, masked;
        uint64_t initial; /* 0: none */
        uint64_t plus;    /* to every element */
} options;

/* What (outer, n, inner) comes to along its middle. */
static void naive(const int64_t shape[3], const options *o, uint64_t *to)
{
        for (int64_t line = 0; line < shape[0] * shape[2]; line++) {
                int64_t first = line / shape[2] * shape[1] * shape[2] + line % shape[2];
                uint64_t sum = o->initial ? o->initial : 1;
                for (int64_t k = 0; k < shape[1]; k++) {
                        int64_t at = first + (o->reverse ? shape[1] - 1 - k : k) * shape[2];
                        uint64_t before = sum;
                        if (!o->masked || mask[at])
                                sum = compose(sum, x[at] + o->plus);
                        if (!o->fold)
                                to[at] = o->exclusive ? before : sum;
                }
                if (o->fold)
                        to[line] = sum;
        }
}

static void compare(const char *what, const int64_t shape[3], const uint64_t *got,
                    const uint64_t *expected, int64_t count)
{
        int64_t at = 0;
        while (at < count && got[at] == expected[at])
                at++;
        CHECK(host_learning || at == count, "%s of (%d, %d, %d), element %d", what, (int)shape[0],
              (int)shape[1], (int)shape[2], (int)at);
}

static void meet(const int64_t shape[3], options o)
{
        int64_t folded[] = {shape[0], shape[2]};
        int32_t axis = 1;
        sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 3, .dtype = SF_U64,
                        .shape = (int64_t *)shape}, ty = tx, tm = tx;
        tm.data = mask;
        tm.dtype = SF_BOOL;
        ty.data = y[0];
        sf_status status;
        if (o.fold) {
                sf_fold_options f = SF_FOLD_OPTIONS_INIT;
                f.op = SF_PROD;
                f.axes = &axis;
                f.naxes = 1;
                f.reverse = o.reverse;
                f.mask = o.masked ? &tm : NULL;
                f.initial = o.initial ? sf_uint(o.initial) : (sf_scalar){0};
                ty.ndim = 2;
                ty.shape = folded;
                status = sf_fold(ctx, &tx, &ty, &f);
        } else {
                sf_scan_options s = SF_SCAN_OPTIONS_INIT;
                s.op = SF_PROD;
                s.axis = 1;
                s.reverse = o.reverse;
                s.exclusive = o.exclusive;
                s.mask = o.masked ? &tm : NULL;
                s.initial = o.initial ? sf_uint(o.initial) : (sf_scalar){0};
                status = sf_scan(ctx, &tx, &ty, &s);
        }
        CHECK(status == SF_OK, "%s", sf_last_error(ctx));
        naive(shape, &o, right[0]);
        compare(o.fold ? "a fold" : "a scan", shape, y[0], right[0],
                shape[0] * shape[2] * (o.fold ? 1 : shape[1]));
}

/* Two results of one read: two folds, or a scan and its total. */
static void meet_shared(const int64_t shape[3], const char *text, bool folds)
{
        int64_t folded[] = {shape[0], shape[2]};
        sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 3, .dtype = SF_U64,
                        .shape = (int64_t *)shape}, ty[2] = {tx, tx};
        sf_graph *graph = NULL;
        sf_plan *plan = NULL;
        ty[0].data = y[0];
        ty[1].data = y[1];
        ty[1].ndim = 2;
        ty[1].shape = folded;
        if (folds) {
                ty[0].ndim = 2;
                ty[0].shape = folded;
        }
        sf_status status = sf_graph_parse(ctx, text, &graph);
        if (status == SF_OK)
                status = sf_plan_create(ctx, graph, 1, &tx, NULL, &plan);
        if (status == SF_OK)
                status = sf_plan_run(plan, &tx, ty, NULL);
        CHECK(status == SF_OK, "%s: %s", text, sf_last_error(ctx));
        naive(shape, &(options){.fold = folds}, right[0]);
        naive(shape, &(options){.fold = true, .plus = folds ? 2 : 0}, right[1]);
        int64_t lines = shape[0] * shape[2];
        compare(text, shape, y[0], right[0], lines * (folds ? 1 : shape[1]));
        compare(text, shape, y[1], right[1], lines);
        sf_plan_destroy(plan);
        sf_graph_destroy(graph);
}

/* The first are for small tiles: rows in teams and tiles, columns, in chunks, bursts, chains of one
 * sequence and of several side by side, two passes. The last, for a real chip's: whole rows of many
 * warps. */
static const int64_t shapes[][3] = {{70, 5, 1},   {9, 63, 1},   {40, 300, 1}, {5, 1031, 1},
                                    {1, 9000, 1}, {1, 700, 1},  {1, 4000, 2}, {1, 2000, 4},
                                    {1, 150, 4},  {1, 900, 8},  {1, 700, 3},  {1, 600, 7},
                                    {3, 130, 33}, {1, 900, 40}, {2, 50, 128}, {9, 20, 300},
                                    {1, 6000, 8}, {3, 8000, 1}};

/* In two passes, of small tiles: by a few blocks, of many tiles each; and by many, whose totals a
 * thread has several of, or a launch of their own. */
static const struct {
        int64_t shape[3];
        int chip;
} passes[] = {{{1, 4000, 4}, 2}, {{1, 4000, 4}, 3}, {{1, 3300, 16}, 3}};

static void meet_all(void)
{
        int turn = 0;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                if (only && shapes[i][1] != only)
                        continue;
                host_chip = chips[i + 1 == sizeof shapes / sizeof *shapes];
                for (int fold = 0; fold < 2; fold++) {
                        host_seed = ++turn;
                        meet(shapes[i], (options){.fold = fold});
                        meet(shapes[i], (options){.fold = fold, .reverse = turn % 2,
                                                  .exclusive = !fold && turn % 3,
                                                  .masked = turn % 4 == 1,
                                                  .initial = turn % 3 == 1 ? element(-7) : 0});
                }
                if (i % 3 == 2) {
                        meet_shared(shapes[i], "prod(x, 1), prod(x + 2, 1)", true);
                        meet_shared(shapes[i], "cumprod(x, 1), prod(x, 1)", false);
                }
        }
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
                host_chip = chips[passes[i].chip];
                if (!only || passes[i].shape[1] == only)
                        meet(passes[i].shape, (options){.initial = element(-7)});
        }
}

int main(int argc, char **argv)
{
        if (argc < 4) {
                fprintf(stderr, "usage: test_sides_host folder compiler jobs [--only LENGTH]\n");
                return 2;
        }
        if (argc > 5 && !strcmp(argv[4], "--only"))
                only = atoi(argv[5]);
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        o.threads = 1;
        if (sf_context_create(&ctx, &o) != SF_OK)
                return 2;
        for (int64_t i = 0; i < MOST; i++) {
                x[i] = element(i);
                mask[i] = x[i] >> 40 & 3 ? 1 : 0;
        }
        kernels_open(argv[1], argv[2], atoi(argv[3]));
        host_learning = true;
        meet_all();
        kernels_compile();
        host_learning = false;
        meet_all();
#define KERNEL(name, NAME)                                                                         \
        CHECK(only || host_met[SF_CUDA_##NAME] || SF_CUDA_##NAME == SF_CUDA_MAP ||                 \
                      SF_CUDA_##NAME >= SF_CUDA_AGAIN,                                             \
              "no case has run kernels/" #name ".cu");
#include "cuda/kernels.def"
#undef KERNEL
        CHECK(only || (host_shared && host_totals && host_interleaved && host_chunked && host_whole_rows),
              "%ld shared, %ld totals, %ld interleaved", host_shared,
              host_totals, host_interleaved);
        sf_context_destroy(ctx);
        printf("%d specialisations, %ld launches\n", kernels_count(), host_launches);
        return finish("test_sides_host");
}
