/*
 * An axis cut into segments (core/segments.h). Work is shared by elements, never by segments.
 *
 * The axis is cut into spans of a fixed number of positions. The segments that begin in a span are
 * one task, which walks them in blocks (panel.h). Programs fill and store a block's panel, whatever
 * segments it has. Kernels are called for each part of a segment in it; one call takes many short
 * segments, of up to SF_CPU_RAGGED_LONG vectors. A segment that does not end in a block is resumed
 * in the next one, after whole tiles of its own. Segments so long that one worker would still work
 * on them after all others have ended are steps by themselves, shared by all threads (shared.c).
 */
#include "cpu/panel.h"

#include "core/value.h"

#include <string.h>

/* A segment is shared by all threads if it has at least LEAST_LONG positions, and at least 1 /
 * LONG_PARTS of a worker's share of the axis. */
#define LONG_PARTS 8
#define LEAST_LONG (1 << 16)
/* Programs take a part of this many elements or more by itself, and read its segment's element of an
 * operand that has one for each where it is. For shorter ones that is repeated in scratch. */
#define LONG_PART 512
/* A task moves about SPAN_BYTES. Each worker gets about SPANS_EACH tasks or more, so that workers
 * finish at about the same time. */
#define SPAN_BYTES (256 << 10)
#define SPANS_EACH 16
/* So many segments with numbers that follow one another are a task of their own if all are empty: however many of those are at one position, threads share them. */
#define EMPTY_GROUP 4096

/* ---------------------------------------------------------------------------------------------
 * The plan
 * ------------------------------------------------------------------------------------------- */
void sf_segments_span(sf_panels *p, int64_t span)
{
        p->span = span;
        p->spans = sf_larger(1, sf_parts(p->n, span));
        p->parts = p->spans + p->member[0].step->segments.count / EMPTY_GROUP;
        p->tasks = p->outers * sf_panels_length(p, p->line) * p->strips * p->parts;
}

/* Does a block use no panel that a program fills or empties? */
static bool is_direct(const sf_panels *p)
{
        const sf_panel_member *m = &p->member[0];
        return p->shape == SF_PANEL_ROWS && p->members == 1 && !p->spreads && m->reads && (m->masks || !m->step->m) &&
               !sf_op_is(m->step->op, SF_INDEX) && (m->step->fold || m->writes || m->gathers);
}

void sf_segments_plan(sf_panels *p, int workers)
{
        const sf_panel_member *m = &p->member[0];
        p->direct = is_direct(p) && !m->gathers;
        /* the larger a block, the fewer segments are in two */
        if (is_direct(p))
                p->block = sf_smaller(m->kernels->width * SF_CPU_RAGGED_BLOCK, m->gathers ? SF_PANEL_BYTES / m->size : INT64_MAX);
        else if (p->shape == SF_PANEL_ROWS) {
                p->block = SF_PANEL_BYTES / p->widest;
                for (int32_t i = 0; i < p->members; i++)
                        p->block = sf_smaller(p->block, p->member[i].kernels->width * SF_CPU_RAGGED_BLOCK);
        }
        const int64_t lines = p->outers * sf_panels_length(p, p->line) * p->strips;
        const int64_t span = SPAN_BYTES / sf_larger(1, p->cols * sf_panels_bytes(p));
        const int64_t share = sf_parts(p->n * lines, (int64_t)SPANS_EACH * workers);
        sf_segments_span(p, sf_larger(workers > 1 ? sf_smaller(span, share) : span, SF_SEGMENTS_LEAST_BLOCKS * p->block));
        p->longest = workers > 1 ? sf_larger(LEAST_LONG, p->n / (LONG_PARTS * workers)) : INT64_MAX;
        p->lines = p->carries = 1;
}

/* Runs segment k of all members by itself. */
static sf_status run_long(sf_context *ctx, const sf_panels *p, int64_t k)
{
        sf_step step[SF_PANEL_MEMBERS];
        sf_fuse fuse[SF_PANEL_MEMBERS];
        for (int32_t i = 0; i < p->members; i++)
                sf_segments_step(p->member[i].step, k, &step[i], &fuse[i]);
        for (int32_t i = 0; i + 1 < p->members; i++)
                step[i].sibling = &step[i + 1];
        /* cppcheck-suppress uninitvar ; NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Branch): there is at least one member */
        return step->map ? sf_cpu_chain(ctx, step) : sf_cpu_run(ctx, step);
}

/* Finds the first long segment from position *at on, and moves *at past it; -1: there is none. Only
 * multiples of `longest` are tried, because a segment of that length contains one. Positions after
 * the last segment belong to none. */
