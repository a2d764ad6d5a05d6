/*
 * progress.h: a bar on standard error, if that is a terminal and the work takes more than a second.
 *
 * A thread of its own draws it, so that it moves while the library is busy with one long call. There is one bar at a
 * time; progress_stop, called also by complain, clears the line and may be called when there is none.
 */
#ifndef SCANFOLD_PROGRESS_H
#define SCANFOLD_PROGRESS_H

#include <stdint.h>

/* total and done are bytes where a rate is to be shown, else any count; of a total of 0 only the time is shown. */
void progress_start(const char *what, uint64_t total, int show_rate);
void progress_add(uint64_t done);

/*
 * For one long call that reports nothing: how far it got is guessed from which pages of its output exist in memory.
 * The mapping must stay until progress_stop.
 */
void progress_watch(const unsigned char *start, uint64_t size);
void progress_stop(void);

/* From here on there is no bar. */
void progress_silence(void);

#endif /* SCANFOLD_PROGRESS_H */
