"""Times torch code in turn with other code and with a copy: for scanfold.bench and the programs in
bench/."""
import contextlib
import copy
import math
import statistics
import time

import torch

QUEUE_MS, MOST_CALLS = 3.0, 100  # how much work is queued for one measurement
LEAST_TURNS = 5


def flat(result):
    return [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]


class Contender:
    """A model compiled by one backend, or run eagerly, with its own copy of all it may change."""

    def __init__(self, call, inputs, backend=None, dtype=None):
        self.call = copy.deepcopy(call)
        self.inputs = [t.detach().clone().requires_grad_(t.requires_grad)
                       if isinstance(t, torch.Tensor) else t for t in inputs]
        if dtype is not None:
            if isinstance(self.call, torch.nn.Module):
                self.call.to(dtype)
            self.inputs = [t.detach().to(dtype).requires_grad_(t.requires_grad)
                           if isinstance(t, torch.Tensor) and t.is_floating_point() else t
                           for t in self.inputs]
        parameters = list(self.call.parameters()) if isinstance(self.call, torch.nn.Module) else []
        self.leaves = [t for t in flat(self.inputs) + parameters if t.requires_grad]
        self.run = self.call
        if backend is not None:
            self.run = torch.compile(self.call, backend=backend, dynamic=False)
        self.given = self.last = None

    def forward(self):
        with torch.set_grad_enabled(bool(self.leaves)):
            self.last = self.run(*self.inputs)
        return self.last

    def backward(self):
        differentiable = [t for t in flat(self.last) if t.requires_grad]  # indices are not
        return torch.autograd.grad(differentiable, self.leaves, self.given, retain_graph=True)

    def results(self):
        """The results of one forward pass and, if gradients are wanted, of its backward pass."""
        made = flat(self.forward())
        if not self.leaves:
            return {"forward": made}
        if self.given is None:
            self.given = [torch.ones_like(t) for t in made if t.requires_grad]
        return {"forward": [t.detach() for t in made], "backward": list(self.backward())}


def timed(run, device, calls):
    """Milliseconds for one call, when `calls` of them are queued one after another."""
    if device == "cuda":
        torch.cuda.synchronize()
        start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        for _ in range(calls):
            run()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / calls
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) * 1e3 / calls


def take_turns(runs, device, seconds, times):
    """Times the runs in turn and appends to the list of each, until the seconds are over."""
    calls = 1
    for run in runs:
        run()
        once = max(timed(run, device, 2), 1e-4)
        calls = max(calls, min(MOST_CALLS, math.ceil(QUEUE_MS / once)))
    end, turn = time.time() + seconds, 0
    while turn < LEAST_TURNS or time.time() < end:
        for run, list_of_times in zip(runs, times):
            list_of_times.append(timed(run, device, calls))
        turn += 1


def medians(runs, device, seconds):
    """The median milliseconds of each run; the runs take turns."""
    times = [[] for _ in runs]
    take_turns(runs, device, seconds, times)
    return [statistics.median(t) for t in times]


def differs(eager, exact, results, training):
    """Why results are wrong, or "" if they are right."""
    from torch._dynamo.utils import same
    for way, right in eager.items():
        if not same(right, results[way], exact[way], equal_nan=True,
                    tol=1e-3 if training else 1e-4):
            apart = max(((a - b).abs().max().item() for a, b in zip(right, results[way])
                         if a.shape == b.shape and a.numel()), default=math.nan)
            return f"{way} differs from eager mode by up to {apart:.3g}"
    return ""


def backward_again():
    """Keeps the tensors that are saved for a backward pass, so that it can run again. Some versions
    of torch would let a compiled backward pass overwrite them."""
    import torch._functorch.config as config
    if hasattr(config, "donated_buffer"):
        return config.patch(donated_buffer=False)
    return contextlib.nullcontext()
