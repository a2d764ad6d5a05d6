/*
 * vector.h: the vector functions that the kernels are written with. Before it includes this, an
 * instruction set's file defines:
 *
 *   V_BYTES                 bytes in a vector: 16, 32 or 64
 *   V_PERMUTE_BYTES         granularity of a permute index (8: a whole lane)
 *   v_mask                  a selection of lanes; with V_MASK_BITS an integer of bits, else a v_raw
 *                           of all-ones lanes
 *   v_permute4, v_permute8  (v_raw, v_raw index) -> v_raw: lanes of 4 or 8 bytes rearranged
 *   v_permute_two4, _two8   (v_raw a, v_raw b, v_raw index) -> v_raw: the same from a followed by
 *                           b, if V_PERMUTE_TWO is defined; a permute of one vector must then
 *                           ignore the index's bit for the second
 *   v_stream                (void *, const void *, bytes): a non-temporal store of an aligned
 *                           vector of 16, 32 or 64 bytes
 *   v_fence                 (): orders such stores before what follows
 *   v_stream_halves         (void *, const void *, const void *): such a store of 64 bytes from two
 *                           halves, if V_STREAM_HALVES is defined
 *   v_f32_from_f16          and v_f16_from_f32: between a v_f32 and as many uint16_t in memory;
 *                           also for bf16 if V_BRAIN is defined
 *   v_f64_from_f16          from as many uint16_t in memory
 *   v_f64_from_f32          and v_f32_from_f64: between a v_f64 and as many float in memory, and
 *                           v_f64_from_bf16, if V_WIDEN is defined
 *   V_LONG                  static V_APART, if functions of many scalar steps should not be inlined
 *   v_u64_from              (const void *, size, truth) -> v_u64: as many unsigned integers of 1,
 *                           2 or 4 bytes, or bool of 1, if V_WIDEN_INTEGERS is defined
 *   v_lanes_u32             and v_lanes_u64: (const void *) -> a vector of bytes as lanes, if
 *                           V_WIDEN_BYTES is defined
 *   v_shuffle16             (v_raw, v_raw index) -> v_raw: the bytes of every 16 rearranged, by the
 *                           lowest 4 bits of each index
 *   v_bytes_on              (v_raw) -> uint64_t: the highest bits of bytes, if V_BYTES_ON is defined
 *   V_KEEP(v)               does nothing, but the compiler must have computed v here
 *   v_larger_f32 ... _u64   if V_LARGER_REAL, V_LARGER_NARROW, V_LARGER_32 or V_LARGER_64 is
 *                           defined
 * and, with V_MASK_BITS, v_blend_f32 ... v_blend_u64, v_above_f32 ... v_above_i64, v_mask_bytes and
 * v_mask_bytes_part. The rest is GNU C vector arithmetic, which gcc and clang compile to the
 * instructions that the file's flags allow.
 */
#ifndef SF_CPU_VECTOR_H
#define SF_CPU_VECTOR_H

#include "core/core.h"
#include "cpu/lanes.h"

#include <string.h>

#ifdef __clang__
#define V_UNROLL _Pragma("unroll")
#define V_ROLLED _Pragma("nounroll") /* the loop stays one, because it is long and seldom run */
#else
#define V_UNROLL _Pragma("GCC unroll 16")
#define V_ROLLED _Pragma("GCC unroll 1")
#endif

/* Not inlined, so that it does not compete with its caller for registers. */
#define V_APART __attribute__((noinline, unused))

/* log2 of the number of 16-byte parts. */
#define V_PART_LEVELS (V_BYTES == 64 ? 2 : V_BYTES == 32 ? 1 : 0)
#define V_LANES4 (V_BYTES / 4)
#define V_LANES8 (V_BYTES / 8)

typedef float v_f32 __attribute__((vector_size(V_BYTES)));
typedef double v_f64 __attribute__((vector_size(V_BYTES)));
typedef uint8_t v_u8 __attribute__((vector_size(V_BYTES)));
typedef uint16_t v_u16 __attribute__((vector_size(V_BYTES)));
typedef uint32_t v_u32 __attribute__((vector_size(V_BYTES)));
typedef int32_t v_i32 __attribute__((vector_size(V_BYTES)));
typedef uint64_t v_u64 __attribute__((vector_size(V_BYTES)));
typedef int64_t v_i64 __attribute__((vector_size(V_BYTES)));
typedef v_u64 v_raw;
typedef uint64_t v_raw_unaligned __attribute__((vector_size(V_BYTES), aligned(1), may_alias));

