/*
 * segments_blocks.cuh: lines whose segments are tiny on average, with elements that are contiguous
 * and loaded as they are (segments.cu). A block computes a window. Work is cut by positions, so it
 * matters little what lengths are mixed.
 *
 * A block's span are the chunks that begin in its window, which are contiguous. segments_table.cu
 * has found where spans begin. The span's elements are copied to shared memory, and a byte for each
 * position says whether a segment begins there; so empty segments vanish. Segments are cut into
 * rows of SF_LEAF elements, counted from their beginning, and thread t has the rows that begin in
 * positions t * SF_LEAF and up. All of them begin a segment, but the first: it may be one of a
 * segment that began earlier. So the rows of a segment are those of neighbouring threads.
 *
 * A thread computes rows that lie in its positions together, in registers: a loop over them would
 * read and write cells where random banks collide. A row that ends in the next thread's positions,
 * and one that has something to its left, is computed by itself.
 *
 * Rows are numbered in their chunk. A full row whose number ends in k one bits holds the total of
 * the 2^k rows that end with it; what comes before row m is one such total for each bit set in m,
 * just as it is with chunks (segments_bounds.cuh).
 *
 * A span has up to twice a chunk's elements. A block has room for ROOM, a warp's rows more than a
 * chunk. If that is not enough, the last segment's chunk is computed by itself, before the others,
 * because other blocks may wait for its total.
 */
enum {
        ROW = SF_LEAF,
        ROOM = SF_THREADS * ROW,
        CELL = SF_CELL,
        FLAGS = ROOM + SF_BLOCK_PAST,
        ROW_LOG = ROW == 16 ? 4 : ROW == 8 ? 3 : 2,
};
static_assert(ROW == 1 << ROW_LOG, "numbers of elements in a row have so many bits");
static_assert(!(CHUNK & (CHUNK - 1)) && CHUNK < ROOM, "a chunk is a power of two of rows");
static_assert(ROW <= SF_BLOCK_PAST, "the flags of a row are loaded at once");
static_assert(CELL >= SF_IN_SIZE && CELL >= SF_OUT_SIZE, "an element or a result");

/* Part of a line that a block computes at once. */
struct sf_span {
        const char *x;
        char *y;        /* scans: at the span's first position; folds: at the line's first entry */
        sf_i64 first;   /* the first position */
        sf_i64 k, past; /* the segments that begin in it, but for one of another span */
        sf_i64 open;    /* the segment that has the first position */
        sf_u64 *words;  /* where the line's windows publish totals */
        int count;
        int shift;     /* how many elements its first is after 32 that are aligned */
        sf_u32 number; /* which chunk of its segment the first part is */
        sf_u32 window, mark;
        bool tells; /* the last part is a full chunk, and its segment goes on */
        bool alone; /* there is but one part */
};

/* What a block shares. Flags follow, then cells. */
struct sf_desk {
        sf_span span[2];
        sf_i64 apart; /* which of the blocks without a window this is; negative: it has one */
        int spans;
        sf_u32 bits[32];          /* those set in numbers of rows, for each warp */
        int last[32];             /* where the last segment begins in a warp's positions */
        sf_acc left[32];          /* of the chunks before, for each bit of the first number */
        sf_acc total[SF_THREADS]; /* of blocks of rows */
};
static_assert(sizeof(sf_desk) <= SF_BLOCK_SPANS + (32 + SF_THREADS) * sizeof(sf_acc),
              "the host has another idea of a desk");
SF_DEVICE sf_desk &sf_the_desk() { return *(sf_desk *)sf_shared(); }
SF_DEVICE unsigned char *sf_flags()
{
        return sf_shared() + sf_block_desk(SF_THREADS, sizeof(sf_acc));
}

/* Where the offset of segment k is. They are contiguous. Only their low 32 bits are loaded: within
 * a span no more are needed. */
enum { OFFSET = SF_BACKWARDS ? -(SF_WIDE ? 8 : 4) : SF_WIDE ? 8 : 4 };
SF_DEVICE const char *sf_offset_at(const sf_params &p, sf_i64 k)
{
        return p.offsets + (SF_BACKWARDS ? p.segments * -OFFSET : 0) + k * OFFSET;
}
/* The position in the span. */
SF_DEVICE sf_u32 sf_in_span(const sf_params &p, const sf_span &s, const sf_raw<4> &low)
{
        return (SF_BACKWARDS ? (sf_u32)p.n - low.w[0] : low.w[0]) - (sf_u32)s.first;
}

