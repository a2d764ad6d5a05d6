/*
 * Plans a step: which kernel, which tile, which parameters.
 *
 * Two questions decide. Which dimension do neighbours in memory belong to: the sequence (rows) or
 * the batch (columns)? And are there enough sequences to fill the chip, or must many blocks share
 * one (chained, or a fold in chunks)?
 */
#include "core/value.h"
#include "cuda/cuda.h"
#include "cuda/emit_draft.h"
#include "cuda/held.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(sizeof(sf_params) <= SF_CUDA_MAX_PARAMS,
               "a launch holds every parameter of a plain step");
_Static_assert(offsetof(sf_params, scratch) == 0,
               "a launch adds the base of scratch to its first fields");

/* ------------------------------------------------------------------------------------------------
 * Layout in memory
 * ---------------------------------------------------------------------------------------------- */

/* Can every line be read (or written) `bytes` at a time, with such an address and stride? */
static bool aligned(uint64_t address, int64_t stride, int size, int bytes)
{
        /* The lowest address of a backward vector is that of its last element. */
        return aligned_to((int64_t)(address + (stride < 0 ? (uint64_t)size : 0)), bytes);
}

layout sf_cuda_layout(const sf_step *s, bool down, bool resume)
{
        const sf_dim *seq = s->dims + s->nbatch;
        layout l = {.step = s, .nbatch = s->nbatch - down, .packs = 1, .line = down ? s->dims[s->nbatch - 1] : seq[s->nseq - 1]};
        l.in = resume && sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc) ? value_size(s) : size_of(s->in);
        l.loads = !resume && (sf_cuda_loads_fused(s) || several_folds(s));
        if (l.loads) {
                l.width = sf_cuda_fused_width(&l);
                return l;
        }
        int in = l.in, out = size_of(s->out), all = s->nbatch + s->nseq;
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): every dtype has a size */
        int most = 16 / (s->fold || in > out ? in : out);
        if (!s->fold && s->sibling && !s->sibling->fold)
                most = (int)at_most(most, 16 / size_of((int32_t)s->sibling->out));
        if (sf_cuda_stores_fused(s))
                most = (int)at_most(most, 16 / sf_cuda_largest_operand(&l));
        l.width = 1;
        for (int w = 2; w <= most; w *= 2) {
                bool fits = w <= l.line.len && unit(l.line.x, in) && aligned((uint64_t)(uintptr_t)s->x, l.line.x, in, w * in);
                if (!s->fold)
                        fits = fits && unit(l.line.y, out) && aligned((uint64_t)(uintptr_t)s->y, l.line.y, out, w * out);
                /* Vectors of columns, or of the last of several dimensions, must not extend past
                 * its end. */
                if (down || s->nseq > 1)
                        fits = fits && aligned_to(l.line.len, w) && l.line.x > 0 && (s->fold || l.line.y > 0);
                int32_t own = down ? s->nbatch - 1 : all - 1;
                for (int32_t d = 0; d < all; d++)
                        if (d != own)
                                fits = fits && aligned_to(s->dims[d].x, w * in) && (s->fold || aligned_to(s->dims[d].y, w * out));
                if (fits)
                        l.width = w;
        }
        return l;
}

/* Does every line of x begin at the same place in a vector of `width` elements as that of y? */
static bool begin_alike(const sf_step *s, int width)
{
        const int64_t in = size_of(s->in), out = size_of(s->out);
        bool alike = aligned_to((int64_t)((uintptr_t)s->x / (uintptr_t)in - (uintptr_t)s->y / (uintptr_t)out), width) && s->dims[s->nbatch].x / in == s->dims[s->nbatch].y / out;
        for (int32_t d = 0; d < s->nbatch; d++)
                alike = alike && aligned_to(s->dims[d].x / in - s->dims[d].y / out, width);
        return alike;
}

/* Can every line of x, or of y, be moved in vectors of `width` elements? */
static bool begins_aligned(const sf_step *s, const sf_dim *line, bool y, int width)
{
        const int size = size_of(y ? s->out : s->in), bytes = width * size;
        const uint64_t first = (uint64_t)(y ? (uintptr_t)s->y : (uintptr_t)s->x);
        bool fits = aligned(first, y ? line->y : line->x, size, bytes);
        for (int32_t d = 0; d < s->nbatch; d++)
                fits = fits && aligned_to(y ? s->dims[d].y : s->dims[d].x, bytes);
        return fits;
}

