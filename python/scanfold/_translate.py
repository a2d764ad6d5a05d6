"""Translates aten operators into instructions of an expression (python/scanfold/_programs.h), and
instructions back into torch operators.

A function that cannot translate an operator exactly returns None: the operator is then left to
Inductor or eager mode.
"""
import json
import math
import operator

import torch
import torch._prims  # noqa: F401  registers torch.ops.prims

from ._dtypes import CODES
from .torch import DTYPES, INDICES, OPS, identity

aten = torch.ops.aten

ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM, NEG, ABS, EXP, LOG, SQRT, SQUARE, RELU, SIGMOID, TANH, EQ, NE, LT, LE, GT, GE, WHERE = range(22)
SLICE_END = -2**63

_BINARY = {"add": ADD, "sub": SUB, "mul": MUL, "div": DIV, "maximum": MAXIMUM, "minimum": MINIMUM, "eq": EQ, "ne": NE, "lt": LT,
           "le": LE, "gt": GT, "ge": GE}
_UNARY = {"neg": NEG, "abs": ABS, "exp": EXP, "log": LOG, "sqrt": SQRT, "relu": RELU, "sigmoid": SIGMOID, "tanh": TANH, "square": SQUARE}

# Our own scan. Only max, min and indices are translated: the bits of a sum that a user asked us for
# must not change, and a rewrite might change them.
OURS = torch.ops.scanfold.scan.default
SCANS = {aten.cumsum.default: 0, aten.cumprod.default: 1, aten.logcumsumexp.default: 8, OURS: None}
FOLDS = {aten.sum.dim_IntList: 0, aten.sum.default: 0, aten.prod.dim_int: 1, aten.prod.default: 1, aten.amax.default: 2,
         aten.amin.default: 3, aten.max.default: 2, aten.min.default: 3, aten.argmax.default: 4, aten.argmin.default: 5, aten.logsumexp.default: 8, aten.mean.dim: None,
         aten.mean.default: None}
# Folds that are composed of others: (their number in sf_derived, the position of the axes among the
# arguments, or None if they always fold all axes).
VAR, STD, NORM, ANY, ALL, COUNT = 1, 2, 7, 8, 9, 10
DERIVED = {aten.var.correction: (VAR, 1), aten.std.correction: (STD, 1), aten.linalg_vector_norm.default: (NORM, 2),
           aten.any.default: (ANY, None), aten.any.dim: (ANY, 1), aten.all.default: (ALL, None), aten.all.dim: (ALL, 1),
           aten.count_nonzero.default: (COUNT, 1), aten.count_nonzero.dim_IntList: (COUNT, 1)}
DERIVED.update({getattr(getattr(aten, name), "dims"): (what, 1) for name, what in (("any", ANY), ("all", ALL)) if hasattr(getattr(aten, name), "dims")})
FOLDS.update(dict.fromkeys(DERIVED))
FOLDS[aten.nansum.default] = 0
MATMULS = {aten.mm.default, aten.addmm.default}
FLIPS = {aten.flip.default, torch.ops.prims.rev.default}  # Inductor turns flip into rev
CASTS = {torch.ops.prims.convert_element_type.default, aten._to_copy.default}
RESHAPES = {aten.view.default, aten._unsafe_view.default}
VIEWS = {aten.permute.default, aten.t.default, aten.transpose.int, aten.squeeze.dim, aten.unsqueeze.default, aten.expand.default,
         aten.slice.Tensor, aten.select.int}


def dtype_code(dtype):
    return CODES.get(str(dtype).rpartition(".")[2])


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, torch.SymInt)


def _is_integer(dtype):
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


def fits(number, dtype):
    """Whether a tensor of this dtype can hold a number, without its fraction. If not, most of
    torch's functions raise an error."""
    if not _is_integer(dtype):
        return True
    return math.isfinite(number) and torch.iinfo(dtype).min <= int(number) <= torch.iinfo(dtype).max


def wrapped(number, dtype):
    """The number that torch's arithmetic and comparisons with a tensor use: an integer wraps around
    in the tensor's dtype. (The library uses the number's value.)"""
    if not isinstance(number, int) or not _is_integer(dtype):
        return number
    least = torch.iinfo(dtype).min
    return (number - least) % 2**torch.iinfo(dtype).bits + least


