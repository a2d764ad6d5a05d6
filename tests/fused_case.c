#include "fused_case.h"

#include "backend.h"
#include "core/value.h"

#include <stdlib.h>
#include <string.h>

long fused_checks;

/* ------------------------------------------------------------------------------------------------------------
 * Numbers drawn from a seed
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct dice {
        uint64_t seed, throws;
} dice;

static int64_t draw(dice *d, int64_t below)
{
        return (int64_t)(hash(d->seed * 1000003 + d->throws++) % (uint64_t)below);
}

static bool one_in(dice *d, int64_t n)
{
        return draw(d, n) == 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * Random programs
 * ---------------------------------------------------------------------------------------------------------- */
static const struct {
        uint8_t arguments;
        char kind;
} codes[SF_CODE_COUNT] = {
#define KIND_SOURCE 'o'
#define KIND_SAME 's'
#define KIND_REAL 'r'
#define KIND_TEST 't'
#define KIND_CHOOSE 'w'
#define KIND_CAST 'c'
#define CODE(name, NAME, arguments, kind) {arguments, KIND_##kind},
#include "core/codes.def"
#undef CODE
};

static bool is_real(sf_dt dt)
{
        return sf_dtypes[dt].kind == SF_KIND_REAL;
}

static uint8_t put(sf_program *p, sf_code code, sf_dt dt, int slot, int a, int b, int c)
{
        p->code[p->count] = (sf_instruction){(uint8_t)code, (uint8_t)dt, (uint8_t)slot, {(uint8_t)a, (uint8_t)b, (uint8_t)c}};
        return (uint8_t)p->count++;
}

static uint8_t put_constant(sf_program *p, dice *d, sf_dt dt)
{
        static const double values[] = {0, -0.0, 1, -1, 0.5, 2, 3, 1e-3, 100, 7.25, INFINITY, 65504};
        double v = values[draw(d, sizeof values / sizeof *values)];
        p->constant[p->constants] = sf_cast(SF_DT_F64, dt, (sf_value){.f64 = v});
        return put(p, SF_CODE_CONSTANT, dt, p->constants++, 0, 0, 0);
}

/* A value that exists already, or sometimes a new constant, as type `dt`. */
static uint8_t pick(sf_program *p, dice *d, sf_dt dt)
{
        if (p->count < SF_PROGRAM_MAX / 2 && one_in(d, 5))
                return put_constant(p, d, dt);
        uint8_t a = (uint8_t)draw(d, p->count);
        return p->code[a].dt == dt ? a : put(p, SF_CODE_CAST, dt, 0, a, 0, 0);
}

static sf_dt draw_dt(dice *d)
{
        /* Mostly the functions that people use. */
        return one_in(d, 3) ? (sf_dt)draw(d, SF_DT_COUNT) : one_in(d, 4) ? SF_DT_F64 : one_in(d, 4) ? SF_DT_I32 : SF_DT_F32;
}

static void draw_program(sf_program *p, dice *d, const sf_fuse *f, bool store, sf_dt acc, uint32_t *reads)
{
        p->count = p->constants = 0;
        *reads = store ? 0 : 1;
        if (one_in(d, 4))
                return;
        int sources = 1 + (int)draw(d, f->operands + 1);
        for (int i = 0; i < sources && i < 4; i++) {
                int k = (int)draw(d, f->operands);
                if (store && !i)
                        put(p, SF_CODE_RESULT, acc, 0, 0, 0, 0);
                else
                        put(p, SF_CODE_LOAD, f->operand[k].dt, k, 0, 0, 0);
        }
        for (int64_t steps = draw(d, 6); steps > 0 && p->count < SF_PROGRAM_MAX - 6; steps--) {
                sf_code code = (sf_code)(SF_CODE_CAST + draw(d, SF_CODE_COUNT - SF_CODE_CAST));
                /* exp and similar functions are rare: they are slow, and soon everything is
                 * infinite. */
                if ((code == SF_CODE_EXP || code == SF_CODE_LOG || code == SF_CODE_TANH) && !one_in(d, 3))
                        continue;
                uint8_t a = (uint8_t)draw(d, p->count);
                sf_dt dt = (sf_dt)p->code[a].dt;
                if (codes[code].kind == 'r' && !is_real(dt)) {
                        dt = one_in(d, 2) ? SF_DT_F32 : SF_DT_F64;
                        a = put(p, SF_CODE_CAST, dt, 0, a, 0, 0);
                }
                if (code == SF_CODE_CAST)
                        put(p, code, draw_dt(d), 0, a, 0, 0);
                else if (code == SF_CODE_WHERE) {
                        uint8_t choice = pick(p, d, SF_DT_BOOL), b = pick(p, d, dt);
                        put(p, code, dt, 0, choice, a, b);
                } else if (codes[code].arguments == 2) {
                        uint8_t b = one_in(d, 6) ? a : pick(p, d, dt);
                        put(p, code, codes[code].kind == 't' ? SF_DT_BOOL : dt, 0, one_in(d, 2) ? a : b, b, 0);
                } else {
                        put(p, code, dt, 0, a, 0, 0);
                }
        }
        *reads = 0;
        for (int32_t i = 0; i < p->count; i++)
                if (p->code[i].code == SF_CODE_LOAD)
                        *reads |= 1u << p->code[i].slot;
}

