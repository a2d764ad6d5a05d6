#include "fused_step.h"

#include "core/value.h"

#include <math.h>
#include <stdlib.h>

#define COUNT(array) ((uint64_t)(sizeof(array) / sizeof *(array)))

static uint64_t next(uint64_t *state)
{
        uint64_t z = *state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
}

static bool chance(uint64_t *state, unsigned percent)
{
        return next(state) % 100 < percent;
}

static int draw(uint64_t *state, int below)
{
        return (int)(next(state) % (uint64_t)below);
}

static sf_dt draw_dt(uint64_t *state)
{
        static const sf_dt usual[] = {SF_DT_F32, SF_DT_F32, SF_DT_F32, SF_DT_F64, SF_DT_F16, SF_DT_BF16, SF_DT_I32, SF_DT_I64, SF_DT_BOOL};
        return chance(state, 80) ? usual[draw(state, COUNT(usual))] : (sf_dt)draw(state, SF_DT_COUNT);
}

static bool is_real(sf_dt dt)
{
        return sf_dtypes[dt].kind == SF_KIND_REAL;
}

/* Small numbers that every type can hold or comes near; of reals, now and then what is none. */
static sf_value draw_value(uint64_t *state, sf_dt dt)
{
        static const double odd[] = {INFINITY, -INFINITY, NAN, -0.0, 1e-30};
        double v = (double)draw(state, 33) / 8 - 2;
        if (is_real(dt))
                return sf_cast(SF_DT_F64, dt, (sf_value){.f64 = chance(state, 1) ? odd[draw(state, COUNT(odd))] : v + 1e-3 * draw(state, 100)});
        return sf_cast(SF_DT_I64, dt, (sf_value){.u64 = (uint64_t)(int64_t)(chance(state, 3) ? (int64_t)next(state) : (int64_t)floor(8 * v))});
}

/* ------------------------------------------------------------------------------------------------------------
 * Programs
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct author {
        uint64_t *state;
        sf_program *p;
        const sf_fuse *fuse;
        int limit; /* instructions */
} author;

static int emit(author *a, sf_code code, sf_dt dt, int slot, int x, int y, int z)
{
        a->p->code[a->p->count] = (sf_instruction){(uint8_t)code, (uint8_t)dt, (uint8_t)slot, {(uint8_t)x, (uint8_t)y, (uint8_t)z}};
        return a->p->count++;
}

/* A value there is, of this type: cast if it must be. */
static int argument(author *a, sf_dt dt)
{
        int which = draw(a->state, a->p->count);
        for (int k = 0; k < a->p->count; k++)
                if (a->p->code[(which + k) % a->p->count].dt == dt)
                        return (which + k) % a->p->count;
        return emit(a, SF_CODE_CAST, dt, 0, which, 0, 0);
}

static bool allowed(sf_code code, sf_dt dt)
{
        static const bool real[SF_CODE_COUNT] = {
#define CODE(name, NAME, count, kind) [SF_CODE_##NAME] = KIND_##kind,
#define KIND_SOURCE false
#define KIND_SAME false
#define KIND_REAL true
#define KIND_TEST false
#define KIND_CHOOSE false
#define KIND_CAST false
#include "core/codes.def"
#undef CODE
        };
        if (real[code])
                return is_real(dt);
        return code != SF_CODE_LOAD && code != SF_CODE_CONSTANT && code != SF_CODE_RESULT;
}

