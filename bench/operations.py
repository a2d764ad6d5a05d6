#!/usr/bin/env python3
"""Times the operations that carry more than a number, each beside a copy of the bytes it must move and beside torch, in one run.

    cmake -S . -B build -DSCANFOLD_PYTHON=ON && cmake --build build --target scanfold_python
    PYTHONPATH=python python3 bench/operations.py [--device cpu|cuda] [--only TEXT] [--out FOLDER]
    PYTHONPATH=python python3 bench/operations.py --family [--only TEXT] [--dtype TEXT]

With --family: every operation on the CPU, of every dtype and shape of FAMILY, one line for each of those: the share of plain reads (of a copy, for
scans), then how many times torch's speed. Plain reads are our own max of the same bytes as rows of i32.

Indices, variance, sums of exponentials, norms, logic and linear recurrences. Every form of a row is taken in turn, so that all see the same
clocks; the numbers are medians. On CUDA, work that a copy would take less than 0.5 ms for is timed in a graph of 20 calls. "Of copy" is the
copy's time over ours: the bytes are the least the work can move, each input read once and each result written once. Folds on the CPU write nearly
nothing: beside them stand plain reads, the faster of our own sum and max, as "of reads". On the CPU every form begins alike: other memory has been
written, so that no cache has the inputs, and torch's threads, which spin for a while after their work and so hold a processor, have had time to stop.
Without that the form after a form of torch's loses 15%, and the one after a form of ours nothing. Memory that is freed there is kept by the
allocator, for all forms: else fresh pages of results would take longer than the work. A few lines of every result
are computed on the CPU too and compared, bit by bit. A recurrence has no peer in torch: beside it stands a * b + x, which moves as much. Beside
cumprod stands our cumsum of the same numbers: products are kept in the range (docs/order.md), which on CUDA may cost a tenth of its speed. Writes
operations.json and operations.md.
"""
import argparse
import ctypes
import itertools
import json
import os
import statistics
import time

import torch

import scanfold
from gpu import CALLS, in_graph
from scanfold._timing import timed

# What goes back to its elements, by its expression: rows that fit a second-level cache, short ones, a vocabulary; and columns.
# Shape, axis, bar.
APPLIED = {"cuda": [((16384, 16384), 1, 0.93), ((262144, 1000), 1, 0.88), ((65536, 4096), 1, 0.88), ((8192, 32768), 1, 0.88), ((8192, 50257), 1, 0.88), ((8192, 65535), 1, 0.88),
                    ((2048, 131072), 1, 0.88), ((1024, 393216), 1, 0.85), ((16384, 16384), 0, 0.75), ((8192, 50304), 1, 0.88), ((8192, 20001), 1, 0.88), ((100000, 4097), 1, 0.88),
                    ((150000, 2049), 1, 0.88), ((200000, 1537), 1, 0.88), ((400000, 1001), 1, 0.88), ((300000, 333), 1, 0.88), ((1000000, 35), 1, 0.88)],
           "cpu": [((4096, 4096), 1, 0.8), ((65536, 256), 1, 0.8), ((16384, 1000), 1, 0.8), ((400, 50257), 1, 0.8), ((4096, 4096), 0, 0.8)]}
SQUARE = {"cuda": (16384, 16384), "cpu": (4096, 8192)}
# Products: every kind of kernel, and every width of an element. Numbers are near 1, so that results say something.
PRODUCTS = {"cuda": [((16384, 16384), 1, "float32"), ((16384, 16384), 0, "float32"), ((262144, 1000), 1, "float32"), ((65536, 3000), 1, "float32"), ((4096, 50257), 1, "float32"),
                     ((1 << 22, 35), 1, "float32"), ((1 << 28,), 0, "float32"), ((8, 1 << 24), 1, "float32"), ((1 << 22, 2), 0, "float32"), ((1 << 22, 8), 0, "float32"),
                     ((1 << 20, 32), 0, "float32"), ((1 << 22, 7), 0, "float32"), ((16384, 16384), 1, "float16"), ((16384, 16384), 0, "float16"), ((1 << 28,), 0, "bfloat16"),
                     ((16384, 8192), 1, "float64"), ((16384, 8192), 0, "float64"), ((1 << 27,), 0, "float64")],
            "cpu": [((4096, 4096), 1, "float32"), ((4096, 4096), 0, "float32"), ((1 << 24,), 0, "float32"), ((4096, 2048), 1, "float64")]}
