/*
 * How each of sf_derived is composed. The nodes here define its bits: every operator rounds to its
 * own type, and sums follow the order. A function gets what is asked for and returns the node of
 * the result; a fold's node keeps its axes.
 */
#include "expr/derive.h"

#include "core/choose.h"
#include "core/value.h"

#include <inttypes.h>
#include <math.h>

/* ------------------------------------------------------------------------------------------------------------
 * Pieces
 * ---------------------------------------------------------------------------------------------------------- */
static int64_t length_of(sf_ir *ir, const sf_derivation *d)
{
        return sf_ir_length(sf_ir_at(ir, d->x), d->axes);
}

/* An operation on x along the axes, over all elements or those of a mask. */
static int32_t reduce(sf_ir *ir, const sf_derivation *d, sf_op op, int32_t x, int32_t mask, sf_dt acc, sf_dt dt)
{
        const bool scans = sf_derived_scans(d->what);
        const sf_ir_node model = {.kind = scans ? SF_IR_SCAN : SF_IR_FOLD, .op = op, .axes = d->axes, .reverse = d->reverse,
                                  .exclusive = scans && d->exclusive, .acc = acc, .dt = dt, .index = d->offsets, .start = d->segments};
        return sf_ir_reduce(ir, &model, x, mask);
}

/* A fold's result, in a form that can be combined with the elements it was computed from. */
static int32_t back(sf_ir *ir, const sf_derivation *d, int32_t fold)
{
        const int32_t axis = d->offsets ? __builtin_ctzll(d->axes) : 0;
        return d->offsets ? sf_ir_spread(ir, fold, axis, sf_ir_at(ir, d->x)->shape[axis], d->offsets, false) : fold;
}

/* The number of elements of each segment. */
static int32_t lengths(sf_ir *ir, const sf_derivation *d, sf_dt dt)
{
        const int32_t ndim = sf_ir_at(ir, d->x)->ndim;
        int32_t offsets = 0;
        for (int32_t i = 1; i <= ir->nodes && !offsets; i++)
                offsets = sf_ir_at(ir, i)->kind == SF_IR_INPUT && sf_ir_at(ir, i)->index == d->offsets - 1 ? i : 0;
        const int32_t ends = sf_ir_slice(ir, offsets, 0, 1, 1, d->segments), begins = sf_ir_slice(ir, offsets, 0, 0, 1, d->segments);
        const int32_t all = sf_ir_map(ir, SF_CODE_SUB, sf_ir_at(ir, offsets)->dt, ends, begins, 0);
        const uint64_t every = ndim == 64 ? UINT64_MAX : ((uint64_t)1 << ndim) - 1;
        return sf_ir_unsqueeze(ir, sf_ir_cast(ir, all, dt), every & ~d->axes);
}

static int32_t sum(sf_ir *ir, const sf_derivation *d, int32_t x, sf_dt acc)
{
        return reduce(ir, d, SF_SUM, x, d->mask, acc, acc);
}

static int32_t binary(sf_ir *ir, sf_code code, int32_t a, int32_t b)
{
        return sf_ir_map(ir, code, sf_ir_at(ir, a)->dt, a, b, 0);
}

static int32_t unary(sf_ir *ir, sf_code code, int32_t x)
{
        return sf_ir_map(ir, code, sf_ir_at(ir, x)->dt, x, 0, 0);
}

static int32_t with_number(sf_ir *ir, sf_code code, int32_t x, double number)
{
        return binary(ir, code, x, sf_ir_number(ir, sf_ir_at(ir, x)->dt, number));
}

/* x != 0, which is true of NaN. */
static int32_t is_nonzero(sf_ir *ir, int32_t x)
{
        return sf_ir_at(ir, x)->dt == SF_DT_BOOL ? x : with_number(ir, SF_CODE_NE, x, 0);
}

/* The number of true elements, among those of a mask. Counting in 32 bits is half the work if
 * the elements are computed in the same pass; a sum of bools in memory has special kernels for
 * 64 bits. */
static int32_t count_true(sf_ir *ir, const sf_derivation *d, int32_t bools, int32_t mask)
{
        const bool narrow = sf_ir_at(ir, bools)->kind == SF_IR_MAP && length_of(ir, d) <= INT32_MAX;
        return reduce(ir, d, SF_SUM, bools, mask, narrow ? SF_DT_I32 : SF_DT_I64, narrow ? SF_DT_I32 : SF_DT_I64);
}

