/* main.c: reads the command line and makes a job of it. */
#include "cli.h"
#include "progress.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How much of the files is worked on at a time: enough to keep every thread busy, but little
 * compared with a machine's memory. */
enum { DEFAULT_SLAB = 128 << 20 };

static int keeping;
static char kept[4096];

void keep_complaints(void)
{
        keeping = 1;
}

const char *take_complaint(void)
{
        static char taken[sizeof(kept)];
        memcpy(taken, kept, sizeof(kept));
        kept[0] = 0;
        return taken;
}

static void say(const char *format, va_list arguments)
{
        progress_stop();
        if (keeping) {
                if (!kept[0])
                        vsnprintf(kept, sizeof(kept), format, arguments);
                return;
        }
        fputs("scanfold: ", stderr);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
}

int complain(const char *format, ...)
{
        va_list arguments;
        va_start(arguments, format);
        say(format, arguments);
        va_end(arguments);
        return CLI_FAILED;
}

int complain_usage(const char *command, const char *format, ...)
{
        va_list arguments;
        va_start(arguments, format);
        say(format, arguments);
        va_end(arguments);
        if (!keeping)
                fprintf(stderr, "Try 'scanfold %s%s--help'.\n", command ? command : "", command ? " " : "");
        return CLI_USAGE;
}

int complain_option(const char *command, int result, char **argv)
{
        /* getopt stores a short option's letter in optopt, and has stepped past a long one. */
        char letter[] = { '-', (char)optopt, 0 };
        if (result == ':')
                return complain_usage(command, "%s needs a value", argv[optind - 1]);
        char hint[128] = "";
        if (!strcmp(command, "run") || !strcmp(command, "explain"))
                snprintf(hint, sizeof(hint), "; an expression that begins with a minus comes "
                                             "after --: scanfold %s -- \"-x\"", command);
        return complain_usage(command, "%s is not an option of %s, or not clearly one%s",
                              optopt && optopt < 256 ? letter : argv[optind - 1], command, hint);
}

int finish_stdout(void)
{
        int failed = ferror(stdout), error = errno;
        if (fflush(stdout)) {
                failed = 1;
                error = errno;
        }
        if (failed && error == EPIPE)
                return complain("standard output was closed before everything was written");
        return failed ? complain("cannot write to standard output: %s", strerror(error)) : CLI_DONE;
}

enum {
        OPT_AXIS = 1000, OPT_OP, OPT_REVERSE, OPT_EXCLUSIVE, OPT_KEEPDIM, OPT_MASK, OPT_OFFSETS, OPT_SKIP_NAN, OPT_INITIAL, OPT_DTYPE, OPT_ACC,
        OPT_VIEW, OPT_THREADS, OPT_SLAB, OPT_MPI
};

