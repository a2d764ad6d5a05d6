"""mean, var, norm, any etc. for tensors that need torch's dispatcher: the operator
scanfold::derived, its gradients and vmap.

The kernel runs the same expression as for plain tensors (_derived.py). Gradients are composed of
these functions and of torch's own, so that they can be differentiated again.
"""
import functools
import math

import torch

from . import _derived, _scanfold
from . import torch as ops
from .torch import (_c_run, _cast, _check_mask, _copied, _define, _dtype, _fold_axes, _fold_op, _fold_shape, _handed_over, _is_foreign, _kept_dims,
                    _known, _mapped, _mask, _on_one_device, _refuse_nested, _register, _scan_axis, _scan_op, _selected)

_define("derived(Tensor x, str name, int[] axes, bool keepdim, float parameter, Tensor? mask, ScalarType? dtype) -> Tensor")


# ---------------------------------------------------------------------------------------------------------------
# What _derived.py calls
# ---------------------------------------------------------------------------------------------------------------
def derived(name, x, axis, keepdim, parameter, mask, skip_nan, dtype, out, offsets=None, way=(False, False)):
    """One of the functions of _derived.py, called through torch's dispatcher."""
    if offsets is None and (_is_foreign(x) or _is_foreign(mask)):
        spelled = {"ord": parameter} if name == "norm" else {"correction": parameter}
        if name not in _derived.VARIANCES | {"norm"}:
            spelled = {}
        if name not in ("nanmax", "nanmin"):
            spelled["skip_nan"] = skip_nan
        spelled.update((option, True) for option, given in zip(("reverse", "exclusive"), way) if given)
        return _handed_over(name, x, axis=axis, keepdim=keepdim, mask=mask, dtype=dtype, out=out, **spelled)
    nan = "nan" if skip_nan else ""  # not only a mask: it makes variances of too few elements NaN
    if offsets is not None:
        name = nan + name if name in ("var", "std") else name
        return ops._torch_segments.made(name, x, axis, parameter, None, _mask(x, mask, skip_nan), None, None, dtype, out, offsets)
    _refuse_nested(x=x, mask=mask, out=out)
    dtype, mask = _dtype(dtype), _mask(x, mask, skip_nan)
    if name in _derived.SCANS:
        y = _scanned(name, x, _scan_axis(x, axis), parameter, mask, dtype, skip_nan, *way)
        return y if out is None else _copied(out, y)
    axes = _fold_axes(x, axis) if x.dim() else []
    parameter = float(1 if parameter is None else parameter)  # torch's default correction is 1
    if name in ("nanmax", "nanmin"):
        y = _fold_op(x, name[3:], axes, keepdim, mask=mask)
        if mask is not None and x.dtype.is_floating_point:
            there = _fold_op(mask.expand(x.shape), "max", axes, keepdim)
            y = torch.where(there, y, torch.full((), math.nan, dtype=y.dtype, device=y.device))
    elif name in ("var_mean", "std_mean"):
        y = tuple(torch.ops.scanfold.derived(x, one, axes, keepdim, parameter, mask, dtype) for one in (nan + name[:3], "var_mean"))
    else:
        name = nan + name if name in ("var", "std") else name
        y = torch.ops.scanfold.derived(x, name, axes, keepdim, parameter, mask, dtype)
    return y if out is None else _copied(out, y)


def _divided(a, by):
    """a / by, without a gradient where that is a division by 0 or NaN: the results there, inf and
    NaN, do not spoil the gradients of others."""
    none = ~(by > 0)
    return torch.where(none, a.detach() / by, a / by.masked_fill(none, 1))


