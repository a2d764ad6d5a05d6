/* Folds of rows or columns: in one launch, or in chunks and then of the chunks' totals. */
#include "cuda/emit_draft.h"

/* The second launch: folds the totals of `chunks` chunks of every sequence, which the first one
 * left in scratch. */
sf_step sf_cuda_fold_resumed(const sf_step *s, int64_t chunks, bool down)
{
        sf_step r = *s;
        r.sibling = several_folds(s) ? NULL : s->sibling;
        int64_t size = total_size(s), inner = down ? s->dims[s->nbatch - 1].len : 1, stride = chunks * inner * size;
        r.in = s->acc;
        if (s->op == SF_SUM && s->acc == SF_DT_I32 && size_of((int32_t)s->out) == 8) /* plan_narrower */
                r.acc = SF_DT_I64;
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
void sf_cuda_fold_to_scratch(draft *d, const sf_step *s, int64_t parts, sf_cuda_plan *plan)
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
static sf_status resume_all(const sf_context *ctx, const sf_step *s, int64_t chunks, int64_t parts, int64_t from, bool down,
                            const sf_cuda_chip *chip, sf_cuda_plan *plan, planner *plan_rest)
{
        const bool several = several_folds(s);
        for (; s; from += parts_size(s, parts), s = several ? s->sibling : NULL) {
                sf_step rest = sf_cuda_fold_resumed(s, chunks, down);
                layout next = sf_cuda_layout(&rest, down, true);
                SF_TRY(plan_rest(ctx, &next, chip, plan, from));
        }
        return SF_OK;
}

/* from >= 0: x is totals, at this offset in scratch. */
sf_status sf_cuda_fold_rows(const sf_context *ctx, const layout *l, const sf_cuda_chip *chip, sf_cuda_plan *plan, int64_t from)
{
        const sf_step *s = l->step;
        const bool resume = from >= 0, cuts = sf_cuda_cuts(s).apart, only = from == SF_CUDA_TOTALS_ONLY;
        const int64_t begin = (int64_t)plan->scratch; /* of its own totals */
        draft d = sf_cuda_draft(&plan->launch[plan->launches], SF_CUDA_FOLD, l);
        sf_cuda_spec *spec = &d.launch->spec;
        sf_cuda_tile tile;
        SF_TRY(sf_cuda_draft_tile(ctx, chip, &d, &tile));
        int64_t width = l->width, n = at_least(reached(l, s->n), 1), vectors = ceil_div(n, width), held = at_least(tile.elements / width, 1);
        const bool bytes = l->in == 1 && sf_op_free(s->op, s->acc) && s->op != SF_PROD && !s->fuse && !s->m; /* fold_packed.cuh */
        const bool pair = sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc);
        /* SF_BESIDE in fold_rows.cuh */
        const bool beside = cuts ? !s->m : l->shift_in && !s->m && vectors > 16 && !pair;
        /* every vector of a tile may have the end of a run */
        const bool short_runs = beside && !cuts && s->nseq > 1 && l->line.len < 32 * held * width;
        /* loads twice as much, or does more for each vector */
        if ((l->shift_in && !beside) || short_runs || (l->early && !bytes))
                held = at_least(held / 2, 1);
        else if (bytes && width == 16 && vectors <= 32 * 8 && !chip->small_tiles)
                held = 8;
        if (resume && width == 1) /* few totals, which need not be in flight all at once */
                held = at_most(held, 16);
        /* Every vector becomes a value; of two sums in f64, a thread has registers for 16. H200,
         * (65536, 8191): 1.7 times as fast as with more, which spill. */
        held = at_most(held, at_least(256 / held_size(s), 1));
        if (s->nseq > 1) /* every vector's address needs registers */
                held = at_most(held, 4);
        /* Rows a little longer than a warp holds would leave most of a second tile empty. H200, share of a copy, so
         * and in one larger tile: 700 f32 0.79, 1.01; 700 i32 0.84, 1.03. */
        if (!resume && !cuts && !pair && s->nseq == 1 && vectors > 32 * held && 2 * vectors <= 3 * 32 * held)
                held = ceil_div(vectors, 32);
        int64_t team, items, rows = 1, chunks = 1, part;
        bool single = vectors <= 32 * held && !cuts;
        spec->threads = tile.threads;
        /* totals are twice as large */
        spec->extra[SF_CUDA_RESIDENT] = resume && pair ? 1 : tile.resident;
        if (single) {
                team = at_most(pow2_up(vectors), 32);
                items = ceil_div(vectors, team);
                /* The split into lanes and items that leaves the fewest idle. H200, rows of 514 i8:
                 * 0.55 of a copy, 0.35 without; of 621 u8 0.66, 0.44. */
                for (int64_t t = team / 2; t >= (beside ? 32 : 4) && ceil_div(vectors, t) <= held; t /= 2)
                        if (5 * ceil_div(vectors, t) * t <= 4 * items * team) {
                                team = t;
                                items = ceil_div(vectors, t);
                        }
                rows = at_least(held / items, 1);
                while (rows > 1 && s->batch < 2 * chip->multiprocessors * rows * (spec->threads / team))
                        rows /= 2;
                part = n;
        } else if (cuts) {
                items = pow2_down(held);
                for (team = 32; team < tile.threads && 4 * team * items * width < (int64_t)1 << sf_cuda_cuts(s).log;)
                        team *= 2;
                chunks = sf_blocks_count(sf_cuda_blocks(s));
                part = 0;
        } else {
                /* A warp for each sequence if there are enough of them, else a block, else a block
                 * for each chunk. */
                int64_t fill = (int64_t)chip->multiprocessors * tile.resident * (tile.threads / 32);
                items = held;
                team = 32;
                while (team < tile.threads && s->batch * (team / 32) < 2 * fill && team * items < vectors)
                        team *= 2;
                int64_t tile_length = team * items * width;
                int64_t length = pow2_up(n);
                const int64_t together = (int64_t)chip->multiprocessors * tile.resident;
                /* A block has at least four tiles; eight small ones, unless much of the chip would be idle. */
                const int64_t tiles = !chip->small_tiles && tile.threads <= 128 ? 8 : 4;
                while (team == tile.threads && !resume && length > 4 * tile_length) {
                        const int64_t blocks = s->batch * ceil_div(n, length);
                        if (blocks >= 8 * together || (length <= tiles * tile_length && 2 * blocks >= together))
                                break;
                        length /= 2;
                }
                chunks = ceil_div(n, length);
                part = length / (team / 32);
                d.p.number[1] = length;
        }
        if (beside && !cuts && !chip->small_tiles)
                spec->extra[SF_CUDA_RESIDENT] = s->nseq > 1 && !short_runs ? 2 : 3;
        /* Smaller blocks, where nothing is shared in one. H200, share of a copy: rows of 3393 f32 0.86
         * instead of 0.82, of 2049 1.19 instead of 1.17; but of 140 f64 1.37 instead of 1.40. */
        if (!chip->small_tiles && spec->threads == 256 && team <= 128 && l->in < 8 && s->nseq == 1 && chunks == 1) {
                spec->threads /= 2;
                spec->extra[SF_CUDA_RESIDENT] = (int32_t)at_most(2 * spec->extra[SF_CUDA_RESIDENT], 8);
        }
        spec->items = (int32_t)items;
        spec->flags |= (single ? SF_CUDA_SINGLE : 0) | (resume ? SF_CUDA_RESUME : 0);
        spec->extra[FOLD_TEAM] = (int32_t)team;
        spec->extra[FOLD_ROWS] = (int32_t)rows;
        int64_t shared = spec->threads / 32 * held_size(s);
        if (cuts)
                sf_cuda_set_cuts(&d, s, begin, plan);
        else if (chunks > 1 || only)
                sf_cuda_fold_to_scratch(&d, s, s->batch * chunks, plan);
        /* Of totals x is NULL, or as far before it as positions begin early. */
        d.p.scratch = (uint64_t)(resume ? from + (int64_t)(uintptr_t)s->x : begin);
        d.p.units = s->batch * chunks;
        d.p.number[0] = chunks;
        d.p.number[2] = part;
        plan->launches++;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, ceil_div(d.p.units, rows * (spec->threads / team)), shared));
        d.launch->scratch_fields = chunks > 1 || resume || only;
        if (cuts)
                return sf_cuda_cuts(s).then ? sf_cuda_resume_cuts(ctx, s, begin, false, chip, plan) : SF_OK;
        return chunks == 1 || only ? SF_OK : resume_all(ctx, s, chunks, s->batch * chunks, begin, false, chip, plan, sf_cuda_fold_rows);
}

