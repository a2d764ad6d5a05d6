/*
 * What a plan does whose rewrites round differently, so that no finite result becomes infinite or
 * NaN.
 *
 * The graph is rewritten twice: once with all rewrites, which is what is computed, and once with
 * the exact ones only, which gives the results as written. A node of the first graph may have a
 * twin in the second: a node with the same meaning. For every pass whose result is not as written,
 * one of two things holds. Either its results are few; then they are checked when they are there,
 * and those that are not finite are computed again from the twin. Or it only reads results that
 * have been checked. sf_written_check makes sure of this before the plan is complete. Where an
 * operator could hide a value that is not finite (exp(-inf) is 0), it asks for a result of its own
 * in front of that operator. Where neither is possible, the plan is made from the exact graph.
 */
#include "core/again.h"
#include "expr/plan.h"

#include <math.h>
#include <string.h>

/* What is known of a value: nothing; that it is infinite or NaN; or which value it is. */
typedef struct sf_known {
        enum { NOTHING, NOT_FINITE, VALUE } what;
        double value;
} known;

/* ------------------------------------------------------------------------------------------------
 * Both graphs
 * ---------------------------------------------------------------------------------------------- */
static const int32_t *arguments(const sf_ir_node *n)
{
        return n->kind == SF_IR_CONCAT ? n->list : n->arg;
}

/* Are the operators the same, whatever they are applied to? */
static bool same_operator(const sf_ir_node *a, const sf_ir_node *b)
{
        bool same = a->kind == b->kind && a->dt == b->dt && a->axes == b->axes &&
                    a->index == b->index && a->start == b->start &&
                    a->step == b->step && a->value.u64 == b->value.u64 && a->code == b->code &&
                    a->op == b->op && a->acc == b->acc &&
                    a->reverse == b->reverse && a->exclusive == b->exclusive &&
                    a->mean == b->mean && a->has_initial == b->has_initial &&
                    a->nlist == b->nlist && sf_ir_args(a) == sf_ir_args(b) &&
                    sf_ir_same_shape(a, b);
        if (same && a->kind == SF_IR_PERMUTE)
                same = !memcmp(a->list, b->list, (size_t)a->nlist * sizeof *a->list);
        return same;
}

/* No rewrite that rounds changes this operator: if two such nodes mean the same, so do their
 * arguments. */
static bool is_opaque(const sf_ir_node *n)
{
        switch (n->kind) {
        case SF_IR_MAP:
                return n->code != SF_CODE_NEG && n->code != SF_CODE_ADD && n->code != SF_CODE_SUB &&
                       n->code != SF_CODE_MUL && n->code != SF_CODE_DIV &&
                       n->code != SF_CODE_CAST;
        case SF_IR_FLIP:
        case SF_IR_PERMUTE:
        case SF_IR_SQUEEZE:
        case SF_IR_UNSQUEEZE: return true;
        default: return false;
        }
}

/* Two nodes with the same operator mean the same. Do their arguments mean the same, one by one? For
 * a map that is not opaque, they do if only one pair differs, or if all pairs that differ are
 * opaque and have the same operators. */
static bool pairs_arguments(const sf_ir *ir, const sf_ir_node *a, const sf_ir_node *b)
{
        int32_t other = 0, opaque = 0;
        for (int32_t i = 0; i < sf_ir_args(a); i++) {
                const sf_ir_node *x = sf_ir_at(ir, arguments(a)[i]);
                const sf_ir_node *y = sf_ir_at(ir, arguments(b)[i]);
                other += x != y;
                opaque += x != y && is_opaque(x) && same_operator(x, y);
        }
        return is_opaque(a) || (a->kind == SF_IR_MAP && (other == 1 || other == opaque));
}

static void pair(sf_plan *plan, int32_t node, int32_t twin)
{
        const sf_ir_node *a = sf_ir_at(&plan->ir, node), *b = sf_ir_at(&plan->ir, twin);
        if (plan->written->twin[node] || a->dt != b->dt || !sf_ir_same_shape(a, b))
                return;
        plan->written->twin[node] = twin;
        if (node == twin || !same_operator(a, b) || !pairs_arguments(&plan->ir, a, b))
                return;
        for (int32_t i = 0; i < sf_ir_args(a); i++)
                pair(plan, arguments(a)[i], arguments(b)[i]);
}

