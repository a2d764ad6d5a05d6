#include "naive.h"

#include "core/elementary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

array *array_new(int dt, int32_t ndim, const int64_t *shape)
{
        array *a = calloc(1, sizeof *a);
        a->dt = dt;
        a->ndim = ndim;
        a->count = 1;
        for (int32_t d = 0; d < ndim; d++)
                a->count *= a->shape[d] = shape[d];
        a->data = calloc((size_t)a->count + 1, 8);
        a->mag = calloc((size_t)a->count + 1, sizeof *a->mag);
        return a;
}

void array_free(array *a)
{
        if (!a)
                return;
        free(a->data);
        free(a->mag);
        free(a);
}

/* ------------------------------------------------------------------------------------------------------------
 * Elements
 * ---------------------------------------------------------------------------------------------------------- */

/* To the nearest number that the format has around v. */
static double round_half(double v, int mantissa, int lowest, int highest)
{
        if (v == 0 || isnan(v) || isinf(v))
                return v;
        int e = ilogb(v);
        double unit = ldexp(1, (e < lowest ? lowest : e) - mantissa), r = nearbyint(v / unit) * unit;
        return fabs(r) >= ldexp(1, highest + 1) ? copysign(INFINITY, v) : r;
}

static double half_get(uint16_t bits, int mantissa, int bias)
{
        int exponent = (bits & 0x7fff) >> mantissa, fraction = bits & ((1 << mantissa) - 1), all = (1 << (15 - mantissa)) - 1;
        double v = exponent == all ? (fraction ? NAN : INFINITY) : exponent ? ldexp((1 << mantissa) + fraction, exponent - bias - mantissa) : ldexp(fraction, 1 - bias - mantissa);
        return bits >> 15 ? -v : v;
}

static uint16_t half_put(double v, int mantissa, int bias)
{
        uint16_t sign = signbit(v) ? 0x8000 : 0, all = (uint16_t)(((1 << (15 - mantissa)) - 1) << mantissa);
        v = fabs(v);
        if (isnan(v))
                return all | 1;
        if (isinf(v))
                return sign | all;
        if (v == 0)
                return sign;
        int e = ilogb(v);
        if (e < 1 - bias)
                return (uint16_t)(sign | (uint16_t)ldexp(v, bias - 1 + mantissa));
        return (uint16_t)(sign | (uint16_t)((e + bias) << mantissa) | (uint16_t)(ldexp(v, mantissa - e) - (1 << mantissa)));
}


/* Integers of up to 64 bits; reals go through double. */
static int64_t get_whole(const array *a, int64_t i)
{
        const char *p = a->data + i * dts[a->dt].size;
        switch (a->dt) {
        case DT_I8: return *(const int8_t *)p;
        case DT_I16: return *(const int16_t *)p;
        case DT_I32: return *(const int32_t *)p;
        case DT_U8: case DT_BOOL: return *(const uint8_t *)p;
        case DT_U16: return *(const uint16_t *)p;
        case DT_U32: return *(const uint32_t *)p;
        default: return *(const int64_t *)p;
        }
}

static void put_whole(array *a, int64_t i, int64_t v)
{
        memcpy(a->data + i * dts[a->dt].size, &v, (size_t)dts[a->dt].size); /* little-endian: the low bytes, which is wrapping */
}

double array_get(const array *a, int64_t i)
{
        const char *p = a->data + i * dts[a->dt].size;
        switch (a->dt) {
        case DT_F16: return half_get(*(const uint16_t *)p, 10, 15);
        case DT_BF16: return half_get(*(const uint16_t *)p, 7, 127);
        case DT_F32: return *(const float *)p;
        case DT_F64: return *(const double *)p;
        default: return dts[a->dt].kind == 'u' ? (double)(uint64_t)get_whole(a, i) : (double)get_whole(a, i);
        }
}

void array_set(array *a, int64_t i, double v)
{
        char *p = a->data + i * dts[a->dt].size;
        float single = (float)v;
        uint16_t half = a->dt == DT_F16 ? half_put(round_half(v, 10, -14, 15), 10, 15) : half_put(round_half(v, 7, -126, 127), 7, 127);
        switch (a->dt) {
        case DT_F16: case DT_BF16: memcpy(p, &half, 2); return;
        case DT_F32: memcpy(p, &single, 4); return;
        case DT_F64: memcpy(p, &v, 8); return;
        default: put_whole(a, i, (int64_t)v); return;
        }
}

