/*
 * fused_step.h: one fused step, drawn from a number: operands of any dtype, layout and broadcast, a random program on the way in and one
 * on the way out, a scan, a fold or neither between them, perhaps siblings. The same number is the same step everywhere, so a backend's
 * results can be held against the reference's.
 */
#ifndef SF_TEST_FUSED_STEP_H
#define SF_TEST_FUSED_STEP_H

#include "core/step.h"

#include <stdio.h>

#define FUSED_OPERANDS 5
#define FUSED_STEPS 4

/* Memory of one tensor: `data` is where its view begins. */
typedef struct fused_tensor {
        unsigned char *base;
        size_t bytes;
        sf_view view;
} fused_tensor;

typedef struct fused_case {
        uint64_t seed;
        int32_t ndim, operands, steps;
        int64_t shape[4], fold_shape[4];
        fused_tensor operand[FUSED_OPERANDS], mask, out[FUSED_STEPS];
        sf_step step[FUSED_STEPS]; /* each the sibling of the one before it */
        sf_fuse fuse[FUSED_STEPS];
        bool masked, reverse;
} fused_case;

enum {
        FUSED_SMALL = 1 /* for slow machines */
};

/* Allocates and fills; the steps' pointers lead into the case's own memory. */
void fused_make(fused_case *c, uint64_t seed, unsigned flags);
void fused_free(fused_case *c);

/* The outputs, and an input that is one, as they were before any run. */
void fused_reset(fused_case *c);

/* The bytes of all outputs, copied out. */
size_t fused_results_size(const fused_case *c);
void fused_results(const fused_case *c, unsigned char *to);

/* How many elements differ between two such copies (all NaN are equal), and whether a byte
 * between elements does. */
long fused_differences(const fused_case *c, const unsigned char *a, const unsigned char *b, bool *between);

void fused_print(const fused_case *c, FILE *to);

/* ------------------------------------------------------------------------------------------------------------
 * Fused steps that have a speed to keep, at the size they have it: nothing is behind their pointers.
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct fused_named {
        char name[48];
        sf_step step, beside; /* its sibling, if it has one */
        sf_fuse fuse, squares;
        int64_t shape[2], fold_shape[2];
        sf_view x, other, out;
} fused_named;

/* Fills number `index`; false past the last. */
bool fused_name(fused_named *c, int index);

#endif
