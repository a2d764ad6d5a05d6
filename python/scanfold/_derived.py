"""Functions that are composed of scans and folds: mean, var, norm, any and similar ones.

The library defines their formulas (src/expr/derive.c). Here a call is turned into an expression in
the library's notation, with the argument names, dtypes and warnings of the array's own library. The
expression is parsed once and cached by the arguments of the call.
"""
import builtins as _builtins
import inspect as _inspect
import sys as _sys
import warnings as _warnings

from . import _axis, _chosen, _dims, _expression_of, _one, _scanfold, _segments
from ._dtypes import name as _dtype_name

__all__ = ["mean", "var", "std", "var_mean", "std_mean", "cummean", "cumvar", "sumsq", "norm", "any", "all", "count_nonzero", "nansum", "nanprod", "nanmax",
           "nanmin", "nanmean", "nanvar", "nanstd", "nancumsum", "nancumprod"]

_package = _sys.modules["scanfold"]
_by_torch = None  # set by scanfold.torch: the same for tensors that need torch's dispatcher
_KEPT = 1024      # how many calls are cached; a full cache is emptied

VARIANCES = {"var", "std", "var_mean", "std_mean", "cumvar", "nanvar", "nanstd"}
SCANS = {"cummean", "cumvar"}
LOGIC = {"any", "all"}
# Functions whose result has the same dtype for every x.
FIXED = {"any": "bool", "all": "bool", "count_nonzero": "int64"}


def short(dtype):
    """The notation's name of a dtype: "f32" for "float32"."""
    return dtype.replace("bfloat", "bf").replace("float", "f").replace("uint", "u").replace("int", "i")


def text(name, axes, keepdims, parameter, masked, skip_nan, dtype, cast=None, segmented=False, reverse=False,
         exclusive=False):
    """The call in the notation.

    `parameter` is a variance's correction or a norm's order. If dtype is None, the notation's
    default is used."""
    parts = ["x"]
    if name == "norm":
        parts.append(repr(parameter))
    if axes is not None:
        parts.append(str(axes[0]) if name in SCANS else str(tuple(axes)))
    if name in VARIANCES:
        parts.append(f"correction={parameter!r}")
    if keepdims:
        parts.append("keepdim=True")
    if masked:
        parts.append("mask=mask")
    if segmented:
        parts.append("offsets=offsets")
    if skip_nan and not name.startswith("nan"):
        parts.append("skip_nan=True")
    parts += [f"{option}=True" for option, given in (("reverse", reverse), ("exclusive", exclusive)) if given]
    if dtype is not None:
        parts.append(f"dtype={short(dtype)}")
    return f"{name}({', '.join(parts)})" + (f".astype({short(cast)})" if cast else "")


def result_dtype(name, given, dtype, is_torch, has_64_bits=True):
    """The dtype of the result, chosen as the array's own library does; None means the notation's
    default."""
    if dtype is not None:
        if name in FIXED:
            raise TypeError(f"{name} has no dtype: its result is of one kind, whatever x is")
        dtype = _dtype_name(dtype)
        if "float" not in dtype and name != "sumsq":
            raise TypeError(f"{name} into {dtype} is not supported; its result can be float16, bfloat16, float32 or float64")
        return dtype
    if name in FIXED or "float" in given:
        return None
    if name in ("nanmax", "nanmin"):
        return None
    if name == "sumsq":
        return ("uint" if given.startswith("uint") and not is_torch else "int") + ("64" if has_64_bits else "32")
    if is_torch:
        raise TypeError(f"{name} of {given} has no dtype of its own: say which, such as dtype=torch.float32")
    return "float64" if has_64_bits else "float32"


def folded(shape, axes):
    """How many elements there are along these axes; None means all axes."""
    n = 1
    for axis in range(len(shape)) if axes is None else axes:
        n *= shape[axis]
    return n


def _axes_of(x, axis, scans):
    dims = _dims(x)
    if scans:
        if axis is None and dims > 1:
            raise ValueError(f"axis is needed: x has {dims} dimensions")
        return (_axis(dims, 0 if axis is None else axis),)
    if axis is None:
        return None
    several = isinstance(axis, (list, tuple)) or not isinstance(axis, int) and hasattr(axis, "__iter__")
    axes = tuple(_axis(dims, a) for a in axis) if several else (_axis(dims, axis),)
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis is {tuple(axis)}: an axis is named twice")
    return axes if dims else ()


