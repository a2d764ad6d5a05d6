/* Several host threads on one context at once, and on several: scans, folds, segments, and one plan that all of them run. */
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS = 6 };
static int rounds = 12; /* a multiple of 4: see work() */

/* Small enough to run on the caller, rows and columns for several threads, and one long line that they share. */
static const struct {
        int64_t shape[2];
        int32_t axis;
} works[] = {{{3, 40}, 1}, {{600, 500}, 1}, {{600, 500}, 0}, {{1, 300007}, 1}, {{100003, 3}, 0}};
enum { WORKS = sizeof works / sizeof *works };

static float *inputs[WORKS], *scans[WORKS], *folds[WORKS];

static int64_t count_of(int w)
{
        return works[w].shape[0] * works[w].shape[1];
}

static sf_status run_one(sf_context *ctx, int w, float *scan, float *fold)
{
        int64_t shape[2] = {works[w].shape[0], works[w].shape[1]}, kept = shape[1 - works[w].axis];
        sf_tensor x = tensor(inputs[w], SF_F32, 2, shape), y = tensor(scan, SF_F32, 2, shape),
                z = tensor(fold, SF_F32, 1, &kept);
        sf_scan_options s = SF_SCAN_OPTIONS_INIT;
        sf_fold_options f = SF_FOLD_OPTIONS_INIT;
        s.axis = works[w].axis;
        f.axes = &works[w].axis;
        f.naxes = 1;
        sf_status status = sf_scan(ctx, &x, &y, &s);
        return status == SF_OK ? sf_fold(ctx, &x, &z, &f) : status;
}

/* Segments of one line; and a plan with a chain of steps and a scan, of rows. */
static const char *const line = "softmax(x, 1), cumsum(x, 1)";
enum { OFFSETS = 6, ROWS_OF = 1, LINE_OF = 3 }; /* the works that these are of */
static const int64_t offsets[OFFSETS] = {0, 5, 5, 60000, 299000, 300007};
static float *planned[2], *segmented;

static sf_plan *plan_of(sf_context *ctx)
{
        int64_t shape[2] = {works[ROWS_OF].shape[0], works[ROWS_OF].shape[1]};
        sf_tensor x = tensor(inputs[ROWS_OF], SF_F32, 2, shape);
        sf_graph *graph = NULL;
        sf_plan *plan = NULL;
        CHECK(sf_graph_parse(ctx, line, &graph) == SF_OK && sf_plan_create(ctx, graph, 1, &x, NULL, &plan) == SF_OK, "%s", sf_last_error(ctx));
        sf_graph_destroy(graph);
        return plan;
}

static sf_status run_plan(sf_plan *plan, float *const *to)
{
        int64_t shape[2] = {works[ROWS_OF].shape[0], works[ROWS_OF].shape[1]};
        sf_tensor x = tensor(inputs[ROWS_OF], SF_F32, 2, shape), y[2] = {tensor(to[0], SF_F32, 2, shape), tensor(to[1], SF_F32, 2, shape)};
        return sf_plan_run(plan, &x, y, NULL);
}

static sf_status run_segments(sf_context *ctx, float *to)
{
        int64_t n = count_of(LINE_OF), count = OFFSETS;
        sf_tensor x = tensor(inputs[LINE_OF], SF_F32, 1, &n), y = tensor(to, SF_F32, 1, &n), o = tensor((void *)offsets, SF_I64, 1, &count);
        sf_scan_options options = SF_SCAN_OPTIONS_INIT;
        options.offsets = &o;
        return sf_scan(ctx, &x, &y, &options);
}

typedef struct host {
        pthread_t thread;
        sf_context *ctx;
        sf_plan *plan;
        int number, wrong;
} host;

static void work_once(host *h)
{
        const size_t n = (size_t)count_of(LINE_OF) * 4, rows = (size_t)count_of(ROWS_OF) * 4;
        float *to[2] = {malloc(n > rows ? n : rows), malloc(rows)};
        if (!to[0] || !to[1] || run_plan(h->plan, to) != SF_OK || memcmp(to[0], planned[0], rows) || memcmp(to[1], planned[1], rows))
                h->wrong++;
        if (to[0] && (run_segments(h->ctx, to[0]) != SF_OK || memcmp(to[0], segmented, n)))
                h->wrong++;
        free(to[0]);
        free(to[1]);
}

