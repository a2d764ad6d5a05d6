/*
 * emit_chain.h: a chain (core/step.h) as the two files that plan one see it: emit_apply.c for rows,
 * emit_apply_columns.c for columns.
 */
#ifndef SF_CUDA_EMIT_CHAIN_H
#define SF_CUDA_EMIT_CHAIN_H

#include "cuda/cuda.h"
#include "cuda/emit_draft.h"

enum { KIND_FOLD, KIND_MAP, KIND_SMALL, KIND_ACROSS };

/* One step of the chain; all are fused. */
typedef struct link {
        sf_step step;
        sf_fuse plain;
        int kind;
        uint32_t loads, stores; /* operands that its programs read, by its own numbers */
        uint8_t number[SF_OPERANDS_MAX]; /* their new numbers */
        int mask; /* the mask's new number, or -1 */
} link;

/* What the launch reads: a tensor along the lines, or the result of a step. */
typedef struct source {
        const char *data;
        sf_dt dt;
        int made; /* the number of the step, or -1 */
        int readers; /* how many steps load it */
        bool kept; /* a step's: what it folds, element by element */
        bool folded; /* a fold is one of them: it loads all its vectors at once */
        int64_t step[SF_MAX_NDIM + 1], along;
        int64_t segment; /* bytes from one segment's element to the next, if each has one */
} source;

typedef struct chain {
        int32_t count, sources, nbatch;
        /* bits: sources that the first step reads, or another fold, if they differ from line to
         * line: these may be copied by way of shared memory */
        uint32_t copied;
        link link[SF_CUDA_STEPS_MAX];
        source source[SF_OPERANDS_MAX];
        int width;
        bool shifts; /* what the first step reads, and results, may be at any address */
        int64_t n;
} chain;

static inline bool moves(const source *s)
{
        return s->made < 0 && s->along;
}

/* Reads the chain. False: one launch cannot do it. */
bool sf_cuda_read_chain(const sf_step *first, chain *c);

/* Finds what the step reads among the chain's sources. False: it cannot. */
bool sf_cuda_read_operands(chain *c, link *l);

/* Lets later steps take from registers what a fold has computed of its elements. */
void sf_cuda_keep_folded(chain *c);

/* Can a thread do with 16 bits for each element? x is narrow, and no fold keeps what it computes. */
bool sf_cuda_is_slim(const chain *c);

/* Are an address and these strides multiples of `bytes`? */
bool sf_cuda_suits(int64_t address, const int64_t *step, int32_t nbatch, int64_t bytes);
bool sf_cuda_result_suits(const chain *c, const sf_step *s, int64_t bytes);

/* Bytes of an element in all sources that several steps load; its registers, in bytes; bytes of a
 * leaf's total. */
int64_t sf_cuda_kept_bytes(const chain *c);
int64_t sf_cuda_held_bytes(const chain *c);
int64_t sf_cuda_slot_size(const chain *c);
int64_t sf_cuda_folds(const chain *c);

/* Writes the steps and what they read into the specialisation. `across`: the columns' dimension, or
 * -1 for rows. */
void sf_cuda_describe_chain(const chain *c, int32_t across, sf_cuda_spec *spec);

/* The parameters of a launch over `units` lines or strips. */
void sf_cuda_put_chain(const chain *c, int32_t across, int64_t units, const int64_t number[4], sf_cuda_launch *l);

/* A chain of rows, whose width is known, and the folds across its rows, in emit_apply_group.c; `fits`
 * as below. */
sf_status sf_cuda_plan_group(const sf_context *ctx, const chain *rows, const sf_step *across,
                             const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits);

/* A chain of short lines, in emit_apply_short.c; `fits` as below. */
sf_status sf_cuda_plan_short(const sf_context *ctx, const chain *rows, const sf_step *first,
                             const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits);

/* Chains over segments of lines, in emit_segments_apply.c. `fits` as below. */
sf_status sf_cuda_plan_segments_chain(const sf_context *ctx, chain *c, const sf_step *first,
                                      const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits);

/* Chains down columns. `fits`: false: there is no launch for it. */
sf_status sf_cuda_plan_columns(const sf_context *ctx, chain *c, int64_t batch, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits);

#endif