static void mark(const sf_ir *ir, int32_t node, bool *seen)
{
        const sf_ir_node *n = sf_ir_at(ir, node);
        if (seen[node])
                return;
        seen[node] = true;
        for (int32_t i = 0; i < sf_ir_args(n); i++)
                mark(ir, arguments(n)[i], seen);
}

typedef struct state {
        int32_t *forward;
        int32_t events, events_room;
        sf_ir_event *event;
} state;

static state take_state(sf_ir *ir)
{
        state s = {sf_ir_alloc(ir, ((size_t)ir->nodes + 1) * sizeof *s.forward), ir->events,
                   ir->events_room, ir->event};
        for (int32_t id = 1; id <= ir->nodes; id++) {
                s.forward[id] = ir->node[id]->forward;
                ir->node[id]->forward = 0;
        }
        ir->events = ir->events_room = 0;
        ir->event = NULL;
        return s;
}

/* Nodes that are newer than the state have no replacement. */
static void put_state(sf_ir *ir, const state *s, int32_t nodes)
{
        for (int32_t id = 1; id <= ir->nodes; id++)
                ir->node[id]->forward = id <= nodes ? s->forward[id] : 0;
        ir->events = s->events;
        ir->events_room = s->events_room;
        ir->event = s->event;
}

void sf_written_find(sf_plan *plan)
{
        sf_ir *ir = &plan->ir;
        bool rounds = false;
        for (int32_t i = 0; i < ir->events; i++)
                rounds |= ir->event[i].rounds;
        if (!rounds)
                return;
        const int32_t nodes = ir->nodes;
        int32_t *now = sf_ir_alloc(ir, ((size_t)ir->written + 1) * sizeof *now);
        for (int32_t id = 1; id <= ir->written; id++)
                now[id] = sf_ir_now(ir, id);
        state rewritten = take_state(ir), exact;
        ir->exact = true;
        sf_rewrite_all(ir);
        ir->exact = false;
        size_t room = (size_t)ir->nodes + 1;
        sf_written *w = plan->written = memset(sf_ir_alloc(ir, sizeof *w), 0, sizeof *w);
        w->twin = memset(sf_ir_alloc(ir, room * sizeof *w->twin), 0, room * sizeof *w->twin);
        w->origin = memset(sf_ir_alloc(ir, room * sizeof *w->origin), 0, room * sizeof *w->origin);
        w->cut = memset(sf_ir_alloc(ir, room), 0, room);
        w->visited = memset(sf_ir_alloc(ir, room * sizeof *w->visited), 0,
                            room * sizeof *w->visited);
        w->seen = memset(sf_ir_alloc(ir, room * sizeof *w->seen), 0, room * sizeof *w->seen);
        w->known = sf_ir_alloc(ir, room * sizeof *w->known);
        w->nodes = ir->nodes;
        int32_t *then = sf_ir_alloc(ir, ((size_t)ir->written + 1) * sizeof *then);
        for (int32_t id = 1; id <= ir->written; id++)
                then[id] = sf_ir_now(ir, id);
        exact = take_state(ir);
        w->forward = exact.forward;
        w->events = exact.events;
        w->event = exact.event;
        put_state(ir, &rewritten, nodes);
        /* What a node computes follows from its arguments as they are stored, whether or not those
         * have been replaced since: if a node is computed, so are they. */
        bool *live = memset(sf_ir_alloc(ir, room), 0, room);
        bool *exactly = memset(sf_ir_alloc(ir, room), 0, room);
        for (int32_t i = 0; i < ir->outputs; i++)
                mark(ir, sf_ir_now(ir, ir->output[i]), live);
        for (int32_t id = 1; id <= ir->written; id++) {
                mark(ir, id, exactly);
                mark(ir, then[id], exactly);
                if (!live[now[id]])
                        continue;
                pair(plan, now[id], then[id]);
                int32_t *origin = &w->origin[now[id]];
                if (!*origin || !same_operator(sf_ir_at(ir, *origin), sf_ir_at(ir, now[id])))
                        *origin = id;
        }
        w->as_is = exactly;
        for (int32_t id = 1; id <= ir->nodes; id++)
                exactly[id] = exactly[id] && live[id];
}

