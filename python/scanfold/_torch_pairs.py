"""The torch part of _pairs.py: the operators scanfold::extreme, which gives values and indices, and
scanfold::linear_recurrence.

Their gradients are composed of these operators and of torch's own, so that they can be
differentiated again.
"""
import functools
import math

import torch
from torch import Tensor

from . import _axis, _parsed
from . import torch as ops
from ._dtypes import name
from ._pairs import NAMES, extreme_text, recurrence_dtypes, recurrence_text

ops._define("extreme(Tensor x, str op, int? axis, bool scans, bool keepdim, bool reverse, bool exclusive, Tensor? mask) "
            "-> (Tensor values, Tensor indices)")
ops._define("linear_recurrence(Tensor a, Tensor b, Tensor? state, Scalar? initial, int axis, bool reverse, bool exclusive, ScalarType? dtype) "
            "-> Tensor")
_NUMBERS = {found: number for number, found in NAMES.items()}


# --------------------------------------------------------------------------------------------------
# What _pairs.py calls
# --------------------------------------------------------------------------------------------------
def extreme(x, op, axis, scans, keepdim, reverse, exclusive, mask, offsets=None):
    if offsets is not None:
        return ops._torch_segments.extreme(x, op, axis, scans, reverse, exclusive, mask, offsets)
    if ops._is_foreign(x) or ops._is_foreign(mask):
        function, given = ("cum" + op, {"reverse": reverse, "exclusive": exclusive}) if scans else (op, {"keepdim": keepdim})
        return ops._handed_over(function, x, axis=axis, mask=mask, return_indices=True, **given)
    ops._refuse_nested(x=x, mask=mask)
    if scans:
        axis = ops._scan_axis(x, axis)
    elif axis is not None:
        axis = _axis(x.dim(), axis)
    return tuple(torch.ops.scanfold.extreme(x, op, axis, scans, keepdim, reverse, exclusive, ops._mask(x, mask)))


def linear_recurrence(a, b, axis, reverse, exclusive, initial, dtype, out, offsets=None):
    if offsets is not None:
        return ops._torch_segments.recurrence(a, b, axis, reverse, exclusive, initial, dtype, out, offsets)
    if any(map(ops._is_foreign, (a, b, initial))):
        return ops._handed_over("linear_recurrence", a, b=b, axis=axis, reverse=reverse, exclusive=exclusive, initial=initial, dtype=dtype, out=out)
    like = b if isinstance(b, Tensor) else a
    a, b = (t if isinstance(t, Tensor) else _as_tensor(t, like, wide=t is a) for t in (a, b))
    ops._refuse_nested(a=a, b=b, initial=initial)
    state = None
    if initial is not None and not isinstance(initial, (int, float)):
        initial, state = None, initial if isinstance(initial, Tensor) else torch.as_tensor(initial, device=like.device)
    axis = _axis(max(a.dim(), b.dim()), axis)
    y = torch.ops.scanfold.linear_recurrence(a, b, state, initial, axis, bool(reverse), bool(exclusive), ops._dtype(dtype, out))
    return y if out is None else ops._copied(out, y)


def _as_tensor(value, like, wide):
    """A number as a tensor of no dimensions, which does not affect the result's dtype. It is at
    least float32, so that it keeps its digits beside a float16 or bfloat16 tensor."""
    if not isinstance(value, (int, float)):
        return torch.as_tensor(value, device=like.device)
    return torch.full((), value, dtype=torch.float64 if like.dtype is torch.float64 else torch.float32, device=like.device)


# --------------------------------------------------------------------------------------------------
# Values and indices
# --------------------------------------------------------------------------------------------------
def _extreme_kernel(x, op, axis, scans, keepdim, reverse, exclusive, mask):
    inputs = {"x": x} if mask is None else {"x": x, "mask": mask}
    expression, given = _parsed(extreme_text(_NUMBERS[op], axis, scans, keepdim, reverse, exclusive, mask is not None), True, inputs)
    values, indices = ops._c_run(expression, given, 0)
    return values, indices


