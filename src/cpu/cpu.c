#include "cpu/cpu.h"
#include "ref/ref.h"
sf_status sf_cpu_run(sf_context *ctx, const sf_step *step) { return sf_ref_run(ctx, step); }