def constant(node):
    """The value of a tensor of no dimensions, such as torch.where makes from a number; None for
    other nodes, and if a number in its place would change the dtype of a result."""
    full = node.target is aten.full.default and list(node.args[0]) == []
    if node.op != "call_function" or not (full or node.target is aten.scalar_tensor.default):
        return None
    value, dtype = node.args[1 if full else 0], node.meta["val"].dtype
    if not is_number(value) or not fits(value, dtype):
        return None
    users = node.users
    if dtype is torch.bool or any(u.op == "output" or u.meta["val"].dtype != dtype for u in users):
        return None
    return float(value) if dtype.is_floating_point else value if isinstance(value, int) else None


_FILLED = {aten.full.default: 1, aten.zeros.default: 0.0, aten.ones.default: 1.0, aten.zeros_like.default: 0.0, aten.ones_like.default: 1.0,
           aten.full_like.default: 1, aten.new_zeros.default: 0.0, aten.new_ones.default: 1.0, aten.new_full.default: 2}


def filled(node):
    """The number that a tensor of any shape is filled with, or None."""
    found = _FILLED.get(node.target) if node.op == "call_function" else None
    value = node.args[found] if type(found) is int else found  # an int is an argument's position
    if not is_number(value) or isinstance(value, bool):
        return None
    return value if fits(value, node.meta["val"].dtype) else None


def lengthened(node):
    """(x, axis, number, first) if the node is x with one more position along an axis that is filled
    with a number; else None. `first` says whether it is the first position or the last."""
    if node.target not in (aten.cat.default, aten.constant_pad_nd.default) or node.kwargs or dtype_code(node.meta["val"].dtype) in (None, CODES["bool"]):
        return None
    if node.target is aten.constant_pad_nd.default:
        x, pad = node.args[:2]
        number = node.args[2] if len(node.args) > 2 else 0
        if not _ints(pad) or sorted(pad) != [0] * (len(pad) - 1) + [1] or not is_number(number) \
                or not fits(number, node.meta["val"].dtype):
            return None
        at = list(pad).index(1)  # pad has a pair for each axis, the last axis first
        return x, len(shape_of(x)) - 1 - at // 2, number, at % 2 == 0
    if len(node.args[0]) != 2:
        return None
    parts, form = node.args[0], node.meta["val"]
    axis = (node.args[1] if len(node.args) > 1 else 0) % len(form.shape)
    for first, (fill, x) in ((True, parts), (False, reversed(parts))):
        short = fill.meta["val"].shape
        if filled(fill) is not None and filled(x) is None and len(short) == len(form.shape) and type(short[axis]) is int and short[axis] == 1 \
                and len(shape_of(x)) == len(form.shape) and fill.meta["val"].dtype == x.meta["val"].dtype == form.dtype:
            return x, axis, filled(fill), first
    return None


class Program:
    """A list of instructions, built node by node. Nodes that are not translated become inputs."""

    def __init__(self):
        self.instructions, self.inputs, self.place = [], [], {}

    def add(self, *instruction):
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def take(self, node):
        """The number of a node's instruction. A node that was not translated becomes a constant, or
        else an input."""
        if node not in self.place:
            number = constant(node)
            self.place[node] = self.add("input") if number is None else self.add("constant", number)
            if number is None:
                self.inputs.append(node)
        return self.place[node]

    def value(self, argument):
        """The number of the instruction of an operand, which is a node or a number."""
        if isinstance(argument, torch.fx.Node):
            return self.take(argument)
        return self.add("constant", argument)

    def text(self):
        return json.dumps(self.instructions, separators=(",", ":"))


def shape_of(node):
    return node.meta["val"].shape


def _ints(values):
    return all(type(v) is int for v in values)


def _all_axes(node):
    return list(range(len(shape_of(node))))


# x ** p. The cube is rounded twice; torch's own is rounded once.
_POWERS = {2: lambda program, x: program.add("apply", SQUARE, x, -1, -1), 0.5: lambda program, x: program.add("apply", SQRT, x, -1, -1),
           1: lambda program, x: x, 3: lambda program, x: program.add("apply", MUL, program.add("apply", SQUARE, x, -1, -1), x, -1)}


