/*
 * Turns a specialisation into text: the prelude, which is a page of macros; the programs of a fused
 * step, as functions; and, with the kernel files around them, the whole source.
 */
#include "cuda/embed.h"
#include "cuda/emit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * The prelude
 * ---------------------------------------------------------------------------------------------- */
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

static const int signs[4] = {0, 1, -1, 0}; /* signs of units */

static void put_unit(writer *w, const sf_cuda_spec *spec, const char *name, int shift)
{
        put(w, "#define %s (%d)\n", name, signs[spec->flags / shift & 3]);
}

/* The macros of each kernel file, in the order of sf_cuda_spec.extra from SF_CUDA_OWN on. */
enum { SF_CUDA_FOLD_DOWN = SF_CUDA_KERNEL_COUNT };
static const char *const own_names[SF_CUDA_KERNEL_COUNT + 1][SF_CUDA_OWNS] = {
#define FIELD(kernel, place, NAME) [SF_CUDA_##kernel][place] = "SF_" #NAME,
#include "cuda/fields.def"
#undef FIELD
};

static const char *const dt_names[] = {
#define DTYPE(name, NAME, ctype, code, bits, kind) "SF_DT_" #NAME,
#include "core/dtypes.def"
#undef DTYPE
};

/* Does step `step` of again.cu read this operand in that program? */
static bool reads(const sf_cuda_fused *f, int32_t operand, int32_t step, int way)
{
        return f->how[operand] & way && (f->how[operand] & SF_CUDA_OPERAND_UNIT) == step;
}

/* How an operand is laid out (SF_CUDA_OPERAND_UNIT), as memory.cuh has it. */
static const int operand_units[4] = {0, 1, -1, 2};

/* The operands that a program reads, as memory.cuh expands them; in again.cu, for each step
 * separately. A fold of a sequence has one result for each line. */
static void put_operands(writer *w, const sf_cuda_spec *spec, const char *name, int reader)
{
        const bool again = spec->kernel == SF_CUDA_AGAIN;
        const sf_cuda_fused *f = &spec->fused;
        bool one = reader == SF_CUDA_OPERAND_STORES && spec->kernel == SF_CUDA_FOLD && !(spec->flags & SF_CUDA_DOWN);
        for (int32_t step = 0; step <= (again ? f->beside : 0); step++) {
                put(w, "#define %s", name);
                if (again)
                        put(w, "%d", (int)step);
                put(w, "(F)");
                for (int32_t k = 0; k < f->operands; k++)
                        if (again && reads(f, k, step, reader))
                                put(w, " F(%d, %s, %d)", (int)k, dt_names[f->dt[k]], f->how[k] / SF_CUDA_OPERAND_MADE - 1);
                        else if (!again && f->how[k] & reader)
                                put(w, " F(%d, %s, %d)", (int)k, dt_names[f->dt[k]], one ? 2 : operand_units[f->how[k] & SF_CUDA_OPERAND_UNIT]);
                put(w, "\n");
        }
}

/* Of the operands that the store program reads: SF_KEPT lists those that the load program reads
 * too, SF_FRESH the others. */
static void put_shared(writer *w, const sf_cuda_fused *f)
{
        enum { BOTH = SF_CUDA_OPERAND_LOADS | SF_CUDA_OPERAND_STORES };
        for (int kept = 0; kept < 2; kept++) {
                put(w, "#define %s(F)", kept ? "SF_KEPT" : "SF_FRESH");
                for (int32_t k = 0; k < f->operands; k++)
                        if ((f->how[k] & BOTH) == (kept ? BOTH : SF_CUDA_OPERAND_STORES))
                                put(w, " F(%d, %s, %d)", (int)k, dt_names[f->dt[k]], operand_units[f->how[k] & SF_CUDA_OPERAND_UNIT]);
                put(w, "\n");
        }
}

/* Bits: the operands that a program of `count` instructions reads. */
static unsigned operands_of(const sf_instruction *program, int32_t count)
{
        unsigned bits = 0;
        for (int32_t i = 0; i < count; i++)
                bits |= program[i].code == SF_CODE_LOAD ? 1u << program[i].slot : 0;
        return bits;
}

