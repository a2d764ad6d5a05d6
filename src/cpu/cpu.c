/* Plans a step (plan.c) and runs its tasks on all threads. */
#include "cpu/cpu.h"

#include "core/arena.h"
#include "core/value.h"
#include "core/walk.h"
#include "cpu/panel.h"
#include "cpu/pool.h"

/* ---------------------------------------------------------------------------------------------
 * Pieces
 * ------------------------------------------------------------------------------------------- */

/* A position in the tensors, by its coordinates in the dimensions of the walk. */
typedef struct coordinates {
        int64_t outer[SF_MAX_NDIM], line, col, along;
} coordinates;

static int64_t operand_offset(const sf_panels *p, const coordinates *c, const int64_t *stride)
{
        int64_t sum = c->along * stride[p->seq];
        for (int32_t d = 0; d < p->nouter; d++)
                sum += c->outer[d] * stride[p->outer[d]];
        sum += p->line < 0 ? 0 : c->line * stride[p->line];
        return sum + (p->col < 0 ? 0 : c->col * stride[p->col]);
}

/* Adds `times` steps of dimension d to the offsets in y, in the mask and in the values to the
 * left. */
static void add_offset(sf_dim *sum, const sf_dim *dims, int32_t d, int64_t times)
{
        if (d < 0)
                return;
        sum->y += times * dims[d].y;
        sum->m += times * dims[d].m;
        sum->left += times * dims[d].left;
}

static sf_dim result_offset(const sf_panels *p, const coordinates *c, const sf_dim *dims)
{
        sf_dim sum = {0, 0, 0, 0, 0};
        for (int32_t d = 0; d < p->nouter; d++)
                add_offset(&sum, dims, p->outer[d], c->outer[d]);
        add_offset(&sum, dims, p->line, c->line);
        add_offset(&sum, dims, p->col, c->col);
        add_offset(&sum, dims, p->seq, c->along);
        return sum;
}

void sf_piece_at(const sf_panels *p, int64_t outer, int64_t line, int64_t col, int64_t leaf,
                 sf_piece *piece)
{
        const sf_fuse *f = p->member[0].fuse;
        const bool by_stride = leaf >= 0 && p->nseq == 1;
        const int64_t first = leaf < 0 ? 0 : leaf * p->leaf;
        /* The dimension along which the next line follows. */
        const int32_t to_next = by_stride ? p->seq : p->line;
        const int64_t times = by_stride ? p->leaf : 1;
        coordinates at;
        at.line = line;
        at.col = col;
        at.along = by_stride ? first : 0;
        for (int32_t d = p->nouter - 1; d >= 0; d--) {
                const int64_t len = p->member[0].step->dims[p->outer[d]].len;
                at.outer[d] = outer % len;
                outer /= len;
        }
        piece->chunk = leaf >= 0;
        piece->cuts = NULL;
        piece->totals = piece->some = false;
        piece->carry = 0;
        piece->from = by_stride ? 0 : first;
        piece->base = at.along;
        piece->base_line = by_stride ? p->leaf : 0;
        piece->ahead = p->ahead;
        for (int32_t k = 0; k < f->operands; k++) {
                const sf_operand *x = &f->operand[k];
                piece->in[k].at = x->data ? x->data + operand_offset(p, &at, x->stride) : NULL;
                piece->in[k].line = to_next < 0 ? 0 : times * x->stride[to_next];
        }
        for (int32_t i = 0; i < p->members; i++) {
                const sf_step *s = p->member[i].step;
                const sf_dim offset = result_offset(p, &at, s->dims);
                sf_dim next = {0, 0, 0, 0, 0};
                add_offset(&next, s->dims, to_next, times);
                piece->of[i].y = s->y + offset.y;
                piece->of[i].y_line = next.y;
                piece->of[i].m = s->m ? s->m + offset.m : NULL;
                piece->of[i].m_line = next.m;
                piece->of[i].left = s->left ? s->left + offset.left : NULL;
                piece->of[i].left_line = next.left;
                piece->of[i].sums = NULL;
        }
}

/* ---------------------------------------------------------------------------------------------
 * Tasks
 * ------------------------------------------------------------------------------------------- */

/* How many columns come before the first cache line of a row of y begins, if that is the same for
 * all rows? NumPy's large arrays begin 16 bytes into a cache line; strips that begin with a cache
 * line are streamed whole. */
static int64_t columns_before_a_line(const sf_panels *p, const sf_piece *piece)
{
        const sf_panel_member *m = &p->member[0];
        const int64_t past = (int64_t)((uintptr_t)piece->of[0].y % 64);
        const bool same = m->step->dims[p->seq].y % 64 == 0 && past % m->size == 0;
        return m->streams && !m->step->fold && past && same ? (64 - past) / m->size : 0;
}

