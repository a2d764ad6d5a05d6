"""Functions that fold along an axis and apply the result to each element: softmax, layer_norm etc.

The library defines their formulas (src/expr/derive.c) and computes each in one pass. Here a call is
turned into an expression in the library's notation, as in _derived.py.
"""
import sys as _sys

from . import _chosen, _dims, _expression_of, _one, _scanfold, _segments
from ._derived import _KEPT, _axes_of, _is_foreign, result_dtype, short
from ._dtypes import name as _dtype_name

__all__ = ["softmax", "log_softmax", "layer_norm", "rms_norm", "normalize", "standardize"]

_package = _sys.modules["scanfold"]
_by_torch = None  # set by scanfold.torch: the same for tensors that need torch's dispatcher


def text(name, axes, parameter, eps, dtype, beside):
    """The call in the notation.

    `parameter` is normalize's order or standardize's correction. eps and dtype may be None.
    `beside` names those of mask, weight, bias and offsets that are given."""
    parts = ["x"]
    if name == "normalize":
        parts.append(repr(parameter))
    parts.append(str(tuple(axes)))
    if name == "standardize":
        parts.append(f"correction={parameter!r}")
    parts += [f"{one}={one}" for one in beside]
    if eps is not None:
        parts.append(f"eps={eps!r}")
    if dtype is not None:
        parts.append(f"dtype={short(dtype)}")
    return f"{name}({', '.join(parts)})"


def _made(name, x, axis, parameter, eps, dtype, beside):
    """(expression, the names of its inputs), for all calls with these arguments."""
    is_torch = type(x).__module__.partition(".")[0] == "torch"
    axes = _axes_of(x, axis, False)
    if axes is None:
        axes = tuple(range(_dims(x)))
    if parameter is None:
        parameter = int(is_torch)  # the default of the array's own library
    has_64_bits = True
    if not is_torch:
        from ._others import has_64_bits as asks
        has_64_bits = asks(x)
    dtype = result_dtype(name, _dtype_name(x.dtype), dtype, is_torch, has_64_bits)
    return _expression_of(text(name, axes, parameter, eps, dtype, beside))


def _call(name, x, axis, parameter, eps, mask, weight, bias, dtype, out, segments):
    if _package._without_torch:
        _package._look_for_torch()
    offsets = _segments.offsets(x, axis, *segments)
    given = name, x, axis, parameter, eps, mask, weight, bias, dtype, out, offsets
    if _package._compiling():
        return _by_torch(*given)
    if isinstance(axis, list):
        axis = tuple(axis)
    kept = _chosen.stack[-1]._derived
    try:
        key = name, type(x), x.dtype, len(x.shape), axis, parameter, eps, mask is None, weight is None, bias is None, dtype, offsets is None
        found = kept.get(key)
    except (AttributeError, TypeError):  # x is not an array, or an argument is not hashable
        key = found = None
    if found is None:
        if _by_torch is not None and any(map(_is_foreign, (x, mask, weight, bias))):
            return _by_torch(*given)
        _dims(x)
        beside = [word for word, array in (("mask", mask), ("weight", weight), ("bias", bias), ("offsets", offsets)) if array is not None]
        found = _made(name, x, axis, parameter, eps, dtype, beside)
        if len(kept) >= _KEPT:
            kept.clear()
        if key is not None:
            kept[key] = found
    expression, names = found
    by_name = {"x": x, "mask": mask, "weight": weight, "bias": bias, "offsets": offsets}
    inputs = tuple([by_name[one] for one in names])
    y = _scanfold.expression_try(expression, inputs, 0) if out is None else _scanfold.expression_call(expression, inputs, out)
    return _by_torch(*given) if type(y) is int else y


# ---------------------------------------------------------------------------------------------------------------
# The public functions
# ---------------------------------------------------------------------------------------------------------------
def _spelled(axis, dim):
    axis = _one(axis, dim, "axis and dim")
    return -1 if axis is None else axis


