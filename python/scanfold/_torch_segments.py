"""Segments for tensors that need torch's dispatcher: the operators scanfold::segment_scan,
segment_fold, segment_made (softmax, mean etc.), segment_recurrence and segment_spread.

Each gradient is composed of these operators and of torch's own, so that it can be differentiated
again. No formula waits for a device.
"""
import math

import torch
from torch import Tensor

from . import _applied, _derived, _parsed
from . import torch as ops
from ._dtypes import name as dtype_name
from ._pairs import recurrence_dtypes, recurrence_text
from ._torch_applied import Tensors, _gradients, _of_rank, _wide
from ._torch_derived import _made as _made_dtype, _norm_backward
from ._torch_pairs import _as_tensor, _check_recurrence

ops._define("segment_scan(Tensor x, str op, Tensor offsets, int axis, bool reverse, bool exclusive, Tensor? mask, Scalar? initial, ScalarType? dtype) "
            "-> Tensor")
ops._define("segment_fold(Tensor x, str op, Tensor offsets, int axis, bool reverse, Tensor? mask, Scalar? initial, ScalarType? dtype) -> Tensor")
ops._define("segment_made(Tensor x, str name, Tensor offsets, int axis, float parameter, float eps, Tensor? mask, Tensor? weight, Tensor? bias, "
            "ScalarType? dtype) -> Tensor")
ops._define("segment_recurrence(Tensor a, Tensor b, Tensor offsets, Tensor? state, Scalar? initial, int axis, bool reverse, bool exclusive, "
            "ScalarType? dtype) -> Tensor")
ops._define("segment_spread(Tensor values, Tensor offsets, int axis, SymInt length, float rest) -> Tensor")


FOLDS = "mean", "var", "std", "nanvar", "nanstd", "sumsq", "norm"
MADE = (*_applied.__all__, *FOLDS)


# ---------------------------------------------------------------------------------------------------------------
# What other modules call
# ---------------------------------------------------------------------------------------------------------------
def scan(x, op, axis, reverse, exclusive, mask, initial, dtype, out, skip_nan, offsets):
    """scanfold.torch.scan with segments."""
    ops._refuse_nested(x=x, mask=mask, out=out)
    axis, mask = ops._scan_axis(x, axis), ops._mask(x, mask, skip_nan)
    if isinstance(initial, Tensor):
        return ops._from_initial(_with(ops._c_scan, offsets), x, op, (axis, reverse, exclusive, mask), initial, dtype, out)
    y = torch.ops.scanfold.segment_scan(x, ops.OPS[op], offsets, axis, bool(reverse), bool(exclusive), mask, ops._number(initial), ops._dtype(dtype, out))
    return y if out is None else ops._copied(out, y)


def fold(x, op, axis, reverse, mask, initial, dtype, out, skip_nan, offsets):
    """scanfold.torch.fold with segments."""
    ops._refuse_nested(x=x, mask=mask, out=out)
    axes, mask = ops._fold_axes(x, axis), ops._mask(x, mask, skip_nan)
    if len(axes) != 1:
        raise ValueError(f"offsets cut one axis into segments, but {len(axes)} are named; name one")
    if isinstance(initial, Tensor):
        return ops._from_initial(_with(ops._c_fold, offsets), x, op, (axes, True, reverse, mask), initial, dtype, out)
    y = torch.ops.scanfold.segment_fold(x, ops.OPS[op], offsets, axes[0], bool(reverse), mask, ops._number(initial), ops._dtype(dtype, out))
    return y if out is None else ops._copied(out, y)


def _with(run, offsets):
    return lambda *given: run(*given, offsets)


def made(name, x, axis, parameter, eps, mask, weight, bias, dtype, out, offsets):
    """softmax, mean etc. of each segment."""
    ops._refuse_nested(x=x, mask=mask, weight=weight, bias=bias, out=out)
    if name not in MADE:
        raise NotImplementedError(f"{name} with segments has no gradient yet and cannot be traced; of {', '.join(MADE)} it can")
    axis, = ops._fold_axes(x, axis)
    dtype = ops._dtype(dtype, out)
    if eps is None:
        eps = torch.finfo(_made_dtype(name, x, dtype)).eps if name == "rms_norm" else 0.0
    # The defaults are those of torch: order 2, correction 1.
    parameter = float(parameter if parameter is not None else 2 if name == "norm" else 1)
    weight, bias = (_of_rank(word, beside, x, [axis]) for word, beside in (("weight", weight), ("bias", bias)))
    y = torch.ops.scanfold.segment_made(x, name, offsets, axis, parameter, float(eps), ops._mask(x, mask), weight, bias, dtype)
    return y if out is None else ops._copied(out, y)


