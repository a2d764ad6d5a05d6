/*
 * The memory order of the CUDA kernels, on the host: every kernel with many blocks and warps, compiled so that it tells of its accesses. What blocks tell each
 * other comes late and in any order, and accesses that nothing orders fail (model.h). Results are the reference's, bit by bit.
 *
 *     test_memory_host folder compiler jobs [--cases N [--only LENGTH]]
 *
 * Every line so many times, each with a seed of its own; or those whose axis 1 is so long.
 */
#include "backend_host.h"
#include "check.h"
#include "kernels.h"
#include "model.h"
#include "scanfold.h"

static const sf_cuda_chip small_chip = {.capability = 90, .cluster = 8, .multiprocessors = 3, .threads_per_multiprocessor = 2048, .shared_per_block = 65536,
                                        .shared_per_multiprocessor = 65536, .l2 = 8192, .small_tiles = 1};

/* Elements of x, and segments of lines with offsets; those of TINY elements have MANY. */
#define MOST 54000
#define SEGMENTS 40
#define TINY 700
#define MANY 300
/* Lines of RUNS elements have two runs of EMPTY segments without elements: where the last of some segments ends, and before it. They are left out where they
 * are long, so that fewer offsets are read than one of them has. */
#define RUNS 704
#define EMPTY 100000

/* The gradients of a recurrence: two results of one scan, and a tensor that is read shifted. */
#define SCANNED(back) "(x + linear_recurrence(0.4 * x, x * x, 1, reverse=" back ", exclusive=True))"
#define BACK SCANNED("True") ", " SCANNED("True") " * concat([zeros_like(x[:, :1]), x[:, :-1]], 1)"
#define FORTH SCANNED("False") ", " SCANNED("False") " * concat([x[:, 1:], zeros_like(x[:, :1])], 1)"

/* A chain, and a fold across its lines. */
#define CENTRED "(x - mean(x, 1, keepdim=True))"

