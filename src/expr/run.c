/* Runs a plan: checks the tensors, multiplies the strides in, and passes the steps to the backend.
 * A warm run allocates nothing. */
#include "expr/plan.h"

#include "core/again.h"
#include "core/arena.h"
#include "core/choose.h"

#include <string.h>

sf_status sf_run_steps(sf_context *ctx, int32_t count, sf_step *steps, const sf_step_views *views, void *workspace, size_t workspace_size, size_t *needs)
{
        int32_t chained = 0; /* how many are the chain */
        for (int32_t i = 1; i < count && !views[i].across; i++)
                chained = views[i].follows || chained ? i + 1 : 0;
        if (chained)
                sf_chain_geometry(chained, steps, views);
        for (int32_t i = chained; i < count; i++) {
                sf_step_geometry(&steps[i], &views[i]);
                steps[i].sibling = i + 1 < count ? &steps[i + 1] : NULL;
                steps[i].then = NULL;
        }
        steps[0].across = chained && chained < count ? &steps[chained] : NULL;
        return needs ? sf_backend_workspace(ctx, steps, needs) : sf_backend_run(ctx, steps, workspace, workspace_size);
}

/* The tensors of one run: views of the inputs, then of the outputs; where scratch begins; and what
 * the run does with each kept result. */
typedef struct job {
        sf_plan *plan;
        sf_view *view;
        char *scratch;
        void *stream;
        const uint64_t *versions;
        enum { AS_SCRATCH, READ, MADE } kept[SF_KEPT_MAX];
        int32_t place[SF_KEPT_MAX]; /* what sf_backend_begin returned */
} job;

/* ------------------------------------------------------------------------------------------------------------
 * Tensors
 * ---------------------------------------------------------------------------------------------------------- */
static sf_status check_tensor(const sf_plan *plan, const char *name, const sf_tensor *t, const sf_buffer *b, sf_view *view)
{
        char given[128], right[128];
        SF_TRY(sf_view_init(plan->ctx, name, t, view));
        if (!sf_same_device(t->device, plan->device))
                return sf_fail(plan->ctx, SF_INVALID_ARGUMENT, "%s is on device (%d, %d); the plan is for (%d, %d)", name, (int)t->device.device_type,
                               (int)t->device.device_id, (int)plan->device.device_type, (int)plan->device.device_id);
        if (view->dt != b->dt)
                return sf_fail(plan->ctx, SF_INVALID_ARGUMENT, "%s is %s; the plan is for %s", name, sf_dtypes[view->dt].name, sf_dtypes[b->dt].name);
        if (view->ndim != b->ndim || (b->ndim && memcmp(view->shape, b->shape, (size_t)b->ndim * sizeof *b->shape)))
                return sf_fail(plan->ctx, SF_INVALID_ARGUMENT, "%s has shape %s; the plan is for %s", name, sf_shape_text(view->ndim, view->shape, given),
                               sf_shape_text(b->ndim, b->shape, right));
        return SF_OK;
}

static sf_status check_tensors(const sf_plan *plan, const sf_tensor *inputs, const sf_tensor *outputs, sf_view *view)
{
        if ((plan->inputs && !inputs) || !outputs)
                return sf_fail(plan->ctx, SF_INVALID_ARGUMENT, "%s is NULL", outputs ? "inputs" : "outputs");
        for (int32_t i = 0; i < plan->inputs; i++)
                SF_TRY(check_tensor(plan, plan->ir.name[i], &inputs[i], &plan->buffer[plan->input_buffer[i]], &view[i]));
        for (int32_t i = 0; i < plan->outputs; i++) {
                sf_view *mine = &view[plan->inputs + i];
                const char *name = plan->output_name[i];
                SF_TRY(check_tensor(plan, name, &outputs[i], &plan->buffer[plan->output_buffer[i]], mine));
                if (sf_view_overlaps_itself(mine))
                        return sf_fail(plan->ctx, SF_INVALID_ARGUMENT, "%s has strides that make two of its elements share memory", name);
                for (int32_t k = 0; k < plan->inputs + i; k++)
                        if (sf_view_overlap(&view[k], mine))
                                return sf_fail(plan->ctx, SF_INVALID_ARGUMENT, "%s overlaps %s; it must be memory of its own", name,
                                               k < plan->inputs ? plan->ir.name[k] : plan->output_name[k - plan->inputs]);
        }
        return SF_OK;
}

