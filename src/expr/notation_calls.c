/* The functions of the notation: their names, the arguments that they take, and the nodes that they
 * make. */
#include "expr/notation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The roles that an argument can have. */
typedef enum role { X, Y, Z, AXIS, KEEPDIM, REVERSE, EXCLUSIVE, MASK, OFFSETS, SKIP_NAN, INITIAL, DTYPE, ACC, CORRECTION, ORDER, EPS, LOW, HIGH, VALUE, PARTS, SHAPE, START, LENGTH, ROLES } role;

/* The keywords, and the names that other libraries have for them. */
static const struct {
        const char *name;
        role role;
} keywords[] = {
        {"axis", AXIS}, {"dim", AXIS}, {"dims", AXIS}, {"axes", AXIS}, {"keepdim", KEEPDIM}, {"keepdims", KEEPDIM}, {"reverse", REVERSE}, {"exclusive", EXCLUSIVE},
        {"mask", MASK}, {"offsets", OFFSETS}, {"skip_nan", SKIP_NAN}, {"correction", CORRECTION}, {"ddof", CORRECTION}, {"order", ORDER}, {"ord", ORDER}, {"p", ORDER}, {"eps", EPS}, {"initial", INITIAL}, {"dtype", DTYPE}, {"acc", ACC}, {"accumulator", ACC}, {"min", LOW}, {"a_min", LOW}, {"max", HIGH},
        {"a_max", HIGH}, {"value", VALUE}, {"fill_value", VALUE}, {"input", X}, {"x", X}, {"a", X}, {"other", Y}, {"b", Y}, {"weight", Y}, {"bias", Z},
        {"tensors", PARTS}, {"shape", SHAPE}, {"size", SHAPE}, {"start", START}, {"length", LENGTH},
};

typedef enum shape_of_call { APPLY, FOLD, DERIVED, VARIANCE_AND_MEAN, SCAN, CLAMP, FILL_WHERE, FLIP, TRANSPOSE, PERMUTE, SQUEEZE, UNSQUEEZE, BROADCAST, CONCAT, LIKE, MATMUL, LINEAR, RECURRENCE, CAST,
                             NARROW, SELECT, SPREAD } shape_of_call;

typedef struct row {
        const char *name;
        shape_of_call shape;
        int what; /* an sf_function, an sf_op, an sf_derived, or the number to fill with */
        uint32_t takes;     /* bit r: role r may be given */
        role position[5];   /* roles of the arguments given by position; ROLES ends them */
        uint8_t needs;      /* how many of these must be given */
} row;

#define BIT(role) (1u << (role))
#define SKIPS BIT(ROLES) /* set in `takes`: NaN elements are always skipped */
#define FOLDS (BIT(X) | BIT(AXIS) | BIT(KEEPDIM) | BIT(REVERSE) | BIT(MASK) | BIT(OFFSETS) | BIT(SKIP_NAN) | BIT(INITIAL) | BIT(DTYPE) | BIT(ACC))
#define SCANS (BIT(X) | BIT(AXIS) | BIT(REVERSE) | BIT(EXCLUSIVE) | BIT(MASK) | BIT(OFFSETS) | BIT(SKIP_NAN) | BIT(INITIAL) | BIT(DTYPE) | BIT(ACC))
#define FOLD_ROW(name, op) {name, FOLD, op, FOLDS, {X, AXIS, KEEPDIM, ROLES}, 1}
#define SCAN_ROW(name, op) {name, SCAN, op, SCANS, {X, AXIS, ROLES}, 1}
#define NAN_FOLD(name, op) {name, FOLD, op, (FOLDS & ~BIT(SKIP_NAN)) | SKIPS, {X, AXIS, KEEPDIM, ROLES}, 1}
#define NAN_SCAN(name, op) {name, SCAN, op, (SCANS & ~BIT(SKIP_NAN)) | SKIPS, {X, AXIS, ROLES}, 1}
#define DERIVED_ROW(name, what) {name, DERIVED, what, FOLDS & ~BIT(INITIAL), {X, AXIS, KEEPDIM, ROLES}, 1}
#define VARIANCE(name, shape, what) {name, shape, what, (FOLDS & ~BIT(INITIAL)) | BIT(CORRECTION), {X, AXIS, ROLES}, 1}
#define NAN_ROW(name, what, more) {name, DERIVED, what, (FOLDS & ~BIT(INITIAL) & ~BIT(SKIP_NAN)) | SKIPS | (more), {X, AXIS, KEEPDIM, ROLES}, 1}
#define APPLIED(name, what, more, b, c, d, e) {name, DERIVED, what, (FOLDS & ~BIT(INITIAL) & ~BIT(KEEPDIM)) | (more), {X, b, c, d, e}, 1}
#define UNARY(name, function) {name, APPLY, function, BIT(X), {X, ROLES}, 1}
#define BINARY(name, function) {name, APPLY, function, BIT(X) | BIT(Y), {X, Y, ROLES}, 2}
#define VIEW(name, shape, needs) {name, shape, 0, BIT(X) | BIT(AXIS), {X, AXIS, ROLES}, needs}
#define CAST_ROW(name) {name, CAST, 0, BIT(X) | BIT(DTYPE), {X, DTYPE, ROLES}, 2}

