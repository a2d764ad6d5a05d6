/*
 * segments.cu: scans, folds and maps of lines that offsets cut into segments of any lengths
 * (core/segments.h). Each segment is computed by itself.
 *
 * A segment is cut into chunks, counted from its beginning: of 32 rows of SF_LEAF elements, or of
 * SF_LEAF elements down columns. The line is cut into windows of the same length, and a chunk
 * belongs to the window in which it begins. So a window has at most one chunk of each segment; it
 * is called a part here. A full chunk is the last part of its window. A warp has one window, or
 * several if there are few columns. It waits only for totals of earlier chunks
 * (segments_bounds.cuh).
 *
 * SF_STRETCHES, for long columns: as many chunks as a block has warps are a stretch, counted from
 * the segment's beginning too. A full stretch belongs to the block in whose windows it begins, and
 * the whole block computes it, before the rest of its windows (segments_stretch.cuh).
 *
 * SF_TILES: segments of lines that are not short on average need none of this. They are cut into
 * tiles, which a launch before has found (segments_tiles.cuh). So are those of columns, in folds
 * (segments_down.cuh).
 *
 * SF_BLOCKS: where segments of a line are tiny on average, a block has a window, and a launch before
 * has found where its segments begin (segments_blocks.cuh).
 *
 * SF_STRIP: 1 for lines; else how many neighbouring columns a window has, a power of two up to 32.
 * A column belongs to one lane; the lanes of a window are a party, and a warp has as many parties
 * as fit. SF_MAPS: nothing is combined. SF_SPREAD: bit k is set if operand k has one element for
 * each segment (it is spread). SF_CELL: bytes of shared memory for an element of a line.
 *
 * Offsets are not checked. They are clamped to the line, so no other memory is touched. Where they
 * decrease, the window has no more segments; and the wait for a total is limited.
 *
 * scratch: tickets; then for each unit (a line or a strip) the totals of windows, with marks.
 * With SF_STRETCHES totals of stretches follow, one for each block.
 * number[0]: windows of a line; with SF_STRETCHES whole blocks of them. number[1]: strips of
 * columns. number[2]: words of a unit's totals. number[3]: tickets. offset_stride: bytes from one
 * offset to the next. SF_BLOCKS: number[1]: words of scratch before the table. In folds
 * there are more warps than windows: the last ones store results of empty segments
 * (segments_empty.cuh).
 */
#include "segments_bounds.cuh"
#if SF_TILES && SF_STRIP > 1
#include "segments_down.cuh"
#elif SF_TILES
#include "segments_tiles.cuh"
#elif SF_BLOCKS
#include "segments_blocks.cuh"
#else
#if SF_STRIP == 1
#include "segments_lines.cuh"
#else
#include "segments_columns.cuh"
#endif
#if SF_STRETCHES
#include "segments_stretch.cuh"
#endif

/* Prefetches what the warp will read in the window at `first`, and in those of its other parties:
 * one cache line of 128 bytes for each lane at a time. */
SF_DEVICE void sf_prefetch_from(const sf_params &p, const char *line, int unit, int size, sf_i64 stride, sf_i64 first, int lane)
{
        const int apart = SF_STRIP > 1 ? 1 : 128 / size;
        for (int i = lane * apart; (unit == 1 || unit == -1 || SF_STRIP > 1) && i < CHUNK * PARTIES && first + i < p.n; i += 32 * apart)
                sf_prefetch(line + (first + i) * stride);
}
SF_DEVICE void sf_prefetch_windows(const sf_params &p, const sf_line &line, sf_i64 first, int lane)
{
#if SF_LOAD_FUSED
#define OPERAND(k, dt, unit)                                                                                                                   \
        if ((unit) != 2 && !(SF_SPREAD >> k & 1))                                                                                              \
                sf_prefetch_from(p, line.operand[k], unit, SF_SIZE(dt), p.along[k], first, lane);
        SF_LOADS(OPERAND)
#undef OPERAND
#else
        sf_prefetch_from(p, line.x, SF_X_UNIT, SF_IN_SIZE, p.sx, first, lane);
#endif
}

/* What a warp has to do: consecutive windows, one for each of its parties. */
struct sf_turn {
        sf_i64 unit, window; /* the line or strip of columns; the first party's window */
        sf_line line;        /* at the lane's own column */
        bool there;          /* the lane has a column */
};
SF_DEVICE sf_i64 sf_turns(const sf_params &p) { return (p.number[0] + PARTIES - 1) / PARTIES; }
/* The lane's own column of the unit. */
SF_DEVICE void sf_locate_turn(const sf_params &p, sf_turn &t, int lane)
{
        const sf_i64 batch = SF_STRIP > 1 ? sf_divide(t.unit, p.number[1]) : t.unit;
        const sf_i64 column = SF_STRIP > 1 ? (t.unit - batch * p.number[1]) * SF_STRIP + lane % SF_STRIP : 0;
        t.there = t.unit < p.units && column < p.inner;
        /* Columns are the last of the batch dimensions. */
        t.line = sf_batch_line(p, t.there ? batch * p.inner + column : 0);
}
SF_DEVICE sf_turn sf_turn_of(const sf_params &p, sf_i64 number, int lane)
{
        const sf_i64 turns = sf_turns(p);
        sf_turn t;
        t.unit = p.units == 1 && number < turns ? 0 : sf_divide(number, turns);
        t.window = (number - t.unit * turns) * PARTIES;
        sf_locate_turn(p, t, lane);
        return t;
}

