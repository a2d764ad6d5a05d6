"""softmax, layer_norm etc. for tensors that need torch's dispatcher: the operator
scanfold::applied, its gradients and vmap.

A gradient also folds and applies the result to the elements. Each formula is written once, in terms
of the methods of a `way`, of which there are two. Lines writes the formula down in the notation: it
becomes one expression, which the library runs in as few passes as the function itself. Tensors
computes it with torch, so that it can be differentiated again, mapped and traced.
"""
import functools

import torch

from . import _applied, _derived, _expression_of, _parsed
from . import torch as ops
from ._derived import short
from ._torch_derived import _count, _known_result, _norm_backward

ops._define("applied(Tensor x, str name, int[] axes, float parameter, float eps, Tensor? mask, Tensor? weight, Tensor? bias, ScalarType? dtype) -> Tensor")


# ---------------------------------------------------------------------------------------------------------------
# What _applied.py calls
# ---------------------------------------------------------------------------------------------------------------
def applied(name, x, axis, parameter, eps, mask, weight, bias, dtype, out, offsets=None):
    """One of the functions of _applied.py, called through torch's dispatcher."""
    if offsets is not None:
        return ops._torch_segments.made(name, x, axis, parameter, eps, mask, weight, bias, dtype, out, offsets)
    if any(map(ops._is_foreign, (x, mask, weight, bias))):
        spelled = {"normalize": {"ord": parameter, "eps": eps}, "standardize": {"correction": parameter}, "softmax": {}, "log_softmax": {}}
        spelled = spelled.get(name, {"weight": weight, "bias": bias, "eps": eps})
        return ops._handed_over(name, x, axis=axis, mask=mask, dtype=dtype, out=out, **spelled)
    ops._refuse_nested(x=x, mask=mask, weight=weight, bias=bias, out=out)
    dtype, mask = ops._dtype(dtype), ops._mask(x, mask)
    axes = ops._fold_axes(x, axis) if x.dim() else []
    if eps is None:
        eps = torch.finfo(_result(name, x, dtype)).eps if name == "rms_norm" else 0.0
    parameter = float(1 if parameter is None else parameter)  # torch's default correction is 1
    weight, bias = (_of_rank(word, beside, x, axes) for word, beside in (("weight", weight), ("bias", bias)))
    y = torch.ops.scanfold.applied(x, name, axes, parameter, float(eps), mask, weight, bias, dtype)
    return y if out is None else ops._copied(out, y)


def _of_rank(name, beside, x, axes):
    """A weight or bias with as many dimensions as x. One that has only the folded axes gets
    length 1 along all others."""
    if beside is None or beside.dim() == x.dim():
        return beside
    lengths = [x.shape[a] for a in sorted(a % x.dim() for a in axes)] if x.dim() else []
    if list(beside.shape) != lengths:
        raise ValueError(f"{name} has shape {tuple(beside.shape)}; along the axes x has {tuple(lengths)}, which it must have, or {x.dim()} dimensions")
    return beside.reshape([n if a in [b % x.dim() for b in axes] else 1 for a, n in enumerate(x.shape)])


def _result(name, x, dtype):
    made = _known_result(name, x, dtype)
    return x.dtype if made is None else getattr(torch, made)


# ---------------------------------------------------------------------------------------------------------------
# Kernel and fake
# ---------------------------------------------------------------------------------------------------------------
def _present(**given):
    return {name: t for name, t in given.items() if t is not None}


def _kernel(x, name, axes, parameter, eps, mask, weight, bias, dtype):
    inputs = _present(x=x, mask=mask, weight=weight, bias=bias)
    has_eps = name in ("layer_norm", "rms_norm", "normalize")
    line = _applied.text(name, axes, parameter, eps if has_eps else None, _name(_result(name, x, dtype)), list(inputs)[1:])
    more = _statistics(name, x, axes, eps, mask, weight) if any(t.requires_grad for t in (x, weight, bias) if t is not None) else None
    if more is None:
        return ops._c_run(*_parsed(line, True, inputs), 0)
    y, *more = ops._c_run(*_parsed(f"{line}, {more}", True, inputs), 0)
    y._scanfold_statistics = more  # for _setup, which gets this very tensor
    return y


