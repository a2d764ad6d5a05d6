#include "fault_operations.h"

#include <string.h>

float x[ROWS][N], y[ROWS][N];
static fake_cuda *cuda;
static int64_t shape[] = {ROWS, N}, one[] = {ROWS}, few[] = {4, 4}, all[] = {ROWS * N}, eight[] = {8};

void operations_prepare(fake_cuda *given)
{
        cuda = given;
        for (int r = 0; r < ROWS; r++)
                for (int64_t i = 0; i < N; i++)
                        x[r][i] = (float)(1 + i % 2);
}

static sf_tensor on_cpu(void *data, int32_t ndim, int64_t *lengths)
{
        return (sf_tensor){.data = data, .device = {SF_CPU, 0}, .ndim = ndim, .dtype = SF_F32, .shape = lengths};
}

/* Memory of the fake device, a gigabyte each. */
static sf_tensor on_cuda(int number, int32_t ndim, int64_t *lengths)
{
        sf_tensor t = on_cpu((void *)(uintptr_t)(FAKE_MEMORY(0) + ((uint64_t)number << 30)), ndim, lengths);
        t.device = (sf_device){SF_CUDA, 0};
        return t;
}

bool is_untouched(const void *results, size_t bytes)
{
        const unsigned char *at = results;
        return at[0] == UNTOUCHED && !memcmp(at, at + 1, bytes - 1);
}

/* ------------------------------------------------------------------------------------------------
 * What results should be
 * ---------------------------------------------------------------------------------------------- */

/* Sums of 1, 2, 1, 2, ...: exact in any order. */
static float total(int64_t n)
{
        return (float)(n / 2 * 3 + n % 2);
}

static bool scan_is_right(void)
{
        for (int r = 0; r < ROWS; r++)
                for (int64_t i = 0; i < N; i += i < N - 1000 ? 997 : 1)
                        if (y[r][i] != total(i + 1))
                                return false;
        return true;
}

static bool long_is_right(void)
{
        for (int r = 0; r < ROWS; r++)
                for (int64_t i = 0; i < N; i += i < N - 1000 ? 997 : 1)
                        if (y[r][i] != (float)r * total(N) + total(i + 1))
                                return false;
        return true;
}

static bool fold_is_right(void)
{
        return y[0][0] == total(N) && y[0][1] == total(N) && y[0][2] == total(N);
}

static bool recurrence_is_right(void) /* of 1, 2, 1, 2: h = a h + a */
{
        return y[0][0] == 1 && y[0][1] == 4 && y[0][2] == 5 && y[0][3] == 12;
}

static bool plan_is_right(void) /* all rows are 1, 2, 1, 2: nothing but the 3 is left of them */
{
        return y[0][0] == 6 && y[0][1] == 12 && y[0][2] == 18 && y[0][3] == 24;
}

static bool shard_is_right(void)
{
        return y[0][7] == total(8) && y[0][15] == total(16);
}

static bool shards_are_whole(void)
{
        return (y[0][7] == total(8) || is_untouched(y, 8 * sizeof(float))) && (y[0][15] == total(16) || is_untouched(&y[0][8], 8 * sizeof(float)));
}

static bool cuda_is_right(void)
{
        return cuda->launches > 0;
}

static bool always(void)
{
        return true;
}

/* ------------------------------------------------------------------------------------------------
 * Scans and folds
 * ---------------------------------------------------------------------------------------------- */
static sf_status run_context(void)
{
        sf_context *ctx = NULL;
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        o.threads = 2;
        sf_status status = sf_context_create(&ctx, &o);
        sf_context_destroy(ctx);
        return status;
}

static sf_status scan(sf_tensor tx, sf_tensor ty, int32_t axis, const sf_tensor *offsets)
{
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        size_t size;
        o.axis = axis;
        o.offsets = offsets;
        sf_status status = sf_scan_workspace(NULL, &tx, &ty, &o, &size);
        return status == SF_OK ? sf_scan(NULL, &tx, &ty, &o) : status;
}

static sf_status fold(sf_tensor tx, sf_tensor ty, int32_t axis, const sf_tensor *offsets)
{
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        size_t size;
        int32_t ndim;
        int64_t lengths[2];
        o.axes = &axis;
        o.naxes = 1;
        o.offsets = offsets;
        sf_status status = sf_fold_shape(NULL, &tx, &o, &ndim, lengths);
        if (status == SF_OK)
                status = sf_fold_workspace(NULL, &tx, &ty, &o, &size);
        return status == SF_OK ? sf_fold(NULL, &tx, &ty, &o) : status;
}

