/*
 * bench.c: how fast scans and folds are here, beside moving the same bytes and nothing else.
 *
 * Work and peer take turns within a round, so that a change of clock or a noisy neighbour meets both; a row's times
 * are the medians of its rounds. All memory has been written before it is timed. A row says how many bytes it has to
 * move: each input element read once, each output element written once.
 */
#include "bench_peers.h"
#include "bench_report.h"
#include "cli.h"
#include "files.h"
#include "progress.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_AXES = 99, MAX_ROUNDS = 999 };

struct row {
        const char *name;
        const char *dtype;
        int32_t ndim;
        int64_t shape[3], quick_shape[3];
        int axis;
        int fold, reverse, masked, exclusive, wide; /* wide: an f64 accumulator */
        const char *out; /* the result's dtype; NULL: the same */
        const char *expression; /* of x, (shape[0], shape[1]), and w, (shape[2], shape[1]); a fold to its peers */
};

#define SQUARE 2, { 8192, 8192 }, { 2048, 2048 }
#define BLOCK 3, { 16, 4096, 4095 }, { 16, 512, 1023 }
static const struct row rows[] = {
        { .name = "cumsum axis 1", "f32", SQUARE, 1 },
        { .name = "cumsum axis 1 reverse", "f32", SQUARE, 1, .reverse = 1 },
        { .name = "cumsum axis 1 masked", "f32", SQUARE, 1, .masked = 1 },
        { .name = "cumsum axis 1 exclusive", "f32", SQUARE, 1, .exclusive = 1 },
        { .name = "cumsum axis 0", "f32", SQUARE, 0 },
        { .name = "cumsum axis 0 reverse", "f32", SQUARE, 0, .reverse = 1 },
        { .name = "cumsum axis 0 masked", "f32", SQUARE, 0, .masked = 1 },
        { .name = "cumsum axis 0 exclusive", "f32", SQUARE, 0, .exclusive = 1 },
        { .name = "cumsum axis 1 f64 acc", "f32", SQUARE, 1, .wide = 1 },
        { .name = "cumsum axis 1 odd", "f32", 2, { 8192, 8191 }, { 2048, 2047 }, 1 },
        { .name = "cumsum axis 0 odd", "f32", 2, { 8192, 8191 }, { 2048, 2047 }, 0 },
        { .name = "cumsum one long line", "f32", 1, { 1 << 28 }, { 1 << 24 }, 0 },
        { .name = "cumsum axis 0 narrow", "f32", 2, { 1 << 22, 2 }, { 1 << 20, 2 }, 0 },
        { .name = "cumsum axis 0 narrow", "f32", 2, { 1 << 22, 8 }, { 1 << 20, 8 }, 0 },
        { .name = "cumsum axis 0 narrow", "f32", 2, { 1 << 22, 3 }, { 1 << 20, 3 }, 0 },
        { .name = "cumsum axis 0 narrow", "f32", 2, { 1 << 20, 17 }, { 1 << 18, 17 }, 0 },
        { .name = "cumsum axis 1 short", "f32", 2, { 1 << 22, 4 }, { 1 << 20, 4 }, 1 },
        { .name = "cumsum axis 1 short", "f32", 2, { 1 << 20, 17 }, { 1 << 18, 17 }, 1 },
        { .name = "cumsum axis 1 small", "f32", 2, { 1024, 1024 }, { 1024, 1024 }, 1 },
        { .name = "cumsum axis 0 small", "f32", 2, { 1024, 1024 }, { 1024, 1024 }, 0 },
        { .name = "cumsum axis 1 tiny", "f32", 2, { 64, 64 }, { 64, 64 }, 1 },
        { .name = "cumsum axis 0 tiny", "f32", 2, { 64, 64 }, { 64, 64 }, 0 },
        { .name = "sum axis 0", "f32", BLOCK, 0, .fold = 1 },
        { .name = "sum axis 1", "f32", BLOCK, 1, .fold = 1 },
        { .name = "sum axis 2", "f32", BLOCK, 2, .fold = 1 },
        { .name = "sum all", "f32", BLOCK, ALL_AXES, .fold = 1 },
        { .name = "sum axis 2 f64 acc", "f32", BLOCK, 2, .fold = 1, .wide = 1 },
        { .name = "sum axis 0 narrow", "f32", 2, { 1 << 22, 3 }, { 1 << 20, 3 }, 0, .fold = 1 },
        { .name = "sum axis 1 short", "f32", 2, { 1 << 20, 17 }, { 1 << 18, 17 }, 1, .fold = 1 },
        { .name = "sum(x @ w.T / 2, 1) * 1.5", "f32", 3, { 1024, 8192, 8192 }, { 256, 2048, 2048 }, 1, .fold = 1,
          .expression = "sum(x @ w.T / 2, 1, keepdim=True) * 1.5" },
        { .name = "cumsum axis 1", "f64", SQUARE, 1 },
        { .name = "cumsum axis 1", "i64", SQUARE, 1 },
        { .name = "cumsum axis 1", "i32", SQUARE, 1 },
        { .name = "cumsum axis 1", "f16", SQUARE, 1 },
        { .name = "cumsum axis 1", "bf16", SQUARE, 1 },
        { .name = "cumsum axis 1", "i8", SQUARE, 1 },
        { .name = "cumsum axis 1 to i64", "i8", SQUARE, 1, .out = "i64" },
        { .name = "sum axis 1 to i64", "i8", BLOCK, 1, .fold = 1, .out = "i64" },
        { .name = "sum axis 2 to i64", "i8", BLOCK, 2, .fold = 1, .out = "i64" },
        { .name = "sum axis 2 to i64", "bool", BLOCK, 2, .fold = 1, .out = "i64" },
};
enum { NROWS = sizeof(rows) / sizeof(rows[0]) };

