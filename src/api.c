/* Entry points: check the arguments, make a step of them, run it. */
#include "backend.h"
#include "core/choose.h"
#include "core/mode.h"
#include "context.h"
#include "expr/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int32_t sf_version(void)
{
        return SF_VERSION;
}

#define TEXT(token) #token
#define VERSION_TEXT(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *sf_version_string(void)
{
        return VERSION_TEXT(SF_VERSION_MAJOR, SF_VERSION_MINOR, SF_VERSION_PATCH);
}

const char *sf_op_name(sf_op op)
{
        switch (op) {
#define OP(name, NAME, ...) case SF_##NAME: return #name;
#include "core/ops.def"
#undef OP
        default: return NULL;
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Axes and shapes
 * ---------------------------------------------------------------------------------------------------------- */
static sf_status read_axis(const sf_context *ctx, int32_t axis, int32_t ndim, uint64_t *axes)
{
        int32_t rank = ndim ? ndim : 1; /* a rank-0 tensor has one line of one element, as in torch */
        if (axis < -rank || axis >= rank)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "axis is %d; for an x of %d dimensions it must be %d to %d", (int)axis, (int)ndim,
                               (int)-rank, (int)rank - 1);
        *axes = (uint64_t)1 << (axis < 0 ? axis + rank : axis);
        return SF_OK;
}

static sf_status read_axes(const sf_context *ctx, const sf_fold_options *o, int32_t ndim, uint64_t *axes)
{
        *axes = 0;
        if (!o->axes) {
                *axes = ndim == 64 ? UINT64_MAX : ((uint64_t)1 << ndim) - 1;
                return SF_OK;
        }
        const int32_t rank = ndim ? ndim : 1; /* as in read_axis */
        if (o->naxes < 0 || o->naxes > rank)
                return sf_fail(ctx, SF_INVALID_ARGUMENT,
                               "naxes is %d; for an x of %d dimensions it must be 0 to %d, the "
                               "number of axes given",
                               (int)o->naxes, (int)ndim, (int)rank);
        for (int32_t i = 0; i < o->naxes; i++) {
                uint64_t axis = 0;
                SF_TRY(read_axis(ctx, o->axes[i], ndim, &axis));
                if (*axes & axis)
                        return sf_fail(ctx, SF_INVALID_ARGUMENT, "axes[%d] is %d, which names an axis a second time; each may be folded once",
                                       (int)i, (int)o->axes[i]);
                *axes |= axis;
        }
        return SF_OK;
}

/* x's shape with the folded axes removed, or of length 1. Returns the rank. */
static int32_t folded_shape(int32_t ndim, const int64_t *x, uint64_t axes, bool keepdim, int64_t *shape)
{
        int32_t rank = 0;
        for (int32_t d = 0; d < ndim; d++)
                if (!(axes >> d & 1))
                        shape[rank++] = x[d];
                else if (keepdim)
                        shape[rank++] = 1;
        return rank;
}

/* Whether a fold over these axes folds nothing, however many results there are. */
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

typedef struct request {
        const sf_tensor *x, *out, *mask;
        const sf_tensor *a; /* a recurrence's, whose b is x; else NULL */
        sf_op op;
        uint64_t axes;
        bool fold, keepdim, reverse, exclusive, skip_nan;
        sf_scalar initial;
        sf_dtype accumulator;
        void *stream, *workspace;
        size_t workspace_size;
        size_t *needs; /* not NULL: say how much workspace it would take, and do nothing */
} request;

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

/* The dtypes of a step: of a recurrence, a's as well, which must go with out as b's does. */
static sf_status choose_dtypes(const sf_context *ctx, const request *r, const sf_view *x, const sf_view *a, sf_dt out, sf_step *s)
{
        sf_step other;
        if (!a)
                return sf_step_dtypes(ctx, s, r->op, x->dt, out, r->accumulator);
        SF_TRY(sf_step_dtypes(ctx, &other, SF_SUM, a->dt, out, r->accumulator));
        SF_TRY(sf_step_dtypes(ctx, s, SF_SUM, x->dt, out, r->accumulator));
        if (sf_dtypes[out].kind != SF_KIND_REAL)
                return sf_fail(ctx, SF_UNSUPPORTED, "out is %s; a recurrence's must be f16, bf16, f32 or f64", sf_dtypes[out].name);
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

/* where(x == x, x, identity), on the way in. */
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

static sf_status run(sf_context *ctx, const request *r, const sf_view *x)
{
        sf_view out, mask, a;
        sf_step step;
        sf_fuse fuse;
        int64_t shape[SF_MAX_NDIM];
        const char *name = r->a ? "b" : "x";
        SF_TRY(sf_view_init(ctx, "out", r->out, &out));
        SF_TRY(sf_backend_check(ctx, name, r->x->device));
        SF_TRY(check_device(ctx, "out", r->out, r->x));
        int32_t rank = folded_shape(x->ndim, x->shape, r->fold ? r->axes : 0, r->keepdim, shape);
        SF_TRY(check_shape(ctx, &out, rank, shape));
        if (r->a) {
                SF_TRY(sf_view_init(ctx, "a", r->a, &a));
                SF_TRY(check_device(ctx, "a", r->a, r->x));
                if (sf_view_overlap(&a, &out))
                        return sf_fail(ctx, SF_INVALID_ARGUMENT, "out overlaps a; it must be b itself or memory of its own");
                SF_TRY(sf_view_broadcast(ctx, "a", &a, name, x));
        }
        SF_TRY(choose_dtypes(ctx, r, x, r->a ? &a : NULL, out.dt, &step));
        SF_TRY(check_index(ctx, &step, x, r->axes));
        const bool skips = r->skip_nan && sf_dtypes[x->dt].kind == SF_KIND_REAL;
        if (skips && (r->a || sf_op_is(step.op, SF_INDEX))) /* an element that is the identity is still one, with a position */
                return sf_fail(ctx, SF_UNSUPPORTED, "skip_nan is set, which %s does not have here; give a mask, or compute it as an expression", sf_op_name(step.op));
        const sf_mode mode = sf_mode_enter(); /* the initial value is rounded, as results are */
        sf_status initial = sf_step_initial(ctx, &step, r->initial);
        sf_mode_leave(mode);
        SF_TRY(initial);
        if (sf_view_overlaps_itself(&out))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "out has strides that make two of its elements share memory");
        step.map = step.within = false;
        step.in_place = !r->fold && sf_view_same(x, &out);
        if (!step.in_place && sf_view_overlap(x, &out))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, r->fold ? "out overlaps x; a fold needs an out of its own"
                                                                 : "out overlaps x without being the same view; it must be x itself or "
                                                                   "memory of its own");
        if (r->mask) {
                SF_TRY(sf_view_init(ctx, "mask", r->mask, &mask));
                SF_TRY(check_device(ctx, "mask", r->mask, r->x));
                if (mask.dt != SF_DT_BOOL && mask.dt != SF_DT_U8)
                        return sf_fail(ctx, SF_UNSUPPORTED, "mask is %s; it must be bool or u8", sf_dtypes[mask.dt].name);
                if (sf_view_overlap(&mask, &out))
                        return sf_fail(ctx, SF_INVALID_ARGUMENT, "out overlaps mask; it must be memory of its own");
                SF_TRY(sf_view_broadcast(ctx, "mask", &mask, name, x));
        }
        if (r->needs)
                *r->needs = 0;
        if (!x->count && r->fold && !sf_op_is(r->op, SF_EMPTY) && !step.has_initial &&
            names_an_empty_axis(x, r->axes))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s of no elements has no value; give an initial one, or fold axes that are not empty",
                               sf_op_name(r->op));
        if (!out.count)
                return SF_OK;
        step.fold = r->fold;
        step.exclusive = r->exclusive;
        step.device = r->x->device;
        step.stream = r->stream;
        /* One node needs no graph: it goes straight to where a plan's passes go. */
        sf_step_views views = {.x = x, .y = &out, .m = r->mask ? &mask : NULL, .axes = r->axes, .keepdim = r->keepdim, .reverse = r->reverse};
        if (r->a) {
                recurrence_programs(&fuse, a.dt);
                views.operands = 2;
                views.operand[0] = x;
                views.operand[1] = &a;
                views.fuse = &fuse;
        }
        if (skips)
                skip_nan(&step, x, &views, &fuse);
        return sf_run_steps(ctx, 1, &step, &views, r->workspace, r->workspace_size, r->needs);
}

