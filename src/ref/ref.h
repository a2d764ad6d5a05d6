/* The reference backend: every operation and dtype, CPU memory only. Slow: others are tested
 * against it. */
#ifndef SF_REF_H
#define SF_REF_H

#include "core/step.h"

sf_status sf_ref_run(const sf_context *ctx, const sf_step *step);

#endif
