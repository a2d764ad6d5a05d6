/*
 * panel.h: how the CPU walks a step and its siblings: the plan, and one piece of the walk.
 *
 * A piece is some sequences side by side, walked block by block. The load program fills a panel
 * with one block: contiguous, in a type that the kernels have. A kernel scans or folds the panel in
 * place, resuming from the block before. The store program writes the panel to memory. Siblings do
 * so in turn while the operands' block is in cache. Where a program does nothing and the types
 * agree, the kernel reads or writes memory itself. A plain step is a piece of one block without any
 * panel.
 *
 *   rows     a panel's rows are sequences
 *   packed   many short sequences, back to back: a vector holds whole ones
 *   columns  a panel's rows are positions, of neighbouring sequences
 *   narrow   as columns, but so few that they are interleaved and the kernel for rows is used
 *   map      sequences of one element: no kernel at all
 */
#ifndef SF_CPU_PANEL_H
#define SF_CPU_PANEL_H

#include "cpu/fused.h"
#include "cpu/kernels.h"

#include <stdatomic.h>

#define SF_PANEL_MEMBERS 4 /* the most steps that share one walk */
/* The size of a panel. Together with the memory of the load and the store it about fills a
 * first-level cache. */
#define SF_PANEL_BYTES (16 << 10)

typedef enum sf_panel_shape {
        SF_PANEL_MAP,
        SF_PANEL_ROWS,
        SF_PANEL_PACKED,
        SF_PANEL_COLUMNS,
        SF_PANEL_NARROW
} sf_panel_shape;

/* One of the steps that share the walk. */
typedef struct sf_panel_member {
        const sf_step *step;
        const sf_fuse *fuse;
        /* for type held, or for the type in memory, which they widen to it */
        const sf_cpu_kernels *kernels;
        /* the type that kernels compute from: of a straight step, the tensor's; else the
         * accumulator's, widened to 32 bits */
        sf_dt held;
        int64_t size; /* bytes of type held */
        sf_dt made;   /* the type that kernels write, of the same size: an index's type, or held */
        uint64_t turn; /* the kernels' turn; or, if elements are counted, the bits to test */
        int32_t counted; /* -1, or the operand whose nonzero elements are counted */
        /* the step's; for indices it says which of equal elements wins, by their numbers here */
        sf_value identity;
        sf_fused_code load, beside, store;
        char *load_constants, *beside_constants, *store_constants;
        bool reads, writes, masks; /* the kernel uses memory itself, without a panel */
        /* for elements of two parts: bytes from the first to the second, in memory or in the
         * panels */
        int64_t apart;
        bool streams; /* writes around the cache, in whole cache lines */
        /* a scan whose results go around the cache from another panel, laid out as memory is */
        bool gathers;
        bool through;  /* map: the load program writes the output itself; of segments too */
        bool wide; /* a fold that reads memory: its kernel writes lanes, not rounded to storage */
        /* a fold whose kernel reads memory, and lifts its elements; centre: the operand, or -1 */
        sf_prelude lift;
        int32_t centre;
        /* for a sum of products of operands factor[0] and factor[1]: kernels that read whole tiles
         * of both from memory; else NULL */
        const sf_cpu_products *products;
        int32_t factor[2];
        /* -1, or the member that is folded together with this one: one sums the squares of
         * factor[0] minus factor[1], the other those differences */
        int32_t pair;
        bool squares;
        /* positions by way of values (positions.c). Folds: kernels that find the extremes of what is
         * in memory, or NULL; the other member, which has those as its results, is given them */
        const sf_cpu_kernels *best;
        bool given;
        int32_t after; /* scans: -1, or the member that scans the values, which comes before this one */
        const sf_lanes *lanes; /* the instruction set's, or own */
        sf_lanes own;
        /* bytes of an entry of a counter or carry, and of a counter */
        int64_t entry_bytes, counter_bytes;
        /* offsets into a worker's scratch; other: the panel for the second parts of elements */
        size_t panel, other, gathered, mask, totals, empty, counters, carries, entries, left;
        char *sums; /* a shared axis: the totals of every line's leaves */
} sf_panel_member;

