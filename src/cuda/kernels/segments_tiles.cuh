/*
 * segments_tiles.cuh: segments of lines that are not short on average (segments.cu). Every segment
 * is cut into tiles of TILE elements, counted from its beginning; segments_table.cu has found them.
 * A block has one tile, and each of its warps a chunk of it. Where segments have fewer elements
 * than a tile on average, folds have SF_ALONE: every warp has a tile of its own, and takes its
 * chunks one after another.
 *
 * A tile publishes its own total; the last one of 32 also that of these, and so on, each on a level
 * of its own. SF_TILES: how many levels there are. number[0]: slots of a line. number[1]: words of
 * scratch before the table.
 */
enum { TILE = STRETCH, TEAMS = SF_ALONE ? WARPS : 1 };
static_assert(!(WARPS & (WARPS - 1)), "a tile is a power of two of chunks");

#include "segments_slots.cuh"

/* own and other are neighbours; second: own is the right one. */
SF_DEVICE sf_acc sf_joined(sf_acc own, sf_acc other, bool second)
{
        if (SF_COMMUTES)
                return sf_settled(sf_combine(own, other));
        return sf_settled(
                sf_combine(sf_choose(second, other, own), sf_choose(second, own, other)));
}

/* Folds 32 * N values: lane i has number i of each strip. All lanes get the total. While a lane has
 * several, it keeps one of two and sends the other. */
template <int N> SF_DEVICE sf_acc sf_fold_strips(sf_acc (&v)[N], int lane)
{
#pragma unroll
        for (int b = 1; b < 32; b *= 2) {
                const bool second = lane & b;
                if (N / b > 1) {
#pragma unroll
                        for (int i = 0; i < N / 2; i++)
                                if (i < N / b / 2) {
                                        const sf_acc even = v[2 * i], odd = v[2 * i + 1];
                                        v[i] = sf_joined(
                                                sf_choose(second, odd, even),
                                                sf_shuffle(sf_choose(second, even, odd), lane ^ b),
                                                second);
                                }
                } else
                        v[0] = sf_joined(v[0], sf_shuffle(v[0], lane ^ b), second);
        }
#pragma unroll
        for (int b = 1; b < N; b *= 2)
                v[0] = sf_joined(v[0], sf_shuffle(v[0], lane ^ b), lane & b);
        return v[0];
}

/* Folds the totals of a block's warps. */
SF_DEVICE sf_acc sf_fold_block(sf_acc total, int warp, int lane)
{
        sf_acc *const totals = (sf_acc *)sf_shared();
        if (!lane)
                totals[warp] = total;
        sf_sync_block();
        total = totals[lane & (WARPS - 1)];
        sf_sync_block();
#pragma unroll
        for (int b = 1; b < WARPS; b *= 2)
                total = sf_joined(total, sf_shuffle(total, lane ^ b), lane & b);
        return total;
}

/* A tile of a line, and what of it a warp has: from element `from` of the segment on, `left` of
 * them. */
struct sf_share {
        sf_tile_entry tile;
        sf_i64 from, left;
        sf_i64 unit, slot; /* the line; where the line's slots of this segment begin */
};
SF_DEVICE sf_share sf_share_of(const sf_params &p, sf_i64 number, int warp)
{
        sf_share s;
        s.unit = p.units == 1 ? 0 : sf_divide(number, p.number[0]);
        s.tile = sf_entry_at((const sf_u64 *)p.scratch + p.number[1],
                             number - s.unit * p.number[0]);
        s.slot = s.unit * p.number[0] + s.tile.first;
        s.from = s.tile.number * TILE + (SF_ALONE ? 0 : warp * CHUNK);
        s.left = s.tile.length - s.from;
        return s;
}

SF_DEVICE sf_heap sf_heap_of(const sf_params &p, const sf_share &s, sf_u32 mark)
{
        return sf_heap_at(p, s.unit, s.tile, mark);
}

