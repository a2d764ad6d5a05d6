/*
 * element.inc.h: vectors of lanes, loaded from and stored to elements. Template; kernels.inc.h has
 * the parameters.
 */
typedef K_VECTOR N(vec);
typedef K_LANE_C N(vec_at) __attribute__((vector_size(V_BYTES), aligned(1), may_alias));
typedef uint8_t N(bytes) __attribute__((vector_size(K_WIDTH), aligned(1), may_alias));

#define K_SIZE K_STORAGE_BYTES

/* Lanes in scratch memory. */
SF_INLINE N(vec) N(get)(const void *p)
{
        return *(const N(vec_at) *)p;
}
SF_INLINE void N(put)(void *p, N(vec) v)
{
        *(N(vec_at) *)p = v;
}

/* Elements of a tensor. */
SF_INLINE N(vec) N(load)(const char *p)
{
#if K_CONVERT == K_SAME
        return *(const N(vec_at) *)p;
#elif K_CONVERT == K_HALF
        return v_f32_from_f16(p);
#elif K_CONVERT == K_BRAIN
        return v_f32_from_bf16(p);
#elif K_CONVERT == K_WIDE
        return v_f64_from_f32(p);
#elif K_CONVERT == K_FROM_HALF
        return v_f64_from_f16(p);
#elif K_CONVERT == K_FROM_BRAIN
        return v_f64_from_bf16(p);
#elif K_CONVERT == K_TRUTH
        return (N(vec))(*(const N(vec_at) *)p != 0) & 1;
#elif K_SIZE == 8
        return *(const N(vec_at) *)p;
#else
        return v_u64_from(p, K_SIZE, K_CONVERT == K_FROM_TRUTH);
#endif
}

SF_INLINE void N(store)(char *p, N(vec) v)
{
#if K_CONVERT == K_HALF
        v_f16_from_f32(p, v);
#elif K_CONVERT == K_BRAIN
        v_bf16_from_f32(p, v);
#elif K_CONVERT == K_WIDE
        v_f32_from_f64(p, v);
#else
        *(N(vec_at) *)p = v;
#endif
}

/* p is aligned to the stored vector, K_WIDTH * K_OUT bytes. */
SF_INLINE void N(stream)(char *p, N(vec) v)
{
#if K_WIDTH * K_OUT >= 16
        char whole[V_BYTES] __attribute__((aligned(64))); /* room for a whole vector of any storage */
        N(store)(whole, v);
        v_stream(p, whole, K_WIDTH * K_OUT);
#else
        N(store)(p, v);
#endif
}

/* Streams `count` consecutive vectors, upwards in memory or, from the end of the first one,
 * downwards. If two of them are a cache line, it is written at once: half a line at a time occupies
 * a buffer longer. */
#if defined(V_STREAM_HALVES) && K_WIDTH * K_OUT == 32
enum { N(stream_align) = 64 };
#else
enum { N(stream_align) = K_WIDTH * K_OUT };
#endif
SF_INLINE void N(stream_run)(char *p, const N(vec) *v, const int count, const bool down)
{
        const int64_t step = down ? -K_WIDTH * K_OUT : K_WIDTH * K_OUT;
#if defined(V_STREAM_HALVES) && K_WIDTH * K_OUT == 32
        V_UNROLL
        for (int i = 0; i < count; i += 2) {
                char first[V_BYTES] __attribute__((aligned(64))), second[V_BYTES] __attribute__((aligned(64)));
                N(store)(first, v[i]);
                N(store)(second, v[i + 1]);
                if (down)
                        v_stream_halves(p + (i + 1) * step, second, first);
                else
                        v_stream_halves(p + i * step, first, second);
        }
#else
        V_UNROLL
        for (int i = 0; i < count; i++, p += step)
                N(stream)(p, v[i]);
#endif
}

