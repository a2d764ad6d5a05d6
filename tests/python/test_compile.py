"""torch.compile: our functions traced whole, and backend="scanfold"."""
import functools
import itertools
import logging
import os

import pytest

import scanfold

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch._dynamo.testing  # noqa: E402
import scanfold.torch as bridge  # noqa: E402

if bridge.VERSION < (2, 3):
    pytest.skip("the backend wants torch 2.3 or later", allow_module_level=True)
from scanfold import _compile, _regions  # noqa: E402
from scanfold._translate import interpret  # noqa: E402

logging.getLogger("torch").setLevel(logging.ERROR)


def eager_rest(gm, inputs):
    """The backend, with everything else run eagerly, so that no C++ compiler is needed."""
    return _compile.backend(gm, inputs, options={"rest": "eager"})


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(3)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def fused(monkeypatch):
    """Collects the programs that were fused."""
    programs, original = [], _compile.fuse

    def watch(*args):
        found = original(*args)
        programs.extend(found)
        return found
    monkeypatch.setattr(_compile, "fuse", watch)
    return programs


# ---------------------------------------------------------------------------------------------------------------
# Our own functions under any backend
# ---------------------------------------------------------------------------------------------------------------
def test_functions_trace_without_graph_breaks(device):
    def model(x, m):
        y = scanfold.cumsum(x, dim=1, reverse=True, mask=m) + scanfold.sum(x, axis=(0, 1), keepdims=True)
        return scanfold.max(y, 1), scanfold.cumprod(x, 0, dtype=torch.float64), scanfold.cumulative_sum(x, axis=0, include_initial=True)
    x = torch.randn(4, 6, requires_grad=True, device=device)
    m = torch.rand(4, 6, device=device) > 0.5
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for ours, expected in zip(compiled(x, m), model(x, m)):
        assert torch.equal(ours, expected)
    g = torch.randn(4, device=device)
    assert torch.equal(torch.autograd.grad(compiled(x, m)[0], x, g)[0], torch.autograd.grad(model(x, m)[0], x, g)[0])


def test_functions_take_dynamic_shapes(device):
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x: scanfold.cumsum(x, 1).sum(), backend=counter, dynamic=True, fullgraph=True)
    for n in (3, 4, 9, 100):
        compiled(torch.ones(2, n, device=device))
    assert counter.frame_count == 1


def test_export(device):
    class Model(torch.nn.Module):
        def forward(self, x):
            return scanfold.cumsum(x, 1, reverse=True)
    program = torch.export.export(Model(), (torch.ones(2, 3, device=device),))
    assert "scanfold.scan" in str(program.graph)
    assert torch.equal(program.module()(torch.ones(2, 3, device=device)),
                       torch.tensor([[3.0, 2, 1]] * 2, device=device))


# ---------------------------------------------------------------------------------------------------------------
# The backend
# ---------------------------------------------------------------------------------------------------------------
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@pytest.mark.host_only("out of range torch has other answers on a GPU")
@pytest.mark.parametrize("real", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_reals_as_integers_are_torchs(fused, real):
    """As torch's own, in range and out of it, in vectors and one by one."""
    values = [0.0, -0.9, 1.9, -1.9, 200.7, 255, 256, -300.5, 70000, -70000, 2.0**31, -2.0**31, 3e9,
              -5e9, 2.0**31 + 5, -2.0**40 - 77, 2.0**62, 2.0**63, -2.0**63, 1e30, float("inf"),
              float("-inf"), float("nan")]
    for dtype in INTEGERS:
        model = functools.partial(lambda dtype, x: x.cumsum(1).to(dtype), dtype)
        compiled = torch.compile(model, backend=eager_rest)
        for count in (1, 40):
            x = torch.tensor(values, dtype=torch.float64).to(real).repeat(count, 1).T.contiguous()
            x[:, 1:] = 0  # rows of one value, which is its own sum
            assert torch.equal(compiled(x), model(x)), (dtype, compiled(x)[:, 0], model(x)[:, 0])
        x = torch.randn(3, 2000).to(real) * 100
        assert torch.equal(compiled(x.round()), model(x.round()))
    assert fused


def test_numbers_beside_integers_are_torchs(device, fused):
    """Arithmetic and comparisons wrap a number to the tensor's dtype; the rest is left to torch."""
    def model(x, c):
        return ((x + c).cumsum(0), (x * c - c).sum(0), (c - x).cumsum(0), (x >= c).sum(0),
                (x == c).sum(0), (c < x).cumsum(0), x.amax(0) + c)
    for dtype, number in ((torch.uint8, 300), (torch.uint8, 256), (torch.uint8, -1),
                          (torch.int8, 200), (torch.int32, 2**40 + 3)):
        info = torch.iinfo(dtype)
        ends = [info.min, info.min + 1, 0, 1, 44, info.max - 1, info.max]
        x = torch.tensor(ends, dtype=dtype, device=device)
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=eager_rest)
        for ours, right in zip(compiled(x, number), model(x, number)):
            assert torch.equal(ours, right), (dtype, number)
    assert fused
    del fused[:]
    torch._dynamo.reset()
    u = torch.tensor([0, 44, 255], dtype=torch.uint8, device=device)
    # torch takes the second bound for 251.
    clamped = torch.compile(lambda x: x.clamp(-5, 200).cumsum(0), backend=eager_rest)
    assert torch.equal(clamped(u), u.clamp(-5, 200).cumsum(0))
    pad = torch.nn.functional.pad
    for refused in (lambda x: x.clamp(0, 300).cumsum(0),
                    lambda x: torch.where(x > 0, x, 300).cumsum(0),
                    lambda x: x.masked_fill(x > 9, 300).sum(0),
                    lambda x: pad(x.cumsum(0, dtype=x.dtype), (1, 0), value=300)):
        with pytest.raises(RuntimeError):
            refused(u)
        with pytest.raises(RuntimeError):
            torch.compile(refused, backend=eager_rest)(u)


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
def test_models(device, name, fused):
    model, nodes, left = MODELS[name]
    x = torch.randn(6, 40, requires_grad=True, device=device)
    w = torch.randn(16, 40, requires_grad=True, device=device)
    m = torch.rand(6, 40, device=device) > 0.3
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


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("model", [
    lambda x, m: torch.cumsum(x * m, dim=1), lambda x, m: torch.cumsum(x.flip(1), dim=1).flip(1),
    lambda x, m: torch.cumsum(x.flip(0), dim=0).flip(0), lambda x, m: torch.sum(x, dim=1, keepdim=True),
    lambda x, m: torch.cumsum(torch.where(m, x, 0.0), 1) * 2], ids=["masked", "reverse", "down", "sum", "where"])
def test_nothing_is_left_to_inductor(device, model, dynamic, fused, monkeypatch):
    """Inductor has its own names for some operators by the time we see them: forward and backward are ours all the same."""
    import torch._inductor.compile_fx

    def refuse(gm, *args, **keywords):
        raise AssertionError(f"left to Inductor: {gm.graph}")
    monkeypatch.setattr(torch._inductor.compile_fx, "compile_fx_inner", refuse)
    x = torch.randn(5, 30, requires_grad=True, device=device)
    m = torch.rand(5, 30, device=device) > 0.5
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # what a refusal becomes
        y = torch.compile(model, backend=_compile.backend, fullgraph=True, dynamic=dynamic)(x, m)
        g = torch.randn_like(y)
        ours, = torch.autograd.grad(y, x, g)
    torch.testing.assert_close(y, model(x, m), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours, torch.autograd.grad(model(x, m), x, g)[0], rtol=1e-5, atol=1e-5)
    assert len(fused) >= (1 if y.shape[1] == 1 else 2)  # a sum's gradient is a view


