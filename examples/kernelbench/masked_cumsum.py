"""Cumulative sum of what a mask keeps."""
import torch

import scanfold

SHAPE, DIM = (32768, 32768), 1


class Model(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x * mask, dim=self.dim)


class ModelNew(Model):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return scanfold.cumsum(x, self.dim, mask=mask)


def get_inputs(shape=SHAPE, device="cpu"):
    return [torch.randn(shape, device=device), torch.randint(0, 2, shape, device=device).bool()]


def get_init_inputs():
    return [DIM]
