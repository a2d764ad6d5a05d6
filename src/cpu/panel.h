/*
 * panel.h: how the CPU walks a step and its siblings: the plan, and one piece of the walk.
 *
 * A piece is some sequences side by side, walked block by block: the load program fills a panel
 * with a block of them, contiguous, in a type that the kernels have; a kernel scans or folds the
 * panel in place, resuming from the block before; the store program empties it into memory.
 * Siblings do so in turn while the operands' block is in cache. Where a program does nothing and
 * the types agree, the kernel reads or writes memory itself. A plain step is a piece of one block
 * without any panel.
 *
 *   rows     a panel's rows are sequences
 *   packed   many short sequences, back to back, whole ones to a vector
 *   columns  a panel's rows are positions, of neighbouring sequences
 *   narrow   as columns, but so few that the kernel for rows takes them interleaved
 *   map      sequences of one element: no kernel at all
 */
#ifndef SF_CPU_PANEL_H
#define SF_CPU_PANEL_H

#include "cpu/fused.h"
#include "cpu/kernels.h"

#include <stdatomic.h>

#define SF_PANEL_MEMBERS 4 /* steps that share one walk, at most */
/* A panel: with what the load and the store touch, about a first-level cache. */
#define SF_PANEL_BYTES (16 << 10)

typedef enum sf_panel_shape {
        SF_PANEL_MAP,
        SF_PANEL_ROWS,
        SF_PANEL_PACKED,
        SF_PANEL_COLUMNS,
        SF_PANEL_NARROW
} sf_panel_shape;

/* One of the steps. */
typedef struct sf_panel_member {
        const sf_step *step;
        const sf_fuse *fuse;
        const sf_cpu_kernels *kernels; /* of what is held, or of what is read and widened to it */
        sf_dt held;   /* the type of what kernels read: in a panel the accumulator's, widened to 32
                         bits; straight from memory what is there */
        int64_t size; /* its bytes */
        sf_dt made;   /* the type of what kernels write, as wide: an index's, or held */
        uint64_t turn; /* the kernels', or which bits of elements are asked for by those that count */
        int32_t counted; /* -1, or the operand of which what is not zero is counted */
        sf_value identity; /* the step's; of indices it says which of equal elements wins as they are numbered here */
        sf_fused_code load, beside, store;
        char *load_constants, *beside_constants, *store_constants;
        bool reads, writes, masks; /* straight from and to memory, without a panel */
        int64_t apart; /* where elements come in twos: bytes from one to the other, in memory or in the panels */
        bool streams; /* writes around the cache: no line would be left half written */
        bool gathers; /* a scan whose results go there from another panel, laid out as memory is */
        bool through;  /* map: the load goes straight to the output */
        const sf_cpu_products *products; /* a sum of products of operands factor[0] and [1], whole
                          tiles of it straight from memory; or NULL */
        int32_t factor[2];
        int32_t pair; /* -1, or the member with which these products are folded: one is the squares
                         of factor[0] less factor[1], the other those distances */
        bool squares;
        const sf_lanes *lanes; /* the isa's, or own */
        sf_lanes own;
        int64_t entry_bytes, counter_bytes; /* of a counter's or carry's entry, and of a counter */
        size_t panel, other, gathered, mask, totals, empty, counters, carries, entries, left; /* offsets
                          into a worker's scratch. other: a panel for what stands beside elements */
        char *sums; /* a shared axis: the totals of every line's leaves */
} sf_panel_member;

