/*
 * files.h: .npy files mapped in, and mapped out whole or not at all.
 *
 * An input is mapped, not read, so that a file larger than memory streams through the page cache. What cannot be
 * mapped (a pipe), or not used where it lies (the other byte order, data off its alignment), is first copied into an
 * unlinked file in $TMPDIR, which no crash can leave behind.
 *
 * An output is a temporary file in the directory it is meant for, mapped, and renamed once complete; standard
 * output and other things that are no regular file get theirs copied at the end. Whatever goes wrong before, a
 * signal included, the temporary file is removed and what stood under the name stays.
 */
#ifndef SCANFOLD_FILES_H
#define SCANFOLD_FILES_H

#include "npy.h"

struct mapping {
        unsigned char *start;
        uint64_t size;
};

struct input {
        const char *name;        /* for sentences */
        struct mapping file;     /* the file as it is */
        struct mapping copy;     /* native, aligned data, where the file's is not; else empty */
        struct npy_header header;
        unsigned char *data;     /* first element, native and aligned */
};

struct output {
        const char *name;
        char *path;              /* where it is renamed to; NULL for a stream */
        char *directory;
        int fd;                  /* the temporary file */
        int made;                /* the temporary file has a name, to be renamed or removed */
        int stream;              /* where it is copied to, or -1 */
        struct mapping file;
};

/* Both complain. input_close and output_abandon may be called on a struct of zeros, or twice. */
int input_open(struct input *input, const char *path);
void input_close(struct input *input);

/*
 * Makes room for size bytes meant for path, all zero. output_check, called before the work is known to be possible,
 * finds out what can be known ahead: a directory, a terminal, a file that may not be written.
 */
int output_check(const char *path);
int output_create(struct output *output, const char *path, uint64_t size);
int output_commit(struct output *output);
void output_abandon(struct output *output);

/* Tells the kernel that [start, start + size), within a mapping, is not needed for now. Nothing in it is lost. */
void drop_pages(const unsigned char *start, uint64_t size);

#endif /* SCANFOLD_FILES_H */