def rounds_differently(node):
    """Whether torch rounds once where an expression rounds twice. Then it cannot be used if exact
    results are asked for."""
    return _is_fma(node) or node.target is aten.pow.Tensor_Scalar and node.args[1] == 3


def _is_fma(node):
    """Whether a node is prims::fma, an operator that exists only once Inductor is imported."""
    return node.target._schema.name == "prims::fma" if isinstance(node.target, torch._ops.OpOverload) else False


def _fma(program, node):
    a, b, c = node.args
    product = program.add("apply", MUL, program.value(a), program.value(b), -1)
    return program.add("apply", ADD, product, program.value(c), -1)


def _elementwise(program, node, name, overload):
    args = node.args
    if name == "rsub" and len(args) == 2:
        name, args = "sub", args[::-1]
    if name in _BINARY and overload in ("Tensor", "Scalar", "default") and len(args) == 2 and not node.kwargs:
        if not all(is_number(a) or isinstance(a, torch.fx.Node) for a in args):
            return None
        if name != "div":  # division converts integers to reals first
            args = [wrapped(a, b.meta["val"].dtype) if is_number(a) and not is_number(b) else a
                    for a, b in (args, args[::-1])]
        return program.add("apply", _BINARY[name], program.value(args[0]), program.value(args[1]), -1)
    if name == "logical_not" and args[0].meta["val"].dtype is torch.bool:
        return program.add("apply", EQ, program.take(args[0]), program.add("constant", 0), -1)
    if name in _UNARY and len(args) == 1 and not node.kwargs:
        return program.add("apply", _UNARY[name], program.take(args[0]), -1, -1)
    if name == "pow" and overload == "Tensor_Scalar" and args[1] in _POWERS and (args[1] == 2 or node.meta["val"].dtype.is_floating_point):
        return _POWERS[args[1]](program, program.take(args[0]))
    if name == "rsqrt" and node.args[0].meta["val"].dtype.is_floating_point:
        return program.add("apply", DIV, program.add("constant", 1.0), program.add("apply", SQRT, program.take(args[0]), -1, -1), -1)
    if name == "where" and overload == "self":
        return program.add("apply", WHERE, *[program.take(a) for a in args])
    if name == "clamp_min" and overload == "default":
        name = "clamp"
    if name == "clamp" and overload == "default" and len(args) in (2, 3) \
            and all(a is None or is_number(a) and fits(a, node.meta["val"].dtype)
                    for a in args[1:]):
        x = program.take(args[0])
        for function, bound in zip((MAXIMUM, MINIMUM), args[1:]):
            if bound is not None:
                x = program.add("apply", function, x, program.add("constant", bound), -1)
        return x
    return None


def _cast(program, node):
    if node.target is torch.ops.prims.convert_element_type.default:
        dtype = node.args[1]
    elif set(node.kwargs) == {"dtype"} and len(node.args) == 1:
        dtype = node.kwargs["dtype"]
    else:
        return None
    code = dtype_code(dtype)
    return None if code is None else program.add("cast", program.take(node.args[0]), code)


def _view(program, node):
    target, args = node.target, node.args
    plain = [a for a in args[1:] if not isinstance(a, (list, tuple)) and not (a is None and target is aten.slice.Tensor)]
    if not isinstance(args[0], torch.fx.Node) or not _ints(plain):
        return None
    dims = len(shape_of(args[0]))
    x = program.take
    if target in FLIPS:
        return program.add("flip", x(args[0]), list(args[1]))
    if target is aten.permute.default:
        return program.add("permute", x(args[0]), list(args[1]))
    if target is aten.t.default:
        return program.add("permute", x(args[0]), list(range(dims))[::-1])
    if target is aten.transpose.int:
        axes = list(range(dims))
        a, b = args[1] % dims, args[2] % dims
        axes[a], axes[b] = axes[b], axes[a]
        return program.add("permute", x(args[0]), axes)
    if target is aten.squeeze.dim:
        if shape_of(args[0])[args[1]] != 1:
            return None
        return program.add("squeeze", x(args[0]), args[1])
    if target is aten.unsqueeze.default:
        return program.add("unsqueeze", x(args[0]), args[1])
    if target is aten.expand.default:
        return program.add("broadcast", x(args[0]), list(args[1])) if _ints(args[1]) else None
    if target is aten.select.int:
        return program.add("select", x(args[0]), args[1], args[2])
    if target is aten.slice.Tensor:
        axis, start, stop, step = (list(args[1:]) + [0, None, None, 1][len(args) - 1:])[:4]
        if stop is not None and stop >= 2**62:
            stop = None
        return program.add("slice", x(args[0]), axis, SLICE_END if start is None else start, SLICE_END if stop is None else stop, step)
    return None


