"""What is right: NumPy's own functions on integers, a bound on the error of floats, the reference's bits for all."""
import math

import numpy as np
import pytest

import scanfold

OPS = {"sum": (scanfold.cumsum, scanfold.sum, np.add), "prod": (scanfold.cumprod, scanfold.prod, np.multiply),
       "max": (scanfold.cummax, scanfold.max, np.maximum), "min": (scanfold.cummin, scanfold.min, np.minimum)}
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
REALS = ["float16", "float32", "float64"]


class Here:
    """Arrays on a device: NumPy's on the CPU, CuPy's on CUDA where it is installed."""

    def __init__(self, device):
        self.space = np
        if device != "cpu":
            self.space = pytest.importorskip("cupy", reason="CuPy is not installed")

    def array(self, x):
        return self.space.asarray(x)

    def host(self, y):
        return y if self.space is np else y.get()


def identity(op, dtype):
    dtype = np.dtype(dtype)
    if op in ("sum", "prod"):
        return dtype.type(op == "prod")
    low = op == "max"
    if dtype.kind == "f":
        return dtype.type(-np.inf if low else np.inf)
    if dtype.kind == "b":
        return np.bool_(not low)
    return np.iinfo(dtype).min if low else np.iinfo(dtype).max


def scan(x, op, axis, *, reverse=False, exclusive=False, mask=None, dtype=None):
    """The scan by NumPy, element by element in the widest type."""
    dtype = np.dtype(dtype or x.dtype)
    a = x.astype(dtype)
    if mask is not None:
        a = np.where(np.broadcast_to(mask, x.shape).astype(bool), a, identity(op, dtype))
    a = np.flip(a, axis) if reverse else a
    with np.errstate(all="ignore"):
        y = OPS[op][2].accumulate(a, axis=axis, dtype=dtype)
    if exclusive:
        y = np.concatenate([np.full_like(np.take(y, [0], axis), identity(op, dtype)), np.delete(y, -1, axis)], axis)
    return np.flip(y, axis) if reverse else y


def error_bound(x, axis, dtype=np.float32):
    """How far a sum of n elements may be off: depth of the tree times unit roundoff, times the sum of magnitudes; and one last rounding."""
    n = x.shape[axis]
    unit = np.finfo(np.float32 if np.dtype(dtype).itemsize < 4 else dtype).eps / 2
    depth = math.ceil(math.log2(n)) + 1 if n > 1 else 1
    total = np.cumsum(np.abs(x).astype(np.float64), axis=axis).max(axis=axis, keepdims=True)
    return total * depth * unit * 1.01 + total * np.finfo(dtype).eps / 2 * 1.01 + np.finfo(dtype).tiny


def same_bits(a, b):
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "f":
        nan = np.isnan(a) & np.isnan(b)  # which results are NaN is promised, but not their bits
        return bool(((a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")) | nan).all())
    return bool((a == b).all())
