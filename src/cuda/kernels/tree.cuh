/*
 * tree.cuh: what every kernel file begins with: the accumulator, the accesses, and the order (docs/order.md) inside a
 * thread, a warp and a block.
 *
 * A prelude written by emit.c comes before this text and decides, as macros: SF_OP, SF_IN, SF_ACC, SF_OUT (numbers of
 * the SF_DT_ list), SF_MASK, SF_EXCLUSIVE, SF_INITIAL, SF_X_UNIT, SF_Y_UNIT, SF_M_UNIT (1: neighbours stand next to
 * each other; -1: the same, backwards; 0: any stride), SF_RAGGED (the length is no multiple of the width), SF_THREADS,
 * SF_ITEMS, SF_WIDTH, SF_NBATCH, SF_NSEQ, SF_DIMS, SF_PARAMS_SIZE and what the kernel file names at its head.
 *
 * The tests run these same files on the host: there SF_HOST is defined and an executor has already given the functions
 * of the first section. Nothing outside that section is a device intrinsic.
 */

typedef long long sf_i64;
typedef unsigned long long sf_u64;
typedef unsigned int sf_u32;

/* ------------------------------------------------------------------------------------------------------------
 * The device
 * ---------------------------------------------------------------------------------------------------------- */
#ifndef SF_HOST
#define SF_DEVICE static __device__ __forceinline__
#define SF_DEVICE_MEMBER static __device__ __forceinline__
#define SF_KERNEL extern "C" __global__ void __launch_bounds__(SF_THREADS, SF_RESIDENT)

extern __shared__ __align__(16) unsigned char sf_shared_bytes[];

SF_DEVICE unsigned char *sf_shared() { return sf_shared_bytes; }
SF_DEVICE int sf_thread() { return (int)threadIdx.x; }
SF_DEVICE sf_i64 sf_block() { return (sf_i64)blockIdx.x; }
SF_DEVICE void sf_sync_block() { __syncthreads(); }
SF_DEVICE sf_u32 sf_ballot(bool v) { return __ballot_sync(0xffffffffu, v); }
SF_DEVICE int sf_lowest(sf_u32 v) { return __ffs((int)v) - 1; }

