"""The array API's words on sum, prod, max, min, cumulative_sum and cumulative_prod, checked through a namespace with our functions in it.

The published suite (array-api-tests) is no package one can install from an index: where a checkout of it is named in SCANFOLD_ARRAY_API_TESTS,
its tests of these functions are run. For everywhere else there is a selection of ours: for each function its signature, result dtype and
shape, special cases, and values against exact arithmetic, over the standard's dtypes.
"""
import inspect
import math
import os
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed")
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import array_api_namespace as namespace
import scanfold

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMERIC = INTEGERS + ["float32", "float64"]

numpys = pytest.mark.host_only("the namespace under test is NumPy's")


def default_dtype(dtype):
    """A sum's: real dtypes stay, integers become the default integer of their signedness where they are narrower."""
    kind = np.dtype(dtype).kind
    return np.dtype(dtype) if kind == "f" else np.dtype("uint64" if kind == "u" else "int64")


def small(dtype):
    low = -5 if np.dtype(dtype).kind in "if" else 0
    return hnp.from_dtype(np.dtype(dtype), min_value=low, max_value=5, allow_nan=False)


@st.composite
def arrays(draw, min_dims=0, min_side=0):
    dtype = draw(st.sampled_from(NUMERIC))
    return draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=min_dims, max_dims=4, min_side=min_side, max_side=5), elements=small(dtype)))


@st.composite
def axes(draw, ndim):
    """None, one axis, or some, as the standard lets them be."""
    if ndim == 0:
        return None
    each = st.integers(-ndim, ndim - 1)
    several = st.lists(st.integers(0, ndim - 1), min_size=1, max_size=ndim, unique=True).map(
        lambda found: tuple(a - ndim if a % 2 else a for a in found))
    return draw(st.none() | each | several)


def exact(x, axis, ufunc):
    """The reduction in exact arithmetic: Python's integers and fractions."""
    exactly = np.vectorize(lambda v: Fraction(float(v)) if x.dtype.kind == "f" else int(v), otypes=[object])
    return ufunc.reduce(exactly(x) if x.size else x.astype(object), axis=axis, keepdims=True)


def wrapped(value, dtype):
    if np.dtype(dtype).kind == "f":
        return float(value)
    bits = np.dtype(dtype).itemsize * 8
    value = int(value) % 2**bits
    return value - 2**bits if np.dtype(dtype).kind == "i" and value >= 2**(bits - 1) else value


@numpys
@pytest.mark.parametrize("name,ufunc", [("sum", np.add), ("prod", np.multiply)])
@given(data=st.data())
def test_sum_and_prod(name, ufunc, data):
    x = data.draw(arrays())
    axis, keepdims = data.draw(axes(x.ndim)), data.draw(st.booleans())
    y = getattr(namespace, name)(x, axis=axis, keepdims=keepdims)
    assert y.dtype == default_dtype(x.dtype)
    expected = exact(x, axis, ufunc)
    shape = np.sum(x, axis=axis, keepdims=keepdims).shape
    assert y.shape == shape
    expected = np.asarray(expected, object).reshape(shape)
    for index in np.ndindex(shape):
        value = wrapped(expected[index], y.dtype)
        assert y[index] == value or math.isclose(y[index], value, rel_tol=1e-4, abs_tol=1e-4)


@numpys
@pytest.mark.parametrize("name", ["max", "min"])
@given(data=st.data())
def test_max_and_min(name, data):
    x = data.draw(arrays(min_side=1))
    axis, keepdims = data.draw(axes(x.ndim)), data.draw(st.booleans())
    y = getattr(namespace, name)(x, axis=axis, keepdims=keepdims)
    assert y.dtype == x.dtype
    assert np.array_equal(y, getattr(np, name)(x, axis=axis, keepdims=keepdims))


@numpys
@given(data=st.data())
def test_cumulative_sum(data):
    x = data.draw(arrays(min_dims=1))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    include_initial = data.draw(st.booleans())
    if x.ndim == 1 and data.draw(st.booleans()):
        y = namespace.cumulative_sum(x, include_initial=include_initial)
    else:
        y = namespace.cumulative_sum(x, axis=axis, include_initial=include_initial)
    assert y.dtype == default_dtype(x.dtype)
    shape = list(x.shape)
    shape[axis] += include_initial
    assert y.shape == tuple(shape)
    for i in range(shape[axis]):
        part = np.take(x, range(i + 1 - include_initial), axis)
        expected = np.asarray(exact(part, axis, np.add)).squeeze(axis)
        got = np.take(y, i, axis)
        assert all(math.isclose(got[j], wrapped(expected[j], y.dtype), rel_tol=1e-4, abs_tol=1e-4) for j in np.ndindex(got.shape))


