/*
 * map.inc.h: the loops of one class. Template, included once for each class by map_types.inc.h.
 *
 * Parameters (undefined again at the end):
 *   M_NAME      f32, f64, i32, u32, i64 or u64, and M_C its C type
 *   M_BITS_C    the unsigned integer type of its size, and M_BITS how many bits that is
 *   M_REAL      1 or 0
 *   M_SIGNED    for integers: 1 or 0
 *
 * core/program.c defines what every code does. Loops are plain C that the compiler vectorises.
 */
#define M_CAT_(a, b) a##_##b
#define M_CAT(a, b) M_CAT_(a, b)
#define N(name) M_CAT(name, M_NAME)

#if !M_REAL
#if M_SIGNED
#define M_NEGATIVE(v) ((v) < 0)
#else
#define M_NEGATIVE(v) false
#endif

/*
 * Truncates a real of type R to an integer of 32 or 64 bits, and wraps it. A value that does not
 * fit becomes the lowest integer. It is replaced before the conversion, so that C's conversion is
 * always in range.
 */
#define M_TRUNCATED(C, v, end) ((C)((v) < (end) && (v) >= -(end) ? (v) : -(end)))
#if M_BITS == 32 && M_SIGNED
#define M_FROM_REAL(R, v) M_TRUNCATED(int32_t, v, (R)0x1p31)
#elif M_BITS == 32 || M_SIGNED
#define M_FROM_REAL(R, v) ((M_C)M_TRUNCATED(int64_t, v, (R)0x1p63))
#else
#define M_UPPER(R, v) ((v) >= (R)0x1p63)
#define M_FROM_REAL(R, v)                                                                          \
        ((M_C)M_TRUNCATED(int64_t, M_UPPER(R, v) ? (v) - (R)0x1p63 : (v), (R)0x1p63) ^             \
         (M_C)M_UPPER(R, v) << 63)
#endif
#endif

#if M_REAL
SF_INLINE M_BITS_C N(bits)(M_C v)
{
        M_BITS_C bits;
        memcpy(&bits, &v, sizeof bits);
        return bits;
}

/* As v_larger_f32 in vector.h: equal values that are not zeros have equal bits. */
SF_INLINE M_C N(extreme)(const sf_op op, M_C a, M_C b)
{
        M_C r = (op == SF_MAX ? a > b : a < b) ? a : b, tie;
        M_BITS_C both = op == SF_MAX ? N(bits)(a) & N(bits)(b) : N(bits)(a) | N(bits)(b);
        memcpy(&tie, &both, sizeof tie);
        r = a == b ? tie : r;
        return a != a ? a : r; /* if b is NaN, r is b already */
}

#if M_BITS == 32
#define M_LIBM(name) name##f
#else
#define M_LIBM(name) name
#endif
SF_INLINE M_C N(eval)(const sf_code code, M_C a, M_C b)
{
        switch (code) {
        case SF_CODE_ADD: return a + b;
        case SF_CODE_SUB: return a - b;
        case SF_CODE_MUL: return a * b;
        case SF_CODE_DIV: return a / b;
        case SF_CODE_MAXIMUM: return N(extreme)(SF_MAX, a, b);
        case SF_CODE_MINIMUM: return N(extreme)(SF_MIN, a, b);
        case SF_CODE_NEG: return -a;
        case SF_CODE_ABS: return M_LIBM(fabs)(a);
        case SF_CODE_EXP: return N(sf_exp)(a);
        case SF_CODE_LOG: return N(sf_log)(a);
        case SF_CODE_SQRT: return M_LIBM(sqrt)(a);
        case SF_CODE_SQUARE: return a * a;
        case SF_CODE_RELU: return a <= 0 ? 0 : a; /* NaN stays, -0.0 does not */
        case SF_CODE_SIGMOID: return N(sf_sigmoid)(a);
        default: return N(sf_tanh)(a);
        }
}
#undef M_LIBM
#else
SF_INLINE M_C N(eval)(const sf_code code, M_C a, M_C b)
{
        const M_BITS_C u = (M_BITS_C)a, w = (M_BITS_C)b;
        switch (code) {
        case SF_CODE_ADD: return (M_C)(u + w);
        case SF_CODE_SUB: return (M_C)(u - w);
        case SF_CODE_MUL: return (M_C)(u * w);
        case SF_CODE_MAXIMUM: return a > b ? a : b;
        case SF_CODE_MINIMUM: return a < b ? a : b;
        case SF_CODE_NEG: return (M_C)(0 - u);
        case SF_CODE_ABS: return M_NEGATIVE(a) ? (M_C)(0 - u) : a;
        case SF_CODE_SQUARE: return (M_C)(u * u);
        default: return M_NEGATIVE(a) ? 0 : a; /* relu */
        }
}
#endif

