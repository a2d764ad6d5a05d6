/* A block's panel: its scratch memory, and the programs that fill it from memory and store it
 * again. See panel.h. */
#include "cpu/panel.h"

#include "core/value.h"
#include "core/walk.h"

/* Padding after each entry of a strip's counter, an odd number of cache lines. If entries were a
 * power of two apart, they would share a few sets of the first-level cache, and a load from one
 * might wait for a store to another. 3 and 7 lines measured alike. */
#define ENTRY_PADDING (7 * 64)

/* ---------------------------------------------------------------------------------------------
 * Scratch
 * ------------------------------------------------------------------------------------------- */
int64_t sf_panel_values(const sf_panels *p, const sf_panel_member *m)
{
        const int64_t width = m->kernels->width;
        return sf_panel_in_columns(p) ? sf_parts(p->cols, width) * width : width;
}

int64_t sf_panel_total_bytes(const sf_panels *p, const sf_panel_member *m)
{
        return sf_panel_values(p, m) * sf_value_bytes(m->kernels);
}

static size_t grow(size_t *total, int64_t bytes)
{
        size_t at = *total;
        *total += ((size_t)bytes + 127) / 64 * 64;
        return at;
}

size_t sf_panel_scratch(sf_panels *p)
{
        const bool columns = sf_panel_in_columns(p);
        const int64_t elements = (columns ? 1 : p->lines) * p->block * p->cols;
        const int64_t rows = p->whole && !columns ? SF_CPU_FOLD_GROUP : p->lines;
        size_t total = 0;
        for (int32_t k = 0; p->cut && k < p->member[0].fuse->operands; k++) {
                const sf_operand *x = &p->member[0].fuse->operand[k];
                p->spread[k] = grow(&total, p->spreads >> k & 1 ? elements * sf_dtypes[x->dt].size + SF_PANEL_PAST : 0);
        }
        for (int32_t i = 0; i < p->members; i++) {
                sf_panel_member *m = &p->member[i];
                const bool direct = p->shape != SF_PANEL_MAP && !p->cut && sf_panel_direct(m);
                const bool panel = !p->straight && !m->through && !direct;
                m->panel = grow(&total, m->best ? p->lines * 2 * (int64_t)sizeof(uint64_t) : panel ? elements * m->size : 0);
                if (p->shape == SF_PANEL_MAP)
                        continue;
                m->entry_bytes = sf_panel_total_bytes(p, m) + (columns ? ENTRY_PADDING : 0);
                m->counter_bytes = (columns ? p->levels : SF_ORDER_LEVELS) * m->entry_bytes;
                if (!m->reads) {
                        m->other = grow(&total, m->kernels->two ? elements * m->size : 0);
                        m->apart = (int64_t)m->other - (int64_t)m->panel;
                }
                m->gathered = grow(&total, m->gathers ? elements * m->size : 0);
                m->mask = grow(&total, m->step->m && !m->masks ? elements : 0);
                const int64_t each = m->step->values ? sf_panel_total_bytes(p, m) : p->straight ? 0 : p->cols * m->size;
                m->totals = grow(&total, (p->cut ? sf_panels_cuts(p) : p->lines) * each);
                m->empty = grow(&total, p->cut ? p->cols * m->size : 0);
                m->counters = grow(&total, rows * m->counter_bytes);
                m->carries = grow(&total, p->carries * (int64_t)sizeof(sf_carry));
                m->entries = grow(&total, p->carries * p->entries * m->entry_bytes);
                m->left = grow(&total, p->chunk ? p->entries * sf_panel_total_bytes(p, m) : 0);
                if (m->after < 0)
                        continue;
                sf_panel_member *n = &p->numbers[i];
                n->panel = m->other;
                n->gathered = m->gathered;
                n->counters = m->counters;
                n->entry_bytes = m->entry_bytes;
                n->counter_bytes = m->counter_bytes;
                n->carries = grow(&total, p->carries * (int64_t)sizeof(sf_carry));
                n->entries = grow(&total, p->carries * 2 * m->entry_bytes);
        }
        return total;
}

/* ---------------------------------------------------------------------------------------------
 * Programs fill a panel and empty it
 * ------------------------------------------------------------------------------------------- */

int64_t sf_panel_pitch(const sf_panels *p, const sf_piece *piece)
{
        return sf_panel_in_columns(p) ? piece->cols : sf_smaller(p->block, piece->n) * piece->cols;
}

int64_t sf_panel_line_at(const sf_panels *p, const sf_block *b)
{
        return (sf_panel_in_columns(p) ? 0 : b->line * sf_panel_pitch(p, b->piece)) + b->panel * b->piece->cols;
}

/* An operand that has one element for each segment: repeated in scratch, laid out as panels are; or,
 * if the block is of one segment, that segment's. */
static struct sf_fused_side side_of_segments(const sf_walker *w, const sf_block *b, int32_t k)
{
        const sf_panels *p = w->p;
        const sf_operand *x = &b->m->fuse->operand[k];
        const int64_t size = sf_dtypes[x->dt].size, cols = b->piece->cols;
        if (b->segment)
                return (struct sf_fused_side){b->piece->in[k].at + (b->segment - 1) * x->segment, 0, p->col < 0 ? 0 : x->stride[p->col]};
        return (struct sf_fused_side){w->scratch + p->spread[k] + b->panel * cols * size, cols * size, size};
}

