"""Arrays of libraries that we use only through DLPack: JAX, CuPy and others. Called by the C
extension."""
import ctypes
import sys

from . import _scanfold
from ._dtypes import CODES

CPU, CUDA, CUDA_HOST = 1, 2, 3
LEGACY_STREAM = 1  # DLPack's and CUDA's number for the legacy default stream

_NOT_YET = object()
_take_over = _NOT_YET  # see _jax_take_over


def _cupy_stream(x):
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(x, cupy.ndarray):
        return cupy.cuda.get_current_stream().ptr or LEGACY_STREAM
    return None


def _jax_host_device(x):
    """The device of a JAX array that is in the memory of one CPU device, else None."""
    if not _is_jax(x):
        return None
    devices = x.devices()
    if len(devices) != 1:
        return None
    device, = devices
    return device if device.platform == "cpu" else None


def _export(x):
    if _jax_host_device(x) is not None and x.dtype.kind in "iufb":
        import numpy
        try:
            return numpy.asarray(memoryview(x)), 0, 0  # JAX's __dlpack__ is slow
        except (BufferError, RuntimeError):  # a layout that is not row-major
            pass
    kind = int(x.__dlpack_device__()[0]) if hasattr(x, "__dlpack_device__") else CPU
    keywords, stream, waits = {}, 0, 0
    if kind == CUDA:
        stream = _cupy_stream(x)
        waits = int(stream is None)
        stream = stream or LEGACY_STREAM
        keywords["stream"] = stream
    try:
        return x.__dlpack__(max_version=(1, 0), **keywords), stream, waits
    except TypeError:  # a producer older than DLPack 1.0
        return x.__dlpack__(**keywords), stream, waits


def export(x, name):
    """(capsule or NumPy array, stream, waits): the tensor, the stream on which to launch work, and
    whether the caller must wait for that work. `name` is what error messages call x.

    CuPy says which stream it uses. For other libraries we use the legacy stream and pass it to the
    producer, which makes that stream wait for its pending work. We wait until our own work is done,
    because the producer does not.
    """
    try:
        return _export(x)
    except Exception:
        # JAX's transforms call a function with tracers in place of its arrays.
        if _is_jax(x) and isinstance(x, sys.modules["jax"].core.Tracer):
            raise TypeError(
                f"{name} is a JAX tracer ({type(x).__name__}), which has no values: scanfold is "
                "called under jax.jit, jax.grad or jax.vmap. scanfold.jax has the same functions for "
                "that, such as scanfold.jax.cumsum") from None
        raise


def namespace(x):
    """The module of functions for x: its array API namespace, or the package of its type."""
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    return sys.modules[type(x).__module__.partition(".")[0]]


def _dtype(space, name):
    if hasattr(space, name):
        return getattr(space, name)
    return getattr(space, name + "_", name)  # in NumPy before 2 and CuPy it is bool_


def _is_jax(x):
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.Array)


def has_64_bits(x):
    """Whether x's library has 64-bit types. JAX has them only if enabled; otherwise its sums of
    integers have 32 bits."""
    return not _is_jax(x) or bool(sys.modules["jax"].config.jax_enable_x64)


def can_be_written(x):
    """Whether x may be written to. JAX's arrays are immutable and may share memory, although JAX
    exports them by DLPack as if they were writable."""
    return not _is_jax(x)


def _jax_take_over():
    """The jaxlib function that jax.numpy.from_dlpack calls in the end, as (capsule, device) ->
    array; None if this jaxlib does not have it.

    from_dlpack itself takes twenty times as long: it asks for a CUDA stream even on the CPU, and
    casts the array to the dtype it already has with a jitted function. The jaxlib function is not
    public, and its arguments have changed before, so it is tested before it is used.
    """
    try:
        import jax
        from jaxlib import _jax
        take = _jax.dlpack_managed_tensor_to_buffer
        device = jax.devices("cpu")[0]
    except (ImportError, AttributeError, RuntimeError):
        return None
    for more in ((None, None, CPU), (None, None), (None,)):
        try:
            made = take(_scanfold.memory((2, 3), CODES["float32"]), device, *more)
            right = made.shape == (2, 3) and made.dtype == "float32" and made.devices() == {device}
            if isinstance(made, jax.Array) and right:
                return lambda capsule, device: take(capsule, device, *more)
        except (TypeError, RuntimeError):
            continue
    return None


def make(x, shape, name, device_type):
    """(memory to write the result to, a function that turns it into an array of x's library once it
    has been written)"""
    global _take_over
    if device_type in (CPU, CUDA_HOST):
        device = _jax_host_device(x)
        # Without 64-bit types JAX converts such a result to 32 bits: from_dlpack does that.
        if device is not None and (not name.endswith("64") or has_64_bits(x)):
            if _take_over is _NOT_YET:
                _take_over = _jax_take_over()
            if _take_over is not None:
                memory = _scanfold.memory(shape, CODES[name])
                return memory, lambda: _take_over(memory, device)
        space = namespace(x)
        import numpy
        if name == "bfloat16":
            import ml_dtypes  # comes with JAX; NumPy alone has no bfloat16
            memory = numpy.empty(shape, ml_dtypes.bfloat16)
        else:
            memory = numpy.empty(shape, name)

        def finish():
            try:
                return space.from_dlpack(memory)
            except (BufferError, TypeError, RuntimeError, AttributeError):
                return space.asarray(memory)
        return memory, finish
    space = namespace(x)
    made = space.empty(shape, dtype=_dtype(space, name))
    if hasattr(made, "block_until_ready"):
        made.block_until_ready()  # JAX first fills it with zeros, asynchronously
    return made, lambda: made


def wait(device, stream):
    """Waits until all work on this stream of the device is done."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()

    def check(status):
        if status:
            raise RuntimeError(f"CUDA's driver reported error {status} while the result was waited for")
    handle = ctypes.c_int()
    check(cuda.cuDeviceGet(ctypes.byref(handle), device))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle))
    try:
        check(cuda.cuCtxPushCurrent_v2(context))
        status = cuda.cuStreamSynchronize(ctypes.c_void_p(stream))
        check(cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p())))
        check(status)
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(handle)
