/*
 * step.h: a step is what a backend runs: loads, an operation, stores. It has no graph and no
 * options.
 *
 * A step visits `batch` independent sequences of n elements. Reverse has been resolved: the
 * pointers are at the sequence's first element, and the strides have the direction, so a backend
 * that counts up visits elements in the right order. Dimensions of length 1 have been removed, and
 * neighbours that can be merged have been merged.
 *
 *     for each position of dims[0 .. nbatch):                    independent: any order, any thread
 *         for each position i of dims[nbatch .. nbatch + nseq):  outermost first: the sequence
 *             a[i] = m && !m[i] ? identity : x[i]
 *         scan:  y[i] = s[i]      fold:  y = s[n-1]              s as scanfold.h defines it
 *
 * program.h says what changes where the step is fused with elementwise work.
 *
 * A chain is several stages over the same lines: folds whose results are used with the elements
 * that they came from, as in a softmax or a norm. A stage is a step and its siblings. `then`, in
 * the first step of a stage, is the first step of the next stage.
 *
 *     for each position of dims[0 .. nbatch):                    independent, as ever; the same dims in all steps
 *         for each stage, in order:  for each of its steps:
 *             fold, scan:  as above                              over the line's elements
 *             map:         y[i] = load(operands at i)            at every position of the line: no operation
 *
 * What a later stage reads from an earlier one is the result, for the same line, of a fold or of a
 * map of one element. The operand says which step made it (sf_operand.made), and its stride along
 * the sequence is 0, so a backend may pass the value on without reading it from memory. Everything
 * else that a stage reads is in memory before the chain begins. All steps have the same batch
 * dimensions, of the same lengths and in the same order. Their sequences have the same dimensions
 * too, except for steps of n = 1 beside longer ones: those are maps that read only results. If the
 * stages are run one after another, each over all lines, the bits are the same (sf_chain_apart).
 *
 * A sequence may be cut into segments (segments.h). Then all of the above holds for each segment by
 * itself: positions count from its beginning, the initial value comes before each segment, and a
 * fold has a result for each, with dims[nbatch].y bytes between them. Such a step has one dimension
 * along its sequence.
 *
 * A sequence may be a block of a longer one, whose other blocks are elsewhere (src/ranks). Then
 * `before` and `after` are the numbers of positions before and after it. A scan gets the totals of
 * blocks to its left, separate ones for each sequence. They are combined on the left of every
 * result in turn, the lowest first, before the initial value. A fold may have to return values
 * (sf_value) instead of results. On a CUDA device they are others, or several (cuda/held.h).
 */
#ifndef SF_STEP_H
#define SF_STEP_H

#include "core/program.h"
#include "core/segments.h"

typedef struct sf_dim {
        int64_t len;
        /* Strides in bytes. Along a fold's sequence y is 0, or with segments the bytes from one
         * result to the next. Without a mask m is 0. */
        int64_t x, y, m;
        int64_t left;    /* of the values to the left; 0 along the sequence, or if there are none */
} sf_dim;

typedef struct sf_step {
        bool fold;
        bool exclusive; /* scans only */
        bool in_place;  /* y is x, element for element */
        bool has_initial;
        /* In a chain, neither scan nor fold: y[i] is the load's value at i, rounded to acc and
         * then to out. There is no mask, initial value or store; op and identity are ignored,
         * and nseq may be any. */
        bool map;
        /* in a chain: only its later stages read y, which is scratch: it need not be written */
        bool within;
        /* the sequence is reversed: positions count from the axis's end, but indices in results
         * from its beginning */
        bool reverse;
        sf_op op;
        sf_dt in, acc, out; /* acc is f32, f64 or an integer type, never f16, bf16 or bool */
        sf_value identity, initial;
        sf_device device;
        void *stream;

        const char *x;
        char *y;
        const uint8_t *m; /* NULL: no mask */

        int64_t n;     /* length of a sequence; 0 only for a fold */
        int64_t batch; /* how many sequences, >= 1 */
        int32_t nbatch, nseq; /* nseq is 1 for a scan, also in a chain */
        sf_dim dims[SF_MAX_NDIM + 1];

        /* how the sequence is cut, if it is; then before and after are 0, and left is NULL */
        sf_segments segments;

        /* of a fold: y gets sf_values that are not lowered to results, without the initial value */
        bool values;
        int64_t before, after; /* positions of the axis before and after the sequence */
        /* NULL, or, of a scan, `lefts` sf_values for each sequence, `left_entry` bytes apart */
        const char *left;
        int32_t lefts;
        int64_t left_entry;

        const sf_fuse *fuse; /* NULL: plain; otherwise the elementwise work on loads and stores */
        /* NULL, or another step over the same operands and dims, which the backend computes in
         * the same read where it can. Neither step depends on the other's results, and neither
         * is in place. A sibling may have a sibling in turn. */
        const struct sf_step *sibling;
        /* NULL, or the first step of the stage that follows this one and its siblings, line by
         * line, in a chain. Only set in the first step of a stage. */
        const struct sf_step *then;
        /* NULL, or, in the first step of a chain, a fold across its lines, with siblings, which runs
         * after the chain: its sequences are what all lines have at one position. It may read what
         * the chain's folds have stored, and reads again what the chain has read. */
        const struct sf_step *across;
} sf_step;

