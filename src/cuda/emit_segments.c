/* Lines cut into segments, for kernels/segments.cu: which leaves and tiles. */
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

static sf_status find_tile(const sf_context *ctx, const sf_cuda_chip *chip, const sf_step *s, bool down, sf_cuda_spec *spec, sf_cuda_tile *tile)
{
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        spec->kernel = SF_CUDA_SEGMENTS;
        spec->op = (int32_t)s->op;
        spec->acc = s->acc;
        spec->flags = down ? SF_CUDA_DOWN : 0;
        return sf_cuda_tile_for(ctx, chip, spec, 8, 8, tile);
}

sf_status sf_cuda_plan_segments(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        const bool spread = is_spread(s), numbered = s->fold || spread;
        sf_cuda_tile shape;
        SF_TRY(find_tile(ctx, chip, s, down, &plan->launch[0].spec, &shape));
        const int64_t columns = down ? s->dims[s->nbatch - 1].len : 1, most = at_least(at_most(shape.more / size_of((int32_t)s->in), 16), 4);
        const int64_t beside = down ? at_most(pow2_up(columns), most) : 1, strips = ceil_div(columns, beside);
        const int64_t threads = shape.threads, windows = threads / beside;
        const int64_t leaf = at_least(4 * shape.elements / value_size(s), 4), tile = windows * leaf, reach = tile + leaf;
        const int64_t tiles = at_least(ceil_div(s->n, tile), 1), depth = depth_of(s->n / leaf), units = s->batch / columns * strips;

        if (s->n / leaf > UINT32_MAX)
                return sf_fail(ctx, SF_UNSUPPORTED, "an axis of %" PRId64 " elements is cut into segments; on a CUDA device %" PRId64 " are the most", s->n,
                               leaf * UINT32_MAX);
        layout l = sf_cuda_layout(s, false, false);
        l.width = beside > 1 || spread || s->map ? 1 : (int)at_most(l.width, leaf);
        draft d = sf_cuda_draft(&plan->launch[0], SF_CUDA_SEGMENTS, &l);
        sf_cuda_spec *spec = &d.launch->spec;
        spec->threads = (int32_t)threads;
        spec->items = 1;
        spec->extra[SF_CUDA_RESIDENT] = shape.resident;
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
                               totals * 4 + sf_segments_windows(windows) * 4 + sf_segments_list(reach) * (numbered ? 2 : 1);
        SF_TRY(sf_cuda_finish(ctx, chip, &d, tiles * units, shared));
        d.launch->scratch_fields = 1;
        return SF_OK;
}
