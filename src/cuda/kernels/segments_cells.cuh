/*
 * segments_cells.cuh: a span's elements and results between memory and cells of shared memory, and
 * its flags (segments_blocks.cuh). Elements and results are moved in vectors of 16 bytes where they
 * are contiguous.
 *
 * What loads may leave as it was is cleared before. Else it would be in registers throughout the
 * kernel, as nvcc sees it, and elements would be spilled one by one as they come.
 */

/* The cell of position i. 32 elements that are neighbours in aligned memory are so here. One cell
 * is left free after them, so that rows begin in different banks. */
SF_DEVICE unsigned char *sf_cell(const sf_span &s, int i)
{
        i += s.shift;
        return sf_flags() + FLAGS + (i + (i >> 5)) * CELL;
}
/* The cells of up to 32 positions from one on, of which cells from `until` on are one further. */
struct sf_cells {
        unsigned char *cell;
        int until;
};
SF_DEVICE unsigned char *sf_cell(const sf_cells &c, int i)
{
        return (i < c.until ? c.cell : c.cell + CELL) + i * CELL;
}
SF_DEVICE sf_cells sf_cells_of(const sf_span &s, int i)
{
        return {sf_cell(s, i), 32 - ((i + s.shift) & 31)};
}
/* How many elements `at` is after 32 that are aligned; 0 if vectors are single elements. */
template <int SIZE, int UNIT> SF_DEVICE int sf_shift_of(const char *at)
{
        return UNIT == 1 ? (int)((sf_u64)at / SIZE & 31) : 0;
}

/* Goes through a thread's vectors of EACH elements; neighbouring threads have neighbouring ones.
 * The first one is at position `first`, which may be before the span. all(j): number j is within
 * the span. one(j, e): only part of it is, its element e among others. */
template <int EACH, class ALL, class ONE>
SF_DEVICE void sf_each_vector(int first, int count, ALL all, ONE one)
{
#pragma unroll
        for (int j = 0; j <= ROW / EACH; j++) {
                const int i = first + j * (SF_THREADS * EACH);
                if (i >= 0 && i + EACH <= count)
                        all(j);
                else if (EACH > 1 && i < count)
#pragma unroll
                        for (int e = 0; e < EACH; e++)
                                if ((sf_u32)(i + e) < (sf_u32)count)
                                        one(j, e);
        }
}

/* The elements on their way to cells. */
struct sf_fetched {
        enum { SIZE = SF_IN_SIZE, EACH = SF_X_UNIT == 1 ? 16 / SIZE : 1 };
        enum { APART = SF_THREADS * EACH };
        sf_raw<SIZE * EACH> raw[ROW / EACH + 1];
};
SF_DEVICE void sf_fetch_span(const sf_span &s, sf_fetched &f)
{
        enum { SIZE = sf_fetched::SIZE, EACH = sf_fetched::EACH, APART = sf_fetched::APART };
        const int first = sf_thread() * EACH - s.shift;
        const char *const from = sf_anew(s.x + first * (SF_X_UNIT * SIZE));
        const char *const end = s.x + s.count * SIZE; /* if elements are contiguous */
#pragma unroll
        for (int j = 0; j <= ROW / EACH; j++) {
                const int i = first + j * APART;
                const char *const at = from + j * (APART * SF_X_UNIT * SIZE);
                sf_clear(f.raw[j]);
                if (EACH > 1 && i > -EACH && i < s.count)
                        sf_load_chunk(at, s.x, end, f.raw[j]);
                else if (EACH == 1 && i < s.count)
                        sf_load(at, f.raw[j]);
        }
}
/* Cells beside the span get garbage. */
SF_DEVICE void sf_keep_span(const sf_span &s, const sf_fetched &f)
{
        enum { SIZE = sf_fetched::SIZE, EACH = sf_fetched::EACH, APART = sf_fetched::APART };
        const int first = sf_thread() * EACH - s.shift;
        unsigned char *const cell = sf_cell(s, first);
#pragma unroll
        for (int j = 0; j <= ROW / EACH; j++)
                if (first + j * APART > -EACH && first + j * APART < s.count)
#pragma unroll
                        for (int e = 0; e < EACH; e++)
                                sf_shared_store(cell + (j * (APART + APART / 32) + e) * CELL,
                                                sf_one_slot<SIZE>(sf_slot<SIZE>(f.raw[j], e)));
}

