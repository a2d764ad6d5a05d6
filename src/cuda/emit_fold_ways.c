/* Which way a fold goes: as rows or columns (emit_fold.c), or first as something else, because its
 * sequences have several dimensions, or because its blocks need narrower sums than it does. */
#include "cuda/emit_draft.h"

#include <string.h>

/* Has the step x alone, and one result? */
static bool is_plain(const sf_step *s)
{
        return !s->m && !s->fuse && !s->sibling && !s->values;
}

/* ------------------------------------------------------------------------------------------------
 * Several dimensions, and neighbours in memory that are far apart in the order
 * ---------------------------------------------------------------------------------------------- */
typedef struct crossing {
        int32_t across; /* so many of the sequence's dimensions number the columns; 0: none do */
        sf_dim dims[SF_MAX_NDIM]; /* these, as they are in memory; y as in fold_across.cuh */
        int64_t columns, rows;    /* columns that follow each other in memory */
        int32_t run;    /* so many of the last of dims number those */
        int64_t wide;   /* bytes that can be loaded at once */
} crossing;

/* The first `across` of the sequence's dimensions as columns, and the others as rows. */
static crossing crossing_at(const sf_step *s, int32_t across)
{
        const sf_dim *seq = s->dims + s->nbatch;
        crossing c = {.across = across, .columns = 1, .rows = 1};
        int64_t all = 1;
        for (int32_t k = s->nseq - 1; k >= across; k--)
                c.rows *= seq[k].len;
        for (int32_t k = across - 1, count = 0; k >= 0; k--, count++) {
                int32_t at = count;
                for (; at > 0 && c.dims[at - 1].x < seq[k].x; at--)
                        c.dims[at] = c.dims[at - 1];
                c.dims[at] = (sf_dim){.len = seq[k].len, .x = seq[k].x, .y = all};
                all *= seq[k].len;
        }
        for (int32_t k = across - 1; k >= 0 && c.dims[k].x == c.columns * size_of((int32_t)s->in); k--, c.run++)
                c.columns *= c.dims[k].len;
        return c;
}

/* The split that lets the longest runs be loaded, up to 128 bytes, and leaves `least` rows. */
static crossing crossing_of(const sf_step *s, int64_t least)
{
        const int64_t size = size_of((int32_t)s->in);
        crossing best = {.wide = 16};
        for (int32_t k = 1; k < s->nseq; k++) {
                const crossing c = crossing_at(s, k);
                if (c.columns > 1 && c.rows >= least && at_most(c.columns * size, 128) > best.columns * size)
                        best = c;
        }
        if (!best.across)
                return best;
        int64_t places = (int64_t)(uintptr_t)s->x | best.columns * size;
        for (int32_t d = 0; d < s->nbatch; d++)
                places |= s->dims[d].x;
        for (int32_t d = 0; d < s->nseq; d++) {
                const sf_dim *dim = d < best.across ? &best.dims[d] : &s->dims[s->nbatch + d];
                if (d < best.across - best.run || d >= best.across) /* rows may overlap */
                        places |= dim->x;
        }
        for (best.wide = 16; !aligned_to(places, best.wide);)
                best.wide /= 2;
        return best;
}

/* fits: it is such a sum, and has been planned. H200, share of a copy, so and element by element:
 * (1024, 9948) f32 transposed 0.75, 0.18; (32768, 5339) f16 0.78, 0.10; (81, 4, 215760) bf16 with
 * 162 bytes a row 0.39, 0.06. */
