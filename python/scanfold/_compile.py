"""torch.compile(model, backend="scanfold"): what the library can compute becomes expressions; the
rest is compiled by Inductor or runs eagerly.

torch passes the graph as aten operators, forward and backward separately. _regions.py finds the
nodes that belong together. Each region becomes one scanfold::expression, whose results are the
values that nodes outside the region use. The library plans and fuses it when it first runs with
given shapes. A region is taken only if the library can plan it, so an unknown operator is never an
error.
"""
import contextlib
import functools
import json
import operator
import warnings

import torch

from . import _scanfold
from . import torch as ops  # registers the operators
from ._regions import EXACT, fuse, hoist
from ._translate import aten, interpret


# ---------------------------------------------------------------------------------------------------------------
# The operators that replace a fused region: `expression` if it has one result, `expressions` if it
# has several. _expressions.h describes `keep`.
# ---------------------------------------------------------------------------------------------------------------
ops._define("expression(Tensor[] inputs, str program, int keep) -> Tensor")
ops._define("expressions(Tensor[] inputs, str program, int keep) -> Tensor[]")
EXPRESSION, EXPRESSIONS = torch.ops.scanfold.expression.default, torch.ops.scanfold.expressions.default
KEEP_PARAMETERS = -1


@functools.lru_cache(maxsize=None)
def _instructions(program):
    return [tuple(i) for i in json.loads(program[len(EXACT):] if program.startswith(EXACT) else program)]


@functools.lru_cache(maxsize=None)
def _expression(program):
    return _scanfold.expression_create(_instructions(program), int(program.startswith(EXACT)))


def run(inputs, program, keep=0):
    """Runs one region. Returns its result, or a list of several results."""
    return _scanfold.expression_run(_expression(program), inputs, keep)


def _fakes(inputs, program, keep):
    """Fake results, with the order of axes in memory that the program asks for, as the kernels
    allocate them."""
    orders = [i[2] if len(i) > 2 else None for i in _instructions(program) if i[0] == "output"]
    return [y.new_empty(y.shape) if order is None else torch.empty_permuted(y.shape, order, dtype=y.dtype, device=y.device)
            for y, order in zip(interpret(_instructions(program), inputs), orders)]


def _fake(inputs, program, keep):
    return _fakes(inputs, program, keep)[0]


for _name, _made in (("expression", _fake), ("expressions", _fakes)):
    for _key in ("CPU", "CUDA"):
        ops._lib.impl(_name, run, _key)
    if ops._OFFICIAL:
        torch.library.register_fake(f"scanfold::{_name}", _made, lib=ops._lib)
    else:
        ops._lib.impl(_name, _made, "Meta")


# ---------------------------------------------------------------------------------------------------------------
# The backend
# ---------------------------------------------------------------------------------------------------------------
_FREE = {aten.expand.default, aten.permute.default, aten.t.default, aten.transpose.int, aten.view.default, aten.unsqueeze.default,
         aten.squeeze.dim, aten.detach.default, aten.alias.default, aten._unsafe_view.default, operator.getitem}


def _is_expression(node):
    return node.op == "call_function" and node.target in (EXPRESSION, EXPRESSIONS)


def _rewrite(gm, keep=0, exact=False, inductor=True):
    """(matrix products that were avoided, what was fused, what was left to Inductor and why)"""
    with_shapes = all("val" in n.meta for n in gm.graph.nodes if n.op == "placeholder")
    if not with_shapes:
        return [], [], []
    declined = []
    with _fake_mode(gm):
        hoisted = [] if exact else hoist(gm.graph)
        fused = fuse(gm.graph, keep, exact, inductor, declined)
    gm.graph.lint()
    gm.recompile()
    return hoisted, fused, declined


