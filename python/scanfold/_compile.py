"""torch.compile(model, backend="scanfold"): what the library can do becomes expressions, the rest is Inductor's, or eager.

torch hands over the graph as aten's operators, forward and backward apart. Each scan or fold in it is an anchor; the elementwise work
and the flips that lead only to it, or only come from it, join it; the whole becomes one scanfold::expression, which the library plans and
fuses when it meets its shapes. Nothing is taken that the library has not agreed to plan, so an unknown operator is never an error.
"""
import functools
import json
import logging
import warnings

import torch

from . import _scanfold
from . import torch as ops  # registers the operators
from ._translate import FLIP, FOLDS, MATMULS, SCANS, VIEWS, Program, aten, dtype_code, interpret, shape_of, translate

log = logging.getLogger("scanfold")
MAX_INPUTS = 32  # as _expressions.c has it


# ---------------------------------------------------------------------------------------------------------------
# The operator a fused region becomes
# ---------------------------------------------------------------------------------------------------------------
ops._define("expression(Tensor[] inputs, str program) -> Tensor")


@functools.lru_cache(maxsize=None)
def _instructions(program):
    return [tuple(i) for i in json.loads(program)]


@functools.lru_cache(maxsize=None)
def _expression(program):
    return _scanfold.expression_create(_instructions(program), 0)


def run(inputs, program):
    """One region. A sign that is only written down (a view of a conjugated tensor) is written out first: we read memory."""
    return _scanfold.expression_run(_expression(program), inputs, 0)


def _fake(inputs, program):
    y = interpret(_instructions(program), inputs)[0]
    return y.new_empty(y.shape)


for _key in ("CPU", "CUDA"):
    ops._lib.impl("expression", run, _key)
if ops._OFFICIAL:
    torch.library.register_fake("scanfold::expression", _fake, lib=ops._lib)
else:
    ops._lib.impl("expression", _fake, "Meta")


# ---------------------------------------------------------------------------------------------------------------
# Regions: an anchor and what belongs to nobody else
# ---------------------------------------------------------------------------------------------------------------
def _is_anchor(node):
    return node.op == "call_function" and (node.target in SCANS or node.target in FOLDS)


def _tensors(node):
    return [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]


def _translatable(node):
    return translate(Program(), node) is not None


def _leads_to_a_sum(node, region):
    """A matrix product is only worth taking where a sum over rows or columns makes it vanish."""
    while True:
        users = list(node.users)
        if len(users) != 1 or users[0] not in region:
            return False
        user = users[0]
        if user.target in (aten.sum.dim_IntList, aten.sum.default):
            return True
        if user.target not in (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.neg.default):
            return False
        node = user


def _grow(anchor, taken):
    """The nodes that join an anchor. Everything inside is used inside only, except the last node: so the region has one result, and
    no path leaves it and comes back."""
    region, sink = {anchor}, anchor
    while True:
        before = len(region)
        for node in [n for member in list(region) for n in _tensors(member)]:
            if node in region or node in taken or node.op != "call_function" or not all(u in region for u in node.users):
                continue
            if node.target in MATMULS and not _leads_to_a_sum(node, region):
                continue
            if _translatable(node):
                region.add(node)
        users = list(sink.users)
        if len(users) == 1 and users[0] not in taken and _translatable(users[0]) and users[0].target not in MATMULS \
                and (users[0].target is FLIP or users[0].target not in VIEWS):
            sink = users[0]
            region.add(sink)
        if len(region) == before:
            return region, sink


def _numel(node):
    n = 1
    for length in shape_of(node):
        n *= _hint(length)
    return n


def _hint(length):
    return length if isinstance(length, int) else length.node.hint


def _reads_it_too(user, region):
    """Whether a user outside is elementwise work, that Inductor would do in the same read; a view is as its users are."""
    if user in region or user.op != "call_function" or _is_anchor(user):
        return False
    if user.target in VIEWS:
        return any(_reads_it_too(u, region) for u in user.users)
    return _translatable(user)


def _worth_it(region, sink):
    """A scan is. A fold is where its large inputs are read by nobody else: else Inductor reads them once for all who want them."""
    if any(node.target in SCANS for node in region):
        return True
    inputs = {n for member in region for n in _tensors(member)} - region
    return not any(_numel(n) > _numel(sink) and any(_reads_it_too(u, region) for u in n.users) for n in inputs)


def _agreed(program, nodes, sink):
    """Whether the library plans it, with the result torch expects: tried on empty stand-ins of the shapes at hand."""
    try:
        expression = _scanfold.expression_create([tuple(i) for i in program.instructions], 0)
        shapes = _scanfold.expression_shapes(expression, [
            ([_hint(n) for n in shape_of(node)], dtype_code(node.meta["val"].dtype)) for node in nodes])
    except (ValueError, TypeError, RuntimeError) as refusal:
        log.info("left alone: %s", refusal)
        return False
    expected = ([_hint(n) for n in shape_of(sink)], dtype_code(sink.meta["val"].dtype))
    return shapes == [expected]


