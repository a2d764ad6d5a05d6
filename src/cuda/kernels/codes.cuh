/*
 * codes.cuh: what the instructions of a program (core/codes.def) do to one value. Only fused
 * kernels have this text; their programs come right after it.
 *
 * A value of f16 or bf16 is held as a float that the narrow type can represent; an integer narrower
 * than 32 bits, as a 32-bit integer that the narrow type can represent; a bool, as 0 or 1. `settle`
 * rounds or wraps a result so that this is true. Each operation is one rounded operation.
 */

/* ------------------------------------------------------------------------------------------------
 * Types
 * ---------------------------------------------------------------------------------------------- */

/* Conversions of a dtype: `from` stored bits, from the bits of a `constant`, to stored `bits`, and
 * `cast` from any other type. */
template <int DT> struct sf_dtype;

template <> struct sf_dtype<SF_DT_F32> {
        typedef float type;
        SF_DEVICE_MEMBER float from(sf_u64 bits) { return sf_float_of((sf_u32)bits); }
        SF_DEVICE_MEMBER float constant(sf_u64 bits) { return sf_float_of((sf_u32)bits); }
        SF_DEVICE_MEMBER float settle(float v) { return v; }
        SF_DEVICE_MEMBER sf_u64 bits(float v) { return sf_bits_of(v); }
        template <class T> SF_DEVICE_MEMBER float cast(T v) { return (float)v; }
};

template <> struct sf_dtype<SF_DT_F64> {
        typedef double type;
        SF_DEVICE_MEMBER double from(sf_u64 bits) { return sf_double_of(bits); }
        SF_DEVICE_MEMBER double constant(sf_u64 bits) { return sf_double_of(bits); }
        SF_DEVICE_MEMBER double settle(double v) { return v; }
        SF_DEVICE_MEMBER sf_u64 bits(double v) { return sf_bits_of(v); }
        template <class T> SF_DEVICE_MEMBER double cast(T v) { return (double)v; }
};

template <> struct sf_dtype<SF_DT_F16> {
        typedef float type;
        SF_DEVICE_MEMBER float from(sf_u64 bits) { return sf_from_half((sf_u32)bits); }
        SF_DEVICE_MEMBER float constant(sf_u64 bits) { return sf_float_of((sf_u32)bits); }
        SF_DEVICE_MEMBER float settle(float v) { return sf_from_half(sf_to_half(v)); }
        SF_DEVICE_MEMBER sf_u64 bits(float v) { return sf_to_half(v); }
        SF_DEVICE_MEMBER sf_u32 pair(float low, float high) { return sf_to_halves(low, high); }
        SF_DEVICE_MEMBER float cast(double v) { return sf_from_half(sf_narrow_double(v, 5, 10)); }
        template <class T> SF_DEVICE_MEMBER float cast(T v) { return settle((float)v); }
};

template <> struct sf_dtype<SF_DT_BF16> {
        typedef float type;
        SF_DEVICE_MEMBER float from(sf_u64 bits) { return sf_float_of((sf_u32)bits << 16); }
        SF_DEVICE_MEMBER float constant(sf_u64 bits) { return sf_float_of((sf_u32)bits); }
        SF_DEVICE_MEMBER float settle(float v) { return sf_float_of(sf_to_brain(v) << 16); }
        SF_DEVICE_MEMBER sf_u64 bits(float v) { return sf_to_brain(v); }
        SF_DEVICE_MEMBER sf_u32 pair(float low, float high) { return sf_to_brains(low, high); }
        SF_DEVICE_MEMBER float cast(double v) { return sf_float_of(sf_narrow_double(v, 8, 7) << 16); }
        template <class T> SF_DEVICE_MEMBER float cast(T v) { return settle((float)v); }
};

