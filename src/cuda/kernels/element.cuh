/*
 * element.cuh: one element: the accumulator, and the conversion from storage to it and back.
 *
 * A prelude written by emit_text.c comes before all other text and defines these macros: SF_ENTRY
 * (the kernel's name); SF_OP; SF_IN, SF_ACC, SF_OUT (numbers of the SF_DT_ list); SF_MASK;
 * SF_EXCLUSIVE; SF_INITIAL; SF_X_UNIT, SF_Y_UNIT, SF_M_UNIT (1: neighbours are contiguous; -1:
 * contiguous, in reverse; 0: any stride); SF_RAGGED (the length is no multiple of the width);
 * SF_THREADS; SF_ITEMS; SF_WIDTH; SF_NBATCH; SF_NSEQ; SF_DIMS; SF_PARAMS_SIZE; SF_FUSED; and those
 * that the kernel file names at its head.
 *
 * SF_FUSED: elementwise work is fused with the loads and the stores. Then there are SF_LOAD_FUSED
 * and SF_STORE_FUSED. SF_LOADS(F) and SF_STORES(F) list the operands that the load program and the
 * store program read: F(number, dtype, unit), where unit is as SF_X_UNIT, or 2 for one element for
 * the whole line. The programs themselves come after codes.cuh. SF_STILL, bit k: operand k, a
 * vector of columns, is the same for every element of a sequence and is loaded only once.
 * SF_LOOSE_ONES, bit k: operand k has contiguous elements that are not aligned as vectors. SF_SHORT,
 * bit k: it lacks the sequence's last element, and is 0 there.
 *
 * SF_MEMBERS: how many folds one launch computes from one read. If there are several, they are
 * fused steps, and members.cuh defines their accumulator.
 *
 * SF_TOTAL: a scan also stores its total, as the result of another step. The store program of that
 * step is among the programs.
 *
 * SF_ELEMENT: a scan or fold of indices also stores the element at each index, in the same way.
 *
 * SF_SECOND: there are two results at every position: with SF_ELEMENT, or because two store programs
 * have different work for the results of one scan.
 */

static_assert(sizeof(sf_params) == SF_PARAMS_SIZE,
              "the host counts other parameters than shared.h has");

SF_DEVICE sf_i64 sf_divide(sf_i64 a, sf_i64 b)
{
        if (!((a | b) >> 32))
                return (sf_i64)((sf_u32)a / (sf_u32)b);
        return a / b;
}

/* ------------------------------------------------------------------------------------------------
 * The accumulator. Integers narrower than 32 bits are held in 32 and wrap when they are stored.
 * ---------------------------------------------------------------------------------------------- */
#define SF_SIGNED(dt) ((dt) == SF_DT_I8 || (dt) == SF_DT_I16 || (dt) == SF_DT_I32 || (dt) == SF_DT_I64)
#define SF_SIZE(dt)                                                                                                      \
        ((dt) == SF_DT_F64 || (dt) == SF_DT_I64 || (dt) == SF_DT_U64                          ? 8                       \
         : (dt) == SF_DT_F32 || (dt) == SF_DT_I32 || (dt) == SF_DT_U32                        ? 4                       \
         : (dt) == SF_DT_F16 || (dt) == SF_DT_BF16 || (dt) == SF_DT_I16 || (dt) == SF_DT_U16 ? 2                       \
                                                                                              : 1)
#define SF_OUT_SIZE SF_SIZE(SF_OUT)

/* a combined with b; a is on the left. */
template <int OP, class T> SF_DEVICE T sf_join(T a, T b)
{
        if (OP == SF_OP_SUM)
                return (T)((sf_u64)a + (sf_u64)b);
        if (OP == SF_OP_PROD)
                return (T)((sf_u64)a * (sf_u64)b);
        return (a < b) == (OP == SF_OP_MAX) ? b : a;
}

template <int OP, class T> SF_DEVICE T sf_join_reals(T a, T b)
{
        if (OP == SF_OP_SUM)
                return sf_add(a, b);
        if (OP == SF_OP_PROD)
                return sf_multiply(a, b);
        return OP == SF_OP_MAX ? sf_larger(a, b) : sf_smaller(a, b);
}
template <int OP> SF_DEVICE float sf_join(float a, float b) { return sf_join_reals<OP>(a, b); }
template <int OP> SF_DEVICE double sf_join(double a, double b) { return sf_join_reals<OP>(a, b); }
#if SF_PRODUCTS
template <int OP> SF_DEVICE sf_product_f32 sf_join(sf_product_f32 a, sf_product_f32 b) { return sf_combined(a, b); }
template <int OP> SF_DEVICE sf_product_f64 sf_join(sf_product_f64 a, sf_product_f64 b) { return sf_combined(a, b); }
#endif
#if SF_EXPONENTIALS || SF_INDICES || SF_TWOS
template <int OP, class A, class B> SF_DEVICE sf_pair_of<A, B> sf_join(sf_pair_of<A, B> a, sf_pair_of<A, B> b) { return sf_value<OP, A>::combine(a, b); }
#endif

