/* One piece of work: blocks loaded into a panel, scanned or folded there, stored. See panel.h. */
#include "cpu/panel.h"

#include "core/value.h"

/* Between the entries of a strip's counter, an odd number of cache lines. A power of two apart, they
 * would share a few sets of the first cache, and a load from one may be held up by a store to
 * another. 3 and 7 lines measured alike. */
#define ENTRY_PADDING (7 * 64)

static bool in_columns(const sf_panels *p)
{
        return p->shape == SF_PANEL_COLUMNS;
}

/* Elements between the first elements of two rows of the panel: a line's, or in columns a
 * position's. */
int64_t sf_panel_pitch(const sf_panels *p, const sf_piece *piece)
{
        return in_columns(p) ? piece->cols : sf_smaller(p->block, piece->n) * piece->cols;
}

/* ---------------------------------------------------------------------------------------------
 * Scratch
 * ------------------------------------------------------------------------------------------- */
static size_t grow(size_t *total, int64_t bytes)
{
        size_t at = *total;
        *total += ((size_t)bytes + 127) / 64 * 64;
        return at;
}

size_t sf_panel_scratch(sf_panels *p)
{
        const int64_t elements = (in_columns(p) ? 1 : p->lines) * p->block * p->cols;
        size_t total = 0;
        for (int32_t i = 0; i < p->members; i++) {
                sf_panel_member *m = &p->member[i];
                const bool no_panel = p->direct || p->straight || m->through;
                m->panel = grow(&total, no_panel ? 0 : elements * m->size);
                if (p->shape == SF_PANEL_MAP)
                        continue;
                m->entry_bytes = sf_panel_node_bytes(p, m) + (in_columns(p) ? ENTRY_PADDING : 0);
                m->gathered = grow(&total, m->gathers ? elements * m->size : 0);
                m->mask = grow(&total, m->step->m && !m->masks ? elements : 0);
                m->totals = grow(&total, p->straight ? 0 : p->lines * p->cols * m->size);
                const int64_t counters = p->whole ? SF_CPU_FOLD_GROUP : p->lines;
                m->counters = grow(&total, p->direct ? 0
                                           : in_columns(p)
                                                   ? p->lines * p->levels * m->entry_bytes
                                                   : counters * SF_ORDER_LEVELS * m->entry_bytes);
                m->carries = grow(&total, p->carries * ((int64_t)sizeof(sf_carry) +
                                                        p->entries * m->entry_bytes));
        }
        return total;
}

static char *counters_of(const sf_panels *p, const sf_panel_member *m, char *scratch, int64_t line)
{
        const int64_t levels = in_columns(p) ? p->levels : SF_ORDER_LEVELS;
        return scratch + m->counters + line * levels * m->entry_bytes;
}

/* ---------------------------------------------------------------------------------------------
 * Where a piece is
 * ------------------------------------------------------------------------------------------- */

/* A place, by its coordinates in the dimensions of the walk. */
typedef struct coordinates {
        int64_t outer[SF_MAX_NDIM], line, col, along;
} coordinates;

static int64_t operand_offset(const sf_panels *p, const coordinates *c, const int64_t *stride)
{
        int64_t sum = c->along * stride[p->seq];
        for (int32_t d = 0; d < p->nouter; d++)
                sum += c->outer[d] * stride[p->outer[d]];
        sum += p->line < 0 ? 0 : c->line * stride[p->line];
        return sum + (p->col < 0 ? 0 : c->col * stride[p->col]);
}

/* In y and in the mask. */
static void add_offset(sf_dim *sum, const sf_dim *dims, int32_t d, int64_t times)
{
        if (d < 0)
                return;
        sum->y += times * dims[d].y;
        sum->m += times * dims[d].m;
}

static sf_dim result_offset(const sf_panels *p, const coordinates *c, const sf_dim *dims)
{
        sf_dim sum = {0, 0, 0, 0};
        for (int32_t d = 0; d < p->nouter; d++)
                add_offset(&sum, dims, p->outer[d], c->outer[d]);
        add_offset(&sum, dims, p->line, c->line);
        add_offset(&sum, dims, p->col, c->col);
        add_offset(&sum, dims, p->seq, c->along);
        return sum;
}

