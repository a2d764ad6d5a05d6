/*
 * emit_draft.h: a launch under construction, and what emit.c, emit_scan.c and emit_fold.c need to
 * build it.
 */
#ifndef SF_CUDA_EMIT_DRAFT_H
#define SF_CUDA_EMIT_DRAFT_H

#include "cuda/emit.h"

/* ------------------------------------------------------------------------------------------------
 * Small functions
 * ---------------------------------------------------------------------------------------------- */
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

/* Are neighbours along `stride` contiguous? 1 forwards, 2 backwards, 0 no. */
static inline int unit(int64_t stride, int size)
{
        return stride == size ? 1 : stride == -size ? 2 : 0;
}

/* Is v a multiple of this power of two? */
static inline bool aligned_to(int64_t v, int64_t power)
{
        return !(v & (power - 1));
}

/* Are x and y at multiples of 16 bytes at all positions of dims[0 .. nbatch)? */
static inline bool in_sixteens(const sf_step *s, int32_t nbatch)
{
        bool fits = aligned_to((int64_t)(uintptr_t)s->x, 16) && aligned_to((int64_t)(uintptr_t)s->y, 16);
        for (int32_t d = 0; d < nbatch; d++)
                fits = fits && aligned_to(s->dims[d].x, 16) && aligned_to(s->dims[d].y, 16);
        return fits;
}

/* Bytes of a step's value as a kernel holds it. */
static inline int value_size(const sf_step *s)
{
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): sf_cuda_plan_scan plans its `line` only where sf_cuda_as_line has set it */
        return sf_cuda_value_size((int32_t)s->op, (int32_t)s->acc);
}

/* Bytes that a thread of a scan holds for each element. Products are numbers as long as they stay in
 * the range (tree_products.cuh). */
static inline int scanned_size(const sf_step *s)
{
        return sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc) ? size_of((int32_t)s->acc) : value_size(s);
}

/* The same for columns, where a thread has fewer elements, and registers for pairs, if these are
 * wider than two bytes. */
static inline int scanned_down_size(const sf_step *s)
{
        return size_of((int32_t)s->in) <= 2 ? scanned_size(s) : value_size(s);
}
static inline bool scans_pairs_down(const sf_step *s)
{
        return scanned_down_size(s) > at_least(size_of((int32_t)s->acc), 4);
}

/* Bytes of a total that a fold leaves in scratch memory, where narrow integers keep their own
 * size. */
static inline int total_size(const sf_step *s)
{
        return (int)at_least(size_of((int32_t)s->acc), sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc) ? value_size(s) : 0);
}

/*
 * Here a step's siblings are only those that share its launch. Folds are equal members, with their
 * accumulators side by side (members.cuh). The one sibling of a scan is its total, or another result
 * of the same scan; that of an index, scanned or folded, is the element at that index.
 */
static inline bool several_folds(const sf_step *s)
{
        return s->fold && s->sibling && !sf_op_is(s->op, SF_INDEX);
}

/* Is the sibling another result of the same scan? */
static inline bool has_double(const sf_step *s)
{
        return !s->fold && s->sibling && !s->sibling->fold && !sf_op_is(s->op, SF_INDEX);
}

/* Bytes of all accumulators of an element, as the compiler lays out a struct of them. */
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

/* ------------------------------------------------------------------------------------------------
 * emit.c
 * ---------------------------------------------------------------------------------------------- */
/* A step as a kernel sees it: lines of `line`'s elements, one for every position of all other
 * dimensions. */
typedef struct layout {
        const sf_step *step;
        /* vectors are along it: the sequence's last dimension, or the columns */
        sf_dim line;
        /* a launch distributes the positions of dims[0 .. nbatch) of the step */
        int32_t nbatch;
        /* elements of a vector: aligned on every line, in x and, for a scan, in y */
        int width;
        /* columns: a vector consists of this many parts, at distances that memory.cuh gives; else
         * 1 */
        int packs;
        int in;             /* bytes of an element of x */
        /* vectors of x and the mask, or those of y, may be at any address */
        bool shift_in, shift_out;
        /* lines begin up to a vector early, so that vectors of y, or of a fold's x, are aligned */
        bool early;
        int past;           /* columns: by so many */
        bool loads;         /* there is a load program */
        bool loose;         /* vectors of its operands may be at any address, in chained scans */
} layout;

/* The step with its sequence (down false) or its last batch dimension (down true) as the line.
 * resume: x is totals of elements that have already been through the load program. */
layout sf_cuda_layout(const sf_step *step, bool down, bool resume);

/* The same with wider vectors, at any address, if that is faster; or, with `always`, if it is
 * possible. Only for lines that are sequences. */
layout sf_cuda_shifted(layout l, bool always);

/* The same for a chained scan, whose vectors keep their positions. */
layout sf_cuda_anywhere(layout l);

/* The same where a program loads. sf_cuda_loose: is operand k at any address there? */
layout sf_cuda_loosened(layout l);
bool sf_cuda_loose(const layout *l, int32_t k);

/* Columns of a scan: in packs, if vectors would be short. */
layout sf_cuda_in_packs(layout l);

