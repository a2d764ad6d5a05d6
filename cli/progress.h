/*
 * progress.h: a bar on standard error, if that is a terminal and the work takes more than a second.
 *
 * A separate thread draws it, so that it moves during one long call to the library. There is one
 * bar at a time. progress_stop, which complain calls too, clears the line; it may be called when
 * there is no bar.
 */
#ifndef SCANFOLD_PROGRESS_H
#define SCANFOLD_PROGRESS_H

#include <stdint.h>

/* If a rate is shown, total and done are bytes, else any count. If total is 0, only the time is
 * shown. */
void progress_start(const char *what, uint64_t total, int show_rate);
void progress_add(uint64_t done);

/*
 * For one long call that reports no progress: it is estimated from the pages of the output that are
 * in memory. The mapping must exist until progress_stop.
 */
void progress_watch(const unsigned char *start, uint64_t size);
void progress_stop(void);

/* No bar is shown from now on. */
void progress_silence(void);

#endif /* SCANFOLD_PROGRESS_H */
