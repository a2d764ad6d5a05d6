/*
 * DLPack as this extension uses it, in terms of sf_tensor, which has the layout of DLTensor.
 *
 * Three ways to pass a tensor, oldest first:
 *   - a capsule "dltensor" that points to a dl_managed;
 *   - a capsule "dltensor_versioned" that points to a dl_versioned: requested with
 *     max_version=(1, 0), and with a flag if it is read-only;
 *   - a table of C functions, found on the array's type as __dlpack_c_exchange_api__: no Python
 *     object is made to read an array.
 */
#ifndef SCANFOLD_PYTHON_DLPACK_H
#define SCANFOLD_PYTHON_DLPACK_H

#include "scanfold.h"

#define DL_MAJOR 1u /* the layouts below are those of every version 1.x */
#define DL_READ_ONLY ((uint64_t)1)

typedef struct dl_version {
        uint32_t major;
        uint32_t minor;
} dl_version;

typedef struct dl_managed {
        sf_tensor tensor;
        void *owner;
        void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
        dl_version version;
        void *owner;
        void (*deleter)(struct dl_versioned *self);
        uint64_t flags;
        sf_tensor tensor;
} dl_versioned;

/* Functions return 0, or -1 with a Python exception set (allocate: after calling `complain`). None
 * of them waits for a stream. */
typedef struct dl_exchange {
        dl_version version;
        const struct dl_exchange *older;
        int (*allocate)(sf_tensor *prototype, dl_versioned **out, void *user, void (*complain)(void *user, const char *kind, const char *why));
        int (*managed_from_object)(void *object, dl_versioned **out);
        /* takes ownership of the tensor */
        int (*object_from_managed)(dl_versioned *tensor, void **object);
        int (*view_from_object)(void *object, sf_tensor *out);           /* borrowed from the object; may be NULL */
        int (*current_stream)(int32_t device_type, int32_t device_id, void **stream);
} dl_exchange;

#endif
