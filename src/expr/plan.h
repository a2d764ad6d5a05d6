/*
 * plan.h: the planner makes a list of passes over memory from an expression. Each is a step
 * (core/step.h) without its tensors, which are given when it runs.
 *
 * A pass iterates over `shape`. Every tensor that it reads or writes is an sf_access: each axis of
 * the tensor follows one axis of the pass, from a start and with a step, or has a fixed index.
 * Flips, slices, transposes, broadcasts and their combinations all have this form, so views need no
 * pass of their own. At run time the strides are multiplied in.
 */
#ifndef SF_PLAN_H
#define SF_PLAN_H

#include "backend.h"
#include "core/step.h"
#include "expr/ir.h"

#include <pthread.h>

/* The most results that a plan keeps: a run has an entry for each on its stack. */
#define SF_KEPT_MAX 16

/* The alignment of intermediate results. */
#define SF_SCRATCH_ALIGN 256

/* One axis of a tensor: its index is start + step * (position along axis `along` of the pass); along < 0: start. */
typedef struct sf_track {
        int64_t start, step;
        int32_t along;
        bool segment; /* the index is that of the position's segment, not the position */
} sf_track;

typedef struct sf_access {
        int32_t buffer;
        const sf_track *track; /* one for each axis of the buffer's tensor */
} sf_access;

typedef enum sf_place { SF_PLACE_INPUT, SF_PLACE_OUTPUT, SF_PLACE_SCRATCH } sf_place;

/* A tensor that passes read or write: an input, an output, or scratch, compact and in row-major order. */
typedef struct sf_buffer {
        sf_place place;
        int32_t index;   /* number of the input or output */
        int32_t node;
        sf_dt dt;
        int32_t ndim;
        const int64_t *shape;
        int64_t bytes;   /* of the compact tensor */
        int64_t offset;  /* in the scratch memory */
        int32_t kept;    /* -1, or its number among the plan's kept results */
} sf_buffer;

typedef struct sf_pass {
        sf_step step;             /* all but the geometry, the device and the stream */
        int32_t ndim;
        const int64_t *shape;
        uint64_t axes;
        bool reverse, fused, masked;
        /* 0, or one more than the number of the input that cuts the one axis into segments */
        int32_t offsets;
        int32_t operands;
        sf_access operand[SF_OPERANDS_MAX]; /* operand 0 is the step's x; there may be none */
        sf_access mask, out;
        sf_program load, store;
        sf_program beside;        /* makes a of a recurrence, as the load makes b */
        uint32_t load_reads, store_reads;
        /* the node that it computes; the scan or fold in it, or 0: elementwise */
        int32_t root, core;
        bool products;            /* a matmul that no rewrite could remove */
        bool sibling;             /* computed in the same read as the pass before it */
        /* begins a stage that follows the passes before it line by line, in a chain
         * (core/step.h) */
        bool follows;
        /* the first of the folds across the lines of the chain before it (sf_step.across) */
        bool across;
        /* of a chain: 0, or one more than the number of its pass whose result operand k is */
        int32_t made[SF_OPERANDS_MAX];
        int32_t kept;             /* -1, or the number of the kept result that this pass makes */
        /* NULL, or the plan that computes results again that are not finite */
        struct sf_repair *again;
} sf_pass;

/* Does it run together with the pass before it? */
static inline bool sf_pass_joins(const sf_pass *pass)
{
        return pass->sibling || pass->follows || pass->across;
}

/* Copies the programs of a pass, and which operands they read, to a step's sf_fuse. */
static inline void sf_pass_programs(const sf_pass *pass, sf_fuse *fuse)
{
        fuse->load = pass->load;
        fuse->store = pass->store;
        fuse->beside = pass->beside;
        fuse->load_reads = pass->load_reads;
        fuse->store_reads = pass->store_reads;
}

/* A result that outlives a run: its pass need not run again while the inputs that it depends on
 * have the versions from which it was made. */
