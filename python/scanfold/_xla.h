/*
 * XLA's foreign function interface, as far as a handler needs it.
 *
 * A wheel is built without jaxlib, so what a handler reads is declared here: the layouts of major
 * version 0, in which minor versions only add members at the end. A handler checks the version
 * before it reads anything else, and tests/python/test_jax.py compares these layouts with the
 * header in jaxlib. Every structure begins with its size and a list of extensions.
 */
#ifndef SCANFOLD_PYTHON_XLA_H
#define SCANFOLD_PYTHON_XLA_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_MAJOR = 0, XLA_FIRST_MINOR = 1, XLA_METADATA = 1, XLA_EXECUTE = 3, XLA_BUFFER = 1, XLA_STRING = 4 };

/* Error codes, as in absl. */
enum { XLA_INVALID_ARGUMENT = 3, XLA_RESOURCE_EXHAUSTED = 8, XLA_UNIMPLEMENTED = 12, XLA_INTERNAL = 13 };

typedef struct xla_extension {
        size_t size;
        int type; /* XLA_METADATA, or an extension that is not used here */
        struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
        size_t size;
        xla_extension *extension;
        int major_version, minor_version;
} xla_version;

/* What XLA asks a handler about itself; later versions have more members at the end. */
typedef struct xla_metadata {
        size_t size;
        xla_version version;
        uint32_t traits;
} xla_metadata;

typedef struct xla_metadata_extension {
        xla_extension base;
        xla_metadata *metadata;
} xla_metadata_extension;

typedef struct xla_error_args {
        size_t size;
        xla_extension *extension;
        const char *message;
        int code;
} xla_error_args;

/* The stream that a handler works on; and the number of its device. */
typedef struct xla_stream_args {
        size_t size;
        xla_extension *extension;
        void *context;
        void *stream;
} xla_stream_args;

typedef struct xla_ordinal_args {
        size_t size;
        xla_extension *extension;
        void *context;
        int32_t ordinal;
} xla_ordinal_args;

typedef struct xla_api {
        size_t size;
        xla_extension *extension;
        xla_version version;
        const void *internal;
        void *(*error_create)(xla_error_args *args);
        void (*others[3])(void);
        void *(*stream_get)(xla_stream_args *args);
        void (*more[12])(void);
        void *(*ordinal_get)(xla_ordinal_args *args);
} xla_api;

typedef struct xla_buffer {
        size_t size;
        xla_extension *extension;
        int dtype;
        void *data;
        int64_t rank;
        int64_t *shape;
} xla_buffer;

/* Arguments, and results. */
typedef struct xla_list {
        size_t size;
        xla_extension *extension;
        int64_t count;
        int *type;
        void **item;
} xla_list;

typedef struct xla_bytes {
        const char *data;
        size_t length;
} xla_bytes;

typedef struct xla_attributes {
        size_t size;
        xla_extension *extension;
        int64_t count;
        int *type;
        xla_bytes **name;
        void **item;
} xla_attributes;

typedef struct xla_call {
        size_t size;
        xla_extension *extension;
        const xla_api *api;
        void *context;
        int stage;
        xla_list arguments, results;
        xla_attributes attributes;
} xla_call;

#endif
