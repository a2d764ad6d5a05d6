/*
 * shared.h: what the host and the kernels must agree on: the parameters of a launch, and the layout
 * of scratch memory and shared memory. The host includes it as C (emit.h). A kernel has it as C++,
 * before element.cuh, with the prelude's macros. So both sides always have the same definitions.
 */
#ifndef SF_CUDA_SHARED_H
#define SF_CUDA_SHARED_H

#ifdef __cplusplus
#define SF_ADDRESS(type) type *
#define SF_BOTH SF_DEVICE
typedef int sf_amount;
#else
#include "scanfold.h"

#include <stddef.h>
#include <stdint.h>

typedef int64_t sf_i64;
typedef uint64_t sf_u64;
typedef uint32_t sf_u32;
typedef int64_t sf_amount; /* whether a block can have it is checked later */
#define SF_ADDRESS(type) sf_u64
#define SF_BOTH static inline
/* The most that any launch can have; a kernel has as many as its prelude says. */
#define SF_DIMS (SF_MAX_NDIM + 1)
#endif

/* ------------------------------------------------------------------------------------------------
 * Parameters
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_params_dim {
        sf_i64 len, x, y, m, left;
        /* An index below 2^31, divided by len, is sf_high_word(index, times) >> shift. */
        sf_u32 times, shift;
} sf_params_dim;

/* Computes `times` and `shift`. 2^shift < len <= 2^(shift + 1), so the excess of times * len
 * over 2^(32 + shift) is at most len. That is too little to change the quotient of an index
 * below 2^31. */
SF_BOTH sf_params_dim sf_with_divisor(sf_params_dim d)
{
        d.shift = 0;
        while (d.len > (sf_i64)2 << d.shift && d.shift < 30)
                d.shift++;
        d.times = d.len > 1 ? (sf_u32)(((sf_u64)1 << (32 + d.shift)) / (sf_u64)d.len + ((((sf_u64)1 << (32 + d.shift)) % (sf_u64)d.len) != 0)) : 0;
        return d;
}

/* A result besides the first: of another fold or step, the total of a scan, or the elements of
 * indices. */
typedef struct sf_also {
        SF_ADDRESS(char) y; /* or, in a fold in chunks, where its totals begin in scratch memory */
        sf_u64 identity, neutral, initial;
        /* y's strides along the sequence (0: one result per sequence) and from column to column. */
        sf_i64 sy, iy;
        sf_i64 step[SF_DIMS]; /* its strides in dims */
} sf_also;

/*
 * The further parameters of a fused launch. They come right after dims, in this order, in words of
 * 8 bytes: PART(type, name, dimensions as in a declaration, number of words). A kernel declares its
 * members from this list. The host computes offsets from it, because the numbers are not known when
 * the host is compiled.
 */
#define SF_FUSED_PARTS(PART, DIMS, OPERANDS, CONSTANTS)                                            \
        PART(const char *, operand, [OPERANDS], OPERANDS)                                          \
        PART(sf_i64, along, [OPERANDS], OPERANDS)   /* strides along the sequence, */              \
        PART(sf_i64, across, [OPERANDS], OPERANDS)  /* from column to column, */                   \
        PART(sf_i64, step, [DIMS][OPERANDS], (DIMS) * (OPERANDS)) /* and in dims */                \
        PART(sf_u64, constant, [CONSTANTS], CONSTANTS) /* of programs, as their types hold them */