def _statistics(name, x, axes, eps, mask, weight):
    """What a gradient needs of x's lines, in the notation, or None. On a CPU to fold x again would
    take longer than to keep that; a CUDA device has the line in its registers anyway."""
    if x.device.type != "cpu" or mask is not None or name not in ("layer_norm", "rms_norm") or not x.numel():
        return None
    def mean(v):  # as the function itself has it, so that it is folded once
        return Line(f"mean({v}, {tuple(axes)}, keepdim=True)")

    def factor(squares):
        return f"(1 / sqrt({squares + eps}))"
    line = Line(f"x.astype({short(_name(_wide(x, weight)))})")
    if name == "layer_norm":
        return f"{mean(line)}, {factor(mean(f'square({line - mean(line)})'))}"
    return factor(mean(f"square({line})"))


def _fake(x, name, axes, parameter, eps, mask, weight, bias, dtype):
    ops._on_one_device(x, mask=mask, weight=weight, bias=bias)
    if mask is not None:
        ops._check_mask(x, mask)
    for word, beside in (("weight", weight), ("bias", bias)):
        if beside is not None and list(torch.broadcast_shapes(beside.shape, x.shape)) != list(x.shape):
            raise ValueError(f"{word} has shape {tuple(beside.shape)}, which does not broadcast to x's {tuple(x.shape)}")
    return x.new_empty(x.shape, dtype=_result(name, x, dtype))


