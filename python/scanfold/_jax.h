/*
 * Expressions for XLA: the function that JAX's compiled programs call through the foreign function
 * interface (_xla.h). One call computes one line of the library's notation.
 */
#ifndef SCANFOLD_PYTHON_JAX_H
#define SCANFOLD_PYTHON_JAX_H

#include "_arrays.h"

/* xla_handler(platform) -> a capsule with the handler for "cpu" or "CUDA" */
PyObject *xla_handler(PyObject *self, PyObject *args);

#endif
