/*
 * segments_table.cu: where the tiles of segments are, for kernels that cut long segments into tiles
 * (segments_tiles.cuh). Tiles have 2^log elements and are counted from the beginning of their
 * segment.
 *
 * Segment k has its tiles in slots from (begin >> log) + k + 1 on. The next segment's begin after
 * them; some slots stay empty. So nobody has to count the tiles of all segments before: a block
 * searches for its first slot and its last, then every thread for its own between them.
 *
 * number[0]: slots. number[1]: log. number[2]: where the table begins in scratch, in words.
 * number[3]: so many words before the table count tiles that are done, from 0 on; then this launch
 * also makes the mark of the next.
 *
 * SF_WINDOWS: no tiles, but where spans begin (segments_windows.cuh).
 */
#include "segments_find.cuh"

#if SF_WINDOWS
#include "segments_windows.cuh"
#else
SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        const int thread = sf_thread(), log = (int)p.number[1];
        const sf_i64 slots = p.number[0], from = sf_block() * SF_THREADS, slot = from + thread;
        sf_i64 *const ends = (sf_i64 *)sf_shared();
        sf_u64 *const words = (sf_u64 *)p.scratch, *const table = words + p.number[2];
        if (thread < 64) {
                const sf_i64 own = thread < 32 ? from : from + SF_THREADS - 1;
                const float share = sf_rough_quotient((float)p.segments, (float)slots);
                const sf_i64 found = sf_find_around(
                        p, [=, &p](sf_i64 k) { return sf_first_slot(p, k, log) <= own; },
                        (sf_i64)((float)own * share), thread & 31);
                if (!(thread & 31))
                        ends[thread / 32] = found - 1;
        }
        sf_sync_block();
        if (slot >= slots)
                return;
        sf_i64 k = ends[0], last = ends[1];
        while (k < last) {
                const sf_i64 middle = (k + last + 1) >> 1;
                if (sf_first_slot(p, middle, log) <= slot)
                        k = middle;
                else
                        last = middle - 1;
        }
        const sf_i64 begin = sf_bound(p, k), end = sf_bound(p, k + 1);
        const sf_i64 first = sf_first_slot(p, k, log), number = slot - first;
        const bool there = number >= 0 && end > begin && number <= (end - begin - 1) >> log;
        const sf_i64 each[SF_TABLE_WORDS] = {begin, there ? end - begin : 0,
                                             (number & 0x7fffffff) << 32 | first, k + 1};
#pragma unroll
        for (int w = 0; w < SF_TABLE_WORDS; w++)
                sf_post(table + slot * SF_TABLE_WORDS + w, SF_TABLE_TOP | (sf_u64)each[w]);
        for (sf_i64 i = slot; i < p.number[3]; i += slots)
                sf_post(table - p.number[3] + i, 0);
        if (p.number[3] && !slot)
                sf_post(words, ((sf_watch(words) >> 32) + 1) << 32);
}
#endif
