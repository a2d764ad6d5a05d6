/* cuda_device.h: a device in use: its primary context, what it is, its loaded kernels, its scratch memory. */
#ifndef SF_CUDA_DEVICE_H
#define SF_CUDA_DEVICE_H

#include "cuda/driver.h"
#include "cuda/launch.h"

#include <pthread.h>

#define SF_CUDA_MAX_DEVICES 64
#define SF_CUDA_LANES 64

/* A loaded kernel. Never changed and never freed once others can see it. */
typedef struct sf_cuda_kernel_entry {
        sf_cuda_spec spec;
        cu_function function;
} sf_cuda_kernel_entry;

/* Open addressing, at most half full. A bigger table replaces it; the old one stays, since a reader may be in it. */
typedef struct sf_cuda_kernel_table {
        struct sf_cuda_kernel_table *replaced; /* the one before */
        size_t mask, count;
        _Atomic(sf_cuda_kernel_entry *) slots[];
} sf_cuda_kernel_table;

/* Work of one stream on some memory, and whether it is over. */
typedef struct sf_cuda_use {
        uint64_t stream; /* its number */
        bool told;       /* the event stands behind the latest of the work */
        cu_event event;  /* made when it is first needed */
} sf_cuda_use;

/* The scratch that calls on one stream share, one after another: one block for totals, one for words that blocks watch. */
typedef struct sf_cuda_lane {
        sf_cuda_use use;
        uint64_t turn; /* of the latest call: the larger, the later */
        struct {
                cu_address base;
                size_t size;
        } block[2];
        uint32_t marks; /* launches since the words that are watched were cleared; 0: they have not been */
} sf_cuda_lane;

/* The scratch of one captured call: the graph's own, until the graph is gone. */
typedef struct sf_cuda_graph_block {
        struct sf_cuda_graph_block *next;
        struct sf_cuda_device *device;
        cu_address base;
        size_t size;
} sf_cuda_graph_block;

/* Scratch of a run of several steps. */
typedef struct sf_cuda_block {
        struct sf_cuda_block *next;
        struct sf_cuda_device *device;
        bool named; /* the stream has a number */
        sf_cuda_use use;
        cu_address base;
        size_t size;
} sf_cuda_block;

typedef struct sf_cuda_device {
        struct sf_cuda_device *forgotten; /* the one forgotten before this */
        const sf_driver *driver;
        int ordinal;
        cu_device device;
        cu_context context; /* the primary one */
        uint64_t context_id; /* where the driver has such numbers */
        sf_cuda_chip chip;
        bool pools;      /* has stream-ordered allocation */
        bool reads_host; /* has no use for telling host pointers from its own */
        bool overlaps;   /* blocks of a launch may take their places before the one in front has ended; see sf_take_turn */

        _Atomic(sf_cuda_kernel_table *) kernels;
        pthread_mutex_t kernels_lock; /* taken to add a kernel, not to find one */

        pthread_mutex_t scratch_lock; /* held while a call that uses scratch is being launched */
        int32_t nlanes;
        uint64_t turns; /* calls that have used lanes */
        sf_cuda_lane lanes[SF_CUDA_LANES];
        int32_t nreturned;
        sf_cuda_block *returned; /* at most SF_CUDA_LANES, the latest first, under the lock */
        sf_cuda_graph_block *blocks;               /* free, under the lock */
        _Atomic(sf_cuda_graph_block *) given_back; /* by graphs that are gone: a list to be moved to `blocks` */
} sf_cuda_device;

/* The device, brought up on first use. */
sf_status sf_cuda_device_get(const sf_context *ctx, int32_t ordinal, sf_cuda_device **device);

/* Makes the next sf_cuda_device_get bring it up anew: its context was reset, and with it all that was loaded and allocated. */
void sf_cuda_device_forget(sf_cuda_device *device);

/* As sf_driver_fail; where the code says that the context is no more, the device is forgotten. */
sf_status sf_cuda_device_fail(const sf_context *ctx, sf_cuda_device *device, cu_result code,
                              const char *doing) SF_COLD;

/* The device, its context made current; *entered tells leave whether the caller's is to be put
 * back. A device that was reset since the last call is brought up anew: what hung on the old one is
 * never used again. */
sf_status sf_cuda_device_enter(const sf_context *ctx, int32_t ordinal, sf_cuda_device **device,
                               bool *entered);
void sf_cuda_device_leave(const sf_cuda_device *device, bool entered);

/* Between these two the thread may call what a stream being captured elsewhere would forbid. */
void sf_cuda_device_relax(const sf_cuda_device *device, int *mode);
void sf_cuda_device_restore(const sf_cuda_device *device, int mode);

/* The kernel of a specialisation, from memory, else from disk, else compiled. The device's context is current. */
sf_status sf_cuda_device_kernel(const sf_context *ctx, sf_cuda_device *device, const sf_cuda_spec *spec, cu_function *function);

/* ------------------------------------------------------------------------------------------------------------
 * cuda_scratch.c
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct sf_cuda_scratch {
        cu_address base;
        size_t fresh;      /* so many of its bytes, from the first, must be cleared if they are to be watched */
        sf_cuda_lane *lane; /* or NULL */
        uint32_t *marks;    /* of the lane whose words are watched, or NULL */
        bool locked, once;  /* what give has to undo */
} sf_cuda_scratch;

/* Memory for the launches that follow on `stream`, until give. Watched: as launches before left it, or fresh. When warm, allocates nothing and
 * never waits for the device. */
sf_status sf_cuda_scratch_take(const sf_context *ctx, sf_cuda_device *device, cu_stream stream, size_t size, bool watched, sf_cuda_scratch *scratch);
void sf_cuda_scratch_give(sf_cuda_device *device, cu_stream stream, sf_cuda_scratch *scratch, bool launched);

/* Memory for the launches that follow on `stream`, until it is returned; between the two, others may take and give. *owner is what to
 * return, NULL where a graph being captured has the memory. When warm, allocates nothing. */
sf_status sf_cuda_scratch_borrow(const sf_context *ctx, sf_cuda_device *device, cu_stream stream, size_t size, cu_address *base, sf_cuda_block **owner);
void sf_cuda_scratch_return(sf_cuda_device *device, cu_stream stream, sf_cuda_block *owner);

/* ------------------------------------------------------------------------------------------------
 * cuda_streams.c
 * ---------------------------------------------------------------------------------------------- */

/* A number that no other stream of the process has or will have; false where nobody tells one. */
bool sf_cuda_stream_number(const sf_cuda_device *device, cu_stream stream, uint64_t *number);

/* Everything launched on `stream` so far belongs to the use; and is all of it over? False also
 * where it cannot be told. Neither waits. */
void sf_cuda_use_end(const sf_cuda_device *device, sf_cuda_use *use, cu_stream stream);
bool sf_cuda_use_over(const sf_cuda_device *device, const sf_cuda_use *use);

/* A result that is kept: memory that outlives runs, and the streams that work on it. A run begins
 * and ends its work on it, on one stream; backend.h says how. */
typedef struct sf_cuda_kept sf_cuda_kept;
sf_status sf_cuda_kept_create(const sf_context *ctx, sf_cuda_device *device, size_t size,
                              sf_cuda_kept **kept, cu_address *base);
void sf_cuda_kept_destroy(sf_cuda_device *device, sf_cuda_kept *kept);
int32_t sf_cuda_kept_begin(sf_cuda_device *device, sf_cuda_kept *kept, cu_stream stream,
                           bool writes);
void sf_cuda_kept_end(sf_cuda_device *device, sf_cuda_kept *kept, cu_stream stream, int32_t place,
                      bool wrote);

#endif