/* Does a thread have room for all rows, where groups would leave a third of the threads idle? */
static bool is_wasteful(const sf_step *s, int64_t width, sf_cuda_tile tile)
{
        return s->n * width <= tile.elements && 10 * s->n <= 7 * pow2_up(s->n) &&
                (!sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc) ||
                 sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc));
}

/* An axis so short that one tile holds all of it. A thread holds all its rows, and more columns if
 * it can; strips are as wide as the threads that are then free allow. */
static void for_short_axis(const sf_step *s, int64_t outer, int64_t vectors, int64_t width, sf_cuda_tile tile, const sf_cuda_chip *chip, strip *cut,
                           int64_t *items, int64_t *beside)
{
        /* Groups of rows are a power of two, of which a few rows more than half leave much idle.
         * H200, (18, 33554433) f32: 0.75 of a copy in one group, 0.53 in eight. */
        const bool wasted = is_wasteful(s, width, tile);
        if (s->n <= *items || wasted) {
                *items = s->n;
                cut->groups = 1;
                const int64_t fit = at_most(tile.elements / (width * *items), 4);
                *beside = at_least(fit, wasted ? 1 : *beside);
        }
        const int64_t threads = at_most(tile.threads, 256);
        while (2 * cut->slots * cut->groups <= threads && cut->slots * *beside < vectors)
                cut->slots *= 2;
        while (*beside > 1 && outer * ceil_div(vectors, cut->slots * *beside) < 4 * (int64_t)chip->multiprocessors)
                *beside = (*beside + 1) / 2;
        while (cut->slots > 32 && outer * ceil_div(vectors, cut->slots * *beside) < 4 * (int64_t)chip->multiprocessors)
                cut->slots /= 2;
        cut->strips = ceil_div(vectors, cut->slots * *beside);
}

