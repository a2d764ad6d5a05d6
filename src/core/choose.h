/* choose.h: from what a caller asked for to what a step is given: options, dtypes, the initial value. */
#ifndef SF_CHOOSE_H
#define SF_CHOOSE_H

#include "core/step.h"

/*
 * Copies a caller's options, which begin with their size. Options grow at their end. A struct from an older header is shorter:
 * what it lacks is zero, the default. One from a newer header is longer: what we do not know must be zero, or we would silently do
 * something else.
 */
sf_status sf_options_read(const sf_context *ctx, const char *type, const void *given, void *options, size_t size);

/* Sets the step's op, in, acc and out by the table of scanfold.h; false if the pair is not in it. */
bool sf_step_pair(sf_step *step, sf_op op, sf_dt in, sf_dt out);

/* The same, or a sentence; `accumulator` is the caller's wish. */
sf_status sf_step_dtypes(const sf_context *ctx, sf_step *step, sf_op op, sf_dt in, sf_dt out, sf_dtype accumulator);

/* The dtype of results where none is asked for: sums and products of integers are 64 bits wide, indices i64, what rounds is real. */
sf_dt sf_usual_result(sf_op op, sf_dt in);

/* Then the identity, and the initial value in the accumulator's type. */
sf_status sf_step_initial(const sf_context *ctx, sf_step *step, sf_scalar initial);

#endif
