"""dtypes of any array library as the numbers code * 256 + bits, with DLPack's type codes."""

CODES = {"bool": 6 * 256 + 8, "bfloat16": 4 * 256 + 16}
CODES.update({f"int{bits}": bits for bits in (8, 16, 32, 64)})
CODES.update({f"uint{bits}": 256 + bits for bits in (8, 16, 32, 64)})
CODES.update({f"float{bits}": 512 + bits for bits in (16, 32, 64)})
PYTHON = {float: "float64", int: "int64", bool: "bool"}

_met = {}


def name(dtype):
    """The name of a dtype: "float32" for numpy.float32, numpy.dtype("float32"), torch.float32,
    jax.numpy.float32 and "float32". Python's float is "float64"."""
    if dtype in PYTHON:
        return PYTHON[dtype]
    text = dtype.__name__ if isinstance(dtype, type) else str(dtype)
    text = text.rpartition(".")[2].rstrip("_")
    if text in CODES:
        return text
    try:
        import numpy
        text = numpy.dtype(dtype).name  # "f4", "double", ...
    except (ImportError, TypeError):
        pass
    if text in CODES:
        return text
    raise TypeError(f"dtype is {dtype!r}: {', '.join(sorted(CODES))} are taken")


def code(dtype):
    """The number of a dtype in CODES; None for None."""
    if dtype is None:
        return None
    try:
        return _met[dtype]
    except (KeyError, TypeError):
        number = CODES[name(dtype)]
    try:
        _met[dtype] = number
    except TypeError:  # not hashable
        pass
    return number
