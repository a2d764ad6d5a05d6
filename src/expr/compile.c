/* Elementwise work as programs: what a pass does to elements when it loads them, and to results
 * when it stores them. */
#include "core/choose.h"
#include "core/value.h"
#include "expr/plan.h"

#include <math.h>
#include <string.h>

typedef struct draft {
        sf_planner *planner;
        sf_ir *ir;
        sf_pass *pass;
        sf_program *program; /* the one being written */
        uint32_t *reads;
        int32_t core;        /* in a store: the node that RESULT is the value of */
        int32_t cut;         /* on failure: the node that must become a result of its own */
        int32_t root;
        /* What each instruction computes, so that nothing is computed twice, and how large its
         * expression is. */
        struct {
                int32_t node;
                const sf_track *track;
                int32_t weight;   /* instructions that it needs, shared ones counted again */
                uint32_t operands;
        } made[SF_PROGRAM_MAX];
        int32_t path[SF_PROGRAM_MAX + 1]; /* the maps being compiled, outermost first */
        int32_t depth;
} draft;

/* ------------------------------------------------------------------------------------------------------------
 * Tracks
 * ---------------------------------------------------------------------------------------------------------- */
const sf_track *sf_track_identity(sf_ir *ir, int32_t ndim)
{
        sf_track *track = sf_ir_alloc(ir, (size_t)ndim * sizeof *track);
        for (int32_t d = 0; d < ndim; d++)
                track[d] = (sf_track){0, 1, d, false};
        return track;
}

/* An axis whose index does not change. */
static const sf_track still = {0, 0, -1, false};

static const sf_track *broadcast_track(sf_ir *ir, const sf_ir_node *n, const sf_ir_node *x, const sf_track *track)
{
        if (sf_ir_same_shape(n, x))
                return track;
        sf_track *t = sf_ir_alloc(ir, (size_t)x->ndim * sizeof *t);
        int32_t lead = n->ndim - x->ndim;
        for (int32_t d = 0; d < x->ndim; d++)
                t[d] = x->shape[d] == 1 ? still : track[lead + d];
        return t;
}

const sf_track *sf_track_argument(sf_ir *ir, const sf_ir_node *n, const sf_ir_node *x, const sf_track *track)
{
        if (n->kind == SF_IR_MAP || n->kind == SF_IR_BROADCAST)
                return broadcast_track(ir, n, x, track);
        sf_track *t = sf_ir_alloc(ir, (size_t)x->ndim * sizeof *t);
        int32_t other = 0;
        for (int32_t d = 0; d < x->ndim; d++) {
                switch (n->kind) {
                case SF_IR_FLIP:
                        t[d] = track[d];
                        if (n->axes >> d & 1)
                                t[d] = (sf_track){x->shape[d] - 1 - track[d].start, -track[d].step, track[d].along, track[d].segment};
                        break;
                case SF_IR_SQUEEZE: t[d] = n->axes >> d & 1 ? still : track[other++]; break;
                case SF_IR_UNSQUEEZE:
                        while (n->axes >> other & 1)
                                other++;
                        t[d] = track[other++];
                        break;
                case SF_IR_SLICE:
                        t[d] = track[d];
                        if (d == n->index)
                                t[d] = (sf_track){n->start + n->step * track[d].start, n->step * track[d].step, track[d].along, track[d].segment};
                        break;
                case SF_IR_SPREAD:
                        t[d] = track[d];
                        t[d].segment |= n->axes >> d & 1;
                        break;
                default: /* SF_IR_PERMUTE */
                        t[n->list[d]] = track[d];
                        break;
                }
        }
        return t;
}

static bool same_track(int32_t ndim, const sf_track *a, const sf_track *b)
{
        for (int32_t d = 0; a != b && d < ndim; d++)
                if (a[d].start != b[d].start || a[d].step != b[d].step || a[d].along != b[d].along || a[d].segment != b[d].segment)
                        return false;
        return true;
}

/* ------------------------------------------------------------------------------------------------------------
 * Instructions
 * ---------------------------------------------------------------------------------------------------------- */

