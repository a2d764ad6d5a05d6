/* expression.c: the explain and run commands, which show or compute a line in Python's notation. */
#include "cli.h"
#include "device.h"
#include "files.h"
#include "progress.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 64, NAME_ROOM = 64 };

/* What the command line says about one input: --shape and --dtype for explain, name=FILE and --view
 * for run. */
struct said {
        char name[NAME_ROOM];
        const char *path;
        const struct dtype_info *dtype;
        int has_shape;
        int32_t ndim;
        int64_t shape[SF_MAX_NDIM], strides[SF_MAX_NDIM];
        struct input file;
};

struct line {
        const char *command, *text;
        struct said said[INPUTS];
        int nsaid;
        int exact, quiet;
        int32_t threads;
        sf_explain_format format;
        sf_device device;
        const char *output[INPUTS];
        int noutputs;
        sf_context *ctx;
        sf_graph *graph;
        sf_plan *plan;
        sf_tensor inputs[INPUTS];
};

static int passed_on(const struct line *line)
{
        return complain("%s", sf_last_error(line->ctx));
}

/* Splits "name=rest" and finds or makes the entry of that name. NULL after a complaint. */
static struct said *find_said(struct line *line, const char *option, const char *text, const char **rest)
{
        const char *equals = strchr(text, '=');
        size_t length = equals ? (size_t)(equals - text) : 0;
        if (!*option && *text == '-') {
                complain_usage(line->command, "%s stands after --, where there are no options; "
                                              "write options before it", text);
                return NULL;
        }
        if (!length || length >= NAME_ROOM) {
                complain_usage(line->command, "%s%s%s does not say of which input; write it as x=...", option, *option ? " " : "", text);
                return NULL;
        }
        *rest = equals + 1;
        for (int i = 0; i < line->nsaid; i++)
                if (strlen(line->said[i].name) == length && !memcmp(line->said[i].name, text, length))
                        return &line->said[i];
        if (line->nsaid == INPUTS) {
                complain_usage(line->command, "more than %d inputs", INPUTS);
                return NULL;
        }
        struct said *said = &line->said[line->nsaid++];
        memcpy(said->name, text, length);
        return said;
}

static int take_shape(struct line *line, const char *text)
{
        const char *rest;
        struct said *said = find_said(line, "--shape", text, &rest);
        if (!said)
                return CLI_USAGE;
        if (said->has_shape)
                return complain_usage(line->command, "--shape says twice what shape %s has", said->name);
        said->has_shape = 1;
        said->ndim = 0;
        while (*rest) { /* nothing after the = means no dimensions */
                char number[24];
                size_t length = strcspn(rest, ",x");
                if (length >= sizeof(number) || said->ndim == SF_MAX_NDIM)
                        return complain_usage(line->command, "--shape %s is not a shape, such as x=1024,8192", text);
                memcpy(number, rest, length);
                number[length] = 0;
                if (parse_int(number, 0, INT64_MAX, &said->shape[said->ndim++]))
                        return complain_usage(line->command, "--shape %s is not a shape, such as x=1024,8192", text);
                rest += length + (rest[length] != 0);
        }
        return CLI_DONE;
}

static int take_dtype(struct line *line, const char *option, const char *text)
{
        const char *rest;
        struct said *said = find_said(line, option, text, &rest);
        if (!said)
                return CLI_USAGE;
        if (said->dtype)
                return complain_usage(line->command, "%s says twice what dtype %s has", option, said->name);
        said->dtype = dtype_by_name(rest);
        return said->dtype ? CLI_DONE : complain_usage(line->command, "%s %s is not a dtype; it is %s", option, text, dtype_list);
}

static int take_device(struct line *line, const char *text)
{
        return device_by_name(text, &line->device) ? complain_usage(line->command, "--device %s is none; it is cpu, cuda or cuda:1", text) : CLI_DONE;
}

static int take_format(struct line *line, const char *text)
{
        static const char *const names[] = { "text", "json", "dot", "svg" };
        for (int i = 0; i < 4; i++)
                if (!strcmp(text, names[i])) {
                        line->format = (sf_explain_format)i;
                        return CLI_DONE;
                }
        return complain_usage(line->command, "--format %s is none; it is text, json, dot or svg", text);
}

/* ------------------------------------------------------------------------------------------------------------
 * From a line to a plan
 * ---------------------------------------------------------------------------------------------------------- */