/* The total of a warp's share, which has at most N strips. ALL: N full ones. */
template <int N, bool ALL> SF_DEVICE sf_acc sf_fold_share(const sf_params &p, const sf_line &line,
                                                          const sf_share &s, int lane)
{
        const sf_line from = sf_line_at(p, line, s.tile.begin + s.from + lane);
        const int end = ALL ? N * 32 : s.left < 0 ? 0 : (int)s.left;
        const sf_acc neutral = sf_neutral(p);
        sf_vector raw[N];
        sf_acc v[N];
#pragma unroll
        for (int j = 0; j < N; j++)
                raw[j] = sf_fetch(p, from, j * 32, ALL ? N * 32 : end - lane);
        const sf_vector spread = sf_fetch_spread(p, line, s.tile.segment);
#pragma unroll
        for (int j = 0; j < N; j++) {
                v[j] = sf_lifted(sf_read(p, sf_with_spread(raw[j], spread)),
                                 s.from + j * 32 + lane);
                if (!ALL)
                        v[j] = sf_choose(j * 32 + lane < end, v[j], neutral);
        }
        return sf_fold_strips(v, lane);
}
SF_DEVICE sf_acc sf_fold_chunk(const sf_params &p, const sf_line &line, const sf_share &s, int lane)
{
        if (s.left >= CHUNK)
                return sf_fold_share<SF_LEAF, true>(p, line, s, lane);
        if (s.left > CHUNK / 2)
                return sf_fold_share<SF_LEAF, false>(p, line, s, lane);
        if (s.left > CHUNK / 4)
                return sf_fold_share<SF_LEAF / 2, false>(p, line, s, lane);
        return sf_fold_share<SF_LEAF / 4, false>(p, line, s, lane);
}
SF_DEVICE sf_acc sf_fold_tile(const sf_params &p, const sf_line &line, sf_share s, int warp,
                              int lane)
{
#if SF_ALONE
        sf_acc counter[WARPS_LOG + 1], total; /* as in order.h */
        (void)counter, (void)warp;
#pragma unroll 1
        for (int chunk = 0;; chunk++) {
                const bool last = chunk + 1 == WARPS || s.left <= CHUNK;
                bool carries = true;
                total = sf_fold_chunk(p, line, s, lane);
#pragma unroll
                for (int k = 0; k < WARPS_LOG; k++) {
                        if (chunk >> k & 1) {
                                if (carries || last)
                                        total = sf_joined(counter[k], total, false);
                        } else if (carries) {
                                counter[k] = total;
                                carries = false;
                        }
                }
                if (last)
                        return total;
                s.from += CHUNK;
                s.left -= CHUNK;
        }
#else
        return sf_fold_block(sf_fold_chunk(p, line, s, lane), warp, lane);
#endif
}

#if SF_FOLDS
/* ------------------------------------------------------------------------------------------------
 * Folds
 *
 * scratch: the mark; for each line and level a total for each slot; for each line how many tiles
 * are done, in slots of their own; the table.
 * ---------------------------------------------------------------------------------------------- */

/* Folds the totals of `count` tiles on a level, from number `first` on. All lanes get the total. */
SF_DEVICE sf_acc sf_fold_tiles(const sf_params &p, const sf_heap &heap, int level, sf_i64 first,
                               int count, int lane)
{
        sf_acc total = sf_neutral(p);
        if (lane < count) {
                sf_look look;
                look.words = sf_heap_words(p, heap, level, first + ((sf_i64)lane << 5 * level));
                sf_look_once(look, heap.mark);
                total = sf_found(p, look, heap.mark);
        }
        sf_sync_warp();
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                total = sf_joined(total, sf_shuffle(total, lane ^ b), lane & b);
        return total;
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        const int thread = sf_thread(), warp = thread / 32, lane = thread & 31;
        const sf_i64 all = p.units * p.number[0], own = sf_block() * TEAMS + (SF_ALONE ? warp : 0);
        sf_u64 *const words = (sf_u64 *)p.scratch;
        if (own >= all)
                return;
        const sf_share s = sf_share_of(p, own, warp);
        const sf_u32 mark = (sf_u32)(words[0] >> 32);
        const bool first = SF_ALONE || !warp;
        if (!sf_has_entry(p, s.tile.segment))
                return;
        const sf_line line = sf_batch_line(p, s.unit);
        if (!s.tile.length) {
                if (!s.tile.number && first && !lane) /* an empty segment, not an empty slot */
                        sf_store_entry(p, line, s.tile.segment, sf_identity(p));
                return;
        }
        sf_acc total = sf_fold_tile(p, line, s, warp, lane);
        if (!first)
                return;
        const sf_heap heap = sf_heap_of(p, s, mark);
        const auto tell = [&](int level, sf_i64 tile) {
                if (!lane)
                        sf_publish<1>(sf_heap_words(p, heap, level, tile), total, mark);
        };
        const auto fold = [&](int level, sf_i64 tile, int count) {
                total = sf_fold_tiles(p, heap, level, tile, count, lane);
        };
        if (sf_join_tiles(s.tile, TILE, words + p.number[1] - all + s.slot, lane, tell, fold) &&
            !lane)
                sf_store_entry(p, line, s.tile.segment, total);
}
#else
#include "segments_ahead.cuh"
#endif
