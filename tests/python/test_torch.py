"""torch: tensors of every kind, autograd, torch.func, autocast, the dispatcher's own checks."""
import io
import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import scanfold

torch = pytest.importorskip("torch", reason="torch is not installed")
import scanfold.torch as bridge  # noqa: E402

VERSION = bridge.VERSION
THIN = bool(os.environ.get("SCANFOLD_TEST_THIN"))
needs_2_4 = pytest.mark.skipif(VERSION < (2, 4), reason="torch.library.opcheck is in torch 2.4 and later")
SCANS = [scanfold.cumsum, scanfold.cumprod, scanfold.cummax, scanfold.cummin]
FOLDS = [scanfold.sum, scanfold.prod, scanfold.max, scanfold.min]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)


# --------------------------------------------------------------------------------------------------
# What a first call brings along
# --------------------------------------------------------------------------------------------------
FRESH = """if True:
    import sys, time, scanfold
    assert "torch" not in sys.modules
    import torch
    before = set(sys.modules)
    assert "scanfold.torch" not in sys.modules
    x, y = torch.ones(4, 5), torch.ones(3, requires_grad=True)
    start = time.process_time()
    assert not hasattr(scanfold, "tensorflow")
    scanfold.torch.linear_sum(x, x)  # before any call
    scanfold.cumsum(x, 1)
    scanfold.sum(y, initial=y[0]).backward()
    scanfold.cumprod(y, 0).sum().backward()
    spent = time.process_time() - start
    new = sorted(m for m in set(sys.modules) - before if m.partition(".")[0] != "scanfold")
    assert not any(m.startswith(("torch._dynamo", "torch._inductor", "sympy")) for m in new), new
    assert spent < 0.5, spent  # 20 ms on a quiet machine; torch._dynamo alone takes seconds

    # What torch.compile needs comes with torch._dynamo, also after the first call.
    compiled = torch.compile(lambda x: scanfold.cumsum(x, 1) * 2, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), scanfold.cumsum(x, 1) * 2)
    compiled = torch.compile(scanfold.sum, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), scanfold.sum(x))
"""


@pytest.mark.skipif(VERSION < (2, 5), reason="before 2.5 nothing of torch._dynamo was imported")
@pytest.mark.host_only("the time is the CPU's")
def test_a_first_call_imports_no_compiler():
    out = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr


# ---------------------------------------------------------------------------------------------------------------
# Values
# ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"])
def test_dtypes_are_torchs(device, dtype):
    x = torch.randint(0, 2, (5, 33), device=device).to(getattr(torch, dtype))
    if dtype == "float16" and VERSION < (2, 1):
        pytest.skip("torch before 2.1 has no float16 sums on the CPU to compare with")
    for ours, theirs in [(scanfold.cumsum(x, 1), torch.cumsum(x, 1)), (scanfold.sum(x, 1), torch.sum(x, 1)),
                         (scanfold.prod(x, 1), torch.prod(x, 1)), (scanfold.cumprod(x, 0), torch.cumprod(x, 0)),
                         (scanfold.max(x, 1), torch.amax(x, 1)), (scanfold.cummin(x, 1), torch.cummin(x, 1).values)]:
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)  # small whole numbers: every order gives the same


@pytest.mark.parametrize("shape,axis", [((7,), 0), ((4, 1000), 1), ((1000, 4), 0), ((3, 5, 7), 1), ((1, 1), 0), ((0, 3), 1), ((), 0)])
def test_values_are_close_to_torchs(device, shape, axis):
    x = torch.randn(shape, device=device)
    for flip, exclusive in itertools.product((False, True), repeat=2):
        y = scanfold.cumsum(x, axis, reverse=flip, exclusive=exclusive)
        expected = torch.cumsum(x.double().flip(axis) if flip and x.dim() else x.double(), axis)
        expected = expected.flip(axis) if flip and x.dim() else expected
        if exclusive:
            expected = expected - x.double()
        torch.testing.assert_close(y, expected.float(), rtol=1e-5, atol=1e-5)


def test_strides(device):
    base = torch.randn(6, 8, 10, device=device)
    for x in (base.transpose(0, 2), base[:, ::3], base[..., 4], base.expand(2, 6, 8, 10), base.permute(2, 0, 1)[1:, :, ::2]):
        for axis in range(x.dim()):
            assert torch.equal(scanfold.cumsum(x, axis), scanfold.cumsum(x.contiguous(), axis))
            assert torch.equal(scanfold.sum(x, axis), scanfold.sum(x.contiguous(), axis))
    # a lazy negation
    negated = torch.randn(4, dtype=torch.complex64, device=device).conj().imag
    assert torch.equal(scanfold.cumsum(negated, 0), scanfold.cumsum(negated.clone(), 0))
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8, device=device)
    assert torch.equal(scanfold.cumsum(torch.ones(3, device=device), 0, mask=mask),
                       torch.tensor([1.0, 1, 2], device=device))


def test_small_and_large_results_are_ordinary_tensors(device):
    for n in (4, 100000):
        y = scanfold.cumsum(torch.ones(n, device=device), 0)
        y += 1
        assert y[-1] == n + 1 and y.is_contiguous() and y.cpu().clone().numpy()[0] == 2
        assert torch.load(_saved(y)).equal(y)


