/* Folds of rows or columns: in one launch, or in chunks and then of the chunks' totals. */
#include "cuda/emit_draft.h"

/* The second launch: folds the totals of `chunks` chunks of every sequence, which the first one
 * left in scratch. */
static sf_step resumed(const sf_step *s, int64_t chunks, bool down)
{
        sf_step r = *s;
        r.sibling = several_folds(s) ? NULL : s->sibling;
        int64_t size = total_size(s), inner = down ? s->dims[s->nbatch - 1].len : 1, stride = chunks * inner * size;
        r.in = s->acc;
        r.x = NULL;
        r.m = NULL;
        r.n = chunks;
        r.nseq = 1;
        for (int32_t d = s->nbatch - 1; d >= 0; d--) {
                r.dims[d].m = 0;
                if (down && d == s->nbatch - 1) {
                        r.dims[d].x = size;
                        continue;
                }
                r.dims[d].x = stride;
                stride *= r.dims[d].len;
        }
        r.dims[s->nbatch] = (sf_dim){chunks, inner * size, 0, 0, 0};
        return r;
}

/* Makes the totals of `parts` parts go to scratch; those of each member follow those of the one
 * before. */
static void to_scratch(draft *d, const sf_step *s, int64_t parts, sf_cuda_plan *plan)
{
        d->launch->spec.flags = (d->launch->spec.flags & ~(SF_CUDA_INITIAL | SF_CUDA_VALUES)) | SF_CUDA_PARTIAL;
        d->launch->spec.out = s->acc;
        d->p.initial = 0;
        d->parts = parts;
        for (; several_folds(s); s = s->sibling)
                plan->scratch += (size_t)parts_size(s, parts);
        plan->scratch += (size_t)(parts * total_size(s));
}

typedef sf_status planner(const sf_context *ctx, const layout *l, const sf_cuda_chip *chip, sf_cuda_plan *plan, int64_t from);

/* The launches that fold each member's totals. There are few totals, so each member has a launch of
 * its own. */
static sf_status resume_all(const sf_context *ctx, const sf_step *s, int64_t chunks, int64_t parts, bool down, const sf_cuda_chip *chip,
                            sf_cuda_plan *plan, planner *plan_rest)
{
        const bool several = several_folds(s);
        for (int64_t from = 0; s; from += parts_size(s, parts), s = several ? s->sibling : NULL) {
                sf_step rest = resumed(s, chunks, down);
                layout next = sf_cuda_layout(&rest, down, true);
                SF_TRY(plan_rest(ctx, &next, chip, plan, from));
        }
        return SF_OK;
}

/* from >= 0: x is totals, at this offset in scratch. */
static sf_status plan_rows(const sf_context *ctx, const layout *l, const sf_cuda_chip *chip, sf_cuda_plan *plan, int64_t from)
{
        const sf_step *s = l->step;
        const bool resume = from >= 0;
        draft d = sf_cuda_draft(&plan->launch[plan->launches], SF_CUDA_FOLD, l);
        sf_cuda_spec *spec = &d.launch->spec;
        sf_cuda_tile tile;
        SF_TRY(sf_cuda_draft_tile(ctx, chip, &d, &tile));
        int64_t width = l->width, n = at_least(reached(l, s->n), 1), vectors = ceil_div(n, width), held = at_least(tile.elements / width, 1);
        if (l->shift_in || l->early) /* loads twice as much, or does more for each vector */
                held = at_least(held / 2, 1);
        /* Every vector becomes a value; of two sums in f64, a thread has registers for 16. H200,
         * (65536, 8191): 1.7 times as fast as with more, which spill. */
        held = at_most(held, at_least(256 / held_size(s), 1));
        if (s->nseq > 1) /* every vector's address needs registers */
                held = at_most(held, 4);
        int64_t team, items, rows = 1, chunks = 1, part;
        bool single = vectors <= 32 * held;
        spec->threads = tile.threads;
        /* totals are twice as large */
        spec->extra[SF_CUDA_RESIDENT] = resume && sf_cuda_is_pair(spec->op, spec->acc) ? 1 : tile.resident;
        if (single) {
                team = at_most(pow2_up(vectors), 32);
                items = pow2_up(ceil_div(vectors, team));
                rows = at_least(held / items, 1);
                while (rows > 1 && s->batch < 2 * chip->multiprocessors * rows * (spec->threads / team))
                        rows /= 2;
                part = n;
        } else {
                /* A warp for each sequence if there are enough of them, else a block, else a block
                 * for each chunk. */
                int64_t fill = (int64_t)chip->multiprocessors * tile.resident * (tile.threads / 32);
                items = held;
                team = 32;
                while (team < tile.threads && s->batch * (team / 32) < 2 * fill && team * items < vectors)
                        team *= 2;
                int64_t tile_length = team * items * width;
                int64_t length = pow2_up(n), wanted = 16 * (int64_t)chip->multiprocessors * tile.resident;
                if (team == tile.threads && !resume)
                        while (length > 4 * tile_length && s->batch * ceil_div(n, length) < wanted)
                                length /= 2;
                chunks = ceil_div(n, length);
                part = length / (team / 32);
                d.p.number[1] = length;
        }
        spec->items = (int32_t)items;
        spec->flags |= (single ? SF_CUDA_SINGLE : 0) | (resume ? SF_CUDA_RESUME : 0);
        spec->extra[FOLD_TEAM] = (int32_t)team;
        spec->extra[FOLD_ROWS] = (int32_t)rows;
        int64_t shared = spec->threads / 32 * held_size(s);
        if (chunks > 1)
                to_scratch(&d, s, s->batch * chunks, plan);
        d.p.scratch = resume ? (uint64_t)from : 0;
        d.p.units = s->batch * chunks;
        d.p.number[0] = chunks;
        d.p.number[2] = part;
        plan->launches++;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, ceil_div(d.p.units, rows * (spec->threads / team)), shared));
        d.launch->scratch_fields = chunks > 1 || resume;
        return chunks == 1 ? SF_OK : resume_all(ctx, s, chunks, s->batch * chunks, false, chip, plan, plan_rows);
}