# Beside plain reads; logsumexp is to be twice torch's speed, and has none.
CPU_BARS = {"argmax": 0.9, "any": 0.9, "all": 0.9, "count_nonzero": 0.9, "max, indices": "-", "cummax, indices": "-", "logsumexp": "-", "logcumsumexp": "-"}
SEQUENCES = {"cuda": [(8, 1536, n) for n in (65536, 16384, 2048, 65537, 1000)], "cpu": [(8, 192, 16384), *((8, lines, n) for n in (2048, 1000) for lines in (1536, 192))]}
COLUMNS = {"cuda": [(8, 2048, 1536)], "cpu": [(8, 2048, 1536), (8, 2048, 192)]}  # sequences along dim 1


PAUSE = 5e-3  # seconds before a turn on the CPU
SLOW = 100    # milliseconds: a form that takes longer has three turns


def medians(runs, device, turns=15, before=lambda: None):
    """`before` is called before each turn."""
    for run in runs.values():
        for _ in range(3 if device == "cuda" else 1):
            run()
    # How many calls are queued for one time, and how many of the work are in each.
    queued = {name: (run, 3 if device == "cuda" else 1, 1) for name, run in runs.items()}
    # Work that is soon done is captured as a graph of many calls: else the host would be timed. A copy is quickly asked for, and a graph may have
    # another engine do it (H200, 1 GiB: 2.7 TB/s, else 4.2).
    if device == "cuda" and timed(runs["copy"], device, CALLS) < 0.5:
        queued = {name: (run, CALLS, 1) if name == "copy" else (in_graph(run).replay, 1, CALLS) for name, run in runs.items()}
    times = {name: [] for name in runs}
    for _ in range(turns):
        for name, (run, calls, each) in queued.items():
            if len(times[name]) < 3 or times[name][-1] < SLOW:
                before()
                times[name].append(timed(run, device, calls) / each)
    return {name: statistics.median(t) for name, t in times.items()}


def square_work(device):
    """(name, dim, ours, torch's, (bar of dim 1, of dim 0)): of an f32 matrix."""
    def norm(x, d):
        return torch.linalg.vector_norm(x, 2, d)
    rows = [("argmax", scanfold.argmax, torch.argmax, (0.97, 0.97)),
            ("max, indices", lambda x, d: scanfold.max(x, d, return_indices=True), torch.max, (0.97, 0.97)),
            ("cummax, indices", lambda x, d: scanfold.cummax(x, d, return_indices=True), torch.cummax, (0.85, 0.8)),
            ("var_mean", scanfold.var_mean, torch.var_mean, (0.97, 0.95)),
            ("logsumexp", scanfold.logsumexp, torch.logsumexp, (0.97, 0.95)),
            ("norm", lambda x, d: scanfold.norm(x, 2, d), norm, (0.97, 0.95)),
            ("logcumsumexp", scanfold.logcumsumexp, torch.logcumsumexp, (0.5, 0.45)),
            ("any", scanfold.any, torch.any, (0.9, 0.9)), ("all", scanfold.all, torch.all, (0.9, 0.9)),
            ("count_nonzero", scanfold.count_nonzero, torch.count_nonzero, (0.9, 0.9)),
            ("max", scanfold.max, torch.amax, (0.9, 0.9)), ("sum", scanfold.sum, torch.sum, (0.9, 0.9)), ("mean", scanfold.mean, torch.mean, (0.9, 0.9))]
    return [(name, dim, ours, theirs, bars[1 - dim]) for name, ours, theirs, bars in rows for dim in (1, 0)]


