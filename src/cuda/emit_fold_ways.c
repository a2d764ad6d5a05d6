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
        int64_t columns, rows;
        int64_t wide;   /* bytes that can be loaded at once */
} crossing;

/* The last of the sequence's dimensions that is contiguous, as columns, and those after it, as
 * rows. */
static crossing crossing_of(const sf_step *s)
{
        const int64_t size = size_of((int32_t)s->in);
        const sf_dim *seq = s->dims + s->nbatch;
        crossing c = {.rows = 1, .wide = 16};
        for (int32_t k = 0; k + 1 < s->nseq; k++)
                if (seq[k].x == size)
                        c.across = k + 1;
        if (!c.across)
                return c;
        for (int32_t k = c.across; k < s->nseq; k++)
                c.rows *= seq[k].len;
        c.columns = seq[c.across - 1].len;
        int64_t places = (int64_t)(uintptr_t)s->x | c.columns * size;
        for (int32_t d = 0; d < s->nbatch + s->nseq; d++)
                if (d != s->nbatch + c.across - 1)
                        places |= s->dims[d].x;
        while (!aligned_to(places, c.wide))
                c.wide /= 2;
        return c;
}

/* fits: it is such a sum, and has been planned. H200, share of a copy, so and element by element:
 * (1024, 9948) f32 transposed 0.75, 0.18; (32768, 5339) f16 0.78, 0.10; (81, 4, 215760) bf16 with
 * 162 bytes a row 0.39, 0.06. */
static sf_status plan_across(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                             sf_cuda_plan *plan, bool *fits)
{
        const int64_t leaf = chip->small_tiles ? 8 : 32, threads = chip->small_tiles ? 64 : 256;
        const bool pair = sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc);
        const bool ordered = !sf_op_free(s->op, s->acc) && !pair;
        const crossing c = crossing_of(s);
        *fits = ordered && is_plain(s) && c.across && c.rows >= 2 * leaf &&
                c.columns * size_of((int32_t)s->in) >= 64 &&
                (chip->small_tiles || s->n * s->batch >= 1 << 20);
        if (!*fits)
                return SF_OK;
        layout l = sf_cuda_layout(s, false, false);
        l.width = 1;
        draft d = sf_cuda_draft(&plan->launch[0], SF_CUDA_FOLD, &l);
        sf_cuda_spec *spec = &d.launch->spec;
        const int64_t leaves = ceil_div(s->n, leaf), tiles = ceil_div(c.rows, threads - leaf);
        const int64_t strips = ceil_div(c.columns * l.in, 128), runs = s->n / c.rows / c.columns;
        spec->threads = (int32_t)threads;
        spec->items = (int32_t)leaf;
        spec->extra[SF_CUDA_RESIDENT] = chip->small_tiles ? 1 : 4;
        spec->extra[FOLD_ACROSS] = c.across;
        spec->extra[FOLD_WIDE] = (int32_t)c.wide;
        sf_cuda_fold_to_scratch(&d, s, s->batch * leaves, plan);
        plan->scratch = (plan->scratch + 255) / 256 * 256;
        d.p.units = c.rows;
        d.p.number[0] = leaves;
        d.p.number[1] = strips;
        d.p.number[2] = tiles;
        plan->launches = 1;
        const int64_t blocks = s->batch * runs * tiles * strips;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, blocks, threads * 128));
        d.launch->scratch_fields = 1;
        /* The totals are the elements of another fold, at the beginning of scratch. */
        const sf_step rest = sf_cuda_fold_resumed(s, leaves, false);
        l = sf_cuda_layout(&rest, false, false);
        SF_TRY(sf_cuda_fold_rows(ctx, &l, chip, plan, -1));
        plan->launch[1].scratch_fields = 2;
        return SF_OK;
}

/*
 * A fold in any order over a short contiguous dimension, its last, and others, of sequences that
 * are side by side: short runs, far apart. First the others are folded, down columns, which are the
 * elements of all those runs; then the columns' totals. H200, share of a copy: (29194752, 4, 10) u8
 * over its first and last 0.90, 0.22 run by run; (2176, 248983, 2) f32 0.90, 0.47. fits: it is such
 * a fold, and has been planned.
 */
static sf_status plan_runs(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                           sf_cuda_plan *plan, bool *fits)
{
        const int64_t size = size_of((int32_t)s->in), most = sf_cuda_fits_32(s);
        const sf_dim last = s->dims[s->nbatch + s->nseq - 1];
        const int64_t rows = last.len ? s->n / last.len : 0;
        sf_step own = *s, rest = *s;
        int32_t beside = -1, k = 0;
        for (int32_t d = 0; d < s->nbatch; d++)
                if (s->dims[d].x == last.len * size)
                        beside = d;
        /* Totals are written and read again. Run by run, a tenth of a copy is to be had for each byte of
         * an element: 0.28 of f16, 0.06 of u8. */
        *fits = s->nseq > 1 && sf_op_free(s->op, s->acc) && is_plain(s) && beside >= 0 &&
                last.x == size && last.len * size <= 64 && 10 * rows > rows * size + 2 * (most ? 4 : total_size(s));
        if (!*fits)
                return SF_OK;
        const int64_t run = last.len * s->dims[beside].len;
        for (int32_t d = 0; d < s->nbatch; d++)
                if (d != beside)
                        own.dims[k++] = s->dims[d];
        own.dims[k++] = (sf_dim){.len = run, .x = size, .y = size_of((int32_t)s->out)};
        own.nbatch = k;
        own.nseq = s->nseq - 1;
        for (int32_t d = 0; d < own.nseq; d++)
                own.dims[k + d] = s->dims[s->nbatch + d];
        own.n = rows;
        own.batch = s->batch * last.len;
        own.acc = most ? SF_DT_I32 : s->acc;
        layout l = sf_cuda_layout(&own, true, false);
        SF_TRY(sf_cuda_fold_columns(ctx, &l, chip, plan, SF_CUDA_TOTALS_ONLY));
        sf_params p;
        memcpy(&p, plan->launch[0].params, offsetof(sf_params, dims));
        const int64_t chunks = p.number[0], total = size_of((int32_t)own.acc);
        if (most && ceil_div(rows, chunks) * 2 * last.len >= most) {
                *fits = false;
                plan->launches = 0;
                plan->scratch = 0;
                return SF_OK;
        }
        rest.in = own.acc;
        rest.x = NULL;
        rest.n = chunks * last.len;
        rest.nseq = 2;
        int64_t stride = chunks * run * total;
        for (int32_t d = s->nbatch - 1; d >= 0; d--) {
                rest.dims[d].x = d == beside ? last.len * total : stride;
                stride *= d == beside ? 1 : rest.dims[d].len;
        }
        rest.dims[s->nbatch] = (sf_dim){.len = chunks, .x = run * total};
        rest.dims[s->nbatch + 1] = (sf_dim){.len = last.len, .x = total};
        if (chunks == 1) {
                rest.nseq = 1;
                rest.dims[s->nbatch] = rest.dims[s->nbatch + 1];
        }
        l = sf_cuda_layout(&rest, false, true);
        return sf_cuda_fold_rows(ctx, &l, chip, plan, 0);
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
        SF_TRY(plan_runs(ctx, s, chip, plan, &fits));
        if (!fits)
                SF_TRY(plan_narrower(ctx, s, down, chip, plan, &fits));
        if (!fits)
                SF_TRY(plan_across(ctx, s, chip, plan, &fits));
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
