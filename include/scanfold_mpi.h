/*
 * scanfold_mpi.h: a scan or fold along an axis that is sharded over the ranks of an MPI
 * communicator. It is a separate library, scanfold_mpi, which is built where MPI is found. Link
 * with scanfold, scanfold_mpi and MPI.
 *
 *     sf_shard_options options = SF_SHARD_OPTIONS_INIT;
 *     options.axis = 0;
 *     if (sf_mpi_shard(NULL, &x, &out, &options, MPI_COMM_WORLD) != SF_OK)
 *             puts(sf_last_error(NULL));            // the same sentence on every rank
 *
 * scanfold.h, "Ranks", says what the options mean. Every rank of the communicator must make the
 * call, as for any collective of MPI. Tensors may be on a CUDA device; spans are exchanged from CPU
 * memory. Where all spans together are more than SF_MPI_GATHER_BYTES, they are joined along a tree
 * instead of gathered (docs/ranks.md); the bits are the same.
 */
#ifndef SCANFOLD_MPI_H
#define SCANFOLD_MPI_H

#include "scanfold.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SF_MPI_GATHER_BYTES ((size_t)64 << 20)

/*
 * Computes the scan or fold of all ranks' x, and writes this rank's part to out. options may be
 * NULL: an inclusive sum along the last axis. It fails on all ranks of comm or on none: if one rank
 * has no memory, the others return SF_OUT_OF_MEMORY too. Returns SF_OK or a status; SF_DEVICE_ERROR
 * if MPI has failed and its error handler lets calls return. Threads: one at a time for each
 * communicator, as for any collective.
 */
SF_API sf_status sf_mpi_shard(sf_context *ctx, const sf_tensor *x, const sf_tensor *out,
                              const sf_shard_options *options, MPI_Comm comm);

/*
 * The same (x, out, options, comm), with gather_bytes instead of SF_MPI_GATHER_BYTES; 0: always
 * along a tree. For measuring. Every rank must give the same number. Returns SF_OK or a status.
 * Threads: one at a time for each communicator.
 */
SF_API sf_status sf_mpi_shard_within(sf_context *ctx, const sf_tensor *x, const sf_tensor *out,
                                     const sf_shard_options *options, MPI_Comm comm,
                                     size_t gather_bytes);

#ifdef __cplusplus
}
#endif

#endif
