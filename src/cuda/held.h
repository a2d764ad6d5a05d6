/*
 * held.h: values in device memory, as kernels hold them (kernels/value.cuh). A fold stores them if
 * its step asks for values, and a scan takes them from the left of its sequences (core/step.h).
 *
 * A component has as many bytes as the accumulator, at least 4. A product is a mantissa in [1, 2)
 * and an exponent. The position in a value of an index is as wide as its element, and relative to
 * the first position of the step; all its bits are inverted where the last of equal elements wins.
 *
 * Before the values to the left of a sequence there is one more entry: how many they are, an int.
 * So the sequences of a step may have different numbers of them.
 *
 * A fold of a sequence that begins anywhere may store the values of all aligned blocks that it
 * consists of, one after another (sf_cuda_cuts). A scan of such a sequence, whose step asks for
 * values too, has entries for each of its blocks (sf_rising in kernels/shared.h), `left_entry`
 * divided by their number apart.
 */
#ifndef SF_CUDA_HELD_H
#define SF_CUDA_HELD_H

#include "core/value.h"
#include "cuda/emit.h"

/* The accumulator's type as kernels have it. If there are more positions than 32 bits can count,
 * elements of indices are widened, and positions with them; a wider type of the same kind keeps
 * the order of elements. */
static inline sf_dt sf_cuda_held_acc(const sf_step *s)
{
        if (!sf_op_is(s->op, SF_INDEX) || (s->fold ? 0 : s->before) + s->n <= INT32_MAX)
                return s->acc;
        const sf_kind kind = sf_dtypes[s->acc].kind;
        return kind == SF_KIND_REAL ? SF_DT_F64 : kind == SF_KIND_SIGNED ? SF_DT_I64 : SF_DT_U64;
}

typedef struct sf_held {
        sf_op op;
        sf_dt acc, held;
        int64_t from; /* the position that positions are relative to */
} sf_held;

static inline size_t sf_held_size(const sf_held *h)
{
        return (size_t)sf_cuda_value_size((int32_t)h->op, (int32_t)h->held);
}

/* The type of results that are values of one component. */
static inline sf_dt sf_held_number(const sf_held *h)
{
        if (sf_dtypes[h->held].size >= 4)
                return h->held;
        return sf_dtypes[h->held].kind == SF_KIND_SIGNED ? SF_DT_I32 : SF_DT_U32;
}

static inline int64_t sf_held_nowhere(int32_t bytes)
{
        return bytes == 4 ? INT32_MAX : INT64_MAX;
}

static inline sf_value sf_held_get(const sf_held *h, const char *from)
{
        const int32_t bytes = sf_dtypes[sf_held_number(h)].size;
        const bool pair = sf_cuda_is_pair((int32_t)h->op, (int32_t)h->held);
        const bool late = sf_no_index(h->op) < 0;
        uint64_t first = 0, second = 0;
        memcpy(&first, from, (size_t)bytes);
        memcpy(&second, from + (pair ? bytes : 0), (size_t)bytes);
        sf_value v = {.u64 = first, .index = 0};
        if (sf_dtypes[h->acc].kind != SF_KIND_REAL)
                v.u64 = sf_wrap(h->acc, first);
        else if (h->acc != h->held)
                v = (sf_value){.f32 = (float)v.f64};
        if (!pair)
                return v;
        const int64_t whole = bytes == 4 ? (int32_t)(uint32_t)second : (int64_t)second;
        if (sf_op_is(h->op, SF_INDEX)) {
                const int64_t at = h->from + (late ? ~whole : whole);
                v.index = whole == sf_held_nowhere(bytes) ? sf_no_index(h->op) : at;
        } else if (h->op == SF_PROD) {
                v.exponent = whole;
                v = sf_product_value(h->acc, v);
        } else {
                v.index = (int64_t)second; /* a real, in the lowest bytes */
        }
        return v;
}

static inline void sf_held_put(const sf_held *h, sf_value v, char *to)
{
        const int32_t bytes = sf_dtypes[sf_held_number(h)].size;
        const bool pair = sf_cuda_is_pair((int32_t)h->op, (int32_t)h->held);
        const bool late = sf_no_index(h->op) < 0;
        if (sf_op_is(h->op, SF_INDEX)) {
                const int64_t at = v.index - h->from;
                v.index = v.index == sf_no_index(h->op) ? sf_held_nowhere(bytes) : late ? ~at : at;
                if (h->acc != h->held && sf_dtypes[h->acc].kind == SF_KIND_REAL)
                        v.f64 = (double)v.f32;
        } else if (pair && h->op == SF_PROD && h->acc == SF_DT_F32) {
                const sf_product_f32 p = sf_product_of_f32(v.f32, (int32_t)v.exponent);
                v = (sf_value){.f32 = p.mantissa, .exponent = p.exponent};
        } else if (pair && h->op == SF_PROD) {
                const sf_product_f64 p = sf_product_of_f64(v.f64, v.exponent);
                v = (sf_value){.f64 = p.mantissa, .exponent = p.exponent};
        }
        memcpy(to, &v.u64, (size_t)bytes);
        if (pair)
                memcpy(to + bytes, &v.index, (size_t)bytes);
}

#endif