def applied_work(dim):
    """(name, weights, ours, torch's): folds whose results go back to their elements, in one pass where the device can."""
    f = torch.nn.functional

    def by(text):
        return lambda x, *rest: scanfold.run(text % rest[-1], x=x, **dict(zip("wb", rest[:-1])))

    def along(function):  # torch's are of the last axis
        return lambda x, *rest: function(x.movedim(dim, -1), x.shape[dim:][:1], *rest[:-1]).movedim(-1, dim)
    return [("softmax", 0, by("softmax(x, %d)"), lambda x, d: torch.softmax(x, d)), ("log_softmax", 0, by("log_softmax(x, %d)"), lambda x, d: torch.log_softmax(x, d)),
            ("layer_norm", 2, by("layer_norm(x, %d, w, b)"), along(f.layer_norm)), ("rms_norm", 1, by("rms_norm(x, %d, w)"), along(f.rms_norm)),
            ("normalize", 0, by("normalize(x, 2, %d)"), lambda x, d: f.normalize(x, 2, d))]


def with_gradients(dim):
    """(name, weights, ours, torch's), of functions that have gradients."""
    ours = {"softmax": scanfold.softmax, "layer_norm": lambda x, w, b, d: scanfold.layer_norm(x, d, w, b), "rms_norm": lambda x, w, d: scanfold.rms_norm(x, d, w)}
    return [(name + " and backward", count, ours[name], theirs) for name, count, _, theirs in applied_work(dim) if name in ours]


