#!/usr/bin/env python3
"""Two builds of the library beside each other: bench/versus.py OLD.so NEW.so

Both are loaded into one process and take turns, call by call, so that a noisy neighbour or a change of clock
meets both. A row is printed with the ratio of the old build's time to the new one's: above 1 the new build is
faster. The ratio is the median over rounds of that of neighbouring calls; its spread is the middle half of
them. The last line is the geometric mean. Rows are those of `scanfold bench`, and a few of other operations.
"""
import argparse
import ctypes
import math
import os
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scanfold_ctypes as sf  # noqa: E402

CODES = {"f32": (2, np.float32), "f64": (2, np.float64), "f16": (2, np.float16), "bf16": (4, np.uint16), "i64": (0, np.int64),
         "i32": (0, np.int32), "i8": (0, np.int8), "bool": (6, np.uint8)}
SQUARE, BLOCK, ALL = (8192, 8192), (16, 4096, 4095), None
# name, dtype, shape, axis, further options: fold, op, reverse, exclusive, masked, wide (an f64 accumulator), out
ROWS = [
    ("cumsum axis 1", "f32", SQUARE, 1, {}),
    ("cumsum axis 1 reverse", "f32", SQUARE, 1, {"reverse": 1}),
    ("cumsum axis 1 masked", "f32", SQUARE, 1, {"masked": 1}),
    ("cumsum axis 1 exclusive", "f32", SQUARE, 1, {"exclusive": 1}),
    ("cumsum axis 0", "f32", SQUARE, 0, {}),
    ("cumsum axis 0 reverse", "f32", SQUARE, 0, {"reverse": 1}),
    ("cumsum axis 0 masked", "f32", SQUARE, 0, {"masked": 1}),
    ("cumsum axis 0 exclusive", "f32", SQUARE, 0, {"exclusive": 1}),
    ("cumsum axis 1 f64 acc", "f32", SQUARE, 1, {"wide": 1}),
    ("cumsum axis 1 odd", "f32", (8192, 8191), 1, {}),
    ("cumsum axis 0 odd", "f32", (8192, 8191), 0, {}),
    ("cumsum one long line", "f32", (1 << 27,), 0, {}),
    ("cumsum axis 0 narrow 2", "f32", (1 << 22, 2), 0, {}),
    ("cumsum axis 0 narrow 8", "f32", (1 << 22, 8), 0, {}),
    ("cumsum axis 0 narrow 3", "f32", (1 << 22, 3), 0, {}),
    ("cumsum axis 0 narrow 17", "f32", (1 << 20, 17), 0, {}),
    ("cumsum axis 1 short 4", "f32", (1 << 22, 4), 1, {}),
    ("cumsum axis 1 short 17", "f32", (1 << 20, 17), 1, {}),
    ("cumsum axis 1 small", "f32", (1024, 1024), 1, {}),
    ("cumsum axis 0 small", "f32", (1024, 1024), 0, {}),
    ("cumsum axis 1 tiny", "f32", (64, 64), 1, {}),
    ("cumsum axis 0 tiny", "f32", (64, 64), 0, {}),
    ("sum axis 0", "f32", BLOCK, 0, {"fold": 1}),
    ("sum axis 1", "f32", BLOCK, 1, {"fold": 1}),
    ("sum axis 2", "f32", BLOCK, 2, {"fold": 1}),
    ("sum all", "f32", BLOCK, ALL, {"fold": 1}),
    ("sum axis 2 f64 acc", "f32", BLOCK, 2, {"fold": 1, "wide": 1}),
    ("sum axis 0 narrow 3", "f32", (1 << 22, 3), 0, {"fold": 1}),
    ("sum axis 1 short 17", "f32", (1 << 20, 17), 1, {"fold": 1}),
    ("cumsum axis 1", "f64", SQUARE, 1, {}),
    ("cumsum axis 1", "i64", SQUARE, 1, {}),
    ("cumsum axis 1", "i32", SQUARE, 1, {}),
    ("cumsum axis 1", "f16", SQUARE, 1, {}),
    ("cumsum axis 1", "bf16", SQUARE, 1, {}),
    ("cumsum axis 1", "i8", SQUARE, 1, {}),
    ("cumsum axis 1 to i64", "i8", SQUARE, 1, {"out": "i64"}),
    ("sum axis 1 to i64", "i8", BLOCK, 1, {"fold": 1, "out": "i64"}),
    ("sum axis 2 to i64", "i8", BLOCK, 2, {"fold": 1, "out": "i64"}),
    ("sum axis 2 to i64", "bool", BLOCK, 2, {"fold": 1, "out": "i64"}),
    ("cumsum axis 0 to i64", "i8", SQUARE, 0, {"out": "i64"}),
    ("cumsum axis 0", "i8", SQUARE, 0, {}),
    ("cumsum axis 1 odd", "i8", (8192, 8191), 1, {}),
    ("cumsum one long line", "i8", (1 << 28,), 0, {}),
    ("cummax axis 1", "i8", SQUARE, 1, {"op": "max"}),
    ("max axis 1", "i8", BLOCK, 1, {"fold": 1, "op": "max"}),
    ("max axis 2", "i8", BLOCK, 2, {"fold": 1, "op": "max"}),
    ("sum axis 2", "i8", BLOCK, 2, {"fold": 1}),
    ("sum all to i64", "i8", BLOCK, ALL, {"fold": 1, "out": "i64"}),
    ("sum axis 1 to i64", "i32", SQUARE, 1, {"fold": 1, "out": "i64"}),
    ("sum axis 0 to i64 narrow 3", "i8", (1 << 24, 3), 0, {"fold": 1, "out": "i64"}),
    ("sum axis 1 to i64 short 16", "i8", (1 << 22, 16), 1, {"fold": 1, "out": "i64"}),
    ("cummax axis 1", "f16", SQUARE, 1, {"op": "max"}),
    ("max axis 1", "bf16", SQUARE, 1, {"fold": 1, "op": "max"}),
    ("cumsum axis 0", "i32", SQUARE, 0, {}),
    ("cumsum one long line", "i32", (1 << 26,), 0, {}),
    ("cummax axis 1", "f32", SQUARE, 1, {"op": "max"}),
    ("cummax axis 0", "f32", SQUARE, 0, {"op": "max"}),
    ("cummax one long line", "f32", (1 << 26,), 0, {"op": "max"}),
    ("max axis 2", "f32", BLOCK, 2, {"fold": 1, "op": "max"}),
    ("cumprod axis 1", "f32", SQUARE, 1, {"op": "prod"}),
    ("cumprod axis 0", "f32", SQUARE, 0, {"op": "prod"}),
    ("prod axis 2", "f32", BLOCK, 2, {"fold": 1, "op": "prod"}),
]


