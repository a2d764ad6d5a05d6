/*
 * Positions by way of values. Where the extremes themselves are known, their positions need no
 * kernel that carries both.
 *
 *   folds   a kernel folds the elements as they are in memory, however narrow; then the position is
 *           that of an element equal to the total
 *   scans   beside a scan of the values: the elements that are equal to what they came to were the
 *           best so far, so a scan of their numbers is all that is left
 */
#include "core/value.h"
#include "cpu/panel.h"

#include <string.h>

/* Rows are folded this many bytes at a time, so that what is searched is still in a cache. */
#define STRETCH (16 << 10)
/* In shorter rows the search costs more than it saves. Maximum and position, shares of reads before
 * and after: f32 rows of 64 0.33, 0.28, of 256 0.45, 0.48. Narrow integers would go by way of
 * lanes four times as wide. */
#define LEAST_ROW 128
#define LEAST_NARROW 64

/* ---------------------------------------------------------------------------------------------
 * The plan
 * ------------------------------------------------------------------------------------------- */

/* The operation that finds the extreme whose position is wanted. */
static sf_op extreme_of(sf_op op)
{
        return op == SF_ARGMAX || op == SF_LAST_ARGMAX ? SF_MAX : SF_MIN;
}

/* The accumulator of the kernels that find it. */
static sf_dt acc_of(sf_dt dt)
{
        return dt == SF_DT_BOOL ? SF_DT_U8 : dt == SF_DT_F16 || dt == SF_DT_BF16 ? SF_DT_F32 : dt;
}

/* Is nothing to the left of its sequences, and no element left out? */
static bool is_plain(const sf_step *s)
{
        return !s->m && !s->exclusive && !s->has_initial && !s->lefts && !s->values;
}

/* Has `other` the extremes whose positions m wants? */
static bool are_of(const sf_panel_member *m, const sf_panel_member *other)
{
        const sf_step *s = other->step;
        return s->op == extreme_of(m->step->op) && s->fold == m->step->fold && is_plain(s) &&
               other->load.copy && other->load.copied == m->load.copied && other->held == m->held;
}

static void plan_fold(sf_panels *p, sf_panel_member *m, sf_panel_member *other)
{
        const sf_operand *x = &m->fuse->operand[m->load.copied];
        const int64_t size = sf_dtypes[x->dt].size;
        /* the kernels for positions are as fast in all types but the narrow integers */
        const bool narrow = size <= 2 && sf_dtypes[x->dt].kind != SF_KIND_REAL;
        if (p->shape != SF_PANEL_ROWS || p->nseq > 1 || m->step->m || !(narrow || other) ||
            p->n < (narrow ? LEAST_NARROW : LEAST_ROW) ||
            x->stride[p->seq] != (p->reverse ? -size : size))
                return;
        m->best = sf_cpu_find(p->isa, x->dt, acc_of(x->dt), extreme_of(m->step->op));
        for (sf_panel_member *one = m; one && m->best; one = one == m ? other : NULL) {
                one->kernels = sf_cpu_find(p->isa, m->held, m->held, one->step->op);
                one->turn = one->kernels->turn;
                one->reads = true;
                one->wide = false;
                one->given = one != m;
        }
}

static void plan_scan(sf_panels *p, sf_panel_member *m, sf_panel_member *other)
{
        const sf_step *s = m->step;
        /* the later one of equal elements must win */
        if (!is_plain(s) || (m->identity.index < 0) == s->reverse ||
            (sf_panel_in_columns(p) && p->lines > 1))
                return;
        const sf_dt dt = s->reverse ? (m->size == 4 ? SF_DT_U32 : SF_DT_U64) : m->made;
        const sf_op op = s->reverse ? SF_MIN : SF_MAX;
        other->writes = other->writes && p->shape == SF_PANEL_ROWS;
        other->streams = other->gathers = false; /* what is written is read again here */
        m->after = (int32_t)(other - p->member);
        m->reads = false;
        sf_panel_member *n = &p->numbers[m - p->member];
        *n = *m;
        n->after = -1;
        n->kernels = sf_cpu_find(p->isa, dt, dt, op);
        n->turn = n->kernels->turn;
        n->identity = sf_identity(op, dt);
        n->apart = 0;
}

