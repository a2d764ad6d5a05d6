/* choose.h: from what a caller asked for to what a step is given: options, dtypes, the initial value. */
#ifndef SF_CHOOSE_H
#define SF_CHOOSE_H

#include "core/step.h"

/*
 * Copies a caller's options, which begin with their size. Options grow at their end. A struct from an older header is shorter:
 * what it lacks is zero, the default. One from a newer header is longer: what we do not know must be zero, or we would silently do
 * something else.
 */
sf_status sf_options_read(const sf_context *ctx, const char *type, const void *given, void *options, size_t size, uint64_t reserved);

/* No header's options will be this long. A size beyond it was never set, and is no count of bytes to read. */
enum { SF_MOST_OPTIONS = 4096 };

/* `reserved`: the words of the struct that must be zero, bit k for that at byte 4k. They stand where there would be padding, in which callers leave whatever was there. */
#define SF_RESERVED(type, field) ((uint64_t)1 << offsetof(type, field) / 4)
#define SF_RESERVED_SCAN (SF_RESERVED(sf_scan_options, reserved0) | SF_RESERVED(sf_scan_options, reserved1))
#define SF_RESERVED_FOLD (SF_RESERVED(sf_fold_options, reserved0) | SF_RESERVED(sf_fold_options, reserved1))
#define SF_RESERVED_EXPR (SF_RESERVED(sf_expr_options, reserved0) | SF_RESERVED(sf_expr_options, reserved1))
#define SF_RESERVED_SHARD SF_RESERVED(sf_shard_options, reserved0)
#define SF_RESERVED_PLAN SF_RESERVED(sf_plan_options, reserved0)

/* Sets the step's op, in, acc and out by the table of scanfold.h; false if the pair is not in it. */
bool sf_step_pair(sf_step *step, sf_op op, sf_dt in, sf_dt out);

/* The same, or a sentence; `accumulator` is the caller's wish. */
sf_status sf_step_dtypes(const sf_context *ctx, sf_step *step, sf_op op, sf_dt in, sf_dt out, sf_dtype accumulator);

/* The dtype of results where none is asked for: sums and products of integers are 64 bits wide, indices i64, what rounds is real. */
sf_dt sf_usual_result(sf_op op, sf_dt in);

/* Then the identity, and the initial value in the accumulator's type. */
sf_status sf_step_initial(const sf_context *ctx, sf_step *step, sf_scalar initial);

#endif
