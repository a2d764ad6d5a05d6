"""softmax, log_softmax, layer_norm, rms_norm, normalize, standardize: compared with torch's own
functions."""
import math
import os

import numpy as np
import pytest
from oracle import Here

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

import scanfold  # noqa: E402

TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 4e-6, torch.float64: 1e-12}


def close(a, b, times=1):
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    tolerance = times * TOLERANCE[a.dtype]
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def some(shape, dtype=torch.float32, device="cpu", seed=0):
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3 + 1).to(device, dtype)


def masked_of(shape, device, seed=7):
    return (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) > 0.3).to(device)


def standardized(x, axis, correction=1):
    return (x - x.mean(axis, keepdim=True)) / x.std(axis, correction=correction, keepdim=True)


# ---------------------------------------------------------------------------------------------------------------
# Values
# ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_as_torch(device, dtype):
    for shape in ((4, 6, 5), (3, 257), (2, 1, 1000)):
        x = some(shape, dtype, device)
        for axis in range(-1, len(shape)):
            close(scanfold.softmax(x, axis), F.softmax(x, axis))
            close(scanfold.log_softmax(x, dim=axis), F.log_softmax(x, axis))
            for order in (2, 1, math.inf, 3.0):
                close(scanfold.normalize(x, order, axis), F.normalize(x, order, axis), 2)
        wide = x.double()
        close(scanfold.standardize(wide, -2 if shape[-2] > 1 else -1), standardized(wide, -2 if shape[-2] > 1 else -1))
        weight, bias = some(shape[-1:], dtype, device, 1), some(shape[-1:], dtype, device, 2)
        close(scanfold.layer_norm(x), F.layer_norm(x, shape[-1:]), 4)
        close(scanfold.layer_norm(x, -1, weight, bias), F.layer_norm(x, shape[-1:], weight, bias), 4)
        close(scanfold.rms_norm(x, weight=weight, eps=1e-3), F.rms_norm(x, shape[-1:], weight, 1e-3), 4)


def test_several_axes(device):
    x, weight, bias = (some(shape, device=device, seed=i) for i, shape in enumerate(((4, 6, 5), (6, 5), (6, 5))))
    close(scanfold.layer_norm(x, (1, 2), weight, bias), F.layer_norm(x, (6, 5), weight, bias))
    close(scanfold.layer_norm(x, [-1, 1], weight), F.layer_norm(x, (6, 5), weight))
    close(scanfold.rms_norm(x, (1, 2), weight), F.rms_norm(x, (6, 5), weight))
    close(scanfold.softmax(x, (0, 1, 2)), F.softmax(x.reshape(-1), 0).reshape(x.shape))
    close(scanfold.layer_norm(x, 1, weight[:, 0]), F.layer_norm(x.transpose(1, 2), (6,), weight[:, 0]).transpose(1, 2))
    # Channels of an image, with a weight each that broadcasts.
    image, scale = some((2, 3, 4, 5), device=device), some((3, 1, 1), device=device)
    right = image / (image.square().mean(1, keepdim=True) + 1e-5).sqrt() * scale
    close(scanfold.rms_norm(image, 1, scale.reshape(1, 3, 1, 1), 1e-5), right)


def test_strides(device):
    x = some((6, 8, 10), device=device)
    for view in (x.transpose(0, 2), x[:, ::2], x.flip(1)[1:], x[..., 3], x.expand(2, 6, 8, 10)):
        close(scanfold.softmax(view, 1), F.softmax(view, 1))
        close(scanfold.normalize(view, 2, 0), F.normalize(view, 2, 0))


def test_masks(device):
    x, mask = some((5, 7, 6), device=device), masked_of((5, 7, 6), device)
    mask[2, 3] = False
    there = x.masked_fill(~mask, -math.inf)
    close(scanfold.softmax(x, 2, mask=mask), F.softmax(there, 2).nan_to_num(0))
    close(scanfold.log_softmax(x, 2, mask=mask), F.log_softmax(there, 2).masked_fill(~mask, 0))
    assert (scanfold.softmax(x, 2, mask=mask)[2, 3] == 0).all() and (scanfold.layer_norm(x, 2, mask=mask)[2, 3] == 0).all()
    close(scanfold.normalize(x, 2, 2, mask=mask), F.normalize(x.masked_fill(~mask, 0), dim=2))
    count = mask.sum(2, keepdim=True)
    d = (x - x.masked_fill(~mask, 0).sum(2, keepdim=True) / count).masked_fill(~mask, 0)
    var = d.square().sum(2, keepdim=True) / count
    close(scanfold.layer_norm(x, 2, mask=mask), (d / (var + 1e-5).sqrt()).nan_to_num(0))
    close(scanfold.standardize(x, 2, mask=mask, correction=0), (d / var.sqrt()).nan_to_num(0))
    # A mask of attention: one for all heads, as bool and as bytes.
    triangle = torch.ones(7, 7, dtype=torch.bool, device=device).tril()
    scores = some((2, 3, 7, 7), device=device)
    right = F.softmax(scores.masked_fill(~triangle, -math.inf), -1)
    close(scanfold.softmax(scores, mask=triangle), right)
    close(scanfold.softmax(scores, mask=triangle.to(torch.uint8)), right)