static sf_status scan(sf_context *given, const sf_tensor *a, const sf_tensor *tx, const sf_tensor *out, const sf_scan_options *options, size_t *needs)
{
        sf_context *ctx;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        sf_view x;
        SF_TRY(sf_context_resolve(given, &ctx));
        if (options)
                SF_TRY(sf_options_read(ctx, "sf_scan_options", options, &o, sizeof o));
        SF_TRY(sf_view_init(ctx, a ? "b" : "x", tx, &x));
        request r = {.a = a, .x = tx, .out = out, .mask = o.mask, .op = o.op, .reverse = o.reverse != 0, .exclusive = o.exclusive != 0,
                     .initial = o.initial, .accumulator = o.accumulator, .stream = o.stream, .workspace = o.workspace,
                     .workspace_size = o.workspace_size, .skip_nan = o.skip_nan != 0, .needs = needs};
        SF_TRY(read_axis(ctx, o.axis, x.ndim, &r.axes));
        return run(ctx, &r, &x);
}

static sf_status fold(sf_context *given, const sf_tensor *tx, const sf_tensor *out, const sf_fold_options *options, size_t *needs)
{
        sf_context *ctx;
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        sf_view x;
        SF_TRY(sf_context_resolve(given, &ctx));
        if (options)
                SF_TRY(sf_options_read(ctx, "sf_fold_options", options, &o, sizeof o));
        SF_TRY(sf_view_init(ctx, "x", tx, &x));
        request r = {.x = tx, .out = out, .mask = o.mask, .op = o.op, .fold = true, .keepdim = o.keepdim != 0, .reverse = o.reverse != 0,
                     .initial = o.initial, .accumulator = o.accumulator, .stream = o.stream, .workspace = o.workspace,
                     .workspace_size = o.workspace_size, .skip_nan = o.skip_nan != 0, .needs = needs};
        SF_TRY(read_axes(ctx, &o, x.ndim, &r.axes));
        return run(ctx, &r, &x);
}

