/* Lines cut into segments, for kernels/segments.cu: chooses leaves and windows. */
#include "cuda/emit_draft.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_spread(const sf_step *s)
{
        bool spread = false;
        for (int32_t k = 0; s->fuse && k < s->fuse->operands; k++)
                spread = spread || s->fuse->operand[k].segment;
        return spread;
}

/* Bytes of an element of a line, and of its result, in shared memory. The element is as memory.cuh
 * loads it: a value if it has more than one number, or all that its program reads if some operand
 * has one element for each segment. */
static int64_t cell_size(const sf_step *s, bool spread)
{
        const int64_t number = at_least(size_of((int32_t)s->acc), 4), value = sf_op_is(s->op, SF_INDEX) || sf_op_is(s->op, SF_TWO) ? 2 * number : number;
        int64_t read = s->m ? 4 : 0;
        for (int32_t k = 0; spread && k < s->fuse->operands; k++)
                read += at_least(size_of((int32_t)s->fuse->operand[k].dt), 4);
        const int64_t most = at_least(at_least(value, read), at_least(size_of((int32_t)s->out), 4));
        return most > 8 ? ceil_div(most, value) * value : most > 4 ? 8 : 4;
}

static sf_status find_tile(const sf_context *ctx, const sf_cuda_chip *chip, const sf_step *s, bool down, sf_cuda_spec *spec, sf_cuda_tile *tile)
{
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        spec->kernel = SF_CUDA_SEGMENTS;
        spec->op = (int32_t)s->op;
        spec->acc = s->acc;
        spec->flags = down ? SF_CUDA_DOWN : 0;
        return sf_cuda_tile_for(ctx, chip, spec, 8, (int)at_most(value_size(s), 8), tile);
}

/* How many elements a lane has one after another. Folds of contiguous elements that are read as
 * they are do not keep them all (segments_groups.cuh, SF_FLAT). */
static int64_t leaf_of(const sf_step *s, bool down, const layout *l, const sf_cuda_tile *shape)
{
        const int64_t leaf = at_least(4 * shape->elements / value_size(s), 4);
        const bool flat = s->fold && !down && !s->fuse && !s->m && l->line.x == l->in &&
                          sf_op_is(s->op, SF_COMMUTES);
        return flat ? 2 * leaf : leaf;
}

static void put_offsets(const sf_step *s, sf_params *p)
{
        p->offsets = (uint64_t)(uintptr_t)s->segments.offsets;
        p->segments = s->segments.count;
        p->offset_stride = s->segments.stride;
}

/* Segments that are long enough are cut into tiles, for a block each or, in folds of shorter ones,
 * a warp each (segments_tiles.cuh). */
typedef struct tiles {
        int64_t threads, resident, leaf;
        bool alone; /* a warp has a tile */
        int log;    /* a tile has 2^log elements */
        int64_t slots;
} tiles;

/* Are segments as long as a tile, on average? Or, in folds, an eighth of one? H200, 2^26 f32, share
 * of a copy: sums of uniform lengths around 4096 by blocks 0.87, by warps 0.83; around 1024 by
 * warps 0.84, by windows 0.72; around 512, uniform 0.67 and 0.69, Pareto's 0.62 and 0.55; of 256,
 * equal, 0.43 and 0.75. */
static bool in_tiles(const sf_step *s, bool down, const sf_cuda_tile *shape, tiles *t)
{
        t->threads = shape->threads;
        /* A fold needs no more than 64 registers. H200, 2^26 f32, share of a copy of the bytes:
         * eight blocks of 128 threads and six, segments of 2^14 elements 0.87 and 0.81, of 2^18
         * 0.95 and 0.87. */
        t->resident = s->fold && value_size(s) == 4 ? shape->resident * 4 / 3 : shape->resident;
        t->leaf = at_least(4 * shape->elements / value_size(s), 4);
        t->log = log2_up(t->threads * t->leaf);
        t->alone = s->fold && s->segments.count > s->n >> t->log;
        t->slots = (s->n >> t->log) + s->segments.count + 3;
        return !down && !s->map && !(t->threads & (t->threads - 1)) &&
               s->n >= (int64_t)2 << t->log &&
               s->segments.count <= s->n >> (t->alone ? t->log - 3 : t->log) &&
               s->batch * t->slots <= INT32_MAX / 2;
}

/* The launch before, which makes a table of so many slots, `at` words after the beginning of
 * scratch. */
