/*
 * One long axis shared by all threads, with one read of memory.
 *
 * The sequence is cut into chunks of a power of two that fit in a core's own cache. A worker scans a chunk by itself into scratch,
 * publishes its total, and later, once the totals of everything before it are known, adds those and writes the results. Scanning its
 * next chunk and finishing its current one are interleaved, so that memory is read and written all the time. A chunk
 * is walked as several substreams at once; each of them is a leaf of the order's tree above the chunks.
 *
 * Narrow matrices, whose vectors are not full, are scanned into scratch too, a piece at a time. There their rows lie on end, and what
 * is to their left is added to full vectors of whatever columns come next, from a table of the carries repeated.
 *
 * Where there is no kernel for that (wider columns, elements that are no lanes, operations that are not worth it) a chunk is folded first, which
 * brings it into the cache, and scanned from there in one go. A fold stops after the first half.
 *
 * Chunks are claimed in order and a worker waits only for lower ones, so whoever holds the lowest is never waiting: no matter how
 * few threads really run, or when. A chunk that nobody has claimed is waited for by nobody.
 */
#include "core/arena.h"
#include "core/value.h"
#include "cpu/plan.h"
#include "cpu/pool.h"

#include <sched.h>
#include <string.h>

#define CHUNK_BYTES (256 << 10)
#define LOCAL_CHUNK_BYTES (512 << 10) /* one side of scratch instead of two, and nothing of x has to stay */
#define FOLD_CHUNK_BYTES (4 << 20) /* a fold keeps nothing: the fewer beginnings the better */
#define SPINS 2000
/* A load may be held up by an earlier store to the same place in another page. Scratch is read and written while tensors are, which mostly begin
 * with a page: it begins elsewhere in one, and so does its second half. */
#define PAGE 4096
#define MOST_RUN 4 /* vectors that rows of runs may be wide: the carries of a period should stay in a first-level cache */
#define PIECES 16 /* of a chunk: how finely folding and scanning are interleaved */

typedef struct chain {
        const sf_cpu_plan *plan;
        bool columns;
        bool local;           /* scanned into scratch, then finished; else folded, then scanned */
        bool runs;            /* the same of rows on end: a narrow matrix */
        int64_t period;       /* runs: vectors after which a vector's columns are the same again, at least 4 */
        int64_t lines;        /* how many sequences (or blocks of columns), one after another */
        int64_t chunk;        /* positions in a chunk */
        int64_t chunks;       /* in a sequence */
        int64_t streams;      /* substreams, the leaves of a chunk */
        int64_t leaf;         /* positions in a leaf: chunk / streams */
        int64_t leaves;       /* in a sequence, the last perhaps not whole */
        int64_t entry_lanes;  /* of a total */
        int64_t entry_bytes;
        int level;            /* the counter's entry that a whole leaf ends up in after the first walk */
        char *totals;         /* lines x leaves entries */
        _Atomic uint8_t *ready; /* lines x chunks */
        char *scratch;
        size_t scratch_each;
        size_t detour_bytes;  /* of a piece's results in scratch, from where they are streamed; 0 where they are not */
        size_t table_bytes;   /* of a chunk's carries, repeated; 0 where they are not */
        int sides;            /* of scratch: 2, or 1 where the next chunk's lanes take the place of those just carried away */
        size_t raw_bytes;     /* of a chunk's lanes, kept between its two walks; 0 where they are not */
        _Atomic int64_t next;
} chain;

typedef struct worker {
        chain *c;
        int64_t line;     /* whose totals `counter` has counted */
        int64_t counted;  /* leaves */
        char *counter;    /* SF_ORDER_LEVELS entries */
        char *counters[2]; /* of the first walk and the second: streams x SF_ORDER_LEVELS entries */
        char *entries;    /* room for the carries' */
        char *fills;      /* streams entries */
        char *initial;    /* one entry */
        char *detour;     /* a piece's results */
        char *table;      /* runs: the carries, repeated */
        sf_run run;       /* of the chunk that is carried */
        char *raw[2];     /* of each side: a chunk's results, without what stands to its left */
        sf_carry carry[SF_CPU_FOLD_GROUP]; /* of each stream */
        sf_carry common;              /* local: what the streams of a chunk share, to the left of their own */
} worker;

static char *entry(const chain *c, char *base, int64_t index)
{
        return base + index * c->entry_bytes;
}

