/*
 * segments_lines.cuh: a warp computes a window of a line (segments.cu). A chunk is up to 32 rows of
 * SF_LEAF elements, the last of which may be shorter. The parts of a window are one chunk of the
 * segment that began before it, and one of each segment that begins in it. They are computed in
 * groups: as many parts as have up to 32 rows together.
 */
#include "segments_groups.cuh"

/* Where a warp is in its window. */
struct sf_ahead {
        sf_i64 k;      /* the next segment */
        int at;        /* where its part begins; -1: where the segment begins */
        sf_u32 number; /* which chunk of its segment that is */
        bool more;     /* the window has more segments */
        bool only;     /* no other segment is meant */
};

/* What a warp keeps in shared memory: for the first row of each part, which lane has the part. */
struct sf_view {
        int of[32], rows[32]; /* rows: as in sf_window */
};
static_assert(sizeof(sf_view) == SF_SEGMENTS_VIEW,
              "the host has another idea of what a warp keeps");

/* The next 31 segments, one for each lane. A lane's segment ends where the next lane's begins; so
 * the last lane has none. A lane whose segment does not begin in the window has no part. */
SF_DEVICE sf_part sf_look_ahead(const sf_params &p, const sf_window &w, const sf_ahead &ahead,
                                sf_u32 &on)
{
        const int lane = w.lane;
        const sf_i64 k = ahead.k + lane;
        const bool open = !lane && ahead.at >= 0;
        const int begin = sf_near_bound(p, w.first, k), end = ::sf_shuffle(begin, (lane + 1) & 31);
        sf_part s = sf_part_of(p, k, begin, end, open ? ahead.at : begin, open ? ahead.number : 0);
        on = sf_ballot(s.more && !ahead.only);
        if (lane == 31 || sf_below(lane) & ~on)
                s.length = 0, s.empty = false;
        return s;
}

/* The window goes on after the first `count` lanes' segments, if it does. */
SF_DEVICE void sf_go_on(const sf_params &p, const sf_window &w, const sf_part &s, sf_u32 on,
                        int count, sf_ahead &ahead)
{
        if (SF_FOLDS && s.empty && w.lane < count)
                sf_store_entry(p, w.line, ahead.k + w.lane, sf_identity(p));
        ahead.more = !(~on & sf_below(count));
        ahead.k += count;
        ahead.at = -1;
}

/* A warp that has met nothing but empty segments, up to position `at` of the window, goes on where
 * others begin. */
SF_DEVICE void sf_skip_empty(const sf_params &p, const sf_window &w, int at, sf_ahead &ahead)
{
        const sf_i64 found = sf_after_empty(p, ahead.k, w.first + at, w.lane);
        sf_leave_out(p, w.line, ahead.k, found, w.lane, 32);
        ahead.k = found;
}

/* The parts of the first `few` lanes are a group, each a lane's. */
SF_DEVICE void sf_run_short(const sf_params &p, const sf_window &w, const sf_part &s, int few,
                            sf_i64 k)
{
        const sf_u32 some = sf_ballot(s.length && w.lane < few);
        if (!some)
                return;
        sf_group g;
        sf_row row;
        g.at = ::sf_shuffle(s.at, sf_lowest(some));
        g.count = ::sf_shuffle(s.at + s.length, sf_highest(some)) - g.at;
        g.rows = few;
        g.number = 0;
        g.ends = true;
        row.segment = k + w.lane;
        row.at = s.at - g.at;
        row.length = w.lane < few ? s.length : 0;
        row.number = 0;
        row.rows = 1;
        row.leads = false;
        if (!SF_FLAT && FEW > 4 && !sf_ballot(row.length > 4))
                sf_run_group<SHORT, 4>(p, w, g, row);
        else
                sf_run_group<SHORT, FEW>(p, w, g, row);
}