/* STORED is the type in memory, T the type in registers. */
template <class T, class STORED, bool SIGNED> struct sf_integer {
        typedef T type;
        SF_DEVICE_MEMBER T from(sf_u64 bits) { return (T)(STORED)bits; }
        SF_DEVICE_MEMBER T constant(sf_u64 bits) { return (T)(STORED)bits; }
        SF_DEVICE_MEMBER T settle(T v) { return (T)(STORED)v; }
        SF_DEVICE_MEMBER sf_u64 bits(T v) { return (sf_u64)v; }
        /*
         * A real is converted to 32 or 64 bits (the table of core/program.h) and then wrapped. A
         * real that these bits cannot hold first becomes their lowest value; the device's own
         * conversion would give the nearest value. For a float and u8, 32 and 64 bits give the same
         * result.
         */
        template <class R> SF_DEVICE_MEMBER T truncate(R v)
        {
                const bool brief =
                        SIGNED ? sizeof(STORED) <= 4
                               : sizeof(STORED) == 2 || (sizeof(STORED) == 1 && sizeof(R) == 4);
                const bool upper = sizeof(STORED) == 8 && !SIGNED && v >= (R)9223372036854775808.0;
                const R end = brief ? (R)2147483648.0 : (R)9223372036854775808.0;
                v = upper ? v - end : v;
                v = v >= -end && v < end ? v : -end;
                return from((brief ? (sf_u64)(int)v : (sf_u64)(sf_i64)v) ^ (sf_u64)upper << 63);
        }
        SF_DEVICE_MEMBER T cast(float v) { return truncate(v); }
        SF_DEVICE_MEMBER T cast(double v) { return truncate(v); }
        template <class U> SF_DEVICE_MEMBER T cast(U v) { return from((sf_u64)v); }
};
template <> struct sf_dtype<SF_DT_I8> : sf_integer<int, signed char, true> {};
template <> struct sf_dtype<SF_DT_I16> : sf_integer<int, short, true> {};
template <> struct sf_dtype<SF_DT_I32> : sf_integer<int, int, true> {};
template <> struct sf_dtype<SF_DT_I64> : sf_integer<sf_i64, sf_i64, true> {};
template <> struct sf_dtype<SF_DT_U8> : sf_integer<sf_u32, unsigned char, false> {};
template <> struct sf_dtype<SF_DT_U16> : sf_integer<sf_u32, unsigned short, false> {};
template <> struct sf_dtype<SF_DT_U32> : sf_integer<sf_u32, sf_u32, false> {};
template <> struct sf_dtype<SF_DT_U64> : sf_integer<sf_u64, sf_u64, false> {};

template <> struct sf_dtype<SF_DT_BOOL> {
        typedef sf_u32 type;
        SF_DEVICE_MEMBER sf_u32 from(sf_u64 bits) { return bits != 0; }
        SF_DEVICE_MEMBER sf_u32 constant(sf_u64 bits) { return bits != 0; }
        SF_DEVICE_MEMBER sf_u32 settle(sf_u32 v) { return v != 0; }
        SF_DEVICE_MEMBER sf_u64 bits(sf_u32 v) { return v; }
        template <class T> SF_DEVICE_MEMBER sf_u32 cast(T v) { return v != 0; }
};

template <int DT> using sf_of = typename sf_dtype<DT>::type;

/* ------------------------------------------------------------------------------------------------
 * Instructions, by the names of codes.def. The templates are for integers; what can wrap is
 * computed in 64 bits, which wraps as fewer bits do.
 * ---------------------------------------------------------------------------------------------- */
SF_DEVICE float sf_code_add(float a, float b) { return sf_add(a, b); }
SF_DEVICE double sf_code_add(double a, double b) { return sf_add(a, b); }
template <class T> SF_DEVICE T sf_code_add(T a, T b) { return (T)((sf_u64)a + (sf_u64)b); }
SF_DEVICE float sf_code_sub(float a, float b) { return sf_subtract(a, b); }
SF_DEVICE double sf_code_sub(double a, double b) { return sf_subtract(a, b); }
template <class T> SF_DEVICE T sf_code_sub(T a, T b) { return (T)((sf_u64)a - (sf_u64)b); }
SF_DEVICE float sf_code_mul(float a, float b) { return sf_multiply(a, b); }
SF_DEVICE double sf_code_mul(double a, double b) { return sf_multiply(a, b); }
template <class T> SF_DEVICE T sf_code_mul(T a, T b) { return (T)((sf_u64)a * (sf_u64)b); }
SF_DEVICE float sf_code_neg(float a) { return -a; }
SF_DEVICE double sf_code_neg(double a) { return -a; }
template <class T> SF_DEVICE T sf_code_neg(T a) { return (T)(0 - (sf_u64)a); }
SF_DEVICE float sf_code_abs(float a) { return sf_float_of(sf_bits_of(a) & 0x7fffffffu); }
SF_DEVICE double sf_code_abs(double a) { return sf_double_of(sf_bits_of(a) & 0x7fffffffffffffffull); }
template <class T> SF_DEVICE T sf_code_abs(T a) { return a < 0 ? sf_code_neg(a) : a; }
template <class T> SF_DEVICE T sf_code_div(T a, T b) { return sf_quotient(a, b); }