@pytest.mark.host_only("its GPU is pretended")
def test_numbers_on_another_device_are_left_outside():
    """A tensor of no dimensions on the CPU may meet one on a GPU; an expression is of one device."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    with FakeTensorMode() as mode:
        try:
            x, scale = torch.empty(4, 9, device="cuda"), torch.empty((), dtype=torch.float64)
        except (RuntimeError, AssertionError) as missing:
            pytest.skip(f"this torch has no pretended GPU: {missing}")
        gm = make_fx(lambda x, s: torch.cumsum(x, 1) * s, tracing_mode="real")(x, scale)
        with mode:
            (_, nodes), = _compile.fuse(gm.graph)
    assert "cumsum" in nodes[0] and len(nodes) == 1


def test_what_is_finite_stays_finite(device, fused):
    # The columns of w add up to infinity; no product with them does.
    x = torch.rand(6, 30, device=device) * 1e-8
    w = torch.rand(40, 30, device=device) * 1.6e38 + 1.6e38
    x[2] = 0
    x.requires_grad_(), w.requires_grad_()
    def model(x, w):
        return (x @ w.T / 2).sum(1, keepdim=True) * 1.5
    y, expected = torch.compile(model, backend=eager_rest, fullgraph=True)(x, w), model(x, w)
    torch.testing.assert_close(y, expected)
    g = torch.full_like(y, 1e-10)
    for ours, right in zip(torch.autograd.grad(y, (x, w), g),
                           torch.autograd.grad(expected, (x, w), g)):
        torch.testing.assert_close(ours, right)
    assert fused


def test_backward_is_fused_too(device, fused):
    x = torch.randn(5, 30, requires_grad=True, device=device)
    y = torch.compile(lambda x: torch.cumsum(x.exp(), 1), backend=eager_rest, fullgraph=True)(x)
    forward = len(fused)
    y.backward(torch.ones_like(y))
    assert len(fused) > forward and "aten.flip" in " ".join(fused[-1][1])
    z = x.detach().requires_grad_()
    torch.cumsum(z.exp(), 1).sum().backward()
    torch.testing.assert_close(x.grad, z.grad, rtol=1e-5, atol=1e-5)


def test_bits_are_those_of_the_direct_call(device):
    x, m = torch.randn(9, 1000, device=device), torch.rand(9, 1000, device=device) > 0.5
    masked = torch.compile(lambda x, m: torch.cumsum(torch.where(m, x, 0.0), 1), backend=eager_rest)(x, m)
    assert torch.equal(masked, scanfold.cumsum(x, 1, mask=m))
    reverse = torch.compile(lambda x: torch.cumsum(x.flip(0), 0).flip(0), backend=eager_rest)(x)
    with scanfold.using(backend="ref"):
        assert torch.equal(reverse, scanfold.cumsum(x, 0, reverse=True))


REDUCED = {"cumsum": lambda x: torch.cumsum(x, 1), "sum": lambda x: x.sum(1), "prod": lambda x: x.prod(1), "amax": lambda x: x.amax(1),
           "mean": lambda x: x.mean(1, dtype=torch.float32), "narrow sum": lambda x: x.sum(1, dtype=torch.int8)}
FOLLOWED = {"as it is": lambda y: y, "negative": lambda y: (y * -1).float(), "compared": lambda y: y > -1, "divided": lambda y: y / 3,
            "narrowed": lambda y: y.to(torch.int8)}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.bool], ids=["uint8", "int16", "bool"])
def test_integers_are_torchs(device, name, dtype, fused):
    """Every dtype on the way is torch's: a sum of unsigned integers is signed, so there is something below its zero."""
    x = torch.randint(0, 5, (3, 7), device=device).to(dtype)
    followed = list(FOLLOWED.values())
    if os.environ.get("SCANFOLD_TEST_THIN"):  # every second, in turns: each follows each of the others, with one dtype at least
        followed = followed[(list(REDUCED).index(name) + (dtype is torch.int16)) % 2::2]
    for behind in followed:
        def model(x):
            return behind(REDUCED[name](x))
        torch._dynamo.reset()
        ours, expected = torch.compile(model, backend=eager_rest, fullgraph=True)(x), model(x)
        # On a GPU torch divides by a number as it multiplies by its reciprocal.
        loose = 1e-6 if ours.is_cuda and ours.is_floating_point() else 0
        torch.testing.assert_close(ours, expected, rtol=loose, atol=0)
    assert fused


# ---------------------------------------------------------------------------------------------------------------
# Values without indices; scans that are one longer, or exclusive
# ---------------------------------------------------------------------------------------------------------------
def _put_before(number, y, axis=1):
    form = list(y.shape)
    form[axis] = 1
    return torch.cat([y.new_full(form, number), y], axis)


def _initial(x, axis=1):
    return scanfold.cumulative_sum(x, axis=axis, include_initial=True)


pad = torch.nn.functional.pad
LONGER = {  # the model, what it is in our own words, bit for bit, and how many nodes are one expression
    "zeros before": (lambda x: _put_before(0, torch.cumsum(x, 1)), _initial, 2),
    "zeros_like before": (lambda x: torch.cat([torch.zeros_like(x[:, :1]), torch.cumsum(x, 1)], -1), _initial, 2),
    "zeros above": (lambda x: torch.cat([torch.zeros(1, x.shape[1], device=x.device),
                                         torch.cumsum(x, 0)]), lambda x: _initial(x, 0), 2),
    "of something": (lambda x: _put_before(0, torch.cumsum(x.abs(), 1)), lambda x: _initial(x.abs()), 3),
    "padded": (lambda x: pad(torch.cumsum(x, 1), (1, 0)), _initial, 2),
    "padded above": (lambda x: pad(torch.cumsum(x, 0), (0, 0, 1, 0)), lambda x: _initial(x, 0), 2),
    "ones before": (lambda x: pad(torch.cumprod(x, 1), (1, 0), value=1.0), lambda x: scanfold.cumulative_prod(x, axis=1, include_initial=True), 2),
    "behind": (lambda x: pad(torch.cumsum(x.flip(1), 1).flip(1), (0, 1)), lambda x: pad(scanfold.cumsum(x, 1, reverse=True), (0, 1)), 4),
    "lengths": (lambda x: pad(torch.cumsum(x.to(torch.int32)[0], 0, dtype=torch.int32), (1, 0)),
                lambda x: scanfold.cumulative_sum(x.to(torch.int32)[0], dtype=torch.int32, include_initial=True), 4),
    "exclusive": (lambda x: _put_before(0, torch.cumsum(x, 1)[:, :-1]), lambda x: scanfold.cumsum(x, 1, exclusive=True), 3),
    "exclusive, padded": (lambda x: pad(torch.cumsum(x, 1)[:, :-1], (1, 0)), lambda x: scanfold.cumsum(x, 1, exclusive=True), 3),
    "exclusive product": (lambda x: _put_before(1, torch.cumprod(x, 1)[:, :-1]), lambda x: scanfold.cumprod(x, 1, exclusive=True), 3),
    "exclusive from behind": (lambda x: pad(torch.cumsum(x.flip(1), 1).flip(1)[:, 1:], (0, 1)),
                              lambda x: scanfold.cumsum(x, 1, reverse=True, exclusive=True), 5),
    "exclusive, shifted before": (lambda x: torch.cumsum(_put_before(0, x[:, :-1]), 1),
                                  lambda x: scanfold.cumsum(x, 1, exclusive=True), 3),
    "exclusive product, shifted": (lambda x: torch.cumprod(pad(x[:, :-1], (1, 0), value=1), 1),
                                   lambda x: scanfold.cumprod(x, 1, exclusive=True), 3),
    "shifted by a seven": (lambda x: torch.cumsum(_put_before(7, x[:, :-1]), 1),
                           lambda x: scanfold.cumsum(_put_before(7, x[:, :-1]), 1), 3),
    "other number": (lambda x: _put_before(7, torch.cumsum(x, 1)), lambda x: _put_before(7, scanfold.cumsum(x, 1)), 2),
    "two before": (lambda x: pad(torch.cumsum(x, 1), (2, 0)), lambda x: pad(scanfold.cumsum(x, 1), (2, 0)), 1),
    "wider": (lambda x: torch.cat([torch.zeros(x.shape[0], 1, dtype=torch.float64, device=x.device),
                                   torch.cumsum(x, 1)], 1), lambda x: _initial(x).double(), 1),
    "a fold": (lambda x: _put_before(0, x.sum(1, keepdim=True)), lambda x: _put_before(0, scanfold.sum(x, 1, keepdim=True)), 1),
    "max": (lambda x: x.max(1).values, lambda x: scanfold.max(x, 1), 1),
    "min": (lambda x: x.abs().min(0, keepdim=True).values, lambda x: scanfold.min(x.abs(), 0, keepdims=True), 2),
    "max and where": (lambda x: x.max(1), lambda x: torch.max(x, 1), 2),
    "where alone": (lambda x: x.min(1).indices, lambda x: scanfold.argmin(x, 1), 1),
    "where a real cummax is": (lambda x: torch.cummax(x, 1).indices, lambda x: torch.cummax(x, 1).indices, 1),
    "whole cummax": (lambda x: torch.cummax(x.to(torch.int64), 1).values, lambda x: scanfold.cummax(x.to(torch.int64), 1), 2),
    "whole cummin": (lambda x: torch.cummin(x.to(torch.int8), 0).values * 2, lambda x: scanfold.cummin(x.to(torch.int8), 0) * 2, 3),
    "real cummax": (lambda x: torch.cummax(x, 1).values, lambda x: scanfold.cummax(x, 1), 1),
    "real cummax and where": (lambda x: tuple(torch.cummax(x, 1)), lambda x: scanfold.cummax(x, 1, return_indices=True), 2),
    "least and largest": (lambda x: tuple(torch.aminmax(x, dim=1)), lambda x: (scanfold.min(x, 1), scanfold.max(x, 1)), 2),
    "deviation and mean": (lambda x: torch.std_mean(x, 1), lambda x: (scanfold.std(x, 1, correction=1), scanfold.mean(x, 1)), 2),
    "our cummax": (lambda x: scanfold.cummax(x * 2, 1, mask=x > 0, exclusive=True), lambda x: scanfold.cummax(x * 2, 1, mask=x > 0, exclusive=True), 3),
    "our cumsum": (lambda x: scanfold.cumsum(x * 3, 1), lambda x: scanfold.cumsum(x * 3, 1), 0),  # its bits are promised
}


