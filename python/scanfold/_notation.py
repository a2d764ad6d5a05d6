"""Expressions in the library's notation as trees in Python. Derivatives (_derivatives.py) and
batching (OneMore) work on these trees.

The notation is a subset of Python, so Python's parser reads it. str() of a tree is a line of the
notation again. Axes are counted from the end, so that a line means the same for arrays with another
dimension in front.
"""
import ast
import math
import operator

from . import _expression_of, _scanfold
from ._derived import short
from ._dtypes import CODES

# _POSITIONAL: for each function the number of array arguments, and the options that may be given by
# position after them.
_SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "cummean", "cumvar", "cumargmax", "cumargmin", "cumargmax_first",
          "cumargmin_first", "nancumsum", "nancumprod")
_FOLDS = ("sum", "prod", "max", "min", "mean", "sumsq", "any", "all", "count_nonzero", "argmax", "argmin", "argmax_last", "argmin_last",
          "logsumexp", "var", "std", "nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nanargmax", "nanargmin")
_APPLIED = ("softmax", "log_softmax", "standardize")
_POSITIONAL = {
    **{name: (1, ("axis",)) for name in _SCANS + _FOLDS + _APPLIED},
    "norm": (1, ("order", "axis")), "normalize": (1, ("order", "axis")), "linear_recurrence": (2, ("axis",)),
    "layer_norm": (1, ("axis", "weight", "bias", "eps")), "rms_norm": (1, ("axis", "weight", "eps")),
    "spread": (1, ("axis", "length")), "astype": (1, ("dtype",)), "broadcast_to": (1, ("shape",)), "flip": (1, ("axis",)), "unsqueeze": (1, ("axis",)), "squeeze": (1, ("axis",)),
    **{name: (1, ()) for name in ("exp", "log", "sqrt", "square", "abs", "relu", "sigmoid", "tanh", "zeros_like", "ones_like")},
    **{name: (2, ()) for name in ("minimum", "maximum")}, "where": (3, ()), "clamp": (3, ()), "masked_fill": (3, ()), "full_like": (2, ()),
}
_SAME = {"dim": "axis", "keepdims": "keepdim", "ddof": "correction", "ord": "order", "p": "order"}
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
# Options that are printed without their names, if the function takes them by position.
_BY_POSITION = {"axis", "shape", "dtype", "order", "length"}
_DTYPES = {name: name for name in CODES} | {short(name): name for name in CODES}
_NAMES = {code: name for name, code in CODES.items()}


class Node:
    """One value: a function or operator, its arguments, and its options as (name, value) pairs.

    The only argument of an input is its name; that of a number is its value."""
    __slots__ = ("name", "args", "options", "text")

    def __init__(self, name, args, options=()):
        self.name, self.args, self.options = name, args, options
        self.text = self._written()

    def _written(self):
        if self.name == "input":
            return self.args[0]
        if self.name == "number":
            return repr(self.args[0]) if self.args[0] >= 0 or math.isnan(self.args[0]) else f"({self.args[0]!r})"
        if self.name == "negative":
            return f"(-{self.args[0]})"
        if not self.name.isidentifier():
            return f"({self.args[0]} {self.name} {self.args[1]})"
        parts = [str(arg) for arg in self.args]
        for name, value in self.options:
            value = short(value) if name == "dtype" else value
            parts.append(f"{value}" if name in _BY_POSITION and name in _POSITIONAL[self.name][1] else f"{name}={value}")
        return f"{self.name}({', '.join(parts)})"

    def __str__(self):
        return self.text

    def get(self, option, default=None):
        return dict(self.options).get(option, default)

    def but(self, *args, **options):
        """The same function with other arguments or changed options; None removes an option."""
        return call(self.name, *(args or self.args), **{**dict(self.options), **options})

    def children(self):
        if self.name in ("input", "number"):
            return ()
        return self.args + tuple(value for _, value in self.options if isinstance(value, Node))

    def inputs(self):
        """The names of all inputs in the tree."""
        if self.name == "input":
            return {self.args[0]}
        return set().union(*(child.inputs() for child in self.children()))

    def _by(sign, swapped=False):
        def written(self, other):
            pair = (value(other), self) if swapped else (self, value(other))
            if all(one.name == "number" for one in pair) and sign in _ARITHMETIC:
                return value(_ARITHMETIC[sign](pair[0].args[0], pair[1].args[0]))
            return Node(sign, pair)
        return written

    __add__, __sub__, __mul__, __truediv__ = _by("+"), _by("-"), _by("*"), _by("/")
    __radd__, __rsub__, __rmul__, __rtruediv__ = _by("+", True), _by("-", True), _by("*", True), _by("/", True)
    same, differs, __lt__, __le__, __gt__, __ge__ = _by("=="), _by("!="), _by("<"), _by("<="), _by(">"), _by(">=")

    def __neg__(self):
        return Node("negative", (self,))


