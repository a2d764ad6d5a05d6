"""The torch operators scanfold::scan, scanfold::fold and scanfold::linear_sum, registered with
torch's dispatcher.

For a plain tensor scanfold.cumsum and the other functions call the kernel directly. If only a
gradient is needed, they call an autograd.Function. Either takes a few microseconds on the host. All
other cases (torch.compile, torch.func, autocast, a mode, a subclass) need torch's dispatcher and
use these operators, which takes some tens of microseconds. The operators have

    kernels    one for all devices: the C extension looks at where the memory is
    fakes      shapes and dtypes, so that torch.compile and torch.export can trace them
    autograd   written with the operators themselves, so that they can be differentiated again
    vmap       the mapped dimension becomes one more dimension of x
    autocast   as torch does for its own cumsum and sum

Importing this module imports nothing besides torch itself. In particular it does not import
torch._dynamo, which takes seconds: our functions are registered with it once other code imports it.
"""
import contextlib
import functools
import importlib.util
import math
import sys

import torch
from torch import Tensor

from . import _applied, _axis, _scanfold
from ._docs import complete as _complete
from ._dtypes import CODES, code, name
from ._others import CUDA

__all__ = ["scan", "fold", "linear_sum"]

OPS = ("sum", "prod", "max", "min", "argmax", "argmin", "last_argmax", "last_argmin", "logsumexp")
INDICES = OPS[4:8]
ADD, MUL, WHERE = 0, 2, 21  # values of sf_function
VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
_OFFICIAL = VERSION >= (2, 4)  # has torch.library.register_fake

_c_scan, _c_fold = _scanfold.scan, _scanfold.fold
_c_run, _c_try = _scanfold.expression_run, _scanfold.expression_try
RECORD = 2  # _c_try returns 2 if only a gradient is needed, 1 if the dispatcher is
_JAGGED = getattr(torch, "jagged", None)  # since torch 2.1
# torch 2.0 does not have is_compiling; bool() is False.
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", bool)
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", int)
_forward_ad = torch.autograd.forward_ad

# Types with a larger range. That of bfloat16 is float64, since bfloat16 has the range of float32.
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float64,
         torch.float32: torch.float64}
DTYPES = {number: getattr(torch, name) for name, number in CODES.items() if hasattr(torch, name)}

_lib = torch.library.Library("scanfold", "DEF")
_tags = (torch.Tag.pt2_compliant_tag,) if hasattr(torch.Tag, "pt2_compliant_tag") else ()


def _define(schema):
    if VERSION >= (2, 1):
        _lib.define(schema, tags=_tags)
    else:
        _lib.define(schema)


_define("scan(Tensor x, str op, int axis, bool reverse, bool exclusive, Tensor? mask, Scalar? initial, ScalarType? dtype) -> Tensor")
_define("fold(Tensor x, str op, int[] axes, bool keepdim, bool reverse, Tensor? mask, Scalar? initial, ScalarType? dtype) -> Tensor")
_define("linear_sum(Tensor x, Tensor weight, Tensor? bias, float scale) -> Tensor")


# ---------------------------------------------------------------------------------------------------------------
# The public functions, and those that the C extension calls
# ---------------------------------------------------------------------------------------------------------------
def scan(x, op, axis, reverse, exclusive, mask, initial, dtype, out, trusted=False, skip_nan=False, offsets=None):
    """scanfold.cumsum and the other scans, for tensors that need torch's dispatcher.

    scanfold's own functions call it where it is needed: use those.

    op        0 to 3 for sum, prod, max, min; 8 for logsumexp
    dtype     as for scanfold.cumsum
    trusted   not used; it is there because _scanfold.scan has it at this position

    >>> import torch, scanfold.torch
    >>> x = torch.tensor([1., 2., 3.], requires_grad=True)
    >>> scanfold.torch.scan(x, 0, 0, False, False, None, None, None, None).detach()
    tensor([1., 3., 6.])
    """
    if offsets is not None:
        return _torch_segments.scan(x, op, axis, reverse, exclusive, mask, initial, dtype, out, skip_nan, offsets)
    if _is_foreign(x) or _is_foreign(mask) or _is_foreign(initial):
        return _handed_over("logcumsumexp" if op == 8 else "cum" + OPS[op], x, axis=axis, reverse=reverse, exclusive=exclusive,
                            mask=mask, initial=initial, dtype=dtype, out=out, skip_nan=skip_nan)
    _refuse_nested(x=x, mask=mask, out=out)
    axis, mask = _scan_axis(x, axis), _mask(x, mask, skip_nan)
    if isinstance(initial, Tensor):
        return _from_initial(_c_scan, x, op, (axis, reverse, exclusive, mask), initial, dtype, out)
    y = torch.ops.scanfold.scan(x, OPS[op], axis, bool(reverse), bool(exclusive), mask,
                                _number(initial), _dtype(dtype, out))
    return y if out is None else _copied(out, y)


def fold(x, op, axis, keepdim, reverse, mask, initial, dtype, out, trusted=False, skip_nan=False, offsets=None):
    """scanfold.sum and the other folds, for tensors that need torch's dispatcher.

    scanfold's own functions call it where it is needed: use those.

    op        0 to 3 for sum, prod, max, min; 8 for logsumexp
    dtype     as for scanfold.sum
    trusted   not used; it is there because _scanfold.fold has it at this position

    >>> import torch, scanfold.torch
    >>> x = torch.tensor([1., 2., 3.], requires_grad=True)
    >>> scanfold.torch.fold(x, 0, 0, False, False, None, None, None, None).detach()
    tensor(6.)
    """
    if offsets is not None:
        return _torch_segments.fold(x, op, axis, reverse, mask, initial, dtype, out, skip_nan, offsets)
    if _is_foreign(x) or _is_foreign(mask) or _is_foreign(initial):
        return _handed_over(OPS[op], x, axis=axis, keepdim=keepdim, reverse=reverse,
                            mask=mask, initial=initial, dtype=dtype, out=out, skip_nan=skip_nan)
    _refuse_nested(x=x, mask=mask, out=out)
    axes, mask = _fold_axes(x, axis), _mask(x, mask, skip_nan)
    if isinstance(initial, Tensor):
        return _from_initial(_c_fold, x, op, (axes, keepdim, reverse, mask), initial, dtype, out)
    y = torch.ops.scanfold.fold(x, OPS[op], axes, bool(keepdim), bool(reverse), mask,
                                _number(initial), _dtype(dtype, out))
    return y if out is None else _copied(out, y)