typedef struct sf_kept {
        uint64_t inputs;    /* bit i: depends on input i */
        sf_memory memory;   /* allocated by the first run that has versions */
        int32_t readers;    /* runs in progress that read it */
        bool being_made;    /* by a run in progress */
        bool made;
        uint64_t *versions; /* of all inputs, when it was made */
} sf_kept;

/* The graph as written, if the computed one rounds differently (as_written.c). All arrays are by
 * node. */
typedef struct sf_written {
        int32_t *twin;    /* of a computed node: the node as written with the same meaning, or 0 */
        int32_t *origin;  /* of a computed node: the node that the user wrote, or 0 */
        bool *as_is;      /* its value also occurs in the graph as written */
        bool *cut;        /* must be a result of its own, so that it can be checked */
        /* The exactly rewritten graph, in case it is used instead. */
        int32_t nodes, events;
        int32_t *forward;
        sf_ir_event *event;
        /* Marks of visited nodes. */
        int32_t serial, visits;
        int32_t *seen, *visited;
        struct sf_known *known;
} sf_written;

/* Why something is a pass of its own that could be expected not to be. `node` is that pass, or what
 * it waits for. */
typedef struct sf_remark {
        int32_t node;
        const char *why;
} sf_remark;

struct sf_plan {
        sf_context *ctx;
        sf_device device;
        sf_ir ir;
        int32_t inputs, outputs;
        int32_t buffers, passes, kepts, remarks, room_remarks;
        sf_buffer *buffer;
        sf_pass **pass;
        sf_kept *kept;
        sf_remark *remark;
        sf_written *written; /* NULL: no rewrite has rounded differently */
        struct sf_repair *repairs;
        bool of_lines;       /* it is the plan inside an sf_repair */
        int32_t *input_buffer, *output_buffer;
        const char **output_name; /* "out", or "output 1" */
        int64_t scratch;     /* bytes for intermediate results */
        size_t step_scratch; /* additional bytes that the backend needs, for compact tensors */
        pthread_mutex_t lock; /* protects `kept` */
};

/*
 * compile.c: makes one pass for `root`, around the scan or fold `core` (0: elementwise). root_track
 * says where root's axes are in the pass. Returns 0; or a node that must become a result of its own
 * before this is tried again; or -1 if it cannot be done around this core.
 */
typedef struct sf_planner sf_planner;
int32_t sf_compile_pass(sf_planner *planner, int32_t root, int32_t core, const sf_track *root_track, sf_pass *pass);

/* What the planner knows about each node. */
struct sf_planner {
        sf_plan *plan;
        sf_ir *ir;
        bool *cut;          /* must be a result of its own */
        int32_t *buffer_of; /* -1: none yet */
        bool *done;         /* a pass that writes its buffer has been made */
        bool copying;       /* the root is read, not computed */
        int32_t room_passes, room_buffers;
};

/* At how many positions of the pass an operand has elements of its own: along the other axes it
 * repeats. */
double sf_access_extent(const sf_plan *plan, const sf_pass *pass, const sf_access *access);

/* Is the operand shifted, so that it has no element at the last position of the pass's sequence? */
bool sf_access_lacks_last(const sf_plan *plan, const sf_pass *pass, const sf_access *access);

/* doubles.c: if `root` is elementwise work on the result of a scan whose pass exists, and the
 * backend computes both in one scan, makes it a sibling of that pass that writes to `buffer`. */
bool sf_plan_doubles(sf_planner *planner, int32_t root, int32_t buffer);
/* Gives pass a the operands of b, which reads all that a reads and more: siblings have the same.
 * False: b does not. */
bool sf_plan_take_operands(const sf_plan *plan, sf_pass *a, const sf_pass *b);
/* passes.c: appends a pass. */
void sf_plan_push(sf_planner *planner, sf_pass *pass);

/* plan.c: do both read the same positions of the same tensors? If so, neither reads what the other
 * writes. */
