/* cuda_warm.h: steps that represent common calls, for warming the cache and for tests. */
#ifndef SF_CUDA_WARM_H
#define SF_CUDA_WARM_H

#include "core/step.h"

/* Fills in step number `index` and writes a description of it; false past the last. Its pointers
 * are well aligned but not valid. */
bool sf_cuda_usual_step(int32_t index, sf_step *step, char what[96]);

#endif