def scan_recorded(x, op, axis, reverse, exclusive, mask, initial, dtype, out, trusted=False, skip_nan=False, offsets=None):
    """_scanfold.scan for a tensor x that is plain except that its gradient is wanted."""
    if offsets is not None or not _is_simple(mask, initial, out):
        return scan(x, op, axis, reverse, exclusive, mask, initial, dtype, out, False, skip_nan, offsets)
    mask = _mask(x, mask, skip_nan)
    return _record_scan(x, OPS[op], _scan_axis(x, axis), reverse, exclusive, mask, initial, dtype)


def fold_recorded(x, op, axis, keepdim, reverse, mask, initial, dtype, out, trusted=False, skip_nan=False, offsets=None):
    """_scanfold.fold for a tensor x that is plain except that its gradient is wanted."""
    if offsets is not None or not _is_simple(mask, initial, out):
        return fold(x, op, axis, keepdim, reverse, mask, initial, dtype, out, False, skip_nan, offsets)
    mask = _mask(x, mask, skip_nan)
    return _record_fold(x, OPS[op], _fold_axes(x, axis), keepdim, reverse, mask, initial, dtype)


def linear_sum(x, weight, bias=None, scale=1.0, *, keep_weight=False):
    """The sum of linear(x, weight, bias) over its output features, times scale. The matrix product
    is not computed: the rows of weight are summed first.

    x             a tensor of shape (..., K)
    weight        (N, K)
    bias          (N,), or None
    scale         a number that the sum is multiplied by
    keep_weight   keep the sum of weight's rows, and the sum of bias, from call to call until
                  autograd's version counter says that weight or bias was written. So a call reads x
                  alone. Writes that autograd does not see are not noticed (weight.data, a NumPy
                  view, an optimizer with fused=True, a CUDA graph, a kernel of your own): whoever
                  sets keep_weight promises that there are none. Under torch.compile nothing is
                  kept, except by the backend's own option

    Returns a tensor of x's shape, with the last dimension 1.

    >>> import torch, scanfold.torch
    >>> x, w = torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([[1., 0.], [0., 1.], [1., 1.]])
    >>> scanfold.torch.linear_sum(x, w, scale=0.5)
    tensor([[3.],
            [7.]])
    >>> torch.nn.functional.linear(x, w).sum(1, keepdim=True) * 0.5
    tensor([[3.],
            [7.]])
    """
    scale = float(scale)
    if _is_compiling():
        return torch.ops.scanfold.linear_sum(x, weight, bias, scale)
    try:
        y = _c_try(_linear_sum_expression(bias is not None, scale), (x, weight) if bias is None else (x, weight, bias), 6 if keep_weight else 0)
    except ValueError:
        _check_linear(x, weight, bias)
        raise
    if type(y) is not int:
        return y
    if y == RECORD:
        return _record_linear_sum(x, weight, bias, scale, keep_weight)
    _refuse_nested(x=x, weight=weight, bias=bias)
    if any(map(_is_foreign, (x, weight, bias))):
        return _handed_over(linear_sum, x, weight=weight, bias=bias, scale=scale,
                            keep_weight=keep_weight)
    return torch.ops.scanfold.linear_sum(x, weight, bias, scale)


# The formulas below call these. Plain tensors go directly to the library; for others the library
# calls `scan` and `fold` above.
def _scan_op(x, op, axis, reverse=False, exclusive=False, mask=None, initial=None, dtype=None):
    return _c_scan(x, OPS.index(op), axis, reverse, exclusive, mask, initial, dtype, None, False, False)


def _fold_op(x, op, axes, keepdim=False, reverse=False, mask=None, initial=None, dtype=None):
    return _c_fold(x, OPS.index(op), axes, keepdim, reverse, mask, initial, dtype, None, False, False)


def _cast(y, dtype):
    """y in another dtype, with the library's bits: the sum over no axes. torch casts float64 to
    float16 and bfloat16 by way of float32, which rounds twice."""
    return y if y.dtype is dtype else _fold_op(y, "sum", [], dtype=dtype)


# --------------------------------------------------------------------------------------------------
# Checks and conversions of arguments
# --------------------------------------------------------------------------------------------------
def _is_simple(mask, initial, out):
    """Whether no argument other than x may need the dispatcher."""
    if out is not None or mask is not None and not isinstance(mask, Tensor):
        return False
    return initial is None or isinstance(initial, (int, float))


def _is_jagged(x):
    return isinstance(x, Tensor) and x.is_nested and x.layout is _JAGGED


def _is_foreign(x):
    """Whether x is a placeholder for a tensor, such as a torch.fx Proxy, or a jagged tensor, which
    wraps its packed values."""
    return hasattr(type(x), "__torch_function__") and (not isinstance(x, Tensor) or _is_jagged(x))


def _handed_over(function, x, **given):
    """Calls one of our functions with such arguments: by torch's __torch_function__ protocol, or
    with segments for jagged tensors. Arguments that were left out are not passed on."""
    if any(map(_is_jagged, (x, *given.values()))):
        return _torch_jagged.jagged(function, x, **{name: a for name, a in given.items() if a is not None and a is not False})
    function = getattr(sys.modules["scanfold"], function) if isinstance(function, str) else function
    given = {name: a for name, a in given.items() if a is not None and a is not False}
    asked = [a for a in (x, *given.values()) if hasattr(type(a), "__torch_function__")]
    return torch.overrides.handle_torch_function(function, asked, x, **given)


def _refuse_nested(**given):
    for name, tensor in given.items():
        if isinstance(tensor, Tensor) and tensor.is_nested:
            instead = f"{name}.values()" if tensor.layout is _JAGGED else f"{name}.to_padded_tensor(0.0) and a mask, or one of layout=torch.jagged"
            raise TypeError(f"{name} is a nested tensor, which is not taken here: give {instead}")


