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

sf_status sf_cuda_plan_segments(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        const bool spread = is_spread(s);
        sf_cuda_tile shape;
        layout l = sf_cuda_layout(s, false, false);
        l.width = 1;
        SF_TRY(find_tile(ctx, chip, s, down, &plan->launch[0].spec, &shape));
        const int64_t columns = down ? s->dims[s->nbatch - 1].len : 1, beside = down ? at_most(pow2_up(columns), 32) : 1, strips = ceil_div(columns, beside);
        const int64_t threads = shape.threads, leaf = leaf_of(s, down, &l, &shape),
                      chunk = down ? leaf : 32 * leaf;
        /* Full stretches of long segments go to whole blocks; then no block has windows of two
         * lines. Where segments are short, looking for them costs more than it gains. */
        const int64_t warps = threads / 32;
        const bool stretches = (!down || beside == 32) && !s->map && warps > 1 &&
                               !(warps & (warps - 1)) && s->n / chunk >= 2 * warps &&
                               (down || s->segments.count <= s->n / (2 * chunk));
        int64_t depth = 1; /* levels of totals of 32 */
        for (int64_t most = 32; most * warps * chunk <= s->n; most *= 32)
                depth++;
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
        /* A stretch of a scan takes more registers. H200: 0.64 of a copy for 0.61 where segments
         * have 2^14 elements, 0.54 for 0.57 where they have 2^24. */
        spec->extra[SF_CUDA_RESIDENT] =
                shape.resident - (stretches && !down && !s->fold && shape.resident > 1);
        spec->extra[SEGMENTS_LEAF] = (int32_t)leaf;
        spec->extra[SEGMENTS_STRIP] = (int32_t)beside;
        spec->extra[SEGMENTS_CELL] = (int32_t)cell;
        spec->extra[SEGMENTS_FOLDS] = s->fold;
        spec->extra[SEGMENTS_MAPS] = s->map;
        spec->extra[SEGMENTS_WIDE] = s->segments.wide;
        spec->extra[SEGMENTS_BACKWARDS] = s->reverse;
        spec->extra[SEGMENTS_STRETCHES] = stretches ? (int32_t)depth : 0;
        d.p.offsets = (uint64_t)(uintptr_t)s->segments.offsets;
        d.p.segments = s->segments.count;
        d.p.offset_stride = s->segments.stride;
        d.p.inner = columns;
        d.p.units = units;
        d.p.number[0] = windows;
        d.p.number[1] = strips;
        d.p.number[2] = (windows + (stretches ? windows / warps * (down ? 1 : depth) : 0)) *
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