static const struct {
        const char *text; /* of x, an offset for each of SEGMENTS and one more, and w */
        int wide;         /* 1: f64, totals of two words; 2: bytes; 3: bf16 */
        int ndim;
        int64_t shape[3];
} lines[] = {
        {"cumsum(x, 1, offsets=o)", 1, 2, {1, 20000}}, {"sum(x, 1, offsets=o)", 0, 2, {2, 20000}},
        {"cumsum(x, 1, offsets=o)", 0, 2, {2, TINY}},  {"sum(x, 1, offsets=o)", 0, 2, {2, TINY}}, {"sum(x, 1, offsets=o)", 0, 3, {1, 900, 20}},
        {"cumsum(x, 1)", 0, 3, {70, 5, 1}},     {"cumsum(x, 1)", 0, 3, {40, 300, 1}},  {"cumsum(x, 1)", 1, 3, {1, 9000, 1}},
        {"cumsum(x, 1)", 1, 3, {1, 700, 1}},    {"cumprod(x, 1)", 0, 3, {1, 4000, 2}}, {"cumsum(x, 1)", 0, 3, {1, 2000, 4}}, {"cumsum(x, 1)", 0, 3, {2, 4501, 1}}, {"cumprod(x, 1)", 0, 3, {2, 4501, 1}},
        {"cumsum(x, 1)", 1, 3, {1, 2000, 8}},    {"cumprod(x, 1)", 0, 3, {1, 700, 3}},  {"cumsum(x, 1)", 0, 3, {3, 130, 33}},
        {"cumsum(x, 1)", 0, 3, {1, 900, 40}},   {"cumsum(x, 1)", 0, 3, {2, 50, 128}},  {"sum(x, 1)", 0, 3, {5, 1031, 1}},
        {"sum(x, 1)", 1, 3, {1, 9000, 1}},      {"sum(x, 1)", 0, 3, {1, 4000, 2}},     {"sum(x, 1)", 0, 3, {3, 130, 33}},
        {"sum(x, 1)", 0, 3, {9, 20, 300}},      {"softmax(x, 1)", 0, 2, {3, 900}},     {"softmax(x, 1)", 0, 2, {2, 6000}},
        {"layer_norm(x, 1)", 1, 2, {2, 3000}},  {"sum(x @ w, 1)", 0, 2, {40, 90}},      {"cumsum(x, 1, offsets=o)", 1, 2, {2, 6000}},
        {"sum(x, 1, offsets=o)", 0, 2, {2, 6000}}, {"cumprod(x, 1, offsets=o)", 0, 3, {1, 900, 6}}, {"argmax(x, 1, offsets=o)", 0, 3, {2, 900, 5}},
        {"softmax(x, 1, offsets=o)", 0, 2, {2, 3000}}, {"layer_norm(x, 1, offsets=o)", 0, 2, {1, 54000}}, {"sum(x, 1)", 0, 3, {70, 5, 1}}, {"x * 2 + 1", 0, 2, {3, 500}}, {"cumsum(x, 1)", 0, 3, {1, 320, 4}}, {"cumsum(x, 1)", 0, 3, {1, 660, 2}},
        {"softmax(x, 1)", 0, 2, {13, 101}},     {"layer_norm(x, 1)", 0, 2, {17, 1501}}, {"normalize(x, 2, 1)", 1, 2, {14, 203}}, {"layer_norm(x, 1)", 0, 2, {33, 256}},
        {"normalize(x, 2, 1)", 0, 2, {42, 200}},
        {"(x - max(x, 1, keepdim=True)) * sum(x, 1, keepdim=True)", 0, 2, {3, 900}},
        {"(x - max(x, 1, keepdim=True)) * sum(x, 1, keepdim=True)", 0, 2, {14, 2303}},
        {CENTRED ", sum(" CENTRED " * x, 0)", 0, 2, {37, 1300}}, {CENTRED ", sum(" CENTRED " * x, 0)", 1, 2, {20, 116}},
        {"layer_norm(x, 1)", 1, 2, {12, 400}},   {"softmax(x, 1)", 0, 2, {21, 1003}},       {"normalize(x, 2, 1)", 0, 2, {3, 777}},
        {"softmax(x, 1)", 0, 3, {2, 30, 200}},   {"layer_norm(x, 1)", 1, 3, {3, 13, 33}}, {"normalize(x, 2, 1)", 0, 3, {3, 27, 64}}, {"softmax(x, 1)", 0, 3, {1, 5, 700}},
        {"log_softmax(x, 1)", 0, 3, {1, 31, 99}}, {"layer_norm(x, 1)", 0, 3, {3, 26, 68}}, {"softmax(x, 1)", 1, 3, {2, 15, 34}}, {"x - mean(x, 1, keepdim=True)", 0, 3, {5, 3, 41}},
        {"cummax(x, 1), cumargmax(x, 1)", 1, 3, {1, 900, 13}},
        {BACK, 0, 3, {40, 300, 1}},  {BACK, 0, 3, {7, 301, 1}},   {BACK, 0, 3, {1, 9000, 1}},   {BACK, 0, 3, {1, 2001, 1}}, {BACK, 0, 3, {2, 50, 128}},
        {BACK, 0, 3, {3, 130, 33}},  {BACK, 1, 3, {1, 900, 4}},   {FORTH, 0, 3, {5, 1000, 1}},  {FORTH, 1, 3, {3, 70, 40}},
        {"cumsum(x, 1), cumsum(x, 1) * x", 0, 3, {9, 500, 1}},
        {"cumsum(x, 1)", 3, 3, {700, 37, 1}}, {"cummax(x, 1)", 2, 3, {700, 37, 1}}, {"cummin(x, 1)", 3, 3, {300, 101, 1}}, {"cumsum(x, 1)", 2, 3, {900, 21, 1}}, {"cumsum(x, 1)", 3, 3, {90, 40, 3}},
        {"cumsum(x, 1)", 2, 3, {1, 9001, 1}}, {"cumsum(x, 1)", 3, 3, {1, 9001, 1}}, {"cumsum(x, 1)", 3, 3, {3, 4001, 1}},
        {"cumsum(x, 1, offsets=o)", 0, 2, {1, RUNS}}, {"sum(x, 1, offsets=o)", 1, 2, {1, RUNS}}, {"cumsum(x * x, 1, offsets=o)", 0, 2, {1, RUNS}}, {"sum(x * x, 1, offsets=o)", 0, 2, {1, RUNS}},
        {"cumsum(x, 1, offsets=o)", 0, 3, {1, RUNS, 2}}, {"sum(x, 1, offsets=o)", 0, 3, {1, RUNS, 2}}, {"softmax(x, 1, offsets=o)", 0, 2, {1, RUNS}},
        {"softmax(x, 1, offsets=o), max(x, 1, offsets=o)", 0, 2, {1, RUNS}}, {"sum(x.permute(1, 0))", 0, 2, {70, 41}}, {"sum(x.permute(2, 1, 0), [0, 1])", 1, 3, {30, 9, 40}}, {"max(x, [0, 2])", 0, 3, {90, 20, 3}},
};
#define LINES (int)(sizeof lines / sizeof *lines)

