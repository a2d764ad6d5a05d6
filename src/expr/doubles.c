/*
 * Two results of one scan. A recurrence's gradients are an example: v = g + scan(...), and v times
 * the states. Both are outputs, so v is written; but it need not be read again.
 */
#include "expr/plan.h"

#include <string.h>

/* How many nodes are visited at most. */
enum { STEPS = 256 };

/* Is `made` among what `id` is computed from in one pass? *elsewhere: it is also used at other
 * positions than those of `id`, or there are too many nodes to tell. */
static bool uses(const sf_planner *p, int32_t id, int32_t made, int32_t *steps, bool *elsewhere)
{
        const sf_ir_node *n = sf_ir_at(p->ir, id);
        bool found = false;
        if (id == made)
                return true;
        if (++*steps > STEPS)
                *elsewhere = true;
        if (*elsewhere || p->cut[id] || (n->kind != SF_IR_MAP && !sf_ir_is_view(n)))
                return false;
        for (int32_t i = 0; i < sf_ir_args(n); i++) {
                const int32_t arg = sf_ir_arg(p->ir, n, i);
                const bool here = uses(p, arg, made, steps, elsewhere);
                if (here && (n->kind != SF_IR_MAP || !sf_ir_same_shape(n, sf_ir_at(p->ir, arg))))
                        *elsewhere = true;
                found |= here;
        }
        return found;
}

/* May work on its result be done in this pass? */
static bool is_scan(const sf_plan *plan, int32_t at)
{
        const sf_pass *pass = plan->pass[at];
        const bool shared = at + 1 < plan->passes && plan->pass[at + 1]->sibling;
        return pass->core && !pass->step.fold && !pass->offsets && !pass->masked && !pass->sibling && !shared;
}

/* The number of b's operand that is operand k of a, or -1. */
static int32_t same_operand(const sf_plan *plan, const sf_pass *a, int32_t k, const sf_pass *b)
{
        int32_t i = 0;
        while (i < b->operands && !sf_plan_same_access(plan, &a->operand[k], &b->operand[i]))
                i++;
        return i < b->operands ? i : -1;
}

bool sf_plan_take_operands(const sf_plan *plan, sf_pass *a, const sf_pass *b)
{
        uint8_t number[SF_OPERANDS_MAX] = {0};
        uint32_t *const reads[2] = {&a->load_reads, &a->store_reads};
        sf_program *const programs[3] = {&a->load, &a->beside, &a->store};
        for (int32_t k = 0; k < a->operands; k++) {
                const int32_t own = same_operand(plan, a, k, b);
                if (own < 0)
                        return false;
                number[k] = (uint8_t)own;
        }
        if (!a->fused && number[0]) { /* without a program it would load operand 0 */
                a->load.code[0] = (sf_instruction){.code = SF_CODE_LOAD, .dt = (uint8_t)a->step.in};
                a->load.count = 1;
                a->load_reads = 1;
        }
        for (int i = 0; i < 3; i++)
                for (int32_t k = 0; k < programs[i]->count; k++)
                        if (programs[i]->code[k].code == SF_CODE_LOAD)
                                programs[i]->code[k].slot = number[programs[i]->code[k].slot];
        for (int i = 0; i < 2; i++) {
                const uint32_t before = *reads[i];
                *reads[i] = 0;
                for (int32_t k = 0; k < a->operands; k++)
                        *reads[i] |= (before >> k & 1) << number[k];
        }
        a->fused = true;
        a->operands = b->operands;
        a->step.in = b->step.in;
        memcpy(a->operand, b->operand, sizeof a->operand);
        return true;
}

/* Compiles `root` as a second result of pass `first`; false: that cannot be done. */
static bool compile_double(sf_planner *p, const sf_pass *first, int32_t root, sf_pass *pass)
{
        const sf_ir_node *n = sf_ir_at(p->ir, root);
        /* In this pass the first result is computed, not read. */
        const bool cut = p->cut[first->root];
        p->cut[first->root] = false;
        const sf_track *track = sf_track_identity(p->ir, n->ndim);
        bool good = !sf_compile_pass(p, root, first->core, track, pass);
        p->cut[first->root] = cut;
        good = good && pass->fused && !pass->masked;
        for (int32_t k = 0; good && k < pass->operands; k++) /* what else it reads is there already */
                good = p->plan->buffer[pass->operand[k].buffer].place == SF_PLACE_INPUT ||
                       same_operand(p->plan, pass, k, first) >= 0;
        return good;
}

/* Does the pass write its results where it computes them? */
static bool writes_in_place(const sf_pass *pass)
{
        bool same = true;
        for (int32_t d = 0; d < pass->ndim; d++) {
                const sf_track *t = &pass->out.track[d];
                same = same && !t->start && t->step == 1 && t->along == d;
        }
        return same;
}

/* Can `root` be elementwise work on the results of pass number `at`, at the same positions? */
static bool is_work_on(const sf_planner *p, int32_t root, int32_t at)
{
        const sf_pass *first = p->plan->pass[at];
        const sf_ir_node *n = sf_ir_at(p->ir, root);
        int32_t steps = 0;
        bool elsewhere = false;
        if (!is_scan(p->plan, at) || p->plan->buffer[first->out.buffer].node != first->root)
                return false;
        if (!sf_ir_same_shape(n, sf_ir_at(p->ir, first->root)) ||
            !sf_ir_same_shape(n, sf_ir_at(p->ir, first->core)) || !writes_in_place(first))
                return false;
        return uses(p, root, first->root, &steps, &elsewhere) && !elsewhere;
}

bool sf_plan_doubles(sf_planner *p, int32_t root, int32_t buffer)
{
        sf_plan *plan = p->plan;
        const sf_ir_node *n = sf_ir_at(p->ir, root);
        if (n->kind != SF_IR_MAP || plan->written || !sf_backend_doubles(plan->device))
                return false;
        for (int32_t i = 0; i < plan->passes; i++) {
                sf_pass *first = plan->pass[i], *pass, beside = *first, *const group = &beside;
                if (!is_work_on(p, root, i))
                        continue;
                pass = sf_ir_alloc(p->ir, sizeof *pass);
                if (!compile_double(p, first, root, pass) ||
                    !sf_plan_take_operands(plan, &beside, pass) ||
                    sf_plan_apart(plan, 1, &group, pass))
                        continue;
                *first = beside;
                pass->out = (sf_access){buffer, sf_track_identity(p->ir, n->ndim)};
                pass->sibling = true;
                sf_plan_push(p, pass);
                sf_pass **behind = plan->pass + i + 1;
                memmove(behind + 1, behind, (size_t)(plan->passes - i - 2) * sizeof *behind);
                *behind = pass;
                p->cut[root] = true;
                return true;
        }
        return false;
}
