/*
 * device.hpp: kernels/device.cuh for the host: the same names over executor.h. It is put in front
 * of the prelude and the kernel's own text, which then compile as plain C++14.
 */
#include "executor.h"
#include "model.h"

#include <cfloat>
#include <cmath>
#include <cstring>

#define SF_HOST 1
/* Of segments_bounds.cuh. A try takes far longer than on a device. */
#define PATIENCE (1 << 15)
#define NOW_AND_THEN 64
#define SF_DEVICE static inline __attribute__((always_inline))
#define SF_DEVICE_MEMBER static inline __attribute__((always_inline))
#define SF_DEVICE_METHOD inline
#define SF_KERNEL static void
#define __grid_constant__

template <int BYTES> struct sf_raw {
        unsigned w[(BYTES + 3) / 4];
};
template <int BYTES> static inline void sf_in_turn(sf_raw<BYTES> &) {}

/* The device traps on a misaligned access; here it is told. */
static inline void sf_check_aligned(const void *p, int bytes)
{
        /* A size that is no power of two goes in pieces of the largest that divides it. */
        unsigned piece = (unsigned)bytes & -(unsigned)bytes;
        if ((uintptr_t)p % (piece < 16 ? piece : 16))
                exec_fail("a misaligned access");
}
/* Compilers tell of most accesses themselves (model.c), but not of those that are copies. */
#ifdef SF_RACES
#define SF_TELL(p, bytes, how) exec_access(p, bytes, how)
#else
#define SF_TELL(p, bytes, how) (void)0
#endif
template <int BYTES> static inline void sf_load(const char *p, sf_raw<BYTES> &r)
{
        sf_check_aligned(p, BYTES);
        SF_TELL(p, BYTES, MODEL_READ);
        if (BYTES < 4)
                r.w[0] = 0;
        memcpy(r.w, p, BYTES);
}
/* What reaches out of the tensor is not there to be read; but some of the chunk must be. */
template <int BYTES> static inline void sf_load_chunk(const char *p, const char *begin, const char *end, sf_raw<BYTES> &r)
{
        sf_check_aligned(p, BYTES);
        if (p + BYTES <= begin || p >= end)
                exec_fail("a chunk that has nothing of its tensor");
        memset(r.w, 0, sizeof r.w);
        for (int k = 0; k < BYTES; k++)
                ((char *)r.w)[k] = p + k >= begin && p + k < end ? p[k] : 0x5a;
}
static inline void sf_prefetch(const char *) {}
template <int BYTES> static inline void sf_load_steady(const char *p, sf_raw<BYTES> &r)
{
        static_assert(BYTES <= 16 && !(BYTES & (BYTES - 1)), "no instruction loads so many bytes");
        sf_load(p, r);
}
template <int BYTES> static inline void sf_store(char *p, const sf_raw<BYTES> &r)
{
        sf_check_aligned(p, BYTES);
        SF_TELL(p, BYTES, MODEL_WRITE);
        memcpy(p, r.w, BYTES);
}
template <int AT = 0, int BYTES> static inline void sf_load_below(int k, int n, const char *p, sf_raw<BYTES> &r)
{
        if (k < n)
                sf_load(p + AT, r);
        else
                memset(r.w, 0xa5, sizeof r.w);
}
template <int AT = 0, int BYTES> static inline void sf_store_below(int k, int n, char *p, const sf_raw<BYTES> &r)
{
        if (k < n)
                sf_store(p + AT, r);
}

static inline unsigned char *sf_shared() { return exec_shared(); }
static inline int sf_thread() { return exec_thread(); }
static inline long long sf_block() { return exec_block(); }
static inline void sf_take_turn() { exec_take_turn(); }
static inline void sf_sync_block() { exec_sync_block(); }
static inline void sf_sync_warp() { exec_sync_warp(); }
static inline void sf_cluster_arrive() { exec_cluster_arrive(); }
static inline void sf_cluster_wait() { exec_cluster_wait(); }
/* A desk as a barrier of the cluster, which orders more. */
static inline void sf_desk_open(unsigned long long *) {}
static inline void sf_desk_expect(unsigned long long *, int) {}
static inline void sf_desk_send(unsigned long long *, void *place, int rank, unsigned word) { memcpy(exec_cluster_place(place, rank), &word, sizeof word); }
static inline void sf_desk_wait(unsigned long long *, int)
{
        sf_cluster_arrive();
        sf_cluster_wait();
}
static inline unsigned sf_ballot(bool v) { return exec_ballot(v); }
static inline int sf_lowest(unsigned v) { return __builtin_ffs((int)v) - 1; }
static inline void sf_pause() { exec_yield(); }

template <class T> static inline T sf_shuffle(T v, int lane)
{
        uint64_t bits = 0;
        memcpy(&bits, &v, sizeof v);
        bits = exec_shuffle(bits, lane);
        memcpy(&v, &bits, sizeof v);
        return v;
}

