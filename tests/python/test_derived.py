"""mean, var, norm, any and similar functions, and skip_nan: compared with NumPy's and torch's
own functions."""
import importlib.util
import itertools
import math
import warnings

import numpy as np
import pytest
from oracle import INTEGERS, REALS, Here

import scanfold

AXES = [None, 0, 1, -1, (0, 2), (2, 1), ()]
FOLDS = ["mean", "var", "std", "any", "all", "count_nonzero"]
EXACT = {"any", "all", "count_nonzero"}
BY_NAN = ["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"]
host = pytest.mark.host_only("NumPy's names, dtypes and warnings; the values on a device are test_devices'")


def some(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.7
    if dtype in INTEGERS:
        return rng.integers(0, 50, shape).astype(dtype)
    return (rng.standard_normal(shape) + 3).astype(dtype)


def with_nan(shape, dtype, seed=0):
    x = some(shape, dtype, seed)
    x[np.random.default_rng(seed + 1).random(shape) < 0.3] = np.nan
    return x


def close(a, b, dtype):
    tolerance = {"float16": 4e-3, "float32": 2e-5}.get(str(dtype), 1e-11)
    np.testing.assert_allclose(np.asarray(a, "f8"), np.asarray(b, "f8"), rtol=tolerance, atol=tolerance * 1e-2)


# ---------------------------------------------------------------------------------------------------------------
# NumPy
# ---------------------------------------------------------------------------------------------------------------
@host
@pytest.mark.parametrize("dtype", REALS + INTEGERS + ["bool"])
@pytest.mark.parametrize("name", FOLDS)
def test_numpy(name, dtype):
    x = some((4, 5, 6), dtype)
    for axis, keepdims in itertools.product(AXES, (False, True)):
        mine = getattr(scanfold, name)(x, axis, keepdims=keepdims)
        right = getattr(np, name)(x, axis=axis, keepdims=keepdims)
        right = np.asarray(right)  # count_nonzero of all is a Python number
        assert mine.shape == right.shape and mine.dtype == right.dtype, (axis, mine.dtype, right.dtype)
        if name in EXACT:
            np.testing.assert_array_equal(mine, right)
        else:
            close(mine, right, dtype)
        strided = getattr(scanfold, name)(x[::-1, :, ::2], axis, keepdims=keepdims)
        if name in EXACT:
            np.testing.assert_array_equal(strided, getattr(np, name)(x[::-1, :, ::2], axis=axis, keepdims=keepdims))
        else:
            close(strided, getattr(np, name)(x[::-1, :, ::2], axis=axis, keepdims=keepdims), dtype)


@host
@pytest.mark.parametrize("ddof", [0, 1, 1.5, 4])
def test_ddof(ddof):
    x = some((5, 7), "float32")
    close(scanfold.var(x, 1, ddof=ddof), np.var(x, 1, ddof=ddof), "float32")
    close(scanfold.std(x, correction=ddof), np.std(x, ddof=ddof), "float32")
    with pytest.raises(TypeError, match="correction and ddof"):
        scanfold.var(x, ddof=1, correction=1)


@host
def test_a_large_mean_loses_nothing():
    x = (np.random.default_rng(3).standard_normal(100_000) + 1e6).astype("f4")
    right = np.var(x.astype("f8"))
    assert abs(float(scanfold.var(x)) - right) < 1e-7 * right
    assert abs(float(scanfold.var(x, mask=np.ones(1, bool))) - right) < 1e-7 * right
    assert float(scanfold.var(np.full(1000, 0.1, "f4"))) == 0


@host
@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("ord", [2, 1, 0, 3, 4, 0.5, 2.5, 1.3, -1, -2.5, np.inf, -np.inf, None])
def test_norm(ord, dtype):
    x = some((4, 9), dtype)
    for axis in (0, 1):
        right = np.linalg.norm(x.astype("f8"), ord, axis)
        close(scanfold.norm(x, ord, axis), right.astype(dtype), dtype)
    assert scanfold.norm(x, ord, 1, keepdims=True).shape == (4, 1)
    assert scanfold.norm(x).dtype == dtype


@host
def test_squares_of_integers_are_widened():
    x = np.array([100, -100, 127], "i1")
    assert scanfold.sumsq(x) == 36129 and scanfold.sumsq(x).dtype == "i8"
    assert scanfold.sumsq(x.view("u1")).dtype == "u8"
    assert scanfold.norm(np.array([3, 4])) == 5 and scanfold.norm(np.array([3, 4])).dtype == "f8"


@host
@pytest.mark.parametrize("name", ["nanmax", "nanmin"])
@pytest.mark.parametrize("dtype", INTEGERS + ["bool"])
def test_extremes_of_integers_skip_nothing_and_stay_integers(name, dtype):
    x = np.array([[0, 1, 1], [1, 0, 0]], dtype)
    if x.dtype.itemsize == 8:
        x += 2**53  # float64 has not all of these
    mine, right = getattr(scanfold, name)(x, 1), getattr(np, name)(x, 1)
    assert mine.dtype == right.dtype and (mine == right).all()
    mask = np.array([[False, True, True], [True, True, False]])
    assert (getattr(scanfold, name)(x, 1, mask=mask) == getattr(scanfold, name[3:])(x, 1, mask=mask)).all()
    torch = pytest.importorskip("torch")
    t = torch.from_numpy(x) if dtype in ("bool", "i1", "i2", "i4", "i8", "u1", "int8", "int16", "int32", "int64", "uint8") else None
    if t is not None:
        y = getattr(scanfold, name)(t, 1, mask=torch.from_numpy(mask))
        assert y.dtype == t.dtype and (y.numpy() == getattr(scanfold, name[3:])(x, 1, mask=mask)).all()


@host
@pytest.mark.parametrize("name", ["mean", "var", "std", "nanmean", "nanvar", "nanmax"])
def test_of_nothing(name):
    empty = np.zeros((3, 0), "f4")
    mine, right = getattr(scanfold, name), getattr(np, name)
    if name == "nanmax":
        with pytest.raises(ValueError, match="no elements"):
            mine(empty, 1)
        return
    with pytest.warns(RuntimeWarning) as seen:
        y = mine(empty, 1)
    with pytest.warns(RuntimeWarning) as theirs:
        right(empty, axis=1)
    assert np.isnan(y).all() and y.shape == (3,) and y.dtype == "f4"
    first = str(theirs[0].message)
    assert [str(w.message).rstrip(".") for w in seen] == [first.rstrip(".")] and seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mine(empty.T, 1).shape == (0,)


@host
@pytest.mark.parametrize("skip_nan", [False, True])
@pytest.mark.parametrize("ddof", [0, 1, 2.5, 4, 5, 100])
@pytest.mark.parametrize("name", ["mean", "var", "std", "var_mean", "std_mean"])
def test_lines_of_few(name, ddof, skip_nan):
    """Values and warnings where a mask, or NaN, leaves no more elements than the correction."""
    x = np.arange(20.0).reshape(5, 4)
    mask = np.arange(4) < np.array([0, 1, 2, 3, 4])[:, None]
    if skip_nan:
        x, mask = np.where(mask, x, np.nan), None
    options = {} if name == "mean" else {"ddof": ddof}
    right = getattr(np, name.partition("_")[0])
    for rows in (slice(None), slice(4, 5), slice(2, 5), slice(0, 0)):
        given, where = x[rows], None if mask is None else mask[rows]
        with warnings.catch_warnings(record=True) as theirs, np.errstate(all="ignore"):
            warnings.simplefilter("always")
            if skip_nan:
                expected = getattr(np, "nan" + name.partition("_")[0])(given, axis=1, **options)
            else:
                expected = right(given, axis=1, where=where, **options)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            y = getattr(scanfold, name)(given, 1, mask=where, skip_nan=skip_nan, **options)
        np.testing.assert_allclose(y[0] if isinstance(y, tuple) else y, expected, rtol=1e-12)
        assert [str(w.message) for w in seen] == [str(w.message) for w in theirs] and all(w.filename == __file__ for w in seen)


@host
def test_infinite_results_alone_are_no_few_elements():
    x = np.array([[1, np.inf, np.nan], [2, 3, np.nan]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(scanfold.nanvar(x, 1)[0]) and np.isinf(scanfold.nanmean(x, 1)[0]) and np.isnan(scanfold.mean(x, 1, mask=x == x)[0]) == 0


@host
@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd"])
def test_integers_have_no_nan(name):
    for x in (np.arange(6).reshape(2, 3), np.zeros((2, 0), int)):
        with warnings.catch_warnings(record=True) as seen, np.errstate(all="ignore"):
            warnings.simplefilter("always")
            y, right = getattr(scanfold, name)(x, 1), getattr(np, name)(x, axis=1)
        messages = {str(w.message) for w in seen if "encountered" not in str(w.message)}
        np.testing.assert_allclose(y, right)
        assert len(messages) == (x.size == 0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_few_elements_everywhere(torch, device, name, masked):
    """The same values from torch's dispatcher, with gradients, under vmap, in segments and in JAX."""
    x = torch.tensor([[1.0, 2, 4, 7], [1, 2, 4, 4], [5, 4, 4, 4], [9, 9, 1, 1]], dtype=torch.float64)
    keep = torch.tensor([4, 3, 1, 0])[:, None] > torch.arange(4)
    mask = keep if masked else None
    if not masked and name.startswith("nan"):
        x = torch.where(keep, x, math.nan)
    for correction in (1, 3, 9):
        options = {"correction": correction, "mask": None if mask is None else mask.to(device)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            right = getattr(scanfold, name)(x.numpy(), 1, correction=correction, mask=None if mask is None else mask.numpy())
            here = x.to(device)
            recorded = getattr(scanfold, name)(here.clone().requires_grad_(), 1, **options).detach()
            assert np.array_equal(recorded.cpu().numpy(), right, equal_nan=True)
            assert np.array_equal(getattr(scanfold, name)(here, 1, **options).cpu().numpy(), right, equal_nan=True)
            if hasattr(torch, "func"):
                row = torch.func.vmap(lambda v, m: getattr(scanfold, name)(v, 0, correction=correction, mask=m if masked else None))
                assert np.array_equal(row(here, keep.to(device)).cpu().numpy(), right, equal_nan=True)
            offsets = torch.arange(0, 17, 4, device=device)
            flat = {**options, "offsets": offsets, "mask": None if mask is None else options["mask"].reshape(-1)}
            ragged = getattr(scanfold, name)(here.reshape(-1).requires_grad_(), 0, **flat).detach()
            np.testing.assert_allclose(ragged.cpu().numpy(), right)
        if masked or name.startswith("nan"):
            pytest.importorskip("jax", reason="JAX is not installed")
            import scanfold.jax as sfj
            y = getattr(sfj, name.removeprefix("nan"))(x.numpy().astype("f4"), 1, correction=correction, mask=None if mask is None else mask.numpy(),
                                                      skip_nan=name.startswith("nan"))
            np.testing.assert_allclose(np.asarray(y), right, rtol=1e-5)


@host
def test_any_and_all_of_nothing():
    assert not scanfold.any(np.zeros(0)) and scanfold.all(np.zeros(0))
    assert scanfold.sumsq(np.zeros(0)) == 0 and scanfold.norm(np.zeros(0)) == 0
    with pytest.raises(ValueError, match="norm of order inf of no elements"):
        scanfold.norm(np.zeros(0), np.inf)


@host
def test_more_is_corrected_than_there_is():
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        y = scanfold.var(np.array([1.0, 2.0]), ddof=3)
    assert np.isposinf(y)
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        assert np.isnan(scanfold.std(np.array([1.0]), ddof=1))


@host
@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("name", BY_NAN)
def test_nan(name, dtype):
    x = with_nan((4, 5, 6), dtype)
    for axis in AXES[:-1]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            right = getattr(np, name)(x.astype("f8") if name in ("nanmean", "nanvar", "nanstd") else x, axis=axis)
            mine = getattr(scanfold, name)(x, axis)
        assert mine.dtype == dtype
        close(mine, np.asarray(right).astype(dtype), dtype)


@host
@pytest.mark.parametrize("name", BY_NAN[2:])
def test_lines_of_nan(name):
    x = np.array([[1, np.nan, 3], [np.nan] * 3], "f4")
    with pytest.warns(RuntimeWarning) as seen:
        y = getattr(scanfold, name)(x, 1)
    with pytest.warns(RuntimeWarning) as theirs:
        right = getattr(np, name)(x, axis=1)
    np.testing.assert_allclose(y, right, rtol=1e-6)
    assert [str(w.message) for w in seen] == [str(theirs[0].message)]


@host
def test_nan_scans():
    x = with_nan((4, 30), "float64")
    np.testing.assert_allclose(scanfold.nancumsum(x, 1), np.nancumsum(x, 1), rtol=1e-12)
    np.testing.assert_allclose(scanfold.nancumprod(x, 1, reverse=True), np.nancumprod(x[:, ::-1], 1)[:, ::-1], rtol=1e-12)
    kept = ~np.isnan(x)
    np.testing.assert_array_equal(scanfold.cummax(x, 1, skip_nan=True), scanfold.cummax(x, 1, mask=kept))
    np.testing.assert_array_equal(scanfold.sum(x, skip_nan=True, mask=x > 3), scanfold.sum(x, mask=kept & (x > 3)))
    np.testing.assert_array_equal(scanfold.sum(np.arange(4), skip_nan=True), 6)


@host
def test_masks():
    x, mask = with_nan((6, 40), "float32"), np.random.default_rng(2).random((6, 40)) < 0.6
    mask[3] = False
    kept = mask & ~np.isnan(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("mean", "var", "std"):
            right = getattr(np, name)(x.astype("f8"), 1, where=kept)
            close(getattr(scanfold, name)(x, 1, mask=mask, skip_nan=True), right, "float32")
            close(getattr(scanfold, name)(np.nan_to_num(x), 1, mask=mask[0]), getattr(np, name)(np.nan_to_num(x).astype("f8"), 1, where=mask[:1]), "float32")
    np.testing.assert_array_equal(scanfold.any(x, 0, mask=mask), np.any(x, 0, where=mask))
    np.testing.assert_array_equal(scanfold.all(x == x, 0, mask=mask), np.all(x == x, 0, where=mask))
    np.testing.assert_array_equal(scanfold.norm(x, np.inf, 1, mask=kept), np.max(np.where(kept, np.abs(x), 0), 1))


@host
def test_scans():
    x = some((5, 200), "float32")
    counts = np.arange(1, 201)
    np.testing.assert_allclose(scanfold.cummean(x, 1), np.cumsum(x.astype("f8"), 1) / counts, rtol=1e-6)
    right = [np.var(x[:, :i + 1].astype("f8"), 1, ddof=1) for i in range(1, 200)]
    np.testing.assert_allclose(scanfold.cumvar(x, 1, ddof=1)[:, 1:], np.stack(right, 1), rtol=1e-6)
    assert np.isnan(scanfold.cumvar(x, 1, ddof=1)[:, 0]).all()
    np.testing.assert_array_equal(scanfold.cumvar(x, 1)[:, -1], scanfold.var(x, 1))
    np.testing.assert_array_equal(scanfold.cummean(x, 1)[:, -1], scanfold.mean(x, 1))
    with pytest.raises(ValueError, match="axis is needed"):
        scanfold.cummean(x)


@host
def test_infinities_in_var_mean():
    """As docs/expressions.md has it."""
    inf = np.inf
    for name in ("var_mean", "std_mean"):
        v, mean = getattr(scanfold, name)(np.array([[inf, 1, 2], [1, inf, 2], [1, -inf, 2], [1, 2, 3]]), 1)
        assert np.isnan(v[:3]).all() and np.isnan(mean[0]) and mean[1:].tolist() == [inf, -inf, 2]
        assert scanfold.var_mean(np.array([inf, 1, 2]), mask=np.ones(3, bool))[1] == inf == scanfold.mean(np.array([inf, 1, 2]))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("reverse, exclusive", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("how", ["all", "mask", "skip_nan", "both"])
def test_scans_of_some(torch, device, dtype, reverse, exclusive, how):
    """Each result beside NumPy's of the elements before it; torch's dispatcher, vmap and segments give the same bits."""
    x = (with_nan if how in ("skip_nan", "both") else some)((3, 60), "float32", 3).astype(dtype)
    mask = np.random.default_rng(5).random((3, 60)) < 0.6 if how in ("mask", "both") else None
    if mask is not None:
        mask[:, :4], mask[:, -3:] = False, False
        x[1, ~mask[1]] = np.nan
    options = {"skip_nan": how in ("skip_nan", "both"), "reverse": reverse, "exclusive": exclusive}
    kept = ~np.isnan(x) if mask is None else mask & ~np.isnan(x)
    for name in ("cummean", "cumvar"):
        function, more = getattr(scanfold, name), {"correction": 1} if name == "cumvar" else {}
        y = function(x, 1, mask=mask, **options, **more)
        right = np.full(x.shape, np.nan)
        for r, i in np.ndindex(x.shape):
            begin, end = (i + exclusive, 60) if reverse else (0, i + 1 - exclusive)
            values = x[r, begin:end][kept[r, begin:end]].astype("f8")
            if len(values) > (name == "cumvar"):
                right[r, i] = np.mean(values) if name == "cummean" else np.var(values, ddof=1)
        close(y, right, dtype)
        here, m = torch.from_numpy(x).to(device), None if mask is None else torch.from_numpy(mask).to(device)
        expected = torch.from_numpy(y).nan_to_num(7)

        def same(z):
            assert torch.equal(z.detach().cpu().nan_to_num(7), expected)
        same(function(here, 1, mask=m, **options, **more))
        recorded = here.clone().requires_grad_()
        z = function(recorded, 1, mask=m, **options, **more)
        same(z)
        z[~z.isnan()].sum().backward()
        assert not recorded.grad.isnan().any()
        if hasattr(torch, "func"):
            if m is None:
                same(torch.func.vmap(lambda v: function(v, 0, **options, **more))(here))
            else:
                same(torch.func.vmap(lambda v, k: function(v, 0, mask=k, **options, **more))(here, m))
        offsets = np.array([0, 60, 120, 180])
        flat = function(x.reshape(-1), 0, mask=None if mask is None else mask.reshape(-1), offsets=offsets, **options, **more).reshape(3, 60)
        np.testing.assert_array_equal(flat, y)
        if dtype == "float32" and importlib.util.find_spec("jax"):
            import scanfold.jax as sfj
            import jax
            given = (x,) if mask is None else (x, mask)
            made = jax.jit(lambda v, k=None: getattr(sfj, name)(v, axis=1, mask=k, **options, **more))(*given)
            np.testing.assert_array_equal(np.asarray(made), y)


def test_gradients_of_masked_scans(torch, device):
    x = torch.randn(3, 7, dtype=torch.float64, device=device).requires_grad_()
    mask = torch.tensor([0, 1, 1, 0, 1, 1, 1], dtype=torch.bool, device=device)
    for options in ({}, {"reverse": True}, {"exclusive": True}):
        begin, end = (0, 5) if options == {"reverse": True} else (3, 7)
        for f in (lambda v: scanfold.cumvar(v, 1, mask=mask, correction=0, **options)[:, begin:end],
                  lambda v: scanfold.cummean(v, 1, mask=mask, **options)[:, begin:end]):
            assert torch.autograd.gradcheck(f, x) and torch.autograd.gradgradcheck(f, x)
    holes = torch.where(mask, x.detach(), math.nan).requires_grad_()
    y = scanfold.cumvar(holes, 1, skip_nan=True)
    y[:, -1].sum().backward()
    whole = x.detach()[:, mask].requires_grad_()
    torch.var(whole, 1).sum().backward()
    torch.testing.assert_close(holes.grad[:, mask], whole.grad)
    assert not holes.grad[:, ~mask].any()


@host
def test_specials():
    x = np.array([[1, np.inf, 2], [np.nan, 0, 0], [-0.0, 0.0, -0.0], [-np.inf, 1, np.inf]], "f4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in FOLDS:
            np.testing.assert_array_equal(getattr(scanfold, name)(x, 1), getattr(np, name)(x, axis=1))
        for ord in (1, 2, np.inf, -np.inf, 0):
            np.testing.assert_array_equal(scanfold.norm(x, ord, 1), np.linalg.norm(x, ord, 1))


@host
def test_any_numbers():
    hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed")
    from hypothesis import strategies as st
    numbers = st.one_of(st.floats(width=32), st.floats(-4, 4, width=32), st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 1.0]))

    @hypothesis.given(st.lists(numbers, min_size=1, max_size=40), st.lists(st.booleans(), min_size=40, max_size=40), st.integers(0, 1), st.booleans())
    def check(values, mask, ddof, skip_nan):
        x, m = np.array(values, "f4"), np.array(mask[:len(values)])
        kept = x[m & ~np.isnan(x)] if skip_nan else x[m]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wide = kept.astype("f8")
            for name, right in (("var", np.var(wide, ddof=ddof)), ("std", np.std(wide, ddof=ddof))):
                y = getattr(scanfold, name)(x, mask=m, skip_nan=skip_nan, ddof=ddof)
                np.testing.assert_allclose(y, np.float32(right), rtol=1e-6, atol=1e-44)
            if len(kept) == len(x):  # in one read, from the first element on
                np.testing.assert_allclose(scanfold.var(x, ddof=ddof), np.float32(np.var(wide, ddof=ddof)), rtol=1e-6, atol=1e-44)
            assert scanfold.count_nonzero(x, mask=m, skip_nan=skip_nan) == np.count_nonzero(kept)
            assert scanfold.any(x, mask=m, skip_nan=skip_nan) == np.any(kept) and scanfold.all(x, mask=m, skip_nan=skip_nan) == np.all(kept)
            np.testing.assert_array_equal(scanfold.norm(x, np.inf, mask=m, skip_nan=skip_nan), np.max(np.abs(kept), initial=0))
            with scanfold.using(backend="ref"):
                right = scanfold.mean(x, mask=m, skip_nan=skip_nan), scanfold.norm(x, 3, skip_nan=skip_nan)
            np.testing.assert_array_equal((scanfold.mean(x, mask=m, skip_nan=skip_nan), scanfold.norm(x, 3, skip_nan=skip_nan)), right)
    check()


@host
def test_out_and_dtype():
    x = some((4, 5), "float32")
    out = np.empty(4, "f8")
    assert scanfold.mean(x, 1, dtype="float64", out=out) is out
    np.testing.assert_allclose(out, x.astype("f8").mean(1), rtol=1e-15)
    assert scanfold.var(x, dtype=np.float64).dtype == "f8" and scanfold.mean(np.arange(3), dtype="f4").dtype == "f4"
    with pytest.raises(TypeError, match="any has no dtype|unexpected keyword"):
        scanfold.any(x, dtype="f4")


@host
def test_refusals():
    x = some((4, 5), "float32")
    for call, error, says in ((lambda: scanfold.mean(x, 2), ValueError, "axis is 2; for an x of 2 dimensions"),
                              (lambda: scanfold.var(x, (0, 0)), ValueError, "named twice"),
                              (lambda: scanfold.mean([1, 2]), TypeError, "x is <class 'list'>"),
                              (lambda: scanfold.mean(x, mask=x), TypeError, "must be bool or u8"),
                              (lambda: scanfold.mean(x, mask=np.ones(3, bool)), ValueError, "does not broadcast"),
                              (lambda: scanfold.mean(x, 0, dim=1), TypeError, "two names of one argument"),
                              (lambda: scanfold.norm(x, np.nan), ValueError, "order is NaN"),
                              (lambda: scanfold.mean(x, dtype="i4"), TypeError, "^mean into int32 is not supported; its result can be float16, bfloat16, float32 or float64$"),
                              (lambda: scanfold.cummean(x, 1, dtype="bool"), TypeError, "^cummean into bool is not supported"),
                              (lambda: scanfold.softmax(x, 1, dtype="u1"), TypeError, "^softmax into uint8 is not supported")):
        with pytest.raises(error, match=says):
            call()


@host
def test_a_call_is_found_again():
    x = some((4, 5), "float32")
    scanfold.var(x, 1)
    before = len(scanfold._chosen.stack[-1]._derived), len(scanfold._chosen.stack[-1]._expressions)
    for _ in range(3):
        scanfold.var(x, 1)
    assert (len(scanfold._chosen.stack[-1]._derived), len(scanfold._chosen.stack[-1]._expressions)) == before
    with scanfold.using(backend="ref"):
        np.testing.assert_array_equal(scanfold.var(x, 1), scanfold.var(x, 1))
        assert len(scanfold._chosen.stack[-1]._derived) == 1


@host
def test_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    x = jax.numpy.asarray(some((4, 5), "float32"))
    y = scanfold.var(x, 1)
    assert isinstance(y, jax.Array) and y.dtype == "float32"
    np.testing.assert_allclose(y, jax.numpy.var(x, 1), rtol=1e-5)
    assert scanfold.mean(jax.numpy.arange(4)).dtype == jax.numpy.mean(jax.numpy.arange(4)).dtype


def test_devices(device):
    here = Here(device)
    x = with_nan((40, 300), "float32")
    for name in BY_NAN[:2] + BY_NAN[4:] + ["mean", "var", "any", "all", "sumsq"]:
        given = x if name.startswith("nan") else np.nan_to_num(x)
        for axis in (0, 1, None):
            with scanfold.using(backend="ref"):
                right = getattr(scanfold, name)(given, axis)
            np.testing.assert_array_equal(here.host(getattr(scanfold, name)(here.array(given), axis)), right)


# ---------------------------------------------------------------------------------------------------------------
# torch
# ---------------------------------------------------------------------------------------------------------------
def torch_pairs(torch):
    norm = torch.linalg.vector_norm
    return {"mean": torch.mean, "var": torch.var, "std": torch.std, "any": torch.any, "all": torch.all, "nansum": torch.nansum,
            "nanmean": torch.nanmean, "count_nonzero": torch.count_nonzero, "norm": lambda x, dim: norm(x, 2, dim)}


def mine(name, x, dim, **options):
    return scanfold.norm(x, 2, dim, **options) if name == "norm" else getattr(scanfold, name)(x, dim=dim, **options)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint8", "bool"])
def test_torch(torch, device, dtype):
    kind = getattr(torch, dtype)
    x = torch.tensor(some((4, 5, 6), "float32" if "float" in dtype else dtype), device=device).to(kind)
    for name, theirs in torch_pairs(torch).items():
        for dim in (0, 1, (0, 2), -1):
            if not kind.is_floating_point and name not in ("any", "all", "nansum", "count_nonzero"):
                with pytest.raises(TypeError, match="dtype=torch.float32"):
                    mine(name, x, dim)
                continue
            right, y = theirs(x, dim=dim), mine(name, x, dim)
            assert y.dtype is right.dtype and y.shape == right.shape and y.device == right.device
            tolerance = {"float16": 2e-3, "bfloat16": 2e-2}.get(dtype, 1e-5)
            torch.testing.assert_close(y, right, rtol=tolerance, atol=tolerance)


def test_torch_pairs(torch, device):
    x = torch.randn(6, 7, device=device) + 5
    for name in ("var_mean", "std_mean"):
        for one, other in zip(getattr(scanfold, name)(x, 1, correction=0), getattr(torch, name)(x, 1, correction=0)):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert isinstance(scanfold.var_mean(x), tuple)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert scanfold.var(x[:1, :1]).isnan()


GRADIENTS = {
    "mean": lambda sf, x, m: sf.mean(x, (0, 1)), "masked mean": lambda sf, x, m: sf.mean(x, 1, mask=m),
    "var": lambda sf, x, m: sf.var(x, 1), "masked var": lambda sf, x, m: sf.var(x, 1, mask=m, correction=0, keepdim=True),
    "std": lambda sf, x, m: sf.std(x, 0), "var_mean": lambda sf, x, m: sf.var_mean(x, 1), "std_mean": lambda sf, x, m: sf.std_mean(x),
    "sumsq": lambda sf, x, m: sf.sumsq(x, 1, mask=m), "norm 2": lambda sf, x, m: sf.norm(x, 2, 1), "norm 1": lambda sf, x, m: sf.norm(x, 1, 1),
    "norm 3": lambda sf, x, m: sf.norm(x, 3, (0, 1)), "norm 1.5": lambda sf, x, m: sf.norm(x, 1.5, 1, mask=m),
    "norm 0.5": lambda sf, x, m: sf.norm(x, 0.5, 1), "norm inf": lambda sf, x, m: sf.norm(x, float("inf"), 1),
    "norm -inf": lambda sf, x, m: sf.norm(x, -float("inf"), 1), "cummean": lambda sf, x, m: sf.cummean(x, 1, mask=m),
    "cumvar": lambda sf, x, m: sf.cumvar(x, 0, correction=0), "nansum": lambda sf, x, m: sf.nansum(x, 1), "nanvar": lambda sf, x, m: sf.nanvar(x, 1),
    "nanmax": lambda sf, x, m: sf.nanmax(x, 1),
}


@pytest.mark.parametrize("name", list(GRADIENTS))
def test_gradients(torch, device, name):
    torch.manual_seed(0)
    x = (torch.randn(4, 5, dtype=torch.float64, device=device) * 2).requires_grad_()
    m = torch.rand(4, 5, device=device) < 0.7
    m[:, :2] = True

    def f(v):
        return GRADIENTS[name](scanfold, v, m)
    assert torch.autograd.gradcheck(f, x) and torch.autograd.gradgradcheck(f, x)
    plain = f(x.detach())  # the same bits, recorded or not
    for one, other in zip(plain if isinstance(plain, tuple) else [plain], f(x) if isinstance(plain, tuple) else [f(x)]):
        assert torch.equal(one, other.detach())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", ["cumvar", "cummean"])
def test_recorded_scans_have_the_same_bits(torch, device, name, dtype):
    """A result of float64 is rounded once to float16 or bfloat16, recorded or mapped or not."""
    torch.manual_seed(0)
    kind, function = getattr(torch, dtype), getattr(scanfold, name)
    for x in (torch.randn(300, 700, device=device).to(kind), torch.randn(300, 700, dtype=torch.float64, device=device)):
        plain = function(x, 1, dtype=kind)
        assert torch.equal(function(x.clone().requires_grad_(), 1, dtype=kind).detach().nan_to_num(7), plain.nan_to_num(7))
        if hasattr(torch, "func"):
            assert torch.equal(torch.func.vmap(lambda v: function(v, 0, dtype=kind))(x).nan_to_num(7), plain.nan_to_num(7))


@pytest.mark.parametrize("correction", [0, 1, 2])
def test_gradient_of_cumvar_is_that_of_var(torch, device, correction):
    """Of every result: those of too few elements do not spoil the others."""
    x = torch.tensor([[1.0, 2, 4, 8, 5], [3, 3, -1, 0, 2]], dtype=torch.float64, device=device)
    for i in range(correction, 5):
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        scanfold.cumvar(ours, 1, correction=correction)[:, i].sum().backward()
        torch.var(theirs[:, :i + 1], 1, correction=correction).sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
    ours = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: scanfold.cumvar(v, 1, correction=correction)[:, correction + 1:], ours)
    assert torch.autograd.gradgradcheck(lambda v: scanfold.cumvar(v, 1, correction=correction)[:, correction + 1:], ours)


def test_gradients_are_torchs(torch, device):
    x = torch.randn(6, 50, device=device) + 1e4
    for name in ("mean", "var", "std", "norm"):
        theirs, ours = x.double().requires_grad_(), x.clone().requires_grad_()
        torch_pairs(torch)[name](theirs, dim=1).sum().backward()
        mine(name, ours, 1).sum().backward()
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("ord", [np.inf, -np.inf, 2, 1, 0, 3, 1.5, 0.5])
def test_gradients_of_special_norms_are_torchs(torch, device, ord):
    nan, inf = math.nan, math.inf
    for row in ([nan, 1, -2], [1, nan, -nan], [nan] * 3, [inf, -inf, 1], [inf, nan, 1], [0.0, 0, 0], [-2.0, 2, 1], [0.0, -0.0, 1], [0.0, 3, -4]):
        ours, theirs = (torch.tensor(row, dtype=torch.float64, device=device, requires_grad=True) for _ in range(2))
        scanfold.norm(ours, ord, 0).backward()
        torch.linalg.vector_norm(theirs, ord, 0).backward()
        right = torch.zeros_like(theirs) if theirs.grad is None else theirs.grad  # of order 0 torch has none
        torch.testing.assert_close(ours.grad, right, equal_nan=True)


def test_nan_has_no_gradient(torch, device):
    x = torch.tensor([1.0, float("nan"), 3.0], device=device, requires_grad=True)
    scanfold.nanmean(x).backward()
    assert x.grad.tolist() == [0.5, 0, 0.5]
    x.grad = None
    scanfold.cumsum(x, skip_nan=True).sum().backward()
    assert x.grad.tolist() == [3, 0, 1]


@pytest.mark.parametrize("name", ["mean", "var", "std", "norm", "any", "sumsq", "nanmean"])
def test_transforms(torch, device, name):
    if not hasattr(torch, "func"):
        pytest.skip("torch.func begins with 2.0")
    x = torch.randn(3, 4, 5, device=device)
    right = mine(name, x, 2)
    assert torch.equal(torch.func.vmap(lambda v: mine(name, v, 1))(x), right)
    assert torch.equal(torch.func.vmap(lambda v: mine(name, v, 1), in_dims=1, out_dims=1)(x), right)
    mask = torch.rand(3, 4, 5, device=device) < 0.7
    both = torch.func.vmap(lambda v, m: mine(name, v, 1, mask=m))(x, mask)
    assert torch.equal(both, mine(name, x, 2, mask=mask)) or both.isnan().any()
    if name not in ("any",):
        whole = torch.func.vmap(torch.func.grad(lambda v: mine(name, v, 0)))(x[0])
        one = torch.stack([torch.func.grad(lambda v: mine(name, v, 0))(row) for row in x[0]])
        torch.testing.assert_close(whole, one)
    if name == "mean":
        assert torch.allclose(torch.func.jvp(lambda v: mine(name, v, 2), (x,), (x,))[1], right)


def test_traced(torch, device):
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 3):
        pytest.skip("for torch 2.3 and later")

    def f(x, m):
        return scanfold.var(x, 1) + scanfold.mean(x, 1, mask=m) + scanfold.norm(x, 3, 1), scanfold.any(x, 0), scanfold.nansum(x)
    x, m = torch.randn(4, 5, device=device), torch.rand(4, 5, device=device) < 0.7
    for one, other in zip(torch.compile(f, backend="eager", fullgraph=True)(x, m), f(x, m)):
        assert torch.equal(one, other)
    recorded = x.clone().requires_grad_()
    torch.compile(f, backend="aot_eager", fullgraph=True)(recorded, m)[0].sum().backward()
    again = x.clone().requires_grad_()
    f(again, m)[0].sum().backward()
    torch.testing.assert_close(recorded.grad, again.grad)
    graph = torch.fx.symbolic_trace(lambda v: scanfold.var(v, 1, correction=0))
    assert torch.equal(graph(x), scanfold.var(x, 1, correction=0))


@pytest.mark.parametrize("name", ["mean", "var", "std", "var_mean", "nanvar", "nanstd", "sumsq", "norm", "any", "all", "count_nonzero"])
def test_opcheck(torch, device, name):
    if not hasattr(torch.library, "opcheck"):
        pytest.skip("torch.library.opcheck begins with 2.4")
    import scanfold.torch  # noqa: F401
    x = torch.randn(4, 5, device=device, requires_grad=name not in ("any", "all", "count_nonzero"))
    mask = torch.rand(4, 5, device=device) < 0.7
    mask[:, :3] = True  # no variance of too few: opcheck takes NaN for a difference
    for given in (None, mask):
        torch.library.opcheck(torch.ops.scanfold.derived.default, (x, name, [1], False, 2.0, given, None))


# ---------------------------------------------------------------------------------------------------------------
# torch.compile(backend="scanfold")
# ---------------------------------------------------------------------------------------------------------------
MODELS = {
    "var": lambda t, x: (x * 2).var(1), "var of all": lambda t, x: x.var(), "var, keepdim": lambda t, x: t.var(x, (0, 1), correction=0, keepdim=True),
    "std": lambda t, x: x.std(0) + 1, "norm": lambda t, x: x.norm(dim=1), "norm 1": lambda t, x: t.linalg.vector_norm(x - 1, 1, 0, True),
    "norm inf": lambda t, x: t.linalg.vector_norm(x, float("inf")), "norm 3": lambda t, x: t.linalg.vector_norm(x, 3, (0, 1)),
    "any": lambda t, x: (x > 1).any(1), "any of all": lambda t, x: x.any(), "all": lambda t, x: x.all(0, keepdim=True),
    "count_nonzero": lambda t, x: t.count_nonzero(x > 0, 1), "count_nonzero of all": lambda t, x: x.count_nonzero(),
    "nansum": lambda t, x: t.nansum(t.log(x), 1), "nansum of all": lambda t, x: t.nansum(t.sqrt(x)), "nanmean": lambda t, x: t.nanmean(t.log(x), 1),
    "sum and norm": lambda t, x: (x.sum(1), x.norm(dim=1)),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_backend(torch, device, name, monkeypatch):
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 3):
        pytest.skip("the backend wants torch 2.3 or later")
    from scanfold import _compile
    from scanfold._translate import interpret
    torch._dynamo.reset()
    programs, original = [], _compile.fuse
    monkeypatch.setattr(_compile, "fuse", lambda *args: programs.extend(original(*args)) or programs)

    def model(x):
        return MODELS[name](torch, x)
    compiled = torch.compile(model, backend=lambda gm, given: _compile.backend(gm, given, options={"rest": "eager"}))
    x = torch.randn(6, 7, device=device)
    mine, right = compiled(x), model(x)
    torch.testing.assert_close(mine, right, rtol=1e-5, atol=1e-5)
    assert programs, "nothing was fused"
    inputs = [i for i in _compile._instructions(programs[0][0]) if i[0] == "input"]
    if len(inputs) == 1 and not isinstance(right, tuple) and len(programs) == 1:
        torch.testing.assert_close(interpret(_compile._instructions(programs[0][0]), [x])[-1], right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", ["more is corrected than there is", "uint8", "an empty axis"])
def test_what_the_backend_leaves(torch, device, how):
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 3):
        pytest.skip("the backend wants torch 2.3 or later")
    from scanfold import _compile
    torch._dynamo.reset()
    x = {"uint8": torch.ones(3, 4, dtype=torch.uint8, device=device), "an empty axis": torch.ones(3, 0, device=device)}.get(how)
    x = torch.ones(3, 4, device=device) if x is None else x

    def model(v):
        return v.any(1) if how == "uint8" else v.var(1, correction=9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = torch.compile(model, backend=lambda gm, given: _compile.backend(gm, given, options={"rest": "eager"}))(x)
        torch.testing.assert_close(y, model(x), equal_nan=True)