#include "segments_cells.cuh"

/* ------------------------------------------------------------------------------------------------
 * Rows
 * ---------------------------------------------------------------------------------------------- */

/* A thread's rows. Positions count from the thread's first. */
struct sf_rows {
        int begin;      /* the thread's first position in the span */
        sf_u32 starts;  /* a bit for the first position of each row */
        int end;        /* of the last row */
        int number;     /* of the first row in its chunk; of all others it is 0 */
        bool leads;     /* the first row belongs to the span's first part */
};

/* All positions where segments begin are known to be flagged. */
SF_DEVICE sf_rows sf_rows_of(const sf_span &s, int thread)
{
        sf_desk &desk = sf_the_desk();
        const int lane = thread & 31, warp = thread / 32;
        sf_rows r;
        r.begin = thread * ROW;
        const sf_u32 heads = sf_heads_at(r.begin) | !thread, next = sf_heads_at(r.begin + ROW);
        const sf_u32 some = sf_ballot(heads != 0), before = some & sf_below(lane);
        const int own = r.begin + sf_highest(heads | 1);
        const int near = ::sf_shuffle(own, before ? sf_highest(before) : 0);
        const int last = ::sf_shuffle(own, some ? sf_highest(some) : 0);
        if (!lane)
                desk.last[warp] = some ? last : -1;
        sf_sync_block();
        /* Where the segment begins that has the position before the thread's. */
        const int other = lane < warp ? desk.last[lane & 31] : -1;
        const sf_u32 warps = sf_ballot(other >= 0);
        const int far = ::sf_shuffle(other, warps ? sf_highest(warps) : 0);
        const int begun = before ? near : warps ? far : 0, goes_on = heads ? own : begun;
        const int first = (begun - r.begin) & (ROW - 1);
        const bool later = !(heads & ((2u << first) - 1));
        r.starts = (heads | (later ? 1u << first : 0)) & sf_up_to(s.count - r.begin);
        r.number = later && r.starts ? (r.begin + first - begun) / ROW : 0;
        r.leads = r.starts && (!thread || (later && !begun));
        const int after = (goes_on - r.begin) & (ROW - 1);
        const int least = next ? sf_lowest(next) : (int)ROW;
        const int end = ROW + (after < least ? after : least), most = s.count - r.begin;
        r.end = end < most ? end : most;
        return r;
}

/* Loads a row of at most N elements and combines them. In a fold the last becomes the total.
 * number: of its first element in its segment. */
template <int N> SF_DEVICE void sf_load_row(const sf_params &p, const sf_cells &cells, int length,
                                            sf_i64 number, sf_acc (&v)[N])
{
        const sf_acc neutral = sf_neutral(p);
#pragma unroll
        for (int i = 0; i < N; i++) {
                sf_vector raw = sf_no_vector();
                sf_shared_glance(sf_cell(cells, i), raw.x, i < length);
                v[i] = sf_lifted(sf_read(p, raw), number + i);
                if (SF_FOLDS)
                        v[i] = sf_choose(i < length, v[i], neutral);
        }
        sf_combine_leaf(v);
        (void)neutral;
}
/* Puts a row's results into its cells: those of its elements, or in a fold its total into the last
 * one's. before: what is to the left of the row. */
template <int N> SF_DEVICE void sf_put_row(const sf_params &p, const sf_cells &cells, int length,
                                           sf_acc total, const sf_acc (&v)[N], sf_acc before)
{
#if SF_FOLDS
        if (length > 0)
                sf_shared_store(sf_cell(cells, length - 1),
                                sf_result_of(p, sf_answered(p, total, 0), sf_results()));
        (void)v, (void)before;
#else
#pragma unroll
        for (int i = 0; i < N; i++) {
                const sf_acc own = SF_EXCLUSIVE ? (i ? v[i ? i - 1 : 0] : before) : v[i];
                const sf_result r = sf_result_of(p, sf_answered(p, own, 0), sf_results());
                if (i < length)
                        sf_shared_store(sf_cell(cells, i), r);
        }
        (void)total;
#endif
}

/* Computes a row at which a segment begins. Returns its total if it is full. */
template <int N>
SF_DEVICE sf_acc sf_run_row(const sf_params &p, const sf_cells &cells, int length)
{
        sf_acc v[N];
        sf_load_row(p, cells, length, 0, v);
        sf_put_row(p, cells, length, v[N - 1], v, sf_identity(p));
        return sf_settled(v[N - 1]);
}

