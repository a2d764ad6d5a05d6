"""Segmented cumulative sums, softmax and sums beside a copy of the same bytes, and beside what NumPy and torch have for it. One run, medians.

    python bench/segments.py [--device cpu|cuda] [--elements 2**24] [--threads N] [--times 7] [--mean 8 64 ...] [--no-peers]

A share is the time of a copy that moves as many bytes as the call reads and writes, offsets among them, over the call's time. Lengths are
uniform (1 to twice the mean), equal, or Pareto's (a few hold half of all). The last row is 64 columns, cut along axis 0.
"""
import argparse
import statistics
import time

import numpy as np
import torch

import scanfold

KINDS = ("uniform", "equal", "pareto")


def lengths_of(kind, mean, total, rng):
    count = max(1, total // mean)
    if kind == "equal":
        lengths = np.full(count, mean)
    elif kind == "uniform":
        lengths = rng.integers(1, 2 * mean, count) if mean > 1 else rng.integers(0, 3, count)
    else:
        lengths = np.floor((rng.pareto(1.16, count) + 1) * mean * 0.14).astype(np.int64)
    offsets = np.minimum(np.concatenate([[0], np.cumsum(lengths)]), total)
    offsets[-1] = total
    return offsets.astype(np.int64)


class Clock:
    def __init__(self, device, times):
        self.cuda, self.times = device == "cuda", times

    def __call__(self, call):
        """Seconds of a call: the median; on a GPU of ten in a row, so that none waits for Python."""
        call()
        taken = []
        for _ in range(self.times):
            if self.cuda:
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                for _ in range(10):
                    call()
                end.record()
                torch.cuda.synchronize()
                taken.append(begin.elapsed_time(end) / 1e4)
            else:
                start = time.perf_counter()
                call()
                taken.append(time.perf_counter() - start)
        return statistics.median(taken)


def peers(x, offsets, device):
    found = {}
    if device == "cpu":
        array, at = x.numpy(), offsets.numpy()
        if (np.diff(at) > 0).all():
            found["reduceat"] = lambda: np.add.reduceat(array, at[:-1])
    found["segment_reduce"] = lambda: torch.segment_reduce(x, "sum", offsets=offsets)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--elements", default="2**24", help="in all; 2**26 for the table of a GPU")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--mean", type=int, nargs="*", default=[1, 8, 64, 1024, 2**14, 2**18, 2**24])
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    parser.add_argument("--no-peers", action="store_true", help="time ours and the copy alone")
    given = parser.parse_args()
    base, _, power = given.elements.partition("**")
    total = int(base) ** int(power or 1)
    if given.threads:
        torch.set_num_threads(given.threads)
    clock, rng = Clock(given.device, given.times), np.random.default_rng(1)
    x = torch.from_numpy(rng.standard_normal(total).astype(np.float32)).to(given.device)
    y = torch.empty_like(x)
    print(f"{total} f32 on {given.device}, {torch.get_num_threads()} threads; shares of a copy of the same bytes")
    print(f"{'lengths':>9} {'mean':>8} {'scan':>6} {'softmax':>7} {'sum':>6}   peers' sums")
    cases = [(kind, mean, 1) for mean in given.mean for kind in given.kinds] + [("uniform", 500, 64)]
    for kind, mean, columns in cases:
        offsets = torch.from_numpy(lengths_of(kind, mean, total // columns, rng)).to(given.device)
        data, result = (x, y) if columns == 1 else (x.reshape(-1, columns), y.reshape(-1, columns))
        sums = torch.empty((len(offsets) - 1, *data.shape[1:]), device=given.device)
        extra = offsets.numel() * 8
        scanned, summed = 8 * total + extra, 4 * total + 4 * sums.numel() + extra
        size = max(scanned, summed) // 2
        a, b = torch.empty(size, dtype=torch.uint8, device=given.device), torch.ones(size, dtype=torch.uint8, device=given.device)
        rate = 2 * size / clock(lambda: a.copy_(b))
        del a, b
        scan = clock(lambda: scanfold.cumsum(data, 0, offsets=offsets, out=result))
        softmax = clock(lambda: scanfold.softmax(data, 0, offsets=offsets, out=result))
        fold = clock(lambda: scanfold.sum(data, 0, offsets=offsets, out=sums))
        beside = {} if given.no_peers or columns > 1 else peers(x, offsets, given.device)
        others = "  ".join(f"{name} {summed / rate / clock(call):.3f}" for name, call in beside.items())
        name = f"{mean}" if columns == 1 else f"{mean}x{columns}"
        print(f"{kind:>9} {name:>8} {scanned / rate / scan:6.2f} {scanned / rate / softmax:7.2f} {summed / rate / fold:6.2f}   {others}", flush=True)


if __name__ == "__main__":
    main()
