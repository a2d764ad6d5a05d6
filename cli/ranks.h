/*
 * ranks.h: --mpi, one job done by many processes.
 *
 * Each rank maps the input and works on its part of the axis. Rank 0 makes the output, others map the same temporary file and write their part
 * of it; rank 0 renames it once all have succeeded. Whatever fails on one rank fails on all, and the first rank that it failed on says why.
 *
 * MPI is loaded where it is asked for, not linked. Without ranks_start there is one rank, this process, and every function here does what that
 * one does alone.
 */
#ifndef SCANFOLD_RANKS_H
#define SCANFOLD_RANKS_H

#include "files.h"
#include "work.h"

/* Finds scanfold_mpi and the other ranks. Complains. */
int ranks_start(void);
void ranks_end(void);

/* CLI_DONE if all ranks have come here with it; else a failure, said by the first that failed. Every rank calls it. */
int ranks_agree(int status);

/* Is this the rank that speaks for all? */
int ranks_first(void);

/* As output_create, do_work and outputs_commit of one output, for all ranks; they end alike on all. */
int ranks_create(struct output *output, const char *path, uint64_t size);
int ranks_work(struct work *work);
int ranks_commit(struct output *output);

#endif /* SCANFOLD_RANKS_H */