/* What kernels may do themselves as they read: an element less a centre or without NaN, its magnitude or its square. */
static void draw_lift(sf_program *p, dice *d, const sf_fuse *f, const sf_step *s, uint32_t *reads)
{
        const int k = (int)draw(d, f->operands), c = (int)draw(d, f->operands);
        p->count = p->constants = 0;
        *reads = 1u << k;
        uint8_t x = put(p, SF_CODE_LOAD, f->operand[k].dt, k, 0, 0, 0), v = x;
        if (f->operand[k].dt != s->acc)
                v = put(p, SF_CODE_CAST, s->acc, 0, x, 0, 0);
        if (one_in(d, 3)) {
                *reads |= 1u << c;
                uint8_t centre = put(p, SF_CODE_LOAD, f->operand[c].dt, c, 0, 0, 0);
                if (f->operand[c].dt != s->acc)
                        centre = put(p, SF_CODE_CAST, s->acc, 0, centre, 0, 0);
                v = put(p, SF_CODE_SUB, s->acc, 0, v, centre, 0);
        } else if (one_in(d, 3)) {
                const uint8_t is = put(p, SF_CODE_EQ, SF_DT_BOOL, 0, x, x, 0);
                p->constant[p->constants] = s->identity;
                v = put(p, SF_CODE_WHERE, s->acc, 0, is, v, put(p, SF_CODE_CONSTANT, s->acc, p->constants++, 0, 0, 0));
        }
        if (!one_in(d, 3))
                put(p, one_in(d, 2) ? SF_CODE_ABS : SF_CODE_SQUARE, s->acc, 0, v, 0, 0);
}

/* ------------------------------------------------------------------------------------------------------------
 * Random steps
 * ---------------------------------------------------------------------------------------------------------- */
#define UNTOUCHED 0xa5
#define OPERANDS 4
#define SIBLINGS 3
#define MOST_RANK 4

typedef struct part { /* one step of the siblings */
        sf_step step;
        sf_fuse fuse;
        view out, mask;
        sf_view out_view, mask_view;
        bool has_mask;
        char *lowest;   /* of the output */
        char *expected; /* its elements, compact */
} part;

typedef struct fused_case {
        uint64_t seed;
        int32_t ndim;
        int64_t shape[MOST_RANK];
        uint64_t axes;
        bool reverse, keepdim, matmul, in_place;
        char *original; /* in place: what operand 0's memory held */
        bool may_be_in_place;
        int layout; /* of operand 0 */
        int32_t operands, parts;
        view operand[OPERANDS];
        sf_view operand_view[OPERANDS];
        part part[SIBLINGS];
} fused_case;

static region operand_regions[OPERANDS], out_regions[SIBLINGS], mask_regions[SIBLINGS];

static void *must(void *p)
{
        if (!p) {
                perror("test memory");
                exit(1);
        }
        return p;
}

static int test_dt(sf_dt dt)
{
        for (int i = 0; i < DT_COUNT; i++)
                if (sf_dt_find(dts[i].dtype) == dt)
                        return i;
        abort();
}

