/* output.c: output files that appear complete or not at all. */
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

/* The message for a directory in which no file can be made, whether found by a check or when it is
 * tried. */
static int complain_directory(const char *name, const char *directory, int error)
{
        return complain("cannot write %s: cannot make a file in %s: %s", name, directory, strerror(error));
}

/*
 * Follows the symbolic links of path, so that a link stays a link, and the file that it points to
 * is replaced or created. realpath alone only works for files that exist.
 */
static char *resolve(const char *path)
{
        char *now = strdup(path);
        for (int links = 0; now && links < 40; links++) { /* Linux follows as many */
                char target[PATH_MAX];
                char *real = realpath(now, NULL), *directory = NULL, *next = NULL;
                ssize_t length = real ? -1 : readlink(now, target, sizeof(target) - 1);
                if (real)
                        next = real;
                else if (length < 0)
                        return now;
                else if (target[length] = 0, target[0] == '/')
                        next = strdup(target);
                else if ((directory = directory_of(now)) &&
                         asprintf(&next, "%s/%s", directory, target) < 0)
                        next = NULL;
                free(directory);
                free(now);
                now = next;
                if (real)
                        break;
        }
        return now;
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

static int check_output(const char *path)
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
        /* A rename ignores the mode of the file that it replaces, so it is checked here. */
        if (access(path, W_OK))
                return complain("cannot write %s: %s", path, strerror(errno));
        return S_ISREG(found.st_mode) ? check_directory(path) : CLI_DONE;
}

static int stat_output(const char *path, struct stat *found)
{
        return is_stdout(path) ? fstat(STDOUT_FILENO, found) : stat(path, found);
}

/*
 * Would one of the two results be lost? Not if they go to a pipe or a device, which takes one after
 * the other.
 */
static int same_file(const char *a, const char *b)
{
        struct stat x, y;
        int has_x = !stat_output(a, &x), has_y = !stat_output(b, &y);
        if (has_x && has_y)
                return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
                       !(is_stdout(a) && is_stdout(b));
        if (has_x || has_y)
                return 0;
        /* Neither exists yet: compare the names and the directories. */
        char *paths[2] = { resolve(a), resolve(b) }, *directories[2] = { NULL, NULL };
        const char *names[2] = { NULL, NULL };
        for (int i = 0; i < 2 && paths[i]; i++) {
                const char *slash = strrchr(paths[i], '/');
                names[i] = slash ? slash + 1 : paths[i];
                directories[i] = directory_of(paths[i]);
        }
        int same = directories[0] && directories[1] && !strcmp(names[0], names[1]) &&
                   !stat(directories[0], &x) && !stat(directories[1], &y) &&
                   x.st_dev == y.st_dev && x.st_ino == y.st_ino;
        for (int i = 0; i < 2; i++) {
                free(directories[i]);
                free(paths[i]);
        }
        return same;
}

int outputs_check(const char *const *paths, int count)
{
        for (int i = 0; i < count; i++) {
                int status = check_output(paths[i]);
                if (status)
                        return status;
                for (int k = 0; k < i; k++) {
                        if (!same_file(paths[k], paths[i]))
                                continue;
                        return complain("two results would go to one file, as %s and as %s; "
                                        "give each -o a file of its own", paths[k], paths[i]);
                }
        }
        return CLI_DONE;
}

/*
 * Gives the temporary file a name in its directory. If there is no file yet, creates one. The name
 * has the process's number and a counter; a name that exists (from another machine, or from a
 * process that was killed) is skipped.
 */
static int name_temporary(struct output *output)
{
        int error = 0;
        for (int attempt = 0; attempt < 1000; attempt++) {
                char from[40], *name;
                snprintf(from, sizeof(from), "/proc/self/fd/%d", output->fd);
                if (asprintf(&name, "%s/.scanfold-%ld-%d", output->directory, (long)getpid(),
                             attempt) < 0)
                        return complain("not enough memory");
                hold_signals();
                int result;
                if (output->fd >= 0)
                        result = linkat(AT_FDCWD, from, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
                else
                        result = output->fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                                                   0600);
                int failed = result < 0;
                error = errno;
                if (!failed) {
                        output->temporary = name;
                        doom_file(name);
                }
                release_signals();
                if (!failed)
                        return CLI_DONE;
                free(name);
                if (error != EEXIST)
                        break;
        }
        return complain_directory(output->name, output->directory, error);
}

