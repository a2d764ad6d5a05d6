"""Indices, sums of exponentials and linear recurrences, against NumPy, torch and plain loops."""
import doctest
import itertools
import math
import os
import runpy

import numpy as np
import pytest

import scanfold

torch = pytest.importorskip("torch", reason="torch is not installed")

REALS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
SHAPES = ((), (1,), (7,), (3, 5), (2, 1, 9), (4, 130))


@pytest.fixture(autouse=True)
def _is_there(request):
    """Devices that do not have these operations yet say so."""
    if request.node.get_closest_marker("host_only") is None and request.getfixturevalue("device") == "cuda":
        try:
            scanfold.argmax(torch.ones(2, device="cuda"))
        except Exception as error:
            if "not there on CUDA" in str(error):
                pytest.skip(str(error))


def random(shape, dtype, device, seed=0, ties=True):
    """Few different values, so that many are equal; of reals NaN, infinities and zeros of either sign among them."""
    made = torch.Generator().manual_seed(seed + sum(shape))
    x = torch.randint(-3, 4, shape, generator=made).to(torch.float64)
    if dtype.is_floating_point:
        x = torch.where(x == 0, torch.where(torch.rand(shape, generator=made) < 0.5, 0.0, -0.0), x)
        if not ties:
            x = torch.randn(shape, generator=made, dtype=torch.float64)
    return (x.abs() if dtype in (torch.uint8, torch.bool) else x).to(dtype).to(device)


def special(shape, dtype, device):
    x = random(shape, dtype, device).clone()
    flat = x.view(-1)
    for at, value in ((1, math.nan), (3, math.inf), (4, -math.inf)):
        if flat.numel() > at:
            flat[at] = value
    return x


def same(given, right):
    assert given.dtype == right.dtype and given.shape == right.shape
    assert given.device == right.device
    assert torch.equal(given.nan_to_num(nan=9e9) if given.dtype.is_floating_point else given,
                       right.nan_to_num(nan=9e9) if right.dtype.is_floating_point else right)


@pytest.mark.host_only("what is printed is the CPU's")
def test_docstrings():
    found = doctest.testmod(scanfold._pairs)
    assert found.attempted > 0 and found.failed == 0


# --------------------------------------------------------------------------------------------------
# Positions
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", (*REALS, *INTEGERS, torch.bool), ids=str)
def test_argmax_is_numpys(device, dtype):
    for shape in SHAPES:
        x = random(shape, dtype, device)
        as_numpy = x.to(torch.float32).cpu().numpy() if dtype is torch.bfloat16 else x.cpu().numpy()
        for ours, theirs in ((scanfold.argmax, np.argmax), (scanfold.argmin, np.argmin)):
            for axis, keep in itertools.product((None, *range(-len(shape), len(shape))), (False, True)):
                right = torch.as_tensor(np.asarray(theirs(as_numpy, axis, keepdims=keep)), device=device)
                same(ours(x, axis, keepdims=keep), right)
                same(ours(x, dim=axis, keepdim=keep), right)


def test_positions_among_numbers(device):
    x = torch.randn(6, 35, device=device)
    x[x.abs() < 0.4] = math.nan
    x[:, 3] = -math.inf  # which is a number still, and NaN before it is none
    x[4, :3], x[4, 3:] = math.nan, -math.inf
    mask = torch.rand(6, 35, device=device) < 0.8
    mask[:, 3] = True
    numpys = x.cpu().numpy()
    for name in ("nanargmax", "nanargmin"):
        ours, plain = getattr(scanfold, name), getattr(scanfold, name[3:])

        def theirs(array, axis, name=name):  # of NaN and infinities alone NumPy's cannot be trusted, as it says
            return getattr(np, name)(np.nan_to_num(array.astype(np.float64), nan=np.nan, posinf=1e300, neginf=-1e300), axis)
        for axis in (None, 0, 1, -1):
            right = torch.as_tensor(np.asarray(theirs(numpys, axis)))
            assert torch.equal(torch.as_tensor(np.asarray(ours(numpys, axis))), right)
            assert torch.equal(ours(x, axis).cpu(), right) and torch.equal(plain(x, axis, skip_nan=True).cpu(), right)
            text = f"{name}(x)" if axis is None else f"{name}(x, {axis})"
            assert torch.equal(scanfold.run(text, x=x).cpu(), right)
        left = np.where(mask.cpu().numpy(), numpys, np.nan)
        assert torch.equal(ours(x, 1, mask=mask).cpu(), torch.as_tensor(theirs(left, 1)))
        assert torch.equal(scanfold.run(f"{name}(x, 1, mask=m)", x=x, m=mask).cpu(), torch.as_tensor(theirs(left, 1)))
        x[2] = math.nan
        assert ours(x, 1)[2] == -1
        with pytest.raises(ValueError, match="All-NaN slice encountered"):
            ours(x.cpu().numpy(), 1)
        x[2] = 1
        numpys = x.cpu().numpy()


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_nan_wins_and_zeros_are_equal(device, dtype):
    x = special((3, 40), dtype, device)
    for axis in (0, 1):
        same(scanfold.argmax(x, axis), torch.argmax(x, axis))
        same(scanfold.argmin(x, axis), torch.argmin(x, axis))
    x = torch.tensor([-0.0, 0.0, -0.0], dtype=dtype, device=device)
    assert scanfold.argmax(x) == 0 and scanfold.argmin(x) == 0
    x = torch.tensor([math.inf, math.nan, math.nan], dtype=dtype, device=device)
    assert scanfold.argmax(x) == 1 and scanfold.argmin(x) == 1