def extreme(x, op, axis, scans, reverse, exclusive, mask, offsets):
    """Values and indices. The values are gathered from x by the indices, which gives them their
    gradient."""
    ops._refuse_nested(x=x, mask=mask)
    axis, = ops._fold_axes(x, axis)
    mask, n = ops._mask(x, mask), x.shape[axis]
    if scans:
        values = _scan(x.detach(), op, offsets, axis, reverse, exclusive, mask)
        indices = _scan(x.detach(), "last_arg" + op, offsets, axis, reverse, exclusive, mask)
    else:
        values = _fold(x.detach(), op, offsets, axis, False, mask)
        indices = _fold(x.detach(), "arg" + op, offsets, axis, False, mask)
    begins = offsets[:-1].to(torch.int64)
    if scans:  # the elements after the last offset are one more segment
        begins = spread(offsets.to(torch.int64), torch.cat([offsets, offsets.new_full((1,), n)]), 0, n)
    if ops._is_empty(x.shape):
        return values, indices
    places = (begins.reshape((-1,) + (1,) * (x.dim() - 1 - axis)) + indices).clamp(0, n - 1)
    return torch.where(indices < 0, values, x.gather(axis, places)), indices


def recurrence(a, b, axis, reverse, exclusive, initial, dtype, out, offsets):
    ops._refuse_nested(a=a, b=b, initial=initial, out=out)
    a = a if isinstance(a, Tensor) else _as_tensor(a, b, wide=True)
    axis, state = ops._axis(max(a.dim(), b.dim()), axis), None
    if initial is not None and not isinstance(initial, (int, float)):
        initial, state = None, torch.as_tensor(initial, device=b.device)
    y = torch.ops.scanfold.segment_recurrence(a, b, offsets, state, initial, axis, bool(reverse), bool(exclusive), ops._dtype(dtype, out))
    return y if out is None else ops._copied(out, y)


# The formulas below use these. Plain tensors go directly to the library.
def _scan(x, op, offsets, axis, reverse=False, exclusive=False, mask=None, initial=None, dtype=None):
    return ops._c_scan(x, ops.OPS.index(op), axis, reverse, exclusive, mask, initial, dtype, None, False, False, offsets)


def _fold(x, op, offsets, axis, reverse=False, mask=None, initial=None, dtype=None):
    return ops._c_fold(x, ops.OPS.index(op), axis, True, reverse, mask, initial, dtype, None, False, False, offsets)


def spread(values, offsets, axis, length, rest=0.0):
    """The value of each segment for each of its elements, and `rest` after the last offset."""
    return torch.ops.scanfold.segment_spread(values, offsets, axis, length, rest)


def _recur(a, b, offsets, axis, reverse, exclusive, state=None, initial=None, dtype=None):
    return torch.ops.scanfold.segment_recurrence(a, b, offsets, state, initial, axis, reverse, exclusive, dtype)


def _adjoint(a, g, offsets, axis, reverse, exclusive):
    """v[i] = g[i] + a[i+1] v[i+1], or g[i+1] + a[i+1] v[i+1] for an exclusive function; in the
    opposite direction of the function.

    As in _torch_pairs.py, an exclusive recurrence shifts its results itself, within each
    segment."""
    if exclusive:
        return _recur(a, g, offsets, axis, not reverse, True)
    return g + _recur(a, a * g, offsets, axis, not reverse, True)


