/*
 * One long axis shared by all threads; memory is read once.
 *
 * The sequence is cut into chunks of a power of two that fit in a core's own cache. Workers claim
 * them in order. A first walk folds a chunk, which brings it into the cache, and publishes its
 * totals. When the totals of all earlier chunks are known, a second walk scans the chunk from the
 * cache, with those totals as its carries. The second walk over one chunk and the first over the
 * next take turns, so that memory is read and written all the time. Folds need the first walk only.
 *
 * A chunk is walked as several lines side by side, its leaves, if they are a constant stride apart.
 * The leaves are the lowest nodes of the part of the order's tree that is above the kernels.
 *
 * Some plain scans need only one walk over the elements (carried.c): the first walk leaves its
 * results in scratch, and the second adds what is to their left.
 *
 * A worker waits only for lower chunks, and only for chunks that have been claimed. So the worker
 * with the lowest chunk never waits, however few threads run, and whenever they run.
 */
#include "cpu/shared.h"

#include "core/value.h"

#include <sched.h>
#include <string.h>

/* How much of a core's own cache a chunk may take. A chunk that waits in scratch is in the cache
 * once instead of twice. A fold keeps nothing, so it has few large chunks. Measured: chunks of 512
 * KiB carry 3.5% faster than of 256, 1 MiB is slower. */
#define CHUNK_BYTES (256 << 10)
#define CARRIED_CHUNK_BYTES (512 << 10)
#define FOLD_CHUNK_BYTES (4 << 20)
/* A worker should get about this many chunks. */
#define CHUNKS_EACH 16
/* How often a worker checks a flag before it yields its CPU: the worker that it waits for may need
 * it. */
#define SPINS 2000

/* ---------------------------------------------------------------------------------------------
 * The plan
 * ------------------------------------------------------------------------------------------- */
static bool all_fold(const sf_panels *p)
{
        bool fold = true;
        for (int32_t i = 0; i < p->members; i++)
                fold = fold && p->member[i].step->fold;
        return fold;
}

void sf_shared_plan(sf_panels *p, int workers)
{
        const bool columns = p->shape == SF_PANEL_COLUMNS, fold = all_fold(p);
        const bool rows = sf_carried_rows(p), runs = sf_carried_runs(p);
        const int64_t leaves = columns || runs || p->nseq > 1 ? 1
                               : fold ? SF_CPU_FOLD_GROUP : SF_CPU_GROUP;
        const int64_t pieces = fold ? 1 : SF_SHARED_PIECES;
        int64_t tile = columns ? SF_CPU_TILE_ROWS : 1;
        for (int32_t i = 0; i < p->members && !columns; i++)
                tile = sf_larger(tile, SF_CPU_TILE_VECTORS * p->member[i].lanes->rows);
        const int64_t least = leaves * SF_SHARED_PIECES * tile;
        /* What a position takes in cache. A chunk that waits in scratch takes its lanes. */
        const int64_t lane = p->member[0].kernels->lane_bytes;
        const int64_t each = p->cols * (rows ? lane : sf_panels_read(p));
        const int64_t room = fold ? FOLD_CHUNK_BYTES : rows ? CARRIED_CHUNK_BYTES : CHUNK_BYTES;
        const int64_t share = p->n * each / (CHUNKS_EACH * workers);
        const int64_t most = sf_smaller(sf_larger(share, CHUNK_BYTES), room) / each;
        const int64_t chunk = sf_power_below(sf_larger(most, least));
        if (2 * chunk > p->n)
                return;
        p->chunk = chunk;
        p->chunks = sf_parts(p->n, chunk);
        p->leaf = chunk / leaves;
        p->leaves = sf_parts(p->n, p->leaf);
        p->carried = rows || runs;
        p->lines = leaves;
        p->block = p->straight ? p->leaf / pieces : sf_smaller(p->block, p->leaf / pieces);
        p->whole = false;
        p->levels = sf_order_log2((uint64_t)(p->leaf / 4 + 1)) + 2;
        p->carries = leaves + p->carried;
        /* An entry for each level, the values to the left of the sequence, the initial value, the
         * fill, and room to combine in. */
        p->entries = sf_order_log2((uint64_t)p->leaves) + 4 + p->member[0].step->lefts;
}

static int64_t lines_of(const sf_panels *p)
{
        return p->outers * sf_panels_length(p, p->line) * p->strips;
}

static size_t sums_bytes(const sf_panels *p, const sf_panel_member *m)
{
        return (size_t)(lines_of(p) * p->leaves * sf_panel_total_bytes(p, m));
}

size_t sf_shared_bytes(const sf_panels *p)
{
        size_t total = ((size_t)(lines_of(p) * p->chunks) + 63) / 64 * 64;
        for (int32_t i = 0; i < p->members; i++)
                total += sums_bytes(p, &p->member[i]);
        return total;
}