@pytest.mark.parametrize("dtype", (*REALS, torch.int32, torch.bool), ids=str)
def test_values_and_indices(device, dtype):
    for shape in SHAPES[1:]:
        x = random(shape, dtype, device)
        for axis in range(-len(shape), len(shape)):
            for name in ("max", "min"):
                values, indices = getattr(scanfold, name)(x, axis, return_indices=True)
                assert values.dtype == dtype
                same(values, getattr(scanfold, name)(x, axis))
                same(indices, getattr(scanfold, "arg" + name)(x, axis))
        values, indices = scanfold.max(x, return_indices=True, keepdims=True)
        same(indices, scanfold.argmax(x, keepdims=True))
        same(values, scanfold.max(x, keepdims=True))


@pytest.mark.parametrize("dtype", (*REALS, torch.int32), ids=str)
def test_cumulative_indices_are_torchs(device, dtype):
    for shape in SHAPES[1:]:
        for x in (random(shape, dtype, device), special(shape, dtype, device) if dtype.is_floating_point else None):
            for axis in range(len(shape)) if x is not None else ():
                for ours, theirs in ((scanfold.cummax, torch.cummax), (scanfold.cummin, torch.cummin)):
                    values, indices = ours(x, axis, return_indices=True)
                    right = theirs(x.cpu(), axis)
                    same(indices, right.indices.to(device))
                    same(values, right.values.to(device))
                    values, indices = ours(x, axis, reverse=True, return_indices=True)
                    right = theirs(x.cpu().flip(axis), axis)
                    same(indices, (shape[axis] - 1 - right.indices.flip(axis)).to(device))
                    same(values, right.values.flip(axis).to(device))


def test_exclusive_indices(device):
    x = random((3, 9), torch.float32, device)
    values, indices = scanfold.cummax(x, 1, exclusive=True, return_indices=True)
    right = torch.cummax(x, 1)
    assert (values[:, 0] == -math.inf).all() and (indices[:, 0] == -1).all()
    same(values[:, 1:], right.values[:, :-1])
    same(indices[:, 1:], right.indices[:, :-1])


def test_masks(device):
    x = random((4, 30), torch.float32, device)
    mask = torch.arange(120, device=device).reshape(4, 30) * 7 % 3 == 0
    mask[2] = False
    right = torch.where(mask, x, -math.inf).argmax(1)
    right[2] = -1
    same(scanfold.argmax(x, 1, mask=mask), right)
    values, indices = scanfold.max(x, 1, mask=mask, return_indices=True)
    same(indices, right)
    assert values[2] == -math.inf
    # An element that is -inf has a position, one that is masked out has not.
    x[:, :29], mask[2, 29] = -math.inf, True
    same(scanfold.argmax(x, 1, mask=mask)[2], torch.tensor(29, device=device))
    right = torch.logsumexp(torch.where(mask, x, -math.inf), 1)
    same(scanfold.logsumexp(x, 1, mask=mask), right)
    kept = scanfold.logcumsumexp(x, 1, mask=mask)
    assert torch.allclose(kept, torch.logcumsumexp(torch.where(mask, x, -math.inf), 1))


def test_positions_of_nothing(device):
    x = torch.empty(3, 0, device=device)
    for function in (scanfold.argmax, scanfold.argmin):
        with pytest.raises(ValueError, match="no elements"):
            function(x, 1)
        with pytest.raises(ValueError, match="no elements"):
            function(x)
        assert function(x, 0).shape == (0,)
    with pytest.raises(ValueError, match="no elements"):
        scanfold.max(x, 1, return_indices=True)
    values, indices = scanfold.cummax(x, 1, return_indices=True)
    assert values.shape == indices.shape == (3, 0) and indices.dtype == torch.int64
    assert (scanfold.logsumexp(x, 1) == -math.inf).all()


def test_positions_refuse(device):
    x, out = random((3, 5), torch.float32, device), torch.full((3,), 7.0, device=device)
    with pytest.raises((TypeError, ValueError), match="i32 or i64"):
        scanfold.argmax(x, 1, out=out)
    with pytest.raises((TypeError, ValueError), match="plan is for i64|i32 or i64"):
        scanfold.max(x, 1, return_indices=True, out=(out.clone(), out))
    assert (out == 7).all()
    with pytest.raises(ValueError, match="-2 to 1"):
        scanfold.argmax(x, 2)
    with pytest.raises(TypeError, match="one axis"):
        scanfold.argmax(x, (0, 1))
    with pytest.raises(TypeError, match="initial does not go with return_indices"):
        scanfold.max(x, 1, initial=3, return_indices=True)
    with pytest.raises(ValueError, match="axis is needed"):
        scanfold.cummax(x, return_indices=True)