/* Combines the elements of several rows, for bit b of numbers. bit[b]: which elements have it in
 * their number in their row. */
SF_DEVICE void sf_combine_level(sf_acc (&v)[ROW], const sf_u32 (&bit)[ROW_LOG], int b)
{
        sf_u32 full = ~bit[b]; /* those that the 2^b elements after them need */
#pragma unroll
        for (int lower = 0; lower < b; lower++)
                full &= bit[lower];
        sf_acc left = v[0];
#pragma unroll
        for (int i = 1; i < ROW; i++) {
                left = b ? sf_choose(full >> (i - 1) & 1, v[i - 1], left) : v[i - 1];
                v[i] = sf_choose(bit[b] >> i & 1, sf_combine(left, v[i]), v[i]);
        }
}
/* Puts the results of rows into cells. starts: where they begin; inside: their positions; ends:
 * their last ones. */
SF_DEVICE void sf_put_rows(const sf_params &p, const sf_cells &cells, const sf_acc (&v)[ROW],
                           sf_u32 starts, sf_u32 inside, sf_u32 ends)
{
        const sf_acc identity = sf_identity(p);
#pragma unroll
        for (int i = 0; i < ROW; i++) {
                const sf_acc before = sf_choose(starts >> i & 1, identity, v[i ? i - 1 : 0]);
                const sf_result r = sf_result_of(
                        p, sf_answered(p, SF_EXCLUSIVE ? before : v[i], 0), sf_results());
                if ((SF_FOLDS ? ends : inside) >> i & 1)
                        sf_shared_store(sf_cell(cells, i), r);
        }
        (void)identity, (void)inside, (void)ends;
}
/* Computes rows that begin in a thread's positions and end at `end`, at whose beginnings segments
 * begin. Those that lie in its positions are computed together. Returns the last one's total if it
 * is full. */
SF_DEVICE sf_acc sf_run_rows(const sf_params &p, const sf_span &s, int begin, sf_u32 starts, int end)
{
        const int last = starts ? sf_highest(starts) : 0;
        const bool over = starts && end > ROW;
        const sf_u32 some = starts ? sf_below(over ? last : end) & ~sf_below(sf_lowest(starts)) : 0,
                     goes_on = some & ~starts;
        /* Numbers of at least `number` are counted up. */
        sf_u32 bit[ROW_LOG] = {}, at_least = goes_on;
#pragma unroll
        for (int number = 1; number < ROW; number++, at_least = at_least << 1 & goes_on)
#pragma unroll
                for (int b = 0; b < ROW_LOG; b++)
                        if (number % (1 << b) == 0)
                                bit[b] ^= at_least;
        const sf_cells cells = sf_cells_of(s, begin);
        sf_acc v[ROW];
#pragma unroll
        for (int i = 0; i < ROW; i++) {
                sf_vector raw = sf_no_vector();
                int number = 0;
#pragma unroll
                for (int b = 0; b < ROW_LOG; b++)
                        number |= (int)(bit[b] >> i & 1) << b;
                sf_shared_glance(sf_cell(cells, i), raw.x, some >> i & 1);
                v[i] = sf_lifted(sf_read(p, raw), number);
        }
        /* Elements; bits of numbers. A little row is not full. */
        enum { LITTLE = ROW / 4 < 2 ? 2 : ROW / 4, FEW = 2 };
        sf_u32 more = 0;
#pragma unroll
        for (int b = FEW; b < ROW_LOG; b++)
                more |= bit[b];
#pragma unroll
        for (int b = 0; b < FEW; b++)
                sf_combine_level(v, bit, b);
        if (sf_ballot(more != 0))
#pragma unroll
                for (int b = FEW; b < ROW_LOG; b++)
                        sf_combine_level(v, bit, b);
        sf_put_rows(p, cells, v, starts, some, some & ~(goes_on >> 1));
        const sf_acc total = sf_settled(v[ROW - 1]);
        if (!sf_ballot(over))
                return total;
        const int length = over ? end - last : 0;
        const sf_cells rest = sf_cells_of(s, begin + last);
        const bool little = !sf_ballot(length > LITTLE);
        if (little) {
                sf_run_row<LITTLE>(p, rest, length);
                return total;
        }
        return sf_choose(over, sf_run_row<ROW>(p, rest, length), total);
}

/* Makes totals of rows those of blocks of rows. number: of the thread's last row, whose total it
 * has put into desk.total if the row is full. bits: all that are set in numbers. */