static const row rows[] = {
        FOLD_ROW("sum", SF_SUM), FOLD_ROW("prod", SF_PROD), FOLD_ROW("max", SF_MAX), FOLD_ROW("min", SF_MIN), FOLD_ROW("amax", SF_MAX), FOLD_ROW("amin", SF_MIN),
        DERIVED_ROW("mean", SF_MEAN), DERIVED_ROW("sumsq", SF_SUMSQ), DERIVED_ROW("any", SF_ANY), DERIVED_ROW("all", SF_ALL),
        DERIVED_ROW("count_nonzero", SF_COUNT_NONZERO),
        VARIANCE("var", DERIVED, SF_VAR), VARIANCE("std", DERIVED, SF_STD), VARIANCE("var_mean", VARIANCE_AND_MEAN, SF_VAR),
        VARIANCE("std_mean", VARIANCE_AND_MEAN, SF_STD),
        {"norm", DERIVED, SF_NORM, (FOLDS & ~BIT(INITIAL)) | BIT(ORDER), {X, ORDER, AXIS, KEEPDIM, ROLES}, 1},
        {"vector_norm", DERIVED, SF_NORM, (FOLDS & ~BIT(INITIAL)) | BIT(ORDER), {X, ORDER, AXIS, KEEPDIM, ROLES}, 1},
        APPLIED("softmax", SF_SOFTMAX, 0, AXIS, ROLES, ROLES, ROLES), APPLIED("log_softmax", SF_LOG_SOFTMAX, 0, AXIS, ROLES, ROLES, ROLES),
        APPLIED("layer_norm", SF_LAYER_NORM, BIT(Y) | BIT(Z) | BIT(EPS), AXIS, Y, Z, EPS), APPLIED("rms_norm", SF_RMS_NORM, BIT(Y) | BIT(EPS), AXIS, Y, EPS, ROLES),
        APPLIED("normalize", SF_NORMALIZE, BIT(ORDER) | BIT(EPS), ORDER, AXIS, EPS, ROLES),
        APPLIED("standardize", SF_STANDARDIZE, BIT(CORRECTION), AXIS, ROLES, ROLES, ROLES),
        {"cummean", DERIVED, SF_CUMMEAN, SCANS & ~BIT(INITIAL), {X, AXIS, ROLES}, 1},
        {"cumvar", DERIVED, SF_CUMVAR, (SCANS & ~BIT(INITIAL)) | BIT(CORRECTION), {X, AXIS, ROLES}, 1},
        NAN_FOLD("nansum", SF_SUM), NAN_FOLD("nanprod", SF_PROD), NAN_FOLD("nanmax", SF_MAX), NAN_FOLD("nanmin", SF_MIN),
        NAN_FOLD("nanargmax", SF_ARGMAX), NAN_FOLD("nanargmin", SF_ARGMIN),
        NAN_SCAN("nancumsum", SF_SUM), NAN_SCAN("nancumprod", SF_PROD),
        NAN_ROW("nanmean", SF_MEAN, 0), NAN_ROW("nanvar", SF_VAR, BIT(CORRECTION)), NAN_ROW("nanstd", SF_STD, BIT(CORRECTION)),
        SCAN_ROW("cumsum", SF_SUM), SCAN_ROW("cumprod", SF_PROD), SCAN_ROW("cummax", SF_MAX), SCAN_ROW("cummin", SF_MIN),
        FOLD_ROW("argmax", SF_ARGMAX), FOLD_ROW("argmin", SF_ARGMIN), FOLD_ROW("argmax_last", SF_LAST_ARGMAX), FOLD_ROW("argmin_last", SF_LAST_ARGMIN),
        SCAN_ROW("cumargmax", SF_LAST_ARGMAX), SCAN_ROW("cumargmin", SF_LAST_ARGMIN), SCAN_ROW("cumargmax_first", SF_ARGMAX),
        SCAN_ROW("cumargmin_first", SF_ARGMIN), FOLD_ROW("logsumexp", SF_LOGSUMEXP), SCAN_ROW("logcumsumexp", SF_LOGSUMEXP),
        {"linear_recurrence", RECURRENCE, SF_RECURRENCE, SCANS | BIT(Y), {X, Y, AXIS, ROLES}, 2},
        UNARY("exp", SF_EXP), UNARY("log", SF_LOG), UNARY("sqrt", SF_SQRT), UNARY("square", SF_SQUARE), UNARY("abs", SF_ABS), UNARY("absolute", SF_ABS),
        UNARY("relu", SF_RELU), UNARY("sigmoid", SF_SIGMOID), UNARY("tanh", SF_TANH), UNARY("neg", SF_NEG), UNARY("negative", SF_NEG),
        BINARY("minimum", SF_MINIMUM), BINARY("maximum", SF_MAXIMUM), BINARY("add", SF_ADD), BINARY("sub", SF_SUB), BINARY("subtract", SF_SUB), BINARY("mul", SF_MUL),
        BINARY("multiply", SF_MUL), BINARY("div", SF_DIV), BINARY("divide", SF_DIV), BINARY("eq", SF_EQ), BINARY("ne", SF_NE), BINARY("lt", SF_LT),
        BINARY("le", SF_LE), BINARY("gt", SF_GT), BINARY("ge", SF_GE),
        {"where", APPLY, SF_WHERE, BIT(X) | BIT(Y) | BIT(Z), {X, Y, Z, ROLES}, 3},
        {"masked_fill", FILL_WHERE, 0, BIT(X) | BIT(MASK) | BIT(VALUE), {X, MASK, VALUE, ROLES}, 3},
        {"clamp", CLAMP, 0, BIT(X) | BIT(LOW) | BIT(HIGH), {X, LOW, HIGH, ROLES}, 1}, {"clip", CLAMP, 0, BIT(X) | BIT(LOW) | BIT(HIGH), {X, LOW, HIGH, ROLES}, 1},
        VIEW("flip", FLIP, 1), VIEW("permute", PERMUTE, 2), VIEW("transpose", TRANSPOSE, 1), VIEW("swapaxes", TRANSPOSE, 2), VIEW("t", PERMUTE, 1),
        VIEW("squeeze", SQUEEZE, 1), VIEW("unsqueeze", UNSQUEEZE, 2),
        VIEW("expand_dims", UNSQUEEZE, 2),
        {"broadcast_to", BROADCAST, 0, BIT(X) | BIT(SHAPE), {X, SHAPE, ROLES}, 2}, {"expand", BROADCAST, 0, BIT(X) | BIT(SHAPE), {X, SHAPE, ROLES}, 2},
        {"concat", CONCAT, 0, BIT(PARTS) | BIT(AXIS), {PARTS, AXIS, ROLES}, 1}, {"cat", CONCAT, 0, BIT(PARTS) | BIT(AXIS), {PARTS, AXIS, ROLES}, 1},
        {"concatenate", CONCAT, 0, BIT(PARTS) | BIT(AXIS), {PARTS, AXIS, ROLES}, 1},
        {"zeros_like", LIKE, 0, BIT(X), {X, ROLES}, 1}, {"ones_like", LIKE, 1, BIT(X), {X, ROLES}, 1},
        {"full_like", LIKE, 0, BIT(X) | BIT(VALUE), {X, VALUE, ROLES}, 2},
        {"narrow", NARROW, 0, BIT(X) | BIT(AXIS) | BIT(START) | BIT(LENGTH), {X, AXIS, START, LENGTH, ROLES}, 4},
        {"spread", SPREAD, 0, BIT(X) | BIT(AXIS) | BIT(LENGTH) | BIT(OFFSETS), {X, AXIS, LENGTH, OFFSETS, ROLES}, 4},
        {"select", SELECT, 0, BIT(X) | BIT(AXIS) | BIT(START), {X, AXIS, START, ROLES}, 3},
        {"matmul", MATMUL, 0, BIT(X) | BIT(Y), {X, Y, ROLES}, 2}, {"mm", MATMUL, 0, BIT(X) | BIT(Y), {X, Y, ROLES}, 2},
        {"bmm", MATMUL, 0, BIT(X) | BIT(Y), {X, Y, ROLES}, 2}, {"mv", MATMUL, 0, BIT(X) | BIT(Y), {X, Y, ROLES}, 2},
        {"dot", MATMUL, 0, BIT(X) | BIT(Y), {X, Y, ROLES}, 2}, {"linear", LINEAR, 0, BIT(X) | BIT(Y) | BIT(Z), {X, Y, Z, ROLES}, 2},
        CAST_ROW("cast"), CAST_ROW("astype"), CAST_ROW("to"), CAST_ROW("type"),
};