/* v where the mask is on, elsewhere none. */
SF_INLINE N(vec) N(masked)(v_mask m, N(vec) v, N(vec) none)
{
#if K_CONVERT >= K_FROM_INTEGER && !K_REAL
        V_KEEP(v); /* gcc 12 cannot encode a conversion and a mask in one instruction */
#endif
        return K_CAT(v_blend_, K_LANE)(m, v, none);
}

/* Only lanes first .. first + count - 1. The others are zero, and no memory but theirs is accessed.
 * Where this takes more than one instruction it is a function call, because many places need it. */
#if (K_CONVERT == K_SAME || K_CONVERT == K_TRUTH) && defined(V_MASK_BITS)
SF_INLINE N(vec) N(load_part)(const char *p, int first, int count)
{
        const N(vec) v = (N(vec))K_CAT(v_part_load, K_LANE_BYTES)(p, first, count);
#if K_CONVERT == K_TRUTH
        return (N(vec))(v != 0) & 1;
#endif
        return v;
}
#else
static V_APART N(vec) N(load_part)(const char *p, int first, int count)
{
        char whole[V_BYTES] __attribute__((aligned(64))); /* room for a whole vector of any storage */
#ifdef V_PARTS
        v_part_load(whole, p, K_SIZE, first, count);
#else
        memset(whole, 0, sizeof whole);
        memcpy(whole + first * K_SIZE, p, (size_t)(count * K_SIZE));
#endif
        return N(load)(whole);
}
#endif
#if K_OUT == K_LANE_BYTES && defined(V_MASK_BITS)
SF_INLINE void N(store_part)(char *p, N(vec) v, int first, int count)
{
        K_CAT(v_part_store, K_LANE_BYTES)(p, (v_raw)v, first, count);
}
#else
static V_APART void N(store_part)(char *p, N(vec) v, int first, int count)
{
        char whole[V_BYTES] __attribute__((aligned(64)));
        N(store)(whole, v);
#ifdef V_PARTS
        v_part_store(p, whole, K_OUT, first, count);
#else
        memcpy(p, whole + first * K_OUT, (size_t)(count * K_OUT));
#endif
}
#endif

/* A mask's bytes. */
SF_INLINE v_mask N(mask)(const uint8_t *p)
{
#ifdef V_MASK_BITS
        return v_mask_bytes(p, K_WIDTH);
#else
        return (v_mask)(__builtin_convertvector(*(const N(bytes) *)p, K_BITS) != 0);
#endif
}
SF_INLINE v_mask N(mask_part)(const uint8_t *p, int first, int count)
{
#ifdef V_MASK_BITS
        return v_mask_bytes_part(p, first, count);
#elif K_WIDTH > 8
        uint8_t whole[K_WIDTH] = {0};
        memcpy(whole + first, p, (size_t)count);
        return N(mask)(whole);
#else
        const uint64_t whole = v_bytes_part(p, count) << 8 * first;
        return N(mask)((const uint8_t *)&whole);
#endif
}

