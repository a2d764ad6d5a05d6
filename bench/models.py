#!/usr/bin/env python3
"""Times models compiled by Inductor and by backend="scanfold", in turn, and says which are slower.

    PYTHONPATH=python python3 bench/models.py [--device cuda|cpu] [--only TEXT] [--seconds S]
                                              [--json FILE] [--small] [--against BACKEND]

Each model is plain torch: losses, norms, softmaxes, pools, sums, scans. One with inputs or
parameters that want a gradient is timed as in training: the forward pass that keeps what the
backward pass needs, and the backward pass by itself (torch.autograd.grad with a given gradient).
The others are timed as in inference. Both backends get the same values, and turn by turn a queue
of calls each, so that both see the same clocks; a time is the median of the turns, by CUDA's
events, or by the clock on the wall on a CPU. What seems slower is timed once more, three times as
long, before it is called so.

Results are compared as torch's own benchmarks compare Inductor's with eager mode: by
torch._dynamo.utils.same, with the same work in float64 beside it, and their tolerances.

The exit status is 1 where a model is more than 3% slower than Inductor, wrong, or not compiled.
--small is for tests: tiny shapes, where no time means anything, so none is judged. --against names
another backend of torch.compile to be timed in Inductor's place.
"""
import argparse
import json
import math
import platform
import statistics
import sys
import time

import torch
import torch.nn.functional as F

from scanfold._timing import Contender, backward_again, differs, take_turns

SLOWER = 1.03           # above this ratio to Inductor's time
MODELS = {}             # name: function of Sizes that gives (what to call, its inputs)


