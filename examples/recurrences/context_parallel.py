#!/usr/bin/env python3
"""A gated linear layer whose sequence is sharded over ranks (context parallelism): each rank has some steps of every sequence, computes their gates
alone, and the state flows through all of them: h[t] = f[t] * h[t-1] + (1 - f[t]) * z[t]. What ranks exchange is a few values for each hidden unit. Checked
against the same layer on one process: not one bit of the result differs.

    python examples/recurrences/context_parallel.py            starts 3 ranks over gloo
    torchrun --nproc-per-node 4 examples/recurrences/context_parallel.py
"""
import os
import socket
import subprocess
import sys

import torch
import torch.distributed as dist

import scanfold
from scanfold import distributed as sd
from gated_rnn import GatedLinearRNN


class ContextParallelRNN(torch.nn.Module):
    def __init__(self, features, hidden, group=None):
        super().__init__()
        self.layer, self.group = GatedLinearRNN(features, hidden), group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (batch, this rank's steps, features); as many steps of the hidden state."""
        forget, update = self.layer.gates(x)
        return sd.linear_recurrence(forget, update, dim=1, group=self.group)


def rank_main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same weights and sequences everywhere
    layer = ContextParallelRNN(12, 16).double()
    x, steps = torch.randn(4, 1000, 12, dtype=torch.float64), 1000
    begin, end = steps * rank // ranks, steps * (rank + 1) // ranks
    weights = torch.linspace(-1, 1, 16, dtype=torch.float64)

    y = layer(x[:, begin:end])
    (y * weights).sum().backward()
    for p in layer.parameters():  # each rank has its steps' part of the gradient
        dist.all_reduce(p.grad)
    sharded = [p.grad.clone() for p in layer.parameters() if p.grad is not None]

    layer.zero_grad()
    forget, update = layer.layer.gates(x)
    whole = scanfold.linear_recurrence(forget, update, dim=1)
    (whole * weights).sum().backward()
    forget, update = (torch.cat(_gathered(t, ranks), 1) for t in layer.layer.gates(x[:, begin:end]))
    mine = scanfold.linear_recurrence(forget, update, dim=1)
    assert torch.equal(y, mine[:, begin:end])
    torch.testing.assert_close(y, whole[:, begin:end])
    for ours, p in zip(sharded, layer.parameters()):
        torch.testing.assert_close(ours, p.grad)
    if rank == 0:
        print(f"{steps} steps over {ranks} ranks: the bits of one process, and its gradients")
    dist.destroy_process_group()


def _gathered(t, ranks):
    """Everybody's part of the gates, for the check: a matmul of other shapes may round differently, a recurrence does not."""
    steps = [1000 * (i + 1) // ranks - 1000 * i // ranks for i in range(ranks)]
    padded = torch.zeros(t.shape[0], max(steps), t.shape[2], dtype=t.dtype)
    padded[:, :t.shape[1]] = t.detach()
    parts = [torch.empty_like(padded) for _ in range(ranks)]
    dist.all_gather(parts, padded)
    return [part[:, :n] for part, n in zip(parts, steps)]


def main():
    if "RANK" in os.environ:
        return rank_main()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = dict(os.environ, WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    ranks = [subprocess.Popen([sys.executable, __file__], env=dict(env, RANK=str(i))) for i in range(3)]
    return max([rank.wait() for rank in ranks], key=abs)


if __name__ == "__main__":
    sys.exit(main())