static sf_status plan_across(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                             int64_t from, sf_cuda_plan *plan, bool *fits)
{
        sf_cuda_launch *launch = &plan->launch[plan->launches];
        const int64_t leaf = chip->small_tiles ? 8 : 32, threads = chip->small_tiles ? 64 : 256;
        const bool pair = sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc);
        const bool ordered = !sf_op_free(s->op, s->acc) && !pair;
        const crossing c = crossing_of(s, 2 * leaf);
        const int64_t bytes = c.columns * size_of((int32_t)s->in);
        *fits = ordered && is_plain(s) && c.across && bytes >= 32 &&
                (chip->small_tiles || s->n * s->batch >= 1 << 20);
        if (!*fits)
                return SF_OK;
        layout l = sf_cuda_layout(s, false, false);
        l.width = 1;
        draft d = sf_cuda_draft(launch, SF_CUDA_FOLD, &l);
        sf_cuda_spec *spec = &launch->spec;
        const int64_t cut = bytes <= 64 ? pow2_up(bytes) : 128;
        const int64_t leaves = ceil_div(s->n, leaf), tiles = ceil_div(c.rows, threads * 128 / cut - leaf);
        const int64_t strips = ceil_div(bytes, cut), runs = s->n / c.rows / c.columns;
        spec->threads = (int32_t)threads;
        spec->items = (int32_t)leaf;
        spec->extra[SF_CUDA_RESIDENT] = chip->small_tiles ? 1 : 4;
        spec->extra[FOLD_ACROSS] = c.across;
        spec->extra[FOLD_WIDE] = (int32_t)c.wide;
        spec->extra[FOLD_STRIP] = (int32_t)cut;
        for (int32_t k = 0; k < c.across; k++)
                d.p.dims[s->nbatch + k] = sf_cuda_params_dim(&c.dims[k]);
        d.p.inner = c.columns;
        const int64_t begin = (int64_t)plan->scratch;
        sf_cuda_fold_to_scratch(&d, s, s->batch * leaves, plan);
        plan->scratch = (plan->scratch + 255) / 256 * 256;
        d.p.scratch = (uint64_t)begin;
        d.p.units = c.rows;
        d.p.number[0] = leaves;
        d.p.number[1] = strips;
        d.p.number[2] = tiles;
        plan->launches++;
        const int64_t blocks = s->batch * runs * tiles * strips;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, blocks, threads * 128));
        launch->scratch_fields = from == SF_CUDA_IN_SCRATCH ? 2 : 1;
        /* The totals are the elements of another fold. */
        sf_step rest = sf_cuda_fold_resumed(s, leaves, false);
        rest.x = (const char *)(uintptr_t)begin;
        l = sf_cuda_layout(&rest, false, false);
        SF_TRY(sf_cuda_fold_rows(ctx, &l, chip, plan, SF_CUDA_IN_SCRATCH));
        launch[1].scratch_fields = 2;
        return SF_OK;
}

/* Which of a sequence's dimensions are folded first, in all positions of the others. */
typedef struct first_part {
        int32_t from, count; /* dimensions; count 0: none */
        int64_t n;
} first_part;

/* In any order the longest; else the last ones, if all blocks of so many positions are subtrees of
 * the order: if they are a power of two. */
static first_part first_part_of(const sf_step *s, const sf_cuda_chip *chip)
{
        const sf_dim *seq = s->dims + s->nbatch;
        const int64_t size = size_of((int32_t)s->in);
        first_part f = {.n = 1};
        if (sf_op_free(s->op, s->acc)) {
                for (int32_t k = 0; k < s->nseq; k++)
                        if (seq[k].len > f.n)
                                f = (first_part){k, 1, seq[k].len};
        } else {
                int32_t k = s->nseq;
                while (k > 1 && pow2_up(seq[k - 1].len) == seq[k - 1].len)
                        f.n *= seq[--k].len;
                f.from = k;
                f.count = s->nseq - k;
        }
        /* Totals are written and read again, and rows of aligned vectors are fast as they are. */
        const sf_dim *last = &seq[s->nseq - 1];
        const bool rows = last->x == size && f.from + f.count == s->nseq;
        const int64_t least = chip->small_tiles ? 2 : rows ? 16 : 8;
        if (f.n * size < least * total_size(s) ||
            (rows && sf_cuda_layout(s, false, false).width * size == 16))
                f.count = 0;
        return f;
}

/* Merges neighbours, as far as they can be walked as one. Returns how many remain. */
static int32_t merged(sf_dim *dims, int32_t count)
{
        int32_t kept = 0;
        for (int32_t d = 0; d < count; d++) {
                sf_dim dim = dims[d];
                if (kept && dims[kept - 1].x == dim.len * dim.x && dims[kept - 1].y == dim.len * dim.y)
                        dim.len *= dims[--kept].len;
                dims[kept++] = dim;
        }
        return kept;
}

