#include "context.h"

#include "core/arena.h"
#include "core/choose.h"
#include "cpu/cpu.h"
#include "cpu/cpus.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A context never has more threads than this, as scanfold.h says: more would only share the
 * CPUs. */
#define THREADS_A_CPU 4
#define LEAST_CAP 16

/* A count from the environment: the first number of a list, because OMP_NUM_THREADS may be one.
 * *set says if the variable was set. */
static sf_status read_threads(const char *name, int32_t *threads, bool *set)
{
        const char *text = getenv(name);
        *set = text && *text;
        if (!*set)
                return SF_OK;
        char *end;
        errno = 0;
        long value = strtol(text, &end, 10);
        if (errno || end == text || (*end && *end != ',') || value < 1 || value > INT32_MAX)
                return sf_fail(NULL, SF_INVALID_ARGUMENT,
                               "%s is \"%s\"; it must be a number of threads, 1 or more", name,
                               text);
        *threads = (int32_t)value;
        return SF_OK;
}

/* A switch from the environment: 1 or 0. Unset means 0. */
static sf_status read_switch(const char *name, bool *on)
{
        const char *text = getenv(name);
        *on = text && !strcmp(text, "1");
        if (!text || !*text || *on || !strcmp(text, "0"))
                return SF_OK;
        return sf_fail(NULL, SF_INVALID_ARGUMENT, "%s is \"%s\"; it must be 1, 0, or unset", name, text);
}

static sf_status init(sf_context *ctx, const sf_context_options *o)
{
        const char *isa = o->isa ? o->isa : getenv("SCANFOLD_ISA");
        const char *backend = getenv("SCANFOLD_BACKEND");
        bool set = false;
        memset(ctx, 0, sizeof *ctx);
        atomic_flag_clear(&ctx->arenas_lock);
        if (o->threads < 0)
                return sf_fail(NULL, SF_INVALID_ARGUMENT, "threads is %d; it must be 0 (from the environment) or more", (int)o->threads);
        ctx->threads = o->threads;
        if (!ctx->threads)
                SF_TRY(read_threads("SCANFOLD_NUM_THREADS", &ctx->threads, &set));
        if (!ctx->threads)
                SF_TRY(read_threads("OMP_NUM_THREADS", &ctx->threads, &set));
        const int64_t cpus = sf_cpu_count(),
                      most = cpus * THREADS_A_CPU < LEAST_CAP ? LEAST_CAP : cpus * THREADS_A_CPU;
        if (!ctx->threads)
                ctx->threads = (int32_t)cpus;
        if (ctx->threads > most)
                ctx->threads = (int32_t)most;
        if (o->backend != SF_BACKEND_AUTO && o->backend != SF_BACKEND_REF)
                return sf_fail(NULL, SF_INVALID_ARGUMENT, "backend is %d; it must be SF_BACKEND_AUTO or SF_BACKEND_REF", (int)o->backend);
        ctx->backend = o->backend;
        if (ctx->backend == SF_BACKEND_AUTO && backend && *backend) {
                if (strcmp(backend, "ref"))
                        return sf_fail(NULL, SF_INVALID_ARGUMENT, "SCANFOLD_BACKEND is \"%s\"; it must be ref, or unset", backend);
                ctx->backend = SF_BACKEND_REF;
        }
        SF_TRY(read_switch("SCANFOLD_CHECK", &ctx->checks));
        return sf_cpu_choose(isa && *isa ? isa : NULL, &ctx->isa);
}

/* ------------------------------------------------------------------------------------------------------------
 * The default context
 * ---------------------------------------------------------------------------------------------------------- */
static sf_context default_context;
static sf_status default_status;
static char default_sentence[2048];
static pthread_once_t default_once = PTHREAD_ONCE_INIT;

/*
 * This is safe in a child of fork(), even if the parent forked while another of its threads was in
 * here: glibc's pthread_once records in which process the initialisation was begun, and begins
 * again in another process. Only init has to be repeated, and it sets every field.
 */
static void make_default(void)
{
        default_status = init(&default_context, &(sf_context_options)SF_CONTEXT_OPTIONS_INIT);
        if (default_status != SF_OK)
                snprintf(default_sentence, sizeof default_sentence, "%s", sf_last_error(NULL));
}

sf_status sf_context_resolve(sf_context *given, sf_context **ctx)
{
        *ctx = given;
        if (given)
                return SF_OK;
        pthread_once(&default_once, make_default);
        *ctx = &default_context;
        return default_status == SF_OK ? SF_OK : sf_fail(NULL, default_status, "%s", default_sentence);
}

/* ------------------------------------------------------------------------------------------------------------
 * Contexts that callers create
 * ---------------------------------------------------------------------------------------------------------- */
sf_status sf_context_create(sf_context **out, const sf_context_options *options)
{
        static _Atomic uint64_t serials;
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        if (!out)
                return sf_fail(NULL, SF_INVALID_ARGUMENT, "ctx is NULL; it must point to where the context is to go");
        if (options)
                SF_TRY(sf_options_read(NULL, "sf_context_options", options, &o, sizeof o, 0));
        sf_context *ctx = malloc(sizeof *ctx);
        if (!ctx)
                return sf_fail(NULL, SF_OUT_OF_MEMORY, "no memory for a context");
        sf_status status = init(ctx, &o);
        if (status != SF_OK) {
                free(ctx);
                return status;
        }
        ctx->serial = ++serials;
        *out = ctx;
        return SF_OK;
}

void sf_context_destroy(sf_context *ctx)
{
        if (!ctx || ctx == &default_context)
                return;
        sf_arena_free_all(ctx);
        free(ctx);
}

int32_t sf_context_threads(const sf_context *given)
{
        sf_context *ctx;
        return sf_context_resolve((sf_context *)given, &ctx) == SF_OK ? ctx->threads : 1;
}

int32_t sf_set_thread_limit(int32_t limit)
{
        return sf_thread_limit_set(limit);
}

const char *sf_context_isa(const sf_context *given)
{
        sf_context *ctx;
        if (sf_context_resolve((sf_context *)given, &ctx) != SF_OK)
                return "none";
        return ctx->backend == SF_BACKEND_REF ? "ref" : sf_cpu_isa_name(ctx->isa);
}