static void *work(void *argument)
{
        host *h = argument;
        for (int round = 0; round < rounds; round++) {
                if (round % 4 == h->number % 4)
                        work_once(h);
                for (int i = 0; i < WORKS; i++) {
                        int w = (i + h->number) % WORKS;
                        size_t n = (size_t)count_of(w), kept = (size_t)works[w].shape[1 - works[w].axis];
                        float *scan = malloc(n * 4), *fold = malloc(kept * 4);
                        if (!scan || !fold || run_one(h->ctx, w, scan, fold) != SF_OK ||
                            memcmp(scan, scans[w], n * 4) ||
                            memcmp(fold, folds[w], kept * 4))
                                h->wrong++;
                        free(scan);
                        free(fold);

                        /* A refused call in between: its sentence belongs to this thread. */
                        int64_t shape = -1 - h->number;
                        sf_tensor bad = tensor(NULL, SF_F32, 1, &shape);
                        char right[16];
                        snprintf(right, sizeof right, "length %d ", (int)shape);
                        h->wrong += sf_scan(h->ctx, &bad, &bad, NULL) != SF_INVALID_ARGUMENT ||
                                !strstr(sf_last_error(h->ctx), right);
                }
        }
        return NULL;
}

static void together(const char *what, sf_context *const *contexts, int count)
{
        host hosts[HOSTS];
        sf_plan *plans[MAX_ENGINES];
        for (int i = 0; i < count; i++)
                plans[i] = plan_of(contexts[i]);
        for (int i = 0; i < HOSTS; i++) {
                hosts[i] = (host){.ctx = contexts[i % count], .plan = plans[i % count], .number = i};
                if (pthread_create(&hosts[i].thread, NULL, work, &hosts[i]))
                        abort();
        }
        for (int i = 0; i < HOSTS; i++) {
                pthread_join(hosts[i].thread, NULL);
                CHECK(!hosts[i].wrong, "%s: thread %d had %d wrong results", what, i, hosts[i].wrong);
        }
        for (int i = 0; i < count; i++)
                sf_plan_destroy(plans[i]);
}

int main(int argc, char **argv)
{
        if (argc > 1)
                rounds = atoi(argv[1]);
        engines_open();
        for (int w = 0; w < WORKS; w++) {
                size_t n = (size_t)count_of(w);
                inputs[w] = malloc(n * 4);
                scans[w] = malloc(n * 4);
                folds[w] = malloc(n * 4);
                if (!inputs[w] || !scans[w] || !folds[w])
                        abort();
                fill(DT_F32, FILL_mixed, false, (uint64_t)w, (int64_t)n, inputs[w]);
                CHECK(run_one(REF, w, scans[w], folds[w]) == SF_OK, "%s", sf_last_error(REF));
        }
        planned[0] = malloc((size_t)count_of(ROWS_OF) * 4);
        planned[1] = malloc((size_t)count_of(ROWS_OF) * 4);
        segmented = malloc((size_t)count_of(LINE_OF) * 4);
        if (!planned[0] || !planned[1] || !segmented)
                abort();
        sf_plan *plan = plan_of(REF);
        CHECK(run_plan(plan, planned) == SF_OK && run_segments(REF, segmented) == SF_OK, "%s", sf_last_error(REF));
        sf_plan_destroy(plan);
        for (int i = 1; i < engine_count; i++)
                together(engines[i].name, &engines[i].ctx, 1);
        sf_context *several[MAX_ENGINES], *standard = NULL;
        for (int i = 1; i < engine_count; i++)
                several[i - 1] = engines[i].ctx;
        together("all contexts at once", several, engine_count - 1);
        together("the default context", &standard, 1);
        for (int w = 0; w < WORKS; w++) {
                free(inputs[w]);
                free(scans[w]);
                free(folds[w]);
        }
        free(planned[0]);
        free(planned[1]);
        free(segmented);
        long checks = (long)(engine_count + 1) * HOSTS * rounds * WORKS * 3;
        engines_close();
        return finish("test_threads", checks);
}