def softmax(x, axis=None, *, dim=None, mask=None, dtype=None, out=None, offsets=None, lengths=None, reset=None):
    """exp(x - max(x)) / sum(exp(x - max(x))) along an axis: not negative, with sum 1.

    mask   bool or uint8, broadcast to x: elements where it is False do not count, and their results
           are 0. Where no element of a line counts, all its results are 0

    Where the largest element is -inf or inf, 0 / 0 and inf - inf are NaN, as in torch.

    >>> import numpy as np, scanfold
    >>> scanfold.softmax(np.array([[0., 0.], [1e4, 0.]]), axis=1)
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    return _call("softmax", x, _spelled(axis, dim), 0, None, mask, None, None, dtype, out, (offsets, lengths, reset))


def log_softmax(x, axis=None, *, dim=None, mask=None, dtype=None, out=None, offsets=None, lengths=None, reset=None):
    """(x - max(x)) - log(sum(exp(x - max(x)))) along an axis: the logarithm of softmax.

    mask   as for softmax

    >>> import numpy as np, scanfold
    >>> scanfold.log_softmax(np.array([1e4, 0.]))
    array([     0., -10000.])
    """
    return _call("log_softmax", x, _spelled(axis, dim), 0, None, mask, None, None, dtype, out, (offsets, lengths, reset))


def layer_norm(x, axis=None, weight=None, bias=None, eps=1e-5, *, dim=None, mask=None, dtype=None, out=None, offsets=None, lengths=None,
               reset=None):
    """d * (1 / sqrt(mean(d * d) + eps)) * weight + bias, where d = x - mean(x), along one axis or several.

    torch.nn.functional.layer_norm(x, x.shape[-2:], w, b) is layer_norm(x, (-2, -1), w, b).

    >>> import numpy as np, scanfold
    >>> scanfold.layer_norm(np.array([[1., 3.], [5., 5.]]), eps=0.5)
    array([[-0.81649658,  0.81649658],
           [ 0.        ,  0.        ]])
    """
    return _call("layer_norm", x, _spelled(axis, dim), 0, float(eps), mask, weight, bias, dtype, out, (offsets, lengths, reset))


def rms_norm(x, axis=None, weight=None, eps=None, *, dim=None, mask=None, dtype=None, out=None, offsets=None, lengths=None,
             reset=None):
    """x * (1 / sqrt(mean(x * x) + eps)) * weight, along one axis or several.

    weight   an array with x's shape along the axes, or with as many dimensions as x, broadcast to
             it; by default 1
    eps      a small number that keeps the divisor away from 0. By default the distance from 1 to
             the next larger number of the result's dtype, as in torch

    >>> import numpy as np, scanfold
    >>> scanfold.rms_norm(np.array([1., 7.]), eps=0)
    array([0.2, 1.4])
    """
    return _call("rms_norm", x, _spelled(axis, dim), 0, None if eps is None else float(eps), mask, weight, None, dtype, out, (offsets, lengths, reset))


def normalize(x, ord=2, axis=None, *, dim=None, eps=1e-12, mask=None, dtype=None, out=None, offsets=None, lengths=None,
              reset=None):
    """x / maximum(norm(x, ord), eps), along one axis or several.

    >>> import numpy as np, scanfold
    >>> scanfold.normalize(np.array([[3., 4.], [0., 0.]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    ord = 2 if ord is None else ord if isinstance(ord, int) else float(ord)
    return _call("normalize", x, _spelled(axis, dim), ord, float(eps), mask, None, None, dtype, out, (offsets, lengths, reset))


def standardize(x, axis=None, *, dim=None, correction=None, ddof=None, mask=None, dtype=None, out=None, offsets=None, lengths=None,
                reset=None):
    """(x - mean(x)) / std(x), along one axis or several.

    >>> import numpy as np, scanfold
    >>> scanfold.standardize(np.array([1., 3.]))
    array([-1.,  1.])
    """
    if ddof is not None:
        correction = _one(correction, ddof, "correction and ddof")
    if correction is not None and not isinstance(correction, int):
        correction = float(correction)
    return _call("standardize", x, _spelled(axis, dim), correction, None, mask, None, None, dtype, out, (offsets, lengths, reset))