def _saved(tensor):
    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    buffer.seek(0)
    return buffer


def test_out_and_versions(device):
    x, out = torch.randn(3, 4, device=device), torch.empty(3, 4, device=device)
    before = out._version
    assert scanfold.cumsum(x, 1, out=out) is out
    if not hasattr(torch.autograd.graph, "increment_version"):
        pytest.skip("torch before 2.1 cannot be told of the writing")
    assert out._version > before
    a = torch.ones(4, requires_grad=True, device=device)
    saved = torch.ones(4, device=device)
    y = a * saved
    scanfold.cumsum(saved, 0, out=saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="out="):
        scanfold.cumsum(a, 0, out=torch.empty(4, device=device))
    with torch.no_grad():
        assert scanfold.cumsum(a, 0, out=torch.empty(4, device=device)).tolist() == [1, 2, 3, 4]


def test_errors_are_the_same_through_the_dispatcher(device):
    for x in (torch.ones(2, 2, device=device), torch.ones(2, 2, requires_grad=True, device=device)):
        with pytest.raises(ValueError, match="axis is 2; for an x of 2 dimensions it must be -2 to 1"):
            scanfold.cumsum(x, 2)
        with pytest.raises(ValueError, match="axis is needed"):
            scanfold.cumsum(x)
        with pytest.raises(ValueError):
            scanfold.sum(x, (0, 0))


@pytest.mark.host_only("meta tensors have no memory")
def test_axes_are_whole_numbers_through_the_dispatcher():
    x = torch.empty(2, 3, device="meta")
    for call, axis in [(scanfold.cumsum, 0.5), (scanfold.sum, 0.5), (scanfold.cumsum, "0"), (scanfold.cumsum, (0, 1))]:
        with pytest.raises(TypeError, match=re.escape(f"axis is {axis!r}: a whole number")):
            call(x, axis)
    with pytest.raises(ValueError, match=f"axis is {2**70}; "):
        scanfold.cumsum(x, 2**70)
    assert scanfold.cumsum(x, np.int64(1)).shape == (2, 3) and scanfold.sum(x, np.int64(1)).shape == (2,)


@pytest.mark.parametrize("recorded", [False, True])
def test_devices_that_differ_are_refused(device, recorded):
    """Otherwise a fake kernel would answer, with memory that was never written."""
    x, w = torch.ones(4, 5, requires_grad=recorded, device=device), torch.ones(3, 5, device=device)
    m = torch.ones(4, 5, dtype=torch.bool, device=device)
    for call in (scanfold.cumsum, scanfold.sum):
        with pytest.raises(ValueError, match=f"mask is on device meta, x on {x.device}"):
            call(x, 1, mask=m.to("meta"))
        with pytest.raises(ValueError, match=f"mask is on device {m.device}, x on meta"):
            call(x.to("meta"), 1, mask=m)
        assert call(x.to("meta"), 1, mask=m.to("meta")).device.type == "meta"
    with pytest.raises(ValueError, match=f"weight is on device meta, x on {x.device}"):
        bridge.linear_sum(x, w.to("meta"))
    with pytest.raises(ValueError, match=f"bias is on device meta, x on {x.device}"):
        bridge.linear_sum(x, w, torch.ones(3, device="meta"))
    words = f"out is on device meta, x on {x.device}"
    with torch.no_grad(), pytest.raises(ValueError, match=words):
        scanfold.cumsum(x, 1, out=torch.empty(4, 5, device="meta"))
    with pytest.raises(TypeError, match="x is .*ndarray.*, but mask is a torch tensor"):
        scanfold.cumsum(np.ones((4, 5)), 1, mask=m.to("meta"))


def _some_dtypes(device):
    """On a GPU fewer: each combination of them is a kernel to be compiled."""
    few = [torch.float16, torch.float32, torch.int8]
    more = [torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]
    return few + more if device == "cpu" else few


def _outcome(call, *tensors, **keywords):
    """The result's form, or what kind of refusal it was."""
    try:
        y = call(*tensors, **keywords)
        return tuple(y.shape), y.dtype
    except (TypeError, ValueError) as refusal:
        return type(refusal)


@pytest.mark.parametrize("call", SCANS + FOLDS, ids=lambda f: f.__name__)
def test_fakes_take_what_kernels_take(device, call):
    """Traced, an argument is refused when it would be at run time: never is there a result of some form that the kernel then does not make."""
    dtypes = _some_dtypes(device)
    x = torch.ones(2, 3, device=device)
    for given, made in itertools.product(dtypes, [None, torch.complex64] + dtypes):
        t = x.to(given)
        assert _outcome(call, t, 1, dtype=made) == _outcome(call, t.to("meta"), 1, dtype=made)
    for shape, dtype in itertools.product([(2, 3), (3,), (2, 1), (), (4,), (2, 2), (1, 2, 3), (2, 3, 1)], [torch.bool, torch.uint8, torch.float32]):
        mask = torch.ones(shape, dtype=dtype, device=device)
        assert _outcome(call, x, 1, mask=mask) == _outcome(call, x.to("meta"), 1, mask=mask.to("meta"))
    for initial, dtype in itertools.product([2, 1.5, 2.0, float("nan"), float("inf"), 2**70, True], [torch.int8, torch.float32]):
        t = x.to(dtype)
        assert _outcome(call, t, 1, initial=initial) == _outcome(call, t.to("meta"), 1, initial=initial)
    for shape, initial in itertools.product([(2, 0), (0, 3), (0,), (), (1,)], [None, 2]):
        t = torch.ones(shape, device=device)
        assert _outcome(call, t, -1, initial=initial) == _outcome(call, t.to("meta"), -1, initial=initial)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("real", [True, False], ids=["real", "meta"])
