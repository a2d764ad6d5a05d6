/* The CPU backend, as the layers above see it. */
#ifndef SF_CPU_H
#define SF_CPU_H

#include "core/step.h"

typedef struct sf_cpu_isa sf_cpu_isa; /* an instruction set and its kernels: cpu/kernels.h */

/* The instruction set called `name`, or the best one this CPU has where it is NULL. */
sf_status sf_cpu_choose(const char *name, const sf_cpu_isa **isa);
const char *sf_cpu_isa_name(const sf_cpu_isa *isa);

sf_status sf_cpu_run(sf_context *ctx, const sf_step *step);
/* sf_segments_rise for all offsets, by all threads. */
bool sf_cpu_rise(const sf_context *ctx, const sf_segments *s);

/* Will later stages of a chain find in a cache what the first has read? NULL if so, or the reason
 * why not: sf_backend_follows. */
const char *sf_cpu_follows(const sf_step *chain);

#endif