void sf_written_only(sf_plan *plan)
{
        const sf_written *w = plan->written;
        state exact = {w->forward, w->events, w->events, w->event};
        put_state(&plan->ir, &exact, w->nodes);
        plan->written = NULL;
}

/* ------------------------------------------------------------------------------------------------
 * Where a value that is not finite remains visible
 * ---------------------------------------------------------------------------------------------- */

static bool never_finite(known k)
{
        return k.what == NOT_FINITE || (k.what == VALUE && !isfinite(k.value));
}

static known known_map(const sf_ir_node *n, const known *a)
{
        const known nothing = {NOTHING, 0}, lost = {NOT_FINITE, 0};
        const bool values = a[0].what == VALUE && (sf_ir_args(n) < 2 || a[1].what == VALUE);
        const known either = never_finite(a[0]) || never_finite(a[1]) ? lost : nothing;
        const double x = a[0].value, y = a[1].value;
        if (sf_dtypes[n->dt].kind != SF_KIND_REAL)
                return nothing;
        switch (n->code) {
        case SF_CODE_ADD: return values ? (known){VALUE, x + y} : either;
        case SF_CODE_SUB: return values ? (known){VALUE, x - y} : either;
        case SF_CODE_MUL: return values ? (known){VALUE, x * y} : either;
        case SF_CODE_DIV:
                return values ? (known){VALUE, x / y} : never_finite(a[0]) ? lost : nothing;
        case SF_CODE_NEG: return values ? (known){VALUE, -x} : a[0];
        case SF_CODE_ABS: return values ? (known){VALUE, fabs(x)} : a[0];
        case SF_CODE_SQUARE: return values ? (known){VALUE, x * x} : a[0];
        case SF_CODE_SQRT: return values ? (known){VALUE, sqrt(x)} : a[0];
        case SF_CODE_LOG: return values ? (known){VALUE, log(x)} : a[0];
        case SF_CODE_EXP: return values ? (known){VALUE, exp(x)} : nothing;
        case SF_CODE_RELU: return values ? (known){VALUE, isnan(x) || x > 0 ? x : 0} : nothing;
        case SF_CODE_CAST: return a[0];
        default: return nothing;
        }
}

static known known_of(sf_plan *plan, int32_t node);

static known find_known(sf_plan *plan, const sf_ir_node *n)
{
        known a[3] = {{NOTHING, 0}, {NOTHING, 0}, {NOTHING, 0}};
        const bool real = sf_dtypes[n->dt].kind == SF_KIND_REAL;
        switch (n->kind) {
        case SF_IR_CONSTANT:
                if (real)
                        a[0] = (known){VALUE, n->dt == SF_DT_F64 ? n->value.f64 : n->value.f32};
                return a[0];
        case SF_IR_MAP:
                for (int32_t i = 0; i < sf_ir_args(n); i++)
                        a[i] = known_of(plan, n->arg[i]);
                return known_map(n, a);
        case SF_IR_FOLD: /* a sum or product with such an element is not finite either */
                if (real && !n->arg[1] && (n->op == SF_SUM || n->op == SF_PROD) &&
                    never_finite(known_of(plan, n->arg[0])))
                        a[0] = (known){NOT_FINITE, 0};
                return a[0];
        default: return sf_ir_is_view(n) ? known_of(plan, n->arg[0]) : a[0];
        }
}

/* What is known of `node`. The caller has increased `serial` and set the one node whose value is
 * given. */
static known known_of(sf_plan *plan, int32_t node)
{
        sf_written *w = plan->written;
        if (w->seen[node] != w->serial) {
                w->known[node] = find_known(plan, sf_ir_at(&plan->ir, node));
                w->seen[node] = w->serial;
        }
        return w->known[node];
}

/* If an element of `source` is not finite, is each element of `node` that depends on it never
 * finite? */
