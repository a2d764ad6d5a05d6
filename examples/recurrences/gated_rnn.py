#!/usr/bin/env python3
"""A gated linear recurrent layer: h[t] = f[t] * h[t-1] + (1 - f[t]) * z[t], with a forget gate and a candidate made of the input. All steps
are computed at once; autograd goes backward by the reverse recurrence. Checked against a loop over the steps, gradients and all."""
from typing import Optional, Tuple

import torch

import scanfold


class GatedLinearRNN(torch.nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.into = torch.nn.Linear(features, 2 * hidden)

    def gates(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        gate, candidate = self.into(x).chunk(2, -1)
        forget = gate.sigmoid()
        return forget, (1 - forget) * candidate.tanh()

    def forward(self, x: torch.Tensor, state: Optional[torch.Tensor] = None) -> torch.Tensor:
        """x (batch, steps, features), state (batch, hidden) or None; (batch, steps, hidden)."""
        forget, update = self.gates(x)
        return scanfold.linear_recurrence(forget, update, dim=1, initial=state)

    def by_a_loop(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        forget, update = self.gates(x)
        steps = []
        for t in range(x.shape[1]):
            state = forget[:, t] * state + update[:, t]
            steps.append(state)
        return torch.stack(steps, 1)


def main():
    torch.manual_seed(0)
    layer = GatedLinearRNN(12, 16).double()
    x, state = torch.randn(4, 100, 12, dtype=torch.float64), torch.randn(4, 16, dtype=torch.float64)
    found = []
    for run in (layer, layer.by_a_loop):
        leaves = [t.clone().requires_grad_() for t in (x, state)]
        layer.zero_grad()
        y = run(*leaves)
        (y * torch.linspace(-1, 1, 16, dtype=torch.float64)).sum().backward()
        found.append([y.detach(), *(leaf.grad for leaf in leaves), *(p.grad.clone() for p in layer.parameters() if p.grad is not None)])
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    print("100 steps at once, forward and backward: a loop finds the same values and gradients")


if __name__ == "__main__":
    main()