static void place(view *v, region *r, dice *d)
{
        view_place(v, region_place(r, view_bytes(v), one_in(d, 2) ? GUARD_AFTER : GUARD_BEFORE, one_in(d, 2) ? 0 : (size_t)draw(d, 70)), 0);
}

static void fill_view(view *v, dice *d)
{
        static const int kinds[] = {FILL_mixed, FILL_mixed, FILL_small, FILL_special, FILL_finite};
        void *compact = must(malloc((size_t)(v->count * dts[v->dt].size) + 1));
        fill(v->dt, kinds[draw(d, 5)], false, d->seed, v->count, compact);
        view_scatter(v, compact);
        free(compact);
}

static int draw_layout(dice *d, bool output)
{
        int layout = one_in(d, 2) ? LAYOUT_compact : (int)draw(d, LAYOUT_COUNT);
        return output && !layout_for_output[layout] ? LAYOUT_compact : layout;
}

/* Every kind of shape that the CPU backend distinguishes: rows, short rows, columns, narrow
 * matrices, tiny tensors; `big` ones use several threads. */
static void draw_shape(fused_case *c, dice *d, bool big)
{
        static const int64_t odd[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 64, 65, 100, 127, 130};
        int family = (int)draw(d, 8);
        c->matmul = family == 6;
        c->ndim = family == 7 ? 1 : family == 6 ? 3 : family == 5 ? (int32_t)draw(d, MOST_RANK + 1) : 2 + (int32_t)draw(d, 2);
        int64_t scale = big ? 1 + draw(d, 3) : 1;
        for (int32_t i = 0; i < c->ndim; i++)
                c->shape[i] = odd[draw(d, c->ndim > 3 ? 7 : 11)];
        if (family == 7) /* one axis, or one long run of elements */
                c->shape[0] = (big ? 150000 * scale : 1) + draw(d, 5000);
        if (c->ndim < 2)
                return;
        int64_t *last = &c->shape[c->ndim - 1], *before = &c->shape[c->ndim - 2];
        switch (family) {
        case 0: /* long rows */
                *last = (big ? 60000 * scale : 900) + draw(d, 2000);
                *before = 1 + draw(d, 7);
                c->shape[0] = c->ndim > 2 ? 1 + draw(d, 2) : c->shape[0];
                break;
        case 1: /* columns */
                *last = 20 + draw(d, big ? 1500 : 300);
                *before = (big ? 250 * scale : 1) + draw(d, 70);
                break;
        case 2: /* narrow */
                *last = 1 + draw(d, 9);
                *before = (big ? 50000 : 1) + draw(d, 3000);
                c->shape[0] = c->ndim > 2 ? 1 + draw(d, 2) : c->shape[0];
                break;
        case 3: /* short rows */
                *last = odd[draw(d, 10)];
                *before = (big ? 20000 : 1) + draw(d, 500);
                break;
        case 4: /* in between */
                *last = 1 + draw(d, 200);
                *before = 1 + draw(d, big ? 2000 : 100);
                break;
        case 6: /* a product of matrices: rows of one with rows of the other */
                c->shape[0] = 1 + draw(d, big ? 40 : 12);
                *before = 1 + draw(d, big ? 40 : 12);
                *last = 1 + draw(d, big ? 700 : 130);
                break;
        default: break;
        }
        if (c->ndim == 2)
                return;
        int64_t total = 1;
        for (int32_t i = 0; i < c->ndim; i++)
                total *= c->shape[i];
        if (total > (big ? 900000 : 40000))
                c->shape[0] = 1 + draw(d, 2);
}

static int64_t step_elements(const fused_case *c)
{
        int64_t total = 1;
        for (int32_t d = 0; d < c->ndim; d++)
                total *= c->shape[d];
        return total;
}

static sf_value draw_initial(dice *d, sf_dt acc)
{
        static const double values[] = {-0.0, 1, -3, 0.5, 1e10};
        return sf_cast(SF_DT_F64, acc, (sf_value){.f64 = values[draw(d, 5)]});
}

