/* bench_rows.c: the rows of the table, and the library's call for each. */
#include "bench_rows.h"
#include "bench_peers.h"

#include <stdio.h>
#include <string.h>

enum { ALL_AXES = 99 };

#define SQUARE 2, { 8192, 8192 }, { 2048, 2048 }
#define BLOCK 3, { 16, 4096, 4095 }, { 16, 512, 1023 }
const struct row rows[] = {
        { .name = "cumsum axis 1", "f32", SQUARE, 1, .few = 1 },
        { .name = "cumsum axis 1 reverse", "f32", SQUARE, 1, .reverse = 1 },
        { .name = "cumsum axis 1 masked", "f32", SQUARE, 1, .masked = 1, .few = 1 },
        { .name = "cumsum axis 1 exclusive", "f32", SQUARE, 1, .exclusive = 1 },
        { .name = "cumsum axis 0", "f32", SQUARE, 0, .few = 1 },
        { .name = "cumsum axis 0 reverse", "f32", SQUARE, 0, .reverse = 1 },
        { .name = "cumsum axis 0 masked", "f32", SQUARE, 0, .masked = 1 },
        { .name = "cumsum axis 0 exclusive", "f32", SQUARE, 0, .exclusive = 1 },
        { .name = "cumsum axis 1 f64 acc", "f32", SQUARE, 1, .wide = 1 },
        { .name = "cumsum axis 1 odd", "f32", 2, { 8192, 8191 }, { 2048, 2047 }, 1 },
        { .name = "cumsum axis 0 odd", "f32", 2, { 8192, 8191 }, { 2048, 2047 }, 0 },
        { .name = "cumsum one long line", "f32", 1, { 1 << 28 }, { 1 << 24 }, 0, .few = 1 },
        { .name = "cumsum axis 0 narrow", "f32", 2, { 1 << 22, 2 }, { 1 << 20, 2 }, 0 },
        { .name = "cumsum axis 0 narrow", "f32", 2, { 1 << 22, 8 }, { 1 << 20, 8 }, 0 },
        { .name = "cumsum axis 0 narrow", "f32", 2, { 1 << 22, 3 }, { 1 << 20, 3 }, 0, .few = 1 },
        { .name = "cumsum axis 0 narrow", "f32", 2, { 1 << 20, 17 }, { 1 << 18, 17 }, 0 },
        { .name = "cumsum axis 1 short", "f32", 2, { 1 << 22, 4 }, { 1 << 20, 4 }, 1 },
        { .name = "cumsum axis 1 short", "f32", 2, { 1 << 20, 17 }, { 1 << 18, 17 }, 1 },
        { .name = "cumsum axis 1 small", "f32", 2, { 1024, 1024 }, { 1024, 1024 }, 1, .few = 1 },
        { .name = "cumsum axis 0 small", "f32", 2, { 1024, 1024 }, { 1024, 1024 }, 0 },
        { .name = "cumsum axis 1 tiny", "f32", 2, { 64, 64 }, { 64, 64 }, 1 },
        { .name = "cumsum axis 0 tiny", "f32", 2, { 64, 64 }, { 64, 64 }, 0 },
        { .name = "sum axis 0", "f32", BLOCK, 0, .fold = 1 },
        { .name = "sum axis 1", "f32", BLOCK, 1, .fold = 1, .few = 1 },
        { .name = "sum axis 2", "f32", BLOCK, 2, .fold = 1, .few = 1 },
        { .name = "sum all", "f32", BLOCK, ALL_AXES, .fold = 1 },
        { .name = "sum axis 2 f64 acc", "f32", BLOCK, 2, .fold = 1, .wide = 1 },
        { .name = "sum axis 0 narrow", "f32", 2, { 1 << 22, 3 }, { 1 << 20, 3 }, 0, .fold = 1 },
        { .name = "sum axis 1 short", "f32", 2, { 1 << 20, 17 }, { 1 << 18, 17 }, 1, .fold = 1 },
        { .name = "sum(x @ w.T / 2, 1) * 1.5", "f32", 3, { 1024, 8192, 8192 }, { 256, 2048, 2048 }, 1, .fold = 1,
          .expression = "sum(x @ w.T / 2, 1, keepdim=True) * 1.5" },
        { .name = "cumsum axis 1", "f64", SQUARE, 1 },
        { .name = "cumsum axis 1", "i64", SQUARE, 1, .few = 1 },
        { .name = "cumsum axis 1", "i32", SQUARE, 1 },
        { .name = "cumsum axis 1", "f16", SQUARE, 1, .few = 1 },
        { .name = "cumsum axis 1", "bf16", SQUARE, 1 },
        { .name = "cumsum axis 1", "i8", SQUARE, 1 },
        { .name = "cumsum axis 1 to i64", "i8", SQUARE, 1, .out = "i64" },
        { .name = "sum axis 1 to i64", "i8", BLOCK, 1, .fold = 1, .out = "i64" },
        { .name = "sum axis 2 to i64", "i8", BLOCK, 2, .fold = 1, .out = "i64", .few = 1 },
        { .name = "sum axis 2 to i64", "bool", BLOCK, 2, .fold = 1, .out = "i64" },
        { .name = "cumsum of segments", "f32", 1, { 1 << 26 }, { 1 << 22 }, 0, .segment = 500, .few = 1 },
        { .name = "sum of segments", "f32", 1, { 1 << 26 }, { 1 << 22 }, 0, .fold = 1, .segment = 500 },
        { .name = "softmax(x, 1)", "f32", SQUARE, 1, .expression = "softmax(x, 1)", .few = 1 },
        { .name = "layer_norm(x, 1)", "f32", SQUARE, 1, .expression = "layer_norm(x, 1)" },
};
const int row_count = sizeof(rows) / sizeof(rows[0]);
_Static_assert(sizeof(rows) / sizeof(rows[0]) <= MOST_ROWS, "MOST_ROWS is too few");