/* If there are enough columns, threads that are side by side have no totals to exchange, unlike
 * threads below each other, as long as there is room for their growing counters. H200, (33,
 * 25270482) of i8: 0.34 of a copy without this; also where groups have one leaf each: (16, 35,
 * 2855400) i32 at an odd address 0.93, 0.43 without; (15, 4819771) f32 1.53, 1.20; (6144, 14, 67754)
 * u8 0.50, 0.27. */
static void spread_out(const sf_step *s, int64_t outer, int64_t vectors, int64_t width, int64_t beside, int64_t items, sf_cuda_tile tile, bool one,
                       const sf_cuda_chip *chip, strip *cut)
{
        const int64_t entry = cut->slots * cut->groups * beside * width * held_size(s) * tile.resident, room = chip->shared_per_multiprocessor;
        while (cut->groups > 1 && cut->slots * beside < vectors && outer * ceil_div(vectors, 2 * cut->slots * beside) >= 16 * (int64_t)chip->multiprocessors) {
                const int64_t turns = ceil_div(s->n, cut->groups / 2 * items);
                if (!one && (turns > 16 || entry * (2 + log2_up(turns)) > room))
                        break;
                cut->groups /= 2;
                cut->slots *= 2;
                cut->strips = ceil_div(vectors, cut->slots * beside);
        }
}

