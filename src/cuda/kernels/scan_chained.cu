/*
 * scan_chained.cu: scans of sequences so long, or so few, that many blocks share one.
 *
 * A sequence is cut into aligned tiles whose length is a power of two. Blocks claim tiles one by
 * one, in order. Every tile publishes its total. The last tile of a group of 32 also publishes the
 * group's total, as soon as it has seen the totals of the others; the last tile of 32 groups
 * publishes theirs, and so on. All tiles before a tile together are one total for each bit set in
 * its number. The tile finds these by reading at most 31 entries of every level, all levels at
 * once, and rebuilding the tree from them by shuffles.
 *
 * From its load to its store a tile waits some microseconds for others. So many loads must be under
 * way: a block keeps SF_STAGES tiles in shared memory. Every thread reads only what it staged
 * itself, which needs no barrier; of vectors at any address, and of narrow ones, what its warp staged.
 * While tile i is scanned and stored, tile i + SF_AHEAD is folded and its total is published. There is one barrier
 * for each tile. It hands tile numbers and the totals of warps to the warps that need them, and the
 * totals before a tile back to the workers.
 *
 * Most warps are workers: they load, compute and store. The others are watchers. Of these,
 * SF_ANNOUNCERS warps claim tiles and publish totals. The rest look for totals of earlier tiles, in
 * SF_PARTIES parties of SF_LOOKERS warps. A party has every SF_PARTIES-th tile. In each turn of the
 * loop it tries once, and it repeats the try only if its tile is the next one. So a turn waits for
 * memory only if a total is really late.
 *
 * SF_COLUMNS > 1: a line is that many interleaved sequences, the columns of a narrow matrix. A tile
 * has as many elements as before, and SF_COLUMNS totals.
 *
 * scratch: tickets (256 bytes), then for every line, level and group: SF_COLUMNS x WORDS x 32 words
 * of 64 bits, each with the mark and 32 bits of a total.
 * SF_CUTS: a line is cut into blocks (sf_rising), each with entries of its own to its left, and each
 * of which is then like a line. units: tiles of all blocks of a line. Blocks have TILE elements in
 * each tile but the last.
 *
 * number[0]: tiles of a line. number[1]: groups of a line. number[2]: tiles in all. number[3]:
 * tickets; every block draws SF_STAGES + 2 more than it gets tiles. n: elements of a line.
 */

/* The parts of a vector that are staged: at which byte each would begin if a stage had one vector
 * only (sf_stage_slot). */
enum {
#if SF_LOAD_FUSED
#define OPERAND(k, dt, unit) AT_##k, END_##k = AT_##k + sf_operand<dt, unit>::BYTES - 1,
        SF_LOADS(OPERAND)
#undef OPERAND
#else
        X_AT, X_END = SF_WIDTH * SF_IN_SIZE - 1,
#endif
        M_AT
};
#define OPERAND_SLOT(k) sf_stage_slot<AT_##k, END_##k + 1 - AT_##k, sf_loose_before<k>()>
#define OPERAND_AREA(k) sf_stage_area<AT_##k, END_##k + 1 - AT_##k, sf_loose_before<k>()>
#define X_SLOT sf_stage_slot<X_AT, X_END + 1, 0>
#define X_AREA sf_stage_area<X_AT, X_END + 1, 0>
#define M_SLOT sf_stage_slot<M_AT, SF_WIDTH, 0>
/* Is x staged as one piece for each warp? If its vectors may begin anywhere, or are narrower than what is
 * copied at once; so are operands that may begin anywhere in a vector, as bits, and how many they are. */