struct settings {
        int quick, rounds;
        const char *filter, *json, *html;
        int32_t threads;
        const char *old;  /* the text of an earlier --json, or NULL */
        double tolerance; /* what is below this part of its earlier fraction is slower */
};

/* A minute in which others are busy is not a slower library: a row is measured so often before it is called slower. */
enum { TRIES = 4 };

struct result {
        double seconds, peer_seconds;
        uint64_t bytes;
        int measured;
};

/* Memory shared by all rows. */
struct arena {
        unsigned char *x, *y, *mask;
        size_t size, mask_size;
        const char *filled; /* the dtype x holds */
};

static void describe_shape(const struct row *row, const int64_t *shape, char text[64])
{
        size_t at = 0;
        for (int32_t i = 0; i < row->ndim; i++)
                at += (size_t)snprintf(text + at, 64 - at, "%s%lld", i ? "x" : "", (long long)shape[i]);
}

static const int64_t *shape_of(const struct row *row, const struct settings *s)
{
        return s->quick ? row->quick_shape : row->shape;
}

static int64_t count_of(const struct row *row, const struct settings *s)
{
        const int64_t *shape = shape_of(row, s);
        if (row->expression)
                return shape[0] * shape[1] + shape[1] * shape[2];
        int64_t count = 1;
        for (int32_t i = 0; i < row->ndim; i++)
                count *= shape_of(row, s)[i];
        return count;
}

static int64_t results_of(const struct row *row, const struct settings *s)
{
        if (row->expression)
                return shape_of(row, s)[0];
        if (!row->fold)
                return count_of(row, s);
        return row->axis == ALL_AXES ? 1 : count_of(row, s) / shape_of(row, s)[row->axis];
}

static const struct dtype_info *out_of(const struct row *row)
{
        return dtype_by_name(row->out ? row->out : row->dtype);
}

static uint64_t bytes_of(const struct row *row, const struct settings *s)
{
        int64_t count = count_of(row, s);
        return (uint64_t)(count * dtype_by_name(row->dtype)->size + results_of(row, s) * out_of(row)->size + (row->masked ? count : 0));
}

