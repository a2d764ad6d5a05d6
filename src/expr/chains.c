/*
 * Passes that follow others line by line: a fold, and work on the elements that it came from with
 * its result, as in a softmax or a norm. Such passes become the stages of one chain (core/step.h).
 * A chain takes a few lines through all stages before the next lines, so what is read again is
 * still in a cache. The results are the same as when the passes run one after another.
 */
#include "backend.h"
#include "expr/plan.h"

#include <string.h>

typedef struct chain {
        sf_plan *plan;
        int32_t first, count; /* passes */
        uint64_t axes;
} chain;

/* Operand k of a pass; the number after the last operand is the mask. */
static const sf_access *operand(const sf_pass *pass, int32_t k)
{
        return k < pass->operands ? &pass->operand[k] : &pass->mask;
}

static int32_t stage_size(const sf_plan *plan, int32_t at)
{
        int32_t count = 1;
        while (at + count < plan->passes && plan->pass[at + count]->sibling)
                count++;
        return count;
}

/* Does the tensor's element change along one of the axes? */
static bool moves(const sf_plan *plan, const sf_access *a, uint64_t axes)
{
        const sf_buffer *b = &plan->buffer[a->buffer];
        bool found = false;
        for (int32_t d = 0; d < b->ndim; d++)
                found |= b->shape[d] > 1 && !a->track[d].segment && a->track[d].along >= 0 && axes >> a->track[d].along & 1;
        return found;
}

/* The last pass that writes this buffer, or -1 for an input. */
static int32_t maker_of(const sf_plan *plan, int32_t buffer)
{
        int32_t last = -1;
        for (int32_t i = 0; i < plan->passes; i++)
                last = plan->pass[i]->out.buffer == buffer ? i : last;
        return last;
}

/* Does the pass have one value for each line, computed from results alone? */
static bool is_small(const chain *c, const sf_pass *pass)
{
        bool small = !pass->core;
        for (int32_t d = 0; d < pass->ndim; d++)
                small = small && (!(c->axes >> d & 1) || pass->shape[d] == 1);
        return small;
}

/* Does a line read what the other pass has written for the same line? */
static bool same_line(const chain *c, const sf_access *made, const sf_access *read)
{
        const sf_buffer *b = &c->plan->buffer[made->buffer];
        bool same = !moves(c->plan, read, c->axes);
        for (int32_t d = 0; same && d < b->ndim; d++)
                same = b->shape[d] == 1 || (made->track[d].start == read->track[d].start && made->track[d].step == read->track[d].step &&
                                            made->track[d].along == read->track[d].along);
        return same;
}

/* Is it a result that is checked afterwards, part of a larger one, or a product? Those stay passes
 * of their own. */
static bool is_apart(const sf_plan *plan, const sf_pass *pass)
{
        return pass->again || pass->products || plan->buffer[pass->out.buffer].node != pass->root || !pass->operands;
}

static bool same_lines(const chain *c, const sf_pass *pass)
{
        const sf_pass *lead = c->plan->pass[c->first];
        bool same = pass->ndim == lead->ndim && pass->offsets == lead->offsets && (!pass->core || (pass->axes == c->axes && pass->reverse == lead->reverse));
        const bool small = same && is_small(c, pass);
        for (int32_t d = 0; same && d < pass->ndim; d++)
                same = pass->shape[d] == lead->shape[d] || (small && c->axes >> d & 1);
        return same;
}

/* May the pass run after the chain, considering what it reads? *follows: it reads one of the
 * chain's results. *shares: it reads a tensor that the chain has read. */
static bool can_read(const chain *c, const sf_pass *pass, bool *follows, bool *shares)
{
        const sf_plan *plan = c->plan;
        for (int32_t k = 0; k < pass->operands + pass->masked; k++) {
                const sf_access *a = operand(pass, k);
                const int32_t maker = maker_of(plan, a->buffer);
                if (maker >= c->first + c->count)
                        return false;
                if (maker >= c->first) {
                        const sf_pass *from = plan->pass[maker];
                        if (k == pass->operands || (!from->step.fold && !is_small(c, from)) || !same_line(c, &from->out, a))
                                return false;
                        *follows = true;
                        continue;
                }
                for (int32_t i = c->first; i < c->first + c->count && moves(plan, a, c->axes); i++)
                        for (int32_t o = 0; o < plan->pass[i]->operands; o++)
                                *shares |= sf_plan_same_access(plan, &plan->pass[i]->operand[o], a);
        }
        return true;
}

