/* The context: settings, and scratch memory that calls borrow. */
#ifndef SF_CONTEXT_H
#define SF_CONTEXT_H

#include "core/core.h"

/* `given`, or the default context if it is NULL. Fails if an environment variable is invalid. */
sf_status sf_context_resolve(sf_context *given, sf_context **ctx);

#endif