/* A filter looks at the name, the shape and the dtype as the table prints them. */
static int wanted(const struct row *row, const struct settings *s)
{
        char shape[64], text[160];
        describe_shape(row, shape_of(row, s), shape);
        snprintf(text, sizeof(text), "%s %s %s", row->name, shape, row->dtype);
        return !s->filter || strstr(text, s->filter) != NULL;
}

/* Numbers of ordinary size: bits to keep of the noise, and bits to set, in 8 bytes at a time. */
static void fill_for(struct arena *arena, const char *dtype, int threads)
{
        static const struct {
                const char *dtype;
                uint64_t keep, set;
        } fills[] = {
                { "f32", 0x007fffff007fffff, 0x3f0000003f000000 }, /* 0.5 to 1 */
                { "f64", 0x000fffffffffffff, 0x3fe0000000000000 },
                { "f16", 0x03ff03ff03ff03ff, 0x1000100010001000 }, /* 2^-11 to 2^-10: 8192 of them stay finite */
                { "bf16", 0x007f007f007f007f, 0x3f003f003f003f00 },
                { "i64", 0xffffffffffffffff, 0 },
                { "i32", 0xffffffffffffffff, 0 },
                { "i8", 0xffffffffffffffff, 0 },
                { "bool", 0x0101010101010101, 0 },
        };
        if (arena->filled && !strcmp(arena->filled, dtype))
                return;
        for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++)
                if (!strcmp(fills[i].dtype, dtype))
                        fill_bytes(arena->x, arena->size, fills[i].keep, fills[i].set, threads);
        arena->filled = dtype;
}

/* The row's expression as a plan, made once; `plan` is NULL before. */
static sf_status call_expression(sf_context *ctx, const struct row *row, const struct settings *s, const struct arena *arena, sf_plan **plan)
{
        const int64_t *shape = shape_of(row, s);
        int64_t x_shape[2] = { shape[0], shape[1] }, w_shape[2] = { shape[2], shape[1] }, out_shape[2] = { shape[0], 1 };
        sf_tensor x = { .data = arena->x, .device = { SF_CPU, 0 }, .ndim = 2, .dtype = SF_F32, .shape = x_shape };
        sf_tensor w = x, y = x;
        w.data = arena->x + 4 * shape[0] * shape[1];
        w.shape = w_shape;
        y.data = arena->y;
        y.shape = out_shape;
        const sf_tensor inputs[2] = { x, w };
        if (!*plan) {
                sf_graph *graph = NULL;
                sf_status status = sf_graph_parse(ctx, row->expression, &graph);
                if (status == SF_OK)
                        status = sf_plan_create(ctx, graph, 2, inputs, NULL, plan);
                sf_graph_destroy(graph);
                if (status != SF_OK)
                        return status;
        }
        return sf_plan_run(*plan, inputs, &y, NULL);
}

static sf_status call(sf_context *ctx, const struct row *row, const struct settings *s, const struct arena *arena, sf_plan **plan)
{
        if (row->expression)
                return call_expression(ctx, row, s, arena, plan);
        int64_t shape[3], out_shape[3];
        memcpy(shape, shape_of(row, s), sizeof(shape));
        sf_tensor x = { .data = arena->x, .device = { SF_CPU, 0 }, .ndim = row->ndim,
                        .dtype = dtype_by_name(row->dtype)->dtype, .shape = shape };
        sf_tensor y = x, mask = x;
        y.data = arena->y;
        y.dtype = out_of(row)->dtype;
        mask.data = arena->mask;
        mask.dtype = SF_BOOL;
        if (!row->fold) {
                sf_scan_options options = SF_SCAN_OPTIONS_INIT;
                options.axis = row->axis;
                options.reverse = row->reverse;
                options.exclusive = row->exclusive;
                options.mask = row->masked ? &mask : NULL;
                if (row->wide)
                        options.accumulator = SF_F64;
                return sf_scan(ctx, &x, &y, &options);
        }
        sf_fold_options options = SF_FOLD_OPTIONS_INIT;
        int32_t axis = row->axis;
        options.naxes = 1;
        options.axes = row->axis == ALL_AXES ? NULL : &axis;
        if (row->wide)
                options.accumulator = SF_F64;
        sf_status status = sf_fold_shape(ctx, &x, &options, &y.ndim, out_shape);
        y.shape = out_shape;
        return status == SF_OK ? sf_fold(ctx, &x, &y, &options) : status;
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;
        return (x > y) - (x < y);
}

