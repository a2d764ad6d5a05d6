/*
 * segments_stretch.cuh: a block computes a full stretch of a long segment of 32 columns, a chunk for
 * each warp (segments.cu). The chunks are whole, so there are no groups to be
 * made; a stretch publishes one total and looks for those of stretches before it.
 */

/* The stretch that begins in a block's windows, if one does. It is the last that begins there, so
 * it has the last position of the windows. */
struct sf_stretch {
        sf_i64 segment, at; /* at: its first element's index */
        sf_u32 number;      /* which stretch of its segment it is */
        bool there;
        bool ends; /* the segment ends with it */
};

/* What a block shares. */
struct sf_together {
        sf_u64 ticket;
        sf_i64 ends[2]; /* the first segment that begins in its windows; the first one after them */
        sf_i64 unused;
        sf_acc total[32][SF_STRIP]; /* of its warps' chunks */
        sf_acc left[32][SF_STRIP];  /* of the stretches before, for each bit of the number */
};
static_assert(sizeof(sf_together) == 32 + 64 * SF_STRIP * sizeof(sf_acc),
              "the host has another idea of what a block shares");

/* first: the index where the block's windows begin. k: the segment that has their last position. */
SF_DEVICE sf_stretch sf_stretch_of(const sf_params &p, sf_i64 first, sf_i64 k)
{
        const sf_i64 begin = sf_bound(p, k), end = sf_bound(p, k + 1);
        sf_stretch s;
        s.segment = k;
        s.number = (sf_u32)((sf_u64)(first + STRETCH - 1 - begin) / STRETCH);
        s.at = begin + (sf_i64)s.number * STRETCH;
        s.there = begin < first + STRETCH && s.at + STRETCH <= end &&
                  !(SF_FOLDS && !sf_has_entry(p, k));
        s.ends = s.at + STRETCH == end;
        return s;
}

/* A lane has a column, a warp a leaf of each. */

/* The column's totals of `count` warps from `first` on; count is a power of two. */
template <int COUNT> SF_DEVICE sf_acc sf_fold_warps(const sf_together &b, int first, int lane)
{
        return sf_fold_totals<COUNT>([&](int i) { return b.total[first + i][lane]; });
}

template <int BIT> struct sf_warps_before {
        SF_DEVICE_MEMBER void take(const sf_together &b, int warp, int lane, bool &any,
                                   sf_acc (&v)[SF_LEAF], sf_acc &total, sf_acc &before)
        {
                sf_warps_before<BIT / 2>::take(b, warp, lane, any, v, total, before);
                if (warp & BIT) {
                        sf_take_one_left(sf_fold_warps<BIT>(b, (warp & -BIT) - BIT, lane), any, v,
                                         total, before);
                        any = true;
                }
        }
};
template <> struct sf_warps_before<0> {
        SF_DEVICE_MEMBER void take(const sf_together &, int, int, bool &, sf_acc (&)[SF_LEAF],
                                   sf_acc &, sf_acc &)
        {
        }
};

/* One warp finds the totals of the stretches before, as for lines; each lane those of its column.
 * The next total is asked for before the lane waits for this one. */
SF_DEVICE void sf_find_lefts(const sf_params &p, const sf_place &place, sf_u32 number, sf_u32 bits,
                             bool tells, sf_together &b, sf_acc &total, int lane)
{
        const sf_u32 early = tells ? sf_early(number) : 0;
        sf_look next;
        if (bits)
                next = sf_look_for(p, place, number << WARPS_LOG, sf_lowest(bits) + WARPS_LOG);
#pragma unroll 1
        for (;;) {
                if (tells && !(bits & early)) {
                        tells = false;
                        sf_publish<1>(sf_stretch_words(p, place, place.window >> WARPS_LOG), total,
                                      place.mark);
                }
                if (!bits)
                        return;
                sf_look look = next;
                const int bit = sf_lowest(bits);
                bits &= bits - 1;
                if (bits)
                        next = sf_look_for(p, place, number << WARPS_LOG,
                                           sf_lowest(bits) + WARPS_LOG);
                const sf_acc left = sf_found(p, look, place.mark);
                b.left[bit][lane] = left;
                total = sf_settled(sf_combine(left, total));
        }
}

/* there: the lane has a column. */
SF_DEVICE void sf_run_stretch(const sf_params &p, const sf_window &w, const sf_stretch &s,
                              sf_together &b, int warp, bool there)
{
        const int lane = sf_thread() & 31;
        const sf_i64 first = s.at + (sf_i64)warp * CHUNK,
                     number = ((sf_i64)s.number * WARPS + warp) * CHUNK;
        sf_acc v[SF_LEAF];
        {
                sf_vector raw[SF_LEAF];
                sf_line at = sf_line_at(p, w.line, first);
#pragma unroll
                for (int i = 0; i < SF_LEAF; i++) {
                        raw[i] = sf_fetch(p, at, 0, there);
                        at = sf_line_at(p, at, 1);
                }
                const sf_vector spread = sf_fetch_spread(p, w.line, s.segment);
#pragma unroll
                for (int i = 0; i < SF_LEAF; i++)
                        v[i] = sf_lifted(sf_read(p, sf_with_spread(raw[i], spread)), number + i);
        }
        sf_combine_leaf(v);
        sf_acc total = sf_settled(v[SF_LEAF - 1]), before = sf_identity(p);
        b.total[warp][lane] = total;
        sf_sync_block();
        const bool tells = !s.ends;
        sf_u32 bits = SF_FOLDS && tells ? sf_early(s.number) : s.number;
        if (!warp && there) {
                sf_acc all = sf_fold_warps<WARPS>(b, 0, lane);
                sf_find_lefts(p, w.place, s.number, bits, tells, b, all, lane);
#if SF_FOLDS
                if (s.ends)
                        sf_store_entry(p, w.line, s.segment, all);
#endif
        }
#if !SF_FOLDS
        bool any = false;
        sf_warps_before<WARPS / 2>::take(b, warp, lane, any, v, total, before);
        if (bits)
                sf_sync_block();
#pragma unroll 1
        for (; bits; bits &= bits - 1, any = true)
                sf_take_one_left(b.left[sf_lowest(bits)][lane], any, v, total, before);
        const sf_i64 length = sf_length(p, s.segment);
        sf_line at = sf_line_at(p, w.line, first);
#pragma unroll
        for (int i = 0; i < SF_LEAF; i++) {
                const sf_acc own = SF_EXCLUSIVE ? (i ? v[i ? i - 1 : 0] : before) : v[i];
                if (there)
                        sf_store(at.y, sf_result_of(p, sf_answered(p, own, length),
                                                    sf_fetch_results(p, w.line, at, s.segment)));
                at = sf_line_at(p, at, 1);
        }
#endif
        (void)total, (void)before;
}
