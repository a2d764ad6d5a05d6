/*
 * segments_tiles.cuh: long segments of lines (segments.cu). Every segment is cut into tiles of TILE
 * elements, counted from its beginning; segments_table.cu has found them. A block has one tile, and
 * each of its warps a chunk of it.
 *
 * SF_TILES: how many levels of totals a scan has. number[0]: slots of a line. number[1]: words of
 * scratch before the table.
 */
enum { TILE = STRETCH };
static_assert(!(WARPS & (WARPS - 1)), "a tile is a power of two of chunks");

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
        s.from = s.tile.number * TILE + warp * CHUNK;
        s.left = s.tile.length - s.from;
        return s;
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
SF_DEVICE sf_acc sf_fold_tile(const sf_params &p, const sf_line &line, const sf_share &s, int warp,
                              int lane)
{
        sf_acc total;
        if (s.left >= CHUNK)
                total = sf_fold_share<SF_LEAF, true>(p, line, s, lane);
        else if (s.left > CHUNK / 2)
                total = sf_fold_share<SF_LEAF, false>(p, line, s, lane);
        else if (s.left > CHUNK / 4)
                total = sf_fold_share<SF_LEAF / 2, false>(p, line, s, lane);
        else
                total = sf_fold_share<SF_LEAF / 4, false>(p, line, s, lane);
        return sf_fold_block(total, warp, lane);
}

#if SF_FOLDS
/* ------------------------------------------------------------------------------------------------
 * Folds. The block that is the last of its segment to finish folds the tiles' totals.
 *
 * scratch: the mark; for each line the totals of slots, then for each line how many tiles are done,
 * in the segment's first slot; the table.
 * ---------------------------------------------------------------------------------------------- */

/* Folds the totals of `tiles` tiles, TILE of them at a time. All are published, or about to be. The
 * first thread gets the total. */
SF_DEVICE sf_acc sf_fold_tiles(const sf_params &p, const sf_u64 *totals, sf_u32 mark, sf_i64 tiles,
                               int warp, int lane)
{
        /* As in order.h, in the first thread's hands. */
        sf_acc *const counter = (sf_acc *)sf_shared() + 32;
        const bool mine = !sf_thread();
        const sf_i64 rounds = (tiles + TILE - 1) / TILE;
        sf_acc total;
#pragma unroll 1
        for (sf_i64 round = 0; round < rounds; round++) {
                const sf_i64 first = round * TILE + warp * CHUNK + lane;
                enum { SOME = 4 }; /* that are looked for at once */
                sf_acc v[SF_LEAF];
#pragma unroll
                for (int j = 0; j < SF_LEAF; j += SOME) {
                        sf_look look[SOME];
#pragma unroll
                        for (int i = 0; i < SOME; i++)
                                v[j + i] = sf_neutral(p);
                        if (first - lane + j * 32 >= tiles)
                                continue;
#pragma unroll
                        for (int i = 0; i < SOME; i++) {
                                const sf_i64 at = first + (j + i) * 32;
                                look[i].words = totals + (at < tiles ? at : 0) * WORDS;
                                sf_look_once(look[i], mark);
                        }
#pragma unroll
                        for (int i = 0; i < SOME; i++)
                                v[j + i] = sf_choose(first + (j + i) * 32 < tiles,
                                                     sf_found(p, look[i], mark), sf_neutral(p));
                }
                sf_sync_warp();
                total = sf_fold_block(sf_fold_strips(v, lane), warp, lane);
                int level = 0;
                for (; mine && round >> level & 1; level++)
                        total = sf_settled(sf_combine(counter[level], total));
                if (mine)
                        counter[level] = total;
        }
        bool any = false;
        for (int level = 0; mine && rounds >> level; level++)
                if (rounds >> level & 1) {
                        total = any ? sf_settled(sf_combine(counter[level], total))
                                    : counter[level];
                        any = true;
                }
        return total;
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        const int thread = sf_thread(), warp = thread / 32, lane = thread & 31;
        const sf_i64 all = p.units * p.number[0];
        sf_u64 *const words = (sf_u64 *)p.scratch;
        const sf_share s = sf_share_of(p, sf_block(), warp);
        const sf_u32 mark = (sf_u32)(words[0] >> 32);
        if (!sf_has_entry(p, s.tile.segment))
                return;
        const sf_line line = sf_batch_line(p, s.unit);
        if (!s.tile.length) {
                if (!s.tile.number && !thread) /* an empty segment, not an empty slot */
                        sf_store_entry(p, line, s.tile.segment, sf_identity(p));
                return;
        }
        sf_acc total = sf_fold_tile(p, line, s, warp, lane);
        const sf_i64 tiles = (s.tile.length + TILE - 1) / TILE;
        if (tiles > 1) {
                sf_u64 *const totals = words + SF_TICKETS / 8 + s.slot * WORDS;
                int *const last = (int *)(sf_shared() + sf_tiles_desk(sizeof(sf_acc)));
                if (!thread) {
                        sf_publish<1>(totals + s.tile.number * WORDS, total, mark);
                        *last = (sf_i64)sf_ticket(words + p.number[1] - all + s.slot) + 1 == tiles;
                }
                sf_sync_block();
                if (!*last)
                        return;
                total = sf_fold_tiles(p, totals, mark, tiles, warp, lane);
        }
        if (!thread)
                sf_store_entry(p, line, s.tile.segment, total);
}
#else
#include "segments_ahead.cuh"
#endif
