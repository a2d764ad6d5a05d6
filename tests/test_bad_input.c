/* Every refusal: the status, a sentence that names the argument, and an output that was not
 * written. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static long checks;
static sf_context *ctx;

/* The arguments of a valid call, set anew before each bad one. */
static float x_data[4096], out_data[4096];
static uint8_t mask_data[4096];
static int64_t x_shape[SF_MAX_NDIM + 1], out_shape[SF_MAX_NDIM + 1], mask_shape[SF_MAX_NDIM + 1];
static int64_t x_strides[SF_MAX_NDIM + 1], out_strides[SF_MAX_NDIM + 1];
static sf_tensor x, out, mask;
static sf_scan_options scan;
static sf_fold_options fold;
static int32_t axes[8];

static void reset(void)
{
        static const int64_t shape[] = {6, 10}, strides[] = {10, 1};
        memcpy(x_shape, shape, sizeof shape);
        memcpy(out_shape, shape, sizeof shape);
        memcpy(mask_shape, shape, sizeof shape);
        memcpy(x_strides, strides, sizeof strides);
        memcpy(out_strides, strides, sizeof strides);
        memset(out_data, 0x5a, sizeof out_data);
        x = tensor(x_data, SF_F32, 2, x_shape);
        out = tensor(out_data, SF_F32, 2, out_shape);
        mask = tensor(mask_data, SF_BOOL, 2, mask_shape);
        scan = (sf_scan_options)SF_SCAN_OPTIONS_INIT;
        fold = (sf_fold_options)SF_FOLD_OPTIONS_INIT;
        axes[0] = 1;
        fold.axes = axes;
        fold.naxes = 1;
}

/* From here on with explicit strides. */
static void stride_both(void)
{
        x.strides = x_strides;
        out.strides = out_strides;
}

static void untouched(int line)
{
        const char *bytes = (const char *)out_data;
        for (size_t i = 0; i < sizeof out_data; i++)
                if (bytes[i] != 0x5a) {
                        fail_at(__FILE__, line, "a refused call wrote byte %zu of its output", i);
                        return;
                }
}

static void judge(int line, sf_status got, sf_status right, const char *word, const char *second)
{
        const char *sentence = sf_last_error(ctx);
        checks++;
        if (got != right)
                fail_at(__FILE__, line, "%s instead of %s (%s)", sf_status_name(got), sf_status_name(right), sentence);
        else if (!strstr(sentence, word) || !strstr(sentence, second))
                fail_at(__FILE__, line, "the sentence names neither \"%s\" nor \"%s\": %s", word, second, sentence);
        untouched(line);
        reset();
}

#define SCAN_IS(status, word, second) judge(__LINE__, sf_scan(ctx, &x, &out, &scan), status, word, second)
#define FOLD_IS(status, word, second) judge(__LINE__, sf_fold(ctx, &x, &out, &fold), status, word, second)
#define BAD SF_INVALID_ARGUMENT
#define CANNOT SF_UNSUPPORTED

static void works(int line, sf_status status)
{
        checks++;
        if (status != SF_OK)
                fail_at(__FILE__, line, "refused: %s", sf_last_error(ctx));
        reset();
}
#define SCAN_WORKS() works(__LINE__, sf_scan(ctx, &x, &out, &scan))
#define FOLD_WORKS() works(__LINE__, sf_fold(ctx, &x, &out, &fold))

/* ------------------------------------------------------------------------------------------------------------
 * Tensors
 * ---------------------------------------------------------------------------------------------------------- */
