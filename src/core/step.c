/* Makes the geometry of a step from checked views: any axes become batch dimensions and a sequence.
 * They are merged where possible, so that a backend has as few dimensions to handle as it can. */
#include "core/step.h"
#include "core/value.h"

/* Steps whose dimensions are made together: a single step, or those of a chain. */
typedef struct work {
        int32_t count;
        sf_step *step;
        const sf_step_views *views;
} work;

/* A dimension under construction: an axis of the views, possibly merged with axes outside it, and
 * possibly reversed. */
typedef struct place {
        int64_t len;
        int32_t axis; /* -1: none */
        bool flipped;
} place;

/* The axis of y that belongs to this axis of x. */
static int32_t axis_of_y(const sf_step *s, const sf_step_views *v, int32_t axis)
{
        int32_t gone = 0;
        for (int32_t d = 0; d < axis && s->fold && !v->keepdim && !v->offsets; d++)
                gone += (int32_t)(v->axes >> d & 1);
        return axis - gone;
}

/* Does the step not move along this axis, while others of its chain may? */
static bool stays(const sf_step_views *v, const place *p)
{
        return p->axis < 0 || v->x->shape[p->axis] == 1;
}

/* Is this the axis that is cut into segments? */
static bool is_cut(const sf_step_views *v, const place *p)
{
        return v->offsets && p->axis >= 0 && v->axes >> p->axis & 1;
}

static sf_dim dim_of(const work *w, int32_t i, const place *p)
{
        const sf_step *s = &w->step[i];
        const sf_step_views *v = &w->views[i];
        sf_dim dim = {p->len, 0, 0, 0, 0};
        if (stays(v, p) && !is_cut(v, p))
                return dim;
        const int64_t sign = p->flipped ? -1 : 1;
        dim.x = sign * v->x->strides[p->axis];
        dim.y = s->fold && !v->offsets && v->axes >> p->axis & 1 ? 0 : sign * v->y->strides[axis_of_y(s, v, p->axis)];
        dim.m = v->m ? sign * v->m->strides[p->axis] : 0;
        dim.left = v->left ? sign * v->left->strides[p->axis] : 0;
        return dim;
}

static int64_t stride_of(const sf_step_views *v, int32_t operand, const place *p)
{
        const bool spread = is_cut(v, p) && v->spread >> operand & 1;
        int64_t stride = spread || stays(v, p) ? 0 : v->operand[operand]->strides[p->axis];
        return p->flipped ? -stride : stride;
}

/* The stride from one segment to the next, for an operand with one element per segment. */
static int64_t segment_of(const sf_step_views *v, int32_t operand, const place *p)
{
        const int64_t stride = is_cut(v, p) && v->spread >> operand & 1 ? v->operand[operand]->strides[p->axis] : 0;
        return p->flipped ? -stride : stride;
}

static bool merges(const work *w, const place *outer, const place *inner)
{
        bool same = true;
        for (int32_t i = 0; same && i < w->count; i++) {
                const sf_step_views *v = &w->views[i];
                const sf_dim a = dim_of(w, i, outer), b = dim_of(w, i, inner);
                same = a.x == b.len * b.x && a.y == b.len * b.y && a.m == b.len * b.m && a.left == b.len * b.left &&
                       stays(v, outer) == stays(v, inner);
                for (int32_t k = 1; same && k < v->operands; k++)
                        same = stride_of(v, k, outer) == b.len * stride_of(v, k, inner);
        }
        return same;
}

static int64_t magnitude(int64_t v)
{
        return v < 0 ? -v : v;
}

/* How many bytes one position along this dimension moves, summed over all operands and results. */
static int64_t reach(const work *w, const place *p)
{
        int64_t sum = 0;
        for (int32_t i = 0; i < w->count; i++) {
                const sf_dim dim = dim_of(w, i, p);
                sum += magnitude(dim.x) + magnitude(dim.y);
                for (int32_t k = 1; k < w->views[i].operands; k++)
                        sum += magnitude(stride_of(&w->views[i], k, p));
        }
        return sum;
}

/* Batch positions are independent, so any order of the dimensions will do: the one with the largest
 * stride becomes the outermost. With several operands x alone does not decide, because it may be
 * broadcast along a dimension. */