static int read_line(struct line *line)
{
        int status = make_context(line->threads, &line->ctx);
        if (status)
                return status;
        return sf_graph_parse(line->ctx, line->text, &line->graph) ? passed_on(line) : CLI_DONE;
}

/* Finds the tensor of each input of the graph. A name that does not occur in the expression is most
 * likely a mistake, and is refused. */
static int match_inputs(struct line *line, const char *how)
{
        int32_t count = sf_graph_inputs(line->graph);
        if (count > INPUTS)
                return complain("the expression has %d inputs; %d are the most", (int)count, INPUTS);
        for (int k = 0; k < line->nsaid; k++) {
                int used = 0;
                for (int32_t i = 0; i < count; i++)
                        used |= !strcmp(sf_graph_input_name(line->graph, i), line->said[k].name);
                if (!used)
                        return complain_usage(line->command, "the expression has no %s", line->said[k].name);
        }
        for (int32_t i = 0; i < count; i++) {
                const char *name = sf_graph_input_name(line->graph, i);
                struct said *said = NULL;
                for (int k = 0; k < line->nsaid; k++)
                        if (!strcmp(name, line->said[k].name))
                                said = &line->said[k];
                if (!said || (!said->has_shape && !said->path))
                        return complain_usage(line->command, how, name, name);
                line->inputs[i] = (sf_tensor){ .data = said->file.data, .device = line->device, .ndim = said->ndim, .shape = said->shape,
                                               .dtype = said->dtype ? said->dtype->dtype : SF_F32, .strides = said->path ? said->strides : NULL };
        }
        return CLI_DONE;
}

static int make_plan(struct line *line)
{
        sf_plan_options options = SF_PLAN_OPTIONS_INIT;
        options.exact = line->exact;
        if (sf_plan_create(line->ctx, line->graph, sf_graph_inputs(line->graph), line->inputs, &options, &line->plan))
                return passed_on(line);
        return CLI_DONE;
}

static void drop_line(struct line *line)
{
        sf_plan_destroy(line->plan);
        sf_graph_destroy(line->graph);
        for (int i = 0; i < line->nsaid; i++)
                input_close(&line->said[i].file);
        sf_context_destroy(line->ctx);
        free(line);
}

static struct line *new_line(const char *command)
{
        struct line *line = calloc(1, sizeof(*line));
        if (!line) {
                complain("no memory to read an expression with");
                return NULL;
        }
        line->command = command;
        line->device = (sf_device){ SF_CPU, 0 };
        return line;
}

/* ------------------------------------------------------------------------------------------------------------
 * explain
 * ---------------------------------------------------------------------------------------------------------- */
enum { OPT_SHAPE = 1000, OPT_DTYPE, OPT_EXACT, OPT_FORMAT, OPT_DEVICE, OPT_THREADS, OPT_VIEW };

static int print_explanation(struct line *line)
{
        size_t needed;
        if (sf_plan_explain(line->plan, line->format, NULL, 0, &needed))
                return passed_on(line);
        char *text = malloc(needed);
        if (!text)
                return complain("no memory for an explanation");
        int status = CLI_DONE;
        if (sf_plan_explain(line->plan, line->format, text, needed, NULL))
                status = passed_on(line);
        else
                fputs(text, stdout);
        free(text);
        return status ? status : finish_stdout();
}

static int explain(struct line *line, int argc, char **argv)
{
        static const struct option options[] = {
                { "shape", required_argument, NULL, OPT_SHAPE }, { "dtype", required_argument, NULL, OPT_DTYPE }, { "exact", no_argument, NULL, OPT_EXACT },
                { "format", required_argument, NULL, OPT_FORMAT }, { "device", required_argument, NULL, OPT_DEVICE },
                { "threads", required_argument, NULL, OPT_THREADS }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
        };
        int option, status = CLI_DONE;
        while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
                switch (option) {
                case 'h': return print_help("explain"), finish_stdout();
                case OPT_SHAPE: status = take_shape(line, optarg); break;
                case OPT_DTYPE: status = take_dtype(line, "--dtype", optarg); break;
                case OPT_EXACT: line->exact = 1; break;
                case OPT_FORMAT: status = take_format(line, optarg); break;
                case OPT_DEVICE: status = take_device(line, optarg); break;
                case OPT_THREADS:
                        status = read_threads(line->command, optarg, &line->threads);
                        break;
                default: return complain_option("explain", option, argv);
                }
                if (status)
                        return status;
        }
        if (argc - optind != 1)
                return complain_usage("explain", argc == optind ? "explain needs an expression, in quotes" : "explain takes one expression, in quotes");
        line->text = argv[optind];
        status = read_line(line);
        if (!status)
                status = match_inputs(line, "say what shape %s has, such as --shape %s=1024,8192");
        if (!status)
                status = make_plan(line);
        return status ? status : print_explanation(line);
}

