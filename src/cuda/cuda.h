/* cuda.h: the CUDA backend, as backend.c sees it: steps become launches on the caller's stream. */
#ifndef SF_CUDA_H
#define SF_CUDA_H

#include "core/again.h"

/* Is the driver there, and does it have this device? Fails with a sentence if not; `name` is the
 * tensor's name. Cheap when warm. */
sf_status sf_cuda_check(const sf_context *ctx, const char *name, sf_device device);

/*
 * Launches the step on step->stream and returns without waiting. A warm call compiles nothing and
 * allocates nothing. Warm and cold calls may be captured in a graph. The caller's current CUDA
 * context is the same before and after.
 */
sf_status sf_cuda_run(sf_context *ctx, const sf_step *step);

/* The same with the caller's scratch: at least what sf_cuda_workspace says, 256-byte aligned, on
 * the step's device. */
sf_status sf_cuda_run_in(sf_context *ctx, const sf_step *step, void *workspace, size_t size);

/*
 * May `other` share a read with the `count` steps at `steps`, which share one already? This depends
 * on what is computed, not where: of the geometry only n matters, of programs not the operands.
 * Folds share a read with folds, a scan with its total. NULL if so, or the reason why not.
 */
const char *sf_cuda_apart(int32_t count, const sf_step *const *steps, const sf_step *other);

/* May the last stage of a chain follow line by line? NULL, or why not: sf_backend_follows. */
const char *sf_cuda_follows(const sf_step *chain);

/* sf_backend_crosses */
enum { SF_CUDA_CROSSES = 7 };

/* How many bytes of scratch the step needs on its device; 0 for most. */
sf_status sf_cuda_workspace(sf_context *ctx, const sf_step *step, size_t *size);

/* One launch that computes again those results that are not finite when it runs: core/again.h. */
sf_status sf_cuda_again(sf_context *ctx, const sf_again *again);

/* Memory for a run of several steps on one stream, or that outlives a run: see backend.h. */
sf_status sf_cuda_copy(sf_context *ctx, sf_device device, void *stream, void *to, const void *from, size_t size);
enum { SF_CUDA_SHARED = 1 << 20 };
void sf_cuda_share(const sf_context *ctx, sf_device device, size_t size, void **data, void **owner);
/* Copies from that memory in the stream's order. Nobody gets the memory before it has been copied. */
sf_status sf_cuda_send(const sf_context *ctx, sf_device device, void *stream, void *to, const void *from, size_t size);
/* sf_backend_write */
bool sf_cuda_write(const sf_context *ctx, sf_device device, void *stream, void *to, uint64_t bits, size_t size);
void sf_cuda_unshare(void *owner);
sf_status sf_cuda_wait(sf_context *ctx, sf_device device, void *stream);
sf_status sf_cuda_borrow(const sf_context *ctx, sf_device device, void *stream, size_t size, void **data, void **owner);
void sf_cuda_return(const sf_context *ctx, sf_device device, void *stream, void *owner);
sf_status sf_cuda_keep(const sf_context *ctx, sf_device device, size_t size, void **data,
                       void **owner);
void sf_cuda_free(const sf_context *ctx, sf_device device, void *owner);
enum { SF_CUDA_LOST = -2 };
int32_t sf_cuda_begin(const sf_context *ctx, sf_device device, void *stream, void *owner,
                      bool writes);
void sf_cuda_end(const sf_context *ctx, sf_device device, void *stream, void *owner, int32_t place,
                 bool wrote);

#endif
