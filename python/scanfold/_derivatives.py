"""Derivatives of expressions, as expressions.

A tangent is a tree that is linear in the tangents of the inputs; its transpose gives gradients. Both are lines of the notation again, so they
have the same bits on every device, are computed in as few passes as any other line, and can be differentiated in their turn.
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
    """Tangents of trees. `given`: the inputs' own, by name; what is not there has none. `known`: inputs that hold what a tree computes, by its
    text, so that it is not computed again."""

    def __init__(self, types, given, known):
        self.types, self.given, self.known, self._met = types, given, known, {}

    def of(self, node):
        """The tangent, of the node's shape and dtype; None where it is zero."""
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
        """The node's own value, as a formula needs it: halves as float32."""
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
    """Sums over a node's axes, of what its mask leaves."""

    def __init__(self, tangents, node):
        self.types, self.node = tangents.types, node
        self.axes, self.mask, self.keepdim = _as_tuple(node.get("axis")), node.get("mask"), node.get("keepdim", False)

    def sum(self, v, keepdim=True):
        return call("sum", v, axis=self.axes, keepdim=keepdim, mask=self.mask)

    def count(self, x):
        if self.mask is not None:
            return self.sum(call("ones_like", x))
        shape = self.types.shape(self.node.args[0])
        return value(float(math.prod(shape[a] for a in self.axes)))

    def mean(self, v, x):
        return self.sum(v) / self.count(x)

    def kept(self, v, instead=0.0):
        return kept(self.mask, v, instead)

    def wide_again(self, y):
        """A result with the axes that were folded."""
        if not self.keepdim:
            for axis in sorted(self.axes, reverse=True):
                y = call("unsqueeze", y, axis=axis)
        return y

    def narrow(self, y):
        """What is there with all axes, as the node has it."""
        if not self.keepdim:
            for axis in sorted(self.axes):
                y = call("squeeze", y, axis=axis)
        return y


def kept(mask, v, instead=0.0):
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
    """Equals share."""
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
    """A function that is linear in its first argument, but for what it begins with."""
    return node.but(t.of(node.args[0]), initial=None)


def _cumprod(t, node):
    """dP[i] = x[i] dP[i-1] + dx[i] P[i-1]: a recurrence, for which zeros are nothing special."""
    x, dx = t.first(node)
    mask = node.get("mask")
    before = node.but(x, exclusive=True, dtype=None)
    return _recurrence_like(node, kept(mask, x, 1.0), kept(mask, dx) * before)


def _recurrence_like(node, a, b):
    return call("linear_recurrence", a, b, axis=node.get("axis"), reverse=node.get("reverse"), exclusive=node.get("exclusive"))


def _cumulative_extreme(t, node):
    """Where the element is the one so far, its tangent; elsewhere that of the one before. Of equals the latest, as torch.cummax has it."""
    x, dx = t.first(node)
    best = t.here(node.but(exclusive=None))
    came = x.same(best) + (x.differs(x)) * (best.differs(best))
    if node.get("mask") is not None:
        came = came * node.get("mask").differs(0)
    return _recurrence_like(node, call("where", came, call("zeros_like", x), call("ones_like", x)), call("where", came, dx, 0.0))


def _logcumsumexp(t, node):
    """With shares of the sum so far: dy[i] = exp(y[i-1] - y[i]) dy[i-1] + exp(x[i] - y[i]) dx[i]. No factor is above 1."""
    x, dx = t.first(node)
    y, before, mask = t.here(node.but(exclusive=None)), t.here(node.but(exclusive=True)), node.get("mask")
    y = call("where", y.same(-math.inf), 0.0, y)
    return _recurrence_like(node, call("exp", before - y), kept(mask, call("exp", x - y) * dx))


def _prod(t, node):
    """The product of all others: of those before, times those behind."""
    (x, dx), fold = t.first(node), Fold(t, node)
    axis, = fold.axes
    z = fold.kept(x, 1.0)
    others = call("cumprod", z, axis=axis, exclusive=True) * call("cumprod", z, axis=axis, exclusive=True, reverse=True)
    factor = node.get("initial")
    return fold.sum(dx * others if factor is None else dx * others * factor, fold.keepdim)


