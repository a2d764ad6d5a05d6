/*
 * Values that a fold's program computes and a later map's program would compute again: found, and
 * kept in scratch. For chains of whole lines (chain.c) and of segments (segments_chain.c).
 */
#include "cpu/chain.h"

#include <string.h>

static bool same_operand(const sf_step *a, const sf_operand *x, const sf_operand *y)
{
        bool same = x->data == y->data && x->dt == y->dt && x->segment == y->segment;
        for (int32_t d = 0; d < a->nbatch + a->nseq; d++)
                same = same && x->stride[d] == y->stride[d];
        return same;
}

/* Do value i of one load program and value k of the other have the same result? */
static bool same_value(const sf_step *a, int32_t i, const sf_step *b, int32_t k)
{
        const sf_program *p = &a->fuse->load, *q = &b->fuse->load;
        const sf_instruction *x = &p->code[i], *y = &q->code[k];
        if (x->code != y->code || x->dt != y->dt)
                return false;
        if (x->code == SF_CODE_LOAD)
                return same_operand(a, &a->fuse->operand[x->slot], &b->fuse->operand[y->slot]);
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bits are meant: -0.0 is not +0.0, and sf_ir_constant clears bytes that are not used */
        bool same = x->code != SF_CODE_CONSTANT || !memcmp(&p->constant[x->slot], &q->constant[y->slot], sizeof(sf_value));
        for (int32_t e = 0; same && e < sf_code_arguments[x->code]; e++)
                same = same_value(a, x->arg[e], b, y->arg[e]);
        return same;
}

/* Does computing it take longer than writing it to the cache and reading it again? */
static bool is_dear(sf_code code)
{
        return code == SF_CODE_EXP || code == SF_CODE_LOG || code == SF_CODE_SIGMOID || code == SF_CODE_TANH;
}

bool sf_chain_shares(const sf_step *fold, const sf_step *map, int32_t *value)
{
        const sf_program *p = fold->fuse ? &fold->fuse->load : NULL;
        const sf_instruction *last = p && p->count ? &p->code[p->count - 1] : NULL;
        if (!last || !fold->fold || fold->nseq != 1 || !is_dear((sf_code)last->code) || last->dt != fold->acc ||
            sf_op_is(fold->op, SF_PAIR | SF_TWO) || fold->fuse->store_reads)
                return false;
        if (!map->map || !map->fuse || map->n != fold->n || map->nbatch != fold->nbatch || map->nseq != 1 || map->fuse->operands == SF_OPERANDS_MAX)
                return false;
        for (*value = 0; *value < map->fuse->load.count; ++*value)
                if (same_value(fold, p->count - 1, map, *value))
                        return true;
        return false;
}

void sf_chain_read_kept(sf_step *fold, sf_fuse *fold_fuse, sf_fuse *map_fuse, int32_t value, const sf_operand *kept)
{
        fold->in = kept->dt;
        fold->x = kept->data;
        for (int32_t d = 0; d < fold->nbatch + fold->nseq; d++)
                fold->dims[d].x = kept->stride[d];
        fold_fuse->operands = 1;
        fold_fuse->operand[0] = *kept;
        fold_fuse->load.count = fold_fuse->load.constants = 0;
        fold_fuse->load_reads = 1;
        fold->fuse = fold_fuse->store.count ? fold_fuse : NULL;
        map_fuse->load.code[value] = (sf_instruction){.code = SF_CODE_LOAD, .dt = (uint8_t)kept->dt, .slot = (uint8_t)map_fuse->operands};
        map_fuse->operand[map_fuse->operands++] = *kept;
}

void sf_chain_fill_kept(sf_step *fill, sf_fuse *fuse, const sf_operand *kept)
{
        fill->fold = fill->has_initial = fill->within = false;
        fill->map = fill->in_place = true; /* do not write around the cache */
        fill->out = kept->dt;
        fill->y = (char *)kept->data;
        fill->m = NULL;
        fuse->store.count = 0;
        for (int32_t d = 0; d < fill->nbatch + fill->nseq; d++) {
                fill->dims[d].y = kept->stride[d];
                fill->dims[d].m = 0;
        }
}

/* ---------------------------------------------------------------------------------------------
 * In a chain that is cut into boxes
 * ------------------------------------------------------------------------------------------- */

_Alignas(64) char sf_chain_kept[64];

static bool is_alone(const sf_chain *c, int32_t i)
{
        return !c->step[i]->sibling && !(i && c->step[i - 1]->sibling);
}

/* Finds a fold of values that a later map needs too. For rows only: lines are contiguous in
 * scratch. */
void sf_chain_find_kept(sf_chain *c)
{
        c->fold = -1;
        for (int32_t i = 0; i < c->steps && c->steps < SF_CHAIN_STEPS && !sf_chain_in_columns(c); i++)
                for (int32_t k = i + 1; k < c->steps && is_alone(c, i); k++)
                        if (is_alone(c, k) && sf_chain_shares(c->step[i], c->step[k], &c->value)) {
                                c->fold = i;
                                c->map = k;
                                return;
                        }
}

/* Replaces the fold and the map by three steps: a map that fills scratch, a fold of that, and a map
 * that reads it. */
void sf_chain_keep(sf_chain *c)
{
        const sf_step *s = c->step[c->fold], *map = c->step[c->map];
        const sf_dt dt = s->acc;
        sf_operand kept = {.data = sf_chain_kept, .dt = dt};
        int64_t stride = sf_dtypes[dt].size;
        for (int32_t d = s->nbatch; d >= c->cut; d--) {
                kept.stride[d] = stride;
                stride *= d == c->cut ? c->each : s->dims[d].len;
        }
        c->kept_bytes = (size_t)stride;
        for (int32_t i = 0; i < 3; i++) {
                c->own[i] = i < 2 ? *s : *map;
                c->fuse[i] = i < 2 ? *s->fuse : *map->fuse;
                c->own[i].fuse = &c->fuse[i];
        }
        sf_step *fill = &c->own[0], *fold = &c->own[1];
        sf_chain_fill_kept(fill, &c->fuse[0], &kept);
        sf_chain_read_kept(fold, &c->fuse[1], &c->fuse[2], c->value, &kept);
        fill->then = fold->then = NULL;
        c->step[c->map] = &c->own[2];
        for (int32_t i = c->steps++; i > c->fold + 1; i--)
                c->step[i] = c->step[i - 1];
        c->step[c->fold] = fill;
        c->step[c->fold + 1] = fold;
}
