/*
 * emit_draft.h: a launch under construction: what emit.c, emit_scan.c and emit_fold.c build it from.
 */
#ifndef SF_CUDA_EMIT_DRAFT_H
#define SF_CUDA_EMIT_DRAFT_H

#include "cuda/emit.h"

/* ------------------------------------------------------------------------------------------------------------
 * Small things
 * ---------------------------------------------------------------------------------------------------------- */
static inline int64_t magnitude(int64_t v)
{
        return v < 0 ? -v : v;
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): b counts threads, elements or lines: at least 1 */
        return a / b + (a % b != 0);
}

static inline int64_t at_least(int64_t a, int64_t b)
{
        return a > b ? a : b;
}

static inline int64_t at_most(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

static inline int log2_up(int64_t v)
{
        int k = 0;
        while (((int64_t)1 << k) < v)
                k++;
        return k;
}

static inline int64_t pow2_up(int64_t v)
{
        return (int64_t)1 << log2_up(v);
}

static inline int64_t pow2_down(int64_t v)
{
        return pow2_up(v + 1) / 2;
}

static inline int size_of(int32_t dt)
{
        return sf_dtypes[dt].size;
}

/* Do neighbours along `stride` stand next to each other? 1 forwards, 2 backwards, 0 no. */
static inline int unit(int64_t stride, int size)
{
        return stride == size ? 1 : stride == -size ? 2 : 0;
}

/* Is v a multiple of this power of two? */
static inline bool aligned_to(int64_t v, int64_t power)
{
        return !(v & (power - 1));
}

/* Do x and y, from `back` bytes before their first elements on, lie at multiples of 16 bytes at all positions of dims[0 .. nbatch)? */
static inline bool in_sixteens(const sf_step *s, int32_t nbatch, int64_t back)
{
        bool fits = aligned_to((int64_t)(uintptr_t)s->x - back, 16) && aligned_to((int64_t)(uintptr_t)s->y - back, 16);
        for (int32_t d = 0; d < nbatch; d++)
                fits = fits && aligned_to(s->dims[d].x, 16) && aligned_to(s->dims[d].y, 16);
        return fits;
}

/* The bytes of a step's value as a kernel holds it. */
static inline int value_size(const sf_step *s)
{
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): sf_cuda_plan_scan plans its `line` only where sf_cuda_as_line has set it */
        return sf_cuda_value_size((int32_t)s->op, (int32_t)s->acc);
}

/* The same of a total that a fold leaves in scratch memory, where narrow integers are no wider than they are. */
static inline int total_size(const sf_step *s)
{
        return (int)at_least(size_of((int32_t)s->acc), sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc) ? value_size(s) : 0);
}

/*
 * A step's siblings are here those that share its launch, and no others. Folds are all on one footing, their accumulators side by side
 * (members.cuh); the one sibling of a scan is its total, and that of an index, scanned or folded, the element that stands there.
 */
static inline bool several_folds(const sf_step *s)
{
        return s->fold && s->sibling && !sf_op_is(s->op, SF_INDEX);
}

/* The bytes of all accumulators of an element, as the compiler lays a struct of them out. */
static inline int held_size(const sf_step *s)
{
        int64_t size = value_size(s), most = size;
        for (const sf_step *other = several_folds(s) ? s->sibling : NULL; other; other = other->sibling) {
                int64_t own = value_size(other);
                size = ceil_div(size, own) * own + own;
                most = at_least(most, own);
        }
        return (int)(ceil_div(size, most) * most);
}

/* ------------------------------------------------------------------------------------------------------------
 * emit.c
 * ---------------------------------------------------------------------------------------------------------- */
