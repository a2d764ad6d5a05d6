/* Chooses how large panels, strips and tasks are: see panel.h. */
#include "cpu/cpus.h"
#include "cpu/panel.h"

/* A call that moves fewer bytes than SHARE_BYTES stays on the caller's thread. It takes a tenth of
 * a millisecond, and a helper thread that loses its CPU just after it has begun can cost several. A
 * worker should have at least WORKER_BYTES. */
#define SHARE_BYTES (1 << 20)
#define WORKER_BYTES (256 << 10)
/* About the size of a task: small enough to balance the load, large enough to make the cost of
 * claiming it negligible. There are TASKS_EACH tasks for each worker, so that workers finish at
 * about the same time. */
#define TASK_BYTES (512 << 10)
#define TASKS_EACH 8
/* Rows that several outer positions read should stay in a second-level cache from one such position
 * to the next. */
#define REUSE_BYTES (512 << 10)
/* The counters of a strip of columns should stay in a core's own caches, but wide strips read
 * longer runs of memory. 8192 x 8191 f32: 12 KiB 0.6 of a copy, 48 KiB 0.7, 128 KiB 0.74, 512 KiB
 * 0.83; aligned rows of f32 gain nothing beyond 128 KiB. */
#define STRIP_BYTES (512 << 10)
#define MOST_COLUMNS 16384
/* With a panel: of so many columns, eight positions are 128 KiB. A kernel cannot resume after
 * fewer. */
#define MOST_PANEL_COLUMNS 4096
/* Strips are made narrower so that there is one for each worker, but not narrower than this: four
 * cache lines of f32. */
#define LEAST_STRIP 64
/* Elements of a panel of columns. Long runs of memory matter more than the first-level cache. */
#define COLUMNS_PANEL 8192
/* Lines of columns that are walked together where they share an operand. */
#define TOGETHER 8
/* Short rows that kernels fold without a panel are taken this many bytes at a time. */
#define DIRECT_BYTES (64 << 10)
/* Packed short sequences are taken this many at a time: whole vectors, whatever their length. */
#define PACKED_LINES 64

/* A map whose load program writes the output itself needs no panel, and cuts its work into blocks
 * itself. It gets this many panels' worth of elements at a time. */
#define MAP_PANELS 4

int sf_cpu_workers(const sf_context *ctx, int64_t bytes)
{
        if (bytes < SHARE_BYTES)
                return 1;
        const int32_t limit = sf_thread_limit();
        const int32_t threads = limit && limit < ctx->threads ? limit : ctx->threads;
        return (int)sf_smaller(threads, bytes / WORKER_BYTES);
}

/* ---------------------------------------------------------------------------------------------
 * Sizes
 * ------------------------------------------------------------------------------------------- */

/* Columns in a strip: as many as the budget for counters allows. Strips have about the same width,
 * in whole cache lines, and if possible their number is a multiple of the number of workers. */
static int64_t strip_width(const sf_panels *p, int workers)
{
        const int64_t cols = sf_panels_length(p, p->col);
        const int64_t counter = (p->levels + p->member[0].step->lefts) * p->value_bytes * p->lines;
        int64_t widest = p->straight ? MOST_COLUMNS : MOST_PANEL_COLUMNS;
        if (sf_smaller(cols, widest) * counter > STRIP_BYTES)
                widest = sf_larger(STRIP_BYTES / counter / 16 * 16, 64);
        int64_t strips = sf_parts(cols, widest);
        if (workers > 1) {
                const int64_t groups = p->member[0].step->batch / cols;
                while (groups * strips < workers && cols / (strips + 1) >= LEAST_STRIP)
                        strips++;
                const int64_t even = sf_parts(strips, workers) * workers;
                if (groups * strips % workers && groups * strips < TASKS_EACH * workers &&
                    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there is a column, and so a strip */
                    cols / even >= LEAST_STRIP)
                        strips = even;
        }
        if (strips == 1)
                return cols;
        const int64_t line = 64 / sf_smaller(p->widest, 4);
        return sf_parts(sf_parts(cols, strips), line) * line;
}

static void size_columns(sf_panels *p, int workers)
{
        const int64_t lines = sf_panels_length(p, p->line);
        /* The counter has one entry for each level above the tile, which has at least four
         * positions, and one for the closing entry. */
        p->levels = sf_order_log2((uint64_t)(p->n / 4 + 1)) + 2;
        p->lines = sf_shape_shares(p, p->line, p->seq) ? sf_smaller(lines, TOGETHER) : 1;
        p->cols = strip_width(p, workers);
        if (!p->straight)
                /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there is a column: a step without elements is never planned */
                p->block = sf_larger(SF_CPU_TILE_ROWS, sf_power_below(COLUMNS_PANEL / p->cols));
}

/* Rows, interleaved or not: chooses the positions of a block and the lines of a piece. */
static void size_rows(sf_panels *p)
{
        p->cols = sf_panels_length(p, p->col);
        p->lines = SF_CPU_GROUP;
        if (p->straight)
                return;
        p->block = sf_power_below(SF_FUSED_BLOCK / p->cols); /* whole tiles of any kernel */
        if (p->shape == SF_PANEL_NARROW)
                return;
        const int64_t fit = SF_PANEL_BYTES / p->widest / p->n / SF_CPU_GROUP * SF_CPU_GROUP;
        if (p->n <= p->block)
                p->lines = sf_larger(SF_CPU_GROUP, fit);
        else if (sf_shape_crossed(p))
                p->lines = 4 * SF_CPU_GROUP; /* neighbours in memory belong to as many lines */
        if (sf_panels_apart(p)) /* each line has a carry of many entries */
                p->lines = sf_smaller(p->lines, 4 * SF_CPU_GROUP);
}