def _extreme(t, node):
    """Equals share; where the result is NaN so is the tangent; where the initial value won there is none."""
    (x, dx), fold = t.first(node), Fold(t, node)
    best = fold.wide_again(t.here(node))
    lost = best.differs(best)
    came = x.same(best) + lost
    if fold.mask is not None:
        came = came * fold.mask.differs(0)
    share = call("maximum", call("sum", call("astype", came, dtype=t.types.dtype(x)), axis=fold.axes, keepdim=True), 1.0)
    share = call("where", lost, math.nan, share)
    return call("sum", call("where", came, dx / share, 0.0), axis=fold.axes, keepdim=fold.keepdim)


def _logsumexp(t, node):
    (x, dx), fold = t.first(node), Fold(t, node)
    y = fold.wide_again(t.here(node))
    return fold.sum(dx * call("exp", x - call("where", y.same(-math.inf), 0.0, y)), fold.keepdim)


def _mean(t, node):
    (x, dx), fold = t.first(node), Fold(t, node)
    return fold.narrow(fold.mean(dx, x))


def _var(t, node):
    (x, dx), fold = t.first(node), Fold(t, node)
    d = x - fold.mean(x, x)
    made = fold.sum(d * dx) * 2.0 / (fold.count(x) - float(node.get("correction", 1)))
    return fold.narrow(made if node.name == "var" else made / (2.0 * fold.wide_again(t.here(node))))


def _as(rewritten):
    """A function that is another way to write what has a rule."""
    def rule(t, node):
        return t.of(rewritten(node))
    return rule


def _norm(t, node):
    order, x = node.get("order", 2), node.args[0]
    options = {name: v for name, v in node.options if name != "order"}
    if order == 2:
        (x, dx), fold = t.first(node), Fold(t, node)
        y = fold.wide_again(t.here(node))
        return fold.narrow(call("where", y.same(0.0), 0.0, fold.sum(x * dx) / y))
    name = {1: "sum", math.inf: "max", -math.inf: "min"}.get(order)
    return None if name is None else t.of(call(name, call("abs", x), **options))


def _softmax(t, node):
    (_, dx), fold, y = t.first(node), Fold(t, node), t.here(node)
    if node.name == "softmax":
        return fold.kept(y * (dx - fold.sum(y * dx)))
    return fold.kept(dx - fold.sum(call("exp", y) * dx))


def _standard(fold, node, x, eps):
    """(the function without weight and bias, what x or its distances are multiplied by)"""
    if node.name == "rms_norm":
        by = 1.0 / call("sqrt", fold.mean(x * x, x) + eps)
        return x * by, by
    d = x - fold.mean(x, x)
    if node.name == "layer_norm":
        by = 1.0 / call("sqrt", fold.mean(d * d, x) + eps)
    else:
        by = 1.0 / call("sqrt", fold.sum(d * d) / (fold.count(x) - float(node.get("correction", 1))))
    return d * by, by


