#include "core/arena.h"

#include <stdlib.h>

/* The lock is held for a few instructions, so spinning is enough. The spin is bounded: in the child
 * of a fork the thread that held the lock may no longer exist. The list then stays as it is, and
 * calls allocate memory of their own. */
#define SPINS 100000

static bool lock(sf_context *ctx)
{
        for (int spins = 0; atomic_flag_test_and_set_explicit(&ctx->arenas_lock, memory_order_acquire); spins++)
                if (spins == SPINS)
                        return false;
        return true;
}

static void unlock(sf_context *ctx)
{
        atomic_flag_clear_explicit(&ctx->arenas_lock, memory_order_release);
}

static void discard(sf_arena *arena)
{
        free(arena->base);
        free(arena);
}

sf_arena *sf_arena_borrow(sf_context *ctx, size_t size)
{
        sf_arena *arena = NULL;
        if (lock(ctx)) {
                arena = ctx->arenas;
                if (arena)
                        ctx->arenas = arena->next;
                unlock(ctx);
        }
        if (arena && arena->size >= size)
                return arena;
        if (arena) /* the largest free one is too small: replace it by a larger one */
                discard(arena);
        arena = malloc(sizeof *arena);
        size = (size + 4095) / 4096 * 4096;
        char *base = arena ? aligned_alloc(4096, size) : NULL;
        if (!base) {
                free(arena);
                return NULL;
        }
        *arena = (sf_arena){NULL, size, base};
        return arena;
}

void sf_arena_return(sf_context *ctx, sf_arena *arena)
{
        if (!lock(ctx)) {
                discard(arena);
                return;
        }
        sf_arena **at = &ctx->arenas;
        while (*at && (*at)->size > arena->size)
                at = &(*at)->next;
        arena->next = *at;
        *at = arena;
        unlock(ctx);
}

void sf_arena_free_all(sf_context *ctx)
{
        while (ctx->arenas) {
                sf_arena *arena = ctx->arenas;
                ctx->arenas = arena->next;
                discard(arena);
        }
}
