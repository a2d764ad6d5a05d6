/*
 * segments_slots.cuh: the tiles that segments_table.cu has found, and how those of one segment join
 * their totals (segments_tiles.cuh, segments_down.cuh).
 *
 * SF_TILES: on how many levels there are totals. number[0]: slots of a unit, a line or a strip.
 */

/* What a slot has: a tile, or none (length 0). */
struct sf_tile_entry {
        sf_i64 begin, length; /* of its segment */
        sf_i64 segment;
        sf_i64 number, first; /* which tile of the segment it is; the slot of its first */
};
SF_DEVICE sf_tile_entry sf_entry_at(const sf_u64 *table, sf_i64 slot)
{
        sf_u64 each[SF_TABLE_WORDS];
#pragma unroll
        for (int w = 0; w < SF_TABLE_WORDS; w++)
                each[w] = table[slot * SF_TABLE_WORDS + w] & ~SF_TABLE_TOP;
        sf_tile_entry t;
        t.begin = (sf_i64)each[0];
        t.length = (sf_i64)each[1];
        t.segment = (sf_i64)each[3] - 1;
        t.number = (sf_i64)(each[2] >> 32);
        t.first = (sf_i64)(sf_u32)each[2];
        return t;
}

/* The totals of a segment. With columns, each place has those of a strip. */
struct sf_heap {
        sf_u64 *words; /* of its first tile, on the lowest level */
        sf_u32 mark;
};
SF_DEVICE sf_heap sf_heap_at(const sf_params &p, sf_i64 unit, const sf_tile_entry &tile,
                             sf_u32 mark)
{
        const sf_i64 first = unit * p.number[0] * SF_TILES + tile.first;
        return sf_heap{(sf_u64 *)p.scratch + SF_TICKETS / 8 + first * (SF_STRIP * WORDS), mark};
}
/* Of the tiles up to number `last`, as many as the level has together. */
SF_DEVICE sf_u64 *sf_heap_words(const sf_params &p, const sf_heap &heap, int level, sf_i64 last)
{
        return heap.words + (level * p.number[0] + last) * (SF_STRIP * WORDS);
}

/*
 * A fold's warp has the total of its tile. Of 32 tiles, the one that is the last to finish folds
 * their totals; of 32 such totals, the last does likewise, and so on. Returns whether the warp has
 * the segment's total then.
 *
 * done: counters of finished tiles, in the segment's own slots. tell(level, number) publishes the
 * total; fold(level, first, count) replaces it by that of so many on a level, from number `first`
 * on. Numbers are of tiles on the lowest level.
 */
template <class TELL, class FOLD>
SF_DEVICE bool sf_join_tiles(const sf_tile_entry &tile, int size, sf_u64 *done, int lane, TELL tell,
                             FOLD fold)
{
        sf_i64 number = tile.number, tiles = (tile.length + size - 1) / size;
#pragma unroll 1
        for (int level = 0; tiles > 1; level++) {
                const sf_i64 first = number & ~(sf_i64)31, left = tiles - first;
                const int count = left < 32 ? (int)left : 32;
                if (count > 1) {
                        int last = 0;
                        tell(level, number << 5 * level);
                        /* On a level, a group of several has more than 32^level tiles, so these
                         * slots are its segment's own. */
                        if (!lane)
                                last = (sf_i64)sf_ticket(done + (first << 5 * level) + level) + 1 ==
                                       count;
                        if (!::sf_shuffle(last, 0))
                                return false;
                        fold(level, first << 5 * level, count);
                }
                number >>= 5;
                tiles = (tiles + 31) >> 5;
        }
        return true;
}
