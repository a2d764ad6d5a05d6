/* Lines cut into segments, for kernels/segments.cu: which leaves and tiles. */
#include "cuda/emit_draft.h"

/* A thread has a leaf in so many bytes of registers. */
#define LEAF_BYTES 128

/* Columns beside each other that a block takes: those of a sector of 32 bytes, so that all that is read is used. */
#define SECTOR 32

static bool is_spread(const sf_step *s)
{
        bool spread = false;
        for (int32_t k = 0; s->fuse && k < s->fuse->operands; k++)
                spread = spread || s->fuse->operand[k].segment;
        return spread;
}

/* Bytes of what stands in shared memory of an element: as memory.cuh loads it, which is a value where there is more to it than a number. */
static int64_t cell_size(const sf_step *s)
{
        const int64_t number = at_least(size_of((int32_t)s->acc), 4);
        return sf_op_is(s->op, SF_INDEX) || sf_op_is(s->op, SF_TWO) ? 2 * number : number;
}

/* Groups of 32 leaves, of 32 of those, and so on, until there is one. */
static int64_t depth_of(int64_t leaves)
{
        return at_least(ceil_div(log2_up(leaves + 1), SF_GROUP_LOG), 1);
}

sf_status sf_cuda_plan_segments(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        const bool numbered = s->fold || is_spread(s);
        const int64_t columns = down ? s->dims[s->nbatch - 1].len : 1, most = at_least(at_most(SECTOR / size_of((int32_t)s->in), 16), 4);
        const int64_t beside = down ? at_most(pow2_up(columns), chip->small_tiles ? 4 : most) : 1, strips = ceil_div(columns, beside);
        const int64_t threads = chip->small_tiles ? 32 : beside > 1 ? 256 : 128, windows = threads / beside;
        const int64_t leaf = chip->small_tiles ? 8 : LEAF_BYTES / value_size(s), tile = windows * leaf, reach = tile + leaf;
        const int64_t tiles = at_least(ceil_div(s->n, tile), 1), depth = depth_of(s->n / leaf), units = s->batch / columns * strips;

        layout l = sf_cuda_layout(s, false, false);
        if (beside > 1 || is_spread(s) || s->map)
                l.width = 1;
        l.width = (int)at_most(l.width, leaf);
        draft d = sf_cuda_draft(&plan->launch[0], SF_CUDA_SEGMENTS, &l);
        sf_cuda_spec *spec = &d.launch->spec;
        spec->threads = (int32_t)threads;
        spec->items = 1;
        spec->extra[SF_CUDA_RESIDENT] = beside > 1 ? 2 : 6;
        spec->extra[SEGMENTS_LEAF] = (int32_t)leaf;
        spec->extra[SEGMENTS_STRIP] = (int32_t)beside;
        spec->extra[SEGMENTS_DEPTH] = (int32_t)depth;
        spec->extra[SEGMENTS_FOLDS] = s->fold;
        spec->extra[SEGMENTS_MAPS] = s->map;
        spec->extra[SEGMENTS_WIDE] = s->segments.wide;
        spec->extra[SEGMENTS_BACKWARDS] = s->reverse;
        d.p.offsets = (uint64_t)(uintptr_t)s->segments.offsets;
        d.p.segments = s->segments.count;
        d.p.offset_stride = s->segments.stride;
        d.p.inner = columns;
        d.p.number[0] = tiles;
        d.p.number[1] = strips;
        /* A line of one tile tells nobody anything. */
        d.p.number[2] = tiles > 1 ? sf_segments_places_below(tiles * windows, depth) * beside * (value_size(s) / 4) : 0;
        d.p.number[3] = tiles * units;
        plan->launches = 1;
        plan->watched = true;
        plan->scratch = SF_TICKETS + (size_t)(units * d.p.number[2]) * 8;
        const int64_t totals = sf_segments_totals(windows, depth);
        const int64_t shared = totals * beside * value_size(s) + SF_SEGMENTS_FRAME + (beside == 1 && !s->map ? sf_segments_cells(reach, leaf) * cell_size(s) : 0) +
                               totals * 4 + sf_segments_windows(windows) * 4 + sf_segments_list(reach) + (numbered ? reach * 4 : 0);
        SF_TRY(sf_cuda_finish(ctx, chip, &d, tiles * units, shared));
        d.launch->scratch_fields = 1;
        return SF_OK;
}