def _extreme_fake(x, op, axis, scans, keepdim, reverse, exclusive, mask):
    ops._known(x.dtype)
    ops._on_one_device(x, mask=mask)
    if mask is not None:
        ops._check_mask(x, mask)
    shape = x.shape if scans else ops._fold_shape(x, range(x.dim()) if axis is None else [axis], keepdim)
    if not scans and ops._is_empty(x.shape) and not ops._is_empty(shape):
        raise ValueError(f"{op} of no elements has no value; fold axes that are not empty")
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


def _extreme_setup(ctx, inputs, output):
    x, _, ctx.axis, ctx.scans, ctx.keepdim, _, _, _ = inputs
    values, indices = output
    ctx.mark_non_differentiable(indices)
    ctx.save_for_backward(indices)
    ctx.save_for_forward(indices)
    ctx.shape = x.shape
    ctx.set_materialize_grads(False)


def _extreme_places(ctx, t):
    """A result with as many dimensions as x, or with one dimension if all axes are folded."""
    if ctx.axis is None or not ctx.shape:
        return t.reshape(1)
    return t if ctx.scans or ctx.keepdim else t.unsqueeze(ctx.axis)


def _extreme_backward(ctx, g, _):
    """The gradient of each value goes to the element that it is. A value that is not an element
    (index -1) passes nothing on."""
    if g is None:
        return (None,) * 8
    indices, = ctx.saved_tensors
    axis = 0 if ctx.axis is None or not ctx.shape else ctx.axis
    flat = ctx.axis is None or not ctx.shape
    places, g = _extreme_places(ctx, indices), _extreme_places(ctx, g)
    g = torch.where(places < 0, 0, g)
    dx = torch.zeros((math.prod(ctx.shape),) if flat else ctx.shape, dtype=g.dtype, device=g.device)
    dx = dx.scatter_add(axis, places.clamp(min=0), g).reshape(ctx.shape)
    return (dx,) + (None,) * 7


def _extreme_jvp(ctx, dx, *_):
    indices, = ctx.saved_tensors
    axis = 0 if ctx.axis is None or not ctx.shape else ctx.axis
    places = _extreme_places(ctx, indices)
    dx = dx.reshape(-1) if ctx.axis is None or not ctx.shape else dx
    return torch.where(places < 0, 0, dx.gather(axis, places.clamp(min=0))).reshape(indices.shape), None


def _extreme_vmap(size, in_dims, x, op, axis, scans, keepdim, reverse, exclusive, mask):
    x, mask, dims = ops._mapped(size, (in_dims[0], in_dims[7]), x, mask)
    run = torch.ops.scanfold.extreme
    if dims == 0 or axis is None:
        rows = x.reshape(size, -1)
        mask = mask if mask is None else torch.broadcast_to(mask, x.shape).reshape(size, -1)
        values, indices = run(rows, op, 1, scans, False, reverse, exclusive, mask)
        shape = (size,) + ((1,) * dims if keepdim else ())
        return (values.reshape(shape), indices.reshape(shape)), (0, 0)
    return tuple(run(x, op, axis + 1, scans, keepdim, reverse, exclusive, mask)), (0, 0)


# --------------------------------------------------------------------------------------------------
# Linear recurrences
# --------------------------------------------------------------------------------------------------
def _made_dtype(a, b, dtype):
    """The result's dtype. A tensor of no dimensions has less weight, as in torch's type
    promotion."""
    if dtype is not None:
        return dtype
    made = torch.result_type(a, b)
    return made if made.is_floating_point else torch.float32