/* Asks the backend about the chain and a stage that is to follow it. */
static const char *ask(const chain *c, int32_t at, int32_t size)
{
        const sf_plan *plan = c->plan;
        const int32_t count = c->count + size;
        sf_step *step = sf_ir_alloc(&c->plan->ir, (size_t)count * sizeof *step);
        sf_fuse *fuse = sf_ir_alloc(&c->plan->ir, (size_t)count * sizeof *fuse);
        sf_step *stage = step;
        memset(fuse, 0, (size_t)count * sizeof *fuse);
        for (int32_t i = 0; i < count; i++) {
                const int32_t number = i < c->count ? c->first + i : at + i - c->count;
                const sf_pass *p = plan->pass[number];
                const bool begins = i == c->count || (i < c->count && p->follows);
                step[i] = p->step;
                step[i].map = !p->core;
                step[i].n = step[i].batch = 1;
                for (int32_t d = 0; d < p->ndim; d++)
                        *(c->axes >> d & 1 ? &step[i].n : &step[i].batch) *= p->shape[d];
                step[i].sibling = step[i].then = NULL;
                if (i && !begins)
                        step[i - 1].sibling = &step[i];
                if (i && begins) {
                        stage->then = &step[i];
                        stage = &step[i];
                }
                if (!p->fused)
                        continue;
                sf_pass_programs(p, &fuse[i]);
                fuse[i].operands = p->operands;
                for (int32_t k = 0; k < p->operands; k++) {
                        const int32_t maker = maker_of(plan, p->operand[k].buffer);
                        fuse[i].operand[k].dt = plan->buffer[p->operand[k].buffer].dt;
                        fuse[i].operand[k].made = maker >= c->first && maker < c->first + c->count ? maker - c->first + 1 : 0;
                }
                step[i].fuse = &fuse[i];
        }
        return sf_backend_follows(plan->device, step);
}

/* Does the stage read the chain's results for the same lines, and again a tensor that the chain has
 * read? And does the backend gain from that? */
static bool can_follow(const chain *c, int32_t at, int32_t size)
{
        const sf_plan *plan = c->plan;
        bool follows = false, shares = false, small = true, can = c->count + size <= SF_CHAIN_STEPS;
        for (int32_t i = at; can && i < at + size; i++) {
                const sf_pass *pass = plan->pass[i];
                can = !is_apart(plan, pass) && same_lines(c, pass) && can_read(c, pass, &follows, &shares);
                small = small && is_small(c, pass);
        }
        if (!can || !follows || !(shares || small))
                return false;
        if (plan->pass[c->first]->offsets && sf_on_host(plan->device))
                return true;
        const char *why = ask(c, at, size);
        if (why && shares)
                sf_plan_remark_again(c->plan, plan->pass[at]->root, why);
        return !why;
}

/* Moves a stage up so that it follows the chain. The passes between do not read its results: those
 * that do come later. */
static void append(chain *c, int32_t at, int32_t size)
{
        sf_pass **pass = c->plan->pass, *stage[SF_SIBLINGS_MAX];
        const int32_t to = c->first + c->count;
        memcpy(stage, pass + at, (size_t)size * sizeof *stage);
        memmove(pass + to + size, pass + to, (size_t)(at - to) * sizeof *pass);
        memcpy(pass + to, stage, (size_t)size * sizeof *stage);
        pass[to]->follows = true;
        c->count += size;
}

/* Does a pass outside the chain read what this one writes, or is it an output? */
static bool is_wanted(const chain *c, const sf_pass *pass)
{
        const sf_plan *plan = c->plan;
        bool wanted = plan->buffer[pass->out.buffer].place != SF_PLACE_SCRATCH;
        for (int32_t i = 0; i < plan->passes && !wanted; i++) {
                const sf_pass *other = plan->pass[i];
                const bool outside = i < c->first || i >= c->first + c->count;
                for (int32_t k = 0; k < other->operands + other->masked; k++)
                        wanted |= outside && operand(other, k)->buffer == pass->out.buffer;
                for (int32_t k = 0; other->again && k < other->again->steps.inputs; k++)
                        wanted |= other->again->leaf[k] == pass->out.buffer;
        }
        return wanted;
}

