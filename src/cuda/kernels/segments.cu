/*
 * segments.cu: scans, folds and maps of a line that is cut into segments by offsets (core/segments.h), each by itself, whatever their lengths.
 *
 * Work is cut by elements. A segment is cut into chunks, counted from its own beginning: of 32 rows of SF_LEAF elements on a line, of SF_LEAF elements down columns. The line
 * is cut into windows as long; a chunk belongs to the window in which it begins. So of each segment a window has at most one chunk, its part, and if that is full it is the
 * window's last. A warp has a window, or of few columns several, and waits for no other but for totals of chunks before (segments_bounds.cuh).
 *
 * SF_STRIP: 1: lines; else columns beside each other, a power of two of them (32 at most), which one party of a warp's lanes has. SF_MAPS: nothing is combined. SF_SPREAD: bit
 * k: of operand k there is an element a segment. SF_CELL: bytes of shared memory for an element of a line.
 *
 * Offsets are taken as they come: clamped to the line, so that whatever they are nothing else is touched; where they decrease a window has no more segments, and a
 * total that never comes is waited for only so long.
 *
 * scratch: tickets; then for each line and strip the windows' totals, mark and payload. number[0]: windows a line, and number[1]: strips of columns;
 * number[2]: words of a line's totals; number[3]: tickets. offsets, segments, offset_stride: where they are, how many segments, bytes from one to the next.
 */
#include "segments_bounds.cuh"
#if SF_STRIP == 1
#include "segments_lines.cuh"
#else
#include "segments_columns.cuh"
#endif

/* What the warp has to read in the window at `first`, and perhaps in those of its other parties, is on its way to the cache: a line of 128 bytes a lane at a time. */
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

/* What a warp has to do: a window, of several parties as many side by side. */
struct sf_turn {
        sf_i64 unit, window; /* the line, or strip of columns; and which of its windows, the first party's */
        sf_line line;        /* the lane's own column */
        bool there;          /* if there is one */
};
SF_DEVICE sf_turn sf_turn_of(const sf_params &p, sf_i64 number, int lane)
{
        const sf_i64 turns = (p.number[0] + PARTIES - 1) / PARTIES;
        sf_turn t;
        t.unit = p.units == 1 && number < turns ? 0 : sf_divide(number, turns);
        t.window = (number - t.unit * turns) * PARTIES;
        const sf_i64 batch = SF_STRIP > 1 ? sf_divide(t.unit, p.number[1]) : t.unit;
        const sf_i64 column = SF_STRIP > 1 ? (t.unit - batch * p.number[1]) * SF_STRIP + lane % SF_STRIP : 0;
        t.there = t.unit < p.units && column < p.inner;
        /* Columns are the last of the batch dimensions. */
        t.line = sf_batch_line(p, t.there ? batch * p.inner + column : 0);
        return t;
}

SF_DEVICE void sf_run_turn(const sf_params &p, const sf_turn &t, sf_u32 mark, int thread)
{
        const int lane = thread & 31, own = SF_STRIP > 1 ? lane % SF_STRIP : 0, party = SF_STRIP > 1 ? lane / SF_STRIP : 0;
        const sf_i64 window = t.window + party;
        sf_window w;
        w.first = window * CHUNK;
        w.place.mark = mark;
        w.place.words = (sf_u64 *)p.scratch + SF_TICKETS / 8 + t.unit * p.number[2] + (window * SF_STRIP + own) * WORDS;
#if SF_STRIP == 1
        w.line = t.line;
        w.lane = lane;
        unsigned char *desk = sf_shared() + SF_SEGMENTS_TICKET + thread / 32 * sf_segments_desk(SF_LEAF, SF_CELL);
        w.cells = desk + SF_SEGMENTS_VIEW;
        w.rows = ((sf_view *)desk)->rows;
        sf_run_window(p, w, *(sf_view *)desk);
#else
        w.line = t.line;
        sf_i64 k = 0;
        for (int other = 0; other < PARTIES; other++) {
                const sf_i64 found = sf_find(p, (t.window + other) * CHUNK, lane);
                if (other == party)
                        k = found - 1;
        }
        if (t.there && window < p.number[0])
                sf_run_window(p, w, k);
#endif
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        const int thread = sf_thread(), warp = thread / 32, lane = thread & 31;
        /* A block most often draws its own number: what it has to read then comes meanwhile. */
        sf_turn t = sf_turn_of(p, sf_block() * (SF_THREADS / 32) + warp, lane);
        if (t.unit < p.units)
                sf_prefetch_windows(p, t.line, t.window * CHUNK, lane);
        sf_u64 *ticket = (sf_u64 *)sf_shared();
        if (!thread) {
                *ticket = sf_draw(p);
                sf_hand_in(p, *ticket);
        }
        sf_sync_block();
        const sf_u64 drawn = *ticket;
        if ((sf_i64)(sf_u32)drawn != sf_block())
                t = sf_turn_of(p, (sf_i64)(sf_u32)drawn * (SF_THREADS / 32) + warp, lane);
        if (t.unit < p.units)
                sf_run_turn(p, t, sf_mark(drawn), thread);
}
