/*
 * step.h: what a backend is asked to do: loads, an operation, the order, stores; no graph and no options in sight.
 *
 * A step walks `batch` independent sequences of n elements. Reverse is already gone: the pointers start at the
 * sequence's first element and the strides carry the direction, so a backend meets elements in the order of the rule
 * simply by counting up. Dimensions of length 1 are gone, and neighbours that act as one have been merged.
 *
 *     for each position of dims[0 .. nbatch):                    independent: any order, any thread
 *         for each position i of dims[nbatch .. nbatch + nseq):  outermost first: the sequence
 *             a[i] = m && !m[i] ? identity : x[i]
 *         scan:  y[i] = s[i]      fold:  y = s[n-1]              s as scanfold.h defines it
 *
 * program.h says what changes where the step is fused with elementwise work.
 *
 * A chain is several stages over the same lines: folds whose results go back to the elements they came from, as in a
 * softmax or a norm. A stage is a step and its siblings; `then`, of its first step, is the next one's first.
 *
 *     for each position of dims[0 .. nbatch):                    independent, as ever; the same dims in all steps
 *         for each stage, in order:  for each of its steps:
 *             fold, scan:  as above                              over the line's elements
 *             map:         y[i] = load(operands at i)            at every position of the line: no operation
 *
 * What a later stage reads of an earlier one's is a fold's result, or that of a map of one element, for the same line: the
 * operand says whose (sf_operand.made), and stands still along the sequence, so a backend may hand it on without
 * reading it back. All else that a stage reads is in memory before the chain begins. Every step has the same batch
 * dimensions, of the same lengths in the same order; sequences are the same dimensions too, but for steps of n = 1 beside
 * longer ones, which are maps of results alone. Run one stage after another, each over all lines, the steps give the same
 * bits: sf_chain_apart.
 *
 * A sequence may be cut into segments (segments.h). Then all of the above holds for each segment by itself: positions count from its beginning, an
 * initial value is before each, and a fold has a result for each, dims[nbatch].y apart. Such a step has one dimension along its sequence.
 *
 * A sequence may be a block of a longer one that others have the rest of (src/ranks). Then `before` and `after` say how many positions stand
 * before and behind it, and a scan is told what stands to its left: values of blocks, of each sequence its own, which are combined on the left of
 * every result in turn, lowest first, before the initial value. A fold may be asked for values instead of results.
 */
#ifndef SF_STEP_H
#define SF_STEP_H

#include "core/program.h"
#include "core/segments.h"

typedef struct sf_dim {
        int64_t len;
        int64_t x, y, m; /* strides in bytes; a fold's sequence has y = 0, or with segments what lies between their results; without a mask m = 0 */
        int64_t left;    /* of the values to the left; 0 along the sequence, and without any */
} sf_dim;

typedef struct sf_step {
        bool fold;
        bool exclusive; /* scans only */
        bool in_place;  /* y is x, element for element */
        bool has_initial;
        bool map;       /* neither scan nor fold, in a chain: y[i] is the load's value at i, rounded to acc and then to out; no mask,
                           no initial value, no store, and op and identity mean nothing. Here nseq may be any */
        bool within;    /* in a chain: nobody but its later stages reads y, which is scratch: it need not be written */
        bool reverse;   /* the sequence was taken from its end: positions are counted from there, but an index from the other */
        sf_op op;
        sf_dt in, acc, out; /* acc is f32, f64 or an integer type, never f16, bf16 or bool */
        sf_value identity, initial;
        sf_device device;
        void *stream;

        const char *x;
        char *y;
        const uint8_t *m; /* NULL: no mask */

        int64_t n;     /* length of a sequence; 0 only in a fold */
        int64_t batch; /* how many sequences, >= 1 */
        int32_t nbatch, nseq; /* a scan has nseq = 1; that of a chain too */
        sf_dim dims[SF_MAX_NDIM + 1];

        sf_segments segments;  /* none, or how the sequence is cut; then there is nothing before, after or to the left of it */

        bool values;           /* of a fold: y is of sf_value, and gets values that are not lowered; there is no initial one */
        int64_t before, after; /* positions of the axis on either side of the sequence */
        const char *left;      /* of a scan: sf_value, `lefts` of them `left_entry` bytes apart for each sequence, or NULL */
        int32_t lefts;
        int64_t left_entry;

        const sf_fuse *fuse; /* NULL: plain; otherwise what is done to elements on their way in and to results on their way out */
        const struct sf_step *sibling; /* NULL, or another step over the same operands and dims, to be done in the same read where
                                          the backend can; its results do not depend on this one's, and neither is in place. It may
                                          have a sibling in turn */
        const struct sf_step *then; /* NULL, or the first step of the stage that follows this one and its siblings, line by line: a
                                       chain, as above. Set in the first step of a stage alone */
} sf_step;

/* So many steps share one read at most: more is a register's worth too many. And so many make a chain, siblings counted. */
#define SF_SIBLINGS_MAX 4
#define SF_CHAIN_STEPS 8

/* A view's part in a step under construction. */
typedef struct sf_step_views {
        const sf_view *x, *y;
        const sf_view *m;     /* NULL: no mask; otherwise broadcast to x's shape */
        uint64_t axes;        /* bit d: axis d of x belongs to the sequence */
        const sf_view *offsets; /* NULL: no segments; otherwise one axis belongs to the sequence, and a fold's y has it, with a result a segment */
        uint32_t spread;      /* bit k: along that axis, operand k has an element a segment */
        bool keepdim, reverse;
        /* A block of a longer sequence: as in the step. y is of sf_value where `values` is set, whatever its dtype says; left is shaped as x. */
        bool values;
        int64_t before, after;
        const sf_view *left;
        int32_t lefts;
        int64_t left_entry;
        /* Fused steps. Operand 0 is x; all have been broadcast to one shape. */
        int32_t operands;
        const sf_view *operand[SF_OPERANDS_MAX];
        const int32_t *made; /* of a chain: what sf_operand.made is to be. NULL: all 0 */
        sf_fuse *fuse; /* its operands are filled too: data, dtype, strides, made. NULL: plain */
        bool follows;  /* of a chain: begins the next stage; else it is a sibling of the step before it */
} sf_step_views;

/* Fills the geometry: x, y, m, n, batch, dims, and the operands of views->fuse, which becomes the step's. The views have been checked
 * and have at least one output element. */
void sf_step_geometry(sf_step *step, const sf_step_views *views);
/* The same for the steps of a chain together, whose views are of one shape, or along the axes of length 1; and `sibling` and `then`. */
void sf_chain_geometry(int32_t count, sf_step *steps, const sf_step_views *views);

/* A map as the elementwise step that it is by itself: a step of sequences of one element. `fuse` becomes its programs, and is not the map's own. */
void sf_step_flatten(const sf_step *map, sf_step *step, sf_fuse *fuse);

/* Stage by stage: calls `run` for each as a step with siblings that is no part of a chain, maps flattened, until one fails. */
typedef sf_status sf_run_stage(void *with, const sf_step *step);
sf_status sf_chain_apart(const sf_step *first, sf_run_stage *run, void *with);

/* A value of the step's operation as a number of type sf_op_result; an index counts from the axis's beginning. */
sf_value sf_step_lower(const sf_step *step, sf_value v);

/* A plain step as a fused one that does nothing to its elements. */
void sf_step_plain_fuse(const sf_step *step, sf_fuse *fuse);

/* Do the two, with these programs around them, meet the same elements of the same operands in the same order? */
bool sf_step_same_walk(const sf_step *a, const sf_step *b, const sf_fuse *fa, const sf_fuse *fb);

#endif
