/*
 * ragged.inc.h: segments no longer than a vector, as many at a time as fit in one, and segments of
 * a few vectors. Template, part of kernels.inc.h.
 *
 * For rows of one length, the tables of lanes.h say which lane is combined with which. Here this
 * follows from the position of each lane in its segment: at level k, a lane whose position has bit
 * k set adds the last lane of the block of 2^k positions before it.
 */
typedef struct O(ragged) {
        int levels;
        bool reverse;
        K_BITS lane;
        K_LANE_UNSIGNED *at; /* each element's position in its segment, in memory's order */
        int64_t elements;
        /* With room before and after, because a segment's positions are stored as whole vectors. */
        K_LANE_UNSIGNED room[SF_CPU_RAGGED_MOST + 2 * SF_CPU_RAGGED_ROOM];
} O(ragged);
typedef K_LANE_UNSIGNED O(ragged_lanes) __attribute__((vector_size(V_BYTES), aligned(K_LANE_BYTES), may_alias));

/* A lane index in the form of the instruction set's permute. Lanes that are not selected may have
 * any index. */
SF_INLINE v_raw O(ragged_index)(K_BITS lane)
{
        lane &= K_WIDTH - 1;
#if V_PERMUTE_BYTES >= K_LANE_BYTES
        return (v_raw)lane;
#elif V_PERMUTE_BYTES == 4
        return (v_raw)(lane * 0x0000000200000002u + 0x0000000100000000u);
#elif K_LANE_BYTES == 4
        return (v_raw)(lane * 0x04040404u + 0x03020100u);
#else
        return (v_raw)(lane * 0x0808080808080808u + 0x0706050403020100u);
#endif
}

SF_INLINE v_mask O(ragged_some)(K_BITS v)
{
        const K_BITS zero = {0};
        return K_CAT(v_above_u, K_LANE_BITS)(v, zero);
}

/* Lane j is bound[j]. */
SF_INLINE K_BITS O(ragged_bounds)(const int32_t *bound)
{
        typedef int32_t bounds __attribute__((vector_size(4 * K_WIDTH), aligned(4), may_alias));
        return __builtin_convertvector(*(const bounds *)bound, K_BITS);
}

static V_APART void O(ragged_make)(O(ragged) *r, const sf_rows *j, const int32_t *bound, int64_t count)
{
        int32_t longest = 1;
        r->reverse = j->lanes->reverse;
        r->elements = bound[count] - bound[0];
        r->at = r->room + SF_CPU_RAGGED_ROOM;
        for (int i = 0; i < K_WIDTH; i++)
                r->lane[i] = (K_LANE_UNSIGNED)i;
        for (int64_t i = 0; i < count; i++)
                longest = bound[i + 1] - bound[i] > longest ? bound[i + 1] - bound[i] : longest;
        longest = longest < K_WIDTH ? longest : K_WIDTH;
        r->levels = longest > 1 ? sf_order_log2((uint64_t)longest - 1) + 1 : 0;
        if (!r->levels) { /* every element is the first of its segment */
                memset(r->at, 0, (size_t)r->elements * sizeof *r->at);
                return;
        }
        /* The positions of each segment are stored over the place of the next segment, whose own
         * are stored after. */
        for (int64_t i = 0; i < count; i++) {
                const int32_t begin = bound[i] - bound[0];
                if (r->reverse)
                        *(O(ragged_lanes) *)(r->at + r->elements - begin - K_WIDTH) = K_WIDTH - 1 - r->lane;
                else
                        *(O(ragged_lanes) *)(r->at + begin) = r->lane;
        }
}

