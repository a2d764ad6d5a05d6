/*
 * Chains of short lines, which may begin at any address, in one launch of kernels/apply_short.cu.
 * emit_apply.c has the others.
 */
#include "cuda/emit_chain.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * How the lines lie
 * ---------------------------------------------------------------------------------------------- */
static bool is_contiguous(const source *s)
{
        return moves(s) && s->along == size_of((int32_t)s->dt);
}

static bool stores_lines(const link *l)
{
        const sf_step *s = &l->step;
        return l->kind == KIND_MAP && s->dims[s->nbatch].y == size_of((int32_t)s->out);
}

/* Only what differs from line to line is copied: weights are in a cache. */
static void choose_copies(chain *c)
{
        for (int32_t k = 0; k < c->sources; k++) {
                bool differs = false;
                for (int32_t d = 0; d < c->nbatch; d++)
                        differs = differs || c->source[k].step[d];
                if (!differs || !is_contiguous(&c->source[k]))
                        c->copied &= ~(1u << k);
        }
}

/* Elements of a vector; 0: the kernel does not suit. All operations must commute, no map may come
 * before a fold, and what is read beside the copies must be aligned. */
static int width_of(const chain *c)
{
        int64_t largest = 4;
        bool fits = c->copied != 0, mapped = false;
        for (int32_t k = 0; k < c->sources; k++)
                if (moves(&c->source[k]))
                        largest = at_least(largest, size_of((int32_t)c->source[k].dt));
        for (int32_t k = 0; k < c->count; k++) {
                const link *l = &c->link[k];
                mapped = mapped || l->kind == KIND_MAP;
                fits = fits && (l->kind != KIND_FOLD || (!mapped && sf_op_is(l->step.op, SF_COMMUTES)));
                if (l->kind == KIND_MAP)
                        largest = at_least(largest, size_of((int32_t)l->step.out));
        }
        const int width = (int)(16 / largest);
        for (int32_t k = 0; k < c->sources; k++) {
                const source *s = &c->source[k];
                if (is_contiguous(s) && !(c->copied >> k & 1))
                        fits = fits && sf_cuda_suits((int64_t)(uintptr_t)s->data, s->step, c->nbatch, width * size_of((int32_t)s->dt));
        }
        return fits ? width : 0;
}

/* Do lines follow each other without gaps? `step`: from position to position of the batch. */
static bool follow(const chain *c, const int64_t *step, int64_t size)
{
        int64_t apart = c->n * size;
        bool flat = true;
        for (int32_t d = c->nbatch - 1; d >= 0; d--) {
                /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): step has SF_MAX_NDIM of them, and nbatch is less */
                flat = flat && step[d] == apart;
                apart *= c->link[0].step.dims[d].len;
        }
        return flat;
}

typedef struct lie {
        bool flat, vectors; /* SF_FLAT, SF_VECTORS */
} lie;
static lie lie_of(const chain *c)
{
        lie is = {true, true};
        for (int32_t k = 0; k < c->sources; k++) {
                const source *s = &c->source[k];
                const int64_t size = size_of((int32_t)s->dt);
                if (!(c->copied >> k & 1))
                        continue;
                is.flat = is.flat && follow(c, s->step, size);
                is.vectors = is.vectors && sf_cuda_suits((int64_t)(uintptr_t)s->data, s->step, c->nbatch, c->width * size);
        }
        for (int32_t k = 0; k < c->count; k++) {
                const sf_step *s = &c->link[k].step;
                const int64_t size = size_of((int32_t)s->out);
                int64_t step[SF_MAX_NDIM + 1];
                if (!stores_lines(&c->link[k]))
                        continue;
                for (int32_t d = 0; d < c->nbatch; d++)
                        step[d] = s->dims[d].y;
                is.flat = is.flat && follow(c, step, size);
                is.vectors = is.vectors && sf_cuda_result_suits(c, s, c->width * size);
        }
        return is;
}

/* ------------------------------------------------------------------------------------------------
 * How lines are distributed
 * ---------------------------------------------------------------------------------------------- */
typedef struct cut {
        int64_t lanes, warps, items, teams, lines, resident;
        int64_t room, shared; /* bytes of a team's copies; of all shared memory */
} cut;

/* Bytes of shared memory for a team's lines, of elements of `size` bytes. */
static int64_t room_of(const chain *c, const cut *u, bool flat, int64_t size)
{
        return flat ? sf_rows_staged(u->lines * c->n * size) : u->lines * sf_rows_staged(c->n * size);
}

/* With few lanes a line, fewer of their elements are missing. And every lane of a line does the line's
 * own work, estimated to be as much as that of this many elements. */
enum { OWN_WORK = 3 };

