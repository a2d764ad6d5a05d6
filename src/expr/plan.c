/* Plans: made once for given shapes, dtypes and a device; the layout of their scratch is fixed. */
#include "expr/plan.h"

#include "backend.h"
#include "context.h"
#include "core/choose.h"
#include "core/mode.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------
 * Several results of one read
 * ---------------------------------------------------------------------------------------------------------- */

bool sf_plan_same_access(const sf_plan *plan, const sf_access *a, const sf_access *b)
{
        if (a->buffer != b->buffer)
                return false;
        for (int32_t d = 0; d < plan->buffer[a->buffer].ndim; d++)
                if (a->track[d].start != b->track[d].start || a->track[d].step != b->track[d].step || a->track[d].along != b->track[d].along ||
                    a->track[d].segment != b->track[d].segment)
                        return false;
        return true;
}

bool sf_plan_same_tensors(const sf_plan *plan, const sf_pass *a, const sf_pass *b)
{
        if (a->offsets != b->offsets || a->ndim != b->ndim || a->operands != b->operands || !a->operands || a->masked != b->masked ||
            (a->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape)))
                return false;
        if (a->masked && !sf_plan_same_access(plan, &a->mask, &b->mask))
                return false;
        for (int32_t k = 0; k < a->operands; k++)
                if (!sf_plan_same_access(plan, &a->operand[k], &b->operand[k]))
                        return false;
        return true;
}

/* Do both also have the same sequences? A fold of some of the tensors that another fold reads is
 * given all of them. */
static bool same_reads(const sf_plan *plan, const sf_pass *a, sf_pass *b)
{
        const bool fewer = a->step.fold && b->step.fold && b->operands < a->operands;
        return a->axes == b->axes && a->reverse == b->reverse && b->operands &&
               (!fewer || sf_plan_take_operands(plan, b, a)) && sf_plan_same_tensors(plan, a, b);
}

const char *sf_plan_apart(const sf_plan *plan, int32_t count, sf_pass *const *group, const sf_pass *pass)
{
        sf_step step[SF_SIBLINGS_MAX + 1];
        sf_fuse fuse[SF_SIBLINGS_MAX + 1];
        const sf_step *steps[SF_SIBLINGS_MAX + 1];
        for (int32_t i = 0; i <= count; i++) {
                const sf_pass *p = i < count ? group[i] : pass;
                step[i] = p->step;
                step[i].n = 1;
                for (int32_t d = 0; d < p->ndim; d++)
                        step[i].n *= p->axes >> d & 1 ? p->shape[d] : 1;
                if (p->fused) {
                        sf_pass_programs(p, &fuse[i]);
                        step[i].fuse = &fuse[i];
                }
                steps[i] = &step[i];
        }
        return sf_backend_apart(plan->device, count, steps, steps[count]);
}

static bool reads(const sf_pass *pass, int32_t buffer)
{
        bool found = pass->masked && pass->mask.buffer == buffer;
        for (int32_t k = 0; k < pass->operands; k++)
                found |= pass->operand[k].buffer == buffer;
        return found;
}

/* A fold of some of the tensors that a later fold reads waits for that one, which may have to wait
 * for other results, unless its own is needed before. */
static void put_off(sf_plan *plan)
{
        for (int32_t i = plan->passes - 1; i >= 0; i--) {
                sf_pass *pass = plan->pass[i], **at = plan->pass + i;
                for (int32_t j = 1; i + j < plan->passes && !reads(at[j], pass->out.buffer); j++) {
                        sf_pass other = *pass;
                        if (pass->operands >= at[j]->operands || pass->sibling ||
                            !same_reads(plan, at[j], &other))
                                continue;
                        memmove(at, at + 1, (size_t)j * sizeof *at);
                        at[j] = pass;
                        break;
                }
        }
}

/*
 * A later pass over the same operands moves up next to the first one, if the backend computes both
 * in one read. What it reads is in memory by then, because the first one reads the same. If the
 * first is a fold, and the later one is the scan whose total it is, the scan comes first.
 */
