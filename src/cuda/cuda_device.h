/* cuda_device.h: a device in use: its primary context, its properties, its loaded kernels, its
 * scratch memory. */
#ifndef SF_CUDA_DEVICE_H
#define SF_CUDA_DEVICE_H

#include "cuda/driver.h"
#include "cuda/launch.h"

#include <pthread.h>

#define SF_CUDA_MAX_DEVICES 64
#define SF_CUDA_LANES 64

/* A loaded kernel. It is never changed or freed once other threads can see it. */
typedef struct sf_cuda_kernel_entry {
        sf_cuda_spec spec;
        cu_function function;
} sf_cuda_kernel_entry;

/* Open addressing, at most half full. A bigger table replaces it; the old one stays, because a
 * reader may be using it. */
typedef struct sf_cuda_kernel_table {
        struct sf_cuda_kernel_table *replaced; /* the one before */
        size_t mask, count;
        _Atomic(sf_cuda_kernel_entry *) slots[];
} sf_cuda_kernel_table;

/* The work of one stream on some memory, and whether it has ended. */
typedef struct sf_cuda_use {
        uint64_t stream; /* its number */
        bool told;       /* the event was recorded after the latest work */
        cu_event event;  /* created when first needed */
} sf_cuda_use;

/* The scratch that calls on one stream share, one after another: one block for totals, one for
 * words that thread blocks watch. */
typedef struct sf_cuda_lane {
        sf_cuda_use use;
        uint64_t turn; /* of the latest call; larger is later */
        struct {
                cu_address base;
                size_t size;
        } block[2];
        uint32_t marks; /* launches since the watched words were cleared; 0: not cleared yet */
} sf_cuda_lane;

/* The scratch of one captured call. It belongs to the graph until the graph is destroyed. */
typedef struct sf_cuda_graph_block {
        struct sf_cuda_graph_block *next;
        struct sf_cuda_device *device;
        cu_address base;
        size_t size;
} sf_cuda_graph_block;

/* The scratch of a run of several steps. */
typedef struct sf_cuda_block {
        struct sf_cuda_block *next;
        struct sf_cuda_device *device;
        bool named; /* the stream has a number */
        sf_cuda_use use;
        cu_address base;
        size_t size;
} sf_cuda_block;

typedef struct sf_cuda_device {
        struct sf_cuda_device *forgotten; /* the device that was forgotten before this one */
        const sf_driver *driver;
        int ordinal;
        cu_device device;
        cu_context context; /* the primary one */
        uint64_t context_id; /* if the driver has such numbers */
        sf_cuda_chip chip;
        bool pools;      /* has stream-ordered allocation */
        bool reads_host; /* can read host memory, so host pointers are not refused */
        /* a launch's blocks may start before the launch before it has ended; see sf_take_turn */
        bool overlaps;

        _Atomic(sf_cuda_kernel_table *) kernels;
        pthread_mutex_t kernels_lock; /* taken to add a kernel, not to find one */

        pthread_mutex_t scratch_lock; /* held while a call that uses scratch is being launched */
        int32_t nlanes;
        uint64_t turns; /* how many calls have used lanes */
        sf_cuda_lane lanes[SF_CUDA_LANES];
        int32_t nreturned;
        /* at most SF_CUDA_LANES, the latest first; protected by the lock */
        sf_cuda_block *returned;
        sf_cuda_graph_block *blocks;               /* free blocks; protected by the lock */
        /* returned by destroyed graphs, to be moved to `blocks` */
        _Atomic(sf_cuda_graph_block *) given_back;
        atomic_bool sharing; /* somebody has `shared`: SF_CUDA_SHARED bytes, allocated when needed */
        void *shared;
        bool sent; /* a copy that nobody waited for, `sending`, may still read it */
        sf_cuda_use sending;
} sf_cuda_device;

/* The device, initialised on first use. */
sf_status sf_cuda_device_get(const sf_context *ctx, int32_t ordinal, sf_cuda_device **device);

/* Makes the next sf_cuda_device_get initialise it again: its context was reset, and all that was
 * loaded and allocated is lost. */
