/* Puts the programs of a fused step into a launch: how each operand is laid out, and where the
 * kernel finds it. */
#include "cuda/emit_draft.h"

#include <string.h>

static bool is_real(sf_dt dt)
{
        return sf_dtypes[dt].kind == SF_KIND_REAL;
}

/* A program without instructions is a cast. Plain loads and stores do the casts between types of
 * one kind. */
bool sf_cuda_loads_fused(const sf_step *s)
{
        /* A narrow accumulator is held in 32 bits: values that do not fit must wrap before they are
         * compared. */
        bool wraps = size_of((int32_t)s->acc) < 4 && s->in != s->acc && s->in != SF_DT_BOOL;
        return s->fuse && (s->fuse->load.count || sf_op_is(s->op, SF_TWO) || (!is_real(s->acc) && (is_real(s->in) || wraps)));
}

bool sf_cuda_stores_fused(const sf_step *s)
{
        return s->fuse && (s->fuse->store.count || is_real(sf_op_result(s->op, s->acc)) != is_real(s->out) || s->out == SF_DT_BOOL);
}

/* ------------------------------------------------------------------------------------------------
 * Operands along a line
 * ---------------------------------------------------------------------------------------------- */

uint32_t sf_cuda_program_reads(const sf_program *p, uint32_t none)
{
        uint32_t bits = p->count ? 0 : none;
        for (int32_t i = 0; i < p->count; i++)
                if (p->code[i].code == SF_CODE_LOAD)
                        bits |= (uint32_t)1 << p->code[i].slot;
        return bits;
}

/* A load program without instructions reads x. */
static uint32_t reads_in(const sf_step *s)
{
        const uint32_t other = sf_op_is(s->op, SF_TWO) ? sf_cuda_program_reads(&s->fuse->beside, 0) : 0;
        return other | (s->fuse ? sf_cuda_program_reads(&s->fuse->load, 1) : 1);
}

static uint32_t reads_out(const sf_step *s)
{
        return sf_cuda_stores_fused(s) ? sf_cuda_program_reads(&s->fuse->store, 0) : 0;
}

static uint32_t load_reads(const layout *l)
{
        uint32_t bits = 0;
        for (const sf_step *s = l->loads ? l->step : NULL; s; s = several_folds(l->step) ? s->sibling : NULL)
                bits |= reads_in(s);
        return bits;
}

static uint32_t store_reads(const layout *l)
{
        uint32_t bits = 0;
        const bool several = several_folds(l->step) || has_double(l->step);
        for (const sf_step *s = l->step; s; s = several ? s->sibling : NULL)
                bits |= reads_out(s);
        return bits;
}

uint32_t sf_cuda_reads(const sf_step *s)
{
        return reads_in(s) | reads_out(s);
}

/* A fold has one result for each line. So what its store reads does not change along the line,
 * unless the line is the columns. */
static uint32_t moved_reads(const layout *l)
{
        bool down = l->nbatch < l->step->nbatch;
        return load_reads(l) | (l->step->fold && !down ? 0 : store_reads(l));
}

/* The dimension that is the line. */
static int32_t line_dim(const layout *l)
{
        const sf_step *s = l->step;
        return l->nbatch < s->nbatch ? s->nbatch - 1 : s->nbatch + s->nseq - 1;
}

static int64_t line_stride(const layout *l, int32_t k)
{
        return l->step->fuse->operand[k].stride[line_dim(l)];
}

/* Can operand k, whose elements are contiguous along the line, be read `width` at a time on every
 * line? */
static bool suits(const layout *l, int32_t k, int width)
{
        const sf_operand *o = &l->step->fuse->operand[k];
        int32_t own = line_dim(l), all = l->step->nbatch + l->step->nseq;
        int64_t size = size_of((int32_t)o->dt), first = (int64_t)(uintptr_t)o->data + (o->stride[own] < 0 ? size : 0);
        bool fits = aligned_to(first, width * size);
        for (int32_t d = 0; d < all; d++)
                fits = fits && (d == own || aligned_to(o->stride[d], width * size));
        return fits;
}

int sf_cuda_operand_unit(const layout *l, int32_t k)
{
        int64_t stride = line_stride(l, k);
        int u = unit(stride, size_of((int32_t)l->step->fuse->operand[k].dt));
        if (!stride && !l->step->fuse->operand[k].lacks_last)
                return 3;
        return u && (l->width == 1 || suits(l, k, l->width)) ? u : 0;
}