SF_INLINE bool N(test)(const sf_code code, M_C a, M_C b)
{
        switch (code) {
        case SF_CODE_EQ: return a == b;
        case SF_CODE_NE: return a != b;
        case SF_CODE_LT: return a < b;
        case SF_CODE_LE: return a <= b;
        case SF_CODE_GT: return a > b;
        default: return a >= b;
        }
}

/* ------------------------------------------------------------------------------------------------
 * Loops
 * ---------------------------------------------------------------------------------------------- */
#if M_REAL && M_BITS == 32 && defined(V_EXP)
/* sf_exp_f32 for a vector, with instructions that no compiler finds. The loop is vectorised. */
SF_INLINE v_f32 exp_of_vector(v_f32 x)
{
        const v_f32 v = v_clamp_f32(x, SF_EXP_LEAST_F32, SF_EXP_LARGEST_F32);
        float near[V_LANES4], n[V_LANES4];
        memcpy(near, &v, sizeof near);
        for (int i = 0; i < V_LANES4; i++) {
                float r;
                n[i] = sf_exp_parts_f32(near[i], &r) - 12582912.0f;
                near[i] = sf_exp_near_f32(r);
        }
        v_f32 power, result;
        memcpy(&power, n, sizeof power);
        memcpy(&result, near, sizeof result);
        return v_raise_f32(result, power);
}

SF_INLINE v_f32 eval_vector(const sf_code code, v_f32 a, v_f32 b)
{
        switch (code) {
        case SF_CODE_SUB: return a - b;
        case SF_CODE_MUL: return a * b;
        case SF_CODE_DIV: return a / b;
        default: return exp_of_vector(a);
        }
}

/* Runs a loop over whole vectors, and returns how many elements those have. Without a second code
 * `then` is SF_CODE_COUNT. With `soon`, it prefetches: a line for each vector, not many at once,
 * because a CPU has few buffers for lines that are on their way. */
SF_INLINE int64_t by_vectors(const sf_code first, const sf_code then, at_f32 *y, const at_f32 *a,
                             const at_f32 *b, const at_f32 *c, int64_t count, const char *soon,
                             int64_t step)
{
        int64_t i = 0;
        for (; i + V_LANES4 <= count; i += V_LANES4) {
                v_f32 v, w;
                if (soon)
                        __builtin_prefetch(soon + i * step, 0, 2);
                memcpy(&v, a + i, sizeof v);
                memcpy(&w, b + i, sizeof w);
                v = eval_vector(first, v, w);
                memcpy(&w, c + i, sizeof w);
                v = then == SF_CODE_COUNT ? v : eval_vector(then, v, w);
                memcpy(y + i, &v, sizeof v);
        }
        return i;
}

#endif

/* The whole vectors of a loop with an exponential in it; none of other loops. */
SF_INLINE int64_t N(vectors)(const sf_code first, const sf_code then, N(at) *y, const N(at) *a,
                             const N(at) *b, const N(at) *c, int64_t count)
{
#if M_REAL && M_BITS == 32 && defined(V_EXP)
        if (first == SF_CODE_EXP || then == SF_CODE_EXP)
                return by_vectors(first, then, y, a, b, c, count, NULL, 0);
#endif
        (void)first, (void)then, (void)y, (void)a, (void)b, (void)c, (void)count;
        return 0;
}

SF_INLINE void N(each)(const sf_code code, N(at) *y, const N(at) *a, const N(at) *b, int64_t count)
{
        M_INDEPENDENT
        for (int64_t i = N(vectors)(code, SF_CODE_COUNT, y, a, b, a, count); i < count; i++)
                y[i] = N(eval)(code, a[i], b[i]);
}

