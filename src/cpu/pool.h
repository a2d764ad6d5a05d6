/* Threads for one call: OpenMP's where the build has it. */
#ifndef SF_CPU_POOL_H
#define SF_CPU_POOL_H

/* Runs task(arg, 0), ..., task(arg, workers - 1) at the same time, or some after others where there are fewer threads to be had,
 * and returns when all are done. A task must therefore never wait for one with a higher number than its own. */
void sf_pool_run(int workers, void (*task)(void *arg, int worker), void *arg);

#endif