layout sf_cuda_shifted(layout l, bool always)
{
        const sf_step *s = l.step;
        const int in = l.in, out = s->fold ? in : size_of(s->out), most = 16 / (in > out ? in : out);
        const int x = unit(l.line.x, in), y = s->fold ? 1 : unit(l.line.y, out);
        /* Elements of 4 bytes are read as fast one by one, and so are aligned vectors of 8 bytes.
         * H200, rows of 316 f16, share of a copy: 0.77 in vectors of four, 0.44 in shifted ones of
         * eight. */
        const bool narrow = in <= 2 && l.width * in < 8, several = in == 4 && s->nseq > 1;
        const bool pays = l.width < most && (always || narrow || several);
        /* Runs of several dimensions may end inside a vector, and most vectors of a tile should not. H200,
         * sums over runs of 97181 f32 0.83 of a copy, 0.61 one by one; but of 77 f32 0.27 in vectors. */
        const bool runs = s->nseq == 1 || (x == 1 && l.line.len >= (in == 4 ? 256 : 8) * most);
        /* There a vector of the mask is read beyond the end of its run too, and joined with the next run's. */
        const bool joins = s->nseq == 1 || l.line.m == 0 || l.line.m == 1;
        if (l.nbatch < s->nbatch || !pays || s->fuse || s->sibling || !runs || !joins || !x || !y || l.line.len < 2 * most)
                return l;
        l.width = most;
        /* For a short line, one more vector is much. H200, 64 bytes: 0.19 of a copy, and 0.42
         * shifted. */
        l.early = sf_op_free(s->op, s->acc) && !s->m && s->nseq == 1 && l.line.len >= 16 * most;
        /* Where y is aligned, elements may as well keep their positions. */
        const bool x_fits = s->nseq == 1 && !s->m && begins_aligned(s, &l.line, false, most);
        const bool y_fits = s->nseq == 1 && !s->fold && begins_aligned(s, &l.line, true, most);
        l.early = l.early && !y_fits;
        /* Lines that begin early begin so for y's sake: x then lies elsewhere, aligned or not. */
        l.shift_in = l.early ? !s->fold && !begin_alike(s, most) : !x_fits;
        l.shift_out = !y_fits && !l.early && !s->fold;
        return l;
}

layout sf_cuda_anywhere(layout l)
{
        const sf_step *s = l.step;
        const int in = l.in, out = size_of(s->out), most = 16 / (in > out ? in : out);
        if (l.width == most || s->fuse || s->sibling || s->m || s->nseq > 1 || most < 2 ||
            !unit(l.line.x, in) || !unit(l.line.y, out))
                return l;
        l.width = most;
        l.shift_in = !begins_aligned(s, &l.line, false, most);
        l.shift_out = !begins_aligned(s, &l.line, true, most);
        return l;
}

layout sf_cuda_loosened(layout l)
{
        const sf_step *s = l.step;
        const int out = size_of(s->out);
        if (!l.loads || sf_cuda_stores_fused(s) || s->sibling || s->m || s->nseq > 1 || !unit(l.line.y, out))
                return l;
        const int in = sf_cuda_largest_operand(&l), most = 16 / (in > out ? in : out);
        if (l.width == most || most * out < 4)
                return l;
        l.width = most;
        l.loose = true;
        l.shift_out = !begins_aligned(s, &l.line, true, most);
        return l;
}

layout sf_cuda_in_packs(layout l)
{
        const sf_step *s = l.step;
        const int in = l.in, out = size_of(s->out);
        /* Of single bytes, a thread would have 16 columns and only a few rows. */
        const int most = (int)at_most(16 / (in > out ? in : out), 8);
        if (s->fuse || s->sibling || s->left)
                return l;
        if (l.width > most)
                l.width = most;
        if (in > 4 || l.width == most || unit(l.line.x, in) != 1 || unit(l.line.y, out) != 1 || l.line.len < 2 * most)
                return l;
        l.packs = most / l.width;
        l.width = most;
        return l;
}

