/* From a graph to the ir: shapes and dtypes follow from the inputs', and everything that can be wrong with them is said here. */
#include "core/choose.h"
#include "core/value.h"
#include "expr/derive.h"
#include "expr/ir.h"
#include "expr/notation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What a node of the graph is: a node of the ir, or a number that has not met a type yet. */
typedef struct meaning {
        int32_t node;     /* 0: a number */
        sf_scalar number;
} meaning;

typedef struct inference {
        sf_ir *ir;
        const sf_graph *graph;
        meaning *of; /* by node of the graph */
} inference;

/* Sentences show the expression they are about, cut short where it is long. */
typedef struct excerpt {
        char text[96];
} excerpt;

static excerpt show(const sf_ir *ir, int32_t node)
{
        excerpt e = {{0}};
        if (sf_ir_print(ir, node, e.text, sizeof e.text) >= sizeof e.text)
                memcpy(e.text + sizeof e.text - 4, "...", 4);
        return e;
}

#define FAIL(...) sf_fail(in->ir->ctx, SF_INVALID_ARGUMENT, __VA_ARGS__)

static const char *shape_of(const sf_ir *ir, int32_t node, char text[128])
{
        return sf_shape_text(sf_ir_at(ir, node)->ndim, sf_ir_at(ir, node)->shape, text);
}

/* ------------------------------------------------------------------------------------------------------------
 * Types
 * ---------------------------------------------------------------------------------------------------------- */

/* The type two meet in; SF_DT_COUNT where there is none. */
static sf_dt promote(sf_dt a, sf_dt b)
{
        const sf_dtype_row *ra = &sf_dtypes[a], *rb = &sf_dtypes[b];
        if (a == b || rb->kind == SF_KIND_BOOL)
                return a;
        if (ra->kind == SF_KIND_BOOL)
                return b;
        bool real_a = ra->kind == SF_KIND_REAL, real_b = rb->kind == SF_KIND_REAL;
        if (real_a != real_b)
                return real_a ? a : b;
        if (real_a && ra->bits == rb->bits)
                return SF_DT_F32; /* f16 and bf16 */
        if (ra->kind == rb->kind)
                return ra->bits > rb->bits ? a : b;
        sf_dt with = ra->kind == SF_KIND_SIGNED ? a : b, without = with == a ? b : a;
        static const sf_dt wider[] = {SF_DT_I16, SF_DT_I32, SF_DT_I64};
        if (sf_dtypes[with].bits > sf_dtypes[without].bits)
                return with;
        for (int i = 0; i < 3; i++)
                if (sf_dtypes[wider[i]].bits > sf_dtypes[without].bits)
                        return wider[i];
        return SF_DT_COUNT;
}

/* As torch's result_type: first tensors with dimensions, then those without, then numbers; a later group counts only where it is of a
 * higher kind. */
static sf_dt combine(sf_dt higher, sf_dt lower)
{
        if (higher == SF_DT_COUNT || lower == SF_DT_COUNT)
                return higher == SF_DT_COUNT ? lower : higher;
        bool real_h = sf_dtypes[higher].kind == SF_KIND_REAL, real_l = sf_dtypes[lower].kind == SF_KIND_REAL;
        if (!real_h && (real_l || sf_dtypes[higher].kind == SF_KIND_BOOL))
                return promote(higher, lower);
        return higher;
}

static sf_dt number_dt(sf_scalar v)
{
        return v.kind == SF_SCALAR_REAL                            ? SF_DT_F32
               : v.kind == SF_SCALAR_UINT && v.value.u > INT64_MAX ? SF_DT_U64
                                                                   : SF_DT_I64;
}

