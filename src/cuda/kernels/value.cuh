/*
 * value.cuh: how the value of an operation is held. Most values are a single number. A product of
 * reals is a mantissa and an exponent (core/product.inc.h), so that no partial product overflows or
 * underflows. Other values are pairs of numbers. Elements are lifted to values, values are
 * combined, and results are lowered from values.
 *
 * A combine multiplies the mantissas of two values. They must stay normal and below 2^102 in f32. So
 * whatever is kept for others to take, in shared memory, in scratch memory or in a counter, or is
 * published, is settled first. Then its mantissa is in [1, 2), and taking it at one level
 * multiplies by less than 2. In registers, products of up to SF_LOOSE numbers are not settled; they
 * stay in [2^-64, 2^64). (Where the numbers of a vector are multiplied, they are lifted to
 * mantissas above and below 1 in turn, and it may be twice as many.) A sequence of less than 2^40
 * elements has at most 34 levels above 64 elements, and one initial value: 2^(64 + 34 + 1). Warps of
 * a tile may exchange totals that are not settled, which takes one bit more (sf_scan_warps).
 */
#if SF_PRODUCTS
#define SF_INLINE SF_DEVICE

#define P(name) sf_##name##_f32
#define P_ALIGN alignas(8)
#define P_REAL float
#define P_INT int
#define P_UINT sf_u32
#define P_BITS(v) sf_bits_of(v)
#define P_OF(i) sf_float_of(i)
#define P_CHOOSE(c, y, n) ((c) ? (y) : (n))
#define P_TIMES(a, b) sf_multiply(a, b)
#define P_MANTISSA 23
#define P_BIAS 127
#include "product.inc.h"

#define P(name) sf_##name##_f64
#define P_ALIGN alignas(16)
#define P_REAL double
#define P_INT sf_i64
#define P_UINT sf_u64
#define P_BITS(v) sf_bits_of(v)
#define P_OF(i) sf_double_of(i)
#define P_CHOOSE(c, y, n) ((c) ? (y) : (n))
#define P_TIMES(a, b) sf_multiply(a, b)
#define P_MANTISSA 52
#define P_BIAS 1023
#include "product.inc.h"

/* The same functions under one name for both types. */
SF_DEVICE sf_product_f32 sf_lift(float v) { return sf_product_lift_f32(v); }
SF_DEVICE sf_product_f64 sf_lift(double v) { return sf_product_lift_f64(v); }
SF_DEVICE sf_product_f32 sf_lift_normal(float v, int half) { return sf_product_lift_normal_f32(v, half); }
SF_DEVICE sf_product_f64 sf_lift_normal(double v, int half) { return sf_product_lift_normal_f64(v, half); }
SF_DEVICE sf_product_f32 sf_halved(sf_product_f32 v) { return sf_product_halve_f32(v); }
SF_DEVICE sf_product_f64 sf_halved(sf_product_f64 v) { return sf_product_halve_f64(v); }
SF_DEVICE sf_product_f32 sf_combined(sf_product_f32 a, sf_product_f32 b) { return sf_product_combine_f32(a, b); }
SF_DEVICE sf_product_f64 sf_combined(sf_product_f64 a, sf_product_f64 b) { return sf_product_combine_f64(a, b); }
SF_DEVICE sf_product_f32 sf_settle(sf_product_f32 v) { return sf_product_settle_f32(v); }
SF_DEVICE sf_product_f64 sf_settle(sf_product_f64 v) { return sf_product_settle_f64(v); }
SF_DEVICE float sf_lower_near(sf_product_f32 v) { return sf_product_lower_near_f32(v); }
SF_DEVICE double sf_lower_near(sf_product_f64 v) { return sf_product_lower_near_f64(v); }
SF_DEVICE float sf_lower_loose(sf_product_f32 v) { return sf_product_lower_loose_f32(v); }
SF_DEVICE double sf_lower_loose(sf_product_f64 v) { return sf_product_lower_loose_f64(v); }
SF_DEVICE float sf_lower(sf_product_f32 v) { return sf_product_lower_f32(v); }
SF_DEVICE double sf_lower(sf_product_f64 v) { return sf_product_lower_f64(v); }