def test_out(device):
    x = random((3, 5), torch.float32, device)
    narrow = torch.empty(3, dtype=torch.int32, device=device)
    assert scanfold.argmax(x, 1, out=narrow) is narrow
    assert torch.equal(narrow.long(), x.argmax(1))
    values, indices = torch.empty(3, 5, device=device), torch.empty(3, 5, dtype=torch.int64, device=device)
    given = scanfold.cummax(x, 1, return_indices=True, out=(values, indices))
    assert given[0] is values and given[1] is indices
    same(indices, torch.cummax(x, 1).indices)
    y = torch.empty(3, 5, device=device)
    assert scanfold.linear_recurrence(0.5, x, out=y) is y
    same(y, scanfold.linear_recurrence(0.5, x))


@pytest.mark.host_only("NumPy's arrays are the host's")
def test_numpy_dtypes():
    x = np.arange(6).reshape(2, 3)
    assert scanfold.argmax(x, 1).dtype == np.int64
    assert scanfold.logsumexp(x, 1).dtype == np.float64
    assert np.allclose(scanfold.logsumexp(x, 1), np.log(np.exp(x).sum(1)))
    assert scanfold.logcumsumexp(x > 2, 1, dtype="float32").dtype == np.float32
    assert scanfold.linear_recurrence(x, x).dtype == np.float64
    assert scanfold.linear_recurrence(0.5, x.astype(np.float16)).dtype == np.float16
    assert scanfold.argmax(np.float32(3)) == 0
    assert scanfold.logsumexp(torch.arange(3)).dtype == torch.float32
    values, indices = scanfold.cummin(x[:, ::-1], 1, return_indices=True)
    assert values.tolist() == [[2, 1, 0], [5, 4, 3]] and indices.tolist() == [[0, 1, 2]] * 2


@pytest.mark.host_only("JAX on the CPU")
def test_jax():
    jnp = pytest.importorskip("jax.numpy", reason="JAX is not installed")
    x = jnp.array([[1.0, 3.0, 3.0], [5.0, 2.0, 5.0]], dtype=jnp.float32)
    assert scanfold.argmax(x, 1).dtype == jnp.argmax(x, 1).dtype and (scanfold.argmax(x, 1) == jnp.argmax(x, 1)).all()
    values, indices = scanfold.max(x, 1, return_indices=True)
    assert type(values) is type(x) and (values == x.max(1)).all() and (indices == jnp.argmax(x, 1)).all()
    assert jnp.allclose(scanfold.logsumexp(x, 1), jnp.log(jnp.exp(x).sum(1)))
    y = scanfold.linear_recurrence(x / 8, x, initial=jnp.array([1.0, 2.0], dtype=jnp.float32))
    assert type(y) is type(x) and np.allclose(y, loop(np.asarray(x) / 8, np.asarray(x), 1, [1, 2]), rtol=1e-6)


# --------------------------------------------------------------------------------------------------
# Sums of exponentials
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_logsumexp_is_torchs(device, dtype):
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 2e-6, torch.float64: 1e-14}[dtype]
    for shape in SHAPES[1:]:
        x = random(shape, dtype, device, ties=False) * 5
        for axis in range(len(shape)):
            right = torch.logsumexp(x.double(), axis)
            given = scanfold.logsumexp(x, axis)
            assert given.dtype == dtype and torch.allclose(given.double(), right, rtol=tolerance, atol=tolerance)
            right = torch.logcumsumexp(x.double(), axis)
            given = scanfold.logcumsumexp(x, axis)
            assert given.dtype == dtype and torch.allclose(given.double(), right, rtol=tolerance, atol=tolerance)
            back = scanfold.logcumsumexp(x, axis, reverse=True)
            same(back, scanfold.logcumsumexp(x.flip(axis), axis).flip(axis))
        right = torch.logsumexp(x.double(), list(range(len(shape))))
        assert torch.allclose(scanfold.logsumexp(x).double(), right, rtol=tolerance, atol=tolerance)


def test_logsumexp_of_extremes(device):
    inf = math.inf
    x = torch.tensor([[-inf, -inf, -inf], [1e4, 1e4, -1e4], [-1e4, -1e4, -inf], [inf, 0, -inf], [inf, inf, 1], [math.nan, 1, inf]],
                     device=device)
    right = torch.logsumexp(x, 1)
    assert torch.allclose(scanfold.logsumexp(x, 1), right, equal_nan=True)
    assert torch.allclose(scanfold.logcumsumexp(x[:5], 1), torch.logcumsumexp(x[:5], 1), equal_nan=True)
    first = scanfold.logcumsumexp(x[1:2], 1, exclusive=True)
    assert first[0, 0] == -inf and first[0, 1] == 1e4