static void put_table(const sf_step *s, bool windows, int64_t slots, int64_t at, int64_t size,
                      int64_t counters, sf_cuda_launch *l)
{
        sf_cuda_spec *spec = &l->spec;
        sf_params p;
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        memset(&p, 0, sizeof p);
        spec->kernel = SF_CUDA_SEGMENTS_TABLE;
        spec->op = SF_SUM; /* nothing is summed; but so it is the same launch for all */
        spec->in = spec->acc = spec->out = SF_DT_F32;
        spec->threads = 256;
        spec->items = spec->width = 1;
        spec->extra[SF_CUDA_NSEQ] = 1;
        spec->extra[SF_CUDA_RESIDENT] = 8;
        spec->extra[SEGMENTS_TABLE_WIDE] = s->segments.wide;
        spec->extra[SEGMENTS_TABLE_BACKWARDS] = s->reverse;
        spec->extra[SEGMENTS_TABLE_WINDOWS] = windows;
        put_offsets(s, &p);
        p.n = s->n;
        p.number[0] = slots;
        p.number[1] = size;
        p.number[2] = at;
        p.number[3] = counters;
        l->params_size = sf_cuda_params_parts(spec).end;
        memcpy(l->params, &p, l->params_size);
        l->grid[0] = (uint32_t)ceil_div(slots, spec->threads);
        l->grid[1] = l->grid[2] = 1;
        l->shared = 16;
        l->scratch_fields = 1;
        l->overlaps = true;
}

static sf_status plan_tiles(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                            const layout *l, const tiles *t, sf_cuda_plan *plan)
{
        const int64_t all = s->batch * t->slots, words = value_size(s) / 4,
                      cell = cell_size(s, is_spread(s));
        int64_t depth = 1; /* levels of totals of 32 */
        for (int64_t most = 32; most << t->log <= s->n; most *= 32)
                depth++;
        /* A scan folds fewer tiles ahead than there are blocks at once. H200, 2^26 f32, segments of
         * 2^18 elements, share of a copy: a quarter as many 0.71, three quarters 0.74, as many 0.72,
         * twice as many 0.61. */
        const int64_t blocks = t->resident * chip->multiprocessors,
                      ahead = s->fold ? 0 : at_least(3 * blocks / 4, 1);
        const int64_t counters = s->fold ? all : 0,
                      at = SF_TICKETS / 8 + all * depth * words + counters,
                      shares = ceil_div(all, t->alone ? t->threads / 32 : 1) + ahead;
        /* With `counters` words before it that count tiles. */
        put_table(s, false, t->slots, at, t->log, counters, &plan->launch[0]);
        draft d = sf_cuda_draft(&plan->launch[1], SF_CUDA_SEGMENTS, l);
        sf_cuda_spec *spec = &d.launch->spec;
        spec->threads = (int32_t)t->threads;
        spec->items = 1;
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)t->resident;
        spec->extra[SEGMENTS_LEAF] = (int32_t)t->leaf;
        spec->extra[SEGMENTS_STRIP] = 1;
        spec->extra[SEGMENTS_CELL] = (int32_t)cell;
        spec->extra[SEGMENTS_FOLDS] = s->fold;
        spec->extra[SEGMENTS_WIDE] = s->segments.wide;
        spec->extra[SEGMENTS_BACKWARDS] = s->reverse;
        spec->extra[SEGMENTS_TILES] = (int32_t)depth;
        spec->extra[SEGMENTS_ALONE] = t->alone;
        put_offsets(s, &d.p);
        d.p.units = s->batch;
        d.p.number[0] = t->slots;
        d.p.number[1] = at;
        d.p.number[2] = ahead;
        d.p.number[3] = shares;
        plan->launches = 2;
        plan->watched = true;
        plan->scratch = (size_t)(at + t->slots * SF_TABLE_WORDS) * 8;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, shares,
                              sf_tiles_desk(value_size(s)) +
                                      (s->fold ? 0
                                               : t->threads / 32 *
                                                         sf_segments_desk(t->leaf, cell))));
        d.launch->scratch_fields = 1;
        d.launch->overlaps = true;
        return SF_OK;
}

/* Segments of contiguous lines that are loaded as they are: a block has a window
 * (segments_blocks.cuh). */
static bool in_blocks(const sf_step *s, bool down, const layout *l)
{
        const bool x = unit(l->line.x, l->in), y = s->fold || unit(l->line.y, size_of((int32_t)s->out));
        return !down && !s->map && !s->fuse && !s->m && x && y && s->n &&
               s->segments.stride == (s->segments.wide ? 8 : 4) &&
               !(s->reverse && sf_op_is(s->op, SF_INDEX)) && !getenv("SCANFOLD_TRIAL_OLD");
}

