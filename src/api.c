/* Entry points: check the arguments, make a step of them, run it. */
#include "backend.h"
#include "core/step.h"
#include "core/value.h"
#include "context.h"

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
#define OP(name, NAME, real, integer, natural)                                                                           \
        case SF_##NAME: return #name;
#include "core/ops.def"
#undef OP
        default: return NULL;
        }
}

/*
 * Options grow at their end. A struct from an older header is shorter: what it lacks is zero, the default. One from a
 * newer header is longer: what we do not know must be zero, or we would silently do something else.
 */
static sf_status read_options(const sf_context *ctx, const char *type, const void *given, void *options, size_t size)
{
        size_t given_size;
        memcpy(&given_size, given, sizeof given_size);
        if (given_size < sizeof given_size)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "options->size is %zu; it must be sizeof(%s), which is %zu", given_size, type, size);
        memset(options, 0, size);
        memcpy(options, given, given_size < size ? given_size : size);
        for (size_t i = size; i < given_size; i++)
                if (((const char *)given)[i])
                        return sf_fail(ctx, SF_UNSUPPORTED,
                                       "options->size is %zu, and byte %zu of the options is set; this library knows %zu bytes of %s: "
                                       "the caller was built with a newer header",
                                       given_size, i, size, type);
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * dtypes: the table of scanfold.h
 * ---------------------------------------------------------------------------------------------------------- */
static bool holds_every_value(sf_dt out, sf_dt in)
{
        const sf_dtype_row *o = &sf_dtypes[out], *i = &sf_dtypes[in];
        if (in == out || i->kind == SF_KIND_BOOL)
                return true;
        if (o->kind == i->kind)
                return o->bits >= i->bits;
        return o->kind == SF_KIND_SIGNED && o->bits > i->bits;
}

/* Sets op, in, acc and out; false if the pair is not in the table. */
static bool choose_dtypes(sf_step *s, sf_op op, sf_dt in, sf_dt out)
{
        sf_kind from = sf_dtypes[in].kind, to = sf_dtypes[out].kind;
        s->op = op;
        s->in = in;
        s->out = out;
        if (to == SF_KIND_BOOL) {
                /* On 0 and 1, or is max and and is min. */
                s->op = op == SF_SUM || op == SF_MAX ? SF_MAX : SF_MIN;
                s->acc = SF_DT_U8;
                return from == SF_KIND_BOOL;
        }
        if (to == SF_KIND_REAL && from == SF_KIND_REAL) {
                s->acc = in == SF_DT_F64 || out == SF_DT_F64 ? SF_DT_F64 : SF_DT_F32;
                return true;
        }
        s->acc = out;
        if (to == SF_KIND_REAL)
                return out == SF_DT_F32 || out == SF_DT_F64;
        return from != SF_KIND_REAL && (op == SF_SUM || op == SF_PROD || holds_every_value(out, in));
}

static sf_status check_dtypes(const sf_context *ctx, sf_step *s, sf_op op, const sf_tensor *x, const sf_tensor *out, sf_dt in, sf_dt to,
                              sf_dtype accumulator)
{
        char text[48];
        if (!sf_op_name(op))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "op is %d; it must be SF_SUM, SF_PROD, SF_MAX or SF_MIN", (int)op);
        if (!choose_dtypes(s, op, in, to))
                return sf_fail(ctx, SF_UNSUPPORTED, "%s of %s into %s is not supported; scanfold.h has the table of dtype pairs", sf_op_name(op),
                               sf_dtype_text(x->dtype, text), sf_dtype_text(out->dtype, text));
        if (!accumulator.code && !accumulator.bits && !accumulator.lanes)
                return SF_OK;
        sf_dt asked = sf_dt_find(accumulator);
        bool real = sf_dtypes[s->acc].kind == SF_KIND_REAL;
        bool wider = asked < SF_DT_COUNT && asked != SF_DT_F16 && asked != SF_DT_BF16 && asked != SF_DT_BOOL && to != SF_DT_BOOL &&
                     (sf_dtypes[asked].kind == SF_KIND_REAL) == real && sf_dtypes[asked].bits >= sf_dtypes[s->acc].bits;
        if (!wider)
                return sf_fail(ctx, SF_UNSUPPORTED, "accumulator %s does not fit %s of %s into %s; it must be %s%s", sf_dtype_text(accumulator, text),
                               sf_op_name(op), sf_dtypes[in].name, sf_dtypes[to].name, real ? "f64 or " : "left unset or no narrower than ",
                               sf_dtypes[s->acc].name);
        /* Integers wrap, and the largest of some reals is the same in any wider type: there a wider accumulator changes no bit
         * and is not used. */
        if (real && (op == SF_SUM || op == SF_PROD))
                s->acc = asked;
        return SF_OK;
}