/* The end of the segments from `first` on that fit in one vector. */
SF_INLINE int64_t O(ragged_fit)(const int32_t *bound, int64_t first, int64_t count)
{
        const int32_t end = bound[first] + K_WIDTH;
#ifdef V_MASK_BITS
        const K_BITS zero = {0}, ends = O(ragged_bounds)(bound + first + 1);
        const int64_t fits = K_WIDTH - __builtin_popcountll(K_CAT(v_above_u, K_LANE_BITS)(ends, zero + (K_LANE_UNSIGNED)end));
        return fits < count - first ? first + fits : count;
#else
        int64_t next = first + 1;
        while (next < count && bound[next + 1] <= end && next - first < K_WIDTH)
                next++;
        return next;
#endif
}

/* Scans the segments of one vector, of `elements` elements from `low` on in memory. *at gets the
 * elements' positions in their segments. */
SF_INLINE O(val) O(ragged_scan)(const O(ragged) *r, const sf_rows *j, const O(none) *none, int64_t low, int64_t before, int elements, K_BITS *at)
{
        O(val) v = O(load_some)(j->x + low * K_SIZE, j->m ? j->m + low : NULL, none, 0, elements);
        *at = *(const O(ragged_lanes) *)(r->at + before);
        for (int k = 0; k < r->levels; k++) {
                const K_BITS below = *at & (((K_LANE_UNSIGNED)1 << k) - 1);
                const v_raw index = O(ragged_index)(r->reverse ? r->lane + below + 1 : r->lane - below - 1);
                v = O(blend)(O(ragged_some)(*at & ((K_LANE_UNSIGNED)1 << k)), O(combine)(O(permute)(v, index), v), v);
        }
        if (j->carry)
                O(add_carry)(j->carry, &v, 1);
        return v;
}

/* For the segments from `first` to `next`: where their lowest element is in memory, and how many of
 * the call's elements are before it there. */
SF_INLINE int64_t O(ragged_low)(const O(ragged) *r, const int32_t *bound, int64_t first, int64_t next, int64_t *before)
{
        *before = r->reverse ? r->elements - (bound[next] - bound[0]) : bound[first] - bound[0];
        return r->reverse ? 1 - bound[next] : bound[first];
}

/*
 * One segment of more than a vector, vector by vector: what is to the left is combined lowest level
 * first, and the total of the block that a vector closes is stored (order.h). A fold returns its
 * total in every position; a scan stores its results.
 */
SF_INLINE O(val) O(ragged_long)(const sf_rows *j, const N(tables) *t, const O(none) *none, const bool fold, N(vec) before, int64_t begin, int64_t elements)
{
        enum { LEVELS = 6 };
        _Static_assert(1 << (LEVELS - 1) == SF_CPU_RAGGED_LONG, "a level for every bit of a count of vectors");
        const bool reverse = j->lanes->reverse;
        int64_t low = reverse ? -begin - (K_WIDTH - 1) : begin;
        O(val) inside[LEVELS], v = none->value;
        inside[0] = v; /* never used, but compilers warn */
        for (int i = 0; elements > 0; i++, elements -= K_WIDTH, low += reverse ? -K_WIDTH : K_WIDTH) {
                const int count = elements < K_WIDTH ? (int)elements : K_WIDTH, first = reverse ? K_WIDTH - count : 0;
                const int64_t at = low + first;
                const uint8_t *m = j->m ? j->m + at : NULL;
                __builtin_prefetch(j->x + at * K_SIZE + j->ahead);
                if (count == K_WIDTH)
                        v = O(load)(j->x + at * K_SIZE, m, none);
                else
                        v = O(load_some)(j->x + at * K_SIZE, m, none, first, count);
                v = O(lane_scan)(v, t, K_LOG_WIDTH);
                if (fold)
                        v = count == K_WIDTH ? O(last)(v, t) : O(spread)(v, reverse ? first : count - 1, 1);
#ifdef K_ORDERED
                const int closed = sf_order_closed((uint64_t)i);
                for (int k = 0; k < closed; k++)
                        v = O(combine)(inside[k], v);
                inside[closed] = O(settle)(fold ? v : O(last)(v, t));
                for (int bits = i >> closed << closed; bits; bits &= bits - 1)
                        v = O(combine)(inside[__builtin_ctz((unsigned)bits)], v);
#else
                if (i)
                        v = O(combine)(inside[0], v);
                inside[0] = O(settle)(fold ? v : O(last)(v, t));
#endif
                if (fold)
                        continue;
                if (j->carry)
                        O(add_carry)(j->carry, &v, 1);
                N(vec) result = O(lower)(v, none);
                if (j->exclusive)
                        result = N(shift)(t, &before, result);
                if (count == K_WIDTH)
                        N(store)(j->y + at * K_OUT, result);
                else
                        N(store_part)(j->y + at * K_OUT, result, first, count);
        }
        return v;
}

