/*
 * segments_down.cuh: folds of columns whose segments are not short on average (segments.cu). As in
 * segments_tiles.cuh, segments are cut into tiles, and a block has one tile of one strip of columns. A
 * lane has a column; the warps take the tile's leaves in turn. No block waits for another: of 32
 * tiles, the one that is the last to finish folds their totals, and so on.
 *
 * number[0]: slots of a strip. number[1]: words of scratch before the table. number[2]: strips of
 * columns. scratch: the mark; for each strip and level the totals of each slot; for each strip how
 * many tiles are done, in slots of their own; the table.
 */
#include "segments_slots.cuh"

enum { LEAVES = 4 * WARPS, TILE = LEAVES * SF_LEAF, LOOKS = 8 };

/* The totals of leaves, of each column. */
SF_DEVICE sf_acc *sf_leaf_total(int leaf, int lane)
{
        return (sf_acc *)sf_shared() + leaf * SF_STRIP + lane;
}

/* Folds a leaf, of which `count` rows are there. number: of the first one in its segment. */
SF_DEVICE sf_acc sf_fold_leaf(const sf_params &p, const sf_line &line, const sf_vector &spread,
                              sf_i64 first, sf_i64 number, int count)
{
        sf_vector raw[SF_LEAF];
        sf_acc v[SF_LEAF];
        sf_line at = sf_line_at(p, line, first);
        const sf_acc neutral = sf_neutral(p);
#pragma unroll
        for (int i = 0; i < SF_LEAF; i++) {
                raw[i] = sf_fetch(p, at, 0, i < count);
                at = sf_line_at(p, at, 1);
        }
#pragma unroll
        for (int i = 0; i < SF_LEAF; i++)
                v[i] = sf_choose(i < count, sf_lifted(sf_read(p, sf_with_spread(raw[i], spread)), number + i), neutral);
        sf_combine_leaf(v);
        return sf_settled(v[SF_LEAF - 1]);
}

/* Folds N totals; `next` gives them in turn. */
template <int N, class NEXT> SF_DEVICE sf_acc sf_fold_totals(NEXT next)
{
        sf_acc v[N];
#pragma unroll
        for (int i = 0; i < N; i++)
                v[i] = next(i);
#pragma unroll
        for (int b = 1; b < N; b *= 2)
#pragma unroll
                for (int i = 0; i + b < N; i += 2 * b)
                        v[i] = sf_settled(sf_combine(v[i], v[i + b]));
        return v[0];
}

/* Folds the totals of up to 32 tiles, from number `first` on, as the level has them. */
SF_DEVICE sf_acc sf_fold_tiles(const sf_params &p, const sf_heap &heap, int level, sf_i64 first,
                               int count, int lane)
{
        const sf_acc neutral = sf_neutral(p);
        sf_acc group[32 / LOOKS];
#pragma unroll
        for (int g = 0; g < 32 / LOOKS; g++) {
                group[g] = neutral;
                if (g * LOOKS >= count)
                        continue;
                sf_look look[LOOKS];
#pragma unroll
                for (int i = 0; i < LOOKS; i++)
                        if (g * LOOKS + i < count) {
                                look[i].words = sf_heap_words(p, heap, level, (first + g * LOOKS + i) << 5 * level) + lane * WORDS;
                                sf_look_once(look[i], heap.mark);
                        }
                group[g] = sf_fold_totals<LOOKS>([&](int i) { return g * LOOKS + i < count ? sf_found(p, look[i], heap.mark) : neutral; });
        }
        return sf_fold_totals<32 / LOOKS>([&](int g) { return group[g]; });
}

/* A warp publishes the totals of its tile. Returns whether it has those of the segment then. there:
 * the lane has a column. */
SF_DEVICE bool sf_join_strips(const sf_params &p, const sf_tile_entry &tile, const sf_heap &heap,
                              sf_u64 *done, bool there, sf_acc &total, int lane)
{
        sf_i64 number = tile.number, tiles = (tile.length + TILE - 1) / TILE;
#pragma unroll 1
        for (int level = 0; tiles > 1; level++) {
                const sf_i64 first = number & ~(sf_i64)31, left = tiles - first;
                const int count = left < 32 ? (int)left : 32;
                if (count > 1) {
                        int last = 0;
                        if (there)
                                sf_publish<1>(sf_heap_words(p, heap, level, number << 5 * level) +
                                                      lane * WORDS,
                                              total, heap.mark);
                        if (!lane)
                                last = (sf_i64)sf_ticket(done + (first << 5 * level) + level) + 1 ==
                                       count;
                        if (!::sf_shuffle(last, 0))
                                return false;
                        if (there)
                                total = sf_fold_tiles(p, heap, level, first, count, lane);
                }
                number >>= 5;
                tiles = (tiles + 31) >> 5;
        }
        return true;
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        const int thread = sf_thread(), warp = thread / 32, lane = thread & 31;
        sf_u64 *const words = (sf_u64 *)p.scratch;
        /* Neighbouring strips at a time: their rows are neighbours in memory. */
        const sf_i64 own = sf_block(), slot = sf_divide(own, p.units), unit = own - slot * p.units;
        const sf_tile_entry tile = sf_entry_at((const sf_u64 *)p.scratch + p.number[1], slot);
        if (!sf_has_entry(p, tile.segment) || (!tile.length && tile.number))
                return;
        const sf_i64 batch = sf_divide(unit, p.number[2]);
        const sf_i64 column = (unit - batch * p.number[2]) * SF_STRIP + lane;
        const bool there = column < p.inner;
        const sf_line line = sf_batch_line(p, batch * p.inner + (there ? column : 0));
        if (!tile.length) {
                if (!warp && there)
                        sf_store_entry(p, line, tile.segment, sf_identity(p));
                return;
        }
        const sf_i64 from = tile.number * TILE, left = tile.length - from;
        const int count = left < TILE ? (int)left : (int)TILE;
        const sf_vector spread = sf_fetch_spread(p, line, tile.segment);
#pragma unroll 1
        for (int leaf = warp; leaf * SF_LEAF < count; leaf += WARPS)
                *sf_leaf_total(leaf, lane) =
                        sf_fold_leaf(p, line, spread, tile.begin + from + leaf * SF_LEAF,
                                     from + leaf * SF_LEAF, count - leaf * SF_LEAF);
        sf_sync_block();
        if (warp)
                return;
        const sf_acc neutral = sf_neutral(p);
        sf_acc total = sf_fold_totals<LEAVES>([&](int i) { return sf_choose(i * SF_LEAF < count, *sf_leaf_total(i, lane), neutral); });
        const sf_heap heap = sf_heap_at(p, unit, tile, (sf_u32)(words[0] >> 32));
        sf_u64 *const done = words + p.number[1] - p.units * p.number[0] + unit * p.number[0] + tile.first;
        if (sf_join_strips(p, tile, heap, done, there, total, lane) && there)
                sf_store_entry(p, line, tile.segment, total);
}