/* The mask is read in vectors too, if its layout allows. */
static int mask_unit(const layout *l)
{
        const sf_step *s = l->step;
        const int u = unit(l->line.m, 1), width = l->width / l->packs;
        if (l->packs > 1 && u != 1)
                return 0;
        if (!u || width == 1 || l->shift_in)
                return u;
        bool fits = aligned((uint64_t)(uintptr_t)s->m, l->line.m, 1, width);
        int32_t own = l->nbatch < s->nbatch ? s->nbatch - 1 : s->nbatch + s->nseq - 1;
        for (int32_t d = 0; d < s->nbatch + s->nseq; d++)
                if (d != own)
                        fits = fits && aligned_to(s->dims[d].m, width);
        return fits ? u : 0;
}

/* ------------------------------------------------------------------------------------------------
 * A launch under construction
 * ---------------------------------------------------------------------------------------------- */
int32_t sf_cuda_dims(const sf_cuda_spec *spec)
{
        int32_t count = spec->extra[SF_CUDA_NBATCH] + (spec->extra[SF_CUDA_NSEQ] > 1 ? spec->extra[SF_CUDA_NSEQ] : 0);
        for (int32_t k = 0; spec->kernel == SF_CUDA_AGAIN && k < 2 * (1 + spec->fused.beside); k++)
                count += spec->extra[SF_CUDA_OWN + k]; /* the dimensions of each step */
        return count ? count : 1;
}

sf_cuda_parts sf_cuda_params_parts(const sf_cuda_spec *spec)
{
        const size_t dims = (size_t)sf_cuda_dims(spec);
        /* An array has at least one element. */
        const size_t operands = (size_t)at_least(spec->fused.operands, 1);
        const size_t constants = (size_t)at_least(spec->fused.constants, 1);
        sf_cuda_parts parts = {.end = offsetof(sf_params, dims) + dims * sizeof(sf_params_dim)};
        if (!sf_cuda_codes(&spec->fused))
                return parts;
#define PART(type, name, shape, words)                                                             \
        parts.name = parts.end;                                                                    \
        parts.end += 8 * (words);
        SF_FUSED_PARTS(PART, dims, operands, constants)
#undef PART
        parts.also = parts.end;
        parts.also_size = offsetof(sf_also, step) + dims * sizeof(sf_i64);
        parts.end += spec->fused.beside * parts.also_size;
        return parts;
}

void sf_cuda_values(const sf_step *s, uint64_t *identity, uint64_t *neutral, uint64_t *initial)
{
        *identity = s->identity.u64;
        *initial = s->has_initial || sf_op_is(s->op, SF_INDEX) ? s->initial.u64 : 0;
        if (s->acc == SF_DT_F32) {
                /* The other bytes of the union are undefined. */
                *identity = (uint32_t)s->identity.u64;
                *initial = sf_op_is(s->op, SF_INDEX) ? *initial : (uint32_t)*initial;
        }
        /* For reals, adding -0.0 changes no bit, not even of 0.0. */
        const bool real = s->acc == SF_DT_F32 || s->acc == SF_DT_F64;
        *neutral = real && !*identity ? (uint64_t)1 << (sf_dtypes[s->acc].bits - 1) : *identity;
}

/* Extends the memory from begin to end by `len` positions that are `stride` bytes apart. */
static void reach(uint64_t *begin, uint64_t *end, int64_t len, int64_t stride)
{
        const uint64_t by = (uint64_t)(len - 1) * (uint64_t)stride;
        if (len > 1 && stride < 0)
                *begin += by;
        else if (len > 1)
                *end += by;
}

