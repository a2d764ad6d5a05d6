#!/usr/bin/env python3
"""determinism.py [--elements N] [--seed N] [--cli PROGRAM] [--devices] [--part K/N]: a nightly comparison. The same bits, whatever computes them.

A result depends on the values along the axis and on nothing else. So each case, an operation, a dtype and a shape, is computed once, with one thread and the
plainest instruction set, and then by every other way there is: each instruction set of this machine with 1 to 16 threads, in other batches, from other strides and
addresses, again, and on every CUDA device that torch has. A bit that differs is an error. At least N elements are read in all, 10^9 unless given, in whole walks through the list. The seed, of which
the values and lengths are made, is the day's number unless given. With --cli, `scanfold digest` must print the lines of tests/digests.txt for each instruction
set and number of threads too, and on each CUDA device. The last line is a row for the table in docs/order.md.

--devices: only CUDA devices, against what the CPU computes with all threads. --part 2/8: the second of eight parts of the list, and an eighth of the elements, for
processes side by side: compiling kernels takes most of the time on a device.

`make test-determinism` builds the package and runs it.
"""
import argparse, datetime, os, platform, subprocess, sys, time
import numpy as np
import scanfold

try:
    import ml_dtypes
    BF16 = [ml_dtypes.bfloat16]
except ImportError:
    BF16 = []
try:
    import torch
    DEVICES = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
except ImportError:
    DEVICES = []

REALS = [np.float16, *BF16, np.float32, np.float64]
WHOLE = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_]
SHAPES = [(1, 1 << 20), (3, 200007), (200, 5003), (5001, 101), (40001, 13)]
SHAPES_THERE = [(2, 1 << 20), (7, 200007), (400, 5003), (9001, 101), (80001, 13)]  # with --devices: fewer, larger calls
THREADS = range(1, 17)


def expression(text):
    return lambda x, axis: scanfold.run(text.replace("AXIS", str(axis)), x=x)


# Name, function of an array and an axis, dtypes.
OPERATIONS = [
    ("cumsum", lambda x, axis: scanfold.cumsum(x, axis), REALS + WHOLE),
    ("cumsum reverse", lambda x, axis: scanfold.cumsum(x, axis, reverse=True), REALS),
    ("cumprod", lambda x, axis: scanfold.cumprod(x, axis), REALS + WHOLE),
    ("cummax", lambda x, axis: scanfold.cummax(x, axis), REALS + WHOLE),
    ("cummin exclusive", lambda x, axis: scanfold.cummin(x, axis, exclusive=True), REALS + WHOLE),
    ("cummax's indices", lambda x, axis: scanfold.cummax(x, axis, return_indices=True)[1], REALS + WHOLE),
    ("logcumsumexp", lambda x, axis: scanfold.logcumsumexp(x, axis), REALS),
    ("linear_recurrence", lambda x, axis: scanfold.linear_recurrence(0.75, x, axis), REALS),
    ("sum", lambda x, axis: scanfold.sum(x, axis), REALS + WHOLE),
    ("sum reverse", lambda x, axis: scanfold.sum(x, axis, reverse=True), REALS),
    ("prod", lambda x, axis: scanfold.prod(x, axis), REALS + WHOLE),
    ("max", lambda x, axis: scanfold.max(x, axis), REALS + WHOLE),
    ("min", lambda x, axis: scanfold.min(x, axis), REALS + WHOLE),
    ("argmax", lambda x, axis: scanfold.argmax(x, axis), REALS + WHOLE),
    ("argmin", lambda x, axis: scanfold.argmin(x, axis), REALS + WHOLE),
    ("logsumexp", lambda x, axis: scanfold.logsumexp(x, axis), REALS),
    ("softmax", expression("softmax(x, AXIS)"), [np.float32, np.float64]),
    ("layer_norm", expression("layer_norm(x, AXIS)"), [np.float32, np.float64]),
    ("cumsum(exp(x))", expression("cumsum(exp(x), AXIS)"), [np.float32, np.float64]),
    ("var", expression("var(x, AXIS)"), [np.float32, np.float64]),
]


