/* bench_rows.h: what bench measures: the rows of its table, and the library's call for each. */
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
        const char *expression; /* of x, (shape[0], shape[1]), and, where there is a shape[2], w, (shape[2], shape[1]) */
        int64_t segment; /* the axis is cut into segments of about so many elements; 0: it is not */
        int few;         /* one of those that --few has */
};

enum { MOST_ROWS = 64 };
extern const struct row rows[];
extern const int row_count;

/* Memory shared by all rows. */
struct arena {
        unsigned char *x, *y, *mask;
        int64_t *offsets;
        size_t size, mask_size, offsets_size;
        const char *filled; /* the dtype x holds */
};

/* Its shape: of the quick bench, or of the whole one. */
const int64_t *shape_of(const struct row *row, int quick);
void describe_shape(const struct row *row, int quick, char text[64]);
/* How many elements it reads, and how many results it has. */
int64_t count_of(const struct row *row, int quick);
int64_t results_of(const struct row *row, int quick);
/* How many segments there are. */
int64_t segments_of(const struct row *row, int quick);
const struct dtype_info *out_of(const struct row *row);
/* How many bytes have to be moved: each element read once, each result written once. */
uint64_t bytes_of(const struct row *row, int quick);

/* Makes the arena's x numbers of ordinary size of the row's dtype, and its offsets those of the row. */
void fill_for(struct arena *arena, const struct row *row, int quick, int threads);

/* The work itself. An expression is made into a plan once: *plan is NULL before, and the caller destroys it. */
sf_status call(sf_context *ctx, const struct row *row, int quick, const struct arena *arena, sf_plan **plan);

#endif
