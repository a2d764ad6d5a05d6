/* choose.h: turns what a caller asked for (options, dtypes, the initial value) into fields of a
 * step. */
#ifndef SF_CHOOSE_H
#define SF_CHOOSE_H

#include "core/step.h"

/*
 * Copies a caller's options, which begin with their size. New fields are added at the end. A struct
 * from an older header is shorter: the fields that it lacks become zero, the default. One from a
 * newer header is longer: the fields that this library does not know must be zero, because
 * otherwise it would silently ignore them.
 */
sf_status sf_options_read(const sf_context *ctx, const char *type, const void *given, void *options, size_t size, uint64_t reserved);

/* No options struct will ever be this long. A larger size means that the field was not
 * initialised. */
enum { SF_MOST_OPTIONS = 4096 };

/* `reserved`: the words of the struct that must be zero; bit k is the word at byte 4k. They are
 * where the compiler would otherwise insert padding, whose bytes callers do not initialise. */
#define SF_RESERVED(type, field) ((uint64_t)1 << offsetof(type, field) / 4)
#define SF_RESERVED_SCAN (SF_RESERVED(sf_scan_options, reserved0) | SF_RESERVED(sf_scan_options, reserved1))
#define SF_RESERVED_FOLD (SF_RESERVED(sf_fold_options, reserved0) | SF_RESERVED(sf_fold_options, reserved1))
#define SF_RESERVED_EXPR (SF_RESERVED(sf_expr_options, reserved0) | SF_RESERVED(sf_expr_options, reserved1))
#define SF_RESERVED_SHARD SF_RESERVED(sf_shard_options, reserved0)
#define SF_RESERVED_PLAN SF_RESERVED(sf_plan_options, reserved0)

/* Sets the step's op, in, acc and out by the table of scanfold.h; false if the pair is not in it. */
bool sf_step_pair(sf_step *step, sf_op op, sf_dt in, sf_dt out);

/* The same, with an error message if it fails. `accumulator` is what the caller asked for. */
sf_status sf_step_dtypes(const sf_context *ctx, sf_step *step, sf_op op, sf_dt in, sf_dt out, sf_dtype accumulator);

/* The dtype of results where the caller asks for none: sums and products of integers are 64 bits
 * wide, indices are i64, and operations that round (SF_ROUNDS) give reals. */
sf_dt sf_usual_result(sf_op op, sf_dt in);

/* After that: sets the identity, and the initial value in the accumulator's type. */
sf_status sf_step_initial(const sf_context *ctx, sf_step *step, sf_scalar initial);

#endif
