/*
 * panel.h: how the CPU walks steps that no kernel reads and writes straight: fused ones, strides and types that have no kernel, siblings.
 *
 * A piece is some sequences side by side, walked block by block: the load brings a block of them into a panel, contiguous, in a type the
 * kernels have; a kernel scans or folds the panel in place, carrying on from the block before; the store takes it to memory. Siblings
 * do so in turn while the operands' block is in cache.
 *
 *   rows     a panel's rows are sequences; packed: many short ones, on end
 *   columns  a panel's rows are positions, of neighbouring sequences
 *   narrow   as columns, but so few that the kernel for rows takes them interleaved
 *   map      sequences of one element: no kernel at all
 */
#ifndef SF_CPU_PANEL_H
#define SF_CPU_PANEL_H

#include "cpu/fused.h"
#include "cpu/kernels.h"

#define SF_PANEL_MEMBERS 4       /* steps that share one walk, at most */
#define SF_PANEL_CHUNK_LEVELS 12 /* log2 of how many chunks a shared axis has, at most */

typedef enum sf_panel_shape { SF_PANEL_MAP, SF_PANEL_ROWS, SF_PANEL_PACKED, SF_PANEL_COLUMNS, SF_PANEL_NARROW } sf_panel_shape;

/* One of the steps. */
typedef struct sf_panel_member {
        const sf_step *step;
        const sf_fuse *fuse;
        const sf_cpu_kernels *kernels;
        sf_dt held;   /* the panel's element type: the accumulator's, widened to 32 bits */
        int64_t size; /* its bytes, which are a lane's */
        sf_fused_code load, store;
        char *load_constants, *store_constants;
        bool reads, writes, masks; /* straight from and to memory, without a panel */
        bool streams;              /* writes around the cache: no line would be left half written */
        bool gathers;              /* a scan whose results go there from another panel, in which they lie as in memory */
        const sf_direct_fold *direct; /* a fold, if only of a chunk, straight from operand 0, of another type; NULL: by way of a panel */
        bool own_scan;             /* a scan of narrow integers as they lie, in lanes of their own size, or if `wide` into sums of 64 bits */
        bool wide;
        bool through;              /* map: the load goes straight to the output */
        bool products;             /* a sum of products of operands factor[0] and [1], whole tiles of it straight from memory */
        int32_t factor[2];
        const sf_lanes *lanes;     /* the isa's, or own */
        sf_lanes own;
        size_t panel, gathered, mask, counters, carries, totals; /* offsets into a worker's scratch */
        char *sums; /* a shared axis: the chunks' totals and theirs (fused.c) */
} sf_panel_member;

typedef struct sf_panels {
        const sf_cpu_isa *isa;
        sf_panel_shape shape;
        int32_t members;
        int64_t n, block;  /* positions of a sequence, and of a panel at most */
        int32_t nbatch, nseq, seq; /* as in the steps; the sequence's innermost dimension */
        bool reverse;      /* rows, packed, narrow: addresses go down along the sequence, and panels are filled as memory lies */
        int32_t line, col; /* the dimensions that lines and columns of a piece belong to; -1: none */
        int64_t lines, cols; /* at most, in a piece */
        int64_t widest;    /* bytes of the widest panel's elements */
        int64_t parts;     /* most components of a value */
        int32_t slots;
        bool whole;        /* a panel has all positions: nothing is resumed, and all its lines go to the kernel at once */
        int64_t carries;   /* lines that have a carry of their own; 1: they share it */
        int64_t levels;    /* columns: entries of a counter */
        int64_t entry_lanes; /* of a carry's entry */
        int64_t entries;   /* a carry's, at most */
        int32_t nouter, outer[SF_MAX_NDIM]; /* the remaining dimensions */
        int64_t chunk;     /* a shared axis: positions in a chunk, else 0 */
        int64_t chunks, nodes;
        bool direct;       /* all members fold straight from operand 0, without a panel */
        bool stream;       /* results are too large to be worth caching */
        sf_panel_member member[SF_PANEL_MEMBERS];
        sf_fuse plain[SF_PANEL_MEMBERS]; /* what a member that is not fused has instead */
} sf_panels;

/* ------------------------------------------------------------------------------------------------------------
 * panel_plan.c: in this order
 * ---------------------------------------------------------------------------------------------------------- */

/* For a step and its siblings, of which none is taken yet. */
void sf_panels_start(sf_panels *p, const sf_cpu_isa *isa, const sf_step *first);
/* Takes a step in if it can be walked with those that are there. *has_kernel is cleared if nobody could walk it. */
bool sf_panels_take(sf_panels *p, const sf_step *step, bool *has_kernel);
/* Chooses shape and sizes; a second time, with a chunk, for an axis that is to be shared. */
void sf_panels_plan(sf_panels *p, int workers, int64_t chunk);
/* What remains to be chosen when sizes no longer change. */
void sf_panels_settle(sf_panels *p);

/* The length of a dimension; of none, 1. */
int64_t sf_panels_length(const sf_step *s, int32_t d);
/* Is there an operand that stands still along one dimension and moves along another? */
bool sf_panels_shares(const sf_panels *p, int32_t still, int32_t moving);
/* Bytes of memory that an element of the walk stands for. */
int64_t sf_panels_bytes(const sf_panels *p);

/* ------------------------------------------------------------------------------------------------------------
 * panel.c
 * ---------------------------------------------------------------------------------------------------------- */

/* Some lines of some columns. Pointers stand on position 0 of the sequence (of a chunked one, on the first chunk's). */
typedef struct sf_piece {
        int64_t lines, cols;
        int64_t from, n; /* positions; from is 0 but where a chunk's lines cannot be reached by a stride */
        int64_t chunk;   /* which chunk the first line is, the others being the next; -1: lines are whole sequences */
        bool totals;     /* the chunks' totals are all that is wanted */
        struct {
                const char *at;
                int64_t line;
        } in[SF_OPERANDS_MAX];
        struct {
                char *y, *sums; /* sums: of this line of the tensor, from the piece's first column on */
                int64_t y_line;
                const uint8_t *m;
                int64_t m_line;
        } of[SF_PANEL_MEMBERS];
} sf_piece;

/* Lays out a worker's scratch; returns its size. */
size_t sf_panel_scratch(sf_panels *p);

/* A worker's scratch put to use: once before its first piece. */
void sf_panel_start(const sf_panels *p, sf_fused_machine *machine, char *scratch);
void sf_panel_run(const sf_panels *p, sf_fused_machine *machine, char *scratch, const sf_piece *piece);

/* Stores `lines` x `cols` totals of a fold, of type held, a line's on end. */
void sf_panel_store_totals(const sf_panels *p, sf_fused_machine *machine, int32_t member, const sf_piece *piece, const char *totals);

/* Node `index` at `level` of the tree of sums over the chunks of one line, from a pointer to the line's. */
char *sf_panel_node(const sf_panels *p, const sf_panel_member *m, char *sums, int level, int64_t index);
/* Values of a node, whole vectors of them: all columns there are, or a carry's entry, with the total in every position. And their bytes. */
int64_t sf_panel_node_values(const sf_panels *p, const sf_panel_member *m);
int64_t sf_panel_node_bytes(const sf_panels *p, const sf_panel_member *m);

#endif