def _fake_mode(gm):
    from torch._guards import detect_fake_mode
    values = [n.meta["val"] for n in gm.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    return detect_fake_mode(values) or contextlib.nullcontext()


def _all_ours(gm):
    """Whether the graph has nothing else worth compiling: only expressions, views, and arithmetic
    on lengths."""
    return all(n.op != "call_function" or n.target in _FREE or _is_expression(n)
               or isinstance(n.meta.get("val"), (int, torch.SymInt, torch.SymFloat, torch.SymBool)) for n in gm.graph.nodes)


def _boxed(gm):
    """The graph as a function with torch's boxed calling convention: one list of arguments.

    Its expressions are called directly, without torch's dispatcher."""
    for node in gm.graph.nodes:
        if _is_expression(node):
            node.target = run
    gm.recompile()
    if hasattr(gm, "real_recompile"):  # Inductor's graph modules are lazy: slow until recompiled
        gm.real_recompile()
    forward = gm.forward

    def call(args):
        given = tuple(args)
        args.clear()
        return forward(*given)
    call._boxed_call = True
    return call


def _one_call(gm):
    """A direct call of the expression, if the graph is one expression and nothing else, or None."""
    nodes = [n for n in gm.graph.nodes if n.op != "placeholder"]
    if not nodes or not _is_expression(nodes[0]) or nodes[-1].op != "output":
        return None
    made, results = nodes[0], nodes[1:-1]
    places = {n: i for i, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder")}
    inputs, program, keep = made.args
    wanted = list(nodes[-1].args[0])
    # Each result must be returned exactly once, in order. A result that is returned twice is an
    # alias, which torch must handle.
    in_order = results or [made]
    if not all(n in places for n in inputs) or any(n.target is not operator.getitem for n in results) or wanted != in_order or \
            [n.args[1] for n in results] != list(range(len(results))):
        return None
    expression, c_run, chosen = _expression(program), _scanfold.expression_run, [places[n] for n in inputs]
    if len(chosen) == 1:
        first = chosen[0]
        pick = lambda args: (args[first],)  # noqa: E731
    else:
        pick = operator.itemgetter(*chosen)
    if results:
        return lambda *args: c_run(expression, pick(args), keep)
    return lambda *args: [c_run(expression, pick(args), keep)]


def _plain(value):
    """Whether a value is not a tensor subclass that wraps other tensors: torch would unwrap it
    first, and the inputs would not be the same."""
    return not isinstance(value, torch.Tensor) or isinstance(value, torch._subclasses.FakeTensor) \
        or type(value) in (torch.Tensor, torch.nn.Parameter)


class _Compiler:
    """Compiles one graph from Dynamo. AOTAutograd splits it into a forward and a backward graph,
    and calls `inner` with each."""

    def __init__(self, gm, example_inputs, compile_rest, keep, exact, inductor, report):
        self.compile_rest, self.keep, self.exact, self.report = compile_rest, keep, exact, report
        self.inductor = inductor
        self.inputs = len(example_inputs)
        # If the inner graph has the same inputs as Dynamo's graph, a graph that is one expression
        # can be called without AOTAutograd's wrapper.
        self.same_inputs = all(map(_plain, example_inputs)) and not any(True for _ in gm.parameters()) and not any(True for _ in gm.buffers())
        self.direct = None

    def inner(self, gm, example_inputs, is_inference=False, **keywords):
        rewritten = _rewrite(gm, self.keep, self.exact, self.inductor)
        if self.report is not None:
            self.report.graph(gm, *rewritten)
            return self.report.watched(gm)
        if is_inference and self.same_inputs and len(example_inputs) == self.inputs:
            self.direct = _one_call(gm)
        if self.compile_rest is None or _all_ours(gm):
            return _boxed(gm)
        try:
            return self.compile_rest(gm, example_inputs, is_inference=is_inference, **keywords)
        except Exception as error:  # no compiler, or Inductor cannot compile this graph
            warnings.warn(f"scanfold: Inductor did not take the rest of this graph, which runs eagerly: {type(error).__name__}: {error}")
            return _boxed(gm)


def _is_functionalized(value):
    """Whether torch.func.functionalize made this tensor. AOTAutograd refuses such inputs in every
    backend, because it functionalizes tensors itself."""
    return isinstance(value, torch.Tensor) and torch._is_functional_tensor(value)


def _no_shared_cache():
    """Turns off AOTAutograd's cache on disk. Its key is the graph and not the backend, so our
    result would be used for Inductor's, and Inductor's for ours. (Inductor's own cache stays on:
    the graphs that it is given contain our operators.)"""
    config = torch._functorch.config
    return config.patch(enable_autograd_cache=False) if hasattr(config, "enable_autograd_cache") else contextlib.nullcontext()


def _option(options, name, values):
    value = options.get(name, values[0])
    if value not in values:
        raise ValueError(f"options[{name!r}] is {value!r}: {' and '.join(map(repr, values))} are taken")
    return value


def backend(gm, example_inputs, *, options=None, report=None, mode=None, **_):
    """What torch.compile(backend="scanfold") calls. Options:

    rest           "inductor" or "eager": how the operators outside our expressions are computed
    keep_weights   True: values that depend on parameters alone are kept from call to call until
                   autograd's version counters say that a parameter was written. Whoever sets it
                   promises that nothing writes to a parameter without autograd noticing
                   (docs/torch.md)
    exact          True: every operator keeps its own rounding. Matrix products are computed as
                   such, and factors are not moved
    """
    options = options or {}
    unknown = sorted(set(options) - {"rest", "keep_weights", "exact"})
    if unknown:
        raise ValueError(f"options has {', '.join(map(repr, unknown))}: the scanfold backend takes 'rest', 'keep_weights' and 'exact'")
    if mode not in (None, "default"):
        warnings.warn(f"mode={mode!r} is Inductor's own; the scanfold backend does not take it")
    rest = _option(options, "rest", ("inductor", "eager"))
    keep = KEEP_PARAMETERS if _option(options, "keep_weights", (False, True)) else 0
    exact = _option(options, "exact", (False, True))
    if any(map(_is_functionalized, example_inputs)):
        return gm.forward
    if rest == "inductor" and report is None:
        from torch._inductor.compile_fx import compile_fx, compile_fx_inner
        compiler = _Compiler(gm, example_inputs, compile_fx_inner, keep, exact, True, report)
        with _no_shared_cache():
            compiled = compile_fx(gm, example_inputs, inner_compile=compiler.inner)
    else:
        from torch._dynamo.backends.common import aot_autograd
        compiler = _Compiler(gm, example_inputs, None, keep, exact, rest == "inductor", report)
        inference = functools.partial(compiler.inner, is_inference=True)
        compiled = aot_autograd(fw_compiler=compiler.inner, bw_compiler=compiler.inner, inference_compiler=inference)(gm, example_inputs)
    return compiler.direct or compiled


# ---------------------------------------------------------------------------------------------------------------
# Explain
# ---------------------------------------------------------------------------------------------------------------
class Report:
    """How a model's graphs were compiled: as text, and as data in `graphs`."""

    def __init__(self):
        self.graphs = []

    def graph(self, gm, hoisted, fused, declined):
        left = [n.format_node() or n.name for n in gm.graph.nodes
                if n.op == "call_function" and not _is_expression(n) and n.target is not operator.getitem]
        self.graphs.append({"hoisted": hoisted, "fused": [nodes for _, nodes in fused],
                            "declined": declined, "left": left, "plans": []})

    def watched(self, gm):
        entry = self.graphs[-1]

        def explained(inputs, program, keep):
            entry["plans"].append(_scanfold.expression_explain(_expression(program), inputs, 0))
            return run(inputs, program, keep)
        for node in gm.graph.nodes:
            if _is_expression(node):
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
            for nodes, why in graph["declined"]:
                lines.append(f"  left to Inductor: {why}:")
                lines += [f"    {text}" for text in nodes]
            if graph["left"]:
                lines.append("  left:")
                lines += [f"    {text}" for text in graph["left"]]
        return "\n".join(lines) or "no graph was traced"


def explain(model, *inputs, **keywords):
    """Compiles a model, runs it once on these inputs (and its backward pass, if a result can be
    differentiated), and prints and returns a Report.

    It resets Dynamo, so torch.compile compiles everything in this process again afterwards."""
    report = Report()
    torch._dynamo.reset()
    try:
        compiled = torch.compile(model, backend=functools.partial(backend, report=report))
        result = compiled(*inputs, **keywords)
        results = [t for t in torch.utils._pytree.tree_flatten(result)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
        leaves = [t for t in list(getattr(model, "parameters", list)()) + list(inputs) if isinstance(t, torch.Tensor) and t.requires_grad]
        if results and leaves:
            torch.autograd.grad(results, leaves, [torch.ones_like(t) for t in results], allow_unused=True)
    finally:
        torch._dynamo.reset()
    print(report)
    return report
