/*
 * map_types.inc.h: the elementwise loops of every class, the moves, and the table of them. An instruction set's map_*.c includes this
 * once, after vector.h, and exports MAP_TABLE.
 */
#include "core/elementary.h"
#include "core/value.h"
#include "cpu/map.h"

#include <math.h>

/* No element depends on another: y is an argument or apart from it. */
#ifdef __clang__
#define M_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define M_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Blocks may be tensors' own memory: any alignment. */
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

/* ------------------------------------------------------------------------------------------------------------
 * Halves. The vector vocabulary knows them; what does not fill a vector goes one by one.
 * ---------------------------------------------------------------------------------------------------------- */
SF_INLINE float brain_of(float v) /* bf16's bits: vector.h says why this rounds */
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

/* ------------------------------------------------------------------------------------------------------------
 * What narrower types lose
 * ---------------------------------------------------------------------------------------------------------- */
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

/* SETTLE(which, class, expression of v) */
#define SETTLES(SETTLE)                                                                                                  \
        SETTLE(settle_bf16, f32, brain_of(v))                                                                            \
        SETTLE(settle_i8, i32, (int8_t)v)                                                                                \
        SETTLE(settle_i16, i32, (int16_t)v)                                                                              \
        SETTLE(settle_u8, u32, (uint8_t)v)                                                                               \
        SETTLE(settle_u16, u32, (uint16_t)v)                                                                             \
        SETTLE(settle_bool, u32, v != 0)
#define SETTLE(name, class, how)                                                                                         \
        static void name(void *to, const void *from, const void *b, const void *c, int64_t count)                        \
        {                                                                                                                \
                at_##class *y = to;                                                                                      \
                const at_##class *a = from;                                                                              \
                (void)b;                                                                                                 \
                (void)c;                                                                                                 \
                M_INDEPENDENT                                                                                            \
                for (int64_t i = 0; i < count; i++) {                                                                    \
                        at_##class v = a[i];                                                                             \
                        y[i] = how;                                                                                      \
                }                                                                                                        \
        }
SETTLES(SETTLE)
#undef SETTLE
#undef SETTLES

static void round_f16(void *y, const void *a, const void *b, const void *c, int64_t count)
{
        (void)b;
        (void)c;
        for (int64_t i = 0; i < count; i++)
                ((at_f32 *)y)[i] = sf_f32_from_f16(sf_f16_from(((const at_f64 *)a)[i]));
}

static void round_bf16(void *y, const void *a, const void *b, const void *c, int64_t count)
{
        (void)b;
        (void)c;
        for (int64_t i = 0; i < count; i++)
                ((at_f32 *)y)[i] = sf_f32_from_bf16(sf_bf16_from(((const at_f64 *)a)[i]));
}

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