/* Computes a group of the next parts, as many as fit. */
SF_DEVICE void sf_next_group(const sf_params &p, const sf_window &w, sf_view &view, sf_ahead &ahead)
{
        const int lane = w.lane;
        const sf_i64 k = ahead.k;
        sf_u32 on;
        const sf_part s = sf_look_ahead(p, w, ahead, on);
        const sf_u32 number = ahead.at >= 0 ? ahead.number : 0;
        if (!sf_ballot(s.length != 0)) {
                sf_go_on(p, w, s, on, 31, ahead);
                if (ahead.more)
                        sf_skip_empty(p, w, ::sf_shuffle(s.at, 30), ahead);
                return;
        }
        /* Parts of at most FEW elements are a group of their own if there are many of them. */
        const int few = sf_lowest(sf_ballot(s.length > FEW || lane == 31));
        if ((!number || !::sf_shuffle(s.length, 0)) && few >= 24) {
                sf_go_on(p, w, s, on, few, ahead);
                return sf_run_short(p, w, s, few, k);
        }
        const int own = (s.length + SF_LEAF - 1) / SF_LEAF;
        int end = own;
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                end = sf_sum_up<32>(end, b);
        const bool fits = lane < 31 && end <= 32;
        const int count = sf_count_bits(sf_ballot(fits));
        const sf_u32 some = sf_ballot(fits && own);
        sf_go_on(p, w, s, on, count, ahead);
        if (!some)
                return;
        if (fits && own)
                view.of[end - own] = lane;
        const sf_u32 heads = sf_all_bits(fits && own ? 1u << ((end - own) & 31) : 0);
        sf_sync_warp();
        const int head = sf_highest(heads & ((2u << lane) - 1)), of = view.of[head];
        const int last = sf_highest(some), length = ::sf_shuffle(s.length, of);
        sf_group g;
        sf_row row;
        g.at = ::sf_shuffle(s.at, sf_lowest(some));
        g.rows = ::sf_shuffle(end, last);
        g.count = ::sf_shuffle(s.at + s.length, last) - g.at;
        g.number = some & 1 ? number : 0;
        g.ends = !sf_ballot(fits && s.length && !s.ends);
        row.leads = head == 0;
        row.segment = k + of;
        row.number = lane - head;
        row.rows = (length + SF_LEAF - 1) / SF_LEAF;
        const int gone = row.number * SF_LEAF, left = length - gone;
        row.at = ::sf_shuffle(s.at, of) - g.at + gone;
        row.length = lane >= g.rows ? 0 : left < SF_LEAF ? left : (int)SF_LEAF;
        if (!(some & (some - 1))) {
                enum { STRIPS = CHUNK >= 512 ? 4 : 2 };
#if SF_MAPS
#pragma unroll 1
                for (int first = 0; first < g.count; first += STRIPS * 32)
                        sf_run_lanes<STRIPS>(p, w, g, row, first);
                sf_sync_warp();
                return;
#else
                if (!SF_FLAT && g.count <= STRIPS * 32) {
                        sf_run_lanes<STRIPS>(p, w, g, row, 0);
                        sf_sync_warp();
                        return;
                }
#if !SF_FLAT_ALONE
                if (!SF_FLAT || g.rows > 8)
                        return sf_run_group<ALONE, SF_LEAF>(p, w, g, row);
#endif
#endif
        }
#if !SF_FLAT
        view.rows[lane] = row.length ? row.at | row.length << 16 : 0;
        sf_sync_warp();
#endif
        sf_run_group<MIXED, SF_LEAF>(p, w, g, row);
}

/* The window's first part, of segment k, which began before the window or at its beginning. */
SF_DEVICE sf_ahead sf_open_part(const sf_params &p, const sf_window &w, sf_i64 k)
{
        const sf_i64 opened = sf_bound(p, k) - w.first;
        sf_ahead open;
        open.k = k;
        open.number = sf_open_number(opened);
        open.at = sf_near(opened + (sf_i64)open.number * CHUNK);
        open.more = true;
        open.only = open.number;
        return open;
}

/* k: the segment before the first one that begins in the window or after it. */
SF_DEVICE void sf_run_window(const sf_params &p, const sf_window &w, sf_view &view, sf_i64 k)
{
        sf_ahead ahead = sf_open_part(p, w, k);
        const int next = sf_near_bound(p, w.first, k + 1);
        /* A part that waits for others comes last: those that others wait for are among the
         * rest. */
        bool waits = ahead.number && ahead.at < next;
        if (ahead.number || ahead.at >= next) {
                ahead.k = k + 1;
                ahead.at = -1;
                ahead.more = next < CHUNK;
                ahead.only = false;
        }
#pragma unroll 1
        for (;;) {
                if (!ahead.more) {
                        if (!waits)
                                return;
                        waits = false;
                        ahead = sf_open_part(p, w, k);
                }
                sf_next_group(p, w, view, ahead);
        }
}
