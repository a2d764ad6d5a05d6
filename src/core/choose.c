/* Reading of options structs, which grow from version to version; the table of dtypes in
 * scanfold.h; and what follows from it: accumulator, identity, initial value. */
#include "core/choose.h"
#include "core/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

sf_status sf_options_read(const sf_context *ctx, const char *type, const void *given, void *options, size_t size, uint64_t reserved)
{
        size_t given_size;
        memcpy(&given_size, given, sizeof given_size);
        if (given_size < sizeof given_size || given_size > SF_MOST_OPTIONS)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "options->size is %zu; it must be sizeof(%s), which is %zu", given_size, type, size);
        memset(options, 0, size);
        memcpy(options, given, given_size < size ? given_size : size);
        for (size_t i = size; i < given_size; i++)
                if (((const char *)given)[i])
                        return sf_fail(ctx, SF_UNSUPPORTED,
                                       "options->size is %zu, and byte %zu of the options is set; this library knows %zu bytes of %s: "
                                       "the caller was built with a newer header",
                                       given_size, i, size, type);
        for (size_t word = 0; reserved >> word; word++) {
                uint32_t value;
                memcpy(&value, (const char *)options + 4 * word, sizeof value);
                if ((reserved >> word & 1) && value)
                        return sf_fail(ctx, SF_UNSUPPORTED, "byte %zu of the options is a reserved field of %s, and is set; reserved fields must be 0", 4 * word, type);
        }
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

const sf_op_row sf_ops[] = {
#define OP(name, NAME, real, integer, natural, traits, on_bool)                                    \
        [SF_##NAME] = {#name, traits, on_bool},
#include "core/ops.def"
#undef OP
};

static const char op_names[] =
#define OP(name, NAME, ...) " SF_" #NAME
#include "core/ops.def"
#undef OP
        ;

bool sf_step_pair(sf_step *s, sf_op op, sf_dt in, sf_dt out)
{
        sf_kind from = sf_dtypes[in].kind, to = sf_dtypes[out].kind;
        s->op = op;
        s->in = in;
        s->out = out;
        if (sf_op_is(op, SF_INDEX)) {
                s->acc = in == SF_DT_F16 || in == SF_DT_BF16 ? SF_DT_F32 : in == SF_DT_BOOL ? SF_DT_U8 : in;
                return out == SF_DT_I32 || out == SF_DT_I64;
        }
        if (sf_op_is(op, SF_ROUNDS) && to != SF_KIND_REAL)
                return false;
        if (to == SF_KIND_BOOL) {
                s->op = sf_ops[op].on_bool;
                s->acc = SF_DT_U8;
                return from == SF_KIND_BOOL;
        }
        if (to == SF_KIND_REAL && !sf_op_is(op, SF_REALS))
                return false;
        if (to == SF_KIND_REAL && from == SF_KIND_REAL) {
                s->acc = in == SF_DT_F64 || out == SF_DT_F64 ? SF_DT_F64 : SF_DT_F32;
                return true;
        }
        s->acc = out;
        if (to == SF_KIND_REAL)
                return out == SF_DT_F32 || out == SF_DT_F64;
        return from != SF_KIND_REAL && (sf_op_is(op, SF_WRAPS) || holds_every_value(out, in));
}

sf_dt sf_usual_result(sf_op op, sf_dt in)
{
        const sf_kind kind = sf_dtypes[in].kind;
        if (sf_op_is(op, SF_INDEX))
                return SF_DT_I64;
        if (kind != SF_KIND_REAL && sf_op_is(op, SF_ROUNDS))
                return SF_DT_F32;
        if (kind != SF_KIND_REAL && sf_op_is(op, SF_WRAPS))
                return kind == SF_KIND_UNSIGNED ? SF_DT_U64 : SF_DT_I64;
        return in;
}

/* The dtypes an operation on `in` may have for its result: "f16, bf16, f32 or f64". */
static const char *results_text(sf_op op, sf_dt in, char text[128])
{
        size_t length = 0;
        int left = 0;
        sf_step s;
        strcpy(text, "of no dtype");
        for (int dt = 0; dt < SF_DT_COUNT; dt++)
                left += sf_step_pair(&s, op, in, (sf_dt)dt);
        for (int dt = 0; dt < SF_DT_COUNT && length < 100; dt++)
                if (sf_step_pair(&s, op, in, (sf_dt)dt)) {
                        left--;
                        const char *next = left > 1 ? ", " : left ? " or " : "";
                        length += (size_t)snprintf(text + length, 128 - length, "%s%s",
                                                   sf_dtypes[dt].name, next);
                }
        return text;
}

sf_status sf_step_dtypes(const sf_context *ctx, sf_step *s, sf_op op, sf_dt in, sf_dt to, sf_dtype accumulator)
{
        char text[128];
        if (!sf_op_name(op))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "op is %d; it must be one of%s", (int)op,
                               op_names);
        if (sf_op_is(op, SF_TWO))
                return sf_fail(ctx, SF_UNSUPPORTED, "op is SF_RECURRENCE, of %s into %s here, but it takes two elements a position: sf_recurrence computes it",
                               sf_dtypes[in].name, sf_dtypes[to].name);
        if (!sf_step_pair(s, op, in, to))
                return sf_fail(ctx, SF_UNSUPPORTED,
                               "%s of %s into %s is not supported; its result can be %s",
                               sf_op_name(op), sf_dtypes[in].name, sf_dtypes[to].name,
                               results_text(op, in, text));
        if (!accumulator.code && !accumulator.bits && !accumulator.lanes)
                return SF_OK;
        sf_dt asked = sf_dt_find(accumulator);
        bool real = sf_dtypes[s->acc].kind == SF_KIND_REAL;
        /* An index does not depend on the accumulator: elements are compared as they are. */
        bool wider = !sf_op_is(op, SF_INDEX) && asked < SF_DT_COUNT && asked != SF_DT_F16 && asked != SF_DT_BF16 && asked != SF_DT_BOOL && to != SF_DT_BOOL &&
                     (sf_dtypes[asked].kind == SF_KIND_REAL) == real && sf_dtypes[asked].bits >= sf_dtypes[s->acc].bits;
        const char *right = to == SF_DT_BOOL || sf_op_is(op, SF_INDEX) ? "left unset"
                            : !real          ? "left unset or an integer type no narrower than "
                            : s->acc == SF_DT_F32 ? "left unset, f32 or f64"
                                                  : "left unset or f64";
        if (!wider)
                return sf_fail(ctx, SF_UNSUPPORTED,
                               "accumulator %s does not fit %s of %s into %s; it must be %s%s",
                               sf_dtype_text(accumulator, text), sf_op_name(op), sf_dtypes[in].name,
                               sf_dtypes[to].name, right,
                               real || to == SF_DT_BOOL || sf_op_is(op, SF_INDEX) ? "" : sf_dtypes[s->acc].name);
        /* Integers wrap, and the maximum or minimum of some reals is the same in any wider type.
         * There a wider accumulator would change no bit, and it is not used. */
        if (real && sf_op_is(op, SF_ORDERED))
                s->acc = asked;
        return SF_OK;
}