/* The steps of apply.cu or apply_columns.cu and what they read. */
static void put_chain(writer *w, const sf_cuda_spec *spec)
{
        static const int units[4] = {0, 1, 3, 2};
        const sf_cuda_fused *f = &spec->fused;
        const sf_instruction *program = f->code;
        put(w, "#define SF_OPERAND_LIST(F)");
        for (int32_t k = 0; k < f->operands; k++)
                put(w, " F(%d, %s, %d, %d)", (int)k, dt_names[f->dt[k]], units[f->how[k] & SF_CUDA_OPERAND_UNIT], (f->how[k] & 0x70) / SF_CUDA_OPERAND_MADE - 1);
        unsigned copied = 0;
        for (int32_t k = 0; k < f->operands; k++)
                copied |= f->how[k] & SF_CUDA_OPERAND_COPIED ? 1u << k : 0;
        put(w, "\n#define SF_COPIES %u\n#define SF_STEPS(F)", copied);
        for (int32_t k = 0; k <= f->beside; k++) {
                const sf_cuda_also own = {(uint8_t)spec->op, (uint8_t)spec->acc, (uint8_t)spec->out, (spec->flags & SF_CUDA_INITIAL) != 0, f->loads, f->stores, 0, 0};
                const sf_cuda_also *s = k ? &f->also[k - 1] : &own;
                const int32_t how = spec->extra[sf_cuda_how_of(spec->kernel) + k];
                const unsigned mask = how >> 4 ? 1u << ((how >> 4) - 1) : 0, loads = operands_of(program, s->loads) | mask;
                put(w, " F(%d, %d, %s, %s, %d, %d, %u, %u)", (int)k, s->op, dt_names[s->acc], dt_names[s->out], s->initial, (int)how, loads,
                    operands_of(program + s->loads, s->stores));
                program += s->loads + s->stores;
        }
        put(w, "\n");
}

/* The steps of again.cu. */
static void put_steps(writer *w, const sf_cuda_spec *spec)
{
        int32_t first = spec->extra[SF_CUDA_NBATCH];
        put(w, "#define SF_STEPS(F)");
        for (int32_t k = 0; k <= spec->fused.beside; k++) {
                const sf_cuda_also own = {(uint8_t)spec->op, (uint8_t)spec->acc, (uint8_t)spec->out, (spec->flags & SF_CUDA_INITIAL) != 0, 0, 0, 0, 0};
                const sf_cuda_also *s = k ? &spec->fused.also[k - 1] : &own;
                const int32_t *dims = &spec->extra[SF_CUDA_OWN + 2 * k];
                put(w, " F(%d, %d, %s, %s, %d, %d, %d, %d)", (int)k, s->op, dt_names[s->acc], dt_names[s->out], s->initial, (int)first, (int)dims[0], (int)dims[1]);
                first += dims[0] + dims[1];
        }
        put(w, "\n");
}

/* Which operands of segments.cu have one element for each segment. */
static void put_spread(writer *w, const sf_cuda_spec *spec)
{
        unsigned spread = 0;
        for (int32_t k = 0; k < spec->fused.operands; k++)
                spread |= (spec->fused.how[k] & SF_CUDA_OPERAND_SPREAD ? 1u : 0) << k;
        if (spec->kernel == SF_CUDA_SEGMENTS)
                put(w, "#define SF_SPREAD %uu\n", spread);
}

static bool is_chain(int32_t kernel)
{
        return kernel == SF_CUDA_APPLY || kernel == SF_CUDA_APPLY_SHORT || kernel == SF_CUDA_APPLY_COLUMNS || kernel == SF_CUDA_APPLY_GROUP ||
               kernel == SF_CUDA_SEGMENTS_APPLY;
}

