"""Arrays of other libraries: DLPack in, the caller's kind out."""
import ctypes
import sys
import types

import numpy as np
import pytest

import scanfold
from scanfold import _scanfold


class Exporter:
    """An array known by DLPack alone; versioned or not."""

    def __init__(self, x, versioned):
        self.x, self.versioned = x, versioned

    def __dlpack__(self, **keywords):
        if "max_version" in keywords and not self.versioned:
            raise TypeError("unexpected keyword max_version")
        return self.x.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def __array_namespace__(self, api_version=None):
        return np


@pytest.mark.parametrize("versioned", [False, True])
def test_any_exporter(versioned):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::-1]
    y = scanfold.cumsum(Exporter(x, versioned), 1)
    assert isinstance(y, np.ndarray) and (y == np.cumsum(x, 1)).all()
    assert scanfold.sum(Exporter(np.ones((2, 3), np.int8), versioned)).dtype == np.int64
    with pytest.raises(TypeError, match="__dlpack__"):
        class Wrong:
            def __dlpack__(self, **keywords):
                return 7
        scanfold.cumsum(Wrong())


@pytest.mark.parametrize("versioned", [False, True])
def test_pinned_memory_is_cpu_memory(versioned):
    """DLPack's CUDA host memory, as CuPy's and torch's pinned arrays are, beside memory that is
    not pinned, on either side."""
    class Pinned(Exporter):
        def __dlpack__(self, **keywords):
            capsule = super().__dlpack__(**keywords)
            name = b"dltensor_versioned" if self.versioned else b"dltensor"
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            # version, context, deleter and flags come before a versioned tensor; data before device
            at = pointer(capsule, name) + (32 if self.versioned else 0) + 8
            ctypes.c_int32.from_address(at).value = 3
            return capsule

        def __dlpack_device__(self):
            return 3, 0
    x, m = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([True, False, True])
    right = np.cumsum(x * m, 1)
    assert np.array_equal(scanfold.cumsum(Pinned(x, versioned), 1, mask=m), right)
    assert np.array_equal(scanfold.cumsum(x, 1, mask=Pinned(m, versioned)), right)
    out = np.zeros_like(x)
    scanfold.cumsum(x, 1, mask=m, out=Pinned(out, versioned))
    assert np.array_equal(out, right)
    expression = _scanfold.expression_create(
        [("input",), ("input",), ("apply", 2, 0, 1, -1), ("scan", 2, 0, 1, 0, 0, -1, 0),
         ("output", 3)], 1)
    ours = _scanfold.expression_run(expression, [x, Pinned(m, versioned)], 0)
    assert np.array_equal(ours, right)


def test_unknown_dtypes_are_named():
    class Named(Exporter):
        dtype = "complex64, as it calls it"
    for kind, words in ((Exporter, "x has dtype number 5 of DLPack's, 64 bits wide"), (Named, "x has dtype complex64, as it calls it: float16")):
        for call in (scanfold.cumsum, scanfold.sum, scanfold.max):
            with pytest.raises(TypeError, match=words):
                call(kind(np.ones(3, np.complex64), True))


def test_what_nobody_may_write_is_no_out(monkeypatch):
    """JAX, and what stands in for it where it is not installed: its arrays look writable to DLPack."""
    class Array(Exporter):
        pass
    x, stand_in = np.ones(3, np.float32), types.SimpleNamespace(Array=Array)
    scanfold.cumsum(x, out=Array(x.copy(), False))
    monkeypatch.setitem(sys.modules, "jax", stand_in)
    zeros = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="out is .*Array.*read-only"):
        scanfold.cumsum(x, out=Array(zeros, False))
    assert not zeros.any()


