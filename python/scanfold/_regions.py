"""Finds regions of an aten graph, and replaces each in place by one expression.

Each scan or fold is an anchor. Nodes whose results are used only by the region join it, and so do
the users of its results, and other anchors that read the same tensors. A region is taken if it is
convex (no path leaves it and comes back), if the library can plan it, and if the estimate says that
Inductor would not be faster.
"""
import logging
import math
import operator

import torch

from . import _scanfold
from ._translate import (CASTS, DERIVED, FLIPS, FOLDS, MATMULS, OURS, RESHAPES, SCANS, STD, VAR, VIEWS, Program, aten,
                         axes_of, constant, dtype_code, filled, lengthened, reshaped_product, rounds_differently,
                         same_length, shape_of, translate)
from .torch import INDICES, WIDER

log = logging.getLogger("scanfold")
MAX_INPUTS = 32  # the limit in _programs.h
MAX_RESULTS = 16  # of one region; more results need another region
EXACT = "exact "  # the prefix of a program whose operators keep their own rounding
# Most nodes in a region that applies a fold's result to its elements: longer ones need more passes.
LONGEST = 24


def _is_anchor(node):
    return node.op == "call_function" and (node.target in SCANS or node.target in FOLDS)


def _tensors(node):
    longer = lengthened(node)
    if longer is not None:
        return [longer[0]]
    return [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor) and constant(n) is None]


def _translatable(node):
    return translate(Program(), node) is not None


def _is_product(node):
    return node.target in MATMULS or reshaped_product(node) is not None


def _leads_to_a_sum(node, region):
    """Whether a matrix product leads only to a sum, so that it need not be computed. Otherwise it
    is not worth taking."""
    while True:
        users = list(node.users)
        if len(users) != 1 or users[0] not in region:
            return False
        user = users[0]
        if user.target in (aten.sum.dim_IntList, aten.sum.default, aten.mean.dim, aten.mean.default):
            return True
        if user.target not in (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.neg.default):
            return False
        node = user


def _convex(region):
    """Whether no path leaves the region and comes back. With such a path it cannot be one call."""
    beyond, ahead = set(), [u for member in region for u in member.users]
    while ahead:
        node = ahead.pop()
        if node not in region and node not in beyond:
            beyond.add(node)
            ahead.extend(node.users)
    return not any(n in beyond for member in region for n in member.all_input_nodes)


def _results(region):
    """The members that nodes outside the region use."""
    return [n for n in region if any(u not in region for u in n.users)]


def _is_last(user, scan):
    """Whether a user takes the last element of a scan: the two together are a fold."""
    if user.target is not aten.select.int or scan.target not in SCANS:
        return False
    axis, index, shape = user.args[1], user.args[2], shape_of(scan)
    return type(scan.args[1]) is int and axis % len(shape) == scan.args[1] % len(shape) and (index == -1 or same_length(index + 1, shape[axis]))


def _is_lengthened(node, user):
    """Whether a user makes a scan one longer, with a number before or after it, or is a slice that
    only such a user reads. The scan is then written directly into the longer result."""
    if user.target is aten.slice.Tensor:
        users = list(user.users)
        return len(users) == 1 and users[0].target is not aten.slice.Tensor and _is_lengthened(user, users[0]) and \
            lengthened(users[0])[1] == (user.args[1] if len(user.args) > 1 else 0) % len(shape_of(user))
    longer = lengthened(user)
    return longer is not None and longer[0] is node


def _reach(region):
    """The size to which a fold's result may be broadcast again, as in a softmax.

    On the CPU it is the size of what was folded: lines stay in cache until all steps on them are
    done. On CUDA, with scans, and in regions of many nodes it is 0: the result may not grow."""
    if not all(n.meta["val"].device.type == "cpu" for n in region) or any(n.target in SCANS for n in region) or len(region) > LONGEST:
        return 0
    return max((_numel(n.args[0]) for n in region if n.target in FOLDS), default=0)


