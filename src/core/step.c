/* From checked views to the geometry of a step: any axes become batch dimensions and a sequence, merged where they act
 * as one, so that a backend sees as few dimensions as there really are. */
#include "core/step.h"
#include "core/value.h"

/* A dimension under construction: its strides in x, y and the mask, and where to find them in a fused step's other operands. */
typedef struct place {
        sf_dim dim;
        int32_t axis;
        bool flipped;
} place;

static int64_t stride_of(const sf_step_views *v, int32_t operand, const place *p)
{
        int64_t stride = p->axis < 0 ? 0 : v->operand[operand]->strides[p->axis];
        return p->flipped ? -stride : stride;
}

static bool merges(const sf_step_views *v, const place *outer, const place *inner)
{
        const sf_dim *a = &outer->dim, *b = &inner->dim;
        bool same = a->x == b->len * b->x && a->y == b->len * b->y && a->m == b->len * b->m && a->left == b->len * b->left;
        for (int32_t k = 1; same && k < v->operands; k++)
                same = stride_of(v, k, outer) == b->len * stride_of(v, k, inner);
        return same;
}

static int64_t magnitude(int64_t v)
{
        return v < 0 ? -v : v;
}

/* How far a step along this dimension reaches in all the memory there is. */
static int64_t reach(const sf_step_views *v, const place *p)
{
        int64_t sum = magnitude(p->dim.x) + magnitude(p->dim.y);
        for (int32_t k = 1; k < v->operands; k++)
                sum += magnitude(stride_of(v, k, p));
        return sum;
}

/* Batch positions are independent, so they may be walked in any order: outermost the one that steps furthest. With several operands, x
 * alone does not tell: it may be the one that is repeated. */
static bool walks_outside(const sf_step_views *v, const place *a, const place *b)
{
        if (v->operands > 1) {
                int64_t reach_a = reach(v, a), reach_b = reach(v, b);
                if (reach_a != reach_b)
                        return reach_a > reach_b;
        }
        int64_t ax = magnitude(a->dim.x), bx = magnitude(b->dim.x);
        if (ax && bx && ax != bx)
                return ax > bx;
        return magnitude(a->dim.y) > magnitude(b->dim.y);
}

/* Do addresses go down along this batch dimension? The first operand that moves at all decides. */
static bool goes_down(const sf_step_views *v, const place *p)
{
        int64_t stride = p->dim.x;
        for (int32_t k = 1; k < v->operands && !stride; k++)
                stride = stride_of(v, k, p);
        return stride < 0;
}

static void flip(sf_step *step, const sf_step_views *v, place *p)
{
        sf_dim *dim = &p->dim;
        int64_t last = dim->len - 1;
        /* What has no elements has no address to move. */
        step->x = step->x ? step->x + last * dim->x : NULL;
        step->y = step->y ? step->y + last * dim->y : NULL;
        step->m = step->m ? step->m + last * dim->m : NULL;
        step->left = step->left ? step->left + last * dim->left : NULL;
        for (int32_t k = 0; k < v->operands; k++)
                if (v->fuse->operand[k].data)
                        v->fuse->operand[k].data += last * stride_of(v, k, p);
        dim->x = -dim->x;
        dim->y = -dim->y;
        dim->m = -dim->m;
        dim->left = -dim->left;
        p->flipped = true;
}

static void start_operands(const sf_step_views *v)
{
        v->fuse->operands = v->operands;
        for (int32_t k = 0; k < v->operands; k++) {
                v->fuse->operand[k].data = v->operand[k]->data;
                v->fuse->operand[k].dt = v->operand[k]->dt;
        }
}

static void append(sf_step *step, const sf_step_views *v, int32_t at, const place *p)
{
        step->dims[at] = p->dim;
        for (int32_t k = 0; k < v->operands; k++)
                v->fuse->operand[k].stride[at] = stride_of(v, k, p);
}

/* The dimensions of a sequence as memory has them, outermost the one that steps furthest, merged.
 * Returns how many they are then. */
static int32_t as_memory_lies(sf_step *step, const sf_step_views *v, place *seq, int32_t count)
{
        place sorted[SF_MAX_NDIM];
        for (int32_t d = 0; d < count; d++) {
                int32_t at = d;
                place p = seq[d];
                if (p.dim.x < 0)
                        flip(step, v, &p);
                for (; at > 0 && p.dim.x > sorted[at - 1].dim.x; at--)
                        sorted[at] = sorted[at - 1];
                sorted[at] = p;
        }
        int32_t kept = 0;
        for (int32_t d = 0; d < count; d++) {
                place p = sorted[d];
                if (kept && merges(v, &seq[kept - 1], &p)) {
                        p.dim.len *= seq[kept - 1].dim.len;
                        kept--;
                }
                seq[kept++] = p;
        }
        return kept;
}