/* The step that folds the first part, with all other dimensions as its batch, as they are in
 * memory. apart: how many of its lines further the next position of each dimension is. */
static void first_step(const sf_step *s, first_part f, sf_step *own, int64_t *apart)
{
        int32_t order[SF_MAX_NDIM + 1], k = 0;
        for (int32_t d = 0; d < s->nbatch + s->nseq; d++) {
                if (d >= s->nbatch + f.from && d < s->nbatch + f.from + f.count)
                        continue;
                int32_t at = k++;
                for (; at > 0 && s->dims[order[at - 1]].x < s->dims[d].x; at--)
                        order[at] = order[at - 1];
                order[at] = d;
        }
        *own = *s;
        own->n = f.n;
        own->nseq = f.count;
        own->batch = s->batch * (s->n / f.n);
        int64_t lines = 1;
        for (int32_t i = k - 1; i >= 0; i--) {
                const int32_t d = order[i];
                apart[d] = lines;
                own->dims[i] = (sf_dim){.len = s->dims[d].len, .x = s->dims[d].x};
                lines *= s->dims[d].len;
        }
        own->nbatch = merged(own->dims, k);
        for (int32_t i = 0; i < f.count; i++)
                own->dims[own->nbatch + i] = s->dims[s->nbatch + f.from + i];
}

/* What sf_cuda_plan_pieces has planned leaves its totals in scratch. */
static void pieces_to_scratch(const sf_step *own, sf_cuda_plan *plan)
{
        sf_cuda_launch *launch = &plan->launch[0];
        launch->spec.flags = (launch->spec.flags & ~SF_CUDA_INITIAL) | SF_CUDA_PARTIAL;
        launch->spec.out = own->acc;
        launch->scratch_fields = 1;
        plan->scratch = (size_t)(own->batch * total_size(own));
}

static bool goes_down(const sf_step *s, int64_t size)
{
        return s->nbatch && s->dims[s->nbatch - 1].x == size && s->dims[s->nbatch + s->nseq - 1].x != size;
}

/*
 * A fold over several dimensions that are far apart in memory: first over some of them, then of the
 * totals. H200, share of a copy, so and in one launch: (29194752, 4, 10) u8 over its first and last
 * 0.90, 0.22; (2176, 248983, 2) f32 0.90, 0.47; (256, 3329, 4, 14, 65) u8 over its first and fourth
 * 0.98, 0.12; (512, 167, 32, 3, 256) f32, stored as 24130, over its first and third 0.98, 0.20. fits: it is such a fold, and has been planned.
 */
