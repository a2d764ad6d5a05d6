"""Derivatives of expressions, as expressions.

A tangent is an expression tree (_notation.py) that is linear in the tangents of the inputs. Its
transpose (_transposes.py) gives gradients. Both are again expressions in the library's notation.
So they have the same bits on every device, take as few passes as other expressions, and can
themselves be differentiated.
"""
import math

from ._notation import Types, call, named, value

HALVES = ("float16", "bfloat16")


def _as_tuple(axis):
    return axis if isinstance(axis, tuple) else (axis,)


# ---------------------------------------------------------------------------------------------------------------
# Tangents
# ---------------------------------------------------------------------------------------------------------------
class Tangents:
    """Computes tangents of trees.

    given   the tangents of the inputs, by name; an input that is not there has a zero tangent
    known   {a tree's text: an input that holds its value}, so that it is not computed again
    names   what each added input means; inputs that segments need are added to it
    """

    def __init__(self, types, given, known, names):
        self.types, self.given, self.known, self.names, self._met = types, given, known, names, {}

    def of_segments(self, kind, offsets, axis, length, dtype):
        """An added input that depends on the offsets alone: the "lengths" of the segments, or which
        elements are "inside" a segment."""
        stands_for = kind, (offsets.args[0], axis, length, dtype)
        for name, found in self.names.items():
            if found == stands_for:
                return named(name)
        name = unused(kind, self.types.given)
        self.names[name] = stands_for
        size = length if kind == "inside" else self.types.shape(offsets)[0] - 1
        self.types.given[name] = (size,) + (1,) * (-axis - 1), dtype
        return named(name)

    def of(self, node):
        """The tangent, with the node's shape and dtype, or None if it is zero."""
        if node.text not in self._met:
            self._met[node.text] = self._of(node)
        return self._met[node.text]

    def _of(self, node):
        if node.name in ("number", "zeros_like", "ones_like", "full_like") or not self.types.is_real(node):
            return None
        if node.name == "input":
            return self.given.get(node.args[0])
        rule = _TANGENTS.get(node.name)
        if not any(self.of(child) is not None for child in node.children()):
            return None
        made = rule(self, node) if rule else None
        if made is None:
            raise NotImplementedError(f"scanfold.jax has no derivative of {node.name}, as in {node}")
        shape, dtype = self.types.of(node)
        if self.types.dtype(made) != dtype:
            made = call("astype", made, dtype=dtype)
        return made if self.types.shape(made) == shape else call("broadcast_to", made, shape=shape)

    def here(self, node):
        """The node's own value as formulas use it: float16 and bfloat16 are cast to float32."""
        node = self.known.get(node.text, node)
        return self.wide(node)

    def wide(self, node):
        if node is None or node.name == "number" or self.types.dtype(node) not in HALVES:
            return node
        return call("astype", node, dtype="float32")

    def first(self, node):
        """(the first argument, its tangent)"""
        return self.here(node.args[0]), self.wide(self.of(node.args[0]))


class Fold:
    """Sums over a node's axes, of the elements that its mask selects.

    A total has all axes of x. The folded axes have length 1, or with segments one element for each
    segment."""

    def __init__(self, tangents, node):
        self.tangents, self.types, self.node = tangents, tangents.types, node
        self.axes, self.mask, self.offsets = _as_tuple(node.get("axis")), node.get("mask"), node.get("offsets")
        self.keepdim = self.offsets is not None or node.get("keepdim", False)

    def total(self, v):
        return call("sum", v, axis=self.axes, keepdim=self.offsets is None, mask=self.mask, offsets=self.offsets)

    def each(self, total):
        """A total, repeated for each element that it was computed from. Elements after the last
        offset belong to no segment and get 0."""
        if self.offsets is None:
            return total
        return call("spread", total, axis=self.axes[0], length=self._length(), offsets=self.offsets)

    def _length(self):
        return math.prod(self.types.shape(self.node.args[0])[a] for a in self.axes)

    def sum(self, v):
        return self.each(self.total(v))

    def count(self, x):
        """How many elements count, as a total."""
        if self.mask is not None:
            return self.total(call("ones_like", x))
        if self.offsets is not None:
            return self.tangents.of_segments("lengths", self.offsets, self.axes[0], self._length(), self.types.dtype(x))
        return value(float(self._length()))

    def mean(self, v, x):
        return self.each(self.total(v) / self.count(x))

    def within(self, v, instead=0.0):
        """v inside segments, `instead` elsewhere: elements outside of all segments have no
        derivative, even if they are infinite."""
        if self.offsets is None:
            return v
        return call("where", self.tangents.of_segments("inside", self.offsets, self.axes[0], self._length(), "bool"), v, instead)

    def kept(self, v, instead=0.0):
        return kept(self.mask, v, instead)

    def as_total(self, y):
        """A result of the node as a total: the folded axes are inserted again."""
        if not self.keepdim:
            for axis in sorted(self.axes, reverse=True):
                y = call("unsqueeze", y, axis=axis)
        return y

    def narrow(self, total):
        """A total in the shape of the node's result."""
        if not self.keepdim:
            for axis in sorted(self.axes):
                total = call("squeeze", total, axis=axis)
        return total


