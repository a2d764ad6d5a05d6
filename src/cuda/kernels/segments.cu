/*
 * segments.cu: scans, folds and maps of a line that is cut into segments by offsets (core/segments.h), each by itself, whatever their lengths.
 *
 * Work is cut by elements. A tile is SF_THREADS / SF_STRIP windows of SF_LEAF positions, for SF_STRIP columns. A segment is cut into leaves of SF_LEAF elements, counted
 * from its own beginning; the last one may be shorter. A leaf belongs to the tile, and to the window, in which it begins. So at most one leaf that is full
 * begins in a window, and leaf q of a segment begins q windows behind the segment's own: what is told of full leaves needs one place a window, and those
 * of a segment stand side by side. The same holds one level up, where 32 leaves are a group, 32 groups the next, and so on: a group's place is that of its
 * first member, divided by 32.
 *
 * A thread has a leaf, in registers. Of the leaves before it in its segment it takes one total for each bit set in q, the lowest first (docs/order.md): that of the
 * largest block that ends where the bit says. Tiles publish the totals of their full leaves at once; whoever closes a group of 32 publishes the group's, as soon as
 * it knows the others'. A tile looks back at most 31 places on every level, one level after another, so that nothing a tile publishes waits for
 * more than the level below.
 *
 * SF_STRIP 1: lines of neighbours, which come by way of shared memory: elements lie there as they do in memory, but for a cell left free behind every window. Else columns; every thread reads its own. SF_MAPS: nothing is combined, and there are no leaves.
 * SF_SPREAD: bit k: of operand k there is an element a segment.
 *
 * Offsets are taken as they come: clamped to the line, so that whatever they are nothing else is touched; and a total that never comes, as when they
 * decrease, is waited for only so long.
 *
 * scratch: tickets; then for each line and strip, level by level, the places' totals, mark and payload. number[0]: tiles a line; number[1]: strips; number[2]: words of a
 * line's totals; number[3]: tickets. offsets, segments, offset_stride: where they are, how many segments, bytes from one to the next.
 */
#include "segments_bounds.cuh"

/* ------------------------------------------------------------------------------------------------
 * Elements and results
 * ---------------------------------------------------------------------------------------------- */