static sf_status check_initial(const sf_context *ctx, sf_step *s, sf_scalar v)
{
        char text[64];
        s->has_initial = v.kind != SF_SCALAR_NONE;
        s->identity = sf_identity(s->op, s->acc);
        if (s->out == SF_DT_BOOL && s->op == SF_MIN)
                s->identity.u64 = 1; /* true, not 255 */
        switch (v.kind) {
        case SF_SCALAR_NONE: return SF_OK;
        case SF_SCALAR_INT: snprintf(text, sizeof text, "%" PRId64, v.value.i); break;
        case SF_SCALAR_UINT: snprintf(text, sizeof text, "%" PRIu64, v.value.u); break;
        case SF_SCALAR_REAL: snprintf(text, sizeof text, "%.17g", v.value.f); break;
        default:
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "initial has kind %d; make it with sf_int, sf_uint or sf_real", (int)v.kind);
        }
        if (sf_dtypes[s->acc].kind == SF_KIND_REAL) {
                s->initial = v.kind == SF_SCALAR_REAL  ? sf_value_from_f64(v.value.f, s->acc)
                             : v.kind == SF_SCALAR_INT ? sf_value_from_integer(SF_DT_I64, (uint64_t)v.value.i, s->acc)
                                                       : sf_value_from_integer(SF_DT_U64, v.value.u, s->acc);
                return SF_OK;
        }
        bool is_signed = sf_dtypes[s->acc].kind == SF_KIND_SIGNED, fits = true;
        uint64_t u = v.value.u;
        if (v.kind == SF_SCALAR_REAL) {
                double f = v.value.f;
                fits = f == floor(f) && f >= -0x1p63 && f < 0x1p64;
                u = !fits ? 0 : f < 0 ? (uint64_t)(int64_t)f : (uint64_t)f;
                v.kind = f < 0 ? SF_SCALAR_INT : SF_SCALAR_UINT;
        }
        /* Representable when wrapping to the accumulator keeps the bits and the sign is one it has. */
        bool negative = v.kind == SF_SCALAR_INT && (int64_t)u < 0;
        fits = fits && sf_wrap(s->acc, u) == u && (negative ? is_signed : !is_signed || (int64_t)u >= 0);
        fits = fits && !(s->out == SF_DT_BOOL && u > 1);
        if (!fits)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "initial is %s; for an output of %s it must be an integer in that type's range", text,
                               sf_dtypes[s->out].name);
        s->initial.u64 = u;
        return SF_OK;
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
        if (o->naxes < 0)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "naxes is %d; it must be the number of axes given", (int)o->naxes);
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
        if (tensor->device.device_type != x->device.device_type || tensor->device.device_id != x->device.device_id)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is on device (%d, %d) but x is on (%d, %d); they must be on the same one", name,
                               (int)tensor->device.device_type, (int)tensor->device.device_id, (int)x->device.device_type,
                               (int)x->device.device_id);
        return SF_OK;
}

typedef struct request {
        const sf_tensor *x, *out, *mask;
        sf_op op;
        uint64_t axes;
        bool fold, keepdim, reverse, exclusive;
        sf_scalar initial;
        sf_dtype accumulator;
        void *stream, *workspace;
        size_t workspace_size;
        size_t *needs; /* not NULL: say how much workspace it would take, and do nothing */
} request;

