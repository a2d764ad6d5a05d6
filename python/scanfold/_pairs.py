"""Functions whose accumulator has two components: positions of extremes, sums of exponentials,
linear recurrences.

argmax, logsumexp and similar functions are called as other folds and scans are. Functions with two
results or two input arrays are turned into an expression in the library's notation, which is parsed
once.
"""
import sys as _sys

from . import _axis, _dims, _one, _parsed, _scanfold, _segments
from ._dtypes import name as _dtype_name

__all__ = ["argmax", "argmin", "nanargmax", "nanargmin", "logsumexp", "logcumsumexp", "linear_recurrence"]

_package = _sys.modules["scanfold"]
_by_torch = None  # set by scanfold.torch: the same for tensors that need torch's dispatcher
_ARGMAX, _ARGMIN, _LOGSUMEXP = 4, 5, 8
NAMES = {2: "max", 3: "min"}


def _look_for_torch():
    if _package._without_torch:
        _package._look_for_torch()


def short(dtype):
    """The notation's name of a dtype: "f32" for "float32"."""
    return dtype.replace("bfloat", "bf").replace("float", "f").replace("uint", "u").replace("int", "i")


def _is_torch(x):
    torch = _sys.modules.get("torch")
    return torch is not None and (isinstance(x, torch.Tensor) or hasattr(type(x), "__torch_function__"))


def _left_to_torch(*given):
    """Whether torch.compile is tracing, or an argument is a placeholder for a tensor, such as a
    torch.fx Proxy, whose shape is not known."""
    if _package._compiling():
        return True
    torch = _sys.modules.get("torch")
    return torch is not None and any(hasattr(type(x), "__torch_function__") and not isinstance(x, torch.Tensor) for x in given)


def _computed(text, inputs, out, by_torch):
    """The results of a line of the notation for these arrays. `by_torch` computes them instead if a
    tensor needs torch's dispatcher."""
    expression, given = _parsed(text, True, inputs)
    if out is not None:
        return _scanfold.expression_call(expression, given, out)
    results = _scanfold.expression_try(expression, given, 0)
    if type(results) is int:
        return by_torch()
    return tuple(results) if type(results) is list else results


# --------------------------------------------------------------------------------------------------
# Positions
# --------------------------------------------------------------------------------------------------
def _position(op, x, axis, dim, keepdims, keepdim, mask, skip_nan, out, segments=(None, None, None)):
    axis, keepdims = _one(axis, dim, "axis and dim"), _one(keepdims, keepdim, "keepdims and keepdim")
    _look_for_torch()
    if axis is not None and not isinstance(axis, int) and hasattr(axis, "__iter__"):
        raise TypeError(f"axis is {axis!r}: one axis is expected, or None for the position among all elements")
    if skip_nan:
        numbers = x == x
        mask = numbers if mask is None else numbers & (mask != 0)
    return _package._fold(x, op, axis, keepdims, False, mask, None, None, out, False, False, _segments.offsets(x, axis, *segments, True))


def argmax(x, axis=None, *, dim=None, keepdims=None, keepdim=None, mask=None, skip_nan=False, out=None, offsets=None, lengths=None, reset=None):
    """The position of the largest element along an axis, or among all; the first of equal ones.

    axis, dim   one, or None for the position among all elements, in row-major order

    NaN is larger than any number, and zeros of either sign are equal. Where mask and skip_nan leave
    no element the result is -1. A line of no elements is an error.

    Returns an array of int64 (int32 in JAX without 64-bit types) without the axis, of the same
    library as x and on the same device. With segments it has one position for each segment, counted
    from the segment's first element.

    >>> import numpy as np, scanfold
    >>> scanfold.argmax(np.array([[1, 5, 5], [7, 2, 3]]), axis=1)
    array([1, 0])
    >>> scanfold.argmax(np.array([[1, 5, 5], [7, 2, 3]]))
    array(3)
    """
    return _position(_ARGMAX, x, axis, dim, keepdims, keepdim, mask, skip_nan, out, (offsets, lengths, reset))