def test_logsumexp_within_its_bound(device):
    """That of docs/order.md, by the depth of the tree."""
    n = 100_003
    x = (torch.arange(n, dtype=torch.float64) * 0.37 % 20 - 10).to(torch.float32).to(device)
    right = torch.logsumexp(x.double(), 0)
    depth = math.ceil(math.log2(n))
    bound = (depth + 5 + 2 * abs(right)) * 2.0**-24
    assert abs(scanfold.logsumexp(x).double() - right) <= bound


def test_recurrence_within_its_bound(device):
    """That of docs/order.md: each term is multiplied as often as elements follow it, and added at most as often as the tree is deep."""
    n = 3001
    a = random((n,), torch.float32, device, ties=False).sigmoid() * 0.9 + 0.1
    b = random((n,), torch.float32, device, seed=1, ties=False)
    right = loop(a.double().cpu(), b.double().cpu(), 0)
    gates, sizes = a.double().cpu().numpy(), b.double().abs().cpu().numpy()
    depth, weighed, aged = math.ceil(math.log2(n)), 0.0, 0.0  # sums of the terms, and of the terms times how often each was multiplied
    given = scanfold.linear_recurrence(a, b).double().cpu().numpy()
    for i in range(n):
        weighed, aged = gates[i] * weighed, gates[i] * (aged + weighed)
        weighed += sizes[i]
        assert abs(given[i] - right[i]) <= 1.01 * (aged + depth * weighed) * 2.0**-24 + 1e-30


