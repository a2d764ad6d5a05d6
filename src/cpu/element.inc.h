/*
 * element.inc.h: vectors of lanes, loaded from and stored to elements. Template; kernels.inc.h has the parameters.
 */
typedef K_VECTOR N(vec);
typedef K_LANE_C N(vec_at) __attribute__((vector_size(V_BYTES), aligned(1), may_alias));
typedef uint8_t N(bytes) __attribute__((vector_size(K_WIDTH), aligned(1), may_alias));

#define K_SIZE ((int)sizeof(K_STORAGE))

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
#else
        return v_f64_from_f32(p);
#endif
}

SF_INLINE void N(store)(char *p, N(vec) v)
{
#if K_CONVERT == K_SAME
        *(N(vec_at) *)p = v;
#elif K_CONVERT == K_HALF
        v_f16_from_f32(p, v);
#elif K_CONVERT == K_BRAIN
        v_bf16_from_f32(p, v);
#else
        v_f32_from_f64(p, v);
#endif
}

/* p is aligned to the stored vector, K_WIDTH * K_SIZE bytes. */
SF_INLINE void N(stream)(char *p, N(vec) v)
{
#if K_WIDTH * K_STORAGE_BYTES >= 16
        char whole[V_BYTES] __attribute__((aligned(64))); /* room for a whole vector of any storage */
        N(store)(whole, v);
        v_stream(p, whole, K_WIDTH * K_STORAGE_BYTES);
#else
        N(store)(p, v);
#endif
}

/* The same of `count` vectors one after another, up in memory or, from the end of the first one, down. Where two of them are a cache line, it
 * is written at once: half a line at a time occupies a buffer longer. */
#if defined(V_STREAM_HALVES) && K_WIDTH * K_STORAGE_BYTES == 32
enum { N(stream_align) = 64 };
#else
enum { N(stream_align) = K_WIDTH * K_STORAGE_BYTES };
#endif
SF_INLINE void N(stream_run)(char *p, const N(vec) *v, const int count, const bool down)
{
        const int64_t step = down ? -K_WIDTH * K_SIZE : K_WIDTH * K_SIZE;
#if defined(V_STREAM_HALVES) && K_WIDTH * K_STORAGE_BYTES == 32
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

/* Lanes first .. first + count - 1 only; the others come out as zero, and no memory but theirs is touched. */
SF_INLINE N(vec) N(load_part)(const char *p, int first, int count)
{
#if K_CONVERT == K_SAME && defined(V_MASK_BITS)
        return (N(vec))K_CAT(v_part_load, K_LANE_BYTES)(p, first, count);
#endif
        char whole[V_BYTES] __attribute__((aligned(64))); /* room for a whole vector of any storage */
#ifdef V_PARTS
        v_part_load(whole, p, K_SIZE, first, count);
#else
        memset(whole, 0, sizeof whole);
        memcpy(whole + first * K_SIZE, p, (size_t)(count * K_SIZE));
#endif
        return N(load)(whole);
}
SF_INLINE void N(store_part)(char *p, N(vec) v, int first, int count)
{
#if K_CONVERT == K_SAME && defined(V_MASK_BITS)
        K_CAT(v_part_store, K_LANE_BYTES)(p, (v_raw)v, first, count);
        return;
#endif
        char whole[V_BYTES] __attribute__((aligned(64))); /* room for a whole vector of any storage */
        N(store)(whole, v);
#ifdef V_PARTS
        v_part_store(p, whole, K_SIZE, first, count);
#else
        memcpy(p, whole + first * K_SIZE, (size_t)(count * K_SIZE));
#endif
}

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
#else
        const uint64_t whole = v_bytes_part(p, count) << 8 * first;
        return N(mask)((const uint8_t *)&whole);
#endif
}

SF_INLINE N(vec) N(blend)(v_mask m, N(vec) yes, N(vec) no)
{
        return K_CAT(v_blend_, K_LANE)(m, yes, no);
}
SF_INLINE N(vec) N(permute)(N(vec) v, v_raw index)
{
        return (N(vec))K_CAT(v_permute, K_LANE_BYTES)((v_raw)v, index);
}
#ifdef V_PERMUTE_TWO
SF_INLINE N(vec) N(permute_two)(N(vec) a, N(vec) b, v_raw index)
{
        return (N(vec))K_CAT(v_permute_two, K_LANE_BYTES)((v_raw)a, (v_raw)b, index);
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

SF_INLINE void N(store_unit)(char *y, N(vec) v, int unit)
{
        if (unit == K_WIDTH)
                N(store)(y, v);
        else
                N(store_part)(y, v, 0, unit);
}

/* Lane l becomes lane from + l % inner. */
SF_INLINE N(vec) N(spread)(N(vec) v, int from, int inner)
{
        K_BITS bits = (K_BITS)v;
        K_LANE_UNSIGNED lane[K_WIDTH];
        memcpy(lane, &bits, sizeof lane);
        for (int l = 0; l < K_WIDTH; l++)
                bits[l] = lane[from + l % inner];
        return (N(vec))bits;
}

/* V_SCAN_TILE vectors, `step` elements apart. */
SF_INLINE void N(store_tile)(char *y, int64_t step, int unit, const N(vec) *v)
{
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++, y += step * K_SIZE)
                N(store_unit)(y, v[i], unit);
}