def value(number):
    return number if isinstance(number, Node) else Node("number", (number,))


def named(name):
    return Node("input", (name,))


def call(function, *args, **options):
    """A call of a function of the notation. Options that are None or False are left out."""
    order = {name: i for i, name in enumerate(_POSITIONAL[function][1])}
    given = [(name, v) for name, v in options.items() if v is not None and v is not False]
    return Node(function, tuple(map(value, args)), tuple(sorted(given, key=lambda pair: (order.get(pair[0], 9), pair[0]))))


# ---------------------------------------------------------------------------------------------------------------
# Reading
# ---------------------------------------------------------------------------------------------------------------
class Unreadable(Exception):
    """The notation allows something that trees do not support. The message names it."""


def parse(line):
    """The results of a line, as trees."""
    try:
        found = ast.parse(line.strip(), mode="eval").body
        return [_tree(one) for one in (found.elts if isinstance(found, ast.Tuple) else [found])]
    except (SyntaxError, AttributeError, LookupError, ValueError):
        # The library's parser accepts spellings that this one does not know.
        raise Unreadable("this line") from None


def _tree(found):
    if isinstance(found, ast.Name):
        return value(float(found.id)) if found.id in ("inf", "nan") else named(found.id)
    if isinstance(found, ast.Constant):
        return value(found.value)
    if isinstance(found, ast.UnaryOp) and isinstance(found.op, ast.USub):
        inner = _tree(found.operand)
        return value(-inner.args[0]) if inner.name == "number" else -inner
    if isinstance(found, ast.BinOp) and isinstance(found.op, ast.Pow) and getattr(found.right, "value", None) == 2:
        return call("square", _tree(found.left))
    if isinstance(found, ast.BinOp) and type(found.op) in _SIGNS:
        return Node(_SIGNS[type(found.op)], (_tree(found.left), _tree(found.right)))
    if isinstance(found, ast.Compare) and len(found.ops) == 1:
        return Node(_SIGNS[type(found.ops[0])], (_tree(found.left), _tree(found.comparators[0])))
    if isinstance(found, ast.Call):
        return _call_tree(found)
    raise Unreadable(ast.unparse(found))


def _call_tree(found):
    args = list(found.args)
    if isinstance(found.func, ast.Attribute):
        name = found.func.attr
        if not (isinstance(found.func.value, ast.Name) and found.func.value.id in ("torch", "np", "F")):
            args.insert(0, found.func.value)
    else:
        name = found.func.id
    name = {"to": "astype", "amax": "max", "amin": "min", "expand": "broadcast_to"}.get(name, name)
    if name not in _POSITIONAL:
        raise Unreadable(ast.unparse(found))
    arrays, positional = _POSITIONAL[name]
    given = [(positional[i], arg) for i, arg in enumerate(args[arrays:])] + [(_SAME.get(k.arg, k.arg), k.value) for k in found.keywords]
    return call(name, *map(_tree, args[:arrays]), **{option: _option(name, option, v) for option, v in given})


def _option(function, name, found):
    # No rule for derivatives looks at these; cumvar has no rule.
    if name == "acc" or name == "skip_nan" and function != "cumvar":
        raise Unreadable(f"the option {name}")
    if name == "dtype":
        return _DTYPES[found.id]
    if name in ("mask", "weight", "bias", "offsets"):
        return _tree(found)
    if isinstance(found, ast.Name):
        return float(found.id)
    return ast.literal_eval(found)