SF_DEVICE float sf_shuffle(float v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
SF_DEVICE double sf_shuffle(double v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
SF_DEVICE int sf_shuffle(int v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
SF_DEVICE sf_u32 sf_shuffle(sf_u32 v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
SF_DEVICE sf_i64 sf_shuffle(sf_i64 v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
SF_DEVICE sf_u64 sf_shuffle(sf_u64 v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }

/* One rounded operation each: the compiler may not make a fused multiply-add of these. */
SF_DEVICE float sf_add(float a, float b) { return __fadd_rn(a, b); }
SF_DEVICE double sf_add(double a, double b) { return __dadd_rn(a, b); }
SF_DEVICE float sf_multiply(float a, float b) { return __fmul_rn(a, b); }
SF_DEVICE double sf_multiply(double a, double b) { return __dmul_rn(a, b); }

SF_DEVICE sf_u32 sf_bits_of(float v) { return __float_as_uint(v); }
SF_DEVICE float sf_float_of(sf_u32 v) { return __uint_as_float(v); }
SF_DEVICE sf_u64 sf_bits_of(double v) { return (sf_u64)__double_as_longlong(v); }
SF_DEVICE double sf_double_of(sf_u64 v) { return __longlong_as_double((sf_i64)v); }

SF_DEVICE float sf_from_half(sf_u32 bits)
{
        float v;
        asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"((unsigned short)bits));
        return v;
}
SF_DEVICE sf_u32 sf_to_half(float v)
{
        unsigned short bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
        return bits;
}
/* To bf16, rounded to nearest even. A NaN must not carry over into infinity or zero. */
SF_DEVICE sf_u32 sf_to_brain(float v)
{
#if __CUDA_ARCH__ >= 800
        unsigned short bits;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
        return bits;
#else
        sf_u32 bits = __float_as_uint(v);
        return v != v ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#endif
}

/* Plain accesses: the streaming hint (.cs) cost 0.03 to 0.06 of a copy's speed on an H200. */
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

/* A word another block may write meanwhile. Flag and value travel in one word, so no fence is needed. */
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

/* A whole vector of shared memory at once: word by word, threads would meet in the same banks. */
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

/* Copies that go on while the thread does something else, into shared memory only this thread will read. */
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
SF_DEVICE void sf_copy_commit()
{
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Until all but the latest PENDING committed groups of this thread have arrived. */
template <int PENDING> SF_DEVICE void sf_copy_wait()
{
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}
#endif /* SF_HOST */

/* ------------------------------------------------------------------------------------------------------------
 * What a launch is given. emit.h has the same struct; the size is checked here, the fields by the tests.
 * ---------------------------------------------------------------------------------------------------------- */
struct sf_dim {
        sf_i64 len, x, y, m;
};

struct sf_params {
        sf_u64 scratch;
        const char *x;
        char *y;
        const char *m;
        sf_i64 n;          /* length of a sequence */
        sf_i64 units;      /* rows, strips, chunks: what the kernel file deals out */
        sf_i64 sx, sy, sm; /* strides along the sequence, bytes; of a sequence of several dimensions unused */
        sf_u64 identity, neutral, initial; /* bits of the accumulator */
        sf_i64 inner;      /* columns */
        sf_i64 ix, iy, im; /* strides from column to column */
        sf_i64 number[4];  /* meanings belong to the kernel file */
        sf_dim dims[SF_DIMS]; /* batch dimensions, outermost first; then the sequence's, where it has several */
};

static_assert(sizeof(sf_params) == SF_PARAMS_SIZE, "the host's idea of the parameters is another");

/* ------------------------------------------------------------------------------------------------------------
 * The accumulator. Integers narrower than 32 bits are carried in 32: they wrap when they are stored.
 * ---------------------------------------------------------------------------------------------------------- */
#define SF_SIGNED(dt) ((dt) == SF_DT_I8 || (dt) == SF_DT_I16 || (dt) == SF_DT_I32 || (dt) == SF_DT_I64)
#define SF_SIZE(dt)                                                                                                      \
        ((dt) == SF_DT_F64 || (dt) == SF_DT_I64 || (dt) == SF_DT_U64                          ? 8                       \
         : (dt) == SF_DT_F32 || (dt) == SF_DT_I32 || (dt) == SF_DT_U32                        ? 4                       \
         : (dt) == SF_DT_F16 || (dt) == SF_DT_BF16 || (dt) == SF_DT_I16 || (dt) == SF_DT_U16 ? 2                       \
                                                                                              : 1)
#define SF_IN_SIZE SF_SIZE(SF_IN)
#define SF_OUT_SIZE SF_SIZE(SF_OUT)

#if SF_ACC == SF_DT_F32
typedef float sf_acc;
#define SF_REAL 1
#elif SF_ACC == SF_DT_F64
typedef double sf_acc;
#define SF_REAL 1
#elif SF_ACC == SF_DT_I64
typedef sf_i64 sf_acc;
#elif SF_ACC == SF_DT_U64
typedef sf_u64 sf_acc;
#elif SF_ACC == SF_DT_I8 || SF_ACC == SF_DT_I16 || SF_ACC == SF_DT_I32
typedef int sf_acc;
#else
typedef sf_u32 sf_acc;
#endif

SF_DEVICE sf_acc sf_acc_of(sf_u64 bits)
{
#if SF_ACC == SF_DT_F32
        return sf_float_of((sf_u32)bits);
#elif SF_ACC == SF_DT_F64
        return sf_double_of(bits);
#else
        return (sf_acc)bits;
#endif
}

SF_DEVICE sf_u64 sf_bits_of_acc(sf_acc v)
{
#if SF_REAL
        return sf_bits_of(v);
#elif SF_ACC == SF_DT_I64 || SF_ACC == SF_DT_U64
        return (sf_u64)v;
#else
        return (sf_u64)(sf_u32)v;
#endif
}

/* a combined with b, a to the left. */
SF_DEVICE sf_acc sf_combine(sf_acc a, sf_acc b)
{
#if SF_REAL && SF_OP == SF_OP_SUM
        return sf_add(a, b);
#elif SF_REAL && SF_OP == SF_OP_PROD
        return sf_multiply(a, b);
#elif SF_REAL
        /* NaN wins; of two zeros the one the operation prefers. */
#if SF_OP == SF_OP_MAX
        bool first = a > b || (a == b && !(sf_bits_of(a) >> (sizeof a * 8 - 1)));
#else
        bool first = a < b || (a == b && (sf_bits_of(a) >> (sizeof a * 8 - 1)));
#endif
        return a != a || first ? a : b;
#elif SF_OP == SF_OP_SUM
        return (sf_acc)((sf_u64)a + (sf_u64)b);
#elif SF_OP == SF_OP_PROD
        return (sf_acc)((sf_u64)a * (sf_u64)b);
#elif SF_OP == SF_OP_MAX
        return a < b ? b : a;
#else
        return a < b ? a : b;
#endif
}

/* ------------------------------------------------------------------------------------------------------------
 * Elements: storage to accumulator and back
 * ---------------------------------------------------------------------------------------------------------- */

/* Element j of a vector, its bits in the low end; the last slot first where the neighbours stand backwards. */
template <int SIZE, int BYTES> SF_DEVICE sf_u64 sf_slot(const sf_raw<BYTES> &r, int j)
{
        if (SIZE == 8)
                return (sf_u64)r.w[(2 * j) % ((BYTES + 3) / 4)] | (sf_u64)r.w[(2 * j + 1) % ((BYTES + 3) / 4)] << 32;
        sf_u32 w = r.w[j * SIZE / 4];
        if (SIZE == 4)
                return w;
        return w >> (j * SIZE % 4 * 8) & ((1u << (SIZE % 4 * 8)) - 1);
}

template <int SIZE, int BYTES> SF_DEVICE void sf_set_slot(sf_raw<BYTES> &r, int j, sf_u64 bits)
{
        if (SIZE == 8) {
                r.w[(2 * j) % ((BYTES + 3) / 4)] = (sf_u32)bits;
                r.w[(2 * j + 1) % ((BYTES + 3) / 4)] = (sf_u32)(bits >> 32);
        } else if (SIZE == 4) {
                r.w[j * SIZE / 4] = (sf_u32)bits;
        } else {
                sf_u32 field = ((1u << (SIZE % 4 * 8)) - 1) << (j * SIZE % 4 * 8);
                r.w[j * SIZE / 4] = (r.w[j * SIZE / 4] & ~field) | ((sf_u32)bits << (j * SIZE % 4 * 8) & field);
        }
}

SF_DEVICE sf_acc sf_widen(sf_u64 bits)
{
#if SF_IN == SF_DT_F16
        return (sf_acc)sf_from_half((sf_u32)bits);
#elif SF_IN == SF_DT_BF16
        return (sf_acc)sf_float_of((sf_u32)bits << 16);
#elif SF_IN == SF_DT_F32
        return (sf_acc)sf_float_of((sf_u32)bits);
#elif SF_IN == SF_DT_F64
        return (sf_acc)sf_double_of(bits);
#elif SF_IN == SF_DT_BOOL
        return (sf_acc)(bits != 0);
#elif SF_IN == SF_DT_I8
        return (sf_acc)(signed char)bits;
#elif SF_IN == SF_DT_I16
        return (sf_acc)(short)bits;
#elif SF_IN == SF_DT_I32
        return (sf_acc)(int)bits;
#elif SF_IN == SF_DT_I64
        return (sf_acc)(sf_i64)bits;
#elif SF_IN == SF_DT_U64
        return (sf_acc)bits;
#else
        return (sf_acc)(sf_u32)bits;
#endif
}

#if SF_REAL && SF_ACC == SF_DT_F64 && (SF_OUT == SF_DT_F16 || SF_OUT == SF_DT_BF16)
/* Rounded once, to nearest even, to `man` stored mantissa and `exp` exponent bits: through f32 it would be twice. */
SF_DEVICE sf_u32 sf_narrow_double(double v, int exp, int man)
{
        sf_u64 bits = sf_bits_of(v), magnitude = bits & 0x7fffffffffffffffull;
        sf_u32 sign = (sf_u32)(bits >> 63) << (exp + man), inf = ((1u << exp) - 1) << man;
        if (magnitude > 0x7ff0000000000000ull)
                return sign | inf | 1u << (man - 1);
        int e = (int)(magnitude >> 52) - 1023 + (1 << (exp - 1)) - 1;
        if (e >= (1 << exp) - 1)
                return sign | inf;
        int shift = 52 - man + (e < 1 ? 1 - e : 0);
        if (shift > 54)
                return sign;
        sf_u64 whole = (magnitude & 0xfffffffffffffull) | (magnitude >> 52 ? 1ull << 52 : 0);
        sf_u64 kept = whole >> shift, rest = whole & ((1ull << shift) - 1), half = 1ull << (shift - 1);
        kept += rest > half || (rest == half && (kept & 1));
        return sign | ((sf_u32)kept + (e < 1 ? 0 : (sf_u32)(e - 1) << man));
}
#endif

SF_DEVICE sf_u64 sf_narrow(sf_acc v)
{
#if SF_OUT == SF_DT_F64
        return sf_bits_of((double)v);
#elif SF_OUT == SF_DT_F32
        return sf_bits_of((float)v);
#elif SF_OUT == SF_DT_F16 && SF_ACC == SF_DT_F32
        return sf_to_half(v);
#elif SF_OUT == SF_DT_BF16 && SF_ACC == SF_DT_F32
        return sf_to_brain(v);
#elif SF_OUT == SF_DT_F16
        return sf_narrow_double(v, 5, 10);
#elif SF_OUT == SF_DT_BF16
        return sf_narrow_double(v, 8, 7);
#else
        return (sf_u64)v;
#endif
}

/* ------------------------------------------------------------------------------------------------------------
 * Vectors of SF_WIDTH neighbours, and where they are
 * ---------------------------------------------------------------------------------------------------------- */
struct sf_vector {
        sf_raw<SF_WIDTH * SF_IN_SIZE> x;
#if SF_MASK
        sf_raw<SF_WIDTH> m;
#endif
};

/* Addresses of the element with index 0 in x, y and the mask. */
struct sf_line {
        const char *x;
        char *y;
        const char *m;
};

/* The byte offset of `index`, and of the vector that begins there. */
template <int UNIT, int SIZE> SF_DEVICE sf_i64 sf_offset(sf_i64 index, sf_i64 stride)
{
        return UNIT ? UNIT * index * SIZE : index * stride;
}
template <int UNIT, int SIZE> SF_DEVICE sf_i64 sf_vector_offset(sf_i64 index, sf_i64 stride)
{
        return sf_offset<UNIT, SIZE>(index, stride) - (UNIT < 0 ? (SF_WIDTH - 1) * SIZE : 0);
}
/* The slot in which element j of a vector lies. */
template <int UNIT> SF_DEVICE int sf_slot_of(int j) { return UNIT < 0 ? SF_WIDTH - 1 - j : j; }

SF_DEVICE sf_vector sf_no_vector()
{
        sf_vector v;
        for (int i = 0; i < (int)(sizeof v.x.w / 4); i++)
                v.x.w[i] = 0;
#if SF_MASK
        for (int i = 0; i < (int)(sizeof v.m.w / 4); i++)
                v.m.w[i] = 0;
#endif
        return v;
}

/* The vector at `index` of a line along which x, y and the mask step by these strides. What lies at or past `end` is not
 * touched, and reads as zero. */
SF_DEVICE sf_vector sf_load_vector(const sf_line &line, sf_i64 index, sf_i64 end, sf_i64 stride_x, sf_i64 stride_m)
{
        sf_vector v = sf_no_vector();
        (void)stride_m;
        if (index + SF_WIDTH <= end) {
                sf_load(line.x + sf_vector_offset<SF_X_UNIT, SF_IN_SIZE>(index, stride_x), v.x);
#if SF_MASK && SF_M_UNIT
                sf_load(line.m + sf_vector_offset<SF_M_UNIT, 1>(index, stride_m), v.m);
#elif SF_MASK
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        sf_raw<1> one;
                        sf_load(line.m + (index + j) * stride_m, one);
                        sf_set_slot<1>(v.m, j, one.w[0]);
                }
#endif
        }
#if SF_RAGGED
        else {
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (index + j < end) {
                                sf_raw<SF_IN_SIZE> one;
                                sf_load(line.x + sf_offset<SF_X_UNIT, SF_IN_SIZE>(index + j, stride_x), one);
                                sf_set_slot<SF_IN_SIZE>(v.x, sf_slot_of<SF_X_UNIT>(j), sf_slot<SF_IN_SIZE>(one, 0));
#if SF_MASK
                                sf_raw<1> keep;
                                sf_load(line.m + sf_offset<SF_M_UNIT, 1>(index + j, stride_m), keep);
                                sf_set_slot<1>(v.m, sf_slot_of<SF_M_UNIT>(j), keep.w[0]);
#endif
                        }
        }
#endif
        return v;
}

/* Element j as the accumulator holds it, masked-out ones as the identity. */
SF_DEVICE sf_acc sf_element(const sf_vector &v, int j, sf_acc identity)
{
        sf_acc a = sf_widen(sf_slot<SF_IN_SIZE>(v.x, sf_slot_of<SF_X_UNIT>(j)));
#if SF_MASK
        if (!sf_slot<1>(v.m, sf_slot_of<SF_M_UNIT>(j)))
                a = identity;
#endif
        return a;
}

#if SF_WIDTH * SF_OUT_SIZE <= 16 /* a fold stores element by element */
SF_DEVICE void sf_store_vector(const sf_line &line, sf_i64 index, sf_i64 end, sf_i64 stride_y, const sf_acc (&v)[SF_WIDTH])
{
        if (index + SF_WIDTH <= end) {
                sf_raw<SF_WIDTH * SF_OUT_SIZE> r;
                for (int i = 0; i < (int)(sizeof r.w / 4); i++)
                        r.w[i] = 0;
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        sf_set_slot<SF_OUT_SIZE>(r, sf_slot_of<SF_Y_UNIT>(j), sf_narrow(v[j]));
                sf_store(line.y + sf_vector_offset<SF_Y_UNIT, SF_OUT_SIZE>(index, stride_y), r);
        }
#if SF_RAGGED
        else {
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (index + j < end) {
                                sf_raw<SF_OUT_SIZE> one;
                                one.w[0] = 0;
                                sf_set_slot<SF_OUT_SIZE>(one, 0, sf_narrow(v[j]));
                                sf_store(line.y + sf_offset<SF_Y_UNIT, SF_OUT_SIZE>(index + j, stride_y), one);
                        }
        }
#endif
}
#endif

SF_DEVICE sf_i64 sf_divide(sf_i64 a, sf_i64 b)
{
        if (!((a | b) >> 32))
                return (sf_i64)((sf_u32)a / (sf_u32)b);
        return a / b;
}

/* Moves `line` to position `index` of dims[first .. first + count), the last of them fastest. */
SF_DEVICE void sf_walk(const sf_params &p, int first, int count, sf_i64 index, sf_line &line)
{
        for (int d = first + count - 1; d >= first; d--) {
                sf_i64 next = d > first ? sf_divide(index, p.dims[d].len) : 0;
                sf_i64 at = index - next * p.dims[d].len;
                line.x += at * p.dims[d].x;
                line.y += at * p.dims[d].y;
                line.m += at * p.dims[d].m;
                index = next;
        }
}

SF_DEVICE sf_line sf_batch_line(const sf_params &p, sf_i64 batch)
{
        sf_line line = {p.x, p.y, p.m};
        sf_walk(p, 0, SF_NBATCH, batch, line);
        return line;
}

/* Combined with the initial value, if there is one. */
SF_DEVICE sf_acc sf_begin(const sf_params &p, sf_acc v)
{
#if SF_INITIAL
        return sf_combine(sf_acc_of(p.initial), v);
#else
        (void)p;
        return v;
#endif
}

/* ------------------------------------------------------------------------------------------------------------
 * The order within a warp
 *
 * A thread holds SF_ITEMS vectors of SF_WIDTH neighbours. Element j of item i of lane l has the index
 * (i * LANES + l) * SF_WIDTH + j: neighbours in a vector, then lanes, then items. At each level every element whose
 * index has that bit set takes, on its left, the total of the sibling block before it, which is the last element there.
 *
 * COLUMNS > 1 sequences may lie interleaved, as the columns of a narrow matrix do: then the lowest bits of the index
 * number the column and are no levels, and a block's total is its last COLUMNS elements. A thread meets SHARE of the
 * columns, and they are spread over SPAN lanes; column (lane % SPAN) * SHARE + s is its s-th.
 * ---------------------------------------------------------------------------------------------------------- */
template <int COLUMNS> struct sf_columns {
        enum { SHARE = COLUMNS < SF_WIDTH ? COLUMNS : SF_WIDTH, SPAN = COLUMNS > SF_WIDTH ? COLUMNS / SF_WIDTH : 1 };
};

template <int SHARE> SF_DEVICE void sf_take_left(const sf_acc (&left)[SHARE], sf_acc (&v)[SF_WIDTH])
{
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                v[j] = sf_combine(left[j % SHARE], v[j]);
}

template <int LANES, int COLUMNS> SF_DEVICE void sf_scan_warp(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane)
{
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN, FIRST = SF_WIDTH - SHARE };
        sf_acc left[SHARE];
#pragma unroll
        for (int b = COLUMNS; b < SF_WIDTH; b *= 2)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                if (j & b)
                                        v[i][j] = sf_combine(v[i][(j / b * b - COLUMNS + j % COLUMNS) & (SF_WIDTH - 1)], v[i][j]);
#pragma unroll
        for (int b = SPAN; b < LANES; b *= 2) {
                int from = (lane & -b) - SPAN + (lane & (SPAN - 1));
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
#pragma unroll
                        for (int s = 0; s < SHARE; s++)
                                left[s] = sf_shuffle(v[i][FIRST + s], from & 31);
                        if (lane & b)
                                sf_take_left(left, v[i]);
                }
        }
        int last = (lane & -LANES) + LANES - SPAN + (lane & (SPAN - 1));
#pragma unroll
        for (int b = 1; b < SF_ITEMS; b *= 2)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        if (i & b) {
                                if (!(i & (b - 1)))
#pragma unroll
                                        for (int s = 0; s < SHARE; s++)
                                                left[s] = sf_shuffle(v[i ? i - 1 : 0][FIRST + s], last);
                                sf_take_left(left, v[i]);
                        }
}

/* What stands before a warp's first elements: the totals it took, lowest level first, each on the left of those before. */
template <int SHARE> struct sf_before {
        sf_acc e[SHARE];
        bool any;
};

template <int SHARE> SF_DEVICE void sf_take_before(const sf_acc (&left)[SHARE], sf_before<SHARE> &before)
{
#if SF_EXCLUSIVE
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                before.e[s] = before.any ? sf_combine(left[s], before.e[s]) : left[s];
        before.any = true;
#else
        (void)left;
        (void)before;
#endif
}

/* `left` onto all elements of the thread. */
template <int SHARE>
SF_DEVICE void sf_take_all(const sf_acc (&left)[SHARE], sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_before<SHARE> &before)
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_take_left(left, v[i]);
        sf_take_before(left, before);
}

/* Exclusive: every element becomes the one before it in its sequence. */
template <int LANES, int COLUMNS>
SF_DEVICE void sf_shift(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane, const sf_before<sf_columns<COLUMNS>::SHARE> &before, sf_acc identity)
{
#if SF_EXCLUSIVE
        enum { SHARE = sf_columns<COLUMNS>::SHARE, SPAN = sf_columns<COLUMNS>::SPAN, FIRST = SF_WIDTH - SHARE };
        bool head = (lane & (LANES - 1)) < SPAN;
        int last = (lane & -LANES) + LANES - SPAN + (lane & (SPAN - 1));
#pragma unroll
        for (int i = SF_ITEMS - 1; i >= 0; i--) {
                sf_acc first[SHARE];
#pragma unroll
                for (int s = 0; s < SHARE; s++) {
                        sf_acc here = sf_shuffle(v[i][FIRST + s], (lane - SPAN) & 31);
                        sf_acc wrap = i ? sf_shuffle(v[i ? i - 1 : 0][FIRST + s], last) : before.any ? before.e[s] : identity;
                        first[s] = head ? wrap : here;
                }
#pragma unroll
                for (int j = SF_WIDTH - 1; j >= 0; j--)
                        v[i][j] = j >= SHARE ? v[i][(j - SHARE) & (SF_WIDTH - 1)] : first[j % SHARE];
        }
#else
        (void)v, (void)lane, (void)before, (void)identity;
#endif
}

/* ------------------------------------------------------------------------------------------------------------
 * The order between warps, and between tiles
 * ---------------------------------------------------------------------------------------------------------- */

/* totals[w] is warp w's, of WARPS. Gives the elements what they take from the warps before; returns the total of all. */
template <int WARPS>
SF_DEVICE sf_acc sf_scan_warps(sf_acc (&v)[SF_ITEMS][SF_WIDTH], const sf_acc *totals, int warp, int lane, sf_before<1> &before)
{
        sf_acc t = totals[lane & (WARPS - 1)]; /* lane w works for warp w */
#pragma unroll
        for (int b = 1; b < WARPS; b *= 2) {
                sf_acc left = sf_shuffle(t, ((lane & -b) - 1) & 31);
                if (warp & b) {
                        sf_acc mine[1] = {sf_shuffle(left, warp)};
                        sf_take_all(mine, v, before);
                }
                if (lane & b)
                        t = sf_combine(left, t);
        }
        return sf_shuffle(t, WARPS - 1);
}

/* A binary counter of finished block totals (order.h), entry k kept by lane k. */
struct sf_counter {
        sf_acc entry;
};

/* Tile t closes blocks: its total is carried up. */
SF_DEVICE void sf_count(sf_counter &c, sf_i64 t, sf_acc total, int lane)
{
        int k = 0;
        for (; t >> k & 1; k++)
                total = sf_combine(sf_shuffle(c.entry, k), total);
        if (lane == k)
                c.entry = total;
}

/* The fold of the first `tiles` tiles, tiles > 0. */
SF_DEVICE sf_acc sf_counted(const sf_counter &c, sf_i64 tiles)
{
        int k = 0;
        while (!(tiles >> k & 1))
                k++;
        sf_acc total = sf_shuffle(c.entry, k);
        for (k++; tiles >> k; k++) {
                sf_acc left = sf_shuffle(c.entry, k & 31);
                if (tiles >> k & 1)
                        total = sf_combine(left, total);
        }
        return total;
}

/* Folds the totals of COUNT groups, SHARE neighbouring sequences each, `pitch` elements apart. */
template <int COUNT, int SHARE> struct sf_groups {
        SF_DEVICE_MEMBER void fold(const sf_acc *totals, int pitch, sf_acc (&sum)[SHARE])
        {
                sf_acc right[SHARE];
                sf_groups<COUNT / 2, SHARE>::fold(totals, pitch, sum);
                sf_groups<COUNT / 2, SHARE>::fold(totals + COUNT / 2 * pitch, pitch, right);
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        sum[s] = sf_combine(sum[s], right[s]);
        }
};
template <int SHARE> struct sf_groups<1, SHARE> {
        SF_DEVICE_MEMBER void fold(const sf_acc *totals, int pitch, sf_acc (&sum)[SHARE])
        {
                (void)pitch;
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        sum[s] = totals[s];
        }
};

/* Group g takes from the groups before it: for every bit set in g, lowest first, a block of that many. */
template <int BIT, int SHARE> struct sf_levels {
        SF_DEVICE_MEMBER void take(const sf_acc *totals, int pitch, int group, sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_before<SHARE> &before)
        {
                sf_levels<BIT / 2, SHARE>::take(totals, pitch, group, v, before);
                if (group & BIT) {
                        sf_acc left[SHARE];
                        sf_groups<BIT, SHARE>::fold(totals + ((group & -BIT) - BIT) * pitch, pitch, left);
                        sf_take_all(left, v, before);
                }
        }
};
template <int SHARE> struct sf_levels<0, SHARE> {
        SF_DEVICE_MEMBER void take(const sf_acc *, int, int, sf_acc (&)[SF_ITEMS][SF_WIDTH], sf_before<SHARE> &) {}
};

/* ------------------------------------------------------------------------------------------------------------
 * Totals alone
 * ---------------------------------------------------------------------------------------------------------- */

/* Two lanes that differ in `bit` combine what they have; both get the result. All operations there are commute, bit for
 * bit (but for which of two NaNs it is), so neither has to ask whether its own belongs on the left. */
SF_DEVICE sf_acc sf_meet(sf_acc mine, int lane, int bit)
{
        return sf_combine(mine, sf_shuffle(mine, lane ^ bit));
}

/*
 * Folds SF_ITEMS values of each of LANES lanes, lanes below items; every lane gets the total. While there are several
 * items, two lanes that meet share the work: each keeps one item and sends the other, which halves the items held, and
 * item i ends with the lanes whose low bits are i. SF_ITEMS is a power of two.
 */
template <int LANES> SF_DEVICE sf_acc sf_fold_lanes(sf_acc (&a)[SF_ITEMS], int lane)
{
        enum { MET = SF_ITEMS < LANES ? SF_ITEMS : LANES };
#pragma unroll
        for (int b = 1; b < LANES; b *= 2)
                if (SF_ITEMS / b > 1) {
#pragma unroll
                        for (int i = 0; i < SF_ITEMS / 2; i++)
                                if (i < SF_ITEMS / b / 2) {
                                        sf_acc even = a[2 * i % SF_ITEMS], odd = a[(2 * i + 1) % SF_ITEMS];
                                        sf_acc keep = lane & b ? odd : even, other = sf_shuffle(lane & b ? even : odd, lane ^ b);
                                        a[i] = sf_combine(keep, other);
                                }
                } else {
                        a[0] = sf_meet(a[0], lane, b);
                }
#pragma unroll
        for (int i = 0; i < SF_ITEMS / MET; i++)
#pragma unroll
                for (int b = 1; b < MET; b *= 2)
                        a[i] = sf_meet(a[i], lane, b);
#pragma unroll
        for (int b = 1; b < SF_ITEMS / MET; b *= 2)
#pragma unroll
                for (int i = 0; i < SF_ITEMS / MET; i++)
                        if (i % (2 * b) == 0 && i + b < SF_ITEMS / MET)
                                a[i] = sf_combine(a[i], a[(i + b) % SF_ITEMS]);
        return a[0];
}

/* ------------------------------------------------------------------------------------------------------------
 * Pieces: memory without gaps, moved 16 bytes at a time by the whole block, whatever is in it
 * ---------------------------------------------------------------------------------------------------------- */
template <int SIZE> SF_DEVICE void sf_fetch_piece(const char *from, int length, unsigned char *buffer)
{
        enum { STEP = 16 / SIZE };
        for (int at = sf_thread() * STEP; at < length; at += SF_THREADS * STEP)
                if (at + STEP <= length)
                        sf_copy_async<16>(buffer + at * SIZE, from + (sf_i64)at * SIZE);
                else
                        for (int j = at; j < length; j++)
                                sf_copy_async<SIZE>(buffer + j * SIZE, from + (sf_i64)j * SIZE);
}

template <int SIZE> SF_DEVICE void sf_store_piece(char *to, int length, const unsigned char *buffer)
{
        enum { STEP = 16 / SIZE };
        for (int at = sf_thread() * STEP; at < length; at += SF_THREADS * STEP)
                if (at + STEP <= length) {
                        sf_raw<16> r;
                        sf_shared_load(buffer + at * SIZE, r);
                        sf_store(to + (sf_i64)at * SIZE, r);
                } else {
                        for (int j = at; j < length; j++) {
                                sf_raw<SIZE> r;
                                sf_shared_load(buffer + j * SIZE, r);
                                sf_store(to + (sf_i64)j * SIZE, r);
                        }
                }
}
