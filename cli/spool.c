/* spool.c: unlinked temporary files, and helpers for writing files. */
#include "spool.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *spool_directory(void)
{
        const char *directory = getenv("TMPDIR");
        return directory && *directory ? directory : "/tmp";
}

const char *spool_name(void)
{
        static char name[PATH_MAX + 64];
        snprintf(name, sizeof(name), "a temporary file in %s (TMPDIR chooses where)", spool_directory());
        return name;
}

int spool_open(void)
{
        char path[PATH_MAX];
        int length = snprintf(path, sizeof(path), "%s/scanfold-XXXXXX", spool_directory());
        if (length < 0 || (size_t)length >= sizeof(path)) {
                complain("TMPDIR is too long a path for temporary files");
                return -1;
        }
        hold_signals();
        int fd = mkstemp(path);
        int error = errno;
        if (fd >= 0)
                unlink(path);
        release_signals();
        if (fd < 0)
                complain("cannot make %s: %s", spool_name(), strerror(error));
        return fd;
}

int spool_map(int fd, uint64_t size, int grow, struct mapping *mapping)
{
        if (grow && reserve(fd, size, spool_name()))
                return CLI_FAILED;
        void *start = size > SIZE_MAX ? MAP_FAILED
                                      : mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (start == MAP_FAILED)
                return complain("cannot map %s: %s", spool_name(), strerror(errno));
        mapping->start = start;
        mapping->size = size;
        watch_mapping(start, size, "scanfold: the disk is full: a temporary file in TMPDIR does not fit\n");
        return CLI_DONE;
}

void unmap(struct mapping *mapping)
{
        if (mapping->start) {
                unwatch_mapping(mapping->start);
                munmap(mapping->start, (size_t)mapping->size);
        }
        mapping->start = NULL;
        mapping->size = 0;
}

int write_all(int fd, const unsigned char *bytes, uint64_t size, const char *where)
{
        enum { CHUNK = 1 << 24 };
        while (size) {
                ssize_t written = write(fd, bytes, size < CHUNK ? (size_t)size : CHUNK);
                if (written < 0 && errno == EINTR)
                        continue;
                if (written < 0 && errno == EPIPE)
                        return complain("%s was closed before everything was written", where);
                if (written < 0)
                        return complain("cannot write to %s: %s", where, strerror(errno));
                bytes += written;
                size -= (uint64_t)written;
        }
        return CLI_DONE;
}

int reserve(int fd, uint64_t size, const char *where)
{
        int error = 0;
        if (size > INT64_MAX || (off_t)size < 0) {
                error = EFBIG;
        } else if (ftruncate(fd, (off_t)size)) {
                error = errno;
        }
#ifdef __linux__
        /*
         * On a full disk, a write into the mapping of a file without allocated blocks is a SIGBUS:
         * so allocate the blocks now. Not with posix_fallocate, which writes every block if the
         * file system has no such call.
         */
        while (!error && size && fallocate(fd, 0, 0, (off_t)size)) {
                if (errno == EINTR)
                        continue;
                if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
                        error = errno;
                break;
        }
#endif
        if (error)
                return complain("cannot write %" PRIu64 " bytes to %s: %s", size, where, strerror(error));
        return CLI_DONE;
}
