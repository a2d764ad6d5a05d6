/*
 * How many CPUs' time this process's control groups (cgroups) allow it. They limit containers and
 * services to a certain time in every period, on whatever CPUs. More threads than that only use up
 * the time sooner, and then all of them stop until the next period.
 *
 * /proc/self/cgroup names the group, and /proc/self/mountinfo says where its files are. Version 2
 * has one tree of groups, with the limit in cpu.max. Version 1 has a tree for the CPU controller,
 * with the limit in cpu.cfs_quota_us and cpu.cfs_period_us. The limits of all parent groups apply
 * too.
 */
#include "cpu/cpus.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes root followed by path to `out`, of PATH_MAX bytes; false if that is too long. */
static bool join(char *out, const char *root, const char *path)
{
        const int length = snprintf(out, PATH_MAX, "%s%s", root, path);
        return length >= 0 && length < PATH_MAX;
}

static FILE *open_below(const char *root, const char *path)
{
        char name[PATH_MAX];
        return join(name, root, path) ? fopen(name, "re") : NULL;
}

/* Is cpu in a list separated by commas? */
static bool has_cpu(const char *list)
{
        size_t length;
        bool found = false;
        for (; !found && *list; list += length + (list[length] == ',')) {
                length = strcspn(list, ",\n");
                found = length == 3 && !strncmp(list, "cpu", 3);
                if (!found && list[length] != ',')
                        break;
        }
        return found;
}

/* The group's path in its tree, and whether that is version 2's tree. If there are both, the tree
 * with the CPU controller has the limit. */
static bool read_group(const char *root, char *path, bool *unified)
{
        FILE *file = open_below(root, "/proc/self/cgroup");
        char *line = NULL;
        size_t room = 0;
        bool found = false;
        while (file && getline(&line, &room, file) > 0) {
                char *controllers = strchr(line, ':');
                char *group = controllers ? strchr(controllers + 1, ':') : NULL;
                if (!group)
                        continue;
                *group++ = 0;
                group[strcspn(group, "\n")] = 0;
                const bool two = !controllers[1];
                if ((!two && !has_cpu(controllers + 1)) || (two && found) || !join(path, "", group))
                        continue;
                *unified = two;
                found = true;
        }
        free(line);
        if (file)
                fclose(file);
        return found;
}

/* The part of the group's path below the mounted directory; "" if it is not below it, as in a
 * container that sees only its own group. */
static const char *below(const char *path, const char *mounted)
{
        const size_t length = strcmp(mounted, "/") ? strlen(mounted) : 0;
        if (strncmp(path, mounted, length) || (path[length] && path[length] != '/') ||
            strstr(path, "/.."))
                return "";
        return strcmp(path + length, "/") ? path + length : "";
}

/* The group's directory, and how long its prefix, the mount point's name, is. */
static bool find_directory(const char *root, const char *path, bool unified, char *directory,
                           size_t *top)
{
        FILE *file = open_below(root, "/proc/self/mountinfo");
        char *line = NULL;
        size_t room = 0;
        bool found = false;
        while (file && !found && getline(&line, &room, file) > 0) {
                /* "36 35 98:0 /mounted /point rw,noatime master:1 - cgroup cgroup rw,cpu" */
                char *rest = strstr(line, " - "), *field[5] = {0}, *type[3] = {0}, *save;
                if (!rest)
                        continue;
                *rest = 0;
                for (int i = 0; i < 5; i++)
                        field[i] = strtok_r(i ? NULL : line, " ", &save);
                for (int i = 0; i < 3; i++)
                        type[i] = strtok_r(i ? NULL : rest + 3, " \n", &save);
                if (!field[4] || !type[2] || strcmp(type[0], unified ? "cgroup2" : "cgroup") ||
                    (!unified && !has_cpu(type[2])))
                        continue;
                char point[PATH_MAX];
                found = join(point, root, field[4]) &&
                        join(directory, point, below(path, field[3]));
                *top = strlen(point);
        }
        free(line);
        if (file)
                fclose(file);
        return found;
}

/* Reads two numbers, from one file that has both or from two files. Without a limit the first is
 * "max" or -1. */
static bool read_limit(const char *directory, bool unified, long long *quota, long long *period)
{
        static const char *const names[2][2] = {{"/cpu.cfs_quota_us", "/cpu.cfs_period_us"},
                                                {"/cpu.max", NULL}};
        FILE *first = open_below(directory, names[unified][0]);
        FILE *other = first && !unified ? open_below(directory, names[0][1]) : NULL, *second = unified ? first : other;
        /* NOLINTNEXTLINE(cert-err34-c): the kernel wrote them, so the numbers fit */
        const bool found = first && second && fscanf(first, "%lld", quota) == 1 && fscanf(second, "%lld", period) == 1;
        const bool read = found && *quota > 0 && *period > 0;
        if (other)
                fclose(other);
        if (first)
                fclose(first);
        return read;
}

int32_t sf_cpu_quota(const char *root)
{
        char path[PATH_MAX], directory[PATH_MAX];
        bool unified = false;
        size_t top = 0;
        int32_t least = 0;
        if (!read_group(root, path, &unified) ||
            !find_directory(root, path, unified, directory, &top))
                return 0;
        for (;;) {
                long long quota, period;
                if (read_limit(directory, unified, &quota, &period)) {
                        const long long cpus = quota / period + (quota % period != 0);
                        if (cpus <= INT32_MAX && (!least || cpus < least))
                                least = (int32_t)cpus;
                }
                char *last = strrchr(directory, '/');
                if (!last || (size_t)(last - directory) < top)
                        return least;
                *last = 0;
        }
}