static int64_t next_long(const sf_panels *p, int64_t *at)
{
        const sf_step *s = p->member[0].step;
        for (; p->longest < INT64_MAX && *at < p->n; *at += p->longest) {
                const int64_t k = sf_segments_from(s, *at + 1) - 1;
                if (k < 0 || k >= sf_segments_walked(s))
                        continue;
                const int64_t end = sf_segments_begin(s, k + 1);
                if (end <= *at || end - sf_segments_begin(s, k) < p->longest)
                        continue;
                while (*at < end)
                        *at += p->longest;
                return k;
        }
        return -1;
}

/* The longest segment is run first. The memory that it needs is enough for the others, so if there
 * is too little, the call fails before anything has been written. */
sf_status sf_segments_long(sf_context *ctx, const sf_panels *p)
{
        const sf_step *s = p->member[0].step;
        int64_t first = -1, length = 0;
        for (int64_t at = 0, k; (k = next_long(p, &at)) >= 0;)
                if (sf_segments_begin(s, k + 1) - sf_segments_begin(s, k) > length) {
                        first = k;
                        length = sf_segments_begin(s, k + 1) - sf_segments_begin(s, k);
                }
        if (first >= 0)
                SF_TRY(run_long(ctx, p, first));
        for (int64_t at = 0, k; (k = next_long(p, &at)) >= 0;)
                if (k != first)
                        SF_TRY(run_long(ctx, p, k));
        return SF_OK;
}

/* ---------------------------------------------------------------------------------------------
 * Parts: what a block has of each segment
 * ------------------------------------------------------------------------------------------- */

/* Part i of a block. */
static sf_block part_of(const sf_panels *p, sf_block b, int64_t i)
{
        const sf_cuts *c = b.piece->cuts;
        const int64_t first = c->bound[i], count = c->bound[i + 1] - first, all = b.count;
        b.start = i ? 0 : c->start;
        b.length = i + 1 < c->parts || c->ends ? b.start + count : c->length;
        b.panel = p->reverse ? all - first - count : first;
        b.first += first;
        b.count = count;
        return b;
}

static bool is_whole(const sf_cuts *c, int64_t i)
{
        return (i || !c->start) && (i + 1 < c->parts || c->ends);
}

/* Bytes from one position to the next, in what a kernel reads and writes and in its mask. */
typedef struct strides {
        int64_t x, y, m;
} strides;

static strides strides_of(const sf_panels *p, const sf_block *b)
{
        const sf_panel_member *m = b->m;
        const sf_dim *seq = &m->step->dims[p->seq];
        const int64_t pitch = (p->reverse ? -1 : 1) * b->piece->cols;
        strides s = {pitch * m->size, pitch * m->size, pitch};
        if (m->reads)
                s.x = m->fuse->operand[m->load.copied].stride[p->seq];
        if (m->masks)
                s.m = seq->m;
        if (m->step->fold)
                s.y = 0;
        else if (m->writes && !m->gathers)
                s.y = seq->y;
        return s;
}

/* Restores the fill of an exclusive scan at the beginning of a segment: kernels have overwritten it
 * with the value before the next block. */
static void refill(const sf_panels *p, const sf_block *b, char *scratch)
{
        const sf_panel_member *m = b->m;
        sf_carry *carry = sf_panel_carry(m, scratch, 0);
        if (m->step->exclusive && !b->start)
                memcpy(carry->fill, carry->fill - m->entry_bytes, (size_t)sf_panel_total_bytes(p, m));
}

static sf_numbers numbers_of(const sf_block *b)
{
        return b->m->step->reverse ? (sf_numbers){b->length - 1 - b->start, 0, -1} : (sf_numbers){b->start, 0, 1};
}

static void rows_part(const sf_rows *all, const sf_block *b, int64_t first, const strides *s)
{
        const bool fold = b->m->step->fold;
        sf_rows job = *all;
        job.x += first * s->x;
        job.y += first * s->y;
        job.m = job.m ? job.m + first * s->m : NULL;
        job.n = b->count;
        job.start = b->start;
        job.resume = b->start + b->count < b->length;
        job.numbers = numbers_of(b);
        (fold ? b->m->kernels->fold_rows : b->m->kernels->scan_rows)(&job);
}

static void columns_part(const sf_columns *all, const sf_block *b, int64_t first, const strides *s)
{
        const bool fold = b->m->step->fold;
        sf_columns job = *all;
        job.x += first * s->x;
        job.m = job.m ? job.m + first * s->m : NULL;
        job.n = b->count;
        job.start = b->start;
        job.resume = b->start + b->count < b->length;
        job.y = fold && job.resume ? NULL : job.y + first * s->y;
        job.numbers = numbers_of(b);
        (fold ? b->m->kernels->fold_columns : b->m->kernels->scan_columns)(&job);
}

