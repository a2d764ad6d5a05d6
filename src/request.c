/* Checks one scan or fold, and makes a step from the caller's tensors. */
#include "request.h"

#include "backend.h"
#include "core/choose.h"
#include "core/mode.h"

#include <inttypes.h>

/* ------------------------------------------------------------------------------------------------------------
 * Axes and shapes
 * ---------------------------------------------------------------------------------------------------------- */
sf_status sf_read_axis(const sf_context *ctx, int32_t axis, int32_t ndim, uint64_t *axes)
{
        /* a 0-dimensional tensor counts as one line of one element, as in torch */
        int32_t rank = ndim ? ndim : 1;
        if (axis < -rank || axis >= rank)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "axis is %d; for an x of %d dimensions it must be %d to %d", (int)axis, (int)ndim,
                               (int)-rank, (int)rank - 1);
        *axes = (uint64_t)1 << (axis < 0 ? axis + rank : axis);
        return SF_OK;
}

int32_t sf_folded_shape(int32_t ndim, const int64_t *x, uint64_t axes, bool keepdim, int64_t segments, int64_t *shape)
{
        int32_t rank = 0;
        for (int32_t d = 0; d < ndim; d++)
                if (!(axes >> d & 1))
                        shape[rank++] = x[d];
                else if (keepdim || segments >= 0)
                        shape[rank++] = segments >= 0 ? segments : 1;
        return rank;
}

/* Does a fold over these axes combine no elements, however many results it has? */
static bool names_an_empty_axis(const sf_view *x, uint64_t axes)
{
        bool empty = false;
        for (int32_t d = 0; d < x->ndim; d++)
                empty = empty || ((axes >> d & 1) && !x->shape[d]);
        return empty;
}

static sf_status check_shape(const sf_context *ctx, const sf_view *out, int32_t ndim, const int64_t *shape)
{
        char given[128], right[128];
        bool same = out->ndim == ndim;
        for (int32_t d = 0; same && d < ndim; d++)
                same = out->shape[d] == shape[d];
        if (same)
                return SF_OK;
        return sf_fail(ctx, SF_INVALID_ARGUMENT, "out has shape %s; it must be %s", sf_shape_text(out->ndim, out->shape, given),
                       sf_shape_text(ndim, shape, right));
}

/* ------------------------------------------------------------------------------------------------------------
 * Scan and fold
 * ---------------------------------------------------------------------------------------------------------- */
static sf_status check_device(const sf_context *ctx, const char *name, const sf_tensor *tensor, const sf_tensor *x)
{
        if (!sf_same_device(tensor->device, x->device))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is on device (%d, %d) but x is on (%d, %d); they must be on the same one", name,
                               (int)tensor->device.device_type, (int)tensor->device.device_id, (int)x->device.device_type,
                               (int)x->device.device_id);
        return SF_OK;
}

/* Can every position along these axes be written as an index of type `out`? */
static sf_status check_index(const sf_context *ctx, const sf_step *s, const sf_view *x, uint64_t axes)
{
        int64_t n = 1;
        if (!sf_op_is(s->op, SF_INDEX) || s->out != SF_DT_I32 || !x->count)
                return SF_OK;
        for (int32_t d = 0; d < x->ndim; d++)
                n *= axes >> d & 1 ? x->shape[d] : 1;
        if (n > (int64_t)INT32_MAX + 1)
                return sf_fail(ctx, SF_UNSUPPORTED, "out is i32, but there are %" PRId64 " positions; their indices need i64", n);
        return SF_OK;
}

/* The dtypes of a step. For a recurrence, a's dtype must suit that of out, as b's must. */
static sf_status choose_dtypes(const sf_context *ctx, const sf_request *r, const sf_view *x, const sf_view *a, sf_dt out, sf_step *s)
{
        sf_step other;
        if (!a)
                return sf_step_dtypes(ctx, s, r->op, x->dt, out, r->accumulator);
        if (sf_dtypes[out].kind != SF_KIND_REAL)
                return sf_fail(ctx, SF_UNSUPPORTED, "out is %s; a recurrence's must be f16, bf16, f32 or f64", sf_dtypes[out].name);
        if (!sf_step_pair(&other, SF_SUM, a->dt, out) || !sf_step_pair(s, SF_SUM, x->dt, out))
                return sf_fail(ctx, SF_UNSUPPORTED, "out is %s, but a is %s and b %s; a recurrence's of integers must be f32 or f64", sf_dtypes[out].name,
                               sf_dtypes[a->dt].name, sf_dtypes[x->dt].name);
        SF_TRY(sf_step_dtypes(ctx, &other, SF_SUM, a->dt, out, r->accumulator));
        SF_TRY(sf_step_dtypes(ctx, s, SF_SUM, x->dt, out, r->accumulator));
        s->op = SF_RECURRENCE;
        s->acc = other.acc == SF_DT_F64 ? SF_DT_F64 : s->acc;
        return SF_OK;
}

