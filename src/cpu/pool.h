/* Threads: one pool for the process, shared by all contexts and all callers. */
#ifndef SF_CPU_POOL_H
#define SF_CPU_POOL_H

/* The most workers that are ever asked for. */
#define SF_POOL_MOST 4096

/*
 * Calls task(arg, 0) on this thread, and at the same time task(arg, w) on others for some of w = 1,
 * ..., workers - 1, each at most once. Returns when all calls that began have ended. How many begin
 * depends on which threads are free in time; it may be none. So task(arg, 0) must not return before
 * all work is done or claimed by a call that has begun. A call may wait for work that another has
 * claimed, never for work that nobody has claimed.
 */
void sf_pool_run(int workers, void (*task)(void *arg, int worker), void *arg);

#endif
