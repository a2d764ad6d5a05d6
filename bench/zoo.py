#!/usr/bin/env python3
"""Scans and folds nobody tuned for: cases drawn at random, each beside a device copy of the same bytes and beside torch.

    python3 bench/zoo.py --library build/libscanfold.so --seed 1 --count 200 [--small] [--html zoo.html] [--json zoo.json]
    python3 bench/zoo.py --library build/libscanfold.so --case "cumsum float16 200 x 1000 x 333, 1" [--case ...]

A case is an operation, a rank of 1 to 5, lengths (log-uniform, odd ones and powers of two alike), an axis or axes, a dtype and
the result's, and a layout: contiguous, transposed, or with an odd offset. It moves 32 MiB to 8 GiB; with --small 64 KiB to
32 MiB. The same seed draws the same cases everywhere. Times are taken as gpu.py does, short ones by replaying a graph. Some
lines of every result are compared with the CPU's, bit by bit.

Prints the distribution, the twenty worst and whatever torch wins. The exit status says whether the bars hold: of the large
cases a geometric mean of 0.88 of the copy, none under 0.6, none more than 3% slower than torch; of the small ones a mean of 0.6.
Of named cases it says only whether the bits are right.
"""
import argparse
import concurrent.futures
import ctypes
import html
import json
import math
import multiprocessing
import os
import random
import re
import statistics
import sys
import time

import torch

import gpu
import scanfold_ctypes as sf

MIB = 1 << 20
LARGE, SMALL = (32 * MIB, 8192 * MIB), (MIB // 16, 32 * MIB)
BARS = {"large": (0.88, 0.6), "small": (0.6, 0.0)}  # geometric mean, worst
SLOWER = 1.03
TORCH_SECONDS = 0.25
TORCH_MOST = 1 << 31  # elements; torch 2.11's cummax of more ends in an illegal access
TOGETHER = 8  # cases whose kernels are compiled at a time
MOST_CHECKED = 1 << 24  # elements that the CPU computes again

REALS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int32, torch.int64, torch.int8, torch.uint8)
# How often each is drawn.
OPS = {"sum": 10, "max": 3, "prod": 2, "min": 1}
DTYPES = {torch.float32: 8, torch.float16: 3, torch.bfloat16: 3, torch.float64: 2, torch.int32: 2, torch.int64: 2, torch.uint8: 2,
          torch.int8: 1, torch.bool: 1}
LAYOUTS = {"contiguous": 6, "transposed": 2, "odd offset": 2}


def pick(rng, weights):
    return rng.choices(list(weights), list(weights.values()))[0]


def name_of(dtype):
    return str(dtype).replace("torch.", "")


def item(dtype):
    return torch.empty(0, dtype=dtype).element_size()


