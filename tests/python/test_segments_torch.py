"""Segments of torch tensors: gradients, torch.compile, jagged tensors, values with indices, initial states."""
import numpy as np
import pytest

import scanfold

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.host_only("test_segments_cuda.py has the device's")

OFFSETS = torch.tensor([0, 3, 3, 4, 9])
MASK = torch.tensor([1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1], dtype=torch.bool)

CALLS = {
    "cumsum": lambda x, o: scanfold.cumsum(x, 0, offsets=o),
    "cumsum back": lambda x, o: scanfold.cumsum(x, 0, offsets=o, reverse=True, exclusive=True, mask=MASK),
    "cumprod": lambda x, o: scanfold.cumprod(x, 0, offsets=o),
    "cumprod back": lambda x, o: scanfold.cumprod(x, 0, offsets=o, reverse=True, mask=MASK),
    "cumprod exclusive": lambda x, o: scanfold.cumprod(x, 0, offsets=o, exclusive=True, initial=2.0),
    "cummax": lambda x, o: scanfold.cummax(x, 0, offsets=o, initial=0.0),
    "cummin back": lambda x, o: scanfold.cummin(x, 0, offsets=o, reverse=True, exclusive=True, initial=10.0, mask=MASK),
    "logcumsumexp": lambda x, o: scanfold.logcumsumexp(x, 0, offsets=o),
    "logcumsumexp back": lambda x, o: scanfold.logcumsumexp(x, 0, offsets=o, reverse=True, mask=MASK).clamp(min=-100),
    "sum": lambda x, o: scanfold.sum(x, 0, offsets=o, mask=MASK),
    "prod": lambda x, o: scanfold.prod(x, 0, offsets=o, initial=0.5),
    "max": lambda x, o: scanfold.max(x, 0, offsets=o, initial=-10.0),
    "logsumexp": lambda x, o: scanfold.logsumexp(x, 0, offsets=o).clamp(min=-100),
    "softmax": lambda x, o: scanfold.softmax(x, 0, offsets=o)[:9],
    "log_softmax": lambda x, o: scanfold.log_softmax(x, 0, offsets=o, mask=MASK)[:9],
    "layer_norm": lambda x, o: scanfold.layer_norm(x, 0, x.flip(0), x * 2, offsets=o)[:9],
    "rms_norm": lambda x, o: scanfold.rms_norm(x, 0, offsets=o, mask=MASK, eps=1e-3)[:9],
    "normalize": lambda x, o: scanfold.normalize(x, 2, 0, offsets=o)[:9],
    "standardize": lambda x, o: scanfold.standardize(x, 0, offsets=o[[0, 1, 4]])[:9],
    "var": lambda x, o: scanfold.var(x, 0, offsets=o[[0, 1, 4]]),
    "std": lambda x, o: scanfold.std(x, 0, offsets=o, correction=0, mask=MASK)[[0, 3]],
    "norm": lambda x, o: scanfold.norm(x, 3, 0, offsets=o)[[0, 2, 3]],
    "sumsq": lambda x, o: scanfold.sumsq(x, 0, offsets=o),
    "mean": lambda x, o: scanfold.mean(x, 0, offsets=o)[[0, 2, 3]],
    "max with indices": lambda x, o: scanfold.max(x, 0, offsets=o, return_indices=True)[0].clamp(min=-100),
    "cummin with indices": lambda x, o: scanfold.cummin(x, 0, offsets=o, reverse=True, return_indices=True)[0],
    "linear_recurrence": lambda x, o: scanfold.linear_recurrence(x, x.flip(0), 0, offsets=o, initial=1.5),
    "linear_recurrence back": lambda x, o: scanfold.linear_recurrence(x, x * 2, 0, offsets=o, reverse=True, exclusive=True),
    "linear_recurrence of a number": lambda x, o: scanfold.linear_recurrence(0.5, x, 0, offsets=o),
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients(name):
    torch.manual_seed(0)
    x = torch.randn(11, dtype=torch.float64)
    x[1] = 0 if "prod" in name else x[1]
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: CALLS[name](x, OFFSETS), (x,))
    assert torch.autograd.gradgradcheck(lambda x: CALLS[name](x, OFFSETS), (x,))
    assert torch.equal(CALLS[name](x, OFFSETS), CALLS[name](x.detach(), OFFSETS))  # the bits are those of a tensor that needs none


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_states(reverse, exclusive):
    """One initial state a segment: as each segment by itself has it, in NumPy and torch, and with its gradient."""
    torch.manual_seed(0)
    a, b, h = torch.rand(2, 11, 3, dtype=torch.float64), torch.randn(2, 11, 3, dtype=torch.float64), torch.randn(2, 4, 3, dtype=torch.float64)
    options = {"reverse": reverse, "exclusive": exclusive}
    y = scanfold.linear_recurrence(a, b, 1, offsets=OFFSETS, initial=h, **options)
    assert np.array_equal(y, scanfold.linear_recurrence(a.numpy(), b.numpy(), 1, offsets=OFFSETS.numpy(), initial=h.numpy(), **options))
    for i, (begin, end) in enumerate(zip(OFFSETS[:-1], OFFSETS[1:])):
        assert torch.equal(y[:, begin:end], scanfold.linear_recurrence(a[:, begin:end], b[:, begin:end], 1, initial=h[:, i], **options))
    assert torch.equal(y[:, 9:], scanfold.linear_recurrence(a[:, 9:], b[:, 9:], 1, **options))
    given = [t.requires_grad_() for t in (a[:1, :, :1].clone(), b[:1, :, :1].clone(), h[:1, :, :1].clone())]
    assert torch.autograd.gradcheck(lambda a, b, h: scanfold.linear_recurrence(a, b, 1, offsets=OFFSETS, initial=h, **options), given)
    assert torch.autograd.gradgradcheck(lambda a, b, h: scanfold.linear_recurrence(a, b, 1, offsets=OFFSETS, initial=h, **options), given)
    with pytest.raises(ValueError, match=r"initial has shape \(3,\).*broadcastable to \(4,\)"):
        scanfold.linear_recurrence(b[0, :, 0], b[0, :, 0], 0, offsets=OFFSETS, initial=torch.ones(3, dtype=torch.float64))