class Sizes:
    """Shapes and tensors, on a device. Lengths are cut down where the device or a test wants it."""

    def __init__(self, device, small=False):
        self.device = device
        self.divisor = 512 if small else 1 if device == "cuda" else 8
        self.generator = torch.Generator(device).manual_seed(7)

    def of(self, *shape):
        """The lengths that are large are cut down, to 4 at the least."""
        return [n if n <= 64 else max(4, n // self.divisor) for n in shape]

    def normal(self, *shape, grad=False):
        x = torch.randn(self.of(*shape), device=self.device, generator=self.generator)
        return x.requires_grad_(grad)

    def uniform(self, *shape, low=0.05, high=0.95, grad=False):
        x = torch.rand(self.of(*shape), device=self.device, generator=self.generator)
        return (x * (high - low) + low).requires_grad_(grad)

    def mask(self, *shape):
        return self.uniform(*shape, low=0, high=1) > 0.5

    def signs(self, *shape):
        return self.mask(*shape).float() * 2 - 1

    def classes(self, rows, classes):
        rows, classes = self.of(rows, classes)
        return torch.randint(classes, (rows,), device=self.device, generator=self.generator)


def model(make):
    MODELS[make.__name__.rstrip("_")] = make
    return make


ROWS, COLUMNS = 8192, 4096  # 128 MB of float32: longer than what a call costs the host


# --------------------------------------------------------------------------------------------------
# Losses
# --------------------------------------------------------------------------------------------------
def _pair(s, loss):
    return loss, [s.normal(ROWS, COLUMNS, grad=True), s.normal(ROWS, COLUMNS)]


@model
def mse_loss(s):
    return _pair(s, F.mse_loss)


@model
def l1_loss(s):
    return _pair(s, F.l1_loss)


@model
def smooth_l1_loss(s):
    return _pair(s, F.smooth_l1_loss)


@model
def huber_loss(s):
    return _pair(s, lambda x, y: F.huber_loss(x, y, delta=0.5))


@model
def log_cosh_loss(s):
    def loss(x, y):
        d = x - y
        return torch.mean(d + F.softplus(-2 * d) - math.log(2))
    return _pair(s, loss)


@model
def hinge_loss(s):
    return (lambda x, y: torch.mean(torch.clamp(1 - x * y, min=0)),
            [s.normal(ROWS, COLUMNS, grad=True), s.signs(ROWS, COLUMNS)])


@model
def squared_hinge_loss(s):
    return (lambda x, y: torch.mean(torch.clamp(1 - x * y, min=0).square()),
            [s.normal(ROWS, COLUMNS, grad=True), s.signs(COLUMNS)])


@model
def bce_loss(s):
    return (F.binary_cross_entropy,
            [s.uniform(ROWS, COLUMNS, grad=True), s.mask(ROWS, COLUMNS).float()])


@model
def bce_with_logits_loss(s):
    return (F.binary_cross_entropy_with_logits,
            [s.normal(ROWS, COLUMNS, grad=True), s.mask(ROWS, COLUMNS).float()])


@model
def kl_divergence(s):
    return (lambda x, y: F.kl_div(x, y, reduction="batchmean"),
            [s.normal(ROWS, COLUMNS, grad=True), torch.softmax(s.normal(ROWS, COLUMNS), 1)])


@model
def kl_divergence_of_logits(s):
    return _pair(s, lambda x, y: F.kl_div(torch.log_softmax(x, 1), torch.log_softmax(y, 1),
                                          reduction="batchmean", log_target=True))


@model
def cross_entropy(s):
    return F.cross_entropy, [s.normal(ROWS, COLUMNS, grad=True), s.classes(ROWS, COLUMNS)]


@model
def cross_entropy_of_probabilities(s):
    return (F.cross_entropy,
            [s.normal(ROWS, COLUMNS, grad=True), torch.softmax(s.normal(ROWS, COLUMNS), 1)])


@model
def nll_loss(s):
    return F.nll_loss, [s.normal(ROWS, COLUMNS, grad=True), s.classes(ROWS, COLUMNS)]


@model
def cosine_loss(s):
    return _pair(s, lambda x, y: torch.mean(1 - F.cosine_similarity(x, y, dim=1)))


@model
def triplet_margin_loss(s):
    return F.triplet_margin_loss, [s.normal(ROWS, COLUMNS, grad=True), s.normal(ROWS, COLUMNS),
                                   s.normal(ROWS, COLUMNS)]


@model
def poisson_nll_loss(s):
    return F.poisson_nll_loss, [s.normal(ROWS, COLUMNS, grad=True), s.uniform(ROWS, COLUMNS)]


@model
def dice_loss(s):
    def loss(x, y):
        p = torch.sigmoid(x)
        return 1 - (2 * (p * y).sum(1) + 1).div(p.sum(1) + y.sum(1) + 1).mean()
    return loss, [s.normal(ROWS, COLUMNS, grad=True), s.mask(ROWS, COLUMNS).float()]


# --------------------------------------------------------------------------------------------------
# Norms
# --------------------------------------------------------------------------------------------------
@model
def layer_norm(s):
    x = s.normal(ROWS, COLUMNS, grad=True)
    return torch.nn.LayerNorm(x.shape[1], device=s.device), [x]


@model
def layer_norm_inference(s):
    x = s.normal(ROWS, COLUMNS)
    return (lambda x, w, b: F.layer_norm(x, w.shape, w, b),
            [x, s.normal(COLUMNS), s.normal(COLUMNS)])


@model
def rms_norm(s):
    def norm(x, w):
        return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6) * w
    return norm, [s.normal(ROWS, COLUMNS, grad=True), s.normal(COLUMNS, grad=True)]


@model
def rms_norm_of_channels(s):
    return (lambda x: x / torch.sqrt(x.square().mean(1, keepdim=True) + 1e-5),
            [s.normal(16, 64, 256, 256)])


@model
def batch_norm_eval(s):
    return torch.nn.BatchNorm2d(64, device=s.device).eval().requires_grad_(False), \
        [s.normal(16, 64, 128, 256)]


@model
def batch_norm_train(s):
    return torch.nn.BatchNorm2d(64, device=s.device), [s.normal(16, 64, 128, 256, grad=True)]


@model
def group_norm(s):
    return torch.nn.GroupNorm(8, 64, device=s.device), [s.normal(16, 64, 128, 256, grad=True)]


@model
def l2_normalise(s):
    return lambda x: F.normalize(x, dim=1), [s.normal(ROWS, COLUMNS, grad=True)]


@model
def l1_normalise(s):
    return lambda x: x / x.abs().sum(1, keepdim=True), [s.normal(ROWS, COLUMNS)]


@model
def frobenius_normalise(s):
    return lambda x: x / torch.norm(x), [s.normal(ROWS, COLUMNS)]


# --------------------------------------------------------------------------------------------------
# Softmaxes, attention
# --------------------------------------------------------------------------------------------------
@model
def softmax(s):
    return lambda x: torch.softmax(x, 1), [s.normal(ROWS, COLUMNS, grad=True)]


@model
def softmax_down_columns(s):
    return lambda x: torch.softmax(x, 0), [s.normal(ROWS, COLUMNS)]


@model
def log_softmax(s):
    return lambda x: torch.log_softmax(x, 1), [s.normal(ROWS, COLUMNS, grad=True)]


@model
def masked_softmax(s):
    return (lambda x, m: torch.softmax(x.masked_fill(m, -1e9), 1),
            [s.normal(ROWS, COLUMNS), s.mask(ROWS, COLUMNS)])


@model
def logsumexp(s):
    return lambda x: torch.logsumexp(x, 1), [s.normal(ROWS, COLUMNS, grad=True)]


@model
def attention_scores(s):
    def scores(q, k, m):
        return torch.softmax((q @ k.transpose(-1, -2) / 8).masked_fill(m, -1e9), -1)
    length, = s.of(1024)
    causal = torch.ones(length, length, dtype=torch.bool, device=s.device).triu(1)
    return scores, [s.normal(32, 1024, 64), s.normal(32, 1024, 64), causal]


# --------------------------------------------------------------------------------------------------
# Pools after convolutions, activations
# --------------------------------------------------------------------------------------------------
class Pooled(torch.nn.Module):
    def __init__(self, s, pool):
        super().__init__()
        self.convolution = torch.nn.Conv2d(16, 32, 3, padding=1, device=s.device)
        self.pool = pool
        self.requires_grad_(False)

    def forward(self, x):
        return self.pool(self.convolution(x))


def _pooled(s, pool):
    return Pooled(s, pool), [s.normal(16, 16, 256, 256)]


@model
def convolution_global_mean(s):
    return _pooled(s, lambda y: torch.relu(y).mean((2, 3)))


@model
def convolution_max_pool(s):
    return _pooled(s, lambda y: F.max_pool2d(y, 2))


@model
def convolution_average_pool_sigmoid_sum(s):
    return _pooled(s, lambda y: torch.sigmoid(F.avg_pool2d(y, 4)).sum((1, 2, 3)))


@model
def convolution_min_tanh(s):
    return _pooled(s, lambda y: torch.tanh(torch.tanh(torch.min(y, 1, keepdim=True)[0])))


@model
def convolution_logsumexp_pool(s):
    return _pooled(s, lambda y: torch.logsumexp(y.amax((2, 3)), 1, keepdim=True))


@model
def gelu_mean(s):
    return lambda x: F.gelu(x, approximate="tanh").mean(1), [s.normal(ROWS, COLUMNS)]


# --------------------------------------------------------------------------------------------------
# Sums, scans, products of matrices
# --------------------------------------------------------------------------------------------------
@model
def sum_keepdim(s):
    return lambda x: torch.sum(x, dim=1, keepdim=True), [s.normal(16, 4096, 1024)]


@model
def masked_mean(s):
    def mean(x, m):
        kept = m.float()
        return (x * kept).sum(1) / kept.sum(1).clamp(min=1)
    return mean, [s.normal(ROWS, COLUMNS, grad=True), s.mask(ROWS, COLUMNS)]


@model
def max_over_rows(s):
    return lambda x: torch.amax(x, 1), [s.normal(ROWS, COLUMNS)]


@model
def variance(s):
    return lambda x: torch.var(x, 1), [s.normal(ROWS, COLUMNS, grad=True)]


@model
def variance_and_mean(s):
    return lambda x: torch.var_mean(x, 1), [s.normal(ROWS, COLUMNS, grad=True)]


@model
def deviation_and_mean_down_columns(s):
    return lambda x: torch.std_mean(x, 0), [s.normal(ROWS, COLUMNS)]


@model
def max_and_its_index(s):
    return lambda x: torch.max(x, 1), [s.normal(ROWS, COLUMNS, grad=True)]


@model
def min_and_max(s):
    return lambda x: torch.aminmax(x, dim=1), [s.normal(ROWS, COLUMNS)]


@model
def argmax_of_channels(s):
    return lambda x: torch.argmax(x, 1), [s.normal(16, 64, 256, 256)]


@model
def any_of_rows(s):
    return lambda m: torch.any(m, 1), [s.mask(4 * ROWS, COLUMNS)]


@model
def product(s):
    return lambda x: torch.prod(x, 1), [s.uniform(ROWS, COLUMNS, low=0.99, high=1.01)]


@model
def masked_cumsum(s):
    return (lambda x, m: torch.cumsum(x * m, dim=1),
            [s.normal(ROWS, COLUMNS, grad=True), s.mask(ROWS, COLUMNS)])


@model
def reverse_cumsum(s):
    return lambda x: torch.cumsum(x.flip(1), dim=1).flip(1), [s.normal(ROWS, COLUMNS, grad=True)]


@model
def cumsum_down_columns(s):
    return lambda x: torch.cumsum(x, dim=0), [s.normal(ROWS, COLUMNS)]


@model
def exclusive_cumsum(s):
    def scan(x):
        return torch.cumsum(torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1), 1)
    return scan, [s.normal(ROWS, COLUMNS)]


