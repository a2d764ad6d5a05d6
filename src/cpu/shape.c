/* Chooses a step's shape: which dimension neighbours in memory belong to decides which kernels walk
 * it. See panel.h. */
#include "cpu/panel.h"

/* Fewer columns than this are gathered into rows, or walked interleaved. So are those of a matrix
 * with fewer than FEW_ELEMENTS elements, unless it is wide. */
#define FEW_COLUMNS 16
#define FEW_ELEMENTS 512
/* Bytes. Lanes of 1 and 2 bytes cannot be interleaved: shorter rows, and shorter runs of columns,
 * are faster many at a time in wider lanes. */
#define LEAST_RUN 48

int64_t sf_panels_length(const sf_panels *p, int32_t d)
{
        return d < 0 ? 1 : p->member[0].step->dims[d].len;
}

/* ---------------------------------------------------------------------------------------------
 * Straight: one plain step whose memory kernels can read and write as it is
 * ------------------------------------------------------------------------------------------- */

/* Is a dimension's stride this many elements, in all tensors that have it? */
static bool steps_by(const sf_panel_member *m, const sf_dim *dim, int64_t elements, bool with_y)
{
        return dim->x == elements * m->size && (!with_y || dim->y == elements * m->size) &&
               (!m->step->m || dim->m == elements);
}

/* Does a vector hold at least one whole sequence, or two rows that are folded, and are they back to
 * back? */
static bool packs(const sf_panels *p, const sf_panel_member *m)
{
        const sf_step *s = m->step;
        const int64_t cols = p->col < 0 ? 1 : s->dims[p->col].len, elements = s->n * cols;
        const int64_t results = s->fold ? cols : elements;
        const sf_dim *line = p->line < 0 ? NULL : &s->dims[p->line];
        return line && !s->lefts && !s->values && (s->fold && cols == 1 ? 2 : 1) * elements <= m->kernels->width &&
               line->x == elements * m->size && (!s->m || line->m == elements) &&
               line->y == results * m->size;
}

bool sf_shape_straight(sf_panels *p, sf_panel_member *m, const sf_step *s)
{
        const sf_dim *seq = &s->dims[s->nbatch], *last = s->nbatch ? seq - 1 : NULL;
        const int64_t sign = seq->x < 0 ? -1 : 1;
        p->reverse = sign < 0;
        p->col = -1;
        p->line = s->nbatch - 1;
        /* A sequence of one element has no direction: any stride is accepted. */
        const bool packed = m->kernels->scan_packed;
        if (s->n == 1 || steps_by(m, seq, sign, !s->fold)) {
                if (!packed && s->n * m->size < LEAST_RUN)
                        return false;
                p->shape = packed && packs(p, m) ? SF_PANEL_PACKED : SF_PANEL_ROWS;
                return true;
        }
        if (!last || !steps_by(m, last, 1, true))
                return false;
        if (!packed && last->len * m->size < LEAST_RUN)
                return false;
        p->col = s->nbatch - 1;
        p->line = s->nbatch > 1 ? s->nbatch - 2 : -1;
        if (packed && 2 * last->len <= m->kernels->width && steps_by(m, seq, sign * last->len, !s->fold)) {
                p->shape = packs(p, m) ? SF_PANEL_PACKED : SF_PANEL_NARROW;
                return true;
        }
        p->reverse = false;
        p->shape = SF_PANEL_COLUMNS;
        return true;
}

/* ---------------------------------------------------------------------------------------------
 * Panels
 * ------------------------------------------------------------------------------------------- */

/* The cost of walking along dimension d: none for operands that are constant, little for contiguous
 * ones, much for others. */
static int64_t cost_along(const sf_panels *p, int32_t d)
{
        const sf_fuse *f = p->member[0].fuse;
        int64_t cost = 0;
        for (int32_t k = 0; k < f->operands; k++) {
                int64_t stride = sf_magnitude(f->operand[k].stride[d]);
                cost += !stride ? 0 : stride == sf_dtypes[f->operand[k].dt].size ? 2 : 16;
        }
        for (int32_t i = 0; i < p->members; i++) {
                const sf_step *s = p->member[i].step;
                if (!s->fold)
                        cost += sf_magnitude(s->dims[d].y) == sf_dtypes[s->out].size ? 2 : 16;
        }
        return cost;
}

/* Do addresses go down along the sequence, in all tensors that vary along it? */
static bool goes_down(const sf_panels *p)
{
        const sf_fuse *f = p->member[0].fuse;
        bool down = false, up = p->nseq > 1;
        for (int32_t k = 0; k < f->operands; k++) {
                down = down || f->operand[k].stride[p->seq] < 0;
                up = up || f->operand[k].stride[p->seq] > 0;
        }
        for (int32_t i = 0; i < p->members; i++)
                up = up || p->member[i].step->dims[p->seq].y > 0;
        return down && !up;
}

