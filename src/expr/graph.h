/* graph.h: an expression as its user built it: operators on numbered nodes, no shapes. */
#ifndef SF_GRAPH_H
#define SF_GRAPH_H

#include "core/core.h"

typedef enum sf_node_kind {
        SF_NODE_INPUT,     /* number `index` */
        SF_NODE_CONSTANT,  /* value */
        SF_NODE_LIKE,      /* of arg[0]'s shape and dtype, filled with value */
        SF_NODE_APPLY,     /* function of arg[0 .. 3) */
        SF_NODE_CAST,      /* arg[0] to dtype */
        SF_NODE_FLIP,      /* list: axes */
        SF_NODE_PERMUTE,   /* list: axes */
        SF_NODE_TRANSPOSE, /* list: two axes */
        SF_NODE_SQUEEZE,   /* list: axes; all: those of length 1 */
        SF_NODE_UNSQUEEZE, /* list: axes of the result */
        SF_NODE_BROADCAST, /* list: a shape */
        SF_NODE_SLICE,     /* list: axis, start, stop, step */
        SF_NODE_NARROW,    /* list: axis, start, length, all of which is there */
        SF_NODE_SELECT,    /* list: axis, index */
        SF_NODE_CONCAT,    /* list: axis, then the parts */
        SF_NODE_SPREAD,    /* of arg[0], an element a segment of `offsets`; list: axis, length */
        SF_NODE_SCAN,      /* of arg[0], mask arg[1]; list: the axis */
        SF_NODE_FOLD,      /* of arg[0], mask arg[1]; list: axes */
        SF_NODE_DERIVED,   /* likewise, made of others: `derived` */
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
        bool all; /* no list was given: all axes, the last one, reversed: as the operator says */
        int32_t count, list; /* the list's length, and where it starts in the graph's numbers */
        int32_t needs; /* axes that arg[0] must have: as many as its subscripts name */
        sf_scalar value; /* a constant's, or the initial one */
        sf_dtype dtype, accumulator;
        double correction, order;
        int32_t weight, bias; /* of a derived one: 0, or a node */
        int32_t offsets; /* 0, or the input that cuts the axis into segments */
        sf_scalar eps;
        size_t column; /* where it stands in the graph's line, if there is one */
} sf_node;

struct sf_graph {
        sf_context *ctx;
        int32_t nodes, room; /* node 0 is none */
        sf_node *node;
        int32_t numbers, numbers_room;
        int64_t *number;
        int32_t inputs, outputs;
        char **name;         /* of the inputs */
        int32_t *input_node;
        int32_t *output;     /* nodes */
        char *line;          /* what it was parsed from, or NULL */
};

/* The most nodes a graph may have. Walks of it are recursive, so that it also bounds the stack they take. */
#define SF_GRAPH_MAX 4096

/* For the notation: axes that go (NULL: all of length 1), or come to stand at these of the result;
 * as many elements as `length` says, or none. */
int32_t sf_graph_squeeze(sf_graph *graph, int32_t x, int32_t naxes, const int32_t *axes);
int32_t sf_graph_unsqueeze(sf_graph *graph, int32_t x, int32_t naxes, const int32_t *axes);
int32_t sf_graph_narrow(sf_graph *graph, int32_t x, int32_t axis, int64_t start, int64_t length);

/* How many arguments a function takes, and its name in the notation; 0 and NULL for a number that is none. */
int32_t sf_function_arguments(sf_function function);
const char *sf_function_name(sf_function function);

#endif