void sf_positions_plan(sf_panels *p)
{
        for (int32_t i = 0; i < p->members; i++) {
                sf_panel_member *m = &p->member[i], *other = NULL;
                m->best = NULL;
                m->given = false;
                m->after = -1;
                if (p->cut || p->straight || !sf_op_is(m->step->op, SF_INDEX) || !m->load.copy)
                        continue;
                for (int32_t k = 0; k < i; k++)
                        if (are_of(m, &p->member[k]))
                                other = &p->member[k];
                if (m->step->fold && p->members == (other ? 2 : 1))
                        plan_fold(p, m, other);
                if (!m->step->fold && other)
                        plan_scan(p, m, other);
        }
}

/* ---------------------------------------------------------------------------------------------
 * Folds of rows
 * ------------------------------------------------------------------------------------------- */

/* Where elements are in memory, upwards, and which way numbers go there. */
typedef struct line_of {
        const char *x;
        int64_t row;             /* bytes to the next line */
        int64_t number, step, next; /* the first number, to the next element, to the next line's */
} line_of;

static line_of line_at(const sf_panels *p, const sf_block *b)
{
        const int32_t k = b->m->load.copied;
        const int64_t seq = b->m->fuse->operand[k].stride[p->seq];
        const int64_t last = p->reverse ? b->count - 1 : 0, lowest = b->piece->from + b->first + last;
        const struct sf_piece_in *in = &b->piece->in[k];
        const sf_numbers n = sf_panel_numbers(p, b);
        return (line_of){in->at + b->line * in->line + lowest * seq, in->line,
                         n.at + last * n.step, p->reverse ? -n.step : n.step, n.row};
}

/* The extremes of `rows` rows, one after another. */
static void fold_values(const sf_walker *w, const sf_block *b, const char *x, int64_t row,
                        int64_t rows, int64_t count, char *to)
{
        const sf_panel_member *m = b->m;
        const sf_cpu_kernels *k = m->best;
        const sf_dt acc = acc_of(m->fuse->operand[m->load.copied].dt);
        const sf_rows job = {.x = x, .y = to, .x_row = row, .y_row = k->result_bytes,
                             .rows = rows, .n = count,
                             .identity = sf_identity(extreme_of(m->step->op), acc),
                             .turn = k->turn, .ahead = sf_magnitude(b->piece->ahead),
                             .lanes = sf_lanes_whole(w->p->isa->whole, k->lane_bytes, false),
                             .counters = w->scratch + m->counters};
        k->fold_rows(&job);
}

static sf_find find_of(const sf_panel_member *m, const line_of *line)
{
        const sf_dt dt = m->fuse->operand[m->load.copied].dt;
        sf_find f = {.dt = dt, .row = line->row,
                     .last = (line->step < 0) != (m->identity.index < 0)};
        if (sf_dtypes[dt].kind == SF_KIND_REAL)
                sf_value_store(m->held, dt, sf_value_from_f64(INFINITY, m->held), &f.infinity);
        return f;
}