/* The part of a block that a program works on: positions by columns or, without columns, lines by
 * positions. `at` is where its memory begins, in reverse at its last position. If `at` is NULL: one
 * position, lines by columns. It has no sides but those of operands: a block may be small, and to
 * set all of them would take as long as to work on it. */
static void box_of(const sf_walker *w, const sf_block *b, const int64_t *at, int64_t count, sf_fused_box *box)
{
        const sf_panels *p = w->p;
        const sf_piece *piece = b->piece;
        const bool across = p->col >= 0;
        const int64_t sign = p->reverse ? -1 : 1;
        box->rows = across && at ? count : piece->lines;
        box->cols = across ? piece->cols : at ? count : 1;
        box->soon.at = NULL;
        box->next = 0;
        box->stream = false;
        for (int32_t k = 0; k < b->m->fuse->operands; k++) {
                const int64_t *stride = b->m->fuse->operand[k].stride, line = piece->in[k].line;
                const int64_t seq = at ? sign * stride[p->seq] : 0;
                struct sf_fused_side *side = &box->in[k];
                if (at && b->m->fuse->operand[k].segment) {
                        *side = side_of_segments(w, b, k);
                        continue;
                }
                *side = (struct sf_fused_side){.at = piece->in[k].at};
                if (!side->at) /* no elements: a fold of an empty sequence */
                        continue;
                side->at += (at ? b->line : 0) * line;
                for (int32_t d = 0; at && d < p->nseq; d++)
                        side->at += at[d] * stride[p->nbatch + d];
                side->row = across && at ? seq : line;
                side->col = across ? stride[p->col] : seq;
        }
}

/* The destination of a box that has the positions from `position` on. */
static void write_to(const sf_walker *w, const sf_block *b, int64_t position, sf_fused_box *box)
{
        const sf_panels *p = w->p;
        const sf_dim *dims = b->m->step->dims;
        const int64_t seq = p->reverse ? -dims[p->seq].y : dims[p->seq].y;
        box->y = b->of->y + b->line * b->of->y_line + position * dims[p->seq].y;
        box->y_row = p->col >= 0 ? seq : b->of->y_line;
        box->y_col = p->col >= 0 ? dims[p->col].y : seq;
        box->stream = p->stream_programs;
}

/* What a load program prefetches. */
static void add_soon(const sf_walker *w, const sf_panel_member *m, sf_fused_box *box)
{
        const sf_shift *shift = w->shift;
        if (!shift || !shift->ahead)
                return;
        const struct sf_fused_side *side = &box->in[shift->near];
        box->soon = *side;
        box->soon.at = (const char *)((uintptr_t)side->at + (uintptr_t)shift->ahead);
        if (side->col != sf_dtypes[m->fuse->operand[shift->near].dt].size)
                box->soon.at = NULL;
        box->next = shift->all ? shift->ahead : 0;
}

sf_numbers sf_panel_numbers(const sf_panels *p, const sf_block *b)
{
        const sf_piece *piece = b->piece;
        const sf_step *s = b->m->step;
        const int64_t n = p->cut ? b->length : p->n;
        const int64_t at = p->cut ? b->start : s->before + piece->base + b->line * piece->base_line + piece->from + b->first;
        return s->reverse ? (sf_numbers){s->before + n + s->after - 1 - at, -piece->base_line, -1}
                                   : (sf_numbers){at, piece->base_line, 1};
}

/* Are numbers stored beside the elements of such a block? Most folds do not need that. */
static bool is_numbered(const sf_panels *p, const sf_block *b)
{
        return sf_op_is(b->m->step->op, SF_INDEX) && (!sf_panel_folds(b) || p->shape == SF_PANEL_PACKED || p->cut);
}

void sf_panel_number(const sf_walker *w, const sf_block *b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b->m;
        const sf_piece *piece = b->piece;
        const int64_t across = p->col >= 0 ? piece->cols : 1;
        sf_numbers n = sf_panel_numbers(p, b);
        n.at += p->reverse ? (b->count - 1) * n.step : 0; /* panels are in memory's order */
        n.step = p->reverse ? -n.step : n.step;
        for (int64_t line = b->line; line < (p->col >= 0 ? b->line + 1 : piece->lines); line++, n.at += n.row) {
                const int64_t to = (sf_panel_in_columns(p) ? 0 : line * sf_panel_pitch(p, piece)) + b->panel * across;
                char *y = w->scratch + m->other + to * m->size;
                p->isa->map->number(y, m->size, n.at, n.step, b->count * across, across);
        }
}

/* Loads a block into the panel, of one line or, without columns, of all: in runs along the
 * sequence's innermost dimension. */