static void put_fused(writer *w, const sf_cuda_spec *spec)
{
        const sf_cuda_fused *f = &spec->fused;
        const bool fused = sf_cuda_codes(f) > 0, folds = spec->kernel == SF_CUDA_FOLD, again = spec->kernel == SF_CUDA_AGAIN;
        const bool apply = is_chain(spec->kernel);
        const bool element = f->beside && sf_op_is((sf_op)spec->op, SF_INDEX), doubles = f->beside && f->also[0].doubles;
        const bool total = f->beside && !folds && !again && !apply && !element && !doubles;
        const sf_op op = (sf_op)spec->op;
        bool products = sf_cuda_is_product(spec->op, spec->acc), exponentials = op == SF_LOGSUMEXP;
        for (int k = 0; k < f->beside; k++) {
                products = products || sf_cuda_is_product(f->also[k].op, f->also[k].acc);
                exponentials = exponentials || f->also[k].op == SF_LOGSUMEXP;
        }
        put(w, "#define SF_PRODUCTS %d\n#define SF_EXPONENTIALS %d\n", products, exponentials);
        put(w, "#define SF_INDICES %d\n#define SF_TWOS %d\n", sf_op_is(op, SF_INDEX), sf_op_is(op, SF_TWO));
        /* Is the kernel's own value a pair? That of a chain's first step; others have types of their own. */
        if (apply || again)
                put(w, "#define SF_PAIRED %d\n", sf_cuda_is_pair(spec->op, spec->acc));
        else
                put(w, "#define SF_PAIRED (SF_PRODUCTS || SF_EXPONENTIALS || SF_INDICES || SF_TWOS)\n");
        /* Rows and columns never combine an index with one to its left. A masked-out element has no
         * index at all. */
        const bool in_order = sf_op_is(op, SF_INDEX) && (spec->kernel == SF_CUDA_SCAN_ROWS || spec->kernel == SF_CUDA_SCAN_COLUMNS) && !(spec->flags & SF_CUDA_MASK);
        put(w, "#define SF_OP_COMMUTES %d\n#define SF_IN_ORDER %d\n", sf_op_is(op, SF_COMMUTES) && !in_order, in_order);
        put(w, "#define SF_VALUE_SIZE %d\n", sf_cuda_value_size(spec->op, spec->acc));
        put(w, "#define SF_FREE %d\n", !(folds && f->beside && !element) && sf_op_free((sf_op)spec->op, (sf_dt)spec->acc));
        put(w, "#define SF_FUSED %d\n#define SF_LOAD_FUSED %d\n#define SF_STORE_FUSED %d\n", fused, f->loads > 0, f->stores > 0);
        put(w, "#define SF_MEMBERS %d\n#define SF_ALSO %d\n#define SF_TOTAL %d\n", folds && !element ? 1 + f->beside : 1, f->beside, total);
        put(w, "#define SF_ELEMENT %d\n#define SF_SECOND %d\n#define SF_IS_FOLD %d\n", element, element || doubles, folds);
        if (element || doubles)
                put(w, "#define SF_SECOND_OUT %s\n#define SF_SECOND_UNIT (%d)\n", dt_names[f->also[0].out], signs[f->also[0].unit]);
        if (total)
                put(w, "#define SF_TOTAL_OUT %s\n#define SF_TOTAL_INITIAL %d\n", dt_names[f->also[0].out], f->also[0].initial);
        put_spread(w, spec);
        if (!fused)
                return;
        if (f->beside && folds && !element) {
                put(w, "#define SF_EACH(F) F(0, %d, %s, %s, %d)", (int)spec->op, dt_names[spec->acc], dt_names[spec->out],
                    (spec->flags & SF_CUDA_INITIAL) != 0);
                for (int k = 0; k < f->beside; k++)
                        put(w, " F(%d, %d, %s, %s, %d)", k + 1, f->also[k].op, dt_names[f->also[k].acc], dt_names[f->also[k].out], f->also[k].initial);
                put(w, "\n");
        }
        put(w, "#define SF_OPERANDS %d\n#define SF_CONSTANTS %d\n", f->operands ? f->operands : 1, f->constants ? f->constants : 1);
        unsigned still = 0, loose = 0, shorter = 0;
        for (int32_t k = 0; k < f->operands && k < SF_OPERANDS_MAX && !again && !apply; k++) {
                still |= (f->how[k] & SF_CUDA_OPERAND_STILL ? 1u : 0) << k;
                loose |= (f->how[k] & SF_CUDA_OPERAND_LOOSE ? 1u : 0) << k;
                shorter |= (f->how[k] & SF_CUDA_OPERAND_SHORT ? 1u : 0) << k;
        }
        put(w, "#define SF_STILL %uu\n#define SF_LOOSE_ONES %uu\n#define SF_SHORT %uu\n", still, loose, shorter);
        if (apply) {
                put_chain(w, spec);
                return;
        }
        put_operands(w, spec, "SF_LOADS", SF_CUDA_OPERAND_LOADS);
        put_operands(w, spec, "SF_STORES", SF_CUDA_OPERAND_STORES);
        put_shared(w, f);
        if (again)
                put_steps(w, spec);
}

