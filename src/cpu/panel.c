/* One piece of work: blocks loaded into a panel, scanned or folded there, stored. See panel.h. */
#include "cpu/panel.h"

#include "core/value.h"
#include "core/walk.h"

#include <string.h>

/* Between the entries of a strip's counter, an odd number of cache lines. A power of two apart,
 * they would share a few sets of the first cache, and a load from one may be held up by a store to
 * another. 3 and 7 lines measured alike. */
#define ENTRY_PADDING (7 * 64)

static bool in_columns(const sf_panels *p)
{
        return p->shape == SF_PANEL_COLUMNS;
}

/* ---------------------------------------------------------------------------------------------
 * Scratch
 * ------------------------------------------------------------------------------------------- */
int64_t sf_panel_values(const sf_panels *p, const sf_panel_member *m)
{
        const int64_t width = m->kernels->width;
        return in_columns(p) ? sf_parts(p->cols, width) * width : width;
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
        const bool columns = in_columns(p);
        const int64_t elements = (columns ? 1 : p->lines) * p->block * p->cols;
        const int64_t rows = p->whole && !columns ? SF_CPU_FOLD_GROUP : p->lines;
        size_t total = 0;
        for (int32_t k = 0; p->spreads && k < p->member[0].fuse->operands; k++) {
                const sf_operand *x = &p->member[0].fuse->operand[k];
                p->spread[k] = grow(&total, x->segment ? elements * sf_dtypes[x->dt].size : 0);
        }
        for (int32_t i = 0; i < p->members; i++) {
                sf_panel_member *m = &p->member[i];
                const bool panel = !p->straight && !m->through;
                m->panel = grow(&total, panel ? elements * m->size : 0);
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
                m->totals = grow(&total, (p->cut ? p->block : p->lines) * each);
                m->empty = grow(&total, p->cut ? p->cols * m->size : 0);
                m->counters = grow(&total, rows * m->counter_bytes);
                m->carries = grow(&total, p->carries * (int64_t)sizeof(sf_carry));
                m->entries = grow(&total, p->carries * p->entries * m->entry_bytes);
                m->left = grow(&total, p->chunk ? p->entries * sf_panel_total_bytes(p, m) : 0);
        }
        return total;
}

/* ---------------------------------------------------------------------------------------------
 * Programs fill a panel and empty it
 * ------------------------------------------------------------------------------------------- */

/* Elements between the first elements of two rows of the panel: a line's, or in columns a
 * position's. */
static int64_t pitch_of(const sf_panels *p, const sf_piece *piece)
{
        return in_columns(p) ? piece->cols : sf_smaller(p->block, piece->n) * piece->cols;
}

/* Where in the panel a line's block begins, in elements. */
static int64_t line_in_panel(const sf_panels *p, const sf_block *b)
{
        return (in_columns(p) ? 0 : b->line * pitch_of(p, b->piece)) + b->panel * b->piece->cols;
}

/* A box of a block: positions by columns, or without columns lines by positions. `at` is where its
 * memory begins: in reverse its last position. NULL: one position, by lines and columns. */
static sf_fused_box box_of(const sf_walker *w, const sf_block *b, const int64_t *at, int64_t count)
{
        const sf_panels *p = w->p;
        const sf_piece *piece = b->piece;
        const bool across = p->col >= 0;
        const int64_t sign = p->reverse ? -1 : 1;
        sf_fused_box box = {.rows = across && at ? count : piece->lines,
                            .cols = across ? piece->cols : at ? count : 1};
        for (int32_t k = 0; k < b->m->fuse->operands; k++) {
                const int64_t *stride = b->m->fuse->operand[k].stride, line = piece->in[k].line;
                const int64_t seq = at ? sign * stride[p->seq] : 0;
                struct sf_fused_side *side = &box.in[k];
                if (at && b->m->fuse->operand[k].segment) { /* spread out, as panels are */
                        const int64_t size = sf_dtypes[b->m->fuse->operand[k].dt].size;
                        *side = (struct sf_fused_side){w->scratch + p->spread[k], piece->cols * size, size, 0, false};
                        continue;
                }
                if (!piece->in[k].at) /* of no elements: a fold of nothing */
                        continue;
                side->at = piece->in[k].at + (at ? b->line : 0) * line;
                for (int32_t d = 0; at && d < p->nseq; d++)
                        side->at += at[d] * stride[p->nbatch + d];
                side->row = across && at ? seq : line;
                side->col = across ? stride[p->col] : seq;
                side->ahead = at ? p->block * stride[p->seq] : 0;
        }
        return box;
}

