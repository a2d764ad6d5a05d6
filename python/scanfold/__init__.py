"""Scans (cumulative sums) and folds (reductions) along any axis, with the same bits on every device.

Arrays are those of NumPy, torch (CPU and CUDA), JAX, CuPy, or any object with __dlpack__. They are
read in place, with any strides. The result is an array of the same library, on the same device.

>>> import numpy as np, scanfold
>>> x = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)
>>> scanfold.cumsum(x, axis=1)
array([[ 1.,  3.,  6.],
       [ 4.,  9., 15.]], dtype=float32)
>>> scanfold.cumsum(x, axis=1, reverse=True, mask=x != 5)
array([[ 6.,  5.,  3.],
       [10.,  6.,  6.]], dtype=float32)
>>> scanfold.sum(x, axis=(0, 1))
array(21., dtype=float32)

A result depends on the values along the axis and on nothing else: not on the device, the number of
threads or the strides, and it is the same in every run.
"""
import sys as _sys
import threading as _threading

from . import _scanfold

__version__ = _scanfold.version
__all__ = ["cumsum", "cumprod", "cummax", "cummin", "sum", "prod", "max", "min", "cumulative_sum",
           "cumulative_prod", "run", "explain", "using", "info", "argmax", "argmin", "nanargmax", "nanargmin", "logsumexp", "logcumsumexp",
           "linear_recurrence"]

_SUM, _PROD, _MAX, _MIN = range(4)
_scan, _fold = _scanfold.scan, _scanfold.fold
_without_torch = True
_run_untraced = None  # set by scanfold.torch once torch._dynamo is imported


def _compiling():
    return False


def __getattr__(name):
    """Imports scanfold.torch and scanfold.jax on first use, because they import torch and jax."""
    if name in ("torch", "jax"):
        import importlib
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _look_for_torch():
    """Registers our operators once torch has been imported.

    So torch.compile can trace a call even if it is the first one."""
    global _without_torch, _compiling
    if "torch" in _sys.modules:
        _without_torch = False
        from . import torch  # noqa: F401
        compiler = getattr(_sys.modules["torch"], "compiler", None)
        if hasattr(compiler, "is_compiling"):
            _compiling = compiler.is_compiling


def _one(first, second, names):
    """The value of an argument that has two names. At most one of them may be given."""
    if first is None:
        return second
    if second is None:
        return first
    raise TypeError(f"{names} are two names of one argument: give one of them")


# The four scans share one body, and so do the four folds. Each operation gets its own function, so
# that a call enters only one Python function.
def _scan_by(op):
    def scan(x, axis=None, *, dim=None, reverse=False, exclusive=False, mask=None, skip_nan=False, initial=None, dtype=None,
             out=None, offsets=None, lengths=None, reset=None):
        if dim is not None:
            axis = _one(axis, dim, "axis and dim")
        if _without_torch:
            _look_for_torch()
        if offsets is not None or lengths is not None or reset is not None:
            offsets = _segments.offsets(x, axis, offsets, lengths, reset)
        return _scan(x, op, axis, reverse, exclusive, mask, initial, dtype, out, False, skip_nan, offsets)
    return scan


def _fold_by(op):
    def fold(x, axis=None, *, dim=None, keepdims=None, keepdim=None, reverse=False, mask=None, skip_nan=False, initial=None,
             dtype=None, out=None, offsets=None, lengths=None, reset=None):
        if dim is not None:
            axis = _one(axis, dim, "axis and dim")
        if keepdim is not None:
            keepdims = _one(keepdims, keepdim, "keepdims and keepdim")
        if _without_torch:
            _look_for_torch()
        if offsets is not None or lengths is not None or reset is not None:
            offsets = _segments.offsets(x, axis, offsets, lengths, reset, True)
        return _fold(x, op, axis, keepdims, reverse, mask, initial, dtype, out, False, skip_nan, offsets)
    return fold


# Maximum and minimum: the same bodies with one more option, return_indices. They are written out
# again so that these calls too enter only one Python function.
def _extreme_scan_by(op):
    def scan(x, axis=None, *, dim=None, reverse=False, exclusive=False, mask=None, skip_nan=False, initial=None, dtype=None, out=None,
             return_indices=False, offsets=None, lengths=None, reset=None):
        if return_indices:
            return _pairs.cumulative_extreme(op, x, axis, dim=dim, reverse=reverse, exclusive=exclusive, mask=mask, skip_nan=skip_nan,
                                             initial=initial, dtype=dtype, out=out, segments=(offsets, lengths, reset))
        if dim is not None:
            axis = _one(axis, dim, "axis and dim")
        if _without_torch:
            _look_for_torch()
        if offsets is not None or lengths is not None or reset is not None:
            offsets = _segments.offsets(x, axis, offsets, lengths, reset)
        return _scan(x, op, axis, reverse, exclusive, mask, initial, dtype, out, False, skip_nan, offsets)
    return scan