static void tensors(void)
{
        judge(__LINE__, sf_scan(ctx, NULL, &out, NULL), BAD, "x is NULL", "");
        judge(__LINE__, sf_scan(ctx, &x, NULL, NULL), BAD, "out is NULL", "");
        judge(__LINE__, sf_fold(ctx, NULL, &out, NULL), BAD, "x is NULL", "");
        judge(__LINE__, sf_fold(ctx, &x, NULL, &fold), BAD, "out is NULL", "");

        x.ndim = -1;
        SCAN_IS(BAD, "x has ndim -1", "64");
        x.ndim = 65;
        SCAN_IS(BAD, "x has ndim 65", "64");
        out.ndim = 65;
        SCAN_IS(BAD, "out has ndim 65", "64");
        mask.ndim = -7;
        scan.mask = &mask;
        SCAN_IS(BAD, "mask has ndim -7", "64");

        x.shape = NULL;
        SCAN_IS(BAD, "x", "shape is NULL");
        out.shape = NULL;
        FOLD_IS(BAD, "out", "shape is NULL");
        x.data = NULL;
        SCAN_IS(BAD, "x has 60 elements", "data is NULL");
        out.data = NULL;
        SCAN_IS(BAD, "out has 60 elements", "data is NULL");
        mask.data = NULL;
        scan.mask = &mask;
        SCAN_IS(BAD, "mask has 60 elements", "data is NULL");

        x_shape[1] = -3;
        SCAN_IS(BAD, "x has length -3", "axis 1");
        out_shape[0] = INT64_MIN;
        SCAN_IS(BAD, "out has length", "axis 0");

        x_shape[0] = x_shape[1] = (int64_t)1 << 32;
        SCAN_IS(BAD, "x has shape (4294967296, 4294967296)", "64 bits");
        x_shape[0] = (int64_t)1 << 62;
        x_shape[1] = 1;
        SCAN_IS(BAD, "x", "64-bit addresses");
        stride_both();
        x_strides[0] = INT64_MAX / 2;
        SCAN_IS(BAD, "x", "along axis 0");
        stride_both();
        x_strides[0] = INT64_MIN;
        SCAN_IS(BAD, "x", "along axis 0");
        stride_both();
        x_strides[0] = -(INT64_MAX / 1024); /* fits in 64 bits, and in no memory */
        SCAN_IS(BAD, "x", "along axis 0");
        stride_both();
        out_strides[0] = INT64_MAX / 4 - 5;
        SCAN_IS(BAD, "out", "64-bit addresses");
        stride_both();
        x_strides[0] = INT64_MAX / 48;
        x_strides[1] = INT64_MAX / 48; /* each fits, their sum does not */
        SCAN_IS(BAD, "x", "64-bit addresses");

        const sf_dtype complex64 = {5, 64, 1}, two_lanes = {2, 32, 2}, no_lanes = {2, 32, 0}, int4 = {0, 4, 1},
                float8 = {7, 8, 1};
        const sf_dtype strange[] = {complex64, two_lanes, no_lanes, int4, float8, {3, 64, 1}, {1, 1, 1}, {0, 128, 1}};
        for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
                x.dtype = strange[i];
                SCAN_IS(CANNOT, "x has a dtype", "f16");
                out.dtype = strange[i];
                FOLD_IS(CANNOT, "out has a dtype", "f16");
                mask.dtype = strange[i];
                scan.mask = &mask;
                SCAN_IS(CANNOT, "mask has a dtype", "f16");
        }
        x.dtype = complex64;
        SCAN_IS(CANNOT, "code 5", "64 bits");
}

static void strides_at_the_end_of_the_world(void)
{
        /* Each fits in 64 bits by itself; together, negated, or added to an address, they would not. */
        static uint8_t byte;
        int64_t two[2] = {2, 2}, far[2];
        sf_tensor tiny = tensor(&byte, SF_U8, 1, two), wild = tensor(out_data, SF_U8, 1, two);
        wild.strides = far;
        const int64_t wilds[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX - 4096, -((int64_t)1 << 62),
                                 (int64_t)1 << 62};
        for (size_t i = 0; i < sizeof wilds / sizeof *wilds; i++) {
                /* Nobody owns memory of that size, so all there is to ask is that the call which also has a wrong mask
                 * is refused, whatever the stride: no overflow, no crash, no write. */
                far[0] = wilds[i];
                int64_t three = 3;
                sf_tensor wrong = tensor(mask_data, SF_U8, 1, &three);
                scan.mask = &wrong;
                judge(__LINE__, sf_scan(ctx, &tiny, &wild, &scan), BAD, "", "");
                scan.mask = &wrong;
                judge(__LINE__, sf_scan(ctx, &wild, &tiny, &scan), BAD, "", "");
        }
        sf_tensor square = tensor(x_data, SF_U8, 2, two);
        wild = tensor(out_data, SF_U8, 2, two);
        wild.strides = far;
        far[0] = (int64_t)1 << 62;
        far[1] = -far[0];
        judge(__LINE__, sf_scan(ctx, &square, &wild, NULL), BAD, "out", "further");
}

