/*
 * Scans one plain step along a shared axis (shared.c) with a single scan of the elements. The first
 * walk scans a chunk into scratch, without the values to its left. The second walk adds those
 * carries and writes the results.
 *
 * Rows: the second walk over one chunk and the scan of the next are interleaved, row by row of a
 * tile, because a core hides its reads behind its streamed stores only if it issues both all the
 * time. In scratch, the next chunk's lanes replace those that have just been written out.
 *
 * Runs: a narrow matrix, whose vectors are not full, is contiguous in scratch. The carries of its
 * columns are repeated until they fill a period of whole vectors, and are added to those.
 */
#include "cpu/shared.h"

#include <string.h>

/* Rows of a run may have at most this many vectors, so that the carries of one period stay in the
 * first-level cache. */
#define MOST_RUN 4
/* A load may have to wait for an earlier store at the same offset in another page (4K aliasing).
 * Most tensors begin at a page boundary, and scratch is used while they are read and written. So
 * scratch begins elsewhere in a page, and its second half at yet another offset. */
#define PAGE 4096

bool sf_carried_rows(const sf_panels *p)
{
        const sf_panel_member *m = &p->member[0];
        return p->straight && !m->step->fold && p->shape != SF_PANEL_COLUMNS &&
               m->kernels->carry_rows && m->lanes->unit == m->kernels->width;
}

bool sf_carried_runs(const sf_panels *p)
{
        const sf_panel_member *m = &p->member[0];
        const bool full = p->shape != SF_PANEL_COLUMNS && m->lanes->unit == m->kernels->width;
        return p->straight && !m->step->fold && !full && m->kernels->carry_run && p->strips == 1 &&
               sf_magnitude(m->step->dims[p->seq].y) == p->cols * m->size &&
               p->cols <= MOST_RUN * m->kernels->width;
}

/* Bytes from one position in scratch to the next; negative where the tensor's addresses go down. */
static int64_t raw_step(const sf_panels *p)
{
        const sf_panel_member *m = &p->member[0];
        const int64_t pitch = p->cols * m->kernels->lane_bytes;
        return m->step->dims[p->seq].y < 0 ? -pitch : pitch;
}

static char *raw_at(const sf_sharer *w, int side, int64_t position)
{
        const int64_t step = raw_step(w->p);
        return w->raw[side] + (step < 0 ? (1 - w->p->chunk) * step : 0) + position * step;
}

/* After how many vectors the same columns come at the same lanes again; at least 4. */
static int64_t period_of(const sf_panels *p)
{
        const int64_t even = p->cols & -p->cols;
        const int64_t odd = p->cols / sf_smaller(even, p->member[0].kernels->width);
        return odd < 4 ? 4 * odd : odd;
}

static int64_t table_bytes(const sf_panels *p)
{
        return sf_carried_runs(p) ? p->entries * (period_of(p) + 4) * p->isa->vector_bytes : 0;
}

size_t sf_carried_bytes(const sf_panels *p)
{
        if (!p->carried)
                return 0;
        const int64_t raw = p->chunk * sf_magnitude(raw_step(p));
        return (size_t)(table_bytes(p) + (sf_carried_rows(p) ? 1 : 2) * raw + 3 * PAGE);
}

void sf_carried_place(sf_sharer *w, char *room)
{
        const sf_panels *p = w->p;
        char *raw = room + table_bytes(p);
        w->table = room;
        w->raw[0] = raw + (-(uintptr_t)raw % PAGE) + PAGE / 4;
        w->raw[1] = w->raw[0] + p->chunk * sf_magnitude(raw_step(p)) + PAGE / 2;
        if (sf_carried_rows(p))
                w->raw[1] = w->raw[0];
}

/* ---------------------------------------------------------------------------------------------
 * The first walk
 * ------------------------------------------------------------------------------------------- */

/* The job that scans `count` positions of all leaves of a chunk, from `first` on, into scratch. */
static sf_rows scan_rows_job(sf_sharer *w, const sf_chunk *k, int64_t first, int64_t count)
{
        const sf_panels *p = w->p;
        const sf_block b = sf_panel_block(p, &k->scan, 0, first, count);
        sf_rows job = sf_panel_rows(&w->walker[0], &b, k->whole);
        job.y = raw_at(w, k->side, first);
        job.y_row = p->leaf * raw_step(p);
        job.raw = job.resume = true;
        job.exclusive = job.stream = false;
        job.carry = NULL;
        return job;
}

static void scan_part(sf_sharer *w, const sf_chunk *k, int64_t first, int64_t count)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = &p->member[0];
        if (p->shape != SF_PANEL_COLUMNS) {
                const sf_rows job = scan_rows_job(w, k, first, count);
                m->kernels->scan_rows(&job);
                return;
        }
        const sf_block b = sf_panel_block(p, &k->scan, 0, first, count);
        sf_columns job = sf_panel_columns(&w->walker[0], &b);
        job.y = raw_at(w, k->side, first);
        job.y_step = raw_step(p);
        job.resume = true;
        job.exclusive = job.stream = false;
        job.carry = NULL;
        m->kernels->scan_columns(&job);
}