/* Runs the kernels on all parts of a block, in the panel or in memory. */
static void run_parts(const sf_walker *w, const sf_block *b)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = b->m;
        const sf_cuts *c = b->piece->cuts;
        const bool fold = m->step->fold, columns = p->shape == SF_PANEL_COLUMNS;
        const bool ragged = (fold ? m->kernels->fold_segments : m->kernels->scan_segments) && p->shape == SF_PANEL_ROWS;
        const int64_t result = b->piece->cols * m->size;
        const int64_t longest = m->kernels->width * (fold ? m->kernels->fold_long : SF_CPU_RAGGED_LONG);
        const strides s = strides_of(p, b);
        sf_rows rows = {0};
        sf_columns cols = {0};
        if (columns)
                cols = sf_panel_columns(w, b);
        else
                rows = sf_panel_rows(w, b, 1);
        char *totals = columns ? cols.y : rows.y;
        for (int64_t i = 0, next; i < c->parts; i = next) {
                if (ragged && !i && c->most <= longest && !c->start && c->ends)
                        next = c->parts;
                else
                        for (next = i; ragged && next < c->parts && c->bound[next + 1] - c->bound[next] <= longest && is_whole(c, next);)
                                next++;
                rows.y = cols.y = fold ? totals + i * result : totals;
                if (next > i) {
                        const sf_block first = part_of(p, *b, i);
                        refill(p, &first, w->scratch);
                        rows.n = sf_smaller(c->most, longest);
                        (fold ? m->kernels->fold_segments : m->kernels->scan_segments)(&rows, c->bound + i, next - i);
                        continue;
                }
                const sf_block part = part_of(p, *b, i);
                next = i + 1;
                if (!part.length && fold)
                        memcpy(totals + i * result, w->scratch + m->empty, (size_t)result);
                if (!part.count)
                        continue;
                refill(p, &part, w->scratch);
                if (columns)
                        columns_part(&cols, &part, c->bound[i], &s);
                else
                        rows_part(&rows, &part, c->bound[i], &s);
        }
}

/* Stores the results of the segments that end in a block. */
static void store_results(const sf_walker *w, const sf_piece *piece, int32_t member)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = &p->member[member];
        const int64_t entry = piece->cuts->first, y = m->step->dims[p->seq].y;
        sf_piece results = *piece;
        results.lines = piece->cuts->parts - !piece->cuts->ends;
        results.of[member].y += entry * y;
        results.of[member].y_line = y;
        for (int32_t k = 0; k < m->fuse->operands; k++) {
                results.in[k].at = results.in[k].at ? results.in[k].at + entry * m->fuse->operand[k].segment : NULL;
                results.in[k].line = m->fuse->operand[k].segment;
        }
        const sf_block b = sf_panel_block(p, &results, member, 0, 0);
        if (results.lines)
                sf_panel_store_totals(w, &b, w->scratch + m->totals);
}

/* 16 bytes of one element. */
typedef uint64_t words __attribute__((vector_size(16), aligned(1), may_alias));
SF_INLINE words repeated(const char *from, const int64_t size)
{
        uint64_t word = 0;
        memcpy(&word, from, (size_t)size);
        word = size == 4 ? word << 32 | word : word;
        return (words){word, word};
}

/* Writes one element n times, the usual sizes 16 bytes at a time. */
static void repeat(char *to, const char *from, int64_t size, int64_t n)
{
        int64_t whole = 0;
        if (size == 4 || size == 8) {
                const words v = repeated(from, size);
                whole = n * size / 16 * 16;
                for (int64_t i = 0; i < whole; i += 16)
                        *(words *)(to + i) = v;
        }
        for (int64_t i = whole; i < n * size; i += size)
                memcpy(to + i, from, (size_t)size);
}

/* Writes one element for each position of `parts` parts that follow one another, elements being `step`
 * bytes apart. Parts may be short and many: SF_PANEL_PAST bytes are written without asking for how many there is
 * room, because the next part overwrites what is too much. Behind the last one there must be room. */
SF_INLINE void repeat_each(char *to, const char *from, int64_t step, const int32_t *bound, int64_t parts, const int64_t size)
{
        for (int64_t i = 0; i < parts; i++, from += step) {
                const words v = repeated(from, size);
                char *at = to + bound[i] * size, *end = to + bound[i + 1] * size;
                for (int64_t k = 0; k < SF_PANEL_PAST; k += 16)
                        *(words *)(at + k) = v;
                for (at += SF_PANEL_PAST; at < end; at += 16)
                        *(words *)at = v;
        }
}