/* v with the sign of a. v must not be negative unless a is. */
SF_DEVICE float sf_signed_as(float a, float v) { return sf_float_of((sf_bits_of(a) & 0x80000000u) | sf_bits_of(v)); }
SF_DEVICE double sf_signed_as(double a, double v) { return sf_double_of((sf_bits_of(a) & 0x8000000000000000ull) | sf_bits_of(v)); }

/*
 * Some functions have a version for ordinary arguments that takes fewer instructions and gives the
 * same bits. sf_careful: each argument is checked. sf_hasty: the result is right if the argument is
 * ordinary, and otherwise `fails` is set. So a thread checks once for all numbers of a vector, and
 * computes them all again if it has to. sf_beyond: the last operation of a program is a quotient,
 * and the result is not nearer to 0 than that is (FAR), or not further from it. If both are rounded
 * to the same narrow number, so is the quotient. sf_sure: as sf_hasty, and what sf_of_kept is said of
 * are exponentials that the quick way has made: dividends that need no check. sf_various: as
 * sf_hasty, but each dividend has a divisor of its own. sf_inner: what the operations before are
 * told.
 */
struct sf_careful {};
struct sf_hasty {
        bool fails;
};
template <bool FAR> struct sf_beyond {};
struct sf_sure : sf_hasty {
        SF_DEVICE_METHOD sf_sure() : sf_hasty{false} {}
};
struct sf_various : sf_hasty {
        SF_DEVICE_METHOD sf_various() : sf_hasty{false} {}
};
struct sf_unchecked {
        sf_hasty &ask;
};
struct sf_plain {};
SF_DEVICE sf_hasty &sf_inner(sf_hasty &ask) { return ask; }
SF_DEVICE sf_sure &sf_inner(sf_sure &ask) { return ask; }
SF_DEVICE sf_various &sf_inner(sf_various &ask) { return ask; }
template <class ASK> SF_DEVICE sf_careful sf_inner(const ASK &) { return sf_careful(); }
SF_DEVICE sf_unchecked sf_of_kept(sf_sure &ask) { return sf_unchecked{ask}; }
SF_DEVICE sf_hasty &sf_of_kept(sf_hasty &ask) { return ask; }
SF_DEVICE sf_various &sf_of_kept(sf_various &ask) { return ask; }
SF_DEVICE sf_plain sf_of_kept(const sf_careful &) { return sf_plain(); }
template <bool FAR> SF_DEVICE sf_beyond<FAR> sf_of_kept(sf_beyond<FAR> ask) { return ask; }

/*
 * Division by a divisor that many dividends share. The quotient has the same bits as by a plain
 * division, but what depends on the divisor alone is computed once. 1 / d in two parts gives a
 * quotient that is off by less than one unit in the last place. One correction by the remainder,
 * which is exact, then rounds as division does (Markstein's theorem). If an intermediate number
 * could leave the range, or the divisor is negative, a plain division is done. A zero loses its
 * sign in the computation and gets it back at the end.
 */
