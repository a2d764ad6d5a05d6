/*
 * ranks.h: --mpi, one job done by many processes.
 *
 * Each rank maps the input and works on its part of the axis. Rank 0 creates the output; the others
 * map the same temporary file and write their part of it. Rank 0 renames it when all have
 * succeeded. If one rank fails, all fail, and the first rank that has failed prints why.
 *
 * MPI is loaded when it is asked for; the program is not linked with it. Without ranks_start this
 * process is the only rank, and every function here works without MPI.
 */
#ifndef SCANFOLD_RANKS_H
#define SCANFOLD_RANKS_H

#include "files.h"
#include "work.h"

/* Finds scanfold_mpi and the other ranks. Complains. */
int ranks_start(void);
void ranks_end(void);

/* CLI_DONE if all ranks have called it with that; else a failure, which the first rank that failed
 * prints. Every rank calls it. */
int ranks_agree(int status);

/* Is this rank 0, which prints the results? */
int ranks_first(void);

/* As output_create, do_work and outputs_commit for one output, on all ranks. They have the same
 * outcome on all. */
int ranks_create(struct output *output, const char *path, uint64_t size);
int ranks_work(struct work *work);
int ranks_commit(struct output *output);

#endif /* SCANFOLD_RANKS_H */
