/*
 * segments_tiny.cuh: windows of segments of up to TINY elements each (segments_lines.cuh). A lane
 * has two segments at a time. The window's elements are copied to cells once, scans replace them
 * there, and all results of the window are stored at once.
 */
enum { TINY = 4, AT_ONCE = 62 }; /* the last lane only knows where the one before it ends */

/* Is it worth a try? Where results replace elements, both are at the same place modulo 16. */
SF_DEVICE bool sf_are_tiny(const sf_params &p, const sf_window &w)
{
        return p.n < 3 * p.segments &&
               (SF_FOLDS ||
                (SF_IN_SIZE == SF_OUT_SIZE && !(((sf_u64)w.line.x ^ (sf_u64)w.line.y) & 15)));
}

/* Computes one segment, whose elements are at `cells`. */
SF_DEVICE void sf_do_tiny(const sf_params &p, const sf_window &w, sf_i64 segment, int length,
                          unsigned char *cells)
{
        const sf_acc neutral = sf_neutral(p);
        sf_acc v[TINY];
#pragma unroll
        for (int i = 0; i < TINY; i++) {
                sf_vector raw = sf_no_vector();
                sf_shared_glance(cells + i * SF_IN_SIZE, raw.x, i < length);
                v[i] = sf_choose(i < length, sf_lifted(sf_read(p, raw), i), neutral);
        }
        sf_combine_leaf(v);
#if SF_FOLDS
        sf_store_entry(p, w.line, segment,
                       sf_choose(length != 0, sf_settled(v[TINY - 1]), sf_identity(p)));
        (void)w;
#else
#pragma unroll
        for (int i = 0; i < TINY; i++)
                if (i < length) {
                        const sf_acc own =
                                SF_EXCLUSIVE ? (i ? v[i ? i - 1 : 0] : sf_identity(p)) : v[i];
                        sf_shared_store(cells + i * SF_OUT_SIZE,
                                        sf_result_of(p, sf_answered(p, own, length), sf_results()));
                }
        (void)w, (void)segment;
#endif
}

/* Computes segments from k on, as long as all that are looked at together are tiny. Returns the
 * first that is left; more: the window has it. */
SF_DEVICE sf_i64 sf_run_tiny(const sf_params &p, const sf_window &w, sf_i64 k, bool &more)
{
        const int lane = w.lane;
        int first = -1, last = 0, limit = sf_near(p.n - w.first);
        unsigned char *cells = w.cells;
        while (more && k + AT_ONCE + 1 <= p.segments) {
                const int a = sf_near(sf_offset_of(p, k + 2 * lane) - w.first),
                          b = lane == 31 ? a : sf_near(sf_offset_of(p, k + 2 * lane + 1) - w.first);
                const int c = ::sf_shuffle(a, (lane + 1) & 31);
                const bool one = lane < 31 && a < CHUNK, two = lane < 31 && b < CHUNK;
                if (first < 0) {
                        const int begin = ::sf_shuffle(a, 0);
                        if (begin < 0 || begin >= CHUNK || begin >= limit)
                                break;
                        limit = limit < begin + CHUNK ? limit : begin + (int)CHUNK;
                        last = begin;
                }
                const bool wrong = (one && (a < last || b < a || b - a > TINY || b > limit)) ||
                                   (two && (c < b || c - b > TINY || c > limit));
                if (sf_ballot(wrong))
                        break;
                if (first < 0) {
                        const char *from = w.line.x + (w.first + last) * SF_IN_SIZE;
                        first = last;
                        cells += (sf_u64)from & 15;
                        sf_fetch_flat<SF_IN_SIZE>(from, limit - first, cells, lane);
                }
                if (one)
                        sf_do_tiny(p, w, k + 2 * lane, b - a, cells + (a - first) * SF_IN_SIZE);
                if (two)
                        sf_do_tiny(p, w, k + 2 * lane + 1, c - b, cells + (b - first) * SF_IN_SIZE);
                const sf_u32 begun = sf_ballot(one);
                if (begun)
                        last = ::sf_shuffle(two ? c : b, sf_highest(begun));
                more = sf_count_bits(sf_ballot(two)) == 31;
                k += AT_ONCE;
        }
#if !SF_FOLDS
        sf_sync_warp();
        if (first >= 0)
                sf_store_flat<SF_OUT_SIZE, (CHUNK * SF_OUT_SIZE / 16 + 31) / 32>(
                        w.line.y + (w.first + first) * SF_OUT_SIZE, last - first, cells, lane);
#endif
        sf_sync_warp();
        return k;
}
