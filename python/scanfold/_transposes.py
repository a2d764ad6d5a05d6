"""Transposes of expressions that are linear in some of their inputs, as expressions: what turns a tangent into gradients.

Called by _jax_primitive.py; _derivatives.py makes the tangents.
"""
from ._derivatives import Fold, added, kept, unused
from ._notation import Types, call, named


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
    ct = fold.each(fold.as_total(ct))
    if fold.offsets is None:
        ct = call("broadcast_to", ct, shape=t.types.shape(node.args[0]))
    t._reach(node.args[0], fold.kept(ct))


def _back_spread(t, node, ct):
    t._reach(node.args[0], call("sum", ct, axis=node.get("axis"), offsets=node.get("offsets")))


def _back_cumsum(t, node, ct):
    back = call("cumsum", ct, axis=node.get("axis"), reverse=not node.get("reverse", False), exclusive=node.get("exclusive"),
                offsets=node.get("offsets"))
    t._reach(node.args[0], kept(node.get("mask"), back))


def _back_recurrence(t, node, ct):
    """With v[i] what reaches b[i]: v[i] = g[i] + a[i+1] v[i+1]. As a[i] v[i] = a[i] (a[i+1] v[i+1]) + a[i] g[i], it is the recurrence of a and
    a g the other way round, exclusive, plus g: nothing has to be shifted."""
    a, b = node.args
    if t.depends(a):
        return NotImplemented
    exclusive = node.get("exclusive")
    options = {"axis": node.get("axis"), "reverse": not node.get("reverse", False), "exclusive": True, "offsets": node.get("offsets")}
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
    "sum": _back_sum, "spread": _back_spread, "cumsum": _back_cumsum, "linear_recurrence": _back_recurrence,
}


def transpose(trees, given, linear, reached):
    """({linear input's name: tree}, names): what reaches them. `reached`: for each result whether anything does. `names`: {name: number of the
    result}, for what reaches it."""
    names, types, pairs = {}, dict(given), []
    before = Types(given)
    for number, tree in enumerate(trees):
        if reached[number]:
            own = unused(f"g{number}", types)
            names[own], types[own] = number, before.of(tree)
            pairs.append((tree, named(own)))
    return Transposed(Types(types), linear).of(pairs), names
