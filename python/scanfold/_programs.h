/*
 * Programs: a list of tuples becomes an sf_graph.
 *
 * An instruction is a tuple that begins with its name. Its number is its position in the list, and
 * it refers to earlier ones by their numbers (-1: none).
 *
 *     ("input",)                          ("input", name)     inputs are numbered in order
 *     ("constant", number)                ("like", x, number)
 *     ("apply", function, a, b, c)        function is an sf_function
 *     ("cast", x, dtype)                  dtype as scanfold._dtypes numbers it; 0: the default
 *     ("flip", x, axes)                   ("permute", x, axes)
 *     ("squeeze", x, axis)                ("unsqueeze", x, axis)
 *     ("broadcast", x, shape)             ("slice", x, axis, start, stop, step)
 *     ("select", x, axis, index)
 *     ("concat", axis, parts)
 *     ("scan", x, op, axis, reverse, exclusive, mask, dtype)
 *     ("fold", x, op, axes, keepdim, dtype)                  ("mean", x, axes, keepdim, dtype)
 *     ("derived", x, what, axes, keepdim, dtype, parameter)  what is an sf_derived; the parameter is
 *                                         a variance's correction or a norm's order
 *     ("matmul", a, b)                    ("linear", x, w, bias)
 *     ("output", x)                       ("output", x, order)     its axes in torch's memory,
 *                                         outermost first; left out: row-major
 */
#ifndef SCANFOLD_PYTHON_PROGRAMS_H
#define SCANFOLD_PYTHON_PROGRAMS_H

#include "_arrays.h"

enum { MAX_INPUTS = 32, MAX_OUTPUTS = 32 };

/* An output's axes in the order they have in memory, outermost first. */
typedef struct memory_order {
        int32_t count;
        int32_t axis[];
} memory_order;

/* Makes the nodes of a program. `order`, with MAX_OUTPUTS entries, gets the orders that its outputs
 * name, to be freed with PyMem_Free. 0, or -1 with an exception. */
int program_build(PyObject *program, sf_graph *graph, memory_order **order);

/* Reads a sequence of up to SF_MAX_NDIM numbers. Returns their number, or -1 with an exception. */
int32_t program_numbers(PyObject *sequence, int64_t *out);

#endif