/* sf_lift_normal takes v if sf_from_normal(v) is below sf_normals(): it is a normal number below 2^64
 * (f32) or 2^400 (f64), so that it can also stand for a product as it is, with the exponent 0.
 * sf_lower_near takes v if sf_from_near(v) is below sf_nears(). */
SF_DEVICE sf_u32 sf_from_normal(float v) { return sf_bits_of(v) * 2 - (1u << 24); }
SF_DEVICE sf_u32 sf_from_normal(double v) { return (sf_u32)(sf_bits_of(v) >> 32) * 2 - (1u << 21); }
SF_DEVICE sf_u32 sf_from_near(sf_product_f32 v) { return (sf_u32)v.exponent + 126; }
SF_DEVICE sf_u64 sf_from_near(sf_product_f64 v) { return (sf_u64)v.exponent + 1022; }
SF_DEVICE sf_u32 sf_normals(float) { return 190u << 24; }
SF_DEVICE sf_u32 sf_normals(double) { return 1422u << 21; }
SF_DEVICE sf_u32 sf_most(sf_u32 a, sf_u32 b) { return a > b ? a : b; }
/*
 * a * b, for products of which only the last is asked whether it is normal. If one on the way is
 * not, neither is the last: in f32 it is infinite, NaN or, because what is subnormal counts as zero,
 * zero. In f64 `most` tells (sf_from_normal).
 */
SF_DEVICE float sf_multiply_on(float a, float b, sf_u32 &) { return sf_multiply_flushed(a, b); }
SF_DEVICE double sf_multiply_on(double a, double b, sf_u32 &most)
{
        const double v = sf_multiply(a, b);
        most = sf_most(most, sf_from_normal(v));
        return v;
}
/* A product is modest if it is in [2^-40, 2^24) (f32) or in [2^-320, 2^192) (f64). Then
 * sf_beyond_modest(v) has none of the bits SF_BEYOND. So several products are checked at once, if
 * their bits are joined with |. Zeros, infinities and NaN are not modest. */
SF_DEVICE sf_u32 sf_beyond_modest(float v) { return sf_bits_of(v) - (87u << 23); }
SF_DEVICE sf_u32 sf_beyond_modest(double v) { return (sf_u32)(sf_bits_of(v) >> 32) - (703u << 20); }
#define SF_BEYOND 0x60000000u
/*
 * A product is whole if sf_from_whole(v) is below sf_wholes(v): it is a normal number below 2^64 (f32),
 * or in [2^-860, 2^160) (f64): the quotient of two such f64 is a normal number. There is room above
 * for the totals of all levels to the left, whose mantissas are below 2. More is left below 1 than
 * above, because products of random numbers rather become small: those of numbers between 0.5 and
 * 1.5 by a factor of 2 with every 15.
 */
