/* Shards over MPI: exchanges what sf_shard_* of scanfold.h computes. */
#include "scanfold_mpi.h"

#include <limits.h>
#include <stdlib.h>

/* The ranks and messages of one call. */
typedef struct exchange {
        MPI_Comm comm;
        int rank, ranks;
        int32_t *rank_of; /* by place */
        sf_shard *shard;
        /* a span: that of this rank; in a tree, later that of more and more places */
        char *mine;
} exchange;

/* The worst status of any rank, so that either all ranks continue or none does. */
static sf_status agree(const exchange *e, sf_status status)
{
        int mine = (int)status, worst = 0;
        if (MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, e->comm) != MPI_SUCCESS)
                return SF_DEVICE_ERROR;
        return (sf_status)worst;
}

/* ------------------------------------------------------------------------------------------------------------
 * All spans at once
 * ---------------------------------------------------------------------------------------------------------- */
static size_t all_bytes(const exchange *e)
{
        size_t bytes = 0;
        for (int i = 0; i < e->ranks; i++)
                bytes += sf_shard_bytes(e->shard, i);
        return bytes;
}

static sf_status gather(exchange *e)
{
        char *spans = malloc(all_bytes(e) + 1);
        int *counts = malloc((size_t)e->ranks * sizeof *counts), *at = malloc((size_t)e->ranks * sizeof *at), sum = 0;
        sf_status status = agree(e, spans && counts && at ? SF_OK : SF_OUT_OF_MEMORY);
        /* NOLINTBEGIN(clang-analyzer-core.NullDereference): where one is NULL, the worst status of all is not SF_OK */
        for (int i = 0; status == SF_OK && i < e->ranks; i++) {
                counts[i] = (int)sf_shard_bytes(e->shard, i);
                at[i] = sum;
                sum += counts[i];
        }
        if (status == SF_OK && MPI_Allgatherv(e->mine, counts[e->rank], MPI_BYTE, spans, counts, at, MPI_BYTE, e->comm) != MPI_SUCCESS)
                status = SF_DEVICE_ERROR;
        /* NOLINTEND(clang-analyzer-core.NullDereference) */
        if (status == SF_OK)
                status = sf_shard_finish(e->shard, spans);
        free(spans);
        free(counts);
        free(at);
        return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * Along a tree
 * ---------------------------------------------------------------------------------------------------------- */

/* Sends the span of places [from, place + 1) to the rank at place `to`, and receives that of
 * [first, end) from the one at `source`. A place that does not exist is skipped. NULL if a rank has
 * no memory, if a span is too long for a message, or if MPI failed. */
static char *swap(exchange *e, int place, int from, int to, int first, int end, int source, sf_status *status)
{
        const int nobody = MPI_PROC_NULL, there = source >= 0;
        const size_t bytes = there ? sf_shard_span_bytes(e->shard, first, end) : 0;
        const size_t sent = to < e->ranks ? sf_shard_span_bytes(e->shard, from, place + 1) : 0;
        char *got = malloc(bytes + 1);
        *status = agree(e, !got ? SF_OUT_OF_MEMORY : bytes > INT_MAX || sent > INT_MAX ? SF_UNSUPPORTED : SF_OK);
        if (*status == SF_OK &&
            MPI_Sendrecv(e->mine, (int)sent, MPI_BYTE, to < e->ranks ? e->rank_of[to] : nobody, 0, got, (int)bytes, MPI_BYTE,
                         there ? e->rank_of[source] : nobody, 0, e->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
                *status = SF_DEVICE_ERROR;
        if (*status == SF_OK)
                return got;
        free(got);
        return NULL;
}

/* In round k, each place receives the span of the place 2^k before it and joins it with its own. In
 * the end each has the span of all places up to its own. */
static sf_status join_rounds(exchange *e, int place)
{
        for (int far = 1; far < e->ranks; far *= 2) {
                const int first = place - 2 * far + 1 < 0 ? 0 : place - 2 * far + 1, middle = place - far + 1;
                sf_status status;
                char *got = swap(e, place, middle < 0 ? 0 : middle, place + far, first, middle, place - far, &status), *joined = NULL;
                if (!got)
                        return status;
                if (place >= far) {
                        joined = malloc(sf_shard_span_bytes(e->shard, first, place + 1) + 1);
                        status = joined ? sf_shard_join(e->shard, first, middle, place + 1, got, e->mine, joined) : SF_OUT_OF_MEMORY;
                        free(e->mine);
                        e->mine = joined;
                }
                free(got);
                status = agree(e, status);
                if (status != SF_OK)
                        return status;
        }
        return SF_OK;
}

static sf_status tree(exchange *e, int fold)
{
        const int place = sf_shard_place(e->shard, e->rank), last = e->ranks - 1;
        sf_status status = join_rounds(e, place);
        char *before = NULL;
        if (status != SF_OK)
                return status;
        if (!fold) {
                before = swap(e, place, 0, place + 1, 0, place, place - 1, &status);
        } else {
                const size_t bytes = sf_shard_span_bytes(e->shard, 0, e->ranks);
                before = place == last ? e->mine : malloc(bytes + 1);
                if (place == last)
                        e->mine = NULL;
                status = agree(e, !before ? SF_OUT_OF_MEMORY : bytes > INT_MAX ? SF_UNSUPPORTED : SF_OK);
                if (status == SF_OK && MPI_Bcast(before, (int)bytes, MPI_BYTE, e->rank_of[last], e->comm) != MPI_SUCCESS)
                        status = SF_DEVICE_ERROR;
        }
        if (status == SF_OK)
                status = sf_shard_finish_from(e->shard, before);
        free(before);
        return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * The complete exchange
 * ---------------------------------------------------------------------------------------------------------- */
static sf_status run(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options, exchange *e, sf_shard_card *cards,
                     size_t limit)
{
        sf_shard_card mine;
        sf_shard_card_make(ctx, x, out, options, &mine);
        if (MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, cards, (int)sizeof mine, MPI_BYTE, e->comm) != MPI_SUCCESS)
                return SF_DEVICE_ERROR;
        sf_status status = sf_shard_create(ctx, x, out, options, e->rank, e->ranks, cards, &e->shard);
        for (int i = 0; status == SF_OK && i < e->ranks; i++)
                e->rank_of[sf_shard_place(e->shard, i)] = i;
        if (status == SF_OK) {
                e->mine = malloc(sf_shard_bytes(e->shard, e->rank) + 1);
                status = e->mine ? sf_shard_values(e->shard, e->mine) : SF_OUT_OF_MEMORY;
        }
        status = agree(e, status);
        if (status != SF_OK)
                return status;
        const size_t bytes = all_bytes(e);
        status = bytes <= limit && bytes <= INT_MAX ? gather(e) : tree(e, options && options->fold);
        return agree(e, status);
}

sf_status sf_mpi_shard_within(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options, MPI_Comm comm, size_t limit)
{
        exchange e = {.comm = comm};
        if (MPI_Comm_rank(comm, &e.rank) != MPI_SUCCESS || MPI_Comm_size(comm, &e.ranks) != MPI_SUCCESS)
                return SF_DEVICE_ERROR;
        sf_shard_card *cards = malloc((size_t)e.ranks * sizeof *cards);
        e.rank_of = malloc((size_t)e.ranks * sizeof *e.rank_of);
        sf_status status = agree(&e, cards && e.rank_of ? SF_OK : SF_OUT_OF_MEMORY);
        if (status == SF_OK)
                status = run(ctx, x, out, options, &e, cards, limit);
        sf_shard_destroy(e.shard);
        free(e.mine);
        free(e.rank_of);
        free(cards);
        return status;
}

sf_status sf_mpi_shard(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options, MPI_Comm comm)
{
        return sf_mpi_shard_within(ctx, x, out, options, comm, SF_MPI_GATHER_BYTES);
}
