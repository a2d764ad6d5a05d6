"""Scans and folds along an axis that is sharded over the ranks of a torch.distributed process group.

Every rank passes its shard, a plain tensor, and gets its part of the result. It has the same bits
as if one process had computed the whole, for any number of ranks and any place where shards begin.
Shards follow one another in the order of ranks. They may have different lengths along `dim`, and
may be empty. Ranks exchange a few values for each line (docs/ranks.md).

    y = scanfold.distributed.cumsum(x, dim=1)        # of this rank's part, on every rank
    total = scanfold.distributed.sum(x, dim=1)       # the same on every rank

A DTensor is used with its placements: sharded along `dim`, along other dimensions, or both.

Gradients are supported: that of a sharded scan is a sharded scan in the other direction. A fold's
result is on every rank, and its gradient is that of the sum of all ranks' losses, as in
torch.distributed.nn. All ranks must call backward together, as they call forward.

Arguments are compared before anything is written: if the arguments of one rank differ from those
of the others, or one rank fails, all ranks raise the same error. Tensors are on the CPU or on CUDA
devices, where all of this is computed. torch.compile breaks its graph here.
"""
import builtins
import functools
import weakref

import torch
import torch.distributed as dist
from torch import Tensor

from . import _scanfold
from ._dtensor import ALONE, dim_of, is_dtensor, on_dtensor
from ._docs import complete as _complete
from ._examples import ranks as _example

__all__ = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "linear_recurrence",
           "sum", "prod", "max", "min", "argmax", "argmin", "logsumexp", "mean", "var", "std", "norm"]

#: If the spans of all ranks together have more bytes than this, they are joined along a tree
#: instead of gathered on every rank.
GATHER_BYTES = 64 << 20

# The first message of a rank: its card; 8 bytes, of which the first is 1 if a span follows; and its
# span for the case that all shards are as long as its own, if it is that short. Beyond so many ranks
# the message would be longer than it is worth, and is the card alone.
_CARD_BYTES, _SPAN_AT, _MESSAGE_BYTES, _MESSAGE_RANKS = 256, 264, 1024, 256

# Over gloo up to so many ranks send their first messages to each other. Receives are posted before a
# rank computes, so that nothing but the message itself is under way after that. Two ranks on 2 cores,
# after 7 ms of work: 0.2 ms, an all-gather 0.6 ms, most of it threads that wake each other.
_PAIRED_RANKS, _TAG = 16, 0x5ca7

SUM, PROD, MAX, MIN, ARGMAX, ARGMIN, LAST_ARGMAX, LAST_ARGMIN, LOGSUMEXP, RECURRENCE = range(10)


# ---------------------------------------------------------------------------------------------------------------
# The exchange of cards and spans, which docs/ranks.md defines
# ---------------------------------------------------------------------------------------------------------------
def _device(group):
    """The device on which a group's messages must be."""
    if "nccl" in str(dist.get_backend(group)):
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _gather(mine, group, ranks):
    """The bytes of all ranks, in the order of ranks. Each rank sends the same number of bytes."""
    if group is ALONE:
        return [mine]
    device = _device(group)
    parts = [torch.empty(mine.numel(), dtype=torch.uint8, device=device) for _ in range(ranks)]
    dist.all_gather(parts, mine.to(device), group=group)
    return [part.cpu() for part in parts]


def _expect(group, rank, ranks):
    """Receives of the first messages of all ranks; None where an all-gather takes them."""
    if group is ALONE or not 1 < ranks <= _PAIRED_RANKS or str(dist.get_backend(group)) != "gloo":
        return None
    parts = torch.empty(ranks, _MESSAGE_BYTES, dtype=torch.uint8)
    others = [(_global(group, other), part) for other, part in enumerate(parts) if other != rank]
    return parts, others, [dist.irecv(part, other, group, _TAG) for other, part in others]


def _meet(mine, expected, group, rank, ranks):
    """The first messages of all ranks, in the order of ranks."""
    if expected is None:
        return _gather(mine, group, ranks)
    parts, others, waits = expected
    sent = [dist.isend(mine, other, group, _TAG) for other, _ in others]
    for work in waits + sent:
        work.wait()
    parts[rank] = mine
    return list(parts)