def _begins(offsets, length, reverse, like, axis):
    """True at the first element of each segment (at the last one if reverse), in a shape that
    broadcasts. Invalid offsets are clamped, so that nothing is accessed out of bounds."""
    at = offsets.to(torch.int64)
    begin, end = at[:-1], at[1:]
    at = torch.where(begin < end, end - 1 if reverse else begin, length).clamp(0, length)
    marks = torch.zeros(length + 1, dtype=torch.bool, device=like.device).scatter(0, at, True)
    return marks.narrow(0, 0, length).reshape((length,) + (1,) * (like.dim() - 1 - axis))


# ---------------------------------------------------------------------------------------------------------------
# Kernels and fakes
# ---------------------------------------------------------------------------------------------------------------
def _check(x, offsets, **others):
    ops._on_one_device(x, offsets=offsets, **others)
    if offsets.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"offsets are {offsets.dtype}; they must be int32 or int64")
    if offsets.dim() != 1 or ops._is_empty(offsets.shape):
        raise ValueError(f"offsets have shape {tuple(offsets.shape)}; they must have one dimension, and one element more than there are segments")


def _folded_shape(x, offsets, axis):
    return x.shape[:axis] + (offsets.shape[0] - 1,) + x.shape[axis + 1:]


def _scan_kernel(x, op, offsets, axis, reverse, exclusive, mask, initial, dtype):
    return ops._c_scan(x, ops.OPS.index(op), axis, reverse, exclusive, mask, initial, dtype, None, True, False, offsets)


def _scan_fake(x, op, offsets, axis, reverse, exclusive, mask, initial, dtype):
    _check(x, offsets)
    return torch.empty_like(x, dtype=ops._fake_dtype(x, op, mask, initial, dtype))


def _fold_kernel(x, op, offsets, axis, reverse, mask, initial, dtype):
    return ops._c_fold(x, ops.OPS.index(op), axis, True, reverse, mask, initial, dtype, None, True, False, offsets)


def _fold_fake(x, op, offsets, axis, reverse, mask, initial, dtype):
    _check(x, offsets)
    return x.new_empty(_folded_shape(x, offsets, axis), dtype=ops._fake_dtype(x, op, mask, initial, dtype))


def _made_kernel(x, name, offsets, axis, parameter, eps, mask, weight, bias, dtype):
    given = (("x", x), ("mask", mask), ("weight", weight), ("bias", bias), ("offsets", offsets))
    inputs = {word: tensor for word, tensor in given if tensor is not None}
    made = dtype_name(_made_dtype(name, x, dtype))
    if name in FOLDS:
        text = _derived.text(name, [axis], False, parameter, mask is not None, False, made, segmented=True)
    else:
        text = _applied.text(name, [axis], parameter, eps if name in ("layer_norm", "rms_norm", "normalize") else None, made, list(inputs)[1:])
    return ops._c_run(*_parsed(text, True, inputs), 0)


def _made_fake(x, name, offsets, axis, parameter, eps, mask, weight, bias, dtype):
    _check(x, offsets, mask=mask, weight=weight, bias=bias)
    if mask is not None:
        ops._check_mask(x, mask)
    return x.new_empty(_folded_shape(x, offsets, axis) if name in FOLDS else x.shape, dtype=_made_dtype(name, x, dtype))


def _check_state(state, shape, offsets, axis):
    """Checks that there is an initial state for each segment: one that broadcasts to the shape of a
    fold's result."""
    expected = shape[:axis] + (offsets.shape[0] - 1,) + shape[axis + 1:]
    own = (1,) * (len(shape) - state.dim()) + tuple(state.shape)
    if len(own) != len(shape) or any(ops._differ(m, n) and ops._differ(m, 1) for m, n in zip(own, expected)):
        raise ValueError(f"initial has shape {tuple(state.shape)}; beside segments it must be a number, or broadcastable to {tuple(expected)}, one state a "
                         f"segment")
    return state.reshape(own).expand(own[:axis] + (expected[axis],) + own[axis + 1:])


def _recurrence_kernel(a, b, offsets, state, initial, axis, reverse, exclusive, dtype):
    shape, made = _check_recurrence(a, b, None, axis, dtype)
    _, wide = recurrence_dtypes([dtype_name(t.dtype) for t in (a, b)], dtype_name(made), None)
    inputs = {"a": a, "b": b, "offsets": offsets}
    if state is not None:
        like = b if b.dim() == len(shape) else a
        inputs["h"] = spread(_check_state(state, shape, offsets, axis), offsets, axis, shape[axis])
        inputs["first"] = _begins(offsets, shape[axis], reverse, like, axis)
    text = recurrence_text(None, axis, reverse, exclusive, initial if state is None else "state", dtype_name(made), wide, True)
    return ops._c_run(*_parsed(text, True, inputs), 0)