static sf_status run(sf_context *ctx, const request *r, const sf_view *x)
{
        sf_view out, mask;
        sf_step step;
        int64_t shape[SF_MAX_NDIM];
        SF_TRY(sf_view_init(ctx, "out", r->out, &out));
        SF_TRY(sf_backend_check(ctx, "x", r->x->device));
        SF_TRY(check_device(ctx, "out", r->out, r->x));
        int32_t rank = folded_shape(x->ndim, x->shape, r->fold ? r->axes : 0, r->keepdim, shape);
        SF_TRY(check_shape(ctx, &out, rank, shape));
        SF_TRY(check_dtypes(ctx, &step, r->op, r->x, r->out, x->dt, out.dt, r->accumulator));
        SF_TRY(check_initial(ctx, &step, r->initial));
        if (sf_view_overlaps_itself(&out))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "out has strides that make two of its elements share memory");
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
                SF_TRY(sf_view_broadcast(ctx, "mask", &mask, x));
        }
        if (r->needs)
                *r->needs = 0;
        if (!out.count)
                return SF_OK;
        if (!x->count && (r->op == SF_MAX || r->op == SF_MIN) && !step.has_initial)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s of no elements has no value; give an initial one, or fold axes that are not empty",
                               sf_op_name(r->op));
        step.fold = r->fold;
        step.exclusive = r->exclusive;
        step.device = r->x->device;
        step.stream = r->stream;
        sf_step_geometry(&step, &(sf_step_views){x, &out, r->mask ? &mask : NULL, r->axes, r->keepdim, r->reverse});
        return r->needs ? sf_backend_workspace(ctx, &step, r->needs) : sf_backend_run(ctx, &step, r->workspace, r->workspace_size);
}

static sf_status scan(sf_context *given, const sf_tensor *tx, const sf_tensor *out, const sf_scan_options *options, size_t *needs)
{
        sf_context *ctx;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        sf_view x;
        SF_TRY(sf_context_resolve(given, &ctx));
        if (options)
                SF_TRY(read_options(ctx, "sf_scan_options", options, &o, sizeof o));
        SF_TRY(sf_view_init(ctx, "x", tx, &x));
        request r = {.x = tx, .out = out, .mask = o.mask, .op = o.op, .reverse = o.reverse != 0, .exclusive = o.exclusive != 0,
                     .initial = o.initial, .accumulator = o.accumulator, .stream = o.stream, .workspace = o.workspace,
                     .workspace_size = o.workspace_size, .needs = needs};
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
                SF_TRY(read_options(ctx, "sf_fold_options", options, &o, sizeof o));
        SF_TRY(sf_view_init(ctx, "x", tx, &x));
        request r = {.x = tx, .out = out, .mask = o.mask, .op = o.op, .fold = true, .keepdim = o.keepdim != 0, .reverse = o.reverse != 0,
                     .initial = o.initial, .accumulator = o.accumulator, .stream = o.stream, .workspace = o.workspace,
                     .workspace_size = o.workspace_size, .needs = needs};
        SF_TRY(read_axes(ctx, &o, x.ndim, &r.axes));
        return run(ctx, &r, &x);
}

sf_status sf_scan(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_scan_options *options)
{
        return scan(ctx, x, out, options, NULL);
}

sf_status sf_fold(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_fold_options *options)
{
        return fold(ctx, x, out, options, NULL);
}

sf_status sf_scan_workspace(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_scan_options *options, size_t *size)
{
        return size ? scan(ctx, x, out, options, size) : sf_fail(ctx, SF_INVALID_ARGUMENT, "size is NULL; it must point to where the bytes are to go");
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
                SF_TRY(read_options(ctx, "sf_fold_options", options, &o, sizeof o));
        if (!tx || !ndim || (tx->ndim && (!shape || !tx->shape)))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is NULL", !tx ? "x" : !ndim ? "ndim" : !shape ? "shape" : "x's shape");
        if (tx->ndim < 0 || tx->ndim > SF_MAX_NDIM)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "x has ndim %d; it must be 0 to %d", (int)tx->ndim, SF_MAX_NDIM);
        SF_TRY(read_axes(ctx, &o, tx->ndim, &axes));
        *ndim = folded_shape(tx->ndim, tx->shape, axes, o.keepdim != 0, shape);
        return SF_OK;
}