SF_INLINE N(vec) N(blend)(v_mask m, N(vec) yes, N(vec) no)
{
        return K_CAT(v_blend_, K_LANE)(m, yes, no);
}
#if K_LANE_BYTES >= 4
SF_INLINE N(vec) N(permute)(N(vec) v, v_raw index)
{
        return (N(vec))K_CAT(v_permute, K_LANE_BYTES)((v_raw)v, index);
}
#endif
#if defined(V_PERMUTE_TWO) && K_LANE_BYTES >= 4
SF_INLINE N(vec) N(permute_two)(N(vec) a, N(vec) b, v_raw index)
{
        return (N(vec))K_CAT(v_permute_two, K_LANE_BYTES)((v_raw)a, (v_raw)b, index);
}
#endif
#if K_LANE_BYTES >= 4
/* The left lanes of the pairs that one level of halving combines, or the right ones: vector.h. */
SF_INLINE N(vec) N(paired)(N(vec) early, N(vec) late, const int level, const bool right)
{
        if (level % K_LOG_WIDTH < (K_LANE_BYTES == 4 ? 2 : 1))
                return right ? K_CAT(V_INNER, K_LANE_BYTES)(early, late, 1) : K_CAT(V_INNER, K_LANE_BYTES)(early, late, 0);
        return right ? K_CAT(V_OUTER, K_LANE_BYTES)(early, late, 16 / K_LANE_BYTES) : K_CAT(V_OUTER, K_LANE_BYTES)(early, late, 0);
}
/* Lanes in order again after so many levels. */
SF_INLINE N(vec) N(in_order)(N(vec) v, const int levels)
{
#if K_WIDTH == 8 || (K_WIDTH == 4 && K_LANE_BYTES == 8)
        if (levels % K_LOG_WIDTH == 1)
                return K_CAT(K_CAT(V_ORDER, K_LANE_BYTES), _1)(v);
#endif
#if K_WIDTH == 8 && K_LANE_BYTES == 8
        if (levels % K_LOG_WIDTH == 2)
                return V_ORDER8_2(v);
#endif
        (void)levels;
        return v;
}
#else
/* Lanes of 1 or 2 bytes stay together, in fours or twos: as many vectors become one as it has 4
 * bytes. */
SF_INLINE N(vec) N(paired)(N(vec) early, N(vec) late, const int level, const bool right)
{
        const v_u32 a = (v_u32)early, b = (v_u32)late;
        if (level < 2)
                return (N(vec))(right ? V_INNER4(a, b, 1) : V_INNER4(a, b, 0));
        return (N(vec))(right ? V_OUTER4(a, b, 4) : V_OUTER4(a, b, 0));
}
SF_INLINE N(vec) N(in_order)(N(vec) v, const int levels)
{
        (void)levels;
        return v;
}
#endif
SF_INLINE N(vec) N(broadcast)(sf_value value)
{
        K_LANE_C lane = (K_LANE_C)value.K_VALUE;
        N(vec) v;
        for (int i = 0; i < K_WIDTH; i++)
                v[i] = lane;
        return v;
}

SF_INLINE N(vec) N(load_unit)(const char *x, int unit)
{
        return unit == K_WIDTH ? N(load)(x) : N(load_part)(x, 0, unit);
}
SF_INLINE void N(store_unit)(char *y, N(vec) v, int unit)
{
        if (unit == K_WIDTH)
                N(store)(y, v);
        else
                N(store_part)(y, v, 0, unit);
}

/* Results of a fold, as elements or, if `wide`, as lanes; bytes of one. */
SF_INLINE void N(store_results)(char *y, N(vec) v, int count, bool wide)
{
#if K_OUT != K_LANE_BYTES
        if (wide) {
                memcpy(y, &v, (size_t)(count * K_LANE_BYTES));
                return;
        }
#endif
        (void)wide;
        N(store_unit)(y, v, count);
}
SF_INLINE int64_t N(result_bytes)(bool wide)
{
        return wide ? K_LANE_BYTES : K_OUT;
}

/* Lane l gets the value of lane from + l % inner. */
SF_INLINE N(vec) N(spread)(N(vec) v, int from, int inner)
{
        K_BITS bits = (K_BITS)v;
        K_LANE_UNSIGNED lane[K_WIDTH];
        memcpy(lane, &bits, sizeof lane);
        if (inner == 1) { /* one instruction */
                const K_BITS zero = {0};
                return (N(vec))(zero + lane[from]);
        }
        for (int l = 0; l < K_WIDTH; l++)
                bits[l] = lane[from + l % inner];
        return (N(vec))bits;
}

/* Reads the results of one position back from memory, repeated for every position of a vector. */
SF_INLINE N(vec) N(results)(const char *p, int inner)
{
#if K_OUT == K_LANE_BYTES
        N(vec) v = {0};
        memcpy(&v, p, (size_t)(inner * K_OUT));
#else
        const N(vec) v = N(load_part)(p, 0, inner);
#endif
        return N(spread)(v, 0, inner);
}