def _recurrence_fake(a, b, offsets, state, initial, axis, reverse, exclusive, dtype):
    _check(b, offsets, a=a, initial=state)
    shape, made = _check_recurrence(a, b, None, axis, dtype)
    if state is not None:
        _check_state(state, shape, offsets, axis)
    return b.new_empty(shape, dtype=made)


def _spread_kernel(values, offsets, axis, length, rest):
    shape = list(values.shape)
    shape[axis] = 1
    values = torch.cat([values, values.new_full(shape, rest)], axis)
    if values.device.type == "cpu":  # where the offsets have been checked
        lengths = torch.cat([offsets.to(torch.int64), offsets.new_full((1,), length, dtype=torch.int64)]).diff()
        return values.repeat_interleave(lengths, dim=axis, output_size=length)
    places = torch.arange(length, device=values.device, dtype=offsets.dtype)
    return values.index_select(axis, torch.searchsorted(offsets[1:].contiguous(), places, right=True))


def _spread_fake(values, offsets, axis, length, rest):
    _check(values, offsets)
    return values.new_empty(values.shape[:axis] + (length,) + values.shape[axis + 1:])


# ---------------------------------------------------------------------------------------------------------------
# Autograd
# ---------------------------------------------------------------------------------------------------------------
def _scan_setup(ctx, inputs, output):
    x, ctx.op, offsets, ctx.axis, ctx.reverse, ctx.exclusive, mask, ctx.initial, _ = inputs
    if ctx.op in ops.INDICES:
        ctx.mark_non_differentiable(output)
    ctx.save_for_backward(None if ctx.op == "sum" else x, mask, output if ctx.op == "logsumexp" else None, offsets)
    ctx.save_for_forward(None, mask, None, offsets)
    ctx.dtype, ctx.made = x.dtype, output.dtype


def _scan_jvp(ctx, dx, *_):
    if ctx.op in ops.INDICES:
        return None
    ops._only_sums(ctx)
    _, mask, _, offsets = ctx.saved_tensors
    return _scan(dx, "sum", offsets, ctx.axis, ctx.reverse, ctx.exclusive, mask, None, ctx.made)


def _scan_backward(ctx, grad):
    x, mask, y, offsets = ctx.saved_tensors
    axis, reverse = ctx.axis, ctx.reverse
    if ctx.op == "sum":
        dx = _scan(grad, "sum", offsets, axis, not reverse, ctx.exclusive)
    elif ctx.op == "prod":
        # The product before an element times the sum over what follows. There is no division, so
        # zeros need no special case.
        kept = ops._selected(mask, x, 1).to(grad.dtype)
        dx = _scan(kept, "prod", offsets, axis, reverse, True) * _adjoint(kept, grad, offsets, axis, reverse, ctx.exclusive)
        dx = dx if ctx.initial is None else dx * ctx.initial
    elif ctx.op == "logsumexp":
        dx = _exponentials_backward(ctx, x.to(grad.dtype), y, offsets, grad)
    else:
        dx = _extreme_backward(ctx, x.detach(), mask, offsets, grad)
    return (ops._selected(mask, dx.to(ctx.dtype), 0),) + (None,) * 8


def _exponentials_backward(ctx, x, y, offsets, grad):
    """As without segments (scanfold.torch): by logarithms, for the positive and for the negative
    part of grad."""
    nothing = y == -math.inf

    def part(g):
        logs = torch.where(nothing, -math.inf, ops._logarithm(g) - torch.where(nothing, 0, y))
        return (_scan(logs, "logsumexp", offsets, ctx.axis, not ctx.reverse, ctx.exclusive) + x).exp()
    return part(grad) - part(-grad)