@model
def cumprod(s):
    return lambda x: torch.cumprod(x, dim=1), [s.uniform(ROWS, COLUMNS, low=0.99, high=1.01)]


@model
def cummax_with_indices(s):
    return lambda x: torch.cummax(x, 1), [s.normal(ROWS, COLUMNS, grad=True)]


@model
def logcumsumexp(s):
    return lambda x: torch.logcumsumexp(x, 1), [s.normal(ROWS, COLUMNS)]


@model
def matmul_divide_sum_scale(s):
    return (lambda x, w: torch.sum(torch.matmul(x, w.T) / 2, dim=1, keepdim=True) * 1.5,
            [s.normal(1024, 8192), s.normal(8192, 8192)])


@model
def linear_relu_mean(s):
    return (lambda x, w, b: torch.relu(F.linear(x, w, b)).mean(1),
            [s.normal(4096, 1024), s.normal(4096, 1024), s.normal(4096)])


# --------------------------------------------------------------------------------------------------
# Running
# --------------------------------------------------------------------------------------------------
def compare(runs, device, seconds):
    """(theirs, ours) in milliseconds. What seems slower is timed once more."""
    times = [], []
    take_turns(runs, device, seconds, times)
    theirs, ours = map(statistics.median, times)
    if ours > theirs * SLOWER:
        take_turns(runs, device, 3 * seconds, times)
        theirs, ours = map(statistics.median, times)
    return theirs, ours


