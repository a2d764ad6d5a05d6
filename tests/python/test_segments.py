"""Segments from Python: every one against the plain call on its slice, bit for bit; gradients; what is refused."""
import os
import runpy

import numpy as np
import pytest

import scanfold

torch = pytest.importorskip("torch")
hypothesis = pytest.importorskip("hypothesis")
given, settings, st = hypothesis.given, hypothesis.settings, hypothesis.strategies

pytestmark = pytest.mark.host_only("test_segments_cuda.py has the device's")

SCANS = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"]
FOLDS = ["sum", "prod", "max", "min", "argmax", "argmin", "logsumexp"]


def bits(a):
    a = np.ascontiguousarray(a)
    return a.view(f"u{a.dtype.itemsize}")


def partition(rng, n, kind):
    if kind == "one":
        return np.array([0, n])
    if kind == "ones":
        return np.arange(n + 1)
    if kind == "empties":
        return np.sort(np.concatenate([[0, n], rng.integers(0, n + 1, 2 * n), np.zeros(3, int), np.full(3, n)]))
    cuts = {"tiny": n // 3, "huge": 2, "mixed": n // 40}[kind]
    return np.sort(np.concatenate([[0, n], rng.integers(0, n + 1, cuts)]))


@pytest.mark.parametrize("kind", ["one", "ones", "empties", "tiny", "huge", "mixed"])
@pytest.mark.parametrize("name", SCANS + FOLDS)
@pytest.mark.parametrize("shape, axis", [((3000,), 0), ((2, 700), 1), ((500, 3), 0), ((300, 24), 0)])
def test_every_segment_is_as_by_itself(name, kind, shape, axis):
    rng = np.random.default_rng(7)
    x = rng.standard_normal(shape).astype(np.float32) * 10.0 ** rng.integers(-3, 3, shape)
    x = x.astype(np.float32)
    offsets = partition(rng, shape[axis], kind).astype(np.int32 if kind == "tiny" else np.int64)
    function = getattr(scanfold, name)
    y = function(x, axis, offsets=offsets)
    torched = function(torch.from_numpy(x), axis, offsets=torch.from_numpy(offsets))
    assert np.array_equal(bits(y), bits(torched.numpy()))
    for i, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:])):
        if begin == end:
            continue
        part = np.take(x, range(begin, end), axis)
        want = function(part, axis)
        got = np.take(y, range(begin, end), axis) if name in SCANS else np.take(y, i, axis)
        assert np.array_equal(bits(got), bits(want)), (name, kind, i)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=30), st.sampled_from(SCANS + FOLDS), st.booleans(), st.booleans())
def test_lengths(lengths, name, reverse, rest):
    n = sum(lengths) + 5 * rest
    x = np.random.default_rng(n).standard_normal(n)
    options = {"reverse": reverse} if name not in ("argmax", "argmin", "logsumexp") else {}
    function = getattr(scanfold, name)
    y = function(x, lengths=np.array(lengths, dtype=np.int64), **options)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
    assert y.shape == ((n,) if name in SCANS else (len(lengths),))
    for i, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:])):
        if begin < end:
            want = function(x[begin:end], **options)
            assert np.array_equal(bits(y[begin:end] if name in SCANS else y[i]), bits(want))
    if rest and name in SCANS:
        assert np.array_equal(bits(y[offsets[-1]:]), bits(function(x[offsets[-1]:], **options)))


def test_reset():
    reset = np.array([0, 0, 1, 0, 0, 1, 1, 0], bool)
    x = np.arange(8.0)
    offsets = [0, 2, 5, 6, 8]
    for array in (np.asarray, torch.as_tensor):
        assert np.array_equal(np.asarray(scanfold.cumsum(array(x), reset=array(reset))), scanfold.cumsum(x, offsets=offsets))
        assert np.array_equal(np.asarray(scanfold.sum(array(x), 0, reset=array(reset))), scanfold.sum(x, offsets=offsets))


def test_empty_segments_have_the_identity():
    x = np.array([1.0, 2.0])
    offsets = np.array([0, 0, 2, 2])
    assert scanfold.sum(x, offsets=offsets).tolist() == [0, 3, 0]
    assert scanfold.prod(x, offsets=offsets).tolist() == [1, 2, 1]
    assert scanfold.max(x, offsets=offsets).tolist() == [-np.inf, 2, -np.inf]
    assert scanfold.argmax(x, offsets=offsets).tolist() == [-1, 1, -1]
    assert scanfold.max(x, offsets=offsets, initial=1.5).tolist() == [1.5, 2, 1.5]