SF_DEVICE void sf_run_turn(const sf_params &p, const sf_turn &t, sf_u32 mark, int thread)
{
        const int lane = thread & 31, own = SF_STRIP > 1 ? lane % SF_STRIP : 0, party = SF_STRIP > 1 ? lane / SF_STRIP : 0;
        const sf_i64 window = t.window + party;
        sf_window w;
        w.first = window * CHUNK;
        w.place.mark = mark;
        w.line = t.line;
        w.place.words = (sf_u64 *)p.scratch + SF_TICKETS / 8 + t.unit * p.number[2] + own * WORDS;
        w.place.window = (sf_u32)window;
#if SF_STRIP == 1
        w.lane = lane;
        unsigned char *desk = sf_shared() + sf_segments_block(0, 1, sizeof(sf_acc)) +
                              thread / 32 * sf_segments_desk(SF_LEAF, SF_CELL);
        w.cells = desk + SF_SEGMENTS_VIEW;
        w.rows = ((sf_view *)desk)->rows;
#endif
        sf_i64 k = 0;
#if SF_STRETCHES
        sf_together &b = *(sf_together *)sf_shared();
        const int warp = thread / 32;
        {
                const sf_stretch s = sf_stretch_of(p, w.first - warp * CHUNK, b.ends[1] - 1);
                if (s.there)
                        sf_run_stretch(p, w, s, b, warp, t.there);
        }
        /* Loaded again: the stretch needs the registers. */
        const sf_i64 to = b.ends[1], begin = sf_bound(p, to - 1), end = sf_bound(p, to);
        k = sf_find_between(p, w.first, b.ends[0], to, lane);
        /* Nothing is left if a full stretch has all of the window's chunks. */
        const sf_u32 number = sf_open_number(begin - w.first);
        if (k == to && begin + (sf_i64)((number >> WARPS_LOG) + 1) * STRETCH <= end)
                return;
#else
        for (int other = 0; other < PARTIES; other++) {
                const sf_i64 found = sf_find(p, (t.window + other) * CHUNK, lane);
                if (other == party)
                        k = found;
        }
#endif
#if SF_STRIP == 1
        sf_run_window(p, w, *(sf_view *)desk, k - 1);
#else
        if (t.there && window < p.number[0])
                sf_run_window(p, w, k - 1);
#endif
}

#if SF_STRETCHES
/* Two warps of the block find which segments begin in its windows. */
SF_DEVICE void sf_find_ends(const sf_params &p, const sf_turn &t, int warp, int lane)
{
        sf_together &b = *(sf_together *)sf_shared();
        if (t.unit >= p.units || warp > 1)
                return;
        const sf_i64 found = sf_find(p, (t.window - warp) * CHUNK + warp * STRETCH, lane);
        if (!lane)
                b.ends[warp] = found;
}
#endif

#if SF_FOLDS && SF_STRIP > 1
/* The warp number `number` of those that have no window. */
SF_DEVICE void sf_store_apart(const sf_params &p, sf_i64 number, int lane)
{
        enum { EACH = SF_EMPTY_GROUP / SF_EMPTY_PARTS };
        const sf_i64 shares = sf_empty_shares(p.segments, 1);
        sf_turn t;
        t.unit = shares ? sf_divide(number, shares) : p.units;
        sf_locate_turn(p, t, lane);
        const sf_i64 share = number - t.unit * shares, first = share * EACH;
        if (t.there && sf_is_apart(p, share / SF_EMPTY_PARTS))
                sf_store_empty(p, t.line, first + lane / SF_STRIP, first + EACH, PARTIES);
}
#endif

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        const int thread = sf_thread(), warp = thread / 32, lane = thread & 31;
        sf_u64 *ticket = (sf_u64 *)sf_shared();
        if (!thread)
                *ticket = sf_draw(p);
        sf_sync_block();
        const sf_u64 drawn = *ticket;
        if (!thread)
                sf_hand_in(p, drawn);
        const sf_i64 number = (sf_i64)(sf_u32)drawn * (SF_THREADS / 32) + warp;
#if SF_FOLDS
        /* A block with stretches has windows in all of its warps, or in none. */
        if (number >= sf_turns(p) * p.units)
                return sf_store_apart(p, number - sf_turns(p) * p.units, lane);
#endif
        const sf_turn t = sf_turn_of(p, number, lane);
        /* While the warp looks for its segments. */
        if (t.unit < p.units)
                sf_prefetch_windows(p, t.line, t.window * CHUNK, lane);
#if SF_STRETCHES
        sf_find_ends(p, t, warp, lane);
        sf_sync_block();
#endif
        if (t.unit < p.units)
                sf_run_turn(p, t, sf_mark(drawn), thread);
}
#endif