def _bits(y):
    return [t.contiguous().view(torch.uint8) for t in (y if isinstance(y, tuple) else (y,))]


@pytest.mark.parametrize("name", LONGER)
def test_lengthened_scans_and_values_alone(device, name, fused):
    model, ours, count = LONGER[name]
    x = torch.randn(6, 50, device=device) * 4
    x[:, ::7] = -0.0
    y = torch.compile(model, backend=eager_rest, fullgraph=True)(x)
    assert sum(len(nodes) for _, nodes in fused) == count
    assert all(torch.equal(a, b) for a, b in zip(_bits(y), _bits(ours(x))))
    programs = [([tuple(i) for i in _compile._instructions(program)]) for program, _ in fused]
    if name.startswith("exclusive"):  # and no pass for the number
        assert "after:  1 pass," in _compile._scanfold.expression_explain(_compile._expression(fused[0][0]), [x], 0)
    if count > 1:  # what the fakes are computed by says the same
        torch.testing.assert_close(interpret(programs[0], [x])[0], y[0] if isinstance(y, tuple) else y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["zeros before", "padded", "exclusive", "max"])
def test_gradients_of_lengthened_scans(device, name):
    x = torch.randn(6, 50, requires_grad=True, device=device)
    model = LONGER[name][0]
    y = torch.compile(model, backend=eager_rest, fullgraph=True, dynamic=True)(x)
    g = torch.randn_like(y)
    torch.testing.assert_close(torch.autograd.grad(y, x, g)[0], torch.autograd.grad(model(x), x, g)[0], rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------------------------------------------------------
# Several results of one region
# ---------------------------------------------------------------------------------------------------------------
def _cumsum_and_its_maximum(x, m):
    y = torch.cumsum(x * 2, 1)
    return y, y.amax(1)


def _read_by_others(x, m):
    y = x * 2
    return y.sum(1), torch.lgamma(y)


def _a_number_is_wanted(x, m):
    number = torch.full((), -2.0, device=x.device)
    return torch.cumsum(torch.where(m, x, number), 1), number


def _softmax(x, m):
    e = (x - x.amax(1, keepdim=True)).exp()
    return e / e.sum(1, keepdim=True)


def _a_path_leaves_and_comes_back(x, m):
    y = torch.cumsum(x, 1)
    return y, torch.cumsum(x * torch.erf(y), 1)


def _a_result_is_wanted_before_an_input_is_there(x, m):
    y = torch.erf(torch.cumsum(x, 1))
    return y, torch.cumsum(x + torch.lgamma(x.abs() + 1), 1)


TOGETHER = {
    "sum and max": (lambda x, m: (x.sum(1), x.amax(1)), 1, 0),
    "scan and total": (lambda x, m: (torch.cumsum(x, 1), x.sum(1, keepdim=True)), 1, 0),
    "scan of a scan's product": (_cumsum_and_its_maximum, 1, 0),
    "both read a product": (lambda x, m: ((x * m).sum(1), (x * m).amax(1), (x * m).mean(0)), 1, 0),
    "moments": (lambda x, m: (x.mean(1), (x * x).mean(1)), 1, 0),
    "one result of two folds": (lambda x, m: x.amax(1) - x.amin(1), 1, 0),
    "nothing shared": (lambda x, m: (x.sum(1), m.sum(1)), 2, 0),
    "a softmax": (_softmax, 0, 5),
    "read by what we do not know": (_read_by_others, 0, 3),
    "numbers as tensors": (lambda x, m: torch.cumsum(
        torch.where(m, x, torch.full((), -2.0, device=x.device)), 1), 1, 0),
    "numbers that are wanted": (_a_number_is_wanted, 1, 1),
    "normalized": (lambda x, m: x / x.sum(1, keepdim=True), 0, 2),
    "a path leaves and comes back": (_a_path_leaves_and_comes_back, 2, 1),
    "wanted before an input is there": (_a_result_is_wanted_before_an_input_is_there, 2, 4),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_several_results_of_one_region(device, name, monkeypatch):
    from torch.fx.experimental.proxy_tensor import make_fx
    model, regions, left = TOGETHER[name]
    x, m = torch.randn(7, 300, device=device), torch.rand(7, 300, device=device) > 0.4
    gm = make_fx(model, tracing_mode="fake")(x, m)
    decide = _regions.better_left  # on CUDA several folds are left to Inductor
    monkeypatch.setattr(_regions, "better_left", lambda region, device: decide(region, "cpu"))
    _compile._rewrite(gm)
    calls = [n for n in gm.graph.nodes if _compile._is_expression(n)]
    others = [n for n in gm.graph.nodes if n.op == "call_function" and n not in calls and "getitem" not in str(n.target)]
    assert len(calls) == regions and len(others) == left, gm.graph
    for ours, theirs in zip(torch.utils._pytree.tree_flatten(_compile._boxed(gm)([x, m]))[0], torch.utils._pytree.tree_flatten(model(x, m))[0]):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def _layer_norm(x, w):
    var, mean = torch.var_mean(x, 1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(var + 1e-5) * w, mean


BACK = {
    "softmax": lambda x, w: _softmax(x, None), "log_softmax": lambda x, w: x - x.amax(1, keepdim=True) - (x - x.amax(1, keepdim=True)).exp().sum(1, keepdim=True).log(),
    "rms_norm": lambda x, w: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-5) * w, "layer_norm": _layer_norm,
    "normalize": lambda x, w: x / x.pow(2.0).sum(1, keepdim=True).pow(0.5).clamp_min(1e-12).expand(x.shape),
    "a fold that is not kept": lambda x, w: x - x.sum(1).unsqueeze(1), "cubes": lambda x, w: x * x.sum(1, keepdim=True).pow(3),
}


@pytest.mark.parametrize("name", BACK)
def test_regions_that_go_back_to_their_elements(device, name, fused):
    """On the CPU the whole is one expression, forward, where nobody does better; on CUDA it is left."""
    x, w = torch.randn(30, 200, requires_grad=True, device=device), torch.randn(200, requires_grad=True, device=device)
    y, expected = torch.compile(BACK[name], backend=eager_rest, fullgraph=True)(x, w), BACK[name](x, w)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    if device == "cpu":
        assert len(fused) == 1
    y, expected = (t[0] if isinstance(t, tuple) else t for t in (y, expected))
    g = torch.randn_like(y)
    for ours, theirs in zip(torch.autograd.grad(y, (x, w), g, allow_unused=True), torch.autograd.grad(expected, (x, w), g, allow_unused=True)):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def _hinge(x, t):
    return (1 - x * t).clamp(min=0).mean()


ROWS, IMAGES = (64, 48), (4, 5, 6, 7)
FORMS = {  # the model, the shapes of x and t, and whether it is ours on CUDA
    "hinge loss": (_hinge, ROWS, (48,), False),
    "hinge loss, a column": (_hinge, ROWS, (64, 1), False),
    "hinge loss, nothing broadcast": (_hinge, ROWS, ROWS, True),
    "stretched": (lambda x, t: (x * t.unsqueeze(0).expand(64, 48)).sum(1), ROWS, (48,), False),
    "average pool": (lambda x, t: (x * 2 + 1).mean((2, 3)), IMAGES, (), False),
    "average pool, kept": (lambda x, t: x.relu().mean((-1, -2), keepdim=True), IMAGES, (), False),
    "average pool of what is there": (lambda x, t: x.mean((2, 3)), IMAGES, (), True),
    "average pool of another type": (lambda x, t: x.double().mean((2, 3)), IMAGES, (), True),
    "one trailing axis": (lambda x, t: (x * 2).square().sum(1), ROWS, (), True),
    "leading axes": (lambda x, t: (x * 2).abs().sum((0, 1)), IMAGES, (), True),
    "all of it": (lambda x, t: x.abs().sum(), ROWS, (), True),
    "broadcast behind the fold": (lambda x, t: x.sum(1) * t, ROWS, (64,), True),
    "masked cumsum": (lambda x, t: torch.cumsum(x * t, 1), ROWS, (48,), True),
    "reverse cumsum": (lambda x, t: torch.cumsum(x.flip(1), 1).flip(1), ROWS, (), True),
    "flip, cumsum, flip": (lambda x, t: torch.cumsum(x.flip(0), 0).flip(0), ROWS, (), True),
    "sum over a dimension": (lambda x, t: x.sum(1, keepdim=True), ROWS, (), True),
    "gemm, divide, sum, scale": (lambda x, t: (x @ t.T / 2).sum(1) * 1.5, ROWS, (16, 48), True),
    "linear, sum": (lambda x, t: (x @ t.T + t[:, 0]).sum(1), ROWS, (16, 48), True),
}


@pytest.mark.host_only("the device is an argument")
@pytest.mark.parametrize("name", FORMS)
def test_folds_that_inductor_does_better_on_cuda(name, monkeypatch):
    from torch.fx.experimental.proxy_tensor import make_fx
    model, *shapes, ours = FORMS[name]
    decide, asked, why = _regions.better_left, [], []

    def fuse(device, inductor):
        def decision(region, given):
            asked.append(given)
            return decide(region, given and device)
        monkeypatch.setattr(_regions, "better_left", decision)
        gm, declined = make_fx(model, tracing_mode="fake")(*map(torch.randn, shapes)), []
        fused = _compile.fuse(gm.graph, 0, False, inductor, declined)
        why.extend(sentence for _, sentence in declined)
        assert bool(fused) != bool(declined)
        return bool(fused)
    assert fuse("cuda", True) == ours and fuse("cpu", True) and fuse("cuda", False)
    assert set(asked) == {"cpu", None}  # the traced one; none where Inductor is not there
    assert all(sentence.startswith("it would cost us ") for sentence in why)


MB = 1 << 20
ESTIMATES = {  # the model, and what a region of all its operators costs us and Inductor on CUDA
    "a fold": (lambda x, y: x.sum(1), 1, 1.1),
    "of two inputs": (lambda x, y: (x * y).sum(1), 2, 2.2),
    "with a broadcast operand": (lambda x, y: (x * y[0]).sum(1), 2, 1.1),
    "two folds of one input": (lambda x, y: x.sum(1) + x.amax(1), 2, 1.1),
    "of a hyperbolic tangent": (lambda x, y: x.tanh().sum(1), 1.925, 1.325),
    "a scan": (lambda x, y: x.cumsum(1), 2, 5),
    "of a hyperbolic tangent, a scan": (lambda x, y: x.tanh().cumsum(1), 2, 5),
    "down columns": (lambda x, y: x.cumsum(0), 2, 16),
    "of what is made longer": (lambda x, y: pad(x, (1, 0)).cumsum(1), 8, 5),
}


@pytest.mark.host_only("nothing is run")
@pytest.mark.parametrize("name", ESTIMATES)
def test_estimates(name):
    _check_estimate(name, *ESTIMATES[name])


PAIRED = {  # as in ESTIMATES, of operators that are two for us: what shares a read
    "the largest and its place": (lambda x, y: x.max(1), 1, 1.1), "the place alone": (lambda x, y: x.min(0).indices, 1, 1.1),
    "the largest, used again, and its place": (lambda x, y: (lambda pair: (pair.values * 2, pair.indices))(x.max(1)), 2, 1.1),
    "the largest so far and its place": (lambda x, y: x.cummax(1), 4, 10), "down columns": (lambda x, y: x.cummin(0), 4, 32),
    "the least and the largest": (lambda x, y: torch.aminmax(x, dim=1), 2, 1.1),
    "variance and mean": (lambda x, y: torch.var_mean(x, 1), 1.03, 1.1), "deviation, of all": (lambda x, y: x.std(), 1.03, 1.1),
    "variance of work": (lambda x, y: (x * y).var(1), 4.03, 2.2), "variance of halves": (lambda x, y: x.half().var(1), 2.03, 1.1),
}


@pytest.mark.host_only("nothing is run")
@pytest.mark.parametrize("name", PAIRED)
def test_estimates_of_pairs(name):
    _check_estimate(name, *PAIRED[name])


CHOSEN = {  # a model of x, of 256 MB where it is float32, and whether it is ours beside Inductor on CUDA and on the CPU
    "largest": (lambda x: x.max(1), True, True), "least, down": (lambda x: x.min(0), True, True), "place": (lambda x: x.argmax(1), True, True),
    "cummax": (lambda x: x.cummax(1), True, True), "cummin, down": (lambda x: x.cummin(0), True, True),
    "cummax of one line": (lambda x: x.view(-1).cummax(0), True, False), "cummax of one line, values": (lambda x: x.view(-1).cummax(0).values, True, True),
    "var": (lambda x: x.var(1), True, True), "var_mean": (lambda x: torch.var_mean(x, 1), True, False), "var_mean, down": (lambda x: torch.var_mean(x, 0), True, True),
    "std_mean, down": (lambda x: torch.std_mean(x, 0), True, True), "var_mean of halves, down": (lambda x: torch.var_mean(x, 0), False, True),
    "var of halves": (lambda x: x.var(1), False, False), "var of a little": (lambda x: x.var(1), False, True),
    "var of several trailing axes": (lambda x: x.view(4096, 128, 128).var((1, 2)), False, True), "var of work": (lambda x: (x * x).var(1), False, False),
    "standardized": (lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True), False, False), "aminmax": (lambda x: torch.aminmax(x, dim=1), False, True),
    "max of all": (lambda x: x.max(), True, True), "any": (lambda x: x.any(1), True, True), "norm": (lambda x: torch.linalg.vector_norm(x, 3, 0), True, True),
}


@pytest.mark.host_only("nothing is run; the device is an argument")
@pytest.mark.parametrize("name", CHOSEN)
def test_who_computes_torchs_own_operators(name, monkeypatch):
    from torch.fx.experimental.proxy_tensor import make_fx
    model, *expected = CHOSEN[name]
    decide, dtype = _regions.better_left, torch.bfloat16 if "halves" in name else torch.float32
    for device, ours in zip(("cuda", "cpu"), expected):
        monkeypatch.setattr(_regions, "better_left", lambda region, _, device=device: decide(region, device))
        with torch._subclasses.FakeTensorMode():
            gm = make_fx(model, tracing_mode="fake")(torch.empty(64 if "little" in name else 4096, 16384, dtype=dtype))
            before, declined = _folds_left(gm.graph), []
            fused = _compile.fuse(gm.graph, 0, False, True, declined)
        assert (len(fused) == 1 and not _folds_left(gm.graph)) if ours else not fused, (device, declined)
        assert ours or len(_folds_left(gm.graph)) == len(before), device


def _check_estimate(name, model, *expected):
    from torch.fx.experimental.proxy_tensor import make_fx
    with torch._subclasses.FakeTensorMode():
        x = torch.empty(4096, 16384)  # 256 MB: what is small beside it is a hundredth
        gm = make_fx(model, tracing_mode="fake")(x, torch.empty_like(x))
        _regions._split_pairs(gm.graph)
    region = {n for n in gm.graph.nodes
              if n.op == "call_function" and n.target is not torch.ops.aten.select.int}
    launches = sum(map(_regions._is_anchor, region))
    found = [cost / (256 * MB) for cost in _regions.estimate(region, "cuda")]
    assert found == pytest.approx(expected, rel=0.01, abs=0.04 * launches)


@pytest.mark.host_only("nothing is run")
def test_what_inductor_has_at_hand_is_free_for_it():
    from torch.fx.experimental.proxy_tensor import make_fx

    def decided(model, device):
        gm = make_fx(model, tracing_mode="fake")(torch.randn(64, 48))
        fold = next(n for n in gm.graph.nodes if n.target is torch.ops.aten.sum.dim_IntList)
        return _regions.better_left({fold}, device) is None
    read = lambda x: (x.sum(1), x.view(-1).lgamma())  # noqa: E731  by others, behind a view
    made = lambda x: x.lgamma().view(48, 64).sum(1)  # noqa: E731
    assert not decided(read, "cuda") and not decided(read, "cpu")
    assert not decided(made, "cuda") and decided(made, "cpu")
    assert decided(lambda x: (x @ x.T).sum(1), "cuda")  # not a loop: it is written to memory in any case


def test_explain_says_what_was_left_and_why(device, capsys):
    x = torch.randn(8, 6, device=device)
    report = scanfold.explain(_hinge, x, torch.randn(6, device=device))
    found = "left to Inductor: it would cost us "
    assert (found in capsys.readouterr().out) == (device == "cuda")
    assert bool(report.graphs[0]["declined"]) == (device == "cuda")
    report = scanfold.explain(lambda x: (x.sum(1), torch.lgamma(x)), x)
    assert found in capsys.readouterr().out
    assert len(report.graphs[0]["declined"]) == 1


def test_several_results_have_the_bits_of_one(device):
    x = torch.randn(9, 1000, device=device)
    for backend in (eager_rest, _compile.backend):  # the second with Inductor between: the operator is called by the dispatcher
        torch._dynamo.reset()
        model = lambda x: (torch.cumsum(x, 1), x.sum(1), x.amax(1), torch.erf(x[:, 0]))  # noqa: E731
        scan, total, largest, _ = torch.compile(model, backend=backend, fullgraph=True)(x)
        assert torch.equal(scan, scanfold.cumsum(x, 1)) and torch.equal(total, scanfold.sum(x, 1)) and torch.equal(largest, scanfold.max(x, 1))


def test_several_results_are_differentiated(device):
    model = lambda x, m: torch.cumsum(x.exp() * m, 1).sum() + (x.exp() * m).sum(1).prod()  # noqa: E731
    x = (torch.rand(3, 5, device=device) - 0.5).requires_grad_()
    m = torch.rand(3, 5, device=device) > 0.2
    ours, = torch.autograd.grad(torch.compile(model, backend=eager_rest, fullgraph=True)(x, m), x)
    theirs, = torch.autograd.grad(model(x, m), x)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def _strided_models(x):
    y = x * 2
    return torch.erf(torch.cumsum(y, 1)), torch.lgamma(x.flip(0).cumsum(0).abs() + 1), torch.erf(x.sum(1, keepdim=True)), x.exp().cumsum(2).permute(1, 2, 0)


@pytest.mark.parametrize("rest,shape,orders", [("eager", (2, 3, 5), ((0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0))),
                                               ("eager", (9, 30, 50), ((0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0))),
                                               ("eager", (4, 1, 6), ((2, 0, 1), (1, 2, 0))), ("inductor", (9, 30, 50), ((1, 2, 0),))], ids=str)
def test_results_lie_in_memory_as_traced(device, rest, shape, orders):
    """What comes behind an expression was traced with certain strides, and Inductor insists on them."""
    for order in orders:
        x = torch.randn([shape[i] for i in order], device=device)
        x = x.permute([order.index(d) for d in range(3)])
        torch._dynamo.reset()
        # torch's own eager erf, if two of its threads are the first to call it, was 1.5e-4 off in one of them, in 3 processes of 5; compiled results were right.
        # Why is not known: plain Inductor had it in none of 8. One call alone comes first, after which it was not seen.
        torch.erf(torch.ones(8, device=device))
        ours = torch.compile(_strided_models, backend=lambda g, i: _compile.backend(g, i, options={"rest": rest}), fullgraph=True, dynamic=False)(x)
        for y, expected in zip(ours, _strided_models(x)):
            torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
            assert [s for s, n in zip(y.stride(), y.shape) if n > 1] == [s for s, n in zip(expected.stride(), y.shape) if n > 1]


def test_programs_say_what_is_wrong_with_them(device):
    x = torch.ones(2, 3, device=device)
    for wrong in ('[["input"],["output",0,[0,0]]]', '[["input"],["output",0,[0,2]]]', '[["input"],["output",0,[-1,0]]]',
                  '[["input"],["output",3]]', '[["input"],["output",0,[2,1,0]]]', '[["input"],["twist",0,0],["output",1]]'):
        with pytest.raises(ValueError):
            _compile.run([x], wrong)
    flipped = '[["input"],["flip",0,[0]],["scan",1,0,0,0,0,-1,0],["output",2,[1,0]]]'
    y = _compile.run([x], flipped)
    assert y.stride() == (1, 2) and y.tolist() == [[1.0] * 3, [2.0] * 3]


def test_an_output_twice_and_an_input_as_output(device):
    """Where torch's wrappers have something to do, they are called; the shortcut is only for
    plain results."""
    def model(x):
        y = x.sum(1)
        return y, y, x, torch.cumsum(x, 1)
    x = torch.randn(3, 4, device=device)
    y, again, given, scan = torch.compile(model, backend=eager_rest)(x)
    assert given is x and torch.equal(y, again) and torch.equal(y, scanfold.sum(x, 1)) and torch.equal(scan, scanfold.cumsum(x, 1))
    changed = torch.compile(lambda x: (x.mul_(2), torch.cumsum(x, 1))[1], backend=eager_rest)(x)
    assert torch.equal(changed, scanfold.cumsum(x, 1))


# ---------------------------------------------------------------------------------------------------------------
# What is kept of weights
# ---------------------------------------------------------------------------------------------------------------
class LinearSum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(16, 40))

    def forward(self, x):
        return torch.sum(torch.matmul(x, self.weight.T) / 2, dim=1, keepdim=True) * 1.5


