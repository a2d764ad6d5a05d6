/*
 * Folds across the lines of a chain (sf_step.across): the sums down columns that the gradients of a
 * norm's weight and bias are. A worker folds the lines of its boxes while they are in the cache, and
 * resumes with those of the next box. See chain.h.
 */
#include "cpu/chain.h"

/* Where the lines of a box are fewer than a kernel can resume after, so many bytes at most wait for
 * those of the next boxes. */
#define WAITING (8 << 20)
/* So many spans for each worker, so that workers finish at about the same time. */
#define SPANS_EACH 8

/* Is it a fold over this many lines, whose totals can be folded again? Products leave the range of
 * numbers before they are complete. */
static bool is_plain(const sf_step *s, int64_t lines)
{
        const bool reads = s->fuse && s->fuse->store_reads & ((1u << SF_OPERANDS_MAX) - 1);
        const bool plain = s->op == SF_SUM || s->op == SF_MAX || s->op == SF_MIN;
        return s->fold && plain && !s->m && !s->values && !s->lefts && !s->before && !s->after &&
               !s->reverse && !s->segments.offsets && s->nbatch == 1 && s->nseq == 1 && s->n == lines && !reads;
}

/* Is line 0 of the fold line 0 of this step of the chain? Both read some tensor there, in the same
 * direction. */
static bool same_lines(const sf_step *s, const sf_step *t)
{
        for (int32_t k = 0; k < (s->fuse ? s->fuse->operands : 1); k++)
                for (int32_t e = 0; e < (t->fuse ? t->fuse->operands : 1); e++) {
                        const int64_t mine = s->fuse ? s->fuse->operand[k].stride[1] : s->dims[1].x;
                        const int64_t other = t->fuse ? t->fuse->operand[e].stride[0] : t->dims[0].x;
                        if (mine && mine == other && (s->fuse ? s->fuse->operand[k].data : s->x) == (t->fuse ? t->fuse->operand[e].data : t->x))
                                return true;
                }
        return false;
}

static bool reads_lines(const sf_step *s, const sf_step *chain)
{
        for (const sf_step *stage = chain; stage; stage = stage->then)
                for (const sf_step *t = stage; t; t = t->sibling)
                        if (same_lines(s, t))
                                return true;
        return false;
}

bool sf_across_can(sf_across *a, const sf_step *chain, int64_t each, int64_t line_bytes, int workers)
{
        const sf_step *first = chain->across;
        a->lines = chain->batch;
        a->unit = sf_larger(each, SF_CPU_TILE_ROWS);
        a->span = a->unit;
        while (a->span < a->lines && sf_parts(a->lines, a->span) > SPANS_EACH * workers)
                a->span *= 2;
        a->spans = sf_parts(a->lines, a->span);
        a->steps = 0;
        for (const sf_step *s = first; s; s = s->sibling) {
                if (a->steps == SF_PANEL_MEMBERS || !is_plain(s, a->lines) || !reads_lines(s, chain) || s->dims[0].len != first->dims[0].len)
                        return false;
                sf_step *to = &a->step[a->steps];
                sf_fuse *fuse = &a->fuse[a->steps++];
                if (s->fuse)
                        *fuse = *s->fuse;
                else
                        sf_step_plain_fuse(s, fuse);
                fuse->store.count = fuse->store.constants = 0;
                fuse->store_reads = 0;
                *to = *s;
                to->fuse = fuse;
                to->has_initial = false;
                to->out = s->acc;
                to->n = to->dims[1].len = sf_smaller(a->span, a->lines);
                to->dims[0].y = sf_dtypes[s->acc].size;
        }
        for (int32_t i = 0; i < a->steps; i++)
                a->step[i].sibling = i + 1 < a->steps ? &a->step[i + 1] : NULL;
        return a->steps && a->spans >= workers && !(each & (each - 1)) && a->unit * line_bytes <= WAITING;
}

static int64_t row_bytes(const sf_across *a, int32_t i)
{
        return a->step[i].dims[0].len * sf_dtypes[a->step[i].acc].size;
}