static sf_status run_scan(void)
{
        return scan(on_cpu(x, 2, shape), on_cpu(y, 2, shape), 1, NULL);
}

static sf_status run_long(void)
{
        return scan(on_cpu(x, 1, all), on_cpu(y, 1, all), 0, NULL);
}

static sf_status run_fold(void)
{
        return fold(on_cpu(x, 2, shape), on_cpu(y, 1, one), 1, NULL);
}

/* A segment a row, which is an empty one and N elements. */
static sf_tensor row_offsets(void)
{
        static int64_t ends[ROWS + 2] = {0, 0, N, 2 * N, 3 * N}, count[] = {ROWS + 2};
        sf_tensor t = on_cpu(ends, 1, count);
        t.dtype = SF_I64;
        return t;
}

static sf_status run_segments(void)
{
        const sf_tensor offsets = row_offsets();
        return scan(on_cpu(x, 1, all), on_cpu(y, 1, all), 0, &offsets);
}

static sf_status run_segments_fold(void)
{
        static int64_t results[] = {ROWS + 1};
        const sf_tensor offsets = row_offsets();
        return fold(on_cpu(x, 1, all), on_cpu(y, 1, results), 0, &offsets);
}

static bool segments_fold_is_right(void)
{
        return y[0][0] == 0 && y[0][1] == total(N) && y[0][2] == total(N) && y[0][3] == total(N);
}

static sf_status run_recurrence(void)
{
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        sf_tensor ta = on_cpu(x, 2, few), ty = on_cpu(y, 2, few);
        o.axis = 1;
        return sf_recurrence(NULL, &ta, &ta, &ty, &o);
}

/* ------------------------------------------------------------------------------------------------
 * Expressions
 * ---------------------------------------------------------------------------------------------- */
static sf_status plan_and_run(sf_graph *graph, const sf_tensor *tx, int outputs, const sf_tensor *ty)
{
        sf_plan *plan = NULL;
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        const uint64_t versions[2] = {1, 1};
        size_t size;
        int32_t ndim;
        char text[20000];
        sf_status status = sf_plan_create(NULL, graph, sf_graph_inputs(graph), tx, NULL, &plan);
        o.versions = versions;
        for (int i = 0; i < outputs && status == SF_OK; i++)
                status = sf_plan_output(plan, i, &ndim, NULL, NULL);
        if (status == SF_OK)
                status = sf_plan_workspace(plan, &size);
        for (int i = 0; i < 2 && status == SF_OK; i++)
                status = sf_plan_run(plan, tx, ty, &o);
        /* Not of a plan for the CPU, whose memory's speed would be measured each time; test_no_memory has that. */
        for (int format = SF_EXPLAIN_TEXT; format <= SF_EXPLAIN_SVG && status == SF_OK && tx->device.device_type == SF_CUDA; format++)
                status = sf_plan_explain(plan, (sf_explain_format)format, text, sizeof text, &size);
        sf_plan_destroy(plan);
        return status;
}

static const char line[] = "cumsum(flip(a - mean(a, 0, keepdim=True) + 3, 1), 1) * 2";

static sf_status run_plan(void)
{
        sf_graph *graph = NULL;
        sf_tensor tx = on_cpu(x, 2, few), ty = on_cpu(y, 2, few);
        sf_status status = sf_graph_parse(NULL, line, &graph);
        if (status == SF_OK)
                status = plan_and_run(graph, &tx, 1, &ty);
        sf_graph_destroy(graph);
        return status;
}

