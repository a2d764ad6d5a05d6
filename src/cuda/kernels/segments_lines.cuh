/*
 * segments_lines.cuh: a warp computes a window of a line (segments.cu). A chunk is up to 32 rows of
 * SF_LEAF elements, the last of which may be shorter. The parts of a window are one chunk of the
 * segment that began before it, and one of each segment that begins in it. They are computed in
 * groups: as many parts as have up to 32 rows together.
 */
#include "segments_groups.cuh"
#if SF_STRETCHES
#include "segments_stretch.cuh"
#endif

/* What a warp knows of the next parts of its window, in shared memory, since registers are needed
 * for elements: a ring buffer of parts that have elements; then what a group needs. */
enum { IN_VIEW = 64 };
struct sf_view {
        sf_i64 segment[IN_VIEW];
        int at[IN_VIEW], length[IN_VIEW];
        int end[32];          /* for each part of a group: how many rows end with it or before */
        /* of: for the first row of each part, the part's place in the ring. rows: as in
         * sf_window */
        int of[32], rows[32];
};
static_assert(sizeof(sf_view) == SF_SEGMENTS_VIEW, "the host has another idea of what a warp keeps");

/* The parts in the ring, and where to go on in the window. */
struct sf_ahead {
        int from, count; /* the first part in the ring, and how many there are */
        sf_i64 k;        /* the next segment */
        int at;          /* where its part begins; -1: where the segment begins */
        sf_u32 number;   /* which chunk of its segment the first part is */
        bool more;       /* the window has more segments */
        bool ends;       /* the last part in the ring ends its segment */
};
SF_DEVICE int sf_in_ring(int i) { return i & (IN_VIEW - 1); }

/* Reads more segments, 31 at a time, until the ring has 32 parts or the window has no more. A
 * lane's segment ends where the next lane's begins; so the last lane has none. */
SF_DEVICE void sf_look_ahead(const sf_params &p, const sf_window &w, sf_view &view, sf_ahead &ahead)
{
        const int lane = w.lane;
        while (ahead.more && ahead.count < 32) {
                const sf_i64 k = ahead.k + lane;
                const int begin = sf_near_bound(p, w.first, k), end = ::sf_shuffle(begin, (lane + 1) & 31);
                const bool open = !lane && ahead.at >= 0;
                sf_part s = sf_part_of(p, k, begin, end, open ? ahead.at : begin, open ? ahead.number : 0);
                const sf_u32 on = sf_ballot(s.more);
                if (lane == 31 || sf_below(lane) & ~on)
                        s.length = 0, s.empty = false;
#if SF_FOLDS
                if (s.empty)
                        sf_store_entry(p, w.line, k, sf_identity(p));
#endif
                const sf_u32 some = sf_ballot(s.length);
                if (s.length) {
                        const int to = sf_in_ring(ahead.from + ahead.count + sf_count_bits(some & sf_below(lane)));
                        view.at[to] = s.at;
                        view.length[to] = s.length;
                        view.segment[to] = k;
                }
                ahead.count += sf_count_bits(some);
                ahead.ends = !sf_ballot(s.length && !s.ends);
                ahead.more = (on | 1u << 31) == ~0u;
                if (ahead.at >= 0 && !(some & 1)) /* the segment from before has no part here */
                        ahead.number = 0;
                ahead.k += 31;
                ahead.at = -1;
        }
        sf_sync_warp();
}