static void finish(const chain *c)
{
        sf_plan *plan = c->plan;
        const sf_pass *lead = plan->pass[c->first];
        for (int32_t i = c->first; i < c->first + c->count; i++) {
                sf_pass *pass = plan->pass[i];
                pass->step.map = !pass->core;
                pass->step.within = !is_wanted(c, pass);
                pass->axes = c->axes;
                pass->reverse = lead->reverse;
                for (int32_t k = 0; k < pass->operands; k++) {
                        const int32_t maker = maker_of(plan, pass->operand[k].buffer);
                        pass->made[k] = maker >= c->first ? maker - c->first + 1 : 0;
                }
        }
}

/* Makes the chain that begins with this stage, if its passes are folds. Returns the number of
 * passes that run together. */
static int32_t make_chain(sf_plan *plan, int32_t first)
{
        chain c = {plan, first, stage_size(plan, first), plan->pass[first]->axes};
        int32_t useful = c.count; /* passes up to the last stage that reads a tensor again */
        for (int32_t i = first; i < first + c.count; i++)
                if (!plan->pass[i]->step.fold || is_apart(plan, plan->pass[i]))
                        return c.count;
        if (sf_ir_length(sf_ir_at(&plan->ir, sf_ir_arg(&plan->ir, sf_ir_at(&plan->ir, plan->pass[first]->core), 0)), c.axes) < 2)
                return c.count;
        for (int32_t at = first + c.count, size; at < plan->passes; at += size) {
                size = stage_size(plan, at);
                if (!can_follow(&c, at, size))
                        continue;
                append(&c, at, size);
                useful = is_small(&c, plan->pass[first + c.count - size]) ? useful : c.count;
        }
        for (int32_t i = first + useful; i < first + c.count; i++)
                plan->pass[i]->follows = false;
        const bool alone = useful == stage_size(plan, first);
        c.count = useful;
        if (!alone)
                finish(&c);
        return c.count;
}

/* Is it a fold across the chain's lines, along all their other axes? */
static bool is_across(const chain *c, const sf_pass *pass)
{
        const sf_pass *lead = c->plan->pass[c->first];
        bool across = pass->step.fold && !pass->reverse && !pass->masked && !pass->offsets &&
                      !lead->offsets && !is_apart(c->plan, pass) && pass->ndim == lead->ndim;
        for (int32_t d = 0; across && d < pass->ndim; d++)
                across = pass->shape[d] == lead->shape[d] &&
                         (pass->shape[d] == 1 || (pass->axes >> d & 1) != (c->axes >> d & 1));
        return across;
}

/* Finds folds that read again what the chain has read, line by line, but across its lines, and makes
 * them follow it. Returns their number. */
static int32_t cross(chain *c)
{
        const sf_plan *plan = c->plan;
        const int32_t most = sf_backend_crosses(plan->device) - c->count;
        for (int32_t at = c->first + c->count, size; at < plan->passes; at += size) {
                size = stage_size(plan, at);
                bool can = size <= most && c->count + size <= SF_CHAIN_STEPS;
                bool follows = false, shares = false;
                for (int32_t i = at; can && i < at + size; i++)
                        can = is_across(c, plan->pass[i]) &&
                              can_read(c, plan->pass[i], &follows, &shares);
                if (!can || !shares)
                        continue;
                append(c, at, size);
                sf_pass *first = plan->pass[c->first + c->count - size];
                first->follows = false;
                first->across = true;
                return size;
        }
        return 0;
}

void sf_plan_chains(sf_plan *plan)
{
        for (int32_t i = 0, count; i < plan->passes; i += count) {
                count = make_chain(plan, i);
                chain c = {plan, i, count, plan->pass[i]->axes};
                if (count > stage_size(plan, i))
                        count += cross(&c);
        }
}

int32_t sf_plan_together(const sf_plan *plan, int32_t at)
{
        int32_t count = 1;
        while (at + count < plan->passes && sf_pass_joins(plan->pass[at + count]))
                count++;
        return count;
}