/*
 * Matrices of few columns and so few rows that a thread holds all rows of its own: threads have
 * nothing to exchange, and the columns of all matrices are numbered one after another, so that
 * blocks are full whatever the number of columns. fits: they are such, and have been planned.
 */
static sf_status plan_flat(const sf_context *ctx, const layout *l, const sf_cuda_chip *chip,
                           sf_cuda_plan *plan, bool *fits)
{
        const sf_step *s = l->step;
        const int64_t outer = s->batch / l->line.len, most = chip->small_tiles ? 8 : 64;
        const int64_t threads = chip->small_tiles ? 64 : 256;
        layout own = *l;
        int64_t loaded, held;
        for (;; own.width /= 2) {
                loaded = s->n * ceil_div(own.width * l->in, 4);
                held = s->n * own.width * held_size(s) / 4;
                if ((2 * loaded <= most && held <= most) || own.width == 1)
                        break;
        }
        const int64_t vectors = ceil_div(l->line.len, own.width), units = outer * vectors;
        *fits = s->n && 2 * loaded <= most && held <= most && outer > 1;
        /* A row that begins early does so for vectors as wide as l's: the first of narrower ones may
         * have nothing of the tensor. */
        *fits = *fits && (!l->early || own.width == l->width);
        if (!chip->small_tiles)
                *fits = *fits && vectors < 192 && s->n * own.width * l->in >= 16 &&
                        units >= 4 * threads * chip->multiprocessors;
        if (!*fits)
                return SF_OK;
        draft d = sf_cuda_draft(&plan->launch[plan->launches], SF_CUDA_FOLD, &own);
        sf_cuda_spec *spec = &d.launch->spec;
        spec->threads = (int32_t)threads;
        spec->items = (int32_t)s->n;
        spec->flags |= SF_CUDA_SINGLE;
        const int64_t resident = at_least(at_most(65536 / (32 + loaded + held) / threads, 8), 1);
        spec->extra[SF_CUDA_RESIDENT] = chip->small_tiles ? 1 : (int32_t)resident;
        spec->extra[FOLD_DOWN_SLOTS] = (int32_t)threads;
        spec->extra[FOLD_DOWN_GROUPS] = 1;
        spec->extra[FOLD_DOWN_ROWS] = 1;
        spec->extra[FOLD_DOWN_FLAT] = 1;
        d.p.units = outer;
        d.p.number[0] = 1;
        d.p.number[1] = vectors;
        d.p.number[2] = threads;
        d.p.number[3] = s->n;
        plan->launches++;
        return sf_cuda_finish(ctx, chip, &d, ceil_div(units, threads), 0);
}

/* If a row is one vector, of one or two words, and the rows are contiguous: how many bytes can be
 * loaded at once, several rows? Else 0. */
static int64_t solid_bytes(const layout *l)
{
        const sf_step *s = l->step;
        const sf_dim *seq = s->dims + s->nbatch;
        const int64_t row = l->line.len * l->in;
        if (s->m || s->fuse || s->sibling || s->nseq > 1 || l->early || l->width != l->line.len ||
            (row != 4 && row != 8) || seq->x != row)
                return 0;
        int64_t places = (int64_t)(uintptr_t)s->x, bytes = 16;
        for (int32_t d = 0; d < l->nbatch; d++)
                places |= s->dims[d].x;
        while (bytes > row && !aligned_to(places, bytes))
                bytes /= 2;
        return bytes > row ? bytes : 0;
}

/* How columns are shared out. */
typedef struct shares {
        strip cut;
        sf_cuda_tile tile;
        int64_t beside, items; /* vectors side by side, and rows, that a thread holds */
        int64_t part, chunks;  /* rows of a group, and how many blocks have a sequence */
        int64_t leaves;        /* 0: groups have parts, and counters */
        int64_t solid;         /* as solid_bytes says */
        int64_t shared;        /* bytes */
        bool one;              /* one value has the total: any grouping gives the same bits */
        bool single;           /* a group has one leaf at most */
} shares;