def _warning(name, n, parameter, is_torch):
    """(category, message) if NumPy or torch would warn of too few elements, else None."""
    if name in VARIANCES and name != "cumvar" and parameter >= n:
        if is_torch:
            return UserWarning, f"{name}(): degrees of freedom is <= 0: the correction is not less than the number of elements"
        return RuntimeWarning, "Degrees of freedom <= 0 for slice"
    if n == 0 and name == "mean" and not is_torch:
        return RuntimeWarning, "Mean of empty slice"
    return None


def _warn(category, sentence):
    """Warns with the caller's line, however many functions of this file are in between."""
    level, frame = 1, _sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        level, frame = level + 1, frame.f_back
    _warnings.warn(sentence, category, stacklevel=level)


def _made(name, x, axis, keepdims, parameter, masked, skip_nan, dtype, segmented, way):
    """(expression, warning or None, sentence or None), for all calls with these arguments.

    The sentence is the warning that is due if too few elements of a line count, which only the
    values can tell."""
    is_torch = type(x).__module__.partition(".")[0] == "torch"
    axes = _axes_of(x, axis, name in SCANS)
    if parameter is None:
        parameter = 2 if name == "norm" else int(is_torch)  # the default of the array's own library
    else:
        parameter = parameter if isinstance(parameter, int) else float(parameter)
    n = folded(x.shape, axes)
    given = _dtype_name(x.dtype)
    skip_nan = skip_nan and "float" in given
    warning = sentence = None
    if not segmented and (masked or skip_nan):
        sentence = _OF_FEW.get(name) if type(x).__module__ == "numpy" else None
        if sentence and skip_nan and name in VARIANCES:
            sentence += "."  # as NumPy's nanvar has it
    elif not segmented:
        warning = _warning(name, n, parameter, is_torch)
    if name in VARIANCES and not segmented:
        parameter = min(parameter, n)  # the divisor is never below 0, as in NumPy
    if is_torch:
        has_64_bits = True
    else:
        from ._others import has_64_bits as asks
        has_64_bits = asks(x)
    dtype = result_dtype(name, given, dtype, is_torch, has_64_bits)
    cast = "uint8" if is_torch and name in LOGIC and given == "uint8" else None  # as in torch
    line = text(name, axes, keepdims, parameter, masked, skip_nan, dtype, cast, segmented, *way)
    return _expression_of(line)[0], warning, sentence


def _call(name, x, axis, keepdims, parameter=None, mask=None, skip_nan=False, dtype=None, out=None, segments=(None, None, None),
          way=(False, False)):
    """`way` is (reverse, exclusive) of a scan."""
    if _package._without_torch:
        _package._look_for_torch()
    offsets = _segments.offsets(x, axis, *segments, name not in SCANS)
    if _package._compiling():
        return _by_torch(name, x, axis, keepdims, parameter, mask, skip_nan, dtype, out, offsets, way)
    if isinstance(axis, list):
        axis = tuple(axis)
    kept = _chosen.stack[-1]._derived
    try:
        key = name, type(x), x.dtype, x.shape, axis, keepdims, parameter, mask is None, skip_nan, dtype, offsets is None, way
        found = kept.get(key)
    except (AttributeError, TypeError):  # x is not an array, or an argument is not hashable
        key = found = None
    if found is None:
        if _by_torch is not None and _is_foreign(x):
            return _by_torch(name, x, axis, keepdims, parameter, mask, skip_nan, dtype, out, offsets, way)
        _dims(x)
        found = _made(name, x, axis, keepdims, parameter, mask is not None, skip_nan, dtype, offsets is not None, way)
        if len(kept) >= _KEPT:
            kept.clear()
        if key is not None:
            kept[key] = found
    expression, warning, sentence = found
    if warning is not None:
        _warn(*warning)
    inputs = (x,) if mask is None else (x, mask)
    if offsets is not None:
        inputs += (offsets,)
    y = _scanfold.expression_try(expression, inputs, 0) if out is None else _scanfold.expression_call(expression, inputs, out)
    if type(y) is int:
        return _by_torch(name, x, axis, keepdims, parameter, mask, skip_nan, dtype, out, offsets, way)
    if type(y) is list:
        y = tuple(y)
    if sentence is not None:
        _warn_of_few(sentence, name, x, axis, parameter, mask, skip_nan, y)
    return y


