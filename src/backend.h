/* The table of backends: the tensors' device picks, unless the context asks for the reference. */
#ifndef SF_BACKEND_H
#define SF_BACKEND_H

#include "core/step.h"

/* Is there a backend for this device? A sentence if not. `name` is the tensor's. */
sf_status sf_backend_check(const sf_context *ctx, const char *name, sf_device device);

/* `workspace`, if not NULL, is scratch of the caller's on the step's device. */
sf_status sf_backend_run(sf_context *ctx, const sf_step *step, void *workspace, size_t workspace_size);

/* How much scratch the step needs on its device, where the caller may provide it; 0 on the CPU. */
sf_status sf_backend_workspace(sf_context *ctx, const sf_step *step, size_t *size);

#endif