static bool shows(sf_plan *plan, int32_t node, int32_t source)
{
        static const double values[] = {INFINITY, -INFINITY, NAN};
        sf_written *w = plan->written;
        bool all = true;
        for (int i = 0; i < 3 && all; i++) {
                w->seen[source] = ++w->serial;
                w->known[source] = (known){VALUE, values[i]};
                all = never_finite(known_of(plan, node));
        }
        return all;
}

/* ------------------------------------------------------------------------------------------------
 * Passes
 * ---------------------------------------------------------------------------------------------- */

/* Does the pass only copy a tensor that is in memory already? */
static bool copies(const sf_plan *plan, const sf_pass *pass)
{
        return !pass->core && pass->operands == 1 &&
               plan->buffer[pass->operand[0].buffer].node == pass->root;
}

/* Are the results of this pass checked? */
static bool is_checked(const sf_plan *plan, const sf_pass *pass)
{
        const sf_ir *ir = &plan->ir;
        const sf_ir_node *n = sf_ir_at(ir, pass->root);
        return !copies(plan, pass) && !plan->written->as_is[pass->root] &&
               plan->written->twin[pass->root] && sf_ir_is_real(ir, pass->root) &&
               plan->buffer[pass->out.buffer].node == pass->root &&
               (pass->step.fold || (!pass->core && sf_ir_is_small(ir, n)));
}

/* Has this walk visited the node before? Marks it as visited. */
static bool is_visited(sf_plan *plan, int32_t node)
{
        sf_written *w = plan->written;
        bool was = w->visited[node] == w->visits;
        w->visited[node] = w->visits;
        return was;
}

/* The first node on the way down from `root`, before any other scan or fold, that has a twin and in
 * which a value of `source` that is not finite remains visible; or 0. */
static int32_t highest_shown(sf_plan *plan, int32_t node, int32_t root, int32_t source)
{
        const sf_ir *ir = &plan->ir;
        const sf_ir_node *n = sf_ir_at(ir, node);
        int32_t found = 0;
        if (is_visited(plan, node))
                return 0;
        if (node != root && plan->written->twin[node] && sf_ir_is_real(ir, node) &&
            shows(plan, node, source))
                return node;
        for (int32_t i = 0; node != source && (n->kind == SF_IR_MAP || sf_ir_is_view(n)) &&
             i < sf_ir_args(n) && !found; i++)
                found = highest_shown(plan, n->arg[i], root, source);
        return found;
}

typedef enum verdict { GOOD, AGAIN, IMPOSSIBLE } verdict;

static verdict make_cut(sf_plan *plan, int32_t node)
{
        if (!node || plan->written->cut[node])
                return IMPOSSIBLE;
        plan->written->cut[node] = true;
        return AGAIN;
}

/* Is `n` the same operator as `other`, which is as written, applied to arguments that mean the
 * same? */
static bool is_applied(const sf_plan *plan, const sf_ir_node *n, int32_t other)
{
        const sf_ir_node *o = other ? sf_ir_at(&plan->ir, other) : NULL;
        bool same = o && same_operator(n, o);
        for (int32_t i = 0; same && i < sf_ir_args(n); i++) {
                int32_t mine = arguments(n)[i], theirs = arguments(o)[i];
                same = mine == theirs || plan->written->twin[mine] == theirs ||
                       sf_ir_now(&plan->ir, theirs) == mine;
        }
        return same;
}

/* The results of this pass are not checked. Is this part of it as written, except that it reads
 * results that are checked? */
static verdict explained(sf_plan *plan, int32_t node, bool top)
{
        const sf_written *w = plan->written;
        const sf_ir *ir = &plan->ir;
        const sf_ir_node *n = sf_ir_at(ir, node);
        const int32_t twin = w->twin[node];
        if (w->as_is[node] || is_visited(plan, node))
                return GOOD;
        for (int32_t i = 0; i < plan->passes && !top; i++)
                if (plan->pass[i]->root == node &&
                    plan->buffer[plan->pass[i]->out.buffer].node == node)
                        /* it is in memory, made by another pass, which is checked by itself */
                        return GOOD;
        bool same = is_applied(plan, n, twin) || is_applied(plan, n, w->origin[node]);
        verdict v = GOOD;
        for (int32_t i = 0; same && v == GOOD && i < sf_ir_args(n); i++)
                v = explained(plan, arguments(n)[i], false);
        if (same)
                return v;
        return twin && sf_ir_is_real(ir, node) ? make_cut(plan, node) : IMPOSSIBLE;
}

