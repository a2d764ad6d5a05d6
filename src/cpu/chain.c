/*
 * Chains: several stages over the same lines. A box, as many lines as a cache holds, goes through
 * all stages before the next box begins. So later stages find in the cache what the first one read
 * from memory. Each stage is walked like any step (panel.h). Its plan is made once, for the first
 * box; for other boxes the pointers are moved.
 */
#include "cpu/chain.h"

#include "core/arena.h"

#include <string.h>
#include <unistd.h>

/* What a box reads should fit in a quarter of a core's second-level cache, because the next box is
 * fetched while this one is written. Every CPU has a cache for the smallest box; larger boxes than
 * MOST_BOX gain nothing. */
#define LEAST_BOX (64 << 10)
#define MOST_BOX (512 << 10)
/* In columns, a box is a strip. If its rows were shorter than LEAST_RUN bytes, reading a large
 * matrix in strips would take longer than reading it once for each stage. Normalize, on a busy
 * machine: 4096 x 4096 f32, rows of 512 bytes 0.17 of a copy, all columns at once 0.49; 256 x
 * 16384, rows of 4 KiB 0.54 and 0.47. */
#define STRIP_BOX (1 << 20)
#define LEAST_RUN 4096
#define COLUMNS 64 /* the columns of a strip are a multiple of this */
/* A single line may be larger than a box's budget, up to this, and still be in a cache for the next
 * stage. */
#define LONGEST_LINE (8 << 20)
/* This many boxes for each worker, so that workers finish at about the same time. */
#define BOXES_EACH 4

/* ---------------------------------------------------------------------------------------------
 * Boxes
 * ------------------------------------------------------------------------------------------- */
static int64_t box_bytes(void)
{
        static _Atomic int64_t known; /* asking the system may take a microsecond */
        int64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
        if (bytes)
                return bytes;
#ifdef _SC_LEVEL2_CACHE_SIZE
        bytes = sysconf(_SC_LEVEL2_CACHE_SIZE) / 4;
#endif
        bytes = bytes <= 0 ? 2 * LEAST_BOX : sf_smaller(sf_larger(bytes, LEAST_BOX), MOST_BOX);
        atomic_store_explicit(&known, bytes, memory_order_relaxed);
        return bytes;
}

/* Does operand k change along the sequence? */
static bool moves(const sf_step *s, int32_t k)
{
        bool found = false;
        for (int32_t d = s->nbatch; d < s->nbatch + s->nseq; d++)
                found = found || (sf_chain_stride(s, k, d) && s->dims[d].len > 1);
        return found;
}

/* Bytes of one line in all tensors that are read. Each tensor is counted once. */
static int64_t line_bytes(const sf_chain *c)
{
        const char *seen[SF_CHAIN_STEPS * SF_OPERANDS_MAX];
        int64_t bytes = 0;
        int32_t count = 0;
        for (int32_t i = 0; i < c->steps; i++)
                for (int32_t k = 0; k < sf_chain_operands(c->step[i]); k++) {
                        const char *data = sf_chain_data(c->step[i], k);
                        bool again = !moves(c->step[i], k);
                        for (int32_t e = 0; e < count; e++)
                                again = again || seen[e] == data;
                        if (again)
                                continue;
                        seen[count++] = data;
                        bytes += sf_dtypes[c->step[i]->fuse ? c->step[i]->fuse->operand[k].dt : c->step[i]->in].size;
                }
        return bytes * c->longest->n;
}

static int64_t find_apart(const sf_chain *c)
{
        const sf_step *s = c->step[0], *map = c->step[c->steps - 1];
        bool alike = map->map && map->n == s->n && map->nbatch == s->nbatch &&
                     map->nseq == s->nseq && map->out == s->in;
        for (int32_t d = 0; alike && d < s->nbatch + s->nseq; d++)
                alike = map->dims[d].y == sf_chain_stride(s, 0, d);
        return alike ? (int64_t)((intptr_t)map->y - (intptr_t)sf_chain_data(s, 0)) : 0;
}

