#include "executor.h"
#include "model.h"
#include "switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN 1
#endif

#define COPIES 256

/* ------------------------------------------------------------------------------------------------------------
 * Fibers
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct copy {
        void *to;
        const void *from;
        int bytes, group;
} copy;

typedef struct fiber {
        context at;
        char *stack;
        struct block *block;
        int thread;
        int started, done, turn_taken;
        const unsigned *wait; /* runnable once *wait differs from `seen`; NULL: at once */
        unsigned seen;
        int parity;           /* of the warp's exchange */
        unsigned met;         /* the cluster's turn when it arrived */
        int arrivals;         /* not yet waited for */
        unsigned syncs, arrived_times, waited_times; /* of its warp; at its cluster */
        copy *copies;
        int copy_count, group;
        void *fake_stack;
} fiber;

typedef struct warp {
        unsigned turn; /* grows when all lanes have met */
        int arrived, lanes, live;
        uint64_t slot[2][32];
} warp;

/* Neighbours that run at once. */
typedef struct cluster {
        unsigned turn, era;
        int arrived, live;
        struct block *first;
} cluster;

typedef struct block {
        int64_t index; /* -1: none */
        cluster *cluster;
        unsigned turn;
        int arrived, live;
        unsigned char *shared;
        fiber *fibers;
        warp *warps;
} block;

static const exec_launch *now;
static fiber *current;
static context scheduler;
static int failed, progressed, spun;
#if ASAN
static const void *scheduler_stack;
static size_t scheduler_stack_size;
static void *scheduler_fake;
#endif

static void fiber_main(void);

static void fiber_enter(fiber *f)
{
        current = f;
        progressed = 1;
#if ASAN
        __sanitizer_start_switch_fiber(&scheduler_fake, f->stack, STACK);
#endif
        SWITCH(scheduler, f->at);
#if ASAN
        __sanitizer_finish_switch_fiber(scheduler_fake, NULL, NULL);
#endif
        current = NULL;
}

static void fiber_leave(int forever)
{
        fiber *f = current;
        (void)forever;
#if ASAN
        __sanitizer_start_switch_fiber(forever ? NULL : &f->fake_stack, scheduler_stack, scheduler_stack_size);
#endif
        SWITCH(f->at, scheduler);
#if ASAN
        __sanitizer_finish_switch_fiber(f->fake_stack, &scheduler_stack, &scheduler_stack_size);
#endif
}

static void warp_met(warp *w)
{
        if (w->arrived && w->arrived == w->live) {
                w->arrived = 0;
                w->turn++;
        }
}

static void block_met(block *b)
{
        if (b->arrived && b->arrived == b->live) {
                b->arrived = 0;
                b->turn++;
        }
}

static void cluster_met(cluster *c)
{
        if (c->arrived && c->arrived == c->live) {
                c->arrived = 0;
                c->turn++;
        }
}

static void fiber_main(void)
{
#if ASAN
        __sanitizer_finish_switch_fiber(NULL, &scheduler_stack, &scheduler_stack_size);
#endif
        current->turn_taken = 0;
        now->entry(now->params);
        fiber *f = current;
        if (!f->turn_taken)
                exec_fail("a thread did not wait for the launch before its own");
        warp *w = &f->block->warps[f->thread / 32];
        f->done = 1;
        w->live--;
        f->block->live--;
        warp_met(w);
        block_met(f->block);
        f->block->cluster->live--;
        cluster_met(f->block->cluster);
        fiber_leave(1);
}

/* ------------------------------------------------------------------------------------------------------------
 * Functions that kernels call
 * ---------------------------------------------------------------------------------------------------------- */
int exec_thread(void)
{
        return current->thread;
}

long long exec_block(void)
{
        return current->block->index;
}

unsigned char *exec_shared(void)
{
        return current->block->shared;
}

void exec_fail(const char *what)
{
        if (!failed)
                fprintf(stderr, "executor: %s (block %lld, thread %d)\n", what, exec_block(), exec_thread());
        failed = 1;
        current->wait = &current->block->warps[0].turn; /* never runs again: the launch is given up */
        for (;;)
                fiber_leave(0);
}

static void wait_for(const unsigned *turn, unsigned seen)
{
        if (*turn != seen)
                return;
        current->wait = turn;
        current->seen = seen;
        fiber_leave(0);
        current->wait = NULL;
}

void exec_take_turn(void)
{
        current->turn_taken = 1;
}

void exec_sync_block(void)
{
        block *b = current->block;
        unsigned seen = b->turn;
        b->arrived++;
        block_met(b);
        wait_for(&b->turn, seen);
}

void exec_cluster_arrive(void)
{
        cluster *c = current->block->cluster;
        if (current->arrivals++)
                exec_fail("a thread arrives twice before it waits for its cluster");
        current->met = c->turn;
        current->arrived_times++;
        c->arrived++;
        cluster_met(c);
}

void exec_cluster_wait(void)
{
        if (!current->arrivals--)
                exec_fail("a thread waits for its cluster and has not arrived");
        wait_for(&current->block->cluster->turn, current->met);
        current->waited_times++;
}