def _check_recurrence(a, b, state, axis, dtype):
    for argument, t in (("a", a), ("b", b), ("initial", state)):
        if t is not None:
            ops._known(t.dtype, argument)
    for argument, t in (("a", a), ("initial", state)):
        if t is not None and t.device.type != b.device.type:
            raise ValueError(f"{argument} is on device {t.device}, b on {b.device}: they must be on the same one")
    try:
        shape = torch.broadcast_shapes(a.shape, b.shape)
    except RuntimeError:
        raise ValueError(f"a has shape {tuple(a.shape)} and b has {tuple(b.shape)}, which do not broadcast") from None
    made = _made_dtype(a, b, dtype)
    if not made.is_floating_point:
        raise ValueError(f"dtype is {made}: the result of a recurrence is float16, bfloat16, float32 or float64")
    if state is not None:
        if not shape:
            raise ValueError("b has no dimensions: its initial state is a number")
        lines = shape[:axis] + shape[axis + 1:]
        own = (1,) * (len(lines) - state.dim()) + tuple(state.shape)
        if len(own) != len(lines) or any(ops._differ(m, n) and _is_long(m) for m, n in zip(own, lines)):
            raise ValueError(f"initial has shape {tuple(state.shape)}; it must be broadcastable to {tuple(lines)}, one state a line")
    return shape, made


def _is_long(n):
    return not (type(n) is int and n == 1)


def _recurrence_kernel(a, b, state, initial, axis, reverse, exclusive, dtype):
    shape, made = _check_recurrence(a, b, state, axis, dtype)
    names = [name(t.dtype) for t in (a, b)]
    _, wide = recurrence_dtypes(names, name(made), None)
    inputs = {"a": a, "b": b}
    if state is not None:
        own = (1,) * (len(shape) - 1 - state.dim()) + tuple(state.shape)
        inputs["h"] = state.reshape(own[:axis] + (1,) + own[axis:])
        first = torch.arange(shape[axis], device=b.device) == (shape[axis] - 1 if reverse else 0)
        inputs["first"] = first.reshape((-1,) + (1,) * (len(shape) - 1 - axis)) if shape[axis] else first.reshape((0,) + (1,) * (len(shape) - 1 - axis))
    text = recurrence_text(None, axis, reverse, exclusive, initial if state is None else "state", name(made), wide)
    expression, given = _parsed(text, True, inputs)
    return ops._c_run(expression, given, 0)


def _recurrence_fake(a, b, state, initial, axis, reverse, exclusive, dtype):
    shape, made = _check_recurrence(a, b, state, axis, dtype)
    return b.new_empty(shape, dtype=made)


def _recurrence_setup(ctx, inputs, output):
    a, b, state, ctx.initial, ctx.axis, ctx.reverse, ctx.exclusive, _ = inputs
    ctx.save_for_backward(a, output, state)
    ctx.save_for_forward(a, output, state)
    ctx.b_shape, ctx.b_dtype = b.shape, b.dtype


def _scanned(a, b, axis, reverse, exclusive, dtype, state=None):
    return torch.ops.scanfold.linear_recurrence(a, b, state, None, axis, reverse, exclusive, dtype)


def _begun(ctx, y, state):
    """The state before the first element, one for each line."""
    edge = y.narrow(ctx.axis, y.shape[ctx.axis] - 1 if ctx.reverse else 0, 1)
    if state is not None:
        return state.to(y.dtype).expand(edge.squeeze(ctx.axis).shape).unsqueeze(ctx.axis)
    return torch.full_like(edge, 0 if ctx.initial is None else ctx.initial)


def _before(ctx, y, state):
    """The state before each element."""
    if ctx.exclusive:
        return y
    begun, rest = _begun(ctx, y, state), y.narrow(ctx.axis, 1 if ctx.reverse else 0, y.shape[ctx.axis] - 1)
    return torch.cat((rest, begun) if ctx.reverse else (begun, rest), ctx.axis)


