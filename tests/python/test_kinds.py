"""Arrays of other libraries: DLPack in, the caller's kind out."""
import ctypes
import sys
import types
import warnings

import numpy as np
import pytest

import scanfold
from scanfold import _scanfold


def tensor_in(capsule):
    """Where a DLPack capsule has its DLTensor: 8 bytes each for data, device, ndim and dtype,
    shape, strides."""
    look = ctypes.pythonapi.PyCapsule_GetPointer
    look.restype, look.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # version, context, deleter and flags come before a versioned tensor
    if "versioned" in repr(capsule):
        return look(capsule, b"dltensor_versioned") + 32
    return look(capsule, b"dltensor")


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


@pytest.mark.host_only("what it exports is NumPy's")
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


@pytest.mark.host_only("pinned memory is CPU memory")
@pytest.mark.parametrize("versioned", [False, True])
def test_pinned_memory_is_cpu_memory(versioned):
    """DLPack's CUDA host memory, as CuPy's and torch's pinned arrays are, beside memory that is
    not pinned, on either side."""
    class Pinned(Exporter):
        def __dlpack__(self, **keywords):
            capsule = super().__dlpack__(**keywords)
            ctypes.c_int32.from_address(tensor_in(capsule) + 8).value = 3
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


@pytest.mark.host_only("what it exports is NumPy's")
@pytest.mark.parametrize("versioned", [False, True])
def test_negative_strides_that_were_divided_as_unsigned_numbers(versioned):
    """As CuPy's are: its strides in bytes are divided by the size of an element, a size_t."""
    class CuPys(Exporter):
        def __dlpack__(self, **keywords):
            capsule = super().__dlpack__(**keywords)
            strides = ctypes.c_void_p.from_address(tensor_in(capsule) + 32).value
            for d, stride in enumerate(self.x.strides):
                unsigned = stride % 2**64 // self.x.itemsize
                ctypes.c_uint64.from_address(strides + 8 * d).value = unsigned
            return capsule
    for dtype in (np.int8, np.float16, np.float32, np.float64):
        x = np.arange(60).reshape(3, 4, 5).astype(dtype)[::-1, ::2, ::-3]
        m = np.array([True, False])[::-1]
        with scanfold.using(backend="ref"):
            right = scanfold.cumsum(x, 2, mask=m), scanfold.sum(x, (0, 2))
        assert np.array_equal(scanfold.cumsum(CuPys(x, versioned), 2, mask=CuPys(m, versioned)),
                              right[0])
        assert np.array_equal(scanfold.sum(CuPys(x, versioned), (0, 2)), right[1])
        out = np.zeros_like(right[0])[::-1]
        scanfold.cumsum(x, 2, mask=m, dtype=out.dtype, out=CuPys(out, versioned))
        assert np.array_equal(out, right[0])


class OnDevice(Exporter):
    """One that says of NumPy's memory that it is on CUDA's device 0."""
    told = []  # the streams that consumers named

    def __dlpack__(self, stream=None, **keywords):
        self.told.append(stream)
        capsule = super().__dlpack__(**keywords)
        ctypes.c_int32.from_address(tensor_in(capsule) + 8).value = 2
        return capsule

    def __dlpack_device__(self):
        return 2, 0