#ifndef K_FOLDS
static void O(scan_segments)(const sf_rows *job, const int32_t *bound, int64_t count)
{
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        const N(vec) fill = j.exclusive ? O(get_fill)(j.carry->fill, &none) : none.element;
        O(ragged) r;
        O(ragged_make)(&r, &j, bound, count);
        for (int64_t first = 0, next; first < count; first = next) {
                int64_t before;
                K_BITS at;
                if (bound[first + 1] - bound[first] > K_WIDTH) {
                        next = first + 1;
                        O(ragged_long)(&j, &t, &none, false, fill, bound[first], bound[next] - bound[first]);
                        continue;
                }
                next = O(ragged_fit)(bound, first, count);
                const int elements = bound[next] - bound[first];
                if (!elements)
                        continue;
                const int64_t low = O(ragged_low)(&r, bound, first, next, &before);
                __builtin_prefetch(j.x + low * K_SIZE + j.ahead);
                N(vec) result = O(lower)(O(ragged_scan)(&r, &j, &none, low, before, elements, &at), &none);
                if (j.exclusive)
                        result = N(blend)(O(ragged_some)(at), N(permute)(result, O(ragged_index)(r.reverse ? r.lane + 1 : r.lane - 1)), fill);
                if (elements == K_WIDTH)
                        N(store)(j.y + low * K_OUT, result);
                else
                        N(store_part)(j.y + low * K_OUT, result, 0, elements);
        }
}
#endif

static void O(fold_segments)(const sf_rows *job, const int32_t *bound, int64_t count)
{
        sf_rows j = *job;
        const sf_carry *carry = j.carry;
        const N(tables) t = N(tables_of)(j.lanes);
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        O(ragged) r;
        O(ragged_make)(&r, &j, bound, count);
        j.carry = NULL; /* combined below, also for empty segments */
        for (int64_t first = 0, next; first < count; first = next) {
                int64_t before;
                K_BITS at;
                if (bound[first + 1] - bound[first] > K_WIDTH) {
                        next = first + 1;
                        O(val) v = O(ragged_long)(&j, &t, &none, true, none.element, bound[first], bound[next] - bound[first]);
                        if (carry)
                                O(add_carry)(carry, &v, 1);
                        N(store_part)(j.y + first * K_OUT, O(lower)(v, &none), 0, 1);
                        continue;
                }
                next = O(ragged_fit)(bound, first, count);
                const int elements = bound[next] - bound[first];
                const int64_t low = O(ragged_low)(&r, bound, first, next, &before);
                __builtin_prefetch(j.x + low * K_SIZE + j.ahead);
                O(val) v = none.value;
                if (elements) {
                        const K_BITS end = O(ragged_bounds)(bound + first + 1);
                        v = O(ragged_scan)(&r, &j, &none, low, before, elements, &at);
                        v = O(permute)(v, O(ragged_index)(r.reverse ? (K_LANE_UNSIGNED)bound[next] - end : end - (K_LANE_UNSIGNED)(bound[first] + 1)));
                        v = O(blend)(O(ragged_some)(end - O(ragged_bounds)(bound + first)), v, none.value);
                }
                if (carry)
                        O(add_carry)(carry, &v, 1);
                N(store_part)(j.y + first * K_OUT, O(lower)(v, &none), 0, (int)(next - first));
        }
}
