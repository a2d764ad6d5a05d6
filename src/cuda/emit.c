/*
 * Step to launches: which kernel, which tile, which parameters; and a specialisation to the prelude that makes it.
 *
 * Two questions decide. Which dimension do neighbours in memory belong to: the sequence (rows) or the batch (columns)? And
 * are there enough sequences to fill the chip, or must one be shared by many blocks (chained, or a fold in chunks)?
 */
#include "cuda/emit_draft.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(offsetof(sf_cuda_params, dims) == 160 && sizeof(sf_dim) == 32, "tree.cuh has the same struct");
_Static_assert(sizeof(sf_cuda_params) <= SF_CUDA_MAX_PARAMS, "a launch holds every parameter a step can need");

/* ------------------------------------------------------------------------------------------------------------
 * Where things are
 * ---------------------------------------------------------------------------------------------------------- */

/* May every line be read (or written) `bytes` at a time from an address and strides like these? */
static bool aligned(uint64_t address, int64_t stride, int size, int bytes)
{
        /* A vector that runs backwards begins at its last element. */
        return divides((int64_t)(address + (stride < 0 ? (uint64_t)size : 0)), bytes);
}

layout sf_cuda_layout(const sf_step *s, bool down)
{
        const sf_dim *seq = s->dims + s->nbatch;
        layout l = {.step = s, .nbatch = s->nbatch - down, .line = down ? s->dims[s->nbatch - 1] : seq[s->nseq - 1]};
        int in = size_of(s->in), out = size_of(s->out), all = s->nbatch + s->nseq;
        int most = 16 / (s->fold || in > out ? in : out);
        l.width = 1;
        for (int w = 2; w <= most; w *= 2) {
                bool fits = w <= l.line.len && unit(l.line.x, in) && aligned((uint64_t)(uintptr_t)s->x, l.line.x, in, w * in);
                if (!s->fold)
                        fits = fits && unit(l.line.y, out) && aligned((uint64_t)(uintptr_t)s->y, l.line.y, out, w * out);
                /* Vectors of columns, or of the last of several dimensions, may not reach past its end. */
                if (down || s->nseq > 1)
                        fits = fits && divides(l.line.len, w) && l.line.x > 0 && (s->fold || l.line.y > 0);
                int32_t own = down ? s->nbatch - 1 : all - 1;
                for (int32_t d = 0; d < all; d++)
                        if (d != own)
                                fits = fits && divides(s->dims[d].x, w * in) && (s->fold || divides(s->dims[d].y, w * out));
                if (fits)
                        l.width = w;
        }
        return l;
}

