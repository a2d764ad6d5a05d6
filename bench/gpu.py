#!/usr/bin/env python3
"""Times scans and folds on a GPU, each beside a device copy of the same bytes and beside what people use instead.

    python3 bench/gpu.py --library build/libscanfold.so [--out FOLDER] [--only TEXT] [--peers torch,compile,cub,jax,cupy]

Everything runs in one process on one device: medians of CUDA-event times, ours and the copy's taken in turn, so that both see the
same clocks. Work below 0.1 ms is captured in a graph, twenty calls long, and replayed: the launches' gaps are then nobody's. "Of
copy" is bytes a second over the copy's bytes a second; the bytes are the least the work can move, each input read once and each
output written once. A few lines of every result are compared with the CPU's, bit by bit.

Writes gpu.json (chip, driver, commit, every number) and gpu.md (the table). Needs torch; the other peers are used where they are.
"""
import argparse
import ctypes
import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import torch  # noqa: E402

import scanfold_ctypes as sf  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS = 20  # in a graph
SMALL_MS = 0.1
HOST_BAR_US = 3


# ---------------------------------------------------------------------------------------------------------------
# The library, through its header
# ---------------------------------------------------------------------------------------------------------------
CODES = {torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.float32: (2, 32), torch.float64: (2, 64), torch.int8: (0, 8),
         torch.int16: (0, 16), torch.int32: (0, 32), torch.int64: (0, 64), torch.uint8: (1, 8), torch.bool: (6, 8)}


class Scanfold:
    def __init__(self, path):
        self.lib = sf.load(path)

    def tensor(self, t):
        """A view of a torch tensor; keeps what it points to."""
        device = (sf.CUDA, t.device.index or 0) if t.is_cuda else (sf.CPU, 0)
        return sf.view(t.data_ptr(), device, *CODES[t.dtype], t.shape, t.stride(), t)

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.sf_last_error(None).decode())

    def scan(self, x, y, axis, reverse=False, mask=None):
        """A function of no arguments that launches the scan on torch's current stream."""
        o = sf.ScanOptions(axis=axis, reverse=reverse)
        tx, ty, tm = self.tensor(x), self.tensor(y), self.tensor(mask) if mask is not None else None
        if tm is not None:
            o.mask = ctypes.pointer(tm)

        def run():
            o.stream = torch.cuda.current_stream().cuda_stream if x.is_cuda else None
            self.check(self.lib.sf_scan(None, ctypes.byref(tx), ctypes.byref(ty), ctypes.byref(o)))
        return run

    def fold(self, x, y, axes):
        o = sf.FoldOptions()
        if axes is not None:
            o.naxes, o.axes = len(axes), (ctypes.c_int32 * len(axes))(*axes)
        tx, ty = self.tensor(x), self.tensor(y)

        def run():
            o.stream = torch.cuda.current_stream().cuda_stream if x.is_cuda else None
            self.check(self.lib.sf_fold(None, ctypes.byref(tx), ctypes.byref(ty), ctypes.byref(o)))
        return run


# ---------------------------------------------------------------------------------------------------------------
# Timing
# ---------------------------------------------------------------------------------------------------------------
def event_ms(run):
    start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
    start.record()
    run()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop)


