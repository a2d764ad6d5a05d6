/*
 * naive.h: the meaning of every operator of an expression, one at a time, on compact arrays: what plans are tested against. It is written
 * apart from the library, but for scans and folds, which are the reference backend's, and exp and its like, which are
 * elementary.h's: their bits are promised.
 *
 * Beside its values an array of reals carries what a bound on differences needs: `mag`, the same expression with every term made positive,
 * and `k`, how many roundings at most lie between the inputs and a value. Two ways to compute a multilinear expression differ by at most
 * about 2 k u mag. So do exp, log, sigmoid and tanh of such, where they are used with care (naive_tame).
 */
#ifndef SF_TEST_NAIVE_H
#define SF_TEST_NAIVE_H

#include "harness.h"

#define NAIVE_NDIM 6

typedef struct array {
        int dt;
        int32_t ndim;
        int64_t shape[NAIVE_NDIM];
        int64_t count;
        char *data;
        double *mag; /* NULL: not followed */
        double k;
} array;

array *array_new(int dt, int32_t ndim, const int64_t *shape);
void array_free(array *a);
/* A value as a double, and back, rounded to the dtype. */
double array_get(const array *a, int64_t i);
void array_set(array *a, int64_t i, double v);

/* The type of `function` of these, by scanfold.h's rules; DT_NONE where it is refused. NULL arrays are constants: `number_real` says of which kind. */
int naive_type(sf_function function, int count, array *const *args, const bool *number_real);
/* exp, log, sigmoid and tanh. */
bool naive_bent(sf_function function);
/* Are these arguments of such a function for which the bound holds? */
bool naive_tame(sf_function function, const array *a);
bool naive_broadcasts(const array *a, const array *b);

array *naive_number(int dt, double value);
array *naive_apply(sf_function function, int dt, array *a, array *b, array *c); /* arguments of type dt already (where: a bool) */
array *naive_cast(const array *a, int dt);
array *naive_flip(const array *a, uint64_t axes);
array *naive_permute(const array *a, const int32_t *axes);
array *naive_unsqueeze(const array *a, int32_t axis);
array *naive_broadcast(const array *a, int32_t ndim, const int64_t *shape);
array *naive_slice(const array *a, int32_t axis, int64_t start, int64_t step, int64_t length);
array *naive_concat(const array *a, const array *b, int32_t axis);
/* h = a h + b, with an a that broadcasts to b. */
array *naive_recurrence(array *a, array *b, const sf_expr_options *options);
array *naive_reduce(bool scan, bool mean, const array *a, const array *mask, const sf_expr_options *options);
array *naive_matmul(const array *a, const array *b, int dt); /* matrices */

#endif