/* A step seen by a kernel: lines of `line`'s elements, one for every position of all other dimensions. */
typedef struct layout {
        const sf_step *step;
        sf_dim line;        /* along it vectors are taken: the sequence's last dimension, or the columns */
        int32_t nbatch;     /* dims[0 .. nbatch) of the step are positions a launch deals out */
        int width;          /* elements of a vector: aligned on every line, in x and, for a scan, in y */
        int packs;          /* of columns: such parts of a vector are, as far apart as memory.cuh says; else 1 */
        int in;             /* bytes of an element of x */
        bool shift_in, shift_out; /* vectors of x and the mask, and those of y, lie at any address */
        bool early;         /* lines begin up to a vector early, so that vectors of y, of a fold those of x, do not */
        bool loads;         /* there is a program on the way in */
} layout;

/* The step with its sequence (down false) or its last batch dimension (down true) as the line. resume: x is totals that the step's
 * program on the way in has been through already. */
layout sf_cuda_layout(const sf_step *step, bool down, bool resume);

/* The same with wider vectors, at any address, where that is quicker; or wherever it can be. Of lines of a sequence alone. */
layout sf_cuda_shifted(layout l, bool always);

/* Columns of a scan: in packs, where vectors would be short. */
layout sf_cuda_in_packs(layout l);

typedef struct draft {
        sf_cuda_launch *launch;
        layout l;
        sf_params p;
        int64_t across; /* a scan's total: from column to column, where the layout does not say */
        int64_t parts;  /* a fold in chunks: how many totals each member leaves in scratch */
} draft;

/* Where the totals of the member behind `step` begin, those of `step` beginning at 0. */
static inline int64_t parts_size(const sf_step *step, int64_t parts)
{
        return ceil_div(parts * total_size(step), 256) * 256;
}

/* The elements that vectors are taken of: of a line that begins early, as many as there may be. */
static inline int64_t reached(const layout *l, int64_t n)
{
        return n + (l->early ? l->width - 1 : 0);
}

/* Everything that follows from the step and the layout alone. */
draft sf_cuda_draft(sf_cuda_launch *launch, sf_cuda_kernel kernel, const layout *l);
sf_status sf_cuda_draft_tile(const sf_context *ctx, const sf_cuda_chip *chip, const draft *d,
                             sf_cuda_tile *tile);
/* A step's values as a launch is given them: bits of the accumulator. */
void sf_cuda_values(const sf_step *s, uint64_t *identity, uint64_t *neutral, uint64_t *initial);
sf_status sf_cuda_finish(const sf_context *ctx, const sf_cuda_chip *chip, draft *d, int64_t blocks, int64_t shared);

static inline sf_params_dim sf_cuda_params_dim(const sf_dim *d)
{
        return sf_with_divisor((sf_params_dim){.len = d->len, .x = d->x, .y = d->y, .m = d->m});
}

/* How a strip of columns is dealt out to the threads of a block. */
typedef struct strip {
        int64_t slots;  /* vectors a row */
        int64_t groups; /* each with rows of its own */
        int64_t strips; /* a row has */
        bool whole;     /* one strip: the row, whatever its width */
} strip;

/* Strips of `slots` vectors for blocks of `threads`; a row that is not much wider is taken whole. */
strip sf_cuda_strip(int64_t vectors, int64_t slots, int64_t threads);

/* ------------------------------------------------------------------------------------------------------------
 * emit_fuse.c: the programs of a fused step
 * ---------------------------------------------------------------------------------------------------------- */

/* Is there work to be done on elements on their way in, on results on their way out? */
bool sf_cuda_loads_fused(const sf_step *step);
bool sf_cuda_stores_fused(const sf_step *step);

/* Bit k: the program reads operand k; one of no instructions these. */
uint32_t sf_cuda_program_reads(const sf_program *program, uint32_t none);

/* The two programs of one step, where it has them, into the launch; number: the operands' new ones. */
void sf_cuda_append_programs(sf_cuda_fused *f, const sf_step *step, bool loads, bool stores, const uint8_t *number, uint8_t *loaded, uint8_t *stored);

