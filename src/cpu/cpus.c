/*
 * Which CPUs this process may run on: those of its main thread, unless OpenMP has bound that thread
 * to one of them. Under OMP_PROC_BIND and similar variables, GNU's OpenMP, which torch loads, does
 * so as soon as it is loaded. The CPUs that the process had before are then the union of OpenMP's
 * places, or those we found when our library was loaded, if that was earlier.
 */
#include "cpu/cpus.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* One cpu_set_t has room for 1024 CPUs. The kernel refuses a set that is smaller than its own. */
enum { SETS = 8 };
typedef struct cpus {
        cpu_set_t set[SETS];
} cpus;

static cpus at_load;

static void read_main_thread(cpus *c)
{
        memset(c, 0, sizeof *c);
        if (sched_getaffinity(getpid(), sizeof c->set, c->set))
                memset(c, 0, sizeof *c);
}

__attribute__((constructor)) static void remember(void)
{
        read_main_thread(&at_load);
}

static bool openmp_binds(void)
{
        static const char *const names[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
        bool binds = false;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                const char *value = getenv(names[i]);
                binds = binds || (value && *value && strcasecmp(value, "false"));
        }
        return binds;
}

static int name_openmp(struct dl_phdr_info *object, size_t size, void *name)
{
        (void)size;
        if (!object->dlpi_name || !strstr(object->dlpi_name, "libgomp") || strlen(object->dlpi_name) >= 4096)
                return 0;
        strcpy(name, object->dlpi_name);
        return 1;
}

/* Adds the CPUs of OpenMP's places, if OpenMP is loaded in this process. */
static void add_places(cpus *c)
{
        char name[4096];
        int ids[256];
        void *openmp = dl_iterate_phdr(name_openmp, name) ? dlopen(name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (!openmp)
                return;
        int (*places)(void), (*count)(int);
        void (*list)(int, int *);
        *(void **)&places = dlsym(openmp, "omp_get_num_places");
        *(void **)&count = dlsym(openmp, "omp_get_place_num_procs");
        *(void **)&list = dlsym(openmp, "omp_get_place_proc_ids");
        for (int i = 0; places && count && list && i < places(); i++) {
                int have = count(i);
                if (have <= 0 || have > (int)(sizeof ids / sizeof *ids))
                        continue;
                list(i, ids);
                for (int k = 0; k < have; k++)
                        if (ids[k] >= 0 && ids[k] < SETS * CPU_SETSIZE)
                                CPU_SET_S((size_t)ids[k], sizeof c->set, c->set);
        }
        dlclose(openmp);
}

static void read_process(cpus *c)
{
        if (!openmp_binds()) {
                read_main_thread(c);
                return;
        }
        *c = at_load;
        add_places(c);
}

int32_t sf_cpu_count(void)
{
        cpus c;
        read_process(&c);
        const int set = CPU_COUNT_S(sizeof c.set, c.set);
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        const int32_t count = set > 0 ? set : online > 0 ? (int32_t)online : 1;
        const int32_t quota = sf_cpu_quota("");
        return quota && quota < count ? quota : count;
}

void sf_cpus_unbind(void)
{
        cpus c;
        read_process(&c);
        if (CPU_COUNT_S(sizeof c.set, c.set))
                /* if this is not allowed, the thread stays on its CPUs */
                sched_setaffinity(0, sizeof c.set, c.set);
}

/* ------------------------------------------------------------------------------------------------
 * A thread's limit
 * ---------------------------------------------------------------------------------------------- */
static _Thread_local int32_t thread_limit;

int32_t sf_thread_limit(void)
{
        return thread_limit;
}

int32_t sf_thread_limit_set(int32_t limit)
{
        const int32_t before = thread_limit;
        thread_limit = limit > 0 ? limit : 0;
        return before;
}