static const char names[] = "xow"; /* of inputs, in the order in which they are given */
static double x[MOST], w[MOST], y[2][4 * EMPTY + MOST];
static int64_t offsets[2 * EMPTY + MANY + 1];
static sf_context *ctx[2]; /* the reference; the kernels */
static int64_t only;       /* the length of axis 1; 0: all lines */

/* Numbers of both signs, some of them not finite where there are results that are then computed again. */
static void fill(void *to, int64_t count, int wide, bool infinite)
{
        for (int64_t i = 0; i < count; i++) {
                uint64_t state = (uint64_t)i + 1;
                double v = (double)(int64_t)(model_random(&state) >> 40) * 0x1p-22 - 2;
                if (infinite && i % 61 == 7)
                        v = 3e38;
                const float single = (float)v;
                uint32_t bits;
                memcpy(&bits, &single, sizeof bits);
                if (wide == 3)
                        ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
                else if (wide == 2)
                        ((uint8_t *)to)[i] = (uint8_t)(state >> 40);
                else if (wide)
                        ((double *)to)[i] = v;
                else
                        ((float *)to)[i] = (float)v;
        }
}

/* Some empty, some short, some over many tiles. Returns how many. */
static int64_t cut(int64_t n)
{
        int64_t done = 0;
        for (int64_t k = 0; n == RUNS && k <= 2 * EMPTY + MANY; k++)
                offsets[k] = done = k <= EMPTY + MANY && (k <= MANY / 2 || k > MANY / 2 + EMPTY) ? n * (k > MANY ? k - EMPTY : k) / MANY : done;
        if (n == RUNS)
                return 2 * EMPTY + MANY;
        for (int i = 0; n == TINY && i <= MANY; i++)
                offsets[i] = i < MANY / 2 ? i / 2 : n - (MANY - i) / 6;
        if (n == TINY)
                return MANY;
        for (int i = 0; i < SEGMENTS; i++)
                offsets[i] = i < 30 ? i / 3 * 7 : n * (i - 29) / 12;
        offsets[0] = 0;
        offsets[SEGMENTS] = n;
        return SEGMENTS;
}

/* Results go to `out`, one after another: all but the last have whole words. *size: the bytes of all. */
static sf_status run(sf_context *c, const char *text, const sf_tensor *given, char *out, size_t *size)
{
        enum { RESULTS = 2 };
        sf_tensor inputs[3], result[RESULTS];
        int64_t shape[RESULTS][3];
        sf_graph *graph = NULL;
        sf_plan *plan = NULL;
        sf_status status = sf_graph_parse(c, text, &graph);
        for (int i = 0; status == SF_OK && i < sf_graph_inputs(graph); i++)
                inputs[i] = given[strchr(names, *sf_graph_input_name(graph, i)) - names];
        if (status == SF_OK)
                status = sf_plan_create(c, graph, sf_graph_inputs(graph), inputs, NULL, &plan);
        *size = 0;
        for (int32_t k = 0; status == SF_OK && k < sf_plan_outputs(plan); k++) {
                result[k] = given[0];
                status = sf_plan_output(plan, k, &result[k].ndim, shape[k], &result[k].dtype);
                size_t own = result[k].dtype.bits / 8;
                for (int d = 0; d < result[k].ndim; d++)
                        own *= (size_t)shape[k][d];
                result[k].data = out + *size;
                result[k].shape = shape[k];
                *size += own;
        }
        if (status == SF_OK)
                status = sf_plan_run(plan, inputs, result, NULL);
        sf_plan_destroy(plan);
        sf_graph_destroy(graph);
        return status;
}

