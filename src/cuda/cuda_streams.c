/*
 * Streams: how to tell them apart, when work on memory has ended, and results that are kept from
 * run to run.
 *
 * A handle does not identify a stream: the next stream may get the handle of a destroyed one, and
 * 0x2 is another stream on every thread. So streams are told apart by numbers that are never used
 * again. Without such numbers (a driver before CUDA 12.0), every call is treated as on a new
 * stream.
 */
#include "cuda/cuda.h"
#include "cuda/cuda_device.h"

#include <stdlib.h>

/* Two of the driver's handles for special streams, besides NULL for the legacy stream. */
#define LEGACY ((cu_stream)0x1)
#define PER_THREAD ((cu_stream)0x2)

bool sf_cuda_stream_number(const sf_cuda_device *d, cu_stream stream, uint64_t *number)
{
        static atomic_uint_fast64_t threads;
        static _Thread_local uint64_t mine;
        *number = 0; /* the legacy stream; there is only one */
        if (!stream || stream == LEGACY)
                return true;
        if (stream == PER_THREAD) {
                if (!mine)
                        mine = (uint64_t)1 << 63 | atomic_fetch_add(&threads, 1);
                *number = mine;
                return true;
        }
        if (!d->driver->stream_id || d->driver->stream_id(stream, number) != CU_OK)
                return false;
        ++*number;
        return true;
}

/* ------------------------------------------------------------------------------------------------
 * Uses of memory
 * ---------------------------------------------------------------------------------------------- */
void sf_cuda_use_end(const sf_cuda_device *d, sf_cuda_use *use, cu_stream stream)
{
        int mode;
        use->told = false;
        if (!use->event) {
                sf_cuda_device_relax(d, &mode);
                if (d->driver->event_create(&use->event, CU_EVENT_NO_TIMING) != CU_OK)
                        use->event = NULL;
                sf_cuda_device_restore(d, mode);
        }
        if (use->event)
                use->told = d->driver->event_record(use->event, stream) == CU_OK;
}

bool sf_cuda_use_over(const sf_cuda_device *d, const sf_cuda_use *use)
{
        int mode;
        if (!use->told)
                return false;
        sf_cuda_device_relax(d, &mode);
        cu_result code = d->driver->event_query(use->event);
        sf_cuda_device_restore(d, mode);
        return code == CU_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Kept results
 *
 * Many streams may read one at the same time. Each waits, on the device, for the stream that wrote
 * it. It is written again only if all work of other streams on it has ended, because streams must
 * not wait for each other; otherwise a run does not use it. A graph that is being captured does
 * not use it either, because it is not known what the graph should read when it runs.
 * ---------------------------------------------------------------------------------------------- */

/* The most streams that can use a result at once. */
#define USES 8

struct sf_cuda_kept {
        sf_cuda_device *device; /* not the current device if that was reset */
        cu_address base;
        int32_t made;     /* which use wrote it; -1: that work has ended */
        uint64_t writes;  /* how many so far */
        struct kept_use {
                sf_cuda_use use;
                bool taken, named;
                int32_t runs;  /* between begin and end */
                uint64_t seen; /* the last write that this stream's work comes after */
        } uses[USES];
};

sf_status sf_cuda_kept_create(const sf_context *ctx, sf_cuda_device *d, size_t size,
                              sf_cuda_kept **created, cu_address *base)
{
        int mode;
        sf_cuda_kept *kept = calloc(1, sizeof *kept);
        if (!kept)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory to remember what is kept");
        sf_cuda_device_relax(d, &mode);
        cu_result code = d->driver->allocate(&kept->base, size);
        sf_cuda_device_restore(d, mode);
        if (code != CU_OK) {
                free(kept);
                return sf_cuda_device_fail(ctx, d, code, "allocating memory that is kept");
        }
        kept->device = d;
        kept->made = -1;
        *created = kept;
        *base = kept->base;
        return SF_OK;
}

void sf_cuda_kept_destroy(sf_cuda_device *d, sf_cuda_kept *kept)
{
        int mode;
        if (d == kept->device) { /* else the context's reset freed everything */
                sf_cuda_device_relax(d, &mode);
                d->driver->release(kept->base); /* waits until the device no longer uses it */
                for (int32_t i = 0; i < USES; i++)
                        if (kept->uses[i].use.event)
                                d->driver->event_destroy(kept->uses[i].use.event);
                sf_cuda_device_restore(d, mode);
        }
        free(kept);
}

/* Is the place free? It also becomes free when its work has ended. */
static bool is_free(sf_cuda_kept *kept, int32_t place)
{
        struct kept_use *u = &kept->uses[place];
        if (u->taken && (u->runs || !sf_cuda_use_over(kept->device, &u->use)))
                return false;
        if (kept->made == place)
                kept->made = -1;
        u->taken = false;
        return true;
}

int32_t sf_cuda_kept_begin(sf_cuda_device *d, sf_cuda_kept *kept, cu_stream stream, bool writes)
{
        uint64_t number;
        int capture = 0;
        int32_t place = -1;
        if (d != kept->device)
                return SF_CUDA_LOST;
        if (d->driver->capture_info(stream, &capture, NULL, NULL, NULL, NULL) != CU_OK ||
            capture == CU_CAPTURE_ACTIVE)
                return -1;
        const bool named = sf_cuda_stream_number(d, stream, &number);
        for (int32_t i = 0; named && i < USES; i++)
                if (kept->uses[i].taken && kept->uses[i].named &&
                    kept->uses[i].use.stream == number)
                        place = i;
        for (int32_t i = 0; writes && i < USES; i++)
                if (i != place && !is_free(kept, i))
                        return -1;
        /* A place that is not taken, else one whose work has ended. */
        for (int32_t i = 0; place < 0 && i < 2 * USES; i++)
                if (i < USES ? !kept->uses[i].taken : is_free(kept, i - USES))
                        kept->uses[place = i % USES].seen = 0;
        if (place < 0)
                return -1;
        struct kept_use *u = &kept->uses[place];
        const struct kept_use *maker = kept->made < 0 ? u : &kept->uses[kept->made];
        if (!writes && maker != u && u->seen != kept->writes &&
            (!maker->use.told ||
             d->driver->stream_wait_event(stream, maker->use.event, 0) != CU_OK))
                return -1;
        u->taken = true;
        u->named = named;
        u->use.stream = number;
        u->seen = kept->writes;
        u->runs++;
        return place;
}

void sf_cuda_kept_end(sf_cuda_device *d, sf_cuda_kept *kept, cu_stream stream, int32_t place,
                      bool wrote)
{
        struct kept_use *u = &kept->uses[place];
        u->runs--;
        if (d != kept->device)
                return;
        sf_cuda_use_end(d, &u->use, stream);
        if (wrote) {
                kept->made = place;
                u->seen = ++kept->writes;
        }
}