SF_INLINE void N(each_test)(const sf_code code, at_u32 *y, const N(at) *a, const N(at) *b, int64_t count)
{
        M_INDEPENDENT
        for (int64_t i = 0; i < count; i++)
                y[i] = N(test)(code, a[i], b[i]);
}

static void N(where)(void *to, const void *choice, const void *yes, const void *no, int64_t count)
{
        N(at) *y = to;
        const N(at) *a = yes, *b = no;
        const at_u32 *c = choice;
        M_INDEPENDENT
        for (int64_t i = 0; i < count; i++)
                y[i] = c[i] ? a[i] : b[i];
}

static void N(truth)(void *to, const void *from, const void *b, const void *c, int64_t count)
{
        at_u32 *y = to;
        const N(at) *a = from;
        (void)b;
        (void)c;
        M_INDEPENDENT
        for (int64_t i = 0; i < count; i++)
                y[i] = a[i] != 0;
}

SF_INLINE void N(fill)(void *to, M_C value, int64_t count)
{
        N(at) *y = to;
        M_INDEPENDENT
        for (int64_t i = 0; i < count; i++)
                y[i] = value;
}

/* Each instance names a code. The kind of a code decides whether a class has it. */
#define M_SAME(name, NAME)                                                                                               \
        static void N(name)(void *y, const void *a, const void *b, const void *c, int64_t count)                         \
        {                                                                                                                \
                (void)c;                                                                                                 \
                N(each)(SF_CODE_##NAME, y, a, b, count);                                                                 \
        }
#define M_TEST(name, NAME)                                                                                               \
        static void N(name)(void *y, const void *a, const void *b, const void *c, int64_t count)                         \
        {                                                                                                                \
                (void)c;                                                                                                 \
                N(each_test)(SF_CODE_##NAME, y, a, b, count);                                                            \
        }
#if M_REAL
#define M_REALS(name, NAME) M_SAME(name, NAME)
#else
#define M_REALS(name, NAME)
#endif
#define M_KIND_SOURCE(name, NAME)
#define M_KIND_CAST(name, NAME)
#define M_KIND_CHOOSE(name, NAME)
#define M_KIND_SAME M_SAME
#define M_KIND_REAL M_REALS
#define M_KIND_TEST M_TEST
#define CODE(name, NAME, arguments, kind) M_KIND_##kind(name, NAME)
#include "core/codes.def"
#undef CODE
#undef M_REALS
#undef M_KIND_SAME
#undef M_KIND_REAL
#undef M_KIND_TEST
#undef M_KIND_CHOOSE

#define M_ROW(name, NAME) [SF_CODE_##NAME] = N(name),
#if M_REAL
#define M_KIND_REAL M_ROW
#else
#define M_KIND_REAL(name, NAME)
#endif
#define M_KIND_SAME M_ROW
#define M_KIND_TEST M_ROW
#define M_KIND_CHOOSE M_ROW
static sf_loop *const N(loops)[SF_CODE_COUNT] = {
#define CODE(name, NAME, arguments, kind) M_KIND_##kind(name, NAME)
#include "core/codes.def"
#undef CODE
};

#if M_REAL
SF_INLINE void N(each_pair)(const sf_code first, const sf_code then, N(at) *y, const N(at) *a, const N(at) *b, const N(at) *c, int64_t count)
{
        M_INDEPENDENT
        for (int64_t i = N(vectors)(first, then, y, a, b, c, count); i < count; i++)
                y[i] = N(eval)(then, N(eval)(first, a[i], b[i]), c[i]);
}
#define PAIR(first, FIRST, then, THEN)                                                                                   \
        static void N(first##_##then)(void *y, const void *a, const void *b, const void *c, int64_t count)               \
        {                                                                                                                \
                N(each_pair)(SF_CODE_##FIRST, SF_CODE_##THEN, y, a, b, c, count);                                        \
        }
#include "cpu/pairs.def"
#undef PAIR
static const sf_pair N(pairs)[] = {
#define PAIR(first, FIRST, then, THEN) {SF_CODE_##FIRST, SF_CODE_##THEN, N(first##_##then)},
#include "cpu/pairs.def"
#undef PAIR
        {SF_CODE_COUNT, SF_CODE_COUNT, NULL}};

SF_INLINE void N(affine_as)(const sf_affine *f, const sf_code then, const bool centred, const bool weighted, const bool biased, char *y, int64_t count)
{
        enum { LANES = V_BYTES / sizeof(M_C) };
        const N(at) *x = (const void *)f->x, *weight = (const void *)f->weight, *bias = (const void *)f->bias;
        const M_C centre = centred ? *(const N(at) *)(const void *)f->centre : 0, scale = *(const N(at) *)(const void *)f->scale;
        const uintptr_t soon = (uintptr_t)f->soon;
        int64_t i = 0;
        for (; i + LANES <= count; i += LANES) {
                M_CAT(v, M_NAME) v, w;
                if (soon)
                        __builtin_prefetch((const char *)((uintptr_t)(x + i) + soon));
                memcpy(&v, x + i, sizeof v);
                v = centred ? v - centre : v;
                v = then == SF_CODE_MUL ? v * scale : then == SF_CODE_SUB ? v - scale : v / scale;
                if (weighted) {
                        memcpy(&w, weight + i, sizeof w);
                        v = v * w;
                }
                if (biased) {
                        memcpy(&w, bias + i, sizeof w);
                        v = v + w;
                }
                memcpy(y + i * (int64_t)sizeof(M_C), &v, sizeof v);
        }
        for (; i < count; i++) {
                M_C v = centred ? x[i] - centre : x[i];
                v = then == SF_CODE_MUL ? v * scale : then == SF_CODE_SUB ? v - scale : v / scale;
                v = weighted ? v * weight[i] : v;
                ((N(at) *)(void *)y)[i] = biased ? v + bias[i] : v;
        }
}

static void N(affine)(const sf_affine *f, void *y, int64_t count)
{
        const bool weighted = f->weight, biased = f->bias;
        if (f->then == SF_CODE_MUL && f->centre)
                biased && weighted ? N(affine_as)(f, SF_CODE_MUL, true, true, true, y, count)
                : weighted         ? N(affine_as)(f, SF_CODE_MUL, true, true, false, y, count)
                : biased           ? N(affine_as)(f, SF_CODE_MUL, true, false, true, y, count)
                                   : N(affine_as)(f, SF_CODE_MUL, true, false, false, y, count);
        else if (f->then == SF_CODE_MUL)
                biased && weighted ? N(affine_as)(f, SF_CODE_MUL, false, true, true, y, count)
                : weighted         ? N(affine_as)(f, SF_CODE_MUL, false, true, false, y, count)
                : biased           ? N(affine_as)(f, SF_CODE_MUL, false, false, true, y, count)
                                   : N(affine_as)(f, SF_CODE_MUL, false, false, false, y, count);
        else if (f->then == SF_CODE_SUB)
                f->centre ? N(affine_as)(f, SF_CODE_SUB, true, false, false, y, count) : N(affine_as)(f, SF_CODE_SUB, false, false, false, y, count);
        else
                f->centre ? N(affine_as)(f, SF_CODE_DIV, true, false, false, y, count) : N(affine_as)(f, SF_CODE_DIV, false, false, false, y, count);
}

SF_INLINE void N(gradient_as)(const sf_affine *f, const bool centred, const bool weighted, const bool sloped, char *y, int64_t count)
{
        enum { LANES = V_BYTES / sizeof(M_C) };
        const N(at) *x = (const void *)f->x, *given = (const void *)f->given, *weight = (const void *)f->weight;
        const M_C centre = centred ? *(const N(at) *)(const void *)f->centre : 0, scale = *(const N(at) *)(const void *)f->scale;
        const M_C shift = centred && sloped ? *(const N(at) *)(const void *)f->shift : 0;
        const M_C slope = sloped ? *(const N(at) *)(const void *)f->slope : 0;
        const uintptr_t soon = (uintptr_t)f->soon, beside = (uintptr_t)f->beside;
        int64_t i = 0;
        for (; i + LANES <= count; i += LANES) {
                M_CAT(v, M_NAME) h, v, w;
                if (soon)
                        __builtin_prefetch((const char *)((uintptr_t)(x + i) + soon));
                if (beside)
                        __builtin_prefetch((const char *)(beside + (uintptr_t)i * sizeof(M_C)));
                memcpy(&h, x + i, sizeof h);
                memcpy(&v, given + i, sizeof v);
                h = (centred ? h - centre : h) * scale;
                if (weighted) {
                        memcpy(&w, weight + i, sizeof w);
                        v = v * w;
                }
                v = sloped ? scale * ((centred ? v - shift : v) - h * slope) : v * h;
                memcpy(y + i * (int64_t)sizeof(M_C), &v, sizeof v);
        }
        for (; i < count; i++) {
                const M_C h = (centred ? x[i] - centre : x[i]) * scale, v = weighted ? given[i] * weight[i] : given[i];
                ((N(at) *)(void *)y)[i] = sloped ? scale * ((centred ? v - shift : v) - h * slope) : v * h;
        }
}

static void N(gradient)(const sf_affine *f, void *y, int64_t count)
{
        if (!f->slope)
                f->centre ? N(gradient_as)(f, true, true, false, y, count) : N(gradient_as)(f, false, true, false, y, count);
        else if (f->weight)
                f->centre ? N(gradient_as)(f, true, true, true, y, count) : N(gradient_as)(f, false, true, true, y, count);
        else
                f->centre ? N(gradient_as)(f, true, false, true, y, count) : N(gradient_as)(f, false, false, true, y, count);
}

#if M_BITS == 32 && defined(V_EXP)
/* What is left after the last whole vector is done by the loop that does not prefetch. */
#define M_BUSY(name, FIRST, THEN)                                                                  \
        static void busy_##name(void *y, const void *a, const void *b, const void *c,              \
                                int64_t count, const char *soon, int64_t step)                     \
        {                                                                                          \
                const sf_code first = SF_CODE_##FIRST, then = SF_CODE_##THEN;                      \
                const int64_t i = by_vectors(first, then, y, a, b, c, count, soon, step);          \
                N(name)((at_f32 *)y + i, (const at_f32 *)a + i, (const at_f32 *)b + i,             \
                        (const at_f32 *)c + i, count - i);                                         \
        }
M_BUSY(sub_exp, SUB, EXP)
M_BUSY(div, DIV, COUNT)
#undef M_BUSY
static const sf_busy busy_loops[] = {
        {sub_exp_f32, busy_sub_exp}, {div_f32, busy_div}, {NULL, NULL}};
#define M_BUSY_LOOPS busy_loops
#endif
#endif

/* ------------------------------------------------------------------------------------------------
 * Casts from every class to this one
 * ---------------------------------------------------------------------------------------------- */
#if M_REAL
#define M_FROM(v, real) ((M_C)(v))
#else
#define M_FROM(v, real)                                                                            \
        ((real) == 4   ? M_FROM_REAL(float, v)                                                     \
         : (real) == 8 ? M_FROM_REAL(double, v)                                                    \
                       : (M_C)(M_BITS_C)(v))
#endif
#define M_CAST(from, real)                                                                                               \
        static void N(cast_##from)(void *to, const void *src, const void *b, const void *c, int64_t count)               \
        {                                                                                                                \
                N(at) *y = to;                                                                                           \
                const at_##from *a = src;                                                                                \
                (void)b;                                                                                                 \
                (void)c;                                                                                                 \
                M_INDEPENDENT                                                                                            \
                for (int64_t i = 0; i < count; i++)                                                                      \
                        y[i] = M_FROM(a[i], real);                                                                       \
        }
M_CAST(f32, 4)
M_CAST(f64, 8)
M_CAST(i32, 0)
M_CAST(u32, 0)
M_CAST(i64, 0)
M_CAST(u64, 0)

#undef M_CAST
#undef M_FROM
#undef M_FROM_REAL
#undef M_TRUNCATED
#undef M_UPPER
#undef M_NEGATIVE
#undef M_ROW
#undef M_SAME
#undef M_TEST
#undef M_KIND_SOURCE
#undef M_KIND_CAST
#undef M_KIND_CHOOSE
#undef M_KIND_SAME
#undef M_KIND_REAL
#undef M_KIND_TEST
#undef N
#undef M_CAT
#undef M_CAT_
#undef M_NAME
#undef M_C
#undef M_BITS_C
#undef M_BITS
#undef M_REAL
#undef M_SIGNED