static bool is_real(int dt)
{
        return dts[dt].kind == 'r';
}

/* ------------------------------------------------------------------------------------------------------------
 * Types, as the header defines them, written a second time
 * ---------------------------------------------------------------------------------------------------------- */
static int rank_of(int dt)
{
        return dts[dt].kind == 'b' ? 0 : is_real(dt) ? 2 : 1;
}

static int meet(int a, int b)
{
        if (a == b)
                return a;
        if (rank_of(a) != rank_of(b))
                return rank_of(a) > rank_of(b) ? a : b;
        if (is_real(a))
                return dts[a].size == dts[b].size ? DT_F32 : dts[a].size > dts[b].size ? a : b;
        if (dts[a].kind == dts[b].kind)
                return dts[a].size > dts[b].size ? a : b;
        int with = dts[a].kind == 's' ? a : b, without = with == a ? b : a;
        if (dts[with].size > dts[without].size)
                return with;
        return dts[without].size == 1 ? DT_I16 : dts[without].size == 2 ? DT_I32 : dts[without].size == 4 ? DT_I64 : DT_NONE;
}

int naive_type(sf_function f, int count, array *const *args, const bool *number_real)
{
        int group[3] = {DT_NONE, DT_NONE, DT_NONE}, type = DT_NONE;
        for (int i = f == SF_WHERE; i < count; i++) {
                int g = !args[i] ? 2 : args[i]->ndim ? 0 : 1, dt = args[i] ? args[i]->dt : number_real[i] ? DT_F32 : DT_I64;
                group[g] = group[g] == DT_NONE ? dt : meet(group[g], dt);
                if (group[g] == DT_NONE)
                        return DT_NONE;
        }
        for (int g = 0; g < 3; g++)
                if (group[g] != DT_NONE && (type == DT_NONE || rank_of(group[g]) > rank_of(type)))
                        type = type == DT_NONE ? group[g] : meet(type, group[g]);
        bool needs_real = f == SF_DIV || f == SF_EXP || f == SF_LOG || f == SF_SQRT || f == SF_SIGMOID || f == SF_TANH;
        if (needs_real && !is_real(type))
                type = DT_F32;
        return type == DT_BOOL && (f == SF_SUB || f == SF_NEG) ? DT_NONE : type;
}

bool naive_broadcasts(const array *a, const array *b)
{
        for (int32_t d = 1; d <= a->ndim && d <= b->ndim; d++) {
                int64_t x = a->shape[a->ndim - d], y = b->shape[b->ndim - d];
                if (x != y && x != 1 && y != 1)
                        return false;
        }
        return true;
}

/* ------------------------------------------------------------------------------------------------------------
 * Elementwise
 * ---------------------------------------------------------------------------------------------------------- */
array *naive_number(int dt, double value)
{
        array *a = array_new(dt, 0, NULL);
        array_set(a, 0, value);
        a->mag[0] = fabs(value);
        return a;
}

/* Which element of `a` meets element i of an array of this shape. */
static int64_t element(const array *a, int32_t ndim, const int64_t *shape, int64_t i)
{
        int64_t at = 0, stride = 1;
        for (int32_t d = ndim - 1; d >= 0; d--) {
                int64_t index = i % shape[d];
                int32_t mine = d - (ndim - a->ndim);
                i /= shape[d];
                if (mine < 0)
                        continue;
                at += a->shape[mine] == 1 ? 0 : index * stride;
                stride *= a->shape[mine];
        }
        return at;
}

static double larger(double a, double b)
{
        return isnan(a) ? a : isnan(b) ? b : a > b ? a : b > a ? b : signbit(a) ? b : a;
}