static void write_program(author *a, bool store, sf_dt acc)
{
        static const uint8_t arguments[SF_CODE_COUNT] = {
#define CODE(name, NAME, count, kind) [SF_CODE_##NAME] = (count),
#include "core/codes.def"
#undef CODE
        };
        sf_program *p = a->p;
        p->count = p->constants = 0;
        if (chance(a->state, 20))
                return;
        if (store && chance(a->state, 95))
                emit(a, SF_CODE_RESULT, acc, 0, 0, 0, 0);
        for (int k = 0; k < a->fuse->operands; k++)
                if (chance(a->state, store ? 30 : 85))
                        emit(a, SF_CODE_LOAD, chance(a->state, 90) ? a->fuse->operand[k].dt : draw_dt(a->state), k, 0, 0, 0);
        while (!p->count || (p->constants < 3 && chance(a->state, 40))) {
                sf_dt dt = draw_dt(a->state);
                p->constant[p->constants] = draw_value(a->state, dt);
                emit(a, SF_CODE_CONSTANT, dt, p->constants++, 0, 0, 0);
        }
        for (int turns = 1 + draw(a->state, 6); turns > 0 && p->count < a->limit; turns--) {
                sf_dt dt = chance(a->state, 70) ? (sf_dt)p->code[draw(a->state, p->count)].dt : draw_dt(a->state);
                sf_code code = (sf_code)draw(a->state, SF_CODE_COUNT);
                if (!allowed(code, dt))
                        code = SF_CODE_MUL;
                if (code == SF_CODE_CAST) {
                        emit(a, code, dt, 0, draw(a->state, p->count), 0, 0);
                        continue;
                }
                int x = code == SF_CODE_WHERE ? argument(a, SF_DT_BOOL) : argument(a, dt);
                int y = arguments[code] > 1 ? argument(a, dt) : 0, z = arguments[code] > 2 ? argument(a, dt) : 0;
                emit(a, code, code >= SF_CODE_EQ && code <= SF_CODE_GE ? SF_DT_BOOL : dt, 0, x, y, z);
        }
}

static uint32_t reads(const sf_program *p, uint32_t none)
{
        uint32_t bits = p->count ? 0 : none;
        for (int32_t i = 0; i < p->count; i++)
                if (p->code[i].code == SF_CODE_LOAD)
                        bits |= (uint32_t)1 << p->code[i].slot;
        return bits;
}

/* ------------------------------------------------------------------------------------------------------------
 * Tensors
 * ---------------------------------------------------------------------------------------------------------- */

/* Memory for a view: dimensions in memory order or another, gaps, backwards; `stretch`: repeated along some. */
static void make_tensor(fused_tensor *t, uint64_t *state, sf_dt dt, int32_t ndim, const int64_t *shape, bool stretch)
{
        int64_t size = sf_dtypes[dt].size, span = 1, first = 0, skip = chance(state, 70) ? 0 : draw(state, 5);
        int32_t order[4] = {0, 1, 2, 3};
        bool plain = chance(state, 60);
        t->view = (sf_view){.dt = dt, .ndim = ndim, .shape = shape, .count = 1};
        for (int32_t d = 0; d < ndim && !plain; d++) {
                int32_t with = draw(state, ndim), kept = order[d];
                order[d] = order[with];
                order[with] = kept;
        }
        for (int32_t k = ndim - 1; k >= 0; k--) {
                int32_t d = order[k];
                t->view.count *= shape[d];
                if (stretch && chance(state, 30)) {
                        t->view.strides[d] = 0;
                        continue;
                }
                bool back = !plain && chance(state, 20);
                t->view.strides[d] = (back ? -span : span) * size;
                first += back ? (shape[d] - 1) * span : 0;
                span *= shape[d];
                if (!plain && chance(state, 15))
                        span = span * 2 + 1;
        }
        t->bytes = (size_t)((span + skip) * size);
        /* Exactly as much as there is, so that a sanitizer sees a step beyond. */
        if (posix_memalign((void **)&t->base, 256, t->bytes))
                abort();
        t->view.data = (char *)t->base + (skip + first) * size;
        for (size_t at = 0; at + (size_t)size <= t->bytes; at += (size_t)size)
                sf_element_store(dt, draw_value(state, dt), t->base + at);
}

/* ------------------------------------------------------------------------------------------------------------
 * Cases
 * ---------------------------------------------------------------------------------------------------------- */
static void draw_shape(fused_case *c, uint64_t *state, unsigned flags)
{
        static const int64_t lengths[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 33, 64, 65, 100, 128, 130, 256, 257, 600, 1024, 1500, 2049, 4100, 9000};
        int64_t most = flags & FUSED_SMALL ? 12000 : 400000;
        if (chance(state, 20)) { /* a narrow matrix */
                c->ndim = 2;
                c->shape[0] = 500 + draw(state, (int)most / 10);
                c->shape[1] = 1 + draw(state, 8);
                return;
        }
        do {
                int64_t count = 1;
                c->ndim = 1 + draw(state, 4);
                for (int32_t d = 0; d < c->ndim; d++)
                        count *= c->shape[d] = lengths[draw(state, (int)(COUNT(lengths)))];
                most -= count <= most;
                if (count <= most)
                        return;
        } while (true);
}

