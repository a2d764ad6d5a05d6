/*
 * chain.h: what the files of chains share: chain.c, which cuts them into boxes and runs these, kept.c and
 * across.c. segments_chain.c has chains over segments.
 */
#ifndef SF_CPU_CHAIN_H
#define SF_CPU_CHAIN_H

#include "cpu/cpu.h"
#include "cpu/panel.h"
#include "cpu/pool.h"

/* ---------------------------------------------------------------------------------------------
 * across.c: folds across the lines of a chain, while these are in the cache
 * ------------------------------------------------------------------------------------------- */

/* Lines are shared by spans, each a power of two of them, so that its totals are those of subtrees.
 * They are left in memory, and folded when all spans are done. */
typedef struct sf_across {
        int32_t steps;
        sf_step step[SF_PANEL_MEMBERS]; /* over one span; their results are its totals */
        sf_fuse fuse[SF_PANEL_MEMBERS];
        sf_panels *walk;
        int64_t lines, span, spans; /* of all, of a span, and how many */
        int64_t unit;               /* lines that are folded at once */
        char *totals[SF_PANEL_MEMBERS];
        size_t room, each; /* offset in a worker's scratch; bytes for each strip of columns */
} sf_across;

/* Can the folds be computed with a chain over these lines, whose boxes have `each` of them and come
 * one after another? Then plans them; a->walk and the totals' memory are set later. */
bool sf_across_can(sf_across *a, const sf_step *chain, int64_t each, int64_t line_bytes, int workers);
/* `room`: memory for the plan and, `bytes` further on, sf_across_bytes of memory for all totals. */
bool sf_across_plan(sf_across *a, const sf_cpu_isa *isa, char *room, size_t bytes);
size_t sf_across_bytes(const sf_across *a);
/* Folds the totals of all spans to the results. */
sf_status sf_across_finish(sf_context *ctx, const sf_across *a, const sf_step *across);

/* ---------------------------------------------------------------------------------------------
 * chain.c: a chain that is cut into boxes
 * ------------------------------------------------------------------------------------------- */

/* The stages, planned for boxes of one size. */
typedef struct sf_chain_plan {
        int32_t walks;
        sf_panels *walk[SF_CHAIN_STEPS];
        int32_t first[SF_CHAIN_STEPS]; /* each walk's first step */
        sf_step step[SF_CHAIN_STEPS];
        sf_fuse fuse[SF_CHAIN_STEPS];
} sf_chain_plan;

typedef struct sf_chain {
        const sf_cpu_isa *isa;
        int32_t steps;
        const sf_step *step[SF_CHAIN_STEPS];
        const sf_step *longest;
        /* A box: `each` positions of dimension `cut`, all positions of the dimensions inside it,
         * and one position of those outside it. */
        int32_t cut;
        int64_t each, parts, boxes;
        /* Values that a fold's program computes and a later map's program would compute again are
         * kept in scratch, for the lines of a box. Then there are three steps instead of two. */
        int32_t fold, map;  /* the indices of those two steps; without them fold is -1 */
        int32_t value;      /* the index of the value in the map's program */
        sf_step own[3];
        sf_fuse fuse[3];
        size_t kept, kept_bytes; /* offset in a worker's scratch, and size */
        /* If the last step is a map whose results are laid out as the chain's x, each is so many
         * bytes from its element; else 0. */
        int64_t apart;
        sf_chain_plan *plan[2]; /* for boxes, and for the last box of a dimension if it is smaller */
        /* Folds across the lines, if they are computed too; NULL: they are not. A worker takes `per`
         * boxes in turn: a span of them. */
        sf_across *across;
        int64_t per;
        sf_desks desks;
        size_t machine; /* offset in a worker's scratch */
        _Atomic int64_t next;
} sf_chain;

static inline const char *sf_chain_data(const sf_step *s, int32_t k)
{
        return s->fuse ? s->fuse->operand[k].data : s->x;
}

static inline int64_t sf_chain_stride(const sf_step *s, int32_t k, int32_t d)
{
        return s->fuse ? s->fuse->operand[k].stride[d] : s->dims[d].x;
}

static inline int32_t sf_chain_operands(const sf_step *s)
{
        return s->fuse ? s->fuse->operands : 1;
}

/* Do neighbours in memory belong to different lines? */
static inline bool sf_chain_in_columns(const sf_chain *c)
{
        const sf_step *s = c->longest;
        const int64_t seq = sf_magnitude(s->dims[s->nbatch + s->nseq - 1].x);
        return s->nbatch && sf_magnitude(s->dims[s->nbatch - 1].x) < seq;
}

/* In across.c: the folds across the lines go on with those of a box, or wait until there are enough of
 * them. */
void sf_chain_run_across(const sf_chain *c, int64_t box, char *scratch);

/* ---------------------------------------------------------------------------------------------
 * kept.c: values that a fold computes and a later map would compute again
 * ------------------------------------------------------------------------------------------- */

/* Does the map compute, as *value of its program, the same elements that the fold folds, and is it
 * worth keeping them? */
bool sf_chain_shares(const sf_step *fold, const sf_step *map, int32_t *value);
/* Keep the fold's elements. The first makes of a copy of the fold a map that fills them; the second
 * makes the fold and the map's program read them. */
void sf_chain_fill_kept(sf_step *fill, sf_fuse *fuse, const sf_operand *kept);
void sf_chain_read_kept(sf_step *fold, sf_fuse *fold_fuse, sf_fuse *map_fuse, int32_t value, const sf_operand *kept);
/* In a chain that is cut into boxes: finds such a fold, c->fold; and replaces it and the map by three steps. */
void sf_chain_find_kept(sf_chain *c);
void sf_chain_keep(sf_chain *c);
/* Its address stands for the scratch of the worker that runs the step. */
extern char sf_chain_kept[64];

#endif
