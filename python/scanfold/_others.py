"""Arrays of libraries we know only through DLPack: JAX, CuPy, and whoever else speaks it. Called by the C extension."""
import ctypes
import sys

CPU, CUDA, CUDA_HOST = 1, 2, 3
LEGACY_STREAM = 1  # DLPack's name, and CUDA's, for the legacy default stream


def _cupy_stream(x):
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(x, cupy.ndarray):
        return cupy.cuda.get_current_stream().ptr or LEGACY_STREAM
    return None


def export(x):
    """(capsule, stream, waits): the tensor, the stream work on it goes to, and whether that work has to be waited for.

    CuPy says which stream it works on. For others we work on the legacy stream, tell the producer so (it makes that stream wait for what it
    has under way), and wait when we are done, since the producer will not.
    """
    kind = int(x.__dlpack_device__()[0]) if hasattr(x, "__dlpack_device__") else CPU
    keywords, stream, waits = {}, 0, 0
    if kind == CUDA:
        stream = _cupy_stream(x)
        waits = int(stream is None)
        stream = stream or LEGACY_STREAM
        keywords["stream"] = stream
    try:
        return x.__dlpack__(max_version=(1, 0), **keywords), stream, waits
    except TypeError:  # a producer from before versions
        return x.__dlpack__(**keywords), stream, waits


def namespace(x):
    """The module of x's functions: what the array API says, else the package its type is defined in."""
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    return sys.modules[type(x).__module__.partition(".")[0]]


def _dtype(space, name):
    if hasattr(space, name):
        return getattr(space, name)
    return getattr(space, name + "_", name)  # NumPy before 2 and CuPy say bool_


def _is_jax(x):
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.Array)


def has_64_bits(x):
    """JAX has no 64-bit types unless asked for them: its sums of integers are 32 bits wide then."""
    return not _is_jax(x) or bool(sys.modules["jax"].config.jax_enable_x64)


def can_be_written(x):
    """JAX shares an array's memory on the promise that nobody writes it, but hands it out by DLPack as if one could."""
    return not _is_jax(x)


def make(x, shape, name, device_type):
    """(memory to write, function that makes x's kind of array of it once it is written)."""
    space = namespace(x)
    if device_type in (CPU, CUDA_HOST):
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
    made = space.empty(shape, dtype=_dtype(space, name))
    if hasattr(made, "block_until_ready"):
        made.block_until_ready()  # JAX fills it with zeros first
    return made, lambda: made


def wait(device, stream):
    """Until what was launched on this stream of the device is done."""
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
