/*
 * Scratch memory, in stream order.
 *
 * Calls on one stream run one after another. So they share one block, kept from call to call and
 * grown in stream order, and a warm call allocates nothing. The lock is held from take to give,
 * because the launches of two threads on one stream must not interleave while they use the same
 * block.
 *
 * Words that the blocks of a launch watch contain the launch's mark (tree_totals.cuh), so values of
 * earlier launches may stay there. These words have a memory block of their own, which is cleared
 * when it is new, and again long before marks repeat.
 *
 * A stream is identified by its number (cuda_streams.c), which, unlike a handle, is never used
 * again. Streams without a number allocate and release in stream order with each call.
 *
 * Nothing tells us when a stream is destroyed. So if there are more than FEW streams, every call
 * records an event after its launches. A stream that finds all SF_CUDA_LANES taken gets the memory
 * of the one that has been idle for longest, if the event says that its work has ended. Otherwise
 * it allocates with each call. Programs with few streams record nothing.
 *
 * A captured call cannot share its stream's block: the graph runs later, on any stream, at the same
 * time as anything. It gets a block that belongs to the graph and is returned when the graph is
 * destroyed.
 *
 * Memory that a run of several steps keeps between them is borrowed: a block that nobody else sees
 * until it is returned, so that no lock is held meanwhile. The next borrower on the same stream,
 * whose work comes later, can use a returned block.
 */
#include "cuda/cuda_device.h"
#include "cuda/kernels/shared.h"

#include <stdlib.h>

/* The smallest block: growing step by step from a few bytes would allocate many times. */
#define LEAST ((size_t)1 << 20)

/* Up to this many streams, no events are recorded: most programs have fewer. */
#define FEW 8

/* ------------------------------------------------------------------------------------------------
 * Blocks of graphs
 * ---------------------------------------------------------------------------------------------- */

/* The driver calls this, on a thread of its own, when the last graph that holds the block is
 * destroyed. It must not call the driver. */
static void give_back(void *data)
{
        sf_cuda_graph_block *block = data;
        block->next = atomic_load_explicit(&block->device->given_back, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(&block->device->given_back, &block->next, block, memory_order_release,
                                                      memory_order_relaxed))
                ;
}

/* A free block that is large enough, but not much too large; else a new one. Call it under the
 * lock. */
static cu_result take_block(sf_cuda_device *d, size_t size, sf_cuda_graph_block **taken)
{
        sf_cuda_graph_block *back = atomic_exchange_explicit(&d->given_back, NULL, memory_order_acquire), *block;
        while ((block = back)) {
                back = block->next;
                block->next = d->blocks;
                d->blocks = block;
        }
        for (sf_cuda_graph_block **at = &d->blocks; (block = *at); at = &block->next)
                if (block->size >= size && block->size / 8 <= size) {
                        *at = block->next;
                        *taken = block;
                        return CU_OK;
                }
        if (!(block = malloc(sizeof *block)))
                return CU_OUT_OF_MEMORY;
        int mode;
        sf_cuda_device_relax(d, &mode);
        cu_result code = d->driver->allocate(&block->base, size);
        sf_cuda_device_restore(d, mode);
        if (code != CU_OK) {
                free(block);
                return code;
        }
        block->device = d;
        block->size = size;
        *taken = block;
        return CU_OK;
}

/* Now, not when the graph runs, because every run continues with what the one before it left. */
static cu_result clear_block(const sf_cuda_device *d, const sf_cuda_graph_block *block)
{
        const sf_driver *driver = d->driver;
        cu_stream own;
        int mode;
        sf_cuda_device_relax(d, &mode);
        cu_result code = driver->stream_create(&own, CU_STREAM_NON_BLOCKING);
        if (code == CU_OK) {
                code = driver->clear_async(block->base, 0, block->size, own);
                cu_result after = driver->stream_wait(own);
                driver->stream_destroy(own);
                code = code == CU_OK ? after : code;
        }
        sf_cuda_device_restore(d, mode);
        return code;
}

