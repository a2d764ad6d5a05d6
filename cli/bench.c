/*
 * bench.c: how fast scans and folds are here, compared with moving the same bytes and nothing else.
 *
 * The work and its peer (a copy or a read) take turns within a round, so that a change of the clock
 * rate or other processes affect both. A row's times are the medians of its rounds. All memory has
 * been written before it is timed. A row says how many bytes it has to move: each input element is
 * read once, each output element is written once.
 */
#include "bench_peers.h"
#include "bench_report.h"
#include "bench_rows.h"
#include "cli.h"
#include "files.h"
#include "progress.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_ROUNDS = 999 };

struct settings {
        int quick, few, rounds;
        const char *filter, *json, *html;
        int32_t threads;
        const char *old;  /* the text that an earlier --json wrote, or NULL */
        /* a row is slower if its fraction is below this part of the earlier one */
        double tolerance;
};

/* A row may seem slower because other processes were busy. So it is measured this often before it
 * is called slower, with pauses between, each twice as long as the one before. */
enum { TRIES = 5, FIRST_PAUSE_MS = 300 };

struct result {
        double seconds, peer_seconds;
        int disturbed; /* other processes used the processors meanwhile */
        uint64_t bytes;
        int measured;
};

/* A filter matches the name, the shape and the dtype as the table prints them. */
static int wanted(const struct row *row, const struct settings *s)
{
        char shape[64], text[160];
        describe_shape(row, s->quick, shape);
        snprintf(text, sizeof(text), "%s %s %s", row->name, shape, row->dtype);
        return (row->few || !s->few) && (!s->filter || strstr(text, s->filter) != NULL);
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
                /* a copy reads and writes each byte */
                copy_bytes(arena->y, arena->x, bytes / 2, threads);
}

/* How often the kernel interrupted a thread of this process that could have continued. */
static long times_taken(void)
{
        struct rusage usage;
        return getrusage(RUSAGE_SELF, &usage) ? 0 : usage.ru_nivcsw;
}

/* With one thread, measures its CPU time, which other processes do not change; with several, the
 * elapsed time. */
static int measure(sf_context *ctx, const struct row *row, const struct settings *s, struct arena *arena,
                   struct result *result)
{
        int threads = sf_context_threads(ctx), ways = row->fold ? READ_WAYS : 1;
        static double ours[MAX_ROUNDS], peers[READ_WAYS][MAX_ROUNDS];
        const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;

        sf_plan *plan = NULL;
        fill_for(arena, row, s->quick, threads);
        result->bytes = bytes_of(row, s->quick);
        double start = 0;
        /* the second call is warm: its time decides how many calls are timed together */
        for (int i = 0; i < 2; i++) {
                start = seconds_by(clock);
                if (call(ctx, row, s->quick, arena, &plan) != SF_OK) {
                        sf_plan_destroy(plan);
                        return complain("%s", sf_last_error(ctx));
                }
        }
        double once = seconds_by(clock) - start;
        const long before = times_taken();
        int calls = once > 2e-3 ? 1 : (int)(2e-3 / (once > 1e-8 ? once : 1e-8)) + 1;
        for (int round = 0; round < s->rounds; round++) {
                for (int way = 0; way < ways; way++) {
                        start = seconds_by(clock);
                        for (int i = 0; i < calls; i++)
                                run_peer(row, arena, result->bytes, way, threads);
                        peers[way][round] = (seconds_by(clock) - start) / calls;
                }
                start = seconds_by(clock);
                for (int i = 0; i < calls; i++)
                        call(ctx, row, s->quick, arena, &plan);
                ours[round] = (seconds_by(clock) - start) / calls;
        }
        sf_plan_destroy(plan);
        /* more than once in two rounds; an idle machine has none at all */
        result->disturbed = threads > 1 && 2 * (times_taken() - before) > s->rounds;
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
        for (int i = 0; i < row_count; i++) {
                if (!wanted(&rows[i], s))
                        continue;
                uint64_t bytes = bytes_of(&rows[i], s->quick);
                size_t results = (size_t)(results_of(&rows[i], s->quick) * out_of(&rows[i])->size);
                size_t most = (size_t)(rows[i].fold ? bytes : (bytes + 1) / 2) + 64;
                most = results > most ? results : most;
                arena->size = most > arena->size ? most : arena->size;
                if (rows[i].masked)
                        arena->mask_size = (size_t)count_of(&rows[i], s->quick);
                const size_t offsets = (size_t)(segments_of(&rows[i], s->quick) + 1) * sizeof(int64_t);
                arena->offsets_size = offsets > arena->offsets_size ? offsets : arena->offsets_size;
        }
        arena->size = (arena->size + 4095) / 4096 * 4096;
        size_t mask_size = (arena->mask_size + 4096) / 4096 * 4096;
        arena->x = aligned_alloc(4096, arena->size);
        arena->y = aligned_alloc(4096, arena->size);
        arena->mask = aligned_alloc(4096, mask_size);
        /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): run_rows has counted one row at least, and each needs one offset */
        arena->offsets = malloc(arena->offsets_size);
        if (!arena->x || !arena->y || !arena->mask || !arena->offsets)
                return complain("bench needs %zu bytes of memory at these sizes, and could not have them; try --quick",
                                2 * arena->size + mask_size + arena->offsets_size);
        fill_bytes(arena->y, arena->size, 0, 0, threads);
        fill_bytes(arena->mask, mask_size, 0x0101010101010101, 0, threads);
        return CLI_DONE;
}

static double fraction_of(const struct result *r)
{
        return r->peer_seconds / r->seconds;
}

/* False if there is nothing to compare with: before is NaN. */
static int seems_slower(const struct result *r, double before, const struct settings *s)
{
        return fraction_of(r) < s->tolerance * before;
}

