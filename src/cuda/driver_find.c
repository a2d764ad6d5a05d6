/*
 * Searches for a library, in the order that driver.h gives. It runs once for each process and
 * library, so speed does not matter. A program that runs with more rights than its caller
 * (AT_SECURE) trusts neither the environment nor the name it was called by when it decides what
 * code to load.
 */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define PATH_SIZE 1024

typedef struct search {
        const sf_library *library;
        void *handle;
        char loaded[PATH_SIZE];
} search;

/* Keeps `path` if it can be loaded and is the right library. */
static bool try_path(search *s, const char *path, int flags)
{
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | flags);
        if (handle && !dlsym(handle, s->library->probe)) {
                dlclose(handle);
                handle = NULL;
        }
        if (handle)
                s->handle = handle;
        return handle != NULL;
}

/* ------------------------------------------------------------------------------------------------
 * Already loaded. By file name rather than soname: some wheels have names such as
 * libnvrtc-672ee683.so.11.2.
 * ---------------------------------------------------------------------------------------------- */
static int visit_loaded(struct dl_phdr_info *info, size_t size, void *data)
{
        search *s = data;
        const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
        const char *name = slash ? slash + 1 : info->dlpi_name, *stem = s->library->stem;
        size_t length = strlen(stem) - strlen(".so");
        (void)size;
        if (!name || strncmp(name, stem, length))
                return 0;
        const char *rest = name + length;
        bool mangled = rest[0] == '-' && strspn(rest + 1, "0123456789abcdef") == 8 && !strncmp(rest + 9, ".so", 3);
        if ((strncmp(rest, ".so", 3) && !mangled) || strlen(info->dlpi_name) >= sizeof s->loaded)
                return 0;
        /* the caller opens it, because the loader is locked here */
        strcpy(s->loaded, info->dlpi_name);
        return 1;
}

/* ------------------------------------------------------------------------------------------------
 * Folders
 * ---------------------------------------------------------------------------------------------- */

/* `pattern` names folders, with * for any name; in each, the sonames are tried in their order. */
static bool try_folders(search *s, const char *pattern)
{
        glob_t found;
        bool done = false;
        if (glob(pattern, GLOB_NOSORT, NULL, &found))
                return false;
        for (size_t i = 0; i < found.gl_pathc && !done; i++)
                for (const char *const *soname = s->library->sonames; *soname && !done; soname++) {
                        char path[PATH_SIZE];
                        int length = snprintf(path, sizeof path, "%s/%s%s", found.gl_pathv[i], s->library->stem, *soname);
                        done = length < (int)sizeof path && !access(path, R_OK) && try_path(s, path, 0);
                }
        globfree(&found);
        return done;
}

static bool try_toolkit(search *s, const char *root)
{
        static const char *const folders[] = {"lib64", "lib", "targets/*/lib"};
        char pattern[PATH_SIZE];
        for (size_t i = 0; i < sizeof folders / sizeof *folders && root && *root; i++)
                if (snprintf(pattern, sizeof pattern, "%s/%s", root, folders[i]) < (int)sizeof pattern && try_folders(s, pattern))
                        return true;
        return false;
}

/* `site` is a site-packages folder, or a pattern for some. */
static bool try_site(search *s, const char *site)
{
        char pattern[PATH_SIZE];
        return (snprintf(pattern, sizeof pattern, "%s/nvidia/*/lib", site) < (int)sizeof pattern && try_folders(s, pattern)) ||
               (snprintf(pattern, sizeof pattern, "%s/torch/lib", site) < (int)sizeof pattern && try_folders(s, pattern));
}