#define X_PIECE (!SF_LOAD_FUSED && !SF_MASK && (SF_SHIFT_IN || (SF_X_UNIT && SF_WIDTH * SF_IN_SIZE < 16)))
#if SF_LOAD_FUSED
#define SF_LOOSE_OPERANDS (SF_LOOSE_ONES & ~SF_SHORT)
#define LOOSE_COUNT sf_loose_before<SF_OPERANDS>()
#else
#define SF_LOOSE_OPERANDS 0u
#define LOOSE_COUNT 0
#endif
#define IS_LOOSE(k) ((SF_LOOSE_OPERANDS >> (k) & 1) != 0)
/* How many of the operands before operand K are such. */
template <int K> SF_DEVICE constexpr int sf_loose_before()
{
        return K ? sf_loose_before<(K ? K - 1 : 0)>() + IS_LOOSE(K ? K - 1 : 0) : 0;
}

/* Results after a spent product need no totals (chained_search.cuh). Of f64 it costs more to ask than that
 * saves: H200, a line of 2^27, share of a copy, 0.76 with and 0.80 without. */
#define SF_SPENDS (SF_UNLIFTED && SF_VALUE_SIZE == 8 && SF_COLUMNS == 1 && SF_DEPTH < 6 && !SF_EXCLUSIVE && !SF_TOTAL && !SF_INITIAL && !SF_LEFTS)

/* What a scanned element is stored as. Products of a warp are numbers, or are not stored. */
#if SF_UNLIFTED
typedef sf_number sf_scanned;
SF_DEVICE sf_scanned sf_scanned_of(sf_acc v) { return v.mantissa; }
SF_DEVICE sf_acc sf_of_scanned(sf_scanned v) { return sf_holds::made(v, 0); }
#else
typedef sf_acc sf_scanned;
SF_DEVICE sf_scanned sf_scanned_of(sf_acc v) { return v; }
SF_DEVICE sf_acc sf_of_scanned(sf_scanned v) { return v; }
#endif

enum {
        SHARE = sf_columns<SF_COLUMNS>::SHARE,
        SPAN = sf_columns<SF_COLUMNS>::SPAN,
        WARPS = SF_THREADS / 32 - SF_ANNOUNCERS - SF_PARTIES * SF_LOOKERS,
        WORKERS = WARPS * 32,
        SPREAD = 32 * SF_WIDTH,
        TILE = WORKERS * SF_ITEMS * SF_WIDTH,
        ENDS = X_PIECE + LOOSE_COUNT,
        STAGE = SF_ITEMS * WORKERS * (M_AT + SF_MASK * SF_WIDTH) + ENDS * WARPS * SF_CHAINED_END,
        WORDS = sizeof(sf_acc) / 4,
        BITS = SF_GROUP_LOG * SF_DEPTH, /* bits of a tile's number */
        SEARCHES = (SF_COLUMNS + SF_LOOKERS - 1) / SF_LOOKERS, /* columns of a looking warp */
        TURNS = SF_AHEAD + 1,
#if SF_LOAD_FUSED
        ONCE = 0,
#else
        /* Scanned elements fit where they were staged: warps scan once, instead of a fold first and
         * a scan later. */
        ONCE = SF_IN_SIZE == sizeof(sf_scanned),
#endif
};

static_assert(SF_RING > SF_STAGES + 2 && !(SF_RING & (SF_RING - 1)), "tiles that are remembered");
static_assert(WARPS <= 1 << SF_WARP_LEVELS, "what warps take of each other");

#if SF_CUTS
/*
 * As sf_rising_at, for tiles of TILE positions, in a few instructions whatever the number of blocks
 * is: one thread does this for every tile. Blocks shorter than a tile come first, each in a tile of
 * its own. Then the tiles are those of a number's bits, the lowest first. Counted from the last of
 * them, a tile's number agrees with the last one's in all bits above that of its block.
 */
