"""Jagged tensors of torch.nested: our functions run on their packed values, with their offsets as
segments. Nothing is padded."""
import functools

import torch
from torch import Tensor

from . import torch as ops

KEEPS_SHAPE = ("cum", "logcum", "nancum", "softmax", "log_softmax", "layer_norm", "rms_norm", "normalize", "standardize", "linear_recurrence")


def _packed(name, value, like):
    """The packed values of an argument that is a jagged tensor with the lengths of `like`. Other
    arguments are returned as they are."""
    if not ops._is_jagged(value):
        if isinstance(value, Tensor) and value.dim() > 0 and name in ("x", "mask", "initial", "out", "a", "b"):
            raise TypeError(f"{name} is no jagged tensor; beside one it must be one too, of the same lengths")
        return value
    if value._ragged_idx != like._ragged_idx or value.shape[like._ragged_idx] != like.shape[like._ragged_idx]:
        raise ValueError(f"{name} has shape {tuple(value.shape)}, which is cut otherwise than {tuple(like.shape)}: jagged tensors in one call must have the "
                         f"same offsets")
    return value.values()


def jagged(function, x, axis=None, **given):
    """Calls one of our functions with a jagged tensor.

    Along the ragged dimension each sequence is a segment; along other dimensions it is as for any
    tensor. A fold over the ragged dimension gives a plain tensor with one entry for each sequence.
    All other results are jagged."""
    like = next(t for t in (x, *given.values()) if ops._is_jagged(t))
    if axis is None:
        raise ValueError(f"axis is needed: a jagged tensor of shape {tuple(like.shape)} is scanned and folded along one dimension")
    axis, ragged = ops._axis(like.dim(), axis), like._ragged_idx
    if axis == 0:
        raise ValueError(f"axis is 0, the batch of a jagged tensor; it must be 1 to {like.dim() - 1}")
    if like.lengths() is not None:
        raise ValueError("a jagged tensor with gaps between its sequences is given; x.contiguous() has none")
    name = function if isinstance(function, str) else function.__name__
    run = getattr(ops._package, name)
    given = {word: _packed(word, value, like) for word, value in given.items()}
    if axis == ragged:
        given["offsets"] = like.offsets()
    y = run(_packed("a" if name == "linear_recurrence" else "x", x, like), axis=axis - 1, **given)
    finish = functools.partial(_jagged_result, like, axis, ragged, name.startswith(KEEPS_SHAPE), bool(given.get("keepdim")))
    return tuple(map(finish, y)) if isinstance(y, tuple) else finish(y)


def _jagged_result(like, axis, ragged, keeps_shape, keepdim, y):
    if axis == ragged and not keeps_shape:
        y = y.movedim(ragged - 1, 0)
        return y.unsqueeze(ragged) if keepdim else y
    if not keeps_shape and not keepdim and axis < ragged:
        ragged -= 1
    return torch.nested.nested_tensor_from_jagged(y, like.offsets(), jagged_dim=ragged)
