/*
 * segments_find.cuh: where the segments of a line begin, which of them begin behind a position, and
 * the ends of a copy that begins anywhere
 * (segments.cu, segments_apply.cu).
 */
SF_DEVICE sf_u32 sf_below(int bit) { return (1u << bit) - 1; }
SF_DEVICE sf_u32 sf_up_to(int length)
{
        return length <= 0 ? 0 : length < 32 ? sf_below(length) : ~0u;
}

/* The offset of segment k, 0 to `segments`, not checked. In reverse, segments and positions count
 * from the end of the line. */
SF_DEVICE sf_i64 sf_offset_of(const sf_params &p, sf_i64 k)
{
        const char *at = p.offsets + (SF_BACKWARDS ? p.segments - k : k) * p.offset_stride;
#if SF_WIDE
        const sf_i64 v = *(const sf_i64 *)at;
#else
        const sf_i64 v = *(const int *)at;
#endif
        return SF_BACKWARDS ? p.n - v : v;
}
/* Where segment k begins on the line; for k = segments, where the last one ends. Elements before
 * the first offset and after the last one count as segments too: -1 and `segments`. */
SF_DEVICE sf_i64 sf_bound(const sf_params &p, sf_i64 k)
{
        if (k < 0 || k > p.segments)
                return k < 0 ? 0 : p.n;
        const sf_i64 v = sf_offset_of(p, k);
        return v < 0 ? 0 : v > p.n ? p.n : v;
}
/* The whole warp finds the first k from low to high that is not `before` what is looked for; high
 * if all are. Lanes look at 32 at a time, equally far from each other: of every `step` the last. */
template <class BEFORE> SF_DEVICE sf_i64 sf_find_first(BEFORE before, sf_i64 low, sf_i64 high,
                                                       int lane)
{
#pragma unroll 1
        while (low < high) {
                const sf_i64 step = (high - low + 31) >> 5, own = low + (lane + 1) * step - 1;
                const int passed =
                        sf_count_bits(sf_ballot(own < high && before(own < high ? own : low)));
                low += passed * step;
                high = high - low < step ? high : low + step - 1;
        }
        return low;
}
/* The same among all segments: `segments` + 1 if all are before. First around `near`, where lanes
 * look at segments the further apart the more there are: of random lengths, sums are off by the
 * root of how many they are. */
template <class BEFORE> SF_DEVICE sf_i64 sf_find_around(const sf_params &p, BEFORE before,
                                                        sf_i64 near, int lane)
{
        sf_i64 low = 0, high = p.segments + 1;
        /* What lane i looks at. */
        const sf_i64 all = high;
        const int apart = all < 1 << 22 ? 32 : all < 1 << 24 ? 128 : 512;
        const auto looked = [=](int i) {
                const sf_i64 at = near + (i - 16) * apart;
                return at < 0 ? 0 : at < all ? at : all - 1;
        };
        const int passed = sf_count_bits(sf_ballot(before(looked(lane))));
        if (passed)
                low = looked(passed - 1) + 1;
        if (passed < 32)
                high = looked(passed);
        return sf_find_first(before, low, high, lane);
}
/* The first k from low to high whose segment begins at or after `position`. */
SF_DEVICE sf_i64 sf_find_between(const sf_params &p, sf_i64 position, sf_i64 low, sf_i64 high,
                                 int lane)
{
        return sf_find_first([=, &p](sf_i64 k) { return sf_offset_of(p, k) < position; }, low, high,
                             lane);
}
/* The same among all segments. First where it would be if all segments had the same length. */
SF_DEVICE sf_i64 sf_find(const sf_params &p, sf_i64 position, int lane)
{
        if (!p.n)
                return 0;
        const float mean = sf_rough_quotient((float)p.segments, (float)p.n);
        return sf_find_around(
                p, [=, &p](sf_i64 k) { return sf_offset_of(p, k) < position; },
                (sf_i64)((float)position * mean), lane);
}

/* The slot of a segment's first tile, of 2^log elements (segments_table.cu). */
SF_DEVICE sf_i64 sf_first_slot(const sf_params &p, sf_i64 k, int log)
{
        return (sf_bound(p, k) >> log) + k + 1;
}
SF_DEVICE bool sf_has_entry(const sf_params &p, sf_i64 segment) { return segment >= 0 && segment < p.segments; }

/* Copies those of `length` elements that are before and after whole lines of 16 bytes; buffer and
 * from have the same address modulo 16. Returns how many such lines there are, after `head`
 * elements. */
template <int SIZE> SF_DEVICE int sf_copy_ends(const char *from, int length, unsigned char *buffer,
                                               int thread, int &head)
{
        enum { EACH = 16 / SIZE };
        const int past = (int)(-(sf_u64)from & 15) / SIZE;
        head = past < length ? past : length;
        const int whole = (length - head) / EACH, tail = length - head - whole * EACH;
        if (thread < head)
                sf_copy_async<SIZE>(buffer + thread * SIZE, from + thread * SIZE);
        if (thread < tail)
                sf_copy_async<SIZE>(buffer + (length - tail + thread) * SIZE,
                                    from + (length - tail + thread) * SIZE);
        return whole;
}