def argmin(x, axis=None, *, dim=None, keepdims=None, keepdim=None, mask=None, skip_nan=False, out=None, offsets=None, lengths=None, reset=None):
    """The position of the smallest element along an axis, or among all; the first of equal ones.

    axis, dim   as for argmax

    NaN is smaller than any number here, and zeros of either sign are equal. Where mask and skip_nan
    leave no element the result is -1. A line of no elements is an error.

    Returns an array of int64 (int32 in JAX without 64-bit types) without the axis, of the same
    library as x and on the same device. With segments it has one position for each segment, counted
    from the segment's first element.

    >>> import numpy as np, scanfold
    >>> scanfold.argmin(np.array([[1, 5, 1], [7, 2, 3]]), axis=1, keepdims=True)
    array([[0],
           [1]])
    """
    return _position(_ARGMIN, x, axis, dim, keepdims, keepdim, mask, skip_nan, out, (offsets, lengths, reset))


def _takes_as_is(out, result):
    """Whether NumPy copies the result to out without another thought. The fold refuses or converts the rest."""
    return type(out) is type(result) and out.dtype == result.dtype and out.shape == result.shape and out.flags.writeable


def _among_numbers(op, name, x, axis, dim, keepdims, keepdim, mask, out, segments):
    is_whole = all(given is None for given in segments)  # an empty segment is not an error
    if is_whole and type(x).__module__ == "numpy":
        at = _position(op, x, axis, dim, keepdims, keepdim, mask, True, None, segments)
        if (at < 0).any():
            raise ValueError(f"All-NaN slice encountered: {name} of it is no position; {name[3:]} with skip_nan=True has -1 there")
        if out is None:
            return at
        if _takes_as_is(out, at) and not _sys.modules["numpy"].may_share_memory(x, out):
            out[...] = at
            return out
    return _position(op, x, axis, dim, keepdims, keepdim, mask, True, out, segments)


def nanargmax(x, axis=None, *, dim=None, keepdims=None, keepdim=None, mask=None, out=None, offsets=None, lengths=None, reset=None):
    """The position of the largest element that is not NaN: argmax with skip_nan=True.

    If there is no such element, NumPy arrays raise ValueError, as in NumPy. For arrays of other
    libraries the result is -1, because a check would have to wait for the device.

    axis, dim   as for argmax

    Returns an array of int64 (int32 in JAX without 64-bit types) without the axis, of the same
    library as x and on the same device.

    >>> import numpy as np, scanfold
    >>> scanfold.nanargmax(np.array([[np.nan, 5, 5], [7, np.nan, 3]]), axis=1)
    array([1, 0])
    """
    return _among_numbers(_ARGMAX, "nanargmax", x, axis, dim, keepdims, keepdim, mask, out, (offsets, lengths, reset))


def nanargmin(x, axis=None, *, dim=None, keepdims=None, keepdim=None, mask=None, out=None, offsets=None, lengths=None, reset=None):
    """The position of the smallest element that is not NaN: argmin with skip_nan=True.

    If there is no such element, NumPy arrays raise ValueError, as in NumPy. For arrays of other
    libraries the result is -1, because a check would have to wait for the device.

    axis, dim   as for argmax

    Returns an array of int64 (int32 in JAX without 64-bit types) without the axis, of the same
    library as x and on the same device.

    >>> import numpy as np, scanfold
    >>> scanfold.nanargmin(np.array([np.nan, 5, 2]))
    array(2)
    """
    return _among_numbers(_ARGMIN, "nanargmin", x, axis, dim, keepdims, keepdim, mask, out, (offsets, lengths, reset))


def extreme_text(op, axis, scans, keepdim, reverse, exclusive, masked, segmented=False):
    """Values and indices in the notation. axis is None for an extreme over all elements."""
    name = NAMES[op]
    options = "".join(f", {option}=True" for option, given in (("keepdim", keepdim), ("reverse", reverse), ("exclusive", exclusive)) if given)
    options = ("" if axis is None else f", {axis}") + options + (", mask=mask" if masked else "") + (", offsets=offsets" if segmented else "")
    cum = "cum" if scans else ""
    return f"{cum}{name}(x{options}), {cum}arg{name}(x{options})"


