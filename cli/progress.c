/* progress.c: the progress bar, drawn by a separate thread. */
#include "progress.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 256, BAR = 28 };

static pthread_t thread;
static int running, silent; /* used by the main thread only */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

/* Protected by the mutex. */
static const char *label;
static uint64_t total_work, done_work;
static int with_rate, stopping, drawn;
static struct timespec started;
static const unsigned char *watched;
static uint64_t watched_size;
static unsigned char seen[SAMPLES];

static double since(const struct timespec *start)
{
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

/* Marks the samples of the output that are in memory. A page that has been seen stays counted, even
 * after the kernel has evicted it. */
static int count_samples(void)
{
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        int count = 0;
        for (int i = 0; i < SAMPLES; i++) {
                uintptr_t at = (uintptr_t)watched + (uintptr_t)(watched_size / SAMPLES * (uint64_t)i);
                unsigned char resident = 0;
                /* mincore's vector is char on some systems, unsigned char on others */
                if (!seen[i] && !mincore((void *)(at / page * page), 1, (void *)&resident))
                        seen[i] = resident & 1;
                count += seen[i];
        }
        return count;
}

static void draw(void)
{
        double elapsed = since(&started);
        if (elapsed < 1)
                return;
        drawn = 1;
        if (!total_work) {
                fprintf(stderr, "\r%s, %d s\033[K", label, (int)elapsed);
                fflush(stderr);
                return;
        }
        double fraction = (double)done_work / (double)total_work;
        if (watched)
                fraction = (double)count_samples() / SAMPLES;
        if (fraction > 1)
                fraction = 1;
        char bar[BAR + 1];
        for (int i = 0; i < BAR; i++)
                bar[i] = (double)i < fraction * BAR ? '#' : '.';
        bar[BAR] = 0;
        fprintf(stderr, "\r%-6.20s [%s] %3d%%", label, bar, (int)(100 * fraction));
        if (with_rate && fraction > 0)
                fprintf(stderr, "  %.2f GB/s", 1e-9 * fraction * (double)total_work / elapsed);
        int left = fraction > 0.01 ? (int)(elapsed / fraction - elapsed + 0.5) : 0;
        if (fraction > 0.01)
                fprintf(stderr, "  %d:%02d left", left / 60, left % 60);
        else
                fprintf(stderr, "  %d s", (int)elapsed);
        fputs("\033[K", stderr);
        fflush(stderr);
}

static void *run(void *unused)
{
        (void)unused;
        pthread_mutex_lock(&mutex);
        while (!stopping) {
                struct timespec until;
                clock_gettime(CLOCK_REALTIME, &until);
                until.tv_nsec += 200 * 1000 * 1000;
                if (until.tv_nsec >= 1000000000) {
                        until.tv_sec++;
                        until.tv_nsec -= 1000000000;
                }
                if (pthread_cond_timedwait(&wake, &mutex, &until) == ETIMEDOUT && !stopping)
                        draw();
        }
        if (drawn)
                fputs("\r\033[K", stderr);
        pthread_mutex_unlock(&mutex);
        return NULL;
}

void progress_start(const char *what, uint64_t total, int show_rate)
{
        progress_stop();
        if (silent || !isatty(STDERR_FILENO))
                return;
        label = what;
        total_work = total;
        with_rate = show_rate;
        done_work = 0;
        stopping = drawn = 0;
        watched = NULL;
        clock_gettime(CLOCK_MONOTONIC, &started);
        running = !pthread_create(&thread, NULL, run, NULL);
}

void progress_add(uint64_t done)
{
        if (!running)
                return;
        pthread_mutex_lock(&mutex);
        done_work += done;
        pthread_mutex_unlock(&mutex);
}

void progress_watch(const unsigned char *start, uint64_t size)
{
        if (!running || size < SAMPLES)
                return;
        pthread_mutex_lock(&mutex);
        memset(seen, 0, sizeof(seen));
        watched = start;
        watched_size = size;
        /* On tmpfs, allocated pages are in memory from the beginning, so they say nothing. */
        if (count_samples() > SAMPLES / 2)
                watched = NULL;
        pthread_mutex_unlock(&mutex);
}

void progress_silence(void)
{
        silent = 1;
}

void progress_stop(void)
{
        if (!running)
                return;
        pthread_mutex_lock(&mutex);
        stopping = 1;
        pthread_cond_signal(&wake);
        pthread_mutex_unlock(&mutex);
        pthread_join(thread, NULL);
        running = 0;
}
