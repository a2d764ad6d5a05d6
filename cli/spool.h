/* spool.h: unlinked temporary files, and helpers for writing files. */
#ifndef SCANFOLD_SPOOL_H
#define SCANFOLD_SPOOL_H

#include "files.h"

/* An unlinked file in $TMPDIR, or /tmp. Returns a file descriptor, or -1 after complaining. */
int spool_open(void);
/* "a temporary file in /tmp", for error messages. */
const char *spool_name(void);
/* Maps size bytes of the file, read-write; with grow, the file is first made that long.
 * Complains. */
int spool_map(int fd, uint64_t size, int grow, struct mapping *mapping);

void unmap(struct mapping *mapping);

/* Both complain, naming `where`. reserve makes the file size bytes long, and allocates its disk
 * space if possible. */
int write_all(int fd, const unsigned char *bytes, uint64_t size, const char *where);
int reserve(int fd, uint64_t size, const char *where);

#endif /* SCANFOLD_SPOOL_H */
