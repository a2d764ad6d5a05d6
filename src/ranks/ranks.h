/*
 * ranks.h: what the files that know of ranks share. One axis over many ranks: cards.c has what ranks ask for, and compares it; shard.c what a rank
 * computes, device.c how on a CUDA device; spans.c what is exchanged. Nobody here knows how it is exchanged.
 */
#ifndef SF_RANKS_H
#define SF_RANKS_H

#include "ranks/spans.h"
#include "request.h"

struct sf_shard {
        sf_context *ctx;
        sf_request request;
        sf_prepared p;
        sf_span_kind kind;
        int32_t axis, rank, ranks;
        int64_t length;
        int64_t from, to;  /* of this shard, as the sequence is walked */
        int64_t *begin;    /* where the shard at each place begins in the sequence, and where the last one ends */
        int32_t *place;    /* of each rank */
        char *span;        /* this rank's, once it has been computed */
};

/* Room to sort a shard in. */
typedef struct sf_ranks_part {
        int64_t first, count;
        int32_t rank;
} sf_ranks_part;

/* The tensors of positions [from, to) of the sequence, and a step over them; not to be moved. */
typedef struct sf_part_step {
        sf_view x, out, mask, a, values;
        int64_t shape[SF_MAX_NDIM];
        sf_step step;
        sf_step_views views;
} sf_part_step;
void sf_part_make(sf_shard *s, int64_t from, int64_t to, sf_part_step *t);

/* device.c: shards in the memory of a CUDA device. Which operations have them; the values of this rank's blocks, to its span; a scan of [from, to) with what stands before
 * it to its left; a fold's result. */
bool sf_device_has(const sf_step *step);
sf_status sf_device_fold(sf_shard *s);
sf_status sf_device_scan(sf_shard *s, int64_t from, int64_t to, const sf_pile *pile);
sf_status sf_device_result(sf_shard *s, const sf_pile *pile);

/* What was asked for, checked on this rank. */
sf_status sf_ranks_request(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options, sf_shard_options *o, sf_request *r,
                           sf_prepared *p, int32_t *axis);
/* Is it the same on all of them? */
sf_status sf_ranks_compare(const sf_context *ctx, int32_t ranks, const sf_shard_card *cards);
/* Where each shard stands: s->begin, s->place, s->length. */
sf_status sf_ranks_place(sf_shard *s, const sf_shard_card *cards, sf_ranks_part *parts);

#endif