# ---------------------------------------------------------------------------------------------------------------
# Two ways to compute a formula
# ---------------------------------------------------------------------------------------------------------------
class Line:
    """A value in the notation. Operators on it return the text of the operation."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text

    def _by(sign, swapped=False):
        def written(self, other):
            return Line(f"({other} {sign} {self})" if swapped else f"({self} {sign} {other})")
        return written

    __add__, __sub__, __mul__, __truediv__, __gt__ = _by("+"), _by("-"), _by("*"), _by("/"), _by(">")
    __radd__, __rsub__, __rmul__, __rtruediv__ = _by("+", True), _by("-", True), _by("*", True), _by("/", True)


class Lines:
    """The functions that formulas use, on values in the notation: they return text."""

    def __init__(self, axes, masked, number, wide, known=False):
        self.axes, self.masked, self.number, self.wide, self.known = tuple(axes), masked, number, wide, known

    def sum(self, v, axes=None):
        return Line(f"sum({v}, {self.axes if axes is None else tuple(axes)}, keepdim=True{', mask=mask' if self.masked else ''})")

    def count(self):
        return self.sum(Line(f"ones_like({self.cast(Line('x'), self.wide)})")) if self.masked else self.number

    def kept(self, v):
        return Line(f"where(mask.astype(bool), {v}, 0.0)") if self.masked else v

    def cast(self, v, dtype):
        return Line(f"{v}.astype({short(_name(dtype))})")

    exp, sqrt = (staticmethod(lambda v, name=name: Line(f"{name}({v})")) for name in ("exp", "sqrt"))
    maximum = staticmethod(lambda v, number: Line(f"maximum({v}, {number!r})"))
    where = staticmethod(lambda test, v: Line(f"where({test}, {v}, 0.0)"))


class Tensors:
    """The same functions, computed on tensors."""

    known = False

    def __init__(self, axes, mask, like, wide):
        self.axes, self.mask, self.like, self.wide = list(axes), mask, like, wide

    def sum(self, v, axes=None):
        axes = self.axes if axes is None else list(axes)
        return ops._fold_op(v, "sum", axes, True, mask=self.mask) if axes else self.kept(v)

    def count(self):
        return _count(self.like, self.axes, self.mask, self.wide)

    def kept(self, v):
        return ops._selected(self.mask, v, 0)

    exp, sqrt = torch.exp, torch.sqrt
    maximum = staticmethod(lambda v, number: v.clamp(min=number))
    where = staticmethod(lambda test, v: torch.where(test, v, torch.zeros((), dtype=v.dtype, device=v.device)))


def _name(dtype):
    return str(dtype).rpartition(".")[2]


# ---------------------------------------------------------------------------------------------------------------
# Formulas. Without weights the Jacobian is symmetric, except that of log_softmax. So Jacobian times
# vector gives both gradients (reverse mode) and derivatives (forward mode).
# ---------------------------------------------------------------------------------------------------------------
def _mean(way, v):
    return way.sum(v) / way.count()


def _standard(way, name, x, parameter, eps):
    """(the function without weight and bias, the factor of x or of its distances from the mean),
    for layer_norm, rms_norm and standardize."""
    if name == "rms_norm":
        by = Line("by") if way.known else 1 / way.sqrt(_mean(way, x * x) + eps)
        return x * by, by
    d = x - (Line("mean") if way.known else _mean(way, x))
    if name == "layer_norm":
        by = Line("by") if way.known else 1 / way.sqrt(_mean(way, d * d) + eps)
    else:
        by = 1 / way.sqrt(way.sum(d * d) / (way.count() - parameter))
    return d * by, by


def _along(way, name, v, x, y, parameter, eps):
    """The transposed Jacobian times v. Only that of log_softmax is not symmetric."""
    if name == "softmax":
        return way.kept(y * (v - way.sum(y * v)))
    if name == "log_softmax":
        return way.kept(v - way.exp(y) * way.sum(v))
    if name == "normalize":
        norm = way.sqrt(way.sum(x * x))
        by = way.maximum(norm, eps)
        return way.kept((v - way.where(norm > eps, x * (way.sum(v * x) / (by * by)))) / by)
    h, by = _standard(way, name, x, parameter, eps)
    across = h * (way.sum(v * h) / (way.count() - parameter if name == "standardize" else way.count()))
    return way.kept(by * (v - across if name == "rms_norm" else v - _mean(way, v) - across))


def _gradients(way, name, wanted, g, x, y, weight, parameter, eps, over):
    """The gradients of those of x, weight and bias that are wanted. `over` has the axes along which
    weight and bias were broadcast."""
    made = []
    if wanted[0]:
        made.append(_along(way, name, g if weight is None else g * weight, x, y, parameter, eps))
    if wanted[1]:
        made.append(way.sum(g * _standard(way, name, x, parameter, eps)[0], over[0]))
    if wanted[2]:
        made.append(way.sum(g, over[1]))
    return made


@functools.lru_cache(maxsize=256)
def _line(name, wanted, number, axes, parameter, eps, over, masked, weighted, wide, dtypes, known=False):
    """The gradients as one expression in the notation."""
    way = Lines(axes, masked, number, wide, known)
    x, y, g, weight = (way.cast(Line(one), wide) for one in ("x", "y", "g", "weight"))
    made = _gradients(way, name, wanted, g, x, y, weight if weighted else None, parameter, eps, over)
    return ", ".join(str(way.cast(v, dtype)) for v, dtype in zip(made, dtypes))


# ---------------------------------------------------------------------------------------------------------------
# Gradients
# ---------------------------------------------------------------------------------------------------------------
def _setup(ctx, inputs, output):
    x, ctx.name, axes, ctx.parameter, ctx.eps, mask, weight, bias, _ = inputs
    by_result = ctx.name in ("softmax", "log_softmax")
    *mean, by = output.__dict__.pop("_scanfold_statistics", None) or (None, None)
    ctx.save_for_backward(None if by_result else x, output if by_result else None, mask, weight, mean[0] if mean else None, by)
    ctx.save_for_forward(None if by_result else x, output if by_result else None, mask, weight)
    ctx.axes = sorted(a % x.dim() for a in axes) if x.dim() else []
    ctx.over = tuple(tuple(d for d in range(x.dim()) if t is None or t.shape[d] == 1) for t in (weight, bias))
    ctx.dtypes = [t if t is None else t.dtype for t in (x, weight, bias)]


def _wide(*tensors):
    dtype = functools.reduce(torch.promote_types, [t.dtype for t in tensors if t is not None])
    return dtype if dtype is torch.float64 else torch.float32


def _backward(ctx, g):
    x, y, mask, weight, mean, by = ctx.saved_tensors
    wanted = tuple(ctx.needs_input_grad[i] for i in (0, 6, 7))
    like, wide = x if y is None else y, _wide(g, x, y, weight)
    dtypes = tuple(dtype for dtype, one in zip(ctx.dtypes, wanted) if one)
    made = None
    if ctx.name == "normalize" and ctx.parameter != 2:
        made = [_normalize_backward(ctx, g.to(wide), x.to(wide), mask)]
    elif not torch.is_grad_enabled() and like.numel():
        number = float(_derived.folded(like.shape, ctx.axes))
        known = by is not None and by.dtype == wide
        line = _line(ctx.name, wanted, number, tuple(ctx.axes), ctx.parameter, ctx.eps, ctx.over, mask is not None, weight is not None, wide, dtypes, known)
        by_name = {"g": g, "x": x, "y": y, "mask": mask, "weight": weight, "mean": mean, "by": by}
        expression, names = _expression_of(line)
        made = ops._at_once(expression, *[by_name[one] for one in names])
        made = [made] if isinstance(made, torch.Tensor) else made
    if made is None:
        way = Tensors(ctx.axes, mask, like, wide)
        x, y, weight = (t if t is None else t.to(wide) for t in (x, y, weight))
        made = _gradients(way, ctx.name, wanted, g.to(wide), x, y, weight, ctx.parameter, ctx.eps, ctx.over)
    made = iter([v.to(dtype) for v, dtype in zip(made, dtypes)])
    dx, dweight, dbias = (next(made) if one else None for one in wanted)
    return dx, None, None, None, None, None, dweight, dbias, None


def _normalize_backward(ctx, g, x, mask):
    """The gradient for any order, by torch's formulas: that of x / by, and where the norm is above
    eps also that of `by`, which is then the norm."""
    norm = torch.ops.scanfold.derived(x, "norm", ctx.axes, True, ctx.parameter, mask, None)
    by = norm.clamp(min=ctx.eps)
    way = Tensors(ctx.axes, mask, x, x.dtype)
    to_norm = Tensors.where(norm > ctx.eps, -way.sum(g * x) / (by * by))
    return way.kept(g / by + _norm_backward(x, norm, to_norm, ctx.parameter, ctx.axes, mask))


def _jvp(ctx, dx, *others):
    dweight, dbias = others[5:7]
    x, y, mask, weight = ctx.saved_tensors
    if ctx.name == "normalize" and ctx.parameter != 2:
        raise NotImplementedError("forward-mode differentiation of normalize is there for order 2: use reverse mode (grad, vjp, jacrev)")
    like = x if y is None else y
    way, dy = Tensors(ctx.axes, mask, like, _wide(like)), None
    if dx is not None:
        dy = way.kept(dx - way.sum(torch.exp(y) * dx)) if ctx.name == "log_softmax" else _along(way, ctx.name, dx, x, y, ctx.parameter, ctx.eps)
        dy = dy if weight is None else dy * weight
    if dweight is not None:
        more = way.kept(_standard(way, ctx.name, x, ctx.parameter, ctx.eps)[0] * dweight)
        dy = more if dy is None else dy + more
    if dbias is not None:
        more = way.kept(dbias.expand(like.shape))
        dy = more if dy is None else dy + more
    return dy.to(like.dtype)


def _vmap(size, in_dims, x, name, axes, parameter, eps, mask, weight, bias, dtype):
    x, mask, dims = ops._mapped(size, (in_dims[0], in_dims[5]), x, mask)
    batched = x.dim() > dims
    # Weight and bias are expanded even if not mapped: each sample needs its own gradient of them.
    weight, bias = (t if t is None else ops._batched(t, d, size, dims) for t, d in ((weight, in_dims[6]), (bias, in_dims[7])))
    if not batched and (weight is not None or bias is not None):
        x = x.expand(size, *x.shape)
    return torch.ops.scanfold.applied(x, name, [a % dims + 1 for a in axes] if dims else [], parameter, eps, mask, weight, bias, dtype), 0


ops._register("applied", _kernel, _fake, _setup, _backward, _jvp, _vmap)
_applied._by_torch = applied
