"""torch.compile(model, backend="scanfold"): what the library can do becomes expressions, the rest is Inductor's, or eager.

torch hands over the graph as aten's operators, forward and backward apart. _regions.py finds what belongs together in it; each region becomes
one scanfold::expression, with as many results as others want of it, which the library plans and fuses when it meets its shapes. Nothing is
taken that the library has not agreed to plan, so an unknown operator is never an error.
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
# The operators a fused region becomes: the first where it has one result, the second where it has several. `keep`: as _expressions.h says
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
    """One region: its result, or a list of them."""
    return _scanfold.expression_run(_expression(program), inputs, keep)


def _fakes(inputs, program, keep):
    """Results in the memory order their program asks for, as the kernels make them."""
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
    """(products not computed, what was fused, what was left to Inductor and why)"""
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
    """Nothing is left that would be worth compiling: views, and arithmetic on lengths."""
    return all(n.op != "call_function" or n.target in _FREE or _is_expression(n)
               or isinstance(n.meta.get("val"), (int, torch.SymInt, torch.SymFloat, torch.SymBool)) for n in gm.graph.nodes)


def _boxed(gm):
    """The graph as it stands, its expressions run without a detour by the dispatcher."""
    for node in gm.graph.nodes:
        if _is_expression(node):
            node.target = run
    gm.recompile()
    if hasattr(gm, "real_recompile"):  # Inductor's graph modules are lazy, and go through nn.Module's call until then
        gm.real_recompile()
    forward = gm.forward

    def call(args):
        given = tuple(args)
        args.clear()
        return forward(*given)
    call._boxed_call = True
    return call


def _one_call(gm):
    """The function of its inputs' values that a graph is which is one expression and nothing else; None where it is more."""
    nodes = [n for n in gm.graph.nodes if n.op != "placeholder"]
    if not nodes or not _is_expression(nodes[0]) or nodes[-1].op != "output":
        return None
    made, results = nodes[0], nodes[1:-1]
    places = {n: i for i, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder")}
    inputs, program, keep = made.args
    wanted = list(nodes[-1].args[0])
    # The results one by one, each wanted once: a result twice is an alias, for torch to see to.
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
    """No subclass with something inside, which torch would take apart first."""
    return not isinstance(value, torch.Tensor) or isinstance(value, torch._subclasses.FakeTensor) \
        or type(value) in (torch.Tensor, torch.nn.Parameter)


class _Compiler:
    """Compiles one graph of Dynamo's: the graphs torch makes of it, forward and backward, come to `inner`."""

    def __init__(self, gm, example_inputs, compile_rest, keep, exact, inductor, report):
        self.compile_rest, self.keep, self.exact, self.report = compile_rest, keep, exact, report
        self.inductor = inductor
        self.inputs = len(example_inputs)
        # Where each of Dynamo's inputs is one of the inner graph's, a graph that is one expression can be called with no wrapper between.
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
        except Exception as error:  # no compiler, or something it cannot do
            warnings.warn(f"scanfold: Inductor did not take the rest of this graph, which runs eagerly: {type(error).__name__}: {error}")
            return _boxed(gm)


def _is_functionalized(value):
    """What torch.func.functionalize calls a compiled function with: AOTAutograd, which makes
    tensors functional itself, refuses it in every backend."""
    return isinstance(value, torch.Tensor) and torch._is_functional_tensor(value)


def _no_shared_cache():
    """torch keeps what it compiled on disk by the graph it was given, not by who compiled it: ours would be taken for Inductor's, and
    Inductor's for ours. (What Inductor itself is given, with our operators in it, it may keep.)"""
    config = torch._functorch.config
    return config.patch(enable_autograd_cache=False) if hasattr(config, "enable_autograd_cache") else contextlib.nullcontext()


def _option(options, name, values):
    value = options.get(name, values[0])
    if value not in values:
        raise ValueError(f"options[{name!r}] is {value!r}: {' and '.join(map(repr, values))} are taken")
    return value


def backend(gm, example_inputs, *, options=None, report=None, mode=None, **_):
    """What torch.compile(backend="scanfold") calls. Options:

    rest           "inductor", or "eager": who computes what is not ours
    keep_weights   True: what depends on parameters alone is kept from call to call until autograd's version counters say that one was
                   written. To ask for it is to promise that nobody writes to a parameter behind autograd's back (docs/torch.md)
    exact          True: every operator keeps its own rounding; products stay products, and factors where they stand
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
    """What became of a model's graphs: text, and the same as data in `graphs`."""

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
    """Compiles a model, runs it once on these inputs (and, where a result can be differentiated, its backward), and prints a Report. What
    torch.compile had compiled before in this process it compiles anew afterwards: Dynamo is reset."""
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