def _is_plain_number(initial):
    """Whether a tensor of one element can be replaced by its value: it is not recorded by autograd,
    mapped or traced."""
    if _is_compiling() or type(initial) not in (Tensor, torch.nn.Parameter):
        return False
    recorded = initial.requires_grad and torch.is_grad_enabled()
    transformed = _transforms_active() or _forward_ad._current_level >= 0
    traced = _dispatch_modes() or torch.jit.is_tracing()
    return not (recorded or transformed or traced) and initial.device.type in ("cpu", "cuda")


def identity(op, dtype):
    """The identity of an operation, 0 to 3: the value that changes no other value."""
    if op < 2:
        return op
    if dtype.is_floating_point:
        return float("-inf") if op == 2 else float("inf")
    if dtype is torch.bool:
        return op == 3
    return torch.iinfo(dtype).min if op == 2 else torch.iinfo(dtype).max


_COMBINE = torch.add, torch.mul, torch.maximum, torch.minimum


def _from_initial(run, x, op, how, initial, dtype, out):
    """A scan or fold with an initial value that is a tensor. The library too combines the value
    with each result last, on the left. So a torch operator, which has a gradient, gives the same
    bits, except where a product has already left the range of its type. Sums and products are
    combined in the accumulator's type."""
    if initial.numel() != 1:
        raise ValueError(f"initial has shape {tuple(initial.shape)}: a number, or a tensor of one "
                         f"element, is expected")
    if _is_plain_number(initial):
        return run(x, op, *how, initial.item(), dtype, out, False, False)
    made = _result_dtype(x, OPS[op], _dtype(dtype, out))
    if initial.dtype.is_floating_point and not made.is_floating_point:
        raise ValueError(f"initial has dtype {initial.dtype}; for an output of {made} it must be "
                         f"of integers")
    wide = made
    if op < 2 and made.is_floating_point:
        wide = torch.float64 if torch.float64 in (x.dtype, made) else torch.float32
    neutral = None if op < 2 else identity(op, made)  # max and min of no elements need one
    y = run(x, op, *how, neutral, wide, None, False, False)
    y = _cast(_COMBINE[op](initial.reshape(()).to(device=y.device, dtype=wide), y), made)
    return y if out is None else _copied(out, y)


def _scan_axis(x, axis):
    if axis is None:
        if x.dim() > 1:
            raise ValueError(f"axis is needed: x has {x.dim()} dimensions")
        return 0
    return _axis(x.dim(), axis)


def _fold_axes(x, axis):
    if axis is None:
        return list(range(x.dim()))
    several = isinstance(axis, (list, tuple)) or not isinstance(axis, int) and hasattr(axis, "__iter__")
    axes = [_axis(x.dim(), a) for a in axis] if several else [_axis(x.dim(), axis)]
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis is {tuple(axis)}: an axis is named twice")
    return axes


def _mask(x, mask, skip_nan=False):
    """A mask as a tensor, or None; with skip_nan it excludes the elements that are NaN."""
    if skip_nan and x.dtype.is_floating_point:
        mask = _mask(x, mask)
        return x == x if mask is None else (x == x) & mask.bool()
    if mask is None or isinstance(mask, Tensor):
        return mask
    on_cuda = hasattr(mask, "__dlpack_device__") and int(mask.__dlpack_device__()[0]) == CUDA
    if on_cuda:  # unlike as_tensor, it waits for the stream of the mask's library
        return torch.from_dlpack(mask)
    return torch.as_tensor(mask, device=x.device)


def _number(initial):
    if initial is None or isinstance(initial, (int, float)):
        return initial
    return initial.item()


def _dtype(dtype, out=None):
    if dtype is None:
        return None if out is None else out.dtype
    return dtype if isinstance(dtype, torch.dtype) else getattr(torch, name(dtype))


def _checked(out, y):
    if torch.is_grad_enabled() and (y.requires_grad or out.requires_grad):
        raise RuntimeError("out= cannot be recorded by autograd: leave it out, or call under torch.no_grad()")
    _on_one_device(y, out=out)
    if out.shape != y.shape:
        raise ValueError(f"out has shape {tuple(out.shape)}; the result has {tuple(y.shape)}")


