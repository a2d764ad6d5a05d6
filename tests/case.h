/*
 * case.h: one scan or fold, described by plain numbers so that it can be printed, varied and repeated, and the check
 * of it: every engine's result against the reference's on compact copies, bit by bit, and nothing else touched.
 */
#ifndef SF_TEST_CASE_H
#define SF_TEST_CASE_H

#include "harness.h"

enum {
#define MASK(name) MASK_##name,
#include "cases.def"
        MASK_COUNT
};

typedef struct test_case {
        bool fold;
        sf_op op;
        int in, out, acc; /* DT_...; acc DT_NONE leaves it unset */
        int32_t ndim;
        int64_t shape[SF_MAX_NDIM];
        bool all_axes; /* fold: axes is NULL */
        int32_t naxes, axes[SF_MAX_NDIM]; /* a scan's axis is axes[0] */
        bool keepdim, reverse, exclusive, in_place;
        int initial; /* 0: none; else which one */
        int x_layout, out_layout, mask, mask_layout;
        bool mask_u8;
        int fill, guard, skew_x, skew_out, skew_mask; /* skews in bytes: any alignment is allowed */
        uint64_t seed;
} test_case;

#define INITIALS 5

/* A scan or fold of f32 sums along `axis`, all other options at their defaults. */
test_case case_plain(bool fold, int32_t axis, int32_t ndim, const int64_t *shape);

/* Draws the named parts from the seed, such that the whole case is allowed. */
enum {
        VARY_DTYPES = 1,
        VARY_OPTIONS = 2,
        VARY_LAYOUTS = 4,
        VARY_MASK = 8,
        VARY_PLACE = 16,
        VARY_FILL = 32,
        VARY_ALL = 63
};
void case_vary(test_case *c, uint64_t seed, unsigned parts);
/* One of the allowed accumulators of c's op and dtypes, DT_NONE among them. */
int case_accumulator(const test_case *c, uint64_t seed);

/* The shapes of cases.def, each with the axis it is scanned or folded along. */
typedef struct case_shape {
        int32_t axis, ndim;
        int64_t shape[8];
} case_shape;
#define CASE_LENGTHS(...) (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}

/* How many of them the lists have. */
enum {
#define BIG(...) +1
        CASE_BIG = 0
#include "cases.def"
        ,
#define SAMPLE(...) +1
        CASE_SAMPLES = 0
#include "cases.def"
};
extern const case_shape case_big[CASE_BIG], case_samples[CASE_SAMPLES];

test_case case_of_shape(bool fold, const case_shape *shape);

/* Calls `check` for every operation on every pair of dtypes with every accumulator, on every sample. */
void case_each_dtype(bool fold, void (*check)(const test_case *c, unsigned parts));

/* Makes the case one that is allowed: in place, both dtypes have one size, and the layout suits
 * an output. */
void case_settle(test_case *c);

void case_print(const test_case *c, FILE *to);
/* Returns false, with a report, if any engine is wrong. Counts as one check. */
bool case_check(const test_case *c);
extern long cases_checked;

/*
 * Lists of cases run every `stride`-th only where the program was given "--every N": slow machines (an emulator, a
 * sanitizer) then still see a little of everything. case_next() tells whether it is the turn of the next one.
 * With "--op NAME" every case is that operation's.
 */
void case_arguments(int argc, char **argv);
bool case_next(void);

#endif
