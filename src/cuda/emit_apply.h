/* emit_apply.h: chains (core/step.h) in one launch. */
#ifndef SF_CUDA_EMIT_APPLY_H
#define SF_CUDA_EMIT_APPLY_H

#include "cuda/launch.h"

/* Plans one launch for the whole chain. fits: there is one, and it is better than one stage after
 * another; if not, nothing is planned. As sf_cuda_plan_step, it uses no driver. */
sf_status sf_cuda_plan_chain(const sf_context *ctx, const sf_step *first, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits);

#endif