/* The numbers of a block's elements: their positions, counted from the axis's beginning. */
static sf_numbers numbers_of(const sf_panels *p, const sf_block *b)
{
        const sf_piece *piece = b->piece;
        const sf_step *s = b->m->step;
        const int64_t n = p->cut ? b->length : p->n;
        const int64_t at = p->cut ? b->start : s->before + piece->base + b->line * piece->base_line + piece->from + b->first;
        return s->reverse ? (sf_numbers){s->before + n + s->after - 1 - at, -piece->base_line, -1}
                                   : (sf_numbers){at, piece->base_line, 1};
}

/* Is only the total of the piece wanted? */
static bool folds(const sf_block *b)
{
        return b->m->step->fold || b->piece->totals;
}

/* Do numbers stand beside the elements of such a block? Most folds need none there. */
static bool is_numbered(const sf_panels *p, const sf_block *b)
{
        return sf_op_is(b->m->step->op, SF_INDEX) && (!folds(b) || p->shape == SF_PANEL_PACKED || p->cut);
}

void sf_panel_number(const sf_walker *w, const sf_block *b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b->m;
        const sf_piece *piece = b->piece;
        const int64_t across = p->col >= 0 ? piece->cols : 1;
        sf_numbers n = numbers_of(p, b);
        n.at += p->reverse ? (b->count - 1) * n.step : 0; /* panels are filled as memory is */
        n.step = p->reverse ? -n.step : n.step;
        for (int64_t line = b->line; line < (p->col >= 0 ? b->line + 1 : piece->lines); line++, n.at += n.row) {
                const int64_t to = (in_columns(p) ? 0 : line * pitch_of(p, piece)) + b->panel * across;
                char *y = w->scratch + m->other + to * m->size;
                if (across == 1)
                        p->isa->map->number(y, m->size, n.at, n.step, b->count);
                else
                        for (int64_t i = 0; i < b->count; i++)
                                p->isa->map->number(y + i * across * m->size, m->size, n.at + i * n.step, 0, across);
        }
}

/* A block into the panel, of one line or without columns of all: runs along the sequence's
 * innermost dimension. */