int command_explain(int argc, char **argv)
{
        struct line *line = new_line("explain");
        if (!line)
                return CLI_FAILED;
        int status = explain(line, argc, argv);
        drop_line(line);
        return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * run
 * ---------------------------------------------------------------------------------------------------------- */
static int open_input(struct said *said)
{
        int status = input_open(&said->file, said->path);
        const struct npy_header *h = &said->file.header;
        if (status)
                return status;
        if (said->dtype && said->dtype->size != h->itemsize)
                return complain("%s has elements of %d bytes, which --view %s=%s, of %d, cannot read", said->file.name, h->itemsize, said->name, said->dtype->name,
                                said->dtype->size);
        if (!said->dtype)
                said->dtype = dtype_by_letters(h->kind, h->itemsize);
        if (!said->dtype)
                return complain("%s holds bytes without a type (dtype 'V%d'); say what they are, such as --view %s=%s", said->file.name, h->itemsize, said->name,
                                h->itemsize == 2 ? "bf16" : "f64");
        said->ndim = h->ndim;
        memcpy(said->shape, h->shape, sizeof(said->shape));
        int64_t stride = 1;
        for (int32_t k = 0; k < h->ndim; k++) {
                int32_t axis = h->fortran ? k : h->ndim - 1 - k;
                said->strides[axis] = stride;
                stride *= h->shape[axis] ? h->shape[axis] : 1;
        }
        return CLI_DONE;
}

static const struct dtype_info *dtype_info_of(sf_dtype dtype)
{
        static const char *const names[] = { "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool" };
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const struct dtype_info *info = dtype_by_name(names[i]);
                if (info->dtype.code == dtype.code && info->dtype.bits == dtype.bits)
                        return info;
        }
        return NULL; /* the library has no other dtypes */
}

/* One result: its memory, shape and dtype. */
struct result {
        sf_tensor tensor;
        int64_t shape[SF_MAX_NDIM];
        const struct dtype_info *dtype;
        uint64_t bytes;
        double single; /* memory for a single value that is printed */
};

/* Creates the file for a result, with its header. */
static int create_file(struct result *r, const char *path, struct output *output)
{
        char header[NPY_HEADER_ROOM];
        size_t size = npy_write_header(header, r->dtype, r->tensor.ndim, r->shape);
        int status = output_create(output, path, size + r->bytes);
        if (status)
                return status;
        memcpy(output->file.start, header, size);
        r->tensor.data = output->file.start + size;
        return CLI_DONE;
}

static int describe(struct line *line, int index, struct result *r)
{
        int64_t bytes = 0;
        r->tensor = (sf_tensor){ .device = line->device, .shape = r->shape };
        sf_plan_output(line->plan, index, &r->tensor.ndim, r->shape, &r->tensor.dtype);
        r->dtype = dtype_info_of(r->tensor.dtype);
        if (npy_byte_count(r->tensor.ndim, r->shape, r->dtype->size, &bytes) || bytes > INT64_MAX - NPY_HEADER_ROOM)
                return complain("result %d would be more bytes than 64 bits can count", index + 1);
        for (int32_t d = 0; d < r->tensor.ndim; d++)
                bytes = r->shape[d] ? bytes : 0;
        r->bytes = (uint64_t)bytes;
        return CLI_DONE;
}

static int run_plan(struct line *line, int count, const struct result *results)
{
        sf_tensor out[INPUTS];
        for (int i = 0; i < count; i++)
                out[i] = results[i].tensor;
        return sf_plan_run(line->plan, line->inputs, out, NULL) ? passed_on(line) : CLI_DONE;
}

