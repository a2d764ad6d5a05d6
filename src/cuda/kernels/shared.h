/*
 * shared.h: what the host and the kernels agree on: the parameters of a launch, and how scratch and
 * shared memory are laid out. The host includes it, in C (emit.h); a kernel has it before
 * element.cuh, in C++, with the prelude's macros. So neither side can have another idea of it.
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
typedef int64_t sf_amount; /* whether it is few enough for a block is asked later */
#define SF_ADDRESS(type) sf_u64
#define SF_BOTH static inline
/* As many as any launch can have; a kernel has as many as its prelude says. */
#define SF_DIMS (SF_MAX_NDIM + 1)
#endif

/* ------------------------------------------------------------------------------------------------
 * Parameters
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_params_dim {
        sf_i64 len, x, y, m;
        sf_u32 times, shift; /* an index below 2^31 divided by len: sf_high_word(index, times) >> shift */
} sf_params_dim;

/* Those two. 2^shift < len <= 2^(shift + 1), so what times * len is above 2^(32 + shift) is at most
 * len, too little to show below 2^31. */
SF_BOTH sf_params_dim sf_with_divisor(sf_params_dim d)
{
        d.shift = 0;
        while (d.len > (sf_i64)2 << d.shift && d.shift < 30)
                d.shift++;
        d.times = d.len > 1 ? (sf_u32)(((sf_u64)1 << (32 + d.shift)) / (sf_u64)d.len + ((((sf_u64)1 << (32 + d.shift)) % (sf_u64)d.len) != 0)) : 0;
        return d;
}

/* A result besides the first: another member's, or a scan's total. */
typedef struct sf_also {
        SF_ADDRESS(char) y; /* or, of a fold in chunks, where its totals begin in scratch memory */
        sf_u64 identity, neutral, initial;
        sf_i64 sy, iy;        /* y's strides along the sequence, 0 where there is one a sequence, and from column to column */
        sf_i64 step[SF_DIMS]; /* and in dims */
} sf_also;

/*
 * What a fused launch has right behind dims, in this order, in words of 8 bytes: PART(type, name,
 * its shape as a declaration has it, words). A kernel declares members from this list, the host
 * counts through it, since it does not know the numbers when it is compiled.
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
        SF_ADDRESS(const char) x_begin; /* all the memory of x, */
        SF_ADDRESS(const char) x_end;
        SF_ADDRESS(const char) m_begin; /* and of the mask */
        SF_ADDRESS(const char) m_end;
        sf_i64 n;          /* length of a sequence */
        sf_i64 units;      /* rows, strips, chunks: what the kernel file deals out */
        sf_i64 sx, sy, sm; /* strides along the sequence, bytes; unused where it has several dims */
        sf_u64 identity, neutral, initial; /* bits of the accumulator; of indices, initial: the length they count back from, or 0 */
        sf_u64 initial_also; /* of a pair: the initial value's second component */
        sf_i64 inner;      /* columns */
        sf_i64 ix, iy, im; /* strides from column to column */
        sf_i64 number[4];  /* meanings belong to the kernel file */
        SF_ADDRESS(const char) offsets; /* segments.cu: so many segments, and bytes from one's offset to the next's */
        sf_i64 segments, offset_stride;
        /* Batch dimensions, outermost first; then the sequence's, where it has several. */
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
 * Scratch memory where tiles publish totals for each other (tree.cuh)
 * ---------------------------------------------------------------------------------------------- */

/* The first bytes hold tickets. Totals come in groups of 32, for every line and level. */
enum { SF_TICKETS = 256, SF_GROUP = 32, SF_GROUP_LOG = 5 };

/* The groups of the lowest `levels` levels of a line. */
SF_BOTH sf_i64 sf_groups_below(sf_i64 tiles, sf_i64 levels)
{
        sf_i64 groups = 0;
        for (sf_i64 l = 0; l < levels; l++) {
                tiles = (tiles + SF_GROUP - 1) >> SF_GROUP_LOG;
                groups += tiles;
        }
        return groups;
}

/* Columns as whole vectors of so many. */
SF_BOTH sf_i64 sf_padded(sf_i64 columns, sf_i64 width)
{
        return (columns + width - 1) / width * width;
}

/* The words of a group: mark and payload, 32 bits each, of accumulators of so many of 32 bits. */
SF_BOTH sf_i64 sf_group_words(sf_i64 columns, sf_i64 acc_words)
{
        return SF_GROUP * columns * acc_words;
}