static verdict check_pass(sf_plan *plan, const sf_pass *pass)
{
        sf_written *w = plan->written;
        w->visits++;
        if (w->as_is[pass->root] || copies(plan, pass))
                return GOOD;
        const bool checked = is_checked(plan, pass);
        /* A matmul under a sum is replaced by sums over its matrices, which are no values of the
         * graph as written. They must remain visible in the pass that reads them. */
        if (!checked && (!pass->step.fold || w->twin[pass->root]))
                return explained(plan, pass->root, true);
        for (int32_t k = 0; k < pass->operands + pass->masked; k++) {
                const sf_access *a = k < pass->operands ? &pass->operand[k] : &pass->mask;
                int32_t node = plan->buffer[a->buffer].node;
                bool made = plan->buffer[a->buffer].place != SF_PLACE_INPUT;
                if (made && !w->as_is[node] && !w->twin[node] && !shows(plan, pass->root, node))
                        return make_cut(plan, highest_shown(plan, pass->root, pass->root, node));
        }
        if (checked && pass->core && !w->as_is[pass->core] && !shows(plan, pass->root, pass->core))
                return make_cut(plan, highest_shown(plan, pass->root, pass->root, pass->core));
        return GOOD;
}

bool sf_written_check(sf_plan *plan, bool *again)
{
        verdict v = GOOD;
        for (int32_t i = 0; i < plan->passes && v != IMPOSSIBLE; i++) {
                verdict mine = check_pass(plan, plan->pass[i]);
                v = mine > v ? mine : v;
        }
        *again = v == AGAIN;
        return v != IMPOSSIBLE;
}

/* ------------------------------------------------------------------------------------------------
 * The steps that compute a result as written
 * ---------------------------------------------------------------------------------------------- */
typedef struct import {
        sf_plan *plan;
        sf_repair *to;
        int32_t at; /* the number of the pass whose results are computed */
        int32_t *known, *leaf;
} import;

/* A buffer of the plan that has this node's value as written once pass `at` is done, or -1. */
static int32_t held_in(const sf_plan *plan, int32_t node, int32_t at)
{
        const sf_ir_node *n = sf_ir_at(&plan->ir, node);
        if (n->kind == SF_IR_INPUT)
                return plan->input_buffer[n->index];
        if (!plan->written->as_is[node])
                return -1;
        while (at + 1 < plan->passes && plan->pass[at + 1]->sibling)
                at++;
        /* A concatenation is complete when its last part has been written. */
        for (int32_t b = 0; b < plan->buffers; b++) {
                int32_t last = -1;
                for (int32_t i = 0; plan->buffer[b].node == node && i < plan->passes; i++)
                        last = plan->pass[i]->out.buffer == b ? i : last;
                if (last >= 0 && last <= at)
                        return b;
        }
        return -1;
}

/* The type of an instruction is that of its arguments; for where, of the two values. */
static int32_t import_map(import *im, const sf_ir_node *n, const int32_t arg[3])
{
        sf_dt dt = sf_ir_at(&im->plan->ir, n->arg[n->code == SF_CODE_WHERE])->dt;
        return sf_ir_map(&im->to->steps.ir, n->code, dt, arg[0], arg[1], arg[2]);
}