SF_DEVICE sf_u32 sf_from_whole(float v) { return sf_from_normal(v); }
SF_DEVICE sf_u32 sf_from_whole(double v) { return ((sf_u32)(sf_bits_of(v) >> 32) << 1) - (163u << 21); }
SF_DEVICE sf_u32 sf_wholes(float v) { return sf_normals(v); }
SF_DEVICE sf_u32 sf_wholes(double) { return 1020u << 21; }
/* 1 with the sign of v; v itself if it is a zero, infinite or NaN. */
SF_DEVICE float sf_unit_of(float v)
{
        const sf_u32 bits = sf_bits_of(v) & 0x7fffffff;
        return bits - 1 < 0x7f7fffff ? sf_float_of((sf_bits_of(v) & 0x80000000) | 127u << 23) : v;
}
SF_DEVICE double sf_unit_of(double v)
{
        const sf_u64 bits = sf_bits_of(v) & ~(1ull << 63);
        return bits - 1 < 0x7fefffffffffffffull ? sf_double_of((sf_bits_of(v) & 1ull << 63) | 1023ull << 52) : v;
}
/* A number with these high bits; and v, with the other sign if that of high bits is set. */
SF_DEVICE float sf_of_high_bits(float, sf_u32 high) { return sf_float_of(high); }
SF_DEVICE double sf_of_high_bits(double, sf_u32 high) { return sf_double_of((sf_u64)high << 32); }
SF_DEVICE float sf_flipped(float v, sf_u32 high) { return sf_float_of(sf_bits_of(v) ^ (high & 1u << 31)); }
SF_DEVICE double sf_flipped(double v, sf_u32 high) { return sf_double_of(sf_bits_of(v) ^ (sf_u64)(high & 1u << 31) << 32); }
SF_DEVICE sf_u32 sf_high_bits(float v) { return sf_bits_of(v); }
SF_DEVICE sf_u32 sf_high_bits(double v) { return (sf_u32)(sf_bits_of(v) >> 32); }
SF_DEVICE float sf_infinity(float) { return sf_float_of(255u << 23); }
SF_DEVICE double sf_infinity(double) { return sf_double_of(2047ull << 52); }
/* 2^this, or less, makes zeros of all mantissas that are lowered. */
SF_DEVICE int sf_vanishing(float) { return -252; }
SF_DEVICE int sf_vanishing(double) { return -2044; }
/* More than the largest exponent of a number, or less any one of a smallest one. */
SF_DEVICE int sf_range(float) { return 160; }
SF_DEVICE int sf_range(double) { return 1100; }
/* The logarithm of |v| in 2048ths, to within a tenth. Products of a warp are likely to be whole if
 * that of a whole column is from -sf_log2_small to sf_log2_large, and those of single lanes are off
 * by at most sf_log2_near. */
SF_DEVICE int sf_log2_about(float v) { return (int)(sf_bits_of(v) << 1 >> 13) - (127 << 11); }
SF_DEVICE int sf_log2_about(double v) { return (int)((sf_u32)(sf_bits_of(v) >> 32) << 1 >> 10) - (1023 << 11); }
SF_DEVICE int sf_log2_small(float) { return 110 << 11; }
SF_DEVICE int sf_log2_small(double) { return 800 << 11; }
SF_DEVICE int sf_log2_large(float) { return 56 << 11; }
SF_DEVICE int sf_log2_large(double) { return 150 << 11; }
SF_DEVICE int sf_log2_near(float) { return 3 << 10; }
SF_DEVICE int sf_log2_near(double) { return 12 << 11; }
SF_DEVICE sf_u32 sf_nears(float) { return 254; }
SF_DEVICE sf_u64 sf_nears(double) { return 2046; }
#endif

#if SF_EXPONENTIALS || SF_FUSED
#define E_INLINE SF_DEVICE
#define E_U32 sf_u32
#define E_U64 sf_u64
#define E_F32_BITS(v) sf_bits_of(v)
#define E_F32_OF(u) sf_float_of(u)
#define E_F64_BITS(v) sf_bits_of(v)
#define E_F64_OF(u) sf_double_of(u)
#define E_FMA(a, b, c) sf_fma(a, b, c)
#define E_RECIPROCAL(d) sf_reciprocal(d)
#include "exponentials.inc.h"
#endif

#if SF_EXPONENTIALS
SF_DEVICE float sf_exp_power(float x) { return sf_exp_power_f32(x); }
SF_DEVICE double sf_exp_power(double x) { return sf_exp_power_f64(x); }
SF_DEVICE float sf_exp_times(float x, float power) { return sf_exp_times_f32(x, power); }
SF_DEVICE double sf_exp_times(double x, double power) { return sf_exp_times_f64(x, power); }
SF_DEVICE float sf_exp_scale(float d) { return sf_exp_scale_f32(d); }
SF_DEVICE double sf_exp_scale(double d) { return sf_exp_scale_f64(d); }
SF_DEVICE float sf_exp_small(float x) { return sf_exp_small_f32(x); }
SF_DEVICE double sf_exp_small(double x) { return sf_exp_small_f64(x); }
SF_DEVICE float sf_exp_small_limit(float) { return SF_EXP_SMALL_F32; }
SF_DEVICE double sf_exp_small_limit(double) { return SF_EXP_SMALL_F64; }
SF_DEVICE float sf_exp_far(float) { return SF_EXP_FAR_F32; }
SF_DEVICE double sf_exp_far(double) { return SF_EXP_FAR_F64; }
SF_DEVICE float sf_exp_log(float power, float times) { return sf_exp_log_f32(power, times); }
SF_DEVICE double sf_exp_log(double power, double times) { return sf_exp_log_f64(power, times); }
#endif

