/* run.c: the scan and fold commands: they open the files, do one job, and write the result. */
#include "cli.h"
#include "files.h"
#include "progress.h"
#include "ranks.h"
#include "work.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int make_context(int32_t threads, sf_context **ctx)
{
        sf_context_options options = SF_CONTEXT_OPTIONS_INIT;
        options.threads = threads;
        if (sf_context_create(ctx, &options) != SF_OK)
                return complain("%s", sf_last_error(NULL));
        return CLI_DONE;
}

/* The dtype of a file's elements: that of the header, or that of --view for the same bytes. */
static int decide_x_dtype(const struct job *job, const struct input *input, const struct dtype_info **dtype)
{
        const struct npy_header *h = &input->header;
        if (job->view && job->view->size != h->itemsize)
                return complain("%s has elements of %d bytes, which --view %s, of %d, cannot read", input->name,
                                h->itemsize, job->view->name, job->view->size);
        *dtype = job->view ? job->view : dtype_by_letters(h->kind, h->itemsize);
        if (!*dtype)
                return complain("%s holds bytes without a type (dtype 'V%d'); say what they are, such as --view %s",
                                input->name, h->itemsize, h->itemsize == 2 ? "bf16" : h->itemsize == 8 ? "f64" : "u8");
        return CLI_DONE;
}

/* The default dtype of the result, as in NumPy and torch: sums and products of integers and bools
 * are 64 bits wide, indices too; logsumexp of integers is f64; everything else keeps its dtype. */
static const struct dtype_info *default_dtype(const struct job *job, const struct dtype_info *x)
{
        if (job->op >= SF_ARGMAX && job->op <= SF_LAST_ARGMIN)
                return dtype_by_name("i64");
        if (job->op == SF_LOGSUMEXP && !dtype_is_float(x))
                return dtype_by_name("f64");
        if (dtype_is_float(x) || job->op == SF_MAX || job->op == SF_MIN)
                return x;
        return dtype_by_name(dtype_is_unsigned(x) ? "u64" : "i64");
}

/* Strides in bytes, of a compact array in C or Fortran order. */
static void fill_strides(int32_t ndim, const int64_t *shape, int64_t item, int fortran, int64_t *strides)
{
        for (int32_t k = 0; k < ndim; k++) {
                int32_t i = fortran ? k : ndim - 1 - k;
                strides[i] = item;
                item *= shape[i] ? shape[i] : 1;
        }
}

static void format_shape(char *text, size_t room, int32_t ndim, const int64_t *shape)
{
        size_t at = 0;
        text[0] = 0;
        for (int32_t i = 0; i < ndim && at < room; i++)
                at += (size_t)snprintf(text + at, room - at, "%s%" PRId64, i ? ", " : "", shape[i]);
        if (ndim == 1 && at < room)
                snprintf(text + at, room - at, ",");
}

/* The mask's strides for x's shape: 0 along an axis that it lacks, or where its length is 1. */
static int spread_mask(const struct input *x, const struct input *mask, const struct dtype_info *dtype, struct grid *g)
{
        const struct npy_header *h = &mask->header;
        int64_t own[SF_MAX_NDIM];
        fill_strides(h->ndim, h->shape, dtype->size, h->fortran, own);
        int fits = h->ndim <= g->ndim;
        for (int32_t i = 0; fits && i < h->ndim; i++) {
                int32_t axis = g->ndim - h->ndim + i;
                fits = h->shape[i] == 1 || h->shape[i] == g->shape[axis];
                g->mask[axis] = h->shape[i] == 1 ? 0 : own[i];
        }
        if (!fits) {
                char mask_shape[160], x_shape[160];
                format_shape(mask_shape, sizeof(mask_shape), h->ndim, h->shape);
                format_shape(x_shape, sizeof(x_shape), g->ndim, g->shape);
                return complain("the mask %s has shape (%s), which does not broadcast to the shape (%s) of %s",
                                mask->name, mask_shape, x_shape, x->name);
        }
        return CLI_DONE;
}

/* Passes the offsets on to the library, which checks their values. */
static int take_offsets(struct work *work, const struct input *offsets)
{
        const struct npy_header *h = &offsets->header;
        const struct dtype_info *dtype = dtype_by_letters(h->kind, h->itemsize);
        if (!dtype || h->kind != 'i' || dtype->size < 4)
                return complain("the offsets %s must be int32 or int64, and have elements of another type (numpy: offsets.astype(numpy.int64))", offsets->name);
        if (h->ndim != 1 || h->shape[0] < 1) {
                char shape[160];
                format_shape(shape, sizeof(shape), h->ndim, h->shape);
                return complain("the offsets %s have shape (%s); they must have one dimension, and one element more than there are segments", offsets->name, shape);
        }
        work->offsets_dtype = dtype;
        work->offsets = offsets->data;
        work->segments = h->shape[0] - 1;
        return CLI_DONE;
}