def _scanned(name, x, axis, correction, mask, dtype, skip_nan, reverse, exclusive):
    """cummean and cumvar, one operator after another, with the bits of the one-pass version."""
    _known_result(name, x, dtype)
    made = x.dtype if dtype is None else dtype
    wide = torch.float64 if torch.float64 in (x.dtype, made) or name == "cumvar" else torch.float32
    if x.dim() == 0:
        mask = None if mask is None else mask.reshape(1)
        return _scanned(name, x.reshape(1), 0, correction, mask, dtype, skip_nan, reverse, exclusive).reshape(())
    sizes = [1] * x.dim()
    sizes[axis] = x.shape[axis]
    counts = torch.ones(sizes, dtype=torch.bool, device=x.device) if mask is None else mask.bool().expand(x.shape)
    count = _scan_op(counts, "sum", axis, reverse, exclusive).to(wide)
    if name == "cummean":
        return _cast(_divided(_scan_op(x, "sum", axis, reverse, exclusive, mask, dtype=wide), count), made)
    correction = 1 if correction is None else correction
    if mask is None:
        n = x.shape[axis]
        first = x.detach().narrow(axis, n - 1 if reverse and n else 0, min(1, n)).to(wide)
    else:
        is_first = _scan_op(counts, "sum", axis, reverse) == 1
        first = _fold_op(torch.where(is_first, x.detach().to(wide), 0), "sum", [axis], True, reverse, mask)
    d = _selected(mask, x.to(wide) - first, 0)
    squares, total = (_scan_op(v, "sum", axis, reverse, exclusive) for v in (d * d, d))
    squares = (squares - _divided(total.square(), count)).clamp(min=0)
    freedom = (count - correction).clamp(min=0)
    if skip_nan and x.dtype.is_floating_point:
        freedom = freedom.masked_fill(freedom == 0, math.nan)
    return _cast(_divided(squares, freedom), made)


# ---------------------------------------------------------------------------------------------------------------
# Kernel and fake
# ---------------------------------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=256)
def _expression(name, axes, keepdim, parameter, masked, dtype, cast):
    return _scanfold.expression_parse(_derived.text(name, axes, keepdim, parameter, masked, False, dtype, cast), 1, None)[0]


def _short(dtype):
    return None if dtype is None else str(dtype).rpartition(".")[2]


def _known_result(name, x, dtype):
    _known(x.dtype)
    return _derived.result_dtype(name, _short(x.dtype), dtype, True)


def _made(name, x, dtype):
    """The result's dtype."""
    if name in _derived.LOGIC and x.dtype is torch.uint8:
        return torch.uint8
    if name in _derived.FIXED:
        return getattr(torch, _derived.FIXED[name])
    made = _known_result(name, x, dtype)
    return x.dtype if made is None else getattr(torch, made)


def _kernel(x, name, axes, keepdim, parameter, mask, dtype):
    made = _made(name, x, dtype)
    if name in _derived.VARIANCES:
        parameter = min(parameter, float(_derived.folded(x.shape, axes)))
    fixed = name in _derived.FIXED
    expression = _expression(name, tuple(axes), keepdim, parameter, mask is not None, None if fixed else _short(made),
                             "uint8" if fixed and made is torch.uint8 else None)
    y = _c_run(expression, (x,) if mask is None else (x, mask), 0)
    return y[1] if name == "var_mean" else y  # the expression gives (variance, mean)


def _fake(x, name, axes, keepdim, parameter, mask, dtype):
    _on_one_device(x, mask=mask)
    if mask is not None:
        _check_mask(x, mask)
    made = _made(name, x, dtype)
    return x.new_empty(_fold_shape(x, axes, keepdim), dtype=made)


# ---------------------------------------------------------------------------------------------------------------
# Gradients
# ---------------------------------------------------------------------------------------------------------------
def _setup(ctx, inputs, output):
    x, name, axes, keepdim, parameter, mask, dtype = inputs
    ctx.save_for_backward(x, mask, output if name in ("std", "nanstd", "norm") else None)
    ctx.save_for_forward(mask)
    ctx.name, ctx.keepdim, ctx.parameter, ctx.dtype = name.removeprefix("nan"), keepdim, parameter, dtype
    ctx.axes = [a % max(x.dim(), 1) for a in axes] if x.dim() else []
    if not output.dtype.is_floating_point:
        ctx.mark_non_differentiable(output)