def test_linear_sum_names_its_arguments(device, real, recorded):
    def ones(*shape):
        return torch.ones(shape, device=device if real else "meta", requires_grad=recorded)

    def refused(x, w, b=None):
        words = f"x has shape {tuple(x.shape)}, weight {tuple(w.shape)}" + ("" if b is None else f", bias {tuple(b.shape)}")
        with pytest.raises(ValueError, match="^" + re.escape(words + "; (..., K), (N, K) and (N,) are expected") + "$"):
            bridge.linear_sum(x, w, b)

    for x, w in (((4, 5), (3, 4)), ((4, 5), (3, 1)), ((4, 1), (3, 5)), ((), (3, 5)), ((4, 5), (5,)), ((4, 5), ()), ((4, 5), (2, 3, 5))):
        refused(ones(*x), ones(*w))
        refused(ones(*x), ones(*w), ones(3))
    for x, n, b in (((4, 5), 3, (4,)), ((4, 5), 3, (1,)), ((4, 5), 3, ()), ((4, 5), 3, (1, 3)), ((4, 5), 3, (4, 3)), ((4, 5), 1, (3,)), ((5,), 3, (1, 3))):
        refused(ones(*x), ones(n, 5), ones(*b))
    with pytest.raises(TypeError, match="^weight has dtype torch.complex64"):
        bridge.linear_sum(ones(4, 5), ones(3, 5).to(torch.complex64))
    with pytest.raises(TypeError, match="^bias has dtype torch.complex64"):
        bridge.linear_sum(ones(4, 5), ones(3, 5), ones(3).to(torch.complex64))


def test_fake_linear_sum_is_as_the_real_one(device):
    dtypes = _some_dtypes(device)
    for types in itertools.product(dtypes, dtypes, [None] + dtypes):
        for shape in ((4, 5), (5,), (0, 5), (2, 4, 5))[:4 if len(set(types)) == 1 else 1]:
            given = [None if dtype is None else torch.ones(*s, dtype=dtype, device=device)
                     for dtype, s in zip(types, (shape, (3, 5), (3,)))]
            fakes = [t if t is None else t.to("meta") for t in given]
            assert _outcome(bridge.linear_sum, *given) == _outcome(bridge.linear_sum, *fakes)


# ---------------------------------------------------------------------------------------------------------------
# Gradients
# ---------------------------------------------------------------------------------------------------------------
def _check(function, *inputs):
    # On a GPU torch adds up what it scatters in whatever order it comes.
    loose = 1e-12 if inputs[0].is_cuda else 0.0
    assert torch.autograd.gradcheck(function, inputs, nondet_tol=loose)
    assert torch.autograd.gradgradcheck(function, inputs, nondet_tol=loose)


@pytest.mark.parametrize("scan", SCANS)
def test_gradients_of_scans(device, scan):
    x = torch.randn(2, 4, dtype=torch.float64, requires_grad=True, device=device)
    mask = torch.tensor([[True, False, True, True], [False, True, True, False]], device=device)
    for options in ({}, {"reverse": True}, {"exclusive": True, "initial": 0.3}, {"mask": mask, "initial": 0.2},
                    {"reverse": True, "exclusive": True, "mask": mask, "initial": -0.4}):
        _check(lambda t: scan(t, 1, **options), x)
    _check(lambda t: scan(t, 0), x)
    _check(lambda t: scan(t, 0),
           torch.tensor(1.5, dtype=torch.float64, requires_grad=True, device=device))


@pytest.mark.parametrize("fold", FOLDS)
def test_gradients_of_folds(device, fold):
    x = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True, device=device)
    mask = torch.tensor([[True, False], [True, True], [False, True]], device=device)
    for options in ({}, {"axis": 1}, {"axis": (0, 2), "keepdims": True}, {"axis": -1, "mask": mask, "initial": 0.4}, {"axis": ()}):
        _check(lambda t: fold(t, **options), x)


def test_gradients_where_there_are_zeros_and_equals(device):
    x = torch.tensor([2.0, 0.0, 3.0, 0.0, 5.0], dtype=torch.float64, requires_grad=True,
                     device=device)
    _check(lambda t: scanfold.cumprod(t, 0), x)
    _check(lambda t: scanfold.prod(t), x)
    y = torch.tensor([1.0, 2.0, 2.0], requires_grad=True, device=device)
    scanfold.cummax(y, 0).backward(torch.tensor([1.0, 10.0, 100.0], device=device))
    expected = torch.tensor([1.0, 2.0, 2.0], requires_grad=True, device=device)
    torch.cummax(expected, 0).values.backward(torch.tensor([1.0, 10.0, 100.0], device=device))
    assert torch.equal(y.grad, expected.grad)


