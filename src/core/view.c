/* Checks a borrowed tensor once and makes a view of it: all later code may rely on the view. */
#include "core/core.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const sf_dtype_row sf_dtypes[SF_DT_COUNT] = {
#define DTYPE(name, NAME, ctype, code, bits, kind) {#name, code, bits, bits / 8, SF_KIND_##kind},
#include "core/dtypes.def"
#undef DTYPE
};

sf_dt sf_dt_find(sf_dtype dtype)
{
        sf_dt dt = 0;
        while (dt < SF_DT_COUNT && (sf_dtypes[dt].code != dtype.code || sf_dtypes[dt].bits != dtype.bits || dtype.lanes != 1))
                dt++;
        return dt;
}

const char *sf_dtype_text(sf_dtype dtype, char text[48])
{
        sf_dt dt = sf_dt_find(dtype);
        if (dt < SF_DT_COUNT)
                return sf_dtypes[dt].name;
        snprintf(text, 48, "DLPack code %d, %d bits x %d", dtype.code, dtype.bits, dtype.lanes);
        return text;
}

const char *sf_shape_text(int32_t ndim, const int64_t *shape, char text[128])
{
        size_t at = 0;
        text[at++] = '(';
        for (int32_t d = 0; d < ndim; d++) {
                if (at > 128 - 40) { /* too many dimensions to print */
                        at += (size_t)snprintf(text + at, 128 - at, "...");
                        break;
                }
                at += (size_t)snprintf(text + at, 128 - at, "%s%" PRId64, d ? ", " : "", shape[d]);
        }
        snprintf(text + at, 128 - at, ndim == 1 ? ",)" : ")");
        return text;
}

/* The most bytes that an axis may span. */
#define FURTHEST (INT64_MAX / 256)

sf_status sf_view_init(const sf_context *ctx, const char *name, const sf_tensor *tensor, sf_view *view)
{
        char text[128];
        if (!tensor)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is NULL; it must point to a tensor", name);
        if (tensor->ndim < 0 || tensor->ndim > SF_MAX_NDIM)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s has ndim %d; it must be 0 to %d", name, (int)tensor->ndim,
                               SF_MAX_NDIM);
        if (tensor->ndim && !tensor->shape)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s has ndim %d but its shape is NULL", name, (int)tensor->ndim);
        view->dt = sf_dt_find(tensor->dtype);
        if (view->dt == SF_DT_COUNT)
                return sf_fail(ctx, SF_UNSUPPORTED,
                               "%s has a dtype that is not supported (%s); supported are f16, bf16, f32, f64, i8 to i64, "
                               "u8 to u64 and bool",
                               name, sf_dtype_text(tensor->dtype, text));
        int64_t size = sf_dtypes[view->dt].size;
        view->ndim = tensor->ndim;
        view->shape = tensor->shape;
        view->count = 1;
        for (int32_t d = 0; d < view->ndim; d++) {
                if (view->shape[d] < 0)
                        return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s has length %" PRId64 " along axis %d; lengths cannot be negative",
                                       name, view->shape[d], (int)d);
                if (!view->shape[d])
                        view->count = 0;
        }
        if (view->count)
                for (int32_t d = 0; d < view->ndim; d++)
                        if (__builtin_mul_overflow(view->count, view->shape[d], &view->count))
                                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s has shape %s, whose element count does not fit in 64 bits",
                                               name, sf_shape_text(view->ndim, view->shape, text));

        int64_t compact = size;
        view->low = 0;
        view->high = view->count ? size : 0;
        for (int32_t d = view->ndim - 1; d >= 0; d--) {
                bool overflow = false;
                if (tensor->strides)
                        overflow = __builtin_mul_overflow(tensor->strides[d], size, &view->strides[d]);
                else
                        view->strides[d] = compact;
                /* The strides of an empty tensor, or of an axis of length 1, are never used. */
                if (!view->count || view->shape[d] == 1) {
                        view->strides[d] = overflow ? 0 : view->strides[d];
                        continue;
                }
                int64_t reach;
                overflow |= __builtin_mul_overflow(view->shape[d] - 1, view->strides[d], &reach);
                /* No memory is that large, and below that limit sums and differences of such
                 * distances do not overflow. */
                overflow = overflow || reach > FURTHEST || reach < -FURTHEST;
                if (!overflow && reach < 0)
                        overflow = __builtin_add_overflow(view->low, reach, &view->low);
                else if (!overflow)
                        overflow = __builtin_add_overflow(view->high, reach, &view->high);
                if (!tensor->strides)
                        overflow |= __builtin_mul_overflow(compact, view->shape[d], &compact);
                if (overflow)
                        return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s with shape %s reaches further than 64-bit addresses along axis %d",
                                       name, sf_shape_text(view->ndim, view->shape, text), (int)d);
        }
        if (view->count && !tensor->data)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s has %" PRId64 " elements but its data is NULL", name, view->count);
        view->data = view->count ? (char *)tensor->data + tensor->byte_offset : NULL;
        return SF_OK;
}

sf_status sf_view_broadcast(const sf_context *ctx, const char *name, sf_view *view, const char *like_name, const sf_view *like)
{
        char mine[128], theirs[128];
        int32_t lead = like->ndim - view->ndim;
        bool fits = lead >= 0;
        for (int32_t d = 0; fits && d < view->ndim; d++)
                fits = view->shape[d] == like->shape[lead + d] || view->shape[d] == 1;
        if (!fits)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s has shape %s; it must be broadcastable to %s's shape %s", name,
                               sf_shape_text(view->ndim, view->shape, mine), like_name, sf_shape_text(like->ndim, like->shape, theirs));
        for (int32_t d = like->ndim - 1; d >= 0; d--)
                view->strides[d] = d < lead || view->shape[d - lead] == 1 ? 0 : view->strides[d - lead];
        view->ndim = like->ndim;
        view->shape = like->shape;
        view->count = like->count;
        return SF_OK;
}