/* Chooses strips, and what a thread holds. */
static void share_columns(const layout *l, const sf_cuda_chip *chip, bool resume, shares *c)
{
        const sf_step *s = l->step;
        const int64_t outer = s->batch / l->line.len, width = l->width;
        const int64_t vectors = ceil_div(l->line.len, width);
        /* The number of columns in a strip does not depend on the vectors: narrow vectors are taken
         * several at a time. */
        /* Totals: so few that it matters how many threads go through them. */
        const bool few = resume && !sf_cuda_cuts(s).apart && !chip->small_tiles &&
                         outer * ceil_div(vectors, c->tile.more) < chip->multiprocessors;
        c->cut = sf_cuda_strip(vectors, few ? 8 : c->tile.more, few ? 256 : c->tile.threads);
        c->one = !several_folds(s) && sf_op_free(s->op, s->acc);
        /* Whole rows of a narrow matrix have too few columns to give each thread several. H200,
         * (2^22, 33), (2^22, 101), share of a copy: one large block 0.86, 0.89; two 0.83, 0.82.
         * With a short axis it is idle between its load and its store, (50584, 250, 31) 0.27,
         * smaller ones 0.39. */
        const bool few_rows = !resume && !s->fuse && !s->sibling && s->n <= (c->one ? 256 : 1024);
        if (c->cut.whole && c->tile.beside > 4 && (s->n >= 8192 || c->cut.groups < 8) &&
            !chip->small_tiles && !few_rows) {
                c->tile = (sf_cuda_tile){c->tile.threads * c->tile.resident, 16, 1, c->tile.more,
                                         c->tile.beside};
                c->cut = sf_cuda_strip(vectors, c->tile.more, c->tile.threads);
        }
        /* Few rows are a few turns, so several blocks of few threads. H200, share of a copy, so and in two of 512: (6012,
         * 620, 65) f32 0.85, 0.71; (50584, 250, 31) 0.87, 0.67; (20000, 400, 45) 0.91, 0.82; (3000, 900, 101) 0.88, 0.76. */
        if (c->cut.whole && few_rows && width == 1 && l->in == 4 && value_size(s) == 4 && !chip->small_tiles) {
                c->tile = (sf_cuda_tile){256, 8, 4, c->tile.more, c->tile.beside};
                c->cut = sf_cuda_strip(vectors, c->tile.more, c->tile.threads);
        }
        c->beside = c->cut.whole || few ? 1 : at_most(at_least(c->tile.beside / width, 1),
                                               pow2_up(ceil_div(vectors, c->cut.slots)));
        const int64_t elements = c->tile.elements / (chip->small_tiles ? 2 : 1);
        c->items = at_least(pow2_down(elements / (width * c->beside)), 1);
        /* Of products, a turn with few rows costs as much as a whole one: smaller tiles then, and more of
         * them. H200, (20000, 9, 4096) f16, share of a copy: so 0.77, in leaves of eight rows 0.60. */
        if (sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc) && !resume && !c->cut.whole &&
            !chip->small_tiles && c->items > 1 && s->n > c->items && s->n < 2 * c->items) {
                c->items /= 2;
                c->tile.elements /= 2;
                c->tile.resident++;
        }
        c->cut.strips = ceil_div(vectors, c->cut.slots * c->beside);
        c->solid = !resume && !c->one ? solid_bytes(l) : 0;
        if (c->solid) { /* many small blocks; each thread loads 64 bytes */
                c->items = (chip->small_tiles ? 16 : 64) / (width * l->in);
                c->tile.threads = 64;
                c->tile.elements = (int32_t)(c->items * width);
                c->tile.resident = chip->small_tiles ? 1 : 16;
        }
        while (c->cut.groups > 1 && c->cut.groups / 2 * c->items >= s->n)
                c->cut.groups /= 2;
        if (!resume && !c->cut.whole)
                spread_out(s, outer, vectors, width, c->beside, c->items, c->tile, c->one, chip,
                           &c->cut);
        if (!resume && c->one && !c->cut.whole && c->cut.groups == 1 && c->beside == 5 && s->n > c->items) {
                c->beside = 4; /* more spill, where a thread goes through all rows */
                c->cut.strips = ceil_div(vectors, c->cut.slots * c->beside);
        }
        if (!resume && !c->cut.whole && !chip->small_tiles && s->n &&
            (s->n <= c->cut.groups * c->items || is_wasteful(s, width, c->tile)))
                for_short_axis(s, outer, vectors, width, c->tile, chip, &c->cut, &c->items,
                               &c->beside);
        /* More spill; in one turn, also these. H200, (50584, 250, 31) i32: 0.62 of a copy, 0.36 with
         * 16; f32 0.66, 0.49; but (20000, 400, 45) f32 0.71, 0.77. */
        if (few_rows && c->cut.whole)
                c->items = at_most(c->items, value_size(s) > 4 || s->n <= 16 * c->cut.groups ? 8 : 16);
}