/*
 * The program is too long, or reads too many tensors. A part of it must become a result of its own:
 * the largest complete part, or, if only loads are complete, the map that is being compiled now.
 */
static int32_t overflow(draft *d, bool operands)
{
        int32_t best = -1, weight = 1;
        for (int32_t i = 0; i < d->program->count; i++) {
                const sf_ir_node *n = d->made[i].node ? sf_ir_at(d->ir, d->made[i].node) : NULL;
                int32_t mine = operands ? __builtin_popcount(d->made[i].operands) : d->made[i].weight;
                if (n && n->kind == SF_IR_MAP && d->made[i].node != d->root && mine > weight) {
                        best = i;
                        weight = mine;
                }
        }
        d->cut = best >= 0 ? d->made[best].node : d->depth && d->path[d->depth - 1] != d->root ? d->path[d->depth - 1] : -1;
        return -1;
}

static int32_t emit(draft *d, sf_instruction i, int32_t node, const sf_track *track)
{
        sf_program *p = d->program;
        static const uint8_t arguments[SF_CODE_COUNT] = {
#define CODE(name, NAME, count, kind) [SF_CODE_##NAME] = (count),
#include "core/codes.def"
#undef CODE
        };
        if (p->count == SF_PROGRAM_MAX)
                return overflow(d, false);
        d->made[p->count].node = node;
        d->made[p->count].track = track;
        d->made[p->count].weight = 1;
        d->made[p->count].operands = i.code == SF_CODE_LOAD ? 1u << i.slot : 0;
        for (int k = 0; k < arguments[i.code]; k++) {
                d->made[p->count].weight += d->made[i.arg[k]].weight;
                d->made[p->count].operands |= d->made[i.arg[k]].operands;
        }
        p->code[p->count] = i;
        return p->count++;
}

static int32_t emit_constant(draft *d, sf_dt dt, sf_value v, int32_t node)
{
        sf_program *p = d->program;
        if (p->count == SF_PROGRAM_MAX)
                return overflow(d, false);
        p->constant[p->constants] = v;
        return emit(d, (sf_instruction){.code = SF_CODE_CONSTANT, .dt = (uint8_t)dt, .slot = (uint8_t)p->constants++}, node, NULL);
}

static int32_t emit_cast(draft *d, int32_t value, sf_dt dt)
{
        if (value < 0 || d->program->code[value].dt == dt)
                return value;
        return emit(d, (sf_instruction){.code = SF_CODE_CAST, .dt = (uint8_t)dt, .arg = {(uint8_t)value}}, 0, NULL);
}

static int32_t emit_load(draft *d, int32_t node, const sf_track *track)
{
        sf_pass *pass = d->pass;
        const sf_ir_node *n = sf_ir_at(d->ir, node);
        int32_t buffer = sf_plan_buffer(d->planner, node), slot = 0;
        while (slot < pass->operands && (pass->operand[slot].buffer != buffer || !same_track(n->ndim, pass->operand[slot].track, track)))
                slot++;
        if (slot == SF_OPERANDS_MAX)
                return overflow(d, true);
        if (slot == pass->operands)
                pass->operand[pass->operands++] = (sf_access){buffer, track};
        *d->reads |= 1u << slot;
        return emit(d, (sf_instruction){.code = SF_CODE_LOAD, .dt = (uint8_t)n->dt, .slot = (uint8_t)slot}, node, track);
}

/* The value of the scan or fold: divided by the count for a mean, and rounded to the node's
 * type. */
static int32_t emit_result(draft *d)
{
        const sf_ir_node *core = sf_ir_at(d->ir, d->core);
        int32_t value = emit(d, (sf_instruction){.code = SF_CODE_RESULT, .dt = (uint8_t)sf_op_result(core->op, core->acc)}, 0, NULL);
        if (value >= 0 && core->mean) {
                double count = (double)sf_ir_length(sf_ir_at(d->ir, sf_ir_arg(d->ir, core, 0)), core->axes);
                int32_t by = emit_constant(d, core->acc, sf_value_from_f64(count, core->acc), 0);
                if (by < 0)
                        return by;
                value = emit(d, (sf_instruction){.code = SF_CODE_DIV, .dt = (uint8_t)core->acc, .arg = {(uint8_t)value, (uint8_t)by}}, 0, NULL);
        }
        value = emit_cast(d, value, core->dt);
        if (value >= 0)
                d->made[value].node = d->core;
        return value;
}