/* V_SCAN_TILE vectors, `step` elements apart. */
SF_INLINE void N(store_tile)(char *y, int64_t step, int unit, const N(vec) *v)
{
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++, y += step * K_OUT)
                N(store_unit)(y, v[i], unit);
}
/* Loads such a tile, with `none` for masked-out elements; the mask may be NULL. It is not inlined,
 * because code with a mask, or with vectors that are not full, gains nothing from it. */
static V_APART void N(load_tile)(const char *x, const uint8_t *m, int64_t step, int unit, const N(vec) *none, N(vec) *v)
{
        for (int i = 0; i < V_SCAN_TILE; i++, x += step * K_SIZE, m = m ? m + step : NULL) {
                v[i] = unit == K_WIDTH ? N(load)(x) : N(load_part)(x, 0, unit);
                if (m)
                        v[i] = N(masked)(unit == K_WIDTH ? N(mask)(m) : N(mask_part)(m, 0, unit), v[i], *none);
        }
}

/*
 * Streamed results are kept until the next tile is computed, and are written between its rows. A
 * tile takes longer to compute than a core looks ahead. If it were written at its end, all cache
 * lines would be sent at once, and then none while the next tile is computed. If a vector of
 * results is less than a cache line, keeping them costs more than it gains.
 */
enum { N(holds) = K_OUT == K_LANE_BYTES && V_BYTES == 64 };
typedef struct N(held) {
        char *y; /* where they go; NULL: nothing is kept */
        N(vec) v[SF_CPU_GROUP][V_SCAN_TILE];
} N(held);

/* Are the addresses of these rows' streamed results aligned without a shift? */
SF_INLINE bool N(aligned)(const sf_rows *j)
{
        /* In reverse, results go down in memory from the end of the first one. */
        const uintptr_t from = (uintptr_t)j->y + (uintptr_t)(j->lanes->reverse ? j->lanes->inner * K_OUT : 0);
        return (from | (j->rows > 1 ? (uintptr_t)j->y_row : 0)) % N(stream_align) == 0;
}

/* ------------------------------------------------------------------------------------------------
 * The order inside a vector: lanes.h's tables, held in registers
 * ---------------------------------------------------------------------------------------------- */
typedef struct N(tables) {
        int levels;
        v_raw level[SF_LANES_LEVELS];
        v_mask level_on[SF_LANES_LEVELS];
        /* with V_PERMUTE_TWO, `before` takes lanes of a vector and of the one before it */
        v_raw last, before;
        v_mask before_on;
#if K_LANE_BYTES < 4
        v_raw part_level[V_PART_LEVELS + 1], part_last, part_before;
        v_mask part_level_on[V_PART_LEVELS + 1], part_before_on;
#endif
} N(tables);

SF_INLINE N(tables) N(tables_of)(const sf_lanes *l)
{
        N(tables) t;
        t.levels = l->levels;
        for (int k = 0; k < SF_LANES_LEVELS; k++) {
                t.level[k] = v_raw_load(l->level[k].bytes);
                t.level_on[k] = v_mask_of(&l->level_on[k]);
        }
        t.last = v_raw_load(l->last.bytes);
        t.before = v_raw_load(l->before.bytes);
        t.before_on = v_mask_of(&l->before_on);
#if K_LANE_BYTES < 4
        for (int k = 0; k < V_PART_LEVELS; k++) {
                t.part_level[k] = v_raw_load(l->parts->level[k].bytes);
                t.part_level_on[k] = v_mask_of(&l->parts->level_on[k]);
        }
        t.part_last = v_raw_load(l->parts->last.bytes);
        t.part_before = v_raw_load(l->parts->before.bytes);
        t.part_before_on = v_mask_of(&l->parts->before_on);
#elif defined(V_PERMUTE_TWO)
        t.before = (v_raw)K_CAT(v_blend_u, K_LANE_BITS)(t.before_on, (K_BITS)t.before, (K_BITS)t.last + K_WIDTH);
#endif
        return t;
}

