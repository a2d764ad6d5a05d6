/* The context: what a caller set or the environment says, and scratch that calls borrow. */
#ifndef SF_CONTEXT_H
#define SF_CONTEXT_H

#include "core/core.h"

/* `given`, or the default context where it is NULL. Fails where the default one cannot be made (a bad environment). */
sf_status sf_context_resolve(sf_context *given, sf_context **ctx);

#endif
