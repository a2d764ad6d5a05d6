/*
 * executor.h: CUDA blocks, warps and barriers on the host, enough of them to run our kernels.
 *
 * Every CUDA thread is a fiber with a stack of its own; one host thread runs them all. A fiber runs until it must wait: for
 * the other lanes of its warp (a shuffle), for its block (a barrier), or for another block (a word it watches). Several
 * blocks are resident at once, started in shuffled order and driven in a different order each round, so that a kernel
 * that relies on who runs when shows.
 */
#ifndef SF_EXECUTOR_H
#define SF_EXECUTOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- for the kernels, by way of device.hpp ---- */
int exec_thread(void);
long long exec_block(void);
unsigned char *exec_shared(void);
void exec_take_turn(void); /* a thread that has not is told when it returns */
void exec_sync_block(void);
void exec_sync_warp(void);
void exec_cluster_arrive(void);
void exec_cluster_wait(void);
unsigned char *exec_cluster_place(const void *place, int rank); /* the same place in the shared memory of another block of the cluster */
uint64_t exec_shuffle(uint64_t v, int lane);
uint32_t exec_ballot(int v);
void exec_yield(void);
void exec_glance(void *to, const void *from, size_t bytes, int used); /* a read that counts only if it is used */
void exec_mark(unsigned char *p); /* makes it 1, as several threads may at once */
uint64_t exec_watch(const uint64_t *p); /* what another block may write meanwhile: model.h says what is found */
void exec_post(uint64_t *p, uint64_t v);
uint64_t exec_ticket(uint64_t *p);
void exec_access(const void *p, size_t bytes, int how); /* a plain access, of kernels that tell of theirs: how is one of model.h's */
void exec_copy_async(void *to, const void *from, int bytes);
void exec_copy_commit(void);
void exec_copy_wait(int pending);
void exec_fail(const char *what);

/* ---- for the test ---- */
typedef void (*exec_entry)(const void *params); /* calls the kernel with the struct by value */

typedef struct exec_launch {
        exec_entry entry;
        const void *params;
        uint32_t blocks, threads, shared;
        uint32_t resident; /* blocks that run at once */
        uint32_t cluster;  /* of those, so many always do, as neighbours */
        uint64_t seed;
        int races;         /* the kernel tells of its accesses, and those that race fail */
} exec_launch;

/* Runs it to its end; 0, or nonzero when the kernel hung or broke a rule (a sentence is on stderr). */
int exec_run(const exec_launch *launch);

#ifdef __cplusplus
}
#endif

#endif
