/* Makes passes from rewritten nodes: which nodes become results of their own, which elementwise
 * work is computed together with which scan or fold, and in which order. */
#include "expr/plan.h"

#include <stdio.h>
#include <string.h>

static int64_t bytes_of(const sf_ir_node *n)
{
        return n->count * sf_dtypes[n->dt].size;
}

int32_t sf_plan_buffer(sf_planner *p, int32_t node)
{
        sf_plan *plan = p->plan;
        const sf_ir_node *n = sf_ir_at(p->ir, node);
        if (p->buffer_of[node] >= 0)
                return p->buffer_of[node];
        if (plan->buffers == p->room_buffers) {
                int32_t room = p->room_buffers ? p->room_buffers * 2 : 16;
                sf_buffer *grown = sf_ir_alloc(p->ir, (size_t)room * sizeof *grown);
                if (plan->buffers)
                        memcpy(grown, plan->buffer, (size_t)plan->buffers * sizeof *grown);
                plan->buffer = grown;
                p->room_buffers = room;
        }
        sf_buffer b = {.place = n->kind == SF_IR_INPUT ? SF_PLACE_INPUT : SF_PLACE_SCRATCH, .index = n->index, .node = node, .dt = n->dt,
                       .ndim = n->ndim, .shape = n->shape, .bytes = bytes_of(n), .kept = -1};
        plan->buffer[plan->buffers] = b;
        return p->buffer_of[node] = plan->buffers++;
}

/* ------------------------------------------------------------------------------------------------------------
 * Which scan or fold a node can be computed together with
 * ---------------------------------------------------------------------------------------------------------- */

/* Views that neither drop nor repeat elements: a pass can write its results through them. */
static bool is_one_to_one(const sf_ir_node *n)
{
        return n->kind == SF_IR_FLIP || n->kind == SF_IR_PERMUTE || n->kind == SF_IR_SQUEEZE || n->kind == SF_IR_UNSQUEEZE;
}

/* A program has no room for more maps than this. */
enum { CONE = 64 };

/* The nodes between a root and the scans and folds below it; arguments come before users. */
typedef struct cone {
        int32_t count;
        int32_t node[CONE];
} cone;

static bool passes_on(const sf_ir_node *n, const sf_ir_node *argument)
{
        return is_one_to_one(n) || (n->kind == SF_IR_MAP && sf_ir_same_shape(n, argument));
}

static void gather(sf_planner *p, cone *c, int32_t root, int32_t id)
{
        const sf_ir_node *n = sf_ir_at(p->ir, id);
        for (int32_t i = 0; i < c->count; i++)
                if (c->node[i] == id)
                        return;
        bool inside = (n->kind == SF_IR_MAP || is_one_to_one(n)) && (id == root || !p->cut[id]);
        if (inside)
                for (int32_t i = 0; i < sf_ir_args(n) && c->count < CONE; i++) {
                        int32_t arg = sf_ir_arg(p->ir, n, i);
                        if (passes_on(n, sf_ir_at(p->ir, arg)))
                                gather(p, c, root, arg);
                }
        if (c->count < CONE && (inside || n->kind == SF_IR_SCAN || n->kind == SF_IR_FOLD))
                c->node[c->count++] = id;
}

/* Do all uses of `core` lead to the cone's root, and nowhere else? `on` marks the nodes on these
 * paths. */
static bool belongs(sf_planner *p, const cone *c, int32_t root, int32_t core, bool on[CONE])
{
        int32_t inner[CONE] = {0};
        for (int32_t i = 0; i < c->count; i++) {
                const sf_ir_node *n = sf_ir_at(p->ir, c->node[i]);
                on[i] = c->node[i] == core;
                if (on[i] || n->kind == SF_IR_SCAN || n->kind == SF_IR_FOLD)
                        continue;
                for (int32_t k = 0; k < sf_ir_args(n); k++) {
                        int32_t arg = sf_ir_arg(p->ir, n, k);
                        for (int32_t j = 0; j < i; j++)
                                if (c->node[j] == arg && on[j] && passes_on(n, sf_ir_at(p->ir, arg))) {
                                        on[i] = true;
                                        inner[j]++;
                                }
                }
        }
        for (int32_t i = 0; i < c->count; i++)
                if (on[i] && c->node[i] != root && inner[i] != sf_ir_at(p->ir, c->node[i])->uses)
                        return false;
        return c->count && on[c->count - 1];
}