# The same elements by another way: a function of the operation and of x, (lines, n), that gives what the operation gives of x along axis 1.
def in_batches(f, x):
    cuts = [0, 1, 4, len(x) // 2 + 3, len(x)]
    return np.concatenate([np.asarray(f(x[a:b], 1)) for a, b in zip(cuts, cuts[1:]) if a < b and a < len(x)])


def down_columns(f, x):
    y = np.asarray(f(np.ascontiguousarray(x.T), 0))
    return y.T if y.ndim == 2 else y


def with_gaps(f, x):
    room = np.zeros((len(x), 2 * x.shape[1] + 3), x.dtype)
    room[:, 1:-2:2] = x
    return f(room[:, 1:-2:2], 1)


def odd_address(f, x):
    room = np.zeros(x.size + 1, x.dtype)
    room[1:] = x.ravel()
    return f(room[1:].reshape(x.shape), 1)


WAYS = {
    "the same call": lambda f, x: f(x, 1),
    "other batches": in_batches,
    "along the first axis": down_columns,
    "the first axis contiguous": lambda f, x: f(np.asfortranarray(x), 1),
    "gaps between elements": with_gaps,
    "negative strides": lambda f, x: f(np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1], 1),
    "an odd address": odd_address,
}


# The same on a device: `put` brings an array there, `back` a result from there.
def batches_there(f, x, put, back):
    cuts, there = [0, 1, 4, len(x) // 2 + 3, len(x)], put(x)
    return np.concatenate([back(f(there[a:b], 1)) for a, b in zip(cuts, cuts[1:]) if a < b and a < len(x)])


def columns_there(f, x, put, back):
    y = back(f(put(np.ascontiguousarray(x.T)), 0))
    return y.T if y.ndim == 2 else y


def gaps_there(f, x, put, back):
    room = np.zeros((len(x), 2 * x.shape[1] + 3), x.dtype)
    room[:, 1:-2:2] = x
    return back(f(put(room)[:, 1:-2:2], 1))


def odd_there(f, x, put, back):
    room = np.zeros(x.size + 1, x.dtype)
    room[1:] = x.ravel()
    return back(f(put(room)[1:].view(x.shape), 1))


WAYS_THERE = {
    "the same call": lambda f, x, put, back: back(f(put(x), 1)),
    "other batches": batches_there,
    "along the first axis": columns_there,
    "the first axis contiguous": lambda f, x, put, back: back(f(put(np.ascontiguousarray(x.T)).t(), 1)),
    "gaps between elements": gaps_there,
    "an odd address": odd_there,
}


def bits(y):
    y = np.ascontiguousarray(y)
    return y.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[y.dtype.itemsize])


def values(rng, shape, dtype, product):
    """Values that never give NaN, because the bits of a NaN are not promised."""
    if np.dtype(dtype) == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype in WHOLE:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        return rng.integers(least, most, shape, dtype, endpoint=True) | (1 if product else 0)
    if product:
        return (rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)).astype(dtype)
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 1, shape)).astype(dtype)


