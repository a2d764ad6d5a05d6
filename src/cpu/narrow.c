/*
 * Narrow integers and bool, folded and scanned where they are: integers may be taken in any order, so
 * they need no tree, and are added in as narrow a type as holds the sum of a few.
 */
#include "cpu/panel.h"

#include <string.h>

static bool in_columns(const sf_panels *p)
{
        return p->shape == SF_PANEL_COLUMNS;
}

/* ---------------------------------------------------------------------------------------------
 * Choosing
 * ------------------------------------------------------------------------------------------- */
/* May a fold take narrow integers as they lie, side by side along a dimension? */
const sf_direct_fold *sf_narrow_along(const sf_panels *p, const sf_panel_member *m, int32_t d)
{
        const sf_step *s = m->step;
        const sf_operand *x = &m->fuse->operand[0];
        const int64_t stride = d == p->seq ? sf_magnitude(x->stride[d]) : x->stride[d];
        if (m->fuse->load.count || s->m || (s->fold && s->has_initial) || p->nseq > 1 || stride != sf_dtypes[x->dt].size)
                return NULL;
        if (s->op != SF_SUM && !sf_survives(x->dt, s->acc))
                return NULL; /* the largest may be another one once all are wrapped */
        return p->isa->map->direct(x->dt, sf_class_of(m->held), s->op);
}

/* Do all steps fold so, and fill no panel? */
bool sf_narrow_all_along(const sf_panels *p, int32_t d)
{
        bool all = p->shape != SF_PANEL_MAP;
        for (int32_t i = 0; all && i < p->members; i++)
                all = p->member[i].step->fold && sf_narrow_along(p, &p->member[i], d);
        return all;
}

/* Shorter rows, in bytes of results, are quicker widened, many at a time. */
#define LEAST_OWN_ROW 48
#define LEAST_WIDE_ROW 256

/* May a scan take narrow integers as they lie, and leave them so, or widen them to what is held? */
void sf_narrow_choose(const sf_panels *p, sf_panel_member *m)
{
        const sf_step *s = m->step;
        const sf_operand *x = &m->fuse->operand[0];
        const bool rows = p->shape == SF_PANEL_ROWS, columns = p->shape == SF_PANEL_COLUMNS;
        const int64_t size = sf_dtypes[s->out].size, from = sf_dtypes[x->dt].size, sign = p->reverse ? -1 : 1;
        const int32_t along = rows ? p->seq : p->col;
        const bool scans = !s->fold && !m->fuse->load.count && !m->fuse->store.count && p->nseq == 1 && (rows || columns) &&
                           sf_dtypes[s->out].kind != SF_KIND_REAL && x->stride[along] == sign * from && s->dims[along].y == sign * size;
        /* Sums wrap in the results' type if the accumulator holds no fewer bits; max and min need
         * the same values everywhere. */
        const bool wraps = s->op == SF_SUM && x->dt != SF_DT_BOOL && s->out != SF_DT_BOOL && from == size &&
                           sf_dtypes[x->dt].kind != SF_KIND_REAL && sf_dtypes[s->acc].kind != SF_KIND_REAL &&
                           sf_dtypes[s->acc].bits >= sf_dtypes[s->out].bits;
        const bool extreme = (s->op == SF_MAX || s->op == SF_MIN) && x->dt == s->out &&
                             (s->acc == s->out || (s->out == SF_DT_BOOL && s->acc == SF_DT_U8));
        const bool own = (wraps || extreme) && size <= 2 && (!s->m || m->masks);
        m->wide = scans && s->op == SF_SUM && size == 8 && s->out == m->held && m->direct && !s->m && (columns || p->n * size >= LEAST_WIDE_ROW);
        m->own_scan = m->wide || (scans && own && (columns || p->n * size >= LEAST_OWN_ROW));
}

/* ---------------------------------------------------------------------------------------------
 * Running
 * ------------------------------------------------------------------------------------------- */
/* Totals of a piece's lines, elements that are values, become nodes: in rows they repeat through
 * the vector. */