def array(dtype, shape, seed=1):
    """Memory that has been written: small numbers, or of products numbers around 1."""
    kind = CODES[dtype][1]
    rng = np.random.default_rng(seed)
    count = math.prod(shape)
    if dtype in ("f32", "f64", "f16"):
        base = rng.uniform(0.5, 1.5, 1 << 16).astype(kind)
    elif dtype == "bf16":
        base = (rng.uniform(0.5, 1.5, 1 << 16).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        base = rng.integers(0, 2, 1 << 16).astype(kind)
    return np.resize(base, count).reshape(shape)


class Row:
    """One piece of work, ready to be called on any library."""

    def __init__(self, row, context_of):
        self.name, dtype, shape, axis, more = row
        self.label = f"{self.name}, {dtype} {'x'.join(map(str, shape))}"
        out = more.get("out", dtype)
        fold = more.get("fold")
        code, kind = CODES[out]
        results = (() if axis is None else shape[:axis] + shape[axis + 1:]) if fold else shape
        self.x, self.y = array(dtype, shape), np.zeros(results, kind)
        self.tx, self.ty = sf.numpy_view(self.x, CODES[dtype][0]), sf.numpy_view(self.y, code)
        self.options = (sf.FoldOptions if fold else sf.ScanOptions)(op=sf.OPS[more.get("op", "sum")], reverse=more.get("reverse", 0))
        if fold:
            axes = range(len(shape)) if axis is None else [axis]
            self.axes = (ctypes.c_int32 * len(axes))(*axes)
            self.options.axes, self.options.naxes = self.axes, len(axes)
        else:
            self.options.axis, self.options.exclusive = axis, more.get("exclusive", 0)
        if more.get("masked"):
            self.mask = array("bool", shape, 2)
            self.tm = sf.numpy_view(self.mask, 6)
            self.options.mask = ctypes.pointer(self.tm)
        if more.get("wide"):
            self.options.accumulator = sf.Dtype(2, 64, 1)
        self.context_of = context_of
        self.call = "sf_fold" if fold else "sf_scan"

    def run(self, lib):
        status = getattr(lib, self.call)(self.context_of[id(lib)], ctypes.byref(self.tx), ctypes.byref(self.ty), ctypes.byref(self.options))
        if status:
            sys.exit(f"{self.label}: {lib.sf_last_error(self.context_of[id(lib)]).decode()}")

    def seconds(self, lib, repeats):
        """The time of a call. It waits first, so that the other library's threads go to sleep,
        and makes a call that wakes its own."""
        time.sleep(0.005)
        if repeats > 1:
            self.run(lib)
        begin = time.perf_counter()
        for _ in range(repeats):
            self.run(lib)
        return (time.perf_counter() - begin) / repeats


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--filter", default="", help="only rows whose label contains this")
    arguments = parser.parse_args()
    libs = [sf.load(os.path.abspath(arguments.old)), sf.load(os.path.abspath(arguments.new))]
    contexts = {}
    for lib in libs:
        context = ctypes.c_void_p()
        options = sf.ContextOptions(threads=arguments.threads)
        if lib.sf_context_create(ctypes.byref(context), ctypes.byref(options)):
            sys.exit(lib.sf_last_error(None).decode())
        contexts[id(lib)] = context
    ratios = []
    print(f"{'row':48} {'old ms':>9} {'new ms':>9} {'old/new':>8}  middle half")
    for row in ROWS:
        work = Row(row, contexts)
        if arguments.filter not in work.label:
            continue
        repeats = max(1, int(0.02 / max(min(work.seconds(lib, 1) for lib in libs for _ in range(2)), 1e-7)))
        results = []
        for lib in libs:
            work.run(lib)
            results.append(work.y.copy())
        if "prod" not in work.name and results[0].tobytes() != results[1].tobytes():
            sys.exit(f"{work.label}: the two builds differ")
        times = [[], []]
        for r in range(arguments.rounds):
            for i in (0, 1) if r % 2 else (1, 0):
                times[i].append(work.seconds(libs[i], repeats))
        each = sorted(a / b for a, b in zip(*times))
        quarter = len(each) // 4
        ratios.append(statistics.median(each))
        print(f"{work.label:48} {1e3 * statistics.median(times[0]):9.3f} {1e3 * statistics.median(times[1]):9.3f} {ratios[-1]:8.3f}  "
              f"{each[quarter]:.3f} to {each[-1 - quarter]:.3f}", flush=True)
    print(f"geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.3f}, worst {min(ratios):.3f}")


if __name__ == "__main__":
    main()
