/*
 * plan.h: what the planner makes of an expression: a list of passes over memory, each a step template (core/step.h) whose tensors are still
 * to come.
 *
 * A pass iterates over `shape`. Every tensor it touches is an sf_access: each of the tensor's own axes follows one axis of the pass, from a
 * start and by a step, or stands still. Flips, slices, transposes and broadcasts are all of that form, and so are their combinations, so
 * views cost nothing and need no pass. At run time strides are multiplied in.
 */
#ifndef SF_PLAN_H
#define SF_PLAN_H

#include "backend.h"
#include "core/step.h"
#include "expr/ir.h"

#include <pthread.h>

/* So many results are kept at most: a run notes on its stack what it does with each. */
#define SF_KEPT_MAX 16

/* Where intermediate results may begin. */
#define SF_SCRATCH_ALIGN 256

/* One axis of a tensor: its index is start + step * (position along axis `along` of the pass); along < 0: start. */
typedef struct sf_track {
        int64_t start, step;
        int32_t along;
        bool segment; /* the position's segment instead of the position */
} sf_track;

typedef struct sf_access {
        int32_t buffer;
        const sf_track *track; /* one for each axis of the buffer's tensor */
} sf_access;

typedef enum sf_place { SF_PLACE_INPUT, SF_PLACE_OUTPUT, SF_PLACE_SCRATCH } sf_place;

/* A tensor that passes read or write: an input, an output, or scratch, compact and in row-major order. */
typedef struct sf_buffer {
        sf_place place;
        int32_t index;   /* of the input or output */
        int32_t node;
        sf_dt dt;
        int32_t ndim;
        const int64_t *shape;
        int64_t bytes;   /* compact */
        int64_t offset;  /* in the scratch */
        int32_t kept;    /* -1, or which of the plan's kept results */
} sf_buffer;

typedef struct sf_pass {
        sf_step step;             /* all but the geometry, the device and the stream */
        int32_t ndim;
        const int64_t *shape;
        uint64_t axes;
        bool reverse, fused, masked;
        int32_t offsets;          /* 0, or one more than the input that cuts the one axis into segments */
        int32_t operands;
        sf_access operand[SF_OPERANDS_MAX]; /* operand 0 is the step's x; without operands there is none */
        sf_access mask, out;
        sf_program load, store;
        sf_program beside;        /* a recurrence's a, as the load makes its b */
        uint32_t load_reads, store_reads;
        int32_t root, core;       /* the node it computes; the scan or fold in it, or 0: elementwise */
        bool products;            /* a matmul that no rewrite could avoid */
        bool sibling;             /* done with the pass before it */
        bool follows;             /* begins a stage that follows the passes before it line by line: a chain (core/step.h) */
        int32_t made[SF_OPERANDS_MAX]; /* of a chain: 0, or one more than the number of its pass whose result operand k is */
        int32_t kept;             /* -1, or which kept result this pass makes */
        struct sf_repair *again;  /* NULL, or what computes results that are not finite again */
} sf_pass;

/* The programs of a pass, and what they read, as a step has them. */
static inline void sf_pass_programs(const sf_pass *pass, sf_fuse *fuse)
{
        fuse->load = pass->load;
        fuse->store = pass->store;
        fuse->beside = pass->beside;
        fuse->load_reads = pass->load_reads;
        fuse->store_reads = pass->store_reads;
}

/* A result that outlives a run: while the inputs it depends on have the versions it was made from, its pass need not run. */
typedef struct sf_kept {
        uint64_t inputs;    /* bit i: depends on input i */
        sf_memory memory;   /* from the first run that has versions on */
        int32_t readers;    /* runs under way that read it */
        bool being_made;    /* by a run under way */
        bool made;
        uint64_t *versions; /* of all inputs, when it was made */
} sf_kept;

/* The graph as written, beside that which is computed and rounds differently: as_written.c. All
 * arrays by node. */
typedef struct sf_written {
        int32_t *twin;    /* of a node that is computed: that as written which is the same, or 0 */
        int32_t *origin;  /* and the one that the user wrote, or 0 */
        bool *as_is;      /* its value is one of the graph as written */
        bool *cut;        /* must be a result of its own, so that it can be looked at */
        /* What the exact graph has become, should it be wanted instead. */
        int32_t nodes, events;
        int32_t *forward;
        sf_ir_event *event;
        /* Walks that mark where they have been. */
        int32_t serial, visits;
        int32_t *seen, *visited;
        struct sf_known *known;
} sf_written;

/* Why something is a pass of its own that might not have been: said of that, or of what it waits for. */
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
        bool of_lines;       /* it is the steps of an sf_repair */
        int32_t *input_buffer, *output_buffer;
        const char **output_name; /* "out", or "output 1" */
        int64_t scratch;     /* bytes for intermediate results */
        size_t step_scratch; /* bytes the backend asks for on top, compact tensors assumed */
        pthread_mutex_t lock; /* of `kept` */
};