static void nodes_from_totals(const sf_panels *p, const sf_panel_member *m, const sf_piece *piece, const char *totals)
{
        const int64_t values = in_columns(p) ? sf_parts(piece->cols, m->kernels->width) * m->kernels->width
                                             : m->kernels->width;
        for (int64_t line = 0; line < piece->lines; line++, totals += piece->cols * m->size) {
                char *node = piece->of[m - p->member].sums + line * sf_panel_total_bytes(p, m);
                for (int64_t v = 0; v < values; v += piece->cols)
                        memcpy(node + v * m->size, totals, (size_t)(sf_smaller(piece->cols, values - v) * m->size));
        }
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
/* Runs of columns go around the cache though they are shorter than SF_CPU_STREAM_LINE, since
 * neighbours follow soon. */
#define STREAM_RUN 256
/* Between such runs in the panel, which has 4 bytes an element: stores a page's multiple away from
 * a load hold it up. */
#define OWN_PADDING (3 * 64)

/* What stands to the left of a piece, an element of the results' type a line or column. */
static void own_left(const sf_panels *p, const sf_panel_member *m, char *scratch, const sf_piece *piece)
{
        const bool columns = in_columns(p);
        const int64_t size = sf_dtypes[m->step->out].size;
        char *left = scratch + m->totals;
        for (int64_t line = 0; line < sf_smaller(piece->lines, p->carries); line++) {
                const sf_carry *carry = sf_panel_carry(m, scratch, piece->carry + line);
                p->isa->map->mover(m->held, m->step->out)(carry->fill, columns ? m->size : 0, left + line * piece->cols * size, size,
                                                          p->carries > 1 || columns ? piece->cols : piece->lines);
        }
}

/* The lines that runs share with their neighbours are stored, not streamed, and a store that has to
 * wait for its line holds up all behind it. */
static void fetch_ends(char *y, int64_t step, int64_t runs, int64_t bytes)
{
        for (int64_t r = 0; r < runs; r++, y += step) {
                __builtin_prefetch(y, 1);
                __builtin_prefetch(y + bytes - 1, 1);
        }
}

/* A block of narrow integers, scanned as they lie. What cannot be streamed as it is computed is put
 * together in the panel. */
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

/* Columns whose results are put together in the panel: so many at a time, and it stays in the
 * first-level cache. */
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
        /* Whole cache lines and long rows are streamed as they are computed. Others that lie on
         * end, and columns a few at a time, are put together first. */
        const bool lines = !((begin | (uintptr_t)y_line | (uintptr_t)(columns ? y_seq : run)) % 64), on_end = y_step == run;
        const bool streams = p->stream && (lines || (!columns && run >= SF_CPU_STREAM_LINE && begin % 8 == 0));
        const bool gathers = p->stream && !streams && (columns ? on_end || run >= STREAM_RUN : p->whole && on_end);
        const int64_t cols = columns && gathers && !on_end ? WIDE_COLUMNS : piece->cols, lowest = !columns && p->reverse ? size - run : 0;
        char *panel = scratch + m->panel;
        if (!first)
                own_left(p, m, scratch, piece);
        for (int64_t line = 0; line < (columns ? piece->lines : 1); line++) {
                for (int64_t c = 0; c < piece->cols; c += cols) {
                        const int64_t here = sf_smaller(cols, piece->cols - c), runs = columns ? count : piece->lines, each = columns ? here * size : run;
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

bool sf_narrow_run(const sf_panels *p, const sf_panel_member *m, char *scratch,
                   const sf_piece *piece, int64_t first, int64_t count)
{
        const bool own = m->own_scan && !(m->wide && piece->totals);
        if (own)
                (m->wide ? run_wide : run_own)(p, m, scratch, piece, first, count);
        else if (m->direct && (m->step->fold || piece->totals))
                run_direct(p, m, scratch, piece, first, count);
        else
                return false;
        return true;
}

int64_t sf_narrow_block(const sf_panels *p, const sf_piece *piece, int64_t count)
{
        const sf_panel_member *m = &p->member[0];
        if (p->members == 1 && m->direct && (m->step->fold || piece->totals))
                return count;
        return p->block * (p->members == 1 && m->own_scan && !in_columns(p) ? OWN_BLOCKS : 1);
}