@pytest.mark.parametrize("options, sentence", [
    ({"offsets": np.array([1, 4])}, "offsets\\[0\\] is 1; the first segment must begin at 0"),
    ({"offsets": np.array([0, 3, 2])}, "offsets\\[2\\] is 2, below the 3 before it"),
    ({"offsets": np.array([0, 5])}, "offsets end with 5, but the axis has 4 elements"),
    ({"offsets": np.array([0.0, 4.0])}, "offsets are f64; they must be i32 or i64"),
    ({"offsets": np.array([[0, 4]])}, "offsets have 2 dimensions"),
    ({"lengths": np.array([2.0, 2.0])}, "lengths have dtype float64"),
    ({"reset": np.array([True])}, "reset has shape \\(1,\\); the axis has 4 elements"),
])
def test_bad_segments(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        scanfold.cumsum(np.ones(4), **options)


def test_one_of_three():
    with pytest.raises(TypeError, match="offsets and lengths say the same"):
        scanfold.sum(np.ones(4), offsets=[0, 4], lengths=[4])
    with pytest.raises(ValueError, match="axis is needed"):
        scanfold.sum(np.ones((2, 2)), reset=np.ones(2, bool))
    with pytest.raises(ValueError, match="offsets cut one axis"):
        scanfold.sum(np.ones((2, 2)), offsets=[0, 2])


DERIVED = ["var", "std", "cummean", "cumvar", "sumsq", "norm", "any", "all", "count_nonzero", "nanmax", "nansum", "nanmean", "nanargmax", "layer_norm",
           "rms_norm", "normalize", "standardize"]
NUMPYS = {name: {"correction": 0} for name in ("var", "std", "cumvar", "standardize")}  # torch would have 1
ROUNDED = ("var", "std")  # of a segment around its mean, of a whole axis around its first element


@pytest.mark.parametrize("name", DERIVED)
def test_derived(name):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((90, 3)).astype(np.float32)
    x[rng.random(x.shape) < 0.02] = 0
    x[rng.random(x.shape) < 0.02] = np.nan if name.startswith("nan") else 1
    offsets, function = np.array([0, 4, 4, 40, 41, 90]), getattr(scanfold, name)
    y = function(x, axis=0, offsets=offsets)
    assert np.array_equal(bits(y), bits(function(torch.from_numpy(x), axis=0, offsets=torch.from_numpy(offsets), **NUMPYS.get(name, {})).numpy()))
    for i, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:])):
        if begin < end:
            got, want = y[begin:end] if len(y) == 90 else y[i], function(x[begin:end], axis=0)
            assert np.allclose(got, want, rtol=1e-6) if name in ROUNDED else np.array_equal(bits(got), bits(want)), (name, i)


@pytest.mark.parametrize("kind", ["ones", "empties", "tiny", "huge"])
@pytest.mark.parametrize("shape, axis", [((900,), 0), ((2, 300), 1), ((200, 3), 0), ((150, 24), 0)])
def test_what_is_made_of_them(kind, shape, axis):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape).astype(np.float32)
    a = rng.random(shape).astype(np.float32)
    offsets = partition(rng, shape[axis], kind)
    made = {
        "softmax": (lambda x, a, **o: scanfold.softmax(x, axis, **o), True),
        "log_softmax": (lambda x, a, **o: scanfold.log_softmax(x, axis, **o), True),
        "mean": (lambda x, a, **o: scanfold.mean(x, axis, **o), False),
        "linear_recurrence": (lambda x, a, **o: scanfold.linear_recurrence(a, x, axis, initial=0.5, **o), True),
        "layer_norm": (lambda x, a, **o: scanfold.run(f"layer_norm(x, {axis}{', offsets=offsets' if o else ''})", x=x, exact=True, **o), True),
        "fused": (lambda x, a, **o: scanfold.run(f"exp(cumsum(x * a, {axis}{', offsets=offsets' if o else ''}) * 0.1)", x=x, a=a, exact=True, **o), True),
    }
    for name, (function, scans) in made.items():
        y = function(x, a, offsets=offsets)
        for i, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:])):
            if begin < end:
                want = function(np.take(x, range(begin, end), axis), np.take(a, range(begin, end), axis))
                got = np.take(y, range(begin, end), axis) if scans else np.take(y, i, axis)
                assert np.array_equal(bits(got), bits(want)), (name, kind, i)