/* The plan: made once a call, read by every worker. */
typedef struct sf_panels {
        const sf_cpu_isa *isa;
        sf_panel_shape shape;
        int32_t members;
        bool straight;     /* a plain step: its kernel reads and writes memory, with no panel */
        int64_t n, block;  /* positions of a sequence, and of a panel at most */
        int32_t nbatch, nseq, seq; /* as in the steps; the sequence's innermost dimension */
        bool reverse;      /* rows, packed, narrow: addresses go down along the sequence, and panels
                              are filled as memory is */
        int32_t line, col; /* the dimensions of a piece's lines and columns; -1: none */
        int64_t lines, cols; /* at most, in a piece */
        int64_t widest;    /* bytes of the widest panel's elements */
        int64_t value_bytes; /* of the widest value in a counter */
        int32_t slots;
        bool whole;        /* a block has all positions: nothing is resumed, and all its lines go to
                              the kernel at once */
        int64_t carries;   /* lines that have a carry of their own; 1: they share it */
        int64_t levels;    /* columns: entries of a counter */
        int64_t entries;   /* a carry's, at most */
        int64_t ahead;     /* bytes that a kernel fetches ahead of what it reads from memory */
        bool stream;       /* results are too large to be worth caching */
        bool cut;          /* into segments: a piece has one line, and blocks end where sf_cuts say */
        bool spreads;      /* there are operands that have an element a segment */
        size_t spread[SF_OPERANDS_MAX]; /* in a worker's scratch: such an operand, an element a position of the block */
        int64_t span, spans;   /* positions whose segments are one task; how many the sequence has */
        int64_t longest;       /* segments of so many positions are steps by themselves */
        int64_t boxes;     /* so many of these walks make the whole: 1, but in a chain */

        /* Tasks: `tile` lines of a strip of columns at one position of the other dimensions. */
        int32_t nouter, outer[SF_MAX_NDIM]; /* those dimensions */
        int64_t outers;        /* and how many positions they have */
        int64_t tile, tiles;   /* lines in a task; tasks along the lines */
        int64_t strips;
        bool outer_first;      /* outer positions change fastest: they share what a tile reads */
        int64_t tasks;

        /* A shared axis: see shared.c. */
        int64_t chunk;         /* positions in a chunk; 0: no axis is shared */
        int64_t chunks;        /* in a sequence */
        int64_t leaf, leaves; /* positions in a leaf; leaves in a sequence, the last may be short */
        bool carried;          /* scanned into scratch, then carried; else folded, then scanned */

        sf_panel_member member[SF_PANEL_MEMBERS];
        sf_fuse plain[SF_PANEL_MEMBERS]; /* what a member that is not fused has instead */
} sf_panels;