SF_DEVICE void sf_join_rows(int number, sf_u32 bits, int thread)
{
        sf_desk &desk = sf_the_desk();
        const int ones = sf_lowest(~(sf_u32)number);
#pragma unroll 1
        for (int b = 0; bits >> b; b++) {
                if (ones > b)
                        desk.total[thread] = sf_settled(
                                sf_combine(desk.total[thread - (1 << b)], desk.total[thread]));
                sf_sync_block();
        }
}

/* A warp publishes the total of the span's last chunk if others need it, and finds those of the
 * chunks before the first one. */
SF_DEVICE void sf_meet_chunks(const sf_params &p, const sf_span &s, int lane)
{
        const sf_place place = {s.words, s.window, s.mark};
        sf_desk &desk = sf_the_desk();
        sf_acc total = desk.total[s.tells ? (s.count - ROW) / ROW : 0];
        const bool joins = s.tells && s.alone;
        const sf_u32 early = joins ? sf_early(s.number) : 0;
        sf_u32 bits = SF_FOLDS && joins ? early : s.number;
        bool tells = s.tells;
        sf_look look;
        if (bits >> lane & 1)
                look = sf_look_for(p, place, s.number, lane);
#pragma unroll 1
        for (;; bits &= bits - 1) {
                if (tells && !(bits & early)) {
                        tells = false;
                        if (!lane)
                                sf_tell(place, total);
                }
                if (!bits)
                        return;
                const int bit = sf_lowest(bits);
                sf_acc left = total;
                if (lane == bit) {
                        left = sf_found(p, look, place.mark);
                        desk.left[bit] = left;
                }
                sf_sync_warp();
                left = sf_shuffle(left, bit);
                if (joins)
                        total = sf_settled(sf_combine(left, total));
        }
}

/* Combines the first row with what is to its left. */
template <int N> SF_DEVICE void sf_take_rows(const sf_span &s, const sf_rows &r, int thread,
                                             sf_acc (&v)[N], sf_acc &total, sf_acc &before)
{
        const sf_desk &desk = sf_the_desk();
        bool any = false;
#pragma unroll 1
        for (sf_u32 bits = (sf_u32)r.number; bits; bits &= bits - 1, any = true)
                sf_take_one_left(
                        desk.total[thread - (r.number & sf_below(sf_lowest(bits))) - 1], any, v,
                        total, before);
        if (r.leads)
#pragma unroll 1
                for (sf_u32 bits = s.number; bits; bits &= bits - 1, any = true)
                        sf_take_one_left(desk.left[sf_lowest(bits)], any, v, total, before);
}

/* ------------------------------------------------------------------------------------------------
 * Spans
 * ---------------------------------------------------------------------------------------------- */

/* The flags have been cleared. What is needed all the time is in registers: else it would be read
 * again after whatever is stored. */
SF_DEVICE void sf_run_span(const sf_params &p, const sf_span &shared)
{
        sf_desk &desk = sf_the_desk();
        const sf_span s = shared;
        const int thread = sf_thread(), lane = thread & 31, warp = thread / 32;
        {
                sf_fetched f;
                sf_fetch_span(s, f);
                sf_set_flags(p, s);
                sf_keep_span(s, f);
        }
        sf_sync_block();
        const sf_rows r = sf_rows_of(s, thread);
        /* The first row is computed by itself if something is to its left. */
        const sf_u32 others = r.starts & (r.starts - 1);
        const bool single = !others, apart = r.number || (r.leads && s.number);
        const int start = apart ? sf_lowest(r.starts) : 0,
                  length = apart ? (single ? r.end : sf_lowest(others)) - start : 0;
        const sf_cells cells = sf_cells_of(s, r.begin + start);
        const sf_i64 number = (sf_i64)r.number * ROW + (r.leads ? (sf_i64)s.number * CHUNK : 0);
        sf_acc last = sf_run_rows(p, s, r.begin, apart ? others : r.starts, r.end);
        sf_acc v[ROW], total = last, before = sf_identity(p);
#pragma unroll
        for (int i = 0; i < ROW; i++) /* see segments_cells.cuh */
                v[i] = before;
        const bool some = sf_ballot(apart);
        if (some) {
                sf_load_row(p, cells, length, number, v);
                total = sf_settled(v[ROW - 1]);
                last = sf_choose(apart && single, total, last);
        }
        desk.total[thread] = last;
        const sf_u32 bits = sf_all_bits(single && r.starts ? (sf_u32)r.number : 0);
        if (!lane)
                desk.bits[warp] = bits;
        sf_sync_block();
        sf_join_rows(single && r.starts ? r.number : 0,
                     sf_all_bits(lane < WARPS ? desk.bits[lane] : 0), thread);
        if (s.number || s.tells) {
                if (!warp)
                        sf_meet_chunks(p, shared, lane);
                if (s.number)
                        sf_sync_block();
        }
        if (some && !(SF_FOLDS && s.alone && s.tells)) {
                sf_take_rows(s, r, thread, v, total, before);
                sf_put_row(p, cells, length, total, v, before);
        }
        sf_sync_block();
        const sf_span again = shared;
        sf_store_span(p, again);
}