@pytest.mark.parametrize("text", ["softmax(x, {}, offsets=o)", "layer_norm(x, {}, offsets=o)", "sum(exp(x), {}, offsets=o), log_softmax(x, {}, offsets=o, mask=x > 0)"])
@pytest.mark.parametrize("shape, axis", [((150000,), 0), ((3, 40000), 1), ((3000, 24), 0)])
def test_stages_go_over_a_span_together(text, shape, axis):
    """Stages over the same segments, in many spans, with segments that are longer than one and a rest: as the reference has it, stage by stage."""
    rng = np.random.default_rng(11)
    x, n = rng.standard_normal(shape).astype(np.float32), shape[axis]
    offsets = np.sort(np.concatenate([[0, n // 3, n // 3 + 1, n - n // 2, n - 5], rng.integers(n - n // 2, n - 5, n // 30)]))
    text = text.replace("{}", str(axis))
    with scanfold.using(backend="ref"):
        expected = scanfold.run(text, x=x, o=offsets, exact=True)
    for threads in (1, 3):
        with scanfold.using(threads=threads):
            results = scanfold.run(text, x=x, o=offsets, exact=True)
        for got, want in zip(*[r if isinstance(r, tuple) else (r,) for r in (results, expected)]):
            np.testing.assert_array_equal(got, want)  # all NaN are equal; there are some after the last offset


def test_bad_expressions():
    x, offsets = np.ones(4), np.array([0, 4])
    for text, sentence in [("sum(x, 0, offsets=o + 1)", "they must be an input"), ("sum(x, 0, offsets=x)", "they must be i32 or i64")]:
        with pytest.raises(ValueError, match=sentence):
            scanfold.run(text, x=x, o=offsets) if "o +" in text else scanfold.run(text, x=x)
    with pytest.raises(ValueError, match="offsets end with 4, but the axis has 3 elements"):
        scanfold.run("softmax(x, 0, offsets=o)", x=x[:3], o=offsets)


def _cumsums(x, offsets):
    return np.concatenate([np.cumsum(x[a:b], 0) for a, b in zip(offsets, offsets[1:])])


def _sums(x, offsets):
    return np.stack([x[a:b].sum(0) for a, b in zip(offsets, offsets[1:])])


# What surrounds a segmented node is rewritten, lowered and fused as usual; the node itself is not.
AROUND = {
    "matmul(cumsum(x, 0, offsets=o), w)": lambda x, w, o: _cumsums(x, o) @ w,
    "sum(matmul(cumsum(x, 0, offsets=o), w), 0, keepdim=True)": lambda x, w, o: (_cumsums(x, o) @ w).sum(0, keepdims=True),
    "matmul(sum(x, 0, offsets=o), w)": lambda x, w, o: _sums(x, o) @ w,
    "flip(cumsum(flip(x, 0), 0, offsets=o), 0)": lambda x, w, o: _cumsums(x[::-1], o)[::-1],
    "cumsum(x, 0, offsets=o).flip(0) * 2": lambda x, w, o: _cumsums(x, o)[::-1] * 2,
    "sum(cumsum(x, 0, offsets=o) * 2, 1)": lambda x, w, o: (_cumsums(x, o) * 2).sum(1),
    "sum(sum(x, 0, offsets=o), 0)": lambda x, w, o: _sums(x, o).sum(0),
    "sum(sum(x, 0, offsets=o), 1)": lambda x, w, o: _sums(x, o).sum(1),
    "max(cumsum(x, 0, offsets=o), 0)": lambda x, w, o: _cumsums(x, o).max(0),
    "cumsum(x, 0, offsets=o) - x": lambda x, w, o: _cumsums(x, o) - x,
    "cumsum(cumsum(x, 0, offsets=o), 0)": lambda x, w, o: _cumsums(x, o).cumsum(0),
    "cumsum(x.T, 1, offsets=o)": lambda x, w, o: _cumsums(x, o).T,
}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("text", AROUND)
def test_around_segments(text, exact):
    x, w, o = np.arange(60.0).reshape(12, 5) - 20, np.arange(15.0).reshape(5, 3) - 5, np.array([0, 4, 4, 9, 12])
    given = {"x": x, "o": o, **({"w": w} if "w)" in text else {})}
    np.testing.assert_array_equal(scanfold.run(text, exact=exact, **given), AROUND[text](x, w, o))


def test_offsets_of_two_axes_are_checked_for_each():
    x, short, o = np.ones(100), np.ones(10), np.array([0, 50, 100])
    for text in ("sum(x, 0, offsets=o), sum(z, 0, offsets=o)", "cumsum(z, 0, offsets=o), cumsum(x, 0, offsets=o)"):
        with pytest.raises(ValueError, match="offsets end with 100, but the axis has 10 elements"):
            scanfold.run(text, x=x, z=short, o=o)
    assert [r.tolist() for r in scanfold.run("sum(x, 0, offsets=o), sum(z, 0, offsets=o)", x=x, z=short, o=o // 10)] == [[5, 5], [5, 5]]


def test_example():
    """examples/segments: the rows of a sparse matrix; it checks itself."""
    pytest.importorskip("scipy", reason="scipy is not installed")
    runpy.run_path(os.path.join(os.path.dirname(__file__), "..", "..", "examples", "segments", "csr_rows.py"), run_name="__main__")