/* ------------------------------------------------------------------------------------------------------------
 * Shapes, axes, dtypes, options
 * ---------------------------------------------------------------------------------------------------------- */
static void shapes_and_axes(void)
{
        out_shape[1] = 9;
        SCAN_IS(BAD, "out has shape (6, 9)", "(6, 10)");
        out.ndim = 1;
        SCAN_IS(BAD, "out has shape (6,)", "(6, 10)");
        FOLD_IS(BAD, "out has shape (6, 10)", "(6,)");
        fold.keepdim = 1;
        out.ndim = 1;
        FOLD_IS(BAD, "out has shape (6,)", "(6, 1)");
        fold.axes = NULL;
        out.ndim = 1;
        FOLD_IS(BAD, "out has shape (6,)", "()");

        const int32_t wrong[] = {2, -3, 64, INT32_MAX, INT32_MIN};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                scan.axis = wrong[i];
                SCAN_IS(BAD, "axis is", "-2 to 1");
                axes[0] = wrong[i];
                FOLD_IS(BAD, "axis is", "-2 to 1");
        }
        x.ndim = out.ndim = 0;
        scan.axis = 1;
        SCAN_IS(BAD, "axis is 1", "-1 to 0");
        axes[0] = axes[1] = 1;
        fold.naxes = 2;
        FOLD_IS(BAD, "axes[1]", "second time");
        axes[0] = -1;
        axes[1] = 1;
        fold.naxes = 2;
        FOLD_IS(BAD, "axes[1] is 1", "second time");
        fold.naxes = -1;
        FOLD_IS(BAD, "naxes is -1", "");

        x_shape[1] = 0;
        out.ndim = 1;
        fold.op = SF_MAX;
        FOLD_IS(BAD, "max of no elements", "initial");
        x_shape[1] = 0;
        out.ndim = 1;
        fold.op = SF_MIN;
        FOLD_IS(BAD, "min of no elements", "initial");
        x_shape[0] = x_shape[1] = out_shape[0] = 0; /* no results, each of no elements */
        out.ndim = 1;
        fold.op = SF_MAX;
        FOLD_IS(BAD, "max of no elements", "initial");
        x_shape[1] = 0;
        out.ndim = 1;
        fold.op = SF_MIN;
        fold.initial = sf_real(3);
        FOLD_WORKS();
        x_shape[0] = 0; /* no results either: nothing to refuse */
        out_shape[0] = 0;
        out.ndim = 1;
        fold.op = SF_MAX;
        FOLD_WORKS();

        int32_t ndim;
        int64_t shape[SF_MAX_NDIM];
        judge(__LINE__, sf_fold_shape(ctx, NULL, &fold, &ndim, shape), BAD, "x is NULL", "");
        judge(__LINE__, sf_fold_shape(ctx, &x, &fold, NULL, shape), BAD, "ndim is NULL", "");
        judge(__LINE__, sf_fold_shape(ctx, &x, &fold, &ndim, NULL), BAD, "shape is NULL", "");
        x.ndim = 65;
        judge(__LINE__, sf_fold_shape(ctx, &x, &fold, &ndim, shape), BAD, "x has ndim 65", "64");
        x.shape = NULL;
        judge(__LINE__, sf_fold_shape(ctx, &x, &fold, &ndim, shape), BAD, "x's shape is NULL", "");
        axes[0] = 7;
        judge(__LINE__, sf_fold_shape(ctx, &x, &fold, &ndim, shape), BAD, "axis is 7", "");
        fold.size = 0;
        judge(__LINE__, sf_fold_shape(ctx, &x, &fold, &ndim, shape), BAD, "options->size is 0", "");
}