static int64_t cut_length(const sf_pass *pass)
{
        return pass->shape[__builtin_ctzll(pass->axes)];
}

/* Have the offsets of this pass been checked already, for an axis that is not longer? */
static bool is_checked(const sf_plan *plan, int32_t number)
{
        const sf_pass *pass = plan->pass[number];
        bool found = false;
        for (int32_t i = 0; i < number && !found; i++)
                found = plan->pass[i]->offsets == pass->offsets && cut_length(plan->pass[i]) <= cut_length(pass);
        return found;
}

/* Checks the values of all offsets. */
static sf_status check_segments(const sf_plan *plan, void *stream, const sf_view *view)
{
        for (int32_t i = 0; i < plan->passes; i++) {
                const sf_pass *pass = plan->pass[i];
                const int32_t input = pass->offsets - 1;
                if (input < 0 || is_checked(plan, i))
                        continue;
                const sf_segments segments = sf_segments_of(&view[input]);
                SF_TRY(sf_backend_check_segments(plan->ctx, plan->device, stream, &segments, cut_length(pass)));
        }
        return SF_OK;
}

/* The address of a buffer's first element, and its strides. */
static char *find_tensor(const job *j, int32_t buffer, int64_t *strides)
{
        const sf_buffer *b = &j->plan->buffer[buffer];
        const sf_view *given = b->place == SF_PLACE_SCRATCH ? NULL : &j->view[b->place == SF_PLACE_INPUT ? b->index : j->plan->inputs + b->index];
        int64_t compact = sf_dtypes[b->dt].size;
        for (int32_t d = b->ndim - 1; d >= 0; d--) {
                strides[d] = given ? given->strides[d] : compact;
                compact *= b->shape[d];
        }
        if (b->kept >= 0 && j->kept[b->kept] != AS_SCRATCH)
                return j->plan->kept[b->kept].memory.data;
        return given ? given->data : j->scratch ? j->scratch + b->offset : NULL;
}

/* A tensor of `ndim` axes as a view with the pass's axes. */
static void walk_tensor(const sf_pass *pass, const sf_track *track, int32_t ndim,
                        const int64_t *strides, sf_view *v)
{
        v->ndim = pass->ndim;
        v->shape = pass->shape;
        for (int32_t d = 0; d < pass->ndim; d++)
                v->strides[d] = 0;
        for (int32_t d = 0; d < ndim; d++) {
                v->data = v->data ? v->data + track[d].start * strides[d] : NULL;
                if (track[d].along >= 0)
                        v->strides[track[d].along] += track[d].step * strides[d];
        }
}

static void see(const job *j, const sf_pass *pass, const sf_access *access, sf_view *v)
{
        const sf_buffer *b = &j->plan->buffer[access->buffer];
        int64_t strides[SF_MAX_NDIM];
        v->dt = b->dt;
        v->data = find_tensor(j, access->buffer, strides);
        walk_tensor(pass, access->track, b->ndim, strides, v);
}

/* ------------------------------------------------------------------------------------------------------------
 * Passes
 * ---------------------------------------------------------------------------------------------------------- */

/* The tensors that a pass reads, as views. */
typedef struct described {
        sf_view operand[SF_OPERANDS_MAX], mask;
} described;

static void describe_tensors(const job *j, const sf_pass *pass, described *d)
{
        for (int32_t k = 0; k < pass->operands; k++)
                see(j, pass, &pass->operand[k], &d->operand[k]);
        if (pass->masked)
                see(j, pass, &pass->mask, &d->mask);
}

static void describe_pass(const job *j, const sf_pass *pass, described *d, sf_view *out, sf_step *step, sf_step_views *views, sf_fuse *fuse)
{
        see(j, pass, &pass->out, out);
        if (!pass->operands) { /* constants alone: x must be valid memory, but is not read */
                d->operand[0] = *out;
                d->operand[0].dt = pass->step.in;
                memset(d->operand[0].strides, 0, (size_t)pass->ndim * sizeof d->operand[0].strides[0]);
        }
        *step = pass->step;
        step->device = j->plan->device;
        step->stream = j->stream;
        *views = (sf_step_views){.x = &d->operand[0], .y = out, .m = pass->masked ? &d->mask : NULL, .axes = pass->axes, .keepdim = true,
                                 .reverse = pass->reverse, .follows = pass->follows, .across = pass->across, .made = pass->made,
                                 .offsets = pass->offsets ? &j->view[pass->offsets - 1] : NULL};
        for (int32_t k = 0; k < pass->operands; k++)
                for (int32_t a = 0; a < j->plan->buffer[pass->operand[k].buffer].ndim; a++)
                        views->spread |= (uint32_t)pass->operand[k].track[a].segment << k;
        if (!pass->fused)
                return;
        for (int32_t k = 0; k < pass->operands; k++)
                views->lacking |= (uint32_t)sf_access_lacks_last(j->plan, pass, &pass->operand[k]) << k;
        sf_pass_programs(pass, fuse);
        views->operands = pass->operands ? pass->operands : 1;
        views->fuse = fuse;
        for (int32_t k = 0; k < views->operands; k++)
                views->operand[k] = &d->operand[k];
}