/* Are the rows so few that all leaves' totals can be kept, and the blocks so many that none need
 * share a sequence? */
static bool in_leaves(const layout *l, const sf_cuda_chip *chip, bool resume, const shares *c,
                      int64_t leaf, int64_t wanted)
{
        const sf_step *s = l->step;
        const int64_t leaves = ceil_div(s->n, c->items), blocks =
                s->batch / l->line.len * c->cut.strips;
        if (resume || c->one || c->solid || s->fuse || s->sibling || !c->cut.whole ||
            leaves <= c->cut.groups || leaves > 64)
                return false;
        return chip->small_tiles || (blocks >= wanted &&
                                     pow2_up(leaves) * leaf * c->tile.resident <= 200 << 10);
}

/* Chooses how many rows a group walks. */
static void share_rows(const layout *l, const sf_cuda_chip *chip, bool resume, shares *c)
{
        const sf_step *s = l->step;
        const int64_t outer = s->batch / l->line.len, held = held_size(s);
        const int64_t most = chip->small_tiles ? 2 : 6;
        const int64_t wanted = 2 * (int64_t)chip->multiprocessors * c->tile.resident;
        const int64_t leaf = c->cut.slots * c->beside * l->width * held;
        c->leaves = 0;
        c->single = false;
        if (sf_cuda_cuts(s).apart) {
                do {
                        const int64_t most_rows = (int64_t)1 << sf_cuda_cuts(s).log;
                        c->part = at_least(most_rows / c->cut.groups, c->items);
                        c->shared = sf_fold_end(ceil_div(c->cut.slots * c->cut.groups, 32) * 32,
                                                c->beside * l->width, c->one ? 0
                                                : log2_up(c->part / c->items) + 1) * held;
                } while (c->shared > chip->shared_per_block && (c->cut.groups /= 2));
                c->chunks = sf_blocks_count(sf_cuda_blocks(s));
                return;
        }
        if (in_leaves(l, chip, resume, c, leaf, wanted)) {
                c->leaves = pow2_up(ceil_div(s->n, c->items));
                c->cut.groups = at_most(c->cut.groups, c->leaves);
                c->part = pow2_up(ceil_div(s->n, c->cut.groups));
                c->chunks = 1;
                c->shared = c->leaves * leaf;
                return;
        }
        for (;; c->cut.groups /= 2) {
                /* A group's counter grows with its rows. Fewer, if multiprocessors would be without
                 * work, or if columns are long, with few totals, and most multiprocessors would be
                 * idle while the last blocks run. The totals of chunks are few: one block walks
                 * them all, however long its counter is. */
                int64_t part = pow2_up(ceil_div(s->n, c->cut.groups));
                if (!resume && !(c->one && part <= c->items << (most + 3)))
                        part = c->items << most;
                part = s->n <= c->items ? c->items : at_least(part, c->items);
                while (part > c->items && part / 2 * c->cut.groups >= s->n)
                        part /= 2;
                while (!resume && part > 4 * c->items) {
                        int64_t each = ceil_div(s->n, part * c->cut.groups), blocks =
                                outer * c->cut.strips * each;
                        if (blocks >= (part * c->cut.groups > 512 && each < 16 ? 16 : 1) * wanted)
                                break;
                        part /= 2;
                }
                const int64_t threads = ceil_div(c->cut.slots * c->cut.groups, 32) * 32;
                c->part = part;
                c->chunks = at_least(ceil_div(s->n, part * c->cut.groups), 1);
                c->single = !resume && c->chunks == 1 && part == c->items;
                c->shared = sf_fold_end(threads, c->beside * l->width, c->one || c->single ? 0
                                        : log2_up(part / c->items) + 1) * held;
                if (c->shared <= chip->shared_per_block || c->cut.groups == 1)
                        break;
        }
        if (c->single && c->cut.groups == 1)
                c->shared = 0;
}