/* Computes a group of the first parts in the ring, as many as fit. */
SF_DEVICE void sf_next_group(const sf_params &p, const sf_window &w, sf_view &view, sf_ahead &ahead)
{
        const int lane = w.lane, from = ahead.from, count = ahead.count < 32 ? ahead.count : 32;
        bool there = lane < count;
        const int length = there ? view.length[sf_in_ring(from + lane)] : 0;
        sf_group g;
        sf_row row;
        g.at = view.at[from];
        g.number = ahead.number;
        ahead.number = 0;
        /* Twelve or more consecutive parts of at most half a leaf are a group of their own. */
        const sf_u32 large = sf_ballot(length > SF_LEAF / 2 || lane >= count);
        sf_u32 runs = ~large & (~large >> 1);
        runs &= runs >> 2;
        runs &= runs >> 4;
        runs &= runs >> 4;
        const int few = large ? sf_lowest(large) : 32;
        if (!g.number && (runs & 1 || few == count)) { /* each lane has a part */
                there = lane < few;
                const int own = there ? sf_in_ring(from + lane) : from, last = sf_in_ring(from + few - 1);
                g.count = view.at[last] + view.length[last] - g.at;
                g.rows = few;
                g.ends = true;
                row.segment = view.segment[own];
                row.at = view.at[own] - g.at;
                row.length = there ? length : 0;
                row.number = 0;
                row.rows = 1;
                row.leads = false;
                ahead.from = sf_in_ring(from + few);
                ahead.count -= few;
                if (SF_LEAF / 2 > 4 && !sf_ballot(row.length > 4))
                        sf_run_group<SHORT, 4>(p, w, g, row);
                else
                        sf_run_group<SHORT, SF_LEAF / 2>(p, w, g, row);
                return;
        }
        const int own = (length + SF_LEAF - 1) / SF_LEAF;
        int end = own;
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                end = sf_sum_up<32>(end, b);
        /* The group ends before such parts, but has the first part in any case. */
        const bool fits = there && end <= 32 && !(runs & ((2u << lane) - 2));
        if (fits)
                view.of[end - own] = sf_in_ring(from + lane);
        view.end[lane] = end;
        const sf_u32 heads = sf_all_bits(fits ? 1u << ((end - own) & 31) : 0);
        const int parts = sf_count_bits(sf_ballot(fits));
        sf_sync_warp();
        const int last = sf_in_ring(from + parts - 1), head = sf_highest(heads & ((2u << lane) - 1)), of = view.of[head];
        g.rows = view.end[parts - 1];
        g.count = view.at[last] + view.length[last] - g.at;
        g.ends = parts > 1 || ahead.ends || g.count < CHUNK;
        row.leads = head == 0;
        row.segment = view.segment[of];
        row.number = lane - head;
        row.rows = (view.length[of] + SF_LEAF - 1) / SF_LEAF;
        const int gone = row.number * SF_LEAF, left = view.length[of] - gone;
        row.at = view.at[of] - g.at + gone;
        row.length = lane >= g.rows ? 0 : left < SF_LEAF ? left : (int)SF_LEAF;
        ahead.from = sf_in_ring(from + parts);
        ahead.count -= parts;
        if (parts == 1) {
                enum { STRIPS = CHUNK >= 512 ? 4 : 2 };
#if SF_MAPS
#pragma unroll 1
                for (int first = 0; first < g.count; first += STRIPS * 32)
                        sf_run_lanes<STRIPS>(p, w, g, row, first);
                sf_sync_warp();
                return;
#else
                if (g.count <= STRIPS * 32) {
                        sf_run_lanes<STRIPS>(p, w, g, row, 0);
                        sf_sync_warp();
                        return;
                }
                return sf_run_group<ALONE, SF_LEAF>(p, w, g, row);
#endif
        }
        view.rows[lane] = row.length ? row.at | row.length << 16 : 0;
        sf_sync_warp();
        sf_run_group<MIXED, SF_LEAF>(p, w, g, row);
}

/* k: the segment before the first one that begins in the window or after it. */
SF_DEVICE void sf_run_window(const sf_params &p, const sf_window &w, sf_view &view, sf_i64 k)
{
        sf_ahead ahead;
        ahead.from = ahead.count = 0;
        ahead.k = k;
        const sf_i64 opened = sf_bound(p, ahead.k) - w.first;
        ahead.number = sf_open_number(opened);
        ahead.at = sf_near(opened + (sf_i64)ahead.number * CHUNK);
        ahead.more = ahead.ends = true;
#pragma unroll 1
        for (;;) {
                sf_look_ahead(p, w, view, ahead);
                if (!ahead.count)
                        return;
                sf_next_group(p, w, view, ahead);
        }
}
