/*
 * segments_rows.cuh: short segments of segments_apply.cu, by rows: a warp has up to 32 rows of up to
 * SF_ROW elements, one for each lane. Of tiny segments a lane has several (segments_packs.cuh).
 */

/* The part of a line that a warp has in its cells. */
struct sf_span {
        sf_i64 first;         /* the line's index of the first element */
        int count;            /* of elements */
        int done;             /* so many have been stored */
        unsigned char *cells; /* of the first element */
        bool waits;           /* the copy is still under way */
};
SF_DEVICE void sf_await(sf_span &s)
{
        if (s.waits)
                sf_copy_wait<0>();
        sf_sync_warp();
        s.waits = false;
}

/* The last step's results, if it is a map, replace elements in the cells if they are as large. */
enum {
        ITEM = SF_SIZE(sf_recipe<LAST>::OUT),
        REPLACED = (int)sf_recipe<LAST>::KIND == (int)KIND_MAP && (int)ITEM == (int)SIZE
};

/* Stores what rows have left in the cells, up to `to`. */
SF_DEVICE void sf_flush(const sf_params &p, const sf_course &c, sf_span &s, int to)
{
        enum { EACH = 16 / ITEM };
        sf_sync_warp();
        if (REPLACED && to > s.done) {
                const unsigned char *const cell = s.cells + s.done * ITEM;
                char *const y = sf_result_at<LAST>(p, c, s.first + s.done);
                const int length = to - s.done, past = (int)(-(sf_u64)y & 15) / ITEM;
                const bool vectors = sf_recipe<LAST>::UNIT && !(((sf_u64)y ^ (sf_u64)cell) & 15);
                /* Elements before whole vectors, and those with them. */
                const int head = !vectors ? 0 : past < length ? past : length,
                          inner = vectors ? head + (length - head) / EACH * EACH : 0;
#pragma unroll 4
                for (int i = head + c.lane * EACH; i < inner; i += 32 * EACH) {
                        sf_raw<16> some;
                        sf_shared_load(cell + i * ITEM, some);
                        sf_store(y + i * ITEM, some);
                }
#pragma unroll 1
                for (int i = c.lane; i < head + length - inner; i += 32) {
                        const int at = i < head ? i : inner + i - head;
                        sf_raw<ITEM> one;
                        sf_shared_load(cell + at * ITEM, one);
                        sf_store(sf_result_at<LAST>(p, c, s.first + s.done + at), one);
                }
        }
        sf_sync_warp();
        s.done = to;
}

/* A lane's row. */
struct sf_row {
        int at, length;         /* at: counted from the span's first element */
        /* Its number in its segment, how many that has, the first one's lane. */
        int number, rows, head;
        sf_i64 segment;
        bool empty;    /* the segment is */
        bool there_is; /* the lane has a row */
        /* What the lane takes at step i is element i ^ swap. Bit i of there: it exists. */
        int swap;
        sf_u32 there;
};

/* Combines the totals of a segment's rows; all of its lanes get the result, and so do those without
 * a row: from no elements they would compute numbers that take longer. No segment has a row of a
 * number above `last`. */
template <int K> SF_DEVICE sf_total<K> sf_fold_rows(const sf_row &row, int last, sf_total<K> total,
                                                    int lane)
{
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                if (b <= last) {
                        const sf_total<K> right = sf_held<K>::shuffle(total, (lane + b) & 31);
                        const bool takes = !(row.number & (2 * b - 1)) && row.number + b < row.rows;
                        total = sf_held<K>::choose(takes, sf_joined<K>(total, right), total);
                }
        return sf_held<K>::shuffle(total, row.head);
}

/* The steps of a group of rows. N: no row has more elements. */
template <int K, int N> struct sf_row_steps {
        SF_DEVICE_MEMBER void fold(const sf_params &p, sf_course &c, const sf_row &row, int last,
                                   sf_vectors (&v)[N / 4])
        {
                sf_total<K> a[N / 4];
#pragma unroll
                for (int i = 0; i < N / 4; i++)
                        sf_fold_vector<K, false>(p, c, row.there >> 4 * i, v[i], &a[i]);
                sf_total<K> total = sf_fold_rows<K>(row, last, sf_fold_few<K>(a), c.lane);
                if (STORED)
                        total = sf_held<K>::choose(row.empty, sf_lifted<K>(FIELD(K, identity)),
                                                   total);
                sf_made<K>(p, c, total, row.segment, row.there_is && !row.number);
        }
        SF_DEVICE_MEMBER void map(const sf_params &p, sf_course &c, const sf_span &s,
                                  const sf_row &row, sf_vectors (&v)[N / 4])
        {
                enum { OWN = SF_SIZE(sf_recipe<K>::OUT) };
#pragma unroll
                for (int i = 0; i < N / 4; i++) {
                        sf_raw<OWN * SF_WIDTH> r;
                        sf_map_either<K>(p, c, v[i], r);
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++) {
                                const int own = (4 * i + j) ^ row.swap, at = row.at + own;
                                if (K == LAST && REPLACED)
                                        sf_put_cell<OWN, false>(own, row.length,
                                                                s.cells + at * OWN, r, j);
                                else
                                        sf_put_memory<OWN, false>(
                                                own, row.length,
                                                sf_result_at<K>(p, c, s.first + at), r, j);
                        }
                }
        }
        SF_DEVICE_MEMBER void run(const sf_params &p, sf_course &c, const sf_span &s,
                                  const sf_row &row, int last, sf_vectors (&v)[N / 4])
        {
                if (sf_recipe<K>::KIND == KIND_FOLD)
                        fold(p, c, row, last, v);
                else
                        map(p, c, s, row, v);
                sf_row_steps<K + 1, N>::run(p, c, s, row, last, v);
        }
};
template <int N> struct sf_row_steps<STEPS, N> {
        SF_DEVICE_MEMBER void run(const sf_params &, sf_course &, const sf_span &, const sf_row &,
                                  int, sf_vectors (&)[N / 4]) {}
};