#if SF_FOLDS
/* Stores the totals of segments that end in the span, and those of empty ones that begin there. */
SF_DEVICE void sf_store_entries(const sf_params &p, const sf_span &s)
{
        enum { SOME = 4, NEXT = SOME * SF_THREADS };
        const sf_result none = sf_result_of(p, sf_answered(p, sf_identity(p), 0), sf_results());
        /* No entries before the first segment and after the last one. */
        const sf_i64 ended = s.past - s.tells, from = s.open < 0 ? 0 : s.open;
        const sf_i64 past = ended < p.segments ? ended : p.segments, k = from + sf_thread();
        const char *at = sf_offset_at(p, k);
        char *to = s.y + k * p.sy;
        bool open = k < s.k; /* it is not empty, even if it has 2^32 elements */
#pragma unroll 1
        for (sf_i64 left = past - k; left > 0; left -= NEXT, at += NEXT * OFFSET) {
                const int few = left < NEXT ? (int)left : NEXT;
                sf_raw<4> low[SOME], next[SOME];
#pragma unroll
                for (int j = 0; j < SOME; j++) {
                        sf_clear(low[j]);
                        sf_clear(next[j]);
                        if (j * SF_THREADS < few) {
                                sf_load(at + j * SF_THREADS * OFFSET, low[j]);
                                sf_load(at + (j * SF_THREADS + 1) * OFFSET, next[j]);
                        }
                }
#pragma unroll
                for (int j = 0; j < SOME; j++, to += SF_THREADS * p.sy, open = false) {
                        if (j * SF_THREADS >= few)
                                continue;
                        const sf_u32 end = sf_in_span(p, s, next[j]);
                        if (low[j].w[0] == next[j].w[0] && !open)
                                sf_store(to, none);
                        else if (end - 1 < (sf_u32)s.count) {
                                sf_result r;
                                sf_shared_load(sf_cell(s, (int)end - 1), r);
                                sf_store(to, r);
                        }
                }
        }
}
/* The same where segments are so many that some may be apart: one after another. */
SF_DEVICE void sf_store_many_entries(const sf_params &p, const sf_span &s)
{
        const sf_i64 ended = s.past - s.tells, past = ended < p.segments ? ended : p.segments;
#pragma unroll 1
        for (sf_i64 k = (s.open < 0 ? 0 : s.open) + sf_thread(); k < past; k += SF_THREADS) {
                if (sf_is_apart(p, k / SF_EMPTY_GROUP)) {
                        const sf_i64 next = sf_after_empty_singly(p, k, sf_bound(p, k));
                        const sf_i64 more = (next & -(sf_i64)SF_EMPTY_GROUP) - k;
                        k += more > 0 ? (more - 1) / SF_THREADS * SF_THREADS : 0;
                        continue;
                }
                sf_raw<4> begin, end;
                sf_load(sf_offset_at(p, k), begin);
                sf_load(sf_offset_at(p, k + 1), end);
                const sf_u32 last = sf_in_span(p, s, end) - 1;
                sf_result r = sf_result_of(p, sf_answered(p, sf_identity(p), 0), sf_results());
                const bool empty = begin.w[0] == end.w[0] && k >= s.k;
                if (!empty && last < (sf_u32)s.count)
                        sf_shared_load(sf_cell(s, (int)last), r);
                if (empty || last < (sf_u32)s.count)
                        sf_store(s.y + k * p.sy, r);
        }
}
SF_DEVICE void sf_store_span(const sf_params &p, const sf_span &s)
{
        if (s.past - s.k > SF_EMPTY_GROUP)
                sf_store_many_entries(p, s);
        else
                sf_store_entries(p, s);
}
#else
/* Stores the results of a scan in vectors of EACH. */
template <int EACH> SF_DEVICE void sf_store_vectors(const sf_span &s)
{
        enum { SIZE = SF_OUT_SIZE, APART = SF_THREADS * EACH };
        const int first = sf_thread() * EACH - sf_shift_of<SIZE, SF_Y_UNIT>(s.y);
        char *const to = sf_anew(s.y + first * (SF_Y_UNIT * SIZE));
        const unsigned char *const cell = sf_cell(s, first);
        const auto result = [&](int j, int e) {
                sf_raw<SIZE> one;
                sf_shared_load(cell + (j * (APART + APART / 32) + e) * CELL, one);
                return one;
        };
        sf_each_vector<EACH>(
                first, s.count,
                [&](int j) {
                        sf_raw<SIZE * EACH> r;
                        sf_clear(r);
#pragma unroll
                        for (int e = 0; e < EACH; e++)
                                sf_set_slot<SIZE>(r, e, sf_slot<SIZE>(result(j, e), 0));
                        sf_store(to + j * (APART * SF_Y_UNIT * SIZE), r);
                },
                [&](int j, int e) { sf_store(to + (j * APART + e) * SIZE, result(j, e)); });
}
SF_DEVICE void sf_store_span(const sf_params &, const sf_span &s)
{
        enum { EACH = SF_Y_UNIT == 1 ? 16 / SF_OUT_SIZE : 1 };
        /* Only if cells of a vector are neighbours. */
        if ((s.shift - sf_shift_of<SF_OUT_SIZE, SF_Y_UNIT>(s.y)) & (EACH - 1))
                sf_store_vectors<1>(s);
        else
                sf_store_vectors<EACH>(s);
}
#endif