static double median(double *times, int count)
{
        qsort(times, (size_t)count, sizeof(*times), compare);
        return count % 2 ? times[count / 2] : 0.5 * (times[count / 2 - 1] + times[count / 2]);
}

static void run_peer(const struct row *row, const struct arena *arena, uint64_t bytes, int way, int threads)
{
        if (row->fold)
                read_bytes(arena->x, bytes, read_streams[way], threads);
        else
                copy_bytes(arena->y, arena->x, bytes / 2, threads); /* a copy moves each byte twice */
}

static int measure(sf_context *ctx, const struct row *row, const struct settings *s, struct arena *arena,
                   struct result *result)
{
        int threads = sf_context_threads(ctx), ways = row->fold ? READ_WAYS : 1;
        static double ours[MAX_ROUNDS], peers[READ_WAYS][MAX_ROUNDS];

        sf_plan *plan = NULL;
        fill_for(arena, row->dtype, threads);
        result->bytes = bytes_of(row, s);
        double start = now_seconds();
        for (int i = 0; i < 2; i++) { /* the second, warm, says how many calls make a measurable time */
                start = now_seconds();
                if (call(ctx, row, s, arena, &plan) != SF_OK) {
                        sf_plan_destroy(plan);
                        return complain("%s", sf_last_error(ctx));
                }
        }
        double once = now_seconds() - start;
        int calls = once > 2e-3 ? 1 : (int)(2e-3 / (once > 1e-8 ? once : 1e-8)) + 1;
        for (int round = 0; round < s->rounds; round++) {
                for (int way = 0; way < ways; way++) {
                        start = now_seconds();
                        for (int i = 0; i < calls; i++)
                                run_peer(row, arena, result->bytes, way, threads);
                        peers[way][round] = (now_seconds() - start) / calls;
                }
                start = now_seconds();
                for (int i = 0; i < calls; i++)
                        call(ctx, row, s, arena, &plan);
                ours[round] = (now_seconds() - start) / calls;
        }
        sf_plan_destroy(plan);
        result->seconds = median(ours, s->rounds);
        for (int way = 0; way < ways; way++) {
                double peer = median(peers[way], s->rounds);
                if (!way || peer < result->peer_seconds)
                        result->peer_seconds = peer;
        }
        result->measured = 1;
        return CLI_DONE;
}

static int make_arena(struct arena *arena, const struct settings *s, int threads)
{
        memset(arena, 0, sizeof(*arena));
        for (int i = 0; i < NROWS; i++) {
                if (!wanted(&rows[i], s))
                        continue;
                uint64_t bytes = bytes_of(&rows[i], s);
                size_t results = (size_t)(results_of(&rows[i], s) * out_of(&rows[i])->size);
                size_t most = (size_t)(rows[i].fold ? bytes : (bytes + 1) / 2) + 64;
                most = results > most ? results : most;
                arena->size = most > arena->size ? most : arena->size;
                if (rows[i].masked)
                        arena->mask_size = (size_t)count_of(&rows[i], s);
        }
        arena->size = (arena->size + 4095) / 4096 * 4096;
        size_t mask_size = (arena->mask_size + 4096) / 4096 * 4096;
        arena->x = aligned_alloc(4096, arena->size);
        arena->y = aligned_alloc(4096, arena->size);
        arena->mask = aligned_alloc(4096, mask_size);
        if (!arena->x || !arena->y || !arena->mask)
                return complain("bench needs %zu bytes of memory at these sizes, and could not have them; try --quick",
                                2 * arena->size + mask_size);
        fill_bytes(arena->y, arena->size, 0, 0, threads);
        fill_bytes(arena->mask, mask_size, 0x0101010101010101, 0, threads);
        return CLI_DONE;
}