/* Bit i becomes bit i ^ swap, for swaps below 16. */
SF_DEVICE sf_u32 sf_swap_bits(sf_u32 v, int swap)
{
        v = swap & 1 ? (v & 0x55555555u) << 1 | (v >> 1 & 0x55555555u) : v;
        v = swap & 2 ? (v & 0x33333333u) << 2 | (v >> 2 & 0x33333333u) : v;
        v = swap & 4 ? (v & 0x0f0f0f0fu) << 4 | (v >> 4 & 0x0f0f0f0fu) : v;
        return swap & 8 ? (v & 0x00ff00ffu) << 8 | (v >> 8 & 0x00ff00ffu) : v;
}

/* Rows of a long segment are SF_ROW elements apart, in the same banks; `swap` differs between those
 * that would collide. */
template <int N> SF_DEVICE void sf_run_rows(const sf_params &p, sf_course &c, const sf_span &s,
                                            sf_row row, int last)
{
        static_assert(N <= 16, "sf_swap_bits");
        sf_vectors v[N / 4];
        row.swap = N > 4 ? c.lane / (32 / SF_ROW) & (N - 1) : 0;
        row.there = sf_swap_bits((1u << row.length) - 1, row.swap);
#pragma unroll
        for (int i = 0; i < N / 4; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        const int at = row.at + ((4 * i + j) ^ row.swap);
                        const bool there = row.there >> (4 * i + j) & 1;
                        sf_raw<SIZE> one;
                        sf_shared_glance(s.cells + at * SIZE, one, there);
                        sf_set_slot<SIZE>(v[i].operand0, j, sf_slot<SIZE>(one, 0));
                        sf_load_beside<BESIDE>(p, c, s.first + at, there, j, v[i]);
                }
        sf_row_steps<0, N>::run(p, c, s, row, last, v);
}

#include "segments_packs.cuh"

/* A segment of more than 32 rows that is in the warp's cells, from element `begin` on. */
SF_DEVICE void sf_run_chunks(const sf_params &p, sf_course &c, const sf_span &span, sf_i64 segment,
                             int begin, int count)
{
        static_assert(SF_CHUNKS * SLOT <= 128, "the totals have the place of the rows");
        sf_part s;
        s.first = span.first + begin;
        s.count = s.kept = count;
        s.chunks = (count + CHUNK - 1) / CHUNK;
        s.cells = span.cells + begin * SIZE;
        s.total = (unsigned char *)sf_the_desk().of[c.warp];
        s.warps = 1;
        s.segment = segment;
        sf_load_still(p, c, segment);
        sf_part_steps<0>::run(p, c, s);
        sf_sync_warp();
}

/* A segment that no warp has cells for, by the block. */
SF_DEVICE void sf_run_late(const sf_params &p, sf_course &c, sf_i64 segment)
{
        const sf_i64 begin = sf_bound(p, segment), count = sf_bound(p, segment + 1) - begin;
        if (count > LONG || count <= 0)
                return;
        const char *from = c.operand[0] + begin * SIZE;
        sf_part s;
        s.first = begin;
        s.count = (int)count;
        s.chunks = (s.count + CHUNK - 1) / CHUNK;
        s.kept = s.count < PIECE ? s.count : (int)PIECE;
        s.cells = sf_cells_of(0) + ((sf_u64)from & 15);
        s.total = sf_the_desk().total[0];
        s.warps = WARPS;
        s.segment = segment;
        sf_copy_flat<SF_THREADS>(from, s.kept, s.cells, sf_thread());
        sf_load_still(p, c, segment);
        sf_copy_wait<0>();
        sf_sync_block();
        sf_part_steps<0>::run(p, c, s);
        sf_sync_block();
}

/* Stores what empty segments fold to, of those from k on and before `end`. */
SF_DEVICE void sf_run_empty(const sf_params &p, sf_course &c, sf_i64 k, sf_i64 end)
{
        const sf_span s = {0, 0, 0, sf_cells_of(c.warp), false};
        sf_row row = {};
        row.rows = 1;
        row.head = c.lane;
        row.empty = true;
#pragma unroll 1
        for (; k < end; k += 32) {
                row.there_is = k + c.lane < end;
                row.segment = row.there_is ? k + c.lane : k;
                sf_load_still(p, c, row.segment);
                sf_run_rows<4>(p, c, s, row, 0);
        }
}