/* Are the positions of dimension `d`, with the columns of `col` inside it, back to back in all
 * tensors? */
static bool back_to_back(const sf_panels *p, int32_t d, int32_t col)
{
        const sf_fuse *f = p->member[0].fuse;
        const int64_t cols = sf_panels_length(p, col);
        bool same = true;
        for (int32_t k = 0; same && k < f->operands; k++)
                same = sf_magnitude(f->operand[k].stride[d]) == cols * f->operand[k].stride[col];
        for (int32_t i = 0; same && i < p->members; i++) {
                const sf_step *s = p->member[i].step;
                same = s->fold || sf_magnitude(s->dims[d].y) == cols * s->dims[col].y;
        }
        return same;
}

/* Few columns: interleaved (narrow), or a lane each (columns)? Rows if neither is worth it. */
static sf_panel_shape across(const sf_panels *p, int32_t col)
{
        const int64_t width = p->isa->vector_bytes / p->widest;
        const int64_t cols = sf_panels_length(p, col), elements = p->n * cols;
        const bool dense = back_to_back(p, p->seq, col);
        if (2 * cols <= width && p->nseq == 1 && elements >= FEW_ELEMENTS / 2 && dense)
                return SF_PANEL_NARROW;
        if (elements >= FEW_ELEMENTS ? 2 * cols >= width : cols >= 8 * FEW_COLUMNS)
                return SF_PANEL_COLUMNS;
        return SF_PANEL_ROWS;
}

static bool have_packed(const sf_panels *p)
{
        bool all = true;
        for (int32_t i = 0; i < p->members; i++)
                all = all && p->member[i].kernels->scan_packed;
        return all;
}

void sf_shape_panel(sf_panels *p)
{
        const int32_t last = p->nbatch - 1;
        const sf_dim *dims = p->member[0].step->dims;
        p->reverse = false;
        p->col = last;
        p->line = last > 0 ? last - 1 : -1;
        if (p->shape == SF_PANEL_MAP)
                return;
        p->shape = SF_PANEL_ROWS;
        if (last >= 0 && cost_along(p, last) < cost_along(p, p->seq))
                p->shape = across(p, last);
        p->reverse = p->shape != SF_PANEL_COLUMNS && goes_down(p);
        if (p->shape != SF_PANEL_ROWS)
                return;
        /* Lines are along the last dimension, or, if that is short, along the longest, so that
         * pieces are not tiny. */
        p->col = -1;
        p->line = last;
        for (int32_t d = 0; last >= 0 && dims[last].len < FEW_COLUMNS && d < last; d++)
                if (dims[d].len > dims[p->line].len)
                        p->line = d;
        if (2 * p->n * p->widest <= p->isa->vector_bytes && last >= 0 && !sf_panels_apart(p) && !p->cut && have_packed(p))
                p->shape = SF_PANEL_PACKED;
}

bool sf_shape_shares(const sf_panels *p, int32_t still, int32_t moving)
{
        const sf_fuse *f = p->member[0].fuse;
        bool found = false;
        for (int32_t k = 0; still >= 0 && moving >= 0 && k < f->operands; k++)
                found = found || (!f->operand[k].stride[still] && f->operand[k].stride[moving]);
        return found;
}

bool sf_shape_crossed(const sf_panels *p)
{
        const sf_fuse *f = p->member[0].fuse;
        bool found = false;
        for (int32_t k = 0; p->line >= 0 && k < f->operands; k++)
                found = found || f->operand[k].stride[p->line] == sf_dtypes[f->operand[k].dt].size;
        for (int32_t i = 0; p->line >= 0 && i < p->members; i++) {
                const sf_step *s = p->member[i].step;
                found = found || (!s->fold && s->dims[p->line].y == sf_dtypes[s->out].size);
        }
        return found;
}

/* ---------------------------------------------------------------------------------------------
 * Lanes
 * ------------------------------------------------------------------------------------------- */
void sf_shape_lanes(sf_panels *p, sf_panel_member *m)
{
        const int32_t width = m->kernels->width, lane = m->kernels->lane_bytes;
        const int32_t cols = (int32_t)sf_panels_length(p, p->col);
        const bool packed = p->shape == SF_PANEL_PACKED;
        m->lanes = sf_lanes_whole(p->isa->whole, lane, p->reverse);
        if (p->shape != SF_PANEL_NARROW && !packed)
                return;
        const int32_t rows = packed ? (int32_t)p->n : (int32_t)sf_power_below(width / cols);
        const int32_t groups = packed ? width / (rows * cols) : 1;
        if (rows == width && cols == 1)
                return;
        m->lanes = &m->own;
        sf_lanes_make(&m->own, p->isa->vector_bytes, lane, p->isa->permute_bytes, groups, rows,
                      cols, p->reverse);
}