def in_graph(run):
    """run, CALLS times over, as one captured graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(CALLS):
            run()
    return graph


def medians(runs, small, seconds, reps=20):
    """The median milliseconds of each function, taken in turn; fewer turns if `seconds` are over."""
    graphs = [in_graph(run) for run in runs] if small else None
    turns = [graph.replay for graph in graphs] if small else runs
    for turn in turns:
        for _ in range(3 if small else 1):
            turn()
    torch.cuda.synchronize()
    times = [[] for _ in runs]
    end = time.time() + seconds
    for rep in range(reps + 2):
        for i, turn in enumerate(turns):
            ms = event_ms(turn) / (CALLS if small else 1)
            if rep >= 2 or time.time() > end:
                times[i].append(ms)
        if time.time() > end:
            break
    return [statistics.median(t) for t in times]


# ---------------------------------------------------------------------------------------------------------------
# The work
# ---------------------------------------------------------------------------------------------------------------
class Work:
    def __init__(self, kind, shape, dim, bar, goal, dtype=torch.float32, times_copy=False):
        self.kind, self.shape, self.dim, self.bar, self.goal, self.dtype = kind, shape, dim, bar, goal, dtype
        self.times_copy = times_copy  # the bar is a multiple of the copy's time, and lower is better

    @property
    def name(self):
        shape = " x ".join("2^%d" % (n.bit_length() - 1) if n >= 1 << 20 and n & (n - 1) == 0 else str(n) for n in self.shape)
        where = "all" if self.dim is None else "dim %d" % self.dim
        dtype = "" if self.dtype == torch.float32 else str(self.dtype).replace("torch.", "") + " "
        return "%s%s %s, %s" % (dtype, self.kind, shape, where)

    def elements(self):
        n = 1
        for length in self.shape:
            n *= length
        return n


def all_work():
    big, cube = (32768, 32768), (128, 4096, 4095)
    rows = [Work(kind, big, 1, bar, goal) for kind, bar, goal in
            (("cumsum", 0.96, 0.985), ("reverse cumsum", 0.96, 0.985), ("masked cumsum", 0.94, 0.97))]
    rows += [Work(kind, big, 0, 0.92, 0.97) for kind in ("cumsum", "reverse cumsum", "masked cumsum")]
    rows += [Work("sum", cube, dim, 1.00, 1.05) for dim in (1, 0, 2, None)]
    rows += [Work("cumsum", (1 << 30,), 0, 0.80, 0.93), Work("cumsum", (1 << 28,), 0, 0.80, 0.93)]
    rows += [Work("cumsum", (8, 1 << 24), 1, 0.78, 0.92), Work("cumsum", (64, 100003), 1, 0.5, 0.8)]
    rows += [Work("cumsum", (1 << 20, n), 0, bar, 0.8) for n, bar in ((2, 0.4), (8, 0.5), (32, 0.7))]
    rows += [Work("cumsum", shape, 1, 0.85, 0.95) for shape in ((1 << 24, 4), (1 << 22, 64), (4096, 1000, 33))]
    rows += [Work("sum", shape, 1, 0.9, 1.0) for shape in ((1 << 24, 4), (1 << 22, 64))]
    rows += [Work("cumsum", (16384, 16384), 1, 0.88, 0.95, dtype) for dtype in
             (torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.int64)]
    rows += [Work("cumsum", (1024, 1024), dim, 3.0, 1.5, times_copy=True) for dim in (1, 0)]
    return rows


def odd_work():
    """Shapes that nobody tunes for: each must reach at least half of a copy."""
    half = dict(bar=0.5, goal=0.8)
    rows = [Work("cumsum", (1 << 27, 2), 0, **half), Work("cumsum", (1 << 26, 4), 0, **half), Work("reverse cumsum", (1 << 20, 8), 0, **half),
            Work("masked cumsum", (1 << 20, 32), 0, **half)]
    rows += [Work("cumsum", (1 << 22, n), 0, **half) for n in (3, 6, 7, 12, 17, 33, 128)]
    rows += [Work("cumsum", shape, dim, **half) for shape, dim in
             (((1 << 22,), 0), ((1 << 24,), 0), ((16384, 4096), 0), ((1 << 16, 300), 0), ((4096, 1000, 4), 1), ((1 << 22, 33), 1), ((300, 65537), 1))]
    rows += [Work("sum", shape, 0, **half) for shape in ((1 << 22, 2), (1 << 22, 8), (1 << 22, 3), (1 << 22, 33), (1 << 26,))]
    return rows


def lines_of(t, dim, count=6):
    """A few of the lines along dim, the first and the last among them, as a compact CPU tensor whose dim is the last."""
    lines = t.movedim(dim, -1)
    while lines.dim() > 2:
        lines = lines.flatten(0, 1) if lines.is_contiguous() else lines.reshape(-1, lines.shape[-1])
    if lines.dim() == 1:
        return lines[:1 << 22].cpu().unsqueeze(0)  # the scan of a prefix is a prefix of the scan
    picks = sorted({0, lines.shape[0] - 1, *range(0, lines.shape[0], max(1, lines.shape[0] // count))})
    return lines[picks].cpu().contiguous()


def verify(scanfold, work, x, y, mask):
    """The same lines on the CPU; the number of differing elements."""
    if work.kind == "sum":
        if work.dim is None:
            return 0
        lines = x.cpu().unsqueeze(0) if x.dim() == 1 else lines_of(x, work.dim)  # for a fold, a prefix does not help
        right = torch.empty(lines.shape[0], dtype=y.dtype)
        scanfold.fold(lines, right, [1])()
        flat = y.reshape(-1)
        n = flat.shape[0]
        picks = sorted({0, n - 1, *range(0, n, max(1, n // 6))})
        got = flat[picks].cpu()
    else:
        lines, got = lines_of(x, work.dim), lines_of(y, work.dim)
        if work.kind == "reverse cumsum" and x.dim() == 1:
            return 0
        right = torch.empty_like(lines)
        m = lines_of(mask, work.dim) if mask is not None else None
        scanfold.scan(lines, right, 1, work.kind == "reverse cumsum", m)()
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[right.element_size()]
    return int((right.view(bits) != got.contiguous().view(bits)).sum())


def make_input(work):
    if work.dtype.is_floating_point:
        return torch.rand(work.shape, device="cuda", dtype=torch.float32).to(work.dtype)
    return torch.randint(-1000, 1000, work.shape, device="cuda", dtype=work.dtype)


def torch_function(work):
    d, dtype = work.dim, work.dtype
    if work.kind == "cumsum":
        return lambda x, m: torch.cumsum(x, d, dtype=dtype)
    if work.kind == "reverse cumsum":
        return lambda x, m: torch.cumsum(x.flip(d), d).flip(d)
    if work.kind == "masked cumsum":
        return lambda x, m: torch.cumsum(x * m, d)
    return lambda x, m: torch.sum(x) if d is None else torch.sum(x, d)


# ---------------------------------------------------------------------------------------------------------------
# Peers other than torch
# ---------------------------------------------------------------------------------------------------------------
def cub_times():
    """{n: (ms, copy ms)} of CUB's one-dimensional scan, or {} with a word why not."""
    nvcc = shutil.which("nvcc")
    if not nvcc:
        print("cub: no nvcc")
        return {}
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "cub")
        try:
            subprocess.run([nvcc, "-O3", "-arch=native", "-std=c++17", "-o", program, os.path.join(HERE, "gpu_cub.cu")], check=True,
                           capture_output=True, text=True, timeout=300)
            lines = subprocess.run([program], check=True, capture_output=True, text=True, timeout=120).stdout.splitlines()
        except (subprocess.SubprocessError, OSError) as problem:
            print("cub:", str(getattr(problem, "stderr", None) or problem).strip()[:300])
            return {}
    rows = [json.loads(line) for line in lines]
    return {row["n"]: (row["ms"], row["copy_ms"]) for row in rows}