static double in_real(sf_function f, bool single, double a, double b)
{
        switch (f) {
        case SF_ADD: return single ? (float)a + (float)b : a + b;
        case SF_SUB: return single ? (float)a - (float)b : a - b;
        case SF_MUL: return single ? (float)a * (float)b : a * b;
        case SF_DIV: return single ? (float)a / (float)b : a / b;
        case SF_SQUARE: return single ? (float)a * (float)a : a * a;
        case SF_SQRT: return single ? sqrtf((float)a) : sqrt(a);
        case SF_MAXIMUM: return larger(a, b);
        case SF_MINIMUM: return -larger(-a, -b);
        case SF_NEG: return -a;
        case SF_ABS: return fabs(a);
        case SF_RELU: return isnan(a) || a > 0 ? a : 0;
        case SF_EXP: return single ? sf_exp_f32((float)a) : sf_exp_f64(a);
        case SF_LOG: return single ? sf_log_f32((float)a) : sf_log_f64(a);
        case SF_SIGMOID: return single ? sf_sigmoid_f32((float)a) : sf_sigmoid_f64(a);
        default: return single ? sf_tanh_f32((float)a) : sf_tanh_f64(a);
        }
}

static uint64_t in_whole(sf_function f, bool with_sign, int64_t a, int64_t b)
{
        uint64_t x = (uint64_t)a, y = (uint64_t)b;
        bool below = with_sign ? a < b : x < y;
        switch (f) {
        case SF_ADD: return x + y;
        case SF_SUB: return x - y;
        case SF_MUL: return x * y;
        case SF_SQUARE: return x * x;
        case SF_NEG: return 0 - x;
        case SF_ABS: return with_sign && a < 0 ? 0 - x : x;
        case SF_RELU: return with_sign && a < 0 ? 0 : x;
        case SF_MAXIMUM: return below ? y : x;
        default: return below ? x : y;
        }
}

static bool holds(sf_function f, bool below, bool equal, bool above)
{
        return f == SF_EQ ? equal : f == SF_NE ? !equal : f == SF_LT ? below : f == SF_LE ? below || equal : f == SF_GT ? above : above || equal;
}

/*
 * How the bound grows. Of y = f(x), with x off by d, exp is off by y d at most 1.72 times (d < 1), log by d / x, sigmoid and tanh by d; what
 * the function itself rounds is 5 u y at most.
 */
static void follow(sf_function f, double ma, double mb, double x, double y, double *mag)
{
        if (naive_bent(f))
                *mag = f == SF_EXP ? y * (1 + 2 * ma) : f == SF_LOG ? fabs(y) + 2 * ma / x : fabs(y) + ma;
        else
                *mag = f == SF_MUL ? ma * mb : f == SF_DIV ? ma / mb : f == SF_SQUARE ? ma * ma : f == SF_NEG || f == SF_ABS || f == SF_RELU ? ma : ma + mb;
}

bool naive_bent(sf_function f)
{
        return f == SF_EXP || f == SF_LOG || f == SF_SIGMOID || f == SF_TANH;
}

/* Neither out of an f32's range, nor so near a pole that the argument's error is a large part of
 * it. */
bool naive_tame(sf_function f, const array *a)
{
        bool tame = true;
        for (int64_t i = 0; i < a->count; i++) {
                double v = array_get(a, i);
                tame = tame && fabs(v) <= 20 && a->mag[i] <= 1000 && a->k <= 1000 && (f != SF_LOG || v >= 0.01 * a->mag[i]) && (f != SF_LOG || v > 0);
        }
        return tame;
}

array *naive_apply(sf_function f, int dt, array *a, array *b, array *c)
{
        int64_t shape[NAIVE_NDIM] = {0};
        array *args[3] = {a, b, c}, *r;
        int32_t ndim = 0;
        bool test = f >= SF_EQ && f <= SF_GE;
        for (int i = 0; i < 3 && args[i]; i++)
                ndim = args[i]->ndim > ndim ? args[i]->ndim : ndim;
        for (int32_t d = 0; d < ndim; d++) {
                shape[d] = 1;
                for (int i = 0; i < 3 && args[i]; i++) {
                        int32_t mine = d - (ndim - args[i]->ndim);
                        if (mine >= 0 && args[i]->shape[mine] != 1)
                                shape[d] = args[i]->shape[mine];
                }
        }
        r = array_new(test ? DT_BOOL : dt, ndim, shape);
        r->k = a->k + (b ? b->k : a->k) + (naive_bent(f) ? 4 : 2);
        for (int64_t i = 0; i < r->count; i++) {
                int64_t at[3] = {0};
                for (int k = 0; k < 3 && args[k]; k++)
                        at[k] = element(args[k], ndim, shape, i);
                if (f == SF_WHERE) {
                        int from = get_whole(a, at[0]) ? 1 : 2;
                        memcpy(r->data + i * dts[dt].size, args[from]->data + at[from] * dts[dt].size, (size_t)dts[dt].size);
                        continue;
                }
                if (is_real(dt)) {
                        double x = array_get(a, at[0]), y = b ? array_get(b, at[1]) : 0;
                        if (test)
                                put_whole(r, i, holds(f, x < y, x == y, x > y));
                        else
                                array_set(r, i, in_real(f, dt != DT_F64, x, y));
                        follow(f, a->mag[at[0]], b ? b->mag[at[1]] : 0, x, array_get(r, i), &r->mag[i]);
                        continue;
                }
                int64_t x = get_whole(a, at[0]), y = b ? get_whole(b, at[1]) : 0;
                bool with_sign = dts[dt].kind == 's', below = with_sign ? x < y : (uint64_t)x < (uint64_t)y;
                if (test) {
                        put_whole(r, i, holds(f, below, x == y, !below && x != y));
                } else {
                        uint64_t v = in_whole(f, with_sign, x, y);
                        put_whole(r, i, dt == DT_BOOL ? v != 0 : (int64_t)v);
                }
        }
        return r;
}

