/* Makes the ir from a graph. Shapes and dtypes follow from those of the inputs. All errors in them
 * are reported here, in infer_views.c and in infer_reduce.c. */
#include "core/choose.h"
#include "core/value.h"
#include "expr/derive.h"
#include "expr/infer.h"
#include "expr/notation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

sf_excerpt sf_infer_show(const sf_ir *ir, int32_t node)
{
        sf_excerpt e = {{0}};
        if (sf_ir_print(ir, node, e.text, sizeof e.text) >= sizeof e.text)
                memcpy(e.text + sizeof e.text - 4, "...", 4);
        return e;
}

const char *sf_infer_shape(const sf_ir *ir, int32_t node, char text[128])
{
        return sf_shape_text(sf_ir_at(ir, node)->ndim, sf_ir_at(ir, node)->shape, text);
}

/* ------------------------------------------------------------------------------------------------------------
 * Types
 * ---------------------------------------------------------------------------------------------------------- */

sf_dt sf_infer_promote(sf_dt a, sf_dt b)
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

/* As torch's result_type: tensors with dimensions come first, then those without, then numbers; a
 * later group counts only if it is of a higher kind (bool, integer, real). */
static sf_dt combine(sf_dt higher, sf_dt lower)
{
        if (higher == SF_DT_COUNT || lower == SF_DT_COUNT)
                return higher == SF_DT_COUNT ? lower : higher;
        bool real_h = sf_dtypes[higher].kind == SF_KIND_REAL, real_l = sf_dtypes[lower].kind == SF_KIND_REAL;
        if (!real_h && (real_l || sf_dtypes[higher].kind == SF_KIND_BOOL))
                return sf_infer_promote(higher, lower);
        return higher;
}

sf_dt sf_infer_number_dt(sf_scalar v)
{
        return v.kind == SF_SCALAR_REAL                            ? SF_DT_F32
               : v.kind == SF_SCALAR_UINT && v.value.u > INT64_MAX ? SF_DT_U64
                                                                   : SF_DT_I64;
}

sf_status sf_infer_common_dt(sf_inference *in, const sf_node *n, int32_t from, int32_t to, sf_dt *dt)
{
        sf_dt group[3] = {SF_DT_COUNT, SF_DT_COUNT, SF_DT_COUNT};
        for (int32_t i = from; i < to; i++) {
                const sf_meaning *m = &in->of[n->arg[i]];
                sf_dt *g = &group[!m->node ? 2 : sf_ir_at(in->ir, m->node)->ndim ? 0 : 1];
                sf_dt mine = m->node ? sf_ir_at(in->ir, m->node)->dt : sf_infer_number_dt(m->number), both = *g == SF_DT_COUNT ? mine : sf_infer_promote(*g, mine);
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

int32_t sf_infer_number(sf_inference *in, sf_scalar v, sf_dt dt)
{
        sf_value value = v.kind == SF_SCALAR_REAL  ? sf_cast(SF_DT_F64, dt, (sf_value){.f64 = v.value.f})
                         : v.kind == SF_SCALAR_INT ? sf_cast(SF_DT_I64, dt, (sf_value){.u64 = (uint64_t)v.value.i})
                                                   : sf_cast(SF_DT_U64, dt, (sf_value){.u64 = v.value.u});
        return sf_ir_constant(in->ir, dt, value);
}

int32_t sf_infer_as_node(sf_inference *in, int32_t node)
{
        sf_meaning *m = &in->of[node];
        if (!m->node)
                m->node = sf_infer_number(in, m->number, sf_infer_number_dt(m->number));
        return m->node;
}

static int32_t as_type(sf_inference *in, int32_t node, sf_dt dt)
{
        const sf_meaning *m = &in->of[node];
        return m->node ? sf_ir_cast(in->ir, m->node, dt) : sf_infer_number(in, m->number, dt);
}

__extension__ typedef __int128 wide; /* can hold every 64-bit integer, signed or unsigned */

static wide whole(sf_scalar v)
{
        return v.kind == SF_SCALAR_INT ? (wide)v.value.i : (wide)v.value.u;
}

/* Arithmetic on numbers alone gives a number, as in Python; an integer if all are integers. */
static sf_status fold_numbers(sf_inference *in, const sf_node *n, sf_meaning *result, bool *folded)
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

/* Where a number is relative to the range of an integer type, without its fraction: -1 below, 1
 * above (NaN too), 0 inside. */
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
 * Elementwise
 * ---------------------------------------------------------------------------------------------------------- */

/*
 * Argument i is a number that does not fit the integer type `dt` of the other argument. A
 * comparison is by value, so it has the same result for all elements. A minimum with a number above
 * the range, or a maximum with one below it, changes nothing. Any other result could not be stored.
 */
static sf_status infer_beyond(sf_inference *in, const sf_node *n, int32_t i, sf_dt dt, sf_meaning *result)
{
        const sf_scalar number = in->of[n->arg[i]].number;
        const int32_t other = sf_infer_as_node(in, n->arg[n->function == SF_WHERE ? 3 - i : 1 - i]);
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
                    sf_function_name(n->function), sf_infer_show(in->ir, other).text,
                    beyond_text(number, dt, text), sf_infer_show(in->ir, other).text);
}

static sf_status infer_apply(sf_inference *in, const sf_node *n, sf_meaning *result)
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
        SF_TRY(sf_infer_common_dt(in, n, first, takes, &dt));
        bool needs_real = n->function == SF_DIV || n->function == SF_EXP || n->function == SF_LOG || n->function == SF_SQRT ||
                          n->function == SF_SIGMOID || n->function == SF_TANH;
        if (needs_real && sf_dtypes[dt].kind != SF_KIND_REAL)
                dt = SF_DT_F32;
        if (dt == SF_DT_BOOL && (n->function == SF_SUB || n->function == SF_NEG))
                return sf_fail(ir->ctx, SF_UNSUPPORTED, "%s of bools is not supported; cast them, or compare with ==", n->function == SF_SUB ? "-" : "negation");
        if (n->function == SF_WHERE) {
                arg[0] = sf_infer_as_node(in, n->arg[0]);
                if (sf_ir_at(ir, arg[0])->dt != SF_DT_BOOL && sf_ir_at(ir, arg[0])->dt != SF_DT_U8)
                        return FAIL("where chooses by %s, which is %s; it must be bool or u8", sf_infer_show(ir, arg[0]).text, sf_dtypes[sf_ir_at(ir, arg[0])->dt].name);
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
                                            sf_infer_show(ir, arg[i]).text, sf_infer_shape(ir, arg[i], a), sf_infer_show(ir, arg[k]).text, sf_infer_shape(ir, arg[k], b));
                        }
        result->node = sf_ir_map(ir, codes[n->function], dt, arg[0], arg[1], arg[2]);
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * Nodes
 * ---------------------------------------------------------------------------------------------------------- */
