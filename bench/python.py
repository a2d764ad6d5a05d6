#!/usr/bin/env python3
"""Times the five operators from Python, forward and backward: torch eager, torch.compile, and scanfold twice, in one run.

    cmake -S . -B build -DSCANFOLD_PYTHON=ON && cmake --build build --target scanfold_python
    PYTHONPATH=python python3 bench/python.py [--out FOLDER] [--only TEXT] [--scale S] [--forms eager,default,max-autotune,call,backend]

The models are those of examples/kernelbench. "call" is their ModelNew, with the explicit call; "backend" is the untouched Model under
torch.compile(backend="scanfold"), and with --kept also with options={"keep_weights": True}. Medians of CUDA-event times (of wall time on a
CPU), all forms taken in turn so that they see the same clocks; a device copy of the bytes the work must move is one of them. Backward is
torch.autograd.grad with a given gradient, the forward pass not counted. Writes python.json and python.md. No network is needed.

Between two events lie several calls, queued one behind the other: at least eight, and so many that the fastest form takes some
milliseconds. The time is a call's share. Of one call on an idle device the events would measure how long the host takes to get there as well;
the line "one call, device idle" has that number. Where the host takes longer than the device, it shows in either. All forms of a row are
measured the same way; the column "calls" says how.
"""
import argparse
import datetime
import functools
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch

import scanfold
from scanfold import _compile
from scanfold._timing import timed

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = [("masked_cumsum", 1), ("masked_cumsum", 0), ("reverse_cumsum", 1), ("reverse_cumsum", 0), ("flip_cumsum_flip", 0),
        ("sum_over_dimension", 1), ("gemm_divide_sum_scale", None)]
FORMS = ["eager", "default", "max-autotune", "call", "backend", "backend, kept"]
QUEUE_MS, LEAST_CALLS, MOST_CALLS = 5.0, 8, 200  # how much work of the fastest form is queued, in how many calls


def medians(runs, device, seconds, calls):
    """{name: median ms}, each run in turn."""
    times = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(3):
            run()
    end = time.time() + seconds
    for turn in range(30):
        if turn >= 5 and time.time() > end:
            break
        for name, run in runs.items():
            times[name].append(timed(run, device, calls))
    return {name: statistics.median(t) for name, t in times.items()}


def measured(runs, device, seconds):
    """(medians, how many calls were queued for each time, medians of one call on an idle device or None where that is the same)."""
    alone = medians(runs, device, seconds / 2, 1)
    if device != "cuda":
        return alone, 1, None
    # A call alone is the launch and the work: the share of the queue is known only once it is measured, so it is guessed and corrected.
    share = min(medians(runs, device, seconds / 4, LEAST_CALLS).values())
    calls = queued(share)
    return medians(runs, device, seconds, calls), calls, alone


def queued(share):
    return max(LEAST_CALLS, min(MOST_CALLS, math.ceil(QUEUE_MS / share)))


def build(form, module, model, new):
    if form == "eager":
        return model
    if form == "call":
        return new
    if form.startswith("backend"):
        return torch.compile(model, backend=functools.partial(_compile.backend, options={"keep_weights": form != "backend"}))
    return torch.compile(model, mode=None if form == "default" else form)


def nbytes(inputs, model, output):
    """What must be moved at least: inputs and parameters read once, the output written once."""
    return sum(t.numel() * t.element_size() for t in [*inputs, *model.parameters(), output])


