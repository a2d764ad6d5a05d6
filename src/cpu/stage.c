/*
 * Any other geometry: strides that no kernel reads, element types that need converting, sequences over several axes. A panel of
 * sequences is gathered block by block into contiguous rows in cache, computed there by the row kernels, and scattered.
 */
#include "cpu/plan.h"

#include <string.h>

#define PANEL 16           /* sequences: a cache line of 4-byte elements, so that a gather across them wastes none */
#define BLOCK_BYTES (4096) /* of one sequence */

typedef struct stage {
        const sf_cpu_plan *plan;
        sf_move *in, *out, *mask;
        int64_t block; /* positions */
        char *rows;    /* PANEL x block elements of storage */
        uint8_t *masks;
        char *totals;  /* PANEL elements of storage */
        char *counters;
        sf_carry carry[PANEL]; /* a fill of its own for every sequence */
        const sf_carry *carried;
} stage;

/* A power of two, so that it is whole tiles of any kernel. */
static int64_t block_of(const sf_cpu_plan *p)
{
        int64_t block = BLOCK_BYTES / p->size, tile = SF_CPU_TILE_VECTORS * p->kernels->width;
        return block < tile ? tile : block;
}

static size_t carries_bytes(const sf_cpu_plan *p)
{
        return (size_t)(PANEL * 2 * p->isa->vector_bytes);
}

size_t sf_cpu_stage_scratch(const sf_cpu_plan *p)
{
        size_t counters = (size_t)(PANEL * SF_ORDER_LEVELS * p->isa->vector_bytes);
        return (size_t)(PANEL * (block_of(p) + 1) * (p->size + 1)) + counters + carries_bytes(p) + 4 * 64;
}

int64_t sf_cpu_stage_count(const sf_cpu_plan *p)
{
        return p->outer * ((p->line.len + PANEL - 1) / PANEL);
}

static int64_t magnitude(int64_t v)
{
        return v < 0 ? -v : v;
}

/* Moves `rows` x `count` elements between strided memory and rows of a block, along whichever side steps less. */
static void move_in(sf_move *move, const char *src, int64_t row_stride, int64_t stride, char *dst, int64_t pitch, int64_t size, int64_t rows,
                    int64_t count)
{
        if (magnitude(stride) <= magnitude(row_stride) || rows == 1)
                for (int64_t r = 0; r < rows; r++)
                        move(src + r * row_stride, stride, dst + r * pitch, size, count);
        else
                for (int64_t i = 0; i < count; i++)
                        move(src + i * stride, row_stride, dst + i * size, pitch, rows);
}

static void move_out(sf_move *move, const char *src, int64_t pitch, int64_t size, char *dst, int64_t row_stride, int64_t stride, int64_t rows,
                     int64_t count)
{
        if (magnitude(stride) <= magnitude(row_stride) || rows == 1)
                for (int64_t r = 0; r < rows; r++)
                        move(src + r * pitch, size, dst + r * row_stride, stride, count);
        else
                for (int64_t i = 0; i < count; i++)
                        move(src + i * size, pitch, dst + i * stride, row_stride, rows);
}

/* Gathers `count` positions from number `first` on: runs along the innermost axis of the sequence. */
static void gather(const stage *g, const char *x, const uint8_t *m, int64_t first, int64_t count, int64_t rows)
{
        const sf_cpu_plan *p = g->plan;
        const sf_step *s = p->step;
        const sf_dim *seq = s->dims + s->nbatch, *last = seq + s->nseq - 1;
        const int64_t pitch = g->block * p->size;
        sf_walk at;
        sf_walk_start(&at, seq, s->nseq, first);
        for (int64_t done = 0; done < count;) {
                int64_t left = last->len - at.at[s->nseq - 1], run = count - done < left ? count - done : left;
                move_in(g->in, x + at.x, p->line.x, last->x, g->rows + done * p->size, pitch, p->size, rows, run);
                if (m)
                        move_in(g->mask, (const char *)m + at.m, p->line.m, last->m, (char *)g->masks + done, g->block, 1, rows, run);
                done += run;
                sf_walk_start(&at, seq, s->nseq, first + done < s->n ? first + done : 0);
        }
}

static void run_panel(stage *g, const char *x, char *y, const uint8_t *m, int64_t rows)
{
        const sf_cpu_plan *p = g->plan;
        const sf_step *s = p->step;
        const int64_t pitch = g->block * p->size, vector = p->isa->vector_bytes;
        for (int64_t first = 0; first < s->n; first += g->block) {
                int64_t count = s->n - first < g->block ? s->n - first : g->block;
                bool more = first + count < s->n;
                gather(g, x, m, first, count, rows);
                for (int64_t r = 0; r < rows; r += SF_CPU_GROUP) {
                        sf_rows job = {.x = g->rows + r * pitch,
                                       .y = s->fold ? g->totals + r * p->size : g->rows + r * pitch,
                                       .m = m ? g->masks + r * g->block : NULL,
                                       .x_row = pitch,
                                       .y_row = s->fold ? p->size : pitch,
                                       .m_row = g->block,
                                       .rows = rows - r < SF_CPU_GROUP ? rows - r : SF_CPU_GROUP,
                                       .n = count,
                                       .start = first,
                                       .resume = more,
                                       .exclusive = s->exclusive,
                                       .op = s->op,
                                       .identity = s->identity,
                                       .ahead = p->ahead,
                                       .lanes = p->lanes,
                                       .carry = g->carried ? g->carried + r : NULL,
                                       .carry_row = 1,
                                       .counters = g->counters + r * SF_ORDER_LEVELS * vector};
                        (s->fold ? p->kernels->fold_rows : p->kernels->scan_rows)(&job);
                }
                if (!s->fold)
                        move_out(g->out, g->rows, pitch, p->size, y + first * p->seq.y, p->line.y, p->seq.y, rows, count);
        }
        if (s->fold)
                g->out(g->totals, p->size, y, p->line.y, rows);
}

void sf_cpu_stage_panels(const sf_cpu_plan *p, int64_t first, int64_t last, char *scratch)
{
        const sf_step *s = p->step;
        stage g = {.plan = p, .in = p->isa->mover(s->in, p->storage), .out = p->isa->mover(p->storage, s->out),
                   .mask = p->isa->mover(SF_DT_U8, SF_DT_U8), .block = block_of(p)};
        const int64_t panels = (p->line.len + PANEL - 1) / PANEL, vector = p->isa->vector_bytes;
        g.counters = scratch;
        char *carries = g.counters + PANEL * SF_ORDER_LEVELS * vector;
        g.rows = carries + carries_bytes(p);
        g.totals = g.rows + PANEL * g.block * p->size;
        g.masks = (uint8_t *)g.totals + PANEL * p->size;
        for (int64_t panel = first; panel < last; panel++) {
                int64_t line = panel % panels * PANEL, rows = p->line.len - line < PANEL ? p->line.len - line : PANEL;
                sf_walk at;
                sf_walk_start(&at, p->outer_dims, p->nouter, panel / panels);
                g.carried = NULL;
                for (int64_t r = 0; r < rows; r++)
                        g.carried = sf_cpu_carry_make(p, &g.carry[r], carries + r * 2 * vector, p->kernels->width) ? g.carry : NULL;
                run_panel(&g, s->x + at.x + line * p->line.x, s->y + at.y + line * p->line.y,
                          s->m ? s->m + at.m + line * p->line.m : NULL, rows);
        }
}
