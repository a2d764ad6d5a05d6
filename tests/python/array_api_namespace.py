"""NumPy's namespace with our functions for its own, for the array API's test suite. Complex
numbers, which scanfold does not support, are left to NumPy."""
import numpy
from numpy import *  # noqa: F401,F403
from numpy import abs, fft, linalg, round  # noqa: F401  what a star leaves out

import scanfold

bool = getattr(numpy, "bool", numpy.bool_)  # NumPy 2 has the standard's name
__array_api_version__ = "2024.12"
__array_namespace_info__ = getattr(numpy, "__array_namespace_info__", None)  # NumPy 2


def _ours(x, dtype=None):
    return x.dtype.kind != "c" and (dtype is None or numpy.dtype(dtype).kind != "c")


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    if not _ours(x, dtype):
        return numpy.asarray(numpy.sum(x, axis=axis, dtype=dtype, keepdims=keepdims))
    return scanfold.sum(x, axis, dtype=dtype, keepdims=keepdims)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    if not _ours(x, dtype):
        return numpy.asarray(numpy.prod(x, axis=axis, dtype=dtype, keepdims=keepdims))
    return scanfold.prod(x, axis, dtype=dtype, keepdims=keepdims)


def max(x, /, *, axis=None, keepdims=False):
    return scanfold.max(x, axis, keepdims=keepdims)


def min(x, /, *, axis=None, keepdims=False):
    return scanfold.min(x, axis, keepdims=keepdims)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    return (scanfold if _ours(x, dtype) else numpy).cumulative_sum(x, axis=axis, dtype=dtype, include_initial=include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    return (scanfold if _ours(x, dtype) else numpy).cumulative_prod(x, axis=axis, dtype=dtype, include_initial=include_initial)