static sf_dt draw_acc(uint64_t *state)
{
        static const sf_dt usual[] = {SF_DT_F32, SF_DT_F32, SF_DT_F32, SF_DT_F64, SF_DT_I32, SF_DT_I64, SF_DT_U8, SF_DT_I16};
        return usual[draw(state, COUNT(usual))];
}

/* `total`: the fold of what the first step scans, stored without operands. */
static void make_step(fused_case *c, int which, uint64_t *state, bool fold, bool total, uint64_t axes)
{
        sf_step *s = &c->step[which];
        sf_fuse *f = &c->fuse[which];
        sf_dt out = draw_dt(state);
        const sf_view *x = &c->operand[0].view;
        *s = (sf_step){.fold = fold, .exclusive = !fold && chance(state, 20), .has_initial = chance(state, 15), .op = (sf_op)draw(state, 4), .in = x->dt,
                       .acc = draw_acc(state), .out = out, .device = {SF_CPU, 0}};
        s->identity = sf_identity(s->op, s->acc);
        s->initial = draw_value(state, s->acc);
        memset(f, 0, sizeof *f);
        if (total) {
                s->op = c->step[0].op;
                s->acc = c->step[0].acc;
                s->identity = c->step[0].identity;
        }
        if (!which)
                c->reverse = axes && chance(state, 30);
        sf_step_views v = {.x = x, .m = c->masked ? &c->mask.view : NULL, .axes = axes, .keepdim = true, .reverse = c->reverse, .operands = c->operands, .fuse = f};
        for (int32_t k = 0; k < c->operands; k++)
                v.operand[k] = &c->operand[k].view;
        /* Only now does the author know the operands. */
        f->operands = c->operands;
        for (int32_t k = 0; k < c->operands; k++)
                f->operand[k].dt = c->operand[k].view.dt;
        author a = {state, &f->load, f, SF_PROGRAM_MAX - 8};
        if (total)
                f->load = c->fuse[0].load;
        else
                write_program(&a, false, s->acc);
        a.p = &f->store;
        f->operands = total ? 0 : c->operands;
        write_program(&a, true, s->acc);
        f->operands = c->operands;
        f->load_reads = reads(&f->load, 1);
        f->store_reads = reads(&f->store, 0);
        for (int32_t d = 0; d < c->ndim; d++)
                c->fold_shape[d] = axes >> d & 1 ? 1 : c->shape[d];
        make_tensor(&c->out[which], state, out, c->ndim, fold ? c->fold_shape : c->shape, false);
        v.y = &c->out[which].view;
        sf_step_geometry(s, &v);
}

void fused_make(fused_case *c, uint64_t seed, unsigned flags)
{
        uint64_t state = seed * 0x2545f4914f6cdd1du + 1;
        memset(c, 0, sizeof *c);
        c->seed = seed;
        draw_shape(c, &state, flags);
        bool fold = chance(&state, 45);
        uint64_t axes = fold ? next(&state) & (((uint64_t)1 << c->ndim) - 1) : (uint64_t)1 << draw(&state, c->ndim);
        if (chance(&state, 15)) {
                fold = false;
                axes = 0; /* elementwise */
        }
        c->operands = 1 + draw(&state, chance(&state, 70) ? 3 : FUSED_OPERANDS);
        for (int32_t k = 0; k < c->operands; k++)
                make_tensor(&c->operand[k], &state, draw_dt(&state), c->ndim, c->shape, k || chance(&state, 30));
        c->masked = chance(&state, 20);
        if (c->masked)
                make_tensor(&c->mask, &state, SF_DT_BOOL, c->ndim, c->shape, true);
        c->steps = chance(&state, 30) ? 2 + (chance(&state, 40) ? draw(&state, FUSED_STEPS - 1) : 0) : 1;
        make_step(c, 0, &state, fold, false, axes);
        for (int k = 1; k < c->steps; k++) { /* more folds, or a scan's total */
                make_step(c, k, &state, true, k == 1 && !fold && chance(&state, 70), axes);
                c->step[k - 1].sibling = &c->step[k];
        }
        fused_reset(c);
}

void fused_free(fused_case *c)
{
        for (int32_t k = 0; k < FUSED_OPERANDS; k++)
                free(c->operand[k].base);
        for (int k = 0; k < FUSED_STEPS; k++)
                free(c->out[k].base);
        free(c->mask.base);
}