def _swap(mine, to, expected, source, group):
    """Sends bytes to one rank of the group and receives as many as expected from another; either may be None."""
    device, waits = _device(group), []
    got = torch.empty(expected + 1, dtype=torch.uint8, device=device)  # so that no message is empty
    if to is not None:
        message = torch.cat([mine, mine.new_zeros(1)]).to(device)
        waits.append(dist.P2POp(dist.isend, message, _global(group, to), group))
    if source is not None:
        waits.append(dist.P2POp(dist.irecv, got, _global(group, source), group))
    for work in dist.batch_isend_irecv(waits) if waits else ():
        work.wait()
    return got[:expected].cpu()


def _global(group, rank):
    return rank if group is None else dist.get_global_rank(group, rank)


def _empty(count):
    return torch.empty(count, dtype=torch.uint8)


def _exchange_all(shard, mine, sizes, group):
    """Gathers all spans at once, each padded to the size of the largest."""
    ranks = len(sizes)
    padded = _empty(builtins.max(sizes))
    padded[:mine.numel()] = mine
    spans = _gather(padded, group, ranks) if padded.numel() else [padded] * ranks
    _scanfold.shard_finish(shard, torch.cat([span[:size] for span, size in zip(spans, sizes)]))


def _exchange_tree(shard, mine, rank_of, rank, fold, group):
    """In each round a place receives the span of the place `far` before it and joins it with its
    own; `far` doubles each time. In the end each place has the span of all places up to itself. For
    a scan it sends that to the next place; for a fold the last place sends it to all."""
    ranks, place = len(rank_of), rank_of.index(rank)
    far = 1
    while far < ranks:
        to = rank_of[place + far] if place + far < ranks else None
        source = rank_of[place - far] if place >= far else None
        first, middle = builtins.max(0, place - 2 * far + 1), place - far + 1
        got = _swap(mine, to, _scanfold.shard_bytes(shard, first, middle) if source is not None else 0, source, group)
        if source is not None:
            joined = _empty(_scanfold.shard_bytes(shard, first, place + 1))
            _scanfold.shard_join(shard, first, middle, place + 1, got, mine, joined)
            mine = joined
        far *= 2
    if fold:
        whole = mine if place == ranks - 1 else _empty(_scanfold.shard_bytes(shard, 0, ranks))
        whole = whole.to(_device(group))
        dist.broadcast(whole, _global(group, rank_of[-1]), group=group)
        before = whole.cpu()
    else:
        before = _swap(mine, rank_of[place + 1] if place + 1 < ranks else None, _scanfold.shard_bytes(shard, 0, place),
                       rank_of[place - 1] if place else None, group)
    _scanfold.shard_finish_from(shard, before)


class _Opened:
    """One rank's shard, opened with the cards of all."""
    def __init__(self, arguments, rank, ranks, cards):
        self.shard = _scanfold.shard_open(*arguments, rank, ranks, cards)
        _, _, places = _scanfold.shard_places(self.shard)
        self.rank_of = sorted(range(ranks), key=places.__getitem__)
        self.sizes = [_scanfold.shard_bytes(self.shard, place, place + 1) for place in places]
        self.largest = builtins.max(self.sizes)
        self.mine = _empty(self.sizes[rank])

    def computed(self):
        """The same, once this rank's span has been computed."""
        _scanfold.shard_values(self.shard, self.mine)
        return self

    def gathers(self):
        return self.largest * len(self.sizes) <= GATHER_BYTES

    def fits(self):
        """Whether the spans of all ranks can be part of their first messages."""
        return self.largest <= _MESSAGE_BYTES - _SPAN_AT and self.gathers()


def _guessed(arguments, rank, ranks, card):
    """The shard if all ranks have this rank's card; None if there is none, as where the card
    reports an error."""
    try:
        return _Opened(arguments, rank, ranks, card * ranks)
    except (ValueError, TypeError, RuntimeError, MemoryError):
        return None


# For each group, the lengths of this rank's shards beside which other ranks had different ones.
_uneven = weakref.WeakKeyDictionary()