/* The arguments of one call, by role. */
typedef struct given {
        sf_parser *p;
        const row *row;
        sf_name name;
        const sf_term *of[ROLES]; /* NULL: not given */
        sf_term list;             /* axes or lengths given as separate arguments: x.permute(1, 0) */
} given;

static bool find_row(sf_name name, const row **found)
{
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
                if (sf_name_is(name, rows[i].name)) {
                        *found = &rows[i];
                        return true;
                }
        return false;
}

/* Assigns the arguments to roles. A list may be given as one tuple or as several arguments. */
static bool sort_out(given *g, int32_t count, const sf_argument *arguments)
{
        sf_parser *p = g->p;
        int32_t at = 0;
        for (int32_t i = 0; i < count; i++) {
                const sf_argument *a = &arguments[i];
                role r = ROLES;
                if (!a->name.length) {
                        bool spread = (g->row->shape == FLIP || g->row->shape == PERMUTE || g->row->shape == TRANSPOSE || g->row->shape == BROADCAST) && at == 1 &&
                                      a->term.kind == SF_TERM_NODE;
                        if (spread) {
                                int32_t more = 0;
                                while (i + more < count && !arguments[i + more].name.length)
                                        more++;
                                if (p->items + more > (int32_t)(sizeof p->item / sizeof p->item[0]))
                                        return sf_notation_fail(p, a->term.at, "too many arguments");
                                g->list = (sf_term){.kind = SF_TERM_TUPLE, .at = a->term.at, .count = more, .first = p->items};
                                for (int32_t k = 0; k < more; k++)
                                        p->item[p->items++] = arguments[i + k].term;
                                g->of[g->row->position[1]] = &g->list;
                                i += more - 1;
                                at = 2;
                                continue;
                        }
                        r = at < 5 ? g->row->position[at] : ROLES;
                        if (r == ROLES)
                                return sf_notation_fail(p, a->term.at, "%s takes at most %d arguments without a name", g->row->name, (int)at);
                        at++;
                } else {
                        for (size_t k = 0; k < sizeof keywords / sizeof keywords[0]; k++)
                                if (sf_name_is(a->name, keywords[k].name) && g->row->takes & BIT(keywords[k].role))
                                        r = keywords[k].role;
                        if (r == ROLES)
                                return sf_notation_fail(p, a->name.at, "%s has no argument %.*s", g->row->name, (int)a->name.length, a->name.at);
                }
                if (g->of[r])
                        return sf_notation_fail(p, a->term.at, "this argument of %s is given twice", g->row->name);
                g->of[r] = &a->term;
        }
        for (int32_t i = 0; i < g->row->needs; i++)
                if (!g->of[g->row->position[i]])
                        return sf_notation_fail(p, g->name.at, "%s needs %d argument%s", g->row->name, (int)g->row->needs, g->row->needs == 1 ? "" : "s");
        return true;
}

