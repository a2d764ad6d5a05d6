/* The vector functions of vector.h in AVX-512 (F, BW, DQ, VL) and F16C. */
#include <immintrin.h>

#define V_MASK_BITS
typedef uint64_t v_mask;
#define V_KEEP(v) __asm__("" : "+v"(v))

SF_INLINE v_raw v_permute4(v_raw a, v_raw index)
{
        return (v_raw)_mm512_permutexvar_epi32((__m512i)index, (__m512i)a);
}
SF_INLINE v_raw v_permute8(v_raw a, v_raw index)
{
        return (v_raw)_mm512_permutexvar_epi64((__m512i)index, (__m512i)a);
}

#define V_PERMUTE_TWO
SF_INLINE v_raw v_permute_two4(v_raw a, v_raw b, v_raw index)
{
        return (v_raw)_mm512_permutex2var_epi32((__m512i)a, (__m512i)index, (__m512i)b);
}
SF_INLINE v_raw v_permute_two8(v_raw a, v_raw b, v_raw index)
{
        return (v_raw)_mm512_permutex2var_epi64((__m512i)a, (__m512i)index, (__m512i)b);
}

SF_INLINE v_f32 v_blend_f32(v_mask m, v_f32 yes, v_f32 no)
{
        return (v_f32)_mm512_mask_blend_ps((__mmask16)m, (__m512)no, (__m512)yes);
}
SF_INLINE v_f64 v_blend_f64(v_mask m, v_f64 yes, v_f64 no)
{
        return (v_f64)_mm512_mask_blend_pd((__mmask8)m, (__m512d)no, (__m512d)yes);
}
SF_INLINE v_u32 v_blend_u32(v_mask m, v_u32 yes, v_u32 no)
{
        return (v_u32)_mm512_mask_blend_epi32((__mmask16)m, (__m512i)no, (__m512i)yes);
}
SF_INLINE v_u64 v_blend_u64(v_mask m, v_u64 yes, v_u64 no)
{
        return (v_u64)_mm512_mask_blend_epi64((__mmask8)m, (__m512i)no, (__m512i)yes);
}
SF_INLINE v_u8 v_blend_u8(v_mask m, v_u8 yes, v_u8 no)
{
        return (v_u8)_mm512_mask_blend_epi8(m, (__m512i)no, (__m512i)yes);
}
SF_INLINE v_u16 v_blend_u16(v_mask m, v_u16 yes, v_u16 no)
{
        return (v_u16)_mm512_mask_blend_epi16((__mmask32)m, (__m512i)no, (__m512i)yes);
}

SF_INLINE v_raw v_shuffle16(v_raw v, v_raw index)
{
        return (v_raw)_mm512_shuffle_epi8((__m512i)v, (__m512i)index);
}
#define V_LARGER_NARROW
SF_INLINE v_u8 v_larger_u8(v_u8 a, v_u8 b)
{
        return (v_u8)_mm512_max_epu8((__m512i)a, (__m512i)b);
}
SF_INLINE v_u16 v_larger_u16(v_u16 a, v_u16 b)
{
        return (v_u16)_mm512_max_epu16((__m512i)a, (__m512i)b);
}

/* The range instruction orders -0.0 below +0.0, but prefers numbers to NaN. So if b is a NaN it
 * becomes the result, and then a likewise. */
