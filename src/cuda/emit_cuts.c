/* Folds and scans of a sequence that begins anywhere in a longer one, cut into aligned blocks
 * (kernels/shared.h). In a fold these are chunks, of which not all are equally long, and each has a
 * value (sf_cuts). In a scan each has entries of its own to its left. */
#include "cuda/emit_draft.h"

void sf_cuda_set_cuts(draft *d, const sf_step *s, int64_t begin, sf_cuda_plan *plan)
{
        const sf_blocks b = sf_cuda_blocks(s);
        const sf_cuts cuts = sf_cuda_cuts(s);
        if (d->l.nbatch == s->nbatch) { /* rows: memory begins where the sequence does */
                const int64_t early = cuts.from & (SF_LEAD - 1);
                d->launch->spec.flags |= aligned_to(cuts.from | s->n, d->l.width) ? 0 : SF_CUDA_RAGGED;
                d->p.x_begin += (uint64_t)(early * s->dims[s->nbatch].x);
                d->p.x_end += (uint64_t)(early * s->dims[s->nbatch].x);
                d->p.m_begin += (uint64_t)(early * s->dims[s->nbatch].m);
                d->p.m_end += (uint64_t)(early * s->dims[s->nbatch].m);
        }
        d->launch->spec.flags |= SF_CUDA_CUTS | (cuts.then ? SF_CUDA_PARTIAL : 0);
        d->p.before = cuts.from;
        d->p.left_entry = cuts.apart;
        d->p.number[0] = sf_blocks_count(b);
        d->p.number[3] = cuts.log;
        if (!cuts.then)
                return;
        d->p.il = sf_blocks_count(sf_blocks_of((cuts.from + b.head) >> b.log, b.whole, cuts.then));
        plan->scratch = (size_t)(begin + s->batch * b.whole * total_size(s));
}

sf_status sf_cuda_resume_cuts(const sf_context *ctx, const sf_step *s, int64_t begin, bool down,
                              const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        const sf_blocks b = sf_cuda_blocks(s);
        const sf_cuts cuts = sf_cuda_cuts(s), next_cuts = {.log = cuts.then};
        sf_step rest = sf_cuda_fold_resumed(s, b.whole, down);
        rest.before = (cuts.from + b.head) >> b.log;
        rest.lefts = sf_cuda_cuts_levels(&next_cuts);
        rest.y += sf_ones(b.head) * cuts.apart;
        /* Positions begin early, as sf_cuda_plan_cuts says. */
        const int64_t early = down ? 0 : (rest.before & (SF_LEAD - 1)) * rest.dims[rest.nbatch].x;
        rest.x = (const char *)(uintptr_t)-(uint64_t)early;
        const layout next = sf_cuda_layout(&rest, down, true);
        return down ? sf_cuda_fold_columns(ctx, &next, chip, plan, begin)
                    : sf_cuda_fold_rows(ctx, &next, chip, plan, begin);
}

sf_status sf_cuda_plan_cuts(const sf_context *ctx, const sf_step *s, bool down,
                            const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        sf_step own = *s;
        sf_fuse fuse;
        const int64_t early = down ? 0 : s->before & (SF_LEAD - 1);
        /* Vectors are aligned as in the longer sequence. Nothing is read before its beginning. */
        own.x -= early * s->dims[s->nbatch].x;
        own.m -= s->m ? early * s->dims[s->nbatch].m : 0;
        if (s->fuse) {
                fuse = *s->fuse;
                for (int32_t k = 0; k < fuse.operands; k++)
                        fuse.operand[k].data -= early * fuse.operand[k].stride[s->nbatch];
                own.fuse = &fuse;
        }
        /* Elements of 4 bytes are read as fast one by one, unless their values have two components,
         * which leave less time for that. H200, 2^28 f32 from an odd index, share of the unsharded
         * speed, in vectors and one by one: sum 0.89, 0.95. */
        const bool pays = size_of((int32_t)s->in) == 4 && sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc);
        layout l = sf_cuda_shifted(sf_cuda_layout(&own, down, false), pays && !s->m);
        l.shift_in |= l.early;
        l.early = false;
        return down ? sf_cuda_fold_columns(ctx, &l, chip, plan, -1)
                    : sf_cuda_fold_rows(ctx, &l, chip, plan, -1);
}

int64_t sf_cuda_set_rising(draft *d, const sf_step *s)
{
        const int64_t rising = sf_rising(s->before, s->n), blocks = sf_rising_count(rising, s->n);
        d->launch->spec.flags |= SF_CUDA_CUTS;
        d->p.inner = rising;
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a step that is launched has elements, and they are in a block */
        d->p.ix = s->left_entry / blocks;
        d->p.iy = blocks;
        return blocks;
}

sf_status sf_cuda_plan_short_blocks(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                                    sf_cuda_plan *plan)
{
        layout l = sf_cuda_layout(s, false, false);
        l.width = 1; /* not aligned */
        draft d = sf_cuda_draft(&plan->launch[0], SF_CUDA_SCAN_ROWS, &l);
        sf_cuda_spec *spec = &d.launch->spec;
        const bool product = sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc);
        spec->threads = 128;
        spec->items = SF_SHORT_BLOCKS / 32;
        spec->flags |= SF_CUDA_SINGLE | (product ? SF_CUDA_ROLLS : 0);
        spec->extra[SF_CUDA_RESIDENT] = chip->small_tiles ? 1 : 4;
        spec->extra[SCAN_ROWS_TEAM] = 32;
        spec->extra[SCAN_ROWS_ROWS] = 1;
        d.p.units = s->batch * sf_cuda_set_rising(&d, s);
        d.p.number[0] = 1;
        plan->launches = 1;
        return sf_cuda_finish(ctx, chip, &d, ceil_div(d.p.units, spec->threads / 32),
                              sf_rows_end(spec->threads) * value_size(s));
}