draft sf_cuda_draft(sf_cuda_launch *launch, sf_cuda_kernel kernel, const layout *l)
{
        const sf_step *s = l->step;
        sf_cuda_spec *spec = &launch->spec;
        bool down = l->nbatch < s->nbatch;
        const bool ragged = (s->nseq == 1 || (down && (l->early || l->shift_in))) &&
                            !aligned_to(down ? l->line.len : s->n, l->width);
        draft d;
        d.launch = launch;
        d.across = d.parts = 0;
        d.l = *l;
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        spec->kernel = kernel;
        spec->op = (int32_t)s->op;
        spec->in = s->in;
        spec->acc = s->acc;
        spec->out = s->out;
        spec->width = l->width;
        spec->flags = (s->m ? SF_CUDA_MASK : 0) | (s->exclusive && !s->fold ? SF_CUDA_EXCLUSIVE : 0) | (s->has_initial ? SF_CUDA_INITIAL : 0) |
                      (down && s->fold ? SF_CUDA_DOWN : 0) | (ragged ? SF_CUDA_RAGGED : 0) |
                      (l->shift_in ? SF_CUDA_SHIFT_IN : 0) | (l->shift_out ? SF_CUDA_SHIFT_OUT : 0) | (l->early ? SF_CUDA_EARLY : 0) |
                      (s->left ? SF_CUDA_LEFTS : 0) | (s->values && !s->left && sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc) ? SF_CUDA_VALUES : 0) |
                      unit(l->line.x, l->in) * SF_CUDA_X_UNIT | (s->fold ? 0 : unit(l->line.y, size_of(s->out))) * SF_CUDA_Y_UNIT |
                      (s->m ? mask_unit(l) : 0) * SF_CUDA_M_UNIT;
        spec->extra[SF_CUDA_NBATCH] = l->nbatch;
        spec->extra[SF_CUDA_NSEQ] = s->nseq;

        const sf_dim *seq = s->dims + s->nbatch;
        memset(&d.p, 0, offsetof(sf_params, dims));
        d.p.x = (uint64_t)(uintptr_t)s->x;
        d.p.y = (uint64_t)(uintptr_t)s->y;
        d.p.m = (uint64_t)(uintptr_t)s->m;
        d.p.x_begin = d.p.x;
        d.p.x_end = d.p.x + (uint64_t)l->in;
        d.p.m_begin = d.p.m;
        d.p.m_end = d.p.m + 1;
        for (int32_t k = 0; k < s->nbatch + s->nseq; k++) {
                reach(&d.p.x_begin, &d.p.x_end, s->dims[k].len, s->dims[k].x);
                reach(&d.p.m_begin, &d.p.m_end, s->dims[k].len, s->dims[k].m);
        }
        d.p.n = s->n;
        d.p.sx = seq[s->nseq - 1].x;
        d.p.sy = seq[s->nseq - 1].y;
        d.p.sm = seq[s->nseq - 1].m;
        sf_cuda_values(s, &d.p.identity, &d.p.neutral, &d.p.initial);
        d.p.initial_also = s->has_initial ? (uint64_t)s->initial.index : 0; /* whatever its type */
        if (s->left) {
                d.p.left = (uint64_t)(uintptr_t)s->left;
                d.p.left_entry = s->left_entry;
                /* Of a line that is several columns side by side, sf_cuda_as_line has set it. */
                d.p.il = down ? l->line.left : seq[s->nseq - 1].left;
                d.p.before = s->before;
        }
        if (down) {
                d.p.inner = l->line.len;
                d.p.early = l->past;
                d.p.x_begin += (uint64_t)l->past * (uint64_t)l->in;
                d.p.ix = l->line.x;
                d.p.iy = l->line.y;
                d.p.im = l->line.m;
        }
        for (int32_t k = 0; k < l->nbatch; k++)
                d.p.dims[k] = sf_cuda_params_dim(&s->dims[k]);
        for (int32_t k = 0; s->nseq > 1 && k < s->nseq; k++)
                d.p.dims[l->nbatch + k] = sf_cuda_params_dim(&seq[k]);
        return d;
}

/* Up to this many elements, it does not matter where blocks run. */
#define OVERLAPS_ELEMENTS (1 << 18)