def _is_foreign(x):
    """Whether torch must handle x: a torch.fx Proxy, a tensor with symbolic lengths, a subclass."""
    kind = type(x)
    if not hasattr(kind, "__torch_function__"):
        return False
    torch = _sys.modules["torch"]
    return kind not in (torch.Tensor, torch.nn.Parameter) or not _builtins.all(type(n) is int for n in x.shape)


_OF_FEW = {"nanmax": "All-NaN slice encountered", "nanmin": "All-NaN slice encountered", "mean": "Mean of empty slice",
           **{name: "Degrees of freedom <= 0 for slice" for name in ("var", "std", "var_mean", "std_mean")}}


def _warn_of_few(sentence, name, x, axis, parameter, mask, skip_nan, y):
    """Warns as NumPy does if no element of a line counts, or for a variance no more than the
    correction. A result that is not finite does not show that alone: it may also come from
    infinities."""
    numpy = _sys.modules["numpy"]
    if numpy.isfinite(y[0] if isinstance(y, tuple) else y).all():
        return
    counts = x == x if skip_nan else numpy.broadcast_to(True, x.shape)
    if (_call("count_nonzero", counts, axis, None, None, mask) <= (parameter or 0)).any():
        _warn(RuntimeWarning, sentence)


# ---------------------------------------------------------------------------------------------------------------
# The public functions
# ---------------------------------------------------------------------------------------------------------------
def _spelled(axis, dim, keepdims, keepdim):
    if dim is not None:
        axis = _one(axis, dim, "axis and dim")
    if keepdim is not None:
        keepdims = _one(keepdims, keepdim, "keepdims and keepdim")
    return axis, bool(keepdims)


def mean(x, axis=None, *, dim=None, keepdims=None, keepdim=None, mask=None, skip_nan=False, dtype=None, out=None, offsets=None, lengths=None,
         reset=None):
    """The mean over one axis, several, or all: the sum divided by the number of elements.

    Only the elements that mask and skip_nan leave count in both. The mean of no elements is NaN.

    >>> import numpy as np, scanfold
    >>> scanfold.mean(np.array([[1, 2], [3, 5]]), axis=1)
    array([1.5, 4. ])
    """
    axis, keepdims = _spelled(axis, dim, keepdims, keepdim)
    return _call("mean", x, axis, keepdims, None, mask, skip_nan, dtype, out, (offsets, lengths, reset))


def _variance(name, described):
    def variance(x, axis=None, *, dim=None, correction=None, ddof=None, keepdims=None, keepdim=None, mask=None, skip_nan=False, dtype=None,
                 out=None, offsets=None, lengths=None, reset=None):
        axis, keepdims = _spelled(axis, dim, keepdims, keepdim)
        if ddof is not None:
            correction = _one(correction, ddof, "correction and ddof")
        return _call(name, x, axis, keepdims, correction, mask, skip_nan, dtype, out, (offsets, lengths, reset))
    return _named(variance, name, described)


def _named(function, name, described):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = described
    return function


var = _variance("var", """The variance over one axis, several, or all: the mean of the squared distances to the mean.

    It is computed in float64 from the distances to the first element. So it needs one read of x, and
    a large mean does not cost digits. With mask or skip_nan it needs two reads.

    >>> import numpy as np, scanfold
    >>> scanfold.var(np.array([1e6, 1e6 + 1, 1e6 + 2], dtype=np.float32), ddof=1)
    array(1., dtype=float32)
    """)

std = _variance("std", """The standard deviation over one axis, several, or all: the square root of the variance (see var).

    >>> import numpy as np, scanfold
    >>> scanfold.std(np.array([1., 3.]))
    array(1.)
    """)

var_mean = _variance("var_mean", """The variance and the mean over one axis, several, or all, computed in one read.

    The mean here is the first element plus the mean of the distances to it, in float64. So its bits
    can differ from those of scanfold.mean. The variance has the bits of scanfold.var.

    out   a tuple of two arrays to write to, which is returned

    Returns a tuple (variance, mean): two arrays without the folded axes, of the same library as x
    and on the same device. With segments the axis has one element for each segment.

    >>> import numpy as np, scanfold
    >>> scanfold.var_mean(np.array([1., 3.]))
    (array(1.), array(2.))
    """)

