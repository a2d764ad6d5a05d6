/*
 * model.h: what CUDA's memory model allows, made to happen on the host.
 *
 * Words that blocks watch (sf_watch, sf_post, sf_ticket: relaxed, at the scope of the device) have every value that was posted, in order. A block that
 * watches one is given any of them that is not older than what it has seen there before: so posts are seen late, and two of them in either order. Nothing else
 * is promised of relaxed words. An atomic addition acts on the latest. A block is one observer: what one of its threads has seen, the others see.
 *
 * All other accesses are plain. Two of them, of different threads and to one byte, race if one is a write and nothing orders them: not a barrier of
 * the block, nor sf_sync_warp in one warp, nor a barrier of the cluster; shuffles and ballots order nothing. A race fails, whatever was read and in whichever order the
 * executor ran them: so a barrier that is missing is seen without luck. A byte is plain or a word for the length of a launch, never both.
 *
 * There are no fences, releases or acquires here because the kernels have none. One that needs them needs them here first.
 */
#ifndef SF_HOST_MODEL_H
#define SF_HOST_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MODEL_READ, MODEL_WRITE, MODEL_MARK, MODEL_WORD };

/* A thread, and how far it is: what its block, warp and cluster have met for. */
typedef struct model_who {
        uint32_t block, cluster, thread;
        uint32_t era; /* of shared memory: when it came to be; 0: global memory */
        uint32_t barriers, syncs, arrived, waited;
} model_who;

void model_begin(uint64_t seed, uint32_t blocks); /* a launch: it sees all that came before it */
uint32_t model_era(void);
void model_access(const model_who *who, const void *p, size_t bytes, int how);
void model_count(const void *from, size_t bytes); /* from now on, the reads of these bytes */
long model_reads(void);
uint64_t model_watch(int64_t block, const uint64_t *p);
void model_post(int64_t block, uint64_t *p, uint64_t v);
uint64_t model_random(uint64_t *state);

#ifdef __cplusplus
}
#endif

#endif
