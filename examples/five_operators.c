/*
 * Five operators people write in PyTorch, each as one call, timed against a copy of the same bytes and checked
 * bit for bit against the reference:
 *
 *     torch.cumsum(x * mask, dim)                            one masked scan
 *     torch.cumsum(x.flip(dim), dim).flip(dim)               one reverse scan
 *     flip, cumsum, flip, each by itself                     a flip is a view with a negative stride: no pass at all
 *     torch.sum(x, dim, keepdim=True)                        one fold
 *     torch.sum(x @ W.T / 2, dim=1, keepdim=True) * 1.5      an expression: x @ W.sum(0) * 0.75, two folds
 *
 * five_operators [side]: matrices of side x side floats; without it 8192, or less where memory is short.
 */
#include "scanfold.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 3, CHECKED = 64 };

static sf_context *fast, *ref;
static int wrong;

static double now(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void need(sf_context *ctx, sf_status status)
{
        if (status == SF_OK)
                return;
        fprintf(stderr, "%s\n", sf_last_error(ctx));
        exit(1);
}

static void *memory(size_t bytes)
{
        void *p = malloc(bytes);
        if (!p) {
                fprintf(stderr, "no memory for %zu bytes; give a smaller side\n", bytes);
                exit(1);
        }
        memset(p, 0, bytes); /* so that no operator's time is the system's time to find pages */
        return p;
}

static sf_tensor tensor(void *data, sf_dtype dtype, int32_t ndim, int64_t *shape)
{
        return (sf_tensor){.data = data, .device = {SF_CPU, 0}, .ndim = ndim, .dtype = dtype, .shape = shape};
}

/* Magnitudes over six decades, so that any other order of the additions would show in the bits. */
static void fill(float *x, int64_t n)
{
        static const double decades[] = {1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3};
        for (int64_t i = 0; i < n; i++) {
                double v = ((uint32_t)((uint64_t)i * 2654435761u + 12345) >> 8) / 0x1p24 * decades[i % 7];
                x[i] = (float)(i % 5 == 3 ? -v : v);
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * The yardstick: memcpy on as many threads as the library uses
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct part {
        pthread_t thread;
        char *to;
        const char *from;
        size_t bytes;
} part;

static void *copy_part(void *p)
{
        part *mine = p;
        memcpy(mine->to, mine->from, mine->bytes);
        return NULL;
}

/* Seconds to read and write `bytes` in all: half of them copied to the other half's place. */
static double copy_seconds(char *to, const char *from, size_t bytes, int32_t threads)
{
        double best = 1e30;
        part parts[64];
        if (threads > 64)
                threads = 64;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
                double start = now();
                for (int32_t i = 0; i < threads; i++) {
                        size_t low = bytes / 2 * (size_t)i / (size_t)threads,
                                high = bytes / 2 * ((size_t)i + 1) / (size_t)threads;
                        parts[i] = (part){.to = to + low, .from = from + low, .bytes = high - low};
                        if (i == threads - 1 || pthread_create(&parts[i].thread, NULL, copy_part, &parts[i])) {
                                copy_part(&parts[i]);
                                parts[i].bytes = 0;
                        }
                }
                for (int32_t i = 0; i < threads; i++)
                        if (parts[i].bytes)
                                pthread_join(parts[i].thread, NULL);
                double took = now() - start;
                best = took < best ? took : best;
        }
        return best;
}

/* ------------------------------------------------------------------------------------------------------------
 * The table
 * ---------------------------------------------------------------------------------------------------------- */
static char *scratch_a, *scratch_b; /* what the yardstick copies */
static size_t scratch_bytes;

static void row(const char *name, const char *shape, double seconds, double bytes, int64_t differing,
                const char *checked)
{
        size_t measured = bytes / 2 < (double)scratch_bytes ? (size_t)bytes : 2 * scratch_bytes;
        double copy = copy_seconds(scratch_a, scratch_b, measured, sf_context_threads(fast)) * bytes / (double)measured;
        printf("%-34s %-20s %9.2f %8.2f %8.2f   ", name, shape, seconds * 1e3, bytes / seconds * 1e-9, copy / seconds);
        if (differing)
                printf("NO: %" PRId64 " differ (%s)\n", differing, checked);
        else
                printf("yes (%s)\n", checked);
        fflush(stdout);
        wrong += differing != 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * Scans of a square matrix
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct square {
        int64_t side;
        float *x, *y;
        uint8_t *mask;
} square;

/*
 * The reference on lines spread over the matrix, each with its mask, against what y holds there. The lines are a
 * strided view, so nothing is copied.
 */
static int64_t check_lines(const square *s, sf_scan_options o, bool masked)
{
        int64_t n = s->side, lines = n < CHECKED ? n : CHECKED, step = n / lines, differing = 0;
        int64_t shape[2] = {o.axis == 1 ? lines : n, o.axis == 1 ? n : lines};
        int64_t strides[2] = {o.axis == 1 ? step * n : n, o.axis == 1 ? 1 : step};
        float *right = memory((size_t)(lines * n) * sizeof *right);
        sf_tensor x = tensor(s->x, SF_F32, 2, shape), y = tensor(right, SF_F32, 2, shape),
                mask = tensor(s->mask, SF_BOOL, 2, shape);
        x.strides = mask.strides = strides;
        o.mask = masked ? &mask : NULL;
        need(ref, sf_scan(ref, &x, &y, &o));
        for (int64_t i = 0; i < shape[0]; i++)
                for (int64_t j = 0; j < shape[1]; j++)
                        differing += memcmp(&right[i * shape[1] + j], &s->y[i * strides[0] + j * strides[1]],
                                            sizeof(float)) != 0;
        free(right);
        return differing;
}

static void scan_square(const char *name, const square *s, int32_t axis, bool masked, bool reverse, bool by_views)
{
        int64_t n = s->side, shape[2] = {n, n}, flipped[2] = {axis == 0 ? -n : n, axis == 1 ? -1 : 1};
        int64_t last = axis == 0 ? (n - 1) * n : n - 1; /* the first element of a flipped view */
        sf_tensor x = tensor(s->x, SF_F32, 2, shape), y = tensor(s->y, SF_F32, 2, shape),
                mask = tensor(s->mask, SF_BOOL, 2, shape);
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        o.axis = axis;
        o.mask = masked ? &mask : NULL;
        o.reverse = reverse && !by_views;
        if (by_views) {
                x.strides = y.strides = flipped;
                x.data = s->x + last;
                y.data = s->y + last;
        }
        double best = 1e30;
        memset(s->y, 0xff, (size_t)(n * n) * sizeof *s->y);
        for (int repeat = 0; repeat < REPEATS; repeat++) {
                double start = now();
                need(fast, sf_scan(fast, &x, &y, &o));
                double took = now() - start;
                best = took < best ? took : best;
        }
        o.reverse = reverse;
        char text[48], checked[48];
        snprintf(text, sizeof text, "(%" PRId64 ", %" PRId64 ") dim %d", n, n, (int)axis);
        snprintf(checked, sizeof checked, "%d of %" PRId64 " %s", (int)(n < CHECKED ? n : CHECKED), n,
                 axis ? "rows" : "columns");
        row(name, text, best, (double)(n * n) * (masked ? 9 : 8), check_lines(s, o, masked), checked);
}

/* ------------------------------------------------------------------------------------------------------------
 * Folds
 * ---------------------------------------------------------------------------------------------------------- */
static void fold_to(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, int32_t axis)
{
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.axes = &axis;
        o.naxes = 1;
        o.keepdim = x->ndim == out->ndim;
        need(ctx, sf_fold(ctx, x, out, &o));
}

/* torch.sum(x, dim, keepdim=True) of the same memory seen as (16, side / 4, side / 4 - 1). */
static void sum_over_dim(const square *s, int32_t axis)
{
        int64_t shape[3] = {s->side >= 512 ? 16 : 1, s->side / 4, s->side / 4 - 1},
                kept[3] = {shape[0], shape[1], shape[2]};
        int64_t count = shape[0] * shape[1] * shape[2], results = count / shape[axis], differing = 0;
        kept[axis] = 1;
        float *right = memory((size_t)results * sizeof *right);
        sf_tensor x = tensor(s->x, SF_F32, 3, shape), y = tensor(s->y, SF_F32, 3, kept),
                r = tensor(right, SF_F32, 3, kept);
        double best = 1e30;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
                double start = now();
                fold_to(fast, &x, &y, axis);
                double took = now() - start;
                best = took < best ? took : best;
        }
        /* The first matrix of the batch is enough for the reference; every result where the fold is over the batch. */
        int64_t all = shape[0];
        if (axis)
                shape[0] = kept[0] = 1;
        fold_to(ref, &x, &r, axis);
        int64_t checked = axis ? results / all : results;
        for (int64_t i = 0; i < checked; i++)
                differing += memcmp(&right[i], &s->y[i], sizeof(float)) != 0;
        char text[48], words[48];
        snprintf(text, sizeof text, "(%" PRId64 ", %" PRId64 ", %" PRId64 ") dim %d", all, shape[1], shape[2],
                 (int)axis);
        snprintf(words, sizeof words, "%" PRId64 " of %" PRId64 " results", checked, results);
        row("sum over a dimension", text, best, (double)(count + results) * 4, differing, words);
        free(right);
}

/* An expression in Python's notation, planned for these two inputs. */
static sf_plan *plan_of(sf_context *ctx, const char *text, const sf_tensor inputs[2])
{
        sf_graph *graph;
        sf_plan *plan;
        need(ctx, sf_graph_parse(ctx, text, &graph));
        need(ctx, sf_plan_create(ctx, graph, 2, inputs, NULL, &plan));
        sf_graph_destroy(graph);
        return plan;
}

/* As users write it: the plan is to sum W's rows once, and no product of matrices is ever made (scanfold explain shows it). */
static void gemm_divide_sum_scale(const square *s, const float *weights)
{
        int64_t n = s->side, rows = n / 8 ? n / 8 : 1, checked = rows < CHECKED ? rows : CHECKED, differing = 0;
        int64_t whole[2] = {n, n}, shape[2] = {rows, n}, one[2] = {1, n}, results[2] = {rows, 1}, few[2] = {n, n < CHECKED ? n : CHECKED};
        int64_t strides[2] = {n, n / few[1]};
        float *sums = memory((size_t)n * 4), *out = memory((size_t)rows * 4), *right = memory((size_t)rows * 4), right_sums[CHECKED];
        sf_tensor inputs[2] = {tensor(s->x, SF_F32, 2, shape), tensor((void *)weights, SF_F32, 2, whole)}, y = tensor(out, SF_F32, 2, results);
        sf_plan *plan = plan_of(fast, "sum((x @ w.T) / 2, axis=1, keepdim=True) * 1.5", inputs);
        double best = 1e30;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
                double start = now();
                need(fast, sf_plan_run(plan, inputs, &y, NULL));
                double took = now() - start;
                best = took < best ? took : best;
        }
        sf_plan_destroy(plan);
        /* The column sums, some of them against the reference's; then the reference on rows of x, with those sums. */
        sf_tensor w = inputs[1], ts = tensor(sums, SF_F32, 1, whole), tr = tensor(right_sums, SF_F32, 1, &few[1]);
        fold_to(fast, &w, &ts, 0);
        w.shape = few;
        w.strides = strides;
        fold_to(ref, &w, &tr, 0);
        for (int64_t i = 0; i < few[1]; i++)
                differing += memcmp(&right_sums[i], &sums[i * strides[1]], sizeof(float)) != 0;
        shape[0] = results[0] = checked;
        sf_tensor dots[2] = {inputs[0], tensor(sums, SF_F32, 2, one)}, r = tensor(right, SF_F32, 2, results);
        plan = plan_of(ref, "sum(x * v, axis=1, keepdim=True) * 0.75", dots);
        need(ref, sf_plan_run(plan, dots, &r, NULL));
        sf_plan_destroy(plan);
        for (int64_t i = 0; i < checked; i++)
                differing += memcmp(&right[i], &out[i], sizeof(float)) != 0;
        char text[48], words[128];
        snprintf(text, sizeof text, "(%" PRId64 ", %" PRId64 ") x W", rows, n);
        snprintf(words, sizeof words, "%" PRId64 " of %" PRId64 " columns, %" PRId64 " of %" PRId64 " rows", few[1], n,
                 checked, rows);
        row("gemm, divide, sum, scale", text, best, (double)(n * n + rows * n) * 4, differing, words);
        free(sums);
        free(out);
        free(right);
}

/* ------------------------------------------------------------------------------------------------------------ */
static int64_t choose_side(int argc, char **argv)
{
        if (argc > 1) {
                int64_t side = strtoll(argv[1], NULL, 10);
                if (side < 8 || side > 65536) {
                        fprintf(stderr, "side is \"%s\"; it must be a number, 8 to 65536\n", argv[1]);
                        exit(2);
                }
                return side;
        }
        /* Three float matrices and a mask, in at most half of what is free. */
        double room = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 2;
        int64_t side = 8192;
        while (side > 512 && (double)(side * side) * 13 > room)
                side /= 2;
        return side;
}

int main(int argc, char **argv)
{
        int64_t side = choose_side(argc, argv), count = side * side;
        sf_context_options options = SF_CONTEXT_OPTIONS_INIT;
        need(NULL, sf_context_create(&fast, NULL));
        options.backend = SF_BACKEND_REF;
        need(NULL, sf_context_create(&ref, &options));

        float *weights = memory((size_t)count * 4);
        square s = {side, memory((size_t)count * 4), memory((size_t)count * 4), memory((size_t)count)};
        fill(s.x, count);
        for (int64_t i = 0; i < count; i++) {
                s.mask[i] = ((uint64_t)i * 2654435761u >> 13) % 3 != 0;
                weights[i] = s.x[count - 1 - i];
        }
        scratch_a = (char *)s.y; /* every operator writes y afresh, and is checked before the yardstick is laid */
        scratch_b = (char *)weights;
        scratch_bytes = (size_t)count * 4;

        printf("scanfold %s, %s instructions, %d thread%s; best of %d; "
               "a copy is memcpy of the same bytes on as many threads\n\n",
               sf_version_string(), sf_context_isa(fast), (int)sf_context_threads(fast),
               sf_context_threads(fast) == 1 ? "" : "s",
               REPEATS);
        printf("%-34s %-20s %9s %8s %8s   %s\n", "operator, float32", "shape", "ms", "GB/s", "of copy",
               "bits equal the reference's");
        scan_square("masked cumsum", &s, 1, true, false, false);
        scan_square("masked cumsum", &s, 0, true, false, false);
        scan_square("reverse cumsum", &s, 1, false, true, false);
        scan_square("reverse cumsum", &s, 0, false, true, false);
        scan_square("flip, cumsum, flip as views", &s, 1, false, true, true);
        scan_square("flip, cumsum, flip as views", &s, 0, false, true, true);
        sum_over_dim(&s, 1);
        sum_over_dim(&s, 2);
        sum_over_dim(&s, 0);
        gemm_divide_sum_scale(&s, weights);

        free(weights);
        free(s.x);
        free(s.y);
        free(s.mask);
        sf_context_destroy(fast);
        sf_context_destroy(ref);
        puts(wrong ? "\nSome bits differ." : "\nEvery bit checked is the reference's.");
        return wrong ? 1 : 0;
}