def kept(mask, v, instead=0.0):
    """v where the mask is True. A factor of a tangent must be 0 elsewhere by itself: the gradient is
    its product with 0, which is NaN if it is."""
    return v if mask is None else call("where", mask.differs(0), v, instead)


def added(a, b):
    return b if a is None else a if b is None else a + b


def _product(t, node):
    a, b = (t.here(arg) for arg in node.args)
    da, db = (t.wide(t.of(arg)) for arg in node.args)
    return added(None if da is None else da * b, None if db is None else a * db)


def _quotient(t, node):
    da, db = (t.wide(t.of(arg)) for arg in node.args)
    above = None if db is None else -(t.here(node) * db)
    return added(da, above) / t.here(node.args[1])


def _difference(t, node):
    da, db = map(t.of, node.args)
    return da if db is None else -db if da is None else da - db


def _chosen(t, node):
    da, db = (t.of(arg) if t.of(arg) is not None else value(0.0) for arg in node.args[1:])
    return call("where", node.args[0], da, db)


def _larger(t, node):
    """Where both are equal, each gets half of the tangent."""
    a, b = map(t.here, node.args)
    da, db = (t.wide(t.of(arg)) if t.of(arg) is not None else value(0.0) for arg in node.args)
    wins, loses = (a > b, a < b) if node.name == "maximum" else (a < b, a > b)
    return call("where", wins, da, call("where", loses, db, (da + db) / 2.0))


def _clamp(t, node):
    x, dx = t.first(node)
    return call("where", (x >= node.args[1]) * (x <= node.args[2]), dx, 0.0)


def _elementwise(formula):
    def rule(t, node):
        x, dx = t.first(node)
        return formula(x, t.here(node), dx)
    return rule


def _linear(t, node):
    """A function that is linear in its first argument, apart from an initial value."""
    return node.but(t.of(node.args[0]), initial=None)


def _cumprod(t, node):
    """dP[i] = x[i] dP[i-1] + dx[i] P[i-1]: a recurrence, which needs no special case for zeros."""
    x, dx = t.first(node)
    mask = node.get("mask")
    before = node.but(x, exclusive=True, dtype=None)
    return _recurrence_like(node, kept(mask, x, 1.0), kept(mask, dx) * before)


def _recurrence_like(node, a, b):
    return call("linear_recurrence", a, b, axis=node.get("axis"), reverse=node.get("reverse"), exclusive=node.get("exclusive"),
                offsets=node.get("offsets"))


def _cumulative_extreme(t, node):
    """The tangent of the element that is the extreme so far. A recurrence carries it on to the
    following results. Among equal elements the last one counts, as in torch.cummax."""
    x, dx = t.first(node)
    best = t.here(node.but(exclusive=None))
    came = x.same(best) + (x.differs(x)) * (best.differs(best))
    if node.get("mask") is not None:
        came = came * node.get("mask").differs(0)
    return _recurrence_like(node, call("where", came, call("zeros_like", x), call("ones_like", x)), call("where", came, dx, 0.0))


def _logcumsumexp(t, node):
    """dy[i] = exp(y[i-1] - y[i]) dy[i-1] + exp(x[i] - y[i]) dx[i].

    The two factors are shares of the sum so far, so neither is above 1."""
    x, dx = t.first(node)
    y, before, mask = t.here(node.but(exclusive=None)), t.here(node.but(exclusive=True)), node.get("mask")
    y = call("where", y.same(-math.inf), 0.0, y)
    return _recurrence_like(node, call("exp", before - y), kept(mask, call("exp", x - y)) * dx)


