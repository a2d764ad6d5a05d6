/*
 * ranks.h: shared by the files about ranks, for one axis that is divided over many ranks. cards.c:
 * what each rank asks for, compared. shard.c: what a rank computes. device.c: the same on a CUDA
 * device. spans.c: what is exchanged. How it is exchanged is up to the caller.
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
        int64_t from, to;  /* this shard's positions, in the order of the sequence */
        /* where the shard at each place begins in the sequence; the last entry is where the last
         * one ends */
        int64_t *begin;
        int32_t *place;    /* of each rank */
        char *span;        /* that of this rank, once it has been computed */
        /* device.c: where the chunks of this shard begin, and the end of the last; and the values
         * of chunks, chunk by chunk, as in a span */
        int64_t *chunk;
        int32_t chunks;
        char *values;
};

/* A shard, while shards are sorted. */
typedef struct sf_ranks_part {
        int64_t first, count;
        int32_t rank;
} sf_ranks_part;

/* A step over positions [from, to) of the sequence, and its tensors. It must not be moved in
 * memory. */
typedef struct sf_part_step {
        sf_view x, out, mask, a, values;
        int64_t shape[SF_MAX_NDIM];
        sf_step step;
        sf_step_views views;
} sf_part_step;
void sf_part_make(sf_shard *s, int64_t from, int64_t to, sf_part_step *t);
/* Makes it a step over `rows` equal parts, side by side: their tensors get one more dimension, the
 * last, along which the parts follow one another in the direction of the sequence. Those of values
 * are up to the caller. */
void sf_part_fan(const sf_shard *s, int64_t rows, sf_part_step *t);

/* A scan of a shard is done in parts, each by one step: where the part ends that begins at `at`. */
int64_t sf_part_end(const sf_shard *s, int64_t at);

/* device_values.c: entries, `count` of them, each with one item for each line, on the host and on
 * the device; in the same memory if the device makes them (`made`), they are few, and there is such.
 * none: there is no memory for so many bytes. view: one of them as a tensor of the
 * part's shape, broadcast along the axis. */
typedef struct sf_entries {
        char *host;
        sf_memory device;
        size_t size, each; /* bytes of an item, and of an entry */
        int32_t count;
        sf_memory shared; /* the host's, if it is memory that the device sees too */
        bool same;        /* and the device's */
        bool waited;
} sf_entries;
sf_status sf_entries_begin(sf_shard *s, size_t size, int32_t count, bool made, sf_entries *n);
sf_status sf_entries_move(sf_shard *s, sf_entries *n, bool to_device);
void sf_entries_end(sf_shard *s, sf_entries *n);
char *sf_entries_item(const sf_entries *n, int32_t entry, int64_t line);
sf_view sf_entries_view(const sf_shard *s, const sf_part_step *t, const sf_entries *n,
                        int32_t entry, sf_dt dt);
sf_status sf_entries_none(const sf_shard *s, size_t bytes);

/* device.c and device_values.c: shards in CUDA memory. fold: computes the values of this rank's blocks, into its span.
 * scan: scans the shard, with the values of `pile` on its left. result: the result of a fold. */
sf_status sf_device_fold(sf_shard *s);
sf_status sf_device_scan(sf_shard *s, sf_pile *pile);
sf_status sf_device_result(sf_shard *s, sf_pile *pile);

/* Checks, on this rank, what was asked for. */
sf_status sf_ranks_request(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options, sf_shard_options *o, sf_request *r,
                           sf_prepared *p, int32_t *axis);
/* Do all ranks ask for the same? */
sf_status sf_ranks_compare(const sf_context *ctx, int32_t ranks, const sf_shard_card *cards);
/* Sets s->begin, s->place and s->length: where each shard is. */
sf_status sf_ranks_place(sf_shard *s, const sf_shard_card *cards, sf_ranks_part *parts);

#endif
