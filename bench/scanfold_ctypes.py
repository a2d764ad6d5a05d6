"""scanfold.h as ctypes sees it: what the benchmarks and the tests call the library through, one struct for one struct."""
import ctypes

CPU, CUDA = 1, 2
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3}
SCALAR_NONE, SCALAR_INT, SCALAR_UINT, SCALAR_REAL = 0, 1, 2, 3


class Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("dtype", Dtype),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Number(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64), ("u", ctypes.c_uint64), ("f", ctypes.c_double)]


class Scalar(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("value", Number)]


class Options(ctypes.Structure):
    """Options begin with their size, which is filled in here."""

    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(self), **fields)


class ScanOptions(Options):
    _fields_ = [("size", ctypes.c_size_t), ("op", ctypes.c_int), ("axis", ctypes.c_int32), ("reverse", ctypes.c_int32),
                ("exclusive", ctypes.c_int32), ("mask", ctypes.POINTER(Tensor)), ("initial", Scalar), ("accumulator", Dtype),
                ("stream", ctypes.c_void_p), ("workspace", ctypes.c_void_p), ("workspace_size", ctypes.c_size_t)]


class FoldOptions(Options):
    _fields_ = [("size", ctypes.c_size_t), ("op", ctypes.c_int), ("naxes", ctypes.c_int32),
                ("axes", ctypes.POINTER(ctypes.c_int32)), ("keepdim", ctypes.c_int32), ("reverse", ctypes.c_int32),
                ("mask", ctypes.POINTER(Tensor)), ("initial", Scalar), ("accumulator", Dtype), ("stream", ctypes.c_void_p),
                ("workspace", ctypes.c_void_p), ("workspace_size", ctypes.c_size_t)]


class ContextOptions(Options):
    _fields_ = [("size", ctypes.c_size_t), ("threads", ctypes.c_int32), ("backend", ctypes.c_int), ("isa", ctypes.c_char_p)]


def load(path):
    """The library, with its functions' types declared."""
    lib = ctypes.CDLL(path)
    pointer, number, status = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int
    for name, result, arguments in (("sf_version_string", ctypes.c_char_p, []),
                                    ("sf_last_error", ctypes.c_char_p, [pointer]),
                                    ("sf_context_isa", ctypes.c_char_p, [pointer]),
                                    ("sf_context_threads", ctypes.c_int32, [pointer]),
                                    ("sf_context_create", ctypes.c_int, [pointer, pointer]),
                                    ("sf_scan", ctypes.c_int, [pointer] * 4),
                                    ("sf_fold", ctypes.c_int, [pointer] * 4)):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    for name, result, *arguments in (
            ("sf_graph_create", status, pointer, pointer), ("sf_graph_destroy", None, pointer),
            ("sf_expr_input", number, pointer, ctypes.c_char_p),
            ("sf_expr_apply", number, pointer, ctypes.c_int, number, number, number),
            ("sf_expr_scan", number, pointer, number, pointer),
            ("sf_expr_fold", number, pointer, number, pointer),
            ("sf_expr_output", number, pointer, number),
            ("sf_plan_create", status, pointer, pointer, number, pointer, pointer, pointer),
            ("sf_plan_explain", status, pointer, ctypes.c_int, pointer, ctypes.c_size_t, pointer),
            ("sf_plan_destroy", None, pointer)):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def view(data, device, code, bits, shape, strides, keep=None):
    """A Tensor over memory of the caller's; strides count elements. `keep` is what must live as long as it does."""
    n = max(len(shape), 1)
    tensor = Tensor(data, Device(*device), len(shape), Dtype(code, bits, 1), (ctypes.c_int64 * n)(*shape),
                    (ctypes.c_int64 * n)(*strides), 0)
    tensor.keep = keep
    return tensor


def numpy_view(a, code):
    """A Tensor over a NumPy array; the array does not know its dtype's code, as bf16 is no dtype of NumPy's."""
    return view(a.ctypes.data, (CPU, 0), code, a.itemsize * 8, a.shape, [s // a.itemsize for s in a.strides], a)