/* The most steps that share one read: more would need too many registers. And the most steps of a
 * chain, siblings included. */
#define SF_SIBLINGS_MAX 4
#define SF_CHAIN_STEPS 8

/* The views that a step's geometry is made from. */
typedef struct sf_step_views {
        const sf_view *x, *y;
        const sf_view *m;     /* NULL: no mask; otherwise broadcast to x's shape */
        uint64_t axes;        /* bit d: axis d of x belongs to the sequence */
        /* NULL: no segments. Otherwise the sequence is one axis, and a fold's y has that axis
         * too, with one result per segment. */
        const sf_view *offsets;
        uint32_t spread;      /* bit k: operand k has one element per segment along that axis */
        bool keepdim, reverse;
        /* A block of a longer sequence, as in the step. If `values` is set, y is an array of
         * sf_value, whatever its dtype says. left has the shape of x. */
        bool values;
        int64_t before, after;
        const sf_view *left;
        int32_t lefts;
        int64_t left_entry;
        /* Fused steps. Operand 0 is x; all have been broadcast to one shape. */
        int32_t operands;
        const sf_view *operand[SF_OPERANDS_MAX];
        const int32_t *made; /* of a chain: the values for sf_operand.made. NULL: all 0 */
        uint32_t lacking;    /* bit k: operand k lacks its last element (sf_operand.lacks_last) */
        sf_fuse *fuse; /* its operands are set too: data, dtype, strides, made. NULL: plain */
        /* of a chain: this step begins a stage; else it is a sibling of the step before it */
        bool follows;
        bool across; /* of a chain: the first of the folds across its lines, which come last */
} sf_step_views;

/* Sets the geometry: x, y, m, n, batch, dims, and the operands of views->fuse, which becomes the
 * step's. The views have been checked, and there is at least one result. */
void sf_step_geometry(sf_step *step, const sf_step_views *views);
/* The same for all steps of a chain together, and sets `sibling` and `then`. Their views have one
 * shape, or length 1 along the axes. */
void sf_chain_geometry(int32_t count, sf_step *steps, const sf_step_views *views);

/* Makes a map an elementwise step of its own: one over sequences of one element. `fuse` becomes its
 * programs, and must not be the map's. */
void sf_step_flatten(const sf_step *map, sf_step *step, sf_fuse *fuse);

/* Calls `run` for each stage, until one fails. Each is passed as a step with siblings that is not
 * part of a chain; maps are flattened. */
typedef sf_status sf_run_stage(void *with, const sf_step *step);
sf_status sf_chain_apart(const sf_step *first, sf_run_stage *run, void *with);

/* Lowers a value to a number of type sf_op_result. An index counts from the axis's beginning. */
sf_value sf_step_lower(const sf_step *step, sf_value v);

/* Makes the programs and operands of a fused step that does the same as this plain one. */
void sf_step_plain_fuse(const sf_step *step, sf_fuse *fuse);

/* Do the two steps, with these programs, read the same elements of the same operands in the same
 * order? */
bool sf_step_same_walk(const sf_step *a, const sf_step *b, const sf_fuse *fa, const sf_fuse *fb);

#endif
