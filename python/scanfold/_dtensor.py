"""DTensors for scanfold.distributed: which ranks share the axis, and the result's placements."""
import operator
import sys

import torch

ALONE = object()  # used as the group of a rank that holds the whole axis


def dim_of(x, dim):
    dim = operator.index(dim)
    if not -x.dim() <= dim < x.dim():
        raise IndexError(f"dim is {dim}; for a tensor of {x.dim()} dimensions it must be {-x.dim()} to {x.dim() - 1}")
    return dim % x.dim()


def kinds():
    try:
        from torch.distributed.tensor import DTensor, Replicate, Shard
    except ImportError:  # torch before 2.5
        return None
    return DTensor, Replicate, Shard


def _mesh_dim(x, dim, Shard):
    """The dimension of the mesh over which `dim` is sharded, or None."""
    for place in x.placements:
        if not isinstance(place, Shard) and not place.is_replicate():
            raise ValueError(f"x has placement {place}; it must be sharded or replicated: redistribute it first")
    found = [i for i, place in enumerate(x.placements) if place.is_shard(dim)]
    if len(found) > 1:
        raise ValueError(f"dimension {dim} of x is sharded over {len(found)} dimensions of the mesh; one is taken: redistribute it first")
    return found[0] if found else None


def _local(name, tensor, x):
    """The local part of another DTensor, which must have the shape, mesh and placements of x."""
    if tensor is None:
        return None
    if not hasattr(tensor, "placements"):
        raise TypeError(f"{name} is a plain tensor and x a DTensor; both must be DTensors")
    if tensor.placements != x.placements or tensor.shape != x.shape or tensor.device_mesh != x.device_mesh:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)} and placements {tensor.placements}; they must be x's, {tuple(x.shape)} and {x.placements}")
    return tensor.to_local()


def on_dtensor(run, x, dim, fold, keepdim, others):
    """run(local x, dim, group, replicated, *local others), with its result as a DTensor."""
    DTensor, Replicate, Shard = kinds()
    dim = dim_of(x, dim)
    along = _mesh_dim(x, dim, Shard)
    group = ALONE if along is None else x.device_mesh.get_group(along)
    y = run(x.to_local(), dim, group, True, *[_local(name, tensor, x) for name, tensor in others])
    placements, shape = list(x.placements), list(x.shape)
    if fold:
        shape[dim:dim + 1] = [1] if keepdim else []
        for i, place in enumerate(placements):
            if i == along:
                placements[i] = Replicate()
            elif isinstance(place, Shard) and place.dim > dim and not keepdim:
                placements[i] = Shard(place.dim - 1)
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(y, x.device_mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride)


def is_dtensor(x):
    if "torch.distributed.tensor" not in sys.modules:  # to import it takes seconds
        return False
    found = kinds()
    return found is not None and isinstance(x, found[0])