/* The options of both scan and fold; one that does not apply is refused with a message. */
static const struct option long_options[] = {
        { "output", required_argument, NULL, 'o' },
        { "axis", required_argument, NULL, OPT_AXIS },
        { "op", required_argument, NULL, OPT_OP },
        { "reverse", no_argument, NULL, OPT_REVERSE },
        { "exclusive", no_argument, NULL, OPT_EXCLUSIVE },
        { "keepdim", no_argument, NULL, OPT_KEEPDIM },
        { "mask", required_argument, NULL, OPT_MASK },
        { "offsets", required_argument, NULL, OPT_OFFSETS },
        { "skip-nan", no_argument, NULL, OPT_SKIP_NAN },
        { "initial", required_argument, NULL, OPT_INITIAL },
        { "dtype", required_argument, NULL, OPT_DTYPE },
        { "acc", required_argument, NULL, OPT_ACC },
        { "view", required_argument, NULL, OPT_VIEW },
        { "threads", required_argument, NULL, OPT_THREADS },
        { "slab", required_argument, NULL, OPT_SLAB },
        { "mpi", no_argument, NULL, OPT_MPI },
        { "quiet", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
};

/* "0,2" or "-1". */
static int parse_axes(struct job *job, const char *text)
{
        job->naxes = 0;
        while (1) {
                char number[16];
                size_t length = strcspn(text, ",");
                int64_t axis;
                if (length >= sizeof(number))
                        return -1;
                memcpy(number, text, length);
                number[length] = 0;
                if (parse_int(number, INT32_MIN, INT32_MAX, &axis) || job->naxes == SF_MAX_NDIM)
                        return -1;
                job->axes[job->naxes++] = (int32_t)axis;
                if (!text[length])
                        return 0;
                text += length + 1;
        }
}

static int parse_op(const char *text, sf_op *op)
{
        for (int i = 0; sf_op_name((sf_op)i); i++) {
                if (!strcmp(text, sf_op_name((sf_op)i))) {
                        *op = (sf_op)i;
                        return 0;
                }
        }
        return -1;
}

static int read_dtype(const char *command, const char *option, const char *text, const struct dtype_info **dtype)
{
        *dtype = dtype_by_name(text);
        return *dtype ? CLI_DONE
                      : complain_usage(command, "%s %s is not a dtype; it is one of %s", option, text, dtype_list);
}

/* Handles one option of a scan or fold. Returns CLI_DONE or CLI_USAGE. */
static int take_option(struct job *job, int option, const char *text)
{
        const char *command = job->command;
        switch (option) {
        case 'o':
                if (job->output)
                        return complain_usage(command, "%s has one result, and -o was given twice: "
                                                       "%s and %s", command, job->output, text);
                job->output = text;
                return CLI_DONE;
        case 'q':
                job->quiet = 1;
                return CLI_DONE;
        case OPT_MPI:
                job->mpi = 1;
                return CLI_DONE;
        case OPT_AXIS:
                if (parse_axes(job, text))
                        return complain_usage(command, "--axis %s is not an axis number%s", text,
                                              job->is_scan ? ", such as 1 or -1" : " or several, such as 1 or 0,2");
                if (job->is_scan && job->naxes > 1)
                        return complain_usage(command, "--axis %s names %d axes; a scan runs along one", text,
                                              job->naxes);
                return CLI_DONE;
        case OPT_OP:
                if (strcmp(command, "scan") && strcmp(command, "fold"))
                        return complain_usage(command, "%s has its operation in its name; use 'scanfold fold --op %s'",
                                              command, text);
                if (parse_op(text, &job->op))
                        return complain_usage(command, "--op %s is not an operation; it is sum, prod, max, min, argmax, argmin, "
                                              "last_argmax, last_argmin or logsumexp", text);
                if (job->op == SF_RECURRENCE)
                        return complain_usage(command, "--op recurrence takes two arrays; use 'scanfold run \"linear_recurrence(a, b)\" "
                                              "a=A.npy b=B.npy -o H.npy'");
                return CLI_DONE;
        case OPT_REVERSE:
                job->reverse = 1;
                return CLI_DONE;
        case OPT_EXCLUSIVE:
                if (!job->is_scan)
                        return complain_usage(command, "--exclusive is for scan; a fold leaves no element out");
                job->exclusive = 1;
                return CLI_DONE;
        case OPT_KEEPDIM:
                if (job->is_scan)
                        return complain_usage(command, "--keepdim is for folds; a scan keeps every axis as it is");
                job->keepdim = 1;
                return CLI_DONE;
        case OPT_MASK:
                job->mask = text;
                return CLI_DONE;
        case OPT_OFFSETS:
                job->offsets = text;
                return CLI_DONE;
        case OPT_SKIP_NAN:
                job->skip_nan = 1;
                return CLI_DONE;
        case OPT_INITIAL:
                if (parse_scalar(text, &job->initial))
                        return complain_usage(command, "--initial %s is not a number", text);
                return CLI_DONE;
        case OPT_DTYPE:
                return read_dtype(command, "--dtype", text, &job->dtype);
        case OPT_ACC:
                return read_dtype(command, "--acc", text, &job->acc);
        case OPT_VIEW:
                return read_dtype(command, "--view", text, &job->view);
        case OPT_THREADS:
                return read_threads(command, text, &job->threads);
        default: /* OPT_SLAB */
                if (parse_bytes(text, &job->slab))
                        return complain_usage(command, "--slab %s is not a size, such as 64M", text);
                return CLI_DONE;
        }
}

static int command_job(int argc, char **argv)
{
        struct job job;
        memset(&job, 0, sizeof(job));
        job.command = argv[0];
        job.slab = DEFAULT_SLAB;
        job.is_scan = !strcmp(argv[0], "scan");
        job.naxes = -1;
        if (job.is_scan) {
                job.naxes = 1;
                job.axes[0] = -1;
        } else if (strcmp(argv[0], "fold")) {
                parse_op(argv[0], &job.op);
        }

        int option;
        while ((option = getopt_long(argc, argv, ":o:qh", long_options, NULL)) != -1) {
                if (option == 'h')
                        return print_help(job.command), finish_stdout();
                if (option == ':' || option == '?')
                        return complain_option(job.command, option, argv);
                int status = take_option(&job, option, optarg);
                if (status)
                        return status;
        }
        if (optind == argc)
                return complain_usage(job.command, "%s needs a .npy file to work on (or - for standard input)",
                                      job.command);
        if (argc - optind > 1)
                return complain_usage(job.command, "%s works on one file, and was given %s and %s; "
                                                   "where the result goes is said with -o",
                                      job.command, argv[optind], argv[optind + 1]);
        job.input = argv[optind];
        if (!job.output && job.is_scan)
                return complain_usage(job.command, "name a file for the result with -o (or -o - for standard output)");
        const char *const files[] = { job.input, job.mask, job.offsets };
        static const char *const names[] = { "input", "mask", "offsets" };
        for (int i = 0, piped = -1; i < 3; i++) {
                if (!files[i] || strcmp(files[i], "-"))
                        continue;
                if (piped >= 0)
                        return complain_usage(job.command, "the %s and the %s cannot both be standard input", names[piped], names[i]);
                piped = i;
        }
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): job.input is argv[optind], and optind is below argc */
        if (job.mpi && (!strcmp(job.input, "-") || (job.mask && !strcmp(job.mask, "-")) || (job.output && !strcmp(job.output, "-"))))
                return complain_usage(job.command, "--mpi is for files, which every rank can open; - is one process's: name a file");
        if (job.mpi && job.offsets)
                return complain_usage(job.command, "--offsets cannot be used with --mpi: segments are not shared by ranks");
        return run_job(&job);
}

