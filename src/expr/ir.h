/*
 * ir.h: a plan's own copy of the expression: every node has its shape and dtype, every conversion
 * is a node, and equal nodes are one node. Nodes never change. A rewrite makes new nodes and
 * records which old node they replace (`forward`). The old nodes remain, so that explain can still
 * show them.
 *
 * A fold here always keeps its axes, with length 1; if they are to be removed, a squeeze follows. A
 * mean is a fold whose result is divided by the count in the accumulator's type.
 */
#ifndef SF_IR_H
#define SF_IR_H

#include "core/program.h"
#include "expr/graph.h"

#include <setjmp.h>

typedef enum sf_ir_kind {
        SF_IR_INPUT,     /* input number `index` */
        SF_IR_CONSTANT,  /* value; 0-dimensional */
        /* code of arg[0 .. 3), which broadcast and have the instruction's type; CAST is one */
        SF_IR_MAP,
        SF_IR_FLIP,      /* along `axes` */
        SF_IR_PERMUTE,   /* axis d is list[d] of the argument */
        SF_IR_SQUEEZE,   /* `axes` of the argument are removed */
        SF_IR_UNSQUEEZE, /* `axes` of this node are new */
        SF_IR_BROADCAST, /* to this node's shape */
        SF_IR_SLICE,     /* along axis `index`: position i is the argument's start + i * step */
        SF_IR_CONCAT,    /* list: the parts, along axis `index` */
        /* Of arg[0], which has one element per segment along `axes`: that element, repeated for
         * each element of the segment. `index` is one more than the number of the input with the
         * offsets, as for a scan and a fold with segments. `start` is 1 if the elements after
         * the last offset must be 0. Then the argument must be a result of its own: what a pass
         * reads there is 0, but what it would compute from that might not be. */
        SF_IR_SPREAD,
        /* of arg[0], mask arg[1], along `axes`; for a recurrence, arg[0] is b, and arg[1] is a */
        SF_IR_SCAN,
        /* as a scan. With segments, `start` is their number, and that of the results along the
         * axis; else `index` is 0 */
        SF_IR_FOLD,
        SF_IR_MATMUL     /* (..., M, K) @ (..., K, N), both with 2 axes or more */
} sf_ir_kind;

typedef struct sf_ir_node {
        sf_ir_kind kind;
        sf_dt dt;
        uint64_t axes;
        int32_t arg[3]; /* 0: none */
        int32_t index;
        int64_t start, step;
        sf_value value; /* a constant's value, or the initial value */
        sf_code code;
        sf_op op;
        sf_dt acc;
        bool reverse, exclusive, mean, has_initial;
        int32_t ndim, nlist;
        const int64_t *shape;
        const int32_t *list;
        /* not part of the node's meaning: */
        int64_t count; /* elements */
        int32_t forward; /* 0, or the node that replaces this one */
        /* by live nodes and as outputs, at the last sf_ir_count_uses; nodes made since then are
         * added */
        int32_t uses;
        int32_t settled; /* the last sweep of rewrites that visited it */
        uint32_t hash;
        int32_t next; /* the next node of the same hash bucket */
} sf_ir_node;

/* A rewrite that was applied. */
typedef struct sf_ir_event {
        const struct sf_rewrite *rewrite;
        int32_t before, after;
        bool rounds; /* the result may be rounded differently */
} sf_ir_event;

typedef struct sf_ir_block sf_ir_block;

typedef struct sf_ir {
        sf_context *ctx;
        jmp_buf no_memory; /* where sf_ir_alloc jumps to if there is no memory */
        bool exact;
        bool rounds;  /* set by the rewrite being tried: sf_ir_may_round */
        int32_t nodes, room;
        sf_ir_node **node; /* there is no node 0 */
        int32_t bucket[64];
        int64_t largest; /* elements of the largest input */
        int32_t inputs, outputs;
        const char **name;
        int32_t *output;   /* as the user wrote them; sf_ir_now gives their replacements */
        int32_t events, events_room;
        sf_ir_event *event;
        int32_t sweeps;
        int32_t order_room;
        int32_t *order;  /* the array that sf_ir_count_uses returns */
        int32_t written; /* nodes up to this number are as the user wrote them */
        int32_t merged; /* common subexpressions: how often an equal node existed already */
        sf_ir_block *blocks;
} sf_ir;

/* Memory that lives as long as the ir. If there is none, this jumps to no_memory. */
void *sf_ir_alloc(sf_ir *ir, size_t size);
void sf_ir_free(sf_ir *ir);

/* 0, or one more than the number of the input with a node's offsets. */
static inline int32_t sf_ir_offsets(const sf_ir_node *n)
{
        return n->kind == SF_IR_SCAN || n->kind == SF_IR_FOLD || n->kind == SF_IR_SPREAD ? n->index : 0;
}

static inline const sf_ir_node *sf_ir_at(const sf_ir *ir, int32_t node)
{
        return ir->node[node];
}