static void draw_part(fused_case *c, part *p, dice *d, int index)
{
        static const sf_dt accumulators[] = {SF_DT_F32, SF_DT_F32, SF_DT_F32, SF_DT_F64, SF_DT_I8, SF_DT_I16,
                                             SF_DT_I32, SF_DT_I64, SF_DT_U8,  SF_DT_U16, SF_DT_U32, SF_DT_U64};
        sf_step *s = &p->step;
        int axes = __builtin_popcountll(c->axes);
        memset(s, 0, sizeof *s);
        s->fold = axes > 1 || one_in(d, 2);
        s->op = (sf_op)draw(d, 4);
        s->in = c->operand_view[0].dt;
        s->acc = accumulators[draw(d, 12)];
        s->out = one_in(d, 2) ? s->acc : draw_dt(d);
        s->exclusive = !s->fold && one_in(d, 3);
        s->identity = sf_identity(s->op, s->acc);
        s->has_initial = one_in(d, 3);
        s->initial = draw_initial(d, s->acc);
        s->device = (sf_device){SF_CPU, 0};
        if (one_in(d, 3) && !axes) { /* a map */
                s->has_initial = s->exclusive = false;
                s->fold = false;
        }
        p->has_mask = one_in(d, 4) && axes;
        if (!step_elements(c))
                s->fold = true; /* a scan of nothing never reaches a backend */
        s->exclusive = s->exclusive && !s->fold;
        if (p->has_mask) {
                int64_t shape[MOST_RANK];
                for (int32_t i = 0; i < c->ndim; i++)
                        shape[i] = one_in(d, 4) ? 1 : c->shape[i];
                view_init(&p->mask, DT_BOOL, c->ndim, shape, draw_layout(d, false), d->seed);
                place(&p->mask, &mask_regions[index], d);
                fill_view(&p->mask, d);
        }
        p->fuse.operands = c->operands;
        for (int32_t k = 0; k < c->operands; k++)
                p->fuse.operand[k].dt = c->operand_view[k].dt;
        draw_program(&p->fuse.load, d, &p->fuse, false, s->acc, &p->fuse.load_reads);
        if (s->fold && is_real(s->acc) && one_in(d, 2))
                draw_lift(&p->fuse.load, d, &p->fuse, s, &p->fuse.load_reads);
        draw_program(&p->fuse.store, d, &p->fuse, true, s->acc, &p->fuse.store_reads);
        if (!step_elements(c) && p->fuse.store_reads)
                p->fuse.store.count = p->fuse.store.constants = 0; /* without positions there is nothing to read */
        if (c->operands == 1 && one_in(d, 2)) /* to become a plain one */
                p->fuse.load.count = p->fuse.load.constants = p->fuse.store.count = p->fuse.store.constants = 0;

        int64_t shape[MOST_RANK];
        int32_t rank = 0;
        for (int32_t i = 0; i < c->ndim; i++)
                if (!s->fold || !(c->axes >> i & 1))
                        shape[rank++] = c->shape[i];
                else if (c->keepdim)
                        shape[rank++] = 1;
        c->in_place = c->may_be_in_place && !s->fold && sf_dtypes[s->out].size == sf_dtypes[s->in].size;
        s->in_place = c->in_place;
        if (c->in_place) {
                view_init(&p->out, test_dt(s->out), rank, shape, c->layout, d->seed);
                view_place(&p->out, (char *)c->operand[0].t.data - c->operand[0].low * dts[c->operand[0].dt].size, 0);
                return;
        }
        view_init(&p->out, test_dt(s->out), rank, shape, draw_layout(d, true), d->seed + 7);
        place(&p->out, &out_regions[index], d);
}