_STEPS = {"float64": 2.0 ** -52, "float32": 2.0 ** -23, "float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}  # to the next number after 1


def _norms(t, node):
    """layer_norm, rms_norm and standardize."""
    (x, dx), fold = t.first(node), Fold(t, node)
    eps = node.get("eps", 1e-5 if node.name == "layer_norm" else _STEPS[t.types.dtype(node)])
    h, by = _standard(fold, node, x, eps)
    weight, bias = node.get("weight"), node.get("bias")
    made = None
    if dx is not None:
        count = fold.count(x) - float(node.get("correction", 1)) if node.name == "standardize" else fold.count(x)
        across = h * (fold.sum(dx * h) / count)
        made = by * (dx - across if node.name == "rms_norm" else dx - fold.mean(dx, x) - across)
        made = made if weight is None else made * t.here(weight)
    if weight is not None and t.of(weight) is not None:
        made = added(made, h * t.wide(t.of(weight)))
    if bias is not None:
        made = added(made, t.wide(t.of(bias)))
    return fold.kept(made)


def _normalize(t, node):
    if node.get("order", 2) != 2:
        return None
    (x, dx), fold = t.first(node), Fold(t, node)
    eps = node.get("eps", 1e-12)
    norm = call("sqrt", fold.sum(x * x))
    by = call("maximum", norm, eps)
    return fold.kept((dx - call("where", norm > eps, x * (fold.sum(dx * x) / (by * by)), 0.0)) / by)


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
    **{name: _linear for name in ("sum", "cumsum", "astype", "broadcast_to", "flip", "unsqueeze", "squeeze")},
    "cumprod": _cumprod, "cummax": _cumulative_extreme, "cummin": _cumulative_extreme, "logcumsumexp": _logcumsumexp,
    "prod": _prod, "max": _extreme, "min": _extreme, "logsumexp": _logsumexp, "mean": _mean, "var": _var, "std": _var, "norm": _norm,
    "sumsq": _as(lambda node: call("sum", call("square", node.args[0]), **dict(node.options))),
    "cummean": _as(lambda node: call("cumsum", node.args[0], **dict(node.options))
                   / call("cumsum", call("ones_like", node.args[0]), **dict(node.options))),
    "softmax": _softmax, "log_softmax": _softmax, "layer_norm": _norms, "rms_norm": _norms, "standardize": _norms, "normalize": _normalize,
    "linear_recurrence": _recurrence,
}


# ---------------------------------------------------------------------------------------------------------------
# Transposes
# ---------------------------------------------------------------------------------------------------------------
class Transposed:
    """What reaches each linear input, given what reaches the results."""

    def __init__(self, types, linear):
        self.types, self.linear, self._reached = types, set(linear), {}

    def depends(self, node):
        return not self.linear.isdisjoint(node.inputs())

    def of(self, reached):
        """{name: tree}, of [(a result's tree, what reaches it)]."""
        order, met = [], set()
        for node, ct in reached:
            self._visit(node, order, met)
            self._reach(node, ct)
        arrived = {}
        for node in reversed(order):
            ct = self._reached.get(node.text)
            if ct is None:
                continue
            if node.name == "input":
                arrived[node.args[0]] = ct
                continue
            rule = _TRANSPOSES.get(node.name)
            if rule is None or rule(self, node, ct) is NotImplemented:
                raise NotImplementedError(f"scanfold.jax has no transpose of {node.name}, as in {node}")
        return arrived

    def _visit(self, node, order, met):
        """Everything that depends on a linear input, arguments first."""
        if node.text in met or not self.depends(node):
            return
        met.add(node.text)
        for child in node.children():
            self._visit(child, order, met)
        order.append(node)

    def _reach(self, node, ct):
        if self.depends(node):
            ct = self._fitted(ct, node)
            self._reached[node.text] = added(self._reached.get(node.text), ct)

    def _fitted(self, ct, node):
        """Summed up over the dimensions along which the node was repeated, and of its dtype."""
        shape, dtype = self.types.of(node)
        own = self.types.shape(ct)
        missing = len(own) - len(shape)
        repeated = tuple(a - len(own) for a, n in enumerate(own) if a < missing or shape[a - missing] != n)
        if repeated:
            ct = call("sum", ct, axis=repeated, keepdim=True)
            for axis in range(-len(own), -len(shape)):
                ct = call("squeeze", ct, axis=axis)
        return ct if self.types.dtype(ct) == dtype else call("astype", ct, dtype=dtype)


def _back_product(t, node, ct):
    a, b = node.args
    if t.depends(a) and t.depends(b):
        return NotImplemented
    t._reach(*((a, ct * b) if t.depends(a) else (b, ct * a)))


def _back_where(t, node, ct):
    for arg, pair in ((node.args[1], (ct, 0.0)), (node.args[2], (0.0, ct))):
        t._reach(arg, call("where", node.args[0], *pair))


