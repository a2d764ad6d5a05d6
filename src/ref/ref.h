/* The reference backend: every operation, every dtype, CPU memory only. Slow on purpose: it is the oracle. */
#ifndef SF_REF_H
#define SF_REF_H

#include "core/step.h"

sf_status sf_ref_run(const sf_context *ctx, const sf_step *step);

#endif
