/*
 * Chains as kernels/apply.cu and apply_columns.cu take them: the steps read, what they have in
 * common found, and the launch's text and parameters written.
 */
#include "cuda/emit_chain.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * Reading the chain
 * ---------------------------------------------------------------------------------------------- */
static const sf_step *step_after(const sf_step **stage, const sf_step *s)
{
        if (s->sibling)
                return s->sibling;
        *stage = (*stage)->then;
        return *stage;
}

/* Instructions that a launch needs for the step; a program without instructions is a cast. */
static int64_t codes_of(const sf_step *s)
{
        return s->fuse ? at_least(s->fuse->load.count, 1) + at_least(s->fuse->store.count, 1) : 2;
}

const char *sf_cuda_follows(const sf_step *first)
{
        int64_t codes = 0;
        int32_t count = 0;
        for (const sf_step *stage = first, *s = first; s; s = step_after(&stage, s), count++) {
                codes += codes_of(s);
                if (!s->map && (!s->fold || sf_op_is(s->op, SF_INDEX) || sf_op_is(s->op, SF_TWO)))
                        return "on CUDA folds whose value is one number, and what is done with them to the line's elements, are taken line by line";
        }
        if (count > SF_CUDA_MEMBERS_MAX)
                return "on CUDA five steps follow each other line by line at most";
        return codes > 2 * SF_PROGRAM_MAX ? "together they are more elementwise work than one CUDA kernel takes" : NULL;
}

/* The number of a source, a new one if necessary; -1: there are too many. */
static int find_source(chain *c, const source *s)
{
        for (int32_t k = 0; k < c->sources; k++) {
                const source *known = &c->source[k];
                bool same = known->dt == s->dt && known->made == s->made;
                if (s->made < 0) {
                        same = same && known->data == s->data && known->along == s->along && known->segment == s->segment;
                        for (int32_t d = 0; d < c->nbatch; d++)
                                same = same && known->step[d] == s->step[d];
                }
                if (same)
                        return k;
        }
        if (c->sources == SF_OPERANDS_MAX)
                return -1;
        c->source[c->sources] = *s;
        return c->sources++;
}

/* Finds the step's operands and its mask among the chain's sources. */
bool sf_cuda_read_operands(chain *c, link *l)
{
        const sf_step *s = &l->step;
        for (int32_t k = 0; (l->loads | l->stores) >> k; k++) {
                if (!((l->loads | l->stores) >> k & 1))
                        continue;
                const sf_operand *o = &s->fuse->operand[k];
                /* A stage by itself reads what earlier ones have stored. */
                const int made = o->made - 1 < l - c->link ? o->made - 1 : -1;
                source from = {.data = o->data, .dt = o->dt, .made = made, .along = l->kind == KIND_SMALL ? 0 : o->stride[s->nbatch], .segment = o->segment};
                for (int32_t d = 0; d < s->nbatch; d++)
                        from.step[d] = o->stride[d];
                if (from.made < 0 && !aligned_to((int64_t)(uintptr_t)o->data, size_of((int32_t)o->dt)))
                        return false;
                const int number = find_source(c, &from);
                if (number < 0 || (l->stores >> k & 1 && moves(&from)))
                        return false;
                l->number[k] = (uint8_t)number;
                bool differs = l == c->link;
                for (int32_t d = 0; d < s->nbatch && l->kind == KIND_FOLD && from.made < 0; d++)
                        differs |= from.step[d] != 0;
                c->copied |= differs && l->loads >> k & 1 ? 1u << number : 0;
                c->source[number].readers += l->loads >> k & 1;
                c->source[number].folded |= l->loads >> k & 1 && l->kind == KIND_FOLD;
        }
        l->mask = -1;
        if (s->m) {
                source from = {.data = (const char *)s->m, .dt = SF_DT_BOOL, .made = -1, .along = s->dims[s->nbatch].m};
                for (int32_t d = 0; d < s->nbatch; d++)
                        from.step[d] = s->dims[d].m;
                l->mask = find_source(c, &from);
                if (l->mask < 0)
                        return false;
                c->copied |= l == c->link ? 1u << l->mask : 0;
                c->source[l->mask].readers++;
                c->source[l->mask].folded = true;
        }
        return true;
}