std_mean = _variance("std_mean", """The standard deviation and the mean over one axis, several, or all, computed in one read.

    The standard deviation has the bits of scanfold.std, and the mean is that of var_mean.

    out   a tuple of two arrays to write to, which is returned

    Returns a tuple (standard deviation, mean): two arrays without the folded axes, of the same
    library as x and on the same device. With segments the axis has one element for each segment.

    >>> import numpy as np, scanfold
    >>> scanfold.std_mean(np.array([1., 3.]))
    (array(1.), array(2.))
    """)


def cummean(x, axis=None, *, dim=None, reverse=False, exclusive=False, mask=None, skip_nan=False, dtype=None, out=None, offsets=None, lengths=None,
            reset=None):
    """The mean of all elements so far, along an axis.

    Only the elements that mask and skip_nan leave count. Before the first of them the mean is NaN.

    >>> import numpy as np, scanfold
    >>> scanfold.cummean(np.array([1., 3., 2.]))
    array([1., 2., 2.])
    """
    axis = axis if dim is None else _one(axis, dim, "axis and dim")
    return _call("cummean", x, axis, False, None, mask, skip_nan, dtype, out, (offsets, lengths, reset), (bool(reverse), bool(exclusive)))


def cumvar(x, axis=None, *, dim=None, reverse=False, exclusive=False, correction=None, ddof=None, mask=None, skip_nan=False, dtype=None, out=None,
           offsets=None, lengths=None, reset=None):
    """The variance of all elements so far, along an axis.

    Only the elements that mask and skip_nan leave count. Before the first of them it is NaN.

    >>> import numpy as np, scanfold
    >>> scanfold.cumvar(np.array([1., 3., 5.]))
    array([0.        , 1.        , 2.66666667])
    """
    if ddof is not None:
        correction = _one(correction, ddof, "correction and ddof")
    axis = axis if dim is None else _one(axis, dim, "axis and dim")
    return _call("cumvar", x, axis, False, correction, mask, skip_nan, dtype, out, (offsets, lengths, reset), (bool(reverse), bool(exclusive)))


def sumsq(x, axis=None, *, dim=None, keepdims=None, keepdim=None, mask=None, skip_nan=False, dtype=None, out=None, offsets=None, lengths=None,
          reset=None):
    """The sum of squares over one axis, several, or all.

    Integers are widened before they are squared, as sum widens them.

    dtype   as for cumsum

    >>> import numpy as np, scanfold
    >>> scanfold.sumsq(np.array([3., 4.]))
    array(25.)
    """
    axis, keepdims = _spelled(axis, dim, keepdims, keepdim)
    return _call("sumsq", x, axis, keepdims, None, mask, skip_nan, dtype, out, (offsets, lengths, reset))


def norm(x, ord=2, axis=None, *, dim=None, keepdims=None, keepdim=None, mask=None, skip_nan=False, dtype=None, out=None, offsets=None, lengths=None,
         reset=None):
    """The vector norm: sum(abs(x) ** ord) ** (1 / ord) over one axis, several, or all.

    It is never a matrix norm, as in np.linalg.vector_norm and torch.linalg.vector_norm.

    >>> import numpy as np, scanfold
    >>> scanfold.norm(np.array([[3., 4.], [6., 8.]]), axis=1)
    array([ 5., 10.])
    """
    axis, keepdims = _spelled(axis, dim, keepdims, keepdim)
    return _call("norm", x, axis, keepdims, 2 if ord is None else ord, mask, skip_nan, dtype, out, (offsets, lengths, reset))


def _logic(name, described):
    def logic(x, axis=None, *, dim=None, keepdims=None, keepdim=None, mask=None, skip_nan=False, out=None, offsets=None, lengths=None,
              reset=None):
        axis, keepdims = _spelled(axis, dim, keepdims, keepdim)
        return _call(name, x, axis, keepdims, None, mask, skip_nan, None, out, (offsets, lengths, reset))
    return _named(logic, name, described)