def _extreme_fold_by(op):
    def fold(x, axis=None, *, dim=None, keepdims=None, keepdim=None, reverse=False, mask=None, skip_nan=False, initial=None, dtype=None,
             out=None, return_indices=False, offsets=None, lengths=None, reset=None):
        if return_indices:
            return _pairs.extreme(op, x, axis, dim=dim, keepdims=keepdims, keepdim=keepdim, reverse=reverse, mask=mask, skip_nan=skip_nan,
                                  initial=initial, dtype=dtype, out=out, segments=(offsets, lengths, reset))
        if dim is not None:
            axis = _one(axis, dim, "axis and dim")
        if keepdim is not None:
            keepdims = _one(keepdims, keepdim, "keepdims and keepdim")
        if _without_torch:
            _look_for_torch()
        if offsets is not None or lengths is not None or reset is not None:
            offsets = _segments.offsets(x, axis, offsets, lengths, reset, True)
        return _fold(x, op, axis, keepdims, reverse, mask, initial, dtype, out, False, skip_nan, offsets)
    return fold


def _described(makes):
    """A decorator: the function that `makes` returns, with the name and docstring of `makes`."""
    made = makes()
    made.__name__ = made.__qualname__ = makes.__name__
    made.__doc__ = makes.__doc__
    return made


@_described
def cumsum():
    """The cumulative sum along an axis.

    exclusive   each result leaves its own element out; the first is 0
    initial     a number that is added to every result, on the left
    dtype       of the result; float64 is also that of every addition. By default real dtypes stay
                (float16 and bfloat16 are summed in float32 and rounded once), and integers and bool
                become int64; unsigned integers become uint64, as in NumPy, but int64 in torch

    Real numbers are added in the order of docs/order.md, which is a tree. So a partial sum can overflow
    where a loop from the left would not.

    >>> import numpy as np, scanfold
    >>> scanfold.cumsum(np.array([1, 2, 3, 4]))
    array([ 1,  3,  6, 10])
    >>> scanfold.cumsum(np.array([1, 2, 3, 4]), reverse=True)
    array([10,  9,  7,  4])
    >>> scanfold.cumsum(np.array([1, 2, 3, 4]), exclusive=True, initial=100)
    array([100, 101, 103, 106])
    >>> scanfold.cumsum(np.array([1.0, np.nan, 3.0]), mask=np.array([True, False, True]))
    array([1., 1., 4.])
    >>> scanfold.cumsum(np.eye(2), 2)
    Traceback (most recent call last):
        ...
    ValueError: axis is 2; for an x of 2 dimensions it must be -2 to 1
    """
    return _scan_by(_SUM)


@_described
def cumprod():
    """The cumulative product along an axis.

    exclusive   each result leaves its own element out; the first is 1
    initial     a number that every result is multiplied by, on the left
    dtype       as for cumsum

    The exponent of a product is kept separately, so no partial product overflows or underflows:
    after a zero every result is 0, however large the numbers that follow.

    >>> import numpy as np, scanfold
    >>> scanfold.cumprod(np.array([2, 3, 4], dtype=np.int8))
    array([ 2,  6, 24])
    """
    return _scan_by(_PROD)


@_described
def cummax():
    """The largest element so far, along an axis.

    NaN propagates: after a NaN every result is NaN. Integers keep their dtype.

    dtype            of the result; by default that of x
    return_indices   return (values, indices), computed in one read. Among equal elements the index
                     is that of the last one, as in torch.cummax; it is -1 where there is no element
                     yet. It can be combined with axis, dim, reverse, exclusive, mask and out (two
                     arrays)

    Returns an array of x's shape, of the same library and on the same device; with return_indices a
    tuple of two.

    >>> import numpy as np, scanfold
    >>> scanfold.cummax(np.array([3, 1, 4, 1, 5]))
    array([3, 3, 4, 4, 5])
    >>> scanfold.cummax(np.array([3, 1, 4, 4, 1]), return_indices=True)
    (array([3, 3, 4, 4, 4]), array([0, 0, 2, 3, 3]))
    """
    return _extreme_scan_by(_MAX)