static const char *const kernel_names[] = {
#define KERNEL(name, NAME) #name,
#include "cuda/kernels.def"
#undef KERNEL
};

const char *sf_cuda_kernel_name(int32_t kernel)
{
        return kernel >= 0 && kernel < SF_CUDA_KERNEL_COUNT ? kernel_names[kernel] : "";
}

/* Examples: scanfold_scan_rows_sum_f32, scanfold_fold_max_f16_fused, scanfold_map_i8_to_f32. */
void sf_cuda_entry(const sf_cuda_spec *spec, char name[SF_CUDA_ENTRY_SIZE])
{
        writer w = {name, SF_CUDA_ENTRY_SIZE, 0};
        put(&w, "scanfold_%s", kernel_names[spec->kernel]);
        if (spec->kernel != SF_CUDA_MAP)
                put(&w, "_%s", sf_op_name((sf_op)spec->op));
        put(&w, "_%s", sf_dtypes[spec->in].name);
        if (spec->out != spec->in)
                put(&w, "_to_%s", sf_dtypes[spec->out].name);
        if (sf_cuda_codes(&spec->fused))
                put(&w, "_fused");
}

size_t sf_cuda_prelude(const sf_cuda_spec *spec, char *text, size_t size)
{
        writer w = {text, size, 0};
        char entry[SF_CUDA_ENTRY_SIZE];
        if (size)
                text[0] = 0;
        sf_cuda_entry(spec, entry);
        put(&w, "#define SF_ENTRY %s\n", entry);
        int32_t number = 0;
#define DTYPE(name, NAME, ctype, code, bits, kind) put(&w, "#define SF_DT_" #NAME " %d\n", (int)number++);
#include "core/dtypes.def"
#undef DTYPE
#define OP(name, NAME, ...) put(&w, "#define SF_OP_" #NAME " %d\n", (int)SF_##NAME);
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
        put_flag(&w, spec, "SF_SHIFT_IN", SF_CUDA_SHIFT_IN);
        put_flag(&w, spec, "SF_SHIFT_OUT", SF_CUDA_SHIFT_OUT);
        put_flag(&w, spec, "SF_EARLY", SF_CUDA_EARLY);
        put_flag(&w, spec, "SF_LEFTS", SF_CUDA_LEFTS);
        put_flag(&w, spec, "SF_VALUES", SF_CUDA_VALUES);
        put_flag(&w, spec, "SF_CUTS", SF_CUDA_CUTS);
        put_flag(&w, spec, "SF_LIFTS", SF_CUDA_LIFTS);
        put_flag(&w, spec, "SF_ROLLS", SF_CUDA_ROLLS);
        put_unit(&w, spec, "SF_X_UNIT", SF_CUDA_X_UNIT);
        put_unit(&w, spec, "SF_Y_UNIT", SF_CUDA_Y_UNIT);
        put_unit(&w, spec, "SF_M_UNIT", SF_CUDA_M_UNIT);
        put(&w, "#define SF_THREADS %d\n#define SF_ITEMS %d\n#define SF_WIDTH %d\n", (int)spec->threads, (int)spec->items, (int)spec->width);
        if (spec->extra[SF_CUDA_TWIN])
                put(&w, "#define SF_TWIN %d\n#define SF_TWIN_OF %s\n", 1, dt_names[spec->extra[SF_CUDA_TWIN] - 1]);
        put(&w, "#define SF_NBATCH %d\n#define SF_NSEQ %d\n#define SF_RESIDENT %d\n", (int)spec->extra[SF_CUDA_NBATCH],
            (int)spec->extra[SF_CUDA_NSEQ], (int)spec->extra[SF_CUDA_RESIDENT]);
        put(&w, "#define SF_DIMS %d\n#define SF_PARAMS_SIZE %zu\n", (int)sf_cuda_dims(spec),
            sf_cuda_params_parts(spec).end);
        const bool down = spec->kernel == SF_CUDA_FOLD && spec->flags & SF_CUDA_DOWN;
        const char *const *names = own_names[down ? SF_CUDA_FOLD_DOWN : spec->kernel];
        for (int k = 0; k < SF_CUDA_OWNS; k++)
                if (names[k])
                        put(&w, "#define %s %d\n", names[k], (int)spec->extra[SF_CUDA_OWN + k]);
        put_fused(&w, spec);
        return w.length;
}