/* Decides how the lines are cut. False: it is better to run one stage after another, each over all
 * lines. */
static bool cut_boxes(sf_chain *c, int workers)
{
        const sf_step *s = c->longest;
        const bool columns = sf_chain_in_columns(c);
        const int64_t kept = c->fold < 0 ? 0 : s->n * sf_dtypes[c->step[c->fold]->acc].size;
        const int64_t line = line_bytes(c) + kept, budget = columns ? STRIP_BOX : box_bytes();
        int64_t inner = line, outers = 1;
        if (!s->nbatch || line * s->batch <= box_bytes())
                return false;
        for (c->cut = s->nbatch - 1; c->cut > 0 && inner * s->dims[c->cut].len <= budget; c->cut--)
                inner *= s->dims[c->cut].len;
        for (int32_t d = 0; d < c->cut; d++)
                outers *= s->dims[d].len;
        const int64_t len = s->dims[c->cut].len, strip = columns && c->cut == s->nbatch - 1;
        const int64_t unit = sf_smaller(len, strip ? COLUMNS : inner * SF_CPU_FOLD_GROUP <= budget ? SF_CPU_FOLD_GROUP : 1);
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there are lines, more than fit a box, so that no length is 0 */
        int64_t each = sf_larger(unit, budget / inner / unit * unit);
        if (workers > 1) /* the same number of boxes for each */
                each = sf_smaller(each, sf_parts(sf_parts(len * outers, (int64_t)BOXES_EACH * workers), unit) * unit);
        c->each = sf_smaller(each, len);
        if (c->across) /* boxes make up spans */
                c->each = sf_power_below(c->each);
        if (strip && c->each < len && c->each * sf_magnitude(s->dims[c->cut].x) < LEAST_RUN)
                return false;
        c->parts = sf_parts(len, c->each);
        c->boxes = outers * c->parts;
        if (c->across && !(s->nbatch == 1 && !columns && sf_across_can(c->across, c->step[0], c->each, line, workers)))
                c->across = NULL;
        c->per = c->across ? c->across->span / c->each : 1;
        return inner * c->each <= sf_larger(LONGEST_LINE, budget) && (c->boxes >= 2 * workers || c->boxes == workers);
}

/* ---------------------------------------------------------------------------------------------
 * Plans
 * ------------------------------------------------------------------------------------------- */

/* Makes of a step the step for the first box alone, which has `len` positions of the dimension that
 * is cut. */
static void cut_step(const sf_chain *c, const sf_step *s, int64_t len, sf_step *to, sf_fuse *fuse)
{
        const int32_t from = c->cut + (len == 1), dims = s->nbatch + s->nseq - from;
        *to = *s;
        if (s->fuse) {
                *fuse = *s->fuse;
                to->fuse = fuse;
        }
        to->nbatch = s->nbatch - from;
        for (int32_t d = 0; d < dims; d++) {
                to->dims[d] = s->dims[d + from];
                for (int32_t k = 0; s->fuse && k < fuse->operands; k++)
                        fuse->operand[k].stride[d] = s->fuse->operand[k].stride[d + from];
        }
        if (len > 1)
                to->dims[0].len = len;
        to->batch = 1;
        for (int32_t d = 0; d < to->nbatch; d++)
                to->batch *= to->dims[d].len;
        to->sibling = to->then = NULL;
}

/* The same; a map becomes an elementwise step. */
static void make_step(const sf_chain *c, const sf_step *s, int64_t len, sf_step *to, sf_fuse *fuse)
{
        sf_step map;
        sf_fuse programs;
        cut_step(c, s, len, s->map ? &map : to, s->map ? &programs : fuse);
        if (s->map)
                sf_step_flatten(&map, to, fuse);
}

/* Is operand k of a step the chain's x? */
static bool is_first(const sf_chain *c, const sf_step *s, int32_t k)
{
        bool same = sf_chain_data(s, k) == sf_chain_data(c->step[0], 0);
        for (int32_t d = 0; same && d < s->nbatch + s->nseq; d++)
                same = sf_chain_stride(s, k, d) == sf_chain_stride(c->step[0], 0, d);
        return same;
}

