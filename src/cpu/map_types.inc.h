/*
 * map_types.inc.h: the elementwise loops of every class, the moves, and the table of them. An
 * instruction set's map_*.c includes this once, after vector.h, and defines MAP_TABLE.
 */
#include "core/elementary.h"
#include "core/value.h"
#include "cpu/map.h"

#include <math.h>

/* No element depends on another: y is one of the arguments or does not overlap them. */
#ifdef __clang__
#define M_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define M_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Blocks may be in a tensor's own memory, with any alignment. */
#define DTYPE(name, NAME, ctype, code, bits, kind) typedef ctype at_##name __attribute__((aligned(1), may_alias));
#include "core/dtypes.def"
#undef DTYPE

#define M_NAME f32
#define M_C float
#define M_BITS_C uint32_t
#define M_BITS 32
#define M_REAL 1
#define M_SIGNED 1
#include "cpu/map.inc.h"

#define M_NAME f64
#define M_C double
#define M_BITS_C uint64_t
#define M_BITS 64
#define M_REAL 1
#define M_SIGNED 1
#include "cpu/map.inc.h"

#define M_NAME i32
#define M_C int32_t
#define M_BITS_C uint32_t
#define M_BITS 32
#define M_REAL 0
#define M_SIGNED 1
#include "cpu/map.inc.h"

#define M_NAME u32
#define M_C uint32_t
#define M_BITS_C uint32_t
#define M_BITS 32
#define M_REAL 0
#define M_SIGNED 0
#include "cpu/map.inc.h"

#define M_NAME i64
#define M_C int64_t
#define M_BITS_C uint64_t
#define M_BITS 64
#define M_REAL 0
#define M_SIGNED 1
#include "cpu/map.inc.h"

#define M_NAME u64
#define M_C uint64_t
#define M_BITS_C uint64_t
#define M_BITS 64
#define M_REAL 0
#define M_SIGNED 0
#include "cpu/map.inc.h"

/* ------------------------------------------------------------------------------------------------
 * Halves. Vector instructions convert them; the rest that does not fill a vector goes one by one.
 * ---------------------------------------------------------------------------------------------- */