/* ------------------------------------------------------------------------------------------------
 * Programs
 * ---------------------------------------------------------------------------------------------- */
static const struct {
        const char *name;
        int32_t arguments;
        bool chosen; /* the value is an argument's or a bool: nothing to round */
} codes[SF_CODE_COUNT] = {
#define SOURCE false
#define SAME false
#define REAL false
#define TEST true
#define CHOOSE true
#define CAST false
#define CODE(name, NAME, arguments, kind) [SF_CODE_##NAME] = {#name, arguments, kind},
#include "core/codes.def"
#undef CODE
#undef SOURCE
#undef SAME
#undef REAL
#undef TEST
#undef CHOOSE
#undef CAST
};

/* `value`, of type `from`, cast to type `to`. */
static void put_cast(writer *w, int from, int to, const char *value, int number)
{
        if (from == to)
                put(w, "%s%d", value, number);
        else
                put(w, "sf_dtype<%s>::cast(%s%d)", dt_names[to], value, number);
}

/* In place of a step of again.cu (`only`): in other kernels, and in those of chains. */
enum { ALL_STEPS = -1, CHAIN_STEPS = -2 };

/* Is it the same for every element of a line? Constants are, and operands with one element for the
 * line; again.cu (`only`) does not say which those are. */
static bool is_shared(const sf_cuda_fused *f, const sf_instruction *program, int32_t number, int only)
{
        const sf_instruction *i = &program[number];
        if (i->code == SF_CODE_LOAD)
                return only < 0 && (f->how[i->slot] & SF_CUDA_OPERAND_UNIT) == 3;
        bool shared = i->code != SF_CODE_RESULT;
        for (int32_t a = 0; a < codes[i->code].arguments; a++)
                shared = shared && is_shared(f, program, i->arg[a], only);
        return shared;
}

/* Is this a division by a value that is the same for the line, of one that is not? */
static bool divides_by(const sf_cuda_fused *f, const sf_instruction *program, const sf_instruction *i, int only)
{
        return i->code == SF_CODE_DIV && is_shared(f, program, i->arg[1], only) && !is_shared(f, program, i->arg[0], only);
}

static void put_instruction(writer *w, const sf_cuda_fused *f, int acc,
        const sf_instruction *program, int32_t count, int32_t number, int only)
{
        const sf_instruction *i = &program[number];
        const bool last = number == count - 1;
        const char *type = dt_names[i->dt];
        put(w, "        sf_of<%s> v%d = ", type, (int)number);
        switch (i->code) {
        case SF_CODE_LOAD: put_cast(w, f->dt[i->slot], i->dt, "x", i->slot); break;
        case SF_CODE_CONSTANT: put(w, "sf_dtype<%s>::constant(p.constant[%d])", type, (int)i->slot); break;
        case SF_CODE_RESULT: put_cast(w, acc, i->dt, "s", 0); break;
        case SF_CODE_CAST: put_cast(w, program[i->arg[0]].dt, i->dt, "v", i->arg[0]); break;
        default:
                if (!codes[i->code].chosen)
                        put(w, "sf_dtype<%s>::settle(", type);
                put(w, "sf_code_%s%s(", codes[i->code].name, divides_by(f, program, i, only) ? "_by" : "");
                for (int32_t a = 0; a < codes[i->code].arguments; a++)
                        put(w, "%sv%d", a ? ", " : "", (int)i->arg[a]);
                if (divides_by(f, program, i, only)) {
                        const sf_instruction *a = &program[i->arg[0]];
                        const int how = a->code == SF_CODE_LOAD && only == CHAIN_STEPS ? f->how[a->slot] : 0;
                        const bool made = how % SF_CUDA_OPERAND_COPIED >= SF_CUDA_OPERAND_MADE;
                        const bool kept = made && (how & SF_CUDA_OPERAND_UNIT) == 1;
                        put(w, kept ? ", sf_of_kept(%s)" : ", %s", last ? "ask" : "sf_inner(ask)");
                }
                put(w, i->code == SF_CODE_EXP ? ", ask" : "");
                put(w, codes[i->code].chosen ? ")" : "))");
        }
        put(w, ";\n");
}

