/*
 * writer.inc.h: template, part of element.inc.h.
 *
 * Writes a run of results vector by vector; if asked for, in whole aligned vectors around the
 * cache. The tree does not depend on addresses. So if the output is not aligned, lanes are rotated
 * into place between two results: in registers or, where no instruction does that, in memory.
 */
typedef struct N(writer) {
        bool stream, reverse, first;
        int phase;  /* how many lanes past an aligned address results start */
#if K_LANE_BYTES < 4
        /* the two aligned vectors that a result overlaps */
        char room[2 * V_BYTES] __attribute__((aligned(V_BYTES)));
#else
        v_raw index; /* rotates by phase */
        v_mask below; /* the lanes below phase */
        N(vec) held; /* the previous result, rotated unless V_PERMUTE_TWO is defined */
#endif
} N(writer);

SF_INLINE void N(writer_start)(N(writer) *w, const char *y, bool stream, bool reverse)
{
        w->stream = stream && (uintptr_t)y % K_OUT == 0;
        w->reverse = reverse;
        w->first = true;
        w->phase = (int)((uintptr_t)y % (K_WIDTH * K_OUT) / K_OUT);
#if K_LANE_BYTES >= 4
        w->index = v_rotate_index(w->phase, K_LANE_BYTES);
        w->below = v_mask_below(w->phase, K_LANE_BYTES);
#endif
}

/* Streams a result that does not start at an aligned address. */
#if K_LANE_BYTES < 4
SF_INLINE void N(write_one_turned)(N(writer) *w, char *y, N(vec) v)
{
        /* which of the two is now complete */
        const int past = w->phase * K_OUT, ends = w->reverse ? V_BYTES : 0;
        char *to = y - past + ends;
        /* as in NumPy's large arrays: pieces of 16 bytes soon make whole lines */
        if (past % 16 == 0) {
                for (int i = 0; i < V_BYTES; i += 16)
                        v_stream(y + i, (const char *)&v + i, 16);
                return;
        }
        if (w->reverse)
                N(put)(w->room + V_BYTES, N(get)(w->room));
        N(put)(w->room + past, v);
        if (!w->first)
                v_stream(to, w->room + ends, V_BYTES);
        else if (w->reverse)
                memcpy(to, w->room + ends, (size_t)past);
        else
                memcpy(y, w->room + past, (size_t)(V_BYTES - past));
        if (!w->reverse)
                N(put)(w->room, N(get)(w->room + V_BYTES));
        w->first = false;
}
#else
SF_INLINE void N(write_one_turned)(N(writer) *w, char *y, N(vec) v)
{
        char *aligned = y - w->phase * K_OUT;
        N(vec) turned = N(permute)(v, w->index);
        if (w->first && w->reverse)
                N(store_part)(aligned + K_WIDTH * K_OUT, turned, 0, w->phase);
        else if (w->first)
                N(store_part)(y, turned, w->phase, K_WIDTH - w->phase);
#ifdef V_PERMUTE_TWO
        else if (w->reverse)
                N(stream)(aligned + K_WIDTH * K_OUT, N(permute_two)(v, w->held, w->index));
        else
                N(stream)(aligned, N(permute_two)(w->held, v, w->index));
        w->held = v;
#else
        else if (w->reverse)
                N(stream)(aligned + K_WIDTH * K_OUT, N(blend)(w->below, turned, w->held));
        else
                N(stream)(aligned, N(blend)(w->below, w->held, turned));
        w->held = turned;
#endif
        w->first = false;
}
#endif

/* Writes `count` results, the first one to `y`; the next ones a vector further up in memory, in
 * reverse down. */
SF_INLINE void N(write_now)(N(writer) *w, char *y, const N(vec) *results, const int count)
{
        const int64_t step = w->reverse ? -K_WIDTH * K_OUT : K_WIDTH * K_OUT;
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
                        w->first = false; /* to tell the compiler */
                        N(write_one_turned)(w, y + i * step, results[i]);
                }
        }
}
static V_APART void N(write)(N(writer) *w, char *y, const N(vec) *results, int count)
{
        const int64_t step = w->reverse ? -K_WIDTH * K_OUT : K_WIDTH * K_OUT;
        for (int i = 0; i < count; i++)
                N(write_now)(w, y + i * step, results + i, 1);
}

/* Writes what is still held. `y` is where the next vector would go. */
static V_APART void N(write_end)(N(writer) *w, char *y)
{
        if (!w->stream || !w->phase || w->first)
                return;
#if K_LANE_BYTES < 4
        const int past = w->phase * K_OUT;
        if (past % 16 == 0)
                return;
        if (w->reverse)
                memcpy(y + V_BYTES, w->room + past, (size_t)(V_BYTES - past));
        else
                memcpy(y - past, w->room, (size_t)past);
#else
#ifdef V_PERMUTE_TWO
        N(vec) turned = N(permute)(w->held, w->index);
#else
        N(vec) turned = w->held;
#endif
        if (w->reverse)
                N(store_part)(y + K_WIDTH * K_OUT, turned, w->phase, K_WIDTH - w->phase);
        else
                N(store_part)(y - w->phase * K_OUT, turned, 0, w->phase);
#endif
}