bool sf_cuda_loose(const layout *l, int32_t k)
{
        const sf_operand *o = &l->step->fuse->operand[k];
        const int size = size_of((int32_t)o->dt);
        return l->loose && load_reads(l) >> k & 1 && !o->lacks_last && unit(line_stride(l, k), size) && l->width * size >= 4 && !sf_cuda_operand_unit(l, k);
}

/* How a scan reads an operand that lacks an element: its elements may be contiguous, but not
 * aligned. */
static int loosely(const layout *l, int32_t k)
{
        const sf_operand *o = &l->step->fuse->operand[k];
        const int u = unit(line_stride(l, k), size_of((int32_t)o->dt));
        if (!o->lacks_last)
                return sf_cuda_loose(l, k) ? SF_CUDA_OPERAND_LOOSE | u : 0;
        const bool loose = u && !sf_cuda_operand_unit(l, k);
        return SF_CUDA_OPERAND_SHORT | (loose ? SF_CUDA_OPERAND_LOOSE | u : 0);
}

/* Does a fold of columns read only one row of operand k, a vector for each thread? Then the kernel
 * loads it once for all rows. */
static bool is_still(const layout *l, int32_t k)
{
        const sf_step *s = l->step;
        return s->fold && s->nseq == 1 && l->nbatch < s->nbatch && !s->fuse->operand[k].stride[s->nbatch] && sf_cuda_operand_unit(l, k);
}

static int bytes_of(const layout *l, uint32_t which)
{
        int sum = 0;
        for (int32_t k = 0; which >> k; k++)
                if (which >> k & 1 && line_stride(l, k) && !is_still(l, k))
                        sum += size_of((int32_t)l->step->fuse->operand[k].dt);
        return sum;
}

int sf_cuda_loaded_bytes(const layout *l)
{
        return bytes_of(l, load_reads(l));
}

int sf_cuda_moved_bytes(const layout *l)
{
        return bytes_of(l, load_reads(l)) + bytes_of(l, moved_reads(l) & ~load_reads(l));
}

int sf_cuda_largest_operand(const layout *l)
{
        uint32_t which = moved_reads(l);
        int largest = 1;
        for (int32_t k = 0; which >> k; k++)
                if (which >> k & 1 && line_stride(l, k))
                        largest = (int)at_least(largest, size_of((int32_t)l->step->fuse->operand[k].dt));
        return largest;
}

int sf_cuda_staged_bytes(const layout *l)
{
        uint32_t which = load_reads(l);
        int sum = l->loads ? 0 : l->width * size_of((int32_t)l->step->in);
        for (int32_t k = 0; which >> k; k++)
                if (which >> k & 1)
                        sum += (line_stride(l, k) ? l->width : 1) * size_of((int32_t)l->step->fuse->operand[k].dt);
        return (int)at_least(sum, 1);
}

bool sf_cuda_operands_flat(const sf_step *s)
{
        bool flat = true;
        for (int32_t k = 0; s->fuse && k < s->fuse->operands; k++) {
                const sf_operand *o = &s->fuse->operand[k];
                int64_t size = size_of((int32_t)o->dt), inner = o->stride[s->nbatch - 1], seq = o->stride[s->nbatch];
                flat = flat && !o->lacks_last && seq == s->dims[s->nbatch - 1].len * inner && (!inner || inner == size);
        }
        return flat;
}

/* The largest result of a scan, including one that shares its launch. */
static int largest_result(const sf_step *s)
{
        return (int)at_least(size_of((int32_t)s->out), s->sibling && !s->sibling->fold ? size_of((int32_t)s->sibling->out) : 0);
}

/*
 * The first operand with contiguous elements decides, x before the others, and for a scan also the
 * output. The others are read as vectors if they happen to be aligned too. No vector is larger than
 * one access.
 */
