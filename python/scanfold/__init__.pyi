from typing import Any, Callable, Dict, Optional, Protocol, Sequence, TypeVar, Union, overload

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

class _Scan(Protocol):
    @overload
    def __call__(self, x: _Any, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ...,
                 initial: Optional[_Number] = ..., dtype: Any = ..., out: _Out) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ...,
                 initial: Optional[_Number] = ..., dtype: Any = ...,
                 out: None = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: Optional[int] = ..., *, dim: Optional[int] = ...,
                 reverse: bool = ..., exclusive: bool = ..., mask: Optional[_Any] = ...,
                 initial: Optional[_Number] = ..., dtype: Any = ..., out: None = ...) -> _Array: ...

class _Fold(Protocol):
    @overload
    def __call__(self, x: _Any, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ..., reverse: bool = ...,
                 mask: Optional[_Any] = ..., initial: Optional[_Number] = ..., dtype: Any = ...,
                 out: _Out) -> _Out: ...
    @overload
    def __call__(self, x: _NumPy, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ..., reverse: bool = ...,
                 mask: Optional[_Any] = ..., initial: Optional[_Number] = ..., dtype: Any = ...,
                 out: None = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, axis: _Axes = ..., *, dim: _Axes = ...,
                 keepdims: Optional[bool] = ..., keepdim: Optional[bool] = ..., reverse: bool = ...,
                 mask: Optional[_Any] = ..., initial: Optional[_Number] = ..., dtype: Any = ...,
                 out: None = ...) -> _Array: ...

class _Cumulative(Protocol):
    @overload
    def __call__(self, x: _NumPy, /, *, axis: Optional[int] = ..., dtype: Any = ...,
                 include_initial: bool = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, /, *, axis: Optional[int] = ..., dtype: Any = ...,
                 include_initial: bool = ...) -> _Array: ...

__version__: str

cumsum: _Scan
cumprod: _Scan
cummax: _Scan
cummin: _Scan
sum: _Fold
prod: _Fold
max: _Fold
min: _Fold
cumulative_sum: _Cumulative
cumulative_prod: _Cumulative

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
