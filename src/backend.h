/* The table of backends: the tensors' device picks, unless the context asks for the reference. */
#ifndef SF_BACKEND_H
#define SF_BACKEND_H

#include "core/again.h"

/* Memory of the host is one device: pinned or not, whatever number it is given. */
static inline bool sf_on_host(sf_device device)
{
        return device.device_type == SF_CPU || device.device_type == SF_CUDA_HOST;
}

static inline bool sf_same_device(sf_device a, sf_device b)
{
        return sf_on_host(a) ? sf_on_host(b)
                             : a.device_type == b.device_type && a.device_id == b.device_id;
}

/* Is there a backend for this device? A sentence if not. `name` is the tensor's. */
sf_status sf_backend_check(const sf_context *ctx, const char *name, sf_device device);

/* `workspace`, if not NULL, is scratch of the caller's on the step's device. */
sf_status sf_backend_run(sf_context *ctx, const sf_step *step, void *workspace, size_t workspace_size);

/*
 * May a plan count on `other` being done in the read of the `count` steps before it, which share one? NULL, or why not, as
 * what follows a colon. Asked before there are tensors: of the steps' geometry n is set, of their programs all but the operands.
 */
const char *sf_backend_apart(sf_device device, int32_t count, const sf_step *const *steps, const sf_step *other);

/*
 * May a plan count on the last stage of this chain following the others line by line, so that what they have read is not read from
 * memory again? NULL, or why not, as what follows a colon; then the plan makes it a pass of its own. Asked before there are tensors: n and
 * batch are set, and of the programs' operands dt and made. Whatever is said, a chain that is run runs.
 */
const char *sf_backend_follows(sf_device device, const sf_step *chain);

/* How much scratch the step needs on its device, where the caller may provide it; 0 on the CPU. */
sf_status sf_backend_workspace(sf_context *ctx, const sf_step *step, size_t *size);

/*
 * Results that came out not finite are computed again (core/again.h). all_finite: there are none,
 * as far as the host can see without waiting; of `again` only what describes the results is set.
 * again: those that are.
 */
bool sf_backend_all_finite(sf_context *ctx, const sf_again *again);
sf_status sf_backend_again(sf_context *ctx, const sf_again *again);

/* ------------------------------------------------------------------------------------------------------------
 * Memory on the device of a run, 256-byte aligned; what is in it is anything
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct sf_memory {
        void *data;
        void *owner; /* the backend's */
} sf_memory;

/*
 * Scratch for one run of several steps, on CUDA in the order of the stream: it may be returned as soon as the last step that uses it has
 * been launched. A warm call allocates nothing. On a stream being captured the memory is the graph's.
 */
sf_status sf_backend_borrow(sf_context *ctx, sf_device device, void *stream, size_t size, sf_memory *memory);
void sf_backend_return(sf_context *ctx, sf_device device, void *stream, sf_memory *memory);

/* Copies between the host's memory and the device's, or within it, after the stream's work, and waits for it. */
sf_status sf_backend_copy(sf_context *ctx, sf_device device, void *stream, void *to, const void *from, size_t size);

/* Are these offsets such as an axis of n elements may have? On a device only where the context asks for that: it waits for them. */
sf_status sf_backend_check_segments(sf_context *ctx, sf_device device, void *stream, const sf_segments *segments, int64_t n);

/* Memory that outlives a run: what a plan keeps. Freeing waits for the device. */
sf_status sf_backend_keep(sf_context *ctx, sf_device device, size_t size, sf_memory *memory);
void sf_backend_free(sf_context *ctx, sf_device device, sf_memory *memory);

/*
 * A run works on such memory, by the steps it launches on its stream between these two: it reads
 * what another run has written there, or writes it anew. Runs that write do so alone on the host;
 * on the device, work on one stream is put behind work on another where it must be. Begin returns
 * what end is to be told, or a negative number: this run has to do without the memory. Calls about
 * one memory must not overlap.
 */
enum { SF_MEMORY_LOST = -2 }; /* the device was reset since: it can only be freed */
int32_t sf_backend_begin(sf_context *ctx, sf_device device, void *stream, const sf_memory *memory,
                         bool writes);
void sf_backend_end(sf_context *ctx, sf_device device, void *stream, const sf_memory *memory,
                    int32_t place, bool wrote);

#endif