/* A stream's: at most one a level, and the initial value. What the streams share has as much room again. */
enum { CARRY_ENTRIES = SF_ORDER_LEVELS + 1 };

static int64_t carry_entries(int64_t streams)
{
        return (streams + 1) * CARRY_ENTRIES;
}

/* What a worker's scratch is cut into. */
static int64_t worker_entries(int64_t streams)
{
        return (SF_ORDER_LEVELS + 1) + 2 * streams * SF_ORDER_LEVELS + carry_entries(streams) + streams + 1;
}

static worker worker_make(chain *c, int index)
{
        worker w = {.c = c, .line = -1, .counter = c->scratch + (size_t)index * c->scratch_each};
        w.counters[0] = entry(c, w.counter, SF_ORDER_LEVELS + 1); /* the counter's last entry is room to add in */
        w.counters[1] = entry(c, w.counters[0], c->streams * SF_ORDER_LEVELS);
        w.entries = entry(c, w.counters[1], c->streams * SF_ORDER_LEVELS);
        w.fills = entry(c, w.entries, carry_entries(c->streams));
        w.initial = entry(c, w.fills, c->streams);
        w.detour = entry(c, w.initial, 1);
        w.table = w.detour + c->detour_bytes;
        w.raw[0] = (char *)(((uintptr_t)(w.table + c->table_bytes) + PAGE - 1) / PAGE * PAGE + PAGE / 4);
        w.raw[1] = w.raw[0] + c->raw_bytes + PAGE / 2;
        c->plan->kernels->fill(w.initial, c->entry_lanes, c->plan->step->initial);
        return w;
}

/* ------------------------------------------------------------------------------------------------------------
 * Kernels over part of a chunk: `count` positions of the streams [first, first + streams) from position `from` of each
 * ---------------------------------------------------------------------------------------------------------- */
typedef enum walk { FOLD, SCAN, LOCAL, CARRY } walk;

typedef struct part {
        int64_t line, position; /* of the first stream's start */
        int64_t first, streams;
        int64_t from, count;
        bool resume;
        int side;      /* of scratch */
        int64_t ahead; /* bytes */
} part;

/* Where a position of a line lies in the tensors. */
typedef struct spot {
        const char *x;
        char *y;
        const uint8_t *m;
} spot;

static spot spot_of(const chain *c, int64_t line, int64_t position)
{
        const sf_cpu_plan *p = c->plan;
        const sf_step *s = p->step;
        const int64_t lane = line % p->line.len;
        sf_walk at;
        sf_walk_start(&at, p->outer_dims, p->nouter, line / p->line.len);
        return (spot){.x = s->x + at.x + lane * p->line.x + position * p->seq.x, .y = s->y + at.y + lane * p->line.y + position * p->seq.y,
                      .m = s->m ? s->m + at.m + lane * p->line.m + position * p->seq.m : NULL};
}

/* Where a part's lanes lie in scratch, which is laid out as the tensor is: downwards in reverse. */
static char *raw_of(const worker *w, const part *t)
{
        const chain *c = w->c;
        const sf_cpu_plan *p = c->plan;
        int64_t pitch = p->inner * p->kernels->lane_bytes, step = p->reverse ? -pitch : pitch;
        return w->raw[t->side] + (p->reverse ? (c->chunk - 1) * pitch : 0) + t->first * c->leaf * step + t->from * step;
}

static sf_columns columns_of(worker *w, const part *t, walk how, const sf_carry *carry)
{
        const chain *c = w->c;
        const sf_cpu_plan *p = c->plan;
        const sf_step *s = p->step;
        const spot at = spot_of(c, t->line, t->position + t->from);
        sf_columns job = {.x = at.x, .y = at.y, .m = at.m, .x_step = p->seq.x, .y_step = p->seq.y, .m_step = p->seq.m, .cols = p->inner,
                          .n = t->count, .start = t->from, .resume = t->resume, .exclusive = s->exclusive && how == SCAN, .stream = p->stream,
                          .identity = s->identity, .ahead = t->ahead, .carry = carry, .counters = w->counters[how == SCAN],
                          .counter_stride = c->entry_bytes};
        if (how == LOCAL) {
                job.stream = false;
                job.y = raw_of(w, t);
        }
        return job;
}