/*
 * Asks the library to do the same with a single element, so that what it refuses (an axis, a pair
 * of dtypes, an initial value) is refused before any file is created.
 */
static int ask_library(const struct work *work)
{
        struct work one = *work;
        int64_t at[SF_MAX_NDIM] = { 0 }, ones[SF_MAX_NDIM];
        double x = 0, out = 0, mask = 0; /* aligned memory for one element of any dtype */
        one.x = (unsigned char *)&x;
        one.out = (unsigned char *)&out;
        one.mask = (unsigned char *)&mask;
        int64_t offsets[2] = { 0, 1 };
        one.offsets = (unsigned char *)offsets;
        one.segments = 1;
        if (work->offsets_dtype)
                one.offsets_dtype = dtype_by_name("i64");
        for (int32_t i = 0; i < SF_MAX_NDIM; i++)
                ones[i] = 1;
        return do_box(&one, at, ones);
}

/* Called after the library has accepted the axes. */
static void mark_busy(const struct job *job, struct grid *g)
{
        for (int32_t i = 0; i < g->ndim; i++)
                g->busy[i] = job->naxes < 0;
        for (int32_t i = 0; i < job->naxes; i++) {
                int32_t axis = job->axes[i] < 0 ? job->axes[i] + g->ndim : job->axes[i];
                /* a 0-dimensional array has axis 0 for the library, but none in the grid */
                if (axis >= 0 && axis < g->ndim)
                        g->busy[axis] = 1;
        }
}

/* The shape of the output file, and the output's strides along x's axes. */
static void shape_output(const struct work *work, struct grid *g, int64_t item, int32_t *ndim, int64_t *shape)
{
        const struct job *job = work->job;
        int64_t kept[SF_MAX_NDIM];
        *ndim = 0;
        for (int32_t i = 0; i < g->ndim; i++) {
                int folded = !job->is_scan && g->busy[i];
                kept[i] = folded ? folded_length(work) : g->shape[i];
                if (!folded || job->keepdim || work->offsets_dtype)
                        shape[(*ndim)++] = kept[i];
        }
        fill_strides(g->ndim, kept, item, 0, g->out);
        for (int32_t i = 0; i < g->ndim; i++)
                if (!job->is_scan && g->busy[i] && !work->offsets_dtype)
                        g->out[i] = 0;
}

static float widen_half(uint16_t bits)
{
        int exponent = bits >> 10 & 31, fraction = bits & 1023;
        float value = exponent == 31 ? (fraction ? NAN : INFINITY)
                      : exponent     ? ldexpf((float)(fraction | 1024), exponent - 25)
                                     : ldexpf((float)fraction, -24);
        return bits >> 15 ? -value : value;
}

/* Prints the fewest digits that read back as the same number in the dtype's precision. */
static void print_real(double value, int is_double)
{
        char text[40];
        for (int digits = 1; digits <= 17; digits++) {
                snprintf(text, sizeof(text), "%.*g", digits, value);
                if (is_double ? strtod(text, NULL) == value : strtof(text, NULL) == (float)value)
                        break;
        }
        puts(text);
}

void print_element(const unsigned char *data, const struct dtype_info *dtype)
{
        union {
                int64_t i;
                uint64_t u;
                uint32_t u32;
                uint16_t u16;
                float f;
                double d;
        } v = { 0 };
        memcpy(&v, data, (size_t)dtype->size);
        if (!strcmp(dtype->name, "f64")) {
                print_real(v.d, 1);
        } else if (!strcmp(dtype->name, "f32")) {
                print_real(v.f, 0);
        } else if (!strcmp(dtype->name, "f16")) {
                print_real(widen_half(v.u16), 0);
        } else if (!strcmp(dtype->name, "bf16")) {
                const uint32_t upper = v.u16;
                v.u32 = upper << 16;
                print_real(v.f, 0);
        } else if (!strcmp(dtype->name, "bool")) {
                puts(data[0] ? "True" : "False");
        } else {
                /* Narrow integers are loaded by their own type: only on a little-endian machine are
                 * their bytes the low ones of v. */
                int8_t i8;
                int16_t i16;
                int32_t i32;
                int sign = !dtype_is_unsigned(dtype);
                if (dtype->size == 1) {
                        memcpy(&i8, data, 1);
                        v.i = sign ? i8 : (uint8_t)i8;
                } else if (dtype->size == 2) {
                        memcpy(&i16, data, 2);
                        v.i = sign ? i16 : (uint16_t)i16;
                } else if (dtype->size == 4) {
                        memcpy(&i32, data, 4);
                        v.i = sign ? i32 : (int64_t)(uint32_t)i32;
                }
                if (sign)
                        printf("%" PRId64 "\n", v.i);
                else
                        printf("%" PRIu64 "\n", v.u);
        }
}