typedef struct sf_params {
        sf_u64 scratch;
        SF_ADDRESS(const char) x;
        SF_ADDRESS(char) y;
        SF_ADDRESS(const char) m;
        SF_ADDRESS(const char) x_begin; /* x_begin to x_end: all the memory of x */
        SF_ADDRESS(const char) x_end;
        SF_ADDRESS(const char) m_begin; /* the same for the mask */
        SF_ADDRESS(const char) m_end;
        sf_i64 n;          /* length of a sequence */
        sf_i64 units;      /* rows, strips or chunks: what the kernel file divides among blocks */
        sf_i64 sx, sy, sm; /* strides along the sequence, in bytes; unused if it has several dims */
        /* Bits of the accumulator. For indices, initial is the length they count back from, or
         * 0. */
        sf_u64 identity, neutral, initial;
        sf_u64 initial_also; /* for a pair: the second component of the initial value */
        sf_i64 inner;      /* columns */
        sf_i64 early;      /* SF_EARLY, folds of columns: so many of them come before the first */
        sf_i64 ix, iy, im; /* strides from column to column */
        /* SF_LEFTS: entries for each sequence, left_entry bytes apart; il from column to column.
         * The first one is how many follow, an int. Those are the totals of blocks to the left,
         * in the form that kernels hold values in, the lowest block first. Columns of a vector
         * have equally many. Positions are relative to the sequence's first, which is number
         * `before` of the axis. */
        SF_ADDRESS(const char) left;
        /* SF_CUTS, a fold, which has none of these: left_entry is from one value in y to the next,
         * before is where the sequence begins, and il how many values the largest blocks become. A
         * scan: every block has such entries, ix bytes apart; inner is the positions of all
         * blocks but the last (sf_rising), and iy how many blocks there are. */
        sf_i64 left_entry, il, before;
        sf_i64 number[4];  /* their meanings are defined by the kernel file */
        /* segments.cu: the offsets, the number of segments, bytes from one offset to the next. */
        SF_ADDRESS(const char) offsets;
        sf_i64 segments, offset_stride;
        /* Batch dimensions, outermost first; then those of the sequence, if it has several. */
        sf_params_dim dims[SF_DIMS];
#ifdef __cplusplus
#if SF_FUSED
#define PART(type, name, shape, words) type name shape;
        SF_FUSED_PARTS(PART, SF_DIMS, SF_OPERANDS, SF_CONSTANTS)
#undef PART
#endif
#if SF_ALSO
        sf_also also[SF_ALSO];
#endif
#endif
} sf_params;

/* ------------------------------------------------------------------------------------------------
 * A sequence that begins anywhere in a longer one, cut into the aligned blocks that the order has
 * there (sf_cuts in emit.h)
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_blocks {
        sf_i64 head;  /* a block for each bit, the smallest first */
        sf_i64 whole; /* how many of 2^log there are */
        sf_i64 tail;  /* a block for each bit, the largest first */
        int log;
} sf_blocks;

SF_BOTH sf_blocks sf_blocks_of(sf_i64 from, sf_i64 n, int log)
{
        const sf_i64 below = ((sf_i64)1 << log) - 1;
        sf_blocks b;
        b.head = -from & below;
        b.whole = (n - b.head) >> log;
        b.tail = (n - b.head) & below;
        b.log = log;
        return b;
}

SF_BOTH sf_i64 sf_ones(sf_i64 bits)
{
#ifdef __cplusplus
        return sf_count_bits((sf_u32)bits) + sf_count_bits((sf_u32)(bits >> 32));
#else
        return __builtin_popcountll((sf_u64)bits);
#endif
}
SF_BOTH sf_i64 sf_blocks_count(sf_blocks b) { return sf_ones(b.head) + b.whole + sf_ones(b.tail); }

/* Positions that a sequence may begin late in a vector (fold.cu). */
enum { SF_LEAD = 16 };

/* Where block number `index` begins, and its length. */
SF_BOTH sf_i64 sf_block_at(sf_blocks b, sf_i64 index, sf_i64 *length)
{
        const sf_i64 first = sf_ones(b.head);
        sf_i64 begin = 0;
        for (sf_i64 bits = index < first ? b.head : 0; bits; bits &= bits - 1) {
                *length = bits & -bits;
                if (!index--)
                        return begin;
                begin += *length;
        }
        index -= first;
        begin = b.head;
        *length = (sf_i64)1 << b.log;
        if (index < b.whole)
                return begin + (index << b.log);
        index -= b.whole;
        begin += b.whole << b.log;
        for (*length >>= 1; *length; *length >>= 1)
                if (b.tail & *length) {
                        if (!index--)
                                return begin;
                        begin += *length;
                }
        return begin;
}

/* A scan takes all after the most aligned position as one block: how many positions there are
 * before that. They are ever larger blocks, one for each bit. */