static sf_status run_described(job *j, int32_t count, sf_step *step, const sf_step_views *views, void *workspace, size_t workspace_size, size_t *needs)
{
        /* The size was measured for compact tensors. If these need more, the library uses memory
         * of its own. */
        if (workspace) {
                size_t takes;
                SF_TRY(sf_run_steps(j->plan->ctx, count, step, views, NULL, 0, &takes));
                workspace = takes <= workspace_size ? workspace : NULL;
        }
        return sf_run_steps(j->plan->ctx, count, step, views, workspace, workspace_size, needs);
}

/* Runs `count` passes from number `at` on, which share one read. */
static sf_status run_siblings(job *j, int32_t at, int32_t count, void *workspace, size_t workspace_size, size_t *needs)
{
        sf_step step[SF_SIBLINGS_MAX];
        sf_step_views views[SF_SIBLINGS_MAX];
        sf_fuse fuse[SF_SIBLINGS_MAX];
        sf_view out[SF_SIBLINGS_MAX];
        described d;
        describe_tensors(j, j->plan->pass[at], &d);
        for (int32_t i = 0; i < count; i++)
                describe_pass(j, j->plan->pass[at + i], &d, &out[i], &step[i], &views[i], &fuse[i]);
        return run_described(j, count, step, views, workspace, workspace_size, needs);
}

/* Runs passes of which some follow others, as a chain. */
static sf_status run_chain(job *j, int32_t at, int32_t count, void *workspace, size_t workspace_size, size_t *needs)
{
        struct room {
                sf_step step[SF_CHAIN_STEPS];
                sf_step_views views[SF_CHAIN_STEPS];
                sf_fuse fuse[SF_CHAIN_STEPS];
                sf_view out[SF_CHAIN_STEPS];
                described tensors[SF_CHAIN_STEPS];
        } *r;
        sf_arena *arena = sf_arena_borrow(j->plan->ctx, sizeof *r);
        if (!arena)
                return sf_fail(j->plan->ctx, SF_OUT_OF_MEMORY, "no memory for %d steps", (int)count);
        r = (struct room *)(void *)arena->base;
        for (int32_t i = 0; i < count; i++) {
                describe_tensors(j, j->plan->pass[at + i], &r->tensors[i]);
                describe_pass(j, j->plan->pass[at + i], &r->tensors[i], &r->out[i], &r->step[i], &r->views[i], &r->fuse[i]);
        }
        sf_status status = run_described(j, count, r->step, r->views, workspace, workspace_size, needs);
        sf_arena_return(j->plan->ctx, arena);
        return status;
}

/* Runs the passes from number `at` on that run together; *count is their number. */
static sf_status run_group(job *j, int32_t at, int32_t *count, void *workspace, size_t workspace_size, size_t *needs)
{
        bool chained = false;
        *count = sf_plan_together(j->plan, at);
        for (int32_t i = 1; i < *count; i++)
                chained |= j->plan->pass[at + i]->follows;
        return (chained ? run_chain : run_siblings)(j, at, *count, workspace, workspace_size, needs);
}