/* The tracks of `n`, from those of its argument. */
static const sf_track *track_up(sf_ir *ir, const sf_ir_node *n, const sf_ir_node *x, const sf_track *track)
{
        static const sf_track still = {0, 0, -1, false};
        sf_track *t = sf_ir_alloc(ir, (size_t)n->ndim * sizeof *t);
        int32_t from = 0;
        if (n->kind == SF_IR_MAP)
                return track;
        for (int32_t d = 0; d < n->ndim; d++) {
                switch (n->kind) {
                case SF_IR_PERMUTE: t[d] = track[n->list[d]]; break;
                case SF_IR_FLIP:
                        t[d] = track[d];
                        if (n->axes >> d & 1)
                                t[d] = (sf_track){x->shape[d] - 1 - track[d].start, -track[d].step, track[d].along, track[d].segment};
                        break;
                case SF_IR_SQUEEZE:
                        while (n->axes >> from & 1)
                                from++;
                        t[d] = track[from++];
                        break;
                default: t[d] = n->axes >> d & 1 ? still : track[from++]; break; /* SF_IR_UNSQUEEZE */
                }
        }
        return t;
}

static const sf_track *core_track(sf_ir *ir, const sf_ir_node *core)
{
        sf_track *t = sf_ir_alloc(ir, (size_t)core->ndim * sizeof *t);
        for (int32_t d = 0; d < core->ndim; d++)
                t[d] = core->kind == SF_IR_FOLD && core->axes >> d & 1 ? (core->index ? (sf_track){0, 1, d, true} : (sf_track){0, 0, -1, false}) : (sf_track){0, 1, d, false};
        return t;
}

/* The tensors in memory that a node is computed from, each once. `count` is one more than a pass
 * can read if there are more, or if the paths to them are longer than a program. */
typedef struct leaves {
        int32_t count, steps;
        int32_t node[SF_OPERANDS_MAX + 1];
} leaves;

static void gather_leaves(const sf_planner *p, leaves *l, int32_t id)
{
        enum { STEPS = 4 * CONE }; /* views and shared nodes are counted on every path */
        const sf_ir_node *n = sf_ir_at(p->ir, id);
        if (++l->steps > STEPS)
                l->count = SF_OPERANDS_MAX + 1;
        if (l->count > SF_OPERANDS_MAX)
                return;
        if ((n->kind == SF_IR_MAP || sf_ir_is_view(n)) && !p->cut[id]) {
                for (int32_t i = 0; i < sf_ir_args(n); i++)
                        gather_leaves(p, l, sf_ir_arg(p->ir, n, i));
                return;
        }
        for (int32_t i = 0; i < l->count; i++)
                if (l->node[i] == id)
                        return;
        if (n->kind != SF_IR_CONSTANT)
                l->node[l->count++] = id;
}

/* Is it a tensor in memory, or a view of one? As a mask it is then the mask of the step, not an
 * operand. */
static bool is_in_memory(const sf_planner *p, int32_t id)
{
        while (sf_ir_is_view(sf_ir_at(p->ir, id)) && !p->cut[id])
                id = sf_ir_arg(p->ir, sf_ir_at(p->ir, id), 0);
        return sf_ir_at(p->ir, id)->kind != SF_IR_MAP || p->cut[id];
}

static void gather_reads(const sf_planner *p, leaves *l, const sf_ir_node *fold, int32_t *mask)
{
        gather_leaves(p, l, sf_ir_arg(p->ir, fold, 0));
        *mask = fold->arg[1] ? sf_ir_arg(p->ir, fold, 1) : 0;
        if (!*mask || is_in_memory(p, *mask))
                return;
        gather_leaves(p, l, *mask);
        *mask = 0;
}

