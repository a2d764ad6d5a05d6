/* arena.h: scratch memory kept by the context from call to call, so that a warm call allocates nothing. */
#ifndef SF_ARENA_H
#define SF_ARENA_H

#include "core/core.h"

/* At least `size` bytes, aligned to a page of 4096 bytes, for this call alone; NULL if there is no
 * memory. Return it when done. */
sf_arena *sf_arena_borrow(sf_context *ctx, size_t size);
void sf_arena_return(sf_context *ctx, sf_arena *arena);
void sf_arena_free_all(sf_context *ctx);

#endif