/* What the workers of a call share. */
typedef struct sf_crew {
        const sf_panels *panels;
        char *scratch;
        size_t scratch_each;
        size_t machine, room; /* in a worker's scratch: where programs run; a shared axis's rest */
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
/* How many parts of `each` make `count`, the last perhaps not whole. */
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
 * plan.c, shape.c and cut.c: the plan
 * ------------------------------------------------------------------------------------------- */

/* For a step and its siblings, of which none is taken yet. */
void sf_panels_start(sf_panels *p, const sf_cpu_isa *isa, const sf_step *first);
/* Takes a step in if it can be walked with those that are there. *has_kernel is cleared if nobody
 * could walk it. */
bool sf_panels_take(sf_panels *p, const sf_step *step, bool *has_kernel);
/* Everything else. */
void sf_panels_plan(sf_panels *p, int workers);

/* Does every value of a type survive the accumulator? */
bool sf_survives(sf_dt dt, sf_dt acc);
/* How many workers a call on ctx is worth that reads and writes so many bytes. */
int sf_cpu_workers(const sf_context *ctx, int64_t bytes);
/* The length of a dimension; of none, 1. */
int64_t sf_panels_length(const sf_panels *p, int32_t d);

/* Takes the lowest digit off a number. */
static inline int64_t sf_digit(int64_t *number, int64_t base)
{
        if (base == 1) /* as it mostly is in small calls, where divisions count */
                return 0;
        const int64_t low = *number % base;
        *number /= base;
        return low;
}
/* Bytes of memory that an element of the walk stands for: read, and written. */
int64_t sf_panels_read(const sf_panels *p);
int64_t sf_panels_bytes(const sf_panels *p);

/* Of shape.c, for plan.c: the shape of one plain step whose kernels read and write memory, or
 * false; the shape of all others. */
bool sf_shape_straight(sf_panels *p, sf_panel_member *m, const sf_step *s);
void sf_shape_panel(sf_panels *p);
void sf_shape_lanes(sf_panels *p, sf_panel_member *m);
bool sf_shape_crossed(const sf_panels *p);
/* Is there an operand that stands still along one dimension and moves along another? */
bool sf_shape_shares(const sf_panels *p, int32_t still, int32_t moving);
/* Of cut.c, for plan.c: sizes, and whether an axis is shared; then tasks. */
void sf_cut_sizes(sf_panels *p, int workers);
void sf_cut_tasks(sf_panels *p, int workers);

/* ---------------------------------------------------------------------------------------------
 * cpu.c: pieces and walkers; panel.c: one piece
 * ------------------------------------------------------------------------------------------- */

/* A block of a sequence with segments: the parts of them that it has. All but the first begin in it, all but the last end there. */
typedef struct sf_cuts {
        int64_t parts;
        const int32_t *bound; /* where each begins in the block, and the last one ends; and room behind that: SF_CPU_RAGGED_ROOM */
        int64_t start;        /* positions of the first part's segment that came before */
        int64_t length;       /* of the last part's segment, all of it */
        int64_t most;         /* of the longest one */
        int64_t first;        /* the first part is that of so many-th segment */
        bool ends;            /* the last one ends here too */
} sf_cuts;

/* Some lines of some columns. Pointers stand on position 0 of the sequence (of a shared one, on the
 * first leaf's). */
typedef struct sf_piece {
        int64_t lines, cols;
        int64_t from, n; /* positions; from is 0 but where no stride leads from leaf to leaf */
        int64_t base, base_line; /* the sequence's position where the first line's pointers stand,
                                    and how much further the next line's do */
        const sf_cuts *cuts; /* of the block at hand; NULL: no segments */
        bool chunk;      /* lines are leaves of a shared axis; else whole sequences */
        bool totals;     /* the leaves' totals are all that is wanted */
        bool some;       /* only of members that fold, or if not `totals` that scan */
        int64_t carry;   /* which of the carries is the first line's */
        int64_t ahead;   /* bytes that kernels fetch ahead */
        struct sf_piece_in {
                const char *at;
                int64_t line; /* bytes from line to line */
        } in[SF_OPERANDS_MAX];
        struct sf_piece_of {
                char *y, *sums; /* sums: the total of this piece's first leaf, the next behind it */
                int64_t y_line;
                const uint8_t *m;
                int64_t m_line;
                const char *left; /* the values to the left of the first line, if the step has any */
                int64_t left_line;
        } of[SF_PANEL_MEMBERS];
} sf_piece;

/* Does each line of a step have something of its own besides its elements: values to its left, or one that it gets? Then lines are not packed, and
 * each has a carry. Such a step has no siblings. */
static inline bool sf_panels_apart(const sf_panels *p)
{
        return p->member[0].step->lefts || p->member[0].step->values;
}

/* Some positions of one member's part in a piece, from line `line` on. */
typedef struct sf_block {
        const sf_panel_member *m;
        const sf_piece *piece;
        const struct sf_piece_of *of;
        int64_t line, first, count;
        int64_t panel;         /* positions that stand before it in the panel */
        int64_t start, length; /* its first position in its own sequence, and how long that is: with segments, one of them */
} sf_block;

/* How far the tensors of a walk are from where the plan has them, in bytes: a chain's plans are for its first lines. */
typedef struct sf_shift {
        int64_t in[SF_OPERANDS_MAX];
        int64_t ahead[SF_OPERANDS_MAX]; /* what a map reads of the next lines lies so many bytes on; 0: it is fetched by nobody, or another stage */
        struct {
                int64_t y, m;
        } of[SF_PANEL_MEMBERS];
} sf_shift;

/* A worker at work. */
typedef struct sf_walker {
        const sf_panels *p;
        char *scratch;
        sf_fused_machine *machine; /* set up unless the step is straight */
        const sf_shift *shift;     /* NULL: not at all */
} sf_walker;

sf_walker sf_crew_walker(const sf_crew *c, int worker, sf_fused_machine *machine);
/* One task of a plan that shares no axis. */
void sf_task_run(const sf_walker *w, int64_t task);
/* Memory that the workers share: the programs' constants. Filled if there is a base; says how many bytes. */
size_t sf_panels_constants(sf_panels *p, char *base);
/* The same of walks that one worker does in turn; panels and machines become as many bytes as any of them needs, if they are fewer. */
size_t sf_panels_room(sf_panels *const *walk, int32_t walks, char *base, size_t *panels, size_t *machines);
/* Scratch of the workers of one job: a desk each, so many bytes apart. */
typedef struct sf_desks {
        char *first;
        size_t each;
} sf_desks;
/* Bytes from one desk to the next, where each needs so many. Workers write them all the time: no two on one line, nor a power of two apart. */
static inline size_t sf_desk_bytes(size_t needed)
{
        return (needed + 4095) / 4096 * 4096 + 4096 + 64;
}
/* Lets workers do what is to be done of a job. lay_out says how many bytes the workers share, which are filled if there is a base, and how large a desk is. before: NULL, or what
 * the caller does itself as soon as there is memory for all, since what has been written cannot be taken back. */
sf_status sf_desks_run(sf_context *ctx, int workers, sf_desks *desks, size_t (*lay_out)(void *job, char *base), sf_status (*before)(sf_context *ctx, void *job),
                       void (*todo)(void *job, int worker), void *job);
/* A piece at position `outer` of the outer dimensions, line `line` and column `col`; of a shared
 * axis the leaves from `leaf` on, else -1. */
void sf_piece_at(const sf_panels *p, int64_t outer, int64_t line, int64_t col, int64_t leaf,
                 sf_piece *piece);

/* Lays out a worker's scratch; returns its size. */
size_t sf_panel_scratch(sf_panels *p);
/* All of a piece that is not of a shared axis. */
void sf_panel_run(const sf_walker *w, const sf_piece *piece);
/* Positions `first` to `end` of a piece, whose carries have been made. */
void sf_panel_walk(const sf_walker *w, const sf_piece *piece, int64_t first, int64_t end);
/* What stands to the left of each of its sequences; before any of them is walked. */
void sf_panel_begin(const sf_walker *w, const sf_piece *piece);
/* For segments: a block into the panel, the panel to memory, and the numbers of its elements beside them. */
void sf_panel_load(const sf_walker *w, const sf_block *b);
void sf_panel_store(const sf_walker *w, const sf_block *b);
void sf_panel_number(const sf_walker *w, const sf_block *b);
sf_block sf_panel_block(const sf_panels *p, const sf_piece *piece, int32_t i, int64_t first,
                        int64_t count);
/* Stores lines x cols totals of a fold, of type held, a line's back to back. */
void sf_panel_store_totals(const sf_walker *w, const sf_block *b, const char *totals);
/* What a kernel is handed for a block: of so many lines, or of one line's columns. */
sf_rows sf_panel_rows(const sf_walker *w, const sf_block *b, int64_t rows);
sf_columns sf_panel_columns(const sf_walker *w, const sf_block *b);

/* panel_memory.c */

static inline bool sf_panel_in_columns(const sf_panels *p)
{
        return p->shape == SF_PANEL_COLUMNS;
}
/* Is only the total of the piece wanted? */
static inline bool sf_panel_folds(const sf_block *b)
{
        return b->m->step->fold || b->piece->totals;
}
/* Elements between the first elements of two rows of the panel: a line's, or in columns a position's. */
int64_t sf_panel_pitch(const sf_panels *p, const sf_piece *piece);
/* Where in the panel a line's block begins, in elements. */
int64_t sf_panel_line_at(const sf_panels *p, const sf_block *b);
/* The numbers of a block's elements: their positions, counted from the axis's beginning. */
sf_numbers sf_panel_numbers(const sf_panels *p, const sf_block *b);
/* Sequences of one element: in and out again. */
void sf_panel_map(const sf_walker *w, const sf_block *b);

/* The carry of line r of a piece. */
sf_carry *sf_panel_carry(const sf_panel_member *m, char *scratch, int64_t r);
/* What an exclusive scan puts before the first element of all. */
void sf_panel_first_fill(const sf_panels *p, const sf_panel_member *m, char *fill);
/* Value `entry` of those that stand to the left of a line, as a carry's entry. */
void sf_panel_left(const sf_panels *p, const sf_piece *piece, int32_t member, int64_t line, int32_t entry, char *to);
/* The totals of a line, as values, to where the step's results go. */
void sf_panel_put_values(const sf_panels *p, const sf_piece *piece, int32_t member, int64_t line, const char *totals);
/* Values of a line's total, whole vectors of them: all columns of a strip, or one value in every
 * position of a vector. And their bytes. */
int64_t sf_panel_values(const sf_panels *p, const sf_panel_member *m);
int64_t sf_panel_total_bytes(const sf_panels *p, const sf_panel_member *m);

/* ---------------------------------------------------------------------------------------------
 * chain.c: stages over the same lines, some lines at a time
 * ------------------------------------------------------------------------------------------- */
sf_status sf_cpu_chain(sf_context *ctx, const sf_step *first);
/* Does the map compute again, as *value of its program, what the fold folds, and is that worth keeping? */
bool sf_chain_shares(const sf_step *fold, const sf_step *map, int32_t *value);
/* The fold's elements, kept: a copy of it as the map that fills them; and the fold, and the map's programs, as they read them. */
void sf_chain_fill_kept(sf_step *fill, sf_fuse *fuse, const sf_operand *kept);
void sf_chain_read_kept(sf_step *fold, sf_fuse *fold_fuse, sf_fuse *map_fuse, int32_t value, const sf_operand *kept);

/* ---------------------------------------------------------------------------------------------
 * segments.c: an axis cut into segments, shared by elements
 * ------------------------------------------------------------------------------------------- */
/* Parts of segments in a block, at most. */
#define SF_PANEL_CUTS SF_FUSED_BLOCK

/* Tasks, of a plan whose sizes are known. */
void sf_segments_plan(sf_panels *p, int workers);
void sf_segments_task(const sf_walker *w, int64_t task);
/* A task of so many positions, of which there are at least so many blocks. */
#define SF_SEGMENTS_LEAST_BLOCKS 4
void sf_segments_span(sf_panels *p, int64_t span);
/* The segments that no task has: long ones, and those of an axis without elements. */
sf_status sf_segments_long(sf_context *ctx, const sf_panels *p);

/* segments_chain.c: stages over the same segments, a span at a time */
sf_status sf_segments_chain(sf_context *ctx, const sf_step *first);

/* ---------------------------------------------------------------------------------------------
 * shared.c: one long axis shared by all threads; carried.c: the way that scans it once
 * ------------------------------------------------------------------------------------------- */

/* Chooses chunk and leaf, or leaves chunk 0 where the axis is too short for that. */
void sf_shared_plan(sf_panels *p, int workers);
/* Bytes of the members' sums and of the flags, and these given out. */
size_t sf_shared_bytes(const sf_panels *p);
void sf_shared_start(sf_crew *c, sf_panels *p, char *base);
/* What a worker needs for the carried way. */
size_t sf_carried_bytes(const sf_panels *p);
void sf_shared_work(void *crew, int worker);
/* After all workers: the folds' results. */
void sf_shared_finish(sf_crew *c);

#endif