/* Can two folds probably be computed in one read? They are not compiled yet. */
static bool reads_the_same(const sf_planner *p, const sf_ir_node *a, const sf_ir_node *b)
{
        leaves la = {.count = 0}, lb = {.count = 0};
        int32_t mask_a, mask_b, found = 0;
        if (a->kind != SF_IR_FOLD || b->kind != SF_IR_FOLD || a->index != b->index || a->axes != b->axes || a->reverse != b->reverse ||
            !sf_ir_same_shape(sf_ir_at(p->ir, sf_ir_arg(p->ir, a, 0)), sf_ir_at(p->ir, sf_ir_arg(p->ir, b, 0))))
                return false;
        gather_reads(p, &la, a, &mask_a);
        gather_reads(p, &lb, b, &mask_b);
        for (int32_t i = 0; i < la.count; i++)
                for (int32_t k = 0; k < lb.count; k++)
                        found += la.node[i] == lb.node[k];
        return mask_a == mask_b && la.count && la.count <= SF_OPERANDS_MAX && la.count == lb.count && found == la.count;
}

/* The scan or fold with the most to read that only `root` uses, or 0; and root's tracks in its
 * pass. If folds can be computed in one read with it and root uses both, none is chosen: those
 * folds become siblings, and root is a pass over their few results. */
static int32_t find_core(sf_planner *p, int32_t root, const sf_track **track)
{
        const sf_ir_node *n = sf_ir_at(p->ir, root);
        cone c = {.count = 0};
        bool on[CONE], best_on[CONE];
        int32_t best = 0;
        int64_t most = -1;
        if (n->kind == SF_IR_SCAN || n->kind == SF_IR_FOLD) {
                *track = core_track(p->ir, n);
                return root;
        }
        gather(p, &c, root, root);
        if (!c.count || c.node[c.count - 1] != root)
                return 0;
        for (int32_t i = 0; i < c.count; i++) {
                const sf_ir_node *core = sf_ir_at(p->ir, c.node[i]);
                if (core->kind != SF_IR_SCAN && core->kind != SF_IR_FOLD)
                        continue;
                int64_t work = sf_ir_at(p->ir, sf_ir_arg(p->ir, core, 0))->count;
                /* One that is in memory already is read, not computed again. */
                if (!p->done[c.node[i]] && work > most && belongs(p, &c, root, c.node[i], on)) {
                        best = c.node[i];
                        most = work;
                        memcpy(best_on, on, sizeof best_on);
                }
        }
        for (int32_t i = 0; best && i < c.count; i++)
                if (c.node[i] != best && reads_the_same(p, sf_ir_at(p->ir, c.node[i]), sf_ir_at(p->ir, best)))
                        best = 0;
        if (!best)
                return 0;
        /* All paths lead to the root, so any of them gives its tracks. */
        const sf_track *up[CONE];
        for (int32_t i = 0; i < c.count; i++) {
                if (!best_on[i])
                        continue;
                const sf_ir_node *at = sf_ir_at(p->ir, c.node[i]);
                if (c.node[i] == best) {
                        up[i] = core_track(p->ir, at);
                        continue;
                }
                for (int32_t j = 0; j < i; j++)
                        for (int32_t k = 0; k < sf_ir_args(at); k++)
                                if (best_on[j] && c.node[j] == sf_ir_arg(p->ir, at, k))
                                        up[i] = track_up(p->ir, at, sf_ir_at(p->ir, c.node[j]), up[j]);
        }
        /* cppcheck-suppress uninitvar ; NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): the root, the last node, is on every path from the core */
        *track = up[c.count - 1];
        return best;
}

/* ------------------------------------------------------------------------------------------------------------
 * Passes
 * ---------------------------------------------------------------------------------------------------------- */
static void need(sf_planner *p, int32_t node);

