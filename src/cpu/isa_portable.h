/* The vector functions of vector.h in plain C: 16-byte GNU vectors, which the compiler maps to what
 * the target has. */
#include "core/value.h"

typedef v_raw v_mask;
#define V_LONG static V_APART

SF_INLINE v_raw v_permute4(v_raw a, v_raw index)
{
        uint32_t from[4], to[4], at[4];
        memcpy(from, &a, 16);
        memcpy(at, &index, 16);
        for (int i = 0; i < 4; i++)
                to[i] = from[at[i]];
        memcpy(&a, to, 16);
        return a;
}
SF_INLINE v_raw v_permute8(v_raw a, v_raw index)
{
        return (v_raw){a[index[0]], a[index[1]]};
}

V_LONG v_raw v_shuffle16(v_raw a, v_raw index)
{
        uint8_t from[16], to[16], at[16];
        memcpy(from, &a, 16);
        memcpy(at, &index, 16);
        for (int i = 0; i < 16; i++)
                to[i] = from[at[i] & 15];
        memcpy(&a, to, 16);
        return a;
}

SF_INLINE void v_stream(void *to, const void *from, int bytes)
{
        memcpy(to, from, (size_t)bytes);
}
SF_INLINE void v_fence(void)
{
}

V_LONG v_f32 v_f32_from_f16(const void *p)
{
        uint16_t h[4];
        v_f32 v;
        memcpy(h, p, sizeof h);
        for (int i = 0; i < 4; i++)
                v[i] = sf_f32_from_f16(h[i]);
        return v;
}
V_LONG void v_f16_from_f32(void *p, v_f32 v)
{
        uint16_t h[4];
        for (int i = 0; i < 4; i++)
                h[i] = sf_f16_from(v[i]);
        memcpy(p, h, sizeof h);
}
V_LONG v_f64 v_f64_from_f16(const void *p)
{
        uint16_t h[2];
        memcpy(h, p, sizeof h);
        return (v_f64){sf_f32_from_f16(h[0]), sf_f32_from_f16(h[1])};
}

/* Measured, not derived: tiles that fill the registers without spilling. */
#define V_SCAN_TILE 2
#define V_SCAN_TILE_LOG 1
#define V_SCAN_ROWS 4
#define V_FOLD_ROWS 4
#define V_FOLD_ROWS_LOG 2
/* a fallback, in which exchanging lanes one by one is long code: no instances just for speed */
#define V_LEAN
