"""
NumPy as an independent oracle: integers against numpy.cumsum and its relatives, floats against the rule of
docs/order.md as rule.py has it. The library is the one named by SCANFOLD_LIB.
"""
import ctypes
import itertools
import os
import sys

import numpy as np
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import scanfold_ctypes as sf  # noqa: E402

from rule import rule_fold, rule_scan  # noqa: E402

LIB = sf.load(os.environ.get("SCANFOLD_LIB", os.path.join(ROOT, "build", "libscanfold.so")))
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


def tensor(a):
    return sf.numpy_view(a, CODES[a.dtype.kind])


def scalar(v):
    if v is None:
        return sf.Scalar(sf.SCALAR_NONE)
    return sf.Scalar(sf.SCALAR_REAL, sf.Number(f=v)) if isinstance(v, float) else sf.Scalar(sf.SCALAR_INT, sf.Number(i=v))


def call(function, x, out, options):
    tx, to = tensor(x), tensor(out)
    mask = options.pop("mask", None)
    o = (sf.ScanOptions if function is LIB.sf_scan else sf.FoldOptions)(**options)
    if mask is not None:
        tm = tensor(mask)
        o.mask = ctypes.pointer(tm)
    status = function(None, ctypes.byref(tx), ctypes.byref(to), ctypes.byref(o))
    assert status == 0, LIB.sf_last_error(None)
    return out


def scan(x, axis=-1, op="sum", out=None, dtype=None, reverse=False, exclusive=False, mask=None, initial=None):
    out = np.empty(x.shape, dtype or x.dtype) if out is None else out
    return call(LIB.sf_scan, x, out, dict(op=sf.OPS[op], axis=axis, reverse=reverse, exclusive=exclusive, mask=mask,
                                          initial=scalar(initial)))


def fold(x, axes=None, op="sum", dtype=None, keepdim=False, reverse=False, mask=None, initial=None):
    every = tuple(range(x.ndim)) if axes is None else tuple(a % x.ndim for a in axes)
    shape = [1 if d in every else n for d, n in enumerate(x.shape) if keepdim or d not in every]
    given = None if axes is None else (ctypes.c_int32 * max(len(axes), 1))(*axes)
    return call(LIB.sf_fold, x, np.empty(shape, dtype or x.dtype),
                dict(op=sf.OPS[op], naxes=0 if axes is None else len(axes), axes=given, keepdim=keepdim, reverse=reverse,
                     mask=mask, initial=scalar(initial)))