static int command_help(int argc, char **argv)
{
        if (print_help(argc > 1 ? argv[1] : NULL))
                return complain_usage(NULL, "there is no command %s", argv[1]);
        return finish_stdout();
}

/*
 * If a standard descriptor is closed when the program starts, the first file that is opened gets
 * its number, and messages would be written into the result. So each closed one is replaced by
 * /dev/null, opened in the wrong direction, so that using it is still an error.
 */
static void keep_standard_descriptors(void)
{
        for (int fd = 0; fd <= 2; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
                        return;
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                int (*run)(int argc, char **argv);
        } commands[] = {
                { "scan", command_job }, { "fold", command_job }, { "sum", command_job }, { "prod", command_job },
                { "max", command_job }, { "min", command_job }, { "info", command_info }, { "bench", command_bench },
                { "cache", command_cache }, { "digest", command_digest }, { "explain", command_explain }, { "run", command_run },
                { "help", command_help }, { "--help", command_help }, { "-h", command_help },
        };

        keep_standard_descriptors();
        catch_signals();
        opterr = 0;
        if (argc < 2)
                return complain_usage(NULL, "say what to do: scan, fold, sum, prod, max, min, run, explain, info, bench, digest or cache");
        if (!strcmp(argv[1], "--version")) {
                printf("scanfold %s\n", sf_version_string());
                return finish_stdout();
        }
        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
                if (!strcmp(argv[1], commands[i].name))
                        return commands[i].run(argc - 1, argv + 1);
        return complain_usage(NULL, "%s is not a command; say scan, fold, sum, prod, max, min, run, explain, info, bench, digest or cache", argv[1]);
}