def _joins_behind(node, user, region, taken, reach):
    """Whether a user of a result may join the region.

    It must be elementwise, a flip, or the last element of a scan; where `reach` is not 0 it may
    also be an expand or unsqueeze. Its result may be no larger than the node or than `reach`, and
    the region must stay convex. A node that makes a scan one longer may join too, but nothing may
    follow it."""
    if user in region or user in taken or _is_product(user) or lengthened(node) is not None:
        return False
    longer = any(n.target in SCANS for n in region) and _is_lengthened(node, user)
    stretched = reach and user.target in (aten.expand.default, aten.unsqueeze.default)
    if user.target in VIEWS and user.target not in FLIPS and not longer and not stretched and not _is_last(user, node):
        return False
    most = _numel(node) if lengthened(user) is not None else max(reach, _numel(node))
    return _translatable(user) and (longer or _numel(user) <= most) and (len(region) == 1 or _convex(region | {user}))


def _grow(anchors, taken, exact):
    """The region of some anchors: they, the nodes that are used only inside it, and the users of
    its results that may join. With `exact`, matrix products do not join, because they must be
    computed."""
    region = set(anchors)
    while True:
        before = len(region)
        for node in [n for member in list(region) for n in _tensors(member)]:
            if node in region or node in taken or node.op != "call_function" or not all(u in region for u in node.users):
                continue
            if _is_product(node) and (exact or not _leads_to_a_sum(node, region)):
                continue
            if _translatable(node):
                region.add(node)
        reach = _reach(region)
        for node in _results(region):
            users = list(node.users)
            for user in users if len(users) == 1 or reach else ():
                if _joins_behind(node, user, region, taken, reach):
                    region.add(user)
        if len(region) == before:
            return region


def _numel(node):
    n = 1
    for length in shape_of(node):
        n *= _hint(length)
    return n


def _hint(length):
    return length if isinstance(length, int) else length.node.hint


def _inputs(region):
    return {n for member in region for n in _tensors(member)} - region


def _ahead(anchor, region):
    """All nodes that an anchor reads, directly or through members. The search stops at other
    anchors and at nodes outside the region."""
    seen, ahead = set(), [anchor]
    while ahead:
        for n in set(_tensors(ahead.pop())) - seen:
            seen.add(n)
            if n in region and not _is_anchor(n):
                ahead.append(n)
    return seen


# --------------------------------------------------------------------------------------------------
# Whether we or Inductor compute a region: the cost of each, as the bytes that a copy would move in
# the same time
# --------------------------------------------------------------------------------------------------
# Time divided by that of a copy of as many bytes. Measured with bench/models.py on an H200.
THEIR_FOLD = 1.1   # Inductor's folds take 1.03 (prod) to 1.5 (amax) times as long as ours
THEIR_SCAN = 2.5   # 1.2 for rows of 4096, 4 for long rows
THEIR_COLUMNS = 8  # a scan along another axis than the last
THEIR_LINE = 0.85  # the largest so far with its place on the CPU, of one line: torch's own loop
OUR_FOLD = 1
OUR_BAD_FOLD = 2   # a fold of elementwise work with a broadcast operand, or over several last axes
OUR_VAR = 5        # on the CPU, of halves along rows and of elementwise work: two sums in f64
OUR_VAR_MEAN = 1.25  # on the CPU, of f32 and f64 along rows, with another fold beside it
OUR_COPY = 3       # of a tensor made longer before a scan or fold: it is written and read again
OUR_APPLY = 1.5    # on the CPU, a fold's result applied to its elements: Inductor's exp is faster
LAUNCH = 8 << 20   # a kernel launch: two microseconds
# On CUDA, arithmetic in the same measure, for each element: ours, and Inductor's, whose functions
# are not rounded as ours are. Measured on an H200, as sums of rows of 4096 f32.
WORK = {"exp": (4.9, 4.2), "log": (7.2, 5.6), "sigmoid": (7.7, 3.7), "tanh": (7.7, 5.3)}
LEAST_WORK = 0.2, 0.2  # one instruction


def _bytes(nodes):
    return sum(_numel(n) * n.meta["val"].dtype.itemsize for n in nodes)


def _work(region):
    """(ours, Inductor's): the arithmetic of a region's elementwise nodes, as bytes."""
    nodes = [(_numel(n), WORK.get(n.target.overloadpacket.__name__, LEAST_WORK)) for n in region
             if isinstance(n.target, torch._ops.OpOverload) and torch.Tag.pointwise in n.target.tags]
    return [sum(numel * costs[whose] for numel, costs in nodes) for whose in (0, 1)]


