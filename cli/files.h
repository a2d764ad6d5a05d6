/*
 * files.h: input and output .npy files as memory mappings. Outputs appear complete or not at all.
 *
 * An input is mapped, not read, so that a file larger than memory streams through the page cache.
 * What cannot be mapped (a pipe), or not used as it is (the other byte order, data that is not
 * aligned), is first copied to an unlinked file in $TMPDIR, which cannot be left behind by a crash.
 *
 * An output is a mapped temporary file in the target directory, which is renamed when it is
 * complete. For standard output, and anything else that is not a regular file, the contents are
 * copied at the end. If anything goes wrong before, or a signal arrives, the temporary file is
 * removed, and an existing file of that name is unchanged. Several outputs are renamed together,
 * once all are complete and on the disk; if one rename fails, the earlier ones are undone.
 */
#ifndef SCANFOLD_FILES_H
#define SCANFOLD_FILES_H

#include "npy.h"

struct mapping {
        unsigned char *start;
        uint64_t size;
};

struct input {
        const char *name;        /* for error messages */
        struct mapping file;     /* the file as it is */
        struct mapping copy;     /* native, aligned data, if the file's is not; else empty */
        struct npy_header header;
        unsigned char *data;     /* first element, native and aligned */
};

struct output {
        const char *name;
        char *path;              /* the name it gets at the end; NULL for a stream */
        char *directory;
        char *temporary;         /* the temporary file's name; NULL while it has none */
        char *kept;              /* another name for the file that was at path, or NULL */
        int fresh;               /* there was no file at path */
        int fd;                  /* the temporary file */
        int stream;              /* the descriptor it is copied to, or -1 */
        struct mapping file;
};

/* Complains. input_close may be called on a struct of zeros, or twice; so may outputs_abandon. */
int input_open(struct input *input, const char *path);
void input_close(struct input *input);

/*
 * outputs_check is called before the work begins. It finds problems that can be known by then: a
 * directory, a terminal, a file that may not be written, the same file twice. output_create makes
 * room for size bytes for path, all zero; if it fails, the struct is as after outputs_abandon.
 * outputs_commit gives all outputs their names, or none.
 */
int outputs_check(const char *const *paths, int count);
int output_create(struct output *output, const char *path, uint64_t size);
int outputs_commit(struct output *outputs, int count);
void outputs_abandon(struct output *outputs, int count);

/*
 * One output written by several processes. The one that has created it tells the name of its
 * temporary file (output_share). The others map that file (output_join), and write their part to
 * the disk (output_leave) before the first one commits it. Each of them removes the file if the
 * work fails; output_forget prevents that after the commit.
 */
int output_share(struct output *output, char *name, size_t room);
int output_join(struct output *output, const char *path, const char *name, uint64_t size);
int output_leave(struct output *output);
void output_forget(struct output *output);

/* Tells the kernel that [start, start + size), inside a mapping, is not needed for now. Its
 * contents are not lost. */
void drop_pages(const unsigned char *start, uint64_t size);

#endif /* SCANFOLD_FILES_H */