SF_BOTH sf_i64 sf_rising(sf_i64 from, sf_i64 n)
{
        const sf_i64 end = from + n;
        sf_i64 top = end;
        if (!from)
                return 0;
        while (top & (top - 1) && (top & (top - 1)) >= from)
                top &= top - 1;
        return (top >= from ? top : end) - from;
}
SF_BOTH sf_i64 sf_rising_count(sf_i64 rising, sf_i64 n) { return sf_ones(rising) + (rising < n); }

/* The block that has tile `*number` of tiles of 2^log positions, and where it begins; *number
 * becomes the tile's number in it, *length its length. */
SF_BOTH sf_i64 sf_rising_at(sf_i64 rising, sf_i64 n, int log, sf_i64 *number, sf_i64 *begin, sf_i64 *length)
{
        sf_i64 block = 0;
        *begin = 0;
        for (;; rising &= rising - 1, block++) {
                *length = rising ? rising & -rising : n - *begin;
                const sf_i64 tiles = (*length + ((sf_i64)1 << log) - 1) >> log;
                if (*number < tiles || !rising)
                        return block;
                *number -= tiles;
                *begin += *length;
        }
}

/* A scan takes blocks shorter than this in a launch of their own, a warp for each. */
enum { SF_SHORT_BLOCKS = 512 };

/* ------------------------------------------------------------------------------------------------
 * Scratch memory where tiles publish totals for each other (tree.cuh)
 * ---------------------------------------------------------------------------------------------- */

/* The first SF_TICKETS bytes hold tickets. Totals are in groups of 32, for every line and level. */
enum { SF_TICKETS = 256, SF_GROUP = 32, SF_GROUP_LOG = 5 };

/*
 * So many bits of a mark are in the words of a product's total, which have room for no more
 * (tree_totals.cuh). Words that are watched are cleared before marks have more, and before they have
 * the topmost of these bits. Every run of a graph writes the same words of a block that is the graph's
 * own, so what is left there has the mark before.
 */
enum { SF_MARK_BITS = 11, SF_MOST_MARKS = (1 << (SF_MARK_BITS - 1)) - 1 };

/* segments_table.cu: words of a slot. The top bit is set, which no mark has: the same memory may hold
 * totals of another launch. */
enum { SF_TABLE_WORDS = 4 };
#define SF_TABLE_TOP ((sf_u64)1 << 63)

/* The number of groups in the lowest `levels` levels of a line. */
SF_BOTH sf_i64 sf_groups_below(sf_i64 tiles, sf_i64 levels)
{
        sf_i64 groups = 0;
        for (sf_i64 l = 0; l < levels; l++) {
                tiles = (tiles + SF_GROUP - 1) >> SF_GROUP_LOG;
                groups += tiles;
        }
        return groups;
}

/* The number of columns, rounded up to whole vectors. */
SF_BOTH sf_i64 sf_padded(sf_i64 columns, sf_i64 width)
{
        return (columns + width - 1) / width * width;
}

/* The words of a group, of accumulators of acc_words words. Each word has a mark and a payload. */
SF_BOTH sf_i64 sf_group_words(sf_i64 columns, sf_i64 acc_words)
{
        return SF_GROUP * columns * acc_words;
}

/* ------------------------------------------------------------------------------------------------
 * Shared memory of a block: where each part begins, and the end. Counted in accumulators unless
 * bytes are mentioned
 * ---------------------------------------------------------------------------------------------- */

/* scan_rows.cu: the totals of warps, for two tiles in turn. */
SF_BOTH sf_amount sf_rows_end(sf_amount threads) { return 2 * (threads / 32); }

/* In bytes: room for a piece of `bytes` bytes that begins at any address. */
SF_BOTH sf_amount sf_rows_staged(sf_amount bytes) { return (bytes + 15) / 16 * 16 + 16; }

/* scan_columns.cu, after what is staged: totals of groups, for two tiles in turn; the counter. */
SF_BOTH sf_amount sf_columns_counter(sf_amount groups, sf_amount pitch)
{
        return 2 * groups * pitch;
}
SF_BOTH sf_amount sf_columns_end(sf_amount groups, sf_amount pitch, sf_amount levels)
{
        return sf_columns_counter(groups, pitch) + levels * pitch;
}

/* look_back.cuh: totals are in groups of four. The levels that so many tiles have; how many entries
 * come before those of a level; and, after the counter, a row for the tile's own totals. */
