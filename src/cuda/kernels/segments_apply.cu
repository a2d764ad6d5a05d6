/*
 * segments_apply.cu: a chain (apply.cu) over lines that offsets cut into segments: folds of a
 * segment whose results go back to its elements, all in one launch.
 *
 * Nothing is published, and no block waits for another. A segment belongs to the warp in whose
 * window it begins; a window is as many positions as a warp has cells for, CELLS. The cells are
 * shared memory, to which x is copied as it lies in memory. From there a segment is computed
 *   - by rows, with others of its kind: up to 32 rows of SF_ROW elements, one for each lane. Rows of
 *     a segment find each other by their lanes' numbers. Results replace elements in the cells, and
 *     are stored at once. Of tiny segments a lane has several.
 *   - if it has more elements than 32 rows, by the warp alone, in chunks. A chunk has STRIPS strips
 *     of 32 neighbours, one for each lane.
 *   - if it has more elements than a warp has cells, by the whole block, after the others. The cells
 *     of all warps then have its first elements; the rest is read again for every step.
 * A segment of more than 32 * SF_PER chunks is left to further launches, one for each step. A block
 * writes down for them which such segment was begun before its windows and which begins there
 * (segments_pieces.cuh). SF_ONLY is 0, or in those launches the number of the step, from 1, or one
 * more than there are steps.
 *
 * Rows, chunks and the totals of chunks are aligned parts of the segment, so their totals are nodes
 * of the tree that the order prescribes (docs/order.md). All operations commute here: a lane takes
 * its row's elements in an order in which lanes do not collide in memory.
 *
 * SF_STEPS and SF_OPERAND_LIST are as in apply.cu. Operand 0 is x, whose elements are contiguous.
 * Unit 3: the operand has one element for each segment. If a step's numbers are kept for a later
 * one, they replace x, in cells or in the result; then no step in between reads x.
 *
 * units: lines. number[0]: blocks of a line. number[1]: there may be segments for further launches.
 * scratch: two numbers of segments, or -1, for each block; then the totals of pieces.
 * offsets, segments, offset_stride as in segments.cu.
 */
#define SF_KEEP 1
#define SF_SURES 1
/* A vector's elements may be of different segments, which have results of their own. */
#define SF_MADES SF_WIDTH
#define SF_BACKWARDS 0
#include "apply_steps.cuh"
#include "segments_find.cuh"
#include "segments_empty.cuh"

enum {
        WARPS = SF_THREADS / 32,
        STRIPS = SF_ROW < 8 ? SF_ROW : 8,
        CHUNK = 32 * STRIPS,
        CELLS = SF_CHUNKS * CHUNK,
        LONG = 32 * SF_PER * CHUNK,
        PIECE = WARPS * CELLS, /* the windows of a block */
};
static_assert(SF_WIDTH == 4 && SF_ROW % SF_WIDTH == 0, "a vector is four elements of a row");

#define OPERAND(k, dt, unit, made) + (k ? 0 : (int)SF_SIZE(dt))
enum { SIZE = 0 SF_OPERAND_LIST(OPERAND) };
#undef OPERAND
/* The operand that is a step's numbers, -1: there is none. */
#define OPERAND(k, dt, unit, made) + ((made) >= 0 && (unit) == 1 ? k + 1 : 0)
enum { NUMBERS = -1 SF_OPERAND_LIST(OPERAND) };
#undef OPERAND
/* Some fold's results are wanted. Then segments without elements have them too. */
#define STEP(k, op, acc, out, begins, how, loads, stores) | (((how) & 7) == KIND_FOLD)
enum { STORED = 0 SF_STEPS(STEP) };
#undef STEP
/* Is there an operand of which each segment has an element? */
#define OPERAND(k, dt, unit, made) | ((made) < 0 && (unit) == 3)
enum { EACH_SEGMENT = 0 SF_OPERAND_LIST(OPERAND) };
#undef OPERAND
/* Operands in memory that are not copied to cells. */
enum { BESIDE = (int)FETCHED & ~1 };

/* Where a block's shared memory is. */
struct sf_desk {
        sf_i64 ends[2]; /* the first segment that begins in its windows; the first one after them */
        sf_i64 late[WARPS]; /* the segment that is left to the block; -1: there is none */
        unsigned char total[2][32 * SF_PER * SLOT]; /* of chunks, for two steps in turn */
        int of[WARPS][32]; /* for the first row of each segment, which lane looked at it */
};
static_assert(sizeof(sf_desk) == 16 + WARPS * 136 + 64 * SF_PER * SLOT,
              "the host has another idea of a desk");
SF_DEVICE sf_desk &sf_the_desk() { return *(sf_desk *)sf_shared(); }
SF_DEVICE unsigned char *sf_cells_of(int warp)
{
        return sf_shared() + sf_several_desk(WARPS, SF_PER, SLOT) +
               warp * sf_several_cells(CELLS, SF_ROW, SIZE);
}