def _proposal(graph, anchor, taken):
    """(nodes of the region in order, its last node, its program), or None where it is better left alone."""
    if not _translatable(anchor) or not _on_known_device(anchor):
        return None
    region, sink = _grow(anchor, taken)
    if not _worth_it(region, sink):
        return None
    program = Program()
    members = [n for n in graph.nodes if n in region]
    if any(translate(program, node) is None for node in members):
        return None
    program.add("output", program.place[sink])
    if not 1 <= len(program.inputs) <= MAX_INPUTS or not _agreed(program, program.inputs, sink):
        return None
    return members, sink, program


def fuse(graph):
    """Turns regions of an aten graph into expressions, in place. A list of (program, nodes of it as text)."""
    taken, fused = set(), []
    for anchor in [n for n in graph.nodes if _is_anchor(n)]:
        try:
            found = None if anchor in taken else _proposal(graph, anchor, taken)
        except Exception as problem:  # a length without a hint, a node without a value: then it stays as it is
            log.info("left alone: %s: %s", anchor, problem)
            found = None
        if found is None:
            continue
        members, sink, program = found
        taken.update(members)
        fused.append((program.text(), [n.format_node() or n.name for n in members]))
        with graph.inserting_after(sink):
            made = graph.call_function(torch.ops.scanfold.expression.default, (list(program.inputs), program.text()))
        made.meta = dict(sink.meta)
        sink.replace_all_uses_with(made)
        for node in reversed(members):
            graph.erase_node(node)
    return fused


def _on_known_device(node):
    return all(n.meta["val"].device.type in ("cpu", "cuda") for n in _tensors(node))


# ---------------------------------------------------------------------------------------------------------------
# Products with a stretched operand: what the gradient of a sum over a product's features looks like
# ---------------------------------------------------------------------------------------------------------------
def _stretched(node):
    """x, if node is x of one column stretched to many, possibly times constants; else None."""
    factors = []
    while node.op == "call_function":
        if node.target is aten.expand.default:
            x = node.args[0]
            if len(shape_of(x)) == 2 and shape_of(x)[1] == 1 and shape_of(x)[0] == shape_of(node)[0]:
                return x, factors
            return None
        if node.target in (aten.mul.Tensor, aten.div.Tensor) and isinstance(node.args[1], (int, float)):
            factors.append((node.target, node.args[1]))
            node = node.args[0]
        else:
            return None
    return None


def _call(graph, target, *args):
    """A new node, with the fake value it has."""
    node = graph.call_function(target, args)
    fake = torch.fx.node.map_arg(args, lambda n: n.meta["val"])
    node.meta["val"] = target(*fake)
    return node


def hoist(graph):
    """expand(e) @ w -> e * sum(w, 0), and expand(e).T @ x -> expand(e.T @ x): a product with a column stretched out is an outer product,
    or one row stretched out. Nodes it touched, as text."""
    touched = []
    for node in [n for n in graph.nodes if n.op == "call_function" and n.target is aten.mm.default]:
        a, b = node.args
        transposed = a.op == "call_function" and (a.target is aten.t.default or (a.target is aten.permute.default and list(a.args[1]) == [1, 0]))
        found = _stretched(a.args[0] if transposed else a)
        if found is None:
            continue
        e, factors = found
        with graph.inserting_before(node):
            for target, number in reversed(factors):
                e = _call(graph, target, e, number)
            if transposed:
                row = _call(graph, aten.mm.default, _call(graph, aten.permute.default, e, [1, 0]), b)
                made = _call(graph, aten.expand.default, row, list(shape_of(node)))
            else:
                made = _call(graph, aten.mul.Tensor, e, _call(graph, aten.sum.dim_IntList, b, [0], True))
        touched.append(node.format_node() or node.name)
        node.replace_all_uses_with(made)
    graph.eliminate_dead_code()
    return touched


# ---------------------------------------------------------------------------------------------------------------
# The backend
# ---------------------------------------------------------------------------------------------------------------
_FREE = {aten.expand.default, aten.permute.default, aten.t.default, aten.transpose.int, aten.view.default, aten.unsqueeze.default,
         aten.squeeze.dim, aten.detach.default, aten.alias.default, aten._unsafe_view.default}


def _rewrite(gm):
    with_shapes = all("val" in n.meta for n in gm.graph.nodes if n.op == "placeholder")
    if not with_shapes:
        return [], []
    with _fake_mode(gm):
        hoisted = hoist(gm.graph)
        fused = fuse(gm.graph)
    gm.graph.lint()
    gm.recompile()
    return hoisted, fused