/* The programs of a recurrence: b is operand 0, a operand 1. */
static void recurrence_programs(sf_fuse *f, sf_dt a)
{
        f->operands = 2;
        f->load.count = f->load.constants = f->store.count = f->store.constants = f->beside.constants = 0;
        f->beside.count = 1;
        f->beside.code[0] = (sf_instruction){.code = SF_CODE_LOAD, .dt = (uint8_t)a, .slot = 1};
        f->load_reads = 3;
        f->store_reads = 0;
}

/* Makes the load where(x == x, x, identity): a NaN counts as the identity. */
static void skip_nan(const sf_step *step, const sf_view *x, sf_step_views *views, sf_fuse *fuse)
{
        sf_program *p = &fuse->load;
        p->code[0] = (sf_instruction){.code = SF_CODE_LOAD, .dt = (uint8_t)x->dt};
        p->code[1] = (sf_instruction){.code = SF_CODE_EQ, .dt = SF_DT_BOOL};
        p->code[2] = (sf_instruction){.code = SF_CODE_CAST, .dt = (uint8_t)step->acc};
        p->code[3] = (sf_instruction){.code = SF_CODE_CONSTANT, .dt = (uint8_t)step->acc};
        p->code[4] = (sf_instruction){.code = SF_CODE_WHERE, .dt = (uint8_t)step->acc, .arg = {1, 2, 3}};
        p->count = 5;
        p->constant[0] = step->identity;
        p->constants = 1;
        fuse->store.count = fuse->store.constants = fuse->beside.count = fuse->beside.constants = 0;
        fuse->load_reads = 1;
        fuse->store_reads = 0;
        views->operands = 1;
        views->operand[0] = x;
        views->fuse = fuse;
}

static sf_status check_mask(sf_context *ctx, const sf_request *r, const char *name, sf_prepared *p)
{
        SF_TRY(sf_view_init(ctx, "mask", r->mask, &p->mask));
        SF_TRY(check_device(ctx, "mask", r->mask, r->x));
        if (p->mask.dt != SF_DT_BOOL && p->mask.dt != SF_DT_U8)
                return sf_fail(ctx, SF_UNSUPPORTED, "mask is %s; it must be bool or u8", sf_dtypes[p->mask.dt].name);
        if (sf_view_overlap(&p->mask, &p->out))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "out overlaps mask; it must be memory of its own");
        return sf_view_broadcast(ctx, "mask", &p->mask, name, &p->x);
}

/* Checks what is known of the offsets without reading their values. */
static sf_status check_offsets(sf_context *ctx, const sf_request *r, const char *name, sf_prepared *p)
{
        const sf_view *x = &p->x;
        SF_TRY(sf_view_init(ctx, "offsets", r->offsets, &p->offsets));
        SF_TRY(check_device(ctx, "offsets", r->offsets, r->x));
        if (p->offsets.dt != SF_DT_I32 && p->offsets.dt != SF_DT_I64)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "offsets are %s; they must be i32 or i64", sf_dtypes[p->offsets.dt].name);
        if (p->offsets.ndim != 1 || !p->offsets.count)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "offsets have %d dimensions and %" PRId64 " elements; they must have one dimension, and one element more than there are segments",
                               (int)p->offsets.ndim, p->offsets.count);
        if (!x->ndim || __builtin_popcountll(r->axes) != 1)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "offsets cut one axis into segments, but %d are named of the %d that %s has; name one", __builtin_popcountll(r->axes & (((uint64_t)1 << x->ndim) - (x->ndim < 64))),
                               (int)x->ndim, name);
        return SF_OK;
}

