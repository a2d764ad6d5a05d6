/*
 * segments.h: an axis cut into sequences of their own lengths, by offsets: segment i has the elements from offsets[i] to offsets[i + 1] - 1.
 *
 * The results of a segment are those of the segment alone. A scan has one for each element, a fold one for each segment. What stands behind the
 * last offset is one more segment, of which a fold has no result, and of which what is spread (sf_operand.segment) is 0.
 *
 * Walks meet segments in the order of the sequence: in reverse the last one first, and positions count from the axis's end. These functions speak
 * of segment `k` and of positions as walks do.
 */
#ifndef SF_SEGMENTS_H
#define SF_SEGMENTS_H

#include "core/core.h"

#include <string.h>

struct sf_step;
struct sf_fuse;

typedef struct sf_segments {
        const char *offsets; /* NULL: none; the axis is one sequence */
        bool wide;           /* they are i64, else i32 */
        int64_t stride;      /* bytes from one offset to the next */
        int64_t count;       /* of segments: one less than there are offsets */
} sf_segments;

/* An offset, which need not be aligned. */
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

/* The segments of a view of offsets that has been checked; of none where it is NULL. */
sf_segments sf_segments_of(const sf_view *offsets);
/* Checks offsets that the host can read, for an axis of n elements: they begin with 0, never decrease, and do not pass the end. */
sf_status sf_segments_check(const sf_context *ctx, const sf_segments *s, int64_t n);

/* How many a walk of the step meets: those of the offsets, and of a scan or map what stands behind them. */
int64_t sf_segments_walked(const struct sf_step *step);
/* Where segment k begins. Of k = sf_segments_walked, where the last one ends. */
int64_t sf_segments_begin(const struct sf_step *step, int64_t k);
/* Which entry of a fold's results is segment k's; -1 for what has none. */
int64_t sf_segments_entry(const struct sf_step *step, int64_t k);
/* The first segment that begins at `position` or behind it. */
int64_t sf_segments_from(const struct sf_step *step, int64_t position);

/* Segment k as the step that it is by itself. `fuse` becomes its programs, if it has any. It has neither sibling nor follower. */
void sf_segments_step(const struct sf_step *step, int64_t k, struct sf_step *to, struct sf_fuse *fuse);

#endif
