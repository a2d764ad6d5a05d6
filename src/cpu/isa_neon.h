/* The vector functions of vector.h in AArch64's Advanced SIMD. */
#include <arm_neon.h>

typedef v_raw v_mask;
#define V_KEEP(v) __asm__("" : "+w"(v))

SF_INLINE v_raw v_permute4(v_raw a, v_raw index)
{
        return (v_raw)vqtbl1q_u8((uint8x16_t)a, (uint8x16_t)index);
}
SF_INLINE v_raw v_permute8(v_raw a, v_raw index)
{
        return v_permute4(a, index);
}

/* In the CPU's max, NaN wins and -0.0 is below +0.0. It has no max of 64-bit integers. */
#define V_LARGER_REAL
#define V_LARGER_32
SF_INLINE v_f32 v_larger_f32(v_f32 a, v_f32 b)
{
        return (v_f32)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}
SF_INLINE v_f64 v_larger_f64(v_f64 a, v_f64 b)
{
        return (v_f64)vmaxq_f64((float64x2_t)a, (float64x2_t)b);
}
SF_INLINE v_u32 v_larger_u32(v_u32 a, v_u32 b)
{
        return (v_u32)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b);
}
#define V_LARGER_NARROW
SF_INLINE v_u8 v_larger_u8(v_u8 a, v_u8 b)
{
        return (v_u8)vmaxq_u8((uint8x16_t)a, (uint8x16_t)b);
}
SF_INLINE v_u16 v_larger_u16(v_u16 a, v_u16 b)
{
        return (v_u16)vmaxq_u16((uint16x8_t)a, (uint16x8_t)b);
}
SF_INLINE v_raw v_shuffle16(v_raw v, v_raw index)
{
        return (v_raw)vqtbl1q_u8((uint8x16_t)v, (uint8x16_t)index);
}

/* A store pair with the non-temporal hint. */
SF_INLINE void v_stream(void *to, const void *from, int bytes)
{
        uint64_t half[2];
        memcpy(half, from, (size_t)bytes);
        __asm__ volatile("stnp %1, %2, [%0]" : : "r"(to), "r"(half[0]), "r"(half[1]) : "memory");
}
SF_INLINE void v_fence(void)
{
}

SF_INLINE v_f32 v_f32_from_f16(const void *p)
{
        uint16x4_t h;
        memcpy(&h, p, sizeof h);
        return (v_f32)vcvt_f32_f16(vreinterpret_f16_u16(h));
}
SF_INLINE void v_f16_from_f32(void *p, v_f32 v)
{
        uint16x4_t h = vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v));
        memcpy(p, &h, sizeof h);
}
SF_INLINE v_f64 v_f64_from_f16(const void *p)
{
        uint16x4_t h = {0};
        memcpy(&h, p, 4);
        return (v_f64)vcvt_f64_f32(vget_low_f32(vcvt_f32_f16(vreinterpret_f16_u16(h))));
}

/* The sum of each 8 bytes. */
#define V_TOTAL_BYTES
SF_INLINE v_u64 v_total_bytes(v_u64 v)
{
        return (v_u64)vpaddlq_u32(vpaddlq_u16(vpaddlq_u8((uint8x16_t)v)));
}

/* Measured, not derived: tiles that fill the registers without spilling. */
#define V_SCAN_TILE 4
#define V_SCAN_TILE_LOG 2
#define V_SCAN_ROWS 4
#define V_FOLD_ROWS 8
#define V_FOLD_ROWS_LOG 3
