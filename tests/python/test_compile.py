"""torch.compile: our functions traced whole, and backend="scanfold"."""
import logging

import pytest

import scanfold

torch = pytest.importorskip("torch", reason="torch is not installed")
import scanfold.torch as bridge  # noqa: E402

if bridge.VERSION < (2, 3):
    pytest.skip("the backend wants torch 2.3 or later", allow_module_level=True)
from scanfold import _compile  # noqa: E402
from scanfold._translate import interpret  # noqa: E402

logging.getLogger("torch").setLevel(logging.ERROR)


def eager_rest(gm, inputs):
    """The backend, with what is left run eagerly: no C++ compiler is waited for."""
    return _compile.backend(gm, inputs, options={"rest": "eager"})


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(3)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def fused(monkeypatch):
    """The programs that were fused, gathered."""
    programs, original = [], _compile.fuse

    def watch(graph):
        found = original(graph)
        programs.extend(found)
        return found
    monkeypatch.setattr(_compile, "fuse", watch)
    return programs


# ---------------------------------------------------------------------------------------------------------------
# Our own functions under any backend
# ---------------------------------------------------------------------------------------------------------------
def test_functions_trace_without_graph_breaks():
    def model(x, m):
        y = scanfold.cumsum(x, dim=1, reverse=True, mask=m) + scanfold.sum(x, axis=(0, 1), keepdims=True)
        return scanfold.max(y, 1), scanfold.cumprod(x, 0, dtype=torch.float64), scanfold.cumulative_sum(x, axis=0, include_initial=True)
    x, m = torch.randn(4, 6, requires_grad=True), torch.rand(4, 6) > 0.5
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for ours, expected in zip(compiled(x, m), model(x, m)):
        assert torch.equal(ours, expected)
    g = torch.randn(4)
    assert torch.equal(torch.autograd.grad(compiled(x, m)[0], x, g)[0], torch.autograd.grad(model(x, m)[0], x, g)[0])


def test_functions_take_dynamic_shapes():
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x: scanfold.cumsum(x, 1).sum(), backend=counter, dynamic=True, fullgraph=True)
    for n in (3, 4, 9, 100):
        compiled(torch.ones(2, n))
    assert counter.frame_count == 1


def test_export():
    class Model(torch.nn.Module):
        def forward(self, x):
            return scanfold.cumsum(x, 1, reverse=True)
    program = torch.export.export(Model(), (torch.ones(2, 3),))
    assert "scanfold.scan" in str(program.graph)
    assert torch.equal(program.module()(torch.ones(2, 3)), torch.tensor([[3.0, 2, 1]] * 2))


# ---------------------------------------------------------------------------------------------------------------
# The backend
# ---------------------------------------------------------------------------------------------------------------
MODELS = {
    "masked cumsum": (lambda x, m, w: torch.cumsum(x * m, dim=1), ["mul", "cumsum"], []),
    "reverse cumsum": (lambda x, m, w: torch.cumsum(x.flip(1), dim=1).flip(1), ["flip", "cumsum", "flip"], []),
    "reverse cumsum, other axis": (lambda x, m, w: torch.cumsum(x.flip(0), dim=0).flip(0), ["flip", "cumsum", "flip"], []),
    "where": (lambda x, m, w: torch.cumsum(torch.where(m, x, 0.0), 1) * 2, ["where", "cumsum", "mul"], []),
    "sum": (lambda x, m, w: torch.sum(x, dim=1, keepdim=True), ["sum"], []),
    "mean of squares": (lambda x, m, w: (x * x).mean(0), ["mul", "mean"], []),
    "gemm, divide, sum, scale": (lambda x, m, w: torch.sum(torch.matmul(x, w.T) / 2, dim=1, keepdim=True) * 1.5,
                                 ["mm", "div", "sum", "mul"], []),
    "linear, sum": (lambda x, m, w: torch.nn.functional.linear(x, w, w[:, 0]).sum(1), ["addmm", "sum"], []),
    "unknown around it": (lambda x, m, w: torch.erf(torch.cumsum(torch.lgamma(x.abs() + 1), 1)), ["cumsum"], ["lgamma", "erf"]),
    "a plain product": (lambda x, m, w: torch.relu(x @ w.T), None, ["mm"]),
    "softmax": (lambda x, m, w: torch.softmax(x, 1), None, ["_softmax"]),
    "integers": (lambda x, m, w: torch.cumsum(m, 1) + m.sum(), ["cumsum"], []),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name, fused):
    model, nodes, left = MODELS[name]
    x, w = torch.randn(6, 40, requires_grad=True), torch.randn(16, 40, requires_grad=True)
    m = torch.rand(6, 40) > 0.3
    y = torch.compile(model, backend=eager_rest, fullgraph=True)(x, m, w)
    expected = model(x, m, w)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    text = " ".join(" ".join(lines) for _, lines in fused)
    if nodes is None:
        assert not fused
    else:
        assert all(f"aten.{node}." in text for node in nodes), text
    assert not any(f"aten.{node}." in text for node in left)
    if y.requires_grad:
        g = torch.randn_like(y)
        for ours, theirs in zip(torch.autograd.grad(y, (x, w), g, allow_unused=True),
                                torch.autograd.grad(expected, (x, w), g, allow_unused=True)):
            if theirs is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_backward_is_fused_too(fused):
    x = torch.randn(5, 30, requires_grad=True)
    y = torch.compile(lambda x: torch.cumsum(x.exp(), 1), backend=eager_rest, fullgraph=True)(x)
    forward = len(fused)
    y.backward(torch.ones_like(y))
    assert len(fused) > forward and "aten.flip" in " ".join(fused[-1][1])
    z = x.detach().requires_grad_()
    torch.cumsum(z.exp(), 1).sum().backward()
    torch.testing.assert_close(x.grad, z.grad, rtol=1e-5, atol=1e-5)