def _expected(module, x):
    return (x.double() @ module.weight.detach().double().sum(0)).unsqueeze(1) * 0.75


def _check_sum(module, function, x):
    with torch.no_grad():
        y = function(x)
    torch.testing.assert_close(y.double(), _expected(module, x), rtol=1e-5, atol=1e-5)
    return y


def _keeping(gm, inputs):
    return _compile.backend(gm, inputs, options={"rest": "eager", "keep_weights": True})


@pytest.mark.parametrize("how", ["backend", "call"])
def test_kept_weights_follow_what_autograd_sees(device, how):
    module, x = LinearSum().to(device), torch.randn(6, 40, device=device)
    if how == "backend":
        function = torch.compile(module, backend=_keeping)
    else:
        def function(x):
            return bridge.linear_sum(x, module.weight, scale=0.75, keep_weight=True)
    assert torch.equal(_check_sum(module, function, x), _check_sum(module, function, x))
    _check_sum(module, function, torch.randn(6, 40, device=device))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        function(x).square().mean().backward()
        optimizer.step()
        _check_sum(module, function, x)
    with torch.no_grad():
        module.weight.mul_(1.5)
    _check_sum(module, function, x)
    with torch.no_grad():
        module.weight[3, 5] = 7.0  # by way of a view
    _check_sum(module, function, x)
    module.load_state_dict({"weight": torch.randn(16, 40, device=device)})
    _check_sum(module, function, x)
    torch.nn.init.normal_(module.weight)
    _check_sum(module, function, x)


