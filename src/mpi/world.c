/* All ranks of an MPI program, for the command line. An error inside MPI ends all of them: that is
 * the default error handler of MPI_COMM_WORLD. */
#include "mpi/world.h"

#include "scanfold_mpi.h"

static void open_world(int *rank, int *ranks)
{
        MPI_Init(NULL, NULL);
        MPI_Comm_rank(MPI_COMM_WORLD, rank);
        MPI_Comm_size(MPI_COMM_WORLD, ranks);
}

static sf_status shard(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options)
{
        return sf_mpi_shard(ctx, x, out, options, MPI_COMM_WORLD);
}

static int least(int value)
{
        int found = value;
        MPI_Allreduce(&value, &found, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        return found;
}

static void tell(void *bytes, int count)
{
        MPI_Bcast(bytes, count, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void close_world(void)
{
        MPI_Finalize();
}

const sf_mpi_world sf_mpi_world_calls = {SF_VERSION, open_world, shard, least, tell, close_world};