#include V_ISA_HEADER
#ifndef V_LONG
#define V_LONG SF_INLINE
#endif
#ifndef V_KEEP
#define V_KEEP(v) (void)(v)
#endif

SF_INLINE v_raw v_raw_load(const void *p)
{
        return *(const v_raw_unaligned *)p;
}

/* Makes the processor take numbers that are not normal for 0, in what it reads and computes, until
 * v_unflush gets what was returned. Between the two there should be only a function call: a compiler
 * does not know that arithmetic depends on it. */
#if defined(__SSE2__)
#define V_FLUSH
#include <xmmintrin.h>
SF_INLINE unsigned v_flush(void)
{
        const unsigned before = _mm_getcsr();
        _mm_setcsr(before | 0x8040);
        return before;
}
SF_INLINE void v_unflush(unsigned before)
{
        _mm_setcsr(before);
}
#elif defined(__aarch64__)
#define V_FLUSH
SF_INLINE unsigned v_flush(void)
{
        uint64_t before;
        __asm__ volatile("mrs %0, fpcr" : "=r"(before));
        __asm__ volatile("msr fpcr, %0" : : "r"(before | (uint64_t)1 << 24) : "memory");
        return (unsigned)before;
}
SF_INLINE void v_unflush(unsigned before)
{
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)before) : "memory");
}
#endif

/* ------------------------------------------------------------------------------------------------
 * bf16: the upper half of an f32, rounded to nearest even. Add just under half of the last kept
 * place, or exactly half if that place is odd. A NaN must not become infinity or zero by a carry:
 * it keeps its upper bits and is made quiet.
 * ---------------------------------------------------------------------------------------------- */
#ifndef V_BRAIN
typedef uint16_t v_halves __attribute__((vector_size(V_BYTES / 2), aligned(1), may_alias));

SF_INLINE v_f32 v_f32_from_bf16(const void *p)
{
        return (v_f32)(__builtin_convertvector(*(const v_halves *)p, v_u32) << 16);
}
SF_INLINE void v_bf16_from_f32(void *p, v_f32 v)
{
        v_u32 bits = (v_u32)v, nan = (v_u32)(v != v);
        v_u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        *(v_halves *)p = __builtin_convertvector((nan & (bits >> 16 | 0x40)) | (~nan & rounded), v_halves);
}
#endif

#ifndef V_WIDEN
typedef float v_floats __attribute__((vector_size(V_BYTES / 2), aligned(1), may_alias));

SF_INLINE v_f64 v_f64_from_f32(const void *p)
{
        return __builtin_convertvector(*(const v_floats *)p, v_f64);
}
SF_INLINE void v_f32_from_f64(void *p, v_f64 v)
{
        *(v_floats *)p = __builtin_convertvector(v, v_floats);
}
SF_INLINE v_f64 v_f64_from_bf16(const void *p)
{
        typedef uint16_t halves __attribute__((vector_size(V_BYTES / 4), aligned(1), may_alias));
        typedef uint32_t words __attribute__((vector_size(V_BYTES / 2)));
        typedef float floats __attribute__((vector_size(V_BYTES / 2)));
        return __builtin_convertvector((floats)(__builtin_convertvector(*(const halves *)p, words) << 16), v_f64);
}
#endif

#ifndef V_WIDEN_INTEGERS
V_LONG v_u64 v_u64_from(const void *p, const int size, const bool truth)
{
        v_u64 v;
        for (int i = 0; i < V_LANES8; i++) {
                uint64_t one = 0;
                /* little-endian, as every target is */
                memcpy(&one, (const char *)p + i * size, (size_t)size);
                v[i] = truth ? one != 0 : one;
        }
        return v;
}
#endif

/* As many lanes as a vector has, from one byte each. */
#ifndef V_WIDEN_BYTES
typedef uint8_t v_bytes4 __attribute__((vector_size(V_LANES4), aligned(1), may_alias));
typedef uint8_t v_bytes8 __attribute__((vector_size(V_LANES8), aligned(1), may_alias));
SF_INLINE v_u32 v_lanes_u32(const void *p)
{
        return __builtin_convertvector(*(const v_bytes4 *)p, v_u32);
}
SF_INLINE v_u64 v_lanes_u64(const void *p)
{
        return __builtin_convertvector(*(const v_bytes8 *)p, v_u64);
}
#endif

