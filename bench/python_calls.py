#!/usr/bin/env python3
"""What one call costs the host, from Python: tiny tensors, so that nearly nothing is computed, ours beside torch's and NumPy's own.

    PYTHONPATH=python python3 bench/python_calls.py [--only TEXT] [--repeats N]

Each line is the least of the medians of several rounds, ours and theirs taken in turn; one thread, microseconds a call. On a GPU the time
between launches is this, whatever the kernel takes.
"""
import argparse
import functools
import os
import statistics
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np  # noqa: E402
import torch  # noqa: E402

import scanfold  # noqa: E402
import scanfold.torch as bridge  # noqa: E402
from scanfold import _compile  # noqa: E402


def batch_time(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count * 1e6


def medians(calls, rounds, repeats):
    """The smallest of the medians, because other load on the machine can only add time."""
    best = [float("inf")] * len(calls)
    for _ in range(repeats):
        times = [[] for _ in calls]
        for _ in range(rounds):
            for i, call in enumerate(calls):
                times[i].append(batch_time(call, 200))
        best = [min(b, statistics.median(t)) for b, t in zip(best, times)]
    return best


def compiled(model, *inputs):
    torch._dynamo.reset()
    function = torch.compile(model, backend=functools.partial(_compile.backend, options={"rest": "eager"}))
    function(*inputs)
    return function


def lines(only):
    """(name, ours, theirs), lazily: a compiled function is made when its turn comes."""
    x, m = torch.randn(4, 8), torch.rand(4, 8) > 0.5
    g = x.clone().requires_grad_()
    w = torch.nn.Parameter(torch.randn(8, 8))
    a, k = x.numpy(), m.numpy()

    def linear(x):
        return torch.sum(torch.matmul(x, w.T) / 2, dim=1, keepdim=True) * 1.5

    def no_grad(function, *args):
        def call():
            with torch.no_grad():
                return function(*args)
        return call
    # Shapes for the promise that a warm call costs less than torch's.
    for shape, dim in [((4, 8), 1), ((8,), 0), ((64, 16), 0), ((1, 1), 1), ((2, 3, 4), 1), ((0, 3), 0), ((16, 64), 1), ((1000,), 0)]:
        t = torch.randn(shape)
        yield f"cumsum {shape} dim {dim}", lambda t=t, d=dim: scanfold.cumsum(t, d), lambda t=t, d=dim: torch.cumsum(t, d)
    yield "sum (4, 8) dim 1", lambda: scanfold.sum(x, 1), lambda: torch.sum(x, 1)
    yield "sum (4, 8) dim=1, keepdim=True", lambda: scanfold.sum(x, dim=1, keepdim=True), lambda: torch.sum(x, dim=1, keepdim=True)
    yield "reverse cumsum", lambda: scanfold.cumsum(x, 1, reverse=True), lambda: torch.cumsum(x.flip(1), 1).flip(1)
    yield "masked cumsum", lambda: scanfold.cumsum(x, 1, mask=m), lambda: torch.cumsum(x * m, 1)
    yield "cumsum, out", lambda y=torch.empty_like(x): scanfold.cumsum(x, 1, out=y), lambda y=torch.empty_like(x): torch.cumsum(x, 1, out=y)
    yield "NumPy cumsum", lambda: scanfold.cumsum(a, 1), lambda: np.cumsum(a, 1)
    yield "NumPy sum", lambda: scanfold.sum(a, 1), lambda: np.sum(a, 1)
    yield "NumPy masked cumsum", lambda: scanfold.cumsum(a, 1, mask=k), lambda: np.cumsum(a * k, 1)
    yield "linear_sum, no_grad", no_grad(bridge.linear_sum, x, w, None, 0.75), no_grad(linear, x)
    yield "linear_sum, recorded", lambda: bridge.linear_sum(x, w, None, 0.75), lambda: linear(x)
    yield "cumsum, recorded", lambda: scanfold.cumsum(g, 1), lambda: torch.cumsum(g, 1)
    yield "masked cumsum, recorded", lambda: scanfold.cumsum(g, 1, mask=m), lambda: torch.cumsum(g * m, 1)
    yield "sum, recorded", lambda: scanfold.sum(g, 1), lambda: torch.sum(g, 1)
    y, ones = scanfold.cumsum(g, 1), torch.ones_like(x)
    z = torch.cumsum(g, 1)
    yield "cumsum, backward", lambda: torch.autograd.grad(y, g, ones, retain_graph=True), lambda: torch.autograd.grad(z, g, ones, retain_graph=True)
    for name, model, inputs in [("cumsum", lambda x: torch.cumsum(x, 1), (x,)), ("masked cumsum", lambda x, m: torch.cumsum(x * m, 1), (x, m)),
                                ("sum", lambda x: torch.sum(x, 1), (x,)), ("linear_sum", linear, (x,))]:
        if only in "backend " + name:
            function = compiled(model, *inputs)
            yield "backend " + name + ", no_grad", no_grad(function, *inputs), no_grad(model, *inputs)
            recorded = tuple(t.clone().requires_grad_() if t.is_floating_point() else t for t in inputs)
            function(*recorded)
            yield "backend " + name + ", recorded", functools.partial(function, *recorded), functools.partial(model, *recorded)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, NumPy {np.__version__}, Python {sys.version.split()[0]}, {scanfold.info()['isa']}: microseconds a call")
    print(f"{'call':40}{'scanfold':>10}{'its peer':>10}")
    for name, ours, theirs in lines(args.only):
        if args.only in name:
            a, b = medians([ours, theirs], 9, args.repeats)
            print(f"{name:40}{a:10.2f}{b:10.2f}", flush=True)


main()