@_described
def cummin():
    """The smallest element so far, along an axis.

    NaN propagates: after a NaN every result is NaN. Integers keep their dtype.

    dtype            of the result; by default that of x
    return_indices   as for cummax

    Returns an array of x's shape, of the same library and on the same device; with return_indices a
    tuple of two.

    >>> import numpy as np, scanfold
    >>> scanfold.cummin(np.array([3, 1, 4, 1, 5]), reverse=True)
    array([1, 1, 1, 1, 5])
    """
    return _extreme_scan_by(_MIN)


@_described
def sum():
    """The sum over one axis, several, or all: with the bits of the cumulative sum's last element.

    initial   a number that is added to every result, on the left
    dtype     as for cumsum

    As in cumsum, the order decides which partial sums overflow: the sum of -3e38, 0, 3e38, 3e38 as
    float32 is infinite, because the last two are added first.

    >>> import numpy as np, scanfold
    >>> x = np.arange(6).reshape(2, 3)
    >>> scanfold.sum(x, axis=0)
    array([3, 5, 7])
    >>> scanfold.sum(x, axis=1, keepdims=True)
    array([[ 3],
           [12]])
    >>> scanfold.sum(x, mask=x > 2, initial=0.5, dtype=float)
    array(12.5)
    """
    return _fold_by(_SUM)


@_described
def prod():
    """The product over one axis, several, or all: with the bits of the cumulative product's last element.

    initial   a number that every result is multiplied by, on the left
    dtype     as for cumsum

    As in cumprod, no partial product overflows or underflows.

    >>> import numpy as np, scanfold
    >>> scanfold.prod(np.array([2.0, 3.0, 4.0]))
    array(24.)
    """
    return _fold_by(_PROD)


@_described
def max():
    """The largest element over one axis, several, or all.

    If an element is NaN, so is the result. A fold of no elements needs `initial`.

    dtype            of the result; by default that of x
    return_indices   return (values, indices), computed in one read; the indices are those of
                     argmax. It can be combined with axis (one, or None), dim, keepdims, keepdim,
                     mask and out (two arrays)

    Returns an array without the folded axes, of the same library as x and on the same device; with
    return_indices a tuple of two. With segments the axis has one element for each segment.

    >>> import numpy as np, scanfold
    >>> scanfold.max(np.array([[3, 1], [4, 1]]), axis=0)
    array([4, 1])
    >>> scanfold.max(np.array([[3, 1], [4, 1]]), axis=0, return_indices=True)
    (array([4, 1]), array([1, 0]))
    """
    return _extreme_fold_by(_MAX)


@_described
def min():
    """The smallest element over one axis, several, or all.

    If an element is NaN, so is the result. A fold of no elements needs `initial`.

    dtype            of the result; by default that of x
    return_indices   return (values, indices), computed in one read; the indices are those of
                     argmin. It can be combined with axis (one, or None), dim, keepdims, keepdim,
                     mask and out (two arrays)

    Returns an array without the folded axes, of the same library as x and on the same device; with
    return_indices a tuple of two. With segments the axis has one element for each segment.

    >>> import numpy as np, scanfold
    >>> scanfold.min(np.array([[3, 1], [4, 1]]), axis=1)
    array([1, 1])
    """
    return _extreme_fold_by(_MIN)


def _axis(dims, axis):
    """The axis as a number from 0 up, checked as the C extension checks it.

    An array of no dimensions is treated as one line."""
    if not isinstance(axis, int):
        try:
            axis = axis.__index__()
        except (AttributeError, TypeError):
            raise TypeError(f"axis is {axis!r}: a whole number is expected") from None
    n = dims or 1
    if not -n <= axis < n:
        raise ValueError(f"axis is {axis}; for an x of {dims} dimensions it must be {-n} to {n - 1}")
    return axis % n


def _dims(x):
    if not hasattr(x, "ndim"):
        raise TypeError(f"x is {type(x)}: give a NumPy array, a torch tensor, or another array with __dlpack__")
    return x.ndim


