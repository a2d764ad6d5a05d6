#!/usr/bin/env python3
"""Generalized advantage estimation over many environments whose episodes end at different steps:

    A[t] = delta[t] + discount * decay * (1 - done[t]) * A[t+1],  delta[t] = r[t] + discount * (1 - done[t]) * V[t+1] - V[t]

Where an episode ends the gate is 0, and nothing of the next one comes through. Tensors of torch.
"""
import torch

import scanfold


def advantages(rewards, values, done, last_value, discount=0.99, decay=0.95):
    """rewards, values, done: (steps, environments); last_value: (environments,), of what follows the last step."""
    goes_on = 1 - done.to(rewards.dtype)
    following = torch.cat((values[1:], last_value.unsqueeze(0)))
    delta = rewards + discount * goes_on * following - values
    return scanfold.linear_recurrence(discount * decay * goes_on, delta, dim=0, reverse=True)


def by_a_loop(rewards, values, done, last_value, discount, decay):
    result, following, value = torch.empty_like(rewards), torch.zeros_like(last_value), last_value
    for t in reversed(range(len(rewards))):
        goes_on = 1 - done[t].to(rewards.dtype)
        delta = rewards[t] + discount * goes_on * value - values[t]
        following = delta + discount * decay * goes_on * following
        result[t], value = following, values[t]
    return result


def main():
    torch.manual_seed(0)
    rewards, values = torch.randn(2, 500, 8, dtype=torch.float64)
    done, last_value = torch.rand(500, 8) < 0.02, torch.randn(8, dtype=torch.float64)
    result = advantages(rewards, values, done, last_value)
    torch.testing.assert_close(result, by_a_loop(rewards, values, done, last_value, 0.99, 0.95), rtol=1e-12, atol=1e-12)
    print(f"{int(done.sum())} episodes end in 500 steps of 8 environments: a loop finds the same advantages")


if __name__ == "__main__":
    main()
