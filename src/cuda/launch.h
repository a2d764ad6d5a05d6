/*
 * launch.h: what deciding (emit.c, tuning.c) hands to launching (cuda.c, jit.c).
 *
 * A step becomes a few launches, one after another on the caller's stream. Each names a kernel file, a specialisation
 * of it, a grid, and the arguments. The specialisation is a plain struct that determines the prelude's every character,
 * so a warm call finds its module by hashing the struct and writes no text.
 */
#ifndef SF_CUDA_LAUNCH_H
#define SF_CUDA_LAUNCH_H

#include "core/step.h"

#include <string.h>

/* What tuning needs to know of a device. */
typedef struct sf_cuda_chip {
        int32_t capability;      /* 90 for 9.0 */
        int32_t multiprocessors;
        int32_t threads_per_multiprocessor;
        int32_t shared_per_block; /* bytes, with the opt-in limit */
        int32_t shared_per_multiprocessor;
        int64_t l2;              /* bytes */
        int32_t cluster;         /* blocks that may run as one cluster; 1: there are none */
        int32_t small_tiles;     /* tests only: nonzero shrinks every tile, so that short sequences have many; else 0 */
} sf_cuda_chip;

/* The embedded kernel files, in the order of kernels.def. */
typedef enum sf_cuda_kernel {
#define KERNEL(name, NAME) SF_CUDA_##NAME,
#include "cuda/kernels.def"
#undef KERNEL
        SF_CUDA_KERNEL_COUNT
} sf_cuda_kernel;

/* How a program's operand lies along the lines a kernel walks, and who reads it. */
enum {
        SF_CUDA_OPERAND_UNIT = 3, /* mask: 0 any stride, 1 forwards, 2 backwards, 3 one element for the whole line */
        SF_CUDA_OPERAND_LOADS = 4,
        SF_CUDA_OPERAND_STORES = 8,
        SF_CUDA_OPERAND_MADE = 16, /* again.cu: this many times one more than the step whose result it is; 0: memory. Its unit is the step that reads it */
        SF_CUDA_OPERAND_SPREAD = 16, /* segments.cu: there is an element a segment */
        SF_CUDA_OPERAND_STILL = 128 /* a fold of columns: all rows read the same of it */
};

/* So many steps share a launch at most: folds of one read, or a scan and its total. */
#define SF_CUDA_MEMBERS_MAX 4

/* A step that shares the launch of another: of folds another member, of a scan its total, which loads nothing. */
typedef struct sf_cuda_also {
        uint8_t op, acc, out, initial; /* as in the specialisation; whether there is an initial value */
        uint8_t loads, stores;
        uint8_t unit; /* of a scan's results: how they lie along the line, as SF_CUDA_OPERAND_UNIT has it */
} sf_cuda_also;

/* The programs of fused steps. Their operands and constants are numbered anew: those a launch does not use are gone. */
typedef struct sf_cuda_fused {
        uint8_t operands, constants, loads, stores; /* how many of each; instructions of the two programs */
        uint8_t others; /* and of the one that makes the other of two elements (SF_TWO) */
        uint8_t dt[SF_OPERANDS_MAX], how[SF_OPERANDS_MAX];
        uint8_t beside; /* steps that share the launch */
        sf_cuda_also also[SF_CUDA_MEMBERS_MAX - 1];
        sf_instruction code[3 * SF_PROGRAM_MAX]; /* the load's, the other's, the store's; then those of each step beside */
} sf_cuda_fused;

/* Everything that is a compile-time constant of a kernel. No padding, and hashed as bytes: the first sf_cuda_spec_size are initialised. */
typedef struct sf_cuda_spec {
        int32_t kernel; /* sf_cuda_kernel */
        int32_t op;     /* sf_op */
        int32_t in, acc, out; /* sf_dt */
        int32_t flags;  /* emit.h */
        int32_t threads;
        int32_t items;  /* vectors (or rows) a thread holds */
        int32_t width;  /* elements a vector access moves */
        int32_t extra[11]; /* meanings belong to the kernel file's prelude */
        sf_cuda_fused fused; /* all its numbers are 0 for a plain step */
        uint8_t rest[5];
} sf_cuda_spec;

/* The instructions of all its programs. */
static inline size_t sf_cuda_codes(const sf_cuda_fused *f)
{
        size_t count = (size_t)f->loads + f->others + f->stores;
        for (int k = 0; k < f->beside; k++)
                count += (size_t)f->also[k].loads + f->also[k].stores;
        return count;
}

/* The bytes that tell a specialisation from others: a plain one's are few. A multiple of 8. */
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

/* What every driver takes; params_size says how much of it a launch uses. */
#define SF_CUDA_MAX_PARAMS 4096

typedef struct sf_cuda_launch {
        sf_cuda_spec spec;
        uint32_t grid[3];
        uint32_t shared; /* dynamic shared memory, bytes */
        size_t params_size;
        /* The one by-value struct the kernel takes; scratch pointers in it are offsets until the launch adds the base. */
        _Alignas(8) unsigned char params[SF_CUDA_MAX_PARAMS];
        int32_t scratch_fields; /* how many 8-byte fields of params, from the first, get the scratch base added */
        bool overlaps;          /* its blocks may come before the launch in front of it has ended */
} sf_cuda_launch;

#define SF_CUDA_MAX_LAUNCHES (1 + SF_CUDA_MEMBERS_MAX)

typedef struct sf_cuda_plan {
        int32_t steps;        /* that it does: the first, and so many of its siblings */
        int32_t launches;
        size_t scratch;       /* bytes in all */
        bool watched;         /* all of it is words that blocks publish to one another: zero at first, then as the launch before left them */
        sf_cuda_launch launch[SF_CUDA_MAX_LAUNCHES];
} sf_cuda_plan;

/* Decides, for the step and those of its siblings that share its read; plan->steps says how many. Pure: no driver, no allocation, the same
 * answer for the same steps and chip. */
sf_status sf_cuda_plan_step(const sf_context *ctx, const sf_step *step, const sf_cuda_chip *chip, sf_cuda_plan *plan);

/* Writes the prelude of a specialisation; returns its length without the final NUL, as snprintf does. */
size_t sf_cuda_prelude(const sf_cuda_spec *spec, char *text, size_t size);

/* The whole text that is compiled: the prelude, the kernel files, the programs. Allocated; the caller frees it. */
sf_status sf_cuda_source(const sf_context *ctx, const sf_cuda_spec *spec, char **text);

const char *sf_cuda_kernel_name(int32_t kernel); /* "scan_rows", or "" */

/* The name of a specialisation's __global__ function, which is what a profiler shows. */
#define SF_CUDA_ENTRY_SIZE 96
void sf_cuda_entry(const sf_cuda_spec *spec, char name[SF_CUDA_ENTRY_SIZE]);

#endif