def jax_ms(work, x, mask, seconds):
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
    d = work.dim
    functions = {"cumsum": lambda a, m: jnp.cumsum(a, d, dtype=a.dtype), "sum": lambda a, m: jnp.sum(a, d),
                 "reverse cumsum": lambda a, m: jnp.flip(jnp.cumsum(jnp.flip(a, d), d), d),
                 "masked cumsum": lambda a, m: jnp.cumsum(a * m, d)}
    a, m = jax.dlpack.from_dlpack(x), None
    if mask is not None:
        m = jax.dlpack.from_dlpack(mask.view(torch.uint8)).astype(bool)
    run = jax.jit(functions[work.kind])
    run(a, m).block_until_ready()
    times, end = [], time.time() + seconds
    while len(times) < 10 and (not times or time.time() < end):
        start = time.perf_counter()
        run(a, m).block_until_ready()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def cupy_ms(work, x, seconds):
    import cupy
    if work.kind != "cumsum":
        return None
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        a = cupy.from_dlpack(x)
        out = cupy.empty_like(a)
        ms = medians([lambda: cupy.cumsum(a, axis=work.dim, out=out)], False, seconds, 5)[0]
        del out
    cupy.get_default_memory_pool().free_all_blocks()
    return ms


# ---------------------------------------------------------------------------------------------------------------
# Running, and reporting
# ---------------------------------------------------------------------------------------------------------------
def measure(scanfold, work, peers, cub, seconds):
    x = make_input(work)
    mask = torch.rand(work.shape, device="cuda") < 0.5 if work.kind == "masked cumsum" else None
    element = x.element_size()
    nbytes = work.elements() * element
    if work.kind == "sum":
        shape = [n for d, n in enumerate(work.shape) if work.dim is not None and d != work.dim]
        y = torch.empty(shape, device="cuda", dtype=work.dtype)
        ours = scanfold.fold(x, y, None if work.dim is None else [work.dim])
        nbytes += y.numel() * element
    else:
        y = torch.empty_like(x)
        ours = scanfold.scan(x, y, work.dim, work.kind == "reverse cumsum", mask)
        nbytes += y.numel() * element + (mask.numel() if mask is not None else 0)
    start = time.perf_counter()
    ours()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    wrong = verify(scanfold, work, x, y, mask)

    a = torch.empty(nbytes // 2, device="cuda", dtype=torch.uint8)
    b = torch.empty_like(a)
    copy = lambda: b.copy_(a)  # noqa: E731
    ms, copy_ms = medians([ours, copy], False, seconds)
    small = copy_ms < SMALL_MS
    if small:
        ms, copy_ms = medians([ours, copy], True, seconds)
    del a, b
    row = dict(work=work.name, bytes=nbytes, ms=ms, copy_ms=copy_ms, of_copy=copy_ms / ms, gbs=nbytes / ms / 1e6, graph=small,
               first_call_s=round(first, 3), wrong_elements=wrong, bar=work.bar, goal=work.goal, times_copy=work.times_copy, peers={})
    score = ms / copy_ms if work.times_copy else copy_ms / ms
    row["meets_bar"] = score <= work.bar if work.times_copy else score >= work.bar
    row["meets_goal"] = score <= work.goal if work.times_copy else score >= work.goal
    print("%-44s %9.4f ms  copy %9.4f ms  %.3f of copy  (bar %s, goal %s)%s" %
          (work.name, ms, copy_ms, copy_ms / ms, work.bar, work.goal, "" if not wrong else "  %d WRONG" % wrong), flush=True)

    function = torch_function(work)

    def peer(name, get):
        if name not in peers:
            return
        try:
            value = get()
            if value:
                row["peers"][name] = dict(ms=value, of_copy=copy_ms / value)
                print("    %-12s %9.4f ms  %.3f of copy" % (name, value, copy_ms / value), flush=True)
        except Exception as problem:  # a peer that fails is noted, and the run goes on
            row["peers"][name] = dict(error=str(problem).splitlines()[0][:160] if str(problem) else repr(problem))
            print("    %-12s %s" % (name, row["peers"][name]["error"]), flush=True)

    def compiled():
        torch._dynamo.reset()
        run = torch.compile(function)
        return medians([lambda: run(x, mask)], False, seconds, 10)[0]
    peer("torch", lambda: medians([lambda: function(x, mask)], False, seconds, 10)[0])
    peer("compile", compiled)
    if len(work.shape) == 1 and work.elements() in cub:
        ms_cub, copy_cub = cub[work.elements()]
        row["peers"]["cub"] = dict(ms=ms_cub, of_copy=copy_cub / ms_cub)
        print("    %-12s %9.4f ms  %.3f of copy" % ("cub", ms_cub, copy_cub / ms_cub))
    peer("jax", lambda: jax_ms(work, x, mask, seconds))
    peer("cupy", lambda: cupy_ms(work, x, seconds))
    return row


def host_costs(program):
    """{what: microseconds before the launch returns}, as test_gpu --time tells them, or {} where it has not been built."""
    try:
        text = subprocess.run([program, "--time"], check=True, capture_output=True, text=True, timeout=120).stdout
    except (OSError, subprocess.SubprocessError) as problem:
        print("host cost:", problem)
        return {}
    print(text, end="", flush=True)
    return {what: float(us) for what, us in re.findall(r"^(.*): ([0-9.]+) us", text, re.M)}


def provenance(args, scanfold):
    def output(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return ""
    return dict(chip=torch.cuda.get_device_name(), driver=output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
                commit=os.environ.get("SCANFOLD_COMMIT") or output("git", "rev-parse", "--short=12", "HEAD") or "unknown",
                scanfold=scanfold.lib.sf_version_string().decode(), torch=torch.__version__, cuda=torch.version.cuda,
                python=sys.version.split()[0], command=" ".join(["python3", *sys.argv]),
                date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"))


def table(result):
    names = {"torch": "torch", "compile": "torch.compile", "cub": "CUB", "jax": "JAX", "cupy": "CuPy"}
    used = [p for p in names if any("ms" in row["peers"].get(p, {}) for row in result["rows"])]
    about = result["about"]
    lines = ["%s, driver %s, scanfold %s at %s, torch %s. Shares of a device copy's rate (the copy moves %s); medians of event times." %
             (about["chip"], about["driver"], about["scanfold"], about["commit"], about["torch"],
              "%.2f TB/s" % max(row["bytes"] / row["copy_ms"] / 1e9 for row in result["rows"])), "",
             "| work | ms | copy ms | of copy | bar | goal | " + " | ".join(names[p] for p in used) + (" |" if used else ""),
             "|---|---|---|---|---|---|" + "---|" * len(used)]
    for row in result["rows"]:
        if "error" in row:
            lines.append("| %s | %s |" % (row["work"], row["error"]))
            continue
        bar, goal = ("%gx time" % row[k] if row["times_copy"] else "%.2f" % row[k] for k in ("bar", "goal"))
        cells = ["%.3f" % row["peers"][p]["of_copy"] if "ms" in row["peers"].get(p, {}) else "" for p in used]
        lines.append("| %s%s | %.4f | %.4f | %s%.3f%s | %s | %s | %s" %
                     (row["work"], " (graph)" if row["graph"] else "", row["ms"], row["copy_ms"], "**" if row["meets_bar"] else "",
                      row["of_copy"], "**" if row["meets_bar"] else "", bar, goal, " | ".join(cells) + (" |" if used else "")))
    if result.get("host_us"):
        lines += ["", "The host, before the launch returns, in microseconds (a warm call must be under %g): %s." %
                  (HOST_BAR_US, "; ".join("%s %.2f" % (what, us) for what, us in result["host_us"].items()))]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=os.path.join(HERE, "..", "build", "libscanfold.so"))
    parser.add_argument("--out", default=os.path.join(HERE, "results"), help="the folder for gpu.json and gpu.md")
    parser.add_argument("--only", default="", help="run the work whose name has this text")
    parser.add_argument("--peers", default="torch,compile,cub,jax,cupy", help="which to time, or none")
    parser.add_argument("--seconds", type=float, default=2.0, help="the most that one median may take")
    parser.add_argument("--odd", action="store_true", help="time odd shapes instead, which have no bar of their own")
    parser.add_argument("--strict", action="store_true", help="fail if a bar is missed or an element is wrong")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("gpu.py: torch sees no CUDA device")
    scanfold = Scanfold(args.library)
    peers = set(args.peers.split(",")) - {"none", ""}
    work = [w for w in (odd_work() if args.odd else all_work()) if args.only in w.name]
    cub = cub_times() if "cub" in peers and any(len(w.shape) == 1 for w in work) else {}
    costs = {} if args.only or args.odd else host_costs(os.path.join(os.path.dirname(args.library), "tests", "cuda", "test_gpu"))
    result = dict(about=provenance(args, scanfold), host_us=costs, rows=[])
    print(json.dumps(result["about"]))
    os.makedirs(args.out, exist_ok=True)
    for w in work:
        try:
            result["rows"].append(measure(scanfold, w, peers, cub, args.seconds))
        except Exception as problem:  # noted in the table, and the run goes on
            print("%-44s %s" % (w.name, problem), flush=True)
            result["rows"].append(dict(work=w.name, error=str(problem), meets_bar=False))
        torch.cuda.empty_cache()
        with open(os.path.join(args.out, "gpu.json"), "w") as file:
            json.dump(result, file, indent=1)
    good = [row for row in result["rows"] if "ms" in row]
    with open(os.path.join(args.out, "gpu.md"), "w") as file:
        file.write(table(dict(result, rows=good)) if good else "")
    missed = [row["work"] for row in result["rows"] if not row["meets_bar"] or row.get("wrong_elements")]
    print("%d of %d meet their bar%s" % (len(result["rows"]) - len(missed), len(result["rows"]), ": not " + "; ".join(missed) if missed else ""))
    missed += [what for what, us in costs.items() if "warm call" in what and us >= HOST_BAR_US]
    return bool(missed) and args.strict


if __name__ == "__main__":
    sys.exit(main())