@pytest.mark.parametrize("ours,theirs", [(scanfold.max, torch.amax), (scanfold.min, torch.amin)],
                         ids=["max", "min"])
def test_extremes_share_gradients_as_torchs_do(device, ours, theirs):
    nan, inf = float("nan"), float("inf")
    values = [[1.0, 3, 3, 2], [nan, 1, 2, 3], [nan, nan, 0, 0], [inf, inf, -inf, -inf], [2] * 4]
    for axis, keepdim in ((1, False), (0, True), ((0, 1), False), (-1, True)):
        gradients = []
        for function in (ours, theirs):
            x = torch.tensor(values, device=device, requires_grad=True)
            y = function(x, axis, keepdim=keepdim)
            g = torch.arange(1.0, y.numel() + 1, device=device).reshape(y.shape)
            gradients.append(torch.autograd.grad(y, x, g)[0])
        assert torch.equal(gradients[0].isnan(), gradients[1].isnan())
        assert torch.equal(gradients[0].nan_to_num(), gradients[1].nan_to_num())
    x = torch.tensor(values, device=device, requires_grad=True)
    y = ours(x, 1, mask=~x.isnan(), initial=2.0)  # elements that are masked out do not count
    y.sum().backward()
    assert not x.grad.isnan().any()


@pytest.mark.parametrize("function", SCANS + FOLDS, ids=lambda f: f.__name__)
def test_an_initial_tensor_has_a_gradient(device, function):
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True, device=device)
    for shape in ((), (1,), (1, 1)):
        initial = torch.full(shape, 0.37, dtype=torch.float64, requires_grad=True, device=device)
        _check(lambda x, t: function(x, 1, initial=t), x, initial)
        _check(lambda t: function(x.detach(), 1, initial=t, mask=x > 0), initial)
    # The bits are those of the number.
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        y = torch.randn(7, 300, device=device).mul(0.01).add(1).to(dtype)
        initial = torch.tensor(0.37, requires_grad=True)
        for options in ({}, {"exclusive": True}) if function in SCANS else ({}, {"keepdim": True}):
            ours = function(y, 1, initial=initial, **options)
            assert ours.requires_grad
            assert torch.equal(ours, function(y, 1, initial=initial.item(), **options))
            with torch.no_grad():
                assert torch.equal(ours, function(y, 1, initial=initial, **options))
    half = torch.ones(3, dtype=torch.bfloat16, device=device, requires_grad=True)
    function(half, 0, initial=initial).sum().backward()
    assert initial.grad.dtype == torch.float32 and half.grad.dtype == torch.bfloat16
    if function in (scanfold.max, scanfold.min):
        of_nothing = function(torch.empty(2, 0, device=device), 1, initial=initial)
        assert of_nothing.tolist() == [initial.item()] * 2


@pytest.mark.parametrize("made", ["float16", "bfloat16", "float32", "float64"])
def test_an_initial_tensor_gives_the_bits_of_a_number(device, made):
    x, made = torch.randn(2000, 40, dtype=torch.float64, device=device) * 2, getattr(torch, made)
    for given in (x, x.float(), x.half()):
        for function in (scanfold.sum, scanfold.cumsum, scanfold.prod, scanfold.cumprod):
            recorded = function(given, 1, dtype=made, initial=torch.tensor(0.3, device=device, requires_grad=True)).detach()
            assert torch.equal(recorded, function(given, 1, dtype=made, initial=float(torch.tensor(0.3))))


def test_what_an_initial_tensor_may_be(device):
    x, half = torch.arange(6, device=device), torch.tensor(0.5, requires_grad=True, device=device)
    assert scanfold.sum(x, initial=torch.tensor(4, device=device)).item() == 19
    words = "^initial has dtype torch.float32; for an output of torch.int64 it must be of integers"
    with pytest.raises(ValueError, match=words):
        scanfold.sum(x, initial=half)
    words = r"^initial has shape \(3,\): a number, or a tensor of one element, is expected"
    with pytest.raises(ValueError, match=words):
        scanfold.cumsum(x, initial=torch.ones(3, device=device))
    with pytest.raises(RuntimeError, match="^out= cannot be recorded"):
        scanfold.sum(x.float(), initial=half, out=torch.empty((), device=device))
    x = x.double()
    mapped = torch.func.vmap(lambda t: scanfold.cumsum(x, initial=t))(x[:2])
    assert torch.equal(mapped, torch.stack([scanfold.cumsum(x, initial=t) for t in (0.0, 1.0)]))


def test_gradient_is_the_scan_the_other_way_round(device):
    x = torch.randn(3, 1000, requires_grad=True, device=device)
    g = torch.randn(3, 1000, device=device)
    scanfold.cumsum(x, 1).backward(g)
    assert torch.equal(x.grad, scanfold.cumsum(g, 1, reverse=True))  # bit for bit