/* False: a line is too long. */
static bool cut_lines(const chain *c, sf_cuda_tile tile, const sf_cuda_chip *chip, lie is, cut *u)
{
        const int64_t held = sf_cuda_held_bytes(c), most = at_least(4 * tile.elements / held / c->width, 1);
        int64_t least = INT64_MAX, results = 0, copies = 0;
        *u = (cut){.lanes = 32, .warps = 1, .teams = tile.more};
        for (int64_t lanes = 1; lanes <= 32; lanes *= 2) {
                const int64_t items = ceil_div(c->n, lanes * c->width), work = lanes * (items * c->width + OWN_WORK);
                if (items <= most && work < least) {
                        least = work;
                        u->lanes = lanes;
                        u->items = items;
                }
        }
        if (least == INT64_MAX) {
                const int64_t rows = ceil_div(c->n, 32 * c->width);
                u->warps = ceil_div(rows, most);
                u->items = ceil_div(rows, u->warps);
                u->teams = 1;
        }
        u->lines = 32 / u->lanes;
        u->resident = at_least(tile.resident * tile.threads / (32 * u->warps * u->teams), 1);
        for (int32_t k = 0; k < c->sources; k++)
                if (c->copied >> k & 1)
                        copies += room_of(c, u, is.flat, size_of((int32_t)c->source[k].dt));
        for (int32_t k = 0; k < c->count; k++)
                if (stores_lines(&c->link[k]))
                        results = at_least(results, room_of(c, u, is.flat, size_of((int32_t)c->link[k].step.out)));
        u->room = at_least(copies, results);
        u->shared = u->teams * u->room + (u->warps > 1 ? sf_cuda_folds(c) * u->warps * u->items * sf_cuda_slot_size(c) : 0);
        while (u->resident > 1 && u->resident * (u->shared + 1024) > chip->shared_per_multiprocessor)
                u->resident--;
        return u->warps <= tile.threads / 32;
}

/* Is this kernel faster than apply.cu? tuning.c has the figures. In tests, some lines that suit both
 * go the other way. */
static bool wins(sf_cuda_tile tile, lie is, const cut *u, int64_t batch, const sf_cuda_chip *chip)
{
        if (chip->small_tiles)
                return batch % 3 != 0;
        return is.vectors ? u->lines >= tile.beside : u->resident >= tile.resident;
}

sf_status sf_cuda_plan_short(const sf_context *ctx, const chain *rows, const sf_step *first, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits)
{
        chain c = *rows;
        sf_cuda_launch *l = &plan->launch[0];
        sf_cuda_spec *spec = &l->spec;
        sf_cuda_tile tile;
        cut u;
        *fits = false;
        choose_copies(&c);
        if (!(c.width = width_of(&c)))
                return SF_OK;
        const lie is = lie_of(&c);
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        spec->kernel = SF_CUDA_APPLY_SHORT;
        spec->width = c.width;
        SF_TRY(sf_cuda_tile_for(ctx, chip, spec, 8, 8, &tile));
        if (!cut_lines(&c, tile, chip, is, &u) || !wins(tile, is, &u, first->batch, chip))
                return SF_OK;
        sf_cuda_keep_folded(&c);
        spec->threads = (int32_t)(32 * u.warps * u.teams);
        spec->items = (int32_t)u.items;
        const bool whole = c.n == u.lanes * u.warps * u.items * c.width;
        /* Of an odd number of elements, lines meet in other banks anyway. */
        const bool swaps = !is.vectors && (u.lanes > 8 || c.n % 2 == 0);
        spec->flags = SF_CUDA_SINGLE | (whole ? 0 : SF_CUDA_RAGGED);
        spec->extra[SF_CUDA_NBATCH] = c.nbatch;
        spec->extra[SF_CUDA_NSEQ] = 1;
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)u.resident;
        spec->extra[APPLY_SHORT_WARPS] = (int32_t)u.warps;
        spec->extra[APPLY_SHORT_LANES] = (int32_t)u.lanes;
        spec->extra[APPLY_SHORT_FLAT] = is.flat;
        spec->extra[APPLY_SHORT_PLACE] = is.vectors ? 2 : swaps;
        sf_cuda_describe_chain(&c, -1, spec);
        const int64_t blocks = ceil_div(first->batch, u.lines * u.teams);
        if (blocks > INT32_MAX || u.shared > chip->shared_per_block || sf_cuda_params_parts(spec).end > SF_CUDA_MAX_PARAMS)
                return SF_OK;
        sf_cuda_put_chain(&c, -1, first->batch, (int64_t[4]){u.room, 0, 0, blocks}, l);
        l->grid[0] = (uint32_t)blocks;
        l->grid[1] = l->grid[2] = 1;
        l->shared = (uint32_t)u.shared;
        l->scratch_fields = 0;
        l->overlaps = true;
        plan->steps = c.count;
        plan->launches = 1;
        plan->scratch = 0;
        plan->watched = false;
        *fits = true;
        return SF_OK;
}