/* ------------------------------------------------------------------------------------------------------------
 * Reading arguments
 * ---------------------------------------------------------------------------------------------------------- */
static bool read_node(given *g, role r, int32_t *node)
{
        const sf_term *t = g->of[r];
        *node = 0;
        if (!t || t->kind == SF_TERM_NONE)
                return true;
        *node = t->node;
        return t->kind == SF_TERM_NODE || sf_notation_fail(g->p, t->at, "%s needs an expression here", g->row->name);
}

static bool read_flag(given *g, role r, int32_t *flag)
{
        const sf_term *t = g->of[r];
        int64_t number;
        *flag = 0;
        if (!t)
                return true;
        if (t->kind == SF_TERM_BOOL)
                *flag = t->yes;
        else if (sf_notation_whole(g->p, t, &number) && (number == 0 || number == 1))
                *flag = (int32_t)number;
        else
                return sf_notation_fail(g->p, t->at, "True or False was expected here");
        return true;
}

static bool read_dtype(given *g, role r, sf_dtype *dtype)
{
        const sf_term *t = g->of[r];
        if (!t || t->kind == SF_TERM_NONE)
                return true;
        *dtype = t->dtype;
        return t->kind == SF_TERM_DTYPE || sf_notation_fail(g->p, t->at, "a dtype was expected here, such as f32 or float32");
}