/*
 * Opens a file without a name, if the file system can: it disappears with the process, even if that
 * is killed. It gets its name later through /proc, which must be there.
 */
static int open_temporary(struct output *output)
{
#ifdef O_TMPFILE
        char from[40];
        output->fd = open(output->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        snprintf(from, sizeof(from), "/proc/self/fd/%d", output->fd);
        if (output->fd >= 0 && !access(from, F_OK))
                return CLI_DONE;
        if (output->fd >= 0)
                close(output->fd);
        output->fd = -1;
#endif
        return name_temporary(output);
}

/*
 * A temporary file is private; a result has the mode of the file that it replaces, or the usual
 * mode of a new file.
 */
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
        /* Some file systems have no modes, so a failure is ignored. */
        int ignored = fchmod(output->fd, mode);
        (void)ignored;
}

static int map_temporary(struct output *output, uint64_t size)
{
        void *start = size > SIZE_MAX ? MAP_FAILED
                                      : mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, output->fd, 0);
        if (start == MAP_FAILED)
                return complain("cannot map %s: %s", output->name, strerror(errno));
        output->file.start = start;
        output->file.size = size;
        watch_mapping(start, size, "scanfold: the disk is full: the output does not fit\n");
        return CLI_DONE;
}

static int create(struct output *output, const char *path, uint64_t size)
{
        output->fd = output->stream = -1;
        output->name = is_stdout(path) ? "standard output" : path;

        struct stat existing;
        if (is_stdout(path)) {
                output->stream = STDOUT_FILENO;
        } else if (!stat(path, &existing) && !S_ISREG(existing.st_mode)) {
                /* A pipe or a device is written to, not replaced. */
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
        status = map_temporary(output, size);
        if (!status)
                set_mode(output);
        return status;
}

int output_create(struct output *output, const char *path, uint64_t size)
{
        memset(output, 0, sizeof(*output));
        int status = create(output, path, size);
        if (status)
                outputs_abandon(output, 1);
        return status;
}

/* A rename is on the disk only after its directory has been synced. */
static void sync_directory(const char *directory)
{
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
                fsync(fd);
                close(fd);
        }
}

/* Does everything except the rename: syncs the file to the disk, names it, and closes it. */
int output_leave(struct output *output)
{
        unmap(&output->file);
        int failed = fsync(output->fd);
        if (failed && errno == EINVAL) /* a file system that cannot sync */
                failed = 0;
        if (!failed && !output->temporary) {
                int status = name_temporary(output);
                if (status)
                        return status;
        }
        if (!failed) {
                failed = close(output->fd);
                output->fd = -1;
        }
        return failed ? complain("cannot write %s: %s", output->name, strerror(errno)) : CLI_DONE;
}

int output_share(struct output *output, char *name, size_t room)
{
        if (!output->path)
                return complain("%s is no regular file, which --mpi writes; name one with -o", output->name);
        int status = output->temporary ? CLI_DONE : name_temporary(output);
        if (!status && (size_t)snprintf(name, room, "%s", output->temporary) >= room)
                status = complain("the directory of %s has too long a name", output->name);
        return status;
}

int output_join(struct output *output, const char *path, const char *name, uint64_t size)
{
        memset(output, 0, sizeof(*output));
        output->name = path;
        output->stream = -1;
        output->temporary = strdup(name);
        output->fd = open(name, O_RDWR | O_CLOEXEC);
        if (!output->temporary)
                return complain("not enough memory");
        doom_file(output->temporary);
        if (output->fd < 0)
                return complain("cannot open %s, which rank 0 has made for %s: %s; all ranks must share its directory", name, path, strerror(errno));
        return map_temporary(output, size);
}