/* Exactly the pairs of scanfold.h's table are accepted, with exactly its accumulators. */
static void dtype_pairs(void)
{
        for (int op = 0; op < op_count(); op++)
                for (int in = 0; in < DT_COUNT; in++)
                        for (int to = 0; to < DT_COUNT; to++)
                                for (int acc = DT_NONE; acc < DT_COUNT; acc++) {
                                        if (op == SF_RECURRENCE) /* test_recurrence has its refusals */
                                                continue;
                                        x.dtype = dts[in].dtype;
                                        out.dtype = dts[to].dtype;
                                        x_shape[0] = out_shape[0] = 2;
                                        scan.op = (sf_op)op;
                                        if (acc != DT_NONE)
                                                scan.accumulator = dts[acc].dtype;
                                        sf_status right = accumulator_allowed((sf_op)op, in, to, acc) ? SF_OK : CANNOT;
                                        sf_status got = sf_scan(ctx, &x, &out, &scan);
                                        checks++;
                                        CHECK(got == right, "%s %s -> %s in %s: %s", sf_op_name((sf_op)op),
                                              dts[in].name, dts[to].name,
                                              acc == DT_NONE ? "its own" : dts[acc].name, sf_status_name(got));
                                        if (got != SF_OK)
                                                CHECK(strstr(sf_last_error(ctx), dts[in].name) &&
                                                      strstr(sf_last_error(ctx), dts[to].name),
                                                      "the sentence names neither dtype: %s", sf_last_error(ctx));
                                        if (got != SF_OK && acc == DT_NONE)
                                                CHECK(strstr(sf_last_error(ctx),
                                                             "its result can be "),
                                                      "the sentence says not what is right: %s",
                                                      sf_last_error(ctx));
                                        if (got != SF_OK)
                                                untouched(__LINE__);
                                        reset();
                                }
        scan.accumulator = (sf_dtype){5, 64, 1};
        SCAN_IS(CANNOT, "accumulator", "code 5");
        x.dtype = SF_F64;
        out.dtype = SF_F64;
        scan.accumulator = SF_F32;
        SCAN_IS(CANNOT, "accumulator f32 does not fit sum of f64 into f64", "left unset or f64");
        scan.accumulator = SF_I32;
        SCAN_IS(CANNOT, "accumulator i32 does not fit sum of f32 into f32",
                "left unset, f32 or f64");
        x.dtype = out.dtype = SF_BOOL;
        scan.accumulator = SF_I32;
        SCAN_IS(CANNOT, "accumulator i32 does not fit sum of bool into bool", "must be left unset");
        char words[32];
        snprintf(words, sizeof words, "op is %d", op_count());
        scan.op = (sf_op)op_count();
        SCAN_IS(BAD, words, "SF_MIN");
        fold.op = (sf_op)-1;
        out.ndim = 1;
        FOLD_IS(BAD, "op is -1", "SF_SUM");
}

static void initials(void)
{
        static const struct {
                int dt;
                sf_scalar initial;
                bool fits;
        } rows[] = {
                {DT_I8, {1, {.i = 127}}, true},   {DT_I8, {1, {.i = 128}}, false},  {DT_I8, {1, {.i = -128}}, true},
                {DT_I8, {1, {.i = -129}}, false}, {DT_I8, {2, {.u = 127}}, true},   {DT_I8, {2, {.u = 255}}, false},
                {DT_U8, {1, {.i = 255}}, true},   {DT_U8, {1, {.i = 256}}, false},  {DT_U8, {1, {.i = -1}}, false},
                {DT_I64, {2, {.u = UINT64_MAX}}, false}, {DT_I64, {2, {.u = INT64_MAX}}, true},
                {DT_I64, {1, {.i = INT64_MIN}}, true},   {DT_U64, {2, {.u = UINT64_MAX}}, true},
                {DT_U64, {1, {.i = -1}}, false},         {DT_I32, {3, {.f = 7}}, true},
                {DT_I32, {3, {.f = 7.5}}, false},        {DT_I32, {3, {.f = -0x1p31}}, true},
                {DT_I32, {3, {.f = 0x1p31}}, false},     {DT_U32, {3, {.f = -1}}, false},
                {DT_U64, {3, {.f = 0x1p64}}, false},     {DT_U64, {3, {.f = 0x1p63}}, true},
                {DT_I64, {3, {.f = 0x1p63}}, false},     {DT_I64, {3, {.f = -0x1p63}}, true},
                {DT_I64, {3, {.f = 1e300}}, false},      {DT_I64, {3, {.f = -1e300}}, false},
                {DT_I32, {3, {.f = __builtin_inf()}}, false}, {DT_I32, {3, {.f = __builtin_nan("")}}, false},
                {DT_BOOL, {1, {.i = 1}}, true},          {DT_BOOL, {1, {.i = 2}}, false},
                {DT_BOOL, {1, {.i = -1}}, false},        {DT_F32, {1, {.i = INT64_MIN}}, true},
                {DT_F32, {2, {.u = UINT64_MAX}}, true},  {DT_F32, {3, {.f = 1e300}}, true},
                {DT_F16, {3, {.f = __builtin_nan("")}}, true},
        };
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                x.dtype = out.dtype = dts[rows[i].dt].dtype;
                x_shape[0] = out_shape[0] = 2;
                scan.initial = rows[i].initial;
                if (rows[i].fits)
                        SCAN_WORKS();
                else
                        SCAN_IS(BAD, "initial is", dts[rows[i].dt].name);
        }
        scan.initial.kind = 4;
        SCAN_IS(BAD, "initial has kind 4", "sf_int");
        scan.initial.kind = -1;
        SCAN_IS(BAD, "initial has kind -1", "sf_real");
}