void sf_step_geometry(sf_step *step, const sf_step_views *v)
{
        const sf_view *x = v->x, *y = v->y, *m = v->m;
        step->x = x->data;
        step->y = y->data;
        step->m = m ? (const uint8_t *)m->data : NULL;
        step->n = 1;
        step->batch = 1;
        step->fuse = v->fuse;
        step->reverse = v->reverse;
        step->values = v->values;
        step->before = v->before;
        step->after = v->after;
        step->left = v->left ? v->left->data : NULL;
        step->lefts = v->lefts;
        step->left_entry = v->left_entry;
        if (v->fuse)
                start_operands(v);

        place batch[SF_MAX_NDIM], seq[SF_MAX_NDIM];
        int32_t nbatch = 0, nseq = 0, yd = 0;
        for (int32_t d = 0; d < x->ndim; d++) {
                bool in_seq = v->axes >> d & 1;
                bool in_y = !step->fold || !in_seq || v->keepdim;
                place p = {{x->shape[d], x->strides[d], in_y && !(step->fold && in_seq) ? y->strides[yd] : 0, m ? m->strides[d] : 0,
                            v->left ? v->left->strides[d] : 0}, d, false};
                yd += in_y;
                if (in_seq)
                        step->n *= p.dim.len;
                else
                        step->batch *= p.dim.len;
                if (p.dim.len == 1)
                        continue;
                if ((in_seq ? v->reverse : goes_down(v, &p)) && p.dim.len > 0)
                        flip(step, v, &p);
                if (in_seq) {
                        if (nseq && merges(v, &seq[nseq - 1], &p)) {
                                p.dim.len *= seq[nseq - 1].dim.len;
                                nseq--;
                        }
                        seq[nseq++] = p;
                } else {
                        int32_t at = nbatch++;
                        for (; at > 0 && walks_outside(v, &p, &batch[at - 1]); at--)
                                batch[at] = batch[at - 1];
                        batch[at] = p;
                }
        }
        if (nseq > 1 && step->n && !v->fuse && step->fold && sf_op_is(step->op, SF_COMMUTES) && sf_op_free(step->op, step->acc) &&
            !sf_op_is(step->op, SF_INDEX))
                nseq = as_memory_lies(step, v, seq, nseq);
        int32_t kept = 0;
        for (int32_t d = 0; d < nbatch; d++) {
                place p = batch[d];
                if (kept && merges(v, &batch[kept - 1], &p)) {
                        p.dim.len *= batch[kept - 1].dim.len;
                        kept--;
                }
                batch[kept++] = p;
        }
        if (!nseq) /* every axis of the sequence has length 1, or there is none */
                seq[nseq++] = (place){{1, 0, 0, 0, 0}, -1, false};
        for (int32_t d = 0; d < kept; d++)
                append(step, v, d, &batch[d]);
        for (int32_t d = 0; d < nseq; d++)
                append(step, v, kept + d, &seq[d]);
        step->nbatch = kept;
        step->nseq = nseq;
}

sf_value sf_step_lower(const sf_step *s, sf_value v)
{
        v = sf_lower(s->op, s->acc, v);
        if (sf_op_is(s->op, SF_INDEX) && s->reverse && (int64_t)v.u64 >= 0)
                v.u64 = (uint64_t)(s->before + s->n + s->after - 1) - v.u64;
        return v;
}

bool sf_step_same_walk(const sf_step *a, const sf_step *b, const sf_fuse *fa, const sf_fuse *fb)
{
        bool same = a->n == b->n && a->batch == b->batch && a->nbatch == b->nbatch && a->nseq == b->nseq && fa->operands == fb->operands;
        for (int32_t d = 0; same && d < a->nbatch + a->nseq; d++)
                same = a->dims[d].len == b->dims[d].len;
        for (int32_t k = 0; same && k < fa->operands; k++) {
                same = fa->operand[k].data == fb->operand[k].data && fa->operand[k].dt == fb->operand[k].dt;
                for (int32_t d = 0; same && d < a->nbatch + a->nseq; d++)
                        same = fa->operand[k].stride[d] == fb->operand[k].stride[d];
        }
        return same;
}

void sf_step_plain_fuse(const sf_step *s, sf_fuse *f)
{
        f->operands = 1;
        f->operand[0].data = s->x;
        f->operand[0].dt = s->in;
        for (int32_t d = 0; d < s->nbatch + s->nseq; d++)
                f->operand[0].stride[d] = s->dims[d].x;
        f->load_reads = 1;
        f->store_reads = 0;
        f->load.count = f->load.constants = f->store.count = f->store.constants = f->beside.count = f->beside.constants = 0;
}
