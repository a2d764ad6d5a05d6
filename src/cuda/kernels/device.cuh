/*
 * device.cuh: the device's instructions under our own names. Every kernel begins with this text. No
 * other file uses an intrinsic.
 *
 * The tests run the kernels on the host. There SF_HOST is defined, and an executor has already
 * defined these functions.
 */

typedef long long sf_i64;
typedef unsigned long long sf_u64;
typedef unsigned int sf_u32;

/* ------------------------------------------------------------------------------------------------
 * The device
 * ---------------------------------------------------------------------------------------------- */
#ifndef SF_HOST
#define SF_DEVICE static __device__ __forceinline__
#define SF_DEVICE_MEMBER static __device__ __forceinline__
#define SF_DEVICE_METHOD __device__ __forceinline__
#if defined(SF_CLUSTER) && SF_CLUSTER > 1
#define SF_TOGETHER __cluster_dims__(SF_CLUSTER, 1, 1)
#else
#define SF_TOGETHER
#endif
#define SF_KERNEL extern "C" __global__ void SF_TOGETHER __launch_bounds__(SF_THREADS, SF_RESIDENT)

extern __shared__ __align__(16) unsigned char sf_shared_bytes[];

SF_DEVICE unsigned char *sf_shared() { return sf_shared_bytes; }
SF_DEVICE int sf_thread() { return (int)threadIdx.x; }
SF_DEVICE sf_i64 sf_block() { return (sf_i64)blockIdx.x; }
/*
 * Every kernel calls this first. Its blocks may start before the previous launch in the stream has
 * ended: they take the places that its last blocks leave, and wait here until that launch is
 * complete and its writes are visible. Then the blocks of the next launch may start. No memory may
 * be accessed before this call. It saves the time that an empty device takes to fill, a microsecond
 * or two per launch.
 */
SF_DEVICE void sf_take_turn()
{
#if __CUDA_ARCH__ >= 900
        asm volatile("griddepcontrol.wait;" ::: "memory");
        asm volatile("griddepcontrol.launch_dependents;");
#endif
}
SF_DEVICE void sf_sync_block() { __syncthreads(); }
SF_DEVICE void sf_sync_warp() { __syncwarp(); }
/*
 * A cluster of blocks, from compute capability 9.0 on. Its blocks run at the same time, and may
 * write to each other's shared memory after all have arrived once. What a thread wrote before it
 * arrived is visible to all threads that have waited.
 */
SF_DEVICE void sf_cluster_arrive()
{
#if __CUDA_ARCH__ >= 900
        asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
#endif
}
SF_DEVICE void sf_cluster_wait()
{
#if __CUDA_ARCH__ >= 900
        asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}
/*
 * Words that the blocks of a cluster send to each other's shared memory. A desk is an mbarrier,
 * eight bytes of shared memory in each block, which counts the bytes that arrive there. In every
 * round one thread of the block says how many bytes to expect, and all threads wait until they have
 * arrived. Rounds are counted from 0. A block may send for the next round of a desk only after all
 * blocks have finished waiting for the previous one. The cluster's own barrier would do too, but it
 * also waits until all earlier stores to global memory are complete.
 */