/* A map that rounds its result to the type it is stored in, and makes an f32 of it again, leaves
 * that to the store. */
static void round_once(link *l)
{
        const sf_step *s = &l->step;
        int32_t last = s->fuse->load.count - 1;
        const sf_instruction *code = s->fuse->load.code;
        if (l->kind != KIND_MAP || s->acc != SF_DT_F32 ||
            (s->out != SF_DT_F16 && s->out != SF_DT_BF16))
                return;
        if (last > 0 && code[last].code == SF_CODE_CAST && code[last].dt == s->acc &&
                code[last].arg[0] == last - 1)
                last--;
        if (last < 1 || code[last].code != SF_CODE_CAST || code[last].dt != s->out ||
                code[last].arg[0] != last - 1 ||
            code[last - 1].dt != SF_DT_F32)
                return;
        l->plain = *s->fuse;
        l->plain.load.count = last;
        l->step.fuse = &l->plain;
}

bool sf_cuda_read_chain(const sf_step *first, chain *c)
{
        c->nbatch = first->nbatch;
        c->n = 1;
        for (const sf_step *stage = first, *s = first; s; s = step_after(&stage, s)) {
                if (c->count == SF_CUDA_MEMBERS_MAX)
                        return false;
                link *l = &c->link[c->count++];
                l->step = *s;
                l->kind = !s->map ? KIND_FOLD : s->n == 1 ? KIND_SMALL : KIND_MAP;
                if (s->nseq != 1 || s->nbatch != c->nbatch || (!s->map && !s->fold) || (l->kind != KIND_SMALL && c->n > 1 && s->n != c->n))
                        return false;
                if (!s->fuse) {
                        sf_step_plain_fuse(s, &l->plain);
                        l->step.fuse = &l->plain;
                }
                if (s->map)
                        l->step.op = SF_SUM; /* so that results have the accumulator's type */
                c->n = at_least(c->n, s->n);
                l->loads = sf_cuda_program_reads(&l->step.fuse->load, 1);
                l->stores = sf_cuda_program_reads(&l->step.fuse->store, 0);
                if (!aligned_to((int64_t)(uintptr_t)s->y, size_of((int32_t)s->out)) || !sf_cuda_read_operands(c, l))
                        return false;
                round_once(l);
        }
        return c->n > 1 && c->n < INT32_MAX / 2;
}

/* ------------------------------------------------------------------------------------------------
 * What a fold makes of the elements, and a later step would make again
 * ---------------------------------------------------------------------------------------------- */

/* Do instruction i of a's program on the way in and instruction k of b's compute the same? */
static bool same_value(const link *a, int32_t i, const link *b, int32_t k)
{
        const sf_program *pa = &a->step.fuse->load, *pb = &b->step.fuse->load;
        const sf_instruction *x = &pa->code[i], *y = &pb->code[k];
        if (x->code != y->code || x->dt != y->dt)
                return false;
        if (x->code == SF_CODE_LOAD)
                return a->number[x->slot] == b->number[y->slot];
        if (x->code == SF_CODE_CONSTANT)
                return pa->constant[x->slot].u64 == pb->constant[y->slot].u64;
        for (int32_t q = 0; q < sf_code_arguments[x->code]; q++)
                if (!same_value(a, x->arg[q], b, y->arg[q]))
                        return false;
        return true;
}

/* The instruction of step l that computes what the fold's elements are; its program's length if none
 * does. */
static int32_t find_folded(const link *f, const link *l)
{
        int32_t at = 0;
        while (at < l->step.fuse->load.count && !same_value(f, f->step.fuse->load.count - 1, l, at))
                at++;
        return at;
}