def _back_sum(t, node, ct):
    fold = Fold(t, node)
    ct = call("broadcast_to", fold.wide_again(ct), shape=t.types.shape(node.args[0]))
    t._reach(node.args[0], fold.kept(ct))


def _back_cumsum(t, node, ct):
    back = call("cumsum", ct, axis=node.get("axis"), reverse=not node.get("reverse", False), exclusive=node.get("exclusive"))
    t._reach(node.args[0], kept(node.get("mask"), back))


def _back_recurrence(t, node, ct):
    """With v[i] what reaches b[i]: v[i] = g[i] + a[i+1] v[i+1]. As a[i] v[i] = a[i] (a[i+1] v[i+1]) + a[i] g[i], it is the recurrence of a and
    a g the other way round, exclusive, plus g: nothing has to be shifted."""
    a, b = node.args
    if t.depends(a):
        return NotImplemented
    exclusive, options = node.get("exclusive"), {"axis": node.get("axis"), "reverse": not node.get("reverse", False), "exclusive": True}
    back = call("linear_recurrence", a, ct if exclusive else a * ct, **options)
    t._reach(b, back if exclusive else ct + back)


def _back_quotient(t, node, ct):
    if t.depends(node.args[1]):
        return NotImplemented
    t._reach(node.args[0], ct / node.args[1])


_TRANSPOSES = {
    "+": lambda t, node, ct: [t._reach(arg, ct) for arg in node.args],
    "-": lambda t, node, ct: [t._reach(node.args[0], ct), t._reach(node.args[1], -ct)],
    "negative": lambda t, node, ct: t._reach(node.args[0], -ct), "*": _back_product, "/": _back_quotient, "where": _back_where,
    "masked_fill": lambda t, node, ct: t._reach(node.args[0], node.but(ct, node.args[1], 0.0)),
    "astype": lambda t, node, ct: t._reach(node.args[0], ct), "broadcast_to": lambda t, node, ct: t._reach(node.args[0], ct),
    "flip": lambda t, node, ct: t._reach(node.args[0], node.but(ct)),
    "unsqueeze": lambda t, node, ct: t._reach(node.args[0], call("squeeze", ct, axis=node.get("axis"))),
    "squeeze": lambda t, node, ct: t._reach(node.args[0], call("unsqueeze", ct, axis=node.get("axis"))),
    "sum": _back_sum, "cumsum": _back_cumsum, "linear_recurrence": _back_recurrence,
}


# ---------------------------------------------------------------------------------------------------------------
# What is asked for
# ---------------------------------------------------------------------------------------------------------------
def _unused(name, taken):
    while name in taken:
        name += "_"
    return name


def tangent(trees, given, moving):
    """(trees, names): each result's tangent, or None. `given`: {input's name: (shape, dtype)}; `moving`: inputs that have a tangent. `names`:
    what the trees' inputs stand for, as {name: ("tangent", input) or ("result", number)}."""
    names, tangents, known = {}, {}, {}
    types = dict(given)
    for name in moving:
        own = _unused("d_" + name, types)
        names[own], tangents[name], types[own] = ("tangent", name), named(own), given[name]
    before = Types(given)
    for number, tree in enumerate(trees):
        own = _unused(f"y{number}", types)
        if tree.name not in ("input", "number") and before.is_real(tree):
            names[own], known[tree.text], types[own] = ("result", number), named(own), before.of(tree)
    rules = Tangents(Types(types), tangents, known)
    return [rules.of(tree) for tree in trees], names


def transpose(trees, given, linear, reached):
    """({linear input's name: tree}, names): what reaches them. `reached`: for each result whether anything does. `names`: {name: number of the
    result}, for what reaches it."""
    names, types, pairs = {}, dict(given), []
    before = Types(given)
    for number, tree in enumerate(trees):
        if reached[number]:
            own = _unused(f"g{number}", types)
            names[own], types[own] = number, before.of(tree)
            pairs.append((tree, named(own)))
    return Transposed(Types(types), linear).of(pairs), names