static void print_row(const struct row *row, const struct settings *s, const struct result *r)
{
        char shape[64], time[32];
        describe_shape(row, shape_of(row, s), shape);
        if (r->seconds < 1e-3)
                snprintf(time, sizeof(time), "%.2f us", 1e6 * r->seconds);
        else
                snprintf(time, sizeof(time), "%.2f ms", 1e3 * r->seconds);
        printf("%-25s %-14s %-5s %12s %9.2f %6s %9.2f %8.2f\n", row->name, shape, row->dtype, time,
               1e-9 * (double)r->bytes / r->seconds, row->fold ? "read" : "copy",
               1e-9 * (double)r->bytes / r->peer_seconds, r->peer_seconds / r->seconds);
}

/* A row measured; again, up to TRIES times, while it is slower than it was. Its best counts, and *compares is its fraction as a part of the
 * earlier one; 1 where there is none. */
static int measure_row(sf_context *ctx, const struct row *row, const struct settings *s, struct arena *arena, struct result *best, double *compares)
{
        char shape[64];
        describe_shape(row, shape_of(row, s), shape);
        const struct bench_line line = { .work = row->name, .shape = shape, .dtype = row->dtype };
        const double before = s->old ? old_fraction(s->old, &line) : NAN;
        *compares = 1;
        for (int i = 0; i < TRIES; i++) {
                struct result r = { 0 };
                int status = measure(ctx, row, s, arena, &r);
                if (status)
                        return status;
                if (!i || r.peer_seconds / r.seconds > best->peer_seconds / best->seconds)
                        *best = r;
                *compares = isnan(before) ? 1 : best->peer_seconds / best->seconds / before;
                if (*compares >= s->tolerance)
                        break;
        }
        return CLI_DONE;
}

static int run_rows(sf_context *ctx, const struct settings *s, struct arena *arena, struct result *results)
{
        int threads = sf_context_threads(ctx), count = 0;
        for (int i = 0; i < NROWS; i++)
                count += wanted(&rows[i], s);
        if (!count)
                return complain("no row of the benchmark matches --filter %s", s->filter);
        int status = make_arena(arena, s, threads);
        if (status)
                return status;
        printf("scanfold %s, %s, %d thread%s, medians of %d rounds; GB/s count each byte read or written once\n",
               sf_version_string(), sf_context_isa(ctx), threads, threads == 1 ? "" : "s", s->rounds);
        printf("%-25s %-14s %-5s %12s %9s %6s %9s %8s\n", "work", "shape", "dtype", "time", "GB/s", "beside", "GB/s",
               "fraction");
        int slower = 0;
        for (int i = 0, done = 0; i < NROWS && !status; i++) {
                double compares;
                if (!wanted(&rows[i], s))
                        continue;
                progress_start("bench", (uint64_t)count, 0);
                progress_add((uint64_t)done++);
                status = measure_row(ctx, &rows[i], s, arena, &results[i], &compares);
                progress_stop();
                if (!status) {
                        print_row(&rows[i], s, &results[i]);
                        if (compares < s->tolerance)
                                printf("    slower: %.2f of the fraction it was, %d times in a row\n", compares, TRIES);
                        slower += compares < s->tolerance;
                        status = fflush(stdout) ? finish_stdout() : CLI_DONE;
                }
        }
        return !status && slower ? complain("%d of %d rows are slower than they were", slower, count) : status;
}

