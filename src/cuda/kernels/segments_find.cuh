/*
 * segments_find.cuh: where the segments of a line begin, which of them begin behind a position, and
 * the ends of a copy that begins anywhere
 * (segments.cu, segments_apply.cu).
 */
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
/* The whole warp finds the first k from low to high whose segment begins at or after `position`;
 * high if none below it does. Lanes read 32 offsets at a time, equally far from each other: of
 * every `step` segments the last one. */
SF_DEVICE sf_i64 sf_find_between(const sf_params &p, sf_i64 position, sf_i64 low, sf_i64 high,
                                 int lane)
{
#pragma unroll 1
        while (low < high) {
                const sf_i64 step = (high - low + 31) >> 5, own = low + (lane + 1) * step - 1;
                const int passed = sf_count_bits(sf_ballot(
                        own < high && sf_offset_of(p, own < high ? own : low) < position));
                low += passed * step;
                high = high - low < step ? high : low + step - 1;
        }
        return low;
}
/* The same among all segments: k is segments + 1 if no segment begins there. First around the place
 * where it would be if all segments had the same length. */
SF_DEVICE sf_i64 sf_find(const sf_params &p, sf_i64 position, int lane)
{
        if (!p.n)
                return 0;
        const sf_i64 near =
                (sf_i64)((float)position * sf_rough_quotient((float)p.segments, (float)p.n));
        sf_i64 low = 0, high = p.segments + 1;
        /* What lane i looks at. */
        const sf_i64 all = high;
        const auto looked = [=](int i) {
                const sf_i64 at = near + (i - 16) * 32;
                return at < 0 ? 0 : at < all ? at : all - 1;
        };
        const int passed = sf_count_bits(sf_ballot(sf_offset_of(p, looked(lane)) < position));
        if (passed)
                low = looked(passed - 1) + 1;
        if (passed < 32)
                high = looked(passed);
        return sf_find_between(p, position, low, high, lane);
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