# ---------------------------------------------------------------------------------------------------------------
# Drawing
# ---------------------------------------------------------------------------------------------------------------
class Case:
    """Shape is as the caller sees it; `order` is how its dimensions lie in memory, the first outermost."""

    def __init__(self, rng, limits):
        self.fold = rng.random() < 0.4
        self.op, self.dtype = pick(rng, OPS), pick(rng, DTYPES)
        if self.dtype == torch.bool:
            self.op = "sum"
        self.result = self.dtype
        widens = self.op in ("sum", "prod")
        if self.dtype == torch.bool or (self.dtype in INTEGERS and widens and rng.random() < 0.5):
            self.result = torch.int64
        elif self.dtype in (torch.float16, torch.bfloat16) and widens and rng.random() < 0.25:
            self.result = torch.float32
        self.reverse = not self.fold and rng.random() < 0.2
        rank = rng.randint(1, 5)
        self.axes = [rng.randrange(rank)]
        if self.fold and rank > 1 and self.op != "prod" and rng.random() < 0.3:
            self.axes = sorted(rng.sample(range(rank), rng.randint(2, rank)))
        size = item(self.dtype) + (0 if self.fold else item(self.result))
        low, high = (math.log2(bound / size) for bound in limits)
        self.shape = lengths(rng, rank, rng.uniform(low, high))
        while not limits[0] <= math.prod(self.shape) * size <= limits[1]:
            self.shape = lengths(rng, rank, rng.uniform(low, high))
        self.order = list(range(rank))
        self.layout = pick(rng, LAYOUTS)
        if self.layout == "transposed":
            rng.shuffle(self.order)
        self.seed = rng.getrandbits(31)

    @classmethod
    def named(cls, name):
        """The case that has this name, as the lists here show them."""
        match = re.fullmatch(r"(reverse )?(cum)?(sum|prod|max|min) (\w+)(?:->(\w+))? ([\d x]+), (\d+|\([\d, ]+\))(?:, (odd offset|transposed (\d+)))?", name)
        types = {name_of(dtype): dtype for dtype in DTYPES}
        if not match or not {match[4], match[5] or match[4]} <= set(types):
            raise argparse.ArgumentTypeError("%r is no case; one is: reverse cumsum float16->float32 65 x 13312, 0, odd offset" % name)
        reverse, scans, op, dtype, result, shape, axes, layout, order = match.groups()
        case = cls.__new__(cls)
        case.fold, case.op, case.reverse, case.seed = not scans, op, bool(reverse), 0
        case.dtype, case.result = types[dtype], types[result or dtype]
        case.shape = [int(length) for length in shape.split(" x ")]
        case.axes = [int(axis) for axis in re.findall(r"\d+", axes)]
        case.layout = "transposed" if order else layout or "contiguous"
        case.order = [int(d) for d in order] if order else list(range(len(case.shape)))
        return case

    @property
    def name(self):
        kind = self.op if self.fold else "cum" + self.op
        result = "" if self.result == self.dtype else "->" + name_of(self.result)
        where = self.axes[0] if len(self.axes) == 1 else tuple(self.axes)
        layout = "" if self.layout == "contiguous" else ", " + self.layout
        if self.layout == "transposed":
            layout += " %s" % "".join(map(str, self.order))
        return "%s%s %s%s %s, %s%s" % ("reverse " if self.reverse else "", kind, name_of(self.dtype), result,
                                       " x ".join(map(str, self.shape)), where, layout)

    def input(self, generator):
        memory = [self.shape[d] for d in self.order]
        offset = 1 if self.layout == "odd offset" else 0
        flat = values(math.prod(memory) + offset, self.dtype, generator)
        lies = flat[offset:].view(memory)
        return lies.permute([self.order.index(d) for d in range(len(memory))])

    def output(self, x):
        """In memory the dimensions follow each other as x's do, as torch has it."""
        order = [d for d in self.order if not (self.fold and d in self.axes)]
        memory = torch.empty([self.shape[d] for d in order], device="cuda", dtype=self.result)
        return memory.permute([order.index(d) for d in sorted(order)])

    def torch(self, x):
        d = self.axes[0]
        if self.fold:
            if self.op in ("max", "min"):
                return getattr(torch, "a" + self.op)(x, self.axes)
            return torch.sum(x, self.axes, dtype=self.result) if self.op == "sum" else torch.prod(x, d, dtype=self.result)
        scan = {"sum": torch.cumsum, "prod": torch.cumprod, "max": torch.cummax, "min": torch.cummin}[self.op]
        dtype = {"dtype": self.result} if self.op in ("sum", "prod") else {}
        return scan(x.flip(d), d, **dtype) if self.reverse else scan(x, d, **dtype)


def lengths(rng, rank, bits):
    """So many lengths of about 2^bits elements in all; about half of them powers of two."""
    cuts = sorted(rng.uniform(0, bits) for _ in range(rank - 1))
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, bits])]
    found = []
    for part in parts:
        length = 2.0 ** part
        if rng.random() < 0.4:
            length = 2.0 ** round(part)
        found.append(max(2, int(length)) | (1 if rng.random() < 0.2 and length > 2 else 0))
    return found