template <class T> struct sf_divisor {
        T d, high, low, least, most, zero;
        SF_DEVICE_METHOD sf_divisor(T by, T tiny, T near, T far) : d(by)
        {
                const bool fits = d >= 1 / near && d <= near;
                high = sf_quotient((T)1, d);
                low = sf_multiply(sf_fma(-d, high, (T)1), high);
                least = fits ? tiny : far * 2, most = fits ? far : -1, zero = fits ? 0 : far;
        }
        SF_DEVICE_METHOD bool suits(T a) const { return (sf_magnitude(a) >= least && sf_magnitude(a) <= most) || a == zero; }
        SF_DEVICE_METHOD T quick(T a) const
        {
                const T q = sf_fma(a, high, sf_multiply(a, low));
                return sf_signed_as(a, sf_fma(sf_fma(-d, q, a), high, q));
        }
        SF_DEVICE_METHOD T of(T a, sf_careful) const { return suits(a) ? quick(a) : sf_quotient(a, d); }
        SF_DEVICE_METHOD T of(T a, sf_plain) const { return sf_quotient(a, d); }
        SF_DEVICE_METHOD T of(T a, sf_various &) const { return sf_quotient(a, d); }
        SF_DEVICE_METHOD T of(T a, sf_unchecked u) const
        {
                u.ask.fails |= most < 0;
                const T own = sf_anew(a), q = sf_fma(own, high, sf_multiply(own, low));
                return sf_fma(sf_fma(-d, q, own), high, q);
        }
        SF_DEVICE_METHOD T of(T a, sf_hasty &ask) const
        {
                /* All quotients of a thread at once would take more registers than it has. */
                const T own = sf_anew(a);
                ask.fails |= !suits(own);
                return quick(own);
        }
        /* Only for floats. 1 / d is between the numbers before and after `high`, and rounding keeps
         * the order. Where d does not suit, they are replaced by 0 and infinity: no product but NaN
         * is the same with both. */
        template <bool FAR> SF_DEVICE_METHOD T of(T a, sf_beyond<FAR>) const
        {
                const sf_u32 fits = most < 0 ? 0 : ~0u, one = sf_bits_of(high);
                const sf_u32 far = ((one + 1) & fits) | (~fits & 0x7f800000u), near = (one - 1) & fits;
                return sf_multiply(a, sf_float_of(FAR ? far : near));
        }
};
template <class ASK>
SF_DEVICE float sf_code_div_by(float a, float d, ASK &&ask)
{
        return sf_divisor<float>(d, 1e-27f, 1e9f, 1e27f).of(a, ask);
}
template <class ASK>
SF_DEVICE double sf_code_div_by(double a, double d, ASK &&ask)
{
        return sf_divisor<double>(d, 1e-240, 1e30, 1e240).of(a, ask);
}
template <class T> SF_DEVICE T sf_code_square(T a) { return sf_code_mul(a, a); }

SF_DEVICE float sf_code_maximum(float a, float b) { return sf_larger(a, b); }
SF_DEVICE double sf_code_maximum(double a, double b) { return sf_larger(a, b); }
template <class T> SF_DEVICE T sf_code_maximum(T a, T b) { return a < b ? b : a; }
SF_DEVICE float sf_code_minimum(float a, float b) { return sf_smaller(a, b); }
SF_DEVICE double sf_code_minimum(double a, double b) { return sf_smaller(a, b); }
template <class T> SF_DEVICE T sf_code_minimum(T a, T b) { return a < b ? a : b; }

template <class T> SF_DEVICE T sf_code_relu(T a) { return a > 0 || a != a ? a : (T)0; }

template <class ASK> SF_DEVICE float sf_code_exp(float a, ASK &) { return sf_exp_f32(a); }
/* e^-62 and e^62 are dividends that need no check (sf_code_div_by): hence 62. */
SF_DEVICE float sf_code_exp(float a, sf_hasty &ask)
{
        ask.fails |= !(sf_magnitude(a) <= 62.0f);
        return sf_exp_plain_f32(a);
}
template <class ASK> SF_DEVICE double sf_code_exp(double a, ASK &) { return sf_exp_f64(a); }
SF_DEVICE float sf_code_log(float a) { return sf_log_f32(a); }
SF_DEVICE double sf_code_log(double a) { return sf_log_f64(a); }
template <class T> SF_DEVICE T sf_code_sqrt(T a) { return sf_root(a); }
SF_DEVICE float sf_code_tanh(float a) { return sf_tanh_f32(a); }
SF_DEVICE double sf_code_tanh(double a) { return sf_tanh_f64(a); }
SF_DEVICE float sf_code_sigmoid(float a) { return sf_sigmoid_f32(a); }
SF_DEVICE double sf_code_sigmoid(double a) { return sf_sigmoid_f64(a); }

template <class T> SF_DEVICE sf_u32 sf_code_eq(T a, T b) { return a == b; }
template <class T> SF_DEVICE sf_u32 sf_code_ne(T a, T b) { return a != b; }
template <class T> SF_DEVICE sf_u32 sf_code_lt(T a, T b) { return a < b; }
template <class T> SF_DEVICE sf_u32 sf_code_le(T a, T b) { return a <= b; }
template <class T> SF_DEVICE sf_u32 sf_code_gt(T a, T b) { return a > b; }
template <class T> SF_DEVICE sf_u32 sf_code_ge(T a, T b) { return a >= b; }
template <class T> SF_DEVICE T sf_code_where(sf_u32 c, T a, T b) { return c ? a : b; }
