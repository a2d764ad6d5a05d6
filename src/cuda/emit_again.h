/* emit_again.h: results that are computed again where they are not finite, to the launch that does so. */
#ifndef SF_CUDA_EMIT_AGAIN_H
#define SF_CUDA_EMIT_AGAIN_H

#include "core/again.h"
#include "cuda/launch.h"

/* Pure, as sf_cuda_plan_step is. */
sf_status sf_cuda_plan_again(const sf_context *ctx, const sf_again *again, const sf_cuda_chip *chip, sf_cuda_plan *plan);

#endif
