from typing import Any, Optional, Tuple

from torch import Tensor

OPS: Tuple[str, ...]
VERSION: Tuple[int, ...]

def linear_sum(x: Tensor, weight: Tensor, bias: Optional[Tensor] = ..., scale: float = ..., *, keep_weight: bool = ...) -> Tensor: ...
def scan(x: Tensor, op: int, axis: Optional[int], reverse: bool, exclusive: bool, mask: Any, initial: Any, dtype: Any, out: Optional[Tensor],
         trusted: bool = ..., skip_nan: bool = ..., offsets: Optional[Tensor] = ...) -> Tensor: ...
def fold(x: Tensor, op: int, axis: Any, keepdim: Optional[bool], reverse: bool, mask: Any, initial: Any, dtype: Any, out: Optional[Tensor],
         trusted: bool = ..., skip_nan: bool = ..., offsets: Optional[Tensor] = ...) -> Tensor: ...