static sf_status plan_blocks(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                             const layout *l, sf_cuda_plan *plan)
{
        const char *text = getenv("SCANFOLD_TRIAL");
        int row = s->fold ? 16 : 8, th = 288, res = value_size(s) > 4 ? 3 : 4;
        if (text)
                sscanf(text, "%d,%d,%d", &row, &th, &res);
        const int64_t threads = chip->small_tiles ? 64 : th;
        row = chip->small_tiles ? 4 : row;
        const int64_t chunk = pow2_down(threads - 1) * row, windows = s->n / chunk + 1;
        const int64_t words = windows * (value_size(s) / 4), at = SF_TICKETS / 8 + s->batch * words;
        const int64_t cell = at_least(at_least(size_of((int32_t)s->out), l->in), 4);
        if (s->batch * windows > UINT32_MAX)
                return sf_fail(ctx, SF_UNSUPPORTED, "too many");
        put_table(s, true, windows + 1, at, chunk, 0, &plan->launch[0]);
        draft d = sf_cuda_draft(&plan->launch[1], SF_CUDA_SEGMENTS, l);
        sf_cuda_spec *spec = &d.launch->spec;
        spec->threads = (int32_t)threads;
        spec->items = 1;
        spec->extra[SF_CUDA_RESIDENT] = chip->small_tiles ? 1 : res;
        spec->extra[SEGMENTS_LEAF] = row;
        spec->extra[SEGMENTS_STRIP] = 1;
        spec->extra[SEGMENTS_CELL] = (int32_t)cell;
        spec->extra[SEGMENTS_FOLDS] = s->fold;
        spec->extra[SEGMENTS_WIDE] = s->segments.wide;
        spec->extra[SEGMENTS_BACKWARDS] = s->reverse;
        spec->extra[SEGMENTS_BLOCKS] = getenv("SCANFOLD_TRIAL_FIRST") ? 1 : 2;
        put_offsets(s, &d.p);
        d.p.units = s->batch;
        d.p.number[0] = windows;
        d.p.number[1] = at;
        d.p.number[2] = words;
        d.p.number[3] = s->batch * windows;
        plan->launches = 2;
        plan->watched = true;
        plan->scratch = (size_t)(at + (windows + 1) * SF_TABLE_WORDS) * 8;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, s->batch * windows,
                              sf_block_end(threads, row, value_size(s), cell)));
        d.launch->scratch_fields = 1;
        d.launch->overlaps = true;
        return SF_OK;
}

/* Folds of columns whose segments are not short on average: a block has a tile of 32 of them
 * (segments_down.cuh). */
static bool in_strips(const sf_step *s, bool down, const sf_cuda_tile *shape, tiles *t)
{
        const int64_t columns = down ? s->dims[s->nbatch - 1].len : 1;
        const int64_t strips = ceil_div(columns, 32);
        t->threads = shape->threads;
        t->resident = shape->resident;
        t->leaf = at_least(4 * shape->elements / value_size(s), 4);
        t->alone = false;
        t->log = log2_up(t->threads / 8 * t->leaf);
        t->slots = (s->n >> t->log) + s->segments.count + 3;
        return s->fold && down && columns > 16 && !s->map && !(t->threads & (t->threads - 1)) &&
               s->n >= (int64_t)2 << t->log && s->segments.count <= s->n >> (t->log - 2) &&
               s->batch / columns * strips * t->slots <= INT32_MAX / 2 && !getenv("SCANFOLD_TRIAL_OLD");
}

static sf_status plan_strips(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                             const layout *l, const tiles *t, sf_cuda_plan *plan)
{
        const int64_t columns = s->dims[s->nbatch - 1].len, strips = ceil_div(columns, 32);
        const int64_t units = s->batch / columns * strips, all = units * t->slots;
        int64_t depth = 1;
        for (int64_t most = 32; most << t->log <= s->n; most *= 32)
                depth++;
        const int64_t at = SF_TICKETS / 8 + all * depth * 32 * (value_size(s) / 4) + all;
        put_table(s, false, t->slots, at, t->log, all, &plan->launch[0]);
        draft d = sf_cuda_draft(&plan->launch[1], SF_CUDA_SEGMENTS, l);
        sf_cuda_spec *spec = &d.launch->spec;
        spec->threads = (int32_t)t->threads;
        spec->items = 1;
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)t->resident;
        spec->extra[SEGMENTS_LEAF] = (int32_t)t->leaf;
        spec->extra[SEGMENTS_STRIP] = 32;
        spec->extra[SEGMENTS_CELL] = 4;
        spec->extra[SEGMENTS_FOLDS] = true;
        spec->extra[SEGMENTS_WIDE] = s->segments.wide;
        spec->extra[SEGMENTS_BACKWARDS] = s->reverse;
        spec->extra[SEGMENTS_TILES] = (int32_t)depth;
        put_offsets(s, &d.p);
        d.p.inner = columns;
        d.p.units = units;
        d.p.number[0] = t->slots;
        d.p.number[1] = at;
        d.p.number[2] = strips;
        plan->launches = 2;
        plan->watched = true;
        plan->scratch = (size_t)(at + t->slots * SF_TABLE_WORDS) * 8;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, all, t->threads / 8 * 32 * value_size(s)));
        d.launch->scratch_fields = 1;
        d.launch->overlaps = true;
        return SF_OK;
}