any = _logic("any", """Whether any element is not 0, over one axis, several, or all.

    NaN is not 0. Where there are no elements, or none counts, the result is False.

    Returns an array of bool (for torch's uint8 it is uint8, as in torch) without the folded axes, of
    the same library as x and on the same device. With segments the axis has one element for each
    segment.

    >>> import numpy as np, scanfold
    >>> scanfold.any(np.array([[0, 0], [0, 3]]), axis=1)
    array([False,  True])
    """)

all = _logic("all", """Whether all elements are not 0, over one axis, several, or all.

    NaN is not 0. Where there are no elements, or none counts, the result is True.

    Returns an array of bool (for torch's uint8 it is uint8, as in torch) without the folded axes, of
    the same library as x and on the same device. With segments the axis has one element for each
    segment.

    >>> import numpy as np, scanfold
    >>> scanfold.all(np.array([[1, 0], [2, 3]]), axis=1)
    array([False,  True])
    """)

count_nonzero = _logic("count_nonzero", """How many elements are not 0, over one axis, several, or all. NaN is not 0.

    Returns an array of int64 without the folded axes, of the same library as x and on the same
    device. With segments the axis has one element for each segment.

    >>> import numpy as np, scanfold
    >>> scanfold.count_nonzero(np.array([[1, 0], [2, 3]]), axis=1)
    array([1, 2])
    """)


# ---------------------------------------------------------------------------------------------------------------
# skip_nan under NumPy's names
# ---------------------------------------------------------------------------------------------------------------
def _skipping(name, function, described, example):
    def skipping(x, axis=None, **options):
        return function(x, axis, skip_nan=True, **options)
    whole = _inspect.signature(function)
    skipping.__signature__ = whole.replace(parameters=[p for p in whole.parameters.values() if p.name != "skip_nan"])
    return _named(skipping, name, f"""{described}: scanfold.{function.__name__} with skip_nan=True.

    >>> import numpy as np, scanfold
    >>> scanfold.{name}(np.array([[1., np.nan], [3., 2.]]), axis=1)
    {example}
    """)


nansum = _skipping("nansum", _package.sum, "The sum of the elements that are not NaN", "array([1., 5.])")
nanprod = _skipping("nanprod", _package.prod, "The product of the elements that are not NaN", "array([1., 6.])")
nancumsum = _skipping("nancumsum", _package.cumsum, "The cumulative sum of the elements that are not NaN",
                      "array([[1., 1.],\n           [3., 5.]])")
nancumprod = _skipping("nancumprod", _package.cumprod, "The cumulative product of the elements that are not NaN",
                       "array([[1., 1.],\n           [3., 6.]])")
nanmean = _skipping("nanmean", mean, "The mean of the elements that are not NaN", "array([1. , 2.5])")
nanvar = _skipping("nanvar", var, "The variance of the elements that are not NaN", "array([0.  , 0.25])")
nanstd = _skipping("nanstd", std, "The standard deviation of the elements that are not NaN", "array([0. , 0.5])")


def _extreme(name, described):
    def extreme(x, axis=None, *, dim=None, keepdims=None, keepdim=None, mask=None, out=None, offsets=None, lengths=None, reset=None):
        axis, keepdims = _spelled(axis, dim, keepdims, keepdim)
        return _call(name, x, axis, keepdims, None, mask, True, None, out, (offsets, lengths, reset))
    return _named(extreme, name, described)


nanmax = _extreme("nanmax", """The largest element that is not NaN, over one axis, several, or all.

    Where all elements are NaN the result is NaN, and for NumPy arrays there is NumPy's warning.
    (scanfold.max with skip_nan=True has -inf there.)

    >>> import numpy as np, scanfold
    >>> scanfold.nanmax(np.array([[1., np.nan], [3., 2.]]), axis=1)
    array([1., 3.])
    """)

nanmin = _extreme("nanmin", """The smallest element that is not NaN, over one axis, several, or all.

    Where all elements are NaN the result is NaN, and for NumPy arrays there is NumPy's warning.
    (scanfold.min with skip_nan=True has inf there.)

    >>> import numpy as np, scanfold
    >>> scanfold.nanmin(np.array([[1., np.nan], [3., 2.]]), axis=1)
    array([1., 2.])
    """)