#define V_LARGER_REAL
#define V_LARGER_32
#define V_LARGER_64
SF_INLINE v_f32 v_larger_f32(v_f32 a, v_f32 b)
{
        const __m512i nan = _mm512_set1_epi32(0x11); /* a quiet or signalling NaN: b; else keep */
        const __m512 r = _mm512_fixupimm_ps(_mm512_range_ps((__m512)a, (__m512)b, 5), (__m512)b, nan, 0);
        return (v_f32)_mm512_mask_mov_ps(r, _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q), (__m512)a);
}
SF_INLINE v_f64 v_larger_f64(v_f64 a, v_f64 b)
{
        const __m512i nan = _mm512_set1_epi64(0x11);
        const __m512d r = _mm512_fixupimm_pd(_mm512_range_pd((__m512d)a, (__m512d)b, 5), (__m512d)b, nan, 0);
        return (v_f64)_mm512_mask_mov_pd(r, _mm512_cmp_pd_mask((__m512d)a, (__m512d)a, _CMP_UNORD_Q), (__m512d)a);
}
SF_INLINE v_u32 v_larger_u32(v_u32 a, v_u32 b)
{
        return (v_u32)_mm512_max_epu32((__m512i)a, (__m512i)b);
}
SF_INLINE v_u64 v_larger_u64(v_u64 a, v_u64 b)
{
        return (v_u64)_mm512_max_epu64((__m512i)a, (__m512i)b);
}

/* The one of smaller magnitude, and its magnitude. */
#define V_NEARER
SF_INLINE v_f32 v_nearer_f32(v_f32 a, v_f32 b)
{
        return (v_f32)_mm512_range_ps((__m512)a, (__m512)b, 10);
}
SF_INLINE v_f64 v_nearer_f64(v_f64 a, v_f64 b)
{
        return (v_f64)_mm512_range_pd((__m512d)a, (__m512d)b, 10);
}

/* core/exponentials.inc.h begins and ends an exponential with these. NaN stays. */
#define V_EXP
SF_INLINE v_f32 v_clamp_f32(v_f32 x, float least, float most)
{
        const __m512 v = _mm512_max_ps(_mm512_set1_ps(least), (__m512)x);
        return (v_f32)_mm512_min_ps(_mm512_set1_ps(most), v);
}
SF_INLINE v_f32 v_raise_f32(v_f32 v, v_f32 power)
{
        return (v_f32)_mm512_scalef_ps((__m512)v, (__m512)power);
}

#define V_BYTES_ON
SF_INLINE uint64_t v_bytes_on(v_raw v)
{
        return _mm512_movepi8_mask((__m512i)v);
}

/* `a not at most b`, but only in lanes where b is not NaN. */
SF_INLINE v_mask v_above_f32(v_f32 a, v_f32 b)
{
        const __mmask16 number = _mm512_cmp_ps_mask((__m512)b, (__m512)b, _CMP_ORD_Q);
        return _mm512_mask_cmp_ps_mask(number, (__m512)a, (__m512)b, _CMP_NLE_UQ);
}
SF_INLINE v_mask v_above_f64(v_f64 a, v_f64 b)
{
        const __mmask8 number = _mm512_cmp_pd_mask((__m512d)b, (__m512d)b, _CMP_ORD_Q);
        return _mm512_mask_cmp_pd_mask(number, (__m512d)a, (__m512d)b, _CMP_NLE_UQ);
}
SF_INLINE v_mask v_above_u32(v_u32 a, v_u32 b)
{
        return _mm512_cmpgt_epu32_mask((__m512i)a, (__m512i)b);
}
SF_INLINE v_mask v_above_u64(v_u64 a, v_u64 b)
{
        return _mm512_cmpgt_epu64_mask((__m512i)a, (__m512i)b);
}
SF_INLINE v_mask v_above_i32(v_i32 a, v_i32 b)
{
        return _mm512_cmpgt_epi32_mask((__m512i)a, (__m512i)b);
}
SF_INLINE v_mask v_above_i64(v_i64 a, v_i64 b)
{
        return _mm512_cmpgt_epi64_mask((__m512i)a, (__m512i)b);
}

/* A lane is on where its byte is not zero. */
SF_INLINE v_mask v_mask_bytes(const uint8_t *p, const int lanes)
{
        if (lanes == 64)
                return _mm512_test_epi8_mask(_mm512_loadu_si512(p), _mm512_set1_epi8(-1));
        if (lanes == 32)
                return _mm256_test_epi8_mask(_mm256_loadu_si256((const void *)p), _mm256_set1_epi8(-1));
        const __m128i bytes = lanes == 16 ? _mm_loadu_si128((const void *)p) : _mm_loadl_epi64((const void *)p);
        return _mm_test_epi8_mask(bytes, bytes);
}

