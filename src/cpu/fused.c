/*
 * Steps walked in panels (panel.h): which shape, how many lines and columns at a time, cut into tasks, one long axis shared by all
 * threads.
 */
#include "core/arena.h"
#include "core/value.h"
#include "core/walk.h"
#include "cpu/panel.h"
#include "cpu/plan.h"
#include "cpu/pool.h"

#include <string.h>

/* A task is about this large (cpu.c). */
#define TASK_BYTES (512 << 10)
/* Rows that several outer positions read should stay in a second-level cache from one to the next. */
#define REUSE_BYTES (512 << 10)
/* A chunk of a shared axis has at least so many blocks. */
#define CHUNK_BLOCKS 16

typedef struct crew {
        sf_panels *panels;
        int64_t outer;        /* positions of the outer dimensions */
        int64_t tile, tiles;  /* lines in a task; tasks along the lines */
        int64_t strips;
        int64_t groups;       /* of chunks */
        bool outer_first;     /* outer positions change fastest: they share what a tile of lines reads */
        bool totals;          /* the first of two passes over a shared axis */
        int64_t tasks;
        char *scratch;
        size_t scratch_each;
        _Atomic int64_t next;
} crew;

static int64_t smaller(int64_t a, int64_t b)
{
        return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b)
{
        return a > b ? a : b;
}
static int64_t parts(int64_t count, int64_t each)
{
        return (count + each - 1) / each;
}
static int64_t power_below(int64_t v)
{
        return (int64_t)1 << sf_order_log2((uint64_t)(v < 1 ? 1 : v));
}

/* ------------------------------------------------------------------------------------------------------------
 * Pieces
 * ---------------------------------------------------------------------------------------------------------- */

/* A piece at position `outer` of the outer dimensions, line `line` and column `col`, and of a shared axis chunk `chunk` on. */
static void piece_at(const sf_panels *p, int64_t outer, int64_t line, int64_t col, int64_t chunk, sf_piece *piece)
{
        const sf_step *first = p->member[0].step;
        const bool by_stride = chunk >= 0 && p->nseq == 1;
        int64_t at[SF_MAX_NDIM], rest = outer;
        for (int32_t d = p->nouter - 1; d >= 0; d--) {
                at[d] = rest % first->dims[p->outer[d]].len;
                rest /= first->dims[p->outer[d]].len;
        }
        piece->chunk = chunk;
        piece->from = chunk >= 0 && !by_stride ? chunk * p->chunk : 0;
        for (int32_t k = 0; k < p->member[0].fuse->operands; k++) {
                const sf_operand *operand = &p->member[0].fuse->operand[k];
                int64_t offset = (p->line < 0 ? 0 : line * operand->stride[p->line]) + (p->col < 0 ? 0 : col * operand->stride[p->col]);
                for (int32_t d = 0; d < p->nouter; d++)
                        offset += at[d] * operand->stride[p->outer[d]];
                if (by_stride)
                        offset += chunk * p->chunk * operand->stride[p->seq];
                piece->in[k].at = operand->data ? operand->data + offset : NULL;
                piece->in[k].line = by_stride ? p->chunk * operand->stride[p->seq] : p->line < 0 ? 0 : operand->stride[p->line];
        }
        for (int32_t i = 0; i < p->members; i++) {
                const sf_panel_member *member = &p->member[i];
                const sf_dim *dims = member->step->dims;
                sf_dim sum = {0, 0, 0, 0}, step = p->line < 0 ? (sf_dim){0, 0, 0, 0} : dims[p->line];
                for (int32_t d = 0; d < p->nouter; d++) {
                        sum.y += at[d] * dims[p->outer[d]].y;
                        sum.m += at[d] * dims[p->outer[d]].m;
                }
                sum.y += line * step.y + (p->col < 0 ? 0 : col * dims[p->col].y);
                sum.m += line * step.m + (p->col < 0 ? 0 : col * dims[p->col].m);
                if (by_stride) {
                        step.y = p->chunk * dims[p->seq].y;
                        step.m = p->chunk * dims[p->seq].m;
                        sum.y += chunk * step.y;
                        sum.m += chunk * step.m;
                }
                piece->of[i].y = member->step->y + sum.y;
                piece->of[i].y_line = step.y;
                piece->of[i].m = member->step->m ? member->step->m + sum.m : NULL;
                piece->of[i].m_line = step.m;
                int64_t of_line = p->nodes * sf_panel_node_bytes(p, member);
                piece->of[i].sums = NULL;
                if (chunk >= 0)
                        piece->of[i].sums = member->sums + (outer * sf_panels_length(first, p->line) + line) * of_line + col * sf_value_bytes(member->kernels);
        }
}

