/* Why there is more than one pass: the remarks that `explain` shows under "not fused". */
#include "expr/plan.h"

#include <string.h>

void sf_plan_remark(sf_plan *plan, int32_t node, const char *why)
{
        if (plan->remarks == plan->room_remarks) {
                int32_t room = plan->room_remarks ? plan->room_remarks * 2 : 8;
                sf_remark *grown = sf_ir_alloc(&plan->ir, (size_t)room * sizeof *grown);
                if (plan->remarks)
                        memcpy(grown, plan->remark, (size_t)plan->remarks * sizeof *grown);
                plan->remark = grown;
                plan->room_remarks = room;
        }
        plan->remark[plan->remarks++] = (sf_remark){node, why};
}

/* Operand k of a pass; the number after the last operand is the mask. */
static const sf_access *operand(const sf_pass *pass, int32_t k)
{
        return k < pass->operands ? &pass->operand[k] : &pass->mask;
}

/* Is operand k read by the load of a scan or fold, or is it the mask? */
static bool on_the_way_in(const sf_pass *pass, int32_t k)
{
        return pass->core && (k == pass->operands || (pass->load_reads >> k & 1));
}

/* Is one element of operand k used at many positions: of those that the pass reads, or, in a store,
 * of its results? */
static bool repeats(const sf_plan *plan, const sf_pass *pass, int32_t k)
{
        const uint64_t folded = pass->step.fold && !on_the_way_in(pass, k) ? pass->axes : 0;
        double positions = 1;
        for (int32_t d = 0; d < pass->ndim; d++)
                positions *= folded >> d & 1 ? 1 : (double)pass->shape[d];
        return sf_access_extent(plan, pass, operand(pass, k)) < positions;
}

/* Is this pass computed in one read with another? */
static bool is_shared(const sf_plan *plan, const sf_pass *pass)
{
        for (int32_t i = 0; i + 1 < plan->passes; i++)
                if (plan->pass[i + 1]->sibling && (plan->pass[i] == pass || plan->pass[i + 1] == pass))
                        return true;
        return false;
}

/* Operand k is the result of another pass. Why is it not computed in this one? */
static const char *why_made_before(const sf_plan *plan, const sf_pass *maker, const sf_pass *pass, int32_t k)
{
        if (repeats(plan, pass, k))
                return "each of its values is needed for many elements, so it is complete before the pass over them begins";
        if (on_the_way_in(pass, k) && maker->axes != pass->axes)
                return "its result is scanned or folded along other axes, and one pass goes along one set of axes";
        if (on_the_way_in(pass, k))
                return "its result is scanned or folded again, and one pass has one scan or fold";
        if (pass->core)
                return "its result meets that of another scan or fold, and one pass has one scan or fold";
        if (is_shared(plan, maker))
                return "it is made in one read with another fold, and what they meet in is a pass over their results";
        if (sf_ir_at(&plan->ir, maker->root)->uses > 1)
                return "it is needed more than once, so it is computed once and read";
        return "what follows takes its elements at other positions, so it is written first";
}

/* Adds a remark on every result that a pass reads and that has no remark yet: `told` marks those
 * that have one. */
static void remark_made_before(sf_plan *plan)
{
        size_t nodes = (size_t)plan->ir.nodes + 1, room = (size_t)plan->buffers * sizeof(sf_pass *);
        bool *told = memset(sf_ir_alloc(&plan->ir, nodes), 0, nodes);
        const sf_pass **maker = memset(sf_ir_alloc(&plan->ir, room), 0, room);
        for (int32_t i = 0; i < plan->remarks; i++)
                told[plan->remark[i].node] = true;
        for (int32_t i = 0; i < plan->passes; i++) {
                const sf_pass *pass = plan->pass[i];
                for (int32_t k = 0; k < pass->operands + pass->masked; k++) {
                        int32_t from = operand(pass, k)->buffer, node = plan->buffer[from].node;
                        if (!maker[from] || told[node] || (k < pass->operands && pass->made[k]))
                                continue;
                        told[node] = true;
                        sf_plan_remark(plan, node, why_made_before(plan, maker[from], pass, k));
                }
                maker[pass->out.buffer] = pass;
        }
}