/* Most operations commute, bit for bit, except for which of two NaNs the result is. Then lanes that
 * exchange totals need not find out which total goes on the left. Tests define another operation
 * here, which does not commute. */
#ifndef SF_COMMUTES
#define SF_COMMUTES SF_OP_COMMUTES
#endif
#ifndef SF_JOIN
#define SF_JOIN(op, a, b) sf_join<op>(a, b)
#endif

#if SF_MEMBERS == 1
#if SF_ACC == SF_DT_F32
typedef float sf_number;
#define SF_REAL 1
#elif SF_ACC == SF_DT_F64
typedef double sf_number;
#define SF_REAL 1
#elif SF_ACC == SF_DT_I64
typedef sf_i64 sf_number;
#elif SF_ACC == SF_DT_U64
typedef sf_u64 sf_number;
#elif SF_ACC == SF_DT_I8 || SF_ACC == SF_DT_I16 || SF_ACC == SF_DT_I32
typedef int sf_number;
#else
typedef sf_u32 sf_number;
#endif
typedef sf_value<SF_OP, sf_number> sf_holds;
typedef sf_holds::type sf_acc;
/* What is stored for a value, directly or through the store program. SF_ELEMENT: the index and its
 * element. */
#if SF_INDICES
typedef sf_i64 sf_outcome_number;
#else
typedef sf_number sf_outcome_number;
#endif
#if SF_ELEMENT
struct sf_answer {
        sf_i64 number;
        sf_number element;
};
#else
typedef sf_outcome_number sf_answer;
#endif
static_assert(sizeof(sf_acc) == SF_VALUE_SIZE, "the host has another idea of how a value is held");

SF_DEVICE sf_number sf_number_of(sf_u64 bits)
{
#if SF_ACC == SF_DT_F32
        return sf_float_of((sf_u32)bits);
#elif SF_ACC == SF_DT_F64
        return sf_double_of(bits);
#else
        return (sf_number)bits;
#endif
}

SF_DEVICE sf_u64 sf_bits_of_number(sf_number v)
{
#if SF_REAL
        return sf_bits_of(v);
#elif SF_ACC == SF_DT_I64 || SF_ACC == SF_DT_U64
        return (sf_u64)v;
#else
        return (sf_u64)(sf_u32)v;
#endif
}

SF_DEVICE sf_acc sf_acc_of(sf_u64 bits) { return sf_holds::lift(sf_number_of(bits)); }

/* A value as words of 32 bits, and back. */
struct sf_words {
        sf_u32 w[sizeof(sf_acc) / 4];
};
SF_DEVICE sf_words sf_words_of(sf_acc v)
{
        sf_words words;
#if SF_PAIRED
        const sf_u64 part[2] = {sf_bits_of_number(sf_holds::first(v)), sf_holds::second(v)};
#else
        const sf_u64 part[1] = {sf_bits_of_number(v)};
#endif
#pragma unroll
        for (int k = 0; k < (int)(sizeof(sf_acc) / sizeof(sf_number)); k++)
#pragma unroll
                for (int w = 0; w < (int)(sizeof(sf_number) / 4); w++)
                        words.w[k * (int)(sizeof(sf_number) / 4) + w] = (sf_u32)(part[k] >> (32 * w));
        return words;
}
SF_DEVICE sf_acc sf_of_words(const sf_words &words)
{
        sf_u64 part[sizeof(sf_acc) / sizeof(sf_number)];
#pragma unroll
        for (int k = 0; k < (int)(sizeof(sf_acc) / sizeof(sf_number)); k++) {
                part[k] = 0;
#pragma unroll
                for (int w = 0; w < (int)(sizeof(sf_number) / 4); w++)
                        part[k] |= (sf_u64)words.w[k * (int)(sizeof(sf_number) / 4) + w] << (32 * w);
        }
#if SF_PAIRED
        return sf_holds::made(sf_number_of(part[0]), part[1]);
#else
        return sf_number_of(part[0]);
#endif
}

#if SF_TWIN
/*
 * SF_TWIN: two narrow columns are one, and the two elements of a row are one element, of type
 * SF_TWIN_OF each; only where any order gives the same bits. They are in the halves of a word,
 * bytes at the upper end of their half.
 */