def measure(name, options, tell):
    """Rows of the table: one for the forward pass, one for the backward pass where there is one."""
    torch._dynamo.reset()
    sizes = Sizes(options.device, options.small)
    torch.manual_seed(7)
    call, inputs = MODELS[name](sizes)
    plain, exact = Contender(call, inputs), Contender(call, inputs, dtype=torch.float64)
    eager, exact = plain.results(), exact.results()
    contenders, wrong = [], ""
    for backend in (options.against, "scanfold"):
        tell(f"compiled by {backend}")
        contenders.append(Contender(call, inputs, backend))
        try:
            results = contenders[-1].results()
        except Exception as error:
            why = (str(error).strip().splitlines() or [""])[0]
            return [{"model": name, "pass": "forward", "wrong":
                     f"{backend} raised {type(error).__name__}: {why}"}]
        if backend == "scanfold":
            wrong = differs(eager, exact, results, bool(plain.leaves))
    del eager, exact, results
    rows = []
    for way in ("forward", "backward") if plain.leaves else ("forward",):
        tell(f"{way}, timed")
        runs = [getattr(contender, way) for contender in contenders]
        theirs, ours = compare(runs, options.device, 0 if options.small else options.seconds)
        rows.append({"model": name, "pass": way, "theirs_ms": theirs, "ours_ms": ours,
                     "ratio": ours / theirs, "wrong": wrong})
    return rows


