/*
 * Chains on an axis that is cut into segments. A span of the axis, which is a task of every stage
 * (segments.c), goes through all stages before the next span. The segments that begin in it are the
 * same for each stage. So a stage reads only what the same worker wrote in earlier stages, and
 * finds in the cache what the first stage read from memory.
 */
#include "cpu/chain.h"

#include "core/arena.h"

typedef struct stages {
        const sf_cpu_isa *isa;
        int32_t steps, walks;
        sf_step step[SF_CHAIN_STEPS];
        sf_fuse fuse[3]; /* of the steps that keep what a fold and a map share */
        sf_panels *walk[SF_CHAIN_STEPS];
        sf_desks desks;
        size_t machine; /* offset on a desk: where programs run */
        _Atomic int64_t next;
} stages;

static void list_steps(stages *s, const sf_step *first)
{
        for (const sf_step *stage = first; stage; stage = stage->then)
                for (const sf_step *step = stage; step; step = step->sibling) {
                        sf_step *own = &s->step[s->steps++];
                        *own = *step;
                        own->within = false;
                        own->then = NULL;
                        own->sibling = step->sibling ? own + 1 : NULL;
                }
}

static bool is_alone(const stages *s, int32_t i)
{
        return !s->step[i].sibling && !(i && s->step[i - 1].sibling);
}

/* Values that a fold's program computes, and that a later map's program would compute again, are
 * kept where the map's results go, if they have that type. Then there are three steps instead of
 * two. */
static void keep(stages *s, int32_t at, int32_t to, int32_t value)
{
        const sf_step *map = &s->step[to];
        sf_operand kept = {.data = map->y, .dt = map->out};
        for (int32_t d = 0; d < map->nbatch + map->nseq; d++)
                kept.stride[d] = map->dims[d].y;
        for (int32_t i = s->steps++; i > at; i--) {
                s->step[i] = s->step[i - 1];
                s->step[i].sibling = s->step[i].sibling ? &s->step[i + 1] : NULL;
        }
        for (int32_t i = 0; i < 3; i++) {
                sf_step *step = &s->step[i < 2 ? at + i : to + 1];
                s->fuse[i] = *step->fuse;
                step->fuse = &s->fuse[i];
        }
        sf_chain_fill_kept(&s->step[at], &s->fuse[0], &kept);
        sf_chain_read_kept(&s->step[at + 1], &s->fuse[1], &s->fuse[2], value, &kept);
        s->step[to + 1].in_place = true;
}

static void find_kept(stages *s)
{
        int32_t value;
        for (int32_t i = 0; i < s->steps && s->steps < SF_CHAIN_STEPS; i++)
                for (int32_t k = i + 1; k < s->steps && is_alone(s, i); k++)
                        if (is_alone(s, k) && s->step[k].out == s->step[i].acc && sf_chain_shares(&s->step[i], &s->step[k], &value)) {
                                keep(s, i, k, value);
                                return;
                        }
}

/* Chooses which steps are walked together, and counts the bytes that all of them move. False: some
 * step has no kernel. */
static bool take_steps(stages *s, int64_t *bytes)
{
        bool has_kernel = true;
        *bytes = 0;
        for (int32_t i = 0; i < s->steps && has_kernel;) {
                sf_panels *walk = s->walk[s->walks++];
                sf_panels_start(walk, s->isa, &s->step[i]);
                const int64_t elements = s->step[i].n * s->step[i].batch;
                bool together = true;
                while (together && i < s->steps && sf_panels_take(walk, &s->step[i], &has_kernel))
                        together = s->step[i++].sibling;
                *bytes += elements * sf_panels_bytes(walk);
        }
        return has_kernel;
}

/* With equal spans, does each task of one have the same part of the same lines as that of the
 * other? */
static bool same_tasks(const sf_panels *a, const sf_panels *b)
{
        bool same = a->n == b->n && a->seq == b->seq && a->longest == b->longest && a->line == b->line && a->col == b->col && a->cols == b->cols &&
                    a->strips == b->strips && a->nouter == b->nouter;
        for (int32_t d = 0; same && d < a->nouter; d++)
                same = a->outer[d] == b->outer[d];
        return same;
}

/* Plans every stage with the same span: the smallest of any stage, but enough for the least number
 * of blocks of each. False: their tasks are not the same. */
static bool plan_stages(const stages *s, int workers)
{
        int64_t span = INT64_MAX;
        for (int32_t i = 0; i < s->walks; i++) {
                sf_panels_plan(s->walk[i], workers);
                if (!same_tasks(s->walk[0], s->walk[i]))
                        return false;
                span = sf_smaller(span, s->walk[i]->span);
        }
        for (int32_t i = 0; i < s->walks; i++)
                span = sf_larger(span, SF_SEGMENTS_LEAST_BLOCKS * s->walk[i]->block);
        for (int32_t i = 0; i < s->walks; i++)
                sf_segments_span(s->walk[i], span);
        return true;
}

static void work(void *arg, int worker)
{
        stages *s = arg;
        char *scratch = s->desks.first + (size_t)worker * s->desks.each;
        int64_t task;
        while ((task = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->walk[0]->tasks)
                for (int32_t i = 0; i < s->walks; i++) {
                        const sf_panels *p = s->walk[i];
                        sf_fused_machine machine;
                        if (!p->straight)
                                sf_fused_machine_make(&machine, p->isa->map, scratch + s->machine, p->slots);
                        sf_segments_task(&(sf_walker){p, scratch, &machine, NULL}, task);
                }
        s->isa->fence();
}

/* Lays out the constants of all plans, fills them in if there is a base, and finds how much scratch
 * a worker needs. */
static size_t lay_out(void *arg, char *base)
{
        stages *s = arg;
        size_t machines = 0;
        s->machine = 0;
        const size_t constants = sf_panels_room(s->walk, s->walks, base, &s->machine, &machines);
        s->machine = (s->machine + 63) / 64 * 64;
        s->desks.each = sf_desk_bytes(s->machine + machines);
        return constants;
}

static sf_status run_long(sf_context *ctx, void *job)
{
        const stages *s = job;
        for (int32_t i = 0; i < s->walks; i++)
                SF_TRY(sf_segments_long(ctx, s->walk[i]));
        return SF_OK;
}

static sf_status run_stage(void *ctx, const sf_step *s)
{
        return sf_cpu_run(ctx, s);
}

sf_status sf_segments_chain(sf_context *ctx, const sf_step *first)
{
        stages s = {.isa = ctx->isa};
        const size_t panels = (sizeof(sf_panels) + 63) / 64 * 64;
        int64_t bytes;
        if (!first->then || !first->n)
                return sf_chain_apart(first, run_stage, ctx);
        list_steps(&s, first);
        find_kept(&s);
        sf_arena *arena = sf_arena_borrow(ctx, (size_t)s.steps * panels);
        if (!arena)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory for the plans of %d steps", (int)s.steps);
        for (int32_t i = 0; i < s.steps; i++)
                s.walk[i] = (sf_panels *)(void *)(arena->base + (size_t)i * panels);
        /* If some step has no kernel, running the stages apart reports which one. */
        const bool taken = take_steps(&s, &bytes);
        const int workers = taken ? sf_cpu_workers(ctx, bytes) : 1;
        sf_status status = taken && plan_stages(&s, workers) ? sf_desks_run(ctx, (int)sf_smaller(workers, s.walk[0]->tasks), &s.desks, lay_out, run_long, work, &s) : sf_chain_apart(first, run_stage, ctx);
        sf_arena_return(ctx, arena);
        return status;
}