/* A piece of whole sequences, moved as the walker says. */
static void find_piece(const sf_walker *w, int64_t outer, int64_t line, int64_t col, sf_piece *piece)
{
        const sf_panels *p = w->p;
        sf_piece_at(p, outer, line, col, -1, piece);
        if (!w->shift)
                return;
        for (int32_t k = 0; k < p->member[0].fuse->operands; k++)
                piece->in[k].at += w->shift->in[k];
        for (int32_t i = 0; i < p->members; i++) {
                piece->of[i].y += w->shift->of[i].y;
                piece->of[i].m = piece->of[i].m ? piece->of[i].m + w->shift->of[i].m : NULL;
        }
}

/* Runs one strip of columns of a line. The first strip also has the columns before the first cache
 * line. */
static void run_strip(const sf_walker *w, sf_piece *piece, int64_t outer, int64_t line,
                      int64_t strip)
{
        const sf_panels *p = w->p;
        const int64_t all = sf_panels_length(p, p->col);
        find_piece(w, outer, line, 0, piece);
        const int64_t head = sf_smaller(columns_before_a_line(p, piece), all);
        if (head && !strip) {
                piece->cols = head;
                sf_panel_run(w, piece);
        }
        const int64_t col = strip * p->cols + head;
        if (col >= all)
                return;
        find_piece(w, outer, line, col, piece);
        piece->cols = sf_smaller(p->cols, all - col);
        sf_panel_run(w, piece);
}

void sf_task_run(const sf_walker *w, int64_t task)
{
        const sf_panels *p = w->p;
        if (p->cut) {
                sf_segments_task(w, task);
                return;
        }
        const int64_t low = sf_digit(&task, p->outer_first ? p->outers : p->tiles);
        const int64_t strip = sf_digit(&task, p->strips);
        const int64_t outer = p->outer_first ? low : task, tile = p->outer_first ? task : low;
        const int64_t end = sf_smaller((tile + 1) * p->tile, sf_panels_length(p, p->line));
        const bool columns = p->shape == SF_PANEL_COLUMNS && p->members == 1;
        sf_piece piece;
        piece.n = p->n;
        for (int64_t line = tile * p->tile; line < end; line += p->lines) {
                const int64_t col = strip * p->cols;
                piece.lines = sf_smaller(p->lines, end - line);
                if (columns && p->member[0].streams) {
                        run_strip(w, &piece, outer, line, strip);
                        continue;
                }
                find_piece(w, outer, line, col, &piece);
                piece.cols = sf_smaller(p->cols, sf_panels_length(p, p->col) - col);
                sf_panel_run(w, &piece);
        }
}

sf_walker sf_crew_walker(const sf_crew *c, int worker, sf_fused_machine *machine)
{
        const sf_panels *p = c->panels;
        char *scratch = c->scratch + (size_t)worker * c->scratch_each;
        if (!p->straight)
                sf_fused_machine_make(machine, p->isa->map, scratch + c->machine, p->slots);
        return (sf_walker){p, scratch, machine, NULL};
}

static void work(void *arg, int worker)
{
        sf_crew *c = arg;
        const sf_panels *p = c->panels;
        sf_fused_machine machine;
        const sf_walker w = sf_crew_walker(c, worker, &machine);
        int64_t task;
        while ((task = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < p->tasks)
                sf_task_run(&w, task);
        if (p->stream)
                p->isa->fence();
}

/* ---------------------------------------------------------------------------------------------
 * The whole of a step
 * ------------------------------------------------------------------------------------------- */

/* A fold of an empty sequence: every result is the identity, after the store program. */
static void store_identity(const sf_step *s, const sf_fuse *f)
{
        const sf_value first = sf_combine(s->op, s->acc, s->initial, s->identity);
        const sf_value v = sf_step_lower(s, s->has_initial ? first : s->identity);
        sf_walk walk;
        sf_walk_start(&walk, s->dims, s->nbatch, 0);
        for (int64_t b = 0; b < s->batch; b++, sf_walk_next(&walk)) {
                const char *at[SF_OPERANDS_MAX];
                for (int32_t k = 0; k < f->operands; k++) {
                        at[k] = f->operand[k].data;
                        for (int32_t d = 0; at[k] && d < s->nbatch; d++)
                                at[k] += walk.at[d] * f->operand[k].stride[d];
                }
                sf_element_store(s->out, sf_store_eval(f, at, v, sf_op_result(s->op, s->acc), s->out), s->y + walk.y);
        }
}

size_t sf_panels_constants(sf_panels *p, char *base)
{
        size_t total = 0;
        for (int32_t i = 0; i < p->members && !p->straight; i++) {
                sf_panel_member *m = &p->member[i];
                m->load_constants = base ? base + total : NULL;
                total += sf_fused_constants_bytes(&m->load);
                m->store_constants = base ? base + total : NULL;
                total += sf_fused_constants_bytes(&m->store);
                m->beside_constants = base ? base + total : NULL;
                total += sf_fused_constants_bytes(&m->beside);
                if (base) {
                        sf_fused_constants_fill(p->isa->map, &m->load, m->load_constants);
                        sf_fused_constants_fill(p->isa->map, &m->beside, m->beside_constants);
                        sf_fused_constants_fill(p->isa->map, &m->store, m->store_constants);
                }
        }
        return total;
}

size_t sf_panels_room(sf_panels *const *walk, int32_t walks, char *base, size_t *panels, size_t *machines)
{
        size_t constants = 0;
        for (int32_t i = 0; i < walks; i++) {
                const size_t panel = sf_panel_scratch(walk[i]), machine = walk[i]->straight ? 0 : sf_fused_machine_bytes(walk[i]->slots);
                constants += (sf_panels_constants(walk[i], base ? base + constants : NULL) + 63) / 64 * 64;
                *panels = panel > *panels ? panel : *panels;
                *machines = machine > *machines ? machine : *machines;
        }
        return constants;
}

sf_status sf_desks_run(sf_context *ctx, int workers, sf_desks *desks, size_t (*lay_out)(void *job, char *base), sf_status (*before)(sf_context *ctx, void *job),
                       void (*todo)(void *job, int worker), void *job)
{
        const size_t shared = lay_out(job, NULL), bytes = shared + (size_t)workers * desks->each;
        sf_arena *arena = sf_arena_borrow(ctx, bytes);
        if (!arena)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "%zu bytes of scratch could not be had", bytes);
        const sf_status status = before ? before(ctx, job) : SF_OK;
        lay_out(job, arena->base);
        desks->first = arena->base + shared;
        if (status == SF_OK)
                sf_pool_run(workers, todo, job);
        sf_arena_return(ctx, arena);
        return status;
}