/* The number of elements, in a real type; of a scan, the number up to each position. */
static int32_t count(sf_ir *ir, const sf_derivation *d, sf_dt dt)
{
        const sf_ir_node *x = sf_ir_at(ir, d->x);
        int64_t shape[SF_MAX_NDIM];
        if (d->mask) {
                int32_t kept = sf_ir_broadcast(ir, sf_ir_cast(ir, d->mask, SF_DT_BOOL), x->ndim, x->shape);
                return sf_ir_cast(ir, count_true(ir, d, kept, 0), dt);
        }
        if (!sf_derived_scans(d->what))
                return d->offsets ? lengths(ir, d, dt) : sf_ir_number(ir, dt, (double)length_of(ir, d));
        for (int32_t i = 0; i < x->ndim; i++)
                shape[i] = d->axes >> i & 1 ? x->shape[i] : 1;
        int32_t ones = sf_ir_broadcast(ir, sf_ir_number(ir, SF_DT_I64, 1), x->ndim, shape);
        return sf_ir_cast(ir, reduce(ir, d, SF_SUM, ones, 0, SF_DT_I64, SF_DT_I64), dt);
}

/* A positive real x to a power, with the instructions that exist: integer and half powers use
 * multiplications and square roots, which have the same bits everywhere. The rest of the exponent,
 * below 1/2, is exp(rest * log(x)), whose error grows with |rest * log(x)|. */
static int32_t power(sf_ir *ir, int32_t x, double p)
{
        enum { MOST = 64 }; /* about a dozen instructions */
        const bool inverse = p < 0;
        p = fabs(p);
        const double halves = p <= MOST ? floor(2 * p) : 0, rest = p - halves / 2;
        int32_t result = 0, square = x;
        for (unsigned whole = (unsigned)halves / 2; whole; whole /= 2) {
                if (whole & 1)
                        result = result ? binary(ir, SF_CODE_MUL, result, square) : square;
                if (whole > 1)
                        square = unary(ir, SF_CODE_SQUARE, square);
        }
        if ((unsigned)halves & 1) {
                int32_t root = unary(ir, SF_CODE_SQRT, x);
                result = result ? binary(ir, SF_CODE_MUL, result, root) : root;
        }
        if (rest > 0) {
                int32_t other = unary(ir, SF_CODE_EXP, with_number(ir, SF_CODE_MUL, unary(ir, SF_CODE_LOG, x), rest));
                result = result ? binary(ir, SF_CODE_MUL, result, other) : other;
        }
        return inverse ? binary(ir, SF_CODE_DIV, sf_ir_number(ir, sf_ir_at(ir, x)->dt, 1), result) : result;
}

/* ------------------------------------------------------------------------------------------------------------
 * Moments
 * ---------------------------------------------------------------------------------------------------------- */
static int32_t mean_in(sf_ir *ir, const sf_derivation *d, int32_t x, sf_dt acc, sf_dt dt)
{
        if (!d->mask && !d->offsets && !sf_derived_scans(d->what)) {
                const sf_ir_node model = {.kind = SF_IR_FOLD, .op = SF_SUM, .axes = d->axes, .reverse = d->reverse, .acc = acc, .dt = dt,
                                          .mean = true};
                return sf_ir_reduce(ir, &model, x, 0);
        }
        return sf_ir_cast(ir, binary(ir, SF_CODE_DIV, sum(ir, d, x, acc), count(ir, d, acc)), dt);
}

static int32_t make_mean(sf_ir *ir, const sf_derivation *d)
{
        return mean_in(ir, d, d->x, d->acc, d->dt);
}

/* For a scan: the first element that counts of each segment, or of the line, at all elements. It is
 * a sum in which only the element with count 1 is not 0. */