sf_status sf_plan_measure_scratch(sf_plan *plan)
{
        if (plan->device.device_type != SF_CUDA)
                return SF_OK;
        /* Compact tensors at addresses that are never read. Each has one of its own: two at one
         * address would be one tensor that is read once, which may need less scratch. */
        job j = {.plan = plan, .scratch = (char *)(uintptr_t)SF_SCRATCH_ALIGN};
        j.view = sf_ir_alloc(&plan->ir, ((size_t)plan->inputs + (size_t)plan->outputs) * sizeof *j.view);
        for (int32_t i = 0; i < plan->inputs + plan->outputs; i++) {
                const sf_buffer *b = &plan->buffer[i < plan->inputs ? plan->input_buffer[i] : plan->output_buffer[i - plan->inputs]];
                void *own = (void *)(((uintptr_t)i + 1) << 40);
                sf_tensor t = {.data = own, .device = plan->device, .ndim = b->ndim, .dtype = {sf_dtypes[b->dt].code, sf_dtypes[b->dt].bits, 1},
                               .shape = (int64_t *)b->shape};
                SF_TRY(sf_view_init(plan->ctx, "a tensor", &t, &j.view[i]));
        }
        for (int32_t i = 0, count; i < plan->passes; i += count) {
                size_t needs = 0;
                SF_TRY(run_group(&j, i, &count, NULL, 0, &needs));
                plan->step_scratch = needs > plan->step_scratch ? needs : plan->step_scratch;
        }
        return SF_OK;
}

/* -------------------------------------------------------------------------------------------------
 * Results computed again
 * ---------------------------------------------------------------------------------------------- */

/* The view of a tensor for line 0 in pass `at` of the steps, and how many bytes it moves from line
 * to line. Returns the number of the step whose result it is, or -1. */
static int32_t see_line(const job *j, const sf_repair *r, const sf_again *a, int32_t at,
                        const sf_access *access, sf_view *v, int64_t move[SF_AGAIN_DIMS],
                        char **tensor)
{
        const sf_plan *steps = &r->steps;
        const sf_buffer *b = &steps->buffer[access->buffer];
        const sf_follow *axes = r->pass[at];
        int64_t strides[SF_MAX_NDIM], compact = sf_dtypes[b->dt].size;
        sf_track track[SF_MAX_NDIM];
        int32_t made = -1;
        v->dt = b->dt;
        memcpy(track, access->track, (size_t)b->ndim * sizeof *track);
        if (b->place == SF_PLACE_SCRATCH) {
                v->data = a->made + b->offset;
                for (int32_t d = b->ndim - 1; d >= 0; d--) {
                        bool one = r->buffer[access->buffer][d].line >= 0;
                        strides[d] = one ? 0 : compact;
                        track[d].start = one ? 0 : track[d].start;
                        compact *= one ? 1 : b->shape[d];
                }
                for (int32_t i = 0; i < steps->passes; i++)
                        made = steps->pass[i]->out.buffer == access->buffer ? i : made;
        } else {
                v->data = find_tensor(j, b->place == SF_PLACE_INPUT ? r->leaf[b->index] : r->of,
                                      strides);
        }
        *tensor = v->data;
        walk_tensor(steps->pass[at], track, b->ndim, strides, v);
        for (int32_t d = 0; d < a->dims; d++)
                move[d] = 0;
        for (int32_t d = 0; d < v->ndim; d++) {
                if (axes[d].line < 0)
                        continue;
                v->data = v->data ? v->data + axes[d].start * v->strides[d] : NULL;
                for (int32_t l = 0; l < a->dims; l++)
                        move[l] += r->line_of[l] == axes[d].line ? axes[d].step * v->strides[d] : 0;
        }
        return made;
}

/* Describes step `at` of one line. */
static void describe_step(const job *j, const sf_repair *r, int32_t at, sf_again *a)
{
        const sf_pass *pass = r->steps.pass[at];
        sf_again_step *s = &a->step[at];
        sf_view operand[SF_OPERANDS_MAX], out;
        int64_t shape[SF_MAX_NDIM], move[SF_AGAIN_DIMS];
        char *tensor;
        sf_step_views views = {.x = &operand[0], .y = &out, .axes = pass->axes, .keepdim = true,
                               .reverse = pass->reverse,
                               .operands = pass->operands ? pass->operands : 1, .fuse = &s->fuse};
        see_line(j, r, a, at, &pass->out, &out, move, &s->tensor);
        operand[0] = out; /* constants alone: x is not read */
        operand[0].dt = pass->step.in;
        memset(operand[0].strides, 0, (size_t)pass->ndim * sizeof operand[0].strides[0]);
        s->made[0] = -1;
        for (int32_t d = 0; d < a->dims; d++)
                s->move[d][0] = 0;
        if (!pass->operands)
                operand[0].data = a->results;
        for (int32_t d = 0; d < pass->ndim; d++)
                shape[d] = r->pass[at][d].line >= 0 ? 1 : pass->shape[d];
        for (int32_t k = 0; k < pass->operands; k++) {
                s->made[k] = see_line(j, r, a, at, &pass->operand[k], &operand[k], move, &tensor);
                for (int32_t d = 0; d < a->dims; d++)
                        s->move[d][k] = move[d];
        }
        for (int32_t k = 0; k < views.operands; k++) {
                operand[k].shape = shape;
                views.operand[k] = &operand[k];
        }
        out.shape = shape;
        s->step = pass->step;
        s->step.device = a->device;
        s->step.stream = a->stream;
        s->plain = !pass->fused;
        sf_pass_programs(pass, &s->fuse);
        if (!pass->fused) {
                s->fuse.load_reads = 1;
                s->fuse.store_reads = 0;
        }
        sf_step_geometry(&s->step, &views);
}