# --------------------------------------------------------------------------------------------------
# Recurrences
# --------------------------------------------------------------------------------------------------
def loop(a, b, axis, initial=0.0, reverse=False, exclusive=False):
    """In float64, one element after the other."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    a, b = (np.moveaxis(t, axis, 0) for t in (a, b))
    a, b = (t[::-1] if reverse else t for t in (a, b))
    h, y = np.broadcast_to(np.asarray(initial, dtype=np.float64), b.shape[1:]), np.empty(b.shape)
    for i in range(len(b)):
        y[i] = h
        h = a[i] * h + b[i]
        y[i] = y[i] if exclusive else h
    return np.moveaxis(y[::-1] if reverse else y, 0, axis)


@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize("reverse", (False, True))
@pytest.mark.parametrize("exclusive", (False, True))
def test_recurrence_is_a_loop(device, dtype, reverse, exclusive):
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 2e-6, torch.float64: 1e-14}[dtype]
    for shape in ((6,), (3, 5), (2, 33, 4), (3, 1), (2, 0), (5, 300)):
        b = random(shape, dtype, device, ties=False)
        for axis in range(len(shape)):
            lines = shape[:axis] + shape[axis + 1:]
            for a_shape in {shape, shape[-1:], (), shape[:-1] + (1,)}:
                a = random(a_shape, dtype, device, seed=1, ties=False).sigmoid()
                for initial in (None, 1.5, random(lines, dtype, device, seed=2, ties=False) if lines else None):
                    right = loop(a.double().cpu(), b.double().cpu(), axis, 0 if initial is None else initial.double().cpu() if torch.is_tensor(initial) else initial,
                                 reverse, exclusive)
                    y = scanfold.linear_recurrence(a, b, axis, reverse=reverse, exclusive=exclusive, initial=initial)
                    assert y.dtype == dtype and y.shape == shape
                    assert np.allclose(y.double().cpu(), right, rtol=tolerance, atol=tolerance)


def test_laws_of_recurrences(device):
    b = random((4, 1000), torch.float32, device, ties=False)
    same(scanfold.linear_recurrence(1, b), scanfold.cumsum(b, 1))
    same(scanfold.linear_recurrence(torch.zeros_like(b), b), b)
    a = random((4, 1000), torch.float32, device, seed=1, ties=False).sigmoid()
    y = scanfold.linear_recurrence(a, b)
    same(scanfold.linear_recurrence(a.T, b.T, 0), y.T)
    same(scanfold.linear_recurrence(a.flip(1), b.flip(1), reverse=True), y.flip(1))
    same(scanfold.linear_recurrence(0.5, b), scanfold.linear_recurrence(torch.tensor(0.5, device=device), b))
    state = b[:, :1].clone()
    filled = scanfold.linear_recurrence(a, b, initial=state.squeeze(1))
    begun = b.clone()
    begun[:, :1] = a[:, :1] * state + b[:, :1]
    same(filled, scanfold.linear_recurrence(a, begun))


def test_recurrence_refuses(device):
    a, b = torch.ones(4, device=device), torch.ones(2, 3, device=device)
    for given in (a, a.requires_grad_()):
        with pytest.raises(ValueError, match="do not broadcast"):
            scanfold.linear_recurrence(given, b)
    with pytest.raises(ValueError, match="one state a line"):
        scanfold.linear_recurrence(0.5, b, initial=torch.ones(3, device=device))
    with pytest.raises((TypeError, ValueError), match="i64|int64"):
        scanfold.linear_recurrence(0.5, b, dtype=torch.int64)
    with pytest.raises(ValueError, match="-2 to 1"):
        scanfold.linear_recurrence(0.5, b, 2)
    with pytest.raises(TypeError, match="number or an array"):
        scanfold.linear_recurrence("0.5", b)
    for wrong in (b.to(torch.complex64), b.cpu().numpy().astype(np.complex64)):  # complex numbers: a clear refusal
        with pytest.raises(TypeError, match="complex64.*are taken"):
            scanfold.linear_recurrence(0.5, wrong)
        with pytest.raises(TypeError, match="complex64.*are taken"):
            scanfold.linear_recurrence(wrong, wrong.real)
    with pytest.raises(TypeError, match="a is 0.5j, a complex number"):
        scanfold.linear_recurrence(0.5j, b)
    out = torch.full((2, 3), 7, device=device)
    with pytest.raises((TypeError, ValueError)):
        scanfold.linear_recurrence(0.5, b, out=out)
    assert (out == 7).all()


# --------------------------------------------------------------------------------------------------
# Gradients
# --------------------------------------------------------------------------------------------------
def tensor(device, *shape, seed=0):
    return random(shape, torch.float64, device, seed, ties=False).requires_grad_()


UNARY = {
    "logsumexp": lambda x: scanfold.logsumexp(x, 1),
    "logsumexp of all": lambda x: scanfold.logsumexp(x, keepdim=True),
    "logsumexp, masked": lambda x: scanfold.logsumexp(x, 1, mask=x.detach() > -0.5),
    "logcumsumexp": lambda x: scanfold.logcumsumexp(x, 1),
    "logcumsumexp, reverse": lambda x: scanfold.logcumsumexp(x, 0, reverse=True),
    "logcumsumexp, exclusive": lambda x: scanfold.logcumsumexp(x, 1, exclusive=True)[:, 1:],
    "max": lambda x: scanfold.max(x, 1, return_indices=True)[0],
    "min of all": lambda x: scanfold.min(x, return_indices=True)[0],
    "max, masked": lambda x: scanfold.max(x, 0, keepdim=True, mask=x.detach() > -0.5, return_indices=True)[0],
    "cummax": lambda x: scanfold.cummax(x, 1, return_indices=True)[0],
    "cummin, reverse": lambda x: scanfold.cummin(x, 0, reverse=True, return_indices=True)[0],
    "cummax, exclusive": lambda x: scanfold.cummax(x, 1, exclusive=True, return_indices=True)[0][:, 1:],
}


@pytest.mark.parametrize("name", UNARY)
def test_gradients(device, name):
    x = tensor(device, 3, 5)
    assert torch.autograd.gradcheck(UNARY[name], x) and torch.autograd.gradgradcheck(UNARY[name], x)


@pytest.mark.parametrize("reverse", (False, True))
@pytest.mark.parametrize("exclusive", (False, True))
@pytest.mark.parametrize("a_shape", ((2, 4, 3), (3,), ()), ids=str)
@pytest.mark.parametrize("with_state", (False, True))
def test_gradients_of_recurrences(device, reverse, exclusive, a_shape, with_state):
    a, b = tensor(device, *a_shape), tensor(device, 2, 4, 3, seed=1)
    state = (tensor(device, 2, 3, seed=2),) if with_state else ()

    def run(a, b, *state):
        return scanfold.linear_recurrence(a, b, 1, reverse=reverse, exclusive=exclusive, initial=state[0] if state else 0.5)
    assert torch.autograd.gradcheck(run, (a, b, *state), check_forward_ad=True)
    # Thin, by a random direction each instead of all elements one by one.
    assert torch.autograd.gradgradcheck(run, (a, b, *state), fast_mode=bool(os.environ.get("SCANFOLD_TEST_THIN")))


@pytest.mark.parametrize("reverse", (False, True))
@pytest.mark.parametrize("axis", (0, 1, 2))
@pytest.mark.parametrize("initial", (None, 0.0, 1.5, "state"), ids=str)
def test_gradients_in_one_scan(device, monkeypatch, reverse, axis, initial):
    """On CUDA the gradients of a and b are two results of one scan. Bits are those of two passes."""
    from scanfold import torch as _  # noqa: F401  first
    from scanfold import _torch_pairs
    for shape, a_shape, dtype in (((3, 40, 6), (3, 40, 6), torch.float32), ((2, 5, 300), (300,), torch.float32), ((2, 2, 2), (2, 2, 2), torch.float64),
                                  ((4, 1, 7), (4, 1, 7), torch.float32), ((3, 9, 5), (3, 9, 5), torch.float16)):
        made = torch.Generator().manual_seed(5)
        a, b, g = (torch.randn(s, generator=made, dtype=torch.float64).to(dtype).to(device) for s in (a_shape, shape, shape))
        h = initial if initial != "state" else torch.randn(shape[:axis] + shape[axis + 1:], generator=made, dtype=torch.float64).to(dtype).to(device)
        grads = []
        for both in (False, True):
            monkeypatch.setattr(_torch_pairs, "_doubles", lambda y: both)
            leaves = [t.clone().requires_grad_() for t in ((a, b, h) if initial == "state" else (a, b))]
            y = scanfold.linear_recurrence(leaves[0], leaves[1], axis, reverse=reverse, initial=leaves[2] if initial == "state" else h)
            grads.append(torch.autograd.grad(y, leaves, g))
        for two, one in zip(*grads):
            same(one, two)
    with torch.no_grad():  # what the scan reads of h is 0 before the first state, also where h is infinite there
        x = torch.tensor([[1.0, 2.0, math.inf]], device=device)
        text = "(x + cumsum(x, 1)), (x + cumsum(x, 1)) * concat([x[:, 1:], zeros_like(x[:, :1])], 1)"
        y, z = scanfold.run(text, x=x)
        assert torch.equal(z.nan_to_num(7.0), torch.tensor([[4.0, math.inf, 7.0]], device=device).nan_to_num(7.0))


def test_gradients_are_torchs(device):
    for name, ours, theirs in (("logcumsumexp", scanfold.logcumsumexp, torch.logcumsumexp), ("logsumexp", scanfold.logsumexp, torch.logsumexp)):
        x = torch.tensor([[-math.inf, 1.0, -2.0], [3.0, 3.0, 1e3]], device=device, requires_grad=True)
        y = torch.tensor([[-math.inf, 1.0, -2.0], [3.0, 3.0, 1e3]], device=device, requires_grad=True)
        ours(x, 1)[..., 1:].sum().backward()
        theirs(y, 1)[..., 1:].sum().backward()
        assert torch.allclose(x.grad, y.grad.nan_to_num()), name  # torch gives NaN where an element is -inf
    x = torch.full((2, 3), -math.inf, device=device, requires_grad=True)
    (scanfold.logsumexp(x, 1).sum() + scanfold.logcumsumexp(x, 1).sum()).backward()
    assert (x.grad == 0).all()  # nothing is there to be differentiated
    x = random((4, 6), torch.float32, device).requires_grad_()
    y = x.detach().clone().requires_grad_()
    weight = torch.arange(24.0, device=device).reshape(4, 6)
    (scanfold.cummax(x, 1, return_indices=True)[0] * weight).sum().backward()
    (torch.cummax(y, 1).values * weight).sum().backward()
    assert torch.equal(x.grad, y.grad)
    assert not scanfold.argmax(x, 1).requires_grad


def test_half_gradients_are_computed_in_float32(device):
    a = random((2, 500), torch.float64, device, ties=False).sigmoid()
    b = random((2, 500), torch.float64, device, seed=1, ties=False)
    grads = []
    for dtype in (torch.float64, torch.bfloat16):
        leaves = [t.to(torch.bfloat16).to(dtype).requires_grad_() for t in (a, b)]
        scanfold.linear_recurrence(*leaves).sum().backward()
        grads.append([leaf.grad.double() for leaf in leaves])
    for right, given in zip(*grads):
        assert torch.allclose(given, right, rtol=2e-2, atol=2e-2)


def test_vmap(device):
    a, b, state = (tensor(device, *shape, seed=i).detach() for i, shape in enumerate(((3, 5), (3, 5), (3,))))
    right = scanfold.linear_recurrence(a, b, initial=state)
    run = torch.func.vmap(lambda a, b, h: scanfold.linear_recurrence(a, b, initial=h))
    same(run(a, b, state), right)
    same(torch.func.vmap(lambda b: scanfold.linear_recurrence(a[0], b), in_dims=1, out_dims=1)(b.T), scanfold.linear_recurrence(a[0], b).T)
    same(torch.func.vmap(lambda a: scanfold.linear_recurrence(a, b[0]))(a), scanfold.linear_recurrence(a, b[:1]))
    same(torch.func.vmap(lambda x: scanfold.cummax(x, return_indices=True)[1])(b), torch.cummax(b, 1).indices)
    same(torch.func.vmap(lambda x: scanfold.max(x, return_indices=True)[1])(b), b.argmax(1))
    same(torch.func.vmap(lambda x: scanfold.argmin(x, 0), in_dims=1)(b), b.argmin(0))
    grads = torch.func.vmap(torch.func.grad(lambda a, b: scanfold.linear_recurrence(a, b).sum()))(a, b)
    leaf = a.clone().requires_grad_()
    scanfold.linear_recurrence(leaf, b).sum().backward()
    assert torch.allclose(grads, leaf.grad)


@pytest.mark.skipif(not hasattr(torch.library, "opcheck"), reason="torch.library.opcheck is there from 2.4 on")
def test_operators_are_what_torch_expects(device):
    a, b, state = tensor(device, 3, 5), tensor(device, 3, 5, seed=1), tensor(device, 3, seed=2)
    for args in ((a, b, state, None, 1, False, False, None), (a, b, None, 0.5, 0, True, True, None), (a.detach(), b.detach(), None, None, 1, False, False, torch.float32)):
        torch.library.opcheck(torch.ops.scanfold.linear_recurrence.default, args)
    for args in ((a, "max", 1, True, False, False, False, None), (a, "min", None, False, True, False, False, None),
                 (a.detach(), "max", 0, False, False, False, False, a.detach() > 0)):
        torch.library.opcheck(torch.ops.scanfold.extreme.default, args)
    for args in ((a, "argmax", [1], True, False, None, None, None), (a, "logsumexp", [0, 1], False, False, None, None, None)):
        torch.library.opcheck(torch.ops.scanfold.fold.default, args)
    torch.library.opcheck(torch.ops.scanfold.scan.default, (a, "logsumexp", 1, False, False, None, None, None))


def test_traced(device):
    """torch.compile finds operators in place of calls."""
    def model(a, b, x):
        h = scanfold.linear_recurrence(a, b, 1, initial=x[:, 0])
        values, indices = scanfold.cummax(x, 1, return_indices=True)
        return h, values, indices, scanfold.argmax(x, 1), scanfold.logsumexp(x, 1), scanfold.logcumsumexp(x, 0), scanfold.linear_recurrence(0.5, x, 0)
    given = [tensor(device, 3, 5, seed=i) for i in range(3)]
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for y, right in zip(compiled(*given), model(*given)):
        same(y, right)
    compiled(*given)[0].sum().backward()
    grads = [t.grad.clone() for t in given]
    for t in given:
        t.grad = None
    model(*given)[0].sum().backward()
    assert all(torch.allclose(g, t.grad) for g, t in zip(grads, given))


def test_recorded_by_fx(device):
    """A Proxy stands in for a tensor: the calls are recorded as they stand."""
    def model(x):
        values, indices = scanfold.cummax(x, dim=1, return_indices=True)[0], scanfold.max(x, dim=1, return_indices=True)[1]
        return values, indices, scanfold.argmax(x, 1), scanfold.logcumsumexp(x, 1), scanfold.linear_recurrence(0.5, x), scanfold.linear_recurrence(x, x, 0)
    x = random((3, 5), torch.float32, device)
    for y, right in zip(torch.fx.symbolic_trace(model)(x), model(x)):
        same(y, right)


# --------------------------------------------------------------------------------------------------
# Expressions
# --------------------------------------------------------------------------------------------------
def test_expressions(device):
    x = random((6, 40), torch.float32, device)
    run = scanfold.run
    values, indices = run("max(x, 1), argmax(x, 1)", x=x)
    same(indices, torch.as_tensor(np.argmax(x.cpu().numpy(), 1), device=device))
    same(run("argmax(x * -2 + 1, 0) * 3", x=x), scanfold.argmax(x * -2 + 1, 0) * 3)
    same(run("argmax(x, 1).astype(f32) / 2", x=x), scanfold.argmax(x, 1).float() / 2)
    same(run("argmax(x, 1, mask=x > 1)", x=x), scanfold.argmax(x, 1, mask=x > 1))
    same(run("flip(cumargmax(flip(x, 1), 1), 1)", x=x), torch.cummax(x.flip(1), 1).indices.flip(1))
    same(run("cumargmax(x, 1, reverse=True)[:, 3:]", x=x), scanfold.cummax(x, 1, reverse=True, return_indices=True)[1][:, 3:])
    same(run("logsumexp(x, 1, keepdim=True) - x", x=x), scanfold.logsumexp(x, 1, keepdim=True) - x)
    a = torch.linspace(0, 1, 40, device=device)
    same(run("linear_recurrence(a * 0.5, x + 1)[:, :7] * 2", a=a, x=x), scanfold.linear_recurrence(a * 0.5, x + 1)[:, :7] * 2)
    assert "same read" in scanfold._scanfold.expression_explain(scanfold._parsed("max(x, 1), argmax(x, 1)", False, {"x": x})[0], [x], 0) or device == "cuda"


def test_the_backend_takes_them(device):
    """torch's own operators, in as few passes as they need."""
    if scanfold.torch.VERSION < (2, 3):
        pytest.skip("the backend wants torch 2.3 or later")
    from scanfold import _compile
    programs, original = [], _compile.fuse

    def watch(*args):
        found = original(*args)
        programs.extend(found)
        return found

    def model(x, i):
        values, indices = (x * 2 + 1).max(1)
        least, where = torch.cummin(i, 1)
        return (values, indices, least, where, torch.cummax(x, 0).indices, (x + 1).argmax(0, keepdim=True), torch.argmin(x),
                torch.logsumexp(x * 3, (0, 1)), torch.logcumsumexp(x, 1) + 1)
    x, i = random((6, 40), torch.float32, device), random((6, 40), torch.int32, device)
    torch._dynamo.reset()
    _compile.fuse = watch
    try:
        y = torch.compile(model, backend=lambda gm, inputs: _compile.backend(gm, inputs, options={"rest": "eager"}), fullgraph=True)(x, i)
    finally:
        _compile.fuse = original
    for given, right in zip(y[:7], model(x, i)):
        same(given, right)
    for given, right in zip(y[7:], model(x, i)[7:]):
        assert torch.allclose(given, right)
    if device == "cpu":
        taken = "".join(str(text) for _, text in programs)
        assert all(name in taken for name in ("argmax", "argmin", "last_argmin", "last_argmax", "logsumexp", "logcumsumexp"))