def test_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jnp = jax.numpy
    x = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)
    y = scanfold.cumsum(x, 1, reverse=True)
    assert isinstance(y, jax.Array) and y.dtype == jnp.float32
    assert (np.asarray(y) == np.cumsum(np.asarray(x)[:, ::-1], 1)[:, ::-1]).all()
    total = scanfold.sum(jnp.ones((3, 4), jnp.int8), axis=0)
    assert total.dtype == jnp.sum(jnp.ones((3, 4), jnp.int8), axis=0).dtype and total.tolist() == [3] * 4
    half = scanfold.cumsum(jnp.ones(300, jnp.bfloat16))
    assert half.dtype == jnp.bfloat16 and float(half[-1]) == 300
    zeros = jnp.zeros((3, 4))
    for given in (x, np.asarray(x)):
        with pytest.raises(ValueError, match="out is .*read-only"):
            scanfold.cumsum(given, 1, out=zeros)
    assert not np.asarray(zeros).any()
    with pytest.raises(TypeError, match="x has dtype complex64: float16"):
        scanfold.cumsum(jnp.ones(3, jnp.complex64))


def test_array_api_strict():
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    y = scanfold.cumsum(x, 0)
    assert type(y) is type(x) and y[1, 1] == 6.0
    assert scanfold.cumulative_sum(x, axis=1, include_initial=True).shape == (2, 3)


def test_torch_and_numpy_mix(torch):
    x = np.arange(6.0).reshape(2, 3)
    out = torch.empty(2, 3, dtype=torch.float64)
    assert scanfold.cumsum(x, 1, out=out) is out
    assert (out.numpy() == np.cumsum(x, 1)).all()
    masked = scanfold.cumsum(torch.ones(4), 0, mask=np.array([True, False, True, True]))
    assert masked.tolist() == [1, 1, 2, 3]


def test_cuda(torch):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x = torch.randn(33, 1025, device="cuda")
    for axis in (0, 1):
        assert torch.equal(scanfold.cumsum(x, axis).cpu(), scanfold.cumsum(x.cpu(), axis))
        assert torch.equal(scanfold.sum(x, axis).cpu(), scanfold.sum(x.cpu(), axis))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = scanfold.cumsum(x * 2, 1)
    stream.synchronize()
    assert torch.equal(y.cpu(), scanfold.cumsum((x * 2).cpu(), 1))
    graph, static = torch.cuda.CUDAGraph(), torch.randn(64, 64, device="cuda")
    scanfold.cumsum(static, 1)
    with torch.cuda.graph(graph):
        captured = scanfold.cumsum(static, 1)
    static.fill_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert captured[0].tolist() == list(range(1, 65))
    with pytest.raises(ValueError, match="device"):
        scanfold.cumsum(x, 1, mask=torch.ones(33, 1025, dtype=torch.bool))
    for name in ("cupy", "jax"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        theirs = module.from_dlpack(x) if name == "cupy" else module.numpy.asarray(x.cpu().numpy())
        y = scanfold.cumsum(theirs, 1)
        assert type(y) is type(theirs) or isinstance(y, type(theirs))
        host = y.get() if name == "cupy" else np.asarray(y)
        assert (host == scanfold.cumsum(x.cpu(), 1).numpy()).all()


def test_layouts_and_dtypes_that_are_refused(torch):
    x = torch.eye(3)
    layouts = [x.to_sparse(), x.to_sparse_csr()] + ([x.to_mkldnn()] if torch.backends.mkldnn.is_available() else [])
    others = [torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), x.to(torch.complex64), x.to(torch.complex64).conj()]
    others += [x.to(getattr(torch, name)) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)]
    for call in (scanfold.cumsum, scanfold.sum, scanfold.max):
        for bad in layouts:
            with pytest.raises(TypeError, match=rf"^x has layout {bad.layout}: strided tensors are taken, as x.to_dense\(\) makes one$"):
                call(bad, 0)
        for bad in others:
            with pytest.raises(TypeError, match=f"^x has dtype {bad.dtype}: float16, bfloat16, float32, float64, integers and bool are taken$"):
                call(bad, 0)
    with pytest.raises(TypeError, match="^mask has layout torch.sparse_coo"):
        scanfold.cumsum(x, 0, mask=x.to_sparse())


def test_meta_tensors_have_shapes(torch):
    y = scanfold.cumsum(torch.empty(3, 4, device="meta"), 0)
    assert y.shape == (3, 4) and y.device.type == "meta"
    assert scanfold.sum(torch.empty(3, 4, dtype=torch.int8, device="meta"), 1).dtype == torch.int64