void sf_shared_start(sf_crew *c, sf_panels *p, char *base)
{
        for (int32_t i = 0; i < p->members; i++) {
                p->member[i].sums = base;
                base += sums_bytes(p, &p->member[i]);
        }
        c->ready = (_Atomic uint8_t *)base;
        memset(base, 0, (size_t)(lines_of(p) * p->chunks));
}

static void sharer_make(sf_sharer *w, sf_crew *c, int index)
{
        w->c = c;
        w->p = c->panels;
        w->line = -1;
        w->counted = 0;
        w->walker[0] = w->walker[1] = sf_crew_walker(c, index, &w->machine);
        w->walker[1].scratch += c->room;
        if (w->p->carried)
                sf_carried_place(w, w->walker[1].scratch + c->machine);
}

/* ---------------------------------------------------------------------------------------------
 * Chunks
 * ------------------------------------------------------------------------------------------- */

/* The leaves of a line from `leaf` on. */
static void leaves_at(const sf_panels *p, int64_t line, int64_t leaf, sf_piece *piece)
{
        const int64_t lines = sf_panels_length(p, p->line), strip = line % p->strips;
        const int64_t col = strip * p->cols, among = line / p->strips;
        sf_piece_at(p, among / lines, among % lines, col, leaf, piece);
        piece->cols = sf_smaller(p->cols, sf_panels_length(p, p->col) - col);
        for (int32_t i = 0; i < p->members; i++) {
                const int64_t bytes = sf_panel_total_bytes(p, &p->member[i]);
                piece->of[i].sums = p->member[i].sums + (line * p->leaves + leaf) * bytes;
        }
}

static bool claim(sf_crew *c, sf_chunk *k)
{
        const sf_panels *p = c->panels;
        k->index = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed);
        if (k->index >= lines_of(p) * p->chunks)
                return false;
        k->line = k->index / p->chunks;
        k->number = k->index % p->chunks;
        const int64_t length = sf_smaller(p->n - k->number * p->chunk, p->chunk);
        const int64_t leaf = k->number * (p->chunk / p->leaf);
        k->whole = length / p->leaf;
        k->over = length % p->leaf;
        leaves_at(p, k->line, leaf, &k->fold);
        k->fold.lines = k->whole;
        k->fold.n = p->leaf;
        k->scan = k->fold;
        k->fold.totals = k->scan.some = true;
        if (k->over) {
                leaves_at(p, k->line, leaf + k->whole, &k->end);
                k->end.lines = 1;
                k->end.n = k->over;
                k->end.carry = k->whole;
                k->end.some = true; /* nobody needs the total of a scan's end */
        }
        return true;
}

/* The first walk over `next` and the second over `now` take turns; either may be NULL. Meanwhile
 * the second walk prefetches the part of `next` that is folded after this one. */
static void walk_both(sf_sharer *w, sf_chunk *now, sf_chunk *next)
{
        const sf_panels *p = w->p;
        const int64_t step = p->member[0].fuse->operand[0].stride[p->seq];
        const int64_t count = p->leaf / SF_SHARED_PIECES;
        const bool fetches = now && next && next->line == now->line;
        if (now)
                now->scan.ahead = 0;
        if (fetches)
                now->scan.ahead = ((next->number - now->number) * p->chunk + count) * step;
        if (next && now) /* now prefetches it */
                next->fold.ahead = 0;
        for (int64_t part = 0, at = 0; part < SF_SHARED_PIECES; part++, at += count) {
                if (next && next->whole)
                        sf_panel_walk(&w->walker[0], &next->fold, at, at + count);
                if (now && now->whole)
                        sf_panel_walk(&w->walker[1], &now->scan, at, at + count);
        }
}

/* Walks the rest at the end of a sequence: the totals of folds, or scans with their carries. */
static void walk_end(sf_sharer *w, const sf_chunk *k, bool totals)
{
        sf_piece piece = k->end;
        piece.totals = totals;
        if (k->over)
                sf_panel_walk(&w->walker[!totals], &piece, 0, k->over);
}

static void publish(sf_sharer *w, const sf_chunk *k)
{
        if (w->p->carried)
                sf_carried_totals(w, k);
        walk_end(w, k, true);
        atomic_store_explicit(&w->c->ready[k->index], 1, memory_order_release);
}

/* ---------------------------------------------------------------------------------------------
 * What is to the left of a chunk
 * ------------------------------------------------------------------------------------------- */

/* Entry `level` of a member's counter of leaves; the last entry is room to combine in. */
static char *left_of(const sf_sharer *w, const sf_panel_member *m, int64_t level)
{
        return w->walker[1].scratch + m->left + level * sf_panel_total_bytes(w->p, m);
}

