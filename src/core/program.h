/*
 * program.h: elementwise work as straight-line code: what a step does to its elements on the way in and to its results on the way out.
 *
 * A program is a list of instructions; each computes one value from earlier ones and is named by its number. The last one's value is
 * the program's. At every position of a step:
 *
 *     a[i] = load(operands at i), a value of the step's accumulator type      instead of  a[i] = x[i]
 *     y[i] = store(s[i], operands at i), a value of the step's out type       instead of  y[i] = s[i]
 *
 * with a, s and y as in step.h; mask, exclusive and initial keep their meaning around them. A step of sequences of one element is a
 * plain elementwise pass.
 *
 * Types: every instruction has one. A value of f16 or bf16 is held as an f32 that the narrow type can represent: an instruction of
 * that type computes in f32 and rounds its result, as if it had been stored and loaded again. Integers wrap. Arithmetic on bool is
 * done on 0 and 1, and whatever is not 0 is true: add is or, mul is and. Each operation is one rounded operation: nothing is
 * contracted or reassociated, so that a program gives the same bits on every backend. exp, log, sigmoid and tanh are sequences of
 * such operations (exponentials.inc.h says how exact they are).
 *
 * Casts: real to real rounds once. Integer to real rounds once, by way of f32 to f16 and bf16. Integer to integer wraps. To bool:
 * whatever is not 0 is true, NaN too. A program's last value is cast to the type asked of it.
 *
 * Real to integer drops the fraction and wraps to the type's width. That goes by way of an integer
 * of 32 or 64 bits, as the instructions of x86 do, and what that one does not hold (NaN, too)
 * becomes its lowest value:
 *
 *     to                by way of    NaN, and what is out of range of that
 *     i8  i16  u16      i32          0
 *     i32               i32          -2^31
 *     u8  u32           i64          0
 *     i64               i64          -2^63
 *     u64               i64, of v - 2^63 from 2^63 on; 2^63 is added again    2^63; from 2^64 on 0
 *
 * So do NumPy and torch on x86, wherever those two agree.
 *
 * A fold's store sees the operands at the first position of the sequence: they should not depend on it.
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

/* How many arguments each takes. */
extern const uint8_t sf_code_arguments[SF_CODE_COUNT];

#define SF_PROGRAM_MAX 32   /* instructions */
#define SF_OPERANDS_MAX 8

typedef struct sf_instruction {
        uint8_t code; /* sf_code */
        uint8_t dt;   /* sf_dt of the result; of a TEST, the arguments' type is that of its first argument */
        uint8_t slot; /* of LOAD, the operand; of CONSTANT, the constant */
        uint8_t arg[3];
} sf_instruction;

typedef struct sf_program {
        int32_t count; /* 0: nothing is done: the value is operand 0 (cast to the accumulator), or the result (cast to out) */
        sf_instruction code[SF_PROGRAM_MAX];
        sf_value constant[SF_PROGRAM_MAX]; /* as sf_value holds the constant's type; f16 and bf16 in f32. Not part of what is compiled
                                              where the code is compiled: the same program with other numbers is the same code */
        int32_t constants;
} sf_program;

/* A tensor a program reads, with a stride in bytes for each of the step's dims. */
typedef struct sf_operand {
        const char *data;
        sf_dt dt;
        int64_t stride[SF_MAX_NDIM + 1];
        int64_t segment; /* of a step with segments: not 0 where it has an element for each of them, so many bytes apart. Every element of a
                            segment meets that one: its stride along the sequence is 0 */
        int32_t made; /* 0: in memory before the step, or its chain, begins. k: the result of step k - 1 of its chain, counted from the
                         chain's first over siblings and stages; it lies at `data`, too, where that step has written it */
} sf_operand;

/* What turns a plain step into a fused one. Operand 0 is the step's x: same data, dtype (the step's `in`) and strides. */
typedef struct sf_fuse {
        int32_t operands;
        sf_operand operand[SF_OPERANDS_MAX];
        sf_program load, store;
        sf_program beside; /* of operations whose elements come in twos (SF_TWO): the other one, as the load makes the first */
        uint32_t load_reads, store_reads; /* bit k: the program reads operand k; load_reads is of both */
} sf_fuse;

/* ------------------------------------------------------------------------------------------------------------
 * program.c: one value at a time: what every backend must equal
 *
 * A value of f16, bf16 and f32 is in sf_value's f32, of f64 in f64, of integers and bool in u64, wrapped to their width and extended.
 * ---------------------------------------------------------------------------------------------------------- */
sf_value sf_cast(sf_dt from, sf_dt to, sf_value v);
sf_value sf_element_load(sf_dt dt, const void *p);
void sf_element_store(sf_dt dt, sf_value v, void *p);

/* What instruction `i` of program `p` makes of the values of the instructions before it. Not for LOAD and RESULT. */
sf_value sf_code_eval(const sf_instruction *i, const sf_program *p, const sf_value *values);

/*
 * The value of a program at one position, as type `to`. at[k] is operand k's element there; it is looked at if the program reads it.
 * `result`, of type `from`, is what RESULT stands for, and the value of a store of no instructions. A load of none is operand 0.
 */
sf_value sf_load_eval(const sf_fuse *fuse, const char *const *at, sf_dt to);
sf_value sf_beside_eval(const sf_fuse *fuse, const char *const *at, sf_dt to);
sf_value sf_store_eval(const sf_fuse *fuse, const char *const *at, sf_value result, sf_dt from, sf_dt to);

#endif