/* The vector at a position of the line, for elements of a segment, which matters where operands are spread. */
SF_DEVICE sf_vector sf_fetch(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 segment)
{
#if SF_SPREAD && SF_LOAD_FUSED
        sf_vector v;
        const bool there = sf_has_entry(p, segment);
#define OPERAND(k, dt, unit)                                                                                                                   \
        if (SF_SPREAD >> k & 1)                                                                                                                \
                sf_load_operand<false>(v.operand##k, line.operand[k] + (there ? segment : 0) * p.along[k], 0, there, 0);                      \
        else                                                                                                                                   \
                sf_load_operand<false>(v.operand##k, line.operand[k], index, p.n, p.along[k]);
        SF_LOADS(OPERAND)
#undef OPERAND
#if SF_MASK
        sf_clear(v.m);
        if (index < p.n)
                sf_load(line.m + sf_offset<SF_M_UNIT, 1>(index, p.sm), v.m);
#endif
        return v;
#else
        (void)segment;
        return sf_load_vector(line, index, p.n, sf_along(p));
#endif
}

SF_DEVICE sf_results sf_fetch_results(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 end, sf_i64 segment)
{
#if SF_SPREAD && SF_STORE_FUSED
        sf_results with;
        const bool there = sf_has_entry(p, segment);
#define OPERAND(k, dt, unit)                                                                                                                   \
        if (SF_SPREAD >> k & 1)                                                                                                                \
                sf_load_operand<false>(with.operand##k, line.operand[k] + (there ? segment : 0) * p.along[k], 0, there, 0);                   \
        else                                                                                                                                   \
                sf_load_operand<false>(with.operand##k, line.operand[k], index, end, p.along[k]);
        SF_STORES(OPERAND)
#undef OPERAND
        return with;
#else
        (void)segment;
        return sf_load_results(line, index, end, sf_along(p));
#endif
}

/* An element as a value, number r of its segment. */
SF_DEVICE sf_acc sf_lifted(sf_loaded e, sf_i64 r)
{
#if SF_INDICES
        (void)r;
        if (e.second != sf_holds::nowhere())
                e.second = (sf_at)r ^ (sf_at)sf_holds::LATE;
        return e;
#elif SF_LIFTED
        return e;
#else
        return sf_holds::lift(e);
#endif
}

/* A value as what is stored of it; an index counts from the beginning of its segment, which has `length` elements. */
SF_DEVICE sf_answer sf_answered(const sf_params &p, sf_acc v, sf_i64 length)
{
        v = sf_begin(p, v);
#if SF_INDICES
        const sf_at at = sf_holds::lower(v);
        return SF_BACKWARDS && at >= 0 ? length - 1 - at : (sf_i64)at;
#else
        (void)length;
        return sf_holds::lower(v);
#endif
}

SF_DEVICE void sf_store_one(const sf_params &p, char *to, sf_answer v, const sf_results &with)
{
        sf_raw<SF_OUT_SIZE> r;
        r.w[0] = 0;
        sf_set_slot<SF_OUT_SIZE>(r, 0, sf_outcome(p, v, with, 0));
        sf_store(to, r);
}

/* A fold's result. */
SF_DEVICE void sf_store_entry(const sf_params &p, const sf_line &line, sf_i64 segment, sf_acc v, sf_i64 length)
{
        if (sf_has_entry(p, segment))
                sf_store_one(p, line.y + segment * p.sy, sf_answered(p, v, length), sf_fetch_results(p, line, 0, 1, segment));
}

#if !SF_MAPS
#include "segments_totals.cuh"

/* ------------------------------------------------------------------------------------------------
 * Leaves
 * ---------------------------------------------------------------------------------------------- */
struct sf_leaf {
        int at, length;
        sf_i64 begin; /* of its segment */
        bool ends;    /* its segment ends with it */
};

#if SF_STRIP == 1
/* Where its elements have their cells: those of its first window, then those of the next one, behind the cell that is left free. Offsets are in bytes, and the compiler knows
 * nothing of them, or it would make of every choice between the two an address of its own. */
struct sf_cells_of_leaf {
        int left, first, second;
        SF_DEVICE_METHOD explicit sf_cells_of_leaf(int at)
                : left(SF_LEAF - at % SF_LEAF), first(sf_anew(sf_cell(at) * (int)sizeof(sf_loaded))), second(sf_anew((sf_cell(at) + 1) * (int)sizeof(sf_loaded)))
        {
        }
        SF_DEVICE_METHOD sf_loaded *place(sf_loaded *cells, int i) const { return (sf_loaded *)((char *)cells + (i < left ? first : second)) + i; }
};
#endif

/* Its elements, lifted; those it does not have are neutral. FULL: it has all. */
template <bool FULL> SF_DEVICE void sf_take(const sf_params &p, const sf_desk &d, const sf_line &line, const sf_leaf &leaf, sf_acc (&v)[SF_LEAF])
{
        const sf_acc neutral = sf_neutral(p);
#if SF_STRIP == 1
        const sf_cells_of_leaf at(leaf.at);
#pragma unroll
        for (int i = 0; i < SF_LEAF; i++)
                v[i] = sf_choose(FULL || i < leaf.length, sf_lifted(sf_glance(*at.place(d.cells, i), FULL || i < leaf.length), leaf.at + i - leaf.begin), neutral);
#else
        sf_vector raw[SF_LEAF];
        const sf_i64 segment = SF_SPREAD ? sf_segment_at(p, d, leaf.at) : 0;
#pragma unroll
        for (int i = 0; i < SF_LEAF; i++)
                raw[i] = sf_fetch(p, line, FULL || i < leaf.length ? d.frame->first + leaf.at + i : p.n, segment);
#pragma unroll
        for (int i = 0; i < SF_LEAF; i++) {
                sf_loaded own[SF_WIDTH];
                sf_loaded_below<1, int>(p, raw[i], 0, 0, 1, 0, 0, sf_absent(p), own);
                v[i] = sf_choose(FULL || i < leaf.length, sf_lifted(own[0], leaf.at + i - leaf.begin), neutral);
        }
#endif
}

/* A leaf's results, which stand first: of a fold its total. The last of them is that in either case. */
enum { RESULTS = SF_FOLDS ? 1 : SF_LEAF };
SF_DEVICE void sf_combine_leaf(sf_acc (&v)[SF_LEAF])
{
#pragma unroll
        for (int b = 1; b < SF_LEAF; b *= 2)
#pragma unroll
                for (int i = 0; i < SF_LEAF; i++)
#if SF_FOLDS
                        if (i % (2 * b) == 0)
                                v[i] = sf_combine(v[i], v[(i + b) % SF_LEAF]);
#else
                        if (i & b)
                                v[i] = sf_combine(v[i < b ? 0 : i / b * b - 1], v[i]);
#endif
}

SF_DEVICE sf_i64 sf_length_at(const sf_desk &d, const sf_leaf &leaf)
{
        if (!(SF_INDICES && SF_BACKWARDS))
                return 0;
        for (int w = leaf.at / SF_LEAF; w <= WINDOWS; w++) {
                const sf_u32 behind = w == leaf.at / SF_LEAF ? d.heads[w] & ~((2u << leaf.at % SF_LEAF) - 1) : d.heads[w];
                if (behind)
                        return w * SF_LEAF + sf_lowest(behind) - leaf.begin;
        }
        return d.frame->beyond - leaf.begin;
}

/* What is left to be done of a leaf that has been combined. */
template <bool FULL> SF_DEVICE void sf_finish(const sf_params &p, const sf_desk &d, const sf_line &line, const sf_leaf &leaf, int column, sf_acc (&v)[SF_LEAF])
{
        const sf_i64 length = sf_length_at(d, leaf);
        sf_acc before = sf_identity(p);
        sf_lefts lefts = {(sf_u32)((leaf.at - leaf.begin) / SF_LEAF), leaf.at / SF_LEAF, 0};
        for (bool any = false; lefts.q; any = true) {
                const sf_acc left = d.totals[sf_next_left(*d.frame, lefts) * SF_STRIP + column];
#pragma unroll
                for (int i = 0; i < RESULTS; i++)
                        v[i] = sf_combine(left, v[i]);
                if (SF_EXCLUSIVE)
                        before = any ? sf_combine(left, before) : left;
        }
#if SF_FOLDS
        if (leaf.ends)
                sf_store_entry(p, line, sf_segment_at(p, d, leaf.at), v[0], length);
#else
#if SF_STRIP == 1
        const sf_cells_of_leaf at(leaf.at);
#else
        const sf_i64 segment = SF_SPREAD ? sf_segment_at(p, d, leaf.at) : 0;
#endif
#pragma unroll
        for (int i = 0; i < RESULTS; i++)
                if (FULL || i < leaf.length) {
                        const sf_answer result = sf_answered(p, SF_EXCLUSIVE ? (i ? v[i ? i - 1 : 0] : before) : v[i], length);
#if SF_STRIP == 1
                        *(sf_answer *)at.place(d.cells, i) = result; /* a cell has room for it */
#else
                        const sf_i64 index = d.frame->first + leaf.at + i;
                        sf_store_one(p, line.y + index * p.sy, result, sf_fetch_results(p, line, index, p.n, segment));
#endif
                }
#endif
}

/* A leaf that is not full. */
SF_DEVICE void sf_short_leaf(const sf_params &p, const sf_desk &d, const sf_line &line, const sf_leaf &leaf, int column)
{
        sf_acc v[SF_LEAF];
        sf_take<false>(p, d, line, leaf, v);
        sf_combine_leaf(v);
        sf_finish<false>(p, d, line, leaf, column, v);
}

#if SF_STRIP == 1
/*
 * Many short segments, one element after another from `at` to `end`, whatever their lengths: level k holds the total of the last 2^k elements that are a block, as a counter
 * does (core/order.h). The first position is a beginning; `heads` has those of the window.
 */
SF_DEVICE void sf_walk_short(const sf_params &p, const sf_desk &d, const sf_line &line, int at, int end, sf_u32 heads)
{
        enum { LEVELS = SF_LEAF >= 32 ? 5 : SF_LEAF >= 16 ? 4 : SF_LEAF >= 8 ? 3 : 2 };
        const int stop = (at / SF_LEAF + 1) * SF_LEAF; /* no segment begins from there on */
        sf_acc level[LEVELS], last = sf_identity(p);
        sf_leaf leaf = {at, 0, at, true};
        for (; at < end; at++) {
                if (at < stop && heads >> at % SF_LEAF & 1)
                        leaf.at = at, leaf.begin = at;
                const int r = at - leaf.at;
                sf_acc v = sf_lifted(d.cells[sf_cell(at)], r);
#pragma unroll
                for (int k = 0; k < LEVELS; k++)
                        if (r >> k & 1)
                                v = sf_combine(level[k], v);
                        else if (!(~r & ((1 << k) - 1)))
                                level[k] = sf_settled(v);
#if SF_FOLDS
                const bool ends = at + 1 >= end || (at + 1 < stop && heads >> (at + 1) % SF_LEAF & 1);
                if (ends)
                        sf_store_entry(p, line, sf_segment_at(p, d, at), v, sf_length_at(d, leaf));
#else
                *(sf_answer *)&d.cells[sf_cell(at)] = sf_answered(p, SF_EXCLUSIVE ? sf_choose(r, last, sf_identity(p)) : v, sf_length_at(d, leaf));
#endif
                last = v;
        }
        (void)line, (void)last;
}
#endif
#endif

/* ------------------------------------------------------------------------------------------------
 * A tile
 * ---------------------------------------------------------------------------------------------- */

/* Marks where segments begin; and a fold's results of those that are empty. */
SF_DEVICE void sf_mark_heads(const sf_params &p, const sf_desk &d, const sf_line &line, int row)
{
        sf_frame &f = *d.frame;
        if (!row && !f.open)
                sf_agree(d.flags[0], 1);
        sf_each<WINDOWS>(p, f, row, [&](sf_i64 k, sf_i64 at, sf_i64 end) {
                if (at > 0 && at < REACH && at < p.n - f.first)
                        sf_agree(d.flags[at], 1);
                if (SF_INDICES && SF_BACKWARDS && at >= REACH && k <= p.segments && (k == f.next || sf_bound(p, k - 1) - f.first < REACH))
                        sf_agree(f.beyond, at);
#if SF_FOLDS
                if (k < p.segments && at <= TILE && end == at)
                        sf_store_entry(p, line, k, sf_identity(p), 0);
#endif
        });
#if SF_FOLDS
        for (sf_i64 k = row; !f.number && k < f.next && k < p.segments; k += WINDOWS)
                if (!sf_bound(p, k + 1))
                        sf_store_entry(p, line, k, sf_identity(p), 0);
#endif
        (void)line;
}

#if !SF_MAPS
/* The leaf that is full and begins in a window; of length 0 where there is none. */
SF_DEVICE sf_leaf sf_full_leaf(const sf_params &p, const sf_desk &d, int window)
{
        const sf_u32 leaves = d.leaves[window];
        sf_leaf leaf = {0, 0, 0, false};
        if (!leaves)
                return leaf;
        leaf.at = window * SF_LEAF + sf_highest(leaves);
        const int next = sf_next_leaf(p, d, window);
        if (next - leaf.at != SF_LEAF)
                return leaf;
        leaf.length = SF_LEAF;
        leaf.begin = sf_begin_of(d, leaf.at);
        leaf.ends = next >= p.n - d.frame->first || sf_is_head(d, next);
        return leaf;
}

/* The others, in the order of their beginnings; where they are many, only those that go on from a full one, and the rest is walked. */
SF_DEVICE void sf_list_leaves(const sf_params &p, const sf_desk &d, int thread)
{
        sf_frame &f = *d.frame;
        const int window = thread;
        if (!f.some && p.n - f.first >= REACH) { /* all are full */
                sf_sync_block();
                if (!thread)
                        f.leaves = f.dense = 0;
                sf_sync_block();
                return;
        }
        sf_u32 leaves = window < WINDOWS ? d.leaves[window] : 0;
        if (leaves) {
                const int last = sf_highest(leaves);
                if (sf_next_leaf(p, d, window) - (window * SF_LEAF + last) == SF_LEAF)
                        leaves &= ~(1u << last);
        }
        /* Those that go on are counted above the others. */
        const sf_u32 on = window < WINDOWS ? leaves & ~d.heads[window] : 0;
        int at = sf_before_thread<false>(sf_count_bits(leaves) + (on ? 1 << 16 : 0), d.turn, thread);
        if (thread == SF_THREADS - 1) {
                const int all = at + sf_count_bits(leaves) + (on ? 1 << 16 : 0);
                f.dense = SF_STRIP == 1 && (all & 0xffff) > 2 * WINDOWS;
                f.leaves = f.dense ? all >> 16 : all & 0xffff;
        }
        sf_sync_block();
        at = f.dense ? at >> 16 : at & 0xffff;
        for (sf_u32 left = f.dense ? on : leaves; left; left &= left - 1)
                d.list[at++] = (unsigned short)(window * SF_LEAF + sf_lowest(left));
        sf_sync_block();
}

SF_DEVICE sf_leaf sf_listed(const sf_params &p, const sf_desk &d, int number)
{
        sf_leaf leaf;
        leaf.at = d.list[number];
        const int window = leaf.at / SF_LEAF;
        const sf_u32 behind = d.leaves[window] & ~((2u << leaf.at % SF_LEAF) - 1);
        leaf.length = (behind ? window * SF_LEAF + sf_lowest(behind) : sf_next_leaf(p, d, window)) - leaf.at;
        leaf.begin = sf_begin_of(d, leaf.at);
        leaf.ends = true;
        return leaf;
}
#endif

#if SF_STRIP == 1 && !SF_MAPS
/* Into cells: vectors that have been fetched, or those that a spread operand's segments were needed for. */
SF_DEVICE void sf_lay_out(const sf_params &p, const sf_desk &d, const sf_vector &raw, int at)
{
        sf_loaded own[SF_WIDTH];
        sf_loaded_below<1, int>(p, raw, 0, 0, 1, 0, 0, sf_absent(p), own);
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                d.cells[sf_cell(at) + j] = own[j];
}
#endif

#if SF_STRIP == 1 && !SF_MAPS && !SF_FOLDS
/* Results from cells to where they belong; what the tile before has is left alone, and what the one behind it has. */
SF_DEVICE void sf_flush(const sf_params &p, const sf_desk &d, const sf_line &line, int low, int high, int at)
{
        const sf_frame &f = *d.frame;
        if (at + SF_WIDTH <= low || at >= high)
                return;
        sf_answer v[SF_WIDTH];
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                v[j] = *(const sf_answer *)&d.cells[sf_cell(at) + j];
        const sf_i64 index = f.first + at;
        const sf_stored r = sf_pack(p, v, sf_fetch_results(p, line, index, p.n, SF_SPREAD ? sf_segment_at(p, d, at) : 0));
        if (at >= low && at + SF_WIDTH <= high) {
                sf_store(line.y + sf_vector_offset<SF_Y_UNIT, SF_OUT_SIZE>(index, p.sy), r);
                return;
        }
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                if (at + j >= low && at + j < high)
                        sf_store_slot(line.y + sf_offset<SF_Y_UNIT, SF_OUT_SIZE>(index + j, p.sy), r, sf_slot_of<SF_Y_UNIT>(j));
}
#endif

#if SF_MAPS
SF_DEVICE void sf_map_tile(const sf_params &p, const sf_desk &d, const sf_line &line, int row)
{
        const sf_frame &f = *d.frame;
        for (int at = row; at < TILE && f.first + at < p.n; at += WINDOWS) {
                const sf_i64 segment = sf_segment_at(p, d, at), index = f.first + at;
                const sf_vector v = sf_fetch(p, line, index, segment);
                sf_loaded e[SF_WIDTH];
                sf_loaded_below<1, int>(p, v, 0, 0, 1, 0, 0, sf_absent(p), e);
                sf_store_one(p, line.y + index * p.sy, sf_holds::lower(sf_lifted(e[0], 0)), sf_fetch_results(p, line, index, p.n, segment));
        }
}
#else
/* Elements are in cells, or will be read as they are needed. `there`: the column is one of the tensor's. */
SF_DEVICE void sf_combine_tile(const sf_params &p, const sf_desk &d, const sf_line &line, bool there, int thread)
{
        const int column = thread % SF_STRIP, row = thread / SF_STRIP;
        sf_frame &f = *d.frame;
        const sf_leaf leaf = sf_full_leaf(p, d, row);
        sf_acc v[SF_LEAF];
        if (leaf.length) {
                sf_take<true>(p, d, line, leaf, v);
                sf_combine_leaf(v);
                const sf_acc total = sf_settled(v[RESULTS - 1]);
                d.totals[(32 + row) * SF_STRIP + column] = total;
                sf_agree(d.place[32 + row], (leaf.at - leaf.begin) / SF_LEAF);
                sf_agree(f.closed[0], 1);
                sf_tell(p, f, 0, f.number * WINDOWS + row, column, total);
        }
        /* The leaf that goes on from the tile before. */
        const int on = sf_first_leaf(d, 0);
        sf_climb(p, d, d.leaves[0] && !sf_is_head(d, on) ? (on - f.open) / SF_LEAF : 0, thread);
        sf_sync_block();
        if (leaf.length && there)
                sf_finish<true>(p, d, line, leaf, column, v);
#if SF_STRIP == 1
        if (f.dense) {
                sf_u32 heads = d.heads[row];
                if (leaf.length && sf_is_head(d, leaf.at))
                        heads &= ~(1u << leaf.at % SF_LEAF);
                if (heads)
                        sf_walk_short(p, d, line, row * SF_LEAF + sf_lowest(heads), leaf.length ? leaf.at : sf_next_leaf(p, d, row), heads);
        }
#endif
        for (int g = row; there && g < f.leaves; g += WINDOWS)
                sf_short_leaf(p, d, line, sf_listed(p, d, g), column);
}
#endif

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        const int thread = sf_thread(), column = thread % SF_STRIP, row = thread / SF_STRIP;
        const sf_desk d = sf_desk_of();
        sf_draw_tile(p, d, thread);
        const sf_frame &f = *d.frame;
        /* Columns are the last of the batch dimensions. */
        const sf_i64 batch = SF_STRIP > 1 ? sf_divide(f.unit, p.number[1]) : f.unit, own = (f.unit - batch * p.number[1]) * SF_STRIP + column;
        const bool there = SF_STRIP == 1 || own < p.inner;
        const sf_line line = sf_batch_line(p, SF_STRIP > 1 ? batch * p.inner + (there ? own : 0) : batch);
#if SF_STRIP == 1 && !SF_MAPS && !SF_SPREAD
        /* They are on their way while segments are looked for. */
        sf_vector raw[VECTORS], more = sf_no_vector();
#pragma unroll
        for (int i = 0; i < VECTORS; i++)
                raw[i] = sf_fetch(p, line, f.first + (i * SF_THREADS + thread) * SF_WIDTH, 0);
        if (thread < VECTORS)
                more = sf_fetch(p, line, f.first + TILE + thread * SF_WIDTH, 0);
#endif
        sf_find_tile(p, d, thread);
        if (there)
                sf_mark_heads(p, d, line, row);
        sf_sync_block();
        sf_find_leaves(p, d, thread);
        if (NUMBERED) {
                sf_number_heads(p, d, thread);
                sf_sync_block();
        }
#if SF_MAPS
        if (there)
                sf_map_tile(p, d, line, row);
#else
        for (int u = thread; u < sf_segments_totals(WINDOWS, SF_DEPTH); u += SF_THREADS)
                d.place[u] = 0;
#if SF_STRIP == 1 && SF_SPREAD
        for (int at = thread * SF_WIDTH; at < REACH; at += SF_THREADS * SF_WIDTH)
                sf_lay_out(p, d, sf_fetch(p, line, f.first + at, sf_segment_at(p, d, at)), at);
#elif SF_STRIP == 1
#pragma unroll
        for (int i = 0; i < VECTORS; i++)
                sf_lay_out(p, d, raw[i], (i * SF_THREADS + thread) * SF_WIDTH);
        if (thread < VECTORS)
                sf_lay_out(p, d, more, TILE + thread * SF_WIDTH);
#endif
        sf_list_leaves(p, d, thread); /* barriers within: cells and places are there */
        sf_combine_tile(p, d, line, there, thread);
#if SF_STRIP == 1 && !SF_FOLDS
        sf_sync_block();
        const int low = sf_first_leaf(d, 0), high = sf_next_leaf(p, d, WINDOWS - 1);
#pragma unroll
        for (int i = 0; i < VECTORS; i++)
                sf_flush(p, d, line, low, high, (i * SF_THREADS + thread) * SF_WIDTH);
        if (thread < VECTORS)
                sf_flush(p, d, line, low, high, TILE + thread * SF_WIDTH);
#endif
#endif
}