void sf_cuda_device_forget(sf_cuda_device *device);

/* As sf_driver_fail. If the code says that the context no longer exists, the device is
 * forgotten. */
sf_status sf_cuda_device_fail(const sf_context *ctx, sf_cuda_device *device, cu_result code,
                              const char *doing) SF_COLD;

/* Makes the device's context current; *entered tells leave whether to restore the caller's. A
 * device that was reset since the last call is initialised again; nothing that belonged to the old
 * one is used again. */
sf_status sf_cuda_device_enter(const sf_context *ctx, int32_t ordinal, sf_cuda_device **device,
                               bool *entered);
void sf_cuda_device_leave(const sf_cuda_device *device, bool entered);

/* Between these two the thread may make calls that are forbidden while another stream is being
 * captured. */
void sf_cuda_device_relax(const sf_cuda_device *device, int *mode);
void sf_cuda_device_restore(const sf_cuda_device *device, int mode);

/* The kernel of a specialisation: from memory, else from disk, else compiled. The device's context
 * must be current. */
sf_status sf_cuda_device_kernel(const sf_context *ctx, sf_cuda_device *device, const sf_cuda_spec *spec, cu_function *function);

/* ------------------------------------------------------------------------------------------------
 * cuda_scratch.c
 * ---------------------------------------------------------------------------------------------- */
typedef struct sf_cuda_scratch {
        cu_address base;
        /* how many bytes, from the first, must be cleared before they are watched */
        size_t fresh;
        sf_cuda_lane *lane; /* or NULL */
        uint32_t *marks;    /* of the lane whose words are watched, or NULL */
        bool locked, once;  /* what give must undo */
} sf_cuda_scratch;

/* Memory for the next launches on `stream`, until give. Watched memory is as earlier launches left
 * it, or fresh. When warm, it allocates nothing and never waits for the device. */
sf_status sf_cuda_scratch_take(const sf_context *ctx, sf_cuda_device *device, cu_stream stream, size_t size, bool watched, sf_cuda_scratch *scratch);
void sf_cuda_scratch_give(sf_cuda_device *device, cu_stream stream, sf_cuda_scratch *scratch, bool launched);

/* Memory for the next launches on `stream`, until it is returned; meanwhile others may take and
 * give. *owner is what to return; NULL if a graph that is being captured owns the memory. When
 * warm, it allocates nothing. */
sf_status sf_cuda_scratch_borrow(const sf_context *ctx, sf_cuda_device *device, cu_stream stream, size_t size, cu_address *base, sf_cuda_block **owner);
void sf_cuda_scratch_return(sf_cuda_device *device, cu_stream stream, sf_cuda_block *owner);

/* ------------------------------------------------------------------------------------------------
 * cuda_streams.c
 * ---------------------------------------------------------------------------------------------- */

/* A number that no other stream of the process has or will ever have; false if there is none. */
bool sf_cuda_stream_number(const sf_cuda_device *device, cu_stream stream, uint64_t *number);

/* sf_cuda_use_end: everything launched on `stream` so far belongs to the use. sf_cuda_use_over: has
 * all of it ended? False also if that is unknown. Neither waits. */
void sf_cuda_use_end(const sf_cuda_device *device, sf_cuda_use *use, cu_stream stream);
bool sf_cuda_use_over(const sf_cuda_device *device, const sf_cuda_use *use);

/* A result that is kept: memory that outlives runs, and the streams that use it. A run begins and
 * ends its work on it, on one stream; backend.h says how. */
typedef struct sf_cuda_kept sf_cuda_kept;
sf_status sf_cuda_kept_create(const sf_context *ctx, sf_cuda_device *device, size_t size,
                              sf_cuda_kept **kept, cu_address *base);
void sf_cuda_kept_destroy(sf_cuda_device *device, sf_cuda_kept *kept);
int32_t sf_cuda_kept_begin(sf_cuda_device *device, sf_cuda_kept *kept, cu_stream stream,
                           bool writes);
void sf_cuda_kept_end(sf_cuda_device *device, sf_cuda_kept *kept, cu_stream stream, int32_t place,
                      bool wrote);

#endif