def _remember(group, length, alike):
    lengths = _uneven.setdefault(group, set())
    if alike:
        lengths.discard(length)
    elif len(lengths) < 1000:
        lengths.add(length)


def _compute(asked, group):
    """Computes one sharded scan or fold. `asked` returns the arguments of _scanfold.shard_card, of
    which the fourth is the result; it may raise an error.

    Where a shard begins is known only when all cards are there. Most shards are equally long, so a
    rank assumes that the others have its own card, and sends its span along with it. Where that was
    wrong, the shard is read a second time, and spans are a second message."""
    rank, ranks = (0, 1) if group is ALONE else (dist.get_rank(group), dist.get_world_size(group))
    if rank < 0:
        raise ValueError("this rank is not in the group; only those that are can take part")
    known = dist.group.WORLD if group is None or group is ALONE else group
    arguments, opened, length = None, None, None
    expected = _expect(group, rank, ranks)
    message = torch.zeros(_MESSAGE_BYTES if ranks <= _MESSAGE_RANKS else _CARD_BYTES, dtype=torch.uint8)
    try:
        arguments = asked()
        card = _scanfold.shard_card(*arguments)
        length = arguments[0].shape[arguments[5]]
        if ranks <= _MESSAGE_RANKS and length not in _uneven.get(known, ()):
            opened = _guessed(arguments, rank, ranks, card)
        if opened is not None:
            opened.computed()
            if opened.fits():
                message[_SPAN_AT:_SPAN_AT + opened.mine.numel()] = opened.mine
                message[_CARD_BYTES] = 1
    except Exception as failed:  # every error must be reported to the other ranks
        card = _scanfold.shard_failed(f"{type(failed).__name__}: {failed}")
        message.zero_()
        # These arguments are not used: the cards say that this rank has failed.
        arguments = (torch.empty(1), None, None, torch.empty(1), SUM, 0, False, False, False, False, None)
        opened = None
    message[:_CARD_BYTES] = torch.frombuffer(bytearray(card), dtype=torch.uint8)
    messages = _meet(message, expected, group, rank, ranks)
    cards = [bytes(part[:_CARD_BYTES].numpy()) for part in messages]
    alike = cards.count(card) == ranks
    if ranks > 1 and length is not None:
        _remember(known, length, alike)
    if opened is None or not alike:
        opened = _Opened(arguments, rank, ranks, b"".join(cards)).computed()
    if alike and all(part.numel() > _CARD_BYTES and part[_CARD_BYTES] for part in messages):
        spans = [part[_SPAN_AT:_SPAN_AT + size] for part, size in zip(messages, opened.sizes)]
        _scanfold.shard_finish(opened.shard, torch.cat(spans))
        return arguments[3]
    if opened.gathers():
        _exchange_all(opened.shard, opened.mine, opened.sizes, group)
    else:
        _exchange_tree(opened.shard, opened.mine, opened.rank_of, rank, arguments[6], group)
    return arguments[3]


# ---------------------------------------------------------------------------------------------------------------
# Plain tensors, without gradients
# ---------------------------------------------------------------------------------------------------------------
def _result_dtype(op, x, dtype):
    if dtype is not None:
        return dtype
    if op in (SUM, PROD) and not x.dtype.is_floating_point:
        return torch.int64
    if ARGMAX <= op <= LAST_ARGMIN:
        return torch.int64
    if op in (LOGSUMEXP, RECURRENCE) and not x.dtype.is_floating_point:
        return torch.float32
    return x.dtype


def _plain(op, x, dim, group, *, fold=False, keepdim=False, reverse=False, exclusive=False, mask=None, initial=None, dtype=None, a=None):
    def asked():
        for name, tensor in (("x", x), ("mask", mask), ("a", a)):
            if isinstance(tensor, Exception):
                raise tensor
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"{name} is {type(tensor).__name__}; it must be a tensor")
        axis = dim_of(x, dim)
        shape = list(x.shape)
        if fold:
            shape[axis:axis + 1] = [1] if keepdim else []
        out = torch.empty(shape, dtype=_result_dtype(op, x, dtype), device=x.device)
        given = (t if t is None else t.detach().resolve_neg().to(x.device) for t in (x, a, mask))
        return (*given, out, op, axis, fold, keepdim, bool(reverse), bool(exclusive), initial)
    return _compute(asked, group)


