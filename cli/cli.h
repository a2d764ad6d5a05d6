/*
 * cli.h: what the files of the command line share.
 *
 * Exit status: 0 success; 1 the work could not be done, with one error message on standard error; 2
 * the command line is wrong, with a hint where to read more. Functions here that can fail return
 * such a status, and have printed the message.
 */
#ifndef SCANFOLD_CLI_H
#define SCANFOLD_CLI_H

#include <stddef.h>
#include <stdint.h>

#include <scanfold.h>

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

#if defined(__GNUC__)
#  define CLI_PRINTF(format_at, arguments_at) __attribute__((format(printf, format_at, arguments_at)))
#else
#  define CLI_PRINTF(format_at, arguments_at)
#endif

/* Prints "scanfold: <message>\n" on standard error, after clearing the progress bar. Returns
 * CLI_FAILED. */
int complain(const char *format, ...) CLI_PRINTF(1, 2);

/* From now on messages are not printed; the first one is kept. take_complaint returns it, or "",
 * and forgets it. */
void keep_complaints(void);
const char *take_complaint(void);

/* As complain, followed by a hint at the --help of command (NULL: the general help). Returns
 * CLI_USAGE. */
int complain_usage(const char *command, const char *format, ...) CLI_PRINTF(2, 3);

/* Complains about an option for which getopt_long has just returned ':' (no value) or '?'
 * (unknown); the option string must begin with a colon. Returns CLI_USAGE. */
int complain_option(const char *command, int result, char **argv);

/* Flushes standard output. It is a failure if a closed pipe or a full disk has lost what was
 * printed. */
int finish_stdout(void);

/* dtypes.c: one entry for each dtype. */
struct dtype_info {
        const char *name;   /* "f32", as in the library's constants */
        const char *numpy;  /* "float32", accepted as well */
        const char *letters; /* the .npy type without its byte order: "f4" */
        sf_dtype dtype;
        int32_t size;       /* bytes of an element */
};
const struct dtype_info *dtype_by_name(const char *name);
const struct dtype_info *dtype_by_letters(char kind, int32_t size);
int dtype_is_float(const struct dtype_info *info);
int dtype_is_unsigned(const struct dtype_info *info);

/* "f16, bf16, ..." for error messages. */
extern const char dtype_list[];

/* What scan and fold were asked to do. */
struct job {
        const char *command;            /* as typed, for messages and the progress bar */
        const char *input;              /* a path, or "-" */
        const char *output;             /* a path, or "-"; NULL prints a fold's single value */
        const char *mask, *offsets;     /* NULL: none */
        int is_scan;                    /* else a fold */
        sf_op op;
        int32_t naxes;                  /* -1: a fold of all axes */
        int32_t axes[SF_MAX_NDIM];
        int keepdim, reverse, exclusive, skip_nan;
        sf_scalar initial;
        const struct dtype_info *dtype; /* NULL: the default for the input's */
        const struct dtype_info *acc;   /* NULL: the library's choice */
        const struct dtype_info *view;  /* NULL: what the header says */
        int32_t threads;                /* 0: the library's choice */
        int64_t slab;                   /* bytes that are worked on at a time */
        int quiet;
        int mpi;                        /* this process is one of many (ranks.h) */
};

int run_job(const struct job *job);

/* info.c, bench.c, cache.c, digest.c: complete commands; argv[0] is the command's name. */
int command_info(int argc, char **argv);
int command_cache(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_digest(int argc, char **argv);

/* expression.c: likewise. */
int command_explain(int argc, char **argv);
int command_run(int argc, char **argv);

/* run.c: prints one element as a line on standard output. */
void print_element(const unsigned char *data, const struct dtype_info *dtype);

/* help.c: prints to standard output. NULL is the general help. Returns 0 if the command is
 * known. */
int print_help(const char *command);

/* options.c: parse numbers independently of the locale. Each returns 0, or -1 if text is not
 * exactly such a number in the range. */
int parse_int(const char *text, int64_t low, int64_t high, int64_t *value);
int parse_bytes(const char *text, int64_t *value); /* 4096, 64K, 16M, 2G */
int parse_scalar(const char *text, sf_scalar *value);

/* Reads the value of --threads. Complains. */
int read_threads(const char *command, const char *text, int32_t *threads);

/* A context with this many threads (0: the library's choice). Complains. */
int make_context(int32_t threads, sf_context **ctx);

#endif /* SCANFOLD_CLI_H */