/* A component as bits, and back. */
SF_DEVICE sf_u64 sf_bits_in(float v) { return sf_bits_of(v); }
SF_DEVICE sf_u64 sf_bits_in(double v) { return sf_bits_of(v); }
SF_DEVICE sf_u64 sf_bits_in(int v) { return (sf_u32)v; }
SF_DEVICE sf_u64 sf_bits_in(sf_i64 v) { return (sf_u64)v; }
SF_DEVICE void sf_set_bits(float &v, sf_u64 bits) { v = sf_float_of((sf_u32)bits); }
SF_DEVICE void sf_set_bits(double &v, sf_u64 bits) { v = sf_double_of(bits); }
SF_DEVICE void sf_set_bits(int &v, sf_u64 bits) { v = (int)(sf_u32)bits; }
SF_DEVICE void sf_set_bits(sf_i64 &v, sf_u64 bits) { v = (sf_i64)bits; }

/* How a value of operation OP on numbers of type T is held. */
template <int OP, class T> struct sf_value {
        typedef T type;
        enum { PAIR = 0 };
        SF_DEVICE_MEMBER type lift(T v) { return v; }
        SF_DEVICE_MEMBER T lower(type v) { return v; }
        SF_DEVICE_MEMBER type settle(type v) { return v; }
        SF_DEVICE_MEMBER type choose(bool first, type a, type b) { return first ? a : b; }
        SF_DEVICE_MEMBER type shuffle(type v, int lane) { return ::sf_shuffle(v, lane); }
        template <int N> SF_DEVICE_MEMBER void lift_all(const T *from, type *to)
        {
#pragma unroll
                for (int i = 0; i < N; i++)
                        to[i] = from[i];
        }
        template <int N> SF_DEVICE_MEMBER void lower_all(const type *from, T *to)
        {
#pragma unroll
                for (int i = 0; i < N; i++)
                        to[i] = from[i];
        }
};

