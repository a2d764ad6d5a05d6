/*
 * signals.c: see signals.h.
 *
 * A handler may only use what is in this file: the names of the temporary files to remove, and
 * which addresses belong to which mapped file, so that a page that cannot be read gives a message
 * instead of "Bus error".
 */
#include "signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* the run command has as many outputs; a file that does not fit is not removed */
enum { MAX_DOOMED = 64 };
static const char *_Atomic doomed[MAX_DOOMED];

/*
 * The run command has up to 64 inputs, each with a copy, and 64 outputs. A mapping that does not
 * fit has no message.
 */
enum { MAX_WATCHED = 192 };
static struct {
        const unsigned char *start;
        uint64_t size;
        const char *sentence;
} watched[MAX_WATCHED];

/*
 * Whether a signal may end the program now. Masking signals would not be enough: a mask belongs to
 * one thread, and the kernel would deliver the signal to another thread.
 */
enum { FREE, HELD, ENDING };
static atomic_int state;
static atomic_int waiting; /* the signal that arrived while state was HELD, or 0 */

static void remove_doomed(void)
{
        for (int i = 0; i < MAX_DOOMED; i++) {
                const char *path = atomic_load(&doomed[i]);
                if (path)
                        unlink(path);
        }
}

/* Ends by the same signal, so that the shell sees the cause. */
static void on_fault(int number)
{
        remove_doomed();
        signal(number, SIG_DFL);
        raise(number);
}

static void on_end(int number)
{
        int was = FREE;
        if (atomic_compare_exchange_strong(&state, &was, ENDING))
                on_fault(number);
        else if (was == HELD)
                atomic_store(&waiting, number);
        /* else another thread is ending the program already */
}

void hold_signals(void)
{
        int was = FREE;
        if (atomic_compare_exchange_strong(&state, &was, HELD))
                return;
        for (;;) /* a handler in another thread is ending the program */
                pause();
}

void release_signals(void)
{
        atomic_store(&state, FREE);
        int number = atomic_exchange(&waiting, 0);
        if (number)
                on_end(number);
}

void doom_file(const char *path)
{
        for (int i = 0; i < MAX_DOOMED; i++) {
                if (!atomic_load(&doomed[i])) {
                        atomic_store(&doomed[i], path);
                        return;
                }
        }
}

void spare_file(const char *path)
{
        for (int i = 0; i < MAX_DOOMED; i++)
                if (atomic_load(&doomed[i]) == path)
                        atomic_store(&doomed[i], NULL);
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

static void on_bus_error(int number, siginfo_t *info, void *context)
{
        (void)context;
        const unsigned char *at = info->si_addr;
        for (int i = 0; i < MAX_WATCHED; i++) {
                if (watched[i].start && at >= watched[i].start && at < watched[i].start + watched[i].size) {
                        remove_doomed();
                        const char *sentence = watched[i].sentence;
                        ssize_t written = write(STDERR_FILENO, sentence, strlen(sentence));
                        (void)written;
                        _exit(1);
                }
        }
        on_fault(number);
}

/*
 * Only if the default action is set: nohup and background jobs start with some signals ignored, and
 * sanitizers with handlers.
 */
static void take(const int *numbers, size_t count, void (*handler)(int))
{
        for (size_t i = 0; i < count; i++) {
                struct sigaction action, before;
                memset(&action, 0, sizeof(action));
                action.sa_handler = handler;
                sigemptyset(&action.sa_mask);
                action.sa_flags = SA_RESTART | SA_NODEFER;
                if (!sigaction(numbers[i], NULL, &before) && before.sa_handler == SIG_DFL)
                        sigaction(numbers[i], &action, NULL);
        }
}

void catch_signals(void)
{
        static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2,
                                    SIGVTALRM, SIGPROF, SIGXCPU };
        static const int faults[] = { SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
        take(ends, sizeof(ends) / sizeof(ends[0]), on_end);
        take(faults, sizeof(faults) / sizeof(faults[0]), on_fault);
        struct sigaction bus;
        memset(&bus, 0, sizeof(bus));
        bus.sa_sigaction = on_bus_error;
        sigemptyset(&bus.sa_mask);
        bus.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigaction(SIGBUS, &bus, NULL);
        /* A closed pipe or a file-size limit then makes write fail, which gives a message. */
        signal(SIGPIPE, SIG_IGN);
        signal(SIGXFSZ, SIG_IGN);
        /* Some libraries call exit when they fail, as libgomp does when it cannot start a
         * thread. */
        atexit(remove_doomed);
}