/* A fold between others reads what is in the cache. It prefetches the lines that results will
 * replace, which a cache reads first. */
static void fetch_results(const sf_chain *c, const sf_step *s, sf_panels *walk)
{
        const bool reads = walk->straight || (walk->shape != SF_PANEL_MAP && walk->member[0].reads && !walk->member[0].products);
        if (c->apart && reads && s->fold && is_first(c, s, walk->straight ? 0 : walk->member[0].load.copied))
                walk->ahead = c->apart;
}

/* Makes the plans of all stages for boxes of `len` positions. False: some step has no kernel. */
static bool make_plan(const sf_chain *c, int64_t len, sf_chain_plan *p)
{
        bool has_kernel = true;
        for (int32_t i = 0; i < c->steps; i++)
                make_step(c, c->step[i], len, &p->step[i], &p->fuse[i]);
        for (int32_t i = 0; i + 1 < c->steps; i++)
                p->step[i].sibling = c->step[i]->sibling ? &p->step[i + 1] : NULL;
        p->walks = 0;
        for (int32_t i = 0; i < c->steps && has_kernel;) {
                sf_panels *walk = p->walk[p->walks];
                sf_panels_start(walk, c->isa, &p->step[i]);
                walk->boxes = c->boxes;
                p->first[p->walks++] = i;
                bool together = true;
                while (together && i < c->steps && sf_panels_take(walk, &p->step[i], &has_kernel))
                        together = p->step[i++].sibling;
                if (has_kernel)
                        sf_panels_plan(walk, 1);
                if (has_kernel && p->walks > 1 && i < c->steps && !walk->stream_programs)
                        fetch_results(c, c->step[p->first[p->walks - 1]], walk);
        }
        return has_kernel;
}

/* ---------------------------------------------------------------------------------------------
 * Work
 * ------------------------------------------------------------------------------------------- */

/* The position at which a box begins, in dimensions 0 to `cut`. */
static void find_box(const sf_chain *c, int64_t box, int64_t *at)
{
        at[c->cut] = box % c->parts * c->each;
        box /= c->parts;
        for (int32_t d = c->cut - 1; d >= 0; d--) {
                at[d] = box % c->longest->dims[d].len;
                box /= c->longest->dims[d].len;
        }
}

static int64_t operand_shift(const sf_chain *c, const sf_step *s, int32_t k, const int64_t *at, const char *kept)
{
        int64_t sum = 0;
        if (sf_chain_data(s, k) == sf_chain_kept)
                return (int64_t)((intptr_t)kept - (intptr_t)sf_chain_kept);
        for (int32_t d = 0; d <= c->cut; d++)
                sum += at[d] * sf_chain_stride(s, k, d);
        return sum;
}

/* Finds how far a walk's tensors must be moved for the box at position `at`. */
static void find_shift(const sf_chain *c, const sf_panels *walk, int32_t first, const int64_t *at,
                       const char *kept, sf_shift *shift)
{
        const sf_step *s = c->step[first];
        shift->ahead = 0;
        for (int32_t k = 0; k < sf_chain_operands(s); k++)
                shift->in[k] = operand_shift(c, s, k, at, kept);
        for (int32_t i = 0; i < walk->members; i++) {
                const bool inside = c->step[first + i]->y == sf_chain_kept;
                shift->of[i].y = inside ? (int64_t)((intptr_t)kept - (intptr_t)sf_chain_kept) : 0;
                shift->of[i].m = 0;
                for (int32_t d = 0; d <= c->cut; d++) {
                        shift->of[i].y += inside ? 0 : at[d] * c->step[first + i]->dims[d].y;
                        shift->of[i].m += at[d] * c->step[first + i]->dims[d].m;
                }
        }
}

/* If a walk has a loop that can prefetch: its operand that is the chain's x, which it need not
 * read; else -1. */