def _prod(t, node):
    """The derivative by an element is the product of all others: those before it, times those after
    it."""
    (x, dx), fold = t.first(node), Fold(t, node)
    axis, = fold.axes
    z = fold.within(fold.kept(x, 1.0), 1.0)
    before, behind = (call("cumprod", z, axis=axis, exclusive=True, reverse=reverse, offsets=fold.offsets) for reverse in (False, True))
    factor = node.get("initial")
    made = dx * (before * behind)
    return fold.narrow(fold.total(made if factor is None else made * factor))


def _extreme(t, node):
    """Equal extremes share the tangent. Where the result is NaN, so is the tangent. Where the
    initial value is the result, the tangent is 0."""
    (x, dx), fold = t.first(node), Fold(t, node)
    best = fold.each(fold.as_total(t.here(node)))
    lost = best.differs(best)
    came = x.same(best) + lost
    if fold.mask is not None:
        came = came * fold.mask.differs(0)
    share = call("maximum", fold.sum(call("astype", came, dtype=t.types.dtype(x))), 1.0)
    share = call("where", lost, math.nan, share)
    return fold.narrow(fold.total(call("where", came, dx / share, 0.0)))


def _logsumexp(t, node):
    (x, dx), fold = t.first(node), Fold(t, node)
    y = fold.each(fold.as_total(t.here(node)))
    share = call("exp", x - call("where", y.same(-math.inf), 0.0, y))
    return fold.narrow(fold.total(dx * fold.kept(fold.within(share))))


def _mean(t, node):
    (x, dx), fold = t.first(node), Fold(t, node)
    return fold.narrow(fold.total(dx) / fold.count(x))


def _var(t, node):
    (x, dx), fold = t.first(node), Fold(t, node)
    if node.name.startswith("nan"):
        numbers = node.args[0].same(node.args[0])
        fold.mask = numbers if fold.mask is None else numbers * fold.mask.differs(0)
    d = fold.kept(fold.within(x - fold.mean(x, x)))
    made = fold.total(d * dx) * 2.0 / (fold.count(x) - float(node.get("correction", 1)))
    return fold.narrow(made if node.name.endswith("var") else made / (2.0 * fold.as_total(t.here(node))))


def _as(rewritten):
    """The rule of a function that can be rewritten with functions that have rules."""
    def rule(t, node):
        return t.of(rewritten(node))
    return rule


def _norm(t, node):
    order, x = node.get("order", 2), node.args[0]
    options = {name: v for name, v in node.options if name != "order"}
    if order == 2:
        (x, dx), fold = t.first(node), Fold(t, node)
        y = fold.as_total(t.here(node))
        return fold.narrow(call("where", y.same(0.0), 0.0, fold.total(fold.kept(fold.within(x)) * dx) / y))
    name = {1: "sum", math.inf: "max", -math.inf: "min"}.get(order)
    return None if name is None else t.of(call(name, call("abs", x), **options))


def _softmax(t, node):
    (_, dx), fold = t.first(node), Fold(t, node)
    y = fold.within(t.here(node))
    made = y * (dx - fold.sum(y * dx)) if node.name == "softmax" else dx - fold.sum(call("exp", y) * dx)
    return fold.within(fold.kept(made))


def _standard(fold, node, x, eps):
    """(the function without weight and bias, the factor of x or of its distances from the mean)"""
    if node.name == "rms_norm":
        by = 1.0 / call("sqrt", fold.mean(x * x, x) + eps)
        return x * by, by
    d = x - fold.mean(x, x)
    if node.name == "layer_norm":
        by = 1.0 / call("sqrt", fold.mean(d * d, x) + eps)
    else:
        by = fold.each(1.0 / call("sqrt", fold.total(d * d) / (fold.count(x) - float(node.get("correction", 1)))))
    return d * by, by