/* A struct from another version of the header: shorter is fine, longer too while its end says nothing. */
static void option_sizes(void)
{
        struct {
                sf_scan_options o;
                char later[32];
        } longer;
        scan.size = 0;
        SCAN_IS(BAD, "options->size is 0", "sizeof(sf_scan_options)");
        scan.size = 7;
        SCAN_IS(BAD, "options->size is 7", "sizeof(sf_scan_options)");
        fold.size = 0;
        FOLD_IS(BAD, "options->size is 0", "sizeof(sf_fold_options)");

        scan.reserved1 = 1;
        SCAN_IS(CANNOT, "reserved field of sf_scan_options", "must be 0");
        fold.reserved0 = -1;
        FOLD_IS(CANNOT, "reserved field of sf_fold_options", "must be 0");

        memset(&longer, 0, sizeof longer);
        longer.o = scan;
        longer.o.size = sizeof longer;
        works(__LINE__, sf_scan(ctx, &x, &out, &longer.o));
        longer.later[9] = 1;
        judge(__LINE__, sf_scan(ctx, &x, &out, &longer.o), CANNOT, "options->size", "newer header");

        /* An older caller's struct ended after `axis`: what follows it in memory must not be read. */
        scan.size = offsetof(sf_scan_options, axis) + sizeof scan.axis;
        scan.axis = 0;
        scan.op = SF_MAX;
        scan.reverse = 1;
        scan.mask = (const sf_tensor *)8;
        x_data[0] = 5;
        x_data[10] = 3;
        checks++;
        CHECK(sf_scan(ctx, &x, &out, &scan) == SF_OK && out_data[0] == 5 && out_data[10] == 5,
              "a shorter struct was not read as such");
        x_data[0] = x_data[10] = 0;
        reset();
}

/* Counts that lead past the end of memory: what they count lies against a page that cannot be read.
 */