#if SF_PRODUCTS
template <class T, class V> struct sf_product_value {
        typedef V type;
        enum { PAIR = 1 };
        SF_DEVICE_MEMBER T first(V v) { return v.mantissa; }
        SF_DEVICE_MEMBER sf_u64 second(V v) { return (sf_u64)v.exponent; }
        SF_DEVICE_MEMBER V made(T first, sf_u64 second)
        {
                V v;
                v.mantissa = first;
                v.exponent = (decltype(v.exponent))second;
                return v;
        }
        SF_DEVICE_MEMBER V lift(T v) { return sf_lift(v); }
        /* What has been multiplied as it is, is its result. */
        SF_DEVICE_MEMBER T lower(V v) { return v.exponent ? sf_lower(v) : v.mantissa; }
        SF_DEVICE_MEMBER V settle(V v) { return sf_settle(v); }
        /* Member by member: of whole structs the compiler would choose between addresses. */
        SF_DEVICE_MEMBER V choose(bool first, V a, V b)
        {
                V c;
                c.mantissa = first ? a.mantissa : b.mantissa;
                c.exponent = first ? a.exponent : b.exponent;
                return c;
        }
        SF_DEVICE_MEMBER V shuffle(V v, int lane)
        {
                v.mantissa = ::sf_shuffle(v.mantissa, lane);
                v.exponent = ::sf_shuffle(v.exponent, lane);
                return v;
        }
        /* Most numbers suit sf_lift_normal, and most results sf_lower_near. So there is one check
         * for all that a thread has. */
        template <int N> SF_DEVICE_MEMBER void lift_all(const T *from, V *to)
        {
                sf_u32 most = 0;
#pragma unroll
                for (int i = 0; i < N; i++)
                        most = sf_most(most, sf_from_normal(from[i]));
                if (most < sf_normals(T()))
#pragma unroll
                        for (int i = 0; i < N; i++)
                                to[i] = sf_lift_normal(from[i], i & 1);
                else
#pragma unroll
                        for (int i = 0; i < N; i++)
                                to[i] = in_turn(sf_lift(from[i]), i);
        }
        /* The same for values that are already lifted and settled. */
        template <int N> SF_DEVICE_MEMBER void lift_all(const V *from, V *to)
        {
#pragma unroll
                for (int i = 0; i < N; i++)
                        to[i] = in_turn(from[i], i);
        }
        SF_DEVICE_MEMBER V in_turn(V v, int i) { return i & 1 ? sf_halved(v) : v; }

        /*
         * Folds each of COUNT lists of N numbers, at most 64. Lifting scales numbers by powers of
         * two. That does not change how their product is rounded, unless the product leaves the
         * range. So they are multiplied as they are, and lifted only if some product does. ALONE: no
         * list is combined with another before it is settled, so not even products need be lifted.
         */
        template <bool ALONE, int N, int COUNT>
        SF_DEVICE_MEMBER void fold_each(const T (&from)[COUNT][N], V (&to)[COUNT])
        {
                static_assert(N <= 64, "products of so many numbers near 1 stay in the range");
                enum { SOME = COUNT * N > 32 ? (N < 32 ? 32 / N : 1) : COUNT }; /* at once, for fewer registers */
#pragma unroll
                for (int first = 0; first < COUNT; first += SOME) {
                        T product[SOME][N];
                        sf_u32 most = 0;
#pragma unroll
                        for (int c = 0; c < SOME && first + c < COUNT; c++) {
#pragma unroll
                                for (int i = 0; i < N; i++)
                                        product[c][i] = from[(first + c) % COUNT][i];
#pragma unroll
                                for (int b = 1; b < N; b *= 2)
#pragma unroll
                                        for (int i = 0; i + b < N; i += 2 * b)
                                                product[c][i] = sf_multiply_on(
                                                        product[c][i], product[c][(i + b) % N], most);
                                most = sf_most(most, sf_from_normal(product[c][0]));
                        }
#pragma unroll
                        for (int c = 0; c < SOME && first + c < COUNT; c++)
                                if (most < sf_normals(T()))
                                        to[first + c] = ALONE ? made(product[c][0], 0) : sf_lift_normal(product[c][0], 0);
                                else
                                        to[first + c] = fold_lifted(from[first + c]);
                }
        }
        template <int N> SF_DEVICE_MEMBER V fold_lifted(const T (&from)[N])
        {
                V value[N];
#pragma unroll
                for (int i = 0; i < N; i++)
                        value[i] = in_turn(sf_lift(from[i]), i);
                return fold_tree(value);
        }
        template <int N> SF_DEVICE_MEMBER V fold_tree(V (&v)[N])
        {
#pragma unroll
                for (int b = 1; b < N; b *= 2)
#pragma unroll
                        for (int i = 0; i + b < N; i += 2 * b)
                                v[i] = sf_combined(v[i], v[(i + b) % N]);
                return v[0];
        }
        /* What lower_checked is told about values: the most of them. */
        SF_DEVICE_MEMBER decltype(sf_from_near(V())) most_of(decltype(sf_from_near(V())) most, V v)
        {
                return sf_from_near(v) > most ? sf_from_near(v) : most;
        }
        template <int N> SF_DEVICE_MEMBER void lower_checked(const V *from, decltype(sf_from_near(V())) most, T *to)
        {
                if (most < sf_nears(T()))
#pragma unroll
                        for (int i = 0; i < N; i++)
                                to[i] = sf_lower_near(from[i]);
                else
#pragma unroll
                        for (int i = 0; i < N; i++)
                                to[i] = sf_lower_loose(from[i]);
        }
        template <int N> SF_DEVICE_MEMBER void lower_all(const V *from, T *to)
        {
                decltype(sf_from_near(V())) most = 0;
#pragma unroll
                for (int i = 0; i < N; i++)
                        most = most_of(most, from[i]);
                lower_checked<N>(from, most, to);
        }
};
template <> struct sf_value<SF_OP_PROD, float> : sf_product_value<float, sf_product_f32> {};
template <> struct sf_value<SF_OP_PROD, double> : sf_product_value<double, sf_product_f64> {};
#endif

