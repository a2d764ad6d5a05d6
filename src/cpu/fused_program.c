/* Compiles programs to loops over blocks: see fused.h. fused_run.c runs them. */
#include "cpu/fused.h"

/* ------------------------------------------------------------------------------------------------
 * Classes
 * ---------------------------------------------------------------------------------------------- */
sf_class sf_class_of(sf_dt dt)
{
        switch (dt) {
        case SF_DT_F16:
        case SF_DT_BF16:
        case SF_DT_F32: return SF_CLASS_F32;
        case SF_DT_F64: return SF_CLASS_F64;
        case SF_DT_I8:
        case SF_DT_I16:
        case SF_DT_I32: return SF_CLASS_I32;
        case SF_DT_I64: return SF_CLASS_I64;
        case SF_DT_U64: return SF_CLASS_U64;
        default: return SF_CLASS_U32;
        }
}

sf_dt sf_class_dt(sf_class class)
{
        static const sf_dt dts[SF_CLASS_COUNT] = {SF_DT_F32, SF_DT_F64, SF_DT_I32, SF_DT_U32, SF_DT_I64, SF_DT_U64};
        return dts[class];
}

int64_t sf_class_size(sf_class class)
{
        return sf_dtypes[sf_class_dt(class)].size;
}

static bool is_real(sf_dt dt)
{
        return sf_dtypes[dt].kind == SF_KIND_REAL;
}

/* ------------------------------------------------------------------------------------------------
 * Compiling
 * ---------------------------------------------------------------------------------------------- */
typedef struct value {
        uint8_t at; /* its number */
        sf_dt dt;
} value;

typedef struct maker {
        const sf_cpu_map *map;
        sf_fused_code *code;
        int32_t uses[SF_FUSED_SLOTS]; /* how often each slot's value will still be read; 0: free */
        sf_code last; /* the code of the last loop; SF_CODE_COUNT: not a single code */
} maker;

/* Takes a free slot, whose value will be read once; drop ends one such use. */
static uint8_t take(maker *m)
{
        uint8_t slot = 0;
        while (m->uses[slot])
                slot++;
        m->uses[slot] = 1;
        if (slot >= m->code->slots)
                m->code->slots = slot + 1;
        return slot;
}

static void drop(maker *m, uint8_t at)
{
        if (at < SF_FUSED_SLOTS)
                m->uses[at]--;
}

/* Emits one loop. It takes its own slot before its arguments are dropped, so no loop writes a slot
 * that it reads. */
static uint8_t emit(maker *m, sf_loop *loop, uint8_t a, uint8_t b, uint8_t c)
{
        uint8_t y = take(m);
        m->code->op[m->code->ops++] = (sf_fused_op){loop, y, a, b, c};
        m->last = SF_CODE_COUNT;
        return y;
}

static uint8_t emit_one(maker *m, sf_loop *loop, uint8_t a)
{
        uint8_t y = emit(m, loop, a, a, a);
        drop(m, a);
        return y;
}

/* Can integer type `to` hold every value of integer type `from`? */
static bool holds(sf_dt to, sf_dt from)
{
        bool to_signed = sf_dtypes[to].kind == SF_KIND_SIGNED, from_signed = sf_dtypes[from].kind == SF_KIND_SIGNED;
        if (from == SF_DT_BOOL || from == to)
                return true;
        if (to == SF_DT_BOOL || (from_signed && !to_signed))
                return false;
        return sf_dtypes[to].bits - to_signed >= sf_dtypes[from].bits - from_signed;
}

/* The class through which a real is cast to an integer type. u16 is cast through 32 bits. So is f32
 * to u8, which is less work and gives the same: from 2^31 on, an f32 is a multiple of 256. */
static sf_class real_by_way_of(sf_class from, sf_dt to)
{
        return to == SF_DT_U16 || (to == SF_DT_U8 && from == SF_CLASS_F32) ? SF_CLASS_I32
                                                                           : sf_class_of(to);
}