@pytest.mark.host_only("the examples' arrays are the host's")
@pytest.mark.parametrize("name", ("discounted_returns", "advantages", "moving_average", "gated_rnn"))
def test_examples(name, capsys):
    """examples/recurrences: each checks itself against a loop. Here, because a process of its own would import torch for longer than that."""
    runpy.run_path(os.path.join(os.path.dirname(__file__), "..", "..", "examples", "recurrences", name + ".py"), run_name="__main__")
    assert "a loop" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------------------------------
# dtypes, refusals and options of the whole family
# ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("other", ["int32", "int64", "uint8", "bool"])
def test_recurrence_of_halves_with_integers(torch, device, half, other):
    half, other = getattr(torch, half), getattr(torch, other)
    x, i = torch.rand(3, 50, device=device).to(half), torch.randint(0, 2, (3, 50), device=device).to(other)
    for a, b in ((x, i), (i, x)):
        right = scanfold.linear_recurrence(a.float(), b.float(), dtype=half)
        assert right.dtype == torch.result_type(a, b) == half
        assert torch.equal(scanfold.linear_recurrence(a, b), right)
        recorded = scanfold.linear_recurrence(*(t.clone().requires_grad_() if t is x else t for t in (a, b)))
        assert torch.equal(recorded.detach(), right)
        recorded.sum().backward()
        offsets = torch.tensor([0, 20, 50], device=device)
        whole = scanfold.linear_recurrence(a.float(), b.float(), dtype=half, offsets=offsets)
        assert torch.equal(scanfold.linear_recurrence(a, b, offsets=offsets), whole)
    assert scanfold.linear_recurrence(2, i, dtype=half).dtype == half