@pytest.mark.parametrize("how", ["backend", "call"])
def test_kept_weights_are_those_of_one_tensor(device, how):
    """A new tensor at the same address, with the same version, is recognised as another tensor."""
    x, addresses = torch.randn(6, 40, device=device), set()
    for _ in range(50):
        module = LinearSum().to(device)
        addresses.add(module.weight.data_ptr())
        if how == "backend":
            program = '[["input"],["input"],["linear",0,1,-1],["fold",2,0,[-1],1,0],["constant",0.75],["apply",2,3,4,-1],["output",5]]'
            _check_sum(module, lambda x: _compile.run([x, module.weight], program, _compile.KEEP_PARAMETERS), x)
        else:
            _check_sum(module, lambda x: bridge.linear_sum(x, module.weight, scale=0.75, keep_weight=True), x)
    assert len(addresses) < 50  # otherwise this test has tested nothing


def test_weights_are_kept_only_when_asked_for(device):
    """A write that autograd does not see is noticed, unless the caller has promised that there
    is none: then the old sums are used."""
    module, x = LinearSum().to(device), torch.randn(6, 40, device=device)
    program = '[["input"],["input"],["linear",0,1,-1],["fold",2,0,[-1],1,0],["constant",0.75],["apply",2,3,4,-1],["output",5]]'
    compiled = torch.compile(module, backend=eager_rest)
    direct = lambda x: bridge.linear_sum(x, module.weight, scale=0.75)  # noqa: E731
    for function in (compiled, direct):
        _check_sum(module, function, x)
    kept = _compile.run([x, module.weight], program, _compile.KEEP_PARAMETERS)
    before = module.weight._version
    module.weight.data.mul_(2)
    assert module.weight._version == before
    for function in (compiled, direct):
        _check_sum(module, function, x)
    # What shows that something is kept at all, and what the promise is for.
    assert torch.equal(_compile.run([x, module.weight], program, _compile.KEEP_PARAMETERS), kept)
    assert torch.equal(_compile.run([x, module.weight], program, 0), kept * 2)