def judge(row, small=False):
    """The text of the table's last column; "" if nothing is wrong."""
    if row["wrong"]:
        return "WRONG: " + row["wrong"]
    slower = not small and row["ratio"] > SLOWER
    return f"SLOWER by {100 * (row['ratio'] - 1):.0f}%" if slower else ""


def table(rows, against, small=False):
    """The best first; those that are slower, then those that are wrong, last."""
    def place(row):
        return bool(row["wrong"]), row.get("ratio", 0)
    lines = [f"{'model':40} {'pass':9} {against + ', us':>14} {'scanfold, us':>14} {'ratio':>7}"]
    for row in sorted(rows, key=place):
        times = " " * 37
        if "ratio" in row:
            times = "{:14.1f} {:14.1f} {:7.2f}".format(
                1e3 * row["theirs_ms"], 1e3 * row["ours_ms"], row["ratio"])
        lines.append(f"{row['model']:40} {row['pass']:9} {times}  {judge(row, small)}".rstrip())
    return "\n".join(lines)


def machine(device):
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor()
    return {"device": name, "threads": torch.get_num_threads(), "torch": torch.__version__,
            "python": platform.python_version(), "system": platform.platform(),
            "command": sys.argv}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cuda", "cpu"), default=default)
    parser.add_argument("--only", help="a model, or all with this in their names; or a list")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each row's timing (0.3)")
    parser.add_argument("--json", help="where to write the rows")
    parser.add_argument("--small", action="store_true",
                        help="tiny shapes, whose times are not judged")
    parser.add_argument("--against", default="inductor", help="the other backend (inductor)")
    options = parser.parse_args(arguments)
    asked = options.only.split(",") if options.only else [""]
    names = [name for name in MODELS
             if any(text == name or (text not in MODELS and text in name) for text in asked)]
    if not names:
        parser.error(f"--only {options.only}: no model has that in its name")
    rows, begun, terminal = [], time.time(), sys.stderr.isatty()
    for number, name in enumerate(names, 1):
        def tell(what):
            line = f"[{number}/{len(names)}, {time.time() - begun:.0f} s] {name}: {what}"
            if terminal:
                sys.stderr.write(f"\r\033[K{line}")
            elif what.startswith("compiled by scanfold"):
                sys.stderr.write(line + "\n")
            sys.stderr.flush()
        with backward_again():
            rows += measure(name, options, tell)
    if terminal:
        sys.stderr.write("\r\033[K")
    print(table(rows, options.against, options.small))
    bad = [row for row in rows if judge(row, options.small)]
    print(f"{len(rows)} rows of {len(names)} models in {time.time() - begun:.0f} s; "
          f"{len(bad)} slower or wrong")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": machine(options.device), "against": options.against,
                       "rows": rows}, file, indent=1)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