def _times_before(ctx, v, y, state, plain):
    """v[i] h[i-1]. If the tensors are plain and no gradient is recorded, h is read in place,
    shifted by one element, instead of from a copy. Of contiguous tensors all lines are then one:
    what this makes of a line's first element, from the line before it, is written again."""
    if ctx.exclusive or not plain or torch.is_grad_enabled():
        return v * _before(ctx, y, state).to(v.dtype)
    n, axis, made = y.shape[ctx.axis], ctx.axis, torch.empty_like(v)
    first, rest = (n - 1, 0) if ctx.reverse else (0, 1)
    if all(t.is_contiguous() for t in (v, y, made)):
        step, (flat_v, flat_y, flat) = math.prod(y.shape[axis + 1:]), (t.view(-1) for t in (v, y, made))
        count = flat.numel() - step
        torch.mul(flat_v.narrow(0, rest * step, count), flat_y.narrow(0, (1 - rest) * step, count),
                  out=flat.narrow(0, rest * step, count))
    else:
        torch.mul(v.narrow(axis, rest, n - 1), y.narrow(axis, 1 - rest, n - 1), out=made.narrow(axis, rest, n - 1))
    begun = ctx.initial or 0 if state is None else _begun(ctx, y, state)
    torch.mul(v.narrow(axis, first, 1), begun, out=made.narrow(axis, first, 1))
    return made


def _adjoint(a, g, axis, reverse, exclusive, wide):
    """(v of _recurrence_backward, whether the tensors are plain). Plain tensors take one pass.
    float16 and bfloat16 are multiplied in float32."""
    text = _adjoint_text(axis, reverse, exclusive, wide)
    expression, given = _parsed(text, True, {"a": a, "g": g})
    v = ops._c_try(expression, given, 0)
    if type(v) is not int:
        return v, True
    gate, grad = a.to(wide), g.to(wide)
    if exclusive:
        return _scanned(gate, grad, axis, reverse, True, None), False
    return grad + _scanned(gate, gate * grad, axis, reverse, True, None), False


def _adjoint_text(axis, reverse, exclusive, wide):
    kind = "f64" if wide is torch.float64 else "f32"
    gate, grad = f"a.astype({kind})", f"g.astype({kind})"
    b = grad if exclusive else f"{gate} * {grad}"
    text = f"linear_recurrence({gate}, {b}, {axis}, reverse={reverse}, exclusive=True)"
    return text if exclusive else f"({grad} + {text})"


def _doubles(y):
    """Does the library compute two results of one scan there?"""
    return y.is_cuda


def _adjoint_and_product(ctx, a, g, y, state, wide):
    """v of _recurrence_backward, and v[i] h[i-1], which on CUDA are two results of one scan; or
    None where they are not. h is read in place, shifted by one element, and taken to be 0 before
    the first. If it begins otherwise, what that makes of the first element is written again."""
    axis, n = ctx.axis, y.shape[ctx.axis]
    if not _doubles(y) or ctx.exclusive or torch.is_grad_enabled() or n < 2:
        return None
    if any(t.dtype is not wide for t in (a, y, g)):
        return None
    v, whole = _adjoint_text(axis, not ctx.reverse, False, wide), ":, " * axis
    none = f"zeros_like(h[{whole}:1])"
    before = f"h[{whole}1:], {none}" if ctx.reverse else f"{none}, h[{whole}:-1]"
    text = f"{v}, {v} * concat([{before}], {axis})"
    expression, given = _parsed(text, True, {"a": a, "g": g, "h": y})
    made = ops._c_try(expression, given, 0)
    if type(made) is int:
        return None
    v, product = made
    if state is not None or ctx.initial:
        first = n - 1 if ctx.reverse else 0
        begun = ctx.initial if state is None else _begun(ctx, y, state)
        torch.mul(v.narrow(axis, first, 1), begun, out=product.narrow(axis, first, 1))
    return v, product