/* The plan: made once a call, read by every worker. */
typedef struct sf_panels {
        const sf_cpu_isa *isa;
        sf_panel_shape shape;
        int32_t members;
        bool straight;     /* a plain step: its kernel reads and writes memory, without a panel */
        int64_t n, block;  /* positions of a sequence; the most positions of a panel */
        int32_t nbatch, nseq, seq; /* as in the steps; seq: the sequence's innermost dimension */
        /* rows, packed, narrow: addresses go down along the sequence; panels are in memory's
         * order */
        bool reverse;
        int32_t line, col; /* the dimensions of a piece's lines and columns; -1: none */
        int64_t lines, cols; /* the most that a piece has */
        int64_t widest;    /* bytes of an element in the widest panel */
        int64_t value_bytes; /* bytes of the widest value in a counter */
        int32_t slots;
        /* a block has all positions: nothing is resumed, and the kernel gets all lines at once */
        bool whole;
        int64_t carries;   /* how many lines have a carry of their own; 1: all share one */
        int64_t levels;    /* columns: entries of a counter */
        int64_t entries;   /* the most entries of a carry */
        int64_t ahead;     /* how many bytes ahead of its reads from memory a kernel prefetches */
        bool stream;       /* results are too large to be worth caching */
        bool stream_programs; /* and so are those of programs (sf_cpu_streams_programs) */
        /* the axis is cut into segments: a piece has one line, and sf_cuts say where blocks end */
        bool cut;
        bool direct;       /* kernels use memory themselves: a block may have any segment whole */
        /* bit k: operand k has one element for each segment, and is read at every position */
        uint32_t spreads;
        /* offset in a worker's scratch: such an operand, one element for each position of the
         * block */
        size_t spread[SF_OPERANDS_MAX];
        /* a task has the segments that begin in `span` positions; how many spans a sequence has */
        int64_t span, spans, parts; /* parts: with the groups that may be empty */
        int64_t longest;       /* segments of this many positions or more are steps by themselves */
        /* how many walks like this one the whole work has: 1, except in a chain */
        int64_t boxes;

        /* Tasks: `tile` lines of a strip of columns at one position of the other dimensions. */
        int32_t nouter, outer[SF_MAX_NDIM]; /* the other dimensions */
        int64_t outers;        /* how many positions they have */
        int64_t tile, tiles;   /* lines in a task; tasks along the lines */
        int64_t strips;
        /* outer positions change fastest, because they read the same lines */
        bool outer_first;
        int64_t tasks;

        /* A shared axis: see shared.c. */
        int64_t chunk;         /* positions of a chunk; 0: the axis is not shared */
        int64_t chunks;        /* in a sequence */
        /* positions of a leaf; leaves of a sequence, of which the last may be short */
        int64_t leaf, leaves;
        /* scanned into scratch, then carries are added; else folded, then scanned */
        bool carried;

        sf_panel_member member[SF_PANEL_MEMBERS];
        sf_panel_member numbers[SF_PANEL_MEMBERS]; /* of members that are `after` another, scans of numbers alone */
        sf_fuse plain[SF_PANEL_MEMBERS]; /* the fuse of a member that is not fused */
} sf_panels;

/* What the workers of a call share. */
typedef struct sf_crew {
        const sf_panels *panels;
        char *scratch;
        size_t scratch_each;
        /* offsets in a worker's scratch: where programs run; what only a shared axis needs */
        size_t machine, room;
        _Atomic int64_t next;   /* task or chunk to be claimed */
        _Atomic uint8_t *ready; /* a shared axis: a flag for each chunk of each line */
} sf_crew;

