/* Walks one piece: loads blocks into a panel, scans or folds them there, and stores them. See
 * panel.h. */
#include "cpu/panel.h"

#include "core/value.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------
 * What is to the left of a piece
 * ------------------------------------------------------------------------------------------- */
sf_carry *sf_panel_carry(const sf_panel_member *m, char *scratch, int64_t r)
{
        return (sf_carry *)(void *)(scratch + m->carries) + r;
}

void sf_panel_first_fill(const sf_panels *p, const sf_panel_member *m, char *fill)
{
        const sf_step *s = m->step;
        /* initial + identity, as the last addition would be: not always the initial value itself
         * (-0.0 + 0.0 is 0.0) */
        const sf_value first = sf_combine(s->op, s->acc, s->initial, s->identity);
        m->kernels->fill(fill, sf_panel_values(p, m), s->has_initial ? first : m->identity);
}

/* fill = the combination of all entries of a carry. There is room for one more entry behind
 * them. */
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

/* The carries of lines that are not of a shared axis: the values to their left, the initial value,
 * and the value before the first element. */
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

/* Where a kernel reads and writes, and finds its mask, its carries and its counters. */
typedef struct place {
        const char *x;
        char *y;
        const uint8_t *m;
        int64_t x_step, y_step, m_step; /* to the next line; in columns, to the next position */
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
        const bool columns = sf_panel_in_columns(p), left = s->has_initial || s->exclusive || s->lefts || piece->chunk;
        const int64_t pitch = sf_panel_pitch(p, piece), position = piece->from + b->first;
        const int64_t last = p->reverse ? (b->count - 1) * piece->cols : 0;
        const int64_t in_panel = sf_panel_line_at(p, b) + last;
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

/* What the kernel makes of a block's elements. */
static sf_prelude lift_of(const sf_block *b)
{
        const struct sf_piece_in *centre = b->m->centre < 0 ? NULL : &b->piece->in[b->m->centre];
        sf_prelude lift = b->m->lift;
        if (centre) {
                lift.centre = centre->at + b->line * centre->line;
                lift.centre_row = centre->line;
        }
        return lift;
}

/* Does another call resume after this block? Whole blocks of a shared scan always say so: then the
 * worker waits for streamed stores only once, at its end. */
static bool resumes(const sf_panels *p, const sf_block *b)
{
        return b->start + b->count < b->length ||
               (b->piece->chunk && !sf_panel_folds(b) && b->count == p->block);
}

sf_rows sf_panel_rows(const sf_walker *w, const sf_block *b, int64_t rows)
{
        const place at = place_of(w, b);
        const sf_panel_member *m = b->m;
        const bool fold = sf_panel_folds(b);
        return (sf_rows){.x = at.x, .y = at.y, .m = at.m,
                         .x_row = at.x_step, .y_row = at.y_step, .m_row = at.m_step,
                         .rows = rows, .n = b->count, .start = b->start,
                         .resume = resumes(w->p, b),
                         .exclusive = m->step->exclusive && !fold,
                         .stream = m->streams && !fold,
                         .raw = b->piece->totals, .wide = m->wide, .lift = lift_of(b),
                         .identity = m->identity, .turn = m->turn,
                         .beside = m->apart, .numbers = sf_panel_numbers(w->p, b),
                         .ahead = m->reads ? b->piece->ahead : 0,
                         .lanes = m->lanes,
                         .carry = at.carry, .carry_row = w->p->carries > 1,
                         .counters = at.counters, .slots = SF_CPU_FOLD_GROUP};
}

sf_columns sf_panel_columns(const sf_walker *w, const sf_block *b)
{
        const place at = place_of(w, b);
        const sf_panel_member *m = b->m;
        const bool fold = sf_panel_folds(b);
        /* cpu.c puts the columns before the first cache line into a piece of their own: not
         * streamed. */
        const bool streams = m->streams && m->writes && b->piece->cols * m->size >= 64;
        return (sf_columns){.x = at.x, .y = at.y, .m = at.m,
                            .x_step = at.x_step, .y_step = at.y_step, .m_step = at.m_step,
                            .cols = b->piece->cols, .n = b->count, .start = b->start,
                            .resume = resumes(w->p, b),
                            .exclusive = m->step->exclusive && !fold,
                            .stream = streams && !b->piece->totals,
                            .raw = b->piece->totals, .wide = m->wide, .lift = lift_of(b),
                            .identity = m->identity, .turn = m->turn,
                            .beside = m->apart, .numbers = sf_panel_numbers(w->p, b),
                            .ahead = m->reads ? b->piece->ahead : 0,
                            .carry = at.carry,
                            .counters = at.counters, .counter_stride = m->entry_bytes};
}

/* Is a member one of two that a kernel for rows folds together? */
static bool pairs_rows(const sf_panel_member *m)
{
        return m->pair >= 0 && !m->products;
}

static void run_rows(const sf_walker *w, sf_block b)
{
        const sf_cpu_kernels *k = b.m->kernels;
        const bool fold = sf_panel_folds(&b), packed = w->p->shape == SF_PANEL_PACKED;
        void (*kernel)(const sf_rows *) = packed ? (fold ? k->fold_packed : k->scan_packed)
                                                 : (fold ? k->fold_rows : k->scan_rows);
        /* A sequence that is all in this block needs no counter of its own. */
        const int64_t all = b.piece->lines, group = fold ? SF_CPU_FOLD_GROUP : SF_CPU_GROUP;
        const int64_t most = w->p->whole ? all : group;
        sf_block other = b;
        other.m = pairs_rows(b.m) ? &w->p->member[b.m->pair] : NULL;
        for (; b.line < all; b.line += most) {
                sf_rows job = sf_panel_rows(w, &b, sf_smaller(most, all - b.line));
                other.line = b.line;
                job.sums = other.m ? place_of(w, &other).y : NULL;
                kernel(&job);
        }
}

/* Folds the whole tiles of a block of a sum of products; returns how many positions that is. If two
 * members are folded together, the call for the first one folds both. */
static int64_t run_products(const sf_walker *w, sf_block b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b.m, *pair = m->pair < 0 ? NULL : &p->member[m->pair];
        const bool columns = sf_panel_in_columns(p);
        const int64_t tile = columns ? SF_CPU_TILE_ROWS : SF_CPU_TILE_VECTORS * m->kernels->width;
        const int64_t each = columns ? 1 : SF_CPU_GROUP, count = b.count / tile * tile;
        const int64_t position = b.piece->from + b.first, ahead = b.piece->ahead;
        const int64_t seq[2] = {m->fuse->operand[m->factor[0]].stride[p->seq],
                                m->fuse->operand[m->factor[1]].stride[p->seq]};
        const struct sf_piece_in *x = &b.piece->in[m->factor[0]], *y = &b.piece->in[m->factor[1]];
        /* If rows are short, prefetch the next ones. */
        const bool brief = !columns && count * seq[0] <= 4 * ahead;
        for (; b.line < b.piece->lines && count && !(pair && pair < m); b.line += each) {
                char *counters[2] = {place_of(w, &b).counters, NULL};
                if (pair) { /* both members have as many counters, of the same size */
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

/* Loads, computes and stores one block of one member. */
static void run_block(const sf_walker *w, sf_block b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b.m;
        const bool loads = !m->reads || (m->step->m && !m->masks);
        const bool stores = !sf_panel_folds(&b) && (!m->writes || m->gathers), columns = sf_panel_in_columns(p);
        const int64_t lines = b.piece->lines, step = p->col >= 0 ? 1 : lines;
        const bool numbers = m->after >= 0 && !sf_panel_folds(&b);
        sf_block scan = b;
        if (m->best)
                sf_positions_fold(w, &b);
        if (m->best || m->given || (pairs_rows(m) && !m->squares))
                return;
        if (m->products) {
                const int64_t whole = run_products(w, b);
                if (b.first + b.count < b.piece->n && whole == b.count)
                        return;
                b.first += whole; /* the rest; even if there is none, the kernel must finish */
                b.start += whole;
                b.count -= whole;
        }
        for (; b.line < lines && (columns || loads); b.line += step) {
                if (numbers)
                        scan = sf_positions_number(w, &b);
                else if (loads)
                        sf_panel_load(w, &b);
                scan = numbers ? scan : b;
                if (!columns)
                        continue;
                const sf_columns job = sf_panel_columns(w, &scan);
                (sf_panel_folds(&b) ? scan.m->kernels->fold_columns : scan.m->kernels->scan_columns)(&job);
                if (stores)
                        sf_panel_store(w, &b);
        }
        b.line = 0;
        scan.line = 0;
        if (!columns)
                run_rows(w, numbers ? scan : b);
        for (; stores && !columns && b.line < lines; b.line += step)
                sf_panel_store(w, &b);
}

sf_block sf_panel_block(const sf_panels *p, const sf_piece *piece, int32_t i, int64_t first,
                        int64_t count)
{
        return (sf_block){.m = &p->member[i], .piece = piece, .of = &piece->of[i], .first = first, .count = count, .start = first, .length = piece->n};
}

/* Is no panel used, neither to load nor to store? */
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
        const int64_t block = alone || paired || p->member[p->members - 1].best ? end - first : p->block;
        for (; first < end; first += block)
                for (int32_t i = 0; i < p->members; i++)
                        if (!piece->some || p->member[i].step->fold == piece->totals)
                                run_block(w, sf_panel_block(p, piece, i, first,
                                                            sf_smaller(block, end - first)));
}

/* A fold whose values are wanted: stores each line's total as the kernels have it. */
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
                        sf_panel_map(w, &all);
                else if (m->step->fold && !m->writes)
                        sf_panel_store_totals(w, &all, w->scratch + m->totals);
        }
}