/* Where a window's span begins. */
struct sf_begin_of_span {
        sf_i64 k, first; /* the first segment that begins in the window or after it; the position */
        sf_u32 number;   /* which chunk of segment k - 1 begins there, or 0 */
};
SF_DEVICE sf_begin_of_span sf_span_begins(const sf_params &p, sf_i64 window)
{
        const sf_u64 *const words =
                (const sf_u64 *)p.scratch + p.number[1] + window * SF_TABLE_WORDS;
        sf_begin_of_span b;
        b.k = (sf_i64)(words[0] & ~SF_TABLE_TOP);
        b.first = (sf_i64)(words[1] & ~SF_TABLE_TOP);
        b.number = (sf_u32)words[2];
        return b;
}
SF_DEVICE void sf_place_span(const sf_line &line, sf_span &s, sf_i64 count)
{
        s.count = count < 0 ? 0 : count < ROOM ? (int)count : (int)ROOM;
        s.tells = s.tells && s.count >= ROW;
        s.x = line.x + s.first * (SF_X_UNIT * SF_IN_SIZE);
        s.y = line.y + (SF_FOLDS ? 0 : s.first * (SF_Y_UNIT * SF_OUT_SIZE));
        s.shift = sf_shift_of<SF_IN_SIZE, SF_X_UNIT>(s.x);
}

/* One thread draws a ticket and finds its window's spans. */
SF_DEVICE void sf_find_spans(const sf_params &p)
{
        sf_desk &desk = sf_the_desk();
        const sf_u64 drawn = sf_draw(p);
        const sf_i64 turn = (sf_u32)drawn, all = p.units * p.number[0],
                     unit = p.units == 1 ? 0 : sf_divide(turn, p.number[0]),
                     window = turn - unit * p.number[0];
        desk.apart = turn - all;
        desk.spans = 0;
        if (SF_FOLDS && turn >= all)
                return sf_hand_in(p, drawn);
        const sf_begin_of_span from = sf_span_begins(p, window), to = sf_span_begins(p, window + 1);
        const sf_line line = sf_batch_line(p, unit);
        const sf_i64 count = to.first - from.first;
        sf_span s;
        sf_hand_in(p, drawn);
        s.mark = sf_mark(drawn);
        s.words = (sf_u64 *)p.scratch + SF_TICKETS / 8 + unit * p.number[2];
        s.window = (sf_u32)window;
        s.first = from.first;
        s.number = from.number;
        s.k = from.k;
        s.past = to.k;
        s.open = from.k - (from.number != 0);
        s.tells = to.number != 0;
        s.alone = from.k == to.k;
        desk.spans = 1;
        sf_i64 rest = count;
        if (count > ROOM) {
                sf_span last = s;
                last.first = sf_bound(p, to.k - 1);
                last.number = 0;
                last.alone = true;
                last.k = to.k;
                last.open = to.k - 1;
                sf_place_span(line, last, to.first - last.first);
                desk.span[0] = last;
                desk.spans = 2;
                s.past = to.k - 1;
                s.tells = s.alone = false;
                rest = last.first - s.first;
        }
        sf_place_span(line, s, rest);
        desk.span[desk.spans - 1] = s;
        /* No fold has an entry for what comes after the last segment. */
        if (SF_FOLDS && from.k > p.segments)
                desk.spans = 0;
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        sf_desk &desk = sf_the_desk();
        if (!sf_thread())
                sf_find_spans(p);
        sf_clear_flags();
        sf_sync_block();
        const int spans = desk.spans;
#if SF_FOLDS
        if (desk.apart >= 0)
                return sf_store_apart(p, desk.apart * WARPS + sf_thread() / 32,
                                      sf_thread() & 31);
#endif
#pragma unroll 1
        for (int k = 0; k < spans; k++) {
                if (k) {
                        sf_sync_block();
                        sf_clear_flags();
                        sf_sync_block();
                }
                sf_run_span(p, desk.span[k]);
        }
}