def test_bits_are_those_of_the_direct_call():
    x, m = torch.randn(9, 1000), torch.rand(9, 1000) > 0.5
    masked = torch.compile(lambda x, m: torch.cumsum(torch.where(m, x, 0.0), 1), backend=eager_rest)(x, m)
    assert torch.equal(masked, scanfold.cumsum(x, 1, mask=m))
    reverse = torch.compile(lambda x: torch.cumsum(x.flip(0), 0).flip(0), backend=eager_rest)(x)
    with scanfold.using(backend="ref"):
        assert torch.equal(reverse, scanfold.cumsum(x, 0, reverse=True))


def test_dynamic_shapes_do_not_recompile():
    counter = torch._dynamo.testing.CompileCounterWithBackend(eager_rest)
    compiled = torch.compile(lambda x: torch.cumsum(x.flip(1), 1).flip(1), backend=counter)
    for n in (10, 20, 30, 40, 50, 1000):
        x = torch.randn(3, n)
        torch.testing.assert_close(compiled(x), torch.cumsum(x.flip(1), 1).flip(1), rtol=1e-4, atol=1e-4)
    assert counter.frame_count <= 2  # once as it came, once for any length


def test_found_by_name_without_an_import():
    from importlib import metadata
    found = metadata.entry_points()
    found = found.select(group="torch_dynamo_backends") if hasattr(found, "select") else found.get("torch_dynamo_backends", ())
    if "scanfold" not in [entry.name for entry in found]:
        pytest.skip("the package is on the path without its entry points")
    import subprocess
    import sys
    code = ("import sys, torch; assert 'scanfold' not in sys.modules\n"
            "print(torch.compile(lambda x: torch.cumsum(x.flip(0), 0).flip(0), backend='scanfold')(torch.ones(3)).tolist())")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert out.stdout.strip() == "[3.0, 2.0, 1.0]", out.stderr


def test_inductor_takes_the_rest():
    import shutil
    if not (shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")):
        pytest.skip("no C++ compiler for Inductor")
    model = lambda x: torch.erf(torch.cumsum(x, 1) * 2) + x.sum(1, keepdim=True)  # noqa: E731
    x = torch.randn(4, 50)
    torch.testing.assert_close(torch.compile(model, backend=_compile.backend, fullgraph=True)(x), model(x), rtol=1e-4, atol=1e-4)


def test_without_inductor_it_runs_all_the_same(monkeypatch):
    def refuse(*args, **keywords):
        raise RuntimeError("no compiler here")
    import torch._inductor.compile_fx
    monkeypatch.setattr(torch._inductor.compile_fx, "compile_fx_inner", refuse)
    model = lambda x: torch.erf(torch.cumsum(x, 1))  # noqa: E731
    x = torch.randn(4, 50)
    with pytest.warns(UserWarning, match="no compiler here"):
        y = torch.compile(model, backend=_compile.backend)(x)
    torch.testing.assert_close(y, model(x), rtol=1e-5, atol=1e-5)


def test_explain(capsys):
    def model(x, w):
        return torch.sum(torch.matmul(x, w.T) / 2, dim=1, keepdim=True) * 1.5
    report = scanfold.explain(model, torch.randn(8, 64), torch.randn(32, 64))
    text = capsys.readouterr().out
    assert "fused into one expression" in text and "before:" in text and "after:" in text
    assert report.graphs[0]["plans"] and len(report.graphs) == 1
    scanfold.explain(lambda x: torch.erf(x), torch.randn(3))
    assert "0 fused" in capsys.readouterr().out


def test_wrong_options():
    with pytest.raises(Exception, match="rest"):
        torch.compile(lambda x: x + 1, backend=lambda g, i: _compile.backend(g, i, options={"rest": "gcc"}))(torch.ones(1))


# ---------------------------------------------------------------------------------------------------------------
# torch's own samples of what these operators are called with
# ---------------------------------------------------------------------------------------------------------------
def _op_infos():
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as missing:
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"torch's samples cannot be imported: {missing}"))]
    names = {"cumsum", "cumprod", "sum", "prod", "amax", "amin", "mean", "flip", "mul", "where", "sub", "div", "clamp", "cummax", "masked.sum",
             "masked.cumsum", "matmul", "addmm", "nn.functional.linear", "logcumsumexp", "diff", "std"}
    return [op for op in op_db if op.name in names and not op.variant_test_name]