static void counts_past_the_end(void)
{
        static const size_t sizes[] = {4097, (size_t)1 << 20, SIZE_MAX};
        region r = {NULL, 0};
        sf_context *other = NULL;
        sf_graph *graph = NULL;
        sf_plan *plan = NULL;
        int32_t ndim;
        int64_t shape[SF_MAX_NDIM];
        CHECK(sf_graph_create(ctx, &graph) == SF_OK, "no graph");
        const int32_t node = sf_expr_input(graph, "x");
        sf_expr_output(graph, node);
        CHECK(sf_plan_create(ctx, graph, 1, &x, NULL, &plan) == SF_OK, "no plan");
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                size_t *const size = (size_t *)region_place(&r, sizeof *size, GUARD_AFTER, 0);
                const void *const given = size;
                *size = sizes[i];
                checks++;
                judge(__LINE__, sf_scan(ctx, &x, &out, given), BAD, "options->size",
                      "sizeof(sf_scan_options)");
                judge(__LINE__, sf_fold(ctx, &x, &out, given), BAD, "options->size",
                      "sizeof(sf_fold_options)");
                judge(__LINE__, sf_fold_shape(ctx, &x, given, &ndim, shape), BAD, "options->size",
                      "sizeof(sf_fold_options)");
                judge(__LINE__, sf_plan_run(plan, &x, &out, given), BAD, "options->size",
                      "sizeof(sf_run_options)");
                judge(__LINE__, sf_expr_fold(graph, node, given) < 0 ? BAD : SF_OK, BAD,
                      "options->size", "sizeof(sf_expr_options)");
                judge(__LINE__, sf_plan_create(ctx, graph, 1, &x, given, &plan), BAD,
                      "options->size", "sizeof(sf_plan_options)");
                CHECK(sf_context_create(&other, given) == BAD &&
                              strstr(sf_last_error(NULL), "options->size"),
                      "a context of any size");
        }
        /* As many axes as x has are there; more are not asked for. */
        static const int32_t many[] = {3, 64, 65, INT32_MAX};
        for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
                int32_t *const two = (int32_t *)region_place(&r, 2 * sizeof *two, GUARD_AFTER, 0);
                two[0] = 0;
                two[1] = 1;
                fold.axes = two;
                fold.naxes = many[i];
                judge(__LINE__, sf_fold_shape(ctx, &x, &fold, &ndim, shape), BAD, "naxes is",
                      "0 to 2");
                fold.axes = two;
                fold.naxes = many[i];
                FOLD_IS(BAD, "naxes is", "0 to 2");
                if (many[i] <= SF_MAX_NDIM)
                        continue; /* a graph knows no shapes: up to this many axes it believes the caller */
                sf_expr_options o = SF_EXPR_OPTIONS_INIT;
                o.axes = two;
                o.naxes = many[i];
                judge(__LINE__, sf_expr_fold(graph, node, &o) < 0 ? BAD : SF_OK, BAD, "naxes is",
                      "64");
                judge(__LINE__, sf_expr_flip(graph, node, many[i], two) < 0 ? BAD : SF_OK, BAD,
                      "naxes is", "64");
                judge(__LINE__, sf_expr_permute(graph, node, many[i], two) < 0 ? BAD : SF_OK, BAD,
                      "naxes is", "64");
                judge(__LINE__, sf_expr_concat(graph, 0, many[i], two) < 0 ? BAD : SF_OK, BAD,
                      "count is", "64");
                judge(__LINE__,
                      sf_expr_broadcast(graph, node, many[i], (const int64_t *)two) < 0 ? BAD
                                                                                        : SF_OK,
                      BAD, "ndim is", "64");
        }
        sf_plan_destroy(plan);
        sf_graph_destroy(graph);
        region_free(&r);
        reset();
}

/* ------------------------------------------------------------------------------------------------------------
 * Memory: overlap, devices, masks
 * ---------------------------------------------------------------------------------------------------------- */
