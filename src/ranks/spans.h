/*
 * spans.h: a span is a range of positions of a sequence, stored as the values of the aligned blocks
 * that it consists of, for many lines at once.
 *
 * [from, to) is cut, from its beginning, into the largest blocks of 2^k positions that begin at a
 * multiple of 2^k. In memory a span is these blocks in order. Each block has one value for each
 * line, with no more bytes than the operation's values need. To join two adjacent spans, one is
 * appended to the other, and blocks that are the two halves of a larger block are combined: values
 * are only ever combined as the order says. Of operations whose bits do not depend on the grouping
 * (sf_op_free), a span is one block, whatever its positions are.
 */
#ifndef SF_SPANS_H
#define SF_SPANS_H

#include "core/core.h"

/* What the values of a span are. */
typedef struct sf_span_kind {
        sf_op op;
        sf_dt acc;
        int64_t lines;
} sf_span_kind;

/* Bytes of a value in a span. */
int64_t sf_span_value_bytes(const sf_span_kind *kind);
void sf_span_put(const sf_span_kind *kind, char *to, sf_value v);
sf_value sf_span_get(const sf_span_kind *kind, const char *from);

/* The level of the first block of positions [from, to), which are not empty. */
int sf_span_level(int64_t from, int64_t to);
/* The number of a span's blocks: one at most if any grouping gives the same bits. */
int32_t sf_span_blocks(const sf_span_kind *kind, int64_t from, int64_t to);

#define SF_SPAN_BLOCKS 128 /* the most, including one that is about to be combined */

/* A span that grows at its end. */
typedef struct sf_pile {
        sf_span_kind kind;
        size_t each; /* bytes of a block */
        bool any;    /* any grouping gives the same bits: there is one block at most */
        int64_t from, to;
        int32_t count, room;
        int level[SF_SPAN_BLOCKS];
        char *data;
} sf_pile;

void sf_pile_start(sf_pile *p, const sf_span_kind *kind, int64_t from);
/* Appends the span [p->to, to); false if there is no memory. */
bool sf_pile_add(sf_pile *p, int64_t to, const char *span);
/* The values of block `block`, as in a span; and value `line` of them. */
const char *sf_pile_block(const sf_pile *p, int32_t block);
sf_value sf_pile_value(const sf_pile *p, int32_t block, int64_t line);
/* Combines all blocks, the last two first, so that there is one; it grows no more. */
void sf_pile_fold(sf_pile *p);
void sf_pile_end(sf_pile *p);

#endif
