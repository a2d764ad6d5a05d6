"""A matrix product, divided, summed over its features, scaled. The sum over W's rows commutes with the product."""
import torch

import scanfold.torch

BATCH, FEATURES = 1024, 8192
SHAPE = (BATCH, FEATURES)


class Model(torch.nn.Module):
    def __init__(self, input_size, hidden_size, scaling_factor):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(hidden_size, input_size))
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.matmul(x, self.weight.T)
        y = y / 2
        y = torch.sum(y, dim=1, keepdim=True)
        return y * self.scaling_factor


class ModelNew(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scanfold.torch.linear_sum(x, self.weight, scale=self.scaling_factor / 2)


def get_inputs(shape=SHAPE, device="cpu"):
    return [torch.randn(shape, device=device)]


def get_init_inputs(shape=SHAPE):
    return [shape[1], shape[1], 1.5]