static inline int64_t sf_smaller(int64_t a, int64_t b)
{
        return a < b ? a : b;
}
static inline int64_t sf_larger(int64_t a, int64_t b)
{
        return a > b ? a : b;
}
/* How many parts of size `each` make `count`; the last one may be smaller. */
static inline int64_t sf_parts(int64_t count, int64_t each)
{
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): each is at least 1: a step without elements is never planned */
        return count <= each ? count > 0 : (count + each - 1) / each;
}
static inline int64_t sf_power_below(int64_t v)
{
        return (int64_t)1 << sf_order_log2((uint64_t)(v < 1 ? 1 : v));
}
static inline int64_t sf_magnitude(int64_t v)
{
        return v < 0 ? -v : v;
}

/* ---------------------------------------------------------------------------------------------
 * plan.c, shape.c, direct.c and cut.c: the plan
 * ------------------------------------------------------------------------------------------- */

/* Begins a plan for a step and its siblings; none of them is taken yet. */
void sf_panels_start(sf_panels *p, const sf_cpu_isa *isa, const sf_step *first);
/* Takes a step into the plan if it can be walked with those already taken. Clears *has_kernel if
 * there is no kernel for it. */
bool sf_panels_take(sf_panels *p, const sf_step *step, bool *has_kernel);
/* Makes all other decisions of the plan. */
void sf_panels_plan(sf_panels *p, int workers);

/* Can the accumulator's type hold every value of dt? */
bool sf_survives(sf_dt dt, sf_dt acc);
/* How many workers are worth using for a call that reads and writes this many bytes. */
int sf_cpu_workers(const sf_context *ctx, int64_t bytes);
/* The length of dimension d; 1 if d is -1. */
int64_t sf_panels_length(const sf_panels *p, int32_t d);

/* Removes the lowest digit of a number, and returns it. */
static inline int64_t sf_digit(int64_t *number, int64_t base)
{
        if (base == 1) /* the usual case in small calls, where divisions count */
                return 0;
        const int64_t low = *number % base;
        *number /= base;
        return low;
}
/* Bytes of memory for each element of the walk: those read; those read and written. */
int64_t sf_panels_read(const sf_panels *p);
int64_t sf_panels_bytes(const sf_panels *p);

/* In shape.c, for plan.c. sf_shape_straight: the shape of one plain step whose kernels read and
 * write memory, or false if there is none. sf_shape_panel: the shape of all other steps. */
bool sf_shape_straight(sf_panels *p, sf_panel_member *m, const sf_step *s);
void sf_shape_panel(sf_panels *p);
void sf_shape_lanes(sf_panels *p, sf_panel_member *m);
bool sf_shape_crossed(const sf_panels *p);
/* Is there an operand that is constant along one dimension and varies along the other? */
bool sf_shape_shares(const sf_panels *p, int32_t still, int32_t moving);
/* In direct.c, for plan.c: which memory a member's kernels use themselves; whether it is a fold of
 * products; whether two members are folds of differences and of their squares. */
void sf_direct_choose(sf_panels *p, sf_panel_member *m);
void sf_direct_products(sf_panels *p, sf_panel_member *m);
void sf_direct_pair(sf_panels *p, sf_panel_member *m, sf_panel_member *other);
/* In cut.c, for plan.c: first sizes, and whether an axis is shared; then tasks. */
void sf_cut_sizes(sf_panels *p, int workers);
void sf_cut_tasks(sf_panels *p, int workers);

/* ---------------------------------------------------------------------------------------------
 * cpu.c: pieces and walkers; panel.c: one piece
 * ------------------------------------------------------------------------------------------- */

/* The parts of segments that are in one block. All parts but the first begin in it, and all but the
 * last end in it. */
typedef struct sf_cuts {
        int64_t parts;
        /* where each part begins in the block, then where the last one ends; there is room for
         * SF_CPU_RAGGED_ROOM more */
        const int32_t *bound;
        int64_t start;        /* positions of the first part's segment in earlier blocks */
        int64_t length;       /* of the last part's whole segment */
        int64_t most;         /* of the longest segment */
        int64_t first;        /* the number of the first part's segment */
        bool ends;            /* the last part's segment ends in this block */
} sf_cuts;

/* Some lines and columns. Pointers are to position 0 of the sequence; of a shared one, to the first
 * position of the first leaf. */