/* The mask is read as vectors too where it allows. */
static int mask_unit(const layout *l)
{
        const sf_step *s = l->step;
        int u = unit(l->line.m, 1);
        if (!u || l->width == 1)
                return u;
        bool fits = aligned((uint64_t)(uintptr_t)s->m, l->line.m, 1, l->width);
        int32_t own = l->nbatch < s->nbatch ? s->nbatch - 1 : s->nbatch + s->nseq - 1;
        for (int32_t d = 0; d < s->nbatch + s->nseq; d++)
                if (d != own)
                        fits = fits && divides(s->dims[d].m, l->width);
        return fits ? u : 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * A launch under construction
 * ---------------------------------------------------------------------------------------------------------- */
static int32_t sf_cuda_dims(const sf_cuda_spec *spec)
{
        int32_t count = spec->extra[SF_CUDA_NBATCH] + (spec->extra[SF_CUDA_NSEQ] > 1 ? spec->extra[SF_CUDA_NSEQ] : 0);
        return count ? count : 1;
}

static size_t sf_cuda_params_size(const sf_cuda_spec *spec)
{
        return offsetof(sf_cuda_params, dims) + (size_t)sf_cuda_dims(spec) * sizeof(sf_dim);
}

draft sf_cuda_draft(sf_cuda_launch *launch, sf_cuda_kernel kernel, const layout *l)
{
        const sf_step *s = l->step;
        sf_cuda_spec *spec = &launch->spec;
        bool down = l->nbatch < s->nbatch;
        draft d;
        d.launch = launch;
        memset(spec, 0, sizeof *spec);
        spec->kernel = kernel;
        spec->op = (int32_t)s->op;
        spec->in = s->in;
        spec->acc = s->acc;
        spec->out = s->out;
        spec->width = l->width;
        spec->flags = (s->m ? SF_CUDA_MASK : 0) | (s->exclusive && !s->fold ? SF_CUDA_EXCLUSIVE : 0) | (s->has_initial ? SF_CUDA_INITIAL : 0) |
                      (down && s->fold ? SF_CUDA_DOWN : 0) | (!down && s->nseq == 1 && !divides(s->n, l->width) ? SF_CUDA_RAGGED : 0) |
                      unit(l->line.x, size_of(s->in)) * SF_CUDA_X_UNIT | (s->fold ? 0 : unit(l->line.y, size_of(s->out))) * SF_CUDA_Y_UNIT |
                      (s->m ? mask_unit(l) : 0) * SF_CUDA_M_UNIT;
        spec->extra[SF_CUDA_NBATCH] = l->nbatch;
        spec->extra[SF_CUDA_NSEQ] = s->nseq;

        const sf_dim *seq = s->dims + s->nbatch;
        memset(&d.p, 0, offsetof(sf_cuda_params, dims));
        d.p.x = (uint64_t)(uintptr_t)s->x;
        d.p.y = (uint64_t)(uintptr_t)s->y;
        d.p.m = (uint64_t)(uintptr_t)s->m;
        d.p.n = s->n;
        d.p.sx = seq[s->nseq - 1].x;
        d.p.sy = seq[s->nseq - 1].y;
        d.p.sm = seq[s->nseq - 1].m;
        d.p.identity = s->identity.u64;
        d.p.neutral = s->identity.u64;
        d.p.initial = s->has_initial ? s->initial.u64 : 0;
        if (s->acc == SF_DT_F32) {
                /* The other bytes of the union may be anything. */
                d.p.identity = (uint32_t)s->identity.u64;
                d.p.initial = s->has_initial ? (uint32_t)s->initial.u64 : 0;
                d.p.neutral = s->op == SF_SUM ? 0x80000000u : d.p.identity;
        } else if (s->acc == SF_DT_F64 && s->op == SF_SUM) {
                d.p.neutral = (uint64_t)1 << 63;
        }
        if (down) {
                d.p.inner = l->line.len;
                d.p.ix = l->line.x;
                d.p.iy = l->line.y;
                d.p.im = l->line.m;
        }
        for (int32_t k = 0; k < l->nbatch; k++)
                d.p.dims[k] = s->dims[k];
        for (int32_t k = 0; s->nseq > 1 && k < s->nseq; k++)
                d.p.dims[l->nbatch + k] = seq[k];
        return d;
}

sf_status sf_cuda_finish(const sf_context *ctx, const sf_cuda_chip *chip, draft *d, int64_t blocks, int64_t shared)
{
        sf_cuda_launch *l = d->launch;
        if (blocks > INT32_MAX)
                return sf_fail(ctx, SF_UNSUPPORTED, "the work is %" PRId64 " blocks; a CUDA launch has at most 2147483647: split the batch", blocks);
        if (shared > chip->shared_per_block)
                return sf_fail(ctx, SF_UNSUPPORTED, "a block needs %" PRId64 " bytes of shared memory; this device has %d", shared,
                               (int)chip->shared_per_block);
        /* What is asked of the register allocator must be possible on this chip. */
        int32_t *resident = &l->spec.extra[SF_CUDA_RESIDENT];
        *resident = (int32_t)at_least(at_most(*resident, chip->threads_per_multiprocessor / l->spec.threads), 1);
        l->grid[0] = (uint32_t)blocks;
        l->grid[1] = l->grid[2] = 1;
        l->shared = (uint32_t)shared;
        l->scratch_fields = 0;
        l->params_size = sf_cuda_params_size(&l->spec);
        memcpy(l->params, &d->p, l->params_size);
        return SF_OK;
}

sf_cuda_tile sf_cuda_draft_tile(const sf_cuda_chip *chip, const sf_cuda_spec *spec)
{
        return sf_cuda_tile_for(chip, spec, (int)size_of(spec->in), (int)at_least(acc_size((sf_dt)spec->acc), at_least(size_of(spec->in), size_of(spec->out))));
}

bool sf_cuda_rows_in_one_piece(const sf_step *s)
{
        const sf_dim *seq = s->dims + s->nbatch, *row = seq - 1;
        int64_t in = size_of(s->in), out = size_of(s->out);
        if (s->nbatch != 1 || s->nseq != 1 || s->m || s->n < 2 || magnitude(seq->x) != in || row->x != s->n * in)
                return false;
        /* A sequence that runs backwards begins at its last element. */
        int64_t first = (int64_t)(uintptr_t)s->x - (seq->x < 0 ? (s->n - 1) * in : 0);
        if (!divides(first, 16))
                return false;
        return s->fold || (in == out && seq->y == seq->x && row->y == row->x && divides(first - (int64_t)(uintptr_t)s->x + (int64_t)(uintptr_t)s->y, 16));
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

/* ------------------------------------------------------------------------------------------------------------
 * Deciding
 * ---------------------------------------------------------------------------------------------------------- */

/* Do neighbours in memory belong to the batch's last dimension rather than to the sequence? */
static bool goes_down(const sf_step *s)
{
        if (!s->nbatch || !s->n)
                return false;
        const sf_dim *seq = &s->dims[s->nbatch + s->nseq - 1], *inner = &s->dims[s->nbatch - 1];
        int in = size_of(s->in), out = size_of(s->out);
        if (s->n == 1)
                return false;
        int along = (unit(seq->x, in) != 0) + (!s->fold && unit(seq->y, out));
        int across = (unit(inner->x, in) != 0) + (!s->fold && unit(inner->y, out));
        if (along != across)
                return across > along;
        return magnitude(inner->x) + magnitude(inner->y) < magnitude(seq->x) + magnitude(seq->y);
}

/* A device reads whole elements. */
static sf_status check_address(const sf_context *ctx, const char *name, const void *address, int size)
{
        if ((uintptr_t)address % (uintptr_t)size)
                return sf_fail(ctx, SF_UNSUPPORTED, "%s has elements of %d bytes but lies at %p; on a CUDA device they must be aligned to their size", name,
                               size, address);
        return SF_OK;
}

sf_status sf_cuda_plan_step(const sf_context *ctx, const sf_step *step, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        SF_TRY(check_address(ctx, "x", step->x, size_of(step->in)));
        SF_TRY(check_address(ctx, "out", step->y, size_of(step->out)));
        bool down = goes_down(step);
        plan->launches = 0;
        plan->scratch = plan->scratch_clear = 0;
        return step->fold ? sf_cuda_plan_fold(ctx, step, down, chip, plan) : sf_cuda_plan_scan(ctx, step, down, chip, plan);
}

/* ------------------------------------------------------------------------------------------------------------
 * The prelude
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct writer {
        char *text;
        size_t size, length;
} writer;

static void SF_PRINTF(2, 3) put(writer *w, const char *format, ...)
{
        va_list args;
        va_start(args, format);
        int wrote = vsnprintf(w->length < w->size ? w->text + w->length : NULL, w->length < w->size ? w->size - w->length : 0, format, args);
        va_end(args);
        w->length += wrote > 0 ? (size_t)wrote : 0;
}

static void put_flag(writer *w, const sf_cuda_spec *spec, const char *name, int flag)
{
        put(w, "#define %s %d\n", name, (spec->flags & flag) != 0);
}

static void put_unit(writer *w, const sf_cuda_spec *spec, const char *name, int shift)
{
        static const int signs[4] = {0, 1, -1, 0};
        put(w, "#define %s (%d)\n", name, signs[spec->flags / shift & 3]);
}

/* The macros of a kernel file's own, in the order of sf_cuda_spec.extra from SF_CUDA_OWN on. */
static const char *const own_names[SF_CUDA_KERNEL_COUNT][SF_CUDA_OWNS] = {
        [SF_CUDA_SCAN_ROWS] = {"SF_TEAM", "SF_ROWS", "SF_STAGED"},
        [SF_CUDA_SCAN_COLUMNS] = {"SF_SLOTS", "SF_GROUPS", "SF_STAGED"},
        [SF_CUDA_SCAN_CHAINED] = {"SF_COLUMNS", "SF_STAGES", "SF_AHEAD", "SF_WATCHERS", "SF_DEPTH"},
};
static const char *const fold_names[2][SF_CUDA_OWNS] = {{"SF_TEAM", "SF_ROWS", "SF_STAGED"}, {"SF_SLOTS", "SF_GROUPS", "SF_ROWS"}};

size_t sf_cuda_prelude(const sf_cuda_spec *spec, char *text, size_t size)
{
        writer w = {text, size, 0};
        if (size)
                text[0] = 0;
        int32_t number = 0;
#define DTYPE(name, NAME, ctype, code, bits, kind) put(&w, "#define SF_DT_" #NAME " %d\n", (int)number++);
#include "core/dtypes.def"
#undef DTYPE
#define OP(name, NAME, real, integer, natural) put(&w, "#define SF_OP_" #NAME " %d\n", (int)SF_##NAME);
#include "core/ops.def"
#undef OP
        put(&w, "#define SF_OP %d\n#define SF_IN %d\n#define SF_ACC %d\n#define SF_OUT %d\n", (int)spec->op, (int)spec->in, (int)spec->acc,
            (int)spec->out);
        put_flag(&w, spec, "SF_MASK", SF_CUDA_MASK);
        put_flag(&w, spec, "SF_EXCLUSIVE", SF_CUDA_EXCLUSIVE);
        put_flag(&w, spec, "SF_INITIAL", SF_CUDA_INITIAL);
        put_flag(&w, spec, "SF_RAGGED", SF_CUDA_RAGGED);
        put_flag(&w, spec, "SF_SINGLE", SF_CUDA_SINGLE);
        put_flag(&w, spec, "SF_PARTIAL", SF_CUDA_PARTIAL);
        put_flag(&w, spec, "SF_RESUME", SF_CUDA_RESUME);
        put_flag(&w, spec, "SF_DOWN", SF_CUDA_DOWN);
        put_flag(&w, spec, "SF_FLAT", SF_CUDA_FLAT);
        put_unit(&w, spec, "SF_X_UNIT", SF_CUDA_X_UNIT);
        put_unit(&w, spec, "SF_Y_UNIT", SF_CUDA_Y_UNIT);
        put_unit(&w, spec, "SF_M_UNIT", SF_CUDA_M_UNIT);
        put(&w, "#define SF_THREADS %d\n#define SF_ITEMS %d\n#define SF_WIDTH %d\n", (int)spec->threads, (int)spec->items, (int)spec->width);
        put(&w, "#define SF_NBATCH %d\n#define SF_NSEQ %d\n#define SF_RESIDENT %d\n", (int)spec->extra[SF_CUDA_NBATCH],
            (int)spec->extra[SF_CUDA_NSEQ], (int)spec->extra[SF_CUDA_RESIDENT]);
        put(&w, "#define SF_DIMS %d\n#define SF_PARAMS_SIZE %zu\n", (int)sf_cuda_dims(spec), sf_cuda_params_size(spec));
        const char *const *names = spec->kernel == SF_CUDA_FOLD ? fold_names[(spec->flags & SF_CUDA_DOWN) != 0] : own_names[spec->kernel];
        for (int k = 0; k < SF_CUDA_OWNS; k++)
                if (names[k])
                        put(&w, "#define %s %d\n", names[k], (int)spec->extra[SF_CUDA_OWN + k]);
        return w.length;
}