/*
 * If all rows begin equally many elements after a multiple of a vector: makes them begin there, so
 * that vectors are aligned. What comes before and after a row in its first and last vector is
 * folded too, and not stored. `own` becomes the step that has such rows.
 */
static void begin_early(layout *l, sf_step *own)
{
        const sf_step *s = l->step;
        const int64_t in = l->in, len = l->line.len, out = size_of((int32_t)s->out);
        const bool plain = !s->m && !s->fuse && !s->sibling && l->line.x == in;
        /* Results are not aligned then, and stored one by one: of short columns they are much. */
        const int64_t most = s->n * in <= 8 * out ? at_least(4 / out, 1) : 16 / in;
        for (int64_t w = most; plain && w > l->width && w * in >= at_most(4, in * most); w /= 2) {
                const int64_t past = (int64_t)((uintptr_t)s->x / (uintptr_t)in) & (w - 1);
                bool fits = 2 * ceil_div(past + len, w) * w <= 3 * len;
                for (int32_t d = 0; d < s->nbatch + s->nseq; d++)
                        fits = fits && (d == s->nbatch - 1 || aligned_to(s->dims[d].x, w * in));
                if (!fits)
                        continue;
                *own = *s;
                own->x = (const char *)s->x - past * in;
                own->y = (char *)s->y - past * l->line.y;
                own->dims[s->nbatch - 1].len = past + len;
                own->batch = s->batch / len * (past + len);
                l->step = own;
                l->line.len = past + len;
                l->width = (int)w;
                l->early = true;
                l->past = (int)past;
                return;
        }
}

/* Bytes in rows that begin anywhere: in vectors at any address. H200, share of a copy, so and byte by
 * byte: 16777217 x 121 u8 0.87, 0.24; 1024 x 956 x 8193 u8 into i64 0.80, 0.59; but 363286 x 2049
 * f16 0.70, 0.74. */
static void shift_columns(layout *l)
{
        const sf_step *s = l->step;
        if (l->in > 1 || l->width >= 4 || l->line.len < 16 || l->line.x != 1 || l->early ||
            s->n <= 4 * size_of((int32_t)s->out) || s->m || s->fuse || s->sibling)
                return;
        l->width = 16;
        l->shift_in = true;
}

/* Folds the totals of chunks whose rows began early: in scratch the rows of s are in those of
 * `own`. */
static sf_status resume_early(const sf_context *ctx, const sf_step *s, const layout *l,
                              int64_t chunks, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        sf_step rest = sf_cuda_fold_resumed(l->step, chunks, true);
        const int64_t from = l->past * total_size(s);
        rest.x = (const void *)(uintptr_t)from; /* what vectors may be, is seen from it */
        rest.y = s->y;
        rest.batch = s->batch;
        rest.dims[s->nbatch - 1].len = s->dims[s->nbatch - 1].len;
        const layout next = sf_cuda_layout(&rest, true, true);
        return sf_cuda_fold_columns(ctx, &next, chip, plan, from);
}