SF_DEVICE sf_i64 sf_rising_tile(const sf_params &p, sf_i64 *number, sf_i64 *begin, sf_i64 *length)
{
        enum { LOG = sf_log<TILE>::DOWN };
        const sf_u32 small = (sf_u32)p.inner & (TILE - 1), large = (sf_u32)(p.inner >> LOG);
        const int few = sf_count_bits(small);
        if (*number < few)
                return sf_rising_at(p.inner, p.n, LOG, number, begin, length);
        const sf_u32 at = (sf_u32)*number - (sf_u32)few;
        if (at >= large) {
                *number = at - large;
                *begin = p.inner;
                *length = p.n - p.inner;
                return few + sf_count_bits(large);
        }
        const int bit = sf_highest((large - 1 - at) ^ large);
        const sf_u32 before = large & ((1u << bit) - 1);
        *number = at - before;
        *begin = (sf_i64)before * TILE + small;
        *length = (sf_i64)TILE << bit;
        return few + sf_count_bits(before);
}
#endif

SF_DEVICE sf_claim sf_claim_of(const sf_params &p, sf_u64 drawn)
{
        sf_i64 id = (sf_u32)drawn;
        sf_claim c;
        c.mark = sf_mark(drawn);
#if SF_CUTS
        c.batch = sf_divide(id, p.units);
        c.number = id - c.batch * p.units;
        const sf_i64 block = sf_rising_tile(p, &c.number, &c.begin, &c.n);
        c.unit = c.batch * p.iy + block;
        c.left = sf_batch_line(p, c.batch).left + block * p.ix;
        c.there = id >= p.number[2] ? 0 : (c.number + 1) * TILE <= c.n ? 2 : 1;
        return c;
#endif
        c.unit = id < p.number[0] ? 0 : sf_divide(id, p.number[0]);
#if SF_LEFTS
        c.left = sf_batch_line(p, c.unit).left;
#endif
        c.number = id - c.unit * p.number[0];
        c.there = id >= p.number[2] ? 0 : (c.number + 1) * TILE <= p.n ? 2 : 1;
        return c;
}

/* A tile: its line, its number in the line, and the line's length. */
struct sf_tile {
        sf_line line;
        sf_i64 number, n;
};

SF_DEVICE sf_tile sf_tile_of(const sf_params &p, const sf_claim &c)
{
#if SF_CUTS
        sf_line line = sf_moved(sf_batch_line(p, c.batch), c.begin, sf_along(p));
        line.left = c.left;
        return sf_tile{line, c.number, c.n};
#else
        return sf_tile{sf_batch_line(p, c.unit), c.number, p.n};
#endif
}

/* The workers take totals to the left from shared memory: those who look for totals put them there. A
 * place that has them already, from an earlier tile, keeps them. unit: whose totals they are; ~0: nobody's.
 * There are fewer units than tickets, which have 32 bits. */
#define KEEPS_LEFTS (SF_LEFTS && SF_COLUMNS == 1)
#if KEEPS_LEFTS
struct sf_lefts {
        int count;
        sf_u32 unit;
        sf_acc e[SF_MOST_LEFTS];
};

SF_DEVICE void sf_hand_lefts(const sf_params &p, const sf_claim &tile, sf_lefts &to, int lane)
{
        if (to.unit == (sf_u32)tile.unit)
                return;
        const int count = *(const int *)tile.left;
        sf_sync_warp(); /* all lanes have seen whose they were */
        for (int e = lane; e < count; e += 32)
                to.e[e] = *(const sf_acc *)(tile.left + (e + 1) * p.left_entry);
        if (lane == 0) {
                to.count = count;
                to.unit = (sf_u32)tile.unit;
        }
}
#endif

#include "chained_stages.cuh"

#include "chained_search.cuh"

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        int thread = sf_thread(), lane = thread & 31, warp = thread / 32, watcher = warp - WARPS;
        sf_acc neutral = sf_acc_of(p.neutral);
        sf_claim *claims = (sf_claim *)(sf_shared() + SF_STAGES * STAGE);
        /* For each of TURNS turns: totals of warps, WARPS x SF_COLUMNS. */
        sf_acc *totals = (sf_acc *)(claims + SF_RING);
        /* For each of 2 * SF_PARTIES tiles: totals before the tile, BITS x SF_COLUMNS. */
        sf_acc *before = totals + sf_chained_before(TURNS, WARPS, SF_COLUMNS);
