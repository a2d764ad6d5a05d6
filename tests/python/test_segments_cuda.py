"""Segments on a CUDA device: the CPU's bits for partitions of all kinds, gradients, a graph that is captured, and offsets that are wrong."""
import os
import subprocess
import sys

import numpy as np
import pytest

import scanfold

torch = pytest.importorskip("torch")

LENGTHS = {"empty and tiny": lambda g, n: g.integers(0, 3, n), "short": lambda g, n: g.integers(1, 40, n // 20 + 1), "long": lambda g, n: g.integers(1, 5000, n // 2500 + 1),
           "a few hold most": lambda g, n: np.floor((g.pareto(1.1, n // 30 + 1) + 1) * 5).astype(int), "one": lambda g, n: np.array([n])}
CALLS = {
    "cumsum": lambda x, o: scanfold.cumsum(x, 0, offsets=o),
    "cumsum back": lambda x, o: scanfold.cumsum(x, 0, offsets=o, reverse=True, exclusive=True),
    "sum": lambda x, o: scanfold.sum(x, 0, offsets=o),
    "max": lambda x, o: scanfold.max(x, 0, offsets=o, initial=0.5),
    "argmax": lambda x, o: scanfold.argmax(x, 0, offsets=o),
    "cumprod": lambda x, o: scanfold.cumprod(x, 0, offsets=o),
    "logcumsumexp": lambda x, o: scanfold.logcumsumexp(x, 0, offsets=o),
    "softmax": lambda x, o: scanfold.softmax(x, 0, offsets=o)[: int(o[-1])],
}


def partition(kind, n):
    ends = np.minimum(np.cumsum(LENGTHS[kind](np.random.default_rng(n), n)), n)
    return torch.from_numpy(np.concatenate([[0], ends]))


def same(got, want):
    got, want = got.cpu().numpy(), want.numpy()
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("kind", LENGTHS)
@pytest.mark.parametrize("name", CALLS)
def test_bits_of_the_cpu(cuda, name, kind):
    for shape, dtype in (((30011,), torch.float32), ((5003, 3), torch.float32), ((700, 40), torch.float64), ((9001,), torch.float16)):
        x, o = torch.from_numpy(np.random.default_rng(1).standard_normal(shape)).to(dtype), partition(kind, shape[0])
        assert same(CALLS[name](x.cuda(), o.cuda()), CALLS[name](x, o)), (shape, dtype)


def test_gradients(cuda):
    x, o = torch.randn(3000, dtype=torch.float64), partition("short", 3000)
    for name in ("cumsum", "sum", "softmax", "cumprod"):
        grads = []
        for device in ("cpu", "cuda"):
            own = x.to(device, copy=True).requires_grad_()
            CALLS[name](own, o.to(device)).sin().sum().backward()
            grads.append(own.grad.cpu())
        torch.testing.assert_close(grads[0], grads[1])


def test_a_captured_call_follows_new_offsets(cuda):
    x, o, other = torch.randn(50000, device="cuda"), partition("short", 50000), partition("long", 50000)
    offsets = torch.full((len(o),), 50000, dtype=torch.int64, device="cuda")
    offsets[0] = 0
    out = torch.empty_like(x)
    scanfold.cumsum(x, 0, offsets=offsets, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scanfold.cumsum(x, 0, offsets=offsets, out=out)
    for given in (o, other):
        offsets.fill_(50000)
        offsets[:len(given)] = given.cuda()
        graph.replay()
        assert same(out, scanfold.cumsum(x.cpu(), 0, offsets=offsets.cpu()))


BAD = """
import torch, scanfold
x = torch.ones(5000, device="cuda")
for given in ([0, 9, 4, 5000], [0, 6000], [3, 5000], [0, -7, 5000], [0, 2**40]):
    offsets = torch.tensor(given, device="cuda")
    try:
        scanfold.cumsum(x, 0, offsets=offsets), scanfold.sum(x, 0, offsets=offsets)
        print("no error")
    except ValueError as error:
        print("refused:", error)
torch.cuda.synchronize()
assert scanfold.sum(x, 0).item() == 5000
"""


@pytest.mark.parametrize("check", ("0", "1"))
def test_wrong_offsets_touch_nothing_else_and_are_named_on_request(cuda, check):
    done = subprocess.run([sys.executable, "-c", BAD], env={**os.environ, "SCANFOLD_CHECK": check}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5 and all(line.startswith("refused: offsets" if check == "1" else "no error") for line in lines), lines
