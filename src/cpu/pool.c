/*
 * The pool. A caller writes its task into a job, opens the job, and begins to work on it. Idle
 * threads join open jobs. When the caller finds nothing more to do, it closes the job and waits for
 * the threads that have joined. A thread that comes later, because its CPU was busy, finds the job
 * closed, and nobody waits for it. So a thread that does not get to run never makes a call slower.
 *
 * Threads are started when they are first needed, and stay. An idle thread watches `calls` for a
 * moment, then sleeps on it. In a child of fork() none of them exists: the pool starts again there.
 * If a thread cannot be started, there is one helper less.
 *
 * The threads are never ended. They must not outlive the code they run, so the library is linked
 * with -z nodelete: dlclose leaves it in memory. If a destructor ended them instead, exit() would
 * wait for them, with whatever locks its caller holds.
 */
#include "cpu/pool.h"

#include "core/mode.h"
#include "cpu/cpus.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How many calls can have helpers at the same time; another one runs on its caller's thread
 * alone. */
#define JOBS 8
/* How many sleeping threads one thread wakes. Each of them wakes as many: if one thread had to wake
 * a hundred, it would take longer than most calls. */
#define WAKES 4
/* How long an idle thread watches before it sleeps, and a caller before it sleeps until its helpers
 * are done. About the cost of waking a thread: calls that follow each other closely find the
 * threads awake. */
#define WATCH_NS 50000
/* After a thread could not be started, this many calls do not try again. */
#define PATIENCE 1000

typedef struct job {
        _Alignas(64) _Atomic uint32_t taken; /* by a caller */
        /* 0 while closed; else the number of workers wanted (upper half) and the number of the next
         * one. */
        _Atomic uint32_t door;
        _Atomic uint32_t woken; /* how many sleepers have been woken */
        /* How many helpers have ended, and SLEEPS if the caller sleeps until more have. */
        _Atomic uint32_t ended;
        void (*task)(void *, int);
        void *arg;
} job;

#define NEXT 0xffffu
#define SLEEPS 0x80000000u

static struct pool {
        job jobs[JOBS];
        _Alignas(64) _Atomic uint32_t calls; /* incremented for every job that is opened */
        _Atomic uint32_t sleepers;
        _Atomic int started;
        _Atomic int patience;
        atomic_flag starting;
} pool = {.starting = ATOMIC_FLAG_INIT};

