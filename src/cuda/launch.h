/*
 * launch.h: what planning (emit.c, tuning.c) passes to launching (cuda.c, jit.c).
 *
 * A step becomes a few launches, one after another on the caller's stream. Each names a kernel
 * file, a specialisation of it, a grid, and the arguments. The specialisation is a plain struct
 * that determines every character of the prelude, so a warm call finds its module by hashing the
 * struct and writes no text.
 */
#ifndef SF_CUDA_LAUNCH_H
#define SF_CUDA_LAUNCH_H

#include "core/step.h"

#include <string.h>

/* The properties of a device that tuning needs. */
typedef struct sf_cuda_chip {
        int32_t capability;      /* 90 for 9.0 */
        int32_t multiprocessors;
        int32_t threads_per_multiprocessor;
        int32_t shared_per_block; /* bytes; the opt-in limit */
        int32_t shared_per_multiprocessor;
        int64_t l2;              /* bytes */
        int32_t cluster;         /* the most blocks in a cluster; 1: there are no clusters */
        int32_t widest_cluster;  /* the most that it may have room for */
        /* only in tests: not 0 makes every tile small, so that short sequences have many */
        int32_t small_tiles;
} sf_cuda_chip;

/* The embedded kernel files, in the order of kernels.def. */
typedef enum sf_cuda_kernel {
#define KERNEL(name, NAME) SF_CUDA_##NAME,
#include "cuda/kernels.def"
#undef KERNEL
        SF_CUDA_KERNEL_COUNT
} sf_cuda_kernel;

/* How an operand is laid out along the lines that a kernel walks, and which program reads it. */
enum {
        SF_CUDA_OPERAND_UNIT = 3, /* mask: 0 any stride, 1 forwards, 2 backwards, 3 one element for the whole line */
        SF_CUDA_OPERAND_LOADS = 4,
        SF_CUDA_OPERAND_STORES = 8,
        /* again.cu: this times (1 + the step whose result it is); 0: memory. Its unit is the step
         * that reads it */
        SF_CUDA_OPERAND_MADE = 16,
        SF_CUDA_OPERAND_SPREAD = 16, /* segments.cu: one element for each segment */
        /* in a scan: its elements are contiguous, but not aligned as vectors */
        SF_CUDA_OPERAND_LOOSE = 32,
        SF_CUDA_OPERAND_SHORT = 64, /* in a scan: it lacks the last element (sf_operand.lacks_last) */
        SF_CUDA_OPERAND_STILL = 128, /* a fold of columns: all rows read the same elements */
        SF_CUDA_OPERAND_COPIED = 128 /* in a chain: it may go by way of shared memory */
};

/* The most steps that share a launch: folds of one read, a scan and its total, the steps of a chain
 * (a layer norm's gradient has five). */
#define SF_CUDA_MEMBERS_MAX 5
/* The most with folds across the lines of a chain (sf_step.across). */
#define SF_CUDA_STEPS_MAX 7

/* A step that shares another's launch: another fold; or a scan's total or second result, which
 * load nothing. */
typedef struct sf_cuda_also {
        /* as in the specialisation; initial: is there an initial value */
        uint8_t op, acc, out, initial;
        uint8_t loads, stores;
        /* of a scan's results: how they are laid out along the line, as in SF_CUDA_OPERAND_UNIT */
        uint8_t unit;
        uint8_t doubles; /* 1: another result of the scan itself, at every position */
} sf_cuda_also;

/* The programs of fused steps. Their operands and constants are renumbered, without those that the
 * launch does not use. */
typedef struct sf_cuda_fused {
        /* counts: operands, constants, and instructions of the two programs */
        uint8_t operands, constants, loads, stores;
        uint8_t others; /* and of the program that makes the second part of elements (SF_TWO) */
        uint8_t dt[SF_OPERANDS_MAX], how[SF_OPERANDS_MAX];
        uint8_t beside; /* how many other steps share the launch */
        sf_cuda_also also[SF_CUDA_STEPS_MAX - 1];
        /* of the load, the second part, the store; then of each such step */
        sf_instruction code[3 * SF_PROGRAM_MAX];
} sf_cuda_fused;