static int64_t total_bytes(const sf_across *a, int32_t i)
{
        return (a->spans * row_bytes(a, i) + 63) / 64 * 64;
}

bool sf_across_plan(sf_across *a, const sf_cpu_isa *isa, char *room, size_t bytes)
{
        bool has_kernel = true;
        a->walk = (sf_panels *)(void *)room;
        for (int32_t i = 0; i < a->steps; i++) {
                a->totals[i] = i ? a->totals[i - 1] + total_bytes(a, i - 1) : room + bytes;
                a->step[i].y = a->totals[i];
        }
        sf_panels_start(a->walk, isa, &a->step[0]);
        for (int32_t i = 0; i < a->steps; i++)
                if (!sf_panels_take(a->walk, &a->step[i], &has_kernel))
                        return false;
        sf_panels_plan(a->walk, 1);
        return a->walk->shape == SF_PANEL_COLUMNS && !a->walk->nouter && a->walk->line < 0;
}

size_t sf_across_bytes(const sf_across *a)
{
        size_t bytes = 0;
        for (int32_t i = 0; i < a->steps; i++)
                bytes += (size_t)total_bytes(a, i);
        return bytes;
}

/* Folds the lines from `first` to `end`, which are of one span and begin with a unit. */
static void fold_lines(const sf_across *a, char *scratch, sf_fused_machine *machine, int64_t first, int64_t end)
{
        const sf_panels *p = a->walk;
        const int64_t span = first / a->span, from = span * a->span, cols = sf_panels_length(p, p->col);
        sf_piece piece = {.n = sf_smaller(a->span, a->lines - from), .lines = 1};
        for (int64_t strip = 0; strip < p->strips; strip++) {
                const sf_walker w = {p, scratch + a->room + (size_t)strip * a->each, machine, NULL};
                sf_piece_at(p, 0, 0, strip * p->cols, -1, &piece);
                piece.cols = sf_smaller(p->cols, cols - strip * p->cols);
                for (int32_t k = 0; k < p->member[0].fuse->operands; k++)
                        piece.in[k].at += from * p->member[0].fuse->operand[k].stride[p->seq];
                for (int32_t i = 0; i < p->members; i++)
                        piece.of[i].y = a->totals[i] + span * row_bytes(a, i) + strip * p->cols * sf_dtypes[a->step[i].acc].size;
                sf_panel_walk(&w, &piece, first - from, end - from);
                for (int32_t i = 0; i < p->members && end - from == piece.n; i++) {
                        const sf_block all = sf_panel_block(p, &piece, i, 0, piece.n);
                        if (!p->member[i].writes)
                                sf_panel_store_totals(&w, &all, w.scratch + p->member[i].totals);
                }
        }
}

void sf_chain_run_across(const sf_chain *c, int64_t box, char *scratch)
{
        const sf_across *a = c->across;
        const int64_t from = box * c->each, end = sf_smaller(from + c->each, a->lines);
        sf_fused_machine machine;
        if (end % a->unit && end < a->lines)
                return;
        if (!a->walk->straight)
                sf_fused_machine_make(&machine, c->isa->map, scratch + c->machine, a->walk->slots);
        fold_lines(a, scratch, &machine, (end - 1) / a->unit * a->unit, end);
}

sf_status sf_across_finish(sf_context *ctx, const sf_across *a, const sf_step *s)
{
        for (int32_t i = 0; s; s = s->sibling, i++) {
                sf_step to = *s;
                sf_fuse fuse;
                to.in = s->acc;
                to.x = a->totals[i];
                to.n = to.dims[1].len = a->spans;
                to.dims[0].x = sf_dtypes[s->acc].size;
                to.dims[1].x = row_bytes(a, i);
                to.sibling = NULL;
                to.fuse = NULL;
                if (s->fuse && s->fuse->store.count) {
                        sf_step_plain_fuse(&to, &fuse);
                        fuse.store = s->fuse->store;
                        fuse.store_reads = s->fuse->store_reads;
                        to.fuse = &fuse;
                }
                SF_TRY(sf_cpu_run(ctx, &to));
        }
        return SF_OK;
}