static int32_t first_that_counts(sf_ir *ir, const sf_derivation *d)
{
        sf_derivation fold = *d, inclusive = *d;
        fold.what = SF_MEAN; /* any fold will do */
        inclusive.exclusive = false;
        const int32_t counted = count(ir, &inclusive, SF_DT_F64), is_first = sf_ir_map(ir, SF_CODE_EQ, SF_DT_BOOL, counted, sf_ir_number(ir, SF_DT_F64, 1), 0);
        const int32_t x = sf_ir_cast(ir, d->x, SF_DT_F64), first = sf_ir_map(ir, SF_CODE_WHERE, SF_DT_F64, is_first, x, sf_ir_number(ir, SF_DT_F64, 0));
        return back(ir, d, sum(ir, &fold, first, SF_DT_F64));
}

/* The first element of the sequence, for every line. */
static int32_t first_of(sf_ir *ir, const sf_derivation *d)
{
        const sf_ir_node *x = sf_ir_at(ir, d->x);
        int32_t first = d->x;
        if (d->offsets || d->mask)
                return first_that_counts(ir, d);
        for (int32_t i = 0; i < x->ndim; i++)
                if (d->axes >> i & 1)
                        first = sf_ir_slice(ir, first, i, d->reverse ? x->shape[i] - 1 : 0, 1, 1);
        return sf_ir_cast(ir, first, SF_DT_F64);
}

/* x minus the first element, in f64. */
static int32_t shifted(sf_ir *ir, const sf_derivation *d)
{
        return binary(ir, SF_CODE_SUB, sf_ir_cast(ir, d->x, SF_DT_F64), first_of(ir, d));
}

static int32_t not_a_number(sf_ir *ir, const sf_derivation *d, sf_dt dt)
{
        const sf_ir_node *x = sf_ir_at(ir, d->x);
        int64_t shape[SF_MAX_NDIM];
        for (int32_t i = 0; i < x->ndim; i++)
                shape[i] = d->axes >> i & 1 ? 1 : x->shape[i];
        return sf_ir_broadcast(ir, sf_ir_number(ir, dt, NAN), x->ndim, shape);
}

/*
 * The variance in f64. Over all elements it takes one read: with d the distance of each element to
 * the first one, it is (sum(d * d) - sum(d)^2 / n) / (n - correction). Rounding may make this
 * slightly negative; then it is 0. With a mask, the first element may be masked out. So a fold
 * computes the mean first, and a second read the distances to it; a scan, whose mean moves, finds
 * the first element that counts. Where no more elements count than the correction, the divisor is 0;
 * where NaN are skipped it is NaN, as for NumPy's nanvar.
 */
static int32_t variance(sf_ir *ir, const sf_derivation *d)
{
        int32_t n = count(ir, d, SF_DT_F64), squares;
        if (!length_of(ir, d) && !d->offsets && !sf_derived_scans(d->what))
                return not_a_number(ir, d, SF_DT_F64);
        /* finding a segment's first element would take as many reads as its mean */
        if ((d->mask || d->offsets) && !sf_derived_scans(d->what)) {
                int32_t x = sf_ir_cast(ir, d->x, SF_DT_F64), mean = mean_in(ir, d, x, SF_DT_F64, SF_DT_F64);
                squares = sum(ir, d, unary(ir, SF_CODE_SQUARE, binary(ir, SF_CODE_SUB, x, back(ir, d, mean))), SF_DT_F64);
        } else {
                int32_t distance = shifted(ir, d), all = sum(ir, d, distance, SF_DT_F64);
                squares = sum(ir, d, unary(ir, SF_CODE_SQUARE, distance), SF_DT_F64);
                squares = binary(ir, SF_CODE_SUB, squares, binary(ir, SF_CODE_DIV, unary(ir, SF_CODE_SQUARE, all), n));
                squares = with_number(ir, SF_CODE_MAXIMUM, squares, 0);
        }
        int32_t freedom = with_number(ir, SF_CODE_SUB, n, d->correction);
        if (d->skips_nan)
                freedom = sf_ir_map(ir, SF_CODE_WHERE, SF_DT_F64, with_number(ir, SF_CODE_GT, freedom, 0), freedom, sf_ir_number(ir, SF_DT_F64, NAN));
        else if (d->mask || d->offsets || sf_derived_scans(d->what))
                freedom = with_number(ir, SF_CODE_MAXIMUM, freedom, 0);
        else
                freedom = sf_ir_number(ir, SF_DT_F64, (double)length_of(ir, d) - d->correction);
        return binary(ir, SF_CODE_DIV, squares, freedom);
}

