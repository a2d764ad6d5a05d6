/* emit_again.h: plans the launch that computes results again if they are not finite. */
#ifndef SF_CUDA_EMIT_AGAIN_H
#define SF_CUDA_EMIT_AGAIN_H

#include "core/again.h"
#include "cuda/launch.h"

/* As sf_cuda_plan_step, it uses no driver and allocates nothing. */
sf_status sf_cuda_plan_again(const sf_context *ctx, const sf_again *again, const sf_cuda_chip *chip, sf_cuda_plan *plan);

#endif