def _refuse(name, **given):
    for option, value in given.items():
        if value is not None and value is not False:
            raise TypeError(f"{option} does not go with return_indices: {name}'s values and indices are those of x's elements")


def extreme(op, x, axis=None, *, dim=None, keepdims=None, keepdim=None, mask=None, out=None, reverse=None, skip_nan=None, initial=None, dtype=None,
            segments=(None, None, None)):
    """scanfold.max or min with indices."""
    _refuse(NAMES[op], reverse=reverse, skip_nan=skip_nan, initial=initial, dtype=dtype)
    axis, keepdims = _one(axis, dim, "axis and dim"), bool(_one(keepdims, keepdim, "keepdims and keepdim"))
    _look_for_torch()
    offsets = _segments.offsets(x, axis, *segments, True)

    def by_torch():
        return _by_torch.extreme(x, NAMES[op], axis, False, keepdims, False, False, mask, offsets)
    if _left_to_torch(x, mask):
        return by_torch()
    if axis is not None:
        axis = _axis(_dims(x), axis)
    return _extremes(op, x, axis, False, keepdims, False, False, mask, offsets, out, by_torch)


def _extremes(op, x, axis, scans, keepdims, reverse, exclusive, mask, offsets, out, by_torch):
    inputs = {name: array for name, array in (("x", x), ("mask", mask), ("offsets", offsets)) if array is not None}
    text = extreme_text(op, axis, scans, keepdims, reverse, exclusive, mask is not None, offsets is not None)
    return _computed(text, inputs, out, by_torch)


def cumulative_extreme(op, x, axis=None, *, dim=None, reverse=False, exclusive=False, mask=None, out=None, skip_nan=None, initial=None, dtype=None,
                       segments=(None, None, None)):
    """scanfold.cummax or cummin with indices."""
    _refuse("cum" + NAMES[op], skip_nan=skip_nan, initial=initial, dtype=dtype)
    axis = _one(axis, dim, "axis and dim")
    _look_for_torch()
    reverse, exclusive = bool(reverse), bool(exclusive)
    offsets = _segments.offsets(x, axis, *segments)

    def by_torch():
        return _by_torch.extreme(x, NAMES[op], axis, True, False, reverse, exclusive, mask, offsets)
    if _left_to_torch(x, mask):
        return by_torch()
    if axis is None and _dims(x) > 1:
        raise ValueError(f"axis is needed: x has {x.ndim} dimensions")
    axis = _axis(_dims(x), 0 if axis is None else axis)
    return _extremes(op, x, axis, True, False, reverse, exclusive, mask, offsets, out, by_torch)


# --------------------------------------------------------------------------------------------------
# Sums of exponentials
# --------------------------------------------------------------------------------------------------
def logsumexp(x, axis=None, *, dim=None, keepdims=None, keepdim=None, mask=None, skip_nan=False, dtype=None, out=None, offsets=None, lengths=None,
              reset=None):
    """log(sum(exp(x))) over one axis, several, or all, without overflow.

    dtype   of the result. By default real dtypes stay; integers become float64, in torch float32

    Elements that are -inf add nothing, and without elements the result is -inf. +inf and NaN
    propagate.

    >>> import numpy as np, scanfold
    >>> scanfold.logsumexp(np.array([[1e4, 1e4], [-1e4, -np.inf]]), axis=1)
    array([ 10000.69314718, -10000.        ])
    """
    axis, keepdims = _one(axis, dim, "axis and dim"), _one(keepdims, keepdim, "keepdims and keepdim")
    _look_for_torch()
    offsets = _segments.offsets(x, axis, offsets, lengths, reset, True)
    return _package._fold(x, _LOGSUMEXP, axis, keepdims, False, mask, None, dtype, out, False, skip_nan, offsets)