def _inductor_fuses(node, cuda):
    """Whether Inductor turns a node into a loop that it can fuse with others."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    if cuda and node.target is aten.convolution.default:
        return node.args[2] is not None  # on CUDA the bias is added in a separate loop
    if _is_anchor(node):
        return cuda and node.target in FOLDS
    return torch.Tag.pointwise in node.target.tags or node.target.namespace == "prims" or \
        (not _is_product(node) and _translatable(node))


_PICKS = {aten.gather.default, aten.index.Tensor, aten.index_select.default}


def _inductor_reads(user):
    return user.target in _PICKS or user.target not in SCANS and _inductor_fuses(user, True)


def _maker(node):
    """The node that computes what this node is a view of."""
    while node.target in VIEWS or node.target in RESHAPES:
        node = node.args[0]
    return node


def _free(node, region, cuda):
    """Whether Inductor would not have to read an input again: other nodes read it in a loop that
    could be fused, or, on CUDA, such a loop computes it."""
    def reads(user):
        if user in region or user.op != "call_function":
            return False
        if user.target in VIEWS or user.target in RESHAPES:
            return any(map(reads, user.users))
        return _inductor_fuses(user, cuda)
    maker = _maker(node)
    return any(map(reads, maker.users)) or cuda and _inductor_fuses(maker, cuda)


def _our_fold(fold, ahead, region):
    work = [n for n in ahead & region if not _is_anchor(n)
            and not any(n.target in free for free in (VIEWS, FLIPS, CASTS))]
    dims, axes, variance = len(shape_of(fold.args[0])), _folded_axes(fold), _is_variance(fold)
    trailing = 1 < len(axes) < dims and axes == list(range(dims - len(axes), dims))
    stretched = any(1 < _numel(n) < _numel(fold.args[0]) for n in ahead - region)
    # A variance is computed in f64. Measured of f32 along and down a matrix: a copy's time.
    slow = variance and (work or trailing or _itemsize(fold) < 4)
    return OUR_BAD_FOLD if slow or work and (trailing or stretched) else OUR_FOLD


def _itemsize(fold):
    """The bytes of an element that a fold reads."""
    return fold.args[0].meta["val"].dtype.itemsize


def _is_variance(fold):
    """Whether a fold is a variance or a standard deviation. It subtracts the first element of each
    line from all elements, which is a broadcast operand."""
    return fold.target in DERIVED and DERIVED[fold.target][0] in (VAR, STD)


def _our_variance(fold, anchors, region):
    """What a fold costs on the CPU: more than reading, for some variances."""
    if not _is_variance(fold):
        return 1
    rows, work = len(shape_of(fold.args[0])) - 1 in _folded_axes(fold), fold.args[0] in region and fold.args[0].target not in {*CASTS, *FLIPS, *VIEWS}
    return OUR_VAR if work or rows and _itemsize(fold) < 4 else OUR_VAR_MEAN if rows and len(anchors) > 1 else 1


def _their_scan(scan, anchors, cuda):
    lengths = [_hint(n) for n in shape_of(scan)] or [1]
    axis = scan.args[2 if scan.target is OURS else 1] % len(lengths)
    placed = scan.target is OURS and any(n.target is OURS and n.args[1] in INDICES for n in anchors)
    if placed and not cuda and lengths[axis] == math.prod(lengths):
        return THEIR_LINE
    return THEIR_SCAN if cuda and axis == len(lengths) - 1 else THEIR_COLUMNS


def _beside(anchors, region):
    """The anchors that need no read of their own on CUDA: the largest or smallest element beside its
    index, if only nodes outside the region use it, and a mean beside a variance."""
    def is_beside(one, other):
        if one.args[0] is not other.args[0] or (one.target in SCANS) != (other.target in SCANS):
            return False
        if one.target in SCANS:
            return one.target is other.target is OURS and other.args[1] == _INDEX_OF.get(one.args[1]) and one.args[2:] == other.args[2:]
        placed = other.target is _INDEX_OF.get(one.target) or one.target is aten.mean.dim and _is_variance(other)
        return placed and _folded_axes(one) == _folded_axes(other)
    return {one for one in anchors if not any(u in region for u in one.users) and any(is_beside(one, other) for other in anchors)}


_INDEX_OF = {aten.amax.default: aten.argmax.default, aten.amin.default: aten.argmin.default, "max": "last_argmax", "min": "last_argmin"}


def _folded_axes(fold):
    """The axes that a fold reduces, from 0 up and sorted."""
    dims = len(shape_of(fold.args[0]))
    axes = axes_of(fold)
    return sorted(a % dims for a in axes) if axes else list(range(dims))


def estimate(region, device):
    """(ours, theirs): what a region costs us, and what it would cost Inductor, on "cpu" or "cuda".

    Ours: on CUDA each scan or fold is a pass that reads all its inputs (_beside: some share one); on
    the CPU all are one pass. Inductor has to write what it computes only for us. Theirs: one loop
    that reads each input once, without those that it has already read (_free). Inductor does not
    fuse a scan, so a scan reads all its inputs. On CUDA arithmetic runs beside reading and writing:
    the longer counts."""
    cuda, inputs, results = device == "cuda", _inputs(region), _bytes(_results(region))
    anchors = [n for n in region if _is_anchor(n)]
    scans = [n for n in anchors if n.target in SCANS]
    ours, behind = results, set(inputs)
    beside = _beside(anchors, region)
    for anchor in anchors if cuda else ():
        ahead = _ahead(anchor, region)
        behind -= ahead
        if anchor in beside:
            continue
        # A variance is computed of its sums by a second launch.
        ours += LAUNCH if _is_variance(anchor) else 0
        slow = OUR_FOLD if anchor in scans else _our_fold(anchor, ahead, region)
        ours += LAUNCH + slow * _bytes(ahead - region)
        ours += OUR_COPY * 2 * _bytes(n for n in ahead & region if lengthened(n) is not None)
    ours += _bytes(behind) + (0 if cuda else LAUNCH)
    if not cuda:
        ours += (max((_our_variance(n, anchors, region) for n in anchors), default=1) - 1) * _bytes(inputs)
    if not cuda and _spreads(region):
        ours *= OUR_APPLY
    slower = max((_their_scan(n, anchors, cuda) if n in scans else THEIR_FOLD for n in anchors), default=THEIR_FOLD)
    free = {n for n in inputs if not scans and _free(n, region, cuda)}
    if cuda:
        ours += _bytes(n for n in free if all(u in region for u in n.users))
    # If a fold's result, applied to its elements, is used only in other loops, Inductor fuses them
    # and does not write it.
    unwritten = [n for n in _results(region) if not cuda and _numel(n) >= _reach(region) > 0 and all(u in region or _inductor_reads(u) for u in n.users)]
    theirs = LAUNCH + slower * (results - _bytes(unwritten) + _bytes(inputs - free))
    if cuda:
        ours, theirs = map(max, (ours, theirs), _work(region))
    return ours, float("inf") if any(map(_is_product, region)) else theirs


def better_left(region, device):
    """Why Inductor would be faster with these nodes, or None if it would not be.

    The device is "cpu" or "cuda"; None means that Inductor is not used."""
    if device is None:
        return None
    ours, theirs = estimate(region, device)
    if ours <= theirs:
        return None
    return f"it would cost us {ours / 1e6:.3g} MB of a copy's time, and Inductor {theirs / 1e6:.3g}"


def _described(node):
    return [_hint(n) for n in shape_of(node)], dtype_code(node.meta["val"].dtype)


def _agreed(program, members, exact):
    """Whether the library can plan the program, and every member has the shape and dtype that torch
    says. Intermediate values are checked too: one that is unsigned where torch's is signed would be
    wrong after a negation. Only shapes and dtypes are used, no data."""
    inputs = [_described(node) for node in program.inputs]
    computed = [i for i in program.instructions if i[0] != "output"]
    try:
        _scanfold.expression_shapes(_scanfold.expression_create(program.instructions, int(exact)), inputs)
        for first in range(0, len(members), MAX_RESULTS):
            some = members[first:first + MAX_RESULTS]
            outputs = [("output", program.place[node]) for node in some]
            made = _scanfold.expression_shapes(_scanfold.expression_create(computed + outputs, int(exact)), inputs)
            if made != [_described(node) for node in some]:
                log.info("left alone: %s would be %s", some, made)
                return False
    except (ValueError, TypeError, RuntimeError) as refusal:
        log.info("left alone: %s", refusal)
        return False
    return True


def _memory_order(node):
    """[the node's axes in their order in memory, outermost first], or [] if that is row-major. The
    nodes that follow were traced with these strides."""
    strides = [_hint(s) for s in node.meta["val"].stride()]
    order = sorted(range(len(strides)), key=lambda d: (-strides[d], d))
    moved = [d for d in order if _hint(shape_of(node)[d]) != 1]
    return [] if moved == sorted(moved) else [order]


def _writes(node):
    """Whether a node may write to a tensor that others read: one of the copies to the inputs at the
    end of a graph, or a user's own kernel."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return isinstance(node.target, torch._ops.HigherOrderOperator)


class Region:
    """Nodes that become one expression: its members and results in the graph's order, and its
    program. It is inserted before the first node that uses a result or may write to an input."""

    def __init__(self, graph, members, exact):
        order = {n: i for i, n in enumerate(graph.nodes)}
        self.members = sorted(members, key=order.get)
        self.results = sorted(_results(members), key=order.get)
        first, last = order[self.members[0]], order[self.members[-1]]
        writers = [n for n in graph.nodes if order[n] > first and _writes(n)]
        users = [u for n in self.results for u in n.users if u not in members]
        self.before = min(users + writers, key=order.get)
        self.program = Program()
        # A result may be used before a member comes in the graph. Then all members are computed
        # there, which is possible if all inputs come before.
        self.possible = all(order[n] > last for n in writers) and all(translate(self.program, node) is not None for node in self.members)
        if not self.possible:
            return
        for node in self.results:
            self.program.add("output", self.program.place[node], *_memory_order(node))
        inputs = self.program.inputs
        self.possible = (1 <= len(inputs) <= MAX_INPUTS and all(order[n] < order[self.before] for n in inputs)
                         and _agreed(self.program, self.members, exact))


def _spreads(region):
    """Whether a fold's result is broadcast again inside the region. Inductor then reads a row only
    once for both, if it fits into a block."""
    for anchor in (n for n in region if n.target in FOLDS):
        seen, ahead = set(), [anchor]
        while ahead:
            node = ahead.pop()
            if _numel(node) > _numel(anchor):
                return True
            ahead.extend(u for u in node.users if u in region and u not in seen)
            seen.update(ahead)
    return False


def _proposal(graph, anchors, taken, exact):
    """The region of these anchors, or None if there is none that can be computed."""
    if not all(_translatable(anchor) and _on_known_device(anchor) for anchor in anchors):
        return None
    members = _grow(anchors, taken, exact)
    if not _convex(members) or (len(anchors) > 1 and _spreads(members) and not _reach(members)) or exact and any(map(rounds_differently, members)):
        return None
    region = Region(graph, members, exact)
    return region if region.possible else None


def _share(one, other):
    """Whether two regions should be joined: they read the same large tensor, or one reads a result
    of the other."""
    ours, theirs = set(one.program.inputs), set(other.program.inputs)
    if ours & set(other.results) or theirs & set(one.results):
        return True
    shared = max((_numel(n) for n in ours & theirs), default=0)
    return shared > 1 and 2 * shared >= max(_numel(n) for n in ours | theirs)


def _together(graph, anchor, others, taken, exact, inductor, declined, pairs):
    """The region of an anchor and of as many of the others as can be computed with it in one call;
    None if the anchor is left to others."""
    only = region = _proposal(graph, [anchor], taken, exact)
    anchors = [anchor]
    for other in others:
        if region is None or other in region.members or len(region.results) >= MAX_RESULTS:
            continue
        alone = _proposal(graph, [other], taken, exact)
        if alone is not None and _share(region, alone):
            both = _proposal(graph, anchors + [other], taken, exact)
            if both is not None:
                region, anchors = both, anchors + [other]
    why = None
    for one in (region, only) if region is not None else ():
        why = better_left(set(one.members), anchor.meta["val"].device.type if inductor else None)
        if why is None and inductor and any(split.is_cut_by(one.members) for split in pairs):
            why = "Inductor would compute both results of an operator for the one that it is left"
        if why is None:
            return one
    if why is not None:
        declined.append((_as_text(only.members), why))
    return None


def _as_text(nodes):
    return [n.format_node() or n.name for n in nodes]


def _left_alone(function, *args):
    """The function's result, or None if it raises: a length without a hint, or a node without a
    value, must not make the compilation fail."""
    try:
        return function(*args)
    except Exception as problem:
        log.info("left alone: %s", problem)
        return None


def _replace(graph, region, program, keep):
    """Replaces the region's nodes by one call, and their uses by the results of the call."""
    with graph.inserting_before(region.before):
        several = len(region.results) > 1
        target = torch.ops.scanfold.expressions.default if several else torch.ops.scanfold.expression.default
        made = graph.call_function(target, (list(region.program.inputs), program, keep))
        if several:
            made.meta["val"] = [n.meta["val"] for n in region.results]
        for i, node in enumerate(region.results):
            result = graph.call_function(operator.getitem, (made, i)) if several else made
            result.meta = dict(node.meta)
            node.replace_all_uses_with(result)
    for node in reversed(region.members):
        graph.erase_node(node)


# ---------------------------------------------------------------------------------------------------------------
# Operators with two results: values and indices, the least and the largest, a variance or standard
# deviation and a mean. We treat the two as separate operators; the library computes both in one read.
# ---------------------------------------------------------------------------------------------------------------
_PAIRS = {aten.max.dim: (aten.amax.default, aten.argmax.default), aten.min.dim: (aten.amin.default, aten.argmin.default),
          aten.cummax.default: ("max", "last_argmax"), aten.cummin.default: ("min", "last_argmin"),
          aten.aminmax.default: (aten.amin.default, aten.amax.default),
          aten.var_mean.correction: (aten.var.correction, aten.mean.dim), aten.std_mean.correction: (aten.std.correction, aten.mean.dim)}


def _one_of(graph, pair, which):
    """A new node that computes one result of a pair.

    Where elements are equal, the index is that of the first one in a fold and of the last one in a
    scan, as in torch. The value may differ in the sign of a zero: for us 0.0 is larger than -0.0,
    and torch takes the zero at the index."""
    x, options, target = pair.args[0], dict(pair.kwargs), _PAIRS[pair.target][which]
    keepdim = options.pop("keepdim", False)
    if pair.target in (aten.var_mean.correction, aten.std_mean.correction):
        named = options.pop("dim", None)
        axes = pair.args[1] if len(pair.args) > 1 else named
        call = (target, (x, axes), {**options, "keepdim": keepdim}) if which == 0 else (target, (x, axes, keepdim), {})
    elif pair.target is aten.aminmax.default:
        call = target, (x, [] if options.get("dim") is None else [options["dim"]], keepdim), {}
    else:
        axis, *keepdim = pair.args[1:]
        if isinstance(target, str):
            call = OURS, (x, target, axis, False, False, None, None, None), {}
        else:
            call = target, (x, axis if which else [axis], *keepdim), {}
    return graph.call_function(*call)


class _Split:
    """A pair of which each result that is used is a node of its own now. `results` has (which
    result it is, its node, all nodes that were inserted for it)."""

    def __init__(self, pair, results):
        self.target, self.args, self.kwargs, self.meta, self.results = pair.target, pair.args, pair.kwargs, dict(pair.meta), results

    def is_cut_by(self, members):
        """Whether some of the results are computed by these nodes, and some are not."""
        return len({any(n in members for n in inserted) for _, _, inserted in self.results}) == 2


def _split_pairs(graph):
    """Replaces such pairs by operators with one result each, where all of these can be translated."""
    made = []
    for pair in [n for n in graph.nodes if n.op == "call_function" and n.target in _PAIRS]:
        users = list(pair.users)
        if not users or any(u.target is not operator.getitem for u in users):
            continue
        results = _left_alone(_moments, graph, pair, users) or []
        for user in users if not results else ():
            with graph.inserting_before(pair):
                alone = _one_of(graph, pair, user.args[1])
            results.append((user.args[1], alone, [alone]))
        for user, (_, alone, _) in zip(users, results):
            alone.meta = dict(user.meta)
        if not all(_left_alone(_translatable, alone) for _, alone, _ in results):
            for _, _, inserted in results:
                for node in reversed(inserted):
                    graph.erase_node(node)
            continue
        for user, (_, alone, _) in zip(users, results):
            user.replace_all_uses_with(alone)
            graph.erase_node(user)
        made.append(_Split(pair, results))
        graph.erase_node(pair)
    return made


def _give_back(graph, made, taken):
    """Restores the pairs, as far as no region has taken their results."""
    for split in made:
        pair = None  # both results must come from one restored node
        for which, alone, inserted in split.results:
            if any(n in taken for n in inserted):
                continue
            if pair is None:
                with graph.inserting_before(inserted[0]):
                    pair = graph.call_function(split.target, split.args, split.kwargs)
                pair.meta = split.meta
            with graph.inserting_after(pair):
                value = graph.call_function(operator.getitem, (pair, which))
            value.meta = dict(alone.meta)
            alone.replace_all_uses_with(value)


def _moments(graph, pair, users):
    """The results of a var_mean on the CPU whose axes are kept and whose input others read too, as in
    norm layers: the mean, and the mean of squared distances from it, which are both computed while
    a line is in cache. None for other pairs."""
    keeps = pair.target is aten.var_mean.correction and pair.kwargs.get("keepdim") and len(pair.args[0].users) > 1
    if not keeps or sorted(u.args[1] for u in users) != [0, 1]:
        return None
    x, axes = pair.args[0], pair.args[1] if len(pair.args) > 1 else pair.kwargs.get("dim")
    correction = pair.kwargs.get("correction", 1)
    lengths = [shape_of(x)[a] for a in axes or ()]
    if not axes or not all(type(n) is int for n in lengths) or type(correction) not in (int, float):
        return None
    if x.meta["val"].device.type != "cpu" or not x.meta["val"].dtype.is_floating_point or math.prod(lengths) <= correction:
        return None
    with graph.inserting_before(pair):
        mean = _call(graph, aten.mean.dim, x, list(axes), True)
        distance = _call(graph, aten.sub.Tensor, x, mean)
        squares = [distance, _call(graph, aten.mul.Tensor, distance, distance)]
        squares.append(_call(graph, aten.sum.dim_IntList, squares[-1], list(axes), True))
        squares.append(_call(graph, aten.div.Tensor, squares[-1], float(math.prod(lengths) - correction)))
    # The mean stands first in the graph, so that the pair could be restored before it.
    inserted = [squares, [mean]]
    return [(u.args[1], inserted[u.args[1]][-1], inserted[u.args[1]]) for u in users]


def _free_filled(graph):
    """Replaces tensors filled with a number, such as zeros_like(x), by aten.full. They use only x's
    shape, which is known, so they should not keep x, which may be a scan, alive."""
    for node in [n for n in graph.nodes if filled(n) is not None and n.all_input_nodes]:
        form = node.meta.get("val")
        if isinstance(form, torch.Tensor) and all(type(n) is int for n in form.shape) and form.is_contiguous():
            with graph.inserting_before(node):
                made = graph.call_function(aten.full.default, (list(form.shape), filled(node)), {"dtype": form.dtype, "device": form.device})
            made.meta = dict(node.meta)
            node.replace_all_uses_with(made)
    graph.eliminate_dead_code()


def _scan_first(graph):
    """scan(concat(identity, x[:-1])) -> concat(identity, scan(x)[:-1]), which is an exclusive scan.
    The former needs a copy of x and a scan of the copy. Real numbers are rounded differently."""
    for scan in [n for n in graph.nodes if n.target in (aten.cumsum.default, aten.cumprod.default)]:
        axis, longer = scan.args[1] % max(len(shape_of(scan)), 1), lengthened(scan.args[0])
        number = 0 if scan.target is aten.cumsum.default else 1
        if longer is None or longer[1:] != (axis, number, True) or \
                longer[0].target is not aten.slice.Tensor:
            continue
        part, shape = longer[0], list(shape_of(scan))
        x, along, start, _, step = (list(part.args) + [0, 0, None, 1][len(part.args) - 1:])[:5]
        if along % len(shape) != axis or start != 0 or step != 1 or list(shape_of(x)) != shape or \
                not all(type(n) is int for n in shape):
            continue
        with graph.inserting_before(scan):
            made = _call(graph, scan.target, x, axis, **scan.kwargs)
            first = _call(graph, aten.new_full.default, made,
                          shape[:axis] + [1] + shape[axis + 1:], number)
            part = _call(graph, aten.slice.Tensor, made, axis, 0, shape[axis] - 1)
            made = _call(graph, aten.cat.default, [first, part], axis)
        made.meta = dict(scan.meta)
        scan.replace_all_uses_with(made)
    graph.eliminate_dead_code()


def fuse(graph, keep=0, exact=False, inductor=True, declined=None):
    """Turns regions of an aten graph into expressions, in place: [(program, nodes as text), ...]

    exact      every operator keeps its own rounding
    inductor   the rest is compiled by Inductor, not run eagerly
    declined   a list; (nodes as text, why) is added for each region that Inductor computes faster
    """
    declined = [] if declined is None else declined
    if not exact:
        _left_alone(_scan_first, graph)
    _free_filled(graph)
    taken, fused, pairs = set(), [], _split_pairs(graph)
    anchors = [n for n in graph.nodes if _is_anchor(n)]
    for i, anchor in enumerate(anchors):
        if anchor in taken:
            continue
        others = [n for n in anchors[i + 1:] if n not in taken]
        region = _left_alone(_together, graph, anchor, others, taken, exact, inductor, declined, pairs)
        if region is None:
            continue
        taken.update(region.members)
        program = (EXACT if exact else "") + region.program.text()
        fused.append((program, _as_text(region.members)))
        _replace(graph, region, program, keep)
    _give_back(graph, pairs, taken)
    graph.eliminate_dead_code()  # constants that are now part of programs
    return fused


def _on_known_device(node):
    return all(n.meta["val"].device.type in ("cpu", "cuda") for n in _tensors(node))


# ---------------------------------------------------------------------------------------------------------------
# Matrix products with an expanded operand, as in the gradient of a sum over a product's features
# ---------------------------------------------------------------------------------------------------------------
def _stretched(node):
    """(x, factors) if the node is a matrix x of one column, expanded to many columns and possibly
    multiplied or divided by numbers; else None."""
    factors = []
    while node.op == "call_function":
        if node.target is aten.expand.default:
            x = node.args[0]
            rows, columns = shape_of(x) if len(shape_of(x)) == 2 else (0, 0)
            if type(columns) is int and columns == 1 and same_length(rows, shape_of(node)[0]):
                return x, factors
            return None
        if node.target in (aten.mul.Tensor, aten.div.Tensor) and isinstance(node.args[1], (int, float)):
            factors.append((node.target, node.args[1]))
            node = node.args[0]
        else:
            return None
    return None


def _call(graph, target, *args, **kwargs):
    """A new node, with its fake value in meta["val"]."""
    node = graph.call_function(target, args, kwargs)
    fake = torch.fx.node.map_arg(args, lambda n: n.meta["val"])
    node.meta["val"] = target(*fake, **kwargs)
    return node


def hoist(graph):
    """expand(e) @ w -> e * sum(w, 0), and expand(e).T @ x -> expand(e.T @ x).

    A product with an expanded column is an outer product, or one row that is expanded. Returns the
    replaced nodes as text."""
    touched = []
    for node in [n for n in graph.nodes if n.op == "call_function" and n.target is aten.mm.default]:
        made = _left_alone(_outer, graph, node)
        if made is not None:
            touched.append(node.format_node() or node.name)
            node.replace_all_uses_with(made)
    graph.eliminate_dead_code()
    return touched


def _outer(graph, node):
    """The node that replaces a product with an expanded column; None for other products."""
    a, b = node.args
    transposed = a.op == "call_function" and (a.target is aten.t.default or (a.target is aten.permute.default and list(a.args[1]) == [1, 0]))
    found = _stretched(a.args[0] if transposed else a)
    if found is None:
        return None
    e, factors = found
    with graph.inserting_before(node):
        for target, number in reversed(factors):
            e = _call(graph, target, e, number)
        if not transposed:
            # The column sums may overflow their type where the product does not, so both are
            # computed in a wider type.
            dtype = b.meta["val"].dtype
            wide, cast = WIDER.get(dtype, dtype), torch.ops.prims.convert_element_type.default
            if wide is dtype:
                sums = _call(graph, aten.sum.dim_IntList, b, [0], True)
                return _call(graph, aten.mul.Tensor, e, sums)
            sums = _call(graph, aten.sum.dim_IntList, b, [0], True, dtype=wide)
            product = _call(graph, aten.mul.Tensor, _call(graph, cast, e, wide), sums)
            return _call(graph, cast, product, dtype)
        row = _call(graph, aten.mm.default, _call(graph, aten.permute.default, e, [1, 0]), b)
        rows = shape_of(node)[0]
        return _call(graph, aten.expand.default, row, [rows if type(rows) is int else _call(graph, aten.sym_size.int, a, 0), -1])