static int32_t make_var(sf_ir *ir, const sf_derivation *d)
{
        return sf_ir_cast(ir, variance(ir, d), d->dt);
}

static int32_t make_std(sf_ir *ir, const sf_derivation *d)
{
        return sf_ir_cast(ir, unary(ir, SF_CODE_SQRT, variance(ir, d)), d->dt);
}

static int32_t make_var_mean(sf_ir *ir, const sf_derivation *d)
{
        if (!length_of(ir, d) && !d->offsets)
                return not_a_number(ir, d, d->dt);
        if (d->mask || d->offsets)
                return mean_in(ir, d, sf_ir_cast(ir, d->x, SF_DT_F64), SF_DT_F64, d->dt);
        int32_t beyond = binary(ir, SF_CODE_DIV, sum(ir, d, shifted(ir, d), SF_DT_F64), count(ir, d, SF_DT_F64));
        return sf_ir_cast(ir, binary(ir, SF_CODE_ADD, first_of(ir, d), beyond), d->dt);
}

/* ------------------------------------------------------------------------------------------------------------
 * Norms
 * ---------------------------------------------------------------------------------------------------------- */
static int32_t make_sumsq(sf_ir *ir, const sf_derivation *d)
{
        return sf_ir_cast(ir, sum(ir, d, unary(ir, SF_CODE_SQUARE, sf_ir_cast(ir, d->x, d->acc)), d->acc), d->dt);
}

static int32_t make_count_nonzero(sf_ir *ir, const sf_derivation *d)
{
        return sf_ir_cast(ir, count_true(ir, d, is_nonzero(ir, d->x), d->mask), SF_DT_I64);
}

static int32_t make_norm(sf_ir *ir, const sf_derivation *d)
{
        const double p = d->order;
        if (p == 0)
                return sf_ir_cast(ir, sf_ir_cast(ir, make_count_nonzero(ir, d), d->acc), d->dt);
        int32_t x = sf_ir_cast(ir, d->x, d->acc), size = unary(ir, SF_CODE_ABS, x);
        if (p == 2)
                return sf_ir_cast(ir, unary(ir, SF_CODE_SQRT, sum(ir, d, unary(ir, SF_CODE_SQUARE, x), d->acc)), d->dt);
        /* masked-out elements count as 0, the smallest magnitude, not as -inf */
        if (p == INFINITY && d->mask)
                size = sf_ir_map(ir, SF_CODE_WHERE, d->acc, sf_ir_cast(ir, d->mask, SF_DT_BOOL), size, sf_ir_number(ir, d->acc, 0));
        if (isinf(p))
                return sf_ir_cast(ir, reduce(ir, d, p > 0 ? SF_MAX : SF_MIN, size, p > 0 ? 0 : d->mask, d->acc, d->acc), d->dt);
        int32_t root = sum(ir, d, power(ir, size, p), d->acc);
        double left = p;
        /* NOLINTNEXTLINE(cert-flp30-c): half of an even number is exact */
        for (; left >= 2 && left == 2 * floor(left / 2); left /= 2)
                root = unary(ir, SF_CODE_SQRT, root);
        return sf_ir_cast(ir, left == 1 ? root : power(ir, root, 1 / left), d->dt);
}

/* ------------------------------------------------------------------------------------------------------------
 * Logic
 * ---------------------------------------------------------------------------------------------------------- */

/* On bools a sum is "or" and a product is "and"; the accumulator has 0 and 1. For other types it is
 * less work to count. */
static int32_t make_any(sf_ir *ir, const sf_derivation *d)
{
        if (sf_ir_at(ir, d->x)->dt != SF_DT_BOOL)
                return sf_ir_cast(ir, count_true(ir, d, is_nonzero(ir, d->x), d->mask), SF_DT_BOOL);
        return reduce(ir, d, SF_SUM, is_nonzero(ir, d->x), d->mask, SF_DT_U8, SF_DT_BOOL);
}

static int32_t make_all(sf_ir *ir, const sf_derivation *d)
{
        if (sf_ir_at(ir, d->x)->dt != SF_DT_BOOL && !d->mask && !d->offsets)
                return with_number(ir, SF_CODE_EQ, count_true(ir, d, is_nonzero(ir, d->x), 0), (double)length_of(ir, d));
        return reduce(ir, d, SF_PROD, is_nonzero(ir, d->x), d->mask, SF_DT_U8, SF_DT_BOOL);
}