static sf_rows rows_of(worker *w, const part *t, walk how, const sf_carry *carry)
{
        const chain *c = w->c;
        const sf_cpu_plan *p = c->plan;
        const sf_step *s = p->step;
        const spot at = spot_of(c, t->line, t->position + t->from);
        sf_rows job = {.x = at.x, .y = at.y, .m = at.m, .x_row = c->leaf * p->seq.x, .y_row = c->leaf * p->seq.y,
                       .m_row = c->leaf * p->seq.m, .rows = t->streams, .n = t->count, .start = t->from,
                       .resume = t->resume, .exclusive = s->exclusive && (how == SCAN || how == CARRY), .stream = p->stream,
                       .identity = s->identity, .ahead = t->ahead, .lanes = p->lanes, .carry = carry, .carry_row = 1, .common = &w->common,
                       .counters = entry(c, w->counters[how == SCAN], t->first * SF_ORDER_LEVELS),
                       .slots = (int32_t)c->streams};
        if (how == LOCAL || how == CARRY) {
                int64_t pitch = p->inner * p->kernels->lane_bytes, step = p->reverse ? -pitch : pitch;
                char *raw = raw_of(w, t);
                if (how == LOCAL) {
                        job.raw = true;
                        job.stream = false;
                        job.y = raw;
                        job.y_row = c->leaf * step;
                } else {
                        job.x = raw;
                        job.x_row = c->leaf * step;
                }
        }
        return job;
}

static void run_part(worker *w, const part *t, walk how, const sf_carry *carry)
{
        const chain *c = w->c;
        const sf_cpu_plan *p = c->plan;
        const int64_t pitch = p->inner * p->size, run = t->count * pitch, down = p->seq.y < 0 ? run - pitch : 0;
        /* Scratch is laid out as the tensor is: downwards in reverse. The ragged end may not fit, and is nothing beside the rest. */
        const bool detour = how == SCAN && p->detour && t->resume;
        const char *x;
        char *y;
        if (c->columns) {
                sf_columns job = columns_of(w, t, how, carry);
                x = job.x;
                y = job.y;
                if (detour)
                        job.y = w->detour + down;
                (how == FOLD ? p->kernels->fold_columns : p->kernels->scan_columns)(&job);
        } else {
                sf_rows job = rows_of(w, t, how, carry);
                x = job.x;
                y = job.y;
                if (detour) {
                        job.y = w->detour + down;
                        job.y_row = run;
                        job.ahead = 0;
                }
                (how == FOLD ? p->kernels->fold_rows : p->kernels->scan_rows)(&job);
        }
        x += t->ahead + (p->seq.x < 0 ? (t->count - 1) * p->seq.x : 0);
        for (int64_t r = 0; detour && r < t->streams; r++)
                p->isa->map->stream(y + r * c->leaf * p->seq.y - down, w->detour + r * run, run, x + r * c->leaf * p->seq.x);
}

/* ------------------------------------------------------------------------------------------------------------
 * Chunks
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct chunk {
        int64_t index, line, number; /* index is line * chunks + number */
        int64_t length;              /* positions */
        int64_t whole;               /* leaves that are */
        int side;
} chunk;

static bool claim(chain *c, chunk *k)
{
        k->index = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed);
        if (k->index >= c->lines * c->chunks)
                return false;
        int64_t n = c->plan->step->n;
        k->line = k->index / c->chunks;
        k->number = k->index % c->chunks;
        k->length = n - k->number * c->chunk < c->chunk ? n - k->number * c->chunk : c->chunk;
        k->whole = k->length / c->leaf;
        return true;
}

static part part_of(const chain *c, const chunk *k, int64_t first, int64_t streams, int64_t from, int64_t count, bool resume)
{
        return (part){k->line, k->number * c->chunk + first * c->leaf, first, streams, from, count, resume, k->side, 0};
}

static void fold_piece(worker *w, const chunk *k, int64_t piece, int64_t pieces)
{
        const chain *c = w->c;
        part t = part_of(c, k, 0, k->whole, piece * (c->leaf / pieces), c->leaf / pieces, true);
        if (c->plan->step->fold) /* a scan has fetched it already */
                t.ahead = c->plan->ahead;
        if (k->whole)
                run_part(w, &t, FOLD, NULL);
}