static bool walks_outside(const work *w, const place *a, const place *b)
{
        if (w->count > 1 || w->views->operands > 1) {
                int64_t reach_a = reach(w, a), reach_b = reach(w, b);
                if (reach_a != reach_b)
                        return reach_a > reach_b;
        }
        const sf_dim da = dim_of(w, 0, a), db = dim_of(w, 0, b);
        int64_t ax = magnitude(da.x), bx = magnitude(db.x);
        if (ax && bx && ax != bx)
                return ax > bx;
        return magnitude(da.y) > magnitude(db.y);
}

/* Do addresses decrease along this batch dimension? The first operand whose stride is not 0
 * decides. */
static bool goes_down(const work *w, const place *p)
{
        int64_t stride = dim_of(w, 0, p).x;
        for (int32_t k = 1; k < w->views->operands && !stride; k++)
                stride = stride_of(w->views, k, p);
        return stride < 0;
}

static void flip(const work *w, place *p)
{
        const int64_t last = p->len - 1;
        for (int32_t i = 0; i < w->count; i++) {
                sf_step *step = &w->step[i];
                const sf_step_views *v = &w->views[i];
                const sf_dim dim = dim_of(w, i, p);
                /* A tensor without elements has no address to move. */
                step->x = step->x ? step->x + last * dim.x : NULL;
                const int64_t segments = is_cut(v, p) ? step->segments.count - 1 : 0;
                step->y = step->y ? step->y + (step->fold && is_cut(v, p) ? segments : last) * dim.y : NULL;
                step->m = step->m ? step->m + last * dim.m : NULL;
                step->left = step->left ? step->left + last * dim.left : NULL;
                for (int32_t k = 0; k < v->operands; k++)
                        if (v->fuse->operand[k].data)
                                v->fuse->operand[k].data += last * stride_of(v, k, p) + segments * segment_of(v, k, p);
        }
        p->flipped = !p->flipped;
}

static void start_operands(const sf_step_views *v)
{
        v->fuse->operands = v->operands;
        for (int32_t k = 0; k < v->operands; k++) {
                v->fuse->operand[k].data = v->operand[k]->data;
                v->fuse->operand[k].dt = v->operand[k]->dt;
                v->fuse->operand[k].made = v->made ? v->made[k] : 0;
                v->fuse->operand[k].segment = 0;
                v->fuse->operand[k].lacks_last = v->lacking >> k & 1;
        }
}

static void start_steps(const work *w)
{
        for (int32_t i = 0; i < w->count; i++) {
                sf_step *step = &w->step[i];
                const sf_step_views *v = &w->views[i];
                step->x = v->x->data;
                step->y = v->y->data;
                step->m = v->m ? (const uint8_t *)v->m->data : NULL;
                step->n = 1;
                step->batch = 1;
                step->fuse = v->fuse;
                step->reverse = v->reverse;
                step->segments = sf_segments_of(v->offsets);
                step->values = v->values;
                step->before = v->before;
                step->after = v->after;
                step->left = v->left ? v->left->data : NULL;
                step->lefts = v->lefts;
                step->left_entry = v->left_entry;
                for (int32_t d = 0; d < v->x->ndim; d++)
                        *(v->axes >> d & 1 ? &step->n : &step->batch) *= v->x->shape[d];
                if (v->fuse)
                        start_operands(v);
        }
}

/* Sets the steps' dimensions: the batch's first, then the sequence's. */
static void finish_steps(const work *w, int32_t nbatch, const place *batch, int32_t nseq, const place *seq)
{
        static const place none = {1, -1, false};
        for (int32_t i = 0; i < w->count; i++) {
                sf_step *step = &w->step[i];
                const sf_step_views *v = &w->views[i];
                /* every axis of the sequence has length 1, or there is none */
                const bool one = !nseq || (step->n == 1 && w->count > 1);
                step->nbatch = nbatch;
                step->nseq = one ? 1 : nseq;
                for (int32_t d = 0; d < step->nbatch + step->nseq; d++) {
                        const place *p = d < nbatch ? &batch[d] : one ? &none : &seq[d - nbatch];
                        step->dims[d] = dim_of(w, i, p);
                        for (int32_t k = 0; k < v->operands; k++)
                                v->fuse->operand[k].stride[d] = stride_of(v, k, p);
                        for (int32_t k = 0; k < v->operands && d >= nbatch; k++)
                                v->fuse->operand[k].segment = segment_of(v, k, p);
                }
        }
}

/* Sorts the dimensions of a sequence by their strides in memory, the largest outermost, and merges
 * them. Returns how many remain. */
