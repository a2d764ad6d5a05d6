/*
 * again.h: results that are computed again where they came out not finite.
 *
 * A plan that sums in another order than the expression says may overflow where the expression does
 * not. So it carries, beside a result, the steps that compute one element of it as written: a line.
 * A backend looks at the results, and runs the steps for each line that is not finite, one after
 * another; the last of them writes the result.
 *
 *     for each line, a position of line[0 .. dims):
 *         if the result there is not finite:
 *             for each step, with its operands moved along:  run it
 *
 * What a step leaves for a later one is memory of the line's own, or is not kept at all: a backend
 * may as well compute each element of it where the later step reads it.
 */
#ifndef SF_AGAIN_H
#define SF_AGAIN_H

#include "core/step.h"

#define SF_AGAIN_STEPS 4
/* Of lines and of all steps together; with SF_OPERANDS_MAX operands in all, what one CUDA launch
 * takes as parameters. */
#define SF_AGAIN_DIMS 24
/* Instructions of all programs, a program of none counted as one. */
#define SF_AGAIN_CODES (2 * SF_PROGRAM_MAX)

typedef struct sf_again_step {
        sf_step step; /* of line 0, without a mask */
        sf_fuse fuse; /* the step's; does nothing to the elements of a plain one */
        bool plain;
        /* -1, or the step whose result this operand is */
        int32_t made[SF_OPERANDS_MAX];
        int64_t move[SF_AGAIN_DIMS][SF_OPERANDS_MAX];       /* bytes from line to line */
        /* where its result begins; of all but the last step in `made` */
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
        /* an address nobody reads from; a backend that keeps what steps leave puts its own memory
         * there */
        char *made;
        int64_t size; /* bytes of that, a line */
} sf_again;

/* again.c: for backends that run steps on the host. Are all results finite? And for those that are
 * not, the steps. */
bool sf_again_all_finite(sf_context *ctx, const sf_again *again);
sf_status sf_again_run(sf_context *ctx, const sf_again *again);

#endif