def test_inference_tensors_are_not_counted(device):
    with torch.inference_mode():
        weight, x = torch.randn(16, 40, device=device), torch.randn(6, 40, device=device)
        first = bridge.linear_sum(x, weight, keep_weight=True)
        weight.mul_(2)
        assert torch.equal(bridge.linear_sum(x, weight, keep_weight=True), first * 2)


def test_cuda_weights_are_kept_and_not_captured(cuda):
    module, x = LinearSum().cuda(), torch.randn(6, 40, device="cuda")
    compiled = torch.compile(module, backend=_keeping)

    def called(x):
        return bridge.linear_sum(x, module.weight, scale=0.75, keep_weight=True)
    for function in (compiled, called):
        _check_sum(module, function, x)
        with torch.no_grad():
            module.weight.mul_(1.5)
        _check_sum(module, function, x)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            stream.wait_stream(torch.cuda.default_stream())
            _check_sum(module, function, x)
        torch.cuda.default_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        captured = called(x)
    with torch.no_grad():
        module.weight.add_(1)
    graph.replay()
    torch.testing.assert_close(captured.double(), _expected(module, x), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------------------------------------------------
# The backend, called
# ---------------------------------------------------------------------------------------------------------------
def test_inductors_cache_is_not_ours(device, monkeypatch):
    """torch keeps compiled graphs on disk by the graph alone: what Inductor compiled must not be taken for ours, nor the other way round."""
    import shutil
    import uuid
    if not (shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")):
        pytest.skip("no C++ compiler for Inductor")
    number = uuid.uuid4().int / 2**128  # a graph that no run before has left on the disk
    x, found, original = torch.ones(3, 50, device=device), [], _compile.fuse
    monkeypatch.setattr(_compile, "fuse", lambda *args: found.extend(original(*args)) or found)

    def calls_of(backend):
        """What a fresh compilation ran of our operators."""
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: torch.erf(torch.cumsum(x * number, 1)), backend=backend)
        with torch.profiler.profile() as profile:
            torch.testing.assert_close(compiled(x), torch.erf(torch.cumsum(x * number, 1)))
        return [event.name for event in profile.events() if event.name.startswith("scanfold::")]
    assert not calls_of("inductor")
    assert calls_of(_compile.backend) and found, "nothing was fused: a graph of Inductor's was taken"
    assert not calls_of("inductor"), "a graph of ours was taken for Inductor's"


def test_dynamic_shapes_do_not_recompile(device):
    counter = torch._dynamo.testing.CompileCounterWithBackend(eager_rest)
    compiled = torch.compile(lambda x: torch.cumsum(x.flip(1), 1).flip(1), backend=counter)
    for n in (10, 20, 30, 40, 50, 1000):
        x = torch.randn(3, n, device=device)
        torch.testing.assert_close(compiled(x), torch.cumsum(x.flip(1), 1).flip(1), rtol=1e-4, atol=1e-4)
    assert counter.frame_count <= 2  # once as it came, once for any length


def test_dynamic_shapes_backward(device):
    def model(x, w):
        return (torch.matmul(x, w.T) / 2).sum(1, keepdim=True) * 1.5
    compiled = torch.compile(model, backend=eager_rest, dynamic=True)
    for rows, n, k in ((3, 5, 7), (4, 6, 9), (10, 3, 8)):
        x, w = (torch.randn(*s, dtype=torch.float64, requires_grad=True, device=device)
                for s in ((rows, k), (n, k)))
        g = torch.randn(rows, 1, dtype=torch.float64, device=device)
        for ours, expected in zip(torch.autograd.grad(compiled(x, w), (x, w), g), torch.autograd.grad(model(x, w), (x, w), g)):
            torch.testing.assert_close(ours, expected)


def test_lengths_that_depend_on_data(device):
    def model(x):
        n = x.nonzero().shape[0]
        column, row = torch.ones(n, 1, device=device), torch.ones(4, 1, device=device)
        return column.expand(n, 4) @ row.expand(4, 3)
    x = torch.tensor([1.0, 0.0, 2.0], device=device)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert torch.equal(torch.compile(model, backend=eager_rest, fullgraph=True)(x), model(x))


class History(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.arange(5.0))

    def forward(self, x):
        totals = self.seen.cumsum(0)
        self.seen.add_(x)
        return totals


def _twice_around_a_write(x):
    before = x.cumsum(1)
    x.mul_(2)
    return before, x.cumsum(1), x.sum(1)


@pytest.mark.parametrize("rest", ["eager", "inductor"])
@pytest.mark.parametrize("model", [lambda x: (x.cumsum(1), x.add_(1))[0], lambda x: (x.sum(1), x.zero_())[0], _twice_around_a_write,
                                   lambda x: (x.add_(1), x.cumsum(1) * 2)[1]], ids=["scan", "fold", "around", "behind"])
def test_inputs_written_to(device, model, rest):
    """What is read before a write has the value from before, wherever the call that replaces it stands."""
    if rest == "inductor" and model is not _twice_around_a_write and os.environ.get("SCANFOLD_TEST_THIN"):
        pytest.skip("left to make test-long: with Inductor, the one with writes around it stands for all")
    x = torch.randn(4, 8, device=device)
    ours, theirs = x.clone(), x.clone()
    compiled = torch.compile(model, backend="scanfold" if rest == "inductor" else eager_rest)
    torch.testing.assert_close(compiled(ours), model(theirs), rtol=1e-5, atol=1e-5)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_buffers_written_to(device, rest):
    ours, theirs, x = History().to(device), History().to(device), torch.ones(5, device=device)
    compiled = torch.compile(ours, backend=functools.partial(_compile.backend, options={"rest": rest}))
    for _ in range(3):
        assert torch.equal(compiled(x), theirs(x))
    assert torch.equal(ours.seen, theirs.seen)


@pytest.mark.parametrize("reduce", [torch.sum, torch.mean])
def test_linear_of_several_dimensions_vanishes(device, reduce, fused):
    layer = torch.nn.Linear(64, 32, bias=False, device=device)
    model = lambda x: reduce(layer(x), -1)  # noqa: E731
    for shape in ((3, 5, 64), (2, 3, 4, 64)):
        x = torch.randn(*shape, device=device)
        torch.testing.assert_close(torch.compile(model, backend=eager_rest)(x), model(x), rtol=1e-4, atol=1e-4)
    assert all('"matmul"' in program for program, _ in fused) and len(fused) == 2


def test_the_last_of_a_scan_is_a_fold(device, fused, capsys):
    model = lambda x: torch.cumsum(x, 1)[:, -1] * 2  # noqa: E731
    x = torch.randn(5, 300, device=device)
    assert torch.equal(torch.compile(model, backend=eager_rest)(x), scanfold.sum(x, 1) * 2)
    scanfold.explain(model, x)
    assert "sum(x0, 1" in capsys.readouterr().out
    other = lambda x: torch.cumsum(x, 1)[:, 7]  # noqa: E731
    torch.testing.assert_close(torch.compile(other, backend=eager_rest)(x), other(x), rtol=1e-4, atol=1e-4)
    assert '"select"' not in fused[-1][0]


def test_exact_keeps_every_rounding(device, fused):
    exact = functools.partial(_compile.backend, options={"rest": "eager", "exact": True})
    scaled = lambda x: (x / 64).sum(1)  # noqa: E731
    x = torch.full((4, 60), 3e37, device=device)
    # The sum first, which overflows, then the division: computed again as written.
    assert torch.equal(torch.compile(scaled, backend=eager_rest)(x), scanfold.sum(x / 64, 1))
    torch._dynamo.reset()
    assert torch.equal(torch.compile(scaled, backend=exact)(x), scanfold.sum(x / 64, 1))
    product = lambda x, w: torch.matmul(x, w).sum(1)  # noqa: E731
    x, w = torch.randn(5, 7, device=device), torch.randn(7, 3, device=device)
    assert torch.equal(torch.compile(product, backend=exact)(x, w), scanfold.sum(x @ w, 1))
    assert '"matmul"' not in fused[-1][0]


def test_found_by_name_without_an_import(device):
    from importlib import metadata
    found = metadata.entry_points()
    found = found.select(group="torch_dynamo_backends") if hasattr(found, "select") else found.get("torch_dynamo_backends", ())
    if "scanfold" not in [entry.name for entry in found]:
        pytest.skip("the package is on the path without its entry points")
    import subprocess
    import sys
    code = ("import sys, torch; assert 'scanfold' not in sys.modules\n"
            "print(torch.compile(lambda x: torch.cumsum(x.flip(0), 0).flip(0), backend='scanfold', options={'rest': 'eager'})"
            "(torch.ones(3, device=sys.argv[1])).tolist())")
    out = subprocess.run([sys.executable, "-c", code, device], capture_output=True, text=True,
                         timeout=300)
    assert out.stdout.strip() == "[3.0, 2.0, 1.0]", out.stderr


def test_inductor_takes_the_rest(device):
    import shutil
    if not (shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")):
        pytest.skip("no C++ compiler for Inductor")
    model = lambda x: torch.erf(torch.cumsum(x, 1) * 2) + x.sum(1, keepdim=True)  # noqa: E731
    x = torch.randn(4, 50, device=device)
    torch.testing.assert_close(torch.compile(model, backend=_compile.backend, fullgraph=True)(x), model(x), rtol=1e-4, atol=1e-4)


def test_without_inductor_it_runs_all_the_same(device, monkeypatch):
    def refuse(*args, **keywords):
        raise RuntimeError("no compiler here")
    import torch._inductor.compile_fx
    monkeypatch.setattr(torch._inductor.compile_fx, "compile_fx_inner", refuse)
    model = lambda x: torch.erf(torch.cumsum(x, 1))  # noqa: E731
    x = torch.randn(4, 50, device=device)
    with pytest.warns(UserWarning, match="no compiler here"):
        y = torch.compile(model, backend=_compile.backend)(x)
    torch.testing.assert_close(y, model(x), rtol=1e-5, atol=1e-5)


def test_explain(device, capsys):
    def model(x, w):
        return torch.sum(torch.matmul(x, w.T) / 2, dim=1, keepdim=True) * 1.5
    x, w = torch.randn(8, 64, device=device), torch.randn(32, 64, device=device)
    report = scanfold.explain(model, x, w)
    text = capsys.readouterr().out
    assert "fused into one expression" in text and "before:" in text and "after:" in text
    assert report.graphs[0]["plans"] and len(report.graphs) == 1
    scanfold.explain(lambda x: torch.erf(x), torch.randn(3, device=device))
    assert "0 fused" in capsys.readouterr().out
    layer = torch.nn.Linear(4, 3, device=device)
    # no argument requires a gradient
    scanfold.explain(lambda x: layer(x).sum(1), torch.randn(2, 4, device=device))
    assert "1 fused" in capsys.readouterr().out


def test_wrong_options(device):
    x = torch.ones(1, device=device)
    for options in ({"rest": "gcc"}, {"keep_weights": "always"}):
        with pytest.raises(Exception, match=next(iter(options))):
            torch.compile(lambda x: x + 1, backend=lambda g, i: _compile.backend(
                g, i, options=options))(x)
    with pytest.raises(Exception, match="'keep_weight': the scanfold backend takes 'rest'"):
        torch.compile(lambda x: x + 1, backend="scanfold", options={"keep_weight": True})(x)
    with pytest.warns(UserWarning, match="max-autotune"):
        torch.compile(lambda x: x + 1, backend="scanfold", mode="max-autotune")(x)


# ---------------------------------------------------------------------------------------------------------------
# torch's own operators for what we have
# ---------------------------------------------------------------------------------------------------------------
INF = float("inf")
REALS, HALVES, WHOLE = (torch.float32, torch.float64), (torch.float16, torch.bfloat16), (torch.int64, torch.int32, torch.uint8)
EVERY, NUMBERS = (*REALS, *HALVES, *WHOLE, torch.bool), (*REALS, *HALVES, *WHOLE)
OWN = {  # torch's operators, the dtypes that torch has them for, and whether they have a gradient
    "argmax": (lambda x: (x.argmax(1), x.argmax(-2, keepdim=True), x.argmax(), x.argmax(keepdim=True)), NUMBERS, False),
    "argmin": (lambda x: (x.argmin(1), x.argmin(-2, keepdim=True), x.argmin(), x.argmin(keepdim=True)), NUMBERS, False),
    "max": (lambda x: (*x.max(1), *x.max(-2, keepdim=True)), EVERY, True),
    "min": (lambda x: (*x.min(1), *x.min(-2, keepdim=True)), EVERY, True),
    "max, values": (lambda x: x.max(-1, keepdim=True).values, EVERY, True), "min, indices": (lambda x: x.min(0).indices, EVERY, False),
    "max of all": (lambda x: x.max(), EVERY, True), "min of all": (lambda x: x.min(), EVERY, True),
    "amax": (lambda x: (x.amax(1), x.amax((0, -1), keepdim=True), x.amin(())), EVERY, True),
    "aminmax": (lambda x: (*torch.aminmax(x), *torch.aminmax(x, dim=-1), *torch.aminmax(x, dim=0, keepdim=True)), EVERY, True),
    "aminmax, one": (lambda x: torch.aminmax(x, dim=1).max, EVERY, True),
    "cummax": (lambda x: (*x.cummax(1), *x.cummax(-2)), EVERY, True), "cummin": (lambda x: (*x.cummin(1), *x.cummin(-2)), EVERY, True),
    "cummax, values": (lambda x: x.cummax(-1).values, EVERY, True), "cummin, indices": (lambda x: x.cummin(0).indices, EVERY, False),
    "mean": (lambda x: (x.mean(), x.mean(1), x.mean((0, -1), keepdim=True)), (*REALS, *HALVES), True),
    "var": (lambda x: (x.var(), x.var(1, correction=0), x.var((0, -1), keepdim=True), x.var(-1, unbiased=False)), (*REALS, *HALVES), True),
    "std": (lambda x: (x.std(), x.std(1, correction=2), x.std((0, -1), keepdim=True), x.std(-1, unbiased=False)), (*REALS, *HALVES), True),
    "var_mean": (lambda x: (*torch.var_mean(x, 1), *torch.var_mean(x, (0, -1), correction=2), *torch.var_mean(x)), (*REALS, *HALVES), True),
    "var_mean, kept": (lambda x: torch.var_mean(x, -1, keepdim=True), (*REALS, *HALVES), True),
    "std_mean": (lambda x: (*torch.std_mean(x, 1), *torch.std_mean(x, -1, correction=0, keepdim=True), *torch.std_mean(x)), (*REALS, *HALVES), True),
    "std_mean, one": (lambda x: (torch.std_mean(x, 1)[0], torch.var_mean(x, 0)[1]), (*REALS, *HALVES), True),
    "logsumexp": (lambda x: (x.logsumexp(1), x.logsumexp((0, -1), keepdim=True)), (*REALS, *HALVES), True),
    "logcumsumexp": (lambda x: (x.logcumsumexp(1), x.logcumsumexp(-2)), REALS, True),
    "norms": (lambda x: tuple(torch.linalg.vector_norm(x, p, 1) for p in (0, 1, 2, 3, 2.5, INF, -INF)), REALS, True),
    "norm": (lambda x: (x.norm(), torch.norm(x, 1, -1, keepdim=True), torch.linalg.norm(x, 2, 0)), (*REALS, *HALVES), True),
    "sum of squares": (lambda x: (x.square().sum(1), (x * x).sum()), REALS, True),
    "any": (lambda x: (x.any(), x.any(1), x.any(-2, keepdim=True), (x > 1).any(1)), (*REALS, *HALVES, torch.int64, torch.bool), False),
    "all": (lambda x: (x.all(), x.all(1), x.all(-2, keepdim=True), (x < 1).all(1)), (*REALS, *HALVES, torch.int64, torch.bool), False),
    "count_nonzero": (lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, 1), torch.count_nonzero(x, (0, -1))), EVERY, False),
    "nansum": (lambda x: (x.nansum(), x.nansum(1), x.nansum((0, -1), keepdim=True)), (*REALS, torch.int64), True),
    "nanmean": (lambda x: (x.nanmean(), x.nanmean(1)), REALS, True),
}
FOLDING = {"argmax", "argmin", "max", "min", "amax", "amin", "aminmax", "cummax", "cummin", "mean", "var", "std", "var_mean", "std_mean", "logsumexp",
           "logcumsumexp", "linalg_vector_norm", "norm", "any", "all", "count_nonzero", "nansum", "sum", "prod", "cumsum", "cumprod"}
