"""How fast is it on this machine? Times scans and folds against NumPy and torch, or your own model.

    python -m scanfold.bench [--quick] [--only TEXT] [--html FILE] [--json FILE]
    python -m scanfold.bench model.py [--device cpu|cuda] [--seconds S] [--json FILE]

The first form times scans and folds of float32 on the CPU: scanfold, NumPy, torch (those that are
installed) and a copy of the same bytes, in turn. Shares are shares of the copy's speed.

The second form takes any file with a class Model and the functions get_inputs() and
get_init_inputs(), as in KernelBench. It times the model eagerly, compiled by Inductor, and compiled
by scanfold, without gradients, and compares these times with the floor. The floor is the time in
which this machine copies the fewest bytes that the model can move: every input and parameter read
once and every output written once. A time below 0.9 of the floor is marked SUSPECT: some work was
left out, or something else was timed. (A time slightly below the floor is possible, because reading
alone is faster than copying.) The exit status is 1 if a result is wrong or suspect.
"""
import argparse
import importlib.util
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time

import scanfold

SUSPECT = 0.9       # times below this share of the floor are marked
SHORTEST = 2e-3     # seconds: calls are repeated until one measurement takes this long
BACKENDS = {"eager": None, "inductor": "inductor", "scanfold": "scanfold"}


# --------------------------------------------------------------------------------------------------
# The machine
# --------------------------------------------------------------------------------------------------
def commit():
    """The commit of the git checkout that this package runs from; None if it is installed."""
    try:
        done = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse",
                               "--short=12", "HEAD"], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() or None


def cpu_model():
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def about(**more):
    here = scanfold.info()
    return dict(version=scanfold.__version__, commit=commit() or "installed package", cpu=cpu_model(),
                system=platform.platform(), instructions=here["isa"], threads=here["threads"],
                python=platform.python_version(), command=" ".join(["python -m scanfold.bench", *sys.argv[1:]]), **more)


# --------------------------------------------------------------------------------------------------
# Scans and folds compared with NumPy and torch
# --------------------------------------------------------------------------------------------------
def work(quick):
    """What is timed: (name, shape, axis, "" or "reverse" or "masked")"""
    square = (2048, 2048) if quick else (8192, 8192)
    block = (16, 512, 1023) if quick else (16, 2048, 4095)
    tall, line = (1 << 20, 8) if quick else (1 << 22, 8), (1 << (24 if quick else 27),)
    return [("cumsum", square, 1, ""), ("cumsum", square, 0, ""), ("cumsum", square, 1, "reverse"),
            ("cumsum", square, 0, "reverse"), ("cumsum", square, 1, "masked"),
            ("cumsum", square, 0, "masked"), ("cumsum", line, 0, ""), ("cumsum", tall, 0, ""),
            ("cumsum", tall, 1, ""), ("sum", block, 0, ""), ("sum", block, 1, ""),
            ("sum", block, 2, ""), ("max", block, 1, ""), ("cumsum", (64, 64), 1, "")]


