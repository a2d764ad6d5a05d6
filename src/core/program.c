/* Programs, one value at a time. Slow and simple on purpose: the backends' elementwise code is
 * tested against this. */
#include "core/program.h"

#include "core/elementary.h"
#include "core/value.h"

#include <math.h>

static bool is_real(sf_dt dt)
{
        return sf_dtypes[dt].kind == SF_KIND_REAL;
}

/* Rounds to f16 or bf16 and returns the result as f32; f32 itself stays as it is. */
static sf_value hold(sf_dt dt, float v)
{
        if (dt == SF_DT_F16)
                v = sf_f32_from_f16(sf_f16_from(v));
        else if (dt == SF_DT_BF16)
                v = sf_f32_from_bf16(sf_bf16_from(v));
        return (sf_value){.f32 = v};
}

/* ------------------------------------------------------------------------------------------------------------
 * Casts
 * ---------------------------------------------------------------------------------------------------------- */
static sf_value real_from_real(sf_dt to, double v)
{
        switch (to) {
        case SF_DT_F64: return (sf_value){.f64 = v};
        case SF_DT_F16: return (sf_value){.f32 = sf_f32_from_f16(sf_f16_from(v))};
        case SF_DT_BF16: return (sf_value){.f32 = sf_f32_from_bf16(sf_bf16_from(v))};
        default: return (sf_value){.f32 = (float)v};
        }
}

/* See the table in program.h: truncated to 32 or 64 bits, then wrapped. */
static uint64_t integer_from_real(sf_dt to, double v)
{
        bool by_32_bits = to == SF_DT_I8 || to == SF_DT_I16 || to == SF_DT_I32 || to == SF_DT_U16;
        double end = by_32_bits ? 0x1p31 : 0x1p63; /* the first value above the range */
        uint64_t half = 0;
        if (to == SF_DT_U64 && v >= end) {
                v -= end;
                half = (uint64_t)1 << 63;
        }
        int64_t whole = v >= -end && v < end ? (int64_t)v : (int64_t)-end;
        return sf_wrap(to, (uint64_t)whole ^ half);
}

sf_value sf_cast(sf_dt from, sf_dt to, sf_value v)
{
        if (from == to)
                return v;
        if (is_real(from)) {
                double wide = from == SF_DT_F64 ? v.f64 : (double)v.f32;
                if (is_real(to))
                        return real_from_real(to, wide);
                return (sf_value){.u64 = to == SF_DT_BOOL ? wide != 0 : integer_from_real(to, wide)};
        }
        if (to == SF_DT_BOOL)
                return (sf_value){.u64 = v.u64 != 0};
        if (!is_real(to) || to == SF_DT_F64)
                return sf_value_from_integer(from, v.u64, to);
        return hold(to, sf_value_from_integer(from, v.u64, SF_DT_F32).f32);
}

/* The type in which an sf_value stores a value of this type. */
static sf_dt held_as(sf_dt dt)
{
        return dt == SF_DT_F16 || dt == SF_DT_BF16 ? SF_DT_F32 : dt;
}

sf_value sf_element_load(sf_dt dt, const void *p)
{
        return sf_value_load(dt, held_as(dt), p);
}

void sf_element_store(sf_dt dt, sf_value v, void *p)
{
        sf_value_store(held_as(dt), dt, v, p);
}

/* ------------------------------------------------------------------------------------------------------------
 * Instructions
 * ---------------------------------------------------------------------------------------------------------- */

/* Maximum and minimum combine as SF_MAX and SF_MIN do. */
static sf_value extreme(sf_op op, sf_dt dt, sf_value a, sf_value b)
{
        return sf_combine(op, held_as(dt), a, b);
}

static float eval_f32(sf_code code, float a, float b)
{
        switch (code) {
        case SF_CODE_ADD: return a + b;
        case SF_CODE_SUB: return a - b;
        case SF_CODE_MUL: return a * b;
        case SF_CODE_DIV: return a / b;
        case SF_CODE_NEG: return -a;
        case SF_CODE_ABS: return fabsf(a);
        case SF_CODE_EXP: return sf_exp_f32(a);
        case SF_CODE_LOG: return sf_log_f32(a);
        case SF_CODE_SQRT: return sqrtf(a);
        case SF_CODE_SQUARE: return a * a;
        case SF_CODE_RELU: return a > 0 || a != a ? a : 0.0f;
        case SF_CODE_SIGMOID: return sf_sigmoid_f32(a);
        default: return sf_tanh_f32(a);
        }
}

static double eval_f64(sf_code code, double a, double b)
{
        switch (code) {
        case SF_CODE_ADD: return a + b;
        case SF_CODE_SUB: return a - b;
        case SF_CODE_MUL: return a * b;
        case SF_CODE_DIV: return a / b;
        case SF_CODE_NEG: return -a;
        case SF_CODE_ABS: return fabs(a);
        case SF_CODE_EXP: return sf_exp_f64(a);
        case SF_CODE_LOG: return sf_log_f64(a);
        case SF_CODE_SQRT: return sqrt(a);
        case SF_CODE_SQUARE: return a * a;
        case SF_CODE_RELU: return a > 0 || a != a ? a : 0.0;
        case SF_CODE_SIGMOID: return sf_sigmoid_f64(a);
        default: return sf_tanh_f64(a);
        }
}