void sf_piece_at(const sf_panels *p, int64_t outer, int64_t line, int64_t col, int64_t leaf,
                 sf_piece *piece)
{
        const sf_fuse *f = p->member[0].fuse;
        const bool by_stride = leaf >= 0 && p->nseq == 1;
        const int64_t first = leaf < 0 ? 0 : leaf * p->leaf;
        /* From line to line, along this dimension. */
        const int32_t to_next = by_stride ? p->seq : p->line;
        const int64_t times = by_stride ? p->leaf : 1;
        coordinates at = {.line = line, .col = col, .along = by_stride ? first : 0};
        for (int32_t d = p->nouter - 1; d >= 0; d--) {
                const int64_t len = p->member[0].step->dims[p->outer[d]].len;
                at.outer[d] = outer % len;
                outer /= len;
        }
        piece->chunk = leaf >= 0;
        piece->totals = piece->some = false;
        piece->carry = 0;
        piece->from = by_stride ? 0 : first;
        piece->ahead = p->ahead;
        for (int32_t k = 0; k < f->operands; k++) {
                const sf_operand *x = &f->operand[k];
                piece->in[k].at = x->data ? x->data + operand_offset(p, &at, x->stride) : NULL;
                piece->in[k].line = to_next < 0 ? 0 : times * x->stride[to_next];
        }
        for (int32_t i = 0; i < p->members; i++) {
                const sf_step *s = p->member[i].step;
                const sf_dim offset = result_offset(p, &at, s->dims);
                sf_dim next = {0, 0, 0, 0};
                add_offset(&next, s->dims, to_next, times);
                piece->of[i].y = s->y + offset.y;
                piece->of[i].y_line = next.y;
                piece->of[i].m = s->m ? s->m + offset.m : NULL;
                piece->of[i].m_line = next.m;
                piece->of[i].sums = NULL;
        }
}

/* ---------------------------------------------------------------------------------------------
 * What stands to the left of a piece
 * ------------------------------------------------------------------------------------------- */
int64_t sf_panel_node_values(const sf_panels *p, const sf_panel_member *m)
{
        const int64_t width = m->kernels->width;
        return in_columns(p) ? sf_parts(p->cols, width) * width : width;
}

int64_t sf_panel_node_bytes(const sf_panels *p, const sf_panel_member *m)
{
        return sf_panel_node_values(p, m) * sf_value_bytes(m->kernels);
}

sf_carry *sf_panel_carry(const sf_panels *p, const sf_panel_member *m, char *scratch, int64_t r)
{
        (void)p;
        return (sf_carry *)(void *)(scratch + m->carries) + r;
}

char *sf_panel_carry_room(const sf_panels *p, const sf_panel_member *m, char *scratch, int64_t r)
{
        return scratch + m->carries + p->carries * (int64_t)sizeof(sf_carry) +
               r * p->entries * m->entry_bytes;
}

void sf_panel_first_fill(const sf_panel_member *m, char *fill, int64_t values)
{
        const sf_step *s = m->step;
        /* initial + identity, as the last addition: not always the initial value itself (-0.0 + 0.0
         * is 0.0) */
        m->kernels->fill(fill, values, s->has_initial ? sf_combine(s->op, s->acc, s->initial, s->identity)
                                                      : s->identity);
}

/* Of lines that are whole sequences: the initial value, and what comes before the first element. */
static void make_carries(const sf_panels *p, const sf_panel_member *m, char *scratch, int64_t lines)
{
        const sf_step *s = m->step;
        const int64_t values = sf_panel_node_values(p, m);
        for (int64_t r = 0; r < sf_smaller(lines, p->carries); r++) {
                sf_carry *carry = sf_panel_carry(p, m, scratch, r);
                char *room = sf_panel_carry_room(p, m, scratch, r);
                *carry = (sf_carry){.count = s->has_initial, .entries = room,
                                    .entry_stride = m->entry_bytes, .fill = room + m->entry_bytes};
                if (s->has_initial)
                        m->kernels->fill(room, values, s->initial);
                if (s->exclusive || m->own_scan)
                        sf_panel_first_fill(m, carry->fill, values);
        }
}