int sf_cuda_fused_width(const layout *l)
{
        const sf_step *s = l->step;
        const sf_dim *line = &s->dims[line_dim(l)];
        int out = size_of(s->out), all = s->nbatch + s->nseq, best = 1;
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): every dtype has a size */
        int most = 16 / (int)at_least(sf_cuda_largest_operand(l), s->fold ? 1 : largest_result(s));
        uint32_t which = load_reads(l);
        int32_t leader = -1;
        /* vectors must not extend past the end */
        bool short_lines = l->nbatch < s->nbatch || s->nseq > 1;
        for (int32_t k = 0; which >> k && leader < 0; k++)
                if (which >> k & 1 && unit(line_stride(l, k), size_of((int32_t)s->fuse->operand[k].dt)))
                        leader = k;
        if (leader < 0 && s->fold)
                return 1;
        for (int w = 2; w <= most; w *= 2) {
                bool fits = w <= line->len && (leader < 0 || suits(l, leader, w));
                if (!s->fold) {
                        int64_t first = (int64_t)(uintptr_t)s->y + (line->y < 0 ? out : 0);
                        fits = fits && unit(line->y, out) && aligned_to(first, w * out);
                        for (int32_t d = 0; d < all; d++)
                                fits = fits && (d == line_dim(l) || aligned_to(s->dims[d].y, w * out));
                }
                if (short_lines)
                        fits = fits && aligned_to(line->len, w) && (leader < 0 || line_stride(l, leader) > 0) && (s->fold || line->y > 0);
                if (fits)
                        best = w;
        }
        return best;
}

/* How the results of another scan in the launch are laid out along the line, as in
 * sf_cuda_operand_unit. */
static int result_unit(const layout *l, const sf_step *other)
{
        const int64_t size = size_of((int32_t)other->out), stride = other->dims[line_dim(l)].y;
        bool fits = aligned_to((int64_t)(uintptr_t)other->y + (stride < 0 ? size : 0), l->width * size);
        for (int32_t d = 0; d < other->nbatch + other->nseq; d++)
                fits = fits && (d == line_dim(l) || aligned_to(other->dims[d].y, l->width * size));
        return fits || l->width == 1 ? unit(stride, (int)size) : 0;
}

/* ------------------------------------------------------------------------------------------------
 * Writing into the launch
 * ---------------------------------------------------------------------------------------------- */

/* Appends a program, with its operands and constants renumbered. A program without instructions
 * becomes `instead`. */
static void append(sf_cuda_fused *f, const sf_program *p, sf_instruction instead, const uint8_t *number, uint8_t *count)
{
        sf_instruction *to = f->code + sf_cuda_codes(f);
        if (!p->count)
                *to++ = instead;
        for (int32_t i = 0; i < p->count; i++, to++) {
                *to = p->code[i];
                if (to->code == SF_CODE_LOAD)
                        to->slot = number[to->slot];
                else if (to->code == SF_CODE_CONSTANT)
                        to->slot = (uint8_t)(to->slot + f->constants);
        }
        *count = (uint8_t)(p->count ? p->count : 1);
        f->constants = (uint8_t)(f->constants + p->constants);
}

static unsigned char *put(unsigned char *at, uint64_t word)
{
        memcpy(at, &word, 8);
        return at + 8;
}

static unsigned char *put_constants(unsigned char *at, const sf_program *p)
{
        for (int32_t k = 0; k < p->constants; k++)
                at = put(at, p->constant[k].u64);
        return at;
}

void sf_cuda_append_programs(sf_cuda_fused *f, const sf_step *s, bool loads, bool stores, const uint8_t *number, uint8_t *loaded, uint8_t *stored)
{
        if (loads)
                append(f, &s->fuse->load, (sf_instruction){SF_CODE_LOAD, (uint8_t)s->in, number[0], {0}}, number, loaded);
        if (loads && sf_op_is(s->op, SF_TWO))
                append(f, &s->fuse->beside, (sf_instruction){0}, number, &f->others);
        if (stores)
                append(f, &s->fuse->store, (sf_instruction){SF_CODE_RESULT, (uint8_t)sf_op_result(s->op, s->acc), 0, {0}}, number, stored);
}