static int32_t fetches_from(const sf_chain *c, const sf_panels *walk, const sf_step *s)
{
        const bool maps = walk->shape == SF_PANEL_MAP;
        const bool loads = !walk->straight && (maps || !walk->member[0].reads);
        for (int32_t k = 0; loads && (walk->member[0].load.busy || walk->member[0].load.scale >= 0) && k < sf_chain_operands(s); k++) {
                if (is_first(c, s, k))
                        return k;
        }
        return -1;
}

/*
 * Memory should be busy all the time, not only while the first walk reads it. So walks that compute
 * for long prefetch: the last one the next box, and one before that the lines that results will
 * replace, which a cache reads first. Around the cache nothing is replaced; then the first one that
 * can prefetches the next box. Softmax of f32 takes 0.84 of the time so, on a Cascade Lake.
 */
static void run_box(const sf_chain *c, int64_t box, int64_t next_box, char *scratch)
{
        int64_t at[SF_MAX_NDIM], next[SF_MAX_NDIM];
        const sf_chain_plan *p = c->plan[box % c->parts == c->parts - 1 && c->plan[1]];
        const int32_t last = p->walks - 1;
        const bool around = p->walk[last]->stream_programs;
        bool wants_next = next_box < c->boxes && next_box % c->parts != c->parts - 1;
        bool wants_results = c->apart && !around;
        find_box(c, box, at);
        find_box(c, next_box, next);
        for (int32_t i = 0; i < p->walks; i++) {
                const sf_panels *walk = p->walk[i];
                const sf_step *s = c->step[p->first[i]];
                sf_fused_machine machine;
                sf_shift shift;
                find_shift(c, walk, p->first[i], at, scratch + c->kept, &shift);
                const int32_t x = fetches_from(c, walk, s);
                shift.near = x;
                shift.all = false;
                if (x >= 0 && wants_next && (i == last || around)) {
                        shift.ahead = operand_shift(c, s, x, next, NULL) - shift.in[x];
                        shift.all = true;
                        wants_next = false;
                } else if (x >= 0 && wants_results && (i > 0 || last == 1) && i < last) {
                        shift.ahead = c->apart;
                        wants_results = false;
                }
                if (!walk->straight)
                        sf_fused_machine_make(&machine, walk->isa->map, scratch + c->machine, walk->slots);
                const sf_walker w = {walk, scratch, &machine, &shift};
                for (int64_t task = 0; task < walk->tasks; task++)
                        sf_task_run(&w, task);
        }
}

static void work(void *arg, int worker)
{
        sf_chain *c = arg;
        char *scratch = c->desks.first + (size_t)worker * c->desks.each;
        int64_t turn = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed), next;
        for (; turn * c->per < c->boxes; turn = next) {
                next = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed);
                const int64_t end = sf_smaller((turn + 1) * c->per, c->boxes);
                for (int64_t box = turn * c->per; box < end; box++) {
                        run_box(c, box, box + 1 < end ? box + 1 : next * c->per, scratch);
                        if (c->across)
                                sf_chain_run_across(c, box, scratch);
                }
        }
        c->isa->fence();
}

/* Lays out the constants of all plans, fills them in if there is a base, and finds how much scratch
 * a worker needs. */
static size_t lay_out(void *arg, char *base)
{
        sf_chain *c = arg;
        size_t constants = 0, machines = 0;
        c->machine = 0;
        if (c->across)
                c->across->each = 0;
        for (int32_t k = 0; k < 2 && c->plan[k]; k++)
                constants += sf_panels_room(c->plan[k]->walk, c->plan[k]->walks, base ? base + constants : NULL, &c->machine, &machines);
        sf_across *a = c->across;
        if (a)
                constants += sf_panels_room(&a->walk, 1, base ? base + constants : NULL, &a->each, &machines);
        c->kept = (c->machine + machines + 63) / 64 * 64;
        if (a)
                a->room = (c->kept + c->kept_bytes + 63) / 64 * 64;
        c->desks.each = sf_desk_bytes(a ? a->room + (size_t)a->walk->strips * a->each : c->kept + c->kept_bytes);
        return constants;
}