sf_status sf_cuda_finish(const sf_context *ctx, const sf_cuda_chip *chip, draft *d, int64_t blocks, int64_t shared)
{
        sf_cuda_launch *l = d->launch;
        if (blocks > INT32_MAX)
                return sf_fail(ctx, SF_UNSUPPORTED, "the work is %" PRId64 " blocks; a CUDA launch has at most 2147483647: split the batch", blocks);
        if (shared > chip->shared_per_block)
                return sf_fail(ctx, SF_UNSUPPORTED, "a block needs %" PRId64 " bytes of shared memory; this device has %d", shared,
                               (int)chip->shared_per_block);
        /* The limit for the register allocator must be possible on this chip. */
        int32_t *resident = &l->spec.extra[SF_CUDA_RESIDENT];
        *resident = (int32_t)at_least(at_most(*resident, chip->threads_per_multiprocessor / l->spec.threads), 1);
        l->grid[0] = (uint32_t)blocks;
        l->grid[1] = l->grid[2] = 1;
        l->shared = (uint32_t)shared;
        l->scratch_fields = 0;
        /* Blocks that start early take whatever places are free then, perhaps many on one
         * multiprocessor and none on another. If they do not fill the chip and have much to do,
         * they should start evenly spread: columns of 32768 rows ran at 0.80 of a copy instead of
         * 0.93. */
        l->overlaps = 8 * blocks >= 7 * (int64_t)chip->multiprocessors * *resident ||
                      d->l.step->batch * d->l.step->n <= OVERLAPS_ELEMENTS;
        memcpy(l->params, &d->p, sf_cuda_params_parts(&l->spec).end); /* not fused yet */
        if (d->l.step->fuse || d->l.step->sibling)
                SF_TRY(sf_cuda_fuse(ctx, d));
        l->params_size = sf_cuda_params_parts(&l->spec).end;
        return SF_OK;
}

sf_status sf_cuda_draft_tile(const sf_context *ctx, const sf_cuda_chip *chip, const draft *d,
                             sf_cuda_tile *tile)
{
        const sf_cuda_spec *spec = &d->launch->spec;
        int64_t in = d->l.loads ? sf_cuda_largest_operand(&d->l) : size_of(spec->in), bytes = in, largest = in;
        int members = 0;
        for (const sf_step *s = d->l.step; s; s = several_folds(d->l.step) ? s->sibling : NULL) {
                /* A value of two components needs as many registers as two values. */
                members += several_folds(d->l.step) && sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc) ? 2 : 1;
                largest = at_least(largest, size_of((int32_t)s->acc));
                if (!s->fold)
                        largest = at_least(largest, size_of((int32_t)s->out));
        }
        SF_TRY(sf_cuda_tile_for(ctx, chip, spec, (int)in, (int)largest, tile));
        *tile = sf_cuda_tile_shared(chip, *tile, (int)in, (int)largest, members);
        /* Several operands share the registers that the tables allow for x; the tables have room
         * for a mask. */
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a layout has a step */
        if (d->l.step->fuse)
                bytes = sf_cuda_moved_bytes(&d->l) + (d->l.loads ? 0 : in);
        if (4 * bytes > 5 * in)
                tile->elements = (int32_t)pow2_down(at_least(tile->elements * in / bytes, 1));
        if (has_double(d->l.step))
                *tile = sf_cuda_tile_doubled(chip, spec, (int)largest, *tile);
        return SF_OK;
}

strip sf_cuda_strip(int64_t vectors, int64_t slots, int64_t threads)
{
        strip s = {slots, 0, ceil_div(vectors, slots), false};
        if (vectors <= at_most(4 * slots, threads / 2)) {
                s.slots = vectors;
                s.strips = 1;
                s.whole = vectors != 32;
        }
        s.groups = at_most(pow2_down(at_least(threads / s.slots, 1)), 64);
        return s;
}

/* ------------------------------------------------------------------------------------------------
 * Decisions
 * ---------------------------------------------------------------------------------------------- */