def results_of(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def differing(ours, inputs, dim, got):
    """Elements of a few lines that the CPU computes otherwise; any NaN is any NaN."""
    def some(t, folded):
        if t.dim() < inputs[0].dim():  # a fold's result, or weights, which every line has whole
            return t.reshape(-1)[::max(1, t.numel() // 5)][:5].cpu() if folded else t.cpu()
        lines = t.movedim(dim, -1).reshape(-1, t.shape[dim])
        return lines[::max(1, lines.shape[0] // 5)][:5].contiguous().cpu()
    right = results_of(ours(*[some(x, False) for x in inputs], 1))
    wrong = 0
    for a, b in zip(right, got):
        b = some(b, True)
        whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
        same = a.contiguous().view(whole) == b.contiguous().view(whole)
        wrong += int((~(same | ((a != a) & (b != b)))).sum())
    return wrong


def measure(name, inputs, dim, ours, theirs, bar, device, again=0, beside="torch"):
    """`again`: how many streams of the first input's size the work reads besides what it is given and what it makes. beside: whose work `theirs`
    is; if not torch's, the bar is for the speed beside it."""
    got = results_of(ours(*inputs, dim))
    wrong = differing(ours, inputs, dim, got) if device == "cuda" else 0
    nbytes = sum(t.numel() * t.element_size() for t in [*inputs, *got, *inputs[:1] * again])
    del got
    a = torch.ones(nbytes // 2, dtype=torch.uint8, device=device)  # written: else all of it could be one page of zeros
    b = torch.empty_like(a)
    runs = {"copy": lambda: b.copy_(a), "ours": lambda: ours(*inputs, dim), "torch": lambda: theirs(*inputs, dim)}
    if device == "cpu" and nbytes < 1.1 * sum(t.numel() * t.element_size() for t in inputs):
        runs |= {"sum": lambda: scanfold.sum(inputs[0], dim), "max": lambda: scanfold.max(inputs[0], dim)}
    other = torch.empty(nbytes if device == "cpu" else 0, dtype=torch.uint8)

    def alike():
        other.fill_(1)
        time.sleep(PAUSE)
    ms = medians(runs, device, before=alike) if device == "cpu" else medians(runs, device)
    reads = min(ms["sum"], ms["max"]) / ms["ours"] if "sum" in ms else None
    row = dict(work=f"{name} {tuple(inputs[0].shape)}, dim {dim}", ms=ms["ours"], copy_ms=ms["copy"], torch_ms=ms["torch"], bar=bar, wrong=wrong,
               of_copy=ms["copy"] / ms["ours"], of_reads=reads, of_torch=ms["torch"] / ms["ours"])
    row["beside"] = beside
    print("%-48s %9.3f ms  %.3f of copy%s (bar %s)  %.2f times %s%s" %
          (row["work"], row["ms"], row["of_copy"], f", {reads:.3f} of reads" if reads else "", bar if beside == "torch" else f"{bar} of {beside}", row["of_torch"], beside,
           f"  {wrong} WRONG" if wrong else ""), flush=True)
    return row


def forward_and_backward(call, lines):
    """call's result and the gradients of its first `lines` inputs; those of weights are computed too, but belong to no line. The last input is the
    gradient, a tensor of its own: if it were the result, one stream less would have to be read."""
    def both(*inputs):
        *inputs, g, dim = inputs
        inputs = [x.detach().requires_grad_() for x in inputs]
        h = call(*inputs, dim)
        return (h.detach(), *torch.autograd.grad(h, inputs, g)[:lines])
    return both


FAMILY = {"rows of 8191": ((4096, 8191), 1), "rows of 64": ((1 << 19, 64), 1), "columns": ((4096, 4096), 0), "8 columns": ((1 << 22, 8), 0), "one line": ((1 << 25,), 0),
          "middle axis": ((64, 256, 1024), 1)}
FAMILY_DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "uint8")


def family_work():
    """name: (ours, torch's or None, whether integers have it)."""
    def norm(p):
        return lambda x, d: scanfold.norm(x, p, d), lambda x, d: torch.linalg.vector_norm(x, p, d), False
    folds = {"sum": (scanfold.sum, torch.sum, True), "argmax": (scanfold.argmax, torch.argmax, True),
             "max, indices": (lambda x, d: scanfold.max(x, d, return_indices=True), torch.max, True), "any": (scanfold.any, torch.any, True),
             "all": (scanfold.all, torch.all, True), "count": (scanfold.count_nonzero, torch.count_nonzero, True), "mean": (scanfold.mean, torch.mean, False),
             "var": (scanfold.var, torch.var, False), "std": (scanfold.std, torch.std, False), "var_mean": (scanfold.var_mean, torch.var_mean, False),
             "norm 1": norm(1), "norm 2": norm(2), "norm inf": norm(float("inf")), "norm 3": norm(3),
             "nansum": (lambda x, d: scanfold.sum(x, d, skip_nan=True), torch.nansum, False), "logsumexp": (scanfold.logsumexp, torch.logsumexp, False)}
    scans = {"cummax, indices": (lambda x, d: scanfold.cummax(x, d, return_indices=True), torch.cummax, True),
             "cummean": (lambda x, d: scanfold.run(f"cummean(x, {d})", x=x), None, False), "cumvar": (lambda x, d: scanfold.run(f"cumvar(x, {d})", x=x), None, False),
             "logcumsumexp": (scanfold.logcumsumexp, torch.logcumsumexp, False)}
    return folds, scans


def family(wanted, dtypes):
    other = torch.empty(48 << 20, dtype=torch.uint8)  # more than the caches have

    def alike():
        other.fill_(1)
        time.sleep(PAUSE)
    for (where, (shape, dim)), dtype in itertools.product(FAMILY.items(), dtypes):
        kind = getattr(torch, dtype)
        x = torch.randn(shape).to(kind) if kind.is_floating_point else torch.randint(0, 200, shape, dtype=kind)
        words = x.view(-1).view(torch.int32)
        plain, cells = words[:words.numel() // 4096 * 4096].view(4096, -1), []
        for folds, work in zip((True, False), family_work()):
            for name, (ours, theirs, integers) in work.items():
                if not wanted(f"{name} {where}") or not (integers or kind.is_floating_point):
                    continue
                nbytes = sum(t.numel() * t.element_size() for t in [x, *results_of(ours(x, dim))])
                a = torch.ones(nbytes // 2, dtype=torch.uint8)
                b = torch.empty_like(a)
                runs = {"ours": lambda: ours(x, dim), "best": (lambda: scanfold.max(plain, 1)) if folds else (lambda: b.copy_(a))}
                ms = medians(runs | ({"torch": lambda: theirs(x, dim)} if theirs else {}), "cpu", 3, alike)
                cells.append(f"{name} {ms['best'] / ms['ours']:.2f}" + (f"/{ms['torch'] / ms['ours']:.1f}" if theirs else ""))
        if cells:
            print(f"{where}, {dtype}:", " | ".join(cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", default="", help="rows whose names have one of these in them, with commas between")
    parser.add_argument("--dtype", default="float32", help="of softmax and norms; of a family also all")
    parser.add_argument("--family", action="store_true", help="every operation, dtype and shape on the CPU, one line for each dtype and shape")
    parser.add_argument("--out")
    args = parser.parse_args()
    device, rows = args.device, []

    def wanted(name):
        return any(part in name for part in args.only.split(","))
    if device == "cpu":
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 1 << 30)            # M_MMAP_THRESHOLD: from the heap,
        libc.mallopt(-1, (1 << 31) - 1)      # M_TRIM_THRESHOLD: which is not given back
    if args.family:
        family(wanted, [d for d in FAMILY_DTYPES if args.dtype in (d, "all")])
        return
    x = torch.randn(SQUARE[device], device=device)
    for name, dim, ours, theirs, bar in square_work(device):
        if wanted(name):
            rows.append(measure(name, [x], dim, ours, theirs, bar if device == "cuda" else CPU_BARS.get(name, 0.8), device))
    del x
    for shape, dim, bar in APPLIED[device]:
        dtype = getattr(torch, args.dtype)
        x, beside = torch.randn(shape, device=device).to(dtype), [torch.randn(shape[dim], device=device).to(dtype) for _ in range(2)]
        for name, count, ours, theirs in applied_work(dim):
            if wanted(name):
                rows.append(measure(name, [x, *beside[:count]], dim, ours, theirs, bar, device))
        for name, count, ours, theirs in with_gradients(dim):
            if wanted(name):  # going back reads x or the result again
                rows.append(measure(name, [x, *beside[:count], torch.randn_like(x)], dim, forward_and_backward(ours, 1), forward_and_backward(theirs, 1),
                                    0.88 if device == "cuda" else "-", device, again=1))
        del x

    for shape, dim, dtype in PRODUCTS[device]:
        if wanted("cumprod"):
            x = (torch.randn(shape, device=device) * 0.01 + 1).to(getattr(torch, dtype))
            rows.append(measure(f"cumprod {dtype}", [x], dim, scanfold.cumprod, scanfold.cumsum, 0.9 if device == "cuda" else "-", device, beside="cumsum"))
            del x

    def recurrence(a, b, dim):
        return scanfold.linear_recurrence(a, b, dim)
    cases = [(shape, 2) for shape in SEQUENCES[device]] + [(shape, 1) for shape in COLUMNS[device]]
    bars = (0.92, 0.92, 0.85, 0.85, 0.8, 0.85) if device == "cuda" else [0.5] * len(cases)
    for (shape, dim), bar in zip(cases, bars):
        if wanted("recurrence"):
            a = torch.rand(shape, device=device) * 0.2 + 0.8
            b, g = (torch.randn(shape, device=device) for _ in range(2))
            rows.append(measure("recurrence", [a, b], dim, recurrence, lambda a, b, dim: torch.addcmul(b, a, b), bar, device))
            rows.append(measure("recurrence and backward", [a, b, g], dim, forward_and_backward(recurrence, 2),
                                lambda a, b, g, dim: torch.addcmul(b, a, g), 0.85 if device == "cuda" else "-", device,
                                again=2))  # going back reads a and h again
            del a, b, g
    if args.out:
        os.makedirs(args.out, exist_ok=True)
        with open(os.path.join(args.out, "operations.json"), "w") as to:
            json.dump(dict(device=device, threads=torch.get_num_threads(), torch=torch.__version__, rows=rows), to, indent=1)
        with open(os.path.join(args.out, "operations.md"), "w") as to:
            to.write("| work | ms | of copy | bar | beside | times that |\n|---|---|---|---|---|---|\n")
            to.writelines("| %(work)s | %(ms).3f | %(of_copy).3f | %(bar)s | %(beside)s | %(of_torch).2f |\n" % row for row in rows)


if __name__ == "__main__":
    main()