/* ---------------------------------------------------------------------------------------------
 * The whole
 * ------------------------------------------------------------------------------------------- */
static sf_status run_stage(void *ctx, const sf_step *s)
{
        return sf_cpu_run(ctx, s);
}

static void list_steps(sf_chain *c, const sf_step *first)
{
        c->steps = 0;
        c->longest = first;
        for (const sf_step *stage = first; stage; stage = stage->then)
                for (const sf_step *s = stage; s; s = s->sibling) {
                        c->step[c->steps++] = s;
                        c->longest = s->n > c->longest->n ? s : c->longest;
                }
}

const char *sf_cpu_follows(const sf_step *first)
{
        const int64_t line = first->n * sf_dtypes[first->in].size;
        if (line * first->batch <= box_bytes())
                return NULL; /* all of it fits in one box */
        if (line > LONGEST_LINE)
                return "its lines are longer than what a cache keeps";
        return first->batch > 1 ? NULL : "a single line is shared by all threads, one pass after the other";
}

/* Runs the chain; *across: the folds across its lines too. */
static sf_status run_chain(sf_context *ctx, const sf_step *first, bool *across)
{
        sf_chain c = {.isa = ctx->isa};
        sf_across folds;
        *across = false;
        if (first->segments.offsets)
                return sf_segments_chain(ctx, first);
        list_steps(&c, first);
        sf_chain_find_kept(&c);
        /* cppcheck-suppress uninitvar ; cut_boxes sets it up */
        c.across = first->across ? &folds : NULL;
        const int workers = sf_cpu_workers(ctx, 2 * line_bytes(&c) * c.longest->batch);
        if (!c.longest->n || !cut_boxes(&c, workers))
                return sf_chain_apart(first, run_stage, ctx);
        c.apart = find_apart(&c);
        if (c.fold >= 0)
                sf_chain_keep(&c);
        const int64_t rest = c.longest->dims[c.cut].len - (c.parts - 1) * c.each;
        const int32_t plans = 1 + (rest != c.each);
        const size_t each = (sizeof(sf_chain_plan) + 63) / 64 * 64, panels = (sizeof(sf_panels) + 63) / 64 * 64;
        const size_t all = (size_t)plans * (each + (size_t)c.steps * panels);
        sf_arena *arena = sf_arena_borrow(ctx, all + (c.across ? panels + sf_across_bytes(&folds) : 0));
        if (!arena)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory for the plans of %d steps", (int)c.steps);
        if (c.across && !sf_across_plan(&folds, c.isa, arena->base + all, panels)) {
                c.across = NULL;
                c.per = 1;
        }
        bool planned = true;
        for (int32_t k = 0; k < plans && planned; k++) {
                char *base = arena->base + (size_t)k * (each + (size_t)c.steps * panels);
                c.plan[k] = (sf_chain_plan *)(void *)base;
                for (int32_t i = 0; i < c.steps; i++)
                        c.plan[k]->walk[i] = (sf_panels *)(void *)(base + each + (size_t)i * panels);
                planned = make_plan(&c, k ? rest : c.each, c.plan[k]);
        }
        /* If some step has no kernel, running the stages apart reports which one. */
        const int64_t turns = sf_parts(c.boxes, c.per);
        sf_status status = planned ? sf_desks_run(ctx, (int)sf_smaller(workers, turns), &c.desks, lay_out, NULL, work, &c) : sf_chain_apart(first, run_stage, ctx);
        *across = planned && c.across;
        if (status == SF_OK && *across)
                status = sf_across_finish(ctx, &folds, first->across);
        sf_arena_return(ctx, arena);
        return status;
}

sf_status sf_cpu_chain(sf_context *ctx, const sf_step *first)
{
        bool across;
        SF_TRY(run_chain(ctx, first, &across));
        return first->across && !across ? sf_cpu_run(ctx, first->across) : SF_OK;
}
