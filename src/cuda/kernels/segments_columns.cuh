/*
 * segments_columns.cuh: a window of SF_STRIP neighbouring columns, one for each lane of a party
 * (segments.cu). A chunk is one leaf, which the lane has in registers. Shorter segments share a
 * leaf, as many as fit.
 */

/* Scans a leaf of short segments, one element after another. Bit i of heads: a segment begins with
 * element i. level[k] is entry k of a binary counter of totals (core/order.h). */
SF_DEVICE void sf_walk_short(sf_acc (&v)[SF_LEAF], sf_u32 heads)
{
        enum { LEVELS = SF_LEAF >= 32 ? 5 : SF_LEAF >= 16 ? 4 : SF_LEAF >= 8 ? 3 : 2 };
        sf_acc level[LEVELS];
        int r = 0;
#pragma unroll
        for (int k = 0; k < LEVELS; k++)
                level[k] = v[0];
#pragma unroll
        for (int i = 0; i < SF_LEAF; i++) {
                if (heads >> i & 1)
                        r = 0;
#pragma unroll
                for (int k = 0; k < LEVELS; k++)
                        if (r >> k & 1)
                                v[i] = sf_combine(level[k], v[i]);
                        else if (!(~r & ((1 << k) - 1)))
                                level[k] = sf_settled(v[i]);
                r++;
        }
}

/* A column's window. */
struct sf_window {
        sf_line line; /* the column, at its index 0 */
        sf_i64 first;
        sf_place place;
};

/* The parts that share a leaf; their segments are consecutive. */
struct sf_group {
        sf_i64 segment, index; /* of the first part: its segment, and its first element's index */
        int count;
        sf_u32 heads;
        sf_u32 number; /* which chunk of its segment the first part is */
        bool ends;     /* the first part ends its segment */
};
SF_DEVICE int sf_segment_in(const sf_group &g, int i) { return sf_count_bits(g.heads & ((2u << i) - 1)) - 1; }

#if !SF_MAPS
/* Combines the first part's elements, `length` of them, with the totals of the chunks before, as in
 * segments_groups.cuh. The next total is asked for before the lane waits for this one. */
SF_DEVICE void sf_take_lefts(const sf_params &p, const sf_window &w, const sf_group &g, int length, bool tells, sf_acc (&v)[SF_LEAF], sf_acc &total, sf_acc &before)
{
        const sf_u32 early = tells ? sf_early(g.number) : 0;
        sf_u32 bits = SF_FOLDS && tells ? early : g.number;
        sf_look next;
        bool any = false;
        if (bits)
                next = sf_look_for(p, w.place, g.number, sf_lowest(bits));
#pragma unroll 1
        for (;; any = true) {
                if (tells && !(bits & early)) {
                        tells = false;
                        sf_tell(w.place, total);
                }
                if (!bits)
                        return;
                sf_look look = next;
                bits &= bits - 1;
                if (bits)
                        next = sf_look_for(p, w.place, g.number, sf_lowest(bits));
                const sf_acc left = sf_found(p, look, w.place.mark);
#if !SF_FOLDS
#pragma unroll
                for (int i = 0; i < SF_LEAF; i++)
                        if (i < length)
                                v[i] = sf_combine(left, v[i]);
#endif
                total = sf_settled(sf_combine(left, total));
                if (SF_EXCLUSIVE)
                        before = any ? sf_combine(left, before) : left;
        }
        (void)v, (void)length;
}
#endif

