#!/usr/bin/env python3
"""Times scans and folds on the CPU: NumPy, torch and scanfold beside a copy of the same bytes, in one run.

    SCANFOLD_LIB=build/libscanfold.so python3 bench/cpu_peers.py [--quick] [--only TEXT] [--rounds N] [--threads N] [--json FILE]

Within a round every contender has its turn, so that a change of clock or a noisy neighbour meets all of them; a time is the median
of its rounds. All memory has been written before it is timed, and is shared by all contenders. GB/s count the least bytes the
work can move, each input read once and each output written once, whatever a contender really moves. "Copy" is memcpy on as many
threads as scanfold and torch use, of as many bytes read plus written. Before a row is timed, lines of scanfold's result are
compared with its reference, bit by bit.

Prints a Markdown table and writes bench/results/cpu.json: machine, compiler, commit, every number. Needs NumPy; torch is used if
it is there.
"""
import argparse
import concurrent.futures
import ctypes
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time

import numpy as np

import scanfold_ctypes as sf

try:
    import torch
except ImportError:
    torch = None

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SHORTEST = 2e-3   # seconds: a contender is called as often as makes its turn this long
SLOW = 0.5        # one whose single call takes longer has its turn in the first SLOW_ROUNDS rounds only
SLOW_ROUNDS = 3
PAUSE = 5e-3      # before a turn: the threads of the one before spin for a while, waiting for more
CHECKED_LINES = 4
CHECKED_LENGTH = 1 << 16
MOST_FOLDED = 1 << 24  # longer sequences than this take the reference too long


# ---------------------------------------------------------------------------------------------------------------
# The library, through its header
# ---------------------------------------------------------------------------------------------------------------
# Name: DLPack's code, and the NumPy type of the same bytes. NumPy has no bf16; its bytes are kept as uint16.
DTYPES = {"f32": (2, np.float32), "f64": (2, np.float64), "f16": (2, np.float16), "bf16": (4, np.uint16),
          "i32": (0, np.int32), "i64": (0, np.int64), "bool": (6, np.bool_)}


class Scanfold:
    def __init__(self, path, threads):
        self.lib = sf.load(path)
        self.ctx = self.context(threads, 0)
        self.ref = self.context(1, 1)
        self.threads = self.lib.sf_context_threads(self.ctx)

    def context(self, threads, backend):
        ctx = ctypes.c_void_p()
        options = sf.ContextOptions(threads=threads, backend=backend)
        self.check(None, self.lib.sf_context_create(ctypes.byref(ctx), ctypes.byref(options)))
        return ctx

    def check(self, ctx, status):
        if status:
            raise RuntimeError(self.lib.sf_last_error(ctx).decode())

    def run(self, function, ctx, x, y, dtype, o, mask=None):
        """A function of no arguments that makes the call. Everything is prepared, so a call costs about a microsecond of ctypes."""
        tx, ty, tm = sf.numpy_view(x, DTYPES[dtype][0]), sf.numpy_view(y, DTYPES[dtype][0]), None
        if mask is not None:
            tm = sf.numpy_view(mask, DTYPES["bool"][0])
            o.mask = ctypes.pointer(tm)
        px, py, po = ctypes.addressof(tx), ctypes.addressof(ty), ctypes.addressof(o)

        def call(keep=(tx, ty, tm, o)):
            status = function(ctx, px, py, po)
            if status:
                self.check(ctx, status)
        return call

    def scan(self, x, y, dtype, axis, reverse=False, mask=None, ctx=None):
        return self.run(self.lib.sf_scan, ctx or self.ctx, x, y, dtype, sf.ScanOptions(axis=axis, reverse=reverse), mask)

    def fold(self, x, y, dtype, axis, ctx=None):
        o = sf.FoldOptions()
        if axis is not None:
            o.naxes, o.axes = 1, (ctypes.c_int32 * 1)(axis)
        return self.run(self.lib.sf_fold, ctx or self.ctx, x, y, dtype, o)