/* Repeats an operand that has one element for each segment, once for each position of it in the parts
 * from `first` to `end` of a block. */
static void spread(const sf_walker *w, const sf_piece *piece, int32_t operand, int64_t first, int64_t end, int64_t count)
{
        const sf_panels *p = w->p;
        const sf_step *s = p->member[0].step;
        const sf_operand *x = &p->member[0].fuse->operand[operand];
        const sf_cuts *c = piece->cuts;
        const int64_t cols = piece->cols, size = sf_dtypes[x->dt].size, across = p->col < 0 ? 0 : x->stride[p->col];
        char *to = w->scratch + p->spread[operand];
        if (cols == 1 && !p->reverse && (size == 4 || size == 8)) {
                const int64_t many = sf_smaller(end, s->segments.count - c->first) - first;
                const char *from = piece->in[operand].at + (c->first + first) * x->segment;
                if (size == 4)
                        repeat_each(to, from, x->segment, c->bound + first, many, 4);
                else
                        repeat_each(to, from, x->segment, c->bound + first, many, 8);
                first += sf_larger(many, 0);
        }
        for (int64_t i = first; i < end; i++) {
                const int64_t entry = sf_segments_entry(s, c->first + i), n = c->bound[i + 1] - c->bound[i];
                char *at = to + (p->reverse ? count - c->bound[i + 1] : c->bound[i]) * cols * size;
                if (!n)
                        continue;
                if (cols == 1 && entry >= 0) {
                        repeat(at, piece->in[operand].at + entry * x->segment, size, n);
                        continue;
                }
                if (entry < 0)
                        memset(at, 0, (size_t)(cols * size));
                else
                        sf_fused_move(p->isa->map->mover(x->dt, x->dt), piece->in[operand].at + entry * x->segment, 0, across, at, 0, size, 1, cols);
                for (int64_t done = 1; done < n; done *= 2)
                        memcpy(at + done * cols * size, at, (size_t)(sf_smaller(done, n - done) * cols * size));
        }
}

/* The parts from i on that programs take together: all of a block if no operand has an element for each
 * segment; else one long part, which *alone says, or the short ones before the next long one. Positions
 * that belong to no segment have no such element. */
static int64_t stretch_end(const sf_walker *w, const sf_piece *piece, int64_t i, bool *alone)
{
        const sf_panels *p = w->p;
        const sf_cuts *c = piece->cuts;
        const int64_t from = i;
        *alone = false;
        if (!p->spreads || c->most * piece->cols < LONG_PART)
                return c->parts;
        for (; i < c->parts; i++)
                if ((c->bound[i + 1] - c->bound[i]) * piece->cols >= LONG_PART && sf_segments_entry(p->member[0].step, c->first + i) >= 0) {
                        *alone = i == from;
                        return *alone ? i + 1 : i;
                }
        return i;
}

/* Runs a program of a member on a block. */
static void run_program(const sf_walker *w, const sf_block *b, void (*run)(const sf_walker *w, const sf_block *b))
{
        const sf_cuts *c = b->piece->cuts;
        bool alone;
        for (int64_t i = 0, end; i < c->parts; i = end) {
                sf_block some = part_of(w->p, *b, i);
                end = stretch_end(w, b->piece, i, &alone);
                some.count = c->bound[end] - c->bound[i];
                some.panel = w->p->reverse ? b->count - c->bound[end] : c->bound[i];
                some.segment = alone ? 1 + sf_segments_entry(b->m->step, c->first + i) : 0;
                if (some.count)
                        run(w, &some);
        }
}

/* Runs one block of all members. */
static void run_block(const sf_walker *w, const sf_piece *piece, int64_t first, int64_t count)
{
        const sf_panels *p = w->p;
        bool alone;
        for (int64_t i = 0, end; p->spreads && i < piece->cuts->parts; i = end) {
                end = stretch_end(w, piece, i, &alone);
                for (uint32_t bits = alone ? 0 : p->spreads; bits; bits &= bits - 1)
                        spread(w, piece, __builtin_ctz(bits), i, end, count);
        }
        for (int32_t i = 0; i < p->members; i++) {
                const sf_block b = sf_panel_block(p, piece, i, first, count);
                const sf_panel_member *m = b.m;
                if (count && (!m->reads || (m->step->m && !m->masks)))
                        run_program(w, &b, sf_panel_load);
                for (int64_t part = 0; sf_op_is(m->step->op, SF_INDEX) && !m->step->map && part < piece->cuts->parts; part++) {
                        const sf_block of = part_of(p, b, part);
                        sf_panel_number(w, &of);
                }
                if (!m->step->map)
                        run_parts(w, &b);
                if (m->step->fold)
                        store_results(w, piece, i);
                else if (count && !m->through && (!m->writes || m->gathers))
                        run_program(w, &b, sf_panel_store);
        }
}