/* What a warp without a window does: its share of the groups that are apart. */
SF_DEVICE void sf_run_apart(const sf_params &p, sf_course &c, sf_i64 number)
{
        const sf_i64 shares = sf_empty_shares(p.segments, 0), unit = sf_divide(number, shares);
        if (unit >= p.units)
                return;
        sf_locate(p, unit, c);
        const sf_i64 share = number - unit * shares;
#pragma unroll 1
        for (sf_u32 groups = sf_apart_in(p, share, c.lane); groups; groups &= groups - 1) {
                const sf_i64 first = (share * SF_EMPTY_SHARE + sf_lowest(groups)) * SF_EMPTY_GROUP;
                sf_run_empty(p, c, first, first + SF_EMPTY_GROUP);
        }
}

/* A warp has met as many empty segments as it looks at, at `position`: it goes on from k on where
 * others begin, or at `past`. */
SF_DEVICE void sf_skip_empty(const sf_params &p, sf_course &c, sf_i64 position, sf_i64 &k,
                             sf_i64 past)
{
        const sf_i64 found = sf_after_empty(p, k, position, c.lane);
        const sf_i64 next = found < past ? found : past;
        if (STORED) {
                const sf_i64 all = next < p.segments ? next : p.segments;
                const sf_ends_of_run ends = sf_ends_of(p, k, all);
                sf_run_empty(p, c, k, ends.head);
                sf_run_empty(p, c, ends.tail, all);
        }
        k = next;
}

/* Computes segments from k on: as many as fit into 32 rows, or one that needs more. False: the span
 * has no whole segment any more. */
SF_DEVICE bool sf_run_some(const sf_params &p, sf_course &c, sf_span &s, sf_i64 &k, sf_i64 past)
{
        const int lane = c.lane;
        const sf_i64 from = k, own = k + lane;
        const sf_i64 bound = sf_bound(p, own < past ? own : past) - s.first;
        const int begin = bound < 0 ? -1 : bound <= CELLS ? (int)bound : CELLS + 1;
        const int end = ::sf_shuffle(begin, (lane + 1) & 31);
        const bool in = lane < 31 && own < past && begin >= 0 && end >= begin && end <= s.count;
        const int whole = sf_lowest(~sf_ballot(in)), length = lane < whole ? end - begin : 0;
        if (!whole)
                return false;
        if (whole == 31 && k + 31 < past && !sf_ballot(length != 0)) {
                sf_skip_empty(p, c, s.first + ::sf_shuffle(begin, 0), k, past);
                return true;
        }
        /* Do several segments have as much room as a lane has? */
        if (PACKED && whole == 31 &&
            ::sf_shuffle(end, 30) - ::sf_shuffle(begin, 0) <= 31 * SF_ROW / PACK &&
            sf_run_tiny(p, c, s, k, past))
                return true;
        if (::sf_shuffle(length, 0) > 32 * SF_ROW) {
                sf_await(s);
                sf_flush(p, c, s, ::sf_shuffle(begin, 0));
                sf_run_chunks(p, c, s, from, ::sf_shuffle(begin, 0), ::sf_shuffle(length, 0));
                s.done = ::sf_shuffle(end, 0);
                k++;
                return true;
        }
        const int least = STORED && lane < whole && sf_has_entry(p, own) ? 1 : 0;
        const int rows = length ? (length + SF_ROW - 1) / SF_ROW : least;
        int sum = rows;
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                sum = sf_sum_up<32>(sum, b);
        const bool fits = lane < whole && sum <= 32;
        const sf_u32 some = sf_ballot(fits && rows);
        k += sf_count_bits(sf_ballot(fits));
        if (!some)
                return true;
        int *of = sf_the_desk().of[c.warp];
        if (fits && rows)
                of[sum - rows] = lane;
        const sf_u32 heads = sf_all_bits(fits && rows ? 1u << (sum - rows & 31) : 0);
        sf_sync_warp();
        sf_row row;
        row.head = sf_highest(heads & ((2u << lane) - 1));
        const int looked = of[row.head], all = ::sf_shuffle(length, looked);
        const bool there = lane < ::sf_shuffle(sum, sf_highest(some));
        row.number = lane - row.head;
        row.rows = all ? (all + SF_ROW - 1) / SF_ROW : 1;
        const int gone = row.number * SF_ROW, left = all - gone;
        const int at = ::sf_shuffle(begin, looked) + gone;
        row.at = there ? at : 0;
        row.length = !there ? 0 : left < SF_ROW ? left : SF_ROW;
        row.segment = from + looked;
        row.empty = !all;
        row.there_is = there;
        const int last = (int)sf_all_bits(there ? (sf_u32)row.number : 0);
        sf_load_still(p, c, from + looked);
        sf_await(s);
        if (SF_ROW > 4 && !sf_ballot(row.length > 4))
                sf_run_rows<4>(p, c, s, row, last);
        else
                sf_run_rows<SF_ROW>(p, c, s, row, last);
        sf_sync_warp();
        return true;
}