@numpys
@given(data=st.data(), asked=st.sampled_from(["int64", "float32", "float64"]))
def test_dtype_is_what_was_asked(data, asked):
    x = data.draw(arrays(min_dims=1).filter(lambda a: a.dtype.kind == "i" or np.dtype(asked).kind == "f"))
    assert namespace.sum(x, dtype=np.dtype(asked)).dtype == asked
    assert namespace.cumulative_sum(x, axis=0, dtype=np.dtype(asked)).dtype == asked


@numpys
def test_special_cases():
    nan, inf = float("nan"), float("inf")
    assert namespace.sum(np.empty((0,))) == 0 and namespace.prod(np.empty((0,))) == 1
    assert math.isnan(namespace.sum(np.array([1.0, nan]))) and math.isnan(namespace.max(np.array([1.0, nan])))
    assert namespace.sum(np.array([1.0, inf])) == inf and math.isnan(namespace.sum(np.array([-inf, inf])))
    assert math.isnan(namespace.cumulative_sum(np.array([1.0, nan, 2.0]))[2])
    assert namespace.cumulative_prod(np.array([2.0, 3.0]), include_initial=True).tolist() == [1, 2, 6]
    with pytest.raises(ValueError):
        namespace.cumulative_sum(np.ones((2, 2)))
    with pytest.raises(ValueError):
        namespace.cumulative_sum(np.array(1.0))
    for axis in (2, -3):
        with pytest.raises(ValueError):
            namespace.cumulative_sum(np.ones((2, 2)), axis=axis, include_initial=True)


@numpys
@pytest.mark.parametrize("include_initial", [False, True])
def test_what_cumulative_sum_refuses(include_initial):
    def refused(kind, words, x, axis=None):
        with pytest.raises(kind, match="^" + re.escape(words)):
            scanfold.cumulative_sum(x, axis=axis, include_initial=include_initial)
    x = np.ones((2, 3))
    for axis in ("0", 0.5, 1.0, (0,), [0], np.array([0, 1])):
        refused(TypeError, f"axis is {axis!r}: a whole number is expected", x, axis)
    for axis in (2, -3):
        refused(ValueError, f"axis is {axis}; for an x of 2 dimensions it must be -2 to 1", x, axis)
    refused(ValueError, f"axis is {2**70}; ", x, 2**70)
    refused(ValueError, "axis is needed: x has 2 dimensions", x)
    refused(ValueError, "axis is 1; for an x of 0 dimensions it must be -1 to 0", np.array(1.0), 1)
    refused(TypeError, "x is <class 'list'>: give", [1, 2])
    refused(TypeError, "x is <class 'list'>: give", [1, 2], 0)
    assert scanfold.cumulative_sum(x, axis=np.int64(1), include_initial=include_initial).shape == (2, 3 + include_initial)


@numpys
def test_cumulative_sum_of_one_number():
    assert scanfold.cumulative_sum(np.array(2.0), axis=0) == 2
    with pytest.raises(ValueError, match="^x has no dimensions: with include_initial there must be one"):
        scanfold.cumulative_sum(np.array(2.0), axis=0, include_initial=True)


@numpys
def test_signatures():
    parameters = inspect.signature(scanfold.cumulative_sum).parameters
    assert [p.kind for p in parameters.values()] == [inspect.Parameter.POSITIONAL_ONLY] + [inspect.Parameter.KEYWORD_ONLY] * 3
    assert {p.name: p.default for p in list(parameters.values())[1:]} == {"axis": None, "dtype": None, "include_initial": False}


@numpys
def test_the_published_suite():
    suite = os.environ.get("SCANFOLD_ARRAY_API_TESTS")
    if not suite:
        pytest.skip("SCANFOLD_ARRAY_API_TESTS names no checkout of data-apis/array-api-tests (with its submodule)")
    path = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(scanfold.__file__)), os.environ.get("PYTHONPATH", "")]
    environment = dict(os.environ, ARRAY_API_TESTS_MODULE="array_api_namespace", PYTHONPATH=os.pathsep.join(filter(None, path)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "array_api_tests/test_statistical_functions.py",
               "-k", "sum or prod or max or min", "--max-examples", "100"]
    out = subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True, timeout=900)
    assert out.returncode == 0, out.stdout[-4000:]