# The distance from 1 to the next larger number.
_STEPS = {"float64": 2.0 ** -52, "float32": 2.0 ** -23, "float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}


def _norms(t, node):
    """layer_norm, rms_norm and standardize."""
    (x, dx), fold = t.first(node), Fold(t, node)
    eps = node.get("eps", 1e-5 if node.name == "layer_norm" else _STEPS[t.types.dtype(node)])
    h, by = _standard(fold, node, fold.kept(fold.within(x)), eps)
    weight, bias = node.get("weight"), node.get("bias")
    made = None
    if dx is not None:
        count = fold.count(x) - float(node.get("correction", 1)) if node.name == "standardize" else fold.count(x)
        across = h * fold.each(fold.total(dx * h) / count)
        made = by * (dx - across if node.name == "rms_norm" else dx - fold.mean(dx, x) - across)
        made = made if weight is None else made * t.here(weight)
    if weight is not None and t.of(weight) is not None:
        made = added(made, h * t.wide(t.of(weight)))
    if bias is not None:
        made = added(made, t.wide(t.of(bias)))
    return fold.within(fold.kept(made))


def _normalize(t, node):
    if node.get("order", 2) != 2:
        return None
    (x, dx), fold = t.first(node), Fold(t, node)
    eps, x = node.get("eps", 1e-12), fold.kept(fold.within(x))
    norm = call("sqrt", fold.sum(x * x))
    by = call("maximum", norm, eps)
    return fold.within(fold.kept((dx - call("where", norm > eps, x * (fold.sum(dx * x) / (by * by)), 0.0)) / by))


def _recurrence(t, node):
    """dh[i] = a[i] dh[i-1] + (da[i] h[i-1] + db[i])"""
    a, da = t.first(node)
    db = t.wide(t.of(node.args[1]))
    if da is not None:
        db = added(da * t.here(node.but(exclusive=True)), db)
    return node.but(a, db, initial=None, dtype=None)


_TANGENTS = {
    "+": lambda t, node: added(*map(t.of, node.args)), "-": _difference, "*": _product, "/": _quotient,
    "negative": lambda t, node: -t.of(node.args[0]), "where": _chosen, "maximum": _larger, "minimum": _larger, "clamp": _clamp,
    "masked_fill": lambda t, node: call("masked_fill", t.of(node.args[0]), node.args[1], 0.0),
    "exp": _elementwise(lambda x, y, dx: y * dx), "log": _elementwise(lambda x, y, dx: dx / x),
    "sqrt": _elementwise(lambda x, y, dx: dx / (2.0 * y)), "square": _elementwise(lambda x, y, dx: 2.0 * x * dx),
    "abs": _elementwise(lambda x, y, dx: call("where", x < 0.0, -dx, call("where", x > 0.0, dx, 0.0))),
    "relu": _elementwise(lambda x, y, dx: call("where", x > 0.0, dx, 0.0)),
    "sigmoid": _elementwise(lambda x, y, dx: y * (1.0 - y) * dx), "tanh": _elementwise(lambda x, y, dx: (1.0 - y * y) * dx),
    **{name: _linear for name in ("sum", "cumsum", "spread", "astype", "broadcast_to", "flip", "unsqueeze", "squeeze")},
    "cumprod": _cumprod, "cummax": _cumulative_extreme, "cummin": _cumulative_extreme, "logcumsumexp": _logcumsumexp,
    "prod": _prod, "max": _extreme, "min": _extreme, "logsumexp": _logsumexp, "mean": _mean, "var": _var, "std": _var, "nanvar": _var, "nanstd": _var, "norm": _norm,
    "sumsq": _as(lambda node: call("sum", call("square", kept(node.get("mask"), node.args[0])), **dict(node.options))),
    "cummean": _as(lambda node: call("cumsum", node.args[0], **dict(node.options))
                   / call("cumsum", call("ones_like", node.args[0]), **dict(node.options))),
    "softmax": _softmax, "log_softmax": _softmax, "layer_norm": _norms, "rms_norm": _norms, "standardize": _norms, "normalize": _normalize,
    "linear_recurrence": _recurrence,
}


# ---------------------------------------------------------------------------------------------------------------
# The entry point
# ---------------------------------------------------------------------------------------------------------------
def unused(name, taken):
    while name in taken:
        name += "_"
    return name


def tangent(trees, given, moving):
    """(trees, names): the tangent of each result, or None where it is zero.

    given    {input's name: (shape, dtype)}
    moving   the inputs that have a tangent
    names    what the added inputs of the trees mean: {name: ("tangent", input), ("result", number),
             or, with segments, ("lengths" or "inside", (offsets, axis, length, dtype))}
    """
    names, tangents, known = {}, {}, {}
    types = dict(given)
    for name in moving:
        own = unused("d_" + name, types)
        names[own], tangents[name], types[own] = ("tangent", name), named(own), given[name]
    before = Types(given)
    for number, tree in enumerate(trees):
        own = unused(f"y{number}", types)
        if tree.name not in ("input", "number") and before.is_real(tree):
            names[own], known[tree.text], types[own] = ("result", number), named(own), before.of(tree)
    rules = Tangents(Types(types), tangents, known, names)
    return [rules.of(tree) for tree in trees], names