/* Meanwhile the piece of chunk `next` that will be folded after this one is fetched; NULL if there is none. */
static void scan_piece(worker *w, const chunk *k, int64_t piece, const chunk *next)
{
        const chain *c = w->c;
        int64_t count = c->leaf / PIECES;
        part t = part_of(c, k, 0, k->whole, piece * count, count, true);
        if (next && next->line == k->line)
                t.ahead = ((next->number - k->number) * c->chunk + count) * c->plan->seq.x;
        if (k->whole)
                run_part(w, &t, SCAN, w->carry);
}

/* The same in runs: into scratch, */
static void local_piece(worker *w, const chunk *k, int64_t piece)
{
        const chain *c = w->c;
        part t = part_of(c, k, 0, k->whole, piece * (c->leaf / PIECES), c->leaf / PIECES, true);
        if (k->whole)
                run_part(w, &t, LOCAL, NULL);
}

/* and from there. An exclusive result is the inclusive one before it, the first of a chunk what is to the left of that. */
static void carry_piece(worker *w, const chunk *k, int64_t piece, const chunk *next)
{
        const chain *c = w->c;
        const sf_cpu_plan *p = c->plan;
        const int64_t count = c->leaf / PIECES, pitch = p->inner * p->size, down = p->reverse ? (count - 1) * pitch : 0;
        part t = part_of(c, k, 0, k->whole, piece * count, count, true);
        if (!k->whole)
                return;
        sf_run run = w->run;
        char *first = spot_of(c, k->line, t.position + t.from).y;
        run.x = raw_of(w, &t) - down;
        run.y = first - down;
        run.count = count * p->inner;
        run.next = run.x;
        if (next && next->whole && piece + 1 < PIECES) {
                const char *ahead = spot_of(c, next->line, next->number * c->chunk + t.from + count).x;
                run.next = ahead - (p->seq.x < 0 ? down : 0);
        }
        if (p->step->exclusive) {
                run.x += p->reverse ? pitch : -pitch;
                if (!piece) {
                        p->kernels->narrow(first, w->carry[0].fill, p->inner);
                        run.x += p->reverse ? 0 : pitch;
                        run.y += p->reverse ? 0 : pitch;
                        run.count -= p->inner;
                }
        }
        p->kernels->carry_run(&run);
}

/* The first walk over `next` and the second one over `now`; either may be NULL. */
static void walk_pieces(worker *w, const chunk *now, const chunk *next)
{
        if (w->c->plan->step->fold) {
                if (next)
                        fold_piece(w, next, 0, 1);
                return;
        }
        for (int64_t piece = 0; piece < PIECES; piece++) {
                if (next && w->c->runs)
                        local_piece(w, next, piece);
                else if (next)
                        fold_piece(w, next, piece, PIECES);
                if (now && w->c->runs)
                        carry_piece(w, now, piece, next);
                else if (now)
                        scan_piece(w, now, piece, next);
        }
}

/* The same where the first walk scans into scratch and the second carries. */
static void walk_together(worker *w, const chunk *now, const chunk *next)
{
        const chain *c = w->c;
        const sf_cpu_kernels *k = c->plan->kernels;
        const bool carries = now && now->whole, scans = next && next->whole;
        sf_rows carry, scan;
        if (carries) {
                part t = part_of(c, now, 0, now->whole, 0, c->leaf, true);
                carry = rows_of(w, &t, CARRY, w->carry);
        }
        if (scans) {
                part t = part_of(c, next, 0, next->whole, 0, c->leaf, true);
                t.ahead = c->plan->ahead;
                scan = rows_of(w, &t, LOCAL, NULL);
        }
        if (carries)
                k->carry_rows(&carry, scans ? &scan : NULL);
        else if (scans)
                k->scan_rows(&scan);
}

/* The ragged end of a sequence is no leaf: it is scanned in one go. */
static void scan_ragged(worker *w, const chunk *k)
{
        const chain *c = w->c;
        part t = part_of(c, k, k->whole, 1, 0, k->length - k->whole * c->leaf, false);
        if (t.count)
                run_part(w, &t, SCAN, w->carry + k->whole);
}

/* A whole leaf's total is the counter's entry at its level; the ragged end of a sequence has nobody to its right to tell. */
static void publish(worker *w, const chunk *k)
{
        chain *c = w->c;
        for (int64_t r = 0; r < k->whole; r++)
                memcpy(entry(c, c->totals, k->line * c->leaves + k->number * c->streams + r),
                       entry(c, w->counters[0], r * SF_ORDER_LEVELS + c->level), (size_t)c->entry_bytes);
        atomic_store_explicit(&c->ready[k->index], 1, memory_order_release);
}