def same_bits(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


# ---------------------------------------------------------------------------------------------------------------
# Integers
# ---------------------------------------------------------------------------------------------------------------
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
SHAPES = [((37,), 0), ((1000,), 0), ((7, 33), 0), ((7, 33), 1), ((300, 5), 0), ((5, 6, 17), 1), ((70000,), 0),
          ((600, 700), 0), ((600, 700), 1)]
CUMULATIVE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def whole_range(shape, dtype, seed=0):
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("op", sf.OPS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_scan(dtype, op):
    for seed, (shape, axis) in enumerate(SHAPES):
        x = whole_range(shape, dtype, seed)
        right = CUMULATIVE[op].accumulate(x, axis=axis, dtype=dtype)
        np.testing.assert_array_equal(scan(x, axis, op), right)
        backwards = np.flip(CUMULATIVE[op].accumulate(np.flip(x, axis), axis=axis, dtype=dtype), axis)
        np.testing.assert_array_equal(scan(x, axis, op, reverse=True), backwards)


@pytest.mark.parametrize("op", sf.OPS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_fold(dtype, op):
    for seed, (shape, _) in enumerate(SHAPES):
        x = whole_range(shape, dtype, seed)
        for count in range(len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), count):
                right = CUMULATIVE[op].reduce(x, axis=axes, dtype=dtype, keepdims=True) if axes else x
                np.testing.assert_array_equal(fold(x, axes, op, keepdim=True), right)
        np.testing.assert_array_equal(fold(x, None, op), CUMULATIVE[op].reduce(x, axis=None, dtype=dtype))


@pytest.mark.parametrize("out", INTEGERS)
@pytest.mark.parametrize("dtype", INTEGERS + ["?"])
def test_integer_casts(dtype, out):
    x = whole_range((9, 70), "u1") > 99 if dtype == "?" else whole_range((9, 70), dtype)
    for op in ("sum", "prod"):
        right = CUMULATIVE[op].accumulate(x.astype(out), axis=1, dtype=out)
        np.testing.assert_array_equal(scan(x, 1, op, dtype=out), right)


def test_bool():
    x = np.random.default_rng(1).random((40, 50)) > 0.2
    np.testing.assert_array_equal(scan(x, 1, "sum"), np.logical_or.accumulate(x, axis=1))
    np.testing.assert_array_equal(scan(x, 0, "prod"), np.logical_and.accumulate(x, axis=0))
    np.testing.assert_array_equal(fold(x, (1,), "prod"), x.all(axis=1))
    np.testing.assert_array_equal(fold(x, (1,), dtype="i8"), x.sum(axis=1))


VIEWS = {
    "transposed": lambda a: a.T,
    "step 2": lambda a: a[::2, 1::2],
    "backwards": lambda a: a[::-1, ::-1],
    "step -3": lambda a: a[:, ::-3],
    "repeated row": lambda a: np.broadcast_to(a[3], a.shape),
    "repeated column": lambda a: np.broadcast_to(a[:, 4:5], a.shape),
    "one number": lambda a: np.broadcast_to(a[1, 1], (30, 20)),
    "a diagonal band": lambda a: np.lib.stride_tricks.sliding_window_view(a.reshape(-1), 9),
}


@pytest.mark.parametrize("name", VIEWS)
def test_strided_views(name):
    x = VIEWS[name](whole_range((60, 45), "i8"))
    for axis, reverse, exclusive in itertools.product((0, 1), (False, True), (False, True)):
        y = np.flip(x, axis) if reverse else x
        right = np.cumsum(y, axis=axis)
        if exclusive:
            right = right - y
        right = np.flip(right, axis) if reverse else right
        np.testing.assert_array_equal(scan(x, axis, reverse=reverse, exclusive=exclusive), right)
        room = np.zeros((x.shape[1] * 2, x.shape[0]), x.dtype)
        out = room[::2].T
        scan(x, axis, reverse=reverse, exclusive=exclusive, out=out)
        np.testing.assert_array_equal(out, right)
        assert not room[1::2].any()
    np.testing.assert_array_equal(fold(x, (0,)), x.sum(axis=0))
    np.testing.assert_array_equal(fold(x, (1,)), x.sum(axis=1))


def test_masks_and_initial():
    x = whole_range((60, 45), "i8")
    rng = np.random.default_rng(2)
    full = rng.random(x.shape) > 0.3
    masks = [full, full[:1], full[:, :1], full[0], np.asarray(full[0, 0]), full.T.copy().T]
    for mask in masks + [np.broadcast_to(full[2], x.shape)]:
        kept = np.where(mask, x, 0)
        np.testing.assert_array_equal(scan(x, 1, mask=mask), np.cumsum(kept, axis=1))
        np.testing.assert_array_equal(scan(x, 0, mask=mask, initial=-5), np.cumsum(kept, axis=0) - 5)
        np.testing.assert_array_equal(fold(x, (0,), mask=mask, initial=7), kept.sum(axis=0) + 7)
        lowest = np.where(mask, x, np.iinfo("i8").min)
        np.testing.assert_array_equal(scan(x, 1, "max", mask=mask), np.maximum.accumulate(lowest, axis=1))


def test_in_place():
    x = whole_range((60, 45), "i4")
    right = np.cumsum(x, axis=0, dtype="i4")
    scan(x, 0, out=x)
    np.testing.assert_array_equal(x, right)


# ---------------------------------------------------------------------------------------------------------------
# Floats
# ---------------------------------------------------------------------------------------------------------------
def mixed(n, dtype):
    i = np.arange(n, dtype=np.uint64)
    v = ((i * 2654435761 + 12345) % 2**32 >> np.uint64(8)) / 2.0**24 * 10.0 ** ((i % 7).astype(np.int64) - 3)
    return np.where(i % 5 == 3, -v, v).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 31, 64, 67, 100, 255, 1000, 4099, 100003])
def test_float_rule(n, dtype):
    x = mixed(n, dtype)
    right = rule_scan(x)
    same_bits(scan(x), right)
    same_bits(scan(x, reverse=True), rule_scan(x[::-1])[::-1])
    same_bits(fold(x), np.asarray(rule_fold(x)))
    columns = np.repeat(x[:, None], 5, axis=1)
    same_bits(scan(columns, 0), np.repeat(right[:, None], 5, axis=1))
    exclusive = scan(x, exclusive=True)
    assert exclusive[0] == 0
    same_bits(exclusive[1:], right[:-1])
    same_bits(scan(x, initial=0.1), np.asarray(0.1, dtype) + right)


def test_wide_accumulators():
    x = mixed(999, "f4")
    same_bits(scan(x, dtype="f8"), rule_scan(x.astype("f8")))
    same_bits(scan(x.astype("f2"), dtype="f4"), rule_scan(x.astype("f2").astype("f4")))
    same_bits(scan(x.astype("f2")), rule_scan(x.astype("f2").astype("f4")).astype("f2"))
    same_bits(scan(x.astype("f8"), dtype="f4"), rule_scan(x.astype("f8")).astype("f4"))


def test_several_axes_are_one_sequence():
    x = mixed(13 * 17 * 9, "f4").reshape(13, 17, 9)
    same_bits(fold(x), np.asarray(rule_fold(x.reshape(-1))))
    same_bits(fold(x.T.copy().T), np.asarray(rule_fold(x.reshape(-1))))
    right = np.array([rule_fold(x[:, j].reshape(-1)) for j in range(17)])
    same_bits(fold(x, (2, 0)), right)


def test_nan_wins():
    x = mixed(100, "f4")
    x[40] = np.nan
    for op in sf.OPS:
        y = scan(x, op=op)
        assert not np.isnan(y[:40]).any() and np.isnan(y[40:]).all()
    assert np.signbit(fold(np.array([0.0, -0.0], "f4"), op="min"))
    assert not np.signbit(fold(np.array([-0.0, 0.0], "f4"), op="max"))
