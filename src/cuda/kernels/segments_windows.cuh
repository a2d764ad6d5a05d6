/*
 * segments_windows.cuh: where the spans of windows begin (segments_blocks.cuh). A window is
 * number[1] positions. For each, and for the end of the last one: the first segment that begins in
 * it or after it; where the first chunk begins that begins there; which chunk of the segment before
 * that is, or 0.
 *
 * number[0]: windows, and one. number[2]: where the table begins in scratch, in words.
 */

/* As sf_find_first, by a single thread, which looks at eight at a time. */
SF_DEVICE sf_i64 sf_find_singly(const sf_params &p, sf_i64 position, sf_i64 low, sf_i64 high)
{
        enum { EIGHT = 8 };
#pragma unroll 1
        while (low < high) {
                const sf_i64 step = (high - low + EIGHT - 1) / EIGHT;
                int passed = 0;
#pragma unroll
                for (int i = 1; i <= EIGHT; i++) {
                        const sf_i64 own = low + i * step - 1;
                        passed += own < high && sf_offset_of(p, own < high ? own : low) < position;
                }
                low += passed * step;
                high = high - low < step ? high : low + step - 1;
        }
        return low;
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        const int thread = sf_thread();
        const sf_i64 from = sf_block() * SF_THREADS, window = from + thread, size = p.number[1];
        sf_i64 *const ends = (sf_i64 *)sf_shared();
        if (thread < 64) {
                const sf_i64 own = thread < 32 ? from : from + SF_THREADS - 1;
                const sf_i64 found = sf_find(p, own * size, thread & 31);
                if (!(thread & 31))
                        ends[thread / 32] = found;
        }
        sf_sync_block();
        if (window >= p.number[0])
                return;
        const sf_i64 first = window * size, k = sf_find_singly(p, first, ends[0], ends[1]);
        const sf_i64 begin = sf_bound(p, k - 1), end = sf_bound(p, k);
        const sf_i64 number = begin < first ? (first - begin + size - 1) / size : 0;
        const bool inside = begin + number * size < end;
        const sf_i64 each[3] = {k, inside ? begin + number * size : end, inside ? number : 0};
        sf_u64 *const words = (sf_u64 *)p.scratch + p.number[2] + window * SF_TABLE_WORDS;
#pragma unroll
        for (int w = 0; w < 3; w++)
                sf_post(words + w, SF_TABLE_TOP | (sf_u64)each[w]);
}