#if SF_EXPONENTIALS || SF_INDICES || SF_TWOS
template <class A, class B> struct alignas(2 * sizeof(A)) sf_pair_of {
        A first;
        B second;
};

/* What all operations whose value is a pair have in common. */
template <class A, class B> struct sf_pair_value {
        typedef sf_pair_of<A, B> type;
        enum { PAIR = 1 };
        SF_DEVICE_MEMBER A first(type v) { return v.first; }
        SF_DEVICE_MEMBER sf_u64 second(type v) { return sf_bits_in(v.second); }
        SF_DEVICE_MEMBER type made(A first, sf_u64 second)
        {
                type v;
                v.first = first;
                sf_set_bits(v.second, second);
                return v;
        }
        SF_DEVICE_MEMBER type pair(A first, B second)
        {
                type v;
                v.first = first;
                v.second = second;
                return v;
        }
        SF_DEVICE_MEMBER type settle(type v) { return v; }
        SF_DEVICE_MEMBER type choose(bool first, type a, type b) { return pair(first ? a.first : b.first, first ? a.second : b.second); }
        SF_DEVICE_MEMBER type shuffle(type v, int lane) { return pair(::sf_shuffle(v.first, lane), ::sf_shuffle(v.second, lane)); }
        /* For elements that have been lifted already. */
        template <int N> SF_DEVICE_MEMBER void lift_all(const type *from, type *to)
        {
#pragma unroll
                for (int i = 0; i < N; i++)
                        to[i] = from[i];
        }
};
#endif