array *naive_cast(const array *a, int dt)
{
        array *r = array_new(dt, a->ndim, a->shape);
        r->k = a->k + 1;
        for (int64_t i = 0; i < a->count; i++) {
                r->mag[i] = a->mag[i];
                if (is_real(a->dt) && !is_real(dt)) {
                        double v = array_get(a, i);
                        put_whole(r, i, dt == DT_BOOL ? v != 0 : isnan(v) ? 0 : (int64_t)v); /* values in range, in these tests */
                } else if (is_real(a->dt)) {
                        array_set(r, i, array_get(a, i));
                } else if (dt == DT_F64 || dt == DT_F32) {
                        int64_t v = get_whole(a, i);
                        if (dt == DT_F32)
                                array_set(r, i, dts[a->dt].kind == 'u' ? (float)(uint64_t)v : (float)v);
                        else
                                array_set(r, i, dts[a->dt].kind == 'u' ? (double)(uint64_t)v : (double)v);
                } else if (is_real(dt)) { /* through f32, as a program has it */
                        int64_t v = get_whole(a, i);
                        array_set(r, i, dts[a->dt].kind == 'u' ? (float)(uint64_t)v : (float)v);
                } else {
                        put_whole(r, i, dt == DT_BOOL ? get_whole(a, i) != 0 : get_whole(a, i));
                }
        }
        return r;
}

/* ------------------------------------------------------------------------------------------------------------
 * Views, by where each element comes from
 * ---------------------------------------------------------------------------------------------------------- */
static void move(array *r, int64_t i, const array *a, int64_t from)
{
        memcpy(r->data + i * dts[r->dt].size, a->data + from * dts[r->dt].size, (size_t)dts[r->dt].size);
        r->mag[i] = a->mag[from];
        r->k = a->k > r->k ? a->k : r->k;
}

static void unravel(const array *a, int64_t i, int64_t *index)
{
        for (int32_t d = a->ndim - 1; d >= 0; d--) {
                index[d] = i % a->shape[d];
                i /= a->shape[d];
        }
}

static int64_t ravel(const array *a, const int64_t *index)
{
        int64_t i = 0;
        for (int32_t d = 0; d < a->ndim; d++)
                i = i * a->shape[d] + index[d];
        return i;
}

array *naive_flip(const array *a, uint64_t axes)
{
        array *r = array_new(a->dt, a->ndim, a->shape);
        int64_t index[NAIVE_NDIM];
        for (int64_t i = 0; i < a->count; i++) {
                unravel(a, i, index);
                for (int32_t d = 0; d < a->ndim; d++)
                        index[d] = axes >> d & 1 ? a->shape[d] - 1 - index[d] : index[d];
                move(r, i, a, ravel(a, index));
        }
        return r;
}

array *naive_permute(const array *a, const int32_t *axes)
{
        int64_t shape[NAIVE_NDIM], index[NAIVE_NDIM], from[NAIVE_NDIM];
        for (int32_t d = 0; d < a->ndim; d++)
                shape[d] = a->shape[axes[d]];
        array *r = array_new(a->dt, a->ndim, shape);
        for (int64_t i = 0; i < r->count; i++) {
                unravel(r, i, index);
                for (int32_t d = 0; d < a->ndim; d++)
                        from[axes[d]] = index[d];
                move(r, i, a, ravel(a, from));
        }
        return r;
}