/* Computes those results of this pass again that are not finite. */
static sf_status run_again(job *j, const sf_pass *pass)
{
        const sf_repair *r = pass->again;
        const sf_buffer *b = &j->plan->buffer[pass->out.buffer];
        int64_t strides[SF_MAX_NDIM];
        sf_again a;
        a.device = j->plan->device;
        a.stream = j->stream;
        a.results = find_tensor(j, pass->out.buffer, strides);
        a.dt = b->dt;
        a.lines = 1;
        a.dims = 0;
        for (int32_t d = 0; d < b->ndim; d++)
                if (b->shape[d] > 1) {
                        a.lines *= b->shape[d];
                        a.line[a.dims++] = (sf_dim){.len = b->shape[d], .y = strides[d]};
                }
        if (sf_backend_all_finite(j->plan->ctx, &a))
                return SF_OK;
        a.made = (char *)(uintptr_t)SF_SCRATCH_ALIGN;
        a.size = r->steps.scratch;
        a.steps = r->steps.passes;
        for (int32_t i = 0; i < a.steps; i++)
                describe_step(j, r, i, &a);
        return sf_backend_again(j->plan->ctx, &a);
}

/* ------------------------------------------------------------------------------------------------------------
 * Kept results
 * ---------------------------------------------------------------------------------------------------------- */
static bool same_versions(const sf_plan *plan, const sf_kept *kept, const uint64_t *versions, bool *known)
{
        bool same = true;
        *known = true;
        for (int32_t i = 0; i < plan->inputs && i < 64; i++)
                if (kept->inputs >> i & 1) {
                        *known = *known && versions[i];
                        same = same && versions[i] == kept->versions[i];
                }
        return same && *known;
}

/* Begins this run's use of the memory of a kept result; false if the run cannot use it. If there is
 * no memory to keep a result in, it is put in scratch: that is slower, but not a failure. */
static bool begin_kept(job *j, int32_t i, bool writes)
{
        sf_plan *plan = j->plan;
        sf_kept *kept = &plan->kept[i];
        if (!kept->memory.data) {
                int64_t bytes = 0;
                for (int32_t b = 0; b < plan->buffers; b++)
                        bytes = plan->buffer[b].kept == i ? plan->buffer[b].bytes : bytes;
                if (!writes || sf_backend_keep(plan->ctx, plan->device, (size_t)bytes,
                                               &kept->memory) != SF_OK)
                        return false;
        }
        j->place[i] = sf_backend_begin(plan->ctx, plan->device, j->stream, &kept->memory, writes);
        if (j->place[i] != SF_MEMORY_LOST || kept->readers || kept->being_made)
                return j->place[i] >= 0;
        sf_plan_forget(plan, kept);
        kept->made = false;
        return writes && begin_kept(j, i, writes);
}

/* Decides which kept results this run reads, and which it makes. One that another run is reading or
 * making, and that is not what this run needs, is not touched. */
static void claim_kept(job *j)
{
        sf_plan *plan = j->plan;
        pthread_mutex_lock(&plan->lock);
        for (int32_t i = 0; i < plan->kepts; i++) {
                sf_kept *kept = &plan->kept[i];
                bool known, same = same_versions(plan, kept, j->versions, &known);
                if (same && kept->made && begin_kept(j, i, false)) {
                        kept->readers++;
                        j->kept[i] = READ;
                } else if (known && !(same && kept->made) && !kept->readers && !kept->being_made &&
                           begin_kept(j, i, true)) {
                        kept->being_made = true;
                        kept->made = false;
                        j->kept[i] = MADE;
                }
        }
        pthread_mutex_unlock(&plan->lock);
}