SF_DEVICE void sf_desk_open(sf_u64 *desk)
{
#if __CUDA_ARCH__ >= 900
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"((sf_u32)__cvta_generic_to_shared(desk)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
SF_DEVICE void sf_desk_expect(sf_u64 *desk, int bytes)
{
#if __CUDA_ARCH__ >= 900
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"((sf_u32)__cvta_generic_to_shared(desk)), "r"(bytes) : "memory");
#endif
}
/* Sends a word to the same place in the shared memory of block `rank` of the cluster. */
SF_DEVICE void sf_desk_send(sf_u64 *desk, void *place, int rank, sf_u32 word)
{
#if __CUDA_ARCH__ >= 900
        asm volatile("{ .reg .u32 there, counts; mapa.shared::cluster.u32 there, %0, %2; mapa.shared::cluster.u32 counts, %1, %2;\n"
                     "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [there], %3, [counts]; }" ::"r"((sf_u32)__cvta_generic_to_shared(place)),
                     "r"((sf_u32)__cvta_generic_to_shared(desk)), "r"(rank), "r"(word)
                     : "memory");
#endif
}
SF_DEVICE void sf_desk_wait(sf_u64 *desk, int round)
{
#if __CUDA_ARCH__ >= 900
        sf_u32 there = 0;
        while (!there)
                asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                             : "=r"(there)
                             : "r"((sf_u32)__cvta_generic_to_shared(desk)), "r"(round & 1)
                             : "memory");
#endif
}
SF_DEVICE sf_u32 sf_ballot(bool v) { return __ballot_sync(0xffffffffu, v); }
/* The bits that are set in any lane. */
SF_DEVICE sf_u32 sf_all_bits(sf_u32 v)
{
#if __CUDA_ARCH__ >= 800
        return __reduce_or_sync(0xffffffffu, v);
#else
        for (int b = 1; b < 32; b *= 2)
                v |= __shfl_xor_sync(0xffffffffu, v, b);
        return v;
#endif
}
/* The sum over all lanes. */
SF_DEVICE int sf_sum_lanes(int v)
{
#if __CUDA_ARCH__ >= 800
        return __reduce_add_sync(0xffffffffu, v);
#else
        for (int b = 1; b < 32; b *= 2)
                v += __shfl_xor_sync(0xffffffffu, v, b);
        return v;
#endif
}
SF_DEVICE sf_i64 sf_sum_lanes(sf_i64 v)
{
        const sf_i64 few = (sf_i64)1 << 25; /* 32 such fit in 32 bits */
        if (!__any_sync(0xffffffffu, v < -few || v >= few))
                return sf_sum_lanes((int)v);
        for (int b = 1; b < 32; b *= 2)
                v += __shfl_xor_sync(0xffffffffu, v, b);
        return v;
}
SF_DEVICE int sf_lowest(sf_u32 v) { return __ffs((int)v) - 1; }

