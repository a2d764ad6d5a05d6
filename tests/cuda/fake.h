/*
 * fake.h: a libcuda and an NVRTC with no GPU behind them, which count their calls, record launches, and fail when told to. A test
 * names them in SCANFOLD_LIBCUDA and SCANFOLD_NVRTC, and reaches their state by dlsym.
 */
#ifndef SF_TEST_CUDA_FAKE_H
#define SF_TEST_CUDA_FAKE_H

#include "cuda/driver.h"
#include "cuda/launch.h"

enum {
#define DRIVER(member, symbol, arguments) FAKE_##member,
#define OPTIONAL DRIVER
#include "cuda/driver.def"
        FAKE_COUNT
};

/* Memory of fake device d begins here; no host pointer of this platform comes near. Nothing is behind it. */
#define FAKE_MEMORY(d) ((uint64_t)0x00d0000000000000 + ((uint64_t)(d) << 44))

typedef struct fake_launch {
        const char *image; /* of the module the kernel came from */
        uint32_t grid[3], block[3], shared;
        cu_stream stream;
        bool overlaps;
        int context; /* the device whose context was current */
        uint64_t after; /* bit n: it comes after launch n of 64, counted since watching began */
        unsigned char params[SF_CUDA_MAX_PARAMS];
} fake_launch;

#define FAKE_LAUNCHES 16

typedef struct fake_cuda {
        atomic_long calls[FAKE_COUNT];
        atomic_int result[FAKE_COUNT]; /* nonzero: what the function returns instead of doing anything */
        bool (*fails)(const char *what); /* not NULL: asked at every call whether it is to fail */
        int version, devices, capability, pools;
        atomic_long launches;
        fake_launch last[FAKE_LAUNCHES]; /* number n is at n % FAKE_LAUNCHES */
        atomic_long live;                /* allocations not released */
        atomic_long biggest;             /* bytes of the largest allocation so far */
        cu_stream capturing;             /* the stream being captured, or NULL */
        atomic_int managed;              /* nonzero: device memory is managed, and may move to the host */
        atomic_ulong written;            /* the number that a stream wrote last */
        atomic_int busy;                 /* nonzero: events report that no work has ever ended */
        atomic_long events;              /* not destroyed */
        atomic_long stale;               /* uses of what went with a context that was reset */
        atomic_long pushed;              /* contexts pushed minus contexts popped, on all threads */
        atomic_long objects;             /* user objects that graphs hold */
        void (*destroy_graphs)(void);    /* every graph is destroyed: their objects' destructors run */
        void (*watch)(bool on);          /* which launch comes after which is noted, or no more */
        void (*renew)(void *stream);     /* destroyed, and another made with the same handle */
        void (*reset)(int device);       /* its primary context is destroyed */
        void (*set_current)(int device); /* -1: no context */
        int (*current)(void);
} fake_cuda;

typedef struct fake_nvrtc {
        atomic_long compiles;
        atomic_int fail;  /* nonzero: the next compilations fail, with a log */
        bool (*fails)(const char *what); /* not NULL: asked at every call but the version's whether it is to fail */
        int major, minor, oldest, newest;
        char options[512]; /* of the last compilation, joined by spaces */
} fake_nvrtc;

#endif