/* Do neighbours in memory belong to the batch's last dimension rather than to the sequence? */
static bool goes_down(const sf_step *s)
{
        if (!s->nbatch || !s->n)
                return false;
        int32_t seq = s->nbatch + s->nseq - 1, inner = s->nbatch - 1;
        const sf_dim *last = &s->dims[seq], *next = &s->dims[inner];
        int in = size_of(s->in), out = size_of(s->out);
        int along = (unit(last->x, in) != 0) + (!s->fold && unit(last->y, out));
        int across = (unit(next->x, in) != 0) + (!s->fold && unit(next->y, out));
        int64_t reach = magnitude(last->x) + magnitude(last->y) - magnitude(next->x) - magnitude(next->y);
        for (int32_t k = 1; s->fuse && k < s->fuse->operands; k++) {
                const sf_operand *o = &s->fuse->operand[k];
                along += unit(o->stride[seq], size_of((int32_t)o->dt)) != 0;
                across += unit(o->stride[inner], size_of((int32_t)o->dt)) != 0;
                reach += magnitude(o->stride[seq]) - magnitude(o->stride[inner]);
        }
        return along != across ? across > along : reach > 0;
}

/* A device reads only aligned elements. */
static sf_status check_address(const sf_context *ctx, const char *name, const void *address, int size)
{
        if (!aligned_to((int64_t)(uintptr_t)address, size))
                return sf_fail(ctx, SF_UNSUPPORTED, "%s has elements of %d bytes but lies at %p; on a CUDA device they must be aligned to their size", name,
                               size, address);
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Siblings
 * ---------------------------------------------------------------------------------------------- */
static bool same_program(const sf_program *a, const sf_program *b)
{
        return a->count == b->count && a->constants == b->constants && (!a->count || !memcmp(a->code, b->code, (size_t)a->count * sizeof *a->code)) &&
               (!a->constants || !memcmp(a->constant, b->constant, (size_t)a->constants * sizeof *a->constant));
}

/* Instructions that a launch needs for the step; a program without instructions is a cast. */
static int64_t codes_of(const sf_step *s)
{
        return s->fuse ? at_least(s->fuse->load.count, 1) + at_least(s->fuse->store.count, 1) : 2;
}

/* Is x loaded without a program? */
static bool loads_plainly(const sf_step *s)
{
        const sf_program *p = s->fuse ? &s->fuse->load : NULL;
        return !p || !p->count || (p->count == 1 && p->code[0].code == SF_CODE_LOAD && !p->code[0].slot && p->code[0].dt == s->in);
}

/* Do both combine the same elements? */
static bool same_loads(const sf_step *a, const sf_step *b)
{
        bool plain = loads_plainly(a);
        if (plain != loads_plainly(b))
                return false;
        /* With a bool result the identity may be `true`, which is not the accumulator's own. */
        bool same = a->in == b->in && a->acc == b->acc && (a->out == SF_DT_BOOL) == (b->out == SF_DT_BOOL);
        return same && (plain || same_program(&a->fuse->load, &b->fuse->load));
}

/* Is `other` the extreme element whose index the first one finds? */
static bool is_element_of(const sf_step *index, const sf_step *other)
{
        const sf_op op = index->op == SF_ARGMAX || index->op == SF_LAST_ARGMAX ? SF_MAX : SF_MIN;
        return sf_op_is(index->op, SF_INDEX) && other->op == op && other->fold == index->fold && other->exclusive == index->exclusive && !other->has_initial &&
               same_loads(index, other) && !(other->fuse && other->fuse->store_reads);
}

/* Is `other` the same scan, with other work on its results? */
static bool is_double_of(const sf_step *scan, const sf_step *other)
{
        if (!scan->fuse || !other->fuse || scan->fold || other->fold || scan->op != other->op)
                return false;
        if (sf_op_is(scan->op, SF_INDEX) || scan->has_initial || other->has_initial)
                return false;
        return scan->exclusive == other->exclusive && same_loads(scan, other) &&
               same_program(&scan->fuse->beside, &other->fuse->beside);
}

const char *sf_cuda_apart(int32_t count, const sf_step *const *steps, const sf_step *other)
{
        const sf_step *first = steps[0];
        int64_t codes = codes_of(other);
        for (int32_t i = 0; i < count; i++)
                codes += codes_of(steps[i]);
        if (first->n == 1)
                return "on CUDA an elementwise pass has one result";
        if (count == 1 && is_element_of(first, other))
                return NULL;
        if (count == 1 && is_double_of(first, other) && codes <= 2 * SF_PROGRAM_MAX)
                return NULL;
        if (sf_op_is(other->op, SF_PAIR) || sf_op_is(first->op, SF_PAIR))
                return "on CUDA a value of two components shares its read only with other work on its "
                       "results, an index with the element that stands there";
        if (!other->fold || (!first->fold && (count > 1 || first->op != other->op || !same_loads(first, other))))
                return "on CUDA a scan shares its read with its own total alone, or with one other "
                       "work on its results";
        if (!first->fold && other->fuse && other->fuse->store_reads)
                return "on CUDA a total beside its scan is stored without further operands";
        if (count == SF_CUDA_MEMBERS_MAX)
                return "on CUDA four results share one at most";
        return codes > 2 * SF_PROGRAM_MAX ? "together they are more elementwise work than one CUDA kernel takes" : NULL;
}

/* Do the two really walk the same elements in the same order? Their outputs may have led to
 * different dimensions. */
static bool same_walk(const sf_step *a, const sf_step *b, const sf_fuse *fa, const sf_fuse *fb)
{
        bool same = a->x == b->x && a->m == b->m && sf_step_same_walk(a, b, fa, fb);
        for (int32_t d = 0; same && d < a->nbatch + a->nseq; d++)
                same = a->dims[d].x == b->dims[d].x && a->dims[d].m == b->dims[d].m;
        return same;
}

int64_t sf_cuda_fits_32(const sf_step *s)
{
        const int size = size_of((int32_t)s->in);
        const bool wide = s->acc == SF_DT_I64 || s->acc == SF_DT_U64, integers = sf_dtypes[s->in].kind != SF_KIND_REAL;
        const bool plain = !s->has_initial && !s->fuse && !s->sibling && !s->left && !s->values && !sf_cuda_cuts(s).apart;
        return s->op == SF_SUM && wide && size <= 2 && integers && plain ? (int64_t)1 << (31 - 8 * size) : 0;
}

/*
 * Columns of bytes, or of halves whose largest or smallest is looked for: makes each two of them
 * one column, if they are an even number and lie so, and says whether it has. The kernel then has
 * half the elements, and combines two columns with one instruction. (Folds of bytes have
 * fold_packed.cuh.) H200, share of a copy, so and one by one: cummax of (131072, 3944) u8 0.48,
 * 0.26; (559, 131072) u8 0.89, 0.62; (30, 16384) i8 0.85, 0.58; cumsum of (500, 3000, 256) i8 0.75,
 * 0.57; max of (500, 3000, 256) f16 0.92, 0.89.
 */
static bool make_twins(sf_step *s)
{
        const int64_t size = size_of((int32_t)s->in), places = (int64_t)(uintptr_t)s->x | (int64_t)(uintptr_t)s->y;
        const bool extreme = s->op == SF_MAX || s->op == SF_MIN, bytes = s->in == SF_DT_U8 || s->in == SF_DT_I8;
        const bool halves = s->in == SF_DT_F16 || s->in == SF_DT_BF16;
        sf_dim *line = &s->dims[s->nbatch - 1];
        bool fits = s->in == s->out && (bytes ? !s->fold && (extreme || s->op == SF_SUM) : halves && extreme);
        fits = fits && !s->m && !s->fuse && !s->sibling && !s->left && !s->values && !s->has_initial && !s->exclusive;
        fits = fits && line->x == size && line->y == size && line->len >= 4 && aligned_to(line->len, 2) && aligned_to(places, 2 * size);
        for (int32_t d = 0; d < s->nbatch + s->nseq; d++)
                if (d != s->nbatch - 1)
                        fits = fits && aligned_to(s->dims[d].x | s->dims[d].y, 2 * size);
        if (!fits)
                return false;
        /* In either half: infinities, or the first or last byte. */
        const uint64_t inf = s->in == SF_DT_F16 ? 0x7c00 : 0x7f80, last = s->in == SF_DT_I8 ? 0x7f00 : 0xff00;
        const uint64_t least = halves ? 0x8000 | inf : last ^ 0xff00, most = halves ? inf : last;
        line->len /= 2;
        line->x = line->y = 2 * size;
        s->batch /= 2;
        s->in = s->out = bytes ? SF_DT_U16 : SF_DT_U32;
        s->acc = SF_DT_U32;
        s->identity.u64 = (s->op == SF_SUM ? 0 : s->op == SF_MAX ? least : most) * 0x10001;
        return true;
}

static sf_status plan_alone(const sf_context *ctx, const sf_step *step, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        plan->launches = 0;
        plan->scratch = 0;
        plan->watched = false;
        sf_step own = *step;
        if (step->n < sf_cuda_fits_32(step))
                own.acc = SF_DT_I32;
        /* An index has as many bits as its element, and a wider type of the same kind keeps the
         * order of elements. The number that reversed indices count back from is passed as the
         * initial value, which the operation does not have. */
        if (sf_op_is(step->op, SF_INDEX)) {
                own.initial.u64 = step->reverse ? (uint64_t)(step->before + step->n + step->after) : 0;
                own.acc = sf_cuda_held_acc(step);
                own.identity = sf_identity(own.op, own.acc);
        }
        step = &own;
        if (step->segments.offsets)
                return sf_cuda_plan_segments(ctx, step, goes_down(step), chip, plan);
        if (step->n == 1)
                return sf_cuda_plan_map(ctx, step, chip, plan);
        const bool down = goes_down(step);
        if (sf_cuda_cuts(step).apart)
                return sf_cuda_plan_cuts(ctx, step, down, chip, plan);
        const sf_dt of = step->in;
        const bool twins = down && make_twins(&own);
        SF_TRY(step->fold ? sf_cuda_plan_fold(ctx, step, down, chip, plan) : sf_cuda_plan_scan(ctx, step, down, chip, plan));
        for (int32_t i = 0; twins && i < plan->launches; i++)
                plan->launch[i].spec.extra[SF_CUDA_TWIN] = 1 + (int32_t)of;
        return SF_OK;
}

/* Makes copies of the step and of those siblings that share its read; only these are siblings of
 * the copies. All are fused, except a scan. */
static sf_status plan_shared(const sf_context *ctx, const sf_step *step, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        sf_step copy[SF_CUDA_MEMBERS_MAX];
        sf_fuse plain[SF_CUDA_MEMBERS_MAX];
        const sf_step *members[SF_CUDA_MEMBERS_MAX];
        for (plan->steps = 0; step; step = step->sibling) {
                int32_t k = plan->steps;
                if (k && (step->segments.offsets || sf_cuda_apart(k, members, step)))
                        break;
                copy[k] = *step;
                copy[k].sibling = NULL;
                if (!step->fuse) {
                        sf_step_plain_fuse(step, &plain[k]);
                        copy[k].fuse = &plain[k];
                }
                if (k && !same_walk(&copy[0], &copy[k], copy[0].fuse, copy[k].fuse))
                        break;
                if (k)
                        copy[k - 1].sibling = &copy[k];
                members[plan->steps++] = &copy[k];
        }
        /* cppcheck-suppress uninitvar ; there is at least one step */
        if (plan->steps == 1 || (!copy[0].fold && !has_double(&copy[0])))
                copy[0].fuse = copy[0].fuse == &plain[0] ? NULL : copy[0].fuse;
        return plan_alone(ctx, &copy[0], chip, plan);
}

sf_status sf_cuda_plan_step(const sf_context *ctx, const sf_step *step, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        plan->steps = 1;
        SF_TRY(step->sibling ? plan_shared(ctx, step, chip, plan) : plan_alone(ctx, step, chip, plan));
        for (int32_t i = 0; i < plan->steps; i++, step = step->sibling) {
                uint32_t reads = sf_cuda_reads(step);
                for (int32_t k = 0; reads >> k; k++)
                        if (reads >> k & 1)
                                /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as below */
                                SF_TRY(check_address(ctx, k ? "an operand" : "x", k ? (const void *)step->fuse->operand[k].data : step->x,
                                                     size_of((int32_t)(k ? step->fuse->operand[k].dt : step->in))));
                /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): plan->steps counts step and the siblings that plan_shared took */
                SF_TRY(check_address(ctx, "out", step->y, size_of(step->out)));
                if (step->segments.offsets)
                        SF_TRY(check_address(ctx, "offsets", step->segments.offsets, step->segments.wide ? 8 : 4));
        }
        return SF_OK;
}
