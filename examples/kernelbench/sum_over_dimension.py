"""Sum over one dimension, which stays with length 1."""
import torch

import scanfold

SHAPE, DIM = (128, 4096, 4095), 1


class Model(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x, dim=self.dim, keepdim=True)


class ModelNew(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scanfold.sum(x, dim=self.dim, keepdim=True)


def get_inputs(shape=SHAPE, device="cpu"):
    return [torch.randn(shape, device=device)]


def get_init_inputs():
    return [DIM]