void sf_plan_push(sf_planner *p, sf_pass *pass)
{
        sf_plan *plan = p->plan;
        if (plan->passes == p->room_passes) {
                int32_t room = p->room_passes ? p->room_passes * 2 : 16;
                sf_pass **grown = sf_ir_alloc(p->ir, (size_t)room * sizeof *grown);
                if (plan->passes)
                        memcpy(grown, plan->pass, (size_t)plan->passes * sizeof *grown);
                plan->pass = grown;
                p->room_passes = room;
        }
        plan->pass[plan->passes++] = pass;
}

/* A fold of several tensors, all of which are broadcast: every element is read many times, as in a
 * matmul. */
static bool is_products(const sf_planner *p, const sf_pass *pass)
{
        double positions = 1;
        bool repeat = pass->core && pass->step.fold && pass->operands > 1;
        for (int32_t d = 0; d < pass->ndim; d++)
                positions *= (double)pass->shape[d];
        for (int32_t k = 0; repeat && k < pass->operands; k++)
                repeat = sf_access_extent(p->plan, pass, &pass->operand[k]) < positions;
        return repeat;
}

/* Is this node the mask of an index? In other scans and folds, and in a pass that computes the
 * mask, a mask is ordinary elementwise work. */
static bool is_mask(const sf_planner *p, int32_t core, int32_t node)
{
        const sf_ir_node *n = sf_ir_at(p->ir, core);
        return sf_op_is(n->op, SF_INDEX) && n->arg[1] && sf_ir_arg(p->ir, n, 1) == node;
}

/* Makes the pass that computes `root`, or with `copies` reads it from memory, and writes it to a
 * buffer, from `offset` on along an axis. */
static void make_pass(sf_planner *p, int32_t root, bool copies, int32_t buffer, int32_t offset_axis, int64_t offset)
{
        const sf_ir_node *n = sf_ir_at(p->ir, root);
        if (!n->count) /* nothing has to be computed for it */
                return;
        if (!copies && offset_axis < 0 && sf_plan_doubles(p, root, buffer))
                return;
        sf_pass *pass = sf_ir_alloc(p->ir, sizeof *pass);
        const sf_track *track;
        int32_t core = 0, cut;
        bool alone = copies;
        p->copying = copies;
        do {
                track = sf_track_identity(p->ir, n->ndim);
                core = alone ? 0 : find_core(p, root, &track);
                if (!core)
                        track = sf_track_identity(p->ir, n->ndim);
                cut = sf_compile_pass(p, root, core, track, pass);
                if (cut > 0) {
                        p->cut[cut] = true;
                        sf_plan_remark(p->plan, cut, core && is_mask(p, core, cut)
                                                             ? "a pass of its own, because the mask of an index is read, not computed on the way"
                                                             : "a pass of its own, because the elementwise work around it is longer than one pass takes");
                } else if (cut < 0) {
                        alone = true;
                        sf_plan_remark(p->plan, core, "what follows is a pass of its own, because one pass reads at most 8 tensors");
                }
        } while (cut);
        p->copying = false;
        if (core && core != root)
                /* other passes read it: computing it again would repeat the scan or fold */
                p->cut[root] = true;
        sf_track *out = sf_ir_alloc(p->ir, (size_t)n->ndim * sizeof *out);
        for (int32_t d = 0; d < n->ndim; d++)
                out[d] = track[d]; /* cppcheck-suppress uninitvar ; the loop above has run once at least */
        if (offset_axis >= 0)
                out[offset_axis].start += offset;
        pass->out = (sf_access){buffer, out};
        for (int32_t k = 0; k < pass->operands; k++)
                need(p, p->plan->buffer[pass->operand[k].buffer].node);
        if (pass->masked)
                need(p, p->plan->buffer[pass->mask.buffer].node);
        pass->products = is_products(p, pass);
        sf_plan_push(p, pass);
}

