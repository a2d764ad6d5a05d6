from typing import Any, Callable, Dict, Literal, Optional, Protocol, Sequence, Tuple, TypeVar, Union, overload

import numpy
from numpy.typing import NDArray

class DLPackArray(Protocol):
    """What torch's tensors, JAX's and CuPy's arrays are to us. NumPy's are such too."""

    @property
    def __dlpack__(self) -> Any: ...

_NumPy = Union[NDArray[Any], numpy.generic]
_Any = Union[_NumPy, DLPackArray]
_Array = TypeVar("_Array", bound=DLPackArray)
_Out = TypeVar("_Out", bound=DLPackArray)
_Axes = Union[None, int, Sequence[int]]
_Number = Union[int, float, _Any]
_Offsets = Union[_Any, Sequence[int]]

class _Scan(Protocol):
    @overload
    def __call__(self, x: _Any, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ...,
                 skip_nan: bool = ..., initial: Optional[_Number] = ..., dtype: Any = ..., out: _Out,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ...,
                 skip_nan: bool = ..., initial: Optional[_Number] = ..., dtype: Any = ...,
                 out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ...,
                 skip_nan: bool = ..., initial: Optional[_Number] = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

class _Fold(Protocol):
    @overload
    def __call__(self, x: _Any, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ..., reverse: bool = ...,
                 mask: Optional[_Any] = ..., skip_nan: bool = ...,
                 initial: Optional[_Number] = ..., dtype: Any = ...,
                 out: _Out,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ..., reverse: bool = ...,
                 mask: Optional[_Any] = ..., skip_nan: bool = ...,
                 initial: Optional[_Number] = ..., dtype: Any = ...,
                 out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ..., reverse: bool = ...,
                 mask: Optional[_Any] = ..., skip_nan: bool = ...,
                 initial: Optional[_Number] = ..., dtype: Any = ...,
                 out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

# With return_indices, values and where they stand.
class _ExtremeScan(Protocol):
    @overload
    def __call__(self, x: _NumPy, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ...,
                 out: Optional[Sequence[DLPackArray]] = ...,
                 return_indices: Literal[True],
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> Tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def __call__(self, x: _Array, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ...,
                 out: Optional[Sequence[DLPackArray]] = ...,
                 return_indices: Literal[True],
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> Tuple[_Array, _Array]: ...
    @overload
    def __call__(self, x: _Any, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ..., skip_nan: bool = ...,
                 initial: Optional[_Number] = ..., dtype: Any = ..., out: _Out,
                 return_indices: Literal[False] = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ..., skip_nan: bool = ...,
                 initial: Optional[_Number] = ..., dtype: Any = ..., out: None = ...,
                 return_indices: Literal[False] = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ..., skip_nan: bool = ...,
                 initial: Optional[_Number] = ..., dtype: Any = ..., out: None = ...,
                 return_indices: Literal[False] = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

class _ExtremeFold(Protocol):
    @overload
    def __call__(self, x: _NumPy, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ...,
                 mask: Optional[_Any] = ..., out: Optional[Sequence[DLPackArray]] = ...,
                 return_indices: Literal[True],
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> Tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def __call__(self, x: _Array, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ...,
                 mask: Optional[_Any] = ..., out: Optional[Sequence[DLPackArray]] = ...,
                 return_indices: Literal[True],
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> Tuple[_Array, _Array]: ...
    @overload
    def __call__(self, x: _Any, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ..., reverse: bool = ...,
                 mask: Optional[_Any] = ..., skip_nan: bool = ..., initial: Optional[_Number] = ..., dtype: Any = ...,
                 out: _Out, return_indices: Literal[False] = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ..., reverse: bool = ...,
                 mask: Optional[_Any] = ..., skip_nan: bool = ..., initial: Optional[_Number] = ..., dtype: Any = ...,
                 out: None = ..., return_indices: Literal[False] = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ..., reverse: bool = ...,
                 mask: Optional[_Any] = ..., skip_nan: bool = ..., initial: Optional[_Number] = ..., dtype: Any = ...,
                 out: None = ..., return_indices: Literal[False] = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

class _Position(Protocol):
    @overload
    def __call__(self, x: _Any, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ...,
                 mask: Optional[_Any] = ..., out: _Out,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ...,
                 mask: Optional[_Any] = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ...,
                 mask: Optional[_Any] = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

class _LogFold(Protocol):
    @overload
    def __call__(self, x: _Any, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ...,
                 mask: Optional[_Any] = ..., skip_nan: bool = ..., dtype: Any = ..., out: _Out,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ...,
                 mask: Optional[_Any] = ..., skip_nan: bool = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ...,
                 mask: Optional[_Any] = ..., skip_nan: bool = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

class _LogScan(Protocol):
    @overload
    def __call__(self, x: _Any, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ...,
                 skip_nan: bool = ..., dtype: Any = ..., out: _Out,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ...,
                 skip_nan: bool = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ...,
                 skip_nan: bool = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

class _Recurrence(Protocol):
    @overload
    def __call__(self, a: _Number, b: _Any, axis: int = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., initial: Optional[_Number] = ...,
                 dtype: Any = ..., out: _Out,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, a: _Number, b: _NumPy, axis: int = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., initial: Optional[_Number] = ...,
                 dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, a: _Number, b: _Array, axis: int = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., initial: Optional[_Number] = ...,
                 dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

class _Cumulative(Protocol):
    @overload
    def __call__(self, x: _NumPy, /, *, axis: Optional[int] = ..., dtype: Any = ...,
                 include_initial: bool = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, /, *, axis: Optional[int] = ..., dtype: Any = ...,
                 include_initial: bool = ...) -> _Array: ...

# mean and its like: docs/python.md has their arguments.
class _Derived(Protocol):
    @overload
    def __call__(self, x: _Any, axis: _Axes = ..., *, out: _Out, **options: Any) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: _Axes = ..., *, out: None = ..., **options: Any) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: _Axes = ..., *, out: None = ..., **options: Any) -> _Array: ...

class _Pair(Protocol):
    @overload
    def __call__(self, x: _NumPy, axis: _Axes = ..., **options: Any) -> Tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def __call__(self, x: _Array, axis: _Axes = ..., **options: Any) -> Tuple[_Array, _Array]: ...

class _Norm(Protocol):
    @overload
    def __call__(self, x: _Any, ord: Optional[float] = ..., axis: _Axes = ..., *, out: _Out, **options: Any) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, ord: Optional[float] = ..., axis: _Axes = ..., *, out: None = ...,
                 **options: Any) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, ord: Optional[float] = ..., axis: _Axes = ..., *, out: None = ..., **options: Any) -> _Array: ...

class _Softmax(Protocol):
    @overload
    def __call__(self, x: _Any, axis: _Axes = ..., *, dim: _Axes = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: _Out,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: _Axes = ..., *, dim: _Axes = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: _Axes = ..., *, dim: _Axes = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

class _LayerNorm(Protocol):
    @overload
    def __call__(self, x: _Any, axis: _Axes = ..., weight: Optional[_Any] = ..., bias: Optional[_Any] = ..., eps: float = ..., *, dim: _Axes = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: _Out,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: _Axes = ..., weight: Optional[_Any] = ..., bias: Optional[_Any] = ..., eps: float = ..., *, dim: _Axes = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: _Axes = ..., weight: Optional[_Any] = ..., bias: Optional[_Any] = ..., eps: float = ..., *, dim: _Axes = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

class _RmsNorm(Protocol):
    @overload
    def __call__(self, x: _Any, axis: _Axes = ..., weight: Optional[_Any] = ..., eps: Optional[float] = ..., *, dim: _Axes = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: _Out,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: _Axes = ..., weight: Optional[_Any] = ..., eps: Optional[float] = ..., *, dim: _Axes = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: _Axes = ..., weight: Optional[_Any] = ..., eps: Optional[float] = ..., *, dim: _Axes = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

class _Normalize(Protocol):
    @overload
    def __call__(self, x: _Any, ord: Optional[float] = ..., axis: _Axes = ..., *, dim: _Axes = ..., eps: float = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: _Out,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, ord: Optional[float] = ..., axis: _Axes = ..., *, dim: _Axes = ..., eps: float = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, ord: Optional[float] = ..., axis: _Axes = ..., *, dim: _Axes = ..., eps: float = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

class _Standardize(Protocol):
    @overload
    def __call__(self, x: _Any, axis: _Axes = ..., *, dim: _Axes = ..., correction: Optional[float] = ..., ddof: Optional[float] = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: _Out,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: _Axes = ..., *, dim: _Axes = ..., correction: Optional[float] = ..., ddof: Optional[float] = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: _Axes = ..., *, dim: _Axes = ..., correction: Optional[float] = ..., ddof: Optional[float] = ..., mask: Optional[_Any] = ..., dtype: Any = ..., out: None = ...,
                 offsets: Optional[_Offsets] = ..., lengths: Optional[_Offsets] = ..., reset: Optional[_Any] = ...) -> _Array: ...

__version__: str

cumsum: _Scan
cumprod: _Scan
cummax: _ExtremeScan
cummin: _ExtremeScan
sum: _Fold
prod: _Fold
max: _ExtremeFold
min: _ExtremeFold
argmax: _Position
argmin: _Position
nanargmax: _Position
nanargmin: _Position
logsumexp: _LogFold
logcumsumexp: _LogScan
linear_recurrence: _Recurrence
cumulative_sum: _Cumulative
cumulative_prod: _Cumulative
mean: _Derived
var: _Derived
std: _Derived
var_mean: _Pair
std_mean: _Pair
cummean: _Derived
cumvar: _Derived
sumsq: _Derived
norm: _Norm
any: _Derived
count_nonzero: _Derived
all: _Derived
softmax: _Softmax
log_softmax: _Softmax
layer_norm: _LayerNorm
rms_norm: _RmsNorm
normalize: _Normalize
standardize: _Standardize
nansum: _Derived
nanprod: _Derived
nanmax: _Derived
nanmin: _Derived
nanmean: _Derived
nanvar: _Derived
nanstd: _Derived
nancumsum: _Derived
nancumprod: _Derived

# One array, or a tuple of them: the expression decides.
def run(expression: str, /, *, exact: bool = ...,
        out: Union[None, DLPackArray, Sequence[DLPackArray]] = ..., **inputs: _Any) -> Any: ...
@overload
def explain(model: str, /, *, exact: bool = ..., **inputs: _Any) -> str: ...
@overload
def explain(model: Callable[..., Any], /, *inputs: Any, **keywords: Any) -> Any: ...
def info() -> Dict[str, Any]: ...

class using:
    def __init__(self, *, threads: int = ..., isa: Optional[str] = ...,
                 backend: Optional[str] = ...) -> None: ...
    def __enter__(self) -> "using": ...
    def __exit__(self, *error: object) -> None: ...