enum { SF_MATES = 4, SF_MATES_LOG = 2 };
SF_BOTH int sf_ahead_depth(sf_i64 tiles)
{
        int depth = 1;
        while ((tiles - 1) >> SF_MATES_LOG * depth)
                depth++;
        return depth;
}
SF_BOTH sf_i64 sf_ahead_entries(sf_i64 tiles, int level)
{
        sf_i64 entries = 0;
        for (int l = 0; l < level; l++)
                entries += ((tiles - 1) >> SF_MATES_LOG * l) + 1;
        return entries;
}
SF_BOTH sf_amount sf_ahead_end(sf_amount groups, sf_amount pitch, int depth)
{
        return sf_columns_end(groups, pitch, SF_MATES_LOG * depth + 1);
}

/* scan_narrow.cu: the totals of warps, for two tiles in turn; the counter; room for sf_preload. */
SF_BOTH sf_amount sf_narrow_counter(sf_amount threads, sf_amount columns)
{
        return 2 * (threads / 32) * columns;
}
SF_BOTH sf_amount sf_narrow_room(sf_amount threads, sf_amount columns, sf_amount levels)
{
        return sf_narrow_counter(threads, columns) + levels * columns;
}
SF_BOTH sf_amount sf_narrow_end(sf_amount threads, sf_amount columns, sf_amount levels,
                                sf_amount share)
{
        return sf_narrow_room(threads, columns, levels) + threads * share;
}

/* scan_burst.cu, after the ticket (SF_BURST_TICKET bytes) and what is staged: the totals of warps;
 * the totals found of other tiles; what is taken of those, for every bit of the tile's number. */
enum { SF_BURST_TICKET = 32 };
SF_BOTH sf_amount sf_burst_found(sf_amount warps, sf_amount columns) { return warps * columns; }
SF_BOTH sf_amount sf_burst_taken(sf_amount warps, sf_amount columns, sf_amount depth)
{
        return sf_burst_found(warps, columns) + depth * SF_GROUP * columns;
}
SF_BOTH sf_amount sf_burst_end(sf_amount warps, sf_amount columns, sf_amount depth)
{
        return sf_burst_taken(warps, columns, depth) + depth * SF_GROUP_LOG * columns;
}

/* scan_chained.cu: a claimed tile. One thread fills this in for all threads of the block. */
typedef struct sf_claim {
        sf_i64 number, unit; /* the tile's number in its line; the line */
        sf_i64 begin, n;     /* SF_CUTS: where its block begins, the block's length, */
        sf_i64 batch;        /* and which line is cut */
        const char *left;    /* SF_LEFTS: the entries to the left of the line or the block */
        int there;           /* 0: past the last tile; 1: part of it exists; 2: all of it */
        sf_u32 mark;
} sf_claim;

/* Bytes of a stage for each warp and each tensor whose vectors may be at any address: a chunk that no
 * lane has. */
enum { SF_CHAINED_END = 16 };

/* SF_RING: claims that are kept, a power of two. SF_WARP_LEVELS: levels between up to 16 warps. */
enum { SF_RING = 16, SF_WARP_LEVELS = 4 };

/* After the stages and SF_RING claims: for each turn, the totals of warps; for each party, two
 * lists of what comes before a tile, with one total for each bit of its number; for each turn, the
 * tile's total and, if there is one column, what warps take from each other. scan_chained.cu
 * explains turns and parties. */
SF_BOTH sf_amount sf_chained_before(sf_amount turns, sf_amount warps, sf_amount columns)
{
        return turns * warps * columns;
}
SF_BOTH sf_amount sf_chained_own(sf_amount turns, sf_amount warps, sf_amount columns,
                                 sf_amount parties, sf_amount depth)
{
        return sf_chained_before(turns, warps, columns) +
               2 * parties * depth * SF_GROUP_LOG * columns;
}
SF_BOTH sf_amount sf_chained_between(sf_amount turns, sf_amount warps, sf_amount columns,
                                    sf_amount parties, sf_amount depth)
{
        return sf_chained_own(turns, warps, columns, parties, depth) + turns * columns;
}
SF_BOTH sf_amount sf_chained_end(sf_amount turns, sf_amount warps, sf_amount columns,
                                 sf_amount parties, sf_amount depth)
{
        return sf_chained_between(turns, warps, columns, parties, depth) +
               (columns == 1 ? turns * warps * SF_WARP_LEVELS : 0);
}