/* ------------------------------------------------------------------------------------------------
 * Flags
 * ---------------------------------------------------------------------------------------------- */

/* Of a long run of empty segments that has segment k: after how many others, a multiple of STEP, the
 * last of them comes before `past`. */
template <int STEP> SF_DEVICE sf_i64 sf_same_offsets(const sf_params &p, sf_i64 k, sf_i64 past)
{
        const sf_i64 at = sf_bound(p, k);
        if (sf_bound(p, k + SF_EMPTY_GROUP / 2) != at)
                return 0;
        const sf_i64 next = sf_after_empty_singly(p, k, at), last = next < past ? next : past - 1;
        return last > k ? (last - k) / STEP * STEP : 0;
}

/* Clears the flags. */
SF_DEVICE void sf_clear_flags()
{
        sf_raw<16> none;
        sf_clear(none);
#pragma unroll
        for (int i = 0; i < FLAGS; i += SF_THREADS * 16)
                if (i + sf_thread() * 16 < FLAGS)
                        sf_shared_store(sf_flags() + i + sf_thread() * 16, none);
}
/* Sets those of the segments that begin in the span. */
SF_DEVICE void sf_set_flags(const sf_params &p, const sf_span &s)
{
        enum { SOME = 8, NEXT = SOME * SF_THREADS }; /* a thread loads SOME at once */
        const char *from = sf_offset_at(p, s.k + sf_thread());
#pragma unroll 1
        for (sf_i64 left = s.past - s.k - sf_thread(); left > 0; left -= NEXT) {
                if (left > SF_EMPTY_GROUP) {
                        const sf_i64 same = sf_same_offsets<NEXT>(p, s.past - left, s.past);
                        from += same * OFFSET;
                        left -= same;
                }
                const int few = left < NEXT ? (int)left : NEXT;
                sf_raw<4> low[SOME];
#pragma unroll
                for (int j = 0; j < SOME; j++) {
                        sf_clear(low[j]);
                        if (j * SF_THREADS < few)
                                sf_load(from + j * SF_THREADS * OFFSET, low[j]);
                }
                from += NEXT * OFFSET;
#pragma unroll
                for (int j = 0; j < SOME; j++) {
                        const sf_u32 at = sf_in_span(p, s, low[j]);
                        if (j * SF_THREADS < few && at < (sf_u32)s.count)
                                sf_shared_mark(sf_flags() + at);
                }
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