/* sum = left combined with the sum so far; the first one is copied. */
static void sum_left(sf_sharer *w, const sf_panel_member *m, char *sum, const char *left,
                     bool first)
{
        const size_t bytes = (size_t)sf_panel_total_bytes(w->p, m);
        char *room = left_of(w, m, w->p->entries - 1);
        if (first) {
                memcpy(sum, left, bytes);
                return;
        }
        memcpy(room, left, bytes);
        m->kernels->combine(room, sum, sf_panel_values(w->p, m));
        memcpy(sum, room, bytes);
}

/* Adds the next leaf's total to the counters, as order.h says, with leaves as tiles. */
static void count_leaf(sf_sharer *w)
{
        const sf_panels *p = w->p;
        const int64_t leaf = w->counted++;
        const int closed = sf_order_closed((uint64_t)leaf);
        for (int32_t i = 0; i < p->members; i++) {
                const sf_panel_member *m = &p->member[i];
                const int64_t bytes = sf_panel_total_bytes(p, m);
                const char *total = m->sums + (w->line * p->leaves + leaf) * bytes;
                char *sum = left_of(w, m, closed);
                sum_left(w, m, sum, total, true);
                for (int level = 0; level < closed; level++)
                        sum_left(w, m, sum, left_of(w, m, level), false);
        }
}

void sf_shared_sum(sf_sharer *w, const sf_panel_member *m, char *to, const sf_carry *carry,
                   const sf_carry *more)
{
        for (int32_t e = 0; e < carry->count; e++)
                sum_left(w, m, to, carry->entries + e * carry->entry_stride, !e);
        for (int32_t e = 0; more && e < more->count; e++)
                sum_left(w, m, to, more->entries + e * more->entry_stride, !carry->count && !e);
}

sf_carry *sf_shared_common(const sf_sharer *w)
{
        return sf_panel_carry(&w->p->member[0], w->walker[1].scratch, w->p->lines);
}

/* Makes a carry of the counter's entries at some levels, lowest first. With `outside`, what is to
 * the left of the whole sequence follows: values, and the initial value. */
static sf_carry *set_carry(sf_sharer *w, const sf_panel_member *m, int64_t r, uint64_t bits,
                           bool outside)
{
        const sf_panels *p = w->p;
        char *room = w->walker[1].scratch + m->entries + r * p->entries * m->entry_bytes;
        sf_carry *carry = sf_panel_carry(m, w->walker[1].scratch, r);
        *carry = (sf_carry){.entries = room, .entry_stride = sf_panel_total_bytes(p, m),
                            .fill = room + (p->entries - 1) * m->entry_bytes};
        for (; bits; bits &= bits - 1)
                sum_left(w, m, room + carry->count++ * carry->entry_stride,
                         left_of(w, m, __builtin_ctzll(bits)), true);
        for (int32_t e = 0; outside && e < m->step->lefts; e++)
                sum_left(w, m, room + carry->count++ * carry->entry_stride,
                         left_of(w, m, p->entries - 2 - e), true);
        if (outside && m->step->has_initial)
                m->kernels->fill(room + carry->count++ * carry->entry_stride,
                                 sf_panel_values(p, m), m->step->initial);
        return carry;
}

/* Sets the carries of leaf r of a chunk. If the second walk only adds carries, whole leaves share
 * the entries above their own levels. The end of a sequence is scanned, and has all entries
 * itself. */
static void set_carries(sf_sharer *w, int64_t r, bool whole)
{
        const sf_panels *p = w->p;
        const uint64_t counted = (uint64_t)w->counted;
        const bool apart = p->carried && p->lines > 1 && whole;
        const uint64_t own = apart ? (uint64_t)p->lines - 1 : UINT64_MAX;
        for (int32_t i = 0; i < p->members; i++) {
                const sf_panel_member *m = &p->member[i];
                const sf_step *s = m->step;
                if (s->fold)
                        continue;
                sf_carry *carry = set_carry(w, m, r, counted & own, !~own);
                const sf_carry *common = NULL;
                if (~own)
                        common = r ? sf_shared_common(w)
                                   : set_carry(w, m, p->lines, counted & ~own, true);
                if (!s->exclusive)
                        continue;
                if (counted || s->lefts)
                        sf_shared_sum(w, m, carry->fill, carry, common);
                else
                        sf_panel_first_fill(p, m, carry->fill);
        }
}

/* Starts counting a line's leaves, if another line's were counted. The values to its left are kept
 * above its counter. */
static void count_line(sf_sharer *w, int64_t line)
{
        const sf_panels *p = w->p;
        if (w->line == line)
                return;
        sf_piece piece;
        w->counted = 0;
        w->line = line;
        if (p->member[0].step->lefts)
                leaves_at(p, line, 0, &piece);
        for (int32_t e = 0; e < p->member[0].step->lefts; e++)
                sf_panel_left(p, &piece, 0, 0, e, left_of(w, &p->member[0], p->entries - 2 - e));
}