/* Finds the extremes of lines that are longer than a stretch, and in which stretch each is. */
static void fold_stretches(const sf_walker *w, const sf_block *b, const line_of *line,
                           int64_t stretch, bool last, char *best, int64_t *at)
{
        const sf_panel_member *m = b->m;
        const sf_dt dt = m->fuse->operand[m->load.copied].dt;
        const int64_t size = sf_dtypes[dt].size;
        const bool largest = extreme_of(m->step->op) == SF_MAX;
        const sf_op first_of = largest ? SF_ARGMAX : SF_ARGMIN;
        const sf_op last_of = largest ? SF_LAST_ARGMAX : SF_LAST_ARGMIN;
        const sf_dt acc = m->step->acc;
        for (int64_t r = 0, many; r < b->piece->lines; r += many) {
                char found[SF_CPU_FOLD_GROUP * sizeof(uint64_t)];
                many = sf_smaller(b->piece->lines - r, SF_CPU_FOLD_GROUP);
                for (int64_t from = 0; from < b->count; from += stretch) {
                        fold_values(w, b, line->x + r * line->row + from * size, line->row, many,
                                    sf_smaller(stretch, b->count - from), found);
                        for (int64_t i = 0; i < many; i++) {
                                char *so_far = best + (r + i) * size;
                                sf_value v = sf_value_load(dt, acc, found + i * size), a = v;
                                if (from)
                                        a = sf_value_load(dt, acc, so_far);
                                a.index = from ? at[r + i] : from;
                                v.index = from;
                                if (sf_better(last ? last_of : first_of, acc, a, v).index != from)
                                        continue;
                                memcpy(so_far, found + i * size, (size_t)size);
                                at[r + i] = from;
                        }
                }
        }
}

/* The total of a line as the kernels have it: that of its one element that counts. */
static void put_total(const sf_walker *w, sf_block b, int64_t line, const char *element,
                      int64_t number)
{
        b.line = line;
        sf_rows job = sf_panel_rows(w, &b, 1);
        job.x = element;
        job.n = 1;
        job.start = 0;
        job.resume = false;
        job.numbers = (sf_numbers){number, 0, 1};
        job.ahead = 0;
        b.m->kernels->fold_rows(&job);
}

/* What is found becomes results: numbers, or, where more is to come, values. */
static void put_found(const sf_walker *w, const sf_block *b, const line_of *line, const char *best,
                      const int64_t *at)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b->m;
        const int64_t lines = b->piece->lines;
        const sf_dt dt = m->fuse->operand[m->load.copied].dt;
        const int64_t size = sf_dtypes[dt].size;
        sf_move *move = p->isa->map->mover(dt, m->held);
        const bool values = b->piece->totals || m->step->has_initial || m->step->lefts;
        for (int32_t i = 0; i < p->members; i++) {
                const sf_panel_member *one = &p->member[i];
                char *to = w->scratch + one->totals;
                if (!values && one != m)
                        move(best, size, to, one->size, lines);
                for (int64_t r = 0; r < lines && (values || one == m); r++) {
                        const int64_t number = line->number + r * line->next + at[r] * line->step;
                        sf_value v = {.u64 = 0};
                        if (!values) { /* a constant size is one store */
                                if (m->size == 8)
                                        memcpy(to + r * 8, &number, 8);
                                else
                                        memcpy(to + r * 4, &number, 4);
                                continue;
                        }
                        move(best + r * size, size, (char *)&v, one->size, 1);
                        if (one == m)
                                put_total(w, *b, r, (const char *)&v, number);
                        else
                                one->kernels->fill(b->piece->of[i].sums + r * sf_panel_total_bytes(p, one),
                                                   sf_panel_values(p, one), v);
                }
        }
}

void sf_positions_fold(const sf_walker *w, const sf_block *b)
{
        const sf_panel_member *m = b->m;
        const line_of line = line_at(w->p, b);
        const int64_t size = sf_dtypes[m->fuse->operand[m->load.copied].dt].size;
        const int64_t lines = b->piece->lines;
        const int64_t stretch = STRETCH / size;
        int64_t *at = (int64_t *)(void *)(w->scratch + m->panel);
        char *best = (char *)(at + lines);
        sf_find f = find_of(m, &line);
        if (b->count <= stretch) {
                fold_values(w, b, line.x, line.row, lines, b->count, best);
                f.x = line.x;
                f.best = best;
                f.rows = lines;
                f.count = b->count;
                f.at = at;
                w->p->isa->map->find[sf_order_log2((uint64_t)size)](&f);
        } else {
                fold_stretches(w, b, &line, stretch, f.last, best, at);
                for (int64_t r = 0; r < lines; r++) {
                        const int64_t from = at[r];
                        f.x = line.x + r * line.row + from * size;
                        f.best = best + r * size;
                        f.rows = 1;
                        f.count = sf_smaller(stretch, b->count - from);
                        f.at = at + r;
                        w->p->isa->map->find[sf_order_log2((uint64_t)size)](&f);
                        at[r] += from;
                }
        }
        put_found(w, b, &line, best, at);
}