/* ------------------------------------------------------------------------------------------------
 * Shared memory of a block, in accumulators where nothing else is said: where each part begins, and
 * the end
 * ---------------------------------------------------------------------------------------------- */

/* scan_rows.cu: totals of warps, of two tiles in turn. */
SF_BOTH sf_amount sf_rows_end(sf_amount threads) { return 2 * (threads / 32); }

/* In bytes: a piece of so many, wherever it begins. */
SF_BOTH sf_amount sf_rows_staged(sf_amount bytes) { return (bytes + 15) / 16 * 16 + 16; }

/* scan_columns.cu, behind what is staged: totals of groups, of two tiles in turn; the counter. */
SF_BOTH sf_amount sf_columns_counter(sf_amount groups, sf_amount pitch)
{
        return 2 * groups * pitch;
}
SF_BOTH sf_amount sf_columns_end(sf_amount groups, sf_amount pitch, sf_amount levels)
{
        return sf_columns_counter(groups, pitch) + levels * pitch;
}

/* scan_narrow.cu: totals of warps, of two tiles in turn; the counter; room for sf_preload. */
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

/* scan_burst.cu, behind the ticket (so many bytes) and what is staged: totals of warps; what is
 * found of others, and what is taken of that, for every bit of the tile's number. */
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

/* scan_chained.cu: a claimed tile, found out once for all threads of the block. */
typedef struct sf_claim {
        sf_i64 number, unit; /* in its line; the line */
        int there;           /* 0: it is past the last; 1: some of it; 2: all, as of most tiles */
        sf_u32 mark;
} sf_claim;

/* SF_RING: tiles remembered, a power of two. SF_WARP_LEVELS: between at most 16 warps. */
enum { SF_RING = 16, SF_WARP_LEVELS = 4 };

/* Behind the stages and SF_RING claims: for each turn the totals of warps; for each party two lists
 * of what stands before a tile, a total for each bit of its number; for each turn the tile's total
 * and, of one column, what warps take of each other. */
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

/* fold.cu, columns: each thread's own counter; then, in its place, totals of groups. `held`: of
 * columns, a thread. */
SF_BOTH sf_amount sf_fold_end(sf_amount threads, sf_amount held, sf_amount levels)
{
        return (levels > 1 ? levels : 1) * threads * held;
}

/* again.cu, in bytes: marks of warps; totals of threads, of any type. */
SF_BOTH sf_amount sf_again_totals(sf_amount threads) { return threads / 32 * 16; }
SF_BOTH sf_amount sf_again_end(sf_amount threads) { return sf_again_totals(threads) + threads * 16; }

/* segments.cu, in bytes: the ticket; then of each warp what segments it has in view, and cells of a
 * chunk of 32 leaves and of one behind it, with one left free behind each. */
enum { SF_SEGMENTS_TICKET = 16, SF_SEGMENTS_VIEW = 1408 };
SF_BOTH sf_amount sf_segments_desk(sf_amount leaf, sf_amount cell) { return SF_SEGMENTS_VIEW + (33 * (leaf + 1) * cell + 15) / 16 * 16; }

/* apply.cu, in bytes: of a cluster, a desk for each of two turns and four steps; totals of leaves,
 * so many for each; results of a vector a thread, where they may be at any address; what is kept of
 * the line. */
SF_BOTH sf_amount sf_apply_leaves(sf_amount cluster) { return cluster > 1 ? 64 : 0; }
SF_BOTH sf_amount sf_apply_results(sf_amount cluster, sf_amount steps, sf_amount lines, sf_amount leaves, sf_amount slot)
{
        return sf_apply_leaves(cluster) + (steps * lines * leaves * slot + 15) / 16 * 16;
}
SF_BOTH sf_amount sf_apply_kept(sf_amount results, sf_amount threads, sf_amount shifts) { return results + (shifts ? 16 * threads : 0); }
/* Of one operand, `vectors` a thread. Elements of less than a word are copied in aligned vectors:
 * of those a warp's leaf overlaps one more. */
SF_BOTH sf_amount sf_apply_operand(sf_amount vectors, sf_amount bytes, sf_amount size, sf_amount threads, sf_amount shifts)
{
        return ((vectors * threads + (shifts && size < 4 ? threads / 32 : 0)) * bytes + 15) / 16 * 16;
}

#endif
