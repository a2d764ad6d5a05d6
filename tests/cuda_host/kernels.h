/*
 * kernels.h: specialisations of the CUDA kernels, compiled for the host.
 *
 * Specialisations are asked for one by one and compiled together: several to a file, several compilers at once. What was
 * compiled stays in the folder under a name made of its text, so a second run compiles only what changed.
 */
#ifndef SF_HOST_KERNELS_H
#define SF_HOST_KERNELS_H

#include "cuda/launch.h"
#include "executor.h"

/* Where to work, how to compile: "g++ -std=c++14 -O1 ..." */
void kernels_open(const char *folder, const char *compiler, int jobs);
void kernels_want(const sf_cuda_spec *spec);
void kernels_compile(void);
/* Returns NULL if it was never requested. */
exec_entry kernels_find(const sf_cuda_spec *spec);
int kernels_count(void);
const sf_cuda_spec *kernels_spec(int number); /* as they were asked for */

/* The whole text of a specialisation, as NVRTC is given it; the caller frees it. */
char *kernels_text(const sf_cuda_spec *spec);

/* Compiles one in `every` of the kernels that were asked for and whose names begin so by NVRTC, for a
 * chip that has clusters of blocks. 0: all compile; 77: there is no NVRTC. */
int kernels_nvrtc(const char *prefix, long every);

#endif
