"""Segments: where sequences of different lengths, back to back along an axis, begin and end.

Callers give offsets, lengths, or a mask of the first elements (reset). All become offsets: for k
segments k + 1 integers, where each segment begins and the last one ends. They are computed on the
array's own device.
"""
import sys as _sys

_package = _sys.modules["scanfold"]


def _one_axis(x, axis):
    """The axis that is cut into segments, counted from 0."""
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
    """Offsets from reset.

    For a scan of a torch tensor there are as many segments as elements, with empty ones at the end,
    so that no one has to wait for the device to count them."""
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
    place = torch.where(reset, reset.cumsum(0) - 1, n + 1)  # place n + 1 is cut off below
    made = torch.full((n + 2,), n, dtype=torch.int64, device=x.device)
    return made.scatter_(0, place, first)[:n + 1]


def offsets(x, axis, offsets, lengths, reset, folds=False):
    """The offsets, made from whichever of the three is given; None if none is."""
    if offsets is None and lengths is None and reset is None:
        return None
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


def check_states(state, k, shape, axis):
    """Checks that a recurrence with k segments has one initial state for each segment. Returns the
    shape of the states, with as many dimensions as `shape`."""
    expected = shape[:axis] + (k,) + shape[axis + 1:]
    if not hasattr(state, "reshape"):
        raise TypeError(f"initial is {type(state)}: a number, or an array of one state a segment, is expected")
    own = (1,) * (len(shape) - len(state.shape)) + tuple(state.shape)
    if len(own) != len(shape) or any(m != e and m != 1 for m, e in zip(own, expected)):
        raise ValueError(f"initial has shape {tuple(state.shape)}; beside segments it must be a number, or broadcastable to {expected}, one state a segment")
    return own


def states(space, state, offsets, shape, axis, reverse):
    """(h, first) of a recurrence: the initial state of its segment for each element, and a mask
    that is True where a segment begins. This is for NumPy arrays. The library has not checked the
    offsets yet, so they may be out of range."""
    k, n = len(offsets) - 1, shape[axis]
    own = check_states(state, k, shape, axis)
    h = state.reshape(own)
    if own[axis] == 1:
        h = space.broadcast_to(h, own[:axis] + (k,) + own[axis + 1:])
    # The segment of each element; k after the last segment.
    of = space.searchsorted(offsets[1:], space.arange(n), side="right")
    none = space.zeros(own[:axis] + (1,) + own[axis + 1:], h.dtype)
    h = space.take(space.concatenate([h, none], axis), of, axis)
    full = offsets[:-1] < offsets[1:]
    at = (offsets[1:] - 1 if reverse else offsets[:-1])[full]
    first = space.zeros(n, bool)
    first[at[(at >= 0) & (at < n)]] = True
    return h, first.reshape((n,) + (1,) * (len(shape) - 1 - axis))