/* Element j of a vector, stored if k is less than n, or in any case if ALL. */
template <int ITEM, bool ALL, int BYTES> SF_DEVICE void
sf_put_cell(int k, int n, unsigned char *cell, const sf_raw<BYTES> &r, int j)
{
        const sf_raw<ITEM> one = sf_one_slot<ITEM>(sf_slot<ITEM>(r, j));
        if (ALL)
                sf_shared_store(cell, one);
        else
                sf_shared_store_below(k, n, cell, one);
}
template <int ITEM, bool ALL, int BYTES> SF_DEVICE void
sf_put_memory(int k, int n, char *to, const sf_raw<BYTES> &r, int j)
{
        const sf_raw<ITEM> one = sf_one_slot<ITEM>(sf_slot<ITEM>(r, j));
        if (ALL)
                sf_store(to, one);
        else
                sf_store_below(k, n, to, one);
}

/* Where step K, a map, has its result for the element at an index of the line. */
template <int K> SF_DEVICE char *sf_result_at(const sf_params &p, const sf_course &c, sf_i64 index)
{
        const sf_i64 stride = sf_recipe<K>::UNIT ? (sf_i64)SF_SIZE(sf_recipe<K>::OUT) : FIELD(K, sy);
        return c.y[K] + index * stride;
}

/* Copies `length` elements; buffer and from have the same address modulo 16. */
template <int TEAM> SF_DEVICE void sf_copy_flat(const char *from, int length, unsigned char *buffer,
                                                int thread)
{
        int head;
        const int whole = sf_copy_ends<SIZE>(from, length, buffer, thread, head);
#pragma unroll 4
        for (int i = thread; i < whole; i += TEAM)
                sf_copy_async<16>(buffer + head * SIZE + i * 16, from + head * SIZE + i * 16);
        sf_copy_commit();
}

/* What is known or loaded before a segment, or a row of it, is computed; 0 for the elements after the
 * last one. */
SF_DEVICE void sf_load_still(const sf_params &p, sf_course &c, sf_i64 segment)
{
        const bool has = sf_has_entry(p, segment);
        (void)has;
        c.sure = true;
#define OPERAND(k, dt, unit, made)                                                                 \
        if (!(MOVING >> k & 1) && (made) < 0) {                                                    \
                sf_raw<SF_SIZE(dt)> &r = *(sf_raw<SF_SIZE(dt)> *)&c.still.operand##k;              \
                if ((unit) == 2 || has)                                                            \
                        sf_load_steady(c.operand[k] + ((unit) == 3 ? segment * p.along[k] : 0),    \
                                       r);                                                         \
                else                                                                               \
                        for (int w = 0; w < (int)(sizeof r.w / 4); w++)                            \
                                r.w[w] = 0;                                                        \
        }
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
}

/* Loads slot j of the operands in WHICH that are in memory. index: of the element on the line. */
template <int WHICH> SF_DEVICE void sf_load_beside(const sf_params &p, const sf_course &c,
                                                   sf_i64 index, bool there, int j, sf_vectors &v)
{
#define OPERAND(k, dt, unit, made)                                                                 \
        if (WHICH >> k & 1) {                                                                      \
                sf_raw<SF_SIZE(dt)> one;                                                           \
                one.w[0] = 0;                                                                      \
                if (there)                                                                         \
                        sf_load(c.operand[k] + index * p.along[k], one);                           \
                sf_set_slot<SF_SIZE(dt)>(v.operand##k, j, sf_slot<SF_SIZE(dt)>(one, 0));           \
        }
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        (void)p, (void)c, (void)index, (void)there, (void)j, (void)v;
}

/* Folds the numbers of a vector into a[0], or each for itself into a[0] to a[3] if EACH. Bit j of
 * there: element j exists. */
template <int K, bool EACH> SF_DEVICE void sf_fold_vector(const sf_params &p, sf_course &c,
                                                          sf_u32 there, sf_vectors &v,
                                                          sf_total<K> *a)
{
        typedef sf_dtype<sf_recipe<K>::ACC> number;
        const sf_number_of_step<K> missing = number::constant(FIELD(K, neutral));
        const sf_total<K> neutral = sf_lifted<K>(FIELD(K, neutral));
        sf_few<sf_recipe<K>::OP, K> few;
        sf_number_of_step<K> one[SF_WIDTH];
        sf_hasty hasty = {false};
        sf_load_numbers<K>(p, c, v, one, hasty);
        if (hasty.fails) {
                sf_careful careful;
                sf_load_numbers<K>(p, c, v, one, careful);
        }
        if (KEEPERS >> K & 1)
                c.sure = c.sure && !hasty.fails;
        sf_keep_numbers<K>(v, one);
        sf_mask_numbers<K>(p, c, v, one);
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++) {
                const bool exists = there >> j & 1;
                one[j] = exists ? one[j] : missing;
                if (EACH)
                        a[EACH ? j : 0] = sf_held<K>::choose(
                                exists, sf_held<K>::settle(sf_held<K>::lift(one[j])), neutral);
                else
                        few.set(j, one[j]);
        }
        if (!EACH)
                a[0] = sf_held<K>::choose(there & 15, few.fold(), neutral);
}

