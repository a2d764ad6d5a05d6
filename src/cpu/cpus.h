/* The CPUs this process may run on, and how many of them the calls of a thread may take. */
#ifndef SF_CPU_CPUS_H
#define SF_CPU_CPUS_H

#include <stdint.h>

/* How many they are, or, where that is less, how many CPUs' time it may take; at least 1. */
int32_t sf_cpu_count(void);

/* quota.c: how many CPUs' time the process's control groups leave it, rounded up; 0: no limit. The
 * files of the system are looked for below the directory `root`: "", but for tests. */
int32_t sf_cpu_quota(const char *root);

/* Lets the calling thread run on all of them, whatever CPU the thread that started it is bound to. */
void sf_cpus_unbind(void);

/* The calling thread's limit; 0: none. Setting it returns the one there was. */
int32_t sf_thread_limit(void);
int32_t sf_thread_limit_set(int32_t limit);

#endif
