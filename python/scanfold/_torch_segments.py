"""Segmented scans and folds of torch tensors whose gradient is wanted: the gradient of each is made of segmented scans, folds and spreads again, so that
it can be differentiated in turn."""
import torch

from . import _scanfold

OPS = ("sum", "prod", "max", "min", "argmax", "argmin", "last_argmax", "last_argmin", "logsumexp")


def spread(values, offsets, axis, n):
    """Each segment's value, for each of its elements; 0 for what stands behind the last offset."""
    lengths = offsets.to(torch.int64).diff()
    spread_out = values.repeat_interleave(lengths, dim=axis)
    rest = n - spread_out.shape[axis]
    if rest:
        shape = list(spread_out.shape)
        shape[axis] = rest
        spread_out = torch.cat([spread_out, spread_out.new_zeros(shape)], axis)
    return spread_out


def _kept(dx, mask):
    return dx if mask is None else torch.where(mask.to(torch.bool), dx, dx.new_zeros(()))


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, op, axis, reverse, exclusive, mask, initial, dtype, offsets):
        y = _scanfold.scan(x.detach(), op, axis, reverse, exclusive, mask, initial, dtype, None, True, False, offsets)
        ctx.save_for_backward(x, mask, offsets)
        ctx.how = op, axis, reverse, exclusive, initial
        ctx.set_materialize_grads(False)
        if OPS[op] in ("argmax", "argmin", "last_argmax", "last_argmin"):
            ctx.mark_non_differentiable(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, mask, offsets = ctx.saved_tensors
        op, axis, reverse, exclusive, initial = ctx.how
        if grad is None:
            return (None,) * 9
        if OPS[op] == "sum":
            dx = scan(grad, 0, axis, not reverse, exclusive, None, None, None, offsets)
        elif OPS[op] in ("max", "min") and not exclusive and initial is None:
            where = _scanfold.scan(x.detach(), op + 4, axis, reverse, exclusive, mask, None, None, None, True, False, offsets)
            n = x.shape[axis]
            lengths = torch.cat([offsets.to(torch.int64), offsets.new_full((1,), n, dtype=torch.int64)]).diff()
            begin = torch.cat([offsets[:-1], offsets[-1:]]).repeat_interleave(lengths).to(torch.int64)
            where = where + begin.reshape((n,) + (1,) * (x.dim() - 1 - axis))
            dx = torch.zeros_like(grad).scatter_add(axis, where.clamp(min=0), grad)
        else:
            raise NotImplementedError(f"the gradient of a segmented cum{OPS[op]} is not there yet; those of cumsum, and of cummax and cummin without "
                                      "exclusive and initial, are")
        return (_kept(dx, mask).to(x.dtype),) + (None,) * 8


class _Fold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, op, axis, reverse, mask, initial, dtype, offsets):
        y = _scanfold.fold(x.detach(), op, axis, True, reverse, mask, initial, dtype, None, True, False, offsets)
        ctx.save_for_backward(x, mask, offsets)
        ctx.how = op, axis, reverse, initial
        ctx.set_materialize_grads(False)
        if OPS[op] in ("argmax", "argmin", "last_argmax", "last_argmin"):
            ctx.mark_non_differentiable(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, mask, offsets = ctx.saved_tensors
        op, axis, reverse, initial = ctx.how
        if grad is None:
            return (None,) * 8
        n = x.shape[axis]
        g = spread(grad, offsets, axis, n)
        if OPS[op] == "sum":
            dx = g
        elif OPS[op] == "logsumexp":
            y = fold(x, op, axis, reverse, mask, initial, grad.dtype, offsets)
            dx = g * torch.exp(x.to(grad.dtype) - spread(torch.where(y == float("-inf"), 0.0, y), offsets, axis, n))
        elif OPS[op] in ("max", "min"):  # equal ones share it, as those of torch.amax do
            y = _scanfold.fold(x.detach(), op, axis, True, reverse, mask, initial, None, None, True, False, offsets)
            best = _kept((x == spread(y, offsets, axis, n)).to(grad.dtype), mask)
            many = _scanfold.fold(best, 0, axis, True, False, None, None, None, None, True, False, offsets)
            dx = g * best / spread(many.clamp(min=1), offsets, axis, n).clamp(min=1)
        else:  # what all others come to
            neutral = x if mask is None else torch.where(mask.to(torch.bool), x, x.new_ones(()))
            others = [_scanfold.scan(neutral.detach(), op, axis, back, True, None, None, grad.dtype, None, True, False, offsets) for back in (False, True)]
            if torch.is_grad_enabled():
                raise NotImplementedError("the second gradient of a segmented prod is not there yet")
            dx = g * others[0] * others[1] * (1 if initial is None else initial)
        return (_kept(dx, mask).to(x.dtype),) + (None,) * 7


def scan(x, op, axis, reverse, exclusive, mask, initial, dtype, offsets):
    return _Scan.apply(x, op, axis, reverse, exclusive, mask, initial, dtype, offsets)


def fold(x, op, axis, reverse, mask, initial, dtype, offsets):
    return _Fold.apply(x, op, axis, reverse, mask, initial, dtype, offsets)


def derived(name, x, axis, mask, dtype, offsets):
    """softmax, log_softmax or mean of each segment, made of what has gradients."""
    n = x.shape[axis]
    if dtype is not None:
        from ._dtypes import name as spelled
        x = x.to(getattr(torch, spelled(dtype)))
    if name == "mean":
        many = offsets.to(torch.int64).diff().to(x.dtype).reshape((-1,) + (1,) * (x.dim() - 1 - axis))
        if mask is not None:
            kept = mask.to(x.dtype).expand_as(x).contiguous()
            many = _scanfold.fold(kept, 0, axis, True, False, None, None, None, None, True, False, offsets)
        return fold(x, 0, axis, False, mask, None, None, offsets) / many
    most = _scanfold.fold(x.detach(), 2, axis, True, False, mask, None, None, None, True, False, offsets)
    beyond = x - spread(most, offsets, axis, n)
    e = _kept(torch.exp(beyond), mask)
    total = fold(e, 0, axis, False, None, None, None, offsets)
    if name == "softmax":
        return _kept(e / spread(total, offsets, axis, n), mask)
    return _kept(beyond - spread(torch.log(total), offsets, axis, n), mask)
