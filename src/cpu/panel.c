/* One piece of work: blocks loaded into a panel, scanned or folded there, stored. See panel.h. */
#include "cpu/panel.h"

#include "core/value.h"
#include "core/walk.h"

#include <string.h>

static int64_t smaller(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

static bool in_columns(const sf_panels *p)
{
        return p->shape == SF_PANEL_COLUMNS;
}

/* Elements between the first elements of two rows of the panel: a line's, or in columns a position's. */
static int64_t panel_pitch(const sf_panels *p, const sf_piece *piece)
{
        return in_columns(p) ? piece->cols : smaller(p->block, piece->n) * piece->cols;
}

/* ------------------------------------------------------------------------------------------------------------
 * Scratch
 * ---------------------------------------------------------------------------------------------------------- */
static size_t grow(size_t *total, int64_t bytes)
{
        size_t at = *total;
        *total += ((size_t)bytes + 127) / 64 * 64;
        return at;
}

/* Bytes of a carry's entry, and in columns of a counter's. */
static int64_t entry_bytes(const sf_panels *p, const sf_panel_member *m)
{
        return p->entry_lanes * sf_value_bytes(m->kernels);
}

size_t sf_panel_scratch(sf_panels *p)
{
        size_t total = 0;
        grow(&total, (int64_t)sf_fused_machine_bytes(p->slots));
        for (int32_t i = 0; i < p->members; i++) {
                sf_panel_member *m = &p->member[i];
                int64_t vector = p->isa->vector_bytes, elements = (in_columns(p) ? 1 : p->lines) * p->block * p->cols;
                m->panel = grow(&total, p->direct || (p->shape == SF_PANEL_MAP && m->through) ? 0 : elements * m->size);
                if (p->shape == SF_PANEL_MAP)
                        continue;
                m->gathered = grow(&total, m->gathers ? elements * m->size : 0);
                m->mask = grow(&total, m->step->m ? elements : 0);
                m->totals = grow(&total, p->lines * p->cols * m->size);
                m->counters = grow(&total, p->direct       ? 0
                                           : in_columns(p) ? p->lines * p->levels * entry_bytes(p, m)
                                                           : (p->whole ? SF_CPU_GROUP : p->lines) * SF_ORDER_LEVELS * vector * m->kernels->parts);
                m->carries = grow(&total, p->carries * ((int64_t)sizeof(sf_carry) + p->entries * entry_bytes(p, m)));
        }
        return total;
}

void sf_panel_start(const sf_panels *p, sf_fused_machine *machine, char *scratch)
{
        sf_fused_machine_make(machine, p->isa->map, scratch, p->slots);
}

/* ------------------------------------------------------------------------------------------------------------
 * Boxes
 * ---------------------------------------------------------------------------------------------------------- */

/* Where the positions from `at` on lie, of `line` or in rows of all lines. In reverse `at` is the last of them, where memory begins. */
static void set_sources(const sf_panels *p, const sf_panel_member *m, const sf_piece *piece, const int64_t *at, int64_t line, sf_fused_box *box)
{
        const int64_t sign = p->reverse ? -1 : 1;
        for (int32_t k = 0; k < m->fuse->operands; k++) {
                const sf_operand *operand = &m->fuse->operand[k];
                struct sf_fused_side *side = &box->in[k];
                side->at = piece->in[k].at;
                if (!side->at) /* of no elements: a fold of nothing */
                        continue;
                side->at += line * piece->in[k].line;
                for (int32_t d = 0; at && d < p->nseq; d++)
                        side->at += at[d] * operand->stride[p->nbatch + d];
                side->row = p->col >= 0 ? sign * operand->stride[p->seq] : piece->in[k].line;
                side->col = p->col >= 0 ? operand->stride[p->col] : sign * operand->stride[p->seq];
                side->ahead = at ? p->block * operand->stride[p->seq] : 0;
        }
}

/* Lines a box of the panel takes at once: all of them, or with columns in it one. */
static int64_t box_lines(const sf_panels *p, const sf_piece *piece)
{
        return p->col >= 0 ? 1 : piece->lines;
}

/* Positions first .. first + count - 1 of `line`, or of all lines, into the panel: runs along the sequence's innermost dimension. */
static void load(const sf_panels *p, const sf_panel_member *m, sf_fused_machine *machine, char *scratch, const sf_piece *piece, int64_t line,
                 int64_t first, int64_t count)
{
        const sf_step *s = m->step;
        const int64_t pitch = panel_pitch(p, piece), inner = s->dims[p->seq].len;
        const bool with_columns = p->col >= 0;
        const int64_t sign = p->reverse ? -1 : 1, begin = piece->from + first + (p->reverse ? count - 1 : 0);
        sf_walk at;
        for (int64_t done = 0; done < count;) {
                sf_walk_start(&at, s->dims + p->nbatch, p->nseq, begin + done);
                /* With one dimension a piece never runs past its end. */
                int64_t run = p->nseq == 1 ? count : smaller(count - done, inner - at.at[p->nseq - 1]);
                int64_t to = (in_columns(p) ? 0 : line * pitch) + done * piece->cols;
                sf_fused_box box = {.rows = with_columns ? run : piece->lines, .cols = with_columns ? piece->cols : run};
                if (!m->reads) {
                        set_sources(p, m, piece, at.at, line, &box);
                        box.y = scratch + m->panel + to * m->size;
                        box.y_row = (with_columns ? piece->cols : pitch) * m->size;
                        box.y_col = m->size;
                        sf_fused_eval(machine, &m->load, m->load_constants, &box);
                }
                if (s->m && !m->masks) {
                        const uint8_t *mask = piece->of[m - p->member].m + line * piece->of[m - p->member].m_line + at.m;
                        sf_fused_move(p->isa->map->mover(SF_DT_U8, SF_DT_U8), (const char *)mask,
                                      with_columns ? sign * s->dims[p->seq].m : piece->of[m - p->member].m_line,
                                      with_columns ? s->dims[p->col].m : sign * s->dims[p->seq].m, scratch + m->mask + to,
                                      with_columns ? piece->cols : pitch, 1, box.rows, box.cols);
                }
                done += run;
        }
}

/* The panel to memory; scans only, whose sequences have one dimension. */
static void store(const sf_panels *p, const sf_panel_member *m, sf_fused_machine *machine, char *scratch, const sf_piece *piece, int64_t line,
                  int64_t first, int64_t count)
{
        const sf_step *s = m->step;
        const int64_t pitch = panel_pitch(p, piece), position = piece->from + first + (p->reverse ? count - 1 : 0), sign = p->reverse ? -1 : 1;
        const bool with_columns = p->col >= 0;
        sf_fused_box box = {.rows = with_columns ? count : piece->lines, .cols = with_columns ? piece->cols : count, .stream = p->stream};
        set_sources(p, m, piece, &position, line, &box);
        box.in[SF_FUSED_RESULT].at = scratch + (m->gathers ? m->gathered : m->panel) + (in_columns(p) ? 0 : line * pitch) * m->size;
        box.in[SF_FUSED_RESULT].row = (with_columns ? piece->cols : pitch) * m->size;
        box.in[SF_FUSED_RESULT].col = m->size;
        box.y = piece->of[m - p->member].y + line * piece->of[m - p->member].y_line + position * s->dims[p->seq].y;
        box.y_row = with_columns ? sign * s->dims[p->seq].y : piece->of[m - p->member].y_line;
        box.y_col = with_columns ? s->dims[p->col].y : sign * s->dims[p->seq].y;
        if (!m->gathers) {
                sf_fused_eval(machine, &m->store, m->store_constants, &box);
                return;
        }
        /* Rows on end, in the panel as in memory. */
        p->isa->map->stream(box.y, box.in[SF_FUSED_RESULT].at, box.rows * box.cols * m->size, box.in[SF_FUSED_RESULT].at);
}

void sf_panel_store_totals(const sf_panels *p, sf_fused_machine *machine, int32_t member, const sf_piece *piece, const char *totals)
{
        const sf_panel_member *m = &p->member[member];
        sf_fused_box box = {.rows = piece->lines, .cols = piece->cols};
        set_sources(p, m, piece, NULL, 0, &box);
        for (int32_t k = 0; k < m->fuse->operands; k++) {
                box.in[k].row = piece->in[k].line;
                box.in[k].col = p->col >= 0 ? m->fuse->operand[k].stride[p->col] : 0;
        }
        box.in[SF_FUSED_RESULT].at = totals;
        box.in[SF_FUSED_RESULT].row = piece->cols * m->size;
        box.in[SF_FUSED_RESULT].col = m->size;
        box.y = piece->of[member].y;
        box.y_row = piece->of[member].y_line;
        box.y_col = p->col >= 0 ? m->step->dims[p->col].y : 0;
        if (p->col < 0) { /* one column: the lines are the row */
                box.cols = box.rows;
                box.rows = 1;
                for (int32_t k = 0; k < SF_FUSED_SOURCES; k++)
                        box.in[k].col = box.in[k].row;
                box.y_col = box.y_row;
        }
        /* So many results would each first be read. */
        if (m->streams && box.y_col == m->size && (box.rows == 1 || box.y_row == box.cols * m->size))
                p->isa->map->stream(box.y, totals, box.rows * box.cols * m->size, totals);
        else
                sf_fused_eval(machine, &m->store, m->store_constants, &box);
}

/* ------------------------------------------------------------------------------------------------------------
 * What stands to the left of a piece
 * ---------------------------------------------------------------------------------------------------------- */
int64_t sf_panel_node_values(const sf_panels *p, const sf_panel_member *m)
{
        const int64_t width = m->kernels->width;
        return in_columns(p) ? (m->step->dims[p->col].len + width - 1) / width * width : width;
}

int64_t sf_panel_node_bytes(const sf_panels *p, const sf_panel_member *m)
{
        return sf_panel_node_values(p, m) * sf_value_bytes(m->kernels);
}

char *sf_panel_node(const sf_panels *p, const sf_panel_member *m, char *sums, int level, int64_t index)
{
        for (int k = 0; k < level; k++)
                index += p->chunks >> k;
        return sums + index * sf_panel_node_bytes(p, m);
}

/* Values of a carry's entry that a piece uses: whole vectors. */
static int64_t entry_values(const sf_panels *p, const sf_panel_member *m, const sf_piece *piece)
{
        const int64_t width = m->kernels->width;
        return in_columns(p) ? (piece->cols + width - 1) / width * width : width;
}

/* Totals of a piece's lines, elements that are values, become nodes: in rows they repeat through the vector. */
static void nodes_from_totals(const sf_panels *p, const sf_panel_member *m, const sf_piece *piece, const char *totals)
{
        const int64_t values = entry_values(p, m, piece);
        for (int64_t line = 0; line < piece->lines; line++, totals += piece->cols * m->size) {
                char *node = sf_panel_node(p, m, piece->of[m - p->member].sums, 0, piece->chunk + line);
                for (int64_t v = 0; v < values; v += piece->cols)
                        memcpy(node + v * m->size, totals, (size_t)(smaller(piece->cols, values - v) * m->size));
        }
}

/* The carry of one line, its entries and its fill in `room`. */
static void carry_make(const sf_panels *p, const sf_panel_member *m, const sf_piece *piece, int64_t chunk, sf_carry *carry, char *room)
{
        const sf_step *s = m->step;
        const int64_t bytes = entry_bytes(p, m), values = entry_values(p, m, piece);
        *carry = (sf_carry){.entries = room, .entry_stride = bytes, .fill = room + (p->entries - 1) * bytes};
        for (uint64_t bits = chunk > 0 ? (uint64_t)chunk : 0; bits; bits &= bits - 1) {
                int level = __builtin_ctzll(bits);
                const char *node = sf_panel_node(p, m, piece->of[m - p->member].sums, level, (chunk >> level) - 1);
                memcpy(room + carry->count++ * bytes, node, (size_t)(values * sf_value_bytes(m->kernels)));
        }
        if (s->has_initial)
                m->kernels->fill(room + carry->count++ * bytes, values, s->initial);
        if (!s->exclusive && !m->own_scan)
                return;
        if (chunk <= 0) {
                /* initial + identity, as the last addition: not always the initial value itself (-0.0 + 0.0 is 0.0) */
                m->kernels->fill(carry->fill, values, s->has_initial ? sf_combine(s->op, s->acc, s->initial, s->identity) : s->identity);
                return;
        }
        char *sum = room + (p->entries - 2) * bytes;
        memcpy(carry->fill, room, (size_t)bytes);
        for (int32_t e = 1; e < carry->count; e++) {
                memcpy(sum, room + e * bytes, (size_t)bytes);
                m->kernels->combine(sum, carry->fill, values);
                memcpy(carry->fill, sum, (size_t)bytes);
        }
}

static void carries_make(const sf_panels *p, const sf_panel_member *m, char *scratch, const sf_piece *piece)
{
        sf_carry *carry = (sf_carry *)(void *)(scratch + m->carries);
        char *room = scratch + m->carries + p->carries * (int64_t)sizeof *carry;
        for (int64_t r = 0; r < smaller(piece->lines, p->carries); r++)
                carry_make(p, m, piece, piece->chunk < 0 ? piece->chunk : piece->chunk + r, &carry[r],
                           room + r * p->entries * entry_bytes(p, m));
}

/* ------------------------------------------------------------------------------------------------------------
 * Kernels
 * ---------------------------------------------------------------------------------------------------------- */

/* Where a kernel reads, writes and finds its mask for the panel's lines from `line` on, at position `first`. */
typedef struct place {
        const char *x;
        char *y;
        const uint8_t *m;
        int64_t x_step, y_step, m_step; /* from line to line, or in columns from position to position */
} place;

static place place_of(const sf_panels *p, const sf_panel_member *m, char *scratch, const sf_piece *piece, int64_t line, int64_t first,
                      int64_t count, bool fold)
{
        const sf_step *s = m->step;
        const int64_t pitch = panel_pitch(p, piece), position = piece->from + first;
        const int64_t in_panel = (in_columns(p) ? 0 : line * pitch) + (p->reverse ? (count - 1) * piece->cols : 0);
        const int32_t member = (int32_t)(m - p->member);
        char *panel = scratch + m->panel + in_panel * m->size;
        place at = {panel, panel, s->m ? (const uint8_t *)scratch + m->mask + in_panel : NULL, pitch * m->size, pitch * m->size, pitch};
        if (m->reads) {
                const sf_operand *operand = &m->fuse->operand[m->load.copied];
                at.x = piece->in[m->load.copied].at + line * piece->in[m->load.copied].line + position * operand->stride[p->seq];
                at.x_step = in_columns(p) ? operand->stride[p->seq] : piece->in[m->load.copied].line;
        }
        if (m->masks) {
                at.m = piece->of[member].m + line * piece->of[member].m_line + position * s->dims[p->seq].m;
                at.m_step = in_columns(p) ? s->dims[p->seq].m : piece->of[member].m_line;
        }
        if (piece->totals) {
                at.y = sf_panel_node(p, m, piece->of[member].sums, 0, piece->chunk + line);
                at.y_step = sf_panel_node_bytes(p, m);
        } else if (fold) {
                at.y = scratch + m->totals + line * piece->cols * m->size;
                at.y_step = piece->cols * m->size;
        } else if (m->gathers) {
                at.y = scratch + m->gathered + in_panel * m->size;
        } else if (m->writes) {
                at.y = piece->of[member].y + line * piece->of[member].y_line + position * s->dims[p->seq].y;
                at.y_step = in_columns(p) ? s->dims[p->seq].y : piece->of[member].y_line;
        }
        return at;
}

/* What is read soon: the kernel's own stream, if it has one. Measured for the plain kernels (plan.c). */
#define AHEAD 1024

/* Is only the total of the piece wanted? Does something stand to its left? */
static bool folds(const sf_step *s, const sf_piece *piece)
{
        return s->fold || piece->totals;
}
static bool carries(const sf_step *s, const sf_piece *piece)
{
        return !piece->totals && (s->has_initial || s->exclusive || piece->chunk >= 0);
}

static void run_rows(const sf_panels *p, const sf_panel_member *m, char *scratch, const sf_piece *piece, int64_t first, int64_t count)
{
        const sf_step *s = m->step;
        const bool fold = folds(s, piece);
        const sf_carry *carry = (const sf_carry *)(const void *)(scratch + m->carries);
        for (int64_t line = 0; line < piece->lines;) {
                /* A sequence that is all here needs no counter of its own. */
                int64_t rows = p->whole ? piece->lines : smaller(SF_CPU_GROUP, piece->lines - line);
                place at = place_of(p, m, scratch, piece, line, first, count, fold);
                sf_rows job = {.x = at.x,
                               .y = at.y,
                               .m = at.m,
                               .x_row = at.x_step,
                               .y_row = at.y_step,
                               .m_row = at.m_step,
                               .rows = rows,
                               .n = count,
                               .start = first,
                               .resume = first + count < piece->n,
                               .exclusive = s->exclusive && !fold,
                               .stream = m->streams && !fold,
                               .raw = piece->totals,
                               .identity = s->identity,
                               .ahead = !m->reads ? 0 : p->reverse ? -AHEAD : AHEAD,
                               .lanes = m->lanes,
                               .carry = carries(s, piece) ? carry + line : NULL,
                               .carry_row = p->carries > 1,
                               .counters = scratch + m->counters + line * SF_ORDER_LEVELS * p->isa->vector_bytes * m->kernels->parts};
                if (p->shape == SF_PANEL_PACKED)
                        (fold ? m->kernels->fold_packed : m->kernels->scan_packed)(&job);
                else
                        (fold ? m->kernels->fold_rows : m->kernels->scan_rows)(&job);
                line += rows;
        }
}

static void run_columns(const sf_panels *p, const sf_panel_member *m, char *scratch, const sf_piece *piece, int64_t line, int64_t first,
                        int64_t count)
{
        const sf_step *s = m->step;
        const bool fold = folds(s, piece);
        place at = place_of(p, m, scratch, piece, line, first, count, fold);
        sf_columns job = {.x = at.x,
                          .y = at.y,
                          .m = at.m,
                          .x_step = at.x_step,
                          .y_step = at.y_step,
                          .m_step = at.m_step,
                          .cols = piece->cols,
                          .n = count,
                          .start = first,
                          .resume = first + count < piece->n,
                          .exclusive = s->exclusive && !fold,
                          .stream = m->streams && !fold,
                          .raw = piece->totals,
                          .identity = s->identity,
                          .carry = carries(s, piece) ? (const sf_carry *)(const void *)(scratch + m->carries) + line : NULL,
                          .counters = scratch + m->counters + line * p->levels * entry_bytes(p, m),
                          .counter_stride = entry_bytes(p, m)};
        (fold ? m->kernels->fold_columns : m->kernels->scan_columns)(&job);
}

/* The whole tiles of a block of a sum of products; returns how many positions that is. */
static int64_t run_products(const sf_panels *p, const sf_panel_member *m, char *scratch, const sf_piece *piece, int64_t first, int64_t count)
{
        const sf_cpu_products *kernels = m->kernels->products;
        const int64_t tile = in_columns(p) ? SF_CPU_TILE_ROWS : SF_CPU_TILE_VECTORS * m->kernels->width;
        const int64_t each = in_columns(p) ? 1 : SF_CPU_GROUP, position = piece->from + first;
        const struct sf_operand *x = &m->fuse->operand[m->factor[0]], *w = &m->fuse->operand[m->factor[1]];
        const int64_t x_line = piece->in[m->factor[0]].line, w_line = piece->in[m->factor[1]].line;
        count = count / tile * tile;
        for (int64_t line = 0; line < piece->lines && count; line += each) {
                sf_products job = {.x = piece->in[m->factor[0]].at + line * x_line + position * x->stride[p->seq],
                                   .w = piece->in[m->factor[1]].at + line * w_line + position * w->stride[p->seq],
                                   .n = count,
                                   .start = first,
                                   .x_ahead = AHEAD,
                                   .lanes = m->lanes};
                if (in_columns(p)) {
                        job.x_step = x->stride[p->seq];
                        job.w_step = w->stride[p->seq];
                        job.many = piece->cols;
                        job.spread = !w->stride[p->col];
                        job.counters = scratch + m->counters + line * p->levels * entry_bytes(p, m);
                        job.counter_stride = entry_bytes(p, m);
                        kernels->columns(&job);
                } else {
                        job.x_step = x_line;
                        job.w_step = w_line;
                        job.many = smaller(SF_CPU_GROUP, piece->lines - line);
                        job.w_ahead = w_line ? AHEAD : 0;
                        job.counters = scratch + m->counters + line * SF_ORDER_LEVELS * p->isa->vector_bytes;
                        kernels->rows(&job);
                }
        }
        return count;
}

/* A block of narrow integers joins the totals. */
static void run_direct(const sf_panels *p, const sf_panel_member *m, char *scratch, const sf_piece *piece, int64_t first, int64_t count)
{
        const sf_operand *operand = &m->fuse->operand[0];
        const int64_t step = operand->stride[p->seq];
        const char *x = piece->in[0].at + (piece->from + first + (step < 0 ? count - 1 : 0)) * step; /* the lowest address: any order will do */
        char *totals = scratch + m->totals;
        if (!first)
                m->kernels->fill(totals, piece->lines * piece->cols, m->step->identity);
        if (!in_columns(p))
                m->direct->rows(totals, x, piece->in[0].line, piece->lines, count);
        for (int64_t line = 0; in_columns(p) && line < piece->lines; line++, x += piece->in[0].line)
                m->direct->columns(totals + line * piece->cols * m->size, x, step < 0 ? -step : step, piece->cols, count);
        if (piece->totals && first + count == piece->n)
                nodes_from_totals(p, m, piece, totals);
}

/* Where no panel is filled, blocks need not fit into one: so many at once. */
#define OWN_BLOCKS 4
/* Runs of columns go around the cache though they are shorter than SF_CPU_STREAM_LINE, since neighbours follow soon. */
#define STREAM_RUN 256
/* Between such runs in the panel, which has 4 bytes an element: stores a page's multiple away from a load hold it up. */
#define OWN_PADDING (3 * 64)

/* What stands to the left of a piece, an element of the results' type a line or column. */
static void own_left(const sf_panels *p, const sf_panel_member *m, char *scratch, const sf_piece *piece)
{
        const bool columns = in_columns(p);
        const int64_t size = sf_dtypes[m->step->out].size;
        char *left = scratch + m->totals;
        for (int64_t line = 0; line < smaller(piece->lines, p->carries); line++) {
                const sf_carry *carry = (const sf_carry *)(const void *)(scratch + m->carries) + line;
                p->isa->map->mover(m->held, m->step->out)(carry->fill, columns ? m->size : 0, left + line * piece->cols * size, size,
                                                          p->carries > 1 || columns ? piece->cols : piece->lines);
        }
}

/* The lines that runs share with their neighbours are stored, not streamed, and a store that has to wait for its line holds up all behind it. */
static void fetch_ends(char *y, int64_t step, int64_t runs, int64_t bytes)
{
        for (int64_t r = 0; r < runs; r++, y += step) {
                __builtin_prefetch(y, 1);
                __builtin_prefetch(y + bytes - 1, 1);
        }
}

/* A block of narrow integers, scanned as they lie. What cannot be streamed as it is computed is put together in the panel. */
static void run_own(const sf_panels *p, const sf_panel_member *m, char *scratch, const sf_piece *piece, int64_t first, int64_t count)
{
        const sf_step *s = m->step;
        const int32_t member = (int32_t)(m - p->member);
        const bool columns = in_columns(p);
        const int64_t x_seq = m->fuse->operand[0].stride[p->seq], y_seq = s->dims[p->seq].y, size = sf_dtypes[s->out].size, at = piece->from + first;
        const int64_t x_line = piece->in[0].line, y_line = piece->of[member].y_line, m_line = piece->of[member].m_line;
        const int64_t run = (columns ? piece->cols : count) * size, lowest = !columns && p->reverse ? size - run : 0;
        const bool totals = piece->totals, streams = p->stream && !columns && run >= SF_CPU_STREAM_LINE && !((uintptr_t)piece->of[member].y % (uintptr_t)size);
        const bool on_end = (columns ? y_seq : y_line) == run;
        const bool gathers = p->stream && !streams && !totals && (columns || p->whole) && (on_end || run >= STREAM_RUN);
        const int64_t pitch = on_end ? run : run + OWN_PADDING;
        char *panel = scratch + m->panel, *left = scratch + m->totals;
        sf_own_scan job = {.dt = s->out,
                           .op = s->op,
                           .exclusive = s->exclusive,
                           .stream = streams,
                           .lanes = columns ? NULL : &p->isa->whole[2 + p->reverse],
                           .x_step = columns ? x_seq : x_line,
                           .y_step = gathers ? pitch : columns ? y_seq : y_line,
                           .m_step = columns ? s->dims[p->seq].m : m_line,
                           .many = columns ? piece->cols : piece->lines,
                           .n = count};
        sf_move *in = p->isa->map->mover(m->held, s->out), *out = p->isa->map->mover(s->out, m->held);
        if (totals && !first) {
                m->kernels->fill(panel, 1, s->identity);
                in(panel, 0, left, size, piece->lines * piece->cols);
        }
        if (!first && !totals)
                own_left(p, m, scratch, piece);
        for (int64_t line = 0; line < (columns ? piece->lines : 1); line++) {
                char *y = piece->of[member].y + line * y_line + at * y_seq;
                job.x = piece->in[0].at + line * x_line + at * x_seq;
                job.y = totals ? NULL : gathers ? panel - lowest : y;
                job.m = s->m ? piece->of[member].m + line * m_line + at * s->dims[p->seq].m : NULL;
                job.carries = left + line * piece->cols * size;
                if (gathers && !on_end)
                        fetch_ends(y + lowest, columns ? y_seq : y_line, columns ? count : piece->lines, run);
                p->isa->map->own_scan(&job);
                const int64_t runs = columns ? count : piece->lines, together = on_end ? runs : 1;
                for (int64_t r = 0; r < runs && gathers; r += together)
                        p->isa->map->stream(y + lowest + r * (columns ? y_seq : y_line), panel + r * pitch, together * run,
                                            job.x + lowest + (runs + r) * job.x_step);
        }
        if (totals) {
                out(left, size, panel, m->size, piece->lines * piece->cols);
                nodes_from_totals(p, m, piece, panel);
        }
}

/* Columns whose results are put together in the panel: so many at a time, and it stays in the first-level cache. */
#define WIDE_COLUMNS 256

/* The same into sums of 64 bits. */
static void run_wide(const sf_panels *p, const sf_panel_member *m, char *scratch, const sf_piece *piece, int64_t first, int64_t count)
{
        const sf_step *s = m->step;
        const sf_operand *operand = &m->fuse->operand[0];
        const int32_t member = (int32_t)(m - p->member);
        const bool columns = in_columns(p);
        const int64_t at = piece->from + first, x_line = piece->in[0].line, x_seq = operand->stride[p->seq], y_line = piece->of[member].y_line,
                      y_seq = s->dims[p->seq].y, size = m->size, run = (columns ? piece->cols : count) * size, y_step = columns ? y_seq : y_line;
        const uintptr_t begin = (uintptr_t)piece->of[member].y;
        /* Whole cache lines and long rows are streamed as they are computed. Others that lie on end, and columns a few at a time, are put together first. */
        const bool lines = !((begin | (uintptr_t)y_line | (uintptr_t)(columns ? y_seq : run)) % 64), on_end = y_step == run;
        const bool streams = p->stream && (lines || (!columns && run >= SF_CPU_STREAM_LINE && begin % 8 == 0));
        const bool gathers = p->stream && !streams && (columns ? on_end || run >= STREAM_RUN : p->whole && on_end);
        const int64_t cols = columns && gathers && !on_end ? WIDE_COLUMNS : piece->cols, lowest = !columns && p->reverse ? size - run : 0;
        char *panel = scratch + m->panel;
        if (!first)
                own_left(p, m, scratch, piece);
        for (int64_t line = 0; line < (columns ? piece->lines : 1); line++) {
                for (int64_t c = 0; c < piece->cols; c += cols) {
                        const int64_t here = smaller(cols, piece->cols - c), runs = columns ? count : piece->lines, each = columns ? here * size : run;
                        char *y = piece->of[member].y + line * y_line + at * y_seq + c * size;
                        sf_own_scan job = {.from = operand->dt,
                                           .exclusive = s->exclusive,
                                           .stream = streams,
                                           .lanes = columns ? NULL : &p->isa->whole[2 + p->reverse],
                                           .x = piece->in[0].at + line * x_line + at * x_seq + c * sf_dtypes[operand->dt].size,
                                           .y = gathers ? panel - lowest : y,
                                           .x_step = columns ? x_seq : x_line,
                                           .y_step = gathers ? each : y_step,
                                           .many = columns ? here : piece->lines,
                                           .n = count,
                                           .carries = scratch + m->totals + (line * piece->cols + c) * size};
                        if (gathers && !on_end)
                                fetch_ends(y + lowest, y_step, runs, each);
                        p->isa->map->wide_scan(&job);
                        for (int64_t r = 0; r < runs && gathers; r += on_end ? runs : 1)
                                p->isa->map->stream(y + lowest + r * y_step, panel + r * each, (on_end ? runs : 1) * each, panel + r * each);
                }
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Pieces
 * ---------------------------------------------------------------------------------------------------------- */

/* One block of one member: loaded, computed, stored. */
static void run_block(const sf_panels *p, const sf_panel_member *m, sf_fused_machine *machine, char *scratch, const sf_piece *piece, int64_t first,
                      int64_t count)
{
        const bool scan = !m->step->fold && !piece->totals && (!m->writes || m->gathers);
        const int64_t step = box_lines(p, piece);
        if (m->own_scan && !(m->wide && piece->totals)) {
                (m->wide ? run_wide : run_own)(p, m, scratch, piece, first, count);
                return;
        }
        if (m->direct && folds(m->step, piece)) {
                run_direct(p, m, scratch, piece, first, count);
                return;
        }
        if (m->products) {
                const int64_t whole = run_products(p, m, scratch, piece, first, count), end = first + count;
                if (end < piece->n && whole == count)
                        return;
                first += whole; /* what is over, if only to come to an end */
                count = end - first;
        }
        for (int64_t line = 0; line < piece->lines; line += step) {
                if (!m->reads || (m->step->m && !m->masks))
                        load(p, m, machine, scratch, piece, line, first, count);
                if (in_columns(p)) {
                        run_columns(p, m, scratch, piece, line, first, count);
                        if (scan)
                                store(p, m, machine, scratch, piece, line, first, count);
                }
        }
        if (in_columns(p))
                return;
        run_rows(p, m, scratch, piece, first, count);
        for (int64_t line = 0; scan && line < piece->lines; line += step)
                store(p, m, machine, scratch, piece, line, first, count);
}

/* Sequences of one element: in and out again. */
static void run_map(const sf_panels *p, const sf_panel_member *m, sf_fused_machine *machine, char *scratch, const sf_piece *piece)
{
        const int32_t member = (int32_t)(m - p->member);
        sf_fused_box box = {.rows = piece->lines, .cols = piece->cols};
        set_sources(p, m, piece, NULL, 0, &box);
        for (int32_t k = 0; k < m->fuse->operands; k++) {
                box.in[k].row = piece->in[k].line;
                box.in[k].col = p->col >= 0 ? m->fuse->operand[k].stride[p->col] : 0;
        }
        if (m->through) {
                box.stream = p->stream;
                box.y = piece->of[member].y;
                box.y_row = piece->of[member].y_line;
                box.y_col = p->col >= 0 ? m->step->dims[p->col].y : 0;
                sf_fused_eval(machine, &m->load, m->load_constants, &box);
                return;
        }
        box.y = scratch + m->panel;
        box.y_row = piece->cols * m->size;
        box.y_col = m->size;
        sf_fused_eval(machine, &m->load, m->load_constants, &box);
        sf_panel_store_totals(p, machine, member, piece, scratch + m->panel);
}

void sf_panel_run(const sf_panels *p, sf_fused_machine *machine, char *scratch, const sf_piece *piece)
{
        if (p->shape == SF_PANEL_MAP) {
                for (int32_t i = 0; i < p->members; i++)
                        run_map(p, &p->member[i], machine, scratch, piece);
                return;
        }
        /* Of a shared axis, a fold needs the chunks' totals only. */
        const bool scans_only = piece->chunk >= 0 && !piece->totals;
        for (int32_t i = 0; i < p->members && !piece->totals; i++)
                carries_make(p, &p->member[i], scratch, piece);
        const bool own_rows = p->members == 1 && p->member[0].own_scan && !in_columns(p);
        const bool direct = p->members == 1 && p->member[0].direct && folds(p->member[0].step, piece);
        const int64_t block = direct ? piece->n : p->block * (own_rows ? OWN_BLOCKS : 1);
        for (int64_t first = 0; first < piece->n; first += block)
                for (int32_t i = 0; i < p->members; i++)
                        if (!scans_only || !p->member[i].step->fold)
                                run_block(p, &p->member[i], machine, scratch, piece, first, smaller(block, piece->n - first));
        for (int32_t i = 0; i < p->members && piece->chunk < 0; i++)
                if (p->member[i].step->fold)
                        sf_panel_store_totals(p, machine, i, piece, scratch + p->member[i].totals);
}