@pytest.mark.parametrize("mask_dtype", [torch.bool, torch.uint8])
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"exclusive": True}])
def test_gradient_of_a_masked_scan_is_one_pass(device, options, mask_dtype, monkeypatch):
    for dtype, axis in itertools.product((torch.float32, torch.float64, torch.bfloat16), (0, 1)):
        x = torch.randn(37, 61, dtype=dtype, requires_grad=True, device=device)
        mask = (torch.rand(37, 61, device=device) > 0.5).to(mask_dtype)
        g = torch.randn(37, 61, dtype=dtype, device=device)
        y = scanfold.cumsum(x, axis, mask=mask, **options)
        with monkeypatch.context() as patched:
            patched.setattr(bridge, "_scan_op", None)  # what it would be made of otherwise
            once, = torch.autograd.grad(y, x, g, retain_graph=True)
        back = scanfold.cumsum(g, axis, reverse="reverse" not in options, exclusive="exclusive" in options)
        zero = torch.zeros((), dtype=dtype, device=device)
        assert torch.equal(once, torch.where(mask.bool(), back, zero))
        again, = torch.autograd.grad(y, x, g.requires_grad_(), create_graph=True)  # to be differentiated: by its parts
        assert torch.equal(again, once) and again.requires_grad


@pytest.mark.parametrize("wanted", [(True, True, True), (True, False, False), (False, True, False), (False, False, True), (False, True, True)])
def test_gradient_of_linear_sum_is_its_parts(device, wanted, monkeypatch):
    for shape in ((5, 8), (2, 3, 8)):
        tensors = [torch.randn(*s, requires_grad=w, device=device)
                   for s, w in zip((shape, (6, 8), (6,)), wanted)]
        leaves = [t for t in tensors if t.requires_grad]
        y = bridge.linear_sum(*tensors, 0.75)
        g = torch.randn_like(y)
        by_parts = torch.autograd.grad(y, leaves, g.clone().requires_grad_(), create_graph=True)
        with monkeypatch.context() as patched:
            patched.setattr(bridge, "_linear_sum_parts", None)
            at_once = torch.autograd.grad(y, leaves, g)
        assert all(torch.equal(a, b) for a, b in zip(at_once, by_parts))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear_sum_stays_finite(device, dtype):
    x = (torch.rand(6, 30, device=device) * 1e-8).to(dtype)
    w = (torch.rand(40, 30, device=device) * 1.6e38 + 1.6e38).to(dtype)  # columns add up to inf
    expected = (x.double() @ w.double().T).sum(1, keepdim=True) * 0.75
    for keep in (False, True, True):  # made, kept, read
        y = bridge.linear_sum(x, w, scale=0.75, keep_weight=keep)
        torch.testing.assert_close(y.double(), expected, rtol=0.02, atol=0)
    x.requires_grad_()
    for graph in (False, True):  # at once, and by its parts
        y = bridge.linear_sum(x, w, scale=0.75)
        g = torch.full((6, 1), 1e-10, dtype=dtype, device=device)
        dx, = torch.autograd.grad(y, x, g, create_graph=graph)
        right = (0.75e-10 * w.double().sum(0)).expand(6, 30)
        torch.testing.assert_close(dx.double(), right, rtol=0.02, atol=0)


def test_linear_sum(device):
    x, w, b = (torch.randn(*s, dtype=torch.float64, requires_grad=True, device=device)
               for s in ((2, 3, 5), (4, 5), (4,)))
    expected = torch.nn.functional.linear(x, w, b).sum(-1, keepdim=True) * 1.5
    torch.testing.assert_close(bridge.linear_sum(x, w, b, 1.5), expected)
    _check(lambda x, w, b: bridge.linear_sum(x, w, b, 1.5), x, w, b)
    _check(lambda x, w: bridge.linear_sum(x, w), x, w)


@pytest.mark.parametrize("call", [
    lambda t, w: scanfold.cumsum(t, 1, mask=torch.tensor([True, False, True], device=t.device)),
    lambda t, w: scanfold.sum(t, (0, 1)),
    lambda t, w: scanfold.max(t, 0), lambda t, w: scanfold.cumprod(t, -1, reverse=True, dtype=torch.float64),
    lambda t, w: bridge.linear_sum(t, w, w[:, 0], 0.5)], ids=["cumsum", "sum", "max", "cumprod", "linear_sum"])
