/* A step planned (plan.c), and its tasks run by all threads. */
#include "cpu/cpu.h"

#include "core/arena.h"
#include "core/value.h"
#include "core/walk.h"
#include "cpu/panel.h"
#include "cpu/pool.h"

/* ---------------------------------------------------------------------------------------------
 * Tasks
 * ------------------------------------------------------------------------------------------- */

/* Where every row of y begins at the same place in a cache line, how many columns before the next
 * line begins? NumPy's large arrays begin 16 bytes into one: strips that begin with a line are
 * streamed whole. */
static int64_t columns_before_a_line(const sf_panels *p, const sf_piece *piece)
{
        const sf_panel_member *m = &p->member[0];
        const int64_t past = (int64_t)((uintptr_t)piece->of[0].y % 64);
        const bool same = m->step->dims[p->seq].y % 64 == 0 && past % m->size == 0;
        return m->streams && !m->step->fold && past && same ? (64 - past) / m->size : 0;
}

/* One strip of columns of a line. The columns before the first line are the first strip's too. */
static void run_strip(const sf_panels *p, sf_fused_machine *machine, char *scratch, sf_piece *piece,
                      int64_t outer, int64_t line, int64_t strip)
{
        const int64_t all = sf_panels_length(p, p->col);
        sf_piece_at(p, outer, line, 0, -1, piece);
        const int64_t head = sf_smaller(columns_before_a_line(p, piece), all);
        if (head && !strip) {
                piece->cols = head;
                sf_panel_run(p, machine, scratch, piece);
        }
        const int64_t col = strip * p->cols + head;
        if (col >= all)
                return;
        sf_piece_at(p, outer, line, col, -1, piece);
        piece->cols = sf_smaller(p->cols, all - col);
        sf_panel_run(p, machine, scratch, piece);
}

static void run_task(const sf_panels *p, sf_fused_machine *machine, char *scratch, int64_t task)
{
        const int64_t inner = p->outer_first ? p->outers : p->tiles, low = task % inner;
        const int64_t strip = task / inner % p->strips, high = task / inner / p->strips;
        const int64_t outer = p->outer_first ? low : high, tile = p->outer_first ? high : low;
        const int64_t end = sf_smaller((tile + 1) * p->tile, sf_panels_length(p, p->line));
        const bool columns = p->shape == SF_PANEL_COLUMNS && p->members == 1;
        sf_piece piece = {.n = p->n};
        for (int64_t line = tile * p->tile; line < end; line += p->lines) {
                const int64_t col = strip * p->cols;
                piece.lines = sf_smaller(p->lines, end - line);
                if (columns) {
                        run_strip(p, machine, scratch, &piece, outer, line, strip);
                        continue;
                }
                sf_piece_at(p, outer, line, col, -1, &piece);
                piece.cols = sf_smaller(p->cols, sf_panels_length(p, p->col) - col);
                sf_panel_run(p, machine, scratch, &piece);
        }
}

static void work(void *arg, int worker)
{
        sf_crew *c = arg;
        const sf_panels *p = c->panels;
        char *scratch = c->scratch + (size_t)worker * c->scratch_each;
        sf_fused_machine machine;
        int64_t task;
        if (!p->straight)
                sf_fused_machine_make(&machine, p->isa->map, scratch + c->machine, p->slots);
        while ((task = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < p->tasks)
                run_task(p, &machine, scratch, task);
        if (p->stream)
                p->isa->fence();
}

/* ---------------------------------------------------------------------------------------------
 * The whole of a step
 * ------------------------------------------------------------------------------------------- */

/* A fold of nothing: every result is the store's of the identity. */
static void store_identity(const sf_step *s, const sf_fuse *f)
{
        sf_value v = sf_lower(s->acc, s->has_initial ? sf_combine(s->op, s->acc, s->initial, s->identity)
                                                     : s->identity);
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

/* Memory that the workers share: the programs' constants. Filled if there is a base. */
static size_t place_constants(sf_panels *p, char *base)
{
        size_t total = 0;
        for (int32_t i = 0; i < p->members && !p->straight; i++) {
                sf_panel_member *m = &p->member[i];
                m->load_constants = base + total;
                total += sf_fused_constants_bytes(&m->load);
                m->store_constants = base + total;
                total += sf_fused_constants_bytes(&m->store);
                if (base) {
                        sf_fused_constants_fill(p->isa->map, &m->load, m->load_constants);
                        sf_fused_constants_fill(p->isa->map, &m->store, m->store_constants);
                }
        }
        return total;
}

static sf_status run_members(sf_context *ctx, sf_panels *p)
{
        const sf_step *s = p->member[0].step;
        int workers = sf_cpu_workers(ctx, s->n * s->batch * sf_panels_bytes(p));
        sf_panels_plan(p, workers);
        sf_crew c = {.panels = p, .machine = sf_panel_scratch(p)};
        c.room = c.machine + (p->straight ? 0 : sf_fused_machine_bytes(p->slots));
        c.room = (c.room + 63) / 64 * 64;
        /* Workers write their scratch all the time: no two on one line, nor a power of two apart. */
        c.scratch_each = c.room + (p->chunk ? sf_shared_room(p, c.machine) : 0);
        c.scratch_each = (c.scratch_each + 4095) / 4096 * 4096 + 4096 + 64;
        if (!p->chunk)
                workers = (int)sf_smaller(workers, p->tasks);
        const size_t constants = (place_constants(p, NULL) + 63) / 64 * 64;
        const size_t shared = constants + (p->chunk ? sf_shared_bytes(p) : 0);
        const size_t bytes = shared + (size_t)workers * c.scratch_each;
        sf_arena *arena = sf_arena_borrow(ctx, bytes);
        if (!arena)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "%zu bytes of scratch could not be had", bytes);
        place_constants(p, arena->base);
        c.scratch = arena->base + shared;
        if (p->chunk)
                sf_shared_start(&c, p, arena->base + constants);
        sf_pool_run(workers, p->chunk ? sf_shared_work : work, &c);
        if (p->chunk)
                sf_shared_finish(&c);
        sf_arena_return(ctx, arena);
        return SF_OK;
}

sf_status sf_cpu_run(sf_context *ctx, const sf_step *s)
{
        while (s) {
                sf_panels p;
                bool has_kernel = true;
                sf_panels_start(&p, ctx->isa, s);
                /* As many of the siblings as can be walked together; then the rest. */
                for (; s && sf_panels_take(&p, s, &has_kernel); s = s->sibling) {
                }
                if (!has_kernel)
                        return sf_fail(ctx, SF_UNSUPPORTED, "%s of %s into %s has no CPU kernel",
                                       sf_op_name(s->op), sf_dtypes[s->in].name,
                                       sf_dtypes[s->out].name);
                for (int32_t i = 0; i < p.members && !p.n; i++)
                        store_identity(p.member[i].step, p.member[i].fuse);
                if (p.n)
                        SF_TRY(run_members(ctx, &p));
        }
        return SF_OK;
}
