#!/usr/bin/env python3
"""Checks and times the five operators: the reference, the explicit call, and the untouched model under the backend, in one run.

    python examples/kernelbench/run.py [--only TEXT] [--scale S] [--device cpu|cuda] [--seconds T] [--rest inductor|eager]
"""
import argparse
import functools
import importlib
import math
import os
import statistics
import sys
import time

import torch

import scanfold
from scanfold import _compile

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["masked_cumsum", "reverse_cumsum", "flip_cumsum_flip", "sum_over_dimension", "gemm_divide_sum_scale"]
CPU_BYTES = 1 << 28  # an input's size on a CPU, unless memory is short


def memory_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def scaled(shape, scale, device):
    """The shape, each length times scale; on a CPU such that an input has at most CPU_BYTES and a 32nd of the memory."""
    if scale is None:
        scale = 1.0
        if device == "cpu":
            bytes_here = 4 * math.prod(shape)
            allowed = min(CPU_BYTES, memory_bytes() // 32)
            scale = min(1.0, (allowed / bytes_here) ** (1 / len(shape)))
    return tuple(max(1, round(n * scale)) for n in shape)


def now(device):
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(call, device, count):
    start = now(device)
    for _ in range(count):
        call()
    return (now(device) - start) * 1e3 / count


def medians(calls, device, seconds):
    """Median milliseconds of each, taken in turn. Where a GPU is done sooner than it is waited for, several calls are queued for each time."""
    times = [[] for _ in calls]
    for call in calls:
        call()
    shortest = min(timed(call, device, 3) for call in calls)
    count = 1 if device == "cpu" else max(1, min(100, math.ceil(5 / shortest)))
    end = time.perf_counter() + seconds
    while len(times[0]) < 3 or (time.perf_counter() < end and len(times[0]) < 50):
        for i, call in enumerate(calls):
            times[i].append(timed(call, device, count))
    return [statistics.median(t) for t in times]


def check(name, module, reference, ours, inputs, expected):
    """torch's tolerances, widened by what sums of this length may be off in float32; bits where the call is one scan or fold."""
    n = inputs[0].shape[1 if name != "flip_cumsum_flip" else 0]
    size = max(1.0, expected.double().abs().max().item())
    depth = math.ceil(math.log2(max(2, n)))
    # The reference's own order may be a plain running sum, whose error grows with n: it is the looser side.
    tolerance = 1.3e-6 * size * max(depth, math.sqrt(n) if inputs[0].device.type == "cpu" else depth * 4)
    if name == "gemm_divide_sum_scale":
        tolerance *= math.sqrt(n)
    worst = (ours.double() - expected.double()).abs().max().item()
    if not worst <= tolerance:
        raise SystemExit(f"{name}: off by {worst:.3g}, allowed {tolerance:.3g}")
    return worst


def lines(t: torch.Tensor, name: str, count: int = 3) -> torch.Tensor:
    """A few whole lines along the axis: results do not depend on the others, so a few tell."""
    if name in ("masked_cumsum", "reverse_cumsum"):
        return t[:count]
    return t[:, :count] if name == "flip_cumsum_flip" else t[:count]


def reference_bits(name, inputs):
    x = lines(inputs[0], name).cpu()
    with scanfold.using(backend="ref"):
        if name == "masked_cumsum":
            return scanfold.cumsum(x, 1, mask=lines(inputs[1], name).cpu())
        if name == "reverse_cumsum":
            return scanfold.cumsum(x, 1, reverse=True)
        if name == "flip_cumsum_flip":
            return scanfold.cumsum(x, 0, reverse=True)
        if name == "sum_over_dimension":
            return scanfold.sum(x[:1], 1, keepdim=True)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", type=float)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rest", default="inductor", choices=["inductor", "eager"])
    options = parser.parse_args()
    sys.path.insert(0, HERE)
    torch.manual_seed(0)
    device = options.device
    print(f"{torch.cuda.get_device_name() if device == 'cuda' else scanfold.info()['isa'] + ', ' + str(scanfold.info()['threads']) + ' threads'}, "
          f"torch {torch.__version__}, scanfold {scanfold.__version__}")
    print(f"{'operator':24}{'shape':>20}{'torch':>11}{'ModelNew':>11}{'backend':>11}   off by    bits")
    for name in NAMES:
        if options.only not in name:
            continue
        module = importlib.import_module(name)
        shape = scaled(module.SHAPE, options.scale, device)
        init = module.get_init_inputs(shape) if name.startswith("gemm") else module.get_init_inputs()
        model, new = module.Model(*init).to(device), module.ModelNew(*init).to(device)
        new.load_state_dict(model.state_dict())
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=functools.partial(_compile.backend, options={"rest": options.rest}))
        inputs = module.get_inputs(shape, device)
        with torch.no_grad():
            expected = model(*inputs)
            worst = 0.0
            for ours in (new(*inputs), compiled(*inputs)):
                worst = max(worst, check(name, module, model, ours, inputs, expected))
            bits = reference_bits(name, inputs)
            same = "-"
            if bits is not None:
                forms = [new(*inputs)] if name == "masked_cumsum" else [new(*inputs), compiled(*inputs)]
                if not all(torch.equal(lines(f, name).cpu()[:bits.shape[0]], bits) for f in forms):
                    raise SystemExit(f"{name}: bits differ from the reference")
                same = "same"
            del expected
            times = medians([lambda: model(*inputs), lambda: new(*inputs), lambda: compiled(*inputs)], device, options.seconds)
        print(f"{name:24}{'x'.join(map(str, shape)):>20}" + "".join(f"{t:8.3f} ms" for t in times) + f"   {worst:.1e}   {same}")
        del inputs, model, new, compiled
        if device == "cuda":
            torch.cuda.empty_cache()


main()