#if KEEPS_LEFTS
        /* For each of 2 * SF_PARTIES tiles: the totals of the blocks to its left, sf_lefts. */
        sf_lefts *lefts = (sf_lefts *)(totals + sf_chained_end(TURNS, WARPS, SF_COLUMNS, SF_PARTIES, SF_DEPTH));
        if (thread < 2 * SF_PARTIES)
                lefts[thread].unit = ~0u;
#endif
        /* For each of TURNS turns: the totals of a tile, SF_COLUMNS of them. */
        sf_acc *own = totals + sf_chained_own(TURNS, WARPS, SF_COLUMNS, SF_PARTIES, SF_DEPTH);
#if SF_COLUMNS == 1
        /* For each of TURNS turns: what warps take from each other, WARPS x SF_WARP_LEVELS. */
        sf_acc *between = totals + sf_chained_between(TURNS, WARPS, SF_COLUMNS, SF_PARTIES,
                                                      SF_DEPTH);
#endif
        /* A worker's first element of a tile, and its first column. */
        sf_i64 mine = (sf_i64)(warp * SF_ITEMS * 32 + lane) * SF_WIDTH;
        int first = (lane & (SPAN - 1)) * SHARE;

        /* The first claims. There is a pause after each, so that blocks that start at the same time
         * get tiles in turn. */
        sf_u64 ticket = 0; /* of the next claim; drawn a turn early, so that nobody waits for it */
        if (thread == WORKERS) {
                sf_u64 drawn[SF_STAGES + 1];
#pragma unroll
                for (int k = 0; k <= SF_STAGES; k++) {
                        drawn[k] = sf_draw(p);
                        sf_pause();
                }
#pragma unroll
                for (int k = 0; k <= SF_STAGES; k++) {
                        claims[k] = sf_claim_of(p, drawn[k]);
                        sf_hand_in(p, drawn[k]);
                }
        }
        sf_sync_block();
        if (watcher < 0)
                for (int k = 0; k < SF_STAGES; k++)
                        sf_stage_tile(p, claims[k], mine, k, thread);

        int stage = 0, ahead = 0; /* the stages of tile i and of tile i + SF_AHEAD */
        int looker = watcher - SF_ANNOUNCERS, party = looker / SF_LOOKERS, looking = -1;
        bool ask = SF_COLUMNS > 1; /* whether the warp's last products have left the range */
        (void)ask;
        sf_u32 held = 0; /* stages that hold scanned elements */
        sf_u32 plain = 0; /* stages that do not, and of which a product's numbers are known to be plain */
        sf_search search[SEARCHES];
        for (int i = -SF_AHEAD; i < 0 || claims[i & (SF_RING - 1)].there; i++) {
                if (watcher < 0) {
                        sf_copy_wait<SF_STAGES - 1 - SF_AHEAD>();
                        if (claims[(i + SF_AHEAD) & (SF_RING - 1)].there) {
                                sf_acc v[SF_ITEMS][SF_WIDTH], total[SHARE];
                                sf_acc *turn = totals + ((unsigned)(i + SF_AHEAD) % TURNS * WARPS + warp) * SF_COLUMNS;
                                const sf_claim coming = claims[(i + SF_AHEAD) & (SF_RING - 1)];
                                sf_unstage(p, coming, mine, ahead, thread, v);
                                bool whole = ONCE;
#if SF_UNLIFTED
                                if (ONCE)
                                        whole = sf_multiply_warp<32, SF_COLUMNS, SF_COMMUTES>(
                                                v, lane, neutral, [=, &p](auto &again) { sf_unstage(p, coming, mine, ahead, sf_anew(thread), again); }, ask);
                                ask = ONCE && SF_COLUMNS == 1 ? !whole : ask;
                                held = whole ? held | 1u << ahead : held & ~(1u << ahead);
#else
                                sf_parked parked;
                                if (ONCE)
                                        sf_scan_warp<32, SF_COLUMNS, SF_COMMUTES>(v, lane, neutral, parked, [](auto &) {});
#endif
                                if (whole) {
                                        sf_hold(ahead, thread, v);
#pragma unroll
                                        for (int s = 0; s < SHARE; s++)
                                                total[s] = v[SF_ITEMS - 1][SF_WIDTH - SHARE + s];
                                } else if (ONCE) {
                                        sf_fold_warp_of<SF_COLUMNS>(v, lane, total);
                                } else {
                                        const bool normal = sf_fold_warp<SF_COLUMNS>(v, lane, total);
                                        plain = normal ? plain | 1u << ahead : plain & ~(1u << ahead);
                                }
                                if (lane >= 32 - SPAN)
#pragma unroll
                                        for (int s = 0; s < SHARE; s++)
                                                turn[first + s] = sf_settled(total[s]);
                        }
                        ahead = ahead + 1 == SF_STAGES ? 0 : ahead + 1;
                        if (i >= 0) {
                                sf_acc v[SF_ITEMS][SF_WIDTH];
                                sf_before<SHARE> past = sf_none_before<SHARE>();
                                sf_claim claim = claims[i & (SF_RING - 1)];
                                sf_tile tile = sf_tile_of(p, claim);
                                const sf_i64 at = tile.number * TILE + mine;
                                sf_parked parked;
                                bool whole = ONCE && (!SF_UNLIFTED || held >> stage & 1), spent = false;
                                const sf_acc *here = before + (i & (2 * SF_PARTIES - 1)) * (BITS * SF_COLUMNS) + first;
#if SF_COLUMNS == 1
                                const sf_acc *taken = between;
                                taken += ((unsigned)i % TURNS * WARPS + warp) * SF_WARP_LEVELS;
#endif
#if SF_SPENDS
                                const sf_acc all = sf_all_before(taken, warp, here, (sf_u32)tile.number, lane);
#endif
                                if (whole)
                                        sf_unhold(stage, thread, v);
                                else
                                        sf_unstage(p, claim, mine, stage, thread, v);
#if SF_UNLIFTED
                                /* Before the stage is filled again: the elements may have to be
                                 * read again. */
#if SF_SPENDS
                                spent = !whole && sf_is_spent(all, false) && (plain >> stage & 1 || sf_are_plain(v));
                                if (spent)
                                        sf_scan_signs(v, lane);
#endif
                                if (spent)
                                        ;
                                else if (!ONCE) {
                                        whole = sf_scan_warp<32, SF_COLUMNS, SF_COMMUTES>(
                                                v, lane, neutral, parked, [=, &p](auto &again) { sf_unstage(p, claim, mine, stage, sf_anew(thread), again); }, ask);
                                        ask = SF_COLUMNS > 1 || !whole;
                                } else if (!whole)
                                        sf_scan_warp_lifted<32, SF_COLUMNS, SF_COMMUTES>(v, lane, neutral, parked);
#endif
                                sf_stage_tile(p, claims[(i + SF_STAGES) & (SF_RING - 1)], mine, stage, thread);
                                stage = stage + 1 == SF_STAGES ? 0 : stage + 1;
                                sf_answer result[SF_ITEMS][SF_WIDTH];
                                if (!ONCE && !SF_UNLIFTED)
                                        whole = sf_scan_warp<32, SF_COLUMNS, SF_COMMUTES>(v, lane, neutral, parked, [](auto &) {});
#if SF_SPENDS
                                spent = spent || (whole && sf_is_spent(all, true));
                                if (spent)
                                        sf_spend(v, all, result);
#endif
                                if (!spent) {
#if SF_COLUMNS == 1
                                        sf_take_list(taken, 1, (sf_u32)warp, v, past);
#else
                                        sf_levels<WARPS / 2, SHARE>::take(totals + (unsigned)i % TURNS * WARPS * SF_COLUMNS + first, SF_COLUMNS, warp, v, past);
#endif
                                        sf_take_list(here, SF_COLUMNS, (sf_u32)tile.number, v, past);
#if KEEPS_LEFTS
                                        const sf_lefts &left = lefts[i & (2 * SF_PARTIES - 1)];
#pragma unroll 1
                                        for (int e = 0; e < left.count; e++) {
                                                const sf_acc one[1] = {left.e[e]};
                                                sf_take_all(one, v, past);
                                        }
#else
                                        sf_take_lefts(p, tile.line, first, SF_COLUMNS, v, past);
#endif
                                        sf_finish<32, SF_COLUMNS, SPREAD>(p, tile.line, at, tile.n, tile.number + 1 == p.number[0], v, past, whole, parked, lane, result);
                                }
                                if (claim.there == 2)
                                        sf_store_tile<true>(p, tile, mine, result);
                                else
                                        sf_store_tile<false>(p, tile, mine, result);
                        }
                } else if (looker < 0) {
                        int done = i + SF_AHEAD - 1;
                        if (thread == WORKERS && i >= 0) {
                                claims[(i + SF_STAGES + 1) & (SF_RING - 1)] = sf_claim_of(p,
                                                                                          ticket);
                                sf_hand_in(p, ticket);
                        }
                        if (thread == WORKERS && i >= -1)
                                ticket = sf_draw(p);
                        if (done >= 0 && claims[done & (SF_RING - 1)].there) {
                                sf_claim claim = claims[done & (SF_RING - 1)];
                                const sf_acc *turn = totals + (unsigned)done % TURNS * WARPS * SF_COLUMNS;
                                for (int c = watcher; c < SF_COLUMNS; c += SF_ANNOUNCERS) {
                                        sf_acc total = turn[(lane & (WARPS - 1)) * SF_COLUMNS + c];
#if SF_COLUMNS == 1
                                        total = sf_between_warps(total, between + (unsigned)done % TURNS * WARPS * SF_WARP_LEVELS, lane, neutral);
#else
#pragma unroll
                                        for (int b = 1; b < WARPS; b *= 2)
                                                total = sf_meet(total, lane, b);
                                        total = sf_settled(total);
#endif
                                        if (lane == 0) {
                                                own[(unsigned)done % TURNS * SF_COLUMNS + c] = total;
                                                sf_publish<32>(sf_group_of(p, claim.unit, 0, claim.number, c) + (int)(claim.number & 31), total, claim.mark);
                                        }
                                }
                        }
                } else {
                        /* The party's first tile after tile i. */
                        int soon = i + 1 + ((party - (i + 1)) & (SF_PARTIES - 1));
                        if (soon >= 0 && claims[soon & (SF_RING - 1)].there) {
                                sf_claim tile = claims[soon & (SF_RING - 1)];
                                int column = looker % SF_LOOKERS;
                                if (looking != soon) {
#pragma unroll
                                        for (int q = 0; q < SEARCHES; q++)
                                                sf_search_begin(p, tile.number, search[q], lane);
#if KEEPS_LEFTS
                                        sf_hand_lefts(p, tile, lefts[soon & (2 * SF_PARTIES - 1)], lane);
#endif
                                }
                                looking = soon;
                                /* The tile's own total can be read from the turn after the one that
                                 * published it. */
                                const sf_acc *total = soon < i + SF_AHEAD - 1 ? own + (unsigned)soon % TURNS * SF_COLUMNS : nullptr;
                                sf_acc *list = before + (soon & (2 * SF_PARTIES - 1)) * (BITS * SF_COLUMNS);
                                while (!sf_search_turn(p, tile, column, search, total, list, lane) && soon == i + 1)
                                        ;
                        }
                }
                sf_sync_block();
        }
        if (thread == WORKERS)
                sf_hand_in(p, ticket);
}