static sf_status run_members(sf_context *ctx, sf_panels *p)
{
        const sf_step *s = p->member[0].step;
        int workers = sf_cpu_workers(ctx, s->n * s->batch * sf_panels_bytes(p));
        sf_panels_plan(p, workers);
        sf_crew c = {.panels = p, .machine = sf_panel_scratch(p)};
        c.room = c.machine + (p->straight ? 0 : sf_fused_machine_bytes(p->slots));
        c.room = (c.room + 63) / 64 * 64;
        c.scratch_each = sf_desk_bytes(c.room + (p->chunk ? c.machine + sf_carried_bytes(p) : 0));
        if (!p->chunk)
                workers = (int)sf_smaller(workers, p->tasks);
        const size_t constants = (sf_panels_constants(p, NULL) + 63) / 64 * 64;
        const size_t shared = constants + (p->chunk ? sf_shared_bytes(p) : 0);
        const size_t bytes = shared + (size_t)workers * c.scratch_each;
        sf_arena *arena = sf_arena_borrow(ctx, bytes);
        if (!arena)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "%zu bytes of scratch could not be had",
                               bytes);
        /* Only when all memory has been allocated: what has been written cannot be undone. */
        const sf_status status = p->cut ? sf_segments_long(ctx, p) : SF_OK;
        if (status != SF_OK) {
                sf_arena_return(ctx, arena);
                return status;
        }
        sf_panels_constants(p, arena->base);
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
        if (s->then)
                return sf_cpu_chain(ctx, s);
        while (s) {
                sf_panels p;
                bool has_kernel = true;
                sf_panels_start(&p, ctx->isa, s);
                /* Takes as many siblings as can be walked together; the others follow in the next
                 * round. */
                for (; s && sf_panels_take(&p, s, &has_kernel); s = s->sibling) {
                }
                if (!has_kernel)
                        return sf_fail(ctx, SF_UNSUPPORTED, "%s of %s into %s has no CPU kernel",
                                       /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): s is the step without a kernel */
                                       sf_op_name(s->op), sf_dtypes[s->in].name,
                                       sf_dtypes[s->out].name);
                if (!p.n && p.cut)
                        SF_TRY(sf_segments_long(ctx, &p));
                for (int32_t i = 0; i < p.members && !p.n && !p.cut; i++)
                        store_identity(p.member[i].step, p.member[i].fuse);
                if (p.n)
                        SF_TRY(run_members(ctx, &p));
        }
        return SF_OK;
}

/* ---------------------------------------------------------------------------------------------
 * Offsets are checked by all threads, because there may be as many as elements
 * ------------------------------------------------------------------------------------------- */
#define RISE_EACH (1 << 15) /* offsets */

typedef struct rising {
        const sf_segments *segments;
        _Atomic int64_t next;
        _Atomic bool falls;
} rising;

static void check_rise(void *job, int worker)
{
        rising *r = job;
        const int64_t count = r->segments->count;
        (void)worker;
        for (int64_t at; (at = atomic_fetch_add(&r->next, RISE_EACH)) < count;)
                if (!sf_segments_rise(r->segments, at, sf_smaller(at + RISE_EACH, count)))
                        atomic_store(&r->falls, true);
}

bool sf_cpu_rise(const sf_context *ctx, const sf_segments *s)
{
        rising r = {.segments = s};
        const int workers = sf_cpu_workers(ctx, s->count * (s->wide ? 8 : 4));
        if (workers > 1)
                sf_pool_run(workers, check_rise, &r);
        else
                check_rise(&r, 0);
        return !r.falls;
}