#if SF_EXPONENTIALS
/* A sum of exponentials: second * 4^first (exponentials.inc.h). */
template <class T> struct sf_value<SF_OP_LOGSUMEXP, T> : sf_pair_value<T, T> {
        typedef sf_pair_value<T, T> base;
        typedef typename base::type type;
        using base::lift_all;
        SF_DEVICE_MEMBER type lift(T v)
        {
                const T power = sf_exp_power(v);
                return base::pair(power, sf_exp_times(v, power));
        }
        SF_DEVICE_MEMBER T lower(type v) { return sf_exp_log(v.first, v.second); }
        SF_DEVICE_MEMBER type combine(type a, type b)
        {
                const bool right = b.first > a.first;
                const T large = right ? b.first : a.first, small = right ? a.first : b.first;
                const T most = right ? b.second : a.second, more = right ? a.second : b.second;
                return base::pair(large, most + more * sf_exp_scale(large - small));
        }
        /* The same for two values with the same power. */
        SF_DEVICE_MEMBER type combine_level(type a, type b) { return base::pair(b.first, a.second + b.second); }
        template <int N> SF_DEVICE_MEMBER bool are_small(const T *from)
        {
                bool small = true;
#pragma unroll
                for (int i = 0; i < N; i++)
                        small &= sf_magnitude(from[i]) < sf_exp_small_limit(T());
                return small;
        }
        /*
         * All values of a warp get the same power if they are near each other. Then combining them
         * is adding. Scaling numbers by powers of four changes only their exponents, and only the
         * exponent of their sum. Near means: what counts as 0 beside the largest of them, at most
         * 2^40 times 4^-sf_exp_far, is negligible beside the smallest too. Exponentials of small
         * numbers are all near to the power 0. An exponential that is 0 has no power, so it is near
         * to none.
         */
        template <int N> SF_DEVICE_MEMBER void lift_all(const T *from, type *to)
        {
                if (!sf_ballot(!are_small<N>(from))) {
#pragma unroll
                        for (int i = 0; i < N; i++)
                                to[i] = base::pair(0, sf_exp_small(from[i]));
                        return;
                }
                T most = sf_exp_power(from[0]), least = most;
#pragma unroll
                for (int i = 0; i < N; i++) {
                        to[i] = lift(from[i]);
                        most = to[i].first > most ? to[i].first : most;
                        least = to[i].first < least ? to[i].first : least;
                }
#pragma unroll
                for (int b = 1; b < 32; b *= 2) {
                        const T other = ::sf_shuffle(most, (sf_thread() & 31) ^ b);
                        most = other > most ? other : most;
                }
                if (!sf_ballot(!(most - least < sf_exp_far(T()) * (T)0.45 && most < sf_exp_far(T()) * 4096)))
#pragma unroll
                        for (int i = 0; i < N; i++)
                                to[i] = base::pair(most, to[i].second * sf_exp_scale(most - to[i].first));
        }
        template <int N> SF_DEVICE_MEMBER void lower_all(const type *from, T *to)
        {
#pragma unroll
                for (int i = 0; i < N; i++)
                        to[i] = lower(from[i]);
        }
        /* Adds N numbers in the order. */
        template <int N> SF_DEVICE_MEMBER T added(T (&times)[N])
        {
#pragma unroll
                for (int b = 1; b < N; b *= 2)
#pragma unroll
                        for (int i = 0; i + b < N; i += 2 * b)
                                times[i] += times[(i + b) % N];
                return times[0];
        }
        /* Folds each of COUNT lists of N small numbers (are_small). */
        template <int N, int COUNT> SF_DEVICE_MEMBER void fold_small(const T (&from)[COUNT][N], type (&to)[COUNT])
        {
#pragma unroll
                for (int c = 0; c < COUNT; c++) {
                        T times[N];
#pragma unroll
                        for (int i = 0; i < N; i++)
                                times[i] = sf_exp_small(from[c][i]);
                        to[c] = base::pair(0, added(times));
                }
        }
        /* Folds each of COUNT lists of N numbers. Only the largest power counts in a total: what is
         * far below it adds nothing. */
        template <int N, int COUNT> SF_DEVICE_MEMBER void fold_any(const T (&from)[COUNT][N], type (&to)[COUNT])
        {
#pragma unroll
                for (int c = 0; c < COUNT; c++) {
                        T times[N], most = sf_exp_power(from[c][0]);
#pragma unroll
                        for (int i = 1; i < N; i++)
                                most = sf_exp_power(from[c][i]) > most ? sf_exp_power(from[c][i]) : most;
#pragma unroll
                        for (int i = 0; i < N; i++) {
                                const T power = sf_exp_power(from[c][i]);
                                times[i] = sf_exp_times(from[c][i], power) * sf_exp_scale(most - power);
                        }
                        to[c] = base::pair(most, added(times));
                }
        }
        template <int N, int COUNT> SF_DEVICE_MEMBER void fold_each(const T (&from)[COUNT][N], type (&to)[COUNT])
        {
                if (are_small<N * COUNT>(&from[0][0]))
                        fold_small(from, to);
                else
                        fold_any(from, to);
        }
};
#endif

#if SF_TWOS
/* Several steps h -> a * h + b, which together are one such step. first is b, second is a. */
template <class T> struct sf_value<SF_OP_RECURRENCE, T> : sf_pair_value<T, T> {
        typedef sf_pair_value<T, T> base;
        typedef typename base::type type;
        SF_DEVICE_MEMBER type lift(T v) { return base::pair(v, 1); }
        SF_DEVICE_MEMBER T lower(type v) { return v.first; }
        SF_DEVICE_MEMBER type combine(type l, type r)
        {
                return base::pair(sf_add(sf_multiply(r.second, l.first), r.first), sf_multiply(l.second, r.second));
        }
        template <int N> SF_DEVICE_MEMBER void lower_all(const type *from, T *to)
        {
#pragma unroll
                for (int i = 0; i < N; i++)
                        to[i] = from[i].first;
        }
};
#endif

