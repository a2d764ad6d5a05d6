/* cuda_warm.h: steps that stand for common calls: what the cache is warmed with and what tests compile. */
#ifndef SF_CUDA_WARM_H
#define SF_CUDA_WARM_H

#include "core/step.h"

/* Fills step number `index` and writes what it is; false past the last. Its pointers are well aligned and lead nowhere. */
bool sf_cuda_usual_step(int32_t index, sf_step *step, char what[96]);

#endif