/* ---------------------------------------------------------------------------------------------
 * Kernels
 * ------------------------------------------------------------------------------------------- */

/* Where a kernel reads, writes and finds its mask for the panel's lines from `line` on, at position
 * `first`. */
typedef struct place {
        const char *x;
        char *y;
        const uint8_t *m;
        int64_t x_step, y_step, m_step; /* from line to line, or in columns from position to position */
} place;

/* Is only the total of the piece wanted? */
static bool folds(const sf_step *s, const sf_piece *piece)
{
        return s->fold || piece->totals;
}

static place place_of(const sf_panels *p, const sf_panel_member *m, char *scratch,
                      const sf_piece *piece, int64_t line, int64_t first, int64_t count)
{
        const sf_dim *seq = &m->step->dims[p->seq];
        const bool columns = in_columns(p);
        const int64_t pitch = sf_panel_pitch(p, piece), position = piece->from + first;
        const int64_t in_panel =
                columns ? 0 : line * pitch + (p->reverse ? (count - 1) * piece->cols : 0);
        const int32_t member = (int32_t)(m - p->member);
        char *panel = scratch + m->panel + in_panel * m->size;
        place at = {panel, panel, m->step->m ? (const uint8_t *)scratch + m->mask + in_panel : NULL,
                    pitch * m->size, pitch * m->size, pitch};
        if (m->reads) {
                const int32_t k = m->load.copied;
                const int64_t step = m->fuse->operand[k].stride[p->seq];
                at.x = piece->in[k].at + line * piece->in[k].line + position * step;
                at.x_step = columns ? step : piece->in[k].line;
        }
        if (m->masks) {
                at.m = piece->of[member].m;
                at.m += at.m ? line * piece->of[member].m_line + position * seq->m : 0;
                at.m_step = columns ? seq->m : piece->of[member].m_line;
        }
        if (piece->totals) {
                at.y_step = sf_panel_node_bytes(p, m);
                at.y = piece->of[member].sums + line * at.y_step;
        } else if (m->gathers) {
                at.y = scratch + m->gathered + in_panel * m->size;
                if (columns) {
                        at.y -= seq->y < 0 ? (count - 1) * seq->y : 0;
                        at.y_step = seq->y;
                }
        } else if (m->writes) {
                at.y = piece->of[member].y + line * piece->of[member].y_line + position * seq->y;
                at.y_step = columns ? seq->y : piece->of[member].y_line;
        } else if (m->step->fold) {
                at.y = scratch + m->totals + line * piece->cols * m->size;
                at.y_step = piece->cols * m->size;
        }
        return at;
}

/* What stands to the left of a line; NULL: nothing. */
static const sf_carry *carry_of(const sf_panels *p, const sf_panel_member *m, char *scratch,
                                const sf_piece *piece, int64_t line)
{
        const sf_step *s = m->step;
        if (piece->totals || !(s->has_initial || s->exclusive || piece->chunk))
                return NULL;
        return sf_panel_carry(p, m, scratch, p->carries > 1 ? piece->carry + line : 0);
}