/*
 * Results that are streamed wait for the next tile, and go out between its rows. A tile takes longer to compute than a core looks ahead:
 * written at its end, all cache lines would be sent at once, and then none while the next ones are computed. Where a vector of results is less than a
 * cache line, keeping them costs more than it gains.
 */
enum { N(holds) = K_CONVERT == K_SAME && V_BYTES == 64 };
typedef struct N(held) {
        char *y; /* where they go; NULL: there are none */
        N(vec) v[SF_CPU_GROUP][V_SCAN_TILE];
} N(held);

/* Do streamed results of these rows go to aligned addresses as they are? */
SF_INLINE bool N(aligned)(const sf_rows *j)
{
        /* In reverse, results go down in memory from the end of the first one. */
        const uintptr_t from = (uintptr_t)j->y + (uintptr_t)(j->lanes->reverse ? j->lanes->inner * K_SIZE : 0);
        return (from | (j->rows > 1 ? (uintptr_t)j->y_row : 0)) % N(stream_align) == 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * The order inside a vector: lanes.h's tables, held in registers
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct N(tables) {
        int levels;
        v_raw level[SF_LANES_LEVELS];
        v_mask level_on[SF_LANES_LEVELS];
        v_raw last, before; /* with V_PERMUTE_TWO, `before` of a vector and the one before it */
        v_mask before_on;
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
#ifdef V_PERMUTE_TWO
        t.before = (v_raw)K_CAT(v_blend_u, K_LANE_BITS)(t.before_on, (K_BITS)t.before, (K_BITS)t.last + K_WIDTH);
#endif
        return t;
}

/* ------------------------------------------------------------------------------------------------------------
 * Writing a run of results vector after vector, whole aligned vectors past the cache where that is asked for. The tree knows
 * nothing of addresses, so where the output is not aligned the lanes are rotated into place between two results.
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct N(writer) {
        bool stream, reverse, first;
        int phase;  /* lanes by which results start past an aligned address */
        v_raw index; /* rotates by phase */
        v_mask below; /* the lanes below phase */
        N(vec) held; /* the previous result, rotated unless there is V_PERMUTE_TWO */
} N(writer);

SF_INLINE N(writer) N(writer_start)(const char *y, bool stream, bool reverse)
{
        N(writer) w = {.stream = stream && (uintptr_t)y % K_STORAGE_BYTES == 0, .reverse = reverse, .first = true};
        w.phase = (int)((uintptr_t)y % (K_WIDTH * K_STORAGE_BYTES) / K_STORAGE_BYTES);
        w.index = v_rotate_index(w.phase, K_LANE_BYTES);
        w.below = v_mask_below(w.phase, K_LANE_BYTES);
        return w;
}

/* Streams a result that does not start at an aligned address. */
SF_INLINE void N(write_one_turned)(N(writer) *w, char *y, N(vec) v)
{
        char *aligned = y - w->phase * K_SIZE;
        N(vec) turned = N(permute)(v, w->index);
        if (w->first && w->reverse)
                N(store_part)(aligned + K_WIDTH * K_SIZE, turned, 0, w->phase);
        else if (w->first)
                N(store_part)(y, turned, w->phase, K_WIDTH - w->phase);
#ifdef V_PERMUTE_TWO
        else if (w->reverse)
                N(stream)(aligned + K_WIDTH * K_SIZE, N(permute_two)(v, w->held, w->index));
        else
                N(stream)(aligned, N(permute_two)(w->held, v, w->index));
        w->held = v;
#else
        else if (w->reverse)
                N(stream)(aligned + K_WIDTH * K_SIZE, N(blend)(w->below, turned, w->held));
        else
                N(stream)(aligned, N(blend)(w->below, w->held, turned));
        w->held = turned;
#endif
        w->first = false;
}

/* `y` is where the first of `count` results belongs; they go up in memory by whole vectors, or down in reverse. */
SF_INLINE void N(write)(N(writer) *w, char *y, const N(vec) *results, const int count)
{
        const int64_t step = w->reverse ? -K_WIDTH * K_SIZE : K_WIDTH * K_SIZE;
        if (!w->stream) {
                V_UNROLL
                for (int i = 0; i < count; i++)
                        N(store)(y + i * step, results[i]);
        } else if (!w->phase) {
                V_UNROLL
                for (int i = 0; i < count; i++)
                        N(stream)(y + i * step, results[i]);
        } else {
                N(write_one_turned)(w, y, results[0]);
                V_UNROLL
                for (int i = 1; i < count; i++) {
                        w->first = false; /* so that the compiler sees it is */
                        N(write_one_turned)(w, y + i * step, results[i]);
                }
        }
}

/* `y` is where the next vector would have gone. */
SF_INLINE void N(write_end)(N(writer) *w, char *y)
{
        if (!w->stream || !w->phase || w->first)
                return;
#ifdef V_PERMUTE_TWO
        N(vec) turned = N(permute)(w->held, w->index);
#else
        N(vec) turned = w->held;
#endif
        if (w->reverse)
                N(store_part)(y + K_WIDTH * K_SIZE, turned, w->phase, K_WIDTH - w->phase);
        else
                N(store_part)(y - w->phase * K_SIZE, turned, 0, w->phase);
}