/* The node that currently replaces this one. */
static inline int32_t sf_ir_now(const sf_ir *ir, int32_t node)
{
        while (ir->node[node]->forward)
                node = ir->node[node]->forward;
        return node;
}

/* ------------------------------------------------------------------------------------------------------------
 * Making nodes. infer.c has checked that the arguments fit together. An operator that does nothing
 * (a flip of no axes, a cast to the same type) gives its argument.
 * ---------------------------------------------------------------------------------------------------------- */
int32_t sf_ir_input(sf_ir *ir, int32_t index, sf_dt dt, int32_t ndim, const int64_t *shape);
int32_t sf_ir_constant(sf_ir *ir, sf_dt dt, sf_value value);
/* rounded to dt; for an integer type a whole number below 2^53, wrapped */
int32_t sf_ir_number(sf_ir *ir, sf_dt dt, double value);
/* `dt` is the instruction's type; for a comparison, that of its arguments. */
int32_t sf_ir_map(sf_ir *ir, sf_code code, sf_dt dt, int32_t a, int32_t b, int32_t c);
int32_t sf_ir_cast(sf_ir *ir, int32_t x, sf_dt dt);
int32_t sf_ir_flip(sf_ir *ir, int32_t x, uint64_t axes);
int32_t sf_ir_permute(sf_ir *ir, int32_t x, const int32_t *axes);
int32_t sf_ir_squeeze(sf_ir *ir, int32_t x, uint64_t axes);
int32_t sf_ir_unsqueeze(sf_ir *ir, int32_t x, uint64_t axes);
int32_t sf_ir_broadcast(sf_ir *ir, int32_t x, int32_t ndim, const int64_t *shape);
int32_t sf_ir_slice(sf_ir *ir, int32_t x, int32_t axis, int64_t start, int64_t step, int64_t length);
int32_t sf_ir_concat(sf_ir *ir, int32_t axis, int32_t count, const int32_t *parts);
/* A scan or fold like `model` (op, axes, acc, dt, reverse, ...) of x and mask. */
int32_t sf_ir_reduce(sf_ir *ir, const sf_ir_node *model, int32_t x, int32_t mask);
int32_t sf_ir_spread(sf_ir *ir, int32_t x, int32_t axis, int64_t length, int32_t offsets, bool ends);
int32_t sf_ir_matmul(sf_ir *ir, sf_dt dt, int32_t a, int32_t b);
/* `node` with other arguments; parts are those of a concat. */
int32_t sf_ir_with(sf_ir *ir, const sf_ir_node *node, const int32_t arg[3], const int32_t *parts);

/* ------------------------------------------------------------------------------------------------------------
 * Queries
 * ---------------------------------------------------------------------------------------------------------- */
bool sf_ir_is_real(const sf_ir *ir, int32_t node);
/* Is the node so small that checking all its elements costs little compared with what the plan
 * reads? */
bool sf_ir_is_small(const sf_ir *ir, const sf_ir_node *node);
bool sf_ir_is_map(const sf_ir *ir, int32_t node, sf_code code);
bool sf_ir_same_shape(const sf_ir_node *a, const sf_ir_node *b);
/* Is it a constant, broadcast or not? Gives it as a double (integers are exact up to 2^53). */
bool sf_ir_is_number(const sf_ir *ir, int32_t node, double *value);
/* The shape that a and b broadcast to. Returns its number of axes, or -1 if they do not. */
int32_t sf_ir_broadcast_shape(int32_t andim, const int64_t *a, int32_t bndim, const int64_t *b, int64_t *shape);
/* The product of the lengths along `axes`. */
int64_t sf_ir_length(const sf_ir_node *node, uint64_t axes);
/* The number of arguments, parts included, and the current replacement of one. */
int32_t sf_ir_args(const sf_ir_node *node);
int32_t sf_ir_arg(const sf_ir *ir, const sf_ir_node *node, int32_t i);
/* Counts the uses of every live node. Returns how many nodes are live; *order lists them, arguments
 * before users, and is valid until the next call. */
int32_t sf_ir_count_uses(sf_ir *ir, int32_t **order);

/* infer.c: fills an empty ir from a graph and its inputs' shapes and dtypes. */
sf_status sf_infer(sf_ir *ir, const sf_graph *graph, const sf_tensor *inputs);

/* print.c: a node in the notation. Writes at most size - 1 bytes and a 0; returns the full
 * length. */
size_t sf_ir_print(const sf_ir *ir, int32_t node, char *text, size_t size);
/* The same, but a node whose label[node] is not 0 is shown as t1, t2, ... The node itself is shown
 * in full. */
size_t sf_ir_print_labelled(const sf_ir *ir, int32_t node, const int32_t *label, char *text, size_t size);

/* rewrite_matmul.c: is this a matmul, possibly times numbers and with terms added to it, that
 * nothing else uses? */
bool sf_ir_sums_matmul(const sf_ir *ir, int32_t node);

/* rewrite.c: rewrites until nothing changes. */
void sf_rewrite_all(sf_ir *ir);

#endif