sf_rows sf_panel_rows(const sf_panels *p, const sf_panel_member *m, char *scratch,
                      const sf_piece *piece, int64_t line, int64_t rows, int64_t first, int64_t count)
{
        const place at = place_of(p, m, scratch, piece, line, first, count);
        const bool fold = folds(m->step, piece);
        return (sf_rows){.x = at.x,
                         .y = at.y,
                         .m = at.m,
                         .x_row = at.x_step,
                         .y_row = at.y_step,
                         .m_row = at.m_step,
                         .rows = rows,
                         .n = count,
                         .start = first,
                         .resume = first + count < piece->n,
                         .exclusive = m->step->exclusive && !fold,
                         .stream = m->streams && !fold,
                         .raw = piece->totals,
                         .identity = m->step->identity,
                         .ahead = m->reads ? piece->ahead : 0,
                         .lanes = m->lanes,
                         .carry = carry_of(p, m, scratch, piece, line),
                         .carry_row = p->carries > 1,
                         .counters = counters_of(p, m, scratch, p->whole ? 0 : line),
                         .slots = SF_CPU_FOLD_GROUP};
}

sf_columns sf_panel_columns(const sf_panels *p, const sf_panel_member *m, char *scratch,
                            const sf_piece *piece, int64_t line, int64_t first, int64_t count)
{
        const place at = place_of(p, m, scratch, piece, line, first, count);
        const bool fold = folds(m->step, piece);
        /* The few columns before a cache line begins are not streamed: cpu.c. */
        const bool streams = m->streams && (fold ? m->writes : piece->cols * m->size >= 64);
        return (sf_columns){.x = at.x,
                            .y = at.y,
                            .m = at.m,
                            .x_step = at.x_step,
                            .y_step = at.y_step,
                            .m_step = at.m_step,
                            .cols = piece->cols,
                            .n = count,
                            .start = first,
                            .resume = first + count < piece->n,
                            .exclusive = m->step->exclusive && !fold,
                            .stream = streams && !piece->totals,
                            .raw = piece->totals,
                            .identity = m->step->identity,
                            .ahead = m->reads ? piece->ahead : 0,
                            .carry = carry_of(p, m, scratch, piece, line),
                            .counters = counters_of(p, m, scratch, line),
                            .counter_stride = m->entry_bytes};
}

static void run_rows(const sf_panels *p, const sf_panel_member *m, char *scratch,
                     const sf_piece *piece, int64_t first, int64_t count)
{
        const sf_cpu_kernels *k = m->kernels;
        const bool fold = folds(m->step, piece), packed = p->shape == SF_PANEL_PACKED;
        void (*kernel)(const sf_rows *) = packed ? (fold ? k->fold_packed : k->scan_packed)
                                                 : (fold ? k->fold_rows : k->scan_rows);
        /* A sequence that is all here needs no counter of its own. */
        const int64_t most = p->whole ? piece->lines : fold ? SF_CPU_FOLD_GROUP : SF_CPU_GROUP;
        for (int64_t line = 0; line < piece->lines; line += most) {
                const int64_t rows = sf_smaller(most, piece->lines - line);
                const sf_rows job = sf_panel_rows(p, m, scratch, piece, line, rows, first, count);
                kernel(&job);
        }
}

static void run_columns(const sf_panels *p, const sf_panel_member *m, char *scratch,
                        const sf_piece *piece, int64_t line, int64_t first, int64_t count)
{
        const sf_columns job = sf_panel_columns(p, m, scratch, piece, line, first, count);
        (folds(m->step, piece) ? m->kernels->fold_columns : m->kernels->scan_columns)(&job);
}

/* The whole tiles of a block of a sum of products; returns how many positions that is. */
static int64_t run_products(const sf_panels *p, const sf_panel_member *m, char *scratch,
                            const sf_piece *piece, int64_t first, int64_t count)
{
        const bool columns = in_columns(p);
        const int64_t tile = columns ? SF_CPU_TILE_ROWS : SF_CPU_TILE_VECTORS * m->kernels->width;
        const int64_t each = columns ? 1 : SF_CPU_GROUP, position = piece->from + first;
        const sf_operand *x = &m->fuse->operand[m->factor[0]], *w = &m->fuse->operand[m->factor[1]];
        const int64_t x_line = piece->in[m->factor[0]].line, w_line = piece->in[m->factor[1]].line;
        count = count / tile * tile;
        for (int64_t line = 0; line < piece->lines && count; line += each) {
                sf_products job = {
                        .x = piece->in[m->factor[0]].at + line * x_line + position * x->stride[p->seq],
                        .w = piece->in[m->factor[1]].at + line * w_line + position * w->stride[p->seq],
                        .x_step = columns ? x->stride[p->seq] : x_line,
                        .w_step = columns ? w->stride[p->seq] : w_line,
                        .many = columns ? piece->cols : sf_smaller(each, piece->lines - line),
                        .n = count,
                        .start = first,
                        .spread = columns && !w->stride[p->col],
                        .x_ahead = piece->ahead,
                        .w_ahead = w_line ? piece->ahead : 0,
                        .lanes = m->lanes,
                        .counters = counters_of(p, m, scratch, line),
                        .counter_stride = m->entry_bytes};
                (columns ? m->kernels->products->columns : m->kernels->products->rows)(&job);
        }
        return count;
}