void fused_reset(fused_case *c)
{
        for (int k = 0; k < c->steps; k++)
                memset(c->out[k].base, 0x5a, c->out[k].bytes);
}

size_t fused_results_size(const fused_case *c)
{
        size_t size = 0;
        for (int k = 0; k < c->steps; k++)
                size += c->out[k].bytes;
        return size;
}

void fused_results(const fused_case *c, unsigned char *to)
{
        for (int k = 0; k < c->steps; k++) {
                memcpy(to, c->out[k].base, c->out[k].bytes);
                to += c->out[k].bytes;
        }
}

static bool is_nan(sf_dt dt, const unsigned char *p)
{
        sf_value v = sf_element_load(dt, p);
        return is_real(dt) && (dt == SF_DT_F64 ? v.f64 != v.f64 : v.f32 != v.f32);
}

long fused_differences(const fused_case *c, const unsigned char *a, const unsigned char *b, bool *between)
{
        long differ = 0;
        *between = false;
        for (int k = 0; k < c->steps; k++) {
                const sf_view *v = &c->out[k].view;
                size_t size = sf_dtypes[v->dt].size, bytes = c->out[k].bytes;
                unsigned char *rest = malloc(bytes ? bytes : 1); /* b, with a's elements */
                int64_t at[4] = {0};
                if (!rest)
                        abort();
                memcpy(rest, b, bytes);
                for (int64_t i = 0; i < v->count; i++) {
                        int64_t offset = (char *)v->data - (char *)c->out[k].base;
                        for (int32_t d = 0; d < v->ndim; d++)
                                offset += at[d] * v->strides[d];
                        differ += memcmp(a + offset, b + offset, size) && !(is_nan(v->dt, a + offset) && is_nan(v->dt, b + offset));
                        memcpy(rest + offset, a + offset, size);
                        for (int32_t d = v->ndim - 1; d >= 0 && ++at[d] == v->shape[d]; d--)
                                at[d] = 0;
                }
                *between = *between || memcmp(rest, a, bytes);
                free(rest);
                a += bytes;
                b += bytes;
        }
        return differ;
}

static void print_program(const sf_program *p, FILE *to)
{
        static const char *const names[] = {
#define CODE(name, NAME, arguments, kind) #name,
#include "core/codes.def"
#undef CODE
        };
        for (int32_t i = 0; i < p->count; i++)
                fprintf(to, " %d:%s.%s(%d|%d,%d,%d)", (int)i, names[p->code[i].code], sf_dtypes[p->code[i].dt].name, p->code[i].slot, p->code[i].arg[0],
                        p->code[i].arg[1], p->code[i].arg[2]);
        fprintf(to, p->count ? "\n" : " nothing\n");
}