class Comparison:
    def __init__(self, seed, only_devices):
        self.only_devices = only_devices
        self.rng, self.elements, self.compared, self.wrong = np.random.default_rng(seed), 0, {}, []

    def same(self, way, what, right, y, count):
        self.elements += count
        self.compared[way] = self.compared.get(way, 0) + count
        if right.shape != np.shape(y) or not np.array_equal(bits(right), bits(y)):
            self.wrong.append(f"{what}: {way}")
            print("DIFFERENT:", self.wrong[-1], flush=True)

    def case(self, name, f, dtype, shape, engines, turn):
        lines, n = shape
        x = values(self.rng, (lines, int(n - self.rng.integers(0, min(n, 64) // 4 + 1))), dtype, "prod" in name)
        what = f"{name} of {np.dtype(dtype).name} {x.shape}"
        if self.only_devices:
            right = np.asarray(f(x, 1))
        else:
            with scanfold.using(isa=engines[0][0], threads=1):
                right = np.asarray(f(x, 1))
        for i, (isa, threads) in enumerate(engines):
            way = list(WAYS)[(i + turn) % len(WAYS)]
            with scanfold.using(isa=isa, threads=threads):
                self.same(way, f"{what} with {isa}, {threads} threads", right, np.asarray(WAYS[way](f, x)), x.size)
        for device in DEVICES:
            def put(a):
                t = torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) if a.dtype in BF16 else torch.from_numpy(a)
                return t.to(device)

            def back(y):
                y = y.cpu().contiguous()
                return y.view(torch.int16).numpy().view(right.dtype) if y.dtype == torch.bfloat16 else y.numpy()

            for way in WAYS_THERE if self.only_devices else [list(WAYS_THERE)[turn % len(WAYS_THERE)]]:
                self.same(f"{device}, {way}", f"{what} on {device}", right, WAYS_THERE[way](f, x, put, back), x.size)


def digests(cli, isas, devices):
    right = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "digests.txt"), "rb").read()
    wrong = []
    for isa in isas:
        for threads in THREADS:
            said = subprocess.run([cli, "digest"], env=dict(os.environ, SCANFOLD_ISA=isa, SCANFOLD_NUM_THREADS=str(threads)), stdout=subprocess.PIPE).stdout
            if said != right:
                wrong.append(f"scanfold digest with {isa}, {threads} threads")
                print("DIFFERENT:", wrong[-1], flush=True)
    for device in devices:
        if subprocess.run([cli, "digest", "--device", device], stdout=subprocess.PIPE).stdout != right:
            wrong.append(f"scanfold digest on {device}")
            print("DIFFERENT:", wrong[-1], flush=True)
    return wrong


def cpu():
    if os.path.exists("/proc/cpuinfo"):
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    today = datetime.date.today()
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--elements", type=float, default=1e9)
    arguments.add_argument("--seed", type=int, default=today.toordinal())
    arguments.add_argument("--cli")
    arguments.add_argument("--devices", action="store_true")
    arguments.add_argument("--part", default="1/1")
    given = arguments.parse_args()
    part, parts = (int(n) for n in given.part.split("/"))
    isas, start, turn = [] if given.devices else scanfold.info()["isas"], time.time(), 0
    if given.devices and not DEVICES:
        sys.exit("determinism: torch has no CUDA device here")
    engines = [(isa, threads) for isa in isas for threads in THREADS]
    work, shapes = Comparison(given.seed + part, given.devices), SHAPES_THERE if given.devices else SHAPES
    print(f"determinism: seed {given.seed}; {', '.join(isas) or 'the CPU once'}; 1 to {THREADS[-1]} threads; {', '.join(DEVICES) or 'no CUDA device'}", flush=True)
    while work.elements < given.elements / parts:  # whole walks through the list, each with another shape for an operation, and other ways for an engine
        for k, (name, f, dtypes) in enumerate(OPERATIONS):
            for d, dtype in enumerate(dtypes):
                if (k + d) % parts == part - 1:
                    work.case(name, f, dtype, shapes[(turn + k + d) % len(shapes)], engines, turn + k + d)
            print(f"{name}: {work.elements:.2e} elements after {time.time() - start:.0f} s", flush=True)
        turn += 1
    wrong = work.wrong + (digests(given.cli, isas, DEVICES) if given.cli else [])
    for way, count in work.compared.items():
        print(f"{way}: {count:.2e} elements")
    devices = [torch.cuda.get_device_name(d) for d in DEVICES]
    computed = "CUDA | -" if given.devices else f"{', '.join(isas)} | 1 to {THREADS[-1]}"
    print(f"| {today} | {', '.join([cpu(), *devices])} | {computed} | {len(work.compared)} | {work.elements:.1e} | {len(wrong)} |")
    sys.exit(len(wrong) > 0)


main()