/* A call for every kind of node. The results are those of `line` and a number that all the others are made to come to. */
static sf_status run_graph(void)
{
        sf_graph *g = NULL;
        static int64_t offsets[5] = {0, 1, 2, 3, 4}, offset_count = 5; /* of segments of one element: spread changes nothing */
        sf_tensor tx[2] = {on_cpu(x, 2, few), on_cpu(offsets, 1, &offset_count)}, ty[2] = {on_cpu(y, 2, few), on_cpu(&y[1][0], 0, NULL)};
        tx[1].dtype = SF_I64;
        sf_expr_options rows = SF_EXPR_OPTIONS_INIT, columns = SF_EXPR_OPTIONS_INIT;
        const int32_t zero = 0, first = 1;
        sf_status status = sf_graph_create(NULL, &g);
        if (status != SF_OK)
                return status;
        rows.axes = &zero, columns.axes = &first;
        rows.naxes = columns.naxes = 1;
        rows.keepdim = 1;
        const int32_t a = sf_expr_input(g, "a"), three = sf_expr_constant(g, sf_real(3));
        const int32_t even = sf_expr_apply(g, SF_SUB, a, sf_expr_mean(g, a, &rows), 0);
        const int32_t flipped = sf_expr_flip(g, sf_expr_apply(g, SF_ADD, even, three, 0), 1, &first);
        const int32_t sums = sf_expr_scan(g, flipped, &columns);
        sf_expr_output(g, sf_expr_apply(g, SF_MUL, sums, sf_expr_constant(g, sf_int(2)), 0));
        const int32_t wide = sf_expr_cast(g, a, SF_F64);
        const int32_t views = sf_expr_transpose(g, sf_expr_permute(g, wide, 0, NULL), 0, 1);
        const int32_t same = sf_expr_squeeze(g, sf_expr_unsqueeze(g, views, 0), 0);
        const int32_t parts[] = {sf_expr_slice(g, same, 0, 0, 2, 1), sf_expr_slice(g, same, 0, 2, 4, 1)};
        const int32_t again = sf_expr_concat(g, 0, 2, parts);
        const int32_t spread = sf_expr_spread(g, sf_expr_select(g, again, 0, 1), 0, 4, sf_expr_input(g, "o"));
        const int32_t row = sf_expr_broadcast(g, spread, 2, few);
        const int32_t half = sf_expr_like(g, row, sf_real(0.5));
        const int32_t product = sf_expr_linear(g, sf_expr_matmul(g, row, half), row, 0);
        const int32_t after = sf_expr_recurrence(g, half, product, NULL);
        const int32_t softmax = sf_expr_derived(g, after, SF_SOFTMAX, &columns);
        const int32_t output = sf_expr_output(g, sf_expr_cast(g, sf_expr_fold(g, softmax, NULL), SF_F32));
        /* A node that failed keeps its sentence for those that are made of it. */
        status = output < 0 ? SF_OUT_OF_MEMORY : plan_and_run(g, tx, 2, ty);
        sf_graph_destroy(g);
        return status;
}

static bool softmax_is_right(void) /* each of four rows of it comes to 1 */
{
        return y[1][0] > 3.999f && y[1][0] < 4.001f;
}

static bool graph_is_right(void)
{
        return plan_is_right() && softmax_is_right();
}

static bool graph_is_whole(void)
{
        return (plan_is_right() || is_untouched(y, 16 * sizeof(float))) && (softmax_is_right() || is_untouched(&y[1][0], sizeof(float)));
}

/* ------------------------------------------------------------------------------------------------
 * Ranks
 * ---------------------------------------------------------------------------------------------- */
/* Two ranks, here and now: spans are handed over whole, or joined on the way. */
static sf_status run_shards(bool joined, sf_tensor tx[2], sf_tensor ty[2])
{
        sf_shard *shard[2] = {NULL, NULL};
        sf_shard_card cards[2];
        sf_shard_options o = SF_SHARD_OPTIONS_INIT;
        char spans[2][2048], both[4096];
        sf_status status = SF_OK;
        for (int r = 0; r < 2; r++)
                sf_shard_card_make(NULL, &tx[r], &ty[r], &o, &cards[r]);
        for (int r = 0; r < 2 && status == SF_OK; r++)
                status = sf_shard_create(NULL, &tx[r], &ty[r], &o, r, 2, cards, &shard[r]);
        for (int r = 0; r < 2 && status == SF_OK; r++)
                status = sf_shard_values(shard[r], spans[r]);
        if (status == SF_OK && joined)
                status = sf_shard_join(shard[0], 0, 1, 2, spans[0], spans[1], both);
        if (status == SF_OK && !joined) {
                memcpy(both, spans[0], sf_shard_bytes(shard[0], 0));
                memcpy(both + sf_shard_bytes(shard[0], 0), spans[1], sf_shard_bytes(shard[0], 1));
        }
        for (int r = 0; r < 2 && status == SF_OK; r++)
                status = joined ? sf_shard_finish_from(shard[r], r ? spans[0] : NULL) : sf_shard_finish(shard[r], both);
        sf_shard_destroy(shard[0]);
        sf_shard_destroy(shard[1]);
        return status;
}

static sf_status run_shard(void)
{
        sf_tensor tx[] = {on_cpu(x, 1, eight), on_cpu(&x[0][8], 1, eight)}, ty[] = {on_cpu(y, 1, eight), on_cpu(&y[0][8], 1, eight)};
        return run_shards(false, tx, ty);
}