/* Sets the views' geometry and the step, as the layers above do. */
static void make_step(fused_case *c, part *p)
{
        sf_view whole = {.ndim = c->ndim, .shape = c->shape};
        const sf_view *operands[SF_OPERANDS_MAX] = {0};
        for (int32_t k = 0; k < c->operands; k++)
                operands[k] = &c->operand_view[k];
        if (sf_view_init(REF, "out", &p->out.t, &p->out_view) != SF_OK)
                FAIL("%s", sf_last_error(REF));
        if (p->has_mask && (sf_view_init(REF, "mask", &p->mask.t, &p->mask_view) != SF_OK ||
                            sf_view_broadcast(REF, "mask", &p->mask_view, "x", &whole) != SF_OK))
                FAIL("%s", sf_last_error(REF));
        sf_step_views views = {.x = operands[0], .y = &p->out_view, .m = p->has_mask ? &p->mask_view : NULL, .axes = c->axes,
                               .keepdim = c->keepdim, .reverse = c->reverse, .operands = c->operands, .fuse = &p->fuse};
        memcpy(views.operand, operands, sizeof operands);
        sf_step_geometry(&p->step, &views);
        /* A plain step's types are those of scanfold.h: it casts to wider types only. */
        const sf_step *s = &p->step;
        if (c->operands == 1 && !p->fuse.load.count && !p->fuse.store.count && is_real(s->in) <= is_real(s->acc) &&
            (is_real(s->acc) ? is_real(s->out) : s->acc == s->out && (s->op == SF_SUM || s->op == SF_PROD || s->in == s->out)))
                p->step.fuse = NULL;
}