static sf_status infer_node(sf_inference *in, int32_t id, const sf_tensor *inputs)
{
        const sf_node *n = &in->graph->node[id];
        sf_meaning *result = &in->of[id];
        sf_ir *ir = in->ir;
        int32_t x = n->kind != SF_NODE_APPLY && n->kind != SF_NODE_MATMUL && n->kind != SF_NODE_RECURRENCE && n->arg[0] ? sf_infer_as_node(in, n->arg[0]) : 0;
        uint64_t axes = 0;
        if (n->needs && sf_ir_at(ir, x)->ndim && n->needs > sf_ir_at(ir, x)->ndim)
                return FAIL("%s has rank %d, which is less than %d subscripts name", sf_infer_show(ir, x).text, (int)sf_ir_at(ir, x)->ndim, (int)n->needs);
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
                        return FAIL("a tensor like %s: %s", sf_infer_show(ir, x).text,
                                    beyond_text(n->value, sf_ir_at(ir, x)->dt, text));
                }
                result->node = sf_ir_broadcast(ir, sf_infer_number(in, n->value, sf_ir_at(ir, x)->dt), sf_ir_at(ir, x)->ndim, sf_ir_at(ir, x)->shape);
                return SF_OK;
        case SF_NODE_APPLY: return infer_apply(in, n, result);
        case SF_NODE_CAST: result->node = sf_ir_cast(ir, x, sf_dt_find(n->dtype)); return SF_OK;
        case SF_NODE_FLIP:
                SF_TRY(sf_infer_axes(in, n, x, &axes));
                result->node = sf_ir_flip(ir, x, axes);
                return SF_OK;
        case SF_NODE_PERMUTE:
        case SF_NODE_TRANSPOSE: return sf_infer_permute(in, n, x, result);
        case SF_NODE_SQUEEZE:
        case SF_NODE_UNSQUEEZE: return sf_infer_squeeze(in, n, x, result);
        case SF_NODE_BROADCAST: return sf_infer_broadcast(in, n, x, result);
        case SF_NODE_SLICE:
        case SF_NODE_NARROW:
        case SF_NODE_SELECT: return sf_infer_slice(in, n, x, result);
        case SF_NODE_CONCAT: return sf_infer_concat(in, n, result);
        case SF_NODE_SPREAD: return sf_infer_spread(in, n, x, result);
        case SF_NODE_MATMUL: return sf_infer_matmul(in, n, result);
        case SF_NODE_DERIVED: return sf_infer_derived(in, n, x, result);
        case SF_NODE_RECURRENCE: return sf_infer_recurrence(in, n, result);
        default: return sf_infer_reduce(in, n, x, result);
        }
}

/* Only broadcasting makes shapes larger. A shape that no memory could hold is refused at the node
 * that makes it. */
static sf_status check_size(sf_inference *in, int32_t node)
{
        const sf_ir_node *n = sf_ir_at(in->ir, node);
        int64_t bytes = 16; /* the largest element has 8 bytes; twice that, to be safe */
        bool overflow = false;
        for (int32_t d = 0; d < n->ndim; d++)
                overflow = overflow || __builtin_mul_overflow(bytes, n->shape[d] ? n->shape[d] : 1, &bytes);
        char text[128];
        if (overflow || bytes > INT64_MAX / 256)
                return FAIL("%s has shape %s, which is more than any memory holds", sf_infer_show(in->ir, node).text, sf_infer_shape(in->ir, node, text));
        return SF_OK;
}

sf_status sf_infer(sf_ir *ir, const sf_graph *graph, const sf_tensor *inputs)
{
        sf_inference in = {ir, graph, sf_ir_alloc(ir, ((size_t)graph->nodes + 1) * sizeof(sf_meaning))};
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
                ir->output[i] = sf_infer_as_node(&in, graph->output[i]);
        return SF_OK;
}