/* There step l loads them instead: a source of its own. */
static void take_folded(chain *c, int32_t fold, link *l)
{
        const link *f = &c->link[fold];
        const int32_t at = find_folded(f, l);
        int32_t slot = 0, number = 0;
        while ((l->loads | l->stores) >> slot & 1)
                slot++;
        while (number < c->sources && !(c->source[number].kept && c->source[number].made == fold))
                number++; /* another step may have taken them already */
        if (at == l->step.fuse->load.count || slot >= SF_OPERANDS_MAX || number == SF_OPERANDS_MAX)
                return;
        if (number == c->sources)
                c->source[c->sources++] = (source){.dt = (sf_dt)f->step.acc, .made = fold, .kept = true};
        l->plain = *l->step.fuse;
        l->plain.load.code[at] = (sf_instruction){SF_CODE_LOAD, (uint8_t)f->step.acc, (uint8_t)slot, {0}};
        l->step.fuse = &l->plain;
        l->number[slot] = (uint8_t)number;
        l->loads |= 1u << slot;
}

/* For a softmax these are the exponentials, most of its work. One or two instructions are as quickly
 * done again. */
static bool is_worth_keeping(const link *f)
{
        const sf_program *p = &f->step.fuse->load;
        return f->kind == KIND_FOLD && p->count > 2 && p->code[p->count - 1].dt == f->step.acc;
}

/* The line must stay in registers. */
void sf_cuda_keep_folded(chain *c)
{
        for (int32_t k = 0; k < c->count; k++)
                for (int32_t later = k + 1; is_worth_keeping(&c->link[k]) && later < c->count; later++)
                        if (c->link[later].kind != KIND_SMALL)
                                take_folded(c, k, &c->link[later]);
}

/* An exponential and its like take many registers by themselves. */
static bool computes_little(const sf_program *p)
{
        bool little = true;
        for (int32_t i = 0; i < p->count; i++)
                little = little && p->code[i].code != SF_CODE_EXP &&
                        p->code[i].code != SF_CODE_LOG && p->code[i].code != SF_CODE_TANH &&
                        p->code[i].code != SF_CODE_SIGMOID;
        return little;
}

bool sf_cuda_is_slim(const chain *c)
{
        int64_t bytes = 0;
        for (int32_t k = 0; k < c->sources; k++)
                if (moves(&c->source[k]) && (c->source[k].readers > 1 || c->source[k].folded))
                        bytes += size_of((int32_t)c->source[k].dt);
        for (int32_t k = 0; k < c->count; k++) {
                bytes += c->link[k].step.acc == SF_DT_F32 ? 0 : 2;
                if (!computes_little(&c->link[k].step.fuse->load))
                        return false;
                const link *f = &c->link[k];
                for (const link *l = f + 1; is_worth_keeping(f) && l < c->link + c->count; l++)
                        if (find_folded(f, l) < l->step.fuse->load.count)
                                return false;
        }
        return bytes <= 2 && sf_cuda_slot_size(c) == 4;
}

/* ------------------------------------------------------------------------------------------------
 * Vectors
 * ---------------------------------------------------------------------------------------------- */
bool sf_cuda_suits(int64_t address, const int64_t *step, int32_t nbatch, int64_t bytes)
{
        bool fits = aligned_to(address, bytes);
        for (int32_t d = 0; d < nbatch; d++)
                fits = fits && aligned_to(step[d], bytes);
        return fits;
}

bool sf_cuda_result_suits(const chain *c, const sf_step *s, int64_t bytes)
{
        int64_t step[SF_MAX_NDIM + 1];
        for (int32_t d = 0; d < c->nbatch; d++)
                step[d] = s->dims[d].y;
        return sf_cuda_suits((int64_t)(uintptr_t)s->y, step, c->nbatch, bytes);
}

/* Bytes of an element in all sources that several steps load. */
int64_t sf_cuda_kept_bytes(const chain *c)
{
        int64_t sum = 0;
        for (int32_t k = 0; k < c->sources; k++)
                if (moves(&c->source[k]) && c->source[k].readers > 1)
                        sum += size_of((int32_t)c->source[k].dt);
        return sum;
}