/* ------------------------------------------------------------------------------------------------------------
 * Extremes
 * ---------------------------------------------------------------------------------------------------------- */
static int32_t make_nan_extreme(sf_ir *ir, const sf_derivation *d)
{
        const int32_t most = reduce(ir, d, d->what == SF_NANMAX ? SF_MAX : SF_MIN, d->x, d->mask, d->acc, d->dt);
        if (!d->skips_nan) /* none of them is NaN, and an integer result could not say so */
                return most;
        sf_derivation counts = *d; /* the mask has those that are not NaN */
        counts.x = d->mask;
        counts.mask = 0;
        return sf_ir_map(ir, SF_CODE_WHERE, d->dt, make_any(ir, &counts), most, sf_ir_number(ir, d->dt, NAN));
}

/* ------------------------------------------------------------------------------------------------------------
 * Results with x's shape
 * ---------------------------------------------------------------------------------------------------------- */

/* A result as it is stored: times weight, plus bias; 0 if it is masked out; rounded. */
static int32_t applied(sf_ir *ir, const sf_derivation *d, int32_t y)
{
        if (d->weight)
                y = binary(ir, SF_CODE_MUL, y, sf_ir_cast(ir, d->weight, d->acc));
        if (d->bias)
                y = binary(ir, SF_CODE_ADD, y, sf_ir_cast(ir, d->bias, d->acc));
        if (d->mask)
                y = sf_ir_map(ir, SF_CODE_WHERE, d->acc, sf_ir_cast(ir, d->mask, SF_DT_BOOL), y, sf_ir_number(ir, d->acc, 0));
        return sf_ir_cast(ir, y, d->dt);
}

static int32_t make_softmax(sf_ir *ir, const sf_derivation *d)
{
        int32_t x = sf_ir_cast(ir, d->x, d->acc), most = reduce(ir, d, SF_MAX, x, d->mask, d->acc, d->acc);
        int32_t beyond = binary(ir, SF_CODE_SUB, x, back(ir, d, most)), e = unary(ir, SF_CODE_EXP, beyond), all = sum(ir, d, e, d->acc);
        return applied(ir, d, d->what == SF_SOFTMAX ? binary(ir, SF_CODE_DIV, e, back(ir, d, all))
                                                            : binary(ir, SF_CODE_SUB, beyond, back(ir, d, unary(ir, SF_CODE_LOG, all))));
}

static double number_of(sf_scalar s, double otherwise)
{
        switch (s.kind) {
        case SF_SCALAR_NONE: return otherwise;
        case SF_SCALAR_INT: return (double)s.value.i;
        case SF_SCALAR_UINT: return (double)s.value.u;
        default: return s.value.f;
        }
}

/* The distance from 1 to the next larger number of a real type. */
static double spacing_at_one(sf_dt dt)
{
        return ldexp(1, dt == SF_DT_F64 ? -52 : dt == SF_DT_F32 ? -23 : dt == SF_DT_F16 ? -10 : -7);
}

static int32_t distances(sf_ir *ir, const sf_derivation *d)
{
        int32_t x = sf_ir_cast(ir, d->x, d->acc);
        return binary(ir, SF_CODE_SUB, x, back(ir, d, mean_in(ir, d, x, d->acc, d->acc)));
}

/* The root and its reciprocal are computed once for each line, and each element is multiplied by
 * it: one division for each element would take longer than the memory accesses. */
static int32_t make_layer_norm(sf_ir *ir, const sf_derivation *d)
{
        const bool layer = d->what == SF_LAYER_NORM;
        const double eps = number_of(d->eps, layer ? 1e-5 : spacing_at_one(d->dt));
        int32_t x = layer ? distances(ir, d) : sf_ir_cast(ir, d->x, d->acc);
        int32_t squares = mean_in(ir, d, unary(ir, SF_CODE_SQUARE, x), d->acc, d->acc);
        int32_t root = unary(ir, SF_CODE_SQRT, with_number(ir, SF_CODE_ADD, squares, eps));
        return applied(ir, d, binary(ir, SF_CODE_MUL, x, back(ir, d, binary(ir, SF_CODE_DIV, sf_ir_number(ir, d->acc, 1), root))));
}