sf_status sf_cuda_fold_columns(const sf_context *ctx, const layout *wide, const sf_cuda_chip *chip,
                              sf_cuda_plan *plan, int64_t from)
{
        const bool resume = from >= 0;
        layout l = *wide;
        sf_step own;
        const bool cuts = sf_cuda_cuts(wide->step).apart;
        if (from == -1 && !cuts)
                begin_early(&l, &own);
        const sf_step *s = l.step;
        /* If a column is hardly longer than its result, vectors of results should be contiguous. */
        if (!resume && !several_folds(s) && s->n * l.in <= 4 * size_of(s->out))
                while (l.width > 1 && l.width * size_of(s->out) > 16)
                        l.width /= 2;
        const bool only = from == SF_CUDA_TOTALS_ONLY;
        bool flat = false;
        if (!resume && !only && !cuts)
                SF_TRY(plan_flat(ctx, &l, chip, plan, &flat));
        if (flat)
                return SF_OK;
        if ((from == -1 || only) && !cuts)
                shift_columns(&l);
        draft d = sf_cuda_draft(&plan->launch[plan->launches], SF_CUDA_FOLD, &l);
        sf_cuda_spec *spec = &d.launch->spec;
        shares c;
        SF_TRY(sf_cuda_draft_tile(ctx, chip, &d, &c.tile));
        share_columns(&l, chip, resume || cuts, &c);
        share_rows(&l, chip, resume, &c);
        spec->threads = (int32_t)ceil_div(c.cut.slots * c.cut.groups, 32) * 32;
        spec->items = (int32_t)c.items;
        spec->flags |= (resume ? SF_CUDA_RESUME : 0) | (c.single ? SF_CUDA_SINGLE : 0);
        int64_t places = c.tile.threads * c.tile.resident;
        /* Registers for what is loaded, or for what it becomes, and for addresses. */
        if (c.single && c.cut.groups == 1 && !chip->small_tiles)
                places = 65536 / (48 + c.items * c.beside * at_least(ceil_div(l.width * l.in, 4),
                                                                     l.width * held_size(s) / 4));
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)at_most(at_least(places / spec->threads, 1),
                                                         c.solid ? 16 : 8);
        spec->extra[FOLD_DOWN_SOLID] = (int32_t)c.solid;
        spec->extra[FOLD_DOWN_LEAVES] = (int32_t)c.leaves;
        spec->extra[FOLD_DOWN_SLOTS] = c.cut.whole ? 0 : (int32_t)c.cut.slots;
        spec->extra[FOLD_DOWN_GROUPS] = (int32_t)c.cut.groups;
        spec->extra[FOLD_DOWN_ROWS] = (int32_t)c.beside;
        const int64_t begin = (int64_t)plan->scratch;
        if (cuts)
                sf_cuda_set_cuts(&d, s, begin, plan);
        else if (c.chunks > 1 || only)
                sf_cuda_fold_to_scratch(&d, s, s->batch * c.chunks, plan);
        d.p.scratch = (uint64_t)(resume ? from : begin);
        d.p.units = s->batch / l.line.len * c.chunks * c.cut.strips;
        d.p.number[0] = c.chunks;
        d.p.number[1] = c.cut.strips;
        d.p.number[2] = c.cut.slots;
        d.p.number[3] = cuts ? sf_cuda_cuts(s).log : c.part;
        plan->launches++;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, d.p.units, c.shared));
        d.launch->scratch_fields = c.chunks > 1 || resume || only;
        if (cuts)
                return sf_cuda_cuts(s).then ? sf_cuda_resume_cuts(ctx, s, begin, true, chip, plan) : SF_OK;
        if (c.chunks > 1 && l.early)
                return resume_early(ctx, wide->step, &l, c.chunks, chip, plan);
        return c.chunks == 1 || only ? SF_OK : resume_all(ctx, s, c.chunks, s->batch * c.chunks, begin, true, chip,
                                                  plan, sf_cuda_fold_columns);
}