static int32_t import_node(import *im, int32_t node)
{
        sf_ir *ir = &im->to->steps.ir;
        const sf_ir_node *n = sf_ir_at(&im->plan->ir, node);
        if (im->known[node])
                return im->known[node];
        int32_t buffer = held_in(im->plan, node, im->at), arg[3] = {0}, parts[SF_MAX_NDIM], made;
        if (buffer >= 0) {
                im->leaf[ir->inputs] = buffer;
                made = sf_ir_input(ir, ir->inputs++, n->dt, n->ndim, n->shape);
        } else if (n->kind == SF_IR_CONSTANT) {
                made = sf_ir_constant(ir, n->dt, n->value);
        } else {
                for (int32_t i = 0; i < sf_ir_args(n); i++)
                        *(n->kind == SF_IR_CONCAT ? &parts[i] : &arg[i]) =
                                import_node(im, arguments(n)[i]);
                bool maps = n->kind == SF_IR_MAP && n->code != SF_CODE_CAST;
                made = maps ? import_map(im, n, arg) : sf_ir_with(ir, n, arg, parts);
        }
        return im->known[node] = made;
}

/* All positions of an axis, whatever the line. */
static const sf_follow all = {-1, 0, 0};

static bool same_follow(sf_follow a, sf_follow b)
{
        return a.line == b.line && a.start == b.start && a.step == b.step;
}

/* What an axis follows if it is accessed by this track. */
static sf_follow through(const sf_track *t, const sf_follow *axes)
{
        if (t->along < 0 || axes[t->along].line < 0 || (t->step != 1 && t->step != -1))
                return all;
        return (sf_follow){axes[t->along].line, t->start + t->step * axes[t->along].start,
                           t->step * axes[t->along].step};
}

/*
 * Which positions of its axes each pass computes for one line. This goes from the last pass, whose
 * results are the lines, back to the first. The result of a pass needs as many positions along an
 * axis as its readers use: one, if all of them follow the line in the same way. Returns false if
 * the last pass does not compute its results one by one.
 */
static bool follow_lines(sf_repair *r)
{
        sf_plan *steps = &r->steps;
        sf_ir *ir = &steps->ir;
        bool *asked = memset(sf_ir_alloc(ir, (size_t)steps->buffers), 0, (size_t)steps->buffers);
        r->buffer = sf_ir_alloc(ir, (size_t)steps->buffers * sizeof *r->buffer);
        r->pass = sf_ir_alloc(ir, (size_t)steps->passes * sizeof *r->pass);
        for (int32_t b = 0; b < steps->buffers; b++) {
                const sf_buffer *buffer = &steps->buffer[b];
                sf_follow *axes = sf_ir_alloc(ir, (size_t)buffer->ndim * sizeof *axes);
                r->buffer[b] = axes;
                for (int32_t d = 0; d < buffer->ndim; d++)
                        axes[d] = buffer->place == SF_PLACE_OUTPUT ? (sf_follow){d, 0, 1} : all;
        }
        for (int32_t i = steps->passes - 1; i >= 0; i--) {
                const sf_pass *pass = steps->pass[i];
                const sf_buffer *out = &steps->buffer[pass->out.buffer];
                sf_follow *axes = sf_ir_alloc(ir, (size_t)pass->ndim * sizeof *axes);
                sf_follow *mine = r->buffer[pass->out.buffer];
                r->pass[i] = axes;
                for (int32_t d = 0; d < pass->ndim; d++)
                        axes[d] = all;
                for (int32_t d = 0; d < out->ndim; d++) {
                        const sf_track *t = &pass->out.track[d];
                        bool free = t->along >= 0 && !(pass->axes >> t->along & 1) &&
                                    (t->step == 1 || t->step == -1);
                        if (mine[d].line >= 0 && free)
                                axes[t->along] =
                                        (sf_follow){mine[d].line,
                                                    t->step * (mine[d].start - t->start),
                                                    t->step * mine[d].step};
                        else if (out->place == SF_PLACE_OUTPUT && out->shape[d] > 1)
                                return false;
                        else
                                mine[d] = all;
                }
                for (int32_t k = 0; k < pass->operands; k++) {
                        int32_t b = pass->operand[k].buffer;
                        sf_follow *theirs = r->buffer[b];
                        for (int32_t d = 0; steps->buffer[b].place == SF_PLACE_SCRATCH &&
                             d < steps->buffer[b].ndim; d++) {
                                sf_follow f = through(&pass->operand[k].track[d], axes);
                                theirs[d] = !asked[b] || same_follow(theirs[d], f) ? f : all;
                        }
                        asked[b] = true;
                }
        }
        return true;
}