static void sleep_while(_Atomic uint32_t *word, uint32_t value)
{
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word, int count)
{
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static int64_t now_ns(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void relax(void)
{
#if defined __x86_64__ || defined __i386__
        __builtin_ia32_pause();
#elif defined __aarch64__
        __asm__ volatile("isb"); /* yield does nothing on most cores */
#endif
}

/* Watches a word for a moment; false if it still has `value`. It yields the CPU now and then,
 * because the thread that it waits for may need it. */
static bool changes_soon(_Atomic uint32_t *word, uint32_t value)
{
        const int64_t end = now_ns() + WATCH_NS;
        do {
                for (int looks = 0; looks < 32; looks++) {
                        if (atomic_load_explicit(word, memory_order_acquire) != value)
                                return true;
                        relax();
                }
                sched_yield();
        } while (now_ns() < end);
        return false;
}

/* ------------------------------------------------------------------------------------------------
 * Helpers
 * ---------------------------------------------------------------------------------------------- */

/* Wakes a few sleeping threads if the job wants them. */
static void call_sleepers(job *j, uint32_t wanted)
{
        if (!atomic_load(&pool.sleepers) || atomic_load_explicit(&j->woken, memory_order_relaxed) >= wanted - 1)
                return;
        uint32_t before = atomic_fetch_add_explicit(&j->woken, WAKES, memory_order_relaxed);
        if (before < wanted - 1)
                wake(&pool.calls, wanted - 1 - before < WAKES ? (int)(wanted - 1 - before) : WAKES);
}

/* Works on a job if it is open and wants another worker. */
static void help(job *j)
{
        uint32_t door = atomic_load_explicit(&j->door, memory_order_relaxed), wanted;
        do {
                wanted = door >> 16;
                if ((door & NEXT) >= wanted)
                        return;
        } while (!atomic_compare_exchange_weak_explicit(&j->door, &door, door + 1, memory_order_acq_rel, memory_order_relaxed));
        /* From here on the caller waits for this thread, so the job stays valid. */
        call_sleepers(j, wanted);
        j->task(j->arg, (int)(door & NEXT));
        if (atomic_fetch_add_explicit(&j->ended, 1, memory_order_acq_rel) & SLEEPS)
                wake(&j->ended, 1);
}

static void *serve(void *unused)
{
        sf_mode_default();
        sf_cpus_unbind();
        for (;;) {
                uint32_t seen = atomic_load_explicit(&pool.calls, memory_order_acquire);
                for (int i = 0; i < JOBS; i++)
                        help(&pool.jobs[i]);
                if (changes_soon(&pool.calls, seen))
                        continue;
                /* The opener of a job first increments the count and then looks for sleepers. The
                 * kernel compares the count again before this thread sleeps. */
                atomic_fetch_add(&pool.sleepers, 1);
                sleep_while(&pool.calls, seen);
                atomic_fetch_sub(&pool.sleepers, 1);
        }
        return unused;
}

/* Starts a thread with all signals blocked, so that the program's handlers do not run on it. */
static bool start_thread(void)
{
        pthread_t thread;
        pthread_attr_t detached;
        sigset_t all, before;
        if (pthread_attr_init(&detached))
                return false;
        sigfillset(&all);
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        bool started = !pthread_create(&thread, &detached, serve, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&detached);
        if (started)
                pthread_setname_np(thread, "scanfold");
        return started;
}

/* Starts threads until there are `wanted`, if possible. If another caller is starting threads, this
 * one does not wait for it. */
static void start_threads(int wanted)
{
        if (atomic_load_explicit(&pool.patience, memory_order_relaxed) > 0) {
                atomic_fetch_sub_explicit(&pool.patience, 1, memory_order_relaxed);
                return;
        }
        if (atomic_flag_test_and_set_explicit(&pool.starting, memory_order_acquire))
                return;
        while (atomic_load_explicit(&pool.started, memory_order_relaxed) < wanted) {
                if (!start_thread()) {
                        atomic_store_explicit(&pool.patience, PATIENCE, memory_order_relaxed);
                        break;
                }
                atomic_fetch_add_explicit(&pool.started, 1, memory_order_relaxed);
        }
        atomic_flag_clear_explicit(&pool.starting, memory_order_release);
}

/* A child of fork has one thread, the one that called fork, which works on no job. */
static void begin_anew(void)
{
        memset(&pool, 0, sizeof pool);
        atomic_flag_clear(&pool.starting);
}

__attribute__((constructor)) static void watch_forks(void)
{
        pthread_atfork(NULL, NULL, begin_anew);
}

/* ------------------------------------------------------------------------------------------------
 * Callers
 * ---------------------------------------------------------------------------------------------- */
static job *take_job(void)
{
        for (int i = 0; i < JOBS; i++) {
                job *j = &pool.jobs[i];
                uint32_t free = 0;
                if (!atomic_load_explicit(&j->taken, memory_order_relaxed) &&
                    atomic_compare_exchange_strong_explicit(&j->taken, &free, 1, memory_order_acquire, memory_order_relaxed))
                        return j;
        }
        return NULL;
}

/* Waits until this many helpers have ended. */
static void wait_for(job *j, uint32_t helpers)
{
        uint32_t ended = atomic_load_explicit(&j->ended, memory_order_acquire);
        while (ended < helpers && changes_soon(&j->ended, ended))
                ended = atomic_load_explicit(&j->ended, memory_order_acquire);
        if (ended >= helpers)
                return;
        ended = atomic_fetch_or_explicit(&j->ended, SLEEPS, memory_order_acq_rel) | SLEEPS;
        while ((ended & ~SLEEPS) < helpers) {
                sleep_while(&j->ended, ended);
                ended = atomic_load_explicit(&j->ended, memory_order_acquire);
        }
}

void sf_pool_run(int workers, void (*task)(void *, int), void *arg)
{
        workers = workers < SF_POOL_MOST ? workers : SF_POOL_MOST;
        if (atomic_load_explicit(&pool.started, memory_order_relaxed) < workers - 1)
                start_threads(workers - 1);
        job *j = workers > 1 ? take_job() : NULL;
        if (!j) {
                task(arg, 0);
                return;
        }
        j->task = task;
        j->arg = arg;
        atomic_store_explicit(&j->woken, 0, memory_order_relaxed);
        atomic_store_explicit(&j->ended, 0, memory_order_relaxed);
        atomic_store_explicit(&j->door, (uint32_t)workers << 16 | 1, memory_order_release);
        atomic_fetch_add(&pool.calls, 1);
        call_sleepers(j, (uint32_t)workers);
        task(arg, 0);
        wait_for(j, (atomic_exchange_explicit(&j->door, 0, memory_order_acq_rel) & NEXT) - 1);
        atomic_store_explicit(&j->taken, 0, memory_order_release);
}
