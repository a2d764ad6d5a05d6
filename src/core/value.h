/*
 * value.h: load, combine and store one element at a time. The reference computes with these, and
 * the vector kernels must give the same bits.
 */
#ifndef SF_VALUE_H
#define SF_VALUE_H

#include "core/core.h"
#include "core/elementary.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------
 * Half-precision
 * ---------------------------------------------------------------------------------------------------------- */

/* Rounds v once, to nearest even, to a binary format of `man` stored mantissa and `exp` exponent bits. */
static inline uint16_t sf_narrow(double v, int exp, int man)
{
        uint64_t bits;
        memcpy(&bits, &v, 8);
        uint64_t sign = (bits >> 63) << (exp + man);
        uint64_t magnitude = bits & 0x7fffffffffffffffu;
        uint64_t inf = (((uint64_t)1 << exp) - 1) << man;
        if (magnitude > 0x7ff0000000000000u)
                return (uint16_t)(sign | inf | (uint64_t)1 << (man - 1));
        int bias = (1 << (exp - 1)) - 1;
        int64_t e = (int64_t)(magnitude >> 52) - 1023 + bias; /* the exponent field it would have */
        if (e >= (1 << exp) - 1)
                return (uint16_t)(sign | inf);
        /* Below the normal range the mantissa is shifted further; what is too small, such as
         * 2^-1074, becomes zero. */
        int64_t shift = 52 - man + (e < 1 ? 1 - e : 0);
        if (shift > 54)
                return (uint16_t)sign;
        uint64_t whole = (magnitude & 0xfffffffffffffu) | (magnitude >> 52 ? (uint64_t)1 << 52 : 0);
        uint64_t kept = whole >> shift, rest = whole & (((uint64_t)1 << shift) - 1), half = (uint64_t)1 << (shift - 1);
        kept += rest > half || (rest == half && (kept & 1));
        /* `kept` has the implicit bit where the result is normal, so adding (e - 1) << man makes
         * the exponent. A mantissa that was rounded up to the next power of two carries into the
         * exponent, up to infinity. */
        return (uint16_t)(sign | (kept + (e < 1 ? 0 : (uint64_t)(e - 1) << man)));
}

static inline uint16_t sf_f16_from(double v)
{
        return sf_narrow(v, 5, 10);
}

static inline uint16_t sf_bf16_from(double v)
{
        return sf_narrow(v, 8, 7);
}

static inline float sf_f32_from_bf16(uint16_t h)
{
        return sf_f32_from_bits((uint32_t)h << 16);
}

static inline float sf_f32_from_f16(uint16_t h)
{
        uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
        if (magnitude >= 0x7c00) /* inf, NaN */
                return sf_f32_from_bits(sign | 0x7f800000 | magnitude << 13);
        /* Shifted into place, the value is too small by a factor of 2^112; the product is exact,
         * for subnormals too. */
        float scaled = sf_f32_from_bits(magnitude << 13) * 0x1p112f;
        return sign ? -scaled : scaled;
}

/* ------------------------------------------------------------------------------------------------------------
 * Integers: wrapped to their width
 * ---------------------------------------------------------------------------------------------------------- */
static inline uint64_t sf_wrap(sf_dt dt, uint64_t v)
{
        int shift = 64 - sf_dtypes[dt].bits;
        return sf_dtypes[dt].kind == SF_KIND_SIGNED ? (uint64_t)((int64_t)(v << shift) >> shift) : v << shift >> shift;
}

/* -------------------------------------------------------------------------------------------------
 * Products of reals
 * ---------------------------------------------------------------------------------------------- */
#define P(name) sf_##name##_f32
#define P_REAL float
#define P_INT int32_t
#define P_UINT uint32_t
#define P_BITS(v) sf_f32_bits(v)
#define P_OF(i) sf_f32_from_bits(i)
#define P_CHOOSE(c, y, n) ((c) ? (y) : (n))
#define P_MANTISSA 23
#define P_BIAS 127
#include "core/product.inc.h"

#define P(name) sf_##name##_f64
#define P_REAL double
#define P_INT int64_t
#define P_UINT uint64_t
#define P_BITS(v) sf_f64_bits(v)
#define P_OF(i) sf_f64_from_bits(i)
#define P_CHOOSE(c, y, n) ((c) ? (y) : (n))
#define P_MANTISSA 52
#define P_BIAS 1023
#include "core/product.inc.h"

/* A product as a number of the accumulator's type. */
static inline sf_value sf_product_lower(sf_dt acc, sf_value v)
{
        if (!v.exponent)
                return v;
        if (acc == SF_DT_F32)
                return (sf_value){
                        .f32 = sf_product_lower_f32((sf_product_f32){v.f32, (int32_t)v.exponent})};
        return (sf_value){.f64 = sf_product_lower_f64((sf_product_f64){v.f64, v.exponent})};
}

