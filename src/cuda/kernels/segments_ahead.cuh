/*
 * segments_ahead.cuh: scans of long segments (segments_tiles.cuh). A block folds one tile,
 * publishes its total, and scans the tile that is p.number[2] slots before it. What the scan needs
 * has been published long ago, so it does not wait; and its elements are still in the second-level
 * cache.
 *
 * All tiles before a tile are one total for each bit of its number, made of published ones.
 *
 * scratch: tickets; for each line and level a total for each slot; the table. number[3]: tickets.
 */
#include "segments_groups.cuh"

/* A warp finds the totals of a level before tile `number`: for each bit of the level's digit, lane
 * b gets the one for bit b. `total` is combined with them. */
SF_DEVICE void sf_level_before(const sf_params &p, const sf_heap &heap, sf_i64 number, int level,
                               sf_acc &own, sf_acc &total, int lane)
{
        const int digit = (int)(number >> 5 * level & 31);
        sf_acc v = sf_neutral(p);
        if (lane < digit) {
                sf_look look;
                look.words = sf_heap_words(
                        p, heap, level,
                        (((number >> 5 * level & ~(sf_i64)31) + lane + 1) << 5 * level) - 1);
                sf_look_once(look, heap.mark);
                v = sf_found(p, look, heap.mark);
        }
        sf_sync_warp();
#pragma unroll
        for (int k = 0; k < 5; k++) {
                const sf_acc taken = sf_shuffle(v, ((digit & -(1 << k)) - 1) & 31);
                if (digit >> k & 1) {
                        total = sf_settled(sf_combine(taken, total));
                        own = sf_choose(lane == 5 * level + k, taken, own);
                }
                const sf_acc left = sf_shuffle(v, ((lane & -(1 << k)) - 1) & 31);
                v = sf_choose(lane & 1 << k, sf_settled(sf_combine(left, v)), v);
        }
}

/* A warp publishes a tile's total, and those of 32 tiles and more that end with it. */
SF_DEVICE void sf_tell_tile(const sf_params &p, const sf_heap &heap, sf_i64 number, sf_acc total,
                            int lane)
{
        sf_acc own = total;
        for (int level = 0;; level++) {
                if (!lane)
                        sf_publish<1>(sf_heap_words(p, heap, level, number), total, heap.mark);
                if ((number >> 5 * level & 31) != 31 || level + 1 >= SF_TILES)
                        return;
                sf_level_before(p, heap, number, level, own, total, lane);
        }
}

/* What a block shares. */
struct sf_together {
        sf_acc total[32]; /* of its warps' chunks */
        sf_acc left[32];  /* of the tiles before, for each bit of the number */
};

/* Scans a warp's share, whose elements are in cells. */
SF_DEVICE void sf_scan_share(const sf_params &p, const sf_window &w, const sf_group &g,
                             const sf_share &s, const sf_heap &heap, sf_together &b, int warp)
{
        const int lane = w.lane, left = g.count - lane * SF_LEAF;
        sf_row row;
        row.segment = s.tile.segment;
        row.at = row.number = lane;
        row.at *= SF_LEAF;
        row.length = left < 0 ? 0 : left < SF_LEAF ? left : (int)SF_LEAF;
        row.rows = 32;
        row.leads = true;
        sf_acc v[SF_LEAF];
        sf_take<ALONE>(p, w, g, row, v);
        sf_combine_leaf(v);
        sf_acc total = sf_settled(v[SF_LEAF - 1]), before = sf_identity(p), own = before;
        sf_combine_rows(row, lane, v, total);
        bool any = false;
        if (lane == 31)
                b.total[warp] = total;
        sf_sync_block();
        sf_acc all = b.total[lane & (WARPS - 1)];
#pragma unroll
        for (int bit = 1; bit < WARPS; bit *= 2) {
                const sf_acc other = sf_shuffle(all, ((lane & -bit) - 1) & 31);
                if (warp & bit) {
                        sf_take_one_left(sf_shuffle(other, warp), any, v, total, before);
                        any = true;
                }
                all = sf_choose(lane & bit, sf_settled(sf_combine(other, all)), all);
        }
        /* Each warp finds what comes before on a level. */
        sf_acc none = own;
#pragma unroll 1
        for (int level = warp; s.tile.number >> 5 * level; level += WARPS) {
                sf_level_before(p, heap, s.tile.number, level, own, none, lane);
                if (lane / 5 == level && s.tile.number >> lane & 1)
                        b.left[lane] = own;
        }
        if (s.tile.number)
                sf_sync_block();
#pragma unroll 1
        for (sf_u32 bits = (sf_u32)s.tile.number; bits; bits &= bits - 1, any = true)
                sf_take_one_left(b.left[sf_lowest(bits)], any, v, total, before);
#if SF_EXCLUSIVE
        const sf_acc last = sf_shuffle(total, (lane - 1) & 31);
        before = sf_choose(lane, last, before);
#endif
        sf_put<ALONE>(p, w, g, row, v, before);
        sf_sync_warp();
        sf_flush<ALONE>(p, w, g);
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        const int thread = sf_thread(), warp = thread / 32, lane = thread & 31;
        sf_u64 *const ticket = (sf_u64 *)sf_shared();
        if (!thread)
                *ticket = sf_draw(p);
        sf_sync_block();
        const sf_u64 drawn = *ticket;
        const sf_u32 mark = sf_mark(drawn);
        sf_sync_block();
        if (!thread)
                sf_hand_in(p, drawn);
        const sf_i64 ahead = (sf_u32)drawn, now = ahead - p.number[2],
                     all = p.units * p.number[0];
        sf_share s, next;
        s.tile.length = next.tile.length = 0;
        if (now >= 0 && now < all)
                s = sf_share_of(p, now, warp);
        if (ahead < all)
                next = sf_share_of(p, ahead, warp);
        sf_together &b = *(sf_together *)sf_shared(); /* the ticket has been read */
        sf_window w;
        sf_group g;
        w.cells = sf_shared() + sf_tiles_desk(sizeof(sf_acc)) +
                  warp * sf_segments_desk(SF_LEAF, SF_CELL);
        w.rows = 0;
        w.lane = lane;
        g.at = 0;
        g.ends = true;
        if (s.tile.length) {
                w.line = sf_batch_line(p, s.unit);
                w.first = s.tile.begin + s.from;
                g.count = s.left < 0 ? 0 : s.left < CHUNK ? (int)s.left : (int)CHUNK;
                g.rows = (g.count + SF_LEAF - 1) / SF_LEAF;
                g.number = (sf_u32)(s.from / CHUNK);
                sf_stage<ALONE>(p, w, g);
        }
        if (next.tile.length > (next.tile.number + 1) * TILE) {
                const sf_acc total =
                        sf_fold_tile(p, sf_batch_line(p, next.unit), next, warp, lane);
                if (!warp)
                        sf_tell_tile(p, sf_heap_of(p, next, mark), next.tile.number, total, lane);
        }
        if (s.tile.length) {
                sf_staged();
                sf_scan_share(p, w, g, s, sf_heap_of(p, s, mark), b, warp);
        }
}