/* Everything that is a compile-time constant of a kernel. It has no padding, and is hashed as
 * bytes: the first sf_cuda_spec_size bytes are initialised. */
typedef struct sf_cuda_spec {
        int32_t kernel; /* sf_cuda_kernel */
        int32_t op;     /* sf_op */
        int32_t in, acc, out; /* sf_dt */
        int32_t flags;  /* emit.h */
        int32_t threads;
        int32_t items;  /* vectors (or rows) that a thread holds */
        int32_t width;  /* elements of a vector access */
        int32_t extra[15]; /* the kernel file's prelude gives them meaning */
        sf_cuda_fused fused; /* all zero for a plain step */
        uint8_t rest[2];
} sf_cuda_spec;

/* The instructions of all its programs. */
static inline size_t sf_cuda_codes(const sf_cuda_fused *f)
{
        size_t count = (size_t)f->loads + f->others + f->stores;
        for (int k = 0; k < f->beside; k++)
                count += (size_t)f->also[k].loads + f->also[k].stores;
        return count;
}

/* How many bytes identify a specialisation: few for a plain one. A multiple of 8. */
static inline size_t sf_cuda_spec_size(const sf_cuda_spec *spec)
{
        size_t codes = sf_cuda_codes(&spec->fused);
        return offsetof(sf_cuda_spec, fused) + (codes ? (offsetof(sf_cuda_fused, code) + codes * sizeof(sf_instruction) + 7) / 8 * 8 : 0);
}

static inline bool sf_cuda_spec_same(const sf_cuda_spec *a, const sf_cuda_spec *b)
{
        size_t size = sf_cuda_spec_size(a);
        return sf_cuda_spec_size(b) == size && !memcmp(a, b, size);
}

/* Every driver accepts this many; params_size says how many a launch uses. */
#define SF_CUDA_MAX_PARAMS 4096

typedef struct sf_cuda_launch {
        sf_cuda_spec spec;
        uint32_t grid[3];
        uint32_t shared; /* dynamic shared memory, bytes */
        size_t params_size;
        /* The struct that the kernel takes by value. Scratch pointers in it are offsets until the
         * launch adds the base. */
        _Alignas(8) unsigned char params[SF_CUDA_MAX_PARAMS];
        int32_t scratch_fields; /* the scratch base is added to this many first fields of params */
        bool overlaps;          /* its blocks may start before the launch before it has ended */
} sf_cuda_launch;

#define SF_CUDA_MAX_LAUNCHES (1 + SF_CUDA_MEMBERS_MAX)

typedef struct sf_cuda_plan {
        int32_t steps;        /* how many steps it does: the first and its next siblings */
        int32_t launches;
        bool across;          /* of a chain: does it also do the folds across its lines? */
        size_t scratch;       /* bytes in all */
        /* all of it is words through which blocks communicate: zero at first, then as the last
         * launch left them */
        bool watched;
        sf_cuda_launch launch[SF_CUDA_MAX_LAUNCHES];
} sf_cuda_plan;

/* Plans the step and those of its siblings that share its read; plan->steps says how many. It uses
 * no driver and allocates nothing; the same steps and chip give the same plan. */
sf_status sf_cuda_plan_step(const sf_context *ctx, const sf_step *step, const sf_cuda_chip *chip, sf_cuda_plan *plan);

/* Writes a specialisation's prelude; returns its length without the final NUL, like snprintf. */
size_t sf_cuda_prelude(const sf_cuda_spec *spec, char *text, size_t size);

/* The whole text to compile: the prelude, the kernel files, the programs. Allocated; the caller
 * frees it. */
sf_status sf_cuda_source(const sf_context *ctx, const sf_cuda_spec *spec, char **text);

const char *sf_cuda_kernel_name(int32_t kernel); /* "scan_rows", or "" */

/* The name of a specialisation's __global__ function, which is what a profiler shows. */
#define SF_CUDA_ENTRY_SIZE 96
void sf_cuda_entry(const sf_cuda_spec *spec, char name[SF_CUDA_ENTRY_SIZE]);

#endif