static void run_task(const crew *c, int64_t task, sf_fused_machine *machine, char *scratch)
{
        const sf_panels *p = c->panels;
        const sf_step *s = p->member[0].step;
        int64_t group = task % c->groups, strip, outer, tile;
        task /= c->groups;
        if (c->outer_first) {
                outer = task % c->outer;
                task /= c->outer;
                strip = task % c->strips;
                tile = task / c->strips;
        } else {
                tile = task % c->tiles;
                task /= c->tiles;
                strip = task % c->strips;
                outer = task / c->strips;
        }
        sf_piece piece = {.totals = c->totals};
        int64_t line = tile * c->tile, last = smaller(line + c->tile, sf_panels_length(s, p->line)), col = strip * p->cols;
        piece.cols = smaller(p->cols, sf_panels_length(s, p->col) - col);
        if (p->chunk) {
                /* A group of whole chunks side by side, or the ragged one at the end by itself. */
                int64_t whole = p->n / p->chunk, chunk = group * p->lines;
                if (group == c->groups - 1 && p->n % p->chunk)
                        chunk = whole;
                piece_at(p, outer, line, col, chunk, &piece);
                piece.lines = chunk == whole ? 1 : smaller(p->lines, whole - chunk);
                piece.n = chunk == whole ? p->n % p->chunk : p->chunk;
                sf_panel_run(p, machine, scratch, &piece);
                return;
        }
        for (; line < last; line += p->lines) {
                piece_at(p, outer, line, col, -1, &piece);
                piece.lines = smaller(p->lines, last - line);
                piece.n = p->n;
                sf_panel_run(p, machine, scratch, &piece);
        }
}

