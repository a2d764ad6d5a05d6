/*
 * npy.h: the .npy format, versions 1.0, 2.0 and 3.0.
 *
 * A file is: "\x93NUMPY", two version bytes, the header's length (2 bytes in version 1.0, 4 later, little-endian),
 * the header (a Python dictionary in text), the data.
 */
#ifndef SCANFOLD_NPY_H
#define SCANFOLD_NPY_H

#include "cli.h"

struct npy_header {
        char kind;            /* NumPy's letter: b i u f, or V for bytes without a type */
        int32_t itemsize;     /* 1 to 8 */
        int swapped;          /* the data's byte order is not this machine's */
        int fortran;          /* the first axis is the fastest */
        int32_t ndim;
        int64_t shape[SF_MAX_NDIM];
        int64_t count;        /* elements */
        uint64_t data_offset; /* where the data begins; data_offset + count * itemsize <= the file's size */
};

enum { NPY_WHY_SIZE = 256, NPY_HEADER_ROOM = 2048 };

/*
 * Reads the header of a file of `size` bytes of which all are at `file`. Returns 0, or -1 with `why` saying what is
 * wrong as the rest of a sentence that begins with the file's name ("is cut short: ..."). What it accepts is safe to
 * use: lengths are >= 0, products do not overflow, the data lies within the file. As in NumPy, bytes after the data
 * are ignored.
 */
int npy_parse(const unsigned char *file, uint64_t size, struct npy_header *header, char why[NPY_WHY_SIZE]);

/* Writes a version 1.0 header for C-ordered data of this machine's byte order; returns its length, a multiple of 64. */
size_t npy_write_header(char buffer[NPY_HEADER_ROOM], const struct dtype_info *dtype, int32_t ndim,
                        const int64_t *shape);

/* The product of ndim lengths and itemsize in *bytes, or -1 where it, leaving out zeros, is more than int64 holds. */
int npy_byte_count(int32_t ndim, const int64_t *shape, int32_t itemsize, int64_t *bytes);

#endif /* SCANFOLD_NPY_H */