SF_DEVICE float sf_shuffle(float v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
SF_DEVICE double sf_shuffle(double v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
SF_DEVICE int sf_shuffle(int v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
SF_DEVICE sf_u32 sf_shuffle(sf_u32 v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
SF_DEVICE sf_i64 sf_shuffle(sf_i64 v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
SF_DEVICE sf_u64 sf_shuffle(sf_u64 v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }

/* v plus the v of the lane that is `below` lanes lower, if that is one of the same LANES lanes. */
template <int LANES> SF_DEVICE int sf_sum_up(int v, int below)
{
        asm volatile("{ .reg .pred p; .reg .b32 w; shfl.sync.up.b32 w|p, %0, %1, %2, 0xffffffff; @p add.s32 %0, %0, w; }"
                     : "+r"(v)
                     : "r"(below), "n"((32 - LANES) << 8));
        return v;
}

/* v, but the compiler does not know that it is the same. So what depends on it is computed again
 * and not kept in registers. */
SF_DEVICE int sf_anew(int v)
{
        asm volatile("" : "+r"(v));
        return v;
}

template <class T> SF_DEVICE T *sf_anew(T *p)
{
        asm volatile("" : "+l"(p));
        return p;
}

/* The same for a real. In addition, the compiler does not begin to compute with it before what
 * comes earlier has been stored. */
SF_DEVICE float sf_anew(float v)
{
        asm volatile("" : "+f"(v)::"memory");
        return v;
}
SF_DEVICE double sf_anew(double v)
{
        asm volatile("" : "+d"(v)::"memory");
        return v;
}

SF_DEVICE float sf_magnitude(float v) { return fabsf(v); }
SF_DEVICE double sf_magnitude(double v) { return fabs(v); }

/* Two numbers of 16 bits in one register. The compiler would undo it if it were written in C. */
SF_DEVICE int sf_pair(int low, int high)
{
        int pair;
        asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(pair) : "r"(low), "r"(high));
        return pair;
}

/* The low bytes of four words as one word; byte k of a word. */
SF_DEVICE sf_u32 sf_four_bytes(sf_u32 a, sf_u32 b, sf_u32 c, sf_u32 d) { return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410); }
SF_DEVICE sf_u32 sf_byte(sf_u32 v, int k) { return __byte_perm(v, 0, 0x4440 | k); }

/* Two bytes to the upper ends of the halves of a word, and back. */
SF_DEVICE sf_u32 sf_bytes_apart(sf_u32 v) { return __byte_perm(v, 0, 0x1404); }
SF_DEVICE sf_u32 sf_bytes_together(sf_u32 v) { return __byte_perm(v, 0, 0x4431); }
/* The sum of four bytes, with a sign if SIGNED, and `more`. */
template <bool SIGNED> SF_DEVICE sf_u32 sf_sum_bytes(sf_u32 v, sf_u32 more)
{
        return SIGNED ? (sf_u32)__dp4a((int)v, 0x01010101, (int)more) : __dp4a(v, 0x01010101u, more);
}
/* The larger, or the smaller, of two numbers of 16 bits in either half. */
template <bool LARGEST, bool SIGNED> SF_DEVICE sf_u32 sf_extreme_halves(sf_u32 a, sf_u32 b)
{
        if (SIGNED)
                return LARGEST ? __vmaxs2(a, b) : __vmins2(a, b);
        return LARGEST ? __vmaxu2(a, b) : __vminu2(a, b);
}

/* 32 of the 64 bits of high and low, from bit `bits` on, which is less than 32. */
SF_DEVICE sf_u32 sf_funnel(sf_u32 low, sf_u32 high, int bits) { return __funnelshift_r(low, high, (sf_u32)bits); }

/* The high 32 bits of high and low, moved up by `bits` bits, which is less than 32. */
SF_DEVICE sf_u32 sf_funnel_left(sf_u32 low, sf_u32 high, int bits) { return __funnelshift_l(low, high, (sf_u32)bits); }

SF_DEVICE int sf_count_bits(sf_u32 v) { return __popc(v); }
SF_DEVICE int sf_highest(sf_u32 v) { return 31 - __clz((int)v); }
SF_DEVICE sf_u32 sf_high_word(sf_u32 a, sf_u32 b) { return __umulhi(a, b); }

/* Each is one rounded operation: the compiler may not fuse them into multiply-adds. */
SF_DEVICE float sf_add(float a, float b) { return __fadd_rn(a, b); }
SF_DEVICE double sf_add(double a, double b) { return __dadd_rn(a, b); }
SF_DEVICE float sf_multiply(float a, float b) { return __fmul_rn(a, b); }
SF_DEVICE double sf_multiply(double a, double b) { return __dmul_rn(a, b); }
/* The same, but what is not a normal number counts as zero, before and after. */
SF_DEVICE float sf_multiply_flushed(float a, float b)
{
        float v;
        asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
        return v;
}
SF_DEVICE double sf_multiply_flushed(double a, double b) { return __dmul_rn(a, b); }
SF_DEVICE float sf_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
SF_DEVICE double sf_fma(double a, double b, double c) { return __fma_rn(a, b, c); }
SF_DEVICE float sf_subtract(float a, float b) { return __fsub_rn(a, b); }
SF_DEVICE double sf_subtract(double a, double b) { return __dsub_rn(a, b); }
SF_DEVICE float sf_quotient(float a, float b) { return __fdiv_rn(a, b); }
SF_DEVICE double sf_quotient(double a, double b) { return __ddiv_rn(a, b); }
/* 1 / d for d in [1, 2]: what the compiler makes of the division, without its test for divisors that
 * are very large or small. That test is a branch, and a thread has one quotient at a time then. */
SF_DEVICE float sf_reciprocal(float d)
{
        float guess;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(guess) : "f"(d));
        return sf_fma(guess, sf_fma(-d, guess, 1.0f), guess);
}
/* For a first guess: the last bits are not specified. */
SF_DEVICE float sf_rough_quotient(float a, float b) { return __fdividef(a, b); }
SF_DEVICE float sf_root(float a) { return __fsqrt_rn(a); }
SF_DEVICE double sf_root(double a) { return __dsqrt_rn(a); }

SF_DEVICE sf_u32 sf_bits_of(float v) { return __float_as_uint(v); }
SF_DEVICE float sf_float_of(sf_u32 v) { return __uint_as_float(v); }
SF_DEVICE sf_u64 sf_bits_of(double v) { return (sf_u64)__double_as_longlong(v); }
SF_DEVICE double sf_double_of(sf_u64 v) { return __longlong_as_double((sf_i64)v); }

/* If one is NaN, the result is NaN; +0.0 is larger than -0.0. From compute capability 8.0 on there
 * is an instruction for this, but only for floats. */
/* A comparison of f64 takes two issue slots: so there are two, and signs tell -0 from +0. */
SF_DEVICE int sf_sign_word(double v) { return (int)(sf_bits_of(v) >> 32); }
SF_DEVICE double sf_larger(double a, double b) { return (!(a <= b) | ((~sf_sign_word(a) & sf_sign_word(b)) < 0)) & (b == b) ? a : b; }
SF_DEVICE double sf_smaller(double a, double b) { return (!(a >= b) | ((sf_sign_word(a) & ~sf_sign_word(b)) < 0)) & (b == b) ? a : b; }
SF_DEVICE float sf_larger(float a, float b)
{
#if __CUDA_ARCH__ >= 800
        float v;
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
        return v;
#else
        return (a != a) | (a > b) | ((a == b) & !(sf_bits_of(a) >> 31)) ? a : b;
#endif
}
SF_DEVICE float sf_smaller(float a, float b)
{
#if __CUDA_ARCH__ >= 800
        float v;
        asm("min.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
        return v;
#else
        return (a != a) | (a < b) | ((a == b) & (sf_bits_of(a) >> 31)) ? a : b;
#endif
}

SF_DEVICE float sf_from_half(sf_u32 bits)
{
        float v;
        asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"((unsigned short)bits));
        return v;
}
/* Two numbers as two halves of a word, or as two bf16, rounded to nearest even. That is one
 * instruction of the usual kind; converting a single number (cvt.rn.f16.f32, cvt.rn.bf16.f32) is one
 * of which a multiprocessor of compute capability 9.0 does an eighth as many in the same time. */
SF_DEVICE sf_u32 sf_to_halves(float low, float high)
{
        sf_u32 bits;
#if __CUDA_ARCH__ >= 800
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
#else
        asm("{ .reg .b16 a, b; cvt.rn.f16.f32 a, %1; cvt.rn.f16.f32 b, %2; mov.b32 %0, {a, b}; }"
            : "=r"(bits)
            : "f"(low), "f"(high));
#endif
        return bits;
}
SF_DEVICE sf_u32 sf_to_half(float v) { return sf_to_halves(v, 0.0f); }
/* Rounding must not turn a NaN into an infinity or a zero. */
#if __CUDA_ARCH__ >= 800
SF_DEVICE sf_u32 sf_to_brains(float low, float high)
{
        sf_u32 bits;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
        return bits;
}
SF_DEVICE sf_u32 sf_to_brain(float v) { return sf_to_brains(v, 0.0f); }
#else
SF_DEVICE sf_u32 sf_to_brain(float v)
{
        sf_u32 bits = __float_as_uint(v);
        return v != v ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
SF_DEVICE sf_u32 sf_to_brains(float low, float high)
{
        return sf_to_brain(low) | sf_to_brain(high) << 16;
}
#endif

/* The larger, or the smaller, of the two reals in each half, as sf_larger and sf_smaller. */
template <bool LARGEST> SF_DEVICE sf_u32 sf_extreme_f16(sf_u32 a, sf_u32 b)
{
#if __CUDA_ARCH__ >= 800
        sf_u32 v;
        if (LARGEST)
                asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
        else
                asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
        return v;
#else
        const float low = sf_from_half(a & 0xffff), high = sf_from_half(a >> 16), l = sf_from_half(b & 0xffff), h = sf_from_half(b >> 16);
        return sf_to_half(LARGEST ? sf_larger(low, l) : sf_smaller(low, l)) | sf_to_half(LARGEST ? sf_larger(high, h) : sf_smaller(high, h)) << 16;
#endif
}
template <bool LARGEST> SF_DEVICE sf_u32 sf_extreme_bf16(sf_u32 a, sf_u32 b)
{
#if __CUDA_ARCH__ >= 800
        sf_u32 v;
        if (LARGEST)
                asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
        else
                asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
        return v;
#else
        const float low = sf_float_of(a << 16), high = sf_float_of(a & 0xffff0000u), l = sf_float_of(b << 16), h = sf_float_of(b & 0xffff0000u);
        return sf_to_brain(LARGEST ? sf_larger(low, l) : sf_smaller(low, l)) | sf_to_brain(LARGEST ? sf_larger(high, h) : sf_smaller(high, h)) << 16;
#endif
}

/* Loads and stores have no cache hint: the streaming hint (.cs) cost 0.03 to 0.06 of a copy's speed
 * on an H200. */
template <int BYTES> struct sf_raw {
        sf_u32 w[(BYTES + 3) / 4];
};
SF_DEVICE void sf_load(const char *p, sf_raw<16> &r)
{
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r.w[0]), "=r"(r.w[1]), "=r"(r.w[2]), "=r"(r.w[3]) : "l"(p));
}
SF_DEVICE void sf_load(const char *p, sf_raw<8> &r)
{
        asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(r.w[0]), "=r"(r.w[1]) : "l"(p));
}
SF_DEVICE void sf_load(const char *p, sf_raw<4> &r)
{
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(r.w[0]) : "l"(p));
}
SF_DEVICE void sf_load(const char *p, sf_raw<2> &r)
{
        asm volatile("ld.global.u16 %0, [%1];" : "=r"(r.w[0]) : "l"(p));
}
SF_DEVICE void sf_load(const char *p, sf_raw<1> &r)
{
        asm volatile("ld.global.u8 %0, [%1];" : "=r"(r.w[0]) : "l"(p));
}
/* The same for a chunk that may extend beyond its tensor, which is from begin to end. */
template <int BYTES> SF_DEVICE void sf_load_chunk(const char *p, const char *, const char *, sf_raw<BYTES> &r) { sf_load(p, r); }
SF_DEVICE void sf_store(char *p, const sf_raw<16> &r)
{
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(r.w[0]), "r"(r.w[1]), "r"(r.w[2]), "r"(r.w[3]));
}
SF_DEVICE void sf_store(char *p, const sf_raw<8> &r)
{
        asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(r.w[0]), "r"(r.w[1]));
}
SF_DEVICE void sf_store(char *p, const sf_raw<4> &r)
{
        asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(r.w[0]));
}
SF_DEVICE void sf_store(char *p, const sf_raw<2> &r)
{
        asm volatile("st.global.u16 [%0], %1;" ::"l"(p), "r"(r.w[0]));
}
SF_DEVICE void sf_store(char *p, const sf_raw<1> &r)
{
        asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"(r.w[0]));
}

