/*
 * Scratch memory, in stream order.
 *
 * Calls on one stream run one after another, so they share one block, kept from call to call and grown in stream order: a warm
 * call allocates nothing. The lock is held from take to give: two threads' launches on one stream must not interleave while they
 * use one block.
 *
 * A stream is told from others by the driver's number for it, which is never used again: handles are. Where the driver has no such
 * numbers only the legacy default stream, which there is one of, keeps a block; others, and streams beyond SF_CUDA_LANES, allocate
 * and release in stream order with each call.
 *
 * A captured call cannot share its stream's block: the graph runs later, on any stream, beside anything. It gets a block that belongs
 * to the graph and comes back when the graph is destroyed.
 */
#include "cuda/cuda_device.h"

#include <stdlib.h>

/* The least a block has: growing step by step from a few bytes would allocate many times over. */
#define LEAST ((size_t)1 << 20)

/* Two of the driver's names for streams, beside NULL for the legacy one. */
#define LEGACY ((cu_stream)0x1)

/* ------------------------------------------------------------------------------------------------------------
 * Blocks of graphs
 * ---------------------------------------------------------------------------------------------------------- */

/* Called by the driver, on a thread of its own, when the last graph that holds the block is gone. It may not call the driver. */
static void give_back(void *data)
{
        sf_cuda_graph_block *block = data;
        block->next = atomic_load_explicit(&block->device->given_back, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(&block->device->given_back, &block->next, block, memory_order_release,
                                                      memory_order_relaxed))
                ;
}

/* A free block that is big enough and not wastefully so, or a new one. Under the lock. */
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

static sf_status take_captured(const sf_context *ctx, sf_cuda_device *d, cu_graph graph, size_t size, sf_cuda_scratch *scratch)
{
        sf_cuda_graph_block *block = NULL;
        cu_object object;
        cu_result code = take_block(d, size, &block);
        if (code != CU_OK)
                return sf_driver_fail(ctx, d->driver, code, d->ordinal, "allocating scratch memory for a captured "
                                                                        "call");
        code = d->driver->user_object(&object, block, give_back, 1, CU_OBJECT_NO_SYNC);
        if (code == CU_OK) {
                code = d->driver->graph_retain(graph, object, 1, CU_GRAPH_MOVE);
                if (code != CU_OK)
                        d->driver->object_release(object, 1); /* which gives the block back */
        } else {
                give_back(block);
        }
        if (code != CU_OK)
                return sf_driver_fail(ctx, d->driver, code, d->ordinal, "giving a graph being captured its scratch "
                                                                        "memory");
        scratch->base = block->base;
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * Blocks of streams
 * ---------------------------------------------------------------------------------------------------------- */
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
        d->driver->release(base); /* waits until the device has done with it: no pools, no choice */
        sf_cuda_device_restore(d, mode);
}

/* The stream's lane, a new one if there is room, or NULL. Under the lock. */
static sf_cuda_lane *find_lane(sf_cuda_device *d, cu_stream stream)
{
        uint64_t number = 0;
        if (stream == LEGACY)
                stream = NULL;
        /* The legacy stream has number 0 here, whatever the driver's for it: no other stream has that handle. */
        if (stream) {
                if (!d->driver->stream_id || d->driver->stream_id(stream, &number) != CU_OK)
                        return NULL;
                number++;
        }
        for (int32_t i = 0; i < d->nlanes; i++)
                if (d->lanes[i].stream == number)
                        return &d->lanes[i];
        if (d->nlanes == SF_CUDA_LANES)
                return NULL;
        d->lanes[d->nlanes] = (sf_cuda_lane){.stream = number};
        return &d->lanes[d->nlanes++];
}

sf_status sf_cuda_scratch_take(const sf_context *ctx, sf_cuda_device *d, cu_stream stream, size_t size, sf_cuda_scratch *scratch)
{
        int capture = 0;
        cu_graph graph = NULL;
        cu_result code = d->driver->capture_info(stream, &capture, NULL, &graph, NULL, NULL);
        sf_status status = SF_OK;

        *scratch = (sf_cuda_scratch){.locked = true};
        if (code != CU_OK && code != CU_CAPTURE_IMPLICIT) {
                scratch->locked = false;
                return sf_driver_fail(ctx, d->driver, code, d->ordinal, "looking at the stream");
        }
        pthread_mutex_lock(&d->scratch_lock);
        if (code == CU_OK && capture == CU_CAPTURE_ACTIVE) {
                status = take_captured(ctx, d, graph, size, scratch);
                goto done;
        }
        sf_cuda_lane *lane = find_lane(d, stream);
        if (lane && lane->size >= size) {
                scratch->base = lane->base;
                return SF_OK;
        }
        size_t wanted = lane ? size > 2 * lane->size ? size : 2 * lane->size : size;
        if (lane && wanted < LEAST)
                wanted = LEAST;
        code = allocate(d, wanted, stream, &scratch->base);
        if (code == CU_OUT_OF_MEMORY && wanted > size)
                code = allocate(d, wanted = size, stream, &scratch->base);
        if (code != CU_OK) {
                status = sf_driver_fail(ctx, d->driver, code, d->ordinal, "allocating scratch memory");
        } else if (!lane) {
                scratch->once = true;
        } else {
                if (lane->size)
                        release(d, stream, lane->base);
                lane->base = scratch->base;
                lane->size = wanted;
        }
done:
        if (status != SF_OK) {
                pthread_mutex_unlock(&d->scratch_lock);
                scratch->locked = false;
        }
        return status;
}

void sf_cuda_scratch_give(sf_cuda_device *d, cu_stream stream, sf_cuda_scratch *scratch)
{
        if (scratch->once)
                release(d, stream, scratch->base);
        if (scratch->locked)
                pthread_mutex_unlock(&d->scratch_lock);
        scratch->locked = false;
}
