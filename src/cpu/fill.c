/* Programs fill a panel and empty it: see panel.h. */
#include "cpu/panel.h"

#include "core/walk.h"

static bool in_columns(const sf_panels *p)
{
        return p->shape == SF_PANEL_COLUMNS;
}

/* Where the positions from `at` on are, of `line` or in rows of all lines. In reverse `at` is the
 * last of them, where memory begins. */
static void set_sources(const sf_panels *p, const sf_panel_member *m, const sf_piece *piece,
                        const int64_t *at, int64_t line, sf_fused_box *box)
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

/* Positions first .. first + count - 1 of `line`, or of all lines, into the panel: runs along the
 * sequence's innermost dimension. */
void sf_panel_load(const sf_panels *p, const sf_panel_member *m, sf_fused_machine *machine,
                 char *scratch, const sf_piece *piece, int64_t line, int64_t first, int64_t count)
{
        const sf_step *s = m->step;
        const int64_t pitch = sf_panel_pitch(p, piece), inner = s->dims[p->seq].len;
        const bool with_columns = p->col >= 0;
        const int64_t sign = p->reverse ? -1 : 1;
        const int64_t begin = piece->from + first + (p->reverse ? count - 1 : 0);
        const int64_t row = with_columns ? piece->cols : pitch;
        const uint8_t *mask = piece->of[m - p->member].m;
        const int64_t m_line = piece->of[m - p->member].m_line;
        sf_walk at;
        for (int64_t done = 0; done < count;) {
                sf_walk_start(&at, s->dims + p->nbatch, p->nseq, begin + done);
                /* With one dimension a piece never runs past its end. */
                int64_t run = p->nseq == 1 ? count
                                           : sf_smaller(count - done, inner - at.at[p->nseq - 1]);
                int64_t to = (in_columns(p) ? 0 : line * pitch) + done * piece->cols;
                sf_fused_box box = {.rows = with_columns ? run : piece->lines,
                                    .cols = with_columns ? piece->cols : run};
                if (!m->reads) {
                        set_sources(p, m, piece, at.at, line, &box);
                        box.y = scratch + m->panel + to * m->size;
                        box.y_row = row * m->size;
                        box.y_col = m->size;
                        sf_fused_eval(machine, &m->load, m->load_constants, &box);
                }
                if (s->m && !m->masks)
                        sf_fused_move(p->isa->map->mover(SF_DT_U8, SF_DT_U8),
                                      (const char *)mask + line * m_line + at.m,
                                      with_columns ? sign * s->dims[p->seq].m : m_line,
                                      with_columns ? s->dims[p->col].m : sign * s->dims[p->seq].m,
                                      scratch + m->mask + to, row, 1, box.rows, box.cols);
                done += run;
        }
}

/* The panel to memory; scans only, whose sequences have one dimension. */
void sf_panel_store(const sf_panels *p, const sf_panel_member *m, sf_fused_machine *machine,
                  char *scratch, const sf_piece *piece, int64_t line, int64_t first, int64_t count)
{
        const sf_dim *dims = m->step->dims;
        const int64_t pitch = sf_panel_pitch(p, piece), sign = p->reverse ? -1 : 1;
        const int64_t position = piece->from + first + (p->reverse ? count - 1 : 0);
        const int64_t y_line = piece->of[m - p->member].y_line;
        const bool with_columns = p->col >= 0;
        struct sf_fused_side result = {
                .at = scratch + (m->gathers ? m->gathered : m->panel) +
                      (in_columns(p) ? 0 : line * pitch) * m->size,
                .row = (with_columns ? piece->cols : pitch) * m->size,
                .col = m->size,
        };
        char *y = piece->of[m - p->member].y + line * y_line + position * dims[p->seq].y;
        sf_fused_box box = {.rows = with_columns ? count : piece->lines,
                            .cols = with_columns ? piece->cols : count,
                            .y = y,
                            .y_row = with_columns ? sign * dims[p->seq].y : y_line,
                            .y_col = with_columns ? dims[p->col].y : sign * dims[p->seq].y,
                            .stream = p->stream};
        if (!m->gathers) {
                set_sources(p, m, piece, &position, line, &box);
                box.in[SF_FUSED_RESULT] = result;
                sf_fused_eval(machine, &m->store, m->store_constants, &box);
                return;
        }
        /* Back to back in the panel as in memory. In columns that go down it is the other way. */
        const bool down = in_columns(p) && dims[p->seq].y < 0;
        p->isa->map->stream(y + (down ? (count - 1) * dims[p->seq].y : 0), result.at,
                            box.rows * box.cols * m->size, result.at);
}

void sf_panel_store_totals(const sf_panels *p, sf_fused_machine *machine, int32_t member,
                           const sf_piece *piece, const char *totals)
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
        const bool run = box.y_col == m->size && (box.rows == 1 || box.y_row == box.cols * m->size);
        if (m->streams && run)
                p->isa->map->stream(box.y, totals, box.rows * box.cols * m->size, totals);
        else
                sf_fused_eval(machine, &m->store, m->store_constants, &box);
}

/* Sequences of one element: in and out again. */
void sf_panel_map(const sf_panels *p, const sf_panel_member *m, sf_fused_machine *machine,
                    char *scratch, const sf_piece *piece)
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
