/* Step to tasks: rows, columns, or one long axis shared by threads; what no kernel reads and writes straight goes to fused.c. */
#include "cpu/cpu.h"

#include "core/arena.h"
#include "core/value.h"
#include "cpu/plan.h"
#include "cpu/pool.h"

#include <inttypes.h>

/* A task is about this large: small enough to balance, large enough that claiming it is nothing. */
#define TASK_BYTES (512 << 10)
/* The counters of a strip of columns should stay in a core's own caches; wide strips are long runs of memory. 8192 x 8191 f32: 12 KiB 0.6 of
 * a copy, 48 KiB 0.7, 128 KiB 0.74, 512 KiB 0.83; aligned rows of f32 gain nothing beyond 128 KiB. */
#define STRIP_BYTES (512 << 10)
#define MOST_COLUMNS 16384
/* Strips are made narrower so that there is one for everyone, but not than this. */
#define LEAST_STRIP 128

/* Vectors of scratch that a row kernel needs: a carry's entry and fill, and the counters. */
#define ROWS_ENTRIES (2 + SF_CPU_FOLD_GROUP * SF_ORDER_LEVELS)
/* Between the entries of a strip's counter, an odd number of cache lines. A power of two apart, they would share a few sets of the first cache, and a
 * load from one may be held up by a store to another. 3 and 7 lines measured alike. */
#define ENTRY_PADDING (7 * 64)

typedef struct crew {
        const sf_cpu_plan *plan;
        int64_t tasks;
        int64_t lines;  /* rows: lines in a task */
        int64_t detour; /* rows: lines whose results are streamed by way of scratch at a time; 0 where they are not */
        int64_t blocks; /* rows: tasks an outer position has */
        int64_t strip;  /* columns: columns in a task */
        int64_t levels; /* columns: entries of a counter */
        char *scratch;
        size_t scratch_each;
        _Atomic int64_t next;
} crew;