def _count(x, axes, mask, dtype):
    if mask is None:
        return float(_derived.folded(x.shape, axes))
    return _fold_op(mask.bool().expand(x.shape), "sum", axes, True).to(dtype)


def _mean(x, axes, mask):
    return torch.ops.scanfold.derived(x, "mean", axes, True, 0.0, mask, None)


def _backward(ctx, grad):
    x, mask, y = ctx.saved_tensors
    axes, name = ctx.axes, ctx.name
    # x is real here, since integers have no gradient. Compute in the wider of the two dtypes.
    wide = torch.promote_types(grad.dtype, x.dtype)
    g, v = _kept_dims(grad, axes, ctx.keepdim).to(wide), x.to(wide)
    y = None if y is None else _kept_dims(y, axes, ctx.keepdim).to(wide)
    if name in ("mean", "var_mean"):
        dx = (g / _count(x, axes, mask, wide)).expand(x.shape)
    elif name in ("var", "std"):
        count = _count(x, axes, mask, wide)
        if name == "std":
            g = (g / (2 * y)).masked_fill(y == 0, 0)
        # Subtract the first element before the mean: a large common offset then causes no rounding
        # error.
        d = v
        if mask is None and x.numel():
            first = v.detach()
            for axis in axes:
                first = first.narrow(axis, 0, 1)
            d = v - first
        freedom = count - ctx.parameter
        freedom = max(freedom, 0.0) if mask is None else freedom.clamp(min=0)
        if mask is None and freedom == 0:
            g = g * math.inf  # as in torch, for 0 degrees of freedom
            freedom = 1.0
        dx = g * 2 / freedom * (d - _mean(d, axes, mask))
    elif name == "sumsq":
        dx = 2 * g * v
    else:
        dx = _norm_backward(v, y, g, ctx.parameter, axes, mask)
    return _selected(mask, dx.to(x.dtype), 0), None, None, None, None, None, None


def _norm_backward(v, y, g, p, axes, mask):
    """The gradient of a norm by torch's own formulas, including its treatment of zeros."""
    if p == 0:
        return torch.zeros_like(v)
    if p == 1:
        return v.sgn() * g
    if p == 2:
        return v * (g / y).masked_fill(y == 0, 0)
    if math.isinf(p):
        came = (v.abs() == y) | (v.isnan() & y.isnan())
        if mask is not None:
            came = came & mask.bool()
        share = came.sum(axes, keepdim=True) if axes else came
        return v.sgn() * torch.where(came, g / share.clamp(min=1).to(g.dtype), torch.zeros((), dtype=g.dtype, device=g.device))
    if p < 1:
        return (v.sgn() * v.abs().pow(p - 1)).masked_fill(v == 0, 0) * (g * y.pow(1 - p))
    if p < 2:
        return v.sgn() * v.abs().pow(p - 1) * (g / y.pow(p - 1)).masked_fill(y == 0, 0)
    return v * v.abs().pow(p - 2) * (g / y.pow(p - 1)).masked_fill(y == 0, 0)


def _jvp(ctx, dx, *_):
    if ctx.name not in ("mean", "var_mean"):
        raise NotImplementedError(f"forward-mode differentiation of {ctx.name} is not there, of sums and means only: use reverse mode (grad, vjp, "
                                  f"jacrev)")
    mask, = ctx.saved_tensors
    return torch.ops.scanfold.derived(dx, ctx.name, ctx.axes, ctx.keepdim, ctx.parameter, mask, ctx.dtype)


def _vmap(size, in_dims, x, name, axes, keepdim, parameter, mask, dtype):
    x, mask, dims = _mapped(size, (in_dims[0], in_dims[5]), x, mask)
    axes = [a % dims + 1 for a in axes] if dims else []
    return torch.ops.scanfold.derived(x, name, axes, keepdim, parameter, mask, dtype), 0


_register("derived", _kernel, _fake, _setup, _backward, _jvp, _vmap)
_derived._by_torch = derived