/* A settled product, from an accumulator's lanes, as a value: the exponent is 0 unless the product
 * is outside the range of normal numbers. */
static inline sf_value sf_product_value(sf_dt acc, sf_value v)
{
        const bool single = acc == SF_DT_F32;
        const int64_t lowest = single ? -126 : -1022;
        const bool special = single ? v.f32 == 0 || !isfinite(v.f32) : v.f64 == 0 || !isfinite(v.f64);
        const bool beyond = v.exponent < lowest || v.exponent > 1 - lowest;
        if (special)
                v.exponent = 0;
        return special || beyond ? v : sf_product_lower(acc, v);
}

/* a times b. The exponent is 0 unless the product is outside the range of normal numbers. */
static inline sf_value sf_multiply(sf_dt acc, sf_value a, sf_value b)
{
        if (acc == SF_DT_F32) {
                const sf_product_f32 p = sf_product_settle_f32(
                        sf_product_combine_f32(sf_product_of_f32(a.f32, (int32_t)a.exponent),
                                               sf_product_of_f32(b.f32, (int32_t)b.exponent)));
                return sf_product_value(acc, (sf_value){.f32 = p.mantissa, .exponent = p.exponent});
        }
        const sf_product_f64 p = sf_product_settle_f64(
                sf_product_combine_f64(sf_product_of_f64(a.f64, a.exponent),
                                       sf_product_of_f64(b.f64, b.exponent)));
        return sf_product_value(acc, (sf_value){.f64 = p.mantissa, .exponent = p.exponent});
}

/* ------------------------------------------------------------------------------------------------------------
 * Load, combine, store
 * ---------------------------------------------------------------------------------------------------------- */

/* Converts an integer of type `dt` to the accumulator's type. */
static inline sf_value sf_value_from_integer(sf_dt dt, uint64_t u, sf_dt acc)
{
        bool negative = sf_dtypes[dt].kind == SF_KIND_SIGNED;
        if (acc == SF_DT_F32)
                return (sf_value){.f32 = negative ? (float)(int64_t)u : (float)u};
        if (acc == SF_DT_F64)
                return (sf_value){.f64 = negative ? (double)(int64_t)u : (double)u};
        return (sf_value){.u64 = sf_wrap(acc, u)};
}

static inline sf_value sf_value_from_f64(double v, sf_dt acc)
{
        if (acc == SF_DT_F32)
                return (sf_value){.f32 = (float)v};
        return (sf_value){.f64 = v};
}

/* Loads the element at p, of type `in`, and converts it to the accumulator's type. */
static inline sf_value sf_value_load(sf_dt in, sf_dt acc, const void *p)
{
        union {
#define DTYPE(name, NAME, ctype, code, bits, kind) ctype NAME;
#include "core/dtypes.def"
#undef DTYPE
        } u;
        memcpy(&u, p, sf_dtypes[in].size);
        switch (in) {
        case SF_DT_F16: return sf_value_from_f64(sf_f32_from_f16(u.F16), acc);
        case SF_DT_BF16: return sf_value_from_f64(sf_f32_from_bf16(u.BF16), acc);
        case SF_DT_F32: return sf_value_from_f64(u.F32, acc);
        case SF_DT_F64: return sf_value_from_f64(u.F64, acc);
        case SF_DT_I8: return sf_value_from_integer(in, (uint64_t)u.I8, acc);
        case SF_DT_I16: return sf_value_from_integer(in, (uint64_t)u.I16, acc);
        case SF_DT_I32: return sf_value_from_integer(in, (uint64_t)u.I32, acc);
        case SF_DT_I64: return sf_value_from_integer(in, (uint64_t)u.I64, acc);
        case SF_DT_U8: return sf_value_from_integer(in, u.U8, acc);
        case SF_DT_U16: return sf_value_from_integer(in, u.U16, acc);
        case SF_DT_U32: return sf_value_from_integer(in, u.U32, acc);
        case SF_DT_U64: return sf_value_from_integer(in, u.U64, acc);
        default: return sf_value_from_integer(in, u.BOOL != 0, acc);
        }
}

/* Rounds a number of type `acc` once to `out` and writes it at p. */
static inline void sf_value_store(sf_dt acc, sf_dt out, sf_value v, void *p)
{
        if (sf_dtypes[acc].kind == SF_KIND_REAL) {
                double wide = acc == SF_DT_F32 ? (double)v.f32 : v.f64;
                uint16_t half = out == SF_DT_F16 ? sf_f16_from(wide) : sf_bf16_from(wide);
                float single = (float)wide;
                switch (out) {
                case SF_DT_F64: memcpy(p, &wide, 8); return;
                case SF_DT_F32: memcpy(p, &single, 4); return;
                default: memcpy(p, &half, 2); return;
                }
        }
        uint8_t u8 = (uint8_t)v.u64;
        uint16_t u16 = (uint16_t)v.u64;
        uint32_t u32 = (uint32_t)v.u64;
        switch (sf_dtypes[out].size) {
        case 1: memcpy(p, &u8, 1); return;
        case 2: memcpy(p, &u16, 2); return;
        case 4: memcpy(p, &u32, 4); return;
        default: memcpy(p, &v.u64, 8); return;
        }
}