void sf_panel_load(const sf_walker *w, const sf_block *b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b->m;
        const sf_piece *piece = b->piece;
        const sf_dim *dims = m->step->dims, *seq = &dims[p->seq];
        const int64_t row = p->col >= 0 ? piece->cols : pitch_of(p, piece);
        const int64_t begin = piece->from + b->first + (p->reverse ? b->count - 1 : 0);
        const int64_t m_seq = p->reverse ? -seq->m : seq->m;
        if (is_numbered(p, b) && !p->cut)
                sf_panel_number(w, b);
        for (int64_t done = 0, run; done < b->count; done += run) {
                sf_walk at;
                sf_walk_start(&at, dims + p->nbatch, p->nseq, begin + done);
                run = b->count - done;
                if (p->nseq > 1) /* with one dimension a piece never runs past its end */
                        run = sf_smaller(run, seq->len - at.at[p->nseq - 1]);
                const int64_t to = line_in_panel(p, b) + done * piece->cols;
                sf_fused_box box = box_of(w, b, at.at, run);
                box.y = w->scratch + m->panel + to * m->size;
                box.y_row = row * m->size;
                box.y_col = m->size;
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

/* The panel to memory; scans only, whose sequences have one dimension. */
void sf_panel_store(const sf_walker *w, const sf_block *b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b->m;
        const sf_dim *dims = m->step->dims;
        const int64_t seq = p->reverse ? -dims[p->seq].y : dims[p->seq].y, cols = b->piece->cols;
        const int64_t position = b->piece->from + b->first + (p->reverse ? b->count - 1 : 0);
        const char *result = w->scratch + (m->gathers ? m->gathered : m->panel) +
                             line_in_panel(p, b) * m->size;
        char *y = b->of->y + b->line * b->of->y_line + position * dims[p->seq].y;
        sf_fused_box box = box_of(w, b, &position, b->count);
        if (m->gathers) { /* back to back in scratch as in memory, down in columns that go down */
                y += in_columns(p) && seq < 0 ? (b->count - 1) * seq : 0;
                p->isa->map->stream(y, result, box.rows * box.cols * m->size, result);
                return;
        }
        box.in[SF_FUSED_RESULT] = (struct sf_fused_side){
                result, (p->col >= 0 ? cols : pitch_of(p, b->piece)) * m->size, m->size, 0, false};
        box.y = y;
        box.y_row = p->col >= 0 ? seq : b->of->y_line;
        box.y_col = p->col >= 0 ? dims[p->col].y : seq;
        box.stream = p->stream;
        sf_fused_eval(w->machine, &m->store, m->store_constants, &box);
}

/* The box of one position of all lines, as long runs as can be. */
static sf_fused_box box_of_lines(const sf_walker *w, const sf_block *b, const char *result)
{
        const sf_panels *p = w->p;
        const int64_t size = b->m->size;
        sf_fused_box box = box_of(w, b, NULL, 1);
        box.in[SF_FUSED_RESULT] = (struct sf_fused_side){result, box.cols * size, size, 0, false};
        box.y = b->of->y;
        box.y_row = b->of->y_line;
        box.y_col = p->col >= 0 ? b->m->step->dims[p->col].y : 0;
        if (p->col >= 0)
                return box;
        box.cols = box.rows; /* one column: the lines are the row */
        box.rows = 1;
        for (int32_t k = 0; k < SF_FUSED_SOURCES; k++)
                box.in[k].col = box.in[k].row;
        box.y_col = box.y_row;
        return box;
}

void sf_panel_store_totals(const sf_walker *w, const sf_block *b, const char *totals)
{
        const sf_panel_member *m = b->m;
        const sf_fused_box box = box_of_lines(w, b, totals);
        /* So many results would each first be read. */
        if (m->streams && box.y_col == m->size &&
            (box.rows == 1 || box.y_row == box.cols * m->size))
                w->p->isa->map->stream(box.y, totals, box.rows * box.cols * m->size, totals);
        else
                sf_fused_eval(w->machine, &m->store, m->store_constants, &box);
}

/* Sequences of one element: in and out again. */
static void run_map(const sf_walker *w, const sf_block *b)
{
        const sf_panel_member *m = b->m;
        sf_fused_box box = box_of_lines(w, b, NULL);
        box.stream = w->p->stream && m->through;
        for (int32_t k = 0; w->shift && k < m->fuse->operands; k++) {
                box.in[k].ahead = w->shift->ahead[k];
                box.in[k].all = true;
        }
        if (!m->through) {
                box.y = w->scratch + m->panel;
                box.y_row = box.cols * m->size;
                box.y_col = m->size;
        }
        sf_fused_eval(w->machine, &m->load, m->load_constants, &box);
        if (!m->through)
                sf_panel_store_totals(w, b, box.y);
}

/* ---------------------------------------------------------------------------------------------
 * What stands to the left of a piece
 * ------------------------------------------------------------------------------------------- */
sf_carry *sf_panel_carry(const sf_panel_member *m, char *scratch, int64_t r)
{
        return (sf_carry *)(void *)(scratch + m->carries) + r;
}

void sf_panel_first_fill(const sf_panels *p, const sf_panel_member *m, char *fill)
{
        const sf_step *s = m->step;
        /* initial + identity, as the last addition: not always the initial value itself (-0.0 + 0.0
         * is 0.0) */
        const sf_value first = sf_combine(s->op, s->acc, s->initial, s->identity);
        m->kernels->fill(fill, sf_panel_values(p, m), s->has_initial ? first : m->identity);
}

/* fill = what is in a carry's entries, all combined; there is room for one more behind them. */
static void fill_from(const sf_panels *p, const sf_panel_member *m, sf_carry *carry)
{
        const size_t bytes = (size_t)sf_panel_total_bytes(p, m);
        char *room = carry->fill - m->entry_bytes;
        memcpy(carry->fill, carry->entries, bytes);
        for (int32_t e = 1; e < carry->count; e++) {
                memcpy(room, carry->entries + e * carry->entry_stride, bytes);
                m->kernels->combine(room, carry->fill, sf_panel_values(p, m));
                memcpy(carry->fill, room, bytes);
        }
}

/* Of lines that are not of a shared axis: values to their left, the initial value, and what comes before the first element. */
static void make_carries(const sf_walker *w, const sf_piece *piece, int32_t member)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = &p->member[member];
        const sf_step *s = m->step;
        if (!s->has_initial && !s->exclusive && !s->lefts)
                return;
        for (int64_t r = 0; r < sf_smaller(piece->lines, p->carries); r++) {
                char *room = w->scratch + m->entries + r * p->entries * m->entry_bytes;
                sf_carry *carry = sf_panel_carry(m, w->scratch, r);
                *carry = (sf_carry){s->lefts + s->has_initial, room, m->entry_bytes, room + (p->entries - 1) * m->entry_bytes};
                for (int32_t e = 0; e < s->lefts; e++)
                        sf_panel_left(p, piece, member, r, e, room + e * m->entry_bytes);
                if (s->has_initial)
                        m->kernels->fill(room + s->lefts * m->entry_bytes, sf_panel_values(p, m), s->initial);
                if (s->exclusive && s->lefts)
                        fill_from(p, m, carry);
                else if (s->exclusive)
                        sf_panel_first_fill(p, m, carry->fill);
        }
}

/* ---------------------------------------------------------------------------------------------
 * Kernels
 * ------------------------------------------------------------------------------------------- */

/* Where a kernel reads, writes and finds its mask, what is to the left, and its counters. */
typedef struct place {
        const char *x;
        char *y;
        const uint8_t *m;
        int64_t x_step, y_step, m_step; /* to the next line, or in columns to the next position */
        const sf_carry *carry;
        char *counters;
} place;

static place place_of(const sf_walker *w, const sf_block *b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b->m;
        const sf_piece *piece = b->piece;
        const sf_step *s = m->step;
        const sf_dim *seq = &s->dims[p->seq];
        const bool columns = in_columns(p), left = s->has_initial || s->exclusive || s->lefts || piece->chunk;
        const int64_t pitch = pitch_of(p, piece), position = piece->from + b->first;
        const int64_t last = p->reverse ? (b->count - 1) * piece->cols : 0;
        const int64_t in_panel = line_in_panel(p, b) + last;
        char *panel = w->scratch + m->panel + in_panel * m->size;
        place at = {panel, panel, s->m ? (const uint8_t *)w->scratch + m->mask + in_panel : NULL,
                    pitch * m->size, pitch * m->size, pitch, NULL, w->scratch + m->counters};
        if (!p->whole || columns)
                at.counters += b->line * m->counter_bytes;
        if (left && !piece->totals)
                at.carry = sf_panel_carry(m, w->scratch,
                                          piece->carry + (p->carries > 1 ? b->line : 0));
        if (m->reads) {
                const int32_t k = m->load.copied;
                const int64_t step = m->fuse->operand[k].stride[p->seq];
                at.x = piece->in[k].at + b->line * piece->in[k].line + position * step;
                at.x_step = columns ? step : piece->in[k].line;
        }
        if (m->masks && s->m) {
                at.m = b->of->m + b->line * b->of->m_line + position * seq->m;
                at.m_step = columns ? seq->m : b->of->m_line;
        }
        if (piece->totals) {
                at.y_step = sf_panel_total_bytes(p, m);
                at.y = b->of->sums + b->line * at.y_step;
        } else if (m->gathers) {
                at.y = w->scratch + m->gathered + in_panel * m->size;
                at.y += columns && seq->y < 0 ? (1 - b->count) * seq->y : 0;
                at.y_step = columns ? seq->y : at.y_step;
        } else if (m->writes) {
                at.y = b->of->y + b->line * b->of->y_line + position * seq->y;
                at.y_step = columns ? seq->y : b->of->y_line;
        } else if (s->fold) {
                at.y = w->scratch + m->totals + b->line * piece->cols * m->size;
                at.y_step = piece->cols * m->size;
        }
        return at;
}

/* Is this not the end? A shared sequence's blocks that are whole never are, and wait for streamed
 * stores once, at the worker's end. */
static bool resumes(const sf_panels *p, const sf_block *b)
{
        return b->start + b->count < b->length ||
               (b->piece->chunk && !folds(b) && b->count == p->block);
}

sf_rows sf_panel_rows(const sf_walker *w, const sf_block *b, int64_t rows)
{
        const place at = place_of(w, b);
        const sf_panel_member *m = b->m;
        const bool fold = folds(b);
        return (sf_rows){.x = at.x, .y = at.y, .m = at.m,
                         .x_row = at.x_step, .y_row = at.y_step, .m_row = at.m_step,
                         .rows = rows, .n = b->count, .start = b->start,
                         .resume = resumes(w->p, b),
                         .exclusive = m->step->exclusive && !fold,
                         .stream = m->streams && !fold,
                         .raw = b->piece->totals,
                         .identity = m->identity, .turn = m->turn,
                         .beside = m->apart, .numbers = numbers_of(w->p, b),
                         .ahead = m->reads ? b->piece->ahead : 0,
                         .lanes = m->lanes,
                         .carry = at.carry, .carry_row = w->p->carries > 1,
                         .counters = at.counters, .slots = SF_CPU_FOLD_GROUP};
}

sf_columns sf_panel_columns(const sf_walker *w, const sf_block *b)
{
        const place at = place_of(w, b);
        const sf_panel_member *m = b->m;
        const bool fold = folds(b);
        /* The few columns before a cache line begins are not streamed: cpu.c. */
        const bool streams = m->streams && m->writes && b->piece->cols * m->size >= 64;
        return (sf_columns){.x = at.x, .y = at.y, .m = at.m,
                            .x_step = at.x_step, .y_step = at.y_step, .m_step = at.m_step,
                            .cols = b->piece->cols, .n = b->count, .start = b->start,
                            .resume = resumes(w->p, b),
                            .exclusive = m->step->exclusive && !fold,
                            .stream = streams && !b->piece->totals,
                            .raw = b->piece->totals,
                            .identity = m->identity, .turn = m->turn,
                            .beside = m->apart, .numbers = numbers_of(w->p, b),
                            .ahead = m->reads ? b->piece->ahead : 0,
                            .carry = at.carry,
                            .counters = at.counters, .counter_stride = m->entry_bytes};
}

static void run_rows(const sf_walker *w, sf_block b)
{
        const sf_cpu_kernels *k = b.m->kernels;
        const bool fold = folds(&b), packed = w->p->shape == SF_PANEL_PACKED;
        void (*kernel)(const sf_rows *) = packed ? (fold ? k->fold_packed : k->scan_packed)
                                                 : (fold ? k->fold_rows : k->scan_rows);
        /* A sequence that is all here needs no counter of its own. */
        const int64_t all = b.piece->lines, group = fold ? SF_CPU_FOLD_GROUP : SF_CPU_GROUP;
        const int64_t most = w->p->whole ? all : group;
        for (; b.line < all; b.line += most) {
                const sf_rows job = sf_panel_rows(w, &b, sf_smaller(most, all - b.line));
                kernel(&job);
        }
}

/* The whole tiles of a block of a sum of products; returns how many positions that is. Of two
 * members that are folded together, those of both, when it is the first one's turn. */
static int64_t run_products(const sf_walker *w, sf_block b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b.m, *pair = m->pair < 0 ? NULL : &p->member[m->pair];
        const bool columns = in_columns(p);
        const int64_t tile = columns ? SF_CPU_TILE_ROWS : SF_CPU_TILE_VECTORS * m->kernels->width;
        const int64_t each = columns ? 1 : SF_CPU_GROUP, count = b.count / tile * tile;
        const int64_t position = b.piece->from + b.first, ahead = b.piece->ahead;
        const int64_t seq[2] = {m->fuse->operand[m->factor[0]].stride[p->seq],
                                m->fuse->operand[m->factor[1]].stride[p->seq]};
        const struct sf_piece_in *x = &b.piece->in[m->factor[0]], *y = &b.piece->in[m->factor[1]];
        /* Of short rows, the next ones. */
        const bool brief = !columns && count * seq[0] <= 4 * ahead;
        for (; b.line < b.piece->lines && count && !(pair && pair < m); b.line += each) {
                char *counters[2] = {place_of(w, &b).counters, NULL};
                if (pair) { /* counters are as large, and as many */
                        counters[m->squares] = w->scratch + pair->counters + (counters[0] - (w->scratch + m->counters));
                        counters[!m->squares] = place_of(w, &b).counters;
                }
                const sf_products job = {
                        .x = x->at + b.line * x->line + position * seq[0],
                        .w = y->at + b.line * y->line + position * seq[1],
                        .x_step = columns ? seq[0] : x->line, .w_step = columns ? seq[1] : y->line,
                        .many = columns ? b.piece->cols : sf_smaller(each, b.piece->lines - b.line),
                        .n = count, .start = b.first,
                        .spread = columns && !m->fuse->operand[m->factor[1]].stride[p->col],
                        .x_ahead = brief ? each * x->line : ahead, .w_ahead = y->line ? ahead : 0,
                        .lanes = m->lanes,
                        .counters = counters[0], .sums = counters[1], .counter_stride = m->entry_bytes};
                (columns ? m->products->columns : m->products->rows)(&job);
        }
        return count;
}

/* ---------------------------------------------------------------------------------------------
 * Pieces
 * ------------------------------------------------------------------------------------------- */

/* One block of one member: loaded, computed, stored. */
static void run_block(const sf_walker *w, sf_block b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b.m;
        const bool loads = !m->reads || (m->step->m && !m->masks);
        const bool stores = !folds(&b) && (!m->writes || m->gathers), columns = in_columns(p);
        const int64_t lines = b.piece->lines, step = p->col >= 0 ? 1 : lines;
        if (m->products) {
                const int64_t whole = run_products(w, b);
                if (b.first + b.count < b.piece->n && whole == b.count)
                        return;
                b.first += whole; /* what is over, if only to come to an end */
                b.start += whole;
                b.count -= whole;
        }
        for (; b.line < lines && (columns || loads); b.line += step) {
                if (loads)
                        sf_panel_load(w, &b);
                if (!columns)
                        continue;
                const sf_columns job = sf_panel_columns(w, &b);
                (folds(&b) ? m->kernels->fold_columns : m->kernels->scan_columns)(&job);
                if (stores)
                        sf_panel_store(w, &b);
        }
        b.line = 0;
        if (!columns)
                run_rows(w, b);
        for (; stores && !columns && b.line < lines; b.line += step)
                sf_panel_store(w, &b);
}

sf_block sf_panel_block(const sf_panels *p, const sf_piece *piece, int32_t i, int64_t first,
                        int64_t count)
{
        return (sf_block){.m = &p->member[i], .piece = piece, .of = &piece->of[i], .first = first, .count = count, .start = first, .length = piece->n};
}

/* Is no panel filled? */
static bool keeps_nothing(const sf_panel_member *m, const sf_piece *piece)
{
        const bool fold = m->step->fold || piece->totals;
        return m->reads && !m->products && (m->masks || !m->step->m) &&
               (fold || (m->writes && !m->gathers));
}

void sf_panel_walk(const sf_walker *w, const sf_piece *piece, int64_t first, int64_t end)
{
        const sf_panels *p = w->p;
        const bool alone = p->members == 1 && (keeps_nothing(&p->member[0], piece) || p->member[0].products);
        const bool paired = p->members == 2 && p->member[0].products && p->member[0].pair == 1;
        const int64_t block = alone || paired ? end - first : p->block;
        for (; first < end; first += block)
                for (int32_t i = 0; i < p->members; i++)
                        if (!piece->some || p->member[i].step->fold == piece->totals)
                                run_block(w, sf_panel_block(p, piece, i, first,
                                                            sf_smaller(block, end - first)));
}

/* A fold of which values are wanted: each line's total, as the kernels have it. */
static void run_values(const sf_walker *w, const sf_piece *piece)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = &p->member[0];
        sf_piece all = *piece;
        all.totals = true;
        all.of[0].sums = w->scratch + m->totals;
        sf_panel_walk(w, &all, 0, piece->n);
        for (int64_t r = 0; r < piece->lines; r++)
                sf_panel_put_values(p, piece, 0, r, all.of[0].sums + r * sf_panel_total_bytes(p, m));
}

void sf_panel_begin(const sf_walker *w, const sf_piece *piece)
{
        for (int32_t i = 0; i < w->p->members && w->p->shape != SF_PANEL_MAP; i++)
                make_carries(w, piece, i);
}

void sf_panel_run(const sf_walker *w, const sf_piece *piece)
{
        const sf_panels *p = w->p;
        if (p->member[0].step->values) {
                run_values(w, piece);
                return;
        }
        sf_panel_begin(w, piece);
        if (p->shape != SF_PANEL_MAP)
                sf_panel_walk(w, piece, 0, piece->n);
        for (int32_t i = 0; i < p->members; i++) {
                const sf_panel_member *m = &p->member[i];
                const sf_block all = sf_panel_block(p, piece, i, 0, piece->n);
                if (p->shape == SF_PANEL_MAP)
                        run_map(w, &all);
                else if (m->step->fold && !m->writes)
                        sf_panel_store_totals(w, &all, w->scratch + m->totals);
        }
}
