/*
 * spans.h: some positions of a sequence, one after another, as the values of the aligned blocks that they are made of; on many lines at once.
 *
 * [from, to) is cut, from its beginning, into the largest blocks of 2^k positions that begin at a multiple of 2^k. In memory a span is those
 * blocks in order, each a value a line, as narrow as the operation's values are. Two neighbouring spans are joined by putting one behind
 * the other and combining blocks that are the two halves of a larger one: no value is ever combined but as the order says.
 */
#ifndef SF_SPANS_H
#define SF_SPANS_H

#include "core/core.h"

/* What a span is of. */
typedef struct sf_span_kind {
        sf_op op;
        sf_dt acc;
        int64_t lines;
} sf_span_kind;

/* Bytes of a value in a span. */
int64_t sf_span_value_bytes(const sf_span_kind *kind);
void sf_span_put(const sf_span_kind *kind, char *to, sf_value v);
sf_value sf_span_get(const sf_span_kind *kind, const char *from);

/* The level of the first block of a span that is not empty, and how many blocks it has. */
int sf_span_level(int64_t from, int64_t to);
int32_t sf_span_blocks(int64_t from, int64_t to);

#define SF_SPAN_BLOCKS 128 /* at most, with one that is about to be combined */

/* A span that grows at its end. */
typedef struct sf_pile {
        sf_span_kind kind;
        int64_t from, to;
        int32_t count, room;
        int level[SF_SPAN_BLOCKS];
        char *data;
} sf_pile;

void sf_pile_start(sf_pile *p, const sf_span_kind *kind, int64_t from);
/* Appends the span [p->to, to); false if there is no memory. */
bool sf_pile_add(sf_pile *p, int64_t to, const char *span);
/* Value `line` of block `block`. */
sf_value sf_pile_value(const sf_pile *p, int32_t block, int64_t line);
/* All blocks combined, of one line; p is not empty. */
sf_value sf_pile_fold(const sf_pile *p, int64_t line);
void sf_pile_end(sf_pile *p);

#endif