/* NaN wins, the first one if there are two; of two equal reals (zeros of either sign) the one the operation prefers. */
#define SF_EXTREME(a, b, wins, prefer_negative)                                                                          \
        ((a) != (a) ? (a) : (b) != (b) ? (b) : (a)wins(b) ? (a) : (b)wins(a) ? (b) : !signbit(a) == !(prefer_negative) ? (a) : (b))

/* -------------------------------------------------------------------------------------------------
 * Values of two components (docs/order.md, "Values of two components")
 * ---------------------------------------------------------------------------------------------- */

/* The index in the identity. It loses against every other index, whether of several equal values
 * the first one wins (argmax, argmin) or the last. */
static inline int64_t sf_no_index(sf_op op)
{
        return op == SF_ARGMAX || op == SF_ARGMIN ? INT64_MAX : -1;
}

/* The better of two values. NaN is better than every number. If the two are equal (zeros of either
 * sign are), the first or the last one wins. */
static inline sf_value sf_better(sf_op op, sf_dt acc, sf_value a, sf_value b)
{
        const bool largest = op == SF_ARGMAX || op == SF_LAST_ARGMAX, first = sf_no_index(op) > 0;
        bool above, below; /* is b above a, below it? */
        if (sf_dtypes[acc].kind == SF_KIND_REAL) {
                const double x = acc == SF_DT_F32 ? (double)a.f32 : a.f64;
                const double y = acc == SF_DT_F32 ? (double)b.f32 : b.f64;
                above = x != x || y != y ? (largest ? y != y && x == x : x != x && y == y) : y > x;
                below = x != x || y != y ? (largest ? x != x && y == y : y != y && x == x) : y < x;
        } else if (sf_dtypes[acc].kind == SF_KIND_SIGNED) {
                above = (int64_t)b.u64 > (int64_t)a.u64;
                below = (int64_t)b.u64 < (int64_t)a.u64;
        } else {
                above = b.u64 > a.u64;
                below = b.u64 < a.u64;
        }
        if (above || below)
                return above == largest ? b : a;
        return (b.index < a.index) == first ? b : a;
}

/* Adds two values, each the second component times 4^(the first). The larger first component
 * stays. */
static inline sf_value sf_add_exponentials(sf_dt acc, sf_value a, sf_value b)
{
        if (acc == SF_DT_F32) {
                const sf_value large = b.f32 > a.f32 ? b : a, small = b.f32 > a.f32 ? a : b;
                return (sf_value){.f32 = large.f32,
                                  .also32 = large.also32 + small.also32 * sf_exp_scale_f32(large.f32 - small.f32)};
        }
        const sf_value large = b.f64 > a.f64 ? b : a, small = b.f64 > a.f64 ? a : b;
        return (sf_value){.f64 = large.f64,
                          .also64 = large.also64 + small.also64 * sf_exp_scale_f64(large.f64 - small.f64)};
}

/* A value stands for the function x -> also * x + first. The combination applies a's, then b's. */
static inline sf_value sf_one_after_another(sf_dt acc, sf_value a, sf_value b)
{
        if (acc == SF_DT_F32) {
                const float carried = b.also32 * a.f32;
                return (sf_value){.f32 = carried + b.f32, .also32 = a.also32 * b.also32};
        }
        const double carried = b.also64 * a.f64;
        return (sf_value){.f64 = carried + b.f64, .also64 = a.also64 * b.also64};
}

/* Sets the second component to 1: for the initial value and the identity of SF_TWO. */
static inline sf_value sf_with_one(sf_dt acc, sf_value v)
{
        if (acc == SF_DT_F32)
                v.also32 = 1;
        else
                v.also64 = 1;
        return v;
}

/* Makes a value of an element at a position of its sequence; `beside` is the second element of
 * SF_TWO. */
static inline sf_value sf_lift(sf_op op, sf_dt acc, sf_value v, sf_value beside, int64_t position)
{
        if (sf_op_is(op, SF_INDEX)) {
                v.index = position;
        } else if (sf_op_is(op, SF_TWO)) {
                if (acc == SF_DT_F32)
                        v.also32 = beside.f32;
                else
                        v.also64 = beside.f64;
        } else if (op == SF_LOGSUMEXP && acc == SF_DT_F32) {
                const float power = sf_exp_power_f32(v.f32);
                v = (sf_value){.f32 = power, .also32 = sf_exp_times_f32(v.f32, power)};
        } else if (op == SF_LOGSUMEXP) {
                const double power = sf_exp_power_f64(v.f64);
                v = (sf_value){.f64 = power, .also64 = sf_exp_times_f64(v.f64, power)};
        }
        return v;
}

