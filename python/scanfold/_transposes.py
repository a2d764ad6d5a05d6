"""Transposes of expressions that are linear in some of their inputs. They are expressions too, and
turn tangents into gradients.

Called by _jax_primitive.py; _derivatives.py makes the tangents.
"""
from ._derivatives import Fold, added, kept, unused
from ._notation import Types, call, named


class Transposed:
    """The cotangent of each linear input, given the cotangents of the results."""

    def __init__(self, types, linear):
        self.types, self.linear, self._reached = types, set(linear), {}

    def depends(self, node):
        return not self.linear.isdisjoint(node.inputs())

    def of(self, reached):
        """{input's name: tree of its cotangent}, given [(a result's tree, its cotangent)]."""
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
        """Appends to `order` all nodes that depend on a linear input, arguments first."""
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
        """A cotangent, summed over the dimensions along which the node was broadcast, and cast to
        the node's dtype."""
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
    """The cotangent v of b, where g is that of the result: v[i] = g[i] + a[i+1] v[i+1].

    Multiplied by a[i] this is a[i] v[i] = a[i] (a[i+1] v[i+1]) + a[i] g[i], a recurrence with a and
    a g in the other direction. The exclusive one gives a[i+1] v[i+1]; g is added to it. So nothing
    has to be shifted."""
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
    """({linear input's name: tree of its cotangent}, names).

    reached   for each result, whether it has a cotangent
    names     the inputs that hold these cotangents: {name: number of the result}
    """
    names, types, pairs = {}, dict(given), []
    before = Types(given)
    for number, tree in enumerate(trees):
        if reached[number]:
            own = unused(f"g{number}", types)
            names[own], types[own] = number, before.of(tree)
            pairs.append((tree, named(own)))
    return Transposed(Types(types), linear).of(pairs), names
