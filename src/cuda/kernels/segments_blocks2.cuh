/*
 * segments_blocks.cuh: a block computes a window of a line whose elements are contiguous and loaded
 * as they are (segments.cu). What the mix of lengths is changes little: work is cut by positions.
 *
 * A block's span are the chunks that begin in its window, which are contiguous. segments_table.cu
 * has found where spans begin. The span's elements are copied to shared memory, and a byte for each
 * position says whether a segment begins there; so empty segments vanish. Segments are cut into rows
 * of SF_LEAF elements, counted from their beginning, and thread t has the rows that begin in
 * positions t * SF_LEAF and up. These are rows of other segments, but for the first row: it may be
 * one of a segment that began earlier. So the rows of a segment are those of neighbouring threads.
 *
 * Rows are numbered in their chunk. A full row whose number ends in k one bits holds the total of
 * the 2^k rows that end with it; what comes before row m is one such total for each bit set in m,
 * just as it is with chunks (segments_bounds.cuh).
 *
 * A span has up to twice a chunk's elements. A block has room for ROOM, a little more than a chunk.
 * If that is not enough, the last segment's chunk is computed by itself, before the others, because
 * other blocks may wait for its total.
 */
enum {
        ROW = SF_LEAF,
        ROOM = SF_THREADS * ROW,
        CELL = SF_CELL,
        FLAGS = ROOM + 16, /* of the row after the last too */
        LIST = 2 * ROOM + 16,
        BATCH = 4,         /* offsets that a thread loads at once */
};
static_assert(CHUNK < ROOM && ROW <= 16, "a chunk and more; flags of a row are a vector");
static_assert(CELL >= SF_IN_SIZE && (SF_FOLDS || CELL >= SF_OUT_SIZE), "an element or a result");

/* Part of a line that a block computes at once. */
struct sf_span {
        const char *x;
        char *y;         /* scans: at the span's first position; folds: at the line's first entry */
        sf_i64 first;    /* the first position */
        sf_i64 k, past;  /* the segments that begin in it, but for one of another span */
        sf_i64 open;     /* the first part's segment */
        sf_u64 *words;   /* where the line's windows publish totals */
        int count;
        int shift;       /* how many elements its first is after a whole line of 128 bytes */
        sf_u32 number;   /* which chunk of its segment the first part is */
        sf_u32 window, mark;
        bool tells;      /* the last part is a full chunk, and its segment goes on */
        bool alone;      /* there is but one part */
};
enum { SPAN = 80 };
static_assert(sizeof(sf_span) <= SPAN, "the host has another idea of a span");

/* What a block shares. After it flags, then cells. */
struct sf_desk {
        union {
                sf_span span;
                sf_u64 room[SPAN / 8];
        } each[2];
        int spans;
        sf_u32 bits[32];        /* those set in numbers of rows, for each warp */
        int heads[32];          /* so many begin in a warp's positions */
        int last[32];           /* where the last segment begins that begins in a warp's positions */
        sf_acc left[32];        /* of the chunks before, for each bit of the first part's number */
        sf_acc total[SF_THREADS]; /* of blocks of rows */
};
SF_DEVICE sf_desk &sf_the_desk() { return *(sf_desk *)sf_shared(); }
static_assert(sizeof(sf_desk) <= (2 * SPAN + 16 + 384 + (32 + SF_THREADS) * sizeof(sf_acc) + 15) / 16 * 16,
              "the host has another idea of a desk");
SF_DEVICE unsigned char *sf_flags() { return sf_shared() + sf_block_flags(SF_THREADS, sizeof(sf_acc)); }

/* The cell of position i. Elements of a line of 128 bytes are neighbours. One cell is left free after
 * 32, so that rows are in different banks. */
SF_DEVICE unsigned char *sf_cell(const sf_span &s, int i)
{
        i += s.shift;
        return sf_flags() + FLAGS + LIST + (i + (i >> 5)) * CELL;
}
/* Where segments begin. */
SF_DEVICE unsigned short *sf_list() { return (unsigned short *)(sf_flags() + FLAGS); }

/* ------------------------------------------------------------------------------------------------
 * Elements
 * ---------------------------------------------------------------------------------------------- */

template <int SIZE, int UNIT> SF_DEVICE int sf_shift_of(const char *at)
{
        return UNIT == 1 ? (int)((sf_u64)at / SIZE & 31) : 0;
}

