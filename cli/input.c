/* input.c: a .npy file, mapped. */
#include "files.h"
#include "progress.h"
#include "signals.h"
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the number of bytes read, 0 at the end, or -1 after complaining. */
static ssize_t read_some(const struct input *input, int from, unsigned char *to, uint64_t room)
{
        enum { CHUNK = 1 << 20 };
        for (;;) {
                ssize_t got = read(from, to, room < CHUNK ? (size_t)room : CHUNK);
                if (got >= 0)
                        return got;
                if (errno != EINTR) {
                        complain("cannot read %s: %s", input->name, strerror(errno));
                        return -1;
                }
        }
}

/*
 * Reads the beginning of a stream and checks it as it arrives, because a stream that is not a .npy
 * file may never end. The header, and perhaps some of the data, is at head, *have bytes; *need is
 * where the data ends.
 */
static int read_beginning(const struct input *input, int from, unsigned char *head,
                          uint64_t *have, uint64_t *need)
{
        struct npy_header header;
        char why[NPY_WHY_SIZE];
        *have = 0;
        for (;;) {
                int result = npy_parse(head, *have, &header, need, why);
                if (result == NPY_REFUSED)
                        return complain("%s %s", input->name, why);
                if (header.data_offset)
                        return CLI_DONE;
                ssize_t got = read_some(input, from, head + *have, *need - *have);
                if (got < 0)
                        return CLI_FAILED;
                if (!got)
                        return complain("%s %s", input->name, why);
                *have += (uint64_t)got;
        }
}

/*
 * A pipe has no size and cannot be mapped, so its header and data are copied to a temporary file.
 * What follows them is not read.
 */
static int spool_stream(struct input *input, int from)
{
        enum { CHUNK = 1 << 20 };
        unsigned char *chunk = malloc(CHUNK); /* larger than NPY_START_MOST */
        if (!chunk)
                return complain("not enough memory to read %s", input->name);
        uint64_t have, need;
        int status = read_beginning(input, from, chunk, &have, &need);
        int to = status ? -1 : spool_open();
        if (to < 0) {
                free(chunk);
                return CLI_FAILED;
        }
        status = write_all(to, chunk, have, spool_name());
        progress_start("reading", need, 1);
        while (!status && have < need) {
                ssize_t got = read_some(input, from, chunk, need - have);
                if (got < 0)
                        status = CLI_FAILED;
                if (got <= 0) /* if it ends early, the parser complains later */
                        break;
                status = write_all(to, chunk, (uint64_t)got, spool_name());
                have += (uint64_t)got;
                progress_add((uint64_t)got);
        }
        progress_stop();
        free(chunk);
        if (!status)
                status = spool_map(to, have, 0, &input->file);
        close(to);
        return status;
}

static int map_file(struct input *input, int fd, uint64_t size)
{
        if (!size)
                return CLI_DONE;
        if (size > SIZE_MAX)
                return complain("%s is larger than this machine can address", input->name);
        void *start = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (start == MAP_FAILED)
                return complain("cannot map %s: %s", input->name, strerror(errno));
        input->file.start = start;
        input->file.size = size;
        watch_mapping(start, size, "scanfold: the input became shorter, or could not be read, while it was in use\n");
        return CLI_DONE;
}

/* Byte by byte, so that it is right for any size; the compiler makes byte swaps of it. */
static void copy_elements(unsigned char *to, const unsigned char *from, uint64_t bytes, int itemsize, int swap)
{
        if (!swap) {
                memcpy(to, from, bytes);
                return;
        }
        for (uint64_t i = 0; i + (uint64_t)itemsize <= bytes; i += (uint64_t)itemsize)
                for (int b = 0; b < itemsize; b++)
                        to[i + (uint64_t)b] = from[i + (uint64_t)(itemsize - 1 - b)];
}

/* The data has the other byte order, or is not aligned. The library supports neither, so it gets a
 * converted copy. */
static int make_native(struct input *input)
{
        enum { CHUNK = 16 << 20 };
        const struct npy_header *h = &input->header;
        uint64_t bytes = (uint64_t)h->count * (uint64_t)h->itemsize;
        const unsigned char *from = input->file.start + h->data_offset;

        int fd = spool_open();
        if (fd < 0)
                return CLI_FAILED;
        int status = spool_map(fd, bytes, 1, &input->copy);
        close(fd);
        progress_start("convert", bytes, 1);
        for (uint64_t at = 0; !status && at < bytes; at += CHUNK) {
                uint64_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
                copy_elements(input->copy.start + at, from + at, n, h->itemsize, h->swapped);
                drop_pages(from + at, n);
                drop_pages(input->copy.start + at, n);
                progress_add(n);
        }
        progress_stop();
        input->data = input->copy.start;
        return status;
}

static int open_and_map(struct input *input, const char *path)
{
        int is_stdin = !strcmp(path, "-");
        int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return complain("cannot open %s: %s", input->name, strerror(errno));
        struct stat stat;
        int status;
        if (fstat(fd, &stat))
                status = complain("cannot read %s: %s", input->name, strerror(errno));
        else if (S_ISDIR(stat.st_mode))
                status = complain("%s is a directory; a .npy file was expected", input->name);
        else if (is_stdin && isatty(fd))
                status = complain("standard input is a terminal; pipe or redirect a .npy file into it");
        else if (S_ISREG(stat.st_mode) && (!is_stdin || lseek(fd, 0, SEEK_CUR) == 0))
                status = map_file(input, fd, (uint64_t)stat.st_size);
        else
                status = spool_stream(input, fd);
        if (!is_stdin)
                close(fd);
        return status;
}

int input_open(struct input *input, const char *path)
{
        memset(input, 0, sizeof(*input));
        input->name = strcmp(path, "-") ? path : "standard input";
        int status = open_and_map(input, path);
        if (status)
                return status;
        char why[NPY_WHY_SIZE];
        uint64_t need;
        const struct npy_header *h = &input->header;
        if (npy_parse(input->file.start, input->file.size, &input->header, &need, why) != NPY_READ)
                return complain("%s %s", input->name, why);
        if (!h->count)
                return CLI_DONE;
        if (h->swapped || h->data_offset % (uint64_t)h->itemsize)
                return make_native(input);
        input->data = input->file.start + h->data_offset;
        return CLI_DONE;
}

void input_close(struct input *input)
{
        unmap(&input->file);
        unmap(&input->copy);
}

void drop_pages(const unsigned char *start, uint64_t size)
{
        /*
         * Every mapping here is backed by a file, so MADV_DONTNEED loses nothing: a page that is
         * used again comes from the page cache or the disk. For the same reason it is safe to round
         * outwards to whole pages.
         */
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t from = (uintptr_t)start / page * page;
        if (size)
                madvise((void *)from, (size_t)((uintptr_t)start + size - from), MADV_DONTNEED);
}