/* ---------------------------------------------------------------------------------------------
 * Pieces
 * ------------------------------------------------------------------------------------------- */

/* Lines that a program takes at once: all of them, or with columns in the panel one. */
static int64_t box_lines(const sf_panels *p, const sf_piece *piece)
{
        return p->col >= 0 ? 1 : piece->lines;
}

/* One block of one member: loaded, computed, stored. */
static void run_block(const sf_panels *p, const sf_panel_member *m, sf_fused_machine *machine,
                      char *scratch, const sf_piece *piece, int64_t first, int64_t count)
{
        const bool loads = !m->reads || (m->step->m && !m->masks);
        const bool stores = !folds(m->step, piece) && (!m->writes || m->gathers);
        const int64_t step = box_lines(p, piece);
        if (sf_narrow_run(p, m, scratch, piece, first, count))
                return;
        if (m->products) {
                const int64_t whole = run_products(p, m, scratch, piece, first, count);
                const int64_t end = first + count;
                if (end < piece->n && whole == count)
                        return;
                first += whole; /* what is over, if only to come to an end */
                count = end - first;
        }
        for (int64_t line = 0; loads && !in_columns(p) && line < piece->lines; line += step)
                sf_panel_load(p, m, machine, scratch, piece, line, first, count);
        if (!in_columns(p))
                run_rows(p, m, scratch, piece, first, count);
        for (int64_t line = 0; in_columns(p) && line < piece->lines; line++) {
                if (loads)
                        sf_panel_load(p, m, machine, scratch, piece, line, first, count);
                run_columns(p, m, scratch, piece, line, first, count);
                if (stores)
                        sf_panel_store(p, m, machine, scratch, piece, line, first, count);
        }
        for (int64_t line = 0; stores && !in_columns(p) && line < piece->lines; line += step)
                sf_panel_store(p, m, machine, scratch, piece, line, first, count);
}

void sf_panel_walk(const sf_panels *p, sf_fused_machine *machine, char *scratch,
                   const sf_piece *piece, int64_t first, int64_t end)
{
        const int64_t block = sf_narrow_block(p, piece, end - first);
        for (; first < end; first += block)
                for (int32_t i = 0; i < p->members; i++)
                        if (!piece->some || p->member[i].step->fold == piece->totals)
                                run_block(p, &p->member[i], machine, scratch, piece, first,
                                          sf_smaller(block, end - first));
}

void sf_panel_run(const sf_panels *p, sf_fused_machine *machine, char *scratch,
                  const sf_piece *piece)
{
        for (int32_t i = 0; i < p->members; i++) {
                if (p->shape == SF_PANEL_MAP)
                        sf_panel_map(p, &p->member[i], machine, scratch, piece);
                else
                        make_carries(p, &p->member[i], scratch, piece->lines);
        }
        if (p->shape == SF_PANEL_MAP)
                return;
        sf_panel_walk(p, machine, scratch, piece, 0, piece->n);
        for (int32_t i = 0; i < p->members; i++)
                if (p->member[i].step->fold && !p->member[i].writes)
                        sf_panel_store_totals(p, machine, i, piece, scratch + p->member[i].totals);
}