/* Casts a value, as sf_cast does. One use of it becomes one use of the result. */
static value cast(maker *m, value v, sf_dt to)
{
        sf_class from_class = sf_class_of(v.dt), to_class = sf_class_of(to);
        bool was_real = is_real(v.dt);
        if (v.dt == to || to >= SF_DT_COUNT) /* the second is never true, but gcc 13 warns */
                return v;
        if (to == SF_DT_BOOL)
                return (value){emit_one(m, m->map->truth[from_class], v.at), to};
        if (v.dt == SF_DT_F64 && m->map->round[to])
                return (value){emit_one(m, m->map->round[to], v.at), to};
        if (was_real && !is_real(to))
                to_class = real_by_way_of(from_class, to);
        if (from_class != to_class)
                v.at = emit_one(m, m->map->casts[from_class][to_class], v.at);
        sf_loop *after = m->map->settle[to];
        if (!was_real && !is_real(to) && holds(to, v.dt))
                after = NULL;
        if (after)
                v.at = emit_one(m, after, v.at);
        return (value){v.at, to};
}

/* Is the result in range of a narrow type if the arguments are? */
static bool stays_in_range(sf_code code, sf_dt dt)
{
        switch (code) {
        case SF_CODE_MAXIMUM:
        case SF_CODE_MINIMUM:
        case SF_CODE_RELU:
        case SF_CODE_WHERE: return true;
        case SF_CODE_NEG:
        case SF_CODE_ABS: return is_real(dt);
        default: return code >= SF_CODE_EQ && code <= SF_CODE_GE;
        }
}

/* Can the last loop be replaced by one that does this code's work too? Then its slot has the
 * result. */
static bool joins(maker *m, sf_class class, sf_code code, uint8_t *arg)
{
        sf_fused_op *last = m->code->ops ? &m->code->op[m->code->ops - 1] : NULL;
        const sf_pair *pair = m->map->pairs[class];
        if (!last || m->last == SF_CODE_COUNT || !pair)
                return false;
        /* they commute */
        if (sf_code_arguments[code] == 2 && arg[1] == last->y && (code == SF_CODE_ADD || code == SF_CODE_MUL)) {
                arg[1] = arg[0];
                arg[0] = last->y;
        }
        while (pair->loop && (pair->first != m->last || pair->then != code))
                pair++;
        if (!pair->loop || arg[0] != last->y || m->uses[last->y] != 1)
                return false;
        last->loop = pair->loop;
        last->c = sf_code_arguments[code] == 2 ? arg[1] : last->a;
        if (sf_code_arguments[code] == 2)
                drop(m, arg[1]);
        m->last = SF_CODE_COUNT;
        return true;
}

static value compute(maker *m, const sf_instruction *i, const value *values)
{
        sf_dt dt = (sf_dt)i->dt;
        int32_t count = sf_code_arguments[i->code];
        uint8_t arg[3];
        for (int32_t k = 0; k < 3; k++)
                arg[k] = values[i->arg[k < count ? k : 0]].at;
        sf_class class = sf_class_of(i->code == SF_CODE_WHERE ? dt : values[i->arg[0]].dt);
        uint8_t y;
        if (joins(m, class, (sf_code)i->code, arg)) {
                y = m->code->op[m->code->ops - 1].y;
        } else {
                y = emit(m, m->map->loops[class][i->code], arg[0], arg[1], arg[2]);
                m->last = (sf_code)i->code;
                for (int32_t k = 0; k < count; k++)
                        drop(m, arg[k]);
        }
        if (m->map->settle[dt] && !stays_in_range((sf_code)i->code, dt))
                y = emit_one(m, m->map->settle[dt], y);
        return (value){y, dt};
}

static void read_source(maker *m, int32_t k, sf_dt in_memory, sf_class class)
{
        sf_fused_code *c = m->code;
        c->reads |= 1u << k;
        c->source_dt[k] = in_memory;
        c->source_class[k] = class;
        c->as_is[k] = in_memory == sf_class_dt(class);
        c->in[k] = m->map->mover(in_memory, sf_class_dt(class));
}