bool sf_plan_same_tensors(const sf_plan *plan, const sf_pass *a, const sf_pass *b);
bool sf_plan_same_access(const sf_plan *plan, const sf_access *a, const sf_access *b);
/* NULL, or why the backend cannot compute `pass` in the same read as these `count` passes. */
const char *sf_plan_apart(const sf_plan *plan, int32_t count, sf_pass *const *group, const sf_pass *pass);

/* chains.c: marks passes that follow others. And: how many passes, from number `at` on, run
 * together, in one read or in one chain. */
void sf_plan_chains(sf_plan *plan);
int32_t sf_plan_together(const sf_plan *plan, int32_t at);

/* remarks.c: adds a remark; `why` must outlive the plan. */
void sf_plan_remark(sf_plan *plan, int32_t node, const char *why);
/* Adds the remark that it reads again what another pass reads, and why, to be printed after a
 * colon; at most once for each node. */
void sf_plan_remark_again(sf_plan *plan, int32_t node, const char *why);
/* Adds remarks on why there is more than one pass. All passes must exist, in their final order. */
void sf_plan_remarks(sf_plan *plan);

/* passes.c: all passes, in order. */
sf_status sf_plan_passes(sf_plan *plan);
/* The buffer for this node; the first call makes it. */
int32_t sf_plan_buffer(sf_planner *planner, int32_t node);

/* The positions of an axis that one line uses: start + step * (the line's position along output
 * axis `line`), or all of them if line < 0. */
typedef struct sf_follow {
        int32_t line;
        int64_t start, step;
} sf_follow;

/* Computes results of a pass again, as written: a plan whose inputs are buffers of the first plan,
 * and which is run for one line at a time (core/again.h). */
typedef struct sf_repair {
        sf_plan steps;
        int32_t of;                /* the buffer with the results */
        const int32_t *leaf;       /* by input: a buffer of the first plan */
        int32_t line_of[SF_MAX_NDIM]; /* its axes that are longer than 1 */
        sf_follow **pass, **buffer; /* for each axis of each pass and of each scratch buffer */
        struct sf_repair *next;
} sf_repair;

/*
 * as_written.c. find: makes the graph as written, if a rewrite rounds differently. check: is every
 * result of the passes either as written or checked? *again: no, but the passes should be made
 * anew, with additional cuts. repairs: makes the plans that compute results again; the passes are
 * in their order. If check or repairs fails, `only` makes the plan from the exact graph. forget:
 * frees what repairs has made.
 */
void sf_written_find(sf_plan *plan);
bool sf_written_check(sf_plan *plan, bool *again);
bool sf_written_repairs(sf_plan *plan);
void sf_written_only(sf_plan *plan);
void sf_written_forget(sf_plan *plan);

/*
 * run.c: sf_scan, sf_fold and every pass of a plan run through this function. The operation, types
 * and values of the steps are set; this sets their geometry and runs them, all in one read if the
 * backend can, or as a chain if one follows another. If `needs` is not NULL, nothing is run, and
 * *needs is the scratch that it would take.
 */
sf_status sf_run_steps(sf_context *ctx, int32_t count, sf_step *steps, const sf_step_views *views, void *workspace, size_t workspace_size, size_t *needs);

/* measure_scratch: finds how much scratch the backend needs besides the plan's own. forget: frees
 * the memory of a kept result. */
sf_status sf_plan_measure_scratch(sf_plan *plan);
void sf_plan_forget(sf_plan *plan, sf_kept *kept);

/* The tracks of an argument, from those of the view or map `n` that it is an argument of. */
const sf_track *sf_track_argument(sf_ir *ir, const sf_ir_node *n, const sf_ir_node *argument, const sf_track *track);
/* Tracks in which axis d follows axis d. */
const sf_track *sf_track_identity(sf_ir *ir, int32_t ndim);

static inline bool sf_ir_is_view(const sf_ir_node *n)
{
        return n->kind == SF_IR_FLIP || n->kind == SF_IR_PERMUTE || n->kind == SF_IR_SQUEEZE || n->kind == SF_IR_UNSQUEEZE ||
               n->kind == SF_IR_BROADCAST || n->kind == SF_IR_SLICE;
}

#endif