def _ours(program, node):
    x, op, axis, reverse, exclusive, mask, initial, _ = node.args
    if op not in ("max", "min", *INDICES) or initial is not None or node.kwargs:
        return None
    x, mask = program.take(x), -1 if mask is None else program.take(mask)
    return program.add("scan", x, OPS.index(op), axis, int(reverse), int(exclusive), mask, dtype_code(node.meta["val"].dtype))


def _lengthened(program, node):
    x, axis, number, first = lengthened(node)
    x = program.take(x)
    more = program.add("slice", program.add("like", x, number), axis, 0, 1, 1)
    return program.add("concat", axis, [more, x] if first else [x, more])


def axes_of(fold):
    """The axes that are given to a fold; None or an empty list means all."""
    at = DERIVED[fold.target][1] if fold.target in DERIVED else 1
    named = fold.args[at] if at is not None and len(fold.args) > at else fold.kwargs.get("dim") if at is not None else None
    return [named] if type(named) is int else named


def _derived(program, node):
    what, at = DERIVED[node.target]
    x, made = node.args[0], node.meta["val"].dtype
    given, options = list(node.args), dict(node.kwargs)
    axes = axes_of(node) or _all_axes(x)
    keepdim = options.pop("keepdim", given[at + 1] if at is not None and len(given) > at + 1 else False)
    options.pop("dim", None)
    options.pop("dtype", None)  # the result's dtype is used
    parameter = 0
    if what == NORM:
        parameter = options.pop("ord", given[1] if len(given) > 1 else 2)
    elif what in (VAR, STD):
        parameter = options.pop("correction", None)
        parameter = 1 if parameter is None else parameter
        lengths = [shape_of(x)[a] for a in axes]
        if not _ints(lengths) or not is_number(parameter) or parameter > math.prod(lengths):
            return None  # torch divides by 0; the library refuses it
    if options or not is_number(parameter) or what in (ANY, ALL) and made is not torch.bool or math.isinf(parameter) and _is_empty(x):
        return None
    code = 0 if what in (ANY, ALL, COUNT) else dtype_code(made)
    return program.add("derived", program.take(x), what, axes, int(bool(keepdim)), code, float(parameter))


def _is_empty(node):
    return any(not (type(n) is int and n > 0) for n in shape_of(node))


def _without_nan(program, x):
    """nansum(x) is sum(where(x == x, x, 0))."""
    place = program.take(x)
    if not x.meta["val"].dtype.is_floating_point:
        return place
    numbers = program.add("apply", EQ, place, place, -1)
    return program.add("apply", WHERE, numbers, place, program.add("constant", 0.0))


def _reduction(program, node):
    target, args = node.target, list(node.args)
    if target in DERIVED:
        return _derived(program, node)
    if target is OURS:
        return _ours(program, node)
    if not set(node.kwargs) <= {"dtype"}:
        return None
    # The result's dtype is always given, because the library's default for unsigned integers is
    # unsigned, as in NumPy.
    code, x = dtype_code(node.meta["val"].dtype), args[0]
    if target in SCANS:
        if type(args[1]) is not int:
            return None
        return program.add("scan", program.take(x), SCANS[target], args[1], 0, 0, -1, code)
    axes, keepdim = _all_axes(x), False
    if target not in (aten.sum.default, aten.prod.default, aten.mean.default) and len(args) > 1 and args[1] is not None:
        axes = [args[1]] if type(args[1]) is int else list(args[1])
        axes = axes or _all_axes(x)  # for torch an empty list means all axes
    if len(args) > 2:
        keepdim = args[2]
    if FOLDS[target] is None:
        return program.add("mean", program.take(x), axes, int(keepdim), code)
    place = _without_nan(program, x) if target is aten.nansum.default else program.take(x)
    return program.add("fold", place, FOLDS[target], axes, int(keepdim), code)


def same_length(a, b):
    # Symbolic lengths are equal if their names are.
    return a is b or (type(a) is int and type(b) is int and a == b) or str(a) == str(b)


