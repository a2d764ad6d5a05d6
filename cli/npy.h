/*
 * npy.h: the .npy format, versions 1.0, 2.0 and 3.0.
 *
 * A file is: "\x93NUMPY", two version bytes, the header's length (2 bytes in version 1.0, 4 bytes
 * later, little-endian), the header (a Python dictionary as text), the data.
 */
#ifndef SCANFOLD_NPY_H
#define SCANFOLD_NPY_H

#include "cli.h"

struct npy_header {
        char kind;            /* NumPy's letter: b i u f, or V for bytes without a type */
        int32_t itemsize;     /* 1 to 8 */
        int swapped;          /* the data's byte order is not this machine's */
        int fortran;          /* the first axis is contiguous */
        int32_t ndim;
        int64_t shape[SF_MAX_NDIM];
        int64_t count;        /* elements */
        /* where the data begins; it ends at data_offset + count * itemsize, at most the file's
         * size */
        uint64_t data_offset;
};

/*
 * NPY_HEADER_MOST is the longest header of version 1.0. Version 2.0 is for dtypes with many fields,
 * which are refused in any case.
 */
enum {
        NPY_WHY_SIZE = 256,
        NPY_HEADER_ROOM = 2048,
        NPY_HEADER_MOST = 65535,
        NPY_START_MOST = 12 + NPY_HEADER_MOST + 1,
};

enum { NPY_READ, NPY_REFUSED, NPY_SHORT };

/*
 * Reads the header of a file that begins with the `size` bytes at `file`. `why` says what is wrong,
 * as the rest of a sentence that begins with the file's name ("is not a .npy file: ...").
 *
 * NPY_READ: the file is complete. What is accepted is safe to use: lengths are >= 0, products do
 * not overflow, and the data is inside the file. As in NumPy, bytes after the data are ignored.
 * NPY_REFUSED: the file is refused, whatever follows.
 * NPY_SHORT: call again with `need` bytes, counted from the beginning. While data_offset is 0, that
 * is at most NPY_START_MOST; after that the header is complete, and only data is missing. `why` is
 * for a file that ends here.
 */
int npy_parse(const unsigned char *file, uint64_t size, struct npy_header *header, uint64_t *need,
              char why[NPY_WHY_SIZE]);

/* Writes a version 1.0 header for C-ordered data in this machine's byte order. Returns its length,
 * a multiple of 64. */
size_t npy_write_header(char buffer[NPY_HEADER_ROOM], const struct dtype_info *dtype, int32_t ndim,
                        const int64_t *shape);

/* Sets *bytes to the product of ndim lengths and itemsize. Returns -1 if the product, without
 * lengths of zero, does not fit into int64. */
int npy_byte_count(int32_t ndim, const int64_t *shape, int32_t itemsize, int64_t *bytes);

#endif /* SCANFOLD_NPY_H */