/* Without -o: single values are printed. */
static int print_results(struct line *line, int count, struct result *results)
{
        for (int i = 0; i < count; i++) {
                if (results[i].bytes != (uint64_t)results[i].dtype->size)
                        return complain_usage("run", "the result is %s; name a file for it with -o (or -o - for standard output)",
                                              results[i].bytes ? "more than one value" : "empty: there is no value to print");
                results[i].tensor.data = &results[i].single;
        }
        int status = run_plan(line, count, results);
        for (int i = 0; i < count && !status; i++)
                print_element((const unsigned char *)&results[i].single, results[i].dtype);
        return status ? status : finish_stdout();
}

/* All files are created before anything is computed, and none gets its name unless all are
 * complete. */
static int write_results(struct line *line, int count, struct result *results)
{
        struct output *outputs = calloc((size_t)count, sizeof(*outputs));
        if (!outputs)
                return complain("not enough memory");
        int status = CLI_DONE;
        for (int i = 0; i < count && !status; i++)
                status = create_file(&results[i], line->output[i], &outputs[i]);
        if (!status)
                status = run_plan(line, count, results);
        if (!status)
                status = outputs_commit(outputs, count);
        else
                outputs_abandon(outputs, count);
        free(outputs);
        return status;
}

static int compute(struct line *line)
{
        int count = (int)sf_plan_outputs(line->plan), status = CLI_DONE;
        struct result *results = calloc((size_t)count, sizeof(*results));
        if (!results)
                return complain("not enough memory");
        for (int i = 0; i < count && !status; i++)
                status = describe(line, i, &results[i]);
        if (!status)
                status = line->noutputs ? write_results(line, count, results)
                                        : print_results(line, count, results);
        free(results);
        return status;
}

static int run(struct line *line, int argc, char **argv)
{
        static const struct option options[] = {
                { "output", required_argument, NULL, 'o' }, { "exact", no_argument, NULL, OPT_EXACT }, { "view", required_argument, NULL, OPT_VIEW },
                { "threads", required_argument, NULL, OPT_THREADS }, { "quiet", no_argument, NULL, 'q' }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
        };
        int option, status = CLI_DONE;
        while ((option = getopt_long(argc, argv, ":o:qh", options, NULL)) != -1) {
                switch (option) {
                case 'h': return print_help("run"), finish_stdout();
                case 'q': line->quiet = 1; break;
                case 'o':
                        if (line->noutputs == INPUTS)
                                return complain_usage("run", "more than %d outputs", INPUTS);
                        line->output[line->noutputs++] = optarg;
                        break;
                case OPT_EXACT: line->exact = 1; break;
                case OPT_VIEW: status = take_dtype(line, "--view", optarg); break;
                case OPT_THREADS:
                        status = read_threads(line->command, optarg, &line->threads);
                        break;
                default: return complain_option("run", option, argv);
                }
                if (status)
                        return status;
        }
        if (optind == argc)
                return complain_usage("run", "run needs an expression, in quotes, and a file for each name in it: x=in.npy");
        line->text = argv[optind++];
        int streams = 0;
        for (; optind < argc; optind++) {
                const char *path;
                struct said *said = find_said(line, "", argv[optind], &path);
                if (!said)
                        return CLI_USAGE;
                if (said->path)
                        return complain_usage("run", "two files are named for %s: %s and %s", said->name, said->path, path);
                said->path = path;
                streams += !strcmp(path, "-");
        }
        if (streams > 1)
                return complain_usage("run", "only one input can be standard input");
        if (line->quiet)
                progress_silence();
        status = read_line(line);
        if (!status && line->noutputs && line->noutputs != (int)sf_graph_outputs(line->graph))
                status = complain_usage("run", "the expression has %d result%s; name a file for each with -o", (int)sf_graph_outputs(line->graph),
                                        sf_graph_outputs(line->graph) == 1 ? "" : "s");
        if (!status && sf_graph_outputs(line->graph) > INPUTS)
                status = complain("the expression has more than %d results", INPUTS);
        if (!status)
                status = outputs_check(line->output, line->noutputs);
        for (int i = 0; i < line->nsaid && !status; i++)
                if (line->said[i].path)
                        status = open_input(&line->said[i]);
        if (!status)
                status = match_inputs(line, "name a file for %s, such as %s=in.npy");
        if (!status)
                status = make_plan(line);
        return status ? status : compute(line);
}

int command_run(int argc, char **argv)
{
        struct line *line = new_line("run");
        if (!line)
                return CLI_FAILED;
        int status = run(line, argc, argv);
        drop_line(line);
        return status;
}
