#!/usr/bin/env python3
"""The exponential moving average, m[t] = (1 - alpha) * m[t-1] + alpha * x[t], from the first sample on. Arrays of NumPy."""
import numpy as np

import scanfold


def moving_average(x, alpha, axis=-1):
    """m[0] is x[0]: the average before it is taken to be that."""
    return scanfold.linear_recurrence(1 - alpha, alpha * x, axis=axis, initial=np.take(x, 0, axis))


def by_a_loop(x, alpha):
    average, m = np.empty_like(x), x[:, 0]
    for t in range(x.shape[1]):
        m = (1 - alpha) * m + alpha * x[:, t]
        average[:, t] = m
    return average


def main():
    random = np.random.default_rng(0)
    x = np.cumsum(random.normal(size=(4, 2000)), axis=1)
    average = moving_average(x, 0.05)
    np.testing.assert_allclose(average, by_a_loop(x, 0.05), rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(moving_average(x.T, 0.05, axis=0), average.T)
    print(f"four walks of 2000 steps end at averages {np.array2string(average[:, -1], precision=3)}: a loop says the same")


if __name__ == "__main__":
    main()