def test_extremes(device):
    inf, nan = math.inf, math.nan
    x = torch.tensor([[1e4, -1e4, 0], [-inf, 0, 1], [-inf, -inf, -inf], [inf, 0, 1], [nan, 0, 1], [3e38, 3e38, -3e38]], device=device)
    close(scanfold.softmax(x, 1), F.softmax(x, 1))
    close(scanfold.log_softmax(x, 1), F.log_softmax(x, 1))
    close(scanfold.normalize(torch.zeros(2, 3, device=device)), torch.zeros(2, 3, device=device))
    same = torch.full((2, 5), 1e6, device=device)
    close(scanfold.layer_norm(same), torch.zeros_like(same))
    for shape in ((0, 3), (3, 0), (0,), ()):
        y = torch.zeros(shape, device=device)
        assert scanfold.softmax(y).shape == y.shape == scanfold.layer_norm(y).shape
    assert scanfold.softmax(torch.tensor(3.0, device=device)) == 1


def test_rows_sum_to_one_within_their_bound(device):
    """Of n elements: a term is within 4 units of its own size, their sum is log2(n) additions deep, and the quotient rounds once."""
    for n in (3, 1000, 65537):
        x = some((4, n), device=device) * 10
        bound = (8 + 2 * math.ceil(math.log2(n))) * 2.0**-24
        assert (scanfold.softmax(x).double().sum(1) - 1).abs().max() <= bound
        whole = torch.round(x)
        assert torch.equal(scanfold.softmax(whole), scanfold.softmax(whole + 64))  # an exact shift changes no bit


@pytest.mark.host_only("NumPy's names and dtypes")
def test_numpy():
    x = np.arange(6).reshape(2, 3)
    y = scanfold.softmax(x, 1)
    e = np.exp(x - x.max(1, keepdims=True))
    assert y.dtype == np.float64 and np.allclose(y, e / e.sum(1, keepdims=True))
    assert scanfold.softmax(x.astype(np.float32), dtype="float64").dtype == np.float64
    assert np.allclose(scanfold.standardize(x, 1), (x - 1 - 3 * np.arange(2)[:, None]) / np.sqrt(2 / 3))
    out = np.empty((2, 3))
    assert scanfold.log_softmax(x, 1, out=out) is out and np.allclose(np.exp(out), y)
    assert scanfold.layer_norm(x.astype(np.float32), weight=np.ones(3, np.float32), bias=np.zeros(3, np.float32)).dtype == np.float32


def test_other_arrays(device):
    here = Here(device)
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
    right = scanfold.softmax(x, 1)
    assert np.array_equal(here.host(scanfold.softmax(here.array(x), 1)), right)


def test_the_notation_has_them(device):
    x, w = some((4, 6), device=device), some((6,), device=device, seed=1)
    m = x.amax(1, keepdim=True)
    assert torch.equal(scanfold.run("softmax(x, 1)", x=x), scanfold.softmax(x, 1))
    e = scanfold.run("exp(x - m)", x=x, m=m)
    assert torch.equal(scanfold.softmax(x, 1), e / scanfold.sum(e, 1, keepdim=True))  # the same bits as the expression written out
    assert torch.equal(scanfold.run("exp(x - max(x, 1, keepdim=True)) / sum(exp(x - max(x, 1, keepdim=True)), 1, keepdim=True)", x=x), scanfold.softmax(x, 1))
    assert torch.equal(scanfold.run("rms_norm(x, 1, w, 1e-3)", x=x, w=w), scanfold.rms_norm(x, 1, w, 1e-3))


