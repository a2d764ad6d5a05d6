/* The table of backends: the tensors' device picks, unless the context asks for the reference. */
#ifndef SF_BACKEND_H
#define SF_BACKEND_H

#include "core/step.h"

/* Is there a backend for this device? A sentence if not. `name` is the tensor's. */
sf_status sf_backend_check(const sf_context *ctx, const char *name, sf_device device);

sf_status sf_backend_run(sf_context *ctx, const sf_step *step);

#endif