/* The span's elements, as they are on their way to cells: in vectors, but for the first and the last
 * few. */
struct sf_fetched {
        enum { SIZE = SF_IN_SIZE, EACH = SF_X_UNIT == 1 ? 16 / SIZE : 1, TURNS = ROW / EACH + 1 };
        enum { APART = SF_THREADS * EACH };
        sf_raw<SIZE * EACH> raw[TURNS];
};
SF_DEVICE void sf_fetch_span(const sf_span &s, sf_fetched &f)
{
        enum { SIZE = sf_fetched::SIZE, EACH = sf_fetched::EACH, APART = sf_fetched::APART };
        const int at = sf_thread() * EACH - s.shift;
        const char *const from = sf_anew(s.x + at * (SF_X_UNIT * SIZE));
#pragma unroll
        for (int j = 0; j < sf_fetched::TURNS; j++) {
                const int i = at + j * APART;
                const char *const here = from + j * (APART * SF_X_UNIT * SIZE);
                if (i >= 0 && i + EACH <= s.count)
                        sf_load(here, f.raw[j]);
                else if (EACH > 1 && i < s.count)
#pragma unroll
                        for (int e = 0; e < EACH; e++)
                                if ((sf_u32)(i + e) < (sf_u32)s.count) {
                                        sf_raw<SIZE> one;
                                        sf_load(here + e * SIZE, one);
                                        sf_set_slot<SIZE>(f.raw[j], e, sf_slot<SIZE>(one, 0));
                                }
        }
}
/* What is beside the span gets garbage. */
SF_DEVICE void sf_keep_span(const sf_span &s, const sf_fetched &f)
{
        enum { SIZE = sf_fetched::SIZE, EACH = sf_fetched::EACH, APART = sf_fetched::APART };
        const int at = sf_thread() * EACH - s.shift;
        unsigned char *const cell = sf_cell(s, at);
#pragma unroll
        for (int j = 0; j < sf_fetched::TURNS; j++)
                if (at + j * APART < s.count)
#pragma unroll
                        for (int e = 0; e < EACH; e++)
                                sf_shared_store(cell + (j * (APART + APART / 32) + e) * CELL,
                                                sf_one_slot<SIZE>(sf_slot<SIZE>(f.raw[j], e)));
}

#if !SF_FOLDS
/* Stores the span's results from cells, in vectors of EACH. */
template <int EACH> SF_DEVICE void sf_store_vectors(const sf_span &s)
{
        enum { SIZE = SF_OUT_SIZE, TURNS = ROW / EACH + 1, APART = SF_THREADS * EACH };
        const int at = sf_thread() * EACH - sf_shift_of<SIZE, SF_Y_UNIT>(s.y);
        char *const to = sf_anew(s.y + at * (SF_Y_UNIT * SIZE));
        const unsigned char *const cell = sf_cell(s, at);
#pragma unroll
        for (int j = 0; j < TURNS; j++) {
                const int i = at + j * APART;
                char *const here = to + j * (APART * SF_Y_UNIT * SIZE);
                const unsigned char *const from = cell + j * (APART + APART / 32) * CELL;
                if (i >= 0 && i + EACH <= s.count) {
                        sf_raw<SIZE * EACH> r;
#pragma unroll
                        for (int e = 0; e < EACH; e++) {
                                sf_raw<SIZE> one;
                                sf_shared_load(from + e * CELL, one);
                                if (SIZE < 4)
                                        r.w[e * SIZE / 4] = e * SIZE % 4 ? r.w[e * SIZE / 4] : 0;
                                sf_set_slot<SIZE>(r, e, sf_slot<SIZE>(one, 0));
                        }
                        sf_store(here, r);
                } else if (EACH > 1 && i < s.count)
#pragma unroll
                        for (int e = 0; e < EACH; e++)
                                if ((sf_u32)(i + e) < (sf_u32)s.count) {
                                        sf_raw<SIZE> one;
                                        sf_shared_load(from + e * CELL, one);
                                        sf_store(here + e * SIZE, one);
                                }
        }
}
SF_DEVICE void sf_store_span(const sf_span &s)
{
        enum { SIZE = SF_OUT_SIZE, EACH = SF_Y_UNIT == 1 ? 16 / SIZE : 1 };
        const int other = s.shift - sf_shift_of<SIZE, SF_Y_UNIT>(s.y);
        if (other & (EACH - 1))
                sf_store_vectors<1>(s);
        else
                sf_store_vectors<EACH>(s);
}
#endif

