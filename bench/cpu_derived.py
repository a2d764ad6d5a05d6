#!/usr/bin/env python3
"""Folds that are more than a sum, beside a plain read: positions, variances, norms, any, all and counts.

    SCANFOLD_LIB=build/libscanfold.so python3 bench/cpu_derived.py [--shape 4096x8192] [--dtype f32] [--rounds N] [--threads N] [--fill KIND]

Each is an expression of scanfold's, along axis 1 and along axis 0. The plain read is its own max of the same elements along the same axis. In a
round every contender has its turn, so that a noisy neighbour meets all of them; a time is the median of its rounds, and a share is the read's
time over it. NumPy and torch are timed where they are installed and have the operation. Results are compared with the reference's, bit by bit,
before anything is timed, where --check asks for it: the reference is slow.
"""
import argparse
import ctypes
import os
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scanfold_ctypes as sf  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

DTYPES = {"f32": (2, np.float32), "f64": (2, np.float64), "f16": (2, np.float16), "i32": (0, np.int32), "i64": (0, np.int64), "u8": (1, np.uint8)}
BITS = {(2, 16): np.float16, (2, 32): np.float32, (2, 64): np.float64, (0, 32): np.int32, (0, 64): np.int64, (1, 8): np.uint8, (1, 64): np.uint64,
        (6, 8): np.bool_}
# What scanfold is asked for, and the others' functions of the same meaning: of an array and an axis.
ROWS = [
    ("max", lambda x, a: np.max(x, axis=a), lambda x, a: torch.amax(x, a)),
    ("argmax", lambda x, a: np.argmax(x, axis=a), lambda x, a: torch.argmax(x, a)),
    ("argmin", lambda x, a: np.argmin(x, axis=a), lambda x, a: torch.argmin(x, a)),
    ("var", lambda x, a: np.var(x, axis=a, ddof=1), lambda x, a: torch.var(x, a)),
    ("std", lambda x, a: np.std(x, axis=a, ddof=1), lambda x, a: torch.std(x, a)),
    ("any", lambda x, a: np.any(x, axis=a), lambda x, a: torch.any(x, a)),
    ("all", lambda x, a: np.all(x, axis=a), lambda x, a: torch.all(x, a)),
    ("count_nonzero", lambda x, a: np.count_nonzero(x, axis=a), lambda x, a: torch.count_nonzero(x, a)),
    ("norm", lambda x, a: np.linalg.norm(x, axis=a), lambda x, a: torch.linalg.vector_norm(x, dim=a)),
    ("sumsq", lambda x, a: np.sum(np.square(x), axis=a), None),
]
REALS = ("var", "std", "norm")


def make(shape, dtype, how):
    count = int(np.prod(shape))
    values = np.arange(count) / count if how == "rising" else np.random.default_rng(0).random(count) - 0.5
    if DTYPES[dtype][0] != 2:
        values = values * 200 if dtype == "u8" else values * 2e9
    return values.astype(DTYPES[dtype][1]).reshape(shape)


class Plan:
    """An expression of one input, planned; a call runs it."""

    def __init__(self, lib, ctx, text, x, code):
        graph, self.plan, self.lib, self.ctx = ctypes.c_void_p(), ctypes.c_void_p(), lib, ctx
        self.x = sf.numpy_view(x, code)
        self.need(lib.sf_graph_parse(ctx, text.encode(), ctypes.byref(graph)))
        self.need(lib.sf_plan_create(ctx, graph, 1, ctypes.byref(self.x), None, ctypes.byref(self.plan)))
        lib.sf_graph_destroy(graph)
        ndim, shape, dtype = ctypes.c_int32(), (ctypes.c_int64 * 64)(), sf.Dtype()
        self.need(lib.sf_plan_output(self.plan, 0, ctypes.byref(ndim), shape, ctypes.byref(dtype)))
        self.result = np.zeros(tuple(shape[:ndim.value]), BITS[dtype.code, dtype.bits])
        self.y = sf.numpy_view(self.result, dtype.code)

    def need(self, status):
        if status:
            raise RuntimeError(self.lib.sf_last_error(self.ctx).decode())

    def __call__(self):
        self.need(self.lib.sf_plan_run(self.plan, ctypes.byref(self.x), ctypes.byref(self.y), None))


def contenders(lib, ctx, ref, x, args, axis):
    """Name and function of all that have a turn, the plain read first; scanfold's results checked."""
    code = DTYPES[args.dtype][0]
    tensor = torch.from_numpy(x) if torch else None
    found = []
    for name, numpy_function, torch_function in ROWS:
        if name in REALS and code != 2:
            continue
        text = "%s(x, axis=%d)" % (name, axis)
        plan = Plan(lib, ctx, text, x, code)
        if args.check:
            plan()
            right = Plan(lib, ref, text, x, code)
            right()
            if plan.result.tobytes() != right.result.tobytes():
                sys.exit("%s differs from the reference" % text)
        found.append((name, "scanfold", plan))
        if args.peers:
            found.append((name, "numpy", lambda f=numpy_function: f(x, axis)))
            if torch and torch_function:
                try:
                    torch_function(tensor, axis)
                except (RuntimeError, TypeError):
                    continue
                found.append((name, "torch", lambda f=torch_function: f(tensor, axis)))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="4096x8192")
    parser.add_argument("--dtype", default="f32", choices=DTYPES)
    parser.add_argument("--fill", default="random", choices=("random", "rising"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    lib = sf.load(os.environ.get("SCANFOLD_LIB", "build/libscanfold.so"))
    pointer = ctypes.c_void_p
    for name, arguments in (("sf_graph_parse", [pointer, ctypes.c_char_p, pointer]), ("sf_plan_run", [pointer] * 4),
                            ("sf_plan_output", [pointer, ctypes.c_int32] + [pointer] * 3)):
        getattr(lib, name).argtypes = arguments
    ctx, ref = pointer(), pointer()
    lib.sf_context_create(ctypes.byref(ctx), ctypes.byref(sf.ContextOptions(threads=args.threads)))
    lib.sf_context_create(ctypes.byref(ref), ctypes.byref(sf.ContextOptions(threads=1, backend=1)))
    if torch:
        torch.set_num_threads(lib.sf_context_threads(ctx))
    x = make(tuple(int(n) for n in args.shape.split("x")), args.dtype, args.fill)
    print("%s %s, %s, %d threads, %s" % (args.dtype, args.shape, args.fill, lib.sf_context_threads(ctx), lib.sf_context_isa(ctx).decode()))
    print("| | axis | ms | share of a read | numpy ms | torch ms |\n|---|---|---|---|---|---|")
    for axis in (1, 0):
        turns = contenders(lib, ctx, ref, x, args, axis)
        times = [[] for _ in turns]
        for _ in range(args.rounds):
            for (_, _, call), spent in zip(turns, times):
                call() if not spent else None  # the first touches what is new
                start = time.perf_counter()
                call()
                spent.append(time.perf_counter() - start)
        middle = {turn[:2]: statistics.median(spent) for turn, spent in zip(turns, times)}
        for name, _, _ in ROWS:
            if (name, "scanfold") not in middle:
                continue
            ours = middle[name, "scanfold"]
            others = ["%.2f" % (1e3 * middle[name, who]) if (name, who) in middle else "" for who in ("numpy", "torch")]
            print("| %s | %d | %.2f | %.2f | %s |" % (name, axis, 1e3 * ours, middle["max", "scanfold"] / ours, " | ".join(others)))


if __name__ == "__main__":
    main()