/* a if `on`, otherwise b. Written in C, several choices by the same bit of the lane's number become a
 * branch, with shuffles on both sides of it, which then wait for each other. */
template <class T> SF_DEVICE T sf_select(int on, T a, T b) { return on ? a : b; }
SF_DEVICE float sf_select(int on, float a, float b)
{
        float v;
        asm("{ .reg .pred p; setp.ne.s32 p, %3, 0; selp.f32 %0, %1, %2, p; }"
            : "=f"(v)
            : "f"(a), "f"(b), "r"(on));
        return v;
}

/* The compiler computes r before it begins with what follows, and what follows only then: otherwise
 * it would begin with several vectors at once, for which there are no registers. */
template <int BYTES> SF_DEVICE void sf_in_turn(sf_raw<BYTES> &r)
{
#pragma unroll
        for (int w = 0; w < (BYTES + 3) / 4; w++)
                asm volatile("" : "+r"(r.w[w])::"memory");
}

/*
 * The same, but only if k is less than n; otherwise r holds garbage. With an `if` before a plain
 * load there would be a branch, or the address would be computed once more for each load. And where
 * branches join, the thread would wait for the loads.
 */
template <int AT = 0> SF_DEVICE void sf_load_below(int k, int n, const char *p, sf_raw<16> &r)
{
        asm volatile("{ .reg .pred c; setp.lt.s32 c, %5, %6; @c ld.global.v4.u32 {%0, %1, %2, %3}, [%4+%7]; }"
                     : "=r"(r.w[0]), "=r"(r.w[1]), "=r"(r.w[2]), "=r"(r.w[3]) : "l"(p), "r"(k), "r"(n), "n"(AT));
}
template <int AT = 0> SF_DEVICE void sf_load_below(int k, int n, const char *p, sf_raw<8> &r)
{
        asm volatile("{ .reg .pred c; setp.lt.s32 c, %3, %4; @c ld.global.v2.u32 {%0, %1}, [%2+%5]; }" : "=r"(r.w[0]), "=r"(r.w[1]) : "l"(p), "r"(k), "r"(n), "n"(AT));
}
template <int AT = 0> SF_DEVICE void sf_load_below(int k, int n, const char *p, sf_raw<4> &r)
{
        asm volatile("{ .reg .pred c; setp.lt.s32 c, %2, %3; @c ld.global.u32 %0, [%1+%4]; }" : "=r"(r.w[0]) : "l"(p), "r"(k), "r"(n), "n"(AT));
}
template <int AT = 0> SF_DEVICE void sf_load_below(int k, int n, const char *p, sf_raw<2> &r)
{
        asm volatile("{ .reg .pred c; setp.lt.s32 c, %2, %3; @c ld.global.u16 %0, [%1+%4]; }" : "=r"(r.w[0]) : "l"(p), "r"(k), "r"(n), "n"(AT));
}
template <int AT = 0> SF_DEVICE void sf_load_below(int k, int n, const char *p, sf_raw<1> &r)
{
        asm volatile("{ .reg .pred c; setp.lt.s32 c, %2, %3; @c ld.global.u8 %0, [%1+%4]; }" : "=r"(r.w[0]) : "l"(p), "r"(k), "r"(n), "n"(AT));
}
template <int AT = 0> SF_DEVICE void sf_store_below(int k, int n, char *p, const sf_raw<16> &r)
{
        asm volatile("{ .reg .pred c; setp.lt.s32 c, %5, %6; @c st.global.v4.u32 [%0+%7], {%1, %2, %3, %4}; }"
                     ::"l"(p), "r"(r.w[0]), "r"(r.w[1]), "r"(r.w[2]), "r"(r.w[3]), "r"(k), "r"(n), "n"(AT));
}
template <int AT = 0> SF_DEVICE void sf_store_below(int k, int n, char *p, const sf_raw<8> &r)
{
        asm volatile("{ .reg .pred c; setp.lt.s32 c, %3, %4; @c st.global.v2.u32 [%0+%5], {%1, %2}; }" ::"l"(p), "r"(r.w[0]), "r"(r.w[1]), "r"(k), "r"(n), "n"(AT));
}
template <int AT = 0> SF_DEVICE void sf_store_below(int k, int n, char *p, const sf_raw<4> &r)
{
        asm volatile("{ .reg .pred c; setp.lt.s32 c, %2, %3; @c st.global.u32 [%0+%4], %1; }" ::"l"(p), "r"(r.w[0]), "r"(k), "r"(n), "n"(AT));
}
template <int AT = 0> SF_DEVICE void sf_store_below(int k, int n, char *p, const sf_raw<2> &r)
{
        asm volatile("{ .reg .pred c; setp.lt.s32 c, %2, %3; @c st.global.u16 [%0+%4], %1; }" ::"l"(p), "r"(r.w[0]), "r"(k), "r"(n), "n"(AT));
}
template <int AT = 0> SF_DEVICE void sf_store_below(int k, int n, char *p, const sf_raw<1> &r)
{
        asm volatile("{ .reg .pred c; setp.lt.s32 c, %2, %3; @c st.global.u8 [%0+%4], %1; }" ::"l"(p), "r"(r.w[0]), "r"(k), "r"(n), "n"(AT));
}