/* Where the offset of segment k is. They are contiguous. Only their low 32 bits are loaded: offsets are
 * compared within a span. */
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

#if SF_FOLDS
/* Stores the totals of segments that end in the span, and those of empty ones that begin there. */
SF_DEVICE void sf_store_entries(const sf_params &p, const sf_span &s)
{
        const sf_result none = sf_result_of(p, sf_answered(p, sf_identity(p), 0), sf_results());
        /* No entries before the first segment and after the last one. */
        const sf_i64 ended = s.past - s.tells, from = s.open < 0 ? 0 : s.open;
        const sf_i64 past = ended < p.segments ? ended : p.segments;
        const sf_i64 k = from + sf_thread();
        const char *at = sf_offset_at(p, k);
        char *to = s.y + k * p.sy;
        bool open = k < s.k; /* it is not empty, even if it has 2^32 elements */
        enum { SOME = BATCH / 2, NEXT = SOME * SF_THREADS };
#pragma unroll 1
        for (sf_i64 left = past - k; left > 0; left -= NEXT) {
                const int few = left < NEXT ? (int)left : NEXT;
                sf_raw<4> low[SOME], next[SOME];
#pragma unroll
                for (int j = 0; j < SOME; j++)
                        if (j * SF_THREADS < few) {
                                sf_load(at + j * SF_THREADS * OFFSET, low[j]);
                                sf_load(at + (j * SF_THREADS + 1) * OFFSET, next[j]);
                        }
                at += NEXT * OFFSET;
#pragma unroll
                for (int j = 0; j < SOME; j++)
                        if (j * SF_THREADS < few) {
                                const sf_u32 end = sf_in_span(p, s, next[j]);
                                if (low[j].w[0] == next[j].w[0] && !open)
                                        sf_store(to, none);
                                else if (end - 1 < (sf_u32)s.count) {
                                        sf_result r;
                                        sf_shared_load(sf_cell(s, (int)end - 1), r);
                                        sf_store(to, r);
                                }
                                to += SF_THREADS * p.sy;
                                open = false;
                        }
        }
}
#endif

/* ------------------------------------------------------------------------------------------------
 * Rows
 * ---------------------------------------------------------------------------------------------- */

/* Clears the flags. */
SF_DEVICE void sf_clear_flags()
{
        sf_raw<16> none;
        none.w[0] = none.w[1] = none.w[2] = none.w[3] = 0;
#pragma unroll
        for (int i = 0; i < FLAGS; i += SF_THREADS * 16)
                if (i + sf_thread() * 16 < FLAGS)
                        sf_shared_store(sf_flags() + i + sf_thread() * 16, none);
}
/* Sets those of the segments that begin in the span. */
template <int COUNT> SF_DEVICE void sf_set_some(const sf_params &p, const sf_span &s,
                                                const char *from, int left)
{
        sf_raw<4> low[COUNT];
#pragma unroll
        for (int j = 0; j < COUNT; j++)
                if (j * SF_THREADS < left)
                        sf_load(from + j * SF_THREADS * OFFSET, low[j]);
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
                const sf_u32 at = sf_in_span(p, s, low[j]);
                if (j * SF_THREADS < left && at - 1 < (sf_u32)s.count - 1)
                        sf_flags()[at] = 1;
        }
}
SF_DEVICE void sf_set_flags(const sf_params &p, const sf_span &s)
{
        const int thread = sf_thread();
        const char *from = sf_offset_at(p, s.k + thread);
        sf_i64 left = s.past - s.k;
        if (left <= SF_THREADS)
                return sf_set_some<1>(p, s, from, (int)left - thread);
#pragma unroll 1
        for (; left > 0; left -= BATCH * SF_THREADS, from += BATCH * SF_THREADS * OFFSET) {
                const int few = left < BATCH * SF_THREADS ? (int)left : BATCH * SF_THREADS;
                sf_set_some<BATCH>(p, s, from, few - thread);
        }
}
/* The flags of ROW positions as bits. */
SF_DEVICE sf_u32 sf_heads_at(int position)
{
        sf_raw<ROW> r;
        sf_u32 bits = 0;
        sf_shared_load(sf_flags() + position, r);
#pragma unroll
        for (int w = 0; w < ROW / 4; w++)
                bits |= (r.w[w] * 0x01020408u >> 24 & 15) << 4 * w;
        return bits;
}
SF_DEVICE sf_u32 sf_bits_below(int n) { return n <= 0 ? 0 : n < 32 ? sf_below(n) : ~0u; }