def _extreme_backward(ctx, values, mask, offsets, grad):
    """The gradient of each result goes to the element it came from; among equal elements to the
    last one. That is the last element so far that was the extreme at its own position."""
    n, axis = values.shape[ctx.axis], ctx.axis
    best = _scan(values, ctx.op, offsets, axis, ctx.reverse, False, mask, ctx.initial)
    came = (values == best) | (values.isnan() & best.isnan())
    if mask is not None:
        came = came & mask.bool()
    place = torch.arange(n, device=values.device).reshape((n,) + (1,) * (values.dim() - 1 - axis))
    place = torch.where(came, n - 1 - place if ctx.reverse else place, -1)
    place = _scan(place, "max", offsets, axis, ctx.reverse, ctx.exclusive)
    grad = torch.where(place < 0, torch.zeros((), dtype=grad.dtype, device=grad.device), grad)
    place = place.clamp(min=0)
    return torch.zeros_like(grad).scatter_add(axis, n - 1 - place if ctx.reverse else place, grad)


def _fold_setup(ctx, inputs, output):
    x, ctx.op, offsets, ctx.axis, ctx.reverse, mask, ctx.initial, _ = inputs
    if ctx.op in ops.INDICES:
        ctx.mark_non_differentiable(output)
    ctx.save_for_backward(None if ctx.op == "sum" else x, mask, output if ctx.op in ("max", "min", "logsumexp") else None, offsets)
    ctx.save_for_forward(None, mask, None, offsets)
    ctx.dtype, ctx.made, ctx.length = x.dtype, output.dtype, x.shape[ctx.axis]


def _fold_jvp(ctx, dx, *_):
    if ctx.op in ops.INDICES:
        return None
    ops._only_sums(ctx)
    _, mask, _, offsets = ctx.saved_tensors
    return _fold(dx, "sum", offsets, ctx.axis, ctx.reverse, mask, None, ctx.made)


def _fold_backward(ctx, grad):
    x, mask, y, offsets = ctx.saved_tensors
    axis, n = ctx.axis, ctx.length
    g = spread(grad, offsets, axis, n)
    if ctx.op == "sum":
        dx = g
    elif ctx.op == "prod":
        kept = ops._selected(mask, x, 1).to(grad.dtype)
        dx = g * _scan(kept, "prod", offsets, axis, False, True) * _scan(kept, "prod", offsets, axis, True, True)
        dx = dx if ctx.initial is None else dx * ctx.initial
    elif ctx.op == "logsumexp":  # after the last offset the share is exp(x - inf) = 0
        dx = g * (x.to(grad.dtype) - spread(torch.where(y == -math.inf, 0, y), offsets, axis, n, math.inf)).exp()
    else:
        # Equal elements share the gradient, as in torch.amax. Where the result is NaN, so is every
        # gradient.
        best = spread(y.detach(), offsets, axis, n)
        came = (x == best) | best.isnan()
        came = came if mask is None else came & mask.bool()
        share = _fold(came, "sum", offsets, axis).clamp(min=1).to(grad.dtype).masked_fill(y.isnan(), math.nan)
        dx = torch.where(came, g / spread(share, offsets, axis, n, 1.0), torch.zeros((), dtype=g.dtype, device=g.device))
    return (ops._selected(mask, dx.to(ctx.dtype), 0),) + (None,) * 7


class Segments(Tensors):
    """The functions of _torch_applied.Tensors, where the result of a fold is spread over the
    elements of its own segment.

    Elements after the last offset have no gradient. There sums are 1 and counts are `many`, so that
    no formula divides by 0."""

    def __init__(self, offsets, axis, mask, like, wide, many):
        super().__init__([axis], mask, like, wide)
        self.offsets, self.axis, self.n, self.many = offsets, axis, like.shape[axis], many

    def back(self, v, rest=1.0):
        return spread(v, self.offsets, self.axis, self.n, rest)

    def sum(self, v, axes=None):
        return self.back(_fold(v, "sum", self.offsets, self.axis, mask=self.mask)) if axes is None else super().sum(v, axes)

    def count(self):
        if self.mask is not None:
            count = _fold(self.mask.bool().expand(self.like.shape), "sum", self.offsets, self.axis)
        else:
            count = self.offsets.diff().reshape((-1,) + (1,) * (self.like.dim() - 1 - self.axis))
        return self.back(count.to(self.wide), self.many)

    def within(self, v):
        """v, with 0 after the last offset: results there are not used and have no gradient."""
        inside = torch.arange(self.n, device=v.device) < self.offsets[-1]
        return ops._selected(inside.reshape((self.n,) + (1,) * (self.like.dim() - 1 - self.axis)), v, 0)


