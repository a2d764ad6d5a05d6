/*
 * segments_down.cuh: folds of columns whose segments are not short on average (segments.cu). As in
 * segments_tiles.cuh, segments are cut into tiles, and a block has one tile of one strip of
 * columns. A lane has a column; the warps take the tile's leaves in turn. No block waits for
 * another.
 *
 * number[0]: slots of a strip. number[1]: words of scratch before the table. number[2]: strips of
 * columns. scratch: the mark; for each strip and level the totals of each slot; for each strip how
 * many tiles are done, in slots of their own; the table.
 */
#include "segments_slots.cuh"

enum { LEAVES = SF_DOWN_LEAVES * WARPS, TILE = LEAVES * SF_LEAF, LOOKS = 8 };

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
        for (int i = 0; i < SF_LEAF; i++) {
                const sf_loaded e = sf_read(p, sf_with_spread(raw[i], spread));
                v[i] = sf_choose(i < count, sf_lifted(e, number + i), neutral);
        }
        sf_combine_leaf(v);
        return sf_settled(v[SF_LEAF - 1]);
}

/* Folds the totals of `count` tiles on a level, from number `first` on. */
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
                                const sf_i64 tile = first + ((sf_i64)(g * LOOKS + i) << 5 * level);
                                look[i].words = sf_heap_words(p, heap, level, tile) + lane * WORDS;
                                sf_look_once(look[i], heap.mark);
                        }
                group[g] = sf_fold_totals<LOOKS>([&](int i) {
                        return g * LOOKS + i < count ? sf_found(p, look[i], heap.mark) : neutral;
                });
        }
        return sf_fold_totals<32 / LOOKS>([&](int g) { return group[g]; });
}

/* A lane's column of a tile. */
struct sf_down {
        sf_tile_entry tile;
        sf_i64 unit; /* the strip */
        sf_line line;
        bool there; /* the lane has a column */
};
SF_DEVICE sf_down sf_down_of(const sf_params &p, int lane)
{
        /* Neighbouring blocks have neighbouring strips: their rows are neighbours in memory. */
        const sf_i64 slot = sf_divide(sf_block(), p.units);
        sf_down d;
        d.unit = sf_block() - slot * p.units;
        d.tile = sf_entry_at((const sf_u64 *)p.scratch + p.number[1], slot);
        const sf_i64 batch = sf_divide(d.unit, p.number[2]);
        const sf_i64 column = (d.unit - batch * p.number[2]) * SF_STRIP + lane;
        d.there = column < p.inner;
        d.line = sf_batch_line(p, batch * p.inner + (d.there ? column : 0));
        return d;
}

/* A warp has the totals of a tile's columns; the last one of a segment stores the segment's. */
SF_DEVICE void sf_finish_tile(const sf_params &p, const sf_down &d, sf_acc total, int lane)
{
        sf_u64 *const words = (sf_u64 *)p.scratch;
        sf_u64 *const done = words + p.number[1] - (p.units - d.unit) * p.number[0] + d.tile.first;
        const sf_heap heap = sf_heap_at(p, d.unit, d.tile, (sf_u32)(words[0] >> 32));
        const auto tell = [&](int level, sf_i64 tile) {
                if (d.there)
                        sf_publish<1>(sf_heap_words(p, heap, level, tile) + lane * WORDS, total,
                                      heap.mark);
        };
        const auto fold = [&](int level, sf_i64 tile, int count) {
                if (d.there)
                        total = sf_fold_tiles(p, heap, level, tile, count, lane);
        };
        if (sf_join_tiles(d.tile, TILE, done, lane, tell, fold) && d.there)
                sf_store_entry(p, d.line, d.tile.segment, total);
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        const int warp = sf_thread() / 32, lane = sf_thread() & 31;
        const sf_down d = sf_down_of(p, lane);
        const sf_tile_entry &tile = d.tile;
        if (!sf_has_entry(p, tile.segment) || (!tile.length && tile.number))
                return;
        if (!tile.length) { /* an empty segment, not an empty slot */
                if (!warp && d.there)
                        sf_store_entry(p, d.line, tile.segment, sf_identity(p));
                return;
        }
        const sf_i64 from = tile.number * TILE, left = tile.length - from;
        const int count = left < TILE ? (int)left : (int)TILE;
        const sf_vector spread = sf_fetch_spread(p, d.line, tile.segment);
#pragma unroll 1
        for (int first = warp * SF_LEAF; first < count; first += WARPS * SF_LEAF)
                *sf_leaf_total(first / SF_LEAF, lane) =
                        sf_fold_leaf(p, d.line, spread, tile.begin + from + first, from + first,
                                     count - first);
        sf_sync_block();
        if (warp)
                return;
        const sf_acc neutral = sf_neutral(p);
        sf_finish_tile(p, d, sf_fold_totals<LEAVES>([&](int i) {
                               return sf_choose(i * SF_LEAF < count, *sf_leaf_total(i, lane),
                                                neutral);
                       }),
                       lane);
}
