/* Lines cut into segments, for kernels/segments.cu: chooses leaves and windows. */
#include "cuda/emit_draft.h"

#include <inttypes.h>
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

/* blocks: for segments_blocks.cuh. */
static sf_status find_tile(const sf_context *ctx, const sf_cuda_chip *chip, const sf_step *s,
                           bool down, bool blocks, sf_cuda_spec *spec, sf_cuda_tile *tile)
{
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        spec->kernel = SF_CUDA_SEGMENTS;
        spec->op = (int32_t)s->op;
        spec->acc = s->acc;
        spec->flags = down ? SF_CUDA_DOWN : 0;
        spec->extra[SEGMENTS_BLOCKS] = blocks;
        return sf_cuda_tile_for(ctx, chip, spec, 8, (int)at_most(value_size(s), 8), tile);
}

/* Elements of as many words as the tile says; there are at least four. */
static int64_t elements_of(const sf_step *s, const sf_cuda_tile *tile)
{
        return at_least(4 * tile->elements / value_size(s), 4);
}

/* How many elements a lane has one after another. Folds of contiguous elements that are read as
 * they are do not keep them all (segments_groups.cuh, SF_FLAT). */
static int64_t leaf_of(const sf_step *s, bool down, const layout *l, const sf_cuda_tile *shape)
{
        const int64_t leaf = elements_of(s, shape);
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

/* How many warps without a window store results of empty segments, for so many lines or strips of
 * columns. */
static int64_t apart_of(const sf_step *s, bool down, int64_t units)
{
        return s->fold ? units * sf_empty_shares(s->segments.count, down) : 0;
}

/* A launch of segments.cu, but for what each kind has of its own. */
static draft draft_segments(const sf_step *s, const layout *l, const sf_cuda_tile *tile,
                            int64_t beside, int64_t cell, sf_cuda_launch *launch)
{
        draft d = sf_cuda_draft(launch, SF_CUDA_SEGMENTS, l);
        sf_cuda_spec *spec = &launch->spec;
        spec->threads = tile->threads;
        spec->items = 1;
        spec->extra[SF_CUDA_RESIDENT] = tile->resident;
        spec->extra[SEGMENTS_LEAF] = tile->elements;
        spec->extra[SEGMENTS_STRIP] = (int32_t)beside;
        spec->extra[SEGMENTS_CELL] = (int32_t)cell;
        spec->extra[SEGMENTS_FOLDS] = s->fold;
        spec->extra[SEGMENTS_WIDE] = s->segments.wide;
        spec->extra[SEGMENTS_BACKWARDS] = s->reverse;
        put_offsets(s, &d.p);
        return d;
}

/* The launch before, which makes a table of so many slots, `at` words after the beginning of
 * scratch: where windows of `size` elements begin, or what tiles of 2^size there are. `counters`
 * words before the table count tiles. */
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
        spec->extra[SF_CUDA_RESIDENT] = windows ? 4 : 8; /* registers: more for windows */
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

/* The launch after it, of so many blocks. The table is at the end of scratch. */
static sf_status finish_after_table(const sf_context *ctx, const sf_cuda_chip *chip, draft *d,
                                    int64_t blocks, int64_t shared, int64_t slots,
                                    sf_cuda_plan *plan)
{
        plan->launches = 2;
        plan->watched = true;
        plan->scratch = (size_t)(d->p.number[1] + slots * SF_TABLE_WORDS) * 8;
        SF_TRY(sf_cuda_finish(ctx, chip, d, blocks, shared));
        d->launch->scratch_fields = 1;
        d->launch->overlaps = true;
        return SF_OK;
}

/* Segments that are long enough are cut into tiles. */
typedef struct tiles {
        sf_cuda_tile shape; /* elements: of a leaf */
        bool alone;         /* a warp has a tile */
        int log;            /* a tile has 2^log elements */
        int64_t slots;
} tiles;

static bool are_tiles(const sf_step *s, tiles *t, int64_t units)
{
        t->slots = (s->n >> t->log) + s->segments.count + 3;
        return !s->map && !(t->shape.threads & (t->shape.threads - 1)) &&
               s->n >= (int64_t)2 << t->log && units * t->slots <= INT32_MAX / 2;
}

/* Levels of totals of 32 tiles. */
static int64_t levels_of(const sf_step *s, const tiles *t)
{
        int64_t levels = 1;
        for (int64_t most = 32; most << t->log <= s->n; most *= 32)
                levels++;
        return levels;
}

/* For a block each or, in folds of shorter ones, a warp each (segments_tiles.cuh). Are segments of
 * lines as long as a tile, on average? Or, in folds, an eighth of one? H200, 2^26 f32, share of a
 * copy: sums of uniform lengths around 4096 by blocks 0.87, by warps 0.83; around 1024 by warps
 * 0.84, by windows 0.72; around 512, uniform 0.67 and 0.69, Pareto's 0.62 and 0.55; of 256, equal,
 * 0.43 and 0.75. */
static bool in_tiles(const sf_step *s, bool down, const sf_cuda_tile *shape, tiles *t)
{
        t->shape = *shape;
        /* A fold needs no more than 64 registers. H200, 2^26 f32, share of a copy of the bytes:
         * eight blocks of 128 threads and six, segments of 2^14 elements 0.87 and 0.81, of 2^18
         * 0.95 and 0.87. */
        if (s->fold && value_size(s) == 4)
                t->shape.resident = shape->resident * 4 / 3;
        t->shape.elements = (int32_t)elements_of(s, shape);
        t->log = log2_up((int64_t)t->shape.threads * t->shape.elements);
        t->alone = s->fold && s->segments.count > s->n >> t->log;
        return !down && are_tiles(s, t, s->batch) &&
               s->segments.count <= s->n >> (t->alone ? t->log - 3 : t->log);
}

static sf_status plan_tiles(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                            const layout *l, const tiles *t, sf_cuda_plan *plan)
{
        const int64_t all = s->batch * t->slots, cell = cell_size(s, is_spread(s)),
                      warps = t->shape.threads / 32;
        /* A scan folds fewer tiles ahead than there are blocks at once. H200, 2^26 f32, segments of
         * 2^18 elements, share of a copy: a quarter as many 0.71, three quarters 0.74, as many
         * 0.72, twice as many 0.61. */
        const int64_t blocks = (int64_t)t->shape.resident * chip->multiprocessors,
                      ahead = s->fold ? 0 : at_least(3 * blocks / 4, 1);
        const int64_t counters = s->fold ? all : 0, levels = levels_of(s, t),
                      at = SF_TICKETS / 8 + all * levels * (value_size(s) / 4) + counters,
                      shares = ceil_div(all, t->alone ? warps : 1) + ahead;
        put_table(s, false, t->slots, at, t->log, counters, &plan->launch[0]);
        draft d = draft_segments(s, l, &t->shape, 1, cell, &plan->launch[1]);
        d.launch->spec.extra[SEGMENTS_TILES] = (int32_t)levels;
        d.launch->spec.extra[SEGMENTS_ALONE] = t->alone;
        d.p.units = s->batch;
        d.p.number[0] = t->slots;
        d.p.number[1] = at;
        d.p.number[2] = ahead;
        d.p.number[3] = shares;
        const int64_t desks = s->fold ? 0 : warps * sf_segments_desk(t->shape.elements, cell);
        return finish_after_table(ctx, chip, &d, shares, sf_tiles_desk(value_size(s)) + desks,
                                  t->slots, plan);
}

/* Folds of columns: a block has a tile of a strip (segments_down.cuh). Are segments at least half
 * as long as a tile, on average? H200, (2^20, 64) f32, share of a copy, by windows and by tiles:
 * around 500 0.59 and 0.84, around 2000 0.62 and 0.83. */
enum { DOWN_COLUMNS = 32 };
static bool in_tiles_down(const sf_step *s, bool down, const sf_cuda_tile *shape, tiles *t)
{
        const int64_t columns = down ? s->dims[s->nbatch - 1].len : 1;
        t->shape = *shape;
        t->shape.elements = (int32_t)elements_of(s, shape);
        t->alone = false;
        t->log = log2_up((int64_t)t->shape.threads / 32 * SF_DOWN_LEAVES * t->shape.elements);
        return s->fold && down && columns > DOWN_COLUMNS / 2 &&
               are_tiles(s, t, s->batch / columns * ceil_div(columns, DOWN_COLUMNS)) &&
               s->segments.count <= s->n >> (t->log - 1);
}

static sf_status plan_tiles_down(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                                 const layout *l, const tiles *t, sf_cuda_plan *plan)
{
        const int64_t columns = s->dims[s->nbatch - 1].len, value = value_size(s),
                      strips = ceil_div(columns, DOWN_COLUMNS), units = s->batch / columns * strips,
                      all = units * t->slots, levels = levels_of(s, t),
                      at = SF_TICKETS / 8 + all * levels * DOWN_COLUMNS * (value / 4) + all,
                      leaves = t->shape.threads / 32 * SF_DOWN_LEAVES;
        put_table(s, false, t->slots, at, t->log, all, &plan->launch[0]);
        draft d = draft_segments(s, l, &t->shape, DOWN_COLUMNS, cell_size(s, is_spread(s)),
                                 &plan->launch[1]);
        d.launch->spec.extra[SEGMENTS_TILES] = (int32_t)levels;
        d.p.inner = columns;
        d.p.units = units;
        d.p.number[0] = t->slots;
        d.p.number[1] = at;
        d.p.number[2] = strips;
        return finish_after_table(ctx, chip, &d, all, leaves * DOWN_COLUMNS * value, t->slots,
                                  plan);
}

/* Are segments of contiguous lines tiny, and elements loaded as they are? Then a block has a window
 * (segments_blocks.cuh). A reversed index needs the length of its segment, which is not kept there.
 * A block's speed depends less on how lengths are mixed, which the host does not know. H200, 2^26 f32,
 * share of a copy, a warp a window and a block a window (bench/segments.py): mean 1, uniform lengths,
 * scan 0.54 and 0.77, sum 0.53 and 0.64; mean 8, scan uniform 0.69 and 0.60, Pareto's 0.32 and 0.44, sum
 * 0.53 and 0.39, 0.27 and 0.32; mean 16, scan uniform 0.58 and 0.51, equal 0.38 and 0.63, Pareto's 0.40
 * and 0.42, sum 0.39 and 0.31, 0.43 and 0.38, 0.33 and 0.26; mean 64, scan uniform 0.68 and 0.51. */
enum { TINY_SCAN = 20, TINY_FOLD = 6 };
static int64_t windows_of(const sf_step *s, const sf_cuda_tile *tile)
{
        return s->n / (tile->threads * elements_of(s, tile)) + 1;
}
static bool in_blocks(const sf_step *s, bool down, const layout *l, const sf_cuda_tile *tile)
{
        const bool x = unit(l->line.x, l->in),
                   y = s->fold || unit(l->line.y, size_of((int32_t)s->out));
        return !down && !s->map && !s->fuse && !s->m && x && y && s->n &&
               s->n < (s->fold ? TINY_FOLD : TINY_SCAN) * s->segments.count &&
               s->segments.stride == (s->segments.wide ? 8 : 4) &&
               !(s->reverse && sf_op_is(s->op, SF_INDEX)) &&
               s->batch * windows_of(s, tile) <= INT32_MAX;
}

static sf_status plan_blocks(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                             const layout *l, sf_cuda_tile tile, sf_cuda_plan *plan)
{
        const int64_t value = value_size(s), windows = windows_of(s, &tile),
                      words = windows * (value / 4), at = SF_TICKETS / 8 + s->batch * words,
                      cell = at_least(at_least(size_of((int32_t)s->out), l->in), 4);
        tile.elements = (int32_t)elements_of(s, &tile);
        put_table(s, true, windows + 1, at, (int64_t)tile.threads * tile.elements, 0,
                  &plan->launch[0]);
        tile.threads += 32; /* as the kernel has it: rows of a warp more than a chunk's */
        const int64_t blocks = s->batch * windows +
                               ceil_div(apart_of(s, false, s->batch), tile.threads / 32);
        draft d = draft_segments(s, l, &tile, 1, cell, &plan->launch[1]);
        d.launch->spec.extra[SEGMENTS_BLOCKS] = 1;
        d.p.units = s->batch;
        d.p.number[0] = windows;
        d.p.number[1] = at;
        d.p.number[2] = words;
        d.p.number[3] = blocks;
        return finish_after_table(ctx, chip, &d, blocks,
                                  sf_block_end(tile.threads, tile.elements, value, cell),
                                  windows + 1, plan);
}

sf_status sf_cuda_plan_segments(const sf_context *ctx, const sf_step *s, bool down,
                                const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        const bool spread = is_spread(s);
        sf_cuda_tile shape;
        layout l = sf_cuda_layout(s, false, false);
        l.width = 1;
        SF_TRY(find_tile(ctx, chip, s, down, false, &plan->launch[0].spec, &shape));
        tiles t;
        if (in_tiles(s, down, &shape, &t))
                return plan_tiles(ctx, s, chip, &l, &t, plan);
        if (in_tiles_down(s, down, &shape, &t))
                return plan_tiles_down(ctx, s, chip, &l, &t, plan);
        sf_cuda_tile tile;
        SF_TRY(find_tile(ctx, chip, s, false, true, &plan->launch[0].spec, &tile));
        if (in_blocks(s, down, &l, &tile))
                return plan_blocks(ctx, s, chip, &l, tile, plan);
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
        const int64_t cell = cell_size(s, spread), tickets = ceil_div(turns * units + apart_of(s, down, units), threads / 32);

        if (windows > UINT32_MAX)
                return sf_fail(ctx, SF_UNSUPPORTED, "an axis of %" PRId64 " elements is cut into segments; on a CUDA device %" PRId64 " are the most", s->n,
                               chunk * (UINT32_MAX - 1));
        shape.elements = (int32_t)leaf;
        draft d = draft_segments(s, &l, &shape, beside, cell, &plan->launch[0]);
        d.launch->spec.extra[SEGMENTS_MAPS] = s->map;
        d.launch->spec.extra[SEGMENTS_STRETCHES] = stretches;
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