def contenders(np, torch, name, x, mask, axis, how):
    """({library: a call}, bytes moved). Calls write to an existing array where the library can."""
    fold = name != "cumsum"
    y = np.zeros([n for d, n in enumerate(x.shape) if not fold or d != axis], x.dtype)
    # A copy reads and writes each byte, so a copy of half as many bytes moves the same amount.
    moved = x.nbytes + y.nbytes + (mask.nbytes if how == "masked" else 0)
    source, target = np.ones((2, moved // 2 // x.itemsize), x.dtype)
    ours = getattr(scanfold, name)
    keywords = {"reverse": {"reverse": True}, "masked": {"mask": mask}}.get(how, {})
    calls = {"scanfold": lambda: ours(x, axis, out=y, **keywords)}
    if how == "reverse":
        calls["NumPy"] = lambda: np.flip(np.cumsum(np.flip(x, axis), axis, out=np.flip(y, axis)), axis)
    elif how == "masked":
        calls["NumPy"] = lambda: np.cumsum(x * mask, axis, out=y)
    else:
        theirs = {"cumsum": np.cumsum, "sum": np.sum, "max": np.max}[name]
        calls["NumPy"] = lambda: theirs(x, axis, out=y)
    if torch is None:
        calls["copy"] = lambda: np.copyto(target, source)
        return calls, moved
    tx, ty, tm = torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(mask)
    to, from_ = torch.from_numpy(target), torch.from_numpy(source)
    calls["copy"] = lambda: to.copy_(from_)
    if how == "reverse":
        calls["torch"] = lambda: tx.flip(axis).cumsum(axis).flip(axis)
    elif how == "masked":
        calls["torch"] = lambda: torch.cumsum(tx * tm, axis, out=ty)
    else:
        theirs_too = {"cumsum": torch.cumsum, "sum": torch.sum, "max": torch.amax}[name]
        calls["torch"] = lambda: theirs_too(tx, axis, out=ty)
    return calls, moved


def seconds_of(calls, rounds):
    """The median seconds of each call. The calls take turns; a slow one gets fewer turns."""
    once = {}
    for who, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        once[who] = max(time.perf_counter() - start, 1e-7)
    times = {who: [] for who in calls}
    for number in range(rounds):
        for who, call in calls.items():
            if once[who] > 0.5 and number >= 2:
                continue
            repeat = max(1, int(SHORTEST / once[who]))
            start = time.perf_counter()
            for _ in range(repeat):
                call()
            times[who].append((time.perf_counter() - start) / repeat)
    return {who: statistics.median(found) for who, found in times.items()}


def peers(options):
    try:
        import numpy as np
    except ImportError:
        sys.exit("scanfold.bench: NumPy is not installed, and the arrays are NumPy's; pip install numpy")
    try:
        import torch
        torch.set_num_threads(scanfold.info()["threads"])
    except ImportError:
        torch = None
    random = np.random.default_rng(0)
    rows, others = [], ["NumPy"] + (["torch"] if torch else [])
    print(f"{'work':18} {'shape':>16} {'scanfold':>12} {'share':>6} " + " ".join(f"{who + ' share':>12}" for who in others))
    for name, shape, axis, how in work(options.quick):
        title = f"{name} axis {axis}" + (f" {how}" if how else "")
        size = "x".join(map(str, shape))
        if options.only not in f"{title} {size}":
            continue
        x = random.random(shape, dtype=np.float32)
        mask = random.random(shape, dtype=np.float32) > 0.5 if how == "masked" else np.ones(1, bool)
        calls, nbytes = contenders(np, torch, name, x, mask, axis, how)
        found = seconds_of(calls, options.rounds)
        copy = found["copy"]
        rows.append(dict(work=title, shape=size, dtype="f32", bytes=nbytes, seconds=found["scanfold"],
                         peer="copy", peer_seconds=copy, fraction=copy / found["scanfold"],
                         others={who: found[who] for who in others}))
        print(f"{title:18} {size:>16} {1e3 * found['scanfold']:9.3f} ms {copy / found['scanfold']:6.2f} " +
              " ".join(f"{copy / found[who]:12.3f}" for who in others), flush=True)
    if not rows:
        sys.exit(f"scanfold.bench: no row contains {options.only!r}")
    worst = min(rows, key=lambda row: row["fraction"])
    print(f"worst: {worst['work']}, {worst['shape']}: {worst['fraction']:.2f} of a copy")
    versions = dict(numpy=np.__version__, torch=torch.__version__ if torch else None)
    return dict(about(rounds=options.rounds, quick=options.quick, **versions), rows=rows), 0


# --------------------------------------------------------------------------------------------------
# The user's own model
# --------------------------------------------------------------------------------------------------
def load(path):
    """Imports a file as a module. Meanwhile its folder is on sys.path, for its own imports."""
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("benchmarked", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [name for name in ("Model", "get_inputs", "get_init_inputs") if not hasattr(module, name)]
    if missing:
        sys.exit(f"scanfold.bench: {path} has no {', '.join(missing)}; it must have Model, "
                 "get_inputs() and get_init_inputs()")
    return module


def bytes_of(tensor):
    """The bytes that reading a tensor once takes. Elements repeated by broadcasting count once."""
    return tensor.element_size() * math.prod(n for n, stride in zip(tensor.shape, tensor.stride()) if stride or n == 0)


def least_bytes(read, written):
    """The bytes of all tensors that are read or written, each counted once. Tensors that share
    memory count once."""
    seen, total = set(), 0
    for tensor in read + written:
        where = tensor.untyped_storage().data_ptr()
        if where not in seen:
            total += bytes_of(tensor)
        seen.add(where)
    return total


def model(options):
    try:
        import torch
    except ImportError:
        sys.exit("scanfold.bench: torch is not installed, and models are torch's; pip install torch")
    from . import _timing
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    module = load(options.model)
    torch.manual_seed(0)

    def there(value):
        return value.to(device) if isinstance(value, torch.Tensor) else value
    network = module.Model(*module.get_init_inputs()).to(device).requires_grad_(False)
    inputs = [there(value) for value in module.get_inputs()]
    eager = _timing.Contender(network, inputs)
    right = eager.results()
    exact = _timing.Contender(network, inputs, dtype=torch.float64).results()
    state = list(network.parameters()) + list(network.buffers())
    moved = least_bytes(_timing.flat(inputs) + state, right["forward"])
    runs, rows, failed = {}, {}, {}
    for name in options.backends.split(","):
        if name not in BACKENDS:
            sys.exit(f"scanfold.bench: --backends has {name}; there are {', '.join(BACKENDS)}")
        torch._dynamo.reset()
        contender = _timing.Contender(network, inputs, BACKENDS[name])
        try:
            failed[name] = _timing.differs(right, exact, contender.results(), False)
            runs[name] = contender.forward
        except Exception as error:  # it is reported, and the others are still timed
            failed[name] = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
    half = max(1, moved // 2)
    source, target = (torch.ones(half, dtype=torch.uint8, device=device) for _ in range(2))
    times = _timing.medians([lambda: target.copy_(source), *runs.values()], device, options.seconds)
    floor = times[0]
    print(f"{options.model}: least bytes {moved:,}; floor {1e3 * floor:.1f} us "
          f"(a copy on {torch.cuda.get_device_name() if device == 'cuda' else cpu_model()}: "
          f"{2 * half / floor / 1e6:.1f} GB/s)")
    print(f"{'':10} {'us':>12} {'of the floor':>13}")
    bad = 0
    for name in failed:
        took = dict(zip(runs, times[1:])).get(name)
        note = f"WRONG: {failed[name]}" if failed[name] else ""
        if took is not None and took < SUSPECT * floor:
            note += ("; " if note else "") + "SUSPECT: below the floor"
        bad += bool(note)
        rows[name] = dict(ms=took, of_floor=None if took is None else floor / took, note=note)
        share = f"{1e3 * took:12.1f} {floor / took:13.3f}" if took is not None else " " * 26
        print(f"{name:10} {share}  {note}".rstrip())
    return dict(about(model=options.model, device=device, torch=torch.__version__), bytes=moved,
                floor_ms=floor, contenders=rows), 1 if bad else 0


def page(result):
    """The report as one self-contained page."""
    with open(os.path.join(os.path.dirname(__file__), "report.html"), encoding="utf-8") as file:
        return file.read().replace("@DATA@", json.dumps(result).replace("<", "\\u003c"))


def write(path, text):
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".part", path)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m scanfold.bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a file with Model, get_inputs and get_init_inputs")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: seconds instead of minutes")
    parser.add_argument("--only", default="", help="the rows whose name and shape contain this text")
    parser.add_argument("--rounds", type=int, default=7, help="times to take the median of (7)")
    parser.add_argument("--html", help="where to write the report as a page")
    parser.add_argument("--json", help="where to write the numbers")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="for a model; cuda where there is one")
    parser.add_argument("--seconds", type=float, default=2.0, help="for timing a model (2)")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="for a model (eager,inductor,scanfold)")
    options = parser.parse_args(arguments)
    if options.model and options.html:
        parser.error("--html is for scans and folds; a model has --json")
    result, status = model(options) if options.model else peers(options)
    if options.html:
        write(options.html, page(result))
    if options.json:
        write(options.json, json.dumps(result, indent=1) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