static int32_t make_normalize(sf_ir *ir, const sf_derivation *d)
{
        sf_derivation norm = *d;
        norm.dt = d->acc;
        int32_t by = with_number(ir, SF_CODE_MAXIMUM, make_norm(ir, &norm), number_of(d->eps, 1e-12));
        return applied(ir, d, binary(ir, SF_CODE_DIV, sf_ir_cast(ir, d->x, d->acc), back(ir, d, by)));
}

static int32_t make_standardize(sf_ir *ir, const sf_derivation *d)
{
        int32_t x = distances(ir, d), squares = sum(ir, d, unary(ir, SF_CODE_SQUARE, x), d->acc);
        int32_t freedom = d->mask || d->offsets ? with_number(ir, SF_CODE_MAXIMUM, with_number(ir, SF_CODE_SUB, count(ir, d, d->acc), d->correction), 0)
                                  : sf_ir_number(ir, d->acc, (double)length_of(ir, d) - d->correction);
        return applied(ir, d, binary(ir, SF_CODE_DIV, x, back(ir, d, unary(ir, SF_CODE_SQRT, binary(ir, SF_CODE_DIV, squares, freedom)))));
}

/* ------------------------------------------------------------------------------------------------------------
 * The table
 * ---------------------------------------------------------------------------------------------------------- */
typedef enum form { REAL, WIDE, SUM, EXTREME, FIXED } form;

static const struct {
        const char *name;
        bool scans;
        /* REAL: the real dtype of x, or one that the caller gives; WIDE: the same, but summed in
         * f64; SUM, EXTREME: as for a sum, for max; FIXED: `fixed` */
        form result;
        sf_dt fixed;
        int32_t (*make)(sf_ir *ir, const sf_derivation *d);
        bool applies; /* has x's shape: see sf_derived_applies */
        int takes;    /* SF_TAKES_*: options besides those that all of them take */
} rows[] = {
        [SF_MEAN] = {"mean", false, REAL, SF_DT_COUNT, make_mean, false, 0},
        [SF_VAR] = {"var", false, WIDE, SF_DT_COUNT, make_var, false, 0},
        [SF_STD] = {"std", false, WIDE, SF_DT_COUNT, make_std, false, 0},
        [SF_VAR_MEAN] = {"the mean of var_mean", false, WIDE, SF_DT_COUNT, make_var_mean, false, 0},
        [SF_CUMMEAN] = {"cummean", true, REAL, SF_DT_COUNT, make_mean, false, 0},
        [SF_CUMVAR] = {"cumvar", true, WIDE, SF_DT_COUNT, make_var, false, 0},
        [SF_SUMSQ] = {"sumsq", false, SUM, SF_DT_COUNT, make_sumsq, false, 0},
        [SF_NORM] = {"norm", false, REAL, SF_DT_COUNT, make_norm, false, 0},
        [SF_ANY] = {"any", false, FIXED, SF_DT_BOOL, make_any, false, 0},
        [SF_ALL] = {"all", false, FIXED, SF_DT_BOOL, make_all, false, 0},
        [SF_COUNT_NONZERO] = {"count_nonzero", false, FIXED, SF_DT_I64, make_count_nonzero, false, 0},
        [SF_NANMAX] = {"nanmax", false, EXTREME, SF_DT_COUNT, make_nan_extreme, false, SF_SKIPS_NAN},
        [SF_NANMIN] = {"nanmin", false, EXTREME, SF_DT_COUNT, make_nan_extreme, false, SF_SKIPS_NAN},
        [SF_SOFTMAX] = {"softmax", false, REAL, SF_DT_COUNT, make_softmax, true, 0},
        [SF_LOG_SOFTMAX] = {"log_softmax", false, REAL, SF_DT_COUNT, make_softmax, true, 0},
        [SF_LAYER_NORM] = {"layer_norm", false, REAL, SF_DT_COUNT, make_layer_norm, true, SF_TAKES_WEIGHT | SF_TAKES_BIAS | SF_TAKES_EPS},
        [SF_RMS_NORM] = {"rms_norm", false, REAL, SF_DT_COUNT, make_layer_norm, true, SF_TAKES_WEIGHT | SF_TAKES_EPS},
        [SF_NORMALIZE] = {"normalize", false, REAL, SF_DT_COUNT, make_normalize, true, SF_TAKES_EPS},
        [SF_STANDARDIZE] = {"standardize", false, REAL, SF_DT_COUNT, make_standardize, true, 0},
};
#define ROWS ((int)(sizeof rows / sizeof rows[0]))