/* After these, where one column has totals to its left: for each party, two lists of them, each with
 * two words, which need no more room than two totals. Positions are below 2^63, so there are no more
 * totals than that. */
enum { SF_MOST_LEFTS = 64 };
SF_BOTH sf_amount sf_chained_lefts(sf_amount parties) { return 2 * parties * (SF_MOST_LEFTS + 2); }

/* fold_down.cuh: each thread's own counter; later, in the same place, the totals of groups.
 * `held`: columns per thread. */
SF_BOTH sf_amount sf_fold_end(sf_amount threads, sf_amount held, sf_amount levels)
{
        return (levels > 1 ? levels : 1) * threads * held;
}

/* again.cu, in bytes: the marks of warps; the totals of threads, of any type. */
SF_BOTH sf_amount sf_again_totals(sf_amount threads) { return threads / 32 * 16; }
SF_BOTH sf_amount sf_again_end(sf_amount threads) { return sf_again_totals(threads) + threads * 16; }

/* segments.cu, in bytes: what the block shares: the ticket, where its windows begin and end among
 * the segments, and, if it has stretches, 64 values of each of its columns; then, for each warp
 * with a line, which lane has which row, and the cells of a chunk of 32 leaves and of one leaf
 * after it. Each leaf is followed by one unused cell. */
enum { SF_SEGMENTS_VIEW = 256 };
SF_BOTH sf_amount sf_segments_block(sf_amount stretches, sf_amount beside, sf_amount value)
{
        return 32 + (stretches ? 64 * beside * value : 0);
}
SF_BOTH sf_amount sf_segments_desk(sf_amount leaf, sf_amount cell) { return SF_SEGMENTS_VIEW + (33 * (leaf + 1) * cell + 15) / 16 * 16; }

/* segments_blocks.cuh, in bytes: the desk, which has two spans, words of each warp, and a value for
 * each bit and each thread; the flags of positions and of a row after them; cells, of which one in
 * 33 is unused. Elements are up to 31 cells after the first one, and a vector of 16 is stored as a
 * whole. */
enum { SF_BLOCK_SPANS = 2 * 80 + 16 + 2 * 32 * 4, SF_BLOCK_PAST = 16 };
SF_BOTH sf_amount sf_block_desk(sf_amount threads, sf_amount value)
{
        return (SF_BLOCK_SPANS + (32 + threads) * value + 15) / 16 * 16;
}
SF_BOTH sf_amount sf_block_end(sf_amount threads, sf_amount row, sf_amount value, sf_amount cell)
{
        const sf_amount room = threads * row, cells = room + 31 + 16;
        return sf_block_desk(threads, value) + room + SF_BLOCK_PAST + (cells + cells / 32) * cell;
}

/* segments_down.cuh: leaves of a tile for each warp. */
enum { SF_DOWN_LEAVES = 4 };

/* segments_empty.cuh: so many segments without elements are stored together; and how many warps look
 * for such groups, for each line or strip of columns. For a line, a warp has SF_EMPTY_SHARE groups;
 * for columns, a part of one. H200: a warp stores some 20 GB/s, so that 2^23 results of a line take
 * few microseconds. */
enum { SF_EMPTY_GROUP = 4096, SF_EMPTY_SHARE = 8, SF_EMPTY_PARTS = 8 };
SF_BOTH sf_i64 sf_empty_shares(sf_i64 segments, int down)
{
        const sf_i64 groups = segments / SF_EMPTY_GROUP;
        return down ? groups * SF_EMPTY_PARTS : (groups + SF_EMPTY_SHARE - 1) / SF_EMPTY_SHARE;
}

/* segments_tiles.cuh: what a block shares before its warps' cells, 64 values. */
SF_BOTH sf_amount sf_tiles_desk(sf_amount value) { return 64 * value; }

/* segments_apply.cu, in bytes: what the block shares, its desk; then, for each warp, the cells of
 * `cells` elements, which begin at any address modulo 16. A row may be read past their end. */