/* 0 to 8 bytes from p on. A memcpy of a variable size would be a function call. */
SF_INLINE uint64_t v_bytes_part(const uint8_t *p, int count)
{
        uint32_t low4, high4;
        uint16_t low2, high2;
        if (count >= 4) {
                memcpy(&low4, p, 4);
                memcpy(&high4, p + count - 4, 4);
                return low4 | (uint64_t)high4 << 8 * (count - 4);
        }
        if (count < 2)
                return count ? *p : 0;
        memcpy(&low2, p, 2);
        memcpy(&high2, p + count - 2, 2);
        return low2 | (uint64_t)high2 << 8 * (count - 2);
}

/* ------------------------------------------------------------------------------------------------
 * Selections of lanes
 * ---------------------------------------------------------------------------------------------- */
#ifdef V_MASK_BITS
SF_INLINE v_mask v_mask_of(const sf_choice *choice)
{
        return (v_mask)choice->bits;
}
/* the lowest `count` lanes */
SF_INLINE v_mask v_mask_below(int count, int lane_bytes)
{
        (void)lane_bytes;
        return (v_mask)(count < 64 ? (1ull << count) - 1 : ~0ull);
}
#else
SF_INLINE v_mask v_mask_of(const sf_choice *choice)
{
        return v_raw_load(choice->bytes);
}
static const uint8_t v_ones_then_zeros[2 * V_BYTES] = {
#define ONES8 255, 255, 255, 255, 255, 255, 255, 255
        ONES8, ONES8,
#if V_BYTES > 16
        ONES8, ONES8,
#endif
#undef ONES8
};
SF_INLINE v_mask v_mask_below(int count, int lane_bytes)
{
        return v_raw_load(v_ones_then_zeros + V_BYTES - count * lane_bytes);
}
#define V_BLEND(mask, yes, no) (((mask) & (v_raw)(yes)) | (~(mask) & (v_raw)(no)))
SF_INLINE v_f32 v_blend_f32(v_mask mask, v_f32 yes, v_f32 no)
{
        return (v_f32)V_BLEND(mask, yes, no);
}
SF_INLINE v_f64 v_blend_f64(v_mask mask, v_f64 yes, v_f64 no)
{
        return (v_f64)V_BLEND(mask, yes, no);
}
SF_INLINE v_u8 v_blend_u8(v_mask mask, v_u8 yes, v_u8 no)
{
        return (v_u8)V_BLEND(mask, yes, no);
}
SF_INLINE v_u16 v_blend_u16(v_mask mask, v_u16 yes, v_u16 no)
{
        return (v_u16)V_BLEND(mask, yes, no);
}
SF_INLINE v_u32 v_blend_u32(v_mask mask, v_u32 yes, v_u32 no)
{
        return (v_u32)V_BLEND(mask, yes, no);
}
SF_INLINE v_u64 v_blend_u64(v_mask mask, v_u64 yes, v_u64 no)
{
        return (v_u64)V_BLEND(mask, yes, no);
}
#undef V_BLEND

/* Lanes in which a is above b. NaN is above all numbers, and not above NaN. */
SF_INLINE v_mask v_above_f32(v_f32 a, v_f32 b)
{
        return (v_mask)(~(a <= b) & (b == b));
}
SF_INLINE v_mask v_above_f64(v_f64 a, v_f64 b)
{
        return (v_mask)(~(a <= b) & (b == b));
}
SF_INLINE v_mask v_above_u32(v_u32 a, v_u32 b)
{
        return (v_mask)(a > b);
}
SF_INLINE v_mask v_above_u64(v_u64 a, v_u64 b)
{
        return (v_mask)(a > b);
}
SF_INLINE v_mask v_above_i32(v_i32 a, v_i32 b)
{
        return (v_mask)(a > b);
}
SF_INLINE v_mask v_above_i64(v_i64 a, v_i64 b)
{
        return (v_mask)(a > b);
}
#endif

/* Is any lane of a comparison's result on? */
SF_INLINE bool v_any(v_mask m)
{
#ifdef V_MASK_BITS
        return m;
#else
        uint64_t word[V_BYTES / 8], any = 0;
        memcpy(word, &m, sizeof word);
        for (int i = 0; i < V_BYTES / 8; i++)
                any |= word[i];
        return any;
#endif
}