/* Moves the course to line `unit`. */
SF_DEVICE void sf_locate(const sf_params &p, sf_i64 unit, sf_course &c)
{
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                c.operand[k] = p.operand[k];
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
                c.y[k] = FIELD(k, y);
                c.made[k][0] = 0;
        }
        sf_walk_batch(p, unit, c);
}

/* What a step makes of a segment's total, for the steps that follow. */
template <int K> SF_DEVICE sf_u64 sf_make(const sf_params &p, const sf_course &c, sf_total<K> total)
{
        if (sf_recipe<K>::BEGINS)
                total = sf_joined<K>(sf_lifted<K>(FIELD(K, initial)), total);
        return sf_programs<K>::store(p, c, c.still, sf_held<K>::lower(total));
}
/* The same of a segment that is all that the course knows. If it is wanted, the thread that has
 * `mine` set stores it. */
template <int K> SF_DEVICE void sf_made(const sf_params &p, sf_course &c, sf_total<K> total,
                                        sf_i64 segment, bool mine)
{
        enum { OWN = SF_SIZE(sf_recipe<K>::OUT) };
        const bool has = sf_has_entry(p, segment);
        const sf_u64 made = has ? sf_make<K>(p, c, total) : 0;
#pragma unroll
        for (int j = 0; j < MADES; j++)
                c.made[K][j] = made;
        if (!sf_recipe<K>::WITHIN && has && mine)
                sf_store(c.y[K] + segment * FIELD(K, sy), sf_one_slot<OWN>(made));
}

#include "segments_chunks.cuh"
#if SF_ONLY
#include "segments_pieces.cuh"
#else
#include "segments_rows.cuh"

/* A warp computes the segments that begin in its window, from k on and before `past`. Returns the
 * one that is left to the block, or -1. */
SF_DEVICE sf_i64 sf_run_warp(const sf_params &p, sf_course &c, sf_i64 k, sf_i64 past)
{
        unsigned char *const own = sf_cells_of(c.warp);
        while (k < past) {
                const sf_i64 base = sf_bound(p, k), end = sf_bound(p, past);
                if (sf_bound(p, k + 1) - base > CELLS)
                        return k;
                const sf_i64 limit = base + CELLS < end ? base + CELLS : end;
                const char *from = c.operand[0] + base * SIZE;
                sf_span s;
                s.first = base;
                s.cells = own + ((sf_u64)from & 15);
                s.count = limit < base ? 0 : (int)(limit - base);
                s.done = 0;
                s.waits = true;
                sf_copy_flat<32>(from, s.count, s.cells, c.lane);
                const sf_i64 begun = k;
                while (k < past && sf_run_some(p, c, s, k, past))
                        ;
                sf_flush(p, c, s, k == begun ? 0 : (int)(sf_bound(p, k) - base));
                if (k == begun) /* offsets that decrease */
                        return -1;
        }
        return -1;
}

/* Writes down which long segments the block's windows have: the one that was begun before them, and
 * the last one that begins there. No other can be long. */
SF_DEVICE void sf_note_long(const sf_params &p)
{
        const sf_desk &desk = sf_the_desk();
#pragma unroll 1
        for (int which = 0; which < 2; which++) {
                const sf_i64 k = desk.ends[which] - 1;
                const bool there = k >= 0 && (!which || k >= desk.ends[0]) &&
                                   sf_bound(p, k + 1) - sf_bound(p, k) > LONG;
                sf_raw<8> word;
                sf_set_slot<8>(word, 0, (sf_u64)(there ? k : -1));
                sf_store((char *)p.scratch + (sf_block() * 2 + which) * 8, word);
        }
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        sf_desk &desk = sf_the_desk();
        sf_course c;
        const int thread = sf_thread();
        c.lane = thread & 31;
        c.warp = thread / 32;
        const sf_i64 all = p.units * p.number[0];
        if (STORED && sf_block() >= all)
                return sf_run_apart(p, c, (sf_block() - all) * WARPS + c.warp);
        const sf_i64 unit = p.units == 1 ? 0 : sf_divide(sf_block(), p.number[0]);
        const sf_i64 first = (sf_block() - unit * p.number[0]) * PIECE;
        sf_locate(p, unit, c);
#pragma unroll 1
        for (int which = c.warp; which < 2; which += WARPS) {
                const sf_i64 found = sf_find(p, first + which * PIECE, c.lane);
                if (!c.lane)
                        desk.ends[which] = found;
        }
        sf_sync_block();
        /* The elements after the last offset count as one more segment. */
        const sf_i64 window = first + c.warp * CELLS, to = desk.ends[1];
        const sf_i64 k = sf_find_between(p, window, desk.ends[0], to, c.lane);
        const sf_i64 past = sf_find_between(p, window + CELLS, k, to, c.lane);
        if (p.number[1] && thread == SF_THREADS - 1)
                sf_note_long(p);
        const sf_i64 left = sf_run_warp(p, c, k, past <= p.segments + 1 ? past : p.segments + 1);
        if (!c.lane)
                desk.late[c.warp] = left;
        sf_sync_block();
#pragma unroll 1
        for (int w = 0; w < WARPS; w++)
                if (desk.late[w] >= 0)
                        sf_run_late(p, c, desk.late[w]);
}
#endif
#undef FIELD
