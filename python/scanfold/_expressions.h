/*
 * Expressions for Python: a program (_programs.h) or a line in the library's notation becomes an
 * sf_graph. A plan is made for each new set of shapes, and kept.
 */
#ifndef SCANFOLD_PYTHON_EXPRESSIONS_H
#define SCANFOLD_PYTHON_EXPRESSIONS_H

#include "_arrays.h"

/* expression_create(program, exact) -> expression */
PyObject *expression_create(PyObject *self, PyObject *args);

/*
 * expression_parse(text, exact, context) -> (expression, names of its inputs), from a line in the
 * library's notation. context may be None.
 */
PyObject *expression_parse(PyObject *self, PyObject *args);

/*
 * expression_run(expression, inputs, keep) -> the result, of the first input's kind, or a list of
 * results if the program has several.
 *
 * `keep` says for which inputs the caller promises that nobody writes to them without autograd
 * noticing: 0 none, -1 the parameters among them, otherwise one bit for each. What depends on those
 * alone is computed once, and kept until one of them changes.
 */
PyObject *expression_run(PyObject *self, PyObject *const *item, Py_ssize_t count);

/* The same for tensors that have not been checked yet. Returns the number ARRAY_DISPATCH or
 * ARRAY_RECORD if they are more than their memory. */
PyObject *expression_try(PyObject *self, PyObject *const *item, Py_ssize_t count);

/*
 * expression_call(expression, inputs, out) -> the result, of the first input's kind, or a tuple of
 * results, for arrays of any kind. A torch tensor that is more than its memory is refused with an
 * exception. `out` is None, an array, or a tuple or list of them.
 */
PyObject *expression_call(PyObject *self, PyObject *const *item, Py_ssize_t count);

/* expression_plans(expression) -> the number of plans that it has kept */
PyObject *expression_plans(PyObject *self, PyObject *expression);

/* expression_shapes(expression, [(shape, dtype), ...]) -> [(shape, dtype), ...]: the shapes and
 * dtypes of the outputs, without running anything */
PyObject *expression_shapes(PyObject *self, PyObject *args);

/* expression_explain(expression, inputs, format) -> str; format is an sf_explain_format */
PyObject *expression_explain(PyObject *self, PyObject *args);

#endif