def logcumsumexp(x, axis=None, *, dim=None, reverse=False, exclusive=False, mask=None, skip_nan=False, dtype=None, out=None, offsets=None, lengths=None,
                 reset=None):
    """log(cumsum(exp(x))) along an axis, without overflow.

    exclusive   each result leaves its own element out; the first is -inf
    dtype       as for logsumexp

    >>> import numpy as np, scanfold
    >>> scanfold.logcumsumexp(np.array([0.0, 0.0, 1e4]))
    array([0.00000000e+00, 6.93147181e-01, 1.00000000e+04])
    """
    axis = _one(axis, dim, "axis and dim")
    _look_for_torch()
    offsets = _segments.offsets(x, axis, offsets, lengths, reset)
    return _package._scan(x, _LOGSUMEXP, axis, reverse, exclusive, mask, None, dtype, out, False, skip_nan, offsets)


# --------------------------------------------------------------------------------------------------
# Linear recurrences
# --------------------------------------------------------------------------------------------------
def recurrence_text(a, axis, reverse, exclusive, initial, dtype, wide, segmented=False):
    """The recurrence in the notation.

    a         a number, or None if it is an array
    initial   None, a number, or "state" for an array h with one state for each line. The state is
              combined with the first element, at which an array `first` is True. With segments h
              and `first` are as long as the axis
    wide      the type in which a state is combined
    """
    options = f"{axis}" + "".join(f", {option}=True" for option, given in (("reverse", reverse), ("exclusive", exclusive)) if given)
    options += (", offsets=offsets" if segmented else "") + ("" if dtype is None else f", dtype={short(dtype)}")
    gate = "a" if a is None else repr(float(a))
    if initial != "state":
        return f"linear_recurrence({gate}, b, {options}" + (")" if initial is None else f", initial={float(initial)!r})")
    gate = f"a.astype({wide})" if a is None else gate
    begun = f"where(first, {gate} * h.astype({wide}) + b.astype({wide}), b.astype({wide}))"
    text = f"linear_recurrence({gate}, {begun}, {options})"
    return f"where(first, h.astype({short(dtype)}), {text})" if exclusive else text


def recurrence_dtypes(names, dtype, real):
    """(the result's dtype or None for the notation's default, the type to compute in), given the
    names of the arrays' dtypes. Integers become `real`."""
    if dtype is not None:
        dtype = _dtype_name(dtype)
    elif not any("float" in name for name in names):
        dtype = real
    return dtype, "f64" if "float64" in (*names, dtype) else "f32"


def promoted(names):
    """The common dtype of arrays of which at least one is real."""
    reals = sorted({name for name in names if "float" in name})
    widest = next((name for name in ("float64", "float32") if name in reals), None)
    return widest or (reals[0] if len(reals) == 1 else "float32")


def _shape(a, b):
    shapes = [tuple(s) for s in (getattr(a, "shape", ()), b.shape)]
    rank = max(map(len, shapes))
    shapes = [(1,) * (rank - len(s)) + s for s in shapes]
    if any(m != n and m != 1 and n != 1 for m, n in zip(*shapes)):
        raise ValueError(f"a has shape {tuple(a.shape)} and b has {tuple(b.shape)}, which do not broadcast")
    return tuple(n if m == 1 else m for m, n in zip(*shapes))


def _state(space, state, b, shape, axis, reverse):
    """(h, first): the states as an array that broadcasts along the axis, and a mask that is True at
    the element where the recurrence begins."""
    lines = shape[:axis] + shape[axis + 1:]
    if not hasattr(state, "reshape"):
        raise TypeError(f"initial is {type(state)}: a number, or an array of one state a line, is expected")
    own = (1,) * (len(lines) - len(state.shape)) + tuple(state.shape)
    if len(own) != len(lines) or any(m != n and m != 1 for m, n in zip(own, lines)):
        raise ValueError(f"initial has shape {tuple(state.shape)}; it must be broadcastable to {lines}, one state a line")
    h = state.reshape(own[:axis] + (1,) + own[axis:])
    n = shape[axis]
    where = {"device": b.device} if _is_torch(b) else {}
    first = space.arange(n, **where) == (n - 1 if reverse else 0)
    return h, first.reshape((n,) + (1,) * (len(shape) - 1 - axis))


