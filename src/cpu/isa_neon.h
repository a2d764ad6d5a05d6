/* The vocabulary of vector.h in AArch64's Advanced SIMD. */
#include <arm_neon.h>

typedef v_raw v_mask;

SF_INLINE v_raw v_permute4(v_raw a, v_raw index)
{
        return (v_raw)vqtbl1q_u8((uint8x16_t)a, (uint8x16_t)index);
}
SF_INLINE v_raw v_permute8(v_raw a, v_raw index)
{
        return v_permute4(a, index);
}

/* The CPU's max and min know that NaN wins and that -0.0 is below +0.0. Of 64-bit integers it has none. */
#define V_EXTREME_REAL
#define V_EXTREME_32
#define V_EXTREME(name, type, suffix)                                                               \
        SF_INLINE v_##name v_extreme_##name(const bool larger, v_##name a, v_##name b)              \
        {                                                                                           \
                return (v_##name)(larger ? vmaxq_##suffix((type)a, (type)b)                         \
                                         : vminq_##suffix((type)a, (type)b));                       \
        }
V_EXTREME(f32, float32x4_t, f32)
V_EXTREME(f64, float64x2_t, f64)
V_EXTREME(u32, uint32x4_t, u32)
V_EXTREME(i32, int32x4_t, s32)
#undef V_EXTREME
#define V_MAX_NARROW
SF_INLINE v_raw v_max_u8(v_raw a, v_raw b)
{
        return (v_raw)vmaxq_u8((uint8x16_t)a, (uint8x16_t)b);
}
SF_INLINE v_raw v_max_u16(v_raw a, v_raw b)
{
        return (v_raw)vmaxq_u16((uint16x8_t)a, (uint16x8_t)b);
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
