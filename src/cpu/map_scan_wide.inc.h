/*
 * map_scan_wide.inc.h: scans of narrow integers and of bool into sums of 64 bits, widened as they are loaded. Included once by
 * map_types.inc.h, an instance a type and direction.
 *
 * Integers wrap: whatever the order, the bits are the same. So what stands to the left is one number, and needs no counter and no panel.
 */

/* Bytes of an element: a constant in every instance, which sf_dtypes is not. */
SF_INLINE int wide_size(const sf_dt dt)
{
        return dt == SF_DT_I32 || dt == SF_DT_U32 ? 4 : dt == SF_DT_I16 || dt == SF_DT_U16 ? 2 : 1;
}

#ifndef V_WIDEN_INTEGERS
/* The element at p. */
SF_INLINE uint64_t wide_value(const sf_dt dt, const char *p)
{
        switch (dt) {
        case SF_DT_I8:
                return (uint64_t)(int64_t)*(const at_i8 *)p;
        case SF_DT_U8:
                return *(const at_u8 *)p;
        case SF_DT_I16:
                return (uint64_t)(int64_t)*(const at_i16 *)p;
        case SF_DT_U16:
                return *(const at_u16 *)p;
        case SF_DT_I32:
                return (uint64_t)(int64_t)*(const at_i32 *)p;
        case SF_DT_U32:
                return *(const at_u32 *)p;
        default:
                return *(const at_u8 *)p != 0;
        }
}
#endif

/* Elements first .. first + count - 1 of the vector that begins at p; the others come out as zero, and their memory is not touched. */
SF_INLINE v_u64 wide_load(const sf_dt dt, const char *p, int first, int count)
{
        const int size = wide_size(dt);
#ifdef V_WIDEN_INTEGERS
        char part[V_BYTES] __attribute__((aligned(V_BYTES)));
        if (count < V_LANES8)
                v_part_load(part, p + first * size, size, first, count);
        return v_u64_from(count < V_LANES8 ? part : p, size, dt == SF_DT_I8 || dt == SF_DT_I16 || dt == SF_DT_I32, dt == SF_DT_BOOL);
#else
        v_u64 v = {0};
        for (int i = 0; i < V_LANES8; i++)
                if (i >= first && i < first + count)
                        v[i] = wide_value(dt, p + i * size);
        return v;
#endif
}

SF_INLINE void wide_store(char *p, v_u64 v, int first, int count)
{
        if (count == V_LANES8) {
                *(v_raw_unaligned *)p = (v_raw)v;
                return;
        }
#ifdef V_WIDEN_INTEGERS
        v_part_store(p + first * 8, &v, 8, first, count);
#else
        for (int i = 0; i < V_LANES8; i++)
                if (i >= first && i < first + count)
                        ((at_u64 *)p)[i] = v[i];
#endif
}

/* One vector; `carry`, in all lanes, is what stands to its left. */
SF_INLINE v_u64 wide_step(const own_tables *t, const bool exclusive, v_u64 v, v_u64 *carry)
{
        V_UNROLL
        for (int k = 0; k < OWN_LEVELS; k++)
                v += v_blend_u64(t->level_on[k], (v_u64)v_permute8((v_raw)v, t->level[k]), (v_u64){0});
        const v_u64 before = exclusive ? v_blend_u64(t->before_on, (v_u64)v_permute8((v_raw)v, t->before), (v_u64){0}) : v, left = *carry;
        *carry = left + (v_u64)v_permute8((v_raw)v, t->last);
        return left + before;
}

SF_INLINE void wide_rows(const sf_own_scan *job, const sf_dt dt, const bool down)
{
        const sf_own_scan j = *job;
        const int size = wide_size(dt);
        const int64_t step = down ? -V_LANES8 : V_LANES8, low = down ? 1 - V_LANES8 : 0;
        const own_tables t = own_tables_of(j.lanes);
        for (int64_t r = 0; r < j.many; r++) {
                uint64_t *left = (uint64_t *)j.carries + r;
                v_u64 carry = (v_u64){0} + *left;
                /* A vector's address is its lowest element's. */
                const char *x = j.x + r * j.x_step + low * size;
                char *y = j.y + r * j.y_step + low * 8;
                int64_t rest = j.n;
                /* What is streamed must be whole aligned vectors: to the first, fewer elements. */
                const int past = (int)((uintptr_t)y % V_BYTES / 8);
                for (int count = !j.stream || !past ? V_LANES8 : down ? past : V_LANES8 - past; rest > 0; count = V_LANES8) {
                        for (; count == V_LANES8 && rest >= V_LANES8; rest -= V_LANES8, x += step * size, y += step * 8) {
                                __builtin_prefetch(x + (down ? -OWN_AHEAD : OWN_AHEAD));
                                const v_u64 v = wide_step(&t, j.exclusive, wide_load(dt, x, 0, V_LANES8), &carry);
                                if (j.stream)
                                        v_stream(y, &v, V_BYTES);
                                else
                                        wide_store(y, v, 0, V_LANES8);
                        }
                        if (!rest)
                                break;
                        count = rest < count ? (int)rest : count;
                        const int first = down ? V_LANES8 - count : 0;
                        wide_store(y, wide_step(&t, j.exclusive, wide_load(dt, x, first, count), &carry), first, count);
                        rest -= count;
                        x += (down ? -count : count) * size;
                        y += (down ? -count : count) * 8;
                }
                *left = carry[0];
        }
}