typedef struct sf_piece {
        int64_t lines, cols;
        int64_t from, n; /* positions; from is 0, unless leaves are not a stride apart */
        /* the sequence's position that the first line's pointers are at, and how much further on
         * the next line's are */
        int64_t base, base_line;
        const sf_cuts *cuts; /* of the current block; NULL: no segments */
        bool chunk;      /* lines are leaves of a shared axis; else whole sequences */
        bool totals;     /* only the totals of the leaves are wanted */
        /* only for members that fold; or, without `totals`, only for those that scan */
        bool some;
        int64_t carry;   /* the index of the first line's carry */
        int64_t ahead;   /* how many bytes ahead kernels prefetch */
        struct sf_piece_in {
                const char *at;
                int64_t line; /* bytes from line to line */
        } in[SF_OPERANDS_MAX];
        struct sf_piece_of {
                /* sums: where the totals of this piece's leaves go, one after another */
                char *y, *sums;
                int64_t y_line;
                const uint8_t *m;
                int64_t m_line;
                const char *left; /* the values to the left of the first line, if there are any */
                int64_t left_line;
        } of[SF_PANEL_MEMBERS];
} sf_piece;

/* Does each line of a step have values to its left, or get a value as its result? Then lines are
 * not packed, and each has its own carry. Such a step has no siblings. */
static inline bool sf_panels_apart(const sf_panels *p)
{
        return p->member[0].step->lefts || p->member[0].step->values;
}

/* Some positions of one member, from line `line` of a piece on. */
typedef struct sf_block {
        const sf_panel_member *m;
        const sf_piece *piece;
        const struct sf_piece_of *of;
        int64_t line, first, count;
        int64_t panel;         /* positions that are before it in the panel */
        /* its first position in its sequence, and the sequence's length; of segments, of its
         * segment */
        int64_t start, length;
        int64_t segment; /* 1 + the entry of the only segment in it; 0: operands that have one element for
                          * each segment are repeated in scratch */
} sf_block;

/* How many bytes the tensors of a walk are from where the plan has them: a chain's plans are made
 * for its first lines. */
typedef struct sf_shift {
        int64_t in[SF_OPERANDS_MAX];
        /* programs prefetch memory that is used soon, this many bytes from the elements of operand
         * `near`; 0: nothing */
        int64_t ahead;
        int32_t near;
        bool all; /* as far from the elements of other operands too: those are a box's, and the next's */
        struct {
                int64_t y, m;
        } of[SF_PANEL_MEMBERS];
} sf_shift;

/* What one worker needs for a walk. */
typedef struct sf_walker {
        const sf_panels *p;
        char *scratch;
        sf_fused_machine *machine; /* initialised unless the step is straight */
        const sf_shift *shift;     /* NULL: no shift */
} sf_walker;

sf_walker sf_crew_walker(const sf_crew *c, int worker, sf_fused_machine *machine);
/* Runs one task of a plan without a shared axis. */
void sf_task_run(const sf_walker *w, int64_t task);
/* Lays out the memory that the workers share, the programs' constants. Fills it if there is a base.
 * Returns its size. */
size_t sf_panels_constants(sf_panels *p, char *base);
/* The same for walks that one worker does in turn. Raises *panels and *machines to the most bytes
 * that any of them needs. */
size_t sf_panels_room(sf_panels *const *walk, int32_t walks, char *base, size_t *panels, size_t *machines);
/* The scratch of a job's workers: a desk for each, `each` bytes apart. */
typedef struct sf_desks {
        char *first;
        size_t each;
} sf_desks;
/* Bytes from one desk to the next, if a worker needs this many. Workers write their desks all the
 * time, so no two of them share a cache line, and they are not a power of two apart. */
static inline size_t sf_desk_bytes(size_t needed)
{
        return (needed + 4095) / 4096 * 4096 + 4096 + 64;
}
/* Runs a job on several workers. lay_out returns how many bytes the workers share, fills them if
 * there is a base, and sets the size of a desk. `before` is NULL, or what the caller does itself
 * when all memory has been allocated, because what has been written cannot be undone. */