def _cumulative(scan, x, axis, dtype, include_initial, identity):
    if axis is None and _dims(x) != 1:
        raise ValueError(f"axis is needed: x has {x.ndim} dimensions")
    if not include_initial:
        return scan(x, axis, dtype=dtype)
    axis = _axis(_dims(x), 0 if axis is None else axis)
    if x.ndim == 0:
        raise ValueError("x has no dimensions: with include_initial there must be one to be longer along")
    module = type(x).__module__.partition(".")[0]
    if module == "numpy":
        # The scan writes directly after the first element of the longer result, without a copy.
        space = _sys.modules["numpy"]
        kind = scan(space.empty(0, x.dtype), 0, dtype=dtype).dtype
        y = space.empty(tuple(n + (i == axis) for i, n in enumerate(x.shape)), kind)
        y[(slice(None),) * axis + (0,)] = identity
        scan(x, axis, out=y[(slice(None),) * axis + (slice(1, None),)])
        return y
    y = scan(x, axis, dtype=dtype)
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    if module == "torch":
        torch = _sys.modules["torch"]
        return torch.cat((torch.full(shape, identity, dtype=y.dtype, device=y.device), y), axis)
    from ._others import namespace
    space = namespace(x)
    join = space.concat if hasattr(space, "concat") else space.concatenate
    return join((space.full(shape, identity, dtype=y.dtype), y), axis=axis)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """The array API's cumulative sum.

    With include_initial the result is one element longer along the axis, and begins with 0.

    axis              the axis; negative numbers count from the end. Not needed if x has one dimension
    dtype             as for cumsum
    include_initial   whether the result begins with the sum of no elements, 0

    Returns an array of the same library and on the same device as x. It has x's shape, or with
    include_initial one element more along the axis.

    >>> import numpy as np, scanfold
    >>> scanfold.cumulative_sum(np.array([1, 2, 3]), include_initial=True)
    array([0, 1, 3, 6])
    """
    return _cumulative(cumsum, x, axis, dtype, include_initial, 0)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """The array API's cumulative product.

    With include_initial the result is one element longer along the axis, and begins with 1.

    axis              the axis; negative numbers count from the end. Not needed if x has one dimension
    dtype             as for cumsum
    include_initial   whether the result begins with the product of no elements, 1

    Returns an array of the same library and on the same device as x. It has x's shape, or with
    include_initial one element more along the axis.

    >>> import numpy as np, scanfold
    >>> scanfold.cumulative_prod(np.array([1, 2, 3]), include_initial=True)
    array([1, 1, 2, 6])
    """
    return _cumulative(cumprod, x, axis, dtype, include_initial, 1)


class _Default:
    """Used outside of every `using` block: the library's default context and its expressions."""
    _context, _expressions, _derived = None, {}, {}


class _Chosen(_threading.local):
    """The stack of `using` blocks that a thread is in; the innermost is last."""

    def __init__(self):
        self.stack = [_Default]


_chosen = _Chosen()


class using:
    """Chooses how this thread's calls run inside a with statement. Results have the same bits.

    threads   how many threads a large call may use; by default as many as the process has CPUs
    isa       an instruction set, one of scanfold.info()["isas"]; by default the best one
    backend   "ref" computes with the reference, which is slow and defines the right results;
              "auto", the default, does not

    Returns an object for the with statement, which can be used again.

    >>> import numpy as np, scanfold
    >>> x = np.linspace(0, 1, 1000, dtype=np.float32)
    >>> with scanfold.using(backend="ref"):
    ...     expected = scanfold.cumsum(x)
    >>> bool((scanfold.cumsum(x) == expected).all())
    True
    """

    def __init__(self, *, threads=0, isa=None, backend=None):
        if backend not in (None, "auto", "ref"):
            raise ValueError(f'backend is {backend!r}: "auto" and "ref" are taken')
        self._options = {"threads": threads, "isa": isa, "backend": backend}
        self._context = _scanfold.context_create(threads, int(backend == "ref"), isa)
        self._expressions, self._derived = {}, {}

    # A context cannot leave its process, so only the options are pickled or copied.
    def __getstate__(self):
        return self._options

    def __setstate__(self, options):
        self.__init__(**options)

    def __enter__(self):
        _chosen.stack.append(self)
        _scanfold.context_use(self._context)
        return self

    def __exit__(self, *error):
        _chosen.stack.pop()
        _scanfold.context_use(_chosen.stack[-1]._context)


def info():
    """What calls from this thread use.

    Returns a dict: "version" of the library; "threads", how many a large call may use; "isa", the
    instruction set in use; "isas", all that this machine can use.

    >>> import scanfold
    >>> sorted(scanfold.info())
    ['isa', 'isas', 'threads', 'version']
    """
    threads, isa = _scanfold.context_describe()
    return {"version": __version__, "threads": threads, "isa": isa, "isas": [name for name, usable in _scanfold.isas() if usable]}


_EXPRESSIONS = 256  # how many are cached, with their plans; a full cache is emptied


def _expression_of(text, exact=True):
    """(the expression, the names of its inputs), parsed on first use."""
    kept, key = _chosen.stack[-1], (text, bool(exact))
    found = kept._expressions.get(key)
    if found is None:
        found = _scanfold.expression_parse(text, int(bool(exact)), kept._context)
        if len(kept._expressions) >= _EXPRESSIONS:
            kept._expressions.clear()
        kept._expressions[key] = found
    return found


