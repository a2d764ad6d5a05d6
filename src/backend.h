/* The backends: the tensors' device selects one, unless the context asks for the reference. */
#ifndef SF_BACKEND_H
#define SF_BACKEND_H

#include "core/again.h"

/* All host memory counts as one device: pinned or not, and whatever its device_id is. */
static inline bool sf_on_host(sf_device device)
{
        return device.device_type == SF_CPU || device.device_type == SF_CUDA_HOST;
}

static inline bool sf_same_device(sf_device a, sf_device b)
{
        return sf_on_host(a) ? sf_on_host(b)
                             : a.device_type == b.device_type && a.device_id == b.device_id;
}

/* Is there a backend for this device? Fails with an error message if not. `name` is the
 * tensor's. */
sf_status sf_backend_check(const sf_context *ctx, const char *name, sf_device device);

/* `workspace`, if not NULL, is the caller's scratch memory on the step's device. */
sf_status sf_backend_run(sf_context *ctx, const sf_step *step, void *workspace, size_t workspace_size);

/*
 * May a plan rely on `other` being computed in the same read as the `count` steps before it, which
 * share one? Returns NULL, or the reason why not, to be printed after a colon. This is asked before
 * there are tensors: of the steps' geometry only n is set, and of their programs all but the
 * operands.
 */
const char *sf_backend_apart(sf_device device, int32_t count, const sf_step *const *steps, const sf_step *other);

/* Does the backend compute two results of one scan without scanning twice, if sf_backend_apart
 * allows it, and read operands that lack an element (sf_operand.lacks_last)? */
bool sf_backend_doubles(sf_device device);

/*
 * May a plan rely on the last stage of this chain following the others line by line, so that what
 * they have read is not read from memory again? Returns NULL, or the reason why not, to be printed
 * after a colon; the plan then makes that stage a pass of its own. This is asked before there are
 * tensors: n and batch are set, and of the programs' operands dt and made. Whatever the answer, a
 * chain that is run gives its results.
 */
const char *sf_backend_follows(sf_device device, const sf_step *chain);

/* The most steps of a chain and of folds across its lines (sf_step.across) that the backend may compute
 * in one read; 0: none. */
int32_t sf_backend_crosses(sf_device device);

/* The bytes of scratch that the step needs on its device and that the caller may provide; 0 on the
 * CPU. */
sf_status sf_backend_workspace(sf_context *ctx, const sf_step *step, size_t *size);

/*
 * Results that are not finite are computed again (core/again.h). all_finite: true if the host can
 * see, without waiting, that there are none; only those fields of `again` are set that describe the
 * results. again: computes those that are not finite.
 */
bool sf_backend_all_finite(sf_context *ctx, const sf_again *again);
sf_status sf_backend_again(sf_context *ctx, const sf_again *again);

/* ------------------------------------------------------------------------------------------------------------
 * Memory on the device of a run, 256-byte aligned and not initialised
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct sf_memory {
        void *data;
        void *owner; /* what the backend needs to free it */
} sf_memory;

/*
 * Scratch for one run of several steps. On CUDA it is ordered by the stream: it may be returned as
 * soon as the last step that uses it has been launched. A warm call allocates nothing. On a stream
 * that is being captured the memory belongs to the graph.
 */
sf_status sf_backend_borrow(sf_context *ctx, sf_device device, void *stream, size_t size, sf_memory *memory);
void sf_backend_return(sf_context *ctx, sf_device device, void *stream, sf_memory *memory);

/* Copies between host and device memory, or within one of them, after the work that is on the
 * stream, and waits for the copy. */
sf_status sf_backend_copy(sf_context *ctx, sf_device device, void *stream, void *to, const void *from, size_t size);

/*
 * Memory on the host that is copied fast, and that work on a CUDA device can write: for values that
 * the host waits for. NULL if there is none of so many bytes, or somebody else has it. After a wait
 * the host sees what work on the stream has written.
 */
void sf_backend_share(sf_context *ctx, sf_device device, size_t size, sf_memory *memory);
/* Copies what is in it to the device in the stream's order, without waiting: nobody gets the memory
 * again before it has been copied. */
sf_status sf_backend_send(sf_context *ctx, sf_device device, void *stream, void *to, const sf_memory *memory, size_t size);
/* Writes the lowest `size` bytes of a number to the device, in the stream's order and in less time than a
 * launch takes. False: this cannot be done here, and nothing was. */
bool sf_backend_write(sf_context *ctx, sf_device device, void *stream, void *to, uint64_t bits, size_t size);
void sf_backend_unshare(sf_memory *memory);
sf_status sf_backend_wait(sf_context *ctx, sf_device device, void *stream);

/* Are these offsets valid for an axis of n elements? On a device this is checked only where the
 * context asks for it, because the call has to wait for their values. */
sf_status sf_backend_check_segments(sf_context *ctx, sf_device device, void *stream, const sf_segments *segments, int64_t n);

/* Memory that outlives a run: what a plan keeps between runs. Freeing waits for the device. */
sf_status sf_backend_keep(sf_context *ctx, sf_device device, size_t size, sf_memory *memory);
void sf_backend_free(sf_context *ctx, sf_device device, sf_memory *memory);

/*
 * A run uses such memory by the steps that it launches on its stream between these two calls: it
 * reads what another run has written there, or writes it anew. As the host sees it, a run that
 * writes is the only one that uses the memory; on the device, work on one stream waits for work on
 * another where it must. Begin returns a number to be passed to end, or a negative number: this run
 * cannot use the memory. Calls about one memory must not overlap.
 */
enum { SF_MEMORY_LOST = -2 }; /* the device has been reset: the memory can only be freed */
int32_t sf_backend_begin(sf_context *ctx, sf_device device, void *stream, const sf_memory *memory,
                         bool writes);
void sf_backend_end(sf_context *ctx, sf_device device, void *stream, const sf_memory *memory,
                    int32_t place, bool wrote);

#endif