/*
 * compile.c: one pass for `root`, around the scan or fold `core` (0: elementwise); root_track says where root's axes stand in it. Returns 0, or
 * a node that must be a result of its own before this can be tried again, or -1: not around this core.
 */
typedef struct sf_planner sf_planner;
int32_t sf_compile_pass(sf_planner *planner, int32_t root, int32_t core, const sf_track *root_track, sf_pass *pass);

/* The planner's notes on each node. */
struct sf_planner {
        sf_plan *plan;
        sf_ir *ir;
        bool *cut;          /* must be a result of its own */
        int32_t *buffer_of; /* -1: none yet */
        bool *done;         /* its buffer is written by a pass already made */
        bool copying;       /* the root is to be read, not computed */
        int32_t room_passes, room_buffers;
};

/* How many positions of the pass an operand really has: along the others it repeats. */
double sf_access_extent(const sf_plan *plan, const sf_pass *pass, const sf_access *access);

/* plan.c: do both read the same positions of the same tensors? Then neither reads what the other writes. */
bool sf_plan_same_tensors(const sf_plan *plan, const sf_pass *a, const sf_pass *b);
bool sf_plan_same_access(const sf_plan *plan, const sf_access *a, const sf_access *b);
/* Can the backend not do `pass` in the read of these `count` passes? NULL, or why. */
const char *sf_plan_apart(const sf_plan *plan, int32_t count, sf_pass *const *group, const sf_pass *pass);

/* chains.c: marks passes that follow others. And how many passes, from number `at` on, run together: in one read, or in one chain. */
void sf_plan_chains(sf_plan *plan);
int32_t sf_plan_together(const sf_plan *plan, int32_t at);

/* remarks.c: notes why; `why` must outlive the plan. */
void sf_plan_remark(sf_plan *plan, int32_t node, const char *why);
/* That it reads again what another pass reads, and why, as what follows a colon; once. */
void sf_plan_remark_again(sf_plan *plan, int32_t node, const char *why);
/* Why there is more than one pass, of passes that are all there and in order. */
void sf_plan_remarks(sf_plan *plan);

/* passes.c: all passes, in order. */
sf_status sf_plan_passes(sf_plan *plan);
/* The buffer that will hold this node, made on first asking. */
int32_t sf_plan_buffer(sf_planner *planner, int32_t node);

/* The positions of an axis that one line has: start + step * (the line's position along output axis
 * `line`), or, with line < 0, all. */
typedef struct sf_follow {
        int32_t line;
        int64_t start, step;
} sf_follow;

/* The results of a pass, computed as written: a plan whose inputs are buffers of the other, run for
 * one line at a time (core/again.h). */
typedef struct sf_repair {
        sf_plan steps;
        int32_t of;                /* the buffer whose lines these are */
        const int32_t *leaf;       /* input i is that buffer */
        int32_t line_of[SF_MAX_NDIM]; /* its axes that are longer than 1 */
        sf_follow **pass, **buffer; /* of each pass and each scratch buffer, each axis */
        struct sf_repair *next;
} sf_repair;

/*
 * as_written.c. find: the graph as written, if any rewrite has rounded differently. check: of
 * complete passes, is every result as written, or looked at? *again: after other cuts. repairs: of
 * passes in their order, what computes them again. If either says no, the plan is made of the exact
 * graph: only. forget: frees what repairs made.
 */
void sf_written_find(sf_plan *plan);
bool sf_written_check(sf_plan *plan, bool *again);
bool sf_written_repairs(sf_plan *plan);
void sf_written_only(sf_plan *plan);
void sf_written_forget(sf_plan *plan);

/*
 * run.c: the one door to the backends, for sf_scan, sf_fold and every pass of a plan: steps whose operation, types and values are set get
 * their geometry and run, one read for all of them where the backend can, or, where one follows, as a chain. `needs`, if not NULL, is set to the scratch it would take,
 * and nothing is run.
 */
sf_status sf_run_steps(sf_context *ctx, int32_t count, sf_step *steps, const sf_step_views *views, void *workspace, size_t workspace_size, size_t *needs);

/* What the passes ask of the backend beyond the plan's own scratch; the memory of a kept result goes. */
sf_status sf_plan_measure_scratch(sf_plan *plan);
void sf_plan_forget(sf_plan *plan, sf_kept *kept);

/* Where axis d of an argument stands, seen from its view or map `n`: fills argument tracks from the node's. */
const sf_track *sf_track_argument(sf_ir *ir, const sf_ir_node *n, const sf_ir_node *argument, const sf_track *track);
/* Every axis follows its namesake. */
const sf_track *sf_track_identity(sf_ir *ir, int32_t ndim);

static inline bool sf_ir_is_view(const sf_ir_node *n)
{
        return n->kind == SF_IR_FLIP || n->kind == SF_IR_PERMUTE || n->kind == SF_IR_SQUEEZE || n->kind == SF_IR_UNSQUEEZE ||
               n->kind == SF_IR_BROADCAST || n->kind == SF_IR_SLICE;
}

#endif