static void work(void *arg, int worker)
{
        crew *c = arg;
        char *scratch = c->scratch + (size_t)worker * c->scratch_each;
        sf_fused_machine machine;
        int64_t task;
        sf_panel_start(c->panels, &machine, scratch);
        while ((task = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < c->tasks)
                run_task(c, task, &machine, scratch);
        if (c->panels->stream)
                c->panels->isa->fence();
}

/* ------------------------------------------------------------------------------------------------------------
 * Cutting
 * ---------------------------------------------------------------------------------------------------------- */

static void cut(crew *c, int workers)
{
        sf_panels *p = c->panels;
        const sf_step *s = p->member[0].step;
        const int64_t lines = sf_panels_length(s, p->line), cols = sf_panels_length(s, p->col), bytes = sf_panels_bytes(p);
        c->outer = 1;
        for (int32_t d = 0; d < p->nouter; d++)
                c->outer *= s->dims[p->outer[d]].len;
        if (p->shape == SF_PANEL_MAP && cols > p->cols) {
                /* A load that goes straight to memory cuts itself into blocks; and all can take longer runs than a panel. */
                bool through = true;
                for (int32_t i = 0; i < p->members; i++)
                        through = through && p->member[i].through;
                if (through)
                        p->cols = smaller(cols, larger(p->cols, smaller(TASK_BYTES / bytes, cols / (8 * workers)) / 1024 * 1024));
        }
        c->strips = parts(cols, p->cols);
        c->groups = p->chunk ? parts(p->n / p->chunk, p->lines) + (p->n % p->chunk > 0) : 1;
        int64_t line_bytes = larger(1, smaller(p->n, TASK_BYTES) * p->cols * bytes);
        int64_t by_size = TASK_BYTES / line_bytes, by_share = lines * c->strips * c->outer / (8 * workers);
        c->tile = p->chunk ? 1 : larger(1, workers > 1 ? smaller(by_size, by_share) : by_size);
        /* Rows that a later outer position reads again: as many as a cache keeps. */
        int32_t near = p->nouter ? p->outer[p->nouter - 1] : -1;
        c->outer_first = !p->chunk && p->col < 0 && sf_panels_shares(p, near, p->line);
        if (c->outer_first)
                c->tile = larger(1, smaller(by_share, REUSE_BYTES / line_bytes));
        c->tile = smaller(parts(c->tile, p->lines) * p->lines, lines);
        if (p->chunk)
                c->tile = 1;
        c->tiles = parts(lines, c->tile);
        c->tasks = c->outer * c->strips * c->tiles * c->groups;
}

/* Would whole sequences leave workers idle? Then each is cut into chunks of a power of two. */
static int64_t chunk_for(const crew *c, int workers)
{
        const sf_panels *p = c->panels;
        if (workers == 1 || p->whole || p->shape == SF_PANEL_MAP || c->tasks >= 4 * workers || (c->tasks >= workers && c->tasks % workers == 0))
                return 0;
        int64_t wanted = 8 * workers / c->tasks + 1, least = CHUNK_BLOCKS * p->block;
        int64_t chunk = power_below(p->n / wanted);
        while (chunk < least || p->n / chunk >> SF_PANEL_CHUNK_LEVELS)
                chunk *= 2;
        return 2 * chunk <= p->n ? chunk : 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * A shared axis: the chunks' totals, then the tree over them, then what is left to do
 * ---------------------------------------------------------------------------------------------------------- */

/* Each level from the one below it. Only whole blocks are anyone's left side. */
static void build_tree(const sf_panels *p, const sf_panel_member *m, char *sums)
{
        for (int level = 1; p->chunks >> level; level++)
                for (int64_t i = 0; i < p->chunks >> level; i++) {
                        char *to = sf_panel_node(p, m, sums, level, i);
                        memcpy(to, sf_panel_node(p, m, sums, level - 1, 2 * i), (size_t)sf_panel_node_bytes(p, m));
                        m->kernels->combine(to, sf_panel_node(p, m, sums, level - 1, 2 * i + 1), sf_panel_node_values(p, m));
                }
}

/* The fold of the whole line, as elements in the place of its first node: the ragged chunk, or the lowest block, with all before it on its left. A
 * fold has no further use for the nodes. */
static char *finish_line(const sf_panels *p, const sf_panel_member *m, char *sums)
{
        const int64_t whole = p->n / p->chunk, values = sf_panel_node_values(p, m);
        char *total = p->n % p->chunk ? sf_panel_node(p, m, sums, 0, whole) : NULL;
        for (uint64_t bits = (uint64_t)whole; bits; bits &= bits - 1) {
                const int level = __builtin_ctzll(bits);
                char *left = sf_panel_node(p, m, sums, level, (whole >> level) - 1);
                if (total)
                        m->kernels->combine(left, total, values);
                total = left;
        }
        if (m->step->has_initial) {
                char *initial = sums + (p->nodes - 1) * sf_panel_node_bytes(p, m); /* the tree has one node less */
                m->kernels->fill(initial, values, m->step->initial);
                m->kernels->combine(initial, total, values);
                total = initial;
        }
        m->kernels->narrow(sums, total, sf_panels_length(m->step, p->col));
        return sums;
}

static void finish_chunks(const crew *c)
{
        const sf_panels *p = c->panels;
        const sf_step *s = p->member[0].step;
        const int64_t lines = sf_panels_length(s, p->line);
        sf_fused_machine machine;
        sf_panel_start(p, &machine, c->scratch);
        for (int64_t unit = 0; unit < c->outer * lines; unit++) {
                sf_piece piece;
                piece_at(p, unit / lines, unit % lines, 0, 0, &piece);
                piece.lines = 1;
                piece.cols = sf_panels_length(s, p->col);
                for (int32_t i = 0; i < p->members; i++) {
                        build_tree(p, &p->member[i], piece.of[i].sums);
                        if (p->member[i].step->fold)
                                sf_panel_store_totals(p, &machine, i, &piece, finish_line(p, &p->member[i], piece.of[i].sums));
                }
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * The whole
 * ---------------------------------------------------------------------------------------------------------- */

/* A fold of nothing: every result is the store's of the identity. */
static void store_identity(const sf_step *s, const sf_fuse *f)
{
        sf_value v = sf_lower(s->acc, s->has_initial ? sf_combine(s->op, s->acc, s->initial, s->identity) : s->identity);
        sf_walk walk;
        sf_walk_start(&walk, s->dims, s->nbatch, 0);
        for (int64_t b = 0; b < s->batch; b++, sf_walk_next(&walk)) {
                const char *at[SF_OPERANDS_MAX];
                for (int32_t k = 0; k < f->operands; k++) {
                        at[k] = f->operand[k].data;
                        for (int32_t d = 0; at[k] && d < s->nbatch; d++)
                                at[k] += walk.at[d] * f->operand[k].stride[d];
                }
                sf_element_store(s->out, sf_store_eval(f, at, v, s->acc, s->out), s->y + walk.y);
        }
}

/* Memory the call shares: constants, and the sums of a shared axis. */
static size_t place_shared(sf_panels *p, char *base)
{
        size_t total = 0;
        for (int32_t i = 0; i < p->members; i++) {
                sf_panel_member *m = &p->member[i];
                m->load_constants = base ? base + total : NULL;
                total += sf_fused_constants_bytes(&m->load);
                m->store_constants = base ? base + total : NULL;
                total += sf_fused_constants_bytes(&m->store);
                m->sums = base ? base + total : NULL;
                if (p->chunk)
                        total += (size_t)(m->step->batch / sf_panels_length(m->step, p->col) * p->nodes * sf_panel_node_bytes(p, m) + 63) / 64 * 64;
        }
        return total;
}

static sf_status run_members(sf_context *ctx, sf_panels *p)
{
        const sf_step *s = p->member[0].step;
        crew c = {.panels = p};
        int workers = sf_cpu_workers(ctx, s->n * s->batch * sf_panels_bytes(p));
        sf_panels_plan(p, workers, 0);
        cut(&c, workers);
        int64_t chunk = chunk_for(&c, workers);
        if (chunk) {
                sf_panels_plan(p, workers, chunk);
                cut(&c, workers);
        }
        sf_panels_settle(p);
        workers = (int)smaller(workers, c.tasks);
        /* Workers write their scratch all the time: no two on one line, nor a power of two apart. */
        c.scratch_each = (sf_panel_scratch(p) + 4095) / 4096 * 4096 + 4096 + 64;
        size_t shared = place_shared(p, NULL), bytes = (shared + 63) / 64 * 64 + (size_t)workers * c.scratch_each;
        sf_arena *arena = sf_arena_borrow(ctx, bytes);
        if (!arena)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "%zu bytes of scratch could not be had", bytes);
        place_shared(p, arena->base);
        c.scratch = arena->base + (shared + 63) / 64 * 64;
        bool scans = false;
        for (int32_t i = 0; i < p->members; i++) {
                sf_fused_constants_fill(p->isa->map, &p->member[i].load, p->member[i].load_constants);
                sf_fused_constants_fill(p->isa->map, &p->member[i].store, p->member[i].store_constants);
                scans = scans || !p->member[i].step->fold;
        }
        c.totals = p->chunk > 0;
        sf_pool_run(workers, work, &c);
        if (c.totals) {
                finish_chunks(&c);
                c.totals = false;
                atomic_store_explicit(&c.next, 0, memory_order_relaxed);
                if (scans)
                        sf_pool_run(workers, work, &c);
        }
        sf_arena_return(ctx, arena);
        return SF_OK;
}

sf_status sf_cpu_fused_run(sf_context *ctx, const sf_step *s)
{
        while (s) {
                sf_panels p;
                bool has_kernel = true;
                sf_panels_start(&p, ctx->isa, s);
                /* As many of the siblings as can be walked together; then the rest. */
                for (; s && sf_panels_take(&p, s, &has_kernel); s = s->sibling) {
                }
                if (!has_kernel)
                        return sf_fail(ctx, SF_UNSUPPORTED, "%s of %s into %s has no CPU kernel", sf_op_name(s->op), sf_dtypes[s->in].name,
                                       sf_dtypes[s->out].name);
                for (int32_t i = 0; i < p.members && !p.n; i++)
                        store_identity(p.member[i].step, p.member[i].fuse);
                if (p.n)
                        SF_TRY(run_members(ctx, &p));
        }
        return SF_OK;
}