EXACT_RESULTS = {"argmax", "argmin", "max", "min", "amax", "aminmax", "cummax", "cummin", "any", "all", "count_nonzero"}


def _folds_left(graph):
    return [n.format_node() for n in graph.nodes if isinstance(n.target, torch._ops.OpOverload) and n.target.overloadpacket.__name__ in FOLDING]


def _taken_whole(model):
    """The model by graphs of which no fold or scan is left to others, forward and backward."""
    from functorch.compile import aot_function

    def compiler(gm, inputs):
        _compile._rewrite(gm, inductor=False)
        assert any(map(_compile._is_expression, gm.graph.nodes)) or not _folds_left(gm.graph)
        assert not _folds_left(gm.graph), gm.graph
        return _compile._boxed(gm)
    return aot_function(model, compiler)


def _numbers(dtype, device, form=(7, 50)):
    """Numbers of which many are equal, zeros of both signs among them."""
    x = (torch.randn(form, device=device) * 3).round()
    return x.to(dtype) if dtype.is_floating_point else x.abs().to(dtype)


@pytest.mark.parametrize("name", OWN)
def test_torchs_own_operators_are_taken(device, name):
    """None is left in the graph that others get. The results are torch's: those that are elements, places or counts are equal, where a zero may have
    the other sign; sums are close. So are the gradients."""
    model, dtypes, differentiable = OWN[name]
    if os.environ.get("SCANFOLD_TEST_THIN"):  # every second dtype, which neighbours in the list take in turns: they are made of the same words
        dtypes = dtypes[list(OWN).index(name) % 2::2]
    for dtype in dtypes:
        loose = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-10}.get(dtype, 1e-5)
        exact = 0 if name.partition(",")[0].partition(" ")[0] in EXACT_RESULTS else loose
        wants = differentiable and dtype.is_floating_point
        compiled = _taken_whole(model)
        for special in (False, True) if dtype.is_floating_point else (False,):
            x = _numbers(dtype, device)
            if special:
                x[0, 3], x[1, ::9] = float("nan"), float("nan")
                if "_mean" not in name:  # of which torch's mean is NaN beside an infinity, and ours infinite
                    x[2, 4], x[3, 5], x[4, 7:9] = INF, -INF, INF
            x.requires_grad_(wants)
            flat = [torch.utils._pytree.tree_leaves(f(x)) for f in (compiled, model)]
            for ours, theirs in zip(*flat):
                torch.testing.assert_close(ours, theirs, rtol=exact, atol=exact, equal_nan=True)
            if not wants:
                continue
            flat = [[y for y in results if y.requires_grad] for results in flat]
            gradients = [torch.randn_like(y) for y in flat[1]]
            for ours, theirs in zip(*(torch.autograd.grad(results, x, gradients) for results in flat)):
                torch.testing.assert_close(ours, theirs, rtol=20 * loose, atol=20 * loose, equal_nan=True)