/* Makes a value of the initial value, which is to the left of all elements. */
static inline sf_value sf_lift_initial(sf_op op, sf_dt acc, sf_value v)
{
        return sf_op_is(op, SF_TWO) ? sf_with_one(acc, v) : sf_lift(op, acc, v, (sf_value){.u64 = 0}, 0);
}

/* Lowers a value to a number of type sf_op_result. The identity's index becomes -1. */
static inline sf_value sf_lower(sf_op op, sf_dt acc, sf_value v)
{
        if (sf_op_is(op, SF_INDEX))
                return (sf_value){.u64 = v.index == sf_no_index(op) ? UINT64_MAX : (uint64_t)v.index};
        if (op == SF_LOGSUMEXP && acc == SF_DT_F32)
                return (sf_value){.f32 = sf_exp_log_f32(v.f32, v.also32)};
        if (op == SF_LOGSUMEXP)
                return (sf_value){.f64 = sf_exp_log_f64(v.f64, v.also64)};
        if (op == SF_PROD && sf_dtypes[acc].kind == SF_KIND_REAL)
                return sf_product_lower(acc, v);
        if (acc == SF_DT_F32)
                return (sf_value){.f32 = v.f32};
        return (sf_value){.u64 = v.u64};
}

/* Combines a with b, a on the left: one rounded operation of the accumulator's type. The exponent
 * of a product may be any. */
static inline sf_value sf_combine(sf_op op, sf_dt acc, sf_value a, sf_value b)
{
        if (acc == SF_DT_F32) {
                switch (op) {
                case SF_SUM: return (sf_value){.f32 = a.f32 + b.f32};
                case SF_PROD: return sf_multiply(acc, a, b);
                case SF_MAX: return (sf_value){.f32 = SF_EXTREME(a.f32, b.f32, >, false)};
                case SF_MIN: return (sf_value){.f32 = SF_EXTREME(a.f32, b.f32, <, true)};
                case SF_LOGSUMEXP: return sf_add_exponentials(acc, a, b);
                case SF_RECURRENCE: return sf_one_after_another(acc, a, b);
                default: return sf_better(op, acc, a, b);
                }
        }
        if (acc == SF_DT_F64) {
                switch (op) {
                case SF_SUM: return (sf_value){.f64 = a.f64 + b.f64};
                case SF_PROD: return sf_multiply(acc, a, b);
                case SF_MAX: return (sf_value){.f64 = SF_EXTREME(a.f64, b.f64, >, false)};
                case SF_MIN: return (sf_value){.f64 = SF_EXTREME(a.f64, b.f64, <, true)};
                case SF_LOGSUMEXP: return sf_add_exponentials(acc, a, b);
                case SF_RECURRENCE: return sf_one_after_another(acc, a, b);
                default: return sf_better(op, acc, a, b);
                }
        }
        bool below = sf_dtypes[acc].kind == SF_KIND_SIGNED ? (int64_t)a.u64 < (int64_t)b.u64 : a.u64 < b.u64;
        switch (op) {
        case SF_SUM: return (sf_value){.u64 = sf_wrap(acc, a.u64 + b.u64)};
        case SF_PROD: return (sf_value){.u64 = sf_wrap(acc, a.u64 * b.u64)};
        case SF_MAX: return below ? b : a;
        case SF_MIN: return below ? a : b;
        default: return sf_better(op, acc, a, b);
        }
}

/* The identity's first component. */
static inline sf_value sf_identity_number(sf_op op, sf_dt acc)
{
        int bits = sf_dtypes[acc].bits;
        sf_kind kind = sf_dtypes[acc].kind;
        (void)bits;
        switch (op) {
#define OP(name, NAME, real, integer, natural, traits, on_bool)                                    \
        case SF_##NAME:                                                                            \
                if (kind == SF_KIND_REAL)                                                          \
                        return sf_value_from_f64(real, acc);                                       \
                return (sf_value){.u64 = kind == SF_KIND_SIGNED ? (uint64_t)(integer) : (uint64_t)(natural)};
#include "core/ops.def"
#undef OP
        default: return (sf_value){.u64 = 0};
        }
}

/* What a masked-out element counts as. */
static inline sf_value sf_identity(sf_op op, sf_dt acc)
{
        sf_value v = sf_identity_number(op, acc);
        if (sf_op_is(op, SF_INDEX))
                v.index = sf_no_index(op);
        return sf_op_is(op, SF_TWO) ? sf_with_one(acc, v) : v;
}

#endif