/* Fewer elements in a vector, and first fewer packs. What was aligned stays aligned, and the mask
 * may become so. */
static inline layout sf_cuda_narrowed(layout l, int width)
{
        l.packs = (int)at_least(l.packs * width / l.width, 1);
        l.width = width;
        return l;
}

typedef struct draft {
        sf_cuda_launch *launch;
        layout l;
        sf_params p;
        int64_t across; /* a scan's total: from column to column, if the layout has no columns */
        int64_t parts;  /* a fold in chunks: how many totals each member leaves in scratch */
} draft;

/* Where the totals of the member after `step` begin, if those of `step` begin at 0. */
static inline int64_t parts_size(const sf_step *step, int64_t parts)
{
        return ceil_div(parts * total_size(step), 256) * 256;
}

/* How many elements vectors cover; for a line that begins early, the most there may be. */
static inline int64_t reached(const layout *l, int64_t n)
{
        return n + (l->early ? l->width - 1 : 0);
}

/* Sets everything that follows from the step and the layout alone. */
draft sf_cuda_draft(sf_cuda_launch *launch, sf_cuda_kernel kernel, const layout *l);
sf_status sf_cuda_draft_tile(const sf_context *ctx, const sf_cuda_chip *chip, const draft *d,
                             sf_cuda_tile *tile);
/* A step's values as a launch gets them: bits of the accumulator. */
void sf_cuda_values(const sf_step *s, uint64_t *identity, uint64_t *neutral, uint64_t *initial);
sf_status sf_cuda_finish(const sf_context *ctx, const sf_cuda_chip *chip, draft *d, int64_t blocks, int64_t shared);

static inline sf_params_dim sf_cuda_params_dim(const sf_dim *d)
{
        return sf_with_divisor((sf_params_dim){.len = d->len, .x = d->x, .y = d->y, .m = d->m, .left = d->left});
}

/* Of a sum of narrow integers into 64 bits: so many elements at most have a sum of 32 bits, which
 * needs half the registers. 0: it is no such sum. */
int64_t sf_cuda_fits_32(const sf_step *s);

/* How a strip of columns is distributed to the threads of a block. */
typedef struct strip {
        int64_t slots;  /* vectors in a row of the strip */
        int64_t groups; /* groups of threads, each with rows of its own */
        int64_t strips; /* how many a row has */
        bool whole;     /* there is one strip: the whole row, whatever its width */
} strip;

/* Strips of `slots` vectors for blocks of `threads`; a row that is not much wider is one strip. */
strip sf_cuda_strip(int64_t vectors, int64_t slots, int64_t threads);

/* ------------------------------------------------------------------------------------------------
 * emit_fuse.c: the programs of a fused step
 * ---------------------------------------------------------------------------------------------- */

/* Are there programs for elements that are loaded, and for results that are stored? */
bool sf_cuda_loads_fused(const sf_step *step);
bool sf_cuda_stores_fused(const sf_step *step);

/* Bit k: the program reads operand k. A program without instructions reads `none`. */
uint32_t sf_cuda_program_reads(const sf_program *program, uint32_t none);

/* Adds the two programs of one step, if it has them, to the launch. number: the new numbers of the
 * operands. */
void sf_cuda_append_programs(sf_cuda_fused *f, const sf_step *step, bool loads, bool stores, const uint8_t *number, uint8_t *loaded, uint8_t *stored);

/* How an operand is laid out along the layout's line, as in SF_CUDA_OPERAND_UNIT. */
int sf_cuda_operand_unit(const layout *l, int32_t operand);

/* The vector width for a step with a load program; sf_cuda_layout chooses it for others. */
int sf_cuda_fused_width(const layout *l);

/* Bytes that one element of a vector needs of all operands, except those that are constant along
 * the line: for the load; and for load and store. */
int sf_cuda_loaded_bytes(const layout *l);
int sf_cuda_largest_operand(const layout *l); /* of those */
int sf_cuda_moved_bytes(const layout *l);

/* Bytes of a vector staged in shared memory, without the mask. */
int sf_cuda_staged_bytes(const layout *l);

/* Do the sequence and the last batch dimension make one contiguous line in every operand, or is the
 * operand constant? (nseq is 1.) */
bool sf_cuda_operands_flat(const sf_step *step);

/* Writes the programs into the launch's spec, and what they need after its parameters. The rest of
 * the spec must be complete. */
sf_status sf_cuda_fuse(const sf_context *ctx, draft *d);

/* ------------------------------------------------------------------------------------------------
 * emit_chunks.c: sequences in chunks, as in tree_totals.cuh
 * ---------------------------------------------------------------------------------------------- */
typedef struct dealing {
        int64_t log;    /* a chunk is 2^log tiles */
        int64_t folded; /* number of chunks without the last */
} dealing;

/* About `wanted` chunks in all, for `lines` times `tiles` tiles. */
dealing sf_cuda_chunks(const sf_step *step, int64_t tiles, int64_t lines, int64_t wanted);