array *naive_unsqueeze(const array *a, int32_t axis)
{
        int64_t shape[NAIVE_NDIM];
        for (int32_t d = 0, from = 0; d <= a->ndim; d++)
                shape[d] = d == axis ? 1 : a->shape[from++];
        array *r = array_new(a->dt, a->ndim + 1, shape);
        for (int64_t i = 0; i < r->count; i++)
                move(r, i, a, i);
        return r;
}

array *naive_broadcast(const array *a, int32_t ndim, const int64_t *shape)
{
        array *r = array_new(a->dt, ndim, shape);
        for (int64_t i = 0; i < r->count; i++)
                move(r, i, a, element(a, ndim, shape, i));
        return r;
}

array *naive_slice(const array *a, int32_t axis, int64_t start, int64_t step, int64_t length)
{
        int64_t shape[NAIVE_NDIM], index[NAIVE_NDIM];
        memcpy(shape, a->shape, sizeof shape);
        shape[axis] = length;
        array *r = array_new(a->dt, a->ndim, shape);
        for (int64_t i = 0; i < r->count; i++) {
                unravel(r, i, index);
                index[axis] = start + index[axis] * step;
                move(r, i, a, ravel(a, index));
        }
        return r;
}

array *naive_concat(const array *a, const array *b, int32_t axis)
{
        int64_t shape[NAIVE_NDIM], index[NAIVE_NDIM];
        memcpy(shape, a->shape, sizeof shape);
        shape[axis] += b->shape[axis];
        array *r = array_new(a->dt, a->ndim, shape);
        for (int64_t i = 0; i < r->count; i++) {
                unravel(r, i, index);
                bool second = index[axis] >= a->shape[axis];
                index[axis] -= second ? a->shape[axis] : 0;
                move(r, i, second ? b : a, ravel(second ? b : a, index));
        }
        return r;
}

/* ------------------------------------------------------------------------------------------------------------
 * Scans and folds by the reference; a matmul as what it says
 * ---------------------------------------------------------------------------------------------------------- */
static sf_tensor as_tensor(const array *a)
{
        return (sf_tensor){.data = a->data, .device = {SF_CPU, 0}, .ndim = a->ndim, .dtype = dts[a->dt].dtype, .shape = (int64_t *)a->shape};
}

static void reduce(bool scan, const array *a, array *r, const sf_tensor *mask, const sf_expr_options *o)
{
        sf_tensor x = as_tensor(a), y = as_tensor(r);
        sf_scan_options s = SF_SCAN_OPTIONS_INIT;
        sf_fold_options f = SF_FOLD_OPTIONS_INIT;
        s.op = f.op = o->op;
        s.reverse = f.reverse = o->reverse;
        s.mask = f.mask = mask;
        s.initial = f.initial = o->initial;
        s.exclusive = o->exclusive;
        s.axis = o->axes ? o->axes[0] : -1;
        f.naxes = o->naxes;
        f.axes = o->axes;
        f.keepdim = o->keepdim;
        sf_status status = scan ? sf_scan(REF, &x, &y, &s) : sf_fold(REF, &x, &y, &f);
        CHECK(status == SF_OK, "the reference refuses: %s", sf_last_error(REF));
}

static int reduced_type(sf_op op, int dt)
{
        if (op >= SF_ARGMAX && op <= SF_LAST_ARGMIN)
                return DT_I64;
        if (is_real(dt) || op == SF_MAX || op == SF_MIN)
                return dt;
        return op == SF_LOGSUMEXP ? DT_F32 : dts[dt].kind == 'u' ? DT_U64 : DT_I64;
}

array *naive_recurrence(array *a, array *b, const sf_expr_options *o)
{
        const bool real = is_real(a->dt) || is_real(b->dt);
        array *const both[2] = {a, b};
        const bool no[2] = {false, false};
        array *r = array_new(real ? naive_type(SF_ADD, 2, both, no) : DT_F32, b->ndim, b->shape);
        sf_tensor ta = as_tensor(a), tb = as_tensor(b), y = as_tensor(r);
        sf_scan_options s = SF_SCAN_OPTIONS_INIT;
        s.reverse = o->reverse;
        s.exclusive = o->exclusive;
        s.initial = o->initial;
        s.axis = o->axes ? o->axes[0] : -1;
        CHECK(sf_recurrence(REF, &ta, &tb, &y, &s) == SF_OK, "the reference refuses: %s", sf_last_error(REF));
        return r;
}