@pytest.mark.parametrize("op", _op_infos(), ids=lambda op: getattr(op, "name", "none"))
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_samples_of_op_infos(op, dtype):
    from torch.fx.experimental.proxy_tensor import make_fx
    if dtype not in op.dtypes:
        pytest.skip(f"{op.name} has no {dtype}")
    checked = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        tensors, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        held = [t for t in tensors if isinstance(t, torch.Tensor)]

        def call(*given):
            given = iter(given)
            x, args, kwargs = torch.utils._pytree.tree_unflatten([next(given) if isinstance(t, torch.Tensor) else t for t in tensors], spec)
            return torch.utils._pytree.tree_flatten(op(x, *args, **kwargs))[0]
        expected = call(*held)
        gm = make_fx(call, tracing_mode="fake")(*held)
        _compile._rewrite(gm)
        for ours, theirs in zip(_compile._boxed(gm)(list(held)), expected):
            # What torch's own tests allow float32 against float64, for sums of the sizes of its samples.
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4, equal_nan=True)
        checked += 1
    assert checked


@pytest.mark.parametrize("model", [
    lambda x, m: torch.cumsum((x.abs() + 1).sqrt() * m, 1).clamp(0.5, 20) / 2,
    lambda x, m: (x[:, 1:] - x[:, :-1]).square().mean(1),
    lambda x, m: x.t().amax(0),
    lambda x, m: torch.where(m, x.exp(), x).prod(0),
    lambda x, m: 3 - x.sigmoid().unsqueeze(0).sum((0, 2)).tanh(),
    lambda x, m: torch.cumprod((x > 0).to(torch.float64), 0).select(1, 2),
], ids=["scan", "mean", "amax", "prod", "sum", "cumprod"])
def test_programs_read_back(model):
    """An expression computes what its program says, read by torch's own operators, which is what the model says."""
    from torch.fx.experimental.proxy_tensor import make_fx
    given = {"x": torch.randn(4, 9), "m": torch.rand(4, 9) > 0.5}
    gm = make_fx(model, tracing_mode="fake")(*given.values())
    (program, _), = _compile.fuse(gm.graph)
    node = next(n for n in gm.graph.nodes if n.target is torch.ops.scanfold.expression.default)
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    inputs = [list(given.values())[places.index(n)] for n in node.args[0]]
    ours = _compile.run(inputs, program)
    torch.testing.assert_close(ours, interpret(_compile._instructions(program), inputs)[0], rtol=1e-5, atol=1e-5)


def test_lazy_signs_are_written_out():
    compiled = torch.compile(lambda x: torch.cumsum(x, 0), backend=eager_rest)
    x = torch.randn(5, dtype=torch.complex64).conj().imag
    torch.testing.assert_close(compiled(x), torch.cumsum(x, 0))


def test_many_shapes_and_threads_share_an_expression():
    """More shapes than plans are kept, from several threads at once."""
    import threading
    program = '[["input"],["flip",0,[0]],["scan",1,0,0,0,0,-1,0],["flip",2,[0]],["output",3]]'
    wrong = []

    def work(first):
        for n in range(first, first + 100):
            x = torch.arange(n % 50 + 1.0)
            if not torch.equal(_compile.run([x], program), scanfold.cumsum(x, 0, reverse=True)):
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(17 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