unsigned char *exec_cluster_place(const void *place, int rank)
{
        const block *own = current->block;
        const size_t offset = (size_t)((const unsigned char *)place - own->shared);
        if (rank < 0 || rank >= (int)now->cluster || offset >= now->shared)
                exec_fail("a write to shared memory that no block of the cluster has");
        if (!own->cluster->turn)
                exec_fail("a write to the shared memory of a block that may not have begun");
        if (!own->cluster->first[rank].live)
                exec_fail("a write to the shared memory of a block that has ended");
        exec_access(own->cluster->first[rank].shared + offset, 4, MODEL_WRITE);
        return own->cluster->first[rank].shared + offset;
}

/* Lanes write, meet, read. The slots alternate: a lane can be one exchange ahead of the others, never two. */
static warp *meet(uint64_t v)
{
        fiber *f = current;
        warp *w = &f->block->warps[f->thread / 32];
        unsigned seen = w->turn;
        w->slot[f->parity][f->thread % 32] = v;
        if (w->live < w->lanes)
                exec_fail("a warp exchanges after one of its lanes has returned");
        w->arrived++;
        warp_met(w);
        wait_for(&w->turn, seen);
        return w;
}

uint64_t exec_shuffle(uint64_t v, int lane)
{
        warp *w = meet(v);
        if (lane < 0 || lane > 31)
                exec_fail("a shuffle from a lane that is none");
        v = w->slot[current->parity][lane];
        current->parity ^= 1;
        return v;
}

uint32_t exec_ballot(int v)
{
        warp *w = meet((uint64_t)(v != 0));
        uint32_t all = 0;
        for (int i = 0; i < w->lanes; i++)
                all |= (uint32_t)w->slot[current->parity][i] << i;
        current->parity ^= 1;
        return all;
}

void exec_sync_warp(void)
{
        exec_ballot(1);
        current->syncs++;
}

void exec_yield(void)
{
        spun = 1;
        fiber_leave(0);
}

/* Where the running thread stands, for the model: shared memory is another place each time that blocks begin. */
UNCHECKED static model_who who(const void *p)
{
        const fiber *f = current;
        const cluster *c = f->block->cluster;
        model_who w = {.block = (uint32_t)f->block->index, .cluster = (uint32_t)f->block->index / now->cluster, .thread = (uint32_t)f->thread, .era = 0,
                       .barriers = f->block->turn, .syncs = f->syncs, .arrived = f->arrived_times, .waited = f->waited_times};
        for (uint32_t i = 0; i < now->cluster; i++)
                if ((uintptr_t)p - (uintptr_t)c->first[i].shared < now->shared)
                        w.era = c->era;
        return w;
}

UNCHECKED void exec_access(const void *p, size_t bytes, int how)
{
        if (!now->races || !current || stack_has(p))
                return;
        const model_who w = who(p);
        if (!w.era && !current->turn_taken)
                exec_fail("memory is touched before the launch in front of this one has ended");
        model_access(&w, p, bytes, how);
}

uint64_t exec_watch(const uint64_t *p)
{
        exec_yield();
        exec_access(p, sizeof *p, MODEL_WORD);
        return model_watch(current->block->index, p);
}

void exec_post(uint64_t *p, uint64_t v)
{
        exec_access(p, sizeof *p, MODEL_WORD);
        model_post(current->block->index, p, v);
}

uint64_t exec_ticket(uint64_t *p)
{
        exec_yield();
        exec_access(p, sizeof *p, MODEL_WORD);
        model_post(current->block->index, p, *p + 1);
        return *p - 1;
}

/* Nothing arrives before it is waited for: a kernel that reads too early finds garbage. */
void exec_copy_async(void *to, const void *from, int bytes)
{
        fiber *f = current;
        if (!f->copies && !(f->copies = malloc(COPIES * sizeof *f->copies)))
                abort();
        if (f->copy_count == COPIES)
                exec_fail("too many copies under way");
        exec_access(to, (size_t)bytes, MODEL_WRITE);
        memset(to, 0xdb, (size_t)bytes);
        f->copies[f->copy_count++] = (copy){to, from, bytes, f->group};
}

void exec_copy_commit(void)
{
        current->group++;
}

void exec_copy_wait(int pending)
{
        fiber *f = current;
        int kept = 0;
        for (int i = 0; i < f->copy_count; i++)
                if (f->copies[i].group < f->group - pending) {
                        exec_access(f->copies[i].from, (size_t)f->copies[i].bytes, MODEL_READ);
                        exec_access(f->copies[i].to, (size_t)f->copies[i].bytes, MODEL_WRITE);
                        memcpy(f->copies[i].to, f->copies[i].from, (size_t)f->copies[i].bytes);
                } else {
                        f->copies[kept++] = f->copies[i];
                }
        f->copy_count = kept;
}

/* ------------------------------------------------------------------------------------------------------------
 * Scheduling
 * ---------------------------------------------------------------------------------------------------------- */