/* The row of a thread that begins no segment, if it has one; thread 0 always has the span's first.
 * Positions count from the thread's first. */
struct sf_own {
        int begin;         /* the thread's first position in the span */
        int start, length; /* of the row; length 0: there is none */
        int number;        /* of the row in its chunk */
        bool leads;        /* it belongs to the span's first part */
        bool last;         /* no other row begins in the thread's positions */
};

/* All positions where segments begin are known to be flagged. Finds the thread's own row, and lists
 * those where segments begin; sets how many these are. */
SF_DEVICE sf_own sf_find_rows(const sf_span &s, int thread, int &heads_in_all)
{
        sf_desk &desk = sf_the_desk();
        const int lane = thread & 31, warp = thread / 32;
        sf_own r;
        r.begin = thread * ROW;
        const sf_u32 heads = sf_heads_at(r.begin), next = sf_heads_at(r.begin + ROW);
        const sf_u32 some = sf_ballot(heads || !thread), before = some & sf_below(lane);
        const int mine = r.begin + sf_highest(heads | 1);
        const int near = ::sf_shuffle(mine, before ? sf_highest(before) : 0);
        const int last = ::sf_shuffle(mine, some ? sf_highest(some) : 0);
        int count = sf_count_bits(heads);
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                count = sf_sum_up<32>(count, b);
        if (!lane)
                desk.last[warp] = some ? last : -1;
        if (lane == 31)
                desk.heads[warp] = count;
        sf_sync_block();
        /* Where the segment begins that has the position before the thread's. */
        const int other = lane < warp ? desk.last[lane] : -1;
        const int many = lane < WARPS ? desk.heads[lane] : 0;
        const sf_u32 warps = sf_ballot(other >= 0);
        const int far = ::sf_shuffle(other, warps ? sf_highest(warps) : 0);
        const int begun = before ? near : warps ? far : 0, most = s.count - r.begin;
        heads_in_all = sf_sum_lanes(many);
        unsigned short *to = sf_list() + sf_sum_lanes(lane < warp ? many : 0) + count - sf_count_bits(heads);
#pragma unroll 1
        for (sf_u32 left = heads; left; left &= left - 1)
                *to++ = (unsigned short)(r.begin + sf_lowest(left));
        if (!thread)
                sf_list()[heads_in_all] = (unsigned short)s.count;
        r.start = (begun - r.begin) & (ROW - 1);
        const int least = heads ? sf_lowest(heads) : next ? ROW + sf_lowest(next) : 2 * (int)ROW;
        const int end = least < r.start + ROW ? least : r.start + (int)ROW;
        const int length = (end < most ? end : most) - r.start;
        r.length = length > 0 ? length : 0;
        r.number = length > 0 ? (r.begin + r.start - begun) / ROW : 0;
        r.leads = length > 0 && !begun;
        r.last = !heads;
        return r;
}

/* Loads a row of at most N elements and combines them. In a fold the last becomes the total. number:
 * of its first element in its segment. */
template <int N> SF_DEVICE void sf_load_row(const sf_params &p, const sf_span &s, int begin, int length, sf_i64 number, sf_acc (&v)[N])
{
        const sf_acc neutral = sf_neutral(p);
#pragma unroll
        for (int i = 0; i < N; i++) {
                sf_vector raw = sf_no_vector();
                sf_shared_glance(sf_cell(s, begin + i), raw.x, i < length);
                v[i] = sf_lifted(sf_read(p, raw), number + i);
                if (SF_FOLDS)
                        v[i] = sf_choose(i < length, v[i], neutral);
        }
        sf_combine_leaf(v);
        (void)neutral;
}
/* Puts a row's results into its cells: those of its elements, or in a fold its total into the last
 * one's. before: what is to the left of the row. */