# ---------------------------------------------------------------------------------------------------------------
# Memory: two large blocks and a mask, written once, that every row is a view of
# ---------------------------------------------------------------------------------------------------------------
class Memory:
    def __init__(self, size, mask_size):
        self.x, self.y = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        self.x[:], self.y[:] = 1, 1  # memory that was never written has no pages yet
        self.mask = np.resize(np.random.default_rng(1).random(1 << 16) < 0.7, mask_size)
        self.spare = np.ones(mask_size, np.float32)
        self.filled = None

    def fill(self, dtype):
        """Numbers of ordinary size, in all of x; small halves, so that thousands of them stay finite."""
        if self.filled == dtype:
            return
        block = np.random.default_rng(0).random(1 << 16) + 0.5
        if dtype == "bf16":
            block = (block.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        elif dtype in ("i32", "i64"):
            block = (block * 1e9).astype(DTYPES[dtype][1])
        else:
            block = (block * (2.0 ** -11 if dtype == "f16" else 1)).astype(DTYPES[dtype][1])
        x = self.x[:len(self.x) // block.nbytes * block.nbytes].view(block.dtype)
        x.reshape(-1, len(block))[:] = block
        self.filled = dtype

    def view(self, which, shape, dtype):
        kind = np.dtype(DTYPES[dtype][1])
        count = int(np.prod(shape, dtype=np.int64))
        return which[:count * kind.itemsize].view(kind).reshape(shape)


# ---------------------------------------------------------------------------------------------------------------
# Work: a row of the table. Each contender is a function of no arguments, or None where there is none.
# ---------------------------------------------------------------------------------------------------------------
class Cumsum:
    def __init__(self, name, shape, axis, dtype="f32", reverse=False, masked=False):
        self.name, self.shape, self.axis, self.dtype, self.reverse, self.masked = name, shape, axis, dtype, reverse, masked
        self.count = int(np.prod(shape, dtype=np.int64))
        self.size = np.dtype(DTYPES[dtype][1]).itemsize
        self.bytes = self.count * (2 * self.size + masked)
        self.need = (self.bytes + 1) // 2  # of each block: a masked row's copy takes more than x does

    def prepare(self, memory):
        memory.fill(self.dtype)
        self.x, self.y = memory.view(memory.x, self.shape, self.dtype), memory.view(memory.y, self.shape, self.dtype)
        self.mask = memory.mask[:self.count].reshape(self.shape) if self.masked else None
        self.spare = memory.spare[:self.count].reshape(self.shape) if self.masked else None

    def numpy(self):
        x, y, axis = self.x, self.y, self.axis
        if self.dtype == "bf16":
            return None
        if self.masked:
            return lambda: np.cumsum(np.multiply(x, self.mask, out=self.spare), axis=axis, out=y)
        if self.reverse:
            return lambda: np.cumsum(np.flip(x, axis), axis=axis, out=np.flip(y, axis))
        return lambda: np.cumsum(x, axis=axis, dtype=x.dtype, out=y)

    def torch(self):
        x, y = (as_torch(a, self.dtype) for a in (self.x, self.y))
        if self.masked:
            mask, spare = torch.from_numpy(self.mask), torch.from_numpy(self.spare)
            return lambda: torch.cumsum(torch.mul(x, mask, out=spare), self.axis, out=y)
        if self.reverse:
            return lambda: torch.cumsum(x.flip(self.axis), self.axis).flip(self.axis)
        return lambda: torch.cumsum(x, self.axis, dtype=x.dtype, out=y)

    def scanfold(self, sf):
        return sf.scan(self.x, self.y, self.dtype, self.axis, self.reverse, self.mask)

    def check(self, sf):
        """The reference on a few lines, from their first position: a scan's result does not depend on what comes after it."""
        n = self.shape[self.axis]
        part = [slice(0, CHECKED_LINES)] * len(self.shape)
        part[self.axis] = slice(n - min(n, CHECKED_LENGTH), n) if self.reverse else slice(0, CHECKED_LENGTH)
        x, y = self.x[tuple(part)], self.y[tuple(part)]
        mask = self.mask[tuple(part)] if self.masked else None
        right = np.empty_like(x, order="C", subok=False)
        sf.scan(x, right, self.dtype, self.axis, self.reverse, mask, ctx=sf.ref)()
        return right.tobytes() == np.ascontiguousarray(y).tobytes()


class Sum:
    def __init__(self, name, shape, axis, dtype="f32"):
        self.name, self.shape, self.axis, self.dtype = name, shape, axis, dtype
        self.count = int(np.prod(shape, dtype=np.int64))
        self.size = np.dtype(DTYPES[dtype][1]).itemsize
        self.out_shape = () if axis is None else tuple(n for d, n in enumerate(shape) if d != axis)
        self.bytes = (self.count + int(np.prod(self.out_shape, dtype=np.int64))) * self.size
        self.need = self.count * self.size

    def prepare(self, memory):
        memory.fill(self.dtype)
        self.x, self.y = memory.view(memory.x, self.shape, self.dtype), memory.view(memory.y, self.out_shape, self.dtype)

    def numpy(self):
        return lambda: np.sum(self.x, axis=self.axis, out=self.y)

    def torch(self):
        x, y = as_torch(self.x, self.dtype), as_torch(self.y, self.dtype)
        if self.axis is None:
            return lambda: torch.sum(x)
        return lambda: torch.sum(x, self.axis, out=y)

    def scanfold(self, sf):
        return sf.fold(self.x, self.y, self.dtype, self.axis)

    def check(self, sf):
        if (self.count if self.axis is None else self.shape[self.axis]) > MOST_FOLDED:
            return None
        part = [slice(0, CHECKED_LINES)] * len(self.shape)
        if self.axis is None:
            part = [slice(None)] * len(self.shape)
        else:
            part[self.axis] = slice(None)
        x = self.x[tuple(part)]
        y = self.y if self.axis is None else self.y[tuple(p for d, p in enumerate(part) if d != self.axis)]
        right = np.empty(y.shape, self.x.dtype)
        sf.fold(x, right, self.dtype, self.axis, ctx=sf.ref)()
        return right.tobytes() == np.ascontiguousarray(y).tobytes()


class MatmulSum:
    """sum((x @ W.T) / 2, 1) * 1.5, as written or rewritten by hand to (x @ W.sum(0)) * 0.75. scanfold's contender is the
    rewritten one in both rows: its fold of W, and NumPy's product of x with that."""
    dtype = "f32"

    def __init__(self, name, rows, side, rewritten):
        self.name, self.rows, self.side, self.rewritten = name, rows, side, rewritten
        self.shape = (rows, side, side)
        self.bytes = 4 * (side * side + rows * side + rows)
        self.need = 4 * side * side

    def prepare(self, memory):
        memory.fill(self.dtype)
        self.w = memory.view(memory.x, (self.side, self.side), self.dtype)
        self.x = memory.view(memory.y, (self.rows, self.side), self.dtype)
        self.x[:] = self.w[:self.rows]
        self.sums = np.zeros(self.side, np.float32)

    def numpy(self):
        x, w = self.x, self.w
        if self.rewritten:
            return lambda: (x @ np.sum(w, axis=0)) * np.float32(0.75)
        return lambda: np.sum(np.matmul(x, w.T) / 2, axis=1, keepdims=True) * 1.5

    def torch(self):
        x, w = as_torch(self.x, self.dtype), as_torch(self.w, self.dtype)
        if self.rewritten:
            return lambda: (x @ torch.sum(w, 0)) * 0.75
        return lambda: torch.sum(torch.matmul(x, w.T) / 2, dim=1, keepdim=True) * 1.5

    def scanfold(self, sf):
        fold = sf.fold(self.w, self.sums, self.dtype, 0)

        def run():
            fold()
            return (self.x @ self.sums) * np.float32(0.75)
        return run

    def check(self, sf):
        right = np.empty(CHECKED_LINES, np.float32)
        sf.fold(self.w[:, :CHECKED_LINES], right, self.dtype, 0, ctx=sf.ref)()
        return right.tobytes() == self.sums[:CHECKED_LINES].tobytes()


def as_torch(a, dtype):
    return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) if dtype == "bf16" else torch.from_numpy(a)


def all_work(quick):
    square = (2048, 2048) if quick else (8192, 8192)
    block = (16, 512, 1023) if quick else (16, 4096, 4095)
    tall = 1 << (20 if quick else 22)
    matmul = (256, 2048) if quick else (1024, 8192)
    work = [Cumsum("cumsum axis 1", square, 1), Cumsum("cumsum axis 0", square, 0),
            Cumsum("masked cumsum axis 1", square, 1, masked=True), Cumsum("masked cumsum axis 0", square, 0, masked=True),
            Cumsum("reverse cumsum axis 1", square, 1, reverse=True), Cumsum("reverse cumsum axis 0", square, 0, reverse=True),
            Cumsum("cumsum of one line", (1 << (24 if quick else 28),), 0),
            Cumsum("cumsum axis 0", (tall, 2), 0), Cumsum("cumsum axis 0", (tall, 8), 0), Cumsum("cumsum axis 1", (tall, 4), 1),
            Sum("sum axis 0", block, 0), Sum("sum axis 1", block, 1), Sum("sum axis 2", block, 2), Sum("sum of all", block, None)]
    work += [Cumsum("cumsum axis 1", square, 1, dtype) for dtype in ("f64", "i64", "i32", "f16", "bf16")]
    work += [Cumsum("cumsum axis %d" % axis, (side, side), axis) for side in (1024, 64) for axis in (1, 0)]
    work += [MatmulSum("matmul, divide, sum, scale", *matmul, False), MatmulSum("the same, rewritten by hand", *matmul, True)]
    return work


# ---------------------------------------------------------------------------------------------------------------
# Timing
# ---------------------------------------------------------------------------------------------------------------
class Copy:
    """memcpy on several threads at once. A turn of many calls is dealt out whole, so that starting threads does not show."""

    def __init__(self, memory, threads):
        self.memory, self.threads = memory, threads
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)

    def turn(self, moved):
        each = moved // 2  # a copy moves every byte twice
        threads = self.threads if moved >= 512 << 10 else 1
        cuts = [each * t // threads // 64 * 64 for t in range(threads)] + [each]
        x, y = self.memory.x.ctypes.data, self.memory.y.ctypes.data

        def part(t, calls):
            to, start, size = y + cuts[t], x + cuts[t], cuts[t + 1] - cuts[t]
            for _ in range(calls):
                ctypes.memmove(to, start, size)  # releases the GIL meanwhile

        def run(calls):
            others = [self.pool.submit(part, t, calls) for t in range(1, threads)]
            part(0, calls)
            for other in others:
                other.result()
        return run


def repeated(call):
    def run(calls):
        for _ in range(calls):
            call()
    return run


def seconds(run, calls, warm):
    time.sleep(PAUSE)
    if warm:  # wakes its threads again; that is short beside a long call
        run(1)
    start = time.perf_counter()
    run(calls)
    return (time.perf_counter() - start) / calls


def measure(work, sf, copy, rounds):
    turns, problems = {"copy": copy.turn(work.bytes)}, {}
    makers = {"numpy": work.numpy, "torch": work.torch if torch else None, "scanfold": lambda: work.scanfold(sf)}
    once = {}
    for name, make in makers.items():
        try:
            call = make() if make else None
            if call:
                call()
                turns[name] = repeated(call)
        except (RuntimeError, TypeError) as problem:  # an older torch has no f16 cumsum, for one
            if name == "scanfold":
                raise
            problems[name] = str(problem).splitlines()[0]
    same = work.check(sf)  # scanfold wrote last
    if same is False:
        raise RuntimeError("%s: scanfold's bits are not the reference's" % work.name)
    for name, run in turns.items():
        once[name] = seconds(run, 1, True)
    times = {name: [] for name in turns}
    for number in range(rounds):
        for name, run in turns.items():
            if once[name] < SLOW or number < SLOW_ROUNDS:
                calls = max(1, int(SHORTEST / max(once[name], 1e-7)))
                times[name].append(seconds(run, calls, warm=once[name] < 10 * SHORTEST))
    return dict(work=work.name, shape=list(work.shape), dtype=work.dtype, bytes=work.bytes, bits_checked=same is True,
                contenders={name: dict(seconds=statistics.median(t), rounds=len(t), fastest=min(t), slowest=max(t))
                            for name, t in times.items()}, problems=problems)


# ---------------------------------------------------------------------------------------------------------------
# Results and the machine
# ---------------------------------------------------------------------------------------------------------------
def output(*command):
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def cpu_model():
    try:
        with open("/proc/cpuinfo") as file:
            return re.search(r"model name\s*:\s*(.*)", file.read()).group(1)
    except (OSError, AttributeError):
        return platform.processor() or platform.machine()


def compiler_of(library):
    """The compiler's name, as it is written in the library."""
    with open(library, "rb") as file:
        found = set(re.findall(rb"GCC: \([^)\0]*\) [0-9.]+|clang version [0-9.]+", file.read()))
    return ", ".join(sorted(text.decode() for text in found)) or "unknown"


def provenance(library, sf, args):
    commit = output("git", "rev-parse", "--short=12", "HEAD") or "unknown"
    if output("git", "status", "--porcelain", "--untracked-files=no"):
        commit += " and changes"
    return dict(cpu=cpu_model(), cpus=len(os.sched_getaffinity(0)), system=platform.platform(), threads=sf.threads,
                instructions=sf.lib.sf_context_isa(sf.ctx).decode(), scanfold=sf.lib.sf_version_string().decode(), commit=commit,
                compiler=compiler_of(library), python=platform.python_version(), numpy=np.__version__,
                torch=torch.__version__ if torch else None, rounds=args.rounds, quick=args.quick,
                command=" ".join(["python3", os.path.relpath(os.path.abspath(sys.argv[0]), ROOT), *sys.argv[1:]]),
                date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"))


def cell(row, name):
    if name not in row["contenders"]:
        return "–"
    time_ = row["contenders"][name]["seconds"]
    if row["bytes"] < 1 << 20:
        return "%.2f us" % (1e6 * time_)
    if row["work"].startswith(("matmul", "the same")):
        return "%.1f ms" % (1e3 * time_)
    return "%.2f" % (1e-9 * row["bytes"] / time_)


def table_row(row):
    shape = " x ".join("2^%d" % (n.bit_length() - 1) if n >= 1 << 20 and n & (n - 1) == 0 else str(n) for n in row["shape"])
    share = row["contenders"]["copy"]["seconds"] / row["contenders"]["scanfold"]["seconds"]
    cells = [cell(row, name) for name in ("numpy", "torch", "scanfold", "copy")]
    return "| %s | %s | %s | %s | %.2f |" % (row["work"], shape, row["dtype"], " | ".join(cells), share)


def heading(about):
    lines = ["%(cpu)s, %(threads)d threads, %(instructions)s; %(compiler)s; scanfold %(scanfold)s at %(commit)s; " % about +
             "NumPy %s, %s; %s." % (about["numpy"], "torch %s" % about["torch"] if about["torch"] else "no torch", about["date"]),
             "`%(command)s`, medians of %(rounds)d rounds. GB/s, or the time where a unit is given." % about, "",
             "| work | shape | dtype | NumPy | torch | scanfold | copy | of copy |", "|---|---|---|---|---|---|---|---|"]
    return "\n".join(lines)


def write_json(path, result):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".part", "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--only", default="", help="the rows whose name, shape and dtype contain this text")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0, help="for scanfold, torch and the copy; default: as scanfold decides")
    parser.add_argument("--json", default=os.path.join(HERE, "results", "cpu.json"))
    args = parser.parse_args()
    library = os.environ.get("SCANFOLD_LIB") or os.path.join(ROOT, "build", "libscanfold.so")
    if not os.path.exists(library):
        sys.exit("cpu_peers.py: %s is not there; build it with `make`, or name it in SCANFOLD_LIB" % library)
    if args.rounds < 1:
        sys.exit("cpu_peers.py: --rounds is %d; it must be 1 or more" % args.rounds)
    work = [w for w in all_work(args.quick)
            if args.only in "%s %s %s" % (w.name, "x".join(map(str, w.shape)), w.dtype)]
    if not work:
        sys.exit("cpu_peers.py: no row contains %r" % args.only)
    sf = Scanfold(os.path.abspath(library), args.threads)
    if torch:
        torch.set_num_threads(sf.threads)
        torch.set_grad_enabled(False)
    masks = [w.count for w in work if getattr(w, "masked", False)]
    memory = Memory(max(w.need for w in work) + (1 << 20), max(masks, default=1))  # more than a row, so that fill covers it
    copy = Copy(memory, sf.threads)
    result = dict(about=provenance(library, sf, args), rows=[])
    print(heading(result["about"]), flush=True)
    for w in work:
        w.prepare(memory)
        row = measure(w, sf, copy, args.rounds)
        result["rows"].append(row)
        print(table_row(row), flush=True)
    write_json(args.json, result)
    print("\nwritten: %s" % os.path.relpath(args.json), file=sys.stderr)


if __name__ == "__main__":
    main()