static void block_start(block *b, int64_t index)
{
        b->index = index;
        b->turn = 0;
        b->arrived = 0;
        b->live = (int)now->threads;
        b->shared = malloc(now->shared ? now->shared : 1);
        if (!b->shared)
                abort();
        memset(b->shared, 0xab, now->shared);
        for (int w = 0; w * 32 < b->live; w++) {
                b->warps[w].turn = 0;
                b->warps[w].arrived = 0;
                b->warps[w].lanes = b->warps[w].live = b->live - w * 32 < 32 ? b->live - w * 32 : 32;
        }
        for (int t = 0; t < b->live; t++) {
                fiber *f = &b->fibers[t];
                f->block = b;
                f->thread = t;
                f->done = f->parity = f->copy_count = f->group = f->arrivals = 0;
                f->syncs = f->arrived_times = f->waited_times = 0;
                f->wait = NULL;
                f->fake_stack = NULL;
                context_prepare(&f->at, f->stack, STACK, fiber_main);
        }
}

static void cluster_start(cluster *c, int64_t index)
{
        c->turn = 0;
        c->era = model_era();
        c->arrived = 0;
        c->live = (int)(now->threads * now->cluster);
        for (uint32_t i = 0; i < now->cluster; i++)
                block_start(&c->first[i], index * now->cluster + i);
}

static void warp_drive(block *b, int first)
{
        int last = first + 32 < (int)now->threads ? first + 32 : (int)now->threads;
        for (int ran = 1; ran && !failed;) {
                ran = 0;
                spun = 0;
                for (int t = first; t < last && !failed; t++) {
                        fiber *f = &b->fibers[t];
                        if (f->done || (f->wait && *f->wait == f->seen))
                                continue;
                        fiber_enter(f);
                        ran = 1;
                }
                if (spun)
                        return;
        }
}

int exec_run(const exec_launch *launch)
{
        const uint32_t side = launch->cluster, groups = launch->blocks / side; /* `order` is of clusters */
        const uint32_t wanted = launch->resident < side ? 1 : launch->resident / side, running_groups = wanted < groups ? wanted : groups;
        const uint32_t resident = running_groups * side;
        uint64_t random = launch->seed;
        int64_t *order = malloc(groups * sizeof *order);
        block *blocks = calloc(resident, sizeof *blocks);
        cluster *clusters = calloc(running_groups, sizeof *clusters);
        if (!order || !blocks || !clusters || groups * side != launch->blocks)
                abort();
        now = launch;
        failed = 0;
        model_begin(launch->seed, launch->blocks);
        for (uint32_t i = 0; i < groups; i++) {
                uint32_t k = (uint32_t)(model_random(&random) % (i + 1));
                order[i] = order[k];
                order[k] = i;
        }
        uint32_t started = 0, running = 0;
        for (uint32_t i = 0; i < resident; i++) {
                blocks[i].fibers = calloc(launch->threads, sizeof *blocks[i].fibers);
                blocks[i].warps = calloc(launch->threads / 32 + 1, sizeof *blocks[i].warps);
                if (!blocks[i].fibers || !blocks[i].warps)
                        abort();
                for (uint32_t t = 0; t < launch->threads; t++)
                        blocks[i].fibers[t].stack = stack_number((size_t)i * launch->threads + t, (size_t)resident * launch->threads);
                clusters[i / side].first = &blocks[i / side * side];
                blocks[i].cluster = &clusters[i / side];
        }
        for (; running < running_groups; running++)
                cluster_start(&clusters[running], order[started++]);
        int idle = 0;
        for (long rounds = 0; running && !failed; rounds++) {
                progressed = 0;
                uint32_t first = (uint32_t)(model_random(&random) % resident);
                for (uint32_t k = 0; k < resident && !failed; k++) {
                        block *b = &blocks[(first + k) % resident];
                        /* Sometimes a block skips a round: results must not change. */
                        if (b->index < 0 || (resident > 1 && model_random(&random) % 4 == 0))
                                continue;
                        for (uint32_t t = 0; t < launch->threads && !failed; t += 32)
                                warp_drive(b, (int)t);
                        if (b->live == 0)
                                b->index = -1;
                        if (b->cluster->live == 0) {
                                for (uint32_t i = 0; i < side; i++)
                                        free(b->cluster->first[i].shared);
                                running--;
                                if (started < groups) {
                                        cluster_start(b->cluster, order[started++]);
                                        running++;
                                }
                        }
                }
                idle = progressed ? 0 : idle + 1;
                if (idle > 100 || rounds > 20000000) {
                        fprintf(stderr, "executor: %s\n", idle > 100 ? "every thread waits for another" : "the kernel does not end");
                        failed = 1;
                }
        }
        for (uint32_t i = 0; i < resident; i++) {
                for (uint32_t t = 0; t < launch->threads; t++)
                        free(blocks[i].fibers[t].copies);
                if (blocks[i].cluster->live)
                        free(blocks[i].shared);
                free(blocks[i].fibers);
                free(blocks[i].warps);
        }
#if ASAN
        if (failed) /* frames that were given up */
                __asan_unpoison_memory_region(stacks.base, stacks.count * STACK);
#endif
        free(clusters);
        free(blocks);
        free(order);
        return failed;
}