/* For memory that no launch of this library writes meanwhile: two loads of one address may become
 * one. */
SF_DEVICE void sf_load_steady(const char *p, sf_raw<16> &r)
{
        asm("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r.w[0]), "=r"(r.w[1]), "=r"(r.w[2]), "=r"(r.w[3]) : "l"(p));
}
SF_DEVICE void sf_load_steady(const char *p, sf_raw<8> &r) { asm("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(r.w[0]), "=r"(r.w[1]) : "l"(p)); }
SF_DEVICE void sf_load_steady(const char *p, sf_raw<4> &r) { asm("ld.global.u32 %0, [%1];" : "=r"(r.w[0]) : "l"(p)); }
SF_DEVICE void sf_load_steady(const char *p, sf_raw<2> &r) { asm("ld.global.u16 %0, [%1];" : "=r"(r.w[0]) : "l"(p)); }
SF_DEVICE void sf_load_steady(const char *p, sf_raw<1> &r) { asm("ld.global.u8 %0, [%1];" : "=r"(r.w[0]) : "l"(p)); }

/* Into the second-level cache, which all multiprocessors share. */
SF_DEVICE void sf_prefetch(const char *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

/* sf_watch reads a word that another block may write meanwhile. Mark and value are in the same
 * word, so no fence is needed. */
SF_DEVICE sf_u64 sf_watch(const sf_u64 *p)
{
        sf_u64 v;
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
        return v;
}
SF_DEVICE void sf_post(sf_u64 *p, sf_u64 v)
{
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
SF_DEVICE sf_u64 sf_ticket(sf_u64 *p) { return atomicAdd(p, 1ull); }
SF_DEVICE void sf_pause() { __nanosleep(100); }

/* A whole vector of shared memory at once: word by word, there would be bank conflicts. */
SF_DEVICE void sf_shared_load(const unsigned char *p, sf_raw<16> &r)
{
        uint4 q = *(const uint4 *)p;
        r.w[0] = q.x, r.w[1] = q.y, r.w[2] = q.z, r.w[3] = q.w;
}
SF_DEVICE void sf_shared_load(const unsigned char *p, sf_raw<8> &r)
{
        uint2 q = *(const uint2 *)p;
        r.w[0] = q.x, r.w[1] = q.y;
}
SF_DEVICE void sf_shared_load(const unsigned char *p, sf_raw<4> &r) { r.w[0] = *(const sf_u32 *)p; }
SF_DEVICE void sf_shared_load(const unsigned char *p, sf_raw<2> &r) { r.w[0] = *(const unsigned short *)p; }
SF_DEVICE void sf_shared_load(const unsigned char *p, sf_raw<1> &r) { r.w[0] = *p; }
SF_DEVICE void sf_shared_store(unsigned char *p, const sf_raw<16> &r) { *(uint4 *)p = make_uint4(r.w[0], r.w[1], r.w[2], r.w[3]); }
SF_DEVICE void sf_shared_store(unsigned char *p, const sf_raw<8> &r) { *(uint2 *)p = make_uint2(r.w[0], r.w[1]); }
SF_DEVICE void sf_shared_store(unsigned char *p, const sf_raw<4> &r) { *(sf_u32 *)p = r.w[0]; }
SF_DEVICE void sf_shared_store(unsigned char *p, const sf_raw<2> &r) { *(unsigned short *)p = (unsigned short)r.w[0]; }
SF_DEVICE void sf_shared_store(unsigned char *p, const sf_raw<1> &r) { *p = (unsigned char)r.w[0]; }
/* Sets a byte to 1. Several threads may do so to one byte at once: then it is 1 as well. */
SF_DEVICE void sf_shared_mark(unsigned char *p)
{
        asm volatile("st.relaxed.cta.shared.u8 [%0], %1;" ::"r"((sf_u32)__cvta_generic_to_shared(p)),
                     "r"(1)
                     : "memory");
}
/* For sizes that no vector has, which must be multiples of 4 bytes: in the largest pieces that
 * divide the size. */
template <int BYTES> struct sf_piece {
        enum { SIZE = BYTES % 16 == 0 ? 16 : BYTES % 8 == 0 ? 8 : 4, COUNT = BYTES / SIZE, WORDS = SIZE / 4 };
};
template <int BYTES> SF_DEVICE void sf_shared_load(const unsigned char *p, sf_raw<BYTES> &r)
{
#pragma unroll
        for (int k = 0; k < sf_piece<BYTES>::COUNT; k++) {
                sf_raw<sf_piece<BYTES>::SIZE> piece;
                sf_shared_load(p + k * sf_piece<BYTES>::SIZE, piece);
#pragma unroll
                for (int w = 0; w < sf_piece<BYTES>::WORDS; w++)
                        r.w[k * sf_piece<BYTES>::WORDS + w] = piece.w[w];
        }
}
template <int BYTES> SF_DEVICE void sf_shared_store(unsigned char *p, const sf_raw<BYTES> &r)
{
#pragma unroll
        for (int k = 0; k < sf_piece<BYTES>::COUNT; k++) {
                sf_raw<sf_piece<BYTES>::SIZE> piece;
#pragma unroll
                for (int w = 0; w < sf_piece<BYTES>::WORDS; w++)
                        piece.w[w] = r.w[k * sf_piece<BYTES>::WORDS + w];
                sf_shared_store(p + k * sf_piece<BYTES>::SIZE, piece);
        }
}

/* Only if k is less than n, without a branch. */
template <int BYTES> SF_DEVICE void sf_shared_store_below(int k, int n, unsigned char *p,
                                                          const sf_raw<BYTES> &r)
{
        if (k < n)
                sf_shared_store(p, r);
}
SF_DEVICE void sf_shared_store_below(int k, int n, unsigned char *p, const sf_raw<4> &r)
{
        const sf_u32 at = (sf_u32)__cvta_generic_to_shared(p);
        asm volatile("{ .reg .pred c; setp.lt.s32 c, %2, %3; @c st.shared.u32 [%0], %1; }" ::"r"(at),
                     "r"(r.w[0]), "r"(k), "r"(n)
                     : "memory");
}

/* Reads without checking first whether this thread needs it, since a check would be a branch. The
 * last argument says whether the value is used. If it is not, another thread may write it
 * meanwhile. */
template <int BYTES> SF_DEVICE void sf_shared_glance(const unsigned char *p, sf_raw<BYTES> &r, bool) { sf_shared_load(p, r); }
/* The same, where the bytes from `low` to before `high` are used. */
template <int BYTES> SF_DEVICE void sf_shared_glance(const unsigned char *p, sf_raw<BYTES> &r, int, int) { sf_shared_load(p, r); }

/* Copies to shared memory that proceed while the thread does something else. After sf_copy_wait the
 * thread sees its own copies; other threads see them only after a barrier that follows. */
template <int BYTES> SF_DEVICE void sf_copy_async(unsigned char *shared, const char *p)
{
#if __CUDA_ARCH__ >= 800
        if (BYTES == 16) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((sf_u32)__cvta_generic_to_shared(shared)), "l"(p) : "memory");
                return;
        }
        if (BYTES >= 4) {
                asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"((sf_u32)__cvta_generic_to_shared(shared)), "l"(p), "n"(BYTES < 4 ? 4 : BYTES) : "memory");
                return;
        }
#endif
        sf_raw<BYTES> r;
        sf_load(p, r);
        sf_shared_store(shared, r);
}
/* The same for a chunk that may extend beyond its tensor. */
template <int BYTES> SF_DEVICE void sf_copy_chunk(unsigned char *shared, const char *p, const char *, const char *) { sf_copy_async<BYTES>(shared, p); }
SF_DEVICE void sf_copy_commit()
{
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Waits until all but the latest PENDING committed groups of this thread have arrived. */
template <int PENDING> SF_DEVICE void sf_copy_wait()
{
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}
#endif /* SF_HOST */
