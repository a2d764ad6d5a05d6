/*
 * fused_case.h: a random fused step and its siblings, drawn from a seed: programs, shapes, strides, types, masks, between guard pages; and the
 * check of it: every engine against the reference, bit by bit, and small ones against a second reading of the rule.
 */
#ifndef SF_TEST_FUSED_CASE_H
#define SF_TEST_FUSED_CASE_H

#include "harness.h"

#include "core/step.h"

extern long fused_checks;

/* `big` ones are large enough that a call is worth several threads. Reports and prints what is wrong. */
void fused_check(uint64_t seed, bool big);

/* The rule computed in another way: neighbours in pairs, level by level. */
sf_value fold_in_pairs(const sf_step *s, const sf_value *a, int64_t n);

#endif