def _fake_mode(gm):
    from torch._guards import detect_fake_mode
    import contextlib
    values = [n.meta["val"] for n in gm.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    return detect_fake_mode(values) or contextlib.nullcontext()


def _all_ours(gm):
    """Nothing is left that would be worth compiling."""
    return all(n.op != "call_function" or n.target in _FREE or n.target is torch.ops.scanfold.expression.default for n in gm.graph.nodes)


def _boxed(gm):
    """The graph as it stands, its expressions run without a detour by the dispatcher."""
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.scanfold.expression.default:
            node.target = run
    gm.recompile()

    def call(args):
        args, given = list(args), args
        given.clear()
        return gm.forward(*args)
    call._boxed_call = True
    return call


def _inner(compile_rest, report, gm, example_inputs, **keywords):
    hoisted, fused = _rewrite(gm)
    if report is not None:
        report.graph(gm, hoisted, fused)
        return report.watched(gm)
    if _all_ours(gm):
        return _boxed(gm)
    if compile_rest is None:
        return _boxed(gm)
    try:
        return compile_rest(gm, example_inputs, **keywords)
    except Exception as error:  # no compiler, or something it cannot do
        warnings.warn(f"scanfold: Inductor did not take the rest of this graph, which runs eagerly: {type(error).__name__}: {error}")
        return _boxed(gm)


def backend(gm, example_inputs, *, options=None, report=None, **_):
    """What torch.compile(backend="scanfold") calls. options={"rest": "eager"} leaves the rest to eager torch instead of Inductor."""
    rest = (options or {}).get("rest", "inductor")
    if rest not in ("inductor", "eager"):
        raise ValueError(f'options["rest"] is {rest!r}: "inductor" and "eager" are taken')
    if rest == "inductor" and report is None:
        from torch._inductor.compile_fx import compile_fx, compile_fx_inner
        return compile_fx(gm, example_inputs, inner_compile=functools.partial(_inner, compile_fx_inner, report))
    from torch._dynamo.backends.common import aot_autograd
    inner = functools.partial(_inner, None, report)
    return aot_autograd(fw_compiler=inner, bw_compiler=inner)(gm, example_inputs)


# ---------------------------------------------------------------------------------------------------------------
# Explain
# ---------------------------------------------------------------------------------------------------------------
class Report:
    """What became of a model's graphs: text, and the same as data in `graphs`."""

    def __init__(self):
        self.graphs = []

    def graph(self, gm, hoisted, fused):
        left = [n.format_node() or n.name for n in gm.graph.nodes
                if n.op == "call_function" and n.target is not torch.ops.scanfold.expression.default]
        self.graphs.append({"hoisted": hoisted, "fused": [nodes for _, nodes in fused], "left": left, "plans": []})

    def watched(self, gm):
        entry = self.graphs[-1]

        def explained(inputs, program):
            entry["plans"].append(_scanfold.expression_explain(_expression(program), inputs, 0))
            return run(inputs, program)
        for node in gm.graph.nodes:
            if node.op == "call_function" and node.target is torch.ops.scanfold.expression.default:
                node.target = explained
        gm.recompile()

        def call(args):
            given = list(args)
            args.clear()
            return gm.forward(*given)
        call._boxed_call = True
        return call

    def __str__(self):
        lines = []
        for number, graph in enumerate(self.graphs, 1):
            lines.append(f"graph {number}: {len(graph['fused'])} fused, {len(graph['left'])} operators left to others")
            for text in graph["hoisted"]:
                lines.append(f"  a product with a stretched column, not computed: {text}")
            for i, nodes in enumerate(graph["fused"]):
                lines.append("  fused into one expression:")
                lines += [f"    {text}" for text in nodes]
                if i < len(graph["plans"]):
                    lines += [f"    | {text}" for text in graph["plans"][i].splitlines()]
            if graph["left"]:
                lines.append("  left:")
                lines += [f"    {text}" for text in graph["left"]]
        return "\n".join(lines) or "no graph was traced"


def explain(model, *inputs, **keywords):
    """Compiles a model, runs it once on these inputs (and, where a result can be differentiated, its backward), and prints a Report."""
    report = Report()
    torch._dynamo.reset()
    try:
        compiled = torch.compile(model, backend=functools.partial(backend, report=report))
        result = compiled(*inputs, **keywords)
        results = [t for t in torch.utils._pytree.tree_flatten(result)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
        if results:
            leaves = [t for t in list(getattr(model, "parameters", list)()) + list(inputs) if isinstance(t, torch.Tensor) and t.requires_grad]
            torch.autograd.grad(results, leaves, [torch.ones_like(t) for t in results], allow_unused=True)
    finally:
        torch._dynamo.reset()
    print(report)
    return report