/* A bit for each byte of a vector whose lanes are all ones or all zeros. */
#ifndef V_BYTES_ON
SF_INLINE uint64_t v_bytes_on(v_raw v)
{
        uint64_t word[V_BYTES / 8], on = 0;
        memcpy(word, &v, sizeof word);
        for (int i = 0; i < V_BYTES / 8; i++) /* the highest bits of eight bytes, brought together */
                on |= ((word[i] & 0x8080808080808080u) * 0x0002040810204081u >> 56) << (8 * i);
        return on;
}
#endif

/* ------------------------------------------------------------------------------------------------
 * Rotation by whole lanes: result lane i is lane i - by, modulo the width; of two vectors one after
 * the other, lane width + i - by. The index is read from this window, at an offset.
 * ---------------------------------------------------------------------------------------------- */
#define PAIR2(i, f) f(i) f(i + 1)
#define PAIR4(i, f) PAIR2(i, f) PAIR2(i + 2, f)
#define PAIR8(i, f) PAIR4(i, f) PAIR4(i + 4, f)
#define PAIR16(i, f) PAIR8(i, f) PAIR8(i + 8, f)
#define ENTRY(i) (i),
#if V_PERMUTE_BYTES == 1
static const uint8_t v_window1[2 * V_BYTES] = {PAIR16(0, ENTRY) PAIR16(0, ENTRY)};
#elif V_BYTES == 64
static const uint32_t v_window4[32] = {PAIR16(0, ENTRY) PAIR16(16, ENTRY)};
static const uint64_t v_window8[16] = {PAIR8(0, ENTRY) PAIR8(8, ENTRY)};
#elif V_BYTES == 32
static const uint32_t v_window4[16] = {PAIR8(0, ENTRY) PAIR8(0, ENTRY)};
#else
static const uint32_t v_window4[8] = {PAIR4(0, ENTRY) PAIR4(0, ENTRY)};
static const uint64_t v_window8[4] = {PAIR2(0, ENTRY) PAIR2(0, ENTRY)};
#endif
#undef ENTRY

SF_INLINE v_raw v_rotate_index(int by, int lane_bytes)
{
#if V_PERMUTE_BYTES == 1
        const void *window = v_window1;
#elif V_PERMUTE_BYTES == 4
        const void *window = v_window4;
#else
        const void *window = lane_bytes == 4 ? (const void *)v_window4 : (const void *)v_window8;
#endif
        return v_raw_load((const char *)window + V_BYTES - by * lane_bytes);
}

/* ------------------------------------------------------------------------------------------------
 * The larger of two: value.h's SF_EXTREME for vectors. A NaN wins, and of two equal reals the
 * sign bit is clear if either's is.
 * ---------------------------------------------------------------------------------------------- */
#ifndef V_LARGER_REAL
SF_INLINE v_f32 v_larger_f32(v_f32 a, v_f32 b)
{
        const v_u32 wins = (v_u32)((a > b) | (a != a)), equal = (v_u32)(a == b);
        const v_u32 r = (wins & (v_u32)a) | (~wins & (v_u32)b); /* if b is NaN, it is b */
        return (v_f32)(r & (~equal | (v_u32)a));
}
SF_INLINE v_f64 v_larger_f64(v_f64 a, v_f64 b)
{
        const v_u64 wins = (v_u64)((a > b) | (a != a)), equal = (v_u64)(a == b);
        const v_u64 r = (wins & (v_u64)a) | (~wins & (v_u64)b);
        return (v_f64)(r & (~equal | (v_u64)a));
}
#endif
#ifndef V_LARGER_32
SF_INLINE v_u32 v_larger_u32(v_u32 a, v_u32 b)
{
        const v_u32 wins = (v_u32)(a > b);
        return (wins & a) | (~wins & b);
}
#endif
#ifndef V_LARGER_64
SF_INLINE v_u64 v_larger_u64(v_u64 a, v_u64 b)
{
        const v_u64 wins = (v_u64)(a > b);
        return (wins & a) | (~wins & b);
}
#endif