void output_forget(struct output *output)
{
        if (output->temporary)
                spare_file(output->temporary);
        free(output->temporary);
        output->temporary = NULL;
}

static int send_stream(struct output *output)
{
        int status = write_all(output->stream, output->file.start, output->file.size, output->name);
        int own = output->stream != STDOUT_FILENO, stream = output->stream;
        output->stream = -1;
        if (own && close(stream) && !status)
                status = complain("cannot write to %s: %s", output->name, strerror(errno));
        return status;
}

/* Gives the existing file a second name (a hard link), if the file system supports that. */
static void keep_old(struct output *output)
{
        if (asprintf(&output->kept, "%s-old", output->temporary) < 0)
                output->kept = NULL;
        int failed = !output->kept || link(output->path, output->kept);
        output->fresh = failed && errno == ENOENT;
        if (failed) {
                free(output->kept);
                output->kept = NULL;
        }
}

/* Undoes a rename. Returns -1 if there was a file that could not be kept. */
static int put_back(struct output *output)
{
        if (output->fresh)
                return unlink(output->path);
        return output->kept ? rename(output->kept, output->path) : -1;
}

/*
 * Renames all or none. Only SIGKILL in the middle can leave some of them; nothing here waits, so
 * that time is short.
 */
static int rename_all(struct output *outputs, int count)
{
        const struct output *lost = NULL, *refused = NULL;
        int error = 0, done = 0;
        hold_signals();
        for (; done < count && !refused; done++) {
                struct output *output = &outputs[done];
                if (!output->path)
                        continue;
                if (count > 1)
                        keep_old(output);
                if (rename(output->temporary, output->path)) {
                        error = errno;
                        refused = output;
                } else {
                        spare_file(output->temporary);
                        free(output->temporary);
                        output->temporary = NULL;
                }
        }
        for (int i = 0; refused && &outputs[i] < refused; i++)
                if (outputs[i].path && put_back(&outputs[i]))
                        lost = &outputs[i];
        for (int i = 0; i < done; i++)
                if (outputs[i].kept && (!refused || &outputs[i] == refused))
                        unlink(outputs[i].kept); /* the others have been renamed back */
        release_signals();
        if (lost)
                return complain("cannot write %s: %s; %s was written before, and what it was could "
                                "not be put back", refused->name, strerror(error), lost->name);
        return refused ? complain("cannot write %s: %s", refused->name, strerror(error)) : CLI_DONE;
}

/*
 * Writing to a pipe cannot be undone. So it comes after everything that can fail for lack of space,
 * and before the renames, which hardly ever fail.
 */
int outputs_commit(struct output *outputs, int count)
{
        int status = CLI_DONE;
        progress_start("waiting for the disk", 0, 0);
        for (int i = 0; i < count && !status; i++)
                if (outputs[i].path)
                        status = output_leave(&outputs[i]);
        progress_stop();
        for (int i = 0; i < count && !status; i++)
                if (outputs[i].stream >= 0)
                        status = send_stream(&outputs[i]);
        if (!status)
                status = rename_all(outputs, count);
        for (int i = 0; i < count && !status; i++)
                if (outputs[i].path)
                        sync_directory(outputs[i].directory);
        outputs_abandon(outputs, count);
        return status;
}

static void abandon(struct output *output)
{
        unmap(&output->file);
        if (output->name && output->fd >= 0)
                close(output->fd);
        if (output->temporary) {
                hold_signals();
                unlink(output->temporary);
                spare_file(output->temporary);
                release_signals();
        }
        if (output->name && output->stream > STDERR_FILENO)
                close(output->stream);
        free(output->temporary);
        free(output->kept);
        free(output->path);
        free(output->directory);
        memset(output, 0, sizeof(*output));
}

void outputs_abandon(struct output *outputs, int count)
{
        for (int i = 0; i < count; i++)
                abandon(&outputs[i]);
}
