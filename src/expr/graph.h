/* graph.h: an expression as its user built it: operators on numbered nodes, without shapes. */
#ifndef SF_GRAPH_H
#define SF_GRAPH_H

#include "core/core.h"

typedef enum sf_node_kind {
        SF_NODE_INPUT,     /* number `index` */
        SF_NODE_CONSTANT,  /* value */
        SF_NODE_LIKE,      /* has arg[0]'s shape and dtype, filled with value */
        SF_NODE_APPLY,     /* function of arg[0 .. 3) */
        SF_NODE_CAST,      /* arg[0] to dtype */
        SF_NODE_FLIP,      /* list: axes */
        SF_NODE_PERMUTE,   /* list: axes */
        SF_NODE_TRANSPOSE, /* list: two axes */
        SF_NODE_SQUEEZE,   /* list: axes; all: those of length 1 */
        SF_NODE_UNSQUEEZE, /* list: axes of the result */
        SF_NODE_BROADCAST, /* list: a shape */
        SF_NODE_SLICE,     /* list: axis, start, stop, step */
        SF_NODE_NARROW,    /* list: axis, start, length; all of it must exist */
        SF_NODE_SELECT,    /* list: axis, index */
        SF_NODE_CONCAT,    /* list: axis, then the parts */
        /* of arg[0], with one element per segment of `offsets`; list: axis, length */
        SF_NODE_SPREAD,
        SF_NODE_SCAN,      /* of arg[0], mask arg[1]; list: the axis */
        SF_NODE_FOLD,      /* of arg[0], mask arg[1]; list: axes */
        SF_NODE_DERIVED,   /* likewise, composed of others: `derived` */
        SF_NODE_RECURRENCE, /* of a arg[0] and b arg[1], mask arg[2]; list: the axis */
        SF_NODE_MATMUL
} sf_node_kind;

typedef struct sf_node {
        sf_node_kind kind;
        int32_t index;
        int32_t arg[3]; /* 0: none */
        sf_function function;
        sf_op op;
        sf_derived derived;
        bool keepdim, reverse, exclusive, skip_nan;
        /* no list was given: it means all axes, the last one, or the reverse order, as the
         * operator says */
        bool all;
        int32_t count, list; /* the list's length, and where it begins in the graph's numbers */
        /* the number of axes that arg[0] must have at least: as many as its subscripts name */
        int32_t needs;
        sf_scalar value; /* a constant's value, or the initial value */
        sf_dtype dtype, accumulator;
        double correction, order;
        int32_t weight, bias; /* of a derived one: 0, or a node */
        int32_t offsets; /* 0, or the input that cuts the axis into segments */
        sf_scalar eps;
        size_t column; /* where it is in the line that the graph was parsed from, if there is one */
} sf_node;

struct sf_graph {
        sf_context *ctx;
        int32_t nodes, room; /* there is no node 0 */
        sf_node *node;
        int32_t numbers, numbers_room;
        int64_t *number;
        int32_t inputs, outputs;
        char **name;         /* of the inputs */
        int32_t *input_node;
        int32_t *output;     /* nodes */
        char *line;          /* what it was parsed from, or NULL */
};

/* The most nodes that a graph may have. Functions that walk it are recursive, so this also limits
 * their stack. */
#define SF_GRAPH_MAX 4096

/* For the notation. squeeze removes these axes (NULL: all of length 1), unsqueeze inserts axes
 * at these positions of the result, and narrow takes `length` elements and fails if they do not
 * exist. */
int32_t sf_graph_squeeze(sf_graph *graph, int32_t x, int32_t naxes, const int32_t *axes);
int32_t sf_graph_unsqueeze(sf_graph *graph, int32_t x, int32_t naxes, const int32_t *axes);
int32_t sf_graph_narrow(sf_graph *graph, int32_t x, int32_t axis, int64_t start, int64_t length);

/* The number of arguments of a function, and its name in the notation; 0 and NULL if there is no
 * such function. */
int32_t sf_function_arguments(sf_function function);
const char *sf_function_name(sf_function function);

#endif