static void draw_case(fused_case *c, uint64_t seed, bool big)
{
        dice d = {seed, 0};
        sf_view whole;
        c->seed = seed;
        draw_shape(c, &d, big);
        whole = (sf_view){.ndim = c->ndim, .shape = c->shape};
        if (c->ndim && one_in(&d, 60))
                c->shape[draw(&d, c->ndim)] = 0;
        c->reverse = one_in(&d, 3);
        c->keepdim = one_in(&d, 2);
        c->axes = 0;
        if (c->ndim && !one_in(&d, 5))
                c->axes = (uint64_t)1 << draw(&d, c->ndim);
        if (c->ndim && one_in(&d, 6))
                c->axes |= (uint64_t)1 << draw(&d, c->ndim);
        c->axes = c->matmul ? 4 : c->axes;
        for (int32_t i = 0; i < c->ndim; i++) /* an empty sequence is folded */
                c->axes |= (uint64_t)!c->shape[i] << i;
        c->operands = c->matmul ? 2 : 1 + (int32_t)draw(&d, OPERANDS);
        c->parts = one_in(&d, 3) ? 1 + (int32_t)draw(&d, SIBLINGS) : 1;
        c->may_be_in_place = c->parts == 1 && !c->matmul && one_in(&d, 4);
        for (int32_t k = 0; k < c->operands; k++) {
                int64_t shape[MOST_RANK];
                for (int32_t i = 0; i < c->ndim; i++)
                        shape[i] = (c->matmul ? i == 1 - k : !(c->may_be_in_place && !k) && one_in(&d, k ? 3 : 8)) ? 1 : c->shape[i];
                c->layout = k ? c->layout : draw_layout(&d, c->may_be_in_place);
                view_init(&c->operand[k], test_dt(draw_dt(&d)), c->ndim, shape, k ? draw_layout(&d, false) : c->layout, seed + (uint64_t)k);
                place(&c->operand[k], &operand_regions[k], &d);
                fill_view(&c->operand[k], &d);
                if (sf_view_init(REF, "x", &c->operand[k].t, &c->operand_view[k]) != SF_OK ||
                    sf_view_broadcast(REF, "x", &c->operand_view[k], "x", &whole) != SF_OK)
                        FAIL("seed %llu: %s", (unsigned long long)seed, sf_last_error(REF));
        }
        for (int32_t i = 0; i < c->parts; i++)
                draw_part(c, &c->part[i], &d, i);
        for (int32_t i = 0; i < c->parts; i++) {
                make_step(c, &c->part[i]);
                c->part[i].step.sibling = i + 1 < c->parts ? &c->part[i + 1].step : NULL;
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * The rule computed in another way: neighbours in pairs, level by level; element i of a scan is the fold of elements 0 to i
 * ---------------------------------------------------------------------------------------------------------- */
sf_value fold_in_pairs(const sf_step *s, const sf_value *a, int64_t n)
{
        sf_value *v = must(malloc((size_t)n * sizeof *v));
        memcpy(v, a, (size_t)n * sizeof *v);
        for (; n > 1; n = (n + 1) / 2)
                for (int64_t i = 0; i < n; i += 2)
                        v[i / 2] = i + 1 < n ? sf_combine(s->op, s->acc, v[i], v[i + 1]) : v[i];
        sf_value total = v[0];
        free(v);
        return total;
}

/* The address of element `index` (one number an axis) of a broadcast view. */
static const char *element_at(const sf_view *v, const int64_t *index)
{
        const char *at = v->data;
        for (int32_t d = 0; d < v->ndim; d++)
                at += index[d] * v->strides[d];
        return at;
}

static void check_naively(const fused_case *c, const part *p)
{
        const sf_step *s = &p->step;
        int64_t n = 1, lines = 1, index[MOST_RANK] = {0};
        for (int32_t d = 0; d < c->ndim; d++)
                *(c->axes >> d & 1 ? &n : &lines) *= c->shape[d];
        sf_value *a = must(malloc((size_t)n * sizeof *a));
        for (int64_t line = 0; line < lines; line++) {
                for (int pass = 0; pass < 2; pass++)
                        for (int64_t i = 0; i < n; i++) { /* the elements, then the results */
                                /* Position i of the sequence, and the line, as an index into the tensor: row-major, the axes apart. */
                                int64_t left = c->reverse ? n - 1 - i : i, other = line;
                                for (int32_t d = c->ndim - 1; d >= 0; d--) {
                                        int64_t *from = c->axes >> d & 1 ? &left : &other;
                                        index[d] = *from % c->shape[d];
                                        *from /= c->shape[d];
                                }
                                const char *at[SF_OPERANDS_MAX];
                                for (int32_t k = 0; k < c->operands; k++)
                                        at[k] = element_at(&c->operand_view[k], index);
                                if (!pass) {
                                        bool kept = !p->has_mask || *element_at(&p->mask_view, index);
                                        a[i] = kept ? sf_load_eval(&p->fuse, at, s->acc) : s->identity;
                                        continue;
                                }
                                if (s->fold && i)
                                        continue;
                                int64_t upto = s->fold ? n : s->exclusive ? i : i + 1;
                                sf_value v = upto ? fold_in_pairs(s, a, upto) : s->identity;
                                if (s->has_initial)
                                        v = sf_combine(s->op, s->acc, s->initial, v);
                                v = sf_store_eval(&p->fuse, at, sf_lower(s->op, s->acc, v), s->acc,
                                                  s->out);
                                char got[8], expected[8];
                                int64_t where[MOST_RANK];
                                int32_t rank = 0;
                                for (int32_t d = 0; d < c->ndim; d++)
                                        if (!s->fold || !(c->axes >> d & 1) || c->keepdim)
                                                where[rank++] = s->fold && c->axes >> d & 1 ? 0 : index[d];
                                memcpy(got, element_at(&p->out_view, where), sf_dtypes[s->out].size);
                                sf_element_store(s->out, v, expected);
                                fused_checks++;
                                CHECK(same_bits(p->out.dt, got, expected), "seed %llu: the reference is wrong on line %lld, position %lld",
                                      (unsigned long long)c->seed, (long long)line, (long long)i);
                        }
        }
        free(a);
}

/* ------------------------------------------------------------------------------------------------------------
 * Checking
 * ---------------------------------------------------------------------------------------------------------- */
static void print_program(const char *name, const sf_program *p)
{
        static const char *const names[] = {
#define CODE(code, NAME, arguments, kind) #code,
#include "core/codes.def"
#undef CODE
        };
        fprintf(stderr, "    %s:", name);
        for (int32_t i = 0; i < p->count; i++)
                fprintf(stderr, " %d=%s.%s(%d %d %d; %d)", i, names[p->code[i].code], sf_dtypes[p->code[i].dt].name, p->code[i].arg[0],
                        p->code[i].arg[1], p->code[i].arg[2], p->code[i].slot);
        fprintf(stderr, "\n");
}

static void print_case(const fused_case *c)
{
        fprintf(stderr, "  shape (");
        for (int32_t d = 0; d < c->ndim; d++)
                fprintf(stderr, "%s%lld", d ? ", " : "", (long long)c->shape[d]);
        fprintf(stderr, "), axes %llx%s, operands", (unsigned long long)c->axes, c->reverse ? " reverse" : "");
        for (int32_t k = 0; k < c->operands; k++)
                fprintf(stderr, " %s", sf_dtypes[c->operand_view[k].dt].name);
        fprintf(stderr, "\n");
        for (int32_t i = 0; i < c->parts; i++) {
                const sf_step *s = &c->part[i].step;
                fprintf(stderr, "  %s %s, acc %s, out %s%s%s%s\n", s->fold ? "fold" : "scan", sf_op_name(s->op), sf_dtypes[s->acc].name,
                        sf_dtypes[s->out].name, s->exclusive ? ", exclusive" : "", s->has_initial ? ", initial" : "", s->m ? ", masked" : "");
                print_program("load", &c->part[i].fuse.load);
                print_program("store", &c->part[i].fuse.store);
        }
}

/* Runs it on one engine; `expected` is filled by the reference and compared by the others. Returns whether all is well. */
static bool run_on(fused_case *c, const engine *e, bool reference)
{
        bool good = true;
        for (int32_t i = 0; i < c->parts; i++) {
                part *p = &c->part[i];
                p->lowest = (char *)p->out.t.data - p->out.low * dts[p->out.dt].size;
                if (c->in_place && c->original)
                        memcpy(p->lowest, c->original, view_bytes(&p->out));
                else if (c->in_place)
                        c->original = memcpy(must(malloc(view_bytes(&p->out))), p->lowest, view_bytes(&p->out));
                else
                        memset(p->lowest, UNTOUCHED, view_bytes(&p->out));
        }
        sf_status status = sf_backend_run(e->ctx, &c->part[0].step, NULL, 0);
        if (status != SF_OK) {
                FAIL("seed %llu on %s: %s", (unsigned long long)c->seed, e->name, sf_last_error(e->ctx));
                return false;
        }
        for (int32_t i = 0; i < c->parts; i++) {
                part *p = &c->part[i];
                int size = dts[p->out.dt].size;
                if (reference) {
                        p->expected = must(malloc((size_t)(p->out.count * size) + 1));
                        view_gather(&p->out, p->expected);
                        continue;
                }
                char *got = must(malloc((size_t)(p->out.count * size) + 1));
                view_gather(&p->out, got);
                int64_t bad = -1;
                for (int64_t j = 0; j < p->out.count && bad < 0; j++)
                        if (!same_bits(p->out.dt, got + j * size, p->expected + j * size))
                                bad = j;
                fused_checks++;
                if (bad >= 0) {
                        FAIL("seed %llu on %s: step %d, element %lld is %llx, not %llx", (unsigned long long)c->seed, e->name, (int)i,
                             (long long)bad, (unsigned long long)bits_of(p->out.dt, got + bad * size),
                             (unsigned long long)bits_of(p->out.dt, p->expected + bad * size));
                        good = false;
                }
                free(got);
                /* Bytes between the elements must not change: without the elements, all bytes
                 * are as before. */
                cursor at;
                cursor_start(&at, &p->out);
                for (int64_t j = 0; j < p->out.count; j++, cursor_next(&at))
                        memset(at.at, UNTOUCHED, (size_t)size);
                for (size_t j = 0; j < view_bytes(&p->out) && !c->in_place; j++)
                        if (p->lowest[j] != (char)UNTOUCHED) {
                                FAIL("seed %llu on %s: step %d wrote between its elements", (unsigned long long)c->seed, e->name, (int)i);
                                good = false;
                                break;
                        }
        }
        return good;
}

void fused_check(uint64_t seed, bool big)
{
        static fused_case c;
        bool good = true;
        int before = failures;
        draw_case(&c, seed, big);
        c.original = NULL;
        run_on(&c, &engines[0], true);
        for (int32_t i = 0; i < c.parts && step_elements(&c) && step_elements(&c) < 600 && !c.in_place; i++)
                check_naively(&c, &c.part[i]);
        for (int e = 1; e < engine_count && good; e++)
                if (engines[e].threads <= 3)
                        good = run_on(&c, &engines[e], false);
        if (failures > before)
                print_case(&c);
        for (int32_t i = 0; i < c.parts; i++)
                free(c.part[i].expected);
        free(c.original);
}