sf_status sf_desks_run(sf_context *ctx, int workers, sf_desks *desks, size_t (*lay_out)(void *job, char *base), sf_status (*before)(sf_context *ctx, void *job),
                       void (*todo)(void *job, int worker), void *job);
/* Finds the piece at position `outer` of the outer dimensions, line `line` and column `col`. Of a
 * shared axis, the leaves from `leaf` on; otherwise leaf is -1. */
void sf_piece_at(const sf_panels *p, int64_t outer, int64_t line, int64_t col, int64_t leaf,
                 sf_piece *piece);

/* Lays out a worker's scratch; returns its size. */
size_t sf_panel_scratch(sf_panels *p);
/* Walks a whole piece; not for a shared axis. */
void sf_panel_run(const sf_walker *w, const sf_piece *piece);
/* Walks positions `first` to `end` of a piece whose carries have been made. */
void sf_panel_walk(const sf_walker *w, const sf_piece *piece, int64_t first, int64_t end);
/* Makes the carries of a piece's sequences; call it before any of them is walked. */
void sf_panel_begin(const sf_walker *w, const sf_piece *piece);
/* For segments: load a block into the panel, store the panel to memory, and write the numbers of
 * its elements beside them. */
void sf_panel_load(const sf_walker *w, const sf_block *b);
void sf_panel_store(const sf_walker *w, const sf_block *b);
void sf_panel_number(const sf_walker *w, const sf_block *b);
sf_block sf_panel_block(const sf_panels *p, const sf_piece *piece, int32_t i, int64_t first,
                        int64_t count);
/* Stores lines x cols totals of a fold, of type held; each line's totals are contiguous. */
void sf_panel_store_totals(const sf_walker *w, const sf_block *b, const char *totals);
/* Makes a kernel's arguments for a block: for this many lines, or for the columns of one line. */
sf_rows sf_panel_rows(const sf_walker *w, const sf_block *b, int64_t rows);
sf_columns sf_panel_columns(const sf_walker *w, const sf_block *b);

/* panel_memory.c */

static inline bool sf_panel_in_columns(const sf_panels *p)
{
        return p->shape == SF_PANEL_COLUMNS;
}
/* Is it a fold whose kernel needs no panel? */
static inline bool sf_panel_direct(const sf_panel_member *m)
{
        return m->step->fold && m->reads && (m->masks || !m->step->m);
}
/* Is only the total wanted? */
static inline bool sf_panel_folds(const sf_block *b)
{
        return b->m->step->fold || b->piece->totals;
}
/* Elements from one row of the panel to the next. In columns a row is a position, else a line. */
int64_t sf_panel_pitch(const sf_panels *p, const sf_piece *piece);
/* Where a line's block begins in the panel, in elements. */
int64_t sf_panel_line_at(const sf_panels *p, const sf_block *b);
/* The numbers of a block's elements: their positions, counted from the beginning of the axis. */
sf_numbers sf_panel_numbers(const sf_panels *p, const sf_block *b);
/* Loads and stores sequences of one element. */
void sf_panel_map(const sf_walker *w, const sf_block *b);

/* The carry of line r of a piece. */
sf_carry *sf_panel_carry(const sf_panel_member *m, char *scratch, int64_t r);
/* The value that an exclusive scan puts before the very first element. */
void sf_panel_first_fill(const sf_panels *p, const sf_panel_member *m, char *fill);
/* Converts value `entry` to the left of a line to an entry of a carry. */
void sf_panel_left(const sf_panels *p, const sf_piece *piece, int32_t member, int64_t line, int32_t entry, char *to);
/* Stores the totals of a line, as values, where the step's results go. */
void sf_panel_put_values(const sf_panels *p, const sf_piece *piece, int32_t member, int64_t line, const char *totals);
/* Values in the total of a line, in whole vectors: all columns of a strip, or one value in every
 * lane of a vector. And their bytes. */
int64_t sf_panel_values(const sf_panels *p, const sf_panel_member *m);
int64_t sf_panel_total_bytes(const sf_panels *p, const sf_panel_member *m);