/* Every lane gets its left neighbour's value, and the first lane the last value before this vector.
 * *before becomes this vector's last value: with V_PERMUTE_TWO only in its own lane, else in every
 * lane. */
SF_INLINE N(vec) N(shift)(const N(tables) *t, N(vec) *before, N(vec) v)
{
#if K_LANE_BYTES < 4
        const v_raw ends = v_shuffle16((v_raw)v, t->last);
        const v_u64 left = v_blend_u64(t->part_before_on, v_permute8(ends, t->part_before), (v_u64)*before);
        const N(vec) inside = (N(vec))v_shuffle16((v_raw)v, t->before);
        *before = (N(vec))v_permute8(ends, t->part_last);
        return N(blend)(t->before_on, inside, (N(vec))left);
#elif defined(V_PERMUTE_TWO)
        const N(vec) shifted = N(permute_two)(v, *before, t->before);
        *before = v;
        return shifted;
#else
        const N(vec) shifted = N(blend)(t->before_on, N(permute)(v, t->before), *before);
        *before = N(permute)(v, t->last);
        return shifted;
#endif
}
/* The value that *before holds, in every lane. */
SF_INLINE N(vec) N(before_of)(const N(tables) *t, N(vec) before)
{
#if K_LANE_BYTES < 4
        (void)t;
        return before;
#else
        return N(permute)(before, t->last);
#endif
}

#include "cpu/writer.inc.h"

#if K_CONVERT >= K_FROM_INTEGER && !K_REAL
/* The sign bit of one element. */
SF_INLINE v_u64 N(sign)(v_u64 signs)
{
        return signs & (~(uint64_t)0 >> (64 - 8 * K_SIZE));
}

#if K_CONVERT == K_NONZERO
/* A vector of elements as bytes: 1 for each element in which one of the `asked` bits is set. */
SF_INLINE v_u64 N(unsigned)(v_u64 v, v_u64 asked)
{
        typedef K_CAT(K_UNSIGNED_, K_SIZE) lanes;
        const lanes one = {0}, some = (lanes)(v & asked);
        return (v_u64)((lanes)(some != 0) & (one + 1));
}
#else
/* A vector of elements as bytes, made unsigned: signed ones are increased by half of their range.
 * `signs` has the sign bits of all elements in 8 bytes. */
SF_INLINE v_u64 N(unsigned)(v_u64 v, v_u64 signs)
{
        return K_CONVERT == K_FROM_TRUTH ? (v_u64)((v_u8)((v_u8)v != 0) & 1) : v ^ signs;
}
#endif

/* A vector of elements as bytes; those in each 8 bytes are summed. Neighbours are added into
 * numbers twice as wide, until they are lanes. */
SF_INLINE v_u64 N(total)(v_u64 v, v_u64 asked)
{
        v = N(unsigned)(v, asked); /* bits that are asked for, or signs */
#if K_SIZE == 1 && defined(V_TOTAL_BYTES)
        v = v_total_bytes(v);
#else
        V_UNROLL
        for (int bits = 8 * K_SIZE; bits < 64; bits *= 2) {
                const uint64_t low = ~(uint64_t)0 / (((uint64_t)1 << bits) + 1);
                v = (v & low) + (v >> bits & low);
        }
#endif
        return K_CONVERT == K_FROM_INTEGER ? v - N(sign)(asked) * (8 / K_SIZE) : v;
}

/* The first `bytes` bytes of a vector; the others are zero. */
SF_INLINE v_u64 N(first_bytes)(const char *p, int bytes)
{
#ifdef V_MASK_BITS
        return (v_u64)v_part_load1(p, 0, bytes);
#else
        v_u64 v = {0};
        memcpy(&v, p, (size_t)bytes);
        return v;
#endif
}
#endif