/* An axis so short that one tile holds all of it. A thread holds all its rows, and more columns if
 * it can; strips are as wide as the threads that are then free allow. */
static void for_short_axis(const sf_step *s, int64_t outer, int64_t vectors, int64_t width, sf_cuda_tile tile, const sf_cuda_chip *chip, strip *cut,
                           int64_t *items, int64_t *beside)
{
        if (s->n <= *items) {
                *items = s->n;
                cut->groups = 1;
                *beside = at_least(at_most(tile.elements / (width * *items), 4), *beside);
        }
        while (2 * cut->slots * cut->groups <= tile.threads && cut->slots * *beside < vectors)
                cut->slots *= 2;
        while (*beside > 1 && outer * ceil_div(vectors, cut->slots * *beside) < 4 * (int64_t)chip->multiprocessors)
                *beside = (*beside + 1) / 2;
        while (cut->slots > 32 && outer * ceil_div(vectors, cut->slots * *beside) < 4 * (int64_t)chip->multiprocessors)
                cut->slots /= 2;
        cut->strips = ceil_div(vectors, cut->slots * *beside);
}

/* If there are enough columns, threads that are side by side have no totals to exchange, unlike
 * threads below each other, as long as there is room for their growing counters. H200, (33,
 * 25270482) of i8: 0.34 of a copy without this. */
static void spread_out(const sf_step *s, int64_t outer, int64_t vectors, int64_t width, int64_t beside, int64_t items, sf_cuda_tile tile, bool one,
                       const sf_cuda_chip *chip, strip *cut)
{
        const int64_t entry = cut->slots * cut->groups * beside * width * held_size(s) * tile.resident, room = chip->shared_per_multiprocessor;
        while (cut->groups > 1 && s->n > cut->groups * items && cut->slots * beside < vectors && outer * ceil_div(vectors, 2 * cut->slots * beside) >= 16 * (int64_t)chip->multiprocessors) {
                const int64_t turns = ceil_div(s->n, cut->groups / 2 * items);
                if (!one && (turns > 8 || entry * (2 + log2_up(turns)) > room))
                        break;
                cut->groups /= 2;
                cut->slots *= 2;
                cut->strips = ceil_div(vectors, cut->slots * beside);
        }
}