/* ---------------------------------------------------------------------------------------------
 * positions.c: positions by way of values
 * ------------------------------------------------------------------------------------------- */
/* Chooses members for that, of a plan whose other decisions are made. */
void sf_positions_plan(sf_panels *p);
/* Folds a block of rows: all positions. */
void sf_positions_fold(const sf_walker *w, const sf_block *b);
/* Loads a block of a scan: the numbers of elements that may be results. Returns the scan of them. */
sf_block sf_positions_number(const sf_walker *w, const sf_block *b);

/* ---------------------------------------------------------------------------------------------
 * chain.c: stages over the same lines, some lines at a time
 * ------------------------------------------------------------------------------------------- */
sf_status sf_cpu_chain(sf_context *ctx, const sf_step *first);

/* ---------------------------------------------------------------------------------------------
 * segments.c: an axis cut into segments, shared by elements
 * ------------------------------------------------------------------------------------------- */
/* The most parts of segments in a block. */
#define SF_PANEL_CUTS SF_FUSED_BLOCK
/* Bytes that may be written behind what is repeated for a block's segments. */
#define SF_PANEL_PAST 64
_Static_assert(SF_PANEL_CUTS <= SF_CPU_RAGGED_CUTS, "one call for a block's segments");
static inline int64_t sf_panels_cuts(const sf_panels *p)
{
        return sf_smaller(p->block, SF_PANEL_CUTS);
}

/* How far a task has come. */
typedef struct sf_cursor {
        const sf_step *step;
        int64_t low, high;        /* the segments whose begin is read from an offset */
        const char *at;           /* the offset of segment k is at + k * stride */
        int64_t stride, base, sign; /* it begins at base + sign * offset */
        int64_t k, end;           /* the current segment, and the first one of the next task */
        int64_t begin, next;      /* where the current segment begins and ends */
        int64_t done;             /* positions of it that are done */
} sf_cursor;

/* In segments_blocks.c, for segments.c: a cursor before any segment; where segment k begins; the next
 * segment. sf_cursor_fill: what the next block has; returns how many positions. */
sf_cursor sf_cursor_of(const sf_step *step);
int64_t sf_cursor_begin(const sf_cursor *c, int64_t k);
void sf_cursor_go_on(sf_cursor *c);
int64_t sf_cursor_fill(sf_cursor *c, const sf_panels *p, int64_t tile, int32_t *bound, sf_cuts *cuts);

/* Chooses the tasks of a plan whose sizes are known. */
void sf_segments_plan(sf_panels *p, int workers);
void sf_segments_task(const sf_walker *w, int64_t task);
/* Sets the span, the positions of a task. It has at least SF_SEGMENTS_LEAST_BLOCKS blocks. */
#define SF_SEGMENTS_LEAST_BLOCKS 4
void sf_segments_span(sf_panels *p, int64_t span);
/* Runs the segments that are in no task: long ones, and those of an axis without elements. */
sf_status sf_segments_long(sf_context *ctx, const sf_panels *p);

/* segments_chain.c: stages over the same segments, a span at a time */
sf_status sf_segments_chain(sf_context *ctx, const sf_step *first);

/* ---------------------------------------------------------------------------------------------
 * shared.c: one long axis shared by all threads; carried.c: the way that scans it once
 * ------------------------------------------------------------------------------------------- */

/* Chooses chunk and leaf. Leaves chunk 0 if the axis is too short to be shared. */
void sf_shared_plan(sf_panels *p, int workers);
/* Bytes of the members' sums and of the flags; and their layout in memory from `base` on. */
size_t sf_shared_bytes(const sf_panels *p);
void sf_shared_start(sf_crew *c, sf_panels *p, char *base);
/* Scratch that a worker needs if the plan is carried. */
size_t sf_carried_bytes(const sf_panels *p);
void sf_shared_work(void *crew, int worker);
/* After all workers have ended: stores the results of folds. */
void sf_shared_finish(sf_crew *c);

#endif