const int64_t *shape_of(const struct row *row, int quick)
{
        return quick ? row->quick_shape : row->shape;
}

void describe_shape(const struct row *row, int quick, char text[64])
{
        const int64_t *shape = shape_of(row, quick);
        size_t at = 0;
        for (int32_t i = 0; i < row->ndim; i++)
                at += (size_t)snprintf(text + at, 64 - at, "%s%lld", i ? "x" : "", (long long)shape[i]);
}

int64_t count_of(const struct row *row, int quick)
{
        const int64_t *shape = shape_of(row, quick);
        if (row->expression)
                return shape[0] * shape[1] + shape[1] * shape[2];
        int64_t count = 1;
        for (int32_t i = 0; i < row->ndim; i++)
                count *= shape[i];
        return count;
}

int64_t segments_of(const struct row *row, int quick)
{
        return row->segment ? shape_of(row, quick)[0] / row->segment : 0;
}

int64_t results_of(const struct row *row, int quick)
{
        if (!row->fold)
                return count_of(row, quick);
        if (row->expression)
                return shape_of(row, quick)[0];
        if (row->segment)
                return segments_of(row, quick);
        return row->axis == ALL_AXES ? 1 : count_of(row, quick) / shape_of(row, quick)[row->axis];
}

const struct dtype_info *out_of(const struct row *row)
{
        return dtype_by_name(row->out ? row->out : row->dtype);
}

uint64_t bytes_of(const struct row *row, int quick)
{
        int64_t count = count_of(row, quick);
        return (uint64_t)(count * dtype_by_name(row->dtype)->size + results_of(row, quick) * out_of(row)->size + (row->masked ? count : 0) +
                          segments_of(row, quick) * (int64_t)sizeof(int64_t));
}

/* Segments have different lengths, as they do in practice. */
static void fill_offsets(int64_t *offsets, const struct row *row, int quick)
{
        const int64_t count = segments_of(row, quick);
        for (int64_t i = 0; i < count; i++)
                offsets[i] = i * row->segment + i * 7919 % row->segment;
        offsets[count] = shape_of(row, quick)[0];
}

/* For random bits, 8 bytes at a time: which bits to keep, and which to set. */
void fill_for(struct arena *arena, const struct row *row, int quick, int threads)
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
        if (row->segment)
                fill_offsets(arena->offsets, row, quick);
        if (arena->filled && !strcmp(arena->filled, row->dtype))
                return;
        for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++)
                if (!strcmp(fills[i].dtype, row->dtype))
                        fill_bytes(arena->x, arena->size, fills[i].keep, fills[i].set, threads);
        arena->filled = row->dtype;
}

static sf_status call_expression(sf_context *ctx, const struct row *row, int quick, const struct arena *arena, sf_plan **plan)
{
        const int64_t *shape = shape_of(row, quick);
        const int32_t count = shape[2] ? 2 : 1;
        int64_t x_shape[2] = { shape[0], shape[1] }, w_shape[2] = { shape[2], shape[1] }, out_shape[2] = { shape[0], row->fold ? 1 : shape[1] };
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
                        status = sf_plan_create(ctx, graph, count, inputs, NULL, plan);
                sf_graph_destroy(graph);
                if (status != SF_OK)
                        return status;
        }
        return sf_plan_run(*plan, inputs, &y, NULL);
}

sf_status call(sf_context *ctx, const struct row *row, int quick, const struct arena *arena, sf_plan **plan)
{
        if (row->expression)
                return call_expression(ctx, row, quick, arena, plan);
        int64_t shape[3], out_shape[3];
        memcpy(shape, shape_of(row, quick), sizeof(shape));
        sf_tensor x = { .data = arena->x, .device = { SF_CPU, 0 }, .ndim = row->ndim,
                        .dtype = dtype_by_name(row->dtype)->dtype, .shape = shape };
        sf_tensor y = x, mask = x;
        y.data = arena->y;
        y.dtype = out_of(row)->dtype;
        mask.data = arena->mask;
        mask.dtype = SF_BOOL;
        int64_t many = segments_of(row, quick) + 1;
        const sf_tensor offsets = { .data = arena->offsets, .device = { SF_CPU, 0 }, .ndim = 1, .dtype = SF_I64, .shape = &many };
        if (!row->fold) {
                sf_scan_options options = SF_SCAN_OPTIONS_INIT;
                options.axis = row->axis;
                options.reverse = row->reverse;
                options.exclusive = row->exclusive;
                options.mask = row->masked ? &mask : NULL;
                options.offsets = row->segment ? &offsets : NULL;
                if (row->wide)
                        options.accumulator = SF_F64;
                return sf_scan(ctx, &x, &y, &options);
        }
        sf_fold_options options = SF_FOLD_OPTIONS_INIT;
        int32_t axis = row->axis;
        options.naxes = 1;
        options.axes = row->axis == ALL_AXES ? NULL : &axis;
        options.offsets = row->segment ? &offsets : NULL;
        if (row->wide)
                options.accumulator = SF_F64;
        sf_status status = sf_fold_shape(ctx, &x, &options, &y.ndim, out_shape);
        y.shape = out_shape;
        return status == SF_OK ? sf_fold(ctx, &x, &y, &options) : status;
}