/* Source k as a value of `dt`. It is settled if its type in memory may hold values that dt
 * cannot. */
static value source(maker *m, int32_t k, sf_dt in_memory, sf_dt dt, sf_dt to)
{
        read_source(m, k, in_memory, sf_class_of(in_memory));
        value v = {(uint8_t)(SF_FUSED_OPERAND + k), dt};
        if (in_memory != dt)
                v.at = emit_one(m, m->map->settle[dt], v.at);
        return cast(m, v, to);
}

/* A single move that converts from one type to `to`, and stores as `dest`; NULL if there is
 * none. */
static sf_move *lone_move(const sf_cpu_map *map, sf_dt from, sf_dt to, sf_dt dest)
{
        if (to == SF_DT_BOOL && from != SF_DT_BOOL)
                return NULL;
        if (to != dest && (is_real(from) || is_real(to) || !holds(to, from)))
                return NULL;
        return map->mover(from, dest); /* cppcheck-suppress CastIntegerToAddressAtReturn ; it returns a pointer */
}

/* Finds a loop that can prefetch. */
static void find_busy(maker *m)
{
        sf_fused_code *c = m->code;
        c->busy = NULL;
        for (c->busy_at = 0; c->busy_at < c->ops; c->busy_at++)
                for (const sf_busy *b = m->map->busy; b && b->loop; b++)
                        if (b->loop == c->op[c->busy_at].loop) {
                                c->busy = b->busy;
                                return;
                        }
}

static void finish(maker *m, value v, sf_dt to, sf_dt dest)
{
        sf_fused_code *c = m->code;
        c->copy = NULL;
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): the last value is always in use, and so it has been set */
        if (v.at >= SF_FUSED_OPERAND && v.at < SF_FUSED_CONSTANT && sf_class_of(v.dt) == sf_class_of(c->source_dt[v.at - SF_FUSED_OPERAND])) {
                c->copied = v.at - SF_FUSED_OPERAND;
                c->copy = lone_move(m->map, c->source_dt[c->copied], to, dest);
        }
        /* If the move to memory rounds or wraps by itself, no cast is needed before it. */
        sf_dt class_dt = sf_class_dt(sf_class_of(v.dt));
        if (dest == sf_class_dt(sf_class_of(dest)) || !lone_move(m->map, class_dt, to, dest))
                v = cast(m, v, to);
        c->last = v.at;
        c->last_class = sf_class_of(v.dt);
        c->out = m->map->mover(sf_class_dt(c->last_class), dest);
        c->out_size = sf_dtypes[dest].size;
        c->direct = false;
        if (c->ops && c->op[c->ops - 1].y == c->last) {
                c->op[c->ops - 1].y = c->last = SF_FUSED_LAST;
                c->direct = dest == sf_class_dt(c->last_class);
        }
        find_busy(m);
}

/*
 * An operand that is read only to be cast (such as a mask's bytes used as factors) can be brought
 * in as the type of the cast, if one move does the same. Returns that type, or the operand's own.
 */
static sf_dt brought_as(const sf_cpu_map *map, const sf_program *p, const int32_t *uses, int32_t load, sf_dt in_memory)
{
        sf_dt as = in_memory;
        if (uses[load] != 1 || p->code[load].dt != in_memory)
                return in_memory;
        for (int32_t i = 0; i < p->count; i++) {
                const sf_instruction *at = &p->code[i];
                if (uses[i] && i != load && at->code == SF_CODE_LOAD && at->slot == p->code[load].slot)
                        return in_memory; /* another load needs the operand's own type */
                if (uses[i] && at->code == SF_CODE_CAST && at->arg[0] == load)
                        as = (sf_dt)at->dt;
        }
        sf_dt dest = sf_class_dt(sf_class_of(as));
        return lone_move(map, in_memory, as, dest) ? as : in_memory;
}