static bool try_prefix(search *s, const char *prefix)
{
        char pattern[PATH_SIZE];
        if (!prefix || !*prefix)
                return false;
        return (snprintf(pattern, sizeof pattern, "%s/lib", prefix) < (int)sizeof pattern && try_folders(s, pattern)) ||
               (snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages", prefix) < (int)sizeof pattern && try_site(s, pattern));
}

/* The folders that extension modules, or libpython itself, are mapped from. */
static bool try_mapped(search *s)
{
        static const char *const marks[] = {"/site-packages/", "/dist-packages/"};
        char line[4096], last[PATH_SIZE] = "";
        bool done = false;
        FILE *maps = fopen("/proc/self/maps", "re");
        while (maps && !done && fgets(line, sizeof line, maps)) {
                char *path = strchr(line, '/'), *mark = NULL, *lib;
                if (!path)
                        continue;
                for (size_t i = 0; i < 2 && !mark; i++)
                        if ((mark = strstr(path, marks[i])))
                                mark[strlen(marks[i]) - 1] = '\0';
                if (!mark && (lib = strstr(path, "/lib/libpython3"))) {
                        *lib = '\0';
                        done = try_prefix(s, path);
                        continue;
                }
                /* The same folder is mapped many times, mostly on neighbouring lines. */
                if (!mark || !strcmp(path, last) || strlen(path) >= sizeof last)
                        continue;
                strcpy(last, path);
                done = try_site(s, path);
        }
        if (maps)
                fclose(maps);
        return done;
}

/* The name this process was called by, looked up on the PATH as a shell does. */
static void called_as(char path[PATH_SIZE])
{
        char name[PATH_SIZE];
        FILE *file = fopen("/proc/self/cmdline", "re");
        size_t length = file ? fread(name, 1, sizeof name - 1, file) : 0;
        const char *folder = secure_getenv("PATH");
        if (file)
                fclose(file);
        name[length] = '\0';
        snprintf(path, PATH_SIZE, "%s", name);
        for (; !strchr(name, '/') && folder && *folder; folder += *folder == ':') {
                int span = (int)strcspn(folder, ":");
                if (snprintf(path, PATH_SIZE, "%.*s/%s", span, folder, name) < PATH_SIZE && !access(path, X_OK))
                        return;
                folder += span;
        }
}

/* The interpreter by the name it was called by (in a virtual environment this is a link, and only
 * its own name leads to the environment), then by its real name. */
static bool try_interpreter(search *s)
{
        char path[PATH_SIZE] = "", real[PATH_SIZE] = "";
        if (!getauxval(AT_SECURE))
                called_as(path);
        ssize_t linked = readlink("/proc/self/exe", real, sizeof real - 1);
        real[linked > 0 ? linked : 0] = '\0';
        for (int i = 0; i < 2; i++) {
                char *name = i ? real : path, *bin = strstr(name, "/bin/python");
                if (!bin)
                        continue;
                *bin = '\0';
                if (try_prefix(s, name))
                        return true;
        }
        return false;
}

void *sf_library_find(const sf_library *library, char *tried, size_t size)
{
        search s = {library, NULL, ""};
        const char *named = secure_getenv(library->variable);
        char name[64];

        if (named && *named) {
                if (!try_path(&s, named, 0)) {
                        const char *why = dlerror();
                        snprintf(tried, size, "%s is \"%s\": %s", library->variable, named, why ? why : "it is some other library");
                }
                return s.handle;
        }
        for (const char *const *soname = library->sonames; *soname; soname++) {
                snprintf(name, sizeof name, "%s%s", library->stem, *soname);
                if (try_path(&s, name, RTLD_NOLOAD))
                        return s.handle;
        }
        if (dl_iterate_phdr(visit_loaded, &s) && try_path(&s, s.loaded, RTLD_NOLOAD))
                return s.handle;
        for (const char *const *soname = library->sonames; *soname; soname++) {
                snprintf(name, sizeof name, "%s%s", library->stem, *soname);
                if (try_path(&s, name, 0))
                        return s.handle;
        }
        if (!library->toolkit) {
                /* Where WSL and containers put a driver that is in no loader configuration. */
                if (try_folders(&s, "/usr/lib/wsl/lib") || try_folders(&s, "/usr/local/nvidia/lib*"))
                        return s.handle;
                snprintf(tried, size, "looked for %s%s, loaded already or where the loader looks", library->stem, library->sonames[0]);
                return NULL;
        }
        if (try_toolkit(&s, secure_getenv("CUDA_HOME")) || try_toolkit(&s, secure_getenv("CUDA_PATH")) || try_toolkit(&s, "/usr/local/cuda") ||
            try_mapped(&s) || try_interpreter(&s) || try_prefix(&s, secure_getenv("VIRTUAL_ENV")) || try_prefix(&s, secure_getenv("CONDA_PREFIX")))
                return s.handle;
        snprintf(tried, size, "looked for %s%s and older ones: loaded already, where the loader looks, under "
                              "CUDA_HOME, CUDA_PATH and "
                              "/usr/local/cuda, and in Python's site-packages", library->stem, library->sonames[0]);
        return NULL;
}
