/*
 * infer.h: what infer.c, infer_views.c and infer_reduce.c share. Each function infers the shape and
 * dtype of one kind of node, or fails with an error message.
 */
#ifndef SF_INFER_H
#define SF_INFER_H

#include "expr/ir.h"

/* What a node of the graph is: a node of the ir, or a number whose type is not decided yet. */
typedef struct sf_meaning {
        int32_t node;     /* 0: a number */
        sf_scalar number;
} sf_meaning;

typedef struct sf_inference {
        sf_ir *ir;
        const sf_graph *graph;
        sf_meaning *of; /* by node of the graph */
} sf_inference;

/* An expression in an error message, cut if it is long. */
typedef struct sf_excerpt {
        char text[96];
} sf_excerpt;

sf_excerpt sf_infer_show(const sf_ir *ir, int32_t node);
const char *sf_infer_shape(const sf_ir *ir, int32_t node, char text[128]);

#define FAIL(...) sf_fail(in->ir->ctx, SF_INVALID_ARGUMENT, __VA_ARGS__)

/* The type that two types are promoted to; SF_DT_COUNT if there is none. */
sf_dt sf_infer_promote(sf_dt a, sf_dt b);
/* The common type of arguments `from` to `to` - 1 of a node. */
sf_status sf_infer_common_dt(sf_inference *in, const sf_node *n, int32_t from, int32_t to, sf_dt *dt);
/* number_dt: the default type of a number. number: a number as a node of a given type. as_node: a
 * node of the graph as a node of the ir; a number becomes a 0-dimensional tensor of its default
 * type. */
sf_dt sf_infer_number_dt(sf_scalar v);
int32_t sf_infer_number(sf_inference *in, sf_scalar v, sf_dt dt);
int32_t sf_infer_as_node(sf_inference *in, int32_t node);

/* infer_views.c */
sf_status sf_infer_axis(sf_inference *in, int32_t node, int32_t rank, int64_t axis, int32_t *found);
/* The axes in the node's list, for a tensor with `rank` axes; and, in sf_infer_axes, the default
 * axes if it has no list. */
sf_status sf_infer_named_axes(sf_inference *in, const sf_node *n, int32_t node, int32_t rank, uint64_t *axes);
sf_status sf_infer_axes(sf_inference *in, const sf_node *n, int32_t node, uint64_t *axes);
sf_status sf_infer_permute(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result);
sf_status sf_infer_squeeze(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result);
sf_status sf_infer_broadcast(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result);
sf_status sf_infer_slice(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result);
sf_status sf_infer_concat(sf_inference *in, const sf_node *n, sf_meaning *result);

/* infer_reduce.c */
sf_status sf_infer_spread(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result);
sf_status sf_infer_derived(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result);
sf_status sf_infer_reduce(sf_inference *in, const sf_node *n, int32_t x, sf_meaning *result);
sf_status sf_infer_recurrence(sf_inference *in, const sf_node *n, sf_meaning *result);
sf_status sf_infer_matmul(sf_inference *in, const sf_node *n, sf_meaning *result);

#endif
