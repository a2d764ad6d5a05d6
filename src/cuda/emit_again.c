/* Plans the computing again of results that are not finite: one launch for all steps. */
#include "cuda/emit_again.h"

#include "cuda/emit_draft.h"

#include <string.h>

/* Describes step k, except the operands of its programs. */
static void describe(sf_cuda_launch *l, const sf_again *a, int32_t k, const uint8_t *number)
{
        sf_cuda_spec *spec = &l->spec;
        const sf_step *s = &a->step[k].step;
        spec->extra[SF_CUDA_OWN + 2 * k] = s->nbatch;
        spec->extra[SF_CUDA_OWN + 2 * k + 1] = s->nseq;
        if (!k) {
                spec->op = (int32_t)s->op;
                spec->in = s->in;
                spec->acc = s->acc;
                spec->out = s->out;
                spec->flags |= s->has_initial ? SF_CUDA_INITIAL : 0;
                sf_cuda_append_programs(&spec->fused, s, true, true, number, &spec->fused.loads,
                                        &spec->fused.stores);
                return;
        }
        sf_cuda_also *also = &spec->fused.also[spec->fused.beside++];
        also->op = (uint8_t)s->op;
        also->acc = (uint8_t)s->acc;
        also->out = (uint8_t)s->out;
        also->initial = s->has_initial;
        sf_cuda_append_programs(&spec->fused, s, true, true, number, &also->loads, &also->stores);
}

/* A launch's parameters, and the offsets of their parts. */
typedef struct writing {
        unsigned char *params;
        sf_cuda_parts parts;
        int32_t operands;
} writing;

static void put_word(const writing *w, size_t part, int64_t index, uint64_t word)
{
        memcpy(w->params + part + 8 * (size_t)index, &word, 8);
}

static void put_dim(const writing *w, int32_t number, const sf_dim *d)
{
        const sf_params_dim dim = sf_cuda_params_dim(d);
        memcpy(w->params + offsetof(sf_params, dims) + (size_t)number * sizeof dim, &dim,
               sizeof dim);
}

/* Writes an operand that a program reads, under its new number: its address, and its strides along
 * the lines and along its step's dims, the first of which is number `first`. */
static void put_operand(const writing *w, const sf_again *a, int32_t k, int32_t operand,
                        int32_t number, int32_t first)
{
        const sf_again_step *s = &a->step[k];
        const sf_operand *o = &s->fuse.operand[operand];
        int32_t made = s->made[operand];
        uint64_t where = (uint64_t)(uintptr_t)o->data;
        if (made >= 0)
                where = (uint64_t)(o->data - a->step[made].tensor);
        put_word(w, w->parts.operand, number, where);
        for (int32_t d = 0; d < a->dims; d++)
                put_word(w, w->parts.step, d * w->operands + number, (uint64_t)s->move[d][operand]);
        for (int32_t d = 0; d < s->step.nbatch + s->step.nseq; d++)
                put_word(w, w->parts.step, (first + d) * w->operands + number,
                         (uint64_t)o->stride[d]);
}

/* Can the results be read as vectors of 16 bytes, whatever the dimensions of the lines are? */
static bool contiguous(const sf_again *a)
{
        int64_t stride = size_of(a->dt);
        for (int32_t d = a->dims - 1; d >= 0; d--) {
                if (a->line[d].len > 1 && a->line[d].y != stride)
                        return false;
                stride *= a->line[d].len;
        }
        return aligned_to((int64_t)(uintptr_t)a->results, 16);
}