static sf_status common_dt(inference *in, const sf_node *n, int32_t from, int32_t to, sf_dt *dt)
{
        sf_dt group[3] = {SF_DT_COUNT, SF_DT_COUNT, SF_DT_COUNT};
        for (int32_t i = from; i < to; i++) {
                const meaning *m = &in->of[n->arg[i]];
                sf_dt *g = &group[!m->node ? 2 : sf_ir_at(in->ir, m->node)->ndim ? 0 : 1];
                sf_dt mine = m->node ? sf_ir_at(in->ir, m->node)->dt : number_dt(m->number), both = *g == SF_DT_COUNT ? mine : promote(*g, mine);
                if (both == SF_DT_COUNT)
                        return sf_fail(in->ir->ctx, SF_UNSUPPORTED, "%s of %s and %s: no integer type holds both; cast one of them",
                                       sf_function_name(n->function), sf_dtypes[*g].name, sf_dtypes[mine].name);
                *g = both;
        }
        *dt = combine(combine(group[0], group[1]), group[2]);
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * Numbers
 * ---------------------------------------------------------------------------------------------------------- */
static double scalar_real(sf_scalar v)
{
        return v.kind == SF_SCALAR_REAL ? v.value.f : v.kind == SF_SCALAR_INT ? (double)v.value.i : (double)v.value.u;
}

static int32_t typed_number(inference *in, sf_scalar v, sf_dt dt)
{
        sf_value value = v.kind == SF_SCALAR_REAL  ? sf_cast(SF_DT_F64, dt, (sf_value){.f64 = v.value.f})
                         : v.kind == SF_SCALAR_INT ? sf_cast(SF_DT_I64, dt, (sf_value){.u64 = (uint64_t)v.value.i})
                                                   : sf_cast(SF_DT_U64, dt, (sf_value){.u64 = v.value.u});
        return sf_ir_constant(in->ir, dt, value);
}

/* The node, or the number as a tensor of rank 0 of its own type. */
static int32_t as_node(inference *in, int32_t node)
{
        meaning *m = &in->of[node];
        if (!m->node)
                m->node = typed_number(in, m->number, number_dt(m->number));
        return m->node;
}

static int32_t as_type(inference *in, int32_t node, sf_dt dt)
{
        const meaning *m = &in->of[node];
        return m->node ? sf_ir_cast(in->ir, m->node, dt) : typed_number(in, m->number, dt);
}

__extension__ typedef __int128 wide; /* holds every 64-bit integer of either sign */

static wide whole(sf_scalar v)
{
        return v.kind == SF_SCALAR_INT ? (wide)v.value.i : (wide)v.value.u;
}

/* Arithmetic on numbers alone stays a number, as in Python, whole where they are whole. */
static sf_status fold_numbers(inference *in, const sf_node *n, meaning *result, bool *folded)
{
        int32_t takes = sf_function_arguments(n->function);
        sf_scalar v[2] = {{0}};
        bool exact = n->function != SF_DIV, fits = true;
        *folded = false;
        if (takes > 2)
                return SF_OK;
        for (int32_t i = 0; i < takes; i++) {
                if (in->of[n->arg[i]].node)
                        return SF_OK;
                v[i] = in->of[n->arg[i]].number;
                exact = exact && v[i].kind != SF_SCALAR_REAL;
        }
        wide a = exact ? whole(v[0]) : 0, b = exact && takes > 1 ? whole(v[1]) : 0, r = 0;
        double x = scalar_real(v[0]), y = takes > 1 ? scalar_real(v[1]) : 0, z;
        switch (n->function) {
        case SF_ADD: r = a + b; z = x + y; break;
        case SF_SUB: r = a - b; z = x - y; break;
        case SF_MUL: fits = !__builtin_mul_overflow(a, b, &r); z = x * y; break;
        case SF_NEG: r = -a; z = -x; break;
        case SF_SQUARE: fits = !__builtin_mul_overflow(a, a, &r); z = x * x; break;
        case SF_DIV: z = x / y; break;
        default: return SF_OK;
        }
        if (exact && (!fits || r < INT64_MIN || r > UINT64_MAX))
                return FAIL("%s of these whole numbers does not fit 64 bits; with a point, as in "
                            "2.0, they are reals",
                            sf_function_name(n->function));
        result->number = !exact          ? sf_real(z)
                         : r > INT64_MAX ? sf_uint((uint64_t)r)
                                         : sf_int((int64_t)r);
        *folded = true;
        return SF_OK;
}

/* How a number lies to the values of an integer type, its fraction dropped: -1 below them all, 1
 * above (NaN too), 0 among them. */
static int beyond(sf_scalar v, sf_dt dt)
{
        const sf_dtype_row *row = &sf_dtypes[dt];
        if (row->kind != SF_KIND_SIGNED && row->kind != SF_KIND_UNSIGNED)
                return 0;
        wide low = row->kind == SF_KIND_SIGNED ? -((wide)1 << (row->bits - 1)) : 0,
             end = low + ((wide)1 << row->bits);
        if (v.kind == SF_SCALAR_REAL) {
                const double f = v.value.f;
                if (f != f || f >= (double)end)
                        return 1;
                return f > (double)low - 1 || f == (double)low ? 0 : -1;
        }
        return whole(v) < low ? -1 : whole(v) >= end;
}

/* "300 is out of range for u8, which holds 0 to 255" */
static const char *beyond_text(sf_scalar v, sf_dt dt, char text[160])
{
        const int bits = sf_dtypes[dt].bits;
        const bool negative = sf_dtypes[dt].kind == SF_KIND_SIGNED;
        char number[32];
        if (v.kind == SF_SCALAR_REAL)
                snprintf(number, sizeof number, "%.17g", v.value.f);
        else if (v.kind == SF_SCALAR_INT)
                snprintf(number, sizeof number, "%" PRId64, v.value.i);
        else
                snprintf(number, sizeof number, "%" PRIu64, v.value.u);
        snprintf(text, 160, "%s is out of range for %s, which holds %" PRId64 " to %" PRIu64,
                 number, sf_dtypes[dt].name, negative ? INT64_MIN >> (64 - bits) : 0,
                 UINT64_MAX >> (64 - bits + negative));
        return text;
}

/* ------------------------------------------------------------------------------------------------------------
 * Axes
 * ---------------------------------------------------------------------------------------------------------- */
static sf_status read_axis(inference *in, int32_t node, int32_t rank, int64_t axis, int32_t *found)
{
        int32_t lines = rank ? rank : 1; /* a rank-0 tensor has one line of one element */
        if (axis < -lines || axis >= lines)
                return FAIL("%s has no axis %" PRId64 ": its rank is %d, so an axis is %d to %d", show(in->ir, node).text, axis, (int)rank, (int)-lines,
                            (int)lines - 1);
        *found = (int32_t)(axis < 0 ? axis + lines : axis);
        return SF_OK;
}

/* The axes of the list, of a tensor of this rank. */
static sf_status named_axes(inference *in, const sf_node *n, int32_t node, int32_t rank, uint64_t *axes)
{
        *axes = 0;
        for (int32_t i = 0; i < n->count; i++) {
                int32_t axis = 0;
                SF_TRY(read_axis(in, node, rank, in->graph->number[n->list + i], &axis));
                if (*axes >> axis & 1)
                        return FAIL("axis %" PRId64 " of %s is named twice", in->graph->number[n->list + i], show(in->ir, node).text);
                *axes |= (uint64_t)1 << axis;
        }
        return SF_OK;
}

static sf_status read_axes(inference *in, const sf_node *n, int32_t node, uint64_t *axes)
{
        int32_t rank = sf_ir_at(in->ir, node)->ndim;
        SF_TRY(named_axes(in, n, node, rank, axes));
        const bool scan = n->kind == SF_NODE_SCAN || n->kind == SF_NODE_RECURRENCE || (n->kind == SF_NODE_DERIVED && (sf_derived_scans(n->derived) || sf_derived_applies(n->derived)));
        if (n->all)
                *axes = scan ? (uint64_t)1 << (rank ? rank - 1 : 0) : rank == 64 ? UINT64_MAX : ((uint64_t)1 << rank) - 1;
        /* A scalar's one line is no axis. */
        *axes &= rank == 64 ? UINT64_MAX : ((uint64_t)1 << rank) - 1;
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * Elementwise
 * ---------------------------------------------------------------------------------------------------------- */

/*
 * Argument i is a number that the integer type `dt` of the other does not hold. Comparisons are by
 * value, so that all elements compare the same; of maximum and minimum, a bound that lies beyond
 * all values does not bind. Other results could not be stored.
 */
static sf_status infer_beyond(inference *in, const sf_node *n, int32_t i, sf_dt dt, meaning *result)
{
        const sf_scalar number = in->of[n->arg[i]].number;
        const int32_t other = as_node(in, n->arg[n->function == SF_WHERE ? 3 - i : 1 - i]);
        const bool above = beyond(number, dt) > 0, first_is_less = above == (i == 1);
        const sf_ir_node *x = sf_ir_at(in->ir, other);
        char text[160];
        if (n->function >= SF_EQ && n->function <= SF_GE) {
                bool yes = n->function == SF_NE ||
                           (first_is_less ? n->function == SF_LT || n->function == SF_LE
                                          : n->function == SF_GT || n->function == SF_GE);
                result->node = sf_ir_broadcast(
                        in->ir, sf_ir_constant(in->ir, SF_DT_BOOL, (sf_value){.u64 = yes}), x->ndim,
                        x->shape);
                return SF_OK;
        }
        if (n->function == (above ? SF_MINIMUM : SF_MAXIMUM)) {
                result->node = sf_ir_cast(in->ir, other, dt);
                return SF_OK;
        }
        return FAIL("%s of %s and a number: %s; cast %s to a wider type, or write the number with "
                    "a point to compute with reals",
                    sf_function_name(n->function), show(in->ir, other).text,
                    beyond_text(number, dt, text), show(in->ir, other).text);
}

static sf_status infer_apply(inference *in, const sf_node *n, meaning *result)
{
        static const sf_code codes[] = {
                [SF_ADD] = SF_CODE_ADD, [SF_SUB] = SF_CODE_SUB, [SF_MUL] = SF_CODE_MUL, [SF_DIV] = SF_CODE_DIV, [SF_MAXIMUM] = SF_CODE_MAXIMUM,
                [SF_MINIMUM] = SF_CODE_MINIMUM, [SF_NEG] = SF_CODE_NEG, [SF_ABS] = SF_CODE_ABS, [SF_EXP] = SF_CODE_EXP, [SF_LOG] = SF_CODE_LOG,
                [SF_SQRT] = SF_CODE_SQRT, [SF_SQUARE] = SF_CODE_SQUARE, [SF_RELU] = SF_CODE_RELU, [SF_SIGMOID] = SF_CODE_SIGMOID,
                [SF_TANH] = SF_CODE_TANH, [SF_EQ] = SF_CODE_EQ, [SF_NE] = SF_CODE_NE, [SF_LT] = SF_CODE_LT, [SF_LE] = SF_CODE_LE,
                [SF_GT] = SF_CODE_GT, [SF_GE] = SF_CODE_GE, [SF_WHERE] = SF_CODE_WHERE,
        };
        sf_ir *ir = in->ir;
        int32_t takes = sf_function_arguments(n->function), arg[3] = {0}, first = n->function == SF_WHERE;
        const char *name = sf_function_name(n->function);
        sf_dt dt = SF_DT_COUNT;
        bool folded;
        SF_TRY(fold_numbers(in, n, result, &folded));
        if (folded)
                return SF_OK;
        SF_TRY(common_dt(in, n, first, takes, &dt));
        bool needs_real = n->function == SF_DIV || n->function == SF_EXP || n->function == SF_LOG || n->function == SF_SQRT ||
                          n->function == SF_SIGMOID || n->function == SF_TANH;
        if (needs_real && sf_dtypes[dt].kind != SF_KIND_REAL)
                dt = SF_DT_F32;
        if (dt == SF_DT_BOOL && (n->function == SF_SUB || n->function == SF_NEG))
                return sf_fail(ir->ctx, SF_UNSUPPORTED, "%s of bools is not supported; cast them, or compare with ==", n->function == SF_SUB ? "-" : "negation");
        if (n->function == SF_WHERE) {
                arg[0] = as_node(in, n->arg[0]);
                if (sf_ir_at(ir, arg[0])->dt != SF_DT_BOOL && sf_ir_at(ir, arg[0])->dt != SF_DT_U8)
                        return FAIL("where chooses by %s, which is %s; it must be bool or u8", show(ir, arg[0]).text, sf_dtypes[sf_ir_at(ir, arg[0])->dt].name);
                arg[0] = sf_ir_cast(ir, arg[0], SF_DT_BOOL);
        }
        for (int32_t i = first; i < takes; i++)
                if (!in->of[n->arg[i]].node && beyond(in->of[n->arg[i]].number, dt))
                        return infer_beyond(in, n, i, dt, result);
        for (int32_t i = first; i < takes; i++)
                arg[i] = as_type(in, n->arg[i], dt);
        int64_t shape[SF_MAX_NDIM];
        for (int32_t i = 0; i < takes; i++)
                for (int32_t k = i + 1; k < takes; k++)
                        if (sf_ir_broadcast_shape(sf_ir_at(ir, arg[i])->ndim, sf_ir_at(ir, arg[i])->shape, sf_ir_at(ir, arg[k])->ndim,
                                                  sf_ir_at(ir, arg[k])->shape, shape) < 0) {
                                char a[128], b[128];
                                return FAIL("%s of %s, of shape %s, and %s, of shape %s: these do not broadcast; lengths must be equal or 1", name,
                                            show(ir, arg[i]).text, shape_of(ir, arg[i], a), show(ir, arg[k]).text, shape_of(ir, arg[k], b));
                        }
        result->node = sf_ir_map(ir, codes[n->function], dt, arg[0], arg[1], arg[2]);
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * Views
 * ---------------------------------------------------------------------------------------------------------- */
static sf_status infer_permute(inference *in, const sf_node *n, int32_t x, meaning *result)
{
        int32_t rank = sf_ir_at(in->ir, x)->ndim, order[SF_MAX_NDIM];
        uint64_t seen = 0;
        for (int32_t d = 0; d < rank; d++)
                order[d] = n->all ? rank - 1 - d : d;
        if (n->kind == SF_NODE_TRANSPOSE) {
                int32_t a = 0, b = 0;
                SF_TRY(read_axis(in, x, rank, in->graph->number[n->list], &a));
                SF_TRY(read_axis(in, x, rank, in->graph->number[n->list + 1], &b));
                if (rank) {
                        order[a] = b;
                        order[b] = a;
                }
        } else if (!n->all) {
                if (n->count != rank)
                        return FAIL("permute names %d axes of %s, which has %d; it must name each once", (int)n->count, show(in->ir, x).text, (int)rank);
                for (int32_t d = 0; d < rank; d++) {
                        SF_TRY(read_axis(in, x, rank, in->graph->number[n->list + d], &order[d]));
                        seen |= (uint64_t)1 << order[d];
                }
                for (int32_t d = 0; d < rank; d++)
                        if (!(seen >> d & 1))
                                return FAIL("permute of %s does not name axis %d; it must name each once", show(in->ir, x).text, (int)d);
        }
        result->node = sf_ir_permute(in->ir, x, order);
        return SF_OK;
}

static sf_status infer_squeeze(inference *in, const sf_node *n, int32_t x, meaning *result)
{
        const sf_ir_node *node = sf_ir_at(in->ir, x);
        const bool adds = n->kind == SF_NODE_UNSQUEEZE;
        const int32_t rank = node->ndim + (adds ? n->count : 0);
        uint64_t axes = 0;
        if (rank > SF_MAX_NDIM)
                return FAIL("%s has %d axes; with %d more it would have more than %d", show(in->ir, x).text, (int)node->ndim, (int)n->count, SF_MAX_NDIM);
        SF_TRY(named_axes(in, n, x, rank, &axes));
        for (int32_t d = 0; d < node->ndim && n->all; d++)
                axes |= (uint64_t)(node->shape[d] == 1) << d;
        for (int32_t d = 0; d < node->ndim && !adds; d++)
                if (axes >> d & 1 && node->shape[d] != 1)
                        return FAIL("axis %d of %s has length %" PRId64 "; only an axis of length 1 can be squeezed away", (int)d, show(in->ir, x).text,
                                    node->shape[d]);
        result->node = adds ? sf_ir_unsqueeze(in->ir, x, axes) : node->ndim ? sf_ir_squeeze(in->ir, x, axes) : x;
        return SF_OK;
}

static sf_status infer_broadcast(inference *in, const sf_node *n, int32_t x, meaning *result)
{
        const sf_ir_node *node = sf_ir_at(in->ir, x);
        int64_t shape[SF_MAX_NDIM];
        int32_t lead = n->count - node->ndim;
        bool fits = lead >= 0;
        int64_t count = 1;
        for (int32_t d = 0; d < n->count && fits; d++) {
                shape[d] = in->graph->number[n->list + d];
                if (shape[d] == -1 && d >= lead)
                        shape[d] = node->shape[d - lead];
                /* cppcheck-suppress arrayIndexThenCheck ; d is below n->count, and lead is not the limit of shape */
                fits = shape[d] >= 0 && (d < lead || node->shape[d - lead] == shape[d] || node->shape[d - lead] == 1);
                /* Strides follow from the shape, so the bytes must be countable even where there are none. */
                fits = fits && !__builtin_mul_overflow(count, shape[d] ? shape[d] : 1, &count) && count < INT64_MAX / 256;
        }
        char a[128], b[128];
        if (!fits)
                return FAIL("%s, of shape %s, does not broadcast to %s", show(in->ir, x).text, shape_of(in->ir, x, a),
                            sf_shape_text(n->count, in->graph->number + n->list, b));
        result->node = sf_ir_broadcast(in->ir, x, n->count, shape);
        return SF_OK;
}

/* Python's reading of start:stop:step. */
static int64_t slice_bounds(int64_t length, int64_t step, int64_t *start, int64_t stop)
{
        int64_t low = step < 0 ? -1 : 0, high = step < 0 ? length - 1 : length;
        int64_t from = *start == SF_SLICE_END ? (step < 0 ? high : low) : *start < 0 ? *start + length : *start;
        int64_t to = stop == SF_SLICE_END ? (step < 0 ? low : high) : stop < 0 ? stop + length : stop;
        from = from < low ? low : from > high ? high : from;
        to = to < low ? low : to > high ? high : to;
        *start = from;
        if (step > 0)
                return to > from ? (to - from - 1) / step + 1 : 0;
        return to < from ? (step == INT64_MIN ? 1 : (from - to - 1) / -step + 1) : 0;
}

static sf_status infer_slice(inference *in, const sf_node *n, int32_t x, meaning *result)
{
        const sf_ir_node *node = sf_ir_at(in->ir, x);
        const int64_t *list = in->graph->number + n->list;
        int32_t axis = 0;
        if (!node->ndim)
                return FAIL("%s has rank 0; there is nothing to slice", show(in->ir, x).text);
        SF_TRY(read_axis(in, x, node->ndim, list[0], &axis));
        if (n->kind == SF_NODE_SELECT) {
                int64_t length = node->shape[axis], at = list[1] < 0 ? list[1] + length : list[1];
                if (at < 0 || at >= length)
                        return FAIL("index %" PRId64 " along axis %d of %s, which has length %" PRId64, list[1], (int)axis, show(in->ir, x).text, length);
                result->node = sf_ir_squeeze(in->ir, sf_ir_slice(in->ir, x, axis, at, 1, 1), (uint64_t)1 << axis);
                return SF_OK;
        }
        if (n->kind == SF_NODE_NARROW) {
                int64_t length = node->shape[axis], at = list[1] < 0 ? list[1] + length : list[1];
                if (at < 0 || at > length || list[2] < 0 || list[2] > length - at)
                        return FAIL("narrow takes %" PRId64 " from %" PRId64 " on along axis %d of %s, which has length %" PRId64, list[2], list[1], (int)axis,
                                    show(in->ir, x).text, length);
                result->node = sf_ir_slice(in->ir, x, axis, list[2] ? at : 0, 1, list[2]);
                return SF_OK;
        }
        int64_t start = list[1], length = slice_bounds(node->shape[axis], list[3], &start, list[2]);
        if (list[3] == -1 && length == node->shape[axis])
                result->node = sf_ir_flip(in->ir, x, (uint64_t)1 << axis);
        else
                result->node = sf_ir_slice(in->ir, x, axis, length ? start : 0, list[3], length);
        return SF_OK;
}

static sf_status infer_concat(inference *in, const sf_node *n, meaning *result)
{
        const int64_t *list = in->graph->number + n->list;
        int32_t parts[SF_MAX_NDIM], count = n->count - 1, axis = 0;
        sf_dt dt = SF_DT_COUNT;
        for (int32_t i = 0; i < count; i++) {
                parts[i] = as_node(in, (int32_t)list[i + 1]);
                sf_dt mine = sf_ir_at(in->ir, parts[i])->dt;
                dt = dt == SF_DT_COUNT ? mine : promote(dt, mine);
                if (dt == SF_DT_COUNT)
                        return sf_fail(in->ir->ctx, SF_UNSUPPORTED, "concat of %s and %s: no integer type holds both", show(in->ir, parts[0]).text,
                                       show(in->ir, parts[i]).text);
        }
        const sf_ir_node *first = sf_ir_at(in->ir, parts[0]);
        if (!first->ndim)
                return FAIL("concat of %s, which has rank 0; parts need an axis to be put along", show(in->ir, parts[0]).text);
        SF_TRY(read_axis(in, parts[0], first->ndim, list[0], &axis));
        for (int32_t i = 0; i < count; i++) {
                const sf_ir_node *part = sf_ir_at(in->ir, parts[i]);
                bool fits = part->ndim == first->ndim;
                for (int32_t d = 0; fits && d < part->ndim; d++)
                        fits = d == axis || part->shape[d] == first->shape[d];
                char a[128], b[128];
                if (!fits)
                        return FAIL("concat along axis %d of shapes %s and %s; all other lengths must be equal", (int)axis, shape_of(in->ir, parts[0], a),
                                    shape_of(in->ir, parts[i], b));
                parts[i] = sf_ir_cast(in->ir, parts[i], dt);
        }
        result->node = sf_ir_concat(in->ir, axis, count, parts);
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * Scans, folds, products
 * ---------------------------------------------------------------------------------------------------------- */
/* The elements that count, or 0 for all: a mask, those that are not NaN, or both. */
static sf_status infer_mask(inference *in, const sf_node *n, int32_t x, int32_t *mask)
{
        sf_ir *ir = in->ir;
        const sf_ir_node *node = sf_ir_at(ir, x);
        *mask = 0;
        if (n->arg[1]) {
                int64_t shape[SF_MAX_NDIM];
                char a[128], b[128];
                *mask = as_node(in, n->arg[1]);
                const sf_ir_node *m = sf_ir_at(ir, *mask);
                if (m->dt != SF_DT_BOOL && m->dt != SF_DT_U8)
                        return sf_fail(ir->ctx, SF_UNSUPPORTED, "the mask %s is %s; it must be bool or u8", show(ir, *mask).text, sf_dtypes[m->dt].name);
                int32_t rank = sf_ir_broadcast_shape(node->ndim, node->shape, m->ndim, m->shape, shape);
                if (rank != node->ndim || (rank && memcmp(shape, node->shape, (size_t)rank * sizeof *shape)))
                        return FAIL("the mask %s has shape %s, which does not broadcast to %s, of shape %s", show(ir, *mask).text,
                                    shape_of(ir, *mask, a), show(ir, x).text, shape_of(ir, x, b));
        }
        if (!n->skip_nan || !sf_ir_is_real(ir, x))
                return SF_OK;
        int32_t numbers = sf_ir_map(ir, SF_CODE_EQ, node->dt, x, x, 0);
        *mask = *mask ? sf_ir_map(ir, SF_CODE_MUL, SF_DT_BOOL, numbers, sf_ir_cast(ir, *mask, SF_DT_BOOL), 0) : numbers;
        return SF_OK;
}

/* A weight or bias as it stands beside x: of the axes' lengths, or of x's rank. */
static sf_status infer_beside(inference *in, const char *name, int32_t given, int32_t x, uint64_t axes, int32_t *node)
{
        sf_ir *ir = in->ir;
        *node = given ? as_node(in, given) : 0;
        if (!*node || !sf_ir_at(ir, *node)->ndim)
                return SF_OK;
        const sf_ir_node *n = sf_ir_at(ir, *node), *like = sf_ir_at(ir, x);
        int64_t along[SF_MAX_NDIM], shape[SF_MAX_NDIM];
        int32_t count = 0;
        uint64_t others = 0;
        for (int32_t d = 0; d < like->ndim; d++) {
                if (axes >> d & 1)
                        along[count++] = like->shape[d];
                else
                        others |= (uint64_t)1 << d;
        }
        /* cppcheck-suppress uninitvar ; along is set below count */
        if (n->ndim == count && !memcmp(n->shape, along, (size_t)count * sizeof *along)) {
                *node = sf_ir_unsqueeze(ir, *node, others);
                return SF_OK;
        }
        char a[128], b[128], c[128];
        if (n->ndim != like->ndim || sf_ir_broadcast_shape(like->ndim, like->shape, n->ndim, n->shape, shape) != like->ndim ||
            memcmp(shape, like->shape, (size_t)like->ndim * sizeof *shape))
                return FAIL("the %s %s has shape %s; it must be of shape %s, the lengths along the axes, or of %s's rank and broadcast to %s", name,
                            show(ir, *node).text, shape_of(ir, *node, a), sf_shape_text(count, along, b), show(ir, x).text, shape_of(ir, x, c));
        return SF_OK;
}

/* The offsets that cut x's one axis into segments: *offsets is one more than their input's number, or 0, and *count how many there are. */
static sf_status infer_offsets(inference *in, const sf_node *n, int32_t x, uint64_t axes, int32_t *offsets, int64_t *count)
{
        *offsets = 0;
        *count = 0;
        if (!n->offsets)
                return SF_OK;
        const sf_ir_node *o = sf_ir_at(in->ir, as_node(in, n->offsets));
        char text[128];
        if (o->dt != SF_DT_I32 && o->dt != SF_DT_I64)
                return FAIL("the offsets %s are %s; they must be i32 or i64", in->ir->name[o->index], sf_dtypes[o->dt].name);
        if (o->ndim != 1 || !o->count)
                return FAIL("the offsets %s have shape %s; they must have one dimension, and one element more than there are segments", in->ir->name[o->index],
                            sf_shape_text(o->ndim, o->shape, text));
        if (__builtin_popcountll(axes) != 1)
                return FAIL("offsets cut one axis into segments, but %d are named of those of %s; name one", __builtin_popcountll(axes), show(in->ir, x).text);
        *offsets = o->index + 1;
        *count = o->shape[0] - 1;
        in->ir->exact = true; /* nothing is computed again of what has segments */
        return SF_OK;
}

static sf_status infer_derived(inference *in, const sf_node *n, int32_t x, meaning *result)
{
        sf_derivation d = {.what = n->derived, .x = x, .reverse = n->reverse, .correction = n->correction, .order = n->order, .eps = n->eps};
        SF_TRY(sf_derived_dtypes(in->ir->ctx, &d, sf_ir_at(in->ir, x)->dt, sf_dt_find(n->dtype), n->accumulator));
        SF_TRY(infer_mask(in, n, x, &d.mask));
        SF_TRY(read_axes(in, n, x, &d.axes));
        SF_TRY(infer_offsets(in, n, x, d.axes, &d.offsets, &d.segments));
        SF_TRY(infer_beside(in, "weight", n->weight, x, d.axes, &d.weight));
        SF_TRY(infer_beside(in, "bias", n->bias, x, d.axes, &d.bias));
        SF_TRY(sf_derive(in->ir, &d, &result->node));
        if (!n->keepdim && !d.offsets && !sf_derived_scans(n->derived) && !sf_derived_applies(n->derived))
                result->node = sf_ir_squeeze(in->ir, result->node, d.axes);
        return SF_OK;
}

static sf_status infer_reduce(inference *in, const sf_node *n, int32_t x, meaning *result)
{
        sf_ir *ir = in->ir;
        const sf_ir_node *node = sf_ir_at(ir, x);
        sf_ir_node model = {.kind = n->kind == SF_NODE_SCAN ? SF_IR_SCAN : SF_IR_FOLD, .reverse = n->reverse, .exclusive = n->exclusive};
        sf_step step;
        int32_t mask;
        sf_dt out = sf_dt_find(n->dtype);
        if (out == SF_DT_COUNT)
                out = sf_usual_result(n->op, node->dt);
        SF_TRY(sf_step_dtypes(ir->ctx, &step, n->op, node->dt, out, n->accumulator));
        SF_TRY(sf_step_initial(ir->ctx, &step, n->value));
        model.op = n->op;
        model.acc = step.acc;
        model.dt = out;
        model.has_initial = step.has_initial;
        model.value.u64 = 0;
        if (step.has_initial)
                memcpy(&model.value, &step.initial, step.acc == SF_DT_F32 ? 4 : 8);
        SF_TRY(infer_mask(in, n, x, &mask));
        SF_TRY(read_axes(in, n, x, &model.axes));
        SF_TRY(infer_offsets(in, n, x, model.axes, &model.index, &model.start));
        int64_t length = sf_ir_length(node, model.axes);
        bool none = model.kind == SF_IR_FOLD && !length && !model.index;
        if (sf_op_is(n->op, SF_INDEX) && out == SF_DT_I32 && length > (int64_t)INT32_MAX + 1)
                return sf_fail(ir->ctx, SF_UNSUPPORTED, "%s of %s: there are %" PRId64 " positions, and their indices need i64", sf_op_name(n->op), show(ir, x).text, length);
        if (none && !sf_op_is(n->op, SF_EMPTY) && !model.has_initial)
                return FAIL("%s of no elements of %s has no value; give an initial one, or fold axes that are not empty", sf_op_name(n->op),
                            show(ir, x).text);
        result->node = sf_ir_reduce(ir, &model, x, mask);
        if (model.kind == SF_IR_FOLD && !n->keepdim && !model.index)
                result->node = sf_ir_squeeze(ir, result->node, model.axes);
        return SF_OK;
}

/*
 * a and b broadcast to one shape. What a mask leaves out passes the state on: there a is 1 and b is 0. The two are widened to the
 * accumulator by the pass, so that they keep their types here.
 */
static sf_status infer_recurrence(inference *in, const sf_node *n, meaning *result)
{
        sf_ir *ir = in->ir;
        int32_t arg[2];
        sf_ir_node model = {.kind = SF_IR_SCAN, .op = SF_RECURRENCE, .reverse = n->reverse, .exclusive = n->exclusive};
        sf_dt out = sf_dt_find(n->dtype);
        sf_step of_a, step;
        char ta[128], tb[128];
        int64_t shape[SF_MAX_NDIM], all[SF_MAX_NDIM];
        bool real = false, doubles = out == SF_DT_F64 || sf_dt_find(n->accumulator) == SF_DT_F64;
        for (int i = 0; i < 2; i++) {
                const meaning *m = &in->of[n->arg[i]];
                const sf_dt dt = m->node ? sf_ir_at(ir, m->node)->dt : number_dt(m->number);
                real = real || sf_dtypes[dt].kind == SF_KIND_REAL;
                doubles = doubles || dt == SF_DT_F64;
        }
        if (out == SF_DT_COUNT) {
                out = SF_DT_F32;
                if (real)
                        SF_TRY(common_dt(in, n, 0, 2, &out));
        }
        /* A number has no type of its own: it gets the accumulator's. */
        for (int i = 0; i < 2; i++)
                arg[i] = in->of[n->arg[i]].node ? in->of[n->arg[i]].node : typed_number(in, in->of[n->arg[i]].number, doubles ? SF_DT_F64 : SF_DT_F32);
        const int32_t rank = sf_ir_broadcast_shape(sf_ir_at(ir, arg[0])->ndim, sf_ir_at(ir, arg[0])->shape, sf_ir_at(ir, arg[1])->ndim,
                                                   sf_ir_at(ir, arg[1])->shape, shape);
        if (rank < 0)
                return FAIL("linear_recurrence of %s and %s: shapes %s and %s do not broadcast", show(ir, arg[0]).text, show(ir, arg[1]).text,
                            shape_of(ir, arg[0], ta), shape_of(ir, arg[1], tb));
        if (sf_dtypes[out].kind != SF_KIND_REAL)
                return sf_fail(ir->ctx, SF_UNSUPPORTED, "linear_recurrence into %s is not supported; its result can be f16, bf16, f32 or f64",
                               sf_dtypes[out].name);
        SF_TRY(sf_step_dtypes(ir->ctx, &of_a, SF_SUM, sf_ir_at(ir, arg[0])->dt, out, n->accumulator));
        SF_TRY(sf_step_dtypes(ir->ctx, &step, SF_SUM, sf_ir_at(ir, arg[1])->dt, out, n->accumulator));
        step.op = SF_RECURRENCE;
        step.acc = of_a.acc == SF_DT_F64 ? SF_DT_F64 : step.acc;
        SF_TRY(sf_step_initial(ir->ctx, &step, n->value));
        model.acc = step.acc;
        model.dt = out;
        model.has_initial = step.has_initial;
        if (step.has_initial)
                memcpy(&model.value, &step.initial, step.acc == SF_DT_F32 ? 4 : 8);
        if (n->arg[2]) {
                const int32_t mask = as_node(in, n->arg[2]);
                const sf_ir_node *m = sf_ir_at(ir, mask);
                if (m->dt != SF_DT_BOOL && m->dt != SF_DT_U8)
                        return sf_fail(ir->ctx, SF_UNSUPPORTED, "the mask %s is %s; it must be bool or u8", show(ir, mask).text, sf_dtypes[m->dt].name);
                if (sf_ir_broadcast_shape(rank, shape, m->ndim, m->shape, all) != rank || (rank && memcmp(all, shape, (size_t)rank * sizeof *shape)))
                        return FAIL("the mask %s has shape %s, which does not broadcast to that of the recurrence, %s", show(ir, mask).text,
                                    shape_of(ir, mask, ta), sf_shape_text(rank, shape, tb));
                for (int i = 0; i < 2; i++) {
                        const sf_dt dt = sf_ir_at(ir, arg[i])->dt;
                        arg[i] = sf_ir_map(ir, SF_CODE_WHERE, dt, sf_ir_cast(ir, mask, SF_DT_BOOL), arg[i], sf_ir_number(ir, dt, i == 0));
                }
        }
        const sf_ir_node *b = sf_ir_at(ir, arg[1]);
        if (b->ndim != rank || (rank && memcmp(b->shape, shape, (size_t)rank * sizeof *shape)))
                arg[1] = sf_ir_broadcast(ir, arg[1], rank, shape);
        SF_TRY(read_axes(in, n, arg[1], &model.axes));
        SF_TRY(infer_offsets(in, n, arg[1], model.axes, &model.index, &model.start));
        result->node = sf_ir_reduce(ir, &model, arg[1], arg[0]);
        return SF_OK;
}

/* Vectors get an axis that goes again: a row on the left, a column on the right. */
static sf_status infer_matmul(inference *in, const sf_node *n, meaning *result)
{
        sf_ir *ir = in->ir;
        int32_t arg[2] = {as_node(in, n->arg[0]), as_node(in, n->arg[1])}, goes = 0;
        sf_dt dt = promote(sf_ir_at(ir, arg[0])->dt, sf_ir_at(ir, arg[1])->dt);
        char ta[128], tb[128];
        int64_t shape[SF_MAX_NDIM];
        shape_of(ir, arg[0], ta);
        shape_of(ir, arg[1], tb);
        if (dt == SF_DT_COUNT || dt == SF_DT_BOOL)
                return sf_fail(ir->ctx, SF_UNSUPPORTED, "%s @ %s: a matmul of %s and %s is not supported; cast them", show(ir, arg[0]).text,
                               show(ir, arg[1]).text, sf_dtypes[sf_ir_at(ir, arg[0])->dt].name, sf_dtypes[sf_ir_at(ir, arg[1])->dt].name);
        for (int i = 0; i < 2; i++) {
                int32_t ndim = sf_ir_at(ir, arg[i])->ndim;
                if (!ndim)
                        return FAIL("%s @ %s: %s has rank 0; a matmul needs vectors or matrices", show(ir, arg[0]).text, show(ir, arg[1]).text,
                                    show(ir, arg[i]).text);
                if (ndim == 1) {
                        arg[i] = sf_ir_unsqueeze(ir, arg[i], i ? 2 : 1);
                        goes |= 1 << i;
                }
        }
        const sf_ir_node *a = sf_ir_at(ir, arg[0]), *b = sf_ir_at(ir, arg[1]);
        if (a->shape[a->ndim - 1] != b->shape[b->ndim - 2])
                return FAIL("%s @ %s: shapes %s and %s do not fit; the last length of the first must be the second to last of the second",
                            show(ir, arg[0]).text, show(ir, arg[1]).text, ta, tb);
        int32_t batch = sf_ir_broadcast_shape(a->ndim - 2, a->shape, b->ndim - 2, b->shape, shape);
        if (batch < 0 || batch + 3 > SF_MAX_NDIM)
                return FAIL("%s @ %s: shapes %s and %s do not broadcast before their last two axes", show(ir, arg[0]).text, show(ir, arg[1]).text, ta, tb);
        int32_t product = sf_ir_matmul(ir, dt, arg[0], arg[1]);
        result->node = sf_ir_squeeze(ir, product, (uint64_t)(goes & 1) << batch | (uint64_t)(goes >> 1) << (batch + 1));
        return SF_OK;
}

static sf_status infer_node(inference *in, int32_t id, const sf_tensor *inputs)
{
        const sf_node *n = &in->graph->node[id];
        meaning *result = &in->of[id];
        sf_ir *ir = in->ir;
        int32_t x = n->kind != SF_NODE_APPLY && n->kind != SF_NODE_MATMUL && n->kind != SF_NODE_RECURRENCE && n->arg[0] ? as_node(in, n->arg[0]) : 0;
        uint64_t axes = 0;
        if (n->needs && sf_ir_at(ir, x)->ndim && n->needs > sf_ir_at(ir, x)->ndim)
                return FAIL("%s has rank %d, which is less than %d subscripts name", show(ir, x).text, (int)sf_ir_at(ir, x)->ndim, (int)n->needs);
        switch (n->kind) {
        case SF_NODE_INPUT: {
                const sf_tensor *t = &inputs[n->index];
                result->node = sf_ir_input(ir, n->index, sf_dt_find(t->dtype), t->ndim, t->shape);
                return SF_OK;
        }
        case SF_NODE_CONSTANT: result->number = n->value; return SF_OK;
        case SF_NODE_LIKE:
                if (beyond(n->value, sf_ir_at(ir, x)->dt)) {
                        char text[160];
                        return FAIL("a tensor like %s: %s", show(ir, x).text,
                                    beyond_text(n->value, sf_ir_at(ir, x)->dt, text));
                }
                result->node = sf_ir_broadcast(ir, typed_number(in, n->value, sf_ir_at(ir, x)->dt), sf_ir_at(ir, x)->ndim, sf_ir_at(ir, x)->shape);
                return SF_OK;
        case SF_NODE_APPLY: return infer_apply(in, n, result);
        case SF_NODE_CAST: result->node = sf_ir_cast(ir, x, sf_dt_find(n->dtype)); return SF_OK;
        case SF_NODE_FLIP:
                SF_TRY(read_axes(in, n, x, &axes));
                result->node = sf_ir_flip(ir, x, axes);
                return SF_OK;
        case SF_NODE_PERMUTE:
        case SF_NODE_TRANSPOSE: return infer_permute(in, n, x, result);
        case SF_NODE_SQUEEZE:
        case SF_NODE_UNSQUEEZE: return infer_squeeze(in, n, x, result);
        case SF_NODE_BROADCAST: return infer_broadcast(in, n, x, result);
        case SF_NODE_SLICE:
        case SF_NODE_NARROW:
        case SF_NODE_SELECT: return infer_slice(in, n, x, result);
        case SF_NODE_CONCAT: return infer_concat(in, n, result);
        case SF_NODE_MATMUL: return infer_matmul(in, n, result);
        case SF_NODE_DERIVED: return infer_derived(in, n, x, result);
        case SF_NODE_RECURRENCE: return infer_recurrence(in, n, result);
        default: return infer_reduce(in, n, x, result);
        }
}

/* Shapes can only grow by broadcasting; what nobody could store is refused where it arises. */
static sf_status check_size(inference *in, int32_t node)
{
        const sf_ir_node *n = sf_ir_at(in->ir, node);
        int64_t bytes = 16; /* an element of any type, and as much again to spare */
        bool overflow = false;
        for (int32_t d = 0; d < n->ndim; d++)
                overflow = overflow || __builtin_mul_overflow(bytes, n->shape[d] ? n->shape[d] : 1, &bytes);
        char text[128];
        if (overflow || bytes > INT64_MAX / 256)
                return FAIL("%s has shape %s, which is more than any memory holds", show(in->ir, node).text, shape_of(in->ir, node, text));
        return SF_OK;
}

sf_status sf_infer(sf_ir *ir, const sf_graph *graph, const sf_tensor *inputs)
{
        inference in = {ir, graph, sf_ir_alloc(ir, ((size_t)graph->nodes + 1) * sizeof(meaning))};
        memset(in.of, 0, ((size_t)graph->nodes + 1) * sizeof *in.of);
        ir->inputs = graph->inputs;
        ir->name = sf_ir_alloc(ir, (size_t)graph->inputs * sizeof *ir->name);
        for (int32_t i = 0; i < graph->inputs; i++) {
                size_t size = strlen(graph->name[i]) + 1;
                ir->name[i] = memcpy(sf_ir_alloc(ir, size), graph->name[i], size);
        }
        for (int32_t id = 1; id <= graph->nodes; id++) {
                sf_status status = infer_node(&in, id, inputs);
                if (status == SF_OK && in.of[id].node)
                        status = check_size(&in, in.of[id].node);
                if (status != SF_OK)
                        return sf_notation_point(ir->ctx, graph, id, status);
        }
        ir->outputs = graph->outputs;
        ir->output = sf_ir_alloc(ir, (size_t)graph->outputs * sizeof *ir->output);
        for (int32_t i = 0; i < graph->outputs; i++)
                ir->output[i] = as_node(&in, graph->output[i]);
        return SF_OK;
}