static void overlaps(void)
{
        x.data = out_data; /* in place is allowed, also if the same view is given by strides or an offset */
        SCAN_WORKS();
        x.data = out_data;
        x.strides = x_strides;
        SCAN_WORKS();
        x.data = out_data;
        out.data = (char *)((uintptr_t)out_data - 16);
        out.byte_offset = 16;
        SCAN_WORKS();
        x.data = out_data;
        x.dtype = SF_I32;
        SCAN_WORKS();

        x.data = out_data + 1;
        SCAN_IS(BAD, "out overlaps x", "x itself");
        x.data = (char *)out_data + 2;
        SCAN_IS(BAD, "out overlaps x", "");
        x.data = out_data;
        x.dtype = SF_F64;
        SCAN_IS(BAD, "out overlaps x", "");
        x.data = out_data;
        x.dtype = SF_F16;
        SCAN_IS(BAD, "out overlaps x", "");
        x.data = out_data + 59;
        stride_both();
        x_strides[0] = -10;
        x_strides[1] = -1;
        SCAN_IS(BAD, "out overlaps x", "");
        x.data = out_data;
        out.ndim = 1;
        FOLD_IS(BAD, "out overlaps x", "own");
        x.data = out_data - 0;
        x.shape = (int64_t[]){6, 1};
        out.ndim = 1;
        FOLD_IS(BAD, "out overlaps x", "own");

        /* Interleaved: neighbouring elements, but no element is shared. */
        stride_both();
        x.data = out_data + 1;
        x_strides[0] = out_strides[0] = 20;
        x_strides[1] = out_strides[1] = 2;
        SCAN_WORKS();
        stride_both(); /* columns 0 to 9 and 10 to 19 of one matrix */
        x.data = out_data + 10;
        x_strides[0] = out_strides[0] = 20;
        SCAN_WORKS();
        stride_both();
        x.data = out_data + 9;
        x_strides[0] = out_strides[0] = 20;
        SCAN_IS(BAD, "out overlaps x", "");
        x.data = out_data + 60; /* touching ends */
        SCAN_WORKS();
        x.data = out_data + 59;
        SCAN_IS(BAD, "out overlaps x", "");

        /* An output whose elements overlap. */
        stride_both();
        out_strides[0] = 0;
        SCAN_IS(BAD, "out has strides", "share memory");
        stride_both();
        out_strides[0] = 9;
        SCAN_IS(BAD, "out has strides", "share memory");
        stride_both();
        out_strides[0] = -1;
        out.data = out_data + 100;
        SCAN_IS(BAD, "out has strides", "share memory");
        stride_both();
        out_strides[0] = 3; /* 3i + 7j meets itself at (0, 3) and (7, 0), beyond these 6 x 10 elements */
        out_strides[1] = 7;
        SCAN_WORKS();
        stride_both();
        out_strides[0] = 14; /* 14 x 1 is 7 x 2 */
        out_strides[1] = 7;
        SCAN_IS(BAD, "out has strides", "share memory");
        stride_both();
        x_strides[0] = x_strides[1] = 0; /* an input may */
        SCAN_WORKS();
        stride_both();
        out_shape[0] = x_shape[0] = 1; /* the stride of an axis of length 1 is not used */
        out_strides[0] = 0;
        SCAN_WORKS();

        scan.mask = &mask;
        mask.data = out_data;
        SCAN_IS(BAD, "out overlaps mask", "");
        scan.mask = &mask;
        mask.data = (char *)out_data + 239;
        SCAN_IS(BAD, "out overlaps mask", "");
        scan.mask = &mask;
        mask.data = (char *)out_data + 240;
        SCAN_WORKS();
        scan.mask = &mask; /* the mask and x may overlap in any way */
        mask.data = x_data;
        SCAN_WORKS();

        /* Elements of one byte, rows one byte too near: the last of a row is the first of the next. */
        int8_t narrow[6] = {0}, results[6] = {0};
        int64_t shape[] = {2, 3}, near[] = {2, 1};
        const sf_tensor from = tensor(narrow, SF_I8, 2, shape);
        sf_tensor to = tensor(results, SF_I8, 2, shape);
        to.strides = near;
        CHECK(sf_scan(NULL, &from, &to, NULL) == SF_INVALID_ARGUMENT && strstr(sf_last_error(NULL), "share memory"), "%s", sf_last_error(NULL));
}

static void masks(void)
{
        const int wrong[] = {DT_I8, DT_F32, DT_U16, DT_I64};
        for (int i = 0; i < 4; i++) {
                mask.dtype = dts[wrong[i]].dtype;
                scan.mask = &mask;
                SCAN_IS(CANNOT, "mask is", "bool or u8");
                mask.dtype = dts[wrong[i]].dtype;
                fold.mask = &mask;
                out.ndim = 1;
                FOLD_IS(CANNOT, "mask is", "bool or u8");
        }
        scan.mask = &mask;
        mask_shape[1] = 9;
        SCAN_IS(BAD, "mask has shape (6, 9)", "(6, 10)");
        scan.mask = &mask;
        mask.ndim = 1;
        SCAN_IS(BAD, "mask has shape (6,)", "(6, 10)");
        scan.mask = &mask;
        mask.ndim = 3;
        mask_shape[2] = 1;
        SCAN_IS(BAD, "mask has shape", "(6, 10)");
        scan.mask = &mask;
        mask_shape[0] = 0;
        SCAN_IS(BAD, "mask has shape (0, 10)", "(6, 10)");
        scan.mask = &mask;
        mask_shape[0] = 1;
        SCAN_WORKS();
        scan.mask = &mask;
        mask.device = (sf_device){SF_CUDA, 0};
        SCAN_IS(BAD, "mask is on device", "same");
}