/* The total of a whole leaf is the entry of its counter at the leaf's level. */
void sf_carried_totals(sf_sharer *w, const sf_chunk *k)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = &p->member[0];
        const bool columns = p->shape == SF_PANEL_COLUMNS;
        const int64_t tile = columns ? p->isa->scan_rows : p->isa->scan_tile * m->lanes->rows;
        const int64_t level = sf_order_log2((uint64_t)(p->leaf / tile));
        const int64_t bytes = sf_panel_total_bytes(p, m);
        for (int64_t r = 0; r < k->whole; r++) {
                const char *counter = w->walker[0].scratch + m->counters + r * m->counter_bytes;
                memcpy(k->scan.of[0].sums + r * bytes, counter + level * m->entry_bytes,
                       (size_t)bytes);
        }
}

/* ---------------------------------------------------------------------------------------------
 * The second
 * ------------------------------------------------------------------------------------------- */

/* Repeats a chunk's carries to fill a period. For a free operation, they are combined into one. */
void sf_carried_set(sf_sharer *w, const sf_chunk *k)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = &p->member[0];
        if (sf_carried_rows(p))
                return;
        const sf_carry *carry = sf_panel_carry(m, w->walker[1].scratch, 0);
        const int64_t vector = p->isa->vector_bytes, columns = p->cols * m->size;
        const int64_t each = (period_of(p) + 4) * vector, seq = m->step->dims[p->seq].y;
        const bool together = m->kernels->free && carry->count > 1;
        char *lowest = k->scan.of[0].y + (seq < 0 ? (p->chunk - 1) * seq : 0);
        const bool aligned = (m->streams || m->gathers) &&
                             (uintptr_t)lowest % (uintptr_t)m->size == 0;
        const int64_t before = aligned ? (int64_t)(-(uintptr_t)lowest % (uintptr_t)vector) : 0;
        const int64_t phase = before % columns;
        if (together)
                sf_shared_sum(w, m, carry->fill, carry, NULL);
        w->run = (sf_run){.turn = m->kernels->turn, .entries = together ? 1 : carry->count, .period = period_of(p),
                          .table = w->table, .base = lowest + before, .stream = aligned};
        for (int32_t e = 0; e < w->run.entries; e++) {
                const char *entry = carry->entries + e * carry->entry_stride;
                const char *from = together ? carry->fill : entry;
                char *to = w->table + e * each;
                memcpy(to, from + phase, (size_t)(columns - phase));
                memcpy(to + columns - phase, from, (size_t)phase);
                for (int64_t done = columns; done < each; done *= 2)
                        memcpy(to + done, to, (size_t)sf_smaller(done, each - done));
        }
}

/* Writes one part of a chunk's results from scratch. An exclusive result is the inclusive result of
 * the position before; the first of a chunk is the value to the left of the chunk. Meanwhile it
 * prefetches the next part of chunk `next`, which is NULL if there is none. */
static void carry_part(sf_sharer *w, const sf_chunk *k, int64_t part, const sf_chunk *next)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = &p->member[0];
        const int64_t count = p->leaf / SF_SHARED_PIECES, first = part * count;
        const sf_dim *seq = &m->step->dims[p->seq];
        const int64_t step = raw_step(p), down = step < 0 ? (count - 1) * step : 0;
        sf_run run = w->run;
        char *y = k->scan.of[0].y + first * seq->y;
        run.x = raw_at(w, k->side, first) + down;
        run.y = y + down;
        run.count = count * p->cols;
        run.next = run.x;
        if (next && next->whole && part + 1 < SF_SHARED_PIECES)
                run.next = next->scan.in[0].at +
                           (first + count + (step < 0 ? count - 1 : 0)) * seq->x;
        if (m->step->exclusive) {
                run.x -= step;
                if (!part) {
                        const sf_carry *carry = sf_panel_carry(m, w->walker[1].scratch, 0);
                        m->kernels->narrow(y, carry->fill, p->cols, false);
                        run.x += step < 0 ? 0 : step;
                        run.y += step < 0 ? 0 : step;
                        run.count -= p->cols;
                }
        }
        m->kernels->carry_run(&run);
}

static void walk_runs(sf_sharer *w, const sf_chunk *now, const sf_chunk *next)
{
        const int64_t count = w->p->leaf / SF_SHARED_PIECES;
        for (int64_t part = 0; part < SF_SHARED_PIECES; part++) {
                if (next && next->whole)
                        scan_part(w, next, part * count, count);
                if (now && now->whole)
                        carry_part(w, now, part, next);
        }
}

void sf_carried_walk(sf_sharer *w, sf_chunk *now, sf_chunk *next)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = &p->member[0];
        const bool carries = now && now->whole, scans = next && next->whole;
        sf_rows carry, scan;
        if (!sf_carried_rows(p)) {
                walk_runs(w, now, next);
                return;
        }
        if (scans)
                scan = scan_rows_job(w, next, 0, p->leaf);
        if (carries) {
                const sf_block b = sf_panel_block(p, &now->scan, 0, 0, p->leaf);
                carry = sf_panel_rows(&w->walker[1], &b, now->whole);
                carry.x = raw_at(w, now->side, 0);
                carry.x_row = p->leaf * raw_step(p);
                carry.common = sf_shared_common(w);
                m->kernels->carry_rows(&carry, scans ? &scan : NULL);
        } else if (scans) {
                m->kernels->scan_rows(&scan);
        }
}