static void join_siblings(sf_plan *plan)
{
        put_off(plan);
        for (int32_t i = 0; i < plan->passes; i++) {
                int32_t count = 1;
                while (i + count < plan->passes && plan->pass[i + count]->sibling)
                        count++; /* results of one scan are together already */
                for (int32_t j = i + count; j < plan->passes && count < SF_SIBLINGS_MAX && !plan->pass[i]->sibling; j++) {
                        sf_pass *first = plan->pass[i], *pass = plan->pass[j];
                        sf_pass beside = *pass, *const other = &beside;
                        if (!same_reads(plan, first, other) ||
                            pass->out.buffer == first->out.buffer)
                                continue;
                        const bool apart = sf_plan_apart(plan, count, plan->pass + i, other);
                        const bool leads = apart && count == 1 &&
                                           !sf_plan_apart(plan, 1, &other, first);
                        if (apart && !leads)
                                continue;
                        *pass = beside;
                        const int32_t to = leads ? i : i + count;
                        memmove(plan->pass + to + 1, plan->pass + to, (size_t)(j - to) * sizeof(sf_pass *));
                        plan->pass[to] = pass;
                        plan->pass[i + count++]->sibling = true;
                }
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Results that are kept from run to run
 * ---------------------------------------------------------------------------------------------------------- */

/* Finds folds that read only inputs, are much smaller than those, and are read by a later pass: the
 * column sums of a weight, for example. */
static void find_kept(sf_plan *plan)
{
        enum { SMALLER = 8 };
        plan->kept = sf_ir_alloc(&plan->ir, (size_t)plan->passes * sizeof *plan->kept);
        for (int32_t i = 0; i < plan->passes; i++) {
                sf_pass *pass = plan->pass[i];
                sf_buffer *out = &plan->buffer[pass->out.buffer];
                uint64_t inputs = 0;
                bool from_inputs = pass->step.fold && out->place == SF_PLACE_SCRATCH && pass->operands && !sf_pass_joins(pass) &&
                                   sf_plan_together(plan, i) == 1 && sf_ir_at(&plan->ir, out->node)->kind != SF_IR_CONCAT;
                int64_t read = 0;
                for (int32_t k = 0; k < pass->operands + pass->masked; k++) {
                        const sf_buffer *b = &plan->buffer[k < pass->operands ? pass->operand[k].buffer : pass->mask.buffer];
                        from_inputs = from_inputs && b->place == SF_PLACE_INPUT && b->index < 64;
                        inputs |= from_inputs ? (uint64_t)1 << b->index : 0;
                        read += b->bytes;
                }
                if (!from_inputs || read < SMALLER * out->bytes || plan->kepts == SF_KEPT_MAX)
                        continue;
                pass->kept = out->kept = plan->kepts;
                sf_kept *kept = &plan->kept[plan->kepts++];
                memset(kept, 0, sizeof *kept);
                kept->inputs = inputs;
                kept->versions = memset(sf_ir_alloc(&plan->ir, (size_t)plan->inputs * sizeof *kept->versions), 0, (size_t)plan->inputs * sizeof *kept->versions);
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Scratch
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct lifetime {
        int32_t from, to; /* numbers of groups of passes that run together */
} lifetime;

/* Puts each intermediate result at the lowest offset that is free during its lifetime. */
static void lay_out_scratch(sf_plan *plan)
{
        lifetime *life = sf_ir_alloc(&plan->ir, (size_t)plan->buffers * sizeof *life);
        int32_t group = -1;
        for (int32_t b = 0; b < plan->buffers; b++)
                life[b] = (lifetime){INT32_MAX, -1};
        for (int32_t i = 0; i < plan->passes; i++) {
                const sf_pass *pass = plan->pass[i];
                group += !sf_pass_joins(pass);
                for (int32_t k = 0; k < pass->operands + pass->masked + 1; k++) {
                        int32_t b = k < pass->operands ? pass->operand[k].buffer : k == pass->operands ? pass->out.buffer : pass->mask.buffer;
                        life[b].from = group < life[b].from ? group : life[b].from;
                        life[b].to = group;
                }
                for (int32_t k = 0; pass->again && k < pass->again->steps.inputs; k++)
                        life[pass->again->leaf[k]].to = group;
        }
        for (int32_t b = 0; b < plan->buffers; b++) {
                sf_buffer *mine = &plan->buffer[b];
                if (mine->place != SF_PLACE_SCRATCH || life[b].to < 0)
                        continue;
                int64_t at = 0, size = (mine->bytes + SF_SCRATCH_ALIGN - 1) / SF_SCRATCH_ALIGN * SF_SCRATCH_ALIGN;
                bool moved = true;
                while (moved) {
                        moved = false;
                        for (int32_t o = 0; o < b; o++) {
                                const sf_buffer *other = &plan->buffer[o];
                                int64_t taken = (other->bytes + SF_SCRATCH_ALIGN - 1) / SF_SCRATCH_ALIGN * SF_SCRATCH_ALIGN;
                                if (other->place == SF_PLACE_SCRATCH && life[o].to >= life[b].from && life[o].from <= life[b].to &&
                                    at < other->offset + taken && other->offset < at + size) {
                                        at = other->offset + taken;
                                        moved = true;
                                }
                        }
                }
                mine->offset = at;
                plan->scratch = at + size > plan->scratch ? at + size : plan->scratch;
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Making a plan, and queries
 * ---------------------------------------------------------------------------------------------------------- */
static sf_status check_inputs(sf_context *ctx, const sf_graph *graph, int32_t ninputs, const sf_tensor *inputs, sf_device *device)
{
        if (!graph->outputs)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "the graph has no output; name one with sf_expr_output");
        if (ninputs != graph->inputs || (ninputs && !inputs))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "ninputs is %d%s; the graph has %d", (int)ninputs, inputs || !ninputs ? "" : " and inputs is NULL",
                               (int)graph->inputs);
        *device = ninputs && !sf_on_host(inputs[0].device) ? inputs[0].device
                                                           : (sf_device){SF_CPU, 0};
        for (int32_t i = 0; i < ninputs; i++) {
                sf_tensor t = inputs[i];
                sf_view view;
                char nothing;
                t.strides = NULL;
                t.data = &nothing; /* data is not used */
                SF_TRY(sf_view_init(ctx, graph->name[i], &t, &view));
                SF_TRY(sf_backend_check(ctx, graph->name[i], t.device));
                if (!sf_same_device(t.device, *device))
                        return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is on device (%d, %d) but %s is on (%d, %d); they must be on the same one", graph->name[i],
                                       (int)t.device.device_type, (int)t.device.device_id, graph->name[0], (int)device->device_type,
                                       (int)device->device_id);
        }
        return SF_OK;
}

/* Makes the passes in their order, and what computes those results again that are rounded
 * differently; if that is not possible, makes the exact passes. */
static sf_status arrange_passes(sf_plan *plan)
{
        bool again;
        do {
                again = false;
                SF_TRY(sf_plan_passes(plan));
                if (plan->written && !sf_written_check(plan, &again)) {
                        sf_written_only(plan);
                        again = true;
                }
        } while (again);
        join_siblings(plan);
        if (plan->written && !sf_written_repairs(plan)) {
                sf_written_only(plan);
                SF_TRY(sf_plan_passes(plan));
                join_siblings(plan);
        }
        sf_plan_chains(plan);
        return SF_OK;
}

static sf_status make(sf_plan *plan, const sf_graph *graph, const sf_tensor *inputs)
{
        sf_ir *ir = &plan->ir;
        if (setjmp(ir->no_memory))
                return sf_fail(plan->ctx, SF_OUT_OF_MEMORY, "no memory for a plan of %d nodes", (int)graph->nodes);
        SF_TRY(sf_infer(ir, graph, inputs));
        const int32_t merged = ir->merged;
        ir->written = ir->nodes;
        sf_rewrite_all(ir);
        ir->merged = merged; /* do not count what rewrites made twice */
        sf_written_find(plan);
        SF_TRY(arrange_passes(plan));
        sf_plan_remarks(plan);
        find_kept(plan);
        lay_out_scratch(plan);
        return sf_plan_measure_scratch(plan);
}

sf_status sf_plan_create(sf_context *given, const sf_graph *graph, int32_t ninputs, const sf_tensor *inputs, const sf_plan_options *options, sf_plan **out)
{
        sf_context *ctx;
        sf_device device;
        sf_plan_options o = SF_PLAN_OPTIONS_INIT;
        SF_TRY(sf_context_resolve(given, &ctx));
        if (options)
                SF_TRY(sf_options_read(ctx, "sf_plan_options", options, &o, sizeof o, SF_RESERVED_PLAN));
        if (!graph || !out)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is NULL", !graph ? "graph" : "plan");
        SF_TRY(check_inputs(ctx, graph, ninputs, inputs, &device));
        sf_plan *plan = calloc(1, sizeof *plan);
        if (!plan)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory for a plan");
        plan->ctx = plan->ir.ctx = ctx;
        plan->device = device;
        plan->inputs = ninputs;
        plan->outputs = graph->outputs;
        plan->ir.exact = o.exact != 0;
        pthread_mutex_init(&plan->lock, NULL);
        const sf_mode mode = sf_mode_enter(); /* constants are computed in this mode */
        sf_status status = make(plan, graph, inputs);
        sf_mode_leave(mode);
        if (status != SF_OK) {
                sf_plan_destroy(plan);
                return status;
        }
        *out = plan;
        return SF_OK;
}

void sf_plan_destroy(sf_plan *plan)
{
        if (!plan)
                return;
        for (int32_t i = 0; i < plan->kepts; i++)
                sf_plan_forget(plan, &plan->kept[i]);
        pthread_mutex_destroy(&plan->lock);
        sf_written_forget(plan);
        sf_ir_free(&plan->ir);
        free(plan);
}

int32_t sf_plan_outputs(const sf_plan *plan)
{
        return plan ? plan->outputs : 0;
}

sf_status sf_plan_output(const sf_plan *plan, int32_t index, int32_t *ndim, int64_t *shape, sf_dtype *dtype)
{
        if (!plan || index < 0 || index >= plan->outputs)
                return sf_fail(plan ? plan->ctx : NULL, SF_INVALID_ARGUMENT, "%s", plan ? "index is not that of an output" : "plan is NULL");
        const sf_buffer *b = &plan->buffer[plan->output_buffer[index]];
        if (ndim)
                *ndim = b->ndim;
        if (shape && b->ndim)
                memcpy(shape, b->shape, (size_t)b->ndim * sizeof *shape);
        if (dtype)
                *dtype = (sf_dtype){sf_dtypes[b->dt].code, sf_dtypes[b->dt].bits, 1};
        return SF_OK;
}

sf_status sf_plan_workspace(const sf_plan *plan, size_t *size)
{
        if (!plan || !size)
                return sf_fail(plan ? plan->ctx : NULL, SF_INVALID_ARGUMENT, "%s is NULL", plan ? "size" : "plan");
        *size = (size_t)plan->scratch + plan->step_scratch;
        return SF_OK;
}