def test_an_initial_value_that_is_a_tensor():
    x = torch.randn(11, dtype=torch.float64, requires_grad=True)
    start = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    for function in (scanfold.cumsum, scanfold.cumprod, scanfold.sum, scanfold.max):
        assert torch.autograd.gradcheck(lambda x, start: function(x, 0, offsets=OFFSETS, initial=start), (x, start))


@pytest.mark.parametrize("function", [scanfold.max, scanfold.min, scanfold.cummax, scanfold.cummin])
def test_values_with_indices(function):
    x = np.array([[3, 1], [4, 1], [4, 5], [9, 2], [6, 5], [5, 3]], np.float32)
    offsets = np.array([0, 3, 3, 5])
    values, indices = function(x, 0, offsets=offsets, return_indices=True)
    recorded = function(torch.from_numpy(x).requires_grad_(), 0, offsets=torch.from_numpy(offsets), return_indices=True)
    assert np.array_equal(values, recorded[0].detach()) and np.array_equal(indices, recorded[1])
    assert np.array_equal(values, function(x, 0, offsets=offsets))
    for i, (begin, end) in enumerate(zip(offsets, [*offsets[1:], 6])):
        if begin < end:
            found = function(x[begin:end], 0, return_indices=True)
            if function in (scanfold.cummax, scanfold.cummin):
                assert np.array_equal(values[begin:end], found[0]) and np.array_equal(indices[begin:end], found[1])
            elif i < 3:
                assert np.array_equal(values[i], found[0]) and np.array_equal(indices[i], found[1])


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "max", "softmax", "layer_norm", "mean", "linear_recurrence", "cummin with indices"])
def test_compiled_without_a_break(name):
    x = torch.randn(11, requires_grad=True)
    compiled = torch.compile(CALLS[name], fullgraph=True, backend="aot_eager")
    y, want = compiled(x, OFFSETS), CALLS[name](x, OFFSETS)
    assert torch.equal(y, want)
    g = torch.randn_like(y)
    assert torch.equal(torch.autograd.grad(y, x, g)[0], torch.autograd.grad(want, x, g)[0])