/* The registers of an element, in bytes. A narrow element is computed in f32, and an f64 needs more
 * than itself. The operands that only maps read are loaded one vector at a time. */
int64_t sf_cuda_held_bytes(const chain *c)
{
        int64_t sum = 0;
        for (int32_t k = 0; k < c->sources; k++)
                if (moves(&c->source[k]) && (c->source[k].readers > 1 || c->source[k].folded))
                        sum += size_of((int32_t)c->source[k].dt) * (size_of((int32_t)c->source[k].dt) == 8 ? 2 : 1);
        return at_least(sum, 4);
}

/* Bytes of a leaf's total. */
int64_t sf_cuda_folds(const chain *c)
{
        int64_t folds = 0;
        for (int32_t k = 0; k < c->count; k++)
                folds += c->link[k].kind == KIND_FOLD;
        return folds;
}

int64_t sf_cuda_slot_size(const chain *c)
{
        int64_t size = 4;
        for (int32_t k = 0; k < c->count; k++)
                size = at_least(size, value_size(&c->link[k].step));
        return size;
}

/* ------------------------------------------------------------------------------------------------
 * The launch
 * ---------------------------------------------------------------------------------------------- */
static void put_word(unsigned char *params, size_t part, int64_t index, uint64_t word)
{
        memcpy(params + part + 8 * (size_t)index, &word, 8);
}

/* How a source lies: 1 in vectors, 0 not, 2 one element for each segment, 3 one for the whole line. Of columns: 1 a vector of
 * them at each row, 2 one for all rows, 0 an element for each row, 3 one for everything. */
static int unit_of(const source *s, int32_t across)
{
        if (s->made >= 0)
                return s->kept ? 1 : 3;
        if (s->segment)
                return 2;
        if (across >= 0)
                return s->step[across] ? s->along ? 1 : 2 : s->along ? 0 : 3;
        return !s->along ? 3 : s->along == size_of((int32_t)s->dt) ? 1 : 0;
}

static void describe_sources(const chain *c, int32_t across, sf_cuda_fused *f)
{
        for (int32_t k = 0; k < c->sources; k++) {
                const source *s = &c->source[k];
                const int unit = unit_of(s, across);
                f->dt[k] = (uint8_t)s->dt;
                f->how[k] = (uint8_t)(unit | SF_CUDA_OPERAND_LOADS | SF_CUDA_OPERAND_STORES |
                                      (s->made + 1) * SF_CUDA_OPERAND_MADE |
                                      (c->copied >> k & 1 ? SF_CUDA_OPERAND_COPIED : 0));
        }
        f->operands = (uint8_t)c->sources;
}

/* Writes step k and its programs into the specialisation. */
static void describe_step(const chain *c, int32_t k, int32_t across, sf_cuda_spec *spec)
{
        const link *l = &c->link[k];
        const sf_step *s = &l->step;
        sf_cuda_fused *f = &spec->fused;
        const bool vectors = s->dims[across >= 0 ? across : s->nbatch].y == size_of((int32_t)s->out);
        spec->extra[sf_cuda_how_of(spec->kernel) + k] = l->kind | (s->within ? 4 : 0) | (vectors ? 8 : 0) | (l->mask + 1) * 16;
        const bool initial = s->has_initial && l->kind == KIND_FOLD;
        if (!k) {
                spec->op = (int32_t)s->op;
                spec->in = s->in;
                spec->acc = s->acc;
                spec->out = s->out;
                spec->flags |= initial ? SF_CUDA_INITIAL : 0;
                sf_cuda_append_programs(f, s, true, true, l->number, &f->loads, &f->stores);
                return;
        }
        sf_cuda_also *also = &f->also[f->beside++];
        also->op = (uint8_t)s->op;
        also->acc = (uint8_t)s->acc;
        also->out = (uint8_t)s->out;
        also->initial = initial;
        sf_cuda_append_programs(f, s, true, true, l->number, &also->loads, &also->stores);
}