def measure(name, dim, forms, device, scale, seconds):
    module = importlib.import_module(name)
    shape = tuple(max(1, round(n * scale)) for n in module.SHAPE)
    init = module.get_init_inputs(shape) if dim is None else [dim]
    model, new = module.Model(*init).to(device), module.ModelNew(*init).to(device)
    new.load_state_dict(model.state_dict())
    inputs = module.get_inputs(shape, device)
    row = {"work": name + ("" if dim is None else f", dim {dim}"), "shape": shape, "forward": {}, "backward": {}, "errors": {}}

    runs, backs, expected = {}, {}, None
    for form in forms:
        torch._dynamo.reset()
        try:
            function = build(form, module, model, new)
            with torch.no_grad():
                y = function(*inputs)
            if expected is None:
                expected, row["bytes"] = y, nbytes(inputs, model, y)
                size = expected.double().abs().max().item() if expected.numel() < 1 << 26 else expected[:64].double().abs().max().item()
            else:
                worst = (y - expected).abs().max().item()
                limit = 1.3e-6 * size * math.sqrt(max(shape)) * (math.sqrt(max(shape)) if dim is None else 1)
                if not worst <= limit:
                    row["errors"][form] = f"off by {worst:.3g}, allowed {limit:.3g}"
            del y
            runs[form] = functools.partial(_no_grad, function, inputs)
            backs[form] = function
        except Exception as problem:  # a form that fails is noted, and the others go on
            row["errors"][form] = f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"[:200]
    expected_shape = expected.shape
    del expected

    half = torch.empty(max(1, row["bytes"] // 2), dtype=torch.uint8, device=device)
    other = torch.empty_like(half)
    runs["copy"] = functools.partial(other.copy_, half)
    row["forward"], row["calls"], row["forward, one call"] = measured(runs, device, seconds)
    del half, other, runs

    gradient = torch.randn(expected_shape, device=device)
    leaves = [t.requires_grad_() for t in inputs if t.is_floating_point()]
    # One form at a time: each keeps what it saved for backward. The first says how all are measured.
    calls = None
    for form, function in backs.items():
        try:
            output = function(*inputs)
            wanted = leaves + list((new if form == "call" else model).parameters())
            run = functools.partial(torch.autograd.grad, output, wanted, gradient, retain_graph=True)
            if calls is None:
                first = medians({form: run}, device, seconds / 4, 1)[form]
                calls = row["backward calls"] = queued(first / 50) if device == "cuda" else 1  # the first is torch's own
            row["backward"][form] = medians({form: run}, device, seconds / 2, calls)[form]
            del output, run
        except Exception as problem:
            row["errors"][form + " backward"] = f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"[:200]
        if device == "cuda":
            torch.cuda.empty_cache()
    return row


def _no_grad(function, inputs):
    with torch.no_grad():
        return function(*inputs)


def table(about, rows):
    forms = [f for f in FORMS if any(f in row["forward"] for row in rows)]
    titles = {"eager": "torch", "default": "torch.compile", "call": "scanfold, called", "backend": "scanfold, backend",
              "backend, kept": "scanfold, backend, weights kept"}
    lines = [f"{about['chip']}, scanfold {about['scanfold']} at {about['commit']}, torch {about['torch']}, {about['date']}. Milliseconds a call; "
             "in brackets the share of a copy's rate. calls: how many were queued between two events.", "",
             "| work | pass | calls | copy | " + " | ".join(titles.get(f, f) for f in forms) + " |", "|---" * (4 + len(forms)) + "|"]
    for row in rows:
        copy = row["forward"]["copy"]
        cells = [f"{row['forward'][f]:.4f} ({copy / row['forward'][f]:.3f})" if f in row["forward"] else "" for f in forms]
        lines.append(f"| {row['work']} {'x'.join(map(str, row['shape']))} | forward | {row['calls']} | {copy:.4f} | " + " | ".join(cells) + " |")
        alone = row["forward, one call"]
        if alone:
            cells = [f"{alone[f]:.4f}" if f in alone else "" for f in forms]
            lines.append(f"| | forward, one call, device idle | 1 | {alone['copy']:.4f} | " + " | ".join(cells) + " |")
        if row["backward"]:
            # The gradient of a scan moves what the scan moves.
            share = {f: f" ({copy / t:.3f})" if "cumsum" in row["work"] else "" for f, t in row["backward"].items()}
            cells = [f"{row['backward'][f]:.4f}{share[f]}" if f in row["backward"] else "" for f in forms]
            lines.append(f"| | backward | {row['backward calls']} | | " + " | ".join(cells) + " |")
        lines += [f"| | {form} | {error} |" + " |" * (1 + len(forms)) for form, error in row["errors"].items()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(HERE, "results"))
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=2.0, help="the most that one round of medians may take")
    parser.add_argument("--forms", default=",".join(f for f in FORMS if "," not in f))
    parser.add_argument("--kept", action="store_true", help="the backend once more, with what depends on weights alone kept between calls")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    sys.path.insert(0, os.path.join(HERE, "..", "examples", "kernelbench"))
    torch.manual_seed(0)

    def output(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return ""
    about = dict(chip=torch.cuda.get_device_name() if args.device == "cuda" else scanfold.info()["isa"], torch=torch.__version__,
                 scanfold=scanfold.__version__, commit=os.environ.get("SCANFOLD_COMMIT") or output("git", "rev-parse", "--short=12", "HEAD"),
                 command=" ".join(["python3", *sys.argv]), date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"))
    os.makedirs(args.out, exist_ok=True)
    rows = []
    for name, dim in WORK:
        if args.only not in name:
            continue
        try:
            forms = args.forms.split(",") + (["backend, kept"] if args.kept and dim is None else [])
            row = measure(name, dim, forms, args.device, args.scale, args.seconds)
        except Exception as problem:
            print(f"{name}, dim {dim}: {problem}", flush=True)
            continue
        rows.append(row)
        print(json.dumps(row), flush=True)
        if args.device == "cuda":
            torch.cuda.empty_cache()
        with open(os.path.join(args.out, "python.json"), "w") as file:
            json.dump(dict(about=about, rows=rows), file, indent=1)
        with open(os.path.join(args.out, "python.md"), "w") as file:
            file.write(table(about, rows))
    print(table(about, rows))


main()