def test_lengths_and_reset_compiled():
    x, lengths, reset = torch.randn(9), torch.tensor([3, 0, 1, 5]), torch.tensor([1, 0, 0, 1, 1, 0, 0, 0, 0], dtype=torch.bool)
    compiled = torch.compile(lambda x, lengths, reset: scanfold.sum(x, 0, lengths=lengths).sum() + scanfold.cumsum(x, 0, reset=reset), fullgraph=True,
                             backend="aot_eager")
    offsets = [0, 3, 3, 4, 9]
    assert torch.allclose(compiled(x, lengths, reset), scanfold.sum(x, 0, offsets=offsets).sum() + scanfold.cumsum(x, 0, offsets=offsets))


# --------------------------------------------------------------------------------------------------
# Jagged tensors
# --------------------------------------------------------------------------------------------------
def jagged(*shape):
    torch.manual_seed(0)
    return [torch.randn(n, *shape, dtype=torch.float64) for n in (3, 1, 5)]


@pytest.mark.parametrize("name, keeps", [("cumsum", True), ("cumprod", True), ("cummax", True), ("logcumsumexp", True), ("softmax", True),
                                         ("log_softmax", True), ("sum", False), ("mean", False), ("max", False), ("logsumexp", False), ("argmax", False)])
@pytest.mark.parametrize("shape", [(), (4,)])
def test_jagged(name, keeps, shape):
    parts = jagged(*shape)
    x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    function = getattr(scanfold, name)
    y = function(x, 1)
    assert y.is_nested == keeps
    for got, part in zip(y.unbind(), parts):
        assert torch.equal(got, function(part, 0))
    if keeps:
        assert (x + y).is_nested  # the lengths are known to be the same
    if name != "argmax":
        (y.values() if keeps else y).sum().backward()
        assert x.grad.is_nested and x.grad.shape == x.shape
    if shape:
        along = function(x, 2)
        for got, part in zip(along.unbind(), parts):
            assert torch.equal(got, function(part, 1))


def test_jagged_recurrence_and_keepdim():
    parts = jagged(2)
    x = torch.nested.nested_tensor(parts, layout=torch.jagged)
    for a in (x, 0.5):
        y = scanfold.linear_recurrence(a, x, 1)
        for got, part in zip(y.unbind(), parts):
            assert torch.equal(got, scanfold.linear_recurrence(part if a is x else a, part, 0))
    assert scanfold.sum(x, 1, keepdim=True).shape == (3, 1, 2)
    values, indices = scanfold.max(x, 1, return_indices=True)
    assert values.shape == indices.shape == (3, 2)


def test_jagged_compiled():
    x = torch.nested.nested_tensor(jagged(2), layout=torch.jagged)
    compiled = torch.compile(lambda x: scanfold.softmax(x, 1), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x).values(), scanfold.softmax(x, 1).values())


def test_bad_jagged():
    x = torch.nested.nested_tensor(jagged(2), layout=torch.jagged)
    other = torch.nested.nested_tensor([torch.ones(n, 2, dtype=torch.bool) for n in (3, 2, 4)], layout=torch.jagged)
    with pytest.raises(ValueError, match="axis is 0, the batch"):
        scanfold.sum(x, 0)
    with pytest.raises(ValueError, match="axis is needed"):
        scanfold.sum(x)
    with pytest.raises(ValueError, match="must have the same offsets"):
        scanfold.cumsum(x, 1, mask=other)
    with pytest.raises(TypeError, match="mask is no jagged tensor"):
        scanfold.cumsum(x, 1, mask=torch.ones(9, 2, dtype=torch.bool))