def values(count, dtype, generator):
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), device="cuda", dtype=torch.uint8, generator=generator).view(torch.bool)
    if dtype in INTEGERS:
        return torch.randint(0 if dtype == torch.uint8 else -100, 100, (count,), device="cuda", dtype=dtype, generator=generator)
    return torch.empty(count, device="cuda", dtype=dtype).uniform_(0.5, 1.5, generator=generator)


# ---------------------------------------------------------------------------------------------------------------
# One case
# ---------------------------------------------------------------------------------------------------------------
class Library(gpu.Scanfold):
    def call(self, case, x, y):
        tx, ty = self.tensor(x), self.tensor(y)
        if case.fold:
            o = sf.FoldOptions(op=sf.OPS[case.op], naxes=len(case.axes), axes=(ctypes.c_int32 * len(case.axes))(*case.axes))
        else:
            o = sf.ScanOptions(op=sf.OPS[case.op], axis=case.axes[0], reverse=case.reverse)
        run = self.lib.sf_fold if case.fold else self.lib.sf_scan

        def once():
            o.stream = torch.cuda.current_stream().cuda_stream if x.is_cuda else None
            self.check(run(None, ctypes.byref(tx), ctypes.byref(ty), ctypes.byref(o)))
        return once


def differing(library, case, x, y, rng, lines=4):
    """How many elements of a few lines differ from the CPU's in some bit."""
    wrong, rest = 0, [d for d in range(x.dim()) if d not in case.axes]
    length = math.prod(x.shape[d] for d in case.axes)
    if length > MOST_CHECKED and (case.fold or case.reverse):
        return 0  # for a fold, or from the end, a part does not help
    for _ in range(lines if length < MOST_CHECKED // 4 else 1):
        at = {d: rng.randrange(x.shape[d]) for d in rest}
        line = x[tuple(at.get(d, slice(None)) for d in range(x.dim()))]
        line = (line if case.fold else line[:MOST_CHECKED]).cpu().contiguous()
        alone = Case.__new__(Case)
        alone.__dict__.update(case.__dict__, axes=list(range(line.dim())))
        if case.fold:
            got = y[tuple(at[d] for d in rest)].cpu().reshape(())
        else:
            got = y[tuple(at.get(d, slice(None)) for d in range(x.dim()))][:MOST_CHECKED].cpu().contiguous()
        right = torch.empty_like(got)
        library.call(alone, line, right)()
        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[right.element_size()]
        wrong += int((right.reshape(-1).view(bits) != got.reshape(-1).view(bits)).sum())
    return wrong


def peer_times(case, x, small, with_compile):
    """{"torch_ms": ..., "compile_ms": ...}; without those that torch cannot compute."""
    found = {}
    for name in ("torch", "compile") if with_compile else ("torch",):
        try:
            run = case.torch
            if name == "compile":
                torch._dynamo.reset()
                run = torch.compile(case.torch, dynamic=False)
            found[name + "_ms"] = gpu.medians([lambda run=run: run(x)], small, TORCH_SECONDS, 5)[0]
        except Exception as problem:
            found[name + "_error"] = str(problem).splitlines()[0][:120]
    return found


def measure(library, case, buffers, with_torch, with_compile):
    generator = torch.Generator("cuda").manual_seed(case.seed)
    x = case.input(generator)
    y = case.output(x)
    nbytes = x.numel() * x.element_size() + y.numel() * y.element_size()
    ours = library.call(case, x, y)
    ours()
    wrong = differing(library, case, x, y, random.Random(case.seed))
    a, b = (buffer[:max(nbytes // 2, 1)] for buffer in buffers)
    copy = lambda: b.copy_(a)  # noqa: E731
    ms, copy_ms = gpu.medians([ours, copy], False, 0.5, 8)
    small = copy_ms < gpu.SMALL_MS
    if small:
        ms, copy_ms = gpu.medians([ours, copy], True, 0.5, 8)
    copy_ms *= max(nbytes // 2, 1) / a.numel()  # a fold's results may be larger than the buffers
    row = dict(case=case.name, bytes=nbytes, ms=ms, copy_ms=copy_ms, of_copy=copy_ms / ms, graph=small, wrong=wrong)
    if with_torch and x.numel() < TORCH_MOST:
        row.update(peer_times(case, x, small, with_compile))
    return row


def inductor(case):
    """Compiles what torch.compile makes of a case. Inductor keeps it on disk, where the timed run finds it."""
    try:
        generator = torch.Generator("cuda").manual_seed(case.seed)
        torch.compile(case.torch, dynamic=False)(case.input(generator))
    except Exception:  # reported when it is measured
        pass
    torch._dynamo.reset()
    torch.cuda.empty_cache()


def inductor_all(cases):
    """In several processes, because in one Inductor takes seconds a case."""
    start = time.time()
    workers = concurrent.futures.ProcessPoolExecutor(TOGETHER, multiprocessing.get_context("spawn"))
    with workers:
        for i, _ in enumerate(workers.map(inductor, cases)):
            progress("compiling with Inductor", i + 1, len(cases))
    print("Inductor's kernels in %.0f s" % (time.time() - start))


def compile_all(library, cases):
    """Calls each once, several at a time: NVRTC has a core for each, and the timed run finds the kernels there."""
    def once(case):
        generator = torch.Generator("cuda").manual_seed(case.seed)
        try:
            x = case.input(generator)
            library.call(case, x, case.output(x))()
        except Exception:  # reported when it is measured
            pass
    start = time.time()
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        for i, _ in enumerate(pool.map(once, cases)):
            progress("compiling", i + 1, len(cases))
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    print("%d cases' kernels in %.0f s" % (len(cases), time.time() - start))


def progress(what, done, count):
    if sys.stderr.isatty():
        end = "\n" if done == count else ""
        sys.stderr.write("\r%s %d of %d [%-30s]%s" % (what, done, count, "#" * (30 * done // count), end))
        sys.stderr.flush()


# ---------------------------------------------------------------------------------------------------------------
# Telling
# ---------------------------------------------------------------------------------------------------------------
def line_of(row):
    peer = "torch %9.4f ms (%.2f times ours)" % (row["torch_ms"], row["torch_ms"] / row["ms"]) if "torch_ms" in row else ""
    wrong = "  %d WRONG" % row["wrong"] if row["wrong"] else ""
    return "%.3f of copy  %9.4f ms  copy %9.4f ms  %s  %s%s" % (row["of_copy"], row["ms"], row["copy_ms"], row["case"], peer, wrong)


def summary(rows, kind):
    shares = sorted(row["of_copy"] for row in rows)
    mean = math.exp(statistics.fmean(map(math.log, shares)))
    quantile = lambda q: shares[min(len(shares) - 1, int(q * len(shares)))]  # noqa: E731
    lost = sorted((row for row in rows if "torch_ms" in row and row["ms"] > SLOWER * row["torch_ms"]),
                  key=lambda row: row["torch_ms"] / row["ms"])
    wrong = [row for row in rows if row["wrong"]]
    lines = ["%d %s cases, of a copy's rate: geometric mean %.3f, worst %.3f" % (len(rows), kind, mean, shares[0]),
             "tenths: " + "  ".join("%.2f" % quantile(q / 10) for q in range(1, 10)), "", "the twenty worst:"]
    lines += [line_of(row) for row in sorted(rows, key=lambda row: row["of_copy"])[:20]]
    lines += ["", "more than 3%% slower than torch: %d" % len(lost)] + [line_of(row) for row in lost]
    lines += ["", "wrong: %d" % len(wrong)] + [line_of(row) for row in wrong]
    best_mean, best_worst = BARS[kind]
    holds = mean >= best_mean and shares[0] >= best_worst and not wrong and not (lost and kind == "large")
    return "\n".join(lines), holds


def page(rows, text):
    """One point for each case: bytes moved on the x axis, the share of a copy on the y axis. Its
    tooltip describes the case."""
    width, height, left, low = 900, 420, 60, 380
    sizes = [math.log2(row["bytes"]) for row in rows]
    first, last = min(sizes), max(sizes)
    top = max(1.1, max(row["of_copy"] for row in rows))
    across = lambda v: left + (v - first) / max(last - first, 1e-9) * (width - left - 20)  # noqa: E731
    up = lambda v: low - v / top * (low - 20)  # noqa: E731
    marks = ['<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ccc"/><text x="8" y="%.1f">%.1f</text>' %
             (left, width - 20, up(v / 10), up(v / 10), up(v / 10) + 4, v / 10) for v in range(0, int(top * 10) + 1, 2)]
    marks += ['<text x="%.1f" y="%d" text-anchor="middle">2^%d</text>' % (across(b), low + 18, b)
              for b in range(math.ceil(first), math.floor(last) + 1, 2)]
    for row, size in zip(rows, sizes):
        lost = "torch_ms" in row and row["ms"] > SLOWER * row["torch_ms"]
        marks.append('<circle cx="%.1f" cy="%.1f" r="4" fill="%s" fill-opacity="0.7"><title>%s</title></circle>' %
                     (across(size), up(row["of_copy"]), "#c33" if lost else "#27c", html.escape(line_of(row))))
    return ("<!doctype html><meta charset=utf-8><title>Scanfold: the zoo</title>"
            "<style>body{font:14px sans-serif;margin:2em}svg text{font-size:11px}</style>"
            "<h1>The zoo</h1><p>Share of a copy's rate over bytes moved, a point a case; red where torch is more than 3%% faster."
            "</p><svg width=%d height=%d>%s</svg><pre>%s</pre>" % (width, height, "".join(marks), html.escape(text)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=os.path.join(gpu.HERE, "..", "build", "libscanfold.so"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--small", action="store_true", help="64 KiB to 32 MiB instead of 32 MiB to 8 GiB")
    parser.add_argument("--case", action="append", type=Case.named, help="time the case of this name instead of drawn ones; may be repeated")
    parser.add_argument("--only", default="", help="of the drawn cases, those whose name has this text")
    parser.add_argument("--list", action="store_true", help="say what would be drawn, and stop")
    parser.add_argument("--no-torch", action="store_true", help="do not time torch")
    parser.add_argument("--compile", action="store_true", help="time torch.compile too; it compiles for some seconds a case")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    parser.add_argument("--json")
    parser.add_argument("--html")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    kind, limits = ("small", SMALL) if args.small else ("large", LARGE)
    cases = args.case or [case for case in (Case(rng, limits) for _ in range(args.count)) if args.only in case.name]
    if args.list:
        print("\n".join(case.name for case in cases))
        return 0
    if not torch.cuda.is_available():
        sys.exit("zoo.py: torch sees no CUDA device")
    end, library = time.time() + args.seconds, Library(args.library)
    about = dict(gpu.provenance(args, library), seed=args.seed)
    print(json.dumps(about))
    compile_all(library, cases)
    if args.compile:
        inductor_all(cases)
    buffers = [torch.zeros(limits[1] * 3 // 4, device="cuda", dtype=torch.uint8) for _ in range(2)]
    rows, failed = [], []
    for i, case in enumerate(cases):
        try:
            rows.append(measure(library, case, buffers, not args.no_torch, args.compile))
            print(line_of(rows[-1]), flush=True)
        except Exception as problem:  # reported, and the run goes on
            failed.append("%s: %s" % (case.name, str(problem).splitlines()[0]))
            print(failed[-1], flush=True)
        torch.cuda.empty_cache()
        progress("measured", i + 1, len(cases))
        if time.time() > end:
            print("stopped after %d of %d cases" % (i + 1, len(cases)))
            break
    text, holds = summary(rows, kind)
    text += "\n\nfailed: %d\n%s" % (len(failed), "\n".join(failed))
    print("\n" + text)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(dict(about=about, rows=rows, failed=failed), file, indent=1)
    if args.html:
        with open(args.html, "w") as file:
            file.write(page(rows, text))
    wrong = any(row["wrong"] for row in rows)
    return 0 if not failed and (holds or (args.case and not wrong)) else 1


if __name__ == "__main__":
    sys.exit(main())