/* The number of passes, from number `at` on, that share one read. */
static int32_t group_of(const sf_plan *plan, int32_t at)
{
        int32_t count = 1;
        while (at + count < plan->passes && plan->pass[at + count]->sibling)
                count++;
        return count;
}

/* Two passes do not read exactly the same tensors. Is there one that both read completely, at the
 * same positions or at others? Then: why it is read twice. */
static const char *why_not_shared(const sf_plan *plan, const sf_pass *a, const sf_pass *b)
{
        const char *why = NULL;
        bool alike = a->ndim == b->ndim;
        for (int32_t d = 0; d < a->ndim && alike; d++)
                alike = a->shape[d] == b->shape[d];
        for (int32_t i = 0; i < a->operands; i++)
                for (int32_t j = 0; j < b->operands; j++) {
                        if (a->operand[i].buffer != b->operand[j].buffer || repeats(plan, a, i) || repeats(plan, b, j))
                                continue;
                        if (alike && sf_plan_same_access(plan, &a->operand[i], &b->operand[j]))
                                return "a read is shared where all tensors are the same, or all of a "
                                       "fold's are among another fold's";
                        why = "that one takes its elements at other positions";
                }
        return why;
}

/* Why does `pass` not share the read of group `at`? NULL if that group does not read what it reads,
 * or if nobody would expect them to share it. */
static const char *why_read_again(const sf_plan *plan, int32_t at, const sf_pass *pass)
{
        const sf_pass *first = plan->pass[at];
        const int32_t count = group_of(plan, at);
        if (first->out.buffer == pass->out.buffer)
                return NULL; /* parts of one concatenation, which has a remark of its own */
        if (!sf_plan_same_tensors(plan, first, pass))
                return why_not_shared(plan, first, pass);
        if (!first->core != !pass->core)
                return "one of the two is elementwise, the other a scan or fold";
        if (first->axes != pass->axes)
                return "that one goes along other axes";
        if (first->reverse != pass->reverse)
                return "that one goes in another direction";
        if (count == SF_SIBLINGS_MAX)
                return "four results share one at most";
        return sf_plan_apart(plan, count, plan->pass + at, pass);
}

/* Must another pass end before this one can read its first element? Then nobody expects the two to
 * share a read. */
static bool waits(const sf_plan *plan, const sf_pass *pass)
{
        bool must = false;
        for (int32_t k = 0; k < pass->operands + pass->masked; k++)
                must |= plan->buffer[operand(pass, k)->buffer].place != SF_PLACE_INPUT && (on_the_way_in(pass, k) || repeats(plan, pass, k));
        return must;
}

static const char *reads_again(sf_plan *plan, const char *why)
{
        static const char what[] = "reads again what another pass reads: ";
        const size_t length = sizeof what - 1, room = strlen(why) + 1;
        char *sentence = sf_ir_alloc(&plan->ir, length + room);
        memcpy(sentence, what, length);
        memcpy(sentence + length, why, room);
        return sentence;
}

void sf_plan_remark_again(sf_plan *plan, int32_t node, const char *why)
{
        for (int32_t i = 0; i < plan->remarks; i++)
                if (plan->remark[i].node == node)
                        return;
        sf_plan_remark(plan, node, reads_again(plan, why));
}

/* Adds a remark on reads that could have been shared, but were not. */
static void remark_apart(sf_plan *plan)
{
        for (int32_t j = 1; j < plan->passes; j++) {
                const sf_pass *pass = plan->pass[j];
                const char *why = NULL;
                const bool late = waits(plan, pass);
                for (int32_t i = 0; i < j && !why && !sf_pass_joins(pass); i += group_of(plan, i))
                        if (!late || sf_plan_same_tensors(plan, plan->pass[i], pass))
                                why = why_read_again(plan, i, pass);
                if (why)
                        sf_plan_remark_again(plan, pass->root, why);
        }
}

static void remark_products(sf_plan *plan)
{
        for (int32_t i = 0; i < plan->passes; i++)
                if (plan->pass[i]->products)
                        sf_plan_remark(plan, plan->pass[i]->root,
                                       "every product of a matmul is computed: no rewrite could avoid it, and this library has no fast matmul");
}

void sf_plan_remarks(sf_plan *plan)
{
        remark_made_before(plan);
        remark_apart(plan);
        remark_products(plan);
}