/* ------------------------------------------------------------------------------------------------------------
 * What stands to the left of a chunk
 * ---------------------------------------------------------------------------------------------------------- */

/* The next leaf's total joins the worker's counter: order.h, with tiles that are leaves. */
static void count_leaf(worker *w)
{
        chain *c = w->c;
        const sf_cpu_kernels *k = c->plan->kernels;
        uint64_t leaf = (uint64_t)w->counted++;
        int closed = sf_order_closed(leaf);
        const char *total = entry(c, c->totals, w->line * c->leaves + (int64_t)leaf);
        char *close = entry(c, w->counter, closed);
        if (!closed) {
                memcpy(close, total, (size_t)c->entry_bytes);
                return;
        }
        /* combine(a, b) leaves a + b in a, and a block that closes uses its entries up. */
        char *sum = entry(c, w->counter, SF_ORDER_LEVELS);
        memcpy(sum, total, (size_t)c->entry_bytes);
        for (int level = 0; level < closed; level++) {
                char *left = entry(c, w->counter, level);
                k->combine(left, sum, c->entry_lanes);
                memcpy(sum, left, (size_t)c->entry_bytes);
        }
        memcpy(close, sum, (size_t)c->entry_bytes);
}

/* left = left combined with the sum so far, which becomes it. */
static void sum_entry(worker *w, char *sum, const char *left, bool first)
{
        chain *c = w->c;
        char *room = entry(c, w->counter, SF_ORDER_LEVELS);
        memcpy(room, left, (size_t)c->entry_bytes);
        if (!first)
                c->plan->kernels->combine(room, sum, c->entry_lanes);
        memcpy(sum, room, (size_t)c->entry_bytes);
}

/* All that is to the left of a stream, summed up: what an exclusive scan's first element is, or a fold's total. */
static void sum_carry(worker *w, int64_t stream, bool shares)
{
        sf_carry *carry = &w->carry[stream];
        bool first = true;
        for (int32_t e = 0; e < carry->count; e++, first = false)
                sum_entry(w, carry->fill, carry->entries + e * carry->entry_stride, first);
        for (int32_t e = 0; shares && e < w->common.count; e++, first = false)
                sum_entry(w, carry->fill, w->common.entries + e * w->common.entry_stride, first);
}

static sf_carry copy_entries(worker *w, char *to, uint64_t bits, bool initial)
{
        chain *c = w->c;
        sf_carry carry = {.entries = to, .entry_stride = c->entry_bytes};
        for (; bits; bits &= bits - 1)
                memcpy(entry(c, to, carry.count++), entry(c, w->counter, __builtin_ctzll(bits)), (size_t)c->entry_bytes);
        if (initial)
                memcpy(entry(c, to, carry.count++), w->initial, (size_t)c->entry_bytes);
        return carry;
}

/* Copies the counter's live entries, lowest first, then the initial value. Where the second walk only carries, what is above the
 * streams' own levels they share; the ragged end of a sequence, which is scanned, has it all to itself. */
static void set_carry(worker *w, int64_t stream, bool ragged)
{
        chain *c = w->c;
        const sf_step *s = c->plan->step;
        uint64_t counted = (uint64_t)w->counted, low = c->local && !ragged ? (uint64_t)c->streams - 1 : UINT64_MAX;
        if (c->local && !stream)
                w->common = copy_entries(w, entry(c, w->entries, c->streams * CARRY_ENTRIES), counted & ~(uint64_t)(c->streams - 1), s->has_initial);
        w->carry[stream] = copy_entries(w, entry(c, w->entries, stream * CARRY_ENTRIES), counted & low, (!c->local || ragged) && s->has_initial);
        w->carry[stream].fill = entry(c, w->fills, stream);
        if (!s->exclusive)
                return;
        if (w->counted)
                sum_carry(w, stream, c->local && !ragged);
        else
                c->plan->kernels->fill(w->carry[stream].fill, c->entry_lanes,
                                       s->has_initial ? sf_combine(s->op, s->acc, s->initial, s->identity) : s->identity);
}

