/*
 * signals.c: dying tidily.
 *
 * A handler may only look at what is in this file: the name of the temporary file to remove, and which addresses
 * belong to which mapped file, so that a page that cannot be had becomes a sentence instead of "Bus error".
 */
#include "signals.h"

#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static char doomed[PATH_MAX];       /* the temporary file, or "" */
static volatile sig_atomic_t armed; /* doomed is complete */

/* run's 64 inputs, each with its copy, and an output; a mapping beyond the table merely has no sentence. */
enum { MAX_WATCHED = 136 };
static struct {
        const unsigned char *start;
        uint64_t size;
        const char *sentence;
} watched[MAX_WATCHED];

static void block(sigset_t *before)
{
        sigset_t all;
        sigfillset(&all);
        sigdelset(&all, SIGBUS);
        sigprocmask(SIG_BLOCK, &all, before);
}

void hold_signals(struct held_signals *held)
{
        block(&held->before);
}

void release_signals(const struct held_signals *held)
{
        sigprocmask(SIG_SETMASK, &held->before, NULL);
}

void doom_file(const char *path)
{
        armed = 0;
        if (path && strlen(path) < sizeof(doomed)) {
                strcpy(doomed, path);
                armed = 1;
        }
}

void watch_mapping(const unsigned char *start, uint64_t size, const char *sentence)
{
        for (int i = 0; i < MAX_WATCHED; i++) {
                if (!watched[i].start) {
                        watched[i].size = size;
                        watched[i].sentence = sentence;
                        watched[i].start = start;
                        return;
                }
        }
}

void unwatch_mapping(const unsigned char *start)
{
        for (int i = 0; i < MAX_WATCHED; i++)
                if (watched[i].start == start)
                        watched[i].start = NULL;
}

static void on_end(int number)
{
        if (armed)
                unlink(doomed);
        /* Die by the same signal, so that a shell sees what happened. */
        signal(number, SIG_DFL);
        raise(number);
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
        (void)context;
        const unsigned char *at = info->si_addr;
        for (int i = 0; i < MAX_WATCHED; i++) {
                if (watched[i].start && at >= watched[i].start && at < watched[i].start + watched[i].size) {
                        if (armed)
                                unlink(doomed);
                        const char *sentence = watched[i].sentence;
                        ssize_t written = write(STDERR_FILENO, sentence, strlen(sentence));
                        (void)written;
                        _exit(1);
                }
        }
        on_end(number);
}

void catch_signals(void)
{
        static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
        for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
                struct sigaction action;
                memset(&action, 0, sizeof(action));
                action.sa_handler = on_end;
                sigemptyset(&action.sa_mask);
                action.sa_flags = SA_RESTART | SA_NODEFER;
                /* nohup and background jobs start with these ignored: leave them so. */
                struct sigaction before;
                if (!sigaction(ends[i], NULL, &before) && before.sa_handler != SIG_IGN)
                        sigaction(ends[i], &action, NULL);
        }
        struct sigaction bus;
        memset(&bus, 0, sizeof(bus));
        bus.sa_sigaction = on_bus_error;
        sigemptyset(&bus.sa_mask);
        bus.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigaction(SIGBUS, &bus, NULL);
        /* A closed pipe or a file-size limit is an error code of write, which becomes a sentence. */
        signal(SIGPIPE, SIG_IGN);
#ifdef SIGXFSZ
        signal(SIGXFSZ, SIG_IGN);
#endif
}