/* Must this node be read from memory, rather than computed in this pass? */
static bool is_memory(const draft *d, int32_t node)
{
        const sf_ir_node *n = sf_ir_at(d->ir, node);
        return n->kind == SF_IR_INPUT || n->kind == SF_IR_SCAN || n->kind == SF_IR_FOLD || n->kind == SF_IR_CONCAT ||
               (d->planner->cut[node] && (node != d->root || d->planner->copying));
}

/* May the pass read an operand with one element per segment? If it has no segments yet, it gets
 * these; a pass has one set of segments. */
static bool takes_segments(draft *d, const sf_ir_node *n, const sf_track *track)
{
        sf_pass *pass = d->pass;
        const sf_track *t = &track[__builtin_ctzll(n->axes)];
        if (t->start || t->step != 1 || t->along < 0 || t->segment)
                return false;
        const uint64_t axes = (uint64_t)1 << t->along;
        if (!pass->core && !pass->offsets) {
                pass->offsets = n->index;
                pass->axes = axes;
        }
        return pass->offsets == n->index && pass->axes == axes;
}

/*
 * A tensor shifted by one position along the axis of a scan, with 0 where it has no element:
 * concat([zeros, x[..., :-1]]) in the store of a reverse scan, concat([x[..., 1:], zeros]) in that
 * of another. It need not be made: the store reads x there, which lacks the sequence's last
 * element. Returns x, and its tracks; or 0 if the node is something else.
 */
static int32_t find_shifted(const draft *d, int32_t node, const sf_track **track)
{
        const sf_ir_node *n = sf_ir_at(d->ir, node), *core = sf_ir_at(d->ir, d->core ? d->core : node);
        const sf_plan *plan = d->planner->plan;
        if (n->kind != SF_IR_CONCAT || n->nlist != 2 || d->planner->cut[node] || plan->written)
                return 0;
        if (core->kind != SF_IR_SCAN || core->index || !sf_backend_doubles(plan->device))
                return 0;
        const int32_t axis = n->index, zero = sf_ir_arg(d->ir, n, !core->reverse);
        const sf_track *at = &(*track)[axis];
        const sf_ir_node *rest = sf_ir_at(d->ir, sf_ir_arg(d->ir, n, core->reverse));
        double value = 1;
        if (core->axes != (uint64_t)1 << axis || at->start || at->step != 1 || at->along != axis)
                return 0;
        if (n->shape[axis] < 2 || rest->kind != SF_IR_SLICE || rest->index != axis || rest->step != 1 ||
            rest->start != !core->reverse)
                return 0;
        if (!sf_ir_is_number(d->ir, zero, &value) || value != 0 || signbit(value))
                return 0;
        const int32_t x = sf_ir_arg(d->ir, rest, 0);
        const sf_ir_node *nx = sf_ir_at(d->ir, x);
        if (nx->kind != SF_IR_INPUT || !sf_ir_same_shape(nx, n))
                return 0;
        sf_track *shifted = sf_ir_alloc(d->ir, (size_t)n->ndim * sizeof *shifted);
        memcpy(shifted, *track, (size_t)n->ndim * sizeof *shifted);
        shifted[axis].start = core->reverse ? -1 : 1;
        *track = shifted;
        return x;
}

