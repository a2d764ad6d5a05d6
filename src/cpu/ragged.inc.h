/*
 * ragged.inc.h: segments no longer than a vector, as many at a time as fit in one, and segments of
 * a few vectors. Template, part of kernels.inc.h. Folds by halves are in ragged_halves.inc.h.
 *
 * For rows of one length, the tables of lanes.h say which lane is combined with which. Here this
 * follows from the position of each lane in its segment: at level k, a lane whose position has bit
 * k set adds the last lane of the block of 2^k positions before it.
 */
typedef struct O(ragged) {
        int levels;
        bool reverse;
        K_BITS lane;
        uint8_t *at; /* each element's position in its segment, in memory's order */
        int64_t elements;
        /* With room before and after, because 16 of a segment's positions are stored at once. */
        uint8_t room[SF_CPU_RAGGED_BLOCK * K_WIDTH + 2 * SF_CPU_RAGGED_ROOM];
} O(ragged);

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
        typedef uint8_t positions __attribute__((vector_size(16), aligned(1), may_alias));
        positions up, down;
        r->reverse = j->lanes->reverse;
        r->elements = bound[count] - bound[0];
        r->at = r->room + SF_CPU_RAGGED_ROOM;
        for (int i = 0; i < K_WIDTH; i++)
                r->lane[i] = (K_LANE_UNSIGNED)i;
        for (int i = 0; i < 16; i++) {
                up[i] = (uint8_t)i;
                down[i] = (uint8_t)(15 - i);
        }
        const int64_t longest = j->n < K_WIDTH ? j->n : K_WIDTH;
        r->levels = longest > 1 ? sf_order_log2((uint64_t)longest - 1) + 1 : 0;
        /* The positions of each segment are stored over the place of the next segment, whose own
         * are stored after. */
        if (r->reverse)
                for (int64_t i = 0; i < count; i++)
                        *(positions *)(r->at + r->elements - (bound[i] - bound[0]) - 16) = down;
        else
                for (int64_t i = 0; i < count; i++)
                        *(positions *)(r->at + (bound[i] - bound[0])) = up;
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
 * elements' positions in their segments. What other elements of the call a vector has there is
 * read too: it reaches no result. */
SF_INLINE O(val) O(ragged_scan)(const O(ragged) *r, const sf_rows *j, const O(none) *none, int64_t low, int64_t before, int elements, K_BITS *at)
{
        O(val) v;
        if (before + K_WIDTH <= r->elements && !j->m)
                v = O(load)(j->x + low * K_SIZE, NULL, none);
        else
                v = O(load_some)(j->x + low * K_SIZE, j->m ? j->m + low : NULL, none, 0, elements);
        *at = K_CAT(v_lanes_u, K_LANE_BITS)(r->at + before);
        for (int k = 0; k < r->levels; k++) {
                const K_BITS below = *at & (((K_LANE_UNSIGNED)1 << k) - 1);
                const v_raw index = O(ragged_index)(r->reverse ? r->lane + below + 1 : r->lane - below - 1);
                v = O(blend)(O(ragged_some)(*at & ((K_LANE_UNSIGNED)1 << k)), O(combine)(O(permute)(v, index), v), v);
        }
        if (j->carry)
                O(add_carry)(j->carry, &v, 1);
        return v;
}

/* Stores some lanes, or none. How many is hard to predict, so that one masked store is better than a
 * choice. */
SF_INLINE void O(ragged_store)(char *y, N(vec) v, int first, int count)
{
#if K_OUT == K_LANE_BYTES && defined(V_MASK_BITS)
        N(store_part)(y, v, first, count);
#else
        if (count == K_WIDTH)
                N(store)(y, v);
        else if (count > 0)
                N(store_part)(y, v, first, count);
#endif
}

/* For the segments from `first` to `next`: where their lowest element is in memory, and how many of
 * the call's elements are before it there. */
SF_INLINE int64_t O(ragged_low)(const O(ragged) *r, const int32_t *bound, int64_t first, int64_t next, int64_t *before)
{
        *before = r->reverse ? r->elements - (bound[next] - bound[0]) : bound[first] - bound[0];
        return r->reverse ? 1 - bound[next] : bound[first];
}

/*
 * One segment of more than a vector, tile by tile: what is to the left is combined lowest level
 * first, and the total of the block that a tile closes is kept (order.h). A fold returns its total
 * in every position; a scan stores its results. Elements after the segment that are not behind
 * `limit` may be read: they are to the right of all results.
 */