# ---------------------------------------------------------------------------------------------------------------
# Shapes and dtypes
# ---------------------------------------------------------------------------------------------------------------
class Types:
    """Shapes and dtypes of trees, given those of their inputs as {name: (shape, dtype's name)}.
    The library computes them."""

    def __init__(self, given):
        self.given, self._met = given, {}

    def of(self, node):
        """(shape, dtype's name)"""
        found = self._met.get(node.text)
        if found is None:
            found = self._met[node.text] = self.of_line(node.text)[0]
        return found

    def of_line(self, line):
        """[(shape, dtype's name), ...] of its results."""
        expression, names = _expression_of(line)
        described = [(list(shape), CODES[dtype]) for shape, dtype in map(self.given.__getitem__, names)]
        return [(tuple(shape), _NAMES[code]) for shape, code in _scanfold.expression_shapes(expression, described)]

    def shape(self, node):
        return () if node.name == "number" else self.of(node)[0]

    def dtype(self, node):
        return self.of(node)[1]

    def is_real(self, node):
        return node.name != "number" and "float" in self.dtype(node)


def from_the_end(node, types):
    """The tree with every axis counted from the end. Where no axis was given, it is written out."""
    if not node.children():
        return node
    args = tuple(from_the_end(arg, types) for arg in node.args)
    options = {name: from_the_end(v, types) if isinstance(v, Node) else v for name, v in node.options}
    if not node.name.isidentifier() or node.name == "negative":
        return Node(node.name, args)
    made = call(node.name, *args, **options)
    if "axis" not in _POSITIONAL[node.name][1]:
        return made
    of = node if node.name in ("unsqueeze", "linear_recurrence") else node.args[0]
    rank, axis = len(types.shape(of)), made.get("axis")
    if axis is None:
        axis = tuple(range(-rank, 0)) if node.name in _FOLDS + ("norm", "flip") else -1
        if node.name == "squeeze":
            raise Unreadable(node.text)
    return made.but(axis=tuple(a % rank - rank for a in axis) if isinstance(axis, tuple) else axis % rank - rank if rank else axis)


class OneMore:
    """Batching: rewrites trees for inputs of which some, `mapped`, have one more dimension of
    length `size` in front. Nodes that depend on these have that dimension too."""

    def __init__(self, types, mapped, size):
        self.types, self.mapped, self.size = types, set(mapped), size

    def is_mapped(self, node):
        return not self.mapped.isdisjoint(node.inputs())

    def of(self, node):
        if not self.is_mapped(node) or node.name == "input":
            return node
        offsets = node.get("offsets")
        if offsets is not None and self.is_mapped(offsets):
            raise NotImplementedError(f"offsets are mapped, in {node}: segments must be the same for all")
        ranks = [len(self.types.shape(child)) for child in node.children() if child is not offsets]
        rank = max([*ranks, len(node.get("shape", ()))])
        args = [self._aligned(arg, rank) for arg in node.args]
        options = {name: self._aligned(v, rank) if isinstance(v, Node) else v for name, v in node.options}
        if not node.name.isidentifier() or node.name == "negative":
            return Node(node.name, tuple(args))
        if node.options and not self.is_mapped(node.args[0]) and node.name != "linear_recurrence":
            # A mask or weight may not have more dimensions than the first argument.
            args[0] = call("broadcast_to", args[0], shape=(self.size, *self.types.shape(node.args[0])))
        if node.name == "broadcast_to":
            options["shape"] = (self.size, *options["shape"])
        return call(node.name, *args, **options)

    def _aligned(self, node, rank):
        """The node with `rank` dimensions after the mapped one: axes of length 1 are inserted in
        front of its own dimensions."""
        made, own = self.of(node), len(self.types.shape(node))
        if self.is_mapped(node):
            for _ in range(rank - own):
                made = call("unsqueeze", made, axis=-own - 1)
        return made
