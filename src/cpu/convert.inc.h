/*
 * convert.inc.h: moving elements between a tensor and a contiguous block, with conversion.
 * Template, included by map_types.inc.h once for each instruction set. Conversions are those of
 * value.h: to the value that the accumulator would hold on the way in, rounded once on the way out.
 * Strides that equal the element size, or its negative, have loops of their own, so that the
 * compiler vectorises them.
 */
#define DTYPE(name, NAME, ctype, code, bits, kind) typedef at_##name c_##NAME;
#include "core/dtypes.def"
#undef DTYPE

#define PLAIN(v) (v)
#define TRUTH(v) ((v) != 0)

/*
 * All conversions there are: MOVE(from, to, how). An integer is cast to the unsigned type of the
 * target's width, because the signed type has the same bits.
 */
#define MOVES_INTEGER(MOVE, FROM, how)                                                                                   \
        MOVE(FROM, U8, how) MOVE(FROM, U16, how) MOVE(FROM, U32, how) MOVE(FROM, U64, how) MOVE(FROM, F32, how) MOVE(FROM, F64, how)
#define MOVES(MOVE)                                                                                                      \
        MOVE(F16, F32, sf_f32_from_f16)                                                                                  \
        MOVE(F16, F64, sf_f32_from_f16)                                                                                  \
        MOVE(F16, F16, PLAIN)                                                                                            \
        MOVE(BF16, F32, sf_f32_from_bf16)                                                                                \
        MOVE(BF16, F64, sf_f32_from_bf16)                                                                                \
        MOVE(BF16, BF16, PLAIN)                                                                                          \
        MOVE(F32, F32, PLAIN)                                                                                            \
        MOVE(F32, F64, PLAIN)                                                                                            \
        MOVE(F32, F16, sf_f16_from)                                                                                      \
        MOVE(F32, BF16, bf16_from_f32)                                                                                   \
        MOVE(F64, F64, PLAIN)                                                                                            \
        MOVE(F64, F32, PLAIN)                                                                                            \
        MOVE(F64, F16, sf_f16_from)                                                                                      \
        MOVE(F64, BF16, sf_bf16_from)                                                                                    \
        MOVES_INTEGER(MOVE, I8, PLAIN)                                                                                   \
        MOVES_INTEGER(MOVE, I16, PLAIN)                                                                                  \
        MOVES_INTEGER(MOVE, I32, PLAIN)                                                                                  \
        MOVES_INTEGER(MOVE, I64, PLAIN)                                                                                  \
        MOVES_INTEGER(MOVE, U8, PLAIN)                                                                                   \
        MOVES_INTEGER(MOVE, U16, PLAIN)                                                                                  \
        MOVES_INTEGER(MOVE, U32, PLAIN)                                                                                  \
        MOVES_INTEGER(MOVE, U64, PLAIN)                                                                                  \
        MOVES_INTEGER(MOVE, BOOL, TRUTH)

#define MOVE(FROM, TO, how)                                                                                              \
        static void move_##FROM##_##TO(const char *src, int64_t from, char *dst, int64_t to, int64_t count)              \
        {                                                                                                                \
                const int64_t s = (int64_t)sizeof(c_##FROM), d = (int64_t)sizeof(c_##TO);                                \
                if (from == s && to == d) {                                                                              \
                        M_INDEPENDENT                                                                                    \
                        for (int64_t i = 0; i < count; i++)                                                              \
                                ((c_##TO *)dst)[i] = (c_##TO)how(((const c_##FROM *)src)[i]);                            \
                } else if (from == -s && to == d) {                                                                      \
                        M_INDEPENDENT                                                                                    \
                        for (int64_t i = 0; i < count; i++)                                                              \
                                ((c_##TO *)dst)[i] = (c_##TO)how(((const c_##FROM *)src)[-i]);                           \
                } else {                                                                                                 \
                        for (int64_t i = 0; i < count; i++)                                                              \
                                *(c_##TO *)(dst + i * to) = (c_##TO)how(*(const c_##FROM *)(src + i * from));            \
                }                                                                                                        \
        }
MOVES(MOVE)
#undef MOVE

/* Contiguous halves are converted by vector instructions. */
static void move_half_in(const char *src, int64_t from, char *dst, int64_t to, int64_t count)
{
        if (from == 2 && to == 4)
                f32_from_f16(src, dst, count);
        else
                move_F16_F32(src, from, dst, to, count);
}

static void move_half_out(const char *src, int64_t from, char *dst, int64_t to, int64_t count)
{
        if (from == 4 && to == 2)
                f16_from_f32(src, dst, count);
        else
                move_F32_F16(src, from, dst, to, count);
}

static sf_move *mover(sf_dt from, sf_dt to)
{
        static const sf_dt same_bits[SF_DT_COUNT] = {
                [SF_DT_F16] = SF_DT_F16, [SF_DT_BF16] = SF_DT_BF16, [SF_DT_F32] = SF_DT_F32, [SF_DT_F64] = SF_DT_F64,
                [SF_DT_I8] = SF_DT_U8,   [SF_DT_I16] = SF_DT_U16,   [SF_DT_I32] = SF_DT_U32, [SF_DT_I64] = SF_DT_U64,
                [SF_DT_U8] = SF_DT_U8,   [SF_DT_U16] = SF_DT_U16,   [SF_DT_U32] = SF_DT_U32, [SF_DT_U64] = SF_DT_U64,
                [SF_DT_BOOL] = SF_DT_U8};
        if (from == SF_DT_F16 && to == SF_DT_F32)
                return move_half_in;
        if (from == SF_DT_F32 && to == SF_DT_F16)
                return move_half_out;
        switch (from * SF_DT_COUNT + same_bits[to]) {
#define MOVE(FROM, TO, how)                                                                                              \
        case SF_DT_##FROM * SF_DT_COUNT + SF_DT_##TO: return move_##FROM##_##TO;
                MOVES(MOVE)
#undef MOVE
        default: return NULL; /* not a pair that map.h promises */
        }
}

#undef MOVES
#undef MOVES_INTEGER
#undef PLAIN
#undef TRUTH
