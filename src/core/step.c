/* From checked views to the geometry of a step: any axes become batch dimensions and a sequence, merged where they act
 * as one, so that a backend sees as few dimensions as there really are. */
#include "core/step.h"

static bool merges(const sf_dim *outer, const sf_dim *inner)
{
        return outer->x == inner->len * inner->x && outer->y == inner->len * inner->y && outer->m == inner->len * inner->m;
}

static int64_t magnitude(int64_t v)
{
        return v < 0 ? -v : v;
}

/* Batch positions are independent, so they may be walked in any order: outermost the one that steps furthest. */
static bool walks_outside(const sf_dim *a, const sf_dim *b)
{
        int64_t ax = magnitude(a->x), bx = magnitude(b->x);
        if (ax && bx && ax != bx)
                return ax > bx;
        return magnitude(a->y) > magnitude(b->y);
}

void sf_step_geometry(sf_step *step, const sf_step_views *v)
{
        const sf_view *x = v->x, *y = v->y, *m = v->m;
        step->x = x->data;
        step->y = y->data;
        step->m = m ? (const uint8_t *)m->data : NULL;
        step->n = 1;
        step->batch = 1;

        sf_dim seq[SF_MAX_NDIM];
        int32_t nbatch = 0, nseq = 0, yd = 0;
        for (int32_t d = 0; d < x->ndim; d++) {
                bool in_seq = v->axes >> d & 1;
                bool in_y = !step->fold || !in_seq || v->keepdim;
                sf_dim dim = {x->shape[d], x->strides[d], in_y && !(step->fold && in_seq) ? y->strides[yd] : 0, m ? m->strides[d] : 0};
                yd += in_y;
                if (in_seq)
                        step->n *= dim.len;
                else
                        step->batch *= dim.len;
                if (dim.len == 1)
                        continue;
                bool flip = in_seq ? v->reverse : dim.x < 0;
                if (flip && dim.len > 0) {
                        /* What has no elements has no address to move. */
                        step->x = step->x ? step->x + (dim.len - 1) * dim.x : NULL;
                        step->y = step->y ? step->y + (dim.len - 1) * dim.y : NULL;
                        step->m = step->m ? step->m + (dim.len - 1) * dim.m : NULL;
                        dim.x = -dim.x;
                        dim.y = -dim.y;
                        dim.m = -dim.m;
                }
                if (in_seq) {
                        if (nseq && merges(&seq[nseq - 1], &dim)) {
                                dim.len *= seq[nseq - 1].len;
                                nseq--;
                        }
                        seq[nseq++] = dim;
                } else {
                        int32_t at = nbatch++;
                        for (; at > 0 && walks_outside(&dim, &step->dims[at - 1]); at--)
                                step->dims[at] = step->dims[at - 1];
                        step->dims[at] = dim;
                }
        }
        int32_t kept = 0;
        for (int32_t d = 0; d < nbatch; d++) {
                sf_dim dim = step->dims[d];
                if (kept && merges(&step->dims[kept - 1], &dim)) {
                        dim.len *= step->dims[kept - 1].len;
                        kept--;
                }
                step->dims[kept++] = dim;
        }
        if (!nseq) /* every axis of the sequence has length 1, or there is none */
                seq[nseq++] = (sf_dim){1, 0, 0, 0};
        for (int32_t d = 0; d < nseq; d++)
                step->dims[kept + d] = seq[d];
        step->nbatch = kept;
        step->nseq = nseq;
}