@pytest.mark.host_only("sentences")
def test_sentences():
    b = np.ones(3)
    for call, says in ((lambda: scanfold.linear_recurrence(1j, b), "a is 1j, a complex number; a recurrence is of real numbers"),
                       (lambda: scanfold.linear_recurrence(1, b, initial=2 + 1j), r"initial is \(2\+1j\), a complex number")):
        with pytest.raises(TypeError, match=says):
            call()
    for name in ("argmax", "argmin"):
        for call in (lambda: getattr(scanfold, name)(np.zeros((0, 3)), 0), lambda: scanfold.run(f"{name}(x, 0)", x=np.zeros((0, 3)))):
            with pytest.raises(ValueError, match="has no value; fold axes that are not empty"):
                call()


@pytest.mark.host_only("NumPy's error")
@pytest.mark.parametrize("name", ["nanargmax", "nanargmin"])
def test_nothing_is_written_where_all_are_nan(monkeypatch, name):
    x, out = np.array([[1, np.nan, 3], [np.nan] * 3]), np.full(2, 7)
    with pytest.raises(ValueError, match="All-NaN slice"):
        getattr(scanfold, name)(x, 1, out=out)
    assert out.tolist() == [7, 7]
    x[1] = [4, 5, np.nan]
    calls, fold = [], scanfold._fold
    monkeypatch.setattr(scanfold, "_fold", lambda *given: calls.append(1) or fold(*given))
    assert getattr(scanfold, name)(x, 1, out=out) is out and out.tolist() == getattr(np, name)(x, 1).tolist()
    assert len(calls) == 1  # once for the check and the result
    for bad, sentence in ((np.full(3, 7), "shape"), (np.full(2, "no"), "dtype")):
        with pytest.raises((TypeError, ValueError), match=sentence):
            getattr(scanfold, name)(x, 1, out=bad)
    with pytest.raises(ValueError, match="overlap"):
        getattr(scanfold, name)(x, 1, out=x.view(np.int64)[:, 0])