/* Bits first .. first + count - 1; count may be 64. */
SF_INLINE uint64_t v_lanes_on(int first, int count)
{
        return (count < 64 ? (1ull << count) - 1 : ~0ull) << first;
}

SF_INLINE v_mask v_mask_bytes_part(const uint8_t *p, int first, int count)
{
        const __m512i bytes = _mm512_maskz_loadu_epi8(v_lanes_on(first, count), p - first);
        return _mm512_test_epi8_mask(bytes, bytes);
}

SF_INLINE void v_stream(void *to, const void *from, int bytes)
{
        if (bytes == 64)
                _mm512_stream_si512(to, _mm512_loadu_si512(from));
        else if (bytes == 32)
                _mm256_stream_si256(to, _mm256_loadu_si256(from));
        else
                _mm_stream_si128(to, _mm_loadu_si128(from));
}
/* Both halves of a cache line at once. */
#define V_STREAM_HALVES
SF_INLINE void v_stream_halves(void *to, const void *low, const void *high)
{
        __m512i line = _mm512_castsi256_si512(_mm256_loadu_si256(low));
        _mm512_stream_si512(to, _mm512_inserti64x4(line, _mm256_loadu_si256(high), 1));
}
SF_INLINE void v_fence(void)
{
        _mm_sfence();
}

SF_INLINE v_f32 v_f32_from_f16(const void *p)
{
        return (v_f32)_mm512_cvtph_ps(_mm256_loadu_si256(p));
}
SF_INLINE void v_f16_from_f32(void *p, v_f32 v)
{
        _mm256_storeu_si256(p, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* gcc would split these conversions in two. */
#define V_WIDEN
SF_INLINE v_f64 v_f64_from_f32(const void *p)
{
        return (v_f64)_mm512_cvtps_pd(_mm256_loadu_ps(p));
}
SF_INLINE void v_f32_from_f64(void *p, v_f64 v)
{
        _mm256_storeu_ps(p, _mm512_cvtpd_ps((__m512d)v));
}
SF_INLINE v_f64 v_f64_from_f16(const void *p)
{
        return (v_f64)_mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128(p)));
}
SF_INLINE v_f64 v_f64_from_bf16(const void *p)
{
        return (v_f64)_mm512_cvtps_pd((__m256)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}

/* As in vector.h, but with bits for the choice of NaNs. (The CPU's own conversion flushes
 * subnormals to zero.) */
#define V_BRAIN
SF_INLINE v_f32 v_f32_from_bf16(const void *p)
{
        return (v_f32)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16);
}
SF_INLINE void v_bf16_from_f32(void *p, v_f32 v)
{
        static const uint16_t odd_words[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                               33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
        const __m512i bits = (__m512i)v, upper = _mm512_loadu_si512(odd_words);
        __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
        __mmask16 nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
        __m512i rounded = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
        rounded = _mm512_mask_add_epi32(rounded, odd, bits, _mm512_set1_epi32(0x8000));
        rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
        _mm256_storeu_si256(p, _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper, rounded)));
}