SF_DEVICE void sf_do_group(const sf_params &p, const sf_window &w, const sf_group &g)
{
        sf_acc v[SF_LEAF];
        {
                sf_vector raw[SF_LEAF];
                sf_line at = sf_line_at(p, w.line, g.index);
#pragma unroll
                for (int i = 0; i < SF_LEAF; i++) {
                        raw[i] = sf_fetch(p, at, 0, i < g.count);
                        at = sf_line_at(p, at, 1);
                }
                const sf_acc neutral = sf_neutral(p);
                sf_vector spread = sf_fetch_spread(p, w.line, g.segment);
                sf_i64 from = (sf_i64)g.number * CHUNK;
#pragma unroll
                for (int i = 0; i < SF_LEAF; i++) {
                        if (i && g.heads >> i & 1) {
                                from = -i;
                                if (SF_SPREAD)
                                        spread = sf_fetch_spread(p, w.line, g.segment + sf_segment_in(g, i));
                        }
                        v[i] = sf_choose(i < g.count, sf_lifted(sf_read(p, sf_with_spread(raw[i], spread)), from + i), neutral);
                }
        }
        const sf_u32 others = g.heads & (g.heads - 1);
        const int length = others ? sf_lowest(others) : g.count; /* of the first part */
        const bool full = length == SF_LEAF;
        sf_acc total = v[0], before = sf_identity(p);
        (void)full, (void)total, (void)before;
#if !SF_MAPS
        if (others)
                sf_walk_short(v, g.heads);
        else
                sf_combine_leaf(v);
        /* Its last element, as a bit: if i were compared, the compiler would keep v in memory. The
         * total of a leaf that was folded at once is always the last. */
        const sf_u32 last = 1u << ((SF_FOLDS && !others ? (int)SF_LEAF : length) - 1);
#pragma unroll
        for (int i = 0; i < SF_LEAF; i++)
                if (last >> i & 1)
                        total = sf_settled(v[i]);
        const bool tells = full && !g.ends;
        if (tells || g.number)
                sf_take_lefts(p, w, g, length, tells, v, total, before);
#endif
#if SF_FOLDS
        if (g.ends)
                sf_store_entry(p, w.line, g.segment, total);
        if (others) {
#pragma unroll
                for (int i = 0; i < SF_LEAF; i++)
                        if (i >= length && i < g.count &&
                            (i + 1 == g.count || g.heads >> (i + 1 < SF_LEAF ? i + 1 : i) & 1))
                                sf_store_entry(p, w.line, g.segment + sf_segment_in(g, i), v[i]);
        }
#else
        sf_line at = sf_line_at(p, w.line, g.index);
#pragma unroll
        for (int i = 0; i < SF_LEAF; i++) {
                const sf_i64 segment = g.segment + (SF_SPREAD || (SF_INDICES && SF_BACKWARDS) ? sf_segment_in(g, i) : 0);
                const sf_acc first = i ? sf_identity(p) : before;
                const sf_acc own = !SF_EXCLUSIVE ? v[i] : sf_choose(g.heads >> i & 1, first, v[i ? i - 1 : 0]);
                if (i < g.count)
                        sf_store(at.y, sf_result_of(p, sf_answered(p, own, sf_length(p, segment)), sf_fetch_results(p, w.line, at, segment)));
                at = sf_line_at(p, at, 1);
        }
#endif
}

/* A lane that is in a run of more than SOME_EMPTY empty segments goes on where others begin. It
 * looks whether it is now and then, when the segment's number is a multiple of that. */
enum { SOME_EMPTY = 32 };
SF_DEVICE sf_i64 sf_skip_empty(const sf_params &p, const sf_window &w, sf_i64 k, int at)
{
        const sf_i64 found = sf_after_empty_singly(p, k, w.first + at);
        sf_leave_out(p, w.line, k, found, 0, 1);
        return found;
}

/* k: the segment before the first one that begins in the window or after it. */
SF_DEVICE void sf_run_window(const sf_params &p, const sf_window &w, sf_i64 k)
{
        const sf_i64 open = sf_bound(p, k) - w.first;
        sf_u32 number = sf_open_number(open);
        int begin = sf_near(open), end = sf_near_bound(p, w.first, k + 1);
        sf_part s = sf_part_of(p, k, begin, end, (int)(open + (sf_i64)number * CHUNK), number);
        /* A part that waits for others comes last: those that others wait for are among the
         * rest. */
        sf_group late;
        late.count = 0;
        if (number && s.length) {
                late.segment = k;
                late.index = w.first + s.at;
                late.count = s.length;
                late.heads = 1;
                late.number = number;
                late.ends = s.ends;
                s.length = 0;
        }
        for (bool more = true; more || late.count;) {
                sf_group g;
                g.count = 0;
                g.heads = 0;
                while (more && (s.length ? g.count + s.length <= SF_LEAF : !g.count)) {
                        if (s.length && !g.count) {
                                g.segment = k;
                                g.index = w.first + s.at;
                                g.number = number;
                                g.ends = s.ends;
                        }
                        if (s.length)
                                g.heads |= 1u << g.count;
                        g.count += s.length;
#if SF_FOLDS
                        if (s.empty)
                                sf_store_entry(p, w.line, k, sf_identity(p));
#endif
                        more = s.more;
                        if (more) {
                                if (s.empty && !(k & (SOME_EMPTY - 1)) &&
                                    sf_bound(p, k + SOME_EMPTY) == w.first + begin)
                                        k = sf_skip_empty(p, w, k + 1, begin) - 1;
                                begin = end;
                                end = sf_near_bound(p, w.first, ++k + 1);
                                s = sf_part_of(p, k, begin, end, begin, 0);
                                number = 0;
                        }
                }
                if (!g.count && !more) {
                        g = late;
                        late.count = 0;
                }
                if (g.count)
                        sf_do_group(p, w, g);
        }
}