template <class T> static inline T sf_sum_lanes(T v)
{
        T sum = 0;
        for (int lane = 0; lane < 32; lane++)
                sum += sf_shuffle(v, lane);
        return sum;
}
static inline unsigned sf_all_bits(unsigned v)
{
        for (int b = 1; b < 32; b *= 2)
                v |= sf_shuffle(v, (sf_thread() & 31) ^ b);
        return v;
}

template <int LANES> static inline int sf_sum_up(int v, int below)
{
        int lane = sf_thread() & 31, other = sf_shuffle(v, (lane - below) & 31);
        return (lane & (LANES - 1)) >= below ? v + other : v;
}
static inline unsigned sf_four_bytes(unsigned a, unsigned b, unsigned c, unsigned d)
{
        return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | d << 24;
}
static inline unsigned sf_bytes_apart(unsigned v) { return (v & 255) << 8 | (v & 0xff00) << 16; }
static inline unsigned sf_bytes_together(unsigned v) { return (v >> 8 & 255) | (v >> 16 & 0xff00); }
template <bool SIGNED> static inline unsigned sf_sum_bytes(unsigned v, unsigned more)
{
        for (int k = 0; k < 32; k += 8)
                more += SIGNED ? (unsigned)(signed char)(v >> k & 255) : v >> k & 255;
        return more;
}
template <bool LARGEST, bool SIGNED> static inline unsigned sf_extreme_halves(unsigned a, unsigned b)
{
        unsigned r = 0;
        for (int k = 0; k < 32; k += 16) {
                const unsigned flip = SIGNED ? 0x8000 : 0, x = (a >> k & 0xffff) ^ flip, y = (b >> k & 0xffff) ^ flip;
                r |= ((x < y) == LARGEST ? b : a) & 0xffffu << k;
        }
        return r;
}
static inline unsigned sf_byte(unsigned v, int k) { return v >> 8 * k & 255; }
static inline unsigned sf_funnel_left(unsigned low, unsigned high, int bits)
{
        return (unsigned)(((unsigned long long)high << 32 | low) << bits >> 32);
}
static inline unsigned sf_funnel(unsigned low, unsigned high, int bits)
{
        return (unsigned)(((unsigned long long)high << 32 | low) >> bits);
}
/* Not the compiler's, which may be a function of its library: that is not linked where races are looked for. */
static inline int sf_count_bits(unsigned v)
{
        v -= v >> 1 & 0x55555555;
        v = (v & 0x33333333) + (v >> 2 & 0x33333333);
        return (int)(((v + (v >> 4)) & 0x0f0f0f0f) * 0x01010101u >> 24);
}
static inline int sf_highest(unsigned v) { return 31 - __builtin_clz(v); }
static inline unsigned sf_high_word(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
template <class T> static inline T sf_select(int on, T a, T b) { return on ? a : b; }
static inline int sf_anew(int v) { return v; }
static inline float sf_anew(float v) { return v; }
static inline double sf_anew(double v) { return v; }
static inline float sf_magnitude(float v) { return __builtin_fabsf(v); }
static inline double sf_magnitude(double v) { return __builtin_fabs(v); }
template <class T> static inline T *sf_anew(T *p) { return p; }
static inline int sf_pair(int low, int high) { return (int)((unsigned)high << 16 | ((unsigned)low & 0xffff)); }

/* Compiled with -ffp-contract=off, as the library is. */
static inline float sf_add(float a, float b) { return a + b; }
static inline double sf_add(double a, double b) { return a + b; }
static inline float sf_multiply(float a, float b) { return a * b; }
static inline double sf_multiply(double a, double b) { return a * b; }
static inline float sf_multiply_flushed(float a, float b)
{
        const float x = fabsf(a) < FLT_MIN ? copysignf(0, a) : a, y = fabsf(b) < FLT_MIN ? copysignf(0, b) : b;
        return fabs((double)x * y) < FLT_MIN ? copysignf(0, x * y) : x * y;
}
static inline double sf_multiply_flushed(double a, double b) { return a * b; }
static inline float sf_fma(float a, float b, float c) { return fmaf(a, b, c); }
static inline double sf_fma(double a, double b, double c) { return fma(a, b, c); }
static inline float sf_subtract(float a, float b) { return a - b; }
static inline double sf_subtract(double a, double b) { return a - b; }
static inline float sf_quotient(float a, float b) { return a / b; }
static inline double sf_quotient(double a, double b) { return a / b; }
static inline float sf_reciprocal(float d) { return 1.0f / d; }
static inline float sf_rough_quotient(float a, float b) { return a / b; }
static inline float sf_root(float a) { return sqrtf(a); }
static inline double sf_root(double a) { return sqrt(a); }

template <class T, class F> static inline T sf_same_bits(F from)
{
        static_assert(sizeof(T) == sizeof(F), "a cast of bits");
        T to;
        memcpy(&to, &from, sizeof to);
        return to;
}
static inline unsigned sf_bits_of(float v) { return sf_same_bits<unsigned>(v); }
static inline float sf_float_of(unsigned v) { return sf_same_bits<float>(v); }
static inline unsigned long long sf_bits_of(double v) { return sf_same_bits<unsigned long long>(v); }
static inline double sf_double_of(unsigned long long v) { return sf_same_bits<double>(v); }

template <class T> static inline T sf_larger(T a, T b) { return a != a || a > b || (a == b && !std::signbit(a)) ? a : b; }
template <class T> static inline T sf_smaller(T a, T b) { return a != a || a < b || (a == b && std::signbit(a)) ? a : b; }

static inline float sf_from_half(unsigned h)
{
        unsigned sign = (h & 0x8000) << 16, magnitude = h & 0x7fff;
        if (magnitude >= 0x7c00)
                return sf_float_of(sign | 0x7f800000 | magnitude << 13);
        float scaled = sf_float_of(magnitude << 13) * 0x1p112f;
        return sign ? -scaled : scaled;
}
static inline unsigned sf_to_brain(float v)
{
        unsigned bits;
        memcpy(&bits, &v, 4);
        return v != v ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static inline unsigned sf_to_half(float v)
{
        unsigned bits = sf_bits_of(v), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
        if (magnitude > 0x7f800000)
                return sign | 0x7e00;
        if (magnitude >= 0x47800000)
                return sign | 0x7c00;
        /* Subnormal halves: adding 0.5 puts their last bit last, and rounds. */
        if (magnitude < 0x38800000)
                return sign | (sf_bits_of(sf_float_of(magnitude) + 0.5f) - 0x3f000000);
        return sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}
template <bool LARGEST> static inline unsigned sf_extreme_f16(unsigned a, unsigned b)
{
        const float low = sf_from_half(a & 0xffff), high = sf_from_half(a >> 16), l = sf_from_half(b & 0xffff), h = sf_from_half(b >> 16);
        return sf_to_half(LARGEST ? sf_larger(low, l) : sf_smaller(low, l)) | sf_to_half(LARGEST ? sf_larger(high, h) : sf_smaller(high, h)) << 16;
}
template <bool LARGEST> static inline unsigned sf_extreme_bf16(unsigned a, unsigned b)
{
        const float low = sf_float_of(a << 16), high = sf_float_of(a & 0xffff0000u), l = sf_float_of(b << 16), h = sf_float_of(b & 0xffff0000u);
        return sf_to_brain(LARGEST ? sf_larger(low, l) : sf_smaller(low, l)) | sf_to_brain(LARGEST ? sf_larger(high, h) : sf_smaller(high, h)) << 16;
}

static inline unsigned sf_to_halves(float low, float high)
{
        return sf_to_half(low) | sf_to_half(high) << 16;
}
static inline unsigned sf_to_brains(float low, float high)
{
        return sf_to_brain(low) | sf_to_brain(high) << 16;
}

static_assert(sizeof(uint64_t) == sizeof(unsigned long long), "a word that blocks watch");
static inline unsigned long long sf_watch(const unsigned long long *p) { return exec_watch((const uint64_t *)p); }
static inline void sf_post(unsigned long long *p, unsigned long long v) { exec_post((uint64_t *)p, v); }
static inline unsigned long long sf_ticket(unsigned long long *p) { return exec_ticket((uint64_t *)p); }

template <int BYTES> static inline void sf_shared_load(const unsigned char *p, sf_raw<BYTES> &r) { sf_load((const char *)p, r); }
template <int BYTES> static inline void sf_shared_store(unsigned char *p, const sf_raw<BYTES> &r) { sf_store((char *)p, r); }
template <int BYTES> static inline void sf_shared_store_below(int k, int n, unsigned char *p, const sf_raw<BYTES> &r)
{
        if (k < n)
                sf_shared_store(p, r);
}

template <int BYTES> static inline void sf_shared_glance(const unsigned char *p, sf_raw<BYTES> &r, bool used)
{
        sf_check_aligned(p, BYTES);
        if (BYTES < 4)
                r.w[0] = 0;
        exec_glance(r.w, p, BYTES, used);
}
template <int BYTES> static inline void sf_shared_glance(const unsigned char *p, sf_raw<BYTES> &r, int low, int high)
{
        sf_check_aligned(p, BYTES);
        if (BYTES < 4)
                r.w[0] = 0;
        for (int k = 0; k < BYTES; k++)
                exec_glance((char *)r.w + k, p + k, 1, k >= low && k < high);
}

static inline void sf_shared_mark(unsigned char *p) { exec_mark(p); }

template <int BYTES> static inline void sf_copy_async(unsigned char *shared, const char *p)
{
        static_assert(BYTES <= 16 && !(BYTES & (BYTES - 1)), "no instruction copies so many bytes");
        sf_check_aligned(p, BYTES);
        sf_check_aligned(shared, BYTES);
        exec_copy_async(shared, p, BYTES);
}
template <int BYTES> static inline void sf_copy_chunk(unsigned char *shared, const char *p, const char *begin, const char *end)
{
        sf_raw<BYTES> r;
        if (p >= begin && p + BYTES <= end) {
                sf_copy_async<BYTES>(shared, p);
                return;
        }
        sf_load_chunk(p, begin, end, r);
        sf_shared_store(shared, r);
}
static inline void sf_copy_commit() { exec_copy_commit(); }
template <int PENDING> static inline void sf_copy_wait() { exec_copy_wait(PENDING); }