/* What the program gets besides `p`: the operands that it reads; for again.cu, those of step
 * `only`. */
static void put_arguments(writer *w, const sf_cuda_fused *f, int reader, int only)
{
        for (int32_t k = 0; k < f->operands; k++)
                if (only < 0 ? f->how[k] & reader : reads(f, k, only, reader))
                        put(w, ", sf_of<%s> x%d", dt_names[f->dt[k]], (int)k);
        put(w, ", ASK &&ask = ASK())\n{\n        (void)p, (void)ask;\n");
}

/* Writes a program of `count` instructions that makes an element of type `acc`; returns the next
 * instruction. */
static const sf_instruction *put_load(writer *w, const sf_cuda_fused *f, const char *name, int number, const sf_instruction *program, int32_t count, int acc, int only)
{
        put(w, "template <class ASK = sf_careful> SF_DEVICE sf_of<%s> sf_%s_program%d(const sf_params &p", dt_names[acc], name, number);
        put_arguments(w, f, SF_CUDA_OPERAND_LOADS, only);
        for (int32_t i = 0; i < count; i++)
                put_instruction(w, f, acc, program, count, i, only);
        put(w, "        return ");
        put_cast(w, program[count - 1].dt, acc, "v", count - 1);
        put(w, ";\n}\n");
        const bool quotient = program[count - 1].dt == acc && divides_by(f, program,
                &program[count - 1], only);
        put(w, "enum { sf_%s_ends_in_quotient%d = %d };\n", name, number, quotient);
        const sf_instruction *end = &program[count - 1];
        put(w, "enum { sf_%s_ends_in_exp%d = %d };\n", name, number,
            end->code == SF_CODE_EXP && end->dt == SF_DT_F32 && acc == SF_DT_F32);
        return program + count;
}

/* Writes the programs of step `number` of the launch; returns the next instruction. */
static const sf_instruction *put_step(writer *w, const sf_cuda_fused *f, int number, const sf_instruction *program, const sf_cuda_also *step, int only)
{
        const int32_t result = (int32_t)sf_op_result((sf_op)step->op, (sf_dt)step->acc);
        if (step->loads)
                program = put_load(w, f, "load", number, program, step->loads, step->acc, only);
        if (!number && f->others)
                program = put_load(w, f, "other", number, program, f->others, step->acc, only);
        if (step->stores) {
                /* a scan's total, or the element at an index: it reads no operands */
                const bool total = number && !step->loads && !step->doubles;
                put(w, "template <class ASK = sf_careful> SF_DEVICE sf_u64 sf_store_program%d(const sf_params &p, sf_of<%s> s", number, dt_names[result]);
                put_arguments(w, f, total ? 0 : SF_CUDA_OPERAND_STORES, only);
                put(w, "        sf_of<%s> s0 = sf_dtype<%s>::settle(s);\n        (void)s0;\n", dt_names[result], dt_names[result]);
                for (int32_t i = 0; i < step->stores; i++)
                        put_instruction(w, f, result, program, step->stores, i, only);
                put(w, "        return sf_dtype<%s>::bits(", dt_names[step->out]);
                /* An f32 is rounded to a narrow type by that. */
                const int from = program[step->stores - 1].dt;
                const bool rounds = from == SF_DT_F32 && (step->out == SF_DT_F16 ||
                        step->out == SF_DT_BF16);
                put_cast(w, from, rounds ? from : step->out, "v", step->stores - 1);
                put(w, ");\n}\nenum { sf_store_rounds%d = %d };\n", number, rounds &&
                        step->stores == 1 && program->code == SF_CODE_RESULT);
                program += step->stores;
        }
        return program;
}