/* A result that is only stored wraps when it is stored, and need not be settled before. */
static bool wraps_anyway(const sf_program *p, sf_dt result, sf_dt to)
{
        bool only = !p->count || (p->count == 1 && p->code[0].code == SF_CODE_RESULT && p->code[0].dt == result);
        return only && !is_real(to) && to != SF_DT_BOOL && sf_dtypes[to].bits <= sf_dtypes[result].bits;
}

/* Is this value one instruction of another value and an operand, as it is in memory? An operand that
 * comes first is exchanged where that makes no difference. Then *last becomes the other one. */
static int8_t part_of(const sf_fuse *f, const sf_program *p, sf_dt dt, sf_code code, int32_t *last)
{
        const sf_instruction *at = &p->code[*last];
        for (int32_t k = 1; k >= (code == SF_CODE_MUL || code == SF_CODE_ADD ? 0 : 1) && at->code == code; k--) {
                const sf_instruction *load = &p->code[at->arg[k]];
                if (load->code != SF_CODE_LOAD || load->dt != dt || f->operand[load->slot].dt != dt)
                        continue;
                *last = at->arg[1 - k];
                return (int8_t)load->slot;
        }
        return -1;
}

/* Finds an sf_affine in a load program that writes its class's own type. */
static void find_affine(const sf_fuse *f, const sf_program *p, sf_dt to, sf_dt dest, sf_fused_code *c)
{
        int32_t last = p->count - 1;
        c->scale = c->weight = c->bias = -1;
        if (p != &f->load || to != dest || (dest != SF_DT_F32 && dest != SF_DT_F64) || !p->count || p->code[last].dt != dest)
                return;
        c->bias = part_of(f, p, dest, SF_CODE_ADD, &last);
        c->then = c->bias < 0 ? (sf_code)p->code[last].code : SF_CODE_MUL;
        if (c->then != SF_CODE_MUL && c->then != SF_CODE_SUB && c->then != SF_CODE_DIV)
                return;
        int8_t scale = part_of(f, p, dest, c->then, &last);
        const int8_t next = c->then == SF_CODE_MUL && scale >= 0 ? part_of(f, p, dest, SF_CODE_MUL, &last) : -1;
        if (next >= 0) {
                c->weight = scale;
                scale = next;
        }
        c->centre = part_of(f, p, dest, SF_CODE_SUB, &last);
        const sf_instruction *x = &p->code[last];
        c->x = (int8_t)x->slot;
        if (x->code == SF_CODE_LOAD && x->dt == dest && f->operand[x->slot].dt == dest)
                c->scale = scale;
}

/* Is this value (x - centre) * scale, or x * scale? */
static bool is_standard(const sf_fuse *f, const sf_program *p, sf_dt dt, int32_t last, sf_fused_code *c)
{
        const sf_instruction *x;
        c->scale = part_of(f, p, dt, SF_CODE_MUL, &last);
        c->centre = part_of(f, p, dt, SF_CODE_SUB, &last);
        x = &p->code[last];
        c->x = (int8_t)x->slot;
        return c->scale >= 0 && x->code == SF_CODE_LOAD && x->dt == dt && f->operand[x->slot].dt == dt;
}

/* Is it given * weight, or given? */
static bool is_given(const sf_fuse *f, const sf_program *p, sf_dt dt, int32_t last, sf_fused_code *c)
{
        const sf_instruction *given;
        c->weight = part_of(f, p, dt, SF_CODE_MUL, &last);
        given = &p->code[last];
        c->given = (int8_t)given->slot;
        return given->code == SF_CODE_LOAD && given->dt == dt && f->operand[given->slot].dt == dt;
}

/* Is it one instruction, the two values in the order in which derivatives are written? */
static bool is_of(const sf_program *p, sf_dt dt, sf_code code, int32_t last, int32_t *a, int32_t *b)
{
        const sf_instruction *at = &p->code[last];
        *a = at->arg[0];
        *b = at->arg[1];
        return at->code == code && at->dt == dt;
}

