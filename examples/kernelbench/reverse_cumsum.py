"""Cumulative sum from the end to the beginning."""
import torch

import scanfold

SHAPE, DIM = (32768, 32768), 1


class Model(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x.flip(self.dim), dim=self.dim).flip(self.dim)


class ModelNew(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scanfold.cumsum(x, self.dim, reverse=True)


def get_inputs(shape=SHAPE, device="cpu"):
    return [torch.randn(shape, device=device)]


def get_init_inputs():
    return [DIM]