# ---------------------------------------------------------------------------------------------------------------
# Gradients. They are composed of the functions below, which have gradients too
# ---------------------------------------------------------------------------------------------------------------
def _scanned(op, x, dim, group, reverse=False, exclusive=False, mask=None, initial=None, dtype=None):
    return _Scan.apply(x, op, dim, group, reverse, exclusive, mask, initial, dtype)


def _later(a, b, ctx):
    """For each position, the state of h = a h + b over all positions that come later in the scan's
    direction: an exclusive recurrence in the opposite direction."""
    return _Recurrence.apply(a, b, ctx.dim, ctx.group, not ctx.how["reverse"], True, None, None)


def _chained(a, g, ctx):
    """Carries the gradients of results back to the elements they came from: each is multiplied by
    its own a and passed on to the position before. An exclusive result does not depend on the
    element at its own position."""
    return _later(a, g, ctx) if ctx.how["exclusive"] else g + _later(a, a * g, ctx)


def _masked(ctx, x, identity):
    return x if ctx.how["mask"] is None else torch.where(ctx.how["mask"].bool(), x, identity)


def _from_all(g, group):
    """The sum of the tensors of all ranks, added in the order of ranks."""
    return _Fold.apply(g.unsqueeze(0), SUM, 0, group, False, False, None, None, g.dtype, False)


class _Everywhere(torch.autograd.Function):
    """A tensor that is the same on every rank, and that every rank uses for its own shard. Its
    gradient is the sum of the gradients of all ranks."""
    @staticmethod
    def forward(ctx, y, group):
        ctx.group = group
        return y.view_as(y)

    @staticmethod
    def backward(ctx, g):
        return _from_all(g, ctx.group), None


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, op, dim, group, reverse, exclusive, mask, initial, dtype):
        how = {"reverse": reverse, "exclusive": exclusive, "mask": mask}
        y = _plain(op, x, dim, group, initial=initial, dtype=dtype, **how)
        ctx.op, ctx.dim, ctx.group, ctx.how, ctx.initial = op, dim, group, how, initial
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        g = _SCAN_GRADIENTS[ctx.op](ctx, x, y, g)
        mask = ctx.how["mask"]
        g = g if mask is None else torch.where(mask.bool(), g, 0)
        return g.to(x.dtype), *[None] * 8


def _sum_gradient(ctx, x, y, g):
    return _scanned(SUM, g, ctx.dim, ctx.group, not ctx.how["reverse"], ctx.how["exclusive"])


def _prod_gradient(ctx, x, y, g):
    """The product of all elements before, times the sum over this and later results of their
    gradients, each multiplied by the factors in between."""
    x, g = _masked(ctx, x.to(y.dtype), 1), g * (1 if ctx.initial is None else ctx.initial)
    return _scanned(PROD, x, ctx.dim, ctx.group, ctx.how["reverse"], True) * _chained(x, g, ctx)


def _taken(ctx, op, x, g, fold):
    """g, with 0 where the initial value is the result: there no element gets a gradient."""
    if ctx.initial is None:
        return g
    keep = {"fold": True, "keepdim": True} if fold else {}
    y = _plain(op, x.detach(), ctx.dim, ctx.group, **ctx.how, **keep)
    beaten = y < ctx.initial if op == MAX else y > ctx.initial
    return torch.where(beaten, 0, g)


def _extreme_gradient(op, position_op):
    def gradient(ctx, x, y, g):
        """The gradient of each result goes to the element that it is. A run of results that come
        from one element begins at that element, so their gradients are added up towards it."""
        g = _taken(ctx, op, x, g, False)
        indices = _plain(position_op, x, ctx.dim, ctx.group, **dict(ctx.how, exclusive=False))
        begins = indices == _positions(x, ctx.dim, ctx.group)
        return torch.where(begins, _chained((~begins).to(g.dtype), g, ctx), 0)
    return gradient


