"""Segments: where sequences of their own lengths, one behind the other along an axis, begin and end.

Whatever a caller has, offsets, lengths or the first elements marked, becomes offsets: of k segments k + 1 whole numbers, where each begins and the last
one ends. They are made on the array's own device.
"""
import sys as _sys

from . import _scanfold

_package = _sys.modules["scanfold"]


def _one_axis(x, axis):
    """The axis that is cut, from 0 up."""
    ndim = len(x.shape)
    if axis is None:
        if ndim != 1:
            raise ValueError(f"axis is needed: x has {ndim} dimensions, and segments are along one")
        axis = 0
    if not isinstance(axis, int):
        axes = tuple(axis) if hasattr(axis, "__iter__") else (axis.__index__(),)
        if len(axes) != 1:
            raise ValueError(f"axis is {axes}: segments are along one axis")
        axis = axes[0]
    return _package._axis(ndim, axis)


def _torch_of(x):
    torch = _sys.modules.get("torch")
    return torch if torch is not None and isinstance(x, torch.Tensor) else None


def _from_lengths(x, lengths):
    torch = _torch_of(x)
    if torch is not None:
        lengths = torch.as_tensor(lengths, device=x.device)
        if lengths.dtype.is_floating_point or lengths.dim() != 1:
            raise ValueError(f"lengths have dtype {lengths.dtype} and {lengths.dim()} dimensions; they must be whole numbers in one dimension")
        return torch.nn.functional.pad(lengths.to(torch.int64).cumsum(0), (1, 0))
    import numpy
    lengths = numpy.asarray(lengths)
    if lengths.dtype.kind not in "iu" or lengths.ndim != 1:
        raise ValueError(f"lengths have dtype {lengths.dtype} and {lengths.ndim} dimensions; they must be whole numbers in one dimension")
    made = numpy.zeros(len(lengths) + 1, numpy.int64)
    numpy.cumsum(lengths, out=made[1:])
    return made


def _from_reset(x, reset, n, folds):
    """A scan's may be as many as there are elements, the last ones empty: so nobody has to wait for a device to count them."""
    torch = _torch_of(x)
    if torch is None:
        import numpy
        reset = numpy.asarray(reset)
    if tuple(reset.shape) != (n,):
        raise ValueError(f"reset has shape {tuple(reset.shape)}; the axis has {n} elements, and each must be marked or not")
    if torch is None:
        begins = numpy.flatnonzero(reset[1:]) + 1
        return numpy.concatenate([[0], begins, [n]] if n else [[0]]).astype(numpy.int64)
    reset = reset.to(device=x.device, dtype=torch.bool)
    if not n:
        return torch.zeros(1, dtype=torch.int64, device=x.device)
    if folds:
        begins = reset[1:].nonzero().flatten() + 1
        return torch.cat([begins.new_zeros(1), begins, begins.new_full((1,), n)])
    first = torch.arange(n, device=x.device)
    reset = reset | (first == 0)
    place = torch.where(reset, reset.cumsum(0) - 1, n + 1)  # the others go where nobody looks
    made = torch.full((n + 2,), n, dtype=torch.int64, device=x.device)
    return made.scatter_(0, place, first)[:n + 1]


def offsets(x, axis, offsets, lengths, reset, folds=False):
    """The offsets that a caller means by one of the three."""
    given = [name for name, value in (("offsets", offsets), ("lengths", lengths), ("reset", reset)) if value is not None]
    if len(given) > 1:
        raise TypeError(f"{' and '.join(given)} say the same: give one of them")
    if lengths is not None:
        return _from_lengths(x, lengths)
    if reset is not None:
        return _from_reset(x, reset, x.shape[_one_axis(x, axis)], folds)
    torch = _torch_of(x)
    if torch is not None and not isinstance(offsets, torch.Tensor):
        return torch.as_tensor(offsets, device=x.device)
    if torch is None and isinstance(offsets, (list, tuple)):
        import numpy
        return numpy.asarray(offsets, numpy.int64)
    return offsets


# ---------------------------------------------------------------------------------------------------------------
# What is made of scans and folds, and recurrences: lines of the notation
# ---------------------------------------------------------------------------------------------------------------
def _short(dtype):
    from ._derived import short
    from ._dtypes import name
    return short(name(dtype))


def _computed(text, inputs, out, by_torch):
    expression, given = _package._parsed(text, True, inputs)
    if out is not None:
        return _scanfold.expression_call(expression, given, out)
    result = _scanfold.expression_try(expression, given, 0)
    return by_torch() if type(result) is int else result


def derived(name, x, axis, mask, dtype, out, given, lengths, reset, folds=False):
    """softmax, log_softmax or mean of each segment."""
    at = offsets(x, axis, given, lengths, reset, folds)
    axis = _one_axis(x, axis)
    if _torch_of(x) is None and dtype is None and x.dtype.kind in "iub":
        dtype = "float64"
    inputs = {"x": x, "offsets": at}
    if mask is not None:
        inputs["mask"] = mask
    text = f"{name}(x, {axis}, offsets=offsets{'' if mask is None else ', mask=mask'}{'' if dtype is None else f', dtype={_short(dtype)}'})"

    def by_torch():
        from . import _torch_segments
        return _torch_segments.derived(name, x, axis, mask, dtype, at)
    return _computed(text, inputs, out, by_torch)


def recurrence(a, b, axis, reverse, exclusive, initial, dtype, out, given, lengths, reset):
    at = offsets(b, axis, given, lengths, reset)
    if initial is not None and not isinstance(initial, (int, float)):
        raise TypeError(f"initial is {type(initial)}: beside segments a number is expected")
    number = isinstance(a, (int, float))
    inputs = {"b": b, "offsets": at} if number else {"a": a, "b": b, "offsets": at}
    options = "".join(f", {name}=True" for name, value in (("reverse", reverse), ("exclusive", exclusive)) if value)
    options += "" if initial is None else f", initial={float(initial)!r}"
    options += "" if dtype is None else f", dtype={_short(dtype)}"

    def by_torch():
        raise NotImplementedError("the gradient of a segmented linear_recurrence is not there yet; give tensors that need none")
    return _computed(f"linear_recurrence({float(a)!r} , b, {axis}, offsets=offsets{options})" if number else
                     f"linear_recurrence(a, b, {axis}, offsets=offsets{options})", inputs, out, by_torch)
