/* bench_report.h: the measurements of bench, as JSON and as a web page. */
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

/* Writes the report to a file, or to standard output for "-": as JSON, or as one self-contained web
 * page. Complains. */
int write_report(const struct bench_report *report, const char *path, int page);

/* bench_compare.c: reads a file that bench --json wrote; the caller frees the text. Complains. */
int old_read(const char *path, char **text);

/* The fraction of a copy's or read's speed in that file for this line's work; NaN if it has
 * none. */
double old_fraction(const char *text, const struct bench_line *line);

#endif