static void meet(int line)
{
        int64_t shape[3], count = 1, ends[1], factors[2];
        for (int d = 0; d < lines[line].ndim; d++)
                count *= shape[d] = lines[line].shape[d];
        if (only && shape[1] != only)
                return;
        factors[0] = shape[1];
        factors[1] = 20;
        ends[0] = cut(shape[1]) + 1;
        const sf_dtype dtypes[] = {SF_F32, SF_F64, SF_U8, SF_BF16}, dtype = dtypes[lines[line].wide];
        sf_tensor given[3] = {{.data = x, .device = {SF_CPU, 0}, .ndim = lines[line].ndim, .dtype = dtype, .shape = shape},
                              {.data = offsets, .device = {SF_CPU, 0}, .ndim = 1, .dtype = SF_I64, .shape = ends},
                              {.data = w, .device = {SF_CPU, 0}, .ndim = 2, .dtype = dtype, .shape = factors}};
        size_t size = 0;
        const bool product = strchr(lines[line].text, '@');
        fill(x, count, lines[line].wide, product);
        if (product)
                fill(w, factors[0] * factors[1], lines[line].wide, false);
        for (int k = 0; k < 2; k++) {
                model_count(offsets, sizeof offsets);
                sf_status status = run(ctx[k], lines[line].text, given, (char *)y[k], &size);
                CHECK(!k || host_learning || shape[1] != RUNS || model_reads() < EMPTY, "%s of (%d, %d): %ld reads of offsets", lines[line].text, (int)shape[0], (int)shape[1], model_reads());
                CHECK(status == SF_OK, "%s of (%d, %d): %s", lines[line].text, (int)shape[0], (int)shape[1], sf_last_error(ctx[k]));
        }
        CHECK(host_learning || !memcmp(y[0], y[1], size), "%s of (%d, %d): other bits than the reference's", lines[line].text, (int)shape[0], (int)shape[1]);
}

int main(int argc, char **argv)
{
        int times = 5;
        if (argc < 4) {
                fprintf(stderr, "usage: test_memory_host folder compiler jobs [--cases N [--only LENGTH]]\n");
                return 2;
        }
        if (argc > 5 && !strcmp(argv[4], "--cases"))
                times = atoi(argv[5]);
        if (argc > 7 && !strcmp(argv[6], "--only"))
                only = atoi(argv[7]);
        for (int k = 0; k < 2; k++) {
                sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
                o.threads = 1;
                o.backend = k ? SF_BACKEND_AUTO : SF_BACKEND_REF;
                if (sf_context_create(&ctx[k], &o) != SF_OK)
                        return 2;
        }
        kernels_open(argv[1], argv[2], atoi(argv[3]));
        host_chip = small_chip;
        host_races = true;
        host_learning = true;
        for (int line = 0; line < LINES; line++)
                meet(line);
        kernels_compile();
        host_learning = false;
        for (int i = 0; i < times; i++)
                for (int line = 0; line < LINES; line++) {
                        host_seed = 1000 * i + 10 * line;
                        meet(line);
                }
#define KERNEL(name, NAME) CHECK(only || host_met[SF_CUDA_##NAME], "no line has run kernels/" #name ".cu");
#include "cuda/kernels.def"
#undef KERNEL
        CHECK(only || (host_clusters && host_staged && host_interleaved && host_chunked && host_whole_rows),
              "%ld clusters, %ld staged, %ld interleaved, %ld chunked, %ld of whole rows",
              host_clusters, host_staged, host_interleaved, host_chunked, host_whole_rows);
        CHECK(only || host_doubles >= 10L * times, "%ld scans with two results, of %d", host_doubles, 10 * times);
        CHECK(only || (host_through && host_loops && host_shifts && host_teams),
              "%ld by way of shared memory, %ld line after line, %ld at any address, %ld by teams of blocks", host_through, host_loops, host_shifts, host_teams);
        for (int k = 0; k < 2; k++)
                sf_context_destroy(ctx[k]);
        printf("%d specialisations, %ld launches\n", kernels_count(), host_launches);
        return finish("test_memory_host");
}