/* Without -o: a single value is printed, anything else needs a file. */
static int print_value(struct work *work, int32_t ndim, const int64_t *shape)
{
        int many = 0, empty = 0;
        for (int32_t i = 0; i < ndim; i++) {
                many |= shape[i] != 1;
                empty |= shape[i] == 0;
        }
        if (many)
                return ranks_agree(complain_usage(work->job->command, "the result is %s; name a file for it with -o (or -o - for standard output)",
                                                  empty ? "empty: there is no value to print" : "more than one value"));
        double room = 0; /* aligned memory for one element of any dtype */
        work->out = (unsigned char *)&room;
        int64_t strides[SF_MAX_NDIM] = { 0 };
        memcpy(work->grid.out, strides, sizeof(strides));
        int status = ranks_work(work);
        if (!status && ranks_first())
                print_element(work->out, work->out_dtype);
        return status ? status : finish_stdout();
}

static int write_file(struct work *work, int32_t ndim, const int64_t *shape)
{
        char header[NPY_HEADER_ROOM];
        size_t header_size = npy_write_header(header, work->out_dtype, ndim, shape);
        int64_t bytes;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): prepare has set it, or has failed; ranks_agree then fails too */
        if (npy_byte_count(ndim, shape, work->out_dtype->size, &bytes) || bytes > INT64_MAX - NPY_HEADER_ROOM)
                return ranks_agree(complain("the result as %s would be more bytes than 64 bits can count", work->out_dtype->name));
        struct output output;
        int status = ranks_create(&output, work->job->output, header_size + (uint64_t)bytes);
        if (!status) {
                memcpy(output.file.start, header, header_size);
                work->out = output.file.start + header_size;
                work->out_is_mapped = 1;
                status = ranks_work(work);
        }
        if (!status)
                return ranks_commit(&output);
        outputs_abandon(&output, 1);
        return status;
}

/* Sets all fields of work, and checks them. */
static int prepare(struct work *work, const struct input *x, const struct input *mask, const struct input *offsets)
{
        const struct job *job = work->job;
        struct grid *g = &work->grid;
        int status = decide_x_dtype(job, x, &work->x_dtype);
        if (status)
                return status;
        work->out_dtype = job->dtype ? job->dtype : default_dtype(job, work->x_dtype);
        work->x = x->data;
        g->ndim = x->header.ndim;
        memcpy(g->shape, x->header.shape, sizeof(g->shape));
        g->x_item = work->x_dtype->size;
        g->out_item = work->out_dtype->size;
        fill_strides(g->ndim, g->shape, g->x_item, x->header.fortran, g->x);
        if (job->mask) {
                work->mask_dtype = dtype_by_letters(mask->header.kind, mask->header.itemsize);
                if (!work->mask_dtype || work->mask_dtype->size != 1)
                        return complain("the mask %s must be bool or uint8, and has elements of another type "
                                        "(numpy: mask.astype(bool))", mask->name);
                work->mask = mask->data;
                status = spread_mask(x, mask, work->mask_dtype, g);
        }
        if (!status && job->offsets)
                status = take_offsets(work, offsets);
        if (!status)
                status = ask_library(work);
        if (status)
                return status;
        mark_busy(job, g);
        return CLI_DONE;
}

static int work_on(struct work *work)
{
        const struct job *job = work->job;
        int32_t ndim;
        int64_t shape[SF_MAX_NDIM];
        shape_output(work, &work->grid, work->grid.out_item, &ndim, shape);
        return job->output ? write_file(work, ndim, shape) : print_value(work, ndim, shape);
}

int run_job(const struct job *job)
{
        struct work work;
        struct input x, mask, offsets;
        memset(&work, 0, sizeof(work));
        memset(&x, 0, sizeof(x));
        memset(&mask, 0, sizeof(mask));
        memset(&offsets, 0, sizeof(offsets));
        work.job = job;
        if (job->quiet || job->mpi)
                progress_silence();

        int status = job->mpi ? ranks_start() : CLI_DONE;
        if (status)
                return status;
        if (job->output)
                status = outputs_check(&job->output, 1);
        if (!status)
                status = make_context(job->threads, &work.ctx);
        if (!status)
                status = input_open(&x, job->input);
        if (!status && job->mask)
                status = input_open(&mask, job->mask);
        if (!status && job->offsets)
                status = input_open(&offsets, job->offsets);
        if (!status)
                status = prepare(&work, &x, &mask, &offsets);
        status = ranks_agree(status);
        if (!status)
                status = work_on(&work);
        ranks_end();
        input_close(&x);
        input_close(&offsets);
        input_close(&mask);
        sf_context_destroy(work.ctx);
        return status;
}
