/*
 * segments.h: an axis cut by offsets into sequences of different lengths. Segment i has the
 * elements from offsets[i] to offsets[i + 1] - 1.
 *
 * Each segment is computed as if it were alone. A scan has one result for each element, a fold one
 * for each segment. The elements after the last offset are one more segment. A fold has no result
 * for it, and an operand with one element per segment (sf_operand.segment) counts as 0 there.
 *
 * Segments are visited in the order of the sequence: in reverse the last one comes first, and
 * positions count from the axis's end. For the functions here, segment `k` and positions are
 * counted in that order.
 */
#ifndef SF_SEGMENTS_H
#define SF_SEGMENTS_H

#include "core/core.h"

#include <string.h>

struct sf_step;
struct sf_fuse;

typedef struct sf_segments {
        const char *offsets; /* NULL: no segments; the axis is one sequence */
        bool wide;           /* the offsets are i64, else i32 */
        int64_t stride;      /* bytes from one offset to the next */
        int64_t count;       /* of segments: one less than there are offsets */
} sf_segments;

/* Reads one offset, which need not be aligned. */
static inline int64_t sf_segments_read(const char *at, bool is_wide)
{
        int64_t wide = 0;
        int32_t narrow = 0;
        if (is_wide)
                memcpy(&wide, at, sizeof wide);
        else
                memcpy(&narrow, at, sizeof narrow);
        return is_wide ? wide : narrow;
}

static inline int64_t sf_segments_offset(const sf_segments *s, int64_t i)
{
        return sf_segments_read(s->offsets + i * s->stride, s->wide);
}

/* The segments that a checked view of offsets describes; none if it is NULL. */
sf_segments sf_segments_of(const sf_view *offsets);
/* Is none of offsets first .. end negative, or below the one before it? */
bool sf_segments_rise(const sf_segments *s, int64_t first, int64_t end);
/* Checks offsets that the host can read, for an axis of n elements: the first is 0, they never
 * decrease, and the last is not past the end. `rise`: it is known that none does. */
sf_status sf_segments_check(const sf_context *ctx, const sf_segments *s, int64_t n, bool rise);

/* How many segments the step visits: those of the offsets, and for a scan or map also the elements
 * after the last offset, if there are any. */
int64_t sf_segments_walked(const struct sf_step *step);
/* Where segment k begins. For k = sf_segments_walked, where the last one ends. */
int64_t sf_segments_begin(const struct sf_step *step, int64_t k);
/* The position of segment k's entry among a fold's results; -1 if it has none. */
int64_t sf_segments_entry(const struct sf_step *step, int64_t k);
/* The first segment that begins at or after `position`. */
int64_t sf_segments_from(const struct sf_step *step, int64_t position);

/* Makes segment k a step of its own. `fuse` becomes its programs, if it has any. It has neither a
 * sibling nor a following stage. */
void sf_segments_step(const struct sf_step *step, int64_t k, struct sf_step *to, struct sf_fuse *fuse);

#endif
