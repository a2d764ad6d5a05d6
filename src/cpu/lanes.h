/*
 * lanes.h: the order inside one vector, as tables: which lane is combined with which.
 *
 * A vector holds `groups` runs of `rows` consecutive positions, of `inner` columns each; the other
 * lanes are unused. At level k, a lane whose position has bit k set adds, on its left, the last
 * lane of the sibling block of 2^k positions. In reverse, the first position is in the highest
 * lanes and the tables are mirrored; nothing else changes.
 *
 *   one row of a matrix           inner 1, groups 1, rows = width
 *   4 columns walked downwards    inner 4, groups 1, rows = width / 4
 *   3 columns                     inner 3, groups 1, rows = the largest power of two that fits
 *   rows of 5 elements, packed    inner 1, groups = width / 5, rows = 5
 *
 * No instruction set moves lanes of 1 or 2 bytes further than 16 bytes. A whole vector of them
 * consists of groups of 16 bytes, which have tables of their own (`parts`): positions of 2 columns
 * of 8 bytes.
 */
#ifndef SF_CPU_LANES_H
#define SF_CPU_LANES_H

#include <stdbool.h>
#include <stdint.h>

#define SF_LANES_BYTES 64 /* the widest vector */
/* log2 of the most lanes that are combined: 16 of 4 bytes, or 16 of 1 byte in a part */
#define SF_LANES_LEVELS 4

/* A permute index in the form of the instruction set's permute, in units of its permute_bytes. */
typedef struct sf_permute {
        _Alignas(SF_LANES_BYTES) uint8_t bytes[SF_LANES_BYTES];
} sf_permute;

/* A selection of lanes, both as bits and as bytes that are all ones. */
typedef struct sf_choice {
        _Alignas(SF_LANES_BYTES) uint8_t bytes[SF_LANES_BYTES];
        uint64_t bits;
} sf_choice;

typedef struct sf_lanes {
        int32_t inner, rows, groups;
        int32_t unit;   /* lanes in use: groups * rows * inner */
        int32_t levels; /* ceil(log2(rows)) */
        bool reverse;
        sf_permute level[SF_LANES_LEVELS];
        sf_choice level_on[SF_LANES_LEVELS];
        sf_permute last;    /* every lane gets the last position of its column (single group) */
        sf_permute before;  /* every lane gets the previous position of its column */
        sf_choice before_on; /* the lanes that have one in this vector */
        sf_permute take;    /* the last position of every group, packed to the front */
        const struct sf_lanes *parts; /* for lanes of 1 or 2 bytes; else NULL */
} sf_lanes;

/* The tables for a single run as wide as the vector, for lanes of 1, 2, 4 and 8 bytes; then the
 * parts of the first two. */
#define SF_LANES_WHOLE 10
void sf_lanes_make_whole(sf_lanes whole[SF_LANES_WHOLE], int32_t vector_bytes, int32_t permute_bytes);
static inline const sf_lanes *sf_lanes_whole(const sf_lanes *whole, int32_t lane_bytes, bool reverse)
{
        return &whole[2 * (lane_bytes == 8 ? 3 : lane_bytes / 2) + reverse];
}

/* lane_bytes is 4 or 8. groups * rows * inner lanes must fit in the vector. */
void sf_lanes_make(sf_lanes *lanes, int32_t vector_bytes, int32_t lane_bytes, int32_t permute_bytes, int32_t groups, int32_t rows,
                   int32_t inner, bool reverse);

#endif