static void release_kept(job *j, bool done)
{
        sf_plan *plan = j->plan;
        pthread_mutex_lock(&plan->lock);
        for (int32_t i = 0; i < plan->kepts; i++) {
                sf_kept *kept = &plan->kept[i];
                if (j->kept[i] != AS_SCRATCH)
                        sf_backend_end(plan->ctx, plan->device, j->stream, &kept->memory,
                                       j->place[i], j->kept[i] == MADE);
                if (j->kept[i] == READ)
                        kept->readers--;
                if (j->kept[i] != MADE)
                        continue;
                kept->being_made = false;
                kept->made = done;
                memcpy(kept->versions, j->versions, (size_t)plan->inputs * sizeof *kept->versions);
        }
        pthread_mutex_unlock(&plan->lock);
}

void sf_plan_forget(sf_plan *plan, sf_kept *kept)
{
        if (kept->memory.data)
                sf_backend_free(plan->ctx, plan->device, &kept->memory);
}

/* ------------------------------------------------------------------------------------------------------------
 * A run
 * ---------------------------------------------------------------------------------------------------------- */
static sf_status run_passes(job *j, const sf_run_options *o)
{
        sf_plan *plan = j->plan;
        sf_memory borrowed = {NULL, NULL};
        sf_status status = SF_OK;
        char *rest = o->workspace ? (char *)o->workspace + plan->scratch : NULL;
        size_t rest_size = o->workspace ? o->workspace_size - (size_t)plan->scratch : 0;
        j->scratch = o->workspace;
        if (plan->scratch && !o->workspace) {
                SF_TRY(sf_backend_borrow(plan->ctx, plan->device, o->stream, (size_t)plan->scratch, &borrowed));
                j->scratch = borrowed.data;
        }
        if (j->versions && plan->kepts)
                claim_kept(j);
        for (int32_t i = 0, count = 1; i < plan->passes && status == SF_OK; i += count) {
                count = 1;
                int32_t kept = plan->pass[i]->kept;
                if (kept >= 0 && j->kept[kept] == READ)
                        continue;
                status = run_group(j, i, &count, rest_size ? rest : NULL, rest_size, NULL);
                for (int32_t k = i; k < i + count && status == SF_OK; k++)
                        if (plan->pass[k]->again)
                                status = run_again(j, plan->pass[k]);
        }
        if (j->versions && plan->kepts)
                release_kept(j, status == SF_OK);
        if (borrowed.data)
                sf_backend_return(plan->ctx, plan->device, o->stream, &borrowed);
        return status;
}

/* Views of up to this many tensors are on the stack; for more, memory is borrowed. */
enum { FEW = 12 };

sf_status sf_plan_run(sf_plan *plan, const sf_tensor *inputs, const sf_tensor *outputs, const sf_run_options *options)
{
        sf_run_options o = SF_RUN_OPTIONS_INIT;
        sf_view few[FEW];
        sf_arena *arena = NULL;
        if (!plan)
                return sf_fail(NULL, SF_INVALID_ARGUMENT, "plan is NULL; it must be a plan");
        if (options)
                SF_TRY(sf_options_read(plan->ctx, "sf_run_options", options, &o, sizeof o, 0));
        size_t needs = (size_t)plan->scratch + plan->step_scratch;
        if (o.workspace && (o.workspace_size < needs || (uintptr_t)o.workspace % SF_SCRATCH_ALIGN))
                return sf_fail(plan->ctx, SF_INVALID_ARGUMENT, "workspace is %zu bytes at %p; it must be at least %zu, %d-byte aligned (sf_plan_workspace)",
                               o.workspace_size, o.workspace, needs, SF_SCRATCH_ALIGN);
        job j = {.plan = plan, .view = few, .stream = o.stream, .versions = o.versions};
        if (plan->inputs + plan->outputs > FEW) {
                arena = sf_arena_borrow(plan->ctx, (size_t)(plan->inputs + plan->outputs) * sizeof *j.view);
                if (!arena)
                        return sf_fail(plan->ctx, SF_OUT_OF_MEMORY, "no memory for %d tensors' strides", (int)(plan->inputs + plan->outputs));
                j.view = (sf_view *)arena->base;
        }
        sf_status status = check_tensors(plan, inputs, outputs, j.view);
        if (status == SF_OK)
                status = check_segments(plan, j.stream, j.view);
        if (status == SF_OK)
                status = run_passes(&j, &o);
        if (arena)
                sf_arena_return(plan->ctx, arena);
        return status;
}