REFUSED = {  # what is left to others whole: the model, its input, and what stays in the graph
    "more taken off than there is": (lambda x: torch.var_mean(x, 1, correction=9), torch.ones(2, 3), "var_mean"),
    "logic that is uint8": (lambda x: x.any(1), torch.ones(2, 3, dtype=torch.uint8), "any"),
    "complex numbers": (lambda x: torch.std_mean(x, 1), torch.ones(2, 3, dtype=torch.complex64), "std_mean"),
    "a norm of complex numbers": (lambda x: torch.linalg.vector_norm(x, 2, 1), torch.ones(2, 3, dtype=torch.complex64), "linalg_vector_norm"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_what_is_refused_is_left_whole(device, name):
    from torch.fx.experimental.proxy_tensor import make_fx
    model, x, left = REFUSED[name]
    x = x.to(device)
    gm = make_fx(model, tracing_mode="fake")(x)
    _compile._rewrite(gm, inductor=False)
    assert [n.target.overloadpacket.__name__ for n in gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload)] == [left]
    for ours, theirs in zip(*(torch.utils._pytree.tree_leaves(f) for f in (gm(x), model(x)))):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


# ---------------------------------------------------------------------------------------------------------------
# torch's own samples of what these operators are called with
# ---------------------------------------------------------------------------------------------------------------
def _op_infos():
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as missing:
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"torch's samples cannot be imported: {missing}"))]
    names = {"argmax", "argmin", "aminmax", "cummin", "logsumexp", "cumsum", "cumprod", "sum", "prod", "amax", "amin", "mean", "flip", "mul", "where", "sub", "div", "clamp", "cummax", "masked.sum",
             "masked.cumsum", "matmul", "addmm", "nn.functional.linear", "logcumsumexp", "diff", "std", "var", "var_mean", "std_mean",
             "any", "all", "count_nonzero", "linalg.vector_norm", "nansum", "nanmean"}
    variants = {(name, variant) for name in ("max", "min") for variant in ("reduction_with_dim", "reduction_no_dim")}
    return [op for op in op_db if op.name in names and not op.variant_test_name or (op.name, op.variant_test_name) in variants]


@pytest.mark.parametrize("op", _op_infos(), ids=lambda op: getattr(op, "name", "none"))
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_samples_of_op_infos(device, op, dtype):
    from torch.fx.experimental.proxy_tensor import make_fx
    if dtype not in op.supported_dtypes(device):
        pytest.skip(f"{op.name} has no {dtype}")
    checked = 0
    samples = op.sample_inputs(device, dtype, requires_grad=False)
    # On a GPU a few: each is a kernel to be compiled.
    every = 11 if os.environ.get("SCANFOLD_TEST_THIN") else 1
    for sample in itertools.islice(samples, 0, None, every) if device == "cpu" else itertools.islice(samples, 6):
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
    lambda x, m: (1 - x * m).clamp(min=0).mean(1),
], ids=["scan", "mean", "amax", "prod", "sum", "cumprod", "hinge"])
def test_programs_read_back(device, model):
    """An expression computes what its program says, read by torch's own operators, which is what the model says."""
    from torch.fx.experimental.proxy_tensor import make_fx
    given = {"x": torch.randn(4, 9, device=device), "m": torch.rand(4, 9, device=device) > 0.5}
    gm = make_fx(model, tracing_mode="fake")(*given.values())
    (program, _), = _compile.fuse(gm.graph)
    node = next(n for n in gm.graph.nodes if n.target is _compile.EXPRESSION)
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    inputs = [list(given.values())[places.index(n)] for n in node.args[0]]
    ours = _compile.run(inputs, program)
    torch.testing.assert_close(ours, interpret(_compile._instructions(program), inputs)[0], rtol=1e-5, atol=1e-5)


def test_lazy_signs_are_written_out(device):
    compiled = torch.compile(lambda x: torch.cumsum(x, 0), backend=eager_rest)
    x = torch.randn(5, dtype=torch.complex64, device=device).conj().imag
    torch.testing.assert_close(compiled(x), torch.cumsum(x, 0))


def test_many_shapes_and_threads_share_an_expression(device):
    """More shapes than plans are kept, from several threads at once."""
    import threading
    program = '[["input"],["flip",0,[0]],["scan",1,0,0,0,0,-1,0],["flip",2,[0]],["output",3]]'
    wrong = []

    def work(first):
        for n in range(first, first + 100):
            x = torch.arange(n % 50 + 1.0, device=device)
            if not torch.equal(_compile.run([x], program), scanfold.cumsum(x, 0, reverse=True)):
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(17 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