static V_APART O(val) O(ragged_long)(const sf_rows *job, const O(none) *none, const bool fold, N(vec) before, int64_t begin, int64_t end, int64_t limit)
{
        enum { TILE = V_SCAN_TILE, LEVELS = 6 };
        const sf_rows copy = *job, *j = &copy; /* which no store can change */
        const N(tables) tables = N(tables_of)(j->lanes), *t = &tables;
        _Static_assert(TILE << (LEVELS - 1) >= SF_CPU_RAGGED_LONG, "a level for every bit of a count of tiles");
        const bool reverse = j->lanes->reverse;
        O(val) inside[LEVELS], v[TILE];
        inside[0] = none->value; /* never used, but compilers warn */
        for (uint64_t tile = 0; begin < end; tile++, begin += TILE * K_WIDTH) {
                const int64_t left = end - begin, low = reverse ? 1 - K_WIDTH - begin : begin, step = reverse ? -K_WIDTH : K_WIDTH;
                const bool whole = begin + TILE * K_WIDTH <= limit;
                V_UNROLL
                for (int i = 0; i < TILE; i++)
                        __builtin_prefetch(j->x + (low + i * step) * K_SIZE + j->ahead);
                if (whole && !j->m) {
                        V_UNROLL
                        for (int i = 0; i < TILE; i++)
                                v[i] = O(load)(j->x + (low + i * step) * K_SIZE, NULL, none);
                } else {
                        for (int i = 0; i < TILE; i++) {
                                const int64_t rest = left - i * K_WIDTH;
                                const int count = rest < K_WIDTH ? (int)rest : K_WIDTH, first = reverse ? K_WIDTH - count : 0;
                                const int64_t at = low + i * step + first;
                                v[i] = none->value;
                                if (count > 0)
                                        v[i] = O(load_some)(j->x + at * K_SIZE, j->m ? j->m + at : NULL, none, first, count);
                        }
                }
                O(scan_tile)(t, O(fixed_levels), v);
                O(val) total = O(last)(v[TILE - 1], t);
#ifdef K_ORDERED
                const int closed = sf_order_closed(tile);
                for (uint64_t bits = tile; bits; bits &= bits - 1) {
                        const O(val) entry = inside[__builtin_ctzll(bits)];
                        V_UNROLL
                        for (int i = 0; i < TILE; i++)
                                v[i] = O(combine)(entry, v[i]);
                }
                for (int k = 0; k < closed; k++)
                        total = O(combine)(inside[k], total);
                inside[closed] = O(settle)(total);
#else
                if (tile) {
                        V_UNROLL
                        for (int i = 0; i < TILE; i++)
                                v[i] = O(combine)(inside[0], v[i]);
                        total = O(combine)(inside[0], total);
                }
                inside[0] = O(settle)(total);
#endif
                if (fold)
                        continue;
                if (j->carry)
                        O(add_carry)(j->carry, v, TILE);
                V_UNROLL
                for (int i = 0; i < TILE; i++) {
                        const int64_t rest = left > i * K_WIDTH ? left - i * K_WIDTH : 0;
                        const int count = rest < K_WIDTH ? (int)rest : K_WIDTH, first = reverse ? K_WIDTH - count : 0;
                        N(vec) result = O(lower)(v[i], none);
                        if (j->exclusive)
                                result = N(shift)(t, &before, result);
                        O(ragged_store)(j->y + (low + i * step + first) * K_OUT, result, first, count);
                }
        }
        /* the last position: so many vectors, of which the last is not full, are in the last tile */
        const int64_t last = end - (begin - TILE * K_WIDTH) - 1;
        return fold ? O(spread)(v[last / K_WIDTH], (int)(reverse ? K_WIDTH - 1 - last % K_WIDTH : last % K_WIDTH), 1) : v[0];
}

#ifndef K_FOLDS
static void O(scan_segments)(const sf_rows *job, const int32_t *bound, int64_t count)
{
        const sf_rows j = *job;
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        const N(vec) fill = j.exclusive ? O(get_fill)(j.carry->fill, &none) : none.element;
        O(ragged) r;
        O(ragged_make)(&r, &j, bound, count);
        for (int64_t first = 0, next; first < count; first = next) {
                int64_t before;
                K_BITS at;
                if (bound[first + 1] - bound[first] > K_WIDTH) {
                        next = first + 1;
                        O(ragged_long)(&j, &none, false, fill, bound[first], bound[next], bound[count]);
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
                O(ragged_store)(j.y + low * K_OUT, result, 0, elements);
        }
}
#endif

/* The mean length below which that is better than by halves. */
#ifndef K_TINY
#define K_TINY 4
#endif

/* Folds many segments of a few elements, or of none: as many at a time as fit in one vector. */
static V_APART void O(fold_tiny)(const sf_rows *job, const int32_t *bound, int64_t count)
{
        sf_rows j = *job;
        const sf_carry *carry = j.carry;
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        O(ragged) r;
        O(ragged_make)(&r, &j, bound, count);
        j.carry = NULL; /* combined below, also for empty segments */
        for (int64_t first = 0, next; first < count; first = next) {
                int64_t before;
                K_BITS at;
                if (bound[first + 1] - bound[first] > K_WIDTH) {
                        next = first + 1;
                        O(val) v = O(ragged_long)(&j, &none, true, none.element, bound[first], bound[next], bound[count]);
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

#ifdef K_SHORT_ROWS
#include "cpu/ragged_halves.inc.h"
#endif

static void O(fold_segments)(const sf_rows *j, const int32_t *bound, int64_t count)
{
#ifdef K_SHORT_ROWS
        if (bound[count] - bound[0] >= K_TINY * count || j->n > SF_CPU_RAGGED_LONG * K_WIDTH) {
                O(fold_halves)(j, bound, count);
                return;
        }
#endif
        O(fold_tiny)(j, bound, count);
}
