/*
 * Chains over segments of contiguous lines: one launch of kernels/segments_apply.cu. Segments that
 * are too long for it, and chains that do not suit it, run one stage after another.
 */
#include "cuda/emit_chain.h"

#include <string.h>

/* What a block has: ROW, CHUNKS and PER of the kernel file. Totals of 32 * PER chunks are folded at
 * once. */
typedef struct shares {
        int64_t warps, row, chunks, per, resident;
} shares;

/* Of a segment that one warp or block takes by itself. */
static int64_t chunk_of(const shares *u) { return 32 * at_most(u->row, 8); }

/* Several elements at a time take the registers of a third block (nvcc 13, sm_90). */
static sf_status find_shares(const sf_context *ctx, const sf_cuda_chip *chip, const chain *c,
                             const sf_step *first, sf_cuda_spec *spec, shares *u)
{
        const int size = size_of((int32_t)c->source[0].dt);
        sf_cuda_tile tile;
        int64_t moving = 0;
        for (int32_t k = 0; k < c->sources; k++)
                moving += moves(&c->source[k]);
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        spec->kernel = SF_CUDA_SEGMENTS_APPLY;
        spec->width = 4;
        SF_TRY(sf_cuda_tile_for(ctx, chip, spec, size, size, &tile));
        *u = (shares){tile.threads / 32, tile.elements, tile.more, 4, at_most(tile.resident,
                moving > 1 ? 2 : 3)};
        if (chip->small_tiles)
                *u = (shares){2, 4, 2, 1, 1};
        /* H200, 2^26 f32, share of a copy, softmax of uniform lengths (bench/segments.py), rows of 8 and
         * of 16: mean 8 0.34 and 0.29, 32 0.34 both, 64 0.35 and 0.38, 128 0.35 and 0.39, 256 0.23 and
         * 0.37, 512 0.26 and 0.23; equal lengths of 32 0.46 and 0.53. */
        if (size <= 4 && c->n >= 32 * first->segments.count && c->n < 400 * first->segments.count)
                u->row *= 2;
        return SF_OK;
}

/* Does a later step take what the fold has computed of its elements? It replaces x then. */
static bool keeps_numbers(const chain *c, int32_t fold)
{
        const link *last = &c->link[c->count - 1];
        const int size = size_of((int32_t)c->source[0].dt);
        for (int32_t k = fold + 1; k < c->count; k++)
                for (int32_t o = 0; c->link[k].loads >> o; o++)
                        if (c->link[k].loads >> o & 1 && c->link[k].number[o] == 0)
                                return false;
        return last->kind == KIND_MAP && size_of(c->link[fold].step.acc) == size &&
               last->step.out == (sf_dt)c->link[fold].step.acc &&
               last->step.dims[last->step.nbatch].y == size;
}

/* Can the kernel take the chain? Its folds must commute. */
static bool suits(const chain *c, const sf_step *first)
{
        const source *x = &c->source[0];
        bool fits = c->sources && c->link[0].loads & 1 && !c->link[0].number[0] && moves(x) &&
                    x->along == size_of((int32_t)x->dt) && !first->reverse;
        for (int32_t k = 0; k < c->count; k++) {
                const link *l = &c->link[k];
                fits = fits && l->kind != KIND_SMALL &&
                       (l->kind == KIND_MAP || sf_op_is(l->step.op, SF_COMMUTES));
        }
        return fits;
}

/* Leaves out instructions that a program's result does not depend on. */
static void drop_unneeded(sf_program *p)
{
        bool needed[SF_PROGRAM_MAX] = {false};
        uint8_t number[SF_PROGRAM_MAX];
        int32_t count = 0;
        for (int32_t i = p->count - 1; i >= 0; i--) {
                needed[i] = needed[i] || i == p->count - 1;
                for (int32_t q = 0; needed[i] && q < sf_code_arguments[p->code[i].code]; q++)
                        needed[p->code[i].arg[q]] = true;
        }
        for (int32_t i = 0; i < p->count; i++) {
                sf_instruction x = p->code[i];
                number[i] = (uint8_t)count;
                for (int32_t q = 0; needed[i] && q < sf_code_arguments[x.code]; q++)
                        x.arg[q] = number[x.arg[q]];
                if (needed[i])
                        p->code[count++] = x;
        }
        p->count = count;
}

/* Lets later steps take what a fold has computed, where there is a place for it. */
static void keep_numbers(chain *c)
{
        chain other = *c;
        int32_t kept = 0, maker = 0;
        sf_cuda_keep_folded(&other);
        for (int32_t k = 0; k < other.count; k++) {
                link *l = &other.link[k];
                if (l->step.fuse != &l->plain)
                        continue;
                const uint32_t before = sf_cuda_program_reads(&l->plain.load, 1);
                drop_unneeded(&l->plain.load);
                l->loads &= ~before | sf_cuda_program_reads(&l->plain.load, 1);
        }
        for (int32_t k = 0; k < other.sources; k++)
                if (other.source[k].kept) {
                        kept++;
                        maker = other.source[k].made;
                }
        /* Wide ones would spill (nvcc 13, sm_90). */
        if (kept != 1 || !keeps_numbers(&other, maker) || size_of((int32_t)c->source[0].dt) > 4)
                return;
        *c = other;
        for (int32_t k = 0; k < c->count; k++) /* programs that were changed are in the copy */
                if (c->link[k].step.fuse == &other.link[k].plain)
                        c->link[k].step.fuse = &c->link[k].plain;
}

