/* output.c: a file that appears whole or not at all. */
#include "files.h"
#include "progress.h"
#include "signals.h"
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_stdout(const char *path)
{
        return !strcmp(path, "-");
}

static char *directory_of(const char *path)
{
        const char *slash = strrchr(path, '/');
        if (!slash)
                return strdup(".");
        return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* Said of a directory that takes no file, ahead and when it comes to it. */
static int complain_directory(const char *name, const char *directory, int error)
{
        return complain("cannot write %s: cannot make a file in %s: %s", name, directory, strerror(error));
}

/* path with its symbolic links followed, so that a link stays a link and what it names is replaced. */
static char *resolve(const char *path)
{
        char *real = realpath(path, NULL);
        return real ? real : strdup(path);
}

static int check_directory(const char *path)
{
        char *real = resolve(path), *directory = real ? directory_of(real) : NULL;
        int status = CLI_DONE;
        if (!directory)
                status = complain("not enough memory");
        else if (access(directory, W_OK | X_OK))
                status = complain_directory(path, directory, errno);
        free(directory);
        free(real);
        return status;
}

int output_check(const char *path)
{
        if (is_stdout(path)) {
                if (isatty(STDOUT_FILENO))
                        return complain("standard output is a terminal, and a .npy file is not text; "
                                        "redirect it, or name a file with -o");
                return CLI_DONE;
        }
        struct stat found;
        if (!*path)
                return complain("the output's name is empty; give -o a file name");
        if (stat(path, &found)) {
                if (errno != ENOENT)
                        return complain("cannot write %s: %s", path, strerror(errno));
                return check_directory(path);
        }
        if (S_ISDIR(found.st_mode))
                return complain("cannot write %s: it is a directory; give -o a file name", path);
        /* A rename would not ask: the mode of the file it replaces is a wish we honour ourselves. */
        if (access(path, W_OK))
                return complain("cannot write %s: %s", path, strerror(errno));
        return S_ISREG(found.st_mode) ? check_directory(path) : CLI_DONE;
}

/* The temporary file beside the output; its name is what the signal handlers remove. */
static char temporary[PATH_MAX];

static int open_temporary(struct output *output)
{
        int length = snprintf(temporary, sizeof(temporary), "%s/.scanfold-XXXXXX", output->directory);
        if (length < 0 || (size_t)length >= sizeof(temporary))
                return complain("cannot write %s: %s", output->name, strerror(ENAMETOOLONG));
        struct held_signals held;
        hold_signals(&held);
        output->fd = mkstemp(temporary);
        int error = errno;
        output->made = output->fd >= 0;
        if (output->made)
                doom_file(temporary);
        release_signals(&held);
        if (output->fd < 0)
                return complain_directory(output->name, output->directory, error);
        return CLI_DONE;
}

/* mkstemp's files are private; a result has the mode of the file it replaces, or that of any new file. */
static void set_mode(const struct output *output)
{
        struct stat old;
        mode_t mode;
        if (!stat(output->path, &old)) {
                mode = old.st_mode & 0777;
        } else {
                mode_t mask = umask(0);
                umask(mask);
                mode = 0666 & ~mask;
        }
        /* Where the file system has no modes there is nothing to keep. */
        int ignored = fchmod(output->fd, mode);
        (void)ignored;
}

int output_create(struct output *output, const char *path, uint64_t size)
{
        memset(output, 0, sizeof(*output));
        output->fd = output->stream = -1;
        output->name = is_stdout(path) ? "standard output" : path;

        struct stat existing;
        if (is_stdout(path)) {
                output->stream = STDOUT_FILENO;
        } else if (!stat(path, &existing) && !S_ISREG(existing.st_mode)) {
                /* A pipe or a device is written to, never replaced. */
                output->stream = open(path, O_WRONLY | O_CLOEXEC);
                if (output->stream < 0)
                        return complain("cannot write %s: %s", path, strerror(errno));
        }

        if (output->stream >= 0) {
                output->fd = spool_open();
                if (output->fd < 0)
                        return CLI_FAILED;
                return spool_map(output->fd, size, 1, &output->file);
        }

        output->path = resolve(path);
        output->directory = output->path ? directory_of(output->path) : NULL;
        if (!output->directory)
                return complain("not enough memory");
        int status = open_temporary(output);
        if (!status)
                status = reserve(output->fd, size, output->name);
        if (status)
                return status;
        void *start = size > SIZE_MAX ? MAP_FAILED
                                      : mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, output->fd, 0);
        if (start == MAP_FAILED)
                return complain("cannot map %s: %s", output->name, strerror(errno));
        output->file.start = start;
        output->file.size = size;
        watch_mapping(start, size, "scanfold: the disk is full: the output does not fit\n");
        set_mode(output);
        return CLI_DONE;
}

/* The rename itself is on the disk only once its directory is. */
static void sync_directory(const char *directory)
{
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
                fsync(fd);
                close(fd);
        }
}

int output_commit(struct output *output)
{
        if (output->stream >= 0) {
                int status = write_all(output->stream, output->file.start, output->file.size, output->name);
                int own = output->stream != STDOUT_FILENO;
                if (!status && own && close(output->stream))
                        status = complain("cannot write to %s: %s", output->name, strerror(errno));
                output->stream = -1;
                output_abandon(output);
                return status;
        }
        unmap(&output->file);
        progress_start("waiting for the disk", 0, 0);
        int failed = fsync(output->fd);
        progress_stop();
        if (failed && errno == EINVAL) /* a file system that has nothing to sync */
                failed = 0;
        if (!failed) {
                failed = close(output->fd);
                output->fd = -1;
        }
        if (!failed)
                failed = rename(temporary, output->path);
        if (failed) {
                int status = complain("cannot write %s: %s", output->name, strerror(errno));
                output_abandon(output);
                return status;
        }
        doom_file(NULL);
        sync_directory(output->directory);
        free(output->path);
        free(output->directory);
        output->path = output->directory = NULL;
        return CLI_DONE;
}

void output_abandon(struct output *output)
{
        unmap(&output->file);
        if (output->name && output->fd >= 0)
                close(output->fd);
        if (output->made) {
                unlink(temporary);
                doom_file(NULL);
        }
        if (output->name && output->stream > STDERR_FILENO)
                close(output->stream);
        free(output->path);
        free(output->directory);
        memset(output, 0, sizeof(*output));
}