/* Assigns the scratch for one line. */
static void lay_out(sf_repair *r)
{
        for (int32_t b = 0; b < r->steps.buffers; b++) {
                sf_buffer *buffer = &r->steps.buffer[b];
                int64_t bytes = sf_dtypes[buffer->dt].size;
                if (buffer->place != SF_PLACE_SCRATCH)
                        continue;
                for (int32_t d = 0; d < buffer->ndim; d++)
                        bytes *= r->buffer[b][d].line < 0 ? buffer->shape[d] : 1;
                buffer->offset = r->steps.scratch;
                bytes = (bytes + SF_SCRATCH_ALIGN - 1) / SF_SCRATCH_ALIGN * SF_SCRATCH_ALIGN;
                r->steps.scratch += bytes;
        }
}

/* One CUDA launch computes all steps of a line. What is too much for it is refused on every device,
 * because every device must compute the same. */
static bool within_limits(const sf_repair *r)
{
        const sf_plan *steps = &r->steps;
        int32_t dims = steps->buffer[steps->output_buffer[0]].ndim, operands = 0, codes = 0;
        for (int32_t i = 0; i < steps->passes; i++) {
                const sf_pass *pass = steps->pass[i];
                dims += pass->ndim + 1;
                operands += pass->operands ? pass->operands : 1;
                codes += pass->load.count ? pass->load.count : 1;
                codes += pass->store.count ? pass->store.count : 1;
                if ((pass->core && (!pass->step.fold || sf_op_is(pass->step.op, SF_PAIR))) ||
                    steps->buffer[pass->out.buffer].node != pass->root)
                        return false;
        }
        return steps->passes && steps->passes <= SF_AGAIN_STEPS && dims <= SF_AGAIN_DIMS &&
               operands <= SF_OPERANDS_MAX && codes <= SF_AGAIN_CODES;
}

static bool make_repair(sf_plan *plan, int32_t at)
{
        const sf_written *w = plan->written;
        sf_pass *pass = plan->pass[at];
        sf_repair *r = memset(sf_ir_alloc(&plan->ir, sizeof *r), 0, sizeof *r);
        sf_ir *ir = &r->steps.ir;
        size_t nodes = (size_t)plan->ir.nodes + 1;
        import im = {.plan = plan, .to = r, .at = at};
        im.known = memset(sf_ir_alloc(&plan->ir, nodes * sizeof *im.known), 0,
                          nodes * sizeof *im.known);
        im.leaf = sf_ir_alloc(&plan->ir, nodes * sizeof *im.leaf);
        r->next = plan->repairs;
        plan->repairs = r; /* from here on it is freed with the plan */
        if (setjmp(ir->no_memory))
                longjmp(plan->ir.no_memory, 1);
        ir->ctx = r->steps.ctx = plan->ctx;
        ir->exact = r->steps.of_lines = true;
        r->steps.device = plan->device;
        r->leaf = im.leaf;
        ir->outputs = r->steps.outputs = 1;
        ir->output = sf_ir_alloc(ir, sizeof *ir->output);
        ir->output[0] = import_node(&im, w->twin[pass->root]);
        r->steps.inputs = ir->inputs;
        sf_rewrite_all(ir); /* exact rewrites only; a matmul becomes a sum of products */
        if (sf_plan_passes(&r->steps) != SF_OK || !within_limits(r) || !follow_lines(r))
                return false;
        lay_out(r);
        r->of = pass->out.buffer;
        for (int32_t d = 0, lines = 0; d < plan->buffer[r->of].ndim; d++)
                if (plan->buffer[r->of].shape[d] > 1)
                        r->line_of[lines++] = d;
        pass->again = r;
        return true;
}

bool sf_written_repairs(sf_plan *plan)
{
        bool good = true;
        for (int32_t i = 0; i < plan->passes && good; i++)
                if (is_checked(plan, plan->pass[i]))
                        good = make_repair(plan, i);
        return good;
}

void sf_written_forget(sf_plan *plan)
{
        for (sf_repair *r = plan->repairs; r; r = r->next)
                sf_ir_free(&r->steps.ir);
        plan->repairs = NULL;
}