def _copied(out, y):
    """y in `out`; or several results in as many arrays, which are checked before one is written."""
    if isinstance(y, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(y):
            raise TypeError(f"out is {type(out)}; for {len(y)} results a tuple of {len(y)} tensors is expected")
        for one, result in zip(out, y):
            _checked(one, result)
        return tuple(one.copy_(result) for one, result in zip(out, y))
    _checked(out, y)
    return out.copy_(y)


# ---------------------------------------------------------------------------------------------------------------
# Kernels and fakes
# ---------------------------------------------------------------------------------------------------------------
def _result_dtype(x, op, dtype):
    if dtype is not None:
        return dtype
    wide = op in ("sum", "prod") and not x.dtype.is_floating_point
    if op == "logsumexp" and not x.dtype.is_floating_point:
        return torch.float32
    return torch.int64 if wide or op in INDICES else x.dtype


def _scan_kernel(x, op, axis, reverse, exclusive, mask, initial, dtype):
    return _c_scan(x, OPS.index(op), axis, reverse, exclusive, mask, initial, dtype, None, True, False)


def _fold_kernel(x, op, axes, keepdim, reverse, mask, initial, dtype):
    return _c_fold(x, OPS.index(op), axes, keepdim, reverse, mask, initial, dtype, None, True, False)


@functools.lru_cache(maxsize=64)  # one expression for each scale, with its plans
def _linear_sum_expression(with_bias, scale):
    # The permutation refuses a weight that is not a matrix.
    program = [("input", "x"), ("input", "weight"), ("permute", 1, [1, 0]), ("matmul", 0, 2)]
    if with_bias:
        # bias @ weight is not an output, so it is not computed. It makes the library refuse a bias
        # whose shape is not (N,) when it plans, which costs later calls nothing.
        program += [("input", "bias"), ("apply", ADD, 3, 4, -1), ("permute", 4, [0]), ("cast", 1, CODES["float32"]), ("matmul", 6, 7)]
    last = len(program)
    return _scanfold.expression_create(program + [
        ("fold", 5 if with_bias else 3, 0, [-1], 1, 0), ("constant", scale), ("apply", MUL, last, last + 1, -1), ("output", last + 2)], 0)


def _differ(a, b):
    """Whether two lengths are known to differ. A symbolic length is not known before the kernel
    runs."""
    return type(a) is int and type(b) is int and a != b


def _is_empty(shape):
    return any(type(n) is int and n == 0 for n in shape)


def _check_linear(x, weight, bias):
    """Checks shapes. The bias must be (N,): one that is broadcast would have another gradient."""
    fits = x.ndim > 0 and weight.ndim == 2 and not _differ(x.shape[-1], weight.shape[1])
    if not fits or bias is not None and (bias.ndim != 1 or _differ(bias.shape[0], weight.shape[0])):
        given = f"x has shape {tuple(x.shape)}, weight {tuple(weight.shape)}" + ("" if bias is None else f", bias {tuple(bias.shape)}")
        raise ValueError(f"{given}; (..., K), (N, K) and (N,) are expected")


def _linear_sum_kernel(x, weight, bias, scale):
    _check_linear(x, weight, bias)
    return _c_run(_linear_sum_expression(bias is not None, scale), (x, weight) if bias is None else (x, weight, bias), 0)


# The dispatcher calls the fake if any tensor is on the meta device. Without this check the result
# of a call with mixed devices would be uninitialized memory.
def _on_one_device(x, **others):
    for argument, tensor in others.items():
        if tensor is not None and tensor.device.type != x.device.type:
            raise ValueError(f"{argument} is on device {tensor.device}, x on {x.device}: they must be on the same one")


def _known(dtype, argument="x"):
    if str(dtype).rpartition(".")[2] not in CODES:
        raise TypeError(f"{argument} has dtype {dtype}: float16, bfloat16, float32, float64, integers and bool are taken")


@functools.lru_cache(maxsize=None)
def _check_pair(op, given, made):
    """Asks the library whether it has this fold for these dtypes. It then has the scan too."""
    program = [("input", "x"), ("fold", 0, OPS.index(op), [0], 0, code(made)), ("output", 1)]
    _scanfold.expression_shapes(_scanfold.expression_create(program, 1), [([1], code(given))])


def _check_mask(x, mask):
    if mask.dtype not in (torch.bool, torch.uint8):
        raise TypeError(f"mask has dtype {mask.dtype}; it must be bool or uint8")
    lengths = zip(reversed(mask.shape), reversed(x.shape))
    if mask.dim() > x.dim() or any(_differ(m, 1) and _differ(m, n) for m, n in lengths):
        raise ValueError(f"mask has shape {tuple(mask.shape)}; it must be broadcastable to x's shape {tuple(x.shape)}")


def _fake_dtype(x, op, mask, initial, dtype):
    """The result's dtype. Raises an error if the library would not accept the arguments."""
    _known(x.dtype)
    _on_one_device(x, mask=mask)
    made = _result_dtype(x, op, dtype)
    _check_pair(op, x.dtype, made)
    if mask is not None:
        _check_mask(x, mask)
    if type(initial) is float and not made.is_floating_point and not initial.is_integer():
        raise ValueError(f"initial is {initial}; for an output of {made} it must be an integer in that type's range")
    return made


def _scan_fake(x, op, axis, reverse, exclusive, mask, initial, dtype):
    return torch.empty_like(x, dtype=_fake_dtype(x, op, mask, initial, dtype))


def _fold_shape(x, axes, keepdim):
    axes = [a % max(x.dim(), 1) for a in axes]
    if keepdim:
        return [1 if i in axes else n for i, n in enumerate(x.shape)]
    return [n for i, n in enumerate(x.shape) if i not in axes]


def _fold_fake(x, op, axes, keepdim, reverse, mask, initial, dtype):
    made, shape = _fake_dtype(x, op, mask, initial, dtype), _fold_shape(x, axes, keepdim)
    if op in ("max", "min", *INDICES) and initial is None and _is_empty(x.shape) and not _is_empty(shape):
        instead = "" if op in INDICES else "give an initial one, or "
        raise ValueError(f"{op} of no elements has no value; {instead}fold axes that are not empty")
    return x.new_empty(shape, dtype=made)


def _linear_sum_fake(x, weight, bias, scale):
    given = {"x": x, "weight": weight} if bias is None else {"x": x, "weight": weight, "bias": bias}
    for argument, tensor in given.items():
        _known(tensor.dtype, argument)
    _on_one_device(**given)
    _check_linear(x, weight, bias)
    # The library does not know symbolic lengths: it is asked only for the dtype, with lengths of 1.
    ones = [([1] * tensor.dim(), code(tensor.dtype)) for tensor in given.values()]
    (_, made), = _scanfold.expression_shapes(_linear_sum_expression(bias is not None, scale), ones)
    return x.new_empty(x.shape[:-1] + (1,), dtype=DTYPES[made])


# ---------------------------------------------------------------------------------------------------------------
# Autograd. Each formula is composed of these operators and of torch's own, so that it can be
# differentiated again.
# ---------------------------------------------------------------------------------------------------------------
def _selected(mask, x, instead):
    return x if mask is None else torch.where(mask.bool(), x, torch.full((), instead, dtype=x.dtype, device=x.device))


def _at_once(expression, *inputs):
    """The results of an expression in as few passes as it needs; None if the tensors need the
    dispatcher or a gradient, as when a gradient is itself differentiated."""
    results = _c_try(expression, inputs, 0)
    return None if type(results) is int else results


@functools.lru_cache(maxsize=64)
def _masked_gradient(axis, reverse, exclusive, dtype):
    """where(mask, scan(g), 0)"""
    return _scanfold.expression_create([("input",), ("input",), ("scan", 0, 0, axis, int(reverse), int(exclusive), -1, dtype),
                                        ("constant", 0), ("apply", WHERE, 1, 2, 3), ("output", 4)], 1)


def _scan_setup(ctx, inputs, output):
    x, op, axis, reverse, exclusive, mask, initial, dtype = inputs
    if op in INDICES:
        ctx.mark_non_differentiable(output)
    elif op != "sum" or mask is not None:  # a sum without a mask needs nothing saved
        ctx.save_for_backward(x if op != "sum" else None, mask, output if op == "logsumexp" else None)
        ctx.save_for_forward(None, mask, None)
    ctx.op, ctx.axis, ctx.reverse, ctx.exclusive, ctx.initial, ctx.dtype = op, axis, reverse, exclusive, initial, x.dtype
    ctx.made = output.dtype


def _scan_backward(ctx, grad):
    # Read saved_tensors only once: under activation checkpointing each read recomputes them.
    x, mask, y = ctx.saved_tensors or (None, None, None)
    axis, reverse = ctx.axis, ctx.reverse
    if grad.dim() == 0:  # one line of one element
        reverse = False
    if ctx.op == "sum":
        # y[i] is the sum of x[j] for j <= i, so the gradient of x[j] is the sum of g[i] for i >= j:
        # a scan in the other direction. That of an exclusive scan is exclusive too.
        dx = None
        if mask is not None and grad.dim():
            dx = _at_once(_masked_gradient(axis, not reverse, ctx.exclusive, code(ctx.dtype)), grad, mask.bool())
        if dx is None:
            dx = _selected(mask, _scan_op(grad, "sum", axis, not reverse, ctx.exclusive, dtype=ctx.dtype), 0)
    elif ctx.op == "prod":
        dx = _scan_prod_backward(ctx, x, mask, grad)
    elif ctx.op == "logsumexp":
        dx = _scan_exponentials_backward(ctx, x, mask, y, grad)
    else:
        dx = _scan_extreme_backward(ctx, x, mask, grad)
    return dx, None, None, None, None, None, None, None


def _only_sums(ctx):
    if ctx.op != "sum":
        raise NotImplementedError(f"forward-mode differentiation of {ctx.op} is not there, of sums "
                                  f"only: use reverse mode (grad, vjp, jacrev)")


def _scan_jvp(ctx, dx, *_):
    """A sum is linear, so its derivative is the scan of the tangent."""
    if ctx.op in INDICES:
        return None
    _only_sums(ctx)
    _, mask, _ = ctx.saved_tensors or (None, None, None)
    return _scan_op(dx, "sum", ctx.axis, ctx.reverse, ctx.exclusive, mask, None, ctx.made)


def _shifted(g, axis):
    """The gradient of an exclusive scan's results as one of the inclusive scan's: result i of the
    former is result i - 1 of the latter."""
    n = g.shape[axis]
    return torch.cat((g.narrow(axis, 1, n - 1), torch.zeros_like(g.narrow(axis, 0, 1))), axis) if n else g


def _scan_prod_backward(ctx, x, mask, grad):
    """dx[j] = (product before j) * S[j], with S[j] = g[j] + x[j+1] * S[j+1]. It is computed by
    torch's own function, which handles zeros."""
    shape, axis, flip = x.shape, ctx.axis, ctx.reverse and grad.dim() > 0
    if grad.dim() == 0:
        x, grad = x.reshape(1), grad.reshape(1)
    kept = _selected(mask, x, 1).to(grad.dtype)
    g = grad if ctx.initial is None else grad * ctx.initial
    if flip:
        kept, g = kept.flip(axis), g.flip(axis)
    if ctx.exclusive:
        g = _shifted(g, axis)
    dx = torch.ops.aten.cumprod_backward(g, kept, axis, _scan_op(kept, "prod", axis))
    if flip:
        dx = dx.flip(axis)
    return _selected(mask, dx.to(ctx.dtype), 0).reshape(shape)


def _scan_extreme_backward(ctx, x, mask, grad):
    """The gradient of each result goes to the element it came from; among equal elements to the
    last one, as in torch.cummax."""
    shape, axis, flip = x.shape, ctx.axis, ctx.reverse and grad.dim() > 0
    if grad.dim() == 0:
        x, grad = x.reshape(1), grad.reshape(1)
    g, values = grad, x.detach()
    kept = None if mask is None else torch.broadcast_to(mask.bool(), shape).reshape(x.shape)
    if flip:
        g, values = g.flip(axis), values.flip(axis)
        kept = None if kept is None else kept.flip(axis)
    if ctx.exclusive:
        g = _shifted(g, axis)
    n = values.shape[axis]
    best = _scan_op(values, ctx.op, axis, mask=kept, initial=ctx.initial)
    came = (values == best) | (values.isnan() & best.isnan())
    if kept is not None:
        came = came & kept
    sizes = [1] * values.dim()
    sizes[axis] = n
    position = torch.where(came, torch.arange(n, device=x.device).reshape(sizes), -1)
    position = _scan_op(position, "max", axis)
    # A position below 0 means that the initial value is the result.
    g = torch.where(position < 0, torch.zeros((), dtype=g.dtype, device=g.device), g)
    dx = torch.zeros_like(g).scatter_add(axis, position.clamp(min=0), g)
    if flip:
        dx = dx.flip(axis)
    return dx.to(ctx.dtype).reshape(shape)


def _logarithm(g):
    """log(g) where g is positive, -inf elsewhere. Its derivative is never NaN."""
    return torch.where(g > 0, torch.where(g > 0, g, 1).log(), -math.inf)


def _scan_exponentials_backward(ctx, x, mask, y, grad):
    """dx[j] is the sum of g[i] exp(x[j] - y[i]) for i >= j. It is computed by logarithms,
    separately for the positive and for the negative part of g, so that no intermediate value
    overflows. A result y[i] of -inf adds nothing."""
    shape = x.shape
    x, y, grad = (t.reshape(1) if t.dim() == 0 else t for t in (x.to(grad.dtype), y, grad))
    reverse = ctx.reverse if len(shape) else False

    def part(g):
        logs = torch.where(y == -math.inf, -math.inf, _logarithm(g) - torch.where(y == -math.inf, 0, y))
        return (_scan_op(logs, "logsumexp", ctx.axis, not reverse, ctx.exclusive) + x).exp()
    return _selected(mask, (part(grad) - part(-grad)).to(ctx.dtype).reshape(shape), 0)


def _fold_setup(ctx, inputs, output):
    x, op, axes, keepdim, reverse, mask, initial, dtype = inputs
    if op in INDICES:
        ctx.mark_non_differentiable(output)
    elif op != "sum" or mask is not None:
        ctx.save_for_backward(x if op != "sum" else None, mask, output if op in ("max", "min", "logsumexp") else None)
        ctx.save_for_forward(x if op == "logsumexp" else None, mask, output if op == "logsumexp" else None)
    ctx.op, ctx.keepdim, ctx.initial, ctx.dtype, ctx.shape = op, keepdim, initial, x.dtype, x.shape
    ctx.reverse, ctx.made = reverse, output.dtype
    ctx.axes = [a % max(x.dim(), 1) for a in axes] if x.dim() else []


def _fold_jvp(ctx, dx, *_):
    if ctx.op in INDICES:
        return None
    x, mask, y = ctx.saved_tensors or (None, None, None)
    if ctx.op == "logsumexp":
        dx = dx * _shares(x, _kept_dims(y, ctx.axes, ctx.keepdim))
    else:
        _only_sums(ctx)
    return _fold_op(dx, "sum", ctx.axes, ctx.keepdim, ctx.reverse, mask, None, ctx.made)


def _kept_dims(t, axes, keepdim):
    if not keepdim:
        for axis in sorted(axes):
            t = t.unsqueeze(axis)
    return t


def _shares(x, y):
    """The share of each element in a sum of exponentials. If all elements are -inf, all shares are
    0."""
    return (x.to(y.dtype) - torch.where(y == -math.inf, 0, y)).exp()


def _fold_backward(ctx, grad):
    x, mask, y = ctx.saved_tensors or (None, None, None)
    g = _kept_dims(grad, ctx.axes, ctx.keepdim)
    if ctx.op == "sum":
        dx = _selected(mask, (g if g.dtype is ctx.dtype else g.to(ctx.dtype)).expand(ctx.shape), 0)
    elif ctx.op == "prod":
        dx = _fold_prod_backward(ctx, x, mask, g)
    elif ctx.op == "logsumexp":
        dx = _selected(mask, (g * _shares(x, _kept_dims(y, ctx.axes, ctx.keepdim))).to(ctx.dtype), 0)
    else:
        # Equal elements share the gradient, as in torch.amax. Where the result is NaN, so is every
        # gradient. Where the initial value is the result, the gradient is 0.
        best = _kept_dims(y, ctx.axes, ctx.keepdim)
        lost = best.isnan()
        came = (x == best) | lost
        if mask is not None:
            came = came & mask.bool()
        share = came.sum(ctx.axes, keepdim=True) if ctx.axes else came.to(torch.int64)
        share = share.clamp(min=1).to(g.dtype).masked_fill(lost, math.nan)
        zero = torch.zeros((), dtype=g.dtype, device=g.device)
        dx = torch.where(came, g / share, zero).to(ctx.dtype)
    return dx, None, None, None, None, None, None, None


def _fold_prod_backward(ctx, x, mask, g):
    """The derivative by an element is the product of all others: those before it, times those after
    it. There is no division, so zeros need no special case."""
    kept = _selected(mask, x, 1).to(g.dtype)
    if not ctx.axes:
        dx = torch.ones_like(kept)
    else:
        stay = [d for d in range(x.dim()) if d not in ctx.axes]
        order = stay + sorted(ctx.axes)
        moved = kept.permute(order)
        rows = moved.reshape([kept.shape[d] for d in stay] + [math.prod(kept.shape[d] for d in sorted(ctx.axes))])
        others = _scan_op(rows, "prod", len(stay), False, True) * _scan_op(rows, "prod", len(stay), True, True)
        back = [order.index(d) for d in range(x.dim())]
        dx = others.reshape(moved.shape).permute(back)
    dx = dx * g if ctx.initial is None else dx * (g * ctx.initial)
    return _selected(mask, dx.to(ctx.dtype), 0)


def _linear_sum_setup(ctx, inputs, output):
    x, weight, bias, scale = inputs[:4]
    ctx.save_for_backward(x, weight, bias)
    ctx.save_for_forward(x, weight)
    ctx.scale = scale


def _linear_sum_jvp(ctx, dx, dw, db, *_):
    """linear_sum is linear in x, and linear in weight and bias together."""
    x, weight = ctx.saved_tensors
    parts = [] if dx is None else [linear_sum(dx, weight, None, ctx.scale)]
    if dw is not None or db is not None:
        parts.append(linear_sum(x, torch.zeros_like(weight) if dw is None else dw, db, ctx.scale))
    return functools.reduce(torch.add, parts)


def _linear_sum_backward(ctx, grad):
    x, weight, bias = ctx.saved_tensors
    wanted = ctx.needs_input_grad[:2] + (bias is not None and ctx.needs_input_grad[2],)
    parts = None
    if x.dim() > 1 and grad.dtype == x.dtype == weight.dtype == (weight if bias is None else bias).dtype:
        expression = _linear_sum_gradient(x.dim(), ctx.scale, x.dtype, *wanted)
        parts = _at_once(expression, grad, x, weight)
    if parts is None:
        parts = _linear_sum_parts(ctx.scale, wanted, grad, x, weight, bias)
    parts = iter(parts if type(parts) is list else [parts])
    dx, dw, db = (next(parts) if w else None for w in wanted)
    return dx, dw if dw is None else dw.expand(weight.shape), db if db is None else db.expand(bias.shape), None


# The next two functions give those that are wanted of dx, the row that is repeated in dw, and the
# value that is repeated in db. The column sums of weight may overflow its type where dx does not,
# so they are computed and multiplied in a wider type.
@functools.lru_cache(maxsize=64)
def _linear_sum_gradient(ndim, scale, dtype, for_x, for_weight, for_bias):
    g, rows, wide = 4, list(range(ndim - 1)), code(WIDER.get(dtype, dtype))
    program = [("input",), ("input",), ("input",), ("constant", scale), ("apply", MUL, 0, 3, -1)]
    if for_x:
        at = len(program)
        program += [("cast", 2, wide), ("fold", at, 0, [0], 0, 0), ("cast", g, wide),
                    ("apply", MUL, at + 2, at + 1, -1), ("cast", at + 3, code(dtype)),
                    ("output", at + 4)]
    if for_weight:
        program += [("apply", MUL, g, 1, -1), ("fold", len(program), 0, rows, 0, 0), ("output", len(program) + 1)]
    if for_bias:
        program += [("fold", g, 0, rows + [ndim - 1], 0, 0), ("output", len(program))]
    return _scanfold.expression_create(program, 1)


def _linear_sum_parts(scale, wanted, grad, x, weight, bias):
    g = grad if scale == 1.0 else grad * scale
    parts = []
    if wanted[0]:
        wide = WIDER.get(weight.dtype, weight.dtype)
        parts.append((g.to(wide) * _fold_op(weight, "sum", [0], dtype=wide)).to(x.dtype))
    if wanted[1]:
        parts.append(_fold_op(g * x, "sum", list(range(x.dim() - 1))).to(weight.dtype))
    if wanted[2]:
        parts.append(_fold_op(g, "sum", list(range(g.dim()))).to(bias.dtype))
    return parts


# ---------------------------------------------------------------------------------------------------------------
# vmap: the mapped dimension becomes the first, so all axes are shifted by one
# ---------------------------------------------------------------------------------------------------------------
def _batched(t, d, size, dims):
    """t with its mapped dimension first, followed by at least `dims` dimensions. If t is not
    mapped, it is expanded."""
    t = t.expand(size, *t.shape) if d is None else t.movedim(d, 0)
    missing = dims - (t.dim() - 1)
    return t.reshape(t.shape[:1] + (1,) * missing + t.shape[1:]) if missing > 0 else t


def _mapped(size, in_dims, x, mask):
    xd, md = in_dims
    dims = x.dim() - (xd is not None)
    if xd is None and md is None:
        return x, mask, dims
    x = _batched(x, xd, size, dims)
    if mask is not None and md is not None:
        mask = _batched(mask, md, size, dims)
    return x, mask, dims


def _scan_vmap(size, in_dims, x, op, axis, reverse, exclusive, mask, initial, dtype):
    x, mask, dims = _mapped(size, (in_dims[0], in_dims[5]), x, mask)
    if dims == 0:  # each sample is one element: scan it as a line of length 1
        mask = mask if mask is None or mask.dim() == 0 else mask.unsqueeze(-1)
        return _scan_op(x.unsqueeze(-1), op, 1, reverse, exclusive, mask, initial, dtype).squeeze(-1), 0
    return _scan_op(x, op, axis % dims + 1, reverse, exclusive, mask, initial, dtype), 0


def _fold_vmap(size, in_dims, x, op, axes, keepdim, reverse, mask, initial, dtype):
    x, mask, dims = _mapped(size, (in_dims[0], in_dims[5]), x, mask)
    axes = [a % dims + 1 for a in axes] if dims else []
    return _fold_op(x, op, axes, keepdim, reverse, mask, initial, dtype), 0


def _linear_sum_vmap(size, in_dims, x, weight, bias, scale):
    xd, wd, bd, _ = in_dims
    if wd is None and bd is None:
        return linear_sum(x.movedim(xd, 0), weight, bias, scale), 0
    x = _batched(x, xd, size, 1)
    columns = _fold_op(_batched(weight, wd, size, 2), "sum", [1])  # (size, K)
    columns = columns.reshape(columns.shape[:1] + (1,) * (x.dim() - 2) + columns.shape[1:])
    y = _fold_op(x * columns, "sum", [x.dim() - 1], True)
    if bias is not None:
        total = _fold_op(_batched(bias, bd, size, 1), "sum", [1])
        y = y + total.reshape(total.shape + (1,) * (y.dim() - 1))
    return y * scale, 0


# ---------------------------------------------------------------------------------------------------------------
# Autocast: torch widens sums and products to float32 on CUDA; on the CPU it leaves them as they are, except prod.
# ---------------------------------------------------------------------------------------------------------------
_exclude_keys = getattr(torch._C, "_ExcludeDispatchKeyGuard", None) or torch._C.ExcludeDispatchKeyGuard


@contextlib.contextmanager
def _held(guard):
    """One of torch's guards as a context manager. In torch 2.0 a guard is active while the object
    exists."""
    if hasattr(guard, "__enter__"):
        with guard:
            yield
    else:
        yield


_WIDENED = {"sum", "prod", *_applied.__all__}


def _autocast(op_name, key, widens):
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def call(*args):
        args = list(args)
        if widens(args) and args[0].dtype in (torch.float16, torch.bfloat16):
            args[0] = args[0].to(torch.float32)
            if op_name == "linear_sum":
                args[1:3] = [t if t is None else t.to(torch.float32) for t in args[1:3]]
        with _held(_exclude_keys(keys)):
            return getattr(torch.ops.scanfold, op_name)(*args)
    return call


def _widens_cuda(args):
    return not isinstance(args[1], str) or (args[1] in _WIDENED and args[-1] is None)


def _widens_cpu(args):
    return isinstance(args[1], str) and args[1] == "prod" and args[-1] is None and isinstance(args[2], (list, tuple))


# ---------------------------------------------------------------------------------------------------------------
# Registration
# ---------------------------------------------------------------------------------------------------------------
def _recorded(name, run, setup, backward, jvp):
    """The apply method of a new autograd.Function, without the part of it that handles torch.func.
    The dispatcher has already handled torch.func when it calls this, or the C extension knows that
    no transform is active. It does not use setup_context, with which torch binds the arguments by
    signature: that doubles the time of a call."""
    def forward(ctx, *inputs):
        y = run(*inputs)
        setup(ctx, inputs, y)
        return y
    rules = {"forward": forward, "backward": backward, "jvp": jvp}
    rules = {rule: staticmethod(f) for rule, f in rules.items()}
    function = type(name, (torch.autograd.Function,), rules)
    return super(torch.autograd.Function, function).apply


@contextlib.contextmanager
def _below_autograd():
    with _held(torch._C._AutoDispatchBelowAutograd()):
        if not _transforms_active():
            yield
            return
        # The forward of a Function runs without recording, but the next torch.func level may need
        # it.
        with torch.enable_grad(), _forward_ad._set_fwd_grad_enabled(True):
            yield


def _register_autograd(op_name, setup, backward, jvp):
    """Registers the gradient. torch.library.register_autograd is not used, because torch.func and
    forward mode cannot differentiate its operators."""
    op = getattr(torch.ops.scanfold, op_name).default

    def run(*args):
        with _below_autograd():
            return op(*args)
    record = _recorded(f"scanfold_{op_name}_", run, setup, backward, jvp)

    def call(*args):
        if not _transforms_active():
            return record(*args)
        from torch._functorch.utils import enable_single_level_autograd_function
        with enable_single_level_autograd_function():
            return record(*args)
    _lib.impl(op_name, call, "Autograd")


def _register_vmap(op_name, rule):
    """Registers the vmap rule. torch.library.register_vmap is not used: it needs torch 2.5."""
    op = getattr(torch.ops.scanfold, op_name).default
    here = torch._C.DispatchKeySet(torch._C.DispatchKey.FuncTorchBatched)

    def call(*args):
        from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter
        from torch._functorch.vmap import unwrap_batched, wrap_batched
        interpreter = retrieve_current_functorch_interpreter()
        level = interpreter.level()
        given, in_dims = unwrap_batched(args, level)
        mapped = any(isinstance(a, Tensor) and d is not None for a, d in zip(given, in_dims))
        with _held(_exclude_keys(here)):  # the rule's calls are on the next level
            if not mapped:
                return op(*args)
            y, out_dim = rule(interpreter.batch_size(), in_dims, *given)
        return wrap_batched(y, out_dim, level)
    _lib.impl(op_name, call, "FuncTorchBatched")


def _register(op_name, kernel, fake, setup, backward, jvp, vmap, autocasts=True):
    _lib.impl(op_name, kernel, "CPU")
    _lib.impl(op_name, kernel, "CUDA")
    if _OFFICIAL:
        torch.library.register_fake(f"scanfold::{op_name}", fake, lib=_lib)
    else:
        _lib.impl(op_name, fake, "Meta")
    _register_autograd(op_name, setup, backward, jvp)
    _register_vmap(op_name, vmap)
    if autocasts:
        _lib.impl(op_name, _autocast(op_name, "AutocastCUDA", _widens_cuda), "AutocastCUDA")
        _lib.impl(op_name, _autocast(op_name, "AutocastCPU", _widens_cpu), "AutocastCPU")


_register("scan", _scan_kernel, _scan_fake, _scan_setup, _scan_backward, _scan_jvp, _scan_vmap)
_register("fold", _fold_kernel, _fold_fake, _fold_setup, _fold_backward, _fold_jvp, _fold_vmap)
_register("linear_sum", _linear_sum_kernel, _linear_sum_fake, _linear_sum_setup,
          _linear_sum_backward, _linear_sum_jvp, _linear_sum_vmap)

# These bypass the dispatcher, for tensors that are plain except that they need a gradient.
_record_scan = _recorded("scanfold_scan_", _scan_op, _scan_setup, _scan_backward, _scan_jvp)
_record_fold = _recorded("scanfold_fold_", _fold_op, _fold_setup, _fold_backward, _fold_jvp)
_record_linear_sum = _recorded(
    "scanfold_linear_sum_", lambda *inputs: linear_sum(*inputs[:4], keep_weight=inputs[4]),
    _linear_sum_setup, lambda ctx, g: (*_linear_sum_backward(ctx, g), None), _linear_sum_jvp)


# ---------------------------------------------------------------------------------------------------------------
# torch.compile traces Python, not C. These replace the functions of the C extension for it.
# ---------------------------------------------------------------------------------------------------------------
class _AfterImport:
    """Calls a function after a module has been imported. It is a finder in sys.meta_path, which
    every import asks. It lets the other finders find the module, and adds the call after the
    module's code has run."""

    def __init__(self, name, call):
        self.name, self.call = name, call

    def find_spec(self, name, path=None, target=None):
        if name != self.name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_call(module):
                execute(module)
                self.call()
            spec.loader.exec_module = execute_and_call
        return spec


def _scan_or_trace(*args):
    return scan(*args) if _is_compiling() else _c_scan(*args)


def _fold_or_trace(*args):
    return fold(*args) if _is_compiling() else _c_fold(*args)


_compiler, _package = getattr(torch, "compiler", None), sys.modules["scanfold"]
_can_substitute = hasattr(_compiler, "substitute_in_graph")  # since torch 2.5
if not _can_substitute:
    _package._scan, _package._fold = _scan_or_trace, _fold_or_trace


def _tell_dynamo():
    if hasattr(_compiler, "disable"):  # since torch 2.1
        _package._run_untraced = _compiler.disable(_package._run)
    if _can_substitute:
        _compiler.substitute_in_graph(_c_scan, skip_signature_check=True)(scan)
        _compiler.substitute_in_graph(_c_fold, skip_signature_check=True)(fold)


# Imported here, because these modules use the names above.
from . import _pairs, _torch_pairs  # noqa: E402

_pairs._by_torch = _torch_pairs

if "torch._dynamo" in sys.modules:
    _tell_dynamo()
else:
    sys.meta_path.insert(0, _AfterImport("torch._dynamo", _tell_dynamo))

from . import _torch_derived  # noqa: E402,F401  mean etc.; uses the names above
from . import _torch_applied  # noqa: E402,F401  softmax etc.
from . import _torch_jagged, _torch_segments  # noqa: E402  jagged tensors, and segments

for _public in (scan, fold, linear_sum):
    _complete(_public)
_package._look_for_torch()  # if that was imported first