/* Makes the passes that compute a node whose result has to be in memory. */
static void need(sf_planner *p, int32_t node)
{
        const sf_ir_node *n = sf_ir_at(p->ir, node);
        if (p->done[node] || n->kind == SF_IR_INPUT)
                return;
        p->done[node] = true;
        int32_t buffer = sf_plan_buffer(p, node);
        if (n->kind != SF_IR_CONCAT) {
                make_pass(p, node, false, buffer, -1, 0);
                return;
        }
        int64_t offset = 0;
        if (n->nlist > 1)
                sf_plan_remark(p->plan, node, "each part is a pass of its own, because a pass writes one result");
        for (int32_t i = 0; i < n->nlist; i++) {
                int32_t part = sf_ir_arg(p->ir, n, i);
                const sf_ir_node *np = sf_ir_at(p->ir, part);
                /* A part with a scan or fold that is used elsewhere too is computed once, and
                 * copied here. */
                const sf_track *ignored;
                bool copies = np->kind == SF_IR_CONCAT ||
                              (np->uses > 1 && find_core(p, part, &ignored)) ||
                              (p->plan->written && p->plan->written->cut[part]);
                p->cut[part] |= copies;
                make_pass(p, part, copies, buffer, n->index, offset);
                offset += np->shape[n->index];
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Work that is done once for each line
 * ---------------------------------------------------------------------------------------------------------- */

/* Is it slower than a load? */
static bool is_slow(const sf_ir_node *n)
{
        switch (n->code) {
        case SF_CODE_DIV:
        case SF_CODE_SQRT:
        case SF_CODE_EXP:
        case SF_CODE_LOG:
        case SF_CODE_SIGMOID:
        case SF_CODE_TANH: return true;
        default: return false;
        }
}

/* Is it computed from a fold or scan by elementwise work alone? *slow: some of that work is
 * slow. */
static bool is_of_fold(const sf_planner *p, int32_t id, int32_t *steps, bool *slow)
{
        const sf_ir_node *n = sf_ir_at(p->ir, id);
        bool found = n->kind == SF_IR_FOLD || n->kind == SF_IR_SCAN;
        if (--*steps < 0 || (n->kind != SF_IR_MAP && !sf_ir_is_view(n)))
                return found;
        *slow |= n->kind == SF_IR_MAP && is_slow(n);
        for (int32_t i = 0; i < sf_ir_args(n); i++)
                found |= is_of_fold(p, sf_ir_arg(p->ir, n, i), steps, slow);
        return found;
}

/* Work on a fold's result, such as 1 / sqrt(s), is done once, not for each of the many elements
 * that need it: in the store of the fold, or, if it is slow and there are very many elements, in a
 * pass of its own. */
static void cut_for_lines(sf_planner *p, int32_t live, const int32_t *order)
{
        enum { FEWER = 4, MANY = 1 << 16 };
        for (int32_t i = 0; i < live; i++) {
                const sf_ir_node *n = sf_ir_at(p->ir, order[i]);
                for (int32_t k = 0; n->kind == SF_IR_MAP && k < sf_ir_args(n); k++) {
                        int32_t id = sf_ir_arg(p->ir, n, k), steps = CONE;
                        bool slow = false;
                        while (sf_ir_is_view(sf_ir_at(p->ir, id)))
                                id = sf_ir_arg(p->ir, sf_ir_at(p->ir, id), 0);
                        const sf_ir_node *x = sf_ir_at(p->ir, id);
                        const sf_track *ignored;
                        if (p->cut[id] || x->kind != SF_IR_MAP || x->code == SF_CODE_CAST || x->count > n->count / FEWER || !is_of_fold(p, id, &steps, &slow))
                                continue;
                        p->cut[id] = (slow && n->count >= MANY) || find_core(p, id, &ignored);
                }
        }
}

/* The argument of a spread that must be 0 after the last offset has to be in memory. */
static void cut_for_spreads(sf_planner *p, int32_t live, const int32_t *order)
{
        for (int32_t i = 0; i < live; i++) {
                const sf_ir_node *n = sf_ir_at(p->ir, order[i]);
                if (n->kind == SF_IR_SPREAD && n->start)
                        p->cut[sf_ir_arg(p->ir, n, 0)] = true;
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Outputs
 * ---------------------------------------------------------------------------------------------------------- */
static int32_t output_buffer(sf_planner *p, int32_t output, int32_t node)
{
        /* A second output of the same node, or an output that is an input, has a buffer of its own.
         * buffer_of keeps the first one. */
        int32_t known = p->buffer_of[node];
        p->buffer_of[node] = -1;
        int32_t buffer = sf_plan_buffer(p, node);
        p->plan->buffer[buffer].place = SF_PLACE_OUTPUT;
        p->plan->buffer[buffer].index = output;
        if (known >= 0)
                p->buffer_of[node] = known;
        return buffer;
}

static void name_outputs(sf_plan *plan)
{
        enum { ROOM = 24 };
        plan->output_name = sf_ir_alloc(&plan->ir, (size_t)plan->outputs * sizeof *plan->output_name);
        for (int32_t i = 0; i < plan->outputs; i++) {
                char *name = sf_ir_alloc(&plan->ir, ROOM);
                snprintf(name, ROOM, plan->outputs == 1 ? "out" : "output %d", (int)i);
                plan->output_name[i] = name;
        }
}

sf_status sf_plan_passes(sf_plan *plan)
{
        sf_ir *ir = &plan->ir;
        sf_planner p = {.plan = plan, .ir = ir};
        size_t nodes = (size_t)ir->nodes + 1;
        int32_t *order;
        const int32_t live = sf_ir_count_uses(ir, &order);
        p.cut = memset(sf_ir_alloc(ir, nodes), 0, nodes);
        p.done = memset(sf_ir_alloc(ir, nodes), 0, nodes);
        /* this may be called again, with other cuts */
        plan->buffers = plan->passes = plan->remarks = 0;
        for (int32_t id = 1; plan->written && id <= ir->nodes; id++) {
                p.cut[id] = plan->written->cut[id];
                if (p.cut[id])
                        sf_plan_remark(plan, id,
                                       "a result of its own, because it is rounded differently, "
                                       "and computed again where it is not finite");
        }
        if (!plan->of_lines)
                cut_for_lines(&p, live, order);
        cut_for_spreads(&p, live, order);
        p.buffer_of = memset(sf_ir_alloc(ir, nodes * sizeof *p.buffer_of), -1, nodes * sizeof *p.buffer_of);
        plan->output_buffer = sf_ir_alloc(ir, (size_t)ir->outputs * sizeof *plan->output_buffer);
        /* Every input has a buffer, even if no pass reads it, so that its tensor can be checked.
         * The first output of a node is the node's buffer. */
        plan->input_buffer = sf_ir_alloc(ir, (size_t)ir->inputs * sizeof *plan->input_buffer);
        for (int32_t id = 1; id <= ir->nodes; id++)
                if (sf_ir_at(ir, id)->kind == SF_IR_INPUT)
                        plan->input_buffer[sf_ir_at(ir, id)->index] = sf_plan_buffer(&p, id);
        for (int32_t i = 0; i < ir->outputs; i++)
                plan->output_buffer[i] = output_buffer(&p, i, sf_ir_now(ir, ir->output[i]));
        name_outputs(plan);
        for (int32_t i = 0; i < ir->outputs; i++) {
                int32_t node = sf_ir_now(ir, ir->output[i]);
                if (p.buffer_of[node] == plan->output_buffer[i])
                        need(&p, node);
        }
        for (int32_t i = 0; i < ir->outputs; i++) {
                int32_t node = sf_ir_now(ir, ir->output[i]);
                if (p.buffer_of[node] == plan->output_buffer[i])
                        continue;
                p.cut[node] = true;
                if (sf_ir_at(ir, node)->kind != SF_IR_INPUT)
                        sf_plan_remark(plan, node, "more than one output is this result: it is computed once, and a pass copies it");
                make_pass(&p, node, true, plan->output_buffer[i], -1, 0);
        }
        return SF_OK;
}