void sf_panel_load(const sf_walker *w, const sf_block *b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b->m;
        const sf_piece *piece = b->piece;
        const sf_dim *dims = m->step->dims, *seq = &dims[p->seq];
        const int64_t row = p->col >= 0 ? piece->cols : sf_panel_pitch(p, piece);
        const int64_t begin = piece->from + b->first + (p->reverse ? b->count - 1 : 0);
        const int64_t m_seq = p->reverse ? -seq->m : seq->m;
        if (is_numbered(p, b) && !p->cut)
                sf_panel_number(w, b);
        for (int64_t done = 0, run; done < b->count; done += run) {
                sf_walk at;
                sf_walk_start(&at, dims + p->nbatch, p->nseq, begin + done);
                run = b->count - done;
                if (p->nseq > 1) /* with one dimension a piece never goes past its end */
                        run = sf_smaller(run, seq->len - at.at[p->nseq - 1]);
                const int64_t to = sf_panel_line_at(p, b) + done * piece->cols;
                sf_fused_box box;
                box_of(w, b, at.at, run, &box);
                box.y = w->scratch + m->panel + to * m->size;
                box.y_row = row * m->size;
                box.y_col = m->size;
                if (m->through)
                        write_to(w, b, begin + done, &box);
                add_soon(w, m, &box);
                if (!m->reads)
                        sf_fused_eval(w->machine, &m->load, m->load_constants, &box);
                if (sf_op_is(m->step->op, SF_TWO)) {
                        box.y = w->scratch + m->other + to * m->size;
                        sf_fused_eval(w->machine, &m->beside, m->beside_constants, &box);
                }
                if (m->step->m && !m->masks)
                        sf_fused_move(p->isa->map->mover(SF_DT_U8, SF_DT_U8),
                                      (const char *)b->of->m + b->line * b->of->m_line + at.m,
                                      p->col >= 0 ? m_seq : b->of->m_line,
                                      p->col >= 0 ? dims[p->col].m : m_seq,
                                      w->scratch + m->mask + to, row, 1, box.rows, box.cols);
        }
}

/* Stores the panel to memory. Only for scans, whose sequences have one dimension. */
void sf_panel_store(const sf_walker *w, const sf_block *b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b->m;
        const int64_t cols = b->piece->cols;
        const int64_t position = b->piece->from + b->first + (p->reverse ? b->count - 1 : 0);
        const char *result = w->scratch + (m->gathers ? m->gathered : m->after >= 0 ? m->other : m->panel) +
                             sf_panel_line_at(p, b) * m->size;
        sf_fused_box box;
        box_of(w, b, &position, b->count, &box);
        write_to(w, b, position, &box);
        /* contiguous in scratch as in memory; in columns, addresses may go down */
        if (m->gathers) {
                char *y = box.y + (sf_panel_in_columns(p) && box.y_row < 0 ? (b->count - 1) * box.y_row : 0);
                p->isa->map->stream(y, result, box.rows * box.cols * m->size, result);
                return;
        }
        box.in[SF_FUSED_RESULT] = (struct sf_fused_side){
                result, (p->col >= 0 ? cols : sf_panel_pitch(p, b->piece)) * m->size, m->size};
        sf_fused_eval(w->machine, &m->store, m->store_constants, &box);
}

/* One position of all lines, in runs as long as possible. */
static void box_of_lines(const sf_walker *w, const sf_block *b, const char *result, sf_fused_box *box)
{
        const sf_panels *p = w->p;
        const int64_t size = b->m->size;
        struct sf_fused_side *own = &box->in[SF_FUSED_RESULT];
        box_of(w, b, NULL, 1, box);
        *own = (struct sf_fused_side){result, box->cols * size, size};
        box->y = b->of->y;
        box->y_row = b->of->y_line;
        box->y_col = p->col >= 0 ? b->m->step->dims[p->col].y : 0;
        if (p->col >= 0)
                return;
        box->cols = box->rows; /* there is one column: the lines become the row */
        box->rows = 1;
        for (int32_t k = 0; k < b->m->fuse->operands; k++)
                box->in[k].col = box->in[k].row;
        own->col = own->row;
        box->y_col = box->y_row;
}

void sf_panel_store_totals(const sf_walker *w, const sf_block *b, const char *totals)
{
        const sf_panel_member *m = b->m;
        sf_fused_box box;
        box_of_lines(w, b, totals, &box);
        /* So many results: an ordinary store would first read their cache lines. */
        if (m->streams && box.y_col == m->size &&
            (box.rows == 1 || box.y_row == box.cols * m->size))
                w->p->isa->map->stream(box.y, totals, box.rows * box.cols * m->size, totals);
        else
                sf_fused_eval(w->machine, &m->store, m->store_constants, &box);
}

void sf_panel_map(const sf_walker *w, const sf_block *b)
{
        const sf_panel_member *m = b->m;
        sf_fused_box box;
        box_of_lines(w, b, NULL, &box);
        box.stream = w->p->stream_programs && m->through;
        add_soon(w, m, &box);
        if (!m->through) {
                box.y = w->scratch + m->panel;
                box.y_row = box.cols * m->size;
                box.y_col = m->size;
        }
        sf_fused_eval(w->machine, &m->load, m->load_constants, &box);
        if (!m->through)
                sf_panel_store_totals(w, b, box.y);
}