/*
 * Plans the launches of a scan in chunks, from plan->launch[0] on. `d` is the scan's complete
 * draft, for the plan's last launch: number 0 if there is one chunk, 1 if its blocks go through the
 * totals themselves (each_for_itself), else 2. There are `lines` blocks for each chunk.
 */
sf_status sf_cuda_in_chunks(const sf_context *ctx, const sf_cuda_chip *chip, draft *d, dealing c, int64_t lines, int64_t columns, int64_t shared,
                            bool each_for_itself, sf_cuda_plan *plan);

/* The columns and the sequence of a narrow matrix, at most SF_CUDA_NARROW columns, as one line;
 * false: they are not one. `any`: also if the number of columns is not a power of two, and the line
 * can only be moved in whole pieces. */
#define SF_CUDA_NARROW 32
bool sf_cuda_as_line(const sf_step *step, bool any, sf_step *line);

/* columns without their factors of two; 1 for a power of two */
static inline int64_t odd_part(int64_t columns)
{
        while (columns > 1 && columns % 2 == 0)
                columns /= 2;
        return columns;
}

/* Bytes from the total of one of the line's columns to the next, if the scan stores its totals. */
int64_t sf_cuda_total_across(const sf_step *line, int64_t columns);

/* Plans such a line of `columns` sequences side by side, or of one. fits: it is long enough; if
 * not, nothing is planned. */
sf_status sf_cuda_plan_narrow(const sf_context *ctx, const sf_step *line, int64_t columns, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits);

/* Plans columns that many blocks share in one launch, a tile for each. fits: it is such a step, and
 * this is the best way; if not, nothing is planned. */
sf_status sf_cuda_plan_tiles(const sf_context *ctx, const layout *l, const sf_cuda_chip *chip,
                             sf_cuda_plan *plan, bool *fits);

/* ------------------------------------------------------------------------------------------------
 * emit_pieces.c: short contiguous sequences, which scan_rows.cu and fold.cu stage
 * ---------------------------------------------------------------------------------------------- */

/* fits: the sequences are of this kind, this way is the best, and they have been planned; if not,
 * nothing is planned. */
sf_status sf_cuda_plan_pieces(const sf_context *ctx, const layout *l, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits);

/* ------------------------------------------------------------------------------------------------
 * emit_fold.c
 * ---------------------------------------------------------------------------------------------- */

/* Makes the totals of `parts` parts go to scratch; those of each member follow those of the one
 * before. */
void sf_cuda_fold_to_scratch(draft *d, const sf_step *s, int64_t parts, sf_cuda_plan *plan);
/* The step that folds the totals of `chunks` chunks of every sequence, which another left there. */
sf_step sf_cuda_fold_resumed(const sf_step *s, int64_t chunks, bool down);

/* Plan a fold, from the plan's next launch on. from >= 0: x is totals, at this offset in scratch.
 * SF_CUDA_TOTALS_ONLY, for columns: the totals of chunks stay in scratch, and the caller plans what
 * becomes of them. */
#define SF_CUDA_TOTALS_ONLY (-2)
#define SF_CUDA_IN_SCRATCH (-3)
sf_status sf_cuda_fold_rows(const sf_context *ctx, const layout *l, const sf_cuda_chip *chip, sf_cuda_plan *plan, int64_t from);
sf_status sf_cuda_fold_columns(const sf_context *ctx, const layout *l, const sf_cuda_chip *chip, sf_cuda_plan *plan, int64_t from);

/* emit_cuts.c. The blocks of a sequence that begins anywhere. plan: the launches; set: what a launch
 * needs for it, with its totals in scratch from `begin` on; resume: the launch that folds those. */
static inline sf_blocks sf_cuda_blocks(const sf_step *s)
{
        const sf_cuts c = sf_cuda_cuts(s);
        return sf_blocks_of(c.from, s->n, c.log);
}
sf_status sf_cuda_plan_cuts(const sf_context *ctx, const sf_step *s, bool down,
                            const sf_cuda_chip *chip, sf_cuda_plan *plan);
void sf_cuda_set_cuts(draft *d, const sf_step *s, int64_t begin, sf_cuda_plan *plan);
sf_status sf_cuda_resume_cuts(const sf_context *ctx, const sf_step *s, int64_t begin, bool down,
                              const sf_cuda_chip *chip, sf_cuda_plan *plan);
/* The same for a scan. Returns how many blocks a sequence has. short_blocks: a warp for each. */
int64_t sf_cuda_set_rising(draft *d, const sf_step *s);
sf_status sf_cuda_plan_short_blocks(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip,
                                    sf_cuda_plan *plan);

/* ------------------------------------------------------------------------------------------------
 * emit_scan.c, emit_fold_ways.c
 * ---------------------------------------------------------------------------------------------- */
sf_status sf_cuda_plan_scan(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan);
sf_status sf_cuda_plan_map(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip, sf_cuda_plan *plan);
sf_status sf_cuda_plan_fold(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan);

/* ------------------------------------------------------------------------------------------------
 * emit_segments.c
 * ---------------------------------------------------------------------------------------------- */
sf_status sf_cuda_plan_segments(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan);

#endif
