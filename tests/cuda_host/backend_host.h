#ifndef SF_BACKEND_HOST_H
#define SF_BACKEND_HOST_H

#include "cuda/launch.h"

extern bool host_learning;        /* answer with the reference and only note the kernels */
extern bool host_unchecked;       /* offsets are not looked at, as on a device */
extern bool host_races;           /* the compiler was told to tell of accesses: those that race fail */
extern long host_launches, host_seed;
/* If there is one, called before the second launch of a plan. */
extern void (*host_between)(void *scratch, size_t bytes);
extern sf_cuda_chip host_chip;    /* what steps are planned for */
/* Launches of each kernel, and those of products of reals; through shared memory, columns in packs, lines that begin early, of interleaved sequences, of totals of chunks;
 * chains with lines in registers, in shared memory, and there in part. host_short, of apply_short.cu: with elements as they lie, in
 * another order, in vectors; with several lines a warp, several warps a line, several lines a warp that are apart. */
extern long host_products[SF_CUDA_KERNEL_COUNT], host_kept[3];
extern long host_short[6];
extern long host_met[SF_CUDA_KERNEL_COUNT], host_staged, host_packs, host_early, host_whole_rows, host_interleaved, host_chunked, host_tiled, host_shared, host_totals, host_doubles, host_clusters, host_through, host_loops, host_shifts, host_teams;

#endif