/* ---------------------------------------------------------------------------------------------
 * Tasks
 * ------------------------------------------------------------------------------------------- */

/* The fold of an empty segment, as a kernel would leave it. For exclusive scans, a copy of the
 * fill. */
static void make_empty(const sf_walker *w, const sf_piece *piece)
{
        const sf_panels *p = w->p;
        for (int32_t i = 0; i < p->members; i++) {
                const sf_panel_member *m = &p->member[i];
                const sf_step *s = m->step;
                if (s->map)
                        continue;
                sf_carry *carry = sf_panel_carry(m, w->scratch, 0);
                if (!s->fold && s->exclusive) /* for refill */
                        memcpy(carry->fill - m->entry_bytes, carry->fill, (size_t)sf_panel_total_bytes(p, m));
                if (!s->fold)
                        continue;
                char *value = w->scratch + m->counters;
                sf_panel_first_fill(p, m, value);
                m->kernels->narrow(w->scratch + m->empty, value, piece->cols, m->identity.index < 0);
        }
}

/* Are all segments of a group empty? */
static bool is_apart(const sf_step *s, int64_t group)
{
        const int64_t first = group * EMPTY_GROUP, end = first + EMPTY_GROUP;
        return end <= sf_segments_walked(s) && sf_segments_begin(s, first) == sf_segments_begin(s, end);
}

/* Walks the segments from k on and before `end`. */
static void walk(const sf_walker *w, sf_piece *piece, int64_t tile, int64_t k, int64_t end)
{
        int32_t bound[SF_PANEL_CUTS + 1 + SF_CPU_RAGGED_ROOM];
        sf_cuts cuts;
        sf_cursor c = sf_cursor_of(w->p->member[0].step);
        piece->cuts = &cuts;
        c.k = k;
        c.end = end;
        c.begin = sf_cursor_begin(&c, k);
        c.next = sf_cursor_begin(&c, k + 1);
        while (c.k < c.end) {
                const int64_t first = c.begin + c.done, count = sf_cursor_fill(&c, w->p, tile, bound, &cuts);
                if (cuts.parts)
                        run_block(w, piece, first, count);
                else
                        sf_cursor_go_on(&c);
        }
        piece->cuts = NULL; /* they end with this call */
}

void sf_segments_task(const sf_walker *w, int64_t task)
{
        const sf_panels *p = w->p;
        const sf_step *s = p->member[0].step;
        const int64_t part = sf_digit(&task, p->parts), group = part - p->spans, strip = sf_digit(&task, p->strips), line = sf_digit(&task, sf_panels_length(p, p->line));
        int64_t tile = p->shape == SF_PANEL_COLUMNS ? SF_CPU_TILE_ROWS : 1;
        sf_piece piece;
        for (int32_t i = 0; i < p->members && p->shape != SF_PANEL_COLUMNS; i++)
                tile = sf_larger(tile, SF_CPU_TILE_VECTORS * p->member[i].lanes->rows);
        sf_piece_at(p, task, line, strip * p->cols, -1, &piece);
        piece.lines = 1;
        piece.n = p->n;
        piece.cols = sf_smaller(p->cols, sf_panels_length(p, p->col) - strip * p->cols);
        if (group >= 0 && !(s->fold && is_apart(s, group)))
                return;
        sf_panel_begin(w, &piece);
        make_empty(w, &piece);
        if (group >= 0) {
                walk(w, &piece, tile, group * EMPTY_GROUP, (group + 1) * EMPTY_GROUP);
                return;
        }
        const int64_t end = part + 1 < p->spans ? sf_segments_from(s, (part + 1) * p->span) : sf_segments_walked(s);
        int64_t k = part ? sf_segments_from(s, part * p->span) : 0;
        for (int64_t next = sf_parts(k, EMPTY_GROUP); k < end; next++) {
                const int64_t stop = sf_smaller(next * EMPTY_GROUP, end);
                if (stop < end && !is_apart(s, next))
                        continue;
                if (k < stop)
                        walk(w, &piece, tile, k, stop);
                k = stop < end ? stop + EMPTY_GROUP : end;
        }
}
