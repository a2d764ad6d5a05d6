/* The vector functions of vector.h in AVX2 and F16C. */
#include <immintrin.h>

typedef v_raw v_mask;
#define V_KEEP(v) __asm__("" : "+x"(v))

SF_INLINE v_raw v_permute4(v_raw a, v_raw index)
{
        return (v_raw)_mm256_permutevar8x32_epi32((__m256i)a, (__m256i)index);
}
SF_INLINE v_raw v_permute8(v_raw a, v_raw index) /* the index is of halves: V_PERMUTE_BYTES is 4 */
{
        return v_permute4(a, index);
}

SF_INLINE v_raw v_shuffle16(v_raw v, v_raw index)
{
        return (v_raw)_mm256_shuffle_epi8((__m256i)v, (__m256i)index);
}
#define V_LARGER_NARROW
SF_INLINE v_u8 v_larger_u8(v_u8 a, v_u8 b)
{
        return (v_u8)_mm256_max_epu8((__m256i)a, (__m256i)b);
}
SF_INLINE v_u16 v_larger_u16(v_u16 a, v_u16 b)
{
        return (v_u16)_mm256_max_epu16((__m256i)a, (__m256i)b);
}

/* The CPU's max returns b if either is NaN, and if both are zeros. So the sign bits of equal reals
 * are combined, and a NaN in a is the result. */
#define V_LARGER_REAL
#define V_LARGER_32
SF_INLINE v_f32 v_larger_f32(v_f32 va, v_f32 vb)
{
        const __m256 a = (__m256)va, b = (__m256)vb, nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
        const __m256 sign = _mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_NEQ_UQ), a);
        return (v_f32)_mm256_blendv_ps(_mm256_and_ps(_mm256_max_ps(a, b), sign), a, nan);
}
SF_INLINE v_f64 v_larger_f64(v_f64 va, v_f64 vb)
{
        const __m256d a = (__m256d)va, b = (__m256d)vb, nan = _mm256_cmp_pd(a, a, _CMP_UNORD_Q);
        const __m256d sign = _mm256_or_pd(_mm256_cmp_pd(a, b, _CMP_NEQ_UQ), a);
        return (v_f64)_mm256_blendv_pd(_mm256_and_pd(_mm256_max_pd(a, b), sign), a, nan);
}
SF_INLINE v_u32 v_larger_u32(v_u32 a, v_u32 b)
{
        return (v_u32)_mm256_max_epu32((__m256i)a, (__m256i)b);
}

#define V_BYTES_ON
SF_INLINE uint64_t v_bytes_on(v_raw v)
{
        return (uint32_t)_mm256_movemask_epi8((__m256i)v);
}

#define V_WIDEN_INTEGERS
SF_INLINE v_u64 v_u64_from(const void *p, const int size, const bool truth)
{
        int four = 0;
        if (size == 1)
                memcpy(&four, p, 4);
        if (truth)
                return (v_u64)_mm256_cvtepu8_epi64(_mm_min_epu8(_mm_cvtsi32_si128(four), _mm_set1_epi8(1)));
        if (size == 1)
                return (v_u64)_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
        if (size == 2)
                return (v_u64)_mm256_cvtepu16_epi64(_mm_loadl_epi64(p));
        return (v_u64)_mm256_cvtepu32_epi64(_mm_loadu_si128(p));
}

SF_INLINE void v_stream(void *to, const void *from, int bytes)
{
        if (bytes == 32)
                _mm256_stream_si256(to, _mm256_loadu_si256(from));
        else
                _mm_stream_si128(to, _mm_loadu_si128(from));
}
SF_INLINE void v_fence(void)
{
        _mm_sfence();
}

SF_INLINE v_f32 v_f32_from_f16(const void *p)
{
        return (v_f32)_mm256_cvtph_ps(_mm_loadu_si128(p));
}
SF_INLINE void v_f16_from_f32(void *p, v_f32 v)
{
        _mm_storeu_si128(p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* gcc would split these conversions in two. */
#define V_WIDEN
SF_INLINE v_f64 v_f64_from_f32(const void *p)
{
        return (v_f64)_mm256_cvtps_pd(_mm_loadu_ps(p));
}
SF_INLINE void v_f32_from_f64(void *p, v_f64 v)
{
        _mm_storeu_ps(p, _mm256_cvtpd_ps((__m256d)v));
}
SF_INLINE v_f64 v_f64_from_f16(const void *p)
{
        return (v_f64)_mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64(p)));
}
SF_INLINE v_f64 v_f64_from_bf16(const void *p)
{
        return (v_f64)_mm256_cvtps_pd((__m128)_mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64(p)), 16));
}

/* Moves lanes first .. first + count - 1 of a vector, and no others, from or to p[0 .. count). */
#define V_PARTS
SF_INLINE __m256i v_part_mask(int size, int first, int count)
{
        static const int32_t window[24] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
        int scale = size / 4;
        __m256i from = _mm256_loadu_si256((const void *)(window + 8 - first * scale));
        __m256i to = _mm256_loadu_si256((const void *)(window + 16 - (first + count) * scale));
        return _mm256_and_si256(from, to);
}
SF_INLINE void v_part_load(void *to, const void *p, int size, int first, int count)
{
        if (size >= 4) {
                const int *at = (const int *)((uintptr_t)p - (uintptr_t)(first * size));
                _mm256_store_si256(to, _mm256_maskload_epi32(at, v_part_mask(size, first, count)));
        } else {
                memset(to, 0, 32);
                memcpy((char *)to + first * size, p, (size_t)(count * size));
        }
}
SF_INLINE void v_part_store(void *p, const void *from, int size, int first, int count)
{
        if (size >= 4) {
                int *at = (int *)((uintptr_t)p - (uintptr_t)(first * size));
                _mm256_maskstore_epi32(at, v_part_mask(size, first, count), _mm256_load_si256(from));
        } else {
                memcpy(p, (const char *)from + first * size, (size_t)(count * size));
        }
}

/* The sum of each 8 bytes. */
#define V_TOTAL_BYTES
SF_INLINE v_u64 v_total_bytes(v_u64 v)
{
        return (v_u64)_mm256_sad_epu8((__m256i)v, _mm256_setzero_si256());
}

#define V_WIDEN_BYTES
SF_INLINE v_u32 v_lanes_u32(const void *p)
{
        return (v_u32)_mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
}
SF_INLINE v_u64 v_lanes_u64(const void *p)
{
        return (v_u64)_mm256_cvtepu8_epi64(_mm_loadl_epi64(p)); /* which has more than it needs */
}

/* Measured, not derived: tiles that fill the registers without spilling. */
#define V_SCAN_TILE 2
#define V_SCAN_TILE_LOG 1
#define V_SCAN_ROWS 4
#define V_FOLD_ROWS 8
#define V_FOLD_ROWS_LOG 3