sf_status sf_cuda_fuse(const sf_context *ctx, draft *d)
{
        const layout *l = &d->l;
        const sf_step *s = l->step;
        const sf_fuse *fuse = s->fuse;
        sf_cuda_spec *spec = &d->launch->spec;
        sf_cuda_fused *f = &spec->fused;
        const bool partial = spec->flags & SF_CUDA_PARTIAL, folds = several_folds(s), down = l->nbatch < s->nbatch;
        const bool stores = !partial && (folds || has_double(s) || sf_cuda_stores_fused(s));
        uint32_t loaded = load_reads(l), stored = stores ? store_reads(l) : 0;
        uint8_t number[SF_OPERANDS_MAX] = {0};
        int32_t used[SF_OPERANDS_MAX];
        /* Totals that go to scratch memory are accompanied only by those of other folds. */
        const sf_step *beside = partial && !folds ? NULL : s->sibling;
        if (!l->loads && !stores && !beside)
                return SF_OK;
        for (int32_t k = 0; (loaded | stored) >> k; k++) {
                if (!((loaded | stored) >> k & 1))
                        continue;
                used[f->operands] = k;
                number[k] = f->operands;
                f->dt[f->operands] = (uint8_t)fuse->operand[k].dt;
                const bool spread = fuse->operand[k].segment;
                f->how[f->operands] = (uint8_t)((spread ? SF_CUDA_OPERAND_SPREAD : sf_cuda_operand_unit(l, k)) | (loaded >> k & 1 ? SF_CUDA_OPERAND_LOADS : 0) |
                                                (stored >> k & 1 ? SF_CUDA_OPERAND_STORES : 0) | (is_still(l, k) ? SF_CUDA_OPERAND_STILL : 0) | loosely(l, k));
                f->operands++;
        }
        if (l->loads)
                spec->flags &= ~(3 * SF_CUDA_X_UNIT);
        sf_cuda_append_programs(f, s, l->loads, stores, number, &f->loads, &f->stores);
        for (const sf_step *other = beside; other; other = other->sibling) {
                sf_cuda_also *also = &f->also[f->beside++];
                also->op = (uint8_t)other->op;
                also->acc = (uint8_t)other->acc;
                also->out = (uint8_t)(partial ? other->acc : other->out);
                also->initial = other->has_initial && !partial;
                also->unit = (uint8_t)(other->fold ? 0 : result_unit(l, other));
                also->doubles = has_double(s);
                sf_cuda_append_programs(f, other, folds, !partial, number, &also->loads, &also->stores);
        }
        unsigned char *behind = (unsigned char *)(f->code + sf_cuda_codes(f)), *end = (unsigned char *)spec + sf_cuda_spec_size(spec);
        memset(behind, 0, (size_t)(end - behind)); /* hashed eight bytes at a time */

        /* After the parameters that every launch has. */
        int32_t dims = sf_cuda_dims(spec);
        const sf_cuda_parts parts = sf_cuda_params_parts(spec);
        if (parts.end > SF_CUDA_MAX_PARAMS)
                return sf_fail(ctx, SF_UNSUPPORTED, "a step of %d operands, %d constants and %d dimensions takes %zu bytes of parameters; a CUDA launch has %d",
                               (int)f->operands, (int)f->constants, (int)dims, parts.end,
                               SF_CUDA_MAX_PARAMS);
        unsigned char *params = d->launch->params;
        unsigned char *at = params + parts.constant, *also = params + parts.also;
        memset(params + parts.operand, 0, parts.end - parts.operand);
        for (int32_t k = 0; k < f->operands; k++) {
                /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.ArraySubscript): the loop above has set f->operands of them */
                const sf_operand *o = &fuse->operand[used[k]];
                unsigned char *step = params + parts.step + 8 * k;
                put(params + parts.operand + 8 * k, (uint64_t)(uintptr_t)o->data);
                put(params + parts.along + 8 * k, (uint64_t)(o->segment ? o->segment : o->stride[s->nbatch + s->nseq - 1]));
                put(params + parts.across + 8 * k, down ? (uint64_t)o->stride[s->nbatch - 1] : 0);
                for (int32_t dim = 0; dim < l->nbatch; dim++)
                        put(step + 8 * dim * f->operands, (uint64_t)o->stride[dim]);
                for (int32_t dim = 0; s->nseq > 1 && dim < s->nseq; dim++)
                        put(step + 8 * (l->nbatch + dim) * f->operands,
                            (uint64_t)o->stride[s->nbatch + dim]);
        }
        int64_t from = partial ? parts_size(s, d->parts) : 0;
        if (l->loads)
                at = put_constants(at, &fuse->load);
        if (f->others)
                at = put_constants(at, &fuse->beside);
        if (stores)
                at = put_constants(at, &fuse->store);
        for (const sf_step *other = beside; other; other = other->sibling) {
                sf_also result = {.y = partial ? (uint64_t)from : (uint64_t)(uintptr_t)other->y,
                                  .sy = other->fold ? 0 : other->dims[s->nbatch].y,
                                  .iy = down ? other->dims[s->nbatch - 1].y : d->across};
                if (folds)
                        at = put_constants(at, &other->fuse->load);
                if (!partial)
                        at = put_constants(at, &other->fuse->store);
                sf_cuda_values(other, &result.identity, &result.neutral, &result.initial);
                for (int32_t dim = 0; dim < l->nbatch; dim++)
                        result.step[dim] = other->dims[dim].y;
                memcpy(also, &result, parts.also_size);
                also += parts.also_size;
                from += parts_size(other, d->parts);
        }
        return SF_OK;
}