sf_status sf_cuda_plan_again(const sf_context *ctx, const sf_again *a, const sf_cuda_chip *chip,
                             sf_cuda_plan *plan)
{
        enum { THREADS = 128, FILL = 4 };
        sf_cuda_launch *l = &plan->launch[0];
        sf_cuda_spec *spec = &l->spec;
        sf_cuda_fused *f = &spec->fused;
        uint8_t number[SF_AGAIN_STEPS][SF_OPERANDS_MAX];
        sf_params p;
        memset(&p, 0, offsetof(sf_params, dims));
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        plan->steps = a->steps;
        plan->launches = 1;
        plan->scratch = 0;
        plan->watched = false;
        spec->kernel = SF_CUDA_AGAIN;
        spec->threads = THREADS;
        spec->items = spec->width = 1;
        spec->extra[SF_CUDA_NBATCH] = a->dims;
        spec->extra[SF_CUDA_RESIDENT] = FILL;
        for (int32_t k = 0; k < a->steps; k++) {
                const sf_again_step *step = &a->step[k];
                uint32_t loads = sf_cuda_program_reads(&step->fuse.load, 1);
                uint32_t stores = sf_cuda_program_reads(&step->fuse.store, 0);
                for (int32_t o = 0; (loads | stores) >> o; o++) {
                        if (!((loads | stores) >> o & 1))
                                continue;
                        int32_t how = k + (step->made[o] + 1) * SF_CUDA_OPERAND_MADE;
                        how |= loads >> o & 1 ? SF_CUDA_OPERAND_LOADS : 0;
                        how |= stores >> o & 1 ? SF_CUDA_OPERAND_STORES : 0;
                        number[k][o] = f->operands;
                        f->dt[f->operands] = (uint8_t)step->fuse.operand[o].dt;
                        f->how[f->operands++] = (uint8_t)how;
                }
        }
        for (int32_t k = 0; k < a->steps; k++)
                describe(l, a, k, number[k]);
        unsigned char *code = (unsigned char *)(f->code + sf_cuda_codes(f));
        unsigned char *end = (unsigned char *)spec + sf_cuda_spec_size(spec);
        memset(code, 0, (size_t)(end - code)); /* hashed eight bytes at a time */
        writing w = {.params = l->params, .parts = sf_cuda_params_parts(spec),
                     .operands = (int32_t)at_least(f->operands, 1)};
        l->params_size = w.parts.end;
        if (l->params_size > SF_CUDA_MAX_PARAMS)
                return sf_fail(ctx, SF_UNSUPPORTED,
                               "what is computed again takes %zu bytes of parameters; a CUDA "
                               "launch has %d", l->params_size, SF_CUDA_MAX_PARAMS);

        /* The threads of a block share a line's last step, in runs of a power of two. */
        const sf_step *last = &a->step[a->steps - 1].step;
        int64_t blocks = at_most(a->lines, (int64_t)FILL * chip->multiprocessors);
        int64_t each = 16 / size_of(a->dt);
        p.y = (uint64_t)(uintptr_t)a->results;
        p.units = a->lines;
        p.number[0] = ceil_div(a->lines, blocks);
        p.number[2] = contiguous(a) && p.number[0] >= each;
        if (p.number[2])
                p.number[0] = ceil_div(p.number[0], each) * each;
        p.number[1] = pow2_up(ceil_div(at_least(last->n, 1), THREADS));
        sf_cuda_values(&a->step[0].step, &p.identity, &p.neutral, &p.initial);
        int32_t first = a->dims, constants = 0;
        memset(l->params, 0, l->params_size);
        memcpy(l->params, &p, offsetof(sf_params, dims));
        for (int32_t d = 0; d < a->dims; d++)
                put_dim(&w, d, &a->line[d]);
        for (int32_t k = 0; k < a->steps; k++) {
                const sf_again_step *s = &a->step[k];
                uint32_t reads = sf_cuda_program_reads(&s->fuse.load, 1) |
                                 sf_cuda_program_reads(&s->fuse.store, 0);
                for (int32_t d = 0; d < s->step.nbatch + s->step.nseq; d++)
                        put_dim(&w, first + d, &s->step.dims[d]);
                for (int32_t o = 0; reads >> o; o++)
                        if (reads >> o & 1)
                                put_operand(&w, a, k, o, number[k][o], first);
                for (int32_t c = 0; c < s->fuse.load.constants; c++)
                        put_word(&w, w.parts.constant, constants++, s->fuse.load.constant[c].u64);
                for (int32_t c = 0; c < s->fuse.store.constants; c++)
                        put_word(&w, w.parts.constant, constants++, s->fuse.store.constant[c].u64);
                if (k) { /* y, its strides and those of columns are not used */
                        sf_also also = {0};
                        sf_cuda_values(&s->step, &also.identity, &also.neutral, &also.initial);
                        memcpy(l->params + w.parts.also + (size_t)(k - 1) * w.parts.also_size,
                               &also, offsetof(sf_also, step));
                }
                first += s->step.nbatch + s->step.nseq;
        }
        l->grid[0] = (uint32_t)ceil_div(a->lines, p.number[0]);
        l->grid[1] = l->grid[2] = 1;
        l->shared = (uint32_t)sf_again_end(THREADS);
        l->scratch_fields = 0;
        l->overlaps = true;
        return SF_OK;
}