void fused_print(const fused_case *c, FILE *to)
{
        fprintf(to, "fused case %llu:", (unsigned long long)c->seed);
        for (int32_t d = 0; d < c->ndim; d++)
                fprintf(to, "%s%lld", d ? " x " : " ", (long long)c->shape[d]);
        fprintf(to, "%s\n", c->masked ? ", masked" : "");
        for (int32_t k = 0; k < c->operands; k++) {
                const sf_view *v = &c->operand[k].view;
                fprintf(to, "  operand %d: %s, at %d mod 16, strides", (int)k, sf_dtypes[v->dt].name, (int)((uintptr_t)v->data % 16));
                for (int32_t d = 0; d < v->ndim; d++)
                        fprintf(to, " %lld", (long long)v->strides[d]);
                fputc('\n', to);
        }
        for (int k = 0; k < c->steps; k++) {
                const sf_step *s = &c->step[k];
                fprintf(to, "  %s %s, n %lld, batch %lld, %d + %d dims, %s to %s to %s%s%s\n  load:", s->fold ? "fold" : "scan", sf_op_name(s->op),
                        (long long)s->n, (long long)s->batch, (int)s->nbatch, (int)s->nseq, sf_dtypes[s->in].name, sf_dtypes[s->acc].name,
                        sf_dtypes[s->out].name, s->exclusive ? ", exclusive" : "", s->has_initial ? ", initial" : "");
                print_program(&s->fuse->load, to);
                fprintf(to, "  store:");
                print_program(&s->fuse->store, to);
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Named ones
 * ---------------------------------------------------------------------------------------------------------- */
static sf_view far_view(int64_t *shape, sf_dt dt, int number)
{
        int64_t size = sf_dtypes[dt].size;
        return (sf_view){.data = (char *)((uintptr_t)(number + 1) << 40), .dt = dt, .ndim = 2, .count = shape[0] * shape[1], .shape = shape,
                         .strides = {shape[1] * size, size}};
}

bool fused_name(fused_named *c, int index)
{
        static const struct {
                const char *name;
                bool fold;
                int64_t rows, columns;
                unsigned axes;
                sf_dt other;  /* the second operand's dtype */
                bool repeated; /* it is one row */
                double after;  /* results times this, if it is not 0 */
                sf_op op;      /* of two elements: the second operand is the other */
                bool spread;   /* sums in f64 of the distances to the second operand, one a sequence, and of their squares */
                /* the reverse of a recurrence: exclusive, of a and a g, and g is added to its results; and these times the states before them */
                bool back;
        } listed[] = {{"dot_scaled", true, 1024, 8192, 2, SF_DT_F32, true, 0.75, SF_SUM, false, false},
                      {"scan_of_product_rows", false, 32768, 32768, 2, SF_DT_BOOL, false, 0, SF_SUM, false, false},
                      {"scan_of_product_columns", false, 32768, 32768, 1, SF_DT_BOOL, false, 0, SF_SUM, false, false},
                      {"scan_of_product_long", false, 1, 1 << 28, 2, SF_DT_BOOL, false, 0, SF_SUM, false, false},
                      {"sum_of_product_columns", true, 8192, 8192, 1, SF_DT_F32, false, 0, SF_SUM, false, false},
                      {"product", false, 16384, 16384, 0, SF_DT_F32, true, 2, SF_SUM, false, false},
                      {"recurrence_rows", false, 12288, 65536, 2, SF_DT_F32, false, 0, SF_RECURRENCE, false, false},
                      {"recurrence_rows_odd", false, 12288, 65537, 2, SF_DT_F32, false, 0, SF_RECURRENCE, false, false},
                      {"recurrence_rows_short", false, 12288, 1000, 2, SF_DT_F32, false, 0, SF_RECURRENCE, false, false},
                      {"recurrence_columns", false, 16384, 12288, 1, SF_DT_F32, false, 0, SF_RECURRENCE, false, false},
                      {"recurrence_back_rows", false, 12288, 65536, 2, SF_DT_F32, false, 0, SF_RECURRENCE, false, true},
                      {"recurrence_back_rows_odd", false, 12288, 65537, 2, SF_DT_F32, false, 0, SF_RECURRENCE, false, true},
                      {"recurrence_back_rows_short", false, 12288, 1000, 2, SF_DT_F32, false, 0, SF_RECURRENCE, false, true},
                      {"recurrence_back_columns", false, 2048, 12288, 1, SF_DT_F32, false, 0, SF_RECURRENCE, false, true},
                      {"recurrence_long", false, 1, 1 << 28, 2, SF_DT_F32, false, 0, SF_RECURRENCE, false, false},
                      {"var_mean_rows", true, 16384, 16384, 2, SF_DT_F32, false, 0, SF_SUM, true, false},
                      {"var_mean_columns", true, 16384, 16384, 1, SF_DT_F32, false, 0, SF_SUM, true, false}};
        const sf_op op = index >= 0 && index < (int)(sizeof listed / sizeof *listed) ? listed[index].op : SF_SUM;
        if (index < 0 || index >= (int)(sizeof listed / sizeof *listed))
                return false;
        memset(c, 0, sizeof *c);
        snprintf(c->name, sizeof c->name, "%s", listed[index].name);
        c->shape[0] = listed[index].rows;
        c->shape[1] = listed[index].columns;
        for (int d = 0; d < 2; d++)
                c->fold_shape[d] = listed[index].fold && listed[index].axes >> d & 1 ? 1 : c->shape[d];
        c->x = far_view(c->shape, SF_DT_F32, 0);
        c->other = far_view(c->shape, listed[index].other, 1);
        if (listed[index].repeated)
                c->other.strides[0] = 0;
        for (int d = 0; d < 2 && listed[index].spread; d++)
                c->other.strides[d] = listed[index].axes >> d & 1 ? 0 : c->other.strides[d];
        c->out = far_view(c->fold_shape, SF_DT_F32, 2);
        c->step = (sf_step){.fold = listed[index].fold, .op = op, .in = SF_DT_F32, .acc = SF_DT_F32, .out = SF_DT_F32, .device = {SF_CUDA, 0}};
        c->step.identity = sf_identity(op, SF_DT_F32);
        c->fuse.load = (sf_program){.count = 4, .code = {{SF_CODE_LOAD, SF_DT_F32, 0, {0}}, {SF_CODE_LOAD, (uint8_t)listed[index].other, 1, {0}},
                                                         {SF_CODE_CAST, SF_DT_F32, 0, {1}}, {SF_CODE_MUL, SF_DT_F32, 0, {0, 2}}}};
        if (op == SF_RECURRENCE) {
                c->fuse.load = (sf_program){.count = 1, .code = {{SF_CODE_LOAD, SF_DT_F32, 0, {0}}}};
                c->fuse.beside = (sf_program){.count = 1, .code = {{SF_CODE_LOAD, SF_DT_F32, 1, {0}}}};
        }
        if (listed[index].back) {
                c->step.exclusive = true;
                c->fuse.load = (sf_program){.count = 3, .code = {{SF_CODE_LOAD, SF_DT_F32, 0, {0}}, {SF_CODE_LOAD, SF_DT_F32, 1, {0}}, {SF_CODE_MUL, SF_DT_F32, 0, {0, 1}}}};
                c->fuse.beside = (sf_program){.count = 1, .code = {{SF_CODE_LOAD, SF_DT_F32, 0, {0}}}};
                c->fuse.store = (sf_program){.count = 3, .code = {{SF_CODE_LOAD, SF_DT_F32, 1, {0}}, {SF_CODE_RESULT, SF_DT_F32, 0, {0}}, {SF_CODE_ADD, SF_DT_F32, 0, {0, 1}}}};
                c->fuse.store_reads = 2;
        }
        if (listed[index].after != 0)
                c->fuse.store = (sf_program){.count = 3, .constants = 1, .constant = {{.f32 = (float)listed[index].after}},
                                             .code = {{SF_CODE_RESULT, SF_DT_F32, 0, {0}}, {SF_CODE_CONSTANT, SF_DT_F32, 0, {0}},
                                                      {SF_CODE_MUL, SF_DT_F32, 0, {0, 1}}}};
        if (listed[index].spread) {
                c->step.acc = SF_DT_F64;
                c->step.identity = sf_identity(op, SF_DT_F64);
                c->fuse.load = (sf_program){.count = 5, .code = {{SF_CODE_LOAD, SF_DT_F32, 0, {0}}, {SF_CODE_LOAD, SF_DT_F32, 1, {0}}, {SF_CODE_CAST, SF_DT_F64, 0, {0}},
                                                                 {SF_CODE_CAST, SF_DT_F64, 0, {1}}, {SF_CODE_SUB, SF_DT_F64, 0, {2, 3}}}};
        }
        c->fuse.load_reads = 3;
        sf_view states = far_view(c->shape, SF_DT_F32, 4);
        states.data -= states.strides[__builtin_ctz(listed[index].axes | 4)];
        sf_step_views views = {.x = &c->x, .y = &c->out, .axes = listed[index].axes, .reverse = listed[index].back, .keepdim = true, .operands = listed[index].back ? 3 : 2,
                               .lacking = 4, .operand = {&c->x, &c->other, &states}, .fuse = &c->fuse};
        sf_step_geometry(&c->step, &views);
        if (listed[index].back) {
                c->squares = c->fuse;
                c->squares.store.code[c->squares.store.count++] = (sf_instruction){SF_CODE_LOAD, SF_DT_F32, 2, {0}};
                c->squares.store.code[c->squares.store.count++] = (sf_instruction){SF_CODE_MUL, SF_DT_F32, 0, {2, 3}};
                c->squares.store_reads = 6;
                c->beside = c->step;
                views.fuse = &c->squares;
                sf_step_geometry(&c->beside, &views);
                c->beside.y += (uintptr_t)3 << 40;
                c->step.sibling = &c->beside;
        }
        if (listed[index].spread) {
                c->squares = c->fuse;
                c->squares.load.code[c->squares.load.count++] = (sf_instruction){SF_CODE_SQUARE, SF_DT_F64, 0, {4}};
                c->beside = c->step;
                c->beside.y = (char *)((uintptr_t)4 << 40);
                c->beside.fuse = &c->squares;
                c->step.sibling = &c->beside;
        }
        return true;
}