def _positions(x, dim, group):
    """The positions of this rank's elements along the whole axis, for comparison with indices."""
    length = x.shape[dim]
    first = int(_plain(SUM, torch.tensor([length]), 0, group, exclusive=True))
    return torch.arange(first, first + length, device=x.device).reshape([length if d == dim else 1 for d in range(x.dim())])


def _ratio(x, y):
    """exp(x - y), where y is at least x; 0 where y is -inf, the logarithm of an empty sum."""
    nothing = y == float("-inf")
    return torch.where(nothing, 0, torch.exp(torch.where(nothing, 0, x) - torch.where(nothing, 0, y)))


def _logsumexp_gradient(ctx, x, y, g):
    """Composed of factors exp(x - y). Each sum is at least as large as the one before, so no factor
    is above 1 and nothing overflows."""
    how, wide = dict(ctx.how), y.dtype
    if how.pop("exclusive"):
        before, y = y, _scanned(LOGSUMEXP, x, ctx.dim, ctx.group, dtype=wide, **how)
    else:
        before = _scanned(LOGSUMEXP, x, ctx.dim, ctx.group, exclusive=True, dtype=wide, **how)
    return _ratio(_masked(ctx, x.to(wide), float("-inf")), y) * _chained(_ratio(before, y), g, ctx)


_SCAN_GRADIENTS = {SUM: _sum_gradient, PROD: _prod_gradient, MAX: _extreme_gradient(MAX, LAST_ARGMAX), MIN: _extreme_gradient(MIN, LAST_ARGMIN),
                   LOGSUMEXP: _logsumexp_gradient}


class _Fold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, op, dim, group, keepdim, reverse, mask, initial, dtype, replicated):
        how = {"reverse": reverse, "mask": mask}
        y = _plain(op, x, dim, group, fold=True, keepdim=keepdim, initial=initial, dtype=dtype, **how)
        ctx.op, ctx.dim, ctx.group, ctx.keepdim, ctx.how, ctx.initial, ctx.replicated = op, dim, group, keepdim, how, initial, replicated
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        if ctx.replicated:
            g, y = _Everywhere.apply(g, ctx.group), _Everywhere.apply(y, ctx.group)
        else:
            g = _from_all(g, ctx.group)
        if not ctx.keepdim:
            g, y = g.unsqueeze(ctx.dim), y.unsqueeze(ctx.dim)
        mask = ctx.how["mask"]
        g = _FOLD_GRADIENTS[ctx.op](ctx, x, y, g)
        g = g if mask is None else torch.where(mask.bool(), g, 0)
        return g.to(x.dtype), *[None] * 9


def _fold_sum_gradient(ctx, x, y, g):
    return g.expand(x.shape)


def _fold_prod_gradient(ctx, x, y, g):
    x = _masked(ctx, x.to(y.dtype), 1)
    before = _scanned(PROD, x, ctx.dim, ctx.group, exclusive=True)
    after = _scanned(PROD, x, ctx.dim, ctx.group, exclusive=True, reverse=True)
    return g * before * after * (1 if ctx.initial is None else ctx.initial)


def _fold_extreme_gradient(op, position_op):
    def gradient(ctx, x, y, g):
        g = _taken(ctx, op, x, g, True)
        indices = _plain(position_op, x, ctx.dim, ctx.group, fold=True, keepdim=True, **ctx.how)
        return torch.where(indices == _positions(x, ctx.dim, ctx.group), g, 0)
    return gradient


def _fold_logsumexp_gradient(ctx, x, y, g):
    return _ratio(_masked(ctx, x.to(y.dtype), float("-inf")), y) * g


_FOLD_GRADIENTS = {SUM: _fold_sum_gradient, PROD: _fold_prod_gradient, MAX: _fold_extreme_gradient(MAX, ARGMAX),
                   MIN: _fold_extreme_gradient(MIN, ARGMIN), LOGSUMEXP: _fold_logsumexp_gradient}


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, dim, group, reverse, exclusive, initial, dtype):
        y = _plain(RECURRENCE, b, dim, group, a=a, reverse=reverse, exclusive=exclusive, initial=initial, dtype=dtype)
        ctx.dim, ctx.group, ctx.how, ctx.initial = dim, group, {"reverse": reverse, "exclusive": exclusive}, initial
        ctx.save_for_backward(a, b)
        ctx.made = y.dtype
        return y

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        wide, ga = a.to(ctx.made), None
        gb = _chained(wide, g, ctx)
        if ctx.needs_input_grad[0]:
            before = _Recurrence.apply(wide, b.to(ctx.made), ctx.dim, ctx.group, ctx.how["reverse"], True, ctx.initial, None)
            ga = (gb * before).to(a.dtype)
        return ga, gb.to(b.dtype), *[None] * 6