/* Reads one integer, or a tuple of them. *count is -1 for None, and if nothing is given. */
static bool read_list(given *g, role r, int32_t *count, int64_t *list)
{
        const sf_term *t = g->of[r];
        *count = -1;
        if (!t || t->kind == SF_TERM_NONE)
                return true;
        *count = t->kind == SF_TERM_TUPLE ? t->count : 1;
        for (int32_t i = 0; i < *count; i++) {
                const sf_term *item = t->kind == SF_TERM_TUPLE ? &g->p->item[t->first + i] : t;
                if (!sf_notation_whole(g->p, item, &list[i]))
                        return sf_notation_fail(g->p, item->at, "a whole number was expected here, or a tuple of them");
        }
        return true;
}

static bool read_whole(given *g, role r, int64_t *number)
{
        const sf_term *t = g->of[r];
        return !t || sf_notation_whole(g->p, t, number) || sf_notation_fail(g->p, t->at, "a whole number was expected here");
}

static bool read_axes(given *g, int32_t *count, int32_t *axes)
{
        int64_t list[SF_TUPLE_MAX];
        if (!read_list(g, AXIS, count, list))
                return false;
        for (int32_t i = 0; i < *count; i++) {
                if (list[i] < -SF_MAX_NDIM || list[i] >= SF_MAX_NDIM)
                        return sf_notation_fail(g->p, g->of[AXIS]->at, "axis %lld is none that a tensor can have", (long long)list[i]);
                axes[i] = (int32_t)list[i];
        }
        return true;
}

static bool read_number(given *g, role r, sf_scalar *value)
{
        const sf_term *t = g->of[r];
        if (!t || t->kind == SF_TERM_NONE)
                return true;
        if (t->kind == SF_TERM_BOOL) {
                *value = sf_int(t->yes);
                return true;
        }
        if (t->kind == SF_TERM_NODE) {
                const sf_node *n = &g->p->graph->node[t->node];
                bool negative = n->kind == SF_NODE_APPLY && n->function == SF_NEG;
                if (negative)
                        n = &g->p->graph->node[n->arg[0]];
                if (n->kind == SF_NODE_CONSTANT) {
                        *value = n->value;
                        /* An integer constant has no sign yet; with the minus, -2^63 is the
                         * lowest. */
                        if (negative && n->value.kind != SF_SCALAR_REAL &&
                            n->value.value.u > (uint64_t)1 << 63)
                                return sf_notation_fail(g->p, t->at,
                                                        "this whole number does not fit 64 bits");
                        if (negative)
                                *value = n->value.kind == SF_SCALAR_REAL
                                                 ? sf_real(-n->value.value.f)
                                                 : sf_int((int64_t)(0 - n->value.value.u));
                        return true;
                }
        }
        return sf_notation_fail(g->p, t->at, "a number was expected here");
}

/* ------------------------------------------------------------------------------------------------------------
 * Making nodes
 * ---------------------------------------------------------------------------------------------------------- */

/* var_mean and std_mean: a tuple of two. */
static int32_t variance_and_mean(given *g, int32_t x, const sf_expr_options *o)
{
        sf_parser *p = g->p;
        sf_term *two = &p->item[p->items];
        if (p->items + 2 > (int32_t)(sizeof p->item / sizeof p->item[0]))
                return sf_notation_fail(p, g->name.at, "too many arguments"), -1;
        const int32_t made[2] = {sf_expr_derived(p->graph, x, (sf_derived)g->row->what, o), sf_expr_derived(p->graph, x, SF_VAR_MEAN, o)};
        for (int i = 0; i < 2; i++)
                if (!sf_notation_node(p, g->name.at, made[i], &two[i]))
                        return -1;
        p->items += 2;
        return 0;
}

/* Reads the weight and the bias, if the function has them. */
static bool read_beside(given *g, int32_t *weight, int32_t *bias)
{
        return g->row->shape != DERIVED || (read_node(g, Y, weight) && read_node(g, Z, bias));
}

