"""The rule of docs/order.md, once more and in Python, for one line of values: a NumPy array, and a ufunc to combine with."""
import numpy as np


def left_of(n):
    """The largest power of two below n."""
    return 1 << (n - 1).bit_length() - 1


def rule_fold(x, op=np.add):
    if len(x) == 1:
        return x[0]
    k = left_of(len(x))
    return op(rule_fold(x[:k], op), rule_fold(x[k:], op))


def rule_scan(x, op=np.add):
    if len(x) <= 1:
        return x.copy()
    k = left_of(len(x))
    return np.concatenate([rule_scan(x[:k], op), op(rule_fold(x[:k], op), rule_scan(x[k:], op))])