def _recurrence_backward(ctx, grad):
    """Let v[i] be the gradient of h[i], through all later results too: v[i] = g[i] + a[i+1] v[i+1].

    Multiplied by a[i] this is a[i] v[i] = a[i] (a[i+1] v[i+1]) + a[i] g[i], a recurrence with a and
    a g in the other direction. The exclusive one gives a[i+1] v[i+1]; g is added to it. So nothing
    has to be shifted. The gradient of b[i] is v[i], that of a[i] is v[i] h[i-1], and that of the
    initial state is a[0] v[0]."""
    a, y, state = ctx.saved_tensors
    shape, wants = y.shape, ctx.needs_input_grad
    a0_shape, a_dtype = a.shape, a.dtype
    if not shape:
        a, y, grad = a.reshape(1), y.reshape(1), grad.reshape(1)
    axis, reverse = ctx.axis, ctx.reverse
    if not math.prod(y.shape):
        return (a.new_zeros(a0_shape) if wants[0] else None, torch.zeros(ctx.b_shape, dtype=ctx.b_dtype, device=y.device) if wants[1] else None,
                torch.zeros_like(state) if wants[2] else None, None, None, None, None, None)
    wide = torch.float64 if torch.float64 in (y.dtype, a.dtype) else torch.float32
    da = db = dstate = None
    both = _adjoint_and_product(ctx, a, grad, y, state, wide) if wants[0] else None
    if both:
        v, plain = both[0], True
    else:
        v, plain = _adjoint(a, grad, axis, not reverse, ctx.exclusive, wide)
    if wants[0]:
        da = both[1] if both else _times_before(ctx, v, y, state, plain)
        da = da.reshape(shape).sum_to_size(a0_shape).to(a_dtype)
    if wants[1]:
        db = v.reshape(shape).sum_to_size(ctx.b_shape).to(ctx.b_dtype)
    if wants[2]:
        at = y.shape[axis] - 1 if reverse else 0
        first = v.select(axis, at) * torch.broadcast_to(a, y.shape).select(axis, at).to(wide)
        if ctx.exclusive:
            first = first + grad.select(axis, at).to(wide)
        dstate = first.sum_to_size(state.shape).to(state.dtype)
    return da, db, dstate, None, None, None, None, None


def _recurrence_jvp(ctx, da, db, dstate, *_):
    """dh[i] = a[i] dh[i-1] + (da[i] h[i-1] + db[i]): the same recurrence."""
    a, y, state = ctx.saved_tensors
    shape = y.shape
    if not shape:
        a, y = a.reshape(1), y.reshape(1)
    parts = [] if da is None else [da * _before(ctx, y, state)]
    parts += [] if db is None else [db]
    b = functools.reduce(torch.add, parts) if parts else torch.zeros_like(y)
    b = torch.broadcast_to(b, y.shape)
    return _scanned(a, b, ctx.axis, ctx.reverse, ctx.exclusive, y.dtype, dstate).reshape(shape)


def _recurrence_vmap(size, in_dims, a, b, state, initial, axis, reverse, exclusive, dtype):
    ad, bd, sd = in_dims[:3]
    dims = max(a.dim() - (ad is not None), b.dim() - (bd is not None))
    if dims == 0:
        raise NotImplementedError("linear_recurrence of tensors of no dimensions cannot be mapped: give each one dimension")
    a = a if ad is None else ops._batched(a, ad, size, dims)
    b = b if bd is None else ops._batched(b, bd, size, dims)
    if ad is None and bd is None:
        b = ops._batched(b, None, size, dims)
    if state is not None and sd is not None:
        state = ops._batched(state, sd, size, dims - 1)
    return torch.ops.scanfold.linear_recurrence(a, b, state, initial, axis % dims + 1, reverse, exclusive, dtype), 0


ops._register("extreme", _extreme_kernel, _extreme_fake, _extreme_setup, _extreme_backward, _extreme_jvp, _extreme_vmap)
ops._register("linear_recurrence", _recurrence_kernel, _recurrence_fake, _recurrence_setup, _recurrence_backward, _recurrence_jvp,
              _recurrence_vmap)
