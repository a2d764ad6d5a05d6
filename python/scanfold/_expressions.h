/*
 * Expressions for Python: a program, which is a list of tuples, becomes an sf_graph; its plans are made for the shapes it meets and kept.
 *
 * An instruction is a tuple that begins with its name; it is known by its place in the list, and refers to earlier ones by theirs (-1: none).
 *
 *     ("input",)                          inputs are numbered as they come
 *     ("constant", number)                ("like", x, number)
 *     ("apply", function, a, b, c)        function is an sf_function
 *     ("cast", x, dtype)                  dtype as scanfold._dtypes numbers it; 0: the default
 *     ("flip", x, axes)                   ("permute", x, axes)
 *     ("squeeze", x, axis)                ("unsqueeze", x, axis)
 *     ("broadcast", x, shape)             ("slice", x, axis, start, stop, step)      ("select", x, axis, index)
 *     ("concat", axis, parts)
 *     ("scan", x, op, axis, reverse, exclusive, mask, dtype)
 *     ("fold", x, op, axes, keepdim, dtype)                  ("mean", x, axes, keepdim, dtype)
 *     ("matmul", a, b)                    ("linear", x, w, bias)
 *     ("output", x)                       ("output", x, order)     its axes in torch's memory, outermost first; left out: row-major
 */
#ifndef SCANFOLD_PYTHON_EXPRESSIONS_H
#define SCANFOLD_PYTHON_EXPRESSIONS_H

#include "_arrays.h"

/* _scanfold.c: a Python int as a number of 64 bits, signed where it fits; exceptions call it
 * `name`. 0, or -1 with an exception. */
int integer_read(PyObject *object, const char *name, sf_scalar *scalar);

/* expression_create(program, exact) -> expression */
PyObject *expression_create(PyObject *self, PyObject *args);

/*
 * expression_run(expression, inputs, keep) -> the result, of the first input's kind, or a list of them where the program has several.
 *
 * `keep` says of which inputs the caller promises that nobody writes to them behind autograd's back: 0 none, -1 the parameters among them,
 * else a bit for each. What depends on those alone is computed once and kept until one of them changes.
 */
PyObject *expression_run(PyObject *self, PyObject *const *item, Py_ssize_t count);

/* The same for tensors about which nothing is known yet: a number, ARRAY_DISPATCH or ARRAY_RECORD, where they are more than their memory. */
PyObject *expression_try(PyObject *self, PyObject *const *item, Py_ssize_t count);

/* expression_shapes(expression, [(shape, dtype), ...]) -> [(shape, dtype), ...]: what the outputs would be, without running anything */
PyObject *expression_shapes(PyObject *self, PyObject *args);

/* expression_explain(expression, inputs, format) -> str; format is an sf_explain_format */
PyObject *expression_explain(PyObject *self, PyObject *args);

#endif