static uint64_t eval_integer(sf_code code, sf_dt dt, uint64_t a, uint64_t b)
{
        bool negative = sf_dtypes[dt].kind == SF_KIND_SIGNED && (int64_t)a < 0;
        uint64_t v;
        switch (code) {
        case SF_CODE_ADD: v = a + b; break;
        case SF_CODE_SUB: v = a - b; break;
        case SF_CODE_MUL: v = a * b; break;
        case SF_CODE_NEG: v = 0 - a; break;
        case SF_CODE_ABS: v = negative ? 0 - a : a; break;
        case SF_CODE_SQUARE: v = a * a; break;
        default: v = negative ? 0 : a; break; /* relu */
        }
        return dt == SF_DT_BOOL ? v != 0 : sf_wrap(dt, v);
}

/* Every comparison from these three. If one operand is NaN, all three are false. */
static bool test(sf_code code, bool below, bool equal, bool above)
{
        switch (code) {
        case SF_CODE_EQ: return equal;
        case SF_CODE_NE: return !equal;
        case SF_CODE_LT: return below;
        case SF_CODE_LE: return below || equal;
        case SF_CODE_GT: return above;
        default: return above || equal;
        }
}

static bool eval_test(sf_code code, sf_dt dt, sf_value a, sf_value b)
{
        if (is_real(dt)) {
                double x = dt == SF_DT_F64 ? a.f64 : (double)a.f32, y = dt == SF_DT_F64 ? b.f64 : (double)b.f32;
                return test(code, x < y, x == y, x > y);
        }
        if (sf_dtypes[dt].kind == SF_KIND_SIGNED)
                return test(code, (int64_t)a.u64 < (int64_t)b.u64, a.u64 == b.u64, (int64_t)a.u64 > (int64_t)b.u64);
        return test(code, a.u64 < b.u64, a.u64 == b.u64, a.u64 > b.u64);
}

const uint8_t sf_code_arguments[SF_CODE_COUNT] = {
#define CODE(name, NAME, count, kind) [SF_CODE_##NAME] = (count),
#include "core/codes.def"
#undef CODE
};

sf_value sf_code_eval(const sf_instruction *i, const sf_program *p, const sf_value *values)
{
        sf_dt dt = (sf_dt)i->dt, first = dt;
        sf_value a = {.u64 = 0}, b = a;
        if (sf_code_arguments[i->code] > 0) {
                a = values[i->arg[0]];
                first = (sf_dt)p->code[i->arg[0]].dt;
        }
        if (sf_code_arguments[i->code] > 1)
                b = values[i->arg[1]];
        switch (i->code) {
        case SF_CODE_CONSTANT: return p->constant[i->slot];
        case SF_CODE_CAST: return sf_cast(first, dt, a);
        case SF_CODE_WHERE: return a.u64 ? b : values[i->arg[2]];
        case SF_CODE_MAXIMUM: return extreme(SF_MAX, dt, a, b);
        case SF_CODE_MINIMUM: return extreme(SF_MIN, dt, a, b);
        case SF_CODE_EQ:
        case SF_CODE_NE:
        case SF_CODE_LT:
        case SF_CODE_LE:
        case SF_CODE_GT:
        case SF_CODE_GE: return (sf_value){.u64 = eval_test((sf_code)i->code, first, a, b)};
        default: break;
        }
        if (dt == SF_DT_F64)
                return (sf_value){.f64 = eval_f64((sf_code)i->code, a.f64, b.f64)};
        if (is_real(dt))
                return hold(dt, eval_f32((sf_code)i->code, a.f32, b.f32));
        return (sf_value){.u64 = eval_integer((sf_code)i->code, dt, a.u64, b.u64)};
}

/* ------------------------------------------------------------------------------------------------------------
 * Programs
 * ---------------------------------------------------------------------------------------------------------- */
static sf_value run(const sf_fuse *f, const sf_program *p, const char *const *at, sf_value result, sf_dt from, sf_dt to)
{
        sf_value values[SF_PROGRAM_MAX];
        for (int32_t i = 0; i < p->count; i++) {
                const sf_instruction *code = &p->code[i];
                if (code->code == SF_CODE_LOAD)
                        values[i] = sf_cast(f->operand[code->slot].dt, (sf_dt)code->dt,
                                            sf_element_load(f->operand[code->slot].dt, at[code->slot]));
                else if (code->code == SF_CODE_RESULT)
                        values[i] = sf_cast(from, (sf_dt)code->dt, result);
                else
                        values[i] = sf_code_eval(code, p, values);
        }
        return sf_cast((sf_dt)p->code[p->count - 1].dt, to, values[p->count - 1]);
}

sf_value sf_load_eval(const sf_fuse *f, const char *const *at, sf_dt to)
{
        if (!f->load.count)
                return sf_cast(f->operand[0].dt, to, sf_element_load(f->operand[0].dt, at[0]));
        return run(f, &f->load, at, (sf_value){.u64 = 0}, to, to);
}

sf_value sf_beside_eval(const sf_fuse *f, const char *const *at, sf_dt to)
{
        return run(f, &f->beside, at, (sf_value){.u64 = 0}, to, to);
}

sf_value sf_store_eval(const sf_fuse *f, const char *const *at, sf_value result, sf_dt from, sf_dt to)
{
        return f->store.count ? run(f, &f->store, at, result, from, to) : sf_cast(from, to, result);
}