/* Repeats a chunk's carries as far as a period goes. Of a free operation all together are one. */
static void set_run(worker *w, const chunk *k)
{
        chain *c = w->c;
        const sf_cpu_plan *p = c->plan;
        const bool free = p->kernels->free, stream = p->stream || p->detour;
        const int64_t vector = p->isa->vector_bytes, each = (c->period + 4) * vector, columns = p->inner * p->size;
        const sf_carry *carry = &w->carry[0];
        char *lowest = spot_of(c, k->line, k->number * c->chunk + (p->reverse ? c->chunk - 1 : 0)).y;
        const bool aligned = stream && (uintptr_t)lowest % (uintptr_t)p->size == 0;
        const int64_t before = aligned ? (int64_t)(-(uintptr_t)lowest % (uintptr_t)vector) : 0, phase = before % columns;
        if (free && carry->count > 1)
                sum_carry(w, 0, false);
        w->run = (sf_run){.entries = free && carry->count > 1 ? 1 : carry->count, .period = c->period, .table = w->table, .base = lowest + before,
                          .stream = aligned};
        for (int32_t e = 0; e < w->run.entries; e++) {
                const char *from = free && carry->count > 1 ? carry->fill : carry->entries + e * carry->entry_stride;
                char *to = w->table + e * each;
                memcpy(to, from + phase, (size_t)(columns - phase));
                memcpy(to + columns - phase, from, (size_t)phase);
                for (int64_t done = columns; done < each; done *= 2)
                        memcpy(to + done, to, (size_t)(2 * done < each ? done : each - done));
        }
}

/* Waits for all that is to the left of chunk k, and prepares its carries. */
static void look_left(worker *w, const chunk *k)
{
        chain *c = w->c;
        if (w->line != k->line) {
                w->line = k->line;
                w->counted = 0;
        }
        for (int64_t before = w->counted / c->streams; before < k->number; before++) {
                for (int spins = 0; !atomic_load_explicit(&c->ready[k->line * c->chunks + before], memory_order_acquire); spins++)
                        if (spins > SPINS) /* whoever we wait for may be waiting for this CPU */
                                sched_yield();
                while (w->counted < (before + 1) * c->streams)
                        count_leaf(w);
        }
        for (int64_t r = 0; r < c->streams; r++) {
                set_carry(w, r, r >= k->whole);
                if (r < k->whole && k->number * c->streams + r + 1 < c->leaves)
                        count_leaf(w);
        }
        if (c->runs && k->whole)
                set_run(w, k);
}

/* ------------------------------------------------------------------------------------------------------------
 * Folds: the leaves' totals, with the ragged end to their right
 * ---------------------------------------------------------------------------------------------------------- */
static void finish_fold(worker *w, int64_t line)
{
        chain *c = w->c;
        const sf_cpu_plan *p = c->plan;
        const sf_step *s = p->step;
        int64_t whole = s->n / c->leaf, over = s->n - whole * c->leaf;
        w->line = line;
        w->counted = 0;
        while (w->counted < whole)
                count_leaf(w);
        w->carry[0] = copy_entries(w, w->entries, (uint64_t)w->counted, s->has_initial);
        w->carry[0].fill = entry(c, w->fills, 0);
        if (over) {
                part t = {.line = line, .position = whole * c->leaf, .streams = 1, .count = over};
                run_part(w, &t, FOLD, w->carry);
                return;
        }
        sum_carry(w, 0, false);
        p->kernels->narrow(spot_of(c, line, 0).y, w->carry[0].fill, p->inner);
}

/* ------------------------------------------------------------------------------------------------------------
 * The whole
 * ---------------------------------------------------------------------------------------------------------- */
static void work(void *arg, int index)
{
        chain *c = arg;
        worker w = worker_make(c, index);
        bool fold = c->plan->step->fold;
        void (*both)(worker *, const chunk *, const chunk *) = c->local ? walk_together : walk_pieces;
        chunk now = {.side = 0}, next;
        bool has_now = claim(c, &now);
        if (has_now) {
                both(&w, NULL, &now);
                publish(&w, &now);
        }
        while (has_now) {
                bool has_next = claim(c, &next);
                next.side = (now.side + 1) % c->sides;
                if (!fold)
                        look_left(&w, &now);
                both(&w, &now, has_next ? &next : NULL);
                if (has_next)
                        publish(&w, &next);
                if (!fold)
                        scan_ragged(&w, &now);
                now = next;
                has_now = has_next;
        }
        if (c->plan->stream || c->plan->detour)
                c->plan->isa->fence();
}

