"""What a type checker must make of the package's stubs: test_docs.py runs mypy and pyright over
this file. Nothing here is called."""
import sys
from typing import Any, Tuple

import numpy as np
from numpy.typing import NDArray

import scanfold
import scanfold.jax

if sys.version_info >= (3, 11):
    from typing import assert_type
else:
    from typing_extensions import assert_type


class Tensor:
    """Takes the place of torch's and JAX's arrays, which take a type checker a minute to read."""

    def __dlpack__(self, *, stream: object = None, max_version: object = None) -> object: ...


def numpy_arrays(x: NDArray[np.int32], mask: NDArray[np.bool_]) -> None:
    assert_type(scanfold.cumsum(x), NDArray[Any])
    largest = scanfold.cummax(x, axis=-1, reverse=True, mask=mask, initial=np.int32(3))
    assert_type(largest, NDArray[Any])
    assert_type(scanfold.sum(x, (0, 1), keepdims=True, dtype="float64"), NDArray[Any])
    assert_type(scanfold.max(np.float32(3)), NDArray[Any])
    assert_type(scanfold.cumulative_sum(x, axis=0, include_initial=True), NDArray[Any])
    assert_type(scanfold.cumsum(x, out=x), NDArray[np.int32])
    assert_type(scanfold.var(x, 0, ddof=1, mask=mask), NDArray[Any])
    assert_type(scanfold.norm(x, 1, axis=0), NDArray[Any])
    assert_type(scanfold.softmax(x, 1, mask=mask), NDArray[Any])
    assert_type(scanfold.layer_norm(x, (0, 1), x, eps=1e-3, out=x), NDArray[np.int32])


def pairs(x: NDArray[np.float32], y: Tensor) -> None:
    assert_type(scanfold.argmax(x, 1, keepdims=True), NDArray[Any])
    assert_type(scanfold.max(x, 1, return_indices=True), Tuple[NDArray[Any], NDArray[Any]])
    assert_type(scanfold.cummin(y, dim=1, return_indices=True), Tuple[Tensor, Tensor])
    assert_type(scanfold.cummin(y, dim=1), Tensor)
    assert_type(scanfold.logsumexp(y, (0, 1)), Tensor)
    assert_type(scanfold.logcumsumexp(x, reverse=True), NDArray[Any])
    assert_type(scanfold.linear_recurrence(0.5, y, initial=y), Tensor)
    assert_type(scanfold.linear_recurrence(x, x, out=x), NDArray[np.float32])


def other_arrays(x: Tensor, mask: NDArray[np.bool_]) -> None:
    assert_type(scanfold.cumsum(x, dim=1, mask=mask), Tensor)
    assert_type(scanfold.min(x, dim=(0, 1), keepdim=True, initial=2.5), Tensor)
    assert_type(scanfold.cumulative_prod(x), Tensor)
    assert_type(scanfold.sum(x, out=Tensor()), Tensor)
    assert_type(scanfold.any(x, dim=1), Tensor)
    assert_type(scanfold.nansum(x, 1), Tensor)
    assert_type(scanfold.rms_norm(x, -1, x), Tensor)
    assert_type(scanfold.normalize(x, 1, dim=0), Tensor)
    assert_type(scanfold.standardize(x, correction=0), Tensor)


def under_jax(x: Tensor) -> None:
    assert_type(scanfold.jax.cumsum(x, axis=1, reverse=True), Tensor)
    assert_type(scanfold.jax.softmax(x), Tensor)


def expressions(x: NDArray[np.float32], y: Tensor) -> None:
    scanfold.run("cumsum(x, 1), sum(x * y)", x=x, y=y, exact=True, out=(x, x))
    assert_type(scanfold.explain("sum(x)", x=x), str)
    scanfold.explain(lambda z: z, x)


def refused(x: NDArray[np.float32]) -> None:
    scanfold.cumsum([1.0, 2.0])  # type: ignore[call-overload]
    scanfold.sum((1, 2))  # type: ignore[call-overload]
    scanfold.sum(3.0)  # type: ignore[call-overload]
    scanfold.cumsum(x, axis=(0, 1))  # type: ignore[call-overload]
    scanfold.cumsum(x, mask=[True])  # type: ignore[call-overload]
    scanfold.max(x, out=[0.0])  # type: ignore[call-overload]
    scanfold.run(x)  # type: ignore[arg-type]
    scanfold.run("sum(x)", x=[1.0])  # type: ignore[arg-type]


def using() -> None:
    with scanfold.using(threads=2, isa="portable", backend="ref") as chosen:
        assert_type(chosen, scanfold.using)
    assert_type(scanfold.__version__, str)