array *naive_reduce(bool scan, bool mean, const array *a, const array *mask, const sf_expr_options *o)
{
        int dt = reduced_type(o->op, a->dt);
        int64_t shape[NAIVE_NDIM];
        int32_t ndim = 0;
        double n = 1;
        for (int32_t d = 0; d < a->ndim; d++) {
                bool folded = !scan && !o->axes;
                for (int32_t i = 0; i < o->naxes && o->axes && !scan; i++)
                        folded |= (o->axes[i] < 0 ? o->axes[i] + a->ndim : o->axes[i]) == d;
                n *= folded ? (double)a->shape[d] : scan && d == (o->axes ? o->axes[0] : a->ndim - 1) ? (double)a->shape[d] : 1;
                if (!folded || o->keepdim)
                        shape[ndim++] = folded ? 1 : a->shape[d];
        }
        int wide = mean ? (a->dt == DT_F64 ? DT_F64 : DT_F32) : dt;
        array *r = array_new(wide, ndim, shape), *m = array_new(DT_F64, a->ndim, a->shape), *mr = array_new(DT_F64, ndim, shape);
        sf_tensor t;
        if (mask)
                t = as_tensor(mask);
        reduce(scan, a, r, mask ? &t : NULL, o);
        memcpy(m->data, a->mag, (size_t)a->count * sizeof(double));
        if (o->op == SF_SUM || o->op == SF_MAX || o->op == SF_MIN) { /* of an extreme the sum is a bound as well */
                sf_expr_options sum = *o;
                sum.op = SF_SUM;
                sum.exclusive = 0;
                sum.initial = (sf_scalar){0};
                reduce(scan, m, mr, mask ? &t : NULL, &sum);
        }
        r->k = a->k + 2 * log2(n + 1) + 6;
        array *kept = array_new(DT_F64, ndim, shape); /* how many elements a mean is over */
        if (mean) {
                sf_expr_options sum = *o;
                for (int64_t i = 0; i < m->count; i++)
                        array_set(m, i, 1);
                reduce(false, m, kept, mask ? &t : NULL, &sum);
        }
        for (int64_t i = 0; i < r->count; i++) {
                double over = mean ? array_get(kept, i) : 1;
                r->mag[i] = array_get(mr, i) / (over > 0 ? over : 1);
                if (mean)
                        array_set(r, i, in_real(SF_DIV, wide == DT_F32, array_get(r, i), over));
        }
        array_free(kept);
        array_free(m);
        array_free(mr);
        if (wide == dt)
                return r;
        array *rounded = naive_cast(r, dt);
        array_free(r);
        return rounded;
}

array *naive_matmul(const array *a, const array *b, int dt)
{
        int acc = dt == DT_F16 || dt == DT_BF16 ? DT_F32 : dt;
        int64_t m = a->shape[0], k = a->shape[1], n = b->shape[1];
        array *p = array_new(acc, 3, (int64_t[]){m, n, k}), *r = array_new(dt, 2, (int64_t[]){m, n});
        array *wide_a = naive_cast(a, acc), *wide_b = naive_cast(b, acc);
        for (int64_t i = 0; i < p->count; i++) {
                int64_t at_a = i / (n * k) * k + i % k, at_b = i % k * n + i / k % n;
                if (is_real(acc))
                        array_set(p, i, in_real(SF_MUL, acc == DT_F32, array_get(wide_a, at_a), array_get(wide_b, at_b)));
                else
                        put_whole(p, i, (int64_t)in_whole(SF_MUL, true, get_whole(wide_a, at_a), get_whole(wide_b, at_b)));
                r->mag[i / k] += a->mag[at_a] * b->mag[at_b];
        }
        sf_expr_options o = SF_EXPR_OPTIONS_INIT;
        o.naxes = 1;
        o.axes = (int32_t[]){2};
        reduce(false, p, r, NULL, &o);
        r->k = a->k + b->k + 4 * log2((double)(k + m + n + 1)) + 8;
        array_free(p);
        array_free(wide_a);
        array_free(wide_b);
        return r;
}
