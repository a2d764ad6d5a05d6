/* The CPUs this process may run on, and how many of them a thread's calls may use. */
#ifndef SF_CPU_CPUS_H
#define SF_CPU_CPUS_H

#include <stdint.h>

/* How many CPUs there are, or, if that is less, how many CPUs' time the process may use; at least
 * 1. */
int32_t sf_cpu_count(void);

/* quota.c: how many CPUs' time the process's control groups allow, rounded up; 0: no limit. The
 * system's files are looked for under the directory `root`, which is "" except in tests. */
int32_t sf_cpu_quota(const char *root);

/* Lets the calling thread run on all of them, even if the thread that started it is bound to one
 * CPU. */
void sf_cpus_unbind(void);

/* The calling thread's limit on worker threads; 0: none. Setting it returns the previous one. */
int32_t sf_thread_limit(void);
int32_t sf_thread_limit_set(int32_t limit);

#endif