static int32_t compile(draft *d, int32_t node, const sf_track *track)
{
        const sf_ir_node *n = sf_ir_at(d->ir, node);
        for (; (sf_ir_is_view(n) || n->kind == SF_IR_SPREAD) && !is_memory(d, node); n = sf_ir_at(d->ir, node)) {
                if (n->kind == SF_IR_SPREAD && !takes_segments(d, n, track)) {
                        d->cut = node; /* the spread becomes a result of its own */
                        return -1;
                }
                node = sf_ir_arg(d->ir, n, 0);
                track = sf_track_argument(d->ir, n, sf_ir_at(d->ir, node), track);
        }
        for (int32_t i = 0; i < d->program->count; i++)
                if (d->made[i].node == node && (node == d->core || n->kind == SF_IR_CONSTANT || same_track(n->ndim, d->made[i].track, track)))
                        return i;
        if (d->core && node == d->core)
                return emit_result(d);
        if (n->kind == SF_IR_CONSTANT)
                return emit_constant(d, n->dt, n->value, node);
        const int32_t shifted = find_shifted(d, node, &track);
        if (shifted)
                return emit_load(d, shifted, track);
        if (is_memory(d, node))
                return emit_load(d, node, track);
        if (d->depth == SF_PROGRAM_MAX)
                return overflow(d, false); /* each of these maps needs an instruction */
        d->path[d->depth++] = node;
        sf_instruction code = {.code = (uint8_t)n->code, .dt = (uint8_t)n->dt};
        for (int32_t i = 0; i < sf_ir_args(n); i++) {
                int32_t arg = sf_ir_arg(d->ir, n, i), value = compile(d, arg, sf_track_argument(d->ir, n, sf_ir_at(d->ir, arg), track));
                if (value < 0)
                        return value;
                code.arg[i] = (uint8_t)value;
        }
        d->depth--;
        return emit(d, code, node, track);
}

/* ------------------------------------------------------------------------------------------------------------
 * Passes
 * ---------------------------------------------------------------------------------------------------------- */

/* A mask that is in memory becomes the mask of the step; any other is computed in the load, by
 * where. */
static bool mask_in_memory(draft *d, int32_t mask, int32_t ndim)
{
        const sf_ir_node *n = sf_ir_at(d->ir, mask), *like = sf_ir_at(d->ir, sf_ir_arg(d->ir, sf_ir_at(d->ir, d->pass->core), 0));
        const sf_track *track = broadcast_track(d->ir, like, n, sf_track_identity(d->ir, ndim));
        for (; sf_ir_is_view(n) && !is_memory(d, mask); n = sf_ir_at(d->ir, mask)) {
                mask = sf_ir_arg(d->ir, n, 0);
                track = sf_track_argument(d->ir, n, sf_ir_at(d->ir, mask), track);
        }
        if (!is_memory(d, mask))
                return false;
        d->pass->mask = (sf_access){sf_plan_buffer(d->planner, mask), track};
        d->pass->masked = true;
        return true;
}

/* mask ? value : identity */
static int32_t emit_masked(draft *d, int32_t mask, int32_t value, const sf_track *track)
{
        const sf_ir_node *n = sf_ir_at(d->ir, mask), *x = sf_ir_at(d->ir, sf_ir_arg(d->ir, sf_ir_at(d->ir, d->pass->core), 0));
        int32_t kept = value < 0 ? value : compile(d, mask, broadcast_track(d->ir, x, n, track));
        kept = emit_cast(d, kept, SF_DT_BOOL);
        int32_t identity = kept < 0 ? kept : emit_constant(d, d->pass->step.acc, d->pass->step.identity, 0);
        if (identity < 0)
                return identity;
        return emit(d, (sf_instruction){.code = SF_CODE_WHERE, .dt = (uint8_t)d->pass->step.acc, .arg = {(uint8_t)kept, (uint8_t)value, (uint8_t)identity}},
                    0, NULL);
}

double sf_access_extent(const sf_plan *plan, const sf_pass *pass, const sf_access *a)
{
        double positions = 1;
        for (int32_t d = 0; d < plan->buffer[a->buffer].ndim; d++)
                if (a->track[d].along >= 0 && !a->track[d].segment)
                        positions *= (double)pass->shape[a->track[d].along];
        return positions;
}