# ---------------------------------------------------------------------------------------------------------------
# The public functions
# ---------------------------------------------------------------------------------------------------------------
def _without_dynamo(function):
    """A decorator: torch.compile does not trace the function. Neither it nor a call that is not
    traced imports torch._dynamo, which takes seconds."""
    lazily = getattr(getattr(torch, "_compile", None), "_disable_dynamo", None)
    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    if not lazily or not compiling:
        return lazily(function) if lazily else function
    untraced = lazily(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        return untraced(*args, **kwargs) if compiling() else function(*args, **kwargs)
    return call


@_without_dynamo
def _scan(op, x, dim, reverse, exclusive, mask, initial, dtype, group):
    def run(local, axis, among, _, held):
        return _Scan.apply(local, op, axis, among, reverse, exclusive, held, initial, dtype)
    if is_dtensor(x):
        return on_dtensor(run, x, dim, False, False, [("mask", mask)])
    return run(x, _safe_dim(x, dim), group, False, mask)


@_without_dynamo
def _fold(op, x, dim, keepdim, reverse, mask, initial, dtype, group):
    def run(local, axis, among, replicated, held):
        if op in (ARGMAX, ARGMIN):
            return _plain(op, local, axis, among, fold=True, keepdim=keepdim, reverse=reverse, mask=held)
        return _Fold.apply(local, op, axis, among, keepdim, reverse, held, initial, dtype, replicated)
    if is_dtensor(x):
        return on_dtensor(run, x, dim, True, keepdim, [("mask", mask)])
    return run(x, _safe_dim(x, dim), group, False, mask)


def _without_nan(x, mask, skip_nan):
    """The mask, which with skip_nan also excludes the elements that are NaN. An error takes its
    place, so that all ranks report it later."""
    if not skip_nan or not isinstance(x, Tensor) or not x.dtype.is_floating_point:
        return mask
    try:
        return x == x if mask is None else (x == x) & mask.bool()
    except Exception as failed:
        return failed


def _safe_dim(x, dim):
    """dim counted from 0. An invalid one stays as it is, so that all ranks report it later."""
    try:
        return dim_of(x, dim)
    except Exception:
        return dim


@_without_dynamo
def _recur(a, b, dim, reverse, exclusive, initial, dtype, group):
    def run(local, axis, among, _, factor):
        return _Recurrence.apply(factor, local, axis, among, reverse, exclusive, initial, dtype)
    if is_dtensor(b):
        return on_dtensor(run, b, dim, False, False, [("a", a)])
    if isinstance(a, (int, float)) and isinstance(b, Tensor):
        a = torch.full((1,) * b.dim(), a, dtype=b.dtype if b.dtype.is_floating_point else torch.float32, device=b.device)
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dim() == b.dim():
        a = a.expand(b.shape) if all(n in (1, m) for n, m in zip(a.shape, b.shape)) else a
    return run(b, _safe_dim(b, dim), group, False, a)


def cumsum(x, dim, *, reverse=False, exclusive=False, mask=None, skip_nan=False, initial=None, dtype=None, group=None):
    """The cumulative sum along `dim`."""
    return _scan(SUM, x, dim, reverse, exclusive, _without_nan(x, mask, skip_nan), initial, dtype, group)


def cumprod(x, dim, *, reverse=False, exclusive=False, mask=None, skip_nan=False, initial=None, dtype=None, group=None):
    """The cumulative product along `dim`."""
    return _scan(PROD, x, dim, reverse, exclusive, _without_nan(x, mask, skip_nan), initial, dtype, group)


def cummax(x, dim, *, reverse=False, exclusive=False, mask=None, skip_nan=False, initial=None, dtype=None, group=None):
    """The largest element so far along `dim`: values only."""
    return _scan(MAX, x, dim, reverse, exclusive, _without_nan(x, mask, skip_nan), initial, dtype, group)


def cummin(x, dim, *, reverse=False, exclusive=False, mask=None, skip_nan=False, initial=None, dtype=None, group=None):
    """The smallest element so far along `dim`: values only."""
    return _scan(MIN, x, dim, reverse, exclusive, _without_nan(x, mask, skip_nan), initial, dtype, group)


def logcumsumexp(x, dim, *, reverse=False, exclusive=False, mask=None, skip_nan=False, dtype=None, group=None):
    """The logarithm of the cumulative sum of exponentials along `dim`."""
    return _scan(LOGSUMEXP, x, dim, reverse, exclusive, _without_nan(x, mask, skip_nan), None, dtype, group)


def linear_recurrence(a, b, dim, *, reverse=False, exclusive=False, initial=None, dtype=None, group=None):
    """h[i] = a[i] * h[i-1] + b[i] along `dim`.

    a         a tensor that broadcasts to b, or a number
    b         this rank's shard
    initial   h before the first element of the whole axis: a number, by default 0
    """
    return _recur(a, b, dim, reverse, exclusive, initial, dtype, group)


def sum(x, dim, *, keepdim=False, reverse=False, mask=None, skip_nan=False, initial=None, dtype=None, group=None):
    """The sum over `dim`, the same on every rank."""
    return _fold(SUM, x, dim, keepdim, reverse, _without_nan(x, mask, skip_nan), initial, dtype, group)


def prod(x, dim, *, keepdim=False, reverse=False, mask=None, skip_nan=False, initial=None, dtype=None, group=None):
    """The product over `dim`."""
    return _fold(PROD, x, dim, keepdim, reverse, _without_nan(x, mask, skip_nan), initial, dtype, group)


def max(x, dim, *, keepdim=False, reverse=False, mask=None, skip_nan=False, initial=None, dtype=None, group=None):
    """The largest element along `dim`: the value only."""
    return _fold(MAX, x, dim, keepdim, reverse, _without_nan(x, mask, skip_nan), initial, dtype, group)


def min(x, dim, *, keepdim=False, reverse=False, mask=None, skip_nan=False, initial=None, dtype=None, group=None):
    """The smallest element along `dim`: the value only."""
    return _fold(MIN, x, dim, keepdim, reverse, _without_nan(x, mask, skip_nan), initial, dtype, group)


def argmax(x, dim, *, keepdim=False, mask=None, skip_nan=False, group=None):
    """The position of the largest element along the whole axis: the first of equal ones."""
    return _fold(ARGMAX, x, dim, keepdim, False, _without_nan(x, mask, skip_nan), None, None, group)


def argmin(x, dim, *, keepdim=False, mask=None, skip_nan=False, group=None):
    """The position of the smallest element along the whole axis: the first of equal ones."""
    return _fold(ARGMIN, x, dim, keepdim, False, _without_nan(x, mask, skip_nan), None, None, group)


def logsumexp(x, dim, *, keepdim=False, mask=None, skip_nan=False, dtype=None, group=None):
    """The logarithm of the sum of exponentials over `dim`."""
    return _fold(LOGSUMEXP, x, dim, keepdim, False, _without_nan(x, mask, skip_nan), None, dtype, group)


from ._sharded_moments import mean, norm, std, var  # noqa: E402,F401: uses the names above


_RETURNS = {"scan": "Returns this rank's part of the result: a tensor, or a DTensor, of the shard's shape and on its device.",
            "fold": "Returns the result over all ranks, which is the same on every rank: a tensor without `dim`, or a DTensor, on the shard's device."}
for _name in __all__:
    _complete(globals()[_name], returns=_RETURNS, example=_example(_name), x="this rank's shard: a tensor, or a DTensor",
              dim="the dimension that is sharded",
              dtype="of the result; by default that of x, which must be real" if _name in ("mean", "var", "std", "norm") else f"as for {_name}")