def test_nothing_is_written_where_one_of_two_does_not_fit(torch, device):
    x, first = torch.ones(3, 4, device=device), torch.zeros(3, device=device)
    mask = torch.func.vmap(lambda v: v)(x) > 0 if hasattr(torch, "func") else x > 0
    with torch.no_grad(), pytest.raises((ValueError, RuntimeError), match="out"):
        scanfold.torch._copied((first, torch.zeros(2, device=device)), (x.sum(1), mask.sum(1)))
    assert not first.any()


@pytest.mark.parametrize("name", ["logsumexp", "logcumsumexp"])
def test_exponentials_skip_nan(torch, device, name):
    x = torch.randn(5, 40, device=device)
    x[x > 1] = math.nan
    x[2] = math.nan
    function, kept = getattr(scanfold, name), x == x
    right = function(x, 1, mask=kept)
    assert not right.isnan().any() and torch.equal(function(x, 1, skip_nan=True), right)
    recorded = x.clone().requires_grad_()
    y = function(recorded, 1, skip_nan=True, mask=x < 0)
    assert torch.equal(y.detach(), function(x, 1, mask=kept & (x < 0)))
    y[:2].sum().backward()
    assert not recorded.grad.isnan().any()
    offsets = torch.tensor([0, 10, 40], device=device)
    assert torch.equal(function(x, 1, skip_nan=True, offsets=offsets), function(x, 1, mask=kept, offsets=offsets))
    if device == "cpu":
        np.testing.assert_array_equal(function(x.numpy(), 1, skip_nan=True), right.numpy())