static int is_slower(const struct result *r, double before, const struct settings *s)
{
        return seems_slower(r, before, s) && !r->disturbed;
}

static void print_row(const struct row *row, const struct settings *s, const struct result *r, double before)
{
        char shape[64], time[32];
        describe_shape(row, s->quick, shape);
        if (r->seconds < 1e-3)
                snprintf(time, sizeof(time), "%.2f us", 1e6 * r->seconds);
        else
                snprintf(time, sizeof(time), "%.2f ms", 1e3 * r->seconds);
        printf("%-25s %-14s %-5s %12s %9.2f %6s %9.2f %8.2f", row->name, shape, row->dtype, time,
               1e-9 * (double)r->bytes / r->seconds, row->fold ? "read" : "copy",
               1e-9 * (double)r->bytes / r->peer_seconds, fraction_of(r));
        if (s->old && isnan(before))
                printf(" %8s", "-");
        else if (s->old)
                printf(" %8.2f", before);
        if (is_slower(r, before, s))
                printf("  slower: %.2f of what it was, %d times in a row", fraction_of(r) / before, TRIES);
        else if (seems_slower(r, before, s))
                printf("  could not be measured: others had the processors");
        putchar('\n');
}

static void pause_before(int attempt)
{
        const long ms = attempt ? (long)FIRST_PAUSE_MS << (attempt - 1) : 0;
        const struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
        nanosleep(&time, NULL);
}

/* Measures a row; again, up to TRIES times, while it seems slower than before. The best measurement
 * counts, preferably one that was not disturbed. *before is the earlier fraction, NaN if it is not
 * known. */
static int measure_row(sf_context *ctx, const struct row *row, const struct settings *s, struct arena *arena, struct result *best, double *before)
{
        char shape[64];
        describe_shape(row, s->quick, shape);
        const struct bench_line line = { .work = row->name, .shape = shape, .dtype = row->dtype };
        *before = s->old ? old_fraction(s->old, &line) : NAN;
        for (int i = 0; i < TRIES; i++) {
                struct result r = { 0 };
                pause_before(i);
                int status = measure(ctx, row, s, arena, &r);
                if (status)
                        return status;
                const int calmer = best->disturbed - r.disturbed;
                if (!i || calmer > 0 || (!calmer && fraction_of(&r) > fraction_of(best)))
                        *best = r;
                if (!seems_slower(&r, *before, s)) {
                        *best = r;
                        break;
                }
        }
        return CLI_DONE;
}

static int run_rows(sf_context *ctx, const struct settings *s, struct arena *arena, struct result *results)
{
        int threads = sf_context_threads(ctx), count = 0;
        for (int i = 0; i < row_count; i++)
                count += wanted(&rows[i], s);
        if (!count)
                return complain("no row of the benchmark matches --filter %s%s", s->filter, s->few ? " and --few" : "");
        int status = make_arena(arena, s, threads);
        if (status)
                return status;
        printf("scanfold %s, %s, %d thread%s, medians of %d rounds; GB/s count each byte read or written once\n",
               sf_version_string(), sf_context_isa(ctx), threads, threads == 1 ? "" : "s", s->rounds);
        printf("%-25s %-14s %-5s %12s %9s %6s %9s %8s%s\n", "work", "shape", "dtype", "time", "GB/s", "beside", "GB/s",
               "fraction", s->old ? "      was" : "");
        int slower = 0, compared = 0;
        for (int i = 0, done = 0; i < row_count && !status; i++) {
                double before;
                if (!wanted(&rows[i], s))
                        continue;
                progress_start("bench", (uint64_t)count, 0);
                progress_add((uint64_t)done++);
                status = measure_row(ctx, &rows[i], s, arena, &results[i], &before);
                progress_stop();
                if (!status) {
                        print_row(&rows[i], s, &results[i], before);
                        slower += is_slower(&results[i], before, s);
                        compared += before > 0;
                        status = fflush(stdout) ? finish_stdout() : CLI_DONE;
                }
        }
        if (!status && s->old && !compared)
                return complain("the file that --compare names has none of these rows: rows are known by work, shape and dtype");
        return !status && slower ? complain("%d of %d rows are slower than they were", slower, count) : status;
}

/* Writes the measured results, in the order of the table. */
static int write_reports(sf_context *ctx, const struct settings *s, const struct result *results)
{
        static struct bench_line lines[MOST_ROWS];
        static char shapes[MOST_ROWS][64];
        struct bench_report report = { .ctx = ctx, .rounds = s->rounds, .quick = s->quick, .lines = lines };
        for (int i = 0; i < row_count; i++) {
                const struct result *r = &results[i];
                if (!r->measured)
                        continue;
                describe_shape(&rows[i], s->quick, shapes[report.count]);
                lines[report.count] = (struct bench_line){ rows[i].name, shapes[report.count], rows[i].dtype, rows[i].fold ? "read" : "copy",
                                                           r->bytes, r->seconds, r->peer_seconds };
                report.count++;
        }
        int status = s->json ? write_report(&report, s->json, 0) : CLI_DONE;
        return !status && s->html ? write_report(&report, s->html, 1) : status;
}

static int run_bench(const struct settings *s)
{
        static struct result results[MOST_ROWS];
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
        free(arena.offsets);
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
                { "few", no_argument, NULL, 'e' },            { "help", no_argument, NULL, 'h' },
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
                case 'e': s.few = 1; break;
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
        /* check before minutes of work */
        int status = count ? outputs_check(files, count) : CLI_DONE;
        if (!status && compare)
                status = old_read(compare, &old);
        s.old = old;
        if (!status)
                status = run_bench(&s);
        free(old);
        return status;
}