# ---------------------------------------------------------------------------------------------------------------
# Gradients
# ---------------------------------------------------------------------------------------------------------------
GRADIENTS = {
    "softmax": lambda x, m: scanfold.softmax(x, 1), "softmax, masked": lambda x, m: scanfold.softmax(x, 1, mask=m),
    "log_softmax": lambda x, m: scanfold.log_softmax(x, 2), "log_softmax, masked": lambda x, m: scanfold.log_softmax(x, 2, mask=m),
    "normalize": lambda x, m: scanfold.normalize(x, 2, 1), "normalize, masked": lambda x, m: scanfold.normalize(x, 2, 1, mask=m),
    "normalize by 1": lambda x, m: scanfold.normalize(x, 1, 1), "normalize by 3": lambda x, m: scanfold.normalize(x, 3.0, (0, 1)),
    "standardize": lambda x, m: scanfold.standardize(x, 1), "standardize, masked": lambda x, m: scanfold.standardize(x, (0, 2), mask=m, correction=0),
    "rms_norm": lambda x, m: scanfold.rms_norm(x, 1), "layer_norm": lambda x, m: scanfold.layer_norm(x, (0, 1)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(device, name):
    x = some((2, 3, 4), torch.float64, device).requires_grad_()
    mask = masked_of((2, 3, 4), device)
    mask[0] = True

    def f(x):
        return GRADIENTS[name](x, mask)
    forward = " by " not in name
    assert gradcheck(f, (x,), check_forward_ad=forward, check_batched_grad=forward)
    assert gradgradcheck(f, (x,))


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_of_weights(device, masked):
    x, w, b = (some(shape, torch.float64, device, i).requires_grad_() for i, shape in enumerate(((2, 3, 4), (4,), (4,))))
    mask = masked_of((2, 3, 4), device) if masked else None

    def layer(x, w, b):
        return scanfold.layer_norm(x, -1, w, b, mask=mask)

    def rms(x, w):
        return scanfold.rms_norm(x, -1, w, 1e-3, mask=mask)
    for f, inputs in ((layer, (x, w, b)), (rms, (x, w))):
        assert gradcheck(f, inputs, check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(f, inputs)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_gradients_are_torchs(device, dtype):
    """The one pass backward, which gradcheck's doubles see as well; here in every dtype."""
    x, w, b = (some(shape, dtype, device, i).requires_grad_() for i, shape in enumerate(((8, 33), (33,), (33,))))
    g = some((8, 33), dtype, device, 9)
    pairs = [(lambda: scanfold.layer_norm(x, -1, w, b), lambda: F.layer_norm(x, (33,), w, b), (x, w, b)),
             (lambda: scanfold.layer_norm(x, -1, None, b), lambda: F.layer_norm(x, (33,), None, b), (x, b)),
             (lambda: scanfold.rms_norm(x, -1, w, 1e-3), lambda: F.rms_norm(x, (33,), w, 1e-3), (x, w)),
             (lambda: scanfold.softmax(x, 0), lambda: F.softmax(x, 0), (x,)),
             (lambda: scanfold.log_softmax(x, 1), lambda: F.log_softmax(x, 1), (x,)),
             (lambda: scanfold.normalize(x, 2, 1), lambda: F.normalize(x), (x,))]
    for ours, theirs, inputs in pairs:
        for a, c in zip(torch.autograd.grad(ours(), inputs, g), torch.autograd.grad(theirs(), inputs, g)):
            close(a, c, 32)
    only, = torch.autograd.grad(scanfold.layer_norm(x.detach(), -1, w, b), (b,), g)
    close(only, g.float().sum(0).to(dtype) if dtype is not torch.float64 else g.sum(0), 32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(1025, 700), (37, 9001), (3, 500, 130)])
def test_gradients_from_kept_statistics(monkeypatch, device, shape, dtype):
    """A gradient that is given what the call has found of x's lines has the bits of one that finds it again."""
    x, w, b, g = (torch.randn(s).to(device, dtype) for s in (shape, shape[-1:], shape[-1:], shape))
    kept = []

    def gradients():
        inputs = [t.clone().requires_grad_() for t in (x, w, b)]
        layer, rms = scanfold.layer_norm(inputs[0], -1, inputs[1], inputs[2]), scanfold.rms_norm(inputs[0], -1, inputs[1])
        kept.append([t is not None for t in layer.grad_fn.saved_tensors[-2:]] + [rms.grad_fn.saved_tensors[-1] is not None])
        return layer, rms, *torch.autograd.grad(layer, inputs, g), *torch.autograd.grad(rms, inputs[:2], g)
    with_them = gradients()
    from scanfold import _torch_applied  # which scanfold.torch has imported
    monkeypatch.setattr(_torch_applied, "_statistics", lambda *given: None)
    for mine, right in zip(with_them, gradients()):
        assert torch.equal(mine, right)
    assert kept == [[device == "cpu"] * 3, [False] * 3]


def test_many_gradients_at_once(device):
    """torch.autograd.grad with is_grads_batched maps what has no memory of its own; scans and folds take it too."""
    x = some((3, 5), device=device).requires_grad_()
    grads = some((4, 3, 5), device=device, seed=3)
    for f in (lambda x: scanfold.softmax(x, 1), lambda x: scanfold.cumsum(x, 1), lambda x: scanfold.cumsum(x, 1, mask=x.detach() > 0)):
        together, = torch.autograd.grad(f(x), x, grads, is_grads_batched=True)
        close(together, torch.stack([torch.autograd.grad(f(x), x, g)[0] for g in grads]))


def test_vmap_and_func(device):
    x, w = some((7, 3, 5), device=device), some((5,), device=device, seed=1)

    def ours(x, w):
        return scanfold.layer_norm(x, -1, w).pow(2).sum() + scanfold.softmax(x, 0).prod()

    def theirs(x, w):
        return F.layer_norm(x, (5,), w).pow(2).sum() + F.softmax(x, 0).prod()
    for dims in ((0, None), (1, None)):
        for a, c in zip(torch.func.vmap(torch.func.grad(ours, (0, 1)), dims)(x, w), torch.func.vmap(torch.func.grad(theirs, (0, 1)), dims)(x, w)):
            close(a, c, 64)
    close(torch.func.vmap(scanfold.softmax, 2)(x), torch.func.vmap(lambda x: F.softmax(x, -1), 2)(x))
    close(torch.func.jacrev(scanfold.softmax)(x[0, 0]), torch.func.jacfwd(scanfold.softmax)(x[0, 0]))


def test_opcheck(device):
    x, w = some((3, 4), device=device), some((1, 4), device=device, seed=1)
    mask = masked_of((3, 4), device)
    for inputs in ((x, "softmax", [1], 0.0, 0.0, None, None, None, None), (x, "layer_norm", [1], 0.0, 1e-5, None, w, w, None),
                   (x, "log_softmax", [0], 0.0, 0.0, mask, None, None, torch.float64)):
        torch.library.opcheck(torch.ops.scanfold.applied.default, inputs)
        torch.library.opcheck(torch.ops.scanfold.applied.default, (inputs[0].clone().requires_grad_(), *inputs[1:]))


def test_compiled(device):
    x, w = some((6, 9), device=device).requires_grad_(), some((9,), device=device, seed=1).requires_grad_()

    def f(x, w):
        return scanfold.softmax(x * 2, 1).sum(0) + scanfold.layer_norm(x, -1, w).sum(0)
    # Inductor calls these operators as it calls all that it does not know, which test_torch.py sees; thin, what comes before it is enough.
    y = torch.compile(f, fullgraph=True, backend="aot_eager" if os.environ.get("SCANFOLD_TEST_THIN") else "inductor")(x, w)
    close(y, f(x, w))
    for a, c in zip(torch.autograd.grad(y.sum() ** 2, (x, w)), torch.autograd.grad(f(x, w).sum() ** 2, (x, w))):
        close(a, c, 64)


# ---------------------------------------------------------------------------------------------------------------
# Bad input
# ---------------------------------------------------------------------------------------------------------------
def test_refused(device):
    x = some((2, 3, 5), device=device)
    short, recorded = some((4,), device=device), some((2, 3, 5), device=device).requires_grad_()
    for call, why in ((lambda: scanfold.layer_norm(x, -1, short), r"shape \(4,\).*\(5,\)"), (lambda: scanfold.layer_norm(recorded, -1, short), r"shape \(4,\).*\(5,\)"),
                      (lambda: scanfold.layer_norm(x, eps=-1.0), "eps is -1"), (lambda: scanfold.layer_norm(recorded, eps=-1.0), "eps is -1"),
                      (lambda: scanfold.softmax(x, 7), "axis is 7"), (lambda: scanfold.softmax(x, (0, 0)), "named twice"),
                      (lambda: scanfold.normalize(x, math.nan), "order is NaN"), (lambda: scanfold.standardize(x, 1, correction=4), "correction is 4"),
                      (lambda: scanfold.softmax(x, mask=torch.ones(4, dtype=torch.bool, device=device)), "mask")):
        with pytest.raises(ValueError, match=why):
            call()
    with pytest.raises(TypeError, match="say which"):
        scanfold.softmax(torch.arange(3, device=device))
    with pytest.raises(TypeError, match="axis and dim"):
        scanfold.softmax(x, 1, dim=1)