static sf_status plan_columns(const sf_context *ctx, const layout *l, const sf_cuda_chip *chip, sf_cuda_plan *plan, int64_t from)
{
        const sf_step *s = l->step;
        const bool resume = from >= 0;
        draft d = sf_cuda_draft(&plan->launch[plan->launches], SF_CUDA_FOLD, l);
        sf_cuda_spec *spec = &d.launch->spec;
        sf_cuda_tile tile;
        SF_TRY(sf_cuda_draft_tile(ctx, chip, &d, &tile));
        int64_t outer = s->batch / l->line.len, width = l->width, vectors = ceil_div(l->line.len, width);
        /* The number of columns in a strip does not depend on the vectors: narrow vectors are taken
         * several at a time. */
        strip cut = sf_cuda_strip(vectors, tile.more, tile.threads);
        /* Whole rows of a narrow matrix have too few columns to give each thread several. H200,
         * (2^22, 33), (2^22, 101), share of a copy: one large block 0.86, 0.89; two 0.83, 0.82.
         * With a short axis it is idle between its load and its store, (50584, 250, 31) 0.27,
         * smaller ones 0.39; but there must be enough groups to share the axis, (54235, 131, 111)
         * of bf16 0.46 and 0.22. */
        if (cut.whole && tile.beside > 4 && (s->n >= 8192 || cut.groups < 8) && !chip->small_tiles) {
                tile = (sf_cuda_tile){tile.threads * tile.resident, 16, 1, tile.more, tile.beside};
                cut = sf_cuda_strip(vectors, tile.more, tile.threads);
        }
        int64_t beside = cut.whole ? 1 : at_most(at_least(tile.beside / width, 1), pow2_up(ceil_div(vectors, cut.slots)));
        int64_t items = at_least(pow2_down(tile.elements / (width * beside) / (chip->small_tiles ? 2 : 1)), 1), most = chip->small_tiles ? 2 : 6;
        cut.strips = ceil_div(vectors, cut.slots * beside);
        while (cut.groups > 1 && cut.groups / 2 * items >= s->n)
                cut.groups /= 2;
        /* one value has the total of all, if any grouping gives the same bits */
        const bool one = !several_folds(s) && sf_op_free(s->op, s->acc);
        if (!resume && !cut.whole)
                spread_out(s, outer, vectors, width, beside, items, tile, one, chip, &cut);
        if (!resume && !cut.whole && !chip->small_tiles && s->n && s->n <= cut.groups * items)
                for_short_axis(s, outer, vectors, width, tile, chip, &cut, &items, &beside);
        int64_t part, chunks, shared, wanted = 2 * (int64_t)chip->multiprocessors * tile.resident;
        for (;; cut.groups /= 2) {
                /* How many rows a group walks; its counter grows with them. Fewer, if
                 * multiprocessors would be without work, or if columns are long, with few totals,
                 * and most multiprocessors would be idle while the last blocks run. The totals of
                 * chunks are few: one block walks them all, however long its counter is. */
                part = pow2_up(ceil_div(s->n, cut.groups));
                if (!resume && !(one && part <= items << (most + 3)))
                        part = items << most;
                part = at_least(part, items);
                while (part > items && part / 2 * cut.groups >= s->n)
                        part /= 2;
                while (!resume && part > 4 * items) {
                        int64_t each = ceil_div(s->n, part * cut.groups), blocks = outer * cut.strips * each;
                        if (blocks >= (part * cut.groups > 512 && each < 16 ? 16 : 1) * wanted)
                                break;
                        part /= 2;
                }
                chunks = at_least(ceil_div(s->n, part * cut.groups), 1);
                spec->threads = (int32_t)ceil_div(cut.slots * cut.groups, 32) * 32;
                shared = sf_fold_end(spec->threads, beside * width, one ? 0 : log2_up(part / items) + 1);
                shared *= held_size(s);
                if (shared <= chip->shared_per_block || cut.groups == 1)
                        break;
        }
        spec->items = (int32_t)items;
        spec->flags |= resume ? SF_CUDA_RESUME : 0;
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)at_most(at_least(tile.threads * tile.resident / spec->threads, 1), 8);
        spec->extra[FOLD_DOWN_SLOTS] = cut.whole ? 0 : (int32_t)cut.slots;
        spec->extra[FOLD_DOWN_GROUPS] = (int32_t)cut.groups;
        spec->extra[FOLD_DOWN_ROWS] = (int32_t)beside;
        if (chunks > 1)
                to_scratch(&d, s, s->batch * chunks, plan);
        d.p.scratch = resume ? (uint64_t)from : 0;
        d.p.units = outer * chunks * cut.strips;
        d.p.number[0] = chunks;
        d.p.number[1] = cut.strips;
        d.p.number[2] = cut.slots;
        d.p.number[3] = part;
        plan->launches++;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, d.p.units, shared));
        d.launch->scratch_fields = chunks > 1 || resume;
        return chunks == 1 ? SF_OK : resume_all(ctx, s, chunks, s->batch * chunks, true, chip, plan, plan_columns);
}

sf_status sf_cuda_plan_fold(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        layout l = sf_cuda_layout(s, down, false);
        bool staged;
        SF_TRY(sf_cuda_plan_pieces(ctx, &l, down, chip, plan, &staged));
        if (staged)
                return SF_OK;
        l = sf_cuda_shifted(l, false);
        return down ? plan_columns(ctx, &l, chip, plan, -1) : plan_rows(ctx, &l, chip, plan, -1);
}
