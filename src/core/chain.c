/* Chains: steps over the same lines, one stage after another. See step.h. */
#include "core/step.h"

/* ------------------------------------------------------------------------------------------------------------
 * A map by itself
 * ---------------------------------------------------------------------------------------------------------- */
static int64_t magnitude(int64_t v)
{
        return v < 0 ? -v : v;
}

/* How many bytes one position along dimension d moves, summed over y and all operands. */
static int64_t reach(const sf_step *s, const sf_fuse *f, int32_t d)
{
        int64_t sum = magnitude(s->dims[d].y);
        for (int32_t k = 0; k < f->operands; k++)
                sum += magnitude(f->operand[k].stride[d]);
        return sum;
}

/* Can dimension d be merged into dimension `last`, the innermost one that `made` has so far? */
static bool continues(const sf_step *s, const sf_fuse *f, int32_t d, const sf_step *made, const sf_fuse *g, int32_t last)
{
        const int64_t len = s->dims[d].len;
        bool same = made->dims[last].y == len * s->dims[d].y;
        for (int32_t k = 0; same && k < f->operands; k++)
                same = g->operand[k].stride[last] == len * f->operand[k].stride[d];
        return same;
}

static void place_dim(const sf_step *s, const sf_fuse *f, int32_t d, sf_step *to, sf_fuse *g, int32_t at)
{
        to->dims[at] = s->dims[d];
        to->dims[at].m = 0;
        for (int32_t k = 0; k < f->operands; k++)
                g->operand[k].stride[at] = f->operand[k].stride[d];
}

/* Reverses a dimension whose addresses decrease, so that they increase. */
static void turn(sf_step *to, sf_fuse *g, int32_t d)
{
        sf_dim *dim = &to->dims[d];
        if (dim->y > 0 || (!dim->y && dim->x >= 0))
                return;
        to->x += (dim->len - 1) * dim->x;
        to->y += (dim->len - 1) * dim->y;
        dim->x = -dim->x;
        dim->y = -dim->y;
        for (int32_t k = 0; k < g->operands; k++) {
                g->operand[k].data += (dim->len - 1) * g->operand[k].stride[d];
                g->operand[k].stride[d] = -g->operand[k].stride[d];
        }
}

void sf_step_flatten(const sf_step *map, sf_step *to, sf_fuse *g)
{
        sf_fuse plain;
        const sf_fuse *f = map->fuse;
        int32_t order[SF_MAX_NDIM + 1], count = 0, kept = 0;
        if (!f) {
                sf_step_plain_fuse(map, &plain);
                f = &plain;
        }
        for (int32_t d = 0; d < map->nbatch + map->nseq; d++) {
                int32_t at = count;
                if (map->dims[d].len == 1)
                        continue;
                for (count++; at > 0 && reach(map, f, d) > reach(map, f, order[at - 1]); at--)
                        order[at] = order[at - 1];
                order[at] = d;
        }
        *to = *map;
        *g = *f;
        to->fuse = g;
        to->map = to->within = to->reverse = false;
        to->sibling = to->then = NULL;
        for (int32_t i = 0; i < count; i++) {
                const int32_t d = order[i]; /* cppcheck-suppress uninitvar ; it is set below count */
                const bool joined = kept && continues(map, f, d, to, g, kept - 1);
                const int64_t outside = joined ? to->dims[kept - 1].len : 1;
                kept -= joined;
                place_dim(map, f, d, to, g, kept);
                to->dims[kept++].len *= outside;
        }
        for (int32_t d = 0; d < kept; d++)
                turn(to, g, d);
        to->batch = map->batch * map->n;
        to->n = 1;
        to->nbatch = kept;
        to->nseq = 1;
        to->dims[kept] = (sf_dim){.len = 1};
        for (int32_t k = 0; k < g->operands; k++)
                g->operand[k].stride[kept] = 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * Stage by stage
 * ---------------------------------------------------------------------------------------------------------- */
sf_status sf_chain_apart(const sf_step *stage, sf_run_stage *run, void *with)
{
        for (; stage; stage = stage->then) {
                sf_step step[SF_SIBLINGS_MAX];
                sf_fuse fuse[SF_SIBLINGS_MAX];
                int32_t count = 0;
                for (const sf_step *s = stage; s; s = s->sibling, count++) {
                        if (s->map && !s->segments.offsets) {
                                sf_step_flatten(s, &step[count], &fuse[count]);
                        } else {
                                step[count] = *s;
                                step[count].within = false;
                                step[count].sibling = step[count].then = NULL;
                        }
                        if (count)
                                step[count - 1].sibling = &step[count];
                }
                SF_TRY(run(with, step));
        }
        return SF_OK;
}