static int32_t reduce(given *g, int32_t x, int32_t y, bool *good)
{
        sf_expr_options o = SF_EXPR_OPTIONS_INIT;
        int32_t axes[SF_TUPLE_MAX], count;
        sf_scalar correction = sf_int(1); /* the default of torch */
        o.op = g->row->shape == DERIVED || g->row->shape == VARIANCE_AND_MEAN ? SF_SUM : (sf_op)g->row->what;
        *good = read_axes(g, &count, axes) && read_flag(g, KEEPDIM, &o.keepdim) && read_flag(g, REVERSE, &o.reverse) && read_flag(g, EXCLUSIVE, &o.exclusive) &&
                read_node(g, MASK, &o.mask) && read_node(g, OFFSETS, &o.offsets) && read_number(g, INITIAL, &o.initial) && read_dtype(g, DTYPE, &o.dtype) && read_dtype(g, ACC, &o.accumulator) &&
                read_flag(g, SKIP_NAN, &o.skip_nan) && read_number(g, CORRECTION, &correction) && read_number(g, ORDER, &o.order) && read_number(g, EPS, &o.eps) &&
                read_beside(g, &o.weight, &o.bias);
        if (!*good)
                return -1;
        o.naxes = count;
        o.axes = count < 0 ? NULL : axes;
        /* with an initial value there is a result even if all elements are NaN */
        const bool extreme = g->row->takes & SKIPS && (o.op == SF_MAX || o.op == SF_MIN) && !o.initial.kind;
        o.skip_nan |= (g->row->takes & SKIPS) != 0;
        o.correction = correction.kind == SF_SCALAR_REAL  ? correction.value.f
                       : correction.kind == SF_SCALAR_INT ? (double)correction.value.i
                                                          : (double)correction.value.u;
        switch (g->row->shape) {
        case SCAN: return sf_expr_scan(g->p->graph, x, &o);
        case RECURRENCE: return sf_expr_recurrence(g->p->graph, x, y, &o);
        case DERIVED: return sf_expr_derived(g->p->graph, x, (sf_derived)g->row->what, &o);
        case VARIANCE_AND_MEAN: return variance_and_mean(g, x, &o);
        default:
                return extreme ? sf_expr_derived(g->p->graph, x, o.op == SF_MAX ? SF_NANMAX : SF_NANMIN, &o)
                               : sf_expr_fold(g->p->graph, x, &o);
        }
}

static int32_t view(given *g, int32_t x, bool *good)
{
        sf_graph *graph = g->p->graph;
        int64_t shape[SF_TUPLE_MAX], start = 0, length = 0;
        int32_t axes[SF_TUPLE_MAX] = {0}, count, lengths, offsets;
        const bool one = g->row->shape == NARROW || g->row->shape == SELECT || g->row->shape == SPREAD,
                   some = one || g->row->shape == UNSQUEEZE;
        *good = read_axes(g, &count, axes) && read_list(g, SHAPE, &lengths, shape) && read_whole(g, START, &start) && read_whole(g, LENGTH, &length) &&
                read_node(g, OFFSETS, &offsets);
        if (*good && ((one && count != 1) || (some && count < 0)))
                /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): rows of these shapes need an axis: sort_out has seen one */
                *good = sf_notation_fail(g->p, g->of[AXIS]->at, "%s needs %s here", g->row->name, one ? "one axis" : "an axis, or a tuple of them,");
        if (!*good)
                return -1;
        switch (g->row->shape) {
        case FLIP: return sf_expr_flip(graph, x, count, count < 0 ? NULL : axes);
        case PERMUTE: return sf_expr_permute(graph, x, count, count < 0 ? NULL : axes);
        case TRANSPOSE: /* torch swaps two axes, NumPy permutes all of them */
                if (count == 2 && g->of[AXIS] == &g->list)
                        return sf_expr_transpose(graph, x, axes[0], axes[1]);
                return sf_expr_permute(graph, x, count, count < 0 ? NULL : axes);
        case BROADCAST: return sf_expr_broadcast(graph, x, lengths < 0 ? 0 : lengths, shape);
        case NARROW: return sf_graph_narrow(graph, x, axes[0], start, length);
        case SELECT: return sf_expr_select(graph, x, axes[0], start);
        case SPREAD: return sf_expr_spread(graph, x, axes[0], length, offsets);
        case SQUEEZE: return sf_graph_squeeze(graph, x, count, count < 0 ? NULL : axes);
        default: return sf_graph_unsqueeze(graph, x, count, axes);
        }
}