#if SF_INDICES
/* The type of a position, as wide as the element. The host widens elements if there are more
 * positions than 32 bits can count. */
template <int SIZE> struct sf_position {
        typedef int type;
};
template <> struct sf_position<16> {
        typedef sf_i64 type;
};
typedef sf_position<SF_VALUE_SIZE>::type sf_at;

/*
 * An element and its position. The better element wins; of equal elements, the one with the smaller
 * position. To find the last of them instead, all bits of the positions are inverted (LATE). NaN is
 * better than any number. The element is the one that SF_MAX or SF_MIN would give, so that it can
 * be stored as their result.
 */
template <int OP, class T> struct sf_index_value : sf_pair_value<T, sf_at> {
        typedef sf_pair_value<T, sf_at> base;
        typedef typename base::type type;
        enum { LARGEST = OP == SF_OP_ARGMAX || OP == SF_OP_LAST_ARGMAX, LATE = OP == SF_OP_LAST_ARGMAX || OP == SF_OP_LAST_ARGMIN ? -1 : 0 };
        SF_DEVICE_MEMBER sf_at nowhere() { return (sf_at)(~0ull >> (65 - 8 * (int)sizeof(sf_at))); }
        SF_DEVICE_MEMBER type lift(T v) { return base::pair(v, nowhere()); }
        SF_DEVICE_MEMBER type lift_at(T v, sf_at position) { return base::pair(v, position ^ (sf_at)LATE); }
        /* -1 if there is no element. */
        SF_DEVICE_MEMBER sf_at lower(type v) { return v.second == nowhere() ? (sf_at)-1 : v.second ^ (sf_at)LATE; }
        /* Is x better than y, and not equal? */
        SF_DEVICE_MEMBER bool better(T x, T y) { return !(LARGEST ? x <= y : x >= y) & (y == y); }
        SF_DEVICE_MEMBER type combine(type a, type b)
        {
                const T x = a.first, y = b.first;
#if SF_IN_ORDER
                /* Positions need not be compared: all of b's come after a's, and only a may have
                 * none. */
                const bool later = LATE ? !better(x, y) : better(y, x) | (a.second == nowhere());
                return base::pair(SF_ELEMENT ? extreme(x, y) : later ? y : x, later ? b.second : a.second);
#endif
                const bool above = !(LARGEST ? y <= x : y >= x) & (x == x), same = (x == y) | ((x != x) & (y != y));
                const bool right = above | (same & (b.second < a.second));
                return base::pair(SF_ELEMENT ? extreme(x, y) : right ? y : x, right ? b.second : a.second);
        }
        SF_DEVICE_MEMBER float extreme(float x, float y) { return LARGEST ? sf_larger(x, y) : sf_smaller(x, y); }
        SF_DEVICE_MEMBER double extreme(double x, double y) { return LARGEST ? sf_larger(x, y) : sf_smaller(x, y); }
        template <class I> SF_DEVICE_MEMBER I extreme(I x, I y) { return (x < y) == (bool)LARGEST ? y : x; }
};
template <class T> struct sf_value<SF_OP_ARGMAX, T> : sf_index_value<SF_OP_ARGMAX, T> {};
template <class T> struct sf_value<SF_OP_ARGMIN, T> : sf_index_value<SF_OP_ARGMIN, T> {};
template <class T> struct sf_value<SF_OP_LAST_ARGMAX, T> : sf_index_value<SF_OP_LAST_ARGMAX, T> {};
template <class T> struct sf_value<SF_OP_LAST_ARGMIN, T> : sf_index_value<SF_OP_LAST_ARGMIN, T> {};
#endif