/* ------------------------------------------------------------------------------------------------------------
 * Narrow integers in lanes of their own size. Max and min compute with unsigned numbers of which the largest is wanted: an element ^ turn, no less
 * than least, ^ again; ^ out is the element again. Bools other than 0 are 1: 255 ^ the smaller of 255 ^ v and 254.
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct own_way {
        uint32_t turn, least, again, out;
} own_way;

static own_way own_way_of(sf_dt dt, sf_op op)
{
        const uint32_t high = sf_dtypes[dt].kind == SF_KIND_SIGNED ? 1u << (sf_dtypes[dt].bits - 1) : 0, down = op == SF_MIN ? 0xffff : 0;
        if (dt == SF_DT_BOOL)
                return (own_way){0xff, 0xfe, 0xff ^ down, down};
        return (own_way){high ^ down, 0, 0, high ^ down};
}

#include "cpu/map_fold_rows.inc.h"

/* Folds into wider totals. part_x holds the sum of DEEP elements; PART of them are added at a time. */
enum { PART = 8, DEEP = 128, DEEP_COLUMNS = 4096, WIDE = 4096 };
typedef at_bool at_truth; /* bool is a macro */
#define NARROW(name, NAME, part, value, sum, most)                                                                       \
        typedef part part_##name;                                                                                        \
        enum { dt_##name = SF_DT_##NAME };                                                                               \
        static fold_rows_of *const sum_rows_##name = sum, *const most_rows_##name = most;                                \
        SF_INLINE part value_##name(at_##name v) { return (part)(value); }
NARROW(i8, I8, int16_t, v, rows_sum_1, rows_most_1)
NARROW(u8, U8, uint16_t, v, rows_sum_1, rows_most_1)
NARROW(truth, BOOL, uint16_t, v != 0, rows_sum_truth, rows_most_1)
NARROW(i16, I16, int32_t, v, rows_sum_2, rows_most_2)
NARROW(u16, U16, uint32_t, v, rows_sum_2, rows_most_2)
NARROW(i32, I32, int64_t, v, rows_sum_4, NULL)
NARROW(u32, U32, uint64_t, v, rows_sum_4, NULL)
#undef NARROW

#define F_FROM i8
#define F_TO i32
#define F_BITS_C uint32_t
#define F_EXTREMES
#include "cpu/map_fold.inc.h"

#define F_FROM u8
#define F_TO u32
#define F_BITS_C uint32_t
#define F_EXTREMES
#include "cpu/map_fold.inc.h"

#define F_FROM truth
#define F_TO u32
#define F_BITS_C uint32_t
#define F_EXTREMES
#include "cpu/map_fold.inc.h"

#define F_FROM i16
#define F_TO i32
#define F_BITS_C uint32_t
#define F_EXTREMES
#include "cpu/map_fold.inc.h"

#define F_FROM u16
#define F_TO u32
#define F_BITS_C uint32_t
#define F_EXTREMES
#include "cpu/map_fold.inc.h"

#define F_FROM i8
#define F_TO u64
#define F_BITS_C uint64_t
#include "cpu/map_fold.inc.h"

#define F_FROM u8
#define F_TO u64
#define F_BITS_C uint64_t
#include "cpu/map_fold.inc.h"

#define F_FROM truth
#define F_TO u64
#define F_BITS_C uint64_t
#include "cpu/map_fold.inc.h"

#define F_FROM i16
#define F_TO u64
#define F_BITS_C uint64_t
#include "cpu/map_fold.inc.h"

#define F_FROM u16
#define F_TO u64
#define F_BITS_C uint64_t
#include "cpu/map_fold.inc.h"

#define F_FROM i32
#define F_TO u64
#define F_BITS_C uint64_t
#include "cpu/map_fold.inc.h"

#define F_FROM u32
#define F_TO u64
#define F_BITS_C uint64_t
#include "cpu/map_fold.inc.h"

static const sf_direct_fold *direct(sf_dt from, sf_class held, sf_op op)
{
        static const sf_direct_fold *const wide[SF_DT_COUNT] = {
                [SF_DT_I8] = folds_i8_u64,   [SF_DT_U8] = folds_u8_u64,   [SF_DT_BOOL] = folds_truth_u64, [SF_DT_I16] = folds_i16_u64,
                [SF_DT_U16] = folds_u16_u64, [SF_DT_I32] = folds_i32_u64, [SF_DT_U32] = folds_u32_u64};
        static const sf_direct_fold *const own[SF_DT_COUNT] = {
                [SF_DT_I8] = folds_i8_i32, [SF_DT_U8] = folds_u8_u32, [SF_DT_BOOL] = folds_truth_u32, [SF_DT_I16] = folds_i16_i32, [SF_DT_U16] = folds_u16_u32};
        const bool is_wide = held == SF_CLASS_I64 || held == SF_CLASS_U64;
        /* A sum has the same bits signed or not. */
        if (!is_wide && !(held == SF_CLASS_I32 || held == SF_CLASS_U32))
                return NULL;
        if (op != SF_SUM && held != sf_class_of(from))
                return NULL;
        const sf_direct_fold *folds = is_wide ? wide[from] : own[from];
        return folds && (op == SF_SUM || op == SF_MAX || op == SF_MIN) && folds[op].rows ? &folds[op] : NULL;
}

/* ------------------------------------------------------------------------------------------------------------
 * Scans of narrow integers
 * ---------------------------------------------------------------------------------------------------------- */

/* Bytes that a row is fetched ahead of its results. */
#define OWN_AHEAD 2048
enum { OWN_LEVELS = V_BYTES == 64 ? 3 : V_BYTES == 32 ? 2 : 1 }; /* log2 of a vector's 8-byte parts */

/* The tables for the exchange between those. */
typedef struct own_tables {
        v_raw level[OWN_LEVELS], before, last;
        v_mask level_on[OWN_LEVELS], before_on;
} own_tables;

SF_INLINE own_tables own_tables_of(const sf_lanes *lanes)
{
        own_tables t = {.before = v_raw_load(lanes->before.bytes), .last = v_raw_load(lanes->last.bytes), .before_on = v_mask_of(&lanes->before_on)};
        for (int k = 0; k < OWN_LEVELS; k++) {
                t.level[k] = v_raw_load(lanes->level[k].bytes);
                t.level_on[k] = v_mask_of(&lanes->level_on[k]);
        }
        return t;
}

#define S_NAME u8
#define S_C uint8_t
#define S_SIZE 1
#include "cpu/map_scan.inc.h"

#define S_NAME u16
#define S_C uint16_t
#define S_SIZE 2
#include "cpu/map_scan.inc.h"

static void own_scan(const sf_own_scan *j)
{
        const own_way way = own_way_of(j->dt, j->op);
        (sf_dtypes[j->dt].size == 1 ? own_scan_u8 : own_scan_u16)(j, &way);
}

#include "cpu/map_scan_wide.inc.h"

/* ------------------------------------------------------------------------------------------------------------
 * The table
 * ---------------------------------------------------------------------------------------------------------- */
#define CASTS_FROM(from)                                                                                                 \
        {                                                                                                                \
                cast_##from##_f32, cast_##from##_f64, cast_##from##_i32, cast_##from##_u32, cast_##from##_i64, cast_##from##_u64 \
        }
const sf_cpu_map MAP_TABLE = {
        .loops = {loops_f32, loops_f64, loops_i32, loops_u32, loops_i64, loops_u64},
        .casts = {CASTS_FROM(f32), CASTS_FROM(f64), CASTS_FROM(i32), CASTS_FROM(u32), CASTS_FROM(i64), CASTS_FROM(u64)},
        .truth = {truth_f32, truth_f64, truth_i32, truth_u32, truth_i64, truth_u64},
        .settle = {[SF_DT_F16] = settle_f16, [SF_DT_BF16] = settle_bf16, [SF_DT_I8] = settle_i8, [SF_DT_I16] = settle_i16,
                   [SF_DT_U8] = settle_u8, [SF_DT_U16] = settle_u16, [SF_DT_BOOL] = settle_bool},
        .round = {[SF_DT_F16] = round_f16, [SF_DT_BF16] = round_bf16},
        .fill = fill,
        .stream = stream,
        .mover = mover,
        .direct = direct,
        .own_scan = own_scan,
        .wide_scan = wide_scan};
#undef CASTS_FROM