static int32_t as_memory_lies(const work *w, place *seq, int32_t count)
{
        place sorted[SF_MAX_NDIM];
        for (int32_t d = 0; d < count; d++) {
                int32_t at = d;
                place p = seq[d];
                if (dim_of(w, 0, &p).x < 0)
                        flip(w, &p);
                for (; at > 0 && dim_of(w, 0, &p).x > dim_of(w, 0, &sorted[at - 1]).x; at--)
                        sorted[at] = sorted[at - 1];
                sorted[at] = p;
        }
        int32_t kept = 0;
        for (int32_t d = 0; d < count; d++) {
                place p = sorted[d];
                if (kept && merges(w, &seq[kept - 1], &p))
                        p.len *= seq[--kept].len;
                seq[kept++] = p;
        }
        return kept;
}

/* May the elements of a sequence be visited in any order, with the same bits? */
static bool is_free(const work *w)
{
        const sf_step *s = w->step;
        return w->count == 1 && s->n && !w->views->fuse && s->fold && sf_op_is(s->op, SF_COMMUTES) && sf_op_free(s->op, s->acc) &&
               !sf_op_is(s->op, SF_INDEX);
}

static void make_geometry(const work *w)
{
        const sf_step_views *v = w->views;
        place batch[SF_MAX_NDIM], seq[SF_MAX_NDIM];
        int32_t nbatch = 0, nseq = 0;
        start_steps(w);
        for (int32_t d = 0; d < v->x->ndim; d++) {
                bool in_seq = v->axes >> d & 1;
                place p = {v->x->shape[d], d, false};
                if (p.len == 1 && !is_cut(v, &p))
                        continue;
                if ((in_seq ? v->reverse : goes_down(w, &p)) && p.len > 0)
                        flip(w, &p);
                if (in_seq) {
                        if (nseq && merges(w, &seq[nseq - 1], &p))
                                p.len *= seq[--nseq].len;
                        seq[nseq++] = p;
                } else {
                        int32_t at = nbatch++;
                        for (; at > 0 && walks_outside(w, &p, &batch[at - 1]); at--)
                                batch[at] = batch[at - 1];
                        batch[at] = p;
                }
        }
        if (nseq > 1 && is_free(w))
                nseq = as_memory_lies(w, seq, nseq);
        int32_t kept = 0;
        for (int32_t d = 0; d < nbatch; d++) {
                place p = batch[d];
                if (kept && merges(w, &batch[kept - 1], &p))
                        p.len *= batch[--kept].len;
                batch[kept++] = p;
        }
        finish_steps(w, kept, batch, nseq, seq);
}

void sf_step_geometry(sf_step *step, const sf_step_views *views)
{
        make_geometry(&(work){1, step, views});
}

void sf_chain_geometry(int32_t count, sf_step *steps, const sf_step_views *views)
{
        sf_step *stage = steps;
        make_geometry(&(work){count, steps, views});
        for (int32_t i = 0; i < count; i++) {
                steps[i].sibling = i + 1 < count && !views[i + 1].follows ? &steps[i + 1] : NULL;
                steps[i].then = NULL;
                if (i && views[i].follows) {
                        stage->then = &steps[i];
                        stage = &steps[i];
                }
        }
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
        bool same = a->segments.offsets == b->segments.offsets && a->segments.count == b->segments.count && a->n == b->n && a->batch == b->batch && a->nbatch == b->nbatch && a->nseq == b->nseq && fa->operands == fb->operands;
        for (int32_t d = 0; same && d < a->nbatch + a->nseq; d++)
                same = a->dims[d].len == b->dims[d].len;
        for (int32_t k = 0; same && k < fa->operands; k++) {
                same = fa->operand[k].data == fb->operand[k].data && fa->operand[k].dt == fb->operand[k].dt &&
                       fa->operand[k].segment == fb->operand[k].segment &&
                       fa->operand[k].lacks_last == fb->operand[k].lacks_last;
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
        f->operand[0].made = 0;
        f->operand[0].segment = 0;
        f->operand[0].lacks_last = false;
        for (int32_t d = 0; d < s->nbatch + s->nseq; d++)
                f->operand[0].stride[d] = s->dims[d].x;
        f->load_reads = 1;
        f->store_reads = 0;
        f->load.count = f->load.constants = f->store.count = f->store.constants = f->beside.count = f->beside.constants = 0;
}