sf_status sf_step_initial(const sf_context *ctx, sf_step *s, sf_scalar v)
{
        char text[64];
        s->has_initial = v.kind != SF_SCALAR_NONE;
        if (s->has_initial && sf_op_is(s->op, SF_INDEX))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "initial is given, but %s is a position among the elements: leave it unset", sf_op_name(s->op));
        s->initial = (sf_value){.u64 = 0};
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
                s->initial = sf_lift_initial(s->op, s->acc, s->initial);
                return SF_OK;
        }
        bool is_signed = sf_dtypes[s->acc].kind == SF_KIND_SIGNED, fits = true;
        uint64_t u = v.value.u;
        if (v.kind == SF_SCALAR_REAL) {
                double f = v.value.f;
                /* cppcheck-suppress incorrectLogicOperator ; it cannot read hexadecimal numbers */
                fits = f == floor(f) && f >= -0x1p63 && f < 0x1p64;
                u = !fits ? 0 : f < 0 ? (uint64_t)(int64_t)f : (uint64_t)f;
                v.kind = f < 0 ? SF_SCALAR_INT : SF_SCALAR_UINT;
        }
        /* The value fits if wrapping it to the accumulator keeps its bits, and if the type has its
         * sign. */
        bool negative = v.kind == SF_SCALAR_INT && (int64_t)u < 0;
        fits = fits && sf_wrap(s->acc, u) == u && (negative ? is_signed : !is_signed || (int64_t)u >= 0);
        fits = fits && !(s->out == SF_DT_BOOL && u > 1);
        if (!fits)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "initial is %s; for an output of %s it must be an integer in that type's range", text,
                               sf_dtypes[s->out].name);
        s->initial = (sf_value){.u64 = u};
        return SF_OK;
}
