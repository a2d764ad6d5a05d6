/*
 * plan.h: how the CPU walks a step: which kernel shape, which dimensions are rows, columns or outer positions, and how the work is
 * cut into tasks. Made once a call, read by every worker.
 */
#ifndef SF_CPU_PLAN_H
#define SF_CPU_PLAN_H

#include "core/walk.h"
#include "cpu/kernels.h"

typedef enum sf_cpu_shape {
        SF_CPU_ROWS,    /* contiguous sequences, or narrow matrices down their long axis */
        SF_CPU_PACKED,  /* whole short sequences side by side in a vector */
        SF_CPU_COLUMNS, /* a lane a sequence */
        SF_CPU_STAGED   /* anything else: by way of panels in cache (fused.c) */
} sf_cpu_shape;

typedef struct sf_cpu_plan {
        const sf_step *step;
        const sf_cpu_isa *isa;
        const sf_cpu_kernels *kernels;
        sf_cpu_shape shape;
        int64_t size;   /* bytes of an element, the same in x and in y */
        bool stream;    /* the result is too large to be worth caching */
        bool detour;    /* so it is, and kernels cannot stream lines this short: by way of scratch, in which many of them lie on end */
        bool reverse;   /* addresses go down along the sequence */
        int64_t ahead;  /* bytes that are worth prefetching ahead of a stream */
        sf_dim seq;     /* the sequence's one dimension */
        int64_t inner;  /* rows: interleaved columns. columns: the length of the vectorised dimension */
        sf_dim line;    /* rows, packed: the batch dimension walked inside a task; length 1 if there is none */
        int32_t nouter; /* the remaining batch dimensions */
        int64_t outer;  /* and how many positions they have */
        sf_dim outer_dims[SF_MAX_NDIM];
        const sf_lanes *lanes; /* the isa's, or own_lanes */
        sf_lanes own_lanes;
} sf_cpu_plan;

void sf_cpu_plan_make(sf_cpu_plan *plan, const sf_cpu_isa *isa, const sf_step *step);

/* How many workers a call on ctx is worth that reads and writes so many bytes. */
int sf_cpu_workers(const sf_context *ctx, int64_t bytes);
/* What one of them should have at least. */
#define SF_CPU_WORKER_BYTES (256 << 10)

/* Bytes of results that take such a detour at a time: they and what they are computed from stay in a first-level cache. */
#define SF_CPU_DETOUR (16 << 10)

/* An entry for the initial value and a fill for exclusive scans, `lanes` lanes each, in 2 * `lanes` of scratch. Returns NULL where
 * there is nothing to carry. */
const sf_carry *sf_cpu_carry_make(const sf_cpu_plan *plan, sf_carry *carry, char *scratch, int64_t lanes);

/* chain.c: a sequence shared by all threads. Returns false if there is no memory for its scratch. */
bool sf_cpu_chain_run(sf_context *ctx, const sf_cpu_plan *plan, int workers);

/* fused.c: a step of any geometry and types, fused or not, with its siblings. */
sf_status sf_cpu_fused_run(sf_context *ctx, const sf_step *step);

#endif