@pytest.mark.host_only("what it exports is NumPy's, and no work is done on it")
def test_every_array_on_a_device_is_waited_for(monkeypatch):
    """Work goes to x's stream; a mask and an out may have others. Their shapes are wrong, so that
    no device is asked to do any work."""
    from scanfold import _others

    class OnStream(OnDevice):
        """One that says on which stream its library works, as CuPy does."""
    told, waited, stream = OnDevice.told, [], types.SimpleNamespace(ptr=77)

    class Driver:
        def __getattr__(self, name):
            def call(*given):
                if name == "cuStreamSynchronize":
                    waited.append(given[0].value)
                return 0
            return call
    loads = types.SimpleNamespace(**{**vars(ctypes), "CDLL": lambda name: Driver()})
    monkeypatch.setattr(_others, "ctypes", loads)
    cuda = types.SimpleNamespace(get_current_stream=lambda: stream)
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(ndarray=OnStream, cuda=cuda))
    x = np.ones((2, 3), np.float32)
    wrong, m, like = np.ones(5, bool), np.ones(3, bool), np.ones(5, np.float32)
    calls = [lambda x, y: scanfold.cumsum(x, 1, mask=y(wrong, True), out=OnDevice(x.x, True)),
             lambda x, y: scanfold.sum(x, 1, mask=y(wrong, True), out=OnDevice(x.x, True)),
             lambda x, y: scanfold.cumsum(x, 1, mask=OnDevice(m, True), out=y(like, True))]
    for call in calls:
        for number in (77, 0, 1):
            stream.ptr = number
            told.clear(), waited.clear()
            with pytest.raises((ValueError, RuntimeError, NotImplementedError)):
                call(OnDevice(x, True), OnStream)
            assert sorted(told) == sorted([1, 1, number or 1])
            # 0 and 1 are the stream that x's work goes to
            assert waited == ([77] if number == 77 else [])


@pytest.mark.host_only("what it exports is NumPy's, and no work is done on it")
def test_a_mask_for_torchs_dispatcher_is_waited_for(torch, monkeypatch):
    """torch.from_dlpack handles it, torch.as_tensor does not."""
    given, m = [], torch.tensor([True, False, True])
    monkeypatch.setattr(torch, "from_dlpack", lambda mask: given.append(mask) or m)
    mask = OnDevice(m.numpy(), True)
    for call in (scanfold.cumsum, scanfold.sum):
        call(torch.ones(2, 3, requires_grad=True), 1, mask=mask).sum().backward()
    assert given == [mask, mask]


def test_cupys_streams(cuda, torch):
    """A mask that CuPy has not computed yet, on a stream of its own."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    stream, mask = cupy.cuda.Stream(non_blocking=True), cupy.zeros(1000, bool)
    x = torch.ones(4, 1000, device="cuda")
    for grad in (False, True):
        mask[:] = False
        cupy.cuda.Device().synchronize()
        with stream:
            busy = cupy.ones((4096, 4096), cupy.float32)
            for _ in range(20):
                busy = busy @ busy * 0
            mask[:] = busy[0, :1000] == 0
            y = scanfold.cumsum(x.clone().requires_grad_(grad), 1, mask=mask)
        assert torch.equal(y.detach(), torch.cumsum(x, 1))


@pytest.mark.host_only("what it exports is NumPy's")
def test_unknown_dtypes_are_named():
    class Named(Exporter):
        dtype = "complex64, as it calls it"
    for kind, words in ((Exporter, "x has dtype number 5 of DLPack's, 64 bits wide"), (Named, "x has dtype complex64, as it calls it: float16")):
        for call in (scanfold.cumsum, scanfold.sum, scanfold.max):
            with pytest.raises(TypeError, match=words):
                call(kind(np.ones(3, np.complex64), True))


@pytest.mark.host_only("what it exports is NumPy's")
def test_what_nobody_may_write_is_no_out(monkeypatch):
    """JAX, and what stands in for it where it is not installed: its arrays look writable to DLPack."""
    class Array(Exporter):
        def devices(self):
            return set()
    x, stand_in = np.ones(3, np.float32), types.SimpleNamespace(Array=Array)
    scanfold.cumsum(x, out=Array(x.copy(), False))
    monkeypatch.setitem(sys.modules, "jax", stand_in)
    zeros = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="out is .*Array.*read-only"):
        scanfold.cumsum(x, out=Array(zeros, False))
    assert not zeros.any()


@pytest.mark.host_only("JAX chooses its device")
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


@pytest.mark.host_only("JAX chooses its device")
def test_jax_arrays_of_every_dtype_and_shape():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jnp = jax.numpy
    names = "float16 bfloat16 float32 int8 int16 int32 uint8 uint16 uint32 bool"
    for dtype in names.split():
        for shape in ((), (1,), (3, 4), (2, 0), (0,), (300, 7)):
            values = (np.arange(int(np.prod(shape))).reshape(shape) % 3).astype(jnp.dtype(dtype))
            x = jnp.asarray(values)
            y = scanfold.cummax(x, -1 if shape else None)
            assert isinstance(y, jax.Array) and y.devices() == x.devices()
            assert y.dtype == x.dtype and y.shape == x.shape
            right = np.maximum.accumulate(values.astype(np.float32), -1) if shape else values
            assert (np.asarray(y).astype(np.float32) == right).all(), (dtype, shape)
    x = jnp.ones(3, jnp.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's own, about 64 bits
        assert scanfold.cumsum(x, dtype="float64").dtype == jnp.cumsum(x, dtype=float).dtype
    # Each result is memory of its own.
    kept = [scanfold.cumsum(jnp.asarray(np.full(5, i, np.float32))) for i in range(200)]
    assert [np.asarray(y)[-1] for y in kept] == [5 * i for i in range(200)]


@pytest.mark.host_only("JAX chooses its device")
def test_jax_takes_results_over_as_they_are(monkeypatch):
    """A copy would be a pass over memory. On the CPU: JAX's own choice may be another device."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    from scanfold import _others
    memory, addresses = _others._scanfold.memory, []

    def watched(*form):
        capsule = memory(*form)
        addresses.append(ctypes.c_void_p.from_address(tensor_in(capsule)).value)
        return capsule
    monkeypatch.setattr(_others, "_scanfold", types.SimpleNamespace(memory=watched))
    for n in (5, 100_000):
        x = jax.device_put(np.ones(n, np.float32), jax.devices("cpu")[0])
        y = scanfold.cumsum(x)
        assert y.unsafe_buffer_pointer() == addresses[-1]