/* Waits for the totals of all chunks to the left of chunk k, and prepares its carries. */
static void look_left(sf_sharer *w, const sf_chunk *k)
{
        const sf_panels *p = w->p;
        const int64_t first = k->number * p->lines;
        _Atomic uint8_t *ready = w->c->ready + k->line * p->chunks;
        count_line(w, k->line);
        for (int64_t before = w->counted / p->lines; before < k->number; before++) {
                for (int n = 0; !atomic_load_explicit(&ready[before], memory_order_acquire); n++)
                        if (n > SPINS)
                                sched_yield();
                while (w->counted < (before + 1) * p->lines)
                        count_leaf(w);
        }
        for (int64_t r = 0; r < k->whole + (k->over > 0); r++) {
                set_carries(w, r, r < k->whole);
                if (r < k->whole && first + r + 1 < p->leaves)
                        count_leaf(w);
        }
        if (p->carried && k->whole)
                sf_carried_set(w, k);
}

/* ---------------------------------------------------------------------------------------------
 * The whole
 * ------------------------------------------------------------------------------------------- */
void sf_shared_work(void *arg, int index)
{
        sf_crew *c = arg;
        const sf_panels *p = c->panels;
        sf_sharer w;
        sf_chunk chunks[2], *now = &chunks[0], *next = &chunks[1];
        sharer_make(&w, c, index);
        if (all_fold(p)) {
                while (claim(c, now)) {
                        if (now->whole)
                                sf_panel_walk(&w.walker[0], &now->fold, 0, p->leaf);
                        walk_end(&w, now, true);
                }
                return;
        }
        void (*both)(sf_sharer *, sf_chunk *, sf_chunk *) =
                p->carried ? sf_carried_walk : walk_both;
        bool has_now = claim(c, now);
        now->side = 0;
        if (has_now) {
                both(&w, NULL, now);
                publish(&w, now);
        }
        while (has_now) {
                const bool has_next = claim(c, next);
                next->side = !now->side;
                look_left(&w, now);
                both(&w, now, has_next ? next : NULL);
                if (has_next)
                        publish(&w, next);
                walk_end(&w, now, false);
                sf_chunk *done = now;
                now = next;
                next = done;
                has_now = has_next;
        }
        if (p->stream)
                p->isa->fence();
}

/* Combines the total of a whole line: its short last leaf, if any, then the counter's entries,
 * lowest first, each on the left. */
static void finish_line(sf_sharer *w, int32_t member, int64_t line)
{
        const sf_panels *p = w->p;
        const sf_panel_member *m = &p->member[member];
        const int64_t whole = p->n / p->leaf, bytes = sf_panel_total_bytes(p, m);
        sf_piece piece;
        leaves_at(p, line, 0, &piece);
        piece.lines = 1;
        char *total = w->walker[1].scratch + m->entries, *results = total + m->entry_bytes;
        bool first = true;
        if (whole < p->leaves) {
                sum_left(w, m, total, piece.of[member].sums + whole * bytes, true);
                first = false;
        }
        for (uint64_t bits = (uint64_t)whole; bits; bits &= bits - 1, first = false)
                sum_left(w, m, total, left_of(w, m, __builtin_ctzll(bits)), first);
        if (m->step->values) {
                sf_panel_put_values(p, &piece, member, 0, total);
                return;
        }
        if (m->step->has_initial) {
                m->kernels->fill(results, sf_panel_values(p, m), m->step->initial);
                sum_left(w, m, total, results, false);
        }
        /* wide: results stay in the type that elements are held in */
        const sf_cpu_kernels *k =
                m->wide ? sf_cpu_find(p->isa, m->held, m->held, m->step->op) : m->kernels;
        char *y = m->writes ? piece.of[member].y : results;
        k->narrow(y, total, piece.cols, m->identity.index < 0);
        if (m->writes)
                return;
        const sf_block all = sf_panel_block(p, &piece, member, 0, p->n);
        sf_panel_store_totals(&w->walker[1], &all, results);
}

void sf_shared_finish(sf_crew *c)
{
        const sf_panels *p = c->panels;
        bool folds = false;
        for (int32_t i = 0; i < p->members; i++)
                folds = folds || p->member[i].step->fold;
        if (!folds)
                return;
        sf_sharer w;
        sharer_make(&w, c, 0);
        for (int64_t line = 0; line < lines_of(p); line++) {
                count_line(&w, line);
                while (w.counted < p->n / p->leaf)
                        count_leaf(&w);
                for (int32_t i = 0; i < p->members; i++)
                        if (p->member[i].step->fold)
                                finish_line(&w, i, line);
        }
}