/* How an operand lies along the layout's line, as SF_CUDA_OPERAND_UNIT has it. */
int sf_cuda_operand_unit(const layout *l, int32_t operand);

/* The width that suits a step with a program on the way in; sf_cuda_layout's for others. */
int sf_cuda_fused_width(const layout *l);

/* Bytes of all operands that a vector's element takes, one for the whole line not counted: on the way in; and on either way. */
int sf_cuda_loaded_bytes(const layout *l);
int sf_cuda_largest_operand(const layout *l); /* of those */
int sf_cuda_moved_bytes(const layout *l);

/* What a vector takes in all where it is staged in shared memory, the mask not counted. */
int sf_cuda_staged_bytes(const layout *l);

/* Do the sequence and the last batch dimension make one line of elements in every operand, or stand still? (nseq is 1.) */
bool sf_cuda_operands_flat(const sf_step *step);

/* Writes the programs into the launch's spec, and what they need behind its parameters. The rest of the spec is complete. */
sf_status sf_cuda_fuse(const sf_context *ctx, draft *d);

/* ------------------------------------------------------------------------------------------------------------
 * emit_chunks.c: sequences in chunks, as tree.cuh has them
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct dealing {
        int64_t log;    /* a chunk is two to the power of this many tiles */
        int64_t folded; /* chunks but for the last */
} dealing;

/* About `wanted` chunks in all, for `lines` times `tiles` tiles. */
dealing sf_cuda_chunks(const sf_step *step, int64_t tiles, int64_t lines, int64_t wanted);

/*
 * The launches of a scan in chunks, plan->launch[0] on. `d` is the scan's draft, complete, of the plan's last launch: 0 where there is one chunk,
 * 1 where its blocks look through the totals for themselves (each_for_itself), else 2. `lines` times as many blocks as there are chunks.
 */
sf_status sf_cuda_in_chunks(const sf_context *ctx, const sf_cuda_chip *chip, draft *d, dealing c, int64_t lines, int64_t columns, int64_t shared,
                            bool each_for_itself, sf_cuda_plan *plan);

/* The columns and the sequence of a narrow matrix, at most SF_CUDA_NARROW columns, as one line; false: they are not one. `any`: if need be
 * such that it can only be moved in whole pieces, its columns no power of two. */
#define SF_CUDA_NARROW 32
bool sf_cuda_as_line(const sf_step *step, bool any, sf_step *line);

/* 1 of a power of two. */
static inline int64_t odd_part(int64_t columns)
{
        while (columns > 1 && columns % 2 == 0)
                columns /= 2;
        return columns;
}

/* From the total of one of the line's columns to the next's, where totals stand beside the scan. */
int64_t sf_cuda_total_across(const sf_step *line, int64_t columns);

/* Such a line, of so many sequences side by side; one is fine too. fits: it is long enough; else nothing is planned. */
sf_status sf_cuda_plan_narrow(const sf_context *ctx, const sf_step *line, int64_t columns, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits);

/* ------------------------------------------------------------------------------------------------------------
 * emit_pieces.c: short sequences that lie in one piece of memory, as scan_rows.cu and fold.cu stage them
 * ---------------------------------------------------------------------------------------------------------- */

/* fits: they are such, and best taken so, and have been planned; else nothing is. */
sf_status sf_cuda_plan_pieces(const sf_context *ctx, const layout *l, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits);

/* ------------------------------------------------------------------------------------------------------------
 * emit_scan.c, emit_fold.c
 * ---------------------------------------------------------------------------------------------------------- */
sf_status sf_cuda_plan_scan(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan);
sf_status sf_cuda_plan_map(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip, sf_cuda_plan *plan);
sf_status sf_cuda_plan_fold(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan);

/* ------------------------------------------------------------------------------------------------------------
 * emit_segments.c
 * ---------------------------------------------------------------------------------------------------------- */
sf_status sf_cuda_plan_segments(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan);

#endif