def _made_setup(ctx, inputs, output):
    x, name, offsets, ctx.axis, ctx.parameter, ctx.eps, mask, weight, bias, _ = inputs
    ctx.name = name.removeprefix("nan")
    by_result = ctx.name in ("softmax", "log_softmax")
    ctx.save_for_backward(None if by_result else x, output if by_result or ctx.name in ("std", "norm") else None, mask, weight, offsets)
    ctx.over = tuple(tuple(d for d in range(x.dim()) if t is None or t.shape[d] == 1) for t in (weight, bias))
    ctx.dtypes = [t if t is None else t.dtype for t in (x, weight, bias)]


def _made_backward(ctx, g):
    x, y, mask, weight, offsets = ctx.saved_tensors
    if ctx.name == "normalize" and ctx.parameter != 2:
        raise NotImplementedError("the gradient of normalize with segments is there for order 2")
    wide = _wide(g, x, y, weight)
    way = Segments(offsets, ctx.axis, mask, y if x is None else x, wide, ctx.parameter + 1)
    x, y, weight, g = (t if t is None else t.to(wide) for t in (x, y, weight, g))
    wanted = tuple(ctx.needs_input_grad[i] for i in (0, 7, 8))
    if ctx.name in FOLDS:
        made = [_folded_backward(ctx, way, x, y, g)]
    else:
        y = y if y is None else way.within(y)
        made = _gradients(way, ctx.name, wanted, way.within(g), x, y, weight, ctx.parameter, ctx.eps, ctx.over)
        made = [way.within(v) if not i and wanted[0] else v for i, v in enumerate(made)]
    made = iter([v.to(dtype) for v, dtype in zip(made, [d for d, one in zip(ctx.dtypes, wanted) if one])])
    dx, dweight, dbias = (next(made) if one else None for one in wanted)
    return dx, None, None, None, None, None, None, dweight, dbias, None


def _folded_backward(ctx, way, x, y, g):
    if ctx.name == "std":
        g = (g / (2 * y)).masked_fill(y == 0, 0)
    back = way.back(g, 0.0)
    if ctx.name == "mean":
        dx = back / way.count().clamp(min=1)
    elif ctx.name == "sumsq":
        dx = 2 * back * x
    elif ctx.name == "norm":
        if math.isinf(ctx.parameter):
            raise NotImplementedError("the gradient of a largest or smallest norm is not there with segments: use max(abs(x))")
        dx = _norm_backward(x, way.back(y), back, ctx.parameter, [ctx.axis], way.mask)
    else:
        dx = 2 * back / (way.count() - ctx.parameter).clamp(min=0) * (x - way.sum(x) / way.count().clamp(min=1))
    return way.kept(dx)


def _no_jvp(ctx, *_):
    raise NotImplementedError("forward-mode differentiation of this function is not there with segments, of sums only: use reverse mode (grad, vjp, jacrev)")


def _recurrence_setup(ctx, inputs, output):
    a, b, offsets, state, ctx.initial, ctx.axis, ctx.reverse, ctx.exclusive, _ = inputs
    ctx.save_for_backward(a, b, offsets, state, output if ctx.exclusive else None)