sf_status sf_scan(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_scan_options *options)
{
        return scan(ctx, NULL, x, out, options, NULL);
}

sf_status sf_recurrence(sf_context *ctx, const sf_tensor *a, const sf_tensor *b, const sf_tensor *out, const sf_scan_options *options)
{
        return a ? scan(ctx, a, b, out, options, NULL) : sf_fail(ctx, SF_INVALID_ARGUMENT, "a is NULL; it must be a tensor that broadcasts to b");
}

sf_status sf_fold(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_fold_options *options)
{
        return fold(ctx, x, out, options, NULL);
}

sf_status sf_scan_workspace(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_scan_options *options, size_t *size)
{
        return size ? scan(ctx, NULL, x, out, options, size) : sf_fail(ctx, SF_INVALID_ARGUMENT, "size is NULL; it must point to where the bytes are to go");
}

sf_status sf_fold_workspace(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_fold_options *options, size_t *size)
{
        return size ? fold(ctx, x, out, options, size) : sf_fail(ctx, SF_INVALID_ARGUMENT, "size is NULL; it must point to where the bytes are to go");
}

sf_status sf_fold_shape(sf_context *given, const sf_tensor *tx, const sf_fold_options *options, int32_t *ndim, int64_t *shape)
{
        sf_context *ctx;
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        uint64_t axes;
        SF_TRY(sf_context_resolve(given, &ctx));
        if (options)
                SF_TRY(sf_options_read(ctx, "sf_fold_options", options, &o, sizeof o));
        if (!tx || !ndim || (tx->ndim && (!shape || !tx->shape)))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is NULL", !tx ? "x" : !ndim ? "ndim" : !shape ? "shape" : "x's shape");
        if (tx->ndim < 0 || tx->ndim > SF_MAX_NDIM)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "x has ndim %d; it must be 0 to %d", (int)tx->ndim, SF_MAX_NDIM);
        SF_TRY(read_axes(ctx, &o, tx->ndim, &axes));
        *ndim = folded_shape(tx->ndim, tx->shape, axes, o.keepdim != 0, shape);
        return SF_OK;
}
