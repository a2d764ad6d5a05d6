/*
 * files.h: .npy files mapped in, and mapped out whole or not at all.
 *
 * An input is mapped, not read, so that a file larger than memory streams through the page cache. What cannot be
 * mapped (a pipe), or not used where it lies (the other byte order, data off its alignment), is first copied into an
 * unlinked file in $TMPDIR, which no crash can leave behind.
 *
 * An output is a temporary file in the directory it is meant for, mapped, and renamed once
 * complete; standard output and other things that are no regular file get theirs copied at the
 * end. Whatever goes wrong before, a signal included, the temporary file is removed and what
 * stood under the name stays. Several outputs are renamed together, once all are complete and on
 * the disk; if one cannot be, those before it are put back.
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
        char *temporary;         /* the temporary file's name; NULL while it has none */
        char *kept;              /* another name for what stood at path, or NULL */
        int fresh;               /* nothing stood there */
        int fd;                  /* the temporary file */
        int stream;              /* where it is copied to, or -1 */
        struct mapping file;
};

/* Complains. input_close may be called on a struct of zeros, or twice; so may outputs_abandon. */
int input_open(struct input *input, const char *path);
void input_close(struct input *input);

/*
 * outputs_check, called before the work is known to be possible, finds out what can be known
 * ahead: a directory, a terminal, a file that may not be written, one file named twice.
 * output_create makes room for size bytes meant for path, all zero; after a failure the struct is
 * as abandoned. outputs_commit puts all of them in their places, or none.
 */
int outputs_check(const char *const *paths, int count);
int output_create(struct output *output, const char *path, uint64_t size);
int outputs_commit(struct output *outputs, int count);
void outputs_abandon(struct output *outputs, int count);

/*
 * One output written by several processes. The one that made it names its temporary file (output_share), the others map that (output_join),
 * and put what they wrote on the disk (output_leave) before the first commits it. Each of them removes the file if it comes to nothing;
 * output_forget, once it has been committed.
 */
int output_share(struct output *output, char *name, size_t room);
int output_join(struct output *output, const char *path, const char *name, uint64_t size);
int output_leave(struct output *output);
void output_forget(struct output *output);

/* Tells the kernel that [start, start + size), within a mapping, is not needed for now. Nothing in it is lost. */
void drop_pages(const unsigned char *start, uint64_t size);

#endif /* SCANFOLD_FILES_H */