static int32_t concat(given *g, bool *good)
{
        const sf_term *t = g->of[PARTS];
        int32_t parts[SF_TUPLE_MAX], axes[SF_TUPLE_MAX] = {0}, count;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): rows of this shape need parts: sort_out has seen them */
        *good = t->kind == SF_TERM_TUPLE || sf_notation_fail(g->p, t->at, "%s needs its parts in brackets: %s([a, b], 1)", g->row->name, g->row->name);
        for (int32_t i = 0; *good && i < t->count; i++) {
                const sf_term *part = &g->p->item[t->first + i];
                *good = part->kind == SF_TERM_NODE || sf_notation_fail(g->p, part->at, "an expression was expected here");
                parts[i] = part->node;
        }
        *good = *good && read_axes(g, &count, axes);
        if (*good && g->of[AXIS] && count != 1)
                *good = sf_notation_fail(g->p, g->of[AXIS]->at, "%s needs one axis here", g->row->name);
        return *good ? sf_expr_concat(g->p->graph, axes[0], t->count, parts) : -1;
}

/* x.float(), bool(x) and so on. */
static bool cast_by_name(sf_parser *p, sf_name name, sf_dtype dtype, int32_t count, const sf_argument *arguments, sf_term *result)
{
        if (count != 1 || arguments[0].name.length || arguments[0].term.kind != SF_TERM_NODE)
                return sf_notation_fail(p, name.at, "%.*s takes one expression", (int)name.length, name.at);
        return sf_notation_node(p, name.at, sf_expr_cast(p->graph, arguments[0].term.node, dtype), result);
}

bool sf_notation_call(sf_parser *p, sf_name name, int32_t count, const sf_argument *arguments, sf_term *result)
{
        given g = {.p = p, .name = name};
        sf_dtype dtype = {0, 0, 0};
        int32_t x = 0, y = 0, z = 0, low = 0, high = 0, mask = 0, node = -1;
        sf_scalar value = sf_int(0);
        bool good = true;
        if (sf_notation_dtype(name, &dtype))
                return cast_by_name(p, name, dtype, count, arguments, result);
        if (!find_row(name, &g.row))
                return sf_notation_fail(p, name.at, "there is no function %.*s; docs/expressions.md lists them", (int)name.length, name.at);
        if (!sort_out(&g, count, arguments) || !read_node(&g, X, &x) || !read_node(&g, Y, &y) || !read_node(&g, Z, &z) || !read_node(&g, LOW, &low) ||
            !read_node(&g, HIGH, &high) || !read_node(&g, MASK, &mask) || !read_dtype(&g, DTYPE, &dtype))
                return false;
        switch (g.row->shape) {
        case APPLY: node = sf_expr_apply(p->graph, (sf_function)g.row->what, x, y, z); break;
        case FOLD:
        case DERIVED:
        case SCAN:
        case RECURRENCE: node = reduce(&g, x, y, &good); break;
        case VARIANCE_AND_MEAN:
                if (reduce(&g, x, y, &good) < 0)
                        return false;
                *result = (sf_term){.kind = SF_TERM_TUPLE, .at = name.at, .count = 2, .first = p->items - 2};
                return true;
        case CLAMP:
                node = low ? sf_expr_apply(p->graph, SF_MAXIMUM, x, low, 0) : x;
                node = high ? sf_expr_apply(p->graph, SF_MINIMUM, node, high, 0) : node;
                break;
        case FILL_WHERE:
                good = read_number(&g, VALUE, &value);
                node = good ? sf_expr_apply(p->graph, SF_WHERE, mask, sf_expr_constant(p->graph, value), x) : -1;
                break;
        case CONCAT: node = concat(&g, &good); break;
        case LIKE:
                value = sf_int(g.row->what);
                good = read_number(&g, VALUE, &value);
                node = good ? sf_expr_like(p->graph, x, value) : -1;
                break;
        case MATMUL: node = sf_expr_matmul(p->graph, x, y); break;
        case LINEAR: node = sf_expr_linear(p->graph, x, y, z); break;
        case CAST: node = sf_expr_cast(p->graph, x, dtype); break;
        default: node = view(&g, x, &good); break;
        }
        return good && sf_notation_node(p, name.at, node, result);
}
