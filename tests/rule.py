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


def scan_and_fold(x, op):
    """Of at least one element; together, because each part of a scan needs the fold of what is to its left."""
    if len(x) == 1:
        return x.copy(), x[0]
    k = left_of(len(x))
    (left, total), (right, rest) = scan_and_fold(x[:k], op), scan_and_fold(x[k:], op)
    return np.concatenate([left, op(total, right)]), op(total, rest)


def rule_scan(x, op=np.add):
    return scan_and_fold(x, op)[0] if len(x) else x.copy()
