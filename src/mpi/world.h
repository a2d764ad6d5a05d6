/*
 * world.h: MPI for a program that is not linked with it. The command line loads scanfold_mpi if it
 * is asked to, and finds these functions by one name; they use no types of MPI. Every rank of the
 * program makes each call, in the same order.
 */
#ifndef SF_MPI_WORLD_H
#define SF_MPI_WORLD_H

#include "scanfold.h"

#define SF_MPI_WORLD_NAME "sf_mpi_world_calls"

typedef struct sf_mpi_world {
        int version; /* SF_VERSION: the two are only used together if they were built together */
        void (*open)(int *rank, int *ranks);
        sf_status (*shard)(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options);
        int (*least)(int value);            /* the least of all ranks' values */
        void (*tell)(void *bytes, int count); /* sends rank 0's bytes to all */
        void (*close)(void);
} sf_mpi_world;

SF_API extern const sf_mpi_world sf_mpi_world_calls;

#endif