/* ---------------------------------------------------------------------------------------------
 * Scans
 * ------------------------------------------------------------------------------------------- */

/* What is to the left of a block's lines: of the best of it, only the number matters now. */
static void number_carries(const sf_walker *w, const sf_block *b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b->m, *n = &p->numbers[m - p->member];
        const int64_t values = sf_panel_values(p, m);
        const int64_t first = b->piece->carry, end = first + (b->piece->chunk ? b->piece->lines : 0);
        for (int64_t r = first; r < end; r++) {
                const sf_carry *from = sf_panel_carry(m, w->scratch, r);
                sf_carry *to = sf_panel_carry(n, w->scratch, r);
                char *number = w->scratch + n->entries + 2 * r * n->entry_bytes;
                char *best = number + n->entry_bytes;
                *to = (sf_carry){.count = from->count > 0, .entries = number};
                if (!to->count)
                        continue;
                memcpy(best, from->entries, (size_t)sf_panel_total_bytes(p, m));
                for (int32_t e = 1; e < from->count; e++)
                        m->kernels->combine(best, from->entries + e * from->entry_stride, values);
                m->kernels->narrow(number, best, values, m->identity.index < 0);
                for (int64_t i = 0; i < values * n->size; i += n->size) {
                        uint64_t bits = 0;
                        memcpy(&bits, number + i, (size_t)n->size);
                        bits ^= n->turn;
                        memcpy(number + i, &bits, (size_t)n->size);
                }
        }
}

sf_block sf_positions_number(const sf_walker *w, const sf_block *b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b->m, *other = &p->member[m->after];
        const sf_operand *in = &m->fuse->operand[m->load.copied];
        const struct sf_piece_of *values = &b->piece->of[m->after];
        const bool columns = sf_panel_in_columns(p);
        /* elements and values are in memory as they are here */
        const bool direct = p->shape == SF_PANEL_ROWS && in->dt == m->held &&
                            in->stride[p->seq] == (p->reverse ? -m->size : m->size);
        const int64_t pitch = sf_panel_pitch(p, b->piece), across = b->piece->cols;
        const int64_t lowest = b->piece->from + b->first + (p->reverse ? b->count - 1 : 0);
        const line_of line = line_at(p, b);
        int64_t runs = columns || p->col >= 0 ? 1 : b->piece->lines, count = b->count * across;
        sf_loop *reached = p->isa->map->reached[sf_class_of(m->held)];
        if (direct)
                sf_panel_number(w, b);
        else
                sf_panel_load(w, b);
        if (count == pitch && !direct && !other->writes) { /* lines are back to back */
                count *= runs;
                runs = 1;
        }
        for (int64_t r = 0; r < runs; r++) {
                const int64_t at = (sf_panel_line_at(p, b) + r * pitch) * m->size;
                char *numbers = w->scratch + m->other + at;
                const char *x = direct ? line.x + r * line.row : w->scratch + m->panel + at;
                const char *best = w->scratch + other->panel + at;
                if (other->writes)
                        best = values->y + r * values->y_line +
                               lowest * other->step->dims[p->seq].y;
                reached(numbers, x, best, numbers, count);
        }
        number_carries(w, b);
        sf_block scan = *b;
        scan.m = &p->numbers[m - p->member];
        return scan;
}