def _parsed(text, exact, inputs):
    """(the expression, its inputs in order)"""
    if not isinstance(text, str):
        raise TypeError(f"the expression is {type(text)}: a string is expected, "
                        "such as \"cumsum(x * m, 1)\"")
    expression, names = _expression_of(text, exact)
    given = [inputs[name] for name in names if name in inputs]
    if len(given) == len(names) == len(inputs):
        return expression, given
    missing = [name for name in names if name not in inputs]
    unused = [name for name in inputs if name not in names]
    wrong = f"{', '.join(unused)}: given, but not named by the expression"
    if missing:
        wrong = f"{', '.join(missing)}: named by the expression, but not given"
        if {"exact", "out"} & set(missing):
            wrong += " (exact and out are options here, and cannot be inputs)"
    raise TypeError(f"{wrong}. Its inputs are {', '.join(names)}")


def _run(expression, exact, out, inputs):
    expression, given = _parsed(expression, exact, inputs)
    return _scanfold.expression_call(expression, given, out)


def run(expression, /, *, exact=False, out=None, **inputs):
    """Computes an expression, such as "cumsum(x * m, 1)", in as few passes over memory as it needs.

    expression   Python's operators and slices, the functions here, elementwise ones and views;
                 names are inputs, and commas at the top level separate several results
    inputs       an array for each name, all on one device
    exact        every operator keeps its own rounding: no rewrite that rounds differently
    out          an array to write to, or a tuple of them for several results; it is returned

    Returns an array of the same library as the first input that the expression names, or a tuple of
    them for several results.

    The plan is kept for each set of shapes and dtypes, so calling
    again costs little. There are no gradients: a torch tensor that requires one is refused.

    >>> import numpy as np, scanfold
    >>> x = np.array([[1., 2., 3.], [4., 5., 6.]])
    >>> scanfold.run("cumsum(x * m, 1)", x=x, m=x > 1)
    array([[ 0.,  2.,  5.],
           [ 4.,  9., 15.]])
    >>> scanfold.run("sum(x, 1), max(x, 1)", x=x)
    (array([ 6., 15.]), array([3., 6.]))
    >>> scanfold.run("cumsum(x, depth=1)", x=x)
    Traceback (most recent call last):
        ...
    ValueError: cumsum has no argument depth
      cumsum(x, depth=1)
                ^
    """
    if _without_torch:
        _look_for_torch()
    if _compiling():  # torch.compile is tracing; this call stays outside of its graph
        return _run_untraced(expression, exact, out, inputs)
    return _run(expression, exact, out, inputs)


def explain(model, /, *inputs, **keywords):
    """Prints how an expression, or a torch model, is computed: what was fused, and the passes over
    memory and bytes before and after.

    model      an expression as a string, such as "cumsum(x * m, 1)", which is explained as run
               computes it; or a torch module or function, as torch.compile(backend="scanfold")
               computes it
    inputs     the model's arguments. Those of an expression are given by name
    keywords   the expression's arrays by name, and exact as for run; or the model's keyword
               arguments

    Returns what was printed: a string, or for a model an object whose str() it is.

    >>> import numpy as np, scanfold
    >>> x = np.ones((2, 3), dtype=np.float32)
    >>> text = scanfold.explain("cumsum(x * m, 1)", x=x, m=x)  # doctest: +ELLIPSIS
    cumsum(x * m, 1)
      x: f32 (2, 3)
    ...
    before: 2 passes, 72 B read, 48 B written
    after:  1 pass, 48 B read, 24 B written
    ...
    """
    if isinstance(model, str):
        if inputs:
            raise TypeError("the arrays of an expression are given by name, "
                            "as in explain(\"sum(x)\", x=x)")
        expression, given = _parsed(model, keywords.pop("exact", False), keywords)
        text = _scanfold.expression_explain(expression, given, 0)
        print(text, end="" if text.endswith("\n") else "\n")
        return text
    from . import _compile
    return _compile.explain(model, *inputs, **keywords)


# Imported at the end, because these modules use the names above.
from . import _segments  # noqa: E402
from . import _applied, _derived, _pairs  # noqa: E402
from ._applied import *  # noqa: E402,F401,F403
from ._derived import *  # noqa: E402,F401,F403
from ._docs import complete as _complete  # noqa: E402
from ._pairs import argmax, argmin, linear_recurrence, logcumsumexp, logsumexp, nanargmax, nanargmin  # noqa: E402,F401

__all__ += _derived.__all__ + _applied.__all__
for _name in __all__:
    _complete(globals()[_name])
# Now rather than in a first call, after which torch.compile would compile that call again: it watches what it changes.
_look_for_torch()