/* The most blocks of a line whose totals one block can fold (segments_pieces.cuh). */
enum { MOST_PIECES = 32 * 32 * 32 };

/* Does the chain store results of a fold? */
static bool stores_folds(const chain *c)
{
        bool stored = false;
        for (int32_t k = 0; k < c->count; k++)
                stored = stored || (c->link[k].kind == KIND_FOLD && !c->link[k].step.within);
        return stored;
}

/* Blocks of a line: segments that begin behind its last element, which are empty, belong to one too. */
static int64_t blocks_of(const chain *c, const shares *u)
{
        return c->n / (u->warps * u->chunks * chunk_of(u)) + 1;
}

/* One of the launches: of the whole chain, or of step `only` of long segments, counted from 1. */
static bool write_launch(const chain *c, const sf_step *first, const shares *u,
                         const sf_cuda_chip *chip, int32_t only, sf_cuda_launch *l)
{
        sf_cuda_spec *spec = &l->spec;
        const int64_t size = size_of((int32_t)c->source[0].dt), slot = sf_cuda_slot_size(c);
        const int64_t cells = u->chunks * chunk_of(u);
        const int64_t each = blocks_of(c, u), all = each * first->batch;
        const int64_t apart = stores_folds(c) ? first->batch * sf_empty_shares(first->segments.count, false) : 0;
        const int64_t blocks = only ? at_most(all, chip->multiprocessors * u->resident) : all + ceil_div(apart, u->warps);
        const int64_t shared = sf_several_desk(u->warps, u->per, slot) +
                               (only ? ceil_div(each, 32) * slot
                                     : u->warps * sf_several_cells(cells, u->row, size));
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        spec->kernel = SF_CUDA_SEGMENTS_APPLY;
        spec->width = 4;
        spec->items = 1;
        spec->threads = (int32_t)(32 * u->warps);
        spec->flags = SF_CUDA_SINGLE;
        spec->extra[SF_CUDA_NBATCH] = c->nbatch;
        spec->extra[SF_CUDA_NSEQ] = 1;
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)u->resident;
        spec->extra[SEGMENTS_APPLY_ROW] = (int32_t)u->row;
        spec->extra[SEGMENTS_APPLY_CHUNKS] = (int32_t)u->chunks;
        spec->extra[SEGMENTS_APPLY_PER] = (int32_t)u->per;
        spec->extra[SEGMENTS_APPLY_WIDE] = first->segments.wide;
        sf_cuda_describe_chain(c, -1, spec);
        spec->extra[SEGMENTS_APPLY_ONLY] = only;
        if (blocks > INT32_MAX || shared > chip->shared_per_block ||
            sf_cuda_params_parts(spec).end > SF_CUDA_MAX_PARAMS)
                return false;
        const bool longer = c->n > 32 * u->per * chunk_of(u);
        sf_cuda_put_chain(c, -1, first->batch, (int64_t[4]){each, longer, blocks, 0}, l);
        sf_params p;
        memcpy(&p, l->params, offsetof(sf_params, dims));
        p.offsets = (uint64_t)(uintptr_t)first->segments.offsets;
        p.segments = first->segments.count;
        p.offset_stride = first->segments.stride;
        memcpy(l->params, &p, offsetof(sf_params, dims));
        l->grid[0] = (uint32_t)blocks;
        l->grid[1] = l->grid[2] = 1;
        l->shared = (uint32_t)shared;
        l->scratch_fields = 1;
        l->overlaps = true;
        return true;
}

sf_status sf_cuda_plan_segments_chain(const sf_context *ctx, chain *c, const sf_step *first,
                                      const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits)
{
        *fits = false;
        if (!suits(c, first))
                return SF_OK;
        shares u;
        SF_TRY(find_shares(ctx, chip, c, first, &plan->launch[0].spec, &u));
        const int64_t each = blocks_of(c, &u);
        const int64_t most = 32 * u.per * chunk_of(&u);
        const bool longer = c->n > most;
        /* Where segments are too long on average, one stage after another is as good. H200, softmax
         * of a mean of 2^18: 0.29 of a copy for 0.27; of 2^24 0.30 both. */
        if (!chip->small_tiles && c->n > most * at_least(first->segments.count, 1))
                return SF_OK;
        const int32_t further = longer ? c->count + stores_folds(c) : 0;
        bool done = (!longer || each <= MOST_PIECES) && further < SF_CUDA_MAX_LAUNCHES;
        for (int32_t k = 1; done && k <= further; k++)
                done = write_launch(c, first, &u, chip, k, &plan->launch[k]);
        keep_numbers(c);
        if (!done || !write_launch(c, first, &u, chip, 0, &plan->launch[0]))
                return SF_OK;
        plan->steps = c->count;
        plan->launches = 1 + further;
        const int64_t words = first->batch * each * 2;
        plan->scratch = longer ? (size_t)(words * (8 + c->count * sf_cuda_slot_size(c))) : 0;
        plan->watched = false;
        *fits = true;
        return SF_OK;
}