/* A cache line of columns, of several positions: lines are streamed whole. */
enum { WIDE_VECTORS = 64 / V_BYTES, WIDE_LINE = 8, WIDE_DOWN = 8 };
SF_INLINE void wide_lines(const sf_own_scan *j, const sf_dt dt, const bool stream, const char *x, char *y, char *left)
{
        v_u64 carry[WIDE_VECTORS];
        V_UNROLL
        for (int k = 0; k < WIDE_VECTORS; k++)
                carry[k] = (v_u64)v_raw_load(left + k * V_BYTES);
        V_UNROLL
        for (int i = 0; i < WIDE_DOWN; i++, x += j->x_step, y += j->y_step) {
                V_UNROLL
                for (int k = 0; k < WIDE_VECTORS; k++) {
                        const v_u64 v = carry[k] + wide_load(dt, x + k * V_LANES8 * wide_size(dt), 0, V_LANES8), to = j->exclusive ? carry[k] : v;
                        carry[k] = v;
                        if (stream)
                                v_stream(y + k * V_BYTES, &to, V_BYTES);
                        else
                                wide_store(y + k * V_BYTES, to, 0, V_LANES8);
                }
        }
        V_UNROLL
        for (int k = 0; k < WIDE_VECTORS; k++)
                wide_store(left + k * V_BYTES, carry[k], 0, V_LANES8);
}

/* A vector of columns, or `count` of them, of `rows` positions. */
SF_INLINE void wide_strip(const sf_own_scan *j, const sf_dt dt, const char *x, char *y, char *left, const int rows, const int count)
{
        v_u64 carry = {0};
        for (int i = 0; i < V_LANES8; i++)
                if (i < count)
                        carry[i] = ((const at_u64 *)left)[i];
        for (int i = 0; i < rows; i++, x += j->x_step, y += j->y_step) {
                const v_u64 v = carry + wide_load(dt, x, 0, count);
                wide_store(y, j->exclusive ? carry : v, 0, count);
                carry = v;
        }
        wide_store(left, carry, 0, count);
}

/* Several positions at a time, so that the carries come and go less often. */
SF_INLINE void wide_columns(const sf_own_scan *job, const sf_dt dt)
{
        const sf_own_scan j = *job;
        const int size = wide_size(dt);
        char *left = j.carries;
        for (int64_t at = 0; at < j.n; at += WIDE_DOWN) {
                const int rows = j.n - at < WIDE_DOWN ? (int)(j.n - at) : WIDE_DOWN;
                const char *x = j.x + at * j.x_step;
                char *y = j.y + at * j.y_step;
                int64_t done = 0;
                for (; rows == WIDE_DOWN && j.stream && done + WIDE_LINE <= j.many; done += WIDE_LINE)
                        wide_lines(&j, dt, true, x + done * size, y + done * 8, left + done * 8);
                for (; rows == WIDE_DOWN && !j.stream && done + WIDE_LINE <= j.many; done += WIDE_LINE)
                        wide_lines(&j, dt, false, x + done * size, y + done * 8, left + done * 8);
                for (; done + V_LANES8 <= j.many; done += V_LANES8)
                        wide_strip(&j, dt, x + done * size, y + done * 8, left + done * 8, rows, V_LANES8);
                if (done < j.many)
                        wide_strip(&j, dt, x + done * size, y + done * 8, left + done * 8, rows, (int)(j.many - done));
        }
}

typedef void wide_scan_of(const sf_own_scan *);
#define WIDE_INSTANCES(name, NAME)                                                                                       \
        static V_APART void wide_up_##name(const sf_own_scan *j) { wide_rows(j, SF_DT_##NAME, false); }                  \
        static V_APART void wide_down_##name(const sf_own_scan *j) { wide_rows(j, SF_DT_##NAME, true); }                 \
        static V_APART void wide_columns_##name(const sf_own_scan *j) { wide_columns(j, SF_DT_##NAME); }
WIDE_INSTANCES(i8, I8)
WIDE_INSTANCES(u8, U8)
WIDE_INSTANCES(truth, BOOL)
WIDE_INSTANCES(i16, I16)
WIDE_INSTANCES(u16, U16)
WIDE_INSTANCES(i32, I32)
WIDE_INSTANCES(u32, U32)
#undef WIDE_INSTANCES

static void wide_scan(const sf_own_scan *j)
{
#define WIDE(name) {wide_up_##name, wide_down_##name, wide_columns_##name}
        static wide_scan_of *const scans[SF_DT_COUNT][3] = {[SF_DT_I8] = WIDE(i8),   [SF_DT_U8] = WIDE(u8),   [SF_DT_BOOL] = WIDE(truth), [SF_DT_I16] = WIDE(i16),
                                                            [SF_DT_U16] = WIDE(u16), [SF_DT_I32] = WIDE(i32), [SF_DT_U32] = WIDE(u32)};
#undef WIDE
        scans[j->from][!j->lanes ? 2 : j->lanes->reverse](j);
}