bool sf_access_lacks_last(const sf_plan *plan, const sf_pass *pass, const sf_access *a)
{
        const sf_buffer *b = &plan->buffer[a->buffer];
        bool lacks = false;
        for (int32_t d = 0; d < b->ndim; d++) {
                const sf_track *t = &a->track[d];
                const bool along = t->along >= 0 && pass->axes >> t->along & 1 && !t->segment;
                const int64_t at = along && !pass->reverse ? pass->shape[t->along] - 1 : 0;
                const int64_t last = along ? t->start + t->step * at : 0;
                lacks = lacks || last < 0 || (along && last >= b->shape[d]);
        }
        return lacks;
}

/* Makes the operand that is broadcast least the step's x, whose strides decide the layout; among
 * equal ones, an operand of the load. */
static void choose_x(const sf_plan *plan, sf_pass *pass)
{
        int32_t best = 0;
        double most = -1;
        for (int32_t k = 0; k < pass->operands; k++) {
                double mine = sf_access_extent(plan, pass, &pass->operand[k]) + (pass->load_reads >> k & 1 ? 0.5 : 0);
                if (sf_access_lacks_last(plan, pass, &pass->operand[k]))
                        continue; /* x has all its elements */
                if (mine > most) {
                        best = k;
                        most = mine;
                }
        }
        if (!best)
                return;
        sf_access x = pass->operand[best];
        pass->operand[best] = pass->operand[0];
        pass->operand[0] = x;
        sf_program *programs[3] = {&pass->load, &pass->beside, &pass->store};
        uint32_t *reads[2] = {&pass->load_reads, &pass->store_reads};
        for (int i = 0; i < 3; i++)
                for (int32_t k = 0; k < programs[i]->count; k++) {
                        sf_instruction *code = &programs[i]->code[k];
                        if (code->code == SF_CODE_LOAD && (code->slot == 0 || code->slot == best))
                                code->slot = code->slot ? 0 : (uint8_t)best;
                }
        for (int i = 0; i < 2; i++) {
                uint32_t first = *reads[i] & 1, other = *reads[i] >> best & 1;
                *reads[i] = (*reads[i] & ~(1u | 1u << best)) | other | first << best;
        }
}

/* Can the step do without programs? It can if it loads one tensor, and the table of dtypes has the
 * conversion. */
static bool is_plain(const sf_planner *planner, const sf_pass *pass, sf_op op)
{
        sf_step like;
        if (pass->operands != 1 || pass->store.count || pass->beside.count || pass->load.code[0].code != SF_CODE_LOAD ||
            (pass->load.count == 2 && pass->load.code[1].code != SF_CODE_CAST) || pass->load.count > 2)
                return false;
        sf_dt in = planner->plan->buffer[pass->operand[0].buffer].dt;
        if (!sf_step_pair(&like, op, in, pass->step.out))
                return false;
        return like.op == pass->step.op && (like.acc == pass->step.acc || (like.acc == SF_DT_F32 && pass->step.acc == SF_DT_F64));
}

/* Sets the step's operation, types and values. Its tensors are not known yet. */
static void start_step(draft *d, const sf_ir_node *root, const sf_ir_node *core)
{
        sf_step *s = &d->pass->step;
        memset(s, 0, sizeof *s);
        if (core) {
                sf_step_pair(s, core->op, sf_ir_at(d->ir, sf_ir_arg(d->ir, core, 0))->dt, core->dt);
                s->acc = core->acc;
                sf_step_initial(d->ir->ctx, s, (sf_scalar){0});
                s->has_initial = core->has_initial;
                s->initial = sf_lift_initial(core->op, s->acc, core->value);
                s->fold = core->kind == SF_IR_FOLD;
                s->exclusive = core->exclusive;
        } else {
                sf_step_pair(s, SF_SUM, root->dt, root->dt);
                sf_step_initial(d->ir->ctx, s, (sf_scalar){0});
        }
        s->out = root->dt;
}

/* Compiles a program whose value is a node's elements, masked or not, in the accumulator's type. If
 * it returns false, d->cut is the node that must become a result of its own. */