def _recurrence_backward(ctx, grad):
    """The gradient of b is v (_adjoint), and that of a is v times the state before the element.
    That of an initial state comes from the first element of its segment."""
    a, b, offsets, state, y = ctx.saved_tensors
    axis, reverse, wants = ctx.axis, ctx.reverse, ctx.needs_input_grad
    wide = torch.float64 if torch.float64 in (grad.dtype, a.dtype) else torch.float32
    gate, grad = a.to(wide), grad.to(wide)
    v = _adjoint(gate.expand(grad.shape), grad, offsets, axis, reverse, ctx.exclusive)
    da = db = dstate = None
    if wants[0]:
        before = y if ctx.exclusive else _recur(a, b, offsets, axis, reverse, True, state, ctx.initial, wide)
        da = (v * before.to(wide)).sum_to_size(a.shape).to(a.dtype)
    if wants[1]:
        db = v.sum_to_size(b.shape).to(b.dtype)
    if wants[3]:
        first = gate * v + grad if ctx.exclusive else gate * v
        first = torch.where(_begins(offsets, grad.shape[axis], reverse, grad, axis), first, torch.zeros((), dtype=wide, device=grad.device))
        dstate = _fold(first, "sum", offsets, axis).sum_to_size(state.shape).to(state.dtype)
    return (da, db, None, dstate) + (None,) * 5


def _spread_setup(ctx, inputs, output):
    _, offsets, ctx.axis, ctx.length, _ = inputs
    ctx.save_for_backward(offsets)
    ctx.save_for_forward(offsets)


def _spread_backward(ctx, grad):
    return (_fold(grad, "sum", *ctx.saved_tensors, ctx.axis),) + (None,) * 4


def _spread_jvp(ctx, dvalues, *_):
    return spread(dvalues, *ctx.saved_tensors, ctx.axis, ctx.length)


# ---------------------------------------------------------------------------------------------------------------
# vmap: the mapped dimension becomes the first; all samples have the same offsets
# ---------------------------------------------------------------------------------------------------------------
def _refuse_mapped(offsets_dim):
    if offsets_dim is not None:
        raise NotImplementedError("offsets are mapped: segments must be the same for all")


def _vmap(op_name, mask_at):
    def rule(size, in_dims, *args):
        args = list(args)
        _refuse_mapped(in_dims[2])
        args[0], args[mask_at], _ = ops._mapped(size, (in_dims[0], in_dims[mask_at]), args[0], args[mask_at])
        args[3] += 1
        return getattr(torch.ops.scanfold, op_name)(*args), 0
    return rule


def _made_vmap(size, in_dims, x, name, offsets, axis, parameter, eps, mask, weight, bias, dtype):
    _refuse_mapped(in_dims[2])
    x, mask, dims = ops._mapped(size, (in_dims[0], in_dims[6]), x, mask)
    weight, bias = (t if t is None else ops._batched(t, d, size, dims) for t, d in ((weight, in_dims[7]), (bias, in_dims[8])))
    if x.dim() == dims:  # expanded even if not mapped: each sample needs its own gradient
        x = x.expand(size, *x.shape)
    return torch.ops.scanfold.segment_made(x, name, offsets, axis + 1, parameter, eps, mask, weight, bias, dtype), 0


def _recurrence_vmap(size, in_dims, a, b, offsets, state, initial, axis, reverse, exclusive, dtype):
    ad, bd, od, sd = in_dims[:4]
    _refuse_mapped(od)
    dims = max(a.dim() - (ad is not None), b.dim() - (bd is not None))
    a = a if ad is None else ops._batched(a, ad, size, dims)
    b = ops._batched(b, bd, size, dims)
    state = state if state is None or sd is None else ops._batched(state, sd, size, dims)
    return _recur(a, b, offsets, axis + 1, reverse, exclusive, state, initial, dtype), 0


def _spread_vmap(size, in_dims, values, offsets, axis, length, rest):
    _refuse_mapped(in_dims[1])
    return spread(values.movedim(in_dims[0], 0), offsets, axis + 1, length, rest), 0


ops._register("segment_scan", _scan_kernel, _scan_fake, _scan_setup, _scan_backward, _scan_jvp, _vmap("segment_scan", 6))
ops._register("segment_fold", _fold_kernel, _fold_fake, _fold_setup, _fold_backward, _fold_jvp, _vmap("segment_fold", 5))
ops._register("segment_made", _made_kernel, _made_fake, _made_setup, _made_backward, _no_jvp, _made_vmap)
ops._register("segment_recurrence", _recurrence_kernel, _recurrence_fake, _recurrence_setup, _recurrence_backward, _no_jvp, _recurrence_vmap)
ops._register("segment_spread", _spread_kernel, _spread_fake, _spread_setup, _spread_backward, _spread_jvp, _spread_vmap, autocasts=False)