def linear_recurrence(a, b, axis=-1, *, dim=None, reverse=False, exclusive=False, initial=None, dtype=None, out=None, offsets=None, lengths=None,
                      reset=None):
    """h[i] = a[i] * h[i-1] + b[i] along an axis.

    a           a number (such as a discount), or an array that broadcasts with b (such as one gate
                for each channel or element)
    b           a NumPy, torch, JAX or CuPy array, or any object with __dlpack__
    axis, dim   the axis; by default the last
    exclusive   each result is the state before its element: h[i-1]
    initial     the state before the first element: a number, or an array with one state for each
                line, which has b's shape without the axis. A number is combined with every result,
                an array with the first element, so the two may differ in the last bit
    dtype       of the result; float64 is also that of all arithmetic. By default the common dtype
                of a and b; for integers float64, in torch float32

    With segments each has its own recurrence, and an initial array has one state for each segment,
    in place of the axis. The order is that of docs/order.md: a = 1 gives the cumulative sum of b,
    with the same bits.

    Returns an array of the shape to which a and b broadcast, of the same library as b and on the
    same device.

    >>> import numpy as np, scanfold
    >>> scanfold.linear_recurrence(0.5, np.array([1.0, 1.0, 1.0]))
    array([1.  , 1.5 , 1.75])
    >>> scanfold.linear_recurrence(np.array([1.0, 0.0, 1.0]), np.array([1.0, 2.0, 3.0]), initial=10)
    array([11.,  2.,  5.])
    """
    axis = axis if dim is None else dim
    _look_for_torch()
    if not hasattr(b, "shape"):
        raise TypeError(f"b is {type(b)}: give a NumPy array, a torch tensor, or another array with __dlpack__")
    for argument, value in (("a", a), ("initial", initial)):
        if isinstance(value, complex):
            raise TypeError(f"{argument} is {value}, a complex number; a recurrence is of real numbers")
    number = isinstance(a, (int, float))
    if not number and not hasattr(a, "shape"):
        raise TypeError(f"a is {type(a)}: a number or an array is expected")
    offsets = _segments.offsets(b, axis, offsets, lengths, reset)
    is_torch = _is_torch(b) or _is_torch(a)
    if is_torch and _left_to_torch(a, b, initial):
        return _by_torch.linear_recurrence(a, b, axis, reverse, exclusive, initial, dtype, out, offsets)
    if hasattr(initial, "item") and not getattr(initial, "shape", ()) and not _is_torch(initial):
        initial = initial.item()
    shape, reverse, exclusive = _shape(a, b), bool(reverse), bool(exclusive)
    axis = _axis(len(shape), axis)
    with_state = initial is not None and not isinstance(initial, (int, float))

    def by_torch():
        return _by_torch.linear_recurrence(a, b, axis, reverse, exclusive, initial, dtype, out, offsets)
    if is_torch and with_state:
        return by_torch()
    names = [_dtype_name(x.dtype) for x in (a, b) if hasattr(x, "shape")]
    real = "float32" if is_torch or not _has_64_bits(b) else "float64"
    dtype, wide = recurrence_dtypes(names, dtype, real)
    inputs = {name: array for name, array in (("a", None if number else a), ("b", b), ("offsets", offsets)) if array is not None}
    if with_state and len(shape):
        from ._others import namespace
        space = _sys.modules["numpy"] if type(b).__module__ == "numpy" else namespace(b)
        begun = _state(space, initial, b, shape, axis, reverse) if offsets is None else _segments.states(space, initial, offsets, shape, axis, reverse)
        inputs["h"], inputs["first"] = begun
        dtype = dtype or promoted(names)
    elif with_state:
        raise ValueError("b has no dimensions: its initial state is a number")
    text = recurrence_text(a if number else None, axis, reverse, exclusive, "state" if with_state else initial, dtype, wide, offsets is not None)
    return _computed(text, inputs, out, by_torch)


def _has_64_bits(x):
    if type(x).__module__ == "numpy":
        return True
    from ._others import has_64_bits
    return has_64_bits(x)