static sf_status plan_split(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                            sf_cuda_plan *plan, bool *fits)
{
        const int64_t most = sf_cuda_fits_32(s), size = size_of((int32_t)s->in);
        const first_part f = first_part_of(s, chip);
        *fits = s->nseq > 1 && is_plain(s) && !sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc) && f.count &&
                s->n && (chip->small_tiles || s->n * s->batch * size >= 1 << 20);
        if (!*fits)
                return SF_OK;
        sf_step own, rest = *s;
        int64_t apart[SF_MAX_NDIM + 1];
        first_step(s, f, &own, apart);
        own.acc = most ? SF_DT_I32 : s->acc;
        const bool down = goes_down(&own, size), free = sf_op_free(s->op, s->acc);
        layout l = sf_cuda_layout(&own, down, false);
        bool staged;
        SF_TRY(sf_cuda_plan_pieces(ctx, &l, down, chip, plan, &staged));
        l = sf_cuda_shifted(l, false);
        if (staged)
                pieces_to_scratch(&own, plan);
        else
                SF_TRY(down ? sf_cuda_fold_columns(ctx, &l, chip, plan, SF_CUDA_TOTALS_ONLY)
                            : sf_cuda_fold_rows(ctx, &l, chip, plan, SF_CUDA_TOTALS_ONLY));
        sf_params p;
        memcpy(&p, plan->launch[0].params, offsetof(sf_params, dims));
        const int64_t chunks = staged ? 1 : p.number[0], total = size_of((int32_t)own.acc);
        const int64_t inner = down ? own.dims[own.nbatch - 1].len : 1;
        if (most && 2 * ceil_div(f.n, chunks) >= most) {
                *fits = false;
                plan->launches = 0;
                plan->scratch = 0;
                return SF_OK;
        }
        plan->scratch = ceil_div((int64_t)plan->scratch, 256) * 256;
        /* The totals of chunks follow each other, or rows of them do. */
        int32_t k = 0;
        rest.in = own.acc;
        rest.x = NULL;
        rest.n = s->n / f.n * chunks;
        for (int32_t d = 0; d < s->nbatch + s->nseq; d++) {
                if (d == s->nbatch) {
                        k = rest.nbatch = merged(rest.dims, k);
                        if (chunks > 1 && free)
                                rest.dims[k++] = (sf_dim){.len = chunks, .x = inner * total};
                }
                if (d >= s->nbatch + f.from && d < s->nbatch + f.from + f.count)
                        continue;
                const int64_t lines = apart[d] * (apart[d] < inner ? 1 : chunks);
                rest.dims[k++] = (sf_dim){.len = s->dims[d].len, .x = lines * total,
                                          .y = d < s->nbatch ? s->dims[d].y : 0};
        }
        if (chunks > 1 && !free)
                rest.dims[k++] = (sf_dim){.len = chunks, .x = inner * total};
        rest.nseq = merged(rest.dims + rest.nbatch, k - rest.nbatch);
        bool across;
        SF_TRY(plan_across(ctx, &rest, chip, SF_CUDA_IN_SCRATCH, plan, &across));
        if (across)
                return SF_OK;
        const bool below = goes_down(&rest, total);
        l = sf_cuda_layout(&rest, below, false);
        SF_TRY(below ? sf_cuda_fold_columns(ctx, &l, chip, plan, SF_CUDA_IN_SCRATCH)
                     : sf_cuda_fold_rows(ctx, &l, chip, plan, SF_CUDA_IN_SCRATCH));
        plan->launch[1].scratch_fields = 2;
        return SF_OK;
}

/* Plans a sum of many narrow integers with blocks whose own sums need 32 bits only; the totals of
 * these are then summed in 64. fits: each block has few enough elements. */
static sf_status plan_narrower(const sf_context *ctx, const sf_step *s, bool down,
                               const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits)
{
        const int64_t most = sf_cuda_fits_32(s);
        *fits = most && s->n >= most;
        if (!*fits)
                return SF_OK;
        sf_step own = *s;
        sf_params p;
        own.acc = SF_DT_I32;
        layout l = sf_cuda_shifted(sf_cuda_layout(&own, down, false), false);
        SF_TRY(down ? sf_cuda_fold_columns(ctx, &l, chip, plan, -1)
                    : sf_cuda_fold_rows(ctx, &l, chip, plan, -1));
        memcpy(&p, plan->launch[0].params, offsetof(sf_params, dims));
        *fits = plan->launches > 1 && p.number[0] > 1 && s->n / (p.number[0] - 1) < most;
        if (!*fits)
                plan->launches = 0, plan->scratch = 0;
        return SF_OK;
}

sf_status sf_cuda_plan_fold(const sf_context *ctx, const sf_step *s, bool down,
                            const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        bool fits;
        SF_TRY(plan_split(ctx, s, chip, plan, &fits));
        if (!fits)
                SF_TRY(plan_narrower(ctx, s, down, chip, plan, &fits));
        if (!fits)
                SF_TRY(plan_across(ctx, s, chip, -1, plan, &fits));
        if (fits)
                return SF_OK;
        layout l = sf_cuda_layout(s, down, false);
        bool staged;
        SF_TRY(sf_cuda_plan_pieces(ctx, &l, down, chip, plan, &staged));
        if (staged)
                return SF_OK;
        l = sf_cuda_shifted(l, false);
        return down ? sf_cuda_fold_columns(ctx, &l, chip, plan, -1)
                    : sf_cuda_fold_rows(ctx, &l, chip, plan, -1);
}