/* Moves lanes first .. first + count - 1 of a vector, and no others, from or to p[0 .. count). */
SF_INLINE v_raw v_part_load1(const char *p, int first, int count)
{
        return (v_raw)_mm512_maskz_loadu_epi8(v_lanes_on(first, count), p - first);
}
SF_INLINE v_raw v_part_load2(const char *p, int first, int count)
{
        return (v_raw)_mm512_maskz_loadu_epi16((__mmask32)v_lanes_on(first, count), p - first * 2);
}
SF_INLINE v_raw v_part_load4(const char *p, int first, int count)
{
        return (v_raw)_mm512_maskz_loadu_epi32((__mmask16)v_lanes_on(first, count), p - first * 4);
}
SF_INLINE v_raw v_part_load8(const char *p, int first, int count)
{
        return (v_raw)_mm512_maskz_loadu_epi64((__mmask8)v_lanes_on(first, count), p - first * 8);
}
SF_INLINE void v_part_store1(char *p, v_raw v, int first, int count)
{
        _mm512_mask_storeu_epi8(p - first, v_lanes_on(first, count), (__m512i)v);
}
SF_INLINE void v_part_store2(char *p, v_raw v, int first, int count)
{
        _mm512_mask_storeu_epi16(p - first * 2, (__mmask32)v_lanes_on(first, count), (__m512i)v);
}
SF_INLINE void v_part_store4(char *p, v_raw v, int first, int count)
{
        _mm512_mask_storeu_epi32(p - first * 4, (__mmask16)v_lanes_on(first, count), (__m512i)v);
}
SF_INLINE void v_part_store8(char *p, v_raw v, int first, int count)
{
        _mm512_mask_storeu_epi64(p - first * 8, (__mmask8)v_lanes_on(first, count), (__m512i)v);
}

/* The same through memory, for elements that are converted. */
#define V_PARTS
SF_INLINE void v_part_load(void *to, const void *p, int size, int first, int count)
{
        uint64_t on = ((1ull << count) - 1) << first;
        const char *at = (const char *)p - first * size;
        if (size == 8)
                _mm512_store_si512(to, _mm512_maskz_loadu_epi64((__mmask8)on, at));
        else if (size == 4)
                _mm512_store_si512(to, _mm512_maskz_loadu_epi32((__mmask16)on, at));
        else if (size == 2)
                _mm256_store_si256(to, _mm256_maskz_loadu_epi16((__mmask16)on, at));
        else
                _mm_store_si128(to, _mm_maskz_loadu_epi8((__mmask16)on, at));
}
SF_INLINE void v_part_store(void *p, const void *from, int size, int first, int count)
{
        uint64_t on = ((1ull << count) - 1) << first;
        char *at = (char *)p - first * size;
        if (size == 8)
                _mm512_mask_storeu_epi64(at, (__mmask8)on, _mm512_load_si512(from));
        else if (size == 4)
                _mm512_mask_storeu_epi32(at, (__mmask16)on, _mm512_load_si512(from));
        else if (size == 2)
                _mm256_mask_storeu_epi16(at, (__mmask16)on, _mm256_load_si256(from));
        else
                _mm_mask_storeu_epi8(at, (__mmask16)on, _mm_load_si128(from));
}

#define V_WIDEN_INTEGERS
SF_INLINE v_u64 v_u64_from(const void *p, const int size, const bool truth)
{
        if (size == 1) {
                __m128i bytes = _mm_loadl_epi64(p);
                bytes = truth ? _mm_min_epu8(bytes, _mm_set1_epi8(1)) : bytes;
                return (v_u64)_mm512_cvtepu8_epi64(bytes);
        }
        if (size == 2)
                return (v_u64)_mm512_cvtepu16_epi64(_mm_loadu_si128(p));
        return (v_u64)_mm512_cvtepu32_epi64(_mm256_loadu_si256(p));
}

#define V_WIDEN_BYTES
SF_INLINE v_u32 v_lanes_u32(const void *p)
{
        return (v_u32)_mm512_cvtepu8_epi32(_mm_loadu_si128(p));
}
SF_INLINE v_u64 v_lanes_u64(const void *p)
{
        return (v_u64)_mm512_cvtepu8_epi64(_mm_loadl_epi64(p));
}

/* The sum of each 8 bytes. */
#define V_TOTAL_BYTES
SF_INLINE v_u64 v_total_bytes(v_u64 v)
{
        return (v_u64)_mm512_sad_epu8((__m512i)v, _mm512_setzero_si512());
}

/* Measured, not derived: tiles that fill the registers without spilling. */
#define V_SCAN_TILE 4
#define V_SCAN_TILE_LOG 2
#define V_SCAN_ROWS 8
#define V_FOLD_ROWS 8
#define V_FOLD_ROWS_LOG 3