@pytest.mark.host_only("JAX chooses its device")
def test_jax_without_its_inner_function(monkeypatch):
    """Where jaxlib has changed, results come by jax.numpy.from_dlpack."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jnp, host = jax.numpy, jax.devices("cpu")[0]
    from scanfold import _others
    for dtype in (jnp.float32, jnp.bfloat16, jnp.int8):
        x = jax.device_put(jnp.ones((3, 4), dtype), host)
        quick = scanfold.cumsum(x, 1)
        with monkeypatch.context() as patched:
            patched.setattr(_others, "_take_over", None)
            slow = scanfold.cumsum(x, 1)
        assert slow.dtype == quick.dtype and (slow == quick).all()
    assert _others._jax_take_over() is not None


@pytest.mark.host_only("JAX chooses its device")
def test_jax_transforms_are_named():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    x = jax.numpy.ones((2, 3))
    calls = [lambda v: scanfold.cumsum(v, -1).sum(), lambda v: scanfold.sum(v),
             lambda v: scanfold.cumsum(np.ones(3), mask=v), lambda v: scanfold.run("sum(x)", x=v),
             lambda v: scanfold.cumulative_sum(v, axis=-1, include_initial=True)]
    told = r"^(x|mask) is a JAX tracer \(.*jax\.jit, jax\.grad or jax\.vmap.*scanfold\.jax"
    for call in calls:
        for transform in (jax.jit, jax.grad, jax.vmap):
            with pytest.raises(TypeError, match=told):
                transform(call)(x)


class Tagged(np.ndarray):
    """A subclass with further attributes, which it passes on in __array_finalize__."""

    def __array_finalize__(self, other):
        self.tag = getattr(other, "tag", None)


@pytest.mark.host_only("NumPy's classes")
def test_subclasses_are_kept_as_numpy_keeps_them(tmp_path):
    x = np.arange(6.0).reshape(2, 3).view(Tagged)
    x.tag = "metres"
    narrow = x.astype(np.int8)
    for ours, numpys in [(scanfold.cumsum(x, 1), np.cumsum(x, 1)),
                         (scanfold.sum(x, 0), np.sum(x, 0)), (scanfold.max(x, 1), np.max(x, 1)),
                         (scanfold.cumsum(narrow, 0), np.cumsum(narrow, 0)),
                         (scanfold.run("cumsum(x, 1)", x=x), np.cumsum(x, 1)),
                         (scanfold.cumulative_sum(x, axis=1), np.cumsum(x, 1))]:
        assert type(ours) is type(numpys) is Tagged and (ours == numpys).all()
        assert ours.tag == numpys.tag == "metres"
    out = np.empty((2, 3))
    assert scanfold.cumsum(x, 1, out=out) is out
    records = np.arange(3.0).view(np.recarray)
    assert type(scanfold.cumsum(records)) is type(np.cumsum(records)) is np.recarray
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(2, 3))
    mapped[:] = 1
    for ours, numpys in [(scanfold.cumsum(mapped, 1), np.cumsum(mapped, 1)),
                         (scanfold.sum(mapped, 0), np.sum(mapped, 0))]:
        assert type(ours) is type(numpys) and (ours == numpys).all()
    assert scanfold.cumsum(np.ones((2, 3)), 1, out=mapped) is mapped
    assert mapped[0].tolist() == [1, 2, 3]
    assert type(scanfold.cumsum(np.float32(3))) is np.ndarray


@pytest.mark.host_only("NumPy's classes")
def test_subclasses_whose_meaning_would_be_lost_are_refused():
    class Quantity(np.ndarray):
        def __array_ufunc__(self, *arguments, **keywords):
            return NotImplemented

    class Unit(np.ndarray):
        def __array_function__(self, *arguments, **keywords):
            return NotImplemented

    class Series:
        """As pandas' has it: an array on request only."""

        def __array__(self, dtype=None, copy=None):
            return np.ones(3)
    x = np.ones((2, 3))
    for bad, why in [(np.ma.array(x), "a masked array: .*mask="),
                     (x.view(np.matrix), r"a numpy.matrix.*numpy.asarray\("),
                     (x.view(Quantity), r"<.*Quantity.*a meaning of its own.*numpy.asarray\("),
                     (x.view(Unit), r"<.*Unit.*a meaning of its own.*numpy.asarray\("),
                     (Series(), "<.*Series.*give a NumPy array")]:
        for call in (lambda: scanfold.cumsum(bad, 0), lambda: scanfold.sum(bad),
                     lambda: scanfold.run("sum(x)", x=bad)):
            for _ in range(2):  # what is remembered of a type refuses it too
                with pytest.raises(TypeError, match="^x is " + why):
                    call()
        with pytest.raises(TypeError, match="^mask is"):
            scanfold.cumsum(x, 0, mask=bad)
        with pytest.raises(TypeError, match="^out is"):
            scanfold.cumsum(x, 0, out=bad)