SF_DEVICE sf_acc sf_combine(sf_acc a, sf_acc b)
{
        if (SF_TWIN_OF == SF_DT_F16)
                return sf_extreme_f16<SF_OP == SF_OP_MAX>(a, b);
        if (SF_TWIN_OF == SF_DT_BF16)
                return sf_extreme_bf16<SF_OP == SF_OP_MAX>(a, b);
        if (SF_OP == SF_OP_SUM)
                return (a + b) & 0xff00ff00u;
        return sf_extreme_halves<SF_OP == SF_OP_MAX, SF_TWIN_OF == SF_DT_I8>(a, b);
}
#else
SF_DEVICE sf_acc sf_combine(sf_acc a, sf_acc b) { return SF_JOIN(SF_OP, a, b); }
#endif
SF_DEVICE sf_acc sf_choose(bool first, sf_acc a, sf_acc b) { return sf_holds::choose(first, a, b); }
/*
 * A value that others may take. A settled product has a mantissa in [1, 2) (value.cuh), and in f32
 * an exponent that is limited to -2^27..2^27 (product.inc.h). So 15 settled exponents may be added;
 * the sum of 16, 2^31, wraps. One total for each level of a tree is less than that for 2^34 numbers
 * of one sequence. Exponents of numbers are -149..127. So the total of 2^19 numbers is not limited
 * yet, and sums over less than 2^31 / 149 numbers, 14 million, fit: in a tile, which has at most
 * 2^14, nobody has to ask. Who multiplies 16 totals or more that may have more numbers together
 * settles the products of 8 of them, of which 8 more may be multiplied (SF_LIMITS).
 */
SF_DEVICE sf_acc sf_settled(sf_acc v) { return sf_holds::settle(v); }
#if SF_PAIRED
SF_DEVICE sf_acc sf_shuffle(sf_acc v, int lane) { return sf_holds::shuffle(v, lane); }
#endif
SF_DEVICE sf_number sf_identity_number(const sf_params &p) { return sf_number_of(p.identity); }
SF_DEVICE sf_number sf_neutral_number(const sf_params &p) { return sf_number_of(p.neutral); }
SF_DEVICE sf_acc sf_identity(const sf_params &p) { return sf_acc_of(p.identity); }
SF_DEVICE sf_acc sf_neutral(const sf_params &p) { return sf_acc_of(p.neutral); }
#endif

/* ------------------------------------------------------------------------------------------------
 * Elements: storage to accumulator and back
 * ---------------------------------------------------------------------------------------------- */

/* SF_HELD_IN: x has totals of two components that another launch stored in the accumulator's
 * form. */
#define SF_HELD_IN (SF_RESUME && SF_PAIRED)
#define SF_IN_SIZE (SF_HELD_IN ? SF_VALUE_SIZE : SF_SIZE(SF_IN))

