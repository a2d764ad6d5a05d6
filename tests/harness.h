/*
 * harness.h: what all tests use: dtypes, engines (contexts of each instruction set and thread count), memory
 * between guard pages, strided views, values, and comparison bit by bit.
 */
#ifndef SF_TEST_HARNESS_H
#define SF_TEST_HARNESS_H

#include "scanfold.h"

#include <stdbool.h>
#include <stdio.h>

/* ------------------------------------------------------------------------------------------------------------
 * Checking
 * ---------------------------------------------------------------------------------------------------------- */
extern int failures;

/* Counts a failure and prints where; after a few the program stops, because the first ones are
 * the ones to read. */
void fail_at(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define FAIL(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition, ...)                                                                                      \
        do {                                                                                                       \
                if (!(condition))                                                                                  \
                        FAIL(__VA_ARGS__);                                                                         \
        } while (0)

/* Prints the last line, and returns what main must return. */
int finish(const char *name, long checks);

/* A well-mixed 64-bit number for each n. */
uint64_t hash(uint64_t n);
void draw_from(const uint8_t *bytes, size_t size); /* under libFuzzer: what hash draws from */

/* ------------------------------------------------------------------------------------------------------------
 * dtypes
 * ---------------------------------------------------------------------------------------------------------- */
enum {
#define TDTYPE(name, NAME, size, kind, code) DT_##NAME,
#include "cases.def"
        DT_COUNT,
        DT_NONE = -1
};

typedef struct dt_row {
        const char *name;
        sf_dtype dtype;
        int size;
        char kind; /* r, s, u, b */
} dt_row;
extern const dt_row dts[DT_COUNT];

/* How many operations there are; they are numbered from 0. */
int op_count(void);

/* The table of scanfold.h, read a second time: is the pair allowed, and with which accumulators (DT_NONE: unset)? */
bool is_index(sf_op op);
bool pair_allowed(sf_op op, int in, int out);
bool accumulator_allowed(sf_op op, int in, int out, int acc);
/* The accumulator used; integers answer with out's own. */
int accumulator_of(int in, int out, int acc);

bool is_nan(int dt, const void *element);
bool same_bits(int dt, const void *a, const void *b); /* all NaN are equal */
uint64_t bits_of(int dt, const void *element);

/* ------------------------------------------------------------------------------------------------------------
 * Engines
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct engine {
        sf_context *ctx;
        char name[32];
        int threads;
} engine;

#define MAX_ENGINES 64
extern engine engines[MAX_ENGINES]; /* number 0 is the reference, then every usable instruction set x threads */
extern int engine_count;
#define REF (engines[0].ctx)

/* The thread counts every instruction set is run with. */
#define THREAD_COUNTS {1, 2, 3, 5}

void engines_open(void);
void engines_close(void);

/* ------------------------------------------------------------------------------------------------------------
 * Memory between guard pages
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct region {
        char *base; /* pages that may be accessed; the page before and the page after may not */
        size_t size;
} region;

enum { GUARD_AFTER, GUARD_BEFORE };

/* Returns an address for `bytes` with `skew` bytes between it and the guard page that `guard`
 * names. Enlarges the region if necessary. */
char *region_place(region *r, size_t bytes, int guard, size_t skew);
void region_free(region *r);

/* ------------------------------------------------------------------------------------------------------------
 * Views
 * ---------------------------------------------------------------------------------------------------------- */
enum {
#define LAYOUT(name, output) LAYOUT_##name,
#include "cases.def"
        LAYOUT_COUNT
};
extern const char *const layout_names[LAYOUT_COUNT];
extern const bool layout_for_output[LAYOUT_COUNT];

typedef struct view {
        sf_tensor t; /* points into this struct: do not copy views */
        int dt;
        int64_t count, low, span; /* elements; elements before the first one; elements from lowest to highest */
        int64_t shape[SF_MAX_NDIM], strides[SF_MAX_NDIM];
} view;

/* A view of this shape and layout; it has no memory until view_place, which puts its lowest byte at `lowest`. */
void view_init(view *v, int dt, int32_t ndim, const int64_t *shape, int layout, uint64_t seed);
void view_place(view *v, char *lowest, uint64_t byte_offset);
size_t view_bytes(const view *v);

/* The elements in row-major order. */
typedef struct cursor {
        const view *v;
        char *at;
        int64_t index[SF_MAX_NDIM];
} cursor;
void cursor_start(cursor *c, const view *v);
void cursor_next(cursor *c);
void view_gather(const view *v, void *compact);
void view_scatter(const view *v, const void *compact);

/* A compact tensor over the caller's memory and shape, for the simpler tests. */
sf_tensor tensor(void *data, sf_dtype dtype, int32_t ndim, int64_t *shape);

/* ------------------------------------------------------------------------------------------------------------
 * Values
 * ---------------------------------------------------------------------------------------------------------- */
enum {
#define FILL(name) FILL_##name,
#include "cases.def"
        FILL_COUNT
};
extern const char *const fill_names[FILL_COUNT];

/* x[i] of the golden vectors: magnitudes over six decades, one in five negative. */
double mixed(uint64_t i);
/* `count` compact elements; `product` keeps the mixed ones near 1. */
void fill(int dt, int kind, bool product, uint64_t seed, int64_t count, void *compact);

#endif