/* Finds what the gradient of a norm is made of (sf_affine), in a load program that is no affine. */
static void find_gradient(const sf_fuse *f, const sf_program *p, sf_dt to, sf_dt dest, sf_fused_code *c)
{
        int32_t outer, inner, v, h;
        c->given = c->shift = c->slope = -1;
        if (c->scale >= 0 || p != &f->load || to != dest || (dest != SF_DT_F32 && dest != SF_DT_F64) || !p->count ||
            !is_of(p, dest, SF_CODE_MUL, p->count - 1, &outer, &inner))
                return;
        bool found = is_standard(f, p, dest, inner, c) && is_given(f, p, dest, outer, c) && c->weight >= 0;
        const sf_instruction *scale = &p->code[outer];
        if (!found && is_of(p, dest, SF_CODE_SUB, inner, &v, &h) && scale->code == SF_CODE_LOAD) {
                c->slope = part_of(f, p, dest, SF_CODE_MUL, &h);
                c->shift = part_of(f, p, dest, SF_CODE_SUB, &v);
                found = c->slope >= 0 && is_standard(f, p, dest, h, c) && is_given(f, p, dest, v, c) &&
                        scale->slot == (uint8_t)c->scale && (c->shift < 0) == (c->centre < 0);
        }
        if (!found)
                c->given = c->scale = -1;
}

void sf_fused_compile(const sf_cpu_map *map, const sf_fuse *fuse, const sf_program *p, sf_dt result, sf_dt held, sf_dt to, sf_dt dest,
                      sf_fused_code *code)
{
        const bool store = p == &fuse->store;
        maker m = {.map = map, .code = code, .last = SF_CODE_COUNT};
        value values[SF_PROGRAM_MAX];
        int32_t uses[SF_PROGRAM_MAX] = {0};
        code->ops = code->slots = 0;
        code->reads = 0;
        code->program = p;
        find_affine(fuse, p, to, dest, code);
        find_gradient(fuse, p, to, dest, code);
        if (store && wraps_anyway(p, result, to))
                result = held;
        if (!p->count) {
                value v = store ? source(&m, SF_FUSED_RESULT, held, result, result)
                                : source(&m, 0, fuse->operand[0].dt, fuse->operand[0].dt, fuse->operand[0].dt);
                finish(&m, v, to, dest);
                return;
        }
        /* A value is used if it is the program's value or an argument of a value that is used. */
        uses[p->count - 1] = 1;
        for (int32_t i = p->count - 1; i >= 0; i--)
                for (int32_t k = 0; uses[i] && k < sf_code_arguments[p->code[i].code]; k++)
                        uses[p->code[i].arg[k]]++;
        for (int32_t i = 0; i < p->count; i++) {
                const sf_instruction *at = &p->code[i];
                if (!uses[i])
                        continue;
                if (at->code == SF_CODE_LOAD) {
                        sf_dt dt = fuse->operand[at->slot].dt, as = brought_as(map, p, uses, i, dt);
                        if (as == dt) {
                                values[i] = source(&m, at->slot, dt, dt, (sf_dt)at->dt);
                        } else {
                                read_source(&m, at->slot, dt, sf_class_of(as));
                                values[i] = (value){(uint8_t)(SF_FUSED_OPERAND + at->slot), as};
                        }
                } else if (at->code == SF_CODE_RESULT)
                        values[i] = source(&m, SF_FUSED_RESULT, held, result, p->count == 1 ? result : (sf_dt)at->dt);
                else if (at->code == SF_CODE_CONSTANT)
                        values[i] = (value){(uint8_t)(SF_FUSED_CONSTANT + at->slot), (sf_dt)at->dt};
                else if (at->code == SF_CODE_CAST)
                        values[i] = cast(&m, values[at->arg[0]], (sf_dt)at->dt);
                else
                        values[i] = compute(&m, at, values);
                if (values[i].at < SF_FUSED_SLOTS)
                        m.uses[values[i].at] += uses[i] - 1;
        }
        finish(&m, values[p->count - 1], to, dest);
}