const char *sf_derived_name(sf_derived what)
{
        return (int)what >= 0 && (int)what < ROWS ? rows[what].name : NULL;
}

bool sf_derived_scans(sf_derived what)
{
        return rows[what].scans;
}

bool sf_derived_applies(sf_derived what)
{
        return rows[what].applies;
}

bool sf_derived_takes(sf_derived what, int option)
{
        return rows[what].takes & option;
}

sf_status sf_derived_dtypes(const sf_context *ctx, sf_derivation *d, sf_dt x, sf_dt asked, sf_dtype accumulator)
{
        const char *name = rows[d->what].name;
        const form result = rows[d->what].result;
        const bool is_set = accumulator.code || accumulator.bits || accumulator.lanes;
        sf_step step;
        if (result == FIXED) {
                d->dt = d->acc = rows[d->what].fixed;
                if ((asked != SF_DT_COUNT && asked != d->dt) || is_set)
                        return sf_fail(ctx, SF_UNSUPPORTED, "%s is %s, whatever it is of; leave dtype and accumulator unset", name,
                                       sf_dtypes[d->dt].name);
                return SF_OK;
        }
        const bool real = result == REAL || result == WIDE;
        const sf_op op = result == EXTREME ? SF_MAX : SF_SUM;
        d->dt = asked != SF_DT_COUNT ? asked : real ? x : sf_usual_result(op, x);
        if (real && asked != SF_DT_COUNT && sf_dtypes[asked].kind != SF_KIND_REAL)
                return sf_fail(ctx, SF_UNSUPPORTED, "%s into %s is not supported; its result can be f16, bf16, f32 or f64", name, sf_dtypes[asked].name);
        if (real && sf_dtypes[d->dt].kind != SF_KIND_REAL)
                return sf_fail(ctx, SF_UNSUPPORTED, "%s of %s is of no real dtype; say what it should be, such as %s(x, dtype=f32)", name,
                               sf_dtypes[x].name, name);
        if (result != WIDE) {
                SF_TRY(sf_step_dtypes(ctx, &step, op, x, d->dt, accumulator));
                d->acc = step.acc;
                return SF_OK;
        }
        d->acc = SF_DT_F64;
        if (is_set && sf_dt_find(accumulator) != SF_DT_F64)
                return sf_fail(ctx, SF_UNSUPPORTED, "accumulator is not f64; %s is always summed up in that", name);
        return SF_OK;
}

sf_status sf_derive(sf_ir *ir, const sf_derivation *d, int32_t *node)
{
        const int64_t n = length_of(ir, d);
        const bool varies = (rows[d->what].result == WIDE && d->what != SF_VAR_MEAN) || (d->what == SF_STANDARDIZE && n);
        /* The lengths of segments are not known here; a segment that is too short gets no
         * variance. */
        if (varies && !(d->correction <= (d->offsets ? HUGE_VAL : (double)n)))
                return sf_fail(ir->ctx, SF_INVALID_ARGUMENT,
                               "correction is %g, and there are %" PRId64 " elements; it must be at most their number", d->correction, n);
        const double eps = number_of(d->eps, 0);
        if (!(eps >= 0))
                return sf_fail(ir->ctx, SF_INVALID_ARGUMENT, "eps is %g; it must be 0 or more", eps);
        if ((d->what == SF_NORM || d->what == SF_NORMALIZE) && isnan(d->order))
                return sf_fail(ir->ctx, SF_INVALID_ARGUMENT, "order is NaN; it must be a number, or infinite");
        if (d->what == SF_NORM && isinf(d->order) && !n)
                return sf_fail(ir->ctx, SF_INVALID_ARGUMENT, "norm of order %g of no elements has no value; fold axes that are not empty", d->order);
        if (rows[d->what].result == EXTREME && !n && !d->offsets)
                return sf_fail(ir->ctx, SF_INVALID_ARGUMENT, "%s of no elements has no value; fold axes that are not empty", rows[d->what].name);
        *node = rows[d->what].make(ir, d);
        return SF_OK;
}