bool sf_view_same(const sf_view *a, const sf_view *b)
{
        if (a->data != b->data || a->ndim != b->ndim || sf_dtypes[a->dt].size != sf_dtypes[b->dt].size)
                return false;
        for (int32_t d = 0; d < a->ndim; d++)
                if (a->shape[d] != b->shape[d] || (a->shape[d] > 1 && a->strides[d] != b->strides[d]))
                        return false;
        return true;
}

/* ------------------------------------------------------------------------------------------------------------
 * Overlap. Two elements share memory where a sum of multiples of strides is in a given range. With
 * the strides in decreasing order, a depth-first search has few multiples to try for each stride,
 * because the smaller strides cannot reach far. A budget limits the time for layouts on which the
 * search would be slow; those count as overlapping.
 * ---------------------------------------------------------------------------------------------------------- */
__extension__ typedef __int128 wide; /* a sum of 64-bit distances may need more than 64 bits */

typedef struct term {
        int64_t stride; /* > 0 */
        int64_t most;   /* the multiplier runs over [least, most] */
        int64_t least;
} term;

typedef struct search {
        term terms[2 * SF_MAX_NDIM];
        /* of this term and all later ones */
        wide reach_low[2 * SF_MAX_NDIM + 1], reach_high[2 * SF_MAX_NDIM + 1];
        int count;
        int budget;
} search;

static void search_add(search *s, int64_t stride, int64_t least, int64_t most)
{
        if (stride < 0) {
                int64_t was_least = least;
                stride = -stride;
                least = -most;
                most = -was_least;
        }
        int at = s->count++;
        for (; at > 0 && s->terms[at - 1].stride < stride; at--)
                s->terms[at] = s->terms[at - 1];
        s->terms[at] = (term){stride, most, least};
}

static wide floor_div(wide a, wide b)
{
        return a / b - (a % b < 0);
}

/* Is there a choice of multipliers, for term `at` and all later ones, whose sum is in [low, high]?
 * If `counts` is not set, at least one multiplier must not be zero. */
static bool search_hits(search *s, int at, wide low, wide high, bool counts)
{
        if (s->budget-- <= 0)
                return true;
        if (s->reach_low[at] > high || s->reach_high[at] < low)
                return false;
        if (at == s->count)
                return counts;
        const term *t = &s->terms[at];
        /* What is left after stride * k must be in reach of the later terms. */
        wide first = -floor_div(-(low - s->reach_high[at + 1]), t->stride);
        wide last = floor_div(high - s->reach_low[at + 1], t->stride);
        if (first < t->least)
                first = t->least;
        if (last > t->most)
                last = t->most;
        for (wide k = first; k <= last; k++)
                if (search_hits(s, at + 1, low - k * t->stride, high - k * t->stride, counts || k != 0))
                        return true;
        return false;
}

static bool search_run(search *s, int64_t low, int64_t high, bool zero_counts)
{
        s->reach_low[s->count] = s->reach_high[s->count] = 0;
        for (int i = s->count - 1; i >= 0; i--) {
                s->reach_low[i] = s->reach_low[i + 1] + (wide)s->terms[i].stride * s->terms[i].least;
                s->reach_high[i] = s->reach_high[i + 1] + (wide)s->terms[i].stride * s->terms[i].most;
        }
        s->budget = 100000;
        return search_hits(s, 0, low, high, zero_counts);
}

bool sf_view_overlap(const sf_view *a, const sf_view *b)
{
        if (!a->count || !b->count)
                return false;
        intptr_t pa = (intptr_t)a->data, pb = (intptr_t)b->data;
        if (pa + a->high <= pb + b->low || pb + b->high <= pa + a->low)
                return false;
        /* Elements at pa + i and pb + j share a byte where (pa + i) - (pb + j) lies strictly between -size_a and size_b. */
        search s;
        s.count = 0;
        for (int32_t d = 0; d < a->ndim; d++)
                if (a->shape[d] > 1 && a->strides[d])
                        search_add(&s, a->strides[d], 0, a->shape[d] - 1);
        for (int32_t d = 0; d < b->ndim; d++)
                if (b->shape[d] > 1 && b->strides[d])
                        search_add(&s, b->strides[d], -(b->shape[d] - 1), 0);
        int64_t gap = pb - pa;
        return search_run(&s, gap - sf_dtypes[a->dt].size + 1, gap + sf_dtypes[b->dt].size - 1, true);
}

bool sf_view_overlaps_itself(const sf_view *view)
{
        if (view->count < 2)
                return false;
        /* In the common case each stride is at least as large as the extent of all smaller ones.
         * That needs no search. */
        search s;
        s.count = 0;
        for (int32_t d = 0; d < view->ndim; d++) {
                if (view->shape[d] < 2)
                        continue;
                if (!view->strides[d])
                        return true;
                search_add(&s, view->strides[d], -(view->shape[d] - 1), view->shape[d] - 1);
        }
        int64_t inside = sf_dtypes[view->dt].size;
        bool nested = true;
        for (int i = s.count - 1; i >= 0; i--) {
                nested = nested && s.terms[i].stride >= inside;
                inside += s.terms[i].stride * s.terms[i].most;
        }
        /* Strides are multiples of the element size, so two elements share memory only if they
         * begin at the same byte. */
        return !nested && search_run(&s, 0, 0, false);
}