bool sf_cpu_chain_run(sf_context *ctx, const sf_cpu_plan *p, int workers)
{
        const sf_step *s = p->step;
        chain c = {.plan = p, .columns = p->shape == SF_CPU_COLUMNS, .lines = p->outer * p->line.len};
        int64_t vector = p->isa->vector_bytes;
        const bool full = !c.columns && p->lanes->unit == p->kernels->width, on_end = (p->reverse ? -p->seq.y : p->seq.y) == p->inner * p->size;
        c.local = !s->fold && full && p->kernels->carry_rows;
        c.runs = !s->fold && !full && on_end && p->kernels->carry_run && p->inner <= MOST_RUN * p->kernels->width;
        const int64_t even = p->inner & -p->inner, odd = p->inner / (even < p->kernels->width ? even : p->kernels->width);
        c.period = odd < 4 ? 4 * odd : odd;
        c.streams = c.columns || c.runs ? 1 : s->fold ? SF_CPU_FOLD_GROUP : SF_CPU_GROUP;
        int64_t least = c.streams * PIECES * (c.columns ? SF_CPU_TILE_ROWS : SF_CPU_TILE_VECTORS * p->lanes->rows);
        /* What a chunk takes in cache: of one that waits in scratch, its lanes. */
        const int64_t each = p->inner * (c.local ? p->kernels->lane_bytes : p->size), share = s->n * each / (16 * workers);
        const int64_t room = s->fold ? FOLD_CHUNK_BYTES : c.local ? LOCAL_CHUNK_BYTES : CHUNK_BYTES;
        const int64_t most = (share < CHUNK_BYTES ? CHUNK_BYTES : share < room ? share : room) / each;
        c.chunk = (int64_t)1 << sf_order_log2((uint64_t)(most > least ? most : least));
        c.leaf = c.chunk / c.streams;
        c.chunks = (s->n + c.chunk - 1) / c.chunk;
        c.leaves = (s->n + c.leaf - 1) / c.leaf;
        c.entry_lanes = c.columns ? (p->inner + p->kernels->width - 1) / p->kernels->width * p->kernels->width : p->kernels->width;
        c.entry_bytes = c.entry_lanes * sf_value_bytes(p->kernels);
        int64_t tile = c.columns ? (c.runs ? p->isa->scan_rows : p->isa->fold_rows)
                       : c.local || c.runs ? p->isa->scan_tile * p->lanes->rows
                                 : p->kernels->fold_tile(p->lanes) * p->lanes->rows;
        c.level = sf_order_log2((uint64_t)(c.leaf / tile));
        c.sides = c.local ? 1 : 2;
        c.raw_bytes = c.local || c.runs ? (size_t)(c.chunk * p->inner * p->kernels->lane_bytes) : 0;
        c.detour_bytes = p->detour && !c.runs ? (size_t)(c.chunk / PIECES * p->inner * p->size) : 0;
        c.table_bytes = c.runs ? (size_t)(CARRY_ENTRIES * (c.period + 4) * vector) : 0;

        size_t totals = (size_t)(c.lines * c.leaves * c.entry_bytes), ready = ((size_t)(c.lines * c.chunks) + 63) / 64 * 64;
        c.scratch_each = (size_t)(worker_entries(c.streams) * c.entry_bytes + vector) + c.detour_bytes + c.table_bytes + (size_t)c.sides * c.raw_bytes;
        c.scratch_each = (c.scratch_each + 2 * PAGE) / 64 * 64 + PAGE;
        sf_arena *arena = sf_arena_borrow(ctx, totals + ready + (size_t)workers * c.scratch_each);
        if (!arena)
                return false;
        c.totals = arena->base;
        c.ready = (_Atomic uint8_t *)(arena->base + totals);
        c.scratch = arena->base + totals + ready;
        memset(arena->base + totals, 0, ready);
        sf_pool_run(workers, work, &c);
        if (s->fold) {
                worker w = worker_make(&c, 0);
                for (int64_t line = 0; line < c.lines; line++)
                        finish_fold(&w, line);
        }
        sf_arena_return(ctx, arena);
        return true;
}