static void put_programs(writer *w, const sf_cuda_spec *spec)
{
        const sf_cuda_fused *f = &spec->fused;
        sf_cuda_also first = {.op = (uint8_t)spec->op, .acc = (uint8_t)spec->acc, .out = (uint8_t)spec->out, .loads = f->loads, .stores = f->stores};
        put(w, "\n#line 1 \"programs\"\n");
        const bool again = spec->kernel == SF_CUDA_AGAIN;
        const bool chain = spec->kernel == SF_CUDA_APPLY || spec->kernel == SF_CUDA_APPLY_SHORT || spec->kernel == SF_CUDA_APPLY_COLUMNS;
        const int other = chain ? CHAIN_STEPS : ALL_STEPS;
        const sf_instruction *program = put_step(w, f, 0, f->code, &first, again ? 0 : other);
        for (int k = 0; k < f->beside; k++)
                program = put_step(w, f, k + 1, program, &f->also[k], again ? k + 1 : other);
}

/* ------------------------------------------------------------------------------------------------
 * The whole
 * ---------------------------------------------------------------------------------------------- */
static const char *const kernel_files[] = {
#define KERNEL(name, NAME) #name ".cu",
#include "cuda/kernels.def"
#undef KERNEL
};

static const sf_embedded *find_file(const char *name, size_t length)
{
        const sf_embedded *file = sf_embedded_files;
        while (file->name && (strlen(file->name) != length || memcmp(file->name, name, length)))
                file++;
        return file->name ? file : NULL;
}

/* Writes an embedded file; embedded files that it includes are inserted in place. Line numbers in
 * the compiler's log are those of the files in the repository. False: this build has no such
 * file. */
static bool put_file(writer *w, const char *name)
{
        static const char include[] = "\n#include \"";
        const sf_embedded *file = find_file(name, strlen(name)), *inner;
        if (!file)
                return false;
        put(w, "\n#line 1 \"%s\"\n", name);
        const char *from = file->text;
        int line = 1;
        for (const char *at = from; (at = strstr(at, include)); at++) {
                const char *what = at + sizeof include - 1, *end = strchr(what, '"');
                if (!end || !(inner = find_file(what, (size_t)(end - what))))
                        continue;
                for (const char *c = from; c <= at; c++)
                        line += *c == '\n';
                put(w, "%.*s", (int)(at - from), from);
                put_file(w, inner->name);
                put(w, "\n#line %d \"%s\"", line + 1, name);
                from = end + 1;
        }
        put(w, "%s", from);
        return true;
}

/* Returns NULL, or the name of a file that is missing. */
static const char *put_source(writer *w, const sf_cuda_spec *spec)
{
        const bool fused = sf_cuda_codes(&spec->fused) > 0, folds = spec->fused.beside && spec->kernel == SF_CUDA_FOLD && !sf_op_is((sf_op)spec->op, SF_INDEX);
        const bool tiles = spec->kernel != SF_CUDA_AGAIN && !is_chain(spec->kernel);
        const char *files[] = {"device.cuh", "shared.h", "value.cuh", "element.cuh", fused ? "codes.cuh" : NULL,
                               folds ? "members.cuh" : NULL, tiles ? "memory.cuh" : NULL, tiles ? "tree.cuh" : NULL,
                               kernel_files[spec->kernel]};
        w->length = sf_cuda_prelude(spec, w->text, w->size);
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
                if (files[i] && !put_file(w, files[i]))
                        return files[i];
                if (fused && i == 5)
                        /* they use what comes before, and what comes after uses them */
                        put_programs(w, spec);
        }
        return NULL;
}

sf_status sf_cuda_source(const sf_context *ctx, const sf_cuda_spec *spec, char **text)
{
        writer w = {NULL, 0, 0};
        const char *missing = put_source(&w, spec);
        if (missing)
                return sf_fail(ctx, SF_UNSUPPORTED, "this build has no kernel file %s", missing);
        w.size = w.length + 1;
        if (!(w.text = malloc(w.size)))
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory for %zu bytes of kernel source", w.size);
        put_source(&w, spec);
        *text = w.text;
        return SF_OK;
}
