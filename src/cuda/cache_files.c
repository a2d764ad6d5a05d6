/* The cache's folder: where it is, what it holds, and how much it may hold. */
#include "cuda/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_MB 256
/* A temporary file this old (seconds) was left by a process that died while writing. */
#define STALE 3600

int64_t sf_cache_limit(void)
{
        const char *text = getenv("SCANFOLD_CACHE_MB");
        char *end;
        long long mb = text && *text ? strtoll(text, &end, 10) : DEFAULT_MB;
        if (text && *text && (*end || mb < 0 || mb > 1 << 20))
                mb = DEFAULT_MB;
        return (int64_t)mb << 20;
}

static bool make_folders(char *path)
{
        for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                mkdir(path, 0700); /* mostly exists already; the last mkdir decides */
                *slash = '/';
        }
        return !mkdir(path, 0700) || errno == EEXIST;
}

bool sf_cache_folder(char path[SF_CACHE_PATH], bool make)
{
        /* secure_getenv: a program that runs with more rights than its caller must not trust the
         * environment. */
        const char *own = secure_getenv("SCANFOLD_CACHE_DIR"), *xdg = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
        int length = 0;
        path[0] = '\0';
        if (own)
                length = snprintf(path, SF_CACHE_PATH, "%s", own);
        else if (xdg && xdg[0] == '/')
                length = snprintf(path, SF_CACHE_PATH, "%s/scanfold", xdg);
        else if (home && home[0] == '/')
                length = snprintf(path, SF_CACHE_PATH, "%s/.cache/scanfold", home);
        if (length <= 0 || length >= SF_CACHE_PATH || (make && !make_folders(path))) {
                path[0] = '\0';
                return false;
        }
        return true;
}

/* ------------------------------------------------------------------------------------------------
 * Going through the files
 * ---------------------------------------------------------------------------------------------- */
typedef struct file {
        char name[96];
        int64_t size;
        struct timespec used;
        bool temporary;
} file;

/* The files in the folder that have names of ours, allocated; sets *count. */
static file *list_files(const char *folder, size_t *count)
{
        file *files = NULL;
        size_t room = 0;
        DIR *dir = opendir(folder);
        struct dirent *entry;
        *count = 0;
        while (dir && (entry = readdir(dir))) {
                size_t length = strlen(entry->d_name), tail = strlen(SF_CACHE_SUFFIX);
                bool temporary = !strncmp(entry->d_name, "temporary-", 10);
                bool ours = temporary || (length == 64 + tail && !strcmp(entry->d_name + 64, SF_CACHE_SUFFIX));
                struct stat about;
                if (!ours || length >= sizeof files->name || fstatat(dirfd(dir), entry->d_name, &about, AT_SYMLINK_NOFOLLOW))
                        continue;
                if (*count == room) {
                        file *more = realloc(files, (room = room ? 2 * room : 64) * sizeof *files);
                        if (!more)
                                break;
                        files = more;
                }
                file *f = &files[(*count)++];
                strcpy(f->name, entry->d_name);
                f->size = (int64_t)about.st_size;
                f->used = about.st_mtim;
                f->temporary = temporary;
        }
        if (dir)
                closedir(dir);
        return files;
}

static bool remove_file(const char *folder, const char *name)
{
        char path[SF_CACHE_PATH + 128];
        snprintf(path, sizeof path, "%s/%s", folder, name);
        return !unlink(path) || errno == ENOENT;
}

static int by_use(const void *a, const void *b)
{
        const file *x = a, *y = b;
        if (x->used.tv_sec != y->used.tv_sec)
                return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

int64_t sf_cache_trim(const char *folder)
{
        size_t count;
        file *files = list_files(folder, &count);
        int64_t total = 0, limit = sf_cache_limit();
        time_t now = time(NULL);
        for (size_t i = 0; i < count; i++)
                total += files[i].size;
        if (count)
                qsort(files, count, sizeof *files, by_use);
        for (size_t i = 0; i < count; i++) {
                bool drop = files[i].temporary ? files[i].used.tv_sec < now - STALE : total > limit;
                if (drop && remove_file(folder, files[i].name))
                        total -= files[i].size;
        }
        free(files);
        return total;
}

void sf_cache_wrote(const char *folder, int64_t bytes)
{
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static char looked_at[SF_CACHE_PATH];
        static int64_t limit, room;
        pthread_mutex_lock(&lock);
        room = strcmp(folder, looked_at) || limit != sf_cache_limit() ? -1 : room - bytes;
        if (room < 0) {
                limit = sf_cache_limit();
                snprintf(looked_at, sizeof looked_at, "%s", folder);
                /* Other processes write too: list the folder again after an eighth of what is
                 * left. */
                room = (limit - sf_cache_trim(folder)) / 8;
        }
        pthread_mutex_unlock(&lock);
}

int64_t sf_cache_each(sf_cache_visitor *visit, void *user)
{
        char folder[SF_CACHE_PATH], path[SF_CACHE_PATH + 128];
        size_t count;
        int64_t whole = 0;
        if (!sf_cache_folder(folder, false))
                return 0;
        file *files = list_files(folder, &count);
        if (count)
                qsort(files, count, sizeof *files, by_use);
        for (size_t i = 0; i < count; i++) {
                sf_cache_header header;
                snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
                if (files[i].temporary || !sf_cache_load(path, &header, NULL))
                        continue;
                whole++;
                if (visit)
                        visit(user, files[i].name, header.key.about, files[i].size, (int64_t)files[i].used.tv_sec);
        }
        free(files);
        return whole;
}

int64_t sf_cache_clear_files(void)
{
        char folder[SF_CACHE_PATH];
        size_t count;
        int64_t removed = 0;
        bool all = true;
        if (!sf_cache_folder(folder, false))
                return 0;
        file *files = list_files(folder, &count);
        for (size_t i = 0; i < count; i++) {
                bool gone = remove_file(folder, files[i].name);
                removed += gone;
                all = all && gone;
        }
        free(files);
        return all ? removed : -1;
}