static sf_status run_joined(void)
{
        sf_tensor tx[] = {on_cpu(x, 1, eight), on_cpu(&x[0][8], 1, eight)}, ty[] = {on_cpu(y, 1, eight), on_cpu(&y[0][8], 1, eight)};
        return run_shards(true, tx, ty);
}

/* ------------------------------------------------------------------------------------------------
 * CUDA
 * ---------------------------------------------------------------------------------------------- */
static int64_t large[] = {1, 1 << 24}, result[] = {1};

static sf_status run_cuda(void)
{
        return scan(on_cuda(0, 2, large), on_cuda(1, 2, large), 1, NULL);
}

static sf_status run_cuda_fold(void)
{
        return fold(on_cuda(0, 2, large), on_cuda(1, 1, result), 1, NULL);
}

static sf_status run_cuda_segments(void)
{
        static int64_t count[] = {100}, line_length[] = {1 << 20};
        sf_tensor offsets = on_cuda(2, 1, count);
        offsets.dtype = SF_I32;
        return scan(on_cuda(0, 1, line_length), on_cuda(1, 1, line_length), 0, &offsets);
}

/* Folds that go back to their elements, a column sum that is kept from run to run, and what is computed again where it is not finite. */
static sf_status run_cuda_plan(void)
{
        static int64_t rows[] = {300, 40}, weight[] = {40, 50}, sums[] = {300};
        sf_graph *graph = NULL;
        sf_tensor tx[] = {on_cuda(0, 2, rows), on_cuda(1, 2, weight)}, ty[] = {on_cuda(2, 2, rows), on_cuda(3, 1, sums)};
        sf_status status = sf_graph_parse(NULL, "softmax(a, 1), sum(a @ w, 1)", &graph);
        if (status == SF_OK)
                status = plan_and_run(graph, tx, 2, ty);
        sf_graph_destroy(graph);
        return status;
}

static sf_status run_devices(void)
{
        sf_device_info info = SF_DEVICE_INFO_INIT;
        int32_t count;
        sf_status status = sf_device_count(NULL, SF_CUDA, &count);
        return status == SF_OK ? sf_device_describe(NULL, (sf_device){SF_CUDA, 0}, &info) : status;
}

static void see(void *count, const char *name, const char *about, int64_t bytes, int64_t used)
{
        (void)name, (void)about, (void)bytes, (void)used;
        ++*(int *)count;
}

static int kernels_kept;

/* All are compiled in the same way, so a few are enough. */
static int stop_soon(void *user, const char *what, int32_t done, int32_t of)
{
        (void)user, (void)what, (void)of;
        return done >= 3;
}

static sf_status run_warm(void)
{
        kernels_kept = 0;
        sf_status status = sf_cache_warm(NULL, (sf_device){SF_CUDA, 0}, stop_soon, NULL);
        return status == SF_OK ? sf_cache_list(NULL, see, &kernels_kept) : status;
}

static sf_status run_cache(void)
{
        int64_t removed;
        char path[1024];
        sf_status status = sf_cache_path(NULL, path, sizeof path);
        return status == SF_OK ? sf_cache_clear(NULL, &removed) : status;
}

const operation operations[] = {{"context", run_context, always, NULL, 1},
                                {"scan", run_scan, scan_is_right, NULL, 3},
                                {"long scan", run_long, long_is_right, NULL, 3},
                                {"fold", run_fold, fold_is_right, NULL, 2},
                                {"segments", run_segments, scan_is_right, NULL, 2},
                                {"folds of segments", run_segments_fold, segments_fold_is_right, NULL, 2},
                                {"recurrence", run_recurrence, recurrence_is_right, NULL, 1},
                                {"plan", run_plan, plan_is_right, NULL, 15},
                                {"graph", run_graph, graph_is_right, graph_is_whole, 15},
                                {"shard", run_shard, shard_is_right, shards_are_whole, 4},
                                {"joined shard", run_joined, shard_is_right, shards_are_whole, 4},
                                {"cuda", run_cuda, cuda_is_right, NULL, 25},
                                {"cuda fold", run_cuda_fold, cuda_is_right, NULL, 25},
                                {"cuda segments", run_cuda_segments, cuda_is_right, NULL, 25},
                                {"cuda plan", run_cuda_plan, cuda_is_right, NULL, 40},
                                {"devices", run_devices, always, NULL, 10},
                                {"warm", run_warm, always, NULL, 50},
                                {"cache", run_cache, always, NULL, 1},
                                {NULL, NULL, NULL, NULL, 0}};