static bool compile_elements(draft *d, sf_program *program, int32_t node, int32_t mask, const sf_track *track)
{
        const sf_dt acc = d->pass->step.acc;
        d->program = program;
        d->reads = &d->pass->load_reads;
        d->depth = 0;
        int32_t value = emit_cast(d, compile(d, node, track), acc);
        if (mask)
                value = emit_masked(d, mask, value, track);
        /* The program's value is that of its last instruction, so a value that was computed earlier
         * is repeated at the end. */
        if (value >= 0 && value != program->count - 1)
                value = emit(d, (sf_instruction){.code = SF_CODE_CAST, .dt = (uint8_t)acc, .arg = {(uint8_t)value}}, 0, NULL);
        return value >= 0;
}

static bool reads_spread(const sf_plan *plan, const sf_pass *pass)
{
        bool found = false;
        for (int32_t k = 0; k < pass->operands; k++)
                for (int32_t d = 0; d < plan->buffer[pass->operand[k].buffer].ndim; d++)
                        found = found || pass->operand[k].track[d].segment;
        return found;
}

int32_t sf_compile_pass(sf_planner *planner, int32_t root, int32_t core, const sf_track *root_track, sf_pass *pass)
{
        sf_ir *ir = planner->ir;
        draft *d = sf_ir_alloc(ir, sizeof *d);
        const sf_ir_node *nr = sf_ir_at(ir, root), *nc = core ? sf_ir_at(ir, core) : NULL, *x = core ? sf_ir_at(ir, sf_ir_arg(ir, nc, 0)) : nr;
        memset(d, 0, sizeof *d);
        *d = (draft){.planner = planner, .ir = ir, .pass = pass, .root = root};
        memset(pass, 0, sizeof *pass);
        pass->root = root;
        pass->core = core;
        pass->kept = -1;
        pass->ndim = x->ndim;
        pass->shape = x->shape;
        pass->axes = core ? nc->axes : 0;
        pass->reverse = core && nc->reverse;
        pass->offsets = core ? nc->index : 0;
        start_step(d, nr, nc);

        const sf_track *identity = sf_track_identity(ir, x->ndim);
        const bool two = core && sf_op_is(nc->op, SF_TWO);
        int32_t value;
        bool choose =
                core && !two && nc->arg[1] &&
                (planner->plan->of_lines || !mask_in_memory(d, sf_ir_arg(ir, nc, 1), x->ndim));
        if (choose && sf_op_is(nc->op, SF_INDEX) && !planner->plan->of_lines)
                /* a masked-out element has no position, and no value in the load could express
                 * that */
                return sf_ir_arg(ir, nc, 1);
        if (!compile_elements(d, &pass->load, core ? sf_ir_arg(ir, nc, 0) : root, choose ? sf_ir_arg(ir, nc, 1) : 0, identity))
                return d->cut;
        if (two) {
                const int32_t a = sf_ir_arg(ir, nc, 1);
                if (!compile_elements(d, &pass->beside, a, 0, broadcast_track(ir, x, sf_ir_at(ir, a), identity)))
                        return d->cut;
        }

        if (core && (root != core || nc->mean)) {
                d->program = &pass->store;
                d->reads = &pass->store_reads;
                d->core = core;
                d->depth = 0;
                value = compile(d, root, root_track);
                if (value >= 0 && value != pass->store.count - 1)
                        value = emit(d, (sf_instruction){.code = SF_CODE_CAST, .dt = (uint8_t)nr->dt, .arg = {(uint8_t)value}}, 0, NULL);
                if (value < 0)
                        return d->cut;
                if (pass->store.count <= 2 && !nc->mean && pass->store.code[0].code == SF_CODE_RESULT && pass->store.code[pass->store.count - 1].dt == nr->dt &&
                    (pass->store.count == 1 || pass->store.code[1].code == SF_CODE_CAST))
                        /* the result, rounded to out: a step without a store does the same */
                        pass->store.count = 0;
        }
        choose_x(planner->plan, pass);
        pass->step.in = pass->operands ? planner->plan->buffer[pass->operand[0].buffer].dt : SF_DT_U8;
        pass->step.map = !core && pass->offsets;
        pass->fused = pass->step.map || reads_spread(planner->plan, pass) || !is_plain(planner, pass, core ? nc->op : SF_SUM);
        if (!pass->fused)
                pass->load.count = 0;
        return 0;
}
