/*
 * program.h: elementwise work as straight-line code: what a step does to its elements when it loads
 * them, and to its results when it stores them.
 *
 * A program is a list of instructions. Each computes one value from earlier ones, and is referred
 * to by its number. The value of the program is that of its last instruction. At every position of
 * a step:
 *
 *     a[i] = load(operands at i), a value of the step's accumulator type      instead of  a[i] = x[i]
 *     y[i] = store(s[i], operands at i), a value of the step's out type       instead of  y[i] = s[i]
 *
 * a, s and y are those of step.h; mask, exclusive and initial have their usual meaning. A step over
 * sequences of one element is a plain elementwise pass.
 *
 * Types: every instruction has one. A value of f16 or bf16 is stored as an f32 that the narrow type
 * can represent: an instruction of that type computes in f32 and rounds its result, as if it had
 * been stored and loaded again. Integers wrap. Arithmetic on bool is done on 0 and 1, and whatever
 * is not 0 is true: add is "or", mul is "and". Each operation is rounded once: nothing is
 * contracted or reassociated, so that a program gives the same bits on every backend. exp, log,
 * sigmoid and tanh are sequences of such operations (exponentials.inc.h says how exact they are).
 *
 * Casts: real to real rounds once. Integer to f32 and f64 rounds once; integer to f16 and bf16 goes
 * through f32. Integer to integer wraps. To bool: whatever is not 0 is true, NaN too. A program's
 * last value is cast to the type that the step needs.
 *
 * Real to integer drops the fraction and wraps to the type's width. It goes through an integer of
 * 32 or 64 bits, as the instructions of x86 do. What does not fit into that integer, NaN among it,
 * becomes its lowest value:
 *
 *     to                through      NaN, and what does not fit into that
 *     i8  i16  u16      i32          0
 *     i32               i32          -2^31
 *     u8  u32           i64          0
 *     i64               i64          -2^63
 *     u64               i64; from 2^63 on, v - 2^63, and 2^63 is added        2^63; from 2^64 on 0
 *
 * NumPy and torch do the same on x86, wherever those two agree.
 *
 * A fold's store reads its operands at the first position of the sequence: they should be the same
 * at every position.
 */
#ifndef SF_PROGRAM_H
#define SF_PROGRAM_H

#include "core/core.h"

typedef enum sf_code {
#define CODE(name, NAME, arguments, kind) SF_CODE_##NAME,
#include "core/codes.def"
#undef CODE
        SF_CODE_COUNT
} sf_code;

/* The number of arguments of each code. */
extern const uint8_t sf_code_arguments[SF_CODE_COUNT];

#define SF_PROGRAM_MAX 32   /* instructions */
#define SF_OPERANDS_MAX 8

typedef struct sf_instruction {
        uint8_t code; /* sf_code */
        /* sf_dt of the result. The arguments of a TEST have the type of the first one */
        uint8_t dt;
        uint8_t slot; /* LOAD: the number of the operand; CONSTANT: of the constant */
        uint8_t arg[3];
} sf_instruction;

typedef struct sf_program {
        /* 0: the program does nothing: its value is operand 0 (cast to the accumulator) for a
         * load, the result (cast to out) for a store */
        int32_t count;
        sf_instruction code[SF_PROGRAM_MAX];
        /* Constants, stored as values are: f16 and bf16 in f32. They are not part of compiled
         * code: the same program with other constants is the same code. */
        sf_value constant[SF_PROGRAM_MAX];
        int32_t constants;
} sf_program;

/* A tensor a program reads, with a stride in bytes for each of the step's dims. */
typedef struct sf_operand {
        const char *data;
        sf_dt dt;
        int64_t stride[SF_MAX_NDIM + 1];
        /* For a step with segments: not 0 if the operand has one element for each segment; then
         * the bytes from one to the next. Every element of a segment is combined with that one:
         * the stride along the sequence is 0. */
        int64_t segment;
        /* In a scan's store: the sequence's last position has no element, and its value is 0, so a
         * tensor can be read shifted by one position. Not in steps for the CPU backend. */
        bool lacks_last;
        /* 0: in memory before the step, or its chain, begins. k: the result of step k - 1 of its
         * chain, counted from the chain's first step through siblings and stages. It is also at
         * `data`, if that step has written it there. */
        int32_t made;
} sf_operand;

/* The elementwise work of a fused step. Operand 0 is the step's x: same data, dtype (the step's
 * `in`) and strides. */
typedef struct sf_fuse {
        int32_t operands;
        sf_operand operand[SF_OPERANDS_MAX];
        sf_program load, store;
        /* for operations with two elements per position (SF_TWO): makes the second, as `load`
         * makes the first */
        sf_program beside;
        /* bit k: the program reads operand k; load_reads covers load and beside */
        uint32_t load_reads, store_reads;
} sf_fuse;

/* ------------------------------------------------------------------------------------------------------------
 * program.c: one value at a time; every backend must give the same bits
 *
 * sf_value has f16, bf16 and f32 in f32, f64 in f64, and integers and bool in u64, wrapped to their
 * width and extended.
 * ---------------------------------------------------------------------------------------------------------- */
sf_value sf_cast(sf_dt from, sf_dt to, sf_value v);
sf_value sf_element_load(sf_dt dt, const void *p);
void sf_element_store(sf_dt dt, sf_value v, void *p);

/* The value of instruction `i` of program `p`, from the values of the instructions before it. Not
 * for LOAD and RESULT. */
sf_value sf_code_eval(const sf_instruction *i, const sf_program *p, const sf_value *values);

/*
 * The value of a program at one position, as type `to`. at[k] points to operand k's element there;
 * it is read only if the program reads that operand. `result`, of type `from`, is the value of
 * RESULT, and the value of an empty store. The value of an empty load is operand 0.
 */
sf_value sf_load_eval(const sf_fuse *fuse, const char *const *at, sf_dt to);
sf_value sf_beside_eval(const sf_fuse *fuse, const char *const *at, sf_dt to);
sf_value sf_store_eval(const sf_fuse *fuse, const char *const *at, sf_value result, sf_dt from, sf_dt to);

#endif