@pytest.mark.host_only("its arrays are NumPy's")
def test_array_api_strict():
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    y = scanfold.cumsum(x, 0)
    assert type(y) is type(x) and y[1, 1] == 6.0
    assert scanfold.cumulative_sum(x, axis=1, include_initial=True).shape == (2, 3)


@pytest.mark.host_only("NumPy has no other memory")
def test_torch_and_numpy_mix(torch):
    x = np.arange(6.0).reshape(2, 3)
    out = torch.empty(2, 3, dtype=torch.float64)
    assert scanfold.cumsum(x, 1, out=out) is out
    assert (out.numpy() == np.cumsum(x, 1)).all()
    masked = scanfold.cumsum(torch.ones(4), 0, mask=np.array([True, False, True, True]))
    assert masked.tolist() == [1, 1, 2, 3]


def test_cuda(cuda, torch):
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


def test_layouts_and_dtypes_that_are_refused(device, torch):
    x = torch.eye(3, device=device)
    layouts = [x.to_sparse(), x.to_sparse_csr()]
    if device == "cpu" and torch.backends.mkldnn.is_available():
        layouts.append(x.to_mkldnn())
    others = [x.to(torch.complex64), x.to(torch.complex64).conj()]
    others += [torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)] if device == "cpu" else []
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


@pytest.mark.host_only("meta tensors have no memory")
def test_meta_tensors_have_shapes(torch):
    y = scanfold.cumsum(torch.empty(3, 4, device="meta"), 0)
    assert y.shape == (3, 4) and y.device.type == "meta"
    assert scanfold.sum(torch.empty(3, 4, dtype=torch.int8, device="meta"), 1).dtype == torch.int64