SF_BOTH sf_amount sf_several_desk(sf_amount warps, sf_amount per, sf_amount slot) { return (16 + warps * 136 + 64 * per * slot + 15) / 16 * 16; }
SF_BOTH sf_amount sf_several_cells(sf_amount cells, sf_amount row, sf_amount size) { return ((cells + row) * size + 16 + 15) / 16 * 16; }

/* apply.cu, in bytes: in a cluster, a desk for each of two turns and five steps; the totals of
 * leaves, for each turn, step and line; what is kept of the line. */
SF_BOTH sf_amount sf_apply_leaves(sf_amount cluster) { return cluster > 1 ? 80 : 0; }
SF_BOTH sf_amount sf_apply_results(sf_amount cluster, sf_amount steps, sf_amount lines, sf_amount leaves, sf_amount slot)
{
        return sf_apply_leaves(cluster) + (steps * lines * leaves * slot + 15) / 16 * 16;
}
/* For one operand, with `vectors` vectors per thread. If lines may begin at any address, aligned
 * vectors are copied, and a warp's leaf overlaps one more of those than it has. */
SF_BOTH sf_amount sf_apply_operand(sf_amount vectors, sf_amount bytes, sf_amount threads, sf_amount shifts)
{
        return ((vectors * threads + (shifts ? threads / 32 : 0)) * bytes + 15) / 16 * 16;
}

/* apply_group.cu, in bytes: in a cluster, a desk for each of two turns and seven steps; for each turn
 * and fold, the totals of leaves, and in a cluster those of blocks; what is copied; the totals of
 * tiles. `shares`: the lanes that fold `count` totals, each so many that lie one after another; one
 * unused makes them an odd number, so that lanes read from different banks. */
SF_BOTH sf_amount sf_group_share(sf_amount count, sf_amount shares)
{
        sf_amount each = 1;
        while (each * shares < count)
                each *= 2;
        return each;
}
SF_BOTH sf_amount sf_group_totals(sf_amount count, sf_amount shares)
{
        return 32 * (sf_group_share(count, shares) | 1);
}
SF_BOTH sf_amount sf_group_leaves(sf_amount cluster) { return cluster > 1 ? 112 : 0; }
SF_BOTH sf_amount sf_group_sent(sf_amount cluster, sf_amount folds, sf_amount warps,
                                  sf_amount shares, sf_amount slot)
{
        return sf_group_leaves(cluster) + 2 * folds * sf_group_totals(warps, shares) * slot;
}
SF_BOTH sf_amount sf_group_copies(sf_amount cluster, sf_amount folds, sf_amount warps,
                                  sf_amount shares, sf_amount slot)
{
        return sf_group_sent(cluster, folds, warps, shares, slot) +
               (cluster > 1 ? 2 * folds * sf_group_totals(cluster, shares) * slot : 0);
}

/* apply_columns.cu, in bytes: the ticket; in a cluster, a desk for each of two turns and five steps;
 * for each column of each strip, its total, 16 bytes; the totals of warps, with one unused after
 * each column's; in a cluster, for two turns and each fold, what its blocks send; what is kept of
 * the strips. */
enum { SF_DOWN_TICKET = 16, SF_DOWN_TOTALS = SF_DOWN_TICKET + 80 };
SF_BOTH sf_amount sf_down_parts(sf_amount lines, sf_amount strip) { return SF_DOWN_TOTALS + 16 * lines * strip; }
SF_BOTH sf_amount sf_down_sent(sf_amount alone, sf_amount lines, sf_amount strip, sf_amount warps, sf_amount slot)
{
        return alone ? SF_DOWN_TOTALS : (sf_down_parts(lines, strip) + lines * strip * (warps + 1) * slot + 15) / 16 * 16;
}
SF_BOTH sf_amount sf_down_kept(sf_amount alone, sf_amount lines, sf_amount strip, sf_amount warps, sf_amount slot, sf_amount cluster, sf_amount folds)
{
        return sf_down_sent(alone, lines, strip, warps, slot) + (cluster > 1 ? (2 * folds * strip * cluster * slot + 15) / 16 * 16 : 0);
}

#endif
