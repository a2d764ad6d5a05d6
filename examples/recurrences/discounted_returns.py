#!/usr/bin/env python3
"""Discounted returns: what is still to come at each step, R[t] = r[t] + discount * R[t+1]. Arrays of NumPy."""
import numpy as np

import scanfold


def discounted_returns(rewards, discount, after=None):
    """`after`: the value of what follows the last step, one for each line; nothing if left out."""
    return scanfold.linear_recurrence(discount, rewards, axis=-1, reverse=True, initial=after)


def by_a_loop(rewards, discount, after):
    returns, following = np.empty_like(rewards), after
    for t in reversed(range(rewards.shape[-1])):
        following = rewards[..., t] + discount * following
        returns[..., t] = following
    return returns


def main():
    random = np.random.default_rng(0)
    rewards, after = random.normal(size=(16, 1000)), random.normal(size=16)
    returns = discounted_returns(rewards, 0.99, after)
    np.testing.assert_allclose(returns, by_a_loop(rewards, 0.99, after), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(discounted_returns(rewards, 0.99), by_a_loop(rewards, 0.99, np.zeros(16)), rtol=1e-12, atol=1e-12)
    print(f"the first of 1000 steps is worth {returns[0, 0]:.6f}: a loop says the same")


if __name__ == "__main__":
    main()