sf_status sf_cuda_plan_segments(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        const bool spread = is_spread(s);
        sf_cuda_tile shape;
        layout l = sf_cuda_layout(s, false, false);
        l.width = 1;
        SF_TRY(find_tile(ctx, chip, s, down, &plan->launch[0].spec, &shape));
        tiles t;
        if (!(getenv("SCANFOLD_TRIAL_FORCE") && in_blocks(s, down, &l)) && in_tiles(s, down, &shape, &t))
                return plan_tiles(ctx, s, chip, &l, &t, plan);
        if (in_strips(s, down, &shape, &t))
                return plan_strips(ctx, s, chip, &l, &t, plan);
        if (in_blocks(s, down, &l))
                return plan_blocks(ctx, s, chip, &l, plan);
        const int64_t columns = down ? s->dims[s->nbatch - 1].len : 1, beside = down ? at_most(pow2_up(columns), 32) : 1, strips = ceil_div(columns, beside);
        const int64_t threads = shape.threads, leaf = leaf_of(s, down, &l, &shape),
                      chunk = down ? leaf : 32 * leaf;
        /* Full stretches of long segments go to whole blocks; then no block has windows of two
         * units. */
        const int64_t warps = threads / 32;
        const bool stretches = down && beside == 32 && !s->map && warps > 1 &&
                               !(warps & (warps - 1)) && s->n / chunk >= 2 * warps;
        const int64_t windows = stretches ? ceil_div(s->n / chunk + 1, warps) * warps
                                          : s->n / chunk + 1,
                      turns = ceil_div(windows, down ? 32 / beside : 1),
                      units = s->batch / columns * strips;
        const int64_t cell = cell_size(s, spread), tickets = ceil_div(turns * units, threads / 32);

        if (windows > UINT32_MAX)
                return sf_fail(ctx, SF_UNSUPPORTED, "an axis of %" PRId64 " elements is cut into segments; on a CUDA device %" PRId64 " are the most", s->n,
                               chunk * (UINT32_MAX - 1));
        draft d = sf_cuda_draft(&plan->launch[0], SF_CUDA_SEGMENTS, &l);
        sf_cuda_spec *spec = &d.launch->spec;
        spec->threads = (int32_t)threads;
        spec->items = 1;
        spec->extra[SF_CUDA_RESIDENT] = shape.resident;
        spec->extra[SEGMENTS_LEAF] = (int32_t)leaf;
        spec->extra[SEGMENTS_STRIP] = (int32_t)beside;
        spec->extra[SEGMENTS_CELL] = (int32_t)cell;
        spec->extra[SEGMENTS_FOLDS] = s->fold;
        spec->extra[SEGMENTS_MAPS] = s->map;
        spec->extra[SEGMENTS_WIDE] = s->segments.wide;
        spec->extra[SEGMENTS_BACKWARDS] = s->reverse;
        spec->extra[SEGMENTS_STRETCHES] = stretches;
        put_offsets(s, &d.p);
        d.p.inner = columns;
        d.p.units = units;
        d.p.number[0] = windows;
        d.p.number[1] = strips;
        d.p.number[2] = (windows + (stretches ? windows / warps : 0)) *
                        beside * (value_size(s) / 4);
        d.p.number[3] = tickets;
        plan->launches = 1;
        plan->watched = true;
        plan->scratch = SF_TICKETS + (size_t)(units * d.p.number[2]) * 8;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, tickets,
                              sf_segments_block(stretches, beside, value_size(s)) +
                                      (down ? 0 : threads / 32 * sf_segments_desk(leaf, cell))));
        d.launch->scratch_fields = 1;
        return SF_OK;
}