def reshaped_product(node):
    """(x, w, mm) if the node is x @ w for an x of more than two dimensions, else None. torch
    reshapes x to a matrix, multiplies (mm), and reshapes the product back."""
    if node.target not in RESHAPES or not isinstance(node.args[0], torch.fx.Node):
        return None
    mm = node.args[0]
    if mm.target is not aten.mm.default or mm.kwargs or len(mm.users) != 1:
        return None
    matrix, w = mm.args
    if matrix.target not in RESHAPES or not isinstance(matrix.args[0], torch.fx.Node):
        return None
    x = matrix.args[0]
    before, after = shape_of(x), shape_of(node)
    kept = len(before) == len(after) > 2 and all(map(same_length, before[:-1], after[:-1])) and same_length(before[-1], shape_of(matrix)[1])
    return (x, w, mm) if kept and same_length(after[-1], shape_of(w)[1]) else None


def _matmul(program, node):
    if node.kwargs:
        return None
    if node.target is aten.mm.default:
        return program.add("matmul", program.take(node.args[0]), program.take(node.args[1]))
    bias, a, b = node.args
    product = program.add("matmul", program.take(a), program.take(b))
    return program.add("apply", ADD, product, program.take(bias), -1)


def translate(program, node):
    """Adds a node's instructions to a program. Returns the number of the last one, or None if the
    node cannot be translated."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return None
    if not isinstance(node.meta.get("val"), torch.Tensor) or dtype_code(node.meta["val"].dtype) is None:
        return None
    # torch allows a CPU tensor of no dimensions together with GPU tensors, as if it were a number.
    # All inputs of an expression must be on one device.
    if any(isinstance(n.meta.get("val"), torch.Tensor) and n.meta["val"].device != node.meta["val"].device and constant(n) is None
           for n in node.all_input_nodes):
        return None
    if node.target in SCANS or node.target in FOLDS:
        place = _reduction(program, node)
    elif node.target in MATMULS:
        place = _matmul(program, node)
    elif node.target in RESHAPES:
        found = reshaped_product(node)
        place = found and program.add("matmul", program.take(found[0]), program.take(found[1]))
    elif node.target in FLIPS or node.target in VIEWS:
        place = _view(program, node)
    elif node.target in CASTS:
        place = _cast(program, node)
    elif _is_fma(node):
        place = _fma(program, node)
    elif lengthened(node) is not None:
        place = _lengthened(program, node)
    elif node.target.namespace == "aten":
        name, _, overload = node.target._schema.name.partition("::")[2], None, node.target._overloadname
        place = _elementwise(program, node, name, overload)
    else:
        place = None
    if place is not None:
        program.place[node] = place
    return place


# ---------------------------------------------------------------------------------------------------------------
# The other direction: computes an expression with torch operators. Fake tensors use it, and tests
# compare with it.
# ---------------------------------------------------------------------------------------------------------------
_TORCH = {ADD: torch.add, SUB: torch.sub, MUL: torch.mul, DIV: torch.div, MAXIMUM: torch.maximum, MINIMUM: torch.minimum, NEG: torch.neg,
          ABS: torch.abs, EXP: torch.exp, LOG: torch.log, SQRT: torch.sqrt, SQUARE: torch.square, RELU: torch.relu,
          SIGMOID: torch.sigmoid, TANH: torch.tanh, EQ: operator.eq, NE: operator.ne, LT: operator.lt, LE: operator.le, GT: operator.gt,
          GE: operator.ge, WHERE: torch.where}


def _apply(function, *operands):
    operands = [o for o in operands if o is not None]
    if function in (MAXIMUM, MINIMUM):
        tensor = next(o for o in operands if isinstance(o, torch.Tensor))
        operands = [o if isinstance(o, torch.Tensor) else torch.full((), o, dtype=tensor.dtype, device=tensor.device) for o in operands]
    if isinstance(operands[0], (int, float)) and len(operands) == 2:
        tensor = operands[1]
        operands[0] = torch.full((), operands[0], device=tensor.device)
        return _TORCH[function](*operands).to(torch.result_type(tensor, operands[0])) if function < MAXIMUM else _TORCH[function](*operands)
    return _TORCH[function](*operands)


def _scan_by_torch(x, op, axis, reverse, exclusive, mask, code):
    if op == 8:
        return torch.logcumsumexp(x if code == 0 else x.to(DTYPES[code]), axis)
    if op > 3:
        return (torch.cummax if op % 2 == 0 else torch.cummin)(x, axis).indices
    neutral = identity(op, x.dtype)
    if mask is not None:
        x = torch.where(mask.bool(), x, torch.full((), neutral, dtype=x.dtype, device=x.device))
    x = x.flip(axis) if reverse else x
    if op < 2:
        y = (torch.cumsum if op == 0 else torch.cumprod)(x, axis, dtype=DTYPES.get(code))
    else:
        y = (torch.cummax if op == 2 else torch.cummin)(x, axis).values
    if exclusive:
        first = torch.full_like(y.narrow(axis, 0, 1), neutral)
        y = torch.cat((first, y.narrow(axis, 0, y.shape[axis] - 1)), axis)
    return y.flip(axis) if reverse else y


def _fold_by_torch(x, op, axes, keepdim, code):
    keepdim = bool(keepdim)
    if op == 0:
        return torch.sum(x, axes, keepdim, dtype=DTYPES.get(code))
    if op == 8:
        return torch.logsumexp(x if code == 0 else x.to(DTYPES[code]), axes, keepdim)
    if op > 3:
        return (torch.argmax if op % 2 == 0 else torch.argmin)(x, axes[0] if len(axes) == 1 else None, keepdim)
    if op > 1:
        return (torch.amax if op == 2 else torch.amin)(x, axes, keepdim)
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = torch.prod(x, axis, keepdim, dtype=DTYPES.get(code))
    return x


def _derived_by_torch(x, what, axes, keepdim, code, parameter):
    keepdim = bool(keepdim)
    if what == COUNT:
        return torch.count_nonzero(x, axes)
    if what in (ANY, ALL):
        x = x != 0
        for axis in sorted((a % max(x.dim(), 1) for a in axes), reverse=True) if x.dim() else ():
            x = (torch.any if what == ANY else torch.all)(x, axis, keepdim)
        return x
    if what == NORM:
        return torch.linalg.vector_norm(x, parameter, axes, keepdim, dtype=DTYPES.get(code))
    return (torch.var if what == VAR else torch.std)(x, axes, correction=parameter, keepdim=keepdim)


def interpret(instructions, inputs):
    """The outputs of a program, computed with torch operators."""
    inputs, values, outputs = iter(inputs), [], []
    for name, *a in instructions:
        v = [values[i] if type(i) is int and 0 <= i < len(values) else None for i in a]
        if name == "input":
            y = next(inputs)
        elif name == "constant":
            y = a[0]
        elif name == "like":
            y = torch.full_like(v[0], a[1])
        elif name == "concat":
            y = torch.cat([values[i] for i in a[1]], a[0])
        elif name == "apply":
            y = _apply(a[0], *v[1:])
        elif name == "cast":
            y = v[0].to(DTYPES[a[1]])
        elif name == "flip":
            y = v[0].flip(a[1])
        elif name == "permute":
            y = v[0].permute(a[1])
        elif name == "squeeze":
            y = v[0].squeeze(a[1])
        elif name == "unsqueeze":
            y = v[0].unsqueeze(a[1])
        elif name == "broadcast":
            y = v[0].expand(a[1])
        elif name == "select":
            y = v[0].select(a[1], a[2])
        elif name == "slice":
            start, stop = (None if bound == SLICE_END else bound for bound in a[2:4])
            y = v[0][(slice(None),) * (a[1] % v[0].dim()) + (slice(start, stop, a[4]),)]
        elif name == "scan":
            y = _scan_by_torch(v[0], a[1], a[2], a[3], a[4], v[5], a[6])
        elif name == "fold":
            y = _fold_by_torch(v[0], *a[1:])
        elif name == "mean":
            y = torch.mean(v[0], a[1], bool(a[2]), dtype=DTYPES.get(a[3]))
        elif name == "derived":
            y = _derived_by_torch(v[0], *a[1:])
        elif name == "matmul":
            y = torch.matmul(v[0], v[1])
        elif name == "output":
            y = v[0]
            outputs.append(y)
        else:
            raise ValueError(f"{name} is no instruction")
        values.append(y)
    return outputs