/* The bits of slot j of a vector, in the low end of the result. */
template <int SIZE, int BYTES> SF_DEVICE sf_u64 sf_slot(const sf_raw<BYTES> &r, int j)
{
        if (SIZE == 8)
                return (sf_u64)r.w[(2 * j) % ((BYTES + 3) / 4)] | (sf_u64)r.w[(2 * j + 1) % ((BYTES + 3) / 4)] << 32;
        sf_u32 w = r.w[j * SIZE / 4];
        if (SIZE == 4 || SIZE == BYTES) /* if it is alone in its word, the bits above it are 0 */
                return w;
        if (SIZE == 1)
                return sf_byte(w, j % 4);
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

/* One element by itself; the bits above it are 0. */
template <int SIZE> SF_DEVICE sf_raw<SIZE> sf_one_slot(sf_u64 bits)
{
        sf_raw<SIZE> one;
        one.w[0] = 0;
        sf_set_slot<SIZE>(one, 0, bits);
        return one;
}

/* The second of two words if `on`, else the first. If the words were elements of an array, the
 * compiler would choose an address and keep the array in memory. */
SF_DEVICE sf_u32 sf_second(sf_u32 a, sf_u32 b, bool on) { return on ? b : a; }

/* BYTES bytes of a followed by b, from byte `from` on, which is less than BYTES. */
SF_DEVICE sf_raw<16> sf_cut(const sf_raw<16> &a, const sf_raw<16> &b, int from)
{
        const bool two = from & 8, one = from & 4;
        const sf_u32 c0 = sf_second(a.w[0], a.w[2], two), c1 = sf_second(a.w[1], a.w[3], two), c2 = sf_second(a.w[2], b.w[0], two);
        const sf_u32 c3 = sf_second(a.w[3], b.w[1], two), c4 = sf_second(b.w[0], b.w[2], two), c5 = sf_second(b.w[1], b.w[3], two);
        const sf_u32 d0 = sf_second(c0, c1, one), d1 = sf_second(c1, c2, one), d2 = sf_second(c2, c3, one), d3 = sf_second(c3, c4, one),
                     d4 = sf_second(c4, c5, one);
        const int bits = (from & 3) * 8;
        sf_raw<16> r;
        r.w[0] = sf_funnel(d0, d1, bits);
        r.w[1] = sf_funnel(d1, d2, bits);
        r.w[2] = sf_funnel(d2, d3, bits);
        r.w[3] = sf_funnel(d3, d4, bits);
        return r;
}
SF_DEVICE sf_raw<8> sf_cut(const sf_raw<8> &a, const sf_raw<8> &b, int from)
{
        const bool one = from & 4;
        const sf_u32 d0 = sf_second(a.w[0], a.w[1], one), d1 = sf_second(a.w[1], b.w[0], one), d2 = sf_second(b.w[0], b.w[1], one);
        sf_raw<8> r;
        r.w[0] = sf_funnel(d0, d1, (from & 3) * 8);
        r.w[1] = sf_funnel(d1, d2, (from & 3) * 8);
        return r;
}
template <int BYTES> SF_DEVICE sf_raw<BYTES> sf_cut(const sf_raw<BYTES> &a, const sf_raw<BYTES> &b, int from)
{
        sf_raw<BYTES> r;
        if (BYTES == 4)
                r.w[0] = sf_funnel(a.w[0], b.w[0], (from & 3) * 8);
        else
                r.w[0] = (a.w[0] | b.w[0] << 8 * BYTES) >> 8 * (from & 1) & ((1u << 8 * BYTES % 32) - 1);
        return r;
}

/* Word k of a followed by b. */
template <int BYTES> SF_DEVICE sf_u32 sf_word_of_two(const sf_raw<BYTES> &a, const sf_raw<BYTES> &b, int k)
{
        enum { WORDS = (BYTES + 3) / 4 };
        return k < WORDS ? a.w[k % WORDS] : b.w[k % WORDS];
}

/* As sf_cut, where `from` is in word PAST. The compiler knows the words, so it needs no choices. */
template <int PAST, int SIZE, int BYTES> SF_DEVICE sf_raw<BYTES> sf_cut_at(const sf_raw<BYTES> &a, const sf_raw<BYTES> &b, int from)
{
        if (BYTES < 4)
                return sf_cut(a, b, from);
        sf_raw<BYTES> r;
#pragma unroll
        for (int k = 0; k < BYTES / 4; k++) {
                const sf_u32 low = sf_word_of_two(a, b, k + PAST);
                r.w[k] = SIZE < 4 ? sf_funnel(low, sf_word_of_two(a, b, k + PAST + 1), (from & 3) * 8) : low;
        }
        return r;
}

#if SF_MEMBERS == 1
SF_DEVICE sf_number sf_widen(sf_u64 bits)
{
#if SF_TWIN && SF_IN == SF_DT_U16
        return sf_bytes_apart((sf_u32)bits);
#elif SF_IN == SF_DT_F16
        return (sf_number)sf_from_half((sf_u32)bits);
#elif SF_IN == SF_DT_BF16
        return (sf_number)sf_float_of((sf_u32)bits << 16);
#elif SF_IN == SF_DT_F32
        return (sf_number)sf_float_of((sf_u32)bits);
#elif SF_IN == SF_DT_F64
        return (sf_number)sf_double_of(bits);
#elif SF_IN == SF_DT_BOOL
        return (sf_number)(bits != 0);
#elif SF_IN == SF_DT_I8
        return (sf_number)(signed char)bits;
#elif SF_IN == SF_DT_I16
        return (sf_number)(short)bits;
#elif SF_IN == SF_DT_I32
        return (sf_number)(int)bits;
#elif SF_IN == SF_DT_I64
        return (sf_number)(sf_i64)bits;
#elif SF_IN == SF_DT_U64
        return (sf_number)bits;
#else
        return (sf_number)(sf_u32)bits;
#endif
}

#endif

#if SF_FUSED || (SF_REAL && SF_ACC == SF_DT_F64 && (SF_OUT == SF_DT_F16 || SF_OUT == SF_DT_BF16))
/* Rounded once, to nearest even, to `man` stored mantissa bits and `exp` exponent bits. A
 * conversion by way of f32 would round twice. */
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

#if SF_MEMBERS == 1
SF_DEVICE sf_u64 sf_narrow(sf_outcome_number v)
{
#if SF_TWIN && SF_OUT == SF_DT_U16
        return sf_bytes_together(v);
#elif SF_INDICES
        return (sf_u64)v;
#elif SF_OUT == SF_DT_F64
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
#endif
