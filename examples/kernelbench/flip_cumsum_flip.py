"""The reverse cumulative sum as three operators, each a module that can be replaced by itself."""
import torch

import scanfold

SHAPE, DIM = (32768, 32768), 0


class Flip(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.flip(x, (self.dim,))


class Cumsum(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, dim=self.dim)


class CumsumNew(Cumsum):
    """The one of the three that computes something."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scanfold.cumsum(x, self.dim)


class Model(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.flip, self.cumsum, self.flip_back = Flip(dim), Cumsum(dim), Flip(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.flip_back(self.cumsum(self.flip(x)))


class ModelNew(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scanfold.cumsum(x, self.dim, reverse=True)


def get_inputs(shape=SHAPE, device="cpu"):
    return [torch.randn(shape, device=device)]


def get_init_inputs():
    return [DIM]
