/*
 * again.h: results that are computed again where they came out not finite.
 *
 * A plan that sums in another order than the expression says may overflow where the expression does
 * not. So it has, beside a result, the steps that compute one element of it as written. Such an
 * element and its steps are called a line here. A backend looks at the results, and for each one
 * that is not finite it runs the line's steps, one after another; the last step writes the result.
 *
 *     for each line, a position of line[0 .. dims):
 *         if the result there is not finite:
 *             for each step, with its operands moved along:  run it
 *
 * The result of a step that is not the last is stored in memory that belongs to the line, or
 * nowhere: a backend may instead compute each element of it where the later step reads it.
 */
#ifndef SF_AGAIN_H
#define SF_AGAIN_H

#include "core/step.h"

#define SF_AGAIN_STEPS 4
/* Dimensions of lines and of all steps together: with SF_OPERANDS_MAX operands in all, they fit
 * into the parameters of one CUDA launch. */
#define SF_AGAIN_DIMS 24
/* Instructions of all programs together. An empty program counts as one instruction. */
#define SF_AGAIN_CODES (2 * SF_PROGRAM_MAX)

typedef struct sf_again_step {
        sf_step step; /* of line 0, without a mask */
        sf_fuse fuse; /* the step's programs; for a plain step they do nothing */
        bool plain;
        /* -1, or the number of the step whose result this operand is */
        int32_t made[SF_OPERANDS_MAX];
        /* in bytes, from one line to the next */
        int64_t move[SF_AGAIN_DIMS][SF_OPERANDS_MAX];
        /* where its result begins; for all but the last step this is inside sf_again.made */
        char *tensor;
} sf_again_step;

typedef struct sf_again {
        sf_device device;
        void *stream;
        char *results; /* of a real type */
        sf_dt dt;
        int64_t lines;
        int32_t dims;
        sf_dim line[SF_AGAIN_DIMS]; /* len; y: the results' strides */
        int32_t steps;
        sf_again_step step[SF_AGAIN_STEPS];
        /* A base address that is never read. A backend that stores intermediate results replaces it
         * by memory of its own. */
        char *made;
        int64_t size; /* bytes of `made` that one line needs */
} sf_again;

/* src/again.c, for backends that run steps on the host: are all results finite? And: run the steps
 * for those that are not. */
bool sf_again_all_finite(sf_context *ctx, const sf_again *again);
sf_status sf_again_run(sf_context *ctx, const sf_again *again);

#endif
