/* bench_rows.h: what bench measures: the rows of its table, and the library call for each. */
#ifndef SCANFOLD_BENCH_ROWS_H
#define SCANFOLD_BENCH_ROWS_H

#include "cli.h"

struct row {
        const char *name;
        const char *dtype;
        int32_t ndim;
        int64_t shape[3], quick_shape[3];
        int axis;
        int fold, reverse, masked, exclusive, wide; /* wide: an f64 accumulator */
        const char *out; /* the result's dtype; NULL: the same */
        /* of x, with shape (shape[0], shape[1]), and, if there is a shape[2], of w, with shape
         * (shape[2], shape[1]) */
        const char *expression;
        /* the axis is cut into segments of about this many elements; 0: it is not cut */
        int64_t segment;
        int few;         /* --few measures this row too */
};

enum { MOST_ROWS = 64 };
extern const struct row rows[];
extern const int row_count;

/* Memory shared by all rows. */
struct arena {
        unsigned char *x, *y, *mask;
        int64_t *offsets;
        size_t size, mask_size, offsets_size;
        const char *filled; /* the dtype of what x holds */
};

/* The row's shape, for --quick or for the full benchmark. */
const int64_t *shape_of(const struct row *row, int quick);
void describe_shape(const struct row *row, int quick, char text[64]);
/* The number of elements that it reads, and of results. */
int64_t count_of(const struct row *row, int quick);
int64_t results_of(const struct row *row, int quick);
/* The number of segments. */
int64_t segments_of(const struct row *row, int quick);
const struct dtype_info *out_of(const struct row *row);
/* The bytes that have to be moved: each element is read once, each result is written once. */
uint64_t bytes_of(const struct row *row, int quick);

/* Fills the arena's x with numbers of ordinary size, of the row's dtype, and its offsets with those
 * of the row. */
void fill_for(struct arena *arena, const struct row *row, int quick, int threads);

/* Does the work. For an expression a plan is made once: *plan is NULL at first, and the caller
 * destroys it. */
sf_status call(sf_context *ctx, const struct row *row, int quick, const struct arena *arena, sf_plan **plan);

#endif