static sf_status take_captured(const sf_context *ctx, sf_cuda_device *d, cu_graph graph, size_t size, bool watched, sf_cuda_scratch *scratch)
{
        sf_cuda_graph_block *block = NULL;
        cu_object object;
        cu_result code = take_block(d, size, &block);
        if (code != CU_OK)
                return sf_cuda_device_fail(ctx, d, code, "allocating scratch memory for a captured "
                                                                        "call");
        if (watched && (code = clear_block(d, block)) != CU_OK) {
                give_back(block);
                return sf_cuda_device_fail(ctx, d, code,
                                           "clearing scratch memory for a captured call");
        }
        code = d->driver->user_object(&object, block, give_back, 1, CU_OBJECT_NO_SYNC);
        if (code == CU_OK) {
                code = d->driver->graph_retain(graph, object, 1, CU_GRAPH_MOVE);
                if (code != CU_OK)
                        d->driver->object_release(object, 1); /* this returns the block */
        } else {
                give_back(block);
        }
        if (code != CU_OK)
                return sf_cuda_device_fail(ctx, d, code,
                                           "giving a graph being captured its scratch "
                                                                        "memory");
        scratch->base = block->base;
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Blocks of streams
 * ---------------------------------------------------------------------------------------------- */
static cu_result allocate(const sf_cuda_device *d, size_t size, cu_stream stream, cu_address *base)
{
        int mode;
        if (d->pools)
                return d->driver->allocate_async(base, size, stream);
        sf_cuda_device_relax(d, &mode);
        cu_result code = d->driver->allocate(base, size);
        sf_cuda_device_restore(d, mode);
        return code;
}

static void release(const sf_cuda_device *d, cu_stream stream, cu_address base)
{
        int mode;
        if (d->pools) {
                d->driver->release_async(base, stream);
                return;
        }
        sf_cuda_device_relax(d, &mode);
        d->driver->release(base); /* without pools, this waits until the device no longer uses it */
        sf_cuda_device_restore(d, mode);
}

/* The stream's lane: its own, a new one, an idle one, or NULL. Call it under the lock. */
static sf_cuda_lane *find_lane(sf_cuda_device *d, cu_stream stream)
{
        uint64_t number;
        sf_cuda_lane *idle = NULL;
        if (!sf_cuda_stream_number(d, stream, &number))
                return NULL;
        for (int32_t i = 0; i < d->nlanes; i++) {
                sf_cuda_lane *lane = &d->lanes[i];
                if (lane->use.stream == number)
                        return lane;
                if (lane->use.told && (!idle || lane->turn < idle->turn))
                        idle = lane;
        }
        if (d->nlanes < SF_CUDA_LANES)
                idle = &d->lanes[d->nlanes++];
        else if (!idle || !sf_cuda_use_over(d, &idle->use))
                return NULL;
        idle->use.stream = number;
        return idle;
}

sf_status sf_cuda_scratch_take(const sf_context *ctx, sf_cuda_device *d, cu_stream stream, size_t size, bool watched, sf_cuda_scratch *scratch)
{
        int capture = 0;
        cu_graph graph = NULL;
        cu_result code = d->driver->capture_info(stream, &capture, NULL, &graph, NULL, NULL);
        sf_status status = SF_OK;

        *scratch = (sf_cuda_scratch){.locked = true};
        if (code != CU_OK && code != CU_CAPTURE_IMPLICIT) {
                scratch->locked = false;
                return sf_cuda_device_fail(ctx, d, code, "looking at the stream");
        }
        pthread_mutex_lock(&d->scratch_lock);
        if (code == CU_OK && capture == CU_CAPTURE_ACTIVE) {
                status = take_captured(ctx, d, graph, size, watched, scratch);
                goto done;
        }
        sf_cuda_lane *lane = scratch->lane = find_lane(d, stream);
        size_t held = lane ? lane->block[watched].size : 0;
        if (lane && watched) {
                scratch->marks = &lane->marks;
                if (held < size || lane->marks == SF_MOST_MARKS)
                        lane->marks = 0;
        }
        if (lane && held >= size) {
                scratch->base = lane->block[watched].base;
                scratch->fresh = lane->marks ? 0 : held;
                return SF_OK;
        }
        size_t wanted = lane ? size > 2 * held ? size : 2 * held : size;
        if (lane && wanted < LEAST)
                wanted = LEAST;
        code = allocate(d, wanted, stream, &scratch->base);
        if (code == CU_OUT_OF_MEMORY && wanted > size)
                code = allocate(d, wanted = size, stream, &scratch->base);
        scratch->fresh = wanted;
        if (code != CU_OK) {
                status = sf_cuda_device_fail(ctx, d, code, "allocating scratch memory");
        } else if (!lane) {
                scratch->once = true;
        } else {
                if (held)
                        release(d, stream, lane->block[watched].base);
                lane->block[watched].base = scratch->base;
                lane->block[watched].size = wanted;
        }
done:
        if (status != SF_OK) {
                pthread_mutex_unlock(&d->scratch_lock);
                scratch->locked = false;
        }
        return status;
}

void sf_cuda_scratch_give(sf_cuda_device *d, cu_stream stream, sf_cuda_scratch *scratch, bool launched)
{
        if (scratch->marks && launched)
                ++*scratch->marks;
        if (scratch->lane) {
                scratch->lane->turn = ++d->turns;
                if (d->nlanes > FEW)
                        sf_cuda_use_end(d, &scratch->lane->use, stream);
        }
        if (scratch->once)
                release(d, stream, scratch->base);
        if (scratch->locked)
                pthread_mutex_unlock(&d->scratch_lock);
        scratch->locked = false;
}

/* ------------------------------------------------------------------------------------------------
 * Borrowed blocks
 * ---------------------------------------------------------------------------------------------- */

/* A returned block of this stream: the first that is large enough, else any, which the caller
 * replaces. If there is none and no more can be kept, the one that has been idle for longest. Call
 * it under the lock. */
static sf_cuda_block *find_block(sf_cuda_device *d, uint64_t stream, size_t size)
{
        sf_cuda_block **found = NULL, **idle = NULL;
        for (sf_cuda_block **at = &d->returned; *at; at = &(*at)->next) {
                if ((*at)->use.stream == stream) {
                        found = at;
                        if ((*at)->size >= size)
                                break;
                }
                if ((*at)->use.told)
                        idle = at;
        }
        if (!found && idle && d->nreturned == SF_CUDA_LANES && sf_cuda_use_over(d, &(*idle)->use))
                found = idle;
        if (!found)
                return NULL;
        sf_cuda_block *block = *found;
        *found = block->next;
        d->nreturned--;
        return block;
}

/* Frees the description of a block whose memory is gone, or was never allocated. */
static void forget_block(const sf_cuda_device *d, sf_cuda_block *block)
{
        if (block->use.event)
                d->driver->event_destroy(block->use.event);
        free(block);
}

sf_status sf_cuda_scratch_borrow(const sf_context *ctx, sf_cuda_device *d, cu_stream stream, size_t size, cu_address *base, sf_cuda_block **owner)
{
        int capture = 0;
        cu_graph graph = NULL;
        cu_result code = d->driver->capture_info(stream, &capture, NULL, &graph, NULL, NULL);
        uint64_t number = 0;
        *owner = NULL;
        if (code != CU_OK && code != CU_CAPTURE_IMPLICIT)
                return sf_cuda_device_fail(ctx, d, code, "looking at the stream");
        if (code == CU_OK && capture == CU_CAPTURE_ACTIVE) {
                sf_cuda_scratch scratch = {0};
                pthread_mutex_lock(&d->scratch_lock);
                sf_status status = take_captured(ctx, d, graph, size, false, &scratch);
                pthread_mutex_unlock(&d->scratch_lock);
                *base = scratch.base;
                return status;
        }
        bool named = sf_cuda_stream_number(d, stream, &number);
        sf_cuda_block *block = NULL;
        if (named) {
                pthread_mutex_lock(&d->scratch_lock);
                block = find_block(d, number, size);
                pthread_mutex_unlock(&d->scratch_lock);
        }
        if (block && block->size < size) {
                release(d, stream, block->base);
                block->size = 0;
        }
        if (!block && !(block = calloc(1, sizeof *block)))
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory to remember a block of scratch memory");
        block->device = d;
        block->named = named;
        block->use.stream = number;
        block->use.told = false;
        if (!block->size) {
                if ((code = allocate(d, size, stream, &block->base)) != CU_OK) {
                        forget_block(d, block);
                        return sf_cuda_device_fail(ctx, d, code, "allocating scratch memory");
                }
                block->size = size;
        }
        *base = block->base;
        *owner = block;
        return SF_OK;
}

void sf_cuda_scratch_return(sf_cuda_device *d, cu_stream stream, sf_cuda_block *block)
{
        bool kept = false;
        if (!block)
                return; /* a graph owns it */
        if (block->device != d) { /* it was reset, which freed the memory */
                free(block);
                return;
        }
        if (block->named) {
                pthread_mutex_lock(&d->scratch_lock);
                kept = d->nreturned < SF_CUDA_LANES;
                if (kept) {
                        if (d->nreturned >= FEW)
                                sf_cuda_use_end(d, &block->use, stream);
                        block->next = d->returned;
                        d->returned = block;
                        d->nreturned++;
                }
                pthread_mutex_unlock(&d->scratch_lock);
        }
        if (!kept) {
                release(d, stream, block->base);
                forget_block(d, block);
        }
}