static int64_t smaller(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

/* ------------------------------------------------------------------------------------------------------------
 * Tasks
 * ---------------------------------------------------------------------------------------------------------- */
static void run_rows(const crew *c, int64_t task, char *scratch)
{
        const sf_cpu_plan *p = c->plan;
        const sf_step *s = p->step;
        int64_t first = task % c->blocks * c->lines, bytes = p->isa->vector_bytes * p->kernels->parts;
        sf_carry carry;
        sf_walk at;
        sf_walk_start(&at, p->outer_dims, p->nouter, task / c->blocks);
        sf_rows job = {.x = s->x + at.x + first * p->line.x,
                       .y = s->y + at.y + first * p->line.y,
                       .m = s->m ? s->m + at.m + first * p->line.m : NULL,
                       .x_row = p->line.x,
                       .y_row = p->line.y,
                       .m_row = p->line.m,
                       .rows = smaller(c->lines, p->line.len - first),
                       .n = s->n,
                       .exclusive = s->exclusive,
                       .stream = p->stream,
                       .identity = s->identity,
                       .ahead = p->ahead,
                       .lanes = p->lanes,
                       .carry = sf_cpu_carry_make(p, &carry, scratch, p->kernels->width),
                       .counters = scratch + 2 * bytes,
                       .slots = SF_CPU_FOLD_GROUP};
        void (*kernel)(const sf_rows *) = p->shape == SF_CPU_PACKED ? (s->fold ? p->kernels->fold_packed : p->kernels->scan_packed)
                                                                    : (s->fold ? p->kernels->fold_rows : p->kernels->scan_rows);
        if (!c->detour) {
                kernel(&job);
                return;
        }
        /* A line in reverse begins with the highest of its addresses. */
        const int64_t all = job.rows, line = p->line.y, down = p->seq.y < 0 ? (s->n - 1) * -p->seq.y : 0;
        char *y = job.y - down, *lines = scratch + ROWS_ENTRIES * bytes;
        for (int64_t done = 0; done < all; done += c->detour) {
                job.rows = smaller(c->detour, all - done);
                job.y = lines + down;
                kernel(&job);
                p->isa->map->stream(y + done * line, lines, job.rows * line, lines); /* the kernel has fetched what comes next */
                job.x += job.rows * job.x_row;
                job.m = job.m ? job.m + job.rows * job.m_row : NULL;
        }
}

static void run_strip(const crew *c, const sf_walk *at, int64_t first, int64_t cols, bool stream, char *scratch)
{
        const sf_cpu_plan *p = c->plan;
        const sf_step *s = p->step;
        int64_t row_bytes = c->strip * sf_value_bytes(p->kernels) + ENTRY_PADDING;
        sf_carry carry;
        sf_columns job = {.x = s->x + at->x + first * p->size,
                          .y = s->y + at->y + first * p->size,
                          .m = s->m ? s->m + at->m + first : NULL,
                          .x_step = p->seq.x,
                          .y_step = p->seq.y,
                          .m_step = p->seq.m,
                          .cols = cols,
                          .n = s->n,
                          .exclusive = s->exclusive,
                          .stream = stream,
                             .identity = s->identity,
                          .ahead = p->ahead,
                          .carry = sf_cpu_carry_make(p, &carry, scratch, c->strip),
                          .counters = scratch + 2 * row_bytes,
                          .counter_stride = row_bytes};
        (s->fold ? p->kernels->fold_columns : p->kernels->scan_columns)(&job);
}

/* Where every row of y begins at the same place in a cache line, how many columns before the next line begins? NumPy's large arrays begin
 * 16 bytes into one: strips that begin with a line are streamed whole. */
static int64_t columns_before_a_line(const sf_cpu_plan *p, const char *y)
{
        int64_t past = (int64_t)((uintptr_t)y % 64);
        return p->stream && !p->step->fold && past && p->seq.y % 64 == 0 && past % p->size == 0 ? (64 - past) / p->size : 0;
}

static void run_columns(const crew *c, int64_t task, char *scratch)
{
        const sf_cpu_plan *p = c->plan;
        sf_walk at;
        sf_walk_start(&at, p->outer_dims, p->nouter, task / c->blocks);
        int64_t head = columns_before_a_line(p, p->step->y + at.y), number = task % c->blocks;
        int64_t first = number * c->strip + head, end = number + 1 == c->blocks ? p->inner : smaller(first + c->strip, p->inner);
        if (!number && head)
                run_strip(c, &at, 0, smaller(head, p->inner), false, scratch);
        if (first < end)
                run_strip(c, &at, first, end - first, p->stream, scratch);
}

static void work(void *arg, int worker)
{
        crew *c = arg;
        char *scratch = c->scratch + (size_t)worker * c->scratch_each;
        int64_t task;
        while ((task = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < c->tasks) {
                if (c->plan->shape == SF_CPU_COLUMNS)
                        run_columns(c, task, scratch);
                else
                        run_rows(c, task, scratch);
        }
        if (c->detour)
                c->plan->isa->fence();
}

/* ------------------------------------------------------------------------------------------------------------
 * Cutting
 * ---------------------------------------------------------------------------------------------------------- */

/* How many equal tasks `count` things of `bytes` each make, so that workers end at about the same time. */
static int64_t things_per_task(int64_t count, int64_t bytes, int workers, int64_t multiple)
{
        int64_t by_size = TASK_BYTES / (bytes ? bytes : 1), by_share = count / (8 * (int64_t)workers);
        int64_t things = workers == 1 ? by_size : smaller(by_size, by_share);
        things = things / multiple * multiple;
        return things < multiple ? multiple : things;
}

static void cut(crew *c, int workers)
{
        const sf_cpu_plan *p = c->plan;
        const sf_step *s = p->step;
        int64_t vector = p->isa->vector_bytes * p->kernels->parts, lane = sf_value_bytes(p->kernels), line = 64 / p->size;
        if (p->shape == SF_CPU_COLUMNS) {
                /* The counter has an entry a level above the tile, of at least four positions, and one for the closing entry. */
                c->levels = sf_order_log2((uint64_t)(s->n / 4 + 1)) + 2;
                int64_t widest = STRIP_BYTES / (c->levels * lane) / 16 * 16;
                widest = widest < 64 ? 64 : widest > MOST_COLUMNS ? MOST_COLUMNS : widest;
                /* Enough strips for everyone, of whole cache lines and about the same width. */
                int64_t strips = (p->inner + widest - 1) / widest;
                while (p->outer * strips < workers && p->inner / (strips + 1) >= LEAST_STRIP)
                        strips++;
                /* Narrower than that, the one would be a few columns and the other the rest: threads share the columns (chain.c) instead. */
                const int64_t even = (strips + workers - 1) / workers * workers;
                if (p->outer * strips % workers && p->outer * strips < 8 * workers && p->inner / even >= LEAST_STRIP)
                        strips = even;
                c->strip = ((p->inner + strips - 1) / strips + line - 1) / line * line;
                c->blocks = (p->inner + c->strip - 1) / c->strip;
                c->tasks = p->outer * c->blocks;
                c->scratch_each = (size_t)((c->levels + 2) * (c->strip * lane + ENTRY_PADDING));
        } else {
                c->lines = p->shape == SF_CPU_PACKED ? things_per_task(p->line.len, s->n * p->inner * p->size, workers, 64)
                                                     : things_per_task(p->line.len, s->n * p->inner * p->size, workers, SF_CPU_FOLD_GROUP);
                c->blocks = (p->line.len + c->lines - 1) / c->lines;
                c->tasks = p->outer * c->blocks;
                c->scratch_each = (size_t)(ROWS_ENTRIES * vector);
                /* Only of whole sequences: a matrix's columns interleaved are one long line. */
                if (p->detour && p->line.len > 1 && p->line.y == s->n * p->inner * p->size && p->line.y * SF_CPU_GROUP <= SF_CPU_DETOUR)
                        c->detour = SF_CPU_DETOUR / p->line.y / SF_CPU_GROUP * SF_CPU_GROUP;
                c->scratch_each += (size_t)(c->detour * p->line.y);
        }
        /* Workers write their scratch all the time: no two on one line, nor a power of two apart. */
        c->scratch_each = (c->scratch_each + 4095) / 4096 * 4096 + 4096 + 64;
}

/* Would whole sequences leave workers idle while one long one is walked alone? */
static bool shares_one_axis(const crew *c, int workers)
{
        const sf_cpu_plan *p = c->plan;
        const sf_step *s = p->step;
        if (workers == 1 || p->shape == SF_CPU_PACKED)
                return false;
        int64_t parts = p->shape == SF_CPU_COLUMNS ? c->tasks : p->outer * p->line.len;
        int64_t part_bytes = s->n * s->batch / parts * p->size;
        return part_bytes > SF_CPU_WORKER_BYTES && (parts < workers || (parts < 4 * workers && parts % workers));
}

/* ------------------------------------------------------------------------------------------------------------
 * The whole of a step
 * ---------------------------------------------------------------------------------------------------------- */
static void fill_identity(const sf_step *s)
{
        sf_value v = s->has_initial ? sf_combine(s->op, s->acc, s->initial, s->identity) : s->identity;
        sf_walk at;
        sf_walk_start(&at, s->dims, s->nbatch, 0);
        for (int64_t b = 0; b < s->batch; b++, sf_walk_next(&at))
                sf_value_store(s->acc, s->out, v, s->y + at.y);
}

sf_status sf_cpu_run(sf_context *ctx, const sf_step *s)
{
        sf_cpu_plan plan;
        if (s->fuse || s->sibling)
                return sf_cpu_fused_run(ctx, s);
        if (s->n == 0) {
                fill_identity(s);
                return SF_OK;
        }
        sf_cpu_plan_make(&plan, ctx->isa, s);
        if (plan.shape == SF_CPU_STAGED)
                return sf_cpu_fused_run(ctx, s);
        int workers = sf_cpu_workers(ctx, s->n * s->batch * (sf_dtypes[s->in].size + (s->fold ? 0 : sf_dtypes[s->out].size)));
        crew c = {.plan = &plan};
        cut(&c, workers);
        size_t bytes;
        if (shares_one_axis(&c, workers)) {
                if (sf_cpu_chain_run(ctx, &plan, workers))
                        return SF_OK;
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory for the scratch of %d threads sharing one axis", workers);
        }
        if (c.tasks < workers)
                workers = (int)c.tasks;
        bytes = (size_t)workers * c.scratch_each;
        sf_arena *arena = sf_arena_borrow(ctx, bytes);
        if (!arena)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "%zu bytes of scratch could not be had", bytes);
        c.scratch = arena->base;
        sf_pool_run(workers, work, &c);
        sf_arena_return(ctx, arena);
        return SF_OK;
}
