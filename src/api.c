/* Entry points: they check the arguments, make a step of them, and run it. */
#include "backend.h"
#include "core/choose.h"
#include "context.h"
#include "expr/plan.h"
#include "request.h"

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

static sf_status read_axes(const sf_context *ctx, const sf_fold_options *o, int32_t ndim, uint64_t *axes)
{
        *axes = 0;
        if (!o->axes) {
                *axes = ndim == 64 ? UINT64_MAX : ((uint64_t)1 << ndim) - 1;
                return SF_OK;
        }
        /* a 0-dimensional x counts as one of one element, as in sf_read_axis */
        const int32_t rank = ndim ? ndim : 1;
        if (o->naxes < 0 || o->naxes > rank)
                return sf_fail(ctx, SF_INVALID_ARGUMENT,
                               "naxes is %d; for an x of %d dimensions it must be 0 to %d, the "
                               "number of axes given",
                               (int)o->naxes, (int)ndim, (int)rank);
        for (int32_t i = 0; i < o->naxes; i++) {
                uint64_t axis = 0;
                SF_TRY(sf_read_axis(ctx, o->axes[i], ndim, &axis));
                if (*axes & axis)
                        return sf_fail(ctx, SF_INVALID_ARGUMENT, "axes[%d] is %d, which names an axis a second time; each may be folded once",
                                       (int)i, (int)o->axes[i]);
                *axes |= axis;
        }
        return SF_OK;
}

/* A single scan or fold needs no graph: its step is run as one pass of a plan is. */
static sf_status run(sf_context *ctx, const sf_request *r, sf_prepared *p, void *workspace, size_t workspace_size, size_t *needs)
{
        SF_TRY(sf_request_prepare(ctx, r, p));
        if (needs)
                *needs = 0;
        return p->out.count ? sf_run_steps(ctx, 1, &p->step, &p->views, workspace, workspace_size, needs) : SF_OK;
}

static sf_status scan(sf_context *given, const sf_tensor *a, const sf_tensor *tx, const sf_tensor *out, const sf_scan_options *options, size_t *needs)
{
        sf_context *ctx;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        sf_prepared p;
        SF_TRY(sf_context_resolve(given, &ctx));
        if (options)
                SF_TRY(sf_options_read(ctx, "sf_scan_options", options, &o, sizeof o, SF_RESERVED_SCAN));
        SF_TRY(sf_view_init(ctx, a ? "b" : "x", tx, &p.x));
        sf_request r = {.a = a, .x = tx, .out = out, .mask = o.mask, .op = o.op, .reverse = o.reverse != 0, .exclusive = o.exclusive != 0,
                        .initial = o.initial, .accumulator = o.accumulator, .stream = o.stream,
                        .skip_nan = o.skip_nan != 0, .offsets = o.offsets};
        SF_TRY(sf_read_axis(ctx, o.axis, p.x.ndim, &r.axes));
        return run(ctx, &r, &p, o.workspace, o.workspace_size, needs);
}

static sf_status fold(sf_context *given, const sf_tensor *tx, const sf_tensor *out, const sf_fold_options *options, size_t *needs)
{
        sf_context *ctx;
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        sf_prepared p;
        SF_TRY(sf_context_resolve(given, &ctx));
        if (options)
                SF_TRY(sf_options_read(ctx, "sf_fold_options", options, &o, sizeof o, SF_RESERVED_FOLD));
        SF_TRY(sf_view_init(ctx, "x", tx, &p.x));
        sf_request r = {.x = tx, .out = out, .mask = o.mask, .op = o.op, .fold = true, .keepdim = o.keepdim != 0, .reverse = o.reverse != 0,
                        .initial = o.initial, .accumulator = o.accumulator, .stream = o.stream,
                        .skip_nan = o.skip_nan != 0, .offsets = o.offsets};
        SF_TRY(read_axes(ctx, &o, p.x.ndim, &r.axes));
        return run(ctx, &r, &p, o.workspace, o.workspace_size, needs);
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
                SF_TRY(sf_options_read(ctx, "sf_fold_options", options, &o, sizeof o, SF_RESERVED_FOLD));
        if (!tx || !ndim || (tx->ndim && (!shape || !tx->shape)))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is NULL", !tx ? "x" : !ndim ? "ndim" : !shape ? "shape" : "x's shape");
        if (tx->ndim < 0 || tx->ndim > SF_MAX_NDIM)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "x has ndim %d; it must be 0 to %d", (int)tx->ndim, SF_MAX_NDIM);
        SF_TRY(read_axes(ctx, &o, tx->ndim, &axes));
        if (o.offsets && (o.offsets->ndim != 1 || !o.offsets->shape || o.offsets->shape[0] < 1))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "offsets have %d dimensions; they must have one, and one element more than there are segments",
                               (int)o.offsets->ndim);
        *ndim = sf_folded_shape(tx->ndim, tx->shape, axes, o.keepdim != 0, o.offsets ? o.offsets->shape[0] - 1 : -1, shape);
        return SF_OK;
}