static sf_status check_a(sf_context *ctx, const sf_request *r, const char *name, sf_prepared *p)
{
        SF_TRY(sf_view_init(ctx, "a", r->a, &p->a));
        SF_TRY(check_device(ctx, "a", r->a, r->x));
        if (sf_view_overlap(&p->a, &p->out))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "out overlaps a; it must be b itself or memory of its own");
        return sf_view_broadcast(ctx, "a", &p->a, name, &p->x);
}

/* The initial value is rounded in the library's floating-point mode, as results are. */
static sf_status set_initial(sf_context *ctx, const sf_request *r, sf_step *step)
{
        const sf_mode mode = sf_mode_enter();
        sf_status status = sf_step_initial(ctx, step, r->initial);
        sf_mode_leave(mode);
        return status;
}

/* Checks the values of the offsets. */
static sf_status check_segments(sf_context *ctx, const sf_request *r, const sf_prepared *p)
{
        const sf_segments segments = sf_segments_of(&p->offsets);
        return sf_backend_check_segments(ctx, r->x->device, r->stream, &segments, p->x.shape[__builtin_ctzll(r->axes)]);
}

sf_status sf_request_prepare(sf_context *ctx, const sf_request *r, sf_prepared *p)
{
        int64_t shape[SF_MAX_NDIM];
        const char *name = r->a ? "b" : "x";
        const sf_view *x = &p->x, *out = &p->out;
        sf_step *step = &p->step;
        SF_TRY(sf_view_init(ctx, "out", r->out, &p->out));
        SF_TRY(sf_backend_check(ctx, name, r->x->device));
        SF_TRY(check_device(ctx, "out", r->out, r->x));
        if (r->offsets)
                SF_TRY(check_offsets(ctx, r, name, p));
        int32_t rank = sf_folded_shape(x->ndim, x->shape, r->fold ? r->axes : 0, r->keepdim, r->offsets ? p->offsets.count - 1 : -1, shape);
        SF_TRY(check_shape(ctx, out, rank, shape));
        if (r->a)
                SF_TRY(check_a(ctx, r, name, p));
        SF_TRY(choose_dtypes(ctx, r, x, r->a ? &p->a : NULL, out->dt, step));
        SF_TRY(check_index(ctx, step, x, r->axes));
        const bool skips = r->skip_nan && sf_dtypes[x->dt].kind == SF_KIND_REAL;
        /* an index needs the skipped element to be absent; the identity would still have a
         * position */
        if (skips && (r->a || sf_op_is(step->op, SF_INDEX)))
                return sf_fail(ctx, SF_UNSUPPORTED, "skip_nan is set, which %s does not have here; give a mask, or compute it as an expression", sf_op_name(step->op));
        SF_TRY(set_initial(ctx, r, step));
        if (sf_view_overlaps_itself(out))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "out has strides that make two of its elements share memory");
        step->map = step->within = false;
        step->in_place = !r->fold && sf_view_same(x, out);
        if (!step->in_place && sf_view_overlap(x, out))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, r->fold ? "out overlaps x; a fold needs an out of its own"
                                                                 : "out overlaps x without being the same view; it must be x itself or "
                                                                   "memory of its own");
        if (r->mask)
                SF_TRY(check_mask(ctx, r, name, p));
        if (r->offsets && sf_view_overlap(&p->offsets, &p->out))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "out overlaps offsets; it must be memory of its own");
        if (r->offsets)
                SF_TRY(check_segments(ctx, r, p));
        if (!x->count && r->fold && !r->part && !r->offsets && !sf_op_is(r->op, SF_EMPTY) && !step->has_initial && names_an_empty_axis(x, r->axes))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s of no elements has no value; %sfold axes that are not empty",
                               sf_op_name(r->op), sf_op_is(r->op, SF_INDEX) ? "" : "give an initial one, or ");
        step->fold = r->fold;
        step->exclusive = r->exclusive;
        step->device = r->x->device;
        step->stream = r->stream;
        p->views = (sf_step_views){.x = x, .y = out, .m = r->mask ? &p->mask : NULL, .axes = r->axes, .offsets = r->offsets ? &p->offsets : NULL, .keepdim = r->keepdim, .reverse = r->reverse};
        if (r->a) {
                recurrence_programs(&p->fuse, p->a.dt);
                p->views.operands = 2;
                p->views.operand[0] = x;
                p->views.operand[1] = &p->a;
                p->views.fuse = &p->fuse;
        }
        if (skips)
                skip_nan(step, x, &p->views, &p->fuse);
        return SF_OK;
}