/* Would some workers be idle while others walk one long sequence each? */
static bool is_shared(const sf_panels *p, int workers)
{
        if (workers == 1 || p->shape == SF_PANEL_PACKED || (p->whole && !p->straight))
                return false;
        const int64_t parts = p->outers * sf_panels_length(p, p->line) * p->strips;
        return parts < workers || (parts < 4 * workers && parts % workers);
}

void sf_cut_sizes(sf_panels *p, int workers)
{
        const int64_t lines = sf_panels_length(p, p->line), cols = sf_panels_length(p, p->col);
        p->chunk = 0;
        p->carried = false;
        p->whole = true;
        p->block = p->n;
        if (p->shape == SF_PANEL_MAP) {
                int64_t most = SF_PANEL_BYTES / p->widest;
                if (p->members == 1 && p->member[0].through)
                        most *= MAP_PANELS;
                p->cols = sf_smaller(cols, most);
                p->lines = sf_smaller(lines, sf_larger(1, most / p->cols));
                return;
        }
        if (p->shape == SF_PANEL_COLUMNS)
                size_columns(p, workers);
        else
                size_rows(p);
        p->strips = sf_parts(cols, p->cols);
        if (p->cut) {
                p->block = sf_smaller(p->block, SF_PANEL_CUTS);
                p->whole = false;
                p->lines = p->carries = 1;
                p->entries = 3; /* one of them is a copy of the fill */
                return;
        }
        p->block = sf_smaller(p->block, p->n);
        p->whole = p->n <= p->block;
        /* and room to combine in */
        p->entries = 2 + (p->member[0].step->lefts ? p->member[0].step->lefts + 1 : 0);
        if (!is_shared(p, workers))
                return;
        if (p->shape == SF_PANEL_COLUMNS) { /* wide strips: not every worker needs one */
                p->cols = strip_width(p, 1);
                p->strips = sf_parts(cols, p->cols);
        }
        sf_shared_plan(p, workers);
        if (!p->chunk && p->shape == SF_PANEL_COLUMNS)
                size_columns(p, workers);
}

/* ---------------------------------------------------------------------------------------------
 * Tasks
 * ------------------------------------------------------------------------------------------- */

/* The least number of lines that a piece should have. */
static int64_t lines_together(const sf_panels *p)
{
        const sf_panel_member *m = &p->member[0];
        /* Sums of products use no panel, which would have to stay in a cache. */
        if (!p->straight && p->shape == SF_PANEL_ROWS && m->products && (p->members == 1 || (p->members == 2 && m->pair == 1)))
                return sf_larger(p->lines, 4 * SF_CPU_GROUP);
        bool direct = p->whole && p->shape == SF_PANEL_ROWS;
        for (int32_t i = 0; direct && i < p->members; i++)
                direct = sf_panel_direct(&p->member[i]);
        if (direct && !p->straight)
                return sf_larger(p->lines, DIRECT_BYTES / sf_panels_read(p) / p->n /
                                                   SF_CPU_FOLD_GROUP * SF_CPU_FOLD_GROUP);
        if (!p->straight || p->shape == SF_PANEL_COLUMNS)
                return p->lines;
        if (m->gathers)
                /* of long lines, one group */
                return sf_larger(SF_PANEL_BYTES / (p->n * p->cols * m->size), SF_CPU_GROUP) / SF_CPU_GROUP * SF_CPU_GROUP;
        return p->shape == SF_PANEL_PACKED ? PACKED_LINES : SF_CPU_FOLD_GROUP;
}

/* Lines in a task: limited by their size and by each worker's share. They come in groups of lines
 * that are walked together, unless that would leave workers without a task. */
static int64_t lines_per_task(const sf_panels *p, int workers, int64_t together)
{
        const int64_t lines = sf_panels_length(p, p->line), all = lines * p->strips * p->outers;
        const int64_t positions = sf_smaller(p->n, TASK_BYTES);
        const int64_t line = sf_larger(1, positions * p->cols * sf_panels_bytes(p));
        if (workers == 1 && line * lines <= TASK_BYTES)
                return lines;
        int64_t tile = (p->outer_first ? REUSE_BYTES : TASK_BYTES) / line;
        if (workers > 1)
                tile = sf_smaller(tile, all / (TASKS_EACH * workers));
        if (tile < together) /* as few rounds as possible, all of the same size */
                tile = workers == 1 ? together
                                    : sf_parts(all, workers * sf_parts(all, workers * together));
        else
                tile = tile / together * together;
        return sf_smaller(tile, lines);
}

void sf_cut_tasks(sf_panels *p, int workers)
{
        const int64_t lines = sf_panels_length(p, p->line), cols = sf_panels_length(p, p->col);
        if (p->chunk)
                return;
        if (p->cut) {
                sf_segments_plan(p, workers);
                return;
        }
        p->strips = sf_parts(cols, p->cols);
        /* If a later outer position reads the same rows again, a task has as many rows as a cache
         * keeps. */
        const int32_t near = p->nouter ? p->outer[p->nouter - 1] : -1;
        p->outer_first = p->col < 0 && sf_shape_shares(p, near, p->line);
        const int64_t together = lines_together(p);
        p->tile = lines_per_task(p, workers, together);
        p->tiles = sf_parts(lines, p->tile);
        p->tasks = p->outers * p->strips * p->tiles;
        const bool apart = p->shape != SF_PANEL_MAP && sf_panels_apart(p);
        const bool all = p->straight && p->shape != SF_PANEL_COLUMNS && !p->member[0].gathers && !apart;
        p->lines = all ? p->tile : sf_smaller(together, p->tile);
        p->carries = p->whole && p->shape != SF_PANEL_COLUMNS && !apart ? 1 : p->lines;
}