def test_recorded_and_dispatched_are_the_same(device, call):
    """A gradient is recorded without the dispatcher; a mode sends the same call through it."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))
    w = torch.randn(4, 3, device=device)
    results = []
    for dispatched in (False, True):
        torch.manual_seed(1)
        x, p = torch.randn(2, 3, requires_grad=True, device=device), w.clone().requires_grad_()
        if dispatched:
            with Passing():
                y = call(x, p)
        else:
            y = call(x, p)
        results.append((y.detach(),) + torch.autograd.grad(y.sum(), (x, p), allow_unused=True))
    assert all(torch.equal(a, b) if a is not None else b is None for a, b in zip(*results))


def test_recorded_calls_meet_the_rest_of_autograd(device):
    from torch.utils.checkpoint import checkpoint
    x = torch.randn(3, 4, requires_grad=True, device=device)
    mask = torch.rand(3, 4, device=device) > 0.5
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        scanfold.cumprod(x, 1, mask=mask).sum().backward()
        scanfold.cumsum(x, 1)
    assert len(packed) == 2  # x and the mask of the product; a sum needs nothing
    expected, = torch.autograd.grad(scanfold.cumprod(x, 1).square().sum(), x)
    again = checkpoint(lambda t: scanfold.cumprod(t, 1).square().sum(), x, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(again, x)[0], expected)
    with torch.no_grad():
        assert not scanfold.cumsum(x, 1).requires_grad
    with torch.inference_mode():
        assert scanfold.cumsum(x, 1).is_inference()
    assert scanfold.cumsum(x, 1).grad_fn is not None and not scanfold.cumsum(x.detach(), 1).requires_grad
    half = torch.ones(4, dtype=torch.bfloat16, requires_grad=True, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert scanfold.prod(half, 0).dtype == torch.prod(half, 0).dtype
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y = x.exp()
        z = scanfold.cumprod(y, 1)
        y.mul_(2)
        z.sum().backward()


@pytest.mark.skipif(VERSION < (2, 1), reason="torch.func over our functions wants torch 2.1 or later")
def test_transforms_beside_what_is_recorded(device):
    """A tensor that does not belong to the transform, but requires a gradient."""
    w = torch.randn(4, 5, requires_grad=True, device=device)
    y = torch.func.vmap(lambda a: scanfold.cumsum(w, 1) * a)(torch.ones(3, device=device))
    y.sum().backward()
    threes = torch.full((4, 5), 3.0, device=device)
    assert torch.equal(w.grad, scanfold.cumsum(threes, 1, reverse=True))
    mapped = torch.func.vmap(lambda a: bridge.linear_sum(a, w))(torch.ones(3, 2, 5, device=device))
    whole = torch.nn.functional.linear(torch.ones(3, 2, 5, device=device), w)
    torch.testing.assert_close(mapped, whole.sum(-1, keepdim=True))


# ---------------------------------------------------------------------------------------------------------------
# torch.func, autocast, modes
# ---------------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(VERSION < (2, 1), reason="torch.func over our functions wants torch 2.1 or later")
def test_transforms(device):
    from torch.func import grad, hessian, jacrev, jvp, vmap
    x, m = torch.randn(6, 3, 5, device=device), torch.rand(6, 3, 5, device=device) > 0.4
    assert torch.equal(vmap(lambda a, k: scanfold.cumsum(a, 0, mask=k))(x, m), scanfold.cumsum(x, 1, mask=m))
    assert torch.equal(vmap(lambda a: scanfold.cumsum(a, 0, mask=m[0]), in_dims=2)(x.permute(1, 2, 0)), scanfold.cumsum(x, 1, mask=m[0]))
    assert torch.equal(vmap(lambda k: scanfold.sum(x[0], 1, mask=k))(m), scanfold.sum(x[0].expand(6, 3, 5), 2, mask=m))
    assert torch.equal(vmap(vmap(lambda a: scanfold.cummax(a, 0, reverse=True)))(x), scanfold.cummax(x, 2, reverse=True))
    w = torch.randn(6, 4, 5, device=device)
    torch.testing.assert_close(vmap(bridge.linear_sum)(x, w), (x @ w.transpose(1, 2)).sum(-1, keepdim=True))
    ones = torch.ones(5, device=device)
    assert grad(lambda t: scanfold.cumsum(t, 0).sum())(ones).tolist() == [5, 4, 3, 2, 1]
    mapped = vmap(grad(lambda t: scanfold.cumsum(t, 0, reverse=True)[1]))
    assert mapped(torch.ones(2, 5, device=device)).tolist() == [[0, 1, 1, 1, 1]] * 2
    pushed = jvp(lambda t: scanfold.cumsum(t, 0), (ones,), (torch.arange(5.0, device=device),))
    assert pushed[1].tolist() == [0, 1, 3, 6, 10]
    torch.testing.assert_close(hessian(lambda t: (scanfold.cumsum(t, 0) ** 2).sum())(ones),
                               hessian(lambda t: (torch.cumsum(t, 0) ** 2).sum())(ones))
    torch.testing.assert_close(jacrev(jacrev(lambda t: scanfold.cumprod(t, 0).sum()))(ones),
                               jacrev(jacrev(lambda t: torch.cumprod(t, 0).sum()))(ones))


CALLS = {
    "cumsum": (lambda t: scanfold.cumsum(t, 0, reverse=True),
               lambda t: torch.cumsum(t.flip(0), 0).flip(0)),
    "sum": (lambda t: scanfold.sum(t, 0), lambda t: torch.sum(t, 0)),
    "max": (lambda t: scanfold.max(t, 0), lambda t: torch.amax(t, 0)),
    "cumprod": (lambda t: scanfold.cumprod(t, 0), lambda t: torch.cumprod(t, 0)),
    "linear_sum": (lambda t: bridge.linear_sum(t, t[:, None] * t),
                   lambda t: torch.nn.functional.linear(t, t[:, None] * t).sum(-1, keepdim=True))}
FORWARD = {
    "jacfwd": lambda f: torch.func.jacfwd(f),
    "hessian": lambda f: torch.func.hessian(lambda t: f(t).square().sum()),
    "jvp": lambda f: lambda t: torch.func.jvp(f, (t,), (t * 2,))[1]}
TRANSFORMS = dict(FORWARD, **{
    "grad": lambda f: torch.func.grad(lambda t: f(t).square().sum()),
    "jacrev": lambda f: torch.func.jacrev(f),
    "jacrev of jacrev": lambda f: torch.func.jacrev(torch.func.jacrev(f)),
    "vmap": lambda f: lambda t: torch.func.vmap(f)(torch.stack((t, t + 1))),
    "vmap of grad": lambda f: lambda t: torch.func.vmap(torch.func.grad(lambda u: f(u).sum()))(
        torch.stack((t, t + 1)))})


@pytest.mark.skipif(VERSION < (2, 1), reason="torch.func over ours wants torch 2.1 or later")
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("call", CALLS)
def test_transforms_are_torchs(device, call, transform):
    """By torch.func, under torch.func.functionalize, and compiled."""
    ours, theirs = (TRANSFORMS[transform](function) for function in CALLS[call])
    x = torch.rand(4, dtype=torch.float64, device=device) + 0.5
    if transform in FORWARD and call in ("max", "cumprod"):
        words = "^forward-mode differentiation of (max|prod) is not there, of sums only: use"
        with pytest.raises(NotImplementedError, match=words):
            ours(x)
        return
    expected = theirs(x)
    torch.testing.assert_close(ours(x), expected)
    if transform not in FORWARD:
        torch.testing.assert_close(torch.func.functionalize(ours)(x), expected)
    backends = ["eager"] if call in ("cumsum", "max") else []
    if call == "cumsum" and transform in ("grad", "jacrev", "jvp", "vmap"):
        backends += ["aot_eager", "scanfold"] + ["inductor"] * (transform == "jacrev")
    if THIN and "aot_eager" in backends:
        backends.remove("eager")  # of which aot_eager is the first half
    for backend in backends if VERSION >= (2, 5) else ():
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(ours, backend=backend)(x), expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.skipif(VERSION < (2, 5), reason="torch.compile needs torch 2.5 for this")
@pytest.mark.parametrize("options", [{}, {"rest": "eager"}], ids=["inductor", "eager"])
def test_compiled_functionalized_calls(device, options):
    """Inside of functionalize, torch.compile meets tensors that AOTAutograd takes in no backend."""
    def model(x, m):
        y = scanfold.cumsum(x * 2, 1, mask=m)
        y += 1
        return y + scanfold.sum(x, 1, keepdim=True)
    x, m = torch.randn(3, 4, device=device), torch.rand(3, 4, device=device) > 0.5
    torch._dynamo.reset()
    compiled = torch.compile(torch.func.functionalize(model), backend="scanfold", options=options)
    assert torch.equal(compiled(x, m), model(x, m))


def test_symbolic_traces_hold_the_calls(device):
    def model(x, m, t):
        y = scanfold.cumsum(x * 2, dim=1, reverse=True, mask=m, initial=t)
        return y + scanfold.max(x, (0, 1)) + bridge.linear_sum(x, x, scale=0.5)
    traced = torch.fx.symbolic_trace(model)
    called = {n.target for n in traced.graph.nodes if n.op == "call_function"}
    assert {scanfold.cumsum, scanfold.max, bridge.linear_sum} <= called
    x, m = torch.randn(3, 3, device=device), torch.rand(3, 3, device=device) > 0.5
    assert torch.equal(traced(x, m, 0.25), model(x, m, 0.25))
    for given in (x, x.clone().requires_grad_()):  # one argument alone is traced
        only_mask = torch.fx.symbolic_trace(lambda m: scanfold.sum(given, 1, mask=m))
        assert torch.equal(only_mask(m), scanfold.sum(x, 1, mask=m))
        only_initial = torch.fx.symbolic_trace(lambda t: scanfold.sum(given, 1, initial=t))
        assert torch.equal(only_initial(0.5), scanfold.sum(x, 1, initial=0.5))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("recorded", [False, True])
def test_nested_tensors_are_refused(device, recorded):
    def linear(x, axis):
        return bridge.linear_sum(x, torch.ones(3, 3, device=device))
    words = " is a nested tensor, which is not taken here: give "
    for layout in (torch.strided, torch.jagged) if VERSION >= (2, 3) else ():
        x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout, device=device,
                                       requires_grad=recorded)
        is_jagged = layout is torch.jagged  # which scans and folds take: test_segments_torch.py
        for call in (linear,) if is_jagged else (scanfold.cumsum, scanfold.sum, linear):
            with pytest.raises(TypeError, match="^x" + words + ("x.values" if is_jagged else "x.to_padded_tensor")):
                call(x, 1)
        with pytest.raises(TypeError, match="^x is no jagged tensor" if is_jagged else "^mask" + words + "mask.to_padded_tensor"):
            scanfold.cumsum(torch.ones(2, 3, device=device), 1, mask=x)


def test_forward_mode(device):
    import torch.autograd.forward_ad as forward
    with forward.dual_level():
        dual = forward.make_dual(torch.ones(3, device=device),
                                 torch.tensor([1.0, 2.0, 3.0], device=device))
        assert forward.unpack_dual(scanfold.cumsum(dual, 0)).tangent.tolist() == [1, 3, 6]
        assert forward.unpack_dual(scanfold.sum(dual)).tangent.item() == 6
        with pytest.raises(NotImplementedError, match="reverse mode"):
            scanfold.prod(dual)


def test_autocast(device):
    x = torch.ones(4, dtype=torch.bfloat16, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        wide = torch.float32 if x.is_cuda else torch.bfloat16
        assert scanfold.cumsum(x, 0).dtype == torch.cumsum(x, 0).dtype == wide
        assert scanfold.sum(x, 0).dtype == torch.sum(x, 0).dtype
        assert scanfold.prod(x, 0).dtype == torch.prod(x, 0).dtype
        assert scanfold.max(x, 0).dtype == torch.bfloat16


def test_modes_see_the_operators(device):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))
    x = torch.ones(3, device=device)
    with Watch() as watch:
        scanfold.cumsum(x, 0)
        scanfold.sum(x)
    assert watch.seen == ["scanfold.scan.default", "scanfold.fold.default"]

    class Mine(torch.Tensor):
        pass
    assert scanfold.cumsum(torch.ones(3, device=device).as_subclass(Mine), 0).tolist() == [1, 2, 3]
    assert scanfold.cumsum(torch.nn.Parameter(torch.ones(3, device=device)), 0).requires_grad


# ---------------------------------------------------------------------------------------------------------------
# torch's own checks of an operator
# ---------------------------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("recorded", [False, True])
def test_jit_traces_hold_the_operators(device, recorded):
    """Not the results they had while they were traced."""
    x = torch.randn(4, 5, requires_grad=recorded, device=device)
    w = torch.randn(3, 5, device=device)
    calls = {"scan": lambda x: scanfold.cumsum(x, 1, reverse=True) + x, "linear_sum": lambda x: bridge.linear_sum(x, w, scale=0.5),
             "fold": lambda x: scanfold.sum(x, (0, 1), mask=x > 0, initial=2.5, dtype=torch.float64)}
    for name, call in calls.items():
        traced = torch.jit.trace(call, (x,))
        assert f"scanfold::{name}" in str(traced.graph)
        y = torch.randn(4, 5, requires_grad=recorded, device=device)
        assert torch.equal(traced(y), call(y))
        file = io.BytesIO()
        torch.jit.save(traced, file)
        file.seek(0)
        assert torch.equal(torch.jit.load(file)(y), call(y))


@needs_2_4
@pytest.mark.parametrize("op", bridge.OPS)
def test_opcheck(device, op):
    mask = torch.rand(3, 4, device=device) > 0.5
    given = (torch.randn(3, 4, requires_grad=True, device=device),
             torch.randn(4, 3, device=device).t(), torch.randint(0, 5, (3, 4), device=device))
    # Operations are one argument of the same two operators: thin, each has one of the tensors, and each tensor three or four of them.
    for x in given[list(bridge.OPS).index(op) % 3:][:1] if THIN else given:
        torch.library.opcheck(torch.ops.scanfold.scan, (x, op, 1, True, False, mask, None, None))
        torch.library.opcheck(torch.ops.scanfold.fold, (x, op, [0], True, False, None, None, None))


@needs_2_4
def test_opcheck_linear_sum(device):
    x, w, b = (torch.randn(*s, requires_grad=True, device=device) for s in ((3, 5), (4, 5), (4,)))
    torch.library.opcheck(torch.ops.scanfold.linear_sum, (x, w, b, 0.75))


@needs_2_4
def test_opcheck_expressions(device):
    from scanfold import _compile  # noqa: F401  its operators
    scan = '[["input"],["scan",0,0,1,0,0,-1,0],["output",1]]'
    moved = '[["input"],["scan",0,0,1,0,0,-1,0],["output",1,[1,0]]]'
    both = '[["input"],["scan",0,0,1,0,0,-1,0],["fold",0,2,[0],0,0],["output",1],["output",2]]'
    for x in (torch.randn(3, 4, device=device), torch.randn(4, 3, device=device).t()):
        torch.library.opcheck(torch.ops.scanfold.expression, ([x], scan, 0))
        torch.library.opcheck(torch.ops.scanfold.expression, ([x], moved, 0))
        torch.library.opcheck(torch.ops.scanfold.expressions, ([x], both, -1))
        torch.library.opcheck(torch.ops.scanfold.fold, (x[:, :1], "sum", [1], True, False, None, None, None))
        torch.library.opcheck(torch.ops.scanfold.fold, (x, "sum", [], False, False, None, None, None))


@pytest.mark.host_only("NumPy's")
def test_numpy_still_works_beside_torch():
    assert scanfold.cumsum(np.arange(4)).tolist() == [0, 1, 3, 6]