void sf_cuda_describe_chain(const chain *c, int32_t across, sf_cuda_spec *spec)
{
        describe_sources(c, across, &spec->fused);
        for (int32_t k = 0; k < c->count; k++)
                describe_step(c, k, across, spec);
        unsigned char *behind = (unsigned char *)(spec->fused.code + sf_cuda_codes(&spec->fused)), *end = (unsigned char *)spec + sf_cuda_spec_size(spec);
        memset(behind, 0, (size_t)(end - behind)); /* eight bytes are hashed at a time */
}

static int32_t put_constants(unsigned char *params, size_t part, const sf_program *p, int32_t count)
{
        for (int32_t k = 0; k < p->constants; k++)
                put_word(params, part, count++, p->constant[k].u64);
        return count;
}

/* One of the steps after the first. */
static void put_also(const chain *c, int32_t k, int32_t across, const sf_cuda_parts *parts, sf_cuda_launch *l)
{
        const sf_step *s = &c->link[k].step;
        const int32_t dims = across >= 0 ? across : c->nbatch;
        sf_also also = {.y = (uint64_t)(uintptr_t)s->y, .sy = s->dims[s->nbatch].y, .iy = across >= 0 ? s->dims[across].y : 0};
        sf_cuda_values(s, &also.identity, &also.neutral, &also.initial);
        const size_t at = parts->also + (size_t)(k - 1) * parts->also_size;
        memcpy(l->params + at, &also, offsetof(sf_also, step));
        for (int32_t d = 0; d < dims; d++)
                put_word(l->params, at + offsetof(sf_also, step), d, (uint64_t)s->dims[d].y);
}

void sf_cuda_put_chain(const chain *c, int32_t across, int64_t units, const int64_t number[4], sf_cuda_launch *l)
{
        const sf_cuda_parts parts = sf_cuda_params_parts(&l->spec);
        const sf_step *first = &c->link[0].step;
        const int32_t dims = across >= 0 ? across : c->nbatch;
        sf_params p;
        int32_t constants = 0;
        memset(&p, 0, offsetof(sf_params, dims));
        p.y = (uint64_t)(uintptr_t)first->y;
        p.n = c->n;
        p.units = units;
        p.sy = first->dims[first->nbatch].y;
        p.iy = across >= 0 ? first->dims[across].y : 0;
        p.inner = across >= 0 ? first->dims[across].len : 0;
        memcpy(p.number, number, sizeof p.number);
        sf_cuda_values(first, &p.identity, &p.neutral, &p.initial);
        memset(l->params, 0, parts.end);
        memcpy(l->params, &p, offsetof(sf_params, dims));
        for (int32_t d = 0; d < dims; d++) {
                const sf_params_dim dim = sf_cuda_params_dim(&first->dims[d]);
                memcpy(l->params + offsetof(sf_params, dims) + (size_t)d * sizeof dim, &dim, sizeof dim);
        }
        const int32_t operands = (int32_t)at_least(c->sources, 1);
        for (int32_t k = 0; k < c->sources; k++) {
                const source *s = &c->source[k];
                put_word(l->params, parts.operand, k, s->made < 0 ? (uint64_t)(uintptr_t)s->data : 0);
                put_word(l->params, parts.along, k, (uint64_t)(s->segment ? s->segment : s->along));
                put_word(l->params, parts.across, k, across >= 0 ? (uint64_t)s->step[across] : 0);
                for (int32_t d = 0; d < dims; d++)
                        put_word(l->params, parts.step, d * operands + k, (uint64_t)s->step[d]);
        }
        for (int32_t k = 0; k < c->count; k++) {
                const sf_step *s = &c->link[k].step;
                constants = put_constants(l->params, parts.constant, &s->fuse->load, constants);
                constants = put_constants(l->params, parts.constant, &s->fuse->store, constants);
                if (k)
                        put_also(c, k, across, &parts, l);
        }
        l->params_size = parts.end;
}
