"""mean, var, std and norm for scanfold.distributed: each is computed by a few sharded folds.

The formulas are those of scanfold.mean etc. (src/expr/derive.c), so the results have the same bits.
Gradients come from the folds."""
import builtins
import math
import zlib

import torch
import torch.distributed as dist
from torch import Tensor

from . import distributed as ranks
from . import torch as ops
from ._dtensor import dim_of, is_dtensor, on_dtensor


def _length(name, x, mask, dim, group, check, call):
    """The length of the whole axis. If the arguments of one rank are wrong, or ranks make different
    calls, all ranks raise an error here: `call` has what later exchanges depend on.

    The folds of one call may be those of another, or fewer. So a number made of the call is added up
    over ranks, and its square: only if all have the same are these what each of them expects."""
    number = 0

    def asked():
        nonlocal number
        if not isinstance(x, Tensor):
            raise TypeError(f"x is {type(x).__name__}; it must be a tensor")
        if not x.dtype.is_floating_point:
            raise TypeError(f"x is {x.dtype}; {name} is of real numbers: give x.float()")
        if isinstance(mask, Exception):
            raise mask
        check()
        call.update((key, float(call[key])) for key in ("order", "correction") if key in call)
        number = zlib.crc32(repr((name, call)).encode()) >> 12
        own = torch.tensor([[x.shape[dim_of(x, dim)], number, number ** 2]])
        return own, None, None, torch.empty(3, dtype=torch.int64), ranks.SUM, 0, True, False, False, False, None
    length, *sums = ranks._compute(asked, group).tolist()
    count = 1 if group is ranks.ALONE else dist.get_world_size(group)
    if sums != [count * number, count * number ** 2]:
        described = ", ".join(f"{key}={value}" for key, value in call.items())
        raise ValueError(f"this rank calls {name} with {described}, and another one something else; all ranks must make the same call")
    return length


class _Folds:
    """The folds of one call, on this rank's shard."""
    def __init__(self, dim, group, replicated, mask):
        self.dim, self.group, self.replicated, self.mask = dim, group, replicated, mask

    def fold(self, op, x, mask, initial=None, dtype=None):
        return ranks._Fold.apply(x, op, self.dim, self.group, True, False, mask, initial, dtype or x.dtype, self.replicated)

    def sum(self, x, dtype=None):
        return self.fold(ranks.SUM, x, self.mask, dtype=dtype)

    def count(self, n, x, dtype):
        """How many elements of a line count.

        It is a tensor, because on a device torch divides by a Python number by multiplying with its
        reciprocal, which rounds differently."""
        if self.mask is None:
            return torch.full((), n, dtype=dtype, device=x.device)
        return self.fold(ranks.SUM, self.mask.bool().expand(x.shape), None, dtype=torch.int64).to(dtype)

    def back(self, y):
        """A fold's result, to be used together with the elements of every rank's own shard."""
        return ranks._Everywhere.apply(y, self.group) if self.replicated else y

    def first(self, x):
        """The first element of every line, over all ranks: of one element of each rank, the one
        whose shard begins at 0."""
        length = x.shape[self.dim]
        begin = int(ranks._plain(ranks.SUM, torch.tensor([length]), 0, self.group, exclusive=True))
        own = x.detach().narrow(self.dim, 0, builtins.min(length, 1))
        return self.fold(ranks.MAX, own, torch.full(own.shape, begin == 0, device=x.device), -math.inf)


def _mean(f, x, n, how):
    return f.sum(x, how["acc"]) / f.count(n, x, how["acc"])


def _var(f, x, n, how):
    count = f.count(n, x, torch.float64)
    if f.mask is None:
        distance = x - f.first(x).double()
        squares = (f.sum(distance * distance) - f.sum(distance) ** 2 / count).clamp(min=0)
    else:
        distance = x - f.back(f.sum(x, torch.float64) / count)
        squares = f.sum(distance * distance)
    freedom = (count - how["correction"]).clamp(min=0)
    return squares / (freedom.masked_fill(freedom == 0, math.nan) if how["skips_nan"] else freedom)


def _std(f, x, n, how):
    return _var(f, x, n, how).sqrt()


def _norm(f, x, n, how):
    x, order = x.to(how["acc"]), how["order"]
    if order == 2:
        return f.sum(x * x).sqrt()
    if order == 1:
        return f.sum(x.abs())
    if order > 0:
        size = x.abs() if f.mask is None else torch.where(f.mask.bool(), x.abs(), 0)
        return f.fold(ranks.MAX, size, None)
    return f.fold(ranks.MIN, x.abs(), f.mask)


@ranks._without_dynamo
def _moment(make, name, x, dim, keepdim, mask, skip_nan, dtype, group, **how):
    def check():
        if how.get("order", 2) not in (1, 2, math.inf, -math.inf):
            raise ValueError(f"ord is {how['order']}; over ranks a norm has 1, 2, inf or -inf")

    def run(local, axis, among, replicated, held):
        n = _length(name, local, held, axis, among, check, {**how, "mask": held is not None, "dtype": dtype})
        made = dtype or local.dtype
        how.update(acc=torch.float64 if torch.float64 in (local.dtype, made) else torch.float32, skips_nan=skip_nan)
        y = make(_Folds(axis, among, replicated, held), local, n, how)
        y = ops._cast(y, made)
        return y if keepdim else y.squeeze(axis)
    mask = ranks._without_nan(x, mask, skip_nan)
    if is_dtensor(x):
        return on_dtensor(run, x, dim, True, keepdim, [("mask", mask)])
    return run(x, ranks._safe_dim(x, dim), group, False, mask)


def mean(x, dim, *, keepdim=False, mask=None, skip_nan=False, dtype=None, group=None):
    """The mean over `dim`, the same on every rank."""
    return _moment(_mean, "mean", x, dim, keepdim, mask, skip_nan, dtype, group)


def var(x, dim, *, correction=1, keepdim=False, mask=None, skip_nan=False, dtype=None, group=None):
    """The variance over `dim`, computed in float64."""
    return _moment(_var, "var", x, dim, keepdim, mask, skip_nan, dtype, group, correction=correction)


def std(x, dim, *, correction=1, keepdim=False, mask=None, skip_nan=False, dtype=None, group=None):
    """The square root of the variance."""
    return _moment(_std, "std", x, dim, keepdim, mask, skip_nan, dtype, group, correction=correction)


def norm(x, ord=2, dim=-1, *, keepdim=False, mask=None, skip_nan=False, dtype=None, group=None):
    """The norm along `dim`, of order 1, 2, inf or -inf."""
    return _moment(_norm, "norm", x, dim, keepdim, mask, skip_nan, dtype, group, order=ord)