/* The results that were measured, in the order of the table. */
static int write_reports(sf_context *ctx, const struct settings *s, const struct result *results)
{
        static struct bench_line lines[NROWS];
        static char shapes[NROWS][64];
        struct bench_report report = { .ctx = ctx, .rounds = s->rounds, .quick = s->quick, .lines = lines };
        for (int i = 0; i < NROWS; i++) {
                const struct result *r = &results[i];
                if (!r->measured)
                        continue;
                describe_shape(&rows[i], shape_of(&rows[i], s), shapes[report.count]);
                lines[report.count] = (struct bench_line){ rows[i].name, shapes[report.count], rows[i].dtype, rows[i].fold ? "read" : "copy",
                                                           r->bytes, r->seconds, r->peer_seconds };
                report.count++;
        }
        int status = s->json ? write_report(&report, s->json, 0) : CLI_DONE;
        return !status && s->html ? write_report(&report, s->html, 1) : status;
}

static int run_bench(const struct settings *s)
{
        static struct result results[NROWS];
        struct arena arena = { 0 };
        sf_context *ctx;
        int status = make_context(s->threads, &ctx);
        if (status)
                return status;
        const int compared = run_rows(ctx, s, &arena, results);
        status = finish_stdout();
        if (!status && (s->json || s->html))
                status = write_reports(ctx, s, results);
        status = compared ? compared : status;
        free(arena.x);
        free(arena.y);
        free(arena.mask);
        sf_context_destroy(ctx);
        return status;
}

int command_bench(int argc, char **argv)
{
        static const struct option options[] = {
                { "quick", no_argument, NULL, 'k' },          { "filter", required_argument, NULL, 'f' },
                { "rounds", required_argument, NULL, 'r' },   { "threads", required_argument, NULL, 't' },
                { "json", required_argument, NULL, 'j' },     { "html", required_argument, NULL, 'w' },
                { "compare", required_argument, NULL, 'c' },  { "tolerance", required_argument, NULL, 'l' },
                { "help", no_argument, NULL, 'h' },
                { NULL, 0, NULL, 0 },
        };
        struct settings s = { .rounds = 9, .tolerance = 0.85 };
        const char *compare = NULL;
        char *old = NULL;
        sf_scalar part;
        int64_t number;
        int option;
        while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
                switch (option) {
                case 'k': s.quick = 1; break;
                case 'f': s.filter = optarg; break;
                case 'j': s.json = optarg; break;
                case 'w': s.html = optarg; break;
                case 'c': compare = optarg; break;
                case 'l':
                        if (parse_scalar(optarg, &part) || part.kind != SF_SCALAR_REAL || !(part.value.f > 0 && part.value.f <= 1))
                                return complain_usage("bench", "--tolerance %s is not a part of 1, such as 0.85", optarg);
                        s.tolerance = part.value.f;
                        break;
                case 'r':
                        if (parse_int(optarg, 1, MAX_ROUNDS, &number))
                                return complain_usage("bench", "--rounds %s is not a count from 1 to %d", optarg,
                                                      MAX_ROUNDS);
                        s.rounds = (int)number;
                        break;
                case 't':
                        if (read_threads("bench", optarg, &s.threads))
                                return CLI_USAGE;
                        break;
                case 'h':
                        return print_help("bench"), finish_stdout();
                default:
                        return complain_option("bench", option, argv);
                }
        }
        if (optind < argc)
                return complain_usage("bench", "bench takes options only, and was given %s", argv[optind]);
        const char *files[2];
        int count = 0;
        if (s.json && strcmp(s.json, "-"))
                files[count++] = s.json;
        if (s.html && strcmp(s.html, "-"))
                files[count++] = s.html;
        int status = count ? outputs_check(files, count) : CLI_DONE; /* before minutes of work */
        if (!status && compare)
                status = old_read(compare, &old);
        s.old = old;
        if (!status)
                status = run_bench(&s);
        free(old);
        return status;
}