/* The smaller magnitude; if a is NaN, any. */
#ifndef V_NEARER
SF_INLINE v_f32 v_nearer_f32(v_f32 a, v_f32 b)
{
        return (v_f32)~v_larger_u32(~((v_u32)a & 0x7fffffff), ~((v_u32)b & 0x7fffffff));
}
SF_INLINE v_f64 v_nearer_f64(v_f64 a, v_f64 b)
{
        return (v_f64)~v_larger_u64(~((v_u64)a & (~(uint64_t)0 >> 1)), ~((v_u64)b & (~(uint64_t)0 >> 1)));
}
#endif

#ifndef V_LARGER_NARROW
SF_INLINE v_u8 v_larger_u8(v_u8 a, v_u8 b)
{
        const v_u8 wins = (v_u8)(a > b);
        return (wins & a) | (~wins & b);
}
SF_INLINE v_u16 v_larger_u16(v_u16 a, v_u16 b)
{
        const v_u16 wins = (v_u16)(a > b);
        return (wins & a) | (~wins & b);
}
#endif

/* ------------------------------------------------------------------------------------------------
 * Pairs of neighbours, brought together from two vectors: their left lanes (`from` 0) or their
 * right ones. V_INNER pairs lanes inside each 16 bytes, V_OUTER (from 0 or the lanes of 16 bytes)
 * whole 16 bytes: all such shuffles are one instruction, where every other lane of two vectors, in
 * order, might be three. So lanes are out of order, until as many levels as a vector has, inner
 * ones first, have halved as many vectors as it has lanes. V_ORDER_1 and V_ORDER_2 restore it after
 * one level or two. The lists are constants, so that the compiler can choose instructions for them.
 * ---------------------------------------------------------------------------------------------- */
#ifdef __clang__
#define V_SHUFFLE4(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define V_SHUFFLE8(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define V_SHUFFLE4(a, b, ...) __builtin_shuffle(a, b, (v_u32){__VA_ARGS__})
#define V_SHUFFLE8(a, b, ...) __builtin_shuffle(a, b, (v_u64){__VA_ARGS__})
#endif
#define V_TWO(i) (i), (i) + 1
#define V_FOUR(i) V_TWO(i), V_TWO((i) + 2)
#define V_EVEN(i, w) (i), (i) + 2, (i) + (w), (i) + (w) + 2
#if V_BYTES == 64
#define V_INNER4(a, b, i) V_SHUFFLE4(a, b, V_EVEN(i, 16), V_EVEN(i + 4, 16), V_EVEN(i + 8, 16), V_EVEN(i + 12, 16))
#define V_INNER8(a, b, i) V_SHUFFLE8(a, b, i, i + 8, i + 2, i + 10, i + 4, i + 12, i + 6, i + 14)
#define V_OUTER4(a, b, i) V_SHUFFLE4(a, b, V_FOUR(i), V_FOUR(i + 8), V_FOUR(i + 16), V_FOUR(i + 24))
#define V_OUTER8(a, b, i) V_SHUFFLE8(a, b, V_TWO(i), V_TWO(i + 4), V_TWO(i + 8), V_TWO(i + 12))
#define V_ORDER8_1(v) V_SHUFFLE8(v, v, 0, 2, 4, 6, 1, 3, 5, 7)
#define V_ORDER8_2(v) V_SHUFFLE8(v, v, 0, 2, 1, 3, 4, 6, 5, 7)
#elif V_BYTES == 32
#define V_INNER4(a, b, i) V_SHUFFLE4(a, b, V_EVEN(i, 8), V_EVEN(i + 4, 8))
#define V_INNER8(a, b, i) V_SHUFFLE8(a, b, i, i + 4, i + 2, i + 6)
#define V_OUTER4(a, b, i) V_SHUFFLE4(a, b, V_FOUR(i), V_FOUR(i + 8))
#define V_OUTER8(a, b, i) V_SHUFFLE8(a, b, V_TWO(i), V_TWO(i + 4))
#define V_ORDER4_1(v) V_SHUFFLE4(v, v, 0, 1, 4, 5, 2, 3, 6, 7)
#define V_ORDER8_1(v) V_SHUFFLE8(v, v, 0, 2, 1, 3)
#else
#define V_INNER4(a, b, i) V_SHUFFLE4(a, b, V_EVEN(i, 4))
#define V_INNER8(a, b, i) V_SHUFFLE8(a, b, i, i + 2)
/* A vector is 16 bytes: there is no such level. */
#define V_OUTER4(a, b, i) V_INNER4(a, b, 0)
#define V_OUTER8(a, b, i) V_INNER8(a, b, 0)
#endif

#endif