static void devices(void)
{
        x.device = out.device = (sf_device){SF_CUDA, 99}; /* no machine has a hundredth GPU */
        SCAN_IS(SF_NO_DEVICE, "CUDA", "");
        x.device = out.device = (sf_device){SF_CUDA, 99};
        out.ndim = 1;
        FOLD_IS(SF_NO_DEVICE, "CUDA", "");
        x.device = out.device = (sf_device){7, 0}; /* Vulkan */
        SCAN_IS(SF_NO_DEVICE, "x is on device type 7", "");
        out.device = (sf_device){SF_CUDA, 0};
        SCAN_IS(BAD, "out is on device (2, 0)", "x is on (1, 0)");
        x.device = out.device = (sf_device){SF_CUDA_HOST, 0};
        SCAN_WORKS();
        /* Pinned memory is CPU memory, on either side and in the mask. */
        x.device = (sf_device){SF_CUDA_HOST, 1};
        SCAN_WORKS();
        out.device = (sf_device){SF_CUDA_HOST, 0};
        SCAN_WORKS();
        mask.device = (sf_device){SF_CUDA_HOST, 0};
        scan.mask = &mask;
        SCAN_WORKS();
        for (int i = 0; i < 2; i++) {
                sf_graph *graph = NULL;
                sf_plan *plan = NULL;
                sf_device pinned = {SF_CUDA_HOST, 0};
                x.device = i ? pinned : x.device;
                CHECK(sf_graph_parse(ctx, "cumsum(x, 1, mask=m)", &graph) == SF_OK, "%s",
                      sf_last_error(ctx));
                sf_tensor inputs[2] = {x, mask};
                works(__LINE__, sf_plan_create(ctx, graph, 2, inputs, NULL, &plan));
                inputs[0].device = i ? (sf_device){SF_CPU, 0} : pinned;
                out.device = i ? pinned : (sf_device){SF_CPU, 0};
                works(__LINE__, sf_plan_run(plan, inputs, &out, NULL));
                sf_plan_destroy(plan);
                sf_graph_destroy(graph);
                reset();
        }
}

/* A long shape must not overflow the buffer of the sentence. */
static void long_sentences(void)
{
        for (int d = 0; d < SF_MAX_NDIM; d++) {
                x_shape[d] = 1;
                out_shape[d] = INT64_MAX;
        }
        for (int d = 1; d < SF_MAX_NDIM; d++)
                out_shape[d] = 1;
        x.ndim = out.ndim = SF_MAX_NDIM;
        out.dtype = SF_U8;
        x.dtype = SF_U8;
        SCAN_IS(BAD, "out", "...");
        for (int d = 0; d < SF_MAX_NDIM; d++)
                x_shape[d] = INT64_MAX;
        x.ndim = SF_MAX_NDIM;
        SCAN_IS(BAD, "x has shape", "...");
}

int main(void)
{
        const char *names[] = {"SCANFOLD_NUM_THREADS", "OMP_NUM_THREADS", "SCANFOLD_BACKEND", "SCANFOLD_ISA"};
        for (int i = 0; i < 4; i++)
                unsetenv(names[i]);
        if (sf_context_create(&ctx, NULL) != SF_OK) {
                FAIL("no context: %s", sf_last_error(NULL));
                return finish("test_bad_input", checks);
        }
        reset();
        tensors();
        strides_at_the_end_of_the_world();
        shapes_and_axes();
        dtype_pairs();
        initials();
        option_sizes();
        counts_past_the_end();
        overlaps();
        masks();
        devices();
        long_sentences();
        sf_context_destroy(ctx);
        return finish("test_bad_input", checks);
}