SF_INLINE float brain_of(float v) /* bf16's bits: vector.h explains the rounding */
{
        uint32_t bits;
        memcpy(&bits, &v, 4);
        bits = v != v ? (bits | 0x400000) & 0xffff0000u : (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
        memcpy(&v, &bits, 4);
        return v;
}

SF_INLINE uint16_t bf16_from_f32(float v)
{
        uint32_t bits;
        v = brain_of(v);
        memcpy(&bits, &v, 4);
        return (uint16_t)(bits >> 16);
}

static void f32_from_f16(const char *src, char *dst, int64_t count)
{
        int64_t i = 0;
        for (; i + V_LANES4 <= count; i += V_LANES4) {
                v_f32 v = v_f32_from_f16(src + i * 2);
                memcpy(dst + i * 4, &v, sizeof v);
        }
        for (; i < count; i++)
                ((at_f32 *)dst)[i] = sf_f32_from_f16(((const at_f16 *)src)[i]);
}

static void f16_from_f32(const char *src, char *dst, int64_t count)
{
        int64_t i = 0;
        for (; i + V_LANES4 <= count; i += V_LANES4) {
                v_f32 v;
                memcpy(&v, src + i * 4, sizeof v);
                v_f16_from_f32(dst + i * 2, v);
        }
        for (; i < count; i++)
                ((at_f16 *)dst)[i] = sf_f16_from(((const at_f32 *)src)[i]);
}

/* ------------------------------------------------------------------------------------------------
 * Rounding and wrapping to narrower types
 * ---------------------------------------------------------------------------------------------- */
static void settle_f16(void *y, const void *a, const void *b, const void *c, int64_t count)
{
        char half[2 * V_LANES4 * 16];
        (void)b;
        (void)c;
        for (int64_t i = 0; i < count; i += V_LANES4 * 16) {
                int64_t some = count - i < V_LANES4 * 16 ? count - i : V_LANES4 * 16;
                f16_from_f32((const char *)a + i * 4, half, some);
                f32_from_f16(half, (char *)y + i * 4, some);
        }
}

static void settle_bf16(void *y, const void *a, const void *b, const void *c, int64_t count)
{
        at_f32 *to = y;
        const at_f32 *x = a;
        (void)b, (void)c;
        M_INDEPENDENT
        for (int64_t i = 0; i < count; i++)
                to[i] = brain_of(x[i]);
}

static void settle_i8(void *y, const void *a, const void *b, const void *c, int64_t count)
{
        at_i32 *to = y;
        const at_i32 *x = a;
        (void)b, (void)c;
        M_INDEPENDENT
        for (int64_t i = 0; i < count; i++)
                to[i] = (int8_t)x[i];
}

static void settle_i16(void *y, const void *a, const void *b, const void *c, int64_t count)
{
        at_i32 *to = y;
        const at_i32 *x = a;
        (void)b, (void)c;
        M_INDEPENDENT
        for (int64_t i = 0; i < count; i++)
                to[i] = (int16_t)x[i];
}

static void settle_u8(void *y, const void *a, const void *b, const void *c, int64_t count)
{
        at_u32 *to = y;
        const at_u32 *x = a;
        (void)b, (void)c;
        M_INDEPENDENT
        for (int64_t i = 0; i < count; i++)
                to[i] = (uint8_t)x[i];
}

static void settle_u16(void *y, const void *a, const void *b, const void *c, int64_t count)
{
        at_u32 *to = y;
        const at_u32 *x = a;
        (void)b, (void)c;
        M_INDEPENDENT
        for (int64_t i = 0; i < count; i++)
                to[i] = (uint16_t)x[i];
}

static void settle_bool(void *y, const void *a, const void *b, const void *c, int64_t count)
{
        at_u32 *to = y;
        const at_u32 *x = a;
        (void)b, (void)c;
        M_INDEPENDENT
        for (int64_t i = 0; i < count; i++)
                to[i] = x[i] != 0;
}

/* f64 to f32, rounded to odd: if that is not exact, to the one of the two neighbours whose last bit is
 * set. Rounding it again, to fewer bits, gives the same as one rounding. */
SF_INLINE void round_to_odd(at_f32 *y, const at_f64 *x, int64_t count)
{
        M_INDEPENDENT
        for (int64_t i = 0; i < count; i++) {
                const float near = (float)x[i];
                const double is = __builtin_fabs((double)near), was = __builtin_fabs(x[i]);
                uint32_t bits;
                memcpy(&bits, &near, 4);
                bits += bits & 1 ? 0 : (uint32_t)(is < was) - (uint32_t)(is > was);
                memcpy(&y[i], &bits, 4);
        }
}

static void round_f16(void *y, const void *a, const void *b, const void *c, int64_t count)
{
        round_to_odd(y, a, count);
        settle_f16(y, y, b, c, count);
}

static void round_bf16(void *y, const void *a, const void *b, const void *c, int64_t count)
{
        round_to_odd(y, a, count);
        settle_bf16(y, y, b, c, count);
}

/* What is there is repeated behind it, and so doubled, with the numbers that follow. */
static void number(void *y, int64_t size, int64_t from, int64_t step, int64_t count, int64_t each)
{
        at_u32 *narrow = y;
        at_u64 *wide = y;
        for (int64_t i = 0; i < (each < count ? each : count); i++)
                if (size == 4)
                        narrow[i] = (uint32_t)from;
                else
                        wide[i] = (uint64_t)from;
        for (int64_t have = each; have < count; have *= 2) {
                const uint64_t more = (uint64_t)(have / each) * (uint64_t)step;
                const int64_t some = count - have < have ? count - have : have;
                if (size == 4) {
                        M_INDEPENDENT
                        for (int64_t i = 0; i < some; i++)
                                narrow[have + i] = narrow[i] + (uint32_t)more;
                } else {
                        M_INDEPENDENT
                        for (int64_t i = 0; i < some; i++)
                                wide[have + i] = wide[i] + more;
                }
        }
}

/* The elements of a scan that were the best so far keep their numbers. */
#define REACHED(name, number, real)                                                                                      \
        static void reached_##name(void *y, const void *a, const void *b, const void *c, int64_t count)                  \
        {                                                                                                                \
                const at_##name *x = a, *best = b;                                                                       \
                at_##number *to = y;                                                                                     \
                const at_##number *from = c;                                                                             \
                M_INDEPENDENT                                                                                            \
                for (int64_t i = 0; i < count; i++)                                                                      \
                        to[i] = x[i] == best[i] || (real && x[i] != x[i]) ? from[i] : (at_##number)-1;                   \
        }
REACHED(f32, u32, true)
REACHED(f64, u64, true)
REACHED(u32, u32, false)
REACHED(u64, u64, false)
#undef REACHED

#define F_BITS 8
#include "cpu/find.inc.h"
#define F_BITS 16
#include "cpu/find.inc.h"
#define F_BITS 32
#include "cpu/find.inc.h"
#define F_BITS 64
#include "cpu/find.inc.h"

static void fill(void *y, sf_class class, sf_value v, int64_t count)
{
        switch (class) {
        case SF_CLASS_F32: fill_f32(y, v.f32, count); return;
        case SF_CLASS_F64: fill_f64(y, v.f64, count); return;
        case SF_CLASS_I32:
        case SF_CLASS_U32: fill_u32(y, (uint32_t)v.u64, count); return;
        default: fill_u64(y, v.u64, count); return;
        }
}

static void stream(void *to, const void *from, int64_t bytes, const void *next)
{
        char *y = to;
        const char *x = from;
        const uintptr_t ahead = (uintptr_t)next;
        int64_t head = -(int64_t)((uintptr_t)y % 64) & 63;
        head = head < bytes ? head : bytes;
        memcpy(y, x, (size_t)head);
        int64_t i = head;
        for (; i + 64 <= bytes; i += 64) {
                char line[64] __attribute__((aligned(64)));
                memcpy(line, x + i, 64);
                __builtin_prefetch((const char *)(ahead + (uintptr_t)i));
                for (int part = 0; part < 64; part += V_BYTES)
                        v_stream(y + i + part, line + part, V_BYTES);
        }
        memcpy(y + i, x + i, (size_t)(bytes - i));
}

#include "cpu/convert.inc.h"

/* ------------------------------------------------------------------------------------------------
 * The table
 * ---------------------------------------------------------------------------------------------- */
#define CASTS_FROM(from)                                                                                                 \
        {                                                                                                                \
                cast_##from##_f32, cast_##from##_f64, cast_##from##_i32, cast_##from##_u32, cast_##from##_i64, cast_##from##_u64 \
        }
const sf_cpu_map MAP_TABLE = {
        .loops = {loops_f32, loops_f64, loops_i32, loops_u32, loops_i64, loops_u64},
        .pairs = {pairs_f32, pairs_f64},
        .affine = {affine_f32, affine_f64},
        .gradient = {gradient_f32, gradient_f64},
#ifdef M_BUSY_LOOPS
        .busy = M_BUSY_LOOPS,
#endif
        .casts = {CASTS_FROM(f32), CASTS_FROM(f64), CASTS_FROM(i32), CASTS_FROM(u32), CASTS_FROM(i64), CASTS_FROM(u64)},
        .truth = {truth_f32, truth_f64, truth_i32, truth_u32, truth_i64, truth_u64},
        .settle = {[SF_DT_F16] = settle_f16, [SF_DT_BF16] = settle_bf16, [SF_DT_I8] = settle_i8, [SF_DT_I16] = settle_i16,
                   [SF_DT_U8] = settle_u8, [SF_DT_U16] = settle_u16, [SF_DT_BOOL] = settle_bool},
        .round = {[SF_DT_F16] = round_f16, [SF_DT_BF16] = round_bf16},
        .fill = fill,
        .number = number,
        .find = {find_8, find_16, find_32, find_64},
        .reached = {reached_f32, reached_f64, reached_u32, reached_u32, reached_u64, reached_u64},
        .stream = stream,
        .mover = mover};
#undef CASTS_FROM
