/* bench_report.h: what bench has measured, as JSON and as a page. */
#ifndef SCANFOLD_BENCH_REPORT_H
#define SCANFOLD_BENCH_REPORT_H

#include "cli.h"

struct bench_line {
        const char *work, *shape, *dtype;
        const char *peer; /* "copy" or "read" */
        uint64_t bytes;
        double seconds, peer_seconds;
};

struct bench_report {
        const sf_context *ctx;
        int rounds, quick, count;
        const struct bench_line *lines;
};

/* Writes the report to a file, or to standard output for "-": as JSON, or as one self-contained page. Complains. */
int write_report(const struct bench_report *report, const char *path, int page);

/* bench_compare.c: a file that bench --json wrote, as text that the caller frees. Complains. */
int old_read(const char *path, char **text);

/* The fraction of a copy's speed that it has for this line's work; NaN where it has none. */
double old_fraction(const char *text, const struct bench_line *line);

#endif