template <int N> SF_DEVICE void sf_put_row(const sf_params &p, const sf_span &s, int begin,
                                           int length, sf_acc total,
                                           const sf_acc (&v)[N], sf_acc before)
{
#if SF_FOLDS
        if (length > 0)
                sf_shared_store(sf_cell(s, begin + length - 1),
                                sf_result_of(p, sf_answered(p, total, 0), sf_results()));
        (void)v, (void)before;
#else
#pragma unroll
        for (int i = 0; i < N; i++) {
                const sf_acc own = SF_EXCLUSIVE ? (i ? v[i ? i - 1 : 0] : before) : v[i];
                const sf_result r = sf_result_of(p, sf_answered(p, own, 0), sf_results());
                if (i < length)
                        sf_shared_store(sf_cell(s, begin + i), r);
        }
        (void)total;
#endif
}

/* Computes a row at which a segment begins. */
template <int N> SF_DEVICE void sf_run_row(const sf_params &p, const sf_span &s, int begin, int length)
{
        sf_acc v[N];
        sf_load_row(p, s, begin, length, 0, v);
        sf_put_row(p, s, begin, length, v[N - 1], v, sf_identity(p));
        if (N == ROW && length == ROW)
                sf_the_desk().total[begin / ROW] = sf_settled(v[N - 1]);
}

/* Computes the rows that are listed. */
SF_DEVICE void sf_run_listed(const sf_params &p, const sf_span &s, int heads, int thread)
{
        enum { LITTLE = ROW / 4 < 2 ? 2 : ROW / 4 };
        const unsigned short *const list = sf_list();
#pragma unroll 1
        for (int k = thread; (k & -32) < heads; k += SF_THREADS) {
                const bool there = k < heads;
                const int begin = there ? list[k] : 0, end = there ? list[k + 1] : 0;
                const int length = end - begin < ROW ? end - begin : (int)ROW;
                if (!sf_ballot(length > LITTLE))
                        sf_run_row<LITTLE>(p, s, begin, length);
                else
                        sf_run_row<ROW>(p, s, begin, length);
        }
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
template <int N> SF_DEVICE void sf_take_rows(const sf_span &s, const sf_own &r, int thread,
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

/* The flags have been cleared. */
SF_DEVICE void sf_run_span(const sf_params &p, const sf_span &s)
{
        sf_desk &desk = sf_the_desk();
        const int thread = sf_thread(), lane = thread & 31, warp = thread / 32;
        {
                sf_fetched f;
                sf_fetch_span(s, f);
                sf_set_flags(p, s);
                sf_keep_span(s, f);
        }
        sf_sync_block();
        int heads;
        const sf_own r = sf_find_rows(s, thread, heads);
        const sf_u32 bits = sf_all_bits(r.last ? (sf_u32)r.number : 0);
        if (!lane)
                desk.bits[warp] = bits;
        sf_sync_block();
        sf_run_listed(p, s, heads, thread);
        sf_acc v[ROW], before = sf_identity(p);
        const sf_i64 number = (sf_i64)r.number * ROW + (r.leads ? (sf_i64)s.number * CHUNK : 0);
        sf_load_row(p, s, r.begin + r.start, r.length, number, v);
        sf_acc total = sf_settled(v[ROW - 1]);
        if (r.last)
                desk.total[thread] = total;
        sf_sync_block();
        sf_join_rows(r.last ? r.number : 0, sf_all_bits(lane < WARPS ? desk.bits[lane] : 0), thread);
        if (s.number || s.tells) {
                if (!warp)
                        sf_meet_chunks(p, s, lane);
                if (s.number)
                        sf_sync_block();
        }
        if (!(SF_FOLDS && s.alone && s.tells)) {
                sf_take_rows(s, r, thread, v, total, before);
                sf_put_row(p, s, r.begin + r.start, r.length, total, v, before);
        }
        sf_sync_block();
#if SF_FOLDS
        sf_store_entries(p, s);
#else
        sf_store_span(s);
#endif
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
        const sf_i64 turn = (sf_u32)drawn, unit = p.units == 1 ? 0 : sf_divide(turn, p.number[0]),
                     window = turn - unit * p.number[0];
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
                desk.each[0].span = last;
                desk.spans = 2;
                s.past = to.k - 1;
                s.tells = s.alone = false;
                rest = last.first - s.first;
        }
        sf_place_span(line, s, rest);
        desk.each[desk.spans - 1].span = s;
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
#pragma unroll 1
        for (int k = 0; k < spans; k++) {
                if (k) {
                        sf_sync_block();
                        sf_clear_flags();
                        sf_sync_block();
                }
                const sf_span s = desk.each[k].span;
                sf_run_span(p, s);
        }
}
