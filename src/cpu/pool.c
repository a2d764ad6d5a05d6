/*
 * Threads. OpenMP's own are used where the build has it: a host program that uses OpenMP too then shares one set of threads and
 * one set of environment variables with us. After fork() they are gone in the child while the run-time library may think
 * otherwise, so a child starts plain threads for each call instead; so does a build without OpenMP.
 */
#include "cpu/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#ifdef SF_OPENMP
#include <omp.h>
#endif

typedef struct member {
        void (*task)(void *, int);
        void *arg;
        int worker;
        bool started;
        pthread_t thread;
} member;

static void *member_main(void *arg)
{
        member *m = arg;
        m->task(m->arg, m->worker);
        return NULL;
}

#define MOST_STARTED 256

static void run_started(int workers, void (*task)(void *, int), void *arg)
{
        member members[MOST_STARTED];
        int started = workers < MOST_STARTED ? workers : MOST_STARTED;
        /* In rising order, and a thread that cannot be had is replaced by the caller at its turn: no task waits for a later one. */
        for (int w = 1; w < started; w++) {
                members[w] = (member){.task = task, .arg = arg, .worker = w};
                members[w].started = !pthread_create(&members[w].thread, NULL, member_main, &members[w]);
        }
        task(arg, 0);
        for (int w = 1; w < started; w++)
                if (!members[w].started)
                        task(arg, w);
        for (int w = started; w < workers; w++)
                task(arg, w);
        for (int w = 1; w < started; w++)
                if (members[w].started)
                        pthread_join(members[w].thread, NULL);
}

#ifdef SF_OPENMP
static atomic_bool forked;

static void note_fork(void)
{
        atomic_store_explicit(&forked, true, memory_order_relaxed);
}

__attribute__((constructor)) static void watch_forks(void)
{
        pthread_atfork(NULL, NULL, note_fork);
}

void sf_pool_run(int workers, void (*task)(void *, int), void *arg)
{
        if (workers <= 1) {
                task(arg, 0);
                return;
        }
        if (atomic_load_explicit(&forked, memory_order_relaxed)) {
                run_started(workers, task, arg);
                return;
        }
#pragma omp parallel num_threads(workers)
        {
                /* Inside somebody's parallel region there may be fewer threads than asked for. */
                int have = omp_get_num_threads();
                for (int w = omp_get_thread_num(); w < workers; w += have)
                        task(arg, w);
        }
}
#else
void sf_pool_run(int workers, void (*task)(void *, int), void *arg)
{
        if (workers <= 1)
                task(arg, 0);
        else
                run_started(workers, task, arg);
}
#endif
